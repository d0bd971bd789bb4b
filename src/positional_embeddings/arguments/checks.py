"""Checks of arguments.

Each message has the argument, the requirement and the actual value. A wrong type or dtype raises
a TypeError, a wrong value or shape a ValueError.
"""

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from numbers import Integral
from types import FunctionType
from typing import Annotated, Any, ClassVar, SupportsIndex, TypeAlias, get_args

from positional_embeddings.arguments import pytrees
from positional_embeddings.arrays import dtypes, errors, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    type_name,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, Dtype, Length, Namespace, Shape

_LARGEST = sys.float_info.max

# Keywords for arrays that are passed in place of a number.
_KEYWORDS_OF_ARRAYS = {
    "num_heads": "`embeddings` of a T5Bias, or `slopes` of an ALiBiBias",
    "q_len": "`query_positions`",
    "embedding_size": "`embeddings`",
    "vocab_size": "`embeddings`",
}

_TOKENIZER_MASK_HINT = " Pass PaddingMask.from_attention_mask(mask) if it is (batch, key)."


def integer(
    name: str, value: SupportsIndex, requirement: str = "an integer", hint: str = ""
) -> int:
    """Return an integer as an int, after checking that it is neither a bool nor a float."""
    try:
        if isinstance(value, bool):
            raise TypeError
        # For an int, PyTorch compiles a graph for all ints; `operator.index` would fix its value.
        return value if isinstance(value, int) else operator.index(value)
    except TypeError:
        raise _wrong_number_type(name, value, requirement, hint) from None


def _wrong_number_type(name: str, value: object, requirement: str, hint: str = "") -> TypeError:
    """Return the error about a value that is not a number, or not of the required type."""
    type_text = "" if getattr(value, "shape", None) else f" of type {type(value).__name__}"
    is_traced = any(base.__name__ == "Tracer" for base in type(value).__mro__)  # of JAX
    if type_text == "" and name in _KEYWORDS_OF_ARRAYS:
        hint = f" Pass an array as {_KEYWORDS_OF_ARRAYS[name]}."
    hint = hint or " Declare it static, as by static_argnames of jax.jit." * is_traced
    return wrong_type(name, f"be {requirement}", f"{format_value(value)}{type_text}", hint)


