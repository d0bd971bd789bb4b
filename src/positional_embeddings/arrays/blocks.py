"""Lengths and slices of blocks of arrays."""

from collections.abc import Iterable, Sequence


def block_lengths(shape: Sequence[int], order: Iterable[int], max_size: int) -> dict[int, int]:
    """Return the lengths of blocks of `max_size` elements, longest on the last axis of `order`."""
    lengths = {}
    for axis in reversed(list(order)):
        lengths[axis] = max(1, min(shape[axis], max_size))
        max_size //= lengths[axis]
    return lengths


def block_slices(size: int, length: int) -> list[slice]:
    """Return slices of an axis, all of `length` except the last, which may be shorter."""
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
