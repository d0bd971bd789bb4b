"""New keys and values in the buffers of a cache: what is written, and what was stored before."""

from typing import Any, NamedTuple, TypeAlias
from weakref import ref

from positional_embeddings.arguments import axes
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.kept import keep
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.arrays.space import Space

# The ways on, in errors: of arrays of too many tokens,
NEW_ALONE = " The `tokens` of a step are the new ones alone, in an attention mask, too."
# and where a buffer has been stored in by this step, by a later one, or not by the one before.
_TWICE = " Each token, or chunk of tokens, has a step of its own."
_AHEAD = (
    " The cache that `step` returned was not kept, an earlier step was used again, or the buffer is"
    " used for another sequence: write cache, step = cache.step(tokens), or start over with"
    " KVCache.empty. To go back on purpose, rewind the cache, by 0 to go on from an earlier one."
)
_BEHIND = (
    " Call `step` once for all layers, and store its tokens in each of their buffers. If the buffer"
    " got them in another way, such as a copy, rewind the cache by 0."
)

# Buffers whose last tokens are known, twice.
_MOST_BUFFERS = 2**12

# Of a part of a buffer.
Index: TypeAlias = tuple[slice, ...]


class BufferAxes(NamedTuple):
    """The axes of a buffer; heads may be on the last one together with sequences."""

    seq: int
    batch: int
    ndim: int
    space: Space

    def part(self, start: int, count: int, row: int = 0, rows: int = 1) -> Index:
        """Return the index of some slots or tokens, of one of the rows."""
        index = [slice(None)] * self.ndim
        index[self.batch], index[self.seq] = slice(row, None, rows), slice(start, start + count)
        return tuple(index)

    def take(self, array: Array, source: Array, *, may_lack: bool) -> Array:
        """Return slots and tokens of an array at the indices `source`, (batch or 1, slot).

        An index below 0, which a trace may have, gives NaN.
        """
        xp, (rows, length) = self.space.xp, source.shape
        shape = (*array.shape[: self.seq], length, *array.shape[self.seq + 1 :])
        if isinstance(source, np.ndarray):
            every = (slice(None),) * self.batch
            on = {"dtype": self.space.integer, "device": self.space.device}
            taken = [
                xp.take(
                    array[(*every, slice(row, None, rows))], xp.asarray(slots, **on), axis=self.seq
                )
                for row, slots in enumerate(source)
            ]
            if rows == 1:
                return taken[0]
            return self.space.reshape(xp.stack(taken, axis=self.batch + 1), shape)
        source = xp.tile(source, (shape[self.batch] // rows, 1))
        index = axes.expand_to_axes(source, (self.batch, self.seq), array.ndim, xp)
        at = xp.broadcast_to(xp.where(index < 0, 0, index), shape)
        taken = xp.take_along_axis(array, at, axis=self.seq)
        if not (may_lack and dtypes.is_real_floating(array.dtype, xp)):
            return taken
        return namespace.select(index >= 0, taken, float("nan"), xp)


class Moves(NamedTuple):
    """What a step writes to buffers of one form, and what it reads of them."""

    axes: BufferAxes
    # Indices of slots, and of the tokens that they take; None if all slots are made anew.
    writes: list[tuple[Index, Index]] | None
    read: Index  # of the keys so far, or of all slots that are made anew


class Stored:
    """What steps of one cache have stored, and in which buffers; a rewound cache has a new one."""

    def __init__(self) -> None:
        # By the address of a buffer, and by the `id` of the array: a weak reference to it, and a
        # list that holds the lengths after the last step that stored in this memory.
        self._ends: dict[Any, tuple[ref[Any], list[HostArray | None]]] = {}
        # Whether buffers that hold no tokens yet are known.
        self.has_begun = False

    def follow(self, buffer: Array, before: HostArray, after: HostArray, space: Space) -> None:
        """Check that a buffer, if its memory is known, ends where a step begins; move its end."""
        owner, end = self._ends.get(id(buffer), (None, None))
        if owner is None or owner() is not buffer:
            end = self._end_of(buffer, space)
        if end is None:
            return
        last = end[0]
        if last is after:
            what = "be another one for keys, for values and for each layer"
            raise wrong_value("buffer", what, "one that this step has stored in already", _TWICE)
        if not (last is None or last is before or np.array_equal(last, before)):
            came = f"one of {last.tolist()} tokens for a step after {before.tolist()}"
            hint = _AHEAD if np.any(last > before) else _BEHIND
            raise wrong_value("buffer", "hold the tokens before the step", came, hint)
        end[0] = after

    def begin(self, buffer: Array, lengths: HostArray, space: Space) -> None:
        """Know a new buffer as one that holds the tokens so far, so that no step leaves it out."""
        end = None if space.is_compiling else self._end_of(buffer, space)
        if end is not None and end[0] is None:
            end[0] = lengths

    def _end_of(self, buffer: Array, space: Space) -> list[HostArray | None] | None:
        """Return what holds the lengths after the last step that has stored in the same memory."""
        address = space.address(buffer)
        if not address:  # 0 of no memory
            return None
        owner, end = self._ends.get((address,), (None, None))
        if owner is None or end is None or owner() is None:
            base = getattr(buffer, "base", getattr(buffer, "_base", None))
            owner, end = ref(base if isinstance(base, type(buffer)) else buffer), [None]
            keep(self._ends, (address,), (owner, end), _MOST_BUFFERS)
        keep(self._ends, id(buffer), (ref(buffer), end), _MOST_BUFFERS)
        return end
