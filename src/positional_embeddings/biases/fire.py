"""FIRE: a bias from a small learned network of normalized distances."""

from dataclasses import KW_ONLY, dataclass

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.biases import bias

_SHAPES = {
    "hidden_weight": ("hidden",),
    "hidden_bias": ("hidden",),
    "output_weight": ("heads", "hidden"),
    "output_bias": ("heads",),
}


@dataclass(frozen=True, eq=False)
class FIREBias(bias.Bias):
    r"""The bias of FIRE, a small network of normalized distances.

    Immutable: a call returns the array, and attention evaluates the bias block by block.

    Parameters
    ----------
    hidden_weight, hidden_bias : array, shape (hidden,)
        First layer of the network, real floating-point.
    output_weight : array, shape (heads, hidden)
        Weight of the second layer.
    output_bias : array, shape (heads,)
        Bias of the second layer.
    c : float or 0-d array
        Factor on distances in the logarithm, positive.
    threshold : float or 0-d array
        Query position L below which distances are divided by a constant, positive.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If the shapes of the arrays do not match, or a number is not positive.

    References
    ----------
    Li et al. (2024), Functional Interpolation for Relative Positions, equation 5:
    :math:`f(\psi(|i-j|) / \psi(\max(L, i)))` with :math:`\psi(x) = \ln(c x + 1)` and a
    network f with one hidden ReLU layer.

    Examples
    --------
    >>> import numpy as np
    >>> weight = -np.ones((2, 1))
    >>> bias = FIREBias(np.ones(1), np.zeros(1), weight, np.zeros(2), c=0.1, threshold=16.0)
    >>> bias(4).shape, float(bias(4)[0, 0, 0])
    ((4, 4, 2), 0.0)
    """

    hidden_weight: Array = array_field()
    hidden_bias: Array = array_field()
    output_weight: Array = array_field()
    output_bias: Array = array_field()
    _: KW_ONLY
    c: float | Array = array_field()
    threshold: float | Array = array_field()

    _is_relative = False

    def __post_init__(self) -> None:
        arrays = self._arrays()
        bias.check_parameters(get_backend(**arrays).xp, _SHAPES, **arrays)
        for name in ("c", "threshold"):
            value = getattr(self, name)
            if namespace.is_real_number(value) or getattr(value, "shape", None) != ():
                checks.set_fields(self, **{name: checks.positive_number(name, value)})
                continue
            backend = get_backend(**{name: value})
            checks.real(name, value, backend.xp)
            if backend.concrete_bool(value <= 0):
                raise wrong_value(name, "be a positive finite number", float(value))

    def _arrays(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in _SHAPES}

    def _heads(self) -> int:
        return int(self.output_bias.shape[0])

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        relative = bias.real_relative_positions(query, key, backend)
        xp, dtype = backend.xp, backend.dtype
        w1, b1, w2, b2 = (backend.astype(a, dtype) for a in self._arrays().values())
        c, threshold = (_as_array(number, backend) for number in (self.c, self.threshold))
        normalizer = xp.maximum(backend.astype(query, dtype), threshold)[:, None, ...]
        ratio = xp.log1p(c * xp.abs(relative)) / xp.log1p(c * normalizer)
        hidden = ratio[..., None] * w1 + b1
        hidden = xp.maximum(hidden, xp.zeros_like(hidden))
        return hidden @ xp.matrix_transpose(w2) + b2


def _as_array(value: float | Array, backend: Backend) -> Array:
    xp, dtype, device = backend.xp, backend.dtype, backend.device
    # Before PyTorch 2.13, `asarray` of a parameter has no gradient.
    if hasattr(value, "shape") and backend.records_gradients:
        return xp.astype(value, dtype, copy=False, device=device)
    return xp.asarray(value, dtype=dtype, device=device)
