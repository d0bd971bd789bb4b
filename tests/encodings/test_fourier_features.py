"""Fourier features: laws, equality to other encodings, and decoding."""

import copy
import pickle
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from positional_embeddings import (
    FourierFeatures,
    fourier_encoding,
    grid_cell_encoding,
    random_fourier_encoding,
    sinusoidal_encoding,
)
from positional_embeddings.encodings import decoding, fourier_features

RNG = np.random.default_rng(0)
SCALES, ORIENTATIONS = [1.0, 1.7, 2.9, 5.0], [0.0, 0.2, 0.5, 0.9]
OFFSETS = RNG.uniform(-1, 1, (4, 2))

# Features of numbers, or of points with two coordinates; with weights, phases and arrangements.
FEATURES = {
    "sinusoidal": FourierFeatures.sinusoidal(32, 1000),
    "octaves": FourierFeatures.octaves(6, longest=8.0),
    "wavelengths": replace(
        FourierFeatures.from_wavelengths([0.7, 3, 11.5]), phases=0.3, cos_first=True
    ),
    "random": FourierFeatures.random(2, 64, length_scale=[0.5, 1.0], rng=0),
    "matern": replace(
        FourierFeatures.random(2, 64, kernel="matern", nu=2.5, orthogonal=True, rng=1),
        arrangement="concatenated",
    ),
    "cauchy": replace(
        FourierFeatures.random(2, 64, kernel="cauchy", rng=2), phases=RNG.uniform(-9, 9, 32)
    ),
    "hexagonal": FourierFeatures.hexagonal(SCALES, ORIENTATIONS, offsets=OFFSETS),
    "weighted": FourierFeatures(
        RNG.uniform(-3, 3, (9, 2)),
        weights=RNG.uniform(0.5, 2, 9),
        phases=RNG.uniform(-3, 3, 9),
        arrangement="concatenated",
        cos_first=True,
    ),
    "line": FourierFeatures([1.0, 0.3, -2.0, 0.0], weights=[1, 0.5, 2, 1]),
}
NAMES = st.sampled_from([*FEATURES])
# A grid of 1/8, on which sums are exact, also in float32.
PLACES = st.integers(-400, 400).map(lambda n: n / 8)


def points_of(features, numbers):
    """Return points (coordinates, n), or (n,), of a flat list of numbers."""
    table = np.asarray(numbers).reshape(2, -1)
    return table if features.frequencies.ndim == 2 else table[0]


def by_loops(features, point):
    """The formula, wave by wave, in 60 digits."""
    table = features.frequencies.reshape(len(features.frequencies), -1)
    weights = np.broadcast_to(features.weights, len(table)).tolist()
    phases = np.broadcast_to(features.phases, len(table)).tolist()
    digits = features.digits if isinstance(features.digits, tuple) else (features.digits,)
    sinusoids = list(zip(*(text.split() for text in digits), strict=True))
    sines, cosines = [], []
    with mpmath.workdps(60):
        for wave, weight, phase in zip(sinusoids, weights, phases, strict=True):
            cycles = (mpmath.mpf(c) * mpmath.mpf(x) for c, x in zip(wave, point, strict=True))
            angle = 2 * mpmath.pi * mpmath.fsum(cycles) + mpmath.mpf(phase)
            size = mpmath.sqrt(mpmath.mpf(weight))
            sines.append(float(size * mpmath.sin(angle)))
            cosines.append(float(size * mpmath.cos(angle)))
    first, second = (cosines, sines) if features.cos_first else (sines, cosines)
    if features.arrangement == "concatenated":
        return first + second
    return [value for pair in zip(first, second, strict=True) for value in pair]


def largest(features):
    return float(np.sqrt(np.max(features.weights)))


def bound(backend, features, times=1.0):
    """Return the maximum error of a feature, and a bound for a number of roundings."""
    eps = 2.0**-53 if backend.wide == "float64" else 2.0**-24
    return times * largest(features) * (4.5 * eps + 2 * backend.sine_error)


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("scale", [1, 1e6, 1e15])
def test_encodings_are_exact_however_far(backend, name, scale):
    features = FEATURES[name]
    real = np.random.default_rng(1).uniform(-scale, scale, 8)
    for numbers in (real, np.rint(real).astype("int64" if scale < 2**31 else "float64")):
        points = points_of(features, numbers)
        array = backend.array(points if scale < 2**31 else points.astype(backend.wide))
        points = backend.numpy(array)
        got = features.encode(array, dtype=getattr(backend.xp, backend.wide))
        columns = points.reshape(-1, points.shape[-1]).T.tolist()
        expected = np.transpose([by_loops(features, column) for column in columns])
        np.testing.assert_allclose(
            backend.numpy(got), expected, rtol=0, atol=bound(backend, features)
        )


