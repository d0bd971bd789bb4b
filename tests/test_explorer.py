"""The modules of the explorer in docs/explorer/, run in Node, against the library.

Frequencies and factors are compared bit for bit, messages of errors word for word.
"""

import functools
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import positional_embeddings as pe
from oracles import float32_angle_errors
from positional_embeddings.models.configuration import read_config
from positional_embeddings.models.hf_config import RotaryConfig
from positional_embeddings.models.model_types import layer_types, models

ROOT = Path(__file__).parents[1]
EXPLORER, VECTORS = ROOT / "docs" / "explorer", ROOT / "vectors"
EXAMPLES = json.loads((EXPLORER / "examples.json").read_text(encoding="utf-8"))

LLAMA = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
LONG = {"max_position_embeddings": 65_536}


def scaled(kind, dim=64, **options):
    config = {"model_type": "llama", "head_dim": dim, "max_position_embeddings": 16_384}
    return config | {"rope_scaling": {"rope_type": kind, **options}}


YARN = {"factor": 4.0, "original_max_position_embeddings": 4096}
BANDS = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4}
LISTS = {"short_factor": [1.0 + i / 32 for i in range(32)], "long_factor": [2.5] * 32}
SCALED = [
    *(scaled("linear", factor=factor) for factor in (1, 2.5, 8)),
    *(scaled("ntk", dim, factor=3.3) for dim in (4, 64, 126)),
    *(scaled("dynamic", factor=factor) for factor in (1.5, 4)),
    scaled("dynamic", factor=2.0) | {"max_position_embeddings": 512},
    *(scaled("yarn", dim, **YARN) for dim in (2, 20, 64, 256)),
    scaled("yarn", **YARN, truncate=False),
    scaled("yarn", **YARN, beta_fast=20.5, beta_slow=0, attention_factor=0.9),
    scaled("yarn", **YARN, mscale=0.707, mscale_all_dim=1.2),
    scaled("yarn", **YARN, mscale=0, mscale_all_dim=1.2),
    scaled("yarn", original_max_position_embeddings=512),
    scaled("yarn", original_max_position_embeddings=6),
    scaled("yarn", **YARN) | {"rope_theta": 1.5},
    scaled("llama3", **BANDS, original_max_position_embeddings=8192),
    scaled("llama3", **BANDS | {"high_freq_factor": 1}, original_max_position_embeddings=100),
    scaled("longrope", **LISTS, original_max_position_embeddings=4096),
    scaled("su", **LISTS, factor=2, original_max_position_embeddings=32_768),
    scaled("longrope", **LISTS, attention_factor=1.25, original_max_position_embeddings=1),
    scaled("proportional", partial_rotary_factor=0.3, factor=2),
]
OTHER = [{**LLAMA, "rope_theta": base} | LONG for base in (1, 0.5, 1e300, 7.3, 123_456_789)]
OTHER += [
    {"model_type": "gpt_neox", "hidden_size": 96, "num_attention_heads": 2, "rotary_pct": 0.5},
    {"model_type": "gemma3_text", "num_hidden_layers": 12, "sliding_window_pattern": 4},
    {"model_type": "qwen2_vl", "hidden_size": 128, "num_attention_heads": 1, **LONG}
    | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    {"model_type": "llama", "text_config": {"head_dim": 8}, **LONG},
    {"model_type": "smollm3", "no_rope_layer_interval": 3, "num_hidden_layers": 7},
    {"model_type": "llama", "head_dim": 32, "rotary": True},
    {"model_type": "qwen2_vl", "embed_dim": 256, "num_heads": 4, "depth": 2, "patch_size": 14},
    {"model_type": "bamba", "num_hidden_layers": 2, "attn_layer_indices": [1]}
    | {"layer_types": ["linear_attention", "full_attention"]},
    {"model_type": "lfm2", "num_hidden_layers": 3, "full_attn_idxs": [1]},
    {"model_type": "bamba", "num_hidden_layers": 2, "attn_layer_indices": [1], "head_dim": 8},
    {"model_type": "recurrent_gemma", "num_hidden_layers": 5, "max_position_embeddings": 16}
    | {"block_types": ["recurrent", "attention"]},
    {"model_type": "llama4_text", "num_hidden_layers": 4, "no_rope_layers": [0, 1, 1, 0]},
    {"model_type": "zamba2", "num_hidden_layers": 2, "use_mem_rope": False},
    {"model_type": "gptj", **LONG, "rope_scaling": {"type": "gptj"}},
    {"model_type": "granite_swa", "num_hidden_layers": 3, "layer_rope_theta": [1e4, 0, 5e5]},
    {"model_type": "llama", "layer_types": ["attention", "full_attention"], "num_hidden_layers": 2}
    | {"global_head_dim": 16, "per_layer_config": {"1": {"head_dim": 8}}},
    # Keys that no code of their type names turn nothing.
    {"model_type": "gptj", "head_dim": 32},
    {"model_type": "llama", "num_hidden_layers": 3, "no_rope_layers": [1, 0], "kv_channels": 32}
    | {"rotary_pct": 1.5, "rotary_dim": 16, "rope_something": 1, "alibi": True, "head_dim": 64},
    {"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "global_head_dim": 64}}
    | {"architectures": ["Gemma4ForConditionalGeneration"]},
]
DEEPSEEK = {"model_type": "deepseek_v3", "num_hidden_layers": 2}
SCORED = [
    {**DEEPSEEK, "rope_scaling": {"type": "yarn", "factor": 40, **scales}}
    for scales in ({"mscale": 1.0, "mscale_all_dim": 1.0}, {"mscale_all_dim": 0.707}, {})
]
SCORED += [
    {"model_type": "llama", "num_hidden_layers": 1, "attention_multiplier": 0.5},
    {"model_type": "deepseek_v3", "num_hidden_layers": 1, "num_key_value_heads": 2},
    {"model_type": "deepseek_v3", "num_hidden_layers": 1, "num_key_value_heads": 128},
    {**DEEPSEEK, "rope_scaling": {"type": "yarn", "factor": 0.5, "mscale_all_dim": 1.0}},
    {**DEEPSEEK, "rope_scaling": {"type": "yarn", "mscale_all_dim": 1.0}}
    | {"original_max_position_embeddings": 1024},
    {**DEEPSEEK, "qk_nope_head_dim": 96},
    {"model_type": "gemma2", "num_hidden_layers": 2, "query_pre_attn_scalar": 144},
    {"model_type": "gemma2", "num_hidden_layers": 2, "attn_logit_softcapping": None},
    {"model_type": "granite", "num_hidden_layers": 1, "attention_multiplier": 0.0078125},
    {"model_type": "falcon_h1", "num_hidden_layers": 1, "key_multiplier": 0.25},
    {"model_type": "mpt", "num_hidden_layers": 1, "attn_config": {"softmax_scale": 0.5}},
    {"model_type": "mimo_v2_flash", "num_hidden_layers": 2}
    | {"layer_types": ["full_attention", "sliding_attention"]},
    {"model_type": "minimax", "num_hidden_layers": 2, "attn_type_list": [1, 0]},
    {"model_type": "ministral", "num_hidden_layers": 2},
    {"model_type": "mistral", "num_hidden_layers": 2, "per_layer_config": {"1": {"head_dim": 32}}},
    {"model_type": "qwen2", "num_hidden_layers": 2, "use_sliding_window": True}
    | {"max_window_layers": 1},
    {"model_type": "cohere2", "num_hidden_layers": 2, "position_embedding_type": "rope_gptj"},
]
LLAMA_LAYER = {"model_type": "llama", "num_hidden_layers": 1}
SCORED += [
    {**LLAMA_LAYER, **keys}
    for keys in (
        {"is_decoder": False, "scale_attn_weights": True, "context_window_size": 32_768},
        {"router_scale": 2.5, "sliding_window": None},
        # Not known, or not as compared.
        {"attn_scale": 0.1},
        {"scale": 0.1},
        {"some": {"logn": 1}},
        {"is_decoder": True},
        {"sliding_window": 4096},
        {"position_embedding_type": "absolute"},
        {"rope_interleave": True},
    )
]
SCORED += [
    {"model_type": "llama4_text", "num_hidden_layers": 4, "attn_temperature_tuning": flag}
    for flag in (False, True)
]
WRONG = [
    {"model_type": "qwen4_exp_text", "num_hidden_layers": 4},
    {"layer_types": ["full_attention"], "num_hidden_layers": 1, "global_head_dim": 2**21},
    {"model_type": "ours", "rope_theta": 1e4, "use_mrope": False, "use_rope": True, "rotary": None},
    {"model_type": "qwen3", "architectures": ["DFlashDraftModel"]},
    {"model_type": "qwen3", "architectures": "Qwen3Model"},
    {"model_type": "llava", "text_config": {"model_type": "llama", "architectures": ["X"]}},
    {"model_type": "bloom", "num_layers": 24, "n_head": 16, "hidden_dim": 1024},
    {"model_type": "olmo3", "rope_parameters": {"rope_type": "linear", "factor": 8}},
    {"model_type": "llama", "num_hidden_layers": 2, "layer_types": ["indexed_attention"] * 2},
    {"model_type": "nomic_bert", "rotary_emb_fraction": 0.5},
    {},
    {"head_dim": 64},
    {"model_type": "some_model", "head_dim": 64, "max_position_embeddings": 4096},
    {"model_type": 3},
    {"text_config": [1]},
    {"model_type": "bert"},
    {"model_type": "bloom", "alibi": 1},
    {"model_type": "falcon", "alibi": True},
    {"model_type": "some_model", "position_embedding_type": "absolute"},
    {"model_type": "step3p7", "patch_size": 14},
    {"patch_size": 14, "head_dim": 64},
    {"model_type": "lfm2", "num_hidden_layers": 3, "full_attn_idxs": 1},
    {"model_type": "jamba_like", "num_hidden_layers": 2, "head_dim": 8, "attn_type_list": [0, 2]},
    {"model_type": "qwen", "use_dynamic_ntk": True, "head_dim": 8},
    {"model_type": "dbrx", "attn_config": {"rope_theta": 500_000}},
    {"model_type": "gptj", **LONG, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"model_type": "llama", "per_layer_config": {"0": {"num_key_value_heads": -1}}},
    {"model_type": "some_model", "vision_config": {"model_type": "siglip"}, "head_dim": 8},
    {"model_type": "llama", "rope_parameters": 3},
    {"model_type": "llama", "rope_theta": "1e4"},
    {"model_type": "llama", "rope_theta": 0},
    {"model_type": "llama", "rope_theta": True},
    {"model_type": "llama", "head_dim": 7},
    {"model_type": "llama", "head_dim": -2},
    {"model_type": "llama", "head_dim": 2**21},
    {"model_type": "llama", "head_dim": [64]},
    {"model_type": "llama", "hidden_size": 100},
    {"model_type": "llama", "num_attention_heads": None},
    {"model_type": "llama", "max_position_embeddings": 0},
    {"model_type": "llama", "layer_types": "full_attention"},
    {"model_type": "deepseek_v3", "rope_interleave": 1},
    {"model_type": "smollm3", "no_rope_layer_interval": -1},
    {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": 3}},
    {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}},
    scaled("cubic", factor=2),
    scaled("linear"),
    scaled("linear", factor=-1),
    scaled("linear", factor="it's 2"),
    scaled("linear", factor=2, beta_fast=32),
    scaled("ntk", 2, factor=2),
    scaled("ntk", factor=1e300),
    scaled("yarn", **YARN, truncate=1),
    scaled("yarn", **YARN, mscale=-1),
    scaled("yarn", **YARN) | {"rope_theta": 1},
    scaled("llama3", factor=8.0),
    scaled("llama3", **BANDS | {"low_freq_factor": 4.5}, original_max_position_embeddings=100),
    scaled("longrope", short_factor=1, long_factor=[1], original_max_position_embeddings=8),
    scaled("longrope", short_factor=[1], long_factor=[1], original_max_position_embeddings=8),
    scaled("longrope", **LISTS, original_max_position_embeddings=1),
    scaled("proportional", partial_rotary_factor=1.5),
    {"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 2, "beta": [1]}},
]


def values_of(rope):
    return {
        "frequencies": rope.inv_freq.tolist(),
        "unscaled": replace(rope, scaling=None).inv_freq.tolist(),
        "attention_factor": rope.attention_factor,
        "head_size": rope.head_size,
        "rotated": rope.rotary_dim or rope.head_size,
        "layout": rope.layout,
    }


def case(config):
    """Return what the library makes of a configuration: values of each layer, or a message."""
    count, length = config.get("num_hidden_layers"), None
    try:
        length = read_config(config).get("max_position_embeddings")
        model = RotaryConfig(config)
        layers = model.layers(count)
        make = functools.cache(lambda x: values_of(pe.RoPE(**model.arguments(x, length, None))))
        expected = [make(layer) if layer.rotates else None for layer in layers]
    except (TypeError, ValueError) as error:
        expected = str(error)
    return {"config": config, "count": count, "seq_len": length, "expected": expected}


# What the library says of an attention that is not known.
NOT_KNOWN = "No `AttentionLayer`|attention may differ|was compared"


def scores_cases(configs):
    """Yield what layers that rotate do with scores, or None if not known, and the masks of all."""
    for config in configs:
        length = read_config(config).get("max_position_embeddings", 4096)
        try:
            layers = pe.attention_layers(config, length)
            expected = [layer and layer.rope and scores_of(layer) for layer in layers]
            masks = [layer and mask_of(layer) for layer in layers]
        except ValueError as error:
            if not re.search(NOT_KNOWN, str(error)):
                continue  # no layer is made for other reasons
            expected = masks = None
        yield {"config": config, "expected": expected, "masks": masks}


def scores_of(layer):
    return {
        "factor": layer.scale or layer.head_size**-0.5,
        "size": layer.head_size,
        "bound": layer.softcap,
        "hasSinks": layer.has_sinks,
    }


def mask_of(layer):
    """Return the mask of a layer as the explorer has it."""
    size, mask = layer.window, layer.mask
    if mask is None or isinstance(mask, pe.SlidingWindowMask):
        side = None if mask is None else mask.left
        return {"kind": "full" if mask is None else "sliding", "size": side, "isCausal": False}
    causal = pe.CausalMask()
    inner = {"full": causal}
    if size is not None:
        inner = {"sliding": pe.SlidingWindowMask(size - 1, 0), "chunked": pe.ChunkedMask(size)}
    [kind] = [kind for kind, x in inner.items() if mask in (x, causal | x)]
    return {"kind": kind, "size": size, "isCausal": True}


def example_case(name):
    """Return the same for an example, from the functions that users call."""
    config = EXAMPLES[name]
    text = read_config(config)
    length = text.get("max_position_embeddings")
    ropes = pe.RoPE.layers_from_hf_config(config, length)
    expected = [rope and values_of(rope) for rope in ropes]
    count = text["num_hidden_layers"]
    return {"config": config, "count": count, "seq_len": length, "expected": expected}


def window(size):
    return pe.CausalMask() | pe.SlidingWindowMask(size - 1, None)


def both_sides(size):
    return pe.SlidingWindowMask(size, size)


def mask_case(kind, size, mask, length, cells):
    attends = ~np.asarray(mask.dense(length)).reshape(length, length)
    shares = attends.reshape(cells, length // cells, cells, length // cells).mean((1, 3))
    return {
        "mask": {"kind": kind, "size": size, "isCausal": mask != both_sides(size)},
        "length": length,
        "sees": attends.astype(int).tolist(),
        "cells": cells,
        "shares": shares.tolist(),
    }


def curve_case(**arguments):
    rope = pe.RoPE(**arguments)
    largest, first = float32_angle_errors(rope.inv_freq, rope.seq_len)
    scores = [
        (distance, float(np.mean(np.cos(distance * rope.inv_freq)) * rope.attention_factor**2))
        for distance in (0, 1, 17, 1000, 32_768)
    ]
    return {"arguments": arguments, "scores": scores, "largest": largest, "first": first}


# Windows, chunks and numbers of layers as their papers and model cards have them.
LAYER_MASKS = {
    "Llama 3.1 8B": [["full", None]] * 32,
    "Llama 4 Scout": ([["chunked", 8192]] * 3 + [["full", None]]) * 12,
    "Mistral 7B v0.1": [["sliding", 4096]] * 32,
    "Qwen3 8B": [["full", None]] * 36,
    "Gemma 3 4B": ([["sliding", 1024]] * 5 + [["full", None]]) * 5 + [["sliding", 1024]] * 4,
    "gpt-oss 20B": [["sliding", 128], ["full", None]] * 12,
    "Phi-3.5 mini": [["sliding", 262_144]] * 32,
    "DeepSeek-V3": [["full", None]] * 61,
    "GPT-NeoX 20B": [["full", None]] * 44,
    "SmolLM3 3B": [["full", None]] * 36,
}


def cases():
    known = [case({"model_type": name}) for name in models()]
    return {
        "model_types": {"layer_types": layer_types(), "models": models()},
        "models": [
            *map(example_case, EXAMPLES),
            *known,
            *map(case, (*SCALED, *OTHER, *WRONG)),
        ],
        "scores": [
            *scores_cases(EXAMPLES.values()),
            *scores_cases({"model_type": name} for name in models()),
            *scores_cases(SCORED),
        ],
        "masks": [
            mask_case("full", None, pe.CausalMask(), 24, 6),
            *(mask_case("sliding", size, window(size), 24, 6) for size in (1, 5, 24, 30)),
            mask_case("full", None, both_sides(None), 24, 6),
            *(mask_case("sliding", size, both_sides(size), 24, 6) for size in (1, 5, 23, 24, 30)),
            *(
                mask_case("chunked", size, pe.CausalMask() | pe.ChunkedMask(size), 24, 8)
                for size in (1, 5, 24, 30)
            ),
        ],
        "layer_masks": [
            {"config": EXAMPLES[name], "expected": expected}
            for name, expected in LAYER_MASKS.items()
        ],
        "curves": [
            curve_case(head_size=128, seq_len=131_072, base=500_000),
            curve_case(head_size=64, seq_len=100, base=10_000),
            curve_case(head_size=2, seq_len=5000, base=10_000),
            curve_case(head_size=4, seq_len=20_000, base=1e9),
        ],
    }


def test_the_examples_are_ten_models():
    assert EXAMPLES.keys() == LAYER_MASKS.keys()
    assert len(EXAMPLES) == 10


def test_wrong_configurations_are_refused():
    assert [x for x in WRONG if not isinstance(case(x)["expected"], str)] == []
    assert [x for x in (*SCALED, *OTHER) if isinstance(case(x)["expected"], str)] == []


@pytest.mark.library("node")
def test_modules_in_node(tmp_path):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases()), encoding="utf-8")
    run_in_node({"EXPLORER_CASES": str(file)})


@pytest.mark.library("node")
@pytest.mark.skipif(not VECTORS.exists(), reason="the test vectors are not there")
def test_vectors_in_node():
    run_in_node({"EXPLORER_VECTORS": str(VECTORS)})


def run_in_node(variables):
    command = ["node", "--test", "docs/explorer/tests/explorer.test.js"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
