"""Scaled dot-product attention and its weights."""

from collections.abc import Iterable
from math import prod
from typing import Any, Literal, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import call_key, remember, signature_of
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
from positional_embeddings.attention.attention_arguments import AttentionArguments, ScoreFunction
from positional_embeddings.attention.cache import POSITIONS_LABEL, KVStep
from positional_embeddings.attention.layout import QKVLayout  # noqa: TC001 - static readers follow it
from positional_embeddings.attention.scores import ScoreSpec, prepare_scores
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.mask import Mask

# Each word is a module of `algorithms`, with one function of that name after `attend_`.
Algorithm: TypeAlias = Literal["dense", "blocks", "listed_keys", "cupy", "jax_loops", "dask_chunks"]

PreparedCall: TypeAlias = tuple[ScoreSpec, Algorithm]

# Scores are few, however many they are, if the keys have this many times as many numbers
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
    positions: AnyArray | KVStep | None = None,
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
        NaN or infinite; the output of a query that may attend to no key is zero. If None, each
        query sees all keys: a decoder needs ``CausalMask()``.

        - A `Mask`, such as ``CausalMask() | SlidingWindowMask(511, None)``, fits any layout. Keys
          that it hides from all queries are not visited. The keys of a `ListMask`, alone or joined
          to others by ``|``, are gathered: time and memory grow as its lists.
        - An array is True where a query may not attend to a key, with 1 where it broadcasts;
          it has all axes of the scores, or the axes of queries and keys alone.
        - A function ``mask(q_idx, k_idx)`` gets the indices of some queries, (n, 1), and of
          some keys, (1, m), and returns the mask between them. Both count from 0, whatever
          the positions: after p cached keys, query i has the position of the key of index
          i + p.
    bias : Bias, array or function, optional
        Real floating-point, added to the scores, with 1 where it broadcasts. Minus
        infinity hides a key as `mask` does. A `Bias`, such as ``ALiBiBias(num_heads)`` or a
        `T5Bias`, fits any layout; a function is called as one for `mask` is.
    scale : float, optional
        Positive factor on the scores, ``1 / sqrt(head)`` if None. No model's own factor is known
        here: it is 1 in T5 and for queries that are scaled already, ``query_pre_attn_scalar**-0.5``
        in Gemma, ``attention_multiplier`` in Granite.
    softcap : float, optional
        Positive bound on the scores: ``softcap * tanh(scores / softcap)``, before bias
        and mask.
    sinks : array, shape (heads,), optional
        Real logits of a key without value: the softmax of each query has this score, too, so
        that the weights of its keys add up to less than 1. Minus infinity is no key; infinity
        outweighs all others.
    offset : int, optional
        Position of the first query among the keys, for a `Mask` or a `Bias`. If None, the
        last query is at the last key, as with cached keys.
    positions, key_positions : array of int, or KVStep, optional
        Positions of queries and keys, at which a `Mask` and a `Bias` are evaluated, wherever the
        keys are in memory: of shape (seq,); or (batch, seq) or (seq, batch), in the order of the
        axes of `q`, with 1 where they broadcast; or with all axes of `q` but its features. A key
        position below 0 is an empty slot, hidden from all queries, whatever the mask. Keys have the
        positions of the queries if only `positions` are given. Where positions of several documents
        in one sequence start again, `CausalMask` alone shows a query later documents: add a
        `SegmentMask`. The step of a `KVCache` has both, checked already, and the axes; with NumPy
        it evaluates equal masks and biases once for all layers, with the arrays and functions in
        them. If the cache is a ring, a query sees no more than the ring keeps for it. Arrays and
        functions passed as `mask` or `bias` are indexed by queries and keys, not by positions. With
        a step a function is an error; an array is one where indices differ from positions, as with
        padding or a ring.
    block_size : int, optional
        Compute the scores of this many queries and this many keys at a time, so that all
        of them never exist together. If None, few scores are computed at once and many in
        blocks. A lazy library without loops computes all at once, unless a `Mask` hides keys.
    enable_gqa : bool, default False
        Grouped-query attention: `k` and `v` may have fewer heads than `q`, a number that divides
        it; query head h then reads key head ``h // group``. Heads are on the axis that the notes
        name. A merged ``heads * batch`` axis is grouped if a `Mask` for several sequences, a `Bias`
        or `sinks` tell how many heads there are, and refused otherwise.
    return_lse : bool, default False
        Also return the logarithm of the sum of the exponentials of the scores, sinks among them,
        by which outputs for parts of the keys are merged.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `q`, `k` and `v`: 0 and 1 by default for arrays of at
        most three axes, and to be given for more: -1 and -2 for ``(batch, heads, seq, head)``.

    Returns
    -------
    output : array, shape (v_head, q_len, ...)
        Dtype of `q`. Half precision is computed in float32.
    lse : array, shape (q_len, ...)
        Only if `return_lse`: float32 for half precision; minus infinity for a query that may attend
        to no key. Where a mask hides keys, NaN for a query whose output is NaN.

    Raises
    ------
    TypeError
        If an array has the wrong kind or dtype, the arrays come from different
        libraries, or an option is of the wrong kind.
    ValueError
        If shapes do not fit, `scale`, `softcap` or `block_size` is not positive, `offset`
        is given without a `Mask` or a `Bias` or with `positions`, or the last query would come
        after the last key. If the axes are not the step's, or the mask shows more than its
        ring keeps. If there is a `PaddingMask` with `positions`, or for fewer queries than keys,
        since its lengths would have to count the queries. For fewer queries it is accepted on the
        right with `offset`, and as the only rule if its longest sequence has all keys, as in
        attention to another sequence.

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
    computed in blocks by themselves, and only a `Mask` skips blocks. The loop gathers a sequence
    that is sharded over devices; with a `block_size` of all queries and keys there is no loop.

    With CuPy a block of queries meets all keys that it sees at once, up to 262,144, unless a
    `block_size` is given: two products by cuBLAS, which read the arrays where they are and in half
    precision add up in float32, and a kernel or two. Nothing waits for the device.

    With threadpoolctl (extra ``fast``) NumPy works on as many blocks at a time as its
    BLAS has threads, and limits BLAS to one thread meanwhile, in the whole process.
    Functions are then called from several threads at the same time.

    A feature of the output is a weighted mean. It is in the range of the values of that feature,
    up to a rounding of ``n_keys * finfo(dtype).eps`` relative to the largest one. The `dtype` is
    the one to compute in, float32 for half precision. The mean of values that are so close to the
    largest finite number may be infinite.

    With a mask, a bias or positions, a query that attends to a key or a value that is not finite
    gets NaN in all features, in each way to compute and in each library, also if the mask hides
    nothing; what is hidden has no effect. Without them the plain formula decides: such a value
    reaches the output of its feature, as NaN if its weight is 0; a score of minus infinity has no
    weight, and a query with no other score gets zeros.

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
    call = AttentionArguments(
        *(mask, bias, scale, softcap, offset, key_positions, block_size, enable_gqa),
        *(return_lse, feature_axis, seq_axis, positions, sinks),
    )
    spec, algorithm = prepare(q, k, v, call)
    return attend(spec, algorithm, q, k, v)


