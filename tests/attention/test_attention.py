import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    KVCache,
    PaddingMask,
    T5Bias,
    attention_weights,
    create_causal_mask,
    mask_to_bias,
    scaled_dot_product_attention,
)
from positional_embeddings.attention import attention, softmax
from positional_embeddings.attention.algorithms import blocks

sizes = st.integers(1, 4)
layouts = st.integers(3, 4).flatmap(
    lambda ndim: st.permutations(range(ndim)).map(lambda order: (ndim, order[0], order[1]))
)


def numbers(rng, *shape):
    return rng.standard_normal(shape)


def split_batch(array, ndim):
    """From (., ., batch of 6) to as many axes as the layout has."""
    return array.reshape(*array.shape[:2], *((6,) if ndim == 3 else (2, 3)))


@given(
    head=sizes,
    v_head=sizes,
    q_len=sizes,
    k_len=sizes,
    layout=layouts,
    masked=st.sampled_from([0.0, 0.3, 1.0]),
    biased=st.booleans(),
    scale=st.none() | st.floats(0.1, 3),
    softcap=st.none() | st.floats(0.5, 5),
    seed=st.integers(0, 99),
)
def test_attention_is_the_plain_loop(
    backend, head, v_head, q_len, k_len, layout, masked, biased, scale, softcap, seed
):
    rng = np.random.default_rng(seed)
    q, k, v = (
        numbers(rng, head, q_len, 6),
        numbers(rng, head, k_len, 6),
        numbers(rng, v_head, k_len, 6),
    )
    mask = rng.random((q_len, k_len, 6)) < masked if masked else None
    bias = numbers(rng, q_len, k_len, 6) if biased else None
    expected, expected_weights = oracles.attention(q, k, v, mask, bias, scale, softcap)

    ndim, feature, seq = layout
    score_axes = tuple(sorted((feature, seq)))

    def moved(array, axes):
        if array is None:
            return None
        return backend.array(np.moveaxis(split_batch(array, ndim), (0, 1), axes))

    arrays = [moved(array, (feature, seq)) for array in (q, k, v)]
    options = {
        "mask": moved(mask, score_axes),
        "bias": moved(bias, score_axes),
        "scale": scale,
        "softcap": softcap,
        "feature_axis": feature,
        "seq_axis": seq - ndim,
    }
    output = scaled_dot_product_attention(*arrays, **options)
    weights = attention_weights(*arrays[:2], **options)
    got = np.moveaxis(backend.numpy(output), (feature, seq), (0, 1))
    got_weights = np.moveaxis(backend.numpy(weights), score_axes, (0, 1))
    assert got.dtype == backend.wide
    tolerance = backend.tolerance()
    np.testing.assert_allclose(got, split_batch(expected, ndim), atol=tolerance, rtol=tolerance)
    np.testing.assert_allclose(got_weights, split_batch(expected_weights, ndim), atol=tolerance)


@pytest.mark.parametrize("garbage", [0.0, np.nan])
def test_weights_are_those_that_the_output_uses(backend, garbage):
    """Values of ones and zeros let them through."""
    rng = np.random.default_rng(0)
    q, k = numbers(rng, 3, 4, 6, 2), numbers(rng, 3, 5, 3, 2)
    k[:, 1] += garbage
    v = np.broadcast_to(np.eye(5)[..., None, None], (5, 5, 3, 2))
    mask = rng.random((4, 5, 6, 2)) < 0.3
    mask[:2, 1] = True
    options = {"softcap": 2.0, "scale": 3.0, "enable_gqa": True, "mask": backend.array(mask)}
    options |= {"feature_axis": 0, "seq_axis": 1}
    q, k, v = map(backend.array, (q, k, v))
    output = backend.numpy(scaled_dot_product_attention(q, k, v, **options))
    weights = backend.numpy(attention_weights(q, k, **options))
    np.testing.assert_allclose(weights, np.moveaxis(output, 1, 0), rtol=1e-6)


def test_two_axes_are_enough(backend):
    rng = np.random.default_rng(0)
    q, k, v = numbers(rng, 3, 4), numbers(rng, 3, 5), numbers(rng, 2, 5)
    got = scaled_dot_product_attention(*map(backend.array, (q, k, v)))
    expected, _ = oracles.attention(q[..., None], k[..., None], v[..., None])
    np.testing.assert_allclose(backend.numpy(got), expected[..., 0], atol=backend.tolerance())