def sequence_of(
    name: str,
    values: Any,
    check: Callable[[str, Any], Any] = integer,
    requirement: str = "integers",
) -> tuple[Any, ...]:
    """Return a list, a tuple or a host array as a tuple, after checking each number."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, list | tuple | range):
        raise wrong_type(name, f"be a list or tuple of {requirement}", format_value(values))
    return tuple(check(f"{name}[{i}]", value) for i, value in enumerate(listed))


def positive_integer(
    name: str,
    value: SupportsIndex,
    *,
    even: bool = False,
    max_value: int | None = None,
    hint: str = "",
) -> int:
    """Return a positive integer as an int, after checking it; `max_value` is a power of two.

    `hint` is for a value of the wrong type.
    """
    requirement = f"a positive{' even' if even else ''} integer"
    number = integer(name, value, requirement, hint)
    if number < 1 or (even and number % 2):
        raise wrong_value(name, f"be {requirement}", format_value(number))
    return _at_most(name, number, max_value)


def _at_most(name: str, number: int, max_value: int | None) -> int:
    """Return an integer after checking it; `max_value` is a power of two, or None."""
    if max_value is not None and number > max_value:
        raise wrong_value(name, f"be at most 2**{max_value.bit_length() - 1}", format_value(number))
    return number


# Numbers of features and heads. Some lists have an entry for each.
feature_count = partial(positive_integer, max_value=2**20)

# Positions, within 64-bit integers.
position_count = partial(positive_integer, max_value=2**63)

# Lengths of axes: more than fits into memory.
axis_length = partial(positive_integer, max_value=2**48)


def optional_index(name: str, value: SupportsIndex | None, size: int) -> int | None:
    """Return an index of an axis of length `size` as an int, or None, after checking it."""
    if value is None:
        return None
    number = integer(name, value, "an integer or None")
    if not 0 <= number < size:
        raise wrong_value(name, f"be from 0 to {size - 1}, or None", format_value(number))
    return number


def quotient(name: str, value: int, divisor_name: str, divisor: int) -> int:
    """Return `value` divided by a size, after checking that it is a multiple."""
    if value % divisor:
        raise wrong_value(
            name, f"be a multiple of `{divisor_name}` = {format_value(divisor)}", value
        )
    return value // divisor


def non_negative_integer(name: str, value: SupportsIndex, *, max_value: int | None = None) -> int:
    """Return a non-negative integer as an int, after checking it; `max_value` is a power of two."""
    if type(value) is int and value >= 0 and max_value is None:  # fast path for one token
        return value
    is_traced = name == "offset" and hasattr(value, "shape")
    hint = " Pass positions=offset + arange(seq), of the library." if is_traced else ""
    number = integer(name, value, "a non-negative integer", hint)
    if number < 0:
        raise wrong_value(name, "be a non-negative integer", format_value(number))
    return _at_most(name, number, max_value)


def positive_number(name: str, value: object) -> float:
    """Return a positive finite number as an int or a float, after checking it."""
    number = finite_number(name, value, "a positive finite number")
    if number <= 0:
        raise wrong_value(name, "be a positive finite number", format_value(number))
    return number


def finite_number(name: str, value: Any, requirement: str = "a finite number") -> float:
    """Return a finite number as an int or a float, after checking it."""
    if not namespace.is_real_number(value):
        hint = errors.remedy_for_times(name, value)
        raise _wrong_number_type(name, value, requirement, hint)
    number = int(value) if isinstance(value, Integral) else float(value)
    if not -_LARGEST <= number <= _LARGEST:
        raise wrong_value(name, f"be {requirement}", format_value(number))
    return number


def rate(name: str, value: object) -> float:
    """Return a rate as a float, after checking that it is 0 or more and below 1."""
    number = finite_number(name, value, "0 or more and below 1")
    if not 0 <= number < 1:
        raise wrong_value(name, "be 0 or more and below 1", format_value(value))
    return float(number)


def boolean(name: str, value: bool) -> bool:  # noqa: FBT001 - the value to check
    """Return a flag, after checking that it is True or False."""
    if not isinstance(value, bool):
        raise wrong_type(name, "be True or False", format_value(value))
    return value


def optional_boolean(name: str, value: object) -> bool | None:
    """Return a flag, after checking that it is True, False or None."""
    if not (value is None or isinstance(value, bool)):
        raise wrong_type(name, "be True, False or None", format_value(value))
    return value


def choice(name: str, value: object, options: Sequence[Any]) -> Any:
    """Return a value, after checking that it is one of the options."""
    if not isinstance(value, str | int) or value not in options:
        listed = " or ".join(repr(option) for option in options)
        raise wrong_value(name, f"be {listed}", format_value(value))
    return value


def position_function(name: str, value: object) -> Callable[..., Array]:
    """Return a function of positions, after checking that it is no class, mask or bias."""
    if not callable(value) or isinstance(value, type | CheckedDataclass):
        raise wrong_type(name, "be a function of positions", format_value(value))
    two_arguments(name, value)
    return value


def two_arguments(name: str, function: object) -> None:
    """Check that a function of Python does not require more than two arguments."""
    if isinstance(function, FunctionType):
        code = function.__code__
        required = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]
        if len(required) > len(("q_idx", "k_idx")):
            hint = " It has no batch and no head. In a mask, True hides a key."
            actual = f"a function of ({', '.join(required)})"
            raise wrong_type(name, "be a function of (q_idx, k_idx)", actual, hint)


def _wrong_dtype(name: str, array: Array, requirement: str, hint: str = "") -> TypeError:
    return wrong_type(name, f"have {requirement}", dtypes.dtype_name(array.dtype), hint)


def real_floating(xp: Namespace, **arrays: Array) -> None:
    """Check that the named arrays hold real floating-point numbers."""
    for name, array in arrays.items():
        real_floating_dtype(name, array.dtype, xp)


def real_floating_dtype(name: str, dtype: Dtype, xp: Namespace) -> None:
    """Check that the dtype of a named array is real floating-point."""
    if not dtypes.is_real_floating(dtype, xp):
        raise wrong_type(name, "have a real floating-point dtype", dtypes.dtype_name(dtype))


def floating(xp: Namespace, **arrays: Array) -> None:
    """Check that the named arrays hold real or complex floating-point numbers."""
    for name, array in arrays.items():
        if not (dtypes.is_real_floating(array.dtype, xp) or dtypes.is_complex(array.dtype)):
            raise _wrong_dtype(name, array, "a floating-point dtype")


def mask(name: str, array: Array, xp: Namespace, hint: str = "") -> None:
    """Check that a mask is boolean; the error states the meaning of True."""
    if not dtypes.is_dtype(array.dtype, "bool", xp):
        hint += f" Pass {name} == 0 if 1 marks visible keys, {name} < 0 if it is added to scores."
        raise _wrong_dtype(name, array, "a boolean dtype, True where a query may not attend", hint)


def mask_or_bias(kind: str, name: str, array: Array, xp: Namespace) -> None:
    """Check that a mask is boolean, and that a bias holds real numbers."""
    if kind == "mask":
        is_padding = (
            name == "mask" and array.ndim == 2 and dtypes.is_dtype(array.dtype, "integral", xp)
        )
        mask(name, array, xp, _TOKENIZER_MASK_HINT * is_padding)
    else:
        real_floating(xp, **{name: array})


def signed_integers(name: str, array: Array, xp: Namespace) -> None:
    """Check that an array has a signed integer dtype."""
    if not dtypes.is_dtype(array.dtype, "signed integer", xp):
        raise _wrong_dtype(name, array, "a signed integer dtype")


def integral(name: str, array: Array, xp: Namespace) -> None:
    """Check that an array holds integers."""
    if not dtypes.is_dtype(array.dtype, "integral", xp):
        raise _wrong_dtype(name, array, "an integer dtype")


def real(name: str, array: Array, xp: Namespace) -> None:
    """Check that an array holds integers or real floating-point numbers."""
    is_real = dtypes.is_real_floating(array.dtype, xp)
    if not (is_real or dtypes.is_dtype(array.dtype, "integral", xp)):
        hint = errors.remedy_for_times(name, array)
        raise _wrong_dtype(name, array, "an integer or real dtype", hint)


def positions(name: str, array: Array, backend: Backend) -> None:
    """Check that positions are real, and that half precision represents integers of their size.

    Values of half precision are read if they are concrete and in host memory.
    """
    real(name, array, backend.xp)
    dtype = dtypes.dtype_name(array.dtype)
    if (
        dtype in ("float16", "bfloat16")
        and backend.is_concrete(array)
        and backend.is_on_host(array)
    ):
        limit = dtypes.MAX_EXACT_INTEGERS[dtype]
        with backend.compute_context(array):
            is_inexact = backend.concrete_bool(backend.xp.any(backend.xp.abs(array) >= limit))
        if is_inexact:
            actual = next(x for x in backend.to_numpy(array).ravel().tolist() if abs(x) >= limit)
            requirement = f"be within {limit - 1} in {dtype}, which lacks integers from {limit} on"
            raise wrong_value(name, requirement, actual, " Pass integers, or float32.")


def output(out: Array, x: Array, backend: Backend) -> None:
    """Check that a result with the shape and dtype of `x` can be written to `out`."""
    requirement = "be an array that can be written to"
    if not backend.is_mutable:
        raise wrong_type("out", requirement, f"{type_name(out)}: leave it out")
    dtype, out_dtype = dtypes.dtype_name(x.dtype), dtypes.dtype_name(out.dtype)
    if out_dtype != dtype:
        raise wrong_type("out", f"have the dtype of `x`, {dtype}", out_dtype)
    if tuple(out.shape) != tuple(x.shape):
        raise wrong_value("out", f"have the shape of `x`, {tuple(x.shape)}", tuple(out.shape))
    device, out_device = backend.device, backend.device_for(out)
    if out_device != device:
        raise wrong_value("out", f"be on the device of `x`, {device}", out_device)
    if not getattr(getattr(out, "flags", None), "writeable", True):
        raise wrong_value("out", requirement, "a read-only one")
    if _has_overlap(out, backend):
        raise wrong_value("out", requirement, "one whose elements share memory")


def _has_overlap(array: Array, backend: Backend) -> bool:
    """Return whether elements of an array may overlap in memory."""
    strides = backend.strides(array)
    if strides is None or 0 in array.shape:
        return False
    extent = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= extent:
            return True
        extent += (n - 1) * stride
    return False


def float_dtype(dtype: Dtype | None, default: Dtype, backend: Backend) -> Dtype:
    """Return `dtype`, after checking that the device supports it, or `default` if None."""
    if dtype is None:
        return default
    dtypes.check_real_dtype(dtype, "a real floating-point dtype", backend.xp)
    if dtypes.dtype_name(dtype) == "float64" and backend.widest_float_dtype != backend.xp.float64:
        raise wrong_value("dtype", "be a dtype that the device has", "float64")
    return dtype


def feature_dtype(x: Array, dtype: Dtype | None, backend: Backend) -> Dtype:
    """Return `dtype`; if None, the dtype of a real `x`, or the default of the library."""
    is_real = dtypes.is_real_floating(x.dtype, backend.xp)
    return float_dtype(dtype, x.dtype if is_real else backend.default_float_dtype, backend)


def within_table(
    size: int, offset: int, limit: int, limit_name: str, seq: int, name: str = "x", hint: str = ""
) -> None:
    """Check that the positions `offset` to `offset + size` - 1 lie within a table."""
    if offset + size > limit:
        requirement = f"have at most {plural(limit, 'position')} (`{limit_name}`) on axis {seq}"
        raise wrong_value(name, requirement, f"{size} at offset {format_value(offset)}", hint)


def omitted(where: str, error: Callable[..., Exception] = wrong_value, **options: object) -> None:
    """Check that options that do not apply are None."""
    for name, value in namespace.drop_none(**options).items():
        raise error(name, f"be left out {where}", format_value(value))


def broadcasts(
    name: str,
    shape: Shape,
    target: Shape,
    meaning: str,
    actual: Shape | None = None,
    hint: str = "",
) -> None:
    """Check that `shape` broadcasts to `target` and has its `ndim`; errors show `actual`."""
    if len(shape) != len(target) or not all(map(broadcasts_to, shape, target)):
        requirement = f"have shape {target} ({meaning}), with 1 where it broadcasts"
        raise wrong_value(name, requirement, shape if actual is None else actual, hint)


def max_position(backend: Backend) -> int:
    """Return the largest absolute position; the integer dtype holds four times this value."""
    return dtypes.largest_integer(backend.int_dtype, backend.xp) // 4


def is_static(size: Length) -> bool:
    """Return whether a length is known; an unknown length is NaN in dask, None in others."""
    return size is not None and size == size  # noqa: PLR0124 - NaN differs from itself


def lengths_differ(size: Length, target: Length) -> bool:
    """Return whether two lengths are known and differ."""
    return size != target and is_static(size) and is_static(target)


def broadcasts_to(size: Length, target: Length) -> bool:
    """Return whether a length, perhaps unknown, broadcasts to another."""
    return size in (1, target) or not lengths_differ(size, target)


def optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(literal: object) -> Callable[[str, Any], Any]:
    """Return the check of a value of a `Literal` type."""
    return lambda name, value: choice(name, value, get_args(literal))


# Types for the fields of a `CheckedDataclass`.
FeatureCount: TypeAlias = Annotated[int, feature_count]
PositionCount: TypeAlias = Annotated[int, position_count]
AxisLength: TypeAlias = Annotated[int, axis_length]
PositiveNumber: TypeAlias = Annotated[float, positive_number]
OptionalPositiveNumber: TypeAlias = Annotated[float | None, optional(positive_number)]
Rate: TypeAlias = Annotated[float, rate]
PositionFunction: TypeAlias = Annotated[Callable[[Array, Array], Array], position_function]


class CheckedDataclass:
    """Base class of frozen dataclasses that checks fields of type `Annotated[..., check]`."""

    _field_checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        pytrees.pending.append(cls)
        annotated = {n: t for n, t in cls.__annotations__.items() if hasattr(t, "__metadata__")}
        field_checks = {name: kind.__metadata__[0] for name, kind in annotated.items()}
        cls._field_checks = cls._field_checks | field_checks
        # Signatures show the types without checks.
        bare = {name: kind.__origin__ for name, kind in annotated.items()}
        cls.__annotations__ = cls.__annotations__ | bare

    def _check_fields(self) -> None:
        """Set each field to the result of its check."""
        for name, check in self._field_checks.items():
            set_fields(self, **{name: check(name, getattr(self, name))})

    __post_init__ = _check_fields


def set_fields(layer: Any, **values: Array) -> None:
    """Set fields of a frozen dataclass while it is constructed."""
    pytrees.register_pending()
    vars(layer).update(values)


def shapes_broadcast(shapes: Sequence[Shape]) -> bool:
    """Return whether shapes broadcast together, aligned at their last axes."""
    by_axis = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return all(len({n for n in lengths if is_static(n) and n != 1}) <= 1 for lengths in by_axis)
