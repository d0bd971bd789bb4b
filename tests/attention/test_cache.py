"""A cache says where each key is, as lists of all tokens do, for any lengths, padding and ring."""

import copy
import inspect
import pickle
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
    NeighbourhoodMask,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.cache import KVStep

HEADS, HEAD = 2, 3
# Axes of a buffer from (batch, heads, slots, head), and its axes of features and slots.
LAYOUTS = {
    "(batch, heads, slots, head)": ((0, 1, 2, 3), -1, -2),
    "(batch, slots, heads, head)": ((0, 2, 1, 3), -1, 1),
    "(head, slots, heads, batch)": ((3, 2, 1, 0), 0, 1),
}
chunks = st.integers(1, 5) | st.tuples(st.integers(0, 2**18), st.integers(1, 5))


def kept_tokens(drawn, batch):
    """Return which tokens of a drawn chunk are no padding, (batch, seq)."""
    if isinstance(drawn, int):
        return np.ones((batch, drawn), dtype=np.int64)
    bits, count = drawn
    return np.asarray([bits >> i & 1 for i in range(batch * count)]).reshape(batch, count)


def by_rows(positions, feature_axis, batch):
    """Return positions as (batch, seq), from the order of a buffer's axes."""
    positions = positions.T if feature_axis == 0 else positions
    return np.broadcast_to(positions, (batch, positions.shape[1]))


@given(
    batch=st.integers(1, 3),
    capacity=st.integers(1, 9),
    sinks=st.integers(0, 2),
    keeps_all=st.booleans(),
    spare=st.integers(0, 1),
    layout=st.sampled_from(list(LAYOUTS)),
    drawn=st.lists(chunks, min_size=1, max_size=5),
)
def test_each_key_is_where_its_position_says(
    backend, batch, capacity, sinks, keeps_all, spare, layout, drawn
):
    order, feature_axis, seq_axis = LAYOUTS[layout]
    sinks = min(sinks, capacity - 1)
    ring = window = capacity - sinks
    if keeps_all:
        capacity += sum(n if isinstance(n, int) else n[1] for n in drawn)
        sinks, ring, window = 0, capacity, None
    options = {"feature_axis": feature_axis, "seq_axis": seq_axis, "xp": backend.xp}
    cache = KVCache.empty(batch, capacity, sinks, window=window, device=backend.device, **options)
    shape = (batch, HEADS, capacity + spare, HEAD)
    buffer = backend.array(np.zeros(shape).transpose(order))
    rng, history = np.random.default_rng(capacity), [[] for _ in range(batch)]
    for chunk in drawn:
        kept = kept_tokens(chunk, batch)
        new = rng.standard_normal((batch, HEADS, kept.shape[1], HEAD))
        cache, step = cache.step(chunk if isinstance(chunk, int) else kept)
        buffer, keys = step.store(buffer, backend.array(new.transpose(order)))
        keys = backend.numpy(keys).transpose(np.argsort(order))
        of_queries, of_keys = (
            by_rows(backend.numpy(positions), feature_axis, batch)
            for positions in (step.positions, step.key_positions)
        )
        for row, tokens in enumerate(history):
            before = len(tokens)
            for at in np.flatnonzero(kept[row]):
                assert of_queries[row, at] == len(tokens)
                tokens.append(new[row, :, at].astype(keys.dtype))
            there = {int(p): keys[row, :, at] for at, p in enumerate(of_keys[row]) if p >= 0}
            assert len(there) == np.sum(of_keys[row] >= 0)
            for position, key in there.items():
                np.testing.assert_array_equal(key, tokens[position])
            # What each new query would see, if the ring had got one token after the other.
            oldest = len(tokens) - ring
            if len(tokens) > before:
                oldest = min(oldest, before + 1 - ring)
            everything = range(len(tokens))
            assert there.keys() >= {p for p in everything if p < sinks or p >= oldest}
        assert np.asarray(cache.lengths).tolist() == [len(tokens) for tokens in history]


