"""Attention on axes (..., sequence, feature): one softmax of all scores, or an online softmax.

The online softmax has a running maximum and weighted sums for each query, and computes the
scores of one block of queries and keys at a time. Masks and biases are computed block by block.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import product
from math import isqrt, log, prod
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings._core.capabilities import (
    Loops,
    bounded,
    compiles_kernels,
    exp_in_place,
    fill_in_place,
    is_concretely_true,
    is_host_array,
    is_readable,
    loops_of,
    multiplies_copies,
    on_the_host,
    records_gradients,
    reshaped,
    strides_of,
)
from positional_embeddings._core.memory import block_lengths, cuts
from positional_embeddings._core.namespace import (
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    without_warnings,
)
from positional_embeddings._core.threads import workers_for
from positional_embeddings.attention.blocks import (
    ALL,
    Indices,
    KeyBlock,
    QueryBlock,
    Visibility,
    plan_blocks,
    slice_sequence,
    slices_of,
)
from positional_embeddings.attention.kernel import (
    masked_scores,
    softmax,
    weighted_without_zeros,
)
from positional_embeddings.attention.loops import (
    Block,
    Stretch,
    block_size_of_loops,
    from_blocks,
    in_blocks,
    plan_loops,
)
from positional_embeddings.masks.ranges import Reach, count_positions

# Scores of a block: few enough for a core's cache, or enough for a launch to be worth it.
HOST_BLOCK = 2**18
ACCELERATOR_BLOCK = 2**24
# ... or few enough for the memory of any device, which a trace does not tell of.
LOOP_BLOCK = 2**22

# Scores are few if the keys have this many times as many numbers.
_FEW = 8

# Without writing to arrays blocks are worth it if all scores are this many times as many.
_LEFT_OUT = 4

# Scores up to this bound need no maximum subtracted before exp, which saves a tenth of the
# time of an attention in blocks, ...
_SMALL_SCORE = 25.0

# ... if no value is larger than this: weighted by exp(_SMALL_SCORE) it might overflow.
_LARGE = 2.0**64

# A softcap so large changes no small score, but rounds it.
_LARGE_SOFTCAP = 2.0**64

# Numbers that are added one by one.
_MOST_SUMMED = 2**13

_INF = float("inf")

Slices: TypeAlias = tuple[slice, ...]

# Returns the mask or the bias between some queries and some keys, with axes (..., query, key).
BlockFunction: TypeAlias = Callable[[Block, Block], Any]


class AttentionInputs(NamedTuple):
    """Queries, keys and values with what their scores are computed from."""

    query: Any  # (..., query, feature)
    key: Any  # (..., key, feature)
    value: Any  # (..., key, feature); None if the weights alone are wanted
    mask: BlockFunction | None
    bias: BlockFunction | None
    visibility: Visibility | None  # None if any query may see any key
    scale: float
    softcap: float | None
    dtype: Any  # to compute in
    device: Any
    on_host: bool
    in_place: bool  # whether results may be written part by part
    may_hide: bool  # whether a key may be hidden from a query

    def seen(self) -> Reach | None:
        """Return which keys the queries see, None if it is not known."""
        if self.visibility is None or 0 in (self.query.shape[-2], self.key.shape[-2]):
            return None
        return self.visibility.reach(((0, self.query.shape[-2]),))

    def without_hidden_keys(self, seen: Reach | None, xp: Namespace) -> "AttentionInputs":
        """Return the inputs with those keys alone that some query sees."""
        if seen is None:
            return self
        keys, inputs = slices_of(seen.at_most), self
        if seen.at_most != ((0, self.key.shape[-2]),):
            inputs = self._replace(
                key=slice_sequence(self.key, -2, keys, xp),
                value=slice_sequence(self.value, -2, keys, xp),
                mask=_of_keys(self.mask, keys),
                bias=_of_keys(self.bias, keys),
                visibility=None,
            )
        if seen.at_least != seen.at_most:
            return inputs
        # All queries see all of them, as the next token of a sequence does.
        return inputs._replace(mask=None, may_hide=inputs.bias is not None)


def _of_keys(given: BlockFunction | None, keys: Indices) -> BlockFunction | None:
    """Return the function that is asked about all keys, when only these are left."""
    return given and (lambda queries, _: given(queries, keys))


class KeyValueBlocks(NamedTuple):
    """Keys and values, from which blocks are cut."""

    key: Any  # finite if a mask or a bias may hide some
    nonfinite: Any  # True for a key that was not finite, (..., 1, key); None if all were
    values: Any  # (..., key, n): those of `_sanitize_values`
    max_square: Any  # squared length of the longest key; None if scores may be large
    headroom: float  # how far weights stay below 1: sums of them are at most 1 / 2


def attend(inputs: AttentionInputs, block_size: int | None, xp: Namespace) -> Any:
    """Return the output, (..., query, feature), computed at once or in blocks.

    A decoding step has many scores, but few compared with the keys, which blocks would copy.
    """
    query, key = inputs.query, inputs.key
    loops = loops_of(query, xp)
    most = HOST_BLOCK if inputs.on_host else ACCELERATOR_BLOCK
    most = LOOP_BLOCK if loops is not None else most
    rows = tuple(m if n == 1 else n for n, m in zip(query.shape[:-2], key.shape[:-2], strict=True))
    seen = inputs.seen()
    k_len = key.shape[-2] if seen is None else count_positions(seen.at_most)
    scores = _count((*rows, query.shape[-2], k_len))
    few = scores <= max(most, _count(key.shape) // _FEW) or (
        not inputs.in_place and loops is None and not _leaves_out_most(inputs, most)
    )
    if (few and block_size is None) or 0 in (scores, inputs.value.shape[-1]):
        return attend_at_once(inputs.without_hidden_keys(seen, xp), xp)
    if loops is not None:
        size = block_size or block_size_of_loops(most, prod(rows))
        if size >= max(query.shape[-2], key.shape[-2]):  # no loop: a sharded sequence stays so
            return attend_at_once(inputs.without_hidden_keys(seen, xp), xp)
        return attend_in_loops(inputs, size, loops, xp)
    return attend_in_blocks(inputs, rows, block_size, most, xp)


def _count(shape: Sequence[Any]) -> Any:
    """Return how many elements a shape holds, NaN if a lazy library does not know."""
    return float("nan") if None in shape else prod(shape)


def _leaves_out_most(inputs: AttentionInputs, most: int) -> bool:
    """Tell whether blocks leave out so many scores that they are worth being traced one by one."""
    if inputs.visibility is None:
        return False
    q_len: int = inputs.query.shape[-2]
    k_len: int = inputs.key.shape[-2]
    plan = plan_blocks(q_len, k_len, None, min(q_len, isqrt(most)), most, inputs.visibility)
    return _LEFT_OUT * sum(block.scores for block in plan) <= q_len * k_len


def attend_at_once(inputs: AttentionInputs, xp: Namespace) -> Any:
    """Return the output from the weights of all keys.

    Where keys may be hidden, they are first taken for finite. If the products are, so is all
    that they were computed from. In a decoding step they are much smaller than the keys and the
    values, so that checking them is cheaper; both are checked together, at one wait for a device.
    Kernels need no such check.
    """
    value = xp.astype(inputs.value, inputs.dtype, copy=False)
    query, key, mask, bias = _operands(inputs, xp)
    if not inputs.may_hide:
        scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
        return _matmul_shared_keys(_softmax(scores, None, mask, bias, inputs, xp), value, xp)
    if compiles_kernels(query):
        weights = _weights_by_kernels(query, key, mask, bias, inputs, xp)
        output = _matmul_shared_keys(weights, value, xp)
        return weighted_without_zeros(output, weights, value, xp)
    if is_readable(query):
        with without_warnings():
            scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
            total = xp.sum(scores)
            weights = _softmax(scores, None, mask, bias, inputs, xp)
            output = _matmul_shared_keys(weights, value, xp)
            is_finite = xp.isfinite(total + xp.sum(output))
        if is_concretely_true(is_finite):
            return output
    key, nonfinite = _sanitize_keys(key, xp)
    scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
    weights = _softmax(scores, nonfinite, mask, bias, inputs, xp)
    values = _sanitize_values(value, xp)
    return _restore_infinities([_matmul_shared_keys(weights, part, xp) for part in values], xp)


def softmax_weights(inputs: AttentionInputs, xp: Namespace) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    query, key, mask, bias = _operands(inputs, xp)
    if inputs.may_hide and compiles_kernels(query):
        return _weights_by_kernels(query, key, mask, bias, inputs, xp)
    nonfinite = None
    scores = _matmul_if_safe(query, xp.matrix_transpose(key), inputs.may_hide, xp)
    if scores is None:
        key, nonfinite = _sanitize_keys(key, xp)
        scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
    return _softmax(scores, nonfinite, mask, bias, inputs, xp)


def _operands(inputs: AttentionInputs, xp: Namespace) -> tuple[Any, Any, Any, Any]:
    """Return the scaled queries, the keys, the mask and the bias.

    A mask for kernels is without what the bias hides, which they tell themselves.
    """
    query, key = (xp.astype(x, inputs.dtype, copy=False) for x in (inputs.query, inputs.key))
    mask, bias = (given and given((ALL,), (ALL,)) for given in (inputs.mask, inputs.bias))
    if compiles_kernels(query):
        bias = _bias_to_add(bias, inputs.dtype, xp)
    else:
        mask, bias = _mask_and_bias(mask, bias, inputs.dtype, xp)
    return query * inputs.scale, key, mask, bias


def _weights_by_kernels(
    query: Any, key: Any, mask: Any, bias: Any, inputs: AttentionInputs, xp: Namespace
) -> Any:
    """Return the softmax of all scores, of which a mask or a bias may hide some."""
    scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
    if inputs.softcap is not None:
        # First NaN for a key that is not finite, of which the cap would make a number.
        scores = _soft_capped(masked_scores(scores, key, None, None, xp), inputs.softcap, xp)
    return _softmax_of_scores(masked_scores(scores, key, mask, bias, xp), xp)


def _softmax(
    products: Any, nonfinite: Any, mask: Any, bias: Any, inputs: AttentionInputs, xp: Namespace
) -> Any:
    """Return the weights from the scaled products, which may be overwritten."""
    scores = _masked_scores(products, nonfinite, mask, bias, inputs.softcap, xp)
    return _softmax_of_scores(scores, xp)


def _softmax_of_scores(scores: Any, xp: Namespace) -> Any:
    if 0 in scores.shape:
        return scores
    if compiles_kernels(scores):
        return softmax(scores, xp)
    highest = xp.max(scores, axis=-1, keepdims=True)
    # A finite maximum has a weight of 1 before the division.
    powers = xp.exp(scores - bounded(highest, float(xp.finfo(scores.dtype).min), None, xp))
    return powers / bounded(xp.sum(powers, axis=-1, keepdims=True), 1.0, None, xp)


def attend_in_blocks(
    inputs: AttentionInputs,
    rows: Sequence[int],
    block_size: int | None,
    most: int,
    xp: Namespace,
    *,
    partial: bool = False,
) -> Any:
    """Return the output, (*rows, query, feature), with about `most` scores at a time.

    With `partial` its features are followed by the total of the weights and by the maximum of
    the scores that they are relative to, so that `merge_partial` can add further keys.
    """
    q_len, k_len = inputs.query.shape[-2], inputs.key.shape[-2]
    q_block = min(q_len, block_size or isqrt(most))
    k_block = min(k_len, block_size or most // q_block)
    lengths = block_lengths(rows, range(len(rows)), max(1, most // (q_block * k_block)))
    if not inputs.in_place:
        lengths = dict(enumerate(rows))
    groups = list(product(*(cuts(n, lengths[axis]) for axis, n in enumerate(rows))))
    query_blocks = plan_blocks(q_len, k_len, block_size, q_block, most, inputs.visibility)

    blocks = _key_value_blocks(inputs, xp)
    if not inputs.in_place:
        parts = []
        for block in query_blocks:
            part = _attend_rows(inputs, blocks, groups, block, xp, partial=partial)[0]
            parts += _split(part, block.queries)
        return xp.concat([part for _, part in sorted(parts, key=lambda at: at[0].start)], axis=-2)

    shape = (*rows, q_len, inputs.value.shape[-1] + (2 if partial else 0))
    output = xp.empty(shape, dtype=inputs.dtype, device=inputs.device)

    def work(piece: tuple[QueryBlock, list[Slices]]) -> None:
        block, some = piece
        parts = _attend_rows(inputs, blocks, some, block, xp, partial=partial)
        for group, part in zip(some, parts, strict=True):
            for queries, means in _split(part, block.queries):
                output[(*group, queries, ALL)] = means

    with workers_for(output) as workers:
        # A piece computes its masks once for all its groups: no more pieces than threads need.
        shares = -(-workers.count // max(1, len(query_blocks)))
        # Causal masks have the most keys last: first, so that no thread waits for one at the end.
        last_first = reversed(query_blocks)
        workers.do(
            work, [(block, groups[i::shares]) for block in last_first for i in range(shares)]
        )
    return output


def attend_in_loops(inputs: AttentionInputs, size: int, loops: Loops, xp: Namespace) -> Any:
    """Return the output, by loops of the library over blocks of `size` queries and keys."""
    plan = plan_loops(inputs.query.shape[-2], inputs.key.shape[-2], size, inputs.visibility)
    blocks = _key_value_blocks(inputs, xp)
    wholes: list[Any] = []
    rests: list[Any] = []
    for array, axis in ((blocks.key, -2), (blocks.values, -2), (blocks.nonfinite, -1)):
        whole, rest = (None, None) if array is None else in_blocks(array, axis, plan.k_block, xp)
        wholes.append(whole)
        rests.append(rest)
    integer = default_integer(xp, inputs.device)
    numbers = xp.asarray(plan.keys, dtype=integer, device=inputs.device)
    visited, visits_rest = (
        xp.asarray(some, dtype=xp.bool, device=inputs.device)
        for some in (plan.visited, plan.visits_rest)
    )
    rest_keys = Stretch(
        xp.asarray(wholes[0].shape[0] * plan.k_block, dtype=integer, device=inputs.device),
        rests[0].shape[-2],
    )

    def of_queries(query: Any, start: Any, which: Any, visits: Any, visits_the_rest: Any) -> Any:
        queries = Stretch(start, query.shape[-2])
        query = xp.astype(query, inputs.dtype, copy=False) * inputs.scale

        def update(state: OnlineSoftmax, keys: Stretch, key: Any, values: Any, nan: Any) -> Any:
            mask, bias = (given and given(queries, keys) for given in (inputs.mask, inputs.bias))
            mask, bias = _mask_and_bias(mask, bias, inputs.dtype, xp)
            scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
            scores = _masked_scores(scores, nan, mask, bias, inputs.softcap, xp)
            return state.update(scores, values, blocks.headroom, xp)

        def visit(state: OnlineSoftmax, element: Any) -> Any:
            number, visits, *arrays = element
            keys = Stretch(number * plan.k_block, plan.k_block)
            seen = loops.cond(visits, lambda s: update(s, keys, *arrays), lambda s: s, state)
            return seen, None

        taken = [None if whole is None else xp.take(whole, which, axis=0) for whole in wholes]
        state = _state_like(query, blocks, xp)
        state, _ = loops.scan(visit, state, (which, visits, *taken))
        if rest_keys.size:
            last = lambda s: update(s, rest_keys, *rests)  # noqa: E731
            state = loops.cond(visits_the_rest, last, lambda s: s, state)
        return _restore_infinities(state.means(inputs.value.shape[-1], xp), xp)

    whole, rest = in_blocks(inputs.query, -2, plan.q_block, xp)
    count = whole.shape[0]
    starts = xp.arange(count + 1, dtype=integer, device=inputs.device) * plan.q_block
    elements = (whole, starts[:-1], numbers[:count, :], visited[:count, :], visits_rest[:count])
    _, output = loops.scan(lambda _, element: (None, of_queries(*element)), None, elements)
    output = from_blocks(output, xp)
    if rest.shape[-2] == 0:
        return output
    last = of_queries(rest, starts[-1], numbers[-1, :], visited[-1, :], visits_rest[-1])
    return xp.concat([output, last], axis=-2)


def _state_like(query: Any, blocks: KeyValueBlocks, xp: Namespace) -> "OnlineSoftmax":
    """Return the state before the first key, sharded over devices as the products will be."""
    product = _matmul_shared_keys(query[..., :1], xp.matrix_transpose(blocks.key[..., :1, :1]), xp)
    weighted = _matmul_shared_keys(product, blocks.values[..., :1, :], xp)
    # Zeros whatever the products are, of which only the place is taken.
    sums, total = (
        xp.where(xp.isnan(like), 0.0, xp.zeros_like(like)) for like in (weighted, product)
    )
    return OnlineSoftmax(total - _INF, sums, total)


def _split(part: Any, queries: Indices) -> list[tuple[slice, Any]]:
    """Return what a block of queries has computed for each slice of them."""
    if len(queries) == 1:
        return [(queries[0], part)]
    split, start = [], 0
    for at in queries:
        stop = start + at.stop - at.start
        split.append((at, part[..., start:stop, :]))
        start = stop
    return split


def _key_value_blocks(inputs: AttentionInputs, xp: Namespace) -> KeyValueBlocks:
    key, value = (_features_contiguous(x, inputs, xp) for x in (inputs.key, inputs.value))
    max_square, nonfinite, values = None, None, [value]
    if inputs.on_host and is_concretely_true(
        (xp.max(value) <= _LARGE) & (xp.min(value) >= -_LARGE)
    ):
        with without_warnings():
            max_square = xp.max(xp.vecdot(key, key))
    elif inputs.may_hide:
        values = _sanitize_values(value, xp)
    # If the sums of squares are finite, so are the keys.
    if inputs.may_hide and (max_square is None or not is_concretely_true(xp.isfinite(max_square))):
        (key, nonfinite), max_square = _sanitize_keys(key, xp), None
    if inputs.bias is not None:
        max_square = None
    together = values[0] if len(values) == 1 else xp.concat(values, axis=-1)
    return KeyValueBlocks(key, nonfinite, together, max_square, log(2 * key.shape[-2]))


def _attend_rows(
    inputs: AttentionInputs,
    blocks: KeyValueBlocks,
    groups: Sequence[Slices],
    block: QueryBlock,
    xp: Namespace,
    *,
    partial: bool,
) -> list[Any]:
    """Return the output of a block of queries, one for each group of rows.

    Hidden blocks of keys are skipped, but for the last one if gradients are recorded: the
    zeros of a query that attends to nothing have a gradient, too.
    """
    key_blocks, required = block.key_blocks, None
    if records_gradients(inputs.query):
        key_blocks = key_blocks or (KeyBlock((slice(0, 1),), is_masked=True),)
        required = key_blocks[-1]
    states = [_start(inputs, blocks, group, block.queries, xp) for group in groups]
    for key_block in key_blocks:
        keys, hides = key_block.keys, inputs.mask if key_block.is_masked else None
        mask, bias = (given and given(block.queries, keys) for given in (hides, inputs.bias))
        # A mask that all groups share is checked for hidden keys once.
        shared = all(set(x.shape[:-2]) <= {1} for x in (mask, bias) if x is not None)
        planned = inputs.visibility is not None
        of_all = _visible(mask, bias, inputs.dtype, xp, planned=planned) if shared else None
        for i, (group, (query, state)) in enumerate(zip(groups, states, strict=True)):
            here = (*group, ALL, ALL)
            visible, own_mask, own_bias = of_all or _visible(
                slice_broadcast(mask, here),
                slice_broadcast(bias, here),
                inputs.dtype,
                xp,
                planned=planned,
            )
            if not visible and key_block is not required:
                continue
            key = slice_sequence(slice_broadcast(blocks.key, here), -2, keys, xp)
            nonfinite = slice_sequence(slice_broadcast(blocks.nonfinite, here), -1, keys, xp)
            values = slice_sequence(slice_broadcast(blocks.values, here), -2, keys, xp)
            scores = _matmul_shared_keys(query, xp.matrix_transpose(key), xp)
            scores = _masked_scores(scores, nonfinite, own_mask, own_bias, inputs.softcap, xp)
            states[i] = query, state.update(scores, values, blocks.headroom, xp)
            del scores  # so that the next ones take the same memory, which is in the cache
    features = inputs.value.shape[-1]
    outputs = [_restore_infinities(state.means(features, xp), xp) for _, state in states]
    if not partial:
        return outputs
    return [
        xp.concat([output, state.total, state.maximum(xp)], axis=-1)
        for output, (_, state) in zip(outputs, states, strict=True)
    ]


def merge_partial(parts: Any, may_hide: bool, xp: Namespace) -> Any:  # noqa: FBT001
    """Return one partial output from those of several keys, (..., query, part, feature + 2)."""
    means, total, maximum = parts[..., :-2], parts[..., -2:-1], parts[..., -1:]
    highest = xp.max(maximum, axis=-2, keepdims=True)
    weights = total * xp.exp(maximum - xp.where(highest == -_INF, 0.0, highest))
    total = xp.sum(weights, axis=-2, keepdims=True)
    # Divided first: a sum of several large values might overflow.
    shares = weights / xp.where(total == 0, 1.0, total)
    weighted = shares * means
    if may_hide:  # what has no weight may be infinite
        weighted = xp.where(shares == 0, 0.0, weighted)
    return xp.concat([xp.sum(weighted, axis=-2, keepdims=True), total, highest], axis=-1)


def _start(
    inputs: AttentionInputs, blocks: KeyValueBlocks, group: Slices, queries: Indices, xp: Namespace
) -> tuple[Any, "OnlineSoftmax"]:
    """Return the scaled queries of a block, and their state before the first key."""
    query = slice_sequence(slice_broadcast(inputs.query, (*group, ALL, ALL)), -2, queries, xp)
    query = _features_contiguous(query, inputs, xp) * inputs.scale
    shape = (*(rows.stop - rows.start for rows in group), query.shape[-2])
    like = {"dtype": inputs.dtype, "device": inputs.device}
    sums = (xp.zeros((*shape, n), **like) for n in (blocks.values.shape[-1], 1))
    if blocks.max_square is not None:
        bound = xp.max(xp.vecdot(query, query)) * blocks.max_square
        if is_concretely_true(bound <= _SMALL_SCORE**2):
            return query, OnlineSoftmax(None, *sums)
    return query, OnlineSoftmax(xp.full((*shape, 1), -_INF, **like), *sums)


class OnlineSoftmax(NamedTuple):
    """Running maximum of the scores of each query, and sums weighted by exp(score - maximum).

    Algorithm 3 of Milakov and Gimelshein (2018). The maximum is kept `headroom` above the
    highest score, so that no sum of values near the largest float overflows.
    """

    running_max: Any  # (..., query, 1); None if scores are so small that 0 does
    sums: Any  # (..., query, n): of the weighted values
    total: Any  # (..., query, 1): of the weights

    def update(self, scores: Any, values: Any, headroom: float, xp: Namespace) -> "OnlineSoftmax":
        """Return the state after a block of keys; `scores` may be overwritten."""
        if self.running_max is None:
            weights = exp_in_place(scores, xp)
            sums, total = _weighted_sums(weights, values, xp)
            return OnlineSoftmax(None, self.sums + sums, self.total + total)
        highest = xp.max(scores, axis=-1, keepdims=True) + headroom
        running_max = xp.maximum(self.running_max, highest)
        finite_max = bounded(running_max, float(xp.finfo(scores.dtype).min), None, xp)
        decay = xp.exp(self.running_max - finite_max)
        weights = exp_in_place(scores - finite_max, xp)
        sums, total = _weighted_sums(weights, values, xp)
        return OnlineSoftmax(running_max, self.sums * decay + sums, self.total * decay + total)

    def maximum(self, xp: Namespace) -> Any:
        """Return the maximum that the sums are relative to, minus infinity if no key was seen."""
        maximum = xp.zeros_like(self.total) if self.running_max is None else self.running_max
        return xp.where(self.total == 0, -_INF, maximum)

    def means(self, features: int, xp: Namespace) -> list[Any]:
        """Return the weighted means of the values, zeros if every key was hidden."""
        means = self.sums / xp.where(self.total == 0, 1.0, self.total)
        return [means[..., i : i + features] for i in range(0, means.shape[-1], features)]


def _weighted_sums(weights: Any, values: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return the sums of the values that have these weights, and of the weights."""
    if multiplies_copies(weights):
        total = xp.sum(weights, axis=-1, keepdims=True)
        return _matmul_shared_keys(weights, values, xp), total
    # A product with ones adds up the rows faster than `sum`.
    ones = xp.ones((weights.shape[-1], 1), dtype=weights.dtype, device=device_of(weights))
    return weights @ values, weights @ ones


