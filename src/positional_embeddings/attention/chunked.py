"""Attention on arrays of dask and cubed: the online softmax across chunks of keys.

A task takes a chunk of queries and one of keys, and returns the output of these keys alone, the
total of their weights and the maximum of their scores. What the chunks of keys give is merged,
a few at a time. Pairs of chunks that a mask hides have no task.
"""

from collections.abc import Iterator
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import (
    chunks_of,
    map_chunks,
    on_the_host,
    rechunked,
    supports_inplace,
)
from positional_embeddings._core.namespace import Namespace, device_of, dtype_name, namespace_of
from positional_embeddings.attention.blocks import ALL, Indices, Visibility
from positional_embeddings.attention.online_softmax import (
    ACCELERATOR_BLOCK,
    HOST_BLOCK,
    AttentionInputs,
    BlockFunction,
    attend_in_blocks,
    merge_partial,
    slice_broadcast,
)
from positional_embeddings.attention.score_axes import ScoreLayout, by_block, of_array
from positional_embeddings.masks.mask import FunctionMask, Mask
from positional_embeddings.masks.ranges import Ranges, Reach, intersect, shift
from positional_embeddings.relative.positions import Bias

# Partial outputs that one task merges.
_MERGED = 8


class Terms(NamedTuple):
    """The mask and the bias as they were given, and what tells where they apply."""

    mask: Any
    bias: Any
    layout: ScoreLayout
    q: Any
    start: int  # position of the first query
    block_size: int | None


class _Shaped(NamedTuple):
    """What a mask or a bias has to know of the queries."""

    shape: tuple[int, ...]
    dtype: Any


class _Work(NamedTuple):
    """What all tasks of an attention share."""

    inputs: AttentionInputs  # without arrays
    terms: Terms  # with the mask and the bias that a task evaluates itself
    given: tuple[str, ...]  # which of the two come as chunks of arrays
    dtype: str


def attend_by_chunks(inputs: AttentionInputs, terms: Terms, xp: Namespace) -> Any:
    """Return the output, (..., query, feature), None if there is a chunk of unknown length."""
    arrays = {"query": inputs.query, "key": inputs.key, "value": inputs.value}
    arrays |= _given_as_arrays(inputs, terms)
    lengths = (n for array in arrays.values() for axis in chunks_of(array) for n in axis)
    if not all(checks.is_known(n) and n > 0 for n in lengths):
        return None
    query, key = inputs.query, inputs.key
    rows = query.ndim - 2
    chunks: dict[int, tuple[int, ...]] = {
        axis: chunks_of(key if query.shape[axis] == 1 else query)[axis] for axis in range(rows)
    }
    chunks |= {rows: chunks_of(query)[rows], rows + 1: chunks_of(key)[rows]}
    names = tuple(name for name in arrays if name in ("mask", "bias"))
    # The axes are (..., query, key, feature); each array has length 1 on those that it lacks.
    for name, array in arrays.items():
        if name in names:
            arrays[name] = rechunked(array[..., None], chunks)
            continue
        lacking = (..., None, ALL) if name == "query" else (..., None, ALL, ALL)
        whole = {rows + 2: (array.shape[-1],)}
        arrays[name] = rechunked(array[lacking], chunks | whole)
    work = _work_without_arrays(inputs, terms, names)
    columns = inputs.value.shape[-1]
    outputs = []
    for queries, runs in _pairs(inputs.visibility, chunks[rows], chunks[rows + 1]):
        parts = [_partial_outputs(arrays, work, chunks, queries, keys) for keys in runs]
        part = parts[0] if len(parts) == 1 else xp.concat(parts, axis=rows + 1)
        outputs.append(_merged(part, may_hide=inputs.may_hide)[..., 0, :columns])
    return outputs[0] if len(outputs) == 1 else xp.concat(outputs, axis=rows)


def _given_as_arrays(inputs: AttentionInputs, terms: Terms) -> dict[str, Any]:
    """Return the mask and the bias that are chunked arrays, or give such, by name."""
    found: dict[str, Any] = {}
    for name, given, block in (
        ("mask", terms.mask, inputs.mask),
        ("bias", terms.bias, inputs.bias),
    ):
        if block is not None and not _is_evaluated_in_tasks(given):
            found[name] = block((ALL,), (ALL,))
    return found


def _is_evaluated_in_tasks(given: Any) -> bool:
    """Tell whether a mask or a bias holds neither arrays of the library nor functions for them."""
    if isinstance(given, Bias):
        return not given._arrays()
    if not isinstance(given, Mask) or isinstance(given, FunctionMask) or given._device_arrays():
        return False
    return all(map(_is_evaluated_in_tasks, getattr(given, "masks", ())))


def _work_without_arrays(inputs: AttentionInputs, terms: Terms, names: tuple[str, ...]) -> _Work:
    bare = inputs._replace(
        query=None, key=None, value=None, mask=None, bias=None, visibility=None, device=None
    )
    given: dict[str, Any] = dict.fromkeys(names)
    shaped = _Shaped(tuple(terms.q.shape), terms.q.dtype)
    dtype = dtype_name(inputs.dtype)
    return _Work(bare, terms._replace(q=shaped, **given), names, dtype)


