"""`GapFiller`: columns with gaps, at rows, times and places."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from positional_embeddings.sklearn import AttentionRegressor, GapFiller, GaussianKernel
from positional_embeddings.sklearn.gap_filler import (
    KnownGaps,
    _convex,
    _find_season,
    _gain,
    _hide_windows,
)

# A straight line over a gap of five steps misses a sine of 1 / 8 a step by 5**2 / 8 / 8**2 at most.
GAP_ERROR = 0.05


def series(n=60, columns=2):
    values = np.sin(np.arange(n)[:, None] / 8 + np.arange(columns))
    gaps = np.zeros(values.shape, dtype=bool)
    gaps[10:14, 0] = gaps[20, -1] = gaps[55:58, -1] = True
    return values, np.where(gaps, np.nan, values), gaps


def test_gaps_are_filled_and_the_rest_is_kept():
    values, holes, gaps = series()
    filled = GapFiller().fit_transform(holes)
    np.testing.assert_array_equal(filled[~gaps], values[~gaps])
    np.testing.assert_allclose(filled, values, atol=GAP_ERROR)
    assert np.isnan(holes).sum() == gaps.sum()


def test_a_given_estimator_fills():
    values, holes, gaps = series()
    filler = GapFiller(AttentionRegressor()).fit(holes)
    filled = filler.transform(holes)
    np.testing.assert_array_equal(filled[~gaps], values[~gaps])
    for j, estimator in enumerate(filler.estimators_):
        own = AttentionRegressor().fit(np.flatnonzero(~gaps[:, j])[:, None], values[~gaps[:, j], j])
        gap = np.flatnonzero(gaps[:, j])
        np.testing.assert_allclose(filled[gap, j], own.predict(gap[:, None]))
        assert estimator.get_params() == own.get_params()


def test_columns_of_positions():
    values, holes, _ = series()
    at = np.linspace(0, 1, 60)
    table = np.column_stack([holes[:, 0], at, holes[:, 1]])
    filled = GapFiller(LinearRegression(), positions=[1]).fit_transform(table)
    np.testing.assert_array_equal(filled[:, 1], at)
    seen = ~np.isnan(holes[:, 1])
    line = np.polyfit(at[seen], holes[seen, 1], 1)
    np.testing.assert_allclose(filled[~seen, 2], np.polyval(line, at[~seen]))
    np.testing.assert_allclose(filled[seen, 2], values[seen, 1])


def test_other_rows_are_filled_from_those_of_fit():
    _, holes, _ = series()
    table = np.column_stack([np.arange(60.0), holes])
    filler = GapFiller(positions=[0]).fit(table)
    new = np.array([[30.5, np.nan, np.nan], [31.5, 7.0, np.nan]])
    expected = np.sin(np.array([[30.5], [31.5]]) / 8 + np.arange(2))
    filled = filler.transform(new)
    np.testing.assert_allclose(filled[:, 2], expected[:, 1], atol=0.01)
    assert filled[1, 1] == 7.0


def test_tables_of_pandas():
    import pandas as pd

    values, holes, _ = series()
    times = pd.date_range("2024-02-01", periods=60, freq="D", tz="Europe/Zurich")
    table = pd.DataFrame(holes, columns=["air", "sea"], index=times)
    filler = GapFiller(positions="index").set_output(transform="pandas")
    filled = filler.fit_transform(table)
    assert list(filled.columns) == ["air", "sea"]
    assert filled.index.equals(times)
    np.testing.assert_allclose(filled.to_numpy(), values, atol=GAP_ERROR)
    by_column = table.reset_index(names="time")
    other = GapFiller(positions=["time"]).fit_transform(by_column)
    assert other["time"].equals(by_column["time"])
    np.testing.assert_allclose(other[["air", "sea"]], filled, atol=1e-9)
    objects = by_column.astype(object).to_numpy()
    days = GapFiller(positions=[0]).fit_transform(objects)[:, 0]
    utc = times.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[s]")
    np.testing.assert_allclose(days, utc.astype(int) / 86400)
    numbered = pd.DataFrame(holes, columns=["air", "sea"], index=np.arange(60) * 0.5)
    again = GapFiller(positions="index").fit_transform(numbered)
    np.testing.assert_allclose(again, values, atol=GAP_ERROR)
    assert list(filler.get_feature_names_out()) == ["air", "sea"]
    spans = pd.DataFrame(holes, index=pd.timedelta_range("0D", periods=60, freq="D"))
    np.testing.assert_allclose(GapFiller(positions="index").fit_transform(spans), filled, atol=1e-6)


def test_tables_of_polars():
    import polars as pl

    values, holes, _ = series()
    times = np.datetime64("2024-02-01") + np.arange(60)
    table = pl.DataFrame({"time": times, "air": holes[:, 0], "sea": holes[:, 1]})
    filler = GapFiller(positions=["time"]).set_output(transform="polars")
    filled = filler.fit_transform(table)
    assert filled.columns == ["time", "air", "sea"]
    np.testing.assert_allclose(filled.to_numpy()[:, 1:], values, atol=GAP_ERROR)


def test_dates_of_numpy():
    times = np.datetime64("2024-02-01") + np.arange(40)
    y = np.sin(np.arange(40) / 5)
    model = AttentionRegressor(GaussianKernel(2.0)).fit(times, y)
    days = times.astype(int)[:, None]
    expected = AttentionRegressor(GaussianKernel(2.0)).fit(days, y).predict(days)
    np.testing.assert_allclose(model.predict(times), expected)
    mixed = np.array([[t, i] for i, t in enumerate(times.tolist())], dtype=object)
    both = AttentionRegressor(GaussianKernel(2.0)).fit(mixed, y)
    numbers = np.column_stack([days[:, 0], np.arange(40)])
    expected = AttentionRegressor(GaussianKernel(2.0)).fit(numbers, y).predict(numbers)
    np.testing.assert_allclose(both.predict(mixed), expected)


def test_tables_without_names():
    import pandas as pd

    times = pd.date_range("2024-02-01", periods=40)
    y = np.sin(np.arange(40) / 5)
    days = times.to_numpy().astype("datetime64[D]").astype(int)[:, None]
    expected = AttentionRegressor(GaussianKernel(2.0)).fit(days, y).predict(days)
    for dates in (times, pd.Series(times), pd.DataFrame({0: times}), pd.DataFrame({"t": times})):
        got = AttentionRegressor(GaussianKernel(2.0)).fit(dates, y).predict(dates)
        np.testing.assert_allclose(got, expected)
    two = pd.DataFrame({1: times, 0: np.where(np.arange(40) == 7, np.nan, y)})
    filled = GapFiller(positions=[0]).fit_transform(two)
    assert filled.loc[7, 0] == pytest.approx(y[7], abs=2**2 / 8 / 5**2 + 0.01)
    assert list(two.columns) == [1, 0]
    assert two[1].equals(pd.Series(times))


def test_times_stay_times():
    import pandas as pd

    times = pd.date_range("2024-02-01", periods=40)
    y = np.where(np.arange(40) == 7, np.nan, np.sin(np.arange(40) / 5))
    by_column = GapFiller(positions=["t"]).fit(pd.DataFrame({"t": times, "y": y}))
    message = "`X` must have times as in `fit`, in column 0, got them in no column"
    with pytest.raises(ValueError, match=message):
        by_column.transform(pd.DataFrame({"t": np.arange(40.0), "y": y}))
    by_index = GapFiller(positions="index").fit(pd.DataFrame({"y": y}))
    with pytest.raises(
        ValueError, match=r"`X.index` must have times as .* in no column, got them in"
    ):
        by_index.transform(pd.DataFrame({"y": y}, index=times))
    by_index.fit(pd.DataFrame({"y": y}, index=times))
    assert not by_index.transform(pd.DataFrame({"y": y}, index=times)).isna().any(axis=None)


def test_an_index_of_several_levels_is_refused():
    import pandas as pd

    index = pd.MultiIndex.from_product([["a", "b"], range(3)])
    table = pd.DataFrame({"y": np.arange(6.0)}, index=index)
    with pytest.raises(ValueError, match=r"`X\.index` must have one level, got 2 levels"):
        GapFiller(positions="index").fit(table)


@pytest.mark.library("pyarrow")  # by which polars reads tables of pandas
def test_text_passes_and_dates_stay_dates():
    import pandas as pd
    import polars as pl

    _, holes, _ = series()
    dates = np.datetime64("2024-02-01", "us") + np.arange(60)
    names = np.where(np.arange(60) % 2, "a", "b").astype(object)
    columns = {"place": names, "t": dates, "n": np.arange(60), "y": holes[:, 0]}
    for library in (pd, pl):
        table = library.DataFrame(columns)
        filler = GapFiller(LinearRegression(), positions=["t"])
        kept = filler.fit_transform(table)
        assert list(kept["place"]) == list(names)
        assert kept["t"].dtype == table["t"].dtype
        np.testing.assert_array_equal(kept["t"].to_numpy(), dates)
        assert np.isnan(table["y"].to_numpy()).any()
        kept = GapFiller(positions=["t"]).fit_transform(table)
        expected = GapFiller(positions=["t"]).fit_transform(table[["t", "y"]])["y"]
        np.testing.assert_allclose(kept["y"].to_numpy(), expected, atol=1e-9)
        assert kept["n"].dtype == table["n"].dtype  # integers without gaps
        std = filler.set_params(estimator=AttentionRegressor()).fit(table).transform_std(table)
        np.testing.assert_array_equal(
            std > 0, np.isnan(table["y"].to_numpy())[:, None] * [0, 0, 0, 1]
        )
        for transform in ("pandas", "polars"):
            other = clone(filler).set_output(transform=transform)
            assert type(other.fit_transform(table)).__module__.startswith(transform)
        with pytest.raises(
            ValueError, match=r"`positions\[0\]` must be a column of numbers or times"
        ):
            GapFiller(positions=["place"]).fit(table)
        with pytest.raises(TypeError, match=r"`X\['x0'\]` must hold numbers or dates, got text"):
            GapFiller().fit(np.ones((60, 4))).transform(table.to_numpy())


def test_booleans_with_gaps_stay_as_they_are():
    import pandas as pd

    _, holes, _ = series()
    flags = pd.Series([True, None, False] * 20, dtype=object)
    table = pd.DataFrame({"y": holes[:, 0], "flag": flags, "n": pd.array(flags, dtype="boolean")})
    filler = GapFiller()
    filled = filler.fit_transform(table)
    pd.testing.assert_frame_equal(filled[["flag", "n"]], table[["flag", "n"]])
    assert not filled["y"].isna().any()
    assert filler.estimators_[1:] == [None, None]
    with pytest.raises(
        ValueError, match="must be a column of numbers or times, got one of text or"
    ):
        GapFiller(positions=["flag"]).fit(table)


def test_a_series_stays_a_series():
    import pandas as pd
    import polars as pl

    values, holes, _ = series()
    times = pd.date_range("2024-02-01", periods=60)
    for name in ("air", None):
        gappy = pd.Series(holes[:, 0], index=times, name=name)
        filler = GapFiller(positions="index")
        filled = filler.fit_transform(gappy)
        assert (type(filled), filled.name) == (pd.Series, name)
        assert filled.index.equals(times)
        np.testing.assert_allclose(filled, values[:, 0], atol=GAP_ERROR)
        np.testing.assert_array_equal(filler.transform_std(gappy) > 0, gappy.isna().to_frame())
    frame = GapFiller(positions="index").set_output(transform="pandas").fit_transform(gappy)
    np.testing.assert_allclose(frame, values[:, :1], atol=GAP_ERROR)
    filled = GapFiller().fit_transform(pl.Series("air", holes[:, 0]))
    assert (type(filled), filled.name) == (pl.Series, "air")
    np.testing.assert_allclose(filled, values[:, 0], atol=GAP_ERROR)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        GapFiller().fit(holes[:, 0])


# Gaps that are known.


def hide(n, *gaps):
    hidden = np.zeros(n, dtype=bool)
    for start, length in gaps:
        hidden[start : start + length] = True
    return hidden


def fill(x, y, hidden, *, days=False):
    known = KnownGaps(x[~hidden, None], y[~hidden], x[hidden, None], days=days)
    mean, std = known.predict(x[hidden, None], return_std=True)
    return known, mean, std


@pytest.mark.parametrize("slope", [0.0, -3.0])
def test_straight_lines_are_filled_exactly(slope):
    x = np.cumsum(np.random.default_rng(0).uniform(0.5, 2.0, 200))
    y = 1e3 + slope * x
    hidden = hide(200, (0, 3), (50, 1), (90, 20), (195, 5))
    _, mean, std = fill(x, y, hidden)
    np.testing.assert_allclose(mean, y[hidden], rtol=1e-9)
    np.testing.assert_allclose(std, 0, atol=1e-5)


def test_a_known_season_is_found_and_filled():
    rng, x = np.random.default_rng(1), np.arange(2000.0)
    season = np.cos(2 * np.pi * x / 365.2425) + 0.5 * np.sin(2 * np.pi * 2 * x / 365.2425)
    season += np.cos(2 * np.pi * x / 31.7)
    y = season + 0.1 * rng.normal(size=2000)
    hidden = hide(2000, (700, 90), (1300, 90))
    known, mean, std = fill(x, y, hidden, days=True)
    np.testing.assert_allclose(
        1 / np.asarray(known._season[:3]), [365.2425, 182.62125, 31.7], rtol=0.01
    )
    assert np.sqrt(np.mean((mean - season[hidden]) ** 2)) < 0.05
    assert 0.08 < std.min() <= std.max() < 0.15


def test_noise_and_short_series_have_no_season():
    rng = np.random.default_rng(2)
    assert (
        sum(bool(_find_season(np.arange(300.0), rng.normal(size=300), ())) for _ in range(10)) <= 2
    )
    walks = rng.normal(size=(10, 300)).cumsum(axis=1)
    assert sum(bool(_find_season(np.arange(300.0), walk, ())) for walk in walks) <= 2
    assert _find_season(np.arange(2.0), np.arange(2.0), (1.0,)) == []


def test_the_criterion():
    rng = np.random.default_rng(3)
    before, after = rng.normal(size=(2, 50)) * [[2.0], [1.0]]
    correlation = sum(after[i] * after[i + 1] for i in range(49)) / sum(a**2 for a in after)
    n = 50 * (1 - max(correlation, 0)) / (1 + max(correlation, 0))
    fit = n * np.log(sum(b**2 for b in before) / sum(a**2 for a in after))
    assert _gain(before, after, 4, 0.0) == pytest.approx(fit - 4 * np.log(n))


def test_weights_of_candidates():
    errors = np.random.default_rng(4).normal(size=(100, 3)) * [1.0, 0.7, 2.0] + 0.3
    weights = _convex(errors, 10)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()

    def cost(w):
        line = np.sum(errors[:, 0] ** 2) / 10
        return np.sum((errors @ w) ** 2) + line * (w[1] ** 2 + w[2] ** 2)

    steps = np.linspace(0, 1, 101)
    tried = [cost(np.array([a, b, 1 - a - b])) for a in steps for b in steps if a + b <= 1]
    assert cost(weights) <= min(tried) < 1.001 * cost(weights)
    np.testing.assert_array_equal(_convex(np.zeros((5, 3)), 1) >= 0, True)


def test_windows_are_as_long_as_gaps():
    x = np.cumsum(np.random.default_rng(5).uniform(0.5, 2.0, 300))
    windows = _hide_windows(x, 12.0)
    count = 0
    for hidden in windows:
        assert 0 < hidden.mean() <= 0.25
        starts = [i for i in range(300) if hidden[i] and not hidden[i - 1]]
        for start in starts:
            stop = next(i for i in range(start, 300) if not hidden[i])
            assert 12.0 <= x[stop] - x[start - 1] <= 18.5
        count += len(starts)
    assert count >= 20
    alone = _hide_windows(np.arange(10.0), 0.1)
    assert {int(hidden.sum()) for hidden in alone} <= {1, 2}


def test_two_samples_are_joined_by_a_line_of_unknown_std():
    filler = GapFiller()
    table = np.array([[0.0], [np.nan], [np.nan], [3.0]])
    np.testing.assert_allclose(filler.fit_transform(table)[:, 0], np.arange(4))
    np.testing.assert_array_equal(np.isnan(filler.transform_std(table)[:, 0]), [0, 1, 1, 0])


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(6)
    table = np.column_stack([np.arange(80.0), rng.normal(size=80).cumsum()])
    table[20:25, 1] = table[60, 1] = np.nan
    order = rng.permutation(80)
    filler = GapFiller(positions=[0])
    expected, std = filler.fit_transform(table), filler.transform_std(table)
    np.testing.assert_allclose(filler.fit_transform(table[order]), expected[order])
    np.testing.assert_allclose(filler.transform_std(table[order]), std[order])
    twice = GapFiller(positions=[0]).fit_transform(np.repeat(table, 2, axis=0))
    np.testing.assert_allclose(twice[::2], expected)


def test_places_of_two_coordinates_are_smoothed():
    at = np.random.default_rng(7).uniform(size=(40, 2))
    table = np.column_stack([at, at.sum(axis=1)])
    table[5, 2] = np.nan
    filler = GapFiller(positions=[0, 1])
    seen = np.arange(40) != 5
    own = AttentionRegressor().fit(at[seen], table[seen, 2])
    mean, std = own.predict(at[5:6], return_std=True)
    np.testing.assert_allclose(filler.fit_transform(table)[5, 2], mean[0])
    np.testing.assert_allclose(filler.transform_std(table)[5], [0, 0, std[0]])
    plain = GapFiller(LinearRegression(), positions=[0, 1]).fit(table)
    with pytest.raises(TypeError, match=r"`estimator` must predict standard deviations.*LinearReg"):
        plain.transform_std(table)


@pytest.mark.long
def test_random_walks_are_filled_as_by_a_line():
    ours, line, inside = [], [], []
    for seed in range(4):
        y = np.random.default_rng(seed).normal(size=300).cumsum()
        x, hidden = np.arange(300.0), hide(300, (30, 5), (90, 5), (170, 5), (250, 5))
        _, mean, std = fill(x, y, hidden)
        ours.append(mean - y[hidden])
        line.append(np.interp(x[hidden], x[~hidden], y[~hidden]) - y[hidden])
        inside.append(np.abs(ours[-1]) <= 1.96 * std)
    assert np.std(ours) < 1.1 * np.std(line)
    assert 0.85 <= np.mean(inside) <= 1


@pytest.mark.parametrize(
    ("weeks", "most"), [pytest.param(4, 1.0, marks=pytest.mark.long), (13, 0.6)]
)
def test_gaps_in_a_record_of_co2(weeks, most):
    path = Path(__file__).parents[2] / "examples" / "data" / "co2_mauna_loa_weekly.csv"
    dates, values = np.loadtxt(path, delimiter=",", dtype=str, skiprows=10, unpack=True)
    y = np.array([float(value or "nan") for value in values])[-800:]
    x = dates[-800:].astype("datetime64[D]").astype(float)
    x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    hidden = hide(x.size, *((start, weeks) for start in range(60, x.size - 60, 150)))
    _, mean, std = fill(x, y, hidden, days=True)
    line = np.interp(x[hidden], x[~hidden], y[~hidden])
    assert np.std(mean - y[hidden]) < most * np.std(line - y[hidden])
    assert 0.85 <= np.mean(np.abs(mean - y[hidden]) <= 1.96 * std) <= 1


def test_it_goes_into_a_column_transformer():
    _, holes, _ = series()
    table = np.column_stack([np.arange(60.0), holes])
    columns = ColumnTransformer([("fill", GapFiller(positions=[0]), [0, 1])], remainder="drop")
    pipeline = make_pipeline(columns, LinearRegression())
    pipeline.fit(table, np.arange(60.0))
    np.testing.assert_allclose(pipeline.predict(table), np.arange(60.0), atol=1e-9)
    assert clone(pipeline).get_params()["columntransformer__fill__positions"] == [0]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("filler", [GapFiller(), GapFiller(LinearRegression())])
def test_what_scikit_learn_asks_of_an_imputer(filler):
    results = check_estimator(filler, on_skip=None, on_fail=None)
    assert [r for r in results if r["status"] == "failed"] == []
    # It computes in NumPy: arrays of other libraries are not asked for.
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input", "check_array_api_mixed_inputs"}
    assert sum(r["status"] == "passed" for r in results) >= 40


NAN = np.full((3, 2), np.nan)
ERRORS = {
    "nothing": (
        lambda: GapFiller().fit(NAN),
        ValueError,
        "`X` must have a measurement in each col",
    ),
    "gap": (
        lambda: GapFiller(positions=[0]).fit([[np.nan, 1.0], [1.0, 2.0]]),
        ValueError,
        "`positions` must have no gaps, got NaN among them",
    ),
    "text": (
        lambda: GapFiller(positions="time").fit(np.ones((3, 2))),
        ValueError,
        "`positions` must be a list of columns, \"index\" or None, got 'time'",
    ),
    "index": (
        lambda: GapFiller(positions="index").fit(np.ones((3, 2))),
        TypeError,
        '`X` must be a pandas table if `positions` is "index"',
    ),
    "column": (
        lambda: GapFiller(positions=[2]).fit(np.ones((3, 2))),
        ValueError,
        r"`positions\[0\]` must be 0 to 1, got 2",
    ),
    "kind": (
        lambda: GapFiller(positions=[0.5]).fit(np.ones((3, 2))),
        TypeError,
        r"`positions\[0\]` must be an integer",
    ),
    "kernel": (
        lambda: GapFiller(GaussianKernel(2.0)).fit(np.ones((3, 2))),
        TypeError,
        r"`estimator` must be a regressor, got GaussianKernel",
    ),
    "class": (
        lambda: GapFiller(AttentionRegressor).fit(np.ones((3, 2))),
        TypeError,
        "`estimator` must be a regressor, got <class",
    ),
    "name": (
        lambda: GapFiller(positions=["time"]).fit(np.ones((3, 2))),
        TypeError,
        r"`positions\[0\]` must be an integer for columns without names, got 'time'",
    ),
    "index of text": (
        lambda: GapFiller(positions="index").fit(frame_at(["a", "b", "c"])),
        TypeError,
        r"`X\.index\[0\]` must hold numbers or dates, got text, 'a'",
    ),
    "index of periods": (
        lambda: GapFiller(positions="index").fit(frame_at(period_range(3))),
        TypeError,
        r"`X\.index` must hold numbers or times, got period\[D\]",
    ),
    "index out of order": (
        lambda: GapFiller().fit(frame_at(np.array([3, 1, 2], dtype="datetime64[s]"))),
        ValueError,
        '`positions` must be "index" for a table whose times are out of order, got None',
    ),
}


def period_range(n):
    import pandas as pd

    return pd.period_range("2024-01-01", periods=n, freq="D")


def frame_at(index):
    import pandas as pd

    return pd.DataFrame({"y": [1.0, np.nan, 2.0]}, index=index)


def test_a_season_on_a_high_level():
    """What is filled moves with the level, to the rounding of the level."""
    day = np.arange(600)
    y = np.sin(2 * np.pi * day / 30) + np.random.default_rng(0).normal(0, 0.1, 600)
    y[[*range(100, 120), *range(300, 330)]] = np.nan
    expected = GapFiller().fit_transform(y[:, None])
    for level in (1e6, 1e10, 1e12):
        filled = GapFiller().fit_transform(y[:, None] + level)
        np.testing.assert_allclose(filled - level, expected, atol=1e-14 * level + 1e-6)
    filled = GapFiller().fit_transform(y[:, None] * 1e-200)
    np.testing.assert_allclose(filled * 1e200, expected, atol=1e-6)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_hidden_windows_have_seen_neighbours():
    """Also where all windows of a length are next to each other."""
    x = np.concatenate([np.arange(20.0), 1000 + 100 * np.arange(400.0)])
    (hidden,) = _hide_windows(x, 7.0)
    edges = np.flatnonzero(np.diff(hidden.astype(int)))
    assert set(edges[1::2] - edges[::2]) == {6}
    assert not hidden[0]
    assert not hidden[20:].any()
    assert hidden.sum() == 12  # two of twelve windows that overlap
