"""Attention in blocks: an online softmax over the keys that each block of queries sees."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import log, prod
from typing import NamedTuple

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_lengths, cuts
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.arrays.threads import share, threads_for
from positional_embeddings.attention.layout import slice_broadcast
from positional_embeddings.attention.plan import KeyBlock, QueryBlock, batch_lengths, plan
from positional_embeddings.attention.scores import ScoreSpec, without_nonfinite
from positional_embeddings.attention.softmax import OnlineSoftmax, products
from positional_embeddings.masks.spans import IndexRanges, index_ranges

# Scores of a block: few enough for a core's cache (`benchmarks/bench.py`), or enough to be worth
# a launch (`benchmarks/bench_gpu.py`).
MAX_SCORES_ON_HOST = 2**18
MAX_SCORES_ON_DEVICE = 2**24

# Scores up to this bound need no maximum subtracted before exp, which saves a tenth of the
# time of an attention in blocks, ...
_SMALL_SCORE = 25.0

# ... if no value is larger than this: weighted by exp(_SMALL_SCORE) it might overflow.
_LARGE = 2.0**64

# Stands in where no query of a block sees any key.
_FIRST_KEY = KeyBlock(index_ranges((0, 1)))

Slices = tuple[slice, ...]


class Inputs(NamedTuple):
    """What blocks are cut from."""

    spec: ScoreSpec
    query: Array
    key: Array  # finite if a mask or a bias may hide some, as the values are
    value: Array
    # True for a key that was not finite, or its value, (..., 1, key); None if there is none.
    nonfinite: Array
    max_square: Array  # squared length of the longest key; None if scores may be large
    # How far the maximum is kept above the highest score, so that the weights of all keys together
    # are at most 1 / 2.
    headroom: float


class _Rows(NamedTuple):
    """Queries of a group of rows, and what is known of them after some keys."""

    group: Slices
    query: Array  # scaled
    state: OnlineSoftmax

    def part(self, at: slice) -> "_Rows":
        """Return the same rows for some of the queries."""
        return _Rows(self.group, self.query[..., at, :], self.state.part(at))


def max_scores(query: Array, backend: Backend) -> int:
    """Return how many scores a block has at most, on the device of the queries."""
    return MAX_SCORES_ON_HOST if backend.is_on_host(query) else MAX_SCORES_ON_DEVICE


def attend_blocks(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and the logarithm of the sum if it is asked for."""
    blocks, inputs = _query_blocks(spec, query, key), inputs_of(spec, query, key, value)
    if not spec.with_lse:
        return _joined(inputs, blocks, OnlineSoftmax.means), None
    both = _joined(inputs, blocks, OnlineSoftmax.means_and_lse, more=1)
    return both[..., :-1], both[..., -1:]


def partial_sums(spec: ScoreSpec, query: Array, key: Array, value: Array) -> Array:
    """Return what other keys can be added to, the `columns` of an `OnlineSoftmax`."""
    blocks, inputs = _query_blocks(spec, query, key), inputs_of(spec, query, key, value)
    return _joined(inputs, blocks, OnlineSoftmax.columns, more=2)


def _query_blocks(spec: ScoreSpec, query: Array, key: Array) -> list[QueryBlock]:
    """Return the blocks of queries, each with the keys that it sees."""
    most, count = max_scores(query, spec.backend), prod(batch_lengths(query, key))
    visible_keys = spec.visible_keys if spec.knows_visible_keys else None
    lengths = query.shape[-2], key.shape[-2], spec.block_size
    return plan(*lengths, most, visible_keys, spec.global_queries(), count)