def test_heads_are_grouped_if_that_is_asked_for():
    q, k, axes = np.zeros((2, 3, 4, 1)), np.zeros((2, 3, 2, 1)), {"feature_axis": 0, "seq_axis": 1}
    with pytest.raises(ValueError, match="enable_gqa"):
        attention_weights(q, k, **axes)
    with pytest.raises(ValueError, match="enable_gqa"):
        scaled_dot_product_attention(q, k, k, **axes)


@pytest.mark.parametrize("axes", [(0, 1), (-1, -2)])
def test_masks_of_fewer_axes_line_up(backend, axes):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 3, n, 6) for n in (4, 5, 5))
    mask, bias = rng.random((4, 5, 1)) < 0.4, numbers(rng, 4, 5, 1)
    expected, _ = oracles.attention(q, k, v, mask, bias)

    def moved(array):
        return backend.array(np.moveaxis(split_batch(array, 4), (0, 1), axes))

    got = scaled_dot_product_attention(
        *map(moved, (q, k, v)),
        mask=backend.array(mask[..., 0]),
        bias=backend.array(bias[..., 0]),
        feature_axis=axes[0],
        seq_axis=axes[1],
    )
    np.testing.assert_allclose(
        np.moveaxis(backend.numpy(got), axes, (0, 1)),
        split_batch(expected, 4),
        atol=backend.tolerance(),
    )


def test_batch_axes_broadcast(backend):
    rng = np.random.default_rng(0)
    for q_batch, k_batch in ((1, 6), (6, 1)):
        q, k, v = (
            numbers(rng, 3, 2, q_batch),
            numbers(rng, 3, 4, k_batch),
            numbers(rng, 2, 4, k_batch),
        )
        arrays = list(map(backend.array, (q, k, v)))
        got, weights = scaled_dot_product_attention(*arrays), attention_weights(*arrays[:2])
        whole = [np.broadcast_to(a, (*a.shape[:2], 6)) for a in (q, k, v)]
        expected, expected_weights = oracles.attention(*whole)
        np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
        np.testing.assert_allclose(
            backend.numpy(weights), expected_weights, atol=backend.tolerance()
        )


@pytest.mark.parametrize("axes", [(0, 1), (-1, -2), (0, 3), (3, 1)])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries(backend, axes, kv_heads):
    """Heads are the first of the other axes after features and sequence, else the last one."""
    rng = np.random.default_rng(0)
    q, k, v = (
        numbers(rng, 3, 2, 4, 3),
        numbers(rng, 3, 5, kv_heads, 3),
        numbers(rng, 2, 5, kv_heads, 3),
    )
    expected = np.zeros((2, 2, 4, 3))
    for h in range(4):
        shared = h // (4 // kv_heads)
        expected[:, :, h], _ = oracles.attention(q[:, :, h], k[:, :, shared], v[:, :, shared])

    def moved(array):
        array = array if axes == (0, 1) else array.swapaxes(2, 3)
        return np.moveaxis(array, (0, 1), axes)

    options = {"enable_gqa": True, "feature_axis": axes[0], "seq_axis": axes[1]}
    got = scaled_dot_product_attention(*(backend.array(moved(x)) for x in (q, k, v)), **options)
    np.testing.assert_allclose(backend.numpy(got), moved(expected), atol=backend.tolerance())
    if kv_heads == 2:
        batch_and_heads = {0, 1, 2, 3} - {axis % 4 for axis in axes}
        q, k, v = (backend.array(moved(x).swapaxes(*batch_and_heads)) for x in (q, k, v))
        with pytest.raises(ValueError, match="heads alone are grouped, on axis"):
            scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize(
    "known", [{"mask": PaddingMask([5, 3])}, {"bias": ALiBiBias(4)}, {"sinks": np.zeros(4)}]
)
@pytest.mark.parametrize("block_size", [None, 2])
def test_grouped_queries_of_a_merged_axis(backend, known, block_size):
    """As those with an axis each, where the number of heads or of sequences is known."""
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 3, 5, n, 2) for n in (4, 2, 2))
    known = {name: backend.array(x) if name == "sinks" else x for name, x in known.items()}
    options = {"enable_gqa": True, "block_size": block_size}
    apart = scaled_dot_product_attention(
        *map(backend.array, (q, k, v)), **known, **options, feature_axis=0, seq_axis=1
    )
    q, k, v = (backend.array(x.reshape(3, 5, -1)) for x in (q, k, v))
    got = scaled_dot_product_attention(q, k, v, **known, **options)
    expected = backend.numpy(apart).reshape(3, 5, 8)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
    with pytest.raises(ValueError, match="`enable_gqa` must be False for an axis of heads"):
        scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize("tokens", [[[1, 1, 1], [1, 1, 1]], [[0, 1, 1], [1, 1, 1]], [[1, 1, 1]]])
