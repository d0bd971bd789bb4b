"""Masks of every kind, drawn at random, and the rule of each as a plain function of numbers."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    NeighbourhoodMask,
    PaddingMask,
    PrefixMask,
    SegmentMask,
    SlidingWindowMask,
)

BATCH = 2


def causal(draw, n, backend):
    diagonal = draw(st.booleans())
    return CausalMask(mask_diagonal=diagonal), lambda i, j, b: j >= i if diagonal else j > i


def window(draw, n, backend):
    sides = st.none() | st.integers(0, n + 1)
    left, right = draw(sides), draw(sides)
    first, last = (np.inf if side is None else side for side in (left, right))
    return SlidingWindowMask(left, right), lambda i, j, b: not i - first <= j <= i + last


def chunked(draw, n, backend):
    size = draw(st.integers(1, n + 1))
    return ChunkedMask(size), lambda i, j, b: i // size != j // size


def dilated(draw, n, backend):
    step = draw(st.integers(1, n + 1))
    return DilatedMask(step), lambda i, j, b: (i - j) % step != 0


def global_tokens(draw, n, backend):
    tokens = draw(st.lists(st.integers(0, n), max_size=3))
    return GlobalMask(held(draw, tokens, backend)), lambda i, j, b: not {i, j} & set(tokens)


def neighbourhood(draw, n, backend):
    shape = draw(st.sampled_from([(n,), (2, -(-n // 2)), (-(-n // 3), 3), (2, 2, -(-n // 4))]))
    steps = draw(st.tuples(*(st.integers(0, 2) for _ in shape)))
    one = draw(st.booleans())
    steps = (steps[0],) * len(shape) if one else steps

    def hides(i, j, b):
        pairs = zip(np.unravel_index(i, shape), np.unravel_index(j, shape), steps, strict=True)
        return any(abs(int(p) - int(q)) > most for p, q, most in pairs)

    assert prod(shape) >= n
    return NeighbourhoodMask(shape, steps[0] if one else steps), hides


def padding(draw, n, backend):
    lengths = draw(st.lists(st.integers(0, n), min_size=BATCH, max_size=BATCH))
    side = draw(st.sampled_from(["right", "left"]))
    mask = PaddingMask(held(draw, lengths, backend), side)
    return mask, lambda i, j, b: j >= lengths[b] if side == "right" else j < n - lengths[b]


def prefix(draw, n, backend):
    number = st.integers(0, n)
    if draw(st.booleans()):
        length = draw(number)
        return PrefixMask(length), lambda i, j, b: j > i and j >= length
    lengths = draw(st.lists(number, min_size=BATCH, max_size=BATCH))
    return PrefixMask(held(draw, lengths, backend)), lambda i, j, b: j > i and j >= lengths[b]


def segments(draw, n, backend):
    number = st.integers(-1, 3)
    ids = draw(st.lists(number, min_size=n * BATCH, max_size=n * BATCH))
    ids = np.asarray(ids).reshape(n, BATCH)
    if draw(st.booleans()):
        ids = np.sort(ids, axis=0)
    flat = draw(st.booleans())
    mask = SegmentMask(held(draw, (ids[:, 0] if flat else ids).tolist(), backend))

    def hides(i, j, b):
        p, q = (ids[at, 0 if flat else b] for at in (i, j))
        return p != q or p < 0

    return mask, hides


def function(draw, n, backend):
    factor = draw(st.integers(1, 5))
    mask = FunctionMask(lambda q_pos, k_pos: (factor * q_pos + k_pos) % 3 == 0)
    return mask, lambda i, j, b: (factor * i + j) % 3 == 0


def held(draw, values, backend):
    """Return numbers as a mask may be given them: in a list, NumPy's array or the backend's."""
    kinds = ["list", "numpy"] if backend is None else ["list", "numpy", "backend"]
    kind = draw(st.sampled_from(kinds))
    if kind == "list":
        return values
    array = np.asarray(values, dtype="int64")
    return array if kind == "numpy" else backend.array(array)


KINDS = [
    causal,
    window,
    chunked,
    dilated,
    global_tokens,
    neighbourhood,
    padding,
    prefix,
    segments,
    function,
]


@st.composite
def masks(draw, n, backend=None, kinds=tuple(KINDS), depth=2):
    """Draw a mask for up to n positions, and the rule (i, j, b) -> whether it hides."""
    operator = draw(st.sampled_from(["one", "or", "and", "not"])) if depth else "one"
    if operator == "one":
        return draw(st.sampled_from(kinds))(draw, n, backend)
    first, hides = draw(masks(n, backend, kinds, depth - 1))
    if operator == "not":
        return ~first, lambda i, j, b: not hides(i, j, b)
    second, also = draw(masks(n, backend, kinds, depth - 1))
    if operator == "or":
        return first | second, lambda i, j, b: hides(i, j, b) or also(i, j, b)
    return first & second, lambda i, j, b: hides(i, j, b) and also(i, j, b)


def element_by_element(hides, q_len, k_len, start):
    """Return the mask (query, key, batch) of a rule."""
    shape = (q_len, k_len, BATCH)
    cells = [hides(i + start, j, b) for i, j, b in np.ndindex(shape)]
    return np.asarray(cells, dtype=bool).reshape(shape)
