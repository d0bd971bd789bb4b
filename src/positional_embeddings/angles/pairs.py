"""Pairs of features: slices of a layout, and splitting and joining along an axis."""

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.namespace import Array, Namespace


def pair_slices(pairs: int, layout: str) -> tuple[slice, slice]:
    """Return slices of the first and of the second features of the first pairs."""
    if layout == "half":
        return slice(0, pairs), slice(pairs, 2 * pairs)
    return slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)


def split_pairs(x: Array, axis: int, layout: str, pairs: int) -> tuple[Array, Array]:
    """Return the first and the second features of the first pairs."""
    before = (slice(None),) * axis
    first, second = pair_slices(pairs, layout)
    return x[(*before, first, ...)], x[(*before, second, ...)]


def join_pairs(first: Array, second: Array, axis: int, layout: str, xp: Namespace) -> Array:
    """Join the first and the second features of all pairs, the inverse of `split_pairs`."""
    half, is_half = first.shape[axis], layout == "half"
    is_static = all(map(checks.is_static, first.shape))
    if is_static and (is_half or 0 in first.shape):
        return xp.concat([first, second], axis=axis)
    if is_static:
        shape = (*first.shape[:axis], 2 * half, *first.shape[axis + 1 :])
        return xp.reshape(xp.stack([first, second], axis=axis + 1), shape)
    # dask can neither concatenate nor reshape arrays of unknown lengths.
    pairs = xp.asarray([i % half if is_half else i // 2 for i in range(2 * half)])
    is_first = xp.asarray([i < half if is_half else i % 2 == 0 for i in range(2 * half)])
    is_first = is_first[(..., *(None,) * (first.ndim - axis - 1))]
    return xp.where(is_first, xp.take(first, pairs, axis=axis), xp.take(second, pairs, axis=axis))
