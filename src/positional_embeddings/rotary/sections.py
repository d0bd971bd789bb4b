"""Sections of rotary pairs, one for each coordinate of a position."""

from collections.abc import Sequence
from typing import Any, Literal

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings.angles.frequencies import Frequencies, geometric_frequencies

SectionFrequencies = Literal["shared", "restart"]
SectionOrder = Literal["contiguous", "strided"]


def checked_sections(sections: Any, rotary_dim: int) -> tuple[int, ...] | None:
    """Return the number of pairs of each coordinate."""
    if sections is None:
        return None
    sections = sections.tolist() if hasattr(sections, "tolist") else sections
    if not isinstance(sections, list | tuple):
        raise wrong_type("sections", "be a list or tuple of integers", shown(sections))
    pairs = tuple(checks.positive_integer("sections", n) for n in sections)
    if sum(pairs) != rotary_dim // 2:
        raise wrong_value(
            "sections", f"add up to {rotary_dim // 2}, half of the rotated features", pairs
        )
    return pairs


def pairs_of_sections(sections: Sequence[int], order: str) -> tuple[tuple[int, ...], ...]:
    """Return the pairs that each coordinate rotates."""
    if order == "contiguous":
        starts = [sum(sections[:c]) for c in range(len(sections))]
        return tuple(tuple(range(s, s + n)) for s, n in zip(starts, sections, strict=True))
    count, total = len(sections), sum(sections)
    # The first coordinate has what the others, one pair of each at a time, leave.
    others = [tuple(range(c, sections[c] * count, count)) for c in range(1, count)]
    taken = {pair for pairs in others for pair in pairs}
    if max(taken, default=0) >= total:
        raise wrong_value(
            "sections",
            "have as many pairs for the first coordinate as for any other in strided order",
            tuple(sections),
        )
    return (tuple(pair for pair in range(total) if pair not in taken), *others)


def restarting_frequencies(
    sections: Sequence[int], order: str, base: float, scale: float
) -> Frequencies:
    """Return frequencies with a full range for each coordinate."""
    pairs = pairs_of_sections(sections, order)
    return Frequencies.merge([geometric_frequencies(2 * n, base, scale) for n in sections], pairs)
