"""Types for annotations, NumPy as the default namespace, and small helpers."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from numbers import Real
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy  # noqa: ICN001 - `np` is typed as a `Namespace`

from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks

Namespace: TypeAlias = Any
Dtype: TypeAlias = Any
Device: TypeAlias = Any
# An array of any library; public signatures have `AnyArray`, which type checkers can check.
Array: TypeAlias = Any
# The length of an axis; an unknown length is NaN in dask, and None in other lazy libraries.
Length: TypeAlias = Any
Shape: TypeAlias = tuple[Length, ...]
HostArray: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]


class AnyArray(Protocol):
    """Attributes of arrays that this library uses; all other operations are in the namespace."""

    @property
    def shape(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=AnyArray)
Result = TypeVar("Result")

# NumPy itself conforms to the standard; its wrapper in array_api_compat takes 0.1 s to import.
np: Namespace = numpy


# Results of each `cached_lookup`.
_MAX_RESULTS = 256


def is_compiling() -> bool:
    """Return whether PyTorch is compiling the calling code."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def cached_lookup(function: Callable[..., Result]) -> Callable[..., Result]:
    """Cache the results of a function of dtypes, types, namespaces and integers.

    A compiler of PyTorch warns about `lru_cache`; for it, these results are constants.
    """
    results: dict[tuple[object, ...], Result] = {}

    @wraps(function)
    def call(*values: object) -> Result:
        key = type(values[0]), values  # dtypes of other libraries may have equal hashes
        result = results.get(key)
        if result is None:
            if len(results) >= _MAX_RESULTS:
                results.clear()
            result = results[key] = function(*values)
        return result

    # As torch.compiler.assume_constant_result does, without importing PyTorch.
    call._dynamo_marked_constant = True  # type: ignore[attr-defined] # noqa: SLF001
    return call


def ignore_fp_errors() -> AbstractContextManager[object]:
    """Return a context in which NumPy neither warns nor raises for floating-point errors."""
    return nullcontext() if is_compiling() else numpy.errstate(all="ignore")


def drop_none(**arrays: Array) -> dict[str, Array]:
    """Return the optional arrays that are not None, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


def is_real_number(value: object) -> bool:
    """Return whether a value is a real number; for NumPy, `timedelta64` is an integer."""
    return isinstance(value, Real) and not isinstance(value, bool | numpy.timedelta64)


def select(condition: Array, first: Array, second: Array, xp: Namespace) -> Array:
    """Return `first` where a condition is True, else `second`, in the dtype of `first`.

    CuPy's `where` returns float32 for bfloat16.
    """
    return xp.astype(xp.where(condition, first, second), first.dtype, copy=False)


@finished_before_forks
def random_generator(rng: Any) -> "numpy.random.Generator":
    """Return a NumPy generator from a seed, a generator or None."""
    requirement = "a non-negative integer seed or a numpy.random.Generator"
    seed = isinstance(rng, int | numpy.integer) and is_real_number(rng)
    if not (rng is None or seed or isinstance(rng, numpy.random.Generator)):
        raise wrong_type("rng", f"be {requirement}", format_value(rng))
    if seed and rng < 0:
        raise wrong_value("rng", f"be {requirement}", rng)
    return numpy.random.default_rng(rng)
