"""Sandwich: a bias by products of sinusoidal encodings."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import on_given_device, without_autocast
from positional_embeddings._core.checks import FeatureCount, PositiveNumber
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    device_of,
    widest_float,
)
from positional_embeddings._core.positions import resolve_positions
from positional_embeddings.absolute.sinusoidal import sinusoidal_encoding
from positional_embeddings.relative.positions import FunctionBias, by_head, real_relative_positions


@on_given_device
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
    r"""Return the bias of Sandwich: inner products of sinusoidal encodings.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    q_len, k_len, offset : int, optional
        Numbers of queries and keys, and position of the first query among the keys. If None,
        there are as many keys as queries, and the last query is at the last key.
    query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
        Positions instead of lengths, integer or real; keys have those of the queries if None.
    dim : int, default 128
        Number of features of the encoding, positive and even, at most 2**20.
    base : float, default 10_000
        Base of its frequencies, positive.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (its default if None) and device of the result;
        `xp` and `device` only without positions.

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
        If a number is not positive, shapes do not fit, or both lengths and positions are given.

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
    xp, query, key = resolve_positions(
        q_len,
        k_len,
        offset,
        query_positions,
        key_positions,
        xp=xp,
        device=device,
        numbers=num_heads,
    )
    relative, dtype = real_relative_positions(query, key, dtype, xp)
    on = device_of(relative)
    wide = widest_float(xp, on)
    batch = relative.ndim == 3
    rows = (2, 1, 0) if batch else (1, 0)  # (batch, seq, dim) or (seq, dim)
    of_query, of_key = (
        xp.permute_dims(sinusoidal_encoding(positions, dim, base=base, dtype=wide), rows)
        for positions in (query, key)
    )
    with without_autocast(of_query):
        product = of_query @ xp.matrix_transpose(of_key)
    product = (xp.permute_dims(product, (1, 2, 0)) if batch else product)[:, :, None, ...]
    ratios = [num_heads / (8 * h) for h in range(1, num_heads + 1)]
    heads = xp.asarray(ratios, dtype=wide, device=on)
    return xp.astype(by_head(heads, product) * product, dtype, copy=False)


@dataclass(frozen=True)
class SandwichBias(FunctionBias):
    """The bias of Sandwich as a value, which an attention evaluates block by block.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    dim : int, default 128
        Number of features of the encoding, positive and even, at most 2**20.
    base : float, default 10_000
        Base of its frequencies, positive.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, or `dim` is odd.

    See Also
    --------
    sandwich_bias : The bias as an array, and what its options are.

    Examples
    --------
    >>> SandwichBias(8, dim=2)(1, 3)[0, :, 0].round(4)
    array([-0.4161,  0.5403,  1.    ])
    """

    num_heads: FeatureCount
    _: KW_ONLY
    dim: int = 128
    base: PositiveNumber = 10_000

    def __post_init__(self) -> None:
        self.check_fields()
        checks.set_fields(self, dim=checks.feature_count("dim", self.dim, even=True))

    def _function(self) -> Callable[..., Any]:
        return partial(sandwich_bias, self.num_heads, dim=self.dim, base=self.base)

    def _heads(self) -> int:
        return self.num_heads
