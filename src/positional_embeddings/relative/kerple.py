"""The bias of KERPLE."""

from typing import Any, Literal

from positional_embeddings._core import checks
from positional_embeddings._core.namespace import Array, namespace_of
from positional_embeddings.relative.positions import (
    _check_parameters,
    by_head,
    by_key,
    distances,
    in_real_dtype,
)

Variant = Literal["logarithmic", "power"]


def kerple_bias(
    r1: Array,
    r2: Array,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    query_positions: Array | None = None,
    key_positions: Array | None = None,
    variant: Variant = "logarithmic",
) -> Any:
    r"""Return the bias of KERPLE from its two parameters of each head.

    Parameters
    ----------
    r1, r2 : array, shape (heads,)
        Real floating-point and positive; `r2` at most 2 in the variant "power".
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
    variant : {"logarithmic", "power"}, default "logarithmic"
        :math:`-r_1 \ln(1 + r_2 d)` or :math:`-r_1 d^{r_2}` at distance d.

    Returns
    -------
    array, shape (query, key, heads) or (query, key, heads, batch)
        In the library and the dtype of `r1`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, shapes do not fit, or both lengths and positions
        are given.

    References
    ----------
    Chi et al. (2022), KERPLE, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> kerple_bias(np.asarray([1.0]), np.asarray([2.0]), 1, 3, variant="power")[0, :, 0]
    array([-4., -1., -0.])
    """
    namespace_of(r1=r1, r2=r2)
    _check_parameters({"r1": r1, "r2": r2}, {"r1": ("heads",), "r2": ("heads",)})
    checks.choice("variant", variant, ("logarithmic", "power"))
    relative = distances(q_len, k_len, offset, query_positions, key_positions, r1)
    xp, relative, dtype = in_real_dtype(relative, r1.dtype)
    distance = by_key(xp.abs(relative))
    first, second = (
        by_head(xp.astype(r, relative.dtype, copy=False), relative.ndim) for r in (r1, r2)
    )
    if variant == "logarithmic":
        bias = -first * xp.log1p(second * distance)
    else:
        bias = -first * distance**second
    return xp.astype(bias, dtype, copy=False)
