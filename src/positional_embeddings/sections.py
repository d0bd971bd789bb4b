"""Rotary embeddings of positions with several coordinates."""

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

from positional_embeddings import _checks
from positional_embeddings._namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    check_real_dtype,
    default_float,
    default_integer,
    device_of,
    float_dtype,
    is_dtype,
    is_real_floating,
    namespace_of,
    namespace_or_numpy,
    shown,
    widest_float,
)
from positional_embeddings.frequencies import Turns, turns

SectionFrequencies = Literal["shared", "restart"]
SectionOrder = Literal["contiguous", "strided"]
SECTION_FREQUENCIES = ("shared", "restart")
SECTION_ORDERS = ("contiguous", "strided")
_FARTHEST = 2**60


def grid_positions(
    shape: Sequence[int],
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    """Return the coordinates of the points of a grid, row by row.

    Parameters
    ----------
    shape : sequence of int
        Number of points along each coordinate, positive; at most 2**48 in all.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Integer or real dtype of the result, the library's default integer where it is
        None.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (len(shape), prod(shape))
        The coordinates, the last one running fastest, as the patches of an image are
        numbered: positions for a `RoPE` with as many `sections`.

    Raises
    ------
    TypeError
        If `shape` is not a sequence of integers.
    ValueError
        If it is empty, or one of its numbers is not positive.

    Examples
    --------
    >>> grid_positions((2, 3))
    array([[0, 0, 0, 1, 1, 1],
           [0, 1, 2, 0, 1, 2]])
    """
    shape = shape.tolist() if hasattr(shape, "tolist") else shape
    if not isinstance(shape, list | tuple):
        message = f"`shape` must be a list or tuple of integers, got {shown(shape)}."
        raise TypeError(message)
    sizes = [_checks.positive_integer("shape", n) for n in shape]
    if not sizes:
        message = "`shape` must have one coordinate or more, got ()."
        raise ValueError(message)
    _checks.positive_integer("prod(shape)", prod(sizes), most=_checks.MOST_IN_MEMORY)
    xp = namespace_or_numpy(xp)
    if dtype is not None:
        check_real_dtype(dtype, "an integer or real dtype", xp, "integral")
        if is_dtype(dtype, "integral", xp) and max(sizes) - 1 > xp.iinfo(dtype).max:
            message = f"`dtype` must hold the coordinates to {max(sizes) - 1}, got {dtype}."
            raise ValueError(message)
    point = xp.arange(prod(sizes), dtype=default_integer(xp, device), device=device)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(xp.remainder(point, size))
        point = xp.floor_divide(point, size)
    stacked = xp.stack(coordinates[::-1], axis=0)
    return stacked if dtype is None else xp.astype(stacked, dtype)


def xpos_scale(
    positions: Array,
    /,
    dim: int,
    *,
    scale_base: float = 512,
    center: float = 0.0,
    gamma: float = 0.4,
    dtype: Dtype | None = None,
) -> Any:
    r"""Return the factors by which xPos lets rotated scores fall with the distance.

    Queries are multiplied by them and keys divided, with one `center` for both. They
    multiply cosine and sine: ``apply_rope(q, cos * scale, sin * scale)`` and
    ``apply_rope(k, cos / scale, sin / scale)``.

    Parameters
    ----------
    positions : array
        Integer or real positions of any shape.
    dim : int
        Number of rotated features, positive and even, at most 2**20.
    scale_base : float, default 512
        Number of positions after which a pair falls by its whole factor, positive.
    center : float, default 0.0
        Position of factor 1. Half of the sequence keeps numbers small.
    gamma : float, default 0.4
        What keeps the first pair from falling to zero, positive.
    dtype : dtype, optional
        Real floating-point dtype of the result; where it is None, that of real positions,
        or the library's default for integer ones.

    Returns
    -------
    array, shape (dim / 2, *positions.shape)
        :math:`\left(\frac{2i/d + \gamma}{1 + \gamma}\right)^{(p - c)/s}`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is out of range.

    References
    ----------
    Sun et al. (2023), A Length-Extrapolatable Transformer, section 2.2 and algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> xpos_scale(np.asarray([0, 512]), 4).round(3)
    array([[1.   , 0.286],
           [1.   , 0.643]])
    """
    xp = namespace_of(positions=positions)
    _checks.real("positions", positions, xp)
    dim = _checks.feature_count("dim", dim, even=True)
    scale_base = _checks.positive_number("scale_base", scale_base)
    gamma = _checks.positive_number("gamma", gamma)
    center = _checks.finite_number("center", center)
    on = device_of(positions)
    default = positions.dtype if is_real_floating(positions.dtype, xp) else default_float(xp, on)
    dtype = float_dtype(dtype, default, xp, on)
    work = widest_float(xp, on)
    zetas = [(2 * i / dim + gamma) / (1 + gamma) for i in range(dim // 2)]
    zeta = xp.asarray(zetas, dtype=work, device=on)[(slice(None), *(None,) * positions.ndim)]
    power = (xp.astype(positions, work, copy=False) - center) / scale_base
    return xp.astype(zeta ** power[None, ...], dtype, copy=False)


def shift_number(delta: Any) -> float:
    """Return a number of positions to shift by; a whole one as an int, which is exact."""
    number = _checks.finite_number("delta", delta)
    if number == int(number):
        number = int(number)
    if abs(number) > _FARTHEST:
        message = f"`delta` must be within 2**60 positions, got {shown(number)}."
        raise ValueError(message)
    return number


def checked_sections(sections: Any, rotary_dim: int) -> tuple[int, ...] | None:
    """Return the number of pairs of each coordinate."""
    if sections is None:
        return None
    sections = sections.tolist() if hasattr(sections, "tolist") else sections
    if not isinstance(sections, list | tuple):
        message = f"`sections` must be a list or tuple of integers, got {shown(sections)}."
        raise TypeError(message)
    pairs = tuple(_checks.positive_integer("sections", n) for n in sections)
    if sum(pairs) != rotary_dim // 2:
        message = (
            f"`sections` must add up to {rotary_dim // 2}, half of the rotated features, "
            f"got {pairs}."
        )
        raise ValueError(message)
    return pairs


def pairs_of_sections(sections: Sequence[int], order: str) -> tuple[tuple[int, ...], ...]:
    """Return which pairs each coordinate turns."""
    if order == "contiguous":
        starts = [sum(sections[:c]) for c in range(len(sections))]
        return tuple(tuple(range(s, s + n)) for s, n in zip(starts, sections, strict=True))
    count, total = len(sections), sum(sections)
    others = [tuple(range(c, sections[c] * count, count)) for c in range(1, count)]
    taken = {pair for pairs in others for pair in pairs}
    if max(taken, default=0) >= total:
        message = (
            "`sections` must have as many pairs for the first coordinate as for any other in "
            f"strided order, got {tuple(sections)}."
        )
        raise ValueError(message)
    return (tuple(pair for pair in range(total) if pair not in taken), *others)


def restarting_turns(sections: Sequence[int], order: str, base: float, scale: float) -> Turns:
    """Return frequencies of which each coordinate has a full range of its own."""
    pairs = pairs_of_sections(sections, order)
    return Turns.joined([turns(2 * n, base, scale) for n in sections], pairs)
