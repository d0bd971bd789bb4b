"""What `rope` says of configurations, compared with transformers, and with plain loops."""

import importlib
import io
import json
import math
import re
import sys

import mpmath
import numpy as np
import pytest

from positional_embeddings import RoPE
from positional_embeddings.cli.rope import _waves_text, float32_angle_errors

SIZES = {"head_dim": 64, "max_position_embeddings": 4096}
LLAMA = {
    "model_type": "llama",
    "head_dim": 128,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
PHI3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "max_position_embeddings": 131_072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0 + i / 48 for i in range(48)],
        "long_factor": [1.0 + i for i in range(48)],
    },
}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163_840,
    "rope_theta": 1e4,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 40.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}


def one_line(text):
    return " ".join(text.split())


@pytest.fixture
def explained(printed, tmp_path):
    """Write a configuration, and return what the command says of it."""

    def explain(config, options=""):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        found = json.loads(printed(f"rope {path} --json {options}"))["embeddings"]
        assert printed(f"rope {path} {options}").isascii()
        return found

    return explain


def test_text(printed, tmp_path):
    config = SIZES | {"model_type": "glm4", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert printed(f"rope {tmp_path}") == (
        "model:             glm4; layers: all that rotate\n"
        "type:              default, without scaling\n"
        "layout:            interleaved: features 2i and 2i + 1 form a pair\n"
        "head:              64 features, 32 of them rotated, in 16 pairs\n"
        "base:              10,000\n"
        "context:           4,096 positions\n"
        "wavelengths:       6.283 to 35,333 positions; 12 of 16 fit into 4,096\n"
        "attention factor:  1\n"
        "exact:             to position 2,147,483,648 (2^31): float32 tables of this library are\n"
        "                   within 3e-08 of cosine and sine, half a unit in the last place\n"
        "float32 angles:    products of a position and a rounded frequency in float32 err by up\n"
        "                   to 0.00015 radians at the end of the context, first above 0.001 at\n"
        "                   position 29,142; code that also computes its frequencies in float32,\n"
        "                   as most does, may err more\n"
        "\n"
        "pitfalls:\n"
        "- Features 2i and 2i + 1 form a pair. Code that rotates halves (rotate_half) raises no\n"
        "  error and gives wrong scores: convert_layout puts weights into the other order.\n"
        "- Only the first 32 of 64 features are rotated; the others pass as they are.\n"
    )


def test_facts_by_a_loop(explained):
    """Llama 3.1, by the formula of its published code."""
    (facts,) = explained(LLAMA)
    before = [2 * math.pi * 500_000 ** (2 * i / 128) for i in range(64)]
    after = []
    for wave in before:
        if wave > 8192 / 1:
            after.append(8 * wave)
        elif wave < 8192 / 4:
            after.append(wave)
        else:
            kept = (8192 / wave - 1) / (4 - 1)
            after.append(1 / (kept / wave + (1 - kept) / (8 * wave)))
    for waves, context, found in (
        (before, 8192, facts["wavelengths_unscaled"]),
        (after, 131_072, facts["wavelengths"]),
    ):
        assert found["shortest"] == pytest.approx(min(waves), rel=1e-12)
        assert found["longest"] == pytest.approx(max(waves), rel=1e-12)
        assert found["full_cycles"] == sum(wave <= context for wave in waves)
        assert (found["context"], found["not_rotated"]) == (context, 0)
    pairs = zip(before, after, strict=True)
    assert facts["pairs_scaled"] == sum(not math.isclose(a, b) for a, b in pairs)
    given = {
        "model_type": "llama",
        "layer_type": None,
        "rope_type": "llama3",
        "layout": "half",
        "head_size": 128,
        "rotated_features": 128,
        "pairs": 64,
        "base": 500_000,
        "context": 131_072,
        "original_context": 8192,
        "attention_factor": 1,
        "exact_up_to": 2**31,
    }
    assert {key: facts[key] for key in given} == given


@pytest.mark.library("transformers")
@pytest.mark.parametrize(
    ("name", "changes", "rope_type", "layout"),
    [
        ("Llama", LLAMA, "llama3", "half"),
        (
            "Qwen2",
            {"model_type": "qwen2", "hidden_size": 512, "num_attention_heads": 8},
            "",
            "half",
        ),
        ("Phi3", PHI3, "longrope", "half"),
        ("GPTNeoX", {"model_type": "gpt_neox", "rotary_pct": 0.25}, "", "half"),
        ("Glm", {"model_type": "glm", "head_dim": 128, "pad_token_id": 1}, "", "interleaved"),
    ],
)
def test_facts_of_transformers(capsys, explained, name, changes, rope_type, layout):
    folder = f"transformers.models.{changes['model_type']}"
    parts = [f"{folder}.{part}_{changes['model_type']}" for part in ("configuration", "modeling")]
    classes, models = map(importlib.import_module, parts)
    config = getattr(classes, f"{name}Config")(**changes)
    theirs = getattr(models, f"{name}RotaryEmbedding")(config)
    context = config.max_position_embeddings
    import torch

    theirs(torch.zeros(1), torch.asarray([[context - 1]]))  # which may choose frequencies
    waves = 2 * math.pi / theirs.inv_freq.double().numpy()
    capsys.readouterr()  # what transformers says
    (facts,) = explained(json.loads(config.to_json_string(use_diff=False)))
    assert facts["rope_type"] == (rope_type or "default")
    assert facts["layout"] == layout
    assert facts["pairs"] == len(waves)
    assert facts["context"] == context
    assert facts["wavelengths"]["shortest"] == pytest.approx(waves.min(), rel=1e-6)
    assert facts["wavelengths"]["longest"] == pytest.approx(waves.max(), rel=1e-6)
    assert facts["wavelengths"]["full_cycles"] == (waves <= context).sum()
    assert facts["attention_factor"] == pytest.approx(theirs.attention_scaling, rel=1e-6)


def test_errors_of_float32_angles():
    """A loop over positions and pairs, with products rounded to float32."""
    frequencies = np.asarray([1.0, 0.7, 0.13])
    worst = []
    for position in range(30_000):
        errors = [
            abs(float(np.float32(position) * np.float32(f)) - position * f)
            for f in (1.0, 0.7, 0.13)
        ]
        worst.append(max(errors))
    first = next(position for position, error in enumerate(worst) if error > 1e-3)
    at_end, found = float32_angle_errors(frequencies, 30_000)
    assert found == first
    assert at_end == max(worst[-(2**13) :])
    # A float32 frequency, whose largest errors are before the last 8,192 positions.
    single = np.float32(0.775)
    worst = [
        abs(float(np.float32(position) * single) - position * float(single))
        for position in range(37_525 - 2**14, 37_525)
    ]
    assert max(worst) > max(worst[-(2**13) :])
    at_end, _ = float32_angle_errors(np.asarray([float(single)]), 37_525)
    assert at_end == max(worst[-(2**13) :])
    # Powers of two are products without a rounding.
    assert float32_angle_errors(np.asarray([1.0, 0.25]), 100) == (0.0, None)
    assert float32_angle_errors(frequencies, 1) == (0.0, first)


def test_tables_are_exact_to_the_position_that_is_told():
    rope = RoPE(128, 1, 500_000.0, feature_axis=-1, seq_axis=-2)
    positions = np.asarray([2**31, 2**31 - 1, 1_999_999_973, 20_120])
    tables = rope.tables(positions, dtype=np.float32)
    cos, sin = tables.cos, tables.sin
    with mpmath.workdps(60):
        for row, position in enumerate(positions.tolist()):
            for i in range(64):
                angle = position * mpmath.mpf(500_000) ** (mpmath.mpf(-2 * i) / 128)
                assert abs(mpmath.mpf(float(cos[row, i])) - mpmath.cos(angle)) <= 3.01e-8
                assert abs(mpmath.mpf(float(sin[row, i])) - mpmath.sin(angle)) <= 3.01e-8


HALF = "Features i and i + 32 form a pair."
OTHERS = "Sequences of more than 4,096 positions have other divisors than shorter ones: these are "
LONG = f"{OTHERS}the long ones, for 131,072."
SHORT = f"{OTHERS}the short ones, for 4,096."
GROWN = (
    "Cosine and sine are multiplied by 1.19: queries and keys both, so that products of rotated "
    "features grow by 1.417."
)
PITFALLS = [
    (SIZES | {"model_type": "llama"}, "", [HALF]),
    (
        SIZES | {"model_type": "llama"},
        "--context 5000",
        [
            HALF,
            "The configuration is for 4,096 positions: the model has not seen those",
        ],
    ),
    (
        SIZES | {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "--context 5000",
        [HALF, "Beyond 4,096 positions the frequencies change with the length"],
    ),
    (
        LLAMA,
        "",
        [
            "Features i and i + 64",
            "The factor 8 times the original 8,192 positions is 65,536, while",
            "The scaling also holds for sequences shorter than the original 8,192.",
        ],
    ),
    (
        PHI3,
        "",
        [
            "Features i and i + 48",
            LONG,
            GROWN,
        ],
    ),
    (
        PHI3,
        "--context 4096",
        [
            "Features i and i + 48",
            SHORT,
            "Cosine and sine",
        ],
    ),
    (
        DEEPSEEK,
        "",
        [
            "Features 2i and 2i + 1 form a pair.",
            "These 64 features are the rotated part of a head",
            "The scaling also holds for sequences shorter than the original 4,096.",
            "Models with mscale_all_dim also multiply their scores by 1.874,",
        ],
    ),
    (
        GEMMA,
        "--layer-type full_attention",
        [
            "Features i and i + 128",
            "Layers of another type (sliding_attention) have parameters of their own: one RoPE",
            "Configurations with linear scaling do not say",
        ],
    ),
    (
        SIZES | {"model_type": "cohere2", "rope_theta": 5e4},
        "",
        ["Features 2i and 2i + 1", "Some layers do not rotate: RoPE.layers_from_hf_config"],
    ),
    (
        SIZES | {"model_type": "smollm3", "rope_theta": 5e6, "no_rope_layers": [1, 1, 1, 0]},
        "",
        [HALF, "Some layers do not rotate: RoPE.layers_from_hf_config has None"],
    ),
    (
        SIZES
        | {
            "model_type": "qwen2_vl_text",
            "rope_theta": 1e6,
            "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
        },
        "",
        [HALF, "A position has 3 coordinates, which rotate 8, 12, 12 pairs (contiguous)"],
    ),
    (
        {"model_type": "pixtral", "head_dim": 64},
        "",
        [
            "Features i and i + 32 form a pair.",
            (
                "A position has 2 coordinates, which rotate 16, 16 pairs (contiguous): pass "
                "positions with a leading axis. They are places of patches in an image: "
                "grid_positions."
            ),
        ],
    ),
    (
        SIZES | {"model_type": "any"},
        "--layout interleaved",
        ["Features 2i and 2i + 1 form a pair."],
    ),
]


@pytest.mark.parametrize(("config", "options", "expected"), PITFALLS)
def test_pitfalls(explained, config, options, expected):
    (facts,) = explained(config, options)
    for found, start in zip(facts["pitfalls"], expected, strict=True):
        assert found.startswith(start)


@pytest.mark.parametrize("factor", [1.0, 1.5, 40.0])
def test_scores_of_models_with_mscale_all_dim(explained, factor):
    """They are multiplied by a square, which is 1 without an extension."""
    scaling = DEEPSEEK["rope_scaling"] | {"factor": factor, "mscale_all_dim": 0.707}
    (facts,) = explained(DEEPSEEK | {"rope_scaling": scaling})
    grown = (0.1 * 0.707 * math.log(factor) + 1) ** 2
    found = [re.search(r"multiply their scores by (\S+),", note) for note in facts["pitfalls"]]
    assert [match[1] for match in found if match] == [f"{grown:.4g}"] * (factor > 1)


@pytest.mark.library("transformers")
def test_mscale_is_that_of_transformers():
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as theirs

    assert theirs.yarn_apply_mscale(DEEPSEEK["rope_scaling"], 1.0) == pytest.approx(1.874, abs=5e-4)


def test_layers_of_each_type(explained, printed, tmp_path):
    sliding, full = explained(GEMMA)
    assert (full["layer_type"], full["base"], full["rope_type"]) == (
        "full_attention",
        1e6,
        "linear",
    )
    assert (sliding["layer_type"], sliding["base"]) == ("sliding_attention", 1e4)
    assert explained(GEMMA, "--layer-type sliding_attention") == [sliding]
    text = printed(f"rope {tmp_path}")
    assert "model:             gemma3_text; layers: sliding_attention\n" in text
    assert "\n\nmodel:             gemma3_text; layers: full_attention\n" in text
    (both,) = explained(GEMMA | {"rope_theta": 1e4, "rope_scaling": None})
    assert (both["layer_type"], both["base"]) == (None, 1e4)


def test_pairs_that_are_not_rotated(explained, printed, tmp_path):
    parameters = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e4}
    (facts,) = explained(SIZES | {"model_type": "llama", "rope_parameters": parameters})
    assert facts["wavelengths"]["not_rotated"] == 24
    assert facts["wavelengths"]["longest"] == pytest.approx(2 * math.pi * 10_000 ** (14 / 64))
    assert "; 8 of 32 fit into 4,096, 24 not rotated; 8 pairs as before" in one_line(
        printed(f"rope {tmp_path}")
    )


def test_waves_of_astronomical_length(explained, printed, tmp_path):
    (facts,) = explained(SIZES | {"model_type": "llama", "rope_theta": 1e30})
    assert facts["wavelengths"]["longest"] > 1e28
    assert f"6.283 to {2 * math.pi * 1e30 ** (62 / 64):.4g} positions" in printed(
        f"rope {tmp_path}"
    )


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        (999.96, "1000"),
        (1000.0, "1,000"),
        (1000.5, "1,000"),
        (1e15 - 1, "999,999,999,999,999"),
        (1e15, "1e+15"),
    ],
)
def test_longest_waves(longest, text):
    waves = {"shortest": 6.28, "longest": longest, "not_rotated": 0}
    waves |= {"full_cycles": 1, "context": 2000}
    assert _waves_text(waves, 3) == f"6.28 to {text} positions; 1 of 3 fit into 2,000"


