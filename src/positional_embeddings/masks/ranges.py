"""Ranges of keys: ascending pairs (start, stop) that do not touch, as Python integers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from positional_embeddings.arrays.namespace import HostArray, np

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class VisibleKeys(NamedTuple):
    """The keys that some queries attend to, as far as the host can determine them."""

    any_query: Ranges  # includes all keys that at least one query attends to
    every_query: Ranges  # includes only keys that all queries attend to


def unite(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the union of ranges in any order; some may be empty."""
    united: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], stop)
        else:
            united.append((start, stop))
    return tuple(united)


def unite_arrays(firsts: HostArray, lasts: HostArray) -> Ranges:
    """Return the union of ranges in any order, from their first and last positions."""
    order = np.argsort(firsts)
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    is_gap = firsts[1:] - 1 > lasts[:-1]
    starts = np.concat([firsts[:1], firsts[1:][is_gap]])
    lasts = np.concat([lasts[:-1][is_gap], lasts[-1:]])
    return tuple((a, b + 1) for a, b in zip(starts.tolist(), lasts.tolist(), strict=True))


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """Return the intersection of two unions of ranges."""
    if len(first) == len(second) == 1:
        return clip(*first[0], second[0][1], second[0][0])
    shorter, longer = sorted((first, second), key=len)
    if len(shorter) == 1 and shorter[0][0] <= longer[0][0] and longer[-1][1] <= shorter[0][1]:
        return longer
    intersection: list[tuple[int, int]] = []
    for start, stop in shorter:
        # The ranges that end after `start` and begin before `stop`.
        index = bisect_right(longer, start, key=itemgetter(1))
        parts = list(longer[index : bisect_left(longer, stop, key=itemgetter(0))])
        if parts:
            parts[0] = max(start, parts[0][0]), parts[0][1]
            parts[-1] = parts[-1][0], min(stop, parts[-1][1])
            intersection += parts
    return tuple(intersection)


def complement(ranges: Ranges, size: int) -> Ranges:
    """Return the ranges of the numbers from 0 to before `size` that are not in ranges."""
    edges = [0, *(edge for pair in ranges for edge in pair), size]
    return unite(zip(edges[::2], edges[1::2], strict=True))


def hull(ranges: Ranges) -> tuple[int, int]:
    """Return the range from the first start to the last stop."""
    return ranges[0][0], ranges[-1][1]


def shift(ranges: Ranges, offset: int) -> Ranges:
    """Return ranges shifted by an offset."""
    return tuple([(start + offset, stop + offset) for start, stop in ranges])


def clip(start: int, stop: int, max_stop: int, min_start: int = 0) -> Ranges:
    """Return a range clipped to the numbers from `min_start` to before `max_stop`."""
    start, stop = max(start, min_start), min(stop, max_stop)
    return ((start, stop),) if start < stop else ()


def count_positions(ranges: Ranges) -> int:
    """Return the number of positions in ranges."""
    return sum(stop - start for start, stop in ranges)
