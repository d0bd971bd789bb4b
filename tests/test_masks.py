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
)

lengths_strategy = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(
    q_len=st.integers(1, 6),
    key_len=st.none() | st.integers(1, 8),
    offset=st.none() | st.integers(-9, 9),
    diagonal=st.booleans(),
)
def test_causal_mask_element_by_element(backend, q_len, key_len, offset, diagonal):
    mask = create_causal_mask(
        q_len,
        key_len=key_len,
        offset=offset,
        mask_diagonal=diagonal,
        xp=backend.xp,
        device=backend.device,
    )
    keys = q_len if key_len is None else key_len
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
    np.testing.assert_array_equal(create_causal_mask(new, key_len=past + new), full[past:])
    np.testing.assert_array_equal(
        create_causal_mask(new, offset=past, key_len=past + new), full[past:]
    )


@given(lengths=lengths_strategy, side=st.sampled_from(["left", "right"]), first=st.booleans())
def test_padding_mask_element_by_element(backend, lengths, side, first):
    for given_lengths in (backend.array(lengths), backend.array(lengths, "uint8")):
        mask = create_padding_mask(given_lengths, 6, side=side, batch_first=first)
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
    both = backend.numpy(combine_masks(None, causal, None, padding))
    assert both.shape == (5, 5, 2)
    np.testing.assert_array_equal(both, backend.numpy(causal) | backend.numpy(padding))
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
