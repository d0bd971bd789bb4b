"""Scaled dot-product attention and its weights."""

from math import sqrt
from typing import Any, NamedTuple

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import (
    is_chunked,
    is_compiling,
    on_the_host,
    supports_inplace,
    without_autocast,
)
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Namespace,
    compute_dtype,
    device_of,
    dtype_name,
    namespace_of,
)
from positional_embeddings._core.positions import position_interval
from positional_embeddings.attention.blocks import Visibility
from positional_embeddings.attention.chunked import Terms, attend_by_chunks
from positional_embeddings.attention.online_softmax import AttentionInputs, attend, softmax_weights
from positional_embeddings.attention.score_axes import (
    ScoreFunction,
    ScoreLayout,
    by_block,
    given_arrays,
    score_layout,
)
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import Ranges, Reach, shift
from positional_embeddings.relative.positions import Bias


def scaled_dot_product_attention(
    q: ArrayT,
    k: Array,
    v: Array,
    /,
    *,
    mask: Array | Mask | ScoreFunction | None = None,
    bias: Array | Bias | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    offset: int | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> ArrayT:
    r"""Return for each query the mean of the values, weighted by the softmax of its scores.

    The axes of `mask` and `bias` are those of the scores, (query, key, ...): queries and
    keys take the two axes that are features and sequence in `q`, in ascending order. With
    ``feature_axis=-1, seq_axis=-2`` they are (..., query, key).

    Parameters
    ----------
    q : array, shape (head, q_len, ...)
        Queries, real floating-point.
    k : array, shape (head, k_len, ...)
        Keys, of the dtype of `q`. Each further axis has the length it has in `q`, or one
        of the two is 1.
    v : array, shape (v_head, k_len, ...)
        Values, of the dtype of `q` and with the further axes of `k`.
    mask : Mask, array of bool or function, optional
        Which keys a query may not attend to. They do not affect its output, even if they are
        NaN or infinite; the output of a query that may attend to no key is zero.

        - A `Mask`, such as ``CausalMask() | SlidingWindowMask(511, 0)``, fits any layout. Keys
          that it hides from all queries are not visited.
        - An array is True where a query may not attend to a key, with 1 where it broadcasts;
          it has all axes of the scores, or those of queries and keys alone.
        - A function ``mask(q_idx, k_idx)`` gets the indices of some queries, (n, 1), and of
          some keys, (1, m), and returns the mask between them. Both count from 0, whatever
          the positions: after p cached keys, query i has the position of the key of index
          i + p.
    bias : Bias, array or function, optional
        Real floating-point, added to the scores, with 1 where it broadcasts. Minus
        infinity hides a key as `mask` does. A `Bias`, such as ``ALiBiBias(num_heads)`` or a
        `T5Bias`, fits any layout; a function is called as one for `mask` is.
    scale : float, optional
        Positive factor on the scores, ``1 / sqrt(head)`` if None.
    softcap : float, optional
        Positive bound on the scores: ``softcap * tanh(scores / softcap)``, before bias
        and mask.
    offset : int, optional
        Position of the first query among the keys, for a `Mask` or a `Bias`. If None, the
        last query is at the last key, as with cached keys.
    block_size : int, optional
        Compute the scores of this many queries and this many keys at a time, so that all
        of them never exist together. If None, few scores are computed at once and many in
        blocks, unless the library can neither write to arrays nor loop over blocks.
    enable_gqa : bool, default False
        Grouped-query attention: one further axis of `k` and `v`, the heads, may have a
        length that divides that of `q`; query head h then reads key head ``h // group``.
        Split a merged ``heads * batch`` axis first.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `q`, `k` and `v`.

    Returns
    -------
    array, shape (v_head, q_len, ...)
        Dtype of `q`. Half precision is computed in float32.

    Raises
    ------
    TypeError
        If an array has the wrong kind or dtype, the arrays come from different
        libraries, or an option is of the wrong kind.
    ValueError
        If shapes do not fit, `scale`, `softcap` or `block_size` is not positive, or `offset`
        is given without a `Mask` or a `Bias`.

    See Also
    --------
    attention_weights : The weights of the values.

    Notes
    -----
    A `Mask` may be for several sequences, and a `Bias` is for several heads. If features and
    sequence come first, as in ``(head, seq, heads, batch)``, heads are on axis 2 and sequences on
    the last one, and a single axis after them holds both, ``heads * batch`` in C order. In any
    other layout, such as ``(batch, heads, seq, head)``, sequences are on the first axis that
    holds neither features nor positions, and heads on the last one; if there is only one, a
    `Mask` reads it as sequences and a `Bias` as heads.

    Blocks use the online softmax of Milakov and Gimelshein (2018): each query keeps a
    running maximum of its scores and sums of weights relative to it, which shrink when it grows.
    Blocks that a mask hides are skipped, and a `Mask`, a `Bias` or a function is evaluated block
    by block, so that it never exists as a whole. A `Mask` also tells which keys need not be
    visited at all, and in which blocks it hides nothing: the time of a window grows as queries x
    window. Under ``jax.jit`` the library itself loops over the blocks, many scores are
    computed in blocks by themselves, and only a `Mask` skips blocks. A loop over a sequence that
    is sharded over devices gathers it: a `block_size` of all queries and keys has none.

    With threadpoolctl (extra ``fast``) NumPy works on as many blocks at a time as its
    BLAS has threads, and limits BLAS to one thread meanwhile, in the whole process.
    Functions are then called from several threads at the same time.

    If a query attends to a key that is not finite, its output is NaN; if it attends to a
    value that is not finite, that value is in its output, unless its weight rounds to 0.
    Without mask and bias the plain formula decides: such a value with a weight of 0 gives
    NaN, a score of minus infinity has no weight, and a query with no other score gets zeros.

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
    >>> scaled_dot_product_attention(q, k, v).round(2)
    array([[2.]])
    >>> scaled_dot_product_attention(q, k, v, mask=np.asarray([[True, False]]))
    array([[8.]])

    A causal window over 4,096 positions, of which no more than a block ever exists:

    >>> from positional_embeddings import CausalMask, SlidingWindowMask
    >>> x = np.ones((2, 4096))
    >>> mask = CausalMask() | SlidingWindowMask(255, 0)
    >>> scaled_dot_product_attention(x, x, x, mask=mask).shape
    (2, 4096)

    The same in the layout of other libraries, for the next token of a cached sequence:

    >>> q, k = np.ones((2, 8, 1, 64)), np.ones((2, 8, 4096, 64))
    >>> scaled_dot_product_attention(q, k, k, mask=mask, feature_axis=-1, seq_axis=-2).shape
    (2, 8, 1, 64)
    """
    arrays, terms = {"q": q, "k": k, "v": v}, {"mask": mask, "bias": bias}
    options = scale, softcap, offset, block_size, enable_gqa
    checked = _check(arrays, terms, feature_axis, seq_axis, *options)
    layout, xp = checked.layout, checked.xp
    inputs = _prepare(q, k, v, mask, bias, checked)
    output = None
    if is_chunked(q):
        given = Terms(mask, bias, layout, q, checked.start, checked.block_size)
        output = attend_by_chunks(inputs, given, xp)
    if output is None:
        with without_autocast(q):
            output = attend(inputs, checked.block_size, xp)
    output = layout.from_rows(output, (layout.seq, layout.feature), xp)
    return xp.astype(output, q.dtype, copy=False)  # type: ignore[no-any-return]


def attention_weights(
    q: ArrayT,
    k: Array,
    /,
    *,
    mask: Array | Mask | ScoreFunction | None = None,
    bias: Array | Bias | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    offset: int | None = None,
    enable_gqa: bool = False,
    feature_axis: int = 0,
    seq_axis: int = 1,
) -> ArrayT:
    r"""Return the weights with which `scaled_dot_product_attention` averages the values.

    Parameters
    ----------
    q, k : array, shape (head, q_len, ...) and (head, k_len, ...)
        Queries and keys, real floating-point, of one dtype.
    mask : Mask, array of bool or function, optional
        True where a query may not attend to a key: a `Mask`, an array of the shape of the
        weights with 1 where it broadcasts or of the axes of queries and keys alone, or a
        function of their indices.
    bias : Bias, array or function, optional
        Added to the scores: a `Bias`, or as `mask`.
    scale : float, optional
        Factor on the scores, positive, ``1 / sqrt(head)`` if None.
    softcap : float, optional
        Bounds the scores, positive: ``softcap * tanh(scores / softcap)``.
    offset : int, optional
        Position of the first query among the keys, for a `Mask` or a `Bias`. If None, the
        last query is at the last key.
    enable_gqa : bool, default False
        Grouped queries: one further axis of `k` may be a divisor of that of `q`.
    feature_axis, seq_axis : int, default 0 and 1
        Axes of features and positions in `q` and `k`.

    Returns
    -------
    array, shape (q_len, k_len, ...)
        Dtype of `q`. Queries and keys are on the axes that hold features and sequence in
        `q`, in ascending order. The weights add up to 1 over the keys, or to 0 for a query
        that may attend to no key.

    Raises
    ------
    TypeError
        If an array has the wrong kind or dtype, the arrays come from different
        libraries, or an option is of the wrong kind.
    ValueError
        If shapes do not fit, `scale` or `softcap` is not positive, or `offset` is given
        without a `Mask` or a `Bias`.

    See Also
    --------
    scaled_dot_product_attention : The output; it says more about each parameter.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, equation 1:
    :math:`\mathrm{softmax}(QK^T/\sqrt{d})`.

    Examples
    --------
    A query that matches the first key three times as well as the second:

    >>> import numpy as np
    >>> attention_weights(np.ones((1, 1)), np.log([[3.0, 1.0]])).round(2)
    array([[0.75, 0.25]])
    """
    arrays, terms = {"q": q, "k": k}, {"mask": mask, "bias": bias}
    options = scale, softcap, offset, None, enable_gqa
    checked = _check(arrays, terms, feature_axis, seq_axis, *options)
    layout, xp = checked.layout, checked.xp
    inputs = _prepare(q, k, None, mask, bias, checked)
    with without_autocast(q):
        weights = softmax_weights(inputs, xp)
    weights = layout.from_rows(weights, layout.score_axes, xp)
    return xp.astype(weights, q.dtype, copy=False)  # type: ignore[no-any-return]


class _Checked(NamedTuple):
    """The checked arguments of an attention."""

    xp: Namespace
    layout: ScoreLayout
    scale: float
    softcap: float | None
    block_size: int | None
    start: int  # position of the first query, for a `Mask` or a `Bias`


def _check(
    arrays: dict[str, Any],
    terms: dict[str, Any],
    feature_axis: int,
    seq_axis: int,
    scale: float | None,
    softcap: float | None,
    offset: int | None,
    block_size: int | None,
    enable_gqa: Any,
) -> _Checked:
    """Check all arguments; `arrays` are q, k and perhaps v, `terms` mask and bias."""
    q, k = arrays["q"], arrays["k"]
    _check_kinds(terms)
    given = given_arrays(**terms)
    xp = namespace_of(**arrays, **given)
    checks.real_floating(xp, **arrays)
    for name, array in arrays.items():
        if dtype_name(array.dtype) != dtype_name(q.dtype):
            required = f"have the dtype of `q`, {dtype_name(q.dtype)}"
            raise wrong_type(name, required, dtype_name(array.dtype))
    for name in terms.keys() & given.keys():
        checks.mask_or_bias(name, name, given[name], xp)
    enable_gqa = checks.boolean("enable_gqa", enable_gqa)
    feature, seq = axes.feature_and_seq_axis(feature_axis, seq_axis, q, "q")
    if scale is None:
        scale = 1 / sqrt(max(axes.length(q, feature, "q"), 1))
    scale = checks.positive_number("scale", scale)
    if softcap is not None:
        softcap = checks.positive_number("softcap", softcap)
    if block_size is not None:
        block_size = checks.positive_integer("block_size", block_size)
        for name, array in (("q", q), ("k", k)):
            for axis in range(array.ndim):
                axes.length(array, axis, name)
    if any(map(callable, terms.values())):
        axes.length(q, seq, "q")
    layout = score_layout(arrays, terms, feature, seq, enable_gqa=enable_gqa)
    start = _first_position(q, terms, layout, offset, xp)
    if isinstance(terms["mask"], Mask) and 0 not in (q.shape[seq], layout.k_len):
        terms["mask"]._check((start, start + q.shape[seq]), layout.k_len)
    return _Checked(xp, layout, scale, softcap, block_size, start)


def _check_kinds(terms: dict[str, Any]) -> None:
    """Check that a `Mask` and a `Bias` are given as what they are, and not as classes."""
    for name, other, rest in (("mask", Bias, "bias"), ("bias", Mask, "mask")):
        term = terms[name]
        if isinstance(term, type) and issubclass(term, Mask | Bias):
            kind = term.__name__
            raise wrong_type(name, f"be a {name}", f"the class {kind}", f" Pass {kind}(...).")
        if isinstance(term, other):
            raise wrong_type(name, f"be a {name}", shown(term), f" Pass it as `{rest}`.")


def _first_position(
    q: Any, terms: dict[str, Any], layout: ScoreLayout, offset: int | None, xp: Namespace
) -> int:
    """Return the position of the first query, 0 if nothing asks for it."""
    if not any(isinstance(term, Mask | Bias) for term in terms.values()):
        if offset is not None:
            what = "be left out unless `mask` is a `Mask` or `bias` is a `Bias`"
            raise wrong_value("offset", what, offset)
        return 0
    if offset is not None:
        offset = checks.integer("offset", offset)
    lengths = q.shape[layout.seq], layout.k_len
    if 0 in lengths:
        return 0
    return position_interval(*lengths, offset, xp, device_of(q))[0][0]


def _prepare(q: Any, k: Any, v: Any, mask: Any, bias: Any, checked: _Checked) -> AttentionInputs:
    """Return what to compute with, with axes (..., sequence, feature) and (..., query, key)."""
    xp, layout = checked.xp, checked.layout
    dtype, device = compute_dtype(q.dtype, xp), device_of(q)
    on_host, in_place = on_the_host(q), supports_inplace(q, k, k if v is None else v)
    visibility = None
    # PyTorch would compile for each length anew, whose blocks differ.
    if isinstance(mask, Mask) and not is_compiling(q):
        visibility = _visibility(mask, checked.start, layout.k_len)
    mask, bias = (
        None if given is None else by_block(kind, given, layout, q, checked.start, device, xp)
        for kind, given in (("mask", mask), ("bias", bias))
    )
    last = (layout.seq, layout.feature)
    query, key, value = (
        None if array is None else layout.to_rows(array, last, xp) for array in (q, k, v)
    )
    return AttentionInputs(
        query,
        key,
        value,
        mask=mask,
        bias=bias,
        visibility=visibility,
        scale=checked.scale,
        softcap=checked.softcap,
        dtype=dtype,
        device=device,
        on_host=on_host,
        in_place=in_place,
        may_hide=mask is not None or bias is not None,
    )


def _visibility(mask: Mask, start: int, k_len: int) -> Visibility:
    """Return what a mask tells of queries, the first of which has position `start`."""

    def reach(queries: Ranges) -> Reach:
        return mask._reach(shift(queries, start), k_len)

    return Visibility(reach, shift(mask._wide_queries(), -start))
