"""Caches of host results, and read-only arrays."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from math import fsum
from operator import index
from sys import getsizeof
from typing import Any, TypeVar

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.backends.torch import tensors_key
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, is_compiling, np

Result = TypeVar("Result")

# Bytes of the results of each `cached_constant`; a single larger result is cached, too.
_MAX_BYTES = 2**25


def cached_constant(function: Callable[..., Result]) -> Callable[..., Result]:
    """Cache the results of a function from numbers and text to numbers and text.

    A compiler of PyTorch does not trace the function: its result is a constant of the graph.
    """
    size = 0

    @lru_cache(maxsize=256)
    def cached(*values: object) -> Result:
        nonlocal size
        result = function(*values)
        added = _memory_size(values) + _memory_size(result)
        size += added
        if size > _MAX_BYTES:
            cached.cache_clear()
            size = added
        return result

    def constant(*values: object) -> Result:
        return cached(*values)

    # As torch.compiler.assume_constant_result does, without importing PyTorch.
    constant._dynamo_marked_constant = True  # type: ignore[attr-defined] # noqa: SLF001

    @wraps(function)
    def call(*values: object) -> Result:
        return constant(*map(specialized, values))

    return call


def _memory_size(value: object) -> int:
    """Return the bytes of a number, a text, or nested lists and tuples of numbers and texts."""
    parts = value if isinstance(value, list | tuple) else ()
    return getsizeof(value) + sum(map(_memory_size, parts))


def specialized(value: object) -> object:
    """Return an equal value that PyTorch treats as a constant of a graph."""
    if isinstance(value, int) and not isinstance(value, bool):
        return index(value)
    if isinstance(value, tuple):
        return tuple(map(specialized, value))
    return fsum((value,)) if isinstance(value, float) else value


def remember(
    cache: dict[Any, Any] | None, key: Hashable, value: object, max_size: int = 64
) -> None:
    """Add a value to a cache, and drop the oldest values beyond `max_size`.

    Do nothing if `key` or `cache` is None.
    """
    if cache is None or key is None:
        return
    cache[key] = value
    if len(cache) > max_size:
        # `list(cache)` is atomic, so that other threads may add values meanwhile.
        for old in list(cache)[:-max_size]:
            cache.pop(old, None)


def get_or_compute(
    cache: dict[Any, Any] | None, key: Hashable, compute: Callable[[], Result]
) -> Result:
    """Return the cached value of a key; compute and cache it if there is none."""
    result: Result | None = None if cache is None else cache.get(key)
    if result is None:
        result = compute()
        remember(cache, key, result)
    return result


# The last 64 arrays of `constant_array`, by function, values, dtype and `Backend.cache_key`.
_constants: dict[Any, Array] = {}


def constant_array(
    function: Callable[..., Any], *values: Any, dtype: Dtype, backend: Backend
) -> Array:
    """Return the result of a `cached_constant` as an array, which the caller must not return.

    The array is cached if the library allows it, so that later calls copy nothing to a device.
    """
    device_key = backend.cache_key
    key = None if device_key is None else (function, values, dtype, *device_key)

    def compute() -> Array:
        return backend.xp.asarray(function(*values), dtype=dtype, device=backend.device)

    return get_or_compute(_constants, key, compute)


_PLAIN = {np.ndarray, type(None)}


def arrays_key(array: Any, *others: Any) -> tuple[Any, ...] | None:
    """Return the key of a plan for arrays, of which the others may be None.

    It is `signature_of` NumPy arrays, else `call_key`.
    """
    return signature_of(array, *others) or call_key(array, None, *others)


def signature_of(*arrays: Any) -> tuple[Any, ...] | None:
    """Return the shapes and dtypes of optional NumPy arrays, as the key of a plan.

    The key is None if an array belongs to another library, or PyTorch compiles.
    """
    if is_compiling() or not _PLAIN.issuperset(map(type, arrays)):
        return None
    return tuple([None if array is None else (array.shape, array.dtype) for array in arrays])


def call_key(x: Any, out: Any, *inputs: Any) -> tuple[Any, ...] | None:
    """Return the key of a plan: all that determines the checks and the kernel of a call.

    The key is None unless all arrays are NumPy arrays, CuPy arrays on one device, or tensors of
    PyTorch outside of its modes and transformations. `inputs` may be None; their strides are not
    part of the key.
    """
    kind = type(x)
    key: tuple[Any, ...]
    if kind is np.ndarray:
        device, key = None, (x.dtype, x.shape, x.strides, x.flags.aligned)
    elif kind.__module__ == "cupy":
        device, key = x.data.device_id, (kind, x.dtype, x.shape, x.strides, x.data.device_id)
    elif kind.__module__ == "torch":
        tensors = tensors_key(x, out, *inputs)
        return tensors and (*tensors, out is x, None if out is None else out.stride())
    else:
        return None
    for array in inputs if out is None else (*inputs, out):
        if array is None:
            continue
        if type(array) is not kind or (device is not None and array.data.device_id != device):
            return None
        key = *key, array.dtype, array.shape
    if out is not None:
        flags = out.flags
        writable = device is not None or (flags.aligned, flags.writeable)
        key = *key, out is x, out.strides, writable
    return key


class _ReadOnly:
    """Owner of the memory of an array, so that no view of it can be made writable."""

    __array_struct__: object


def read_only(array: HostArray) -> HostArray:
    """Return a read-only view of a host array, which cannot be made writable."""
    view, holder = array.view(), _ReadOnly()
    view.flags.writeable = False
    holder.__array_struct__ = view.__array_struct__
    return np.asarray(holder)  # type: ignore[no-any-return]


def frozen_copy(array: HostArray) -> HostArray:
    """Return a copy that cannot be made writable, or the array itself if `read_only` made it."""
    # The base is the holder, alone or in a tuple with the structure.
    base: object = array.base
    if isinstance(base[0] if isinstance(base, tuple) else base, _ReadOnly):
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())  # type: ignore[no-any-return]
