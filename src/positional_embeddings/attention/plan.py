"""Which blocks of queries and keys an attention computes the scores of.

A `Mask` leaves out the keys that no query of a block sees, and is not evaluated for those that
all of them see.
"""

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

from positional_embeddings.arguments.positions import Span, span_of
from positional_embeddings.arrays.memory import cuts
from positional_embeddings.masks.ranges import Ranges, Reach, complement, count_positions, intersect

# Fixed cost of a block, in scores.
_BLOCK_COST = 2**15
# Queries are cut in half if both halves together take at most this part of the time.
_WORTH_CUTTING = 0.9
# Blocks without a mask begin and end at multiples of this number of keys: BLAS multiplies parts of
# other lengths several per cent more slowly.
_KEY_MULTIPLE = 64
# Rows of scores that begin this many numbers apart fall on the same lines of a cache: BLAS
# takes a quarter longer.
_SLOW_MULTIPLE = 512


class KeyBlock(NamedTuple):
    """Keys whose scores are computed together."""

    keys: Span
    is_masked: bool = True  # whether a query may not see some of them


class QueryBlock(NamedTuple):
    """Queries whose scores are computed together, and the keys that they meet."""

    queries: Span
    key_blocks: tuple[KeyBlock, ...]


def plan(
    q_len: int,
    k_len: int,
    block_size: int | None,
    most: int,
    reach: Callable[[Ranges], Reach] | None,
    global_queries: Ranges,
) -> list[QueryBlock]:
    """Return blocks of `block_size` queries and keys at most, or of about `most` scores.

    `reach` says which keys some queries see, None if any may see any. The `global_queries` see many
    more keys than those beside them, and get blocks of their own.
    """
    q_block = min(q_len, block_size or isqrt(most))
    if reach is None:
        at_keys = cuts(k_len, block_size or most // q_block)
        key_blocks = tuple(KeyBlock(span_of((at.start, at.stop))) for at in at_keys)
        return [QueryBlock(span_of((at.start, at.stop)), key_blocks) for at in cuts(q_len, q_block)]
    # Half as many: the band of keys that only some of them see is as wide as they are many.
    q_block = block_size or max(1, q_block // 2)
    apart = intersect(global_queries, ((0, q_len),))
    blocks = []
    for ranges in (apart, complement(apart, q_len)):
        for portion in _pack(ranges, q_block):
            for queries, seen in _cut_queries(portion, reach(portion), reach):
                # A quarter more, rather than a small block at the end.
                longest = block_size or 5 * most // (4 * count_positions(queries))
                blocks.append(QueryBlock(span_of(*queries), _key_blocks(seen, k_len, longest)))
    masked = sum(
        own.queries.size * at.keys.size for own in blocks for at in own.key_blocks if at.is_masked
    )
    if masked > _WORTH_CUTTING * q_len * k_len:  # as of shuffled positions
        return plan(q_len, k_len, block_size, most, None, ())
    return blocks


def _cut_queries(
    queries: Ranges, seen: Reach, reach: Callable[[Ranges], Reach]
) -> list[tuple[Ranges, Reach]]:
    """Return parts of a block of queries, halved if that leaves out enough keys."""
    if count_positions(queries) > 1:
        halves = [(half, reach(half)) for half in _halves(queries)]
        apart = sum(_cost(*half) for half in halves)
        if apart <= _WORTH_CUTTING * _cost(queries, seen):
            return [part for half in halves for part in _cut_queries(*half, reach)]
    return [(queries, seen)]


def _halves(ranges: Ranges) -> tuple[Ranges, Ranges]:
    """Cut one range in the middle, and several between two of them."""
    if len(ranges) > 1:
        return ranges[: len(ranges) // 2], ranges[len(ranges) // 2 :]
    ((start, stop),) = ranges
    middle = (start + stop) // 2
    return ((start, middle),), ((middle, stop),)


def _cost(queries: Ranges, seen: Reach) -> int:
    return count_positions(queries) * count_positions(seen.seen_by_any) + _BLOCK_COST


def _key_blocks(seen: Reach, k_len: int, longest: int) -> tuple[KeyBlock, ...]:
    """Return blocks of the keys that are seen, apart if all queries see all of them."""
    common = intersect(seen.seen_by_any, seen.seen_by_all)
    if common != seen.seen_by_any:
        inner = (
            (-(-start // _KEY_MULTIPLE) * _KEY_MULTIPLE, stop // _KEY_MULTIPLE * _KEY_MULTIPLE)
            for start, stop in common
        )
        # A few keys are not worth a block of their own.
        common = tuple((start, stop) for start, stop in inner if 4 * (stop - start) >= longest)
    rest = intersect(seen.seen_by_any, complement(common, k_len))
    blocks = []
    for ranges, is_masked in ((common, False), (rest, True)):
        blocks += [KeyBlock(span_of(*keys), is_masked) for keys in _pack(ranges, longest)]
    return tuple(blocks)


def _pack(ranges: Ranges, longest: int) -> list[Ranges]:
    """Cut ranges into equal parts of at most `longest` positions, and put short ones together."""
    packs: list[list[tuple[int, int]]] = []
    room = 0
    for start, stop in ranges:
        for part in cuts(stop - start, _key_length(stop - start, longest)):
            size = part.stop - part.start
            if size > room:
                packs.append([])
                room = longest
            packs[-1].append((start + part.start, start + part.stop))
            room -= size
    return [tuple(pack) for pack in packs]


def _key_length(size: int, longest: int) -> int:
    """Return the length of equal parts of at most `longest`, a little more for speed."""
    length = -(-size // -(-size // longest))
    longer = length + _KEY_MULTIPLE
    return longer if length % _SLOW_MULTIPLE == 0 and longer <= longest else length
