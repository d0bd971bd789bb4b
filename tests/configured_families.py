"""Families of models in NumPy whose attention is all from `attention_layers`.

A port is what a family does beside attention: the names of projections and norms, and the MLP. It
is a function from a configuration and the weights of transformers to a `Model`, whose layers say
nothing of rotation, masks, windows, scales and caches. Each has at most twelve lines.
"""

from functools import partial, reduce

import numpy as np

from model_families import (
    Layer,
    Weights,
    gated,
    gelu,
    gelu_tanh,
    layer_norm,
    llama_layer,
    merge_heads,
    model_of,
    relu,
    same,
    silu,
    split_heads,
    stack,
    two_layers,
)

LONGEST_PORT = 12  # lines


def forward(model, layers, attend, ids, positions):
    """Return what follows each token; `attend(number, q, k, v, sinks=)` is what a layer does."""
    hidden = model.embed(ids, positions)
    for number, (layer, attention) in enumerate(zip(model.layers, layers, strict=True)):
        x = layer.norm(hidden)
        sizes = attention.head_size, attention.head_size, attention.value_size
        q, k, v = (split_heads(project(x), n) for project, n in zip(layer.qkv, sizes, strict=True))
        q, k, sinks = layer.q_norm(q), layer.k_norm(k), layer.attention.get("sinks")
        attended = layer.out(merge_heads(attend(number, q, k, v, sinks=sinks)))
        attended = layer.after_attention(attended)
        x = layer.mlp_norm(hidden if layer.is_parallel else hidden + attended)
        hidden = hidden + attended + layer.after_mlp(layer.mlp(x))
    return model.head(hidden)


# Parts of layers.


def then(first, *others):
    """Return what applies functions in this order."""

    def apply(*given):
        return reduce(lambda x, function: function(x), others, first(*given))

    return apply


def times(factor):
    return lambda x: factor * x


def capped(cap):
    return lambda x: cap * np.tanh(x / cap)


def plus(first, second):
    return lambda x: first(x) + second(x)


def relu_squared(x):
    return relu(x) ** 2


def softmax_of_most(count, *, of_all=False):
    """Return the softmax of the largest scores: 0 for the others, which count in it if `of_all`."""

    def shares(scores):
        is_among = scores >= np.sort(scores, axis=-1)[..., -count, None]
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = np.where(is_among, powers, 0)
        return shares / (powers if of_all else shares).sum(axis=-1, keepdims=True)

    return shares


def sigmoid_of_most(count):
    """Return the sigmoid of the largest scores, 0 for the others."""

    def shares(scores):
        is_among = scores >= np.sort(scores, axis=-1)[..., -count, None]
        return np.where(is_among, 1 / (1 + np.exp(-scores)), 0)

    return shares


def experts(at, shares, router="mlp.gate", name="mlp.experts"):
    """Return a mixture of gated experts: `shares` makes their parts of what the router finds."""
    router, both, down = at.linear(router), at[f"{name}.gate_up_proj"], at[f"{name}.down_proj"]

    def mlp(x):
        gate, up = np.split(np.einsum("bsi,eoi->bseo", x, both), 2, axis=-1)
        found = np.einsum("bsei,eoi->bseo", silu(gate) * up, down)
        return (shares(router(x))[..., None] * found).sum(axis=2)

    return mlp


def plain_mlp(at, activation, first="mlp.up_proj", second="mlp.down_proj"):
    return two_layers(at.linear(first), activation, at.linear(second))


def joined_mlp(at, activation, width, both="mlp.gate_up_proj", down="mlp.down_proj"):
    gate, up = at.parts(both, width, width)
    return gated(gate, activation, up, at.linear(down))


def gated_by(at, activation, name):
    gate, up, down = (at.linear(f"{name}.{x}_proj") for x in ("gate", "up", "down"))
    return gated(gate, activation, up, down)


def head_norms(at, norm="rms_norm", name="norm"):
    return {f"{x}_norm": getattr(at, norm)(f"self_attn.{x}_{name}") for x in "qk"}


def qkv_with_norms(at):
    """Return projections of which queries and keys are normalized before heads are split."""
    q, k, v = at.qkv()
    norms = head_norms(at)
    return then(q, norms["q_norm"]), then(k, norms["k_norm"]), v


