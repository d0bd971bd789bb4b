"""A step says where each key is, and what its layers share is right for each of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    KVCache,
    ListMask,
    NeighbourhoodMask,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    attention_weights,
    scaled_dot_product_attention,
)

LAST = {"feature_axis": -1, "seq_axis": -2}
SIZES = {"num_kv_heads": 2, "head_size": 3}
# Axes of arrays from (batch, heads, seq, head), and their axes of features and sequence.
LAYOUTS = {
    "(batch, heads, seq, head)": ((0, 1, 2, 3), -1, -2),
    "(batch, seq, heads, head)": ((0, 2, 1, 3), -1, 1),
    "(head, seq, heads, batch)": ((3, 2, 1, 0), 0, 1),
}
chunks = st.integers(1, 5) | st.tuples(st.integers(0, 2**18), st.integers(1, 5))


def of_layers(batch=2, capacity=12, *, layers=1, **options):
    return KVCache.empty(layers, batch, capacity, **SIZES, **LAST, **options)


def stored(cache, tokens, new=None):
    """Store some tokens in all layers; return the next cache, the step and the keys."""
    cache, step = cache.step(tokens)
    if new is None:
        shape = len(cache.lengths), 2, tokens if isinstance(tokens, int) else len(tokens[0]), 3
        new = np.ones(shape)
    keys = [step.update(layer, new, new)[0] for layer in range(len(cache._form.layers))]
    return cache, step, keys[0]


def kept_tokens(drawn, batch):
    """Return which tokens of a drawn chunk are no padding, (batch, seq)."""
    if isinstance(drawn, int):
        return np.ones((batch, drawn), dtype=np.int64)
    bits, count = drawn
    return np.asarray([bits >> i & 1 for i in range(batch * count)]).reshape(batch, count)


@given(
    batch=st.integers(1, 3),
    window=st.none() | st.integers(1, 6),
    sinks=st.integers(0, 2),
    drafts=st.integers(0, 2),
    layout=st.sampled_from(list(LAYOUTS)),
    drawn=st.lists(chunks, min_size=1, max_size=5),
)
@pytest.mark.only_on("numpy", "torch", "jax", "cupy")
def test_each_key_is_where_its_position_says(backend, batch, window, sinks, drafts, layout, drawn):
    order, feature_axis, seq_axis = LAYOUTS[layout]
    options = {"window": window, "num_sink_tokens": sinks, "drafts": drafts}
    new = {"xp": backend.xp, "device": backend.device, "dtype": getattr(backend.xp, backend.wide)}
    axes = {"feature_axis": feature_axis, "seq_axis": seq_axis}
    capacity, options = (25, {}) if window is None else (None, options)
    cache = KVCache.empty(1, batch, capacity, **SIZES, **axes, **options, **new)
    rng, history = np.random.default_rng(0), [[] for _ in range(batch)]
    for chunk in drawn:
        kept = kept_tokens(chunk, batch)
        tokens = rng.standard_normal((batch, 2, kept.shape[1], 3))
        array = backend.array(tokens.transpose(order))
        cache, step = cache.step(chunk if isinstance(chunk, int) else kept)
        keys = backend.numpy(step.update(0, array, array)[0]).transpose(np.argsort(order))
        places = [backend.numpy(x) for x in (step.positions, step.key_positions)]
        of_queries, of_keys = (
            np.broadcast_to(x.T, (batch, len(x)))
            if feature_axis == 0
            else np.broadcast_to(x, (batch, x.shape[1]))
            for x in places
        )
        for row, before in enumerate(history):
            first = len(before)
            for at in np.flatnonzero(kept[row]):
                assert of_queries[row, at] == len(before)
                before.append(tokens[row, :, at].astype(keys.dtype))
            there = {int(p): keys[row, :, at] for at, p in enumerate(of_keys[row]) if p >= 0}
            assert len(there) == np.sum(of_keys[row] >= 0)
            for position, key in there.items():
                np.testing.assert_array_equal(key, before[position])
            # What each new query sees.
            oldest = 0 if window is None else min(first + 1, len(before)) - window
            assert there.keys() >= {p for p in range(len(before)) if p < sinks or p >= oldest}
        assert np.asarray(cache.lengths).tolist() == [len(tokens) for tokens in history]


def test_positions_of_padding_and_empty_slots():
    cache, step, _ = stored(of_layers(), [[1, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(step.positions, [[0, 0, 1, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(step.key_positions, [[0, 1], [0, -1]])
    shapes = [f"<numpy.ndarray of shape {shape}>" for shape in ((2, 4), (2, 2))]
    assert repr(step.of(0)) == "StepPositions(positions={}, key_positions={})".format(*shapes)
    _, step = cache.step(np.asarray([[False], [False]]))
    np.testing.assert_array_equal(step.key_positions, [[0, 1], [0, -1]])


def test_a_chunk_of_a_ring_has_the_keys_that_it_overwrites_and_no_others():
    cache, step, _ = stored(of_layers(1, None, window=3, drafts=1), 4)
    assert step.key_positions[0].tolist() == [0, 1, 2, 3]
    cache, step, _ = stored(cache.rewind(1), 3)
    assert step.key_positions[0].tolist() == [0, 1, 2, 3, 4, 5]  # 0 for another window
    assert cache.step(1)[1].key_positions[0].tolist() == [4, 5, 6, 3]


def test_what_a_ring_has_overwritten_does_not_come_back():
    cache, _, _ = stored(of_layers(1, None, window=1, num_sink_tokens=1, drafts=2), 5)
    _, step = cache.rewind(2).step(1)  # position 4 has been in the slot of 1
    assert step.key_positions[0].tolist() == [0, -1, 2, 3]


@pytest.mark.parametrize("count", [8, 9, 10])
def test_a_ring_goes_back_to_its_sinks_or_to_nothing(count):
    cache, _, _ = stored(of_layers(1, None, window=4, num_sink_tokens=2), 10)
    found = cache.rewind(count).step(1)[1].key_positions
    np.testing.assert_array_equal(np.sort(found[found >= 0]), np.arange(11 - count))


def test_sequences_of_one_length_share_their_positions():
    cache, step, keys = stored(of_layers(4), 3)
    assert step.positions.shape == step.key_positions.shape == (1, 3)
    assert keys.shape == (4, 2, 3, 3)  # the buffers as far as they are used
    assert np.shares_memory(keys, cache._buffers[0][0])
    _, step = cache.rewind([0, 1, 0, 0]).step(1)
    np.testing.assert_array_equal(step.positions, [[3], [2], [3], [3]])
    assert step.key_positions.shape == (4, 4)


@pytest.mark.only_on("numpy", "torch", "jax", "cupy")
def test_refused_drafts_are_forgotten(backend):
    """With numbers of any kind."""
    new = {"xp": backend.xp, "device": backend.device, "dtype": getattr(backend.xp, backend.wide)}
    tokens = backend.array(np.arange(60.0).reshape(2, 2, 5, 3))
    cache, _, _ = stored(of_layers(**new), 5, tokens)
    counts = ([3, 1], np.asarray([3, 1]), backend.array(np.asarray([3, 1])))
    for forgotten in counts:
        assert np.asarray(cache.rewind(forgotten).lengths).tolist() == [2, 4]
    assert np.asarray(cache.rewind(np.int64(2)).lengths).tolist() == [3, 3]
    taken = cache.rewind([3, 1]).take(backend.array(np.asarray([1, 0, 1])))
    assert np.asarray(taken.lengths).tolist() == [4, 2, 4]
    _, step, keys = stored(cache.rewind([3, 1]), 1, -tokens[:, :, 4:])
    np.testing.assert_array_equal(backend.numpy(step.positions), [[2], [4]])
    places = backend.numpy(step.key_positions)[:, :5]
    np.testing.assert_array_equal(places, [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4]])
    keys = backend.numpy(keys)[:, 0, :5, 0]
    np.testing.assert_array_equal(keys[0, :3], [0, 3, -12])
    np.testing.assert_array_equal(keys[1], [30, 33, 36, 39, -42])


def test_a_full_cache_takes_no_more_tokens():
    cache, _, _ = stored(of_layers(capacity=6), [[1, 1, 1], [0, 1, 1]])
    assert cache.step(3)[0].lengths.tolist() == [6, 5]
    assert cache.step([[0, 1, 1, 1], [1, 1, 1, 1]])[0].lengths.tolist() == [6, 6]
    for tokens in (4, [[1, 1, 1, 1], [0, 0, 0, 0]]):
        with pytest.raises(ValueError, match="`tokens` must fit into the slots"):
            cache.step(tokens)


def test_nobody_writes_to_a_cache():
    cache, step, _ = stored(of_layers(), 1)
    for array in (cache.lengths, cache.take([0]).lengths, step.positions, step.key_positions):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.library("torch")
def test_gradients_of_stored_tokens():
    import torch

    cache, step = of_layers(1, xp=torch).step(2)
    new = torch.ones(1, 2, 2, 3, requires_grad=True)
    step.update(0, new, new)
    later = torch.ones(1, 2, 1, 3, requires_grad=True)
    keys, _ = cache.step(1)[1].update(0, later, later)
    (keys * torch.arange(1.0, 4.0)[:, None]).sum().backward()
    np.testing.assert_array_equal(new.grad[0, 0, :, 0], [1, 2])
    np.testing.assert_array_equal(later.grad[0, 0, :, 0], [3])


# Calls of an attention in a step, which share what they find out.


def qkv_of(tokens=5, **options):
    """Return a step of some tokens of two sequences, and queries, keys and values."""
    _, step = of_layers(capacity=5, **options).step(tokens)
    return step, *np.random.default_rng(0).standard_normal((3, 2, 2, tokens, 3))


def attended(q, k, v, **options):
    """Return the output by the formula, of arrays (batch, heads, seq, head)."""
    merged = (x.transpose(3, 2, 1, 0).reshape(3, 5, 4) for x in (q, k, v))
    return oracles.attention(*merged, **options)[0].reshape(3, 5, 2, 2).transpose(3, 2, 1, 0)


def test_a_step_knows_no_calls_with_arrays_for_masks_or_numbers_of_arrays():
    """Other arrays of the same shape, and numbers of NumPy, are other calls."""
    step, *qkv = qkv_of()
    rng = np.random.default_rng(1)
    for scale in (0.5, np.float64(2.0), 2.0):
        for _ in range(2):
            mask = rng.random((5, 5)) < 0.4
            got = scaled_dot_product_attention(*qkv, mask=mask, scale=scale, positions=step)
            mask = np.repeat(mask[:, :, None], 4, axis=2)
            expected = attended(*qkv, mask=mask, scale=float(scale))
            np.testing.assert_allclose(got, expected, atol=1e-12)
        got = scaled_dot_product_attention(*qkv, scale=scale, positions=step)
        np.testing.assert_allclose(got, attended(*qkv, scale=float(scale)), atol=1e-12)


def test_a_step_asks_a_mask_and_a_bias_once_for_all_layers():
    """A mask by its value, a bias by itself; what cannot be compared is asked in each call."""
    asked, table = [], np.zeros((32, 2))

    def later(q_pos, k_pos):
        asked.append(q_pos)
        return k_pos > q_pos

    class Unhashable:
        __hash__ = None

        def __call__(self, q_pos, k_pos):
            return later(q_pos, k_pos)

    for function, count in ((later, 3), (Unhashable(), 4), (later, 3)):
        step, *qkv = qkv_of()  # which asks anew
        asked.clear()
        for bias in (None, T5Bias(2, embeddings=table), None, T5Bias(2, embeddings=table)):
            table += np.arange(64.0).reshape(32, 2)
            mask = FunctionMask(function)
            got = scaled_dot_product_attention(*qkv, mask=mask, bias=bias, positions=step)
            alone = scaled_dot_product_attention(*qkv, mask=CausalMask(), bias=bias, **LAST)
            np.testing.assert_allclose(got, alone, atol=1e-12)
        assert len(asked) == count


def test_a_function_does_not_warn_in_a_step_either():
    step, *qkv = qkv_of()
    mask = FunctionMask(lambda q_pos, k_pos: 1 / (q_pos - k_pos) < 0)
    got = scaled_dot_product_attention(*qkv, mask=mask, positions=step)
    alone = scaled_dot_product_attention(*qkv, mask=CausalMask(), **LAST)
    np.testing.assert_allclose(got, alone, atol=1e-12)


def test_options_that_are_equal_are_of_their_types_in_each_call_of_a_step():
    step, q, k, v = qkv_of()
    scaled_dot_product_attention(q, k, v, scale=1.0, positions=step)
    for wrong in ({"scale": True}, {"enable_gqa": 0}, {"scale": 1.0, "feature_axis": False}):
        with pytest.raises(TypeError):
            scaled_dot_product_attention(q, k, v, positions=step, **wrong)
    with pytest.raises(TypeError, match="dtype of `q`"):
        scaled_dot_product_attention(q, k.astype("float32"), v, scale=1.0, positions=step)


def test_later_steps_ask_anew_what_depends_on_them():
    """What earlier calls of a form have found out serves others, but for keys and sinks."""
    rng, cache = np.random.default_rng(0), of_layers(capacity=12)
    causal, window = CausalMask(), CausalMask() | SlidingWindowMask.of(2)
    for count in (3, 1, 1, 2, 1):
        first, (cache, step, _) = int(cache.lengths[0]), stored(cache, count)
        stop = first + count
        for mask, bias, sinks, heads in product(
            (None, causal, window), (None, ALiBiBias(4)), (False, True), (4, 2)
        ):
            q = rng.standard_normal((2, 4, count, 5))
            k, v = rng.standard_normal((2, 2, heads, stop, 5))
            options = {"mask": mask, "bias": bias, "enable_gqa": True}
            options["sinks"] = rng.standard_normal(4) if sinks else None
            got = scaled_dot_product_attention(q, k, v, positions=step, **options)
            places = {"positions": np.arange(first, stop), "key_positions": np.arange(stop)}
            alone = scaled_dot_product_attention(q, k, v, **places, **options, **LAST)
            np.testing.assert_allclose(got, alone, atol=1e-13)
            for wrong, message in (
                ((q, k[:, :, 1:], v[:, :, 1:]), "`k` must have . tokens? on axis 2"),
                ((q, k, v[:, :, 1:]), "`v` must have the shape of `k` but for"),
                ((q[:, :, :0], k, v), f"`q` must have {count} tokens? on axis 2"),
            ):
                with pytest.raises(ValueError, match=message):
                    scaled_dot_product_attention(*wrong, positions=step, **options)


def test_a_step_knows_the_axes_of_its_cache():
    step, *qkv = qkv_of()
    expected = scaled_dot_product_attention(*qkv, mask=CausalMask(), **LAST)
    for said in ({}, LAST, {"seq_axis": 2}, {"feature_axis": 3}):
        got = scaled_dot_product_attention(*qkv, mask=CausalMask(), positions=step, **said)
        np.testing.assert_allclose(got, expected, atol=1e-15)
        weights = attention_weights(*qkv[:2], mask=CausalMask(), positions=step, **said)
        np.testing.assert_allclose(weights @ qkv[2], expected, atol=1e-15)
    with pytest.raises(ValueError, match="`seq_axis` must be left out, or -2 as in the cache"):
        attention_weights(*qkv[:2], positions=step, feature_axis=-1, seq_axis=1)


def test_arrays_go_with_a_step_whose_slots_are_positions():
    """Where a step has no padding, and its cache forgets nothing, indices are positions."""
    rng = np.random.default_rng(0)
    hidden, bias = np.triu(np.ones((5, 5), dtype=bool), 1), rng.standard_normal((5, 5))
    cache, x = of_layers(capacity=8), rng.random((2, 2, 5, 3))
    expected = scaled_dot_product_attention(x, x, x, mask=hidden, bias=bias, **LAST)
    for tokens in (5, np.ones((2, 5), dtype=int)):
        _, step = cache.step(tokens)
        got = scaled_dot_product_attention(x, x, x, mask=hidden, bias=bias, positions=step)
        np.testing.assert_allclose(got, expected, atol=1e-15)
    padded, whole = (stored(of_layers(), n)[0] for n in ([[1, 1, 0], [0, 1, 1]], 5))
    later, seen = padded.step(1)[1], np.zeros((1, 3), dtype=bool)
    weights = attention_weights(x[:, :, :1], x[:, :, :3], mask=seen, positions=later)
    np.testing.assert_allclose(weights, attention_weights(x[:, :, :1], x[:, :, :3], **LAST))
    for _, wrong in (
        cache.step([[1, 1, 0], [0, 1, 1]]),
        whole.rewind([1, 0]).step(2),
        of_layers(window=6).step(7),
    ):
        lengths = [x.shape[1] for x in (wrong.positions, wrong.key_positions)]
        q, k = (np.ones((2, 2, n, 3)) for n in lengths)
        seen = np.zeros(lengths, dtype=bool)
        with pytest.raises(TypeError, match="whose slots may be no positions"):
            attention_weights(q, k, mask=seen, positions=wrong)


# Masks beside the window of a ring.


def test_a_ring_takes_masks_that_show_no_more_than_it_has():
    x, (_, step) = np.ones((2, 2, 3, 3)), of_layers(capacity=None, window=4).step(3)
    for mask in (
        CausalMask(),
        CausalMask(mask_diagonal=True) | SlidingWindowMask(3, 0),
        CausalMask() | ChunkedMask(4),
        CausalMask() | ChunkedMask(2**41) | DilatedMask(2),
        CausalMask() | SegmentMask([0, 0, 1]),
        FunctionMask(lambda q, k: k > q),
        CausalMask() | NeighbourhoodMask((2, 2), 1),
    ):
        got = scaled_dot_product_attention(x, x, x, mask=mask, positions=step)
        places = {"positions": np.arange(3), "key_positions": np.arange(3)}
        expected = scaled_dot_product_attention(x, x, x, mask=mask, **places, **LAST)
        np.testing.assert_array_equal(got, expected)


def test_a_mask_that_shows_more_than_a_ring_has_is_refused_before_it_matters():
    x, wide = np.ones((2, 2, 3, 3)), CausalMask() | SlidingWindowMask(4, 0)
    first = CausalMask() | (SlidingWindowMask(3, 0) & GlobalMask([0]))
    for options, mask, message in (
        ({"window": 4}, wide, "capacity=5, num_sink_tokens=0, window=5"),
        ({"window": 4, "drafts": 5}, wide, "capacity=5, num_sink_tokens=0, window=5"),
        ({"window": 4}, first, "capacity=5, num_sink_tokens=1, window=4"),
    ):
        _, step = of_layers(capacity=None, **options).step(3)
        with pytest.raises(ValueError, match=message):
            scaled_dot_product_attention(x, x, x, mask=mask, positions=step)
    for options, mask in (
        ({"window": 5}, wide),
        ({"window": 4, "num_sink_tokens": 1}, first),
    ):
        _, step = of_layers(capacity=None, **options).step(3)
        scaled_dot_product_attention(x, x, x, mask=mask, positions=step)
    scaled_dot_product_attention(x, x, x, mask=wide, positions=of_layers(capacity=4).step(3)[1])


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (np.zeros((4, 4), dtype=bool), TypeError),
        (ListMask(np.tile(np.arange(4), (4, 1))), ValueError),
        (lambda q, k: k > q, TypeError),
    ],
)
def test_a_ring_takes_no_masks_of_indices_for_chunks(mask, error):
    x, (_, step) = np.ones((2, 2, 4, 3)), of_layers(capacity=None, window=6).step(4)
    with pytest.raises(error, match="`mask` must"):
        scaled_dot_product_attention(x, x, x, mask=mask, positions=step)


MASKS = {
    "none": None,
    "window": SlidingWindowMask(3, None),
    "not causal": ~CausalMask(),
    "function": FunctionMask(lambda q, k: (q + k) % 3 == 1),
    "chunks": ChunkedMask(4),
}


@pytest.mark.only_on("numpy", "torch", "jax", "cupy")
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("drafts", [0, 2])
def test_a_ring_shows_chunks_the_window_and_what_the_mask_shows_of_later_tokens(
    backend, mask, drafts
):
    """As the cache of all tokens does; without a mask no later tokens."""
    outputs, all_tokens = [], np.random.default_rng(0).standard_normal((3, 1, 2, 10, 3))
    new = {"xp": backend.xp, "device": backend.device, "dtype": getattr(backend.xp, backend.wide)}
    in_window = CausalMask() | SlidingWindowMask.of(6)
    in_window = in_window if mask is None else mask | SlidingWindowMask(5, None)
    for options, seen in (
        ({"capacity": None, "window": 6, "drafts": drafts}, mask),
        ({"capacity": 10}, in_window),
    ):
        cache, first, got = of_layers(1, **options, **new), 0, []
        for count in (4, 5, 1):
            cache, step = cache.step(count)
            q, k, v = (backend.array(x[:, :, first : first + count]) for x in all_tokens)
            keys, values = step.update(0, k, v)
            output = scaled_dot_product_attention(q, keys, values, mask=seen, positions=step)
            got.append(backend.numpy(output))
            first += count
        outputs.append(np.concatenate(got, axis=2))
    np.testing.assert_allclose(*outputs, atol=2e-6)
