"""Models whose attention is all from `attention_layers` give what transformers does.

In prefill, decoding, both paddings, and with rings where there are windows. As in
`test_model_families`, float32 is float64 for the models of transformers.
"""

import inspect

import numpy as np
import pytest

import configured_families as families
from model_families import AXES, Weights
from positional_embeddings import KVCache, attention_layers, multimodal_positions
from test_model_families import (
    ALTERNATING,
    GROUPED,
    IDS,
    LENGTHS,
    OLD,
    SIZES,
    TOKENS,
    VOCABULARY,
    WINDOW,
    YARN,
    check,
    draw,
    float32_is_float64,
    padded,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the models
    pytest.mark.library("torch", "transformers"),
]
WIDE = GROUPED | {"head_dim": 16}
WINDOWED = GROUPED | {"sliding_window": WINDOW}
MIXED = WINDOWED | ALTERNATING
EXPERTS = {"num_experts_per_tok": 2, "experts_implementation": "eager"}
LATENT = SIZES | {
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "rope_parameters": YARN
    | {"rope_theta": 1e4, "factor": 40.0}
    | {"mscale": 0.7, "mscale_all_dim": 1.0},
}
DENSE = LATENT | {"first_k_dense_replace": 3}
OF_LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
SECTIONS = {"rope_parameters": {"rope_theta": 1e4, "mrope_section": [4, 2, 2]}}
OF_TEXT = (
    WINDOWED | {"hidden_size": 64, "use_sliding_window": True, "max_window_layers": 1} | SECTIONS
)
LAYER_NORM = "layer_norm_eps"
# For each model type its class, its port, what is to be changed of its configuration, and the name
# of epsilon there.
FAMILIES = {
    "apertus": ("Apertus", families.apertus, GROUPED | {"rope_parameters": OF_LLAMA_3}),
    "arcee": ("Arcee", families.arcee, GROUPED),
    "bitnet": ("BitNet", families.bitnet, GROUPED),
    "cohere2": ("Cohere2", families.cohere2, MIXED | {"logit_scale": 0.5}, LAYER_NORM),
    "cohere2_moe": (
        "Cohere2Moe",
        families.cohere2_moe,
        MIXED | EXPERTS | {"logit_scale": 0.5, "num_experts": 4, "head_dim": 8},
        LAYER_NORM,
    ),
    "cwm": ("Cwm", families.llama, MIXED | WIDE | {"rope_parameters": OF_LLAMA_3}),
    "deepseek_v2": ("DeepseekV2", families.deepseek, DENSE),
    "deepseek_v3": ("DeepseekV3", families.deepseek, DENSE),
    "dots1": ("Dots1", families.with_head_norms, WIDE | {"first_k_dense_replace": 3}),
    "ernie4_5": ("Ernie4_5", families.llama, WIDE | {"use_bias": True}),
    "exaone4": ("Exaone4", families.exaone4, MIXED),
    "exaone_moe": (
        "ExaoneMoe",
        families.with_head_norms,
        MIXED | {"mlp_layer_types": ["dense"] * 3},
    ),
    "flint": ("Flint", families.flint, MIXED | WIDE | {"mlp_only_layers": [0, 1, 2]}),
    "gemma": ("Gemma", families.gemma, WIDE),
    "glm": ("Glm", families.glm, WIDE | {"attention_bias": True}),
    "glm4": ("Glm4", families.glm4, WIDE | {"attention_bias": True}),
    "glm4_moe": (
        "Glm4Moe",
        families.with_head_norms,
        WIDE | {"first_k_dense_replace": 3, "use_qk_norm": True},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        families.gpt2,
        OLD | {"vocab_size": VOCABULARY},
        "layer_norm_epsilon",
    ),
    "granite": (
        "Granite",
        families.granite,
        GROUPED
        | {"attention_multiplier": 0.2, "residual_multiplier": 0.7}
        | {"embedding_multiplier": 3.0, "logits_scaling": 2.0},
    ),
    "granite_swa": ("GraniteSWA", families.granite_swa, MIXED | {"attention_multiplier": 0.2}),
    "granitemoe": (
        "GraniteMoe",
        families.granitemoe,
        GROUPED | EXPERTS | {"num_local_experts": 4, "attention_multiplier": 0.2},
    ),
    "granitemoe_swa": (
        "GraniteMoeSWA",
        families.granitemoe_swa,
        MIXED | EXPERTS | {"num_local_experts": 4, "attention_multiplier": 0.2},
    ),
    "helium": ("Helium", families.llama, GROUPED | {"head_dim": 8}),
    "jais2": ("Jais2", families.jais2, GROUPED, LAYER_NORM),
    "kolibri1": (
        "Kolibri1",
        families.kolibri1,
        MIXED
        | WIDE
        | EXPERTS
        | {"num_experts": 4, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24},
    ),
    "lfm3": ("Lfm3", families.lfm3, MIXED | WIDE | {"use_attention_gate": False}),
    "mimo_v2_flash": (
        "MiMoV2Flash",
        families.mimo_v2_flash,
        MIXED
        | {"head_dim": 24, "v_head_dim": 12, "num_key_value_heads": 1}
        | {"mlp_layer_types": ["dense"] * 3},
    ),
    "minicpm3": (
        "MiniCPM3",
        families.minicpm3,
        LATENT | {"scale_emb": 3, "scale_depth": 1.4} | {"dim_model_base": 16},
    ),
    "ministral": ("Ministral", families.llama, WINDOWED | WIDE),
    "mixtral": ("Mixtral", families.mixtral, WINDOWED | EXPERTS | {"num_local_experts": 4}),
    "modernbert-decoder": (
        "ModernBertDecoder",
        families.modernbert_decoder,
        SIZES
        | ALTERNATING
        | {"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
        "norm_eps",
    ),
    "nemotron": ("Nemotron", families.nemotron, GROUPED, "norm_eps"),
    "olmo": ("Olmo", families.olmo, GROUPED | {"clip_qkv": 0.5}),
    "olmo2": ("Olmo2", families.olmo2, GROUPED),
    "olmo3": ("Olmo3", families.olmo2, MIXED | {"rope_parameters": YARN | {"rope_theta": 1e4}}),
    "olmoe": ("Olmoe", families.olmoe, GROUPED | EXPERTS | {"num_experts": 4}),
    "persimmon": ("Persimmon", families.persimmon, SIZES, LAYER_NORM),
    "phi": ("Phi", families.phi, GROUPED | {"qk_layernorm": True}, LAYER_NORM),
    "qwen2": (
        "Qwen2",
        families.llama,
        WINDOWED | {"use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen2_5_omni_text": ("Qwen2_5OmniThinkerTextModel", families.llama, OF_TEXT | SECTIONS),
    "qwen2_5_vl_text": ("Qwen2_5_VLTextModel", families.llama, OF_TEXT | SECTIONS),
    "qwen3_moe": (
        "Qwen3Moe",
        families.qwen3_moe,
        WIDE
        | EXPERTS
        | {"sliding_window": WINDOW, "use_sliding_window": True, "norm_topk_prob": True}
        | {"num_experts": 4, "moe_intermediate_size": 24},
    ),
    "seed_oss": ("SeedOss", families.llama, WIDE | {"attention_bias": True}),
    "smollm3": ("SmolLM3", families.llama, GROUPED | {"no_rope_layers": [1, 0, 1]}),
    "stablelm": ("StableLm", families.stablelm, GROUPED, LAYER_NORM),
    "starcoder2": ("Starcoder2", families.starcoder2, WINDOWED, "norm_epsilon"),
    "youtu": ("Youtu", families.deepseek, LATENT),
    "vaultgemma": (
        "VaultGemma",
        families.vaultgemma,
        MIXED
        | {"head_dim": 16, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0}
        | {"final_logit_softcapping": 3.0},
    ),
}
# The same of models of text and images.
OF_IMAGES = {
    "qwen2_vl_text": ("Qwen2VLTextModel", families.llama, GROUPED | {"hidden_size": 64} | SECTIONS),
    "qwen3_vl_text": ("Qwen3VLTextModel", families.with_head_norms, WIDE | SECTIONS),
}
PARTS = 2, (1, 2, 3), 2  # tokens of text, and an image


@pytest.fixture(scope="module")
def ported():
    """Return for a model type a port, its layers, and what transformers gives for each sequence."""
    import torch
    import transformers

    known = {}

    def make(name):
        if name not in known:
            class_name, port, options, *epsilon = (FAMILIES | OF_IMAGES)[name]
            kind = getattr(transformers, class_name, None)
            kind = kind or getattr(transformers, f"{class_name}ForCausalLM")
            config = kind.config_class(**options)
            assert config.model_type == name
            model = kind(config).eval().to(torch.float64)
            draw(model)
            theirs = []
            for row, count in zip(IDS, LENGTHS, strict=True):
                given = {"input_ids": torch.asarray(row[None, :count])}
                if name in OF_IMAGES:
                    given["position_ids"] = torch.asarray(places_of(PARTS, count)[:, None])
                with torch.no_grad():
                    theirs.append(model(**given)[0][0].numpy())
            arrays = {key: x.detach().numpy() for key, x in model.state_dict().items()}
            if class_name.endswith("TextModel"):  # which returns no logits
                arrays = {f"model.{key}": x for key, x in arrays.items()}
                arrays["lm_head.weight"] = np.eye(config.hidden_size)
            (epsilon,) = epsilon or ("rms_norm_eps",)
            weights = Weights(arrays, getattr(config, epsilon, None))
            layers = attention_layers(config.to_dict(), **AXES)
            known[name] = port(config, weights), layers, theirs
        return known[name]

    with float32_is_float64():
        yield make


def places_of(parts, count):
    """Return positions of a prompt of text and images, and of text after it, (3, count)."""
    positions, following = multimodal_positions(parts)
    after = following + np.arange(TOKENS)
    return np.concat([positions, np.stack([after] * 3)], axis=1)[:, :count]


def windows_of(name):
    options = FAMILIES[name][2]
    return {WINDOW} if "sliding_window" in options else set()


def decode(model, cache, ids, tokens, **positions):
    """Return the next cache, and what follows each of the new tokens."""
    cache, step = cache.step(tokens, **positions)
    return cache, families.forward(model, cache._form.layers, step.attend, ids, step.positions)


EACH = pytest.mark.parametrize("name", FAMILIES)


@EACH
def test_whole_sequences(ported, name):
    model, layers, theirs = ported(name)
    windows = {layer.window for layer in layers} - {None}
    assert {window for window in windows if window < TOKENS} == windows_of(name)
    attend = lambda number, *qkv, sinks: layers[number](*qkv, sinks=sinks)  # noqa: E731
    got = families.forward(model, layers, attend, IDS[:1], np.arange(TOKENS))
    check(got[0], theirs[0])


@EACH
@pytest.mark.parametrize("sizes", [(TOKENS,), (5, 1, 1, 3, 1, 1), (9, 3), (1,) * TOKENS], ids=str)
def test_decoding(ported, name, sizes):
    model, layers, theirs = ported(name)
    cache, got = KVCache.empty(layers, 1, TOKENS + 3), []
    assert {slots.capacity for slots in cache._form.slots} - {TOKENS + 3} == windows_of(name)
    for ids in np.split(IDS[:1], np.cumsum(sizes)[:-1], axis=1):
        cache, found = decode(model, cache, ids, ids.shape[1])
        got.append(found[0])
    check(np.concat(got), theirs[0])


@EACH
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(ported, name, side):
    """Two prompts of 9 and 4 tokens, three tokens more of each."""
    model, layers, theirs = ported(name)
    prompts = 9, 4
    ids, mask = padded(side, prompts)
    cache, got = decode(model, KVCache.empty(layers, 2, TOKENS), ids, mask)
    rows = [got[row][mask[row] == 1] for row in range(2)]
    for more in range(3):
        ids = np.asarray([[IDS[row, count + more]] for row, count in enumerate(prompts)])
        cache, got = decode(model, cache, ids, 1)
        rows = [np.concat([*pair]) for pair in zip(rows, got, strict=True)]
    check(np.concat(rows), np.concat(theirs))


@pytest.mark.parametrize("name", OF_IMAGES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_text_after_images(ported, name, side):
    """Two prompts, the second of which ends within its image."""
    model, layers, theirs = ported(name)
    prompts = 10, 4
    ids, mask = padded(side, prompts)
    places = np.zeros((3, *mask.shape), dtype=np.int64)
    for row, count in enumerate(prompts):
        places[:, row, mask[row] == 1] = places_of(PARTS, count)
    empty = KVCache.empty(layers, 2, TOKENS)
    cache, got = decode(model, empty, ids, mask, positions=places)
    rows = [got[row][mask[row] == 1] for row in range(2)]
    check(np.concat(rows), np.concat([x[:count] for x, count in zip(theirs, prompts, strict=True)]))
    for more in range(2):
        ids = IDS[:, [10 + more]]
        cache, got = decode(model, cache, ids, 1)
        check(got[0], theirs[0][[10 + more]])


@EACH
def test_ports_are_short(name):
    """They also say nothing of attention."""
    port = FAMILIES[name][1]
    code = inspect.getsource(port)
    assert code.count("\n") <= families.LONGEST_PORT
    assert not any(word in code for word in ("rope", "mask", "window", "scale=", "softcap="))
