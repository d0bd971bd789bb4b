"""Attention on arrays of dask: the online softmax across chunks of keys.

A task takes a chunk of queries and a chunk of keys. It returns the weighted sums of the values, the
total of the weights and the maximum of the scores. Tasks then merge the partial results of up to 8
chunks. Fully masked pairs of chunks have no task.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any, TypeAlias

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.namespace import Array, drop_none
from positional_embeddings.attention.algorithms.blocks import partial_sums
from positional_embeddings.attention.layout import slice_broadcast
from positional_embeddings.attention.scores import ScoreSpec
from positional_embeddings.attention.softmax import OnlineSoftmax
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.index_ranges import full_range
from positional_embeddings.masks.mask import FunctionMask, Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions
from positional_embeddings.masks.ranges import intersect, unite

# Where chunks of an axis start and stop.
Bounds: TypeAlias = list[tuple[int, int]]

# How many chunks of keys, whose columns are partial outputs, one task merges.
_MAX_MERGED_CHUNKS = 8

_NAME = "scaled_dot_product_attention"  # of the tasks


def attend_dask_chunks(
    spec: ScoreSpec, query: Array, key: Array, value: Array
) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), by tasks of a chunk of queries and one of keys."""
    terms = _array_terms(spec, query, key)
    batch_ndim, backend = query.ndim - 2, spec.backend
    longer = (key if query.shape[axis] == 1 else query for axis in range(batch_ndim))
    lengths = [backend.chunks(array)[axis] for axis, array in enumerate(longer)]
    lengths += [backend.chunks(query)[batch_ndim], backend.chunks(key)[batch_ndim]]
    chunks = dict(enumerate(lengths))
    # The axes are (..., query, key, feature), with length 1 where an array lacks an axis.
    expanded = query[..., None, :], key[..., None, :, :], value[..., None, :, :]
    arrays = [backend.rechunk(x, chunks | {batch_ndim + 2: (x.shape[-1],)}) for x in expanded]
    arrays += [backend.rechunk(array[..., None], chunks) for array in terms.values()]
    # One node of the graph, which all tasks share and each worker gets once: the scores without
    # arrays and without a backend, which each task takes from its chunks.
    without: dict[str, Any] = dict.fromkeys(("backend", "sinks", *terms))
    if not isinstance(spec.positions, ImplicitPositions):
        without["positions"] = ImplicitPositions(0, spec.layout.keys.size)
    shared = sys.modules["dask"].delayed(spec._replace(**without), traverse=False)
    *batch_bounds, q_bounds, k_bounds = (list(pairwise(accumulate(n, initial=0))) for n in lengths)
    outputs = []
    for queries, runs in _visible_chunks(spec, q_bounds, k_bounds):
        # The sinks are added with the first visible chunk of keys.
        task = partial(_attend_chunk, tuple(terms), runs[0][0])
        bounds = ([*batch_bounds, queries, keys] for keys in runs)
        parts = [_partial_sums(task, arrays, part, shared, backend) for part in bounds]
        part = parts[0] if len(parts) == 1 else backend.xp.concat(parts, axis=batch_ndim + 1)
        outputs.append(_merge_partial_outputs(part, backend)[..., 0, :])
    columns = outputs[0] if len(outputs) == 1 else backend.xp.concat(outputs, axis=batch_ndim)
    *outer, _ = backend.chunks(columns)
    n = value.shape[-1]
    finish = partial(_finish_chunk, spec.with_lse)
    results = (*outer, (n + spec.with_lse,))
    done = backend.map_chunks(finish, columns, chunks=results, dtype=backend.dtype, name=_NAME)
    return (done[..., :n], done[..., n:]) if spec.with_lse else (done, None)


def _array_terms(spec: ScoreSpec, query: Array, key: Array) -> dict[str, Array]:
    """Return the terms that must be computed as arrays: mask, bias, sinks."""
    query_and_key_ranges = full_range(query.shape[-2]), full_range(key.shape[-2])
    is_counted = isinstance(spec.positions, ImplicitPositions)
    in_tasks = [is_counted and _is_evaluated_in_tasks(x) for x in (spec.mask, spec.bias)]
    mask = None if in_tasks[0] else spec.mask_block(*query_and_key_ranges)
    bias = None if in_tasks[1] else spec.bias_block(*query_and_key_ranges)
    return drop_none(mask=mask, bias=bias, sinks=spec.sinks)


def _is_evaluated_in_tasks(mask_or_bias: Mask | Bias | Array) -> bool:
    """Return whether a mask or a bias has neither arrays of the library nor functions."""
    if not isinstance(mask_or_bias, Mask | Bias) or isinstance(mask_or_bias, FunctionMask):
        return False
    if mask_or_bias._arrays():
        return False
    return all(map(_is_evaluated_in_tasks, getattr(mask_or_bias, "masks", ())))


