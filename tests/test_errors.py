"""Wrong inputs of pictures, mixed libraries, and the messages of their errors."""

import re
from dataclasses import replace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import plotting
from wrong_inputs import make_test

VALUE_ERRORS = {
    "plotting.plot_encoding(zeros((4, 3, 2)))": "`encoding` must have shape (features, positions), got shape (4, 3, 2).",
    "plotting.plot_encoding(zeros((4, 0)))": "`encoding` must not be empty, got shape (4, 0).",
    "plotting.plot_mask(zeros((2, 1, 4, 3), bool))": "`key_axis` must be given for a mask of 4 axes, 1 for (query, key, ...), -1 for (..., query, key), got shape (2, 1, 4, 3).",
    "plotting.plot_mask(zeros((4, 3, 2), bool), batch=2)": "`batch` must be below 2, the batch of `mask`, got 2.",
    "plotting.plot_bias(zeros((1, 8, 4, 3)))": "`bias` must have shape (query, key) or (query, key, heads), got shape (1, 8, 4, 3).",
    "plotting.plot_bias(zeros((4, 3, 8)), head=8)": "`head` must be below 8, the heads of `bias`, got 8.",
    "plotting.plot_bias(zeros((4, 3, 8)), head=-1)": "`head` must be a non-negative integer, got -1.",
}
TYPE_ERRORS = {
    "plotting.plot_encoding(zeros((4, 3), complex))": "`encoding` must have an integer or real dtype, got complex128.",
    "plotting.plot_mask(zeros((4, 3)))": "`mask` must have a boolean dtype, True where a query may not attend, got float64.",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, plotting=plotting)


def test_mixed_libraries():
    strict = pytest.importorskip("array_api_strict")
    x, y = np.zeros((64, 3)), strict.zeros((64, 3))
    message = "`x` and `positions` must come from one array library, got numpy.ndarray for `x`, array_api_strict.Array for `positions`."
    with pytest.raises(TypeError, match="^" + re.escape(message) + "$"):
        pe.RoPE(64, 10)(x, positions=strict.zeros(3))
    with pytest.raises(TypeError, match=r"`q`, `k` and `v` must come from one array library"):
        pe.scaled_dot_product_attention(x, y, y)
    with pytest.raises(TypeError, match=r"`masks\[0\]` and `masks\[1\]` must come from one"):
        pe.combine_masks(np.zeros(2, dtype=bool), strict.zeros(2, dtype=strict.bool))
    mha = pe.RoPEMultiHeadAttention(8, 2, 10, rng=0)
    with pytest.raises(TypeError, match=r"`x` and `Wq` must come from one array library"):
        mha(strict.zeros((8, 3, 1)))
    with pytest.raises(TypeError, match=r"`Wq`, `Wk`, `Wv` and `Wo` must come from one"):
        replace(mha, Wo=strict.zeros((8, 8)))