@given(name=NAMES, numbers=st.lists(PLACES, min_size=8, max_size=8), by=st.tuples(PLACES, PLACES))
def test_shift_moves_points(backend, name, numbers, by):
    features = FEATURES[name]
    points, far = points_of(features, numbers), points_of(features, by)[..., 0]
    encoded = features.encode(backend.array(points))
    moved = features.encode(backend.array(points + far[..., None]))
    limit = bound(backend, features, 2)
    for one in (backend.array(far), far.tolist()):
        got = backend.numpy(features.shift(encoded, one))
        np.testing.assert_allclose(got, backend.numpy(moved), rtol=0, atol=limit)
        back = backend.numpy(features.unshift(moved, one))
        np.testing.assert_allclose(back, backend.numpy(encoded), rtol=0, atol=limit)
    # Shifts by the difference to the last point.
    each = features.unshift(encoded, backend.array(points - points[..., -1:]))
    same = np.broadcast_to(backend.numpy(encoded)[:, -1:], encoded.shape)
    np.testing.assert_allclose(backend.numpy(each), same, rtol=0, atol=limit)


@given(name=NAMES, numbers=st.lists(PLACES, min_size=16, max_size=16))
def test_bind_adds_points(backend, name, numbers):
    features = FEATURES[name]
    points = points_of(features, numbers)
    n = points.shape[-1] // 2
    first, second = points[..., :n], points[..., n:]
    a, b = (features.encode(backend.array(x)) for x in (first, second))
    limit = bound(backend, features, 4)
    for got, points in (
        (features.bind(a, b), first + second),
        (features.unbind(a, b), first - second),
        (features.unbind(features.bind(a, b), b), first),
    ):
        expected = backend.numpy(features.encode(backend.array(points)))
        np.testing.assert_allclose(backend.numpy(got), expected, rtol=0, atol=limit)


@given(name=NAMES, numbers=st.lists(PLACES, min_size=8, max_size=8))
def test_scalar_products_are_the_kernel(backend, name, numbers):
    features = FEATURES[name]
    points = points_of(features, numbers)
    z = backend.numpy(features.encode(backend.array(points)))
    difference = points[..., :, None] - points[..., None, :]
    kernel = backend.numpy(features.kernel(backend.array(difference)))
    total = float(np.sum(np.broadcast_to(features.weights, len(features.frequencies))))
    limit = 8 * total * (2.0**-53 if backend.wide == "float64" else 2.0**-23)
    np.testing.assert_allclose(kernel, z.T @ z, rtol=0, atol=limit + 4 * backend.sine_error * total)
    np.testing.assert_allclose(np.diag(kernel), total, rtol=0, atol=limit)


@pytest.mark.parametrize("name", FEATURES)
def test_kernel_is_its_formula(name):
    features = FEATURES[name]
    d = points_of(features, RNG.uniform(-5, 5, 8))
    table = features.frequencies.reshape(len(features.frequencies), -1)
    weights = np.broadcast_to(features.weights, len(table))
    columns = d.reshape(-1, d.shape[-1]).T
    expected = [
        sum(w * np.cos(f @ x) for w, f in zip(weights, table, strict=True)) for x in columns
    ]
    np.testing.assert_allclose(features.kernel(d), expected, rtol=0, atol=1e-13)


def test_kernels_in_blocks_are_the_same(monkeypatch):
    features, d = FEATURES["weighted"], RNG.uniform(-5, 5, (2, 3, 7))
    whole = features.kernel(d)
    monkeypatch.setattr(fourier_features, "_BLOCK_ELEMENTS", 100)
    np.testing.assert_allclose(features.kernel(d), whole, rtol=0, atol=1e-15)
    assert features.kernel(d[:, :0]).shape == (0, 7)


