"""The kernels: their weights, where searches for their widths begin, periods and clocks."""

import math
import pickle
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde
from sklearn.base import clone

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
    SphereKernel,
)

# The Gregorian calendar repeats after 400 years.
DAYS = Fraction(400 * 365 + 97)
LENGTHS = {
    "day": Fraction(1),
    "week": Fraction(7),
    "month": DAYS / 4800,
    "quarter": DAYS / 1600,
    "year": DAYS / 400,
}
NUMBERS, TIMES = np.arange(4.0)[:, None], np.arange(4).astype("M8[D]")


def resolved(kernel, x=NUMBERS):
    """Return the kernel of a regressor, with numbers for names and spans."""
    return AttentionRegressor(kernel).fit(x, np.arange(len(x))).kernel_


# Weights.


def matern(r, nu):
    a = math.sqrt(2 * nu) * r
    return (1 + {0.5: 0, 1.5: a, 2.5: a + a**2 / 3}[nu]) * math.exp(-a)


# The weight of each kernel of length scale 3 at a distance.
WEIGHTS = {
    "gaussian": (GaussianKernel(3.0), lambda d: math.exp(-(d**2) / 18)),
    "matern 1/2": (MaternKernel(3.0, nu=0.5), lambda d: matern(d / 3, 0.5)),
    "matern": (MaternKernel(3.0), lambda d: matern(d / 3, 1.5)),
    "matern 5/2": (MaternKernel(3.0, nu=2.5), lambda d: matern(d / 3, 2.5)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_at_a_distance(name):
    """A kernel widens where the nearest sample is farther than two widths."""
    kernel, weight = WEIGHTS[name]
    width = 3.0
    for nearest in (0.0, 0.5, 1.9 * width, 2.1 * width, 5 * width):
        for further in (0.0, 0.4, 1.7, 2.6):
            x = np.array([[nearest], [nearest + further]])
            model = AttentionRegressor(kernel, local_linear=False).fit(x, [0.0, 1.0])
            widened = math.sqrt(max(1, (nearest / width) ** 2 - 3))
            one, other = (weight(d / widened) for d in x[:, 0])
            assert model.predict([[0.0]])[0] == pytest.approx(other / (one + other), abs=1e-12)


def test_factors_of_a_product_have_weights_of_their_own():
    x = np.array([[0.0, 0.0], [1.0, 0.5], [0.4, 1.0], [1.5, 1.2], [0.7, -0.6]])
    y = np.array([1.0, -2.0, 4.0, 0.5, 3.0])
    q = np.array([0.5, 0.2])
    for kernel, weight in (
        (MaternKernel(1.5, columns=[0]), lambda d: matern(d / 1.5, 1.5)),
        (GaussianKernel(1.1, columns=[0]), lambda d: math.exp(-((d / 1.1) ** 2) / 2)),
    ):
        model = AttentionRegressor(kernel * GaussianKernel(0.8, columns=[1])).fit(x, y)
        p = [weight(abs(a - q[0])) * math.exp(-((b - q[1]) ** 2) / 2 / 0.8**2) for a, b in x]
        expected = math.fsum(w * v for w, v in zip(p, y, strict=True)) / math.fsum(p)
        assert model.predict(q[None]).item() == pytest.approx(expected)


def chord(one, other):
    """The distance through a sphere of radius 1, by the haversine formula."""
    (b, m), (c, n) = np.radians(one), np.radians(other)
    half = math.sin((c - b) / 2) ** 2 + math.cos(b) * math.cos(c) * math.sin((n - m) / 2) ** 2
    return 2 * math.sqrt(half)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, math.inf])
def test_kernels_of_a_sphere_are_those_of_the_chord(nu):
    """Across the date line, near a pole and at the antipode of the query."""
    options = {"kernel": "gaussian"} if nu == math.inf else {"nu": nu}
    points = np.array([[10.0, 179.0], [12.0, -178.0], [89.0, 12.0], [-8.0, 0.5], [-10.0, -0.5]])
    query, y = (8.0, 179.5), np.array([1.0, -2.0, 4.0, 0.5, 3.0])
    for scale in (8.0, 90.0, 180.0):
        r = [chord(query, place) / math.radians(scale) for place in points]
        p = [math.exp(-(d**2) / 2) if nu == math.inf else matern(d, nu) for d in r]
        kernel = SphereKernel(scale, local_linear=False, **options)
        got = AttentionRegressor(kernel).fit(points, y).predict([query])
        assert got.item() == pytest.approx(np.average(y, weights=p), rel=1e-9)


