"""dask: lazy arrays, in chunks of any lengths, perhaps unknown."""

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

# dask schedules 10,000 tasks in 2 s, 0.2 ms each, and computes a small chunk in less than that.
_MAX_SMALL_CHUNKS, _SMALL_CHUNK_BYTES = 10_000, 2**16


class DaskBackend(Backend):
    """dask.array."""

    is_chunked = True

    def chunks(self, x: Array) -> tuple[Shape, ...]:
        return x.chunks  # type: ignore[no-any-return]

    def without_empty_chunks(self, x: Array) -> Array:
        lengths = {axis: tuple(filter(None, n)) for axis, n in enumerate(x.chunks) if 0 in n}
        changed = {axis: n for axis, n in lengths.items() if x.shape[axis] > 0}
        return x.rechunk(changed) if changed else x

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
        # Without `meta`, dask calls the function with empty arrays.
        meta = library.utils.meta_from_array(arrays[0], ndim=len(chunks), dtype=dtype)
        count, size = prod(map(len, chunks)), prod(map(sum, chunks)) * meta.dtype.itemsize
        if count > _MAX_SMALL_CHUNKS and size / count < _SMALL_CHUNK_BYTES:
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
        self,
        start: int,
        stop: int,
        shape: tuple[int, ...],
        axis: int,
        num_values: int,
        dtype: Dtype,
    ) -> Array:
        # The chunks that dask would choose for the whole array.
        auto = (*("auto",) * len(shape), -1)
        array = self.xp.empty((*shape, max(1, num_values)), dtype=dtype, chunks=auto)
        options = {"dtype": self.int_dtype, "device": self.device}
        return self.xp.arange(start, stop, chunks=array.chunks[axis][0], **options)

    def take_entries(self, table: Array, indices: Array, axis: int) -> Array:
        # Reshaping the indices would merge their chunks.
        if indices.ndim < 2:
            return super().take_entries(table, indices, axis)
        trailing = table.ndim - axis - 1
        table = self.rechunk(table, {axis: (table.shape[axis],)})
        lengths = self.chunks(table)
        chunks = (*lengths[:axis], *self.chunks(indices), *lengths[axis + 1 :])
        table = table[(..., *(None,) * (indices.ndim - 1), *(slice(None),) * trailing)]
        indices = indices[(*(None,) * axis, ..., *(None,) * trailing)]
        take = partial(_take_of_chunk, axis=axis, trailing=trailing)
        return self.map_chunks(take, table, indices, chunks=chunks, dtype=table.dtype)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        # dask does not reshape an array without elements.
        return self.xp.zeros(shape, dtype=x.dtype) if 0 in shape else self.xp.reshape(x, shape)

    def row_max(self, x: Array) -> Array:
        # The `max` of dask fails for chunks of an unknown length that turn out to be empty.
        library = sys.modules["dask.array"]
        options = {"axis": -1, "keepdims": True, "dtype": x.dtype}
        return library.reduction(x, _row_max_of_chunk, _row_max_of_chunk, **options)

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        # dask searches each chunk of `ordered` for all values, and fails for 0-d values.
        return super().searchsorted(ordered.rechunk(-1), values[None, ...], side)[0, ...]

    def without_chunk_warnings(self) -> AbstractContextManager[object]:
        warning = sys.modules["dask.array"].PerformanceWarning
        return catch_warnings(action="ignore", category=warning)


def _row_max_of_chunk(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Return the maximum of each row, at least the lowest finite number."""
    xp = array_namespace(x)
    return xp.clip(xp.max(x, axis=axis, keepdims=keepdims), float(xp.finfo(x.dtype).min))


def _take_of_chunk(table: Array, indices: Array, *, axis: int, trailing: int) -> Array:
    """Take entries of a table with axes of length 1 before its last `trailing` axes."""
    xp, stop = array_namespace(table), table.ndim - trailing
    before, after = table.shape[: axis + 1], table.shape[stop:]
    flat = xp.reshape(xp.asarray(indices, device=device(table)), (-1,))
    taken = xp.take(xp.reshape(table, (*before, *after)), flat, axis=axis)
    return xp.reshape(taken, (*before[:-1], *indices.shape[axis:stop], *after))


def _task(function: Callable[..., Array], *chunks: Array, **options: object) -> Array:
    """Call a function of chunks without floating-point warnings, when dask computes."""
    with ignore_fp_errors():
        return function(*chunks, **options)


def _numbered_task(function: Any, *chunks: Array, block_id: Any, **options: object) -> Array:
    # dask looks for `block_id` among the parameters.
    return _task(function, *chunks, block_id=block_id, **options)
