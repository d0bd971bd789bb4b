"""Packed sequences, there and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import (
    RoPE,
    SegmentMask,
    combine_masks,
    create_causal_mask,
    create_padding_mask,
    cumulative_lengths,
    positions_from_mask,
    positions_from_segment_ids,
    scaled_dot_product_attention,
    segment_ids_from_lengths,
)

lengths_strategy = st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(sum)


@given(lengths=lengths_strategy, padding=st.integers(0, 3))
def test_there_and_back(backend, lengths, padding):
    total = sum(lengths) + padding
    array = backend.array(lengths)
    ids = segment_ids_from_lengths(array, total)
    expected = [n for n, length in enumerate(lengths) for _ in range(length)] + [-1] * padding
    np.testing.assert_array_equal(backend.numpy(ids), expected)
    counts = np.bincount(backend.numpy(ids) + 1, minlength=len(lengths) + 1)
    np.testing.assert_array_equal(counts[1:], lengths)
    positions = [p for length in lengths for p in range(length)] + [0] * padding
    np.testing.assert_array_equal(backend.numpy(positions_from_segment_ids(ids)), positions)
    cumulative = cumulative_lengths(array)
    np.testing.assert_array_equal(backend.numpy(cumulative), np.cumsum([0, *lengths]))
    np.testing.assert_array_equal(np.diff(backend.numpy(cumulative)), lengths)
    of_list = segment_ids_from_lengths(lengths, xp=backend.xp, device=backend.device)
    np.testing.assert_array_equal(backend.numpy(of_list), expected[: sum(lengths)])


def test_batches(backend):
    ids = np.asarray([[0, 2], [0, 2], [1, -1]])
    np.testing.assert_array_equal(
        backend.numpy(positions_from_segment_ids(backend.array(ids))), [[0, 0], [1, 1], [0, 0]]
    )


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_positions_of_padded_sequences(backend, lengths):
    for side in ("left", "right"):
        mask = create_padding_mask(lengths, 5, side=side)[0]
        got = backend.numpy(positions_from_mask(backend.array(mask)))
        for b, length in enumerate(lengths):
            real = got[~mask[:, b], b]
            np.testing.assert_array_equal(real, range(length))


def attend(x, mask, positions):
    """Return causal attention with rotary embeddings, for x (head, seq, batch)."""
    rope = RoPE(x.shape[0], 1)
    q, k = rope(x, positions=positions), rope(x[::-1], positions=positions)
    causal = create_causal_mask(x.shape[1])
    return scaled_dot_product_attention(q, k, x, mask=combine_masks(causal, mask))


@given(lengths=lengths_strategy, seed=st.integers(0, 99))
def test_packed_attention_is_that_of_each_document_alone(lengths, seed):
    x = np.random.default_rng(seed).standard_normal((4, sum(lengths), 2))
    ids = segment_ids_from_lengths(lengths)
    packed = attend(x, SegmentMask(ids).dense(len(ids)), positions_from_segment_ids(ids))
    start = 0
    for length in filter(None, lengths):
        part = slice(start, start + length)
        expected = attend(x[:, part], None, np.arange(length))
        np.testing.assert_allclose(packed[:, part], expected, atol=1e-12)
        start += length


@given(lengths=lengths_strategy, seed=st.integers(0, 99))
def test_nothing_attends_across_a_segment(lengths, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, sum(lengths), 1))
    ids = segment_ids_from_lengths(lengths)
    changed = np.where(ids == ids[-1], rng.standard_normal(x.shape[1]), x[..., 0])[..., None]
    mask, positions = SegmentMask(ids).dense(len(ids)), positions_from_segment_ids(ids)
    before, after = attend(x, mask, positions), attend(changed, mask, positions)
    is_other = ids != ids[-1]
    np.testing.assert_array_equal(before[:, is_other], after[:, is_other])


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_left_and_right_padding_agree(lengths, seed):
    rng = np.random.default_rng(seed)
    results = []
    documents = [rng.standard_normal((4, length)) for length in lengths]
    for side in ("left", "right"):
        mask = create_padding_mask(lengths, 5, side=side)
        x = np.full((4, 5, len(lengths)), np.nan)
        for b, document in enumerate(documents):
            x[:, ~mask[0, :, b], b] = document
        out = attend(np.nan_to_num(x), mask, positions_from_mask(mask[0]))
        results.append([out[:, ~mask[0, :, b], b] for b in range(len(lengths))])
    for left, right in zip(*results, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)


@pytest.mark.parametrize("shape", [(0,), (0, 2), (3, 0)])
def test_nothing_and_no_batch(shape):
    ids = np.zeros(shape, dtype=int)
    np.testing.assert_array_equal(positions_from_segment_ids(ids), np.zeros(shape))


def test_no_documents(backend):
    got = segment_ids_from_lengths(backend.array(np.zeros(0), "int32"), 3)
    np.testing.assert_array_equal(backend.numpy(got), [-1, -1, -1])


def test_batch_first(backend):
    """The arrays of a tokenizer have shape (batch, seq)."""
    attention_mask = np.asarray([[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]])
    expected = [[0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 2, 3]]
    for seq_axis in (1, -1):
        got = positions_from_mask(backend.array(attention_mask == 0), seq_axis=seq_axis)
        np.testing.assert_array_equal(backend.numpy(got), expected)
    got = positions_from_mask(backend.array(attention_mask.T == 0))
    np.testing.assert_array_equal(backend.numpy(got), np.transpose(expected))
    ids = np.asarray([[4, 4, 0, 0], [0, 1, 1, -1], [1, 1, 1, 1]])
    expected = [[0, 1, 0, 1], [0, 0, 1, 0], [0, 1, 2, 3]]
    got = positions_from_segment_ids(backend.array(ids), seq_axis=1)
    np.testing.assert_array_equal(backend.numpy(got), expected)
    got = positions_from_segment_ids(backend.array(ids.T), seq_axis=-2)
    np.testing.assert_array_equal(backend.numpy(got), np.transpose(expected))


def test_many_documents_take_little_memory():
    lengths = np.full(500, 40)
    ids = np.repeat(np.arange(500), 40)
    for call in (
        lambda: segment_ids_from_lengths(lengths, 20_000),
        lambda: positions_from_segment_ids(ids),
    ):
        assert peak_memory(call) < 10 * ids.nbytes


@pytest.mark.library("dask")
def test_dask_takes_a_task_for_each_chunk():
    """The number of tasks grows with the chunks, not with the logarithm of the length."""
    import dask.array as da

    ids = da.from_array(np.repeat(np.arange(8), 64), chunks=64)
    for result in (
        positions_from_segment_ids(ids),
        segment_ids_from_lengths(da.from_array(np.full(8, 64), chunks=2), 512),
    ):
        assert len(dict(result.__dask_graph__())) < 500


@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0)])
@pytest.mark.parametrize("seq_axis", [0, -1])
def test_no_positions_or_no_sequences(backend, shape, seq_axis):
    ids = backend.array(np.zeros(shape, dtype="int64"))
    assert tuple(positions_from_segment_ids(ids, seq_axis=seq_axis).shape) == shape
    assert tuple(positions_from_mask(ids > 0, seq_axis=seq_axis).shape) == shape
