"""Scaled dot-product attention and its weights."""

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Any, Literal, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import arrays_key, get_or_compute
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT
from positional_embeddings.attention.algorithms import blocks, jax_loops
from positional_embeddings.attention.algorithms.blocks import attend_blocks
from positional_embeddings.attention.algorithms.cupy import attend_cupy, cupy_weights
from positional_embeddings.attention.algorithms.dask_chunks import attend_dask_chunks
from positional_embeddings.attention.algorithms.dense import attend_dense, dense_weights
from positional_embeddings.attention.algorithms.jax_loops import attend_jax_loops
from positional_embeddings.attention.algorithms.listed_keys import (
    attend_listed_keys,
    listed_key_weights,
)
from positional_embeddings.attention.at_positions import StepPositions
from positional_embeddings.attention.attention_arguments import AttentionArguments, ScoreFunction
from positional_embeddings.attention.cache import KVStep, positions_in_step
from positional_embeddings.attention.layout import QKVLayout  # noqa: TC001 - static readers follow it
from positional_embeddings.attention.scores import ScoreSpec, prepare_scores
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.mask import Mask

# Names of modules in `algorithms`, each with a function ``attend_<name>``.
Algorithm: TypeAlias = Literal["dense", "blocks", "listed_keys", "cupy", "jax_loops", "dask_chunks"]

PreparedCall: TypeAlias = tuple[ScoreSpec, Algorithm]

# Scores are few if the keys have at least this number of elements per score
# (`benchmarks/bench.py --only "decoding step"`: blocks take 2.5 times as long for 16,384 keys).
KEY_NUMBERS_PER_SCORE = 8


