"""Masks: rule, array and key ranges agree, and masks combine, compare and print."""

import copy
import inspect
import pickle
import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import positional_embeddings as pe
from mask_strategies import BATCH, element_by_element, masks, one_mask
from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    NeighbourhoodMask,
    PaddingMask,
    PrefixMask,
    SegmentMask,
    SlidingWindowMask,
    combine_masks,
    describe_mask,
)
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.masks import mask as mask_module
from positional_embeddings.masks import position_blocks
from positional_embeddings.masks.index_ranges import index_ranges
from positional_embeddings.masks.mask import OrMask
from positional_embeddings.masks.position_blocks import (
    ImplicitPositions,
    PositionBlock,
    _in_small_integers,
)
from positional_embeddings.masks.ranges import (
    complement,
    count_positions,
    intersect,
    shift,
    unite,
    unite_arrays,
)
from samples import MASKS, Pair


@pytest.fixture(autouse=True, scope="module")
def _few_pairs_are_compared_as_many_are():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(position_blocks, "_MIN_PAIRS_TO_CONVERT", 1)
        yield


EXAMPLES = [
    CausalMask(),
    CausalMask(mask_diagonal=True),
    SlidingWindowMask(511, 0),
    SlidingWindowMask(None, 3),
    PaddingMask([3, 5]),
    PaddingMask(np.asarray([3, 5]), "left"),
    PrefixMask(2),
    PrefixMask([2, 4]),
    SegmentMask([0, 0, 1, -1]),
    SegmentMask([[0, 1], [0, 1]]),
    SegmentMask([1], key_ids=[0, 1]),
    ChunkedMask(8),
    DilatedMask(2),
    GlobalMask([0, 7]),
    NeighbourhoodMask((4, 6), 1),
    NeighbourhoodMask((4, 6), (1, 2)),
    CausalMask() | SlidingWindowMask(511, 0) | PaddingMask([3, 5]),
    CausalMask() | (SlidingWindowMask(255, 0) & GlobalMask([0, 1])),
    ~CausalMask(),
    ~(CausalMask() & ~ChunkedMask(4)),
    *(
        getattr(pe, kind)(**values)
        for kind, sample in MASKS.items()
        for values in sample.values
        if kind != "FunctionMask"  # its repr depends on the function
    ),
]
EXAMPLES = list(dict.fromkeys(EXAMPLES))


