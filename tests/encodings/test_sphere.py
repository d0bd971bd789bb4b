"""Spherical harmonics against mpmath, SciPy and the laws of the sphere."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import spherical_encoding, spherical_truncation_error
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.encodings import sphere

RNG = np.random.default_rng(0)
# Uniform points, and difficult ones.
LATITUDES = np.concatenate(
    [np.degrees(np.arcsin(RNG.uniform(-1, 1, 40))), [90, -90, 89.9, -89.99, 0, 1e-3, 45, 75.5]]
)
LONGITUDES = np.concatenate([RNG.uniform(-180, 180, 40), [10, -70, 0, 180, -180, 90, 270, 1e-9]])


def index(degree, order):
    return degree * degree + degree + order


def harmonic(latitude, longitude, degree, order):
    """Hobson's definition with 50 digits, by the recurrence at fixed order; in degrees."""
    with mpmath.workdps(50):
        colatitude = (90 - mpmath.mpf(float(latitude))) * mpmath.pi / 180
        phi = mpmath.mpf(float(longitude)) * mpmath.pi / 180
        t, u, m = mpmath.cos(colatitude), mpmath.sin(colatitude), abs(order)
        value, before = mpmath.mpf(1), mpmath.mpf(0)
        for k in range(1, m + 1):
            value *= (2 * k - 1) * u
        for k in range(m + 1, degree + 1):
            value, before = ((2 * k - 1) * t * value - (k + m - 1) * before) / (k - m), value
        ratio = mpmath.factorial(degree - m) / mpmath.factorial(degree + m)
        value *= mpmath.sqrt((2 * degree + 1) / (4 * mpmath.pi) * ratio)
        if order:
            wave = mpmath.cos if order > 0 else mpmath.sin
            value *= mpmath.sqrt(2) * wave(m * phi)
        return float(value)


def by_scipy(special, latitudes, longitudes, degree):
    """The relation to SciPy's complex harmonics of the docstring."""
    theta, phi = np.radians(90 - latitudes), np.radians(longitudes)
    every = special.sph_harm_y_all(degree, degree, theta, phi)
    features = []
    for n in range(degree + 1):
        for m in range(-n, n + 1):
            y, sign = every[n, abs(m)], (-1) ** m * math.sqrt(2)
            features.append(y.real if m == 0 else sign * (y.imag if m < 0 else y.real))
    return np.asarray(features)


def unit_vectors(latitudes, longitudes):
    """In 50 digits, so that the angle between two points is exact for their floats."""
    with mpmath.workdps(50):
        vectors = []
        for latitude, longitude in zip(latitudes, longitudes, strict=True):
            a, b = (mpmath.mpf(float(d)) * mpmath.pi / 180 for d in (latitude, longitude))
            cos = mpmath.cos(a)
            vectors.append([cos * mpmath.cos(b), cos * mpmath.sin(b), mpmath.sin(a)])
        return vectors


def error_of(backend, degree):
    """Rounding error: harmonics grow with the square root of the degree."""
    return 2e-13 if backend.wide == "float64" else 2e-6 * (degree + 1)


def test_first_degrees(backend):
    """Polynomials of the unit vector, written out."""
    x, y, z = np.asarray(unit_vectors(LATITUDES, LONGITUDES), dtype=float).T
    one, two = math.sqrt(3 / (4 * math.pi)), math.sqrt(15 / (4 * math.pi))
    expected = [
        np.full_like(x, math.sqrt(1 / (4 * math.pi))),
        *(one * y, one * z, one * x),
        *(two * x * y, two * y * z, math.sqrt(5 / (16 * math.pi)) * (3 * z**2 - 1)),
        *(two * x * z, two / 2 * (x**2 - y**2)),
    ]
    got = spherical_encoding(backend.array(LATITUDES), backend.array(LONGITUDES), 2)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


def test_against_exact_harmonics(backend):
    degree = 6
    got = spherical_encoding(backend.array(LATITUDES), backend.array(LONGITUDES), degree)
    assert got.shape == ((degree + 1) ** 2, len(LATITUDES))
    places = [backend.numpy(backend.array(a)) for a in (LATITUDES, LONGITUDES)]
    orders = [(n, m) for n in (0, 1, 5, 6) for m in range(-n, n + 1)]
    rows = backend.numpy(got)[[index(n, m) for n, m in orders]]
    expected = [[harmonic(*p, n, m) for p in zip(*places, strict=True)] for n, m in orders]
    np.testing.assert_allclose(rows, expected, atol=error_of(backend, degree))


