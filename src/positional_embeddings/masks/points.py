"""Positions at which masks are evaluated, and the rule of a window."""

from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, hull, intersect, shift
from positional_embeddings.masks.spans import IndexRanges

# How many keys before and after its own position a query sees, from -1 to all of them.
Window: TypeAlias = tuple[int, int]
ALL_KEYS = 2**64  # more than there are positions


class PositionBlock(NamedTuple):
    """Positions of queries or of keys, at which a rule is evaluated."""

    values: Array  # integers; the last axis is the batch, of length 1 if it is the same for all
    backend: Backend
    k_len: int | None  # number of all keys, if it is known
    ranges: Ranges | None = None  # the same positions, if the host knows them
    # Where the queries or keys are in their arrays, whatever their positions; None if there.
    indices_at: IndexRanges | Array | None = None

    @property
    def indices(self) -> Array:
        """Return where the queries or keys are in their arrays, with the axes of the positions."""
        if not isinstance(self.indices_at, IndexRanges):
            return self.values if self.indices_at is None else self.indices_at
        indices = self.indices_at.positions(self.backend)
        return indices[:, None, None] if self.values.shape[1] == 1 else indices[None, :, None]

    @property
    def largest(self) -> int:
        """Return the largest integer of the library."""
        return dtypes.largest_integer(self.backend.integer, self.backend.xp)

    def in_library(self, table: Array) -> Array:
        """Return an array of the mask in the library of the positions."""
        backend = self.backend
        if backend.has_host_arrays or not isinstance(table, np.ndarray):
            return table
        most = self.largest
        is_concrete = table.size and not backend.is_compiling
        if is_concrete and max(int(table.max()), -int(table.min())) > most:
            dtype = dtypes.dtype_name(backend.integer)
            requirement = f"hold numbers to {most} only, which {dtype} of the library holds"
            raise wrong_value("mask", requirement, f"one of {table.min()} to {table.max()}")
        # PyTorch warns of an array that cannot be written to.
        return backend.xp.asarray(table.copy(), dtype=backend.integer, device=backend.device)

    def take(self, table: Array, start: int, outside: int) -> Array:
        """Return the entries (position, batch) of a table that begins at position `start`.

        Positions that the table does not have get the number `outside`.
        """
        xp = self.backend.xp
        if self.ranges is not None:
            parts = [table[a - start : b - start, ...] for a, b in self.ranges]
            parts = [self.in_library(part) for part in parts]
            taken = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
            return taken[:, None, :] if self.values.shape[1] == 1 else taken[None, :, :]
        table = self.in_library(table)
        count, batch = table.shape
        index = self.values - start
        inside = (index >= 0) & (index < count)
        flat = self.backend.reshape(table, (count * batch,))
        sequences = xp.arange(batch, dtype=index.dtype, device=self.backend.device)
        taken = self.backend.take_entries(flat, xp.where(inside, index, 0) * batch + sequences, 0)
        return xp.where(inside, taken, outside)


class ImplicitPositions(NamedTuple):
    """Where queries and keys are that are counted by their indices."""

    offset: int  # position of the first query
    k_len: int  # number of all keys
    batch: int = 1  # number of sequences that have positions of their own
    may_be_empty: bool = False  # whether a key position may be below 0
    key_range: tuple[int, int] | None = None  # of a part of the keys, whose indices start at 0

    def points(
        self, queries: IndexRanges, keys: IndexRanges, backend: Backend, batch: int = 1
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return queries (query, 1, 1) and keys (1, key, 1), for a batch of sequences."""
        at = queries.shifted(self.offset) if self.offset else queries
        q = at.positions(backend, batch)[:, None, None]
        keys = keys.shifted(self.key_range[0]) if self.key_range else keys
        k = keys.positions(backend, batch)[None, :, None]
        query_points = PositionBlock(q, backend, self.k_len, at.ranges, queries)
        return query_points, PositionBlock(k, backend, self.k_len, keys.ranges)

    def pairs(
        self, queries: Array, keys: Array, backend: Backend
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return queries (query, 1, 1), and keys of each (query, key, 1), at their indices."""
        query_points = PositionBlock(queries + self.offset, backend, self.k_len, indices_at=queries)
        return query_points, PositionBlock(keys, backend, self.k_len)

    def visible_keys(self, mask: Any, queries: Ranges) -> VisibleKeys:
        """Return which keys a mask lets some queries see."""
        at = shift(queries, self.offset) if self.offset else queries
        visible_keys: VisibleKeys = mask._visible_keys(at, self.k_len)
        if self.key_range is None:
            return visible_keys
        start, _ = self.key_range
        ranges = (shift(intersect(x, (self.key_range,)), -start) for x in visible_keys)
        return VisibleKeys(*ranges)

    def global_queries(self, mask: Any) -> Ranges:
        """Return queries that a mask lets see many more keys than their neighbours."""
        return shift(mask._global_queries(), -self.offset)

    def bias_between(
        self, bias: Any, queries: IndexRanges, keys: IndexRanges, backend: Backend
    ) -> Array:
        """Return a bias between queries and keys, (query, key, heads)."""
        at = queries.shifted(self.offset) if self.offset else queries
        keys = keys.shifted(self.key_range[0]) if self.key_range else keys
        return bias._between(at, keys, backend)


# Pairs of a query and a key: fewer take longer to make small than to compare (a causal mask of 64
# tokens takes 0.4 of the time as it is, a window over 256 tokens 1.8).
_FEWEST_PAIRS = 2**14


def hides_outside(q: PositionBlock, k: PositionBlock, window: Window) -> Array:
    """Return the mask that hides the keys outside a window around each query."""
    widest = 2 * checks.max_position(q.backend)  # no two positions are farther apart
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


def _in_small_integers(k: PositionBlock, *bounds: Array) -> tuple[Array, ...]:
    """Return keys and bounds of queries; where it pays, as small unsigned integers of NumPy.

    Small integers are compared four times as fast.
    """
    is_plain = k.backend.has_host_arrays and not k.backend.is_compiling
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
