"""Nothing that a mask or a bias was asked for is kept from call to call."""

from itertools import product

import numpy as np
import pytest

import positional_embeddings as pe
import samples
from positional_embeddings.attention import attention
from samples import MASKS, is_numbers

AXES = {"feature_axis": -1, "seq_axis": -2}
HEADS, QUERIES, KEYS = 2, 3, 5
RNG = np.random.default_rng(0)
Q = RNG.standard_normal((2, HEADS, QUERIES, 4))
K, V = RNG.standard_normal((2, 2, HEADS, KEYS, 4))


def weights(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def hides(table):
    return lambda q_pos, k_pos: table[q_pos, k_pos]


def distances(table):
    return lambda q_pos, k_pos: table[abs(q_pos - k_pos)]


def made(kind, values):
    """Return a mask or a bias, and the arrays of its own, or those that its function reads."""
    if (of_table := OF_TABLES.get(kind)) is not None:
        table = of_table["table"].copy()
        return getattr(pe, kind)(of_table["function"](table)), [table]
    own = {
        name: np.asarray(value).copy() if isinstance(value, list | np.ndarray) else value
        for name, value in values.items()
    }
    return getattr(pe, kind)(**own), [value for value in own.values() if is_numbers(value)]


# Functions that read an array, which is written to.
OF_TABLES = {
    "FunctionMask": {"function": hides, "table": weights(KEYS, KEYS) > 0},
    "FunctionBias": {"function": distances, "table": weights(KEYS)},
}
BIASES = {kind: values for kind, values in samples.BIASES.items() if kind != "RelativePE"}
COMBINED = {
    "alone": lambda mask: mask,
    "|": lambda mask: pe.CausalMask() | mask,
    "&": lambda mask: mask & pe.SlidingWindowMask(1, 1),
    "~": lambda mask: ~mask,
}


@pytest.fixture(autouse=True)
def _kept(monkeypatch):
    """Keep what is known of calls, as users' calls do; other tests of attention do without."""
    monkeypatch.setattr(attention, "_kept_calls", {})


def change(arrays):
    for array in arrays:
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
@pytest.mark.parametrize("kind", sorted(MASKS.keys() - {"ListMask"}))  # of lists for each query
def test_a_mask_is_asked_anew(kind, combined):
    for options, values in product(steps(), MASKS[kind].values):
        if kind == "PaddingMask" and "positions" in options:
            continue  # which is refused
        mask, arrays = made(kind, values)
        mask = COMBINED[combined](mask)
        for _ in range(2):
            got = pe.scaled_dot_product_attention(Q, K, V, mask=mask, **options, **AXES)
            np.testing.assert_allclose(got, expected(options, mask), atol=1e-12)
            change(arrays)


@pytest.mark.parametrize("kind", BIASES)
def test_a_bias_is_asked_anew(kind):
    for options, values in product(steps(), BIASES[kind]):
        bias, arrays = made(kind, values)
        rules = {"mask": pe.CausalMask(), "bias": bias}
        outputs = []
        for _ in range(2):
            got = pe.scaled_dot_product_attention(Q, K, V, **rules, **options, **AXES)
            np.testing.assert_allclose(got, expected(options, **rules), atol=1e-12)
            outputs.append(got)
            change(arrays)
        assert np.array_equal(*outputs) == (not arrays)


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


def test_lengths_are_read_anew():
    """A mask of few lengths is known again by them, whatever became of another one."""
    x = np.random.default_rng(0).standard_normal((2, 2, KEYS, 4))
    for lengths in ([5, 3], [5, 5], [4, 5], [5, 3]):
        for make in (pe.PaddingMask, pe.PrefixMask):
            mask = make(lengths) | pe.CausalMask()
            dense = np.moveaxis(mask.dense(KEYS), -1, 0)[:, None]
            for given in (mask, make(np.asarray(lengths)) | pe.CausalMask()):
                got = pe.scaled_dot_product_attention(x, x, x, mask=given, **AXES)
                by_array = pe.scaled_dot_product_attention(x, x, x, mask=dense, **AXES)
                np.testing.assert_allclose(got, by_array, atol=1e-12)
    long = pe.PaddingMask([KEYS] * 100)
    y = np.ones((100, 1, KEYS, 4))
    assert (pe.scaled_dot_product_attention(y, y, y, mask=long, **AXES) == 1).all()