def test_against_exact_harmonics_to_a_high_degree():
    got = spherical_encoding(LATITUDES, LONGITUDES, 200)
    for n, m in [(200, 0), (199, 0), (200, 1), (200, -2), (200, 89), (200, -150), (200, 200)]:
        places = zip(LATITUDES, LONGITUDES, strict=True)
        expected = [harmonic(*p, n, m) for p in places]
        np.testing.assert_allclose(got[index(n, m)], expected, atol=2e-13, err_msg=f"{n}, {m}")


def test_against_scipy():
    """To degree 200. Within a degree of a pole SciPy's own error is 7e-12, see the test above."""
    from scipy import special

    got = spherical_encoding(LATITUDES, LONGITUDES, 200)
    error = np.abs(got - by_scipy(special, LATITUDES, LONGITUDES, 200))
    away = (np.abs(LATITUDES) < 89) | (np.abs(LATITUDES) == 90)
    assert error[:, away].max() < 1e-12
    assert error.max() < 1e-11
    assert error[:441].max() < 1e-12


def test_a_device_without_float64_reaches_degree_200():
    """Near the poles, too, where order 20 of degree 20 is below 1e-38."""
    import array_api_strict as strict

    device = strict.Device("no_float64")
    latitudes, longitudes = LATITUDES.astype("float32"), LONGITUDES.astype("float32")
    places = [strict.asarray(a, device=device) for a in (latitudes, longitudes)]
    got = np.from_dlpack(spherical_encoding(*places, 200).to_device(strict.Device("CPU_DEVICE")))
    expected = spherical_encoding(latitudes.astype(float), longitudes.astype(float), 200)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_the_highest_degree_is_still_exact():
    got = spherical_encoding(np.asarray([63.4, 89.9]), np.asarray([100.0, -3.0]), 1023)
    assert got.shape == (2**20, 2)
    for n, m in [(1023, 0), (1023, 450), (1023, -1), (1022, 1000)]:
        expected = [harmonic(63.4, 100, n, m), harmonic(89.9, -3, n, m)]
        np.testing.assert_allclose(got[index(n, m)], expected, atol=2e-12)


def test_harmonics_are_orthonormal():
    """Integrals over the sphere, exact by Gauss and by equal steps."""
    degree = 8
    nodes, weights = np.polynomial.legendre.leggauss(degree + 1)
    steps = 2 * degree + 1
    latitude = np.degrees(np.arcsin(nodes))[:, None]
    longitude = 360 * np.arange(steps) / steps
    features = spherical_encoding(latitude, longitude, degree)
    assert features.shape == ((degree + 1) ** 2, degree + 1, steps)
    area = weights * 2 * math.pi / steps
    integrals = np.einsum("fab,gab,a->fg", features, features, area)
    np.testing.assert_allclose(integrals, np.eye((degree + 1) ** 2), atol=1e-13)


places = st.tuples(st.floats(-90, 90), st.floats(-720, 720))


