"""Coordinates of the points of a grid."""

from collections.abc import Sequence
from math import prod
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Device,
    Dtype,
    Namespace,
    check_real_dtype,
    default_integer,
    is_dtype,
    namespace_or_numpy,
)


def grid_positions(
    shape: Sequence[int],
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    """Return the coordinates of the points of a grid, in C order.

    Parameters
    ----------
    shape : sequence of int
        Number of points along each coordinate, positive; at most 2**48 in all.
    xp, dtype, device : optional
        Array library (NumPy if None), integer or real dtype (the library's default integer
        if None) and device of the result.

    Returns
    -------
    array, shape (len(shape), prod(shape))
        The coordinates, the last one changing fastest, as the patches of an image are
        numbered: positions for a `RoPE` with as many `sections`.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not a list or tuple of positive integers, is empty, or has
        coordinates that `dtype` cannot hold.

    Examples
    --------
    >>> grid_positions((2, 3))
    array([[0, 0, 0, 1, 1, 1],
           [0, 1, 2, 0, 1, 2]])
    """
    shape = shape.tolist() if hasattr(shape, "tolist") else shape
    if not isinstance(shape, list | tuple):
        raise wrong_type("shape", "be a list or tuple of integers", shown(shape))
    sizes = [checks.positive_integer("shape", n) for n in shape]
    if not sizes:
        raise wrong_value("shape", "have one coordinate or more", "()")
    checks.length_in_memory("prod(shape)", prod(sizes))
    xp = namespace_or_numpy(xp)
    if dtype is not None:
        check_real_dtype(dtype, "an integer or real dtype", xp, "integral")
        if is_dtype(dtype, "integral", xp) and max(sizes) - 1 > xp.iinfo(dtype).max:
            raise wrong_value("dtype", f"hold the coordinates to {max(sizes) - 1}", dtype)
    point = xp.arange(prod(sizes), dtype=default_integer(xp, device), device=device)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(xp.remainder(point, size))
        point = xp.floor_divide(point, size)
    stacked = xp.stack(coordinates[::-1], axis=0)
    return stacked if dtype is None else xp.astype(stacked, dtype)
