"""Configurations of Hugging Face that are read, and that are refused.

`test_model_types.py` compares every model of transformers with its own code.
"""

import json
import math
import re

import numpy as np
import pytest

from positional_embeddings import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    RoPE,
    YaRNScaling,
    grid_positions,
)
from positional_embeddings.models.model_types import get_model_type

SIZES = {"head_dim": 64, "max_position_embeddings": 8192}
LLAMA = {"model_type": "llama"} | SIZES


@pytest.mark.parametrize(
    ("model_type", "layout"),
    [
        ("llama", "half"),
        ("qwen2_5_vl", "half"),
        ("deepseek_v3", "interleaved"),
        ("ernie4_5", "interleaved"),
        ("ernie4_5_moe", "interleaved"),
        ("helium", "interleaved"),
        ("glm_ocr_text", "interleaved"),
        ("glm4v_text", "interleaved"),
        ("openai_privacy_filter", "interleaved"),
        ("pe_audio_encoder", "interleaved"),
        ("longcat_flash", "interleaved"),
        ("glm_moe_dsa", "interleaved"),
        ("bailing_hybrid", "interleaved"),
    ],
)
def test_layouts(model_type, layout):
    config = SIZES | {"model_type": model_type, "rope_theta": 1e4}
    config["rope_parameters"] = {"rope_type": "default"}
    expected = RoPE(64, 8192, 1e4, layout=layout)
    description = get_model_type(get_model_type(model_type).text or model_type)
    config |= {"qk_rope_head_dim": 64} if "qk_rope_head_dim" in description.reads else {}
    if description.mrope_section:
        config["rope_parameters"] |= {"mrope_section": [8, 12, 12]}
        order = {"sections": (8, 12, 12), "section_order": "contiguous"}
        expected = RoPE(64, 8192, 1e4, layout=layout, **order)
    if model_type == "glm4v_text":
        config |= {"partial_rotary_factor": 0.5}
        config["rope_parameters"] |= {"mrope_section": [8, 4, 4]}
        expected = RoPE(64, 8192, 1e4, rotary_dim=32, layout=layout, sections=(8, 4, 4))
    assert RoPE.from_hf_config(config) == expected
    # The text model has priority.
    assert RoPE.from_hf_config({"model_type": "any", "text_config": config}) == expected


def test_shares_that_a_model_does_not_read_are_refused():
    """Llama's code rotates all features, for any configuration."""
    assert RoPE.from_hf_config(LLAMA | {"rope_pct": 0.25, "rotary_dim": 32}) == RoPE(64, 8192)
    with pytest.raises(ValueError, match="must be left out for 'llama', which rotates all"):
        RoPE.from_hf_config(LLAMA | {"partial_rotary_factor": 0.5})
    parameters = {"rope_parameters": {"partial_rotary_factor": 1.0}}
    assert RoPE.from_hf_config(LLAMA | parameters) == RoPE(64, 8192)
    phi = LLAMA | {"model_type": "phi3", "partial_rotary_factor": 0.75}
    assert RoPE.from_hf_config(phi) == RoPE(64, 8192, rotary_dim=48)
    ours = LLAMA | {"model_type": "ours", "rotary_dim": 32}
    assert RoPE.from_hf_config(ours, layout="half") == RoPE(64, 8192, rotary_dim=32)


@pytest.mark.parametrize("model_type", ["gpt2", "opt", "whisper", "bert"])
def test_models_without_rotation(model_type):
    config = SIZES | {"model_type": model_type}
    for options in ({}, {"layout": "half"}):
        with pytest.raises(ValueError, match=f"'{model_type}' does: it has no rotary positions"):
            RoPE.from_hf_config(config, **options)


@pytest.mark.parametrize("values", [{}, {"model_type": None}, {"model_type": "my_model"}])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_unknown_models_need_a_layout(values, layout):
    assert RoPE.from_hf_config(SIZES | values, layout=layout) == RoPE(64, 8192, layout=layout)
    assert RoPE.from_hf_config(LLAMA, layout=None) == RoPE(64, 8192)
    with pytest.raises(ValueError, match="is not known: pass layout='half' or layout='interl"):
        RoPE.from_hf_config(SIZES | values)


