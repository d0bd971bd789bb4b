"""Keys and values that are not finite: one rule, on each way to compute."""

import numpy as np
import pytest

from positional_embeddings import (
    CausalMask,
    FunctionMask,
    PaddingMask,
    SlidingWindowMask,
    attention_weights,
    scaled_dot_product_attention,
)

AXES = {"feature_axis": -1, "seq_axis": -2}
SIZE = 4
WRONG = [np.nan, np.inf, -np.inf]
# Masks that let each query see the last two keys of four, or all.
LAST_TWO = CausalMask() | SlidingWindowMask(1, 0)
ALL = CausalMask() | SlidingWindowMask(9, 0)


def as_given(form, mask, backend):
    """Return the options that hide the same keys in several forms."""
    dense = mask.dense(1, SIZE)[..., 0]
    return {
        "mask": {"mask": mask},
        "function": {"mask": FunctionMask(mask.__call__)},
        "array": {"mask": backend.array(dense)},
        "bias": {"bias": backend.array(np.where(dense, -np.inf, 0.0), "float32")},
    }[form]


@pytest.mark.parametrize("block_size", [None, 1, 3])
@pytest.mark.parametrize("form", ["mask", "function", "array", "bias"])
@pytest.mark.parametrize("mask", [LAST_TWO, ALL], ids=["last two", "all"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_query_that_sees_what_is_not_finite_is_nan(backend, wrong, mask, form, block_size):
    """And one that does not see it is not, whichever way the mask is given and met."""
    rng = np.random.default_rng(0)
    for place in range(SIZE):
        for array in "kv":
            q, k, v = (rng.standard_normal((1, n, 2)) for n in (1, SIZE, SIZE))
            (k if array == "k" else v)[0, place, 0] = wrong
            arrays = [backend.array(x, "float32") for x in (q, k, v)]
            options = {**as_given(form, mask, backend), **AXES}
            got = scaled_dot_product_attention(*arrays, block_size=block_size, **options)
            is_seen = not mask(SIZE - 1, place)
            assert np.isnan(backend.numpy(got)).all() == is_seen
            assert np.isfinite(backend.numpy(got)).all() == (not is_seen)
            if array == "k":
                weights = backend.numpy(attention_weights(*arrays[:2], **options))
                assert np.isnan(weights).any() == is_seen


@pytest.mark.parametrize("block_size", [None, 1, 2])
def test_a_visible_key_of_minus_infinity(backend, block_size):
    """A mask that hides nothing is a mask, and gives NaN; without one the plain formula decides."""
    q, k, v = np.ones((1, 1)), np.asarray([[-np.inf, 1.0, 1.0]]), np.asarray([[1.0, 3.0, 4.0]])
    arrays = [backend.array(x, "float32") for x in (q, k, v)]
    mask = CausalMask() | SlidingWindowMask(2, 0)
    for given in (mask, backend.array(mask.dense(1, 3)[..., 0]), PaddingMask([3])):
        got = scaled_dot_product_attention(*arrays, mask=given, block_size=block_size)
        assert np.isnan(backend.numpy(got)).all()
    got = scaled_dot_product_attention(*arrays, block_size=block_size)
    np.testing.assert_allclose(backend.numpy(got), [[3.5]])
