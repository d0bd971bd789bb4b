"""A bias from a function of positions."""

from dataclasses import dataclass

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.biases.bias import Bias


@dataclass(frozen=True, eq=False)
class FunctionBias(Bias):
    """A bias from a function of positions.

    A value: a call gives the array, and an attention evaluates it block by block, at the positions
    of its queries and keys, wherever these are in memory.

    Parameters
    ----------
    function : callable
        Gets positions of queries, (n, 1), and of keys, (1, m), in the library of the arrays it is
        used with, integers in an attention, and returns the bias between them, real
        floating-point, (n, m) for all heads alike or (n, m, num_heads), with 1 where it
        broadcasts. Where an attention has positions of several sequences, it gets (n, 1, batch)
        and (1, m, batch), and returns (n, m, batch) or (n, m, batch, num_heads). Beside a
        `ListMask` it gets each of n queries as a sequence, (1, 1, n), with its m keys, (1, m, n).
    num_heads : int, default 1
        Number of heads that the function tells apart, positive.

    Raises
    ------
    TypeError
        If `function` is not a function, or `num_heads` not an integer; if it does not return a
        real floating-point array, when used.
    ValueError
        If `num_heads` is not positive; if the function returns another shape, when used.

    See Also
    --------
    FunctionMask : A mask from a function of positions.

    References
    ----------
    Dong et al. (2024), Flex Attention, whose `score_mod` is a function of indices.

    Examples
    --------
    A penalty for the distance, capped at 2:

    >>> import numpy as np
    >>> near = FunctionBias(lambda q_pos, k_pos: -np.minimum(abs(q_pos - k_pos), 2.0))
    >>> near(1, 4)[0, :, 0]
    array([-2., -2., -1., -0.])
    """

    function: checks.PositionFunction
    num_heads: checks.FeatureCount = 1

    _is_relative = False

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        name, positions = "function(q_pos, k_pos)", (query[:, None, ...], key[None, ...])
        with backend.without_chunk_warnings():
            bias = self.function(*positions)
        xp = get_backend(q_pos=query, **{name: bias}).xp
        checks.real_floating(xp, **{name: bias})
        pairs = xp.broadcast_arrays(*positions)[0].shape
        shape, target = tuple(bias.shape), (*pairs, self.num_heads)
        bias = bias[..., None] if bias.ndim == len(pairs) else bias
        if bias.ndim != len(target) or not all(map(checks.broadcasts_to, bias.shape, target)):
            requirement = f"{tuple(pairs)} or {target} (`num_heads`), with 1 where it broadcasts"
            raise wrong_value(name, f"have shape {requirement}", shape)
        return xp.broadcast_to(bias, target)