def latent_qkv(at, config):
    """Return projections of multi-head latent attention; the last features of keys are shared."""
    heads = config.num_attention_heads
    size, rotated = config.qk_nope_head_dim, config.qk_rope_head_dim
    at = at.at("self_attn")
    norms = Weights(at.arrays, 1e-6, at.prefix)  # whose epsilon is in no configuration
    down, shared = at.parts("kv_a_proj_with_mqa", config.kv_lora_rank, rotated)
    latent = then(down, norms.rms_norm("kv_a_layernorm"))
    of_heads, v = at.parts("kv_b_proj", size, config.v_head_dim, groups=heads)

    def k(x):
        own = split_heads(of_heads(latent(x)), size)
        of_all = np.repeat(split_heads(shared(x), rotated), heads, axis=1)
        return merge_heads(np.concat([own, of_all], axis=-1))

    q = then(at.linear("q_a_proj"), norms.rms_norm("q_a_layernorm"), at.linear("q_b_proj"))
    return q, k, then(latent, v)


def with_layer_norms(at, mlp, out="self_attn.o_proj", mlp_norm="post_attention_layernorm"):
    norm, mlp_norm = at.layer_norm("input_layernorm"), at.layer_norm(mlp_norm)
    return Layer(norm, at.qkv(), at.linear(out), mlp_norm, mlp)


def with_norms_after(at, **options):
    """Return a layer of Olmo 2: what attention and the MLP return is normalized."""
    return Layer(
        norm=same,
        qkv=at.qkv(),
        out=at.linear("self_attn.o_proj"),
        after_attention=at.rms_norm("post_attention_layernorm"),
        mlp_norm=same,
        mlp=at.gated(silu),
        after_mlp=at.rms_norm("post_feedforward_layernorm"),
    )._replace(**options)


def transposed(at):
    """Return weights whose matrices are (outputs, inputs), of some that are the other way round."""
    return Weights({name: x.T for name, x in at.arrays.items()}, at.epsilon, at.prefix)


# The families.


def llama(config, w):
    return stack(w, config, lambda at, _: llama_layer(at))


def with_head_norms(config, w):
    return stack(w, config, lambda at, _: llama_layer(at, **head_norms(at)))


def arcee(config, w):
    return stack(
        w, config, lambda at, _: llama_layer(at, mlp=lambda at: plain_mlp(at, relu_squared))
    )


def apertus(config, w):
    def layer(at, _):
        alpha, negative = (np.logaddexp(0, at[f"mlp.act_fn.alpha_{x}"]) for x in "pn")
        beta, epsilon = at["mlp.act_fn.beta"], at["mlp.act_fn.eps"]
        below = lambda x: (beta + negative) * (np.expm1(np.minimum(x, epsilon)) - x)  # noqa: E731
        xielu = lambda x: beta * x + np.where(x > 0, alpha * x * x, below(x))  # noqa: E731
        mlp, norms = plain_mlp(at, xielu), head_norms(at)
        norm, mlp_norm = (at.rms_norm(f"{x}_layernorm") for x in ("attention", "feedforward"))
        return Layer(norm, at.qkv(), at.linear("self_attn.o_proj"), mlp_norm, mlp, **norms)

    return stack(w, config, layer)


def bitnet(config, w):
    def layer(at, _):
        gate, up, down = (at.linear(f"mlp.{x}_proj") for x in ("gate", "up", "down"))
        mlp = gated(gate, relu_squared, up, then(at.rms_norm("mlp.ffn_sub_norm"), down))
        out = then(at.rms_norm("self_attn.attn_sub_norm"), at.linear("self_attn.o_proj"))
        return llama_layer(at, mlp=lambda _: mlp)._replace(out=out)

    return stack(w, config, layer)


def cohere2(config, w, mlp=lambda at: at.gated(silu)):
    def layer(at, _):
        layer = with_layer_norms(at, mlp(at), mlp_norm="input_layernorm")
        return layer._replace(is_parallel=True)

    model = stack(w, config, layer, final=w.layer_norm("model.norm"))
    return model._replace(head=then(model.head, times(config.logit_scale)))


def cohere2_moe(config, w):
    shares = softmax_of_most(config.num_experts_per_tok)
    return cohere2(config, w, partial(experts, shares=shares))


def deepseek(config, w):
    def layer(at, _):
        norm, mlp_norm = (at.rms_norm(f"{x}_layernorm") for x in ("input", "post_attention"))
        out, mlp = at.linear("self_attn.o_proj"), at.gated(silu)
        return Layer(norm, latent_qkv(at, config), out, mlp_norm, mlp)

    return stack(w, config, layer)


def minicpm3(config, w):
    after = times(config.scale_depth / config.num_hidden_layers**0.5)
    model = deepseek(config, w)
    layers = [layer._replace(after_attention=after, after_mlp=after) for layer in model.layers]
    embed = w.embedding("model.embed_tokens", config.scale_emb)
    head = then(model.head, times(1 / config.logits_scaling))
    return model._replace(layers=layers, embed=embed, head=head)


def flint(config, w):
    def layer(at, _):
        return llama_layer(at, attention={"sinks": at["self_attn.sinks"]}, **head_norms(at))

    return stack(w, config, layer)


