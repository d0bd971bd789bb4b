"""Attention in blocks: an online softmax over the visible keys of each block of queries."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import log, prod
from typing import NamedTuple

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_lengths, block_slices
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.arrays.threads import run_in_threads, threads_for
from positional_embeddings.attention.layout import slice_broadcast
from positional_embeddings.attention.plan import KeyBlock, QueryBlock, batch_lengths, plan_blocks
from positional_embeddings.attention.scores import ScoreSpec, without_nonfinite
from positional_embeddings.attention.softmax import OnlineSoftmax, query_key_products
from positional_embeddings.masks.index_ranges import IndexRanges, index_ranges

# Scores of a block: few enough for a core's cache (`benchmarks/bench.py`), or enough to be worth
# a launch (`benchmarks/bench_gpu.py`).
MAX_SCORES_ON_HOST = 2**18
MAX_SCORES_ON_DEVICE = 2**24

# Scores up to this bound need no maximum subtracted before exp, which saves a tenth of the time
# of attention in blocks.
_SMALL_SCORE = 25.0

# A larger value might overflow if its weight is exp(_SMALL_SCORE).
_MAX_SAFE_VALUE = 2.0**64

# Placeholder for a block of queries without visible keys.
_FIRST_KEY = KeyBlock(index_ranges((0, 1)))

Slices = tuple[slice, ...]


class BlockInputs(NamedTuple):
    """Arrays that blocks are cut from."""

    spec: ScoreSpec
    query: Array
    key: Array  # finite if `spec.has_mask_or_bias`; likewise `value`
    value: Array
    # True for keys that are not finite or have such a value, (..., 1, key); None if all are finite.
    nonfinite: Array
    max_square: Array  # squared length of the longest key; None if scores may be large
    # Distance of the maximum from the highest score, so that the sum of all weights is at most 1/2.
    headroom: float


class _BatchGroup(NamedTuple):
    """Scaled queries of a part of the batch, and their state after some keys."""

    batch_slices: Slices
    query: Array  # scaled
    state: OnlineSoftmax

    def part(self, index: slice) -> "_BatchGroup":
        """Return the state of some of the queries."""
        return _BatchGroup(self.batch_slices, self.query[..., index, :], self.state.part(index))


def max_scores(query: Array, backend: Backend) -> int:
    """Return the maximum number of scores of a block, on the device of the queries."""
    return MAX_SCORES_ON_HOST if backend.is_on_host(query) else MAX_SCORES_ON_DEVICE


def attend_blocks(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and `lse` if `spec.with_lse`, else None."""
    blocks, inputs = _query_blocks(spec, query, key), block_inputs(spec, query, key, value)
    if not spec.with_lse:
        return _compute_all(inputs, blocks, OnlineSoftmax.means), None
    output_and_lse = _compute_all(inputs, blocks, OnlineSoftmax.means_and_lse, extra_columns=1)
    return output_and_lse[..., :-1], output_and_lse[..., -1:]


def partial_sums(spec: ScoreSpec, query: Array, key: Array, value: Array) -> Array:
    """Return a packed `OnlineSoftmax`, to be merged with sums over other keys."""
    blocks, inputs = _query_blocks(spec, query, key), block_inputs(spec, query, key, value)
    return _compute_all(inputs, blocks, OnlineSoftmax.packed, extra_columns=2)


def _query_blocks(spec: ScoreSpec, query: Array, key: Array) -> list[QueryBlock]:
    """Return the blocks of queries, each with its visible keys."""
    max_block_scores, count = max_scores(query, spec.backend), prod(batch_lengths(query, key))
    visible_keys = spec.visible_keys_of if spec.has_visible_ranges else None
    lengths = query.shape[-2], key.shape[-2], spec.block_size
    return plan_blocks(*lengths, max_block_scores, visible_keys, spec.global_queries(), count)