@pytest.mark.parametrize(
    ("model_type", "advice"),
    [
        ("deepseek_v32", "layout='interleaved' for its attention, layout='half' for its indexer"),
        ("axk2", "layout='interleaved' for its attention, layout='half' for its indexer"),
        ("nanochat", r"pass layout='half', and rotate by `rope\(x, inverse=True\)`"),
    ],
)
def test_models_of_more_than_a_layout(model_type, advice):
    with pytest.raises(ValueError, match=advice):
        RoPE.from_hf_config(SIZES | {"model_type": model_type})


def test_a_configuration_of_several_models_names_its_parts():
    config = {"model_type": "pair", "one": LLAMA, "two": LLAMA, "size": {"width": 3}}
    with pytest.raises(ValueError, match=r"or one of its parts, of \['one', 'two'\]"):
        RoPE.from_hf_config(config)


def test_the_flag_decides_where_the_model_reads_it():
    config = SIZES | {
        "model_type": "deepseek_v3",
        "qk_rope_head_dim": 64,
        "rope_interleave": False,
    }
    assert RoPE.from_hf_config(config).layout == "half"
    assert RoPE.from_hf_config(config | {"rope_interleave": True}).layout == "interleaved"
    assert RoPE.from_hf_config(LLAMA | {"rope_interleave": True}).layout == "half"
    with pytest.raises(TypeError, match="`rope_interleave` must be True, False or None, got 'no'"):
        RoPE.from_hf_config(config | {"rope_interleave": "no"})


def test_dynamic_starts_from_the_longest_context():
    """As in transformers, an original length is ignored."""
    parameters = {
        "rope_type": "dynamic",
        "factor": 8.0,
        "original_max_position_embeddings": 512,
    }
    config = LLAMA | {"rope_scaling": parameters}
    rope = RoPE.from_hf_config(config)
    assert rope.scaling == DynamicNTKScaling(8.0, 8192)
    assert rope.inv_freq[-1] == pytest.approx(1.3335e-4, rel=1e-4)
    assert RoPE.from_hf_config(config | {"original_max_position_embeddings": 512}) == rope