def test_a_step_knows_the_sequences_of_a_merged_axis(tokens):
    """Whatever its positions are, so that grouped queries know the heads."""
    rng, batch = np.random.default_rng(0), len(tokens)
    q, k, v = (numbers(rng, 8, 3, n, batch) for n in (4, 2, 2))
    axes = {"feature_axis": 0, "seq_axis": 1}
    _, step = KVCache.empty(1, batch, 8, num_kv_heads=2, head_size=8, **axes).step(tokens)
    merged = [x.reshape(8, 3, -1) for x in (q, k, v)]
    keys, values = (x.reshape(8, -1, 2 * batch) for x in step.update(0, k, v))
    options = {"mask": CausalMask(), "enable_gqa": True, "positions": step}
    got = scaled_dot_product_attention(merged[0], keys, values, **options).reshape(8, 3, 4, batch)
    for b, own in enumerate(np.asarray(tokens) == 1):
        x = [a[:, own][..., b] for a in (q, *(np.repeat(a, 2, axis=2) for a in (k, v)))]
        n = own.sum()
        expected, _ = oracles.attention(*x, np.triu(np.ones((n, n), dtype=bool), 1)[..., None])
        np.testing.assert_allclose(got[:, own][..., b], expected, atol=1e-12)


def test_key_heads_of_a_merged_axis_divide_the_heads():
    q, k = np.ones((3, 5, 12)), np.ones((3, 5, 4))
    with pytest.raises(ValueError, match="`k` must have a divisor of the 4 heads of `q` for each "):
        scaled_dot_product_attention(q, k, k, bias=ALiBiBias(4), enable_gqa=True)


def test_a_row_that_is_masked_everywhere_gives_zeros(backend):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 2, 3, 2) for _ in range(3))
    mask = np.zeros((3, 3, 2), dtype=bool)
    mask[1, :, 0] = True
    arrays = list(map(backend.array, (q, k, v)))
    hidden = backend.array(mask)
    for options in ({"mask": hidden}, {"bias": mask_to_bias(hidden, arrays[0].dtype)}):
        output = scaled_dot_product_attention(*arrays, **options)
        weights = attention_weights(*arrays[:2], **options)
        assert not backend.numpy(output)[:, 1, 0].any()
        assert not backend.numpy(weights)[1, :, 0].any()
        np.testing.assert_allclose(
            backend.numpy(output),
            oracles.attention(q, k, v, mask)[0],
            atol=backend.tolerance(),
        )


def test_no_keys_at_all(backend):
    q, k, v = np.ones((2, 3, 2)), np.ones((2, 0, 2)), np.ones((4, 0, 2))
    arrays = list(map(backend.array, (q, k, v)))
    got, weights = scaled_dot_product_attention(*arrays), attention_weights(*arrays[:2])
    np.testing.assert_array_equal(backend.numpy(got), np.zeros((4, 3, 2)))
    assert tuple(weights.shape) == (3, 0, 2)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("hide", ["mask", "bias"])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_what_is_masked_reaches_no_output(backend, garbage, hide, softcap):
    """Causally: each key is hidden from some queries only."""
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 2, 4, 1) for _ in range(3))
    causal = create_causal_mask(4)
    clean, clean_weights = oracles.attention(q, k, v, causal, softcap=softcap)
    dirty_k, dirty_v = k.copy(), v.copy()
    dirty_k[:, 3], dirty_v[:, 3] = garbage, garbage
    mask = backend.array(causal)
    arrays = list(map(backend.array, (q, dirty_k, dirty_v)))
    options = {"mask": mask} if hide == "mask" else {"bias": mask_to_bias(mask)}
    output = scaled_dot_product_attention(*arrays, softcap=softcap, **options)
    weights = attention_weights(*arrays[:2], softcap=softcap, **options)
    tolerance = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(output)[:, :3], clean[:, :3], atol=tolerance)
    np.testing.assert_allclose(backend.numpy(weights)[:3], clean_weights[:3], atol=tolerance)
    assert np.isnan(backend.numpy(output)[:, 3]).all()


