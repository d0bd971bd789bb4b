"""Checks of arguments, with one style of message.

Every message names the argument, what it must be, and what came. The wrong
kind of thing is a TypeError; the wrong value or shape is a ValueError.
"""

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from numbers import Integral
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


def integer(name: str, value: SupportsIndex, requirement: str = "an integer") -> int:
    """Return `value` as an int; a bool or a float is a TypeError."""
    try:
        if isinstance(value, bool):
            raise TypeError
        # To PyTorch, where it compiles, an int may vary from call to call, and an index may not.
        return value if isinstance(value, int) else operator.index(value)
    except TypeError:
        raise _wrong_kind(name, value, requirement) from None


def _wrong_kind(name: str, value: object, requirement: str, hint: str = "") -> TypeError:
    """Return the error about a value that is no number of the kind that is asked for."""
    type_text = "" if getattr(value, "shape", None) else f" of type {type(value).__name__}"
    return wrong_type(name, f"be {requirement}", f"{format_value(value)}{type_text}", hint)


def sequence_of(
    name: str,
    values: Any,
    check: Callable[[str, Any], Any] = integer,
    requirement: str = "integers",
) -> tuple[Any, ...]:
    """Return a list, a tuple or an array of the host as a tuple, after checking each number."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, list | tuple | range):
        raise wrong_type(name, f"be a list or tuple of {requirement}", format_value(values))
    return tuple(check(f"{name}[{i}]", value) for i, value in enumerate(listed))


def positive_integer(
    name: str, value: SupportsIndex, *, even: bool = False, most: int | None = None
) -> int:
    """Return a size as an int, one or more, and at most a power of two."""
    requirement = f"a positive{' even' if even else ''} integer"
    number = integer(name, value, requirement)
    if number < 1 or (even and number % 2):
        raise wrong_value(name, f"be {requirement}", format_value(number))
    if most is not None and number > most:
        raise wrong_value(name, f"be at most 2**{most.bit_length() - 1}", format_value(number))
    return number


# Features, heads and other things that Python's own lists are made of.
feature_count = partial(positive_integer, most=2**20)

# Positions: 64-bit integers count no further.
position_count = partial(positive_integer, most=2**63)

# The length of an axis: more than any memory holds.
axis_length = partial(positive_integer, most=2**48)


def optional_index(name: str, value: SupportsIndex | None, size: int) -> int | None:
    """Return an index below `size`, or None."""
    if value is None:
        return None
    number = integer(name, value, "an integer or None")
    if not 0 <= number < size:
        raise wrong_value(name, f"be from 0 to {size - 1}, or None", format_value(number))
    return number


def quotient(name: str, value: int, divisor_name: str, divisor: int) -> int:
    """Return `value` divided by a size that must divide it."""
    if value % divisor:
        raise wrong_value(
            name, f"be a multiple of `{divisor_name}` = {format_value(divisor)}", value
        )
    return value // divisor


def non_negative_integer(name: str, value: SupportsIndex) -> int:
    """Return an offset as an int, zero or more."""
    if type(value) is int and value >= 0:  # a step of one token notices the time of others
        return value
    number = integer(name, value, "a non-negative integer")
    if number < 0:
        raise wrong_value(name, "be a non-negative integer", format_value(number))
    return number


def positive_number(name: str, value: object) -> float:
    """Return a finite number above zero as an int or a float."""
    number = finite_number(name, value, "a positive finite number")
    if number <= 0:
        raise wrong_value(name, "be a positive finite number", format_value(number))
    return number


def finite_number(name: str, value: Any, requirement: str = "a finite number") -> float:
    """Return a finite number of any sign as an int or a float."""
    if not namespace.is_real_number(value):
        raise _wrong_kind(name, value, requirement, errors.remedy_for_times(name, value))
    number = int(value) if isinstance(value, Integral) else float(value)
    if not -_LARGEST <= number <= _LARGEST:
        raise wrong_value(name, f"be {requirement}", format_value(number))
    return number


def rate(name: str, value: object) -> float:
    """Return a rate, 0 or more and below 1."""
    number = finite_number(name, value, "0 or more and below 1")
    if not 0 <= number < 1:
        raise wrong_value(name, "be 0 or more and below 1", format_value(value))
    return float(number)


def boolean(name: str, value: bool) -> bool:  # noqa: FBT001 - it is the value that is checked
    """Return a flag; anything but True and False is a TypeError."""
    if not isinstance(value, bool):
        raise wrong_type(name, "be True or False", format_value(value))
    return value


def optional_boolean(name: str, value: object) -> bool | None:
    """Return True, False or None; anything else is a TypeError."""
    if not (value is None or isinstance(value, bool)):
        raise wrong_type(name, "be True, False or None", format_value(value))
    return value


def choice(name: str, value: object, options: Sequence[Any]) -> Any:
    """Return one of the spelled-out options."""
    if not isinstance(value, str | int) or value not in options:
        listed = " or ".join(repr(option) for option in options)
        raise wrong_value(name, f"be {listed}", format_value(value))
    return value


def position_function(name: str, value: object) -> Callable[..., Array]:
    """Return a function of positions, which is neither a class nor a mask or a bias."""
    if not callable(value) or isinstance(value, type | CheckedDataclass):
        raise wrong_type(name, "be a function of positions", format_value(value))
    return value


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


def mask(name: str, array: Array, xp: Namespace) -> None:
    """Check that a mask is boolean, and name the polarity if it is not."""
    if not dtypes.is_dtype(array.dtype, "bool", xp):
        hint = f" Pass {name} == 0 if 1 marks what is seen, {name} < 0 if it is added to scores."
        raise _wrong_dtype(name, array, "a boolean dtype, True where a query may not attend", hint)


def mask_or_bias(kind: str, name: str, array: Array, xp: Namespace) -> None:
    """Check that a mask is boolean, and that a bias holds real numbers."""
    if kind == "mask":
        mask(name, array, xp)
    else:
        real_floating(xp, **{name: array})


def signed_integers(name: str, array: Array, xp: Namespace) -> None:
    """Check that an array holds integers that may be negative."""
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
    """Check that an array holds numbers, and in half precision every integer as far as they go.

    They are read where they are in the memory of the host.
    """
    real(name, array, backend.xp)
    dtype = dtypes.dtype_name(array.dtype)
    if (
        dtype in ("float16", "bfloat16")
        and backend.is_concrete(array)
        and backend.is_on_host(array)
    ):
        first = dtypes.ALL_INTEGERS[dtype]
        with backend.compute_context(array):
            is_far = backend.concrete_bool(backend.xp.any(backend.xp.abs(array) >= first))
        if is_far:
            got = next(x for x in backend.to_numpy(array).ravel().tolist() if abs(x) >= first)
            requirement = f"be within {first - 1} in {dtype}, which lacks integers from {first} on"
            raise wrong_value(name, requirement, got, " Pass integers, or float32.")


def output(out: Array, x: Array, backend: Backend) -> None:
    """Check that a result like `x` can be written to `out`."""
    writable = "be an array that can be written to"
    if not backend.is_mutable:
        raise wrong_type("out", writable, f"{type_name(out)}: leave it out")
    dtype, out_dtype = dtypes.dtype_name(x.dtype), dtypes.dtype_name(out.dtype)
    if out_dtype != dtype:
        raise wrong_type("out", f"have the dtype of `x`, {dtype}", out_dtype)
    if tuple(out.shape) != tuple(x.shape):
        raise wrong_value("out", f"have the shape of `x`, {tuple(x.shape)}", tuple(out.shape))
    device, out_device = backend.device, backend.device_for(out)
    if out_device != device:
        raise wrong_value("out", f"be on the device of `x`, {device}", out_device)
    if not getattr(getattr(out, "flags", None), "writeable", True):
        raise wrong_value("out", writable, "a read-only one")
    if _repeats_elements(out, backend):
        raise wrong_value("out", writable, "one whose elements share memory")


def _repeats_elements(array: Array, backend: Backend) -> bool:
    """Tell whether several elements of an array may be one number in memory."""
    strides = backend.strides(array)
    if strides is None or 0 in array.shape:
        return False
    visible_keys = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= visible_keys:
            return True
        visible_keys += (n - 1) * stride
    return False


def float_dtype(dtype: Dtype | None, default: Dtype, backend: Backend) -> Dtype:
    """Return `dtype` after checking that the device has it, or `default` if None."""
    if dtype is None:
        return default
    dtypes.check_real_dtype(dtype, "a real floating-point dtype", backend.xp)
    if dtypes.dtype_name(dtype) == "float64" and backend.widest != backend.xp.float64:
        raise wrong_value("dtype", "be a dtype that the device has", "float64")
    return dtype


def feature_dtype(x: Array, dtype: Dtype | None, backend: Backend) -> Dtype:
    """Return the dtype of features: `dtype`; if None, the dtype of a real `x`, or the default."""
    is_real = dtypes.is_real_floating(x.dtype, backend.xp)
    return float_dtype(dtype, x.dtype if is_real else backend.default_float, backend)


def within_table(
    size: int, offset: int, limit: int, limit_name: str, seq: int, name: str = "x"
) -> None:
    """Check that the positions `offset` to `offset + size` lie within a table."""
    if offset + size > limit:
        requirement = f"have at most {plural(limit, 'position')} (`{limit_name}`) on axis {seq}"
        raise wrong_value(name, requirement, f"{size} at offset {format_value(offset)}")


def left_out(where: str, error: Callable[..., Exception] = wrong_value, **options: object) -> None:
    """Check that options, None by default, are left out where they have no use."""
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
    """Check that each axis of `shape` is as long as in `target`, or 1; messages show `actual`."""
    if len(shape) != len(target) or not all(map(broadcasts_to, shape, target)):
        requirement = f"have shape {target} ({meaning}), with 1 where it broadcasts"
        raise wrong_value(name, requirement, shape if actual is None else actual, hint)


def max_position(backend: Backend) -> int:
    """Return the largest distance of a position from 0 for which integers hold twice a distance."""
    return dtypes.largest_integer(backend.integer, backend.xp) // 4


def is_static(size: Length) -> bool:
    """Tell whether a lazy library knows a length: dask says NaN, others None."""
    return size is not None and size == size  # noqa: PLR0124 - NaN is not itself


def known_to_differ(size: Length, target: Length) -> bool:
    """Tell whether two lengths differ; one that is not known differs from none."""
    return size != target and is_static(size) and is_static(target)


def broadcasts_to(size: Length, target: Length) -> bool:
    """Tell whether a length broadcasts to another."""
    return size in (1, target) or not known_to_differ(size, target)


def optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return the check of what may be None, too."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(literal: object) -> Callable[[str, Any], Any]:
    """Return the check of a choice among the values of a `Literal` type."""
    return lambda name, value: choice(name, value, get_args(literal))


# Types of fields of a `CheckedDataclass`.
FeatureCount: TypeAlias = Annotated[int, feature_count]
PositionCount: TypeAlias = Annotated[int, position_count]
AxisLength: TypeAlias = Annotated[int, axis_length]
PositiveNumber: TypeAlias = Annotated[float, positive_number]
OptionalPositiveNumber: TypeAlias = Annotated[float | None, optional(positive_number)]
Rate: TypeAlias = Annotated[float, rate]
PositionFunction: TypeAlias = Annotated[Callable[[Array, Array], Array], position_function]


class CheckedDataclass:
    """Base of frozen dataclasses: a field of type `Annotated[..., check]` is checked by it."""

    _field_checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        pytrees.waiting.append(cls)
        annotated = {n: t for n, t in cls.__annotations__.items() if hasattr(t, "__metadata__")}
        own_checks = {name: kind.__metadata__[0] for name, kind in annotated.items()}
        cls._field_checks = cls._field_checks | own_checks
        # Signatures show the bare types.
        bare = {name: kind.__origin__ for name, kind in annotated.items()}
        cls.__annotations__ = cls.__annotations__ | bare

    def _check_fields(self) -> None:
        """Set each field to what its check returns."""
        for name, check in self._field_checks.items():
            set_fields(self, **{name: check(name, getattr(self, name))})

    __post_init__ = _check_fields


def set_fields(layer: Any, **values: Array) -> None:
    """Set fields of a frozen dataclass while it is made."""
    pytrees.register_waiting()
    vars(layer).update(values)


def shapes_broadcast(shapes: Sequence[Shape]) -> bool:
    """Tell whether shapes broadcast together, aligned at their last axes."""
    by_axis = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return all(len({n for n in lengths if is_static(n) and n != 1}) <= 1 for lengths in by_axis)
