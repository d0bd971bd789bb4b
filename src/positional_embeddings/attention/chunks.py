"""Attention on arrays of dask and cubed: the online softmax across chunks of keys.

A task takes a chunk of queries and one of keys, and returns the output of these keys alone, the
total of their weights and the maximum of their scores. What the chunks of keys give is merged,
a few at a time. Pairs of chunks that a mask hides have no task.
"""

from collections.abc import Iterator
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.positions import whole_span
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.space import space_of
from positional_embeddings.attention.blocks import attend_in_blocks
from positional_embeddings.attention.plan import KeyBlock
from positional_embeddings.attention.scores import Scores
from positional_embeddings.attention.softmax import merge_partial
from positional_embeddings.biases.positions import Bias
from positional_embeddings.masks.mask import FunctionMask, Mask
from positional_embeddings.masks.ranges import intersect

# Partial outputs that one task merges.
_MERGED = 8


def attend_by_chunks(
    scores: Scores, query: Any, key: Any, value: Any, block_size: int | None
) -> Any:
    """Return the output, (..., query, feature), by tasks of a chunk of queries and one of keys."""
    arrays = {"query": query, "key": key, "value": value} | _given_as_arrays(scores, query, key)
    rows, space = query.ndim - 2, scores.space
    chunks: dict[int, tuple[int, ...]] = {
        axis: space.chunks(key if query.shape[axis] == 1 else query)[axis] for axis in range(rows)
    }
    chunks |= {rows: space.chunks(query)[rows], rows + 1: space.chunks(key)[rows]}
    # The axes are (..., query, key, feature); each array has length 1 on those that it lacks.
    for name, array in arrays.items():
        if name in ("mask", "bias"):
            arrays[name] = space.rechunk(array[..., None], chunks)
            continue
        lacking = (None, slice(None)) if name == "query" else (None, slice(None), slice(None))
        whole = {rows + 2: (array.shape[-1],)}
        arrays[name] = space.rechunk(array[(..., *lacking)], chunks | whole)
    # What all tasks share: the scores without arrays.
    names = tuple(arrays)[3:]
    without_arrays: dict[str, Any] = dict.fromkeys(names)
    nowhere: Any = None  # a task computes where its chunks are
    shared = scores._replace(space=nowhere, **without_arrays)
    task = partial(_attend_chunk, shared, names, block_size)
    outputs = []
    for queries, runs in _pairs(scores, chunks[rows], chunks[rows + 1]):
        parts = [_partial_outputs(task, arrays, space, chunks, queries, keys) for keys in runs]
        part = parts[0] if len(parts) == 1 else space.xp.concat(parts, axis=rows + 1)
        outputs.append(_merged(part, space)[..., 0, : value.shape[-1]])
    return outputs[0] if len(outputs) == 1 else space.xp.concat(outputs, axis=rows)


def chunks_are_known(space: Space, *given: Any) -> bool:
    """Tell whether all chunks of arrays have a known length, and none is empty."""
    arrays = [array for array in given if hasattr(array, "chunks")]
    lengths = (n for array in arrays for axis in space.chunks(array) for n in axis)
    return all(checks.is_known(n) and n > 0 for n in lengths)


def _given_as_arrays(scores: Scores, query: Any, key: Any) -> dict[str, Any]:
    """Return the mask and the bias that are chunked arrays, or give such, by name."""
    mask, bias = (
        None if _is_evaluated_in_tasks(given) else given for given in (scores.mask, scores.bias)
    )
    queries, keys = whole_span(query.shape[-2]), KeyBlock(whole_span(key.shape[-2]))
    terms = scores._replace(mask=mask, bias=bias).mask_and_bias(queries, keys)
    found = zip(("mask", "bias"), terms, strict=True)
    return {name: term for name, term in found if term is not None}


def _is_evaluated_in_tasks(given: Any) -> bool:
    """Tell whether a mask or a bias holds neither arrays of the library nor functions for them."""
    if isinstance(given, Bias):
        return not given._arrays()
    if not isinstance(given, Mask) or isinstance(given, FunctionMask) or given._device_arrays():
        return False
    return all(map(_is_evaluated_in_tasks, getattr(given, "masks", ())))


