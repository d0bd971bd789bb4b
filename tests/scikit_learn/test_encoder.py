"""PositionalEncoder: names, times, tables, and the rules of scikit-learn."""

# ruff: noqa: DTZ001, E501 - clocks on walls have no zone; one line for each message

import importlib
import os
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import partial
from math import cos, pi, sin
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import positional_embeddings.sklearn
from absent import pl
from positional_embeddings.encodings.sphere import spherical_encoding
from positional_embeddings.sklearn import PositionalEncoder
from positional_embeddings.times.dates import times_of

one_wave = partial(PositionalEncoder, harmonics=1, trend=False)
ZURICH = ZoneInfo("Europe/Zurich")
# Both changes of the clock, a leap day, and the ends of years.
UTC_TIMES = [
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 17, 30, tzinfo=UTC),
    datetime(2024, 3, 31, 0, 59, 59, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 0, tzinfo=UTC),
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2023, 12, 31, 23, 30, tzinfo=UTC),
]
LOCAL_TIMES = [time.astimezone(ZURICH) for time in UTC_TIMES]
CLOCKS = [time.replace(tzinfo=None) for time in LOCAL_TIMES]


def wave(phase, harmonic=1):
    return [sin(2 * pi * harmonic * phase), cos(2 * pi * harmonic * phase)]