def scaled_dot_product_attention(
    q: ArrayT,
    k: AnyArray,
    v: AnyArray,
    /,
    *,
    mask: AnyArray | Mask | ScoreFunction | None = None,
    bias: AnyArray | Bias | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: AnyArray | None = None,
    offset: int | None = None,
    positions: AnyArray | KVStep | StepPositions | None = None,
    key_positions: AnyArray | None = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
) -> Any:
    r"""Return for each query the mean of the values, weighted by the softmax of its scores.

    The axes of `mask` and `bias` are the axes of the scores, (query, key, ...): queries and
    keys take the two axes that are features and sequence in `q`, in ascending order. With
    ``feature_axis=-1, seq_axis=-2`` they are (..., query, key).

    Arrays of two or three axes are (head, seq, ...), features first, by default. Arrays
    (batch, seq, head) need ``feature_axis=-1, seq_axis=-2``: without these options they are read as
    (head, seq, batch), and the result is wrong, often without an error.

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
        Masked keys do not affect the output of a query, even if they are NaN or infinite. The
        output of a query without visible keys is zero. If None, each query attends to all keys:
        a decoder needs ``CausalMask()``.

        - A `Mask`, such as ``CausalMask() | SlidingWindowMask(511, None)``, fits any layout. Keys
          that are masked for all queries are skipped. The keys of a `ListMask`, alone or combined
          by ``|``, are gathered: time and memory grow with the length of its lists.
        - An array is True where a query may not attend to a key. It has all axes of the scores,
          or the axes of queries and keys alone, with 1 where it broadcasts.
        - A function ``mask(q_idx, k_idx)`` takes the indices of some queries, (n, 1), and of
          some keys, (1, m), and returns the mask between them. Indices count from 0 and are
          independent of positions: after p cached keys, query i is at the position of key i + p.
    bias : Bias, array or function, optional
        Real floating-point, added to the scores, with 1 where it broadcasts. A key with a bias
        of minus infinity is masked. A `Bias`, such as ``ALiBiBias(num_heads)`` or a `T5Bias`,
        fits any layout. A function takes the same indices as a function for `mask`.
    scale : float, optional
        Positive factor on the scores, ``1 / sqrt(head)`` if None. The function does not know the
        factor of a model. Pass it, for example 1 for T5 and for scaled queries,
        ``query_pre_attn_scalar**-0.5`` for Gemma, and ``attention_multiplier`` for Granite.
    softcap : float, optional
        Positive bound on the scores: ``softcap * tanh(scores / softcap)``, before bias
        and mask.
    sinks : array, shape (heads,), optional
        Real logits of a key without value. The softmax of each query includes this score, so that
        the weights of the keys add up to less than 1. A logit of minus infinity has no effect. A
        logit of infinity gives all other keys a weight of 0.
    offset : int, optional
        Position of the first query among the keys, for a `Mask` or a `Bias`. If None, the
        last query is at the last key, as with cached keys.
    positions, key_positions : array of int, KVStep or StepPositions, optional
        Positions of queries and keys, with 1 where they broadcast. The shape is (seq,), or
        (batch, seq) or (seq, batch) in the order of the axes of `q`, or all axes of `q` except the
        features. Masks and biases use these positions instead of the array indices; a `ListMask`
        has indices. A key position below 0 is an empty slot, which is always masked. If
        `key_positions` is None, the keys have the positions of the queries, and a `SegmentMask`
        has the documents of the columns. The step of a `KVCache` has both positions: see the
        notes.
    block_size : int, optional
        Number of queries and of keys of a block of scores, which limits the memory. If None, few
        scores are computed together, and many scores in blocks. A lazy library without
        loops computes all scores together, unless a `Mask` has ranges of visible keys.
    enable_gqa : bool, default False
        Grouped-query attention: `k` and `v` may have fewer heads than `q`. The number of key heads
        must divide the number of query heads. Query head h reads key head ``h // group``. The notes
        name the axis of heads. A merged ``heads * batch`` axis needs a `Mask` for several
        sequences, a `Bias` or `sinks`, which determine the number of heads.
    return_lse : bool, default False
        Also return the logarithm of the sum of the exponentials of the scores, including the
        sinks. It is needed to merge outputs for parts of the keys.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `q`, `k` and `v`: 0 and 1 by default for arrays of at
        most three axes. Required for more axes: -1 and -2 for ``(batch, heads, seq, head)``.

    Returns
    -------
    output : array, shape (v_head, q_len, ...)
        Dtype of `q`. float16 and bfloat16 are computed in float32.
    lse : array, shape (q_len, ...)
        Only if `return_lse`: float32 for float16 and bfloat16. The value is minus infinity for a
        query without visible keys. If a mask is given, the value is NaN for each query whose
        output is NaN.

    Raises
    ------
    TypeError
        If an array has the wrong type or dtype, the arrays come from different
        libraries, or an option is of the wrong type.
    ValueError
        If shapes do not fit, `scale`, `softcap` or `block_size` is not positive, `offset` is
        passed without a `Mask` or a `Bias` or with `positions`, or the last query is after the
        last key. If the axes differ from the axes of a step, or keys that its ring has
        overwritten are visible. If there is a `PaddingMask` with `positions`, or for fewer queries
        than keys. A `PaddingMask` needs as many queries as keys, with two exceptions: padding on
        the right with `offset`, and a single mask whose longest sequence has all keys, as in
        attention to another sequence.

    See Also
    --------
    attention_weights : The weights of the values.

    Notes
    -----
    Options are keyword-only. Their names in other libraries are in the page
    :doc:`/coming_from/frameworks`.

    A `Mask` may be for several sequences, and a `Bias` is for several heads. If features and
    sequence come first, as in ``(head, seq, heads, batch)``, heads are on axis 2 and sequences on
    the last one, and a single axis after them holds both, ``heads * batch`` in C order. In any
    other layout, such as ``(batch, heads, seq, head)``, sequences are on the first axis that
    holds neither features nor positions, and heads on the last one; if there is only one, a
    `Mask` reads it as sequences and a `Bias` as heads.

    Blocks use the online softmax of Milakov and Gimelshein (2018): each query keeps a
    running maximum of its scores and sums of weights relative to it, which shrink when it grows.
    Fully masked blocks are skipped. A `Mask`, a `Bias` or a function is evaluated block by block,
    so that it never exists as one array. A `Mask` also reports which keys attention can skip, and
    which blocks have no masked key: the time of a window grows as queries x window. Under
    ``jax.jit`` many scores are computed in blocks automatically, in a loop of the library, and
    only a `Mask` skips blocks. The loop gathers a sequence that is sharded over devices. With a
    `block_size` of all queries and keys there is no loop.

    A step of a `KVCache` has checked positions, and the axes. With NumPy it evaluates equal masks
    and biases once for all layers, including their arrays and functions. If the cache is a ring,
    the window of the ring applies to each query. Arrays and functions passed as `mask` or `bias`
    take indices, not positions. With a step, a function is an error. An array is an error where
    indices differ from positions, as with padding or a ring.

    Where positions of several documents in one sequence restart, `CausalMask` alone does not mask
    later documents: add a `SegmentMask`.

    With CuPy a block of queries is computed with all its visible keys, up to 262,144, unless
    `block_size` is passed: two products by cuBLAS, which read the arrays in place and add up
    float16 and bfloat16 in float32, and one or two kernels. No call waits for the device.

    With threadpoolctl (extra ``fast``) NumPy works on as many blocks at a time as its
    BLAS has threads, and limits BLAS to one thread meanwhile, in the whole process.
    Functions are then called from several threads at the same time.

    A feature of the output is a weighted mean. It is in the range of the values of that feature,
    up to a rounding of ``n_keys * finfo(dtype).eps`` relative to the largest value. The `dtype` is
    the dtype of the computation, float32 for float16 and bfloat16. The mean of values that are
    so close to the largest finite number may be infinite.

    With a mask, a bias or positions, the output of a query is NaN in all features if it attends to
    a key or a value that is not finite. This holds in each library, also if all keys are visible.
    Masked keys have no effect. Without masks, biases and positions the plain formula applies: such
    a value affects the output of its feature, as NaN if its weight is 0. A score of minus infinity
    has a weight of 0, and the output of a query without other scores is zero.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, equation 1:
    :math:`\mathrm{softmax}(QK^T/\sqrt{d})\,V`. Milakov and Gimelshein (2018), Online
    normalizer calculation for softmax, algorithm 3.

    Examples
    --------
    Three axes are features first, (head, seq, heads * batch). Name the axes of (batch, seq, head):

    >>> import numpy as np
    >>> x = np.cos(np.arange(64.0 * 5 * 8)).reshape(64, 5, 8)
    >>> first = scaled_dot_product_attention(x, x, x)
    >>> last = scaled_dot_product_attention(x.T, x.T, x.T, feature_axis=-1, seq_axis=-2)
    >>> bool(np.all(abs(last.T - first) < 1e-12))
    True

    A query that matches the first key three times as well as the second:

    >>> q, k = np.ones((1, 1)), np.log([[3.0, 1.0]])
    >>> v = np.asarray([[0.0, 8.0]])
    >>> scaled_dot_product_attention(q, k, v).round(2)
    array([[2.]])
    >>> scaled_dot_product_attention(q, k, v, mask=np.asarray([[True, False]]))
    array([[8.]])

    A causal window over 4,096 positions, whose scores exist one block at a time:

    >>> from positional_embeddings import CausalMask, SlidingWindowMask
    >>> x = np.ones((2, 4096))
    >>> mask = CausalMask() | SlidingWindowMask(255, None)
    >>> scaled_dot_product_attention(x, x, x, mask=mask).shape
    (2, 4096)

    The same in the layout of other libraries, for the next token of a cached sequence:

    >>> q, k = np.ones((2, 8, 1, 64)), np.ones((2, 8, 4096, 64))
    >>> scaled_dot_product_attention(q, k, k, mask=mask, feature_axis=-1, seq_axis=-2).shape
    (2, 8, 1, 64)
    """
    arguments = AttentionArguments(
        mask=mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        offset=offset,
        key_positions=key_positions,
        block_size=block_size,
        enable_gqa=enable_gqa,
        return_lse=return_lse,
        feature_axis=feature_axis,
        seq_axis=seq_axis,
        positions=positions_in_step(positions, key_positions),
        sinks=sinks,
    )
    spec, algorithm = prepare(q, k, v, arguments)
    return attend(spec, algorithm, q, k, v)