@pytest.mark.parametrize(
    ("parameters", "scaling"),
    [
        ({"rope_type": "yarn", "factor": 4.0}, YaRNScaling(4.0, 1024)),
        (
            {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
            Llama3Scaling(4.0, 1.0, 4.0, 1024),
        ),
        (
            {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32},
            LongRoPEScaling([1.0] * 32, [2.0] * 32, 1024, factor=8.0),
        ),
    ],
)
def test_the_outer_original_length_wins(parameters, scaling):
    nested = parameters | {"original_max_position_embeddings": 2048}
    config = LLAMA | {"original_max_position_embeddings": 1024}
    assert RoPE.from_hf_config(config | {"rope_parameters": nested}, 9).scaling == scaling
    assert RoPE.from_hf_config(config | {"rope_parameters": parameters}, 9).scaling == scaling


def test_without_an_original_length_it_is_the_longest_context():
    config = LLAMA | {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}
    assert RoPE.from_hf_config(config).scaling == YaRNScaling(4.0, 8192)


def test_the_original_length_of_layers_is_their_own():
    parameters = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    config = LLAMA | {
        "original_max_position_embeddings": 1024,
        "rope_parameters": {"full_attention": parameters},
    }
    rope = RoPE.from_hf_config(config, layer_type="full_attention")
    assert rope.scaling == YaRNScaling(4.0, 2048)


def test_rope_scaling_comes_before_rope_parameters():
    config = LLAMA | {
        "rope_scaling": {"rope_type": "default", "rope_theta": 7.0},
        "rope_parameters": {"rope_type": "default", "rope_theta": 9.0},
    }
    assert RoPE.from_hf_config(config).base == 7


@pytest.mark.parametrize("values", [{}, {"layer_types": ["sliding_attention", "full_attention"]}])
@pytest.mark.parametrize("layer_type", [None, "full_attention", "sliding_attention"])
def test_one_type_of_parameters_is_that_of_all_layers(values, layer_type):
    config = {"model_type": "qwen2"} | SIZES | values
    assert RoPE.from_hf_config(config, layer_type=layer_type) == RoPE(64, 8192)


def test_layers_that_do_not_rotate():
    config = SIZES | {
        "model_type": "cohere2",
        "rope_theta": 5e4,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    expected = RoPE(64, 8192, 5e4, layout="interleaved")
    assert RoPE.from_hf_config(config, layer_type="sliding_attention") == expected
    assert RoPE.layers_from_hf_config(config | {"num_hidden_layers": 2}) == [expected, None]
    with pytest.raises(ValueError, match=r"must be None or one of \['sliding_attention'\]"):
        RoPE.from_hf_config(config, layer_type="full_attention")
    with pytest.raises(
        ValueError, match=r"'cohere2' differ: call `RoPE.layers_from_hf_config`, or"
    ):
        RoPE.from_hf_config(config)
    config["layer_types"] = ["linear_attention", "full_attention"]
    with pytest.raises(ValueError, match=r"of the model type 'cohere2' differ"):
        RoPE.from_hf_config(config)


def test_all_layers_rotate_where_none_has_a_window():
    """EXAONE 4: layers of full attention do not, if others have a sliding window."""
    config = SIZES | {"model_type": "exaone4", "layer_types": ["full_attention"] * 2}
    config |= {"rope_theta": 1e6, "sliding_window": None, "num_hidden_layers": 2}
    rope = RoPE(64, 8192, 1e6)
    assert RoPE.from_hf_config(config) == rope
    assert RoPE.layers_from_hf_config(config) == [rope, rope]
    with pytest.raises(ValueError, match="differ: call"):
        RoPE.from_hf_config(config | {"sliding_window": 4096})


def test_layers_are_those_of_the_period():
    config = {"model_type": "gemma3_text", "num_hidden_layers": 8}
    for period in (6, 3):
        ropes = RoPE.layers_from_hf_config(config | {"sliding_window_pattern": period}, 99)
        bases = [1e6 if (i + 1) % period == 0 else 1e4 for i in range(8)]
        assert [rope.base for rope in ropes] == bases
        assert len(set(map(id, ropes))) == 2  # equal layers share one
    with pytest.raises(ValueError, match="`sliding_window_pattern` must be a positive integer"):
        RoPE.layers_from_hf_config(config | {"sliding_window_pattern": 0})
    # The last layer of Gemma 4 sees the whole sequence, with larger heads.
    ropes = RoPE.layers_from_hf_config({"model_type": "gemma4_text", "num_hidden_layers": 8})
    assert [rope.head_size for rope in ropes] == [256] * 5 + [512, 256, 512]


def test_a_type_of_layers_helps_only_if_all_of_it_rotate():
    for config, advice in (
        ({"model_type": "smollm3"}, "`"),
        ({"model_type": "llama4_text"}, "`, or pass as `layer_type` one of ['chunked_attention']"),
    ):
        message = f"differ: call `RoPE.layers_from_hf_config{advice}."
        with pytest.raises(ValueError, match=re.escape(message)):
            RoPE.from_hf_config(config, 9)


def test_layers_by_their_lists():
    config = LLAMA | {"num_hidden_layers": 3, "model_type": "smollm3", "rope_theta": 1e4}
    rope = RoPE(64, 8192)
    assert RoPE.layers_from_hf_config(config | {"no_rope_layers": [1, 0, 1]}) == [rope, None, rope]
    assert RoPE.layers_from_hf_config(config | {"no_rope_layer_interval": 2})[1] is None
    assert RoPE.from_hf_config(config | {"no_rope_layers": [1, 1]}) == rope
    with pytest.raises(ValueError, match="the lists of layers must have 3 entries"):
        RoPE.layers_from_hf_config(config | {"no_rope_layers": [1, 0]})
    bases = {"layer_rope_theta": [5e5, 0, 1e4]}
    expected = [RoPE(64, 8192, 5e5), None, rope]
    for name in ("granite_swa", "ours"):
        values = config | bases | {"model_type": name}
        assert RoPE.layers_from_hf_config(values, layout="half") == expected
    config = SIZES | {"num_hidden_layers": 2, "rope_parameters": {"full_attention": {"factor": 2}}}
    message = "the configuration must have 'layer_types': pass `config | {'layer_types': ...}`."
    with pytest.raises(ValueError, match=re.escape(message)):
        RoPE.layers_from_hf_config(config, layout="half")
    with pytest.raises(ValueError, match="must have 'num_hidden_layers'"):
        RoPE.layers_from_hf_config(SIZES, layout="half")


@pytest.mark.parametrize(
    ("model_type", "values"),
    [
        ("lfm2", {"full_attn_idxs": [1]}),
        ("lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
        ("bamba", {"attn_layer_indices": [1]}),
        ("minimax", {"attn_type_list": [0, 1, 0]}),
        ("bamba", {"layers_block_type": ["mamba", "attention", "mamba"]}),
        (None, {"linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1, 3]}}),
        (None, {"hybrid_override_pattern": "M*-"}),
        (None, {"block_types": ["recurrent", "attention"]}),
    ],
)
def test_lists_of_layers(model_type, values):
    config = {"model_type": model_type, "num_hidden_layers": 3, "head_dim": 80} | values
    ropes = RoPE.layers_from_hf_config(config, 9, layout="half")
    assert [rope is not None for rope in ropes] == [False, True, False]
    if "hybrid_override_pattern" in values:  # as long as the model has layers
        config = {key: x for key, x in config.items() if key != "num_hidden_layers"}
        assert RoPE.layers_from_hf_config(config, 9, layout="half") == ropes
    assert RoPE.from_hf_config(config, 9, layout="half").head_size == 80


def test_lists_of_layers_of_wrong_kinds():
    config = {"num_hidden_layers": 3, "head_dim": 80}
    for values in ({"attn_type_list": [0, 1, 2]}, {"hybrid_override_pattern": "M*x"}):
        (key,) = values
        with pytest.raises(ValueError, match=f"`{key}` must hold types of layers that are known"):
            RoPE.layers_from_hf_config(config | values, 9, layout="half")
    for values in ({"layer_types": "full"}, {"full_attn_idxs": 3}):
        (key,) = values
        with pytest.raises(TypeError, match=f"`{key}` must be a list with an entry for each"):
            RoPE.layers_from_hf_config(config | values, 9, layout="half")


def test_a_published_configuration_of_gpt_j():
    config = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28}
    config |= {"n_positions": 2048, "rotary": True, "rotary_dim": 64}
    assert RoPE.from_hf_config(config) == RoPE(256, 2048, rotary_dim=64, layout="interleaved")


def test_parts_for_images_with_the_type_of_the_whole_model():
    """Published vision configurations of Qwen3-VL have that type, of Qwen2.5-VL no type."""
    vision = {"model_type": "qwen3_vl", "depth": 27, "hidden_size": 1152, "num_heads": 16}
    axial = {"sections": (18, 18), "section_frequencies": "restart"}
    config = {"model_type": "qwen3_vl", "vision_config": vision | {"patch_size": 16}}
    assert RoPE.from_hf_config(config["vision_config"]) == RoPE(72, 1024, **axial)
    config["text_config"] = {"model_type": "qwen3_vl_text", "head_dim": 128}
    assert RoPE.from_hf_config(config, 9).head_size == 128
    with pytest.raises(ValueError, match=r"pass `config \| {'model_type': ...}` with the type of"):
        RoPE.from_hf_config({"depth": 27, "patch_size": 16})


def test_layers_of_sizes_of_their_own():
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "num_hidden_layers": 2}
    ours = SIZES | kinds | {"global_head_dim": 16, "swa_head_dim": 8}
    assert RoPE.layers_from_hf_config(ours, layout="half") == [RoPE(8, 8192), RoPE(16, 8192)]
    config = LLAMA | {"num_hidden_layers": 2, "per_layer_config": {"01": {"head_dim": 32}}}
    assert RoPE.layers_from_hf_config(config) == [RoPE(64, 8192), RoPE(32, 8192)]


def test_types_of_layers_without_parameters():
    parameters = {"sliding_attention": {"rope_theta": 7.0}, "full_attention": None}
    config = {"layer_types": list(parameters), "rope_parameters": parameters}
    config["num_hidden_layers"] = 2
    for model_type in ("beam", "ours"):
        values = SIZES | config | {"model_type": model_type}
        assert RoPE.layers_from_hf_config(values, layout="half") == [RoPE(64, 8192, 7), None]
    config["layer_types"] = ["chunked_attention"] * 2
    with pytest.raises(ValueError, match=r"must be one of \['sliding_attention'\], got 'chunked"):
        RoPE.layers_from_hf_config(SIZES | config, layout="half")


def test_longrope_needs_the_length_of_the_sequence():
    factors = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    config = LLAMA | {"rope_scaling": {"rope_type": "longrope", "factor": 2.0} | factors}
    for function in (RoPE.from_hf_config, RoPE.layers_from_hf_config):
        with pytest.raises(ValueError, match="`seq_len` must be given, as LongRoPE has other"):
            function(config)
    assert RoPE.from_hf_config(config, 99).inv_freq[1] == RoPE(64, 99).inv_freq[1]


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        ("cohere", RoPE(128, 8192, 500_000.0, layout="interleaved")),
        ("glm4", RoPE(128, 131072, rotary_dim=64, layout="interleaved")),
        ("deepseek_v3", RoPE(64, 4096, layout="interleaved")),
        ("qwen3", RoPE(128, 32768)),
        ("gptj", RoPE(256, 2048, rotary_dim=64, layout="interleaved")),
        ("gpt_oss", RoPE(64, 131072, 150_000.0, scaling=YaRNScaling(32.0, 4096, truncate=False))),
    ],
)
def test_what_is_left_out_is_the_default_of_the_model(model_type, expected):
    assert RoPE.from_hf_config({"model_type": model_type}) == expected


def test_the_text_model_of_a_configuration_without_its_type():
    assert RoPE.from_hf_config({"model_type": "qwen2_vl", "head_dim": 128}, 99).base == 1e6
    config = {"model_type": "llava", "text_config": SIZES}
    assert RoPE.from_hf_config(config) == RoPE(64, 8192)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "gemma4_vision"}, "each half of a head rotates by one coordinate"),
        ({"model_type": "inkling2_vision"}, "its first coordinate is the column"),
        ({"model_type": "deepseek_v4"}, "it rotates the last `qk_rope_head_dim` features"),
        ({"model_type": "mamba"}, "it has no attention and does not rotate"),
    ],
)
def test_what_no_rope_does_is_refused(config, reason):
    for options in ({}, {"layout": "half"}):
        with pytest.raises(ValueError, match=f"^no `RoPE` rotates as .* does: {reason}"):
            RoPE.from_hf_config(config, **options)


