"""Array library, device and dtype of a call.

The only module that imports NumPy: it is the default namespace, and the
host on which small constants and tables are computed.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from importlib import import_module
from math import fsum
from numbers import Real
from operator import index
from sys import getsizeof
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy  # noqa: ICN001 - `np` is a namespace, whose arrays have no type
from array_api_compat import array_namespace, is_array_api_obj

from positional_embeddings.arrays.errors import shown, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.library import library_of, library_of_namespace
from positional_embeddings.arrays.remedies import remedy_for

Namespace: TypeAlias = Any
Dtype: TypeAlias = Any
Device: TypeAlias = Any
HostArray: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]


class Array(Protocol):
    """What this library asks of an array's type; the rest is its namespace's."""

    @property
    def shape(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
Result = TypeVar("Result")

# Plain NumPy keeps the standard too; the namespace that wraps it takes 0.1 s to import.
np: Namespace = numpy
_PLAIN = {np.ndarray}

# Bytes that each `host_constant` keeps, more only for a single result that is larger.
_MOST_BYTES = 2**25

_NARROW_DTYPES = ("float16", "bfloat16", "float8_", "float6_", "float4_")


# Libraries and types that look as if they kept the standard: why they do not, and what makes a
# plain array.
_UNFIT = {
    "blosc2": ("its parts, sums and products are arrays of other types", "{}[...]"),
    "sparse": ("encodings have few zeros, if any", "{}.todense()"),
    # NumPy takes both for plain arrays: `concat` drops the mask, `*` multiplies matrices.
    "MaskedArray": ("its mask would be ignored", "{}.filled(...) and a mask of its own"),
    "matrix": ("its product is another one", "numpy.asarray({})"),
}


def namespace_of(**arrays: Any) -> Namespace:
    """Return the one namespace of the given arrays, named for the messages."""
    if set(map(type, arrays.values())) == _PLAIN:
        return np
    for name, array in arrays.items():
        _check_array(name, array)
    try:
        return _namespace(*arrays.values())
    except TypeError:
        *names, last = (f"`{name}`" for name in arrays)
        kinds = ", ".join(f"{type_name(array)} for `{name}`" for name, array in arrays.items())
        message = f"{', '.join(names)} and {last} must come from one array library, got {kinds}."
        raise TypeError(message) from None


def drop_none(**arrays: Any) -> dict[str, Any]:
    """Return the optional arrays that are there, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


def _check_array(name: str, array: Any) -> None:
    library = _library_name(array)
    unfit = next((kind for kind in (library, *_names_of_types(array)) if kind in _UNFIT), None)
    if unfit is not None:
        reason, line = _UNFIT[unfit]
        came = f"{type_name(array)}: {reason}"
        raise wrong_type(name, "be a plain array", came, f" Pass {line.format(name)}.")
    if not is_array_api_obj(array):
        raise wrong_type(
            name,
            "be an array (NumPy, CuPy, PyTorch, JAX, dask, ...)",
            type_name(array),
            remedy_for(name, array),
        )
    if library_of(array).needs_elements and 0 in array.shape:
        came = f"shape {tuple(array.shape)}, with which {library} cannot compute"
        raise wrong_value(name, "have elements", came, f" Pass {name}.compute().")


