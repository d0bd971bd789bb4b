"""Calls on CuPy's arrays whose launches and waits are counted."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    RoPE,
    SlidingWindowMask,
    T5Bias,
    apply_rope,
    attention_weights,
    create_causal_mask,
    create_padding_mask,
    describe_mask,
    mask_to_bias,
    scaled_dot_product_attention,
)

Call = Callable[[], Any]
LAST = {"feature_axis": -1, "seq_axis": -2}
BATCH, HEADS, KEY_HEADS, HEAD, TOKENS = 2, 4, 2, 64, 300


def calls(cupy: Any) -> Iterator[tuple[str, Call]]:
    """Yield calls, with the names of what they do."""
    yield from _rotation(cupy)
    yield from _decoding(cupy)
    yield from _blocks(cupy)
    yield from _masks_and_biases(cupy)


def _ones(cupy: Any, *shape: int) -> Any:
    return cupy.ones(shape, dtype=cupy.float32)


def _rotation(cupy: Any) -> Iterator[tuple[str, Call]]:
    """Yield rotations and an encoding that is added."""
    x, token = _ones(cupy, BATCH, HEADS, TOKENS, HEAD), _ones(cupy, BATCH, HEADS, 1, HEAD)
    rope = RoPE(HEAD, 4096, **LAST)
    plain = RoPE(HEAD, 4096, fused=False, **LAST)
    seconds = RoPE(HEAD, 4096, sections=(8, 12, 12), **LAST)
    ids, one = cupy.arange(TOKENS), cupy.full((1,), TOKENS)
    rows = cupy.stack([ids, ids + 7])[:, None, :]
    cos, sin = rope.cos_sin(x, positions=ids)
    yield "rotation", partial(rope, x)
    yield "rotation, one token", partial(rope, token, offset=TOKENS)
    yield "rotation, inverse", partial(rope, x, inverse=True)
    yield "rotation, plain", partial(plain, x)
    yield "rotation, plain, one token", partial(plain, token, offset=TOKENS)
    yield "rotation, positions=", partial(rope, x, positions=ids)
    yield "rotation, positions= of one token", partial(rope, token, positions=one)
    yield "rotation, positions= of each sequence", partial(rope, x, positions=rows)
    yield "rotation, positions= of integers and time", partial(rope, x, positions=ids * 0.5)
    yield (
        "rotation, positions= of three coordinates",
        partial(seconds, x, positions=cupy.stack([ids] * 3)),
    )
    yield "RoPE.cos_sin, positions=", partial(rope.cos_sin, x, positions=ids)
    yield "apply_rope with tables", partial(apply_rope, x, cos, sin, feature_axis=-1)
    yield "RoPE.shift", partial(rope.shift, x, 5)
    added = AbsolutePE(HEAD, 4096, **LAST)
    yield "AbsolutePE", partial(added, x)
    yield "AbsolutePE, positions=", partial(added, x, positions=ids)


def _decoding(cupy: Any) -> Iterator[tuple[str, Call]]:
    """Yield attention of one token."""
    q = _ones(cupy, BATCH, HEADS, 1, HEAD)
    k = _ones(cupy, BATCH, HEADS, TOKENS, HEAD)
    few = _ones(cupy, BATCH, KEY_HEADS, TOKENS, HEAD)
    first = [cupy.ascontiguousarray(cupy.transpose(x, (3, 2, 0, 1))) for x in (q, k)]
    hidden = cupy.zeros((1, 1, 1, TOKENS), dtype=bool)
    hidden[..., :5] = True
    attend = partial(scaled_dot_product_attention, **LAST)
    grouped = partial(attend, q, few, few, enable_gqa=True)
    of = "attention of one token"
    yield of, partial(attend, q, k, k)
    yield f"{of}, causal mask", partial(attend, q, k, k, mask=CausalMask())
    yield f"{of}, sliding window", partial(attend, q, k, k, mask=SlidingWindowMask(99, 0))
    yield f"{of}, array for mask", partial(attend, q, k, k, mask=hidden)
    yield f"{of}, grouped heads", grouped
    yield f"{of}, grouped heads, array for mask", partial(grouped, mask=hidden)
    yield f"{of}, ALiBi", partial(attend, q, k, k, bias=ALiBiBias(HEADS))
    yield f"{of}, features first", partial(scaled_dot_product_attention, *first, first[1])
    yield "attention_weights of one token", partial(attention_weights, q, k, **LAST)


def _blocks(cupy: Any) -> Iterator[tuple[str, Call]]:
    """Yield attention of many tokens."""
    x = _ones(cupy, 1, 2, 2048, 16)
    attend = partial(scaled_dot_product_attention, x, x, x, **LAST)
    shared = partial(scaled_dot_product_attention, x, x[:, :1], x[:, :1], **LAST)
    of = "attention of 2,048 tokens"
    yield f"{of}, at once", attend
    yield f"{of}, at once, causal mask", partial(attend, mask=CausalMask())
    yield f"{of}, blocks of 1,024", partial(attend, block_size=1024)
    yield (
        f"{of}, blocks of 1,024, causal mask",
        partial(attend, mask=CausalMask(), block_size=1024),
    )
    yield f"{of}, blocks of 1,024, one key head", partial(shared, block_size=1024)


def _masks_and_biases(cupy: Any) -> Iterator[tuple[str, Call]]:
    """Yield masks and biases between 40 queries and keys."""
    n = 40
    mask = create_causal_mask(n, xp=cupy)
    lengths = cupy.asarray([n, n - 3])
    alibi, buckets = ALiBiBias(HEADS), T5Bias(HEADS, xp=cupy, rng=0)
    positions = cupy.arange(n)
    yield "create_causal_mask", partial(create_causal_mask, n, xp=cupy)
    yield "create_padding_mask", partial(create_padding_mask, lengths, n)
    yield "mask_to_bias", partial(mask_to_bias, mask)
    yield "CausalMask.dense", partial(CausalMask().dense, n, xp=cupy)
    yield "ALiBiBias", partial(alibi, n, xp=cupy)
    yield "ALiBiBias of positions", partial(alibi, query_positions=positions)
    yield "T5Bias", partial(buckets, n)
    yield "describe_mask of an array", partial(describe_mask, mask)
    yield "describe_mask of a causal mask", partial(describe_mask, CausalMask(), n)