def test_far_points_are_moved_and_bound_exactly():
    """Shifting a distant encoding back to 0 costs two roundings."""
    for features in FEATURES.values():
        points = points_of(features, np.rint(RNG.uniform(-1e15, 1e15, 8)))
        origin = features.encode(np.zeros_like(points))
        limit = 1e-15 * largest(features)
        far = features.encode(points)
        np.testing.assert_allclose(features.unshift(far, points), origin, rtol=0, atol=limit)
        np.testing.assert_allclose(features.shift(origin, points), far, rtol=0, atol=limit)
        np.testing.assert_allclose(features.unbind(far, far), origin, rtol=0, atol=limit)


def test_families_equal_their_formulas():
    x, p = RNG.uniform(-1e6, 1e6, (3, 5)), RNG.uniform(-1e6, 1e6, (2, 4))
    whole = np.rint(x).astype(np.int64)
    for points in (x, whole, x.astype(np.float32)):
        sinusoids = FourierFeatures.sinusoidal(64, 500)
        for arrangement in ("interleaved", "concatenated"):
            got = replace(sinusoids, arrangement=arrangement).encode(points)
            expected = sinusoidal_encoding(points, 64, base=500, arrangement=arrangement)
            np.testing.assert_array_equal(got, expected)
        lengths = [0.3, 7, 365.25]
        got = FourierFeatures.from_wavelengths(lengths).encode(points)
        np.testing.assert_array_equal(got, fourier_encoding(points, lengths))
        got = FourierFeatures.octaves(10).encode(points)
        np.testing.assert_array_equal(got, fourier_encoding(points, preset="nerf"))
    np.testing.assert_array_equal(
        FourierFeatures.hexagonal([0.3, 7.0]).encode(p), grid_cell_encoding(p, [0.3, 7.0])
    )
    options = {"length_scale": [0.5, 2.0], "kernel": "matern", "nu": 0.7, "rng": 3}
    got = FourierFeatures.random(2, 32, **options).encode(p)
    np.testing.assert_allclose(got, random_fourier_encoding(p, 32, **options), rtol=0, atol=1e-15)


def test_hexagonal_patterns_are_turned_and_moved():
    """A pattern has a crest at its offset, and further crests along its orientation."""
    angle, offset, scale = 0.4, np.asarray([3.0, -2.0]), 1.5
    cells = FourierFeatures.hexagonal(scale, angle, offsets=offset)

    def pattern(points):
        return cells.encode(points)[1::2].sum(axis=0)

    # Fields are 2 / sqrt(3) wavelengths apart, 90 degrees and every 60 from the first wave.
    turns = angle + np.pi / 2 + np.arange(6) * np.pi / 3
    fields = scale * 2 / np.sqrt(3) * np.stack([np.cos(turns), np.sin(turns)]) + offset[:, None]
    np.testing.assert_allclose(pattern(np.c_[offset, fields]), 3, rtol=0, atol=1e-13)
    one = FourierFeatures.hexagonal([scale, 2.0], [angle, 0.1], offsets=[offset, [0, 0]])
    np.testing.assert_allclose(one.encode(fields)[:6], cells.encode(fields), rtol=0, atol=1e-15)


BOUNDS = {1: (-20.0, 30.0), 2: [(-2.0, 2.5), (-1.5, 2.0)]}


def inside(features, shape, seed):
    """Return random points within the bounds, with coordinates first if there are any."""
    low, high = np.reshape(BOUNDS[features.frequencies.ndim], (-1, 2)).T
    ends = (end.reshape(-1, *[1] * len(shape)) for end in (low, high))
    points = np.random.default_rng(seed).uniform(*ends, (len(low), *shape))
    return points if features.frequencies.ndim == 2 else points[0]


@settings(max_examples=8)
@given(
    name=st.sampled_from(["sinusoidal", "random", "weighted", "hexagonal"]), seed=st.integers(0, 99)
)
def test_points_are_read_back(backend, name, seed):
    features = FEATURES[name]
    points, bounds = inside(features, (2, 3), seed), BOUNDS[features.frequencies.ndim]
    got = features.decode(features.encode(backend.array(points, backend.wide)), bounds)
    limit = 1e-12 if backend.wide == "float64" else 5e-5
    np.testing.assert_allclose(backend.numpy(got), points, rtol=0, atol=limit * 50)