def attend(spec: ScoreSpec, algorithm: Algorithm, q: Array, k: Array, v: Array) -> Any:
    """Return the output of checked arrays, and the logarithms of the sums if `return_lse`."""
    backend = spec.backend
    layout: QKVLayout = spec.layout
    with backend.compute_context(q):
        query, key = layout.batched(q, backend), layout.batched(k, backend)
        value = layout.batched(v, backend)
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
        output = layout.restored(output, q.dtype, backend)
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
    positions: AnyArray | KVStep | None = None,
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
    positions, key_positions : array of int, or KVStep, optional
        Positions of queries and keys, in place of `offset`; the step of a `KVCache` has both. A
        key position below 0 is an empty slot.
    enable_gqa : bool, default False
        Grouped queries: `k` may have fewer heads than `q`, a number that divides it.
    listed : bool, default False
        For a `ListMask`, alone or joined to other masks by ``|``: return the weights of the listed
        keys alone, (q_len, m, ...), in the order of the lists, 0 where there is no key. Lists of
        several lengths have as many weights as the longest one.
    feature_axis, seq_axis : int, optional
        Axes of features and positions in `q` and `k`: 0 and 1 by default for arrays of at most
        three axes, and to be given for more.

    Returns
    -------
    array, shape (q_len, k_len, ...)
        Dtype of `q`. Queries and keys are on the axes that hold features and sequence in
        `q`, in ascending order. The weights add up to 1 over the keys, or to 0 for a query
        that may attend to no key; to less with `sinks`.

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
    call = AttentionArguments(
        *(mask, bias, scale, softcap, offset, key_positions, None, enable_gqa),
        *(False, feature_axis, seq_axis, positions, sinks),
    )
    spec = prepare_scores(q, k, None, call)
    backend = spec.backend
    layout: QKVLayout = spec.layout
    if checks.boolean("listed", listed) and not spec.has_lists:
        requirement = "be False unless `mask` is a `ListMask`, alone or joined to others by |"
        raise wrong_value("listed", requirement, "True")
    with backend.compute_context(q):
        query, key = layout.batched(q, backend), layout.batched(k, backend)
        if listed:
            weights = listed_key_weights(spec, query, key)
        elif backend.has_cuda_kernels:
            weights = cupy_weights(spec, query, key)
        else:
            weights = dense_weights(spec, query, key)
        return layout.restored(weights, q.dtype, backend, layout.score_axes)  # type: ignore[no-any-return]


