"""Reference attention, on arrays of any library and layout."""

from math import sqrt
from typing import Any, Literal, overload

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Namespace,
    compute_dtype,
    device_of,
    dtype_name,
    known,
    namespace_of,
    present,
)
from positional_embeddings.mask_tools import check_mask


@overload
def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
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
    mask: Array | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
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
    mask: Array | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
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
    mask: Array | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
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
    mask : array of bool, optional
        True where a query may not attend to a key, with 1 where it broadcasts; of the
        axes of queries and keys alone, or of all axes of the scores. A query that may
        attend to nothing gets zeros. What stands in keys and values that a query may
        not attend to does not reach its output, NaN and infinity included.
    bias : array, optional
        Real floating-point, added to the scores, with 1 where it broadcasts. Minus
        infinity hides a key as `mask` does.
    scale : float, optional
        Factor on the scores, positive, ``1 / sqrt(head)`` where it is None.
    softcap : float, optional
        Bounds the scores, positive: ``softcap * tanh(scores / softcap)``, before bias
        and mask.
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
        If shapes do not fit, or `scale` or `softcap` is not positive.

    Notes
    -----
    Where a query does attend to a key that is not finite, its output is NaN; to a value
    that is not finite, that value is in its output. (Without mask and bias the plain
    formula decides, in which a key of minus infinity may have no weight.)

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, equation 1:
    :math:`\mathrm{softmax}(QK^T/\sqrt{d})\,V`.

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
    """
    xp = namespace_of(q=q, k=k, v=v, **present(mask=mask, bias=bias))
    _check_dtypes(q, k, v, mask, bias, xp)
    enable_gqa = _checks.boolean("enable_gqa", enable_gqa)
    return_weights = _checks.boolean("return_weights", return_weights)
    feature, seq = _axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    batch = _check_shapes(q, k, v, feature, seq, enable_gqa=enable_gqa)
    if scale is None:
        scale = 1 / sqrt(max(_axes.length(q, feature, "q"), 1))
    scale = _checks.positive_number("scale", scale)
    softcap = None if softcap is None else _checks.positive_number("softcap", softcap)

    score_axes = sorted((feature, seq))
    shape = _score_shape(batch, q.shape[seq], k.shape[seq], score_axes)
    dtype = compute_dtype(q.dtype, xp)
    rows = [axis for axis in range(q.ndim) if axis not in score_axes]
    by_row, by_score = (*rows, seq, feature), (*rows, *score_axes)
    query, key, value = (
        xp.permute_dims(xp.astype(array, dtype, copy=False), by_row) for array in (q, k, v)
    )
    if enable_gqa:
        key, value = _repeated(query, key, xp), _repeated(query, value, xp)
    hidden, added = (
        None
        if array is None
        else xp.permute_dims(_lined_up(name, array, shape, score_axes), by_score)
        for name, array in (("mask", mask), ("bias", bias))
    )
    if added is not None:
        shut = added == -float("inf")
        if dtype == xp.float32 and dtype_name(added.dtype) == "float64":
            # Its large negative numbers are finite, and do not hide a key.
            added = xp.where(shut, added, xp.clip(added, min=xp.finfo(dtype).min))
        added = xp.astype(added, dtype, copy=False)
        hidden = shut if hidden is None else hidden | shut

    output, weights = _attend(query * scale, key, value, hidden, added, softcap, xp)
    output = xp.astype(xp.permute_dims(output, _inverse(by_row)), q.dtype, copy=False)
    if not return_weights:
        return output  # type: ignore[no-any-return]
    return output, xp.astype(xp.permute_dims(weights, _inverse(by_score)), q.dtype, copy=False)


def _attend(
    query: Any, key: Any, value: Any, mask: Any, bias: Any, softcap: float | None, xp: Namespace
) -> tuple[Any, Any]:
    """Attend with axes (..., sequence, feature); returns output and weights."""
    on, dtype = device_of(query), query.dtype
    nan = xp.asarray(float("nan"), dtype=dtype, device=on)
    zero = xp.asarray(0.0, dtype=dtype, device=on)
    minus_infinity = xp.asarray(-float("inf"), dtype=dtype, device=on)

    # 0 * NaN is NaN: numbers that are not finite are taken out of the products, and
    # put back where they are attended to.
    finite_key, finite_value = xp.isfinite(key), xp.isfinite(value)
    guarded = mask is not None and not known(xp.all(finite_key) & xp.all(finite_value))
    clean_key = xp.where(finite_key, key, zero) if guarded else key
    clean_value = xp.where(finite_value, value, zero) if guarded else value

    scores = query @ xp.matrix_transpose(clean_key)
    if guarded:
        scores = xp.where(xp.all(finite_key, axis=-1)[..., None, :], scores, nan)
    if softcap is not None:
        scores = softcap * xp.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = xp.where(mask, minus_infinity, scores)
    weights = _softmax(scores, zero, minus_infinity, xp)
    output = weights @ clean_value
    if guarded:
        rising = weights @ xp.astype(xp.isnan(value) | (value == float("inf")), dtype) > 0
        falling = weights @ xp.astype(xp.isnan(value) | (value == -float("inf")), dtype) > 0
        output = xp.where(rising, -minus_infinity, output)
        output = xp.where(falling, xp.where(rising, nan, minus_infinity), output)
    return output, weights


def _softmax(scores: Any, zero: Any, minus_infinity: Any, xp: Namespace) -> Any:
    """Softmax over the last axis; a row of minus infinity, or of no keys, gives zeros."""
    if scores.shape[-1] == 0:
        return scores
    top = xp.max(scores, axis=-1, keepdims=True)
    top = xp.where(top == minus_infinity, zero, top)
    powers = xp.exp(scores - top)
    total = xp.sum(powers, axis=-1, keepdims=True)
    return powers / xp.where(total == 0, zero + 1, total)


def _check_dtypes(q: Any, k: Any, v: Any, mask: Any, bias: Any, xp: Namespace) -> None:
    _checks.real_floating(xp, q=q, k=k, v=v)
    for name, array in (("k", k), ("v", v)):
        if dtype_name(array.dtype) != dtype_name(q.dtype):
            message = (
                f"`{name}` must have the dtype of `q`, {dtype_name(q.dtype)}, "
                f"got {dtype_name(array.dtype)}."
            )
            raise TypeError(message)
    if mask is not None:
        check_mask("mask", mask, xp)
    if bias is not None:
        _checks.real_floating(xp, bias=bias)


def _check_shapes(q: Any, k: Any, v: Any, feature: int, seq: int, *, enable_gqa: bool) -> list[int]:
    """Check the shapes, and return that of `q` with its further axes broadcast."""
    for name, array in (("k", k), ("v", v)):
        if array.ndim != q.ndim:
            message = (
                f"`{name}` must have as many axes as `q`, {q.ndim}, got shape {tuple(array.shape)}."
            )
            raise ValueError(message)
    if _checks.differ(k.shape[feature], q.shape[feature]):
        message = (
            f"`k` must have the features of `q`, {q.shape[feature]} on axis {feature}, "
            f"got shape {tuple(k.shape)}."
        )
        raise ValueError(message)
    if any(
        _checks.differ(k.shape[axis], v.shape[axis]) for axis in range(k.ndim) if axis != feature
    ):
        message = (
            f"`v` must have the shape of `k` but for its features on axis {feature}, "
            f"got {tuple(v.shape)} beside {tuple(k.shape)}."
        )
        raise ValueError(message)
    batch = list(q.shape)
    grouped = [
        axis
        for axis in range(q.ndim)
        if axis not in (feature, seq) and _checks.differ(k.shape[axis], q.shape[axis])
    ]
    for axis in grouped:
        n, m = q.shape[axis], k.shape[axis]
        divides = enable_gqa and len(grouped) == 1 and m > 0 and n % m == 0
        if not (1 in (n, m) or divides):
            hint = (
                ", or a divisor of it on one axis only"
                if enable_gqa
                else " (or a divisor of it with enable_gqa=True)"
            )
            message = (
                f"`k` must have length {n} or 1 on axis {axis} as `q` has{hint}, "
                f"got shape {tuple(k.shape)}."
            )
            raise ValueError(message)
        batch[axis] = n if divides or m == 1 else m
    return batch


def _score_shape(
    batch: list[int], q_len: int, k_len: int, score_axes: list[int]
) -> tuple[int, ...]:
    lengths = dict(zip(score_axes, (q_len, k_len), strict=True))
    return tuple(lengths.get(axis, n) for axis, n in enumerate(batch))


def _lined_up(name: str, array: Any, shape: tuple[int, ...], score_axes: list[int]) -> Any:
    """Give a mask or a bias the further axes that it lacks, on the far side of the scores."""
    if array.ndim < 2:
        # One axis could be that of the queries or that of the keys.
        message = (
            f"`{name}` must have axes of queries and keys, got shape {tuple(array.shape)}; "
            f"for the same keys everywhere pass {name}[None, :]."
        )
        raise ValueError(message)
    meaning = f"queries on axis {score_axes[0]}, keys on axis {score_axes[1]}"
    return _axes.filled_up(name, array, score_axes, shape, meaning)


def _repeated(query: Any, grouped: Any, xp: Namespace) -> Any:
    """Repeat the heads of keys or values for each query of their group."""
    for axis in range(query.ndim - 2):
        n, m = query.shape[axis], grouped.shape[axis]
        if 1 < m < n:
            grouped = xp.repeat(grouped, n // m, axis=axis)
    return grouped


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in range(len(axes)))
