"""Tables of some of the positions: stretches, none of which lies within another."""

from collections.abc import Iterator
from typing import Any

from positional_embeddings.angles import BLOCK

# Where stretches begin and end, but for the end of all.
_PIECE = 16 * BLOCK
_MOST = 64

# Tables, (row, position), by the first of the positions that they cover.
Stretches = dict[int, tuple[Any, ...]]


def covering(stretches: Stretches, start: int, stop: int) -> int | None:
    """Return the first position of a stretch that covers `start` to `stop`, the newest of them."""
    for first in reversed(stretches):
        if first <= start and stop <= first + width(stretches[first]):
            return first
    return None


def to_make(stretches: Stretches, start: int, stop: int, size: int) -> tuple[int, int]:
    """Return from where to where to make a stretch that covers `start` to `stop`.

    Where `start` is in a stretch, that one is made longer, to twice its length. If not,
    a new one begins, so that nothing is computed or moved for the positions before.
    Where all would be longer than one of all positions, the `size`, it is that one.
    """
    grown = covering(stretches, start, start + 1)
    if grown is None:
        first = min(start, size - 1) // _PIECE * _PIECE
        last = first + _PIECE
    else:
        first, last = grown, grown + 2 * width(stretches[grown])
    last = min(max(last, -(-stop // _PIECE) * _PIECE), size)
    beside = others(stretches, first, last).values()
    return (first, last) if sum(map(width, beside)) + last - first <= size else (0, size)


def spans(
    stretches: Stretches, first: int, last: int
) -> Iterator[tuple[int, int, tuple[Any, ...] | None]]:
    """Yield, from `first` to `last`, start, stop and tables, None where none are there."""
    while first < last:
        at = covering(stretches, first, first + 1)
        if at is None:
            stop = min((start for start in stretches if start > first), default=last)
            stop = min(stop, last)
            yield first, stop, None
        else:
            stop = min(last, at + width(stretches[at]))
            yield first, stop, columns(stretches[at], first - at, stop - at)
        first = stop


def with_one_more(
    stretches: Stretches, first: int, tables: tuple[Any, ...], size: int
) -> Stretches:
    """Return the stretches and one more, which takes the place of those within it.

    It takes the place of all where they would be longer than one of all positions, and
    that of the oldest where they are many.
    """
    more = {**others(stretches, first, first + width(tables)), first: tables}
    if sum(map(width, more.values())) > size:
        return {first: tables}
    return dict(list(more.items())[-_MOST:])


def others(stretches: Stretches, first: int, last: int) -> Stretches:
    """Return those stretches that do not lie within `first` to `last`."""
    return {
        start: tables
        for start, tables in stretches.items()
        if start < first or start + width(tables) > last
    }


def columns(tables: tuple[Any, ...], start: int, stop: int) -> tuple[Any, ...]:
    """Return a part of tables, counted from their own start."""
    return tuple(table[:, start:stop] for table in tables)


def width(tables: tuple[Any, ...]) -> int:
    width: int = tables[0].shape[1]
    return width
