"""The parts of `AttentionRegressor`, against loops, searches of all widths and explicit refits."""

from math import inf, log2, nan, pi, sqrt
from types import SimpleNamespace

import array_api_strict as strict
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import get_tags

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
    regressor,
)
from positional_embeddings.sklearn.regressor import (
    _begin,
    _columns_of,
    _fold,
    _search,
    _Sum,
    _Width,
)
from positional_embeddings.sklearn.smooth import Hidden, Samples, Smooth
from smoothers import Factor, bell, circle, drawn, kept_of, scaled, smoothed, terms_of

OPTIONS = {"local_linear": True, "cutoff": None, "block_size": None, "max_iter": 10, "tol": 1e-3}


def one_left_out(samples):
    """Return that one measurement is hidden from a query at its place."""
    places = np.arange(samples.x.shape[1])[None]
    return Hidden(places, places, 0.0, 1 - 1 / samples.repeats)


def sum_of(kernel, samples, **options):
    terms = terms_of(clone(kernel), samples.x.shape[0])
    return _Sum(terms, samples, one_left_out(samples), OPTIONS | options)


# Searches for widths.


def searched(error, firsts=(1.0,), most=(20,), start=0):
    """Return the half octaves, the ridge, and the half octaves that were tried."""
    factors = [SimpleNamespace(length_scale=nan) for _ in firsts]
    widths = [_Width(f, None, s, m) for f, s, m in zip(factors, firsts, most, strict=True)]
    tried = []

    def put():
        scales = [2 * log2(f.length_scale / s) for f, s in zip(factors, firsts, strict=True)]
        return tuple(map(round, scales))

    def of_widths():
        assert put() not in tried
        tried.append(put())
        return error(*put())

    ridge = _search(widths, of_widths, start)
    return put(), ridge, tried


def test_a_search_among_equal_widths():
    """It tries each octave down to the narrowest, and the steps around the two widest."""
    for start in (0, -3):
        best, ridge, tried = searched(lambda _: (1.0, 2.0), start=start)
        assert (best, ridge) == ((2 * start,), 2.0)
        octaves = set(range(2 * start + 2, -49, -2))
        steps = {2 * start - 2 * i + s * by for i in (0, 1) for s in (1, 2, 4) for by in (1, -1)}
        assert {step for (step,) in tried} == octaves | steps


def test_a_search_ends_where_errors_are_infinite():
    best, _, tried = searched(lambda step: (inf if step < -5 else 9.0 + abs(step + 2), 0.0))
    assert best == (-2,)
    assert sorted({step for (step,) in tried} & set(range(-48, 21, 2))) == [-6, -4, -2, 0, 2]


@pytest.mark.parametrize("start", [0, -3])
@pytest.mark.parametrize("least", [-21, -13, -5, -2, 0, 1, 7, 12, 20])
def test_a_search_finds_the_least_error(least, start):
    best, ridge, tried = searched(lambda step: (1.0 + abs(step - least), step), start=start)
    assert (best, ridge) == ((least,), least)
    assert tried[0] == (2 * start,)


def test_a_search_for_wider_kernels_stops():
    """All grow by ten octaves at most, and each one by its own most."""
    best, _, tried = searched(
        lambda step: (2.0**-step, 0.0) if step > -5 else (inf, 0.0), most=(99,)
    )
    assert best == (99,)
    assert (20,) in tried
    assert (22,) not in tried
    best, _, tried = searched(lambda a, b: (4.0 - a / 99 - b / 99, 0.0), (1.0, 3.0), (3, 8))
    assert best == (3, 8)
    assert max(tried)[0] == 3
    assert max(b for _, b in tried) == 8


@pytest.mark.parametrize("least", [(9, -12), (-7, 6), (-20, -3)])
def test_a_search_for_two_widths(least):
    best, ridge, _ = searched(
        lambda a, b: (1.0 + (a - least[0]) ** 2 + (b - least[1]) ** 2, a * b), (0.3, 50.0), (20, 20)
    )
    assert (best, ridge) == (least, least[0] * least[1])


