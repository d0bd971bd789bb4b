"""Attention by loops of a library over blocks of equal length, where it traces and compiles.

A loop of Python would be unrolled: as long to compile as there are blocks, and with the memory of
all of them. In a loop of the library the blocks have one shape, and begin where the trace counts.
"""

from typing import Any

from positional_embeddings.arguments.spans import Span
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array, Namespace
from positional_embeddings.attention.blocks import Inputs, inputs_of
from positional_embeddings.attention.scores import Scores
from positional_embeddings.attention.softmax import OnlineSoftmax, multiply, products

# Few enough for any device, whose memory a trace does not know.
MOST_SCORES_OF_A_BLOCK = 2**22

# Blocks of fewer queries or keys are not worth a step of a loop.
_FEWEST_QUERIES_OR_KEYS = 128
_MULTIPLE = 64  # of queries or keys, the lengths of blocks


def block_size(scores: Scores) -> int:
    """Return how many queries and keys of a block have few enough scores in all rows together."""
    if scores.block_size is not None:
        return scores.block_size
    rows = scores.layout.scores_per_key // scores.layout.queries.size
    length = int((MOST_SCORES_OF_A_BLOCK / rows) ** 0.5)
    return max(_FEWEST_QUERIES_OR_KEYS, length // _MULTIPLE * _MULTIPLE)


def _visited_blocks(
    q_len: int, k_len: int, q_block: int, k_block: int, scores: Scores
) -> tuple[list[list[int]], list[bool]]:
    """Return which blocks of keys each block of queries visits: those that a mask does not hide.

    All blocks of keys have `k_block` keys, but for a shorter one at the end, if there is one. For
    each block of queries, the first result has the numbers of the long ones that it visits, and
    then -1, so that all lists are as long. The second tells whether it visits the shorter one.
    """
    whole, visited, visits_rest = k_len // k_block, [], []
    for at in cuts(q_len, q_block):
        seen = scores.reach(((at.start, at.stop),)).seen_by_any
        some = {j for start, stop in seen for j in range(start // k_block, -(-stop // k_block))}
        visited.append(sorted(some - {whole}))
        visits_rest.append(whole in some)
    longest = max(map(len, visited))
    return [some + [-1] * (longest - len(some)) for some in visited], visits_rest


def attend(scores: Scores, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, by loops of the library over blocks of queries and of keys."""
    space, size = scores.space, block_size(scores)
    xp = space.xp
    loops: Any = space.loops()
    q_len, k_len = query.shape[-2], key.shape[-2]
    q_block, k_block = (-(-n // -(-n // min(n, size))) for n in (q_len, k_len))
    visited, rest_visited = _visited_blocks(q_len, k_len, q_block, k_block, scores)
    inputs = inputs_of(scores, query, key, value)
    arrays = [inputs.key, inputs.value]
    if inputs.nonfinite is not None:
        arrays.append(xp.matrix_transpose(inputs.nonfinite))
    wholes, rests = zip(*(_in_blocks(array, k_block, xp) for array in arrays), strict=True)
    like = {"dtype": space.integer, "device": space.device}
    numbers = xp.asarray(visited, **like)
    visits_rest = xp.asarray(rest_visited, dtype=xp.bool, device=space.device)
    rest_start = xp.asarray(wholes[0].shape[0] * k_block, **like)
    rest_keys = Span(None, rests[0].shape[-2], rest_start)

    def of_queries(query: Array, start: Array, which: Array, visits_the_rest: Array) -> Any:
        queries = Span(None, query.shape[-2], start)
        query = space.astype(query, space.dtype) * scores.scale

        def update(state: OnlineSoftmax, at: Span, key: Array, value: Array, *hidden: Array) -> Any:
            nonfinite = xp.matrix_transpose(hidden[0]) if hidden else None
            between = scores.mask_between(queries, at), scores.bias_between(queries, at)
            mask, bias = scores.hidden_and_bias(*between)
            logits = scores.from_products(products(query, key, space), nonfinite, None, bias)
            return state.update(logits, mask, value, inputs.headroom, space)

        def visit(state: OnlineSoftmax, element: tuple[Array, ...]) -> tuple[OnlineSoftmax, None]:
            number, *arrays = element
            at = Span(None, k_block, number * k_block)
            return loops.cond(
                number >= 0, lambda s: update(s, at, *arrays), lambda s: s, state
            ), None

        index = xp.maximum(which, 0)
        taken = [xp.take(whole, index, axis=0) for whole in wholes]
        state = _state_like(inputs, query).with_sinks(scores.sinks, space)
        state, _ = loops.scan(visit, state, (which, *taken))
        if rest_keys.size:
            last = lambda s: update(s, rest_keys, *rests)  # noqa: E731
            state = loops.cond(visits_the_rest, last, lambda s: s, state)
        return state.means_and_lse(space) if scores.with_lse else state.means(space)

    whole, rest = _in_blocks(query, q_block, xp)
    count = whole.shape[0]
    starts = xp.arange(count + 1, **like) * q_block
    elements = (whole, starts[:-1], numbers[:count, :], visits_rest[:count])
    _, output = loops.scan(lambda _, element: (None, of_queries(*element)), None, elements)
    output = xp.moveaxis(output, 0, -3)
    output = xp.reshape(output, (*output.shape[:-3], count * q_block, output.shape[-1]))
    if rest.shape[-2] > 0:
        of_rest = of_queries(rest, starts[-1], numbers[-1, :], visits_rest[-1])
        output = xp.concat([output, of_rest], axis=-2)
    return (output[..., :-1], output[..., -1:]) if scores.with_lse else (output, None)


def _state_like(inputs: Inputs, query: Array) -> OnlineSoftmax:
    """Return the state before the first key, sharded over devices as the products will be."""
    space = inputs.scores.space
    xp = space.xp
    product = products(query[..., :1], inputs.key[..., :1, :1], space)
    weighted = multiply(product, inputs.value[..., :1, :], space)
    # Zeros that inherit the products' sharding.
    both = weighted, product
    sums, total = (xp.where(xp.isnan(like), 0.0, xp.zeros_like(like)) for like in both)
    return OnlineSoftmax(sums, total, total - float("inf"))


def _in_blocks(array: Array, length: int, xp: Namespace) -> tuple[Array, Array]:
    """Return the whole blocks of an array on axis -2, first (block, ...), and the rest."""
    *rows, size, features = array.shape
    whole = size // length
    blocks = xp.reshape(array[..., : whole * length, :], (*rows, whole, length, features))
    return xp.moveaxis(blocks, -3, 0), array[..., whole * length :, :]