def contained(ranges, size):
    """Return, for each number below `size`, whether ranges contain it."""
    inside = np.zeros(size, dtype=bool)
    for start, stop in ranges:
        assert 0 <= start < stop <= size
        inside[start:stop] = True
    # Ascending, with gaps.
    assert list(ranges) == sorted(ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    return inside


@pytest.mark.parametrize("kind", MASKS)
@given(data=st.data(), n=st.integers(1, 9))
def test_rule_and_array_agree_for_each_kind(data, n, kind):
    mask, hides = data.draw(one_mask(n, None, kind))
    expected = element_by_element(hides, n, n, 0)
    dense = np.broadcast_to(mask.dense(n), expected.shape)
    np.testing.assert_array_equal(dense, expected)


@pytest.mark.parametrize("kind", MASKS)
def test_rule_of_the_sample_and_array_agree(kind):
    for values in MASKS[kind].values:
        dense = np.broadcast_to(getattr(pe, kind)(**values).dense(5), (5, 5, BATCH))
        rule = partial(MASKS[kind].hides, **values)
        expected = element_by_element(lambda i, j, b, rule=rule: rule(Pair(i, j, b, 5)), 5, 5, 0)
        np.testing.assert_array_equal(dense, expected)
        assert expected.any()
        assert not expected.all()


@given(data=st.data(), n=st.integers(1, 9))
def test_rule_and_array_agree(backend, data, n):
    q_len = data.draw(st.integers(1, n))
    offset = data.draw(st.none() | st.integers(0, n - q_len))
    mask, hides = data.draw(masks(n, backend))
    start = n - q_len if offset is None else offset
    expected = element_by_element(hides, q_len, n, start)

    options = {} if mask._arrays() else {"xp": backend.xp, "device": backend.device}
    dense = backend.numpy(mask.dense(q_len, n, offset=offset, **options))
    assert dense.dtype == bool
    assert dense.shape == (q_len, n, BATCH if dense.shape[2] == BATCH else 1)
    np.testing.assert_array_equal(np.broadcast_to(dense, expected.shape), expected)

    q_pos = backend.array(np.arange(start, start + q_len)[:, None])
    values = backend.numpy(mask(q_pos, backend.array(np.arange(n)[None, :]), k_len=n))
    values = values[..., None] if values.ndim == 2 else values
    np.testing.assert_array_equal(np.broadcast_to(values, expected.shape), expected)


@given(data=st.data(), n=st.integers(1, 12))
def test_key_ranges_never_lose_a_visible_key(data, n):
    mask, hides = data.draw(masks(n, depth=3))
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    is_visible = ~element_by_element(hides, stop - start, n, start)
    keys = mask._visible_keys(((start, stop),), n)
    assert keys.any_query == mask.key_ranges(start, stop, n)
    assert not (is_visible.any(axis=(0, 2)) & ~contained(keys.any_query, n)).any()
    assert is_visible.all(axis=(0, 2))[contained(keys.every_query, n)].all()


# Except masks with an entry for each position, and functions.
anywhere = sorted(MASKS.keys() - {"FunctionMask", "ListMask", "NeighbourhoodMask", "SegmentMask"})


@given(data=st.data(), n=st.integers(1, 6), q_len=st.integers(1, 9), start=st.integers(-9, 12))
def test_queries_may_be_before_and_after_the_keys(data, n, q_len, start):
    """There may be more queries than keys."""
    mask, hides = data.draw(masks(n, kinds=anywhere))
    expected = element_by_element(hides, q_len, n, start)
    dense = mask.dense(q_len, n, offset=start)
    np.testing.assert_array_equal(np.broadcast_to(dense, expected.shape), expected)
    keys = mask._visible_keys(((start, start + q_len),), n)
    assert not (~expected.all(axis=(0, 2)) & ~contained(keys.any_query, n)).any()
    assert not expected[:, contained(keys.every_query, n)].any()


single = sorted(name for name, sample in MASKS.items() if sample.is_tight)


@given(data=st.data(), n=st.integers(1, 12))
def test_key_ranges_of_a_single_rule_are_tight(data, n):
    mask, hides = data.draw(masks(n, kinds=single, depth=0))
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    is_visible = ~element_by_element(hides, stop - start, n, start)
    keys = mask._visible_keys(((start, stop),), n)
    np.testing.assert_array_equal(contained(keys.any_query, n), is_visible.any(axis=(0, 2)))
    np.testing.assert_array_equal(contained(keys.every_query, n), is_visible.all(axis=(0, 2)))


@given(data=st.data(), n=st.integers(1, 12))
def test_key_ranges_of_dilation_and_segments(data, n):
    """One range from the first to the last visible key, of each document or of all keys."""
    mask, hides = data.draw(masks(n, kinds=["DilatedMask", "SegmentMask"], depth=0))
    position = data.draw(st.integers(0, n - 1))
    visible = ~element_by_element(hides, 1, n, position)[0]
    expected = [(int(k[0]), int(k[-1]) + 1) for k in map(np.flatnonzero, visible.T) if len(k)]
    assert mask.key_ranges(position, position + 1, n) == unite(expected)


@pytest.mark.parametrize(
    "mask",
    [
        CausalMask(),
        CausalMask(mask_diagonal=True),
        SlidingWindowMask(128, 127),
        SlidingWindowMask(None, 3) & GlobalMask([5, 6, 7, 320, 399, 2000]),
        ~(SlidingWindowMask(0, 0) & GlobalMask([600])),
    ],
    ids=repr,
)
@pytest.mark.parametrize("queries", [(310, 311), (300, 320), (-9, 2)])
def test_keys_of_several_ranges_are_hidden_as_single_ones(mask, queries):
    q, ranges = np.arange(*queries), [(0, 2), (5, 6), (6, 8), (100, 400), (500, 501)]
    k = np.concat([np.arange(*pair) for pair in ranges])
    hidden = mask._block(
        index_ranges(queries), index_ranges(*ranges), ImplicitPositions(0, 501), get_backend(q=q)
    )
    assert np.array_equal(hidden[..., 0], mask(q[:, None], k[None, :]))


@pytest.mark.parametrize("shape", [(501,), (501, 2)])
def test_documents_of_keys_of_several_ranges(backend, shape):
    ids = np.random.default_rng(0).integers(-1, 3, shape)
    mask, array_backend = SegmentMask(ids), get_backend(q=backend.array([0]))
    for ranges in ([(0, 2), (100, 400)], [(0, 2), (5, 6), (100, 400)]):
        k = np.concat([np.arange(*pair) for pair in ranges])
        hidden = mask._block(
            index_ranges((310, 320)),
            index_ranges(*ranges),
            ImplicitPositions(0, 501),
            array_backend,
        )
        of_query, of_key = (ids.reshape(501, -1)[rows] for rows in (np.arange(310, 320), k))
        expected = (of_query[:, None] != of_key) | (of_query[:, None] < 0)
        np.testing.assert_array_equal(backend.numpy(hidden), expected)


def test_documents_of_positions_in_any_order(backend):
    ids, key_ids = np.asarray([[1, 0], [2, 2]]), np.asarray([[0, 0], [1, 0], [1, -1], [2, 2]])
    q_pos, k_pos = np.asarray([3, 2, 3]), np.asarray([2, 0, 3, 1])
    positions = (backend.array(q_pos[:, None]), backend.array(k_pos[None, :]))
    expected = ids[q_pos - 2][:, None] != key_ids[k_pos]
    hidden = SegmentMask(ids, key_ids)(*positions)
    np.testing.assert_array_equal(backend.numpy(hidden), expected)
    hidden = SegmentMask(ids[:, 1], key_ids[:, 1])(*positions)
    np.testing.assert_array_equal(backend.numpy(hidden), expected[..., 1])


def test_neighbours_are_told_apart_at_any_position():
    """Positions are compared as integers of 8 bits, relative to the first key."""
    for start in range(0, 300, 7):
        positions = np.arange(start, start + 50)
        hidden = (CausalMask() | SlidingWindowMask(3, 0))(positions[:, None], positions[None, :])
        distance = positions[:, None] - positions[None, :]
        np.testing.assert_array_equal(hidden, (distance < 0) | (distance > 3))


WINDOWS = [
    CausalMask(),
    CausalMask(mask_diagonal=True),
    SlidingWindowMask(0, 0),
    SlidingWindowMask(2, None),
    SlidingWindowMask(None, 3),
    SlidingWindowMask(None, None),
    SlidingWindowMask(2**70, 2**70),
]


@given(parts=st.lists(st.sampled_from([*WINDOWS, ChunkedMask(3)]), min_size=2, max_size=4))
def test_windows_that_are_joined_hide_what_they_hide_one_by_one(parts):
    positions = np.random.default_rng(0).permutation(12) * 3
    q, k = positions[:, None], positions[None, :]
    expected = np.zeros((12, 12), dtype=bool)
    for part in parts:
        expected |= part(q, k)
    np.testing.assert_array_equal(OrMask(tuple(parts))(q, k), expected)


def test_windows_that_are_joined_are_evaluated_once(monkeypatch):
    windows = []

    def window_mask(q, k, window):
        windows.append(window)
        return position_blocks.window_mask(q, k, window)

    monkeypatch.setattr(mask_module, "window_mask", window_mask)
    (CausalMask() | SlidingWindowMask(5, 2) | SlidingWindowMask(3, 8)).dense(4)
    assert windows == [(3, 0)]


def test_small_numbers_are_compared():
    def compared(q, k, ranges=None):
        k = PositionBlock(np.atleast_2d(k)[..., None], get_backend(k=k), None, ranges)
        return [(x.dtype, x.shape) for x in _in_small_integers(k, q[:, None, None])]

    queries = np.asarray([10**6, 10**6 + 1])
    for size, dtype in ((1, "uint8"), (254, "uint8"), (255, "uint16")):
        keys = np.arange(size) + 10**6
        expected = [(np.dtype(dtype), (1, size, 1)), (np.dtype(dtype), (2, 1, 1))]
        assert compared(queries, keys) == expected
        assert compared(queries, keys, ((10**6, 10**6 + size),)) == expected
        assert compared(queries, keys, ((0, 3), (10**6, 10**6 + size)))[0][0] == np.uint32
    # One query, separate keys of each query, or no key: unchanged.
    for q, k in ((queries[:1], keys), (queries, np.stack([keys, keys])), (queries, keys[:0])):
        assert {x[0] for x in compared(q, k)} == {np.dtype(np.int64)}


VISIBLE_KEYS = [
    (CausalMask(), (-3, 0), (), ()),
    (SlidingWindowMask(2, 3), (4, 6), ((2, 9),), ((3, 8),)),
    (SlidingWindowMask(None, None), (-3, -2), ((0, 20),), ((0, 20),)),
    (PaddingMask([2, 3], "left"), (0, 1), ((17, 20),), ((18, 20),)),
    (PrefixMask([1, 2]), (3, 5), ((0, 5),), ((0, 4),)),
    (GlobalMask([0, 2]), (5, 6), ((0, 1), (2, 3)), ((0, 1), (2, 3))),
    (GlobalMask([1, 0, 2, 5]), (6, 8), ((0, 3), (5, 6)), ((0, 3), (5, 6))),
    (ChunkedMask(2), (1, 3), ((0, 4),), ()),
    (ChunkedMask(2), (2, 4), ((2, 4),), ((2, 4),)),
    # A key in `every_query` is visible in all sequences.
    (SegmentMask([0, 7], [0, 0, 1, 1]), (2, 4), ((0, 2),), ()),
    (SegmentMask([7], [0, 0]), (1, 2), (), ()),
    (SegmentMask([[0, 7]], [[0, 0], [0, 0], [1, 1]]), (2, 3), ((0, 2),), ()),
    (SegmentMask([[0, 0]], [[0, 1], [0, 1]]), (1, 2), ((0, 2),), ()),
    (SegmentMask([0, 0], [0, 0, 0, 1]), (2, 4), ((0, 3),), ((0, 3),)),
]


@pytest.mark.parametrize(("mask", "queries", "any_query", "every_query"), VISIBLE_KEYS)
def test_keys_that_some_and_that_all_queries_see(mask, queries, any_query, every_query):
    assert mask.key_ranges(*queries, 20) == any_query
    assert mask._visible_keys((queries,), 20) == (any_query, every_query)


@pytest.mark.parametrize("batches", [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1)])
def test_key_ranges_of_a_batch_of_documents(batches):
    rng = np.random.default_rng(1)
    query, key = (rng.integers(-1, 4, (n, batch)) for n, batch in zip((3, 9), batches, strict=True))
    mask, batch = SegmentMask(query, key), max(batches)
    for i in range(3):
        visible = []
        for b in range(batch):
            document = query[i, b % batches[0]]
            keys = np.flatnonzero((key[:, b % batches[1]] == document) & (document >= 0))
            visible += [(int(keys[0]), int(keys[-1]) + 1)] if len(keys) else []
        assert mask.key_ranges(6 + i, 7 + i, 9) == unite(visible)