@given(first=places, second=places)
def test_addition_theorem(first, second):
    degree = 20
    pair = np.transpose([first, second])
    a, b = spherical_encoding(*pair, degree).T
    angle_cosine = float(mpmath.fdot(*unit_vectors(*pair)))
    for n in range(degree + 1):
        rows = slice(n * n, (n + 1) ** 2)
        expected = (2 * n + 1) / (4 * math.pi) * float(mpmath.legendre(n, angle_cosine))
        assert np.dot(a[rows], b[rows]) == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_scalar_products_do_not_change_with_a_rotation_of_all_places(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((3, 5))
    vectors /= np.linalg.norm(vectors, axis=0)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    products = []
    for x, y, z in (vectors, rotation @ vectors):
        latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
        features = spherical_encoding(latitude, np.degrees(np.arctan2(y, x)), 15)
        products.append(features.T @ features)
    np.testing.assert_allclose(*products, atol=1e-11)


def test_date_line_and_full_circles(backend):
    """Equal to the bit at 180 and -180, and after full circles."""
    latitude = backend.array([90.0, -90.0, 10.25, -5.5, 0.0])
    numbers = [
        backend.numpy(spherical_encoding(latitude, backend.array(np.full(5, circle)), 5))
        for circle in (180.0, -180.0, 540.0, -540.0)
    ]
    for other in numbers[1:]:
        np.testing.assert_array_equal(numbers[0], other)
    there, again = (
        backend.numpy(spherical_encoding(latitude, backend.array([1.25, -64.5, 90.0, 0, 7]) + n, 4))
        for n in (0, -360)
    )
    np.testing.assert_array_equal(there, again)


def test_poles(backend):
    """Features that depend on the longitude are exactly 0 there."""
    latitude = backend.array([90.0, -90.0, 90.0])
    got = backend.numpy(spherical_encoding(latitude, backend.array([0.0, 33.3, -120.0]), 8))
    zonal = [index(n, 0) for n in range(9)]
    np.testing.assert_array_equal(np.delete(got, zonal, axis=0), 0)
    size = np.sqrt((2 * np.arange(9) + 1) / (4 * math.pi))
    expected = np.transpose([size, (-1.0) ** np.arange(9) * size, size])
    np.testing.assert_allclose(got[zonal], expected, rtol=20 * backend.tolerance())


def test_near_a_pole_no_digit_is_lost():
    """The float next to 90 degrees is 1.4e-14 degrees off: order 1 is that small, and right."""
    for latitude in (np.nextafter(90, 0), 90 - 1e-9, -89.999999):
        got = spherical_encoding(np.asarray(latitude), np.asarray(30.0), 3)
        for order in (-2, -1, 1, 2):
            expected = harmonic(latitude, 30, 3, order)
            assert got[index(3, order)] == pytest.approx(expected, rel=1e-13, abs=0)


def test_quadrants_are_exact():
    """On the equator at multiples of 90 degrees, sines and cosines are 0 and 1."""
    got = spherical_encoding(np.zeros(5), np.asarray([0, 90, 180, 270, -90]), 1)
    size = math.sqrt(3 / (4 * math.pi))
    expected = size * np.asarray([[0, 1, 0, -1, -1], [0] * 5, [1, 0, -1, 0, 0]])
    np.testing.assert_allclose(got[1:], expected, rtol=4e-16, atol=0)


def test_radians(backend):
    latitude, longitude = np.radians(LATITUDES), np.radians(LONGITUDES)
    got = spherical_encoding(backend.array(latitude), backend.array(longitude), 9, unit="radians")
    expected = spherical_encoding(LATITUDES, LONGITUDES, 9)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=error_of(backend, 9))


def test_a_pole_in_radians_may_be_the_next_float(backend):
    """In float32 pi / 2 is beyond the pole by 4e-8, but counts as the pole."""
    pole = backend.array([np.pi / 2, -np.pi / 2], "float32")
    got = backend.numpy(spherical_encoding(pole, 0 * pole, 2, unit="radians"))
    np.testing.assert_allclose(got[2], [math.sqrt(3 / (4 * math.pi)), -got[2, 0]], rtol=1e-6)
    np.testing.assert_allclose(got[[1, 3]], 0, atol=1e-7)


@pytest.mark.parametrize(
    "shapes", [((), ()), ((3,), ()), ((2, 1), (3,)), ((3,), (2, 3)), ((0,), (1,))]
)
def test_shapes_broadcast(backend, shapes):
    latitude, longitude = (RNG.uniform(-80, 80, shape) for shape in shapes)
    got = spherical_encoding(backend.array(latitude), backend.array(longitude), 3)
    expected = spherical_encoding(*np.broadcast_arrays(latitude, longitude), 3)
    assert got.shape == expected.shape
    np.testing.assert_allclose(backend.numpy(got), expected, atol=error_of(backend, 3))


