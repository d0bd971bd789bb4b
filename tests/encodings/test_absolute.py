"""Absolute encodings of sequences against the formula of the paper."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import AbsolutePE, add_positional_encoding, sinusoidal_encoding

arrangements = st.sampled_from(["interleaved", "concatenated"])


@given(
    positions=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6),
    dim=st.integers(1, 9),
    base=st.sampled_from([7.5, 100, 10_000]),
    arrangement=arrangements,
)
def test_encoding_is_the_papers(backend, positions, dim, base, arrangement):
    array = backend.array(np.asarray(positions)[None, :, None], "float64")
    got = sinusoidal_encoding(array, dim, base=base, arrangement=arrangement)
    expected = [oracles.sinusoid(p, dim, base, arrangement) for p in positions]
    assert tuple(got.shape) == (dim, 1, len(positions), 1)
    tolerance = 3 * backend.tolerance()
    np.testing.assert_allclose(
        backend.numpy(got)[:, 0, :, 0], np.asarray(expected).T, atol=tolerance
    )


def test_features_on_another_axis(backend):
    positions = backend.array(np.arange(6).reshape(2, 3))
    expected = backend.numpy(sinusoidal_encoding(positions, 5))
    for axis in (0, 1, 2, -1, -3):
        got = backend.numpy(sinusoidal_encoding(positions, 5, feature_axis=axis))
        np.testing.assert_array_equal(got, np.moveaxis(expected, 0, axis))


def test_encoding_of_no_axes_and_of_no_positions(backend):
    scalar = sinusoidal_encoding(backend.array(3), 4)
    np.testing.assert_allclose(
        backend.numpy(scalar), oracles.sinusoid(3, 4), atol=backend.tolerance("float32")
    )
    assert tuple(sinusoidal_encoding(backend.array(np.zeros(0)), 5).shape) == (5, 0)


def test_dtype_of_an_encoding(backend):
    xp = backend.xp
    integers = backend.array(np.arange(4))
    default = xp.__array_namespace_info__().default_dtypes(device=backend.device)["real floating"]
    assert sinusoidal_encoding(integers, 4).dtype == default
    assert sinusoidal_encoding(integers, 4, dtype=xp.float32).dtype == xp.float32
    assert sinusoidal_encoding(xp.astype(integers, xp.float32), 4).dtype == xp.float32
    for half in backend.half_dtypes:
        got = sinusoidal_encoding(integers, 4, dtype=half)
        assert got.dtype == half
        np.testing.assert_allclose(
            backend.numpy(got).astype("float32"),
            np.transpose([oracles.sinusoid(p, 4) for p in range(4)]),
            atol=4e-3,
        )


@given(
    dim=st.integers(1, 7),
    seq=st.integers(1, 5),
    arrangement=arrangements,
    axes=st.sampled_from([(0, 1), (1, 0), (-1, -2), (2, 1), (0, 2)]),
)
def test_layer_adds_the_encoding(backend, dim, seq, arrangement, axes):
    feature, seq_axis = axes
    x = np.random.default_rng(0).standard_normal((dim, seq, 2))
    layer = AbsolutePE(
        dim, 8, 100, arrangement=arrangement, feature_axis=feature, seq_axis=seq_axis
    )
    got = backend.numpy(layer(backend.array(np.moveaxis(x, (0, 1), axes)), offset=3))
    encoding = [oracles.sinusoid(p + 3, dim, 100, arrangement) for p in range(seq)]
    expected = x + np.transpose(encoding)[:, :, None]
    np.testing.assert_allclose(np.moveaxis(got, axes, (0, 1)), expected, atol=backend.tolerance())


def test_layer_takes_positions(backend):
    x = np.zeros((6, 3, 2))
    positions = np.asarray([[0.5, -2.25], [1e3, 4], [7, 7]])
    got = AbsolutePE(6, 1)(backend.array(x), positions=backend.array(positions))
    expected = [[oracles.sinusoid(p, 6) for p in row] for row in positions]
    np.testing.assert_allclose(
        backend.numpy(got), np.moveaxis(expected, -1, 0), atol=backend.tolerance()
    )


def test_half_precision_is_added_in_float32(backend):
    for dtype in backend.half_dtypes:
        x = backend.array(np.full((4, 3, 1), 0.3), dtype)
        got = AbsolutePE(4, 3)(x)
        assert got.dtype == dtype
        wide = AbsolutePE(4, 3)(backend.xp.astype(x, backend.xp.float32))
        np.testing.assert_array_equal(
            backend.numpy(got).astype("float32"),
            backend.numpy(backend.xp.astype(wide, dtype)).astype("float32"),
        )


def test_embeddings_are_the_table():
    layer = AbsolutePE(5, 7, arrangement="concatenated")
    expected = np.transpose([oracles.sinusoid(p, 5, arrangement="concatenated") for p in range(7)])
    np.testing.assert_allclose(layer.embeddings, expected, atol=1e-14)
    assert layer.embeddings.dtype == "float64"
    with pytest.raises(ValueError, match="read-only"):
        layer.embeddings[0, 0] = 1


def test_seed_layout():
    x = np.zeros((100, 512, 32), dtype="float32")
    got = AbsolutePE(512, 1000, feature_axis=1, seq_axis=0)(x)
    np.testing.assert_allclose(got[7, :, 3], oracles.sinusoid(7, 512), atol=1e-6)


def test_layer_is_a_value():
    layer = AbsolutePE(9, 20, base=100, arrangement="concatenated", feature_axis=2, seq_axis=1)
    layer(np.zeros((2, 10, 9)))
    twins = (
        eval(repr(layer)),
        pickle.loads(pickle.dumps(layer)),
        copy.copy(layer),
        copy.deepcopy(layer),
    )
    for twin in twins:
        assert twin == layer
        assert hash(twin) == hash(layer)
        np.testing.assert_array_equal(twin.embeddings, layer.embeddings)
    assert AbsolutePE(9, 20) != layer
    with pytest.raises(AttributeError, match="cannot assign"):
        layer.base = 10


@pytest.mark.parametrize(("feature", "seq"), [(0, 1), (-1, -2), (1, 0)])
@pytest.mark.parametrize("size", [7, 8])
def test_an_encoding_made_once(backend, feature, seq, size):
    """`encoding` equals the encoding that a call adds."""
    pe = AbsolutePE(size, 50, feature_axis=feature, seq_axis=seq)
    shape = {0: (size, 3, 2), -1: (2, 3, size), 1: (3, size, 2)}[feature]
    batch = {0: (3, 2), -1: (2, 3), 1: (3, 2)}[feature]
    x = backend.array(np.random.default_rng(0).standard_normal(shape))
    for where in (
        {},
        {"offset": 5},
        {"positions": backend.array([4, 0, 49])},
        {"positions": backend.array([0.5, -3.0, 90.0])},
        {"positions": backend.array(np.arange(6).reshape(batch))},
    ):
        encoding = pe.encoding(x, **where)
        assert encoding.ndim == 3
        added = add_positional_encoding(x, encoding, feature_axis=feature, seq_axis=seq)
        expected = backend.numpy(pe(x, **where))
        np.testing.assert_allclose(backend.numpy(added), expected, atol=backend.tolerance())
    encoding = backend.numpy(pe.encoding(x, offset=5))
    wanted = pe.embeddings[:, 5:8]
    expanded = {0: wanted[:, :, None], -1: wanted.T[None], 1: wanted.T[:, :, None]}[feature]
    np.testing.assert_allclose(encoding, expanded, atol=backend.tolerance())
    if backend.name in ("numpy", "torch", "cupy") or backend.name.startswith("strict"):
        own = pe.encoding(x, offset=5)
        own[...] = backend.array(7.0)
        np.testing.assert_array_equal(backend.numpy(pe.encoding(x, offset=5)), encoding)