def test_a_search_goes_on_from_the_two_best_octaves():
    errors = {0: 1.0, -10: 1.1, -11: 0.5, -20: 1.2, -21: 0.1}
    best, ridge, tried = searched(lambda step: (errors.get(step, 2.0), step))
    assert (best, ridge) == ((-11,), -11)
    assert (-21,) not in tried


def test_a_search_takes_no_gain_below_a_thousandth():
    for gain, expected in [(0.0005, -4), (0.002, -5)]:
        errors = {-4: 1.0, -5: 1.0 - gain}
        assert searched(lambda step, e=errors: (e.get(step, 2.0), 0.0))[0] == (expected,)


def test_where_a_search_begins():
    x = np.array([[0.0, 1.0, 2.5, 3.0, 7.0], [4.0, 4.0, 4.0, 4.0, 4.0], [9.0, 0.0, 1.0, 0.5, 0.2]])
    samples = Samples(x, np.zeros((1, 5)), np.ones(5), np.zeros((1, 5)), np.ones(5))
    ((factor,),) = terms_of(GaussianKernel(["loo", "loo", 0.3]), 3)
    widths = _begin(factor, samples)
    # A constant column has an infinite width, which is not chosen.
    first = 5 ** (-1 / 6) * min(x[0].std(), 2.0)
    (width,) = widths
    assert width[:2] == (factor, 0)
    assert width[2:] == pytest.approx((first, int(2 * log2(4 * 7 / first))))
    assert factor.length_scale == pytest.approx([first, inf, 0.3])
    width.set(3)
    assert factor.length_scale == pytest.approx([first * 2**1.5, inf, 0.3])
    ((factor,),) = terms_of(GaussianKernel([2.0, "loo"], columns=[0, 1]), 3)
    assert _begin(factor, samples) == []
    assert factor.length_scale == [2.0, inf]
    ((factor,),) = terms_of(GaussianKernel(columns=[1]), 3)
    assert _begin(factor, samples) == [(factor, 0, 1.0, 0)]
    ((factor,),) = terms_of(GaussianKernel("loo", columns=[2, 0]), 3)
    assert [width.column for width in _begin(factor, samples)] == [0, 1]
    assert factor.length_scale == pytest.approx(
        [5 ** (-1 / 6) * 0.8, 5 ** (-1 / 6) * min(x[0].std(), 2.0)]
    )
    ((factor,),) = terms_of(PeriodicKernel(4.0, columns=[0]), 3)
    assert _begin(factor, samples) == [(factor, None, 0.2, 20)]
    assert factor.length_scale == 0.2
    ((factor,),) = terms_of(GaussianKernel(2.0), 3)
    assert _begin(factor, samples) == []


# Errors that a search compares.


def search_of(monkeypatch, kernel, samples, **options):
    """Return what a search for widths is called with."""
    calls = []

    def search(*call):
        calls.append(call)
        return 0.25

    monkeypatch.setattr(regressor, "_search", search)
    sum_of(kernel, samples, **options)
    return calls


@pytest.mark.parametrize("local_linear", [True, False])
def test_errors_that_a_search_compares(local_linear, monkeypatch):
    """They are those of samples left out, each target in its unit, of the best ridge."""
    samples = drawn(1, 24)
    monkeypatch.setattr(regressor, "_MANY", 24)
    ((widths, error, start),) = search_of(
        monkeypatch, GaussianKernel(), samples, local_linear=local_linear
    )
    assert start == 0
    left = 1 - 1 / samples.repeats
    kept = kept_of(samples.x, samples.x, 0.0, left)
    share = samples.weight / samples.weight.max() / np.maximum(samples.repeats - 1, 1)
    ridges = [0.25, 2.0, 16.0, inf] if local_linear else [inf]
    level = np.average(samples.y, axis=1, weights=samples.weight)[:, None]
    unit = np.average((samples.y - level) ** 2 + samples.within, axis=1, weights=samples.weight)
    chosen = set()
    for width in (0.3, 0.9, 3.0, 9.0, 40.0):
        (own,) = widths
        own.factor.length_scale[0] = width
        found = smoothed([Factor(bell, scaled(width))], samples, samples.x, ridges, kept)
        moved = 1 + found.at_query[:, None] * left * share
        squares = (found.mean - samples.y) ** 2 + samples.within * moved**2
        expected = (np.average(squares, axis=2, weights=samples.weight) / unit).sum(axis=1)
        got, ridge = error()
        assert got == pytest.approx(expected.min())
        assert ridge == ridges[expected.argmin()]
        chosen.add(ridge)
    assert len(chosen) == (3 if local_linear else 1)