def test_key_ranges_of_documents_in_turn():
    mask = SegmentMask(np.arange(1000) % 3)
    ranges = [mask.key_ranges(q, q + 1, 1000) for q in range(3)]
    assert ranges == [((0, 1000),), ((1, 998),), ((2, 999),)]


@pytest.mark.parametrize("window", [(0, 0), (1, 0), (0, 1), (2, 1)])
def test_key_ranges_of_rows_of_a_grid(window):
    """Ranges are exact for queries in one row, and complete rows for queries in several."""
    shape = (5, 3)
    row, column = np.divmod(np.arange(15), 3)
    is_near = abs(row[:, None] - row) <= window[0]
    is_near &= abs(column[:, None] - column) <= window[1]
    mask = NeighbourhoodMask(shape, window)
    for start in range(15):
        for stop in range(start + 1, 16):
            expected = is_near[start:stop].any(axis=0)
            if row[start] != row[stop - 1]:
                expected = np.repeat(expected.reshape(shape).any(axis=1), 3)
            visible = contained(mask.key_ranges(start, stop, 15), 15)
            np.testing.assert_array_equal(visible, expected)


def test_lengths_that_the_host_does_not_know_may_be_0(backend):
    lengths = backend.array([0, 2])
    assert PaddingMask(lengths)._visible_keys(((0, 1),), 4).every_query == ()
    assert PrefixMask(lengths)._visible_keys(((-2, -1),), 4).every_query == ()