LENGTHS = {"as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15}
LENGTHS |= {"s": 10**18, "m": 60 * 10**18, "h": 3600 * 10**18, "D": 24 * 3600 * 10**18}
LENGTHS |= {"W": 7 * LENGTHS["D"]}


def calendar_phases(clock):
    """Return the phases of day, week and year of a clock on the wall, in plain Python."""
    day = timedelta(days=1)
    midnight = datetime(clock.year, clock.month, clock.day)
    year, next_year = datetime(clock.year, 1, 1), datetime(clock.year + 1, 1, 1)
    since = clock - midnight
    return [
        since / day,
        (since + clock.weekday() * day) / (7 * day),
        (clock - year) / (next_year - year),
    ]


def expected_features(clocks, times):
    """Return waves of day, week, year by the clock, and of 36 hours since 1970 in UTC."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        [
            *(w for phase in calendar_phases(clock) for w in wave(phase)),
            *wave(((time - epoch) / timedelta(hours=36)) % 1),
        ]
        for clock, time in zip(clocks, times, strict=True)
    ]


PERIODS = ["day", "week", "year", timedelta(hours=36)]
NAMES = [
    f"time_{function}_{label}"
    for label in ("day", "week", "year", "36h")
    for function in ("sin", "cos")
]


def object_array(values):
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    return array


STAMPS = [pd.Timestamp(time) for time in LOCAL_TIMES]
AWARE = {
    "pandas": pd.DataFrame({"time": pd.to_datetime(UTC_TIMES).tz_convert(ZURICH)}),
    "pandas seconds": pd.DataFrame(
        {"time": pd.to_datetime(UTC_TIMES).tz_convert(ZURICH).as_unit("s")}
    ),
    "pandas nanoseconds": pd.DataFrame(
        {"time": pd.to_datetime(UTC_TIMES).tz_convert("Europe/Zurich").as_unit("ns")}
    ),
    "pandas Timestamps": pd.DataFrame({"time": pd.Series(STAMPS, dtype=object)}),
    "pandas datetimes": pd.DataFrame({"time": pd.Series(LOCAL_TIMES, dtype=object)}),
    "pandas index": pd.to_datetime(UTC_TIMES).tz_convert(ZURICH).rename("time"),
    "pandas series": pd.Series(pd.to_datetime(UTC_TIMES).tz_convert(ZURICH), name="time"),
    "polars": pl.DataFrame({"time": UTC_TIMES}).with_columns(
        pl.col("time").dt.convert_time_zone("Europe/Zurich")
    ),
    "polars series": pl.Series("time", UTC_TIMES).dt.convert_time_zone("Europe/Zurich"),
    "polars objects": pl.DataFrame({"time": pl.Series(LOCAL_TIMES, dtype=pl.Object)}),
    "objects": object_array(LOCAL_TIMES),
    "Timestamps": object_array(STAMPS),
    "lists": [[time] for time in LOCAL_TIMES],
    "list": LOCAL_TIMES,
}
NAIVE = {
    "numpy": np.asarray(CLOCKS, dtype="datetime64[us]")[:, None],
    "numpy seconds": np.asarray(CLOCKS, dtype="datetime64[s]")[:, None],
    "numpy column": np.asarray(CLOCKS, dtype="datetime64[ns]"),
    "numpy objects": object_array(list(np.asarray(CLOCKS, dtype="datetime64[s]"))),
    "pandas": pd.DataFrame({"time": CLOCKS}),
    "pandas index": pd.DatetimeIndex(CLOCKS, name="time"),
    "polars": pl.DataFrame({"time": CLOCKS}),
    "lists": [[time] for time in CLOCKS],
}


@pytest.mark.parametrize("table", AWARE.values(), ids=AWARE)
def test_times_with_a_zone_follow_its_clock(table):
    encoder = one_wave(periods=PERIODS)
    features = encoder.fit_transform(table)
    np.testing.assert_allclose(features, expected_features(CLOCKS, UTC_TIMES), atol=1e-12)
    assert encoder.get_feature_names_out(["time"]).tolist() == NAMES


@pytest.mark.parametrize("table", AWARE.values(), ids=AWARE)
def test_times_are_converted_to_a_zone_that_is_asked_for(table):
    tokyo = ZoneInfo("Asia/Tokyo")
    clocks = [time.astimezone(tokyo).replace(tzinfo=None) for time in UTC_TIMES]
    for zone in ("Asia/Tokyo", tokyo):
        features = one_wave(periods=PERIODS, time_zone=zone).fit_transform(table)
        np.testing.assert_allclose(features, expected_features(clocks, UTC_TIMES), atol=1e-12)


@pytest.mark.parametrize(
    "zone",
    [
        timezone(timedelta(hours=2)),
        timezone(-timedelta(hours=9, minutes=30), "islands"),
        UTC,
        pd.Timestamp(0, tz="dateutil/Asia/Tokyo").tz,
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "table", [AWARE[name] for name in ("pandas", "polars", "polars objects", "lists")]
)
def test_zones_that_are_no_place_of_the_database(table, zone):
    """Polars knows zones by the names of the database only."""
    clocks = [time.astimezone(zone).replace(tzinfo=None) for time in UTC_TIMES]
    features = one_wave(periods=PERIODS, time_zone=zone).fit_transform(table)
    np.testing.assert_allclose(features, expected_features(clocks, UTC_TIMES), atol=1e-12)


def test_nanoseconds_and_gaps_of_polars_in_a_zone_without_a_name():
    zone = timezone(timedelta(hours=2))
    column = pl.Series("time", [1, 86_400 * 10**9]).cast(pl.Datetime("ns", "UTC"))
    features = one_wave(periods=timedelta(microseconds=1), time_zone=zone)
    np.testing.assert_allclose(features.fit_transform(column), [wave(0.001), wave(0)], atol=1e-12)
    wall = times_of("X", column, zone).wall
    assert wall.tolist() == [7_200 * 10**9 + 1, (86_400 + 7_200) * 10**9]
    gap = pl.DataFrame({"time": [UTC_TIMES[0], None]})
    with pytest.raises(
        ValueError, match=r"^`X\['time'\]` must have no missing values, got NaN or NaT\. Fill them"
    ):
        one_wave(periods="day", time_zone=zone).fit(gap)


@pytest.mark.parametrize("table", NAIVE.values(), ids=NAIVE)
def test_times_without_a_zone_are_those_of_a_clock(table):
    features = one_wave(periods=PERIODS).fit_transform(table)
    times = [clock.replace(tzinfo=UTC) for clock in CLOCKS]
    np.testing.assert_allclose(features, expected_features(CLOCKS, times), atol=1e-12)


@pytest.mark.library("pyarrow")
def test_arrow_columns():
    dates = [[date(2024, 2, 29)], [date(2023, 7, 1)]]
    expected = [
        [w for p in calendar_phases(datetime(d.year, d.month, d.day)) for w in wave(p)]
        for (d,) in dates
    ]
    encode = one_wave(periods=["day", "week", "year"]).fit_transform
    midnights = pd.Series([datetime(d.year, d.month, d.day) for (d,) in dates])
    tables = (
        dates,
        pl.DataFrame(dates, orient="row"),
        pd.DataFrame({"time": midnights.astype("timestamp[us][pyarrow]")}),
        pd.DataFrame({"time": midnights.astype("timestamp[us][pyarrow]").dt.tz_localize(ZURICH)}),
        pd.DataFrame({"time": midnights.astype("date32[pyarrow]")}),
    )
    for table in tables:
        np.testing.assert_allclose(encode(table), expected, atol=1e-12)


def test_harmonics_and_names():
    x = np.asarray([[0.5], [2.0], [-7.25]])
    expected = [[*wave(v / 3), *wave(v / 3, 2), *wave(v / 0.5)] for v in x[:, 0]]
    for harmonics in ([2, 1], np.asarray([2, 1])):
        encoder = PositionalEncoder("cyclic", periods=[3, 0.5], harmonics=harmonics)
        np.testing.assert_allclose(encoder.fit_transform(x), expected, atol=1e-12)
    names = ["x0_sin_3_1", "x0_cos_3_1", "x0_sin_3_2", "x0_cos_3_2", "x0_sin_0.5", "x0_cos_0.5"]
    assert encoder.get_feature_names_out().tolist() == names
    table = pd.DataFrame({"time": CLOCKS})
    encoder = PositionalEncoder(periods=["day", np.timedelta64(90, "m")], harmonics=2, trend=False)
    encoder.fit(table)
    assert encoder.get_feature_names_out().tolist() == [
        f"time_{function}_{label}_{n}"
        for label in ("day", "90min")
        for n in (1, 2)
        for function in ("sin", "cos")
    ]
    np.testing.assert_allclose(
        encoder.transform(table)[:, 2:4],
        [wave(calendar_phases(c)[0], 2) for c in CLOCKS],
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("periods", "labels"),
    [
        ([timedelta(days=1), timedelta(hours=12)], ["24h", "12h"]),
        ([timedelta(seconds=90), timedelta(microseconds=1500)], ["90s", "1500us"]),
        ([pd.Timedelta(7, "ns"), np.timedelta64(3, "as")], ["7ns", "3as"]),
        ([timedelta(days=365.2425), timedelta(days=29.530588)], ["365.243d", "29.5306d"]),
        (
            [timedelta(days=365.2425), timedelta(days=365.2425, microseconds=1)],
            ["31556952s", "31556952000001us"],
        ),
    ],
)
def test_names_of_spans_of_time(periods, labels):
    encoder = one_wave(periods=periods).fit(NAIVE["pandas"])
    got = encoder.get_feature_names_out().tolist()
    assert got == [f"time_{function}_{label}" for label in labels for function in ("sin", "cos")]


NAMED_CYCLES = {
    "hour": (np.arange(24), 24),
    "date_hour": (np.arange(1, 25), 24),
    "hr": (np.arange(8, 19), 24),
    "minute": (np.arange(0, 60, 15), 60),
    "Second": (np.arange(60), 60),
    "weekday": (np.arange(7), 7),
    "dayOfWeek": (np.arange(1, 8), 7),
    "day_of_week": (np.arange(5), 7),
    "month": (np.arange(1, 13), 12),
    "mnth": (np.arange(12), 12),
    "week": (np.arange(1, 53), 52),
    "isoweek": (np.arange(1, 54), 53),
    "day of year": (np.arange(1, 366), 365),
    "dayofyear": (np.arange(1, 367), 366),
    "wind_dir": (np.arange(0.0, 360, 45), 360),
    "azimuth_deg": (np.arange(-180, 180, 20), 360),
}


@pytest.mark.parametrize("name", NAMED_CYCLES)
def test_named_cycles(name):
    values, cycle = NAMED_CYCLES[name]
    table = pd.DataFrame({name: values})
    encoder = PositionalEncoder().fit(table)
    assert encoder.get_feature_names_out()[0] == f"{name}_sin_{cycle}_1"
    one, next_cycle = encoder.transform(table), encoder.transform(table + cycle)
    np.testing.assert_allclose(one, next_cycle, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("hours", np.arange(24)),  # a duration
        ("hour", np.arange(25)),
        ("hour", np.arange(24) + 0.5),
        ("month", np.arange(1, 40)),
        ("month", np.arange(-3, 5)),
        ("week", np.arange(1, 9)),
        ("heading", np.arange(0, 36)),
        ("wind_dir", np.linspace(0, 360, 9)),  # 0 is calm
        ("calls_last_week", np.arange(30)),
    ],
)
def test_values_or_names_that_are_no_cycle(name, values):
    encoder = PositionalEncoder().fit(pd.DataFrame({name: values}))
    assert len(encoder.get_feature_names_out()) == 8


def test_booleans_and_categories():
    is_open = np.arange(12) % 5 == 0
    months = pd.Categorical(np.arange(1, 13))
    table = pd.DataFrame({"open": is_open, "month": months})
    encoder = PositionalEncoder(harmonics=1).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["open", "month_sin_12", "month_cos_12"]
    np.testing.assert_array_equal(encoder.transform(table)[:, 0], is_open)
    features = PositionalEncoder().fit_transform(is_open[:, None])
    np.testing.assert_array_equal(features[:, 0], is_open)
    features = PositionalEncoder().fit_transform(pl.DataFrame({"open": is_open}))
    np.testing.assert_array_equal(features[:, 0], is_open)
    with pytest.raises(TypeError, match=r"'shop', got categories.*OneHotEncoder"):
        PositionalEncoder().fit(pd.DataFrame({"shop": months}))


def test_all_latitudes_are_checked():
    with pytest.raises(ValueError, match=r"`latitude` must be from -90 to 90 degrees, got 100.0"):
        PositionalEncoder("spherical").fit([[1.0, 2.0], [100.0, 3.0]])


def test_octaves_beyond_the_range():
    x = np.linspace(0, 10, 50)[:, None]
    encoder = PositionalEncoder().fit(x)
    with pytest.warns(UserWarning, match="Column 'x0' has values farther outside of its range"):
        encoder.transform([[20.0]])
    with pytest.warns(UserWarning, match="Column 'x0' has values farther outside of its range"):
        encoder.transform(np.linspace(0, 13, 60)[:, None])
    with np.testing.assert_no_warnings():
        encoder.transform([[-0.9], [10.9]])
        encoder.transform(np.linspace(0, 11.1, 60)[:, None])  # one row, as in random splits
        few = PositionalEncoder().fit(x[::5])
        few.transform([[13.0]])
        PositionalEncoder(wavelengths=20).fit(x).transform([[20.0]])
        sizes = np.exp(np.linspace(0, 9, 50))[:, None]
        PositionalEncoder().fit(sizes).transform(np.repeat([[1.0], [20000.0]], [20, 1], axis=0))
    for beyond in ([[20.0]], np.linspace(-3, 13, 100)[:, None]):  # a value, and a map
        with pytest.warns(UserWarning, match="values farther outside of its range"):
            few.transform(beyond)
    with np.testing.assert_no_warnings():
        missing = PositionalEncoder(missing="pass").fit([[np.nan], [np.nan]])
        missing.transform([[np.nan]])
    years = pd.DataFrame({"t": pd.date_range("1990", periods=20, freq="YS")})
    with pytest.warns(UserWarning, match="Column 't' has values farther"):
        PositionalEncoder().fit(years[:12]).transform(years)


def test_harmonics_that_numbers_do_not_resolve():
    months = np.arange(60.0)[:, None]
    with pytest.warns(UserWarning, match=r"values of column 'x0' resolve 6 of 10 harmonics"):
        PositionalEncoder(periods=12, harmonics=10).fit(months)
    PositionalEncoder(periods=12, harmonics=6).fit(months)
    days = pd.DataFrame({"weekday": np.arange(60) % 7})
    assert PositionalEncoder(harmonics=4).fit_transform(days).shape == (60, 6)


def test_harmonics_that_dates_do_not_resolve():
    months = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=60, freq="MS")})
    message = r"values of column 't' resolve 6 of 10 harmonics of the period 'year'.*harmonics=6\."
    with pytest.warns(UserWarning, match=message):
        PositionalEncoder(periods="year", harmonics=10).fit(months)
    with np.testing.assert_no_warnings():
        PositionalEncoder(periods="year", harmonics=6).fit(months)
        PositionalEncoder(periods="year").fit(months[:6])


def test_a_day_of_the_clock_is_not_24_hours():
    """In a zone a day of 24 hours begins in UTC."""
    names = one_wave(periods=["day", "24h"]).fit(AWARE["pandas"]).get_feature_names_out()
    assert names[::2].tolist() == ["time_sin_day", "time_sin_24h"]


def test_a_week_of_the_calendar_is_not_seven_days():
    periods = ["week", timedelta(days=7)]
    encoder = one_wave(periods=periods).fit(AWARE["pandas"])
    assert encoder.get_feature_names_out().tolist()[::2] == ["time_sin_week", "time_sin_7d"]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [
        [*wave(calendar_phases(clock)[1]), *wave((time - epoch) / timedelta(days=7) % 1)]
        for clock, time in zip(CLOCKS, UTC_TIMES, strict=True)
    ]
    np.testing.assert_allclose(encoder.transform(AWARE["pandas"]), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [tuple, np.asarray, pd.TimedeltaIndex])
def test_lists_of_spans(kind):
    spans = [np.timedelta64(90, "m"), np.timedelta64(36, "h")]
    table = NAIVE["pandas"]
    for options, name in (({"harmonics": 1, "trend": False}, "periods"), ({}, "wavelengths")):
        listed = PositionalEncoder(**options, **{name: spans}).fit(table)
        got = PositionalEncoder(**options, **{name: kind(spans)}).fit(table)
        np.testing.assert_array_equal(got.transform(table), listed.transform(table))
        names = got.get_feature_names_out().tolist()
        assert names[::2] == ["time_sin_90min", "time_sin_36h"]


def test_numbers_that_print_alike_are_named_in_full():
    encoder = one_wave(periods=[1_000_000, np.float64(1_000_000.25)]).fit([[1.0]])
    assert encoder.get_feature_names_out().tolist()[::2] == [
        "x0_sin_1000000",
        "x0_sin_1000000.25",
    ]


def test_wavelengths_are_octaves_of_twice_the_range():
    x = pd.DataFrame({"depth": [1.0, 3.0, 5.0], "same": [7.0, 7.0, 7.0]})
    encoder = PositionalEncoder("fourier").fit(x)
    assert encoder.encoding_ == "fourier"
    sinusoids = [
        (v, w)
        for v, top in (("depth", 8.0), ("same", 1.0))
        for w in (top, top / 2, top / 4, top / 8)
    ]
    names = [f"{v}_{function}_{w:g}" for v, w in sinusoids for function in ("sin", "cos")]
    assert encoder.get_feature_names_out().tolist() == names
    expected = [[f for v, w in sinusoids for f in wave(row[v] / w)] for _, row in x.iterrows()]
    np.testing.assert_allclose(encoder.transform(x), expected, atol=1e-12)


def test_wavelengths_of_times():
    table = pd.DataFrame(
        {"time": pd.to_datetime(["2024-01-01T00", "2024-01-05T00", "2024-01-03T12"])}
    )
    encoder = PositionalEncoder("fourier").fit(table)
    assert encoder.get_feature_names_out().tolist()[::2] == [
        f"time_sin_{d}" for d in ("8d", "4d", "2d", "24h")
    ]
    epoch = datetime(1970, 1, 1)
    encoder = PositionalEncoder("fourier", wavelengths=[timedelta(days=d) for d in (8, 4, 2, 1)])
    expected = [
        [f for days in (8, 4, 2, 1) for f in wave((t - epoch) / timedelta(days=days))]
        for t in table["time"]
    ]
    for fitted in (encoder, encoder.fit(table)):
        np.testing.assert_allclose(fitted.transform(table), expected, atol=1e-9)
    same = PositionalEncoder("fourier").fit(table[:1])
    assert same.get_feature_names_out().tolist()[::2] == [
        f"time_sin_{h}" for h in ("24h", "12h", "6h", "3h")
    ]
    far = np.asarray([["0001-01-01"], ["9999-01-01"]], dtype="datetime64[D]")
    days = int((far[1, 0] - far[0, 0]).astype(int))
    assert (
        PositionalEncoder("fourier").fit(far).get_feature_names_out()[0] == f"x0_sin_{2 * days:g}d"
    )


def prefixes(encoder):
    """Return the columns, functions and periods of features, without harmonics."""
    names = [name.split("_") for name in encoder.get_feature_names_out()]
    return list(dict.fromkeys("_".join(parts[:1] + parts[2:3]) for parts in names))


PARTS = {
    "hours of four days": ("h", 97, ["t_day", "t"]),
    "hours of a year": ("h", 8750, ["t_day", "t_week", "t_year"]),
    "days of a year": ("D", 350, ["t_week", "t_year"]),
    "days of two years": ("D", 732, ["t_week", "t_year", "t"]),
    "weeks of ten years": ("W", 520, ["t_year", "t"]),
    "months": ("MS", 60, ["t_year", "t"]),
    "years": ("YS", 20, []),
    "ten minutes": ("min", 10, []),
    "one": ("D", 1, []),
}


@pytest.mark.parametrize(("freq", "count", "parts"), PARTS.values(), ids=PARTS)
def test_times_are_encoded_by_the_parts_that_they_cover(freq, count, parts):
    table = pd.DataFrame({"t": pd.date_range("2021-01-01", periods=count, freq=freq)})
    encoder = PositionalEncoder().fit(table.sample(frac=1, random_state=0))
    features = encoder.set_output(transform="pandas").transform(table)
    if parts:
        assert prefixes(encoder) == parts
        periods = [part[2:] for part in parts if part != "t"]
        expected = PositionalEncoder("cyclic", periods=periods, harmonics=3)
    else:
        expected = PositionalEncoder("fourier")
    if parts[-1:] in (["t"], []):
        days = (table.t - table.t.min()) / pd.Timedelta("1D")
        trend = 2 * days / (days.max() or 1) - (count > 1)
        np.testing.assert_allclose(features.pop("t_trend"), trend, atol=1e-12)
    np.testing.assert_array_equal(features, expected.fit_transform(table))


def days_as_dates(days):
    return pd.DataFrame({"t": pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D")})


@pytest.mark.parametrize(("count", "years"), [(600, 3), (1500, 2)])
def test_random_times_tell_the_day(count, years):
    """Two times a day are enough, and fewer, where they are at all hours."""
    rng = np.random.default_rng(0)
    days = np.sort(rng.uniform(0, years * 365.2425, count))
    y = np.cos(2 * pi * days) + np.cos(2 * pi * days / 365.2425) + 0.1 * rng.normal(size=count)
    table, half = days_as_dates(days), days > days.mean()
    assert prefixes(PositionalEncoder().fit(table)) == ["t_day", "t_week", "t_year", "t"]
    model = make_pipeline(PositionalEncoder(), Ridge()).fit(table[~half], y[~half])
    assert model.score(table[half], y[half]) > 0.9


@pytest.mark.parametrize("freq", ["D", "B", "2D", "W", "16D", "MS", "QS", "36h"])
def test_times_at_equal_steps_tell_no_shorter_part(freq):
    """Also where some are missing."""
    times = pd.date_range("2005-03-01", periods=400, freq=freq).to_series()
    for seed, part in enumerate((1.0, 0.9, 0.8, 0.7)):
        encoder = PositionalEncoder().fit(times.sample(frac=part, random_state=seed).to_frame("t"))
        step = np.median(np.diff(times)) / pd.Timedelta("1D")
        lengths = {"t_day": 1, "t_week": 7, "t_year": 365}
        assert all(lengths.get(name, step) >= step for name in prefixes(encoder)), part
        assert "t_year" in prefixes(encoder)


DAYS = np.arange(0, 800, 1 / 24)
HARMONICS = {
    # The number of harmonics is half of the number of sampled twelfths of the period.
    "twice a day": (np.arange(0, 800, 0.5), [1, 3, 3]),
    "four hours of a day": (DAYS[DAYS % 1 < 0.13], [1, 3, 3]),
    "mornings": (DAYS[(DAYS % 1 > 0.24) & (DAYS % 1 < 0.58)], [2, 3, 3]),
    "a weekday": (DAYS[DAYS % 7 < 1], [3, 1, 3]),
    # With less than 1.9 of a period, by the longest gap of phases.
    "0.5 of a year": (np.arange(0, 180.0), [0, 3, 0]),
    "0.8 of a year": (np.arange(0, 292.0), [0, 3, 1]),
    "0.95 of a year": (np.arange(0, 347.0), [0, 3, 3]),
    "two summers": (np.concatenate([np.arange(0, 90.0), np.arange(365, 455.0)]), [0, 3, 0]),
}


@pytest.mark.parametrize(("days", "counts"), HARMONICS.values(), ids=HARMONICS)
def test_harmonics_are_those_that_the_phases_tell(days, counts):
    names = [
        name.split("_")
        for name in PositionalEncoder().fit(days_as_dates(days)).get_feature_names_out()
    ]
    assert [
        sum(name[1:3] == ["sin", part] for name in names) for part in ("day", "week", "year")
    ] == counts
    two = PositionalEncoder(harmonics=[1, 2, 3]).fit(days_as_dates(DAYS)).get_feature_names_out()
    assert [sum(f"sin_{part}" in name for name in two) for part in ("day", "week", "year")] == [
        1,
        2,
        3,
    ]


def test_each_column_by_what_it_holds():
    day = np.arange(400.0)
    coordinates = {"longitude": 170 + day / 20, "latitude": day / 10}
    table = pd.DataFrame(
        {"t": pd.date_range("2021", periods=400), "depth": day.astype(np.float32), **coordinates}
    )
    encoder = PositionalEncoder().fit(table)
    sphere = spherical_encoding(coordinates["latitude"], coordinates["longitude"], 6).T
    dates = PositionalEncoder("cyclic", periods=["week", "year"]).fit_transform(table[["t"]])
    depth = PositionalEncoder("fourier").fit_transform(table[["depth"]])
    np.testing.assert_array_equal(encoder.transform(table), np.hstack([sphere, dates, depth]))
    assert encoder.get_feature_names_out()[0] == "place_l0_m0"
    other = PositionalEncoder(periods="day", harmonics=2, degree=2, trend=True)
    names = other.fit(table.drop(columns="depth")).get_feature_names_out()
    assert len(names) == 9 + 4 + 1
    assert names[-1] == "t_trend"
    for periods, has_trend in [("month", True), ("200D", True), ("year", False), ("300D", False)]:
        dates = PositionalEncoder(periods=periods).fit(table[["t"]])
        assert (dates.get_feature_names_out()[-1] == "t_trend") == has_trend
    for periods, has_trend in [(200, True), (300, False), ([7, 300], False)]:
        numbers = PositionalEncoder(periods=periods).fit(table[["depth"]])
        assert (numbers.get_feature_names_out()[-1] == "depth_trend") == has_trend
    days = PositionalEncoder(periods=7).fit(pd.DataFrame({"day_of_year": np.arange(1.0, 366)}))
    assert "day_of_year_trend" not in days.get_feature_names_out()  # it jumps at New Year
    missing = PositionalEncoder(missing="pass").fit(table[["t"]] + pd.NaT)
    assert missing.get_feature_names_out()[-1] == "t_trend"
    numbers = PositionalEncoder(periods=30).fit_transform(table[["depth"]] + 5)
    assert numbers.dtype == np.float32
    np.testing.assert_allclose(numbers[:, -1], np.linspace(-1, 1, 400), atol=1e-6)


@pytest.mark.parametrize(("unit", "turn"), [("degrees", 360), ("radians", 2 * pi)])
def test_both_sides_of_the_date_line_are_near(unit, turn):
    sides = pd.DataFrame({"lat": [0.3, 0.3], "lon": [turn / 2 - 1e-3, 1e-3 - turn / 2]})
    for columns in (["lat", "lon"], ["lon"]):
        features = PositionalEncoder(unit=unit).fit_transform(sides[columns])
        assert np.abs(np.diff(features, axis=0)).max() < 0.02
    lat = sides[["lat"]]
    np.testing.assert_array_equal(
        PositionalEncoder().fit_transform(lat), PositionalEncoder("fourier").fit_transform(lat)
    )


def test_spherical_features_of_two_columns():
    x = np.random.default_rng(0).uniform(-80, 80, (5, 2))
    for unit, coordinates in (("degrees", x), ("radians", np.deg2rad(x))):
        got = PositionalEncoder("spherical", degree=2, unit=unit).fit(coordinates)
        expected = spherical_encoding(*coordinates.T, 2, unit=unit).T
        np.testing.assert_array_equal(got.transform(coordinates), expected)
    assert got.get_feature_names_out().tolist()[:5] == [
        "place_l0_m0",
        "place_l1_m-1",
        "place_l1_m0",
        "place_l1_m1",
        "place_l2_m-2",
    ]
    named = pd.DataFrame(x, columns=["lat", "lon"])
    by_default = PositionalEncoder("spherical").fit_transform(named)
    np.testing.assert_array_equal(by_default, PositionalEncoder().fit_transform(named))


def test_numbers_and_times_side_by_side():
    table = {"time": CLOCKS, "depth": np.arange(7, dtype=np.float32), "count": np.arange(7)}
    mixed = object_array(CLOCKS)
    mixed = np.concat([mixed, *2 * [np.arange(7.0)[:, None].astype(object)]], axis=1)
    results = [
        PositionalEncoder("fourier").fit_transform(x)
        for x in (pd.DataFrame(table), pl.DataFrame(table), mixed)
    ]
    assert results[0].shape == (7, 24)
    rows = [[float(i), clock] for i, clock in enumerate(CLOCKS)]
    np.testing.assert_array_equal(
        PositionalEncoder("fourier").fit_transform(rows), np.roll(results[2][:, :16], 8, axis=1)
    )
    assert results[0].dtype == np.float64
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-5)  # the table of pandas has float32


def test_output_is_float32_where_numbers_are():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert PositionalEncoder().fit_transform(x).dtype == np.float32
    assert PositionalEncoder().fit_transform(x.astype(int)).dtype == np.float64


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (NAIVE["pandas"], "pandas"),
        (NAIVE["polars"], "polars"),
        (AWARE["pandas index"], "pandas"),
    ],
)
def test_tables_out(table, kind):
    out = one_wave(periods=PERIODS).set_output(transform=kind).fit_transform(table)
    assert type(out).__module__.startswith(kind)
    assert list(out.columns) == NAMES


def test_tables_out_keep_their_index():
    stations = pd.DataFrame({"time": CLOCKS}, index=list("abcdefg"))
    out = one_wave(periods="day").set_output(transform="pandas").fit_transform(stations)
    assert out.index.equals(stations.index)


def readings(n=400):
    """Return hourly temperatures with a cycle of days and of years, and a slope in depth."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2023-01-01", periods=n, freq="7h", tz="Europe/Zurich", name="time")
    clock = time.tz_localize(None)
    hours = np.asarray(clock.hour + clock.minute / 60)
    frame = pd.DataFrame({"time": time, "depth": rng.uniform(0, 10, n)})
    y = (
        3 * np.sin(2 * pi * hours / 24)
        + np.cos(2 * pi * clock.day_of_year / 365)
        + 0.5 * frame["depth"]
    )
    return frame, np.asarray(y)


