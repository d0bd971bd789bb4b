"""New keys and values in the buffers of a cache."""

from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import axes
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array, np

# Of a part of a buffer.
Index: TypeAlias = tuple[slice, ...]


class BufferAxes(NamedTuple):
    """The axes of a buffer, which has four."""

    seq: int
    batch: int
    backend: Backend

    def part(self, start: int, count: int, row: int = 0, rows: int = 1) -> Index:
        """Return the index of some slots or tokens, of one of the rows."""
        index = [slice(None)] * 4
        index[self.batch], index[self.seq] = slice(row, None, rows), slice(start, start + count)
        return tuple(index)

    def take(self, array: Array, source: Array) -> Array:
        """Return slots and tokens of an array at the indices `source`, (batch or 1, slot).

        An index below 0, which a trace may have, gives NaN, or 0 if the dtype has no NaN.
        """
        xp, num_slots = self.backend.xp, array.shape[self.seq]
        if isinstance(source, np.ndarray):
            on = {"dtype": self.backend.int_dtype, "device": self.backend.device}
            taken = []
            for row, slots in enumerate(source):
                row_array = array[self.part(0, num_slots, row, len(source))]
                taken.append(xp.take(row_array, xp.asarray(slots, **on), axis=self.seq))
            return xp.concat(taken, axis=self.batch)
        index = axes.expand_to_axes(source, (self.batch, self.seq), 4, xp)
        shape = (*array.shape[: self.seq], source.shape[1], *array.shape[self.seq + 1 :])
        existing = xp.broadcast_to(xp.where(index < 0, 0, index), shape)
        taken = xp.take_along_axis(array, existing, axis=self.seq)
        missing = float("nan") if dtypes.is_real_floating(array.dtype, xp) else 0
        return namespace.select(index >= 0, taken, missing, xp)

    def put(self, array: Array, new: Array, targets: Array) -> Array:
        """Return an array with new tokens in the slots `targets`, (batch or 1, token).

        A slot below 0, which a trace may have, gives NaN in all slots of the sequence.
        """
        backend, xp = self.backend, self.backend.xp
        slots = xp.asarray(targets, dtype=backend.int_dtype, device=backend.device)
        index: list[Any] = [slice(None)] * 4
        if slots.shape[0] == 1:
            index[self.seq] = slots[0, :]
        else:
            index[self.batch] = xp.arange(array.shape[self.batch], dtype=backend.int_dtype)[:, None]
            index[self.seq] = slots
            others = [axis for axis in range(4) if axis not in (self.batch, self.seq)]
            # The axes of the indices come first, or stay where they are if they are neighbours.
            start = min(self.batch, self.seq) if abs(self.batch - self.seq) == 1 else 0
            order = (*others[:start], self.batch, self.seq, *others[start:])
            new = xp.permute_dims(new, order)
        return self.mark_lost(backend.put(array, tuple(index), new), targets)

    def mark_lost(self, array: Array, source: Array) -> Array:
        """Return an array with NaN for sequences with a `source` below 0, (batch or 1, index).

        Only a trace may have such sequences.
        """
        backend, xp = self.backend, self.backend.xp
        if isinstance(source, np.ndarray) or not dtypes.is_real_floating(array.dtype, xp):
            return array
        is_lost = source[:, :1] < 0
        is_nan = axes.expand_to_axes(is_lost, (self.batch, self.seq), 4, xp)

        def with_nan(array: Array) -> Array:
            return namespace.select(~is_nan, array, float("nan"), xp)

        loops = backend.loops()
        if loops is None:
            return with_nan(array)
        return loops.cond(xp.any(is_lost), with_nan, lambda array: array, array)


class WritePlan(NamedTuple):
    """What a step writes to buffers of one form, and what it reads of them."""

    axes: BufferAxes
    # Indices of slots, and of the tokens that they take; None if all slots are made anew.
    writes: list[tuple[Index, Index]] | None
    read: Index  # of the keys so far, or of all slots that are made anew

    def store(self, buffer: Array, new: Array, step: Any) -> tuple[Array, Array]:
        """Store new tokens, and return the buffer and the array that queries get.

        `step` are the `StepPositions` of the tokens.
        """
        backend, is_joined = self.axes.backend, step._is_joined
        has_put = self.writes is None and backend.supports_put
        if is_joined or (self.writes is None and not has_put):
            joined = self.seen(buffer, new, is_joined=True)
        if self.writes is not None:
            for slots, tokens in self.writes:
                buffer[slots] = new[tokens]
            return buffer, joined if is_joined else buffer[self.read]
        if has_put:
            stored = self.axes.put(buffer, new, step._source)
        else:
            stored = self.axes.take(joined, step._source)
        if backend.is_mutable:
            buffer[self.read] = stored
            stored = buffer
        return stored, self.axes.mark_lost(joined, step._source) if is_joined else stored

    def seen(self, buffer: Array, new: Array, *, is_joined: bool) -> Array:
        """Return an array like the one that queries will get, before `new` is stored."""
        part = buffer[self.read]
        return self.axes.backend.xp.concat([part, new], axis=self.axes.seq) if is_joined else part
