"""Masks and biases at explicit positions of queries and keys."""

from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.weights import ArrayDataclass, array_field
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import format_value, plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.attention.slots import NEW_HINT, Slots, Write
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_position import NO_MASK, ring_window_mask
from positional_embeddings.masks.index_ranges import IndexRanges, position_array
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions, PositionBlock
from positional_embeddings.masks.ranges import Ranges, VisibleKeys, complement, unite

# Ranges of fewer keys are not worth separate parts.
_MIN_RANGE_KEYS = 64

# A position far beyond any window that starts at 0.
DISTANT_POSITION = 2**40


class ConcretePositions(NamedTuple):
    """Positions of queries and keys, (position, batch or 1), in the memory of the host."""

    queries: HostArray
    keys: HostArray
    # Position of the first query, if queries are consecutive and keys count from 0.
    consecutive_start: int | None
    has_empty: bool  # whether a key position is below 0

    @classmethod
    def of(cls, queries: HostArray, keys: HostArray) -> "ConcretePositions":
        """Return positions, with `consecutive_start` and `has_empty` computed from them."""
        first = int(queries[0, 0])
        are_counted = first >= 0 and all(
            np.all(table == np.arange(start, start + len(table))[:, None])
            for start, table in ((first, queries), (0, keys))
        )
        return cls(queries, keys, first if are_counted else None, bool(keys.min() < 0))


