"""Cyclic features against plain loops and mpmath, and their wrapping."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from positional_embeddings import cyclic_encoding


def cyclic(x, periods, harmonics):
    """Sine and cosine of every harmonic of every period, for one number."""
    values = []
    for period, count in zip(periods, harmonics, strict=True):
        for h in range(1, count + 1):
            angle = 2 * math.pi * h * x / period
            values += [math.sin(angle), math.cos(angle)]
    return values


def exact(x, period, harmonics):
    """The same for one period, from the exact fraction of a cycle."""
    values = []
    for h in range(1, harmonics + 1):
        cycles = h * Fraction(x) / Fraction(period) % 1
        with mpmath.workdps(40):
            angle = 2 * mpmath.pi * cycles.numerator / cycles.denominator
            values += [mpmath.sin(angle), mpmath.cos(angle)]
    return values


def worst_error(got, x, period, harmonics):
    errors = [
        abs(mpmath.mpf(float(value)) - right)
        for column, number in zip(got.T, x, strict=True)
        for value, right in zip(column, exact(number, period, harmonics), strict=True)
    ]
    return float(max(errors))


def last_digit(features):
    """Maximum difference of features of equal phase: two half units in the last place below 1."""
    return float(np.finfo(features.dtype).epsneg)


@given(
    x=st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4),
    periods=st.permutations([0.75, 7, 24.0, 365.25]).map(lambda periods: periods[:2]),
    counts=st.sampled_from([(1, 1), (3, 2)]),
)
def test_values(backend, x, periods, counts):
    array = backend.array(np.asarray(x)[None, :, None], "float64")
    got = backend.numpy(cyclic_encoding(array, periods, counts))
    assert got.shape == (2 * sum(counts), 1, len(x), 1)
    expected = np.transpose([cyclic(number, periods, counts) for number in x])
    tolerance = 1e-11 if backend.wide == "float64" else 2e-6
    np.testing.assert_allclose(got[:, 0, :, 0], expected, atol=tolerance)


@pytest.mark.parametrize("scale", [1, 1e4, 1e8, 1e12, 1e16, 2.0**63])
@pytest.mark.parametrize("period", [365.25, 24, 1 / 3, 2 * math.pi, 1e-9, 1e25])
def test_far_coordinates(scale, period):
    x = np.random.default_rng(0).uniform(-scale, scale, 8)
    assert worst_error(cyclic_encoding(x, period, 4), x.tolist(), period, 4) < 2.5e-16


@given(
    x=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6),
    period=st.one_of(st.floats(1e-3, 2.0**53), st.integers(1, 2**53)),
)
@example(x=[-(2**63), 2**63 - 1, 2**53 + 1], period=365.25)
def test_integers_of_64_bits(x, period):
    assert worst_error(cyclic_encoding(np.asarray(x), period, 3), x, period, 3) < 2.5e-16


def test_integers_of_64_bits_without_a_sign():
    x = [2**63 - 1, 2**63, 2**64 - 1]
    got = cyclic_encoding(np.asarray(x, "uint64"), 365.25, 3)
    assert worst_error(got, x, 365.25, 3) < 2.5e-16


def test_integers_of_many_digits_in_a_long_period_keep_their_phase():
    x, period = [2**63 - 1, 2**62 + 12345, -(2**61) - 7], 1e17
    assert worst_error(cyclic_encoding(np.asarray(x), period, 2), x, period, 2) < 2.5e-16


def test_far_coordinates_on_every_device(backend):
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 1.3e-7
    dtype = getattr(backend.xp, backend.wide)
    for x in (
        np.asarray([1.25 * 2**34, -3.5, 2.0**50, -1e5, 2.0**60], "float32"),
        np.asarray([2**31 - 1, -(2**31) + 1, 123_456_789]),
    ):
        for period in (365.25, 24, 0.1):
            features = cyclic_encoding(backend.array(x), period, 7, dtype=dtype)
            assert worst_error(backend.numpy(features), x.tolist(), period, 7) < bound


@pytest.mark.parametrize("period", [0.5, 2.0**-64, 1e-12, 2.0**100])
def test_the_farthest_coordinates(backend, period):
    """A library may compute long and short arrays differently."""
    x = [2.0**63, -(2.0**63), 2.0**62 / 3, 2.0**40] * 9
    x = np.asarray(x, backend.wide)
    features = backend.numpy(cyclic_encoding(backend.array(x), period, 3))
    bound = 2.5e-16 + backend.sine_error if backend.has_float64 else 1.3e-7
    assert worst_error(features[:, :4], x.tolist()[:4], period, 3) < bound
    assert np.array_equal(features, np.tile(features[:, :4], 9))
    beyond = backend.array(np.nextafter(x[:2], 2 * x[:2]))
    assert np.isnan(backend.numpy(cyclic_encoding(beyond, period))).all()


PERIODS = [365.25, 360, 24, 1, 0.75, 86_400]


@given(
    eighths=st.integers(-(2**11), 2**11),
    cycles=st.lists(st.integers(-1000, 1000), min_size=9, max_size=9),
    period=st.sampled_from(PERIODS),
)
def test_wrapping(backend, eighths, cycles, period):
    near = Fraction(eighths, 8)
    x = [near + k * Fraction(period) for k in (0, *cycles)]
    # Differences that float32 does not represent are not exact.
    x = [number if float(np.float32(float(number))) == number else near for number in x]
    array = backend.array(np.asarray(x, "float64"))
    got = backend.numpy(cyclic_encoding(array, period, 7))
    np.testing.assert_allclose(got, got[:, :1] + 0 * got, rtol=0, atol=last_digit(got))


def test_multiples_of_a_period_of_any_digits():
    for period in (0.1, math.pi, 1e-7):
        multiples = period * 2.0 ** np.arange(-2, 60)
        got = cyclic_encoding(np.concatenate([multiples, -multiples]), period)
        expected = np.tile([[1, 0] + [0] * 60, [0, -1] + [1] * 60], 2)
        expected[0, 62] = -1
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-17)


def test_what_the_days_and_longitudes_of_the_manual_say(backend):
    def same(first, second, period):
        pair = backend.array(np.asarray([first, second], "float64"))
        got = backend.numpy(cyclic_encoding(pair, period, 3))
        np.testing.assert_allclose(got[:, 0], got[:, 1], rtol=0, atol=last_digit(got))
        return got[:, 0]

    same(366, 0.75, 365.25)
    same(-1, 364.25, 365.25)
    np.testing.assert_allclose(same(180, -180, 360), [0, -1, 0, 1, 0, -1], atol=1e-7)
    whole = backend.array(np.asarray([366, 731, -1]))
    real = backend.array(np.asarray([0.75, 0.5, 364.25]))
    dtype = getattr(backend.xp, backend.wide)
    got = [backend.numpy(cyclic_encoding(x, 365.25, 9, dtype=dtype)) for x in (whole, real)]
    np.testing.assert_allclose(*got, rtol=0, atol=last_digit(got[0]))


@pytest.mark.parametrize("period", [24, 365.25, 12.0, 0.1])
def test_quarters_of_every_harmonic(backend, period):
    period = float(np.float32(period))  # every device supports float32
    harmonics = 60
    quarters = np.arange(-480, 481) / 240  # float32 does not represent all
    x = (quarters * period).astype("float32").astype("float64")
    got = backend.numpy(cyclic_encoding(backend.array(x), period, harmonics))
    seen = set()
    for number, features in zip(x.tolist(), got.T, strict=True):
        for h in range(1, harmonics + 1):
            quarter = 4 * h * Fraction(number) / Fraction(period)
            if quarter.denominator == 1:
                seen.add(h)
                expected = [(0, 1), (1, 0), (0, -1), (-1, 0)][int(quarter) % 4]
                assert abs(features[2 * h - 2 : 2 * h] - expected).max() <= last_digit(features)
    assert seen == set(range(1, harmonics + 1))


def test_most_harmonics(backend):
    x = np.asarray([0.3, -5.75, 100.5, 11.999], "float32").astype("float64")
    got = backend.numpy(cyclic_encoding(backend.array(x), 24, 1024))
    bound = 2.5e-16 + backend.sine_error if backend.wide == "float64" else 2e-7
    assert worst_error(got, x.tolist(), 24, 1024) < bound
    with pytest.raises(ValueError, match=r"`harmonics` must be at most 2\*\*10, got 1025"):
        cyclic_encoding(backend.array(x), 24, 1025)


@pytest.mark.parametrize("period", [1 / 3, 2 * math.pi, 365.25])
def test_integers_of_64_bits_in_float32(period):
    import array_api_strict as strict

    x, period = [2**62 - 1, -(2**61) + 12345, 2**40 + 7, -5], float(np.float32(period))
    integers = strict.asarray(np.asarray(x), device=strict.Device("no_float64"))
    got = cyclic_encoding(integers, period, 1024).to_device(strict.Device("CPU_DEVICE"))
    assert worst_error(np.asarray(got), x, period, 1024) < 6e-8


def test_most_harmonics_in_float32():
    import array_api_strict as strict

    device, cpu = strict.Device("no_float64"), strict.Device("CPU_DEVICE")
    for period in (float(np.float32(16.01)), 24.0):
        x = np.random.default_rng(0).uniform(-period, period, 200).astype("float32")
        got = cyclic_encoding(strict.asarray(x, device=device), period, 1024).to_device(cpu)
        # Exact products of 35 bits, and an exact remainder.
        harmonic = np.arange(1, 1025)[:, None]
        angle = 2 * np.pi / period * np.remainder(harmonic * x.astype("float64"), period)
        np.testing.assert_allclose(np.asarray(got)[::2], np.sin(angle), rtol=0, atol=1.1e-7)
        np.testing.assert_allclose(np.asarray(got)[1::2], np.cos(angle), rtol=0, atol=1.1e-7)


@given(x=st.floats(-1e6, 1e6), other=st.floats(-1e6, 1e6), shift=st.integers(-(2**20), 2**20))
def test_scalar_products_depend_on_the_distance_only(x, other, shift):
    x, other = math.floor(x * 8) / 8, math.floor(other * 8) / 8  # so that sums are exact

    def product(a, b):
        features = cyclic_encoding(np.asarray([a, b]), [24, 365.25], [3, 2])
        return features[:, 0] @ features[:, 1]

    assert product(x, x) == pytest.approx(5, abs=1e-14)
    assert product(x + shift, other + shift) == pytest.approx(product(x, other), abs=1e-14)


def test_several_periods_are_what_each_gives(backend):
    x = backend.array(np.linspace(-50, 50, 12).reshape(3, 4))
    periods, counts = np.asarray([24, 1.5, 7]), np.asarray([2, 1, 3])
    got = backend.numpy(cyclic_encoding(x, periods, counts))
    parts = [
        backend.numpy(cyclic_encoding(x, float(period), int(count)))
        for period, count in zip(periods, counts, strict=True)
    ]
    # Each is compiled separately.
    tolerance = 2.5e-16 if got.dtype == "float64" else 1.3e-7
    np.testing.assert_allclose(got, np.concatenate(parts), rtol=0, atol=tolerance)
    same = backend.numpy(cyclic_encoding(x, (24, 1.5, 7), 2))
    np.testing.assert_allclose(same[:2], got[:2], rtol=0, atol=tolerance)
    assert same.shape == (12, 3, 4)


def test_float32_is_widened_first():
    x = np.random.default_rng(0).uniform(-1e6, 1e6, 50).astype("float32")
    got = cyclic_encoding(x, 365.2425, 3)
    assert got.dtype == "float32"
    wide = cyclic_encoding(x.astype("float64"), 365.2425, 3)
    np.testing.assert_allclose(got, wide, atol=3.1e-8, rtol=0)


def test_dtypes(backend):
    xp, whole = backend.xp, backend.array(np.arange(4))
    default = xp.__array_namespace_info__().default_dtypes(device=backend.device)["real floating"]
    assert cyclic_encoding(whole, 3).dtype == default
    expected = np.transpose([cyclic(number, [3], [2]) for number in range(4)])
    for dtype in (xp.float32, getattr(xp, backend.wide), *backend.half_dtypes):
        for features in (
            cyclic_encoding(whole, 3, 2, dtype=dtype),
            cyclic_encoding(xp.astype(whole, dtype), 3, 2),
        ):
            assert features.dtype == dtype
            got = backend.numpy(features).astype("float64")
            np.testing.assert_allclose(got, expected, atol=4e-3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integers_of_every_width(backend, dtype):
    top = np.iinfo(dtype).max
    x = np.asarray([0, 1, 100, top - 1, top], dtype)
    got = backend.numpy(cyclic_encoding(backend.array(x), 7, 2)).astype("float64")
    expected = np.transpose([exact(number, 7, 2) for number in x.tolist()]).astype("float64")
    np.testing.assert_allclose(got, expected, atol=2e-7)


def test_no_axes_and_no_coordinates(backend):
    got = cyclic_encoding(backend.array(np.asarray(3.0)), [7, 24])
    expected = cyclic(3.0, [7, 24], [1, 1])
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
    for dtype in ("float64", "int64"):
        got = cyclic_encoding(backend.array(np.zeros((2, 0), dtype)), [7, 24], [2, 1])
        assert tuple(got.shape) == (6, 2, 0)


def test_coordinates_that_are_not_finite_give_nan(backend):
    x = backend.array(np.asarray([np.nan, np.inf, -np.inf, 2.0**60, 1.0]))
    got = np.isnan(backend.numpy(cyclic_encoding(x, [24, 7], 2)))
    np.testing.assert_array_equal(got, np.tile([True, True, True, False, False], (8, 1)))


def slopes(x, period, harmonics):
    """The derivative of each feature."""
    rates = np.repeat(2 * np.pi * np.arange(1, harmonics + 1) / period, 2)
    values = np.asarray(exact(x, period, harmonics), dtype=float)
    return rates * np.stack([values[1::2], -values[::2]], axis=1).ravel()


# Also where the remainder jumps, and at quarters of a period.
PLACES = [0.0, -0.0, 12.0, -12.0, 6.0, 18.0, 24.0, -48.0, 7.25, 1000.5, -3.75]


@pytest.mark.library("torch")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_in_torch(dtype):
    import torch

    x = torch.tensor(PLACES, dtype=getattr(torch, dtype))
    rows = torch.autograd.functional.jacobian(lambda x: cyclic_encoding(x, [24, 24], 3), x)
    expected = np.transpose([slopes(number, 24, 3) for number in PLACES])
    tolerance = 1e-14 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(rows.sum(-1).numpy(), np.tile(expected, (2, 1)), atol=tolerance)


@pytest.mark.library("jax")
@pytest.mark.parametrize("x64", [False, True])
def test_gradients_in_jax(x64):
    import jax

    with jax.enable_x64(x64):
        for transform in (jax.jacfwd, jax.jacrev):
            slope = jax.jit(jax.vmap(transform(lambda x: cyclic_encoding(x, 24, 3))))
            got = np.asarray(slope(jax.numpy.asarray(PLACES))).T
            expected = np.transpose([slopes(number, 24, 3) for number in PLACES])
            np.testing.assert_allclose(got, expected, atol=1e-14 if x64 else 1e-6)


@pytest.mark.library("dask")
def test_dask_keeps_chunks_and_unknown_lengths():
    import dask.array as dask

    x = np.linspace(-50, 50, 20)
    chunked = dask.from_array(x, chunks=6)
    got = cyclic_encoding(chunked, [24, 7], 2)
    assert got.chunks[1] == (6, 6, 6, 2)
    np.testing.assert_array_equal(got.compute(), cyclic_encoding(x, [24, 7], 2))
    unknown = cyclic_encoding(chunked[chunked > 0], [24, 7], 2)
    np.testing.assert_array_equal(unknown.compute(), cyclic_encoding(x[x > 0], [24, 7], 2))


@pytest.mark.library("torch")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_torch_compiles_it_whole_and_maps_it():
    import torch

    x = torch.linspace(-50, 50, 12, dtype=torch.float64).reshape(3, 4)
    calls = [
        lambda x: cyclic_encoding(x, 24, 3),
        lambda x: cyclic_encoding(x.to(torch.int64), [365.25, 7], [1, 2]),
    ]
    for call in calls:
        compiled = torch.compile(call, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), call(x), atol=1e-15, rtol=0)
        each = torch.stack([call(row) for row in x])
        torch.testing.assert_close(torch.func.vmap(call)(x), each, atol=1e-15, rtol=0)
    compiled = torch.compile(cyclic_encoding, fullgraph=True, backend="eager")
    for period, harmonics in ((24, 2), (25, 2), (24.5, 3), (26.5, 4)):
        expected = cyclic_encoding(x, period, harmonics)
        torch.testing.assert_close(compiled(x, period, harmonics), expected, atol=1e-15, rtol=0)