@pytest.mark.parametrize(("size", "text"), [(2, "1 pair"), (4, "2 pairs"), (2048, "1,024 pairs")])
def test_number_of_pairs(explained, printed, tmp_path, size, text):
    explained(SIZES | {"model_type": "llama", "head_dim": size})
    assert f" all of them rotated, in {text}\n" in printed(f"rope {tmp_path}")


def test_angles_that_float32_has(explained, printed, tmp_path):
    (facts,) = explained(SIZES | {"model_type": "llama", "head_dim": 2})
    assert facts["float32_angles_fail_from"] is None
    assert ", not above 0.001 at the first 1,048,576 positions; code" in one_line(
        printed(f"rope {tmp_path}")
    )


def test_the_standard_input(monkeypatch, printed):
    text = json.dumps({"text_config": SIZES | {"model_type": "llama"}})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "head:              64 features, all of them rotated" in printed("rope -")


def test_wrong_files(call, tmp_path):
    still = {"rope_type": "proportional", "partial_rotary_factor": 1e-3}
    still = SIZES | {"model_type": "llama", "rope_parameters": still}
    names = {"list.json": "[1, 2]", "none.json": "[[[", "still.json": json.dumps(still)}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    what = "CONFIG must be a dict or the path of a JSON object, got"
    for name, message in {
        "config.json": "{}: No such file or directory",
        "list.json": what + " an object of type list.",
        "none.json": what + " '{}', which is no JSON: Expecting value: line 1 column 4 (char 3).",
        "still.json": "the configuration rotates no pair of features",
    }.items():
        path = tmp_path / name
        expected = f"positional-embeddings: error: {message.format(path)}\n"
        assert call(f"rope {path}") == (2, "", expected)
        if name == "config.json":
            assert call(f"rope {tmp_path}") == (2, "", expected)


