"""Keys of configurations: read as transformers reads them, or refused by name."""

import re

import pytest

from positional_embeddings import NTKScaling, RoPE, YaRNScaling, attention_layers
from positional_embeddings.models.facts import OWN_KEYS, facts_of, models

HEAD = {"head_dim": 64, "max_position_embeddings": 8192}
LLAMA = HEAD | {"model_type": "llama", "num_hidden_layers": 2}


def of_type(model_type):
    """Return the configuration of a model of two layers, with the keys that its type reads."""
    own = {} if "head_dim" in facts_of(model_type).reads else {"head_dim"}
    return {key: x for key, x in LLAMA.items() if key not in own} | {"model_type": model_type}


def layers(config, **options):
    return RoPE.layers_from_hf_config(config, **options)


def test_rotation_that_a_configuration_switches_off():
    zamba2 = HEAD | {"model_type": "zamba2", "num_hidden_layers": 2}
    for off in ({}, {"use_mem_rope": False}):
        assert layers(zamba2 | off, layout="half") == [None, None]
        with pytest.raises(ValueError, match="'zamba2' does: its configuration switches"):
            RoPE.from_hf_config(zamba2 | off, layout="half")
    assert layers(zamba2 | {"use_mem_rope": True}, layout="half") == [RoPE(64, 8192)] * 2
    nomic = HEAD | {"model_type": "nomic_bert", "num_hidden_layers": 2}
    assert layers(nomic | {"rotary_emb_fraction": 0}) == [None, None]
    assert layers(nomic | {"rotary_emb_fraction": 1.0}) == layers(nomic)
    with pytest.raises(ValueError, match="for 'nomic_bert', which rotates all features"):
        layers(nomic | {"rotary_emb_fraction": 0.5})
    assert layers(LLAMA | {"use_rotary_pos_emb": False}) == [None, None]
    assert layers(LLAMA | {"use_rotary_pos_emb": True}) == [RoPE(64, 8192)] * 2


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "dbrx", "attn_config": {"rope_theta": 500_000}}, "attn_config.rope_theta"),
        *[(LLAMA | {"rope_percent": value}, "rope_percent") for value in (0, None, False, 0.5)],
        *[(LLAMA | {"use_rotary": value}, "use_rotary") for value in (False, None)],
        *[(LLAMA | {"use_dynamic_ntk": value}, "use_dynamic_ntk") for value in (False, True)],
    ],
)
def test_rotary_keys_are_refused_whatever_their_value(config, key):
    with pytest.raises(ValueError, match=f"`{key}` is not known of the model type .* its rotation"):
        RoPE.from_hf_config(HEAD | config, layout="half")


@pytest.mark.parametrize(
    "key",
    [
        *("use_alibi", "position_bias", "window_size", "attention_sink_size", "attn_scale"),
        *("score_softcap", "use_logn_attn", "mscale", "interleaved_heads", "n_head"),
        *("attention_multiplier", "query_pre_attn_scalar", "attn_temperature_tuning"),
        *("attention_chunk_size", "num_kv_heads", "n_head_kv", "multi_query", "floor_scale"),
        *("logits_soft_cap", "v_head_dim", "num_heads", "apply_query_key_layer_scaling"),
        *("index_topk", "relative_attention", "attn_type", "mla_use_nope", "head_dim_of_keys"),
    ],
)
@pytest.mark.parametrize("value", [0, None, False, 4])
def test_keys_that_could_mean_attention_are_refused_whatever_their_value(key, value):
    with pytest.raises(ValueError, match=f"`{key}` is not known of the model type 'llama', got"):
        attention_layers(LLAMA | {"num_attention_heads": 2, key: value})


@pytest.mark.parametrize("key", OWN_KEYS)
@pytest.mark.parametrize("value", [0, None, False, [1, 0]])
def test_keys_that_other_types_read_are_refused_whatever_their_value(key, value):
    config = of_type("codegen" if key == "head_dim" else "llama") | {key: value}
    for function in (layers, attention_layers, RoPE.from_hf_config):
        with pytest.raises(ValueError, match=f"^`{key}` is not known of the model type"):
            function(config)


