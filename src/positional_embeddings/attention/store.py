"""New keys and values in the buffers of a cache: what is written, and what buffers hold."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

from positional_embeddings.arguments import axes
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.slots import Slots

# The ways on, in errors: of arrays of too many tokens,
NEW_ALONE = " The `tokens` of a step are the new ones alone, in an attention mask, too."
# and where a buffer has been stored in by this step, by a later one, not by the one before, or by
# another cache.
_ANOTHER = "be another one for keys, for values and for each layer"
_TWICE = " Each token, or chunk of tokens, has a step of its own."
_AHEAD = (
    " The cache that `step` returned was not kept, an earlier step was used again, or the buffer is"
    " used for another sequence: write cache, step = cache.step(tokens), or start over with"
    " KVCache.empty. To go back on purpose, rewind the cache, by 0 to go on from an earlier one."
)
_BEHIND = " Call `step` once for all layers, and store its tokens in each of their buffers."
_OTHERS = (
    " It has tokens of another cache, or rows that were not taken along, or its ring overwrote"
    " some. Go on from the cache whose step stored in it last; or copy a cache and its buffers, as"
    " new arrays, before they go on. A ring goes back by its slots beyond the window (`drafts`)."
)

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


class Line:
    """Tokens that a cache, and the caches that its steps return, store one after the other.

    A cache that is rewound, taken or copied goes on in a line of its own.
    """

    def __deepcopy__(self, memo: object) -> "Line":
        return self

    def __reduce__(self) -> Any:
        return Line, ()  # no buffer is known to hold what comes from a pickle


COPY = Line()


class Held(NamedTuple):
    """What a buffer holds: the first tokens of a line, which others may have in common with it."""

    line: Line
    end: HostArray  # numbers of tokens
    oldest: HostArray  # position of the oldest one in the ring
    others: Mapping[Line, HostArray] = {}  # numbers of tokens of other lines

    def record_in(self, buffer: Array, space: Space) -> None:
        """Record that a buffer holds it."""
        held = _held_in(buffer, space) or [None]
        held[0] = self


class Stored(NamedTuple):
    """What a step stores, and what it needs in a buffer: the first tokens of a line."""

    needed: Held
    slots: Slots
    line: Line  # of the new tokens; `COPY` for a copy of the buffer, which may lack some
    after: HostArray  # numbers of tokens with the new ones

    @classmethod
    def of(cls, needed: Line, before: Array, oldest: Array, *others: Any) -> "Stored":
        """Return what a step stores after some tokens of a line."""
        return cls(Held(needed, np.asarray(before), np.asarray(oldest)), *others)

    def held_after(self, held: Held, *, is_copied: bool) -> Held:
        """Check that a buffer holds what is needed, and return what it holds after the step.

        A step that stores in a copy of the buffer may overwrite there what it does not need.
        """
        line, needed, before, end = self.line, self.needed.line, self.needed.end, held.end
        goes_on, oldest, others = held.line is line and not is_copied, held.oldest, held.others
        if goes_on and end is self.after:
            raise wrong_value(
                "buffer", _ANOTHER, "one that this step has stored in already", _TWICE
            )
        if goes_on:
            is_held = end is before or np.array_equal(end, before)
            hint = _AHEAD if not is_held and np.any(end > before) else _BEHIND
        else:
            left, hint = {**others, held.line: end}, _OTHERS if end.any() else _BEHIND
            if len(end) != len(before):  # of other sequences
                left, oldest = dict.fromkeys(left, 0 * before), 0 * before
            oldest = np.maximum(oldest, self.needed.oldest)
            lengths, was_used = left.get(needed), needed is line or line in left
            if was_used and not is_copied:  # another cache has stored since
                is_held = False
            elif lengths is None:
                is_held = is_copied or not before.any() or not (line is not COPY or end.any())
            else:  # a copy may be rewound
                lost = self.slots.lost(oldest, before, self.needed.oldest if line is COPY else None)
                may_lack = line is COPY and held.line is needed
                is_held = not lost and (may_lack or bool(np.all(before <= lengths)))
            oldest = np.minimum(oldest, before)
            others = WeakKeyDictionary({at: np.minimum(n, before) for at, n in left.items()})
        if not is_held:
            came = f"one of {end.tolist()} tokens for a step after {before.tolist()}"
            raise wrong_value("buffer", "hold the tokens before the step", came, hint)
        if self.slots.window is not None:
            oldest = np.maximum(oldest, self.after - self.slots.ring)
        return Held(line, self.after, oldest, others)


def follow(buffer: Array, step: Stored | None, space: Space, changes: Any) -> Held | None:
    """Check that a buffer holds what a step needs, and return what it holds after it.

    Know that it does so, unless the step stores in a copy, or nothing; None where that cannot be.
    Most buffers hold the same: what it changes is kept.
    """
    if step is None or space.is_compiling:
        return None
    owner, held = _known.get(id(buffer), _NOBODY)
    found = held if owner() is buffer else _held_in(buffer, space)
    if found is None:
        return None
    before = found[0] or step.needed
    if changes.get("before") is not before:
        after = step.held_after(before, is_copied=not space.can_write)
        changes |= {"before": before, "after": after}
    is_stored = space.can_write and step.after is not step.needed.end
    found[0] = changes["after"] if is_stored else before
    return changes["after"]  # type: ignore[no-any-return]


# In a list, what a buffer holds, by the `id` of an array and by where it begins in memory; with a
# weak reference to what has to be alive.
_known: dict[object, tuple[Callable[[], Any], list[Held | None]]] = {}
_NOBODY: tuple[Callable[[], Any], list[Held | None]] = (lambda: None), [None]


def _held_in(buffer: Array, space: Space) -> list[Held | None] | None:
    """Return a list of what a buffer holds, None if it is not known; None if it cannot be."""
    address = space.address(buffer) if space.can_write else None
    if not (address or (space.is_readable(buffer) and not space.can_write)):
        return None
    owner, held = _known.get((address,), _NOBODY)
    held = [None] if owner() is None else held
    _keep(id(buffer), buffer, held)
    if address:
        _keep((address,), space.owner(buffer), held)
    return held


def _keep(key: object, owner: object, held: list[Held | None]) -> None:
    _known[key] = ref(owner, lambda _: _known.pop(key, None)), held
