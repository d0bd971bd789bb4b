"""Positions at which masks are evaluated, and the rule of a window."""

from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments.spans import Span, farthest_position
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.masks.ranges import Ranges, Reach, hull, shift

# How many keys before and after its own position a query sees, from -1 to all of them.
Window: TypeAlias = tuple[int, int]
ALL_KEYS = 2**64  # more than there are positions


class Points(NamedTuple):
    """Positions of queries or of keys, at which a rule is evaluated."""

    values: Array  # integers; the last axis is the batch, of length 1 if it is the same for all
    space: Space
    k_len: int | None  # number of all keys, if it is known
    ranges: Ranges | None = None  # the same positions, if the host knows them
    # Where the queries or keys are in their arrays, whatever their positions; None if there.
    indices_at: Span | Array | None = None

    @property
    def indices(self) -> Array:
        """Return where the queries or keys are in their arrays, with the axes of the positions."""
        if not isinstance(self.indices_at, Span):
            return self.values if self.indices_at is None else self.indices_at
        indices = self.indices_at.positions(self.space)
        return indices[:, None, None] if self.values.shape[1] == 1 else indices[None, :, None]

    @property
    def largest(self) -> int:
        """Return the largest integer of the library."""
        return dtypes.largest_integer(self.space.integer, self.space.xp)

    def in_library(self, table: Array) -> Array:
        """Return an array of the mask in the library of the positions."""
        space = self.space
        if space.xp is np or not isinstance(table, np.ndarray):
            return table
        most = self.largest
        is_readable = table.size and not space.is_compiling
        if is_readable and max(int(table.max()), -int(table.min())) > most:
            dtype = dtypes.dtype_name(space.integer)
            what = f"hold numbers to {most} only, which {dtype} of the library holds"
            raise wrong_value("mask", what, f"one of {table.min()} to {table.max()}")
        # PyTorch warns of an array that cannot be written to.
        return space.xp.asarray(table.copy(), dtype=space.integer, device=space.device)

    def take(self, table: Array, start: int, outside: int) -> Array:
        """Return the entries (position, batch) of a table that begins at position `start`.

        Positions that the table does not have get the number `outside`.
        """
        xp = self.space.xp
        if self.ranges is not None:
            parts = [table[a - start : b - start, ...] for a, b in self.ranges]
            parts = [self.in_library(part) for part in parts]
            taken = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
            return taken[:, None, :] if self.values.shape[1] == 1 else taken[None, :, :]
        table = self.in_library(table)
        count, batch = table.shape
        index = self.values - start
        inside = (index >= 0) & (index < count)
        flat = self.space.reshape(table, (count * batch,))
        sequences = xp.arange(batch, dtype=index.dtype, device=self.space.device)
        taken = self.space.take_entries(flat, xp.where(inside, index, 0) * batch + sequences, 0)
        return xp.where(inside, taken, outside)


class Consecutive(NamedTuple):
    """Where queries and keys are that are counted by their indices."""

    offset: int  # position of the first query
    k_len: int  # number of all keys
    batch: int = 1  # number of sequences that have positions of their own
    may_be_empty: bool = False  # whether a key position may be below 0

    def points(
        self, queries: Span, keys: Span, space: Space, batch: int = 1
    ) -> tuple[Points, Points]:
        """Return queries (query, 1, 1) and keys (1, key, 1), for a batch of sequences."""
        at = queries.shifted(self.offset) if self.offset else queries
        q = at.positions(space, batch)[:, None, None]
        k = keys.positions(space, batch)[None, :, None]
        query_points = Points(q, space, self.k_len, at.ranges, queries)
        return query_points, Points(k, space, self.k_len, keys.ranges)

    def pairs(self, queries: Array, keys: Array, space: Space) -> tuple[Points, Points]:
        """Return queries (query, 1, 1), and keys of each (query, key, 1), at their indices."""
        query_points = Points(queries + self.offset, space, self.k_len, indices_at=queries)
        return query_points, Points(keys, space, self.k_len)

    def reach(self, mask: Any, queries: Ranges) -> Reach:
        """Return which keys a mask lets some queries see."""
        at = shift(queries, self.offset) if self.offset else queries
        return mask._reach(at, self.k_len)  # type: ignore[no-any-return]

    def global_queries(self, mask: Any) -> Ranges:
        """Return queries that a mask lets see many more keys than their neighbours."""
        return shift(mask._global_queries(), -self.offset)

    def bias_between(self, bias: Any, queries: Span, keys: Span, space: Space) -> Array:
        """Return a bias between queries and keys, (query, key, heads)."""
        at = queries.shifted(self.offset) if self.offset else queries
        return bias._between(at, keys, space)


# Pairs of a query and a key: fewer take longer to make small than to compare (a causal mask of 64
# tokens takes 0.4 of the time as it is, a window over 256 tokens 1.8).
_FEWEST_PAIRS = 2**14


def hides_outside(q: Points, k: Points, window: Window) -> Array:
    """Return the mask that hides the keys outside a window around each query."""
    widest = 2 * farthest_position(q.space)  # no two positions are farther apart
    left, right = min(window[0], widest), min(window[1], widest)
    if left == widest:
        keys, last = _in_small_integers(k, q.values + right if right else q.values)
        return keys > last
    if right == widest:
        keys, first = _in_small_integers(k, q.values - left)
        return keys < first
    keys, first, stop = _in_small_integers(k, q.values - left, q.values + (right + 1))
    if keys is not k.values:  # without a sign, keys before the first wrap round
        return keys - first >= stop - first
    return (keys < first) | (keys >= stop)


def _in_small_integers(k: Points, *bounds: Array) -> tuple[Array, ...]:
    """Return keys and bounds of queries; where it pays, as small unsigned integers of NumPy.

    Small integers are compared four times as fast.
    """
    is_plain = k.space.xp is np and not k.space.is_compiling
    if not is_plain or len(bounds[0]) == 1 or len(k.values) != 1:
        return k.values, *bounds
    if len(bounds[0]) * k.values.size < _FEWEST_PAIRS:
        return k.values, *bounds
    start, stop = hull(k.ranges) if k.ranges else (k.values.min(), k.values.max() + 1)
    # The first key becomes 1. A bound before it becomes 0, and one behind the last key becomes
    # the number after the last key's, so that all comparisons come out the same.
    before = start - 1
    dtype = np.min_scalar_type(int(stop - before))
    numbers = (np.minimum(np.maximum(x, before), stop) - before for x in (k.values, *bounds))
    return tuple(x.astype(dtype) for x in numbers)