@pytest.mark.parametrize(
    "shapes",
    [((33,), (33,)), ((5, 9), (5, 9)), ((7, 1), (3, 1, 11)), ((6, 7, 1), (7, 5)), ((0, 3), (0, 3))],
)
def test_blocks_are_as_one(monkeypatch, shapes):
    latitude, longitude = RNG.uniform(-90, 90, shapes[0]), RNG.uniform(-180, 180, shapes[1])
    expected = spherical_encoding(latitude, longitude, 4)
    monkeypatch.setattr("positional_embeddings.encodings.sphere._BLOCK_POINTS", 4)
    np.testing.assert_array_equal(spherical_encoding(latitude, longitude, 4), expected)


def test_memory_is_that_of_the_result():
    latitude, longitude = RNG.uniform(-90, 90, 100_000), RNG.uniform(-180, 180, 100_000)
    size = 441 * 100_000 * 8
    assert peak_memory(lambda: spherical_encoding(latitude, longitude, 20)) < 1.15 * size


def test_integers(backend):
    latitude, longitude = np.asarray([-90, -3, 0, 45]), np.asarray([400, -180, 90, 7])
    expected = spherical_encoding(latitude.astype(float), longitude.astype(float), 5)
    for dtype in ("int64", "int16"):
        got = spherical_encoding(backend.array(latitude, dtype), backend.array(longitude, dtype), 5)
        assert str(got.dtype).endswith(
            "float32" if backend.wide == "float32" else ("float32", "float64")
        )
        np.testing.assert_allclose(backend.numpy(got), expected, atol=error_of(backend, 5) + 2e-7)
    narrow = backend.array(np.asarray([-90, 90]), "int8")
    assert np.all(np.isfinite(backend.numpy(spherical_encoding(narrow, narrow, 2))))


def test_dtypes(backend):
    xp = backend.xp
    single, wide = backend.array([1.0], "float32"), backend.array([1.0])
    whole = backend.array([1])
    assert spherical_encoding(single, single, 2).dtype == xp.float32
    assert spherical_encoding(whole, single, 2).dtype == xp.float32
    assert spherical_encoding(single, wide, 2).dtype == wide.dtype
    assert spherical_encoding(wide, single, 2).dtype == wide.dtype
    assert spherical_encoding(wide, wide, 2, dtype=xp.float32).dtype == xp.float32
    for dtype in () if backend.lazy else backend.half_dtypes:
        narrow = xp.astype(single, dtype)
        got = spherical_encoding(narrow, narrow, 2)
        assert got.dtype == dtype
        expected = backend.numpy(spherical_encoding(single, single, 2))
        np.testing.assert_allclose(backend.numpy(got).astype(float), expected, atol=4e-3)


def test_the_other_byte_order():
    expected = spherical_encoding(LATITUDES, LONGITUDES, 3)
    swapped = [a.astype(a.dtype.newbyteorder("S")) for a in (LATITUDES, LONGITUDES)]
    got = spherical_encoding(*swapped, 3)
    assert got.dtype == swapped[0].dtype
    np.testing.assert_array_equal(got, expected)


def test_nan_gives_nan(backend):
    """In all features, the constant one too."""
    nan = float("nan")
    latitude = backend.array([nan, 10.0, 10.0, 90.0, 10.0])
    longitude = backend.array([0.0, nan, np.inf, nan, 10.0])
    got = backend.numpy(spherical_encoding(latitude, longitude, 3))
    assert np.isnan(got[:, :4]).all()
    assert np.isfinite(got[:, 4]).all()
    radians = backend.numpy(spherical_encoding(latitude / 60, longitude, 3, unit="radians"))
    assert np.isnan(radians[:, :4]).all()


def test_a_longitude_without_a_place_gives_nan(backend):
    far = 2.0**52 if backend.wide == "float64" else 2.0**23
    got = backend.numpy(
        spherical_encoding(backend.array([1.0, 1.0]), backend.array([far, far - 360]), 2)
    )
    assert np.isnan(got[:, 0]).all()
    assert np.isfinite(got[:, 1]).all()
    assert np.isnan(
        spherical_encoding(np.asarray(1), np.asarray(2**64 - 1, dtype="uint64"), 1)
    ).all()


