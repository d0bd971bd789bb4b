"""Sections of rotary pairs, one for each coordinate of a position."""

from collections.abc import Sequence
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value


def checked_sections(sections: Any, rotary_dim: int) -> tuple[int, ...] | None:
    """Return the number of pairs of each coordinate."""
    if sections is None:
        return None
    sections = sections.tolist() if hasattr(sections, "tolist") else sections
    if not isinstance(sections, list | tuple):
        raise wrong_type("sections", "be a list or tuple of integers", shown(sections))
    pairs = tuple(checks.positive_integer("sections", n) for n in sections)
    if sum(pairs) != rotary_dim // 2:
        what = f"add up to {rotary_dim // 2}, half of the rotated features"
        raise wrong_value("sections", what, pairs)
    return pairs


def coordinates_of_pairs(sections: Sequence[int], order: str) -> tuple[int, ...]:
    """Return the coordinate that rotates each pair."""
    count, total = len(sections), sum(sections)
    if order == "contiguous":
        return tuple(c for c, n in enumerate(sections) for _ in range(n))
    if max((c + (sections[c] - 1) * count for c in range(1, count)), default=0) >= total:
        what = "have as many pairs for the first coordinate as for any other in strided order"
        raise wrong_value("sections", what, tuple(sections))
    # The first coordinate has what the others, one pair of each at a time, leave.
    return tuple(i % count if i // count < sections[i % count] else 0 for i in range(total))
