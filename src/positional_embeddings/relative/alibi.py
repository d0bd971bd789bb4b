"""The linear bias of ALiBi."""

from math import floor, log2
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    default_float,
    device_of,
    float_dtype,
    namespace_or_numpy,
)
from positional_embeddings.relative.positions import by_head, by_key, distances, in_real_dtype


def alibi_slopes(
    num_heads: int,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the slopes of ALiBi.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20. Where it is no power of two, the
        slopes of the next lower power come first, then every other one of twice that
        power.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of the result, the library's default where it is None.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (num_heads,)
        :math:`2^{-8h/n}` for the heads h = 1, ..., n.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `num_heads` is not positive.

    References
    ----------
    Press et al. (2022), Train Short, Test Long, section 3, and its published code for
    other numbers of heads.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    num_heads = checks.feature_count("num_heads", num_heads)
    xp = namespace_or_numpy(xp)
    dtype = float_dtype(dtype, default_float(xp, device), xp, device)
    power = 2 ** floor(log2(num_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power + 1, 2)]
    return xp.asarray((slopes + between)[:num_heads], dtype=dtype, device=device)


def alibi_bias(
    num_heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    query_positions: Array | None = None,
    key_positions: Array | None = None,
    causal: bool = True,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    """Return the linear bias of ALiBi.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    q_len : int, optional
        Number of queries, positive. Left out where `query_positions` are given.
    k_len : int, optional
        Number of keys, positive; as many as queries where it is None.
    offset : int, optional
        Position of the first query among the keys, ``k_len - q_len`` where it is
        None: the last query stands at the last key.
    query_positions : array, shape (query,) or (query, batch), optional
        Integer or real positions of the queries.
    key_positions : array, shape (key,) or (key, batch), optional
        Integer or real positions of the keys, those of the queries where it is None.
    causal : bool, default True
        Slope times (key - query), for use under a causal mask: the keys after a
        query, which the mask hides, get a positive bias. Otherwise minus slope times
        the distance, the same on both sides.
    xp : namespace, optional
        Array library of the result where no positions are given, NumPy where it is
        None.
    dtype : dtype, optional
        Real floating-point dtype of the result, the library's default where it is None.
    device : device, optional
        Device of the result where no positions are given.

    Returns
    -------
    array, shape (query, key, heads) or (query, key, heads, batch)
        Zero at the query's own position, lower for keys farther before it.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, shapes do not fit, or both lengths and positions
        are given.

    References
    ----------
    Press et al. (2022), Train Short, Test Long, section 3.

    Examples
    --------
    >>> alibi_bias(4, 3)[:, :, 0]
    array([[ 0.  ,  0.25,  0.5 ],
           [-0.25,  0.  ,  0.25],
           [-0.5 , -0.25,  0.  ]])
    """
    causal = checks.boolean("causal", causal)
    relative = distances(q_len, k_len, offset, query_positions, key_positions, xp=xp, device=device)
    xp, relative, dtype = in_real_dtype(relative, dtype)
    slopes = alibi_slopes(num_heads, xp=xp, dtype=relative.dtype, device=device_of(relative))
    bias = by_head(slopes, relative.ndim) * by_key(relative if causal else -xp.abs(relative))
    return xp.astype(bias, dtype, copy=False)