def test_positions_of_padding_and_empty_slots():
    cache = KVCache.empty(2, 6, feature_axis=-1, seq_axis=-2)
    cache, step = cache.step([[1, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(step.positions, [[0, 0, 1, 1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(step.key_positions, [[0, 1], [0, -1]])
    _, step = cache.step(np.asarray([[False], [False]]))
    np.testing.assert_array_equal(step.key_positions, [[0, 1], [0, -1]])


def test_a_chunk_of_a_ring_has_the_keys_that_it_overwrites_and_no_others():
    cache, step = KVCache.empty(1, 4, window=3).step(4)
    assert step.key_positions[:, 0].tolist() == [0, 1, 2, 3]
    _, step = cache.rewind(1).step(3)
    assert step.key_positions[:, 0].tolist() == [0, 1, 2, 3, 4, 5]  # 0 for another window
    assert cache.step(1)[1].key_positions[:, 0].tolist() == [4, 1, 2, 3]


def test_a_prompt_longer_than_a_ring_is_its_own_keys():
    cache, step = KVCache.empty(2, 5, 1).step(9)
    buffer, new = np.zeros((1, 5, 2)), np.arange(18.0).reshape(1, 9, 2)
    np.testing.assert_array_equal(step.store(buffer, new)[1], new)
    assert step.key_positions[:, 0].tolist() == list(range(9))
    assert cache.step(1)[1].key_positions[:, 0].tolist() == [0, 9, 6, 7, 8]
    np.testing.assert_array_equal(buffer[:, [0, 1, 2, 3, 4]], new[:, [0, 5, 6, 7, 8]])


def test_keys_that_a_ring_has_overwritten_do_not_come_back():
    ring = KVCache.empty(1, 4, 1, window=1).step(5)[0]
    _, step = ring.rewind(2).step(1)  # position 4 has been in the slot of 1
    assert step.key_positions[:, 0].tolist() == [0, -1, 2, 3]


def test_a_sequence_may_have_fewer_tokens_than_sinks():
    _, step = KVCache(capacity=8, num_sink_tokens=3, lengths=[0, 5]).step(1)
    np.testing.assert_array_equal(step.key_positions.T, [[0, *[-1] * 5], range(6)])


def test_a_window_may_be_as_wide_as_the_ring():
    assert KVCache.empty(1, 6, 2, window=4).window == 4


def test_sequences_of_one_length_share_their_positions():
    cache, step = KVCache.empty(4, 100).step(3)
    assert step.positions.shape == step.key_positions.shape == (3, 1)
    _, step = cache.rewind([0, 1, 0, 0]).step(1)
    np.testing.assert_array_equal(step.positions, [[3, 2, 3, 3]])
    assert step.key_positions.shape == (4, 4)


def test_a_buffer_is_written_to_and_returned_as_far_as_it_is_used():
    buffer = np.zeros((3, 8, 2))
    cache, step = KVCache.empty(2, 8).step(3)
    same, keys = step.store(buffer, np.ones((3, 3, 2)))
    assert same is buffer
    assert np.shares_memory(keys, buffer)
    assert keys.shape == (3, 3, 2)
    full = np.zeros((3, 8, 2))
    _, keys = KVCache.empty(2, 8).step(8)[1].store(full, np.ones((3, 8, 2)))
    assert np.shares_memory(keys, full)
    # Heads and sequences on one axis, as long as the positions are the same for all sequences.
    _, step = cache.step(2)
    assert step.store(np.zeros((3, 8, 10)), np.ones((3, 2, 10)))[1].shape == (3, 5, 10)


def test_refused_drafts_are_forgotten():
    options = {"feature_axis": -1, "seq_axis": -2}
    buffer, tokens = np.zeros((2, 1, 6, 1)), np.arange(12.0).reshape(2, 1, 6, 1)
    cache, step = KVCache.empty(2, 6, **options).step(5)
    step.store(buffer, tokens[:, :, :5])
    cache, step = cache.rewind([3, 1]).step(1)
    _, keys = step.store(buffer, -np.ones((2, 1, 1, 1)))
    np.testing.assert_array_equal(step.positions, [[2], [4]])
    np.testing.assert_array_equal(step.key_positions, [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(keys[:, 0, :, 0], [[0, 1, -1, 3, 4], [6, 7, 8, 9, -1]])
    assert cache.rewind(0) == cache
    assert cache.rewind(3) != cache


def test_a_ring_says_what_a_rewind_would_need():
    cache, _ = KVCache.empty(1, 6, 1).step(7)
    with pytest.raises(ValueError, match="the ring has overwritten 1 of them"):
        cache.rewind(2)
    assert cache.rewind(1).lengths == [6]  # its next token overwrites what the last one did
    # Two more slots than the window: two more tokens may be taken back.
    cache, _ = KVCache.empty(1, 6, window=4).step(9)
    rewound, step = cache.rewind(2).step(1)
    np.testing.assert_array_equal(np.sort(step.key_positions[:, 0]), [-1, 3, 4, 5, 6, 7])
    with pytest.raises(ValueError, match="overwritten 1 of them"):
        cache.rewind(4)
    # Refused tokens that no longer fit are no older ones, either.
    _, step = rewound.rewind(1).step(1)
    np.testing.assert_array_equal(np.sort(step.key_positions[:, 0]), [-1, 3, 4, 5, 6, 7])


def test_beams_continue_some_sequences():
    cache, _ = KVCache.empty(3, 6).step([[1, 1, 1], [0, 0, 1], [0, 1, 1]])
    np.testing.assert_array_equal(cache.take([2, 2, 0, 1]).lengths, [2, 2, 3, 1])
    np.testing.assert_array_equal(cache.take(np.asarray([1])).lengths, [1])


def test_a_cache_is_a_value():
    cache, _ = KVCache.empty(2, 8, 1, window=4).step(3)
    assert pickle.loads(pickle.dumps(cache)) == cache
    assert hash(cache) == hash(cache.step(1)[0])
    assert cache != cache.step(1)[0]
    assert repr(cache) == "KVCache(capacity=8, num_sink_tokens=1, window=4, lengths=[3, 3])"
    assert repr(KVCache.empty(16, 8)) == f"KVCache(capacity=8, lengths={[0] * 16})"
    many = "KVCache(capacity=8, lengths=<numpy.ndarray of shape (17,)>)"
    assert repr(KVCache.empty(17, 8)) == many
    assert KVCache.empty(2, 8) == KVCache(capacity=8, lengths=[0, 0])
    shapes = [f"<numpy.ndarray of shape ({n}, 1)>" for n in (1, 4)]
    step = cache.step(1)[1]
    step.store(np.zeros((4, 8, 2)), np.ones((4, 1, 2)))
    x = np.ones((4, 1, 2))
    scaled_dot_product_attention(x, np.ones((4, 4, 2)), np.ones((4, 4, 2)), positions=step)
    assert pickle.loads(pickle.dumps(step)) == copy.deepcopy(step) == step
    assert repr(cache.step(1)[1]) == "KVStep(positions={}, key_positions={})".format(*shapes)


def test_only_what_a_user_may_give_is_an_argument():
    assert not inspect.signature(KVStep).parameters
    assert not any(name.startswith("_") for name in inspect.signature(KVCache).parameters)


def test_a_buffer_that_cannot_be_written_to_is_refused_after_one_that_can():
    _, step = KVCache.empty(2, 6).step(1)
    buffer, new = np.zeros((3, 6, 2)), np.ones((3, 1, 2))
    step.store(buffer, new)
    buffer.flags.writeable = False
    with pytest.raises(ValueError, match=r"^`buffer` must be an array that can be written to"):
        step.store(buffer, new)
    new.flags.writeable = False
    assert step.store(np.zeros((3, 6, 2)), new)[1].all()


def test_axes_of_a_buffer_may_be_counted_from_its_end():
    from_end = KVCache.empty(2, 6, feature_axis=-4, seq_axis=-3).step([[1, 1, 0], [1, 1, 1]])[1]
    from_start = KVCache.empty(2, 6).step([[1, 1, 0], [1, 1, 1]])[1]
    np.testing.assert_array_equal(from_end.positions, from_start.positions)


def test_heads_and_batch_may_share_an_axis():
    tokens = np.random.default_rng(0).standard_normal((3, 4, 2, 2))  # (head, seq, heads, batch)
    wide, merged = np.zeros((3, 6, 2, 2)), np.zeros((3, 6, 4))
    cache = KVCache.empty(2, 6, feature_axis=0, seq_axis=1)
    for chunk in ([[0, 1], [1, 1]], [[1], [0]], [[1], [1]]):
        new = tokens[:, : len(chunk[0])]
        cache, step = cache.step(chunk)
        _, keys = step.store(merged, new.reshape(*new.shape[:2], 4))
        np.testing.assert_array_equal(keys, step.store(wide, new)[1].reshape(*keys.shape))
    ring, _ = KVCache.empty(2, 3, window=3, feature_axis=0, seq_axis=1).step([[0, 1, 1], [1, 1, 1]])
    _, step = ring.step([[1, 1], [1, 0]])
    _, keys = step.store(merged[:, :3].copy(), tokens[:, :2].reshape(3, 2, 4))
    _, expected = step.store(wide[:, :3].copy(), tokens[:, :2])
    np.testing.assert_array_equal(keys, expected.reshape(*keys.shape))


def test_nobody_writes_to_a_cache():
    lengths = np.asarray([3, 4])
    cache = KVCache(capacity=8, lengths=lengths)
    lengths[0] = 7
    cache, step = cache.step(1)
    np.testing.assert_array_equal(cache.lengths, [4, 5])
    for array in (cache.lengths, cache.take([0]).lengths, step.positions, step.key_positions):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_lengths_of_a_library_decide_on_positions(backend):
    if backend.name == "dask":
        with pytest.raises(TypeError, match="`lengths` must be a list or an array in memory"):
            KVCache(capacity=8, lengths=backend.array([3, 4]))
        return
    cache = KVCache(capacity=8, lengths=backend.array([3, 4]))
    np.testing.assert_array_equal(backend.numpy(cache.step(1)[1].positions), [[3, 4]])
    cache = KVCache.empty(2, 8, xp=backend.xp, device=backend.device).step(3)[0]
    rewound = cache.rewind(backend.array([1, 2])).take(backend.array([1, 0, 1]))
    np.testing.assert_array_equal(backend.numpy(rewound.step(1)[1].positions), [[1, 2, 1]])


def test_counts_may_be_numbers_of_numpy():
    cache, _ = KVCache.empty(2, 8).step(np.int64(3))
    np.testing.assert_array_equal(cache.rewind(np.max([1, 2])).lengths, [1, 1])
    assert cache.rewind(np.asarray(1)) == cache.rewind([1, 1])


def test_a_ring_goes_back_to_its_sinks_or_to_nothing():
    cache, _ = KVCache.empty(1, 6, 2).step(10)
    for count in (8, 9, 10):
        found = cache.rewind(count).step(1)[1].key_positions
        np.testing.assert_array_equal(np.sort(found[found >= 0]), np.arange(11 - count))


@pytest.mark.library("torch")
def test_tokens_with_gradients_are_stored():
    import torch

    cache, buffer = KVCache.empty(1, 8, xp=torch), torch.zeros(2, 8, 1)
    cache, step = cache.step(3)
    same, keys = step.store(buffer, torch.ones(2, 3, 1, requires_grad=True))
    assert same is buffer
    assert keys.requires_grad
    _, step = cache.step(1)
    _, keys = step.store(buffer, torch.ones(2, 1, 1))
    np.testing.assert_array_equal(keys.detach(), np.ones((2, 4, 1)))


def test_a_step_knows_no_calls_with_arrays_for_masks_or_numbers_of_arrays():
    """Other arrays of the same shape, and numbers of NumPy, are other calls."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 5, 2))
    _, step = KVCache.empty(2, 5).step(5)
    for scale in (0.5, np.float64(2.0), 2.0):
        for _ in range(2):
            mask = rng.random((5, 5, 2)) < 0.4
            got = scaled_dot_product_attention(q, k, v, mask=mask, scale=scale, positions=step)
            expected, _ = oracles.attention(q, k, v, mask, scale=float(scale))
            np.testing.assert_allclose(got, expected, atol=1e-12)
        got = scaled_dot_product_attention(q, k, v, scale=scale, positions=step)
        expected, _ = oracles.attention(q, k, v, scale=float(scale))
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_step_asks_a_mask_and_a_bias_once_for_all_layers():
    """A mask by its value, a bias by itself; what cannot be compared is asked in each call."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 5, 2))
    asked, table = [], np.zeros((32, 2))

    def later(q_pos, k_pos):
        asked.append(q_pos)
        return k_pos > q_pos

    class Unhashable:
        __hash__ = None

        def __call__(self, q_pos, k_pos):
            return later(q_pos, k_pos)

    cache = KVCache.empty(1, 5)
    for function, count in ((later, 3), (Unhashable(), 4), (later, 3)):
        _, step = cache.step(5)  # which asks anew
        asked.clear()
        for bias in (None, T5Bias(2, embeddings=table), None, T5Bias(2, embeddings=table)):
            table += np.arange(64.0).reshape(32, 2)
            mask = FunctionMask(function)
            options = {"bias": bias, "positions": step}
            got = scaled_dot_product_attention(q, k, v, mask=mask, **options)
            options = {"bias": None if bias is None else bias(5)}
            alone = scaled_dot_product_attention(q, k, v, mask=CausalMask(), **options)
            np.testing.assert_allclose(got, alone, atol=1e-12)
        assert len(asked) == count


def test_a_function_does_not_warn_in_a_step_either():
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 5, 2))
    mask = FunctionMask(lambda q_pos, k_pos: 1 / (q_pos - k_pos) < 0)
    _, step = KVCache.empty(2, 5).step(5)
    got = scaled_dot_product_attention(q, k, v, mask=mask, positions=step)
    alone = scaled_dot_product_attention(q, k, v, mask=CausalMask())
    np.testing.assert_allclose(got, alone, atol=1e-12)


def test_options_that_are_equal_are_of_their_types_in_each_call_of_a_step():
    x, (_, step) = np.ones((1, 2)), KVCache.empty(1, 2).step(2)
    scaled_dot_product_attention(x, x, x, scale=1.0, positions=step)
    for wrong in ({"scale": True}, {"enable_gqa": 0}, {"scale": 1.0, "feature_axis": False}):
        with pytest.raises(TypeError):
            scaled_dot_product_attention(x, x, x, positions=step, **wrong)
    with pytest.raises(TypeError, match="dtype of `q`"):
        scaled_dot_product_attention(x, x.astype("float32"), x, scale=1.0, positions=step)


@pytest.mark.parametrize(
    "make_mask", [lambda: None, CausalMask, lambda: CausalMask() | SlidingWindowMask(2, 0)]
)
def test_steps_that_share_their_checks_give_what_they_give_alone(make_mask):
    """Attentions of other numbers of keys, in one cache, with other sinks, and with other heads."""
    rng, axes = np.random.default_rng(0), {"feature_axis": -1, "seq_axis": -2}
    cache = KVCache.empty(1, 9, **axes)
    kinds = [(heads, rng.standard_normal((3, 1, heads, 9, 4))) for heads in (2, 3)]
    buffers = [np.zeros((2, 1, heads, 9, 4)) for heads, _ in kinds]
    for count in (4, 1, 1, 1, 2):
        first = int(cache.lengths[0])
        cache, step = cache.step(count)
        for (heads, qkv), buffer in zip(kinds, buffers, strict=True):
            q, k, v = qkv[:, :, :, first : first + count]
            keys, values = (step.store(*pair)[1] for pair in zip(buffer, (k, v), strict=True))
            for sinks in (None, *rng.standard_normal((2, heads))):
                options = {"sinks": sinks, **axes}
                mask = make_mask()
                if mask is None:  # each sees all keys so far
                    wanted = scaled_dot_product_attention(q, keys, values, **options)
                else:
                    whole = scaled_dot_product_attention(*qkv, mask=mask, **options)
                    wanted = whole[:, :, first : first + count]
                got = scaled_dot_product_attention(
                    q, keys, values, mask=mask, positions=step, **options
                )
                np.testing.assert_allclose(got, wanted, atol=1e-13)


def test_shared_checks_see_numbers_of_keys():
    cache, buffer = KVCache.empty(1, 9), np.zeros((4, 9, 1))
    for count in (3, 1, 1):
        cache, step = cache.step(count)
        q = np.ones((4, count, 1))
        buffer, keys = step.store(buffer, q)
        for wrong, message in (
            ((q, keys[:, 1:], keys[:, 1:]), "`k` must have . tokens on axis 1"),
            ((q, keys, keys[:, 1:]), "`v` must have the shape of `k`"),
            ((q[:, :0], keys, keys), f"`q` must have {count} token{'s' * (count > 1)} on axis 1"),
        ):
            with pytest.raises(ValueError, match=message):
                scaled_dot_product_attention(*wrong, mask=CausalMask(), positions=step)
        scaled_dot_product_attention(q, keys, keys, mask=CausalMask(), positions=step)


def seen_in_ring(position, sinks, window):
    """Return the keys that a query of a ring sees, with a causal mask."""
    return [p for p in range(position + 1) if p < sinks or p > position - window]


@given(
    sinks=st.integers(0, 2),
    window=st.integers(1, 5),
    spare=st.integers(0, 3),
    drawn=st.lists(chunks, min_size=1, max_size=5),
)
def test_a_query_of_a_ring_sees_its_window_in_any_chunks(sinks, window, spare, drawn):
    """Also with spare slots for a `rewind`, and in chunks longer than the ring."""
    rng, capacity = np.random.default_rng(0), sinks + window + spare
    cache = KVCache.empty(2, capacity, sinks, window=window, feature_axis=-1, seq_axis=-2)
    buffers = list(np.full((2, 2, 1, capacity, HEAD), np.nan))
    history = [[], []]
    for chunk in drawn:
        kept = kept_tokens(chunk, 2)
        q, *new = rng.standard_normal((3, 2, 1, kept.shape[1], HEAD))
        cache, step = cache.step(chunk if isinstance(chunk, int) else kept)
        keys, values = (step.store(*pair)[1] for pair in zip(buffers, new, strict=True))
        got = scaled_dot_product_attention(q, keys, values, mask=CausalMask(), positions=step)
        for row, at in np.argwhere(kept):
            history[row].append([x[row, 0, at] for x in new])
            seen = seen_in_ring(len(history[row]) - 1, sinks, window)
            k, v = np.asarray([history[row][p] for p in seen]).transpose(1, 2, 0)[..., None]
            expected, _ = oracles.attention(q[row, 0, at][:, None, None], k, v)
            np.testing.assert_allclose(got[row, 0, at], expected[:, 0, 0], atol=1e-12)


def test_a_ring_takes_masks_that_show_no_more_than_it_has():
    x = np.ones((4, 3, 2))
    step = KVCache.empty(2, 8, 1, window=4).step(3)[1]
    for mask in (
        CausalMask(),
        CausalMask(mask_diagonal=True) | SlidingWindowMask(3, 0),
        CausalMask() | (SlidingWindowMask(3, 0) & GlobalMask([0])),
        CausalMask() | ChunkedMask(4),
        CausalMask() | ChunkedMask(2**41) | DilatedMask(2),
        CausalMask() | SegmentMask([0, 0, 1]),
        FunctionMask(lambda q, k: k > q),
        CausalMask() | NeighbourhoodMask((2, 2), 1),
    ):
        got = scaled_dot_product_attention(x, x, x, mask=mask, positions=step)
        places = {"positions": np.arange(3), "key_positions": np.arange(3)}
        expected = scaled_dot_product_attention(x, x, x, mask=mask, **places)
        np.testing.assert_array_equal(got, expected)


def test_a_mask_that_shows_more_than_a_ring_has_is_refused_before_it_matters():
    x, mask = np.ones((4, 3, 2)), CausalMask() | SlidingWindowMask(4, 0)
    for cache in (KVCache.empty(2, 4, window=4), KVCache.empty(2, 9, window=4)):
        with pytest.raises(ValueError, match="capacity=5, num_sink_tokens=0, window=5"):
            scaled_dot_product_attention(x, x, x, mask=mask, positions=cache.step(3)[1])
    for cache in (KVCache.empty(2, 4), KVCache.empty(2, 5, window=5)):
        scaled_dot_product_attention(x, x, x, mask=mask, positions=cache.step(3)[1])


def test_a_full_cache_takes_no_more_tokens():
    cache, _ = KVCache.empty(2, 6).step([[1, 1, 1], [0, 1, 1]])
    assert cache.step(3)[0].lengths.tolist() == [6, 5]
    assert cache.step([[0, 1, 1, 1], [1, 1, 1, 1]])[0].lengths.tolist() == [6, 6]
    for tokens in (4, [[1, 1, 1, 1], [0, 0, 0, 0]]):
        with pytest.raises(ValueError, match="`tokens` must fit into the slots"):
            cache.step(tokens)


WRITING = pytest.mark.only_on("numpy", "torch", "cupy")
TWICE = (
    "`buffer` must be another one for keys, for values and for each layer, got one that this step "
    "has stored in already. Each token, or chunk of tokens, has a step of its own."
)
BEFORE = "`buffer` must hold the tokens before the step, got one of"


def new_buffers(backend, count=2):
    return [backend.array(np.zeros((HEAD, 12, 2))) for _ in range(count)]


def tokens_of(backend, count):
    return backend.array(np.ones((HEAD, count, 2)))


@WRITING
def test_a_step_stores_once_in_a_buffer(backend):
    """One for two layers, or for keys and values, and one step for two tokens."""
    buffer, other = new_buffers(backend)
    cache, step = KVCache.empty(2, 12, xp=backend.xp, device=backend.device).step(1)
    for one in (buffer, other[:, :, :]):
        step.store(one, tokens_of(backend, 1))
    for one in (buffer, buffer[:, :, :], other):
        with pytest.raises(ValueError, match=TWICE):
            step.store(one, tokens_of(backend, 1))
    _, step = cache.step(1)
    for one in (buffer[:, :, :], other):
        step.store(one, tokens_of(backend, 1))


@WRITING
def test_parts_of_one_array_are_buffers(backend):
    both = backend.array(np.zeros((2, HEAD, 12, 2)))
    _, step = KVCache.empty(2, 12, xp=backend.xp, device=backend.device).step(3)
    for part in (both[0, ...], both[1, ...]):
        step.store(part, tokens_of(backend, 3))
    assert backend.numpy(both)[:, :, :3].all()


@WRITING
def test_buffers_that_are_gone_are_not_taken_for_others(backend):
    _, step = KVCache.empty(2, 12, xp=backend.xp, device=backend.device).step(3)
    for _ in range(20):  # most of them in the memory of the one before
        step.store(backend.array(np.zeros((HEAD, 12, 2))), tokens_of(backend, 3))


@WRITING
def test_the_next_cache_must_be_kept(backend):
    cache = KVCache.empty(2, 12, xp=backend.xp, device=backend.device)
    buffer, copied = new_buffers(backend)
    start, step = cache.step(3)
    step.store(buffer, tokens_of(backend, 3))
    step.store(copied, tokens_of(backend, 3))
    _, second = start.step(2)
    second.store(buffer, tokens_of(backend, 2))
    # The next cache thrown away, from the start or later; an earlier step used again.
    for wrong in (cache.step(1)[1], start.step(2)[1], step):
        with pytest.raises(ValueError, match=f"{BEFORE}.* write cache, step = cache.step\\(token"):
            wrong.store(buffer, tokens_of(backend, wrong.positions.shape[0]))
    # Other buffers, a cache that is rewound or copied, and another one are other cases.
    start.step(2)[1].store(copied, tokens_of(backend, 2))
    start.step(2)[1].store(backend.array(backend.numpy(buffer)), tokens_of(backend, 2))
    for going_on in (start.rewind(0), copy.copy(start), start.take([0, 1]), start.rewind(1)):
        following, again = going_on.step(1)
        again.store(buffer, tokens_of(backend, 1))
        following.step(1)[1].store(buffer, tokens_of(backend, 1))
    KVCache.empty(2, 12, xp=backend.xp).step(1)[1].store(buffer, tokens_of(backend, 1))


@WRITING
def test_a_step_is_for_all_layers(backend):
    cache = KVCache.empty(2, 12, xp=backend.xp, device=backend.device)
    for buffer in (buffers := new_buffers(backend)):
        cache, step = cache.step(1)
        step.store(buffer, tokens_of(backend, 1))
    _, step = cache.step(1)
    with pytest.raises(ValueError, match=f"{BEFORE} \\[1, 1\\] tokens .* once for all layers"):
        step.store(buffers[0], tokens_of(backend, 1))


def test_layers_may_be_computed_one_after_the_other():
    """Each for all chunks of a prompt."""
    cache, steps = KVCache.empty(2, 12), []
    for count in (3, 2, 1):
        cache, step = cache.step(count)
        steps.append((count, step))
    for buffer in np.zeros((3, HEAD, 12, 2)):
        for count, step in steps:
            _, keys = step.store(buffer, np.full((HEAD, count, 2), 1.0 * count))
        assert keys[0, :, 0].tolist() == [3, 3, 3, 2, 2, 1]


def test_steps_of_two_models_may_be_made_of_one_cache():
    cache, buffers = KVCache.empty(2, 12), np.zeros((2, HEAD, 12, 2))
    for count in (3, 1, 2):
        steps = [cache.step(count) for _ in buffers]
        for (_, step), buffer in zip(steps, buffers, strict=True):
            step.store(buffer, np.ones((HEAD, count, 2)))
        cache = steps[0][0]


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_copies_cannot_be_written_to_and_store_in_buffers_of_their_own(duplicate):
    cache, step = KVCache.empty(2, 8, 1).step([[0, 1], [1, 1]])
    copied, own = duplicate(cache), duplicate(step)
    for array in (copied.lengths, copied._oldest, own.positions, own.key_positions):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    new, buffers = np.ones((HEAD, 2, 2)), np.zeros((2, HEAD, 8, 2))
    for one, buffer in zip((step, own), buffers, strict=True):
        one.store(buffer, new)
        with pytest.raises(ValueError, match=TWICE):
            one.store(buffer, new)
    assert (copied, own) == (cache, step)
    following, step = copied.step(2)
    assert following == cache.step(2)[0]
    step.store(buffers[1].copy(), new)


def test_a_step_knows_the_axes_of_its_cache():
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))  # (batch, heads, seq, head)
    axes = {"feature_axis": -1, "seq_axis": -2}
    _, step = KVCache.empty(2, 8, **axes).step(4)
    expected = scaled_dot_product_attention(x, x, x, mask=CausalMask(), **axes)
    for said in ({}, axes, {"seq_axis": 2}, {"feature_axis": 3}):
        got = scaled_dot_product_attention(x, x, x, mask=CausalMask(), positions=step, **said)
        np.testing.assert_allclose(got, expected, atol=1e-15)
        weights = attention_weights(x, x, mask=CausalMask(), positions=step, **said)
        np.testing.assert_allclose(weights @ x, expected, atol=1e-15)
    for call in (attention_weights, lambda q, k, **o: scaled_dot_product_attention(q, k, k, **o)):
        with pytest.raises(ValueError, match="`seq_axis` must be left out, or -2 as in the cache"):
            call(x, x, positions=step, feature_axis=-1, seq_axis=1)
    _, step = KVCache.empty(2, 8).step(4)
    with pytest.raises(
        ValueError, match="`feature_axis` and `seq_axis` must be given for `q` of 4"
    ):
        attention_weights(x, x, positions=step)
    moved = x.transpose(3, 2, 1, 0)
    weights = attention_weights(moved, moved, positions=step, feature_axis=0, seq_axis=1)
    assert weights.shape == (4, 4, 3, 2)


def test_arrays_go_with_a_step_whose_slots_are_positions():
    """Where a step has no padding, and its cache forgets nothing, indices are positions."""
    rng = np.random.default_rng(0)
    hidden, bias = np.triu(np.ones((5, 5), dtype=bool), 1), rng.standard_normal((5, 5))
    cache, ring, x = KVCache.empty(2, 8), KVCache.empty(2, 8, window=6), rng.random((4, 5, 2))
    steps = [cache.step(5), cache.step(np.ones((2, 5), dtype=int))]
    expected = scaled_dot_product_attention(x, x, x, mask=hidden, bias=bias)
    for _, step in steps:
        got = scaled_dot_product_attention(x, x, x, mask=hidden, bias=bias, positions=step)
        np.testing.assert_allclose(got, expected, atol=1e-15)
    later, seen = cache.step([[1, 1, 0], [0, 1, 1]])[0].step(1)[1], np.zeros((1, 3), dtype=bool)
    weights = attention_weights(x[:, :1], x[:, :3], mask=seen, positions=later)
    np.testing.assert_allclose(weights, attention_weights(x[:, :1], x[:, :3]), atol=1e-15)
    for _, wrong in (
        cache.step([[1, 1, 0], [0, 1, 1]]),
        steps[0][0].rewind([1, 0]).step(2),
        ring.step(5),
    ):
        q, k = (np.ones((4, len(p), 2)) for p in (wrong.positions, wrong.key_positions))
        seen = np.zeros((len(wrong.positions), len(wrong.key_positions)), dtype=bool)
        with pytest.raises(TypeError, match="whose slots may be no positions"):
            attention_weights(q, k, mask=seen, positions=wrong)


def test_slots_that_only_a_trace_knows_are_written_all_together():
    """As in a compiled function, which knows no numbers: all slots are taken anew."""
    results = []
    for knows_numbers in (True, False):
        _, step = KVCache.empty(2, 4, feature_axis=-1, seq_axis=-2).step([[0, 1, 1], [1, 1, 1]])
        if not knows_numbers:
            object.__setattr__(step, "_writes", None)
            # Of the four slots, and the three tokens after them.
            object.__setattr__(step, "_source", np.asarray([[5, 6, 2, 3], [4, 5, 6, 3]]))
        buffer = np.zeros((2, 1, 5, 2))
        stored, _ = step.store(buffer, np.arange(12.0).reshape(2, 1, 3, 2) + 1)
        assert stored is buffer
        results.append(buffer)
    np.testing.assert_array_equal(*results)


def test_later_steps_ask_anew_what_depends_on_them():
    """What earlier steps of a form have found out serves others, but for the keys."""
    rng, axes = np.random.default_rng(0), {"feature_axis": -1, "seq_axis": -2}
    rules = [
        {"mask": mask, "bias": bias, "sinks": sinks}
        for mask in (None, CausalMask(), CausalMask() | SlidingWindowMask.of(2))
        for bias in (None, ALiBiBias(4))
        for sinks in (None, rng.standard_normal(4))
    ]
    cache = KVCache.empty(2, 12, **axes)
    for count in (3, 1, 1, 2, 1):
        cache, step = cache.step(count)
        keys = step.key_positions.shape[1]
        for rule, (heads, features) in product(rules, ((4, 5), (2, 5), (4, 3))):
            q, k, v = (
                rng.standard_normal((2, *shape))
                for shape in ((4, count, 5), (heads, keys, 5), (heads, keys, features))
            )
            if rule["sinks"] is not None:
                rule["sinks"] = rng.standard_normal(4)
            options = {**rule, "enable_gqa": True, **axes}
            got = scaled_dot_product_attention(q, k, v, positions=step, **options)
            alone = scaled_dot_product_attention(q, k, v, positions=pickled(step), **options)
            np.testing.assert_array_equal(got, alone)
            for wrong in ((q, k[:, :, 1:], v[:, :, 1:]), (q, k, v[:, :, 1:])):
                with pytest.raises(ValueError, match=r"as the step in|shape of `k` but for"):
                    scaled_dot_product_attention(*wrong, positions=step, **options)


def test_a_grid_ends_in_later_steps_too():
    grid, x = NeighbourhoodMask((2, 2), 1), np.ones((4, 1, 1))
    cache = KVCache.empty(1, 8)
    for count in range(1, 6):
        cache, step = cache.step(1)
        keys = np.ones((4, count, 1))
        if count <= 4:
            scaled_dot_product_attention(x, keys, keys, mask=grid, positions=step)
    with pytest.raises(ValueError, match="have a token for each query"):
        scaled_dot_product_attention(x, keys, keys, mask=grid, positions=step)


@pytest.mark.parametrize("tokens", [[[0, 0, 1, 1, 1, 1], [1] * 6], [[1, 0, 1, 0, 1, 1], [1] * 6]])
def test_documents_of_a_padded_prompt_have_the_columns_of_its_attention_mask(backend, tokens):
    axes = {"feature_axis": -1, "seq_axis": -2}
    tokens, ids = np.asarray(tokens), np.asarray([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]])
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 1, 6, 4))
    cache = KVCache.empty(2, 8, xp=backend.xp, device=backend.device, **axes)
    _, step = cache.step(tokens)
    _, keys = step.store(backend.array(np.zeros((2, 1, 8, 4))), backend.array(k))
    _, values = step.store(backend.array(np.zeros((2, 1, 8, 4))), backend.array(v))
    longer = np.concat([ids, [[1], [1]]], axis=1)  # with the document of a later token
    for documents in (ids.T, backend.array(ids.T), longer.T):
        mask = CausalMask() | SegmentMask(documents)
        output = scaled_dot_product_attention(
            backend.array(q), keys, values, mask=mask, positions=step
        )
        for row, is_token in enumerate(tokens == 1):
            expected = scaled_dot_product_attention(
                *(x[row : row + 1, :, is_token] for x in (q, k, v)),
                mask=CausalMask() | SegmentMask(ids[row, is_token]),
                **axes,
            )
            result = backend.numpy(output)[row : row + 1, :, is_token]
            np.testing.assert_allclose(result, expected, atol=backend.tolerance())


def test_documents_after_a_prompt_and_of_keys():
    axes = {"feature_axis": -1, "seq_axis": -2}
    x = np.random.default_rng(0).standard_normal((2, 1, 3, 4))
    cache, step = KVCache.empty(2, 4, **axes).step([[0, 1, 1], [1, 1, 1]])
    _, keys = step.store(np.zeros((2, 1, 4, 4)), x)
    same = [
        scaled_dot_product_attention(
            x, keys, keys, mask=SegmentMask([0, 0, 0], key_ids), positions=step
        )
        for key_ids in (None, [0, 0, 0])
    ]
    np.testing.assert_allclose(*(output[:, :, 1:] for output in same))
    message = r"positions 2 to 3, .* A `CausalMask` is enough if each sequence is one text"
    _, step = cache.step(1)
    _, keys = step.store(np.zeros((2, 1, 4, 4)), x[:, :, :1])
    with pytest.raises(ValueError, match=message):
        scaled_dot_product_attention(
            x[:, :, :1], keys, keys, mask=SegmentMask([0, 0, 0]), positions=step
        )
