"""KERPLE: a logarithmic or power bias with learned parameters."""

from dataclasses import dataclass
from typing import Annotated, Literal

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import array_field
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.biases import bias

Variant = Literal["logarithmic", "power"]


@dataclass(frozen=True, eq=False)
class KERPLEBias(bias.Bias):
    r"""The bias of KERPLE, with two parameters for each head.

    Immutable: a call returns the array, and attention evaluates the bias block by block.

    Parameters
    ----------
    r1, r2 : array, shape (heads,)
        Positive parameters, real floating-point; `r2` at most 2 with variant "power".
    variant : {"logarithmic", "power"}, default "logarithmic"
        Formula at distance d: :math:`-r_1 \ln(1 + r_2 d)` or :math:`-r_1 d^{r_2}`.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If the arrays do not have one axis of the same length.

    References
    ----------
    Chi et al. (2022), KERPLE, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> KERPLEBias(np.asarray([1.0]), np.asarray([2.0]), "power")(1, 3)[0, :, 0]
    array([-4., -1., -0.])
    """

    r1: Array = array_field()
    r2: Array = array_field()
    variant: Annotated[Variant, checks.one_of(Variant)] = "logarithmic"

    def __post_init__(self) -> None:
        self._check_fields()
        xp, heads = get_backend(r1=self.r1, r2=self.r2).xp, ("heads",)
        bias.check_parameters(xp, {"r1": heads, "r2": heads}, **self._arrays())

    def _heads(self) -> int:
        return int(self.r1.shape[0])

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        relative = bias.real_relative_positions(query, key, backend)
        distance = backend.xp.abs(relative)[..., None]
        r1, r2 = (backend.astype(r, distance.dtype) for r in (self.r1, self.r2))
        if self.variant == "logarithmic":
            return -r1 * backend.xp.log1p(r2 * distance)
        return -r1 * distance**r2
