"""Plan the blocks of queries and keys whose scores attention computes.

Keys that are masked for all queries of a block are skipped. A `Mask` is not evaluated for keys that
are visible to all queries of a block.
"""

from collections.abc import Callable, Iterator
from math import isqrt
from typing import NamedTuple

from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.masks.index_ranges import IndexRanges, index_ranges
from positional_embeddings.masks.ranges import (
    Ranges,
    VisibleKeys,
    complement,
    count_positions,
    intersect,
)

# Fixed costs of a block, in scores: for each sequence and head, and for each block.
_SLICE_COST = 2**13
_BLOCK_COST = 7 * 2**13
# Queries are cut in half if both halves take at most this fraction of the time.
_MAX_SPLIT_RATIO = 0.9
# Blocks without a mask begin and end at multiples of this number of keys: BLAS multiplies parts of
# other lengths several per cent more slowly.
_KEY_MULTIPLE = 64


class KeyBlock(NamedTuple):
    """Keys whose scores are computed together."""

    keys: IndexRanges
    is_masked: bool = True  # whether a key may be masked for a query
    is_required: bool = False  # whether to compute the block even if it is fully masked


class QueryBlock(NamedTuple):
    """Queries whose scores are computed together, and the blocks of their keys.

    All queries are computed with the key blocks. The `parts` divide the queries, in order. Each
    part has additional keys.
    """

    queries: IndexRanges
    key_blocks: tuple[KeyBlock, ...]
    parts: tuple["QueryBlock", ...] = ()

    def blocks(self) -> Iterator[tuple[IndexRanges, KeyBlock]]:
        """Yield the queries and the keys of each block, including the blocks of the parts."""
        for keys in self.key_blocks:
            yield self.queries, keys
        for part in self.parts:
            yield from part.blocks()

    def count_scores(self) -> int:
        """Return the number of scores."""
        return sum(queries.size * block.keys.size for queries, block in self.blocks())


def plan_blocks(
    q_len: int,
    k_len: int,
    block_size: int | None,
    max_scores: int,
    visible_keys: Callable[[Ranges], VisibleKeys] | None,
    global_queries: Ranges,
    batch_size: int = 1,
) -> list[QueryBlock]:
    """Return blocks of `block_size` queries and keys at most, or of about `max_scores` scores.

    `visible_keys` returns the keys that some queries attend to. It is None if all keys may be
    visible. The `global_queries`, which attend to many more keys, have separate blocks. All
    sequences and heads, `batch_size` together, have the same blocks.
    """
    q_block = min(q_len, block_size or isqrt(max_scores))
    if visible_keys is None:
        key_blocks = _key_blocks(((0, k_len),), block_size or _max_keys(max_scores, q_block))
        return [
            QueryBlock(index_ranges((block.start, block.stop)), key_blocks)
            for block in block_slices(q_len, q_block)
        ]
    fixed_cost = _SLICE_COST + _BLOCK_COST // max(batch_size, 1)
    cutter = _Cutter(visible_keys, block_size, max_scores, fixed_cost)
    separate = intersect(global_queries, ((0, q_len),))
    portions = pack_ranges(separate, q_block) + pack_ranges(complement(separate, q_len), q_block)
    return [
        block for part in portions for block in cutter.cut(part, visible_keys(part), ((0, k_len),))
    ]


class _Cutter(NamedTuple):
    """Cuts queries into blocks by their visible keys."""

    visible_keys: Callable[[Ranges], VisibleKeys]
    block_size: int | None
    max_scores: int
    fixed_cost: int  # cost of a block, in scores

    def cut(self, queries: Ranges, visible: VisibleKeys, remaining: Ranges) -> list[QueryBlock]:
        """Return blocks of some queries and the keys that remain for them.

        Keys that are visible to some queries only are computed with halves of the queries, if that
        is faster.
        """
        count = count_positions(queries)
        max_keys = self.block_size or _max_keys(self.max_scores, count)
        any_query = intersect(visible.any_query, remaining)
        every_query = intersect(visible.every_query, remaining)
        if every_query != any_query:
            inner = (
                (-(-start // _KEY_MULTIPLE) * _KEY_MULTIPLE, stop // _KEY_MULTIPLE * _KEY_MULTIPLE)
                for start, stop in every_query
            )
            # A few keys are not worth a block of their own.
            every_query = tuple(
                (start, stop) for start, stop in inner if 4 * (stop - start) >= max_keys
            )
        shared_key_blocks = _key_blocks(every_query, max_keys, is_masked=False)
        if every_query:
            remaining = intersect(remaining, complement(every_query, remaining[-1][1]))
            any_query = intersect(any_query, remaining)
        halves = _halves(queries) if any_query and count > 1 else ()
        max_split_cost = _MAX_SPLIT_RATIO * self._cost(queries, any_query)
        # At least one half attends to each key.
        min_queries = min(map(count_positions, halves), default=0)
        min_split_cost = min_queries * count_positions(any_query) + 2 * self.fixed_cost
        if halves and min_split_cost <= max_split_cost:
            visible_halves = [(half, self.visible_keys(half)) for half in halves]
            separate = (
                self._cost(half, intersect(half_keys.any_query, remaining))
                for half, half_keys in visible_halves
            )
            if sum(separate) <= max_split_cost:
                parts = [part for half in visible_halves for part in self.cut(*half, remaining)]
                if every_query:
                    parts = [QueryBlock(index_ranges(*queries), shared_key_blocks, tuple(parts))]
                return parts
        key_blocks = shared_key_blocks + _key_blocks(any_query, max_keys)
        return [QueryBlock(index_ranges(*queries), key_blocks)]

    def _cost(self, queries: Ranges, keys: Ranges) -> int:
        return count_positions(queries) * count_positions(keys) + self.fixed_cost


def _max_keys(max_scores: int, queries: int) -> int:
    """Return the number of keys of a block, half as many more to avoid a small block at the end."""
    return 3 * max_scores // (2 * queries)


def _key_blocks(keys: Ranges, max_keys: int, *, is_masked: bool = True) -> tuple[KeyBlock, ...]:
    return tuple(KeyBlock(index_ranges(*pack), is_masked) for pack in pack_ranges(keys, max_keys))


def _halves(ranges: Ranges) -> tuple[Ranges, Ranges]:
    """Cut one range in the middle, or several ranges between two ranges."""
    if len(ranges) > 1:
        return ranges[: len(ranges) // 2], ranges[len(ranges) // 2 :]
    ((start, stop),) = ranges
    middle = (start + stop) // 2
    return ((start, middle),), ((middle, stop),)


def batch_lengths(query: Array, key: Array) -> list[int]:
    """Return the lengths of the axes before queries and features."""
    return [m if n == 1 else n for n, m in zip(query.shape[:-2], key.shape[:-2], strict=True)]


def pack_ranges(ranges: Ranges, max_length: int) -> list[Ranges]:
    """Cut ranges into equal parts of at most `max_length` positions, and join short parts."""
    packs: list[list[tuple[int, int]]] = []
    available = 0
    for start, stop in ranges:
        length = -(-(stop - start) // -(-(stop - start) // max_length))
        for part in range(start, stop, length):
            size = min(length, stop - part)
            if size > available:
                packs.append([])
                available = max_length
            packs[-1].append((part, part + size))
            available -= size
    return [tuple(pack) for pack in packs]
