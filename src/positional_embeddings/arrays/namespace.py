"""NumPy as a namespace, dtypes of any library, and constants of the host."""

from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context, ContextVar
from functools import lru_cache, wraps
from math import fsum
from numbers import Real
from operator import index
from sys import getsizeof
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy  # noqa: ICN001 - `np` is a namespace, whose arrays have no type

from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks

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

# Bytes that each `host_constant` keeps, more only for a single result that is larger.
_MOST_BYTES = 2**25

# Floats are all integers up to here, and only some of them beyond.
ALL_INTEGERS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24}

_NARROW_DTYPES = ("float16", "bfloat16", "float8_", "float6_", "float4_")


def drop_none(**arrays: Any) -> dict[str, Any]:
    """Return the optional arrays that are there, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


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


@lru_cache(maxsize=256, typed=True)
def largest_integer(dtype: Dtype, xp: Namespace) -> int:
    """Return the largest number of an integer dtype."""
    return int(xp.iinfo(dtype).max)


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


# The context that a public function was called in, None outside of public functions.
caller: ContextVar[Context | None] = ContextVar("caller", default=None)


def without_warnings() -> Any:
    """Return a context in which NumPy neither warns nor raises, as in public functions."""
    return nullcontext() if caller.get() is not None else np.errstate(all="ignore")


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