def test_what_is_attended_to_does_reach_the_output(backend):
    """A query that attends to a value that is not finite gets NaN."""
    q, k, v, mask = oracles.partly_infinite(np.random.default_rng(0))
    output = scaled_dot_product_attention(*map(backend.array, (q, k, v)), mask=backend.array(mask))
    got = backend.numpy(output)[..., 0]
    assert np.isfinite(got[:, 0]).all()
    assert np.isnan(got[:, 1:]).all()


@pytest.mark.parametrize("hides", [False, True])
def test_half_precision_is_converted_in_parts(hides):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, n, 16)).astype("float16") for n in (1, 6000, 6000))
    mask = np.zeros((1, 1, 1, 6000), dtype=bool)
    if hides:
        mask[..., ::7], k[:, :, 7], v[:, :, 14, 3] = True, np.nan, np.inf
    axes = {"feature_axis": -1, "seq_axis": -2}
    format_value = ~mask[0, 0, 0]
    expected, _ = oracles.attention(
        *(
            x.reshape(6, -1, 16).transpose(2, 1, 0).astype("float64")
            for x in (q, k[:, :, format_value], v[:, :, format_value])
        )
    )
    tracemalloc.start()
    got = scaled_dot_product_attention(q, k, v, mask=mask if hides else None, **axes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    got = got.reshape(6, -1, 16).transpose(2, 1, 0)
    np.testing.assert_allclose(got.astype("float64"), expected, rtol=2**-10, atol=1e-5)
    assert hides or peak < 0.9 * k.nbytes
    none = scaled_dot_product_attention(q, k[:, :, :0], v[:, :, :0], **axes)
    np.testing.assert_array_equal(none, np.zeros_like(q))


def test_the_plain_formula_decides_where_nothing_hides_a_key(backend):
    """A score of minus infinity has no weight; with a mask or a bias its key is not finite."""
    q, k = backend.array([[1.0]]), backend.array([[0.0, -np.inf]])
    nothing = {"mask": np.zeros((1, 2), dtype=bool), "bias": np.zeros((1, 2))}
    np.testing.assert_array_equal(backend.numpy(attention_weights(q, k)), [[1.0, 0.0]])
    for name, zeros in nothing.items():
        weights = attention_weights(q, k, **{name: backend.array(zeros)})
        assert np.isnan(backend.numpy(weights)).all()


@pytest.mark.parametrize("softcap", [2.0**64, 3e38])
def test_a_large_softcap_changes_no_score(softcap):
    """Also where a score divided by it would be a subnormal number."""
    rng = np.random.default_rng(0)
    q, k = numbers(rng, 3, 4).astype("float32"), numbers(rng, 3, 5).astype("float32")
    got = attention_weights(q, k, softcap=softcap)
    np.testing.assert_array_equal(got, attention_weights(q, k))


def test_the_largest_softcap_bends_scores():
    q, k = np.asarray([[1e38]], "float32"), np.asarray([[1.0, 0.0]], "float32")
    largest = float(np.finfo("float32").max)  # times tanh(1e38 / largest): 0.972e38
    given = {"scale": 1.0, "bias": np.asarray([[-0.985e38, 0.0]], "float32")}
    for softcap, expected in ((largest, [[0.0, 1.0]]), (1.5 * largest, [[1.0, 0.0]])):
        got = attention_weights(q, k, softcap=softcap, **given)
        np.testing.assert_array_equal(got, expected)


def test_few_scores_of_large_keys_are_dense(monkeypatch):
    """As those of a decoding step: a score for each eight numbers of the keys."""
    monkeypatch.setattr(blocks, "MAX_SCORES_ON_HOST", 4)
    attend, in_blocks = attention.attend_blocks, []

    def plural(*arguments, **options):
        in_blocks.append(1)
        return attend(*arguments, **options)

    monkeypatch.setattr(attention, "attend_blocks", plural)
    rng = np.random.default_rng(0)
    for head, expected_blocks in ((8, 0), (7, 1)):
        q, k, v = (numbers(rng, head, n) for n in (1, 100, 100))
        got = scaled_dot_product_attention(q, k, v)
        expected, _ = oracles.attention(*(x[..., None] for x in (q, k, v)))
        np.testing.assert_allclose(got, expected[..., 0], atol=1e-12)
        assert len(in_blocks) == expected_blocks


def test_what_may_change_is_read_by_each_call():
    """The weights of a bias, and arrays as masks, biases, sinks and positions."""
    q, k, v = (numbers(np.random.default_rng(i), 4, 3, 2) for i in range(3))
    mask, added = np.zeros((3, 3), bool), np.zeros((3, 3))
    table, sinks, places = np.zeros((32, 2)), np.zeros(2), np.arange(3)
    bias = T5Bias(2, embeddings=table)
    changes = [
        (table, {"bias": bias}),
        (mask, {"mask": mask}),
        (added, {"bias": added}),
        (sinks, {"sinks": sinks}),
        (places, {"positions": places, "bias": bias}),
    ]
    for array, options in changes:
        before = scaled_dot_product_attention(q, k, v, **options)
        array[...] = np.arange(array.size)[::-1].reshape(array.shape) % 5
        after = scaled_dot_product_attention(q, k, v, **options)
        assert not np.allclose(before, after)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_few_parts_of_half_precision(monkeypatch, parts):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 4, n).astype("float16") for n in (2, 6, 6))
    monkeypatch.setattr(softmax, "_MAX_CONVERTED_NUMBERS", 4 * 6 // parts)
    got = scaled_dot_product_attention(q, k, v)
    expected, _ = oracles.attention(*(x[..., None].astype(float) for x in (q, k, v)))
    np.testing.assert_allclose(got, expected[..., 0], atol=2e-3)


def test_half_precision_is_computed_in_float32(backend):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 8, 5, 2).astype("float32") for _ in range(3))
    for dtype in backend.half_dtypes:
        halves = [backend.array(array, dtype) for array in (q, k, v)]
        output, weights = scaled_dot_product_attention(*halves), attention_weights(*halves[:2])
        assert output.dtype == dtype
        assert weights.dtype == dtype
        wide = [backend.numpy(backend.xp.astype(h, backend.xp.float32)) for h in halves]
        expected, _ = oracles.attention(*wide)
        ulp = 2**-10 if "bfloat" not in str(dtype) else 2**-7
        np.testing.assert_allclose(
            backend.numpy(output).astype("float32"), expected, rtol=ulp, atol=1e-6
        )


