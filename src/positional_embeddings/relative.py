"""Relative positions: distances of queries and keys, and the buckets of T5.

A relative position is key minus query: negative for keys that lie before.
"""

from functools import lru_cache
from math import prod
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._axes import query_and_key_positions
from positional_embeddings._memory import search_sorted
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Device,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    is_dask_array,
    is_real_floating,
    namespace_of,
    namespace_or_numpy,
    present,
)

# The limits of more take seconds to find: they are compared as exact powers.
_MOST_BUCKETS = 1024


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
        Use the upper half of the buckets for keys after the query. Otherwise all
        of these fall into bucket 0, with the query's own position.
    num_buckets : int, default 32
        Number of buckets, at most 1024; with `bidirectional` even and 4 or more, else
        2 or more.
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
        If `num_buckets` or `max_distance` is too small, or `num_buckets` too large.

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
    num_buckets, max_distance = check_buckets(bidirectional, num_buckets, max_distance)
    index, buckets = bucket_index(
        relative_position,
        xp,
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    bucket: ArrayT = index
    if buckets is not None:
        bucket = xp.reshape(xp.take(buckets, xp.reshape(index, (-1,))), index.shape)
    return bucket


def check_buckets(
    bidirectional: bool,  # noqa: FBT001 - checked here
    num_buckets: int,
    max_distance: int,
) -> tuple[int, int]:
    """Check the options of the buckets of T5, and return both numbers."""
    bidirectional = _checks.boolean("bidirectional", bidirectional)
    num_buckets = _checks.positive_integer("num_buckets", num_buckets, even=bidirectional)
    least = 4 if bidirectional else 2
    if num_buckets < least:
        message = f"`num_buckets` must be {least} or more, got {num_buckets}."
        raise ValueError(message)
    if num_buckets > _MOST_BUCKETS:
        message = f"`num_buckets` must be at most {_MOST_BUCKETS}, got {num_buckets}."
        raise ValueError(message)
    exact = num_buckets // least
    max_distance = _checks.positive_integer("max_distance", max_distance)
    if max_distance <= exact:
        message = f"`max_distance` must be above {exact}, half of the buckets, got {max_distance}."
        raise ValueError(message)
    return num_buckets, max_distance


def bucket_index(
    relative: Any, xp: Namespace, *, bidirectional: bool, num_buckets: int, max_distance: int
) -> tuple[Any, Any | None]:
    """Return where to look up each relative position, and the buckets that lie there.

    These are the buckets of the few distances that differ, for one gather. They are None
    where that does not pay, and the first array holds the buckets themselves.
    """
    limits = bucket_limits(num_buckets // 2 if bidirectional else num_buckets, max_distance)
    on = device_of(relative)
    dtype = default_integer(xp, on)
    relative = xp.astype(relative, dtype, copy=False)
    last = limits[-1]
    if is_dask_array(relative) or prod(relative.shape) <= 2 * last + 1:
        return _buckets(relative, limits, xp, bidirectional=bidirectional), None
    few = xp.arange(-last, last + 1, dtype=dtype, device=on)
    buckets = _buckets(few, limits, xp, bidirectional=bidirectional)
    return xp.clip(relative, -last, last) + last, buckets


def _buckets(relative: Any, limits: tuple[int, ...], xp: Namespace, *, bidirectional: bool) -> Any:
    """Return the bucket of each relative position, by a search among the ends of buckets."""
    info, on = xp.iinfo(relative.dtype), device_of(relative)
    # What no number of the dtype reaches, or all do, tells nothing apart.
    before = [1 - limit for limit in reversed(limits) if 1 - limit >= info.min]
    after = [limit for limit in limits if bidirectional and limit <= info.max]
    starts = xp.asarray([*before, *after], dtype=relative.dtype, device=on)
    from_query = search_sorted(starts, relative, xp, side="right") - len(before)
    return xp.where(from_query > 0, from_query + len(limits) + 1, -from_query)


@lru_cache(maxsize=64)
def bucket_limits(per_direction: int, max_distance: int) -> tuple[int, ...]:
    """Return the least distance of each bucket of a direction after the first.

    From the bucket e = `per_direction` // 2 on, it is the least integer d with
    (d / e) ** wide >= (max_distance / e) ** step, for step 1, 2, ...
    """
    exact = per_direction // 2
    wide = per_direction - exact
    limits = list(range(1, exact + 1))
    for step in range(1, wide):
        power = exact ** (wide - step) * max_distance**step
        # No integer of an array is as large as 2**64.
        low, high = limits[-1], min(max_distance, 2**64)
        while low < high:
            middle = (low + high) // 2
            if middle**wide < power:
                low = middle + 1
            else:
                high = middle
        limits.append(low)
    return tuple(limits)


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
