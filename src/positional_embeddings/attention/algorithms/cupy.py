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
    KernelArguments,
    launch,
)
from positional_embeddings.attention.plan import batch_lengths, pack_ranges
from positional_embeddings.attention.scores import ScoreSpec
from positional_embeddings.masks.index_ranges import index_ranges
from positional_embeddings.masks.mask import Mask, OrMask
from positional_embeddings.masks.position_blocks import ImplicitPositions, Window
from positional_embeddings.masks.ranges import (
    Ranges,
    VisibleKeys,
    complement,
    count_positions,
    intersect,
)

# These numbers are estimates. Not yet measured on a GPU.
# Scores of a block: enough for a launch to be worth it, 64 MB in float32.
_MAX_SCORES = 2**24
# Queries of a block: more queries have many masked keys, fewer are slow to multiply. Heads that
# share keys may have fewer: their scores then take about as much memory as the keys.
_MAX_QUERIES, _MIN_QUERIES = 512, 64
# Keys of a block; more keys need an online softmax.
_MAX_KEYS = 2**18


def attend_cupy(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), in blocks of queries with all their visible keys.

    `block_size` is the number of queries and of keys of a block.
    """
    backend, xp = spec.backend, spec.backend.xp
    options = {"dtype": backend.dtype, "device": backend.device}
    with backend.current_device(query.device, xp):
        query, key, value = map(cublas.as_matrices, (query, key, value))
        shape = (*batch_lengths(query, key), query.shape[-2])
        output = xp.empty((*shape, value.shape[-1]), **options)
        lse = xp.empty((*shape, 1), **options) if spec.with_lse else None
        for queries, visible in _query_blocks(spec, query, key):
            # Queries without visible keys get a masked key.
            max_keys = spec.block_size or _MAX_KEYS
            key_blocks = pack_ranges(visible.any_query or ((0, 1),), max_keys)
            span = index_ranges(*queries)
            views = [span.take(array, -2, backend) for array in (query, output, lse)]
            _attend_block(spec, queries, key_blocks, visible, views, key, value)
            if len(queries) > 1:  # the results are copies, no views
                for part, target in zip(views[1:], (output, lse), strict=True):
                    if target is not None:
                        for index, result in span.parts(part):
                            target[..., index, :] = result
    return output, lse


def cupy_weights(spec: ScoreSpec, query: Array, key: Array) -> Array:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    with spec.backend.current_device(query.device, spec.backend.xp):
        queries, keys = (((0, array.shape[-2]),) for array in (query, key))
        block = _products(spec, queries, keys, spec.visible_keys_of(queries), query, key)
        if block.scores.size:
            launch("softmax", block)
    return block.scores


def _query_blocks(
    spec: ScoreSpec, query: Array, key: Array
) -> Iterator[tuple[Ranges, VisibleKeys]]:
    """Yield the queries of each block, and their visible keys."""
    q_len, batch_size = query.shape[-2], prod(batch_lengths(query, key))
    min_queries = max(1, _MIN_QUERIES * prod(key.shape[:-2]) // batch_size)
    max_keys = spec.block_size or (_MAX_QUERIES if spec.has_visible_ranges else q_len)
    separate = intersect(spec.global_queries(), ((0, q_len),))
    parts = pack_ranges(separate, max_keys) + pack_ranges(complement(separate, q_len), max_keys)
    while parts:
        queries = parts.pop()
        visible = spec.visible_keys_of(queries)
        keys = min(count_positions(visible.any_query), _MAX_KEYS)
        max_queries = max(min_queries, _MAX_SCORES // (batch_size * max(1, keys)))
        if spec.block_size is None and count_positions(queries) > max_queries:
            parts += pack_ranges(queries, max_queries)
        else:
            yield queries, visible


def _attend_block(
    spec: ScoreSpec,
    queries: Ranges,
    key_blocks: list[Ranges],
    visible: VisibleKeys,
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
        continues, is_last = keys is not key_blocks[0], keys is key_blocks[-1]
        block_key, block_value = (
            index_ranges(*keys).take(array, -2, backend) for array in (key, value)
        )
        block = _products(spec, queries, keys, visible, query, block_key)
        results = {"value": block_value, "output": output, "lse": lse, "state": state}
        block = block._replace(**results, continues=continues)
        if value.dtype != backend.dtype:
            block = block._replace(halves=empty((2, *block.scores.shape), dtype=value.dtype))
        launch("softmax", block)
        # Non-finite numbers are in the output. After the last keys they have to be in all features.
        corrects = spec.has_mask_or_bias and (is_last or block.has_mask_or_bias)
        if corrects and continues:
            block = block._replace(sums=empty(output.shape))
        target, beta = (output, float(continues)) if block.sums is None else (block.sums, 0.0)
        if block.halves is None:
            cublas.gemm(block.scores, block_value, target, backend, 1.0, beta)
        else:
            scale = SCALES_OF_HALVES.get(dtype_name(value.dtype), 1)
            for part, factor in zip(block.halves, (beta, 1.0), strict=True):
                cublas.gemm(part, block_value, target, backend, 1 / scale, factor)
        if corrects:
            launch("add_sums", block)


def _products(
    spec: ScoreSpec, queries: Ranges, keys: Ranges, visible: VisibleKeys, query: Array, key: Array
) -> KernelArguments:
    """Return the products of queries and keys, and the terms of their scores."""
    backend, query_and_key_ranges = spec.backend, (index_ranges(*queries), index_ranges(*keys))
    shape = (*batch_lengths(query, key), query.shape[-2], key.shape[-2])
    products = backend.xp.empty(shape, dtype=backend.dtype, device=backend.device)
    cublas.gemm(query, backend.transpose(key), products, backend, spec.scale)
    bias = spec.bias_block(*query_and_key_ranges)
    bias = None if bias is None else spec.bias_to_add(bias)
    # The plain formula applies to non-finite numbers if no key may be masked.
    key = key if spec.has_mask_or_bias else key[..., :0]
    block = KernelArguments(products, bias=bias, sinks=spec.sinks, key=key, softcap=spec.softcap)
    if spec.mask is None or intersect(visible.every_query, keys) == keys:
        return block
    window, positions = _window(spec.mask), spec.positions
    if window is None or len(queries + keys) > 2 or not isinstance(positions, ImplicitPositions):
        return block._replace(mask=spec.mask_block(*query_and_key_ranges))
    (before, after), ahead = window, queries[0][0] + positions.offset - keys[0][0]
    return block._replace(low=max(ahead - before, -FAR), high=min(ahead + after + 1, FAR))


def _window(mask: object) -> Window | None:
    """Return the window of a mask that has no other rule, else None."""
    masks = mask.masks if isinstance(mask, OrMask) else (mask,)
    windows = [part._window() if isinstance(part, Mask) else None for part in masks]
    if None in windows:
        return None
    before, after = map(min, zip(*windows, strict=True))
    return before, after
