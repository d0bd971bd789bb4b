"""FIRE: a bias by a small learned network of normalized distances."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import (
    is_concretely_true,
    records_gradients,
    without_autocast,
)
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    device_of,
    is_real_number,
    namespace_of,
)
from positional_embeddings._core.positions import resolve_positions
from positional_embeddings._core.weights import array_field
from positional_embeddings.relative.positions import (
    FunctionBias,
    check_parameters,
    heads_on_axis_2,
    real_relative_positions,
)

_SHAPES = {
    "hidden_weight": ("hidden",),
    "hidden_bias": ("hidden",),
    "output_weight": ("heads", "hidden"),
    "output_bias": ("heads",),
}


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
    q_len, k_len, offset : int, optional
        Numbers of queries and keys, and position of the first query among the keys. If None,
        there are as many keys as queries, and the last query is at the last key.
    query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
        Positions instead of lengths, integer or real; keys have those of the queries if None.
    c : float or 0-d array
        How strongly the logarithm compresses distances, positive.
    threshold : float or 0-d array
        Query position L below which distances are divided by a constant, positive.

    Returns
    -------
    array, shape (query, key, heads) or (query, key, heads, batch)
        In the library and the dtype of `hidden_weight`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a number is not positive, shapes do not fit, or both lengths and positions are given.

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
    arrays = (hidden_weight, hidden_bias, output_weight, output_bias)
    parameters: dict[str, Any] = dict(zip(_SHAPES, arrays, strict=True))
    xp, query, key = resolve_positions(
        q_len, k_len, offset, query_positions, key_positions, **parameters
    )
    check_parameters(_SHAPES, xp, **parameters)
    relative, dtype = real_relative_positions(query, key, hidden_weight.dtype, xp)
    work, on = relative.dtype, device_of(relative)
    w1, b1, w2, b2 = (xp.astype(array, work, copy=False) for array in arrays)
    slope, limit = (
        _as_array(_number_or_array(name, value), work, on, xp)
        for name, value in (("c", c), ("threshold", threshold))
    )
    start = xp.maximum(xp.astype(query, work, copy=False), limit)[:, None, ...]
    ratio = xp.log1p(slope * xp.abs(relative)) / xp.log1p(slope * start)
    hidden = ratio[..., None] * w1 + b1
    hidden = xp.maximum(hidden, xp.zeros_like(hidden))
    with without_autocast(hidden):
        bias = xp.astype(hidden @ xp.matrix_transpose(w2) + b2, dtype, copy=False)
    return heads_on_axis_2(bias, xp)


@dataclass(frozen=True, eq=False)
class FIREBias(FunctionBias):
    """The bias of FIRE as a value, which an attention evaluates block by block.

    Parameters
    ----------
    hidden_weight, hidden_bias : array, shape (hidden,)
        First layer of the network, real floating-point.
    output_weight : array, shape (heads, hidden)
        Second layer of the network.
    output_bias : array, shape (heads,)
        Its bias.
    c : float or 0-d array
        How strongly the logarithm compresses distances, positive.
    threshold : float or 0-d array
        Query position L below which distances are divided by a constant, positive.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If the shapes of the arrays do not fit, or a number is not positive.

    See Also
    --------
    fire_bias : The bias as an array, and what its options are.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> bias = FIREBias(one, 0 * one, -np.ones((2, 1)), np.zeros(2), c=0.1, threshold=16.0)
    >>> bias(4).shape
    (4, 4, 2)
    """

    hidden_weight: Any = array_field()
    hidden_bias: Any = array_field()
    output_weight: Any = array_field()
    output_bias: Any = array_field()
    _: KW_ONLY
    c: Any = array_field()
    threshold: Any = array_field()

    def __post_init__(self) -> None:
        parameters = self._parameters()
        check_parameters(_SHAPES, namespace_of(**parameters), **parameters)
        for name in ("c", "threshold"):
            checks.set_fields(self, **{name: _number_or_array(name, getattr(self, name))})

    def _function(self) -> Callable[..., Any]:
        numbers = {"c": self.c, "threshold": self.threshold}
        return partial(fire_bias, *self._parameters().values(), **numbers)

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SHAPES}

    def _heads(self) -> int:
        return int(self.output_bias.shape[0])

    def _arrays(self) -> dict[str, Any]:
        return self._parameters()


def _number_or_array(name: str, value: Any) -> Any:
    """Return a positive number, or a learned one, which may be traced."""
    if is_real_number(value) or getattr(value, "shape", None) != ():
        return checks.positive_number(name, value)
    checks.real(name, value, namespace_of(**{name: value}))
    if is_concretely_true(value <= 0):
        raise wrong_value(name, "be a positive finite number", float(value))
    return value


def _as_array(value: Any, dtype: Dtype, on: Device, xp: Namespace) -> Any:
    # What `asarray` of PyTorch makes of a parameter has no gradient before its release 2.13.
    if records_gradients(value):
        return xp.astype(value, dtype, copy=False, device=on)
    return xp.asarray(value, dtype=dtype, device=on)
