"""Models in NumPy give what transformers does: prefill, decoding, paddings, rings.

Each family has random weights of a tiny configuration. Models of transformers compute norms,
angles and softmax in float32 whatever the dtype of their weights, so here float32 is float64 for
them: every operation is in float64.
"""

from contextlib import contextmanager

import numpy as np
import pytest

import model_families as families

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the models
    pytest.mark.library("torch", "transformers"),
]
TOKENS, VOCABULARY, WINDOW = 12, 50, 4
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}
GROUPED = SIZES | {"num_key_value_heads": 2}
ALTERNATING = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": WINDOW,
}
GEMMA = GROUPED | ALTERNATING | {"head_dim": 16, "query_pre_attn_scalar": 24}
OLD = {"n_layer": 3, "n_head": 4, "n_positions": 64, "n_embd": 32, "attn_implementation": "eager"}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "attn_implementation": "eager",
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
# The class of transformers, what is to be changed of its configuration, and the name of epsilon.
CAUSAL = {
    "llama": ("LlamaForCausalLM", GROUPED, "rms_norm_eps"),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 16}, "rms_norm_eps"),
    "mistral": ("MistralForCausalLM", GROUPED | {"sliding_window": WINDOW}, "rms_norm_eps"),
    "phi3": ("Phi3ForCausalLM", GROUPED | {"sliding_window": WINDOW}, "rms_norm_eps"),
    "gemma2": ("Gemma2ForCausalLM", GEMMA, "rms_norm_eps"),
    "gemma3": ("Gemma3ForCausalLM", GEMMA, "rms_norm_eps"),
    "gpt_neox": ("GPTNeoXForCausalLM", SIZES | {"rotary_pct": 0.5}, "layer_norm_eps"),
    "gptj": (
        "GPTJForCausalLM",
        OLD | {"vocab_size": VOCABULARY, "rotary_dim": 4},
        "layer_norm_epsilon",
    ),
    "cohere": ("CohereForCausalLM", GROUPED | {"logit_scale": 0.5}, "layer_norm_eps"),
    "gpt_oss": (
        "GptOssForCausalLM",
        GROUPED
        | ALTERNATING
        | {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}
        | {"experts_implementation": "eager"}
        | {"rope_parameters": YARN | {"rope_theta": 1e4, "truncate": False}},
        "rms_norm_eps",
    ),
    "bloom": (
        "BloomForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 3, "n_head": 4}
        | {"attn_implementation": "eager"},
        "layer_norm_epsilon",
    ),
    "t5_decoder": ("T5ForConditionalGeneration", T5, "layer_norm_epsilon"),
}
ENCODERS = {
    "t5_encoder": ("T5EncoderModel", T5, "layer_norm_epsilon"),
    "modernbert": (
        "ModernBertModel",
        SIZES
        | {"local_attention": 6, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1}
        | {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
        "norm_eps",
    ),
}
WINDOWED = ("mistral", "phi3", "gemma2", "gemma3", "gpt_oss")
IDS = np.random.default_rng(0).integers(3, VOCABULARY, (2, TOKENS))
LENGTHS = (TOKENS, 7)


def draw(model):
    """Give a model random weights, the ones of norms about 1."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        weight.data = noise * 0.3 + ("norm" in name or "ln_" in name) * name.endswith("weight")


@contextmanager
def float32_is_float64():
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(default)


@pytest.fixture(scope="module")
def ported():
    """Return for each name a port, and what transformers gives for each sequence by itself."""
    import torch
    import transformers

    known = {}

    def make(name):
        if name not in known:
            class_name, options, epsilon = (CAUSAL | ENCODERS)[name]
            kind = getattr(transformers, class_name)
            config = kind.config_class(**options)
            model = kind(config).eval().to(torch.float64)
            draw(model)
            ids = [torch.asarray(row[None, :n]) for row, n in zip(IDS, LENGTHS, strict=True)]
            given, encoded = {}, ()
            if name == "t5_decoder":
                given = {"encoder_outputs": (torch.randn(1, 5, 32),)}
                encoded = (given["encoder_outputs"][0].numpy(),)
            key = "decoder_input_ids" if encoded else "input_ids"
            with torch.no_grad():
                theirs = [model(**{key: row}, **given)[0][0].numpy() for row in ids]
            arrays = {key: x.detach().numpy() for key, x in model.state_dict().items()}
            weights = families.Weights(arrays, getattr(config, epsilon))
            known[name] = getattr(families, name)(config, weights, *encoded), theirs
        return known[name]

    with float32_is_float64():
        yield make


def check(got, theirs):
    assert got.dtype == np.float64
    assert np.abs(theirs).max() > 0.5
    print(f"largest difference {np.abs(got - theirs).max():.1e}")
    np.testing.assert_allclose(got, theirs, rtol=0, atol=1e-12)


def padded(side, lengths):
    """Return ids and an attention mask, (batch, seq), of prompts of some lengths."""
    seq = max(lengths)
    ids, mask = np.zeros((2, len(lengths), seq), dtype=np.int64)
    for row, count in enumerate(lengths):
        at = slice(seq - count, seq) if side == "left" else slice(count)
        ids[row, at], mask[row, at] = IDS[row, :count], 1
    return ids, mask


@pytest.mark.parametrize("name", CAUSAL)
def test_prefill(ported, name):
    model, theirs = ported(name)
    state = families.new_state(model, 1, TOKENS, ring=False)
    check(families.forward(model, state, IDS[:1], TOKENS)[0], theirs[0])


RINGS = [(name, ring) for name in CAUSAL for ring in (False, True) if not ring or name in WINDOWED]
CACHED = pytest.mark.parametrize(("name", "ring"), RINGS)


@CACHED
@pytest.mark.parametrize("sizes", [(5, 1, 1, 3, 1, 1), (9, 3), (1,) * TOKENS], ids=str)
def test_decoding(ported, name, ring, sizes):
    model, theirs = ported(name)
    state = families.new_state(model, 1, TOKENS + 3, ring=ring)
    parts = np.split(IDS[:1], np.cumsum(sizes)[:-1], axis=1)
    got = [families.forward(model, state, ids, ids.shape[1]) for ids in parts]
    check(np.concat(got, axis=1)[0], theirs[0])


@CACHED
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(ported, name, ring, side):
    """Two prompts of 9 and 4 tokens, three tokens more of each."""
    model, theirs = ported(name)
    state = families.new_state(model, 2, TOKENS, ring=ring)
    prompts = 9, 4
    ids, mask = padded(side, prompts)
    got = families.forward(model, state, ids, mask)
    rows = [got[row][mask[row] == 1] for row in range(2)]
    for more in range(3):
        ids = np.asarray([[IDS[row, count + more]] for row, count in enumerate(prompts)])
        got = families.forward(model, state, ids, 1)
        rows = [np.concat([*pair]) for pair in zip(rows, got, strict=True)]
    check(np.concat(rows), np.concat(theirs))


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_encoders(ported, name, side):
    model, theirs = ported(name)
    ids, mask = padded(side, LENGTHS)
    state = families.new_state(model, 2, TOKENS, ring=False)
    got = families.forward(model, state, ids, mask)[mask == 1]
    check(got, np.concat(theirs))