def test_large_scores_do_not_overflow(backend):
    q = backend.array(np.full((1, 1, 1), 1e4))
    k = backend.array(np.asarray([[[1e4], [-1e4]]]))
    v = backend.array(np.asarray([[[3.0], [5.0]]]))
    got = backend.numpy(scaled_dot_product_attention(q, k, v))
    np.testing.assert_allclose(got, [[[3.0]]], rtol=np.finfo(got.dtype).eps)


def test_the_lowest_number_of_a_wider_bias_hides_nothing():
    q, v = np.zeros((1, 1), dtype="float32"), np.asarray([[4.0, 8.0]], dtype="float32")
    bias = np.full((1, 2), np.finfo("float64").min)
    got = scaled_dot_product_attention(q, np.zeros((1, 2), dtype="float32"), v, bias=bias)
    assert got == 6.0
    got = scaled_dot_product_attention(q, np.zeros((1, 2), dtype="float32"), v, bias=-bias)
    assert got == 6.0
    bias[0, 1] = 0.0
    got = scaled_dot_product_attention(q, np.zeros((1, 2), dtype="float32"), v, bias=bias)
    assert got == 8.0
    bias[0, 1] = -np.inf
    got = scaled_dot_product_attention(q, np.zeros((1, 2), dtype="float32"), v, bias=bias)
    assert got == 4.0


