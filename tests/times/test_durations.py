"""Durations, their labels, and the names of latitudes."""

from datetime import timedelta

import numpy as np
import pytest

from positional_embeddings.times.calendar import extent_of
from positional_embeddings.times.dates import Times
from positional_embeddings.times.durations import duration_of, labels_of, latitude_longitude_order
from positional_embeddings.times.named import Coordinate, Fourier, Spherical, Trend


def times(values, unit):
    """Return a coordinate of times without a zone."""
    array = np.asarray(values, dtype=f"datetime64[{unit}]")
    return Coordinate("t", Times(array, array, None), "column 't'")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12h25min", timedelta(hours=12, minutes=25)),
        ("1D12h0.5s", timedelta(days=1, hours=12, seconds=0.5)),
        ("12h25", "12h25"),
        ("12h25years", "12h25years"),
        ("1D-12h", "1D-12h"),
        ("", ""),
    ],
)
def test_several_numbers_with_units_are_one_duration(text, expected):
    assert duration_of(text) == expected


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [
        ("lat", "lon"),
        ("Latitude", "Longitude"),
        ("lats", "lons"),
        ("XLAT", "XLONG"),
        ("rlat", "rlon"),
        ("latc", "lonc"),
        ("glat", "glon"),
        ("latCell", "lonCell"),
        ("GEOLAT", "GEOLON"),
        ("TLAT", "TLONG"),
        ("site_lat", "site_lng"),
        ("y degrees_north", "x degrees_east"),
    ],
)
def test_latitude_and_longitude_are_told_by_name(latitude, longitude):
    assert tuple(latitude_longitude_order("X", (latitude, longitude))) == (0, 1)
    assert tuple(latitude_longitude_order("X", (longitude, latitude))) == (1, 0)


@pytest.mark.parametrize("names", [("a", "b"), ("flat", "salon"), ("plate", "clone")])
def test_other_names_keep_their_order(names):
    assert tuple(latitude_longitude_order("X", names)) == (0, 1)


@pytest.mark.parametrize(
    "names", [("lat", "latitude"), ("lon", "longitude"), ("lat", "lat", "lon")]
)
def test_two_of_a_kind_are_refused(names):
    with pytest.raises(ValueError, match="hold one latitude and one longitude"):
        latitude_longitude_order("X", names)


def test_units_of_text():
    units = {"D": "days", "d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
    units |= {"W": "weeks", "ms": "milliseconds", "us": "microseconds"}
    for unit, name in units.items():
        assert duration_of(f"3{unit}") == timedelta(**{name: 3})


def test_text_that_is_no_span_stays():
    for text in ("h", "D", "3fs", "2 weeks", "day"):
        assert duration_of(text) is text


def test_offsets_are_parts_of_the_calendar_or_spans():
    import pandas as pd

    month, day = pd.offsets.MonthBegin(), pd.offsets.Day()
    assert (duration_of(month), duration_of(day)) == ("month", "day")
    assert duration_of(month, by_calendar=False) is month
    assert duration_of(day, by_calendar=False) == timedelta(days=1)
    assert duration_of(pd.offsets.Hour()) == timedelta(hours=1)
    assert duration_of(pd.offsets.Minute(90)) == timedelta(minutes=90)


def test_labels_of_long_spans_are_days():
    seconds = [np.timedelta64(n, "s") for n in (999_999, 1_000_000)]
    assert labels_of("periods", seconds) == ["999999s", "11.5741d"]


def test_labels_of_numbers_have_all_digits_if_few_are_the_same():
    assert labels_of("periods", [1 / 3, 12]) == ["0.333333", "12"]
    assert labels_of("periods", [1 / 3, 0.333333]) == [repr(1 / 3), "0.333333"]


def test_octaves_start_at_twice_the_range():
    small, one = np.asarray([1.5, 1.25, np.nan]), np.asarray([3.0])
    coordinates = [Coordinate("x", values, "column 'x'") for values in (small, one)]
    expected = [[0.5, 0.25, 0.125, 0.0625], [1.0, 0.5, 0.25, 0.125]]
    assert Fourier(coordinates).wavelengths == expected


def test_octaves_of_times():
    """A day if all times are missing, and a coarser unit beyond 64 bits."""
    missing, wide = times(["NaT", "NaT"], "s"), times([0, 2**62], "as")
    assert extent_of(missing.values.utc) == 0  # noqa: PD011 - no table of pandas
    days, far = Fourier([missing, wide]).wavelengths
    assert days == [np.timedelta64(hours, "h") for hours in (24, 12, 6, 3)]
    assert far == [np.timedelta64(2**63 // 1000 >> i, "fs") for i in range(4)]


def test_times_count_from_1970_if_none_is_known():
    assert Trend([times(["NaT"], "s")]).origin == np.datetime64("1970-01-01")


def test_spherical_harmonics_take_no_times():
    number = Coordinate("lon", np.zeros(1), "column 'lon'")
    with pytest.raises(
        TypeError, match="`X` must hold numbers with encoding 'spherical', got times"
    ):
        Spherical([times([0], "s"), number], degree=1)