def test_in_a_pipeline_with_a_search():
    frame, y = readings()
    features = ColumnTransformer(
        [
            ("time", one_wave(periods=["day", "year"]), ["time"]),
            ("depth", "passthrough", ["depth"]),
        ]
    )
    search = GridSearchCV(
        make_pipeline(features, Ridge(1e-3)),
        {
            "columntransformer__time__periods": ["week", ["day", "year"]],
            "columntransformer__time__harmonics": [1, 2],
        },
        cv=3,
    ).fit(frame, y)
    assert search.best_score_ > 0.99
    assert search.best_params_["columntransformer__time__periods"] == ["day", "year"]
    names = search.best_estimator_[0].get_feature_names_out().tolist()
    assert names[0].startswith("time__time_sin_day")
    assert names[-1] == "depth__depth"
    by_kind = ColumnTransformer(
        [
            (
                "times",
                one_wave(periods="day"),
                make_column_selector(dtype_include="datetimetz"),
            )
        ],
        remainder=PositionalEncoder(),
    )
    depth = frame["depth"]
    max_wavelength = 2 * (depth.max() - depth.min())
    expected = [
        [
            *wave((clock - clock.normalize()) / pd.Timedelta(days=1)),
            *(w for octave in (1, 2, 4, 8) for w in wave(value * octave / max_wavelength)),
        ]
        for clock, value in zip(frame["time"].dt.tz_localize(None), depth, strict=True)
    ]
    np.testing.assert_allclose(by_kind.fit_transform(frame), expected, atol=1e-12)