def test_layers_of_mlp_in_the_list_do_not_rotate():
    layers = ["sliding_attention", "mlp", "full_attention", "mlp"]
    config = {"model_type": "dory", "num_hidden_layers": 4, "layer_types": layers}
    ropes = RoPE.layers_from_hf_config(config)
    assert ropes == [RoPE(256, 8192), None, RoPE(256, 8192, 1e7), None]


def test_layers_that_are_not_extended():
    config = SIZES | {"model_type": "olmo3", "rope_theta": 5e5}
    assert RoPE.from_hf_config(config) == RoPE(64, 8192, 5e5)
    config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    full, sliding = (
        RoPE.from_hf_config(config, layer_type=name)
        for name in ("full_attention", "sliding_attention")
    )
    assert full == RoPE(64, 8192, 5e5, scaling=LinearScaling(8.0))
    assert sliding == RoPE(64, 8192, 5e5)
    with pytest.raises(ValueError, match=r"one of \['full_attention', 'sliding_attention'\]"):
        RoPE.from_hf_config(config)


def test_heads_of_another_size():
    config = {"model_type": "llama", "num_attention_heads": 4, "hidden_size": 512}
    assert RoPE.from_hf_config(config, 9) == RoPE(128, 9)
    ours = {"model_type": "ours", "kv_channels": 64}
    assert RoPE.from_hf_config(config | ours, 9, layout="half") == RoPE(64, 9)
    with pytest.raises(ValueError, match="`hidden_size` must be a multiple of `num_attention_"):
        RoPE.from_hf_config(config | {"num_attention_heads": 7}, 9)
    with pytest.raises(TypeError, match=r"`max_position_embeddings` must be a positive .*'64'"):
        RoPE.from_hf_config(config | {"max_position_embeddings": "64"}, 9)


