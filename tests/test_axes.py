"""With four axes or more every layer and function asks for the axes of features and sequence."""

import inspect
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import oracles
import positional_embeddings as pe

lazy_xp_modules = [pe]

# Both usual layouts: their axes, and the order in which they have those of X.
LAYOUTS = {
    "(batch, heads, seq, head)": ({"feature_axis": -1, "seq_axis": -2}, (0, 1, 2, 3)),
    "(head, seq, heads, batch)": ({"feature_axis": 0, "seq_axis": 1}, (3, 2, 1, 0)),
}
BATCH, HEADS, SEQ, HEAD = SHAPE = (2, 3, 5, 8)
X, K, V = np.random.default_rng(0).standard_normal((3, *SHAPE))
TABLE = np.random.default_rng(1).standard_normal((HEAD, SEQ))
ANGLES = np.asarray([[place * 10.0**-pair for place in range(SEQ)] for pair in range(HEAD // 2)])
COS, SIN = np.cos(ANGLES).T[None, None], np.sin(ANGLES).T[None, None]  # with the axes of X
LLAMA = {"model_type": "llama", "hidden_size": HEAD, "num_attention_heads": 1}
LLAMA |= {"num_hidden_layers": 1, "max_position_embeddings": SEQ, "rope_theta": 10_000}
# A model that does not rotate.
STILL = {"model_type": "gpt2", "n_embd": HEADS * HEAD, "n_head": HEADS, "n_layer": 1}


def rotated():
    expected = np.empty(SHAPE)
    for *at, place, pair in np.ndindex(BATCH, HEADS, SEQ, HEAD // 2):
        a, b = X[(*at, place, pair)], X[(*at, place, pair + HEAD // 2)]
        c, s = math.cos(ANGLES[pair, place]), math.sin(ANGLES[pair, place])
        expected[(*at, place, pair)] = a * c - b * s
        expected[(*at, place, pair + HEAD // 2)] = b * c + a * s
    return expected


def encoded(vector):
    """Return X with the numbers of a function from position and feature."""
    expected = np.empty(SHAPE)
    for at in np.ndindex(SHAPE):
        expected[at] = X[at] + vector(*at[2:])
    return expected


def vector_of_table(place, feature):
    return TABLE[feature, place]


def sinusoid(place, feature):
    return oracles.sinusoid(place, HEAD)[feature]


def summed():
    """Return the gradient of the table: the sum of X over batch and heads."""
    total = np.zeros((HEAD, SEQ))
    for batch, head, place, feature in np.ndindex(SHAPE):
        total[feature, place] += X[batch, head, place, feature]
    return total


def causal_weights(q=X, k=K):
    shape, size = q.shape[:-1], q.shape[-1]
    expected = np.zeros((*shape, k.shape[-2]))
    for *at, i in np.ndindex(shape):
        keys = range(i + 1)
        scores = [sum(q[(*at, i)] * k[(*at, j)]) / math.sqrt(size) for j in keys]
        powers = [math.exp(score - max(scores)) for score in scores]
        expected[(*at, i, slice(i + 1))] = [power / sum(powers) for power in powers]
    return expected


def attended(q=X, k=K, v=V):
    weights, expected = causal_weights(q, k), np.zeros(q.shape)
    for *at, i, j in np.ndindex(weights.shape):
        expected[(*at, i)] += weights[(*at, i, j)] * v[(*at, j)]
    return expected


def moved(array, order):
    """Give the axes of an array like X the order of a layout; tables and positions stay."""
    return np.permute_dims(array, order) if array.ndim == 4 else array


# By name, and method: a call with arrays in a layout, which `a` moves there, and what it returns.
CASES = {
    "AbsolutePE": (
        lambda a, axes: pe.AbsolutePE(HEAD, 9, **axes)(a(X)),
        encoded(sinusoid),
    ),
    "AbsolutePE.encoding": (
        lambda a, axes: a(X) + pe.AbsolutePE(HEAD, 9, **axes).encoding(a(X)),
        encoded(sinusoid),
    ),
    "AttentionLayer": (
        lambda a, axes: pe.AttentionLayer(HEADS, HEAD, mask=pe.CausalMask(), **axes)(
            a(X), a(K), a(V)
        ),
        attended(),
    ),
    "LearnedPE": (
        lambda a, axes: pe.LearnedPE(HEAD, SEQ, embeddings=a(TABLE), **axes)(a(X)),
        encoded(vector_of_table),
    ),
    "LearnedPE.encoding": (
        lambda a, axes: a(X) + pe.LearnedPE(HEAD, SEQ, embeddings=a(TABLE), **axes).encoding(a(X)),
        encoded(vector_of_table),
    ),
    "LearnedPE.vjp": (
        lambda a, axes: pe.LearnedPE(HEAD, SEQ, embeddings=a(TABLE), **axes).vjp(a(X))[1],
        summed(),
    ),
    "RoPE": (lambda a, axes: pe.RoPE(HEAD, 9, **axes)(a(X)), rotated()),
    "RoPE.from_hf_config": (
        lambda a, axes: pe.RoPE.from_hf_config(LLAMA, **axes)(a(X)),
        rotated(),
    ),
    "RoPE.layers_from_hf_config": (
        lambda a, axes: pe.RoPE.layers_from_hf_config(LLAMA, **axes)[0](a(X)),
        rotated(),
    ),
    "RoPE.shift": (
        lambda a, axes: pe.RoPE(HEAD, 9, **axes).shift(a(X), a(np.arange(SEQ))),
        rotated(),
    ),
    "RoPE.tables": (
        lambda a, axes: pe.RoPE(HEAD, 9, **axes).tables(a(np.arange(SEQ)), dtype=a(X).dtype)(a(X)),
        rotated(),
    ),
    "add_positional_encoding": (
        lambda a, axes: pe.add_positional_encoding(a(X), a(TABLE), **axes),
        encoded(vector_of_table),
    ),
    "add_positional_encoding_vjp": (
        lambda a, axes: pe.add_positional_encoding_vjp(a(X), a(TABLE), **axes)[1],
        summed(),
    ),
    "attention_layers": (
        lambda a, axes: pe.attention_layers(STILL, **axes)[0](a(X), a(K), a(V)),
        attended(),
    ),
    "apply_rope": (
        lambda a, axes: pe.apply_rope(a(X), a(COS), a(SIN), **axes),
        rotated(),
    ),
    "attention_weights": (
        lambda a, axes: pe.attention_weights(a(X), a(K), mask=pe.CausalMask(), **axes),
        causal_weights(),
    ),
    "scaled_dot_product_attention": (
        lambda a, axes: pe.scaled_dot_product_attention(
            a(X), a(K), a(V), mask=pe.CausalMask(), **axes
        ),
        attended(),
    ),
}


def options_of(name):
    """Return the axes that a public name takes, and their defaults."""
    parameters = inspect.signature(getattr(pe, name)).parameters
    return {n: parameters[n].default for n in ("feature_axis", "seq_axis") if n in parameters}


def axes_for(case, axes):
    """Return those of some axes that a case takes."""
    return {name: axes[name] for name in options_of(case.partition(".")[0]) if name in axes}


@pytest.mark.complete
def test_cases_are_of_all_public_names_that_take_axes():
    callables = [name for name in pe.__all__ if callable(getattr(pe, name))]
    found = {name: options_of(name) for name in callables}
    # The buffers of a cache have the axes of the cache, and positions have no features.
    others = {"KVCache", "sinusoidal_encoding"}
    of_features = {name for name in found if "feature_axis" in found[name]} - others
    assert of_features == {case.partition(".")[0] for case in CASES}
    assert {default for name in of_features for default in found[name].values()} == {None}
    # These take arrays of at most two axes.
    alone = {name for name in found if list(found[name]) == ["seq_axis"]}
    assert alone == {"positions_from_mask", "positions_from_segment_ids"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_axes_that_are_given(backend, case, layout):
    (call, expected), (axes, order) = CASES[case], LAYOUTS[layout]
    got = call(lambda x: backend.array(moved(x, order)), axes_for(case, axes))
    if case == "attention_weights" and axes["feature_axis"] == 0:
        order = (2, 3, 1, 0)  # (query, key, heads, batch)
    atol = 10 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), moved(expected, order), rtol=0, atol=atol)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ndim", [4, 5])
@pytest.mark.parametrize("case", CASES)
def test_axes_that_are_left_out(case, ndim, layout):
    (call, _), (axes, order) = CASES[case], LAYOUTS[layout]
    axes, further = axes_for(case, axes), (None,) * (ndim - 4)
    makes = inspect.isclass(getattr(pe, case.partition(".")[0])) or case == "attention_layers"
    verb = "Make the layer with" if makes else "Pass"
    usual = [
        f"{', '.join(f'{n}={axis}' for n, axis in axes_for(case, own).items())} for {name}"
        for name, (own, _) in LAYOUTS.items()
    ]
    start = f"`{'` and `'.join(axes)}` must be given for `"
    end = f"{verb} {usual[0]}, or {usual[1]}."
    for missing in ({*axes}, *({name} for name in axes)):
        given = {name: axis for name, axis in axes.items() if name not in missing}
        for _ in range(2):  # the second time by what may be known of the first
            with pytest.raises(ValueError, match=f"of {ndim} axes, got shape") as caught:
                call(lambda x: moved(x, order)[(*further, ...)] if x.ndim == 4 else x, given)
            assert str(caught.value).startswith(start)
            assert str(caught.value).endswith(end)


@pytest.mark.parametrize("case", CASES)
def test_the_first_two_of_three_axes(case):
    """As they are without another word: (head, seq, heads)."""
    call, _ = CASES[case]

    def first(x):
        return np.permute_dims(x[0], (2, 1, 0)) if x.ndim == 4 else x

    axes = axes_for(case, {"feature_axis": 0, "seq_axis": 1})
    expected = call(first, axes)
    for given in ({}, *({name: axis} for name, axis in axes.items())):
        np.testing.assert_array_equal(call(first, given), expected)


def test_an_encoding_in_the_layout_of_the_features_needs_no_axes():
    for axes, order in LAYOUTS.values():
        x = np.permute_dims(X, order)
        layer = pe.LearnedPE(HEAD, SEQ, embeddings=TABLE, **axes)
        encoding = layer.encoding(x)
        expected = moved(encoded(vector_of_table), order)
        got = pe.add_positional_encoding(x, encoding)
        np.testing.assert_allclose(got, expected, atol=1e-12)
        _, gradient = pe.add_positional_encoding_vjp(x, encoding)
        assert gradient.shape == encoding.shape
        np.testing.assert_allclose(np.sum(gradient), np.sum(X), atol=1e-12)


def test_attention_of_arrays_as_torch_has_them():
    """Read with features and sequence first, this was wrong by 4.5, without a word."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 6, 8))
    with pytest.raises(ValueError, match=r"`feature_axis` and `seq_axis` must be given for `q`"):
        pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask())
    axes = {"feature_axis": -1, "seq_axis": -2}
    got = pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask(), **axes)
    np.testing.assert_allclose(got, attended(q, k, v), atol=1e-12)


def test_a_batch_of_as_many_as_a_head_has_features():
    """The batch was rotated by the numbers of heads, without a word."""
    x = np.random.default_rng(0).standard_normal((64, 2, 3, 64))  # (batch, heads, seq, head)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"must be given for `x` of 4 axes, got shape \(64"):
            pe.RoPE(64, 4096)(x)
    expected = np.empty_like(x)
    for place, pair in np.ndindex(3, 32):
        angle = place * 10_000 ** (-pair / 32)
        a, b = x[..., place, pair], x[..., place, pair + 32]
        expected[..., place, pair] = a * math.cos(angle) - b * math.sin(angle)
        expected[..., place, pair + 32] = b * math.cos(angle) + a * math.sin(angle)
    got = pe.RoPE(64, 4096, feature_axis=-1, seq_axis=-2)(x)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("layer", [pe.RoPE(8, 9), pe.AbsolutePE(8, 9), pe.LearnedPE(8, 9, rng=0)])
def test_a_layer_without_axes_is_a_value(layer):
    assert layer.feature_axis is layer.seq_axis is None
    for twin in (pickle.loads(pickle.dumps(layer)), eval(repr(layer), vars(pe))):
        assert (twin, hash(twin), repr(twin)) == (layer, hash(layer), repr(layer))
    first = replace(layer, feature_axis=0, seq_axis=1)
    assert (first.feature_axis, first.seq_axis) == (0, 1)
    assert first != layer
    assert first(np.ones((8, 3, 2, 2))).shape == (8, 3, 2, 2)
    again = replace(first, feature_axis=None, seq_axis=None)
    assert again == layer
    with pytest.raises(ValueError, match="must be given for `x` of 4 axes"):
        again(np.ones((8, 3, 2, 2)))


def test_tables_of_a_rope_without_axes_have_the_pairs_first():
    assert pe.RoPE(8, 9).tables(range(5)).cos.shape == (4, 5)
    assert pe.RoPE(8, 9, feature_axis=-1).tables(range(5)).cos.shape == (5, 4)
    assert pe.RoPE(8, 9, seq_axis=-2).tables(range(5)).cos.shape == (4, 5)
