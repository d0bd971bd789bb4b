"""dask: chunks of any lengths, which it may not know."""

import sys
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any
from warnings import catch_warnings, warn

from positional_embeddings.arrays.libraries.chunked import Chunked
from positional_embeddings.arrays.namespace import Array, Dtype, drop_none, without_warnings

# A task takes dask about 0.2 ms, in which it copies a MB.
_MANY_CHUNKS, _SMALL_CHUNK = 10_000, 2**16


class Dask(Chunked):
    """dask.array."""

    def map_chunks(
        self,
        function: Callable[..., Any],
        *arrays: Any,
        chunks: tuple[tuple[Any, ...], ...],
        dtype: Dtype,
        numbered: bool = False,
        name: str = "",
        shared: Any = None,
    ) -> Any:
        library = sys.modules["dask.array"]
        # Else dask would call the function with empty arrays.
        meta = library.utils.meta_from_array(arrays[0], ndim=len(chunks), dtype=dtype)
        count, size = prod(map(len, chunks)), prod(map(sum, chunks)) * meta.dtype.itemsize
        if count > _MANY_CHUNKS and size / count < _SMALL_CHUNK:
            message = (
                f"{count:,} chunks of {size // count:,} bytes each take longer to schedule than to "
                "compute: rechunk the arrays, so that each has megabytes."
            )
            warn(message, library.PerformanceWarning, stacklevel=2)
        name = name or sys.modules["dask"].utils.funcname(function)
        options = {"chunks": chunks, "dtype": dtype, "meta": meta, "token": name}
        task = partial(_numbered_task if numbered else _task, function)
        return library.map_blocks(task, *arrays, **options, **drop_none(shared=shared))

    def shared(self, value: Array) -> Any:
        # One node of the graph, which each worker gets once.
        return sys.modules["dask"].delayed(value, traverse=False)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Any:
        # It fails for an array without elements.
        return self.xp.zeros(shape, dtype=x.dtype) if 0 in shape else self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Any, values: Array, side: str = "left") -> Any:
        # It searches each chunk for all values, and fails for values without axes.
        return super().searchsorted(ordered.rechunk(-1), values[None, ...], side)[0, ...]

    def without_chunk_warnings(self) -> Any:
        warning = sys.modules["dask.array"].PerformanceWarning
        return catch_warnings(action="ignore", category=warning)


def _task(function: Callable[..., Any], *chunks: Any, **options: Any) -> Any:
    """Call a function of chunks when dask computes, after the public call has ended."""
    with without_warnings():
        return function(*chunks, **options)


def _numbered_task(function: Any, *chunks: Any, block_id: Any, **options: Any) -> Any:
    # dask looks for `block_id` among the parameters.
    return _task(function, *chunks, block_id=block_id, **options)