def attend(spec: ScoreSpec, algorithm: Algorithm, q: Array, k: Array, v: Array) -> Any:
    """Return the output of checked arrays, and the logarithms of the sums if `return_lse`."""
    with spec.backend.compute_context(q):
        return attend_in_context(spec, algorithm, q, k, v)


def attend_in_context(spec: ScoreSpec, algorithm: Algorithm, q: Array, k: Array, v: Array) -> Any:
    """Return what `attend` returns, in the `compute_context` of the caller."""
    backend = spec.backend
    layout: QKVLayout = spec.layout
    query, key = layout.to_batched(q, backend), layout.to_batched(k, backend)
    value = layout.to_batched(v, backend)
    if algorithm == "dense":
        output, lse = attend_dense(spec, query, key, value)
    elif algorithm == "blocks":
        output, lse = attend_blocks(spec, query, key, value)
    elif algorithm == "listed_keys":
        output, lse = attend_listed_keys(spec, query, key, value)
    elif algorithm == "cupy":
        output, lse = attend_cupy(spec, query, key, value)
    elif algorithm == "jax_loops":
        output, lse = attend_jax_loops(spec, query, key, value)
    else:
        output, lse = attend_dask_chunks(spec, query, key, value)
    output = layout.from_batched(output, q.dtype, backend)
    return (output, layout.lse(lse, backend)) if spec.with_lse else output


