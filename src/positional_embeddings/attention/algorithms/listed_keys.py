"""Attention over lists of keys: the visible keys of each query are gathered, block by block."""

from math import prod
from typing import NamedTuple

from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array, HostArray, drop_none, np
from positional_embeddings.arrays.threads import run_in_threads, threads_for
from positional_embeddings.attention.algorithms.dense import attend_visible, visible_weights
from positional_embeddings.attention.attention_arguments import call_score_function
from positional_embeddings.attention.layout import slice_broadcast
from positional_embeddings.attention.plan import batch_lengths
from positional_embeddings.attention.scores import ScoreSpec
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import PositionBlock

# Numbers of the keys that a block of queries gathers: few enough for a core's cache
# (`benchmarks/bench_lists.py`), or enough to be worth a launch.
_MAX_NUMBERS_ON_HOST = 2**19
_MAX_NUMBERS_ON_DEVICE = 2**23


class ListInputs(NamedTuple):
    """Arguments that all blocks of queries share."""

    spec: ScoreSpec
    other_masks: Mask | None  # masks of the listed keys
    may_be_invalid: bool  # whether a list may have a number that is neither a key nor -1
    key: Array
    value: Array  # None in `listed_key_weights`
    columns: int  # of the result of a query


def attend_listed_keys(
    spec: ScoreSpec, query: Array, key: Array, value: Array
) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and `lse` if `spec.with_lse`, else None."""
    backend, (lists, other_masks) = spec.backend, spec.mask._split_lists()
    columns = value.shape[-1] + spec.with_lse
    key, value = backend.contiguous_rows(key), backend.contiguous_rows(value)
    inputs = ListInputs(spec, other_masks, lists._largest is None, key, value, columns)
    groups = lists._groups()
    outputs = [_group_output(inputs, query, *group) for group in groups]
    output = outputs[0]
    if len(groups) > 1:
        indices = np.argsort(np.concat([queries for queries, _ in groups]))
        indices = backend.xp.asarray(indices, dtype=backend.int_dtype, device=backend.device)
        output = backend.take_entries(backend.xp.concat(outputs, axis=-2), indices, output.ndim - 2)
    return (output[..., :-1], output[..., -1:]) if spec.with_lse else (output, None)


def listed_key_weights(spec: ScoreSpec, query: Array, key: Array) -> Array:
    """Return the weights of the keys in the order of the lists, (..., query, place in the list)."""
    backend, (mask, other_masks) = spec.backend, spec.mask._split_lists()
    lists = mask._padded()
    columns = lists.shape[1]
    if 0 in (query.shape[-2], key.shape[-2]):  # no query has a list, or there are no keys
        shape = (*batch_lengths(query, key), query.shape[-2], columns)
        return backend.xp.zeros(shape, dtype=backend.dtype, device=backend.device)
    key = backend.contiguous_rows(key)
    inputs = ListInputs(spec, other_masks, mask._largest is None, key, None, columns)
    return _group_output(inputs, query, None, lists)


def _group_output(
    inputs: ListInputs, query: Array, queries: HostArray | None, lists: Array
) -> Array:
    """Return the results of queries whose lists have equal lengths, (..., query, column)."""
    spec, batch = inputs.spec, lists.shape[2]
    lists = PositionBlock(None, spec.backend, None).in_library(lists)
    if batch == 1:
        return _compute_in_blocks(inputs, query, queries, lists[..., 0])
    axis = spec.layout.align_mask_or_bias("mask", lists, spec.backend).shape.index(batch)
    outputs = []
    for b in range(batch):
        batch_slices = (*(slice(None),) * axis, slice(b, b + 1))
        arrays = query, inputs.key, inputs.value, spec.sinks
        sequence_query, key, value, sinks = (slice_broadcast(x, batch_slices) for x in arrays)
        bias = spec.bias if callable(spec.bias) else slice_broadcast(spec.bias, batch_slices)
        layout = spec.layout._replace(batch_slices=batch_slices)
        own_spec = spec._replace(layout=layout, sinks=sinks, bias=bias)
        sequence = inputs._replace(spec=own_spec, key=key, value=value)
        outputs.append(_compute_in_blocks(sequence, sequence_query, queries, lists[..., b]))
    return spec.backend.xp.concat(outputs, axis=axis)


def _compute_in_blocks(
    inputs: ListInputs, query: Array, queries: HostArray | None, lists: Array
) -> Array:
    """Return the results of some queries, computed in blocks of queries."""
    spec, backend, xp = inputs.spec, inputs.spec.backend, inputs.spec.backend.xp
    options = {"dtype": backend.int_dtype, "device": backend.device}
    count = lists.shape[0]
    indices = xp.arange(count, **options) if queries is None else xp.asarray(queries, **options)

    def queries_first(array: Array) -> Array:
        """Return these queries of an array as its first axis."""
        taken = array if queries is None else backend.take_entries(array, indices, array.ndim - 2)
        return backend.move_axis(taken, -2, 0)

    arrays = [indices, lists, queries_first(query)]
    if not (spec.bias is None or callable(spec.bias) or spec.bias.shape[-2] == 1):
        arrays.append(queries_first(spec.bias))
    lengths, size = batch_lengths(query, inputs.key), _block_size(inputs, query, lists)
    loops = backend.loops()
    if loops is not None:
        blocks = -(-count // size)
        size = -(-count // blocks)
        # The last queries are repeated, so that all blocks are of one size.
        repeated = xp.minimum(xp.arange(blocks * size, **options), count - 1)
        arrays = [
            xp.reshape(xp.take(x, repeated, axis=0), (blocks, size, *x.shape[1:])) for x in arrays
        ]
        _, output = loops.scan(lambda _, block: (None, _block_output(inputs, *block)), None, arrays)
        output = xp.reshape(
            backend.move_axis(output, 0, -3), (*lengths, blocks * size, inputs.columns)
        )
        return output[..., :count, :]
    if not backend.supports_inplace(*drop_none(q=query, k=inputs.key, v=inputs.value).values()):
        parts = [
            _block_output(inputs, *(x[part, ...] for x in arrays))
            for part in block_slices(count, size)
        ]
        return xp.concat(parts, axis=-2)
    output = xp.empty((*lengths, count, inputs.columns), dtype=backend.dtype, device=backend.device)

    def compute_block(part: slice) -> None:
        output[..., part, :] = _block_output(inputs, *(x[part, ...] for x in arrays))

    run_in_threads(compute_block, block_slices(count, size), *threads_for(output))
    return output


def _block_size(inputs: ListInputs, query: Array, lists: Array) -> int:
    """Return the number of queries of a block."""
    spec, backend = inputs.spec, inputs.spec.backend
    if backend.is_chunked and spec.block_size is None:
        return int(max(backend.chunks(query)[-2]))
    loops = backend.loops()
    on_host = loops.is_cpu_default if loops else backend.is_on_host(query)
    max_numbers = _MAX_NUMBERS_ON_HOST if on_host else _MAX_NUMBERS_ON_DEVICE
    numbers: int = prod(batch_lengths(query, inputs.key)) * query.shape[-1] * lists.shape[1]
    return spec.block_size or max(1, max_numbers // max(1, numbers))


def _block_output(
    inputs: ListInputs, indices: Array, listed: Array, query: Array, *bias: Array
) -> Array:
    """Return the results of some queries: the output and perhaps the logarithms, or weights.

    The first axis of `query`, and of a bias, is the queries.
    """
    spec, other_masks, may_be_invalid, key, value, _ = inputs
    backend, xp, k_len = spec.backend, spec.backend.xp, key.shape[-2]
    query = backend.move_axis(query, 0, -2)
    if bias:
        spec = spec._replace(bias=backend.move_axis(bias[0], 0, -2))
    is_listed = (listed >= 0) & (listed < k_len)
    query_and_key_indices = indices[:, None, None], xp.where(is_listed, listed, 0)[..., None]
    layout = spec.layout
    mask = layout.align_mask_or_bias("mask", (listed == -1)[..., None], backend)
    q, k = spec.positions.gathered_blocks(*query_and_key_indices, backend)
    if other_masks is not None:
        mask = mask | layout.align_mask_or_bias("mask", other_masks._mask_at(q, k), backend)
    if spec.positions.may_have_empty_slots:
        mask = mask | layout.align_mask_or_bias("mask", k.values < 0, backend)
    if backend.is_on_host(mask) and backend.concrete_bool(~xp.any(mask)):
        mask = None
    to_add = _bias_at(spec, *query_and_key_indices)
    if may_be_invalid:
        invalid = (~is_listed & (listed != -1))[..., None]
        invalid = layout.align_mask_or_bias("mask", invalid, backend)
        nan = backend.fill(backend.astype(invalid, backend.dtype), invalid, float("nan"))
        to_add = nan if to_add is None else to_add + nan
    # Each query becomes a matrix of its own, in which heads that share their keys are rows.
    order, last = list(range(query.ndim + 1)), query.ndim - 1
    heads = [axis for axis in range(last - 1) if key.shape[axis] == 1]
    shared = max(heads, key=lambda axis: query.shape[axis]) if heads else last
    order[shared], order[last] = last, shared
    query, mask, to_add, sinks = (
        None if x is None else xp.permute_dims(x[..., None, :], order)
        for x in (query, mask, to_add, spec.sinks)
    )
    key, value = (
        None if x is None else backend.take_entries(x, query_and_key_indices[1][..., 0], x.ndim - 2)
        for x in (key, value)
    )
    spec, lse = spec._replace(sinks=sinks), None
    if value is None:
        output = visible_weights(spec, query, key, mask, to_add)
    else:
        output, lse = attend_visible(spec, query, key, value, mask, to_add)
    output = output if lse is None else xp.concat([output, lse], axis=-1)
    return xp.permute_dims(output, order)[..., 0, :]


def _bias_at(spec: ScoreSpec, queries: Array, keys: Array) -> Array:
    """Return the bias between queries (query, 1, 1) and keys of each (query, key, 1)."""
    backend, bias = spec.backend, spec.bias
    if isinstance(bias, Bias):
        q, k = spec.positions.gathered_blocks(queries, keys, backend)
        array = bias._at_pairs(q.values, k.values, backend)
        return spec.layout.align_mask_or_bias("bias", array, backend)
    if callable(bias):
        name, array = call_score_function("bias", bias, queries[..., 0], keys[..., 0])
        return spec.layout.align(name, array, keys.shape[0], keys.shape[1], backend)
    if bias is None or bias.shape[-1] == 1:
        return bias
    *lengths, count, k_len = bias.shape
    rows = backend.xp.arange(count, dtype=backend.int_dtype, device=backend.device)
    table = backend.reshape(bias, (*lengths, count * k_len))
    return backend.take_entries(table, rows[:, None] * k_len + keys[..., 0], len(lengths))
