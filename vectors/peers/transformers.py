"""Hugging Face's transformers: its rotary modules, scalings, masks, biases and eager attention."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.masking_utils import (
    and_masks,
    causal_mask_function,
    chunked_overlay,
    or_masks,
    sliding_window_overlay,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.whisper.modeling_whisper import sinusoids

from check import CannotError

TITLE = "transformers"
PACKAGES = ("transformers",)
DTYPES = ["float32", "float16", "bfloat16"]
LONGEST = 2**17  # of a table from position 0
TYPES = {"linear": "linear", "dynamic_ntk": "dynamic", "yarn": "yarn", "llama3": "llama3"}
TYPES |= {"longrope": "longrope", "proportional": "proportional"}


def config(dim: int, base: float, length: int = 2048, **rope: Any) -> LlamaConfig:
    rope = {"rope_type": "default", "rope_theta": base} | rope
    return LlamaConfig(
        hidden_size=dim, num_attention_heads=1, max_position_embeddings=length, rope_parameters=rope
    )


def positions_of(x: dict[str, Any]) -> torch.Tensor:
    at = torch.as_tensor(x["positions"])
    return at if at.ndim == 2 else at[None]


def tensor(values: Any, dtype: str) -> torch.Tensor:
    return torch.as_tensor(values).to(getattr(torch, dtype))


def cos_sin(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    if p["dim"] % 2:
        raise CannotError("even numbers of features alone")
    module = LlamaRotaryEmbedding(config(p["dim"], p["base"]))
    cos, sin = module(torch.zeros(1), positions_of(x))
    return {"cos": cos[0, :, : p["dim"] // 2].numpy(), "sin": sin[0, :, : p["dim"] // 2].numpy()}


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    given, n = tensor(x["x"], dtype), p["rotary_dim"]
    if p["inverse"]:
        raise CannotError("no inverse")
    if p["layout"] == "interleaved" and n < given.shape[-1]:
        raise CannotError("no model has a part of the features in this layout and module")
    model = neox if p["layout"] == "half" else cohere
    own = config(n, p["base"])
    module = LlamaRotaryEmbedding(own) if model is neox else cohere.CohereRotaryEmbedding(own)
    if p["proportion"] is not None:
        rope = {"rope_type": "proportional", "partial_rotary_factor": p["proportion"]}
        module.inv_freq = ROPE_INIT_FUNCTIONS["proportional"](config(n, p["base"], **rope), "cpu")[
            0
        ]
    q = given if given.ndim == 3 else given[None]
    cos, sin = module(q, positions_of(x))
    y = model.apply_rotary_pos_emb(q[:, None], q[:, None], cos, sin)[0][:, 0]
    return {"y": y.reshape(given.shape).double().numpy()}


def scaled_frequencies(p: dict[str, Any], _: dict[str, Any], __: str) -> dict[str, Any]:
    if p["method"] not in TYPES:
        raise CannotError("no static NTK scaling")
    o, base = dict(p["options"]), p["base"]
    original = o.pop("original_max_position", 2048)
    rope = {"rope_type": TYPES[p["method"]], "rope_theta": base, "factor": None} | o
    # Of dynamic NTK the configured length is that in training.
    length = original if p["method"] == "dynamic_ntk" else p["seq_len"]
    if p["method"] != "dynamic_ntk":
        rope["original_max_position_embeddings"] = original
    if p["method"] == "proportional":
        rope["factor"] = o.get("factor", 1.0)
    own = config(p["dim"], base, length, **rope)
    own.rope_parameters = rope
    function = ROPE_INIT_FUNCTIONS[rope["rope_type"]]
    found, factor = function(own, torch.device("cpu"), seq_len=p["seq_len"])
    return {"frequencies": found.numpy(), "attention_factor": np.asarray(factor)}


def rotate_sections(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    is_qwen = p["layout"] == "half" and p["frequencies"] == "shared" and len(p["sections"]) == 3
    if not is_qwen:
        raise CannotError("three coordinates, half layout and shared frequencies alone")
    given = tensor(x["x"], dtype)
    rope = {"rope_type": "default", "rope_theta": p["base"], "mrope_section": p["sections"]}
    own = config(given.shape[-1], p["base"])
    own.rope_parameters = rope
    own.head_dim = given.shape[-1]
    model, name = (qwen2, "Qwen2VLRotaryEmbedding")
    if p["order"] == "interleaved":
        model, name = (qwen3, "Qwen3VLTextRotaryEmbedding")
    cos, sin = getattr(model, name)(own)(given, torch.as_tensor(x["positions"])[:, None])
    q = given[None, None]
    return {"y": model.apply_rotary_pos_emb(q, q, cos, sin)[0][0, 0].double().numpy()}


def sinusoid(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    whisper = {"arrangement": "concatenated", "endpoint": True, "cos_first": False, "start": 0}
    whisper |= {"full_turns": False, "amplitude": 1, "length": None}
    at = x["positions"]
    if any(p[name] != value for name, value in whisper.items()) or p["dim"] % 2:
        raise CannotError("other arrangements than that of Whisper are in other models")
    if at.dtype != np.int64 or at.min() < 0 or at.max() >= LONGEST:
        raise CannotError("a table of the first positions alone")
    return {"encoding": sinusoids(int(at.max()) + 1, p["dim"], p["base"])[at].numpy()}


def t5_bucket(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    bucket = T5Attention._relative_position_bucket  # noqa: SLF001 - it has no other
    return {"bucket": bucket(torch.as_tensor(x["relative"]), **p).numpy()}


def alibi_slopes(p: dict[str, Any], _: dict[str, Any], dtype: str) -> dict[str, Any]:
    bias = build_alibi_tensor(torch.ones(1, 2), p["num_heads"], getattr(torch, dtype))
    return {"slopes": bias[:, 0, 1].double().numpy()}


def mask(p: dict[str, Any], _: dict[str, Any], __: str) -> dict[str, Any]:
    functions = []
    for rule in p["rules"]:
        name = rule["rule"]
        if name == "causal" and not rule["diagonal"]:
            functions.append(causal_mask_function)
        elif name == "window" and rule["right"] is None and rule["left"] is not None:
            functions.append(sliding_window_overlay(rule["left"] + 1))
        elif name == "chunked":
            functions.append(chunked_overlay(rule["size"], torch.zeros(1, dtype=torch.int64)))
        elif name == "any" and not rule["rules"]:
            functions.append(or_masks())
        else:
            raise CannotError("causal masks, windows before a query, and chunks alone")
    see = and_masks(*functions)
    queries, keys = range(p["offset"], p["offset"] + p["query_count"]), range(p["key_count"])
    own = [[bool(see(0, 0, torch.tensor(q), torch.tensor(k))) for k in keys] for q in queries]
    return {"attends": np.asarray([own])}


def attention(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if "sinks" in x and p["softcap"] is not None:
        raise CannotError("no model has sinks and a softcap")
    q, k, v = (tensor(x[name], dtype)[None] for name in "qkv")
    added = None
    if "attends" in x:  # as its models make a mask that is added
        hidden = ~torch.as_tensor(x["attends"])[None]
        least = torch.finfo(q.dtype).min
        added = torch.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, least)
    if "bias" in x:
        bias = tensor(x["bias"], dtype)[None]
        added = bias if added is None else added + bias
    module = SimpleNamespace(num_key_value_groups=q.shape[1] // k.shape[1], training=False)
    if "sinks" in x:
        module.sinks = tensor(x["sinks"], dtype)
        output = gpt_oss.eager_attention_forward(module, q, k, v, added, p["scale"])[0]
    else:
        options = {"scaling": p["scale"], "softcap": p["softcap"]}
        output = gemma2.eager_attention_forward(module, q, k, v, added, **options)[0]
    return {"output": output[0].transpose(0, 1).double().numpy()}


FUNCTIONS = {
    f.__name__: f
    for f in (
        cos_sin,
        rotate,
        scaled_frequencies,
        rotate_sections,
        sinusoid,
        t5_bucket,
        alibi_slopes,
        mask,
        attention,
    )
}
