"""Nothing that a mask or a bias was asked for is kept from call to call."""

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.attention import dot_product
from positional_embeddings.biases.positions import Bias

AXES = {"feature_axis": -1, "seq_axis": -2}
HEADS, QUERIES, KEYS = 2, 3, 5
RNG = np.random.default_rng(0)
Q = RNG.standard_normal((2, HEADS, QUERIES, 4))
K, V = RNG.standard_normal((2, 2, HEADS, KEYS, 4))


def weights(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def hides(table):
    return lambda q_pos, k_pos: table[q_pos, k_pos]


# A mask or a bias of each kind, of the numbers in an array, if it takes any. They are written to.
MASKS = {
    "CausalMask": (lambda _: pe.CausalMask(), np.zeros(1)),
    "ChunkedMask": (lambda _: pe.ChunkedMask(2), np.zeros(1)),
    "DilatedMask": (lambda _: pe.DilatedMask(2), np.zeros(1)),
    "FunctionMask": (lambda table: pe.FunctionMask(hides(table)), weights(KEYS, KEYS) > 0),
    "GlobalMask": (pe.GlobalMask, np.asarray([1, 3])),
    "NeighbourhoodMask": (lambda _: pe.NeighbourhoodMask((1, 5), 1), np.zeros(1)),
    "PaddingMask": (pe.PaddingMask, np.asarray([5, 3])),
    "PrefixMask": (pe.PrefixMask, np.asarray([2, 1])),
    "SegmentMask": (pe.SegmentMask, np.asarray([0, 0, 1, 1, 1])),
    "SlidingWindowMask": (lambda _: pe.SlidingWindowMask(1, 0), np.zeros(1)),
}
BIASES = {
    "ALiBiBias": (lambda _: pe.ALiBiBias(HEADS), np.zeros(1)),
    "FIREBias": (
        lambda x: pe.FIREBias(x[:3], x[3:6], x[6:12].reshape(2, 3), x[12:14], c=1.0, threshold=2.0),
        weights(14),
    ),
    "FunctionBias": (
        lambda table: pe.FunctionBias(lambda q_pos, k_pos: table[abs(q_pos - k_pos)]),
        weights(KEYS),
    ),
    "KERPLEBias": (lambda x: pe.KERPLEBias(x[:2], x[2:]), np.abs(weights(4))),
    "SandwichBias": (lambda _: pe.SandwichBias(HEADS, dim=8), np.zeros(1)),
    "T5Bias": (
        lambda x: pe.T5Bias(HEADS, num_buckets=8, max_distance=6, embeddings=x),
        weights(8, HEADS),
    ),
}
COMBINED = {
    "alone": lambda mask: mask,
    "|": lambda mask: pe.CausalMask() | mask,
    "&": lambda mask: mask & pe.SlidingWindowMask(1, 1),
    "~": lambda mask: ~mask,
}


@pytest.fixture(autouse=True)
def _kept(monkeypatch):
    """Keep what is known of calls, as users' calls do; other tests of attention do without."""
    monkeypatch.setattr(dot_product, "_known", {})


def test_all_kinds_are_here():
    named = {name: getattr(pe, name) for name in pe.__all__}
    kinds = {name: kind for name, kind in named.items() if isinstance(kind, type)}
    masks = {name for name, kind in kinds.items() if issubclass(kind, pe.Mask)} - {"Mask"}
    biases = {name for name, kind in kinds.items() if issubclass(kind, Bias)} - {"RelativePE"}
    assert (masks, biases) == (set(MASKS), set(BIASES))


def change(array):
    array[...] = array[::-1].copy() if array.dtype == bool else (array + 1) % 3


def steps():
    """Return options of calls: without a step, and in steps of two sequences, alike or not."""
    yield {"offset": KEYS - QUERIES}
    for lengths in ([2, 2], [2, 1]):
        _, step = pe.KVCache(capacity=8, lengths=lengths, **AXES).step(QUERIES)
        yield {"positions": step}


def expected(options, mask=None, bias=None):
    """Return what dense arrays give that are asked for now, at the positions of the call."""
    step = options.get("positions")
    if step is None:
        q_pos, k_pos = np.arange(QUERIES)[None] + options["offset"], np.arange(KEYS)[None]
    else:
        q_pos, k_pos = step.positions, step.key_positions
    hidden = np.broadcast_to(k_pos[:, None, None, :] < 0, (2, HEADS, QUERIES, KEYS)).copy()
    added = np.zeros(hidden.shape)
    for b in range(2):
        places = q_pos[b % len(q_pos)], k_pos[b % len(k_pos)]
        if mask is not None:
            dense = mask(places[0][:, None], np.maximum(places[1], 0)[None, :])
            hidden[b] |= dense if dense.ndim == 2 else dense[..., b]
        if bias is not None:
            dense = bias(query_positions=places[0], key_positions=places[1])
            added[b] = np.moveaxis(dense, -1, 0)
    rules = {"mask": hidden, "bias": added}
    return pe.scaled_dot_product_attention(Q, K, V, **rules, **AXES)


@pytest.mark.parametrize("combined", COMBINED)
@pytest.mark.parametrize("kind", MASKS)
def test_a_mask_is_asked_anew(kind, combined):
    make, array = MASKS[kind]
    for options in steps():
        if kind == "PaddingMask" and "positions" in options:
            continue  # which is refused
        own = array.copy()
        mask = COMBINED[combined](make(own))
        for _ in range(2):
            got = pe.scaled_dot_product_attention(Q, K, V, mask=mask, **options, **AXES)
            np.testing.assert_allclose(got, expected(options, mask), atol=1e-12)
            change(own)


@pytest.mark.parametrize("kind", BIASES)
def test_a_bias_is_asked_anew(kind):
    make, array = BIASES[kind]
    for options in steps():
        own = array.copy()
        rules = {"mask": pe.CausalMask(), "bias": make(own)}
        outputs = []
        for _ in range(2):
            got = pe.scaled_dot_product_attention(Q, K, V, **rules, **options, **AXES)
            np.testing.assert_allclose(got, expected(options, **rules), atol=1e-12)
            outputs.append(got)
            change(own)
        assert np.array_equal(*outputs) == (array.size == 1)


@pytest.mark.parametrize("size", [3, 600])  # at once and in blocks
def test_a_function_may_read_what_changes(size):
    table = np.zeros(2, dtype=bool)
    mask = pe.FunctionMask(lambda q_pos, k_pos: (k_pos > q_pos) | table[k_pos % 2])
    x = np.random.default_rng(0).standard_normal((4, size))
    for hidden in (table, ~table, table):
        table[:] = hidden
        table[1] = not table[0]
        dense = mask.dense(size)
        got = pe.scaled_dot_product_attention(x, x, x, mask=mask)
        by_array = pe.scaled_dot_product_attention(x, x, x, mask=dense[..., 0])
        np.testing.assert_allclose(got, by_array, atol=1e-12)
        weights = pe.attention_weights(x, x, mask=mask)
        np.testing.assert_allclose(got, x @ weights.T, atol=1e-12)
