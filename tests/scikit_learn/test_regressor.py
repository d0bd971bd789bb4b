"""`AttentionRegressor` against smoothers written with loops, and scikit-learn's own checks."""

import math
import os
import pickle
import subprocess
import sys
import textwrap
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    SphereKernel,
    SumKernel,
    regressor,
)
from positional_embeddings.sklearn.frames import times_to_days

# Queries far outside of the samples are asked on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* farther outside of the samples")


def weights_at(q, x, case, counts=None, hidden=()):
    """Return the weight of each sample in the prediction at q, by loops and direct sums.

    A kernel is (weight of a distance in widths, the coordinates in widths, whether lines are
    fitted). It widens by e where the nearest sample is farther than 2 widths away.
    """
    weight, encode, is_linear = case
    counts = [1.0] * len(x) if counts is None else counts
    query = encode(q)
    offsets = [[b - a for a, b in zip(query, encode(p), strict=True)] for p in x]
    squares = [math.fsum(d * d for d in row) for row in offsets]
    visible = [i for i in range(len(x)) if i not in hidden]
    nearest = min(squares[i] for i in visible)
    e = math.sqrt(max(1.0, nearest - 3))
    p = [0.0] * len(x)
    for i in visible:
        p[i] = counts[i] * weight(math.sqrt(squares[i]) / e)
    total = math.fsum(p)
    p = [w / total for w in p]
    if not is_linear:
        return np.array(p)
    f = len(query)
    mean = [math.fsum(w * d[k] for w, d in zip(p, offsets, strict=True)) for k in range(f)]
    cov = np.array(
        [
            [
                math.fsum(
                    w * (d[k] - mean[k]) * (d[j] - mean[j]) for w, d in zip(p, offsets, strict=True)
                )
                for j in range(f)
            ]
            for k in range(f)
        ]
    )
    u = np.array(mean)
    lean = u @ u / (u @ u + np.trace(cov)) if u @ u else 0.0
    ridge = 0.25 * e**2 * math.fsum(w * w for w in p) + (e**2 - 1) * lean
    slope = -np.linalg.solve(cov + ridge * np.eye(f), u)
    size = math.sqrt(max(-slope @ u, 1e-300))
    slope = slope * min(1, 1.4 * math.sqrt(f) / size)
    return np.array([w * (1 + slope @ (np.array(d) - u)) for w, d in zip(p, offsets, strict=True)])


def bell(r):
    return math.exp(-r * r / 2)


def scaled(*scales):
    return lambda p: [x / h for x, h in zip(p, scales, strict=True)]


def circle(period, scale):
    unit = 2 * math.pi / period
    return lambda p: [f(unit * p[0]) / (unit * scale) for f in (math.cos, math.sin)]


def on_sphere(scale):
    def place(p):
        lat, lon = map(math.radians, p)
        radius = math.radians(scale)
        direction = math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)
        return [c / radius for c in direction]

    return place


CASES = {
    "mean": (GaussianKernel(0.7, local_linear=False), (bell, scaled(0.7), False), 1),
    "line": (GaussianKernel(0.7), (bell, scaled(0.7), True), 1),
    "plane": (GaussianKernel([0.9, 1.7]), (bell, scaled(0.9, 1.7), True), 2),
    "column": (
        GaussianKernel(0.8, columns=[1], local_linear=False),
        (bell, lambda p: [p[1] / 0.8], False),
        2,
    ),
    "narrow": (GaussianKernel(0.01), (bell, scaled(0.01), True), 1),
    "exponential": (
        MaternKernel(0.7, nu=0.5),
        (lambda r: math.exp(-r), scaled(0.7), True),
        1,
    ),
    "matern": (
        MaternKernel([0.7, 0.9], local_linear=False),
        (lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r), scaled(0.7, 0.9), False),
        2,
    ),
    "smooth matern": (
        MaternKernel(0.7, nu=2.5),
        (
            lambda r: (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r),
            scaled(0.7),
            True,
        ),
        1,
    ),
    "periodic": (PeriodicKernel(2.0, 0.2), (bell, circle(2.0, 0.2), False), 1),
    "product": (
        PeriodicKernel(2.0, 0.2) * GaussianKernel(3.0),
        (bell, lambda p: [*circle(2.0, 0.2)(p), p[0] / 3], False),
        1,
    ),
    "sphere": (SphereKernel(12.0, kernel="gaussian"), (bell, on_sphere(12.0), True), 2),
}


def samples(columns, n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, (n, columns))
    return x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block_size", [None, 7])
def test_predictions_are_those_of_a_loop(name, block_size):
    kernel, case, columns = CASES[name]
    x, y = samples(columns)
    q = np.linspace(-9, 9, 19)[:, None] * np.ones(columns)
    model = AttentionRegressor(kernel, block_size=block_size).fit(x, y)
    mean, std = model.predict(q, return_std=True)
    rows = np.array([weights_at(p, x, case) for p in q])
    np.testing.assert_allclose(mean, rows @ y, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(q), mean)
    prediction = model._model.predict(q.T, squares=True)
    np.testing.assert_allclose(prediction.squares, np.sum(rows**2, axis=1), rtol=1e-9)
    of_mean = model.predict(q, return_std="mean")[1]
    assert (of_mean <= std).all()
    assert of_mean.mean() < std.mean()


@pytest.mark.parametrize("name", CASES)
def test_leaving_one_out_is_a_refit(name):
    kernel, case, columns = CASES[name]
    x, y = samples(columns)
    model = AttentionRegressor(kernel).fit(x, y)
    rows = np.array([weights_at(p, x, case, hidden=[i]) for i, p in enumerate(x)])
    np.testing.assert_allclose(model.predict_left_out(), rows @ y, atol=1e-12)
    refits = []
    for i in range(0, len(x), 7):
        is_other = np.arange(len(x)) != i
        refits.append(
            AttentionRegressor(kernel).fit(x[is_other], y[is_other]).predict(x[i : i + 1])[0]
        )
    np.testing.assert_allclose(model.predict_left_out()[::7], refits, atol=1e-12)
    errors = y - rows @ y
    assert model.loo_error_ == pytest.approx(np.sqrt(np.mean(errors**2)))
    squares = 1 + np.mean(np.sum(rows**2, axis=1))
    assert model.noise_std_ == pytest.approx(np.sqrt(np.mean(errors**2) / squares))


def test_samples_that_are_left_out_together():
    x, y = samples(1)
    case = CASES["line"][1]
    band = AttentionRegressor(GaussianKernel(0.7), leave_out=0.5).fit(x, y).predict_left_out()
    labels = np.random.default_rng(1).integers(0, 5, 40)
    groups = AttentionRegressor(GaussianKernel(0.7)).fit(x, y, groups=[f"g{i}" for i in labels])
    for i in range(40):
        near = [j for j in range(40) if abs(x[i, 0] - x[j, 0]) <= 0.5]
        assert band[i] == pytest.approx(weights_at(x[i], x, case, hidden=near) @ y, abs=1e-12)
        same_group = [j for j in range(40) if labels[i] == labels[j]]
        expected = weights_at(x[i], x, case, hidden=same_group) @ y
        assert groups.predict_left_out()[i] == pytest.approx(expected, abs=1e-12)


def test_a_group_beside_others_at_one_place():
    x, y = np.array([[0.0], [1], [1], [2], [3.5]]), np.array([0.0, 1, 3, 2, 5])
    groups = np.array([0, 1, 2, 2, 1])
    left_out = AttentionRegressor(GaussianKernel(1.0)).fit(x, y, groups=groups).predict_left_out()
    assert left_out[0] == pytest.approx(1.9753, abs=5e-5)
    # Both measurements at 1 are one place, in which they have one weight together.
    locations, means = np.array([[1.0], [2], [3.5]]), [2.0, 2, 5]
    weights = weights_at(x[0], locations, (bell, scaled(1.0), True), [2, 1, 1])
    assert left_out[0] == pytest.approx(weights @ means, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    cutoff=st.sampled_from([None, 1.5, 6.0]),
    seed=st.integers(0, 2**32),
    with_weights=st.booleans(),
)
def test_leaving_groups_out_is_a_refit_where_they_share_places(name, cutoff, seed, with_weights):
    """A refit knows nothing of the groups of its samples."""
    kernel, _, columns = CASES[name]
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (16, columns)) / 2
    y = rng.integers(0, 3, 16) + rng.choice([0.0, 0.25], 16)
    groups = rng.permutation(np.arange(16) % 4)
    weight = rng.choice([0.5, 1.0, 2.0], 16) if with_weights else np.ones(16)
    make = partial(AttentionRegressor, kernel, cutoff=cutoff)
    model = make().fit(x, y, weight, groups=groups)
    refits = np.zeros(16)
    for group in range(4):
        is_hidden = groups == group
        refits[is_hidden] = (
            make().fit(x[~is_hidden], y[~is_hidden], weight[~is_hidden]).predict(x[is_hidden])
        )
    np.testing.assert_allclose(model.predict_left_out(), refits, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "kernel", [GaussianKernel(1.0), GaussianKernel(2.0) + CASES["periodic"][0]]
)
def test_groups_that_share_places_predict_what_no_groups_predict(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (40, 1)) / 2, rng.standard_normal(40)
    groups, q = rng.integers(0, 3, 40), np.linspace(-1, 4, 11)[:, None]
    parted, whole = (AttentionRegressor(kernel).fit(x, y, groups=g) for g in (groups, None))
    np.testing.assert_allclose(parted.predict(q), whole.predict(q), rtol=0, atol=1e-12)


