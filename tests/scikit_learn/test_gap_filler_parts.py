"""The parts of `GapFiller`, one by one, against loops and least squares written out."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.exceptions import NotFittedError

from positional_embeddings.sklearn import AttentionRegressor, GapFiller
from positional_embeddings.sklearn.gap_filler import (
    KnownGaps,
    _convex,
    _find_season,
    _fit_season,
    _gain,
    _hide_windows,
    _inside,
)


def irregular(n, seed=0, start=-20.0):
    """Places with steps of 0.5 to 2."""
    return start + np.cumsum(np.random.default_rng(seed).uniform(0.5, 2.0, n))


def known_gaps(x, y, wanted=()):
    return KnownGaps(x[:, None], y, np.reshape(wanted, (-1, 1)).astype(float), days=False)


# Seasons.


def waves_and_lines(season, x):
    """Return sines, cosines, a level and straight lines, (samples, functions)."""
    columns = [f(2 * math.pi * frequency * x) for frequency in season for f in (np.cos, np.sin)]
    columns.append(np.ones(len(x)))
    lines = max(1, min(10, len(x) // 20))
    for i in range(lines):
        knot = x[0] + (x[-1] - x[0]) * i / lines
        columns.append(np.where(x > knot, x - knot, 0.0))
    return np.stack(columns, axis=1)


def left_over(season, x, y):
    """Return what is left of a least-squares fit, and the season at any places."""
    design = waves_and_lines(season, x)
    found = np.linalg.lstsq(design, y)[0]

    def waves(at):
        phases = 2 * math.pi * np.outer(at, season)
        pairs = np.stack([np.cos(phases), np.sin(phases)], axis=2).reshape(len(at), -1)
        return pairs @ found[: 2 * len(season)]

    rest = y - waves(x)
    line = np.polyfit(x, rest, 1 if len(x) > 2 else 0)
    return y - design @ found, lambda at: waves(at) + np.polyval(line, at)


@pytest.mark.parametrize("n", [2, 3, 15, 30, 59, 61, 230])
@pytest.mark.parametrize("season", [[], [0.11], [0.05, 0.1, 0.13]])
def test_a_season_is_a_least_squares_fit(n, season):
    x, y = irregular(n), np.random.default_rng(n).normal(size=n).cumsum()
    if n < 2 * len(season) + 3:
        season = []
    fitted, left = _fit_season(season, x, y)
    expected, function = left_over(season, x, y)
    np.testing.assert_allclose(left, expected, atol=1e-9)
    at = np.linspace(x[0] - 5, x[-1] + 5, 40)
    np.testing.assert_allclose(fitted(at), function(at), atol=1e-9)


def test_a_season_of_one_sample_is_its_level():
    fitted, left = _fit_season([], np.array([3.0]), np.array([7.0]))
    np.testing.assert_allclose(fitted(np.array([0.0, 9.0])), 7.0)
    np.testing.assert_allclose(left, 0.0, atol=1e-12)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.7])
@pytest.mark.parametrize("least", [0.0, 3.0])
def test_the_criterion_counts_correlated_samples_less(correlation, least):
    rng = np.random.default_rng(1)
    before, after = 2 * rng.normal(size=60), rng.normal(size=60)
    for i in range(1, 60):
        after[i] += correlation * after[i - 1]
    power = math.fsum(a * a for a in after) + least
    r = max(0.0, math.fsum(a * b for a, b in pairwise(after)) / power)
    assert (r > 0.2) == (correlation == 0.7)
    n = 60 * (1 - r) / (1 + r)
    ratio = (math.fsum(b * b for b in before) + least) / power
    expected = n * math.log(ratio) - 5 * math.log(max(n, math.e))
    assert _gain(before, after, 5, least) == pytest.approx(expected, rel=1e-12)


def season_by_search(x, y, calendar):
    """Return the season that a search finds that fits each trial anew, all in loops."""
    n, span = len(x), x[-1] - x[0]
    step = max(np.median(np.diff(x)), span / (4 * n))
    season, left = [], left_over([], x, y)[0]
    least = 1e-18 * math.fsum(y * y) or 1.0
    at = np.round((x - x[0]) / step)
    size = int(at[-1]) + 1
    for _ in range(3):
        tried = np.arange(8 * size + 1) / (16 * size * step)
        waves = np.exp(-2j * math.pi * step * np.outer(tried, at))
        peak = max(zip(np.abs(waves @ left) * (tried >= 3 / span), tried, strict=True))[1]
        trials = []
        for base, cost in [(peak, 3), *((1 / period, 0) for period in calendar)]:
            for n_harmonics in (1, 2, 3):
                trial = season + [base * (i + 1) for i in range(n_harmonics)]
                few = n < 6 * len(trial)
                if not few and 3 / span <= base and base * n_harmonics < 0.5 / step:
                    after = left_over(trial, x, y)[0]
                    power = after @ after + least
                    r = max(after[1:] @ after[:-1] / power, 0.0)
                    count = n * (1 - r) / (1 + r)
                    gain = count * math.log((left @ left + least) / power)
                    gain -= (cost + 2 * n_harmonics) * math.log(max(count, math.e))
                    trials.append((gain, trial, after))
        gain, trial, after = max(trials, key=lambda t: t[0], default=(0.0, season, left))
        if gain <= 0:
            break
        season, left = trial, after
    return season


# Of 1 a step: periods of 7 and 20 steps, and noise of many sizes, some of it just too much.
@pytest.mark.parametrize("amplitude", np.geomspace(0.05, 2.0, 14))
@pytest.mark.parametrize("step", [1.0, 0.125])
def test_a_season_is_searched_for(amplitude, step):
    rng = np.random.default_rng(2)
    i = np.delete(np.arange(75.0), [10, 11, 30, 50])
    y = np.sin(2 * math.pi * i / 7) + np.cos(4 * math.pi * i / 7) + np.sin(2 * math.pi * i / 20)
    y = amplitude * y + rng.normal(size=i.size)
    x = step * (i - 40)
    for calendar in ((), (7.0 * step, 20.0 * step)):
        found = _find_season(x, y, calendar)
        np.testing.assert_allclose(found, season_by_search(x, y, calendar))


@pytest.mark.parametrize("is_in_bursts", [False, True])
def test_a_season_at_irregular_places(is_in_bursts):
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-30.0, 30.0, 80))
    if is_in_bursts:  # three samples each, so that most steps are short
        x = (x[:30, None] + [0.0, 1e-3, 2e-3]).ravel()
    y = np.sin(2 * math.pi * x / 3) + 0.3 * rng.normal(size=x.size)
    for calendar in ((), (6.0,)):
        found = _find_season(x, y, calendar)
        assert found
        np.testing.assert_allclose(found, season_by_search(x, y, calendar))


# Noise of few samples, some of which has a season.
@pytest.mark.parametrize(
    ("n", "seeds", "waves"),
    [(4, range(6), 0), (5, range(6), 0), (6, (42, 52), 1), (11, (46, 51), 1), (12, (21, 45), 2)],
)
def test_a_season_has_six_samples_for_each_wave(n, seeds, waves):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x, y = np.sort(rng.uniform(0.0, n, n)), rng.normal(size=n)
        found = _find_season(x, y, ())
        assert len(found) == waves
        np.testing.assert_allclose(found, season_by_search(x, y, ()))


@pytest.mark.parametrize(("n", "seed"), [(8, 6), (6, 42)])
def test_no_wave_through_a_few_samples_fills_gaps(n, seed):
    """Waves through all samples would be 100 times as high."""
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.uniform(0.0, n, n)), rng.normal(size=n)
    at = np.linspace(x[0], x[-1], 40)[1:-1]
    filled = known_gaps(x, y, at).predict(at[:, None])
    assert abs(filled).max() < 2 * abs(y).max()


def test_a_season_has_three_periods_of_three_harmonics():
    x = np.arange(200.0)
    periods = {7.0: 27, 11.0: 9, 17.0: 3, 29.0: 1}
    y = sum(size * np.sin(2 * math.pi * x / period) for period, size in periods.items())
    assert _find_season(x, y, list(periods)) == [1 / 7, 1 / 11, 1 / 17]
    y = sum(np.sin(2 * math.pi * k * x / 30) / k for k in (1, 2, 3, 4))
    found = _find_season(x, y, (30.0,))
    assert found[:3] == [1 / 30, 2 / 30, 3 / 30]
    np.testing.assert_allclose(found, season_by_search(x, y, (30.0,)))


@pytest.mark.parametrize(("period", "step"), [(1.0, 0.125), (7.0, 1.0), (365.2425, 20.0)])
def test_times_have_seasons_of_the_calendar(period, step):
    x = step * np.arange(70.0)
    y = np.sin(2 * math.pi * x / period)
    assert KnownGaps(x[:, None], y, np.empty((0, 1)), days=True)._season == [1 / period]


def test_a_period_has_three_cycles():
    """A week in 21 days and in 20, from any day on."""
    for first in (100.0, -50.0):
        x = first + np.arange(22.0)
        y = np.sin(2 * math.pi * x / 7)
        assert _find_season(x, y, (7.0,)) == [1 / 7]
        assert 1 / 7 not in _find_season(x[1:], y[1:], (7.0,))
    x = np.arange(25.0)
    assert _find_season(x, np.sin(2 * math.pi * x / 8), ()) == [1 / 8]


def test_a_harmonic_has_more_than_two_samples_a_period():
    i = np.arange(48.0)
    y = np.sin(math.pi * i / 2) + np.where(i % 2, 1.0, -1.0)
    assert _find_season(i / 4, y, (1.0,)) == [1.0]


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_a_small_wave_upon_a_large_one(unit):
    """It is found if it is no rounding, whatever the unit."""
    x = np.arange(100.0)
    large, small = (unit * np.sin(2 * math.pi * x / period) for period in (7, 11))
    assert _find_season(x, large + 1e-5 * small, (7.0, 11.0)) == [1 / 7, 1 / 11]
    assert _find_season(x, large + 1e-11 * small, (7.0, 11.0)) == [1 / 7]


# Windows.


def windows_by_loops(x, length):
    """Return the windows that are hidden where all of them are, some at once."""
    n, least = len(x), length * (1 - 1e-9)
    found = []
    for start in range(1, n - 1):
        stop = start + 1
        while stop < n - 1 and x[stop] - x[start - 1] < least:
            stop += 1
        if x[stop] - x[start - 1] >= least:
            found.append((start, stop))
    shortest = min(x[stop] - x[start - 1] for start, stop in found)
    found = [(i, j) for i, j in found if x[j] - x[i - 1] <= 1.5 * shortest]
    samples = sum(j - i for i, j in found) / len(found)
    assert len(found) <= max(24, math.ceil(240 / samples))
    rounds = min(len(found), math.ceil(len(found) * samples / (0.2 * n)))
    windows = []
    for first in range(rounds):
        hidden, last = [False] * n, 0
        for start, stop in found[first::rounds]:
            if start > last:
                hidden[start:stop], last = [True] * (stop - start), stop
        windows.append(hidden)
    return windows


# Of places with steps of 1 and 2, some windows are half as long again as the shortest.
UNEVEN = np.array([0, 1, 2, 3, 5, 6, 7, 9, 11, 12, 13, 14, 16, 17, 18, 20, 21, 22.0])


@pytest.mark.parametrize(
    ("x", "length"),
    [
        *((irregular(40, seed), length) for seed in (4, 5) for length in (0.4, 3.0, 8.0)),
        *((UNEVEN, length) for length in (1.0, 2.0, 4.0, 10.0)),
        (irregular(3, 1), 1.2),
        (np.arange(4.0), 3.0),
    ],
)
def test_which_windows_are_hidden(x, length):
    np.testing.assert_array_equal(_hide_windows(x, length), windows_by_loops(x, length))


@pytest.mark.parametrize(("samples", "count"), [(1, 240), (2, 120), (40, 24)])
def test_some_of_many_windows_are_hidden(samples, count):
    """At least 24 windows and 240 samples, of 300 windows that are far from each other."""
    x = (1000.0 * np.arange(300)[:, None] + np.arange(samples + 2)).ravel()
    hidden = np.sum(_hide_windows(x, samples + 1.0), axis=0).reshape(300, samples + 2)
    assert sorted(hidden.sum(axis=1)) == [0] * (300 - count) + [samples] * count
    assert not hidden[:, [0, -1]].any()


def test_two_samples_have_no_windows():
    assert _hide_windows(np.arange(2.0), 1.0) == []
    assert len(_hide_windows(np.arange(3.0), 1.0)) == 1


def test_how_far_inside_gaps_places_are():
    """Of a random walk, what is between two samples has the variance part * (1 - part)."""
    x, at = irregular(9), np.linspace(-18.0, -12.0, 13)
    expected = []
    for place in at:
        i = max(j for j in range(9) if x[j] <= place)
        part = (place - x[i]) / (x[i + 1] - x[i])
        expected.append([1.0, part * (1 - part)])
    np.testing.assert_allclose(_inside(x, at), expected)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_weights_of_candidates_have_no_unit(unit):
    """Weights of sum 1 that minimize a quadratic form, by a search among all on a grid."""
    errors = np.random.default_rng(6).normal(size=(30, 3)) * [1.0, 0.7, 2.0] + 0.3
    steps = np.arange(101) / 100
    tried = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1])
    costs = ((errors @ tried.T) ** 2).sum(axis=0)
    costs += (errors[:, 0] ** 2).sum() / 5 * (tried[:, 1:] ** 2).sum(axis=1)
    np.testing.assert_allclose(_convex(unit * errors, 5), tried[costs.argmin()], atol=0.01)


# A column with gaps.


def test_a_column_is_averaged_and_scaled():
    places = np.array([2.0, 0.0, 2.0, 5.0])
    known = known_gaps(places, np.array([10.0, 4.0, 14.0, 8.0]))
    np.testing.assert_array_equal(known._x, [0, 2, 5])
    assert (known._level, known._unit) == (9.0, 5.0)
    np.testing.assert_allclose(known._y, [-1.0, 0.6, -0.2])
    same = known_gaps(places, np.full(4, 7.0))
    np.testing.assert_array_equal(same.predict(np.array([[1.0], [9.0]])), 7.0)


def test_gaps_by_octaves_of_their_lengths():
    x = np.array([-3.0, -2.0, 0.0, 1.0, 7.0, 17.0, 18.5])
    at = np.array([-4.0, -3.0, -2.5, -1.0, 0.2, 1.5, 6.0, 7.5, 16.0, 18.0, 18.4, 18.5, 19.0])
    octaves = {}
    for i, place in enumerate(at):
        if not x[0] <= place < x[-1]:
            continue
        left = max(j for j in range(7) if x[j] <= place)
        length = min(x[left + 1] - x[left], (x[-1] - x[0]) / 2)
        octaves.setdefault(round(math.log2(length)), []).append((length, i))
    found = list(known_gaps(x, np.arange(7.0))._find_gaps(at))
    assert len(found) == 3
    for octave, length, inside in found:
        assert length == np.median([own for own, _ in octaves[octave]])
        assert inside.tolist() == [i for _, i in octaves[octave]]


def test_a_gap_is_half_of_the_record_at_most():
    (found,) = known_gaps(np.array([0.0, 1.0, 12.0]), np.zeros(3))._find_gaps(np.array([5.0]))
    assert found[:2] == (3, 6.0)


def smooth(x, y, at, width):
    """Return what a smoother says, of widths that are given."""
    return AttentionRegressor(length_scale=width).fit(x[:, None], y).predict(at[:, None])


def test_what_candidates_say():
    x = irregular(30, 7)
    y = np.random.default_rng(7).normal(size=30).cumsum()
    known = known_gaps(x, y)
    known._season = [0.21]
    y = known._y
    at = np.array([x[3] + 0.1, x[10] + 0.4])
    season = left_over([0.21], x, y)[1]
    rest = y - season(x)
    expected = [np.interp(at, x, y), season(at), season(at) + np.interp(at, x, rest)]
    expected += [season(at) + smooth(x, rest, at, width * 2.5) for width in (0.1, 0.5, 2.0)]
    np.testing.assert_allclose(known._candidates(2.5, at), expected)


def test_what_candidates_say_at_hidden_samples():
    x = irregular(30, 8)
    y = np.random.default_rng(8).normal(size=30).cumsum()
    known = known_gaps(x, y)
    known._season = [0.21]
    y = known._y
    windows = [[4], [9, 10, 11], [20, 21]]
    hidden = np.zeros(30, dtype=bool)
    hidden[np.concatenate(windows)] = True
    at = x[hidden]
    season = left_over([0.21], x[~hidden], y[~hidden])[1]
    rest = y - season(x)
    line = np.interp(at, x[~hidden], y[~hidden])
    expected = [line, season(at), season(at) + np.interp(at, x[~hidden], rest[~hidden])]
    for width in (0.1, 0.5, 2.0):
        found = []
        for window in windows:  # from all samples but those of its window
            seen = np.setdiff1d(np.arange(30), window)
            found.append(smooth(x[seen], rest[seen], x[window], width * 4.0))
        expected.append(season(at) + np.concatenate(found))
    np.testing.assert_allclose(known._candidates(4.0, at, hidden), expected, atol=1e-9)


@pytest.mark.parametrize("n", [3, 4, 12])
def test_variances_are_learned_from_hidden_windows(n):
    x, y = irregular(n, 9), np.random.default_rng(n).normal(size=n)
    known = known_gaps(x, y)
    weights, variances = known._learn(2.0)
    errors, inside, count = [], [], 0
    for hidden in _hide_windows(x, 2.0):
        errors.append(known._candidates(2.0, x[hidden], hidden) - known._y[hidden])
        inside.append(_inside(x[~hidden], x[hidden]))
        count += sum(bool(hidden[i]) and not hidden[i - 1] for i in range(1, n))
    errors, inside = np.concatenate(errors, axis=1).T, np.concatenate(inside)
    np.testing.assert_allclose(weights, _convex(errors, count))
    freedom = max(1, count - sum(w > 0 for w in weights))
    squares = (errors @ weights) ** 2 * count / freedom
    expected = lsq_linear(inside, squares, (0, np.inf)).x
    np.testing.assert_allclose(inside @ variances, inside @ expected, rtol=1e-6, atol=1e-9)


def test_between_two_places_is_a_line_of_unknown_std():
    known = known_gaps(np.array([1.0, 4.0, 1.0]), np.array([10.0, 40.0, 16.0]))
    mean, std = known.predict(np.array([[2.0]]), return_std=True)
    assert mean.item() == pytest.approx(22.0)
    assert np.isnan(std).all()


def test_outside_is_a_line_and_a_smoother():
    """The last place, too, if nothing was measured there once more."""
    x = irregular(12, 10)
    y = 30 * np.random.default_rng(10).normal(size=12).cumsum() + 5
    at = np.array([x[0] - 3, x[-1], x[-1] + 2])
    known = known_gaps(x, y, at)
    assert known._season == []
    mean, std = known.predict(at[:, None], return_std=True)
    line = np.polyfit(x, y, 1)
    model = AttentionRegressor().fit(x[:, None], y - np.polyval(line, x))
    expected, deviations = model.predict(at[:, None], return_std=True)
    np.testing.assert_allclose(mean, np.polyval(line, at) + expected)
    np.testing.assert_allclose(std, deviations)


def test_inside_is_a_mean_of_candidates():
    x = irregular(9, 11)
    y = 30 * np.random.default_rng(11).normal(size=9).cumsum() + 5
    at = np.array([x[4] + 0.2, x[4] + 0.3])
    known = known_gaps(x, y, at)
    mean, std = known.predict(at[:, None], return_std=True)
    weights, variances = known._learn(x[5] - x[4])
    said = weights @ known._candidates(x[5] - x[4], at)
    np.testing.assert_allclose(mean, known._level + known._unit * said)
    np.testing.assert_allclose(std, known._unit * np.sqrt(_inside(x, at) @ variances))


# Tables.


def test_it_has_to_be_fitted_first():
    with pytest.raises(NotFittedError, match="GapFiller instance is not fitted yet"):
        GapFiller().transform(np.ones((3, 1)))


def test_a_table_without_its_text_is_refused():
    import pandas as pd

    table = pd.DataFrame({"y": [1.0, np.nan, 3.0, 2.0], "place": list("abba")})
    filler = GapFiller().fit(table)
    with pytest.raises(ValueError, match=r"(?s)feature names .*- place"):
        filler.transform(table[["y"]])


def test_gaps_of_the_fitted_record_are_learned():
    """By octaves of the distance between the samples around them."""
    level = np.random.default_rng(0).standard_normal(120)
    level[[20, 60, 61, 62, 63, 64, 65, 66, 67]] = np.nan
    filler = GapFiller().fit(np.stack([np.arange(120.0), level], axis=1))
    assert [*filler.estimators_[1]._learned] == [1, 3]
