"""Which position is in which slot of a cache, and where new tokens go."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array, Namespace, np

# The way on, in errors of arrays of too many tokens.
NEW_HINT = " The `tokens` of a step are the new ones alone, in an attention mask, too."

# A slot beyond those of any buffer.
_OUT_OF_BOUNDS = 2**31 - 1


class Slots(NamedTuple):
    """The slots of a cache, which hold all tokens, or as a ring the first and the newest ones.

    Position p is in slot p if it is below n = `num_sink_tokens`, else in slot
    ``n + (p - n) % ring``.
    """

    capacity: int
    num_sink_tokens: int  # number of first tokens that stay
    window: int | None  # number of newest keys that a query of a ring sees; None without a ring

    @property
    def is_ring(self) -> bool:
        """Return whether new tokens take the place of old ones."""
        return self.window is not None

    @property
    def ring(self) -> int:
        """Return the number of slots in which new tokens take the place of old ones."""
        return self.capacity - self.num_sink_tokens

    def positions(self, slots: Array, lengths: Array, oldest: Array, xp: Namespace) -> Array:
        """Return the position in each slot after some numbers of tokens; -1 if it is empty.

        A slot of the ring holds the newest position that belongs there, unless that one is before
        the `oldest` that the ring still has: a later token took its slot, and was forgotten.
        """
        if not self.is_ring:
            return xp.where(slots < lengths, slots, -1)
        is_sink = slots < self.num_sink_tokens
        newest = lengths - 1 - xp.remainder(lengths - 1 - slots, self.ring)
        newest = xp.where(is_sink, slots, newest)
        is_held = (newest >= slots) & (newest < lengths) & (is_sink | (newest >= oldest))
        return xp.where(is_held, newest, -1)

    def overwritten(self, oldest: Array, lengths: Array, xp: Namespace) -> Array:
        """Return how many keys of each sequence a ring lacks that the next query sees."""
        if self.window is None:
            return 0 * lengths
        needed = lengths + 1 - self.window
        oldest, needed = (xp.clip(at, self.num_sink_tokens, lengths) for at in (oldest, needed))
        return xp.maximum(oldest - needed, 0)

    def runs(self, first: int, stop: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Yield which slots positions from `first` to `stop` have after `length` tokens.

        As (slot, position, count) of neighbours, without positions that the ring has forgotten.
        """
        if length <= self.capacity:  # each is in the slot of its number
            yield first, first, stop - first
            return
        sinks, oldest = self.num_sink_tokens, length - self.ring
        at_first_slot = length - 1 - (length - 1 - sinks) % self.ring
        inner = {p for p in (sinks, oldest, at_first_slot) if first < p < stop}
        for start, end in pairwise(sorted({first, stop} | inner)):
            if start < sinks:
                yield start, start, end - start
            elif start >= oldest:
                yield sinks + (start - sinks) % self.ring, start, end - start


class Write(NamedTuple):
    """Neighbouring new tokens of a sequence, and the neighbouring slots that take them."""

    row: int  # the sequence; 0 stands for all if they are alike
    slot: int
    token: int
    length: int