def prepare(q: Array, k: Array, v: Array, call: AttentionArguments) -> PreparedCall:
    """Check a call, and return how its scores are made and the algorithm that computes them.

    Nothing is kept of a call but in the step of a cache, which has a plan for each form of call.
    """
    if isinstance(call.positions, KVStep):
        return _prepare_in_step(q, k, v, call, call.positions)
    spec = prepare_scores(q, k, v, call)
    return spec, choose(spec, q, k, v)


def _prepare_in_step(
    q: Array, k: Array, v: Array, call: AttentionArguments, step: KVStep
) -> PreparedCall:
    """Return what `prepare` does, from the plans of a step if it has prepared an equal call."""
    plans, key = step._plans, _plan_key(q, k, v, call)
    if plans is None or key is None:
        spec = prepare_scores(q, k, v, call)
        return spec, choose(spec, q, k, v)
    plan: PreparedCall | None = plans.get(key)
    if plan is None:
        plan = prepare_plan(q, k, v, call)
        remember(plans, key, plan)
        return plan
    spec, algorithm = plan
    return spec.with_sinks(call.sinks), algorithm


def prepare_plan(q: Array, k: Array, v: Array, call: AttentionArguments) -> PreparedCall:
    """Return what `prepare` does for equal calls of a step: a dense mask and bias are evaluated."""
    spec = prepare_scores(q, k, v, call)
    algorithm = choose(spec, q, k, v)
    if algorithm == "dense":
        with spec.backend.compute_context(q):
            spec = spec.with_arrays()
    return spec, algorithm


def _plan_key(q: Array, k: Array, v: Array, call: AttentionArguments) -> Any:
    """Return the key of a call for the plans of a step, None if its plan must not be cached.

    Masks of numbers compare by value, biases by identity.
    """
    arrays = signature_of(q, k, v, call.sinks)
    if arrays is None and not {POSITIONS_LABEL, "sinks"}.issuperset(call.arrays()):
        return None  # tensors of a mask or a bias may change, and have gradients
    arrays = arrays or call_key(q, None, k, v, call.sinks)
    *options, _, _ = call  # all but positions and sinks
    key = arrays, id(call.bias), tuple(options), tuple(map(type, options))  # True is not 1
    try:
        hash(key)
    except TypeError:  # an array, or the hash of a user's function
        return None
    return None if arrays is None else key


def choose(spec: ScoreSpec, q: Array, k: Array, v: Array) -> Algorithm:
    """Return the algorithm for some scores.

    A decoding step has many scores, but few compared with the keys, which blocks would copy.
    """
    backend, layout, block_size = spec.backend, spec.layout, spec.block_size
    in_chunks = backend.is_chunked and not spec.has_lists
    if in_chunks and _have_known_chunks((q, k, v, spec.mask, spec.bias), backend):
        return "dask_chunks"
    q_len, k_len, visible = layout.queries.size, layout.keys.size, spec.visible.size
    count = float("nan") if visible is None else layout.scores_per_key * visible
    is_empty = 0 in (count, v.shape[layout.feature])
    if spec.has_lists and not is_empty:
        return "listed_keys"
    if backend.has_cuda_kernels and not is_empty:
        return "cupy"
    is_traced = backend.loops() is not None
    key_size = float("nan") if None in k.shape else prod(k.shape)
    is_few = count <= key_size // KEY_NUMBERS_PER_SCORE or count <= (
        jax_loops.MAX_SCORES_PER_BLOCK if is_traced else blocks.max_scores(q, backend)
    )
    if is_empty or (block_size is None and is_few):
        return "dense"
    if is_traced:
        # Without a loop a sharded sequence stays so.
        is_one_block = jax_loops.block_size(spec) >= max(q_len, k_len)
        return "dense" if is_one_block else "jax_loops"
    # Where nothing is computed yet, blocks that no mask leaves out only make a longer program.
    # Dense scores take four times as long to train (2,048 queries of PyTorch).
    is_eager = backend.supports_inplace(q, k, v) or backend.is_concrete(q)
    has_blocks = block_size is not None or spec.knows_visible_keys or is_eager
    return "blocks" if has_blocks else "dense"


def _have_known_chunks(arrays: Iterable[Any], backend: Backend) -> bool:
    """Tell whether all chunks of the arrays among some values have a known length, and elements."""
    chunked = [array for array in arrays if hasattr(array, "chunks")]
    # NaN is a length that is not known.
    return all(n > 0 for array in chunked for lengths in backend.chunks(array) for n in lengths)
