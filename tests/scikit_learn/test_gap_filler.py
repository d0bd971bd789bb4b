"""`GapFiller`: columns with gaps, at rows, times and places."""

import numpy as np
import pytest

pytest.importorskip("sklearn.base", reason="the group test lacks it")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from positional_embeddings.sklearn import AttentionRegressor, GapFiller, GaussianKernel

# A straight line over a gap of five steps misses a sine of 1 / 8 a step by 5**2 / 8 / 8**2 at most.
GAP_ERROR = 0.05


def series(n=60, columns=2):
    values = np.sin(np.arange(n)[:, None] / 8 + np.arange(columns))
    gaps = np.zeros(values.shape, dtype=bool)
    gaps[10:14, 0] = gaps[20, -1] = gaps[55:58, -1] = True
    return values, np.where(gaps, np.nan, values), gaps


def test_gaps_are_filled_and_the_rest_is_kept():
    values, holes, gaps = series()
    filler = GapFiller().fit(holes)
    filled = filler.transform(holes)
    np.testing.assert_array_equal(filled[~gaps], values[~gaps])
    np.testing.assert_allclose(filled, values, atol=GAP_ERROR)
    assert np.isnan(holes).sum() == gaps.sum()
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
    pd = pytest.importorskip("pandas")
    values, holes, _ = series()
    times = pd.date_range("2024-02-01", periods=60, freq="D", tz="Europe/Zurich")
    table = pd.DataFrame(holes, columns=["air", "sea"], index=times)
    filler = GapFiller(positions="index").set_output(transform="pandas")
    filled = filler.fit_transform(table)
    assert list(filled.columns) == ["air", "sea"]
    assert filled.index.equals(times)
    np.testing.assert_allclose(filled.to_numpy(), values, atol=GAP_ERROR)
    by_column = table.reset_index(names="time")
    other = GapFiller(positions=["time"]).fit(by_column)
    np.testing.assert_allclose(other.transform(by_column)[:, 1:], filled, atol=1e-9)
    days = other.transform(by_column)[:, 0]
    utc = times.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[s]")
    np.testing.assert_allclose(days, utc.astype(int) / 86400)
    numbered = pd.DataFrame(holes, columns=["air", "sea"], index=np.arange(60) * 0.5)
    again = GapFiller(positions="index").fit_transform(numbered)
    np.testing.assert_allclose(again, values, atol=GAP_ERROR)
    assert list(filler.get_feature_names_out()) == ["air", "sea"]
    spans = pd.DataFrame(holes, index=pd.timedelta_range("0D", periods=60, freq="D"))
    np.testing.assert_allclose(GapFiller(positions="index").fit_transform(spans), filled, atol=1e-6)


def test_tables_of_polars():
    pl = pytest.importorskip("polars")
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
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2024-02-01", periods=40)
    y = np.sin(np.arange(40) / 5)
    days = times.to_numpy().astype("datetime64[D]").astype(int)[:, None]
    expected = AttentionRegressor(GaussianKernel(2.0)).fit(days, y).predict(days)
    for dates in (times, pd.Series(times), pd.DataFrame({0: times}), pd.DataFrame({"t": times})):
        got = AttentionRegressor(GaussianKernel(2.0)).fit(dates, y).predict(dates)
        np.testing.assert_allclose(got, expected)
    two = pd.DataFrame({1: times, 0: np.where(np.arange(40) == 7, np.nan, y)})
    filled = GapFiller(positions=[0]).fit_transform(two)
    assert filled[7, 1] == pytest.approx(y[7], abs=2**2 / 8 / 5**2 + 0.01)
    assert list(two.columns) == [1, 0]
    assert two[1].equals(pd.Series(times))


def test_times_stay_times():
    pd = pytest.importorskip("pandas")
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
    assert not np.isnan(by_index.transform(pd.DataFrame({"y": y}, index=times))).any()


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
        r"`estimator` must be a regressor, got GaussianKernel.*Pass AttentionRegressor\(kernel\)",
    ),
    "class": (
        lambda: GapFiller(AttentionRegressor).fit(np.ones((3, 2))),
        TypeError,
        "`estimator` must be a regressor, got <class",
    ),
    "name": (
        lambda: GapFiller(positions=["time"]).fit(np.ones((3, 2))),
        ValueError,
        r"`positions\[0\]` must be one of \[\], got 'time'",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()