@pytest.mark.parametrize("name", FEATURES)
def test_points_with_noise_are_read_back_nearly(name):
    features = FEATURES[name]
    points, bounds = inside(features, (40,), 0), BOUNDS[features.frequencies.ndim]
    if name == "octaves":  # within their period
        points, bounds = points / 50, (-1.0, 1.0)
    if name in ("line", "cauchy", "wavelengths"):  # other points are as similar, nearly
        return
    encoded = features.encode(points)
    noisy = encoded + 0.05 * np.std(encoded) * RNG.standard_normal(encoded.shape)
    exact, nearly = (features.decode(x, bounds) for x in (encoded, noisy))
    np.testing.assert_allclose(exact, points, rtol=0, atol=1e-10)
    # Six times the Cramer-Rao bound.
    table = features.frequencies.reshape(len(features.frequencies), -1)
    weights = np.broadcast_to(features.weights, len(table))
    information = (table.T * weights) @ table / (0.05 * np.std(encoded)) ** 2
    sigma = np.sqrt(np.diag(np.linalg.inv(information)))
    error = np.abs(nearly - points).reshape(len(sigma), -1) / sigma[:, None]
    assert error.max() < 6
    assert error.max() > 0.5  # noise moves them


def test_bundles_are_read_back():
    """Points at distances above the kernel's width, decoded exactly without noise."""
    features = FourierFeatures.random(2, 256, length_scale=0.7, rng=0)
    bounds = [(0, 10), (0, 10)]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        grid = np.stack(np.meshgrid([1.5, 5, 8.5], [1.5, 5, 8.5])).reshape(2, 9)
        points = grid[:, rng.permutation(9)[:4]] + rng.uniform(-0.9, 0.9, (2, 4))
        weights = np.asarray([1.0, 0.8, 0.6, 0.45])
        bundle = features.encode(points) @ weights
        got = features.decode(bundle, bounds, count=4)
        np.testing.assert_allclose(got, points.T, rtol=0, atol=1e-5)
        noisy = bundle + 0.01 * rng.standard_normal(bundle.shape)
        got = features.decode(noisy, bounds, count=4)
        np.testing.assert_allclose(got, points.T, rtol=0, atol=0.1)
        # The same point twice is one point, and the remainder has no point.
        twice = features.encode(points[:, :1]) @ [2.0]
        got = features.decode(twice, bounds, count=2)
        np.testing.assert_allclose(got[0], points[:, 0], rtol=0, atol=1e-12)
        assert not np.allclose(got[1], points[:, 0], atol=0.1)


def test_strengths_tell_points_from_what_is_left_over(backend):
    """Strengths are the factors of a weighted sum, and small for further points."""
    features = FourierFeatures.random(2, 256, length_scale=0.7, rng=0)
    points, bounds = np.asarray([[2.0, 7.5, 4.0], [1.5, 3.0, 8.0]]), [(0, 10), (0, 10)]
    encoded = features.encode(backend.array(points, backend.wide))
    limit = 1e-6 if backend.wide == "float64" else 1e-3
    found, strength = features.decode(encoded * 0.7, bounds, return_strength=True)
    assert strength.shape == (3,)
    np.testing.assert_allclose(backend.numpy(strength), 0.7, rtol=0, atol=limit)
    np.testing.assert_allclose(backend.numpy(found), points, rtol=0, atol=limit * 10)
    weights = np.asarray([1.0, 0.8, 0.5])
    bundle = backend.array(features.encode(points) @ weights, backend.wide)
    found, strength = features.decode(bundle, bounds, count=3, return_strength=True)
    np.testing.assert_allclose(backend.numpy(strength), weights, rtol=0, atol=limit)
    np.testing.assert_allclose(backend.numpy(found), points.T, rtol=0, atol=limit * 10)
    found, strength = features.decode(bundle, bounds, count=6, return_strength=True)
    assert strength.shape == (6,)
    found, strength = backend.numpy(found), backend.numpy(strength)
    assert (np.abs(strength[3:]) < 0.1).all()
    is_point = strength > 0.3
    np.testing.assert_allclose(found[is_point], points.T, rtol=0, atol=0.05)
    nothing = features.decode(bundle * 0.0, bounds, return_strength=True)
    assert np.isnan(backend.numpy(nothing[0])).all()
    assert backend.numpy(nothing[1]) == 0