def test_ridges_of_a_search(monkeypatch):
    x = np.linspace(0, 1, 9)[None]
    noise = np.random.default_rng(6).normal(0, 1, (4, 9))
    chosen = set()
    for row in noise:
        samples = Samples(x, row[None] + 2 * x, np.ones(9), np.zeros((1, 9)), np.ones(9))
        with monkeypatch.context() as patch:
            (((own,), error, _),) = search_of(patch, GaussianKernel(), samples)
        own.factor.length_scale[0] = 0.4
        chosen.add(error()[1])
    assert chosen == {0.25, 2.0, 16.0, inf}


def test_a_search_gives_up_kernels_that_see_no_other_sample(monkeypatch):
    """Two widths away they widen; where others are at the place, six widths away they vanish."""
    x = np.arange(8.0)[None]
    once = Samples(x, np.sin(x), np.ones(8), np.zeros((1, 8)), np.ones(8))
    for repeats, distance in [(1.0, 2.0), (2.0, 6.0), (1.5, 6.0)]:
        samples = once._replace(repeats=np.full(8, repeats))
        ((own,), error, _), *_ = search_of(monkeypatch, GaussianKernel(), samples)
        own.factor.length_scale[0] = 1.001 / distance if distance > 2 else 0.5
        assert np.isfinite(error()[0])
        own.factor.length_scale[0] = 0.999 / distance
        assert error() == (inf, inf)


def test_how_many_samples_a_search_leaves_out(monkeypatch):
    samples, sizes = drawn(3, 40), []
    predict = Smooth.predict

    def spied(self, x, hidden, **options):
        sizes.append(x.shape[1])
        return predict(self, x, hidden, **options)

    monkeypatch.setattr(regressor, "_MOST_LEFT_OUT", 30)
    monkeypatch.setattr(regressor, "_LEAST_LEFT_OUT", 12)
    monkeypatch.setattr(regressor, "_MANY", 39)
    for scales, n in [(["loo", 1.0, 1.0], 30), (["loo", "loo", 1.0], 15), ("loo", 12)]:
        with monkeypatch.context() as patch:
            ((_, error, start),) = search_of(patch, GaussianKernel(scales), samples)
        assert start == -3
        with monkeypatch.context() as patch:
            patch.setattr(Smooth, "predict", spied)
            error()
        assert sizes.pop() == n


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
def test_samples_at_one_place_are_folded(with_groups):
    rng = np.random.default_rng(8)
    n = 40
    x = rng.integers(0, 3, (n, 2)).astype(np.float64)
    y = rng.integers(0, 2, (n, 2)).astype(np.float64) + x[:, [0]]
    y[x[:, 1] == 0] = 5.0  # measurements that agree
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    groups = rng.integers(0, 2, n) if with_groups else None
    samples, labels, place, deviation = _fold(x, y, weight, groups)
    keys = [(*row, groups[i] if with_groups else 0) for i, row in enumerate(x.tolist())]
    kept = [i for i in range(n) if weight[i] > 0]
    assert samples.x.shape[1] == len({keys[i] for i in kept})
    for at, i in zip(place, kept, strict=True):
        same = [j for j in kept if keys[j] == keys[i]]
        w = weight[same] / weight.max()
        mean = w @ y[same] / w.sum()
        assert samples.x[:, at].tolist() == x[i].tolist()
        np.testing.assert_allclose(samples.y[:, at], mean)
        np.testing.assert_allclose(samples.weight[at], w.sum())
        np.testing.assert_allclose(samples.within[:, at], w @ (y[same] - mean) ** 2 / w.sum())
        agree = (y[same] == y[same][0]).all()
        np.testing.assert_allclose(samples.repeats[at], 1 if agree else w.sum() ** 2 / (w @ w))
        np.testing.assert_allclose(deviation[:, kept.index(i)], y[i] - mean, atol=1e-12)
        assert labels is None if groups is None else labels[0, at] == groups[i]


