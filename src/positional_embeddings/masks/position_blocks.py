"""Blocks of positions, at which masks are evaluated, and the rule of a window."""

from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.masks.index_ranges import IndexRanges
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, hull, intersect, shift

# Numbers of visible keys before and after the position of a query, -1 to `ALL_KEYS`.
Window: TypeAlias = tuple[int, int]
ALL_KEYS = 2**64  # more than any number of keys


class PositionBlock(NamedTuple):
    """Positions of queries or of keys, to evaluate a rule at."""

    values: Array  # integers; the last axis is the batch, or 1
    backend: Backend
    k_len: int | None  # total number of keys, None if it is not static
    ranges: Ranges | None = None  # the positions, if they are concrete
    # Indices of the queries or keys in their arrays; None if they equal the positions.
    indices_at: IndexRanges | Array | None = None

    @property
    def indices(self) -> Array:
        """Return indices into the array of queries or keys, with the axes of the positions."""
        if not isinstance(self.indices_at, IndexRanges):
            return self.values if self.indices_at is None else self.indices_at
        indices = self.indices_at.indices(self.backend)
        return indices[:, None, None] if self.values.shape[1] == 1 else indices[None, :, None]

    @property
    def largest(self) -> int:
        """Return the largest integer of the library."""
        return dtypes.largest_integer(self.backend.int_dtype, self.backend.xp)

    def in_library(self, table: Array) -> Array:
        """Return an array of the mask, converted to the library of the positions."""
        backend = self.backend
        if backend.is_numpy or not isinstance(table, np.ndarray):
            return table
        max_value = self.largest
        is_concrete = table.size and not backend.is_compiling
        if is_concrete and max(int(table.max()), -int(table.min())) > max_value:
            dtype = dtypes.dtype_name(backend.int_dtype)
            requirement = f"hold numbers to {max_value} only, the largest {dtype} of the library"
            raise wrong_value("mask", requirement, f"one of {table.min()} to {table.max()}")
        # PyTorch warns of read-only arrays.
        return backend.xp.asarray(table.copy(), dtype=backend.int_dtype, device=backend.device)

    def lookup(self, table: Array, start: int, outside: int) -> Array:
        """Return the entries (position, batch) of a table that begins at position `start`.

        The entry of a position that is not in the table is `outside`.
        """
        xp = self.backend.xp
        if self.ranges is not None:
            parts = [table[a - start : b - start, ...] for a, b in self.ranges]
            parts = [self.in_library(part) for part in parts]
            entries = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
            return entries[:, None, :] if self.values.shape[1] == 1 else entries[None, :, :]
        table = self.in_library(table)
        count, batch = table.shape
        index = self.values - start
        is_inside = (index >= 0) & (index < count)
        flat = self.backend.reshape(table, (count * batch,))
        sequences = xp.arange(batch, dtype=index.dtype, device=self.backend.device)
        index = xp.where(is_inside, index, 0) * batch + sequences
        return xp.where(is_inside, self.backend.take_entries(flat, index, 0), outside)


class ImplicitPositions(NamedTuple):
    """Positions that follow from indices: keys from 0, and queries from an offset."""

    offset: int  # position of the first query
    k_len: int  # total number of keys
    batch: int = 1  # batch size of the positions
    may_have_empty_slots: bool = False  # whether a key position may be below 0
    key_range: tuple[int, int] | None = None  # a part of the keys, whose indices start at 0
    query_start: int = 0  # array index of the first query, in a part of the queries

    def position_blocks(
        self, queries: IndexRanges, keys: IndexRanges, backend: Backend, batch: int = 1
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return the positions of queries (query, 1, 1) and of keys (1, key, 1)."""
        shifted = queries.shifted(self.offset) if self.offset else queries
        q = shifted.indices(backend, batch)[:, None, None]
        keys = keys.shifted(self.key_range[0]) if self.key_range else keys
        k = keys.indices(backend, batch)[None, :, None]
        indices = queries.shifted(self.query_start) if self.query_start else queries
        q_block = PositionBlock(q, backend, self.k_len, shifted.ranges, indices)
        return q_block, PositionBlock(k, backend, self.k_len, keys.ranges)

    def gathered_blocks(
        self, queries: Array, keys: Array, backend: Backend
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return the positions of queries (query, 1, 1), and of their keys (query, key, 1)."""
        q_block = PositionBlock(queries + self.offset, backend, self.k_len, indices_at=queries)
        return q_block, PositionBlock(keys, backend, self.k_len)

    def visible_keys(self, mask: Any, queries: Ranges) -> VisibleKeys:
        """Return the keys that are visible to ranges of queries."""
        shifted = shift(queries, self.offset) if self.offset else queries
        visible_keys: VisibleKeys = mask._visible_keys(shifted, self.k_len)
        if self.key_range is None:
            return visible_keys
        start, _ = self.key_range
        ranges = (shift(intersect(x, (self.key_range,)), -start) for x in visible_keys)
        return VisibleKeys(*ranges)

    def global_queries(self, mask: Any) -> Ranges:
        """Return the queries that attend to many more keys than their neighbours."""
        return shift(mask._global_queries(), -self.offset)

    def bias_block(
        self, bias: Any, queries: IndexRanges, keys: IndexRanges, backend: Backend
    ) -> Array:
        """Return a bias between queries and keys, (query, key, heads)."""
        shifted = queries.shifted(self.offset) if self.offset else queries
        keys = keys.shifted(self.key_range[0]) if self.key_range else keys
        return bias._block(shifted, keys, backend)


# Query-key pairs from which on a conversion to small integers saves time. Without it, a causal mask
# of 64 tokens takes 0.4 times as long, and a window over 256 tokens 1.8 times.
_MIN_PAIRS_TO_CONVERT = 2**14


def window_mask(q: PositionBlock, k: PositionBlock, window: Window) -> Array:
    """Return the mask of the keys outside a window around each query."""
    widest = 2 * checks.max_position(q.backend)  # the largest distance of two positions
    left, right = min(window[0], widest), min(window[1], widest)
    if left == widest:
        keys, last = _in_small_integers(k, q.values + right if right else q.values)
        return keys > last
    if right == widest:
        keys, first = _in_small_integers(k, q.values - left)
        return keys < first
    keys, first, stop = _in_small_integers(k, q.values - left, q.values + (right + 1))
    if keys is not k.values:  # unsigned: keys before the first wrap around
        return keys - first >= stop - first
    return (keys < first) | (keys >= stop)


def _in_small_integers(k: PositionBlock, *bounds: Array) -> tuple[Array, ...]:
    """Return keys and bounds of queries, for many pairs as small unsigned integers of NumPy.

    Comparing small integers is four times as fast.
    """
    is_eager_numpy = k.backend.is_numpy and not k.backend.is_compiling
    if not is_eager_numpy or len(bounds[0]) == 1 or len(k.values) != 1:
        return k.values, *bounds
    if len(bounds[0]) * k.values.size < _MIN_PAIRS_TO_CONVERT:
        return k.values, *bounds
    start, stop = hull(k.ranges) if k.ranges else (k.values.min(), k.values.max() + 1)
    # The first key becomes 1, and bounds are clipped to one below the first and one above the last
    # key. No comparison changes.
    before = start - 1
    dtype = np.min_scalar_type(int(stop - before))
    numbers = (np.minimum(np.maximum(x, before), stop) - before for x in (k.values, *bounds))
    return tuple(x.astype(dtype) for x in numbers)