def test_neighbours_that_must_not_vote():
    """Noise that lasts some days looks like a function, unless these days are left out."""
    rng = np.random.default_rng(0)
    t = np.datetime64("2020-01-01") + np.arange(800)
    noise = np.convolve(rng.standard_normal(809), np.ones(10) / 10**0.5, "valid")
    with pytest.warns(UserWarning, match="Neighbouring errors are alike: .* Pass `leave_out`"):
        plain = AttentionRegressor().fit(t, noise)
    apart = AttentionRegressor(leave_out=np.timedelta64(20, "D")).fit(t, noise)
    assert plain.noise_std_ < 0.5
    assert apart.noise_std_ == pytest.approx(1, rel=0.15)
    for band, same in (("20D", np.timedelta64(20, "D")), ("week", 7)):
        models = (AttentionRegressor(GaussianKernel(9.0), leave_out=b) for b in (band, same))
        one, other = (model.fit(t[:99], noise[:99]).noise_std_ for model in models)
        assert one == other


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_not_0_where_it_is_all_there_is(seed):
    y = np.random.default_rng(seed).standard_normal(60)
    model = AttentionRegressor().fit(np.arange(60.0)[:, None], y)
    assert model.noise_std_ == pytest.approx(np.std(y), rel=0.25)
    assert model.predict(np.arange(60.0)[:, None], return_std=True)[1].min() > 0.6 * np.std(y)


@pytest.mark.parametrize("length_scale", [1.0, "loo"])
def test_isolated_samples_tell_of_the_noise(length_scale):
    stds = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.concatenate([1000 + 100.0 * np.arange(200), rng.uniform(0, 10, 200)])
        model = AttentionRegressor(length_scale=length_scale)
        stds.append(model.fit(x[:, None], rng.standard_normal(400)).noise_std_)
    assert np.mean(stds) == pytest.approx(1, rel=0.06)


@pytest.mark.parametrize("unit", [1e-9, 1e12, 1e18])
def test_weights_have_no_unit(unit):
    x, y = samples(1)
    rising = 1.0 + np.arange(40) % 3
    one = AttentionRegressor().fit(x, y, sample_weight=rising)
    other = AttentionRegressor().fit(x, y, sample_weight=unit * rising)
    assert other.noise_std_ == pytest.approx(one.noise_std_)
    for a, b in zip(
        one.predict(x, return_std=True), other.predict(x, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_repeated_measurements_tell_of_the_noise():
    """At ten places, where the function between them is nothing but noise."""
    rng = np.random.default_rng(0)
    x = np.repeat(np.arange(10.0), 50)[:, None]
    model = AttentionRegressor().fit(x, rng.standard_normal(500))
    assert model.noise_std_ == pytest.approx(1, rel=0.08)
    y = rng.standard_normal(50)
    alone = AttentionRegressor().fit(np.zeros((50, 1)), y)
    assert alone.noise_std_ == pytest.approx(np.std(y, ddof=1))
    left_out = (y.sum() - y) / 49
    np.testing.assert_allclose(alone.predict_left_out(), left_out)
    assert alone.loo_error_ == pytest.approx(np.sqrt(np.mean((y - left_out) ** 2)))


PLACES = {
    "weekday": (7, 500, lambda x: 3.0 * (x > 4), 1.0),
    "dose": (6, 48, lambda x: 3 * x / (x + 2), 0.3),
    "wave": (11, 150, lambda x: 3 * np.sin(x), 0.5),
    "treatment": (2, 200, lambda x: 10.0 * x, 1.0),
    "hour": (24, 2000, lambda x: 2 * np.exp(-((x - 8) ** 2) / 2), 1.0),
}


@pytest.mark.parametrize("name", PLACES)
def test_repeated_places(name):
    """A jump between locations is no noise, and the mean of a place no worse than its own mean."""
    count, n, function, noise = PLACES[name]
    rng = np.random.default_rng(0)
    locations = np.arange(count)[:, None]
    errors, of_means, noises, covered = [], [], [], []
    for _ in range(5):
        x = rng.permutation(np.arange(n) % count)
        y = function(x) + rng.normal(0, noise, n)
        model = AttentionRegressor().fit(x[:, None], y)
        mean, std = model.predict(locations, return_std=True)
        truth = function(locations[:, 0])
        errors.append((mean - truth) ** 2)
        of_means.append((np.bincount(x, y) / np.bincount(x) - truth) ** 2)
        noises.append(model.noise_std_)
        new = truth + rng.normal(0, noise, (200, count))
        covered.append(np.abs(new - mean) < 1.96 * std)
    assert np.mean(errors) < 1.15 * np.mean(of_means)
    assert np.mean(noises) == pytest.approx(noise, rel=0.1)
    assert 0.9 < np.mean(covered) < 0.99


@pytest.mark.parametrize("local_linear", [True, False])
def test_one_of_repeated_measurements_is_left_out(local_linear):
    """Means of locations with equal weights, as a loop over measurements predicts them."""
    rng = np.random.default_rng(0)
    x = np.array([0.0, 0, 0, 1, 1.5, 1.5, 4, 4, 4, 4])[:, None]
    y = rng.standard_normal(10)
    model = AttentionRegressor(GaussianKernel(0.8), local_linear=local_linear).fit(x, y)
    case = bell, scaled(0.8), local_linear
    expected = []
    for i in range(10):
        is_other = np.arange(10) != i
        locations, location = np.unique(x[is_other, 0], return_inverse=True)
        counts = np.bincount(location)
        # The weights of locations, without one measurement.
        weights = weights_at(x[i], locations[:, None], case, counts)
        expected.append(weights @ (np.bincount(location, y[is_other]) / counts))
    np.testing.assert_allclose(model.predict_left_out(), expected, atol=1e-12)
    errors = y - expected
    assert model.loo_error_ == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_samples_at_one_phase():
    """Daily samples, and a kernel of half a day."""
    x, y = np.arange(20.0)[:, None], np.sin(np.arange(20.0))
    model = AttentionRegressor(PeriodicKernel(0.5, 0.1)).fit(x, y)
    mean, std = model.predict([[3.0]], return_std=True)
    assert mean == pytest.approx(y.mean())
    assert std == pytest.approx(y.std(ddof=1), rel=0.1)


def scales_of_time():
    """Events in bursts of seconds over 30 years, and one far away."""
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, 30 * 365.25 * 86400, 30)
    x = (starts[:, None] + np.cumsum(rng.exponential(20, (30, 10)), axis=1)).ravel()
    return np.append(np.sort(x) + 1e9, 1e12)[:, None]


@pytest.mark.parametrize("cutoff", [None, 6.0, 9.5])
def test_no_moment_cancels(cutoff):
    x = scales_of_time()
    y = np.sin(x[:, 0] / 100)
    q = np.concatenate([x[::9] + 7.0, x[:3] - 1e5, [[2e9]]])
    model = AttentionRegressor(length_scale=60.0, cutoff=cutoff).fit(x, y)
    rows = [weights_at(p - x[0], x - x[0], (bell, scaled(60.0), True)) for p in q]
    atol = (1e-9 if cutoff != 6 else 1e-6) * np.std(y)
    np.testing.assert_allclose(model.predict(q), rows @ y, rtol=0, atol=atol)


def test_gaps_and_what_lies_ahead():
    t = np.arange(1200.0)
    rng = np.random.default_rng(0)
    y = 15 - 10 * np.cos(2 * np.pi * t / 365) + 3 * rng.standard_normal(1200)
    gap = (t >= 400) & (t < 430)
    model = AttentionRegressor().fit(t[~gap, None], y[~gap])
    mean, std = model.predict(t[gap, None], return_std=True)
    assert np.mean(np.abs(y[gap] - mean) < 1.96 * std) >= 0.9
    assert np.sqrt(np.mean((y[gap] - mean) ** 2)) < 5
    ahead = 1200 + np.array([40.0, 200, 1000, 1e6])[:, None]
    for cutoff in (None, 6.0):
        far = AttentionRegressor(length_scale=12.0, cutoff=cutoff).fit(t[:, None], y)
        mean, std = far.predict(ahead, return_std=True)
        assert (np.min(y) < mean).all()
        assert (mean < np.max(y)).all()
        assert mean[-1] == pytest.approx(np.mean(y), rel=0.01)
        assert std[-1] == pytest.approx(np.std(y), rel=0.01)
        assert (std < 1.3 * np.std(y)).all()
        assert (std > far.noise_std_).all()


def test_each_column_has_a_width_of_its_own():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (400, 2))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(400)
    model = AttentionRegressor().fit(x, y)
    first, second = model.kernel_.length_scale
    assert second > 4 * first
    alike = AttentionRegressor(length_scale=first).fit(x, y)
    assert model.loo_error_ < 0.8 * alike.loo_error_
    mixed = AttentionRegressor(length_scale=["loo", 2.0]).fit(x, y).kernel_.length_scale
    assert mixed[1] == 2.0
    assert mixed[0] != 2.0


