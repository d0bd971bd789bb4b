"""Scalings of the frequencies, and the configurations that name them."""

import importlib
import json
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    ProportionalScaling,
    RoPE,
    YaRNScaling,
)

factors = st.floats(1.0, 40.0)
lengths = st.sampled_from([512, 2048, 4096, 8192])
bases = st.sampled_from([10_000.0, 100_000.0, 500_000.0, 1e6])
dims = st.sampled_from([32, 64, 96, 128])


def plain(dim, base):
    return np.asarray([base ** (-2 * i / dim) for i in range(dim // 2)])


@given(dim=dims, base=bases, factor=factors)
def test_linear_and_static_ntk(dim, base, factor):
    frequencies, attention = LinearScaling(factor)(dim, base, 100)
    np.testing.assert_allclose(frequencies, plain(dim, base) / factor, rtol=1e-12)
    assert attention == 1
    frequencies, attention = NTKScaling(factor)(dim, base, 100)
    np.testing.assert_allclose(
        frequencies, plain(dim, base * factor ** (dim / (dim - 2))), rtol=1e-9
    )
    assert frequencies[-1] == pytest.approx(plain(dim, base)[-1] / factor)
    assert attention == 1


@given(dim=dims, base=bases, factor=factors, original=lengths)
def test_yarn_keeps_high_frequencies_and_divides_low_ones(dim, base, factor, original):
    frequencies, _ = YaRNScaling(factor, original)(dim, base, 100)
    whole = plain(dim, base)
    cycles = original * whole / (2 * math.pi)
    np.testing.assert_allclose(frequencies[cycles > 40 + whole[0]], whole[cycles > 40 + whole[0]])
    low = cycles < 0.5
    np.testing.assert_allclose(frequencies[low], whole[low] / factor)
    assert (np.diff(frequencies) < 0).all()


@given(dim=dims, base=bases, factor=factors, original=lengths)
def test_llama3_is_the_published_rule(dim, base, factor, original):
    frequencies, _ = Llama3Scaling(factor, 1.0, 4.0, original)(dim, base, 100)
    for got, whole in zip(frequencies, plain(dim, base), strict=True):
        wavelength = 2 * math.pi / whole
        if wavelength < original / 4:
            expected = whole
        elif wavelength > original:
            expected = whole / factor
        else:
            smooth = (original / wavelength - 1) / 3
            expected = (1 - smooth) * whole / factor + smooth * whole
        assert got == pytest.approx(expected, rel=1e-12)


@pytest.fixture
def rope_functions():
    """Return the functions of transformers."""
    torch = importlib.import_module("torch")
    utils = importlib.import_module("transformers.modeling_rope_utils")
    transformers = importlib.import_module("transformers")

    def call(kind, seq_len, *, heads=4, dim=64, base=10_000.0, longest=8192, **parameters):
        config = transformers.LlamaConfig(
            hidden_size=heads * dim,
            num_attention_heads=heads,
            max_position_embeddings=longest,
            rope_parameters={"rope_type": kind, "rope_theta": base} | parameters,
        )
        # Its formulas, in float64.
        wide = mock.patch.multiple(torch, float=torch.float64, float32=torch.float64)
        with wide, mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
            frequencies, factor = utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len)
        return frequencies.numpy(), factor

    assert set(utils.ROPE_INIT_FUNCTIONS) == {
        "linear",
        "dynamic",
        "yarn",
        "longrope",
        "llama3",
        "proportional",
    }
    return call


@pytest.mark.library("torch", "transformers")
@given(
    dim=dims,
    base=bases,
    factor=st.integers(2, 160).map(lambda n: n / 4),
    original=lengths,
    seq_len=st.sampled_from([100, 3000, 8192, 20_000, 131_072]),
    mscales=st.sampled_from(
        [{}, {"mscale": 1.0, "mscale_all_dim": 0.7}, {"attention_factor": 1.3}]
    ),
    betas=st.sampled_from([{}, {"beta_fast": 20.0, "beta_slow": 2.0}]),
    truncate=st.booleans(),
    share=st.sampled_from([0.25, 0.5, 1.0]),
)
def test_all_six_types_of_transformers(
    rope_functions, dim, base, factor, original, seq_len, mscales, betas, truncate, share
):
    context = {"original_max_position_embeddings": original}
    size = {"dim": dim, "base": base}
    short = [1.0 + i / dim for i in range(dim // 2)]
    long = [1.0 + factor * i / dim for i in range(dim // 2)]
    pairs = [
        (LinearScaling(factor), rope_functions("linear", seq_len, factor=factor, **size)),
        (
            DynamicNTKScaling(factor, original),
            rope_functions("dynamic", seq_len, factor=factor, longest=original, **size),
        ),
        (
            YaRNScaling(factor, original, truncate=truncate, **mscales, **betas),
            rope_functions(
                "yarn",
                seq_len,
                factor=factor,
                truncate=truncate,
                **context,
                **mscales,
                **betas,
                **size,
            ),
        ),
        (
            Llama3Scaling(factor, 1.0, 4.0, original),
            rope_functions(
                "llama3",
                seq_len,
                factor=factor,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                **context,
                **size,
            ),
        ),
        (
            LongRoPEScaling(short, long, original, factor=factor),
            rope_functions(
                "longrope",
                seq_len,
                factor=factor,
                short_factor=short,
                long_factor=long,
                **context,
                **size,
            ),
        ),
        (
            ProportionalScaling(share, factor),
            rope_functions(
                "proportional", seq_len, factor=factor, partial_rotary_factor=share, **size
            ),
        ),
    ]
    for scaling, (expected, expected_factor) in pairs:
        frequencies, attention = scaling(dim, base, seq_len)
        np.testing.assert_allclose(frequencies, expected, rtol=1e-9, atol=1e-15)
        assert attention == pytest.approx(expected_factor, rel=1e-9)


LLAMA_31 = {
    "model_type": "llama",
    "head_dim": 128,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
QWEN_25_YARN = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rope_scaling": {
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "type": "yarn",
    },
}
PHI_3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0 + i / 48 for i in range(48)],
        "long_factor": [1.0 + i for i in range(48)],
    },
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
    "rope_interleave": True,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "max_position_embeddings": 2048,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
}
QWEN2_VL = {
    "model_type": "qwen2_vl",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
QWEN3_VL = {
    "text_config": {
        "model_type": "qwen3_vl_text",
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5000000,
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
    }
}
BY_LAYER = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}
PROPORTIONAL = {
    "model_type": "llama",
    "head_dim": 128,
    "max_position_embeddings": 4096,
    "rope_parameters": {
        "rope_type": "proportional",
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.25,
    },
}

CONFIGURATIONS = {
    "Llama 3.1": (
        LLAMA_31,
        {},
        RoPE(128, 131072, 500000, scaling=Llama3Scaling(8, 1, 4, 8192)),
    ),
    "Qwen2.5 with YaRN": (
        QWEN_25_YARN,
        {},
        RoPE(128, 32768, 1000000, scaling=YaRNScaling(4, 32768)),
    ),
    "Phi-3": (
        PHI_3,
        {"seq_len": 131_072},
        RoPE(
            96,
            131072,
            scaling=LongRoPEScaling(
                PHI_3["rope_scaling"]["short_factor"],
                PHI_3["rope_scaling"]["long_factor"],
                4096,
                factor=32,
            ),
        ),
    ),
    "DeepSeek": (
        DEEPSEEK,
        {},
        RoPE(
            64,
            163840,
            layout="interleaved",
            scaling=YaRNScaling(40, 4096, mscale=1.0, mscale_all_dim=1.0),
        ),
    ),
    "GPT-NeoX": (NEOX, {}, RoPE(96, 2048, rotary_dim=24)),
    "Qwen2-VL": (QWEN2_VL, {}, RoPE(128, 32768, 1000000, sections=(16, 24, 24))),
    "Qwen3-VL": (
        QWEN3_VL,
        {},
        RoPE(128, 262144, 5000000, sections=(24, 20, 20), section_order="strided"),
    ),
    "by layer, full": (
        BY_LAYER,
        {"layer_type": "full_attention"},
        RoPE(256, 131072, 1e6, scaling=LinearScaling(8)),
    ),
    "by layer, sliding": (
        BY_LAYER,
        {"layer_type": "sliding_attention", "seq_len": 1024, "feature_axis": -1, "seq_axis": -2},
        RoPE(256, 1024, feature_axis=-1, seq_axis=-2),
    ),
    "proportional": (PROPORTIONAL, {}, RoPE(128, 4096, 1e6, scaling=ProportionalScaling(0.25))),
    "old name of LongRoPE": (
        PHI_3 | {"rope_scaling": PHI_3["rope_scaling"] | {"type": "su"}},
        {"seq_len": 4096},
        RoPE(
            96,
            4096,
            scaling=LongRoPEScaling(
                PHI_3["rope_scaling"]["short_factor"],
                PHI_3["rope_scaling"]["long_factor"],
                4096,
                factor=32,
            ),
        ),
    ),
    "dynamic": (
        NEOX | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"seq_len": 8192},
        RoPE(96, 8192, rotary_dim=24, scaling=DynamicNTKScaling(2.0, 2048)),
    ),
    "ntk": (
        {
            "model_type": "llama",
            "head_dim": 64,
            "max_position_embeddings": 99,
            "rope_scaling": {"type": "ntk", "factor": 2},
        },
        {},
        RoPE(64, 99, scaling=NTKScaling(2)),
    ),
    "yarn of lengths": (
        {
            "model_type": "llama",
            "head_dim": 64,
            "max_position_embeddings": 4096,
            "rope_scaling": {
                "type": "yarn",
                "factor": None,
                "original_max_position_embeddings": 1024,
            },
        },
        {},
        RoPE(64, 4096, scaling=YaRNScaling(4, 1024)),
    ),
}


GEMMA_3 = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
MODERN_BERT = {
    "model_type": "modernbert",
    "hidden_size": 768,
    "num_attention_heads": 12,
    "max_position_embeddings": 8192,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "position_embedding_type": "rope",
}
SMALL = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 99}
CONFIGURATIONS |= {
    "Gemma 3, full": (
        GEMMA_3,
        {"layer_type": "full_attention"},
        RoPE(256, 131072, 1e6, scaling=LinearScaling(8)),
    ),
    "Gemma 3, sliding": (GEMMA_3, {"layer_type": "sliding_attention"}, RoPE(256, 131072)),
    "ModernBERT, full": (MODERN_BERT, {"layer_type": "full_attention"}, RoPE(64, 8192, 160000)),
    "ModernBERT, sliding": (MODERN_BERT, {"layer_type": "sliding_attention"}, RoPE(64, 8192)),
    "larger heads of full layers": (
        PROPORTIONAL
        | {
            "model_type": "gemma4_text",
            "global_head_dim": 512,
            "rope_parameters": {"full_attention": PROPORTIONAL["rope_parameters"]},
        },
        {"layer_type": "full_attention"},
        RoPE(512, 4096, 1e6, scaling=ProportionalScaling(0.25)),
    ),
    "DeepSeek as it was published": (
        {key: value for key, value in DEEPSEEK.items() if key != "rope_interleave"},
        {},
        RoPE.from_hf_config(DEEPSEEK),
    ),
    "a number of rotated features": (
        SMALL | {"rotary_dim": 16, "model_type": "minimax_m2", "rope_theta": 10_000},
        {},
        RoPE(64, 99, rotary_dim=16),
    ),
    "StableLM": (
        SMALL | {"partial_rotary_factor": 0.25, "model_type": "stablelm"},
        {},
        RoPE(64, 99, rotary_dim=16),
    ),
    "Phi-3-small": (
        SMALL | {"model_type": "phi3small", "rope_embedding_base": 1e6},
        {"layout": "half"},
        RoPE(64, 99, 1e6),
    ),
    "a base that the code of the type does not name": (
        SMALL | {"rope_embedding_base": 1e6},
        {},
        RoPE(64, 99),
    ),
    "null": (SMALL | {"rope_theta": None, "rope_scaling": None}, {}, RoPE(64, 99)),
    "GPT-J": (
        {"n_embd": 512, "n_head": 8, "n_positions": 99, "rotary_dim": 32, "model_type": "gptj"},
        {},
        RoPE(64, 99, rotary_dim=32, layout="interleaved"),
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations(name, tmp_path):
    config, options, expected = CONFIGURATIONS[name]
    assert RoPE.from_hf_config(config, **options) == expected
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert RoPE.from_hf_config(path, **options) == expected
    assert RoPE.from_hf_config(str(path), **options) == expected


def test_published_factors():
    assert RoPE.from_hf_config(DEEPSEEK).attention_factor == 1
    assert RoPE.from_hf_config(QWEN_25_YARN).attention_factor == pytest.approx(
        0.1 * math.log(4) + 1
    )
    phi = RoPE.from_hf_config(PHI_3, 131_072)
    assert phi.attention_factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)))
    assert phi.inv_freq[1] == pytest.approx(10_000 ** (-2 / 96) / 2)
    assert RoPE.from_hf_config(PHI_3, seq_len=4096).inv_freq[1] > phi.inv_freq[1]
    assert LongRoPEScaling([1.0], [1.0], 100)(2, 10, 50)[1] == 1
    assert LongRoPEScaling([1.0], [1.0], 100, attention_factor=1.5)(2, 10, 500)[1] == 1.5
    assert LongRoPEScaling([1.0], [1.0], 100)(2, 10, 400)[1] > 1
    assert YaRNScaling(0.5, 100)(4, 10, 400)[1] == 1
    assert YaRNScaling(2.0, 100, attention_factor=2)(4, 10, 400)[1] == 2


