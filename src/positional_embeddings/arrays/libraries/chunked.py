"""What dask and cubed share: arrays that are computed later, chunk by chunk."""

from collections.abc import Mapping
from functools import partial

from array_api_compat import array_namespace, device

from positional_embeddings.arrays.namespace import Array, Dtype, Shape
from positional_embeddings.arrays.space import Space


class Chunked(Space):
    """Base of libraries that compute chunk by chunk."""

    is_chunked = True

    def chunks(self, x: Array) -> tuple[Shape, ...]:
        return x.chunks  # type: ignore[no-any-return]

    def rechunk(self, x: Array, chunks: Mapping[int, Shape]) -> Array:
        changed = {
            axis: self._chunk_option(lengths)
            for axis, lengths in chunks.items()
            if x.shape[axis] != 1 and x.chunks[axis] != lengths
        }
        return x.rechunk(changed) if changed else x

    def _chunk_option(self, lengths: tuple[int, ...]) -> Shape | int:
        """Return the lengths of chunks on an axis, as `rechunk` of the library takes them."""
        return lengths

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
        take = partial(take_of_chunk, axis=axis, rest=rest)
        return self.map_chunks(take, table, indices, chunks=chunks, dtype=table.dtype)


def take_of_chunk(table: Array, indices: Array, *, axis: int, rest: int) -> Array:
    """Take entries of a table before whose last `rest` axes there are axes of length 1."""
    xp, stop = array_namespace(table), table.ndim - rest
    before, after = table.shape[: axis + 1], table.shape[stop:]
    flat = xp.reshape(xp.asarray(indices, device=device(table)), (-1,))
    taken = xp.take(xp.reshape(table, (*before, *after)), flat, axis=axis)
    return xp.reshape(taken, (*before[:-1], *indices.shape[axis:stop], *after))