def test_no_width_is_far_beyond_the_extent_of_its_column():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (300, 5))
    x[:, 4] = 3.0
    y = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(300)
    widths = AttentionRegressor().fit(x, y).kernel_.length_scale
    extents = np.ptp(x, axis=0)
    assert (widths[:4] <= 4 * extents[:4]).all()
    assert max(widths[1:4]) > 10
    assert widths[4] == np.inf


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("value", [0.1, 0.0, -7e9])
def test_a_constant_column_changes_nothing(columns, value):
    x, y = samples(columns, 90)
    with_constant = np.insert(x, 1, value, axis=1)
    one, other = (AttentionRegressor().fit(points, y) for points in (x, with_constant))
    assert np.delete(other.kernel_.length_scale, 1) == pytest.approx(one.kernel_.length_scale)
    q = np.linspace(-9, 9, 19)[:, None] * np.ones(columns)
    for std in (True, "mean"):
        expected = one.predict(q, return_std=std)
        for constant in (value, 5.0):
            got = other.predict(np.insert(q, 1, constant, axis=1), return_std=std)
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    assert other.loo_error_ == pytest.approx(one.loo_error_)


def lasting(noise, n=200):
    """Return a trend of days with noise of so many days."""
    rng = np.random.default_rng(0)
    day = np.arange(float(n))
    return day, 3 * np.sin(day / 80) + np.convolve(
        rng.normal(size=n + noise - 1), np.ones(noise), "valid"
    )


