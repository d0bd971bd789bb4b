"""Windows, prefixes, segments, chunks and dilation, element by element, and their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    PrefixMask,
    SegmentMask,
    SlidingWindowMask,
    combine_masks,
    create_causal_mask,
    describe_mask,
)

sides = st.none() | st.integers(0, 4)


def element_by_element(q_len, keys, offset, allowed):
    start = keys - q_len if offset is None else offset
    return np.asarray([[not allowed(i + start, j) for j in range(keys)] for i in range(q_len)])


@given(
    kind=st.sampled_from(["window", "prefix", "chunked", "dilated"]),
    q_len=st.integers(1, 5),
    k_len=st.none() | st.integers(1, 8),
    offset=st.none() | st.integers(-5, 5),
    window=st.tuples(sides, sides),
    size=st.integers(1, 4),
)
def test_structured_masks(backend, kind, q_len, k_len, offset, window, size):
    left, right = (np.inf if side is None else side for side in window)
    keys = q_len if k_len is None else k_len
    prefix = min(size, keys)
    options = {
        "k_len": k_len,
        "offset": offset,
        "xp": backend.xp,
        "device": backend.device,
    }
    mask, allowed = {
        "window": (SlidingWindowMask(*window), lambda i, j: i - left <= j <= i + right),
        "prefix": (PrefixMask(prefix), lambda i, j: j <= i or j < prefix),
        "chunked": (ChunkedMask(size), lambda i, j: i // size == j // size),
        "dilated": (DilatedMask(size), lambda i, j: (i - j) % size == 0),
    }[kind]
    got = backend.numpy(mask.dense(q_len, **options))
    assert got.dtype == bool
    np.testing.assert_array_equal(got[..., 0], element_by_element(q_len, keys, offset, allowed))


@given(past=st.integers(0, 5), new=st.integers(1, 4), size=st.integers(1, 4))
def test_cached_keys_see_the_tail_of_the_full_mask(past, new, size):
    total = past + new
    for mask in (
        SlidingWindowMask(size, 0),
        PrefixMask(min(size, total)),
        ChunkedMask(size),
        DilatedMask(size),
    ):
        np.testing.assert_array_equal(mask.dense(new, total), mask.dense(total)[past:])


def test_a_prefix_for_each_sequence(backend):
    for prefix in (backend.array([0, 2], "uint8"), backend.array([0, 2])):
        mask = backend.numpy(PrefixMask(prefix).dense(3))
        np.testing.assert_array_equal(mask[..., 0], create_causal_mask(3)[..., 0])
        np.testing.assert_array_equal(mask[..., 1], PrefixMask(2).dense(3)[..., 0])
    for number in (backend.array(2), backend.array(2, "uint8")):
        np.testing.assert_array_equal(
            backend.numpy(PrefixMask(number).dense(3)), PrefixMask(np.int64(2)).dense(3)
        )
    listed = PrefixMask([0, 2]).dense(3, xp=backend.xp, device=backend.device)
    np.testing.assert_array_equal(backend.numpy(listed), mask)


@given(
    ids=st.lists(st.integers(-1, 2), min_size=1, max_size=6),
    keys=st.lists(st.integers(-1, 2), min_size=1, max_size=5),
)
def test_segment_mask(backend, ids, keys):
    mask = SegmentMask(backend.array(ids), backend.array(keys)).dense(len(ids), len(keys))
    expected = [[i != j or i < 0 or j < 0 for j in keys] for i in ids]
    np.testing.assert_array_equal(backend.numpy(mask)[..., 0], expected)
    mask = backend.numpy(SegmentMask(backend.array(ids)).dense(len(ids)))
    expected = [[i != j or i < 0 or j < 0 for j in ids] for i in ids]
    np.testing.assert_array_equal(mask[..., 0], expected)


def test_segment_mask_of_a_batch(backend):
    ids = np.asarray([[0, 0], [0, 1], [-1, 1]])
    mask = backend.numpy(SegmentMask(backend.array(ids)).dense(3))
    for b in range(2):
        np.testing.assert_array_equal(mask[..., b], SegmentMask(ids[:, b]).dense(3)[..., 0])


@pytest.mark.parametrize("batches", [(1, 3), (3, 1), (3, 3), (1, 1), (3, None), (None, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_sequence_meets_a_batch_of_segments(backend, batches, transposed):
    rng = np.random.default_rng(0)
    query, key = (
        rng.integers(-1, 2, n if batch is None else (n, batch))
        for n, batch in zip((2, 4), batches, strict=True)
    )
    arrays = [backend.array(ids.T if transposed else ids) for ids in (query, key)]
    if transposed:
        swap = {1: (0,), 2: (1, 0)}
        arrays = [backend.xp.permute_dims(ids, swap[ids.ndim]) for ids in arrays]
    got = backend.numpy(SegmentMask(*arrays).dense(2, 4))
    query, key = (ids.reshape(len(ids), -1) for ids in (query, key))
    assert got.shape == (2, 4, max(query.shape[1], key.shape[1]))
    for i, j, b in np.ndindex(got.shape):
        q, k = query[i, b % query.shape[1]], key[j, b % key.shape[1]]
        assert got[i, j, b] == (q != k or q < 0 or k < 0)


@pytest.mark.parametrize(
    "mask",
    [
        DilatedMask(3),
        SlidingWindowMask(None, None),
        SlidingWindowMask(5, 5),
        ChunkedMask(7),
        PrefixMask(4),
        CausalMask(),
        SegmentMask(np.arange(400) // 9),
    ],
)
def test_masks_take_the_memory_of_a_few_masks(mask):
    assert peak_memory(lambda: mask.dense(400)) < 4 * 400 * 400


@given(masks=st.lists(st.integers(0, 3), max_size=4))
def test_combining_is_a_union(masks):
    candidates = [
        create_causal_mask(4),
        SlidingWindowMask(1, 2).dense(4),
        ChunkedMask(2).dense(4),
        None,
    ]
    chosen = [candidates[i] for i in masks]
    got = combine_masks(*chosen)
    present = [mask for mask in chosen if mask is not None]
    if not present:
        assert got is None
    else:
        np.testing.assert_array_equal(got, np.any(np.stack(present), axis=0))


def test_picture_of_a_mask(backend):
    mask = create_causal_mask(2, k_len=3, xp=backend.xp, device=backend.device)
    assert describe_mask(mask) == (
        "      key\n      012\nquery\n    0 ##.\n    1 ###\n"
        "# attends   . masked   (2 queries, 3 keys)"
    )
    leading = backend.xp.permute_dims(mask, (2, 0, 1))
    assert describe_mask(leading, key_axis=-1) == describe_mask(mask)
    assert describe_mask(leading[None, ...], key_axis=-1) == describe_mask(mask)
    assert describe_mask(mask[..., None], key_axis=1) == describe_mask(mask)


def test_picture_of_a_long_mask():
    assert describe_mask(create_causal_mask(200), max_size=7) == (
        "      key\n         :111\n         :999\n      012:789\nquery\n"
        "    0 #..:...\n    1 ##.:...\n    2 ###:...\n    :\n"
        "  197 ###:#..\n  198 ###:##.\n  199 ###:###\n"
        "# attends   . masked   (200 queries, 200 keys)"
    )


def test_up_to_32_queries_and_keys_are_drawn():
    assert ":" not in describe_mask(CausalMask(), 32)
    assert ":" in describe_mask(CausalMask(), 33)


def test_picture_of_one_sequence():
    mask = np.stack([create_causal_mask(2)[..., 0], np.zeros((2, 2), dtype=bool)], axis=-1)
    assert "    0 #.\n" in describe_mask(mask)
    assert "    0 ##\n" in describe_mask(mask, batch=1)
    assert describe_mask(create_causal_mask(2), batch=7) == describe_mask(create_causal_mask(2))
    with pytest.raises(ValueError, match="`batch` must be below 2"):
        describe_mask(mask, batch=2)


@pytest.mark.parametrize("window", [(None, None), (0, None), (None, 0), (0, 0)])
def test_windows_without_a_bound(backend, window):
    mask = SlidingWindowMask(*window).dense(3, xp=backend.xp, device=backend.device)
    left, right = (9 if side is None else side for side in window)
    expected = [[not i - left <= j <= i + right for j in range(3)] for i in range(3)]
    np.testing.assert_array_equal(backend.numpy(mask)[..., 0], expected)


@pytest.mark.parametrize("size", [2**31 - 1, 2**63 - 1, 2**70])
@pytest.mark.parametrize("offset", [-5, 0, 7])
def test_sizes_beyond_every_position(backend, size, offset):
    options = {"k_len": 4, "offset": offset, "xp": backend.xp, "device": backend.device}
    chunked = backend.numpy(ChunkedMask(size).dense(3, **options))
    dilated = backend.numpy(DilatedMask(size).dense(3, **options))
    query, key = offset + np.arange(3)[:, None], np.arange(4)
    np.testing.assert_array_equal(chunked[..., 0], (query < 0) != (key < 0))
    np.testing.assert_array_equal(dilated[..., 0], query != key)
    for window, expected in (
        ((size, size), np.zeros((3, 4), dtype=bool)),
        ((size, 0), key > query),
        ((0, size), key < query),
    ):
        mask = backend.numpy(SlidingWindowMask(*window).dense(3, **options))
        np.testing.assert_array_equal(mask[..., 0], expected)


@pytest.mark.parametrize("end", [-1, 1])
def test_distances_between_the_farthest_positions(backend, end):
    """Compared with Python integers."""
    limit = (2**63 - 1 if backend.has_int64 else 2**31 - 1) // 4
    offset = -limit if end < 0 else limit - 2
    options = {"k_len": 4, "offset": offset, "xp": backend.xp, "device": backend.device}
    query, key = [offset, offset + 1], range(4)
    for side in (0, 20, limit - 3, limit, limit + 2, 2 * limit, 8 * limit):
        for left, right in ((side, None), (None, side), (side, side)):
            mask = SlidingWindowMask(left, right).dense(2, **options)
            expected = [
                [
                    (left is not None and i - j > left) or (right is not None and j - i > right)
                    for j in key
                ]
                for i in query
            ]
            np.testing.assert_array_equal(backend.numpy(mask)[..., 0], expected)
    for size in (5, limit, 4 * limit):
        dilated = backend.numpy(DilatedMask(size).dense(2, **options))[..., 0]
        np.testing.assert_array_equal(dilated, [[(i - j) % size != 0 for j in key] for i in query])
        chunked = backend.numpy(ChunkedMask(size).dense(2, **options))[..., 0]
        np.testing.assert_array_equal(
            chunked, [[i // size != j // size for j in key] for i in query]
        )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0, 1)])
def test_picture_of_an_empty_mask(shape):
    drawn = describe_mask(np.zeros(shape, dtype=bool))
    assert drawn.startswith("      key\n")
    assert drawn.endswith(f"({shape[0]} queries, {shape[1]} keys)")
    assert drawn.count("\n") == 2 + shape[0] + (shape[1] > 0)


def test_positions_beyond_the_ids_of_documents_see_nothing(backend):
    inside, beyond = backend.array([0]), backend.array([2, 9])
    mask = SegmentMask(backend.array([1, 1]))
    assert not backend.numpy(mask(inside, inside)).any()
    assert backend.numpy(mask(beyond, inside)).all()
    assert backend.numpy(mask(inside, beyond)).all()


def test_a_window_of_a_decoder_has_as_many_keys_as_it_says():
    is_visible = ~SlidingWindowMask.of(3).dense(6)[:, :, 0]
    assert is_visible.sum(axis=1).tolist() == [1, 2, 3, 3, 3, 3]
    assert not np.triu(is_visible, 1).any()
