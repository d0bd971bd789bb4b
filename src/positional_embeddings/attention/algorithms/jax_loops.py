"""Attention by loops of a library over blocks of equal length, where it traces and compiles.

A Python loop would be unrolled. Compile time and memory would grow with the number of blocks. In a
loop of the library all blocks have the same shape, and their start is traced.
"""

from typing import Any

from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.attention.algorithms.blocks import BlockInputs, block_inputs
from positional_embeddings.attention.scores import ScoreSpec
from positional_embeddings.attention.softmax import OnlineSoftmax, query_key_products
from positional_embeddings.masks.index_ranges import IndexRanges

# Few enough for any device, whose memory a trace does not know.
MAX_SCORES_PER_BLOCK = 2**22

# Blocks of fewer queries or keys are not worth a step of a loop.
_MIN_BLOCK_LENGTH = 128
_LENGTH_MULTIPLE = 64  # of queries or keys, the lengths of blocks


def block_size(spec: ScoreSpec) -> int:
    """Return the block length that limits the number of scores."""
    if spec.block_size is not None:
        return spec.block_size
    batch_size = spec.layout.scores_per_key // spec.layout.queries.size
    length = int((MAX_SCORES_PER_BLOCK / batch_size) ** 0.5)
    return max(_MIN_BLOCK_LENGTH, length // _LENGTH_MULTIPLE * _LENGTH_MULTIPLE)


def _visited_blocks(q_len: int, q_block: int, k_block: int, spec: ScoreSpec) -> list[list[int]]:
    """Return the indices of the visible blocks of keys of each block of queries.

    The lists are padded with -1 to one length.
    """
    visited = []
    for block in block_slices(q_len, q_block):
        visible = spec.visible_keys_of(((block.start, block.stop),)).any_query
        numbers = {
            j for start, stop in visible for j in range(start // k_block, -(-stop // k_block))
        }
        visited.append(sorted(numbers))
    max_blocks = max(map(len, visited))
    return [numbers + [-1] * (max_blocks - len(numbers)) for numbers in visited]


def attend_jax_loops(
    spec: ScoreSpec, query: Array, key: Array, value: Array
) -> tuple[Array, Array]:
    """Return the output, by loops of the library over blocks of queries and of keys.

    The last block of each ends with the last query or key, and begins within the block before it.
    """
    backend, size = spec.backend, block_size(spec)
    xp = backend.xp
    loops: Any = backend.loops()
    q_len, k_len = query.shape[-2], key.shape[-2]
    q_block, k_block = (-(-n // -(-n // min(n, size))) for n in (q_len, k_len))
    visited = _visited_blocks(q_len, q_block, k_block, spec)
    inputs = block_inputs(spec, query, key, value)
    arrays = [inputs.key, inputs.value]
    if inputs.nonfinite is not None:
        arrays.append(xp.matrix_transpose(inputs.nonfinite))
    key_blocks = [_in_blocks(array, k_block, xp) for array in arrays]

    def block_output(_: None, element: tuple[Array, ...]) -> tuple[None, Array]:
        number, query, visited_keys = element
        queries = IndexRanges(None, q_block, xp.minimum(number * q_block, q_len - q_block))
        query = backend.astype(query, backend.dtype) * spec.scale

        def update(
            state: OnlineSoftmax, number: Array, key: Array, value: Array, *nonfinite_keys: Array
        ) -> OnlineSoftmax:
            first = number * k_block
            keys = IndexRanges(None, k_block, xp.minimum(first, k_len - k_block))
            mask, bias = spec.mask_block(queries, keys), spec.bias_block(queries, keys)
            mask, bias = spec.mask_and_bias(mask, bias)
            if k_len % k_block:
                is_in_block_before = keys.indices(backend) < first
                mask = is_in_block_before if mask is None else mask | is_in_block_before
            nonfinite = xp.matrix_transpose(nonfinite_keys[0]) if nonfinite_keys else None
            products = query_key_products(query, key, backend)
            scores = spec.scores_from_products(products, nonfinite, None, bias)
            return state.update(scores, mask, value, inputs.headroom, backend)

        def visit(state: OnlineSoftmax, block: tuple[Array, ...]) -> tuple[OnlineSoftmax, None]:
            return loops.cond(block[0] >= 0, update, lambda s, *_: s, state, *block), None

        index = xp.maximum(visited_keys, 0)
        blocks = [xp.take(array, index, axis=0) for array in key_blocks]
        first = _state_like(inputs, query).with_sinks(spec.sinks, backend)
        state, _ = loops.scan(visit, first, (visited_keys, *blocks))
        return None, state.means_and_lse(backend) if spec.with_lse else state.means(backend)

    numbers = xp.asarray(visited, dtype=backend.int_dtype, device=backend.device)
    count = len(visited)
    numbered = xp.arange(count, dtype=backend.int_dtype, device=backend.device)
    elements = (numbered, _in_blocks(query, q_block, xp), numbers)
    _, output = loops.scan(block_output, None, elements)
    output = xp.moveaxis(output, 0, -3)
    output = xp.reshape(output, (*output.shape[:-3], count * q_block, output.shape[-1]))
    repeated, last = count * q_block - q_len, (count - 1) * q_block
    if repeated:
        parts = [output[..., :last, :], output[..., last + repeated :, :]]
        output = xp.concat(parts, axis=-2)
    return (output[..., :-1], output[..., -1:]) if spec.with_lse else (output, None)


def _state_like(inputs: BlockInputs, query: Array) -> OnlineSoftmax:
    """Return the state before the first key, sharded over devices as the products will be."""
    backend = inputs.spec.backend
    xp = backend.xp
    product = query_key_products(query[..., :1], inputs.key[..., :1, :1], backend)
    weighted = backend.grouped_matmul(product, inputs.value[..., :1, :])
    # Zeros that inherit the products' sharding.
    pair = weighted, product
    sums, total = (xp.where(xp.isnan(array), 0.0, xp.zeros_like(array)) for array in pair)
    return OnlineSoftmax(sums, total, total - float("inf"))


def _in_blocks(array: Array, length: int, xp: Namespace) -> Array:
    """Return blocks of an array on axis -2 as (block, ...), the last one with the last numbers."""
    size = array.shape[-2]
    starts = [min(start, size - length) for start in range(0, size, length)]
    return xp.stack([array[..., start : start + length, :] for start in starts])
