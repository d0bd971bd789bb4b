"""Attention over lists of keys: the keys that each query sees are gathered, a block at a time."""

from math import prod
from typing import Any, NamedTuple

from positional_embeddings.arguments.spans import span_of
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array, drop_none, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.arrays.threads import share, threads_for
from positional_embeddings.attention import at_once
from positional_embeddings.attention.plan import row_lengths
from positional_embeddings.attention.scores import Scores, slice_broadcast
from positional_embeddings.masks.lists import ListMask, Queries
from positional_embeddings.masks.mask import Mask

# Numbers of the keys that a block of queries gathers: few enough for a core's cache
# (`benchmarks/bench_lists.py`), or enough to be worth a launch.
_MOST_NUMBERS_ON_HOST = 2**19
_MOST_NUMBERS_ON_DEVICE = 2**23


class _Inputs(NamedTuple):
    """What blocks are made of."""

    scores: Scores
    lists: ListMask  # in the library of the queries
    others: Mask | None  # what hides some of the listed keys
    query: Array
    key: Array
    value: Array  # None where weights are asked for


def attend(scores: Scores, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and the logarithm of the sum if it is asked for."""
    output = _of_sequences(scores, query, key, value, value.shape[-1] + scores.with_lse)
    return (output[..., :-1], output[..., -1:]) if scores.with_lse else (output, None)


def weights(scores: Scores, query: Array, key: Array) -> Array:
    """Return the weights of the keys in the order of the lists, (..., query, place in the list)."""
    lists, _ = scores.mask._split_lists()
    columns = max(longest for _, longest in lists._groups())
    if 0 in (query.shape[-2], key.shape[-2]):  # no query has a list, or there are no keys
        shape = (*row_lengths(query, key), query.shape[-2], columns)
        return scores.space.xp.zeros(shape, dtype=scores.space.dtype, device=scores.space.device)
    return _of_sequences(scores, query, key, None, columns)


def _of_sequences(scores: Scores, query: Array, key: Array, value: Array, columns: int) -> Array:
    """Return what all queries give, (..., query, column), of one sequence after another."""
    lists, others = scores.mask._split_lists()
    space, batch = scores.space, lists._batch()
    if batch == 1:
        sequence = None if lists.indices.ndim < 3 else 0
        inputs = _Inputs(scores, lists._in_library(space, sequence), others, query, key, value)
        return _of_groups(inputs, columns)
    like = space.xp.zeros((1, 1, batch), dtype=space.xp.bool, device=space.device)
    axis, outputs = scores.aligned("mask", like).shape.index(batch), []
    for b in range(batch):
        rows = (*(slice(None),) * axis, slice(b, b + 1))
        own = [slice_broadcast(array, rows) for array in (query, key, value, scores.sinks)]
        bias = scores.bias if callable(scores.bias) else slice_broadcast(scores.bias, rows)
        of_sequence = scores._replace(rows=rows, bias=bias, sinks=own.pop())
        inputs = _Inputs(of_sequence, lists._in_library(space, b), others, *own)
        outputs.append(_of_groups(inputs, columns))
    return space.xp.concat(outputs, axis=axis)


def _of_groups(inputs: _Inputs, columns: int) -> Array:
    """Return what all queries give, in groups whose lists have like lengths."""
    space, query, groups = inputs.scores.space, inputs.query, inputs.lists._groups()
    blocks = [
        (queries[at], longest)
        for queries, longest in groups
        for at in cuts(len(queries), _block_size(inputs, longest))
    ]

    def of_block(queries: Queries, longest: int) -> Array:
        return _of_block(inputs, queries, inputs.lists._of(queries, longest, space), columns)

    if space.loops() is not None:
        output = space.xp.concat([_scanned(inputs, *group, columns) for group in groups], axis=-2)
    elif not space.supports_inplace(*drop_none(q=query, k=inputs.key, v=inputs.value).values()):
        output = space.xp.concat([of_block(*block) for block in blocks], axis=-2)
    else:
        shape = (*row_lengths(query, inputs.key), query.shape[-2], columns)
        output = space.xp.empty(shape, dtype=space.dtype, device=space.device)
        stops = np.cumsum([len(queries) for queries, _ in blocks]).tolist()

        def work(piece: tuple[int, tuple[Queries, int]]) -> None:
            stop, block = piece
            output[..., stop - len(block[0]) : stop, :] = of_block(*block)

        share(work, list(zip(stops, blocks, strict=True)), *threads_for(output))
    if len(groups) == 1:
        return output
    places = np.argsort(np.concat([queries for queries, _ in groups]))
    places = space.xp.asarray(places, dtype=space.integer, device=space.device)
    return space.take_entries(output, places, output.ndim - 2)


def _block_size(inputs: _Inputs, longest: int) -> int:
    """Return how many queries gather few enough numbers."""
    scores, query, space = inputs.scores, inputs.query, inputs.scores.space
    if scores.block_size is not None:
        return scores.block_size
    if space.is_chunked:
        return int(max(space.chunks(query)[-2]))
    most: int = _MOST_NUMBERS_ON_HOST if space.is_on_host(query) else _MOST_NUMBERS_ON_DEVICE
    numbers: int = prod(row_lengths(query, inputs.key)) * query.shape[-1] * longest
    return max(1, most // max(1, numbers))


def _scanned(inputs: _Inputs, queries: Queries, longest: int, columns: int) -> Array:
    """Return what the queries of a group give, by a loop of the library over equal blocks."""
    space, size = inputs.scores.space, min(_block_size(inputs, longest), len(queries))
    loops: Any = space.loops()
    xp, whole = space.xp, len(queries) // size * size
    lists = inputs.lists._of(queries, longest, space)
    blocks = [
        xp.reshape(array[:whole, ...], (-1, size, *array.shape[1:]))
        for array in (_indices(queries, space), lists)
    ]

    def attend_next(_: None, block: list[Array]) -> tuple[None, Array]:
        queries, lists = block
        return None, _of_block(inputs, queries, lists, columns)

    output = xp.moveaxis(loops.scan(attend_next, None, blocks)[1], 0, -3)
    output = xp.reshape(output, (*output.shape[:-3], whole, columns))
    if whole == len(queries):
        return output
    rest = _of_block(inputs, queries[whole:], lists[whole:, :], columns)
    return xp.concat([output, rest], axis=-2)


def _of_block(inputs: _Inputs, queries: Array, listed: Array, columns: int) -> Array:
    """Return what some queries give: the output and perhaps the logarithms, or weights."""
    scores, lists, others, query, key, value = inputs
    space, xp = scores.space, scores.space.xp
    query, array_of_bias = (_queries_of(array, queries, space) for array in (query, scores.bias))
    scores = scores._replace(bias=array_of_bias)
    at = _indices(queries, space)[:, None]
    is_there = (listed >= 0) & (listed < key.shape[-2])
    keys = xp.where(is_there, listed, 0)
    hidden = scores.aligned("mask", (listed < 0)[..., None])
    if others is not None:
        hidden = hidden | scores.mask_at_pairs(others, at, keys)
    if space.is_on_host(hidden) and space.is_true(~xp.any(hidden)):
        hidden = None
    bias = scores.bias_at_pairs(at, keys)
    if lists._largest is None:  # lists are not checked: NaN for what is neither a key nor -1
        zero, nan = (
            xp.asarray(x, dtype=space.dtype, device=space.device) for x in (0, float("nan"))
        )
        wrong = scores.aligned("mask", xp.where(is_there | (listed == -1), zero, nan)[..., None])
        bias = wrong if bias is None else bias + wrong
    # Each query becomes a row of its own.
    query, hidden, bias, sinks = (
        None if x is None else x[..., None, :] for x in (query, hidden, bias, scores.sinks)
    )
    key = space.take_entries(key, keys, key.ndim - 2)
    if value is None:  # the mean of the rows of the unit matrix are the weights themselves
        unit = np.eye(keys.shape[1], columns)  # dask makes none that is not square
        value = xp.asarray(unit, dtype=space.dtype, device=space.device)
    else:
        value = space.take_entries(value, keys, value.ndim - 2)
    scores = scores._replace(sinks=sinks)
    output, lse = at_once.attend_seen(scores, query, key, value, hidden, bias)
    return (output if lse is None else xp.concat([output, lse], axis=-1))[..., 0, :]


def _queries_of(array: Array, queries: Array, space: Space) -> Array:
    """Return some queries of an array, (..., query, last), unless it is one for all."""
    if array is None or callable(array) or array.shape[-2] == 1:
        return array
    if isinstance(queries, range):
        return span_of((queries.start, queries.stop)).take(array, -2, space)
    return space.take_entries(array, _indices(queries, space), array.ndim - 2)


def _indices(queries: Array, space: Space) -> Array:
    """Return the indices of queries as an array."""
    like = {"dtype": space.integer, "device": space.device}
    if isinstance(queries, range):
        return space.xp.arange(queries.start, queries.stop, **like)
    return space.xp.asarray(queries, **like)
