"""The loops in which a kernel goes over the pairs of arrays of any strides."""

from math import inf
from typing import TypeAlias

# A number for each axis, of several arrays.
Sizes: TypeAlias = tuple[tuple[int, ...], ...]


def merged_axes(
    shapes: Sizes, strides: Sizes, axis: int, layout: str, longest: float = inf
) -> list[tuple[int, ...]]:
    """Return the axes of pairs, the innermost first.

    Two neighbours are merged into one axis if a step of the outer one is as long as the whole inner
    one in every array, unless it becomes longer than `longest`. Each axis has its length, and its
    steps in x, out, cos and sin. Shapes are the shapes of `x` and the tables.
    """
    axes: list[tuple[int, ...]] = []
    for a, (length, table_length) in enumerate(zip(*shapes, strict=True)):
        n = table_length if a == axis else length
        apart = 2 if layout == "interleaved" and a == axis else 1
        x, out, cos, sin = (steps[a] for steps in strides)
        repeated = 0 if table_length == 1 else 1
        if n != 1:
            axes.append((n, apart * x, apart * out, repeated * cos, repeated * sin))
    axes.sort(key=lambda a: abs(a[1]))
    merged = axes[:1]
    for length, *steps in axes[1:]:
        inner, *inner_steps = merged[-1]
        if steps == [inner * step for step in inner_steps] and inner * length <= longest:
            merged[-1] = (inner * length, *inner_steps)
        else:
            merged.append((length, *steps))
    return merged