@pytest.mark.parametrize("model_type", ["bert", "deepseek_v3", "gpt2", "nomic_bert"])
def test_heads_of_keys_that_no_code_reads(model_type):
    config = of_type(model_type) | {"num_attention_heads": 4, "hidden_size": 256}
    found = attention_layers(config | {"num_key_value_heads": 4})
    assert found == attention_layers(config)
    assert found[0].num_kv_heads == found[0].num_heads
    for heads in (2, None):
        with pytest.raises(ValueError, match="`num_key_value_heads` is not known of the model"):
            attention_layers(config | {"num_key_value_heads": heads})


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("qwen2", {"is_causal": False}),
        ("gemma3_text", {"use_bidirectional_attention": True}),
        ("gemma4_text", {"use_bidirectional_attention": "all"}),
        ("bert", {"is_decoder": True}),
        ("llama", {"is_decoder": True}),
        ("qwen2_moe", {"use_sliding_window": True, "max_window_layers": 28}),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 3}),
        ("modernbert-decoder", {"local_attention": 6}),
        ("mpt", {"attn_config": {"alibi": False}}),
    ],
)
def test_keys_that_change_what_a_query_sees(model_type, given):
    config = of_type(model_type)
    key, value = next(iter(given.items()))
    if isinstance(value, dict):
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    with pytest.raises(ValueError, match=rf"^`{key}` .*, got {re.escape(repr(value))}[.:] "):
        attention_layers(config | given)


@pytest.mark.parametrize("model_type", ["bert", "gemma3_text", "modernbert-decoder", "qwen2_moe"])
def test_the_same_keys_as_the_models_were_compared(model_type):
    keys = ("is_decoder", "use_bidirectional_attention", "local_attention", "use_sliding_window")
    settled = models()[model_type]["attention"]["settled"]
    config = of_type(model_type) | {"num_attention_heads": 4, "hidden_size": 256}
    config |= {"num_key_value_heads": 4}
    given = {key: settled[key] for key in keys if key in settled}
    assert given
    assert attention_layers(config | given) == attention_layers(config)


@pytest.mark.parametrize(
    "model_type",
    [
        "beam",
        "diffllama",
        "hunyuan_v1_dense",
        "hunyuan_v1_moe",
        "muse_spark_text",
    ],
)
def test_models_that_change_queries_or_keys_beside_the_projection(model_type):
    with pytest.raises(ValueError, match=f"no `AttentionLayer` attends as .*'{model_type}' does"):
        attention_layers(LLAMA | {"model_type": model_type})


def test_nested_keys_that_could_mean_attention():
    config = LLAMA | {"num_attention_heads": 2, "attn_config": {"sliding_window_size": 4}}
    with pytest.raises(ValueError, match=r"`attn_config\.sliding_window_size` is not known of"):
        attention_layers(config)


def test_sections_that_a_configuration_leaves_out():
    for name, sections in (("qwen3_vl_text", (24, 20, 20)), ("qwen2_vl", (16, 24, 24))):
        rope = RoPE.from_hf_config({"model_type": name, "head_dim": 128}, 100)
        assert rope.sections == sections


def test_types_of_layers():
    indexed = {"model_type": "glm_moe_dsa", "num_hidden_layers": 2, "num_attention_heads": 64}
    found = layers(indexed | {"layer_types": ["deepseek_sparse_attention"] * 2}, seq_len=9)
    assert None not in found
    assert found == layers(indexed | {"layer_types": ["indexed_attention"] * 2}, seq_len=9)
    for name in ("spiral_attention", 3, None):
        with pytest.raises(ValueError, match="`layer_types` must hold types of layers that are"):
            layers(LLAMA | {"layer_types": [name, "full_attention"]})
    flags = {"model_type": "minimax", "num_hidden_layers": 2, "attn_type_list": [0, 1]}
    assert [rope is None for rope in layers(HEAD | flags)] == [True, False]


def test_truncation_that_is_none_is_none():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    for truncate, is_truncated in ((None, False), (True, True), (False, False)):
        rope = RoPE.from_hf_config(LLAMA | {"rope_scaling": yarn | {"truncate": truncate}})
        assert rope.scaling == YaRNScaling(4.0, 2048, truncate=is_truncated)


@pytest.mark.parametrize(
    ("model_type", "given", "key"),
    [
        ("gpt_oss", {"rope_parameters": {}}, "rope_parameters"),
        ("gpt_neox", {"partial_rotary_factor": 1.0}, "partial_rotary_factor"),
        *[(name, {"rotary_pct": 0.4}, "rotary_pct") for name in ("stablelm", "glm4", "phi3")],
        ("persimmon", {"rotary_pct": 0.4}, "rotary_pct"),
    ],
)
def test_keys_that_transformers_does_not_read(model_type, given, key):
    config = HEAD | {"model_type": model_type, "num_hidden_layers": 2} | given
    with pytest.raises(ValueError, match=f"`{key}` must (hold parameters, or )?be left out"):
        RoPE.from_hf_config(config)


@pytest.mark.parametrize("model_type", ["gptj", "codegen", "esm", "recurrent_gemma"])
def test_scalings_that_the_code_of_a_model_does_not_have(model_type):
    config = of_type(model_type) | {"num_attention_heads": 4, "hidden_size": 1024}
    config |= {"rope_scaling": {"type": "linear", "factor": 2.0}}
    config |= {"position_embedding_type": "rotary"} if model_type == "esm" else {}
    with pytest.raises(ValueError, match=r"`type` must be one of \['default', 'mrope'\], got 'lin"):
        RoPE.from_hf_config(config)