def test_key_ranges_of_a_window_with_global_tokens_stay_few():
    mask = CausalMask() | (SlidingWindowMask(255, 0) & GlobalMask([0, 1, 5000]))
    assert mask.key_ranges(9000, 9100, 65_536) == ((0, 2), (5000, 5001), (8745, 9100))
    assert mask.key_ranges(5000, 5001, 65_536) == ((0, 5001),)
    assert mask.key_ranges(10, 10, 65_536) == ()


@given(
    step=st.integers(1, 7), k_len=st.integers(1, 20), start=st.integers(-9, 25), n=st.integers(1, 9)
)
def test_key_ranges_of_dilation_end_at_keys_that_are_seen(step, k_len, start, n):
    queries = range(start, start + n)
    visible = [k for k in range(k_len) if any((k - q) % step == 0 for q in queries)]
    expected = ((visible[0], visible[-1] + 1),) if visible else ()
    assert DilatedMask(step).key_ranges(start, start + n, k_len) == expected


def test_key_ranges_do_not_go_through_queries_and_rows():
    """A loop would take minutes, or exceed the memory."""
    assert DilatedMask(10**10).key_ranges(0, 10**9, 10) == ((0, 10),)
    assert DilatedMask(10**10).key_ranges(5, 10**9, 10**10) == ((5, 10**9),)
    grid = NeighbourhoodMask((10**9, 10**9), 10**8)
    assert grid.key_ranges(0, 10, 100) == ((0, 100),)
    assert grid.key_ranges(10**9, 10**9 + 10, 10**9 + 5) == (
        (0, 10**8 + 10),
        (10**9, 10**9 + 5),
    )
    assert SegmentMask([0, 0, 1]).key_ranges(0, 10**5000, 10**5000) == ((0, 3),)
    assert SegmentMask([0, 0, 1])._visible_keys(((0, 2),), 10**5000) == (((0, 2),), ((0, 2),))
    assert NeighbourhoodMask((2,) * 40, 0).key_ranges(1, 2**40 - 1, 2**40) == ((0, 2**40),)
    # Many partly visible rows are one range.
    tall = NeighbourhoodMask((2**30, 4), (2**30, 1))
    assert tall.key_ranges(0, 1, 2**31) == ((0, 2**31),)
    assert tall.key_ranges(5, 6, 2**31 - 3) == ((0, 2**31 - 3),)
    assert NeighbourhoodMask((2**99, 4), (2**99, 0)).key_ranges(1, 2, 2**99) == ((0, 2**99),)
    assert len(NeighbourhoodMask((2**12, 4), (2**12, 1)).key_ranges(0, 1, 2**14)) == 2**12