def test_an_index_is_a_column_without_glue():
    frame, y = readings()
    daily = cross_val_score(
        make_pipeline(PositionalEncoder(periods="day", harmonics=2), LinearRegression()),
        pd.DatetimeIndex(frame["time"]),
        y - 0.5 * frame["depth"],
        cv=3,
    )
    assert daily.min() > 0.7


def test_weights_are_routed_past_it():
    frame, y = readings(50)
    weights = np.linspace(0, 1, 50)
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(
            one_wave(periods="day"), Ridge().set_fit_request(sample_weight=True)
        ).fit(frame[["time"]], y, sample_weight=weights)
    x = one_wave(periods="day").fit_transform(frame[["time"]])
    np.testing.assert_allclose(model[-1].coef_, Ridge().fit(x, y, weights).coef_)


def test_clones_and_pickles():
    encoder = PositionalEncoder("fourier", wavelengths=timedelta(days=3))
    table = AWARE["pandas"]
    fitted = clone(encoder).fit(table)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(table), fitted.transform(table))
    np.testing.assert_array_equal(fitted.transform(table[2:3]), fitted.transform(table)[2:3])
    assert again.feature_names_in_.tolist() == ["time"]
    assert again.n_features_in_ == 1
    with pytest.raises(NotFittedError):
        encoder.transform(table)
    with pytest.raises(NotFittedError):
        encoder.get_feature_names_out()


