"""Attention of layers of models, against loops."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.models.model_types import get_model_type

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
    positions = [range(6)] * 2
    np.testing.assert_allclose(LAYER(Q, K, V, sinks=SINKS), expected(positions), atol=1e-14)
    positions = np.asarray([range(6), (3, 4, 5, 6, 7, 11)])
    actual = LAYER(Q, K, V, positions=positions, sinks=SINKS)
    np.testing.assert_allclose(actual, expected(positions), atol=1e-14)


def test_positions_of_several_coordinates_rotate_alone():
    rope = pe.RoPE(4, 16, sections=(1, 1), **AXES)
    layer = pe.AttentionLayer(2, 4, rope=rope, mask=pe.CausalMask(), **AXES)
    q, k, v = RNG.standard_normal((3, 1, 2, 4, 4))
    positions = np.asarray([[0, 1, 1, 2], [0, 1, 2, 2]])
    q_rotated, k_rotated = rope(q, positions=positions), rope(k, positions=positions)
    desired = pe.scaled_dot_product_attention(q_rotated, k_rotated, v, mask=layer.mask, **AXES)
    np.testing.assert_array_equal(layer(q, k, v, positions=positions), desired)


def test_a_layer_is_a_value():
    other = pickle.loads(pickle.dumps(LAYER))
    assert other == LAYER
    assert hash(other) == hash(LAYER)
    assert replace(LAYER, window=4) != LAYER
    assert eval(repr(LAYER), vars(pe)) == LAYER
    plain = pe.AttentionLayer(4, 8)
    assert (plain.num_kv_heads, plain.value_size) == (4, 8)


LAYOUT = (
    "`layout` must be 'half' or 'interleaved', got {}. GPT-NeoX and Llama in transformers have "
    "'half', GPT-J and Meta's Llama 'interleaved'."
)
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
            "`feature_axis` must equal `rope.feature_axis` = None, got -1.",
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
        *[
            (lambda name=name: layers_of(name, "pairs"), LAYOUT.format("'pairs'"))
            for name in ("llama", "bert")  # which does not rotate
        ],
        (
            lambda: pe.RoPE.from_hf_config({"head_dim": 8, "rope_theta": 1e4}, 8, layout=3.0),
            LAYOUT.format("3.0"),
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value) == message


CAUSAL = pe.CausalMask()
SIZES = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 4}


def layers_of(model_type, layout=None, **config):
    attention = get_model_type(model_type).attention or {}
    heads = {"num_key_value_heads": 2} if "num_key_value_heads" in attention.values() else {}
    config = {"max_position_embeddings": 64} | heads | SIZES | config
    return pe.attention_layers(config | {"model_type": model_type}, layout=layout)


def test_windows_of_layers():
    windows = [(layer.mask, layer.window) for layer in layers_of("cohere2", sliding_window=5)]
    windowed = (CAUSAL | pe.SlidingWindowMask(4, 0), 5)
    assert windows == [windowed] * 3 + [(CAUSAL, None)]
    assert layers_of("mistral", sliding_window=None)[0].window is None
    assert layers_of("mistral")[0].window == 4096
    layers = layers_of("modernbert", local_attention=8)
    assert {layer.mask for layer in layers} == {None, pe.SlidingWindowMask(4, 4)}
    assert {layer.window for layer in layers} == {None}


@pytest.mark.parametrize("values", [{}, {"sliding_window": 5}, {"local_attention": 128}])
def test_the_window_of_modernbert_decoder_counts_before_its_local_attention(values):
    windows = {layer.window for layer in layers_of("modernbert-decoder", **values)}
    assert windows == {None, values.get("sliding_window", 64)}


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
    assert layers_of("falcon_h1", key_multiplier=0.5)[0].scale == 0.5 * 8**-0.5
    assert layers_of("opt")[0].scale is None


def test_deepseek_multiplies_its_scores():
    sizes = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 24}
    yarn = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    yarn |= {"mscale": 1.0, "mscale_all_dim": 1.0}
    layer = layers_of("deepseek_v3", rope_scaling=yarn, **sizes)[0]
    assert (layer.head_size, layer.value_size, layer.num_kv_heads) == (48, 24, 4)
    assert layer.rope.head_size == 16
    assert layer.scale == pytest.approx(48**-0.5 * (0.1 * math.log(40) + 1) ** 2, rel=1e-15)
    assert layers_of("deepseek_v3", **sizes)[0].scale is None
    without = {"type": "yarn", "original_max_position_embeddings": 16, "mscale_all_dim": 1.0}
    layer = layers_of("deepseek_v3", rope_scaling=without, **sizes)[0]  # 64 / 16 in place of it
    assert layer.scale == pytest.approx(48**-0.5 * (0.1 * math.log(4) + 1) ** 2, rel=1e-15)
    plain = {"rope_type": "linear", "factor": 2.0}
    assert layers_of("deepseek_v3", rope_scaling=plain, **sizes)[0].scale is None


def test_layers_that_are_all_of_one_type():
    assert {layer.mask for layer in layers_of("lfm2")} == {CAUSAL}
    layers = layers_of("lfm2", full_attn_idxs=[1, 3])
    assert [layer is None for layer in layers] == [True, False, True, False]


def test_alibi():
    falcon = {"max_position_embeddings": 64}
    with_bias, rotating = (layers_of("falcon", **falcon, alibi=x)[0] for x in (True, False))
    assert with_bias.bias == pe.ALiBiBias(4) * 8**-0.5
    assert with_bias.rope is None
    assert (rotating.bias, rotating.rope) == (None, pe.RoPE(8, 64))
    bloom = layers_of("bloom", n_head=4, n_layer=1, n_embed=64)
    assert [(layer.bias, layer.head_size) for layer in bloom] == [(pe.ALiBiBias(4), 16)]
    mpt = {"d_model": 96, "n_heads": 6, "n_layers": 2}
    softmax = {"attn_config": {"softmax_scale": 0.3, "alibi_bias_max": 8}}
    layer = layers_of("mpt", **mpt, **softmax)[0]
    assert (layer.bias, layer.scale, layer.head_size) == (pe.ALiBiBias(6), 0.3, 16)
    assert layers_of("mpt", **mpt)[0].scale is None
    message = "`attn_config.alibi_bias_max` must be 8, .* The code of transformers always has 8"
    with pytest.raises(ValueError, match=message):
        layers_of("mpt", **mpt, attn_config={"alibi_bias_max": 16})


def test_heads_of_keys_that_flags_tell():
    falcon = {"num_kv_heads": 2}
    for values, count in (
        ({}, 1),
        ({"multi_query": False}, 4),
        ({"new_decoder_architecture": True}, 2),
        ({"new_decoder_architecture": True, "num_kv_heads": None}, 4),
    ):
        assert layers_of("falcon", **falcon | values)[0].num_kv_heads == count
    code = {"n_head": 4, "n_embd": 32, "n_layer": 1}
    for is_one, count in ((True, 1), (False, 4)):
        assert layers_of("gpt_bigcode", **code, multi_query=is_one)[0].num_kv_heads == count


def test_chunks():
    config = {"attn_temperature_tuning": False, "attention_chunk_size": 8, "head_dim": 8}
    layers = layers_of("llama4_text", **config)
    chunks = CAUSAL | pe.ChunkedMask(8)
    assert [(x.mask, x.window) for x in layers] == [(chunks, 8)] * 3 + [(CAUSAL, None)]
    assert [x.rope is None for x in layers] == [False, False, False, True]
    layers = layers_of("llama4_text", **config, no_rope_layers=[0, 1, 1, 0])
    assert [x.window for x in layers] == [None, 8, 8, None]
    q, k, v = RNG.standard_normal((3, 1, 4, 20, 8))
    layer = pe.AttentionLayer(4, 8, mask=chunks, window=8, **AXES)
    desired = [
        pe.scaled_dot_product_attention(*(x[..., chunk, :] for x in (q, k, v)), mask=CAUSAL, **AXES)
        for chunk in (slice(8), slice(8, 16), slice(16, 20))
    ]
    np.testing.assert_allclose(layer(q, k, v), np.concatenate(desired, axis=-2), atol=1e-14)
    for values in ({}, {"attn_temperature_tuning": True}):
        with pytest.raises(ValueError, match="Multiply the queries of layers that do not rotate"):
            layers_of("llama4_text", **values)


def test_layers_with_numbers_of_their_own():
    kinds = {"hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window_size": 16, "sliding_window": 3}
    sizes = {"head_dim": 8, "v_head_dim": 6, "num_key_value_heads": 1}
    sinks = {"add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False}
    parts = {"partial_rotary_factor": 0.5}
    for values in ({}, {"swa_num_key_value_heads": 4}):
        full, sliding, *_ = layers_of("mimo_v2_flash", **kinds, **sizes, **sinks, **parts, **values)
        assert (full.num_kv_heads, full.window, full.has_sinks) == (1, None, False)
        assert sliding.num_kv_heads == values.get("swa_num_key_value_heads", 2)
        assert (sliding.window, sliding.has_sinks) == (17, True)
        assert {full.value_size, sliding.value_size} == {6}
    swa = {"swa_num_attention_heads": 8, "swa_head_dim": 12, "swa_v_head_dim": 2}
    full, sliding, *_ = layers_of("mimo_v2_flash", **kinds, **sizes, **sinks, **parts, **swa)
    actual = [(x.num_heads, x.num_kv_heads, x.head_size, x.value_size) for x in (full, sliding)]
    assert actual == [(4, 1, 8, 6), (8, 2, 12, 2)]
    assert [x.rope.head_size for x in (full, sliding)] == [8, 12]
    shared = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    types = {"layer_types": ["sliding_attention", "full_attention"] * 2}
    for values, count in ((shared, 1), (shared | {"attention_k_eq_v": False}, 2)):
        actual = [layer.num_kv_heads for layer in layers_of("gemma4_text", **types, **values)]
        assert actual == [2, count] * 2
    overrides = {"per_layer_config": {"1": {"head_dim": 16, "num_key_value_heads": 4}}}
    actual = [(x.head_size, x.num_kv_heads) for x in layers_of("qwen3", head_dim=8, **overrides)]
    assert actual == [(8, 2), (16, 4), (8, 2), (8, 2)]
    heads = {"num_attention_heads_per_layer": [8, 4, 8, 4], "head_dim": 8}
    assert [layer.num_heads for layer in layers_of("laguna", **heads)] == [8, 4, 8, 4]


def test_a_window_on_each_side():
    layer = layers_of("openai_privacy_filter", sliding_window=5)[0]
    assert (layer.mask, layer.window) == (pe.SlidingWindowMask(5, 5), None)


def test_embedding_gemma_sees_later_keys():
    """A window of 8 in its file is 4 keys on each side."""
    config = {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 8}
    layers = pe.attention_layers(config | {"use_bidirectional_attention": True}, 64)
    assert [layer.mask for layer in layers] == [*[pe.SlidingWindowMask(4, 4)] * 5, None]
    for flag in (False, None):
        layers = pe.attention_layers(config | {"use_bidirectional_attention": flag}, 64)
        assert [layer.window for layer in layers] == [*[8] * 5, None]


def test_the_layout_of_the_weights():
    for layout in ("half", "interleaved"):
        layers = layers_of("llama", layout)
        assert {layer.rope for layer in layers} == {pe.RoPE(8, 64, layout=layout)}
    with pytest.raises(ValueError, match="`layout` must be"):
        layers_of("llama", "both")


def test_sizes_of_values_that_are_left_out():
    sizes = {"qk_rope_head_dim": 4, "qk_nope_head_dim": 12}
    assert {layer.value_size for layer in layers_of("minicpm3", **sizes)} == {8}
    assert {layer.value_size for layer in layers_of("minicpm3", v_head_dim=6, **sizes)} == {6}


def test_patterns_of_layers():
    values = {"head_dim": 8, "attn_layer_period": 2, "attn_layer_offset": 1}
    actual = [layer is None for layer in layers_of("jamba", **values)]
    assert actual == [True, False, True, False]
    for pattern in (
        {"hybrid_override_pattern": "M*E-"},
        {"layers_block_type": ["mamba", "attention", "moe", "mlp"]},
    ):
        layers = layers_of("nemotron_h", attention_head_dim=8, **pattern)
        assert [layer is None for layer in layers] == [True, False, True, True]
        assert layers[1].head_size == 8


@pytest.mark.parametrize(
    ("model_type", "values"),
    [
        ("llama", {"context_window_size": 2048, "is_decoder": False}),
        ("cohere2", {"position_embedding_type": "rope_gptj"}),
        ("bert", {"position_embedding_type": "absolute"}),
        ("jamba", {"sliding_window": None, "attn_layer_period": 8}),
        ("bloom", {"offset_alibi": 100, "n_embed": 64, "n_layer": 2, "n_head": 8}),
        ("gptj", {"rope_scaling": {"rope_type": "gptj"}, "rotary_dim": 4}),
        ("gptj", {"scale_attn_weights": True, "rotary_dim": 4}),
    ],
)
def test_keys_of_published_files_that_change_nothing(model_type, values):
    usual = {"gptj": {"rotary_dim": 4}, "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 8}}
    usual = usual.get(model_type, {})
    assert layers_of(model_type, **values) == layers_of(model_type, **usual)


def test_types_that_have_the_code_of_another():
    sizes = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 24}
    assert layers_of("kimi_k2", **sizes) == layers_of("deepseek_v3", **sizes)


def test_heads_on_one_axis_with_the_batch():
    layer = layers_of("gpt2", n_head=4, n_embd=32, scale_attn_weights=True)[0]
    q, k, v = RNG.standard_normal((3, 8, 5, 12))
    desired = pe.scaled_dot_product_attention(q, k, v, mask=CAUSAL)
    np.testing.assert_array_equal(layer(q, k, v), desired)


def test_sinks_and_layers_without_attention():
    assert layers_of("gpt_oss", head_dim=8)[0].has_sinks
    hybrid = layers_of("qwen3_next", head_dim=8)
    assert [layer is None for layer in hybrid] == [True, True, True, False]
    assert {layer.rope for layer in layers_of("gpt2", n_head=4, n_embd=32)} == {None}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "my_model"}, "my_model' does: its type was not compared"),
        (
            {"architectures": ["LlamaForCausalLM"]},
            r"make layers by hand; its architectures are \['LlamaForCausalLM'\]\.",
        ),
        ({"model_type": "ministral3"}, "does: its queries are multiplied by a factor of their pos"),
        ({"model_type": "rwkv"}, "has no attention .*: none of its layers has queries and keys.$"),
        ({"model_type": "deepseek_v4"}, "does: it rotates the last `qk_rope_head_dim` features"),
        ({"model_type": "inkling_text"}, "does: a learned bias of the distance of tokens"),
        ({"model_type": "unlimited_ocr_text"}, "does: its queries see the full prompt and a"),
        ({"model_type": "dbrx"}, r"does: it was not compared\. Make an `AttentionLayer` for each"),
        (
            {"model_type": "llama", "layer_types": ["sliding_attention"] * 4},
            "`layer_types` must be left out for the model type .*, got 'sliding_attention'.* Pass",
        ),
        (
            {"model_type": "olmo3", "layer_types": ["linear_attention"] * 4},
            r"has, \['full_attention', 'sliding_attention'\], got 'linear_attention'.* Pass",
        ),
        ({"model_type": "kimi_linear"}, "the configuration must have 'layer_types': pass `config"),
        (
            {"model_type": "llama", "num_key_value_heads": 3},
            "`num_attention_heads` must be a multiple of `num_key_value_heads` = 3, got 4",
        ),
        (
            {"model_type": "gpt2", "scale_attn_weights": False},
            "`scale_attn_weights` must be True, with which the model type 'gpt2' was compared, g",
        ),
    ],
)
def test_attention_that_is_not_known_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        pe.attention_layers(SIZES | {"max_position_embeddings": 64} | config)