@pytest.mark.parametrize(
    "make",
    [
        lambda: SegmentMask(np.arange(3 * 10**4)),
        lambda: SegmentMask(np.zeros((3, 10**4), dtype=int)),
        lambda: SegmentMask(np.arange(3 * 10**4).reshape(3, 10**4)),
        lambda: CausalMask() & GlobalMask(np.arange(3, 3 * 10**4)),
    ],
)
def test_key_ranges_do_not_go_through_tokens_documents_and_sequences(make):
    lines = 0

    def count(_, event, __):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        ranges = make().key_ranges(0, 3, 3 * 10**4)
    finally:
        sys.settrace(before)
    assert ranges[0][0] == 0
    assert lines < 1000


def test_key_ranges_read_no_device(backend):
    lengths = backend.array([2, 3])
    on_host = backend.name == "numpy"
    assert PaddingMask(lengths).key_ranges(0, 4, 8) == ((0, 3 if on_host else 8),)
    ids = backend.array([0, 0, 1, 1])
    assert SegmentMask(ids).key_ranges(0, 1, 4) == ((0, 2 if on_host else 4),)
    assert PrefixMask(lengths).key_ranges(0, 1, 8) == ((0, 3 if on_host else 8),)
    tokens = GlobalMask(lengths)
    assert tokens.key_ranges(0, 1, 8) == (((2, 4),) if on_host else ((0, 8),))
    # The ranges of the other mask are still used.
    assert (CausalMask() | PaddingMask(lengths)).key_ranges(0, 2, 8) == ((0, 2),)


def test_masks_of_the_host_serve_every_library(backend):
    mask = PaddingMask([1, 2]) | SegmentMask([0, 0, 1]) | GlobalMask([1])
    dense = mask.dense(3, xp=backend.xp, device=backend.device)
    np.testing.assert_array_equal(backend.numpy(dense), mask.dense(3))


def test_the_library_of_a_mask_is_that_of_its_arrays(backend):
    mask = PaddingMask(backend.array([1, 2])) | CausalMask()
    assert get_backend(mask=mask.dense(3)).xp is backend.xp
    assert get_backend(mask=mask.dense(3, xp=backend.xp)).xp is backend.xp
    if backend.name != "numpy":
        with pytest.raises(TypeError, match="lengths` is an array"):
            mask.dense(3, xp=np)
        with pytest.raises(TypeError, match="lengths` is an array"):
            mask.dense(3, device=backend.device)


def test_key_ranges_outside_of_a_grid():
    mask = NeighbourhoodMask((2, 2), 0)
    assert mask.key_ranges(4, 9, k_len=4) == ()
    assert mask.key_ranges(-3, 1, k_len=4) == ((0, 1),)
    np.testing.assert_array_equal(mask.dense(4)[..., 0], ~np.eye(4, dtype=bool))


def test_positions_may_be_numbers_of_any_kind(backend):
    assert CausalMask()(3, 4)
    assert not CausalMask()(np.int8(4), 3)
    assert backend.numpy(CausalMask()(np.asarray(3), backend.array([4]))).all()
    for key, expected in ((3, True), (4, False)):
        small = SlidingWindowMask(1, 0)(backend.array([5], "uint8"), key)
        np.testing.assert_array_equal(backend.numpy(small), [expected])
    padded = PaddingMask(backend.array([1, 3]))(0, 2)
    np.testing.assert_array_equal(backend.numpy(padded), [True, False])


def test_positions_outside_of_ids_and_grids_are_hidden(backend):
    far = backend.array([-1, 0, 4])
    for mask in (SegmentMask([0, 0, 0, 0]), NeighbourhoodMask((2, 2), 3)):
        hidden = backend.numpy(mask(far[:, None], far[None, :]))
        np.testing.assert_array_equal(hidden, [[True, True, True], [True, False, True], [True] * 3])


def test_segments_of_queries_are_the_last_positions(backend):
    """As with cached keys."""
    ids, key_ids = backend.array([1, 2]), backend.array([0, 1, 1, 2, 2])
    mask = SegmentMask(ids, key_ids)
    dense = backend.numpy(mask.dense(2, 5))
    np.testing.assert_array_equal(dense[:, :, 0], [[1, 0, 0, 1, 1], [1, 1, 1, 0, 0]])
    np.testing.assert_array_equal(dense, SegmentMask([0, 1, 1, 1, 2], [0, 1, 1, 2, 2]).dense(2, 5))
    mask = SegmentMask(np.asarray([1, 2]), np.asarray([0, 1, 1, 2, 2]))
    assert mask.key_ranges(3, 4, 5) == ((1, 3),)
    assert mask.key_ranges(0, 3, 5) == ()