def test_an_original_length_inside_the_parameters_alone():
    factors = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    inner = {"rope_type": "longrope", "original_max_position_embeddings": 1024} | factors
    rope = RoPE.from_hf_config(HEAD | {"model_type": "phi3", "rope_scaling": inner}, 8192)
    assert rope.scaling.original_max_position == 4096  # the default of its class counts
    rope = RoPE.from_hf_config(LLAMA | {"rope_scaling": inner}, 8192)
    assert rope.scaling.original_max_position == 1024


def test_published_keys_are_read():
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32, "rope_type": "longrope"}
    lists |= {"original_max_position_embeddings": 1024, "short_mscale": 1.2, "long_mscale": 1.3}
    phimoe = HEAD | {"model_type": "phimoe", "rope_scaling": lists}
    assert RoPE.from_hf_config(phimoe, 1024).attention_factor == 1.2
    assert RoPE.from_hf_config(phimoe, 1025).attention_factor == 1.3
    glm = {"model_type": "glm_moe_dsa", "indexer_rope_interleave": True, "num_hidden_layers": 2}
    assert RoPE.from_hf_config(glm, 9) == RoPE.from_hf_config({"model_type": "glm_moe_dsa"}, 9)
    mimo = {"model_type": "mimo_v2_flash", "swa_rope_theta": 20_000, "num_hidden_layers": 2}
    mimo |= {"layer_types": ["full_attention", "sliding_attention"]}
    assert [rope.base for rope in layers(mimo)] == [5e6, 2e4]
    alpha = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1}
    hunyuan = HEAD | {"model_type": "hunyuan_v1_dense", "rope_scaling": alpha}
    rope = RoPE.from_hf_config(hunyuan)
    assert rope.scaling == NTKScaling(1000.0)
    enlarged = RoPE(64, 8192, 10_000 * 1000.0 ** (64 / 62))
    assert abs(rope.inv_freq / enlarged.inv_freq - 1).max() < 1e-12


def test_published_keys_of_types_with_the_code_of_another():
    """Exaone's layers are counted by `num_layers`; the YaRN of Sarvam has a name of its own."""
    exaone = {"model_type": "exaone", "num_attention_heads": 4, "head_dim": 64}
    assert len(layers(exaone | {"num_layers": 3})) == 3
    assert len(layers(exaone | {"num_hidden_layers": 3})) == 3
    sizes = {"model_type": "sarvam_mla", "num_hidden_layers": 2}
    yarn = {"factor": 40.0, "original_max_position_embeddings": 4096, "mscale_all_dim": 1.0}
    published = sizes | {"head_dim": 576, "q_head_dim": 192}
    published |= {"rope_scaling": {"type": "deepseek_yarn"} | yarn}
    usual = sizes | {"rope_scaling": {"type": "yarn"} | yarn}
    assert layers(published) == layers(usual)
    assert attention_layers(published) == attention_layers(usual)
    [layer, _] = attention_layers(published)
    assert (layer.head_size, layer.rope.head_size, layer.value_size) == (192, 64, 128)


def test_the_layout_that_a_configuration_says():
    assert RoPE.from_hf_config(LLAMA | {"rope_interleaved": False}).layout == "half"
    with pytest.raises(ValueError, match="`rope_interleaved` must agree with the layout of the"):
        RoPE.from_hf_config(LLAMA | {"rope_interleaved": True})


def test_rotary_keys_of_a_type_that_does_not_rotate():
    config = HEAD | {"model_type": "xlm-roberta", "rotary_emb_base": 10_000}
    reason = r"transformers does not rotate, but code that reads \['rotary_emb_base'\] may"
    with pytest.raises(ValueError, match=reason):
        RoPE.from_hf_config(config)


def test_architectures_are_named():
    for name in ({}, {"model_type": "my_model"}):
        with pytest.raises(ValueError, match=r"its architectures are \['LlamaForCausalLM'\]"):
            RoPE.from_hf_config(HEAD | name | {"architectures": ["LlamaForCausalLM"]})


@pytest.mark.parametrize("count", [10**7, 10**30])
def test_numbers_of_layers_are_bounded(count):
    for function in (layers, attention_layers, RoPE.from_hf_config):
        with pytest.raises(ValueError, match=r"`num_hidden_layers` must be at most 2\*\*20"):
            function(LLAMA | {"num_attention_heads": 2, "num_hidden_layers": count})


@pytest.mark.parametrize("own", [3, [1], {"a": {}}, {"0": 3}, "x"])
def test_sizes_of_layers_of_wrong_kinds(own):
    with pytest.raises(TypeError, match="`per_layer_config` must be a dict from numbers of"):
        layers(LLAMA | {"per_layer_config": own})