class ExplicitPositions(NamedTuple):
    """Positions of queries and of keys, (position, batch or 1)."""

    queries: Array
    keys: Array
    on_host: ConcretePositions | None = None
    slots: Slots | None = None  # of the cache of a step
    is_token: Array = None  # attention mask of a padded prompt, (batch, column)
    is_shared: bool = False  # whether `key_positions` are left out

    @property
    def batch(self) -> int:
        """Return the batch size of the positions."""
        return int(max(self.queries.shape[1], self.keys.shape[1]))

    @property
    def may_have_empty_slots(self) -> bool:
        """Return whether a key position may be below 0."""
        return self.on_host is None or self.on_host.has_empty

    @property
    def equal_indices(self) -> bool:
        """Return whether positions, or the slots of a step, are the indices of queries and keys."""
        if self.slots is None:
            return True
        return self.consecutive_start is not None and not self._ring_may_exceed_window()

    @property
    def extent(self) -> tuple[tuple[int, int], int] | None:
        """Return the range of the query positions, and one more than the largest key position.

        They are at least 0 and 1, or None if the host does not know them.
        """
        if self.on_host is None:
            return None
        queries, keys = self.on_host.queries, self.on_host.keys
        ends = queries.min(), queries.max(), keys.max()
        first, last, last_key = (max(0, int(n)) for n in ends)
        return (first, last + 1), last_key + 1

    @property
    def consecutive_start(self) -> int | None:
        """Return the position of the first of consecutive queries, if keys count from 0."""
        return None if self.on_host is None else self.on_host.consecutive_start

    def with_ring_mask(
        self, mask: Mask | Array, bias: Bias | Array, backend: Backend
    ) -> tuple[Mask | Array, "ImplicitPositions | ExplicitPositions"]:
        """Return the mask, combined with the window of a ring, and the positions.

        The mask is never None: non-finite keys then give NaN in all features.
        """
        slots = self.slots
        if slots is not None:
            self._check_indices("mask", mask)
            self._check_indices("bias", bias)
        if isinstance(mask, Mask):
            if self.is_token is not None:
                mask = mask._map_leaves(lambda part: part._by_token(self.is_token))
            if slots is None and self.consecutive_start is None:
                mask = mask._map_leaves(lambda part: part._by_column(self))
            for part in mask._leaves():
                part._check_positions(self, backend)
            if slots and slots.window is not None and not backend.is_compiling:
                _check_fits_ring(mask, slots.window, slots.num_sink_tokens)
        # Functions and arrays were rejected above.
        if self._ring_may_exceed_window() and (mask is None or isinstance(mask, Mask)):
            is_causal = mask is None  # else the mask decides about later tokens of the step
            ring_mask = ring_window_mask(slots.window, slots.num_sink_tokens, is_causal)  # type: ignore[arg-type, union-attr]
            mask = ring_mask if mask is None else mask | ring_mask
        mask, start = NO_MASK if mask is None else mask, self.consecutive_start
        return mask, self if start is None else ImplicitPositions(start, self.keys.shape[0])

    def _ring_may_exceed_window(self) -> bool:
        """Return whether the ring may have keys outside the window of this query."""
        _, num_sink_tokens, window = self.slots or (0, 0, None)
        if window is None or self.queries.shape[0] > 1:
            return window is not None
        is_short = self.on_host is not None and self.on_host.queries.max() < window
        return not is_short and bool(self.keys.shape[0] > num_sink_tokens + window)

    # The interface of `ImplicitPositions`, which scores use.

    def position_blocks(
        self, queries: IndexRanges, keys: IndexRanges, backend: Backend, _batch: int = 1
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return queries (query, 1, batch) and keys (1, key, batch)."""
        q, k = queries.take(self.queries, -2, backend), keys.take(self.keys, -2, backend)
        at_queries = PositionBlock(q[:, None, :], backend, None, indices_at=queries)
        return at_queries, PositionBlock(k[None, :, :], backend, None, indices_at=keys)

    def gathered_blocks(
        self, queries: Array, keys: Array, backend: Backend
    ) -> tuple[PositionBlock, PositionBlock]:
        """Return queries (query, 1, batch), and keys of each (query, key, batch)."""
        tables = (queries, self.queries), (keys, self.keys)
        q, k = (PositionBlock(at, backend, None).lookup(table, 0, -1) for at, table in tables)
        at_queries = PositionBlock(q, backend, None, indices_at=queries)
        return at_queries, PositionBlock(k, backend, None, indices_at=keys)

    def visible_keys(self, mask: Mask, queries: Ranges) -> VisibleKeys:
        """Return the keys that some queries attend to."""
        on_host, k_len = self.on_host, self.keys.shape[0]
        if on_host is None:
            return VisibleKeys(((0, k_len),), ())
        parts = (on_host.queries[start:stop] for start, stop in queries)
        visible = unite((int(part.min()), int(part.max()) + 1) for part in parts)
        keys = on_host.keys
        any_query, every_query = mask._visible_keys(visible, max(1, int(keys.max()) + 1))
        any_query = _index_ranges_within(any_query, keys, np.any)
        every_query = _index_ranges_within(every_query, keys, np.all)
        # Computing short gaps costs less than separate parts, which are copied.
        gaps = (gap for gap in complement(any_query, k_len) if gap[1] - gap[0] < _MIN_RANGE_KEYS)
        every_query = tuple((a, b) for a, b in every_query if b - a >= _MIN_RANGE_KEYS)
        return VisibleKeys(unite((*any_query, *gaps)), every_query)

    def global_queries(self, mask: Mask) -> Ranges:
        """Return queries that attend to many more keys than their neighbours."""
        if self.on_host is None:
            return ()
        return _index_ranges_within(mask._global_queries(), self.on_host.queries, np.any)

    def bias_block(
        self, bias: Bias, queries: IndexRanges, keys: IndexRanges, backend: Backend
    ) -> Array:
        """Return a bias, (query, key, heads), or (query, key, batch, heads) for a batch."""
        query, key = queries.take(self.queries, -2, backend), keys.take(self.keys, -2, backend)
        if self.batch == 1:
            query, key = query[:, 0], key[:, 0]
        elif backend.is_chunked:  # tasks need queries and keys of one batch size
            shapes = (query.shape[0], self.batch), (key.shape[0], self.batch)
            query, key = map(backend.xp.broadcast_to, (query, key), shapes)
        return bias._at_positions(query, key, backend)

    # Checks.

    def _check_indices(self, name: str, mask_or_bias: Any) -> None:
        """Check that a mask or a bias fits a step, whose slots may differ from positions."""
        if mask_or_bias is None or isinstance(mask_or_bias, Mask | Bias):
            return
        kind = "Mask" if name == "mask" else "Bias"
        requirement = f"be a `{kind}` with a step of a cache"
        if callable(mask_or_bias):
            hint = f" Pass Function{kind}({name}), whose function gets positions."
            raise wrong_type(name, requirement, "a function of indices", hint)
        if not self.equal_indices:
            requirement += " whose slots may be no positions"
            hint = f" Pass one that knows positions, such as Function{kind}(function)."
            raise wrong_type(name, requirement, format_value(mask_or_bias), hint)


def _check_fits_ring(mask: Mask, window: int, num_sink_tokens: int) -> None:
    """Check that a mask with a window masks all keys that the ring has overwritten."""
    parts, ring = mask._leaves(), (num_sink_tokens, window)
    for part in parts:
        part._check_ring(window)
    for last in {n for part in parts for n in part._probe_positions(DISTANT_POSITION)}:
        visible = mask._visible_keys(((last - 1, last),), last).any_query
        if any(start <= last // 2 < stop for start, stop in visible):
            continue  # the mask has no window, so the window of the ring applies
        num_sink_tokens = max([ring[0], *(stop for _, stop in visible if stop <= last // 2)])
        window = max([ring[1], *(last - start for start, _ in visible if start > last // 2)])
        if (num_sink_tokens, window) != ring:
            requirement = (
                f"show the {ring[1]} newest keys of the ring and the first {ring[0]} at most"
            )
            slots = f"capacity={num_sink_tokens + window}, num_sink_tokens={num_sink_tokens}"
            hint = f" Make the cache with {slots}, window={window}, or with more slots."
            raise wrong_value("mask", requirement, mask, hint)


class MadeByCache(ArrayDataclass):
    """Base of what `empty` and `step` make."""

    __signature__ = Signature()

    def __init__(self, *_: Any, **__: Any) -> None:
        name = type(self).__name__
        made = "KVCache.empty(...)" if name == "KVCache" else "cache.step(tokens)"
        message = f"A {name} is made by {made}."
        raise TypeError(message)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class StepPositions(MadeByCache):
    """Positions of the queries and keys of a step of a cache, in layers with one window.

    ``KVStep.of`` returns it, for ``positions=`` of an attention.

    Attributes
    ----------
    positions : array of int, shape (seq, batch) or (batch, seq)
        Position of each new token. The batch is 1 if it is the same for all sequences.
    key_positions : array of int, shape (keys, batch) or (batch, keys)
        Position of each key that ``KVStep.update`` returns; -1 where a slot is empty.

    Examples
    --------
    >>> from positional_embeddings import KVCache
    >>> cache = KVCache.empty(1, 1, 8, num_kv_heads=2, head_size=4, feature_axis=-1, seq_axis=-2)
    >>> cache, step = cache.step(3)
    >>> step.of(0).positions[0].tolist()
    [0, 1, 2]
    >>> step.of(0).key_positions[0].tolist()
    [0, 1, 2]
    """

    _batch: int
    _feature_axis: int
    _seq_axis: int
    # Whether the batch is before the sequence in arrays of four axes.
    _is_batch_first: bool
    _slots: Slots
    # Whether queries get the keys before the step, joined by the new ones: of a chunk in a ring.
    _is_joined: bool
    # What to write to buffers. If they cannot be written to, or a trace does not know: slots of
    # the new tokens in a library with `put`, else where slots get their keys from.
    _writes: tuple[Write, ...] | None
    positions: Array = array_field()
    key_positions: Array = array_field()
    _source: Array = array_field()
    _is_token: Array = array_field()  # attention mask of a padded prompt, (batch, column), or None
    # What the host knows of the positions.
    _on_host: ConcretePositions | None = field(default=None, init=False, compare=False)
    # The plans of calls, by the form of their arrays.
    _plans: dict[Any, Any] | None = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        positions, keys = format_value(self.positions), format_value(self.key_positions)
        return f"StepPositions(positions=<{positions}>, key_positions=<{keys}>)"

    def _axes_of(self, q: Array, feature_axis: int | None, seq_axis: int | None) -> tuple[int, int]:
        """Return the axes of an attention counted from 0, which the cache has."""
        cache_axes = self._feature_axis, self._seq_axis
        feature = cache_axes[0] if feature_axis is None else feature_axis
        seq = cache_axes[1] if seq_axis is None else seq_axis
        indices = axes.feature_and_seq_axis(feature, seq, q, "q")
        options = ("feature_axis", feature_axis), ("seq_axis", seq_axis)
        for (name, axis), index, axis_of_cache in zip(options, indices, cache_axes, strict=True):
            if axis is not None and index != axis_of_cache % q.ndim:
                requirement = f"be left out, or {axis_of_cache} as in the cache of `positions`"
                raise wrong_value(name, requirement, axis, " Make the cache with these axes.")
        return indices

    def _positions_for(self, q: Array, k: Array, seq: int, backend: Backend) -> ExplicitPositions:
        """Return the positions of queries and keys in an attention."""
        queries, keys = self.positions, self.key_positions
        if self._is_batch_first:
            queries, keys = queries.T, keys.T
        for name, array, rows in (("q", q, queries), ("k", k, keys)):
            if checks.lengths_differ(array.shape[seq], rows.shape[0]):
                tokens = plural(rows.shape[0], "token")
                requirement = f"have {tokens} on axis {seq}, as the step in `positions`"
                hint = NEW_HINT if name == "q" else " Pass the keys that `update` returns."
                raise wrong_value(name, requirement, f"shape {tuple(array.shape)}", hint)
        # PyTorch would compile for each length anew.
        on_host = None if backend.is_compiling else self._on_host
        return ExplicitPositions(queries, keys, on_host, self._slots, self._is_token)


def positions_of(
    q: Array,
    k: Array,
    positions: Array,
    key_positions: Array,
    where: tuple[int, int],
    backend: Backend,
) -> ExplicitPositions:
    """Check and return the positions of queries and keys."""
    if positions is None:
        raise wrong_type("positions", "be given with `key_positions`", "None")
    feature, seq = where
    is_shared = key_positions is None
    if key_positions is None:
        if checks.lengths_differ(k.shape[seq], q.shape[seq]):
            queries_text = f"of {plural(q.shape[seq], 'query')}"
            requirement = f"be given for {plural(k.shape[seq], 'key')} {queries_text}"
            raise wrong_type("key_positions", requirement, "None")
        key_positions = positions
    batch = axes.batch_axis(q.ndim, feature, seq)
    # Keys shared by all sequences may have different positions in each sequence.
    k_shape = tuple(q.shape[a] if a == batch and n == 1 else n for a, n in enumerate(k.shape))
    queries = _as_position_table("positions", positions, tuple(q.shape), feature, seq, backend)
    keys = _as_position_table("key_positions", key_positions, k_shape, feature, seq, backend)
    if not checks.shapes_broadcast([queries.shape[1:], keys.shape[1:]]):
        requirement = f"be for {plural(queries.shape[1], 'sequence')}, as `positions` are"
        raise wrong_value("key_positions", requirement, f"shape {tuple(key_positions.shape)}")
    values = [backend.values_on_host(x) for x in (queries, keys)]
    if all(array is not None and array.size > 0 for array in values):
        on_host = ConcretePositions.of(*values)  # type: ignore[arg-type]
        return ExplicitPositions(queries, keys, on_host, is_shared=is_shared)
    return ExplicitPositions(queries, keys, is_shared=is_shared)


def _as_position_table(
    name: str, positions: Array, target: tuple[Any, ...], feature: int, seq: int, backend: Backend
) -> Any:
    """Check and return positions as (position, batch or 1)."""
    checks.integral(name, positions, backend.xp)
    shape, batch = tuple(positions.shape), axes.batch_axis(len(target), feature, seq)
    if len(target) == 3 and feature + seq == 1 and len(shape) == 2 and shape[1] > 0:
        # A merged axis of heads and batch.
        target = (*target[:2], target[2] if target[2] % shape[1] else shape[1])
    own_axes = axes.axes_of_positions(shape, target, feature, seq, name)
    table = position_array(name, positions, backend)
    table = axes.expand_to_axes(table, own_axes, len(target), backend.xp)
    if any(n != 1 for axis, n in enumerate(table.shape) if axis not in (seq, batch)):
        raise wrong_value(name, "have length 1 on all axes but the sequence and the batch", shape)
    if table.shape[seq] != target[seq]:
        raise wrong_value(name, f"have {plural(target[seq], 'position')}", f"shape {shape}")
    table = table[tuple(slice(None) if axis in (seq, batch) else 0 for axis in range(len(target)))]
    if batch is None:
        return table[:, None]
    return table if seq < batch else table.T


def _index_ranges_within(ranges: Ranges, positions: HostArray, in_batch: Any) -> Ranges:
    """Return the indices whose positions are in ranges, in any sequence or in all sequences."""
    if not ranges:
        return ()
    inside = np.zeros(len(positions) + 2, dtype=bool)
    edges = np.ravel(ranges)
    inside[1:-1] = in_batch(np.searchsorted(edges, positions, side="right") & 1, axis=1)
    flips = np.flatnonzero(inside[1:] != inside[:-1]).tolist()
    return tuple(zip(flips[::2], flips[1::2], strict=True))
