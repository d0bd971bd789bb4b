"""Heads of merged features, split and merged."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import oracles
from positional_embeddings import (
    RoPE,
    RoPEMultiHeadAttention,
    combine_masks,
    create_causal_mask,
    create_padding_mask,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.algorithms import blocks

WEIGHTS = ("Wq", "Wk", "Wv", "Wo")


def layer_on(backend, **options):
    options = {"rng": 0, "max_len": 12, "base": 100} | options
    return RoPEMultiHeadAttention(
        8,
        4,
        xp=backend.xp,
        device=backend.device,
        dtype=getattr(backend.xp, backend.wide),
        **options,
    )


def host_twin(backend, layer):
    return replace(layer, **{name: backend.numpy(getattr(layer, name)) for name in WEIGHTS})


@pytest.mark.parametrize("num_kv_heads", [None, 2, 1])
@pytest.mark.parametrize(
    "mask_kind", ["none", "two axes", "one", "batch", "heads*batch", "heads, batch"]
)
def test_layer_is_its_heads_one_by_one(backend, num_kv_heads, mask_kind):
    rng = np.random.default_rng(1)
    heads, batch, seq = 4, 3, 5
    x = rng.standard_normal((8, seq, batch))
    layer = layer_on(backend, num_kv_heads=num_kv_heads)
    last = {
        "none": (),
        "two axes": (),
        "one": (1,),
        "batch": (batch,),
        "heads*batch": (heads * batch,),
    }
    shape = (seq, seq, *last.get(mask_kind, (heads, batch)))
    mask = None if mask_kind == "none" else rng.random(shape) < 0.5
    by_head = {
        "none": lambda: None,
        "two axes": lambda: mask[:, :, None, None],
        "one": lambda: mask[:, :, None, :],
        "batch": lambda: mask[:, :, None, :],
        "heads*batch": lambda: mask.reshape(seq, seq, heads, batch),
        "heads, batch": lambda: mask,
    }[mask_kind]()
    got = layer(backend.array(x), None if mask is None else backend.array(mask))
    expected = oracles.multi_head(x, host_twin(backend, layer), by_head, base=100)
    tolerance = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("shape", [(5, 5, 1), (1, 5, 4), (5, 5, 12), (5, 5, 4, 1)])
def test_bias_belongs_to_heads(backend, shape):
    rng = np.random.default_rng(1)
    x, bias = rng.standard_normal((8, 5, 3)), rng.standard_normal(shape)
    layer = layer_on(backend)
    by_head = bias if bias.ndim == 4 else bias[..., None]
    by_head = bias.reshape(5, 5, 4, 3) if shape[2] == 12 else by_head
    got = layer(backend.array(x), bias=backend.array(bias))
    expected = oracles.multi_head(x, host_twin(backend, layer), None, by_head, base=100)
    tolerance = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("last", [(), (1,), (3,), (12,), (4, 3)])
def test_functions_of_indices(backend, monkeypatch, in_blocks, last):
    """Asked at once or block by block, they say what whole arrays say, of any number of axes."""
    if in_blocks:
        monkeypatch.setattr(blocks, "MAX_SCORES_ON_HOST", 8)
        monkeypatch.setattr(blocks, "MAX_SCORES_ON_DEVICE", 8)
    rng = np.random.default_rng(1)
    expanded = (..., *(None,) * len(last))
    longest = rng.integers(1, 4, last)
    slopes = rng.random((4,) if last == (3,) else last)

    def far(q_idx, k_idx, longest):
        return abs(q_idx - k_idx)[expanded] > longest

    def linear(q_idx, k_idx, slopes, xp=np):
        return -slopes * xp.astype(abs(q_idx - k_idx), slopes.dtype)[expanded]

    layer = layer_on(backend, num_kv_heads=2)
    x, most, steep = map(backend.array, (rng.standard_normal((8, 5, 3)), longest, slopes))
    got = layer(
        x,
        lambda q_idx, k_idx: far(q_idx, k_idx, most),
        bias=lambda q_idx, k_idx: linear(q_idx, k_idx, steep, backend.xp),
    )
    whole = np.arange(5)[:, None], np.arange(5)
    expected = layer(
        x, backend.array(far(*whole, longest)), bias=backend.array(linear(*whole, slopes))
    )
    tolerance = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), backend.numpy(expected), atol=tolerance)


def test_max_len_is_for_positions_not_for_sequences(backend):
    x = np.random.default_rng(1).standard_normal((8, 3, 13))
    layer = layer_on(backend, max_len=12)
    expected = oracles.multi_head(x, host_twin(backend, layer), None, base=100)
    tolerance = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(layer(backend.array(x))), expected, atol=tolerance)


def test_example_of_the_julia_package():
    x = np.random.default_rng(0).random((512, 20, 32))
    mha = RoPEMultiHeadAttention(512, 8)
    output = mha(x, combine_masks(create_causal_mask(20), create_padding_mask([20] * 31 + [7], 20)))
    assert output.shape == x.shape
    assert output.dtype == x.dtype
    assert np.isfinite(output).all()


def test_padding_does_not_change_what_is_real():
    x = np.random.default_rng(0).standard_normal((8, 6, 1))
    mha = RoPEMultiHeadAttention(8, 2, rng=0, dtype=np.float64)
    padded = np.concatenate([x[:, :4], np.full((8, 2, 1), np.nan)], axis=1)
    output = mha(padded, create_padding_mask([4], 6))
    np.testing.assert_allclose(output[:, :4], mha(x[:, :4]), atol=1e-12)


def test_half_precision_input(backend):
    x = np.random.default_rng(0).standard_normal((8, 5, 2)).astype("float32")
    layer = layer_on(backend)
    for dtype in backend.half_dtypes:
        half = backend.array(x, dtype)
        got = layer(half)
        assert got.dtype == dtype
        wide = layer(backend.xp.astype(half, getattr(backend.xp, backend.wide)))
        np.testing.assert_allclose(
            backend.numpy(got).astype("float64"), backend.numpy(wide), rtol=2**-7, atol=0.02
        )


def test_weights_are_kaiming_normal_and_seeded():
    mha = RoPEMultiHeadAttention(256, 4, num_kv_heads=2, rng=3)
    assert mha.Wq.shape == mha.Wo.shape == (256, 256)
    assert mha.Wk.shape == mha.Wv.shape == (128, 256)
    for name in WEIGHTS:
        weight = getattr(mha, name)
        assert weight.dtype == np.float32
        assert np.std(weight) == pytest.approx(np.sqrt(2 / 256), rel=0.02)
        assert np.mean(weight) == pytest.approx(0, abs=2e-3)
    assert not np.array_equal(mha.Wk, mha.Wv)
    assert RoPEMultiHeadAttention(256, 4, num_kv_heads=2, rng=3) == mha
    assert RoPEMultiHeadAttention(256, 4, num_kv_heads=2, rng=4) != mha
    assert RoPEMultiHeadAttention(256, 4, num_kv_heads=2, rng=np.random.default_rng(3)) == mha
    assert RoPEMultiHeadAttention(256, 4) != RoPEMultiHeadAttention(256, 4)


def test_layer_is_a_value():
    mha = RoPEMultiHeadAttention(8, 2, 50, num_kv_heads=1, base=100, rng=5)
    for twin in (
        eval(repr(mha)),
        pickle.loads(pickle.dumps(mha)),
        copy.copy(mha),
        copy.deepcopy(mha),
    ):
        assert twin == mha
    assert mha != RoPEMultiHeadAttention(8, 2, 51, num_kv_heads=1, base=100, rng=5)
    assert mha != "another thing"
    with pytest.raises(FrozenInstanceError, match="Wq"):
        mha.Wq = np.zeros((8, 8))
    assert hash(mha) == hash(copy.deepcopy(mha))


def test_weights_are_replaceable(backend):
    layer = layer_on(backend)
    other = replace(layer, Wv=layer.Wv * 2)
    x = backend.array(np.random.default_rng(0).standard_normal((8, 3, 1)))
    np.testing.assert_allclose(
        backend.numpy(other(x)), 2 * backend.numpy(layer(x)), rtol=1e-5, atol=1e-6
    )
    assert "rng=None" in repr(other)  # a seed would not tell these weights
    assert other != layer
    assert layer == replace(layer)


def test_missing_weights_follow_the_given_ones(backend):
    xp = backend.xp
    query = backend.array(np.eye(8), "float32")
    layer = RoPEMultiHeadAttention(8, 2, Wq=query, rng=1)
    np.testing.assert_array_equal(backend.numpy(layer.Wq), np.eye(8))
    assert layer.Wk.dtype == xp.float32
    seeded = RoPEMultiHeadAttention(8, 2, rng=1)
    np.testing.assert_array_equal(backend.numpy(layer.Wo), seeded.Wo)


def test_layers_of_two_libraries_differ():
    import array_api_strict as strict

    assert RoPEMultiHeadAttention(8, 2, rng=0) != RoPEMultiHeadAttention(8, 2, rng=0, xp=strict)


def test_drawn_weights_must_follow_the_given_ones():
    import array_api_strict as strict

    with pytest.raises(
        ValueError, match="`xp` must be the library of the given arrays, got <module"
    ):
        RoPEMultiHeadAttention(8, 2, Wq=np.eye(8), xp=strict)
    layer = RoPEMultiHeadAttention(8, 2, Wq=np.eye(8, dtype="float32"), dtype=np.float64)
    assert layer.Wq.dtype == np.float32
    assert layer.Wk.dtype == np.float64


def test_equality_answers_for_every_kind_of_array():
    import array_api_strict as strict

    device = strict.Device("device1")
    first = RoPEMultiHeadAttention(8, 2, rng=0, xp=strict)
    assert first != RoPEMultiHeadAttention(8, 2, rng=0, xp=strict, device=device)
    assert first != RoPEMultiHeadAttention(8, 2, rng=0, xp=strict, dtype=strict.float64)
    nan = RoPEMultiHeadAttention(8, 2, rng=0, Wq=np.full((8, 8), np.nan))
    assert nan == copy.deepcopy(nan)


def test_a_repr_with_a_seed_tells_all():
    assert "rng=3" in repr(RoPEMultiHeadAttention(8, 2, rng=np.int64(3)))
    assert "rng=None" in repr(RoPEMultiHeadAttention(8, 2, rng=3, dtype=np.float64))
    assert "rng=None" in repr(RoPEMultiHeadAttention(8, 2, rng=np.random.default_rng(3)))


def test_indices_count_from_0_whatever_the_positions():
    """Two queries after three cached keys: masks and biases are told 0 and 1, and 0 to 4."""
    told = []

    def bias(q_idx, k_idx):
        told.append((q_idx.tolist(), k_idx.tolist()))
        return 0.0 * (q_idx - k_idx)

    x = np.random.default_rng(0).standard_normal((4, 5))
    rope = RoPE(4, 9)
    scaled_dot_product_attention(rope(x[:, 3:], offset=3), rope(x), x, bias=bias)
    assert told == [([[0], [1]], [[0, 1, 2, 3, 4]])]


def test_a_layer_has_no_offset_that_would_change_nothing():
    mha = RoPEMultiHeadAttention(8, 2, rng=0)
    with pytest.raises(TypeError, match="offset"):
        mha(np.zeros((8, 3, 1)), offset=2)
