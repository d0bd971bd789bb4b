"""Attention at positions is that of an array that asks the rule of each query and key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import positional_embeddings.attention.at_positions as placing
from backends import peak_memory
from mask_strategies import BATCH, masks
from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    KVCache,
    NeighbourhoodMask,
    PaddingMask,
    PrefixMask,
    RoPE,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    attention_weights,
    scaled_dot_product_attention,
)

HEADS, HEAD = 2, 3
# From (batch, heads, seq, head) to other layouts, with their axes of features and sequence.
LAYOUTS = {
    "(batch, heads, seq, head)": ((0, 1, 2, 3), -1, -2),
    "(batch, seq, heads, head)": ((0, 2, 1, 3), -1, 1),
    "(head, seq, heads, batch)": ((3, 2, 1, 0), 0, 1),
    "(head, seq, heads * batch)": ((3, 2, 1, 0), 0, 1),
}


def in_layout(array, layout):
    """Move the axes of (batch, heads, seq, head)."""
    moved = np.transpose(array, LAYOUTS[layout][0])
    return moved.reshape(*moved.shape[:2], -1) if "*" in layout else moved


def options(layout):
    return {"feature_axis": LAYOUTS[layout][1], "seq_axis": LAYOUTS[layout][2]}


def close(backend, got, expected):
    tolerance = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=tolerance, atol=tolerance)


def hidden_pairs(hides, positions, key_positions):
    """Return what a rule hides, (batch, 1, query, key), pair by pair."""
    q_len, k_len = positions.shape[1], key_positions.shape[1]
    hidden = np.ones((BATCH, 1, q_len, k_len), dtype=bool)
    for b, i, j in np.ndindex(BATCH, q_len, k_len):
        q, k = int(positions[b, i]), int(key_positions[b, j])
        hidden[b, 0, i, j] = k < 0 or hides(q, k, b)
    return hidden


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("block_size", [None, 3])
def test_segments_are_those_of_columns_whose_positions_restart(
    backend, is_shared, inverted, block_size
):
    ids = np.asarray([[0, 0, 0, 0, 1, 1, 1, 2, 2, -1], [-1, -1, 0, 0, 0, 1, 1, 1, 1, 1]])
    positions = np.asarray([[0, 1, 2, 3, 0, 1, 2, 0, 1, -1], [-1, -1, 0, 1, 2, 0, 1, 2, 3, 4]])
    rows = slice(None, 1) if is_shared else slice(None)
    ids, positions = ids[rows], positions[rows]
    q, k, v = np.random.default_rng(0).standard_normal((3, len(ids), HEADS, 10, HEAD))
    hidden = np.ones((len(ids), 1, 10, 10), dtype=bool)
    for b, i, j in np.ndindex(len(ids), 10, 10):
        is_other = ids[b, i] != ids[b, j] or ids[b, i] < 0
        later = positions[b, j] > positions[b, i]
        chunk = positions[b, j] // 2 != positions[b, i] // 2
        hidden[b, 0, i, j] = (is_other != inverted) or later or chunk or positions[b, j] < 0
    axes = {"feature_axis": -1, "seq_axis": -2, "block_size": block_size}
    segments = SegmentMask(ids[0] if is_shared else ids.T)
    mask = CausalMask() | ChunkedMask(2) | (~segments if inverted else segments)
    arrays = [backend.array(x) for x in (q, k, v)]
    at = backend.array(positions[0] if is_shared else positions, "int64")
    output = scaled_dot_product_attention(*arrays, mask=mask, positions=at, **axes)
    expected = scaled_dot_product_attention(q, k, v, mask=hidden, feature_axis=-1, seq_axis=-2)
    close(backend, output, expected)
    if not inverted:
        last = (..., slice(6, None), slice(None))
        ids, at = (np.atleast_2d(x).T for x in (segments.ids.T, positions))
        part = CausalMask() | ChunkedMask(2) | SegmentMask(ids[6:], ids)
        q_at, k_at = (backend.array(p.T, "int64") for p in (at[6:], at))
        where = {"positions": q_at, "key_positions": k_at}
        output = scaled_dot_product_attention(
            arrays[0][last], *arrays[1:], mask=part, **where, **axes
        )
        close(backend, output, expected[last])


def test_ids_by_position_need_keys_of_different_positions():
    x, at = np.ones((2, 3, 1)), np.asarray([0, 0, 1])
    with pytest.raises(ValueError, match=r"`key_positions` must differ .* 0 twice\. Pass SegmentM"):
        scaled_dot_product_attention(
            x, x, x, mask=SegmentMask([0, 0, 1]), positions=at, key_positions=at
        )


@pytest.mark.parametrize(
    "mask",
    [
        CausalMask() | ChunkedMask(4),
        PrefixMask(2),
        CausalMask() | SlidingWindowMask(1, 0) & GlobalMask([0]),
        ~NeighbourhoodMask((4, 3), 1),
        CausalMask() | SlidingWindowMask(2, 0) | DilatedMask(2),
    ],
    ids=repr,
)
def test_padding_on_the_left_is_not_counted(mask):
    axes = {"feature_axis": -1, "seq_axis": -2}
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 2, 12, 4))
    positions = np.stack([np.arange(12), np.arange(-3, 9)])
    alone = [x[1:, :, 3:] for x in (q, k, v)]
    expected = scaled_dot_product_attention(*alone, mask=mask, **axes)
    result = scaled_dot_product_attention(
        q, k, v, mask=mask, positions=np.where(positions < 0, -1, positions), **axes
    )
    np.testing.assert_allclose(result[1:, :, 3:], expected, atol=1e-12)
    full, padded = mask | PaddingMask([12, 12], "left"), mask | PaddingMask([12, 9], "left")
    scaled_dot_product_attention(q, k, v, mask=full, **axes)
    if any(part._uses_absolute_positions for part in mask._leaves()):
        with pytest.raises(ValueError, match=r"no padding on the left .*`key_positions`"):
            scaled_dot_product_attention(q, k, v, mask=padded, **axes)
    else:
        result = scaled_dot_product_attention(q, k, v, mask=padded, **axes)
        np.testing.assert_allclose(result[1:, :, 3:], expected, atol=1e-12)


@given(data=st.data(), layout=st.sampled_from(list(LAYOUTS)))
def test_masks_and_biases_are_evaluated_at_positions(backend, data, layout):
    last = 8
    mask, hides = data.draw(
        masks(last + 1, backend).filter(lambda drawn: "PaddingMask" not in repr(drawn[0]))
    )
    with_bias = data.draw(st.booleans())
    shared = data.draw(st.booleans())
    q_len, k_len = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    block_size = (
        None if backend.lazy or "jax" in backend.name else data.draw(st.sampled_from([None, 2]))
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = 1 if shared else BATCH
    positions = rng.integers(0, last + 1, (rows, q_len))
    key_positions = rng.integers(-2, last + 1, (rows, k_len))
    if "SegmentMask" in repr(mask):  # whose keys have positions of their own
        every = np.tile(np.arange(-2, last + 1), (rows, 1))
        key_positions = rng.permuted(every, axis=1)[:, :k_len]
    if data.draw(st.booleans()):
        key_positions = np.sort(key_positions, axis=1)
    everyone = [np.broadcast_to(p, (BATCH, p.shape[1])) for p in (positions, key_positions)]
    arrays = [rng.standard_normal((BATCH, HEADS, n, HEAD)) for n in (q_len, k_len, k_len)]
    bias = ALiBiBias(HEADS, causal=False) if with_bias else None
    hidden = hidden_pairs(hides, *everyone)
    distance = np.abs(everyone[1][:, None, None, :] - everyone[0][:, None, :, None])
    added = -distance * np.asarray([1 / 16, 1 / 256])[:, None, None] if with_bias else None
    expected = scaled_dot_product_attention(
        *arrays, mask=hidden, bias=added, feature_axis=-1, seq_axis=-2
    )
    seq_first = LAYOUTS[layout][1] == 0
    given = [backend.array(p.T if seq_first else p) for p in (positions, key_positions)]
    got = scaled_dot_product_attention(
        *(backend.array(in_layout(array, layout)) for array in arrays),
        mask=mask,
        bias=bias,
        positions=given[0],
        key_positions=given[1],
        block_size=block_size,
        **options(layout),
    )
    close(backend, got, in_layout(expected, layout))


def test_empty_slots_are_hidden_from_all_with_any_mask(backend):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((BATCH, HEADS, n, HEAD)) for n in (3, 6, 6)]
    key_positions = np.asarray([[0, -1, 1, 2, -1, 3], [-5, 0, 1, -1, 2, -1]])
    positions = np.asarray([[1, 2, 3], [0, 1, 2]])
    empty = (key_positions < 0)[:, None, None, :]
    later = np.triu(np.ones((3, 6), dtype=bool), 4)
    axes = {"feature_axis": -1, "seq_axis": -2}
    q, k, v, at, key_at = map(backend.array, (*arrays, positions, key_positions))
    for mask in (None, backend.array(later), lambda q_idx, k_idx: k_idx > q_idx + 3):
        hidden = empty if mask is None else empty | later
        expected = scaled_dot_product_attention(*arrays, mask=hidden, **axes)
        given = {"mask": mask, "positions": at, "key_positions": key_at, **axes}
        for size in (None,) if backend.lazy or "jax" in backend.name else (None, 2):
            got = scaled_dot_product_attention(q, k, v, block_size=size, **given)
            close(backend, got, expected)
        weights = attention_weights(arrays[0], arrays[1], mask=hidden, **axes)
        close(backend, attention_weights(q, k, **given), weights)


def test_keys_have_the_positions_of_queries(backend):
    x = np.random.default_rng(0).standard_normal((4, 5, 2))
    positions = np.asarray([3, 0, -1, 7, 1])
    hidden = (positions[None, :] > positions[:, None]) | (positions < 0)[None, :]
    expected = scaled_dot_product_attention(x, x, x, mask=hidden)
    a = backend.array(x)
    for shape in ((5,), (5, 1)):
        at = backend.array(positions.reshape(shape))
        close(
            backend,
            scaled_dot_product_attention(a, a, a, mask=CausalMask(), positions=at),
            expected,
        )


def test_one_sequence_needs_no_axis():
    x = np.random.default_rng(0).standard_normal((4, 5))
    given = {"mask": CausalMask(), "positions": np.asarray([3, 0, -1, 7, 1])}
    expected = attention_weights(x[..., None], x[..., None], **given)[..., 0]
    np.testing.assert_allclose(attention_weights(x, x, **given), expected, atol=1e-15)


def test_heads_may_share_keys_at_positions(backend):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 3, 8))
    k, v = rng.standard_normal((2, 2, 2, 6, 8))
    key_positions = np.asarray([[0, 1, 2, 3, 4, -1], [5, -1, 1, 2, 3, 4]])
    positions = np.asarray([[2, 3, 4], [3, 4, 5]])
    distance = key_positions[:, None, None, :] - positions[:, None, :, None]
    hidden = (distance > 0) | (key_positions < 0)[:, None, None, :]
    slopes = ALiBiBias(4)(1, 2)[0, 1, :] - ALiBiBias(4)(1, 2)[0, 0, :]
    axes = {"feature_axis": -1, "seq_axis": -2}
    expected = scaled_dot_product_attention(
        q,
        np.repeat(k, 2, axis=1),
        np.repeat(v, 2, axis=1),
        mask=hidden,
        bias=distance * slopes[:, None, None],
        **axes,
    )
    got = scaled_dot_product_attention(
        *map(backend.array, (q, k, v)),
        mask=CausalMask(),
        bias=ALiBiBias(4),
        positions=backend.array(positions),
        key_positions=backend.array(key_positions),
        enable_gqa=True,
        **axes,
    )
    close(backend, got, expected)


def test_a_key_that_is_not_finite_beside_positions(backend):
    """Gives NaN, also where it is known that no slot is empty, which a trace does not know."""
    q, k = backend.array([[1.0]], "float32"), backend.array([[0.0, -np.inf]], "float32")
    given = {"positions": np.asarray([5]), "key_positions": np.asarray([0, 3])}
    given = {name: backend.array(x) for name, x in given.items()}
    assert np.isnan(backend.numpy(attention_weights(q, k, **given))).all()
    got = scaled_dot_product_attention(q, k, k, **given)
    assert np.isnan(backend.numpy(got)).all()


@pytest.mark.parametrize("start", [0, 7])
def test_consecutive_positions_are_an_offset(start, monkeypatch):
    monkeypatch.setattr(
        placing.ExplicitPositions, "position_blocks", None
    )  # no positions one by one
    x = np.random.default_rng(0).standard_normal((4, 9, 2))
    mask = CausalMask() | SlidingWindowMask(3, 0) | PrefixMask([2, 4])
    bias = T5Bias(1, rng=0)
    q = x[:, start:]
    expected = scaled_dot_product_attention(q, x, x, mask=mask, bias=bias, offset=start)
    given = {"positions": np.arange(start, 9), "key_positions": np.arange(9)}
    got = scaled_dot_product_attention(q, x, x, mask=mask, bias=bias, **given)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shuffled", [False, True])
def test_positions_skip_what_nobody_sees(shuffled):
    n = 8192
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, n, 4), dtype=np.float32)
    axes = {"feature_axis": -1, "seq_axis": -2}
    positions = 3 * np.arange(n)
    if shuffled:  # as in a ring
        positions = np.roll(positions, n // 3)
    calls = []

    def window(q_pos, k_pos):
        calls.append(q_pos.shape[0] * k_pos.shape[1])
        return np.abs(q_pos - k_pos) > 300

    mask = SlidingWindowMask(300, 300) | FunctionMask(window)
    got = scaled_dot_product_attention(x, x, x, mask=mask, positions=positions, **axes)
    assert sum(calls) < n * n / 8
    order = np.argsort(positions)
    expected = scaled_dot_product_attention(
        *(x[:, order] for _ in range(3)), mask=SlidingWindowMask(100, 100), **axes
    )
    np.testing.assert_allclose(got[:, order], expected, atol=2e-6)
    call = lambda: scaled_dot_product_attention(  # noqa: E731
        x, x, x, mask=SlidingWindowMask(300, 300), positions=positions, **axes
    )
    assert peak_memory(call) < 40 * x.nbytes


def test_short_ranges_of_keys_are_merged():
    """64 keys are worth one: fewer hidden ones are met, and fewer that all see are masked."""
    seen, other, hidden = [1], [200], [20]
    keys = np.asarray([seen * 64 + hidden * 63 + seen * 63 + hidden * 64 + other * 65]).T
    query = np.asarray([[10]])
    mask = SlidingWindowMask(9, 9) & GlobalMask([200])
    at = placing.ExplicitPositions(query, keys, placing.ConcretePositions.of(query, keys))
    some, every = ((0, 190), (254, 319)), ((0, 64), (254, 319))
    assert at.visible_keys(mask, ((0, 1),)) == (some, every)
    # Positions on a device are not read.
    at = placing.ExplicitPositions(query, keys)
    assert at.visible_keys(mask, ((0, 1),)) == (((0, 319),), ())
    assert at.global_queries(mask) == ()


@pytest.mark.parametrize("step", [1, 3])
def test_queries_that_see_all_keys_are_met_apart(step):
    """Their blocks would have to meet all keys for all of their queries."""
    n, start, tokens = 4096, 2048, np.arange(2100, 4096, 100)
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, n, 4), dtype=np.float32)
    asked = []

    def count(q_pos, k_pos):
        asked.append(q_pos.shape[0] * k_pos.shape[1])
        return (q_pos < 0) & (k_pos < 0)

    mask = SlidingWindowMask(63 * step, 63 * step) & GlobalMask(tokens * step)
    axes = {"feature_axis": -1, "seq_axis": -2}
    given = {"offset": start}
    if step > 1:
        given = {"positions": step * np.arange(start, n), "key_positions": step * np.arange(n)}
    got = scaled_dot_product_attention(
        q[:, start:], k, v, mask=FunctionMask(count) | mask, **given, **axes
    )
    position, key_position = np.arange(start, n)[:, None], np.arange(n)
    hidden = np.abs(position - key_position) > 63
    hidden[tokens - start], hidden[:, tokens] = False, False
    expected = scaled_dot_product_attention(q[:, start:], k, v, mask=hidden, **axes)
    np.testing.assert_allclose(got, expected, atol=2e-6)
    assert sum(asked) < 300 * n


def test_masks_of_tables_and_grids_check_positions():
    x = np.ones((2, 3, 1))
    at = np.asarray([0, 1, 5])
    for mask, name in ((SegmentMask([0] * 4), "ids"), (NeighbourhoodMask((2, 2), 1), "shape")):
        with pytest.raises(ValueError, match=f"`{name}` must"):
            scaled_dot_product_attention(x, x, x, mask=mask, positions=at)
    row = np.ones((1, 3))
    for at_query, at_keys in (([3], [0, 1, 2]), ([0], [0, 1, 3])):
        given = {"positions": np.asarray(at_query), "key_positions": np.asarray(at_keys)}
        for mask, name in ((SegmentMask([0, 0, 1]), "ids"), (NeighbourhoodMask((3,), 1), "shape")):
            with pytest.raises(ValueError, match=f"`{name}` must"):
                attention_weights(row[:, :1], row, mask=mask, **given)
    # One token.
    with pytest.raises(ValueError, match="`ids` must"):
        attention_weights(*np.ones((2, 1, 1)), mask=SegmentMask([0, 0, 1]), positions=at[2:])
    for mask in (SegmentMask([0]), NeighbourhoodMask((1,), 1)):
        assert attention_weights(*np.ones((2, 1, 1)), mask=mask, positions=at[:1]) == 1.0
    mask = SegmentMask([0, 0, 1, 1, 1, 1])
    for positions in ([-1, 0, 1], [0, 1, 2]):  # of no segment below 0
        found = attention_weights(
            row, row, mask=mask, positions=np.asarray(positions), key_positions=np.arange(3)
        )
        segments = [[0, 0, 1][p] if p >= 0 else None for p in positions]
        assert (found > 0).tolist() == [[s == t for t in (0, 0, 1)] for s in segments]
    weights = attention_weights(x, x, mask=mask, positions=at)[..., 0]
    np.testing.assert_allclose(weights, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])


def decoded(mask, layer, steps, capacity, sinks=0):
    """Run steps of a cached attention, and return the output of each token by its position."""
    rope, axes = RoPE(8, 100, feature_axis=-1, seq_axis=-2), {"feature_axis": -1, "seq_axis": -2}
    is_ring = capacity < 20
    ring = {"window": 4, "num_sink_tokens": sinks, "drafts": capacity - 4 - sinks}
    sizes = {"num_kv_heads": 3, "head_size": 8, **(ring if is_ring else {})}
    cache = KVCache.empty(1, 2, None if is_ring else capacity, **sizes, **axes)
    outputs = [{}, {}]
    for tokens in steps:
        kept = np.ones((2, tokens), int) if isinstance(tokens, int) else np.asarray(tokens)
        cache, step = cache.step(tokens)
        positions = np.broadcast_to(step.positions, kept.shape)
        x = np.zeros((3, 2, 3, kept.shape[1], 8))
        for b, i in zip(*np.nonzero(kept), strict=True):
            x[:, b, :, i] = layer[b][:, :, positions[b, i]]
        q, k, v = x
        q, k = (rope(array, positions=step.positions) for array in (q, k))
        keys, values = step.update(0, k, v)
        places = {"positions": step.positions, "key_positions": step.key_positions}
        out = scaled_dot_product_attention(q, keys, values, mask=mask, **places, **axes)
        for b, i in zip(*np.nonzero(kept), strict=True):
            outputs[b][int(positions[b, i])] = out[b, :, i]
    return [np.stack([own[p] for p in sorted(own)], axis=1) for own in outputs]


LEFT = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
RIGHT = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
HOLES = [[1, 0, 1, 0, 1], [1, 1, 1, 1, 1]]


@pytest.mark.parametrize("prompt", [LEFT, RIGHT, HOLES])
@pytest.mark.parametrize(
    ("window", "capacity", "rest"),
    [(None, 20, [1, 1, 3, 1]), (4, 5, [1] * 9), (4, 4, [2, 3, 1, 1, 4])],
)
def test_cached_decoding_of_padded_prompts_is_that_of_each_sequence(prompt, window, capacity, rest):
    mask = CausalMask() if window is None else CausalMask() | SlidingWindowMask(window - 1, 0)
    layer = np.random.default_rng(0).standard_normal((2, 3, 3, 40, 8))  # sequence, qkv, heads
    got = decoded(mask, layer, [prompt, *rest], capacity)
    rope, axes = RoPE(8, 100, feature_axis=-1, seq_axis=-2), {"feature_axis": -1, "seq_axis": -2}
    for own, x, tokens in zip(got, layer, np.sum(prompt, axis=1), strict=True):
        q, k, v = (array[:, : tokens + sum(rest)] for array in x)
        expected = scaled_dot_product_attention(rope(q), rope(k), v, mask=mask, **axes)
        np.testing.assert_allclose(own, expected, atol=1e-12)


def test_a_prefix_may_be_longer_than_the_keys_so_far():
    x = np.random.default_rng(0).standard_normal((2, 4, 3))
    for positions in (np.arange(4), np.asarray([[0, 0, 0], [1, 0, 1], [2, 1, 2], [3, 2, 2]])):
        got = attention_weights(x, x, mask=PrefixMask(10) | CausalMask(), positions=positions)
        assert np.all(np.tril(np.ones((4, 4)))[..., None] * got >= 0)
        assert np.allclose(np.sum(got, axis=1), 1)
        everything = attention_weights(x, x, mask=PrefixMask(10), positions=positions)
        np.testing.assert_allclose(everything, attention_weights(x, x), atol=1e-15)


def test_sequences_may_share_keys_in_places_of_their_own():
    rng, axes = np.random.default_rng(0), {"feature_axis": -1, "seq_axis": -2}
    q, k = rng.standard_normal((2, 1, 3, 4)), rng.standard_normal((1, 1, 5, 4))
    places = {
        "positions": np.asarray([[0, 1, 2], [2, 3, 4]]),
        "key_positions": np.asarray([[0, 1, 2, -1, 3], [4, 3, -1, 2, 1]]),
    }
    got = attention_weights(q, k, mask=CausalMask(), **places, **axes)
    expected = attention_weights(q, np.repeat(k, 2, axis=0), mask=CausalMask(), **places, **axes)
    np.testing.assert_allclose(got, expected, atol=1e-15)


def test_no_sequences_and_no_queries():
    for shape in ((4, 3, 0), (4, 0, 2)):
        x, positions = np.ones(shape), np.zeros(shape[1:], dtype=int)
        got = scaled_dot_product_attention(x, x, x, mask=CausalMask(), positions=positions)
        assert got.shape == shape


def test_a_bias_takes_batched_keys_and_shared_queries(backend):
    rng, axes = np.random.default_rng(0), {"feature_axis": -1, "seq_axis": -2}
    q = rng.standard_normal((2, 2, 4, 3))
    positions, key_positions = np.arange(4), np.asarray([[0, 1, 2, 3], [3, 1, 0, 2]])
    expected = attention_weights(
        q,
        q,
        bias=ALiBiBias(2),
        positions=np.stack([positions] * 2),
        key_positions=key_positions,
        **axes,
    )
    got = attention_weights(
        backend.array(q),
        backend.array(q),
        bias=ALiBiBias(2),
        positions=backend.array(positions),
        key_positions=backend.array(key_positions),
        **axes,
    )
    close(backend, got, expected)


@pytest.mark.parametrize("layout", ["(batch, heads, seq, head)", "(head, seq, heads * batch)"])
@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("prompt", [5, [[0, 0, 1, 1, 1], [1, 1, 0, 1, 1]]])
def test_a_step_stands_for_its_positions(backend, layout, sinks, prompt):
    axes, own = options(layout), 0 if "*" in layout else 1  # axis of the sequence in positions
    sizes = {"num_kv_heads": HEADS, "head_size": HEAD, "xp": backend.xp, "device": backend.device}
    sizes |= {"window": 5, "num_sink_tokens": 2} if sinks else {}
    axes_of_cache = axes or {"feature_axis": 0, "seq_axis": 1}
    cache = KVCache.empty(1, BATCH, None if sinks else 11, **sizes, **axes_of_cache)
    ring = SlidingWindowMask(4, None) & GlobalMask(range(2))  # the 5 newest keys and the first 2
    rng, mask, bias = np.random.default_rng(0), CausalMask(), ALiBiBias(HEADS)
    for tokens in (prompt, 1, 2, 2, 1):
        cache, step = cache.step(tokens)
        count, k_len = step.positions.shape[own], step.key_positions.shape[own]
        arrays = [
            backend.array(in_layout(rng.standard_normal((BATCH, HEADS, n, HEAD)), layout))
            for n in (count, k_len, k_len)
        ]
        places = {"positions": step.positions, "key_positions": step.key_positions}
        for rules in ({"mask": mask}, {"mask": mask, "bias": bias}, {"bias": bias}, {}):
            whole = (
                rules | {"mask": mask | ring} if sinks else rules
            )  # in a ring none see later keys
            expected = scaled_dot_product_attention(*arrays, **whole, **places, **axes)
            for _ in range(2):  # layers
                got = scaled_dot_product_attention(*arrays, **rules, positions=step)
                close(backend, got, backend.numpy(expected))


@pytest.mark.parametrize("lengths", [[6, 6], [3, 6]])
def test_a_step_evaluates_masks_without_functions_once(monkeypatch, lengths):
    calls = []
    for kind in (CausalMask, ALiBiBias):
        name = "_mask_at" if kind is CausalMask else "_formula"
        own = getattr(kind, name)
        plural = lambda *args, own=own, kind=kind: (calls.append(kind), own(*args))[1]  # noqa: E731
        monkeypatch.setattr(kind, name, plural)
    axes = {"feature_axis": -1, "seq_axis": -2}
    rng = np.random.default_rng(0)
    cache = KVCache.empty(1, 2, 16, num_kv_heads=3, head_size=4, **axes)
    cache, _ = cache.step([[1] * n + [0] * (6 - n) for n in lengths])
    _, step = cache.step(2)
    q, (k, v) = rng.standard_normal((2, 3, 2, 4)), rng.standard_normal((2, 2, 3, 8, 4))
    rules = {"mask": CausalMask(), "bias": ALiBiBias(3), "positions": step}
    layers = [scaled_dot_product_attention(q, k, v, **rules, **axes) for _ in range(4)]
    assert sorted(kind.__name__ for kind in calls) == ["ALiBiBias", "CausalMask"]
    assert all(np.array_equal(layer, layers[0]) for layer in layers)


def test_a_step_of_another_library_says_how_to_make_it(backend):
    if backend.xp is np:
        return
    x = backend.array(np.ones((2, 1, 3, 4)))
    axes = {"feature_axis": -1, "seq_axis": -2}
    _, step = KVCache.empty(1, 2, 8, num_kv_heads=1, head_size=4, **axes).step(3)
    for call in (
        lambda: scaled_dot_product_attention(x, x, x, positions=step, **axes),
        lambda: step.update(0, x, x),
    ):
        text = r"numpy\.ndarray for `(positions|buffers) of the cache`\. Convert the arrays, or"
        with pytest.raises(TypeError, match=text):
            call()


def test_a_step_in_blocks():
    """Each layer asks the mask for its own blocks."""
    axes = {"feature_axis": -1, "seq_axis": -2}
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 3, 5, 4))
    _, step = KVCache.empty(1, 2, 8, num_kv_heads=3, head_size=4, **axes).step(5)
    for _ in range(2):
        got = scaled_dot_product_attention(q, k, v, mask=CausalMask(), positions=step, block_size=2)
        expected = scaled_dot_product_attention(q, k, v, mask=CausalMask(), **axes)
        np.testing.assert_allclose(got, expected, atol=1e-12)