GAPS = {
    "numpy": np.asarray([["2024-01-01"], ["NaT"]], dtype="datetime64[D]"),
    "pandas": pd.DataFrame({"x0": pd.to_datetime(["2024-01-01", None])}),
    "polars": pl.DataFrame({"x0": [datetime(2024, 1, 1), None]}),
    "objects": object_array([None, pd.NaT, CLOCKS[0]]),
}


@pytest.mark.parametrize("table", GAPS.values(), ids=GAPS)
def test_missing_times_are_refused(table):
    """As scikit-learn's own transformers to features do: fill or drop them first."""
    with pytest.raises(
        ValueError, match=r"^`X\['x0'\]` must have no missing values, got NaN or NaT\. Fill them"
    ):
        one_wave(periods="day").fit(table)
    assert not PositionalEncoder().__sklearn_tags__().input_tags.allow_nan
    for numbers in ([[1.0], [np.nan]], pd.DataFrame({"a": [1.0, np.nan], "b": CLOCKS[:2]})):
        with pytest.raises(ValueError, match="no missing values"):
            PositionalEncoder().fit(numbers)
    with pytest.raises(ValueError, match="dim 3"):
        PositionalEncoder().fit(NAIVE["numpy"][None])


TIMES, MIXED = NAIVE["pandas"], pd.DataFrame({"time": CLOCKS, "depth": np.arange(7.0)})
NUMBERS = np.arange(6.0).reshape(3, 2)
TWO_PLACES = pd.DataFrame(np.zeros((2, 3)), columns=["lat", "lon", "to_lon"])
MONTHS = pd.DataFrame({"m": pd.period_range("2024-01", periods=2, freq="M")})
OTHER_ZONE = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1)))
WRONG = [
    (
        PositionalEncoder(),
        TWO_PLACES,
        ValueError,
        '`X` must have 2 features, latitude and longitude, got lat, lon, to_lon. Give each place an encoder of its own:\nplace = PositionalEncoder("spherical")\nmake_column_transformer((place, ["lat", "lon"]), (place, ["to_lat", "to_lon"]), ...)',
    ),
    (
        PositionalEncoder(),
        MONTHS,
        TypeError,
        "`X['m']` must hold numbers or dates, got periods, Period('2024-01', 'M'). Convert periods to their start, as with .dt.to_timestamp() of pandas.",
    ),
    (
        PositionalEncoder(),
        pd.DataFrame({"x": [1.0, "deep"]}),
        TypeError,
        "`X['x']` must hold numbers or dates, got text, 'deep'. Encode categories separately, as by OneHotEncoder of scikit-learn.",
    ),
    (
        PositionalEncoder(),
        pd.DataFrame({"x": ["zone 1", "zone 2"]}, dtype="category"),
        TypeError,
        "`X['x']` must hold numbers or dates, got text, 'zone 1'. Encode categories separately, as by OneHotEncoder of scikit-learn.",
    ),
    (
        PositionalEncoder(),
        pd.DataFrame({"t": ["2024-01-01T08:00+01:00", "2024-07-01T08:00+02:00"]}),
        TypeError,
        "`X['t']` must hold numbers or dates, got text, '2024-01-01T08:00+01:00'. Convert dates, as with pd.to_datetime(..., utc=True).dt.tz_convert(zone).",
    ),
    (
        PositionalEncoder(),
        np.array([[0.0], [1e300]]),
        ValueError,
        "`X` must range over 2**-62 to 2**99 in column 'x0' if `wavelengths` is None, got 1e+300. Count it in another unit.",
    ),
    (
        PositionalEncoder(),
        pl.LazyFrame({"x": [1.0]}),
        TypeError,
        "`X` must be a table in memory, got polars.lazyframe.frame.LazyFrame. Pass X.collect().",
    ),
    (
        PositionalEncoder(trend=1),
        NUMBERS,
        TypeError,
        '`trend` must be True, False or "auto", got 1.',
    ),
    (
        PositionalEncoder("cyclic", periods=3, trend=True),
        NUMBERS,
        ValueError,
        "`trend` must be left out with encoding 'cyclic', which does not use it, got True.",
    ),
    (
        PositionalEncoder("waves"),
        NUMBERS,
        ValueError,
        "`encoding` must be 'auto' or 'cyclic' or 'fourier' or 'spherical', got 'waves'.",
    ),
    (
        PositionalEncoder("cyclic"),
        NUMBERS,
        ValueError,
        "`periods` must be given with encoding 'cyclic', got None. Pass periods=\"year\" for dates, or a number such as periods=24.",
    ),
    (
        PositionalEncoder("fourier", degree=4),
        NUMBERS,
        ValueError,
        "`degree` must be left out with encoding 'fourier', which does not use it, got 4.",
    ),
    (
        PositionalEncoder("fourier", harmonics=2),
        NUMBERS,
        ValueError,
        "`harmonics` must be left out with encoding 'fourier', which does not use it, got 2.",
    ),
    (
        PositionalEncoder("cyclic", periods=3, unit="radians"),
        NUMBERS,
        ValueError,
        "`unit` must be left out with encoding 'cyclic', which does not use it, got 'radians'.",
    ),
    (
        PositionalEncoder("fourier", periods=3),
        NUMBERS,
        ValueError,
        "`periods` must be left out with encoding 'fourier', which does not use it, got 3.",
    ),
    (
        PositionalEncoder(periods=[]),
        NUMBERS,
        ValueError,
        "`periods` must have one value or more, got [].",
    ),
    (
        PositionalEncoder(periods=[3, 3.0]),
        NUMBERS,
        ValueError,
        "`periods` must differ from each other, got 3, 3.",
    ),
    (
        PositionalEncoder(periods=["week", "week"]),
        TIMES,
        ValueError,
        "`periods` must differ from each other, got week, week.",
    ),
    (
        PositionalEncoder(periods=2.0**101),
        NUMBERS,
        ValueError,
        "`periods` must be between 2**-64 and 2**100, got 2.535301200456459e+30.",
    ),
    (
        PositionalEncoder(periods=np.timedelta64(1, "D")),
        NUMBERS,
        TypeError,
        "`periods` must be a positive finite number, got np.timedelta64(1,'D') of type timedelta64. Pass days_since(periods).",
    ),
    (
        PositionalEncoder("fourier", wavelengths=[2.0**-65]),
        NUMBERS,
        ValueError,
        "`wavelengths` must be between 2**-64 and 2**100, got 2.710505431213761e-20.",
    ),
    (
        PositionalEncoder(periods=[3, 4], harmonics=[2]),
        NUMBERS,
        ValueError,
        "`harmonics` must be a number, or a list of 2, one for each period, got 1 number.",
    ),
    (
        PositionalEncoder(periods=[3, 4], harmonics=[1, 2, 3]),
        NUMBERS,
        ValueError,
        "`harmonics` must be a number, or a list of 2, one for each period, got 3 numbers.",
    ),
    (
        PositionalEncoder(periods=3, harmonics=0),
        NUMBERS,
        ValueError,
        "`harmonics` must be a positive integer, got 0.",
    ),
    (
        PositionalEncoder(periods=0),
        NUMBERS,
        ValueError,
        "`periods` must be a positive finite number, got 0.",
    ),
    (
        PositionalEncoder(periods="day"),
        MIXED,
        TypeError,
        "`periods` must be a positive finite number for the numbers of column 'depth', got 'day'. Convert dates, as with pandas.to_datetime; numbers need an encoder of their own.",
    ),
    (
        PositionalEncoder(periods=24),
        MIXED,
        TypeError,
        "`periods` must be 'day', 'week', 'month', 'quarter', 'year', spans such as '36h' or timedeltas for the times of column 'time', got 24. Name the unit, such as '24h' or '24D'.",
    ),
    (
        PositionalEncoder(periods="fortnight"),
        TIMES,
        ValueError,
        "`periods` must be 'day', 'week', 'month', 'quarter', 'year', spans such as '36h' or timedeltas for the times of column 'time', got 'fortnight'.",
    ),
    (
        PositionalEncoder(periods=timedelta(0)),
        TIMES,
        ValueError,
        "`periods` must be above zero, got datetime.timedelta(0).",
    ),
    (
        PositionalEncoder("fourier", wavelengths="day"),
        TIMES,
        ValueError,
        "`wavelengths` must be spans such as '36h' or timedeltas for the times of column 'time', got 'day'.",
    ),
    (
        PositionalEncoder("fourier", wavelengths=[2, 2]),
        NUMBERS,
        ValueError,
        "`wavelengths` must differ from each other, got 2, 2.",
    ),
    (
        PositionalEncoder("spherical"),
        MIXED,
        TypeError,
        "`X` must hold numbers with encoding 'spherical', got times in column 'time'.",
    ),
    (
        PositionalEncoder("spherical", degree=2),
        NUMBERS[:, :1],
        ValueError,
        '`X` must have 2 features, latitude and longitude, got x0. Give each place an encoder of its own:\nplace = PositionalEncoder("spherical")\nmake_column_transformer((place, ["lat", "lon"]), (place, ["to_lat", "to_lon"]), ...)',
    ),
    (
        PositionalEncoder(periods="day", time_zone="Asia/Tokyo"),
        TIMES,
        ValueError,
        "`X['time']` must have times with a zone where `time_zone` is given, got times without a zone. Set their zone, as by pandas.Series.dt.tz_localize.",
    ),
    (
        PositionalEncoder(time_zone="UTC"),
        NUMBERS,
        ValueError,
        "`time_zone` must be None for columns of numbers, got 'UTC'.",
    ),
    (
        PositionalEncoder(time_zone="Atlantis"),
        TIMES,
        ValueError,
        "`time_zone` must be the name of a time zone, such as \"Europe/Zurich\", a tzinfo or None, got 'Atlantis'.",
    ),
    (
        PositionalEncoder(time_zone=2),
        TIMES,
        TypeError,
        '`time_zone` must be the name of a time zone, such as "Europe/Zurich", a tzinfo or None, got 2.',
    ),
    (
        PositionalEncoder(),
        object_array([UTC_TIMES[0], OTHER_ZONE]),
        ValueError,
        "`X['x0']` must have one time zone or calendar, got UTC and UTC+01:00. Convert them to one, as with pd.to_datetime(..., utc=True).dt.tz_convert(zone).",
    ),
    (
        PositionalEncoder(),
        pd.DataFrame({"time": pd.Series([UTC_TIMES[0], CLOCKS[0]], dtype=object)}),
        ValueError,
        "`X['time']` must have one time zone or calendar, got None and UTC. Convert them to one, as with pd.to_datetime(..., utc=True).dt.tz_convert(zone).",
    ),
    (
        PositionalEncoder(),
        object_array([CLOCKS[0], 3.0]),
        TypeError,
        "`X['x0']` must hold dates alone, or spans of time alone, got 3.0.",
    ),
    (
        PositionalEncoder(),
        [[3.0], [CLOCKS[0]]],
        TypeError,
        "`X['x0']` must hold dates alone, or spans of time alone, got 3.0.",
    ),
    (
        PositionalEncoder(),
        [[None], [CLOCKS[0]]],
        ValueError,
        "`X['x0']` must have no missing values, got NaN or NaT. Fill them, as by GapFiller, or pass missing=\"pass\" for features of NaN.",
    ),
    (
        PositionalEncoder(),
        TIMES[:0],
        ValueError,
        "`X` must have one sample or more, got shape (0, 1).",
    ),
]


