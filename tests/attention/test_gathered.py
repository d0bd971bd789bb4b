"""Attention over lists of keys against dense masks."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given
from hypothesis import strategies as st

import positional_embeddings as pe
from positional_embeddings import ListMask, attention_weights, scaled_dot_product_attention
from positional_embeddings.attention.algorithms import listed_keys
from positional_embeddings.biases.bias import Bias

LAST = {"feature_axis": -1, "seq_axis": -2}
BATCH, HEADS, FEATURES = 2, 4, 3


class Case(NamedTuple):
    """Lists of keys of each query and sequence, and what else is asked for."""

    lists: list[list[list[int]]]  # sequence, query, key
    q_len: int
    k_len: int
    kind: str
    seed: int

    def mask(self, array=np.asarray):
        if self.kind == "csr":
            bounds = np.cumsum([0, *map(len, self.lists[0])])
            keys = [key for own in self.lists[0] for key in own]
            return ListMask.from_csr(bounds, array(np.asarray(keys, dtype=int)))
        longest = max(len(own) for of_sequence in self.lists for own in of_sequence)
        padded = [[own + [-1] * (longest - len(own)) for own in one] for one in self.lists]
        indices = np.moveaxis(np.asarray(padded, dtype=int), 0, 2)
        return ListMask(array(indices if self.kind == "batch" else indices[:, :, 0]))

    def hidden(self):
        """Return the mask (batch, 1, query, key), key by key."""
        hidden = np.ones((BATCH, 1, self.q_len, self.k_len), dtype=bool)
        for b, i in np.ndindex(BATCH, self.q_len):
            for key in self.lists[b if self.kind == "batch" else 0][i]:
                hidden[b, 0, i, key] = False
        return hidden

    def arrays(self, key_heads=HEADS, key_batch=BATCH):
        rng = np.random.default_rng(self.seed)
        q = rng.standard_normal((BATCH, HEADS, self.q_len, FEATURES))
        return q, *rng.standard_normal((2, key_batch, key_heads, self.k_len, FEATURES))


@st.composite
def cases(draw, kinds=("one", "batch", "csr"), most=9):
    q_len, k_len = draw(st.integers(1, most)), draw(st.integers(1, most))
    one = st.lists(st.integers(0, k_len - 1), max_size=k_len, unique=True)
    kind = draw(st.sampled_from(kinds))
    sequences = BATCH if kind == "batch" else 1
    lists = draw(
        st.lists(
            st.lists(one, min_size=q_len, max_size=q_len), min_size=sequences, max_size=sequences
        )
    )
    return Case(lists, q_len, k_len, kind, draw(st.integers(0, 99)))


def bias_of(kind, case):
    """Return a bias: none, a value, an array or a function."""
    rng, (_, _, q_len, k_len) = np.random.default_rng(case.seed), case.hidden().shape
    values = {
        "none": None,
        "ALiBi": pe.ALiBiBias(HEADS),
        "of both positions": pe.FunctionBias(float_of(lambda q, k: q * k + q)),
        "function": float_of(lambda q, k: q - k),
        "array": rng.standard_normal((1, HEADS, q_len, k_len)),
        "array of keys": rng.standard_normal((BATCH, 1, 1, k_len)),
        "array of queries": rng.standard_normal((BATCH, 1, q_len, 1)),
        "hides": np.where(rng.random((1, 1, 1, k_len)) < 0.3, -np.inf, 1.0),
    }
    return values[kind]


def float_of(function):
    """Return a function of integers with its numbers as floats, in any library."""

    def of(q, k):
        xp = array_namespace(q, k)
        return xp.astype(function(q, k), xp.float32) / 8

    return of


BIASES = [
    *("none", "ALiBi", "of both positions", "function"),
    *("array", "array of keys", "array of queries", "hides"),
]


@given(case=cases(), data=st.data())
def test_equals_the_dense_mask(backend, case, data):
    key_heads, key_batch = data.draw(st.sampled_from([(4, 2), (2, 2), (1, 2), (4, 1)]))
    q, k, v = case.arrays(key_heads, key_batch)
    bias = bias_of(data.draw(st.sampled_from(BIASES)), case)
    options = {
        "softcap": data.draw(st.sampled_from([None, 2.0])),
        "block_size": data.draw(st.sampled_from([None, 1, 3])),
        "enable_gqa": True,
        "return_lse": True,
    }
    if case.q_len != case.k_len and isinstance(bias, Bias):
        options["offset"] = case.k_len - case.q_len
    sinks = data.draw(st.sampled_from([None, np.linspace(-1, 1, HEADS)]))
    mask, hidden = case.mask(data.draw(st.sampled_from([np.asarray, backend.array]))), case.hidden()
    if case.q_len <= case.k_len and data.draw(st.booleans()):
        mask = data.draw(st.sampled_from([mask | pe.CausalMask(), pe.CausalMask() | mask]))
        options["offset"] = case.k_len - case.q_len
        hidden = hidden | pe.CausalMask().dense(case.q_len, case.k_len)[None, None, :, :, 0]
    of_dense = options if isinstance(bias, Bias) else options | {"offset": None}
    expected = scaled_dot_product_attention(
        q, k, v, mask=hidden, bias=bias, sinks=sinks, **of_dense, **LAST
    )
    arrays = {"bias": bias, "sinks": sinks}
    arrays = {
        name: backend.array(value) if isinstance(value, np.ndarray) else value
        for name, value in arrays.items()
    }
    got = scaled_dot_product_attention(
        *map(backend.array, (q, k, v)), mask=mask, **arrays, **options, **LAST
    )
    for result, reference in zip(got, expected, strict=True):
        np.testing.assert_allclose(
            backend.numpy(result), reference, atol=10 * backend.tolerance() + 1e-12
        )


@given(case=cases())
def test_in_other_layouts(case):
    """Heads and batch in one axis, sequences of (seq, heads, head), and arrays with gaps."""
    q, k, v = case.arrays()
    mask, hidden = case.mask(), case.hidden()
    expected = scaled_dot_product_attention(q, k, v, mask=hidden, **LAST)
    merged = [np.transpose(x, (3, 2, 1, 0)).reshape(FEATURES, -1, HEADS * BATCH) for x in (q, k, v)]
    options = {"bias": 0.0 * pe.ALiBiBias(HEADS), "offset": case.k_len - case.q_len}
    got = scaled_dot_product_attention(*merged, mask=mask, **options)
    got = got.reshape(FEATURES, -1, HEADS, BATCH).transpose(3, 2, 1, 0)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    for order in ((0, 2, 1, 3), (3, 2, 1, 0), (3, 2, 0, 1), (2, 0, 3, 1)):
        axes = {"feature_axis": order.index(3), "seq_axis": order.index(2)}
        if order.index(0) > order.index(1) and axes != {"feature_axis": 0, "seq_axis": 1}:
            continue  # heads are on the last axis there
        moved = [np.repeat(np.transpose(x, order), 2, axis=-1)[..., ::2] for x in (q, k, v)]
        if {axes["feature_axis"], axes["seq_axis"]} == {0, 1} and order[2:] == (0, 1):
            continue  # sequences are on the last axis there
        got = scaled_dot_product_attention(*moved, mask=mask, **axes)
        np.testing.assert_allclose(np.transpose(got, np.argsort(order)), expected, atol=1e-12)


@given(case=cases(), listed=st.booleans())
def test_weights(backend, case, listed):
    q, k, _ = case.arrays()
    dense = attention_weights(q, k, mask=case.hidden(), **LAST)
    arrays = map(backend.array, (q, k))
    weights = backend.numpy(attention_weights(*arrays, mask=case.mask(), listed=listed, **LAST))
    if not listed:
        np.testing.assert_allclose(weights, dense, atol=backend.tolerance() + 1e-12)
        return
    expected = np.zeros((*dense.shape[:3], weights.shape[3]))
    for b, i in np.ndindex(BATCH, case.q_len):
        keys = case.lists[b if case.kind == "batch" else 0][i]
        expected[b, :, i, : len(keys)] = dense[b, :, i, keys].T
    np.testing.assert_allclose(weights, expected, atol=backend.tolerance() + 1e-12)


@given(case=cases(most=6), data=st.data())
def test_at_positions(backend, case, data):
    """Positions move what other masks and biases see, and neither lists nor their keys."""
    rng = np.random.default_rng(case.seed)
    q, k, v = case.arrays()
    batch = data.draw(st.sampled_from([1, BATCH]))
    places = [rng.integers(low, 9, (batch, n)) for low, n in ((0, case.q_len), (-2, case.k_len))]
    causal, bias = data.draw(st.sampled_from([None, pe.CausalMask()])), pe.ALiBiBias(HEADS)
    mask, hidden = case.mask(), case.hidden()
    hidden = hidden | (places[1] < 0)[:, None, None, :]
    if causal is not None:
        mask = mask | causal
        hidden = hidden | (places[1][:, None, None, :] > places[0][:, None, :, None])
    options = {"bias": bias, "positions": places[0], "key_positions": places[1]}
    expected = scaled_dot_product_attention(q, k, v, mask=hidden, **options, **LAST)
    options |= {name: backend.array(options[name]) for name in ("positions", "key_positions")}
    for given_mask in (mask, mask & mask, ~~mask & mask):  # gathered, and all pairs
        arrays = map(backend.array, (q, k, v))
        got = scaled_dot_product_attention(*arrays, mask=given_mask, **options, **LAST)
        tolerance = 10 * backend.tolerance() + 1e-12
        np.testing.assert_allclose(backend.numpy(got), expected, atol=tolerance)


@given(case=cases(), offset=st.integers(-9, 9))
def test_an_offset_moves_no_lists(case, offset):
    lists, hidden = case.mask(), case.hidden()
    dense = np.moveaxis(lists.dense(case.q_len, case.k_len, offset=offset), 2, 0)
    assert (np.broadcast_to(dense, hidden[:, 0].shape) == hidden[:, 0]).all()
    causal = pe.CausalMask()
    both = (lists & causal).dense(case.q_len, case.k_len, offset=offset)
    expected = dense & causal.dense(case.q_len, case.k_len, offset=offset)[None, :, :, 0]
    assert (np.moveaxis(both, 2, 0) == expected).all()
    inverse = (~lists).dense(case.q_len, case.k_len, offset=offset)
    assert (np.moveaxis(inverse, 2, 0) == ~dense).all()
    blocks = pe.to_block_ranges(lists | causal, case.q_len, case.k_len, block_size=1, offset=offset)
    union = dense | causal.dense(case.q_len, case.k_len, offset=offset)[None, :, :, 0]
    counts = blocks.kv_num_blocks + blocks.full_kv_num_blocks
    assert (counts[:, 0] == (~union).sum(axis=2)).all()


def test_what_is_hidden_has_no_effect_and_what_is_seen_has(backend):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 5, 2))
    k[0, 0], v[1, 4] = np.nan, np.inf
    lists = ListMask([[1, 2], [0, 3], [4, 1], [-1, -1], [3, -1]])
    arrays = map(backend.array, (q, k, v))
    got = scaled_dot_product_attention(*arrays, mask=lists, feature_axis=-1, seq_axis=1)
    wrong = np.isnan(backend.numpy(got))
    expected = np.zeros((4, 5, 2), dtype=bool)
    expected[0, 1], expected[1, 2] = True, True
    np.testing.assert_array_equal(wrong, expected)


def test_a_key_that_is_not_there_gives_nan(backend):
    """Where lists cannot be read; else it is an error."""
    x = backend.array(np.ones((3, 4)))
    indices = backend.array(np.asarray([[0, 1], [7, -1], [2, -1], [-1, -1]]))
    mask = ListMask(indices)

    def attend(mask):
        return scaled_dot_product_attention(x, x, x, mask=mask)

    if backend.name in ("numpy", "strict", "torch", "jax"):
        with pytest.raises(ValueError, match="below the number of keys, 4, got 7"):
            attend(mask)
        if backend.name != "jax":
            return
        import jax

        attend = jax.jit(attend)
    got = backend.numpy(attend(mask))
    assert np.isnan(got).all(axis=0).tolist() == [False, True, False, False]
    np.testing.assert_allclose(got[:, [0, 2, 3]], [[1, 1, 0]] * 3, atol=1e-6)


def test_a_search_in_a_radius_gives_lists():
    """Those of scikit-learn and SciPy: arrays of arrays or of lists, and lists of lists."""
    lists = [[2, 0], [], [1]]
    expected = ListMask.from_csr([0, 2, 2, 3], [2, 0, 1])
    of_arrays, of_lists = np.empty((2, 3), dtype=object)
    of_arrays[:], of_lists[:] = list(map(np.asarray, lists)), lists
    of_arrays[1] = np.zeros(0, dtype=int)
    for found in (lists, tuple(map(tuple, lists)), of_arrays, of_lists):
        assert ListMask(found) == expected
    of_lists[:] = [[0], [1], [2]]  # by chance of one length
    assert not ListMask(of_lists).dense(3).diagonal().any()


def test_lists_of_no_keys():
    x = np.ones((2, 3))
    for mask in (ListMask(np.zeros((3, 0), int)), ListMask.from_csr([0, 0, 0, 0], [])):
        assert not scaled_dot_product_attention(x, x, x, mask=mask).any()
        assert mask.dense(3).all()
        assert mask == ListMask([[-1]] * 3)


def test_weights_of_no_queries_and_of_no_keys(backend):
    x, none = backend.array(np.ones((2, 3))), backend.array(np.ones((2, 0)))
    options = {"mask": ListMask([[0, 1], [1, -1], [2, 0]]), "listed": True}
    assert attention_weights(none, x, **options).shape == (0, 2)
    assert not backend.numpy(attention_weights(x, none, **options)).any()


def test_a_step_has_lists_where_slots_are_positions():
    x = np.ones((3, 2))
    _, step = pe.KVCache.empty(
        1, 1, 4, num_kv_heads=1, head_size=1, feature_axis=1, seq_axis=0
    ).step(3)
    lists = ListMask([[0], [0], [1]])
    got = scaled_dot_product_attention(x, x, x, mask=lists, positions=step)
    np.testing.assert_allclose(got, x)
    cache = pe.KVCache.empty(1, 2, 4, num_kv_heads=1, head_size=1, **LAST)
    _, step = cache.step([[1, 1], [1, 0]])[0].step(1)
    q, k = (np.ones((2, 1, n, 2)) for n in (1, step.key_positions.shape[1]))
    with pytest.raises(ValueError, match="no ListMask with a step whose slots may be no pos"):
        scaled_dot_product_attention(q, k, k, mask=ListMask([[0]]), positions=step)


@pytest.mark.library("torch")
@pytest.mark.parametrize("kind", ["one", "csr", "batch"])
def test_gradients_in_pytorch(kind):
    import torch

    case = _large(kind)
    results = []
    for mask in (case.mask(), torch.asarray(case.hidden())):
        arrays = [torch.asarray(x).requires_grad_() for x in case.arrays()]
        options = {"bias": pe.ALiBiBias(HEADS), "offset": case.k_len - case.q_len}
        got = scaled_dot_product_attention(*arrays, mask=mask, **options, **LAST)
        (got**2).sum().backward()
        results.append([got.detach(), *(x.grad for x in arrays)])
    for result, expected in zip(*results, strict=True):
        torch.testing.assert_close(result, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.library("jax")
@pytest.mark.parametrize("kind", ["one", "csr", "batch"])
def test_jax_compiles_and_differentiates(kind):
    import jax
    from jax import numpy as jnp

    case = _large(kind)
    arrays = [jnp.asarray(x, dtype="float32") for x in case.arrays()]

    traced = []

    @jax.jit
    @jax.value_and_grad
    def loss(arrays, mask):
        traced.append(mask)
        return jnp.sum(scaled_dot_product_attention(*arrays, mask=mask, block_size=4, **LAST) ** 2)

    mask = case.mask()
    results = [loss(arrays, own) for own in (mask, jnp.asarray(case.hidden()))]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *results)
    # Lists are no constants of a program.
    again = loss(arrays, ListMask(jnp.asarray(mask.indices), mask.indptr))
    assert again[0] == results[0][0]
    assert len(traced) == 2


@pytest.mark.library("jax")
def test_jax_makes_dense_lists_in_a_trace():
    import jax
    from jax import numpy as jnp

    case = _large("batch")
    dense = jax.jit(lambda mask: mask.dense(case.q_len, case.k_len))(case.mask(jnp.asarray))
    np.testing.assert_array_equal(np.moveaxis(np.asarray(dense), 2, 0), case.hidden()[:, 0])


def _large(kind):
    """Return lists of several blocks."""
    rng = np.random.default_rng(1)
    lists = [
        [rng.permutation(9)[: rng.integers(0, 4)].tolist() for _ in range(7)] for _ in range(BATCH)
    ]
    return Case(lists, 7, 9, kind, 0)


@pytest.mark.library("dask")
def test_dask_stays_lazy_in_chunks_of_queries():
    import dask.array as da

    case = _large("one")
    q, k, v = (da.from_array(x, chunks=(1, 4, 3, 3)) for x in case.arrays())
    got = scaled_dot_product_attention(q, k, v, mask=case.mask(), **LAST)
    assert got.chunks[2] == (3, 3, 1)
    expected = scaled_dot_product_attention(*case.arrays(), mask=case.hidden(), **LAST)
    np.testing.assert_allclose(got.compute(), expected, atol=1e-12)


def test_other_masks_are_evaluated_at_the_pairs_alone():
    asked = []

    def near(q_pos, k_pos):
        asked.append(np.broadcast_shapes(q_pos.shape, k_pos.shape))
        return abs(q_pos - k_pos) > 2

    x = np.ones((2, 50))
    lists = ListMask(np.arange(50)[:, None] // 2 * np.ones(1, int))
    scaled_dot_product_attention(x, x, x, mask=lists | pe.FunctionMask(near), block_size=20)
    assert sorted(asked) == [(10, 1), (20, 1), (20, 1)]  # threads take blocks in any order


def test_memory_is_of_blocks():
    n, m = 20_000, 16
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, n, 16), dtype=np.float32)
    mask = ListMask((rng.integers(0, n, (n, 1)) + np.arange(m) * 7) % n)
    tracemalloc.start()
    try:
        output = scaled_dot_product_attention(q, k, v, mask=mask, **LAST)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - output.nbytes < 2**26


def test_ragged_lists_are_computed_with_lists_of_like_lengths(monkeypatch):
    """A long list costs no others: at most half as many entries again are gathered."""
    gathered_entries = []

    def of_block(inputs, queries, listed, columns):
        gathered_entries.append(listed.size)
        return original(inputs, queries, listed, columns)

    original = listed_keys._block_output
    monkeypatch.setattr(listed_keys, "_block_output", of_block)
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.zipf(1.5, 300), 256)
    indices = np.concat([rng.permutation(300)[:n] for n in lengths])
    mask = ListMask.from_csr([0, *np.cumsum(lengths)], indices)
    x = rng.standard_normal((2, 300))
    got = scaled_dot_product_attention(x, x, x, mask=mask)
    assert sum(gathered_entries) < 1.5 * len(indices)
    expected = scaled_dot_product_attention(x, x, x, mask=mask.dense(300)[..., 0])
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.only_on("cupy")
def test_no_device_is_waited_for(backend, pytestconfig):
    cupy = pytest.importorskip("cupy")
    symbol = pytestconfig.getoption("--counter", default=None)
    if symbol is None:
        pytest.skip("nothing counts waits")
    from gpu_counts import Counter

    x = backend.array(np.ones((4, 6)))
    for lists in ([[0, 1]] * 6, backend.array(np.asarray([[0, 1]] * 6))):
        mask = ListMask(lists) | pe.CausalMask()
        counts = Counter(symbol, cupy).of(
            lambda mask=mask: scaled_dot_product_attention(x, x, x, mask=mask)
        )
        assert counts.waits == counts.from_device == 0


@pytest.mark.parametrize("bias", [None, pe.ALiBiBias(1)])
@pytest.mark.parametrize("k_len", [2, 5])
def test_positions_of_other_things_are_given(bias, k_len):
    """Where keys are other things than queries, nothing says where the first query is."""
    lists = ListMask([[0], [1], [0]])
    arrays = np.ones((1, 3)), np.ones((1, k_len)), np.arange(float(k_len))[None]
    mask = lists | pe.SlidingWindowMask(9, 9) if bias is None else lists
    with pytest.raises(ValueError, match=r"^`offset` must be given with a `ListMask` unless"):
        scaled_dot_product_attention(*arrays, mask=mask, bias=bias)
    got = scaled_dot_product_attention(*arrays, mask=mask, bias=bias, offset=0)
    np.testing.assert_array_equal(got, [[0, 1, 0]])
    np.testing.assert_array_equal(scaled_dot_product_attention(*arrays, mask=lists), [[0, 1, 0]])


def test_dense_lists_take_the_memory_of_pairs():
    """One list of all keys costs no other query as much."""
    n = 400
    lists = ListMask([range(n), *([i] for i in range(1, n))])
    tracemalloc.start()
    try:
        lists.dense(n)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * n**2


def test_many_lists_are_told_by_their_number():
    bounds = np.arange(2001)
    text = repr(ListMask.from_csr(bounds, np.zeros(2000, dtype=int)))
    assert text == "ListMask(<numpy.ndarray of shape (2000,)>, <2001 numbers>)"


@pytest.mark.parametrize("lists", [[[], []], [(), []], np.zeros((2, 0), dtype=int)])
def test_lists_of_no_keys_hide_all(lists):
    assert ListMask(lists).dense(2).tolist() == [[[True], [True]], [[True], [True]]]
    x = np.asarray([[1.0, 2.0]])
    got = scaled_dot_product_attention(x, x, x, mask=ListMask(lists))
    expected = scaled_dot_product_attention(x, x, x, mask=np.ones((2, 2), dtype=bool))
    np.testing.assert_array_equal(got, expected)