def test_a_float32_has_whole_degrees_up_to_two_to_the_23():
    import array_api_strict as strict

    device = strict.Device("no_float64")
    far = np.asarray([2.0**23 - 360, 2.0**23, 1.1 * 2.0**23], dtype=np.float32)
    places = [strict.asarray(a, device=device) for a in (0 * far, far)]
    got = np.from_dlpack(spherical_encoding(*places, 2).to_device(strict.Device("CPU_DEVICE")))
    assert np.isfinite(got).all(axis=0).tolist() == [True, False, False]


def test_multiples_of_far_quadrants_are_exact():
    """Also if a multiple of the number of quadrants exceeds the integers of a float."""
    far = np.asarray([90.0, 2.0**52 // 360 * 360 - 270, 450 - 2.0**52 // 360 * 360])
    cos, sin = sphere._cos_sin_of_multiples(far, 1023, "degrees", get_backend(x=far))
    np.testing.assert_array_equal(cos, np.tile([[1], [0], [-1], [0]], (256, 3)))
    np.testing.assert_array_equal(sin, np.tile([[0], [1], [0], [-1]], (256, 3)))


def test_a_latitude_beyond_a_pole_is_an_error_or_nan(backend):
    latitude, longitude = backend.array([10.0, 91.0, np.nan]), backend.array([1.0, 2.0, 3.0])
    if not backend.reads_values:
        got = backend.numpy(spherical_encoding(latitude, longitude, 2))
        np.testing.assert_array_equal(np.isnan(got), [[False, True, True]] * 9)
        return
    with pytest.raises(ValueError, match=r"`latitude` must be from -90 to 90 degrees, got 91\.0\."):
        spherical_encoding(latitude, longitude, 2)


@pytest.mark.library("torch")
def test_gradients_of_pytorch():
    """Equal to finite differences; at the poles, to one-sided ones."""
    import torch

    latitude = np.asarray([90.0, -90.0, 0.0, 45.0, 10.0])
    longitude = np.asarray([0.0, 30.0, 180.0, 90.0, 0.3])
    weights = np.random.default_rng(1).standard_normal((49, 5))
    places = [torch.tensor(a, requires_grad=True) for a in (latitude, longitude)]
    (spherical_encoding(*places, 6) * torch.tensor(weights)).sum().backward()
    north, east = (place.grad.numpy() for place in places)

    def loss(a, b):
        return (weights * spherical_encoding(a, b, 6)).sum(axis=0)

    step = np.asarray([-1e-6, 1e-6, 1e-6, 1e-6, 1e-6])
    slope = (loss(latitude + step, longitude) - loss(latitude, longitude)) / step
    np.testing.assert_allclose(north, slope, atol=1e-6)
    slope = (loss(latitude, longitude + step) - loss(latitude, longitude)) / step
    np.testing.assert_allclose(east, slope, atol=1e-6)


@pytest.mark.library("jax")
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_jax_compiles_a_loop_over_degrees(degree, x64):
    import jax

    latitude = np.asarray([90.0, -90.0, 0.0, 12.5, np.nan, 91.0])[:, None]
    longitude = np.asarray([0.0, -180.0, 7.3, np.nan])

    def encode(*coordinates):
        return spherical_encoding(*coordinates, degree, kernel="gaussian", length_scale=3000.0)

    with jax.enable_x64(x64):
        coordinates = jax.numpy.asarray(latitude), jax.numpy.asarray(longitude)
        compiled = jax.jit(encode)(*coordinates)
        assert ("scan" in str(jax.make_jaxpr(encode)(*coordinates))) == (degree > 0)
        latitude[5] = np.nan
        expected = np.asarray(encode(jax.numpy.asarray(latitude), coordinates[1]))
        atol = 1e-14 if x64 else 1e-6
        np.testing.assert_allclose(np.asarray(compiled), expected, atol=atol)


@pytest.mark.library("jax")
def test_gradients_of_jax():
    import jax

    with jax.enable_x64(True):
        latitude, longitude = (
            jax.numpy.asarray([90.0, -90.0, 10.0]),
            jax.numpy.asarray([0.0, 30.0, 7.0]),
        )

        def total(a, b):
            return (spherical_encoding(a, b, 4) ** 2).sum()

        # Sums of squares are the same everywhere.
        for gradient in jax.jit(jax.grad(total, argnums=(0, 1)))(latitude, longitude):
            np.testing.assert_allclose(np.asarray(gradient), 0, atol=1e-14)


@pytest.mark.library("torch")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_pytorch_compiles_it_whole():
    import torch

    latitude, longitude = torch.linspace(-90, 90, 7), torch.linspace(-180, 180, 7)
    expected = spherical_encoding(latitude, longitude, 3)
    compiled = torch.compile(spherical_encoding, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(latitude, longitude, 3), expected)


# Kernels: a scale in km, and the smoothness, infinite if Gaussian.
SPECTRA = [(km, nu) for km in (300, 1000, 3000, 10_000) for nu in (0.5, 1.5, 2.5, math.inf)]
RADIUS = 6371.0088


def kernel_options(km, nu):
    if nu == math.inf:
        return {"kernel": "gaussian", "length_scale": km}
    return {"kernel": "matern", "length_scale": km, "nu": nu}


def spectral_weight(degree, km, nu):
    """Borovitskiy et al. (2020), section 3.2, for the sphere; 1 at degree 0."""
    squared, eigenvalue = (mpmath.mpf(km) / RADIUS) ** 2, mpmath.mpf(degree) * (degree + 1)
    if nu == math.inf:
        return mpmath.exp(-squared * eigenvalue / 2)
    return (1 + squared * eigenvalue / (2 * mpmath.mpf(nu))) ** -(mpmath.mpf(nu) + 1)


def sum_beyond(degree, km, nu):
    """The sum of 2 l + 1 times the weights of all degrees l beyond one, to 20 digits."""

    def term(n):
        return (2 * n + 1) * spectral_weight(n, km, nu)

    with mpmath.workdps(30):
        if nu == math.inf:
            return mpmath.fsum(map(term, range(degree + 1, int(13 * RADIUS / km) + 3)))
        start = max(degree + 1, int(20 * RADIUS / km))
        first = mpmath.fsum(map(term, range(degree + 1, start)))
        return first + mpmath.sumem(term, [start, mpmath.inf], tol=mpmath.mpf(10) ** -20)


@pytest.mark.parametrize(("km", "nu"), SPECTRA)
def test_truncation_errors_are_what_is_left_out(km, nu):
    everything = sum_beyond(-1, km, nu)
    for degree in (0, 7, 40, 300, 1023):
        exact = sum_beyond(degree, km, nu) / everything
        got = spherical_truncation_error(degree, **kernel_options(km, nu))
        assert abs(got - exact) <= 2e-8 * exact + 1e-30
    radians = kernel_options(km, nu) | {"length_scale": km / RADIUS, "length_unit": "radians"}
    assert spherical_truncation_error(1023, **radians) == pytest.approx(got, rel=1e-12)


@pytest.mark.parametrize(("km", "nu"), [(1000, 1.5), (3000, 0.5), (3000, math.inf), (10_000, 2.5)])
def test_scalar_products_are_the_kernel_within_the_stated_error(backend, km, nu):
    """The series of the addition theorem by mpmath, to a degree far beyond."""
    angles = [0.0, 0.01, 0.3, 1.0, 2.0, math.pi]
    latitude = np.degrees(np.pi / 2 - np.asarray(angles))  # on one meridian, from the pole
    degree = 20
    options = kernel_options(km, nu)
    z = spherical_encoding(backend.array(latitude), backend.array(np.zeros(6)), degree, **options)
    got = np.einsum(
        "i,ij->j", *(backend.numpy(z).astype(float)[:, cut] for cut in (0, slice(None)))
    )
    far, error = 700, spherical_truncation_error(degree, **options)
    total = sum_beyond(-1, km, nu)
    beyond = sum_beyond(far, km, nu) / total
    rounding = 1e-13 if backend.wide == "float64" else 1e-5
    with mpmath.workdps(25):
        terms = [(2 * n + 1) * spectral_weight(n, km, nu) / total for n in range(far + 1)]
        for angle, product in zip(angles, got, strict=True):
            x = mpmath.cos(angle)
            legendre, before, sums = mpmath.mpf(1), mpmath.mpf(0), []
            for n, term in enumerate(terms):
                sums.append(term * legendre)
                legendre, before = ((2 * n + 1) * x * legendre - n * before) / (n + 1), legendre
            assert abs(product - mpmath.fsum(sums[: degree + 1])) < rounding
            assert abs(product - mpmath.fsum(sums)) <= error + beyond + rounding
    # At distance 0 the error is the truncation error.
    assert got[0] == pytest.approx(1 - error, abs=rounding)


def covariance_of(places, km, nu):
    """Return the covariance of random points, after a check of their variances."""
    rng = np.random.default_rng(0)
    latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, places)))
    tolerance = 0.3 if nu == 0.5 else 0.05  # rough kernels have many degrees
    options = kernel_options(km, nu) | {"tolerance": tolerance}
    z = spherical_encoding(latitude, rng.uniform(0, 360, places), **options)
    np.testing.assert_allclose(np.sum(z**2, axis=0), 1, rtol=0, atol=tolerance)
    return z.T @ z


