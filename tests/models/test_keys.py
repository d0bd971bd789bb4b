"""Keys of configurations: read as transformers reads them, or refused by name."""

import re

import pytest

from positional_embeddings import NTKScaling, RoPE, YaRNScaling, attention_layers
from positional_embeddings.models.configuration import read_config
from positional_embeddings.models.model_types import get_model_type, models

HEAD = {"head_dim": 64, "max_position_embeddings": 8192}
LLAMA = HEAD | {"model_type": "llama", "num_hidden_layers": 2}


def of_type(model_type):
    """Return the configuration of a model of two layers, with the keys that its type reads."""
    unread = {} if "head_dim" in get_model_type(model_type).reads else {"head_dim"}
    return {key: x for key, x in LLAMA.items() if key not in unread} | {"model_type": model_type}


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
    with pytest.raises(ValueError, match="`rotary_emb_fraction` must be true or false, got 0"):
        layers(nomic | {"rotary_emb_fraction": 0.5})
    esm = of_type("esm") | {"position_embedding_type": None}
    with pytest.raises(ValueError, match="'esm' does: it has no positions, so leave its queries"):
        layers(esm)
    ours = LLAMA | {"model_type": "ours"}
    assert layers(ours | {"use_rotary_pos_emb": False}, layout="half") == [None, None]
    assert layers(ours | {"use_rotary_pos_emb": True}, layout="half") == [RoPE(64, 8192)] * 2


# Keys of published files, with values that would have an effect.
PUBLISHED = {
    "alibi": True,
    "attention_multiplier": 0.1,
    "attention_sink_size": 4,
    "attn_config": {"sliding_window_size": 4, "rope_theta": 9},
    "global_head_dim": 16,
    "index_topk": 4,
    "is_decoder": True,
    "kv_channels": 32,
    "layer_rope_theta": [1.0, 2.0],
    "max_window_layers": 28,
    "multi_query": True,
    "n_head": 3,
    "no_rope_layer_interval": 2,
    "no_rope_layers": [0, 1],
    "num_attention_heads_per_layer": [2, 2],
    "num_heads": 16,
    "position_embedding_type": "absolute",
    "qk_rope_head_dim": 16,
    "rope_interleave": True,
    "rope_percent": 0.5,
    "rotary_dim": 8,
    "rotary_emb_interleaved": False,
    "rotary_pct": 0.4,
    "scale_attention_softmax_in_fp32": True,
    "scale_attn_weights": False,
    "sliding_window_size": 4096,
    "swa_head_dim": 32,
    "use_alibi": True,
    "use_dynamic_ntk": True,
    "use_rotary": False,
    "use_rotary_pos_emb": False,
    "use_sliding_window": False,
}


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen3"])
def test_keys_that_no_code_of_a_type_names_turn_nothing(model_type):
    config = LLAMA | {"model_type": model_type, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2}
    read = ("max_window_layers", "use_sliding_window") if model_type == "qwen3" else ()
    values = {key: value for key, value in PUBLISHED.items() if key not in read}
    for function in (attention_layers, layers, RoPE.from_hf_config):
        assert function(config | values) == function(config)


def test_sizes_that_no_code_of_a_type_names():
    codegen = {"model_type": "codegen", "num_hidden_layers": 2}
    assert layers(codegen | {"head_dim": 16}) == layers(codegen)
    for model_type in ("bert", "gpt2", "nomic_bert"):
        config = of_type(model_type) | {"num_attention_heads": 4, "hidden_size": 256}
        for heads in (4, 2, None):
            actual = attention_layers(config | {"num_key_value_heads": heads})
            assert actual == attention_layers(config)
            assert actual[0].num_kv_heads == actual[0].num_heads


def test_heads_of_keys_that_the_code_needs_to_be_those_of_queries():
    config = of_type("deepseek_v3") | {"num_attention_heads": 4, "hidden_size": 256}
    assert attention_layers(config | {"num_key_value_heads": 4}) == attention_layers(config)
    with pytest.raises(ValueError, match="`num_key_value_heads` must be 4, with which the model"):
        attention_layers(config | {"num_key_value_heads": 2})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("rope_percent", value) for value in (0, True, 0.5)],
        *[(key, False) for key in ("use_rotary", "rope", "rotary_emb", "use_rope")],
        *[("use_dynamic_ntk", value) for value in (True, 1)],
        ("original_rope", True),
        ("use_mrope", True),
        ("rope_interleaved", True),
    ],
)
def test_rotary_keys_of_a_type_that_is_not_known(key, value):
    config = LLAMA | {"model_type": "ours"}
    for function in (layers, RoPE.from_hf_config):
        with pytest.raises(ValueError, match=f"`{key}` is not known of the model type 'ours', got"):
            function(config | {key: value}, layout="half")


