"""Tables of some of the positions: stretches, none of which lies within another."""

from typing import Any

# Positions of which none is computed without the others, whole blocks of them.
_PIECE = 4096

# Tables, (row, position), by the first of the positions that they cover.
Stretches = dict[int, tuple[Any, ...]]


def covering(stretches: Stretches, start: int, stop: int) -> int | None:
    """Return the first position of a stretch that covers `start` to `stop`, the newest of them."""
    for first in reversed(stretches):
        if first <= start and stop <= first + width(stretches[first]):
            return first
    return None


def to_make(stretches: Stretches, start: int, stop: int, size: int) -> tuple[int, int]:
    """Return from where to where a stretch is to be made that covers `start` to `stop`.

    Where the first of these positions is in a stretch, that one is made longer. If not,
    a new one begins, so that nothing is computed or moved for the positions before.
    All stretches together are no longer than one of all positions, the `size`.
    """
    first = covering(stretches, start, start + 1)
    if first is None:
        first = min(start, size - 1) // _PIECE * _PIECE
    last = min(max(first + _PIECE, -(-stop // _PIECE) * _PIECE), size)
    beside = others(stretches, first, last).values()
    return (first, last) if sum(map(width, beside)) + last - first <= size else (0, size)


def with_one_more(stretches: Stretches, first: int, tables: tuple[Any, ...]) -> Stretches:
    """Return the stretches and one more, which takes the place of those within it."""
    return {**others(stretches, first, first + width(tables)), first: tables}


def others(stretches: Stretches, first: int, last: int) -> Stretches:
    """Return those stretches that do not lie within `first` to `last`."""
    return {
        start: tables
        for start, tables in stretches.items()
        if start < first or start + width(tables) > last
    }


def width(tables: tuple[Any, ...]) -> int:
    width: int = tables[0].shape[1]
    return width
