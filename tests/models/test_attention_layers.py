"""Attention of layers of models, against loops."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import positional_embeddings as pe

AXES = {"feature_axis": -1, "seq_axis": -2}
RNG = np.random.default_rng(0)
ROPE = pe.RoPE(4, 16, **AXES)
# As multi-head latent attention: the last four of ten features rotate.
LAYER = pe.AttentionLayer(
    4,
    10,
    num_kv_heads=2,
    value_size=3,
    rope=ROPE,
    mask=pe.CausalMask() | pe.SlidingWindowMask(2, 0),
    bias=pe.ALiBiBias(4),
    scale=0.7,
    softcap=2.0,
    window=3,
    has_sinks=True,
    **AXES,
)
Q, K = RNG.standard_normal((2, 4, 6, 10)), RNG.standard_normal((2, 2, 6, 10))
V, SINKS = RNG.standard_normal((2, 2, 6, 3)), RNG.standard_normal(4)


def rotated(vector, position):
    """Rotate features 6 and 8, and 7 and 9, of ten."""
    out = list(vector)
    for pair, frequency in enumerate((1.0, 0.01)):
        c, s = math.cos(position * frequency), math.sin(position * frequency)
        a, b = vector[6 + pair], vector[8 + pair]
        out[6 + pair], out[8 + pair] = a * c - b * s, b * c + a * s
    return out


def expected(positions):
    out = np.empty((2, 4, 6, 3))
    for batch, head, i in np.ndindex(2, 4, 6):
        query = rotated(Q[batch, head, i], positions[batch][i])
        powers, total = {}, math.exp(SINKS[head])
        for j in range(6):
            distance = positions[batch][i] - positions[batch][j]
            if not 0 <= distance < 3:
                continue
            key = rotated(K[batch, head // 2, j], positions[batch][j])
            score = 0.7 * sum(a * b for a, b in zip(query, key, strict=True))
            score = 2 * math.tanh(score / 2) - distance * 2.0 ** (-2 * (head + 1))
            powers[j] = math.exp(score)
        total += sum(powers.values())
        out[batch, head, i] = sum(p / total * V[batch, head // 2, j] for j, p in powers.items())
    return out


def test_a_layer_rotates_and_attends():
    counted = [range(6)] * 2
    np.testing.assert_allclose(LAYER(Q, K, V, sinks=SINKS), expected(counted), atol=1e-14)
    positions = np.asarray([range(6), (3, 4, 5, 6, 7, 11)])
    found = LAYER(Q, K, V, positions=positions, sinks=SINKS)
    np.testing.assert_allclose(found, expected(positions), atol=1e-14)


def test_positions_of_several_coordinates_rotate_alone():
    rope = pe.RoPE(4, 16, sections=(1, 1), **AXES)
    layer = pe.AttentionLayer(2, 4, rope=rope, mask=pe.CausalMask(), **AXES)
    q, k, v = RNG.standard_normal((3, 1, 2, 4, 4))
    places = np.asarray([[0, 1, 1, 2], [0, 1, 2, 2]])
    q_rotated, k_rotated = rope(q, positions=places), rope(k, positions=places)
    wanted = pe.scaled_dot_product_attention(q_rotated, k_rotated, v, mask=layer.mask, **AXES)
    np.testing.assert_array_equal(layer(q, k, v, positions=places), wanted)


def test_a_layer_is_a_value():
    other = pickle.loads(pickle.dumps(LAYER))
    assert other == LAYER
    assert hash(other) == hash(LAYER)
    assert replace(LAYER, window=4) != LAYER
    assert eval(repr(LAYER), vars(pe)) == LAYER
    plain = pe.AttentionLayer(4, 8)
    assert (plain.num_kv_heads, plain.value_size) == (4, 8)


WINDOW = (
    "`mask` must hide all keys but the 4 newest ones (`window`), got {}. Pass "
    "mask=SlidingWindowMask.of(4), or no `window`."
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pe.AttentionLayer(4, 8, rope="rope"),
            "`rope` must be a `RoPE` or None, got 'rope'.",
        ),
        (lambda: pe.AttentionLayer(4, 8, mask=3), "`mask` must be a `Mask` or None, got 3."),
        (lambda: pe.AttentionLayer(4, 8, bias=3), "`bias` must be a `Bias` or None, got 3."),
        (
            lambda: pe.AttentionLayer(4, 8, rope=pe.RoPE(16, 8)),
            "`rope` must have at most `head_size` = 8 features, got 16.",
        ),
        (
            lambda: pe.AttentionLayer(4, 8, rope=pe.RoPE(8, 8), **AXES),
            "`feature_axis` must be the `feature_axis` of `rope`, None, got -1.",
        ),
        *[
            (
                lambda mask=mask: pe.AttentionLayer(4, 8, mask=mask, window=4),
                WINDOW.format(mask),
            )
            for mask in (None, pe.CausalMask(), pe.SlidingWindowMask.of(5))
        ],
        (
            lambda: LAYER(Q, K, V),
            "`sinks` must be given, of shape (num_heads,), as `has_sinks` is True, got None.",
        ),
        (
            lambda: replace(LAYER, has_sinks=False)(Q, K, V, sinks=SINKS[:1]),
            "`sinks` must be left out, as `has_sinks` is False, got numpy.ndarray of shape (1,).",
        ),
        (
            lambda: LAYER(Q[..., :8], K, V, sinks=SINKS),
            "`q` must have 10 features on axis 3, got shape (2, 4, 6, 8).",
        ),
        (
            lambda: LAYER(Q, Q, V, sinks=SINKS),
            "`k` must have 2 heads on axis 1, got shape (2, 4, 6, 10).",
        ),
        (
            lambda: LAYER(Q, K, K, sinks=SINKS),
            "`v` must have 3 features on axis 3, got shape (2, 2, 6, 10).",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value) == message


CAUSAL = pe.CausalMask()
SIZES = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 4}


def layers_of(model_type, **config):
    config = {"num_key_value_heads": 2, "max_position_embeddings": 64} | SIZES | config
    return pe.attention_layers(config | {"model_type": model_type})


def test_windows_of_layers():
    seen = [(layer.mask, layer.window) for layer in layers_of("cohere2", sliding_window=5)]
    windowed = (CAUSAL | pe.SlidingWindowMask(4, 0), 5)
    assert seen == [windowed] * 3 + [(CAUSAL, None)]
    assert layers_of("mistral", sliding_window=None)[0].window is None
    assert layers_of("mistral")[0].window == 4096
    both = layers_of("modernbert", local_attention=8, num_key_value_heads=None)
    assert {layer.mask for layer in both} == {None, pe.SlidingWindowMask(4, 4)}
    assert {layer.window for layer in both} == {None}


def test_windows_that_are_switched_on():
    off = layers_of("qwen2", sliding_window=5, max_window_layers=1)
    assert [layer.window for layer in off] == [None] * 4
    on = layers_of("qwen2", sliding_window=5, max_window_layers=1, use_sliding_window=True)
    assert [layer.window for layer in on] == [None, 5, 5, 5]


def test_factors_on_scores():
    assert layers_of("granite", attention_multiplier=0.25)[0].scale == 0.25
    assert layers_of("gemma2", query_pre_attn_scalar=16)[0].scale == 0.25
    assert layers_of("gemma4_text")[0].scale == 1.0
    assert layers_of("llama")[0].scale is None


def test_deepseek_multiplies_its_scores():
    sizes = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 24}
    yarn = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    yarn |= {"mscale": 1.0, "mscale_all_dim": 1.0}
    layer = layers_of("deepseek_v3", rope_scaling=yarn, **sizes)[0]
    assert (layer.head_size, layer.value_size, layer.num_kv_heads) == (48, 24, 4)
    assert layer.rope.head_size == 16
    assert layer.scale == pytest.approx(48**-0.5 * (0.1 * math.log(40) + 1) ** 2, rel=1e-15)
    assert layers_of("deepseek_v3", **sizes)[0].scale is None
    plain = {"rope_type": "linear", "factor": 2.0}
    assert layers_of("deepseek_v3", rope_scaling=plain, **sizes)[0].scale is None


def test_layers_that_are_all_of_one_type():
    assert {layer.mask for layer in layers_of("lfm2")} == {CAUSAL}


def test_heads_on_one_axis_with_the_batch():
    layer = layers_of("gpt2", n_head=4, n_embd=32, scale_attn_weights=True)[0]
    q, k, v = RNG.standard_normal((3, 8, 5, 12))
    wanted = pe.scaled_dot_product_attention(q, k, v, mask=CAUSAL)
    np.testing.assert_array_equal(layer(q, k, v), wanted)


def test_sinks_and_layers_without_attention():
    assert layers_of("gpt_oss", head_dim=8)[0].has_sinks
    hybrid = layers_of("qwen3_next", head_dim=8)
    assert [layer is None for layer in hybrid] == [True, True, True, False]
    assert {layer.rope for layer in layers_of("gpt2", n_head=4, n_embd=32)} == {None}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "my_model"}, "my_model' does: it is not among the types of transformers"),
        (
            {"architectures": ["LlamaForCausalLM"]},
            r"make layers by hand; its architectures are \['LlamaForCausalLM'\]\.",
        ),
        ({"model_type": "llama4_text"}, "does: its queries that do not rotate are multiplied by"),
        (
            {"model_type": "llama", "layer_types": ["sliding_attention"] * 4},
            r"`layer_types` must hold types of \[''\], got 'sliding_attention'",
        ),
        (
            {"model_type": "gpt2", "scale_attn_weights": False},
            "`scale_attn_weights` of the model type 'gpt2' is known as True only, got False",
        ),
        ({"model_type": "minicpm3", "qk_rope_head_dim": 8}, "must have 'v_head_dim'"),
    ],
)
def test_attention_that_is_not_known_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        pe.attention_layers(SIZES | {"max_position_embeddings": 64} | config)
