"""Which position is in which slot of a cache, and where new tokens go."""

from collections.abc import Iterator
from typing import NamedTuple

from positional_embeddings.arrays.namespace import Array, Device, Namespace, np


class Slots(NamedTuple):
    """The slots of a cache, which hold all tokens, or as a ring the first and the newest ones.

    Position p is in slot p if it is below `sinks`, else in slot ``sinks + (p - sinks) % ring``.
    """

    capacity: int
    sinks: int  # number of first tokens that stay
    window: int | None  # number of newest keys that a query of a ring sees; None without a ring

    @property
    def ring(self) -> int:
        """Return the number of slots in which new tokens take the place of old ones."""
        return self.capacity - self.sinks

    def positions(self, slots: Array, lengths: Array, oldest: Array, xp: Namespace) -> Array:
        """Return the position in each slot after some numbers of tokens; -1 if it is empty.

        A slot of the ring holds the newest position that belongs there, unless that one is before
        the `oldest` that the ring still has: a later token took its slot, and was forgotten.
        """
        if self.window is None:
            return xp.where(slots < lengths, slots, -1)
        is_sink = slots < self.sinks
        newest = lengths - 1 - xp.remainder(lengths - 1 - slots, self.ring)
        newest = xp.where(is_sink, slots, newest)
        is_held = (newest >= slots) & (newest < lengths) & (is_sink | (newest >= oldest))
        return xp.where(is_held, newest, -1)

    def taken(self, first: int, stop: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Yield neighbouring slots that positions from `first` to `stop` take.

        As (slot, position, count), for those that are still there after `length` tokens.
        """
        sinks = first, min(stop, self.sinks)
        newest = max(first, self.sinks, length - self.ring), stop
        for position, end in (sinks, newest):
            while position < end:
                is_sink = position < self.sinks
                slot = self.sinks + (position - self.sinks) % self.ring
                slot = position if is_sink else slot
                count = min(end - position, self.capacity - slot)
                yield slot, position, count
                position += count  # noqa: PLW2901 - a ring goes on at its first slot


class Write(NamedTuple):
    """Neighbouring new tokens of a sequence, and the neighbouring slots that take them."""

    row: int  # the sequence; 0 stands for all if they are alike
    slot: int
    token: int
    length: int


class NewTokens(NamedTuple):
    """The new tokens of each sequence; the first one stands for all if they are alike.

    Arrays are NumPy's if the host knows their values, else those of a library that traces.
    """

    slots: Slots
    before: Array  # numbers of tokens without the new ones, (batch or 1, 1)
    after: Array  # and with them
    oldest: Array  # positions that the ring still has before, (batch or 1, 1)
    positions: Array  # (batch or 1, token); padding has that of the token before it, or 0
    mask: Array  # 1 at tokens and 0 at padding, (batch, token); None without padding
    xp: Namespace
    device: Device
    can_write: bool  # whether buffers are written to, in parts

    @property
    def is_known(self) -> bool:
        """Whether the host knows all numbers."""
        return self.xp is np

    @property
    def is_joined(self) -> bool:
        """Whether queries get the keys before the step, joined by the new ones.

        So they do in a ring, where the last tokens of a chunk overwrite keys that the first see.
        """
        if self.slots.window is None or self.positions.shape[1] == 1:
            return False
        return not self.is_known or bool(self.after.max() > self.slots.capacity)

    @property
    def first_index(self) -> int | None:
        """The position of the first token, if all positions are known to be indices of slots."""
        is_counted = self.is_known and self.mask is None and self.before.shape[0] == 1
        return int(self.before[0, 0]) if is_counted and self.slots.window is None else None

    def key_positions(self) -> Array:
        """Return the position of each key that queries get, (batch or 1, key); -1 if empty."""
        if not self.is_joined:
            return self._held(self.after, least=1)
        new = self.positions
        if self.mask is not None:
            new = self.xp.where(self.mask == 1, new, -1)
        return self.xp.concat([self._held(self.before), new], axis=1)

    def _held(self, lengths: Array, least: int = 0) -> Array:
        """Return the position in each slot after some numbers of tokens."""
        size = self.slots.capacity
        if self.is_known and self.can_write:  # without the empty slots at the end
            size = min(size, max(least, int(lengths.max())))
        return self.slots.positions(self._count(size), lengths, self.oldest, self.xp)

    def _count(self, size: int) -> Array:
        return self.xp.arange(size, dtype=self.before.dtype, device=self.device)[None, :]

    def writes(self) -> Iterator[Write]:
        """Yield what to write to buffers; the host has to know all numbers."""
        for row, (first, stop) in enumerate(np.concat([self.before, self.after], axis=1).tolist()):
            for token, count in self._runs(row):
                for slot, position, n in self.slots.taken(first, first + count, stop):
                    yield Write(row, slot, token + position - first, n)
                first += count  # noqa: PLW2901 - the tokens after padding

    def _runs(self, row: int) -> list[tuple[int, int]]:
        """Return neighbouring tokens without padding between them: the first, and their number."""
        if self.mask is None:
            return [(0, self.positions.shape[1])]
        edges = np.flatnonzero(np.diff(self.mask[row], prepend=0, append=0)).reshape(-1, 2)
        return [(start, stop - start) for start, stop in edges.tolist()]

    def source(self) -> Array:
        """Return from where slots get their keys, (batch or 1, slot).

        That is a slot, or `capacity` and the index of a new token; -1 if a trace, which does not
        know it, has more tokens than slots.
        """
        xp, capacity = self.xp, self.slots.capacity
        positions = self._held(self.after)
        token = positions - self.before
        if self.mask is not None:
            order = xp.argsort(1 - self.mask, axis=1, stable=True)  # padding last
            token = xp.take_along_axis(order, xp.clip(token, 0, order.shape[1] - 1), axis=1)
        source = xp.where(positions >= self.before, capacity + token, self._count(capacity))
        if self.is_known or self.slots.window is not None:
            return source
        return xp.where(self.after > capacity, -1, source)