@pytest.mark.parametrize(
    ("encoder", "x", "kind", "message"), WRONG, ids=[case[-1] for case in WRONG]
)
def test_messages(encoder, x, kind, message):
    with pytest.raises(kind) as caught:
        encoder.fit(x)
    assert str(caught.value) == message


def test_columns_keep_their_kind():
    with pytest.raises(
        TypeError,
        match=r"^`X` must hold times without a zone in column 'x0', as in fit, got numbers\.$",
    ):
        PositionalEncoder().fit(NAIVE["numpy"]).transform(NUMBERS[:, :1])
    with pytest.raises(
        TypeError,
        match=r"^`X` must hold numbers in column 'x0', as in fit, got times without a zone\.$",
    ):
        PositionalEncoder().fit(NUMBERS[:, :1]).transform(NAIVE["numpy"])
    with pytest.raises(ValueError, match="feature names"):
        PositionalEncoder().fit(TIMES).transform(TIMES.rename(columns={"time": "date"}))
    with pytest.raises(ValueError, match="1 features, but PositionalEncoder is expecting 2"):
        PositionalEncoder().fit(MIXED.to_numpy()).transform(NAIVE["numpy"])


ENCODERS = {
    "auto": PositionalEncoder(),
    "cyclic": PositionalEncoder(periods=[2.5, 7], harmonics=[2, 1], trend=True),
    "fourier": PositionalEncoder("fourier", wavelengths=[0.5, 3.0]),
}
CHECKS_OF_SKLEARN = """
import sys, warnings
from importlib.util import find_spec
warnings.simplefilter("error")
from sklearn.utils.estimator_checks import check_estimator
if find_spec("torch"):  # scikit-learn takes each build for CUDA for one with a GPU
    import torch
    torch.backends.cuda.is_built = torch.cuda.is_available
sys.path[:0] = {folders!r}
from test_encoder import ENCODERS
# Reasons for skipped checks: missing libraries, or no GPU.
NOT_HERE = ("is not installed", "requires cuda", "no XPU device", "PYTORCH_ENABLE_MPS_FALLBACK")
for result in check_estimator(ENCODERS[{name!r}], on_skip=None):
    reason = str(result["exception"] or "")
    assert result["status"] == "passed" or (
        result["status"] == "skipped"
        and "array_api" in result["check_name"]
        and any(text in reason for text in NOT_HERE)
    ), result
    print(result["status"], result["check_name"])
"""


@pytest.mark.parametrize("name", ENCODERS)
def test_checks_of_sklearn(name):
    """In a process of its own: SciPy reads whether it takes arrays of any library only once."""
    folders = [str(folder) for folder in Path(__file__).parents[:2]]
    code = CHECKS_OF_SKLEARN.format(folders=folders, name=name)
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr
    passed = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("passed")]
    assert len(passed) >= 45
    assert "check_array_api_same_namespace" in passed
    assert passed.count("check_array_api_input") >= 2


