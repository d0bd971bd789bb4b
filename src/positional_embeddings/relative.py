"""Relative positions: distances of queries and keys, and the buckets of T5.

A relative position is key minus query: negative for keys that lie before.
"""

from typing import Any

from positional_embeddings import _checks
from positional_embeddings._axes import query_and_key_positions
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Device,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    is_real_floating,
    namespace_of,
    namespace_or_numpy,
    present,
)


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
        query.ndim == 2 and not _checks.shapes_broadcast([query.shape[1:], key.shape[1:]])
    ):
        message = (
            "`key_positions` must have shape (key,), or (key, batch) with the batch of "
            f"`query_positions` {tuple(query.shape)}, got {tuple(key.shape)}."
        )
        raise ValueError(message)
    real = [a.dtype for a in (query, key) if is_real_floating(a.dtype, xp)]
    if real:
        dtype = xp.result_type(*(compute_dtype(kind, xp) for kind in real))
        query, key = (xp.astype(a, dtype, copy=False) for a in (query, key))
    relative: ArrayT = key[None, ...] - query[:, None, ...]
    return relative


def relative_position_bucket(
    relative_position: ArrayT,
    /,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> ArrayT:
    r"""Return the bucket of T5 for each relative position.

    Half of the buckets hold one distance each, the others ranges that grow with the
    distance. Their limits are exact integers, so that the rounding of a logarithm
    moves no bucket.

    Parameters
    ----------
    relative_position : array of int
        Key minus query, of any shape.
    bidirectional : bool, default True
        Use the upper half of the buckets for keys behind the query. Otherwise all
        of these fall into bucket 0, with the query's own position.
    num_buckets : int, default 32
        Number of buckets; with `bidirectional` even and 4 or more, else 2 or more.
    max_distance : int, default 128
        Distance from which on all share the last bucket; above half of the buckets of
        a direction.

    Returns
    -------
    array of int
        Shape of `relative_position`, from 0 to `num_buckets` - 1.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `num_buckets` or `max_distance` is too small.

    References
    ----------
    Raffel et al. (2020), T5, section 2.1: beyond e exact buckets of n, distance d falls into
    :math:`e + \lfloor (n - e)\,\ln(d/e) / \ln(\mathrm{max\_distance}/e) \rfloor`.

    Examples
    --------
    >>> import numpy as np
    >>> relative_position_bucket(np.asarray([-200, -64, -8, -1, 0, 1, 64]))
    array([15, 14,  8,  1,  0, 17, 30])
    """
    xp = namespace_of(relative_position=relative_position)
    _checks.signed_integers("relative_position", relative_position, xp)
    limits, per_direction = bucket_limits(bidirectional, num_buckets, max_distance)
    dtype = default_integer(xp, device_of(relative_position))
    # Nothing changes beyond the largest distance, and the lowest integer has no absolute value.
    wide = xp.astype(relative_position, dtype, copy=False)
    position = xp.clip(wide, -max_distance, max_distance)
    zero = xp.zeros_like(position)
    distance = xp.abs(position) if bidirectional else xp.maximum(-position, zero)
    bucket = zero
    for limit in limits:
        bucket = bucket + xp.astype(distance >= limit, dtype)
    if bidirectional:
        bucket = bucket + per_direction * xp.astype(position > 0, dtype)
    found: ArrayT = bucket
    return found


def bucket_limits(
    bidirectional: bool,  # noqa: FBT001 - checked here
    num_buckets: int,
    max_distance: int,
) -> tuple[list[int], int]:
    """Return the least distance of each bucket after the first, and their number."""
    bidirectional = _checks.boolean("bidirectional", bidirectional)
    num_buckets = _checks.positive_integer("num_buckets", num_buckets, even=bidirectional)
    per_direction = num_buckets // 2 if bidirectional else num_buckets
    if per_direction < 2:
        message = f"`num_buckets` must be {4 if bidirectional else 2} or more, got {num_buckets}."
        raise ValueError(message)
    exact = per_direction // 2
    max_distance = _checks.positive_integer("max_distance", max_distance)
    if max_distance <= exact:
        message = f"`max_distance` must be above {exact}, half of the buckets, got {max_distance}."
        raise ValueError(message)
    wide = per_direction - exact
    limits = list(range(1, exact + 1))
    for step in range(1, wide):
        # The least d with (d / exact) ** wide >= (max_distance / exact) ** step.
        least = exact
        while least**wide < exact ** (wide - step) * max_distance**step:
            least += 1
        limits.append(least)
    return limits, per_direction


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


def both_positions(
    q_len: int | None,
    k_len: int | None,
    offset: int | None,
    query_positions: Array | None,
    key_positions: Array | None,
    like: Array | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> tuple[Any, Any]:
    """Return the positions of queries and keys from what a caller gave of them."""
    if query_positions is not None:
        for name, value in (("q_len", q_len), ("k_len", k_len), ("offset", offset)):
            if value is not None:
                message = f"`{name}` must be left out with `query_positions`, got {value}."
                raise ValueError(message)
        if like is None and (xp is not None or device is not None):
            message = "`xp` and `device` must be left out with `query_positions`."
            raise TypeError(message)
        key = query_positions if key_positions is None else key_positions
        namespace_of(query_positions=query_positions, key_positions=key, **present(like=like))
        return query_positions, key
    if key_positions is not None:
        message = "`query_positions` must be given with `key_positions`, got None."
        raise TypeError(message)
    if q_len is None:
        message = "`q_len` or `query_positions` must be given, got neither."
        raise TypeError(message)
    if like is not None:
        xp, device = namespace_of(like=like), device_of(like)
    xp = namespace_or_numpy(xp)
    return query_and_key_positions(("q_len", q_len), ("k_len", k_len), offset, xp, device)


def _signed(name: str, array: Any, xp: Namespace) -> Any:
    """Check positions, and return integers as ones that may be negative."""
    _checks.real(name, array, xp)
    if array.ndim not in (1, 2):
        message = f"`{name}` must have shape (seq,) or (seq, batch), got {tuple(array.shape)}."
        raise ValueError(message)
    if is_real_floating(array.dtype, xp):
        return array
    return xp.astype(array, default_integer(xp, device_of(array)), copy=False)