def test_a_warning_of_noise_that_lasts():
    day, y = lasting(10)
    stations = pd.DataFrame(
        {"time": np.tile(day, 2).astype("M8[D]"), "station": np.repeat([0.0, 9], 200)}
    )
    for x, target in [
        (day[:, None], y),
        (stations, np.tile(y, 2)),
        (day[:, None], np.stack([y, y], 1)),
    ]:
        with pytest.warns(UserWarning, match="Pass `leave_out`, a span that is longer") as caught:
            AttentionRegressor().fit(x, target)
        assert caught[0].filename == __file__
        # No warning where it is known, or where no width is chosen.
        AttentionRegressor(leave_out=20.0).fit(x, target)
        AttentionRegressor().fit(x, target, groups=np.arange(len(target)) // 50)
        AttentionRegressor(GaussianKernel(40.0, columns=[0])).fit(x, target)


def test_no_warning_of_noise_that_does_not_last():
    """Nor of functions that are smooth between the samples, nor of few samples, nor in a plane."""
    day, y = lasting(1)
    AttentionRegressor().fit(day[:, None], y)
    for noise in (0.0, 0.1, 0.5):
        rng = np.random.default_rng(0)
        y = np.sin(2 * np.pi * day / 24) + noise * rng.normal(size=day.size)
        AttentionRegressor().fit(day[:, None], y)
    day, y = lasting(10)
    AttentionRegressor().fit(day[:20, None], y[:20])
    AttentionRegressor().fit(np.stack([day, day**2], axis=1), y)


def growing(n, seed=0):
    """Return samples whose noise grows from 0.2 to 2.2, and the noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    noise = 0.2 * (1 + x)
    return x[:, None], np.sin(x) + noise * rng.normal(size=n), noise


def test_bands_follow_noise_that_grows():
    held, quarters = [], []
    for seed in range(6):
        x, y, _ = growing(200, seed)
        new, measured, _ = growing(2000, 100 + seed)
        mean, std = AttentionRegressor().fit(x, y).predict(new, return_std=True)
        held.append(abs(mean - measured) < 1.96 * std)
        quarters.append(new[:, 0] // 2.5)
    held, quarters = np.concatenate(held), np.concatenate(quarters)
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)
    for quarter in range(4):
        assert 0.9 < np.mean(held[quarters == quarter]) < 0.995


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_constant_where_nothing_shows_another(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (150, 1))
    y = np.sin(x[:, 0]) + 0.5 * rng.standard_normal(150)
    model = AttentionRegressor().fit(x, y)
    std, of_mean = (model.predict(x, return_std=kind)[1] for kind in (True, "mean"))
    np.testing.assert_allclose(std**2 - of_mean**2, model.noise_std_**2)


def test_local_noise_is_that_of_a_loop():
    """Of kernels of many widths, the one under which squared errors are likeliest."""
    x, y, _ = growing(80)
    model = AttentionRegressor(GaussianKernel(0.7)).fit(x, y)
    case = CASES["line"][1]
    rows = np.array([weights_at(p, x, case, hidden=[i]) for i, p in enumerate(x)])
    squares = (y - rows @ y) ** 2 / (1 + np.sum(rows**2, axis=1))
    ratios = squares / model.noise_std_**2
    q = np.linspace(0.3, 9.7, 12)[:, None]
    predictions = {}
    for octave in range(-3, 5):
        width = 0.7 * 2.0**octave

        def local(place, hidden, width=width):
            offset = (x[:, 0] - place) / width
            offset[hidden] = np.inf
            p = np.exp(-(offset**2) / 2 / max(1.0, (offset**2).min() - 3))
            return (p @ np.nan_to_num(ratios) + 2) / (p.sum() + 2)

        noise = np.array([local(p, [i]) for i, p in enumerate(x[:, 0])])
        score = np.log(noise) + ratios / noise - ratios
        if score.mean() + 2 * score.std() / 80**0.5 < 0:
            predictions[score.mean()] = [local(p, []) for p in q[:, 0]]
    assert len(predictions) > 2
    std, of_mean = (model.predict(q, return_std=kind)[1] for kind in (True, "mean"))
    local_noise = np.array(predictions[min(predictions)]) * model.noise_std_**2
    np.testing.assert_allclose(std**2 - of_mean**2, local_noise, rtol=1e-9)


def test_noise_of_places_that_repeat():
    """Each treatment has a noise of its own, which no other place predicts."""
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 1.0, 2.0], 100)[:, None]
    noise = np.array([0.3, 3.0, 1.0])
    y = rng.normal(0, np.repeat(noise, 100))
    model = AttentionRegressor().fit(x, y)
    std = model.predict(np.arange(3.0)[:, None], return_std=True)[1]
    np.testing.assert_allclose(std, noise, rtol=0.35)


def test_noise_of_a_phase():
    """The kernel of the noise is that of the season, not that of the trend before it."""
    t = np.arange(0, 20, 0.05)
    noise = np.where(t % 1 < 0.5, 0.1, 1.0)
    y = t + noise * np.random.default_rng(0).normal(size=t.size)
    model = AttentionRegressor(GaussianKernel(5.0) + PeriodicKernel(1.0, 0.1)).fit(t[:, None], y)
    ignore_fp_errors, loud = model.predict([[7.25], [9.75]], return_std=True)[1]
    assert 0.1 < ignore_fp_errors < 0.3 * loud
    assert loud == pytest.approx(1, rel=0.3)


def test_each_target_has_a_noise_of_its_own():
    x, y, noise = growing(300)
    constant = np.random.default_rng(1).normal(size=300)
    both = AttentionRegressor(GaussianKernel(1.0)).fit(x, np.stack([y, constant, 0 * y], axis=1))
    std, of_mean = (both.predict(x, return_std=kind)[1] for kind in (True, "mean"))
    variances = std**2 - of_mean**2
    assert np.corrcoef(variances[:, 0], noise**2)[0, 1] > 0.9
    assert np.median(variances[:, 1]) == pytest.approx(both.noise_std_[1] ** 2)
    assert variances[:, 1].min() > 0.99 * variances[:, 1].max()
    np.testing.assert_array_equal(std[:, 2], 0)


def test_the_error_of_the_function():
    inside = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 10, (200, 1))
        y = np.sin(x[:, 0]) + 0.5 * rng.standard_normal(200)
        q = np.linspace(0.5, 9.5, 40)[:, None]
        mean, std = AttentionRegressor().fit(x, y).predict(q, return_std="mean")
        assert (std < 0.35).all()
        inside.append(abs(mean - np.sin(q[:, 0])) < 1.96 * std)
    assert np.mean(inside) > 0.88


def test_columns_by_name_and_spans():
    import pandas as pd

    table = pd.DataFrame({"value": np.arange(60.0) % 7, "day": pd.date_range("2020", periods=60)})
    y = np.sin(np.arange(60) / 9)
    days = np.column_stack([table.value, np.arange(60)])
    expected = AttentionRegressor(GaussianKernel(5.0, columns=[1])).fit(days, y).predict(days)
    for span in ("5D", "120h", pd.Timedelta("5D"), np.timedelta64(5, "D"), 5.0):
        model = AttentionRegressor(GaussianKernel(span, columns=["day"])).fit(table, y)
        np.testing.assert_allclose(model.predict(table), expected, atol=1e-9)
    two = AttentionRegressor(length_scale=[3.0, "5D"]).fit(table, y)
    assert two.kernel_.length_scale == [3.0, 5.0]
    year = AttentionRegressor(PeriodicKernel("year", "7D", columns=["day"])).fit(table, y).kernel_
    assert (year.period, year.length_scale, year.columns) == ("year", 7.0, [1])
    half_day = AttentionRegressor(PeriodicKernel("12h", "1h", columns=["day"])).fit(table, y)
    assert half_day.kernel_.period == 0.5
    table = pd.DataFrame({"lon": [0.0, 90, 180], "Latitude": [0.0, 40, -40], "h": 1.0})
    model = AttentionRegressor(SphereKernel(20.0)).fit(table, [0.0, 1, 2])
    assert model.kernel_.columns == [1, 0]


@pytest.mark.parametrize("period", ["day", "week", "month", "quarter", "year"])
def test_a_period_of_the_calendar_follows_a_clock(period):
    import pandas as pd

    zone = "Europe/Zurich"  # summer and winter time
    first, last = (pd.Timestamp(date, tz=zone) for date in ("2023-03-20", "2024-11-03"))
    times = pd.Series(pd.date_range(first, last, freq="7h"))
    x, y = times.to_frame("time"), np.arange(times.size) % 10.0
    model = AttentionRegressor(PeriodicKernel(period, "1h", time_zone=zone)).fit(x, y)
    lengths = {"day": 1.0, "week": 7.0, "month": 30.436875, "quarter": 91.310625, "year": 365.2425}
    wall = times.dt.tz_localize(None)
    starts = wall.dt.to_period(period[0].upper()).dt
    phase = (wall - starts.start_time) / (starts.end_time - starts.start_time)
    width = 2 * np.pi / 24 / lengths[period]
    asked = times.iloc[:40].to_frame("time")
    for p, mean in zip(phase[:40], model.predict(asked), strict=True):
        score = (np.cos(2 * np.pi * (phase - p)) - 1) / width**2
        weight = np.exp(score - score.max())
        assert mean == pytest.approx(weight @ y / weight.sum(), abs=1e-5)


def test_clocks_are_those_of_the_columns():
    import pandas as pd

    zone = "Europe/Zurich"
    aware = pd.DataFrame({"t": pd.date_range("2024-03-01", "2024-05-01", freq="h", tz=zone)})
    hour = aware.t.dt.hour.to_numpy()
    model = AttentionRegressor(PeriodicKernel("day", "10min")).fit(aware, hour)
    assert str(model.kernel_.time_zone) == zone
    np.testing.assert_allclose(model.predict(aware), hour, atol=0.01)
    utc = aware.assign(t=aware.t.dt.tz_convert("UTC"))
    np.testing.assert_allclose(model.predict(utc), hour, atol=0.01)
    wall = aware.assign(t=aware.t.dt.tz_localize(None))
    message = "have times as in `fit`, in column 0 with a zone, got them in column 0"
    with pytest.raises(ValueError, match=message):
        model.predict(wall)
    on_wall = AttentionRegressor(PeriodicKernel("day", "10min")).fit(wall, hour)
    np.testing.assert_allclose(on_wall.predict(wall), hour, atol=0.01)
    kernel = PeriodicKernel("day", time_zone=zone)
    with pytest.raises(ValueError, match="have times with a zone where `time_zone` is given"):
        AttentionRegressor(kernel).fit(wall, hour)
    early = pd.DataFrame({"t": pd.Series(np.array(["0001-01-01"] * 2, dtype="M8[s]"))})
    early = early.assign(t=early.t.dt.tz_localize("UTC"))
    kernel = PeriodicKernel("day", time_zone="America/New_York")
    with pytest.raises(ValueError, match="`time_zone` must keep the times of `X` within the years"):
        AttentionRegressor(kernel).fit(early, [0.0, 1.0])


def test_a_sample_far_from_all_others_does_not_widen_the_kernel():
    """As the fill value of a file."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 200))
    y = np.sin(x) + rng.normal(0, 0.1, 200)
    for far in (1e3, 1e12, 9.96921e36):
        model = AttentionRegressor().fit(np.append(x, far)[:, None], np.append(y, 0.0))
        error = model.predict(x[:, None]) - np.sin(x)
        assert np.sqrt(np.mean(error**2)) < 0.06


def test_extreme_weights():
    x, y = samples(1)
    expected = AttentionRegressor().fit(x, y).predict(x)
    for weight in (1e308, 5e-324):
        model = AttentionRegressor().fit(x, y, np.full(len(y), weight))
        np.testing.assert_allclose(model.predict(x), expected, rtol=1e-12)
    apart = 10.0 ** np.linspace(-200, 200, len(y))
    with pytest.warns(UserWarning, match="Fewer than 10 samples have nearly all") as caught:
        assert np.isfinite(AttentionRegressor().fit(x, y, apart).predict(x)).all()
    assert caught[0].filename == __file__
    AttentionRegressor().fit(x, y, np.where(np.arange(len(y)) < 10, 1.0, 1e-9))  # these are enough


def test_a_time_zone_needs_a_period_of_the_calendar():
    x, y = samples(1)
    for period, zone in [(1.0, "Europe/Zurich"), ("12h", "UTC"), ("day", "UTC")]:
        kernel = PeriodicKernel(period, 0.1, time_zone=zone)
        with pytest.raises(ValueError, match="`time_zone` must be None unless `period` is 'day'"):
            AttentionRegressor(kernel).fit(x, y)
    dates = np.arange(len(y)).astype("datetime64[D]")[:, None]
    with pytest.raises(ValueError, match="`time_zone` must be the name of a time zone"):
        AttentionRegressor(PeriodicKernel("day", time_zone="Mars")).fit(dates, y)


def test_noise_is_found():
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 2500)[:, None]
    y = np.sin(x[:, 0]) + 0.3 * rng.standard_normal(2500)
    model = AttentionRegressor().fit(x, y)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.05)
    new = rng.uniform(0, 10, (4000, 1))
    mean, std = model.predict(new, return_std=True)
    measured = np.sin(new[:, 0]) + 0.3 * rng.standard_normal(4000)
    assert np.mean(np.abs(measured - mean) < 1.96 * std) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_noise_of_narrow_kernels(width):
    x = np.arange(4000.0)[:, None]
    y = np.random.default_rng(0).standard_normal(4000)
    for linear in (False, True):
        model = AttentionRegressor(GaussianKernel(width), local_linear=linear).fit(x, y)
        assert model.noise_std_ == pytest.approx(1, abs=0.06)


def test_errors_of_a_sum_are_near_those_of_refits():
    t = np.linspace(0, 8, 60)[:, None]
    y = 0.5 * t[:, 0] + np.sin(2 * np.pi * t[:, 0])
    y = y + 0.2 * np.random.default_rng(2).standard_normal(60)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0, 0.05)
    model = AttentionRegressor(kernel, max_iter=50, tol=1e-6).fit(t, y)
    refits = []
    for i in range(60):
        is_other = np.arange(60) != i
        refit = AttentionRegressor(kernel, max_iter=50, tol=1e-6).fit(t[is_other], y[is_other])
        refits.append(refit.predict(t[i : i + 1])[0])
    np.testing.assert_allclose(model.predict_left_out(), refits, atol=0.1 * np.std(y))
    rms = np.sqrt(np.mean((y - refits) ** 2))
    assert model.loo_error_ == pytest.approx(rms, rel=0.1)
    assert model.noise_std_ == pytest.approx(0.2, rel=0.25)


