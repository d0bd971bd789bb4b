"""Random Fourier features: their kernels, convergence and accuracy."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import random_fourier_encoding
from positional_embeddings.encodings import random_fourier

# Kernels of the papers, for one difference of two points.


def gaussian(d, scales):
    return math.exp(-sum((a / s) ** 2 for a, s in zip(d, scales, strict=True)) / 2)


def matern(d, scales, nu):
    """Rasmussen and Williams, equation 4.17, for nu = p + 1/2."""
    r = math.sqrt(sum((a / s) ** 2 for a, s in zip(d, scales, strict=True)))
    if nu == 0.5:
        return math.exp(-r)
    if nu == 1.5:
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    assert nu == 2.5
    return (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)


def laplace(d, scales):
    return math.exp(-sum(abs(a) / s for a, s in zip(d, scales, strict=True)))


def cauchy(d, scales):
    return math.prod(1 / (1 + (a / s) ** 2) for a, s in zip(d, scales, strict=True))


def periodic(d, scales, periods):
    """Rasmussen and Williams, equation 4.31, a product over the coordinates."""
    terms = zip(d, scales, periods, strict=True)
    return math.exp(-2 * sum((math.sin(math.pi * a / p) / s) ** 2 for a, s, p in terms))


SCALES, PERIODS = (1.5, 0.75), (3.0, 7.0)
CASES = {
    "gaussian": ({}, gaussian),
    "gaussian, orthogonal": ({"orthogonal": True}, gaussian),
    "matern 1/2": ({"kernel": "matern", "nu": 0.5}, lambda d, s: matern(d, s, 0.5)),
    "matern 3/2": ({"kernel": "matern"}, lambda d, s: matern(d, s, 1.5)),
    "matern 5/2": ({"kernel": "matern", "nu": 2.5}, lambda d, s: matern(d, s, 2.5)),
    "matern, orthogonal": (
        {"kernel": "matern", "nu": 2.5, "orthogonal": True},
        lambda d, s: matern(d, s, 2.5),
    ),
    "laplace": ({"kernel": "laplace"}, laplace),
    "cauchy": ({"kernel": "cauchy"}, cauchy),
    "periodic": (
        {"kernel": "periodic", "period": PERIODS},
        lambda d, s: periodic(d, s, PERIODS),
    ),
}
POINTS = np.random.default_rng(7).uniform(-2, 2, (2, 12))


def encoded(x, dim, case, seed, scales=SCALES):
    return random_fourier_encoding(x, dim, length_scale=scales, rng=seed, **CASES[case][0])


def kernel_matrix(points, case, scales=SCALES):
    kernel = CASES[case][1]
    columns = points.T.tolist()
    return np.asarray(
        [
            [kernel([u - v for u, v in zip(a, b, strict=True)], scales) for b in columns]
            for a in columns
        ]
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [64, 1024, 16_384])
def test_scalar_products_approach_the_kernel(case, dim):
    """By Hoeffding's inequality, the probability of a failure is one in a million."""
    z = encoded(POINTS, dim, case, 0)
    error = np.abs(z.T @ z - kernel_matrix(POINTS, case)).max()
    pairs = POINTS.shape[1] * (POINTS.shape[1] - 1) / 2
    # P(error >= t) <= 2 exp(-m t**2 / 2) for the mean of m = dim / 2 cosines. Orthogonal
    # cosines are dependent in pairs, so that only half of the cosines count.
    count = dim / 4 if "orthogonal" in case else dim / 2
    assert error <= math.sqrt(2 * math.log(2 * pairs * 1e6) / count)