def test_planes_on_a_sphere_are_those_of_its_three_coordinates():
    """At the poles and across the date line, as a regressor of the coordinates has them."""
    rng = np.random.default_rng(0)
    latitude, longitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 40))), rng.uniform(-180, 180, 40)
    b, m = np.radians(latitude), np.radians(longitude)
    vectors = np.stack([np.cos(b) * np.cos(m), np.cos(b) * np.sin(m), np.sin(b)], axis=1)
    points, y = np.stack([latitude, longitude], axis=1), rng.normal(size=40) + vectors[:, 2]
    for local_linear in (None, True, False):
        one = SphereKernel(20.0, local_linear=local_linear)
        other = MaternKernel(math.radians(20.0), local_linear=local_linear)
        mean, std = AttentionRegressor(one).fit(points, y).predict(points, return_std=True)
        expected = AttentionRegressor(other).fit(vectors, y).predict(vectors, return_std=True)
        np.testing.assert_allclose([mean, std], expected, rtol=1e-6)
    assert (
        abs(AttentionRegressor(SphereKernel(20.0)).fit(points, y).predict(points) - mean).max()
        > 0.1
    )


def test_a_kernel_wider_than_the_sphere_warns_of_its_unit():
    kernel = SphereKernel(1500.0)  # kilometres
    with pytest.warns(UserWarning, match=r"degrees.*For kilometres on Earth, divide by 111\.2"):
        AttentionRegressor(kernel).fit([[47.4, 8.5], [46.9, 7.4]], [1.0, 2.0])


def test_a_kernel_of_a_sphere_is_a_parameter_like_others():
    kernel = SphereKernel(nu=2.5, columns=["lon", "lat"])
    for twin in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert twin.get_params() == kernel.get_params()
        assert repr(twin) == repr(kernel) == ("SphereKernel(columns=['lon', 'lat'], nu=2.5)")
    assert repr(SphereKernel(2.0)) == "SphereKernel(length_scale=2.0)"
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"lon": rng.uniform(5, 11, 60), "lat": rng.uniform(45, 48, 60)})
    y = np.sin(table["lon"]) + table["lat"] + 0.1 * rng.normal(size=60)
    rough = clone(kernel).set_params(nu=0.5)
    models = [AttentionRegressor(k).fit(table, y) for k in (kernel, rough)]
    for model in models:
        scale = model.kernel_.length_scale
        for other in (scale / 2, 2 * scale):
            worse = AttentionRegressor(clone(model.kernel).set_params(length_scale=other))
            assert worse.fit(table, y).loo_error_ > model.loo_error_
    assert models[0].loo_error_ != models[1].loo_error_


# Where searches begin, half octaves from all widths that they try.


def half_octaves(width, first):
    """Return how many half octaves a width is from another, after a check that it is so many."""
    steps = 2 * np.log2(np.asarray(width) / first)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    return np.round(steps)


@pytest.mark.parametrize("count", [7, 40])
def test_a_search_begins_with_scotts_rule(count):
    """Of samples with weights, and of quartiles where these are closer together."""
    rng = np.random.default_rng(count)
    x = np.stack([rng.normal(size=count), rng.standard_t(1, size=count)], axis=1)
    weight, y = rng.uniform(0.2, 3.0, size=count), rng.normal(size=count)
    x[:, 1] *= 100
    for columns in ([0], [1], [0, 1]):
        chosen = AttentionRegressor().fit(x[:, columns], y, weight).kernel_.length_scale
        of_scipy = gaussian_kde(rng.normal(size=(len(columns), count)), weights=weight)
        for width, row in zip(chosen, x[:, columns].T, strict=True):
            spread = math.sqrt(np.cov(row, aweights=weight, ddof=0))
            low, high = np.percentile(row, [25, 75])
            half_octaves(width, of_scipy.factor * min(spread, high - low))
    # Of a column that is constant but for one sample, the quartiles are the same.
    x[:, 1] = np.arange(count) == 2
    _, width = AttentionRegressor().fit(x, y).kernel_.length_scale
    half_octaves(width, count ** (-1 / 6) * x[:, 1].std())


def test_a_search_begins_with_a_twentieth_of_a_period():
    rng = np.random.default_rng(0)
    dates = np.datetime64("2021-01-01") + np.sort(rng.integers(0, 1200, 150)).astype("m8[D]")
    for x, periods in [(dates, LENGTHS), (rng.uniform(0, 9, (150, 1)), {0.5: 0.5})]:
        for period, length in periods.items():
            if period != "day":  # whose phases are all alike
                kernel = AttentionRegressor(PeriodicKernel(period)).fit(x, rng.normal(size=150))
                half_octaves(kernel.kernel_.length_scale, float(length / 20))