@settings(max_examples=8, deadline=None)
@given(
    slope=st.lists(st.floats(-5, 5), min_size=2, max_size=2),
    level=st.floats(-10, 10),
    scale=st.floats(0.5, 2),
)
def test_planes_among_many_samples_are_reproduced(slope, level, scale):
    """A slope shrinks as the effective number of samples falls, which is large here."""
    x, _ = samples(2, 1000)
    model = AttentionRegressor(GaussianKernel(scale)).fit(x, x @ slope + level)
    q = np.array([[0.0, 0.0], [2.0, -2.0], [4.0, -4.0]])
    tolerance = 0.15 * np.abs(slope).sum()
    np.testing.assert_allclose(model.predict(q), q @ slope + level, atol=tolerance + 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_weights_of_samples_count_them(data):
    x, y = samples(1, 12)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12).filter(any))
    kernel = data.draw(st.sampled_from([GaussianKernel(1.0), CASES["product"][0]]))
    one = AttentionRegressor(kernel).fit(x, y, sample_weight=counts)
    many = AttentionRegressor(kernel).fit(np.repeat(x, counts, 0), np.repeat(y, counts))
    q = np.linspace(-4, 4, 9)[:, None]
    for a, b in zip(one.predict(q, return_std=True), many.predict(q, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert one.loo_error_ == pytest.approx(many.loo_error_, rel=1e-6, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("kernel", [GaussianKernel(0.05), CASES["product"][0]])
@pytest.mark.parametrize("block_size", [None, 16])
def test_a_cutoff_leaves_out_what_weighs_nothing(kernel, block_size):
    x, y = samples(1, 300)
    q = np.random.default_rng(3).uniform(-4.1, 4.1, (70, 1))
    every = AttentionRegressor(kernel).fit(x, y)
    near = AttentionRegressor(kernel, cutoff=9.0, block_size=block_size).fit(x, y)
    for a, b in zip(
        near.predict(q, return_std=True), every.predict(q, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(near.predict_left_out(), every.predict_left_out(), atol=1e-6)


@pytest.mark.parametrize("cutoff", [None, 6.0])
def test_a_query_far_from_all_samples_sees_the_nearest(cutoff):
    x, y = np.array([[0.0]] * 3 + [[1.0], [9.0], [9.0]]), np.array([0.0, 3.0, 6.0, 1.0, 2.0, 4.0])
    model = AttentionRegressor(length_scale=0.1, cutoff=cutoff).fit(x, y)
    case = bell, scaled(0.1), True
    locations, means, counts = np.array([[0.0], [1.0], [9.0]]), [3.0, 1.0, 3.0], [3, 1, 2]
    q = np.array([[0.0], [0.4], [0.6], [4.0], [-50.0], [50.0], [1e9]])
    expected = [weights_at(p, locations, case, counts) @ means for p in q]
    np.testing.assert_allclose(model.predict(q), expected, atol=1e-6 if cutoff else 1e-12)
    assert model.predict(q)[-1] == pytest.approx(np.mean(y), abs=1e-6)


def test_a_sum_finds_trend_and_season():
    t = np.arange(0, 20, 1 / 24)
    trend, season = 0.5 * t, np.sin(2 * np.pi * t) + 0.5 * np.cos(4 * np.pi * t)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0, 0.02)
    seen = (t < 9) | (t > 9.6)
    model = AttentionRegressor(kernel).fit(t[seen, None], (trend + season)[seen])
    assert 1 <= model.n_iter_ <= 10
    error = model.predict(t[:, None]) - trend - season
    assert np.abs(error[(t > 1) & (t < 19)]).max() < 0.06
    single = AttentionRegressor(GaussianKernel(2.0)).fit(t[seen, None], (trend + season)[seen])
    assert np.abs(single.predict(t[:, None]) - trend - season).max() > 0.9


def test_widths_are_chosen():
    x = np.linspace(0, 10, 400)[:, None]
    rng = np.random.default_rng(0)
    y = np.sin(4 * x[:, 0]) + 0.2 * rng.standard_normal(400)
    chosen = AttentionRegressor().fit(x, y)
    errors = {
        scale: AttentionRegressor(GaussianKernel(scale)).fit(x, y).loo_error_
        for scale in np.geomspace(0.01, 5, 40)
    }
    assert chosen.loo_error_ <= 1.02 * min(errors.values())
    assert chosen.loo_error_ < 0.9 * errors[max(errors)]


def test_widths_of_a_product_and_of_a_sum_are_chosen():
    t = np.arange(0, 12, 1 / 30)[:, None]
    y = (1 + 0.1 * t[:, 0]) * np.sin(2 * np.pi * t[:, 0]) + 0.3 * t[:, 0]
    y = y + 0.1 * np.random.default_rng(0).standard_normal(y.shape)
    kernel = GaussianKernel(2.0) + PeriodicKernel(1.0) * GaussianKernel()
    model = AttentionRegressor(kernel).fit(t, y)
    first, second = model.kernel_.k1, model.kernel_.k2
    assert first.length_scale == 2.0
    assert isinstance(second.k1.length_scale, float)
    assert len(second.k2.length_scale) == 1
    assert model.noise_std_ == pytest.approx(0.1, rel=0.15)
    assert kernel.k2.k1.length_scale == "loo"
    sphere = AttentionRegressor(SphereKernel()).fit(t * [1.0, 2.0], y)
    scale = sphere.kernel_.length_scale
    errors = {
        s: AttentionRegressor(SphereKernel(s)).fit(t * [1.0, 2.0], y).loo_error_
        for s in (scale / 2, scale, scale * 2)
    }
    assert min(errors, key=errors.get) == scale


def test_left_out_samples_are_not_in_phase_with_a_period():
    """Each eighth of 16,000 would be the same phase of the day."""
    t = np.arange(16_000) / 8
    y = np.sin(2 * np.pi * t) + 0.1 * np.random.default_rng(0).standard_normal(16_000)
    model = AttentionRegressor(GaussianKernel(0.5), cutoff=6.0).fit(t[:, None], y)
    assert model.loo_error_ == pytest.approx(np.std(y), rel=0.1)
    assert model.noise_std_ == pytest.approx(np.std(y), rel=0.1)


def test_narrow_widths_are_found():
    """Far below the rule of thumb that the search begins with."""
    x = np.arange(800) / 24
    y = np.sin(2 * np.pi * x) + 0.1 * np.random.default_rng(0).standard_normal(800)
    model = AttentionRegressor().fit(x[:, None], y)
    assert model.loo_error_ < 0.13
    points = 0.002 * np.random.default_rng(1).standard_normal((400, 2))
    height = np.sin(points[:, 0] / 0.0005)
    near = AttentionRegressor(SphereKernel()).fit(points, height)
    assert near.loo_error_ < 0.5 * np.std(height)


PLACE_NAMES = [
    ("lat", "lon"),
    ("latitude", "longitude"),
    ("LATITUDE", "LONGITUDE"),
    ("lat", "lng"),
    ("lats", "lons"),
    ("lat_deg", "long_deg"),
    ("XLAT", "XLONG"),
    ("start_lat", "start_lon"),
    ("geolat", "geolon"),
]


@pytest.mark.parametrize("names", PLACE_NAMES, ids=" ".join)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_places_by_their_names(names, is_reversed):
    import pandas as pd

    rng = np.random.default_rng(0)
    latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 60)))
    table = pd.DataFrame({names[0]: latitude, names[1]: rng.uniform(-180, 180, 60)})
    table = table[list(names)[::-1]] if is_reversed else table
    y = np.sin(np.radians(latitude))
    model, sphere = AttentionRegressor().fit(table, y), AttentionRegressor(SphereKernel())
    np.testing.assert_array_equal(model.predict(table), sphere.fit(table, y).predict(table))
    assert isinstance(model.kernel_, SphereKernel)
    for options in ({"kernel": "gaussian"}, {"length_scale": 9.0}):
        flat = AttentionRegressor(**options).fit(table, y)
        assert isinstance(flat.kernel_, GaussianKernel)
    far = table.assign(**{names[0]: 100 * table[names[0]]})  # in no degrees
    assert isinstance(AttentionRegressor().fit(far, y).kernel_, GaussianKernel)


def test_places_beside_other_columns():
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(0, 60, (80, 3)), columns=["lat", "lon", "height"])
    y = rng.normal(size=80)
    with np.testing.assert_no_warnings():
        AttentionRegressor().fit(table, y)
    table["lon"] = np.linspace(-170, 170, 80)
    with pytest.warns(UserWarning, match=r"Distances of lat and lon are.*columns=\['lat', 'lon'\]"):
        AttentionRegressor().fit(table, y)
    with np.testing.assert_no_warnings():
        AttentionRegressor("gaussian").fit(table, y)


def stations(num_hours):
    import pandas as pd

    rng = np.random.default_rng(0)
    places = pd.DataFrame(
        {"x": rng.uniform(0, 9, 6), "y": rng.uniform(0, 9, 6), "station": range(6)}
    )
    times = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=num_hours, freq="h")})
    table = places.merge(times, how="cross")
    day = np.sin(2 * np.pi * table.time.dt.hour / 24)
    return table, day + 0.3 * table.x + 0.1 * rng.normal(size=len(table))


def test_a_place_without_samples():
    table, y = stations(48)
    is_known, x = table.station < 5, table[["time", "x", "y"]]
    model = AttentionRegressor().fit(x[is_known], y[is_known])
    message = r"48 of 48 queries are at places without samples, beside 5 places with 48 samples on"
    with pytest.warns(UserWarning, match=message):
        model.predict(x[~is_known])
    with np.testing.assert_no_warnings():
        model.predict(x[is_known])
        grouped = AttentionRegressor().fit(x[is_known], y[is_known], groups=table.station[is_known])
        grouped.predict(x[~is_known])
        AttentionRegressor().fit(x[is_known][::7], y[is_known][::7]).predict(x[~is_known])


