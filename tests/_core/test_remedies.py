"""Refusals of tables, dates and spans of time: each offers a line, and the line works."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray

import positional_embeddings as pe

DAYS = [0.0, 2.5, 4.0]
# Dates are days since 1970, so that two arrays have the same origin.
SINCE_1970 = 19_812.5
START = dt.datetime(2024, 3, 30, 12)  # noqa: DTZ001 - a day before clocks change
DATES = [START + dt.timedelta(days=days) for days in DAYS]
SPANS = [dt.timedelta(days=days) for days in DAYS]
INDEX = pd.DatetimeIndex(DATES)
ZONED = INDEX.tz_localize("UTC").tz_convert("Europe/Zurich")
PERIODS = pd.PeriodIndex(["2024-01-01", "2024-01-03", "2024-01-05"], freq="D")
NUMBERS = {
    "series": pd.Series(DAYS),
    "index": pd.Index(DAYS),
    "extension array": pd.array(DAYS),
    "series of objects": pd.Series(DAYS, dtype=object),
    "array of objects": np.asarray(DAYS, dtype=object),
    "polars series": pl.Series(DAYS),
    "polars objects": pl.Series(DAYS, dtype=pl.Object),
    "data array": xarray.DataArray(DAYS),
    "variable": xarray.Variable("x", DAYS),
    "data set": xarray.Dataset({"a": ("x", DAYS)}),
    "data set of coordinates": xarray.Dataset(coords={"x": DAYS}),
    "list": DAYS,
}
TIMES = {
    "dates": INDEX.to_numpy(),
    "dates as objects": np.asarray(DATES, dtype=object),
    "dates with a zone": np.asarray(ZONED, dtype=object),
    "spans": np.asarray(SPANS, dtype="timedelta64[h]"),
    "spans as objects": np.asarray(SPANS, dtype=object),
    "index": INDEX,
    "index with a zone": ZONED,
    "index of spans": pd.TimedeltaIndex(SPANS),
    "series": pd.Series(INDEX, index=[7, 8, 9]),
    "series with a zone": pd.Series(ZONED),
    "series of spans": pd.Series(SPANS),
    "series of objects": pd.Series(list(ZONED), dtype=object),
    "polars": pl.Series(DATES),
    "polars with a zone": pl.Series(list(ZONED.tz_convert("UTC"))).dt.replace_time_zone("UTC"),
    "polars spans": pl.Series(SPANS),
    "polars objects": pl.Series(DATES, dtype=pl.Object),
    "data array": xarray.DataArray(INDEX),
    "data array of spans": xarray.DataArray(pd.TimedeltaIndex(SPANS)),
    "data set": xarray.Dataset({"time": ("x", INDEX.to_numpy())}),
}
WIDE = {
    "array": INDEX.to_numpy()[:, None],
    "objects": np.asarray(ZONED, dtype=object)[:, None],
    "table": pd.DataFrame({"a": DAYS}),
    "table of dates": pd.DataFrame({"a": ZONED}),
    "table of spans": pd.DataFrame({"a": SPANS}),
    "table of both": pd.DataFrame({"a": DAYS, "time": DATES}),
    "polars table": pl.DataFrame({"a": DAYS}),
    "polars table of dates": pl.DataFrame({"a": DATES}),
    "polars table of spans": pl.DataFrame({"a": SPANS}),
    "polars table of both": pl.DataFrame({"a": DAYS, "time": DATES}),
}
NAMES = {"numpy": np, "polars": pl, "datetime": dt}


def days_of(line):
    """Return the days that a line is expected to give."""
    return np.asarray(DAYS) + (SINCE_1970 if "1970" in line or "numpy.datetime64(0" in line else 0)


def refused(call, *args, **options):
    """Return the line that the refusal of a call offers."""
    with pytest.raises(TypeError) as caught:
        call(*args, **options)
    (line,) = re.findall(r" Pass (.*?)(?: for (?:days|its).*)?\.$", str(caught.value))
    return line


@pytest.mark.parametrize("positions", [*NUMBERS.values(), *TIMES.values()], ids=[*NUMBERS, *TIMES])
def test_the_line_for_positions_works(positions):
    line = refused(pe.sinusoidal_encoding, positions, 4)
    numbers = eval(line, NAMES, {"positions": positions})
    expected = pe.sinusoidal_encoding(days_of(line), 4)
    np.testing.assert_allclose(pe.sinusoidal_encoding(numbers, 4), expected, atol=1e-12)


@pytest.mark.parametrize("positions", WIDE.values(), ids=WIDE)
def test_the_line_for_tables_works(positions):
    line = refused(pe.sinusoidal_encoding, positions, 4)
    np.testing.assert_allclose(eval(line, NAMES, {"positions": positions})[:, 0], days_of(line))


@pytest.mark.parametrize("positions", [PERIODS, pd.Series(PERIODS)])
def test_the_line_for_periods_works(positions):
    line = refused(pe.sinusoidal_encoding, positions, 4)
    np.testing.assert_array_equal(
        eval(line, NAMES, {"positions": positions}), 19_723 + np.arange(0, 6, 2)
    )


ONE = {
    "datetime64": np.datetime64("1970-01-03T12"),
    "Timestamp": pd.Timestamp("1970-01-03T12"),
    "Timestamp with a zone": pd.Timestamp("1970-01-03T13", tz="Europe/Zurich"),
    "datetime": dt.datetime(1970, 1, 3, 12),  # noqa: DTZ001
    "datetime with a zone": dt.datetime(1970, 1, 3, 12, tzinfo=dt.UTC),
    "timedelta": dt.timedelta(days=2.5),
    "Timedelta": pd.Timedelta(days=2.5),
    "timedelta64": np.timedelta64(60, "h"),
}


@pytest.mark.parametrize("positions", ONE.values(), ids=ONE)
def test_the_line_for_one_time_works(positions):
    line = refused(pe.sinusoidal_encoding, positions, 4)
    number = eval(line, NAMES, {"positions": positions})
    np.testing.assert_array_equal(
        pe.sinusoidal_encoding(number, 4), pe.sinusoidal_encoding(np.asarray(2.5), 4)
    )


@pytest.mark.parametrize("lengths", TIMES.values(), ids=TIMES)
def test_the_line_for_integers_gives_whole_days(lengths):
    line = refused(pe.create_padding_mask, lengths, 9)
    numbers = eval(line, NAMES, {"lengths": lengths})
    assert numbers.dtype.kind == "i"
    np.testing.assert_array_equal(numbers, days_of(line) // 1)


def test_gaps_of_integers_are_nan():
    positions = pd.Series([1, None], dtype="Int64")
    line = refused(pe.sinusoidal_encoding, positions, 4)
    np.testing.assert_array_equal(eval(line, NAMES, {"positions": positions}), [1, np.nan])


SPAN = [dt.timedelta(days=5), pd.Timedelta(days=5), np.timedelta64(5, "D")]


@pytest.mark.parametrize("span", SPAN)
def test_spans_are_days_where_positions_are_counted(span):
    line = refused(pe.create_causal_mask, span)
    assert eval(line, NAMES, {"q_len": span}) == 5
    line = refused(pe.sinusoidal_encoding, np.arange(3), 4, length=span)
    assert eval(line, NAMES, {"length": span}) == 5
    for wrong in (
        lambda: pe.RoPE(span, 10),
        lambda: pe.RoPE(8, 10, base=span),
        lambda: pe.RoPE(8, 10, feature_axis=span),
        lambda: pe.sinusoidal_encoding(np.arange(3), span),
        lambda: pe.alibi_slopes(span),
        lambda: pe.TokenEmbedding(10, span),
        lambda: pe.dropout(np.ones(3), span, rng=0),
    ):
        with pytest.raises(TypeError) as caught:
            wrong()
        assert " Pass " not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        pd.Series(["a", "b"]),
        pd.Series([None, "b"], dtype=object),
        pd.DataFrame({"a": ["b"], "c": ["d"]}),
        pd.DataFrame({"a": ["b"], "time": DATES[:1]}),
        pl.Series(["a"]),
        np.asarray(["a", "b"], dtype=object),
        np.asarray(["a", "b"]),
        xarray.Dataset(),
        xarray.Dataset().coords,
        xarray.DataTree(),
    ],
)
def test_text_has_no_line(value):
    with pytest.raises(TypeError) as caught:
        pe.sinusoidal_encoding(value, 4)
    assert " Pass " not in str(caught.value)


def test_one_number():
    assert refused(pe.sinusoidal_encoding, 64, 8) == "numpy.arange(positions)"
    assert refused(pe.PaddingMask, 3) == "[lengths]"
    assert refused(pe.spherical_encoding, 1.0, 2.0, 2) == "numpy.asarray(latitude)"
    with pytest.raises(TypeError, match=r"got float\.$"):
        pe.sinusoidal_encoding(0.5, 8)
