"""Ranges of keys: ascending pairs (start, stop) that do not touch, as Python integers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from positional_embeddings.arrays.namespace import HostArray, np

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class VisibleKeys(NamedTuple):
    """Which keys some queries see, as far as it is known on the host."""

    any_query: Ranges  # no other key is seen by any of the queries
    every_query: Ranges  # each of these keys is seen by all of the queries


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
    """Return the union of ranges in any order, given by the first and the last position of each."""
    order = np.argsort(firsts)
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    apart = firsts[1:] - 1 > lasts[:-1]
    starts = np.concat([firsts[:1], firsts[1:][apart]])
    lasts = np.concat([lasts[:-1][apart], lasts[-1:]])
    return tuple((a, b + 1) for a, b in zip(starts.tolist(), lasts.tolist(), strict=True))


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """Return what two unions of ranges have in common."""
    if len(first) == len(second) == 1:
        (start, stop), (least, most) = *first, *second
        return clip(start, stop, most, least)
    few, many = sorted((first, second), key=len)
    if len(few) == 1 and few[0][0] <= many[0][0] and many[-1][1] <= few[0][1]:
        return many
    common: list[tuple[int, int]] = []
    for start, stop in few:
        # Those that end after the start and begin before the stop.
        after = bisect_right(many, start, key=itemgetter(1))
        inside = list(many[after : bisect_left(many, stop, key=itemgetter(0))])
        if inside:
            inside[0] = max(start, inside[0][0]), inside[0][1]
            inside[-1] = inside[-1][0], min(stop, inside[-1][1])
            common += inside
    return tuple(common)


def complement(ranges: Ranges, size: int) -> Ranges:
    """Return what ranges leave of those from 0 to `size`."""
    edges = [0, *(edge for pair in ranges for edge in pair), size]
    return unite(zip(edges[::2], edges[1::2], strict=True))


def hull(ranges: Ranges) -> tuple[int, int]:
    """Return the range from the first start to the last stop."""
    return ranges[0][0], ranges[-1][1]


def shift(ranges: Ranges, by: int) -> Ranges:
    """Return ranges moved by a number of positions."""
    return tuple([(start + by, stop + by) for start, stop in ranges])


def clip(start: int, stop: int, size: int, least: int = 0) -> Ranges:
    """Return the part of a range from `least` to before `size`."""
    start, stop = max(start, least), min(stop, size)
    return ((start, stop),) if start < stop else ()


def count_positions(ranges: Ranges) -> int:
    """Return the number of positions in ranges."""
    return sum(stop - start for start, stop in ranges)
