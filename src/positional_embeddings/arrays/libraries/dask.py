"""dask: chunks of any lengths, which it may not know."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import Any
from warnings import catch_warnings

from positional_embeddings.arrays.errors import warn_caller
from positional_embeddings.arrays.libraries.chunked import Chunked
from positional_embeddings.arrays.namespace import Array, drop_none, quiet
from positional_embeddings.arrays.space import ChunkTask

# Tasks whose scheduling takes dask seconds, of 0.2 ms each, and the bytes of a chunk that are
# computed in less than that.
_MANY_CHUNKS, _SMALL_CHUNK_BYTES = 10_000, 2**16


class Dask(Chunked):
    """dask.array."""

    def _map_chunks(self, task: ChunkTask, arrays: tuple[Array, ...]) -> Array:
        library = sys.modules["dask.array"]
        function, chunks, dtype, numbered, name, shared = task
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

    def shared(self, value: Array) -> Array:
        # One node of the graph, which each worker gets once.
        return sys.modules["dask"].delayed(value, traverse=False)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        # It fails for an array without elements.
        return self.xp.zeros(shape, dtype=x.dtype) if 0 in shape else self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        # It searches each chunk for all values, and fails for values without axes.
        return super().searchsorted(ordered.rechunk(-1), values[None, ...], side)[0, ...]

    def without_chunk_warnings(self) -> AbstractContextManager[object]:
        warning = sys.modules["dask.array"].PerformanceWarning
        return catch_warnings(action="ignore", category=warning)


def _task(function: Callable[..., Array], *chunks: Array, **options: object) -> Array:
    """Call a function of chunks when dask computes, after the public call has ended."""
    with quiet():
        return function(*chunks, **options)


def _numbered_task(function: Any, *chunks: Array, block_id: Any, **options: object) -> Array:
    # dask looks for `block_id` among the parameters.
    return _task(function, *chunks, block_id=block_id, **options)