def test_spreads_and_shares():
    samples = drawn(1, 20)
    own = sum_of(GaussianKernel(1.0), samples)
    w = samples.weight / samples.weight.sum()
    level = samples.y @ w
    spread = ((samples.y - level[:, None]) ** 2 + samples.within) @ w
    np.testing.assert_allclose(own._level[:, 0], level)
    np.testing.assert_allclose(own._spread[:, 0], spread)
    np.testing.assert_allclose(own._unit[:, 0], spread)
    small = sum_of(
        GaussianKernel(1.0), samples._replace(y=samples.y / 100, within=samples.within / 1e4)
    )
    np.testing.assert_allclose(small._unit[:, 0], spread / 1e4)
    left = 1 - 1 / samples.repeats
    share = left * samples.weight / samples.weight.max() / np.maximum(samples.repeats - 1, 1)
    np.testing.assert_allclose(own.of_twins, share)
    flat = sum_of(
        GaussianKernel(1.0), samples._replace(y=np.ones((1, 20)), within=np.zeros((1, 20)))
    )
    assert flat._unit.tolist() == [[1.0]]


@pytest.mark.parametrize("local_linear", [True, False])
def test_errors_and_noise_are_those_of_refits(local_linear):
    """Each measurement is left out; weights of the others tell of the noise in a prediction."""
    rng = np.random.default_rng(9)
    x = rng.uniform(0, 6, 9)[[0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8]][:, None]
    y = rng.normal(0, 1, 12)
    kernel = GaussianKernel(1.2, local_linear=local_linear)
    model = AttentionRegressor(kernel).fit(x, y)
    expected, squares = [], []
    for i in range(12):
        others = np.arange(12) != i
        targets = np.concatenate([y[others, None], np.eye(11)], axis=1)
        mean, *weights = AttentionRegressor(kernel).fit(x[others], targets).predict(x[[i]])[0]
        expected.append(mean)
        squares.append(np.sum(np.square(weights)))
    square = np.mean((y - expected) ** 2)
    np.testing.assert_allclose(model.predict_left_out(), expected)
    np.testing.assert_allclose(model.loo_error_, sqrt(square))
    np.testing.assert_allclose(model.noise_std_, sqrt(square / (1 + np.mean(squares))))


# Sums of functions.


def test_a_sum_is_smoothed_until_it_settles():
    samples = drawn(1, 20)
    samples = samples._replace(y=100 * samples.y, within=1e4 * samples.within)
    x = np.linspace(-1, 12, 9)[None]
    factors = [[Factor(bell, scaled(3.0))], [Factor(bell, circle(2.0, 0.2))]]
    ridges = [0.25, inf]
    kernel = GaussianKernel(3.0) + PeriodicKernel(2.0, 0.2)
    w = samples.weight / samples.weight.sum()
    level = (samples.y @ w)[:, None]
    most = sqrt((((samples.y - level) ** 2 + samples.within) @ w).max())
    fitted, changes, means = np.zeros((2, 2, 20)), [], []
    for _ in range(5):
        before, mean = fitted.copy(), level.copy()
        for i in range(2):
            rest = samples._replace(y=samples.y - level - fitted[1 - i])
            found = smoothed(factors[i], rest, samples.x, ridges[i : i + 1]).mean[0]
            offset = (found @ w)[:, None]
            fitted[i] = found - offset
            mean = mean + smoothed(factors[i], rest, x, ridges[i : i + 1]).mean[0] - offset
        means.append(mean)
        changes.append(abs(fitted - before).max() / most)
    for rounds in (1, 2, 4):
        for options in (
            {"max_iter": rounds, "tol": 1e-12},
            {"tol": changes[rounds - 1] * 1.001},
        ):
            own = sum_of(kernel, samples, **options)
            small = [i for i, change in enumerate(changes) if change <= options["tol"]]
            done = min([rounds, *(i + 1 for i in small)])
            assert own.rounds == done
            np.testing.assert_allclose(
                own.predict(x, squares=False).mean, means[done - 1], rtol=1e-7
            )


