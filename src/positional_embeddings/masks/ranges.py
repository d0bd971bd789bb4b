"""Ranges of keys: ascending pairs (start, stop) that do not touch, as Python integers."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Reach(NamedTuple):
    """Which keys some queries see, as far as it is known on the host."""

    at_most: Ranges  # no other key is seen by any of the queries
    at_least: Ranges  # each of these keys is seen by all of the queries


def unite(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the union of ranges in any order, of which some may be empty."""
    united: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], stop)
        else:
            united.append((start, stop))
    return tuple(united)


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """Return what two unions of ranges have in common."""
    common = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, stop = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < stop:
            common.append((start, stop))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def complement(ranges: Ranges, size: int) -> Ranges:
    """Return what ranges leave of those from 0 to `size`."""
    edges = [0, *(edge for pair in ranges for edge in pair), size]
    return unite(zip(edges[::2], edges[1::2], strict=True))


def clip(start: int, stop: int, size: int) -> Ranges:
    """Return the part of a range from 0 to `size`."""
    return unite([(max(start, 0), min(stop, size))])


def count_keys(ranges: Ranges) -> int:
    """Return the number of keys, or other positions, in ranges."""
    return sum(stop - start for start, stop in ranges)