def test_yarn_of_bounds_that_meet():
    """No frequency has 32 cycles within a short context: all are divided."""
    frequencies, _ = YaRNScaling(2.0, 6)(8, 10_000, 100)
    np.testing.assert_allclose(frequencies, plain(8, 10_000) / [1, 2, 2, 2])


@pytest.mark.parametrize("beta_fast", [32, 1000])
@pytest.mark.parametrize("base", [1.5, 3.0, 20.0, 1e4])
def test_yarn_of_bounds_beyond_the_frequencies(base, beta_fast):
    """Bounds are at most the number of features minus one, as in the authors' code."""
    dim, original, factor = 8, 8192, 4.0
    frequencies, _ = YaRNScaling(factor, original, beta_fast)(dim, base, 100)
    low, high = (
        dim * math.log(original / (cycles * 2 * math.pi)) / (2 * math.log(base))
        for cycles in (beta_fast, 1)
    )
    low, high = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
    for i, whole in enumerate(plain(dim, base)):
        divided = min(max((i - low) / (high - low), 0), 1)
        expected = whole / factor * divided + whole * (1 - divided)
        assert frequencies[i] == pytest.approx(expected, rel=1e-12)


def test_bounds_of_the_factors():
    """Limits: all frequencies, a base below 1, and a context of one position."""
    np.testing.assert_allclose(ProportionalScaling(1.0)(8, 1e4, 9)[0], plain(8, 1e4))
    # The base is 5 * 0.1 ** (4 / 2).
    np.testing.assert_allclose(NTKScaling(0.1)(4, 5.0, 9)[0], plain(4, 0.05))
    assert LongRoPEScaling([1.0], [1.0], 1)(2, 10, 1)[1] == 1