@pytest.mark.parametrize("mask", EXAMPLES, ids=repr)
def test_masks_are_values(mask):
    again = eval(repr(mask), vars(pe))
    assert again == mask
    assert hash(again) == hash(mask)
    assert {mask: 1}[again] == 1
    for duplicate in (pickle.loads(pickle.dumps(mask)), copy.deepcopy(mask)):
        assert duplicate == mask
        assert repr(duplicate) == repr(mask)
        np.testing.assert_array_equal(duplicate(0, 1, k_len=9), mask(0, 1, k_len=9))
    assert sum(mask == other for other in EXAMPLES) == 1
    assert mask != "mask"


def test_how_masks_print():
    assert repr(PaddingMask(np.asarray([3, 5]), "left")) == "PaddingMask([3, 5], 'left')"
    assert repr(~(CausalMask() | ChunkedMask(2))) == "~(CausalMask() | ChunkedMask(2))"
    combined = (CausalMask() | ChunkedMask(2)) & DilatedMask(3)
    assert repr(combined) == "(CausalMask() | ChunkedMask(2)) & DilatedMask(3)"
    assert repr(SegmentMask(np.zeros(1000, dtype=int))) == f"SegmentMask({[0] * 1000})"
    large = SegmentMask(np.zeros(1001, dtype=int))
    assert repr(large) == "SegmentMask(<numpy.ndarray of shape (1001,)>)"

    def later(q_pos, k_pos):
        return k_pos > q_pos

    assert repr(FunctionMask(later)) == "FunctionMask(later)"
    for nameless in (lambda q_pos, k_pos: k_pos > q_pos, partial(later)):
        assert repr(FunctionMask(nameless)) == f"FunctionMask({nameless!r})"


def test_what_a_mask_derives_is_no_argument():
    for mask in EXAMPLES:
        assert not any(name.startswith("_") for name in inspect.signature(type(mask)).parameters)


def test_arrays_of_a_device_print_without_being_read(backend):
    mask = PaddingMask(backend.array([1, 2]))
    expected = "PaddingMask([1, 2])" if backend.name == "numpy" else "PaddingMask(<"
    assert repr(mask).startswith(expected)


def test_pictures_of_masks_that_do_not_depend_on_the_query(backend):
    for mask in (PaddingMask([2]), ~PaddingMask([1])):
        assert describe_mask(mask, 3) == describe_mask(mask.dense(3))
    padded = PaddingMask(backend.array([1, 2]))
    *lines, last = describe_mask(padded, 3, batch=1).splitlines()
    assert lines == describe_mask(PaddingMask([2]), 3).splitlines()[:-1]
    assert last == "# attends   . masked   (3 queries, 3 keys; sequence 1 of 2)"
    assert describe_mask(padded.dense(3), batch=1).splitlines() == [*lines, last]
    text = describe_mask(CausalMask() | SlidingWindowMask(1, 0), 10**6, max_size=4)
    assert text.splitlines()[-2:] == [
        "999999 .:#",
        "# attends   . masked   (1000000 queries, 1000000 keys)",
    ]


def test_numbers_that_the_library_does_not_hold(backend):
    for mask in (PaddingMask([2**40]), SegmentMask([2**40, 0]), GlobalMask([2**40])):
        position = backend.array([0])
        if backend.has_int64 and backend.name not in ("jax", "jax-jit"):
            assert mask(position, position).shape in ((1,), (1, 1))
        else:
            with pytest.raises(ValueError, match="hold numbers to 2147483647"):
                mask(position, position)
    if not backend.has_int64:
        with pytest.raises(ValueError, match="hold numbers to 2147483647"):
            SegmentMask([-(2**40), 0])(position, position)
    assert not backend.numpy(SegmentMask([2**31 - 1])(position, position)).any()


def test_memory_maps_and_narrow_integers_are_arrays_of_numpy(tmp_path):
    ids = np.memmap(tmp_path / "ids", dtype="int32", mode="w+", shape=4)
    ids[:] = [0, 0, 1, 1]
    mask = SegmentMask(ids)
    ids[:] = 0
    assert mask == SegmentMask([0, 0, 1, 1])
    assert eval(repr(mask), vars(pe)) == mask
    assert mask.key_ranges(0, 1, 4) == ((0, 2),)
    assert SegmentMask(range(2)) == SegmentMask([0, 1])
    assert not pickle.loads(pickle.dumps(mask)).ids.flags.writeable


def test_grids_larger_than_integers(backend):
    mask = NeighbourhoodMask((2, 2**70), (0, 2**71))
    dense = mask.dense(3, xp=backend.xp, device=backend.device)
    assert not backend.numpy(dense).any()
    tall = NeighbourhoodMask((3_000_000, 2), 2**60)
    assert tall.key_ranges(0, 1, 6_000_000) == ((0, 6_000_000),)


def test_masks_keep_what_they_were_given():
    """A later change of the array does not change the mask."""
    ids = np.asarray([0, 0, 1, 1])
    mask = SegmentMask(ids)
    ids[:] = 0
    assert mask == SegmentMask([0, 0, 1, 1])
    with pytest.raises(ValueError, match="read-only"):
        mask.ids[0] = 1


