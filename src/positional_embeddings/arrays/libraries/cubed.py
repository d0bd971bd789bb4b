"""cubed: chunks of one length, computed in bounded memory."""

import sys
from functools import partial
from math import prod
from typing import Any

from positional_embeddings.arrays.libraries.chunked import Chunked, take_of_chunk
from positional_embeddings.arrays.namespace import Array, Dtype, Namespace, Shape, np
from positional_embeddings.arrays.space import ChunkTask, Forwarding


class Cubed(Chunked):
    """cubed.array_api."""

    needs_elements = True

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        return _Namespace(xp)

    def _chunk_option(self, lengths: tuple[int, ...]) -> int:
        return lengths[0]  # of all chunks but the last

    def _map_chunks(self, task: ChunkTask, arrays: tuple[Array, ...]) -> Array:
        # It counts the chunks of the first array.
        library = sys.modules["cubed"]
        numbers, ndim = tuple(map(len, task.chunks)), len(task.chunks)
        counted = library.empty(numbers, dtype=library.bool, chunks=1, spec=arrays[0].spec)
        compute = partial(_without_first, task, [x.ndim for x in arrays])
        arrays = tuple(x[(*(None,) * (ndim - x.ndim), ...)] for x in arrays)
        options = {"chunks": task.chunks, "dtype": task.dtype}
        return library.map_blocks(compute, counted, *arrays, **options)


def _without_first(
    task: ChunkTask, ranks: list[int], _: Array, *chunks: Array, block_id: tuple[int, ...]
) -> Array:
    chunks = tuple(x[(0,) * (x.ndim - rank)] for x, rank in zip(chunks, ranks, strict=True))
    return task.compute(chunks, block_id)


class _Namespace(Forwarding):
    """Its functions, dtypes and axes as the standard has them, for arrays of any chunks.

    Its own `take` sorts the indices; `stack` and `concat` mix up elements, and `reshape` fails,
    where chunks are not alike; `broadcast_to` makes a chunk of each element.
    """

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name, None)
        if function is None:
            message = f"cubed has no `{name}`, which is needed here: compute the array first."
            raise AttributeError(message)
        return function

    def asarray(self, x: Array, /, *, dtype: Dtype = None, **options: object) -> Array:
        array = self._library.asarray(x, dtype=dtype, **options)
        return array if dtype in (None, array.dtype) else self._library.astype(array, dtype)

    def broadcast_to(self, x: Array, /, shape: Shape) -> Array:
        x = x[(*(None,) * (len(shape) - x.ndim), ...)]
        axes = zip(x.shape, shape, x.chunks, strict=False)
        chunks = tuple(lengths if old == new else "auto" for old, new, lengths in axes)
        return self._library.broadcast_to(x, shape, chunks=chunks)

    def concat(self, arrays: Array, /, *, axis: int = 0) -> Array:
        axis %= arrays[0].ndim
        parts = [array for array in arrays if array.shape[axis] > 0] or arrays[:1]
        longest = max(part.chunksize[axis] for part in parts)
        alike = [
            part if part.numblocks[axis] == 1 else _in_chunks(part, {axis: longest})
            for part in parts
        ]
        return self._library.concat(alike, axis=axis)

    def stack(self, arrays: Array, /, *, axis: int = 0) -> Array:
        # Of one shape already: it gives them the same chunks.
        return self._library.stack(self._library.broadcast_arrays(*arrays), axis=axis)

    def reshape(self, x: Array, /, shape: Shape) -> Array:
        shape = tuple(x.size // -prod(shape) if n == -1 else n for n in shape)
        if x.size == 0 or x.size != prod(shape):
            return self._library.reshape(x, shape)
        # It merges axes if all but the first are whole, and splits chunks that end where
        # rows of the new axes do.
        runs = _runs_of_axes(x.shape, shape)
        whole = {axis: x.shape[axis] for old, _ in runs for axis in _inner(old, x.shape)}
        merged = self._library.reshape(
            _in_chunks(x, whole), tuple(prod(x.shape[axis] for axis in old) for old, _ in runs)
        )
        rows = (prod(shape[axis] for axis in _inner(new, shape)) for _, new in runs)
        cut = {
            axis: min(merged.shape[axis], -(-merged.chunksize[axis] // row) * row)
            for axis, row in enumerate(rows)
        }
        return self._library.reshape(_in_chunks(merged, cut), shape)

    def argsort(self, x: Array, /, *, axis: int = -1) -> Array:
        axis %= x.ndim
        x = _in_chunks(x, {axis: x.shape[axis]})
        argsort = partial(_argsort_of_chunk, axis=axis)
        return self._library.map_blocks(argsort, x, dtype=self._library.int64)

    def sort(self, x: Array, /, *, axis: int = -1) -> Array:
        axis %= x.ndim
        x = _in_chunks(x, {axis: x.shape[axis]})
        return self._library.map_blocks(partial(np.sort, axis=axis), x, dtype=x.dtype)

    def take(self, x: Array, indices: Array, /, *, axis: int = 0) -> Array:
        axis, count = axis % x.ndim, indices.shape[0]
        x, indices = _in_chunks(x, {axis: x.shape[axis]}), _in_chunks(indices, {0: count})
        chunks = (*x.chunks[:axis], (count,), *x.chunks[axis + 1 :])
        beside = indices[(*(None,) * axis, ..., *(None,) * (x.ndim - axis - 1))]
        take = partial(take_of_chunk, axis=axis, rest=x.ndim - axis - 1)
        return self._library.map_blocks(take, x, beside, dtype=x.dtype, chunks=chunks)


def _in_chunks(x: Array, lengths: dict[int, int]) -> Array:
    """Return an array of cubed with chunks of these lengths on some axes."""
    other = {axis: length for axis, length in lengths.items() if length != x.chunksize[axis]}
    return x.rechunk(other) if other else x


def _runs_of_axes(shape: Shape, new: Shape) -> list[tuple[range, range]]:
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


def _inner(axes: range, shape: Shape) -> list[int]:
    """Return the axes of a run but for the first that is longer than 1."""
    return [axis for axis in axes if shape[axis] > 1][1:]


def _argsort_of_chunk(x: Array, *, axis: int) -> Array:
    return x.argsort(axis=axis, kind="stable")