def _library_name(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _names_of_types(array: Any) -> list[str]:
    return [kind.__name__ for kind in type(array).__mro__]


def _namespace(*arrays: Any) -> Namespace:
    for array in arrays:
        _import_wrapper(_library_name(array))
    return adapted(array_namespace(*arrays))


@lru_cache
def adapted(xp: Namespace) -> Namespace:
    """Return a namespace that keeps the standard: `xp`, or one that forwards to it."""
    return library_of_namespace(xp).namespace(xp)


def namespace_or_numpy(xp: Namespace | None) -> Namespace:
    """Return `xp` as a namespace that keeps the standard, NumPy's if None."""
    if xp is None or xp is np:
        return np
    try:
        empty = xp.empty(0)
        found = _namespace(empty)
    except (AttributeError, TypeError):
        raise wrong_type("xp", "be an array namespace such as numpy or cupy", shown(xp)) from None
    library = _library_name(empty)
    if library in _UNFIT:
        what = f"{library}: {_UNFIT[library][0]}"
        remedy = f" Leave it out, and pass the result to {library}.asarray."
        raise wrong_type("xp", "be a namespace of plain arrays", what, remedy)
    return found


def device_of(array: Any) -> Device:
    """Return the device to make arrays on that meet `array`; None leaves it to the library."""
    return library_of(array).device(array)


def is_host_array(x: Any) -> bool:
    """Tell whether `x` is an array of NumPy itself, not of a subclass."""
    return type(x) is np.ndarray


@lru_cache(maxsize=256, typed=True)
def dtype_name(dtype: Dtype) -> str:
    """Return the bare name of a dtype of any library, such as "float32"."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


@lru_cache(maxsize=256, typed=True)
def is_dtype(dtype: Dtype, kind: str, xp: Namespace) -> bool:
    """Tell whether `dtype` is of a kind of the standard; ml_dtypes' are of none in NumPy."""
    try:
        return bool(xp.isdtype(dtype, kind))
    except (AttributeError, TypeError):
        return False


@lru_cache(maxsize=256, typed=True)
def is_real_floating(dtype: Dtype, xp: Namespace) -> bool:
    """Tell whether `dtype` holds real floating-point numbers, ml_dtypes' bfloat16 included."""
    # NumPy does not know the kind of ml_dtypes' types.
    is_bfloat16 = not isinstance(dtype, str) and dtype_name(dtype) == "bfloat16"
    return is_bfloat16 or is_dtype(dtype, "real floating", xp)


def is_real_number(value: Any) -> bool:
    """Tell whether a value is a real number; NumPy takes its spans of time for integers."""
    return isinstance(value, Real) and not isinstance(value, bool | numpy.timedelta64)


def check_real_dtype(
    dtype: Dtype, what: str, xp: Namespace, other_kind: str = "real floating"
) -> None:
    """Check that an option is a dtype of real numbers, or of another kind."""
    try:
        fits = is_real_floating(dtype, xp) or is_dtype(dtype, other_kind, xp)
    except (TypeError, ValueError):  # what has no hash is no dtype
        fits = False
    if not fits:
        raise wrong_type("dtype", f"be {what} of the library", shown(dtype))


def float_dtype(dtype: Dtype | None, default: Dtype, xp: Namespace, on: Device) -> Dtype:
    """Return `dtype` after checking that the device has it, or `default` if None."""
    if dtype is None:
        return default
    check_real_dtype(dtype, "a real floating-point dtype", xp)
    if dtype_name(dtype) == "float64" and widest_float(xp, on) != xp.float64:
        raise wrong_value("dtype", "be a dtype that the device has", "float64")
    return dtype


def feature_dtype(x: Any, dtype: Dtype | None, xp: Namespace) -> Dtype:
    """Return the dtype of features: `dtype`; if None, the dtype of a real `x`, or the default."""
    on = device_of(x)
    default = x.dtype if is_real_floating(x.dtype, xp) else default_float(xp, on)
    return float_dtype(dtype, default, xp, on)


def widest_float(xp: Namespace, on: Device) -> Dtype:
    """Return float64, or float32 on a device that has no float64."""
    floats = xp.__array_namespace_info__().dtypes(device=on, kind="real floating")
    return xp.float64 if "float64" in floats else xp.float32


def default_float(xp: Namespace, on: Device) -> Dtype:
    """Return the real dtype that the library gives to numbers without one."""
    return xp.__array_namespace_info__().default_dtypes(device=on)["real floating"]


def default_integer(xp: Namespace, on: Device) -> Dtype:
    """Return the integer dtype of positions: int64, or int32 on a device without 64 bits."""
    return xp.__array_namespace_info__().default_dtypes(device=on)["integral"]


@lru_cache(maxsize=256, typed=True)
def is_complex(dtype: Dtype) -> bool:
    """Tell whether `dtype` holds complex floating-point numbers."""
    return dtype_name(dtype) in ("complex64", "complex128")


@lru_cache(maxsize=256, typed=True)
def compute_dtype(dtype: Dtype, xp: Namespace) -> Dtype:
    """Return the real dtype to compute in: float32 for half precision and complex64.

    It is in the byte order of the machine.
    """
    name = dtype_name(dtype)
    if name in ("float64", "complex128"):
        return xp.float64
    narrow = name in ("float32", "complex64") or name.startswith(_NARROW_DTYPES)
    return xp.float32 if narrow else dtype


def select(condition: Any, first: Any, second: Any, xp: Namespace) -> Any:
    """Return `first` where a condition holds, else `second`, in the dtype of `first`.

    CuPy's `where` has no bfloat16, and gives float32.
    """
    return xp.astype(xp.where(condition, first, second), first.dtype, copy=False)


def host_constant(function: Callable[..., Result]) -> Callable[..., Result]:
    """Keep the results of a function from numbers and text to numbers and text.

    PyTorch does not look into it when it compiles: the result is a constant to it.
    """
    size = 0

    @lru_cache(maxsize=256)
    def kept(*values: Any) -> Result:
        nonlocal size
        result = function(*values)
        added = _bytes_of(values) + _bytes_of(result)
        size += added
        if size > _MOST_BYTES:
            kept.cache_clear()
            size = added
        return result

    def constant(*values: Any) -> Result:
        return kept(*values)

    # What torch.compiler.assume_constant_result sets, without importing PyTorch for it.
    constant._dynamo_marked_constant = True  # type: ignore[attr-defined] # noqa: SLF001

    @wraps(function)
    def call(*values: Any) -> Result:
        return constant(*map(_fixed, values))

    return call


@host_constant
@finished_before_forks
def _import_wrapper(library: str) -> None:
    """Import the namespace that makes a library keep the standard, if there is one."""
    with suppress(ModuleNotFoundError):
        import_module(f"array_api_compat.{'dask.array' if library == 'dask' else library}")


def _bytes_of(value: Any) -> int:
    """Return the memory of a number, a text, or of lists and tuples of them."""
    parts = value if isinstance(value, list | tuple) else ()
    return getsizeof(value) + sum(map(_bytes_of, parts))


def _fixed(value: Any) -> Any:
    """Return a number as one that PyTorch compiles for, where it would compile for any."""
    if isinstance(value, int) and not isinstance(value, bool):
        return index(value)
    if isinstance(value, tuple):
        return tuple(map(_fixed, value))
    return fsum((value,)) if isinstance(value, float) else value


def without_warnings() -> Any:
    """Return a context in which NumPy does not warn of numbers that are not finite."""
    return np.errstate(invalid="ignore", over="ignore")


@finished_before_forks
def random_generator(rng: Any) -> "numpy.random.Generator":
    """Return a NumPy generator from a seed, a generator or None."""
    what = "a non-negative integer seed or a numpy.random.Generator"
    seed = isinstance(rng, int | numpy.integer) and is_real_number(rng)
    if not (rng is None or seed or isinstance(rng, numpy.random.Generator)):
        raise wrong_type("rng", f"be {what}", shown(rng))
    if seed and rng < 0:
        raise wrong_value("rng", f"be {what}", rng)
    return numpy.random.default_rng(rng)


def to_host(array: Any, xp: Namespace) -> HostArray:
    """Return an array of any library and device as one of NumPy; dask has to compute it."""
    array = xp.astype(array, compute_dtype(array.dtype, xp), copy=False)  # NumPy has no bfloat16
    values: HostArray = library_of(array).to_numpy(array)
    return values