def _visible_chunks(
    spec: ScoreSpec, q_bounds: Bounds, k_bounds: Bounds
) -> Iterator[tuple[Bounds, list[Bounds]]]:
    """Yield chunks of queries, and their visible chunks of keys, in runs of neighbours."""

    def visible_bounds(queries: tuple[int, int]) -> Bounds:
        ranges = spec.visible_keys_of((queries,)).any_query
        # Queries without visible keys get a masked chunk.
        return [keys for keys in k_bounds if intersect(ranges, (keys,))] or k_bounds[:1]

    for keys, queries in groupby(q_bounds, visible_bounds):
        runs = [[chunk for chunk in keys if a <= chunk[0] < b] for a, b in unite(keys)]
        yield list(queries), runs


def _partial_sums(
    task: Callable[..., Array],
    arrays: list[Array],
    bounds: list[Bounds],
    shared: Any,
    backend: Backend,
) -> Array:
    """Return the columns of some chunks, (..., query, chunk of keys, feature + 2)."""
    index = [slice(axis[0][0], axis[-1][1]) for axis in bounds]

    def cut(array: Array) -> Array:
        part = slice_broadcast(array, index)
        return array if part.shape == array.shape else part

    *outer, _ = (tuple([stop - start for start, stop in axis]) for axis in bounds)
    return backend.map_chunks(
        partial(task, bounds),
        *map(cut, arrays),
        chunks=(*outer, (1,) * len(bounds[-1]), (arrays[2].shape[-1] + 2,)),
        dtype=backend.dtype,
        numbered=True,
        name=_NAME,
        shared=shared,
    )


def _attend_chunk(
    names: tuple[str, ...],
    first_keys: tuple[int, int],
    bounds: list[Bounds],
    *arrays: Array,
    block_id: tuple[int, ...],
    shared: ScoreSpec,
) -> Array:
    """Return the columns of a chunk of queries and one of keys, arrays of NumPy or CuPy."""
    *batch, queries, keys = (axis[i] for axis, i in zip(bounds, block_id, strict=False))
    query, key, value, *term_arrays = arrays
    terms = {name: array[..., 0] for name, array in zip(names, term_arrays, strict=True)}
    if keys != first_keys:
        terms.pop("sinks", None)
    counted: Any = shared.positions
    first = queries[0]
    positions = ImplicitPositions(
        counted.offset + first, counted.k_len, key_range=keys, query_start=first
    )
    layout = shared.layout._replace(batch_slices=tuple(slice(*bounds) for bounds in batch))
    terms |= {"backend": get_backend(query=query), "layout": layout}
    spec = shared._replace(positions=positions, **terms)
    query, key, value = query[..., 0, :], key[..., 0, :, :], value[..., 0, :, :]
    with spec.backend.compute_context(query):
        return partial_sums(spec, query, key, value)[..., None, :]


def _finish_chunk(with_lse: bool, columns: Array) -> Array:  # noqa: FBT001
    """Return the output, and perhaps the logarithm of the sum of exponentials after it."""
    backend, state = get_backend(columns=columns), OnlineSoftmax.from_packed(columns)
    return state.means_and_lse(backend) if with_lse else state.means(backend)


def _merge_partial_outputs(parts: Array, backend: Backend) -> Array:
    """Merge the columns of all chunks of keys, (..., query, 1, feature + 2)."""
    axis = parts.ndim - 2
    while (count := parts.shape[axis]) > 1:
        lengths = tuple(
            min(_MAX_MERGED_CHUNKS, count - n) for n in range(0, count, _MAX_MERGED_CHUNKS)
        )
        parts = backend.rechunk(parts, {axis: lengths})
        chunks = list(backend.chunks(parts))
        chunks[axis] = (1,) * len(lengths)
        options = {"chunks": tuple(chunks), "dtype": parts.dtype, "name": "merge_attention"}
        parts = backend.map_chunks(_merge_chunk, parts, **options)
    return parts


def _merge_chunk(parts: Array) -> Array:
    """Return the columns of several parts in one, (..., query, part, feature + 2)."""
    xp = get_backend(parts=parts).xp
    sums, highest = parts[..., :-1], parts[..., -1:]
    top = xp.max(highest, axis=-2, keepdims=True)
    decay = xp.exp(highest - xp.where(top == -float("inf"), 0.0, top))
    return xp.concat([xp.sum(sums * decay, axis=-2, keepdims=True), top], axis=-1)
