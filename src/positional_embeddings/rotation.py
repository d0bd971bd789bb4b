"""Rotation of pairs of features, in the two layouts that models have.

In the half layout feature i forms a pair with feature i + n/2, in the interleaved
layout feature 2i with feature 2i + 1.
"""

from typing import Any, Literal

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    compute_dtype,
    dtype_name,
    is_complex,
    namespace_of,
    present,
    shown,
)
from positional_embeddings._turning import cut_along, halves, joined, rotated

Layout = Literal["half", "interleaved"]
LAYOUTS = ("half", "interleaved")


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
    axis = _axes.axis_of("axis", axis, x.ndim)
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
    axis = _axes.axis_of("axis", axis, x.ndim)
    even = _axes.length(x, axis) // 2 * 2
    if even == 0:
        return x
    pairs, rest = cut_along(x, axis, even)
    first, second = halves(pairs, axis, "interleaved")
    turned = joined(-second, first, axis, "interleaved", xp)
    rotated: ArrayT = turned if rest is None else xp.concat([turned, rest], axis=axis)
    return rotated


def apply_rope(
    x: ArrayT,
    cos: Array,
    sin: Array,
    /,
    *,
    layout: Layout = "half",
    rotary_dim: int | None = None,
    feature_axis: int = 0,
    inverse: bool = False,
    out: ArrayT | None = None,
) -> ArrayT:
    """Rotate the pairs of features by given angles.

    Parameters
    ----------
    x : array
        Real floating-point numbers with n features, n even, along `feature_axis`; or
        complex ones with n/2, each of which is a pair.
    cos, sin : array
        Cosine and sine of the angles: one for each pair along `feature_axis`, and on
        every other axis the length of `x`, or 1. With one or two axes, beside any of 1,
        they are repeated over the others of `x`: over the trailing ones where the
        features lie first, over the leading ones where they lie last. No axis is taken
        for that of the sequence: give them all axes where the sequence does not lie
        beside the features.
    layout : {"half", "interleaved"}, default "half"
        Whether features i and i + n/2 form a pair, or 2i and 2i + 1. A complex number
        is a pair in itself.
    rotary_dim : int, optional
        Number of features that are rotated, the first ones, positive and even; all
        where it is None. The others stay as they are. A complex number counts for two.
    feature_axis : int, default 0
        Axis of the features in `x`.
    inverse : bool, default False
        Turn back instead.
    out : array, optional
        Where to write the result: an array as `x` is, or `x` itself, which is then
        rotated in place. JAX and dask have no arrays that can be written to.

    Returns
    -------
    array
        Shape, dtype and order in memory of `x`, or `out`. Half precision is rotated in
        float32.

    Raises
    ------
    TypeError
        If an argument is not an array of floating-point numbers, the arrays come from
        different libraries, or `out` has another dtype or cannot be written to.
    ValueError
        If `feature_axis` is out of range, `layout` is unknown, `cos` and `sin` do not
        fit, or `out` has another shape or is read-only.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    A quarter turn takes the first half of the features to the second:

    >>> import numpy as np
    >>> x = np.asarray([[1.0, 2.0], [0.0, 0.0]])
    >>> apply_rope(x, np.zeros((1, 2)), np.ones((1, 2)))
    array([[0., 0.],
           [1., 2.]])

    Tables of all positions, as other libraries keep them, are gathered by position:

    >>> table = np.arange(20.0).reshape(10, 2)  # (max_position, rotary_dim / 2)
    >>> ids = np.asarray([[0, 1, 2], [5, 6, 7]])  # (batch, seq)
    >>> x = np.ones((2, 3, 4))  # (batch, seq, head)
    >>> apply_rope(x, np.cos(table)[ids], np.sin(table)[ids], feature_axis=-1).shape
    (2, 3, 4)

    In place:

    >>> apply_rope(x, np.cos(table)[ids], np.sin(table)[ids], feature_axis=-1, out=x) is x
    True
    """
    xp = namespace_of(x=x, cos=cos, sin=sin, **present(out=out))
    _checks.floating(xp, x=x)
    _checks.real_floating(xp, cos=cos, sin=sin)
    _checks.choice("layout", layout, LAYOUTS)
    inverse = _checks.boolean("inverse", inverse)
    axis = _axes.axis_of("feature_axis", feature_axis, x.ndim)
    pairs = _pairs_to_turn(x, axis, rotary_dim)
    _checks.output(out, x)
    dtype = compute_dtype(x.dtype, xp)
    cosine = xp.astype(_lined_up("cos", cos, x, axis, pairs), dtype, copy=False)
    sine = xp.astype(_lined_up("sin", sin, x, axis, pairs), dtype, copy=False)
    if any(map(_checks.differ, cosine.shape, sine.shape)):
        cosine, sine = xp.broadcast_arrays(cosine, sine)
    return rotated(x, cosine, -sine if inverse else sine, axis, layout, xp, out=out)


def _check_even(x: Array, axis: int) -> None:
    if x.shape[axis] % 2:
        message = f"`x` must have an even length on axis {axis}, got shape {tuple(x.shape)}."
        raise ValueError(message)


def _check_negatable(x: Array) -> None:
    name = dtype_name(x.dtype)
    if name.startswith(("bool", "uint", "datetime64", "object", "str", "bytes")):
        message = f"`x` must have a dtype with negative numbers, got {name}."
        raise TypeError(message)


def _pairs_to_turn(x: Array, axis: int, rotary_dim: int | None) -> int:
    """Return the number of pairs that are rotated."""
    features = _axes.length(x, axis) * (2 if is_complex(x.dtype) else 1)
    if rotary_dim is None:
        if not is_complex(x.dtype):
            _check_even(x, axis)
        return features // 2
    rotary_dim = _checks.positive_integer("rotary_dim", rotary_dim, even=True)
    if rotary_dim > features:
        came = shown(rotary_dim)
        message = f"`rotary_dim` must be at most {features}, the features of `x`, got {came}."
        raise ValueError(message)
    return rotary_dim // 2


def _lined_up(name: str, table: Any, x: Array, axis: int, pairs: int) -> Any:
    """Give a table the axes that it lacks, on the side away from the features."""
    lacking = (None,) * (x.ndim - table.ndim)
    if lacking and sum(n != 1 for n in table.shape) > 2:
        # Which axis of `x` the third one belongs to would be a guess.
        message = (
            f"`{name}` must have at most 2 axes that are not 1, or all {x.ndim} of `x`, got shape "
            f"{tuple(table.shape)}; insert axes of 1 where it is repeated, as {name}[:, None]."
        )
        raise ValueError(message)
    lined_up = table
    if lacking and table.ndim > 0 and axis == 0:
        lined_up = table[(..., *lacking)]
    elif lacking and table.ndim > 0 and axis == x.ndim - 1:
        lined_up = table[(*lacking, ...)]
    shape = (*x.shape[:axis], pairs, *x.shape[axis + 1 :])
    meaning = f"as `x`, with {pairs} pairs on axis {axis}"
    _checks.broadcasts(name, tuple(lined_up.shape), shape, meaning, tuple(table.shape))
    if lined_up.shape[axis] != pairs:
        message = f"`{name}` must have length {pairs} on axis {axis}, got {tuple(table.shape)}."
        raise ValueError(message)
    return lined_up