def test_the_folder_of_a_configuration(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert RoPE.from_hf_config(tmp_path) == RoPE.from_hf_config(LLAMA)


def test_sections_take_turns_in_models_that_say_nothing():
    parameters = {"rope_theta": 5e6, "mrope_section": [24, 20, 20]}
    config = {"head_dim": 128, "rope_parameters": parameters}
    for model_type, order in (("qwen3_vl_text", "strided"), ("qwen2_vl_text", "contiguous")):
        rope = RoPE.from_hf_config(config | {"model_type": model_type}, 9)
        assert rope.section_order == order


def test_sections_of_ernie_4_5():
    """Height and width alternate, and the time has the last pairs, of the lowest frequencies."""
    axes = {"feature_axis": -1, "seq_axis": -2}
    config = {"model_type": "ernie4_5_vl_moe_text", "head_dim": 128}
    rope = RoPE.from_hf_config(config, **axes)
    parameters = {"rope_theta": 500_000.0, "rope_type": "default", "mrope_section": [22, 22, 20]}
    assert rope == RoPE.from_hf_config(config | {"rope_parameters": parameters}, **axes)
    rng = np.random.default_rng(0)
    positions, x = rng.integers(0, 90, (3, 5)), rng.standard_normal((5, 128))
    owners = [1, 2] * 22 + [0] * 20
    angles = positions[owners].T * 500_000.0 ** (-np.arange(64) / 64)
    expected = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    result = rope(x, positions=positions)
    np.testing.assert_allclose(result[:, ::2] + 1j * result[:, 1::2], expected, atol=1e-12)


def test_sections_of_an_order_that_is_not_known():
    config = {"model_type": "neomme", "layer_types": ["full_attention"], "num_hidden_layers": 1}
    parameters = {"full_attention": {"mrope_section": [2, 3, 3]}}
    with pytest.raises(ValueError, match="`mrope_section` of 'neomme' has an order"):
        RoPE.from_hf_config(config | {"rope_parameters": parameters})


def test_a_file_of_a_model_that_also_speaks():
    text = {"model_type": "qwen3_omni_moe_text", "head_dim": 128, "num_hidden_layers": 2}
    config = {
        "model_type": "qwen3_omni_moe",
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "thinker_config": {"model_type": "qwen3_omni_moe_thinker", "text_config": text},
        "talker_config": {"model_type": "qwen3_omni_moe_talker"},
        "code2wav_config": {"rope_theta": 10_000},
    }
    assert RoPE.from_hf_config(config, 9) == RoPE.from_hf_config(text, 9)


def test_a_path_of_no_file(tmp_path):
    for path, hint in (("owner/name", "hf_hub_download"), (tmp_path / "config.json", "file.$")):
        with pytest.raises(FileNotFoundError, match=f"`config` must be a dict .*{hint}"):
            RoPE.from_hf_config(path)


def test_an_object_is_not_printed(tmp_path):
    class Config:
        def to_dict(self):
            return LLAMA

        def __repr__(self):
            return "a page"

    with pytest.raises(TypeError, match=r"got an object of type Config: pass config.to_dict\(\)"):
        RoPE.from_hf_config(Config())
    path = tmp_path / "config.json"
    path.write_text(json.dumps([1]))
    with pytest.raises(TypeError, match="got an object of type list"):
        RoPE.from_hf_config(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{rope_theta: 1e4}", "Expecting property name enclosed in double quotes"),
        (b"", "Expecting value: line 1 column 1"),
        (b"\xff{}", "'utf-8' codec can't decode byte 0xff"),
        (b"[" * 100_000, "maximum recursion depth exceeded|Stack overflow"),
    ],
)
def test_a_file_that_is_no_json_is_named(tmp_path, content, reason):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    message = f"`config` must be a dict or the path of a JSON object, got {str(path)!r}, which is"
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        RoPE.from_hf_config(path)
    assert type(caught.value) is ValueError
    assert re.search(reason, str(caught.value))


