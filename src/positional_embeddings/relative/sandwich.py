"""The bias of Sandwich."""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import without_autocast
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    device_of,
    widest_float,
)
from positional_embeddings._core.positions import both_positions
from positional_embeddings.absolute.sinusoidal import sinusoidal_encoding
from positional_embeddings.relative.positions import (
    by_head,
    by_key,
    in_real_dtype,
    relative_positions,
)


def sandwich_bias(
    num_heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    query_positions: Array | None = None,
    key_positions: Array | None = None,
    dim: int = 128,
    base: float = 10_000,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the bias of Sandwich: scalar products of sinusoidal encodings.

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
    dim : int, default 128
        Number of features of the encoding, positive and even, at most 2**20.
    base : float, default 10_000
        Base of its frequencies, positive.
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
        :math:`\frac{n}{8h} \sum_i \cos((i_q - i_k)\,\theta_i)` for the heads
        h = 1, ..., n, with dim / 2 frequencies.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, shapes do not fit, or both lengths and positions
        are given.

    References
    ----------
    Chi et al. (2023), Dissecting Transformer Length Extrapolation via the Lens of
    Receptive Field Analysis, section 5.

    Examples
    --------
    >>> sandwich_bias(8, 1, 3, dim=2)[0, :, 0].round(4)
    array([-0.4161,  0.5403,  1.    ])
    """
    num_heads = checks.feature_count("num_heads", num_heads)
    dim = checks.feature_count("dim", dim, even=True)
    query, key = both_positions(
        q_len, k_len, offset, query_positions, key_positions, xp=xp, device=device
    )
    xp, relative, dtype = in_real_dtype(relative_positions(query, key), dtype)
    wide = widest_float(xp, device_of(relative))
    codes = [
        sinusoidal_encoding(positions, dim, base=base, dtype=wide) for positions in (query, key)
    ]
    of_query, of_key = (xp.permute_dims(code, (*range(2, code.ndim), 1, 0)) for code in codes)
    with without_autocast(of_query):
        product = of_query @ xp.matrix_transpose(of_key)
    product = xp.permute_dims(
        product, (product.ndim - 2, product.ndim - 1, *range(product.ndim - 2))
    )
    ratios = [num_heads / (8 * h) for h in range(1, num_heads + 1)]
    heads = xp.asarray(ratios, dtype=wide, device=device_of(relative))
    return xp.astype(by_head(heads, relative.ndim) * by_key(product), dtype, copy=False)