def test_the_standard_input_may_be_closed(monkeypatch, call):
    monkeypatch.setattr(sys, "stdin", None)
    expected = "positional-embeddings: error: the standard input is closed\n"
    assert call("rope -") == (2, "", expected)


@pytest.mark.parametrize("base", [1e-300, 1e-45])
def test_frequencies_that_float32_does_not_hold(explained, printed, tmp_path, base):
    """Base and frequencies are far from those of any model; JSON has no infinities."""
    (facts,) = explained(SIZES | {"model_type": "llama", "rope_theta": base})
    assert facts["float32_angles_error_in_context"] is None
    assert facts["float32_angles_fail_from"] == 0
    assert "err by up to inf radians" in one_line(printed(f"rope {tmp_path}"))


def test_factors_beyond_all_bounds(explained, printed, tmp_path):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    yarn["attention_factor"] = 1e200
    (facts,) = explained(SIZES | {"model_type": "llama", "rope_scaling": yarn})
    assert facts["attention_factor"] == 1e200
    assert "products of rotated features grow by inf" in one_line(printed(f"rope {tmp_path}"))


@pytest.mark.parametrize("factor", [1.0, 1.0625, 1.3466, 2.0, 3.5])
def test_half_a_unit_of_the_tables(explained, printed, tmp_path, factor):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    config = SIZES | {"model_type": "llama", "rope_scaling": yarn | {"attention_factor": factor}}
    explained(config)
    claimed = float(
        re.search(r"are within (\S+) of cosine", one_line(printed(f"rope {tmp_path}")))[1]
    )
    rope = RoPE.from_hf_config(config)
    tables = rope.tables(range(4096), dtype=np.float32)
    errors = [
        np.abs(table.astype(np.float64) - exact).max()
        for table, exact in zip((tables.cos, tables.sin), (rope.cos, rope.sin), strict=True)
    ]
    assert 0.9 * claimed < max(errors) < 1.02 * claimed


def test_a_context_shorter_than_the_original_is_not_extended(explained, printed, tmp_path):
    explained(LLAMA)
    for context, text in ((4096, "4,096"), (8192, "8,192"), (8193, "8,193 positions, extended")):
        found = printed(f"rope {tmp_path} --context {context}")
        wanted = text if "extended" in text else f"{text} positions\n"
        assert f"context:           {wanted}" in found


def test_errors_name_options(call, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SIZES | {"model_type": "llama"}))
    for line, message in {
        "--context 0": "--context must be a positive integer, got 0.",
        "--layer-type full": "--layer-type must be None or one of ['chunked_attention', "
        "'full_attention', 'sliding_attention'], got 'full'.",
    }.items():
        expected = f"positional-embeddings: error: {message}\n"
        assert call(f"rope {path} {line}") == (2, "", expected)
