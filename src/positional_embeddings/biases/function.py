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

    Immutable: a call returns the array, and attention evaluates the bias block by block.

    Parameters
    ----------
    function : callable
        Takes positions of queries, (n, 1), and of keys, (1, m), as arrays of the library of the
        call, integers in an attention. Returns a real floating-point array, (n, m) for all heads
        or (n, m, num_heads), with 1 where it broadcasts. If the positions in an attention differ
        between sequences, it takes (n, 1, batch) and (1, m, batch), and returns (n, m, batch) or
        (n, m, batch, num_heads). With a `ListMask`, the n queries are a batch: it takes (1, 1, n),
        and their m keys, (1, m, n).
    num_heads : int, default 1
        Number of heads in the result of the function, positive.

    Raises
    ------
    TypeError
        If `function` is not a function, or `num_heads` not an integer; if, in a call, the result
        is not a real floating-point array.
    ValueError
        If `num_heads` is not positive; if, in a call, the result has another shape.

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
    >>> bias = FunctionBias(lambda q_pos, k_pos: -np.minimum(abs(q_pos - k_pos), 2.0))
    >>> bias(1, 4)[0, :, 0]
    array([-2., -2., -1., -0.])
    """

    function: checks.PositionFunction
    num_heads: checks.FeatureCount = 1

    _is_relative, _calls_function = False, True

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