def gemma(config, w):
    def layer(at, _):
        norm, mlp_norm = (at.rms_norm(f"{x}_layernorm", 1) for x in ("input", "post_attention"))
        layer = llama_layer(at, mlp=lambda at: at.gated(gelu_tanh))
        return layer._replace(norm=norm, mlp_norm=mlp_norm)

    embed = w.embedding("model.embed_tokens", config.hidden_size**0.5)
    return stack(w, config, layer, embed, w.rms_norm("model.norm", 1))


def vaultgemma(config, w):
    def layer(at, _):
        norm, mlp_norm = (at.rms_norm(f"{x}_layernorm", 1) for x in ("input", "pre_feedforward"))
        return Layer(norm, at.qkv(), at.linear("self_attn.o_proj"), mlp_norm, at.gated(gelu_tanh))

    embed = w.embedding("model.embed_tokens", config.hidden_size**0.5)
    model = stack(w, config, layer, embed, w.rms_norm("model.norm", 1))
    return model._replace(head=then(model.head, capped(config.final_logit_softcapping)))


def glm(config, w):
    width = config.intermediate_size
    mlp = partial(joined_mlp, activation=silu, width=width)
    return stack(w, config, lambda at, _: llama_layer(at, mlp=mlp))


def glm4(config, w):
    mlp = partial(joined_mlp, activation=silu, width=config.intermediate_size)

    def layer(at, _):
        after_attention = at.rms_norm("post_self_attn_layernorm")
        after_mlp = at.rms_norm("post_mlp_layernorm")
        return llama_layer(at, mlp=mlp, after_attention=after_attention, after_mlp=after_mlp)

    return stack(w, config, layer)


def granite(config, w, mlp=lambda at: at.gated(silu), **options):
    residual = times(config.residual_multiplier)
    after = {"after_attention": residual, "after_mlp": residual}

    def layer(at, _):
        sinks = {name: at[f"self_attn.{name}"] for name in options.get("weights", ())}
        return llama_layer(at, mlp=mlp, attention=sinks, **after)

    embed = w.embedding("model.embed_tokens", config.embedding_multiplier)
    model = stack(w, config, layer, embed)
    return model._replace(head=then(model.head, times(1 / config.logits_scaling)))


def granite_swa(config, w):
    return granite(config, w, weights=["sinks"])


def granitemoe(config, w, **options):
    shares, name = softmax_of_most(config.num_experts_per_tok), "block_sparse_moe"
    mlp = partial(experts, shares=shares, router=f"{name}.router", name=f"{name}.experts")
    return granite(config, w, mlp, **options)


def granitemoe_swa(config, w):
    return granitemoe(config, w, weights=["sinks"])


def jais2(config, w):
    def layer(at, _):
        return with_layer_norms(at, plain_mlp(at, relu_squared))

    return stack(w, config, layer, final=w.layer_norm("model.norm"))


def kolibri1(config, w):
    shares = sigmoid_of_most(config.num_experts_per_tok)

    def layer(at, _):
        own, of_all = experts(at, shares), gated_by(at, silu, "mlp.shared_experts")
        norms = {
            "after_attention": at.rms_norm("post_self_attn_layernorm"),
            "after_mlp": at.rms_norm("post_mlp_layernorm"),
        }
        return llama_layer(at, mlp=lambda _: plus(own, of_all), **norms, **head_norms(at))

    return stack(w, config, layer)


def lfm3(config, w):
    def layer(at, _):
        after_attention, after_mlp = at.rms_norm("post_operator_norm"), at.rms_norm("post_ffn_norm")
        norm, mlp_norm = at.rms_norm("operator_norm"), at.rms_norm("ffn_norm")
        first, second, third = (at.linear(f"feed_forward.w{i}") for i in (1, 2, 3))
        mlp, norms = gated(first, silu, third, second), head_norms(at)
        layer = Layer(norm, at.qkv(), at.linear("self_attn.o_proj"), mlp_norm, mlp, **norms)
        return layer._replace(after_attention=after_attention, after_mlp=after_mlp)

    return stack(w, config, layer, final=w.rms_norm("model.embedding_norm"))


def mimo_v2_flash(config, w):
    def layer(at, i):
        has_sinks = config.layer_types[i] == "sliding_attention"
        q, k, v = at.qkv()
        sinks = {"sinks": at["self_attn.sinks"]} if has_sinks else {}
        values = then(v, times(config.attention_value_scale))
        return llama_layer(at, attention=sinks)._replace(qkv=(q, k, values))

    return stack(w, config, layer)


def mixtral(config, w):
    mlp = partial(experts, shares=softmax_of_most(config.num_experts_per_tok))
    return stack(w, config, lambda at, _: llama_layer(at, mlp=mlp))


