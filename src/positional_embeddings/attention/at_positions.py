"""Masks and biases at the positions of queries and keys, wherever these are in memory."""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.spans import Span, position_array
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.by_position import (
    ChunkedMask,
    GlobalMask,
    NeighbourhoodMask,
    SlidingWindowMask,
)
from positional_embeddings.masks.by_sequence import PaddingMask, SegmentMask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.points import Points
from positional_embeddings.masks.ranges import Ranges, Reach, complement, unite

# A mask that hides nothing but empty slots.
_NOTHING = SlidingWindowMask(None, None)

# Ranges of fewer keys than this are not worth parts of their own.
_SHORT = 64

# A position from which a mask with a window sees nothing of the first tokens but some of them.
_FAR = 2**40


class Ring(NamedTuple):
    """What a cache that is a ring keeps for each query: first tokens, and the newest ones."""

    sinks: int
    window: int

    def rule(self) -> Mask:
        """Return the mask that hides all else."""
        newest = SlidingWindowMask(self.window - 1, None)
        return newest & GlobalMask(range(self.sinks)) if self.sinks else newest

    def check(self, mask: Mask) -> None:
        """Check that a mask with a window of its own shows nothing that the ring has forgotten."""
        self._check_grids(mask)
        for last in (_FAR, *(_FAR // n * n for n in _chunks(mask) if n <= _FAR)):
            seen = mask._reach(((last - 1, last),), last).seen_by_any
            if any(start <= last // 2 < stop for start, stop in seen):
                continue  # no window: the ring's is one
            sinks = max([self.sinks, *(stop for _, stop in seen if stop <= last // 2)])
            window = max([self.window, *(last - start for start, _ in seen if start > last // 2)])
            if (sinks, window) != self:
                what = f"show the {self.window} newest keys of the ring and the first {self.sinks}"
                hint = (
                    f" Make the cache with capacity={sinks + window}, sinks={sinks}, "
                    f"window={window}, or with more slots."
                )
                raise wrong_value("mask", f"{what} at most", mask, hint)

    def _check_grids(self, mask: Mask) -> None:
        """Check that a ring holds the whole grid of a mask, whose windows have no end."""
        for part in getattr(mask, "masks", ()):
            self._check_grids(part)
        if isinstance(mask, NeighbourhoodMask) and (size := prod(mask.shape)) > self.window:
            what = f"have grids of at most {self.window} tokens, as many as the ring keeps"
            hint = f" Make the cache with window={size}, or without a ring."
            raise wrong_value("mask", what, mask, hint)


def _chunks(mask: Mask) -> list[int]:
    """Return the sizes of chunks, whose last query sees most."""
    if isinstance(mask, ChunkedMask):
        return [mask.size]
    return [n for part in getattr(mask, "masks", ()) for n in _chunks(part)]


class Places(NamedTuple):
    """Positions of queries and of keys, (position, batch or 1)."""

    queries: Any
    keys: Any
    on_host: Any = None  # both as arrays of NumPy, if the host has them
    is_step: bool = False  # of a cache
    ring: Ring | None = None  # if the cache is one
    sequences: int | None = None  # number of all, if it is known

    @property
    def batch(self) -> int:
        """Return the number of sequences that have positions of their own."""
        return int(max(self.queries.shape[1], self.keys.shape[1]))

    @property
    def may_be_empty(self) -> bool:
        """Return whether a key position may be below 0."""
        return self.on_host is None or bool(self.on_host[1].min() < 0)

    def apply(self, rules: Any, space: Space) -> tuple[Any, Any]:
        """Return rules with their mask and bias at these positions, and the keys that are empty.

        The keys, (1, key, batch), are for a mask that is no `Mask`; None if none is empty.
        """
        mask, bias, offset = rules.mask, rules.bias, rules.offset
        if offset is not None:
            raise wrong_value("offset", "be left out where `positions` are given", offset)
        for name, given in (("mask", mask), ("bias", bias)):
            self._check_indices(name, given)
        if isinstance(mask, Mask):
            self._check(mask, space)
            if self.ring is not None and not space.is_compiling:
                self.ring.check(mask)
        if self._forgets() and (mask is None or isinstance(mask, Mask)):  # else it is refused
            rule = self.ring.rule()  # type: ignore[union-attr]
            mask = rule if mask is None else mask | rule
        if mask is None:  # one rule for what is not finite, whether it is known that none is empty
            mask = _NOTHING
        is_mask, is_bias = isinstance(mask, Mask), isinstance(bias, Bias)
        first = self._first()
        if first is None:
            first = 0
            mask = MaskAt(mask, self) if is_mask else mask
            bias = BiasAt(bias, self) if is_bias else bias
        empty = None if is_mask or not self.may_be_empty else (self.keys < 0)[None, ...]
        offset = first if is_mask or is_bias else None
        return rules._replace(mask=mask, bias=bias, offset=offset), empty

    def _forgets(self) -> bool:
        """Tell whether a query may be given a key that the ring has for others only."""
        if self.ring is None:
            return False
        if self.on_host is not None and self.on_host[0].max() < self.ring.window:
            return False
        return bool(self.queries.shape[0] > 1 or self.keys.shape[0] > sum(self.ring))

    def _check_indices(self, name: str, given: Any) -> None:
        """Check that a mask or a bias goes with a step, whose slots may be no positions."""
        if not self.is_step or given is None or isinstance(given, type | Mask | Bias):
            return
        kind = "Mask" if name == "mask" else "Bias"
        what = f"be a `{kind}` beside a step of a cache"
        if callable(given):
            hint = f" Pass Function{kind}({name}), whose function gets positions."
            raise wrong_type(name, what, "a function of indices", hint)
        if self._forgets() or self._first() is None:
            hint = f" Pass one that knows positions, such as Function{kind}(function)."
            raise wrong_type(name, f"{what} whose slots may be no positions", shown(given), hint)

    def _first(self) -> int | None:
        """Return the position of the first of consecutive queries, if keys count from 0."""
        if self.on_host is None or any(np.any(own != own[:, :1]) for own in self.on_host):
            return None
        queries, keys = (own[:, 0] for own in self.on_host)
        first = int(queries[0])
        are_counted = first >= 0 and np.array_equal(keys, np.arange(len(keys)))
        if are_counted and np.array_equal(queries, np.arange(first, first + len(queries))):
            return first
        return None

    def _check(self, mask: Mask, space: Space) -> None:
        """Check that a mask, or each that it is made of, has a rule for these positions."""
        for part in getattr(mask, "masks", ()):
            self._check(part, space)
        if isinstance(mask, PaddingMask):
            hint = " Give padding a key position below 0."
            raise wrong_value("mask", "have no PaddingMask where positions are given", mask, hint)
        if isinstance(mask, SegmentMask | NeighbourhoodMask) and self.on_host is not None:
            queries, keys = self.on_host
            ends = queries.min(), queries.max(), keys.max()
            first, last, last_key = (max(0, int(n)) for n in ends)
            mask._check((first, last + 1), last_key + 1, space)


def places_of(
    q: Array,
    k: Array,
    positions: Array,
    key_positions: Array,
    options: tuple[int, int],
    space: Space,
) -> Places:
    """Check the positions of queries and of keys, and return them."""
    if positions is None:
        raise wrong_type("positions", "be given with `key_positions`", "None")
    feature, seq = axes.feature_and_seq_axis(*options, q, "q")
    if key_positions is None:
        if checks.known_to_differ(k.shape[seq], q.shape[seq]):
            what = f"be given for {k.shape[seq]} keys of {q.shape[seq]} queries"
            raise wrong_type("key_positions", what, "None")
        key_positions = positions
    batch = axes.batch_axis(q.ndim, feature, seq)
    # Keys that all sequences share may have places of their own in each.
    k_shape = tuple(q.shape[a] if a == batch and n == 1 else n for a, n in enumerate(k.shape))
    given = ("positions", positions, tuple(q.shape)), ("key_positions", key_positions, k_shape)
    queries, keys = (_rows(*own, feature, seq, space) for own in given)
    if not checks.shapes_broadcast([queries.shape[1:], keys.shape[1:]]):
        what = f"be for {queries.shape[1]} sequences, as `positions` are"
        raise wrong_value("key_positions", what, f"shape {tuple(key_positions.shape)}")
    on_host = [space.values_on_host(own) for own in (queries, keys)]
    is_known = all(own is not None and own.size > 0 for own in on_host)
    places = Places(queries, keys, on_host if is_known else None)
    return places._replace(sequences=places.batch if places.batch > 1 else None)


def _rows(
    name: str, positions: Array, target: tuple[Any, ...], feature: int, seq: int, space: Space
) -> Any:
    """Check positions, and return them as (position, batch or 1)."""
    checks.integral(name, positions, space.xp)
    shape, batch = tuple(positions.shape), axes.batch_axis(len(target), feature, seq)
    if len(target) == 3 and feature + seq == 1 and len(shape) == 2 and shape[1] > 0:
        # One axis of heads and batch.
        target = (*target[:2], target[2] if target[2] % shape[1] else shape[1])
    find = axes.numpy_axes_of_positions if space.xp is np else axes.axes_of_positions
    own = find(shape, target, feature, seq, name)
    table = position_array(name, positions, space)
    table = axes.expand_to_axes(table, own, len(target), space.xp)
    if any(n != 1 for axis, n in enumerate(table.shape) if axis not in (seq, batch)):
        what = "have length 1 on all axes but those of the sequence and the batch"
        raise wrong_value(name, what, shape)
    if table.shape[seq] != target[seq]:
        raise wrong_value(name, f"have {target[seq]} positions", f"shape {shape}")
    rows = table[tuple(slice(None) if axis in (seq, batch) else 0 for axis in range(len(target)))]
    if batch is None:
        return rows[:, None]
    return rows if seq < batch else rows.T


@dataclass(frozen=True, eq=False, repr=False)
class MaskAt(Mask):
    """A mask at the positions of queries and keys, which are counted by their indices."""

    mask: Mask
    places: Places

    def _hides(self, q: Points, k: Points) -> Any:
        """Return the mask between positions; an empty slot is hidden from all."""
        hidden = self.mask._hides(q, k)
        return hidden | (k.values < 0) if self.places.may_be_empty else hidden

    def _between(self, queries: Span, keys: Span, k_len: int, space: Space) -> Any:  # noqa: ARG002
        query = queries.take(self.places.queries, -2, space)[:, None, :]
        key = keys.take(self.places.keys, -2, space)[None, :, :]
        with space.without_chunk_warnings():
            return self._hides(Points(query, space, None), Points(key, space, None))

    def _reach(self, queries: Ranges, k_len: int) -> Reach:
        on_host = self.places.on_host
        if on_host is None:
            return Reach(((0, k_len),), ())
        parts = (on_host[0][start:stop] for start, stop in queries)
        at = unite((int(part.min()), int(part.max()) + 1) for part in parts)
        some, every = self.mask._reach(at, max(1, int(on_host[1].max()) + 1))
        some, every = _keys_in(some, on_host[1], np.any), _keys_in(every, on_host[1], np.all)
        # Short gaps cost less than parts of their own, which are copied.
        gaps = (pair for pair in complement(some, k_len) if pair[1] - pair[0] < _SHORT)
        every = tuple((start, stop) for start, stop in every if stop - start >= _SHORT)
        return Reach(unite((*some, *gaps)), every)

    def _global_queries(self) -> Ranges:
        on_host, found = self.places.on_host, self.mask._global_queries()
        return _keys_in(found, on_host[0], np.any) if on_host is not None else ()

    def _arrays(self) -> dict[str, Any]:
        return {"positions": self.places.queries}  # dask has no task for what is made of arrays

    def _batch(self) -> int | None:
        return self.places.batch if self.places.batch > 1 else self.mask._batch()


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
    places: Places

    def _formula(self, query: Array, key: Array, space: Space) -> Any:
        return self.bias._at(query, key, space)

    def _heads(self) -> int:
        return self.bias._heads()

    def _arrays(self) -> dict[str, Any]:
        return {"positions": self.places.queries}

    def _between(self, queries: Span, keys: Span, space: Space, *_: Any) -> Any:
        """Return the bias, (query, key, heads), or (query, key, batch, heads) of several."""
        query = queries.take(self.places.queries, -2, space)
        key = keys.take(self.places.keys, -2, space)
        if self.places.batch == 1:
            query, key = query[:, 0], key[:, 0]
        elif space.is_chunked:  # whose tasks take queries and keys of one batch
            whole = (self.places.batch,)
            query, key = (space.xp.broadcast_to(x, (x.shape[0], *whole)) for x in (query, key))
        return self._formula(query, key, space)
