"""Layouts of rotary pairs: half, (i, i + n/2), and interleaved, (2i, 2i + 1); sections of pairs."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from positional_embeddings.angles.pairs import join_pairs, pair_slices, split_pairs
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Namespace

Layout = Literal["half", "interleaved"]
LAYOUTS: tuple[str, ...] = get_args(Layout)


def split_at(x: Array, axis: int, size: int) -> tuple[Array, Array]:
    """Split an array after `size` entries along an axis; the second part is None if empty."""
    leading = (slice(None),) * axis
    if x.shape[axis] == size:
        return x, None
    return x[(*leading, slice(None, size), ...)], x[(*leading, slice(size, None), ...)]


def neg_half(x: ArrayT, /, axis: int = 0) -> ArrayT:
    """Return the negated second half of the features, followed by the first half.

    This rotates the pairs (i, i + n/2) of the half layout by 90 degrees.
    ``x * cos + neg_half(x) * sin`` rotates them by any angle.

    Parameters
    ----------
    x : array
        Array of a signed integer, real or complex dtype, with an even length n along `axis`.
    axis : int, default 0
        Axis of the features.

    Returns
    -------
    array
        Shape and dtype of `x`.

    Raises
    ------
    TypeError, ValueError
        If `x` is not an array of signed numbers, or has an odd length along `axis`.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34, for pairs (i, i + n/2).

    Examples
    --------
    >>> import numpy as np
    >>> neg_half(np.asarray([1, 2, 3, 4]))
    array([-3, -4,  1,  2])
    """
    return _quarter_turn(x, axis, "half", get_backend(x=x).xp)


def rotate_pairs(x: ArrayT, /, axis: int = 0) -> ArrayT:
    """Rotate each pair of adjacent features by 90 degrees: (x0, x1) becomes (-x1, x0).

    These are the pairs (2i, 2i + 1) of the interleaved layout.
    ``x * cos + rotate_pairs(x) * sin`` rotates them by any angle.

    Parameters
    ----------
    x : array
        Array of a signed integer, real or complex dtype.
    axis : int, default 0
        Axis of the features. The last feature of an odd number is unchanged.

    Returns
    -------
    array
        Shape and dtype of `x`.

    Raises
    ------
    TypeError, ValueError
        If `x` is not an array of signed numbers, or `axis` is out of range.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    >>> import numpy as np
    >>> rotate_pairs(np.asarray([1, 2, 3, 4, 5]))
    array([-2,  1, -4,  3,  5])
    """
    return _quarter_turn(x, axis, "interleaved", get_backend(x=x).xp)


def _quarter_turn(x: ArrayT, axis: int, layout: str, xp: Namespace) -> ArrayT:
    name = dtypes.dtype_name(x.dtype)
    if name.startswith(("bool", "uint", "datetime64", "object", "str", "bytes", "void")):
        raise wrong_type("x", "have a dtype with negative numbers", name)
    axis = axes.axis_of("axis", axis, x.ndim)
    pairs = axes.length(x, axis) // 2
    if layout == "half":
        check_even(x, axis)
    if pairs == 0:
        return x
    first, second = split_pairs(x, axis, layout, pairs)
    rotated_pairs: ArrayT = join_pairs(-second, first, axis, layout, xp)
    _, remainder = split_at(x, axis, 2 * pairs)
    return rotated_pairs if remainder is None else xp.concat([rotated_pairs, remainder], axis=axis)


def rotated_features(rotary_dim: int, features: int, limit: str) -> int:
    """Check the number of rotated features and return it; `limit` describes its maximum."""
    hint = " Pass int(factor * head_size) for a factor."
    rotated = checks.positive_integer("rotary_dim", rotary_dim, even=True, hint=hint)
    if rotated > features:
        raise wrong_value("rotary_dim", f"be at most {limit}", format_value(rotated))
    return rotated


def check_even(x: AnyArray, axis: int) -> None:
    """Check that the length of an axis is even."""
    if x.shape[axis] % 2:
        raise wrong_value("x", f"have an even length on axis {axis}", f"shape {tuple(x.shape)}")


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
    """Convert features from one layout of rotary pairs to the other.

    Converted queries and keys, or their projection weights and biases, give the same scores when
    they are rotated in the target layout.

    Parameters
    ----------
    array : array
        Activations, or weights or biases of a projection to queries or keys.
    source, target : {"half", "interleaved"}
        The layouts of `array` and of the result.
    axis : int
        Axis of the features, of length head size or heads times head size.
    num_heads : int, optional
        Number of contiguous heads along `axis`; 1 if None.
    rotary_dim : int, optional
        Number of leading features of a head that are rotated, positive and even; all if None. The
        remaining features are not moved.

    Returns
    -------
    array
        Shape and dtype of `array`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, a layout is unknown, or the sizes do not match.

    References
    ----------
    Both layouts follow Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    >>> import numpy as np
    >>> convert_layout(np.asarray([0, 1, 2, 3]), "interleaved", "half", axis=0)
    array([0, 2, 1, 3])
    >>> convert_layout(np.asarray([0, 2, 1, 3]), "half", "interleaved", axis=0)
    array([0, 1, 2, 3])
    """
    backend = get_backend(array=array)
    checks.choice("source", source, LAYOUTS)
    checks.choice("target", target, LAYOUTS)
    axis = axes.axis_of("axis", axis, array.ndim, "array")
    heads = 1 if num_heads is None else checks.positive_integer("num_heads", num_heads)
    length = axes.length(array, axis, "array")
    head_size = checks.quotient(f"array.shape[{axis}]", length, "num_heads", heads)
    rotated = head_size if rotary_dim is None else rotary_dim
    rotated = rotated_features(rotated, head_size, f"{head_size}, the head size")
    if source == target:
        return array
    pairs, order = rotated // 2, list(range(head_size))
    slices = [pair_slices(pairs, layout) for layout in (source, target)]
    for old, new in zip(*slices, strict=True):
        order[new] = range(head_size)[old]
    entries = [start + i for start in range(0, length, head_size) for i in order]
    index: Array = backend.xp.asarray(entries, dtype=backend.int_dtype, device=backend.device)
    return backend.xp.take(array, index, axis=axis)  # type: ignore[no-any-return]


def checked_sections(sections: Any, rotary_dim: int) -> tuple[int, ...] | None:
    """Check the number of pairs of each coordinate and return it."""
    if sections is None:
        return None
    pairs = checks.sequence_of("sections", sections, checks.positive_integer)
    if sum(pairs) != rotary_dim // 2:
        requirement = f"add up to {rotary_dim // 2}, half of the rotated features"
        raise wrong_value("sections", requirement, pairs)
    return pairs


def coordinates_of_pairs(sections: Sequence[int], order: str) -> tuple[int, ...]:
    """Return the coordinate that rotates each pair."""
    count, total = len(sections), sum(sections)
    if order == "contiguous":
        return tuple(c for c, n in enumerate(sections) for _ in range(n))
    if order == "first_last":
        first, *others = sections
        if len(set(others)) > 1:
            requirement = "have equal sections after the first in order 'first_last'"
            raise wrong_value("sections", requirement, tuple(sections))
        # The other coordinates alternate, and the pairs of the first coordinate follow.
        return (*range(1, count),) * max(others, default=0) + (0,) * first
    if max((c + (sections[c] - 1) * count for c in range(1, count)), default=0) >= total:
        requirement = "have no coordinate with more pairs than the first in strided order"
        raise wrong_value("sections", requirement, tuple(sections))
    # Coordinates alternate; the first one also takes the remaining pairs.
    return tuple(i % count if i // count < sections[i % count] else 0 for i in range(total))
