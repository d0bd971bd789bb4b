"""Attention by loops of a library over blocks of equal length, where it traces and compiles.

A loop of Python would be unrolled: as long to compile as there are blocks, and with the memory of
all of them. In a loop of the library the blocks have one shape, and begin where the trace counts.
"""

from typing import Any

from positional_embeddings.arguments.spans import Span
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.arrays.space import Loops
from positional_embeddings.attention.blocks import KeysAndValues, keys_and_values
from positional_embeddings.attention.scores import Scores
from positional_embeddings.attention.softmax import OnlineSoftmax, multiply, products

# Blocks of fewer queries or keys are not worth a step of a loop.
_LEAST = 128
_MULTIPLE = 64


def block_size(most: int, rows: int) -> int:
    """Return how many queries and keys have about `most` scores in all rows together."""
    return max(_LEAST, int((most / rows) ** 0.5) // _MULTIPLE * _MULTIPLE)


def _plan_loops(
    q_len: int, k_len: int, q_block: int, k_block: int, scores: Scores
) -> tuple[list[list[int]], list[bool]]:
    """Return which blocks of keys each block of queries visits, without those that a mask hides.

    What equal blocks leave over is a shorter block of its own, the last: which whole blocks of
    keys, all as many, filled up by -1, and whether the keys left over.
    """
    whole, keys, visits_rest = k_len // k_block, [], []
    for at in cuts(q_len, q_block):
        seen = scores.reach(((at.start, at.stop),)).seen_by_any
        some = {j for start, stop in seen for j in range(start // k_block, -(-stop // k_block))}
        keys.append(sorted(some - {whole}))
        visits_rest.append(whole in some)
    longest = max(map(len, keys))
    return [some + [-1] * (longest - len(some)) for some in keys], visits_rest


def attend(
    scores: Scores, query: Array, key: Array, value: Array, *, size: int, loops: Loops
) -> tuple[Any, Any]:
    """Return the output, by loops of the library over blocks of `size` queries and keys."""
    space = scores.space
    xp = space.xp
    q_len, k_len = query.shape[-2], key.shape[-2]
    q_block, k_block = (-(-n // -(-n // min(n, size))) for n in (q_len, k_len))
    visited, rest_visited = _plan_loops(q_len, k_len, q_block, k_block, scores)
    keys = keys_and_values(scores, key, value)
    arrays = [keys.key, keys.value]
    if keys.nonfinite is not None:
        arrays.append(xp.matrix_transpose(keys.nonfinite))
    wholes, rests = zip(*(_in_blocks(array, k_block, xp) for array in arrays), strict=True)
    like = {"dtype": space.integer, "device": space.device}
    numbers = xp.asarray(visited, **like)
    visits_rest = xp.asarray(rest_visited, dtype=xp.bool, device=space.device)
    rest_start = xp.asarray(wholes[0].shape[0] * k_block, **like)
    rest_keys = Span(None, rests[0].shape[-2], rest_start)

    def of_queries(query: Array, start: Any, which: Any, visits_the_rest: Any) -> Any:
        queries = Span(None, query.shape[-2], start)
        query = space.astype(query, space.dtype) * scores.scale

        def update(state: OnlineSoftmax, at: Span, key: Array, value: Array, *hidden: Array) -> Any:
            nonfinite = xp.matrix_transpose(hidden[0]) if hidden else None
            between = scores.mask_between(queries, at), scores.bias_between(queries, at)
            mask, bias = scores.hidden_and_bias(*between)
            found = scores.of(products(query, key, space), nonfinite, None, bias)
            return state.update(found, mask, value, keys.headroom, space)

        def visit(state: OnlineSoftmax, element: Any) -> Any:
            number, *arrays = element
            at = Span(None, k_block, number * k_block)
            state = loops.cond(number >= 0, lambda s: update(s, at, *arrays), lambda s: s, state)
            return state, None

        index = xp.maximum(which, 0)
        taken = [xp.take(whole, index, axis=0) for whole in wholes]
        state = _state_like(scores, query, keys).with_sinks(scores.sinks, space)
        state, _ = loops.scan(visit, state, (which, *taken))
        if rest_keys.size:
            last = lambda s: update(s, rest_keys, *rests)  # noqa: E731
            state = loops.cond(visits_the_rest, last, lambda s: s, state)
        return state.means(space), state.lse(space) if scores.with_lse else None

    whole, rest = _in_blocks(query, q_block, xp)
    count = whole.shape[0]
    starts = xp.arange(count + 1, **like) * q_block
    elements = (whole, starts[:-1], numbers[:count, :], visits_rest[:count])
    _, of_wholes = loops.scan(lambda _, element: (None, of_queries(*element)), None, elements)
    rests_too = rest.shape[-2] > 0
    of_rest = of_queries(rest, starts[-1], numbers[-1, :], visits_rest[-1]) if rests_too else ()

    def joined(whole: Any, *rest: Any) -> Any:
        if whole is None:
            return None
        whole = xp.moveaxis(whole, 0, -3)
        whole = xp.reshape(whole, (*whole.shape[:-3], count * q_block, whole.shape[-1]))
        return xp.concat([whole, *rest], axis=-2)

    parts = (of_wholes, of_rest) if rests_too else (of_wholes,)
    output, lse = map(joined, *parts)
    return output, lse


def _state_like(scores: Scores, query: Array, keys: KeysAndValues) -> OnlineSoftmax:
    """Return the state before the first key, sharded over devices as the products will be."""
    xp = scores.space.xp
    product = products(query[..., :1], keys.key[..., :1, :1], scores.space)
    weighted = multiply(product, keys.value[..., :1, :], scores.space)
    # Zeros that inherit the products' sharding.
    both = weighted, product
    sums, total = (xp.where(xp.isnan(like), 0.0, xp.zeros_like(like)) for like in both)
    return OnlineSoftmax(sums, total, total - float("inf"))


def _in_blocks(array: Array, length: int, xp: Namespace) -> tuple[Any, Any]:
    """Return the whole blocks of an array on axis -2, first (block, ...), and the rest."""
    *rows, size, features = array.shape
    whole = size // length
    blocks = xp.reshape(array[..., : whole * length, :], (*rows, whole, length, features))
    return xp.moveaxis(blocks, -3, 0), array[..., whole * length :, :]
