"""dask: chunks of any lengths, which it may not know."""

import sys
from collections.abc import Callable
from typing import Any
from warnings import catch_warnings

from positional_embeddings.arrays.libraries.chunked import Chunked


class Dask(Chunked):
    """dask.array."""

    has_fmod = True

    def map_chunks(
        self,
        function: Callable[..., Any],
        *arrays: Any,
        chunks: tuple[tuple[Any, ...], ...],
        dtype: Any,
        numbered: bool = False,  # noqa: ARG002 - it looks at the function's parameters
        name: str = "",
    ) -> Any:
        library = sys.modules["dask.array"]
        # Else dask would call the function with empty arrays.
        meta = library.utils.meta_from_array(arrays[0], ndim=len(chunks), dtype=dtype)
        options = {"chunks": chunks, "dtype": dtype, "meta": meta, "token": name or None}
        return library.map_blocks(function, *arrays, **options)

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        # It fails for an array without elements.
        return self.xp.zeros(shape, dtype=x.dtype) if 0 in shape else self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Any, values: Any, side: str = "left") -> Any:
        # It searches each chunk for all values, and fails for values without axes.
        return super().searchsorted(ordered.rechunk(-1), values[None, ...], side)[0, ...]

    def without_chunk_warnings(self) -> Any:
        warning = sys.modules["dask.array"].PerformanceWarning
        return catch_warnings(action="ignore", category=warning)