def test_operators():
    a, b, c = CausalMask(), ChunkedMask(2), DilatedMask(2)
    assert (a | b) | c == a | (b | c) == combine_masks(a, None, b, c)
    assert (a & b) & c == a & (b & c)
    assert ~~a == a
    assert combine_masks(a) == a
    assert a | b != b | a
    np.testing.assert_array_equal((~(a | b)).dense(4), (~a & ~b).dense(4))
    for array in (np.zeros((2, 2), dtype=bool), np.bool_(True)):
        for combine in (lambda array: a | array, lambda array: array & a):
            with pytest.raises(TypeError, match="combine"):
                combine(array)
    for wrong in (lambda: a and b, lambda: a or b, lambda: not a):
        with pytest.raises(
            TypeError, match=r"neither true nor false: combine masks by \|, & and ~"
        ):
            wrong()
    with pytest.raises(TypeError, match="unsupported operand"):
        a | 3


def test_batches_combine_where_they_are_one():
    causal, padded = CausalMask().dense(3), PaddingMask([1, 2]).dense(3)
    combined = PrefixMask([0]) | PaddingMask([1, 2])
    np.testing.assert_array_equal(combined.dense(3), causal | padded)
    # The batch of a function is checked in a call.
    later = FunctionMask(lambda q_pos, k_pos: k_pos > q_pos)
    np.testing.assert_array_equal((later | PaddingMask([1, 2])).dense(3), causal | padded)
    odd = np.asarray([False, True, False, True])
    batched = FunctionMask(lambda q_pos, k_pos: (k_pos > q_pos)[..., None] | odd)
    np.testing.assert_array_equal(batched.dense(3), causal | odd)
    np.testing.assert_array_equal(batched(1, np.arange(3)), (causal | odd)[1])
    np.testing.assert_array_equal(later(1, np.arange(3)), causal[1, :, 0])
    assert (CausalMask() | DilatedMask(2))._batch() == SegmentMask([0, 1])._batch() == 1
    for lengths in ([5] * 2, [5] * 6, [5] * 7):
        assert (later | PaddingMask(lengths))._batch() == len(lengths)


@pytest.mark.only_on("jax", "jax-x64", "jax-jit", "jax-jit-x64")
def test_masks_in_jit(backend):
    """Arrays of a mask may be traced, and a mask on the host is a static argument."""
    import jax

    lengths = backend.array([1, 3])
    traced = jax.jit(lambda lengths: (PaddingMask(lengths) | CausalMask()).dense(3))(lengths)
    np.testing.assert_array_equal(traced, (PaddingMask([1, 3]) | CausalMask()).dense(3))
    static = jax.jit(lambda mask, q_pos: mask(q_pos, 1), static_argnums=0)
    for mask in (CausalMask(), CausalMask(mask_diagonal=True), PaddingMask([1, 2])):
        np.testing.assert_array_equal(static(mask, backend.array(1)), mask(1, 1))


numbers = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4)


@given(numbers, numbers)
def test_ranges_are_sets_of_numbers(first, second):
    a, b = (unite((start, stop) for start, stop in pairs) for pairs in (first, second))
    of_a, of_b = contained(a, 9), contained(b, 9)
    np.testing.assert_array_equal(of_a, contained(unite(first), 9))
    for start, stop in first:
        assert of_a[start:stop].all()
    np.testing.assert_array_equal(contained(unite(a + b), 9), of_a | of_b)
    np.testing.assert_array_equal(contained(intersect(a, b), 9), of_a & of_b)
    np.testing.assert_array_equal(contained(complement(a, 9), 9), ~of_a)
    assert count_positions(a) == of_a.sum()
    np.testing.assert_array_equal(
        np.flatnonzero(contained(shift(a, 3), 12)) - 3, np.flatnonzero(of_a)
    )
    if pairs := [(start, stop - 1) for start, stop in first if start < stop]:
        assert unite_arrays(*np.asarray(pairs).T) == a


def test_lengths_are_not_read_while_pytorch_compiles(monkeypatch):
    """PyTorch would recompile for each value."""
    mask = PaddingMask([3, 9])
    with pytest.raises(ValueError, match="`lengths` must be between 0 and the number of keys = 4"):
        mask.dense(4)
    monkeypatch.setattr(NumPyBackend, "is_compiling", True)
    assert mask.dense(4).shape == (4, 4, 2)


@pytest.mark.parametrize(
    "mask", [PrefixMask(2), CausalMask() | ChunkedMask(2), NeighbourhoodMask((2, 3), 1)]
)
def test_an_array_of_positions_with_padding_on_the_left(mask):
    """As the error about a PaddingMask on the left says."""
    p = np.asarray([[-1, -1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]])
    hidden = mask(p[:, :, None], p[:, None, :]) | (p < 0)[:, None, :]
    np.testing.assert_array_equal(hidden[0, 2:, 2:], mask.dense(4)[:, :, 0])
    np.testing.assert_array_equal(hidden[1], mask.dense(6)[:, :, 0])
    assert hidden[0, :, :2].all()