def _pairs(
    visibility: Visibility | None, q_chunks: tuple[int, ...], k_chunks: tuple[int, ...]
) -> Iterator[tuple[range, list[range]]]:
    """Yield numbers of chunks of queries, and of the chunks of keys that they see, in runs."""
    starts = [*accumulate(k_chunks, initial=0)]

    def seen(queries: tuple[int, tuple[int, int]]) -> tuple[int, ...]:
        if visibility is None:
            return tuple(range(len(k_chunks)))
        ranges = visibility.reach((queries[1],)).at_most
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
    arrays: dict[str, Any],
    work: _Work,
    chunks: dict[int, tuple[int, ...]],
    queries: range,
    keys: range,
) -> Any:
    """Return the partial outputs of some chunks, (..., query, chunk of keys, feature + 2)."""
    rows = len(chunks) - 2
    bounds = [list(pairwise(accumulate(chunks[axis], initial=0))) for axis in range(rows + 2)]
    index: list[Any] = [ALL] * rows
    for axis, numbers in ((rows, queries), (rows + 1, keys)):
        bounds[axis] = bounds[axis][numbers.start : numbers.stop]
        index.append(slice(bounds[axis][0][0], bounds[axis][-1][1]))

    def cut(array: Any) -> Any:
        own = tuple(ALL if n == 1 else at for n, at in zip(array.shape, index, strict=False))
        whole = (at.indices(n) == (0, n, 1) for at, n in zip(own, array.shape, strict=False))
        return array if all(whole) else array[(*own, ALL)]

    columns = arrays["value"].shape[-1] + 2
    of_rows = [chunks[axis] for axis in range(rows)]
    of_queries = tuple(stop - start for start, stop in bounds[rows])
    return map_chunks(
        partial(_attend_chunk, work, bounds),
        *map(cut, arrays.values()),
        chunks=(*of_rows, of_queries, (1,) * len(keys), (columns,)),
        dtype=work.inputs.dtype,
        numbered=True,
    )


def _attend_chunk(
    work: _Work,
    bounds: list[list[tuple[int, int]]],
    query: Any,
    key: Any,
    value: Any,
    *given: Any,
    block_id: tuple[int, ...],
) -> Any:
    """Return the partial output of a chunk of queries and one of keys, arrays of NumPy or CuPy."""
    xp, on = namespace_of(query=query), device_of(query)
    *rows, queries, keys = (own[i] for own, i in zip(bounds, block_id, strict=False))
    terms = work.terms
    arrays = dict(zip(work.given, (array[..., 0] for array in given), strict=True))
    blocks: dict[str, Any] = {}
    for name, own in (("mask", terms.mask), ("bias", terms.bias)):
        if name in arrays:
            blocks[name] = of_array(arrays[name], xp)
        elif own is not None:
            whole = by_block(name, own, terms.layout, terms.q, terms.start, on, xp)
            blocks[name] = _within(whole, rows, queries[0], keys[0])
    visibility = None
    if isinstance(terms.mask, Mask):
        visibility = _visibility_within(terms, queries[0], keys)
    inputs = work.inputs._replace(
        query=query[..., 0, :],
        key=key[..., 0, :, :],
        value=value[..., 0, :, :],
        visibility=visibility,
        dtype=getattr(xp, work.dtype),
        device=on,
        on_host=on_the_host(query),
        in_place=supports_inplace(query, key, value),
        **blocks,
    )
    lengths = tuple(stop - start for start, stop in rows)
    most = HOST_BLOCK if inputs.on_host else ACCELERATOR_BLOCK
    output = attend_in_blocks(inputs, lengths, terms.block_size, most, xp, partial=True)
    return output[..., None, :]


def _within(
    whole: BlockFunction, rows: list[tuple[int, int]], q_start: int, k_start: int
) -> BlockFunction:
    """Return a mask or a bias of a chunk, which is asked by indices in the chunk."""
    own_rows = tuple(slice(*bounds) for bounds in rows)

    def block(queries: Any, keys: Any) -> Any:
        term = whole(_shifted(queries, q_start), _shifted(keys, k_start))
        return slice_broadcast(term, (*own_rows, ALL, ALL))

    return block


def _shifted(at: Indices, by: int) -> Indices:
    return tuple(slice(part.start + by, part.stop + by) for part in at)


def _visibility_within(terms: Terms, q_start: int, keys: tuple[int, int]) -> Visibility:
    """Return what a mask tells of the queries and the keys of a chunk."""
    mask, first, k_len = terms.mask, terms.start + q_start, terms.layout.k_len

    def reach(queries: Ranges) -> Reach:
        seen = mask._reach(shift(queries, first), k_len)
        return Reach(*(shift(intersect(ranges, (keys,)), -keys[0]) for ranges in seen))

    return Visibility(reach, shift(mask._wide_queries(), -first))


def _merged(parts: Any, *, may_hide: bool) -> Any:
    """Merge the partial outputs of all chunks of keys, (..., query, 1, feature + 2)."""
    axis = parts.ndim - 2
    while (count := parts.shape[axis]) > 1:
        lengths = tuple(min(_MERGED, count - start) for start in range(0, count, _MERGED))
        parts = rechunked(parts, {axis: lengths})
        chunks = list(chunks_of(parts))
        chunks[axis] = (1,) * len(lengths)
        merge = partial(_merge_chunk, may_hide)
        parts = map_chunks(merge, parts, chunks=tuple(chunks), dtype=parts.dtype)
    return parts


def _merge_chunk(may_hide: bool, parts: Any) -> Any:  # noqa: FBT001
    return merge_partial(parts, may_hide, namespace_of(parts=parts))
