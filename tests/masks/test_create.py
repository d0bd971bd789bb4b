"""Mask arrays against plain rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import (
    combine_masks,
    create_causal_mask,
    create_padding_mask,
    fully_masked_rows,
    mask_to_bias,
    scaled_dot_product_attention,
)
from positional_embeddings.arrays.dispatch import get_backend

lengths_strategy = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(
    q_len=st.integers(1, 6),
    k_len=st.none() | st.integers(1, 8),
    offset=st.none() | st.integers(-9, 9),
    diagonal=st.booleans(),
)
def test_causal_mask_element_by_element(backend, q_len, k_len, offset, diagonal):
    mask = create_causal_mask(
        q_len,
        k_len=k_len,
        offset=offset,
        mask_diagonal=diagonal,
        xp=backend.xp,
        device=backend.device,
    )
    keys = q_len if k_len is None else k_len
    start = keys - q_len if offset is None else offset
    got = backend.numpy(mask)
    assert got.dtype == bool
    assert got.shape == (q_len, keys, 1)
    for i in range(q_len):
        for j in range(keys):
            assert got[i, j, 0] == (j > i + start or (diagonal and j == i + start))


def test_the_seeds_causal_mask_to_the_bit():
    mask = create_causal_mask(3, mask_diagonal=True)
    np.testing.assert_array_equal(mask[:, :, 0], [[1, 1, 1], [0, 1, 1], [0, 0, 1]])


@given(past=st.integers(0, 5), new=st.integers(1, 4))
def test_cached_keys_see_the_tail_of_the_full_mask(past, new):
    full = create_causal_mask(past + new)
    np.testing.assert_array_equal(create_causal_mask(new, k_len=past + new), full[past:])
    np.testing.assert_array_equal(
        create_causal_mask(new, offset=past, k_len=past + new), full[past:]
    )


@given(lengths=lengths_strategy, side=st.sampled_from(["left", "right"]), first=st.booleans())
def test_padding_mask_element_by_element(backend, lengths, side, first):
    for array in (backend.array(lengths), backend.array(lengths, "uint8")):
        mask = create_padding_mask(array, 6, side=side, batch_first=first)
        got = backend.numpy(mask)
        assert got.dtype == bool
        assert got.shape == ((len(lengths), 6, 1) if first else (1, 6, len(lengths)))
        for b, length in enumerate(lengths):
            real = range(length) if side == "right" else range(6 - length, 6)
            for j in range(6):
                assert (got[b, j, 0] if first else got[0, j, b]) == (j not in real)


def test_padding_mask_of_a_list_or_tuple(backend):
    for lengths in ([2, 3], (2, np.int16(3))):
        mask = create_padding_mask(lengths, 4, xp=backend.xp, device=backend.device)
        np.testing.assert_array_equal(
            backend.numpy(mask)[0], [[False, False], [False, False], [True, False], [True, True]]
        )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_narrow_lengths_do_not_wrap(backend, dtype):
    if dtype == "uint64" and not backend.has_int64:
        dtype = "uint32"
    got = backend.numpy(create_padding_mask(backend.array([100, 7], dtype), 300))
    np.testing.assert_array_equal((~got).sum(axis=1), [[100, 7]])


def test_causal_and_padding_combine(backend):
    causal = create_causal_mask(5, xp=backend.xp, device=backend.device)
    padding = create_padding_mask(backend.array([3, 4]), 5)
    mask = backend.numpy(combine_masks(None, causal, None, padding))
    assert mask.shape == (5, 5, 2)
    np.testing.assert_array_equal(mask, backend.numpy(causal) | backend.numpy(padding))
    np.testing.assert_array_equal(backend.numpy(combine_masks(causal)), backend.numpy(causal))


def test_no_masks_combine_to_none():
    assert combine_masks() is None
    assert combine_masks(None, None) is None


def test_mask_to_bias(backend):
    mask = backend.array([[True, False], [False, True]])
    bias = mask_to_bias(mask)
    default = backend.xp.__array_namespace_info__().default_dtypes(device=backend.device)
    assert bias.dtype == default["real floating"]
    for dtype in (backend.xp.float32, *backend.half_dtypes):
        bias = mask_to_bias(mask, dtype)
        assert bias.dtype == dtype
        np.testing.assert_array_equal(
            backend.numpy(bias).astype("float64"), [[-np.inf, 0], [0, -np.inf]]
        )


def test_fully_masked_rows(backend):
    mask = np.asarray([[[True, True], [True, False]], [[False, True], [True, True]]])
    np.testing.assert_array_equal(
        backend.numpy(fully_masked_rows(backend.array(mask))), [[True, False], [False, True]]
    )
    np.testing.assert_array_equal(
        backend.numpy(fully_masked_rows(backend.array(mask), key_axis=-1)),
        [[True, False], [False, True]],
    )
    for key_axis in (1, -1):  # of four axes
        got = fully_masked_rows(backend.array(mask[..., None]), key_axis=key_axis)
        np.testing.assert_array_equal(backend.numpy(got), mask[..., None].all(axis=key_axis))


@given(order=st.permutations(range(4)))
def test_a_mask_of_two_axes_is_of_queries_and_keys(backend, order):
    """The batch size equals the number of queries: the last axes alone are ambiguous."""
    rng = np.random.default_rng(0)
    pairs, all_keys = rng.random((4, 4)) < 0.5, np.zeros((4, 1), dtype=bool)
    batched, padding = rng.random((4, 4, 4)) < 0.3, create_padding_mask([4, 3, 2, 1], 4)
    masks = [pairs, all_keys, batched, padding]
    got = backend.numpy(combine_masks(*(backend.array(masks[i]) for i in order)))
    expected = [
        [[pairs[q, k] or batched[q, k, b] or k >= 4 - b for b in range(4)] for k in range(4)]
        for q in range(4)
    ]
    np.testing.assert_array_equal(got, expected)


def test_own_mask_hides_from_queries_in_an_attention(backend):
    rng = np.random.default_rng(0)
    q, k, v = (backend.array(x) for x in rng.standard_normal((3, 2, 4, 4)))
    pairs = np.asarray([[i < j or (i, j) == (3, 0) for j in range(4)] for i in range(4)])
    causal = create_causal_mask(4, xp=backend.xp, device=backend.device)
    mask = combine_masks(causal, backend.array(pairs))
    got = scaled_dot_product_attention(q, k, v, mask=mask)
    expected = scaled_dot_product_attention(q, k, v, mask=backend.array(pairs))
    np.testing.assert_array_equal(backend.numpy(mask)[..., 0], pairs)
    np.testing.assert_array_equal(backend.numpy(got), backend.numpy(expected))


def test_masks_of_as_many_axes_line_up(backend):
    leading, heads = np.asarray([[[[True]]], [[[False]]]]), np.eye(3, dtype=bool)[None, :, None, :]
    got = combine_masks(backend.array(leading), backend.array(heads))
    np.testing.assert_array_equal(backend.numpy(got), leading | heads)
    row = backend.array([True, False])
    np.testing.assert_array_equal(backend.numpy(combine_masks(row, row)), [True, False])


def test_other_orders_of_axes_are_refused():
    """The remedies in the documentation give the intended mask."""
    causal = create_causal_mask(4)
    padding = create_padding_mask([2, 4], 4)
    attention_mask = np.asarray([[1, 1, 0, 0], [1, 1, 1, 1]])
    for mask in (attention_mask == 0, padding[0]):
        with pytest.raises(ValueError, match=r"as \(query, key\) and \(query, key, batch\)"):
            combine_masks(causal, mask)
    for remedy in ((attention_mask == 0).T[None], padding[0][None]):
        np.testing.assert_array_equal(combine_masks(causal, remedy), causal | padding)
    short = create_causal_mask(4, k_len=3)
    keys_first = (np.arange(12).reshape(4, 3) % 5 == 0).T
    with pytest.raises(ValueError, match=r"as \(query, key\) and \(query, key, batch\)"):
        combine_masks(short, keys_first)
    remedy = combine_masks(short, keys_first.T)
    np.testing.assert_array_equal(remedy[..., 0], short[..., 0] | keys_first.T)


@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.parametrize("lengths", [(3, 5), (5, 5)])
def test_scores_of_another_layout_are_moved(kind, lengths):
    rng = np.random.default_rng(0)
    queries, keys = lengths
    q = rng.standard_normal((2, queries, 4, 6))  # (head, query, heads, batch)
    k, v = rng.standard_normal((2, 2, keys, 4, 6))
    array = rng.standard_normal((6, 4, queries, keys))  # (batch, heads, query, key)
    array = array < 0 if kind == "mask" else array
    axes = {"feature_axis": 0, "seq_axis": 1}
    with pytest.raises(ValueError, match="queries on axis 0, keys on axis 1"):
        scaled_dot_product_attention(q, k, v, **{kind: array}, **axes)
    remedy = np.permute_dims(array, (2, 3, 1, 0))
    got = scaled_dot_product_attention(q, k, v, **{kind: remedy}, **axes)
    moved = (np.permute_dims(x, (3, 2, 1, 0)) for x in (q, k, v))
    expected = scaled_dot_product_attention(*moved, **{kind: array}, feature_axis=-1, seq_axis=-2)
    np.testing.assert_allclose(got, np.permute_dims(expected, (3, 2, 1, 0)), atol=1e-14)


def test_mask_of_this_library_in_another_layout():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 4, 5, 3))  # (batch, heads, seq, head)
    mask = create_padding_mask([2, 5], 5) | create_causal_mask(5)
    layout = {"feature_axis": -1, "seq_axis": -2}
    with pytest.raises(ValueError, match="queries on axis 2, keys on axis 3"):
        scaled_dot_product_attention(q, k, v, mask=mask, **layout)
    remedy = np.permute_dims(mask, (2, 0, 1))[:, None]
    got = scaled_dot_product_attention(q, k, v, mask=remedy, **layout)
    moved = (np.permute_dims(x, (3, 2, 1, 0)) for x in (q, k, v))
    axes = {"feature_axis": 0, "seq_axis": 1}
    expected = scaled_dot_product_attention(*moved, mask=mask[:, :, None, :], **axes)
    np.testing.assert_allclose(got, np.permute_dims(expected, (3, 2, 1, 0)), atol=1e-14)


def test_lengths_above_are_found_where_values_can_be_read(backend):
    lengths = backend.array([9, 2])
    if not (backend.reads_values and get_backend(lengths=lengths).is_on_host(lengths)):
        # Values in a dask array, in a trace and on a device are not checked: no key is hidden.
        mask = create_padding_mask(lengths, 4)
        np.testing.assert_array_equal(backend.numpy(mask)[0, :, 0], [False] * 4)
        return
    with pytest.raises(
        ValueError, match="`lengths` must be between 0 and the number of keys = 4, got"
    ):
        create_padding_mask(lengths, 4)
