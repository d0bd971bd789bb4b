"""Grid-cell encodings against loops from the paper, and against the program of its authors."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import grid_cell_encoding

RNG = np.random.default_rng(0)
WAVELENGTHS = [0.75, 3, 100.0]
POINTS = RNG.uniform(-50, 50, (2, 6))


def directions(kind):
    """Theorem 1 of Mai et al. (2020), and the coordinates themselves."""
    half, high = mpmath.mpf(1) / 2, mpmath.sqrt(3) / 2
    return [(1, 0), (-half, high), (-half, -high)] if kind == "theory" else [(1, 0), (0, 1)]


def sinusoids(x, y, wavelengths, kind, digits):
    """Section 4: sine and cosine of each direction at each scale."""
    with mpmath.workdps(digits):
        features = []
        for length in wavelengths:
            for a, b in directions(kind):
                angle = 2 * mpmath.pi * (a * mpmath.mpf(x) + b * mpmath.mpf(y)) / length
                features += [float(mpmath.sin(angle)), float(mpmath.cos(angle))]
        return features


def by_loops(points, wavelengths, kind, digits=60):
    out = np.zeros((len(directions(kind)) * 2 * len(wavelengths), *points.shape[1:]))
    for place in product(*map(range, points.shape[1:])):
        x, y = (points[(c, *place)].item() for c in range(2))
        out[(slice(None), *place)] = sinusoids(x, y, wavelengths, kind, digits)
    return out


def authors(points, lambda_min, lambda_max, scales, kind):
    """The formulas of gengchenmai/space2vec: angles without 2 pi, sines first, in its order."""
    step = math.log(lambda_max / lambda_min) / (scales - 1)
    frequencies = 1 / (lambda_min * np.exp(np.arange(scales) * step))
    if kind == "grid":
        angles = points[:, None] * frequencies[:, None]  # (coordinate, scale, point)
    else:
        vectors = np.asarray([[1.0, 0.0], [-0.5, math.sqrt(3) / 2], [-0.5, -math.sqrt(3) / 2]])
        angles = frequencies[:, None, None] * (vectors @ points)  # (scale, direction, point)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2)


@pytest.mark.parametrize("kind", ["theory", "grid"])
@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_against_the_paper(backend, kind, shape):
    points = (
        np.broadcast_to(POINTS[:, :1], (2, 1)).reshape(2)
        if shape == ()
        else POINTS.reshape(2, *shape)
    )
    points = backend.array(points)
    got = grid_cell_encoding(points, WAVELENGTHS, kind=kind)
    expected = by_loops(backend.numpy(points), WAVELENGTHS, kind)
    assert got.shape == expected.shape
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


@pytest.mark.parametrize("kind", ["theory", "grid"])
def test_against_the_authors(kind):
    """With the paper's lambda_min g ** (s / (S - 1)) times 2 pi, and features in their order."""
    lambda_min, lambda_max, scales = 0.5, 200, 5
    g = lambda_max / lambda_min
    wavelengths = [2 * math.pi * lambda_min * g ** (s / (scales - 1)) for s in range(scales)]
    got = grid_cell_encoding(POINTS, wavelengths, kind=kind)
    ours = got.reshape(scales, -1, 2, 6)  # (scale, direction, sine and cosine, point)
    theirs = authors(POINTS, lambda_min, lambda_max, scales, kind)
    if kind == "grid":
        theirs = np.moveaxis(theirs, 0, 1)
    np.testing.assert_allclose(ours, theirs, atol=2e-13)


@pytest.mark.parametrize("kind", ["theory", "grid"])
def test_far_points_are_exact(kind):
    """Steps of float64 are a millionth there; the angles of the floats are exact."""
    points = np.asarray([[4.0e9 + 0.123, -7.7e9], [1.5e9 + 1 / 3, 9.9e9 + 0.7]])
    got = grid_cell_encoding(points, [0.1, 12.5], kind=kind)
    np.testing.assert_allclose(got, by_loops(points, [0.1, 12.5], kind), rtol=0, atol=2.3e-16)
    whole = np.asarray([[2**40, -3], [5, 2**50 + 1]])
    got = grid_cell_encoding(whole, [0.1, 12.5], kind=kind)
    np.testing.assert_allclose(got, by_loops(whole, [0.1, 12.5], kind), rtol=0, atol=2.3e-16)


