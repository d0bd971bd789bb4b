"""Refusals of tables, dates and spans of time: each offers a line, and the line works."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest

import positional_embeddings as pe
from absent import pl, xarray

DAYS = [0.0, 2.5, 4.0]
START = dt.datetime(2024, 3, 30, 12)  # noqa: DTZ001 - a day before clocks change
DATES = [START + dt.timedelta(days=days) for days in DAYS]
SPANS = [dt.timedelta(days=days) for days in DAYS]
INDEX = pd.DatetimeIndex(DATES)
ZONED = INDEX.tz_localize("UTC").tz_convert("Europe/Zurich")
NUMBERS = {
    "positions.to_numpy()": [
        pd.Series(DAYS),
        pd.Index(DAYS),
        pd.array(DAYS),
        pd.DataFrame({"a": DAYS}).a,
        pl.Series(DAYS),
    ],
    "positions.data": [xarray.DataArray(DAYS), xarray.Variable("x", DAYS)],
    "numpy.asarray(positions)": [DAYS, tuple(DAYS), 64.0, -3],
}
TIMES = {
    "days_since(positions)": [
        INDEX.to_numpy(),
        np.asarray(DATES, dtype=object),
        np.asarray(ZONED, dtype=object),
        np.asarray(SPANS, dtype="timedelta64[h]"),
        INDEX,
        ZONED,
        pd.TimedeltaIndex(SPANS),
        pd.Series(ZONED),
        pd.Series(list(ZONED), dtype=object),
        pl.Series(DATES),
        pl.Series(SPANS),
        pl.Series(DATES, dtype=pl.Object),
        xarray.DataArray(INDEX),
        DATES,
        SPANS,
        DATES[1],
        ZONED[1],
        SPANS[1],
        np.timedelta64(60, "h"),
    ],
}
CASES = [(line, x) for lines in (NUMBERS, TIMES) for line in lines for x in lines[line]]
NAMES = {"numpy": np, "days_since": pe.days_since}


def refused(call, *args, **options):
    """Return the line that the refusal of a call offers, "" if none."""
    with pytest.raises(TypeError) as caught:
        call(*args, **options)
    return "".join(re.findall(r" Pass (.*)\.$", str(caught.value)))


@pytest.mark.parametrize(("line", "positions"), CASES)
def test_the_line_for_positions_works(line, positions):
    assert refused(pe.sinusoidal_encoding, positions, 4) == line
    numbers = eval(line, NAMES, {"positions": positions})
    assert pe.sinusoidal_encoding(numbers, 4).shape == (4, *np.shape(positions))


@pytest.mark.parametrize("table", [pd.DataFrame({"time": INDEX}), pl.DataFrame({"time": DATES})])
def test_tables_of_dates_take_two_lines(table):
    assert refused(pe.sinusoidal_encoding, table, 4) == "positions.to_numpy()"
    array = table.to_numpy()
    assert refused(pe.sinusoidal_encoding, array, 4) == "days_since(positions)"
    assert pe.sinusoidal_encoding(pe.days_since(array), 4).shape == (4, 3, 1)


@pytest.mark.parametrize(
    "span", [dt.timedelta(days=5), pd.Timedelta(days=5), np.timedelta64(5, "D")]
)
def test_spans_are_days_where_a_number_is_asked_for(span):
    x = np.arange(3)
    assert refused(pe.sinusoidal_encoding, x, 4, length=span) == "days_since(length)"
    assert refused(pe.fourier_encoding, x, [2.0, span]) == "days_since(wavelengths[1])"


def test_a_count_is_as_many_positions():
    assert refused(pe.sinusoidal_encoding, 100, 64) == "np.arange(100)"


NO_LINE = {
    "text": np.asarray(["a", "b"]),
    "objects": np.asarray(["a", "b"], dtype=object),
    "no objects": np.asarray([], dtype=object),
    "an object without axes": np.asarray(dt.date(2024, 1, 1), dtype=object),
    "numbers as objects": np.asarray(DAYS, dtype=object),
    "data set": xarray.Dataset({"a": ("x", DAYS)}),
    "truth": True,
    "a number of thousands of digits": 10**5000,
    "word": "mask",
    "mask": pe.CausalMask(),
}


@pytest.mark.parametrize("positions", NO_LINE.values(), ids=NO_LINE)
def test_what_is_not_known_has_no_line(positions):
    assert refused(pe.sinusoidal_encoding, positions, 4) == ""


def test_integers_have_no_days():
    spans = np.asarray(SPANS, dtype="timedelta64[h]")
    assert refused(pe.create_padding_mask, spans, 9) == ""
    assert refused(pe.create_causal_mask, SPANS[1]) == ""


def test_a_mask_becomes_an_array():
    assert refused(pe.fully_masked_rows, pe.CausalMask()) == "mask.dense(q_len, k_len)"
