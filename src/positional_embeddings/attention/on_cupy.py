"""Attention on CuPy's arrays: a product, a kernel and a product for each block of queries."""

from collections.abc import Iterator
from math import prod
from typing import Any

from positional_embeddings.arguments.spans import Span, span_of
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention import cublas
from positional_embeddings.attention.cupy_kernels import SCALE_OF_HALVES, Arrays, launch
from positional_embeddings.attention.plan import pack_ranges
from positional_embeddings.attention.scores import Scores
from positional_embeddings.masks.mask import AnyMask, Mask
from positional_embeddings.masks.points import Window
from positional_embeddings.masks.ranges import (
    Ranges,
    Reach,
    complement,
    count_positions,
    intersect,
)

# Scores of a block: enough for a launch to be worth it, 64 MB in float32.
_MOST_SCORES = 2**24
# Queries of a block: more would meet many keys that a mask hides, fewer would be slow to multiply.
# Of heads that share keys there may be fewer: scores then take no more room than the keys do.
_MOST_QUERIES, _FEWEST_QUERIES = 512, 64
# Keys that queries meet together; only more of them need an online softmax.
_MOST_KEYS = 2**18

# Farther from a query than any key.
_FAR = 2**62


def attend(
    scores: Scores, query: Array, key: Array, value: Array, *, block_size: int | None
) -> tuple[Any, Any]:
    """Return the output, (..., query, feature), in blocks of queries with all keys that they see.

    A `block_size` is the number of queries of a block, and of the keys that they meet together.
    """
    space, xp = scores.space, scores.space.xp
    like = {"dtype": space.dtype, "device": space.device}
    with space.current_device(query.device, xp):
        rows = _rows(query, key)
        output = xp.empty((*rows, query.shape[-2], value.shape[-1]), **like)
        lse = xp.empty((*rows, query.shape[-2], 1), **like) if scores.with_lse else None
        for ranges, seen in _query_blocks(scores, query, key, block_size):
            queries = span_of(*ranges)
            parts = [queries.take(x, -2, space) for x in (query, output, lse)]
            _attend_block(scores, queries, seen, *parts, key, value, block_size or _MOST_KEYS)
            if len(ranges) > 1:  # what was taken are no views
                for whole, part in zip((output, lse), parts[1:], strict=True):
                    _put(part, ranges, whole)
    return output, lse


def weights(scores: Scores, query: Array, key: Array) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    layout = scores.layout
    with scores.space.current_device(query.device, scores.space.xp):
        pairs = layout.queries, layout.keys
        seen = scores.reach(layout.queries.ranges)  # type: ignore[arg-type]
        arrays, window = _products(scores, *pairs, seen, query, key)
        if arrays.scores.size:
            launch("softmax", arrays, scores.softcap, window)
    return arrays.scores


def _rows(query: Array, key: Array) -> list[int]:
    """Return the lengths of the axes before queries and features."""
    pairs = zip(query.shape[:-2], key.shape[:-2], strict=True)
    return [m if n == 1 else n for n, m in pairs]


