"""KERPLE: a logarithmic or power bias with learned parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from positional_embeddings._core import checks
from positional_embeddings._core.namespace import Array, namespace_of
from positional_embeddings._core.positions import resolve_positions
from positional_embeddings._core.weights import array_field
from positional_embeddings.relative.positions import (
    FunctionBias,
    by_head,
    check_parameters,
    real_relative_positions,
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
    q_len, k_len, offset : int, optional
        Numbers of queries and keys, and position of the first query among the keys. If None,
        there are as many keys as queries, and the last query is at the last key.
    query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
        Positions instead of lengths, integer or real; keys have those of the queries if None.
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
        If a number is not positive, shapes do not fit, or both lengths and positions are given.

    References
    ----------
    Chi et al. (2022), KERPLE, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> kerple_bias(np.asarray([1.0]), np.asarray([2.0]), 1, 3, variant="power")[0, :, 0]
    array([-4., -1., -0.])
    """
    xp, query, key = resolve_positions(
        q_len, k_len, offset, query_positions, key_positions, r1=r1, r2=r2
    )
    check_parameters({"r1": ("heads",), "r2": ("heads",)}, xp, r1=r1, r2=r2)
    checks.choice("variant", variant, ("logarithmic", "power"))
    relative, dtype = real_relative_positions(query, key, r1.dtype, xp)
    distance = xp.abs(relative)[:, :, None, ...]
    scale, shape = (by_head(xp.astype(r, distance.dtype, copy=False), distance) for r in (r1, r2))
    kernel = xp.log1p(shape * distance) if variant == "logarithmic" else distance**shape
    return xp.astype(-scale * kernel, dtype, copy=False)


@dataclass(frozen=True, eq=False)
class KERPLEBias(FunctionBias):
    r"""The bias of KERPLE as a value, which an attention evaluates block by block.

    Parameters
    ----------
    r1, r2 : array, shape (heads,)
        Real floating-point and positive; `r2` at most 2 in the variant "power".
    variant : {"logarithmic", "power"}, default "logarithmic"
        :math:`-r_1 \ln(1 + r_2 d)` or :math:`-r_1 d^{r_2}` at distance d.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If the arrays do not have one axis of the same length.

    See Also
    --------
    kerple_bias : The bias as an array, and what its options are.

    Examples
    --------
    >>> import numpy as np
    >>> KERPLEBias(np.asarray([1.0]), np.asarray([2.0]), "power")(1, 3)[0, :, 0]
    array([-4., -1., -0.])
    """

    r1: Any = array_field()
    r2: Any = array_field()
    variant: Annotated[Variant, checks.one_of(Variant)] = "logarithmic"

    def __post_init__(self) -> None:
        self.check_fields()
        xp = namespace_of(r1=self.r1, r2=self.r2)
        check_parameters({"r1": ("heads",), "r2": ("heads",)}, xp, r1=self.r1, r2=self.r2)

    def _function(self) -> Callable[..., Any]:
        return partial(kerple_bias, self.r1, self.r2, variant=self.variant)

    def _heads(self) -> int:
        return int(self.r1.shape[0])