@pytest.mark.parametrize("replicates", [1, 3])
def test_a_place_without_samples_in_an_array(replicates):
    """Places are the columns that repeat together; a grid of two columns is no place."""
    table, y = stations(48)
    is_known = (table.station < 5).to_numpy()
    x = np.column_stack([table[["x", "y"]], np.tile(np.arange(48) / 24, 6)])
    known = np.tile(x[is_known], (replicates, 1))
    target = np.tile(y[is_known], replicates) + np.repeat(np.arange(replicates), is_known.sum())
    model = AttentionRegressor().fit(known, target)
    message = f"48 of 48 queries are at .* 5 places with {48 * replicates} samples on average"
    with pytest.warns(UserWarning, match=message):
        model.predict(x[~is_known])
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0), np.arange(12.0)), axis=-1)
    grid = grid.reshape(-1, 3)
    with np.testing.assert_no_warnings():
        model.predict(x[is_known])
        AttentionRegressor().fit(grid, grid.sum(axis=1)).predict(grid[:9] + 0.5)


def test_a_search_starts_from_each_factor_of_a_product():
    """The error has a minimum of 1 at the initial widths, and one of 0.3 where one is wide."""
    narrow, wide = factors = [GaussianKernel(1.0), GaussianKernel(1.0)]
    calls = []

    def error():
        calls.append(None)
        x, y = np.log2([factor.length_scale for factor in factors])
        if min(x, y) < -12:
            return math.inf, math.inf
        return min(1 + (abs(x) + abs(y)) / 8, 0.3 + (abs(x + 7) + abs(y - 10)) / 8), 2.0

    assert regressor._search([regressor._Width(f, None, 1.0, 20) for f in factors], error, 0) == 2.0
    assert (narrow.length_scale, wide.length_scale) == (2.0**-7, 2.0**10)
    assert len(calls) <= 60


def test_targets_count_alike_in_any_unit():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 300))[:, None]
    fine = np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    coarse = x[:, 0] / 10 + 0.2 * rng.standard_normal(300)
    models = [AttentionRegressor().fit(x, np.stack([fine, unit * coarse], 1)) for unit in (1, 1e4)]
    assert models[0].kernel_.length_scale == models[1].kernel_.length_scale
    assert models[1].loo_error_.shape == (2,)
    np.testing.assert_allclose(models[1].loo_error_, models[0].loo_error_ * [1, 1e4])


@pytest.mark.parametrize("kernel", ["gaussian", GaussianKernel(0.3)])
def test_small_weights_have_no_unit(kernel):
    x, y = samples(1)
    rising = 1 + np.arange(40) % 3
    small, smaller = (
        AttentionRegressor(kernel).fit(x, y, sample_weight=unit * rising) for unit in (0.3, 0.003)
    )
    assert small.loo_error_ == pytest.approx(smaller.loo_error_)
    for a, b in zip(small.predict(x, return_std=True), smaller.predict(x, return_std=True)):  # noqa: B905
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_order_of_a_sum_does_not_matter():
    x = np.linspace(0, 10, 120)[:, None]
    y = x[:, 0] ** 2 / 10 + np.sin(2 * np.pi * x[:, 0])
    trend, season = GaussianKernel(2.0), PeriodicKernel(1.0, 0.05) * GaussianKernel(8.0)
    options = {"max_iter": 200, "tol": 1e-7}
    one, other = (
        AttentionRegressor(kernel, **options).fit(x, y)
        for kernel in (trend + season, season + trend)
    )
    assert max(one.n_iter_, other.n_iter_) < 200
    np.testing.assert_allclose(one.predict(x), other.predict(x), atol=1e-4)
    assert abs(np.mean(y - one.predict(x))) < 0.02


@pytest.mark.parametrize("unit", ["W", "h", "ns", "ps", "fs", "as"])
def test_spans_of_every_unit_are_days(unit):
    length = {"W": 7 * 86_400, "h": 3600}.get(unit)
    length = length or Fraction(1, 10 ** {"ns": 9, "ps": 12, "fs": 15, "as": 18}[unit])
    ticks = [-(2**63) + 1, -5, 0, 1, 2**63 - 1]
    days, kinds = times_to_days(np.asarray(ticks).astype(f"timedelta64[{unit}]")[:, None])
    assert [kind.is_time for kind in kinds] == [True]
    expected = [float(tick * Fraction(length, 86_400)) for tick in ticks]
    np.testing.assert_allclose(days[:, 0], expected, rtol=2**-51)


@pytest.mark.parametrize("unit", ["Y", "M", "generic"])
def test_spans_of_no_fixed_length_are_refused(unit):
    spans = np.asarray([[1], [2]]).astype(f"timedelta64[{unit}]")
    message = r"^`X\['x0'\]` must have spans of time of fixed length, got timedelta64.*\.$"
    with pytest.raises(ValueError, match=message):
        AttentionRegressor().fit(spans, np.arange(2.0))


def test_times_stay_times():
    import pandas as pd

    y = np.arange(10.0)
    spans = pd.DataFrame({"t": pd.timedelta_range("0D", periods=10, freq="D")})
    model = AttentionRegressor(length_scale=3.0).fit(spans, y)
    later = pd.DataFrame({"t": pd.to_timedelta([4.4], "D")})
    days = AttentionRegressor(length_scale=3.0).fit(y[:, None], y).predict([[4.4]])
    assert model.predict(later) == pytest.approx(days, abs=1e-12)
    got = AttentionRegressor(length_scale=3.0).fit(spans.to_numpy(), y).predict(later.to_numpy())
    assert got == pytest.approx(days, abs=1e-12)
    message = "`X` must have times as in `fit`, in column 0, got them in no column"
    with pytest.raises(ValueError, match=message):
        model.predict(pd.DataFrame({"t": [4.4]}))
    numbers = AttentionRegressor(length_scale=3.0).fit(pd.DataFrame({"t": y}), y)
    with pytest.raises(ValueError, match="in no column, got them in column 0"):
        numbers.predict(later)


def test_a_series_is_a_table_of_one_column():
    y = np.sin(np.arange(40) / 5)
    spans = pd.timedelta_range("0D", periods=40, freq="D")
    expected = AttentionRegressor().fit(np.arange(40.0)[:, None], y).predict([[4.5]])
    for x in (spans, pd.Series(spans), spans.to_numpy(), pd.Series(np.arange(40.0), name="t")):
        model = AttentionRegressor().fit(x, y)
        half = x[:1] + (0.5 * (x[1] - x[0])) + 4 * (x[1] - x[0])
        np.testing.assert_allclose(model.predict(half), expected)


def test_arguments_that_a_kernel_does_not_have():
    for kernel in (GaussianKernel, ProductKernel):
        with pytest.raises(TypeError, match="positional arguments but"):
            kernel(1.0, 2.0, 3.0)


def test_a_failed_fit_leaves_it_as_it_was():
    x, y = samples(1)
    model = AttentionRegressor(length_scale=1.0).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="length_scale"):
        model.set_params(length_scale=-1.0).fit(np.zeros((40, 2)), y)
    np.testing.assert_array_equal(model.predict(x), before)


def test_several_targets():
    x, y = samples(1)
    both = AttentionRegressor(GaussianKernel(0.7)).fit(x, np.stack([y, 2 * y + 1], axis=1))
    mean, std = both.predict(x, return_std=True)
    one, one_std = AttentionRegressor(GaussianKernel(0.7)).fit(x, y).predict(x, return_std=True)
    np.testing.assert_allclose(mean, np.stack([one, 2 * one + 1], axis=1))
    np.testing.assert_allclose(std, np.stack([one_std, 2 * one_std], axis=1))
    left_out = AttentionRegressor(GaussianKernel(0.7)).fit(x, y).predict_left_out()
    expected = np.stack([left_out, 2 * left_out + 1], axis=1)
    np.testing.assert_allclose(both.predict_left_out(), expected)


def test_few_samples():
    x, y = np.array([[0.0], [100.0], [250.0]]), np.array([1.0, 2.0, 6.0])
    model = AttentionRegressor(GaussianKernel(1.0)).fit(x, y)
    np.testing.assert_allclose(model.predict(x), y)
    case = bell, scaled(1.0), True
    expected = [weights_at(x[i], x, case, hidden=[i]) @ y for i in range(3)]
    np.testing.assert_allclose(model.predict_left_out(), expected)
    assert 0.5 < model.noise_std_ < 4
    two = AttentionRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    np.testing.assert_allclose(two.predict_left_out(), [1.0, 0.0])
    assert two.noise_std_ == pytest.approx(0.5**0.5)
    one = AttentionRegressor().fit([[1.0]], [5.0])
    mean, std = one.predict([[0.0], [3.0]], return_std=True)
    np.testing.assert_allclose(mean, [5.0, 5.0])
    assert np.isnan(std).all()  # one sample has no spread
    level = AttentionRegressor().fit(np.arange(5.0)[:, None], np.full(5, 3.0))
    assert (level.noise_std_, level.predict([[9.0]])) == (0.0, 3.0)


