"""Which keys a ring of slots keeps for a query, and the masks that fit it."""

from collections.abc import Iterator
from math import prod
from typing import Any

from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.attention.slots import Slots
from positional_embeddings.masks.by_position import (
    ChunkedMask,
    GlobalMask,
    NeighbourhoodMask,
    SlidingWindowMask,
)
from positional_embeddings.masks.mask import Mask

# A position from which a mask with a window sees nothing of the first tokens but some of them.
_FAR = 2**40


def ring_mask(sinks: int, window: int) -> Mask:
    """Return the mask that hides all but the first tokens and the newest ones."""
    newest = SlidingWindowMask(window - 1, None)
    return newest & GlobalMask(range(sinks)) if sinks else newest


def check_ring(mask: Mask, kept: Slots) -> None:
    """Check that a mask with a window of its own shows nothing that the ring has forgotten."""
    own: tuple[int, int] = kept.sinks, kept.window  # type: ignore[assignment]
    for grid in _parts(mask, NeighbourhoodMask):  # whose windows have no end
        if (size := prod(grid.shape)) > own[1]:
            what = f"have grids of at most {own[1]} tokens, as many as the ring keeps"
            hint = f" Make the cache with window={size}, or without a ring."
            raise wrong_value("mask", what, grid, hint)
    # The last query of a chunk sees most of it.
    chunks = [part.size for part in _parts(mask, ChunkedMask) if part.size <= _FAR]
    for last in (_FAR, *(_FAR // size * size for size in chunks)):
        seen = mask._reach(((last - 1, last),), last).seen_by_any
        if any(start <= last // 2 < stop for start, stop in seen):
            continue  # no window: the ring's is one
        sinks = max([own[0], *(stop for _, stop in seen if stop <= last // 2)])
        window = max([own[1], *(last - start for start, _ in seen if start > last // 2)])
        if (sinks, window) != own:
            what = f"show the {own[1]} newest keys of the ring and the first {own[0]} at most"
            hint = (
                f" Make the cache with capacity={sinks + window}, sinks={sinks}, "
                f"window={window}, or with more slots."
            )
            raise wrong_value("mask", what, mask, hint)


def _parts(mask: Any, kind: type[Mask]) -> Iterator[Any]:
    """Yield the masks of a kind that a mask is made of."""
    if isinstance(mask, kind):
        yield mask
    for part in getattr(mask, "masks", ()):
        yield from _parts(part, kind)