class NewTokens(NamedTuple):
    """The new tokens of each sequence; the first one stands for all if they are alike.

    Arrays are NumPy's if the host knows their values, else a library's that traces.
    """

    slots: Slots
    before: Array  # numbers of tokens without the new ones, (batch or 1, 1)
    after: Array  # and with them
    oldest: Array  # positions that the ring still has before, (batch or 1, 1)
    positions: Array  # (batch or 1, token); padding has that of the token before it, or 0
    mask: Array  # 1 at tokens and 0 at padding, (batch, token); None without padding
    max_length: int | None  # largest number of tokens with the new ones; None in a trace
    host: Backend  # of these arrays
    backend: Backend  # of buffers

    @property
    def is_joined(self) -> bool:
        """Whether queries get the keys before the step, joined by the new ones.

        So they do in a ring, where the last tokens of a chunk overwrite keys that the first see.
        """
        is_chunk = self.slots.is_ring and self.positions.shape[1] > 1
        return is_chunk and (self.max_length is None or self.max_length > self.slots.capacity)

    @property
    def is_uniform(self) -> bool:
        """Whether the tokens of all sequences are in the slots of their positions, in buffers."""
        is_alike = self.mask is None and self.positions.shape[0] == 1
        return is_alike and not self.slots.is_ring and self.backend.is_mutable

    def prompt_tokens(self) -> Array:
        """Return which columns of a padded prompt are tokens, (batch, column), None if no prompt.

        A trace does not know whether there were tokens before; then all columns count as tokens.
        """
        had_tokens = self.host.xp.any(self.before > 0)
        if self.mask is None or (self.max_length is not None and had_tokens):
            return None
        return (self.mask == 1) | had_tokens

    @property
    def is_lost(self) -> Array:
        """Whether a sequence has too many tokens, or is marked as lost, (batch or 1, 1)."""
        limit = checks.max_position(self.backend) if self.slots.is_ring else self.slots.capacity
        return self.after > limit

    def key_positions(self) -> Array:
        """Return the position of each key that queries get, (batch or 1, key); -1 if empty."""
        is_joined, size = self.is_joined, self.slots.capacity
        lengths = self.before if is_joined else self.after
        if self.max_length is not None and self.backend.is_mutable:  # no empty slots at the end
            size = min(size, max(int(lengths.max()), 0 if is_joined else 1))
        held = self._held(lengths, size)
        if not is_joined:
            if self.max_length is None and not self.slots.is_ring:
                # Of too many tokens, all keys are NaN: new queries see some of them in any window.
                xp = self.host.xp
                excess = xp.minimum(xp.maximum(lengths - size, 0), self.before)
                held = xp.where(held < 0, held, held + excess)
            return held
        new = self.positions
        if self.mask is not None:
            new = self.host.xp.where(self.mask == 1, new, -1)
        return self.host.xp.concat([held, new], axis=1)

    def _held(self, lengths: Array, size: int) -> Array:
        """Return the position in each of the first slots after some numbers of tokens."""
        return self.slots.positions(self._count(size), lengths, self.oldest, self.host.xp)

    def _count(self, size: int) -> Array:
        options = {"dtype": self.before.dtype, "device": self.host.device}
        return self.host.xp.arange(size, **options)[None, :]

    def writes(self) -> Iterator[Write]:
        """Yield what to write to buffers; the host has to know all numbers."""
        if self.is_uniform:
            yield Write(0, int(self.positions[0, 0]), 0, self.positions.shape[1])
            return
        lengths = zip(self.before[:, 0].tolist(), self.after[:, 0].tolist(), strict=True)
        for row, (first, stop) in enumerate(lengths):
            for token, count in self._runs(row):
                for slot, position, n in self.slots.runs(first, first + count, stop):
                    yield Write(row, slot, token + position - first, n)
                first += count  # noqa: PLW2901 - the tokens after padding

    def _runs(self, row: int) -> list[tuple[int, int]]:
        """Return neighbouring tokens without padding between them: the first, and their number."""
        if self.mask is None:
            return [(0, self.positions.shape[1])]
        edges = np.flatnonzero(np.diff(self.mask[row], prepend=0, append=0)).reshape(-1, 2)
        return [(start, stop - start) for start, stop in edges.tolist()]

    def targets(self) -> Array:
        """Return the slot of each new token, (batch or 1, token).

        It is out of bounds for padding and tokens that a ring overwrites; below 0 for all tokens
        of a sequence that a trace, which does not know it, has lost.
        """
        xp, slots, positions = self.host.xp, self.slots, self.positions
        targets, is_dropped = positions, positions < 0
        if slots.is_ring:
            is_sink = positions < slots.num_sink_tokens
            in_ring = xp.remainder(positions - slots.num_sink_tokens, slots.ring)
            targets = xp.where(is_sink, positions, slots.num_sink_tokens + in_ring)
            is_dropped = ~is_sink & (positions < self.after - slots.ring)
        if self.mask is not None:
            is_dropped = is_dropped | (self.mask == 0)
        targets = xp.where(is_dropped, _OUT_OF_BOUNDS, targets)
        if self.max_length is not None:
            return targets
        return xp.where(self.is_lost, -_OUT_OF_BOUNDS, targets)

    def source(self) -> Array:
        """Return from where slots get their keys, (batch or 1, slot).

        That is a slot, or `capacity` and the index of a new token; -1 if a trace, which does not
        know it, has lost the sequence.
        """
        xp, capacity = self.host.xp, self.slots.capacity
        positions = self._held(self.after, capacity)
        token = positions - self.before
        if self.mask is not None:
            order = xp.argsort(1 - self.mask, axis=1, stable=True)  # padding last
            token = xp.take_along_axis(order, xp.clip(token, 0, order.shape[1] - 1), axis=1)
        source = xp.where(positions >= self.before, capacity + token, self._count(capacity))
        if self.max_length is not None:
            return source
        return xp.where(self.is_lost, -1, source)
