"""`GapFiller`: columns with gaps, at rows, times and places."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GapFiller,
    GaussianKernel,
    PeriodicKernel,
    PositionalEncoder,
    SphereKernel,
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
        regressor = AttentionRegressor().fit(
            np.flatnonzero(~gaps[:, j])[:, None], values[~gaps[:, j], j]
        )
        gap = np.flatnonzero(gaps[:, j])
        np.testing.assert_allclose(filled[gap, j], regressor.predict(gap[:, None]))
        assert estimator.get_params() == regressor.get_params()


def test_columns_of_positions():
    values, holes, _ = series()
    x = np.linspace(0, 1, 60)
    table = np.column_stack([holes[:, 0], x, holes[:, 1]])
    filled = GapFiller(LinearRegression(), positions=[1]).fit_transform(table)
    np.testing.assert_array_equal(filled[:, 1], x)
    seen = ~np.isnan(holes[:, 1])
    line = np.polyfit(x[seen], holes[seen, 1], 1)
    np.testing.assert_allclose(filled[~seen, 2], np.polyval(line, x[~seen]))
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


@pytest.mark.library("polars")  # Python without the GIL lacks it
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


@pytest.mark.parametrize("positions", ["index", "auto"])
def test_an_index_of_several_levels_is_refused(positions):
    import pandas as pd

    index = pd.MultiIndex.from_product([["a", "b"], range(3)])
    table = pd.DataFrame({"y": np.arange(6.0)}, index=index)
    with pytest.raises(ValueError, match=r"`X\.index` must have one level, got 2 levels.*pivot"):
        GapFiller(positions=positions).fit(table)
    assert GapFiller(positions=None).fit(table).positions_ is None


def seasonal_months():
    """Return ten years of months with a season and a gap, and the gap."""
    import pandas as pd

    times, rng = pd.date_range("1920-01-01", periods=120, freq="MS"), np.random.default_rng(3)
    y = 50 - 12 * np.cos(2 * np.pi * times.month / 12) + rng.normal(size=120)
    y = pd.Series(y, times, name="y")
    return y, (times > "1925-03") & (times < "1926-02")


@pytest.mark.library("polars")
def test_times_are_found():
    """In an index or a column, in any order, in each kind of table; else rows are steps."""
    import polars as pl

    y, gap = seasonal_months()
    seen = y.mask(gap)
    filled = GapFiller().fit_transform(seen)
    assert rms((filled - y)[gap]) < 2  # by the year, which rows do not have
    by_line = GapFiller(LinearRegression(), positions="index")
    expected = by_line.fit_transform(seen)
    by_line.set_params(positions="auto")
    table = seen.rename_axis("t").reset_index()
    other = table.assign(n=np.arange(120.0))
    order = np.random.default_rng(0).permutation(120)
    objects = table.astype(object).to_numpy()
    cases = {
        "series": (seen, "index", lambda filled: filled),
        "frame": (seen.to_frame(), "index", lambda filled: filled.y),
        "column beside an index of times": (other.set_index(seen.index), "index", lambda f: f.y),
        "column": (other, [0], lambda filled: filled.y),
        "polars": (
            pl.DataFrame({"t": y.index.to_numpy(), "y": seen.to_numpy()}),
            [0],
            lambda f: f["y"],
        ),
        "objects": (objects, [0], lambda filled: filled[:, 1]),
        "zone": (seen.tz_localize("Europe/Zurich"), "index", lambda filled: filled),
        "rows in any order": (seen.iloc[order], "index", lambda filled: filled.sort_index()),
    }
    for name, (x, positions, values_of) in cases.items():
        filler = clone(by_line).fit(x)
        assert filler.positions_ == positions, name
        np.testing.assert_allclose(
            values_of(filler.transform(x)), expected, rtol=1e-3, err_msg=name
        )
    for rows in (seen.to_numpy()[:, None], seen.reset_index(drop=True)):
        assert clone(by_line).fit(rows).positions_ is None
    columns = ColumnTransformer([("fill", clone(by_line), ["t", "y"])], remainder="drop")
    filled = columns.set_output(transform="pandas").fit_transform(other)
    np.testing.assert_allclose(filled.fill__y, expected)
    fold = by_line.fit(seen.iloc[::2]).transform(seen.iloc[1::2])
    np.testing.assert_allclose(fold[gap[1::2]], expected.iloc[1::2][gap[1::2]], rtol=1e-3)
    assert by_line.set_params(positions=None).fit(seen).positions_ is None


@pytest.mark.parametrize("kind", ["column", "index", "polars", "periods"])
def test_dates_as_text_and_periods_are_refused(kind):
    import pandas as pd

    from absent import pl

    dates = pd.date_range("2024-01-01", periods=4)
    y, text = [1.0, np.nan, 3.0, 4.0], dates.astype(str)
    x, name, function = {
        "column": (pd.DataFrame({"t": text, "y": y}), "X['t']", "pandas.to_datetime"),
        "index": (pd.Series(y, text), "X.index", "pandas.to_datetime"),
        "polars": (pl.DataFrame({"t": text.tolist(), "y": y}), "X['t']", "pandas.to_datetime"),
        "periods": (
            pd.Series(y, dates.to_period("D")),
            "X.index",
            "with .to_timestamp\\(\\) of pandas",
        ),
    }[kind]
    with pytest.raises(TypeError, match=rf"^`{re.escape(name)}` must hold dates.*{function}"):
        GapFiller().fit(x)
    assert GapFiller(positions=None).fit(x).positions_ is None
    with pytest.raises(ValueError, match=r"got one of text or booleans.*pandas\.to_datetime"):
        GapFiller(positions=["t"]).fit(pd.DataFrame({"t": text, "y": y}))
    with_dates = pd.DataFrame({"when": dates, "note": text, "y": y})
    assert GapFiller().fit(with_dates).positions_ == [0]
    assert GapFiller().fit(pd.DataFrame({"code": ["a", "b", "c", "d"], "y": y})).positions_ is None


def test_the_way_from_text_to_dates_is_that_of_all_values():
    import pandas as pd

    text, y = ["", "2024-03-30T08:00+01:00", "2024-03-31T08:00+02:00"], [1.0, np.nan, 3.0]
    to_zone = r"pd\.to_datetime\(\.\.\., utc=True\)"
    with pytest.raises(TypeError, match=rf"{to_zone}\.dt\.tz_convert\(zone\)"):
        GapFiller().fit(pd.DataFrame({"t": text, "y": y}))
    with pytest.raises(TypeError, match=rf"{to_zone}\.tz_convert\(zone\)"):
        GapFiller().fit(pd.Series(y, text))
    pd.to_datetime(pd.Series(text[1:]), utc=True).dt.tz_convert("Europe/Zurich")
    pd.to_datetime(pd.Index(text[1:]), utc=True).tz_convert("Europe/Zurich")


@pytest.mark.parametrize("text", [["1.5", None, "2"], ["1,5", "-2", None]])
def test_numbers_as_text_keep_their_gaps_not_silently(text):
    import pandas as pd

    table = pd.DataFrame({"t": text, "y": [1.0, np.nan, 3.0]})
    with pytest.warns(UserWarning, match="Column 't' holds text or booleans, and keeps its 1 gap"):
        filled = GapFiller().fit_transform(table)
    assert filled["t"].isna().sum() == 1
    np.testing.assert_allclose(filled["y"], [1.0, 2.0, 3.0])


def test_other_positions_than_in_fit_are_refused():
    y, gap = seasonal_months()
    by_index, by_rows = GapFiller().fit(y.mask(gap)), GapFiller().fit(y.reset_index(drop=True))
    with pytest.raises(ValueError, match="`X` must have positions as in `fit`, 'index', got None"):
        by_index.transform(y.mask(gap).reset_index(drop=True))
    with pytest.raises(ValueError, match="`X` must have positions as in `fit`, None, got 'index'"):
        by_rows.transform(y.mask(gap))


def test_stations_are_filled_one_by_one():
    table = stations()
    with pytest.raises(ValueError, match=r"one value at a position, got several.*by pivot"):
        GapFiller().fit(table)
    one = table.groupby("station")[["t", "y"]].apply(GapFiller().fit_transform)
    np.testing.assert_allclose(one["y"].to_numpy()[[7, 47]], [20.5, 1020.5], atol=0.6)
    GapFiller().fit(table[table.station == 0].iloc[np.arange(80) // 2])  # equal values
    both = table[["t", "y"]]
    message = r"Column 'y' has several values at a position, whose mean is used.*by pivot"
    with pytest.warns(UserWarning, match=message) as warned:
        GapFiller(positions=["t"]).fit(both)
    assert warned[0].filename == __file__
    with np.testing.assert_no_warnings():
        GapFiller(LinearRegression(), positions=["t"]).fit(both)


def test_irregular_times_have_seasons():
    """Of which there are less than two a day."""
    import pandas as pd

    rng = np.random.default_rng(0)
    days = np.sort(rng.uniform(0, 250, 350))
    times = pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D")
    y = 3 * np.cos(2 * np.pi * days) + days / 20 + 0.2 * rng.normal(size=350)
    y = pd.Series(y, times)
    hidden = np.any([(days > s) & (days < s + 1) for s in range(10, 240, 10)], axis=0)
    seen = y.mask(hidden)
    filler = GapFiller(periods="day").fit(seen)
    error = (filler.transform(seen) - y)[hidden]
    assert rms(error) < 0.5
    assert np.mean(abs(error) <= 1.96 * filler.transform_std(seen)[hidden]) > 0.8


def test_far_beyond_the_record_nothing_is_promised():
    y = 0.1 * np.random.default_rng(0).normal(size=(200, 1)).cumsum(axis=0)
    near, far = y.copy(), y.copy()
    near[182:] = near[100] = np.nan
    far[150:] = far[:20] = np.nan
    with np.testing.assert_no_warnings():
        GapFiller().fit_transform(near)
    message = "'x0' has 46 gaps farther than 12.9 before or after its record, a tenth of it"
    with pytest.warns(UserWarning, match=message) as warned:
        filled = GapFiller().fit_transform(far)
    assert warned[0].filename == __file__
    assert not np.isnan(filled).any()


TURNS = {
    "degrees from 0": (360.0, 0.0),
    "longitudes": (360.0, -180.0),
    "radians": (2 * np.pi, -np.pi),
}


@pytest.mark.parametrize(("turn", "low"), TURNS.values(), ids=TURNS)
def test_angles_are_filled_as_two_columns(turn, low):
    """A track across the end of the turn; other numbers raise no warning."""
    x = np.arange(200.0)
    track = (2.5 * x / 100 + 0.02 * np.sin(x / 9)) % 1 * turn + low
    table = np.where(x == 39, np.nan, track)[:, None]
    back = r"np.arctan2\(y, x\)" + (r"\)" if turn > 7 else "")
    with pytest.warns(
        UserWarning, match=rf"'x0' looks like angles.* x = np.cos.*{back} % "
    ) as warned:
        GapFiller().fit(table)
    assert warned[0].filename == __file__
    seen = np.arange(200) != 39
    with pytest.warns(UserWarning, match="A target looks like angles"):
        AttentionRegressor(GaussianKernel(2.0)).fit(x[seen, None], track[seen])
    angle = table[:, 0] * 2 * np.pi / turn
    filled = GapFiller().fit_transform(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    off = (np.arctan2(filled[39, 1], filled[39, 0]) * turn / (2 * np.pi) - track[39]) / turn
    assert abs((off + 0.5) % 1 - 0.5) < 0.02
    rng = np.random.default_rng(0)
    for other in (
        turn * np.abs(np.sin(x / 20)),  # turns back
        turn * rng.uniform(size=200),  # goes anywhere
        np.where(x % 2, turn, 0.0),  # two values
        1.2 * track,
        0.5 * track,
    ):
        with np.testing.assert_no_warnings():
            GapFiller(positions=None).fit(np.where(x == 39, np.nan, other)[:, None])
    with np.testing.assert_no_warnings():
        GapFiller().fit(track[:, None])  # has no gap


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
        filled = filler.fit_transform(table)
        assert list(filled["place"]) == list(names)
        assert filled["t"].dtype == table["t"].dtype
        np.testing.assert_array_equal(filled["t"].to_numpy(), dates)
        assert np.isnan(table["y"].to_numpy()).any()
        filled = GapFiller(positions=["t"]).fit_transform(table)
        expected = GapFiller(positions=["t"]).fit_transform(table[["t", "y"]])["y"]
        np.testing.assert_allclose(filled["y"].to_numpy(), expected, atol=1e-9)
        assert filled["n"].dtype == table["n"].dtype  # integers without gaps
        std = filler.set_params(estimator=AttentionRegressor()).fit(table).transform_std(table)
        assert type(std) is type(table)
        assert list(std.columns) == list(table.columns)
        np.testing.assert_array_equal(
            std.to_numpy() > 0, np.isnan(table["y"].to_numpy())[:, None] * [0, 0, 0, 1]
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
    stays = (
        r"Column 'flag' holds text or booleans, and keeps its 20 gaps: convert it to numbers.*"
        r"The same holds for 'n'"
    )
    with pytest.warns(UserWarning, match=stays) as warned:
        filled = filler.fit_transform(table)
    assert len(warned) == 1
    pd.testing.assert_frame_equal(filled[["flag", "n"]], table[["flag", "n"]])
    assert not filled["y"].isna().any()
    assert filler.estimators_[1:] == [None, None]
    with pytest.raises(
        ValueError, match="must be a column of numbers or times, got one of text or"
    ):
        GapFiller(positions=["flag"]).fit(table)


@pytest.mark.library("polars")
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
        std = filler.transform_std(gappy)
        assert (type(std), std.name) == (pd.Series, name)
        pd.testing.assert_series_equal(std > 0, gappy.isna())
        assert (abs(filled - values[:, 0]) <= 1.96 * std + GAP_ERROR).all()
    framed = GapFiller(positions="index").set_output(transform="pandas")
    np.testing.assert_allclose(framed.fit_transform(gappy), values[:, :1], atol=GAP_ERROR)
    std = framed.transform_std(gappy)
    assert std.index.equals(times)
    np.testing.assert_array_equal(std > 0, gappy.isna().to_frame())
    filler = GapFiller()
    for result in (
        filler.fit_transform(pl.Series("air", holes[:, 0])),
        filler.transform_std(pl.Series("air", holes[:, 0])),
    ):
        assert (type(result), result.name) == (pl.Series, "air")
    np.testing.assert_allclose(
        filler.transform(pl.Series("air", holes[:, 0])), values[:, 0], atol=GAP_ERROR
    )
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        GapFiller().fit(holes[:, 0])


# Gaps of one coordinate.


def hide(n, *gaps):
    hidden = np.zeros(n, dtype=bool)
    for start, length in gaps:
        hidden[start : start + length] = True
    return hidden


def fill(x, y, hidden, **options):
    """Return the means and standard deviations that fill hidden values."""
    table = np.column_stack([x, np.where(hidden, np.nan, y)])
    filler = GapFiller(positions=[0], **options)
    return filler.fit_transform(table)[hidden, 1], filler.transform_std(table)[hidden, 1]


def rms(errors):
    return np.sqrt(np.mean(np.square(errors)))


def of_line(x, y, hidden, filled):
    """Return the error of filled values relative to that of straight lines."""
    return rms(filled - y[hidden]) / rms(np.interp(x[hidden], x[~hidden], y[~hidden]) - y[hidden])


@pytest.mark.parametrize("slope", [0.0, -3.0])
def test_straight_lines_are_filled_exactly(slope):
    x = np.cumsum(np.random.default_rng(0).uniform(0.5, 2.0, 200))
    y = 1e3 + slope * x
    hidden = hide(200, (50, 1), (90, 20))
    mean, std = fill(x, y, hidden)
    np.testing.assert_allclose(mean, y[hidden], rtol=1e-9)
    np.testing.assert_allclose(std, 0, atol=1e-5)


@pytest.mark.parametrize("change", [0.0, 0.05])
def test_a_stated_season_of_any_shape_is_filled(change):
    """Upon a slope, and with a size that grows from cycle to cycle."""
    rng, x = np.random.default_rng(1), np.arange(330.0)
    shape = rng.normal(size=11)
    y = shape[(x % 11).astype(int)] * (1 + change * (x // 11)) + 0.01 * x
    hidden = hide(330, (70, 3), (150, 30), (260, 11))
    mean, std = fill(x, y, hidden, periods=[11])
    assert rms(mean - y[hidden]) < 0.02 * shape.std()
    assert np.mean(abs(mean - y[hidden]) <= 1.96 * std + 1e-6) > 0.9
    assert of_line(x, y, hidden, fill(x, y, hidden)[0]) > 0.5  # without it


def test_each_period_is_beside_those_before_it():
    rng, x = np.random.default_rng(2), np.arange(700.0)
    y = rng.normal(size=7)[(x % 7).astype(int)] + rng.normal(size=50)[(x % 50).astype(int)]
    hidden = hide(700, (200, 40), (410, 5))
    one, both = (rms(fill(x, y, hidden, periods=p)[0] - y[hidden]) for p in (7, [7, 50]))
    assert both < 0.2 * one


def test_samples_of_few_cycles_share_phases():
    """With three years of days, of 365 phases each has three noisy samples."""
    rng, x = np.random.default_rng(3), np.arange(3 * 365.0)
    season = 5 * np.cos(2 * np.pi * x / 365)
    hidden = hide(x.size, (500, 100), (900, 60))
    y = season + rng.normal(size=x.size)
    mean, _ = fill(x, y, hidden, periods=[365])
    line = np.interp(x[hidden], x[~hidden], y[~hidden])
    assert rms(mean - season[hidden]) < 0.7 * rms(line - season[hidden])


@pytest.mark.parametrize("kind", ["noise", "walk"])
@pytest.mark.filterwarnings("ignore:The period")
def test_there_is_no_season_in_noise(kind):
    """Periods change nothing where they are not there, and the bands hold."""
    inside = []
    for seed in range(4):
        y, x = np.random.default_rng(seed).normal(size=400), np.arange(400.0)
        y = y.cumsum() if kind == "walk" else y
        hidden = hide(400, (30, 5), (90, 5), (170, 5), (250, 5), (300, 1), (340, 1))
        mean, std = fill(x, y, hidden, periods=[7, 30])
        np.testing.assert_array_equal(mean, fill(x, y, hidden)[0])
        inside.append(abs(mean - y[hidden]) <= 1.96 * std)
    assert 0.85 <= np.mean(inside) <= 1


@pytest.mark.parametrize("length", [1, 6])
def test_fine_seasons_of_times(length):
    """Gaps of hours whose season is no few waves: a spline misses it."""
    import pandas as pd

    hour, rng = np.arange(24 * 60), np.random.default_rng(4)
    times = pd.date_range("2024-03-01", periods=hour.size, freq="h")
    week = rng.normal(size=24)[hour % 24] * np.where(hour // 24 % 7 < 5, 1.0, 0.3)
    y = week + 0.03 * np.cumsum(rng.normal(size=hour.size))
    hidden = hide(hour.size, *((start, length) for start in range(100, 1300, 41)))
    filled = GapFiller(positions="index").fit_transform(pd.Series(y, times).mask(hidden))
    assert of_line(hour, y, hidden, filled[hidden]) < 0.1 * length**0.5


def never_measured(first, last):
    """Return hours of a temperature that is measured from one hour to another, and all of it."""
    import pandas as pd

    rng = np.random.default_rng(5)
    times = pd.date_range("2024-03-01", periods=24 * 60, freq="h", tz="UTC")
    weather = np.zeros(times.size)
    for i in range(1, times.size):
        weather[i] = 0.97 * weather[i - 1] + 0.4 * rng.normal()
    day = 2 * np.pi * (times.hour - 15) / 24
    true = pd.Series(10 + 4 * np.cos(day) + np.cos(2 * day) + weather, times)
    return true, true.where((times.hour >= first) & (times.hour <= last))


@pytest.mark.parametrize(("first", "last"), [(8, 20), (6, 22), (0, 18)])
def test_hours_that_were_never_measured(first, last):
    true, seen = never_measured(first, last)
    filler = GapFiller(positions="index")
    with pytest.warns(UserWarning, match="at phases of the day that were never measured") as warned:
        filled = filler.fit(seen).transform(seen)
    assert warned[0].filename == __file__
    gap = seen.isna() & (np.arange(seen.size) < seen.size - 24)
    line = seen.interpolate()
    assert rms((filled - true)[gap]) <= 1.001 * rms((line - true)[gap])
    std = filler.transform_std(seen)
    assert np.mean((abs(filled - true) <= 1.96 * std)[gap]) > 0.9


def test_weekends_that_were_never_measured():
    import pandas as pd

    times = pd.date_range("2024-01-01", periods=364)
    y = pd.Series(np.random.default_rng(6).normal(size=364).cumsum(), times)
    y += np.array([0, 3, -2, 4, 1, 0, 0])[times.day_of_week]
    seen = y.where(times.day_of_week < 5)
    with pytest.warns(UserWarning, match="phases of the week that were never"):
        filled = GapFiller(positions="index").fit_transform(seen)
    np.testing.assert_allclose(filled[5:-2], seen.interpolate()[5:-2])
    with pytest.warns(UserWarning, match="The period 'day' is not") as caught:
        GapFiller(positions="index", periods=["day"]).fit_transform(seen)
    (warning,) = caught
    assert "'day' is not used: the positions do not resolve its phases" in str(warning.message)


def test_a_stated_period_that_is_not_used():
    rng, x = np.random.default_rng(0), np.arange(200.0)
    table = np.stack([np.sin(x / 3) + 0.3 * rng.normal(size=200) for _ in range(3)], axis=1)
    table[50:55] = np.nan
    with pytest.warns(UserWarning, match="The period") as caught:
        GapFiller(periods=[100, 6 * np.pi, 2]).fit(table)
    long, short = sorted(str(warning.message) for warning in caught)
    assert long == (
        "The period 100 is not used: the record has fewer than 2.5 cycles, in 3 columns from 'x0'."
    )
    assert short.startswith("The period 2 is not used: the positions do not resolve its phases")
    with pytest.warns(UserWarning, match="period 7 is not used: it has no season, in column 'x0'"):
        GapFiller(periods=7).fit(table[:, :1])


@pytest.mark.parametrize("period", [24, np.int64(24), 24.0])
def test_numbers_are_no_periods_of_times(period):
    import pandas as pd

    y = pd.Series(np.arange(60.0), hours(60))
    message = r"`periods\[0\]` must be a span such as \"24h\" or pd.Timedelta.*Pass \"24D\" if"
    with pytest.raises(TypeError, match=message):
        GapFiller(periods=period).fit(y)
    message = message.replace(r"s\[0\]", "")
    with pytest.raises(TypeError, match=message):
        AttentionRegressor(PeriodicKernel(period)).fit(y.index, y)
    GapFiller(periods=["24h", pd.Timedelta("12h")]).fit(y)


def test_rows_without_an_order():
    table = np.random.default_rng(0).normal(size=(150, 3))
    table[::9] = np.nan
    message = "no order in column 'x0' and 2 other columns: .*positions=.*IterativeImputer"
    with pytest.warns(UserWarning, match=message) as caught:
        GapFiller().fit(table)
    assert len(caught) == 1
    walks = np.where(np.isnan(table), np.nan, np.nancumsum(table, axis=0))
    with np.testing.assert_no_warnings():
        GapFiller(positions=None).fit(table)
        GapFiller().fit(walks)
        GapFiller().fit(np.column_stack([walks[:, :1], table[:, 1:]]))  # in two columns of three
        GapFiller().fit(table[:15])  # too few
        GapFiller().fit(table + 3 * (-1.0) ** np.arange(150)[:, None])  # alternating
    ordinary = np.sort(np.where(np.isnan(table), -9, table)[:, :1], axis=0)
    ordinary[-9:] = np.nan
    with np.testing.assert_no_warnings():
        GapFiller().fit(ordinary)
    with pytest.warns(UserWarning, match="no order in column 'x1' and 1 other column"):
        GapFiller().fit(np.column_stack([ordinary, table[:, 1:]]))  # sorted by the first column


def test_weak_orders_of_rows_are_rarely_an_alarm():
    """Of autoregressions of 0.4, seasons and log-normal rain, at most one in 40 tables warns."""
    alarms, n = 0, 60
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=(n, 3))
        table = np.zeros((n, 3))
        for i in range(1, n):
            table[i] = 0.4 * table[i - 1] + noise[i]
        table[:, 0] = np.exp(table[:, 0])
        table[:, 1] = noise[:, 1] + np.sin(np.arange(n) / 4)
        table[seed % 9 :: 9] = np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            GapFiller(n_nearest_features=0).fit(table)
        alarms += len(caught)
    assert alarms <= 1


@pytest.mark.parametrize(
    ("index", "is_unequal"),
    [
        (np.arange(60.0) ** 1.5, True),
        (np.arange(60) ** 2, True),
        ((np.arange(60.0) ** 2).astype("timedelta64[h]"), True),
        (-(np.arange(60.0) ** 1.5), True),
        (np.arange(60) * 0.1, False),
        (np.arange(60)[::-1], False),
        (np.arange(60).astype("timedelta64[h]"), False),
        ([f"row {i}" for i in range(60)], False),
    ],
    ids=["floats", "integers", "spans", "falling", "equal", "equal falling", "equal spans", "text"],
)
def test_an_index_of_unequal_steps_is_not_ignored_in_silence(index, is_unequal):
    import pandas as pd

    y = np.random.default_rng(0).normal(size=60).cumsum()
    y[7] = np.nan
    series = pd.Series(y, pd.Index(index))
    message = "The index holds unequal steps.*Pass positions='index', or positions=None"
    if is_unequal:
        with pytest.warns(UserWarning, match=message):
            GapFiller().fit(series)
        GapFiller(positions="index").fit(series)
    with np.testing.assert_no_warnings():
        (GapFiller(positions=None) if is_unequal else GapFiller()).fit(series)


@pytest.mark.parametrize("name", ["time", "t", "Depth (m)", "timestamp_ms"])
def test_a_column_named_as_a_coordinate_is_not_ignored_in_silence(name):
    import pandas as pd

    x = np.arange(60.0) ** 2
    y = np.where(np.arange(60) == 7, np.nan, np.random.default_rng(0).normal(size=60).cumsum())
    table = pd.DataFrame({name: x, "y": y})
    message = re.escape(f"Column {name!r} holds unequal steps") + ".*" + re.escape(repr([name]))
    for irregular in table, table[::-1], table[table[name] != 9]:
        with pytest.warns(UserWarning, match=message):
            GapFiller().fit(irregular.reset_index(drop=True))
    with np.testing.assert_no_warnings():
        GapFiller(positions=[name]).fit(table)
        GapFiller().fit(table.assign(**{name: np.arange(60.0)}))  # equal steps
        GapFiller().fit(table.rename(columns={name: "total"}))


def test_a_column_of_spans_is_not_ignored_in_silence():
    import pandas as pd

    y = np.random.default_rng(0).normal(size=60).cumsum()
    y[7] = np.nan
    table = pd.DataFrame({"after": pd.to_timedelta(np.arange(60.0) ** 2, "h"), "y": y})
    with pytest.warns(UserWarning, match=r"Column 'after' holds unequal.*positions=\['after'\]"):
        GapFiller().fit(table)
    with np.testing.assert_no_warnings():
        GapFiller(positions=["after"]).fit(table)


def test_hours_of_an_autumn_night_need_a_zone():
    import pandas as pd

    clock = pd.date_range("2024-10-26", periods=48, freq="h", tz="Europe/Zurich").tz_localize(None)
    y = pd.Series(np.where(np.arange(48) == 9, np.nan, np.arange(48.0)), clock)
    with pytest.raises(ValueError, match=r'back there: X.tz_localize\(zone, ambiguous="infer"\)'):
        GapFiller().fit(y)
    y = y.tz_localize("Europe/Zurich", ambiguous="infer")
    assert GapFiller().fit_transform(y).iloc[9] == pytest.approx(9)
    twice = pd.concat([y, y + 1]).tz_localize(None)
    with pytest.raises(ValueError, match="of each group by pivot"):
        GapFiller().fit(twice)
    years = pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"])
    with pytest.raises(ValueError, match="of each group by pivot"):
        GapFiller().fit(pd.Series([1.0, np.nan, 3.0, 4.0, 5.0, 6.0], years.append(years)))


def test_gaps_far_after_the_record_have_a_unit():
    import pandas as pd

    y = pd.Series(np.where(np.arange(60) < 40, 1.0, np.nan), pd.date_range("2024", periods=60))
    with pytest.warns(UserWarning, match="17 gaps farther than 3.9 days before or after"):
        GapFiller().fit_transform(y)


def dated_sine(library):
    import pandas as pd

    day, rng = np.arange(1000), np.random.default_rng(0)
    times = pd.date_range("2021-01-01", periods=1000)
    y = 10 * np.sin(2 * np.pi * day / 365.25) + day / 300 + 0.2 * rng.normal(size=1000)
    seen = np.where((day >= 400) & (day < 480), np.nan, y)
    if library == "polars":
        pl = pytest.importorskip("polars")
        return pl.DataFrame({"when": times.to_numpy(), "y": seen}), y
    table = pd.DataFrame({"when": times.tz_localize("Europe/Zurich"), "y": seen})
    return (table, y) if library == "pandas" else (table.set_index("when").y, y)


@pytest.mark.parametrize("library", ["pandas", "index", "polars"])
@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(PositionalEncoder(), RidgeCV()),
        make_pipeline(PositionalEncoder(periods="year"), RidgeCV()),
        AttentionRegressor(PeriodicKernel("year", columns=["when"]) + GaussianKernel("300D")),
        make_pipeline(ColumnTransformer([("when", PositionalEncoder(), ["when"])]), RidgeCV()),
    ],
    ids=["encoder", "year", "kernel", "columns"],
)
def test_an_estimator_has_the_dates_and_names(library, estimator):
    table, y = dated_sine(library)
    filled = GapFiller(estimator).set_output(transform="default").fit_transform(table)
    filled = np.asarray(filled if library == "index" else filled["y"])
    assert rms(filled - y) < 0.1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_an_estimator_has_the_time_zone(library):
    """The clocks of Zurich change on the last day of March, and the days follow them."""
    import pandas as pd

    times = pd.date_range("2024-03-01", periods=24 * 60, freq="h", tz="Europe/Zurich")
    y = np.sin(2 * np.pi * times.hour / 24)
    columns = {"when": times, "y": np.where(np.arange(y.size) % 50 < 9, np.nan, y)}
    if library == "polars":
        pl = pytest.importorskip("polars")
        utc = pl.Series(times.tz_convert(None).to_numpy()).dt.replace_time_zone("UTC")
        columns["when"] = utc.dt.convert_time_zone("Europe/Zurich")
        table = pl.DataFrame(columns)
    else:
        table = pd.DataFrame(columns)
    encoder = PositionalEncoder(periods="day", harmonics=1, trend=False)
    filled = GapFiller(make_pipeline(encoder, RidgeCV())).fit_transform(table)
    assert rms(np.asarray(filled["y"]) - y) < 0.02


def test_an_estimator_of_numbers_has_days():
    table, _ = dated_sine("pandas")
    filler = GapFiller(LinearRegression()).fit(table)
    assert filler.estimators_[1].feature_names_in_ == ["when"]
    assert abs(filler.estimators_[1].coef_[0]) < 0.1  # a day, not a nanosecond


def test_places_by_name_are_on_a_sphere():
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"lat": rng.uniform(60, 90, 200), "lon": rng.uniform(-180, 180, 200)})
    y = np.cos(np.radians(table.lat)) * np.cos(np.radians(table.lon))
    table["y"] = y.where(np.arange(200) % 5 > 0)
    for estimator in (None, AttentionRegressor(SphereKernel(columns=["lat", "lon"]))):
        filled = GapFiller(estimator, positions=["lat", "lon"]).fit_transform(table)
        assert rms(filled.y - y) < 2e-3


def test_arrays_of_xarray_are_refused_with_the_call_that_keeps_their_times():
    xr, pd = pytest.importorskip("xarray"), pytest.importorskip("pandas")
    y = pd.Series(np.where(np.arange(60) == 9, np.nan, np.arange(60.0)), hours(60))
    array = xr.DataArray(y, dims="time")
    for x, call in [
        (array, r"to_pandas\(\)"),
        (array.expand_dims(a=2, b=2), r"to_dataframe\('value'\).reset_index\(\)"),
        (xr.Dataset({"y": array}), r"to_dataframe\(\).reset_index\(\)"),
    ]:
        with pytest.raises(TypeError, match=rf"must be a table or an array, got xarray.*X\.{call}"):
            GapFiller().fit(x)
    assert GapFiller().fit_transform(array.to_pandas()).iloc[9] == pytest.approx(9)


def test_phases_that_were_missed_by_chance():
    """One of three cycles misses a phase: no warning, and the two other cycles fill it."""
    x = np.arange(30.0)
    y = np.array([0, 5, 1, 7, -3, 2, 9, 4, -6, 3.0])[(x % 10).astype(int)]
    with np.testing.assert_no_warnings():
        fill(x, y, hide(30, (4, 1), (7, 1), (14, 1), (24, 1)), periods=[10])


@pytest.mark.parametrize("by_zone", [False, True])
def test_a_day_follows_the_clock(by_zone):
    """Across the change of clocks in March and October, by the zone of the times or a given one."""
    import pandas as pd

    rng = np.random.default_rng(7)
    times = pd.date_range("2024-01-01", "2025-01-01", freq="h", tz="Europe/Zurich")
    shape = 3 * rng.normal(size=24)
    true = pd.Series(shape[times.hour] + 0.2 * rng.normal(size=times.size), times)
    hidden = rng.uniform(size=times.size) < 0.03
    seen = true.mask(hidden)
    if by_zone:
        seen = seen.tz_convert("UTC")
    filler = GapFiller(positions="index", time_zone="Europe/Zurich" if by_zone else None)
    filled = filler.fit_transform(seen).to_numpy()
    assert rms((filled - true.to_numpy())[hidden]) < 0.25


def test_what_a_new_table_knows_is_used():
    x = np.arange(40.0)
    filler = GapFiller(positions=[0]).fit(np.column_stack([x, np.zeros(40)]))
    new = np.array([[100.0, 50.0], [101.0, np.nan], [102.0, 50.0], [20.5, np.nan], [3.0, 0.0]])
    filled = filler.transform(new)
    np.testing.assert_allclose(filled[[1, 3], 1], [50.0, 0.0], atol=1e-9)
    # At equal places the new table wins.
    other = filler.transform(np.array([[19.0, 30.0], [20.0, 30.0], [20.5, np.nan], [21.0, 30.0]]))
    assert other[2, 1] == pytest.approx(30, abs=1)
    by_model = GapFiller(LinearRegression(), positions=[0]).fit(np.column_stack([x, x]))
    steep = np.column_stack([x + 100, 1e3 * x])
    steep[3, 1] = np.nan
    assert by_model.transform(steep)[3, 1] != pytest.approx(
        by_model.fit(steep).transform(steep)[3, 1]
    )


def test_rows_without_positions_are_filled_from_themselves():
    first = np.arange(30.0)[:, None]
    first[[4, 12]] = np.nan
    filler = GapFiller().fit(first)
    later = first[::-1] + 1000
    np.testing.assert_allclose(filler.transform(later), np.arange(1029.0, 999, -1)[:, None])
    np.testing.assert_allclose(filler.transform(first)[:, 0], np.arange(30))
    with pytest.raises(ValueError, match="must have a measurement in each column, got none in x0"):
        filler.transform(np.full((3, 1), np.nan))


@pytest.mark.parametrize("end", ["before", "after"])
def test_beyond_the_record_a_season_goes_on(end):
    rng, x = np.random.default_rng(8), np.arange(300.0)
    shape = rng.normal(size=12)
    y = shape[(x % 12).astype(int)] + 0.05 * rng.normal(size=300).cumsum()
    hidden = hide(300, (0, 20) if end == "before" else (280, 20))
    mean, std = fill(x, y, hidden, periods=[12])
    assert rms(mean - y[hidden]) < 0.4 * shape.std()
    assert np.mean(abs(mean - y[hidden]) <= 1.96 * std) > 0.8
    near, far = (0, -1) if end == "after" else (-1, 0)
    assert std[near] < std[far]
    walk, _ = fill(x, y, hidden)
    assert rms(walk - y[hidden]) > 2 * rms(mean - y[hidden])


def test_beyond_a_record_of_few_cycles():
    """Ends of which less than a cycle is seen say nothing of a season; others do."""
    x = np.arange(104.0)
    y = 5 * np.sin(2 * np.pi * x / 40) + 0.1 * np.random.default_rng(10).normal(size=104)
    hidden = hide(104, (101, 3))
    mean, std = fill(x, y, hidden, periods=[40])
    assert rms(mean - y[hidden]) < 1
    assert (std > 0).all()


def test_two_samples_are_joined_by_a_line_of_unknown_std():
    filler = GapFiller()
    table = np.array([[0.0], [np.nan], [np.nan], [3.0]])
    np.testing.assert_allclose(filler.fit_transform(table)[:, 0], np.arange(4))
    np.testing.assert_array_equal(np.isnan(filler.transform_std(table)[:, 0]), [0, 1, 1, 0])
    one = np.array([[np.nan], [7.0], [np.nan]])
    with pytest.warns(UserWarning, match="has 2 gaps farther than 0 before or after its record"):
        np.testing.assert_array_equal(filler.fit_transform(one), np.full((3, 1), 7.0))


def test_weights_are_the_best_in_hidden_windows():
    """In noise the mean of 8 on either side is better than a line, in a smooth curve it is not."""
    x, rng = np.arange(800.0), np.random.default_rng(9)
    hidden = hide(800, *((start, 4) for start in range(20, 780, 20)))
    noise = rng.normal(size=800)
    assert of_line(x, noise, hidden, fill(x, noise, hidden)[0]) < 0.95
    smooth = np.sin(x / 5)
    assert of_line(x, smooth, hidden, fill(x, smooth, hidden)[0]) < 1.01


@pytest.mark.parametrize("first", [0, 10**9, 10**15, -(10**15)])
@pytest.mark.filterwarnings("ignore:The period")
def test_places_may_be_far(first):
    x, y = np.arange(240), np.random.default_rng(12).normal(size=240).cumsum()
    hidden = hide(240, (50, 4), (120, 9))
    expected, std = fill(x.astype(float), y, hidden, periods=[12])
    mean, far_std = fill(x.astype(float) + first, y, hidden, periods=[12])
    np.testing.assert_allclose(mean, expected, atol=0.02)
    np.testing.assert_allclose(far_std, std, rtol=0.05)


def test_times_of_microseconds():
    import pandas as pd

    y = np.sin(np.arange(300) / 9)
    seen = pd.Series(y, pd.date_range("2024-05-01", periods=300, freq="us")).mask(
        hide(300, (100, 3), (200, 5))
    )
    assert abs(GapFiller(positions="index").fit_transform(seen).to_numpy() - y).max() < 0.05


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
    x = np.random.default_rng(7).uniform(size=(40, 2))
    table = np.column_stack([x, x.sum(axis=1)])
    table[5, 2] = np.nan
    filler = GapFiller(positions=[0, 1])
    seen = np.arange(40) != 5
    regressor = AttentionRegressor().fit(x[seen], table[seen, 2])
    mean, std = regressor.predict(x[5:6], return_std=True)
    np.testing.assert_allclose(filler.fit_transform(table)[5, 2], mean[0])
    np.testing.assert_allclose(filler.transform_std(table)[5], [0, 0, std[0]])
    plain = GapFiller(LinearRegression(), positions=[0, 1]).fit(table)
    with pytest.raises(TypeError, match=r"`estimator` must predict standard deviations.*LinearReg"):
        plain.transform_std(table)


@pytest.mark.parametrize(
    ("weeks", "max_ratio"), [pytest.param(4, 1.0, marks=pytest.mark.long), (13, 0.6)]
)
def test_gaps_in_a_record_of_co2(weeks, max_ratio):
    path = Path(__file__).parents[2] / "examples" / "data" / "co2_mauna_loa_weekly.csv"
    dates, values = np.loadtxt(path, delimiter=",", dtype=str, skiprows=10, unpack=True)
    y = np.array([float(value or "nan") for value in values])[-800:]
    x = dates[-800:].astype("datetime64[D]").astype(float)
    x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    hidden = hide(x.size, *((start, weeks) for start in range(60, x.size - 60, 150)))
    mean, std = fill(x, y, hidden, periods=[365.2425])
    assert of_line(x, y, hidden, mean) < max_ratio
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
@pytest.mark.parametrize(
    "filler", [GapFiller(), GapFiller(LinearRegression()), GapFiller(positions=[0])]
)
def test_what_scikit_learn_asks_of_an_imputer(filler):
    failures = {"check_estimators_pickle": "it cuts gaps into positions, too"}
    failures = failures if filler.positions == [0] else {}
    results = check_estimator(filler, expected_failed_checks=failures, on_skip=None, on_fail=None)
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
        '`positions` must be "auto", "index", a list of columns or None, got \'time\'',
    ),
    "index": (
        lambda: GapFiller(positions="index").fit(np.ones((3, 2))),
        TypeError,
        '`X` must be a pandas table if `positions` is "index"',
    ),
    "column": (
        lambda: GapFiller(positions=[2]).fit(np.ones((3, 2))),
        ValueError,
        r"`positions\[0\]` must be one of \[0, 1\], got 2",
    ),
    "kind": (
        lambda: GapFiller(positions=[0.5]).fit(np.ones((3, 2))),
        ValueError,
        r"`positions\[0\]` must be one of \[0, 1\], got 0.5",
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
        ValueError,
        r"`positions\[0\]` must be one of \[0, 1\], got 'time'",
    ),
    "index of text": (
        lambda: GapFiller(positions="index").fit(frame_at(["a", "b", "c"])),
        TypeError,
        r"`X\.index` must hold numbers or dates, got text, 'a'",
    ),
    "index of complex numbers": (
        lambda: GapFiller(positions="index").fit(frame_at([1j, 2.0, 3.0])),
        TypeError,
        r"`X\.index` must hold numbers or times, got complex128",
    ),
    "index of periods": (
        lambda: GapFiller(positions="index").fit(frame_at(period_range(3))),
        TypeError,
        r"`X\.index` must hold numbers or dates, got periods, Period\(.*as with .dt.to_t",
    ),
    "periods": (
        lambda: GapFiller(positions="index", periods=["day", "fast"]).fit(frame_at(hours(3))),
        ValueError,
        r"`periods\[1\]` must be a positive number, or a span such as",
    ),
    "periods of numbers": (
        lambda: GapFiller(periods="day").fit(np.ones((3, 2))),
        ValueError,
        r"`periods\[0\]` must be a positive number, got 'day'",
    ),
    "periods of an estimator": (
        lambda: GapFiller(LinearRegression(), periods=[2]).fit(np.ones((3, 2))),
        ValueError,
        r'`periods` must be "auto", and `time_zone` None, with an estimator or several coor',
    ),
    "large numbers": (
        lambda: GapFiller().fit([[1.0], [1e101], [np.nan]]),
        ValueError,
        r"`X` must be within 1e\+100 of 0, got 1e\+101 or beyond",
    ),
    "large positions": (
        lambda: GapFiller(positions="index").fit(frame_at([0.0, -1e101, 1.0])),
        ValueError,
        r"`positions` must be within 1e\+100 of 0, got 1e\+101 or beyond",
    ),
    "small positions": (
        lambda: GapFiller(positions=[0]).fit([[0.0, 1.0], [1e-101, np.nan]]),
        ValueError,
        "`positions` must vary by 1e-100 or more in a column, or not at all, got 1e-101",
    ),
    "number of columns": (
        lambda: GapFiller(n_nearest_features=-1).fit(np.ones((3, 2))),
        ValueError,
        "`n_nearest_features` must be a non-negative integer, got -1",
    ),
    "zone of an estimator": (
        lambda: GapFiller(positions=[0, 1], time_zone="UTC").fit(np.ones((3, 3))),
        ValueError,
        r'`periods` must be "auto", and `time_zone` None, with an estimator or several coor',
    ),
    "zone of numbers": (
        lambda: GapFiller(time_zone="UTC").fit(np.ones((3, 2))),
        ValueError,
        "`time_zone` must be None for positions of numbers, got",
    ),
    "zone of times without": (
        lambda: GapFiller(positions="index", time_zone="UTC").fit(frame_at(hours(3))),
        ValueError,
        "`positions` must have times with a zone where `time_zone` is given",
    ),
    "zone": (
        lambda: GapFiller(time_zone="Mars").fit(np.ones((3, 2))),
        ValueError,
        '`time_zone` must be the name of a time zone, such as "Europe/Zurich"',
    ),
    "index of nanoseconds": (
        lambda: GapFiller(positions="index").fit(
            frame_at(np.datetime64("2024-01-01", "ns") + np.arange(3))
        ),
        ValueError,
        r"`X\.index` must have values that differ .*, got closer ones. Pass differences",
    ),
    "index of far integers": (
        lambda: GapFiller(positions="index").fit(frame_at(10**17 + np.arange(3))),
        ValueError,
        r"`X\.index` must have values that differ in float64",
    ),
    "several columns of dates": (
        lambda: GapFiller().fit(frame_at(range(3)).assign(a=hours(3), b=hours(3))),
        ValueError,
        "`positions` must name one of several columns of dates, got a, b",
    ),
    "one row without positions": (
        lambda: (
            make_pipeline(GapFiller(), LinearRegression())
            .fit(np.arange(6.0).reshape(3, 2), np.arange(3))
            .predict([[np.nan, 1.0]])
        ),
        ValueError,
        "got none in x0. Without positions, only rows of the same table fill a gap: pass adjacent",
    ),
}


# Columns that help each other.


def walks(length, noise=0.3, n=800, seed=0):
    """Return a random walk, a column close to it, and gaps of a length."""
    rng = np.random.default_rng(seed)
    y, step = rng.normal(size=n).cumsum(), 9 + 4 * length
    hidden = hide(n, *((start, length) for start in range(40, n - 60, step)))
    return y, y + noise * rng.normal(size=n), hidden


def error_beside(y, hidden, *columns, **options):
    """Return the error of a column with gaps beside others, and its filler."""
    table = np.column_stack([np.where(hidden, np.nan, y), *columns])
    with np.errstate(all="raise", under="ignore"):
        filler = GapFiller(**options).fit(table)
        return rms(filler.transform(table)[hidden, 0] - y[hidden])


@pytest.mark.parametrize(("length", "part"), [(1, 0.6), (5, 0.5), (36, 0.25)])
def test_a_close_column_helps(length, part):
    y, close, hidden = walks(length)
    alone = error_beside(y, hidden)
    helped = error_beside(y, hidden, close)
    assert helped < part * alone
    assert helped < 1.2 * 0.3  # the noise of the close column
    assert error_beside(y, hidden, close, n_nearest_features=0) == alone
    assert error_beside(y, hidden, y) < 0.02 * alone
    table = np.column_stack([np.where(hidden, np.nan, y), close])
    filler = GapFiller().fit(table)
    inside = abs(filler.transform(table)[:, 0] - y) <= 1.96 * filler.transform_std(table)[:, 0]
    assert inside[hidden].mean() > 0.88


FLAG = np.arange(800) % 7 < 2
COLUMNS = {
    "noise": np.random.default_rng(5).normal(size=(800, 30)),
    "walks": np.random.default_rng(6).normal(size=(800, 30)).cumsum(axis=0),
    "flag": 1.0 * FLAG,
    "season": 1e-9 * np.sin(np.arange(800)) + 1e6 * FLAG,
}


@pytest.mark.filterwarnings("ignore:The period 7 is not used")  # of noise
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("length", [5, 36])
def test_other_columns_do_no_harm(name, length):
    y, close, hidden = walks(length)
    expected = error_beside(y, hidden, close)
    error = error_beside(y, hidden, close, COLUMNS[name], periods=[7])
    assert error < 1.3 * expected
    alone = error_beside(y, hidden)
    assert error_beside(y, hidden, COLUMNS["noise"][:, :5]) < 1.15 * alone


def at(n, *rows):
    """Return measurements in some rows."""
    return np.where(np.isin(np.arange(n), rows), 9 * np.sin(np.arange(n)), np.nan)


USELESS = {
    "constant": (800, np.ones(800)),
    "counter": (800, np.arange(800.0)),
    "rounding": (800, 1e6 * np.arange(800.0) + 1e-9 * np.sin(np.arange(800))),
    "three measurements": (800, at(800, 110, 303, 520)),  # in a gap, and outside of gaps
    "eight measurements": (120, at(120, 40, 41, 69, 70, 71, 72, 98, 99)),
}


@pytest.mark.filterwarnings("ignore:Column 'x2' has .* before or after its record")
@pytest.mark.parametrize("name", USELESS)
def test_columns_that_tell_nothing_are_ignored(name):
    n, column = USELESS[name]
    y, close, hidden = walks(5, n=n)
    table = np.column_stack([np.where(hidden, np.nan, y), close, column])
    expected = GapFiller().fit_transform(table[:, :2])
    with np.errstate(all="raise", under="ignore"):
        filled = GapFiller().fit_transform(table)
    np.testing.assert_allclose(filled[:, :2], expected, atol=1e-9)


def test_units_and_order_of_columns_do_not_matter():
    y, close, hidden = walks(5)
    other = COLUMNS["walks"][:, 0] + y
    table = np.column_stack([np.where(hidden, np.nan, y), close, other])
    table[200:204, 1] = table[201:206, 2] = np.nan
    expected, std = (f(table) for f in methods_of(GapFiller().fit(table)))
    scaled, scaled_std = (
        f(1e6 * table + 1e9) for f in methods_of(GapFiller().fit(1e6 * table + 1e9))
    )
    np.testing.assert_allclose((scaled - 1e9) / 1e6, expected, atol=1e-6)
    np.testing.assert_allclose(scaled_std / 1e6, std, atol=1e-6)
    order = [2, 0, 1]
    mean, other_std = (f(table[:, order]) for f in methods_of(GapFiller().fit(table[:, order])))
    np.testing.assert_allclose(mean, expected[:, order], atol=1e-9)
    np.testing.assert_allclose(other_std, std[:, order], atol=1e-9)
    rows = np.random.default_rng(1).permutation(800)
    by_row = np.column_stack([np.arange(800.0), table])[rows]
    filler = GapFiller(positions=[0]).fit(by_row)
    np.testing.assert_allclose(filler.transform(by_row)[:, 1:], expected[rows], atol=1e-9)
    again = pickle.loads(pickle.dumps(filler))
    np.testing.assert_array_equal(again.transform(by_row), filler.transform(by_row))
    np.testing.assert_array_equal(again.transform_std(by_row), filler.transform_std(by_row))


def methods_of(filler):
    return filler.transform, filler.transform_std


@pytest.mark.parametrize("length", [1, 7])
def test_an_outage_of_all_columns_is_filled_as_without_them(length):
    y, close, hidden = walks(length)
    table = np.where(hidden[:, None], np.nan, np.column_stack([y, close]))
    together, apart = GapFiller().fit(table), GapFiller(n_nearest_features=0).fit(table)
    for f, g in zip(methods_of(together), methods_of(apart), strict=True):
        np.testing.assert_array_equal(f(table), g(table))


def test_an_outlier_in_another_column_does_not_move_the_fill():
    y, close, hidden = walks(5)
    expected = error_beside(y, hidden, close)
    outlier = np.flatnonzero(hidden)[7]
    error = error_beside(y, hidden, np.where(np.arange(800) == outlier, 1e4, close))
    assert error < 1.5 * expected


def test_columns_that_are_never_measured_together():
    """Two loggers in turn: each helps in its half, and no slope counts both."""
    y, close, hidden = walks(5)
    first = np.arange(800) < 400
    halves = np.where(first, close, np.nan), np.where(first, np.nan, close)
    with pytest.warns(UserWarning, match="before or after its record.* The same holds for 'x2'"):
        error = error_beside(y, hidden, *halves)
    assert error < 0.6 * error_beside(y, hidden)


@pytest.mark.filterwarnings("ignore:Column 'x1' has .* before or after its record")
def test_columns_that_are_rarely_measured_together():
    """Two loggers with twenty common samples: both correct a gap there, each by a part."""
    errors, rows, gap = [], np.arange(800), slice(394, 404)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=800).cumsum()
        first, second = y + 0.1 * rng.normal(size=(2, 800))
        hidden = hide(800, *((start, 5) for start in range(40, 740, 29)))
        hidden[380:420] = False
        hidden[gap] = True
        halves = np.where(rows < 410, first, np.nan), np.where(rows >= 390, second, np.nan)
        table = np.column_stack([np.where(hidden, np.nan, y), *halves])
        filled = [GapFiller(n_nearest_features=n).fit_transform(table)[gap, 0] for n in (12, 0)]
        errors.append(filled - y[gap])
    helped, alone = np.sqrt(np.mean(np.square(errors), axis=(0, 2)))
    assert helped < 0.6 * alone


@pytest.mark.filterwarnings("ignore:Rows have no order")
def test_rows_without_order_are_filled_by_other_columns():
    rng = np.random.default_rng(3)
    y = rng.normal(size=200)
    table = y[:, None] + 0.2 * rng.normal(size=(200, 4))
    hidden = hide(200, *((start, 1) for start in range(5, 195, 10)))
    assert error_beside(table[:, 0], hidden, table[:, 1:]) < 0.4


def test_a_new_table_uses_its_other_columns():
    y, close, hidden = walks(5)
    filler = GapFiller().fit(np.column_stack([y, close])[:400])
    table = np.column_stack([np.where(hidden, np.nan, y), close])[400:]
    expected = GapFiller().fit_transform(table)
    np.testing.assert_array_equal(filler.transform(table), expected)
    assert rms((expected[:, 0] - y[400:])[hidden[400:]]) < 0.45


@pytest.mark.parametrize("lag", [-3, 1, 2])
def test_a_column_that_follows_helps(lag):
    y, close, hidden = walks(36, noise=0.1)
    days = 20_000 + np.arange(800) / 24  # steps differ by rounding
    table = np.column_stack([days, np.where(hidden, np.nan, y), np.roll(close, lag)])
    filled = GapFiller(positions=[0]).fit_transform(table)[:, 1]
    assert rms((filled - y)[hidden]) < 1.5 * error_beside(y, hidden, close)


def test_gaps_after_a_table_without_gaps():
    """Samples of fit fill gaps at their positions; other columns help between them."""
    y, close, hidden = walks(1)
    table = np.column_stack([np.arange(800.0), y, close])
    first, later = table[~hidden], np.where([0, 1, 0], np.nan, table)
    filler = GapFiller(positions=[0]).fit(first)
    filled, std = filler.transform(later), filler.transform_std(later)
    np.testing.assert_array_equal(filled[~hidden], first)
    np.testing.assert_array_equal(std[~hidden], np.zeros_like(first))
    assert rms((filled - table)[hidden, 1]) < 0.5
    assert ((std > 0) & (std < 0.5))[hidden, 1].all()


def test_rows_after_a_table_without_gaps_use_its_other_columns():
    """A gauge tells the values of the next one, which follows by two steps."""
    river = np.random.default_rng(0).normal(size=402).cumsum()
    table = np.column_stack([np.arange(400.0), river[2:], river[:-2]])
    filler = GapFiller(positions=[0]).fit(table[:398])
    later = np.where([0, 1, 1], np.nan, table[398:])
    assert filler.transform(later)[:, 2] == pytest.approx(table[398:, 2], abs=0.05)
    assert (filler.transform_std(later)[:, 2] < 0.05).all()


@pytest.mark.filterwarnings("ignore:Column 'x1' has several values at a position")
@pytest.mark.parametrize("stations", [2, 3])
def test_gaps_at_positions_of_other_stations_are_uncertain(stations):
    """A value that was not measured is not that of another station at the time."""
    rng, times = np.random.default_rng(0), np.arange(200.0)
    y = np.sin(times / 8)[:, None] + 10 * np.arange(stations) + 0.1 * rng.normal(size=(200, 1))
    y[[50, 120], -1] = np.nan
    table = np.column_stack([np.repeat(times, stations), y.ravel()])
    filler = GapFiller(positions=[0]).fit(table)
    std = filler.transform_std(table)[:, 1]
    assert (std[np.isnan(table[:, 1])] > 0.1).all()
    assert (std[~np.isnan(table[:, 1])] == 0).all()


def test_a_time_of_large_errors_does_not_determine_the_slopes():
    """A fifth of a column is noise of a broken sensor."""
    errors, distance = [], abs(np.arange(400) - 200)
    for seed in range(3):
        y, close, hidden = walks(1, n=400, seed=seed)
        noise = 20 * np.random.default_rng(seed + 9).normal(size=400) * (distance < 40)
        hidden &= distance > 45
        errors.append([error_beside(y + noise, hidden, *other) for other in ([close], [])])
    helped, alone = np.sqrt(np.mean(np.square(errors), axis=0))
    assert helped < 0.35 * alone


@pytest.mark.filterwarnings("ignore:Rows have no order")
def test_a_quiet_time_does_not_determine_the_slopes():
    """The first two fifths of a column are zeros of a stuck sensor."""
    errors, hidden = [], hide(1000, *((start, 1) for start in range(405, 990, 7)))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=1000)
        others = y + 0.7 * rng.normal(size=(4, 1000))
        y = np.where(np.arange(1000) < 400, 0.0, y + 0.5 * rng.normal(size=1000))
        starts = 0, 400  # of records
        errors.append([error_beside(y[s:], hidden[s:], *others[:, s:]) for s in starts])
    with_quiet, without = np.sqrt(np.mean(np.square(errors), axis=0))
    assert with_quiet < 1.38 * without


def test_a_long_record_of_many_lengths():
    """Few hidden samples of a long record do not change its season."""
    rng, t = np.random.default_rng(0), np.arange(40_000)
    y = 10 * (t % 24 < 8) + rng.normal(size=t.size)
    hidden = hide(t.size, *((start, (1, 5)[start % 2]) for start in range(50, 39_000, 401)))
    filler = GapFiller(periods=[24])
    seen = np.where(hidden, np.nan, y)[:, None]
    error = abs(filler.fit_transform(seen)[hidden, 0] - y[hidden])
    assert rms(error) < 1.1
    assert 0.93 < (error <= 1.96 * filler.transform_std(seen)[hidden, 0]).mean() < 0.97


@pytest.mark.filterwarnings("ignore:Rows have no order")
def test_a_column_without_an_order_is_filled_by_its_mean():
    y = np.random.default_rng(3).normal(size=(60, 40))
    hidden = hide(60, *((start, 1) for start in range(5, 55, 5)))
    errors = [rms(error_beside(column, hidden)) for column in y.T]
    means = [rms(column[hidden] - column[~hidden].mean()) for column in y.T]
    assert rms(np.array(errors)) < 1.02 * rms(np.array(means))


def test_warnings_name_all_columns():
    y, close, _ = walks(5)
    table = np.column_stack([y, close, -y])
    table[:150] = np.nan
    with pytest.warns(UserWarning, match=r"'x0' has 86 gaps.*same holds for 'x1', 'x2'") as warned:
        GapFiller().fit_transform(table)
    assert len(warned) == 1


def stations():
    """Return two stations at the same times, 1,000 apart, each without a value."""
    import pandas as pd

    times, y = pd.date_range("2024-01-01", periods=40), 20.0 + np.arange(40) % 2
    y[7] = np.nan
    tables = [pd.DataFrame({"station": i, "t": times, "y": y + 1000 * i}) for i in (0, 1)]
    return pd.concat(tables, ignore_index=True)


def period_range(n):
    import pandas as pd

    return pd.period_range("2024-01-01", periods=n, freq="D")


def hours(n):
    return np.datetime64("2024-01-01T00", "s") + np.arange(n) * np.timedelta64(3600, "s")


def frame_at(index):
    import pandas as pd

    return pd.DataFrame({"y": [1.0, np.nan, 2.0]}, index=index)


def test_a_season_on_a_high_level():
    """Filled values shift with the level, up to its rounding."""
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


def test_places_far_apart():
    """One distant position, or half of the positions, changes little in a gap of the rest."""
    x, apart = np.arange(200.0), 1e9
    y = np.sin(x / 8) + 0.1 * np.random.default_rng(0).normal(size=200)
    stds = []
    for positions in (x, np.where(x == 199, apart, x), np.where(x > 100, apart + x, x)):
        table = np.column_stack([positions, np.where((x >= 50) & (x < 60), np.nan, y)])
        filler = GapFiller(positions=[0])
        np.testing.assert_allclose(filler.fit_transform(table)[50:60, 1], y[50:60], atol=0.3)
        stds.append(filler.transform_std(table)[50:60, 1])
        between = filler.transform_std([[0.4 * apart, np.nan]])[0, 1]
        assert 0 < between < 2 * np.ptp(y)
    np.testing.assert_allclose(stds[1:], [stds[0]] * 2, rtol=0.3)
