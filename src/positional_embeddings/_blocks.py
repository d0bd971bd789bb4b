"""Where the blocks of an array are, and the features of pairs."""

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


def features_of_pairs(start: int, stop: int, pairs: int, layout: str) -> tuple[slice, slice]:
    """Return where the first and the second features are of the pairs `start` to `stop`."""
    if layout == "half":
        return slice(start, stop), slice(start + pairs, stop + pairs)
    return slice(2 * start, 2 * stop, 2), slice(2 * start + 1, 2 * stop, 2)
