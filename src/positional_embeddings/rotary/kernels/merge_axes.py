"""Axes of the loops of a kernel over the pairs of strided arrays."""

from math import inf
from typing import TypeAlias

# Lengths or strides of several arrays.
Sizes: TypeAlias = tuple[tuple[int, ...], ...]


def merged_axes(
    shapes: Sizes, strides: Sizes, axis: int, layout: str, max_length: float = inf
) -> list[tuple[int, ...]]:
    """Return the axes of pairs, the innermost first.

    Each has its length, and its steps in x, out, cos and sin. Two neighbouring axes are merged if
    they are contiguous in every array and their product is at most `max_length`. `shapes` are the
    shapes of `x` and the tables.
    """
    axes: list[tuple[int, ...]] = []
    for a, (length, table_length) in enumerate(zip(*shapes, strict=True)):
        n = table_length if a == axis else length
        pair_step = 2 if layout == "interleaved" and a == axis else 1
        x, out, cos, sin = (steps[a] for steps in strides)
        repeated = 0 if table_length == 1 else 1
        if n != 1:
            axes.append((n, pair_step * x, pair_step * out, repeated * cos, repeated * sin))
    axes.sort(key=lambda a: abs(a[1]))
    merged = axes[:1]
    for length, *steps in axes[1:]:
        inner, *inner_steps = merged[-1]
        if steps == [inner * step for step in inner_steps] and inner * length <= max_length:
            merged[-1] = (inner * length, *inner_steps)
        else:
            merged.append((length, *steps))
    return merged
