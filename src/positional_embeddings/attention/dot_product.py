"""Reference attention, on arrays of any library and layout."""

from math import prod, sqrt
from typing import Any, Literal, overload

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import without_autocast
from positional_embeddings._core.errors import wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Namespace,
    compute_dtype,
    dtype_name,
    namespace_of,
)
from positional_embeddings.attention.online_softmax import (
    AttentionInputs,
    attend,
    attend_in_blocks,
    fit_at_once,
)
from positional_embeddings.attention.score_axes import (
    ScoreFunction,
    ScoreLayout,
    arrays_among,
    check_kind,
    per_block,
)


@overload
def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | ScoreFunction | None = None,
    bias: Array | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    return_weights: Literal[False] = False,
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> ArrayT: ...


@overload
def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | ScoreFunction | None = None,
    bias: Array | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    return_weights: Literal[True],
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> tuple[ArrayT, ArrayT]: ...


@overload
def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | ScoreFunction | None = None,
    bias: Array | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    return_weights: bool,
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> ArrayT | tuple[ArrayT, ArrayT]: ...


def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | ScoreFunction | None = None,
    bias: Array | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    return_weights: bool = False,
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> ArrayT | tuple[ArrayT, ArrayT]:
    r"""Return for each query the mean of the values, weighted by the softmax of the scores.

    Scores, weights, `mask` and `bias` carry the queries and the keys on the two axes
    that hold features and sequence in `q`, in ascending order: (query, key, ...) by
    default, (..., query, key) with ``feature_axis=-1, seq_axis=-2``.

    Parameters
    ----------
    q : array, shape (head, q_len, ...)
        Queries, real floating-point.
    k : array, shape (head, k_len, ...)
        Keys, of the dtype of `q`. Every further axis is as long as in `q`, or one of
        them is 1.
    v : array, shape (v_head, k_len, ...)
        Values, of the dtype of `q` and the further axes of `k`.
    mask : array of bool or function, optional
        True where a query may not attend to a key, with 1 where it broadcasts; of the
        axes of queries and keys alone, or of all axes of the scores. A query that may
        attend to nothing gets zeros. What stands in keys and values that a query may
        not attend to does not reach its output, NaN and infinity included. A function
        ``mask(q_idx, k_idx)`` is given the indices of some queries, (n, 1), and of some
        keys, (1, m), and returns the mask between them. Both count from 0, whatever the
        positions: after p cached keys, query i stands at the key of index i + p.
    bias : array or function, optional
        Real floating-point, added to the scores, with 1 where it broadcasts. Minus
        infinity hides a key as `mask` does. A function is asked as that of `mask` is.
    scale : float, optional
        Factor on the scores, positive, ``1 / sqrt(head)`` where it is None.
    softcap : float, optional
        Bounds the scores, positive: ``softcap * tanh(scores / softcap)``, before bias
        and mask.
    block_size : int, optional
        Compute the scores of so many queries and so many keys at a time, positive, and
        never have all of them in memory. Where it is None, and the library can write to
        an array, the number of scores decides: few are computed at once.
    enable_gqa : bool, default False
        Grouped queries: one further axis of `k` and `v` may be a divisor of that of
        `q`; query head h then reads key head ``h // group``. That axis must be of heads
        alone: split a merged ``heads * batch`` axis before.
    return_weights : bool, default False
        Return the weights too.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `q`, `k` and `v`.

    Returns
    -------
    output : array, shape (v_head, q_len, ...)
        Dtype of `q`. Half precision is computed in float32.
    weights : array, shape (q_len, k_len, ...)
        Only with `return_weights`. They add up to 1 over the keys, or to 0 for a
        query that is masked everywhere.

    Raises
    ------
    TypeError
        If an array is of the wrong kind or dtype, the arrays come from different
        libraries, or an option is of the wrong kind.
    ValueError
        If shapes do not fit, `scale`, `softcap` or `block_size` is not positive, or
        there is a `block_size` with `return_weights`, which needs all weights at once.

    Notes
    -----
    In blocks the softmax is that of Milakov and Gimelshein (2018): sums of powers are
    counted from the highest score so far, and shrink when it rises. Blocks that a mask
    hides are passed over, and functions are asked block by block, so that no mask has
    to exist whole. Libraries that trace, such as JAX, get all blocks one after another,
    none passed over.

    With threadpoolctl (extra ``fast``) NumPy works on as many blocks at a time as its
    BLAS has threads, and sets BLAS to one thread meanwhile, for the whole process.
    Several threads then ask a function at the same time.

    Where a query does attend to a key that is not finite, its output is NaN; to a value
    that is not finite, that value is in its output, unless its weight rounds to 0.
    (Without mask and bias the plain formula decides, in which such a value with a weight
    of 0 gives NaN, and a score of minus infinity has no weight; where all of a query are
    minus infinity, it gets zeros.)

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, equation 1:
    :math:`\mathrm{softmax}(QK^T/\sqrt{d})\,V`. Milakov and Gimelshein (2018), Online
    normalizer calculation for softmax, algorithm 3.

    Examples
    --------
    A query that matches the first key three times as well as the second:

    >>> import numpy as np
    >>> q, k = np.ones((1, 1)), np.log([[3.0, 1.0]])
    >>> v = np.asarray([[0.0, 8.0]])
    >>> output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    >>> weights.round(2), output.round(2)
    (array([[0.75, 0.25]]), array([[2.]]))
    >>> scaled_dot_product_attention(q, k, v, mask=np.asarray([[True, False]]))
    array([[8.]])

    A causal mask over 4,096 positions, of which no more than a block ever exists:

    >>> x = np.ones((2, 4096))
    >>> later = scaled_dot_product_attention(x, x, x, mask=lambda q_idx, k_idx: k_idx > q_idx)
    >>> later.shape
    (2, 4096)
    """
    given = {"mask": mask, "bias": bias}
    arrays = arrays_among(**given)
    xp = namespace_of(q=q, k=k, v=v, **arrays)
    _check_dtypes(q, k, v, xp)
    for name, array in arrays.items():
        check_kind(name, name, array, xp)
    enable_gqa = checks.boolean("enable_gqa", enable_gqa)
    return_weights = checks.boolean("return_weights", return_weights)
    feature, seq = axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    layout = _layout(q, k, v, feature, seq, enable_gqa=enable_gqa)
    if scale is None:
        scale = 1 / sqrt(max(axes.length(q, feature, "q"), 1))
    scale = checks.positive_number("scale", scale)
    softcap = None if softcap is None else checks.positive_number("softcap", softcap)
    if block_size is not None:
        block_size = _block_size(block_size, q, k, return_weights=return_weights)

    hidden, added = (
        None if array is None else per_block(name, array, layout, q, xp)
        for name, array in given.items()
    )
    query, key, value = (layout.by_row(array, xp) for array in (q, k, v))
    problem = AttentionInputs(
        query,
        key,
        value,
        hidden,
        added,
        scale,
        softcap,
        compute_dtype(q.dtype, xp),
    )
    scores = prod((*layout.rows, q.shape[seq], k.shape[seq]))
    at_once = block_size is None and fit_at_once(problem, scores)
    with without_autocast(q):
        if return_weights or at_once or 0 in (scores, v.shape[feature]):
            output, weights = attend(problem, xp)
        else:
            output, weights = attend_in_blocks(problem, layout.rows, block_size, xp), None
    output = xp.astype(layout.output(output, xp), q.dtype, copy=False)
    if not return_weights:
        return output  # type: ignore[no-any-return]
    return output, xp.astype(layout.weights(weights, xp), q.dtype, copy=False)