NUMBERS = (
    1e308,
    1e-308,
    5e-324,
    0,
    -1,
    0.0,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    True,
    "8",
    [1],
)
PARAMETERS = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {
        "factor": 4.0,
        "beta_fast": 32,
        "beta_slow": 1,
        "attention_factor": 1.2,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
    },
    "longrope": {
        "short_factor": [1.0] * 32,
        "long_factor": [2.0] * 32,
        "factor": 4.0,
        "attention_factor": 1.1,
    },
    "proportional": {"partial_rotary_factor": 0.5},
}
# Names of keys in errors about several keys.
OTHER_NAMES = {
    "rope_theta": "`base` must (be above 1 for YaRN|give finite frequencies)",
    "rotary_pct": r"int\(head_dim \* partial_rotary_factor\)",
    "factor": "`scaling` must return 32 finite frequencies",
}


def numbers_of_configurations():
    """Yield a model type, parameters, and the key of a number in the parameters or outside."""
    shares = {"rotary_pct": "gpt_neox", "partial_rotary_factor": "phi", "rotary_dim": "minimax_m2"}
    for kind, numbers in PARAMETERS.items():
        parameters = {"rope_type": kind, "original_max_position_embeddings": 2048} | numbers
        for key in (*numbers, "original_max_position_embeddings"):
            yield "llama", parameters, key
        for key in ("head_dim", "max_position_embeddings", "rope_theta", *shares):
            yield shares.get(key, "llama"), parameters, key


