"""Twelve families of models in NumPy: one layer as data, one function that runs it.

Activations are (batch, seq, features), and (batch, heads, seq, head) within attention. A family
is a function from a configuration and the weights of transformers to a `Model`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from positional_embeddings import (
    ALiBiBias,
    AttentionLayer,
    CausalMask,
    KVCache,
    Mask,
    RoPE,
    SlidingWindowMask,
    T5Bias,
    scaled_dot_product_attention,
)

AXES = {"feature_axis": -1, "seq_axis": -2}
Function = Callable[[np.ndarray], np.ndarray]


def same(x):
    return x


class Layer(NamedTuple):
    """What a layer does to tokens, as functions and as values of the library."""

    norm: Function
    qkv: tuple[Function, Function, Function]
    out: Function
    mlp_norm: Function
    mlp: Function
    q_norm: Function = same
    k_norm: Function = same
    after_attention: Function = same
    after_mlp: Function = same
    is_parallel: bool = False  # the MLP does not see what attention found
    rope: RoPE | None = None
    mask: Mask | None = CausalMask()
    window: int | None = None  # keys that a ring has to keep
    attention: dict[str, Any] = {}  # scale, softcap, sinks, bias  # noqa: RUF012


class Model(NamedTuple):
    embed: Function
    layers: list[Layer]
    head: Function
    head_size: int
    kv_heads: int


@dataclass
class State:
    """The cache of a model, which each step replaces."""

    cache: KVCache


def new_state(model, batch, capacity, *, ring):
    """Return a state without tokens; with `ring` a layer with a window keeps no more than that."""
    layers = [
        AttentionLayer(
            model.kv_heads,
            model.head_size,
            mask=layer.mask if ring and layer.window else None,
            window=layer.window if ring else None,
            **AXES,
        )
        for layer in model.layers
    ]
    return State(KVCache.empty(layers, batch, capacity))


def forward(model, state, ids, tokens):
    """Return what follows each of the new tokens: `tokens` is their number, or a padding mask."""
    state.cache, step = state.cache.step(tokens)
    rotate = {x.rope: x.rope.tables(step.positions) if x.rope else same for x in model.layers}
    hidden = model.embed(ids)
    for number, layer in enumerate(model.layers):
        x = layer.norm(hidden)
        q, k, v = (split_heads(project(x), model.head_size) for project in layer.qkv)
        keys, values = step.update(number, rotate[layer.rope](layer.k_norm(k)), v)
        attended = scaled_dot_product_attention(
            rotate[layer.rope](layer.q_norm(q)),
            keys,
            values,
            mask=layer.mask,
            positions=step.of(number),
            enable_gqa=True,
            **layer.attention,
            **AXES,
        )
        attended = layer.after_attention(layer.out(merge_heads(attended)))
        x = layer.mlp_norm(hidden if layer.is_parallel else hidden + attended)
        hidden = hidden + attended + layer.after_mlp(layer.mlp(x))
    return model.head(hidden)


def split_heads(x, head_size):
    return x.reshape(*x.shape[:2], -1, head_size).swapaxes(1, 2)


def merge_heads(x):
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


# Parts of layers.


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * np.vectorize(lambda u: 0.5 * (1 + math.erf(u / math.sqrt(2))))(x)


def gelu_tanh(x, factor=(2 / math.pi) ** 0.5):
    return 0.5 * x * (1 + np.tanh(factor * x * (1 + 0.044715 * x * x)))


def relu(x):
    return np.maximum(x, 0)


def linear(weight, bias=0.0):
    return lambda x: x @ weight.T + bias


def rms_norm(weight, epsilon):
    return lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def layer_norm(weight, bias, epsilon):
    centre = lambda x: x - x.mean(-1, keepdims=True)  # noqa: E731
    return lambda x: centre(x) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * weight + bias


def two_layers(first, activation, second):
    return lambda x: second(activation(first(x)))


def gated(gate, activation, up, down):
    return lambda x: down(activation(gate(x)) * up(x))


class Weights:
    """Arrays by the names of transformers, below a prefix, and the parts that are made of them."""

    def __init__(self, arrays, epsilon, prefix=""):
        self.arrays, self.epsilon, self.prefix = arrays, epsilon, prefix

    def at(self, prefix):
        return Weights(self.arrays, self.epsilon, f"{self.prefix}{prefix}.")

    def __getitem__(self, name):
        return self.arrays[f"{self.prefix}{name}"]

    def bias(self, name):
        return self.arrays.get(f"{self.prefix}{name}.bias", 0.0)

    def linear(self, name):
        return linear(self[f"{name}.weight"], self.bias(name))

    def parts(self, name, *sizes, groups=1):
        """Return a matrix in parts: of these numbers of outputs, in each of some groups."""
        weight = self[f"{name}.weight"]
        bias = np.broadcast_to(self.bias(name), len(weight))
        ends = np.cumsum(sizes)[:-1]
        weights = np.split(weight.reshape(groups, sum(sizes), -1), ends, axis=1)
        biases = np.split(bias.reshape(groups, sum(sizes)), ends, axis=1)
        return tuple(
            linear(w.reshape(-1, weight.shape[1]), b.reshape(-1))
            for w, b in zip(weights, biases, strict=True)
        )

    def rms_norm(self, name, plus=0):
        return rms_norm(plus + self[f"{name}.weight"], self.epsilon)

    def layer_norm(self, name, plus=0):
        return layer_norm(plus + self[f"{name}.weight"], self.bias(name), self.epsilon)

    def embedding(self, name, factor=1.0):
        return lambda ids, _positions=None: self[f"{name}.weight"][ids] * factor

    def qkv(self, name="self_attn"):
        return tuple(self.linear(f"{name}.{x}_proj") for x in "qkv")

    def gated(self, activation):
        return gated(
            self.linear("mlp.gate_proj"),
            activation,
            self.linear("mlp.up_proj"),
            self.linear("mlp.down_proj"),
        )


def rope_of(config, kind=None):
    return RoPE.from_hf_config(config.to_dict(), 1024, layer_type=kind, **AXES)


def window(width):
    """Return what a layer has that sees only this many keys."""
    if width is None:
        return {}
    return {"mask": CausalMask() | SlidingWindowMask(width - 1, 0), "window": width}


def window_of(config, i):
    return window(config.sliding_window if config.layer_types[i] == "sliding_attention" else None)


def head_norms(w, **options):
    return {f"{x}_norm": w.rms_norm(f"self_attn.{x}_norm", **options) for x in "qk"}


def model_of(config, embed, layers, head):
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Model(embed, layers, head, size, getattr(config, "num_key_value_heads", None) or heads)


def llama_layer(w, rope=None, mlp=lambda at: at.gated(silu), **options):
    return Layer(
        norm=w.rms_norm("input_layernorm"),
        qkv=w.qkv(),
        out=w.linear("self_attn.o_proj"),
        mlp_norm=w.rms_norm("post_attention_layernorm"),
        mlp=mlp(w),
        rope=rope,
        **options,
    )


def stack(w, config, layer, embed=None, final=None):
    """Return the model of some layers, with the names of Llama."""
    norm, out = final or w.rms_norm("model.norm"), w.linear("lm_head")
    layers = [layer(w.at(f"model.layers.{i}"), i) for i in range(config.num_hidden_layers)]
    embed = embed or w.embedding("model.embed_tokens")
    return model_of(config, embed, layers, lambda x: out(norm(x)))


# The families.


def llama(config, w):
    return stack(w, config, lambda at, _: llama_layer(at, rope_of(config)))


def qwen3(config, w):
    return stack(w, config, lambda at, _: llama_layer(at, rope_of(config), **head_norms(at)))


def mistral(config, w):
    options = window(config.sliding_window)
    return stack(w, config, lambda at, _: llama_layer(at, rope_of(config), **options))


def phi3(config, w):
    size, wide = config.hidden_size // config.num_attention_heads, config.intermediate_size
    kv = config.num_key_value_heads * size

    def layer(at, _):
        gate, up = at.parts("mlp.gate_up_proj", wide, wide)
        return Layer(
            norm=at.rms_norm("input_layernorm"),
            qkv=at.parts("self_attn.qkv_proj", config.hidden_size, kv, kv),
            out=at.linear("self_attn.o_proj"),
            mlp_norm=at.rms_norm("post_attention_layernorm"),
            mlp=gated(gate, silu, up, at.linear("mlp.down_proj")),
            rope=rope_of(config),
            **window(config.sliding_window),
        )

    return stack(w, config, layer)


def gemma2(config, w, norms=lambda _: {}):
    attention = {"scale": config.query_pre_attn_scalar**-0.5}
    attention["softcap"] = config.attn_logit_softcapping
    cap = config.final_logit_softcapping

    def layer(at, i):
        return Layer(
            norm=at.rms_norm("input_layernorm", plus=1),
            qkv=at.qkv(),
            out=at.linear("self_attn.o_proj"),
            after_attention=at.rms_norm("post_attention_layernorm", plus=1),
            mlp_norm=at.rms_norm("pre_feedforward_layernorm", plus=1),
            mlp=at.gated(gelu_tanh),
            after_mlp=at.rms_norm("post_feedforward_layernorm", plus=1),
            rope=rope_of(config, config.layer_types[i]),
            attention=attention,
            **window_of(config, i),
            **norms(at),
        )

    embed = w.embedding("model.embed_tokens", config.hidden_size**0.5)
    model = stack(w, config, layer, embed, w.rms_norm("model.norm", plus=1))
    return model._replace(head=lambda x: cap * np.tanh(model.head(x) / cap)) if cap else model


def gemma3(config, w):
    return gemma2(config, w, lambda at: head_norms(at, plus=1))


def gpt_neox(config, w):
    heads = config.num_attention_heads
    size = config.hidden_size // heads

    def layer(at):
        return Layer(
            norm=at.layer_norm("input_layernorm"),
            qkv=at.parts("attention.query_key_value", size, size, size, groups=heads),
            out=at.linear("attention.dense"),
            mlp_norm=at.layer_norm("post_attention_layernorm"),
            mlp=two_layers(at.linear("mlp.dense_h_to_4h"), gelu, at.linear("mlp.dense_4h_to_h")),
            is_parallel=True,
            rope=rope_of(config),
        )

    layers = [layer(w.at(f"gpt_neox.layers.{i}")) for i in range(config.num_hidden_layers)]
    norm, out = w.layer_norm("gpt_neox.final_layer_norm"), w.linear("lm_head")
    return model_of(config, w.embedding("gpt_neox.embed_in"), layers, lambda x: out(norm(x)))


def gptj(config, w):
    def layer(at):
        return Layer(
            norm=at.layer_norm("ln_1"),
            qkv=at.qkv("attn"),
            out=at.linear("attn.out_proj"),
            mlp_norm=at.layer_norm("ln_1"),
            mlp=two_layers(at.linear("mlp.fc_in"), gelu_tanh, at.linear("mlp.fc_out")),
            is_parallel=True,
            rope=rope_of(config),
        )

    layers = [layer(w.at(f"transformer.h.{i}")) for i in range(config.n_layer)]
    norm, out = w.layer_norm("transformer.ln_f"), w.linear("lm_head")
    return model_of(config, w.embedding("transformer.wte"), layers, lambda x: out(norm(x)))


def cohere(config, w):
    def layer(at, _):
        return Layer(
            norm=at.layer_norm("input_layernorm"),
            qkv=at.qkv(),
            out=at.linear("self_attn.o_proj"),
            mlp_norm=at.layer_norm("input_layernorm"),
            mlp=at.gated(silu),
            is_parallel=True,
            rope=rope_of(config),
        )

    model = stack(w, config, layer, final=w.layer_norm("model.norm"))
    return model._replace(head=lambda x: config.logit_scale * model.head(x))


def gpt_oss(config, w):
    def experts(at):
        weights = [at[f"mlp.experts.{x}_proj"] for x in ("gate_up", "down")]
        biases = [at[f"mlp.experts.{x}_proj_bias"] for x in ("gate_up", "down")]
        router, limit = at.linear("mlp.router"), config.swiglu_limit

        def mlp(x):
            scores = router(x)
            least = np.sort(scores, axis=-1)[..., -config.num_experts_per_tok, None]
            shares = np.where(scores >= least, np.exp(scores - scores.max(-1, keepdims=True)), 0)
            shares = shares / shares.sum(-1, keepdims=True)
            both = np.einsum("bsi,eio->bseo", x, weights[0]) + biases[0]
            gate, up = np.minimum(both[..., ::2], limit), np.clip(both[..., 1::2], -limit, limit)
            found = (up + 1) * gate / (1 + np.exp(-config.swiglu_alpha * gate))
            found = np.einsum("bsei,eio->bseo", found, weights[1]) + biases[1]
            return (shares[..., None] * found).sum(2)

        return mlp

    def layer(at, i):
        sinks = {"sinks": at["self_attn.sinks"]}
        options = window_of(config, i)
        return llama_layer(at, rope_of(config), experts, attention=sinks, **options)

    return stack(w, config, layer)


def bloom(config, w):
    heads = config.n_head
    size = config.hidden_size // heads

    def gelu_of_bloom(x):
        return gelu_tanh(x, 0.79788456)

    def layer(at):
        wide, narrow = at.linear("mlp.dense_h_to_4h"), at.linear("mlp.dense_4h_to_h")
        return Layer(
            norm=at.layer_norm("input_layernorm"),
            qkv=at.parts("self_attention.query_key_value", size, size, size, groups=heads),
            out=at.linear("self_attention.dense"),
            mlp_norm=at.layer_norm("post_attention_layernorm"),
            mlp=two_layers(wide, gelu_of_bloom, narrow),
            attention={"bias": ALiBiBias(heads)},
        )

    layers = [layer(w.at(f"transformer.h.{i}")) for i in range(config.n_layer)]
    embed = w.embedding("transformer.word_embeddings")
    embed_norm = w.layer_norm("transformer.word_embeddings_layernorm")
    norm, out = w.layer_norm("transformer.ln_f"), w.linear("lm_head")
    return model_of(config, lambda ids: embed_norm(embed(ids)), layers, lambda x: out(norm(x)))


def t5_layer(at, bias, *, mlp, **options):
    return Layer(
        norm=at.rms_norm("layer.0.layer_norm"),
        qkv=tuple(at.linear(f"layer.0.SelfAttention.{x}") for x in "qkv"),
        out=at.linear("layer.0.SelfAttention.o"),
        mlp_norm=at.rms_norm(f"layer.{mlp}.layer_norm"),
        mlp=two_layers(
            at.linear(f"layer.{mlp}.DenseReluDense.wi"),
            relu,
            at.linear(f"layer.{mlp}.DenseReluDense.wo"),
        ),
        attention={"bias": bias, "scale": 1.0},
        **options,
    )


def t5_bias(config, w, *, bidirectional):
    return T5Bias(
        config.num_heads,
        bidirectional=bidirectional,
        num_buckets=config.relative_attention_num_buckets,
        max_distance=config.relative_attention_max_distance,
        embeddings=w["block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
    )


def t5_encoder(config, w):
    w = w.at("encoder")
    bias = t5_bias(config, w, bidirectional=True)
    blocks = [w.at(f"block.{i}") for i in range(config.num_layers)]
    layers = [t5_layer(at, bias, mlp=1, mask=None) for at in blocks]
    embed, norm = w.embedding("embed_tokens"), w.rms_norm("final_layer_norm")
    return Model(embed, layers, norm, config.d_kv, config.num_heads)


def t5_decoder(config, w, encoded):
    """Return the decoder; after its own tokens each layer attends to `encoded`, (1, seq, ...)."""

    def with_encoded(at, layer):
        cross = at.at("layer.1.EncDecAttention")
        query, key, value, out = (cross.linear(x) for x in "qkvo")
        k, v = (split_heads(project(encoded), config.d_kv) for project in (key, value))
        norm = at.rms_norm("layer.1.layer_norm")

        def mlp(x):
            q = split_heads(query(norm(x)), config.d_kv)
            found = scaled_dot_product_attention(q, k, v, scale=1.0, **AXES)
            found = out(merge_heads(found))
            return found + layer.mlp(layer.mlp_norm(x + found))

        return layer._replace(mlp_norm=same, mlp=mlp)

    embed, out = w.embedding("shared"), w.linear("lm_head")
    at = w.at("decoder")
    bias, norm = t5_bias(config, at, bidirectional=False), at.rms_norm("final_layer_norm")
    blocks = [at.at(f"block.{i}") for i in range(config.num_decoder_layers)]
    layers = [with_encoded(block, t5_layer(block, bias, mlp=2)) for block in blocks]
    factor = config.d_model**-0.5 if config.scale_decoder_outputs else 1.0
    head = lambda x: out(norm(x) * factor)  # noqa: E731
    return Model(embed, layers, head, config.d_kv, config.num_heads)


def modernbert(config, w):
    hidden, wide, side = config.hidden_size, config.intermediate_size, config.local_attention // 2

    def layer(at, i):
        kind = config.layer_types[i]
        first, gate = at.parts("mlp.Wi", wide, wide)
        return Layer(
            norm=at.layer_norm("attn_norm") if i else same,
            qkv=at.parts("attn.Wqkv", hidden, hidden, hidden),
            out=at.linear("attn.Wo"),
            mlp_norm=at.layer_norm("mlp_norm"),
            mlp=gated(first, gelu, gate, at.linear("mlp.Wo")),
            rope=rope_of(config, kind),
            mask=SlidingWindowMask(side, side) if kind == "sliding_attention" else None,
        )

    embed, embed_norm = w.embedding("embeddings.tok_embeddings"), w.layer_norm("embeddings.norm")
    layers = [layer(w.at(f"layers.{i}"), i) for i in range(config.num_hidden_layers)]
    return model_of(config, lambda ids: embed_norm(embed(ids)), layers, w.layer_norm("final_norm"))