def test_a_scaling_of_ones_own():
    rope = RoPE(4, 9, scaling=lambda *_: ([0.5, 0.25], 2.0))
    np.testing.assert_allclose(rope.inv_freq, [0.5, 0.25])
    np.testing.assert_allclose(rope.cos[1], 2 * np.cos(0.25 * np.arange(9)), atol=1e-15)


def test_llama3_of_equal_bounds_is_a_step():
    frequencies, _ = Llama3Scaling(8.0, 1.0, 1.0, 8192)(128, 500_000, 100)
    whole = plain(128, 500_000)
    expected = np.where(8192 * whole / (2 * math.pi) >= 1, whole, whole / 8)
    np.testing.assert_allclose(frequencies, expected)


def test_the_attention_factor_is_rounded_with_the_table():
    rope = RoPE(8, 500, scaling=YaRNScaling(16.0, 256))
    rows = np.concatenate([np.ones((4, 500)), np.zeros((4, 500))]).astype("float32")
    factor = rope.attention_factor
    exact = factor * np.cos(rope.inv_freq[:, None] * np.arange(500))
    # Half a unit in the last place of numbers between 1 and 2.
    assert abs(rope(rows)[:4] - exact).max() < 2**-24 * 1.01


def test_a_factor_that_leaves_no_finite_base_is_refused():
    for factor in (1e308, 1e150):  # overflow of the factor's power, or of its product with the base
        with pytest.raises(ValueError, match=r"^`factor` must keep `base` = 1e\+200 a finite"):
            NTKScaling(factor)(4, 1e200, 8)