@pytest.fixture
def dispatch(monkeypatch):
    """Let scikit-learn take arrays of any library; only SciPy would need the setting earlier."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize(
    "library", [pytest.param("torch", marks=pytest.mark.library("torch")), "array_api_strict"]
)
@pytest.mark.parametrize("name", [*ENCODERS, "spherical"])
def test_arrays_of_other_libraries(library, name):
    xp = importlib.import_module(library)
    encode = ENCODERS.get(name) or PositionalEncoder("spherical", degree=3)
    x = np.random.default_rng(0).uniform(0, 5, (6, 2))
    on_host = encode.fit_transform(x)
    assert type(on_host) is np.ndarray
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        values = xp.asarray(x.astype(dtype))
        features = encode.fit(values).transform(values)
        assert type(features) is type(values)
        assert features.device == values.device
        assert features.dtype == values.dtype
        np.testing.assert_allclose(np.asarray(features), on_host, atol=tolerance)
        message = "must use the same namespace and the same device as those passed to fit"
        with pytest.raises(ValueError, match=message):
            encode.transform(x)


@pytest.mark.usefixtures("dispatch")
def test_a_device_without_float64():
    import array_api_strict as xp

    x = xp.ones((3, 2), dtype=xp.float32, device=xp.Device("no_float64"))
    features = PositionalEncoder("cyclic", periods=3).fit_transform(x)
    assert features.dtype == xp.float32
    assert features.device == x.device


@pytest.mark.usefixtures("dispatch")
def test_lists_and_tables_are_read_by_numpy():
    rows = [[0.0, 1.0], [0.25, 3.0], [1.5, -2.0]]
    expected = one_wave(periods=3).fit_transform(np.array(rows))
    for table in (rows, pd.DataFrame(rows), pl.DataFrame(rows, orient="row")):
        np.testing.assert_array_equal(one_wave(periods=3).fit_transform(table), expected)


@pytest.mark.usefixtures("dispatch")
def test_times_are_those_of_numpy():
    features = one_wave(periods=PERIODS).fit_transform(AWARE["pandas"])
    np.testing.assert_allclose(features, expected_features(CLOCKS, UTC_TIMES), atol=1e-12)


def test_sklearn_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    message = (
        r'^The estimators need scikit-learn: pip install "positional-embeddings\[sklearn\]"\.$'
    )
    with pytest.raises(ImportError, match=message):
        importlib.reload(positional_embeddings.sklearn)


def test_times_of_another_zone_than_that_of_fit_are_refused():
    times = pd.DataFrame(
        {"t": pd.date_range("2024-07-01", periods=24, freq="h", tz="Europe/Zurich")}
    )
    encoder = one_wave(periods="day").fit(times)
    np.testing.assert_array_equal(encoder.transform(times), encoder.fit_transform(times))
    in_utc = times.assign(t=times.t.dt.tz_convert("UTC"))
    message = "`X` must hold times of the zone Europe/Zurich in column 't', as in fit, got times"
    with pytest.raises(ValueError, match=f"{message} of the zone UTC. Convert them"):
        encoder.transform(in_utc)
    with pytest.raises(ValueError, match=f"{message} without a zone"):
        encoder.transform(times.assign(t=times.t.dt.tz_localize(None)))
    both = one_wave(periods="day", time_zone="Europe/Zurich").fit(times)
    np.testing.assert_allclose(both.transform(in_utc), both.transform(times))


def test_spans_of_time_are_refused():
    spans = pd.DataFrame({"t": pd.timedelta_range("0h", periods=3, freq="6h")})
    message = "`X` must hold numbers or dates, got spans of time. Pass days_since"
    for table in (spans, spans.to_numpy(), pl.DataFrame({"t": spans.t.to_numpy()})):
        with pytest.raises(TypeError, match=message):
            one_wave(periods=24).fit(table)


LAST = 2**63 - 1


@pytest.mark.parametrize("unit", ["W", "D", "s", "us", "ns", "ps", "fs", "as"])
@pytest.mark.parametrize(
    ("first", "last"), [(-LAST, LAST), (0, LAST), (3, 7), (3, 4), (LAST, LAST)]
)
def test_octaves_of_times_of_every_unit(unit, first, last):
    """Each is half of the one before, from twice the range or the longest span of timedelta64."""
    times = np.asarray([[first], [last]]).astype(f"datetime64[{unit}]")
    encoder = PositionalEncoder("fourier").fit(times)
    ((first_wavelength, *wavelengths),) = encoder._features.wavelengths
    of_a_week = Fraction(LENGTHS[unit], LENGTHS["W"])
    weeks = 2 * (last - first) * of_a_week or Fraction(1, 7)
    weeks = min(max(weeks, Fraction(8, LENGTHS["W"])), 2**62)
    for wave in (first_wavelength, *wavelengths):
        wave_unit, _ = np.datetime_data(wave.dtype)
        held = Fraction(int(wave.astype(int)) * LENGTHS[wave_unit], LENGTHS["W"])
        assert abs(held - weeks) <= weeks / 2**50
        weeks /= 2
    assert len(set(encoder.get_feature_names_out())) == 8
    assert np.isfinite(encoder.transform(times)).all()


def test_octaves_of_months_and_years():
    months = np.asarray([["2024-01"], ["2024-03"]], dtype="datetime64[M]")
    names = PositionalEncoder("fourier").fit(months).get_feature_names_out()
    assert names[::2].tolist() == ["x0_sin_120d", "x0_sin_60d", "x0_sin_30d", "x0_sin_15d"]
    years = np.asarray([["2023"], ["2024"]], dtype="datetime64[Y]")
    assert PositionalEncoder("fourier").fit(years).get_feature_names_out()[0] == "x0_sin_730d"


@pytest.mark.parametrize(("year", "hours"), [(1, 14), (9999, -12)])
def test_objects_whose_utc_is_beyond_the_years_of_python(year, hours):
    zone = timezone(timedelta(hours=hours))
    clock = datetime(year, 12, 31, 22) if hours < 0 else datetime(year, 1, 1, 2)
    clocks = [clock, datetime(2000, 1, 1)]
    table = object_array([c.replace(tzinfo=zone) for c in clocks])
    expected = [wave(c.hour / 24) + wave((c.hour - hours) / 12 % 1) for c in clocks]
    features = one_wave(periods=["day", timedelta(hours=12)]).fit_transform(table)
    np.testing.assert_allclose(features, expected, atol=1e-15)


FIRST = datetime(1, 1, 1)


@pytest.mark.parametrize(
    "table",
    [
        object_array([FIRST.replace(tzinfo=UTC)]),
        pl.DataFrame({"t": pl.Series([FIRST]).dt.replace_time_zone("UTC")}),
    ],
    ids=["objects", "polars"],
)
def test_a_clock_before_the_first_year_is_refused(table):
    message = r"^`time_zone` must keep the times of `X\['\w+'\]` within the years 1 to 9999, got datetime.ti"
    with pytest.raises(ValueError, match=message):
        one_wave(periods="day", time_zone=timezone(timedelta(hours=-1))).fit(table)


@pytest.mark.parametrize(
    "dates",
    [
        [np.datetime64("2024-01-01", "ns"), np.datetime64("0001-01-01")],
        [pd.Timestamp.max, FIRST],
        [np.datetime64(1, "as"), np.datetime64("2000-01-01")],
    ],
    ids=["NumPy", "pandas", "attoseconds"],
)
def test_dates_that_no_unit_holds_are_refused(dates):
    """NumPy would let them wrap."""
    message = (
        r"^`X\['x0'\]` must have dates that one unit of NumPy holds, got datetime64\[\w+\] and"
    )
    for table in (dates, object_array(dates)):
        with pytest.raises(ValueError, match=message):
            one_wave(periods="year").fit(table)


@pytest.mark.parametrize(
    ("periods", "labels"),
    [
        (["month", "quarter"], ["month", "quarter"]),
        (["24h", "90min", "29.5D", "2W"], ["24h", "90min", "708h", "14d"]),
        (["500ms", "250us", "7d", "30s"], ["500ms", "250us", "7d", "30s"]),
        ([pd.offsets.MonthBegin(), pd.offsets.BQuarterEnd()], ["month", "quarter"]),
        (
            [pd.offsets.Day(), pd.offsets.Week(weekday=3), pd.offsets.YearEnd()],
            ["day", "week", "year"],
        ),
        ([pd.offsets.Hour(6), pd.offsets.Day(2), pd.offsets.Minute()], ["6h", "2d", "1min"]),
    ],
)
def test_periods_by_text_and_by_offsets_of_pandas(periods, labels):
    encoder = one_wave(periods=periods).fit(AWARE["pandas"])
    assert encoder.get_feature_names_out().tolist()[::2] == [f"time_sin_{n}" for n in labels]
    texts = [text for text in periods if isinstance(text, str) and text[0].isdigit()]
    if texts == periods:
        expected = one_wave(periods=[pd.Timedelta(text.replace("d", "D")) for text in texts])
        np.testing.assert_array_equal(
            encoder.transform(AWARE["pandas"]), expected.fit_transform(AWARE["pandas"])
        )


def test_months_and_quarters_are_as_long_as_they_are():
    features = one_wave(periods=["month", "quarter"]).fit_transform(AWARE["pandas"])
    for clock, row in zip(CLOCKS, features, strict=True):
        expected = []
        for months in (1, 3):
            first = (clock.month - 1) // months * months
            start = datetime(clock.year, first + 1, 1)
            end = datetime(clock.year + (first + months) // 12, (first + months) % 12 + 1, 1)
            expected += wave((clock - start) / (end - start))
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_texts_of_spans_are_lengths_too():
    offsets = [(pd.offsets.Day(), timedelta(days=1)), (pd.offsets.Week(), timedelta(days=7))]
    for text, span in (("36h", timedelta(hours=36)), *offsets):
        got, expected = (
            PositionalEncoder(wavelengths=value).fit_transform(TIMES) for value in (text, span)
        )
        np.testing.assert_array_equal(got, expected)


PLACES = {
    "lat": ("lon", "lat"),
    "latitude": ("longitude", "latitude"),
    "lng": ("lng", "lat"),
    "units": ("degrees_east", "degrees_north"),
    "capitals": ("Longitude (deg)", "Latitude (deg)"),
    "prefix": ("station_lon", "station_lat"),
    "one": ("x", "site.lat"),
    "other": ("decimalLongitude", "y"),
}


@pytest.mark.parametrize("names", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("library", [pd, pl])
def test_latitude_and_longitude_are_found_by_name(library, names):
    longitude, latitude = np.asarray([10.0, 170.0, -100.0]), np.asarray([-45.0, 60.0, 80.0])
    expected = spherical_encoding(latitude, longitude, 3).T
    table = dict(zip(names, (longitude, latitude), strict=True))
    for columns in (names, names[::-1]):
        encoder = PositionalEncoder("spherical", degree=3)
        got = encoder.fit_transform(library.DataFrame({name: table[name] for name in columns}))
        np.testing.assert_array_equal(got, expected)
    assert encoder.get_feature_names_out()[0] == "place_l0_m0"


def test_places_without_a_name_are_latitude_and_longitude():
    x = np.asarray([[-45.0, 10.0], [60.0, 170.0]])
    expected = spherical_encoding(*x.T, 3).T
    for table in (
        x,
        pd.DataFrame(x, columns=["a", "b"]),
        pd.DataFrame(x, columns=["flat", "plon"]),
    ):
        got = PositionalEncoder("spherical", degree=3).fit_transform(table)
        np.testing.assert_array_equal(got, expected)
    twice = pd.DataFrame(x, columns=["lat", "latitude"])
    message = "`X` must hold one latitude and one longitude, got 'lat' and 'latitude'."
    with pytest.raises(ValueError, match=message):
        PositionalEncoder("spherical", degree=3).fit(twice)


TEXTS = {
    "pandas": (pd.DataFrame({"day": [None, "2024-02-29"], "x": [1.0, 2.0]}), "X['day']"),
    "dates beside": (pd.DataFrame({"t": CLOCKS[:2], "day": ["2024-02-29", "2024"]}), "X['day']"),
    "polars": (pl.DataFrame({"day": [None, "2024-02-29"]}), "X['day']"),
    "categories": (pd.DataFrame({"day": ["2024-02-29"]}, dtype="category"), "X['day']"),
    "series": (pd.Series(["2024-02-29"]), "X[0]"),
    "named series": (pd.Series(["2024-02-29"], name="day"), "X['day']"),
    "list": (["2024-02-29"], "X['x0']"),
    "lists": ([[1.0, "2024-02-29"]], "X['x1']"),
    "numpy": (np.asarray([["2024-02-29"]]), "X['x0']"),
}


@pytest.mark.parametrize(("table", "column"), TEXTS.values(), ids=TEXTS)
def test_dates_as_text_are_told_how_to_become_dates(table, column):
    with pytest.raises(TypeError) as caught:
        PositionalEncoder().fit(table)
    assert str(caught.value) == (
        f"`{column}` must hold numbers or dates, got text, '2024-02-29'. "
        "Convert dates, as with pandas.to_datetime."
    )


def test_numbers_as_text_are_numbers():
    expected = PositionalEncoder().fit_transform([[1e5], [2.5]])
    for x in ([["1e5"], ["2.5"]], pd.DataFrame({"x": ["1e5", "2.5"]}, dtype=object)):
        np.testing.assert_array_equal(PositionalEncoder().fit_transform(x), expected)


MISSING = {
    "numpy": np.asarray(["2024-01-01", "NaT", "2024-01-09"], dtype="datetime64[D]"),
    "pandas": pd.to_datetime(["2024-01-01", None, "2024-01-09"]),
    "pandas zone": pd.to_datetime(["2024-01-01", None, "2024-01-09"]).tz_localize("UTC"),
    "polars": pl.Series([datetime(2024, 1, 1), None, datetime(2024, 1, 9)]),
    "polars zone": pl.Series([UTC_TIMES[0], None, UTC_TIMES[1]]),
    "objects": object_array([datetime(2024, 1, 1), None, datetime(2024, 1, 9)]),
    "objects zone": object_array([pd.Timestamp(UTC_TIMES[0]), pd.NaT, UTC_TIMES[1]]),
    "numbers": np.asarray([[1.0], [np.nan], [9.0]]),
    "polars numbers": pl.DataFrame({"x": [1.0, None, 9.0]}),
    "pandas numbers": pd.DataFrame({"x": pd.array([1, None, 9], dtype="Int64")}),
}


@pytest.mark.parametrize(("name", "x"), MISSING.items(), ids=MISSING)
def test_missing_values_pass_as_nan(name, x):
    rows = x[::2] if hasattr(x, "shape") else x
    span = 2.0 if "numbers" in name else timedelta(days=2)
    for options in ({}, {"periods": span}):
        encoder = PositionalEncoder(missing="pass", **options).fit(x)
        features = encoder.transform(x)
        assert np.isnan(features).all(axis=1).tolist() == [False, True, False]
        assert not np.isnan(features[::2]).any()
        whole = PositionalEncoder(**options).fit(rows)
        np.testing.assert_array_equal(features[::2], whole.transform(rows))
        with pytest.raises(ValueError, match=r"no missing values"):
            PositionalEncoder(**options).fit(x)
    assert encoder.__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize(
    "x", [pd.to_datetime([None, None]), object_array([None, pd.NaT]), [[np.nan], [np.nan]]]
)
def test_a_column_of_missing_values_alone(x):
    with pytest.raises((TypeError, ValueError)):
        PositionalEncoder().fit(x)
    if isinstance(x, np.ndarray):  # nothing says that these are dates
        x = pd.DataFrame({"t": x[:, 0], "u": CLOCKS[:2]})
        x["t"] = x["t"].astype("datetime64[ns]")
        x = x[["t"]]
    assert np.isnan(PositionalEncoder(missing="pass").fit_transform(x)).all()


def test_missing_times_in_a_model_that_takes_them():
    frame, y = readings(2000)
    frame.loc[::5, "time"] = pd.NaT
    model = make_pipeline(
        one_wave(periods=["day", "year"], missing="pass"),
        HistGradientBoostingRegressor(max_iter=30, random_state=0),
    )
    with threadpool_limits(1, user_api="openmp"):  # its threads wait for each other busily
        score = cross_val_score(model, frame[["time"]], y - 0.5 * frame["depth"], cv=3).mean()
    assert score > 0.6


@pytest.mark.library("cftime")
@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
@pytest.mark.parametrize("library", [pd, pl])
def test_years_of_climate_models_are_as_long_as_they_say(calendar, library):
    import cftime

    dates = [cftime.datetime(2000, 1, 1, calendar=calendar)]
    while len(dates) < 800:
        dates.append(dates[-1] + timedelta(days=1))
    column = pd.Series(dates) if library is pd else pl.Series(dates, dtype=pl.Object)
    table = library.DataFrame({"t": column})
    length = 365 if calendar == "noleap" else 360
    parts = {"quarter": 90, "year": length}
    features = one_wave(periods=["quarter", "year"]).fit_transform(table)
    expected = [
        [
            f
            for part in (parts if calendar == "360_day" else ["year"])
            for f in wave((date.dayofyr - 1) / parts[part] % 1)
        ]
        for date in dates
    ]
    np.testing.assert_allclose(features[:, -len(expected[0]) :], expected, atol=1e-12)
    encoder = PositionalEncoder().fit(table)
    assert prefixes(encoder) == ["t_week", "t_year", "t"]
    message = f"^`X` must hold times of the calendar {calendar} in column 't', as in fit, got times"
    with pytest.raises(ValueError, match=message):
        encoder.transform(library.DataFrame({"t": [datetime(2000, 1, 1)] * 800}))
    message = f"must have dates of the standard calendar, got {calendar}. Pass days_since of"
    with pytest.raises(ValueError, match=message):
        positional_embeddings.sklearn.AttentionRegressor().fit(table, np.arange(800.0))