def test_global_tokens_of_each_sequence():
    """As the error about `indices` of several sequences says."""
    g = np.zeros((6, 2), dtype=bool)
    g[0, 0] = g[3, 1] = True
    mask = SlidingWindowMask(1, 1) & FunctionMask(lambda q, k: ~(g[q] | g[k]))
    for i, token in enumerate((0, 3)):
        expected = (SlidingWindowMask(1, 1) & GlobalMask([token])).dense(6)
        np.testing.assert_array_equal(mask.dense(6)[:, :, [i]], expected)


def test_the_namespace_of_a_dense_mask(backend):
    dense = CausalMask().dense(2, xp=backend.xp, device=backend.device)
    assert get_backend(dense=dense).xp is backend.xp


FAR = {8: 2**61 - 1, 4: 2**29 - 1}  # a quarter of the largest integer, by its size in bytes

RULES = [
    (CausalMask(), lambda q, k: k > q),
    (CausalMask(mask_diagonal=True), lambda q, k: k >= q),
    (SlidingWindowMask(None, 10), lambda q, k: k > q + 10),
    (SlidingWindowMask(10, None), lambda q, k: k < q - 10),
    (SlidingWindowMask(2**70, 10), lambda q, k: k > q + 10),
    (SlidingWindowMask(2**61, 2**61), lambda q, k: abs(q - k) > 2**61),
    (ChunkedMask(10), lambda q, k: q // 10 != k // 10),
    (DilatedMask(3), lambda q, k: (q - k) % 3 > 0),
    (NeighbourhoodMask((2**31, 2**31), 1), None),
    (PaddingMask([5]), lambda _, k: k >= 5),
    (PaddingMask([5], "left"), lambda _, k: k < 2 - 5),
    (PrefixMask(5), lambda q, k: k > q and k >= 5),
    (SegmentMask([1]), lambda q, k: (q, k) != (0, 0)),
    (GlobalMask([5]), lambda q, k: 5 not in (q, k)),
    (FunctionMask(lambda q_pos, k_pos: k_pos - q_pos > 0), lambda q, k: k > q),
]


@pytest.mark.parametrize(("mask", "rule"), RULES)
def test_far_positions_are_exact_or_refused(backend, mask, rule):
    """Neither distances nor positions wrap around."""
    far = FAR[8 if backend.has_int64 else 4]
    edges = [-far, -far + 1, -5, 0, 5, far - 11, far - 1, far]
    if rule is not None:
        hidden = mask(backend.array(edges)[:, None], backend.array(edges)[None, :], k_len=2)
        expected = [[rule(q, k) for k in edges] for q in edges]
        np.testing.assert_array_equal(np.broadcast_to(backend.numpy(hidden), (8, 8)), expected)
    near = backend.array([5])
    requirement = rf"must hold positions within {far}, so that int\d+ holds all distances, got "
    for beyond in (far + 1, -far - 1, 2**31 * far, 2**63, 2**64 - 1, 2**100):
        with pytest.raises(ValueError, match=f"^`k_pos` {requirement}{beyond}"):
            mask(near, beyond, k_len=2)
        with pytest.raises(ValueError, match=f"^`q_pos` {requirement}{beyond}"):
            mask(beyond, near, k_len=2)
    with pytest.raises(ValueError, match=rf"^`k_len` must be at most {far}, so that"):
        mask(near, near, k_len=far + 1)
    unsigned = "uint64" if backend.has_int64 else "uint32"
    if not (
        backend.reads_values
        and get_backend(near=near).is_on_host(near)
        and hasattr(backend.xp, unsigned)
    ):
        return
    max_value = 2 ** (64 if backend.has_int64 else 32) - 1
    for array in (
        backend.array(np.asarray([5, max_value], dtype=unsigned)),
        backend.array(np.asarray([5, far + 1])),
    ):
        with pytest.raises(ValueError, match=f"^`k_pos` {requirement}"):
            mask(near, array, k_len=2)


class OwnMask(pe.Mask):
    """A subclass of a user, without a rule."""

    def __init__(self):
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda mask: mask(0, 1),
        lambda mask: mask.dense(3),
        lambda mask: (~mask | pe.CausalMask()).dense(3),
        lambda mask: pe.describe_mask(mask, 3),
        lambda mask: pe.scaled_dot_product_attention(*np.ones((3, 4, 3, 2)), mask=mask),
    ],
)
def test_masks_without_a_rule(call):
    message = r"^`OwnMask` has no rule of its own: pass yours as FunctionMask\(function\)\.$"
    with pytest.raises(TypeError, match=message):
        call(OwnMask())