def test_values_that_switch_nothing_on():
    config = LLAMA | {"model_type": "ours"}
    off = dict.fromkeys(("rope_percent", "use_rotary", "use_dynamic_ntk"))
    off |= dict.fromkeys(("use_mrope", "rotary_emb_interleaved", "use_logn_attn"), False)
    off |= dict.fromkeys(("rotary", "use_rope", "apply_rotary_emb"), True)
    assert layers(config | off, layout="half") == layers(config, layout="half")
    for model_type, values in (
        ("gemma3_text", {"use_bidirectional_attention": None, "attn_logit_softcapping": False}),
        ("smollm3", {"use_sliding_window": None, "sliding_window": None, "is_causal": True}),
    ):
        config = of_type(model_type)
        assert attention_layers(config | values) == attention_layers(config)


@pytest.mark.parametrize(
    ("model_type", "values"),
    [
        ("qwen2", {"is_causal": False}),
        ("gemma4_text", {"is_causal": False}),
        ("gemma3_text", {"attn_logit_softcapping": 30.0}),
        ("gemma4_text", {"use_bidirectional_attention": "all"}),
        ("gemma4_text", {"use_bidirectional_attention": "vision"}),
        ("gemma4_unified_text", {"use_bidirectional_attention": "all"}),
        ("bert", {"is_decoder": True}),
        ("qwen2_moe", {"use_sliding_window": True, "max_window_layers": 28}),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 3}),
        ("modernbert-decoder", {"local_attention": 6}),
        ("mpt", {"attn_config": {"alibi": False}}),
        ("gpt2", {"scale_attn_weights": False}),
        ("gpt2", {"scale_attn_weights": None}),
    ],
)
def test_keys_that_change_what_a_query_sees(model_type, values):
    config = of_type(model_type)
    key, value = next(iter(values.items()))
    if isinstance(value, dict):
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    with pytest.raises(ValueError, match=rf"^`{key}` must be .*, got {re.escape(repr(value))}\. "):
        attention_layers(config | values)


@pytest.mark.parametrize("model_type", ["bert", "gemma4_text", "modernbert-decoder", "qwen2_moe"])
def test_the_same_keys_as_the_models_were_compared(model_type):
    keys = ("is_decoder", "use_bidirectional_attention", "local_attention", "use_sliding_window")
    named = models()[model_type]["named"]
    config = of_type(model_type) | {"num_attention_heads": 4, "hidden_size": 256}
    config |= {"num_key_value_heads": 4}
    values = {key: named[key] for key in keys if key in named}
    assert values
    assert attention_layers(config | values) == attention_layers(config)


def test_rotary_keys_that_the_code_names():
    config = HEAD | {"model_type": "dbrx", "num_hidden_layers": 2}
    with pytest.raises(
        ValueError, match=r"^`attn_config\.rope_theta` must be None, with which the"
    ):
        layers(config | {"attn_config": {"rope_theta": 500_000}}, layout="half")