@pytest.mark.parametrize("draws", [30, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", [case for case in CASES if "orthogonal" not in case])
def test_mean_square_error_is_the_variance_of_a_cosine_over_their_number(case, draws):
    """The law O(1 / sqrt(dim)) with its constant: Var cos(w d) = (1 + k(2 d)) / 2 - k(d)**2."""
    kernel = CASES[case][1]
    d = (0.7, -0.4)
    exact = kernel(d, SCALES)
    variance = (1 + kernel([2 * a for a in d], SCALES)) / 2 - exact**2
    points = np.asarray([(0.0, 0.0), d]).T
    found = {}
    for dim in (16, 1024):
        z = [encoded(points, dim, case, seed) for seed in range(draws)]
        found[dim] = np.mean([(a[:, 0] @ a[:, 1] - exact) ** 2 for a in z]) * dim / 2 / variance
    # The square of a normal error has relative variance 2, the mean of its draws 2 / draws;
    # the fourth moment of a mean of few cosines differs little from that of a normal number.
    for ratio in found.values():
        assert abs(ratio - 1) < 5 * math.sqrt(2 / draws)


@pytest.mark.parametrize("case", ["gaussian", "matern"])
def test_orthogonal_features_have_less_variance(case):
    size, blocks = 8, 1000
    direction = np.random.default_rng(3).standard_normal(size)
    points = np.stack([np.zeros(size), direction / np.linalg.norm(direction)], axis=1)

    def variance(*, orthogonal):
        dim = 2 * size * blocks
        z = random_fourier_encoding(points, dim, kernel=case, orthogonal=orthogonal, rng=0)
        # Each block of frequencies is a draw of its own.
        return np.var(np.sum(np.reshape(z[:, 0] * z[:, 1], (blocks, -1)), axis=1) * blocks)

    # The relative deviation of a variance of so many draws is sqrt(2 / blocks).
    least_change = 5 * math.sqrt(4 / blocks)
    assert variance(orthogonal=True) < (1 - least_change) * variance(orthogonal=False)


def test_orthogonal_frequencies_are_orthogonal_in_blocks():
    for kernel in ("gaussian", "matern"):
        nu = 1.5 if kernel == "matern" else None
        rng = np.random.default_rng(0)
        w = random_fourier._drawn(
            random_fourier._Spectrum(None, kernel, (1.0, 1.0, 1.0), nu, True), 8, rng
        )
        assert w.shape == (8, 3)
        for start in (0, 3, 6):
            block = w[start : start + 3]
            gram = block @ block.T
            np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-14 * gram.max())


def test_orthogonal_directions_are_uniform():
    """The mean of each entry is 0, and of each square 1, by any sign of the factorization."""
    drawn = random_fourier._orthogonal_normals(30_000, 3, np.random.default_rng(0))
    bound = 5 / math.sqrt(30_000)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=bound)
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1, atol=bound * math.sqrt(2))


class Watched(np.random.Generator):
    """A generator that records sizes of normal draws, and draws large Cauchy numbers."""

    def standard_normal(self, size):
        self.drawn = math.prod(size)
        return super().standard_normal(size)

    def standard_cauchy(self, size):
        return np.resize([-1e40, 1e40], size)


def test_orthogonal_frequencies_take_few_random_numbers():
    """A square matrix for each block of frequencies, one for each coordinate."""
    generator = Watched(np.random.PCG64(0))
    random_fourier_encoding(np.zeros((3, 2)), 16, orthogonal=True, rng=generator)
    assert generator.drawn == 3 * 3 * 3


def test_frequencies_end_at_a_power_of_two():
    generator = Watched(np.random.PCG64(0))
    spectrum = random_fourier._Spectrum(None, "laplace", (1.0,), None, False)
    (digits,) = random_fourier._drawn_digits(2, generator, *spectrum)
    assert [float(number) for number in digits.split()] == [-(2.0**100), 2.0**100]


def test_harmonics_have_the_weights_of_the_fourier_series():
    import mpmath

    for scale in (0.2, 1.0, 3.0):
        rng = np.random.default_rng(1)
        drawn = random_fourier._drawn(
            random_fourier._Spectrum(None, "periodic", (scale,), None, False), 100_000, rng
        )
        a = 1 / mpmath.mpf(scale) ** 2
        for k in range(-4, 5):
            weight = float(mpmath.exp(-a) * mpmath.besseli(abs(k), a))
            assert abs(np.mean(drawn == k) - weight) < 5 * math.sqrt(weight / 100_000) + 1e-4