def test_a_sum_of_widths_that_are_chosen_settles():
    x = np.linspace(0, 10, 40)[:, None]
    y = np.sin(x[:, 0] * pi) + x[:, 0]
    kernel = GaussianKernel() + PeriodicKernel(2.0)
    model = AttentionRegressor(kernel, max_iter=30, tol=1e-9).fit(x, y)
    first, second = model._smoother._terms
    assert model.n_iter_ > 1
    parts = [term.predict(x.T, None, squares=False).mean[0, 0] for term in (first, second)]
    level = y.mean()
    # Each function is smoothed from what the other one leaves over.
    np.testing.assert_allclose(first.y[0] + parts[1], y - level, atol=1e-4)
    np.testing.assert_allclose(second.y[0] + parts[0], y - level, atol=1e-4)
    np.testing.assert_allclose([part.mean() for part in parts], 0, atol=1e-9)


def test_what_is_constant_settles_at_once():
    samples = drawn(1, 12)._replace(y=np.full((1, 12), 3.0), within=np.zeros((1, 12)))
    assert sum_of(GaussianKernel(3.0) + PeriodicKernel(2.0, 0.2), samples).rounds == 1
    assert sum_of(GaussianKernel(3.0), drawn(1, 12)).rounds == 1


def test_where_lines_are_fitted():
    samples = drawn(1, 12)
    for kernel, option, expected in [
        (GaussianKernel(1.0), True, [0.25]),
        (GaussianKernel(1.0), False, [inf]),
        (GaussianKernel(1.0, local_linear=True), False, [0.25]),
        (MaternKernel(1.0, local_linear=False), True, [inf]),
        (PeriodicKernel(2.0, 0.2), True, [inf]),
        (GaussianKernel(1.0) * GaussianKernel(2.0), True, [inf]),
        (GaussianKernel(1.0) * PeriodicKernel(2.0, 0.2), True, [inf]),
    ]:
        (term,) = sum_of(kernel, samples, local_linear=option)._terms
        assert term.ridges == expected


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


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_errors_far_from_samples(name, most):
    """Growing balls, and half-spaces, are hidden; errors beyond the noise grow with distances."""
    kernel, factors, ridge, columns = CASES[name]
    samples = drawn(columns, 25)
    samples = samples._replace(repeats=np.minimum(samples.repeats, most))
    if name == "means on a grid":
        samples = samples._replace(x=0.4 * np.arange(25)[None], y=samples.y.cumsum(axis=1))
    own = sum_of(kernel, samples)
    noise, n = own.noise[:, None], 25
    places = np.concatenate([factor.places(samples.x) for factor in factors])
    w = samples.weight / samples.weight.sum()
    level = (samples.y @ w)[:, None]
    spread = ((samples.y - level) ** 2 + samples.within) @ w
    rng = np.random.default_rng(0)

    ratios = np.broadcast_to(own._noise_ratios(samples.x), samples.y.shape)
    trust = ratios.mean(axis=0) ** -2.0

    def errors(radius, turn):
        labels, side = np.roll(places, turn, axis=0), rng.integers(-1, 2, n)
        kept = kept_of(labels, labels, radius, np.zeros(n), side)
        found = smoothed(factors, samples, samples.x, [ridge], kept)
        own_noise = noise**2 * ratios
        missed = (found.mean[0] - samples.y) ** 2 - own_noise * (
            1 / samples.repeats + found.squares
        )
        mean = (missed / spread[:, None]).mean(axis=0)
        return np.array([mean, found.distance, found.lean, trust])

    rows = [errors(0.0, 0)]
    rows.append(np.zeros((4, np.count_nonzero(samples.repeats > 1))))
    rows[-1][3] = 1
    first, last = np.median(rows[0][1]), (places.max(axis=1) - places.min(axis=1)).max()
    rows += [errors(first / 2 * (last / first) ** (i / 6), i + 1) for i in range(7)]
    missed, distance, lean, trust = np.concatenate(rows, axis=1)
    seen = np.isfinite(missed)
    assert 0 < seen.sum() < seen.size
    fits = []
    for weight in ((1.001 - lean[seen]) * trust[seen], (0.001 + lean[seen]) * trust[seen]):
        fit = IsotonicRegression(y_min=0.0, out_of_bounds="clip")
        fits.append(fit.fit(np.round(distance[seen], 3), missed[seen], weight))
    at = np.linspace(0, 1.2 * last, 50)
    for got, want in zip(own._misfit, fits, strict=True):
        np.testing.assert_allclose(got.predict(at), want.predict(at), rtol=1e-6, atol=1e-9)
    x = rng.uniform(-1, 11, (columns, 20))
    found = smoothed(factors, samples, x, [ridge])
    around, aside = (fit.predict(found.distance) for fit in fits)
    beyond = spread[:, None] * ((1 - found.lean) * around + found.lean * aside)
    ratios = own._noise_ratios(x)
    variance = noise**2 * ratios * (1 + found.squares) + beyond
    most = (spread[:, None] + (found.mean[0] - level) ** 2) * np.maximum(ratios, 1)
    assert (variance < most).any()
    assert (variance > most).any() or name == "means on a grid"
    got = own.std(x, own.predict(x, squares=True), measurements=1)
    np.testing.assert_allclose(got, np.sqrt(np.minimum(variance, most)), rtol=1e-6)


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
        "kernel": "gaussian",
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
    assert _columns_of("X", np.array([[1e150], [-1e150]])).tolist() == [[1e150, -1e150]]
    with pytest.raises(ValueError, match=r"`X` must be within 1e.150 of 0"):
        _columns_of("X", np.array([[1.1e150]]))
    y = np.array([0.0, 1.0])
    means = [
        AttentionRegressor(GaussianKernel(1.0, local_linear=False))
        .fit([[0.0], [0.0]], y, [1.0, weight])
        .predict([[0.0]])[0]
        for weight in (0.25, 1e-90, 1e-200)
    ]
    np.testing.assert_allclose(means, [0.2, 1e-90, 1e-100])


def test_wrong_arguments():
    x, y = np.arange(4.0)[:, None], np.arange(4.0)
    fixed = AttentionRegressor(GaussianKernel(1.0))
    with pytest.raises(NotFittedError):
        fixed.predict_left_out()
    for wrong, message in [
        (lambda: AttentionRegressor("rbf").fit(x, y), '`kernel` must be "gaussian" or a kernel'),
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
    with pytest.raises(TypeError, match="`sample_weight` must hold numbers, got complex128"):
        fixed.fit(x, y, np.ones(4) * 1j)


def test_arrays_of_another_library(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    x = np.linspace(0, 5, 12)[:, None]
    y = np.sin(x[:, 0])
    model = AttentionRegressor(GaussianKernel(0.6)).fit(x, y)
    with config_context(array_api_dispatch=True):
        with pytest.raises(
            ValueError, match=r"same namespace .* numpy on cpu, got array_api_strict"
        ):
            model.predict(strict.ones((3, 1)))
        other = AttentionRegressor(GaussianKernel(0.6)).fit(strict.asarray(x), strict.asarray(y))
        got = other.predict(strict.asarray(x))
    assert type(got) is type(strict.asarray(x))
    np.testing.assert_allclose(np.asarray(got), model.predict(x))
