"""A cache says where each key is, as lists of all tokens do, for any lengths, padding and ring."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import KVCache, KVStep, scaled_dot_product_attention
from positional_embeddings.arrays.space import space_of

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
    layout=st.sampled_from(list(LAYOUTS)),
    drawn=st.lists(chunks, min_size=1, max_size=5),
)
def test_each_key_is_where_its_position_says(backend, batch, capacity, sinks, layout, drawn):
    order, feature_axis, seq_axis = LAYOUTS[layout]
    sinks = min(sinks, capacity - 1)
    ring = capacity - sinks
    options = {"feature_axis": feature_axis, "seq_axis": seq_axis, "xp": backend.xp}
    cache = KVCache.empty(batch, capacity, sinks, device=backend.device, **options)
    shape = (batch, HEADS, capacity, HEAD)
    buffer = backend.array(np.zeros(shape).transpose(order))
    rng, history = np.random.default_rng(capacity), [[] for _ in range(batch)]
    for chunk in drawn:
        kept = kept_tokens(chunk, batch)
        new = rng.standard_normal((batch, HEADS, kept.shape[1], HEAD))
        cache, step = cache.step(chunk if isinstance(chunk, int) else kept)
        keys = step.store(buffer, backend.array(new.transpose(order)))
        if not space_of(buffer=buffer).can_write:
            buffer = keys
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
    cache, step = KVCache.empty(1, 4).step(4)
    assert step.key_positions[:, 0].tolist() == [0, 1, 2, 3]
    _, step = cache.rewind(1).step(3)
    assert step.key_positions[:, 0].tolist() == [4, 5, 2, 3, 0, 1]
    assert cache.step(1)[1].key_positions[:, 0].tolist() == [4, 1, 2, 3]


def test_keys_that_a_ring_has_overwritten_do_not_come_back():
    ring = KVCache.empty(1, 4, 1, window=1).step(5)[0]
    _, step = ring.rewind(2).step(1)  # position 4 has been in the slot of 1
    assert step.key_positions[:, 0].tolist() == [0, -1, 2, 3]


def test_a_sequence_may_have_fewer_tokens_than_sinks():
    _, step = KVCache(capacity=8, sinks=3, lengths=[0, 5]).step(1)
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
    keys = step.store(buffer, np.ones((3, 3, 2)))
    assert np.shares_memory(keys, buffer)
    assert keys.shape == (3, 3, 2)
    full = np.zeros((3, 8, 2))
    assert np.shares_memory(KVCache.empty(2, 8).step(8)[1].store(full, np.ones((3, 8, 2))), full)
    # Heads and sequences on one axis, as long as the positions are the same for all sequences.
    _, step = cache.step(2)
    assert step.store(np.zeros((3, 8, 10)), np.ones((3, 2, 10))).shape == (3, 5, 10)


def test_refused_drafts_are_forgotten():
    options = {"feature_axis": -1, "seq_axis": -2}
    buffer, tokens = np.zeros((2, 1, 6, 1)), np.arange(12.0).reshape(2, 1, 6, 1)
    cache, step = KVCache.empty(2, 6, **options).step(5)
    step.store(buffer, tokens[:, :, :5])
    cache, step = cache.rewind([3, 1]).step(1)
    keys = step.store(buffer, -np.ones((2, 1, 1, 1)))
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
    assert repr(cache) == "KVCache(capacity=8, sinks=1, window=4, lengths=[3, 3])"
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
    assert list(inspect.signature(KVStep).parameters) == ["positions", "key_positions"]
    assert not any(name.startswith("_") for name in inspect.signature(KVCache).parameters)


def test_a_buffer_that_cannot_be_written_to_is_refused_after_one_that_can():
    _, step = KVCache.empty(2, 6).step(1)
    buffer, new = np.zeros((3, 6, 2)), np.ones((3, 1, 2))
    step.store(buffer, new)
    buffer.flags.writeable = False
    with pytest.raises(ValueError, match=r"^`buffer` must be an array that can be written to"):
        step.store(buffer, new)
    new.flags.writeable = False
    assert step.store(np.zeros((3, 6, 2)), new).all()


def test_axes_of_a_buffer_may_be_counted_from_its_end():
    from_end = KVCache.empty(2, 6, feature_axis=-4, seq_axis=-3).step([[1, 1, 0], [1, 1, 1]])[1]
    from_start = KVCache.empty(2, 6).step([[1, 1, 0], [1, 1, 1]])[1]
    np.testing.assert_array_equal(from_end.positions, from_start.positions)


def test_heads_and_batch_may_share_an_axis():
    tokens = np.random.default_rng(0).standard_normal((3, 4, 2, 2))  # (head, seq, heads, batch)
    wide, merged = np.zeros((3, 6, 2, 2)), np.zeros((3, 6, 4))
    cache = KVCache.empty(2, 6)
    for chunk in ([[0, 1], [1, 1]], [[1], [0]], [[1], [1]]):
        new = tokens[:, : len(chunk[0])]
        cache, step = cache.step(chunk)
        keys = step.store(merged, new.reshape(*new.shape[:2], 4))
        np.testing.assert_array_equal(keys, step.store(wide, new).reshape(*keys.shape))
    ring, _ = KVCache.empty(2, 3).step([[0, 1, 1], [1, 1, 1]])
    _, step = ring.step([[1, 1], [1, 0]])
    keys = step.store(merged[:, :3].copy(), tokens[:, :2].reshape(3, 2, 4))
    expected = step.store(wide[:, :3].copy(), tokens[:, :2])
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
    if backend.name in ("dask", "cubed"):
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
    keys = step.store(buffer, torch.ones(2, 3, 1, requires_grad=True))
    assert keys.requires_grad
    _, step = cache.step(1)
    np.testing.assert_array_equal(
        step.store(buffer, torch.ones(2, 1, 1)).detach(), np.ones((2, 4, 1))
    )


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
