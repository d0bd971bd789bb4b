"""Blocks of arrays, read-only views, and what is kept from call to call."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from positional_embeddings.arrays.namespace import HostArray, np

Found = TypeVar("Found")


def keep(kept: dict[Any, Any] | None, key: Any, value: Any, most: int = 64) -> None:
    """Keep a value for later calls, and drop the first ones if there are too many.

    Nothing is kept for the key None, or where `kept` is None.
    """
    if kept is None or key is None:
        return
    kept[key] = value
    for old in list(kept)[:-most]:
        kept.pop(old, None)


def once(kept: dict[Any, Any] | None, key: Any, find: Callable[[], Found]) -> Found:
    """Return what is kept for a key, or what `find` returns, which is then kept."""
    found: Found | None = None if kept is None else kept.get(key)
    if found is None:
        found = find()
        keep(kept, key, found)
    return found


def numpy_key(x: Any, out: Any) -> tuple[Any, ...] | None:
    """Return all that checks and kernels see of arrays of NumPy, None of others."""
    if type(x) is not np.ndarray or not (out is None or type(out) is np.ndarray):
        return None
    key = x.dtype, x.shape, x.strides, x.flags.aligned
    if out is None:
        return key
    flags = out.flags
    return (*key, out is x, out.dtype, out.shape, out.strides, flags.aligned, flags.writeable)


class _ReadOnly:
    """What holds the memory of an array, so that no view of it can be made writable."""

    __array_struct__: Any


def read_only(array: HostArray) -> HostArray:
    """Return a view of a host array that cannot be written to, nor be made writable."""
    view, holder = array.view(), _ReadOnly()
    view.flags.writeable = False
    holder.__array_struct__ = view.__array_struct__
    return np.asarray(holder)  # type: ignore[no-any-return]


def frozen_copy(array: HostArray) -> HostArray:
    """Return a copy that cannot be made writable; what `read_only` returned needs none."""
    # NumPy keeps the holder, alone or beside the structure.
    base: Any = array.base
    if isinstance(base[0] if isinstance(base, tuple) else base, _ReadOnly):
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())  # type: ignore[no-any-return]


def block_lengths(shape: Sequence[int], order: Iterable[int], most: int) -> dict[int, int]:
    """Return how long a block of `most` numbers is on each axis, whole on the last of `order`."""
    lengths = {}
    for axis in reversed(list(order)):
        lengths[axis] = max(1, min(shape[axis], most))
        most //= lengths[axis]
    return lengths


def cuts(size: int, length: int) -> list[slice]:
    """Return slices of an axis, each of `length` but for the last."""
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