def cycles_of(options, count, seed, dims):
    """Return the frequencies of a seed as mpmath's numbers, one row for each coordinate."""
    from decimal import Decimal

    scales = (options.get("length_scale", 1.0),) * dims
    spectrum = (
        options.get("kernel", "gaussian"),
        list(scales),
        options.get("nu"),
        options.get("period"),
        options.get("orthogonal", False),
    )
    digits = random_fourier.drawn_frequencies(dims, count, seed, *spectrum)
    return [[Decimal(text) for text in row.split()] for row in digits]


EXACT = {
    "gaussian": {"length_scale": 0.01},
    "matern": {"kernel": "matern", "nu": 0.5, "length_scale": 0.3},
    "laplace": {"kernel": "laplace", "length_scale": 1e-3},
    "periodic": {"kernel": "periodic", "period": 365.2422, "length_scale": 0.1},
}


@pytest.mark.parametrize(
    ("case", "coordinates"),
    [("gaussian", 1), ("gaussian", 3), ("matern", 2), ("laplace", 7), ("periodic", 1)],
)
def test_features_are_exact_at_large_coordinates(backend, case, coordinates):
    """Two roundings of a feature of size sqrt(2 / dim), for any magnitude of the coordinates."""
    import mpmath

    dim = 16
    rng = np.random.default_rng(5)
    real = rng.uniform(-1, 1, (coordinates, 4)) * [1.0, 1e3, 1e8, 1e17]
    whole = np.rint(rng.uniform(-1, 1, (coordinates, 4)) * [9, 1e3, 1e6, 2e9])
    rows = cycles_of(EXACT[case], dim // 2, 11, coordinates)
    eps = 2.0**-53 if backend.wide == "float64" else 2.0**-24
    bound = 2.5 * eps + backend.sine_error
    amplitude = math.sqrt(2 / dim)
    for values in (real.astype(backend.wide), whole.astype(np.int32)):
        x = backend.array(values)
        got = random_fourier_encoding(
            x, dim, rng=11, dtype=getattr(backend.xp, backend.wide), **EXACT[case]
        )
        got = backend.numpy(got)
        with mpmath.workdps(80):
            for column, point in enumerate(values.T):
                for j in range(dim // 2):
                    phase = sum(
                        mpmath.mpf(str(row[j])) * mpmath.mpf(p.item())
                        for row, p in zip(rows, point, strict=True)
                    )
                    angle = 2 * mpmath.pi * phase
                    for offset, exact in ((0, mpmath.sin(angle)), (1, mpmath.cos(angle))):
                        error = abs(got[2 * j + offset, column] - exact * amplitude)
                        assert error <= bound * amplitude


@pytest.mark.parametrize("case", ["gaussian, orthogonal", "matern 3/2", "laplace", "periodic"])
def test_every_library_gives_the_same(backend, case):
    x = backend.array(POINTS)
    got = encoded(x, 24, case, 4)
    assert got.dtype == x.dtype
    tolerance = 1e-15 if backend.wide == "float64" else 3e-7
    rounded = POINTS.astype(backend.wide)  # in the dtype of the device
    np.testing.assert_allclose(
        backend.numpy(got), encoded(rounded.astype(float), 24, case, 4), rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("shape", [(2,), (2, 0), (2, 3, 2)])
def test_every_shape_gives_the_same(backend, shape):
    x = np.random.default_rng(0).uniform(-3, 3, shape)
    got = backend.numpy(random_fourier_encoding(backend.array(x), 10, rng=1))
    x = x.astype(backend.wide).astype(float)
    assert got.shape == (10, *shape[1:])
    for place in np.ndindex(shape[1:]):
        point = x[(slice(None), *place)]
        expected = random_fourier_encoding(point[:, None], 10, rng=1)[:, 0]
        np.testing.assert_allclose(
            got[(slice(None), *place)], expected, rtol=0, atol=3 * np.finfo(got.dtype).eps
        )


@pytest.mark.parametrize("case", ["gaussian", "periodic"])
def test_points_are_unit_vectors(backend, case):
    z = backend.numpy(encoded(backend.array(POINTS), 50, case, 2))
    # An error of a sine counts 2 (|sin| + |cos|) times, so less than 3 times.
    bound = 2 * np.finfo(z.dtype).eps + 3 * backend.sine_error
    np.testing.assert_allclose((z.astype(float) ** 2).sum(axis=0), 1, rtol=0, atol=bound)


def test_options_of_each_coordinate():
    """One length scale for all is that length scale for each; so are periods and arrays."""
    for options, listed in (
        ({"length_scale": 2.0}, {"length_scale": np.asarray([2.0, 2.0])}),
        (
            {"kernel": "periodic", "period": 5},
            {"kernel": "periodic", "period": (5, 5.0), "length_scale": [1, 1]},
        ),
    ):
        one = random_fourier_encoding(POINTS, 12, rng=0, **options)
        each = random_fourier_encoding(POINTS, 12, rng=0, **listed)
        np.testing.assert_array_equal(one, each)


@given(shift=st.integers(-(2**40), 2**40), seed=st.integers(0, 50), case=st.sampled_from([*CASES]))
def test_shifting_all_points_keeps_scalar_products(shift, seed, case):
    points = np.rint(POINTS * 2**8) / 2**8  # shifts are exact
    z, shifted = (encoded(x, 32, case, seed) for x in (points, points + shift))
    np.testing.assert_allclose(z.T @ z, shifted.T @ shifted, atol=1e-14)


@given(cycles=st.integers(-(2**30), 2**30), place=st.integers(-1000, 1000))
def test_periods_wrap_exactly(cycles, place):
    options = {"kernel": "periodic", "period": 365.25, "length_scale": 0.3, "rng": 0}
    x = np.asarray([[place / 4, place / 4 + 365.25 * cycles]])
    first, later = random_fourier_encoding(x, 64, **options).T
    np.testing.assert_allclose(first, later, rtol=0, atol=1e-16)


def test_large_and_small_scales_are_limits():
    """A kernel far wider than the points is 1; a far narrower one is 0 except at distance 0."""
    for options in ({}, {"kernel": "laplace"}, {"kernel": "periodic", "period": 3.0}):
        z = random_fourier_encoding(POINTS, 64, length_scale=1e300, rng=0, **options)
        np.testing.assert_allclose(z.T @ z, 1, atol=1e-14)
        least = 2.0**-30 if "period" in options else 2.0**-50
        z = random_fourier_encoding(POINTS, 4096, length_scale=least, rng=0, **options)
        bound = math.sqrt(4 * math.log(2 * 66 * 1e6) / 4096)
        np.testing.assert_allclose(z.T @ z, np.eye(12), atol=bound)


def test_matern_of_large_nu_is_gaussian():
    plain = random_fourier_encoding(POINTS, 1024, rng=0)
    smooth = random_fourier_encoding(POINTS, 1024, kernel="matern", nu=1e12, rng=0)
    np.testing.assert_allclose(smooth, plain, atol=1e-5)


@pytest.mark.parametrize("options", [{"kernel": "matern", "nu": 0.1}, {"kernel": "laplace"}])
def test_heavy_tails_are_finite(backend, options):
    x = backend.array(POINTS[:, :2])
    z = backend.numpy(random_fourier_encoding(x, 4096, length_scale=2.0**-50, rng=0, **options))
    assert np.isfinite(z).all()
    np.testing.assert_allclose((z**2).sum(axis=0), 1, atol=1e-5)


def test_seeds_and_generators():
    def encode(rng):
        return random_fourier_encoding(POINTS, 8, rng=rng)

    np.testing.assert_array_equal(encode(3), encode(np.int64(3)))
    np.testing.assert_array_equal(encode(3), encode(np.random.default_rng(3)))
    assert not np.allclose(encode(3), encode(4))
    generator = np.random.default_rng(3)
    assert not np.allclose(encode(generator), encode(generator))


def test_dtypes(backend):
    xp = backend.xp
    whole = backend.array(np.arange(8).reshape(2, 4))
    assert (
        random_fourier_encoding(whole, 6, rng=0).dtype
        == xp.asarray(1.0, device=backend.device).dtype
    )
    for dtype in (*backend.half_dtypes, *(getattr(xp, name) for name in backend.floats)):
        x = xp.astype(whole, dtype)
        got = random_fourier_encoding(x, 6, rng=0)
        assert got.dtype == dtype
        assert random_fourier_encoding(whole, 6, rng=0, dtype=dtype).dtype == dtype
        exact = random_fourier_encoding(np.arange(8).reshape(2, 4), 6, rng=0)
        np.testing.assert_allclose(
            backend.numpy(xp.astype(got, xp.float32)), exact, atol=float(xp.finfo(dtype).eps)
        )


@pytest.mark.library("torch")
@pytest.mark.parametrize("case", CASES)
def test_gradient_with_respect_to_coordinates(case):
    import torch

    x = torch.tensor(POINTS[:, :3] + 1e3, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: encoded(x, 8, case, 0), (x,), atol=1e-4)


@pytest.mark.library("jax")
def test_gradient_in_jax_without_float64():
    import jax

    x = jax.numpy.asarray([[0.5], [7.25]])
    options = {"length_scale": (2.0, 0.5), "rng": 0}
    slope = jax.jit(jax.jacobian(lambda x: random_fourier_encoding(x, 6, **options)[:, 0]))(x)
    wide, step = np.asarray(x, dtype=float), 1e-6
    for i in range(2):
        shift = np.zeros((2, 1))
        shift[i] = step
        ends = [random_fourier_encoding(wide + s, 6, **options)[:, 0] for s in (shift, -shift)]
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(np.asarray(slope)[:, i, 0], expected, atol=2e-6)


def test_numpy_takes_little_memory_beyond_the_result():
    x = np.random.default_rng(0).standard_normal((3, 20_000))
    random_fourier_encoding(x[:, :2], 100, rng=0)  # draws the frequencies
    tracemalloc.start()
    z = random_fourier_encoding(x, 100, rng=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * z.nbytes


def test_many_coordinates():
    """Above 256 coordinates, angles are not matrix products; a coordinate of 0 adds nothing."""
    x = np.zeros((300, 4))
    x[:200] = np.random.default_rng(0).standard_normal((200, 4))
    options = {"kernel": "periodic", "period": 5.0, "length_scale": np.full(300, 20.0)}
    drawn = random_fourier.drawn_frequencies(300, 4, 0, "periodic", 20.0, None, 5.0, False)
    frequencies = np.asarray([row.split() for row in drawn], dtype=float)
    got = random_fourier_encoding(x, 8, rng=0, **options)
    phases = 2 * np.pi * (frequencies.T @ x)
    np.testing.assert_allclose(got[::2], 0.5 * np.sin(phases), rtol=0, atol=1e-12)
    np.testing.assert_allclose(got[1::2], 0.5 * np.cos(phases), rtol=0, atol=1e-12)


def test_coordinates_that_are_not_finite_spoil_their_point_alone():
    x = np.asarray([[0.5, math.nan, 1.0, math.inf], [1.0, 2.0, 3.0, 4.0]])
    z = random_fourier_encoding(x, 8, rng=0)
    assert np.isnan(z).all(axis=0).tolist() == [False, True, False, True]
    assert not np.isnan(z[:, ::2]).any()


def test_defaults_of_lengths_and_smoothness():
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    given = random_fourier_encoding(x, 8, length_scale=1.0, rng=0)
    np.testing.assert_array_equal(random_fourier_encoding(x, 8, rng=0), given)
    given = random_fourier_encoding(x, 8, kernel="matern", nu=1.5, rng=0)
    np.testing.assert_array_equal(random_fourier_encoding(x, 8, kernel="matern", rng=0), given)


def test_the_least_options():
    """The bounds themselves are allowed."""
    x = np.zeros((2, 3))
    for options in (
        {"length_scale": 2.0**-50},
        {"kernel": "matern", "nu": 0.1},
        {"kernel": "periodic", "period": 2.0**-50, "length_scale": 2.0**-30},
    ):
        encoding = random_fourier_encoding(x, 4, rng=0, **options)
        np.testing.assert_allclose(encoding, np.sqrt([[0], [0.5]] * 2) + x[:1], atol=1e-15)
