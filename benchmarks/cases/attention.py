"""Attention: all scores fit in memory, or do not, are masked causally, or are of one query."""

from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import CHECKED, AttentionInputs, HostArray, decode
from harness.targets import BY_HAND, OURS
from harness.timing import Rounds, Run
from peers import peer

from positional_embeddings import (
    AttentionLayer,
    CausalMask,
    KVCache,
    PaddingMask,
    RoPE,
    SlidingWindowMask,
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.cache import KVStep

HEADS, HEAD = 8, 64
LAST = {"feature_axis": -1, "seq_axis": -2}


def attention(settings: Settings) -> list[Builder]:
    """Return three lengths, the last two also causal."""
    fits, middle, long = (256, 384, 512) if settings.quick else (2048, 4096, 8192)
    return [
        _builder(fits, whole=True),
        _builder(middle, causal=True),
        _builder(long, causal=True),
        _builder(long),
    ]


def _builder(n: int, **options: bool) -> Builder:
    name = f"{n:,} tokens" + (", causal" if "causal" in options else "")
    return f"attention {name}", partial(_measured, n, name, **options)


def _measured(
    n: int, name: str, rounds: Rounds, *, causal: bool = False, whole: bool = False
) -> dict[str, Any]:
    q, k, v = np.random.default_rng(0).standard_normal((3, HEADS, n, HEAD), dtype=np.float32)
    inputs = AttentionInputs(q, k, v, causal)
    # What prepares it, whether its memory is tracked, and its view.
    forms = {
        "torch SDPA": (peer("torch.attention", inputs), False, _rows),
        OURS: (partial(ours, inputs), True, _rows),
    }
    if whole:
        forms |= {
            f"{OURS}, (head, seq, heads)": (partial(features_first, inputs), True, _rows_of_first),
            f"{OURS}, unblocked": (partial(unblocked, inputs), True, _rows),
            "textbook NumPy": (peer("numpy.attention", inputs), True, _rows),
            "JAX jit": (peer("jax.attention", inputs), False, _rows),
        }
    expected = inputs.expected()
    contenders = [
        Contender(form, prepare, expected, tracked=tracked, view=view)
        for form, (prepare, tracked, view) in forms.items()
    ]
    return measured(Case("attention", name, q.nbytes, contenders, {"tokens": n}), rounds)


def ours(inputs: AttentionInputs) -> Run:
    """Return the call, which chooses its blocks."""
    q, k, v = (x[None] for x in (inputs.q, inputs.k, inputs.v))
    options = LAST | ({"mask": CausalMask()} if inputs.causal else {})
    return lambda: scaled_dot_product_attention(q, k, v, **options)[0]


def unblocked(inputs: AttentionInputs) -> Run:
    """Return the call that keeps all scores at once."""
    q, k, v = (x[None] for x in (inputs.q, inputs.k, inputs.v))
    return lambda: (attention_weights(q, k, **LAST) @ v)[0]


def features_first(inputs: AttentionInputs) -> Run:
    """Return the call on (head, seq, heads)."""
    q, k, v = (np.ascontiguousarray(x.transpose(2, 1, 0)) for x in (inputs.q, inputs.k, inputs.v))
    return lambda: scaled_dot_product_attention(q, k, v)


def _rows(output: Any) -> HostArray:
    return np.asarray(output)[:, ::CHECKED]


def _rows_of_first(output: Any) -> HostArray:
    return _rows(np.asarray(output).transpose(2, 1, 0))


def few_queries(settings: Settings) -> list[Builder]:  # noqa: ARG001
    """Return one query of 12 heads over 16 keys."""
    return [("few queries, 16 keys", _few_queries)]


def _few_queries(rounds: Rounds) -> dict[str, Any]:
    rng, n = np.random.default_rng(0), 16
    q = rng.standard_normal((1, 12, 1, HEAD), dtype=np.float32)
    k, v = rng.standard_normal((2, 1, 12, n, HEAD), dtype=np.float32)
    masks = {"": None, ", causal": CausalMask(), ", padding": PaddingMask([n])}
    expected = by_hand(q, k, v)
    contenders = [Contender(BY_HAND, lambda: partial(by_hand, q, k, v), expected)]
    contenders += [
        Contender(
            f"{OURS}{name}",
            partial(partial, scaled_dot_product_attention, q, k, v, mask=mask, **LAST),
            expected,
        )
        for name, mask in masks.items()
    ]
    return measured(Case("few queries", f"1 query, {n} keys", k.nbytes, contenders), rounds)


def by_hand(q: HostArray, k: HostArray, v: HostArray) -> HostArray:
    """Return the attention as plain NumPy has it."""
    scores = (q * HEAD**-0.5) @ k.swapaxes(-1, -2)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    return (scores @ v) / scores.sum(axis=-1, keepdims=True)


def decoding_step(settings: Settings) -> list[Builder]:
    """Return a token through 12 layers of 768 features, with the tables at hand."""
    layers, n = (2, 64) if settings.quick else (12, 2048)
    return [(f"decoding step, {n:,} keys", partial(_decoding_step, layers, n))]


def cached_step(settings: Settings) -> list[Builder]:
    """Return the attention of tokens in 12 layers, with their cache, and the parts of a step."""
    numbers = (64,) if settings.quick else (64, 2048)
    of_layers = [(f"cached step, {n:,} keys", partial(_cached_step, n)) for n in numbers]
    return [*of_layers, ("parts of a step, 64 keys", _parts_of_a_step)]


def _cached_step(n: int, rounds: Rounds, layers: int = 12, tokens: int = 16) -> dict[str, Any]:
    """Time tokens one after another, behind about `n` keys."""
    rng, heads = np.random.default_rng(0), 12
    rope = RoPE(HEAD, n + tokens, **LAST)
    layer = AttentionLayer(heads, HEAD, rope=rope, mask=CausalMask(), **LAST)
    empty = KVCache.empty([layer] * layers, 1, n + tokens, dtype=np.float32)
    prompt, step = empty.step(n)
    for number in range(layers):
        step.attend(number, *rng.standard_normal((3, 1, heads, n, HEAD), dtype=np.float32))
    token = rng.standard_normal((3, 1, heads, 1, HEAD), dtype=np.float32)
    buffers = [tuple(x.copy() for x in pair) for pair in prompt._buffers]  # noqa: SLF001

    def plain() -> HostArray:
        q, k, v = token
        for at in range(n, n + tokens):
            angles = at * rope.inv_freq
            cos, sin = (function(angles).astype(np.float32) for function in (np.cos, np.sin))
            seen = np.s_[:, :, : at + 1]
            for keys, values in buffers:
                keys[:, :, at], values[:, :, at] = turned(k, cos, sin)[:, :, 0], v[:, :, 0]
                output = by_hand(turned(q, cos, sin), keys[seen], values[seen])
        return output

    expected, name = plain(), f"{tokens} tokens, {layers} layers, {n:,} keys"
    contenders = [
        Contender(BY_HAND, lambda: plain, expected),
        Contender(OURS, lambda: partial(decode, prompt, token, layers, tokens), expected),
    ]
    return measured(Case("cached step", name, buffers[0][0].nbytes, contenders), rounds)


def _parts_of_a_step(rounds: Rounds) -> dict[str, Any]:
    """Time a step of a cache, an attention in it, its first one, and with masks made anew."""
    rng, heads, n = np.random.default_rng(0), 12, 64
    q = rng.standard_normal((1, heads, 1, HEAD), dtype=np.float32)
    k, v = rng.standard_normal((2, 1, heads, n, HEAD), dtype=np.float32)
    empty = KVCache.empty(1, 1, n, num_kv_heads=heads, head_size=HEAD, **LAST)
    cache, _ = empty.step(n - 1)
    _, known = cache.step(1)
    expected = by_hand(q, k, v)

    def attend(step: KVStep, mask: Any) -> HostArray:
        return scaled_dot_product_attention(q, k, v, mask=mask, positions=step, **LAST)

    def two_masks() -> Any:
        return CausalMask() | SlidingWindowMask.of(n)

    mask = two_masks()
    runs = {
        BY_HAND: lambda: by_hand(q, k, v),
        "a step": lambda: cache.step(1),
        "a step and its first attention": lambda: attend(cache.step(1)[1], mask),
        "a further attention": lambda: attend(known, mask),
        "a further attention, masks made anew": lambda: attend(known, two_masks()),
    }
    contenders = [
        Contender(name, partial(lambda run: run, run), None if name == "a step" else expected)
        for name, run in runs.items()
    ]
    return measured(Case("parts of a step", f"1 query, {n} keys", k.nbytes, contenders), rounds)


def turned(x: HostArray, cos: HostArray, sin: HostArray) -> HostArray:
    """Return the rotation of halves as plain NumPy has it."""
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _decoding_step(layers: int, n: int, rounds: Rounds) -> dict[str, Any]:
    rng, heads, d_model = np.random.default_rng(0), 12, 12 * HEAD
    shapes = (d_model, 3 * d_model), (d_model, d_model), (d_model, 4 * d_model)
    weights = [
        [
            0.02 * rng.standard_normal(shape, dtype=np.float32)
            for shape in (*shapes, shapes[2][::-1])
        ]
        for _ in range(layers)
    ]
    caches = rng.standard_normal((layers, 2, 1, heads, n, HEAD), dtype=np.float32)
    x = rng.standard_normal((1, 1, d_model), dtype=np.float32)
    rope, mask = RoPE(HEAD, n, **LAST), CausalMask()
    angles = (n - 1) * rope.inv_freq
    cos, sin = (function(angles).astype(np.float32) for function in (np.cos, np.sin))

    rotated = partial(turned, cos=cos, sin=sin)

    def step(rotate: Any, attend: Any) -> HostArray:
        token = x
        for (to_qkv, to_output, up, down), (keys, values) in zip(weights, caches, strict=True):
            qkv = (token @ to_qkv).reshape(1, 1, 3, heads, HEAD).transpose(2, 0, 3, 1, 4)
            keys[:, :, -1:], values[:, :, -1:] = rotate(qkv[1]), qkv[2]
            attended = attend(rotate(qkv[0]), keys, values)
            token = token + attended.swapaxes(1, 2).reshape(1, 1, d_model) @ to_output
            token = token + np.maximum(token @ up, 0) @ down
            token = token / np.sqrt((token * token).mean())
        return token

    ours = partial(scaled_dot_product_attention, mask=mask, **LAST)
    forms = {BY_HAND: (rotated, by_hand), OURS: (rope.tables(np.asarray([n - 1])), ours)}
    expected = step(rotated, by_hand)
    contenders = [
        Contender(name, partial(partial, step, *form), expected, 1e-4)
        for name, form in forms.items()
    ]
    case = Case("decoding step", f"{layers} layers, {n:,} keys", caches.nbytes, contenders)
    return measured(case, rounds)
