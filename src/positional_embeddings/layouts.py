"""Conversion between the two layouts of rotary pairs."""

from typing import Any

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    ArrayT,
    default_integer,
    device_of,
    namespace_of,
    shown,
)
from positional_embeddings.rotation import LAYOUTS, Layout


def convert_layout(
    array: ArrayT,
    source: Layout,
    target: Layout,
    /,
    *,
    axis: int,
    num_heads: int | None = None,
    rotary_dim: int | None = None,
) -> ArrayT:
    """Reorder features from one layout of rotary pairs to the other.

    Queries and keys, or the rows of their weights and biases, that were made for one
    layout give the same scores in the other after it.

    Parameters
    ----------
    array : array
        Activations, or weights or biases of a projection to queries or keys.
    source, target : {"half", "interleaved"}
        The layout that `array` has, and the one that it is to have.
    axis : int
        Axis of the features: of length head size, or heads times head size.
    num_heads : int, optional
        Number of heads side by side along `axis`, each with its features together; 1
        where it is None.
    rotary_dim : int, optional
        Number of features of a head that are rotated, the first ones, positive and
        even; all where it is None. The others stay where they are.

    Returns
    -------
    array
        Shape and dtype of `array`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a layout is unknown, or the sizes do not fit.

    References
    ----------
    The two readings of Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    >>> import numpy as np
    >>> convert_layout(np.asarray([0, 1, 2, 3]), "interleaved", "half", axis=0)
    array([0, 2, 1, 3])
    >>> convert_layout(np.asarray([0, 2, 1, 3]), "half", "interleaved", axis=0)
    array([0, 1, 2, 3])
    """
    xp = namespace_of(array=array)
    _checks.choice("source", source, LAYOUTS)
    _checks.choice("target", target, LAYOUTS)
    axis = _axes.axis_of("axis", axis, array.ndim, "array")
    heads = 1 if num_heads is None else _checks.positive_integer("num_heads", num_heads)
    length = _axes.length(array, axis, "array")
    if length % heads:
        message = (
            f"`array` must have a multiple of `num_heads` = {shown(heads)} on axis {axis}, "
            f"got {length}."
        )
        raise ValueError(message)
    head_size = length // heads
    rotated = head_size if rotary_dim is None else rotary_dim
    rotated = _checks.positive_integer("rotary_dim", rotated, even=True)
    if rotated > head_size:
        message = f"`rotary_dim` must be at most {head_size}, the head size, got {shown(rotated)}."
        raise ValueError(message)
    if source == target:
        return array
    order = [h * head_size + i for h in range(heads) for i in _order(head_size, rotated, target)]
    on = device_of(array)
    index: Any = xp.asarray(order, dtype=default_integer(xp, on), device=on)
    converted: ArrayT = xp.take(array, index, axis=axis)
    return converted


def _order(head_size: int, rotary_dim: int, target: str) -> list[int]:
    """Return which feature of a head goes to each place."""
    half = rotary_dim // 2
    if target == "half":
        rotated = [*range(0, rotary_dim, 2), *range(1, rotary_dim, 2)]
    else:
        rotated = [i // 2 + (i % 2) * half for i in range(rotary_dim)]
    return [*rotated, *range(rotary_dim, head_size)]
