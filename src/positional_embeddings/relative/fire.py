"""The bias of FIRE."""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import is_concretely_true, without_autocast
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import Array, device_of, is_real_number, namespace_of
from positional_embeddings._core.positions import both_positions
from positional_embeddings.relative.positions import (
    _check_parameters,
    in_real_dtype,
    relative_positions,
)


def fire_bias(
    hidden_weight: Array,
    hidden_bias: Array,
    output_weight: Array,
    output_bias: Array,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    query_positions: Array | None = None,
    key_positions: Array | None = None,
    c: float | Array,
    threshold: float | Array,
) -> Any:
    r"""Return the bias of FIRE from the parameters of its small network.

    Parameters
    ----------
    hidden_weight, hidden_bias : array, shape (hidden,)
        First layer of the network, real floating-point.
    output_weight : array, shape (heads, hidden)
        Second layer of the network.
    output_bias : array, shape (heads,)
        Its bias.
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
    c : float or 0-d array
        How the logarithm compresses distances, positive.
    threshold : float or 0-d array
        Query position below which distances are divided by a constant, positive.

    Returns
    -------
    array, shape (query, key, heads) or (query, key, heads, batch)
        In the library and the dtype of `hidden_weight`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, shapes do not fit, or both lengths and positions
        are given.

    References
    ----------
    Li et al. (2024), Functional Interpolation for Relative Positions, equation 5:
    :math:`f(\psi(|i-j|) / \psi(\max(L, i)))` with :math:`\psi(x) = \ln(c x + 1)` and a
    network f of one hidden layer with rectifiers.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> bias = fire_bias(one, 0 * one, -np.ones((2, 1)), np.zeros(2), 4, c=0.1, threshold=16.0)
    >>> bias.shape, float(bias[0, 0, 0])
    ((4, 4, 2), 0.0)
    """
    parameters = {
        "hidden_weight": hidden_weight,
        "hidden_bias": hidden_bias,
        "output_weight": output_weight,
        "output_bias": output_bias,
    }
    namespace_of(**parameters)
    shapes = {
        "hidden_weight": ("hidden",),
        "hidden_bias": ("hidden",),
        "output_weight": ("heads", "hidden"),
        "output_bias": ("heads",),
    }
    _check_parameters(parameters, shapes)
    query, key = both_positions(q_len, k_len, offset, query_positions, key_positions, hidden_weight)
    xp, distance, dtype = in_real_dtype(relative_positions(query, key), hidden_weight.dtype)
    work, on = distance.dtype, device_of(distance)
    w1, b1, w2, b2 = (xp.astype(array, work, copy=False) for array in parameters.values())
    slope, limit = (
        xp.asarray(_number_or_array(name, value), dtype=work, device=on)
        for name, value in (("c", c), ("threshold", threshold))
    )
    start = xp.maximum(xp.astype(query, work, copy=False), limit)[:, None, ...]
    ratio = xp.log1p(slope * xp.abs(distance)) / xp.log1p(slope * start)
    hidden = ratio[..., None] * w1 + b1
    hidden = xp.maximum(hidden, xp.zeros_like(hidden))
    with without_autocast(hidden):
        bias = xp.astype(hidden @ xp.matrix_transpose(w2) + b2, dtype, copy=False)
    return xp.permute_dims(bias, (0, 1, 3, 2)) if bias.ndim == 4 else bias


def _number_or_array(name: str, value: Any) -> Any:
    """Return a positive number, or a learned one, which may be traced."""
    if is_real_number(value) or getattr(value, "shape", None) != ():
        return checks.positive_number(name, value)
    checks.real(name, value, namespace_of(**{name: value}))
    if is_concretely_true(value <= 0):
        raise wrong_value(name, "be a positive finite number", float(value))
    return value