def test_decoding_in_blocks_and_of_nothing(backend, monkeypatch):
    features = FEATURES["sinusoidal"]
    points = inside(features, (2, 3), 0)
    encoded = features.encode(backend.array(points))
    bounds = BOUNDS[1]
    whole = backend.numpy(features.decode(encoded, bounds))
    monkeypatch.setattr(decoding, "_BLOCK_ELEMENTS", 2 * 81)
    limit = 1e-10 if backend.wide == "float64" else 1e-3
    np.testing.assert_allclose(
        backend.numpy(features.decode(encoded, bounds)), whole, rtol=0, atol=limit
    )
    none = backend.numpy(features.decode(encoded * 0.0, bounds))
    assert none.shape == (2, 3)
    assert np.isnan(none).all()
    assert np.isnan(backend.numpy(features.decode(encoded * np.nan, bounds))).all()
    if not backend.lazy:
        assert features.decode(encoded[:, :0, :], bounds, count=2).shape == (2, 0, 3)


def test_points_beyond_the_bounds_are_at_them():
    features = FEATURES["sinusoidal"]
    got = features.decode(features.encode(np.asarray([5.5, 4.9])), (0, 5))
    np.testing.assert_allclose(got, [5.0, 4.9], rtol=0, atol=1e-12)


def test_waves_that_do_not_move_along_a_coordinate():
    """Any value is correct along a coordinate without frequencies; the other one is decoded."""
    features = FourierFeatures([[1.0, 0.0], [0.3, 0.0]])
    got = features.decode(features.encode(np.asarray([1.25, 7.0])), [(0, 4), (0, 9)])
    assert abs(got[0] - 1.25) < 1e-12
    assert 0 <= got[1] <= 9


def test_dtypes(backend):
    features, xp = FEATURES["random"], backend.xp
    points = backend.array(points_of(features, np.arange(6.0)))
    for dtype in (*backend.half_dtypes, xp.float32):
        encoded = features.encode(points, dtype=dtype)
        assert encoded.dtype == dtype
        assert features.encode(xp.astype(points, dtype)).dtype == dtype
        assert features.kernel(points, dtype=dtype).dtype == dtype
        assert features.shift(encoded, [1.0, 2]).dtype == dtype
        assert features.bind(encoded, encoded).dtype == dtype
        assert features.decode(encoded, BOUNDS[2], resolution=5).dtype == xp.float32


def test_values_are_equal_and_kept():
    for features in FEATURES.values():
        for twin in (
            copy.deepcopy(features),
            pickle.loads(pickle.dumps(features)),
            replace(features),
        ):
            assert twin == features
            assert hash(twin) == hash(features)
            x = points_of(features, np.arange(8.0) * 1e12)
            np.testing.assert_array_equal(twin.encode(x), features.encode(x))
        assert replace(features, weights=0.3) != features
        with pytest.raises(ValueError, match="read-only"):
            features.frequencies[...] = 0


def test_floats_are_the_numbers_that_they_are():
    """Without digits, frequencies are exact; only this changes distant points."""
    exact = FourierFeatures.sinusoidal(8)
    rounded = replace(exact, digits=None)
    x = np.asarray([2.0**50])
    with mpmath.workdps(60):
        angles = [mpmath.mpf(f) * 2**50 for f in exact.frequencies.tolist()]
        expected = [float(f(angle)) for angle in angles for f in (mpmath.sin, mpmath.cos)]
    np.testing.assert_allclose(rounded.encode(x)[:, 0], expected, rtol=0, atol=3e-16)
    assert np.abs(rounded.encode(x) - exact.encode(x)).max() > 1e-3


@pytest.mark.parametrize("by", [1_700_000_000_123_456_789, -(2**53) - 1])
def test_far_integers_move_exactly(by):
    sinusoids = FourierFeatures.sinusoidal(8)
    zero, plane = np.asarray([0]), FourierFeatures([[1.0, 0.5], [0.25, 3.0]])
    moved = sinusoids.shift(sinusoids.encode(zero), by)
    np.testing.assert_allclose(moved, sinusoids.encode(np.asarray([by])), rtol=0, atol=1e-12)
    moved = plane.shift(plane.encode(np.zeros(2, dtype=int)), [by, 3])
    np.testing.assert_allclose(moved, plane.encode(np.asarray([by, 3])), rtol=0, atol=1e-12)