def _check_dtypes(q: Any, k: Any, v: Any, xp: Namespace) -> None:
    checks.real_floating(xp, q=q, k=k, v=v)
    for name, array in (("k", k), ("v", v)):
        if dtype_name(array.dtype) != dtype_name(q.dtype):
            raise wrong_type(
                name, f"have the dtype of `q`, {dtype_name(q.dtype)}", dtype_name(array.dtype)
            )


def _layout(q: Any, k: Any, v: Any, feature: int, seq: int, *, enable_gqa: bool) -> ScoreLayout:
    """Check the shapes, and return where everything lies."""
    for name, array in (("k", k), ("v", v)):
        if array.ndim != q.ndim:
            raise wrong_value(
                name, f"have as many axes as `q`, {q.ndim}", f"shape {tuple(array.shape)}"
            )
    if checks.differ(k.shape[feature], q.shape[feature]):
        raise wrong_value(
            "k",
            f"have the features of `q`, {q.shape[feature]} on axis {feature}",
            f"shape {tuple(k.shape)}",
        )
    if any(
        checks.differ(k.shape[axis], v.shape[axis]) for axis in range(k.ndim) if axis != feature
    ):
        raise wrong_value(
            "v",
            f"have the shape of `k` but for its features on axis {feature}",
            f"{tuple(v.shape)} beside {tuple(k.shape)}",
        )
    shape = list(q.shape)
    key_heads, head_axis = None, None
    grouped = [
        axis
        for axis in range(q.ndim)
        if axis not in (feature, seq) and checks.differ(k.shape[axis], q.shape[axis])
    ]
    shared = [axis for axis in grouped if 1 not in (q.shape[axis], k.shape[axis])]
    for axis in grouped:
        n, m = q.shape[axis], k.shape[axis]
        divides = enable_gqa and axis in shared and len(shared) == 1 and m > 0 and n % m == 0
        if not (1 in (n, m) or divides):
            hint = (
                ", or a divisor of it on one axis only"
                if enable_gqa
                else " (or a divisor of it with enable_gqa=True)"
            )
            raise wrong_value(
                "k",
                f"have length {n} or 1 on axis {axis} as `q` has{hint}",
                f"shape {tuple(k.shape)}",
            )
        shape[axis] = n if divides or m == 1 else m
        if divides:
            key_heads, head_axis = m, axis
    return ScoreLayout(tuple(shape), k.shape[seq], feature, seq, key_heads, head_axis)


def _block_size(block_size: int, q: Any, k: Any, *, return_weights: bool) -> int:
    """Check that there can be blocks of this size."""
    size = checks.positive_integer("block_size", block_size)
    if return_weights:
        raise wrong_value(
            "block_size", "be None with return_weights=True, which needs all weights at once", size
        )
    for name, array in (("q", q), ("k", k)):
        for axis in range(array.ndim):
            axes.length(array, axis, name)
    return size