def _pairs(
    scores: Scores, q_chunks: tuple[int, ...], k_chunks: tuple[int, ...]
) -> Iterator[tuple[range, list[range]]]:
    """Yield numbers of chunks of queries, and of the chunks of keys that they see, in runs."""
    starts = [*accumulate(k_chunks, initial=0)]

    def seen(queries: tuple[int, tuple[int, int]]) -> tuple[int, ...]:
        ranges = scores.reach((queries[1],)).seen_by_any
        chunks = (i for i, keys in enumerate(pairwise(starts)) if intersect(ranges, (keys,)))
        return tuple(chunks) or (0,)  # which is hidden

    bounds = enumerate(pairwise(accumulate(q_chunks, initial=0)))
    for numbers, group in groupby(bounds, seen):
        queries = [i for i, _ in group]
        runs = [
            [number for _, number in run]
            for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
        ]
        yield (
            range(queries[0], queries[-1] + 1),
            [range(run[0], run[-1] + 1) for run in runs],
        )


def _partial_outputs(
    task: Any,
    arrays: dict[str, Any],
    space: Space,
    chunks: dict[int, tuple[int, ...]],
    queries: range,
    keys: range,
) -> Any:
    """Return the partial outputs of some chunks, (..., query, chunk of keys, feature + 2)."""
    rows = len(chunks) - 2
    bounds = [list(pairwise(accumulate(chunks[axis], initial=0))) for axis in range(rows + 2)]
    index: list[Any] = [slice(None)] * rows
    for axis, numbers in ((rows, queries), (rows + 1, keys)):
        bounds[axis] = bounds[axis][numbers.start : numbers.stop]
        index.append(slice(bounds[axis][0][0], bounds[axis][-1][1]))

    def cut(array: Any) -> Any:
        own = tuple(
            slice(None) if n == 1 else at for n, at in zip(array.shape, index, strict=False)
        )
        whole = (at.indices(n) == (0, n, 1) for at, n in zip(own, array.shape, strict=False))
        return array if all(whole) else array[(*own, slice(None))]

    columns = arrays["value"].shape[-1] + 2
    of_rows = [chunks[axis] for axis in range(rows)]
    of_queries = tuple(stop - start for start, stop in bounds[rows])
    return space.map_chunks(
        partial(task, bounds),
        *map(cut, arrays.values()),
        chunks=(*of_rows, of_queries, (1,) * len(keys), (columns,)),
        dtype=space.dtype,
        numbered=True,
    )


def _attend_chunk(
    shared: Scores,
    names: tuple[str, ...],
    block_size: int | None,
    bounds: list[list[tuple[int, int]]],
    query: Any,
    key: Any,
    value: Any,
    *given: Any,
    block_id: tuple[int, ...],
) -> Any:
    """Return the partial output of a chunk of queries and one of keys, arrays of NumPy or CuPy."""
    *rows, queries, keys = (own[i] for own, i in zip(bounds, block_id, strict=False))
    terms = dict(zip(names, (array[..., 0] for array in given), strict=True))
    scores = shared._replace(
        offset=shared.offset + queries[0],
        has_reach=isinstance(shared.mask, Mask),
        space=space_of(query=query),
        rows=tuple(slice(*own) for own in rows),
        keys=keys,
        **terms,
    )
    query, key, value = query[..., 0, :], key[..., 0, :, :], value[..., 0, :, :]
    return attend_in_blocks(scores, query, key, value, block_size, partial=True)[..., None, :]


def _merged(parts: Any, space: Space) -> Any:
    """Merge the partial outputs of all chunks of keys, (..., query, 1, feature + 2)."""
    axis = parts.ndim - 2
    while (count := parts.shape[axis]) > 1:
        lengths = tuple(min(_MERGED, count - start) for start in range(0, count, _MERGED))
        parts = space.rechunk(parts, {axis: lengths})
        chunks = list(space.chunks(parts))
        chunks[axis] = (1,) * len(lengths)
        parts = space.map_chunks(_merge_chunk, parts, chunks=tuple(chunks), dtype=parts.dtype)
    return parts


def _merge_chunk(parts: Any) -> Any:
    return merge_partial(parts, space_of(parts=parts).xp)