def test_float32_stays_float32():
    x, y = samples(1)
    model = AttentionRegressor(GaussianKernel(0.7)).fit(x.astype("f4"), y.astype("f4"))
    assert model.predict(x.astype("f4")).dtype == np.float32
    assert model.predict(np.arange(3)[:, None]).dtype == np.float64


@pytest.mark.parametrize(("dtype", "scale"), [("f2", 1e6), ("f4", 1e100)])
def test_numbers_that_are_too_large_for_the_dtype_of_places(dtype, scale):
    x, y = samples(1)
    expected = AttentionRegressor(GaussianKernel(0.7)).fit(x, y).predict(x, return_std=True)
    for fitted_to in (x.astype(dtype), x):
        model = AttentionRegressor(GaussianKernel(0.7)).fit(fitted_to, scale * y)
        for got, values in zip(
            model.predict(x.astype(dtype), return_std=True), expected, strict=True
        ):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got / scale, values, atol=0.02)


ESTIMATORS = {
    "default": AttentionRegressor(),
    "mean": AttentionRegressor(local_linear=False, length_scale=0.5),
    "sum": AttentionRegressor(GaussianKernel(0.5) + GaussianKernel(1.0) * GaussianKernel(2.0)),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_scikit_learn_asks_of_an_estimator(name):
    results = check_estimator(ESTIMATORS[name], on_skip=None, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # They want SCIPY_ARRAY_API=1 before SciPy is imported: see the next test.
    assert skipped <= {
        "check_array_api_input",
        "check_array_api_mixed_inputs",
        "check_array_api_same_namespace",
    }
    assert sum(r["status"] == "passed" for r in results) >= 50


@pytest.mark.library("torch")
def test_array_api_dispatch():
    script = """
        import warnings
        warnings.simplefilter("ignore")
        import numpy, sklearn, torch, array_api_strict as strict
        from sklearn.utils.estimator_checks import check_estimator
        from positional_embeddings.sklearn import AttentionRegressor
        # scikit-learn takes each build for CUDA for one with a GPU.
        torch.backends.cuda.is_built = torch.cuda.is_available
        results = check_estimator(AttentionRegressor(), on_skip=None, on_fail=None)
        of_arrays = [r for r in results if r["check_name"].startswith("check_array_api")]
        assert not [r for r in of_arrays if r["status"] == "failed"], of_arrays
        assert sum(r["status"] == "passed" for r in of_arrays) >= 4, of_arrays
        x = numpy.linspace(0, 6, 50)[:, None]
        y = numpy.sin(x[:, 0])
        expected = AttentionRegressor().fit(x, y).predict(x, return_std=True)
        with sklearn.config_context(array_api_dispatch=True):
            for xp in (torch, strict):
                for dtype in (xp.float64, xp.float32):
                    ax, ay = xp.asarray(x, dtype=dtype), xp.asarray(y, dtype=dtype)
                    model = AttentionRegressor(cutoff=9.0).fit(ax, ay)
                    for got, want in zip(model.predict(ax, return_std=True), expected):
                        assert type(got) is type(ax) and got.dtype == dtype
                        assert abs(numpy.asarray(got) - want).max() < 1e-4
    """
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.library("torch")
def test_queries_of_another_library(monkeypatch):
    import torch

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")

    x, y = samples(1)
    model = AttentionRegressor(GaussianKernel(1.0)).fit(x, y)
    message = r"must use the same namespace .* fit \(.*numpy\) and predict \(.*torch\) differ"
    with (
        config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match=rf"AttentionRegressor\.predict\(\) {message}"),
    ):
        model.predict(torch.ones((3, 1)))


def test_scikit_learn_searches_and_copies_it():
    x, y = samples(1, 80)
    kernel = GaussianKernel(1.0) + PeriodicKernel(1.0, 0.5) * GaussianKernel(5.0)
    search = GridSearchCV(
        AttentionRegressor(kernel),
        {"kernel__k1__length_scale": [0.3, 30.0], "local_linear": [True, False]},
    ).fit(x, y)
    assert search.best_params_["kernel__k1__length_scale"] == 0.3
    model = search.best_estimator_
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(x), model.predict(x))
    assert clone(model).get_params()["kernel__k1__length_scale"] == 0.3
    assert cross_val_score(make_pipeline(FunctionTransformer(), model), x, y).mean() > 0.5
    assert eval(repr(kernel)).get_params().keys() == kernel.get_params().keys()


def test_kernels_combine():
    a, b, c = GaussianKernel(1.0), PeriodicKernel(2.0), SphereKernel()
    assert isinstance(a + b * c, SumKernel)
    assert isinstance(a * b, ProductKernel)
    for wrong in (lambda: a + 1, lambda: a * 2.0):
        with pytest.raises(TypeError):
            wrong()


def fitted(kernel="gaussian", x=None, weight=None, **options):
    x = np.zeros((4, 2)) + np.arange(4.0)[:, None] if x is None else x
    return AttentionRegressor(kernel, **options).fit(x, np.arange(4.0), weight)


