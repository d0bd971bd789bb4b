"""Sandwich: a bias from inner products of sinusoidal encodings."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.biases.bias import Bias
from positional_embeddings.encodings.sinusoidal import sinusoidal_encoding


@dataclass(frozen=True)
class SandwichBias(Bias):
    r"""The bias of Sandwich: inner products of sinusoidal encodings.

    Immutable: a call returns the array, and attention evaluates the bias block by block. With
    dim / 2 frequencies it is :math:`\frac{n}{8h} \sum_i \cos((i_q - i_k)\,\theta_i)` for the
    heads h = 1, ..., n.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    dim : int, default 128
        Number of features of the encoding, positive and even, at most 2**20.
    base : float, default 10_000
        Base of the frequencies, positive.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If a number is not positive, or `dim` is odd.

    References
    ----------
    Chi et al. (2023), Dissecting Transformer Length Extrapolation via the Lens of
    Receptive Field Analysis, section 5.

    Examples
    --------
    >>> SandwichBias(8, dim=2)(1, 3)[0, :, 0].round(4)
    array([-0.4161,  0.5403,  1.    ])
    """

    num_heads: checks.FeatureCount
    _: KW_ONLY
    dim: Annotated[int, partial(checks.feature_count, even=True)] = 128
    base: checks.PositiveNumber = 10_000

    _is_relative = False

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        xp, dtype = backend.xp, backend.widest_float_dtype
        encode = partial(sinusoidal_encoding, dim=self.dim, base=self.base, dtype=dtype)
        # (seq, dim), or (batch, seq, dim)
        q, k = (xp.permute_dims(e, tuple(range(e.ndim))[::-1]) for e in map(encode, (query, key)))
        product = q @ xp.matrix_transpose(k)
        product = xp.permute_dims(product, (1, 2, 0)) if product.ndim == 3 else product
        ratios = [self.num_heads / (8 * h) for h in range(1, self.num_heads + 1)]
        bias = product[..., None] * xp.asarray(ratios, dtype=dtype, device=backend.device)
        return backend.astype(bias, backend.dtype)
