"""Easy mistakes of a person who ports a model, what comes of each, and what is meant.

`python tests/easy_mistakes.py` writes them to docs/guide/easy_mistakes.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import oracles
import positional_embeddings as pe
from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    ChunkedMask,
    FunctionMask,
    GlobalMask,
    KVCache,
    LearnedPE,
    LinearScaling,
    PaddingMask,
    PrefixMask,
    RoPE,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    TokenEmbedding,
    apply_rope,
    scaled_dot_product_attention,
)

PAGE = Path(__file__).parents[1] / "docs/guide/easy_mistakes.md"
AXES = {"feature_axis": -1, "seq_axis": -2}
BATCH, HEADS, TOKENS, SIZE = 2, 4, 6, 8
Q, K, V = np.random.default_rng(0).standard_normal((3, BATCH, HEADS, TOKENS, SIZE))
X = np.random.default_rng(1).standard_normal((BATCH, TOKENS, SIZE))
LENGTHS = (4, 6)
ATTENTION_MASK = np.asarray([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])  # of a tokenizer
LEFT_MASK = ATTENTION_MASK[:, ::-1].copy()
DOCUMENTS = np.asarray([0, 0, 0, 1, 1, 1])
RESTARTED = np.asarray([0, 1, 2, 0, 1, 2])
SINKS = np.asarray([0.5, -1.0, 2.0, 0.0])
TABLE = np.random.default_rng(2).standard_normal((8, HEADS))  # of T5Bias
LEARNED = np.random.default_rng(3).standard_normal((SIZE, 2 * TOKENS))
WEIGHT = np.random.default_rng(4).standard_normal((HEADS * SIZE, SIZE))
T5_OPTIONS = {"num_buckets": 8, "max_distance": 6, "embeddings": TABLE}
T5 = partial(T5Bias, HEADS, bidirectional=False, **T5_OPTIONS)
LLAMA = {
    "model_type": "llama",
    "hidden_size": HEADS * SIZE,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
    "rope_theta": 500_000.0,
}
STRETCHED = LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
COHERE_2 = LLAMA | {"model_type": "cohere2", "num_hidden_layers": 4, "sliding_window_pattern": 4}
PHI3 = LLAMA | {
    "model_type": "phi3",
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": 16,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4},
}
NEOX = LLAMA | {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 10_000}


def attend(*arrays, **options):
    return scaled_dot_product_attention(*arrays, **options, **AXES)


def rope(base=10_000, **options):
    return RoPE(SIZE, 64, base, **options, **AXES)


# What is meant, in plain loops.


def until(i, j, _):
    return j <= i


def nothing(*_):
    return 0.0


def attended(q=Q, k=K, v=V, *, shown=until, bias=nothing, scale=SIZE**-0.5, sinks=None, first=0):
    """Return what queries from position `first` on attend to, of (batch, heads, seq, head).

    `shown(i, j, row)` tells which keys, and `bias(i, j, head)` is added to their scores.
    """
    rows, heads, queries, _ = q.shape
    out = np.zeros((rows, heads, queries, v.shape[-1]))
    group = heads // k.shape[1]
    for row, head, query in np.ndindex(rows, heads, queries):
        i, own_k, own_v = first + query, k[row, head // group], v[row, head // group]
        keys = [j for j in range(len(own_k)) if shown(i, j, row)]
        products = (math.fsum(q[row, head, query] * own_k[j]) for j in keys)
        scores = [scale * x + bias(i, j, head) for j, x in zip(keys, products, strict=True)]
        sink = [] if sinks is None else [sinks[head]]
        total = math.fsum(map(math.exp, scores + sink))
        for j, score in zip(keys, scores, strict=True):
            out[row, head, query] += math.exp(score) / total * own_v[j]
    return out


def turned(x, positions=range(TOKENS), base=10_000.0, *, layout="half", dim=SIZE, step=1.0):
    """Rotate (..., seq, head) by hand."""
    out = x.copy()
    for t, position in enumerate(positions):
        for pair in range(dim // 2):
            half = (pair, pair + dim // 2), (2 * pair, 2 * pair + 1)
            i, j = half[layout == "interleaved"]
            angle = step * position * base ** (-2 * pair / dim)
            a, b = x[..., t, i], x[..., t, j]
            out[..., t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[..., t, j] = b * math.cos(angle) + a * math.sin(angle)
    return out


def tokens_alone(row):
    """Return the output of the tokens of a sequence without its padding on the right."""
    n = LENGTHS[row]
    return attended(*(x[row : row + 1, :, :n] for x in (Q, K, V)))


def of_tokens(output, mask=ATTENTION_MASK):
    """Return the outputs of all tokens, without padding, one after another."""
    return np.concatenate([output[row][:, mask[row] == 1] for row in range(BATCH)], axis=1)


def padded_on_the_left(x):
    return np.stack([np.roll(x[row], TOKENS - LENGTHS[row], axis=-2) for row in range(BATCH)])


def by_alibi(i, j, head):
    return -(2.0 ** (-2 * (head + 1))) * abs(i - j)


def by_t5(i, j, head):
    far = 4 * math.log(max(i - j, 4) / 4) / math.log(6 / 4)
    return TABLE[min(i - j, 4) + math.floor(far), head]


CAUSAL = attended
LAST = partial(attended, q=Q[:, :, 5:], first=5)
FIFTH = partial(attended, q=Q[:, :, 4:5], k=K[:, :, :5], v=V[:, :, :5], first=4)
PROMPT = partial(attended, *(x[:, :, :4] for x in (Q, K, V)))
PROMPT_BY_DISTANCE = partial(PROMPT, bias=lambda i, j, _: -0.5 * (i - j))
ALL = partial(attended, shown=lambda *_: True)
WINDOW = partial(attended, shown=lambda i, j, _: i - 4 < j <= i)
PADDED = partial(attended, shown=lambda i, j, row: j <= i and j < LENGTHS[row])
ALL_OF_PADDED = partial(attended, shown=lambda _, j, row: j < LENGTHS[row])
PACKED = partial(attended, shown=lambda i, j, _: j <= i and DOCUMENTS[i] == DOCUMENTS[j])
PREFIX = partial(attended, shown=lambda i, j, _: j <= i or j < 3)
GROUPED = partial(attended, k=K[:, :2], v=V[:, :2])
ALIBI = partial(attended, bias=by_alibi)
OF_T5 = partial(attended, bias=by_t5, scale=1.0)
ROTATED = partial(attended, q=turned(Q), k=turned(K))


def both_padded():
    return np.concatenate([tokens_alone(row)[0] for row in range(BATCH)], axis=1)


def sinusoids(*, interleaved):
    """Return the encoding (seq, features) of Vaswani et al."""
    out = np.empty((TOKENS, SIZE))
    for t, i in np.ndindex(TOKENS, SIZE // 2):
        angle = t * 10_000.0 ** (-2 * i / SIZE)
        sine, cosine = (2 * i, 2 * i + 1) if interleaved else (i, i + SIZE // 2)
        out[t, sine], out[t, cosine] = math.sin(angle), math.cos(angle)
    return out


# Caches.


def decoded(*, keep=True):
    """Return the output of the last of two tokens after a prompt of four."""
    cache, keys, values = KVCache.empty(BATCH, 8, **AXES), *np.zeros((2, BATCH, HEADS, 8, SIZE))
    for part in (slice(0, 4), slice(4, 5), slice(5, 6)):
        following, step = cache.step(part.stop - part.start)
        cache = following if keep else cache
        keys, k_all = step.store(keys, K[:, :, part])
        values, v_all = step.store(values, V[:, :, part])
        output = attend(Q[:, :, part], k_all, v_all, mask=CausalMask(), positions=step)
    return output


def stored(count=4, capacity=8, rows=BATCH, **options):
    """Return the cache after some tokens, their step, and buffers that hold them."""
    following, step = KVCache.empty(rows, capacity, **options, **AXES).step(count)
    buffers = np.zeros((2, rows, HEADS, max(capacity, 8), SIZE))
    found = [step.store(b, x[:rows, :, :count]) for b, x in zip(buffers, (K, V), strict=True)]
    return following, step, [buffer for buffer, _ in found], [keys for _, keys in found]


def next_token(cache, buffers, *, at=4, tokens=1, **options):
    """Return the output of the token at an index."""
    _, step = cache.step(tokens)
    found = [step.store(b, x[:, :, at : at + 1])[1] for b, x in zip(buffers, (K, V), strict=True)]
    return attend(
        Q[:, :, at : at + 1], *found, **({"mask": CausalMask()} | options), positions=step
    )


def prompt_and_token(**options):
    cache, _, buffers, _ = stored(**options)
    return next_token(cache, buffers)


def one_buffer_twice():
    _, step = KVCache.empty(BATCH, 8, **AXES).step(4)
    buffer, _ = step.store(np.zeros((BATCH, HEADS, 8, SIZE)), K[:, :, :4])
    return step.store(buffer, V[:, :, :4])


def a_step_in_each_layer():
    cache = KVCache.empty(BATCH, 16, **AXES)
    layers = np.zeros((2, BATCH, HEADS, 16, SIZE))
    for part in (slice(0, 4), slice(4, 5)):
        for buffer in layers:
            cache, step = cache.step(part.stop - part.start)
            step.store(buffer, K[:, :, part])


def a_step_in_each_layer_for_the_prompt():
    cache = KVCache.empty(BATCH, 16, **AXES)
    keys = []
    for buffer in np.zeros((2, BATCH, HEADS, 16, SIZE)):
        cache, step = cache.step(4)
        keys.append(step.store(buffer, K[:, :, :4])[1])
    return keys[1]


def an_earlier_step():
    cache, step, (keys, _), _ = stored()
    cache, later = cache.step(1)
    later.store(keys, K[:, :, 4:5])
    return step.store(keys, K[:, :, :4])


def a_buffer_of_other_rows():
    """Return the keys of two sequences, of which the second goes on twice."""
    cache, _, (keys, _), _ = stored()
    _, step = cache.take([1, 1]).step(1)
    return step.store(keys, K[[1, 1], :, 4:5])[1]


def rewound(*, kept):
    """Return the keys after a refused draft of one token."""
    cache, _, (keys, _), _ = stored()
    cache, step = cache.step(1)
    step.store(keys, V[:, :, 4:5])
    if kept:
        cache = cache.rewind(1)
    else:
        cache.rewind(1)
    return cache.step(1)[1].store(keys, K[:, :, 4:5])[1]


def prompts(attention_mask, pick):
    """Return the output of padded prompts at their last tokens."""
    _, step = KVCache.empty(BATCH, 8, **AXES).step(attention_mask)
    found = [step.store(np.zeros((BATCH, HEADS, 8, SIZE)), x)[1] for x in (K, V)]
    return pick(attend(Q, *found, mask=CausalMask(), positions=step))


def more_keys(new):
    """Return the keys after a prompt of four tokens and new ones."""
    cache, _, (keys, _), _ = stored(capacity=16)
    return cache.step(new.shape[2])[1].store(keys, new)[1]


def beside_a_step(tokens, *, given=lambda _, step: {"positions": step}, **options):
    """Return the output of a prompt with a mask or a bias beside its step."""
    cache, step = KVCache.empty(BATCH, 8, **AXES).step(tokens)
    new = slice(step.positions.shape[-1])
    q, k, v = (x[:, :, new] for x in (Q, K, V))
    found = [step.store(np.zeros((BATCH, HEADS, 8, SIZE)), x)[1] for x in (k, v)]
    return attend(q, *found, **given(cache, step), **options)


def hand_made(*, offset):
    """Return the output of a token whose keys are in a buffer with room, without a `KVCache`."""
    k, v = (np.zeros((BATCH, HEADS, 8, SIZE)) for _ in range(2))
    k[:, :, :5], v[:, :, :5] = K[:, :, :5], V[:, :, :5]
    return attend(Q[:, :, 4:5], k, v, mask=CausalMask(), offset=offset)


def tables_of_transformers(dim=SIZE):
    """Return cosines and sines (seq, dim), which hold each number twice."""
    angles = np.arange(TOKENS)[:, None] * 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    return [np.concatenate([f(angles), f(angles)], axis=-1) for f in (np.cos, np.sin)]


def by_hand(layout="half", dim=SIZE, **options):
    cos, sin = (table[:, : dim // 2] for table in tables_of_transformers(dim))
    return apply_rope(Q, cos, sin, layout=layout, feature_axis=-1, **options)


def merged(x, *, heads_first=True):
    """Return (head, seq, heads * batch) of (batch, heads, seq, head), or batch * heads."""
    order = (3, 2, 1, 0) if heads_first else (3, 2, 0, 1)
    return x.transpose(order).reshape(SIZE, x.shape[2], -1)


def apart(x, *, heads_first=True):
    """Undo `merged`."""
    shape = (HEADS, BATCH) if heads_first else (BATCH, HEADS)
    split = x.reshape(SIZE, TOKENS, *shape)
    return split.transpose(3, 2, 1, 0) if heads_first else split.transpose(2, 3, 1, 0)


def learned(**options):
    return LearnedPE(SIZE, 2 * TOKENS, embeddings=LEARNED, **options, **AXES)


def with_nan():
    cache = KVCache.empty(BATCH, 8, **AXES)
    buffers = np.full((2, BATCH, HEADS, 8, SIZE), np.nan)
    cache, step = cache.step(4)
    for buffer, x in zip(buffers, (K, V), strict=True):
        step.store(buffer, x[:, :, :4])
    return next_token(cache, buffers)


def of_sphere(latitude, longitude):
    """Return the harmonics of degrees 0 and 1: 1 and the coordinates y, z and x, scaled."""
    at, around = math.radians(latitude), math.radians(longitude)
    y, z, x = math.cos(at) * math.sin(around), math.sin(at), math.cos(at) * math.cos(around)
    return math.sqrt(1 / (4 * math.pi)) * np.asarray(
        [[1.0], *([math.sqrt(3) * n] for n in (y, z, x))]
    )


def multi_head_layer(*, transposed):
    """Return a layer of the kernels (input, output) of another library."""
    kernels = np.random.default_rng(5).standard_normal((4, SIZE, SIZE))
    kernels = [kernel.T for kernel in kernels] if transposed else kernels
    names = ("Wq", "Wk", "Wv", "Wo")
    return pe.RoPEMultiHeadAttention(SIZE, 2, **dict(zip(names, kernels, strict=True)))


def multi_head(*, transposed):
    return multi_head_layer(transposed=transposed)(X.T)


def torch_and_numpy():
    import torch

    return attend(Q, torch.asarray(K), torch.asarray(V))


def in_torch():
    import torch

    return np.asarray(attend(*map(torch.asarray, (Q, K, V)), mask=CausalMask()))


def in_jax(*, keep):
    """Return the keys after a prompt and a token, in a library that writes to no array."""
    import jax.numpy as jnp

    cache = KVCache.empty(BATCH, 5, xp=jnp, **AXES)
    buffer = jnp.zeros((BATCH, HEADS, 5, SIZE), dtype=jnp.float32)
    k = jnp.asarray(K, dtype=jnp.float32)
    for part in (slice(0, 4), slice(4, 5)):
        cache, step = cache.step(part.stop - part.start)
        following, keys = step.store(buffer, k[:, :, part])
        buffer = following if keep else buffer
    return np.asarray(keys)


def layer_of(config, number=0):
    """Return the attention of a layer of a model."""
    sizes = {"num_hidden_layers": 2, "num_key_value_heads": HEADS}
    return pe.attention_layers(LLAMA | sizes | config, **AXES)[number]


def rotated_and_attended(**options):
    return attended(turned(Q), turned(K), **options)


MISTRAL = {"model_type": "mistral", "rope_theta": 10_000.0, "sliding_window": 4}
GEMMA_2 = {"model_type": "gemma2", "head_dim": SIZE, "query_pre_attn_scalar": 16}
GEMMA_2 |= {"rope_theta": 10_000.0, "attn_logit_softcapping": 1e9}  # which bounds nothing here
GRANITE = {"model_type": "granite", "rope_theta": 10_000.0, "attention_multiplier": 0.25}
DEEPSEEK = {"model_type": "deepseek_v3", "qk_nope_head_dim": 4, "qk_rope_head_dim": 4}
DEEPSEEK |= {"v_head_dim": SIZE, "rope_scaling": {"type": "yarn", "factor": 40.0}}
DEEPSEEK["rope_scaling"] |= {"mscale": 1.0, "mscale_all_dim": 1.0}
DEEPSEEK["rope_scaling"] |= {"original_max_position_embeddings": 4096}
GPT_OSS = {"model_type": "gpt_oss", "head_dim": SIZE}
PICTURE = [3, (1, 4, 4), 2]  # text, an image in patches, and text


def decoder(layer=None, batch=BATCH, **options):
    """Return the next cache of a decoder of one layer, and a step of all tokens."""
    layer = layer or layer_of(LLAMA)
    return pe.DecoderCache.empty([layer], batch, 4 * TOKENS, **options).step(TOKENS)


def after_a_picture():
    """Return the positions of the next token."""
    rope = RoPE(SIZE, 64, sections=(2, 1, 1), **AXES)
    layer = pe.AttentionLayer(HEADS, SIZE, rope=rope, mask=CausalMask(), **AXES)
    positions, _ = pe.multimodal_positions(PICTURE, spatial_merge_size=2)
    cache = pe.DecoderCache.empty([layer], 1, 64)
    cache, _ = cache.step(positions.shape[1], positions=positions)
    return cache.step(1)[1].positions


def twice_in_a_layer():
    _, step = decoder()
    step.attend(0, Q, K, V)
    return step.attend(0, Q, K, V)


@dataclass(frozen=True)
class Mistake:
    """What is written, what comes of it, and what is meant.

    Without `error` and `unknown` it is right as it is written. `error` is a part of the message.
    `unknown` is where the mistake is warned of, a page of docs/ or a public name, and a sentence
    that is there.
    """

    what: str
    wrong: Callable[[], Any]
    meant: Callable[[], Any] | None = None
    write: str = ""
    right: Callable[[], Any] | None = None
    error: str = ""
    unknown: tuple[str, str] = ("", "")
    library: str = ""  # which it needs

    @property
    def outcome(self):
        return "error" if self.error else "unknown" if self.unknown[0] else "right"

    @property
    def happens(self):
        where = self.unknown[0]
        link = f"[{where.partition('/')[2]}]({where.partition('/')[2]}.md)"
        said = f"no sign; said in {link if '/' in where else f'`{where}`'}"
        return {"error": "error", "right": "right as it is", "unknown": said}[self.outcome]


NO_AXIS_IS_GUESSED = "guide/attention", "No axis is ever guessed from a length."
ALL_OF_A_CONFIGURATION = (
    "guide/rotary",
    "Shapes tell neither the layout, the base, the scaling nor the rotated part of a model",
)
ONCE = "guide/rotary", "Queries and keys are rotated once each, and values are not"
SCALES = "scaled_dot_product_attention", "No model's own factor is known here"
COUNTED = "guide/rotary", "Without `positions=`, tokens count from `offset=`, 0 by default."
TRUE_IS_HIDDEN = "guide/masks", "**True is masked out**: a query may not attend to that key."
LAST_AT_LAST = (
    "scaled_dot_product_attention",
    "If None, the last query is at the last key, as with cached keys.",
)

AXES_AND_LAYOUTS = [
    Mistake(
        "attention on `(batch, heads, seq, head)`, as in PyTorch, without axes",
        lambda: scaled_dot_product_attention(Q, K, V, mask=CausalMask()),
        CAUSAL,
        "`feature_axis=-1, seq_axis=-2`",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="Pass feature_axis=-1, seq_axis=-2 for (batch, heads, seq, head)",
    ),
    Mistake(
        "`RoPE(8, 64)` on `(batch, heads, seq, head)`",
        lambda: RoPE(SIZE, 64)(Q),
        lambda: turned(Q),
        "`RoPE(8, 64, feature_axis=-1, seq_axis=-2)`",
        lambda: RoPE(SIZE, 64, **AXES)(Q),
        error="Make the layer with feature_axis=-1, seq_axis=-2",
    ),
    Mistake(
        "`seq_axis` without `feature_axis`",
        lambda: RoPE(SIZE, 64, seq_axis=-2)(Q),
        lambda: turned(Q),
        "both",
        lambda: RoPE(SIZE, 64, **AXES)(Q),
        error="`feature_axis` and `seq_axis` must be given for `x` of 4 axes",
    ),
    Mistake(
        "arrays of JAX or flash-attn, `(batch, seq, heads, head)`, with PyTorch's axes",
        lambda: attend(*(np.swapaxes(x, 1, 2) for x in (Q, K, V)), mask=CausalMask()),
        lambda: np.swapaxes(CAUSAL(), 1, 2),
        "`feature_axis=-1, seq_axis=1`",
        lambda: scaled_dot_product_attention(
            *(np.swapaxes(x, 1, 2) for x in (Q, K, V)),
            mask=CausalMask(),
            feature_axis=-1,
            seq_axis=1,
        ),
        unknown=NO_AXIS_IS_GUESSED,
    ),
    Mistake(
        "a `RoPE` for `(batch, seq, heads, head)` on `(batch, heads, seq, head)`",
        lambda: RoPE(SIZE, 64, feature_axis=-1, seq_axis=1)(Q),
        lambda: turned(Q),
        "the axes of the array",
        lambda: RoPE(SIZE, 64, **AXES)(Q),
        unknown=NO_AXIS_IS_GUESSED,
    ),
    Mistake(
        "attention on `(batch, seq, features)`, as in Keras, without axes",
        lambda: scaled_dot_product_attention(X, X, X),
        lambda: ALL(*[X[:, None]] * 3)[:, 0],
        "`feature_axis=-1, seq_axis=-2`",
        lambda: attend(X, X, X),
        unknown=(
            "guide/attention",
            "In arrays of two and three axes features come first by default",
        ),
    ),
    Mistake(
        "`AbsolutePE(8, 64)` on `(batch, seq, features)`",
        lambda: AbsolutePE(SIZE, 64)(X),
        lambda: X + sinusoids(interleaved=True),
        "`AbsolutePE(8, 64, feature_axis=-1, seq_axis=-2)`",
        lambda: AbsolutePE(SIZE, 64, **AXES)(X),
        error="`x` must have 8 features (`embedding_size`) on axis 0",
    ),
    Mistake(
        "an encoding `(seq, features)` added to `(batch, seq, features)`",
        lambda: pe.add_positional_encoding(X, sinusoids(interleaved=True), **AXES),
        lambda: X + sinusoids(interleaved=True),
        "`(features, seq)`, as `sinusoidal_encoding` has it",
        lambda: pe.add_positional_encoding(
            X, pe.sinusoidal_encoding(np.arange(TOKENS), SIZE), **AXES
        ),
        error="`encoding` must have shape (8, 6) (features, seq)",
    ),
    Mistake(
        "keys that are transposed already",
        lambda: attend(Q, np.swapaxes(K, -1, -2), V, mask=CausalMask()),
        CAUSAL,
        "`k` in the layout of `q`",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="`k` must have the features of `q`, 8 on axis 3",
    ),
    Mistake(
        "a merged axis in the order `batch * heads`",
        lambda: apart(
            scaled_dot_product_attention(
                *(merged(x, heads_first=False) for x in (Q, K, V)),
                mask=CausalMask() | PaddingMask(LENGTHS),
            ),
            heads_first=False,
        ),
        PADDED,
        "`heads * batch`, or an axis for each",
        lambda: apart(
            scaled_dot_product_attention(
                *map(merged, (Q, K, V)), mask=CausalMask() | PaddingMask(LENGTHS)
            )
        ),
        unknown=(
            "guide/attention",
            "A merged `heads * batch` axis is `(heads, batch)` flattened in C order.",
        ),
    ),
    Mistake(
        "`(head, seq, heads * batch)` without axes",
        lambda: apart(scaled_dot_product_attention(*map(merged, (Q, K, V)), mask=CausalMask())),
        CAUSAL,
    ),
    Mistake(
        "images `(batch, channels, height, width)`",
        lambda: pe.PatchEmbedding(SIZE, 4, 3, 16, rng=0)(np.zeros((2, 3, SIZE, SIZE))).shape,
        lambda: (16, 4, 2),
        "`images.transpose(1, 2, 3, 0)`",
        lambda: (
            pe.PatchEmbedding(SIZE, 4, 3, 16, rng=0)(
                np.zeros((2, 3, SIZE, SIZE)).transpose(1, 2, 3, 0)
            ).shape
        ),
        error="`images` must have shape (3, 8, 8, batch)",
    ),
]

MASKS = [
    Mistake(
        "PyTorch's boolean mask, True where a query attends",
        lambda: attend(Q, K, V, mask=np.tri(TOKENS, dtype=bool)),
        CAUSAL,
        "`mask=~attn_mask`",
        lambda: attend(Q, K, V, mask=~np.tri(TOKENS, dtype=bool)),
        unknown=TRUE_IS_HIDDEN,
    ),
    Mistake(
        "PyTorch's name, `attn_mask=`",
        lambda: attend(Q, K, V, attn_mask=np.tri(TOKENS, dtype=bool)),
        CAUSAL,
        "`mask=~attn_mask`, or `bias=attn_mask` where it is added to scores",
        lambda: attend(Q, K, V, mask=~np.tri(TOKENS, dtype=bool)),
        error="Pass mask=~attn_mask, or bias=attn_mask where it is added to scores.",
    ),
    Mistake(
        "an additive mask, 0 and minus infinity, as `mask`",
        lambda: attend(Q, K, V, mask=np.where(np.tri(TOKENS), 0, -np.inf)),
        CAUSAL,
        "`bias=`, or `mask=additive < 0`",
        lambda: attend(Q, K, V, mask=np.where(np.tri(TOKENS), 0, -np.inf) < 0),
        error="Pass mask < 0 if it would be added to scores",
    ),
    Mistake(
        "an additive mask, 0 and minus infinity, as `bias`",
        lambda: attend(Q, K, V, bias=np.where(np.tri(TOKENS), 0, -np.inf)),
        CAUSAL,
    ),
    Mistake(
        "an additive mask, 0 and -1e9, as `bias`",
        lambda: attend(Q, K, V, bias=np.where(np.tri(TOKENS), 0, -1e9)),
        CAUSAL,
    ),
    Mistake(
        "a boolean mask as `bias`",
        lambda: attend(Q, K, V, bias=~np.tri(TOKENS, dtype=bool)),
        CAUSAL,
        "`mask=`",
        lambda: attend(Q, K, V, mask=~np.tri(TOKENS, dtype=bool)),
        error="`bias` must have a real floating-point dtype, got bool",
    ),
    Mistake(
        "no mask in a decoder",
        lambda: attend(Q, K, V),
        CAUSAL,
        "`mask=CausalMask()`",
        lambda: attend(Q, K, V, mask=CausalMask()),
        unknown=(
            "scaled_dot_product_attention",
            "If None, each query sees all keys: a decoder needs ``CausalMask()``.",
        ),
    ),
    Mistake(
        "`is_causal=True`",
        lambda: attend(Q, K, V, is_causal=True),
        CAUSAL,
        "`mask=CausalMask()`",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="Pass mask=CausalMask().",
    ),
    Mistake(
        "the class, `mask=CausalMask`",
        lambda: attend(Q, K, V, mask=CausalMask),
        CAUSAL,
        "`mask=CausalMask()`",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="`mask` must be a mask, got the class CausalMask. Pass CausalMask(...).",
    ),
    Mistake(
        "an array `(query, key, batch)` for `q` of `(batch, heads, seq, head)`",
        lambda: attend(Q, K, V, mask=pe.create_causal_mask(TOKENS)),
        CAUSAL,
        "the value itself, or `to_attend` for others",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="`mask` must have shape (2, 4, 6, 6) (queries on axis 2, keys on axis 3)",
    ),
    Mistake(
        "`CausalMask()` for PyTorch's `is_causal`, with fewer queries than keys",
        lambda: attend(Q[:, :, :2], K, V, mask=CausalMask()),
        partial(attended, q=Q[:, :, :2]),
        "`offset=0`, as the first query is at the first key there",
        lambda: attend(Q[:, :, :2], K, V, mask=CausalMask(), offset=0),
        unknown=LAST_AT_LAST,
    ),
    Mistake(
        "`CausalMask()` for the last token, with concatenated keys",
        lambda: attend(Q[:, :, 5:], K, V, mask=CausalMask()),
        LAST,
    ),
    Mistake(
        "`SlidingWindowMask(4, 0)` for `sliding_window = 4`",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(4, 0)),
        WINDOW,
        "`SlidingWindowMask.of(4)`, or `attention_layers(config)`: its own key is the fourth",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(3, 0)),
        unknown=(
            "SlidingWindowMask",
            "``SlidingWindowMask.of(w)`` is the causal window of w keys.",
        ),
    ),
    Mistake(
        "`SlidingWindowMask(4)`",
        lambda: SlidingWindowMask(4),
        WINDOW,
        "`SlidingWindowMask(3, 0)`",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(3, 0)),
        error="Write SlidingWindowMask(left, right)",
    ),
    Mistake(
        "-1 for no limit, as in flash-attn",
        lambda: SlidingWindowMask(-1, 0),
        CAUSAL,
        "`SlidingWindowMask(None, 0)`",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(None, 0)),
        error="`left` must be a non-negative integer, got -1",
    ),
    Mistake(
        "`SlidingWindowMask(3, 0)` without `CausalMask()`",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(3, 0)),
        WINDOW,
    ),
    Mistake(
        "`ChunkedMask(3)` without `CausalMask()` in a decoder",
        lambda: attend(Q, K, V, mask=ChunkedMask(3)),
        PACKED,
        "`CausalMask() | ChunkedMask(3)`",
        lambda: attend(Q, K, V, mask=CausalMask() | ChunkedMask(3)),
        unknown=("ChunkedMask", "Later keys of the chunk, too"),
    ),
    Mistake(
        "masks combined by `&`, as if True attended",
        lambda: attend(Q, K, V, mask=CausalMask() & PaddingMask(LENGTHS)),
        PADDED,
        "`|`",
        lambda: attend(Q, K, V, mask=CausalMask() | PaddingMask(LENGTHS)),
        unknown=("guide/masks", "Values combine by `|` (hidden by either), `&` (hidden by both)"),
    ),
    Mistake(
        "masks combined by `or`",
        lambda: CausalMask() or PaddingMask(LENGTHS),
        PADDED,
        "`|`",
        lambda: attend(Q, K, V, mask=CausalMask() | PaddingMask(LENGTHS)),
        error="A `Mask` is neither true nor false: combine masks by |, & and ~.",
    ),
    Mistake(
        "`CausalMask() | array`",
        lambda: CausalMask() | pe.create_padding_mask(LENGTHS, TOKENS),
        PADDED,
        "a value for each, such as `PaddingMask(lengths)`",
        lambda: attend(Q, K, V, mask=CausalMask() | PaddingMask(LENGTHS)),
        error="Combine arrays by combine_masks(mask.dense(q_len, k_len), array).",
    ),
    Mistake(
        "`CausalMask() | PrefixMask(3)`",
        lambda: attend(Q, K, V, mask=CausalMask() | PrefixMask(3)),
        PREFIX,
        "`PrefixMask(3)` alone",
        lambda: attend(Q, K, V, mask=PrefixMask(3)),
        unknown=("PrefixMask", "Use it without `CausalMask`, which would hide the prefix again."),
    ),
    Mistake(
        "global tokens added by `|`",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(1, 1) | GlobalMask([0])),
        partial(attended, shown=lambda i, j, _: abs(i - j) <= 1 or 0 in (i, j)),
        "`&`, which opens a mask",
        lambda: attend(Q, K, V, mask=SlidingWindowMask(1, 1) & GlobalMask([0])),
        unknown=("GlobalMask", "By ``&`` it opens another mask for its tokens"),
    ),
    Mistake(
        "masks in a list",
        lambda: attend(Q, K, V, mask=[CausalMask(), PaddingMask(LENGTHS)]),
        PADDED,
        "`|`, or `combine_masks(*masks)`",
        lambda: attend(Q, K, V, mask=pe.combine_masks(CausalMask(), PaddingMask(LENGTHS))),
        error="Pass combine_masks(*mask).",
    ),
    Mistake(
        "Keras' `attention_mask`, `(batch, query, key)`",
        lambda: attend(Q, K, V, mask=np.stack([~np.tri(TOKENS, dtype=bool)] * BATCH)),
        CAUSAL,
        "`mask[:, None]`, True where a query may not attend",
        lambda: attend(Q, K, V, mask=np.stack([~np.tri(TOKENS, dtype=bool)] * BATCH)[:, None]),
        error="`mask` must have shape (2, 4, 6, 6) (queries on axis 2, keys on axis 3)",
    ),
    Mistake(
        "a mask `(query, key)` or `(1, 1, query, key)`, True where hidden",
        lambda: attend(Q, K, V, mask=~np.tri(TOKENS, dtype=bool)[None, None]),
        CAUSAL,
    ),
    Mistake(
        "a `mask_mod` of FlexAttention, `(b, h, q_idx, kv_idx)`",
        lambda: attend(Q, K, V, mask=FunctionMask(lambda _b, _h, i, j: i >= j)),
        CAUSAL,
        "`FunctionMask(lambda q_pos, k_pos: ~(q_pos >= k_pos))`",
        lambda: attend(Q, K, V, mask=FunctionMask(lambda i, j: ~(i >= j))),
        error="missing 2 required positional arguments",
    ),
    Mistake(
        "a function that is True where a query attends",
        lambda: attend(Q, K, V, mask=FunctionMask(lambda i, j: i >= j)),
        CAUSAL,
        "`~`",
        lambda: attend(Q, K, V, mask=~FunctionMask(lambda i, j: i >= j)),
        unknown=("FunctionMask", "True where a key is hidden"),
    ),
    Mistake(
        "a function of keys and queries, in this order",
        lambda: attend(Q, K, V, mask=FunctionMask(lambda j, i: j > i)),
        CAUSAL,
        "queries first",
        lambda: attend(Q, K, V, mask=FunctionMask(lambda i, j: j > i)),
        unknown=("FunctionMask", "Gets positions of queries, (n, 1), and of keys, (1, m)"),
    ),
    Mistake(
        "a function that returns one boolean",
        lambda: attend(Q, K, V, mask=lambda *_: False),
        ALL,
        "an array, by operators of arrays",
        lambda: attend(Q, K, V, mask=lambda i, j: (i < 0) | (j < 0)),
        error="`mask(q_idx, k_idx)` must be an array",
    ),
]

PADDING_AND_DOCUMENTS = [
    Mistake(
        "the tokenizer's `attention_mask` as `mask`",
        lambda: attend(Q, K, V, mask=ATTENTION_MASK),
        ALL_OF_PADDED,
        "`PaddingMask.from_attention_mask(attention_mask)`",
        lambda: attend(Q, K, V, mask=PaddingMask.from_attention_mask(ATTENTION_MASK)),
        error="Pass mask == 0 if 1 marks what may be attended to.",
    ),
    Mistake(
        "`attention_mask == 0`, `(batch, key)`, as `mask`",
        lambda: attend(Q, K, V, mask=ATTENTION_MASK == 0),
        ALL_OF_PADDED,
        "`PaddingMask.from_attention_mask(attention_mask)`",
        lambda: attend(Q, K, V, mask=PaddingMask.from_attention_mask(ATTENTION_MASK)),
        error="`mask` must have shape (2, 4, 6, 6) (queries on axis 2, keys on axis 3)",
    ),
    Mistake(
        "`attention_mask == 0` as `mask`, with as many sequences as tokens",
        lambda: attend(*(x[:, :, :2] for x in (Q, K, V)), mask=ATTENTION_MASK[:, 3:5] == 0),
        partial(
            attended,
            *(x[:, :, :2] for x in (Q, K, V)),
            shown=lambda _, j, row: ATTENTION_MASK[row, 3 + j],
        ),
        "`PaddingMask.from_attention_mask(attention_mask)`",
        lambda: attend(
            *(x[:, :, :2] for x in (Q, K, V)),
            mask=PaddingMask.from_attention_mask(ATTENTION_MASK[:, 3:5]),
        ),
        unknown=(
            "scaled_dot_product_attention",
            "it has all axes of the scores, or the axes of queries and keys alone",
        ),
    ),
    Mistake(
        "`(attention_mask == 0)[:, None, None, :]`",
        lambda: attend(Q, K, V, mask=(ATTENTION_MASK == 0)[:, None, None, :]),
        ALL_OF_PADDED,
    ),
    Mistake(
        "`PaddingMask(attention_mask)`",
        lambda: PaddingMask(ATTENTION_MASK),
        ALL_OF_PADDED,
        "`PaddingMask.from_attention_mask(attention_mask)`",
        lambda: attend(Q, K, V, mask=PaddingMask.from_attention_mask(ATTENTION_MASK)),
        error="`lengths` must have shape (batch,), got (2, 6)",
    ),
    Mistake(
        "the attention mask of padding on the left, without `side`",
        lambda: PaddingMask.from_attention_mask(LEFT_MASK),
        lambda: PaddingMask(LENGTHS, "left"),
        '`side="left"`',
        lambda: PaddingMask.from_attention_mask(LEFT_MASK, side="left"),
        error="`attention_mask` must have its padding on the right of each sequence",
    ),
    Mistake(
        "`PaddingMask(lengths)` for padding on the left",
        lambda: attend(Q, K, V, mask=PaddingMask(LENGTHS)),
        partial(attended, shown=lambda _, j, row: j >= TOKENS - LENGTHS[row]),
        '`PaddingMask(lengths, "left")`, or `from_attention_mask`, which checks it',
        lambda: attend(Q, K, V, mask=PaddingMask(LENGTHS, "left")),
        unknown=("PaddingMask", "Lengths do not tell it; `from_attention_mask` checks it."),
    ),
    Mistake(
        "the numbers of padding as `lengths`",
        lambda: attend(Q, K, V, mask=PaddingMask([2, 0])),
        ALL_OF_PADDED,
        "the numbers of tokens",
        lambda: attend(Q, K, V, mask=PaddingMask(LENGTHS)),
        unknown=("PaddingMask", "Lengths of the sequences without padding"),
    ),
    Mistake(
        "an inverted attention mask, 1 at padding on the right",
        lambda: PaddingMask.from_attention_mask(1 - ATTENTION_MASK),
        lambda: PaddingMask(LENGTHS),
        "1 at tokens",
        lambda: PaddingMask.from_attention_mask(ATTENTION_MASK),
        error="`attention_mask` must have its padding on the right of each sequence",
    ),
    Mistake(
        "an attention mask `(seq, batch)`",
        lambda: PaddingMask.from_attention_mask(ATTENTION_MASK.T),
        lambda: PaddingMask(LENGTHS),
        "`attention_mask.T`",
        lambda: PaddingMask.from_attention_mask(ATTENTION_MASK.T.T),
        error="`attention_mask` must have its padding on the right of each sequence",
    ),
    Mistake(
        "`PaddingMask` of another batch",
        lambda: attend(Q, K, V, mask=PaddingMask([4, 6, 6])),
        ALL_OF_PADDED,
        "a length for each sequence",
        lambda: attend(Q, K, V, mask=PaddingMask(LENGTHS)),
        error="`mask` must be for 2 sequences, as axis 0 of `q` has, got 3",
    ),
    Mistake(
        "the prompt's `PaddingMask` for the next token",
        lambda: attend(Q[:, :, 5:], K, V, mask=CausalMask() | PaddingMask([4, 5])),
        LAST,
        "a `KVCache`, or `CausalMask()` for tokens without padding",
        lambda: attend(Q[:, :, 5:], K, V, mask=CausalMask()),
        error="Give `positions` and `key_positions`, below 0 for padding, as a KVCache does.",
    ),
    Mistake(
        "ALiBi with padding on the left, without positions",
        lambda: of_tokens(
            attend(
                *map(padded_on_the_left, (Q, K, V)),
                mask=CausalMask() | PaddingMask(LENGTHS, "left"),
                bias=ALiBiBias(HEADS),
            ),
            LEFT_MASK,
        ),
        lambda: np.concatenate(
            [ALIBI(*(x[r : r + 1, :, :n] for x in (Q, K, V)))[0] for r, n in enumerate(LENGTHS)],
            axis=1,
        ),
    ),
    Mistake(
        "`RoPE` with padding on the left, without positions",
        lambda: of_tokens(
            attend(
                *(rope()(padded_on_the_left(x)) for x in (Q, K)),
                padded_on_the_left(V),
                mask=CausalMask() | PaddingMask(LENGTHS, "left"),
            ),
            LEFT_MASK,
        ),
        lambda: of_tokens(ROTATED()),
    ),
    Mistake(
        "`LearnedPE` with padding on the left, without positions",
        lambda: learned()(padded_on_the_left(X[:, None])[:, 0])[0, 2],
        lambda: X[0, 0] + LEARNED[:, 0],
        "`positions=positions_from_mask(attention_mask == 0, seq_axis=1)`",
        lambda: learned()(
            padded_on_the_left(X[:, None])[:, 0],
            positions=pe.positions_from_mask(LEFT_MASK == 0, seq_axis=1),
        )[0, 2],
        unknown=("LearnedPE", "Padding on the left counts, too"),
    ),
    Mistake(
        "`positions_from_mask(attention_mask)`",
        lambda: pe.positions_from_mask(LEFT_MASK),
        lambda: np.asarray([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]),
        "`positions_from_mask(attention_mask == 0, seq_axis=1)`",
        lambda: pe.positions_from_mask(LEFT_MASK == 0, seq_axis=1),
        error="Pass mask == 0 if 1 marks what may be attended to.",
    ),
    Mistake(
        "`positions_from_mask` of `(batch, seq)` without `seq_axis`",
        lambda: pe.positions_from_mask(LEFT_MASK == 0),
        lambda: np.asarray([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]),
        "`seq_axis=1`",
        lambda: pe.positions_from_mask(LEFT_MASK == 0, seq_axis=1),
        unknown=("positions_from_mask", "Axis of the sequence: 1 for shape (batch, seq)."),
    ),
    Mistake(
        "packed documents by positions that start again, under `CausalMask()` alone",
        lambda: attend(Q, K, V, mask=CausalMask(), positions=RESTARTED),
        PACKED,
        "`CausalMask() | SegmentMask(ids)`, without positions",
        lambda: attend(Q, K, V, mask=CausalMask() | SegmentMask(DOCUMENTS)),
        unknown=(
            "scaled_dot_product_attention",
            "Where positions of several documents in one sequence start again, `CausalMask` alone",
        ),
    ),
    Mistake(
        "documents `(batch, seq)` in a `SegmentMask`",
        lambda: attend(Q, K, V, mask=CausalMask() | SegmentMask([DOCUMENTS, DOCUMENTS])),
        PACKED,
        "`SegmentMask(ids.T)`",
        lambda: attend(
            Q, K, V, mask=CausalMask() | SegmentMask(np.asarray([DOCUMENTS, DOCUMENTS]).T)
        ),
        error="`mask` must be for 2 sequences, as axis 0 of `q` has, got 6",
    ),
    Mistake(
        "`cu_seqlens` as lengths of documents",
        lambda: pe.segment_ids_from_lengths([0, 2, 6])[:TOKENS],
        lambda: np.asarray([0, 0, 1, 1, 1, 1]),
        "`numpy.diff(cu_seqlens)`, and `total_len=`",
        lambda: pe.segment_ids_from_lengths(np.diff([0, 2, 6]), TOKENS),
        unknown=("segment_ids_from_lengths", "not where they end"),
    ),
    Mistake(
        "`cu_seqlens` as lengths of documents, with `total_len`",
        lambda: pe.segment_ids_from_lengths([0, 2, 6], TOKENS),
        lambda: np.asarray([0, 0, 1, 1, 1, 1]),
        "`numpy.diff(cu_seqlens)`",
        lambda: pe.segment_ids_from_lengths(np.diff([0, 2, 6]), TOKENS),
        error="`total_len` must be the sum of `lengths`, 8, or more, got 6",
    ),
]

HEADS_AND_GROUPS = [
    Mistake(
        "fewer key heads without `enable_gqa`",
        lambda: attend(Q, K[:, :2], V[:, :2], mask=CausalMask()),
        GROUPED,
        "`enable_gqa=True`",
        lambda: attend(Q, K[:, :2], V[:, :2], mask=CausalMask(), enable_gqa=True),
        error="or a divisor of it with enable_gqa=True",
    ),
    Mistake(
        "key heads repeated as by `tile`, h0 h1 h0 h1",
        lambda: attend(Q, *(np.tile(x[:, :2], (1, 2, 1, 1)) for x in (K, V)), mask=CausalMask()),
        GROUPED,
        "`enable_gqa=True`, or `repeat`, h0 h0 h1 h1",
        lambda: attend(Q, K[:, :2], V[:, :2], mask=CausalMask(), enable_gqa=True),
        unknown=(
            "scaled_dot_product_attention",
            "query head h then reads key head ``h // group``",
        ),
    ),
    Mistake(
        "key heads repeated by `repeat`, and `enable_gqa=True`",
        lambda: attend(
            Q,
            *(np.repeat(x[:, :2], 2, axis=1) for x in (K, V)),
            mask=CausalMask(),
            enable_gqa=True,
        ),
        GROUPED,
    ),
    Mistake(
        "one key head for all without `enable_gqa`",
        lambda: attend(Q, K[:, :1], V[:, :1], mask=CausalMask()),
        partial(attended, k=K[:, :1], v=V[:, :1]),
    ),
    Mistake(
        "groups on the axis of the batch",
        lambda: attend(np.concatenate([Q, Q]), K, V, enable_gqa=True),
        write="a batch of `k` as long as that of `q`, or 1",
        error="heads alone are grouped, on axis 1",
    ),
    Mistake(
        "groups of a merged `heads * batch` axis",
        lambda: scaled_dot_product_attention(
            *map(merged, (Q, K[:, :2], V[:, :2])), mask=CausalMask(), enable_gqa=True
        ),
        GROUPED,
        "an axis for each",
        lambda: attend(Q, K[:, :2], V[:, :2], mask=CausalMask(), enable_gqa=True),
        error="Give heads and batch an axis each, such as (head, seq, heads, batch).",
    ),
    Mistake(
        "more key heads than query heads",
        lambda: attend(Q[:, :2], K, V, enable_gqa=True),
        write="a divisor of the query heads",
        error="`k` must have length 2 or 1 on axis 1 as `q` has, or a divisor of it",
    ),
    Mistake(
        "values with fewer heads than keys",
        lambda: attend(Q, K, V[:, :2], mask=CausalMask(), enable_gqa=True),
        GROUPED,
        "as many heads as keys",
        lambda: attend(Q, K[:, :2], V[:, :2], mask=CausalMask(), enable_gqa=True),
        error="`v` must have the shape of `k` but for its features",
    ),
]


ROTARY = [
    Mistake(
        "the default layout for pairs of neighbours (GPT-J, Cohere, Llama of Meta)",
        lambda: rope()(Q),
        lambda: turned(Q, layout="interleaved"),
        '`layout="interleaved"`, or `RoPE.from_hf_config`',
        lambda: rope(layout="interleaved")(Q),
        unknown=ALL_OF_A_CONFIGURATION,
    ),
    Mistake(
        "the base of the configuration left out",
        lambda: rope()(Q),
        lambda: turned(Q, base=500_000.0),
        "`RoPE.from_hf_config(config)`",
        lambda: RoPE.from_hf_config(LLAMA, **AXES)(Q),
        unknown=ALL_OF_A_CONFIGURATION,
    ),
    Mistake(
        "the `rope_scaling` of the configuration left out",
        lambda: rope(500_000)(Q),
        lambda: turned(Q, base=500_000.0, step=0.25),
        "`RoPE.from_hf_config(config)`",
        lambda: RoPE.from_hf_config(STRETCHED, **AXES)(Q),
        unknown=ALL_OF_A_CONFIGURATION,
    ),
    Mistake(
        "the `partial_rotary_factor` of the configuration left out",
        lambda: rope()(Q),
        lambda: turned(Q, dim=4),
        "`RoPE.from_hf_config(config)`, or `rotary_dim=`",
        lambda: RoPE.from_hf_config(NEOX, **AXES)(Q),
        unknown=ALL_OF_A_CONFIGURATION,
    ),
    Mistake(
        "`rotary_dim=0.5`",
        lambda: rope(rotary_dim=0.5),
        lambda: turned(Q, dim=4),
        "the number of features",
        lambda: rope(rotary_dim=4)(Q),
        error="`rotary_dim` must be a positive even integer, got 0.5",
    ),
    Mistake(
        "the dict of `rope_scaling` as `scaling`",
        lambda: rope(scaling={"rope_type": "linear", "factor": 4.0}),
        lambda: turned(Q, step=0.25),
        "`LinearScaling(4.0)`, or `RoPE.from_hf_config`",
        lambda: rope(scaling=LinearScaling(4.0))(Q),
        error="`scaling` must be a function such as LinearScaling(4.0), or None",
    ),
    Mistake(
        "the factor 4 of linear scaling as `scale=4`",
        lambda: rope(scale=4.0)(Q),
        lambda: turned(Q, step=0.25),
        "`scaling=LinearScaling(4.0)`, or `scale=1 / 4`",
        lambda: rope(scale=1 / 4)(Q),
        unknown=("RoPE", "0.5 makes each position half a step"),
    ),
    Mistake("an integer for `base`", lambda: rope(500_000)(Q), lambda: turned(Q, base=5e5)),
    Mistake(
        '`base="500000"`',
        lambda: rope("500000"),
        lambda: turned(Q, base=5e5),
        "a number",
        lambda: rope(500_000.0)(Q),
        error="`base` must be a positive finite number, got '500000' of type str",
    ),
    Mistake(
        "`theta=500_000`",
        lambda: rope(theta=500_000),
        lambda: turned(Q, base=5e5),
        "`base=500_000`",
        lambda: RoPE(SIZE, 64, base=500_000, **AXES)(Q),
        error="`RoPE` has no parameter `theta`",
    ),
    Mistake(
        '`layout="neox"`',
        lambda: rope(layout="neox"),
        lambda: turned(Q),
        '`layout="half"`',
        lambda: rope(layout="half")(Q),
        error="`layout` must be 'half' or 'interleaved', got 'neox'",
    ),
    Mistake(
        "queries alone rotated",
        lambda: attend(rope()(Q), K, V, mask=CausalMask()),
        ROTATED,
        "`rope(q)` and `rope(k)`",
        lambda: attend(rope()(Q), rope()(K), V, mask=CausalMask()),
        unknown=ONCE,
    ),
    Mistake(
        "keys rotated twice, before and after they are stored",
        lambda: attend(rope()(Q), rope()(rope()(K)), V, mask=CausalMask()),
        ROTATED,
        "once, before they are stored",
        lambda: attend(rope()(Q), rope()(K), V, mask=CausalMask()),
        unknown=ONCE,
    ),
    Mistake(
        "values rotated",
        lambda: attend(rope()(Q), rope()(K), rope()(V), mask=CausalMask()),
        ROTATED,
        "`v` as it is",
        lambda: attend(rope()(Q), rope()(K), V, mask=CausalMask()),
        unknown=ONCE,
    ),
    Mistake(
        "all heads rotated as one, before they are split",
        lambda: RoPE(HEADS * SIZE, 64, **AXES)(np.swapaxes(Q, 1, 2).reshape(BATCH, TOKENS, -1)),
        lambda: np.swapaxes(turned(Q), 1, 2).reshape(BATCH, TOKENS, -1),
        "split first: `head_size` is the size of a head",
        lambda: np.swapaxes(rope()(Q), 1, 2).reshape(BATCH, TOKENS, -1),
        unknown=("RoPE", "Number of features of a head"),
    ),
    Mistake(
        "the size of the model as `head_size`",
        lambda: RoPE(HEADS * SIZE, 64, **AXES)(Q),
        lambda: turned(Q),
        "the size of a head",
        lambda: rope()(Q),
        error="`x` must have 32 features (`head_size`) on axis 3",
    ),
    Mistake(
        "no `offset` for the next token",
        lambda: rope()(Q[:, :, 5:]),
        lambda: turned(Q[:, :, 5:], [5]),
        "`offset=5`, or `positions=`",
        lambda: rope()(Q[:, :, 5:], offset=5),
        unknown=COUNTED,
    ),
    Mistake(
        "tables of the prompt for the next token",
        lambda: rope().tables(np.arange(5))(Q[:, :, 5:]),
        lambda: turned(Q[:, :, 5:], [5]),
        "`rope.tables(step.positions)`, once a step",
        lambda: rope().tables(np.asarray([5]))(Q[:, :, 5:]),
        error="`positions` must have shape (seq,) = (1,)",
    ),
    Mistake(
        "`offset` with `positions`",
        lambda: rope()(Q[:, :, 5:], positions=np.asarray([0]), offset=5),
        lambda: turned(Q[:, :, 5:], [5]),
        "one of both",
        lambda: rope()(Q[:, :, 5:], positions=np.asarray([5])),
        error="`offset` must be left out where `positions` are given",
    ),
    Mistake(
        "positions that count from 1, for queries and keys",
        lambda: attend(rope()(Q, offset=1), rope()(K, offset=1), V, mask=CausalMask()),
        ROTATED,
    ),
    Mistake(
        "positions as float64",
        lambda: rope()(Q, positions=np.arange(6.0)),
        lambda: turned(Q),
    ),
    Mistake(
        "positions in float16, from 2,048 on",
        lambda: rope()(Q[:, :, 5:], positions=np.asarray([2049], np.float16)),
        lambda: turned(Q[:, :, 5:], [2049]),
        "integers",
        lambda: rope()(Q[:, :, 5:], positions=np.asarray([2049])),
        error="`positions` must be within 2047 in float16",
    ),
    Mistake(
        "the name of transformers, `position_ids=`",
        lambda: rope()(Q, position_ids=np.arange(TOKENS)),
        lambda: turned(Q),
        "`positions=`",
        lambda: rope()(Q, positions=np.arange(TOKENS)),
        error="`RoPE.__call__` has no parameter `position_ids`",
    ),
    Mistake(
        "`position_ids` `(1, seq)`",
        lambda: rope()(Q, positions=np.arange(TOKENS)[None]),
        lambda: turned(Q),
    ),
    Mistake(
        "positions `(seq, batch)` for `(batch, heads, seq, head)`",
        lambda: rope()(Q, positions=np.asarray([range(6), range(1, 7)]).T),
        lambda: np.stack([turned(Q[0]), turned(Q[1], range(1, 7))]),
        "`(batch, seq)`",
        lambda: rope()(Q, positions=np.asarray([range(6), range(1, 7)])),
        error="`positions` must have shape (seq,) = (6,) or (batch, seq) = (2, 6)",
    ),
    Mistake(
        "positions `(seq, batch)`, with as many sequences as tokens",
        lambda: rope()(Q[:, :, :2], positions=np.asarray([[0, 1], [4, 5]]).T),
        lambda: np.stack([turned(Q[0, :, :2], [0, 1]), turned(Q[1, :, :2], [4, 5])]),
        "`(batch, seq)`",
        lambda: rope()(Q[:, :, :2], positions=np.asarray([[0, 1], [4, 5]])),
        unknown=("RoPE.__call__", "in the order that they have in `x`"),
    ),
    Mistake(
        "positions as a list",
        lambda: rope()(Q, positions=[0, 1, 2, 3, 4, 5]),
        lambda: turned(Q),
        "`numpy.asarray(positions)`",
        lambda: rope()(Q, positions=np.asarray([0, 1, 2, 3, 4, 5])),
        error="Pass numpy.asarray(positions).",
    ),
    Mistake(
        "a sequence that is longer than the table",
        lambda: RoPE(SIZE, 4, **AXES)(Q),
        lambda: turned(Q),
        "a larger `seq_len`, or `positions=`",
        lambda: RoPE(SIZE, 4, **AXES)(Q, positions=np.arange(TOKENS)),
        error="`x` must have at most 4 positions (`seq_len`) on axis 2",
    ),
    Mistake(
        "one axis of positions for a rope of rows and columns",
        lambda: rope(sections=(2, 2))(Q, positions=np.arange(TOKENS)),
        lambda: turned(Q),
        "an axis of coordinates first",
        lambda: rope(sections=(2, 2))(Q, positions=np.stack([np.arange(TOKENS)] * 2)),
        error="`positions` must have a leading axis of 2 coordinates",
    ),
    Mistake(
        "`cos` and `sin` of transformers in `apply_rope`",
        lambda: apply_rope(Q, *tables_of_transformers(), feature_axis=-1),
        lambda: turned(Q),
        "`cos[..., : n // 2]`: each number once",
        by_hand,
        error="with one number for each of 4 pairs on axis 3",
    ),
    Mistake(
        "tables of fewer pairs in `apply_rope` without `rotary_dim`",
        lambda: by_hand(dim=4),
        lambda: turned(Q, dim=4),
        "`rotary_dim=4`",
        lambda: by_hand(dim=4, rotary_dim=4),
        error="with one number for each of 4 pairs on axis 3",
    ),
    Mistake(
        "flash-attn's `interleaved=True` in `apply_rope`",
        lambda: by_hand(interleaved=True),
        lambda: turned(Q, layout="interleaved"),
        '`layout="interleaved"`',
        lambda: by_hand(layout="interleaved"),
        error="Pass layout='interleaved' or layout='half'.",
    ),
    Mistake(
        "`apply_rope` without the layout of the model",
        by_hand,
        lambda: turned(Q, layout="interleaved"),
        '`layout="interleaved"`, or `tables(q)`, which knows it',
        lambda: rope(layout="interleaved").tables(np.arange(TOKENS))(Q),
        unknown=("RoPE.tables", "which need the `layout` of the rope, too"),
    ),
    Mistake(
        "weights of several heads converted as one",
        lambda: pe.convert_layout(WEIGHT, "interleaved", "half", axis=0),
        lambda: np.concatenate(
            [np.concatenate([head[::2], head[1::2]]) for head in WEIGHT.reshape(HEADS, SIZE, SIZE)]
        ),
        "`num_heads=`",
        lambda: pe.convert_layout(WEIGHT, "interleaved", "half", axis=0, num_heads=HEADS),
        unknown=("convert_layout", "Number of heads along `axis`, one after the other; 1 if None."),
    ),
    Mistake(
        "one `RoPE` for a model whose layers differ",
        lambda: RoPE.from_hf_config(COHERE_2),
        lambda: [True, True, True, False],
        "`RoPE.layers_from_hf_config(config)`",
        lambda: [rope is not None for rope in RoPE.layers_from_hf_config(COHERE_2)],
        error="call `RoPE.layers_from_hf_config`",
    ),
    Mistake(
        "LongRoPE without the length of the text",
        lambda: RoPE.from_hf_config(PHI3),
        lambda: turned(Q, step=0.25),
        "`seq_len=`",
        lambda: (
            RoPE.from_hf_config(PHI3, 17, **AXES)(Q)
            / RoPE.from_hf_config(PHI3, 17).attention_factor
        ),
        error="`seq_len` must be given, as LongRoPE has other",
    ),
    Mistake(
        "a model without rotary embeddings",
        lambda: RoPE.from_hf_config({"model_type": "bloom", "hidden_size": 32, "n_head": 4}, 64),
        write="queries and keys as they are",
        error="leave its queries and keys as they are",
    ),
    Mistake(
        "a configuration without its `model_type`",
        lambda: RoPE.from_hf_config({k: v for k, v in LLAMA.items() if k != "model_type"}),
        lambda: turned(Q, base=5e5),
        "`layout=`, as the code of the model has it",
        lambda: RoPE.from_hf_config(
            {k: v for k, v in LLAMA.items() if k != "model_type"}, layout="half", **AXES
        )(Q),
        error="pass layout='half' or layout='interleaved', whichever its code has",
    ),
]

SCALES_BIASES_AND_SINKS = [
    Mistake(
        "the default `scale` for T5",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=T5()),
        OF_T5,
        "`scale=1.0`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=T5(), scale=1.0),
        unknown=SCALES,
    ),
    Mistake(
        "the default `scale` for Gemma, with a `query_pre_attn_scalar` of 16",
        lambda: attend(Q, K, V, mask=CausalMask()),
        partial(attended, scale=16**-0.5),
        "`attention_layers(config)`, or `scale=query_pre_attn_scalar ** -0.5`",
        lambda: attend(Q, K, V, mask=CausalMask(), scale=16**-0.5),
        unknown=SCALES,
    ),
    Mistake(
        "the default `scale` for Granite, with an `attention_multiplier` of 0.25",
        lambda: attend(Q, K, V, mask=CausalMask()),
        partial(attended, scale=0.25),
        "`attention_layers(config)`, or `scale=attention_multiplier`",
        lambda: attend(Q, K, V, mask=CausalMask(), scale=0.25),
        unknown=SCALES,
    ),
    Mistake(
        "the default `scale` for DeepSeek, with an `mscale_all_dim` of 1 and a `factor` of 40",
        lambda: attend(Q, K, V, mask=CausalMask()),
        partial(attended, scale=(0.1 * math.log(40) + 1) ** 2 / math.sqrt(SIZE)),
        "`attention_layers(config)`, or `scale=(0.1 * mscale_all_dim * log(factor) + 1) ** 2 / "
        "sqrt(head)`",
        lambda: attend(Q, K, V, mask=CausalMask(), scale=(0.1 * np.log(40) + 1) ** 2 / SIZE**0.5),
        unknown=("YaRNScaling", "Models with `mscale_all_dim` also multiply their scores"),
    ),
    Mistake(
        "queries that are scaled already",
        lambda: attend(Q / SIZE**0.5, K, V, mask=CausalMask()),
        CAUSAL,
        "`scale=1.0`",
        lambda: attend(Q / SIZE**0.5, K, V, mask=CausalMask(), scale=1.0),
        unknown=SCALES,
    ),
    Mistake(
        "what divides the scores as `scale`",
        lambda: attend(Q, K, V, mask=CausalMask(), scale=SIZE**0.5),
        CAUSAL,
        "what multiplies them",
        lambda: attend(Q, K, V, mask=CausalMask(), scale=SIZE**-0.5),
        unknown=("scaled_dot_product_attention", "Positive factor on the scores"),
    ),
    Mistake(
        "`softcap=0` for none",
        lambda: attend(Q, K, V, mask=CausalMask(), softcap=0),
        CAUSAL,
        "`softcap=None`",
        lambda: attend(Q, K, V, mask=CausalMask(), softcap=None),
        error="`softcap` must be a positive finite number, got 0",
    ),
    Mistake(
        "a bias as `mask`",
        lambda: attend(Q, K, V, mask=ALiBiBias(HEADS)),
        ALIBI,
        "`mask=CausalMask(), bias=ALiBiBias(4)`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(HEADS)),
        error="Pass it as `bias`.",
    ),
    Mistake(
        "ALiBi's slopes as `bias`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=pe.alibi_slopes(HEADS)),
        ALIBI,
        "`bias=ALiBiBias(4)`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(HEADS)),
        error="`bias` must have axes of queries and keys, got shape (4,)",
    ),
    Mistake(
        "BLOOM's ALiBi, slope times key, `(heads, 1, key)`",
        lambda: attend(
            Q,
            K,
            V,
            mask=CausalMask(),
            bias=(pe.alibi_slopes(HEADS)[:, None, None] * np.arange(TOKENS))[None],
        ),
        ALIBI,
    ),
    Mistake(
        "`ALiBiBias(4)` without `CausalMask()`",
        lambda: attend(Q, K, V, bias=ALiBiBias(HEADS)),
        partial(ALL, bias=by_alibi),
        "`ALiBiBias(4, causal=False)`",
        lambda: attend(Q, K, V, bias=ALiBiBias(HEADS, causal=False)),
        unknown=("ALiBiBias", "for use with a causal mask"),
    ),
    Mistake(
        "a bias of other heads",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(8)),
        ALIBI,
        "`ALiBiBias(4)`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(HEADS)),
        error="`bias` must be for 4 heads, as axis 1 of `q` has, got 8",
    ),
    Mistake(
        "an array `(query, key, heads)` for `q` of `(batch, heads, seq, head)`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(HEADS)(TOKENS)),
        ALIBI,
        "the value itself",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=ALiBiBias(HEADS)),
        error="`bias` must have shape (2, 4, 6, 6) (queries on axis 2, keys on axis 3)",
    ),
    Mistake(
        "an array of one query and one key for the next token",
        lambda: attend(Q[:, :, 5:], K, V, bias=T5()(1).transpose(2, 0, 1)[None], scale=1.0),
        partial(LAST, bias=by_t5, scale=1.0),
        "the value itself, or `bias(1, k_len)`",
        lambda: attend(Q[:, :, 5:], K, V, bias=T5(), scale=1.0),
        unknown=("guide/attention", "An array of one query and one key broadcasts to all"),
    ),
    Mistake(
        "`T5Bias` in a decoder without `bidirectional=False`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=T5Bias(HEADS, **T5_OPTIONS), scale=1.0),
        OF_T5,
        "`bidirectional=False`",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=T5(), scale=1.0),
        unknown=("T5Bias", "True in an encoder, False in a decoder"),
    ),
    Mistake(
        "T5's table `(heads, buckets)`",
        lambda: T5(embeddings=TABLE.T),
        OF_T5,
        "`(buckets, heads)`, as checkpoints have it",
        lambda: attend(Q, K, V, mask=CausalMask(), bias=T5(), scale=1.0),
        error="`embeddings` must have shape (8, 4), got (4, 8)",
    ),
    Mistake(
        "query minus key in `relative_position_bucket`",
        lambda: pe.relative_position_bucket(np.arange(3)),
        lambda: np.arange(3),
        "key minus query",
        lambda: pe.relative_position_bucket(-np.arange(3)),
        unknown=("relative_position_bucket", "Key minus query"),
    ),
    Mistake(
        "sinks `(1, heads, 1, 1)`",
        lambda: attend(Q, K, V, mask=CausalMask(), sinks=SINKS[None, :, None, None]),
        partial(attended, sinks=SINKS),
        "`(heads,)`",
        lambda: attend(Q, K, V, mask=CausalMask(), sinks=SINKS),
        error="`sinks` must have shape (heads,), got (1, 4, 1, 1)",
    ),
    Mistake(
        "the number of tokens that StreamingLLM keeps, as `sinks` of attention",
        lambda: attend(Q, K, V, mask=CausalMask(), sinks=4),
        write="`KVCache.empty(..., sinks=4)`",
        error="`sinks` must be an array",
    ),
]

CACHES = [
    Mistake(
        "a cache with too few slots",
        lambda: KVCache.empty(BATCH, 3, **AXES).step(4),
        FIFTH,
        "a slot for each token, or `window=` for a ring",
        prompt_and_token,
        error="or with `window`, the number of newest keys that a query sees",
    ),
    Mistake(
        "buffers of four axes, and no axes in the cache",
        lambda: KVCache.empty(BATCH, 8).step(4)[1].store(np.zeros((BATCH, HEADS, 8, SIZE)), K),
        FIFTH,
        "`KVCache.empty(..., feature_axis=-1, seq_axis=-2)`",
        prompt_and_token,
        error="Make the cache with feature_axis=-1, seq_axis=-2",
    ),
    Mistake(
        "other axes in attention than in the cache",
        lambda: scaled_dot_product_attention(
            Q[:, :, :4], *stored()[3], positions=stored()[1], feature_axis=-1, seq_axis=1
        ),
        write="no axes: those of the cache are taken",
        error="Make the cache with the axes of its buffers.",
    ),
    Mistake(
        "the whole buffer given to attention",
        lambda: attend(Q[:, :, :4], *stored()[2], mask=CausalMask(), positions=stored()[1]),
        PROMPT,
        "the keys that `store` returns",
        lambda: attend(Q[:, :, :4], *stored()[3], mask=CausalMask(), positions=stored()[1]),
        error="Pass the keys that `store` returns.",
    ),
    Mistake(
        "a whole buffer of zeros without a cache and without `offset`",
        lambda: hand_made(offset=None),
        FIFTH,
        "`offset=4`, or a `KVCache`",
        lambda: hand_made(offset=4),
        unknown=LAST_AT_LAST,
    ),
    Mistake(
        "one buffer for keys and values, or for two layers",
        one_buffer_twice,
        write="a buffer for each",
        error="`buffer` must be another one for keys, for values and for each layer",
    ),
    Mistake(
        "the next cache thrown away",
        lambda: decoded(keep=False),
        LAST,
        "`cache, step = cache.step(tokens)`",
        decoded,
        error="write cache, step = cache.step(tokens)",
    ),
    Mistake(
        "an earlier step used again",
        an_earlier_step,
        LAST,
        "each step once; `rewind` to go back",
        decoded,
        error="To go back on purpose, rewind the cache",
    ),
    Mistake(
        "`cache.step` in each layer",
        a_step_in_each_layer,
        LAST,
        "once for all layers",
        decoded,
        error="Call `step` once for all layers",
    ),
    Mistake(
        "`cache.step` in each layer, for the prompt alone",
        lambda: a_step_in_each_layer_for_the_prompt()[:, :, :4],
        lambda: K[:, :, :4],
        "once for all layers",
        lambda: stored()[3][0],
        unknown=("guide/decoding", "`cache.step` in each layer for the prompt alone"),
    ),
    Mistake(
        "the whole attention mask given for one token",
        lambda: next_token(*stored()[::2], tokens=np.ones((BATCH, 5), dtype=int)),
        FIFTH,
        "`cache.step(1)`",
        lambda: next_token(*stored()[::2], tokens=1),
        error="The `tokens` of a step are the new ones alone",
    ),
    Mistake(
        "all tokens again, as if these were new",
        lambda: more_keys(K[:, :, :5])[:, :, :5],
        lambda: K[:, :, :5],
        "the new ones alone",
        lambda: more_keys(K[:, :, 4:5]),
        unknown=("guide/decoding", "the whole attention mask together with all tokens"),
    ),
    Mistake(
        "token ids in `step`",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(7 * ATTENTION_MASK),
        lambda: np.asarray([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 4, 5]]),
        "their number, or the attention mask",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(ATTENTION_MASK)[1].positions,
        error="`tokens` must hold 1 at tokens and 0 at padding",
    ),
    Mistake(
        "lengths of prompts in `step`",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(LENGTHS),
        lambda: np.asarray([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 4, 5]]),
        "their number, or the attention mask",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(ATTENTION_MASK)[1].positions,
        error="`tokens` must have shape (2, seq), got (2,)",
    ),
    Mistake(
        "an attention mask `(seq, batch)` in `step`",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(ATTENTION_MASK.T),
        lambda: np.asarray([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 4, 5]]),
        "`(batch, seq)`",
        lambda: KVCache.empty(BATCH, 8, **AXES).step(ATTENTION_MASK)[1].positions,
        error="`tokens` must have shape (2, seq), got (6, 2)",
    ),
    Mistake(
        "a `PaddingMask` with a step",
        lambda: beside_a_step(ATTENTION_MASK, mask=CausalMask() | PaddingMask(LENGTHS)),
        both_padded,
        "`mask=CausalMask()`",
        lambda: of_tokens(beside_a_step(ATTENTION_MASK, mask=CausalMask())),
        error="`mask` must have no PaddingMask",
    ),
    Mistake(
        "an `offset` with a step",
        lambda: beside_a_step(ATTENTION_MASK, mask=CausalMask(), offset=0),
        both_padded,
        "no `offset`",
        lambda: of_tokens(beside_a_step(ATTENTION_MASK, mask=CausalMask())),
        error="`offset` must be left out where `positions` are given",
    ),
    Mistake(
        "an array as `mask` with a step with padding",
        lambda: beside_a_step(ATTENTION_MASK, mask=~np.tri(TOKENS, dtype=bool)),
        both_padded,
        "`mask=CausalMask()`",
        lambda: of_tokens(beside_a_step(ATTENTION_MASK, mask=CausalMask())),
        error="Pass one that knows positions, such as FunctionMask(function).",
    ),
    Mistake(
        "a bare function as `mask` with a step",
        lambda: beside_a_step(ATTENTION_MASK, mask=lambda i, j: j > i),
        both_padded,
        "`FunctionMask(function)`",
        lambda: of_tokens(beside_a_step(ATTENTION_MASK, mask=FunctionMask(lambda i, j: j > i))),
        error="Pass FunctionMask(mask), whose function gets positions.",
    ),
    Mistake(
        "a bare function as `bias` with a step",
        lambda: beside_a_step(4, bias=lambda i, j: -0.5 * (i - j)),
        PROMPT_BY_DISTANCE,
        "`FunctionBias(function)`",
        lambda: beside_a_step(
            4, mask=CausalMask(), bias=pe.FunctionBias(lambda i, j: -0.5 * (i - j))
        ),
        error="Pass FunctionBias(bias), whose function gets positions.",
    ),
    Mistake(
        "the pair that `cache.step` returns, as `positions`",
        lambda: beside_a_step(4, mask=CausalMask(), given=lambda *both: {"positions": both}),
        PROMPT,
        "`cache, step = cache.step(tokens)`, `positions=step`",
        lambda: beside_a_step(4, mask=CausalMask()),
        error="`positions` must be an array",
    ),
    Mistake(
        "`positions=step.positions` without `key_positions`, for the next token",
        lambda: attend(
            Q[:, :, 4:5],
            *(x[:, :, :5] for x in (K, V)),
            mask=CausalMask(),
            positions=stored()[0].step(1)[1].positions,
        ),
        FIFTH,
        "`positions=step`",
        prompt_and_token,
        error="`key_positions` must be given for 5 keys of 1 query",
    ),
    Mistake(
        "`rope(q, positions=step)`",
        lambda: rope()(Q[:, :, :4], positions=stored()[1]),
        lambda: turned(Q[:, :, :4], range(4)),
        "`step.positions`",
        lambda: rope()(Q[:, :, :4], positions=stored()[1].positions),
        error="Pass positions.positions.",
    ),
    Mistake(
        "a window of the mask that is larger than a ring",
        lambda: next_token(*stored(4, 4, window=4)[::2], mask=SlidingWindowMask(7, 0)),
        partial(FIFTH, shown=lambda i, j, _: i - 4 < j),
        "`CausalMask()`, or a larger ring",
        lambda: next_token(*stored(4, 4, window=4)[::2]),
        error="`mask` must show the 4 newest keys of the ring",
    ),
    Mistake(
        "a cache of one sequence for a batch",
        lambda: (
            KVCache.empty(1, 8, **AXES)
            .step(4)[1]
            .store(np.zeros((BATCH, HEADS, 8, SIZE)), K[:, :, :4])
        ),
        FIFTH,
        "`KVCache.empty(batch, capacity)`",
        prompt_and_token,
        error="`buffer` must have 1 sequence on axis 0",
    ),
    Mistake(
        "buffers of another dtype than the keys",
        lambda: (
            KVCache.empty(BATCH, 8, **AXES)
            .step(4)[1]
            .store(np.zeros((BATCH, HEADS, 8, SIZE), np.float32), K[:, :, :4])
        ),
        FIFTH,
        "the dtype of the keys",
        prompt_and_token,
        error="`new` must have the dtype of `buffer`, float32, got float64",
    ),
    Mistake(
        "lengths at the end of integers",
        lambda: KVCache(capacity=8, window=8, lengths=[2**63 - 1], **AXES).step(1),
        write="the numbers of tokens",
        error="`lengths` must be between 0 and the farthest position",
    ),
    Mistake(
        "a `rewind` whose result is thrown away",
        lambda: rewound(kept=False)[:, :, :5],
        lambda: K[:, :, :5],
        "`cache = cache.rewind(1)`",
        lambda: rewound(kept=True),
        unknown=("guide/decoding", "a `rewind` or a `take` whose result is thrown away"),
    ),
    Mistake(
        "beams taken from the cache, but not from the buffers",
        a_buffer_of_other_rows,
        lambda: K[[1, 1], :, :5],
        "`keys[rows]`, too",
        lambda: stored(5)[3][0][[1, 1]],
        unknown=("guide/decoding", "rows of the buffers that are not taken along"),
    ),
    Mistake(
        "the output at index -1 with padding on the right",
        lambda: prompts(ATTENTION_MASK, lambda output: output[:, :, -1]),
        lambda: np.stack([tokens_alone(row)[0, :, -1] for row in range(BATCH)]),
        "index `attention_mask.sum(axis=1) - 1`",
        lambda: prompts(
            ATTENTION_MASK, lambda output: output[range(BATCH), :, ATTENTION_MASK.sum(axis=1) - 1]
        ),
        unknown=("guide/decoding", "The next token comes from the last token of each prompt"),
    ),
    Mistake(
        "buffers that `numpy.empty` made, with NaN in them",
        with_nan,
        FIFTH,
    ),
]


ENCODINGS = [
    Mistake(
        "a learned position beyond the table",
        lambda: learned()(X, positions=np.arange(8, 14)),
        write="a table that is long enough, by `resize` or `max_len`",
        error="`positions` must be from 0 to 11, got 13",
    ),
    Mistake(
        "-1 as a learned position of padding",
        lambda: learned()(X, positions=np.arange(-1, 5)),
        write="any position of the table, and a mask that hides it",
        error="`positions` must be from 0 to 11, got -1",
    ),
    Mistake(
        "learned positions as floats",
        lambda: learned()(X, positions=np.arange(6.0)),
        lambda: X + LEARNED[:, :TOKENS].T,
        "integers",
        lambda: learned()(X, positions=np.arange(6)),
        error="`positions` must have an integer dtype, got float64",
    ),
    Mistake(
        "a table of a checkpoint, `(position, feature)`",
        lambda: LearnedPE(SIZE, 12, embeddings=LEARNED.T, **AXES),
        lambda: X + LEARNED[:, :TOKENS].T,
        "`table.T`",
        lambda: LearnedPE(SIZE, 12, embeddings=LEARNED.T.T, **AXES)(X),
        error="`embeddings` must have shape (8, 12), got (12, 8)",
    ),
    Mistake(
        "the table of OPT, whose first two rows are of no position",
        lambda: learned()(X),
        lambda: X + LEARNED[:, 2 : TOKENS + 2].T,
        "`offset=2`; `padding_idx + 1` in RoBERTa",
        lambda: learned()(X, offset=2),
        unknown=("LearnedPE", "pass ``offset=2`` for the table of OPT"),
    ),
    Mistake(
        "all sines before all cosines, with the default arrangement",
        lambda: AbsolutePE(SIZE, 64, **AXES)(X),
        lambda: X + sinusoids(interleaved=False),
        '`arrangement="concatenated"`',
        lambda: AbsolutePE(SIZE, 64, arrangement="concatenated", **AXES)(X),
        unknown=("AbsolutePE", "Sine and cosine of each frequency side by side, or all sines"),
    ),
    Mistake(
        "`dropout=0.1` at inference, without `rng`",
        lambda: AbsolutePE(SIZE, 64, dropout=0.1, **AXES)(X),
        lambda: X + sinusoids(interleaved=True),
    ),
    Mistake(
        "a token id outside of the vocabulary",
        lambda: TokenEmbedding(12, SIZE, rng=0)(np.asarray([3, 12])),
        write="the `vocab_size` of the tokenizer",
        error="`ids` must be from 0 to 11, got 12",
    ),
    Mistake(
        "-100, a label that is ignored, as a token",
        lambda: TokenEmbedding(12, SIZE, rng=0)(np.asarray([3, -100])),
        write="the token of padding",
        error="`ids` must be from 0 to 11, got -100",
    ),
    Mistake(
        "token vectors without the factor `sqrt(d_model)` of the first transformer and Gemma",
        lambda: TokenEmbedding(12, SIZE, embeddings=LEARNED)(np.asarray([3, 1])),
        lambda: math.sqrt(SIZE) * LEARNED[:, [3, 1]],
        "`d_model ** 0.5 * embed(ids)`",
        lambda: SIZE**0.5 * TokenEmbedding(12, SIZE, embeddings=LEARNED)(np.asarray([3, 1])),
        unknown=("TokenEmbedding", "Some models multiply the vectors"),
    ),
    Mistake(
        "a number of positions in `sinusoidal_encoding`",
        lambda: pe.sinusoidal_encoding(TOKENS, SIZE),
        lambda: sinusoids(interleaved=True).T,
        "`numpy.arange(6)`",
        lambda: pe.sinusoidal_encoding(np.arange(TOKENS), SIZE),
        error="`positions` must be an array",
    ),
    Mistake(
        "longitude before latitude",
        lambda: pe.spherical_encoding(np.asarray([151.0]), np.asarray([-33.0]), 1),
        lambda: of_sphere(-33.0, 151.0),
        "latitude first",
        lambda: pe.spherical_encoding(np.asarray([-33.0]), np.asarray([151.0]), 1),
        error="`latitude` must be from -90 to 90 degrees, got 151.0",
    ),
    Mistake(
        "radians on a sphere",
        lambda: pe.spherical_encoding(np.asarray([0.5]), np.asarray([2.0]), 1),
        lambda: of_sphere(math.degrees(0.5), math.degrees(2.0)),
        '`unit="radians"`',
        lambda: pe.spherical_encoding(np.asarray([0.5]), np.asarray([2.0]), 1, unit="radians"),
        unknown=("spherical_encoding", "Integer or real latitudes from -90 to 90 degrees"),
    ),
]


ARRAYS = [
    Mistake(
        "lists of numbers",
        lambda: attend(Q.tolist(), K, V, mask=CausalMask()),
        CAUSAL,
        "`numpy.asarray(q)`",
        lambda: attend(np.asarray(Q.tolist()), K, V, mask=CausalMask()),
        error="Pass numpy.asarray(q).",
    ),
    Mistake(
        "integers to be rotated",
        lambda: rope()(np.ones(Q.shape, dtype=int)),
        lambda: turned(np.ones(Q.shape)),
        "floats",
        lambda: rope()(np.ones(Q.shape)),
        error="`x` must have a floating-point dtype, got int64",
    ),
    Mistake(
        "keys of another dtype than queries",
        lambda: attend(Q, K.astype(np.float32), V, mask=CausalMask()),
        CAUSAL,
        "one dtype",
        lambda: attend(Q, K, V, mask=CausalMask()),
        error="`k` must have the dtype of `q`, float64, got float32",
    ),
    Mistake(
        "arrays of `numpy.ma`",
        lambda: attend(np.ma.masked_array(Q, Q > 1), K, V, mask=CausalMask()),
        write="`q.filled(0)`, and a mask of queries and keys",
        error="Pass q.filled(...) and a mask of its own.",
    ),
    Mistake(
        "a mask of `numpy.ma`",
        lambda: attend(Q, K, V, mask=np.ma.masked_array(~np.tri(TOKENS, dtype=bool))),
        CAUSAL,
        "`mask.filled(True)`",
        lambda: attend(
            Q, K, V, mask=np.ma.masked_array(~np.tri(TOKENS, dtype=bool)).filled(fill_value=True)
        ),
        error="`mask` must be a plain array, got numpy.ma.MaskedArray",
    ),
    Mistake(
        "a batch for queries alone",
        lambda: attend(Q, K[0], V[0], mask=CausalMask()),
        partial(attended, k=K[[0, 0]], v=V[[0, 0]]),
        "`k[None]`",
        lambda: attend(Q, K[:1], V[:1], mask=CausalMask()),
        error="`k` must have as many axes as `q`, 4",
    ),
    Mistake(
        "weights `(input, output)` of Flax or Keras in `RoPEMultiHeadAttention`",
        lambda: multi_head(transposed=False),
        lambda: oracles.multi_head(X.T, multi_head_layer(transposed=True), None),
        "`kernel.T`",
        lambda: multi_head(transposed=True),
        unknown=("RoPEMultiHeadAttention", "kernels of Flax and Keras have to be transposed"),
    ),
    Mistake(
        "queries of PyTorch and keys of NumPy",
        torch_and_numpy,
        CAUSAL,
        "one library",
        in_torch,
        error="must come from one array library",
        library="torch",
    ),
    Mistake(
        "the buffer that `store` returns thrown away, in NumPy, CuPy or PyTorch",
        lambda: next_token(*stored()[::2]),
        FIFTH,
    ),
    Mistake(
        "the buffer that `store` returns thrown away, in JAX",
        lambda: in_jax(keep=False),
        lambda: K[:, :, :5].astype(np.float32),
        "`buffer, keys = step.store(buffer, new)`",
        lambda: in_jax(keep=True),
        unknown=(
            "guide/decoding",
            "In JAX and other libraries that cannot write, it returns a new one",
        ),
        library="jax",
    ),
]

LAYERS_OF_MODELS = [
    Mistake(
        "the window of Mistral, by `attention_layers`",
        lambda: layer_of(MISTRAL)(Q, K, V),
        lambda: rotated_and_attended(shown=lambda i, j, _: i - 4 < j <= i),
    ),
    Mistake(
        "the `query_pre_attn_scalar` of Gemma 2, by `attention_layers`",
        lambda: layer_of(GEMMA_2, 1)(Q, K, V),
        lambda: rotated_and_attended(scale=16**-0.5),
    ),
    Mistake(
        "the `attention_multiplier` of Granite, by `attention_layers`",
        lambda: layer_of(GRANITE)(Q, K, V),
        lambda: rotated_and_attended(scale=0.25),
    ),
    Mistake(
        "the `mscale_all_dim` of DeepSeek, by `attention_layers`",
        # At one position nothing is rotated, and a query sees all keys.
        lambda: layer_of(DEEPSEEK)(Q, K, V, positions=np.zeros(TOKENS, dtype=int)),
        lambda: attended(
            shown=lambda *_: True, scale=(0.1 * math.log(40) + 1) ** 2 / math.sqrt(SIZE)
        ),
    ),
    Mistake(
        "the next token after an image, without positions",
        after_a_picture,
        lambda: np.full((3, 1, 1), 3 + 2 + 2),  # of the text, and the longer side of the image
    ),
    Mistake(
        "a `window` with a mask that shows more keys",
        lambda: pe.AttentionLayer(HEADS, SIZE, mask=CausalMask(), window=4, **AXES)(Q, K, V),
        WINDOW,
        "`mask=SlidingWindowMask.of(4)`",
        lambda: pe.AttentionLayer(HEADS, SIZE, mask=SlidingWindowMask.of(4), window=4, **AXES)(
            Q, K, V
        ),
        error="`mask` must hide all keys but the 4 newest ones (`window`)",
    ),
    Mistake(
        "`attention_layers` without axes, for `(batch, heads, seq, head)`",
        lambda: pe.attention_layers(LLAMA | {"num_hidden_layers": 1})[0](Q, K, V),
        lambda: attended(turned(Q, base=500_000.0), turned(K, base=500_000.0)),
        "`attention_layers(config, feature_axis=-1, seq_axis=-2)`",
        lambda: layer_of(LLAMA)(Q, K, V),
        error="Make the layer with feature_axis=-1, seq_axis=-2",
    ),
    Mistake(
        "a draft of speculative decoding, read as the type of its target",
        lambda: layer_of({"architectures": ["DFlashDraftModel"]}),
        error="`architectures` must be classes of the model type 'llama'",
        write="layers by hand, as the code of its class attends",
    ),
    Mistake(
        "the sinks of gpt-oss left out",
        lambda: layer_of(GPT_OSS)(Q, K, V),
        error="`sinks` must be given, of shape (num_heads,)",
        write="`sinks=weights`",
    ),
    Mistake(
        "queries and keys rotated before `step.attend`",
        lambda: decoder()[1].attend(0, turned(Q), turned(K), V),
        lambda: attended(turned(Q, base=500_000.0), turned(K, base=500_000.0)),
        "queries and keys as they are projected",
        lambda: decoder()[1].attend(0, Q, K, V),
        unknown=ONCE,
    ),
    Mistake(
        "a layer that attends twice in a step",
        twice_in_a_layer,
        error="one that this step has stored in already",
        write="a step for each token, or chunk of tokens",
    ),
    Mistake(
        "a `DecoderCache` without `dtype` for queries of float32",
        lambda: decoder()[1].attend(0, *(x.astype(np.float32) for x in (Q, K, V))),
        error="`q` must have the dtype of the cache, float64",
        write="`DecoderCache.empty(..., dtype=numpy.float32)`",
    ),
]

SECTIONS = {
    "Axes and layouts": AXES_AND_LAYOUTS,
    "Masks": MASKS,
    "Padding and documents": PADDING_AND_DOCUMENTS,
    "Heads and groups": HEADS_AND_GROUPS,
    "Rotary embeddings": ROTARY,
    "Scales, biases and sinks": SCALES_BIASES_AND_SINKS,
    "Caches": CACHES,
    "Layers of models": LAYERS_OF_MODELS,
    "Encodings": ENCODINGS,
    "Arrays": ARRAYS,
}
MISTAKES = [mistake for section in SECTIONS.values() for mistake in section]

INTRODUCTION = """# Easy mistakes

What a person writes who ports a model, what happens, and what to write. A test runs each of these
{} lines: {} are an error whose message says why, {} are right, and {} cannot be known, as what
is written could be meant. `q`, `k` and `v` are `(batch, heads, seq, head)` unless a line says
otherwise, and attention is `scaled_dot_product_attention`. What gives no sign is found by
comparing one layer with the original.
"""


def page():
    """Return the page of docs/ that lists the mistakes."""
    outcomes = [mistake.outcome for mistake in MISTAKES]
    numbers = [outcomes.count(outcome) for outcome in ("error", "right", "unknown")]
    lines = [INTRODUCTION.format(len(MISTAKES), *numbers)]
    for title, mistakes in SECTIONS.items():
        lines += [f"## {title}\n", "| mistake | what happens | write |", "| --- | --- | --- |"]
        for mistake in mistakes:
            cells = (mistake.what, mistake.happens, mistake.write)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