def test_a_further_axis_of_a_mask_is_not_guessed(backend):
    """Three axes with scores of four: heads or batch?"""
    q = backend.array(np.zeros((2, 3, 4, 4)))
    for axes, shape in (((0, 1), (3, 3, 4)), ((-1, -2), (4, 3, 3))):
        moved = backend.xp.permute_dims(q, (0, 1, 2, 3) if axes[0] == 0 else (2, 3, 1, 0))
        mask = backend.array(np.zeros(shape, dtype=bool))
        with pytest.raises(ValueError, match=re.escape(f"got {shape}")):
            scaled_dot_product_attention(
                moved, moved, moved, mask=mask, feature_axis=axes[0], seq_axis=axes[1]
            )


@pytest.mark.parametrize("ones", [(), (1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("axes", [(0, 1), (-1, -2)])
def test_axes_of_one_line_up(backend, axes, ones):
    rng = np.random.default_rng(0)
    q = numbers(rng, 2, 3, 20)
    mask = np.asarray([[False, True, True], [False, False, True], [True, False, False]])
    expected, _ = oracles.attention(q, q, q, mask[..., None])
    moved = backend.array(np.moveaxis(q.reshape(2, 3, 4, 5), (0, 1), axes))
    shape = (*ones, 3, 3) if axes[0] else (3, 3, *ones)
    got = scaled_dot_product_attention(
        moved,
        moved,
        moved,
        mask=backend.array(mask.reshape(shape)),
        feature_axis=axes[0],
        seq_axis=axes[1],
    )
    np.testing.assert_allclose(
        np.moveaxis(backend.numpy(got), axes, (0, 1)),
        expected.reshape(2, 3, 4, 5),
        atol=backend.tolerance(),
    )


@pytest.mark.parametrize("batches", [(3, 1), (1, 3)])
def test_grouped_queries_and_a_batch_that_broadcasts(backend, batches):
    rng = np.random.default_rng(0)
    q = numbers(rng, 2, 5, 4, batches[0])
    k, v = (numbers(rng, 2, 6, 2, batches[1]) for _ in range(2))
    got = scaled_dot_product_attention(
        *map(backend.array, (q, k, v)), enable_gqa=True, feature_axis=0, seq_axis=1
    )
    whole = [np.broadcast_to(a, (*a.shape[:3], 3)) for a in (q, k, v)]
    for h in range(4):
        expected, _ = oracles.attention(*(a[:, :, h * a.shape[2] // 4] for a in whole))
        np.testing.assert_allclose(backend.numpy(got)[:, :, h], expected, atol=backend.tolerance())


def test_axes_that_come_as_arrays():
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    axes = {"feature_axis": np.asarray(2), "seq_axis": np.asarray(1)}
    got = scaled_dot_product_attention(x, x, x, **axes)
    expected = scaled_dot_product_attention(x, x, x, feature_axis=2, seq_axis=1)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.library("ndonnx", "onnxruntime")
@pytest.mark.parametrize("masked", [False, True])
def test_lengths_that_are_known_when_a_graph_runs(masked):
    import ndonnx
    import onnxruntime

    q, k = (ndonnx.argument(shape=(3, n, 2), dtype=ndonnx.float64) for n in ("queries", "keys"))
    given = {"q": q, "k": k}
    if masked:
        given["mask"] = ndonnx.argument(shape=("queries", "keys"), dtype=ndonnx.bool)
    output = scaled_dot_product_attention(q, k, k, mask=given.get("mask"))
    graph = ndonnx.build(given, {"output": output}).SerializeToString()
    rng = np.random.default_rng(0)
    for q_len, k_len in ((2, 5), (7, 3)):
        values = {"q": numbers(rng, 3, q_len, 2), "k": numbers(rng, 3, k_len, 2)}
        if masked:
            values["mask"] = rng.random((q_len, k_len)) < 0.5
        (got,) = onnxruntime.InferenceSession(graph).run(None, values)
        q, k = values["q"], values["k"]
        expected = scaled_dot_product_attention(q, k, k, mask=values.get("mask"))
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