def _joined(
    inputs: Inputs,
    blocks: list[QueryBlock],
    result_of: Callable[[OnlineSoftmax, Backend], Array],
    more: int = 0,
) -> Array:
    """Return what the states of all queries give, (..., query, column).

    There are as many columns as features of the values, and some `more`.
    """
    backend, query, value = inputs.spec.backend, inputs.query, inputs.value
    rows = batch_lengths(query, inputs.key)
    if not backend.supports_inplace(query, inputs.key, value):
        whole = tuple(slice(0, n) for n in rows)
        parts: list[tuple[slice, Array]] = []
        for block in blocks:
            for queries, (state,) in _attend_rows(inputs, [whole], block):
                parts += queries.parts(result_of(state, backend))
        parts.sort(key=lambda part: part[0].start)
        return backend.xp.concat([result for _, result in parts], axis=-2)

    # As many rows at a time as the largest block leaves room for.
    sizes = (queries.size * at.keys.size for block in blocks for queries, at in block.blocks())
    most = max(1, max_scores(query, backend) // max(sizes, default=1))
    lengths = block_lengths(rows, range(len(rows)), most)
    groups = list(product(*(cuts(n, lengths[axis]) for axis, n in enumerate(rows))))
    shape = (*rows, query.shape[-2], value.shape[-1] + more)
    output = backend.xp.empty(shape, dtype=backend.dtype, device=backend.device)

    def work(piece: tuple[QueryBlock, list[Slices]]) -> None:
        block, some = piece
        for queries, states in _attend_rows(inputs, some, block):
            for group, state in zip(some, states, strict=True):
                for at, result in queries.parts(result_of(state, backend)):
                    output[(*group, at, slice(None))] = result

    threads, blas = threads_for(output)
    # A piece computes its masks once for all its groups: no more pieces than threads need.
    shares = -(-threads // max(1, len(blocks)))
    # The largest first, so that no thread waits for one at the end.
    largest_first = sorted(blocks, key=QueryBlock.count_scores, reverse=True)
    pieces = [(block, groups[i::shares]) for block in largest_first for i in range(shares)]
    share(work, pieces, threads, blas)
    return output


def inputs_of(spec: ScoreSpec, query: Array, key: Array, value: Array) -> Inputs:
    """Return what to cut blocks from."""
    backend = spec.backend
    xp = backend.xp
    key, value = (_features_contiguous(x, backend) for x in (key, value))
    max_square = nonfinite = None
    if backend.is_on_host(key) and backend.concrete_bool(
        (xp.max(value) <= _LARGE) & (xp.min(value) >= -_LARGE)
    ):
        max_square = xp.max(xp.vecdot(key, key))
    # If the sums of squares are finite, so are the keys.
    if spec.may_hide and (max_square is None or not backend.concrete_bool(xp.isfinite(max_square))):
        (key, value, nonfinite), max_square = without_nonfinite(key, value, backend), None
    if not (spec.bias is None and spec.softcap is None and _are_small(spec.sinks, backend)):
        max_square = None
    headroom = log(2 * spec.layout.keys.size)
    return Inputs(spec, query, key, value, nonfinite, max_square, headroom)


def _attend_rows(
    inputs: Inputs, groups: Sequence[Slices], block: QueryBlock
) -> Iterator[tuple[IndexRanges, list[OnlineSoftmax]]]:
    """Yield queries of a block, and their states after all keys, one for each group of rows.

    Hidden blocks of keys are skipped, but for one if gradients are recorded: the zeros of a query
    that attends to nothing have a gradient, too.
    """
    if inputs.spec.backend.records_gradients:
        *others, last = block.key_blocks or (_FIRST_KEY,)
        block = block._replace(key_blocks=(*others, last._replace(is_required=True)))
    rows = [_start(inputs, group, block.queries) for group in groups]
    yield from _meet_keys(inputs, rows, block)


def _start(inputs: Inputs, group: Slices, queries: IndexRanges) -> _Rows:
    """Return the scaled queries of a block, and their state before the first key."""
    spec, backend, xp = inputs.spec, inputs.spec.backend, inputs.spec.backend.xp
    query = queries.take(slice_broadcast(inputs.query, group), -2, backend)
    query = _features_contiguous(query, backend) * spec.scale
    shape = (*(rows.stop - rows.start for rows in group), query.shape[-2])
    like = {"dtype": backend.dtype, "device": backend.device}
    sums, total = (xp.zeros((*shape, n), **like) for n in (inputs.value.shape[-1], 1))
    running_max = xp.full((*shape, 1), -float("inf"), **like)
    if inputs.max_square is not None:
        bound = xp.max(xp.vecdot(query, query)) * inputs.max_square
        if backend.concrete_bool(bound <= _SMALL_SCORE**2):
            query, running_max = query * backend.exponent_unit, None
    sinks = slice_broadcast(spec.sinks, group)
    state = OnlineSoftmax(sums, total, running_max).with_sinks(sinks, backend)
    return _Rows(group, query, state)


def _meet_keys(
    inputs: Inputs, rows: list[_Rows], block: QueryBlock
) -> Iterator[tuple[IndexRanges, list[OnlineSoftmax]]]:
    """Yield queries of a block, and their states after its keys and the keys of its parts."""
    spec, backend = inputs.spec, inputs.spec.backend
    for keys, is_masked, is_required in block.key_blocks:
        mask = spec.mask_between(block.queries, keys) if is_masked else None
        bias = spec.bias_between(block.queries, keys)
        is_shared = all(x is None or set(x.shape[:-2]) <= {1} for x in (mask, bias))
        for i, (group, query, state) in enumerate(rows):
            if i == 0 or not is_shared:
                parts = slice_broadcast(mask, group), slice_broadcast(bias, group)
                hidden, bias_to_add = spec.hidden_and_bias(*parts)
                hides_all, hidden = _what_it_hides(hidden, spec)
            if hides_all and not is_required:
                continue
            both = inputs.key, inputs.value
            key, value = (keys.take(slice_broadcast(x, group), -2, backend) for x in both)
            nonfinite = keys.take(slice_broadcast(inputs.nonfinite, group), -1, backend)
            logits = spec.from_products(products(query, key, backend), nonfinite, None, bias_to_add)
            after = state.update(logits, hidden, value, inputs.headroom, backend)
            rows[i] = _Rows(group, query, after)
            del logits  # so that the next ones take the same memory, which is in the cache
    if not block.parts:
        yield block.queries, [state for _, _, state in rows]
    start = 0
    for part in block.parts:
        stop = start + part.queries.size
        yield from _meet_keys(inputs, [own.part(slice(start, stop)) for own in rows], part)
        start = stop


def _what_it_hides(mask: Array, spec: ScoreSpec) -> tuple[bool, Array]:
    """Tell whether a mask hides all keys from all queries; return it, or None if it hides none.

    That is asked to save time. On a device, which is waited for, it is asked only where no mask
    planned the blocks: blocks that a mask planned are seldom hidden as a whole.
    """
    backend = spec.backend
    if mask is None:
        return False, None
    on_host = backend.is_on_host(mask)
    if on_host and backend.concrete_bool(~backend.xp.any(mask)):
        return False, None
    return (on_host or not spec.knows_visible_keys) and backend.concrete_bool(
        backend.xp.all(mask)
    ), mask


def _are_small(sinks: Array, backend: Backend) -> bool:
    """Tell whether sinks, or None, need no maximum subtracted before exp."""
    return sinks is None or backend.concrete_bool(
        backend.xp.max(backend.xp.abs(sinks)) <= _SMALL_SCORE
    )


def _features_contiguous(array: Array, backend: Backend) -> Array:
    """Return an array to compute with, its features contiguous in memory as BLAS wants them."""
    xp = backend.xp
    array = backend.astype(array, backend.dtype)
    strides = backend.strides(array)
    if strides is None or not backend.supports_inplace(array):
        return array
    rows = xp.empty(array.shape, dtype=backend.dtype, device=backend.device)
    if strides[-1] == backend.strides(rows)[-1]:  # type: ignore[index]
        return array
    rows[...] = array
    return rows