def _compute_all(
    inputs: BlockInputs,
    blocks: list[QueryBlock],
    result_of: Callable[[OnlineSoftmax, Backend], Array],
    extra_columns: int = 0,
) -> Array:
    """Return a result of the states of all queries, (..., query, column).

    The columns are the features of the values and the `extra_columns`.
    """
    backend, query, value = inputs.spec.backend, inputs.query, inputs.value
    lengths = batch_lengths(query, inputs.key)
    if not backend.supports_inplace(query, inputs.key, value):
        full_batch = tuple(slice(0, n) for n in lengths)
        parts: list[tuple[slice, Array]] = []
        for block in blocks:
            for queries, (state,) in _attend_groups(inputs, [full_batch], block):
                parts += queries.parts(result_of(state, backend))
        parts.sort(key=lambda part: part[0].start)
        return backend.xp.concat([result for _, result in parts], axis=-2)

    # Divide the batch into groups, so that no block exceeds the maximum number of scores.
    sizes = (
        queries.size * key_block.keys.size
        for block in blocks
        for queries, key_block in block.blocks()
    )
    max_block_scores = max(1, max_scores(query, backend) // max(sizes, default=1))
    group_lengths = block_lengths(lengths, range(len(lengths)), max_block_scores)
    groups = list(
        product(*(block_slices(n, group_lengths[axis]) for axis, n in enumerate(lengths)))
    )
    shape = (*lengths, query.shape[-2], value.shape[-1] + extra_columns)
    output = backend.xp.empty(shape, dtype=backend.dtype, device=backend.device)

    def compute_block(piece: tuple[QueryBlock, list[Slices]]) -> None:
        block, block_groups = piece
        for queries, states in _attend_groups(inputs, block_groups, block):
            for group, state in zip(block_groups, states, strict=True):
                for index, result in queries.parts(result_of(state, backend)):
                    output[(*group, index, slice(None))] = result

    threads, blas = threads_for(output)
    # Use only as many pieces as there are threads: each piece computes its masks once.
    shares = -(-threads // max(1, len(blocks)))
    # The largest blocks are first, so that no thread waits for a large block at the end.
    largest_first = sorted(blocks, key=QueryBlock.count_scores, reverse=True)
    pieces = [(block, groups[i::shares]) for block in largest_first for i in range(shares)]
    run_in_threads(compute_block, pieces, threads, blas)
    return output


def block_inputs(spec: ScoreSpec, query: Array, key: Array, value: Array) -> BlockInputs:
    """Return the arrays that blocks are cut from."""
    backend = spec.backend
    xp = backend.xp
    key, value = (_features_contiguous(x, backend) for x in (key, value))
    max_square = nonfinite = None
    if backend.is_on_host(key) and backend.concrete_bool(
        (xp.max(value) <= _MAX_SAFE_VALUE) & (xp.min(value) >= -_MAX_SAFE_VALUE)
    ):
        max_square = xp.max(xp.vecdot(key, key))
    # If the sums of squares are finite, so are the keys.
    is_finite = max_square is not None and backend.concrete_bool(xp.isfinite(max_square))
    if spec.has_mask_or_bias and not is_finite:
        (key, value, nonfinite), max_square = without_nonfinite(key, value, backend), None
    if not (spec.bias is None and spec.softcap is None and _are_small(spec.sinks, backend)):
        max_square = None
    headroom = log(2 * spec.layout.keys.size)
    return BlockInputs(spec, query, key, value, nonfinite, max_square, headroom)


def _attend_groups(
    inputs: BlockInputs, groups: Sequence[Slices], block: QueryBlock
) -> Iterator[tuple[IndexRanges, list[OnlineSoftmax]]]:
    """Yield queries of a block, and their states after all keys, one for each batch group.

    One block is computed even if masked, when gradients are recorded. The zeros of a query without
    visible keys have a gradient.
    """
    if inputs.spec.backend.records_gradients:
        *first_blocks, last = block.key_blocks or (_FIRST_KEY,)
        block = block._replace(key_blocks=(*first_blocks, last._replace(is_required=True)))
    batch_groups = [_initial_state(inputs, group, block.queries) for group in groups]
    yield from _accumulate_keys(inputs, batch_groups, block)


def _initial_state(inputs: BlockInputs, batch_slices: Slices, queries: IndexRanges) -> _BatchGroup:
    """Return the scaled queries of a block, and their state before the first key."""
    spec, backend, xp = inputs.spec, inputs.spec.backend, inputs.spec.backend.xp
    query = queries.take(slice_broadcast(inputs.query, batch_slices), -2, backend)
    query = _features_contiguous(query, backend) * spec.scale
    shape = (*(part.stop - part.start for part in batch_slices), query.shape[-2])
    options = {"dtype": backend.dtype, "device": backend.device}
    sums, total = (xp.zeros((*shape, n), **options) for n in (inputs.value.shape[-1], 1))
    running_max = xp.full((*shape, 1), -float("inf"), **options)
    if inputs.max_square is not None:
        bound = xp.max(xp.vecdot(query, query)) * inputs.max_square
        if backend.concrete_bool(bound <= _SMALL_SCORE**2):
            query, running_max = query * backend.exponent_unit, None
    sinks = slice_broadcast(spec.sinks, batch_slices)
    state = OnlineSoftmax(sums, total, running_max).with_sinks(sinks, backend)
    return _BatchGroup(batch_slices, query, state)


def _accumulate_keys(
    inputs: BlockInputs, batch_groups: list[_BatchGroup], block: QueryBlock
) -> Iterator[tuple[IndexRanges, list[OnlineSoftmax]]]:
    """Yield queries of a block, and their states after its keys and the keys of its parts."""
    spec, backend = inputs.spec, inputs.spec.backend
    for keys, is_masked, is_required in block.key_blocks:
        mask = spec.mask_block(block.queries, keys) if is_masked else None
        bias = spec.bias_block(block.queries, keys)
        is_shared = all(x is None or set(x.shape[:-2]) <= {1} for x in (mask, bias))
        for i, (batch_slices, query, state) in enumerate(batch_groups):
            if i == 0 or not is_shared:
                group_mask, group_bias = spec.mask_and_bias(
                    slice_broadcast(mask, batch_slices), slice_broadcast(bias, batch_slices)
                )
                is_fully_masked, group_mask = _check_mask(group_mask, spec)
            if is_fully_masked and not is_required:
                continue
            key, value = (
                keys.take(slice_broadcast(x, batch_slices), -2, backend)
                for x in (inputs.key, inputs.value)
            )
            nonfinite = keys.take(slice_broadcast(inputs.nonfinite, batch_slices), -1, backend)
            products = query_key_products(query, key, backend)
            scores = spec.scores_from_products(products, nonfinite, None, group_bias)
            new_state = state.update(scores, group_mask, value, inputs.headroom, backend)
            batch_groups[i] = _BatchGroup(batch_slices, query, new_state)
            del products, scores  # the next block then uses the same memory, which is in the cache
    if not block.parts:
        yield block.queries, [state for _, _, state in batch_groups]
    start = 0
    for part in block.parts:
        stop = start + part.queries.size
        groups = [group.part(slice(start, stop)) for group in batch_groups]
        yield from _accumulate_keys(inputs, groups, part)
        start = stop


def _check_mask(mask: Array, spec: ScoreSpec) -> tuple[bool, Array]:
    """Return whether all keys are masked, and the mask, None if all keys are visible.

    These checks save time. On a device a check synchronizes. There it applies only to unplanned
    blocks: planned blocks are rarely fully masked.
    """
    backend = spec.backend
    if mask is None:
        return False, None
    values = backend.values_on_host(mask)
    if values is None:
        is_checked = not spec.has_visible_ranges
        return is_checked and backend.concrete_bool(backend.xp.all(mask)), mask
    return bool(values.all()), mask if values.any() else None


def _are_small(sinks: Array, backend: Backend) -> bool:
    """Return whether sinks are None, or need no maximum subtracted before exp."""
    return sinks is None or backend.concrete_bool(
        backend.xp.max(backend.xp.abs(sinks)) <= _SMALL_SCORE
    )


def _features_contiguous(array: Array, backend: Backend) -> Array:
    """Return an array in the compute dtype, with features contiguous in memory for BLAS."""
    xp = backend.xp
    array = backend.astype(array, backend.dtype)
    strides = backend.strides(array)
    if strides is None or not backend.supports_inplace(array):
        return array
    contiguous = xp.empty(array.shape, dtype=backend.dtype, device=backend.device)
    if strides[-1] == backend.strides(contiguous)[-1]:  # type: ignore[index]
        return array
    contiguous[...] = array
    return contiguous