def _query_blocks(
    scores: Scores, query: Array, key: Array, block_size: int | None
) -> Iterator[tuple[Ranges, Reach]]:
    """Yield the queries of each block, and the keys that they see."""
    q_len, rows = query.shape[-2], prod(_rows(query, key))
    fewest = max(1, _FEWEST_QUERIES * prod(key.shape[:-2]) // rows)
    longest = block_size or (_MOST_QUERIES if scores.has_reach else q_len)
    apart = intersect(scores.global_queries(), ((0, q_len),))
    parts = pack_ranges(apart, longest) + pack_ranges(complement(apart, q_len), longest)
    while parts:
        ranges = parts.pop()
        seen = scores.reach(ranges)
        keys = min(count_positions(seen.seen_by_any), _MOST_KEYS)
        room = max(fewest, _MOST_SCORES // (rows * max(1, keys)))
        if block_size is None and count_positions(ranges) > room:
            parts += pack_ranges(ranges, room)
        else:
            yield ranges, seen


def _attend_block(
    scores: Scores,
    queries: Span,
    seen: Reach,
    query: Array,
    output: Array,
    lse: Array,
    key: Array,
    value: Array,
    most_keys: int,
) -> None:
    """Write the output of some queries, and the logarithms of their sums of exponentials.

    The output is always a mean of the values so far, so that it cannot overflow.
    """
    space, xp = scores.space, scores.space.xp
    # Queries that see nothing meet a key that is hidden.
    key_blocks = pack_ranges(seen.seen_by_any, most_keys) or [((0, 1),)]
    state = sums = None
    if len(key_blocks) > 1:
        state = xp.empty((*output.shape[:-1], 2), dtype=space.dtype, device=space.device)
    for ranges in key_blocks:
        keys, goes_on = span_of(*ranges), ranges is not key_blocks[0]
        own_key, own_value = keys.take(key, -2, space), keys.take(value, -2, space)
        arrays, window = _products(scores, queries, keys, seen, query, own_key)
        arrays = arrays._replace(value=own_value, output=output, lse=lse, state=state)
        if value.dtype != space.dtype:
            halves = xp.empty((2, *arrays.scores.shape), dtype=value.dtype, device=space.device)
            arrays = arrays._replace(halves=halves)
        launch("softmax", arrays, scores.softcap, window, goes_on=goes_on)
        # What is not finite is in the output. After the last keys it is in all features of it.
        may_hide = arrays.bias is not None or not _see_all(seen, ranges)
        corrects = scores.may_hide and (may_hide or ranges is key_blocks[-1])
        if corrects and goes_on:
            sums = xp.empty(output.shape, dtype=space.dtype, device=space.device)
            arrays = arrays._replace(sums=sums)
        to, kept = (output, float(goes_on)) if arrays.sums is None else (sums, 0.0)
        if arrays.halves is None:
            cublas.multiply(arrays.scores, own_value, to, 1.0, kept)
        else:
            for part, beta in zip(arrays.halves, (kept, 1.0), strict=True):
                cublas.multiply(part, own_value, to, 1 / SCALE_OF_HALVES, beta)
        if corrects:
            launch("add_sums", arrays)


def _products(
    scores: Scores, queries: Span, keys: Span, seen: Reach, query: Array, key: Array
) -> tuple[Arrays, Window]:
    """Return the products of queries and keys with what makes scores of them, and a window."""
    space = scores.space
    shape = (*_rows(query, key), query.shape[-2], key.shape[-2])
    products = space.xp.empty(shape, dtype=space.dtype, device=space.device)
    cublas.multiply(query, space.transpose(key), products, scores.scale)
    mask, window = None, (-_FAR, _FAR)
    if scores.mask is not None and not _see_all(seen, keys.ranges):
        around = _window(scores.mask)
        if around and len(queries.ranges) == len(keys.ranges) == 1:
            left, right = around
            ahead = queries.ranges[0][0] + scores.offset - keys.ranges[0][0]
            window = max(ahead - left, -_FAR), min(ahead + right + 1, _FAR)
        else:
            mask = scores.mask_between(queries, keys)
    bias = scores.bias_between(queries, keys)
    bias = None if bias is None else scores.bias_to_add(bias)
    own_key = key if scores.may_hide else None
    return Arrays(products, mask=mask, bias=bias, sinks=scores.sinks, key=own_key), window


def _see_all(seen: Reach, keys: Ranges | None) -> bool:
    """Tell whether all queries see these keys."""
    return keys is not None and intersect(seen.seen_by_all, keys) == keys


def _window(mask: Any) -> Window | None:
    """Return how many keys before and after its own position a query sees, if that is all."""
    masks = mask.masks if isinstance(mask, AnyMask) else (mask,)
    windows = [part._window() if isinstance(part, Mask) else None for part in masks]
    if None in windows:
        return None
    left, right = map(min, zip(*windows, strict=True))
    return left, right


def _put(part: Array, ranges: Ranges, whole: Array) -> None:
    """Write rows, (..., query, feature), to ranges of their queries; or None to None."""
    done = 0
    for start, stop in ranges if part is not None else ():
        whole[..., start:stop, :] = part[..., done : done + stop - start, :]
        done += stop - start
