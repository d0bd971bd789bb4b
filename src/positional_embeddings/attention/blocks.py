"""Which blocks of queries and keys an attention computes the scores of.

A `Mask` leaves out the keys that no query of a block sees, and is not evaluated for those that
all of them see.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings._core.memory import cuts
from positional_embeddings._core.namespace import Namespace, device_of
from positional_embeddings._core.positions import positions_of_ranges
from positional_embeddings.masks.ranges import Ranges, Reach, complement, count_keys, intersect

ALL = slice(None)

# Some keys: those of one slice, or of several, ascending.
Keys: TypeAlias = tuple[slice, ...]
# From indices of queries (start, stop) to the keys that they see.
ReachFunction: TypeAlias = Callable[[int, int], Reach]

# Fixed time of a block, as that of so many scores.
_BLOCK_COST = 2**15
# Queries are cut in half if both halves together take at most this part of the time.
_WORTH_CUTTING = 0.9
# More slices are gathered by their indices.
_FEW_SLICES = 8
# Blocks without a mask begin and end at multiples of so many keys: BLAS multiplies parts of other
# lengths several per cent more slowly.
_KEY_MULTIPLE = 64


class KeyBlock(NamedTuple):
    """Keys whose scores are computed together."""

    keys: Keys
    is_masked: bool  # whether a query may not see some of them


class QueryBlock(NamedTuple):
    """Queries whose scores are computed together, and the keys that they meet."""

    queries: slice
    key_blocks: tuple[KeyBlock, ...]

    @property
    def scores(self) -> int:
        """Return the number of scores of each row."""
        keys: int = sum(at.stop - at.start for block in self.key_blocks for at in block.keys)
        rows: int = self.queries.stop - self.queries.start
        return rows * keys


def plan_blocks(
    q_len: int,
    k_len: int,
    block_size: int | None,
    q_block: int,
    most: int,
    reach: ReachFunction | None,
) -> list[QueryBlock]:
    """Return blocks of `block_size` queries and keys at most, or of about `most` scores."""
    if reach is None:
        at_queries = cuts(q_len, q_block)
        at_keys = cuts(k_len, min(k_len, block_size or most // q_block))
        key_blocks = tuple(KeyBlock((at,), is_masked=True) for at in at_keys)
        return [QueryBlock(at, key_blocks) for at in at_queries]
    blocks = []
    # Half as many queries: the band of keys that only some of them see is as wide as they are many.
    for at in cuts(q_len, block_size or max(1, q_block // 2)):
        for start, stop, seen in _cut_queries(at.start, at.stop, reach(at.start, at.stop), reach):
            # A quarter more, rather than a small block at the end.
            longest = block_size or 5 * most // (4 * (stop - start))
            blocks.append(QueryBlock(slice(start, stop), _key_blocks(seen, k_len, longest)))
    return blocks


def _cut_queries(
    start: int, stop: int, seen: Reach, reach: ReachFunction
) -> list[tuple[int, int, Reach]]:
    """Return parts of a block of queries, halved if that leaves out enough keys."""
    if stop - start > 1:
        middle = (start + stop) // 2
        halves = [(*half, reach(*half)) for half in ((start, middle), (middle, stop))]
        apart = sum(_cost(*half) for half in halves)
        if apart <= _WORTH_CUTTING * _cost(start, stop, seen):
            return [part for half in halves for part in _cut_queries(*half, reach)]
    return [(start, stop, seen)]


def _cost(start: int, stop: int, seen: Reach) -> int:
    return (stop - start) * count_keys(seen.at_most) + _BLOCK_COST


def _key_blocks(seen: Reach, k_len: int, longest: int) -> tuple[KeyBlock, ...]:
    """Return blocks of the keys that are seen, apart if all queries see all of them."""
    common = intersect(seen.at_most, seen.at_least)
    if common != seen.at_most:
        inner = (
            (-(-start // _KEY_MULTIPLE) * _KEY_MULTIPLE, stop // _KEY_MULTIPLE * _KEY_MULTIPLE)
            for start, stop in common
        )
        # A few keys are not worth a block of their own.
        common = tuple((start, stop) for start, stop in inner if 4 * (stop - start) >= longest)
    rest = intersect(seen.at_most, complement(common, k_len))
    blocks = []
    for ranges, is_masked in ((common, False), (rest, True)):
        blocks += [KeyBlock(keys, is_masked) for keys in _pack(ranges, longest)]
    return tuple(blocks)


def _pack(ranges: Ranges, longest: int) -> list[Keys]:
    """Cut ranges into equal parts of at most `longest` keys, and put short ones together."""
    packs: list[list[slice]] = []
    room = 0
    for start, stop in ranges:
        count = -(-(stop - start) // longest)
        for part in cuts(stop - start, -(-(stop - start) // count)):
            size = part.stop - part.start
            if size > room:
                packs.append([])
                room = longest
            packs[-1].append(slice(start + part.start, start + part.stop))
            room -= size
    return [tuple(pack) for pack in packs]


def slice_keys(array: Any, axis: int, keys: Keys, xp: Namespace) -> Any:
    """Return some keys of an array, or None, on axis -1 or -2."""
    if array is None or keys == (ALL,):
        return array
    after = (ALL,) * (-1 - axis)
    if len(keys) > _FEW_SLICES:
        ranges = ranges_of(keys, array.shape[axis])
        return xp.take(array, positions_of_ranges(ranges, xp, device_of(array)), axis=axis)
    parts = [array[(..., at, *after)] for at in keys]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=axis)


def ranges_of(keys: Keys, k_len: int) -> Ranges:
    """Return slices of keys as ranges."""
    return tuple(at.indices(k_len)[:2] for at in keys)


def slices_of(ranges: Ranges) -> Keys:
    """Return ranges of keys as slices, an empty one if there is none."""
    return tuple(slice(start, stop) for start, stop in ranges) or (slice(0, 0),)
