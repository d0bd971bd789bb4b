"""Which blocks of queries and keys an attention computes the scores of.

A `Mask` leaves out the keys that no query of a block sees, and is not evaluated for those that
all of them see.
"""

from collections.abc import Callable, Iterator
from math import isqrt
from typing import NamedTuple

from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.masks.ranges import (
    Ranges,
    VisibleKeys,
    complement,
    count_positions,
    intersect,
)
from positional_embeddings.masks.spans import IndexRanges, index_ranges

# Fixed cost of a block, in scores: of each row of queries, such as a head, and of all together.
_ROW_COST = 2**13
_BLOCK_COST = 7 * 2**13
# Queries are cut in half if both halves together take at most this part of the time.
_WORTH_CUTTING = 0.9
# Blocks without a mask begin and end at multiples of this number of keys: BLAS multiplies parts of
# other lengths several per cent more slowly.
_KEY_MULTIPLE = 64


class KeyBlock(NamedTuple):
    """Keys whose scores are computed together."""

    keys: IndexRanges
    is_masked: bool = True  # whether a query may not see some of them
    is_required: bool = False  # whether they are met even if they are hidden from all queries


class QueryBlock(NamedTuple):
    """Queries whose scores are computed together, and the keys that they meet.

    All these queries meet the key blocks together. Then each part, which is some of the queries,
    meets further keys of its own; the parts together are all queries, in their order.
    """

    queries: IndexRanges
    key_blocks: tuple[KeyBlock, ...]
    parts: tuple["QueryBlock", ...] = ()

    def blocks(self) -> Iterator[tuple[IndexRanges, KeyBlock]]:
        """Yield each block of keys, of the parts too, after the queries that meet it."""
        for keys in self.key_blocks:
            yield self.queries, keys
        for part in self.parts:
            yield from part.blocks()

    def count_scores(self) -> int:
        """Return the number of scores."""
        return sum(queries.size * at.keys.size for queries, at in self.blocks())


def plan(
    q_len: int,
    k_len: int,
    block_size: int | None,
    most: int,
    visible_keys: Callable[[Ranges], VisibleKeys] | None,
    global_queries: Ranges,
    rows: int = 1,
) -> list[QueryBlock]:
    """Return blocks of `block_size` queries and keys at most, or of about `most` scores.

    `visible_keys` returns the keys that some queries see, None if all may be visible. The
    `global_queries` see many more keys than their neighbours, and get blocks of their own. All
    `rows` have the same blocks.
    """
    q_block = min(q_len, block_size or isqrt(most))
    if visible_keys is None:
        key_blocks = _key_blocks(((0, k_len),), block_size or _longest(most, q_block))
        return [
            QueryBlock(index_ranges((at.start, at.stop)), key_blocks) for at in cuts(q_len, q_block)
        ]
    cutter = _Cutter(visible_keys, block_size, most, _ROW_COST + _BLOCK_COST // max(rows, 1))
    apart = intersect(global_queries, ((0, q_len),))
    portions = pack_ranges(apart, q_block) + pack_ranges(complement(apart, q_len), q_block)
    return [
        block for part in portions for block in cutter.cut(part, visible_keys(part), ((0, k_len),))
    ]


class _Cutter(NamedTuple):
    """Cuts queries into blocks by the keys that they see."""

    visible_keys: Callable[[Ranges], VisibleKeys]
    block_size: int | None
    most: int
    fixed: int  # cost of a block, in scores

    def cut(self, queries: Ranges, seen: VisibleKeys, rest: Ranges) -> list[QueryBlock]:
        """Return blocks of some queries and the keys that remain for them.

        Keys that only some of them see are met by halves of them, if that leaves out enough.
        """
        count = count_positions(queries)
        longest = self.block_size or _longest(self.most, count)
        any_query = intersect(seen.any_query, rest)
        every_query = intersect(seen.every_query, rest)
        if every_query != any_query:
            inner = (
                (-(-start // _KEY_MULTIPLE) * _KEY_MULTIPLE, stop // _KEY_MULTIPLE * _KEY_MULTIPLE)
                for start, stop in every_query
            )
            # A few keys are not worth a block of their own.
            every_query = tuple(
                (start, stop) for start, stop in inner if 4 * (stop - start) >= longest
            )
        together = _key_blocks(every_query, longest, is_masked=False)
        if every_query:
            rest = intersect(rest, complement(every_query, rest[-1][1]))
            any_query = intersect(any_query, rest)
        halves = _halves(queries) if any_query and count > 1 else ()
        worth = _WORTH_CUTTING * self._cost(queries, any_query)
        # Each key is seen by one of them at least.
        least = min(map(count_positions, halves), default=0)
        if halves and least * count_positions(any_query) + 2 * self.fixed <= worth:
            reached = [(half, self.visible_keys(half)) for half in halves]
            apart = (self._cost(half, intersect(seen.any_query, rest)) for half, seen in reached)
            if sum(apart) <= worth:
                parts = [part for half in reached for part in self.cut(*half, rest)]
                return (
                    [QueryBlock(index_ranges(*queries), together, tuple(parts))]
                    if every_query
                    else parts
                )
        return [QueryBlock(index_ranges(*queries), together + _key_blocks(any_query, longest))]

    def _cost(self, queries: Ranges, keys: Ranges) -> int:
        return count_positions(queries) * count_positions(keys) + self.fixed


def _longest(most: int, queries: int) -> int:
    """Return the number of keys of a block: half as many more, rather than a small block after."""
    return 3 * most // (2 * queries)


def _key_blocks(keys: Ranges, longest: int, *, is_masked: bool = True) -> tuple[KeyBlock, ...]:
    return tuple(KeyBlock(index_ranges(*pack), is_masked) for pack in pack_ranges(keys, longest))


def _halves(ranges: Ranges) -> tuple[Ranges, Ranges]:
    """Cut one range in the middle, and several between two of them."""
    if len(ranges) > 1:
        return ranges[: len(ranges) // 2], ranges[len(ranges) // 2 :]
    ((start, stop),) = ranges
    middle = (start + stop) // 2
    return ((start, middle),), ((middle, stop),)


def batch_lengths(query: Array, key: Array) -> list[int]:
    """Return the lengths of the axes before queries and features."""
    return [m if n == 1 else n for n, m in zip(query.shape[:-2], key.shape[:-2], strict=True)]


def pack_ranges(ranges: Ranges, longest: int) -> list[Ranges]:
    """Cut ranges into equal parts of at most `longest` positions, and put short ones together."""
    packs: list[list[tuple[int, int]]] = []
    room = 0
    for start, stop in ranges:
        length = -(-(stop - start) // -(-(stop - start) // longest))
        for at in range(start, stop, length):
            size = min(length, stop - at)
            if size > room:
                packs.append([])
                room = longest
            packs[-1].append((at, at + size))
            room -= size
    return [tuple(pack) for pack in packs]
