"""Fourier features against NeRF's formula and mpmath, and their laws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import fourier_encoding, log_wavelengths, octave_wavelengths

WAVELENGTHS = [0.3, 2.0, 7, 365.25]


def fourier(x, wavelengths, arrangement="interleaved"):
    """Sine and cosine of 2 pi x over each wavelength, for one number."""
    sines = [math.sin(2 * math.pi * x / length) for length in wavelengths]
    cosines = [math.cos(2 * math.pi * x / length) for length in wavelengths]
    if arrangement == "concatenated":
        return sines + cosines
    return [value for pair in zip(sines, cosines, strict=True) for value in pair]


def nerf(x, octaves):
    """Mildenhall et al., equation 4, for one coordinate."""
    values = []
    for octave in range(octaves):
        angle = 2**octave * math.pi * x
        values += [math.sin(angle), math.cos(angle)]
    return values


def exact(x, wavelengths):
    """The same in 80 digits, interleaved."""
    with mpmath.workdps(80):
        angles = [2 * mpmath.pi * mpmath.mpf(x) / mpmath.mpf(length) for length in wavelengths]
        return [f(angle) for angle in angles for f in (mpmath.sin, mpmath.cos)]


def worst_error(got, x, wavelengths):
    """Return the maximum error of features (2 * len(wavelengths), len(x))."""
    errors = [
        abs(mpmath.mpf(float(value)) - right)
        for column, number in zip(got.T, x, strict=True)
        for value, right in zip(column, exact(number, wavelengths), strict=True)
    ]
    return float(max(errors))


@given(
    x=st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4),
    arrangement=st.sampled_from(["interleaved", "concatenated"]),
)
def test_values(backend, x, arrangement):
    array = backend.array(np.asarray(x)[None, :, None], "float64")
    got = backend.numpy(fourier_encoding(array, WAVELENGTHS, arrangement=arrangement))
    assert got.shape == (8, 1, len(x), 1)
    expected = np.transpose([fourier(number, WAVELENGTHS, arrangement) for number in x])
    np.testing.assert_allclose(got[:, 0, :, 0], expected, atol=backend.tolerance())


@pytest.mark.parametrize(("preset", "octaves"), [("nerf", 10), ("nerf_directions", 4)])
def test_presets_are_nerfs(backend, preset, octaves):
    x = np.linspace(-1, 1, 33)
    got = backend.numpy(fourier_encoding(backend.array(x), preset=preset))
    expected = np.transpose([nerf(number, octaves) for number in x])
    np.testing.assert_allclose(got, expected, atol=backend.tolerance())
    same = fourier_encoding(backend.array(x), octave_wavelengths(octaves))
    np.testing.assert_array_equal(got, backend.numpy(same))


def test_what_wavelengths_may_be():
    x = np.linspace(-3, 3, 5)
    expected = fourier_encoding(x, [2.0, 8.0])
    for wavelengths in ((2, 8), np.asarray([2, 8]), np.asarray([2, 8], "float32"), [2, np.int8(8)]):
        np.testing.assert_array_equal(fourier_encoding(x, wavelengths), expected)


def test_one_wavelength_is_a_list_of_it(backend):
    x = backend.array(np.linspace(-3, 3, 5))
    expected = backend.numpy(fourier_encoding(x, [4.0]))
    for wavelengths in (4, 4.0, np.float32(4)):
        got = backend.numpy(fourier_encoding(x, wavelengths))
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("scale", [1, 1e4, 1e8, 1e12, 1e16, 9e18])
def test_far_coordinates(scale):
    x = np.random.default_rng(0).uniform(-scale, scale, 10)
    wavelengths = [365.25, 24, 1 / 3, 2 * math.pi, 1e-9, 1e25]
    assert worst_error(fourier_encoding(x, wavelengths), x.tolist(), wavelengths) < 2.5e-16
    whole = x.astype("int64")
    assert worst_error(fourier_encoding(whole, wavelengths), whole.tolist(), wavelengths) < 2.5e-16


def test_far_coordinates_on_every_device(backend):
    wavelengths = [365.25, 1 / 3, 0.1]
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 3.1e-8
    for x in (
        np.asarray([1.25 * 2**34, -3.5, 2.0**50, -1e5], "float32"),
        np.asarray([2**31 - 1, -(2**31) + 1, 123_456_789]),
    ):
        features = fourier_encoding(
            backend.array(x), wavelengths, dtype=getattr(backend.xp, backend.wide)
        )
        assert worst_error(backend.numpy(features), x.tolist(), wavelengths) < bound


def test_the_shortest_wavelength_is_still_exact():
    x, wavelengths = [2**63 - 1, -(2**62) + 3], [2.0**-64 * 1.37]
    assert worst_error(fourier_encoding(np.asarray(x), wavelengths), x, wavelengths) < 2.5e-16


@given(
    x=st.floats(-1e6, 1e6),
    other=st.floats(-1e6, 1e6),
    shift=st.integers(-(2**20), 2**20),
)
def test_scalar_products_depend_on_the_distance_only(x, other, shift):
    x, other = math.floor(x * 8) / 8, math.floor(other * 8) / 8  # so that sums are exact

    def product(a, b):
        features = fourier_encoding(np.asarray([a, b]), WAVELENGTHS)
        return features[:, 0] @ features[:, 1]

    assert product(x, x) == pytest.approx(len(WAVELENGTHS), abs=1e-14)
    assert product(x + shift, other + shift) == pytest.approx(product(x, other), abs=1e-14)


def test_dtypes(backend):
    xp, whole = backend.xp, backend.array(np.arange(4))
    default = xp.__array_namespace_info__().default_dtypes(device=backend.device)["real floating"]
    assert fourier_encoding(whole, [3.0]).dtype == default
    expected = np.transpose([fourier(number, [3.0]) for number in range(4)])
    for dtype in (xp.float32, getattr(xp, backend.wide), *backend.half_dtypes):
        for features in (
            fourier_encoding(whole, [3.0], dtype=dtype),
            fourier_encoding(xp.astype(whole, dtype), [3.0]),
        ):
            assert features.dtype == dtype
            got = backend.numpy(features).astype("float64")
            np.testing.assert_allclose(got, expected, atol=4e-3)


def test_no_axes_and_no_coordinates(backend):
    got = fourier_encoding(backend.array(np.asarray(3.0)), WAVELENGTHS)
    expected = fourier(3.0, WAVELENGTHS)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
    for arrangement in ("interleaved", "concatenated"):
        empty = backend.array(np.zeros((2, 0)))
        got = fourier_encoding(empty, WAVELENGTHS, arrangement=arrangement)
        assert tuple(got.shape) == (8, 2, 0)


def test_coordinates_that_are_not_finite_give_nan(backend):
    x = backend.array(np.asarray([np.nan, np.inf, -np.inf, 2.0**64, 1.0]))
    got = np.isnan(backend.numpy(fourier_encoding(x, WAVELENGTHS)))
    np.testing.assert_array_equal(got, np.tile([True, True, True, True, False], (8, 1)))


def test_many_points_of_any_strides_are_as_few():
    x = np.random.default_rng(0).uniform(-1e3, 1e3, (60, 700))
    for arrangement in ("interleaved", "concatenated"):
        whole = fourier_encoding(x.T[::-1], WAVELENGTHS, arrangement=arrangement)
        for i in (0, 350, 699):
            few = fourier_encoding(x[::7, i].copy(), WAVELENGTHS, arrangement=arrangement)
            np.testing.assert_array_equal(whole[:, 699 - i, ::7], few)


def slopes(x, wavelengths):
    """The derivative of each feature, interleaved."""
    rates = np.repeat(2 * np.pi / np.asarray(wavelengths, dtype=float), 2)
    values = np.asarray(fourier(x, wavelengths))
    return rates * np.stack([values[1::2], -values[::2]], axis=1).ravel()


@pytest.mark.library("torch")
def test_gradients_in_torch():
    import torch

    x = torch.tensor([0.0, 0.5, -3.25, 91.3125, 1e3], dtype=torch.float64, requires_grad=True)
    rows = torch.autograd.functional.jacobian(lambda x: fourier_encoding(x, WAVELENGTHS), x)
    expected = np.transpose([slopes(number, WAVELENGTHS) for number in x.tolist()])
    np.testing.assert_allclose(rows.sum(-1).numpy(), expected, atol=1e-11)


@pytest.mark.library("jax")
@pytest.mark.parametrize("x64", [False, True])
def test_gradients_in_jax(x64):
    import jax

    with jax.enable_x64(x64):
        slope = jax.jit(jax.vmap(jax.jacfwd(lambda x: fourier_encoding(x, WAVELENGTHS))))
        x = np.asarray([0.0, 0.5, -3.25, 91.3125])
        got = np.asarray(slope(jax.numpy.asarray(x))).T
    expected = np.transpose([slopes(number, WAVELENGTHS) for number in x])
    np.testing.assert_allclose(got, expected, atol=1e-11 if x64 else 1e-4)


@pytest.mark.library("dask")
def test_dask_keeps_chunks_and_unknown_lengths():
    import dask.array as dask

    x = np.linspace(-5, 5, 20)
    chunked = dask.from_array(x, chunks=6)
    got = fourier_encoding(chunked, WAVELENGTHS)
    assert got.chunks[1] == (6, 6, 6, 2)
    np.testing.assert_array_equal(got.compute(), fourier_encoding(x, WAVELENGTHS))
    unknown = fourier_encoding(chunked[chunked > 0], WAVELENGTHS)
    np.testing.assert_array_equal(unknown.compute(), fourier_encoding(x[x > 0], WAVELENGTHS))


@pytest.mark.library("torch")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_torch_compiles_it_whole_and_maps_it():
    import torch

    x = torch.linspace(-5, 5, 12, dtype=torch.float64).reshape(3, 4)
    calls = [
        lambda x: fourier_encoding(x, WAVELENGTHS),
        lambda x: fourier_encoding(x, 4.0),
        lambda x: fourier_encoding(x, preset="nerf", arrangement="concatenated"),
    ]
    for call in calls:
        compiled = torch.compile(call, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), call(x), atol=1e-15, rtol=0)
        each = torch.stack([call(row) for row in x])
        torch.testing.assert_close(torch.func.vmap(call)(x), each, atol=1e-15, rtol=0)


@given(n=st.integers(1, 60), longest=st.one_of(st.floats(0.5, 1e20), st.integers(1, 2**99)))
def test_octaves(n, longest):
    got = octave_wavelengths(n, longest=longest)
    assert (got.dtype, got.shape, got[0]) == ("float64", (n,), float(longest))
    assert (got[:-1] == 2 * got[1:]).all()


@given(
    shortest=st.floats(1e-18, 1e3),
    ratio=st.floats(1.0, 1e20),
    n=st.integers(2, 30),
)
def test_log_wavelengths_are_the_nearest_floats(shortest, ratio, n):
    longest = shortest * ratio
    got = log_wavelengths(shortest, longest, n)
    assert (got.dtype, got[0], got[-1]) == ("float64", shortest, longest)
    assert (np.diff(got) >= 0).all()
    with mpmath.workdps(60):
        first, ratio = mpmath.mpf(shortest), mpmath.mpf(longest) / mpmath.mpf(shortest)
        expected = [float(first * ratio ** (mpmath.mpf(i) / (n - 1))) for i in range(n)]
    np.testing.assert_array_equal(got, expected)


def test_one_log_wavelength():
    np.testing.assert_array_equal(log_wavelengths(3, 3.0, 1), [3.0])
    np.testing.assert_array_equal(log_wavelengths(1, 1024, 11), 2.0 ** np.arange(11))


def test_the_shortest_and_the_longest_wavelength():
    encoding = fourier_encoding(np.asarray([2.0**-66, 2.0**62]), [2.0**-64, 2.0**100])
    angle = 2 * np.pi * 2.0**-38
    np.testing.assert_allclose(encoding[:2, 0], [1, 0], atol=1e-15)
    np.testing.assert_allclose(encoding[2:, 1], [np.sin(angle), np.cos(angle)], rtol=1e-15)
    assert octave_wavelengths(66)[-1] == 2.0**-64
    for beyond in (2.0**-65, 2.0**101):
        with pytest.raises(ValueError, match=r"must be between 2\*\*-64 and 2\*\*100, got"):
            fourier_encoding(np.zeros(1), [beyond])
