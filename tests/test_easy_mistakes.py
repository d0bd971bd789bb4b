"""Easy mistakes: each line of the page is run, and mistakes of padded prompts in caches."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import (
    CausalMask,
    KVCache,
    PaddingMask,
    RoPE,
    SlidingWindowMask,
    T5Bias,
    apply_rope,
    grid_positions,
    scaled_dot_product_attention,
)

PAGE = (Path(__file__).parents[1] / "docs/guide/easy_mistakes.md").read_text(encoding="utf-8")
(SET_UP,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SET_UP = compile(SET_UP, "the block of the page", "exec")
NAMES = {}
exec(SET_UP, NAMES)  # noqa: S102 - its own page


def lines():
    """Yield the line of each row that is a mistake, its sign, and the line to write."""
    for row in re.findall(r"^\| (.* \| .* \| .*) \|$", PAGE, re.MULTILINE):
        mistake, sign, right = (x.replace("\\|", "|") for x in re.split(r" (?<!\\)\| ", row))
        if codes := re.findall("`([^`]+)`", mistake):
            yield codes[-1], sign, re.search("`([^`]+)`", right)[1]


def value_of(line):
    """Run a line, with a cache of its own where it stores, and return its last value."""
    names = dict(NAMES)
    if re.search("cache|step|keys", line):
        exec(SET_UP, names)  # noqa: S102 - its own page
    if re.match(r"\w+=", line):
        line = f"attend(q, k, v, {line})"
    *first, last = line.split("; ")
    exec("\n".join(first), names)  # noqa: S102 - its own page
    return eval(last, names)


# What is meant where nothing tells of the mistake, in plain NumPy.

q, k, v, x, weight = (NAMES[name] for name in ("q", "k", "v", "x", "weight"))
TO, FROM = np.arange(6), np.arange(6)[:, None]
CAUSAL, DOCUMENTS = TO <= FROM, TO // 3 == FROM // 3
OF_ROWS = np.asarray([4, 6])[:, None, None, None] > TO
HALVES = slice(4), slice(4, 8)
NEIGHBOURS = slice(0, None, 2), slice(1, None, 2)
LEFT = np.asarray([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]])


def attended(q=q, k=k, v=v, *, format_value=CAUSAL, bias=0.0, scale=8**-0.5):
    scores = np.where(format_value, scale * q @ k.swapaxes(-1, -2) + bias, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def turned(x, at=TO, *, base=10_000.0, pairs=HALVES, step=1.0):
    """Rotate (..., seq, head) as complex numbers."""
    count = x.shape[-1] // 2
    angles = step * np.asarray(at)[..., None] * base ** -(np.arange(count) / count)
    numbers = (x[..., pairs[0]] + 1j * x[..., pairs[1]]) * np.exp(1j * angles)
    out = np.empty_like(x)
    out[..., pairs[0]], out[..., pairs[1]] = numbers.real, numbers.imag
    return out


def table(rows, seed):
    """Return the drawn table of a `LearnedPE` or a `TokenEmbedding`, (positions, features)."""
    return pe.LearnedPE(8, rows, rng=seed).embeddings.T


def harmonics(latitude, longitude):
    """Return the harmonics of degrees 0 and 1: 1 and the coordinates y, z and x, scaled."""
    at = math.cos(latitude)
    place = [at * math.sin(longitude), math.sin(latitude), at * math.cos(longitude)]
    return np.asarray([1.0, *(math.sqrt(3) * n for n in place)])[:, None] / math.sqrt(4 * math.pi)


S4 = np.asarray([2.0 ** (-2 * head) for head in range(1, 5)])[:, None, None]  # slopes of ALiBi
ALL = np.asarray([True])
PREFIX = CAUSAL | (TO < 3)
WINDOW = CAUSAL & (FROM - TO < 4)
LOCAL = (abs(FROM - TO) <= 1) | (TO == 0) | (FROM == 0)
ROTATED = attended(turned(q), turned(k), format_value=ALL)
APPLIED = "apply_rope(q, rope.cos.T[:6], rope.sin.T[:6], feature_axis=-1)"
MEANT = {
    "scaled_dot_product_attention(x, x, x)": attended(x, x, x, format_value=ALL),
    "RoPE(2, 64)(x[..., :2])": turned(x[..., :2], pairs=(slice(1), slice(1, 2))),
    "attend(h, h, h)": attended(q, q, q, format_value=ALL).swapaxes(1, 2),
    "m = q.transpose(3, 2, 0, 1).reshape(8, 6, 8); "
    "scaled_dot_product_attention(m, m, m, mask=PaddingMask(lengths))": attended(
        q, q, q, format_value=OF_ROWS
    )
    .transpose(3, 2, 1, 0)
    .reshape(8, 6, 8),
    "mask=np.tri(6) == 1": attended(),
    "attend(q, k, v)": attended(),
    "attend(q[:, :, :2], k, v, mask=CausalMask())": attended(q[:, :, :2], format_value=CAUSAL[:2]),
    "mask=SlidingWindowMask(4, 0)": attended(format_value=WINDOW),
    "mask=ChunkedMask(3)": attended(format_value=CAUSAL & DOCUMENTS),
    "mask=CausalMask() & PaddingMask(lengths)": attended(format_value=CAUSAL & OF_ROWS),
    "mask=CausalMask() | PrefixMask(3)": attended(format_value=PREFIX),
    "mask=SlidingWindowMask(1, 1) | GlobalMask([0])": attended(format_value=LOCAL),
    "mask=FunctionMask(lambda i, j: i >= j)": attended(),
    "mask=FunctionMask(lambda j, i: j > i)": attended(),
    "attend(*(a[:, :, :2] for a in (q, k, v)), mask=attention_mask[:, 3:5] == 0)": attended(
        q[:, :, :2], k[:, :, :2], v[:, :, :2], format_value=OF_ROWS[..., 3:5]
    ),
    "mask=PaddingMask(lengths)": attended(format_value=OF_ROWS[..., ::-1]),
    "mask=PaddingMask([2, 0])": attended(format_value=OF_ROWS),
    "LearnedPE(8, 12, rng=0, **axes)(x)": x + table(12, 0)[LEFT],
    "positions_from_mask(attention_mask[:, ::-1] == 0)": LEFT,
    "attend(q, k, v, mask=CausalMask(), positions=np.asarray([0, 1, 2, 0, 1, 2]))": attended(
        format_value=CAUSAL & DOCUMENTS
    ),
    "segment_ids_from_lengths([0, 2, 6])": np.asarray([0, 0, 1, 1, 1, 1]),
    "rope(q)": turned(q, pairs=NEIGHBOURS),
    "rope(k)": turned(k, base=500_000.0, step=0.25),
    "RoPE(8, 64, scale=4, **axes)(q)": turned(q, step=0.25),
    "attend(rope(q), k, v)": ROTATED,
    "attend(rope(q), rope(rope(k)), v)": ROTATED,
    "RoPE(32, 64, **axes)(h.reshape(2, 6, 32))": turned(q).swapaxes(1, 2).reshape(2, 6, 32),
    "rope(q[:, :, 5:])": turned(q[:, :, 5:], [5]),
    "rope(q[:, :, :2], positions=np.asarray([[0, 4], [1, 5]]))": turned(
        q[:, :, :2], [[[0, 1]], [[4, 5]]]
    ),
    APPLIED: turned(q, pairs=NEIGHBOURS),
    'convert_layout(weight, "interleaved", "half", axis=0)': weight.reshape(4, 4, 2, 8)
    .swapaxes(1, 2)
    .reshape(32, 8),
    "attend(q, *(np.tile(a[:, :2], (1, 2, 1, 1)) for a in (k, v)))": attended(
        k=k[:, [0, 0, 1, 1]], v=v[:, [0, 0, 1, 1]], format_value=ALL
    ),
    "attend(rope(q), rope(k), v, mask=CausalMask())": attended(
        *(turned(a, base=500_000.0, step=0.25) for a in (q, k)), scale=0.25
    ),
    "attend(q / 8**0.5, k, v)": attended(format_value=ALL),
    "bias=ALiBiBias(4)": attended(bias=-S4 * abs(FROM - TO), format_value=ALL),
    "attend(q[:, :, 5:], k, v, bias=ALiBiBias(4)(1).transpose(2, 0, 1)[None])": attended(
        q[:, :, 5:], bias=S4 * (TO - 5), format_value=ALL
    ),
    "T5Bias(4, rng=0)(6)": pe.T5Bias(4, rng=0).embeddings[np.maximum(FROM - TO, 0)],
    "relative_position_bucket(np.arange(3))": np.arange(3),
    "cache.step(5)[1].update(0, k[:, :, :5], v[:, :, :5])[0]": k[:, :, :5],
    "attend(q[:, :, 3:4], k, k, mask=CausalMask())": attended(
        q[:, :, 3:4], k[:, :, :4], k[:, :, :4], format_value=ALL
    ),
    "output[:, :, -1]": np.stack([attended()[0, :, 3], attended()[1, :, 5]]),
    "LearnedPE(8, 8, embeddings=weight[:8], **axes)(x)": x + weight[:6],
    "LearnedPE(8, 12, rng=1, **axes)(x)": x + table(12, 1)[2:8],
    "AbsolutePE(8, 64, **axes)(x)": x
    + np.concat(
        [wave(TO[:, None] * 10_000.0 ** -(np.arange(4) / 4)) for wave in (np.sin, np.cos)], axis=-1
    ),
    "TokenEmbedding(12, 8, rng=0)(ids)": 8**0.5
    * pe.TokenEmbedding(12, 8, rng=0).embeddings[:, [0, 0, 0, 1, 1, 1]],
    "spherical_encoding(np.asarray([0.5]), np.asarray([2.0]), 1)": harmonics(0.5, 2.0),
}
LINES = list(lines())


@pytest.mark.parametrize(("line", "sign", "right"), LINES, ids=[line for line, *_ in LINES])
def test_mistake_and_what_to_write(line, sign, right):
    if sign == "none":
        wrong, meant = value_of(line), MEANT[line]
        assert np.shape(wrong) != meant.shape or not np.allclose(wrong, meant)
        np.testing.assert_allclose(value_of(right), meant, rtol=0, atol=1e-12)
    else:
        with pytest.raises((TypeError, ValueError), match=re.escape(sign)):
            value_of(line)
        value_of(right)


def test_what_is_meant_has_a_line():
    assert [line for line, sign, _ in LINES if sign == "none"] == list(MEANT)


AXES = {"feature_axis": -1, "seq_axis": -2}
HEADS, TOKENS, SIZE = 2, 9, 8
SIZES = {"num_kv_heads": HEADS, "head_size": SIZE, **AXES}
PROMPTS = (6, 3)  # tokens of two prompts, each of which goes on to TOKENS
Q, K, V = np.random.default_rng(0).standard_normal((3, 2, HEADS, TOKENS, SIZE))
TABLE = np.random.default_rng(1).standard_normal((8, HEADS))
T5 = T5Bias(HEADS, num_buckets=8, max_distance=6, bidirectional=False, embeddings=TABLE)
BUCKETS = (0, 1, 2, 3, 4, 6, 7, 7, 7)  # of the distances: 4 + floor(4 log(d / 4) / log(6 / 4))


def attended(row, stop, *, window=TOKENS, bias=None, base=None):
    """Return what the last of some tokens of a sequence attends to, head by head."""
    output = np.empty((HEADS, SIZE))
    rotated = [x if base is None else turned(x, base) for x in (Q, K)]
    for head in range(HEADS):
        keys = range(max(0, stop - window), stop)
        q, k = (x[row, head] for x in rotated)
        scores = np.asarray([q[stop - 1] @ k[j] / math.sqrt(SIZE) for j in keys])
        if bias is not None:
            scores = scores + [bias[BUCKETS[stop - 1 - j], head] for j in keys]
        weights = np.exp(scores - scores.max())
        output[head] = weights / weights.sum() @ V[row, head, keys]
    return output


def turned(x, base):
    """Rotate features i and i + SIZE / 2 by hand, at positions that count the tokens."""
    half = SIZE // 2
    angles = np.arange(TOKENS)[:, None] * base ** -(np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concat(
        [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=-1
    )


def padded(x, side):
    """Return the prompts (2, HEADS, 6, SIZE), NaN where one is padded, and their attention mask."""
    prompts = np.full((2, HEADS, max(PROMPTS), SIZE), np.nan)
    mask = np.zeros((2, max(PROMPTS)), dtype=np.int64)
    for row, count in enumerate(PROMPTS):
        at = slice(max(PROMPTS) - count, None) if side == "left" else slice(count)
        prompts[row, :, at], mask[row, at] = x[row, :, :count], 1
    return np.nan_to_num(prompts), mask


def decoded(side, capacity, *, rope=None, window=None, **options):
    """Return what the next two tokens of both sequences attend to, one token a step."""
    ring = None if capacity >= TOKENS else window
    cache = KVCache.empty(1, 2, None if ring else capacity, window=ring, **SIZES)
    prompts = [padded(x, side) for x in (Q, K, V)]
    steps = [([x for x, _ in prompts], prompts[0][1])]
    for more in range(2):
        rows = range(2), slice(None), [count + more for count in PROMPTS]
        steps.append(([x[rows][:, :, None] for x in (Q, K, V)], 1))
    outputs = []
    mask = CausalMask() | SlidingWindowMask(TOKENS if window is None else window - 1, 0)
    for (q, k, v), tokens in steps:
        cache, step = cache.step(tokens)
        rotate = rope.tables(step.positions) if rope else lambda x: x
        keys, values = step.update(0, rotate(k), v)
        outputs.append(
            scaled_dot_product_attention(
                rotate(q),
                keys,
                values,
                mask=mask,
                positions=step.positions,
                key_positions=step.key_positions,
                **options,
                **AXES,
            )
        )
    return [output[:, :, 0] for output in outputs[1:]]


def check(outputs, **options):
    for more, output in enumerate(outputs):
        for row, count in enumerate(PROMPTS):
            expected = attended(row, count + more + 1, **options)
            np.testing.assert_allclose(output[row], expected, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_the_prompt_is_said_once(side):
    """The mask of the tokenizer is for the prompt; the next token needs no mask of padding."""
    check(decoded(side, 20))
    step = KVCache.empty(1, 2, 20, **SIZES).step(padded(Q, side)[1])[1]
    with pytest.raises(ValueError, match="`mask` must have no PaddingMask with explicit positions"):
        scaled_dot_product_attention(
            *(padded(x, side)[0] for x in (Q, K, V)),
            mask=CausalMask() | PaddingMask(PROMPTS, side),
            positions=step.positions,
            **AXES,
        )
    mask = CausalMask() | PaddingMask(PROMPTS, side)  # kept for the next token
    with pytest.raises(ValueError, match="`mask` must have no PaddingMask"):
        scaled_dot_product_attention(Q[:, :, -1:], K, V, mask=mask, **AXES)
    mask = PaddingMask(PROMPTS, side)  # which a query sees all keys of, in a loop by hand
    with pytest.raises(ValueError, match="`mask` must have a length of all 7 keys"):
        scaled_dot_product_attention(Q[:, :, 6:7], K[:, :, :7], V[:, :, :7], mask=mask, **AXES)


def test_padding_of_another_sequence():
    """Its longest sequence has all keys, or `offset` says that no query is among them."""
    longest = max(PROMPTS)
    q, k, v = Q[:, :, :1], K[:, :, :longest], V[:, :, :longest]
    output = scaled_dot_product_attention(q, k, v, mask=PaddingMask(PROMPTS), **AXES)
    padded = [np.pad(x, [(0, 0), (0, 0), (0, 2), (0, 0)]) for x in (k, v)]
    more = scaled_dot_product_attention(q, *padded, mask=PaddingMask(PROMPTS), offset=0, **AXES)
    np.testing.assert_allclose(more, output, atol=1e-12)
    for row, count in enumerate(PROMPTS):
        alone = scaled_dot_product_attention(q[row], k[row, :, :count], v[row, :, :count], **AXES)
        np.testing.assert_allclose(output[row], alone, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_rope_of_padded_prompts_in_a_cache_with_room(side):
    """Positions count the tokens of each sequence, so that no offset is said."""
    check(decoded(side, 20, rope=RoPE(SIZE, 32, 100.0, **AXES)), base=100.0)
    positions = np.arange(TOKENS)
    with pytest.raises(ValueError, match="`offset` must be left out where `positions` are given"):
        scaled_dot_product_attention(Q, K, V, positions=positions, offset=6, **AXES)
    mask = CausalMask() | PaddingMask(PROMPTS, "left")
    with pytest.raises(ValueError, match="`mask` must have no PaddingMask on the left"):
        scaled_dot_product_attention(Q[:, :, :1], K, V, mask=mask, offset=6, **AXES)


@pytest.mark.parametrize("side", ["left", "right"])
def test_windows_and_biases_do_not_count_padded_slots(side):
    check(decoded(side, 20, window=4), window=4)
    check(decoded(side, 20, bias=T5), bias=TABLE)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_ring_takes_the_mask_of_the_model(side):
    check(decoded(side, 4, window=4, bias=T5), window=4, bias=TABLE)
    ring = K[:, :, :4], V[:, :, :4]
    with pytest.raises(ValueError, match="`offset` must be at most 3, since the keys of the que"):
        scaled_dot_product_attention(Q[:, :, :1], *ring, bias=T5, offset=20, **AXES)


def test_a_cache_with_room_needs_no_offset():
    """Empty slots are hidden without a word, as the NaN that they hold here would show."""
    check(decoded("left", 4 * TOKENS))
    cache, step = KVCache.empty(1, 2, 20, **SIZES).step(TOKENS)
    with pytest.raises(TypeError, match="`positions` must be given with `key_positions`"):
        scaled_dot_product_attention(Q, K, V, key_positions=step.key_positions, **AXES)
    _, step = cache.step(1)
    with pytest.raises(TypeError, match="`key_positions` must be given for 9 keys of 1 query"):
        scaled_dot_product_attention(Q[:, :, :1], K, V, positions=step.positions, **AXES)


PHI3 = {
    "model_type": "phi3",
    "hidden_size": 16,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "original_max_position_embeddings": 16,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4},
}


def test_longrope_asks_for_the_length():
    for function in (RoPE.from_hf_config, RoPE.layers_from_hf_config):
        with pytest.raises(ValueError, match="`seq_len` must be given, as LongRoPE has other"):
            function(PHI3 | {"num_hidden_layers": 2})
    plain = 10_000.0 ** -(np.arange(4) / 4)
    np.testing.assert_allclose(RoPE.from_hf_config(PHI3, 16).inv_freq, plain)
    np.testing.assert_allclose(RoPE.from_hf_config(PHI3, 17).inv_freq, plain / 4)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_tables_know_the_layout_of_their_rope(layout):
    """`tables(q)` has nothing to be said again, where `apply_rope` takes arrays of any origin."""
    rope = RoPE(SIZE, 32, 100.0, layout=layout, rotary_dim=6, **AXES)
    tables = rope.tables(np.arange(TOKENS))
    expected = Q.copy()
    for pair in range(3):
        i, j = (pair, pair + 3) if layout == "half" else (2 * pair, 2 * pair + 1)
        angles = np.arange(TOKENS) * 100.0 ** -(pair / 3)
        expected[..., i] = Q[..., i] * np.cos(angles) - Q[..., j] * np.sin(angles)
        expected[..., j] = Q[..., j] * np.cos(angles) + Q[..., i] * np.sin(angles)
    np.testing.assert_allclose(tables(Q), expected, atol=1e-12)
    by_hand = apply_rope(Q, tables.cos, tables.sin, layout=layout, rotary_dim=6, feature_axis=-1)
    np.testing.assert_allclose(by_hand, expected, atol=1e-12)


def test_dinov3_rotates_by_rows_and_columns():
    """Also with a layout, which made a rotation by one coordinate of it."""
    config = {"model_type": "dinov3_vit", "hidden_size": 16, "num_attention_heads": 2}
    height, width = 2, 3
    patches = grid_positions((height, width), dtype=np.float64)
    centres = (2 * patches + 1) / np.asarray([[height], [width]]) - 1
    for options in ({}, {"layout": "half"}):
        rope = RoPE.from_hf_config(config, **options, **AXES)
        x = Q[:, :, : height * width]
        with pytest.raises(ValueError, match="positions"):
            rope(x, positions=np.arange(height * width))
        expected = x.copy()
        for pair in range(4):
            angles = 2 * np.pi * centres[pair // 2] * 100.0 ** -(pair % 2 / 2)
            a, b = x[..., pair], x[..., pair + 4]
            expected[..., pair] = a * np.cos(angles) - b * np.sin(angles)
            expected[..., pair + 4] = b * np.cos(angles) + a * np.sin(angles)
        np.testing.assert_allclose(rope(x, positions=centres), expected, atol=1e-12)


def test_layers_of_cohere_2_that_do_not_rotate():
    config = {"model_type": "cohere2", "hidden_size": 64, "num_attention_heads": 2}
    config |= {"num_hidden_layers": 8, "sliding_window_pattern": 4, "rope_theta": 50_000}
    with pytest.raises(ValueError, match=r"'cohere2' differ: call `RoPE.layers_from_hf_config`"):
        RoPE.from_hf_config(config, 99)
    ropes = RoPE.layers_from_hf_config(config, 99)
    assert [rope is None for rope in ropes] == [False, False, False, True] * 2
    assert ropes[0] == RoPE(32, 99, 50_000, layout="interleaved")
