"""Namespaces of libraries that lack something of the Array API standard, with it added.

A library that is not in the table at the end is its own namespace.
"""

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from math import prod
from typing import Any

from array_api_compat import array_namespace


def adapted(xp: Any) -> Any:
    """Return a namespace that keeps the standard: `xp`, or one that forwards to it."""
    adapter = _ADAPTERS.get(getattr(xp, "__name__", ""))
    return xp if adapter is None else _made(adapter, xp)


@lru_cache
def _made(adapter: Callable[[Any], Any], xp: Any) -> Any:
    return adapter(xp)


class _Forwarding:
    """A namespace that has the names of a library, but for those that it defines itself."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


class _MLX(_Forwarding):
    """MLX, with devices and the arguments of the standard.

    Its arrays are in memory that all devices share; a device is where a call is computed.
    """

    _CREATION = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")
    _LIKE = ("empty_like", "full_like", "ones_like", "zeros_like")

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.bool = library.bool_
        for name in self._CREATION + self._LIKE:
            setattr(self, name, self._on_device(getattr(library, name)))

    def _on_device(self, create: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(create)
        def created(*args: Any, device: Any = None, **options: Any) -> Any:
            if device is None:
                return create(*args, **options)
            with self._library.stream(device):
                return create(*args, **options)

        return created

    def __array_namespace_info__(self) -> Any:
        return _MLXInfo(self._library)

    def astype(self, x: Any, dtype: Any, *, copy: bool = True) -> Any:
        return x.astype(dtype) if copy or x.dtype != dtype else x

    def sum(self, x: Any, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        x = x if dtype is None else x.astype(dtype)
        return self._library.sum(x, axis=axis, keepdims=keepdims)

    def clip(self, x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        return self._library.clip(x, min, max)


class _MLXInfo(_Forwarding):
    """What MLX tells of itself; positions are of 64 bits, as its integers can be.

    It is asked for a device, of which users have the kind alone, such as `mlx.core.gpu`.
    """

    def __init__(self, library: Any) -> None:
        super().__init__(library.__array_namespace_info__())
        self._device: Callable[[Any, int], Any] = library.Device

    def _of(self, device: Any) -> Any:
        return self._device(device, 0) if type(device).__name__ == "DeviceType" else device

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        found: dict[str, Any] = self._library.dtypes(device=self._of(device), kind=kind)
        return found

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        dtypes = self._library.default_dtypes(device=self._of(device))
        int64 = self.dtypes(device=device)["int64"]
        return {**dtypes, "integral": int64, "indexing": int64}


class _NDONNX(_Forwarding):
    """ndonnx, whose search takes values of one axis alone."""

    def searchsorted(self, ordered: Any, values: Any, /, *, side: str = "left") -> Any:
        if values.ndim == 1:
            return self._library.searchsorted(ordered, values, side=side)
        # A length may not be known before the graph runs, so that nothing is reshaped.
        values = values[..., None]
        before = ordered < values if side == "left" else ordered <= values
        return self._library.sum(self._library.astype(before, self._library.int64), axis=-1)


class _Cubed(_Forwarding):
    """cubed, with the functions, dtypes and axes of the standard, for arrays of any chunks.

    Its own `take` sorts the indices; `stack` and `concat` mix up elements, and `reshape` fails,
    where chunks are not alike; `broadcast_to` makes a chunk of each element.
    """

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name, None)
        if found is None:
            message = f"cubed has no `{name}`, which is needed here: compute the array first."
            raise AttributeError(message)
        return found

    def asarray(self, x: Any, /, *, dtype: Any = None, **options: Any) -> Any:
        array = self._library.asarray(x, dtype=dtype, **options)
        return array if dtype in (None, array.dtype) else self._library.astype(array, dtype)

    def broadcast_to(self, x: Any, /, shape: Any) -> Any:
        x = x[(*(None,) * (len(shape) - x.ndim), ...)]
        pairs = zip(x.shape, shape, x.chunks, strict=False)
        chunks = tuple(own if n == m else "auto" for n, m, own in pairs)
        return self._library.broadcast_to(x, shape, chunks=chunks)

    def concat(self, arrays: Any, /, *, axis: int = 0) -> Any:
        axis %= arrays[0].ndim
        parts = [array for array in arrays if array.shape[axis] > 0] or arrays[:1]
        longest = max(part.chunksize[axis] for part in parts)
        alike = [
            part if part.numblocks[axis] == 1 else _in_chunks(part, {axis: longest})
            for part in parts
        ]
        return self._library.concat(alike, axis=axis)

    def stack(self, arrays: Any, /, *, axis: int = 0) -> Any:
        # Of one shape already: it gives them the same chunks.
        return self._library.stack(self._library.broadcast_arrays(*arrays), axis=axis)

    def flip(self, x: Any, /, *, axis: int) -> Any:
        return x if x.shape[axis] == 0 else self._library.flip(x, axis=axis)

    def reshape(self, x: Any, /, shape: Any) -> Any:
        shape = tuple(x.size // -prod(shape) if n == -1 else n for n in shape)
        if x.size == 0 or x.size != prod(shape):
            return self._library.reshape(x, shape)
        # It merges axes of which all but the first are whole, and splits chunks that end where
        # rows of the new axes do.
        runs = _runs_of_axes(x.shape, shape)
        whole = {axis: x.shape[axis] for own, _ in runs for axis in _inner(own, x.shape)}
        merged = self._library.reshape(
            _in_chunks(x, whole), tuple(prod(x.shape[axis] for axis in own) for own, _ in runs)
        )
        rows = (prod(shape[axis] for axis in _inner(new, shape)) for _, new in runs)
        cut = {
            axis: min(merged.shape[axis], -(-merged.chunksize[axis] // row) * row)
            for axis, row in enumerate(rows)
        }
        return self._library.reshape(_in_chunks(merged, cut), shape)

    def sort(self, x: Any, /, *, axis: int = -1, descending: bool = False) -> Any:
        return self._along("sort", x, axis, x.dtype, descending=descending)

    def argsort(self, x: Any, /, *, axis: int = -1, descending: bool = False) -> Any:
        return self._along("argsort", x, axis, self._library.int64, descending=descending)

    def _along(self, name: str, x: Any, axis: int, dtype: Any, **options: Any) -> Any:
        """Call a function on chunks that are whole on an axis."""
        axis %= x.ndim
        x = _in_chunks(x, {axis: x.shape[axis]})
        function = partial(_called_on_chunk, name, axis=axis, **options)
        return self._library.map_blocks(function, x, dtype=dtype)

    def take(self, x: Any, indices: Any, /, *, axis: int = 0) -> Any:
        axis, count = axis % x.ndim, indices.shape[0]
        x, indices = _in_chunks(x, {axis: x.shape[axis]}), _in_chunks(indices, {0: count})
        chunks = (*x.chunks[:axis], (count,), *x.chunks[axis + 1 :])
        beside = indices[(*(None,) * axis, ..., *(None,) * (x.ndim - axis - 1))]
        own = partial(_take_of_chunk, axis=axis)
        return self._library.map_blocks(own, x, beside, dtype=x.dtype, chunks=chunks)


def _in_chunks(x: Any, lengths: dict[int, int]) -> Any:
    """Return an array of cubed with chunks of these lengths on some axes."""
    other = {axis: length for axis, length in lengths.items() if length != x.chunksize[axis]}
    return x.rechunk(other) if other else x


def _runs_of_axes(shape: Any, new: Any) -> list[tuple[range, range]]:
    """Return the shortest runs of axes that have as many elements in one shape as in the other."""
    runs = []
    start, new_start = 0, 0
    while start < len(shape) or new_start < len(new):
        stop, new_stop = min(start + 1, len(shape)), min(new_start + 1, len(new))
        while (size := prod(shape[start:stop])) != (new_size := prod(new[new_start:new_stop])):
            if size < new_size:
                stop += 1
            else:
                new_stop += 1
        runs.append((range(start, stop), range(new_start, new_stop)))
        start, new_start = stop, new_stop
    return runs


def _inner(axes: range, shape: Any) -> list[int]:
    """Return the axes of a run but for the first that is longer than 1."""
    return [axis for axis in axes if shape[axis] > 1][1:]


def _called_on_chunk(name: str, x: Any, **options: Any) -> Any:
    return getattr(array_namespace(x), name)(x, **options)


def _take_of_chunk(x: Any, indices: Any, *, axis: int) -> Any:
    return x.take(indices.reshape(-1), axis=axis)


_ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "cubed": _Cubed,
    "cubed.array_api": _Cubed,
    "mlx.core": _MLX,
    "ndonnx": _NDONNX,
}