def attention_weights(
    q: ArrayT,
    k: AnyArray,
    /,
    *,
    mask: AnyArray | Mask | ScoreFunction | None = None,
    bias: AnyArray | Bias | ScoreFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: AnyArray | None = None,
    offset: int | None = None,
    positions: AnyArray | KVStep | StepPositions | None = None,
    key_positions: AnyArray | None = None,
    enable_gqa: bool = False,
    listed: bool = False,
    feature_axis: int | None = None,
    seq_axis: int | None = None,
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
    sinks : array, shape (heads,), optional
        Real logits of a key without value.
    offset : int, optional
        Position of the first query among the keys, for a `Mask` or a `Bias`. If None, the
        last query is at the last key.
    positions, key_positions : array of int, KVStep or StepPositions, optional
        Positions of queries and keys, in place of `offset`; the step of a `KVCache` has both. A
        key position below 0 is an empty slot.
    enable_gqa : bool, default False
        Grouped queries: the number of key heads may be a divisor of the number of query heads.
    listed : bool, default False
        For a `ListMask`, alone or combined by ``|``: return the weights of the listed keys alone,
        (q_len, m, ...), in the order of the lists. The weight is 0 where a list has no key, up to
        the length of the longest list.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `q` and `k`: 0 and 1 by default for arrays of at most
        three axes. Required for more axes.

    Returns
    -------
    array, shape (q_len, k_len, ...)
        Dtype of `q`. Queries and keys are on the axes that hold features and sequence in
        `q`, in ascending order. The weights of a query add up to 1, to less than 1 with `sinks`,
        and to 0 without visible keys.

    Raises
    ------
    TypeError
        If an array has the wrong type or dtype, the arrays come from different
        libraries, or an option is of the wrong type.
    ValueError
        If shapes do not fit, `scale` or `softcap` is not positive, or `offset` is passed
        without a `Mask` or a `Bias`.

    See Also
    --------
    scaled_dot_product_attention : The output, with details of each parameter.

    Notes
    -----
    Options are keyword-only. Their names in other libraries are in the page
    :doc:`/coming_from/frameworks`.

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
    arguments = AttentionArguments(
        mask=mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        offset=offset,
        key_positions=key_positions,
        enable_gqa=enable_gqa,
        feature_axis=feature_axis,
        seq_axis=seq_axis,
        positions=positions_in_step(positions, key_positions),
        sinks=sinks,
    )
    spec = prepare_scores(q, k, None, arguments)
    backend = spec.backend
    layout: QKVLayout = spec.layout
    if checks.boolean("listed", listed) and not spec.has_lists:
        requirement = "be False unless `mask` is a `ListMask`, alone or joined to others by |"
        raise wrong_value("listed", requirement, "True")
    with backend.compute_context(q):
        query, key = layout.to_batched(q, backend), layout.to_batched(k, backend)
        if listed:
            weights = listed_key_weights(spec, query, key)
        elif backend.has_cuda_kernels:
            weights = cupy_weights(spec, query, key)
        else:
            weights = dense_weights(spec, query, key)
        return layout.from_batched(weights, q.dtype, backend, layout.score_axes)  # type: ignore[no-any-return]


def prepare(q: Array, k: Array, v: Array, arguments: AttentionArguments) -> PreparedCall:
    """Check the arguments; return the specification of the scores and the algorithm.

    The step of a cache stores the result for equal calls.
    """
    if v is None:  # `prepare_scores` would return the scores of weights
        get_backend(v=v)
    step = arguments.positions
    plans = step._plans if isinstance(step, StepPositions) else None
    plan_key = None if plans is None else _plan_key(q, k, v, arguments)
    if plan_key is None:
        spec = prepare_scores(q, k, v, arguments)
        return spec, choose_algorithm(spec, q, k, v)
    prepare_plan = partial(prepare_cached, q, k, v, arguments)
    spec, algorithm = get_or_compute(plans, plan_key, prepare_plan)
    return spec.with_sinks(arguments.sinks), algorithm


def prepare_cached(q: Array, k: Array, v: Array, arguments: AttentionArguments) -> PreparedCall:
    """Return the result of `prepare` to cache: a dense mask and bias are already evaluated."""
    spec = prepare_scores(q, k, v, arguments)
    algorithm = choose_algorithm(spec, q, k, v)
    if algorithm == "dense":
        with spec.backend.compute_context(q):
            spec = spec.with_arrays()
    return spec, algorithm


def _plan_key(q: Array, k: Array, v: Array, arguments: AttentionArguments) -> Any:
    """Return the key of a plan in a step, or None if the plan must not be cached.

    Masks of numbers compare by value, biases by identity.
    """
    arrays = arrays_key(q, k, v, arguments.sinks)
    if arguments.may_hold_tensors(q):
        return None
    *options, _, _ = arguments  # all but positions and sinks
    types = tuple(map(type, options))  # True is not 1
    plan_key = arrays, id(arguments.bias), tuple(options), types
    try:
        hash(plan_key)
    except TypeError:  # an array, or the hash of a user's function
        return None
    return None if arrays is None else plan_key


def choose_algorithm(spec: ScoreSpec, q: Array, k: Array, v: Array) -> Algorithm:
    """Return the algorithm that computes the scores of a specification."""
    backend, layout, block_size = spec.backend, spec.layout, spec.block_size
    in_chunks = backend.is_chunked and not spec.has_lists
    if in_chunks:
        are_static = _have_static_lengths((q, k, v, spec.mask, spec.bias))
        return "dask_chunks" if are_static else "dense"
    # A number is NaN if the library does not know a length. Comparisons with NaN are False.
    num_keys = spec.visible_keys.size
    num_scores = float("nan") if num_keys is None else layout.scores_per_key * num_keys
    is_empty = 0 in (num_scores, v.shape[layout.feature])
    if spec.has_lists and not is_empty:
        return "listed_keys"
    if backend.has_cuda_kernels and not is_empty:
        return "cupy"
    has_loops = backend.loops() is not None
    key_size = float("nan") if None in k.shape else prod(k.shape)
    # The scores of a decoding step may be many, but few compared with the keys, which blocks copy.
    are_few_for_keys = num_scores <= key_size // KEY_NUMBERS_PER_SCORE
    max_scores = jax_loops.MAX_SCORES_PER_BLOCK if has_loops else blocks.max_scores(q, backend)
    fit_one_block = num_scores <= max_scores
    if is_empty or (block_size is None and (are_few_for_keys or fit_one_block)):
        return "dense"
    if has_loops:
        # Without a loop, a sharded sequence stays sharded.
        max_length = max(layout.queries.size, layout.keys.size)
        is_one_block = jax_loops.block_size(spec) >= max_length
        return "dense" if is_one_block else "jax_loops"
    # In a trace, blocks make a longer program, and save work only if a mask skips some of them.
    # In eager training, dense scores take four times as long (2,048 queries of PyTorch).
    is_eager = backend.supports_inplace(q, k, v) or backend.is_concrete(q)
    has_blocks = block_size is not None or spec.has_visible_ranges or is_eager
    return "blocks" if has_blocks else "dense"


def _have_static_lengths(arrays: Iterable[Any]) -> bool:
    """Return whether all chunked arrays have elements, and chunks of known lengths."""
    chunked = [array for array in arrays if hasattr(array, "chunks")]
    return all(n > 0 for array in chunked for n in array.shape)  # NaN is an unknown length
