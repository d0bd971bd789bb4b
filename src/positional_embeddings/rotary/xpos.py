"""xPos: factors on rotated queries and keys that make scores decay with distance."""

from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.namespace import AnyArray, Dtype


def xpos_scale(
    positions: AnyArray,
    /,
    dim: int,
    *,
    scale_base: float = 512,
    center: float = 0.0,
    gamma: float = 0.4,
    dtype: Dtype | None = None,
) -> Any:
    r"""Return the factors of xPos, which make scores decay with distance.

    Multiply the rotated queries and divide the rotated keys by the factors, with the same `center`:
    ``apply_rope(q, cos * scale, sin * scale)`` and ``apply_rope(k, cos / scale, sin / scale)``.

    Parameters
    ----------
    positions : array
        Integer or real positions of any shape, with the limits of `sinusoidal_encoding` for half
        precision.
    dim : int
        Number of rotated features, positive and even, at most 2**20.
    scale_base : float, default 512
        Distance :math:`s` over which a pair decays by its base, positive.
    center : float, default 0.0
        Position :math:`c` with the factor 1. The middle of the sequence keeps the factors close
        to 1.
    gamma : float, default 0.4
        Positive offset, so that the base of the first pair is above zero.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real positions, or the
        library's default for integers.

    Returns
    -------
    array, shape (dim / 2, *positions.shape)
        :math:`\left(\frac{2i/d + \gamma}{1 + \gamma}\right)^{(p - c)/s}` of pair i and
        position p.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

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
    backend = get_backend(positions=positions)
    xp, widest = backend.xp, backend.widest_float_dtype
    checks.positions("positions", positions, backend)
    dim = checks.feature_count("dim", dim, even=True)
    scale_base = checks.positive_number("scale_base", scale_base)
    gamma = checks.positive_number("gamma", gamma)
    center = checks.finite_number("center", center)
    dtype = checks.feature_dtype(positions, dtype, backend)
    zetas = [(2 * i / dim + gamma) / (1 + gamma) for i in range(dim // 2)]
    zeta = xp.asarray(zetas, dtype=widest, device=backend.device)
    with backend.compute_context(positions):
        power = (backend.astype(positions, widest) - center) / scale_base
        factors = zeta[(slice(None), *(None,) * positions.ndim)] ** power[None, ...]
        return backend.astype(factors, dtype)
