"""Dates and durations of every library as days since an origin."""

import datetime as dt
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import positional_embeddings as pe
from absent import pl, xarray
from positional_embeddings import days_since

# Days since 1970, the evening before clocks change, and two days later.
DAYS = [19_812.75, 19_814.75, np.nan]
NAIVE = pd.DatetimeIndex(["2024-03-30T18", "2024-04-01T18", None])
ZONED = NAIVE.tz_localize("UTC").tz_convert("Europe/Zurich")
DATETIMES = [time.to_pydatetime() for time in NAIVE[:2]]
AWARE = [time.to_pydatetime() for time in ZONED[:2]]
assert AWARE[0].utcoffset() != AWARE[1].utcoffset()
SPANS = [dt.timedelta(hours=36), dt.timedelta(days=-2), None]


def objects(values):
    """Return an object array; NumPy would convert some objects to numbers."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


DATES = {
    "NumPy": NAIVE.to_numpy(),
    "NumPy hours": NAIVE.to_numpy().astype("datetime64[h]"),
    "NumPy objects": objects(list(NAIVE.to_numpy().astype("datetime64[s]"))),
    "datetimes": [*DATETIMES, None],
    "datetimes with a zone": (*AWARE, float("nan")),
    "datetimes as objects": objects([*AWARE, None]),
    "Timestamps": list(NAIVE),
    "Timestamps with a zone": [*ZONED[:2], pd.NA],
    "index": NAIVE,
    "index with a zone": ZONED,
    "extension array": ZONED.array,
    "series": pd.Series(NAIVE, index=[7, 8, 9]),
    "series in seconds": pd.Series(ZONED.as_unit("s")),
    "series of objects": pd.Series(list(ZONED), dtype=object),
    "polars": pl.Series([*DATETIMES, None]),
    "polars with a zone": pl.Series([*DATETIMES, None])
    .dt.replace_time_zone("UTC")
    .dt.convert_time_zone("Asia/Tokyo"),
    "polars objects": pl.Series([*AWARE, None], dtype=pl.Object),
    "data array": xarray.DataArray(NAIVE),
    "variable": xarray.Variable("time", NAIVE.to_numpy()),
}


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_dates_are_days_since_1970_in_utc(dates):
    days = days_since(dates)
    assert type(days) is np.ndarray
    assert days.dtype == np.float64
    np.testing.assert_array_equal(days, DAYS)
    np.testing.assert_array_equal(days_since(dates, "2024-03-30T18"), [0.0, 2.0, np.nan])


@pytest.mark.parametrize(
    "dates",
    [
        [dt.date(1970, 1, 2), None],
        pl.Series([dt.date(1970, 1, 2), None]),
        np.asarray(["1970-01-02", "NaT"], dtype="datetime64[D]"),
    ],
)
def test_dates_without_a_time_are_midnights(dates):
    np.testing.assert_array_equal(days_since(dates), [1.0, np.nan])


@pytest.mark.library("pyarrow")
@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_columns_of_pyarrow(zone):
    arrow = pytest.importorskip("pyarrow")
    times = ZONED.as_unit("us") if zone else NAIVE.as_unit("us")
    column = pd.Series(times).astype(pd.ArrowDtype(arrow.timestamp("us", zone)))
    np.testing.assert_array_equal(days_since(column), DAYS)
    days = pd.Series([dt.date(1970, 1, 2), None])
    for kind in (arrow.date32(), arrow.date64()):
        np.testing.assert_array_equal(days_since(days.astype(pd.ArrowDtype(kind))), [1, np.nan])
    spans = pd.Series(SPANS).astype(pd.ArrowDtype(arrow.duration("us")))
    np.testing.assert_array_equal(days_since(spans), [1.5, -2.0, np.nan])


TIMEDELTAS = {
    "timedeltas": SPANS,
    "NumPy": np.asarray(SPANS, dtype="timedelta64[h]"),
    "NumPy objects": objects(list(np.asarray(SPANS, dtype="timedelta64[h]"))),
    "Timedeltas": list(pd.TimedeltaIndex(SPANS)),
    "index": pd.TimedeltaIndex(SPANS),
    "series": pd.Series(SPANS),
    "polars": pl.Series(SPANS),
    "data array": xarray.DataArray(pd.TimedeltaIndex(SPANS)),
}


@pytest.mark.parametrize("spans", TIMEDELTAS.values(), ids=TIMEDELTAS)
def test_spans_are_days(spans):
    np.testing.assert_array_equal(days_since(spans), [1.5, -2.0, np.nan])
    np.testing.assert_array_equal(days_since(spans, "2024-01-01"), [1.5, -2.0, np.nan])


@pytest.mark.parametrize(
    ("time", "days"),
    [
        (np.datetime64("1970-01-03T12"), 2.5),
        (pd.Timestamp("1970-01-03T13", tz="Europe/Zurich"), 2.5),
        (dt.datetime(1970, 1, 3, 12, tzinfo=dt.UTC), 2.5),
        (dt.date(1970, 1, 3), 2.0),
        (dt.timedelta(hours=60), 2.5),
        (pd.Timedelta(hours=60), 2.5),
        (np.timedelta64(60, "h"), 2.5),
        (pd.NaT, np.nan),
        (None, np.nan),
    ],
)
def test_one_date_is_one_number(time, days):
    number = days_since(time)
    assert isinstance(number, float)
    np.testing.assert_array_equal(number, days)


def test_tables_and_arrays_of_several_axes():
    expected = np.asarray(DAYS)[:, None]
    for table in (
        NAIVE.to_numpy()[:, None],
        [[time] for time in NAIVE],
        pd.DataFrame({"time": ZONED}),
        pl.DataFrame({"time": [*DATETIMES, None]}),
    ):
        np.testing.assert_array_equal(days_since(table), expected)
    assert days_since([]).shape == (0,)
    assert days_since(np.empty((2, 0), dtype="datetime64[s]")).shape == (2, 0)


@pytest.mark.parametrize("unit", ["W", "D", "h", "s", "us", "ns", "as"])
def test_the_difference_is_rounded_once(unit):
    lengths = {"as": 1, "ns": 10**9, "us": 10**12, "s": 10**18, "h": 3600 * 10**18}
    lengths |= {"D": 24 * lengths["h"], "W": 7 * 24 * lengths["h"]}
    ticks = [-(2**53) - 1, 1, 2**53 + 1, 2**62 + 1]
    dates = np.asarray(ticks, dtype=np.int64).astype(f"datetime64[{unit}]")
    exact = [Fraction(n * lengths[unit], lengths["D"]) for n in ticks]
    for days, expected in zip(days_since(dates).tolist(), exact, strict=True):
        assert abs(Fraction(days) - expected) <= abs(expected) * Fraction(1, 2**53)


def test_units_of_a_list_are_kept():
    nanosecond = pd.Timestamp(1, unit="ns")
    expected = [1 / 86_400e9, 1.0]
    np.testing.assert_array_equal(days_since([nanosecond, dt.date(1970, 1, 2)]), expected)


ORIGINS = [
    "1970-01-02",
    dt.date(1970, 1, 2),
    dt.datetime(1970, 1, 2, 9, tzinfo=ZoneInfo("Asia/Tokyo")),
    np.datetime64("1970-01-02T00:00"),
    pd.Timestamp("1970-01-02T01", tz="Europe/Zurich"),
]


@pytest.mark.parametrize("origin", ORIGINS, ids=repr)
def test_the_origin_is_in_utc(origin):
    np.testing.assert_array_equal(days_since(NAIVE, origin), np.asarray(DAYS) - 1)


def test_days_are_coordinates_and_options():
    days = days_since(ZONED[:2])
    period = days_since(dt.timedelta(days=7))
    phases = 2 * np.pi * (np.asarray(DAYS[:2]) % 7) / 7
    expected = [np.sin(phases), np.cos(phases)]
    np.testing.assert_allclose(pe.cyclic_encoding(days, period), expected, atol=1e-12)
    # A scalar is a 0-d array.
    assert pe.sinusoidal_encoding(days_since(dt.date(2024, 1, 1)), 4).shape == (4,)


@pytest.mark.library("cftime")
@pytest.mark.parametrize("calendar", ["noleap", "365_day", "all_leap", "360_day"])
def test_days_of_climate_models_are_those_of_their_calendar(calendar):
    import cftime

    dates = [cftime.datetime(1969, 12, 30, 6, calendar=calendar)]
    while len(dates) < 1500:
        dates.append(dates[-1] + dt.timedelta(days=1))
    first = days_since(dates[0])
    assert first in {-0.75, -1.75}  # a month has 30 days or 31
    np.testing.assert_array_equal(days_since(dates), first + np.arange(1500))
    np.testing.assert_array_equal(days_since([dates[9], None], dates[7]), [2.0, np.nan])
    series = xarray.DataArray(objects(dates)), pd.Series(dates), objects(dates)[:, None]
    for values in series:
        np.testing.assert_array_equal(np.ravel(days_since(values)), first + np.arange(1500))


@pytest.mark.library("cftime")
@pytest.mark.parametrize("calendar", ["standard", "gregorian", "proleptic_gregorian", "julian"])
def test_other_dates_of_cftime_are_points_in_time(calendar):
    import cftime

    dates = [cftime.datetime(year, 3, 1, 18, calendar=calendar) for year in (1500, 1900, 2024)]
    passed = cftime.date2num(dates, "days since 1970-01-01", calendar="standard")
    in_standard = [date.change_calendar("standard") for date in dates]
    expected = cftime.date2num(in_standard, "days since 1970-01-01", calendar="standard")
    assert calendar in ("julian", "proleptic_gregorian") or (passed == expected).all()
    np.testing.assert_array_equal(days_since(dates), expected)
    since = days_since(dates, np.datetime64("2024-01-01"))
    np.testing.assert_array_equal(since, expected - expected[2] + since[2])


@pytest.mark.library("cftime")
def test_calendars_are_not_mixed():
    import cftime

    noleap, days_360 = cftime.DatetimeNoLeap(2000, 1, 1), cftime.Datetime360Day(2000, 1, 1)
    message = "`x` must have one time zone or calendar, got 360_day and noleap. Convert them to one"
    with pytest.raises(ValueError, match=message):
        days_since([noleap, days_360])
    what = "`origin` must be 1970-01-01, or a date of the calendar of the dates,"
    for dates, origin, calendar in (
        ([noleap], days_360, "noleap"),
        ([noleap], "2000-01-01", "noleap"),
        (NAIVE, noleap, "standard"),
    ):
        with pytest.raises(ValueError, match=f"^{what} {calendar}, got"):
            days_since(dates, origin)
