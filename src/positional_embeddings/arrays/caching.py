"""What is kept from call to call: results of the host, and arrays that nobody can write to."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from math import fsum
from operator import index
from sys import getsizeof
from typing import Any, TypeVar

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, is_compiling, np

Result = TypeVar("Result")

# Bytes of results that each `cached_constant` keeps, more only for a single result that is larger.
_MOST_BYTES = 2**25


def cached_constant(function: Callable[..., Result]) -> Callable[..., Result]:
    """Keep the results of a function from numbers and text to numbers and text.

    PyTorch does not look into it when it compiles: the result is a constant to it.
    """
    size = 0

    @lru_cache(maxsize=256)
    def kept(*values: object) -> Result:
        nonlocal size
        result = function(*values)
        added = _bytes_of(values) + _bytes_of(result)
        size += added
        if size > _MOST_BYTES:
            kept.cache_clear()
            size = added
        return result

    def constant(*values: object) -> Result:
        return kept(*values)

    # What torch.compiler.assume_constant_result sets, without importing PyTorch for it.
    constant._dynamo_marked_constant = True  # type: ignore[attr-defined] # noqa: SLF001

    @wraps(function)
    def call(*values: object) -> Result:
        return constant(*map(_fixed, values))

    return call


def _bytes_of(value: object) -> int:
    """Return the memory of a number, a text, or of lists and tuples of them."""
    parts = value if isinstance(value, list | tuple) else ()
    return getsizeof(value) + sum(map(_bytes_of, parts))


def _fixed(value: object) -> object:
    """Return a number as one that PyTorch compiles for, where it would compile for any."""
    if isinstance(value, int) and not isinstance(value, bool):
        return index(value)
    if isinstance(value, tuple):
        return tuple(map(_fixed, value))
    return fsum((value,)) if isinstance(value, float) else value


def remember(kept: dict[Any, Any] | None, key: Hashable, value: object, most: int = 64) -> None:
    """Keep a value for later calls, and drop the first ones if there are too many.

    Nothing is kept for the key None, or where `kept` is None.
    """
    if kept is None or key is None:
        return
    kept[key] = value
    if len(kept) > most:
        # A dict becomes a list in one step, whatever other threads keep in it.
        for old in list(kept)[:-most]:
            kept.pop(old, None)


def get_or_compute(
    kept: dict[Any, Any] | None, key: Hashable, make: Callable[[], Result]
) -> Result:
    """Return what is kept for a key, or what `make` returns, which is then kept."""
    found: Result | None = None if kept is None else kept.get(key)
    if found is None:
        found = make()
        remember(kept, key, found)
    return found


# The last 64 arrays of `constant_array`, by what made them, their dtype, and where they are.
_constants: dict[Any, Array] = {}


def constant_array(make: Callable[..., Any], *values: Any, dtype: Dtype, backend: Backend) -> Array:
    """Return what a `cached_constant` makes of values as an array, for computing with it alone.

    Where arrays may be kept it is, so that later calls copy nothing to a device.
    """
    device_key = backend.table_key
    key = None if device_key is None else (make, values, dtype, *device_key)

    def find() -> Array:
        return backend.xp.asarray(make(*values), dtype=dtype, device=backend.device)

    return get_or_compute(_constants, key, find)


_PLAIN = {np.ndarray, type(None)}


def signature_of(*arrays: Any) -> tuple[Any, ...] | None:
    """Return shapes and dtypes of arrays of NumPy, or None, as the key of a plan.

    The key is None if an array is of another library, or PyTorch compiles.
    """
    if is_compiling() or not _PLAIN.issuperset(map(type, arrays)):
        return None
    return tuple([None if array is None else (array.shape, array.dtype) for array in arrays])


def call_key(x: Any, out: Any, *others: Any) -> tuple[Any, ...] | None:
    """Return all that checks and kernels see of the arrays of a call, None if it may not be kept.

    They are arrays of NumPy, or of CuPy on some device. Of the others, which are only read, or
    None, strides do not count.
    """
    kind = type(x)
    key: tuple[Any, ...]
    if kind is np.ndarray:
        device, key = None, (x.dtype, x.shape, x.strides, x.flags.aligned)
    elif kind.__module__ == "cupy":
        device, key = x.data.device_id, (kind, x.dtype, x.shape, x.strides, x.data.device_id)
    else:
        return None
    for other in others if out is None else (*others, out):
        if other is None:
            continue
        if type(other) is not kind or (device is not None and other.data.device_id != device):
            return None
        key = *key, other.dtype, other.shape
    if out is not None:
        flags = out.flags
        writable = device is not None or (flags.aligned, flags.writeable)
        key = *key, out is x, out.strides, writable
    return key


class _ReadOnly:
    """What holds the memory of an array, so that no view of it can be made writable."""

    __array_struct__: object


def read_only(array: HostArray) -> HostArray:
    """Return a view of a host array that cannot be written to, nor be made writable."""
    view, holder = array.view(), _ReadOnly()
    view.flags.writeable = False
    holder.__array_struct__ = view.__array_struct__
    return np.asarray(holder)  # type: ignore[no-any-return]


def frozen_copy(array: HostArray) -> HostArray:
    """Return a copy that cannot be made writable; what `read_only` returned needs none."""
    # NumPy keeps the holder, alone or with the structure.
    base: object = array.base
    if isinstance(base[0] if isinstance(base, tuple) else base, _ReadOnly):
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())  # type: ignore[no-any-return]
