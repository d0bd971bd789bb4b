"""The widths that `AttentionRegressor` chooses, its sums and errors, against loops and refits."""

from itertools import product
from math import inf, nan, pi, sqrt

import array_api_strict as strict
import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import get_tags

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
)
from positional_embeddings.sklearn.smooth import KernelSmoother
from smoothers import (
    Factor,
    average_replicates,
    bell,
    circle,
    draw_samples,
    scaled,
    smooth,
    visible_weights,
)

# Queries far outside of the samples are asked on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* farther outside of the samples")

# Searches for widths.


def sinusoids(period, noise, n=120):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, (n, 1)), axis=0)
    return x, np.sin(2 * pi * x[:, 0] / period) + rng.normal(0, noise, n)


@pytest.mark.filterwarnings("ignore:Neighbouring errors")
@pytest.mark.parametrize("period", [0.6, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("noise", [0.02, 1.0])
def test_a_search_finds_the_least_error(period, noise):
    """Of means, whose only number is the width, among all half octaves."""
    x, y = sinusoids(period, noise)
    model = AttentionRegressor(local_linear=False).fit(x, y)
    (width,) = model.kernel_.length_scale
    errors = []
    for step in range(-16, 17):
        kernel = GaussianKernel(width * 2 ** (step / 2), local_linear=False)
        errors.append(AttentionRegressor(kernel).fit(x, y).loo_error_)
    assert errors[16] == model.loo_error_
    assert model.loo_error_ < 1.001 * min(errors)


@pytest.mark.parametrize("noise", [0.02, 1.0])
def test_no_line_of_another_width_is_better(noise):
    x, y = sinusoids(3.0, noise)
    model = AttentionRegressor().fit(x, y)
    (width,) = model.kernel_.length_scale
    for step in range(-16, 17):
        fixed = AttentionRegressor(length_scale=width * 2 ** (step / 2)).fit(x, y)
        assert model.loo_error_ < 1.001 * fixed.loo_error_


def test_a_search_for_two_widths():
    """Neither another width of one column nor of both is better, nor a thousandth is gained."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (150, 2))
    y = np.sin(3 * x[:, 0]) + np.sin(x[:, 1] / 3) + rng.normal(0, 0.1, 150)
    model = AttentionRegressor(local_linear=False).fit(x, y)
    widths = np.array(model.kernel_.length_scale)
    assert widths[1] > 4 * widths[0]
    for steps in product((-4, -2, -1, 0, 1, 2, 4), repeat=2):
        if 0 in steps or steps[0] == steps[1]:
            kernel = GaussianKernel((widths * 2.0 ** (np.array(steps) / 2)).tolist())
            other = AttentionRegressor(kernel, local_linear=False).fit(x, y)
            assert model.loo_error_**2 < 1.0011 * other.loo_error_**2


def test_a_search_for_many_widths_ends(monkeypatch):
    """Two of twelve columns matter; about 60 kernels find them."""
    rng, calls = np.random.default_rng(0), []
    x = rng.uniform(0, 1, (80, 12))
    y = np.sin(6 * x[:, 2]) + x[:, 7] + rng.normal(0, 0.05, 80)
    predict = KernelSmoother.predict
    monkeypatch.setattr(
        KernelSmoother, "predict", lambda *a, **k: calls.append(1) or predict(*a, **k)
    )
    model = AttentionRegressor(local_linear=False).fit(x, y)
    widths = np.array(model.kernel_.length_scale)
    assert {2, 7} == set(np.argsort(widths)[:2])
    # The other calls estimate the noise, and whether it is local.
    assert 30 < len(calls) < 90


@pytest.mark.parametrize(("replicates", "min_width"), [(1, 1 / 2), (2, 1 / 6)])
def test_no_width_is_far_below_the_distance_of_samples(replicates, min_width):
    """Where none is within two widths a kernel widens; where others are at the place, in six."""
    x = np.repeat(np.arange(40.0), replicates)[:, None]
    y = 100.0 * np.random.default_rng(0).normal(size=40)[x[:, 0].astype(int)]
    y = y + np.random.default_rng(1).normal(0, 0.01, y.size)
    (width,) = AttentionRegressor().fit(x, y).kernel_.length_scale
    assert width >= min_width


def test_how_much_slopes_shrink_is_chosen():
    """Errors equal those of the best of four ridges, in a loop."""
    ridges, chosen = [0.25, 2.0, 16.0, inf], set()
    x = np.linspace(0, 1, 9)[:, None]
    for seed in range(40):
        y = 2 * x[:, 0] + np.random.default_rng(seed).normal(0, 0.5, 9)
        model = AttentionRegressor().fit(x, y)
        samples, _ = average_replicates(x, y[:, None], np.ones(9))
        visible = visible_weights(x.T, x.T, 0.0, np.zeros(9))
        factors = [Factor(bell, scaled(*model.kernel_.length_scale))]
        means = smooth(factors, samples, x.T, ridges, visible).mean[:, 0]
        best = ((means - y) ** 2).mean(axis=1).argmin()
        np.testing.assert_allclose(model.predict_left_out(), means[best], atol=1e-12)
        chosen.add(ridges[best])
    assert chosen == set(ridges)


def test_targets_that_are_constant_do_not_count():
    x = np.random.default_rng(7).uniform(0, 6, (30, 1))
    y = 0.01 * np.sin(x)
    alone = AttentionRegressor().fit(x, y)
    both = AttentionRegressor().fit(x, np.concatenate([y, np.full_like(y, 3.0)], axis=1))
    assert both.kernel_.length_scale == alone.kernel_.length_scale
    np.testing.assert_allclose(both.loo_error_, [alone.loo_error_[0], 0], atol=1e-12)
    np.testing.assert_allclose(both.noise_std_, [alone.noise_std_[0], 0], atol=1e-12)
    of_both, of_one = (m.predict(x[:5], return_std=True)[1][:, 0] for m in (both, alone))
    assert (of_both < of_one * 1.01).all()


def test_blocks_change_no_width_at_repeated_places():
    """A kernel with a cutoff is too narrow where no other place is within it."""
    rng = np.random.default_rng(6)
    x = np.repeat(np.sort(rng.uniform(0, 8, 16)), 2)[:, None]
    y = np.sin(4 * x[:, 0]) + rng.normal(0, 0.2, 32)
    one, many = (AttentionRegressor(cutoff=2.0, block_size=n).fit(x, y) for n in (1, None))
    assert one.kernel_.length_scale == many.kernel_.length_scale


# Samples at one place.


@pytest.mark.parametrize("with_groups", [False, True])
def test_samples_at_one_place_have_one_weight(with_groups):
    """Their mean, with the sum of their weights; samples with weight 0 are ignored."""
    rng = np.random.default_rng(8)
    n = 40
    x = rng.integers(0, 3, (n, 2)).astype(np.float64)
    y = rng.integers(0, 2, (n, 2)).astype(np.float64) + x[:, [0]]
    y[x[:, 1] == 0] = 5.0  # measurements that agree
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    groups = rng.integers(0, 2, n) if with_groups else None
    model = AttentionRegressor(GaussianKernel([0.9, 1.1])).fit(x, y, weight, groups=groups)
    has_weight = weight > 0
    samples, _ = average_replicates(x[has_weight], y[has_weight], weight[has_weight])
    factors = [Factor(bell, scaled(0.9, 1.1))]
    q = rng.uniform(-1, 4, (9, 2))
    expected = smooth(factors, samples, q.T, [0.25]).mean[0].T
    np.testing.assert_allclose(model.predict(q), expected, rtol=1e-9)
    assert model.predict_left_out().shape == (has_weight.sum(), 2)


@pytest.mark.parametrize("local_linear", [True, False])
def test_errors_and_noise_are_those_of_refits(local_linear):
    """Each measurement is left out; the other weights give the noise of a prediction."""
    rng = np.random.default_rng(9)
    x = rng.uniform(0, 6, 9)[[0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8]][:, None]
    y = rng.normal(0, 1, 12)
    kernel = GaussianKernel(1.2, local_linear=local_linear)
    model = AttentionRegressor(kernel).fit(x, y)
    expected, squares = [], []
    for i in range(12):
        is_other = np.arange(12) != i
        targets = np.concatenate([y[is_other, None], np.eye(11)], axis=1)
        mean, *weights = AttentionRegressor(kernel).fit(x[is_other], targets).predict(x[[i]])[0]
        expected.append(mean)
        squares.append(np.sum(np.square(weights)))
    square = np.mean((y - expected) ** 2)
    np.testing.assert_allclose(model.predict_left_out(), expected)
    np.testing.assert_allclose(model.loo_error_, sqrt(square))
    np.testing.assert_allclose(model.noise_std_, sqrt(square / (1 + np.mean(squares))))


@pytest.mark.parametrize("local_linear", [True, False])
def test_errors_and_noise_of_groups_are_those_of_refits(local_linear):
    """Groups share locations, and are left out together; each measurement has a weight."""
    rng = np.random.default_rng(3)
    place, group = rng.integers(0, 6, 24), rng.integers(0, 4, 24)
    x, y = rng.uniform(0, 6, 6)[place][:, None], rng.normal(0, 1, 24)
    kernel = GaussianKernel(1.2, local_linear=local_linear)
    model = AttentionRegressor(kernel).fit(x, y, groups=group)
    errors, squares, counts = [], [], []
    for pair in sorted(set(zip(place, group, strict=True))):
        is_other = group != pair[1]
        targets = np.concatenate([y[is_other, None], np.eye(is_other.sum())], axis=1)
        share = (place == pair[0]) & (group == pair[1])
        refit = AttentionRegressor(kernel).fit(x[is_other], targets)
        mean, *weights = refit.predict(x[share][:1])[0]
        np.testing.assert_allclose(model.predict_left_out()[share], mean, rtol=1e-9)
        errors.append(np.mean((y[share] - mean) ** 2))
        squares.append(np.sum(np.square(weights)))
        counts.append(share.sum())
    square, part = (np.average(a, weights=counts) for a in (errors, squares))
    np.testing.assert_allclose(model.loo_error_, sqrt(square))
    np.testing.assert_allclose(model.noise_std_, sqrt(square / (1 + part)))


def test_groups_of_few_places_take_about_as_long_as_none(monkeypatch):
    """Locations have weights, for any number of groups that share them."""
    place, group = np.arange(400) % 10, np.arange(400) // 10
    y = np.sin(place) + np.random.default_rng(0).normal(0, 0.3, 400)
    sizes, original = [], KernelSmoother._predict_leaf

    def predict_leaf(self, query, columns, visible, *, squares):
        sizes.append(columns.size)
        return original(self, query, columns, visible, squares=squares)

    monkeypatch.setattr(KernelSmoother, "_predict_leaf", predict_leaf)
    AttentionRegressor().fit(place[:, None], y, groups=group)
    assert max(sizes) == 10
    assert len(sizes) < 150


# Sums of functions.


def test_a_sum_is_smoothed_until_it_settles():
    x, y, weight = draw_samples(1, 20)
    y = 100 * y
    samples, _ = average_replicates(x, y, weight)
    q = np.linspace(-1, 12, 9)[None]
    factors = [[Factor(bell, scaled(3.0))], [Factor(bell, circle(2.0, 0.2))]]
    ridges = [0.25, inf]
    kernel = GaussianKernel(3.0) + PeriodicKernel(2.0, 0.2)
    w = samples.weight / samples.weight.sum()
    level = (samples.y @ w)[:, None]
    deviation = sqrt((((samples.y - level) ** 2 + samples.variance) @ w).max())
    fitted, changes, means = np.zeros((2, *samples.y.shape)), [], []
    for _ in range(5):
        before, mean = fitted.copy(), level.copy()
        for i in range(2):
            residuals = samples._replace(y=samples.y - level - fitted[1 - i])
            part = smooth(factors[i], residuals, samples.x, ridges[i : i + 1]).mean[0]
            offset = (part @ w)[:, None]
            fitted[i] = part - offset
            mean = mean + smooth(factors[i], residuals, q, ridges[i : i + 1]).mean[0] - offset
        means.append(mean)
        changes.append(abs(fitted - before).max() / deviation)
    for rounds in (1, 2, 4):
        for options in (
            {"max_iter": rounds, "tol": 1e-12},
            {"tol": changes[rounds - 1] * 1.001},
        ):
            model = AttentionRegressor(kernel, **options).fit(x, y, weight)
            small = [i for i, change in enumerate(changes) if change <= options["tol"]]
            done = min([rounds, *(i + 1 for i in small)])
            assert model.n_iter_ == done
            np.testing.assert_allclose(model.predict(q.T), means[done - 1].T, rtol=1e-7)


def test_a_sum_of_widths_that_are_chosen_settles():
    """As one of these widths does."""
    x = np.linspace(0, 10, 40)[:, None]
    y = np.sin(x[:, 0] * pi) + x[:, 0]
    options = {"max_iter": 30, "tol": 1e-9}
    model = AttentionRegressor(
        GaussianKernel(local_linear=False) + PeriodicKernel(2.0), **options
    ).fit(x, y)
    assert model.n_iter_ > 1
    again = AttentionRegressor(model.kernel_, **options).fit(x, y)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-9)
    assert again.loo_error_ == pytest.approx(model.loo_error_)


def test_what_is_constant_settles_at_once():
    x, y, weight = draw_samples(1, 12)
    kernel = GaussianKernel(3.0) + PeriodicKernel(2.0, 0.2)
    assert AttentionRegressor(kernel).fit(x, np.full(len(x), 3.0)).n_iter_ == 1
    assert AttentionRegressor(GaussianKernel(3.0)).fit(x, y, weight).n_iter_ == 1


def test_where_lines_are_fitted():
    x, y, weight = draw_samples(1, 12)
    samples, _ = average_replicates(x, y, weight)
    q = np.linspace(0, 9, 7)[None]
    for kernel, features, option, ridge in [
        (GaussianKernel(1.0), [scaled(1.0)], True, 0.25),
        (GaussianKernel(1.0), [scaled(1.0)], False, inf),
        (GaussianKernel(1.0, local_linear=True), [scaled(1.0)], False, 0.25),
        (GaussianKernel(1.0, local_linear=False), [scaled(1.0)], True, inf),
        (PeriodicKernel(2.0, 0.2), [circle(2.0, 0.2)], True, inf),
        (GaussianKernel(1.0) * GaussianKernel(2.0), [scaled(1.0), scaled(2.0)], True, inf),
        (
            GaussianKernel(1.0) * PeriodicKernel(2.0, 0.2),
            [scaled(1.0), circle(2.0, 0.2)],
            True,
            inf,
        ),
    ]:
        model = AttentionRegressor(kernel, local_linear=option).fit(x, y, weight)
        expected = smooth([Factor(bell, feature) for feature in features], samples, q, [ridge])
        np.testing.assert_allclose(model.predict(q.T), expected.mean[0].T, rtol=1e-9)
    line = AttentionRegressor(MaternKernel(1.0)).fit(x, y)
    mean = AttentionRegressor(MaternKernel(1.0, local_linear=False)).fit(x, y)
    assert abs(line.predict(q.T) - mean.predict(q.T)).max() > 0.1


# Standard deviations.


CASES = {
    "line": (GaussianKernel(0.8), [Factor(bell, scaled(0.8))], 0.25, 1),
    "mean of planes": (
        GaussianKernel([2.5, 1.5], local_linear=False),
        [Factor(bell, scaled(2.5, 1.5))],
        inf,
        2,
    ),
    "means on a grid": (
        GaussianKernel(0.15, local_linear=False),
        [Factor(bell, scaled(0.15))],
        inf,
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_errors_far_from_samples(name):
    """Growing balls and half-spaces are hidden; the squared bias grows with the distance."""
    kernel, factors, ridge, columns = CASES[name]
    x, y, weight = draw_samples(columns, 25, seed=columns - 1)
    if name == "means on a grid":
        x, y, weight = 0.4 * np.arange(25.0)[:, None], y[:25].cumsum(axis=0), weight[:25]
    model = AttentionRegressor(kernel).fit(x, y, weight)
    samples, _ = average_replicates(x, y, weight)
    n = samples.weight.size
    points = np.concatenate([factor.features(samples.x) for factor in factors])
    w = samples.weight / samples.weight.sum()
    level = (samples.y @ w)[:, None]
    spread = ((samples.y - level) ** 2 + samples.variance) @ w
    rng = np.random.default_rng(0)

    def noise_at(x):
        """Return the variance of a measurement minus that of the function."""
        std, of_mean = (model.predict(x.T, return_std=kind)[1].T for kind in (True, "mean"))
        return std**2 - of_mean**2

    noise = noise_at(samples.x)
    np.testing.assert_allclose(noise, noise.mean(axis=1, keepdims=True) * np.ones(n))

    def errors(radius, axis):
        labels, side = np.roll(points, axis, axis=0), rng.integers(-1, 2, n)
        visible = visible_weights(labels, labels, radius, np.zeros(n), side)
        prediction = smooth(factors, samples, samples.x, [ridge], visible)
        variance = noise * (1 / samples.replicates + prediction.squares)
        missed = (prediction.mean[0] - samples.y) ** 2 - variance
        return np.array(
            [(missed / spread[:, None]).mean(axis=0), prediction.distance, prediction.asymmetry]
        )

    rows = [errors(0.0, 0)]
    rows.append(np.zeros((3, np.count_nonzero(samples.replicates > 1))))
    first, last = np.median(rows[0][1]), np.ptp(points, axis=1).max()
    rows += [errors(first / 2 * (last / first) ** (i / 6), i + 1) for i in range(7)]
    missed, distance, asymmetry = np.concatenate(rows, axis=1)
    is_finite = np.isfinite(missed)
    assert 0 < is_finite.sum() < is_finite.size
    fits = []
    for trust in (1.001 - asymmetry[is_finite], 0.001 + asymmetry[is_finite]):
        fit = IsotonicRegression(y_min=0.0, out_of_bounds="clip")
        fits.append(fit.fit(np.round(distance[is_finite], 3), missed[is_finite], trust))
    q = rng.uniform(-1, 11, (columns, 20))
    prediction = smooth(factors, samples, q, [ridge])
    interior, boundary = (fit.predict(prediction.distance) for fit in fits)
    beyond = spread[:, None] * (
        (1 - prediction.asymmetry) * interior + prediction.asymmetry * boundary
    )
    max_variance = spread[:, None] + (prediction.mean[0] - level) ** 2
    assert beyond.max() > 0
    for measurements, kind in ((1, True), (0, "mean")):
        variance = noise[:, :1] * (measurements + prediction.squares) + beyond
        got = model.predict(q.T, return_std=kind)[1].T
        np.testing.assert_allclose(got, np.sqrt(np.minimum(variance, max_variance)), rtol=1e-6)


def test_each_function_of_a_sum_has_its_own_error_far_from_samples():
    """In a gap, the season determines the bands; ahead of the samples, the trend does."""
    rng = np.random.default_rng(0)
    t = np.arange(0, 7, 1 / 26)
    y = 0.3 * t**1.5 + np.sin(2 * pi * t) + 0.3 * np.sin(4 * pi * t) + rng.normal(0, 0.1, t.size)
    kernel = GaussianKernel(1.5) + PeriodicKernel(1.0, 0.02) * GaussianKernel(4.0)
    kernel = kernel + GaussianKernel(0.1)
    inside, ratios = [], []
    for first in np.arange(15, 165, 30):
        gap = np.zeros(t.size, dtype=bool)
        gap[first : first + 7] = True
        model = AttentionRegressor(kernel, max_iter=1).fit(t[~gap, None], y[~gap])
        mean, std = model.predict(t[gap, None], return_std=True)
        inside.append(abs(mean - y[gap]) < 1.96 * std)
        ratios.append(std / 0.1)
    assert 0.9 < np.mean(inside) < 0.99
    assert 1 < np.mean(ratios) < 1.5
    ahead = model.predict([[20.0]], return_std=True)[1]
    assert ahead > 10 * std.mean()


def test_errors_where_nothing_is_far():
    """Samples of one phase, or of one place, are at no distance."""
    y = np.array([1.0, 2.0, 4.0, 3.0, 7.0])
    phase = AttentionRegressor(PeriodicKernel(7.0, 0.3)).fit(7.0 * np.arange(5)[:, None], y)
    mean, std = phase.predict([[3.0], [14.0]], return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    np.testing.assert_allclose(std, y.std())
    np.testing.assert_allclose(phase.noise_std_, y.std(ddof=1))
    place = AttentionRegressor(GaussianKernel(1.0)).fit(np.ones((5, 1)), y)
    mean, std = place.predict([[1.0], [14.0]], return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    np.testing.assert_allclose(std, y.std())
    np.testing.assert_allclose(place.noise_std_, y.std(ddof=1))
    two = np.tile([0.0, 2.0], 6) + 7.0 * np.arange(12)
    phases = AttentionRegressor(PeriodicKernel(7.0, 0.3)).fit(two[:, None], np.arange(12.0))
    assert np.isfinite(phases.predict([[1.0], [5.0]], return_std=True)).all()


@pytest.mark.parametrize("offset", [0.0, 0.1, 0.3, 0.5])
def test_there_is_no_error_far_from_samples_at_their_phases(offset):
    """Times a period apart are at one phase, however it is rounded."""
    day = np.array([d for d in range(60) if d % 7 < 5])
    y = 3 * np.sin(2 * np.pi * day / 7) + np.random.default_rng(0).normal(0, 0.2, day.size)
    x = offset + day[:, None]
    model = AttentionRegressor(PeriodicKernel(7.0, 0.17)).fit(x, y)
    count = np.bincount(day % 7)
    expected = model.noise_std_ * np.sqrt(1 + 1 / count)
    std = model.predict(offset + np.arange(7.0)[:, None], return_std=True)[1]
    np.testing.assert_allclose(std[:5], expected, rtol=1e-3)
    assert (std[5:] > 5 * expected[0]).all()


@pytest.mark.filterwarnings("error")
def test_a_warning_beyond_the_record():
    """Where a column is outside of the samples by a tenth of their range, and by a length scale."""
    x, y = np.arange(41.0)[:, None], np.sin(np.arange(41.0))
    table = np.concatenate([x, 5 + x[::-1]], axis=1)
    for kernel, samples, inside, outside in [
        (GaussianKernel(1.0), x, [[-4.0], [44.0]], [[-4.1], [44.1]]),
        (GaussianKernel(6.0), x, [[-6.0], [46.0]], [[-6.1], [46.1]]),
        (MaternKernel([1.0, 6.0]), table, [[44.0, 51.0]], [[44.0, 51.1], [44.1, 50.0]]),
        (GaussianKernel(1.0, columns=[1]), table, [[999.0, 1.0]], [[0.0, 0.9]]),
        (PeriodicKernel(20.0, 2.0), x, [[999.0]], []),
        (PeriodicKernel(20.0, 2.0) * GaussianKernel(3.0), x, [[44.0]], [[44.1]]),
        (PeriodicKernel(20.0, 2.0) + GaussianKernel(3.0), x, [[-4.0]], [[-4.1]]),
    ]:
        model = AttentionRegressor(kernel, max_iter=1).fit(samples, y)
        model.predict(inside, return_std=True)
        for query in outside:
            model.predict([query])
            message = "1 of 2 queries are farther outside of the samples, in a column, than a tenth"
            with pytest.warns(UserWarning, match=message):
                model.predict([query, inside[0]], return_std="mean")


def test_errors_of_one_sample_are_not_known():
    one = AttentionRegressor().fit([[1.0]], [[2.0, 3.0]])
    for error in (one.loo_error_, one.noise_std_, one.predict([[5.0]], return_std=True)[1][0]):
        assert error.shape == (2,)
        assert np.isnan(error).all()
    np.testing.assert_allclose(one.predict([[5.0]]), [[2.0, 3.0]])
    two = AttentionRegressor(GaussianKernel(1.0)).fit([[1.0], [2.0]], [2.0, 3.0])
    np.testing.assert_allclose(two.loo_error_, 1.0)
    np.testing.assert_allclose(two.noise_std_, sqrt(0.5))
    place = AttentionRegressor().fit([[1.0], [1.0]], [2.0, 4.0])
    np.testing.assert_allclose(place.predict([[1.0], [9.0]]), 3.0)
    np.testing.assert_allclose(place.loo_error_, 2.0)
    np.testing.assert_allclose(place.noise_std_, sqrt(2))


# Arguments.


def test_defaults():
    defaults = AttentionRegressor().get_params()
    assert defaults == {
        "kernel": "auto",
        "length_scale": "loo",
        "local_linear": True,
        "leave_out": None,
        "cutoff": None,
        "block_size": None,
        "max_iter": 10,
        "tol": 0.001,
    }
    assert get_tags(AttentionRegressor()).array_api_support


def test_large_numbers_and_light_weights():
    y = np.array([0.0, 1.0])
    means = [
        AttentionRegressor(GaussianKernel(1.0, local_linear=False))
        .fit([[0.0], [0.0]], y, [1.0, weight])
        .predict([[0.0]])[0]
        for weight in (0.25, 1e-90, 1e-200)
    ]
    np.testing.assert_allclose(means, [0.2, 1e-90, 1e-100])
    model = AttentionRegressor(GaussianKernel(1e150)).fit([[1e150], [-1e150]], y)
    assert np.isfinite(model.predict([[0.0]]))
    for far in (1.1e150, -1.1e150):
        with pytest.raises(ValueError, match=r"`X` must be within 1e.150 of 0"):
            model.predict([[far]])


def test_wrong_arguments():
    x, y = np.arange(4.0)[:, None], np.arange(4.0)
    fixed = AttentionRegressor(GaussianKernel(1.0))
    with pytest.raises(NotFittedError):
        fixed.predict_left_out()
    for wrong, message in [
        (
            lambda: AttentionRegressor("rbf").fit(x, y),
            '`kernel` must be "auto", "gaussian" or a kernel',
        ),
        (
            lambda: AttentionRegressor(GaussianKernel(1.0), length_scale="3").fit(x, y),
            '`length_scale` must be "loo" if `kernel` is a kernel',
        ),
        (lambda: fixed.fit(x, y, groups=[1, 2, 3]), "`groups` must have one value for each of 4"),
        (lambda: fixed.fit(x, y, groups=[1.0, nan, 2, 3]), "`groups` must have no missing labels"),
        (
            lambda: fixed.fit(x, y, groups=np.array(["a", None, "b", "c"], dtype=object)),
            "`groups` must have no missing labels",
        ),
        (
            lambda: fixed.fit(x, y).predict(np.array(["2020-01-01"], dtype="M8[D]")),
            "`X` must have times as in `fit`, in no column, got them in column 0",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(ValueError, match="Complex data not supported"):
        fixed.fit(x, y, np.ones(4) * 1j)


def test_arrays_of_another_library(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    x = np.linspace(0, 5, 12)[:, None]
    y = np.sin(x[:, 0])
    model = AttentionRegressor(GaussianKernel(0.6)).fit(x, y)
    with config_context(array_api_dispatch=True):
        with pytest.raises(
            ValueError, match=r"same namespace .* fit \(.*numpy\) and predict \(.*strict\) differ"
        ):
            model.predict(strict.ones((3, 1)))
        other = AttentionRegressor(GaussianKernel(0.6)).fit(strict.asarray(x), strict.asarray(y))
        got = other.predict(strict.asarray(x))
    assert type(got) is type(strict.asarray(x))
    np.testing.assert_allclose(np.asarray(got), model.predict(x))
