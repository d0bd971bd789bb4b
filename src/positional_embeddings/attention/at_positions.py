"""Masks and biases at the positions of queries and keys, wherever these are in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.spans import Span, position_array
from positional_embeddings.arrays.errors import counted, shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.attention.slots import Slots
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_position import (
    ChunkedMask,
    GlobalMask,
    NeighbourhoodMask,
    SlidingWindowMask,
)
from positional_embeddings.masks.by_sequence import PaddingMask, SegmentMask
from positional_embeddings.masks.lists import ListMask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.points import Points
from positional_embeddings.masks.ranges import Ranges, Reach, complement, unite

# A mask that hides nothing but empty slots.
_NOTHING = SlidingWindowMask(None, None)

# Ranges of fewer keys than this are not worth parts of their own.
_SHORT = 64

# A position from which a mask with a window sees nothing of the first tokens but some of them.
_FAR = 2**40


class OnHost(NamedTuple):
    """Positions of queries and keys, (position, batch or 1), whose values the host knows."""

    queries: HostArray
    keys: HostArray
    first: int | None  # position of the first of consecutive queries, if keys count from 0
    has_empty: bool  # whether a key position is below 0

    @classmethod
    def of(cls, queries: HostArray, keys: HostArray) -> "OnHost":
        """Return what is known of positions."""
        first = int(queries[0, 0])
        are_counted = first >= 0 and all(
            np.all(rows == np.arange(start, start + len(rows))[:, None])
            for start, rows in ((first, queries), (0, keys))
        )
        return cls(queries, keys, first if are_counted else None, bool(keys.min() < 0))


class Positions(NamedTuple):
    """Positions of queries and of keys, (position, batch or 1)."""

    queries: Array
    keys: Array
    on_host: OnHost | None = None
    sequences: int | None = None  # number of all, if it is known
    slots: Slots | None = None  # of the cache, if a step has them

    @property
    def batch(self) -> int:
        """Return the number of sequences that have positions of their own."""
        return int(max(self.queries.shape[1], self.keys.shape[1]))

    @property
    def may_be_empty(self) -> bool:
        """Return whether a key position may be below 0."""
        return self.on_host is None or self.on_host.has_empty

    @property
    def first(self) -> int | None:
        """Return the position of the first of consecutive queries, if keys count from 0."""
        return None if self.on_host is None else self.on_host.first

    def apply(self, rules: Any, space: Space) -> tuple[Any, Array]:
        """Return rules with their mask and bias at these positions, and the keys that are empty.

        The keys, (1, key, batch), are for a mask that is no `Mask`; None if none is empty.
        """
        mask, bias = rules.mask, rules.bias
        checks.left_out("where `positions` are given", offset=rules.offset)
        for name, rule in (("mask", mask), ("bias", bias)):
            self._check_indices(name, rule)
        if isinstance(mask, Mask):
            self._check(mask, space)
            if self.slots and self.slots.window is not None and not space.is_compiling:
                _check_shown(mask, self.slots)
        if self._forgets() and (mask is None or isinstance(mask, Mask)):  # else it is refused
            of_ring = _mask_of(self.slots)  # type: ignore[arg-type]
            mask = of_ring if mask is None else mask | of_ring
        if mask is None:  # one rule for what is not finite, whether it is known that none is empty
            mask = _NOTHING
        is_mask, is_bias = isinstance(mask, Mask), isinstance(bias, Bias)
        if self.first is None:
            mask = MaskAt(mask, self) if is_mask else mask
            bias = BiasAt(bias, self) if is_bias else bias
        empty = None if is_mask or not self.may_be_empty else (self.keys < 0)[None, ...]
        offset = self.first or 0 if is_mask or is_bias else None
        return rules._replace(mask=mask, bias=bias, offset=offset), empty

    def _forgets(self) -> bool:
        """Tell whether a query may be given a key that a ring has for others only."""
        _, sinks, window = self.slots or (0, 0, None)
        if window is None or (self.on_host and self.on_host.queries.max() < window):
            return False
        return bool(self.queries.shape[0] > 1 or self.keys.shape[0] > sinks + window)

    def of_pairs(self, queries: Array, keys: Array, space: Space) -> tuple[Array, Array]:
        """Return the positions of queries (query, 1, 1) and of keys of each (query, key, batch)."""
        tables = (queries, self.queries), (keys, self.keys)
        q, k = (Points(at, space, None).take(table, 0, -1) for at, table in tables)
        return q, k

    def _check_indices(self, name: str, rule: Any) -> None:
        """Check that a mask or a bias goes with a step, whose slots may be no positions."""
        if self.slots is None or rule is None or isinstance(rule, type | Mask | Bias):
            return
        kind = "Mask" if name == "mask" else "Bias"
        what = f"be a `{kind}` with a step of a cache"
        if callable(rule):
            hint = f" Pass Function{kind}({name}), whose function gets positions."
            raise wrong_type(name, what, "a function of indices", hint)
        if self._forgets() or self.first is None:
            hint = f" Pass one that knows positions, such as Function{kind}(function)."
            raise wrong_type(name, f"{what} whose slots may be no positions", shown(rule), hint)

    def _check(self, mask: Mask, space: Space) -> None:
        """Check that a mask, or each that it is made of, has a rule for these positions."""
        for part in getattr(mask, "masks", ()):
            self._check(part, space)
        if isinstance(mask, PaddingMask):
            hint = " Give padding a key position below 0."
            raise wrong_value("mask", "have no PaddingMask where positions are given", mask, hint)
        if isinstance(mask, ListMask):
            if self.slots is not None and (self._forgets() or self.first is None):
                what = "have no ListMask with a step whose slots may be no positions"
                raise wrong_value("mask", what, mask)
            mask._check((0, self.queries.shape[0]), self.keys.shape[0], space)
        if isinstance(mask, SegmentMask | NeighbourhoodMask) and self.on_host is not None:
            queries, keys = self.on_host.queries, self.on_host.keys
            ends = queries.min(), queries.max(), keys.max()
            first, last, last_key = (max(0, int(n)) for n in ends)
            mask._check((first, last + 1), last_key + 1, space)


def _mask_of(ring: Slots) -> Mask:
    """Return the mask that hides all but the first tokens and the newest ones."""
    newest = SlidingWindowMask(ring.window - 1, None)  # type: ignore[operator]
    return newest & GlobalMask(range(ring.sinks)) if ring.sinks else newest


def _check_shown(mask: Mask, ring: Slots) -> None:
    """Check that a mask with a window of its own shows nothing that the ring has forgotten."""
    kept: tuple[int, int] = ring.sinks, ring.window  # type: ignore[assignment]
    for grid in _parts(mask, NeighbourhoodMask):  # whose windows have no end
        if (size := prod(grid.shape)) > kept[1]:
            what = f"have grids of at most {kept[1]} tokens, as many as the ring keeps"
            hint = f" Make the cache with window={size}, or without a ring."
            raise wrong_value("mask", what, grid, hint)
    # The last query of a chunk sees most of it.
    chunks = [part.size for part in _parts(mask, ChunkedMask) if part.size <= _FAR]
    for last in (_FAR, *(_FAR // size * size for size in chunks)):
        seen = mask._reach(((last - 1, last),), last).seen_by_any
        if any(start <= last // 2 < stop for start, stop in seen):
            continue  # no window: the ring's is one
        sinks = max([kept[0], *(stop for _, stop in seen if stop <= last // 2)])
        window = max([kept[1], *(last - start for start, _ in seen if start > last // 2)])
        if (sinks, window) != kept:
            what = f"show the {kept[1]} newest keys of the ring and the first {kept[0]} at most"
            options = f"capacity={sinks + window}, sinks={sinks}, window={window}"
            hint = f" Make the cache with {options}, or with more slots."
            raise wrong_value("mask", what, mask, hint)


def _parts(mask: Any, kind: type[Mask]) -> Iterator[Any]:
    """Yield the masks of a kind that a mask is made of."""
    if isinstance(mask, kind):
        yield mask
    for part in getattr(mask, "masks", ()):
        yield from _parts(part, kind)


def positions_of(
    q: Array,
    k: Array,
    positions: Array,
    key_positions: Array,
    options: tuple[int | None, int | None],
    space: Space,
) -> Positions:
    """Check the positions of queries and of keys, and return them."""
    if positions is None:
        raise wrong_type("positions", "be given with `key_positions`", "None")
    feature, seq = axes.feature_and_seq_axis(*options, q, "q")
    if key_positions is None:
        if checks.known_to_differ(k.shape[seq], q.shape[seq]):
            of_queries = f"of {counted(q.shape[seq], 'query')}"
            what = f"be given for {counted(k.shape[seq], 'key')} {of_queries}"
            raise wrong_type("key_positions", what, "None")
        key_positions = positions
    batch = axes.batch_axis(q.ndim, feature, seq)
    # Keys that all sequences share may have positions of their own in each.
    k_shape = tuple(q.shape[a] if a == batch and n == 1 else n for a, n in enumerate(k.shape))
    queries = _rows("positions", positions, tuple(q.shape), feature, seq, space)
    keys = _rows("key_positions", key_positions, k_shape, feature, seq, space)
    if not checks.shapes_broadcast([queries.shape[1:], keys.shape[1:]]):
        what = f"be for {counted(queries.shape[1], 'sequence')}, as `positions` are"
        raise wrong_value("key_positions", what, f"shape {tuple(key_positions.shape)}")
    of_all, on_host = Positions(queries, keys), [space.values_on_host(x) for x in (queries, keys)]
    if all(values is not None and values.size > 0 for values in on_host):
        of_all = of_all._replace(on_host=OnHost.of(*on_host))  # type: ignore[arg-type]
    return of_all._replace(sequences=of_all.batch) if of_all.batch > 1 else of_all


def _rows(
    name: str, positions: Array, target: tuple[Any, ...], feature: int, seq: int, space: Space
) -> Any:
    """Check positions, and return them as (position, batch or 1)."""
    checks.integral(name, positions, space.xp)
    shape, batch = tuple(positions.shape), axes.batch_axis(len(target), feature, seq)
    if len(target) == 3 and feature + seq == 1 and len(shape) == 2 and shape[1] > 0:
        # One axis of heads and batch.
        target = (*target[:2], target[2] if target[2] % shape[1] else shape[1])
    of_target = axes.axes_of_positions(shape, target, feature, seq, name, space)
    table = position_array(name, positions, space)
    table = axes.expand_to_axes(table, of_target, len(target), space.xp)
    if any(n != 1 for axis, n in enumerate(table.shape) if axis not in (seq, batch)):
        what = "have length 1 on all axes but the sequence and the batch"
        raise wrong_value(name, what, shape)
    if table.shape[seq] != target[seq]:
        raise wrong_value(name, f"have {counted(target[seq], 'position')}", f"shape {shape}")
    rows = table[tuple(slice(None) if axis in (seq, batch) else 0 for axis in range(len(target)))]
    if batch is None:
        return rows[:, None]
    return rows if seq < batch else rows.T


@dataclass(frozen=True, eq=False, repr=False)
class MaskAt(Mask):
    """A mask at the positions of queries and keys, which are counted by their indices."""

    mask: Mask
    at: Positions

    def _hides(self, q: Points, k: Points) -> Any:
        """Return the mask between positions; an empty slot is hidden from all."""
        hidden = self.mask._hides(q, k)
        return hidden | (k.values < 0) if self.at.may_be_empty else hidden

    def _between(self, queries: Span, keys: Span, k_len: int, space: Space, offset: int = 0) -> Any:  # noqa: ARG002
        query = queries.take(self.at.queries, -2, space)[:, None, :]
        key = keys.take(self.at.keys, -2, space)[None, :, :]
        with space.without_chunk_warnings():
            q = Points(query, space, None, at=queries)
            return self._hides(q, Points(key, space, None, at=keys))

    def _split_lists(self) -> tuple[Any, Mask | None]:
        lists, rest = self.mask._split_lists()
        if rest is None and not self.at.may_be_empty:
            return lists, None
        return lists, MaskAt(_NOTHING if rest is None else rest, self.at)

    def _at_pairs(self, queries: Array, keys: Array, k_len: int, space: Space, offset: int) -> Any:  # noqa: ARG002
        q, k = self.at.of_pairs(queries, keys, space)
        return self._hides(Points(q, space, None, at=queries), Points(k, space, None, at=keys))

    def _reach(self, queries: Ranges, k_len: int) -> Reach:
        on_host = self.at.on_host
        if on_host is None:
            return Reach(((0, k_len),), ())
        parts = (on_host.queries[start:stop] for start, stop in queries)
        reached = unite((int(part.min()), int(part.max()) + 1) for part in parts)
        some, every = self.mask._reach(reached, max(1, int(on_host.keys.max()) + 1))
        some, every = _keys_in(some, on_host.keys, np.any), _keys_in(every, on_host.keys, np.all)
        # Short gaps cost less than parts of their own, which are copied.
        gaps = (pair for pair in complement(some, k_len) if pair[1] - pair[0] < _SHORT)
        every = tuple((start, stop) for start, stop in every if stop - start >= _SHORT)
        return Reach(unite((*some, *gaps)), every)

    def _global_queries(self) -> Ranges:
        if self.at.on_host is None:
            return ()
        return _keys_in(self.mask._global_queries(), self.at.on_host.queries, np.any)

    def _arrays(self) -> dict[str, Any]:
        return {"positions": self.at.queries}  # dask has no task for what is made of arrays

    def _batch(self) -> int | None:
        return self.at.batch if self.at.batch > 1 else self.mask._batch()


def _keys_in(ranges: Ranges, positions: HostArray, in_batch: Any) -> Ranges:
    """Return ranges of keys whose positions are in some ranges, in any sequence or in all."""
    if not ranges:
        return ()
    inside = np.zeros(len(positions) + 2, dtype=bool)
    edges = np.ravel(ranges)
    inside[1:-1] = in_batch(np.searchsorted(edges, positions, side="right") & 1, axis=1)
    flips = np.flatnonzero(inside[1:] != inside[:-1]).tolist()
    return tuple(zip(flips[::2], flips[1::2], strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class BiasAt(Bias):
    """A bias at the positions of queries and keys, which are counted by their indices."""

    bias: Bias
    at: Positions

    def _formula(self, query: Array, key: Array, space: Space) -> Any:
        return self.bias._at(query, key, space)

    def _heads(self) -> int:
        return self.bias._heads()

    def _arrays(self) -> dict[str, Any]:
        return {"positions": self.at.queries}

    def _at_pairs(self, query: Array, key: Array, space: Space) -> Any:
        return self.bias._at_pairs(*self.at.of_pairs(query, key, space), space)

    def _between(self, queries: Span, keys: Span, space: Space, *_: Any) -> Any:
        """Return the bias, (query, key, heads), or (query, key, batch, heads) of several."""
        query = queries.take(self.at.queries, -2, space)
        key = keys.take(self.at.keys, -2, space)
        if self.at.batch == 1:
            query, key = query[:, 0], key[:, 0]
        elif space.is_chunked:  # whose tasks take queries and keys of one batch
            whole = (self.at.batch,)
            query, key = (space.xp.broadcast_to(x, (x.shape[0], *whole)) for x in (query, key))
        return self._formula(query, key, space)