@pytest.mark.parametrize(("km", "nu"), SPECTRA)
def test_covariances_are_positive_semidefinite(km, nu):
    eigenvalues = np.linalg.eigvalsh(covariance_of(300, km, nu))
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


# Rough kernels of small scales have thousands of features.
MANY_FEATURES = [pytest.param(300, nu, marks=pytest.mark.long) for nu in (0.5, 1.5, 2.5, math.inf)]


@pytest.mark.parametrize(("km", "nu"), [*SPECTRA[4:], *MANY_FEATURES])
def test_covariances_of_many_places_are_positive_semidefinite(km, nu):
    """With 1e-12 of the largest eigenvalue added, there is a factor of Cholesky: none is below."""
    covariance = covariance_of(2000, km, nu)
    vector = np.ones(2000)
    for _ in range(10):  # the power method, which is never above the largest eigenvalue
        vector = covariance @ vector
        vector /= np.linalg.norm(vector)
    largest = vector @ covariance @ vector
    np.linalg.cholesky(covariance + 1e-12 * largest * np.eye(2000))


def test_a_matern_kernel_of_great_circle_distances_is_none():
    """Kernels of the plane have a negative eigenvalue on the sphere; these kernels have none."""
    rng = np.random.default_rng(0)
    latitude, longitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 300))), rng.uniform(0, 360, 300)
    unit = spherical_encoding(latitude, longitude, 1)[1:] * math.sqrt(4 * math.pi / 3)
    distance = np.arccos(np.clip(unit.T @ unit, -1, 1)) * RADIUS
    scaled = math.sqrt(5) * distance / 10_000
    planar = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    eigenvalues = np.linalg.eigvalsh(planar)
    assert eigenvalues[0] < -1e-4 * eigenvalues[-1]


