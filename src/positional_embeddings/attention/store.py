"""New keys and values in the buffers of a cache: what is written, and what buffers hold."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

from positional_embeddings.arguments import axes
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.attention.slots import Slots

# The ways on, in errors, where a buffer has been stored in by this step, by a later one, not by the
# one before, or by another cache.
_OTHER_BUFFER = "be another one for keys, for values and for each layer"
_TWICE_HINT = " Each token, or chunk of tokens, has a step of its own."
_AHEAD_HINT = (
    " The cache that `step` returned was not kept, an earlier step was used again, or the buffer is"
    " used for another sequence: write cache, step = cache.step(tokens), or start over with"
    " KVCache.empty. To go back on purpose, rewind the cache, by 0 to go on from an earlier one."
)
_BEHIND_HINT = " Call `step` once for all layers, and store its tokens in each of their buffers."
_TOKENS_HINT = (
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
    backend: Backend

    def part(self, start: int, count: int, row: int = 0, rows: int = 1) -> Index:
        """Return the index of some slots or tokens, of one of the rows."""
        index = [slice(None)] * self.ndim
        index[self.batch], index[self.seq] = slice(row, None, rows), slice(start, start + count)
        return tuple(index)

    def take(self, array: Array, source: Array, *, may_lack: bool) -> Array:
        """Return slots and tokens of an array at the indices `source`, (batch or 1, slot).

        An index below 0, which a trace may have, gives NaN.
        """
        xp, (rows, length) = self.backend.xp, source.shape
        shape = (*array.shape[: self.seq], length, *array.shape[self.seq + 1 :])
        if isinstance(source, np.ndarray):
            before = (slice(None),) * self.batch
            on = {"dtype": self.backend.int_dtype, "device": self.backend.device}
            taken = []
            for row, slots in enumerate(source):
                row_array = array[(*before, slice(row, None, rows))]
                taken.append(xp.take(row_array, xp.asarray(slots, **on), axis=self.seq))
            if rows == 1:
                return taken[0]
            return self.backend.reshape(xp.stack(taken, axis=self.batch + 1), shape)
        source = xp.tile(source, (shape[self.batch] // rows, 1))
        index = axes.expand_to_axes(source, (self.batch, self.seq), array.ndim, xp)
        existing = xp.broadcast_to(xp.where(index < 0, 0, index), shape)
        taken = xp.take_along_axis(array, existing, axis=self.seq)
        if not (may_lack and dtypes.is_real_floating(array.dtype, xp)):
            return taken
        return namespace.select(index >= 0, taken, float("nan"), xp)

    def put(self, array: Array, new: Array, targets: Array, capacity: int | None) -> Array:
        """Return an array with new tokens in the slots `targets`, (batch or 1, token).

        A slot below 0, which a trace may have, gives NaN in all slots of the sequence, up to
        `capacity`; None if there is no such slot.
        """
        backend, shape, rows = self.backend, array.shape, targets.shape[0]
        xp = backend.xp
        slots = xp.asarray(targets, dtype=backend.int_dtype, device=backend.device)
        index: list[Any] = [slice(None)] * self.ndim
        if rows == 1:
            index[self.seq] = slots[0, :]
            stored = backend.put(array, tuple(index), new)
        else:
            slots = xp.tile(slots, (shape[self.batch] // rows, 1))
            index[self.batch] = xp.arange(shape[self.batch], dtype=backend.int_dtype)[:, None]
            index[self.seq] = slots
            others = [axis for axis in range(self.ndim) if axis not in (self.batch, self.seq)]
            order = [self.batch, self.seq, *others]
            if abs(self.batch - self.seq) == 1:  # the axes of the indices stay where they are
                start = min(self.batch, self.seq)
                order = [*others[:start], self.batch, self.seq, *others[start:]]
            stored = backend.put(array, tuple(index), xp.permute_dims(new, tuple(order)))
        if capacity is None or not dtypes.is_real_floating(array.dtype, xp):
            return stored
        in_cache = xp.arange(shape[self.seq], dtype=backend.int_dtype) < capacity
        is_lost = (slots[:, :1] < 0) & in_cache[None, :]
        is_lost = axes.expand_to_axes(is_lost, (self.batch, self.seq), self.ndim, xp)

        def with_nan(stored: Array) -> Array:
            return namespace.select(~is_lost, stored, float("nan"), xp)

        loops = backend.loops()
        if loops is None:
            return with_nan(stored)
        return loops.cond(xp.any(slots[:, :1] < 0), with_nan, lambda stored: stored, stored)


class WritePlan(NamedTuple):
    """What a step writes to buffers of one form, and what it reads of them."""

    axes: BufferAxes
    # Indices of slots, and of the tokens that they take; None if all slots are made anew.
    writes: list[tuple[Index, Index]] | None
    read: Index  # of the keys so far, or of all slots that are made anew


class Branch:
    """Tokens that a cache, and the caches that its steps return, store one after the other.

    A cache that is rewound, taken or copied goes on in a branch of its own.
    """

    def __deepcopy__(self, memo: object) -> "Branch":
        return self

    def __reduce__(self) -> Any:
        return Branch, ()  # no buffer is known to hold what comes from a pickle


COPY = Branch()


class BufferState(NamedTuple):
    """What a buffer holds: the first tokens of a branch, and what others share with it."""

    branch: Branch
    lengths: HostArray  # numbers of tokens
    oldest: HostArray  # position of the oldest one in the ring
    shared: Mapping[Branch, HostArray] = {}  # numbers of tokens of other branches

    def record_in(self, buffer: Array, backend: Backend) -> None:
        """Record that a buffer holds it."""
        record = _record_of(buffer, backend) or [None]
        record[0] = self


class Transition(NamedTuple):
    """What a step needs in a buffer, and what it stores there."""

    needed: BufferState
    slots: Slots
    branch: Branch  # of the new tokens; `COPY` for a copy of the buffer, which may lack some
    lengths: HostArray  # numbers of tokens with the new ones

    @classmethod
    def of(cls, needed: Branch, lengths: Array, oldest: Array, *arguments: Any) -> "Transition":
        """Return what a step does after some tokens of a branch."""
        return cls(BufferState(needed, np.asarray(lengths), np.asarray(oldest)), *arguments)

    def apply(self, held: BufferState, *, is_copied: bool) -> BufferState:
        """Check that a buffer holds what is needed, and return its state after the step.

        There are three cases. A step of the branch that stored last needs as many tokens as the
        buffer holds. A step of a new branch, after `rewind`, `take` or a copy, needs tokens that
        the branches before it have in common with the buffer, none of which a ring overwrote. A
        step of a branch that another one followed is refused. A step that stores in a copy of the
        buffer may overwrite there what it does not need.
        """
        branch, needed, before = self.branch, self.needed.branch, self.needed.lengths
        length, oldest, shared = held.lengths, held.oldest, held.shared
        goes_on = held.branch is branch and not is_copied
        if goes_on and length is self.lengths:
            actual = "one that this step has stored in already"
            raise wrong_value("buffer", _OTHER_BUFFER, actual, _TWICE_HINT)
        if goes_on:
            is_held = length is before or np.array_equal(length, before)
            hint = _AHEAD_HINT if not is_held and np.any(length > before) else _BEHIND_HINT
        else:
            counts = {**shared, held.branch: length}
            hint = _TOKENS_HINT if length.any() else _BEHIND_HINT
            if len(length) != len(before):  # of other sequences
                counts, oldest = dict.fromkeys(counts, 0 * before), 0 * before
            oldest = np.maximum(oldest, self.needed.oldest)
            count, was_used = counts.get(needed), needed is branch or branch in counts
            if was_used and not is_copied:  # another cache has stored since
                is_held = False
            elif count is None:
                is_held = is_copied or not before.any() or not (branch is not COPY or length.any())
            else:  # a copy may be rewound
                first_needed = self.needed.oldest if branch is COPY else None
                lost = self.slots.overwritten(oldest, before, first_needed)
                may_lack = branch is COPY and held.branch is needed
                is_held = not lost and (may_lack or bool(np.all(before <= count)))
            oldest = np.minimum(oldest, before)
            shared = WeakKeyDictionary({at: np.minimum(n, before) for at, n in counts.items()})
        if not is_held:
            actual = f"one of {length.tolist()} tokens for a step after {before.tolist()}"
            raise wrong_value("buffer", "hold the tokens before the step", actual, hint)
        if self.slots.is_ring:
            oldest = np.maximum(oldest, self.lengths - self.slots.ring)
        return BufferState(branch, self.lengths, oldest, shared)


def verify(
    buffer: Array, change: Transition | None, backend: Backend, last: Any
) -> BufferState | None:
    """Check that a buffer holds the tokens that a step needs, and return its contents after it.

    The contents are recorded, unless the step writes to a copy, or nothing. They are None where
    they cannot be known. `last` keeps the last ones: most buffers of a step hold the same.
    """
    if change is None or backend.is_compiling:
        return None
    owner, known_record = _records.get(id(buffer), _NO_RECORD)
    record = known_record if owner() is buffer else _record_of(buffer, backend)
    if record is None:
        return None
    before = record[0] or change.needed
    if last.get("before") is not before:
        after = change.apply(before, is_copied=not backend.is_mutable)
        last |= {"before": before, "after": after}
    is_stored = backend.is_mutable and change.lengths is not change.needed.lengths
    record[0] = last["after"] if is_stored else before
    return last["after"]  # type: ignore[no-any-return]


# A list of what a buffer holds, None if that is not known.
Record: TypeAlias = list[BufferState | None]

# The record of a buffer by the `id` of an array, and by where it begins in memory; with a weak
# reference to what has to be alive.
_records: dict[object, tuple[Callable[[], Any], Record]] = {}
_NO_RECORD: tuple[Callable[[], Any], Record] = (lambda: None), [None]


def _record_of(buffer: Array, backend: Backend) -> Record | None:
    """Return the record of a buffer, None if there can be none."""
    address = backend.address(buffer) if backend.is_mutable else None
    if not (address or (backend.is_concrete(buffer) and not backend.is_mutable)):
        return None
    owner, record = _records.get((address,), _NO_RECORD)
    record = [None] if owner() is None else record
    _register(id(buffer), buffer, record)
    if address:
        _register((address,), backend.owner(buffer), record)
    return record


def _register(key: object, owner: object, record: Record) -> None:
    _records[key] = ref(owner, lambda _: _records.pop(key, None)), record
