"""Attention in blocks: an online softmax over the keys that each block of queries sees."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import log, prod
from typing import Any, NamedTuple

from positional_embeddings.arguments.spans import Span, span_of
from positional_embeddings.arrays.blocks import block_lengths, cuts
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.arrays.space import Space
from positional_embeddings.arrays.threads import share, threads_for
from positional_embeddings.attention.plan import KeyBlock, QueryBlock, plan
from positional_embeddings.attention.scores import Scores, slice_broadcast, without_nonfinite
from positional_embeddings.attention.softmax import OnlineSoftmax, products

# Scores of a block: few enough for a core's cache, or enough for a launch to be worth it.
HOST_BLOCK = 2**18
ACCELERATOR_BLOCK = 2**24

# Blocks that cannot be written to one array are worth it if they skip scores in this ratio.
_MIN_SKIP_RATIO = 4

# Scores up to this bound need no maximum subtracted before exp, which saves a tenth of the
# time of an attention in blocks, ...
_SMALL_SCORE = 25.0

# ... if no value is larger than this: weighted by exp(_SMALL_SCORE) it might overflow.
_LARGE = 2.0**64

# Stands in where no query of a block sees any key.
_FIRST_KEY = KeyBlock(span_of((0, 1)))

Slices = tuple[slice, ...]


class KeysAndValues(NamedTuple):
    """Keys and values, from which blocks are cut."""

    key: Array  # finite if a mask or a bias may hide some, as the values are
    value: Array
    nonfinite: (
        Array  # True for a key that was not finite, or its value, (..., 1, key); None if none
    )
    max_square: Any  # squared length of the longest key; None if scores may be large
    headroom: float  # how far weights stay below 1: sums of them are at most 1 / 2


def most_scores(query: Array, space: Space) -> int:
    """Return how many scores a block has at most, on the device of the queries."""
    return HOST_BLOCK if space.is_on_host(query) else ACCELERATOR_BLOCK


def attend(
    scores: Scores,
    query: Array,
    key: Array,
    value: Array,
    *,
    block_size: int | None,
    otherwise: Callable[..., tuple[Any, Any]] | None = None,
) -> tuple[Any, Any]:
    """Return the output, (..., query, feature), of blocks of a size, or one that suits the device.

    If blocks would skip few scores, `otherwise` computes, if it is given.
    """
    blocks = _query_blocks(scores, query, key, block_size)
    if otherwise is not None:
        count = sum(block.count_scores() for block in blocks)
        if _MIN_SKIP_RATIO * count > query.shape[-2] * key.shape[-2]:
            return otherwise(scores, query, key, value)
    space = scores.space
    if not scores.with_lse:
        return _joined(scores, query, key, value, blocks, lambda state: state.means(space)), None
    columns = lambda state: space.xp.concat([state.means(space), state.lse(space)], axis=-1)  # noqa: E731
    joined = _joined(scores, query, key, value, blocks, columns, extra=1)
    return joined[..., :-1], joined[..., -1:]


def partial_sums(
    scores: Scores, query: Array, key: Array, value: Array, block_size: int | None
) -> Any:
    """Return what other keys can be added to, (..., query, feature + 2).

    These are the weighted sums of the values, the total of the weights, and the running maximum.
    """
    xp = scores.space.xp

    def columns(state: OnlineSoftmax) -> Any:
        highest = state.running_max
        if highest is None:  # small scores are near 0, or there are none
            highest = xp.where(state.total == 0, -float("inf"), xp.zeros_like(state.total))
        return xp.concat([state.sums, state.total, highest], axis=-1)

    blocks = _query_blocks(scores, query, key, block_size)
    return _joined(scores, query, key, value, blocks, columns, extra=2)


def _query_blocks(
    scores: Scores, query: Array, key: Array, block_size: int | None
) -> list[QueryBlock]:
    """Return the blocks of queries, each with the keys that it sees."""
    (*rows, q_len, _), (*key_rows, k_len, _) = query.shape, key.shape
    count = prod([m if n == 1 else n for n, m in zip(rows, key_rows, strict=True)])
    most = most_scores(query, scores.space)
    reach = scores.reach if scores.has_reach else None
    return plan(q_len, k_len, block_size, most, reach, scores.global_queries(), count)


def _joined(
    scores: Scores,
    query: Array,
    key: Array,
    value: Array,
    query_blocks: list[QueryBlock],
    columns: Callable[[OnlineSoftmax], Any],
    extra: int = 0,
) -> Any:
    """Return the columns, (..., query, feature + extra), of the states of all queries."""
    space, most = scores.space, most_scores(query, scores.space)
    rows = [m if n == 1 else n for n, m in zip(query.shape[:-2], key.shape[:-2], strict=True)]
    keys = keys_and_values(scores, key, value)
    if not space.supports_inplace(query, key, value):
        whole, parts = tuple(slice(0, n) for n in rows), []
        for block in query_blocks:
            for queries, (state,) in _attend_rows(scores, query, keys, [whole], block):
                parts += _split(columns(state), queries)
        parts.sort(key=lambda at: at[0].start)
        return space.xp.concat([part for _, part in parts], axis=-2)

    # As many rows at a time as the largest block leaves room for.
    sizes = (queries.size * at.keys.size for own in query_blocks for queries, at in own.blocks())
    lengths = block_lengths(rows, range(len(rows)), max(1, most // max(sizes, default=1)))
    groups = list(product(*(cuts(n, lengths[axis]) for axis, n in enumerate(rows))))
    shape = (*rows, query.shape[-2], value.shape[-1] + extra)
    output = space.xp.empty(shape, dtype=space.dtype, device=space.device)

    def work(piece: tuple[QueryBlock, list[Slices]]) -> None:
        block, some = piece
        for queries, states in _attend_rows(scores, query, keys, some, block):
            for group, state in zip(some, states, strict=True):
                for at, part in _split(columns(state), queries):
                    output[(*group, at, slice(None))] = part

    threads, blas = threads_for(output)
    # A piece computes its masks once for all its groups: no more pieces than threads need.
    shares = -(-threads // max(1, len(query_blocks)))
    # The largest first, so that no thread waits for one at the end.
    largest_first = sorted(query_blocks, key=QueryBlock.count_scores, reverse=True)
    pieces = [(block, groups[i::shares]) for block in largest_first for i in range(shares)]
    share(work, pieces, threads, blas)
    return output


def _split(columns: Any, queries: Span) -> list[tuple[slice, Any]]:
    """Return the columns of some queries for each range of them."""
    split, done = [], 0
    for start, stop in queries.ranges or ():
        split.append((slice(start, stop), columns[..., done : done + stop - start, :]))
        done += stop - start
    return split


def keys_and_values(scores: Scores, key: Array, value: Array) -> KeysAndValues:
    """Return the keys and values to cut blocks from."""
    space = scores.space
    xp = space.xp
    key, value = (_features_contiguous(x, space) for x in (key, value))
    max_square = nonfinite = None
    if space.is_on_host(key) and space.is_true(
        (xp.max(value) <= _LARGE) & (xp.min(value) >= -_LARGE)
    ):
        max_square = xp.max(xp.vecdot(key, key))
    # If the sums of squares are finite, so are the keys.
    if scores.may_hide and (max_square is None or not space.is_true(xp.isfinite(max_square))):
        (key, value, nonfinite), max_square = without_nonfinite(key, value, space), None
    if not (scores.bias is None and scores.softcap is None and _are_small(scores.sinks, space)):
        max_square = None
    return KeysAndValues(key, value, nonfinite, max_square, log(2 * scores.layout.keys.size))


def _attend_rows(
    scores: Scores,
    query: Array,
    all_keys: KeysAndValues,
    groups: Sequence[Slices],
    block: QueryBlock,
) -> Iterator[tuple[Span, list[OnlineSoftmax]]]:
    """Yield queries of a block, and their states after all keys, one for each group of rows.

    Hidden blocks of keys are skipped, but for one if gradients are recorded: the zeros of a query
    that attends to nothing have a gradient, too.
    """
    states = [_start(scores, query, all_keys, group, block.queries) for group in groups]
    required = None
    if scores.space.records_gradients:
        block = block if block.key_blocks else block._replace(key_blocks=(_FIRST_KEY,))
        required = block.key_blocks[-1]
    yield from _meet_keys(scores, all_keys, groups, states, block, required)


def _meet_keys(
    scores: Scores,
    all_keys: KeysAndValues,
    groups: Sequence[Slices],
    states: list[tuple[Any, OnlineSoftmax]],
    block: QueryBlock,
    required: KeyBlock | None,
) -> Iterator[tuple[Span, list[OnlineSoftmax]]]:
    """Yield what `_attend_rows` does, from scaled queries and their states before these keys."""
    space = scores.space
    for key_block in block.key_blocks:
        keys = key_block.keys
        mask = scores.mask_between(block.queries, keys) if key_block.is_masked else None
        bias = scores.bias_between(block.queries, keys)
        # A mask that all groups share is checked for hidden keys once.
        is_shared = all(set(x.shape[:-2]) <= {1} for x in (mask, bias) if x is not None)
        for i, (group, (own_query, state)) in enumerate(zip(groups, states, strict=True)):
            if i == 0 or not is_shared:
                own = slice_broadcast(mask, group), slice_broadcast(bias, group)
                hidden, own_bias = scores.hidden_and_bias(*own)
                hides_all, hidden = _what_it_hides(hidden, scores)
            if hides_all and key_block is not required:
                continue
            both = all_keys.key, all_keys.value
            key, value = (keys.take(slice_broadcast(x, group), -2, space) for x in both)
            nonfinite = keys.take(slice_broadcast(all_keys.nonfinite, group), -1, space)
            found = scores.of(products(own_query, key, space), nonfinite, None, own_bias)
            states[i] = own_query, state.update(found, hidden, value, all_keys.headroom, space)
            del found  # so that the next ones take the same memory, which is in the cache
    if not block.parts:
        yield block.queries, [state for _, state in states]
    start = 0
    for part in block.parts:
        at = slice(start, start + part.queries.size)
        own_states = [(own_query[..., at, :], state.rows(at)) for own_query, state in states]
        yield from _meet_keys(scores, all_keys, groups, own_states, part, None)
        start = at.stop


def _what_it_hides(mask: Array, scores: Scores) -> tuple[bool, Any]:
    """Tell whether a mask hides all keys from all queries; return it, or None if it hides none.

    That is asked to save time. A device is waited for only where no mask has planned the blocks:
    those are seldom hidden.
    """
    space = scores.space
    if mask is None:
        return False, None
    on_host = space.is_on_host(mask)
    if on_host and space.is_true(~space.xp.any(mask)):
        return False, None
    return (on_host or not scores.has_reach) and space.is_true(space.xp.all(mask)), mask


def _start(
    scores: Scores, query: Array, keys: KeysAndValues, group: Slices, queries: Span
) -> tuple[Any, OnlineSoftmax]:
    """Return the scaled queries of a block, and their state before the first key."""
    space = scores.space
    xp = space.xp
    query = queries.take(slice_broadcast(query, group), -2, space)
    query = _features_contiguous(query, space) * scores.scale
    shape = (*(rows.stop - rows.start for rows in group), query.shape[-2])
    like = {"dtype": space.dtype, "device": space.device}
    sums, total = (xp.zeros((*shape, n), **like) for n in (keys.value.shape[-1], 1))
    sinks = slice_broadcast(scores.sinks, group)
    if keys.max_square is not None:
        bound = xp.max(xp.vecdot(query, query)) * keys.max_square
        if space.is_true(bound <= _SMALL_SCORE**2):
            state = OnlineSoftmax(sums, total, None)
            return query * space.exponent_unit, state.with_sinks(sinks, space)
    running_max = xp.full((*shape, 1), -float("inf"), **like)
    return query, OnlineSoftmax(sums, total, running_max).with_sinks(sinks, space)


def _are_small(sinks: Array, space: Space) -> bool:
    """Tell whether sinks, or None, need no maximum subtracted before exp."""
    return sinks is None or space.is_true(space.xp.max(space.xp.abs(sinks)) <= _SMALL_SCORE)


def _features_contiguous(array: Array, space: Space) -> Any:
    """Return an array to compute with, its features contiguous in memory as BLAS wants them."""
    xp = space.xp
    array = space.astype(array, space.dtype)
    strides = space.strides(array)
    if strides is None or not space.supports_inplace(array):
        return array
    rows = xp.empty(array.shape, dtype=space.dtype, device=space.device)
    if strides[-1] == space.strides(rows)[-1]:  # type: ignore[index]
        return array
    rows[...] = array
    return rows
