"""Refusals of tables, dates and spans of time: each offers a line, and the line works."""

import datetime as dt
import re

import numpy as np
import pytest

import positional_embeddings as pe

REASON = "the group test lacks it"
pandas = pytest.importorskip("pandas", reason=REASON)
polars = pytest.importorskip("polars", reason=REASON)
xarray = pytest.importorskip("xarray", reason=REASON)

DAYS = [0.0, 2.5, 4.0]
# Dates are days since 1970, so that two arrays have the same origin.
SINCE_1970 = 19_812.5
START = dt.datetime(2024, 3, 30, 12)  # noqa: DTZ001 - a day before clocks change
DATES = [START + dt.timedelta(days=days) for days in DAYS]
SPANS = [dt.timedelta(days=days) for days in DAYS]
INDEX = pandas.DatetimeIndex(DATES)
ZONED = INDEX.tz_localize("UTC").tz_convert("Europe/Zurich")
PERIODS = pandas.PeriodIndex(["2024-01-01", "2024-01-03", "2024-01-05"], freq="D")
NUMBERS = {
    "series": pandas.Series(DAYS),
    "index": pandas.Index(DAYS),
    "extension array": pandas.array(DAYS),
    "series of objects": pandas.Series(DAYS, dtype=object),
    "array of objects": np.asarray(DAYS, dtype=object),
    "polars series": polars.Series(DAYS),
    "polars objects": polars.Series(DAYS, dtype=polars.Object),
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
    "index of spans": pandas.TimedeltaIndex(SPANS),
    "series": pandas.Series(INDEX, index=[7, 8, 9]),
    "series with a zone": pandas.Series(ZONED),
    "series of spans": pandas.Series(SPANS),
    "series of objects": pandas.Series(list(ZONED), dtype=object),
    "polars": polars.Series(DATES),
    "polars with a zone": polars.Series(list(ZONED.tz_convert("UTC"))).dt.replace_time_zone("UTC"),
    "polars spans": polars.Series(SPANS),
    "polars objects": polars.Series(DATES, dtype=polars.Object),
    "data array": xarray.DataArray(INDEX),
    "data array of spans": xarray.DataArray(pandas.TimedeltaIndex(SPANS)),
    "data set": xarray.Dataset({"time": ("x", INDEX.to_numpy())}),
}
WIDE = {
    "array": INDEX.to_numpy()[:, None],
    "objects": np.asarray(ZONED, dtype=object)[:, None],
    "table": pandas.DataFrame({"a": DAYS}),
    "table of dates": pandas.DataFrame({"a": ZONED}),
    "table of spans": pandas.DataFrame({"a": SPANS}),
    "table of both": pandas.DataFrame({"a": DAYS, "time": DATES}),
    "polars table": polars.DataFrame({"a": DAYS}),
    "polars table of dates": polars.DataFrame({"a": DATES}),
    "polars table of spans": polars.DataFrame({"a": SPANS}),
    "polars table of both": polars.DataFrame({"a": DAYS, "time": DATES}),
}
NAMES = {"numpy": np, "polars": polars, "datetime": dt}


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


@pytest.mark.parametrize("positions", [PERIODS, pandas.Series(PERIODS)])
def test_the_line_for_periods_works(positions):
    line = refused(pe.sinusoidal_encoding, positions, 4)
    np.testing.assert_array_equal(
        eval(line, NAMES, {"positions": positions}), 19_723 + np.arange(0, 6, 2)
    )


ONE = {
    "datetime64": np.datetime64("1970-01-03T12"),
    "Timestamp": pandas.Timestamp("1970-01-03T12"),
    "Timestamp with a zone": pandas.Timestamp("1970-01-03T13", tz="Europe/Zurich"),
    "datetime": dt.datetime(1970, 1, 3, 12),  # noqa: DTZ001
    "datetime with a zone": dt.datetime(1970, 1, 3, 12, tzinfo=dt.UTC),
    "timedelta": dt.timedelta(days=2.5),
    "Timedelta": pandas.Timedelta(days=2.5),
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
    positions = pandas.Series([1, None], dtype="Int64")
    line = refused(pe.sinusoidal_encoding, positions, 4)
    np.testing.assert_array_equal(eval(line, NAMES, {"positions": positions}), [1, np.nan])


SPAN = [dt.timedelta(days=5), pandas.Timedelta(days=5), np.timedelta64(5, "D")]


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
        pandas.Series(["a", "b"]),
        pandas.Series([None, "b"], dtype=object),
        pandas.DataFrame({"a": ["b"], "c": ["d"]}),
        pandas.DataFrame({"a": ["b"], "time": DATES[:1]}),
        polars.Series(["a"]),
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
