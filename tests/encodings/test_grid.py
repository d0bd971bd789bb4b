"""Encodings of grids against plain loops, and against the package positional-encodings."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import grid_encoding, grid_positions, sinusoidal_encoding

SHAPES = [(7,), (3, 5), (2, 3, 4)]


def encoded(shape, dim, base=10_000):
    """Coordinate after coordinate, each interleaved; cut after `dim` features."""
    channels = 2 * math.ceil(dim / (2 * len(shape)))
    out = np.zeros((dim, *shape))
    for point in product(*map(range, shape)):
        features = []
        for p in point:
            for i in range(0, channels, 2):
                angle = p / base ** (i / channels)
                features += [math.sin(angle), math.cos(angle)]
        out[(slice(None), *point)] = features[:dim]
    return out


@pytest.mark.parametrize(("shape", "dim"), [((7,), 5), ((3, 5), 8), ((2, 3, 4), 13)])
def test_against_loops(backend, shape, dim):
    got = grid_encoding(shape, dim, xp=backend.xp, device=backend.device)
    tolerance = backend.tolerance("float64" if "float64" in str(got.dtype) else "float32")
    np.testing.assert_allclose(backend.numpy(got), encoded(shape, dim), atol=tolerance)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    dim=st.integers(1, 20),
    base=st.sampled_from([10_000, 100.0]),
)
def test_every_shape_and_dim(shape, dim, base):
    got = grid_encoding(shape, dim, base=base)
    np.testing.assert_allclose(got, encoded(shape, dim, base), atol=1e-14)


@pytest.mark.library("positional_encodings", "torch")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [1, 2, 3, 6, 7, 8, 10, 12, 13, 32])
def test_against_positional_encodings(shape, dim):
    import positional_encodings.torch_encodings as library
    import torch

    peer = getattr(library, f"PositionalEncoding{len(shape)}D")(dim)
    expected = peer(torch.zeros((1, *shape, dim)))[0].numpy()
    got = grid_encoding(shape, dim)
    assert got.shape == (dim, *shape)
    np.testing.assert_allclose(np.moveaxis(got, 0, -1), expected, atol=2e-6)


def test_one_coordinate_is_the_encoding_of_a_sequence():
    np.testing.assert_array_equal(grid_encoding((9,), 8), sinusoidal_encoding(np.arange(9), 8))


def test_angles_far_from_the_corner_are_exact():
    got = grid_encoding((1, 2**20), 4)
    expected = [math.sin(2**20 - 1), math.cos(2**20 - 1)]
    np.testing.assert_allclose(got[2:, 0, -1], expected, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_coordinates_to_the_last_that_a_dtype_holds(dtype):
    got = grid_positions((128, 2), dtype=dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.asarray([*product(range(128), range(2))]).T)


def test_dtype_and_shape_as_an_array(backend):
    xp = backend.xp
    got = grid_encoding(np.asarray([2, 3]), 5, xp=xp, device=backend.device, dtype=xp.float32)
    assert got.dtype == xp.float32
    assert got.shape == (5, 2, 3)
    default = xp.__array_namespace_info__().default_dtypes(device=backend.device)["real floating"]
    assert grid_encoding((2,), 5, xp=xp, device=backend.device).dtype == default