ERRORS = {
    "kernel": (
        lambda: fitted(3),
        TypeError,
        r'`kernel` must be "auto", "gaussian" or a kernel, got 3',
    ),
    "name": (
        lambda: fitted("rbf"),
        ValueError,
        '`kernel` must be "auto", "gaussian" or a kernel, got \'rbf\'. Pass an object, such as ',
    ),
    "kernel of a process": (
        lambda: fitted(RBF()),
        TypeError,
        r"got sklearn\.gaussian_process\.kernels\.RBF\. Kernels of Gaussian processes differ",
    ),
    "kernel of a process times ours": (
        lambda: fitted(RBF() * GaussianKernel()),
        TypeError,
        r"or a kernel, got sklearn\.gaussian_process\.kernels\.Product\. Kernels of Gaussian proc",
    ),
    "part of a process": (
        lambda: fitted(SumKernel(GaussianKernel(), RBF())),
        TypeError,
        "`k2` must be a kernel, got .*RBF. Kernels of Gaussian processes differ",
    ),
    "kernel for a process": (
        lambda: GaussianProcessRegressor(GaussianKernel()).fit(np.zeros((4, 1)), np.arange(4.0)),
        ValueError,
        r"an instance of 'sklearn\.gaussian_process\.kernels\.Kernel'. Got GaussianKernel\(\)",
    ),
    "own scale": (
        lambda: fitted(GaussianKernel(1.0), length_scale=2.0),
        ValueError,
        r'`length_scale` must be "loo" if `kernel` is a kernel, which has its own, got 2.0',
    ),
    "scale": (lambda: fitted(length_scale=-1.0), ValueError, "`length_scale` must be .*, got -1.0"),
    "scale name": (
        lambda: fitted(length_scale="auto"),
        ValueError,
        "`length_scale` must be a positive number or \"loo\", got 'auto'",
    ),
    "scales": (
        lambda: fitted(length_scale=[1.0, 2.0, 3.0]),
        ValueError,
        "`length_scale` must be one number, or 2, one for each column, got 3",
    ),
    "one of the scales": (
        lambda: fitted(length_scale=[1.0, 0.0]),
        ValueError,
        r"`length_scale\[1\]` must be a positive",
    ),
    "kind of scale": (
        lambda: fitted(length_scale=None),
        TypeError,
        "`length_scale` must be a positive finite number, got None",
    ),
    "columns": (
        lambda: fitted(GaussianKernel(1.0, columns=0)),
        TypeError,
        "`columns` must be a list of integers or names, or None, got 0",
    ),
    "column": (
        lambda: fitted(GaussianKernel(1.0, columns=[2])),
        ValueError,
        r"`columns\[0\]` must be one of \[0, 1\], got 2",
    ),
    "span of time": (
        lambda: fitted(GaussianKernel(1.0, columns=[np.timedelta64(1, "D")])),
        ValueError,
        r"`columns\[0\]` must be one of \[0, 1\], got np.timedelta64",
    ),
    "places": (
        lambda: fitted(SphereKernel(1.0, columns=[1])),
        ValueError,
        "`columns` must be a latitude and a longitude",
    ),
    "one column": (
        lambda: fitted(SphereKernel(1.0), x=np.zeros((4, 1))),
        ValueError,
        "`X` must have a latitude and a longitude for a SphereKernel, got 1 column",
    ),
    "period": (lambda: fitted(PeriodicKernel(0.0)), ValueError, "`period` must be a positive"),
    "part": (
        lambda: fitted(SumKernel(GaussianKernel(), 2)),
        TypeError,
        "`k2` must be a kernel, got 2",
    ),
    "sum in a product": (
        lambda: fitted((GaussianKernel() + GaussianKernel()) * GaussianKernel()),
        TypeError,
        "`k1` must be no sum",
    ),
    "line in a product": (
        lambda: fitted(GaussianKernel(local_linear=True) * PeriodicKernel(1.0)),
        ValueError,
        "`local_linear` must be None or False in a product, got True",
    ),
    "roughness": (
        lambda: fitted(MaternKernel(1.0, nu=1)),
        ValueError,
        "`nu` must be 0.5, 1.5 or 2.5, got 1",
    ),
    "another name": (
        lambda: AttentionRegressor(GaussianKernel(1.0, columns=["day"])).fit(
            pd.DataFrame({"hour": [0.0, 1.0]}), [0.0, 1.0]
        ),
        ValueError,
        r"`columns\[0\]` must be one of \[0, 'hour'\], got 'day'",
    ),
    "missing time": (
        lambda: AttentionRegressor().fit(np.array([["NaT"], ["2024"]], dtype="M8[D]"), [0.0, 1.0]),
        ValueError,
        r"`X\['x0'\]` must have no missing times, got NaT in row 0",
    ),
    "column's name": (
        lambda: fitted(GaussianKernel(1.0, columns=["day"])),
        ValueError,
        r"`columns\[0\]` must be one of \[0, 1\], got 'day'",
    ),
    "span for numbers": (
        lambda: fitted(length_scale="30D"),
        ValueError,
        "`length_scale` must be a positive number or \"loo\", got '30D'",
    ),
    "span": (
        lambda: fitted("gaussian", np.arange(4).astype("M8[D]"), length_scale="30 days"),
        ValueError,
        '`length_scale` must be .*, or a span such as "30D" or "12h", got \'30 days\'',
    ),
    "all are left out": (
        lambda: fitted(leave_out=10.0),
        ValueError,
        "`leave_out` must leave each sample another one that predicts it",
    ),
    "nanoseconds": (
        lambda: fitted("gaussian", np.arange(4) + np.datetime64("2024-01-01", "ns")),
        ValueError,
        r"`X\['?x?0'?\]` must have values that differ in float64, with times as days since",
    ),
    "far integers": (
        lambda: AttentionRegressor().fit(2**60 + np.arange(4)[:, None], np.arange(4.0)),
        ValueError,
        "`X` must have values that differ in float64",
    ),
    "small measurements": (
        lambda: AttentionRegressor().fit(np.arange(4.0)[:, None], 1e-200 * np.arange(4)),
        ValueError,
        r"`y` must vary by 1e-150 or more in a column, or not at all, got 3e-200. Count them in a",
    ),
    "small places": (
        lambda: AttentionRegressor().fit(1e-200 * np.arange(4.0)[:, None], np.arange(4)),
        ValueError,
        "`X` must vary by 1e-150 or more in a column, or not at all, got 3e-200",
    ),
    "groups": (
        lambda: AttentionRegressor().fit(np.ones((3, 1)), np.ones(3), groups=[1, 1, 1]),
        ValueError,
        "`groups` must have two or more different labels, got one",
    ),
    "shape of groups": (
        lambda: AttentionRegressor().fit(np.ones((3, 1)), np.ones(3), groups=np.ones((3, 2))),
        ValueError,
        r"`groups` must have one value for each of 3 samples, got shape \(3, 2\)",
    ),
    "missing groups": (
        lambda: AttentionRegressor().fit(np.ones((2, 1)), np.ones(2), groups=[1.0, np.nan]),
        ValueError,
        "`groups` must have no missing labels, got None or NaN",
    ),
    "types of groups": (
        lambda: AttentionRegressor().fit(
            np.ones((2, 1)), np.ones(2), groups=np.array(["a", 1], dtype=object)
        ),
        TypeError,
        r"input argument must be uniformly strings or numbers. Got \['int', 'str'\]",
    ),
    "complex weights": (
        lambda: fitted(weight=np.ones(4, dtype=complex)),
        ValueError,
        "Complex data not supported",
    ),
    "text for weights": (
        lambda: fitted(weight=["a", "b", "c", "d"]),
        TypeError,
        "`sample_weight` must hold numbers, got text",
    ),
    "dates for weights": (
        lambda: fitted(weight=np.ones(4, dtype="datetime64[D]")),
        TypeError,
        "`sample_weight` must hold real numbers, got numpy.ndarray of shape",
    ),
    "text among numbers": (
        lambda: AttentionRegressor().fit(np.array([[1.0], ["b"]], dtype=object), [1.0, 2.0]),
        TypeError,
        r"`X\['x0'\]` must hold numbers or dates, got text, 'b'\. Encode categories separately",
    ),
    "text for y": (
        lambda: AttentionRegressor().fit(np.ones((2, 1)), np.array([1.0, "b"], dtype=object)),
        TypeError,
        "`y` must hold numbers, got text",
    ),
    "y that is missing": (
        lambda: AttentionRegressor().fit(np.ones((2, 1)), np.array([1.0, None])),
        ValueError,
        r"`y` must be within 1e\+150 of 0, got a missing number",
    ),
    "y far below 0": (
        lambda: AttentionRegressor().fit(np.ones((2, 1)), [-1e160, 1.0]),
        ValueError,
        r"`y` must be within 1e\+150 of 0, got 1e\+160 or beyond",
    ),
    "text for dates": (
        lambda: AttentionRegressor().fit(np.array([["2024-01-01"], ["2024-01-02"]]), [1.0, 2.0]),
        TypeError,
        r"`X\['x0'\]` must hold numbers or dates, got text, '2024-01-01'",
    ),
    "dates for y": (
        lambda: AttentionRegressor().fit(
            np.ones((2, 1)), np.array(["2024", "2025"], dtype="datetime64[D]")
        ),
        TypeError,
        r"`y` must hold numbers, got datetime64\[D\]",
    ),
    "large y": (
        lambda: AttentionRegressor().fit(np.ones((2, 1)), [1.0, 1e160]),
        ValueError,
        r"`y` must be within 1e\+150 of 0, got 1e\+160 or beyond",
    ),
    "narrow": (
        lambda: fitted(GaussianKernel(1e-200)),
        ValueError,
        r"`X` must be within 1e\+150 widths of the kernel from 0, got more",
    ),
    "both": (
        lambda: AttentionRegressor(leave_out=1.0).fit([[1], [2]], [1, 2], groups=[1, 2]),
        ValueError,
        "`leave_out` must be None where `groups` are given, got 1.0",
    ),
    "cutoff of 0": (
        lambda: fitted(cutoff=0.0),
        ValueError,
        "`cutoff` must be a positive finite number",
    ),
    "block": (lambda: fitted(block_size=0), ValueError, "`block_size` must be a positive integer"),
    "rounds": (lambda: fitted(max_iter=0), ValueError, "`max_iter` must be a positive integer"),
    "tolerance": (lambda: fitted(tol=0), ValueError, "`tol` must be a positive finite number"),
    "line": (lambda: fitted(local_linear=1), TypeError, "`local_linear` must be"),
    "weights": (
        lambda: fitted(weight=np.ones(3)),
        ValueError,
        r"sample_weight.shape == \(3,\), expected \(4,\)!",
    ),
    "negative weight": (
        lambda: fitted(weight=np.array([1.0, -2.0, 1.0, 1.0])),
        ValueError,
        "Negative values in data passed to `sample_weight`",
    ),
    "infinite weight": (
        lambda: fitted(weight=np.array([1.0, np.inf, 1.0, 1.0])),
        ValueError,
        "Input sample_weight contains infinity",
    ),
    "weight that is none": (
        lambda: fitted(weight=np.array([1.0, 1.0, np.nan, 1.0])),
        ValueError,
        "Input sample_weight contains NaN",
    ),
    "no weight": (
        lambda: fitted(weight=np.zeros(4)),
        ValueError,
        "Sample weights must contain at least one non-zero number",
    ),
    "std": (
        lambda: fitted().predict(np.zeros((1, 2)), return_std=None),
        ValueError,
        "`return_std` must be True or False or 'mean', got None",
    ),
    "name of a std": (
        lambda: fitted().predict(np.zeros((1, 2)), return_std="median"),
        ValueError,
        "`return_std` must be True or False or 'mean', got 'median'",
    ),
    "not finite": (lambda: fitted(x=np.full((4, 2), np.nan)), ValueError, "NaN"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_offsets_of_pandas_are_length_scales():
    dates = pd.date_range("2024-01-01", periods=60)
    y = np.sin(np.arange(60) / 5)
    got, expected = (
        AttentionRegressor(GaussianKernel(scale)).fit(dates, y).predict(dates)
        for scale in (pd.offsets.Week(), "7D")
    )
    np.testing.assert_array_equal(got, expected)
