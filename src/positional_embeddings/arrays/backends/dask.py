"""dask: arrays that are computed later, in chunks of any lengths, which it may not know."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import Any
from warnings import catch_warnings

from array_api_compat import array_namespace, device

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import warn_caller
from positional_embeddings.arrays.namespace import Array, Dtype, Shape, drop_none, ignore_fp_errors

# Tasks whose scheduling takes dask seconds, of 0.2 ms each, and the bytes of a chunk that are
# computed in less than that.
_MANY_CHUNKS, _SMALL_CHUNK_BYTES = 10_000, 2**16


class Dask(Backend):
    """dask.array."""

    is_chunked = True

    def chunks(self, x: Array) -> tuple[Shape, ...]:
        return x.chunks  # type: ignore[no-any-return]

    def rechunk(self, x: Array, chunks: Mapping[int, Shape]) -> Array:
        changed = {
            axis: lengths
            for axis, lengths in chunks.items()
            if x.shape[axis] != 1 and x.chunks[axis] != lengths
        }
        return x.rechunk(changed) if changed else x

    def map_chunks(
        self,
        function: Callable[..., Array],
        *arrays: Array,
        chunks: tuple[Shape, ...],
        dtype: Dtype,
        name: str = "",
        numbered: bool = False,
        shared: Array = None,
    ) -> Array:
        library = sys.modules["dask.array"]
        # Else dask would call the function with empty arrays.
        meta = library.utils.meta_from_array(arrays[0], ndim=len(chunks), dtype=dtype)
        count, size = prod(map(len, chunks)), prod(map(sum, chunks)) * meta.dtype.itemsize
        if count > _MANY_CHUNKS and size / count < _SMALL_CHUNK_BYTES:
            message = (
                f"{count:,} chunks of {size // count:,} bytes each take longer to schedule than to "
                "compute: rechunk the arrays, so that each has megabytes."
            )
            warn_caller(message, library.PerformanceWarning)
        name = name or sys.modules["dask"].utils.funcname(function)
        options = {"chunks": chunks, "dtype": dtype, "meta": meta, "token": name}
        compute = partial(_numbered_task if numbered else _task, function)
        return library.map_blocks(compute, *arrays, **options, **drop_none(shared=shared))

    def arange(
        self, start: int, stop: int, shape: tuple[int, ...], axis: int, values: int, dtype: Dtype
    ) -> Array:
        # One chunk on each axis would make one chunk of the array.
        auto = (*("auto",) * len(shape), -1)
        array = self.xp.empty((*shape, max(1, values)), dtype=dtype, chunks=auto)
        options = {"dtype": self.integer, "device": self.device}
        return self.xp.arange(start, stop, chunks=array.chunks[axis][0], **options)

    def take_entries(self, table: Array, indices: Array, axis: int) -> Array:
        # To reshape the indices would join their chunks.
        if indices.ndim < 2:
            return super().take_entries(table, indices, axis)
        rest = table.ndim - axis - 1
        table = self.rechunk(table, {axis: (table.shape[axis],)})
        lengths = self.chunks(table)
        chunks = (*lengths[:axis], *self.chunks(indices), *lengths[axis + 1 :])
        table = table[(..., *(None,) * (indices.ndim - 1), *(slice(None),) * rest)]
        indices = indices[(*(None,) * axis, ..., *(None,) * rest)]
        take = partial(_take_of_chunk, axis=axis, rest=rest)
        return self.map_chunks(take, table, indices, chunks=chunks, dtype=table.dtype)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        # It fails for an array without elements.
        return self.xp.zeros(shape, dtype=x.dtype) if 0 in shape else self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        # It searches each chunk for all values, and fails for values without axes.
        return super().searchsorted(ordered.rechunk(-1), values[None, ...], side)[0, ...]

    def without_chunk_warnings(self) -> AbstractContextManager[object]:
        warning = sys.modules["dask.array"].PerformanceWarning
        return catch_warnings(action="ignore", category=warning)


def _take_of_chunk(table: Array, indices: Array, *, axis: int, rest: int) -> Array:
    """Take entries of a table before whose last `rest` axes there are axes of length 1."""
    xp, stop = array_namespace(table), table.ndim - rest
    before, after = table.shape[: axis + 1], table.shape[stop:]
    flat = xp.reshape(xp.asarray(indices, device=device(table)), (-1,))
    taken = xp.take(xp.reshape(table, (*before, *after)), flat, axis=axis)
    return xp.reshape(taken, (*before[:-1], *indices.shape[axis:stop], *after))


def _task(function: Callable[..., Array], *chunks: Array, **options: object) -> Array:
    """Call a function of chunks when dask computes, after the public call has ended."""
    with ignore_fp_errors():
        return function(*chunks, **options)


def _numbered_task(function: Any, *chunks: Array, block_id: Any, **options: object) -> Array:
    # dask looks for `block_id` among the parameters.
    return _task(function, *chunks, block_id=block_id, **options)