def test_a_vision_of_gemma_4_has_a_way_on():
    text = {"model_type": "gemma4_text", "num_hidden_layers": 6, "attention_k_eq_v": True}
    text |= {"global_head_dim": 512, "head_dim": 256, "num_key_value_heads": 16}
    text |= {"num_global_key_value_heads": 4, "num_attention_heads": 32}
    config = {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"]}
    seen = {"use_bidirectional_attention": "vision"}
    with pytest.raises(ValueError, match=r"pass `text_config \| {'use_bidirectional_attention'"):
        attention_layers(config | {"text_config": text | seen})
    for values in (config | {"text_config": text}, text | seen | dict.fromkeys(seen)):
        actual = attention_layers(values)
        assert [(x.num_kv_heads, x.head_size) for x in actual] == [(16, 256)] * 5 + [(4, 512)]
    assert [x.head_size for x in layers(config | {"text_config": text | seen})] == [256] * 5 + [512]


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
    with pytest.raises(ValueError, match=f"No `AttentionLayer` attends as .*'{model_type}' does"):
        attention_layers(LLAMA | {"model_type": model_type})


def test_sections_that_a_configuration_leaves_out():
    for name, sections in (("qwen3_vl_text", (24, 20, 20)), ("qwen2_vl", (16, 24, 24))):
        rope = RoPE.from_hf_config({"model_type": name, "head_dim": 128}, 100)
        assert rope.sections == sections


def test_types_of_layers():
    indexed = {"model_type": "glm_moe_dsa", "num_hidden_layers": 2, "num_attention_heads": 64}
    actual = layers(indexed | {"layer_types": ["deepseek_sparse_attention"] * 2}, seq_len=9)
    assert None not in actual
    assert actual == layers(indexed | {"layer_types": ["indexed_attention"] * 2}, seq_len=9)
    for model_type in ("llama", "my_model"):
        config = LLAMA | {"model_type": model_type, "layer_types": ["indexed_attention"] * 2}
        message = f"whether the model type {model_type!r} rotates them"
        with pytest.raises(ValueError, match=message):
            layers(config, layout="half")
    qwen4 = {"model_type": "qwen4_exp_text", "num_hidden_layers": 4}
    assert [rope is None for rope in layers(qwen4, layout="half")] == [True, True, True, False]
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


def test_parameters_that_are_given_without_any():
    config = HEAD | {"model_type": "gpt_oss", "rope_parameters": {}}
    with pytest.raises(ValueError, match="`rope_parameters` must hold parameters, or be left out"):
        RoPE.from_hf_config(config)


@pytest.mark.parametrize("model_type", ["gpt_neox", "glm4", "phi3", "persimmon"])
def test_shares_by_keys_that_a_type_does_not_read(model_type):
    """Each type has the share in one of two keys."""
    other = "partial_rotary_factor" if model_type == "gpt_neox" else "rotary_pct"
    config = HEAD | {"model_type": model_type, "num_hidden_layers": 2}
    assert layers(config | {other: 0.5}) == layers(config)


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


@pytest.mark.parametrize("overrides", [3, [1], {"a": {}}, {"0": 3}, "x"])
def test_sizes_of_layers_of_wrong_kinds(overrides):
    with pytest.raises(TypeError, match="`per_layer_config` must be a dict from numbers of"):
        layers(LLAMA | {"per_layer_config": overrides})


def test_classes_that_are_not_of_the_type():
    qwen = LLAMA | {"model_type": "qwen3"}
    for functions in (layers, attention_layers, RoPE.from_hf_config):
        for name in ("DFlashDraftModel", "LlamaForCausalLM"):
            message = f"`architectures` must be classes of the model type 'qwen3', .*'{name}'.* wit"
            with pytest.raises(ValueError, match=message):
                functions(qwen | {"architectures": [name]})
        for names in (None, [], ["Qwen3ForCausalLM"]):
            assert functions(qwen | {"architectures": names}) == functions(qwen)
    with pytest.raises(
        TypeError, match="`architectures` must be a list of names of classes, got 3"
    ):
        layers(qwen | {"architectures": 3})
    for model_type, name in (
        ("llama", "LlamaForCausalLMEagle3"),
        ("kimi_k2", "DeepseekV3ForCausalLM"),
        ("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"),
        ("gemma3_text", "Gemma3ForCausalLM"),
        ("xlm-roberta-xl", "XLMRobertaXLModel"),
        ("exaone", "ExaoneForCausalLM"),
    ):
        read_config({"model_type": model_type, "architectures": [name]})
    text = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    whole = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
    assert "architectures" not in read_config(whole | {"text_config": text})
    for wrong in ({"architectures": ["X"]}, {"text_config": text | {"architectures": ["X"]}}):
        with pytest.raises(ValueError, match="`architectures` must be classes of the model type"):
            read_config(whole | {"text_config": text} | wrong)


def test_sizes_by_the_names_of_another_format():
    bloom = {"model_type": "bloom", "num_layers": 24, "n_head": 16, "hidden_dim": 1024}
    message = (
        "the configuration has ['num_layers', 'hidden_dim'], which are no keys of the model type "
        "'bloom': it must have 'num_hidden_layers' or 'n_layer', 'hidden_size' or 'n_embed'."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        attention_layers(bloom)
    sizes = {"n_layer": 24, "hidden_size": 1024}
    [first, *remainder] = attention_layers(bloom | sizes)
    assert (first.num_heads, first.head_size, len(remainder)) == (16, 64, 23)
    with pytest.raises(ValueError, match=r"has \['n_head'\], which are .* 'num_attention_heads'\."):
        layers({"model_type": "llama", "n_head": 16})


def test_a_share_of_features_of_which_all_rotate():
    config = {"model_type": "bailing_moe_v2_5", "qk_rope_head_dim": 64, "num_hidden_layers": 1}
    config |= {"max_position_embeddings": 8192}
    for values, actual in (({"partial_rotary_factor": 0.5}, 0.5), ({"rotary_dim": 32}, 32)):
        [key] = values
        message = (
            f"`{key}` must be left out beside `qk_rope_head_dim` = 64, .*, got {actual}.* pass rot"
        )
        with pytest.raises(ValueError, match=message):
            layers(config | values, layout="half")
    assert layers(config, layout="half") == [RoPE(64, 8192)]
    assert layers(config, layout="half", rotary_dim=32) == [RoPE(64, 8192, rotary_dim=32)]


@pytest.mark.parametrize("model_type", ["gemma3_text", "olmo3", "gemma4_text"])
def test_one_dict_of_rotary_parameters_for_types_of_layers_that_differ(model_type):
    flat = {"rope_type": "linear", "factor": 8, "rope_theta": 7777}
    config = {"model_type": model_type, "num_hidden_layers": 6}
    keys = ("rope_parameters",) + ("rope_scaling",) * (model_type == "gemma4_text")
    for key in keys:
        with pytest.raises(ValueError, match=f"`{key}` must hold a dict for each of .'full_attent"):
            layers(config | {key: flat})
