"""Biases of attention scores from learned parameters: parameters in, bias out.

They come as (query, key, heads), and with a batch of positions as
(query, key, heads, batch).
"""

from typing import Any, Literal

from positional_embeddings import _checks
from positional_embeddings._namespace import (
    Array,
    device_of,
    is_real_number,
    known,
    namespace_of,
    without_autocast,
)
from positional_embeddings.biases import by_head, by_key, in_real_dtype
from positional_embeddings.relative import both_positions, distances, relative_positions

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
    _checks.choice("variant", variant, ("logarithmic", "power"))
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
        return _checks.positive_number(name, value)
    _checks.real(name, value, namespace_of(**{name: value}))
    if known(value <= 0):
        message = f"`{name}` must be a positive finite number, got {float(value)}."
        raise ValueError(message)
    return value


def _check_parameters(parameters: dict[str, Any], shapes: dict[str, tuple[str, ...]]) -> None:
    """Check that parameters are real and agree in the lengths that share a name."""
    xp = namespace_of(**parameters)
    _checks.real_floating(xp, **parameters)
    lengths: dict[str, int] = {}
    for name, array in parameters.items():
        shape, wanted = tuple(array.shape), shapes[name]
        if len(shape) != len(wanted) or any(
            lengths.get(axis, n) != n for axis, n in zip(wanted, shape, strict=True)
        ):
            known = (f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in wanted)
            message = f"`{name}` must have shape ({', '.join(known)}), got {shape}."
            raise ValueError(message)
        lengths.update(zip(wanted, shape, strict=True))