def test_a_search_on_a_sphere_begins_with_scotts_rule_in_degrees():
    rng = np.random.default_rng(0)
    points = rng.normal([48.0, 9.0], [0.2, 0.3], size=(50, 2))
    model = AttentionRegressor(SphereKernel()).fit(points, rng.normal(size=50))
    variances = [np.var(points[:, 0]), np.var(points[:, 1] * np.cos(np.radians(48)))]
    first = math.sqrt(sum(variances) / 2) * 50 ** (-1 / 6)
    steps = 2 * np.log2(model.kernel_.length_scale / first)
    assert steps == pytest.approx(np.round(steps), abs=0.06)
    alone = AttentionRegressor(SphereKernel()).fit(np.zeros((5, 2)), np.arange(5.0))
    half_octaves(alone.kernel_.length_scale, 1.0)


# Periods and clocks.


def test_phases_of_columns_are_sines_and_cosines():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 9, (20, 3)), rng.normal(size=20)
    model = AttentionRegressor(PeriodicKernel(4.0, 0.5, columns=[1, 2])).fit(x, y)
    for q in x[:5] + 4.0 * rng.integers(-3, 4, (5, 3)):
        score = (np.cos(2 * np.pi * (x[:, 1:] - q[1:]) / 4) - 1).sum(axis=1)
        p = np.exp(score / (2 * np.pi * 0.5 / 4) ** 2)
        assert model.predict(q[None])[0] == pytest.approx(p @ y / p.sum())


def test_the_clock_on_the_wall():
    """To the second before and after changes to daylight saving time and back."""
    zurich = ZoneInfo("Europe/Zurich")
    changes = [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)]
    times = [t + timedelta(seconds=s) for t in changes for s in (-899, -1, 0, 1, 450, 901)]
    dates = pd.date_range("2024-01-01", periods=96, freq="15min", tz="UTC")
    y = np.random.default_rng(0).normal(size=96)
    for zone, expected_zone in ((zurich, zurich), (None, UTC)):
        kernel = PeriodicKernel("day", "3min", time_zone=zone)
        model = AttentionRegressor(kernel).fit(dates.to_frame(name="t"), y)
        got = model.predict(pd.to_datetime(pd.Series(times, name="t")).to_frame())
        clock = [pd.Timestamp(t).tz_convert(expected_zone) for t in [*dates, *times]]
        phase = [(t.hour * 60 + t.minute + t.second / 60) / 1440 for t in clock]
        for p, mean in zip(phase[96:], got, strict=True):
            score = np.cos(2 * np.pi * (np.array(phase[:96]) - p)) - 1
            distance = np.sqrt(-2 * score / (2 * np.pi * 3 / 1440) ** 2)
            weight = np.exp(-(distance**2) / 2 / max(1, distance.min() ** 2 - 3))
            assert mean == pytest.approx(weight @ y / weight.sum(), abs=1e-5)


def test_periods_of_times_are_spans():
    assert resolved(PeriodicKernel("36h", 1.0), TIMES).period == 1.5
    assert resolved(PeriodicKernel(pd.offsets.MonthBegin(), 1.0), TIMES).period == "month"
    assert resolved(GaussianKernel("36h"), TIMES).length_scale == 1.5
    assert isinstance(resolved(GaussianKernel("loo"), TIMES).length_scale[0], float)


def on_a_sphere(**options):
    return resolved(SphereKernel(1.0, **options), np.arange(8.0).reshape(4, 2))


WRONG = {
    "period": (
        lambda: resolved(PeriodicKernel("loo", 1.0)),
        r"`period` must be a positive number, got 'loo'\. Spans are for columns of times\.$",
    ),
    "period of times": (
        lambda: resolved(PeriodicKernel("loo", 1.0), TIMES),
        r"`period` must be a positive number, or .*, 'month', 'quarter', 'year', got 'loo'\.$",
    ),
    "part of the calendar": (
        lambda: resolved(GaussianKernel("week"), TIMES),
        r'`length_scale` must be a positive number or "loo", or a span such as .* got \'week\'\.$',
    ),
    "part of the calendar, of numbers": (
        lambda: resolved(PeriodicKernel("week")),
        r"`period` must be a positive number, got 'week'\. Spans are for columns of times\.$",
    ),
    "span of numbers": (
        lambda: resolved(GaussianKernel("36h")),
        r"got '36h'\..* For several columns, pass a width for each, such as \[.30D., .loo.\]\.$",
    ),
    "kernel of a sphere": (
        lambda: on_a_sphere(kernel="cauchy"),
        r"`kernel` must be 'matern' or 'gaussian', got 'cauchy'\.$",
    ),
    "smoothness of a Gaussian": (
        lambda: on_a_sphere(kernel="gaussian", nu=1.5),
        r"`nu` must be left out with the kernel 'gaussian', got 1\.5\.$",
    ),
    "smoothness": (
        lambda: on_a_sphere(nu=0.4),
        r"`nu` must be 0\.5, 1\.5 or 2\.5, got 0\.4\.$",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_scales(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_local_linear_is_a_boolean():
    with pytest.raises(TypeError, match="`local_linear` must be"):
        resolved(GaussianKernel(1.0, local_linear="yes"))
