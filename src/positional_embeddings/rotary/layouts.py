"""The two layouts of rotary pairs: half and interleaved."""

from typing import Any, Literal

from positional_embeddings._core import axes, checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    namespace_of,
)

Layout = Literal["half", "interleaved"]
LAYOUTS = ("half", "interleaved")


def features_of_pairs(start: int, stop: int, pairs: int, layout: str) -> tuple[slice, slice]:
    """Return where the first and the second features are of the pairs `start` to `stop`."""
    if layout == "half":
        return slice(start, stop), slice(start + pairs, stop + pairs)
    return slice(2 * start, 2 * stop, 2), slice(2 * start + 1, 2 * stop, 2)


def cut_along(x: Any, axis: int, size: int) -> tuple[Any, Any]:
    """Return the first `size` along an axis, and the others, None where there are none."""
    before = (slice(None),) * axis
    if x.shape[axis] == size:
        return x, None
    return x[(*before, slice(None, size), ...)], x[(*before, slice(size, None), ...)]


def halves(x: Any, axis: int, layout: str) -> tuple[Any, Any]:
    """Return the first and the second feature of each pair."""
    before, half = (slice(None),) * axis, x.shape[axis] // 2
    first, second = features_of_pairs(0, half, half, layout)
    return x[(*before, first, ...)], x[(*before, second, ...)]


def joined(first: Any, second: Any, axis: int, layout: str, xp: Namespace) -> Any:
    """Put the first and the second features of pairs together."""
    half = first.shape[axis]
    known = all(checks.is_known(n) for n in first.shape)
    if known and layout == "half":
        return xp.concat([first, second], axis=axis)
    if known and 0 not in first.shape:
        shape = (*first.shape[:axis], 2 * half, *first.shape[axis + 1 :])
        return xp.reshape(xp.stack([first, second], axis=axis + 1), shape)
    # dask does not concatenate what has unknown lengths, nor reshape it or what is empty.
    on = device_of(first)
    rows = range(2 * half)
    order = [i % half for i in rows] if layout == "half" else [i // 2 for i in rows]
    of_first = [i < half for i in rows] if layout == "half" else [i % 2 == 0 for i in rows]
    order = xp.asarray(order, dtype=default_integer(xp, on), device=on)
    choose = xp.asarray(of_first, dtype=xp.bool, device=on)
    choose = choose[(..., *(None,) * (first.ndim - axis - 1))]
    return xp.where(choose, xp.take(first, order, axis=axis), xp.take(second, order, axis=axis))


def double_tables(cos: Any, sin: Any, xp: Namespace, axis: int) -> tuple[Any, Any]:
    """Return [cos, cos] and [-sin, sin]: the factors of both features of each pair.

    ``x * [cos, cos] + [second, first] * [-sin, sin]`` is `x` in the half layout, rotated.
    """
    return xp.concat([cos, cos], axis=axis), xp.concat([-sin, sin], axis=axis)


def neg_half(x: ArrayT, /, axis: int = 0) -> ArrayT:
    """Return the negated second half of the features, followed by the first half.

    It is the quarter turn of the half layout: ``x * cos + neg_half(x) * sin`` turns
    the pairs (i, i + n/2).

    Parameters
    ----------
    x : array
        Numbers of a signed integer, real or complex dtype, of an even length n
        along `axis`.
    axis : int, default 0
        Axis of the features.

    Returns
    -------
    array
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is no array, or its dtype has no negative numbers.
    ValueError
        If `axis` is out of range, or odd in length.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34, for pairs (i, i + n/2).

    Examples
    --------
    >>> import numpy as np
    >>> neg_half(np.asarray([1, 2, 3, 4]))
    array([-3, -4,  1,  2])
    """
    xp = namespace_of(x=x)
    _check_negatable(x)
    axis = axes.axis_of("axis", axis, x.ndim)
    _check_even(x, axis)
    first, second = halves(x, axis, "half")
    negated: ArrayT = joined(-second, first, axis, "half", xp)
    return negated


def rotate_pairs(x: ArrayT, /, axis: int = 0) -> ArrayT:
    """Turn each pair of neighbours by a quarter: (x0, x1) becomes (-x1, x0).

    It is the quarter turn of the interleaved layout: ``x * cos + rotate_pairs(x) * sin``
    turns the pairs (2i, 2i + 1).

    Parameters
    ----------
    x : array
        Numbers of a signed integer, real or complex dtype.
    axis : int, default 0
        Axis of the features. An odd last one stays as it is.

    Returns
    -------
    array
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is no array, or its dtype has no negative numbers.
    ValueError
        If `axis` is out of range.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    >>> import numpy as np
    >>> rotate_pairs(np.asarray([1, 2, 3, 4, 5]))
    array([-2,  1, -4,  3,  5])
    """
    xp = namespace_of(x=x)
    _check_negatable(x)
    axis = axes.axis_of("axis", axis, x.ndim)
    even = axes.length(x, axis) // 2 * 2
    if even == 0:
        return x
    pairs, rest = cut_along(x, axis, even)
    first, second = halves(pairs, axis, "interleaved")
    turned = joined(-second, first, axis, "interleaved", xp)
    rotated: ArrayT = turned if rest is None else xp.concat([turned, rest], axis=axis)
    return rotated


def _check_even(x: Array, axis: int) -> None:
    if x.shape[axis] % 2:
        raise wrong_value("x", f"have an even length on axis {axis}", f"shape {tuple(x.shape)}")


def _check_negatable(x: Array) -> None:
    name = dtype_name(x.dtype)
    if name.startswith(("bool", "uint", "datetime64", "object", "str", "bytes")):
        raise wrong_type("x", "have a dtype with negative numbers", name)


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
    checks.choice("source", source, LAYOUTS)
    checks.choice("target", target, LAYOUTS)
    axis = axes.axis_of("axis", axis, array.ndim, "array")
    heads = 1 if num_heads is None else checks.positive_integer("num_heads", num_heads)
    length = axes.length(array, axis, "array")
    if length % heads:
        raise wrong_value(
            "array", f"have a multiple of `num_heads` = {shown(heads)} on axis {axis}", length
        )
    head_size = length // heads
    rotated = head_size if rotary_dim is None else rotary_dim
    rotated = checks.positive_integer("rotary_dim", rotated, even=True)
    if rotated > head_size:
        raise wrong_value("rotary_dim", f"be at most {head_size}, the head size", shown(rotated))
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
