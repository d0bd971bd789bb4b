"""Relative positions of queries and keys."""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    Namespace,
    compute_dtype,
    default_float,
    default_integer,
    device_of,
    float_dtype,
    is_real_floating,
    namespace_of,
)
from positional_embeddings._core.positions import both_positions


def relative_positions(query_positions: ArrayT, key_positions: Array, /) -> ArrayT:
    """Return the position of each key as seen from each query.

    Parameters
    ----------
    query_positions : array, shape (query,) or (query, batch)
        Integer or real positions of the queries.
    key_positions : array, shape (key,) or (key, batch)
        Integer or real positions of the keys.

    Returns
    -------
    array, shape (query, key) or (query, key, batch)
        Key minus query. Integers come as the library's default integer, so that
        unsigned ones do not wrap; half precision as float32.

    Raises
    ------
    TypeError
        If an argument is not an array of numbers, or they come from different
        libraries.
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> relative_positions(np.arange(2, 4), np.arange(4))
    array([[-2, -1,  0,  1],
           [-3, -2, -1,  0]])
    """
    xp = namespace_of(query_positions=query_positions, key_positions=key_positions)
    query, key = (
        _signed(name, array, xp)
        for name, array in (("query_positions", query_positions), ("key_positions", key_positions))
    )
    if query.ndim != key.ndim or (
        query.ndim == 2 and not checks.shapes_broadcast([query.shape[1:], key.shape[1:]])
    ):
        raise wrong_value(
            "key_positions",
            "have shape (key,), or (key, batch) with the batch of `query_positions` "
            f"{tuple(query.shape)}",
            tuple(key.shape),
        )
    real = [a.dtype for a in (query, key) if is_real_floating(a.dtype, xp)]
    if real:
        dtype = xp.result_type(*(compute_dtype(kind, xp) for kind in real))
        query, key = (xp.astype(a, dtype, copy=False) for a in (query, key))
    relative: ArrayT = key[None, ...] - query[:, None, ...]
    return relative


def distances(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    like: Array | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the relative positions of lengths or of positions, beside the array `like`."""
    query, key = both_positions(
        q_len, k_len, offset, query_positions, key_positions, like, xp=xp, device=device
    )
    return relative_positions(query, key)


def _signed(name: str, array: Any, xp: Namespace) -> Any:
    """Check positions, and return integers as ones that may be negative."""
    checks.real(name, array, xp)
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    if is_real_floating(array.dtype, xp):
        return array
    return xp.astype(array, default_integer(xp, device_of(array)), copy=False)


def in_real_dtype(relative: Any, dtype: Dtype | None) -> tuple[Namespace, Any, Dtype]:
    """Return the namespace, relative positions in the dtype to compute in, and that to return."""
    xp = namespace_of(relative=relative)
    on = device_of(relative)
    dtype = float_dtype(dtype, default_float(xp, on), xp, on)
    return xp, xp.astype(relative, compute_dtype(dtype, xp), copy=False), dtype


def by_key(relative: Any) -> Any:
    """From (query, key, ...) to (query, key, 1, ...)."""
    return relative[:, :, None, ...]


def by_head(numbers: Any, ndim: int) -> Any:
    """From (heads,) to (heads, 1, ...), with the axes that follow query and key."""
    return numbers[(slice(None), *(None,) * (ndim - 2))]


def _check_parameters(parameters: dict[str, Any], shapes: dict[str, tuple[str, ...]]) -> None:
    """Check that parameters are real and agree in the lengths that share a name."""
    xp = namespace_of(**parameters)
    checks.real_floating(xp, **parameters)
    lengths: dict[str, int] = {}
    for name, array in parameters.items():
        shape, wanted = tuple(array.shape), shapes[name]
        if len(shape) != len(wanted) or any(
            lengths.get(axis, n) != n for axis, n in zip(wanted, shape, strict=True)
        ):
            known = (f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in wanted)
            raise wrong_value(name, f"have shape ({', '.join(known)})", shape)
        lengths.update(zip(wanted, shape, strict=True))


def _features_third(array: Any, xp: Namespace) -> Any:
    """Move the last axis next to those of query and key."""
    return xp.permute_dims(array, (0, 1, 3, 2)) if array.ndim == 4 else array
