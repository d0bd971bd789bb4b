"""ALiBi: a bias linear in the relative position."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import floor, log2
from typing import Annotated, Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import cached_constant, constant_array
from positional_embeddings.arrays.dispatch import backend_for
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Device, Dtype, Namespace
from positional_embeddings.biases import bias


def alibi_slopes(
    num_heads: int,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the slope of each head in ALiBi.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20. For n between the powers of two p and 2p, the
        result is the p slopes of p heads, then every other slope of 2p heads.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (its default if None) and device of the result.

    Returns
    -------
    array, shape (num_heads,)
        :math:`2^{-8h/n}` for the heads h = 1, ..., n.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If `num_heads` is not positive.

    References
    ----------
    Press et al. (2022), Train Short, Test Long, section 3, and the authors' code for numbers of
    heads that are no powers of two.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    num_heads = checks.feature_count("num_heads", num_heads)
    backend = backend_for(xp, device)
    dtype = checks.float_dtype(dtype, backend.dtype, backend)
    return backend.xp.asarray(_slopes(num_heads), dtype=dtype, device=device)


def alibi_bias(
    num_heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    query_positions: AnyArray | None = None,
    key_positions: AnyArray | None = None,
    causal: bool = True,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    """Return the linear bias of ALiBi as an array, the result of calling `ALiBiBias`.

    Parameters
    ----------
    num_heads : int
        Number of heads, positive, at most 2**20.
    q_len, k_len, offset : int, optional
        Numbers of queries and keys, and position of the first query among the keys. If None,
        `k_len` equals `q_len`, and the last query is at the last key.
    query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
        Integer or real positions instead of lengths. If `key_positions` is None, it equals
        `query_positions`.
    causal : bool, default True
        See `ALiBiBias`.
    xp, dtype, device : optional
        Array library (NumPy if None), real dtype (its default if None) and device of the result;
        `xp` and `device` only without positions.

    Returns
    -------
    array, shape (query, key, heads) or (query, key, heads, batch)
        The bias of each pair and head.

    Raises
    ------
    TypeError, ValueError
        The errors of `ALiBiBias`, and of its call.

    Examples
    --------
    >>> bool((alibi_bias(4, 3) == ALiBiBias(4)(3)).all())
    True
    """
    options: dict[str, Any] = {"xp": xp, "dtype": dtype, "device": device}
    options |= {"query_positions": query_positions, "key_positions": key_positions}
    return ALiBiBias(num_heads, causal)(q_len, k_len, offset=offset, **options)


@dataclass(frozen=True)
class ALiBiBias(bias.Bias):
    """The linear bias of ALiBi: zero at the position of the query, lower at earlier keys.

    Without a causal mask, as in an encoder, pass ``causal=False``: by default the bias grows
    towards later keys. Immutable: a call returns the array, and attention evaluates the bias block
    by block.

    Parameters
    ----------
    num_heads : int, optional
        Number of heads, positive, at most 2**20; the number of `slopes` if None.
    causal : bool, default True
        If True, slope times (key - query), for use with a causal mask: the bias is positive for
        keys after the query. If False, minus slope times the distance.
    slopes : sequence of float, optional
        Slope of each head, finite; `alibi_slopes(num_heads)` if None.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If `num_heads` is not positive, or not the number of slopes; if both are None.

    References
    ----------
    Press et al. (2022), Train Short, Test Long, section 3.

    Examples
    --------
    >>> ALiBiBias(4)(3)[:, :, 0]
    array([[ 0.  ,  0.25,  0.5 ],
           [-0.25,  0.  ,  0.25],
           [-0.5 , -0.25,  0.  ]])
    >>> ALiBiBias(slopes=[1.0, 0.5])(2)[1]
    array([[-1. , -0.5],
           [ 0. ,  0. ]])
    """

    num_heads: Annotated[int, checks.optional(checks.feature_count)] = None  # type: ignore[assignment]
    causal: Annotated[bool, checks.boolean] = True
    _: KW_ONLY
    slopes: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._check_fields()
        if self.slopes is None:
            if self.num_heads is None:
                raise wrong_value("num_heads", "be given, or `slopes`", "None")
            return
        slopes = checks.sequence_of("slopes", self.slopes, checks.finite_number, "numbers")
        count = checks.feature_count("len(slopes)", len(slopes))
        if self.num_heads not in (None, count):
            raise wrong_value("slopes", f"have {self.num_heads} numbers (`num_heads`)", count)
        checks.set_fields(self, num_heads=count, slopes=slopes)

    def _formula(self, query: Array, key: Array, backend: Backend) -> Array:
        relative = bias.real_relative_positions(query, key, backend)
        values = _slopes(self.num_heads) if self.slopes is None else self.slopes
        slopes = constant_array(list, values, dtype=backend.dtype, backend=backend)
        return (relative if self.causal else -backend.xp.abs(relative))[..., None] * slopes


@cached_constant
def _slopes(num_heads: int) -> tuple[float, ...]:
    power = 2 ** floor(log2(num_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2 ** (-4 * h / power) for h in range(1, 2 * (num_heads - power), 2)]
    return tuple(slopes)
