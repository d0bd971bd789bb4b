"""The parts of kernels, one by one: scores, how far they reach, first scales and clocks."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from positional_embeddings.sklearn import (
    AttentionRegressor,
    CompactKernel,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
    SphereKernel,
)
from positional_embeddings.sklearn.frames import Column, check_library
from positional_embeddings.sklearn.kernels import _rule_of_thumb, _wall_clock, scale_of

# The Gregorian calendar comes back after 400 years.
DAYS = Fraction(400 * 365 + 97)
LENGTHS = {
    "day": Fraction(1),
    "week": Fraction(7),
    "month": DAYS / 4800,
    "quarter": DAYS / 1600,
    "year": DAYS / 400,
}

NUMBERS, TIMES = Column(is_time=False, zone=None), Column(is_time=True, zone=None)


def resolved(kernel, *columns, names=()):
    kernel._resolve(columns, list(names))
    return kernel


def matern(r, nu):
    a = math.sqrt(2 * nu) * r
    return (1 + {0.5: 0, 1.5: a, 2.5: a + a**2 / 3}[nu]) * math.exp(-a)


def wendland(r):
    return max(1 - r, 0) ** 4 * (4 * r + 1)


# The weight of each kernel of length scale 3 at a distance.
WEIGHTS = {
    "gaussian": (GaussianKernel(3.0), lambda d: math.exp(-(d**2) / 18)),
    "matern 1/2": (MaternKernel(3.0, nu=0.5), lambda d: matern(d / 3, 0.5)),
    "matern": (MaternKernel(3.0), lambda d: matern(d / 3, 1.5)),
    "matern 5/2": (MaternKernel(3.0, nu=2.5), lambda d: matern(d / 3, 2.5)),
    "compact": (CompactKernel(3.0), lambda d: wendland(d / 3)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_scores_are_logarithms_of_weights(name):
    kernel, weight = WEIGHTS[name]
    (width,) = resolved(kernel, NUMBERS)._scales()
    assert width == (0.75 if name == "compact" else 3.0)
    for d in (0.0, 0.4, 1.7, 2.6):
        for widening in (1.0, 2.25):
            score = kernel._score(np.array([[d / width]]) ** 2, np.array([[widening]]))
            expected = math.log(weight(d / widening**0.5))
            assert score[0, 0] == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", WEIGHTS)
def test_beyond_their_reach_weights_are_nothing(name):
    kernel, _ = WEIGHTS[name]
    reach = kernel._reach(50.0)
    one = np.ones((1, 1))
    left = kernel._score(one * reach**2, one).item() - kernel._score(one * 4.0, one).item()
    assert left <= -50 + 1e-9 or name == "gaussian"
    if name == "gaussian":
        assert kernel._score(one * reach**2, one).item() == pytest.approx(-50)
    elif name == "matern 1/2":  # the one that reaches farthest
        assert left == pytest.approx(-50)


def test_factors_of_a_product_have_weights_of_their_own():
    x = np.array([[0.0, 0.0], [1.0, 0.5], [0.4, 1.0], [1.5, 1.2], [0.7, -0.6]])
    y = np.array([1.0, -2.0, 4.0, 0.5, 3.0])
    q = np.array([0.5, 0.2])
    for kernel, weight in (
        (MaternKernel(1.5, columns=[0]), lambda d: matern(d / 1.5, 1.5)),
        (CompactKernel(6.0, columns=[0]), lambda d: wendland(d / 6)),
    ):
        model = AttentionRegressor(kernel * GaussianKernel(0.8, columns=[1])).fit(x, y)
        p = [weight(abs(a - q[0])) * math.exp(-((b - q[1]) ** 2) / 2 / 0.8**2) for a, b in x]
        expected = math.fsum(w * v for w, v in zip(p, y, strict=True)) / math.fsum(p)
        assert model.predict(q[None]).item() == pytest.approx(expected)


@pytest.mark.parametrize("count", [7, 40])
@pytest.mark.parametrize("is_constant", [False, True])
def test_scotts_rule(count, is_constant):
    rng = np.random.default_rng(count)
    x = np.stack([rng.normal(size=count), rng.standard_t(1, size=count)])
    if is_constant:  # but for one sample: its quartiles are the same
        x[1] = np.arange(count) == 2
    weight = rng.uniform(0.2, 3.0, size=count)
    total = math.fsum(weight)
    effective = total**2 / math.fsum(w * w for w in weight)
    for dimensions in (1, 2):
        expected = []
        for row in x:
            mean = math.fsum(weight * row) / total
            width = math.sqrt(math.fsum(weight * (row - mean) ** 2) / total)
            low, high = np.percentile(row, 25), np.percentile(row, 75)
            width = min(width, high - low) if high > low else width
            expected.append(width * effective ** (-1 / (4 + dimensions)))
        np.testing.assert_allclose(_rule_of_thumb(x, weight, dimensions), expected)


def test_a_search_begins_with_a_twentieth_of_a_period():
    for name, length in LENGTHS.items():
        kernel = resolved(PeriodicKernel(name), TIMES)
        first = kernel._first_scale(np.zeros((1, 2)), np.ones(2))
        assert first == pytest.approx(float(length / 20))
    kernel = resolved(PeriodicKernel(0.5), NUMBERS)
    assert kernel._first_scale(np.zeros((1, 2)), np.ones(2)) == pytest.approx(0.025)


def test_a_search_on_a_sphere_begins_with_scotts_rule_in_degrees():
    rng = np.random.default_rng(0)
    places = rng.normal([[48.0], [9.0]], [[0.2], [0.3]], size=(2, 50))
    kernel = resolved(SphereKernel(), NUMBERS, NUMBERS)
    variances = [np.var(places[0]), np.var(places[1] * np.cos(np.radians(48)))]
    expected = math.sqrt(sum(variances) / 2) * 50 ** (-1 / 6)
    assert kernel._first_scale(places, np.ones(50)) == pytest.approx(expected, rel=0.02)
    alone = kernel._first_scale(np.zeros((2, 5)), np.ones(5))
    assert alone == 1.0


def test_phases_are_sines_and_cosines():
    kernel = resolved(PeriodicKernel(4.0, columns=[1, 2]), NUMBERS, NUMBERS, NUMBERS)
    x = np.array([[7.0, 7.0], [0.0, 1.0], [3.0, 0.5]])
    waves = kernel._encode(x)
    assert waves.shape == (4, 2)
    expected = [f(2 * math.pi * v / 4) for v in x[1:].ravel() for f in (math.sin, math.cos)]
    np.testing.assert_allclose(np.sort(waves.ravel()), np.sort(expected), atol=1e-15)


def test_the_clock_on_the_wall():
    zurich, epoch = ZoneInfo("Europe/Zurich"), datetime(1970, 1, 1, tzinfo=UTC)
    changes = [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)]
    times = [t + timedelta(seconds=s) for t in changes for s in (-899, -1, 0, 1, 450, 901)]
    days = np.array([[(t - epoch) / timedelta(days=1) for t in times]])
    expected = [t.astimezone(zurich).replace(tzinfo=None) for t in times]
    wall = _wall_clock(days, zurich)
    assert wall.shape == (1, 12)
    assert wall[0].astype("datetime64[ms]").tolist() == expected
    utc = _wall_clock(days, None)[0].astype("datetime64[ms]").tolist()
    assert utc == [t.replace(tzinfo=None) for t in times]


def test_the_length_of_a_part_of_the_calendar():
    for name, length in LENGTHS.items():
        assert scale_of("period", name, is_time=True, is_period=True) == float(length)
        kernel = resolved(PeriodicKernel(name, 2.0), TIMES)
        np.testing.assert_allclose(kernel._scales(), [4 * math.pi / float(length)] * 2)


def test_periods_of_times_are_spans():
    assert resolved(PeriodicKernel("36h", 1.0), TIMES).period == 1.5
    assert resolved(PeriodicKernel(pd.offsets.MonthBegin(), 1.0), TIMES).period == "month"
    assert scale_of("length_scale", "36h", is_time=True) == 1.5
    assert scale_of("length_scale", "loo", is_time=True) == "loo"


WRONG = {
    "period": (
        lambda: resolved(PeriodicKernel("loo", 1.0), NUMBERS),
        r"`period` must be a positive number, got 'loo'\.$",
    ),
    "period of times": (
        lambda: resolved(PeriodicKernel("loo", 1.0), TIMES),
        r'`period` must be a positive number, or a span such as "30D" or "12h", got \'loo\'\.$',
    ),
    "part of the calendar": (
        lambda: scale_of("length_scale", "week", is_time=True),
        r'`length_scale` must be a positive number or "loo", or a span such as .* got \'week\'\.$',
    ),
    "part of the calendar, of numbers": (
        lambda: scale_of("period", "week", is_time=False, is_period=True),
        r"`period` must be a positive number, got 'week'\.$",
    ),
    "span of numbers": (
        lambda: scale_of("length_scale", "36h", is_time=False),
        r"`length_scale` must be a positive number or \"loo\", got '36h'\.$",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_scales(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_local_linear_is_a_boolean():
    with pytest.raises(TypeError, match="`local_linear` must be"):
        resolved(GaussianKernel(1.0, local_linear="yes"), NUMBERS)


# Libraries of arrays.


def test_the_library_of_fit_is_named():
    import array_api_strict as strict

    x = np.ones((3, 1))
    check_library(AttentionRegressor(), "predict", x, x + 1)
    message = r"AttentionRegressor\.predict\(\) .* fit\(\): array_api_strict on .*, got numpy on"
    with pytest.raises(ValueError, match=message):
        check_library(AttentionRegressor(), "predict", x, strict.asarray(x))