@pytest.mark.parametrize(("km", "nu"), [(3000, 1.5), (1000, math.inf)])
def test_small_scales_are_kernels_of_a_plane(km, nu):
    km = km / 10
    degrees = np.asarray([0.0, 0.5, 1.0, 2.0]) * math.degrees(km / RADIUS)
    z = spherical_encoding(degrees, np.zeros(4), 600, **kernel_options(km, nu))
    r = np.asarray([0.0, 0.5, 1.0, 2.0])
    a = math.sqrt(3) * r
    planar = np.exp(-(r**2) / 2) if nu == math.inf else (1 + a) * np.exp(-a)
    np.testing.assert_allclose(z[:, 0] @ z, planar, rtol=0, atol=3e-3)


def test_the_least_degree_that_keeps_a_tolerance():
    options = kernel_options(2000, 1.5)
    for tolerance in (None, 0.3, 1e-4, 0.9999):
        z = spherical_encoding(np.zeros(1), np.zeros(1), tolerance=tolerance, **options)
        degree, most = math.isqrt(z.shape[0]) - 1, 0.01 if tolerance is None else tolerance
        assert spherical_truncation_error(degree, **options) <= most
        assert degree == 0 or spherical_truncation_error(degree - 1, **options) > most
    whole = spherical_encoding(np.zeros(2), np.zeros(2), kernel="gaussian", length_scale=1e9)
    np.testing.assert_allclose(whole, [[1.0, 1.0]], rtol=0, atol=1e-15)
    assert spherical_encoding(
        np.zeros(2), np.zeros(2), 0, kernel="matern", length_scale=1e9
    ).shape == (1, 2)