@pytest.mark.parametrize(("model_type", "parameters", "key"), list(numbers_of_configurations()))
def test_each_number_is_read_or_refused_by_its_name(model_type, parameters, key):
    for number in NUMBERS:
        config = {"model_type": model_type} | SIZES | {"rope_theta": 1e4}
        part = parameters if key in parameters else config
        changed = dict(part) | {key: number}
        config |= changed if part is config else {}
        config["rope_scaling"] = parameters if part is config else changed
        refused = ""
        try:
            rope = RoPE.from_hf_config(config, 100)
        except (TypeError, ValueError) as error:
            refused = str(error)
        if refused:
            names = f"`{key}[`[]|{OTHER_NAMES.get(key, key)}"
            assert re.search(names, refused), (number, refused)
        else:
            assert np.all(np.isfinite(rope.inv_freq)), number
            assert math.isfinite(rope.attention_factor), number


def test_places_of_patches():
    """Rows and columns rotate equal numbers of pairs, with all frequencies or every second one."""
    config = {"hidden_size": 64, "num_attention_heads": 2, "model_type": "pixtral"}
    rope = RoPE.from_hf_config(config)
    positions = grid_positions((3, 4))
    x = np.random.default_rng(0).standard_normal((32, 12))
    rotated = rope(x, positions=positions)
    for pair in range(16):
        frequency = 10_000 ** -((2 * (pair % 8) + pair // 8) / 16)
        angle = positions[pair // 8] * frequency
        a, b = x[pair], x[pair + 16]
        np.testing.assert_allclose(rotated[pair], a * np.cos(angle) - b * np.sin(angle))
    vision = {"model_type": "qwen2_vl_vision", "embed_dim": 64, "num_heads": 2}
    axial = {"sections": (8, 8), "section_frequencies": "restart"}
    assert RoPE.from_hf_config(vision) == RoPE(32, 1024, **axial)
    assert RoPE.layers_from_hf_config(vision | {"depth": 2}) == [RoPE(32, 1024, **axial)] * 2
    frames = {"model_type": "minimax_m3_vl_vision", "head_dim": 80}
    axial["sections"] = (13, 13, 13)
    assert RoPE.from_hf_config(frames, 99) == RoPE(80, 99, rotary_dim=78, **axial)
    with pytest.raises(ValueError, match=r"`rope_type` must be one of \['axial', 'default'\]"):
        RoPE.from_hf_config(vision | {"rope_parameters": {"rope_type": "yarn"}})
