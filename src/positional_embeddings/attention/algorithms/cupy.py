"""Attention on CuPy's arrays: a product, a kernel and a product for each block of queries."""

from collections.abc import Iterator
from functools import partial
from math import prod

from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention.algorithms import cublas
from positional_embeddings.attention.algorithms.cupy_kernels import (
    FAR,
    SCALES_OF_HALVES,
    Block,
    launch,
)
from positional_embeddings.attention.plan import batch_lengths, pack_ranges
from positional_embeddings.attention.scores import ScoreSpec
from positional_embeddings.masks.mask import Mask, OrMask
from positional_embeddings.masks.points import ImplicitPositions, Window
from positional_embeddings.masks.ranges import (
    Ranges,
    VisibleKeys,
    complement,
    count_positions,
    intersect,
)
from positional_embeddings.masks.spans import index_ranges

# These numbers are estimates: no GPU has chosen them yet.
# Scores of a block: enough for a launch to be worth it, 64 MB in float32.
_MOST_SCORES = 2**24
# Queries of a block: more would meet many keys that a mask hides, fewer would be slow to multiply.
# Of heads that share keys there may be fewer: scores then take about as much room as the keys.
_MOST_QUERIES, _FEWEST_QUERIES = 512, 64
# Keys that queries meet together; only more of them need an online softmax.
_MOST_KEYS = 2**18


def attend_cupy(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), in blocks of queries with all keys that they see.

    A `block_size` is the number of queries of a block, and of the keys that they meet together.
    """
    backend, xp = spec.backend, spec.backend.xp
    like = {"dtype": backend.dtype, "device": backend.device}
    with backend.current_device(query.device, xp):
        query, key, value = map(cublas.as_matrices, (query, key, value))
        shape = (*batch_lengths(query, key), query.shape[-2])
        output = xp.empty((*shape, value.shape[-1]), **like)
        lse = xp.empty((*shape, 1), **like) if spec.with_lse else None
        for queries, seen in _query_blocks(spec, query, key):
            # Queries that see nothing meet a key that is hidden.
            longest = spec.block_size or _MOST_KEYS
            key_blocks = pack_ranges(seen.any_query or ((0, 1),), longest)
            span = index_ranges(*queries)
            own = [span.take(array, -2, backend) for array in (query, output, lse)]
            _attend_block(spec, queries, key_blocks, seen, own, key, value)
            if len(queries) > 1:  # what was taken are no views
                for part, whole in zip(own[1:], (output, lse), strict=True):
                    if whole is not None:
                        for at, result in span.parts(part):
                            whole[..., at, :] = result
    return output, lse


def cupy_weights(spec: ScoreSpec, query: Array, key: Array) -> Array:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    with spec.backend.current_device(query.device, spec.backend.xp):
        queries, keys = (((0, array.shape[-2]),) for array in (query, key))
        block = _products(spec, queries, keys, spec.visible_keys(queries), query, key)
        if block.scores.size:
            launch("softmax", block)
    return block.scores


def _query_blocks(
    spec: ScoreSpec, query: Array, key: Array
) -> Iterator[tuple[Ranges, VisibleKeys]]:
    """Yield the queries of each block, and the keys that they see."""
    q_len, rows = query.shape[-2], prod(batch_lengths(query, key))
    fewest = max(1, _FEWEST_QUERIES * prod(key.shape[:-2]) // rows)
    longest = spec.block_size or (_MOST_QUERIES if spec.knows_visible_keys else q_len)
    apart = intersect(spec.global_queries(), ((0, q_len),))
    parts = pack_ranges(apart, longest) + pack_ranges(complement(apart, q_len), longest)
    while parts:
        queries = parts.pop()
        seen = spec.visible_keys(queries)
        keys = min(count_positions(seen.any_query), _MOST_KEYS)
        room = max(fewest, _MOST_SCORES // (rows * max(1, keys)))
        if spec.block_size is None and count_positions(queries) > room:
            parts += pack_ranges(queries, room)
        else:
            yield queries, seen


def _attend_block(
    spec: ScoreSpec,
    queries: Ranges,
    key_blocks: list[Ranges],
    seen: VisibleKeys,
    query_and_results: list[Array],
    key: Array,
    value: Array,
) -> None:
    """Write the output of some queries, and the logarithms of their sums of exponentials.

    The output is always the mean of the values so far, so that it does not overflow.
    """
    backend, (query, output, lse) = spec.backend, query_and_results
    empty = partial(backend.xp.empty, dtype=backend.dtype, device=backend.device)
    state = empty((*output.shape[:-1], 2)) if len(key_blocks) > 1 else None
    for keys in key_blocks:
        goes_on, is_last = keys is not key_blocks[0], keys is key_blocks[-1]
        own_key, own_value = (
            index_ranges(*keys).take(array, -2, backend) for array in (key, value)
        )
        block = _products(spec, queries, keys, seen, query, own_key)
        results = {"value": own_value, "output": output, "lse": lse, "state": state}
        block = block._replace(**results, goes_on=goes_on)
        if value.dtype != backend.dtype:
            block = block._replace(halves=empty((2, *block.scores.shape), dtype=value.dtype))
        launch("softmax", block)
        # What is not finite is in the output. After the last keys it has to be in all features.
        corrects = spec.may_hide and (is_last or block.may_hide)
        if corrects and goes_on:
            block = block._replace(sums=empty(output.shape))
        to, kept = (output, float(goes_on)) if block.sums is None else (block.sums, 0.0)
        if block.halves is None:
            cublas.gemm(block.scores, own_value, to, backend, 1.0, kept)
        else:
            scale = SCALES_OF_HALVES.get(dtype_name(value.dtype), 1)
            for part, beta in zip(block.halves, (kept, 1.0), strict=True):
                cublas.gemm(part, own_value, to, backend, 1 / scale, beta)
        if corrects:
            launch("add_sums", block)


def _products(
    spec: ScoreSpec, queries: Ranges, keys: Ranges, seen: VisibleKeys, query: Array, key: Array
) -> Block:
    """Return the products of queries and keys, with all that makes scores of them."""
    backend, pairs = spec.backend, (index_ranges(*queries), index_ranges(*keys))
    shape = (*batch_lengths(query, key), query.shape[-2], key.shape[-2])
    products = backend.xp.empty(shape, dtype=backend.dtype, device=backend.device)
    cublas.gemm(query, backend.transpose(key), products, backend, spec.scale)
    bias = spec.bias_between(*pairs)
    bias = None if bias is None else spec.bias_to_add(bias)
    # Where nothing may be hidden the plain formula decides, whatever is not finite.
    key = key if spec.may_hide else key[..., :0]
    block = Block(products, bias=bias, sinks=spec.sinks, key=key, softcap=spec.softcap)
    if spec.mask is None or intersect(seen.every_query, keys) == keys:
        return block
    window, at = _window(spec.mask), spec.positions
    if window is None or len(queries + keys) > 2 or not isinstance(at, ImplicitPositions):
        return block._replace(mask=spec.mask_between(*pairs))
    (left, right), ahead = window, queries[0][0] + at.offset - keys[0][0]
    return block._replace(low=max(ahead - left, -FAR), high=min(ahead + right + 1, FAR))


def _window(mask: object) -> Window | None:
    """Return how many keys before and after its own position a query sees, if that is all."""
    masks = mask.masks if isinstance(mask, OrMask) else (mask,)
    windows = [part._window() if isinstance(part, Mask) else None for part in masks]
    if None in windows:
        return None
    left, right = map(min, zip(*windows, strict=True))
    return left, right