def slice_broadcast(array: Any, where: Slices) -> Any:
    """Slice an array, or None, but for the axes of length 1, which broadcast."""
    if array is None:
        return None
    return array[tuple(ALL if n == 1 else at for n, at in zip(array.shape, where, strict=True))]


def _features_contiguous(array: Any, inputs: AttentionInputs, xp: Namespace) -> Any:
    """Return an array to compute with, its features contiguous in memory as BLAS wants them."""
    array = xp.astype(array, inputs.dtype, copy=False)
    strides = strides_of(array)
    if strides is None or not inputs.in_place:
        return array
    rows = xp.empty(array.shape, dtype=inputs.dtype, device=inputs.device)
    if strides[-1] == strides_of(rows)[-1]:  # type: ignore[index]
        return array
    rows[...] = array
    return rows


# 0 * NaN is NaN: a hidden key or value that is not finite would reach the output of a product.


def _sanitize_keys(key: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return keys with 0 for what is not finite, and which keys had such, None if none."""
    finite = xp.isfinite(key)
    if is_concretely_true(xp.all(finite)):
        return key, None
    return xp.where(finite, key, 0.0), ~xp.all(finite, axis=-1)[..., None, :]


def _sanitize_values(value: Any, xp: Namespace) -> list[Any]:
    """Return values with 0 for what is not finite, and 1 for each of these.

    The ones come in two arrays, for infinity and minus infinity; NaN counts as both.
    """
    finite = xp.isfinite(value)
    if is_concretely_true(xp.all(finite)):
        return [value]
    nan = xp.isnan(value)
    positive_inf, negative_inf = (
        xp.astype(nan | (value == infinity), value.dtype) for infinity in (_INF, -_INF)
    )
    return [xp.where(finite, value, 0.0), positive_inf, negative_inf]


def _restore_infinities(means: Sequence[Any], xp: Namespace) -> Any:
    """Return the means of `_sanitize_values` as one output, not finite where that has a weight."""
    output = means[0]
    if len(means) == 1:
        return output
    positive_inf, negative_inf = (mean > 0 for mean in means[1:])
    output = xp.where(positive_inf, _INF, output)
    output = xp.where(negative_inf, -_INF, output)
    return xp.where(positive_inf & negative_inf, float("nan"), output)


def _visible(
    mask: Any, bias: Any, dtype: Any, xp: Namespace, *, planned: bool
) -> tuple[bool, Any, Any]:
    """Return whether any query may attend to any key, then what `_mask_and_bias` returns.

    Blocks that are `planned` by a mask are seldom hidden: a device is not waited for.
    """
    mask, bias = _mask_and_bias(mask, bias, dtype, xp)
    if mask is None or (planned and not on_the_host(mask)):
        return True, mask, bias
    return not is_concretely_true(xp.all(mask)), mask, bias


def _mask_and_bias(mask: Any, bias: Any, dtype: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return the mask with what a bias of minus infinity hides, None if nothing, and the bias.

    Whether that is nothing is asked to save time only: a device is not waited for.
    """
    if bias is not None:
        bias = _bias_to_add(bias, dtype, xp)
        masked = bias == -_INF
        mask = masked if mask is None else mask | masked
    if mask is not None and on_the_host(mask) and is_concretely_true(~xp.any(mask)):
        mask = None
    return mask, bias


def _bias_to_add(bias: Any, dtype: Any, xp: Namespace) -> Any:
    """Return a bias, or None, in the dtype of the scores; what is finite stays so."""
    if bias is None:
        return None
    if dtype == xp.float32 and dtype_name(bias.dtype) == "float64":
        # Its large numbers neither hide a key nor outweigh all others.
        largest = xp.finfo(dtype).max
        too_large = (xp.abs(bias) > largest) & ~xp.isinf(bias)
        bias = xp.where(too_large, xp.sign(bias) * largest, bias)
    return xp.astype(bias, dtype, copy=False)


def _masked_scores(
    scores: Any, nonfinite: Any, mask: Any, bias: Any, softcap: float | None, xp: Namespace
) -> Any:
    """Return the scores from the scaled products, minus infinity where a key is hidden.

    The products may be overwritten.
    """
    if nonfinite is not None:
        scores = xp.where(nonfinite, float("nan"), scores)
    if softcap is not None:
        scores = _soft_capped(scores, softcap, xp)
    if bias is not None:
        scores = scores + bias
    return scores if mask is None else fill_in_place(scores, mask, -_INF, xp)


def _soft_capped(scores: Any, softcap: float, xp: Namespace) -> Any:
    """Return ``softcap * tanh(scores / softcap)``."""
    if softcap > float(xp.finfo(scores.dtype).max):
        return scores
    capped = softcap * xp.tanh(scores / softcap)
    if softcap < _LARGE_SOFTCAP:
        return capped
    # A score divided by a large cap may underflow; the cap changes no such score.
    return xp.where(xp.abs(scores) < softcap * 2.0**-32, scores, capped)


def _matmul_if_safe(rows: Any, table: Any, may_hide: bool, xp: Namespace) -> Any:  # noqa: FBT001
    """Return ``rows @ table``, or None if keys may be hidden and it is not known to be finite.

    If the product is finite, so is all that it was computed from. In a decoding step it is much
    smaller than the keys and the values, so that checking it is cheaper than checking these.
    """
    if may_hide and not is_readable(rows):
        return None
    with without_warnings() if may_hide else nullcontext():
        result = _matmul_shared_keys(rows, table, xp)
    safe = not may_hide or is_concretely_true(xp.all(xp.isfinite(result)))
    return result if safe else None


def _matmul_row(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``.

    NumPy's product of one row with a table that BLAS does not take, since neither of its
    axes is contiguous, takes ten times as long as its sum of products.
    """
    if multiplies_copies(table):
        return _matmul_contiguous(rows, table, xp)
    one_row = is_host_array(table) and rows.shape[-2] == 1
    if not one_row or table.itemsize in map(abs, table.strides[-2:]):
        return rows @ table
    # In parts, so that no long sum is rounded at every step.
    total = xp.einsum("...ij,...jk->...ik", rows[..., :_MOST_SUMMED], table[..., :_MOST_SUMMED, :])
    for start in range(_MOST_SUMMED, table.shape[-2], _MOST_SUMMED):
        part = slice(start, start + _MOST_SUMMED)
        total += xp.einsum("...ij,...jk->...ik", rows[..., part], table[..., part, :])
    return total


def _matmul_contiguous(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table`` where that copies a transposed table: not one of all keys."""
    few = rows.shape[-2] < rows.shape[-1]
    if table.ndim == 2 or not few or table.strides[-2] != table.itemsize:
        return rows @ table
    key, query = xp.matrix_transpose(table), xp.matrix_transpose(rows)
    return xp.matrix_transpose(key @ query)


def _matmul_shared_keys(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``, in one product for query heads that share a key head."""
    shared = table.ndim > 2 and table.shape[-3] == 1 and rows.shape[-3] != 1
    if not shared:
        return _matmul_row(rows, table, xp)
    *others, groups, count, inner = rows.shape
    merged = reshaped(rows, (*others, groups * count, inner), xp)
    result = _matmul_row(merged, table[..., 0, :, :], xp)
    return reshaped(result, (*result.shape[:-2], groups, count, table.shape[-1]), xp)
