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
    "plotting.plot_encoding(ones((2, 3)), coordinates=ones(2))": "`coordinates` must have shape (3,), one for each column of `encoding`, got (2,).",
    "plotting.plot_encoding(ones((2, 3)), coordinates=np.asarray([0.0, 2.0, 2.0]))": "`coordinates` must increase, got a step of 0 to index 2.",
    "plotting.plot_encoding(ones((2, 1)), coordinates=np.asarray([np.nan]))": "`coordinates` must hold finite numbers, got one that is not.",
    "plotting.plot_attention(ones(3))": "`table` must have axes of queries and keys, got shape (3,).",
    "plotting.plot_attention(ones((2, 3, 4, 5)))": "`key_axis` must be given for `table` of 4 axes, 1 for (query, key, ...), -1 for (..., query, key), got shape (2, 3, 4, 5).",
    "plotting.plot_attention(-ones((2, 3)))": '`table` must be from 0 to 1, got numbers from -1 to -1. Pass kind="bias" for a bias.',
    "plotting.plot_attention(zeros((4, 3, 0)))": "`table` must not be empty, got shape (4, 3, 0).",
    "plotting.plot_attention(ones((2, 3)), index=(0, 0))": "`index` must have at most one number for each further axis of `table` (0), got 2 numbers.",
    "plotting.plot_attention(ones((2, 3)), kind='mask')": "`kind` must be 'weights' or 'bias', got 'mask'.",
    "plotting.plot_attention(ones((2, 3, 4)), index=4)": "`index[0]` must be below 4, got 4.",
    "plotting.plot_attention(ones((2, 3, 4)), index=(1, 1))": "`index` must have at most one number for each further axis of `table` (1), got 2 numbers.",
    "plotting.plot_rope_decay({})": "`ropes` must not be empty, got no RoPE.",
    "plotting.plot_kernel(FourierFeatures(ones((2, 3))), 1.0)": "`features` must have one coordinate or two, got 3 coordinates.",
    "plotting.plot_similarity(ones(3))": "`encoding` must have shape (features, positions), got shape (3,).",
    "plotting.plot_similarity(zeros((2, 3)))": "`encoding` must hold finite numbers, not all of them zero, at each position, got a largest number of 0.0 at position 0.",
    "plotting.plot_similarity(np.asarray([[1.0, np.nan]]))": "`encoding` must hold finite numbers, not all of them zero, at each position, got a largest number of nan at position 1.",
    "plotting.plot_similarity(ones((2, 1)), coordinates=(91 * ones(1), ones(1)), reference=0)": "`coordinates[0]` must be latitudes from -90 to 90 degrees, before longitudes, got 91.0.",
}
TYPE_ERRORS = {
    "plotting.plot_attention(ALiBiBias, 8)": "`table` must be an array, a `Mask` or a `Bias`, such as CausalMask() or ALiBiBias(8), got <class 'positional_embeddings.biases.alibi.ALiBiBias'>.",
    "plotting.plot_attention(CausalMask(), 3, key_axis=1)": "`key_axis` must be left out where `table` is a `Mask` or a `Bias`, got 1.",
    "plotting.plot_attention(ALiBiBias(8))": "`q_len` must be a positive integer, got None of type NoneType.",
    "plotting.plot_attention(ones((2, 2)), offset=1)": "`offset` must be left out where `table` is an array, got 1.",
    "plotting.plot_kernel(ones(3), 1.0)": "`features` must be FourierFeatures or a kernel, such as AttentionRegressor().fit(X, y).kernel_, got numpy.ndarray.",
    "plotting.plot_wavelengths(3)": "`ropes` must be a RoPE, or a mapping of labels to RoPEs, got int.",
    'plotting.plot_wavelengths({"a": 3})': "`ropes` must be a RoPE, or a mapping of labels to RoPEs, got int at 'a'.",
    "plotting.plot_similarity(ones((2, 1)), coordinates=(ones(1), ones(1)))": "`reference` must be given for a map, got None.",
    "plotting.plot_similarity(ones((2, 1)), coordinates=(ones(1),), reference=0)": "`coordinates` must be an array, or the pair of latitudes and longitudes, got 1 thing.",
}
# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "plotting.plot_attention(zeros((2, 1, 4, 3), bool))": "key_axis",
    "plotting.plot_attention(zeros((4, 3, 2), bool), index=2)": "index[0]",
    "plotting.plot_attention(zeros((4, 3, 8)), kind='bias', index=-1)": "index[0]",
    "plotting.plot_attention(ALiBiBias(8), 4, index=8)": "index[0]",
    "plotting.plot_attention(zeros((0, 3)))": "table",
    "plotting.plot_attention(8)": "table",
    "plotting.plot_attention(zeros((2, 3), complex))": "table",
    "plotting.plot_attention(np.asarray([[0.5, np.nan]]))": "table",
    "plotting.plot_attention(np.asarray([['a', 'b']]))": "table",
    "plotting.plot_attention(ones((2, 3)), key_axis=2)": "key_axis",
    "plotting.plot_rope_decay(RoPE(8, 9), max_distance=0)": "max_distance",
    "plotting.plot_kernel(FourierFeatures([1.0]), 0.0)": "reach",
    "plotting.plot_similarity(ones((2, 3)), reference=3)": "reference",
    "plotting.plot_attention(CausalMask, 8)": "table",
    "plotting.plot_encoding(zeros((4, 3), complex))": "encoding",
    "plotting.plot_attention(CausalMask())": "q_len",
    "plotting.plot_attention(zeros((2, 2), bool), 2)": "q_len",
    "plotting.plot_attention(ones((2, 2)), index=0.5)": "index[0]",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED, plotting=plotting)


def test_mixed_libraries():
    import array_api_strict as strict

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
