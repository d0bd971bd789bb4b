"""Blocks of arrays."""

from collections.abc import Iterable, Sequence


def block_lengths(shape: Sequence[int], order: Iterable[int], most: int) -> dict[int, int]:
    """Return how long a block of `most` numbers is on each axis, whole on the last of `order`."""
    lengths = {}
    for axis in reversed(list(order)):
        lengths[axis] = max(1, min(shape[axis], most))
        most //= lengths[axis]
    return lengths


def cuts(size: int, length: int) -> list[slice]:
    """Return slices of an axis, each of `length` but for the last."""
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