def qwen3_moe(config, w):
    mlp = partial(experts, shares=softmax_of_most(config.num_experts_per_tok))
    return stack(w, config, lambda at, _: llama_layer(at, mlp=mlp, **head_norms(at)))


def olmoe(config, w):
    mlp = partial(experts, shares=softmax_of_most(config.num_experts_per_tok, of_all=True))
    layer = lambda at, _: llama_layer(at, mlp=mlp)._replace(qkv=qkv_with_norms(at))  # noqa: E731
    return stack(w, config, layer)


def modernbert_decoder(config, w):
    def layer(at, i):
        mlp = joined_mlp(at, gelu, config.intermediate_size, "mlp.Wi", "mlp.Wo")
        norm = at.layer_norm("attn_norm") if i else same
        return Layer(norm, at.qkv("attn"), at.linear("attn.Wo"), at.layer_norm("mlp_norm"), mlp)

    at = w.at("model.embeddings")
    embed = then(at.embedding("tok_embeddings"), at.layer_norm("norm"))
    head = then(w.linear("lm_head.dense"), gelu, w.layer_norm("lm_head.norm"), w.linear("decoder"))
    layers = [layer(w.at(f"model.layers.{i}"), i) for i in range(config.num_hidden_layers)]
    return model_of(config, embed, layers, then(w.layer_norm("model.final_norm"), head))


def nemotron(config, w):
    def layer(at, _):
        norm, mlp_norm = (at.layer_norm(f"{x}_layernorm", 1) for x in ("input", "post_attention"))
        mlp = plain_mlp(at, relu_squared)
        return Layer(norm, at.qkv(), at.linear("self_attn.o_proj"), mlp_norm, mlp)

    return stack(w, config, layer, final=w.layer_norm("model.norm", 1))


def olmo(config, w):
    norm = layer_norm(1.0, 0.0, 1e-5)

    def layer(at, _):
        clip = lambda x: np.clip(x, -config.clip_qkv, config.clip_qkv)  # noqa: E731
        qkv = tuple(then(project, clip) for project in at.qkv())
        return Layer(norm, qkv, at.linear("self_attn.o_proj"), norm, at.gated(silu))

    return stack(w, config, layer, final=norm)


def olmo2(config, w):
    return stack(w, config, lambda at, _: with_norms_after(at, qkv=qkv_with_norms(at)))


def exaone4(config, w):
    return stack(w, config, lambda at, _: with_norms_after(at, **head_norms(at)))


def persimmon(config, w):
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads

    def layer(at, _):
        mlp = plain_mlp(at, relu_squared, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
        qkv = at.parts("self_attn.query_key_value", size, size, size, groups=heads)
        norm, mlp_norm = (at.layer_norm(f"{x}_layernorm") for x in ("input", "post_attention"))
        norms = head_norms(at, "layer_norm", "layernorm")
        return Layer(norm, qkv, at.linear("self_attn.dense"), mlp_norm, mlp, **norms)

    return stack(w, config, layer, final=w.layer_norm("model.final_layernorm"))


def phi(config, w):
    def layer(at, _):
        mlp = plain_mlp(at, gelu_tanh, "mlp.fc1", "mlp.fc2")
        layer = with_layer_norms(at, mlp, "self_attn.dense", mlp_norm="input_layernorm")
        return layer._replace(is_parallel=True, **head_norms(at, "layer_norm", "layernorm"))

    return stack(w, config, layer, final=w.layer_norm("model.final_layernorm"))


def stablelm(config, w):
    def layer(at, _):
        return with_layer_norms(at, at.gated(silu))

    return stack(w, config, layer, final=w.layer_norm("model.norm"))


def starcoder2(config, w):
    def layer(at, _):
        return with_layer_norms(at, plain_mlp(at, gelu_tanh, "mlp.c_fc", "mlp.c_proj"))

    return stack(w, config, layer, final=w.layer_norm("model.norm"))


def gpt2(config, w):
    def layer(at):
        norm, mlp_norm = at.layer_norm("ln_1"), at.layer_norm("ln_2")
        qkv = at.parts("attn.c_attn", *[config.n_embd] * 3)
        mlp = plain_mlp(at, gelu_tanh, "mlp.c_fc", "mlp.c_proj")
        return Layer(norm, qkv, at.linear("attn.c_proj"), mlp_norm, mlp)

    layers = [layer(transposed(w.at(f"transformer.h.{i}"))) for i in range(config.n_layer)]
    token, place = w.embedding("transformer.wte"), w.embedding("transformer.wpe")
    head = then(w.layer_norm("transformer.ln_f"), w.linear("lm_head"))
    return model_of(config, lambda ids, at: token(ids) + place(at), layers, head)