@pytest.mark.parametrize("kind", ["theory", "grid"])
def test_the_shortest_and_the_longest_wavelength_are_still_exact(kind):
    whole = np.asarray([[2**60 + 2**20, 2**63 - 1], [-(2**62) + 3, 2**63 - 5]])
    wavelengths = [2.0**-64 * 1.37, 2.0**100]
    expected = by_loops(whole, wavelengths, kind, digits=80)
    got = grid_cell_encoding(whole, wavelengths, kind=kind)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15)


def test_one_wavelength_is_a_list_of_it():
    for kind in ("theory", "grid"):
        expected = grid_cell_encoding(POINTS, [3.0], kind=kind)
        for wavelengths in (3, 3.0, np.float32(3)):
            got = grid_cell_encoding(POINTS, wavelengths, kind=kind)
            np.testing.assert_array_equal(got, expected)


@given(
    shift=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
    kind=st.sampled_from(["theory", "grid"]),
)
def test_scalar_products_depend_on_differences(shift, kind):
    moved = POINTS + np.asarray(shift)[:, None]
    a, b = (grid_cell_encoding(p, WAVELENGTHS, kind=kind) for p in (POINTS, moved))
    np.testing.assert_allclose(a.T @ a, b.T @ b, atol=1e-10)


def test_the_sum_of_the_directions_is_hexagonal():
    """It is the same after 60 degrees, and after a step of the lattice, 2 / sqrt(3) wavelengths."""

    def sums(points):
        return grid_cell_encoding(points, [3])[1::2].sum(axis=0)

    c, s = 0.5, math.sqrt(3) / 2
    np.testing.assert_allclose(
        sums(np.asarray([[c, -s], [s, c]]) @ POINTS), sums(POINTS), atol=1e-12
    )
    step = np.asarray([0, 3 * 2 / math.sqrt(3)])
    np.testing.assert_allclose(sums(POINTS + step[:, None]), sums(POINTS), atol=1e-12)


def test_dtypes_and_wavelengths_as_an_array(backend):
    xp = backend.xp
    points = backend.array(POINTS, "float32")
    got = grid_cell_encoding(points, np.asarray(WAVELENGTHS))
    assert got.dtype == xp.float32
    listed = grid_cell_encoding(points, tuple(WAVELENGTHS))
    np.testing.assert_array_equal(backend.numpy(got), backend.numpy(listed))
    assert grid_cell_encoding(backend.array(POINTS), [2], dtype=xp.float32).dtype == xp.float32
    whole = backend.array(np.asarray([[1, -2], [3, 40]]))
    default = xp.__array_namespace_info__().default_dtypes(device=backend.device)["real floating"]
    assert grid_cell_encoding(whole, [2]).dtype == default
    for dtype in () if backend.lazy else backend.half_dtypes:
        assert grid_cell_encoding(xp.astype(points, dtype), [2]).dtype == dtype


def test_nan_gives_nan(backend):
    points = backend.array([[np.nan, 1.0, 1.0], [1.0, np.inf, 1.0]])
    for kind in ("theory", "grid"):
        got = np.isnan(backend.numpy(grid_cell_encoding(points, [2, 5], kind=kind)))
        assert got[:, :2].any(axis=0).all()
        assert not got[:, 2].any()


@pytest.mark.library("torch")
def test_gradients():
    """Of cosines, sines: by finite differences."""
    import torch

    for kind in ("theory", "grid"):
        points = torch.tensor(POINTS, requires_grad=True)
        assert torch.autograd.gradcheck(
            lambda p, k=kind: grid_cell_encoding(p, [3, 9], kind=k), points
        )
