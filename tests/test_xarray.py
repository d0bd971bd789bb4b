"""Encodings of xarray: the numbers of the bare functions, under names."""

# ruff: noqa: DTZ001 - clocks on walls have no zone

import datetime as dt
import importlib
import sys
from fractions import Fraction
from math import cos, pi, sin

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import positional_embeddings as pe
from positional_embeddings import xarray as pex
from positional_embeddings.encodings.sphere import spherical_encoding
from wrong_inputs import make_test

HOURS = np.arange("2023-12-30", "2024-01-04", 5, dtype="datetime64[h]").astype("datetime64[ns]")


def series(rng=None):
    """Return a series of floats in hours, with a further coordinate and a scalar one."""
    values = (rng or np.random.default_rng(0)).standard_normal(len(HOURS))
    coords = {
        "time": ("time", HOURS, {"long_name": "local time"}),
        "day": ("time", HOURS.astype("datetime64[D]").astype(int)),
        "station": "Jena",
    }
    return xr.DataArray(values, dims="time", coords=coords, attrs={"units": "K"}, name="t2m")


def phases(period, seconds=None):
    """Return where in a period each time is: a calendar period, or seconds since 1970."""
    result = []
    for time in HOURS.astype("datetime64[s]").tolist():
        start, length = dt.datetime(1970, 1, 1), seconds
        if period == "year":
            start = dt.datetime(time.year, 1, 1)
            length = (dt.datetime(time.year + 1, 1, 1) - start).total_seconds()
        elif isinstance(period, str):
            start = dt.datetime(time.year, time.month, time.day)
            start -= dt.timedelta(days=time.weekday() if period == "week" else 0)
            length = 86_400 * {"day": 1, "week": 7}[period]
        result.append(Fraction((time - start).total_seconds()) / Fraction(length) % 1)
    return result


def sinusoids(phases, harmonics=1):
    """Return sine and cosine of each harmonic."""
    return [
        [function(2 * pi * float(harmonic * phase % 1)) for phase in phases]
        for harmonic in range(1, harmonics + 1)
        for function in (sin, cos)
    ]


def grid():
    """Return a curvilinear grid: latitude and longitude of (y, x)."""
    y, x = np.meshgrid(np.arange(3.0), np.arange(4.0), indexing="ij")
    coords = {
        "lat": (("y", "x"), 40 + y + x / 10, {"units": "degrees_north"}),
        "lon": (("y", "x"), 170 + 10 * x - y, {"units": "degrees_east"}),
    }
    return xr.Dataset({"height": (("y", "x"), y * x)}, coords=coords)


def test_xarray_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    monkeypatch.delitem(sys.modules, "positional_embeddings.xarray")
    monkeypatch.delattr(pe, "xarray")
    message = r'needs xarray: pip install "positional-embeddings\[xarray\]"\.$'
    with pytest.raises(ImportError, match=message):
        importlib.import_module("positional_embeddings.xarray")


# Encodings.


def test_cyclic_of_the_calendar():
    periods = ["day", "week", "year", dt.timedelta(hours=12), np.timedelta64(7, "D")]
    got = pex.encode(series(), "time", periods=periods, harmonics=[2, 1, 3, 1, 1])
    expected = [
        *sinusoids(phases("day"), 2),
        *sinusoids(phases("week")),
        *sinusoids(phases("year"), 3),
        *sinusoids(phases(None, 43_200)),
        *sinusoids(phases(None, 7 * 86_400)),
    ]
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=4e-15)
    names = ["day_1", "day_2", "week", "year_1", "year_2", "year_3", "12h", "7d"]
    labels = [f"time_{wave}_{name}" for name in names for wave in ("sin", "cos")]
    assert got.feature.values.tolist() == labels


def test_names_attributes_and_coordinates():
    da = series()
    got = pex.encode(da, "time", periods="day")
    assert got.dims == ("feature", "time")
    assert got.name == "time_encoding"
    assert got.attrs == {"long_name": "cyclic encoding of local time", "units": "1"}
    assert set(got.coords) == {"feature", "time", "day", "station"}
    for name in ("time", "day", "station"):
        xr.testing.assert_identical(
            got.coords[name].drop_vars(["feature"], errors="ignore"), da.coords[name]
        )
    assert pex.encode(da.to_dataset(), "time", periods="day").identical(got)
    renamed = pex.encode(da, "day", periods=7, feature_dim="embedding")
    assert renamed.dims == ("embedding", "time")
    assert renamed.embedding.values.tolist() == ["day_sin_7", "day_cos_7"]


@pytest.mark.parametrize(
    ("period", "seconds", "label"),
    [
        ("day", None, "day"),
        ("week", None, "week"),
        ("year", None, "year"),
        (dt.timedelta(days=1), 86_400, "24h"),
        (dt.timedelta(days=2), 2 * 86_400, "2d"),
        (dt.timedelta(days=7), 7 * 86_400, "7d"),
        (dt.timedelta(hours=36), 36 * 3600, "36h"),
        (np.timedelta64(90, "m"), 5400, "90min"),
        (np.timedelta64(3, "W"), 21 * 86_400, "21d"),
        (np.timedelta64(1_500_000, "us"), Fraction(3, 2), "1500ms"),
        (np.timedelta64(1000 * 365, "D"), 365_000 * 86_400, "365000d"),
        (dt.timedelta(days=365.2425), 31_556_952, "365.243d"),
        (pd.Timedelta(250, "ns"), Fraction(250, 10**9), "250ns"),
        (pd.Timedelta("1h"), 3600, "1h"),
    ],
)
def test_label_of_a_period_of_times(period, seconds, label):
    got = pex.encode(series(), "time", periods=period)
    assert got.feature.values.tolist() == [f"time_sin_{label}", f"time_cos_{label}"]
    np.testing.assert_allclose(got.values, sinusoids(phases(period, seconds)), rtol=0, atol=4e-15)


@pytest.mark.parametrize("periods", [365.25, [365.25, 7], np.asarray([365.25, 7.0])])
def test_cyclic_of_numbers(periods):
    got = pex.encode(series(), "day", periods=periods, harmonics=3)
    days = series().day.values.tolist()
    expected = [
        wave
        for period in np.ravel(periods).tolist()
        for wave in sinusoids([Fraction(day) / Fraction(period) for day in days], 3)
    ]
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=4e-15)
    assert got.dtype == np.float64
    assert got.feature.values.tolist()[:2] == ["day_sin_365.25_1", "day_cos_365.25_1"]
    assert len(set(got.feature.values.tolist())) == got.sizes["feature"]


def test_lists_and_arrays_of_options():
    hours = [np.timedelta64(n, "h") for n in (12, 36)]
    expected = pex.encode(series(), "time", periods=hours, harmonics=[2, 1])
    for periods in (tuple(hours), np.asarray(hours), pd.TimedeltaIndex(hours)):
        got = pex.encode(series(), "time", periods=periods, harmonics=np.asarray([2, 1]))
        xr.testing.assert_identical(got, expected)
    labels = expected.feature.values.tolist()[::2]
    assert labels == ["time_sin_12h_1", "time_sin_12h_2", "time_sin_36h"]


def test_names_are_those_of_the_encoder_of_tables():
    from positional_embeddings.sklearn import PositionalEncoder

    times = ["day", "week", "year", *(dt.timedelta(days=d) for d in (0.5, 1.5, 7, 365.2425))]
    numbers = [1 / 3, 7, 1e6, 1_000_001.0]
    for name, periods in (("time", times), ("day", numbers)):
        options = {"periods": periods, "harmonics": [2, *[1] * (len(periods) - 1)]}
        table = series()[name].values[:, None]
        names = PositionalEncoder(**options).fit(table).get_feature_names_out([name])
        got = pex.encode(series(), name, **options)
        assert got.feature.values.tolist() == names.tolist()


@pytest.mark.parametrize("arrangement", ["interleaved", "concatenated"])
def test_fourier(arrangement):
    ds, wavelengths = grid(), (2.5, 10)
    got = pex.encode(ds, "lat", "fourier", wavelengths=wavelengths, arrangement=arrangement)
    assert got.dims == ("feature", "y", "x")
    labels = ["lat_sin_2.5", "lat_cos_2.5", "lat_sin_10", "lat_cos_10"]
    labels = labels if arrangement == "interleaved" else labels[::2] + labels[1::2]
    assert got.feature.values.tolist() == labels
    for label in labels:
        _, wave, wavelength = label.split("_")
        phase = 2 * np.pi * ds.lat.values / float(wavelength)
        np.testing.assert_allclose(
            got.sel(feature=label).values, getattr(np, wave)(phase), atol=1e-12
        )


@pytest.mark.parametrize("arrangement", ["interleaved", "concatenated"])
def test_fourier_of_times(arrangement):
    wavelengths = [np.timedelta64(30, "D"), dt.timedelta(hours=60)]
    got = pex.encode(series(), "time", "fourier", wavelengths=wavelengths, arrangement=arrangement)
    expected = [*sinusoids(phases(None, 30 * 86_400)), *sinusoids(phases(None, 60 * 3600))]
    expected = expected if arrangement == "interleaved" else expected[::2] + expected[1::2]
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=4e-15)
    labels = ["sin_30d", "cos_30d", "sin_60h", "cos_60h"]
    labels = labels if arrangement == "interleaved" else labels[::2] + labels[1::2]
    assert got.feature.values.tolist() == [f"time_{label}" for label in labels]


@pytest.mark.parametrize("is_lazy", [False, pytest.param(True, marks=pytest.mark.library("dask"))])
def test_calendar_periods_follow_the_clock_of_a_zone(is_lazy):
    """The clocks of Zurich changed at 01:00 UTC of 2024-03-31."""
    times = np.asarray([["2024-03-30T06:30", "2024-03-31T05:30"]], dtype="datetime64[ns]")
    clocks = times + np.asarray([1, 2], dtype="timedelta64[h]")
    ds = xr.Dataset(coords={"utc": (("y", "x"), times), "clock": (("y", "x"), clocks)})
    options = {"periods": ["day", "year", "12h"], "chunks": {"x": 1} if is_lazy else None}
    got = pex.encode(ds, "utc", time_zone="Europe/Zurich", **options)
    clock, utc = (pex.encode(ds, name, **options) for name in ("clock", "utc"))
    np.testing.assert_array_equal(got[:4].values, clock[:4].values)
    np.testing.assert_array_equal(got[4:].values, utc[4:].values)
    assert (got[:2, 0, 0].values == got[:2, 0, 1].values).all()


@pytest.mark.library("cftime")
@pytest.mark.parametrize("name", ["noleap", "360_day", "all_leap", "standard"])
def test_calendars_of_climate_models(name):
    time = xr.date_range("2000-01-15", periods=800, calendar=name, use_cftime=True)
    da = xr.DataArray(np.zeros(800), dims="time", coords={"time": time})
    got = pex.encode(da, "time", periods=["year", "month", "36h"])
    assert got.indexes["time"].equals(time)
    years = [xr.date_range(str(t.year), f"{t.year + 1}", calendar=name).size - 1 for t in time]
    year = [float(Fraction(t.dayofyr - 1, n)) for t, n in zip(time, years, strict=True)]
    month = [float(Fraction(t.day - 1, t.daysinmonth)) for t in time]
    np.testing.assert_allclose(got[:4], [*sinusoids(year), *sinusoids(month)], atol=1e-12)
    if name != "standard":
        with pytest.raises(ValueError, match=r"^`time_zone` must be left out unless"):
            pex.encode(da, "time", periods="day", time_zone="UTC")


@pytest.mark.parametrize("tick", [1 - 2**63, 2**63 - 1])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_one_first_or_last_time_is_encoded_as_among_others(tick, unit):
    times = np.asarray([tick, 0]).astype(f"datetime64[{unit}]")
    many = xr.DataArray(np.zeros(2), dims="time", coords={"time": times})
    for encoding, options in (
        ("cyclic", {"periods": ["day", "week", "year", np.timedelta64(5, "h")]}),
        ("fourier", {"wavelengths": [np.timedelta64(7, "as"), dt.timedelta(days=3)]}),
    ):
        one = pex.encode(many[0], "time", encoding, **options)
        assert one.dims == ("feature",)
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, pex.encode(many, "time", encoding, **options)[:, 0])


def test_places_on_a_grid_a_curvilinear_grid_and_at_stations():
    lat, lon = np.asarray([-90.0, 0.0, 60.0]), np.asarray([-180.0, 0.0, 90.0, 180.0])
    ds = xr.Dataset(coords={"lon": lon, "lat": lat})
    assert pex.encode(ds, ("lat", "lon"), "spherical").sizes["feature"] == 7**2
    got = pex.encode(ds, ("lat", "lon"), "spherical", degree=3)
    assert got.dims == ("feature", "lat", "lon")
    np.testing.assert_array_equal(got.values, spherical_encoding(lat[:, None], lon, 3))
    np.testing.assert_array_equal(got.sel(lon=180).values, got.sel(lon=-180).values)
    assert got.feature.values[:4].tolist() == [
        "lat_lon_l0_m0",
        "lat_lon_l1_m-1",
        "lat_lon_l1_m0",
        "lat_lon_l1_m1",
    ]
    assert got.attrs["long_name"] == "spherical encoding of lat and lon"

    curved = grid()
    got = pex.encode(curved, ["lat", "lon"], "spherical", degree=2)
    assert got.dims == ("feature", "y", "x")
    assert got.lat.attrs == curved.lat.attrs
    expected = spherical_encoding(curved.lat.values, curved.lon.values, 2)
    np.testing.assert_array_equal(got.values, expected)

    stations = xr.Dataset(coords={"lat": ("station", lat), "lon": ("station", lon[:3])})
    got = pex.encode(stations, ("lat", "lon"), "spherical", degree=2)
    np.testing.assert_array_equal(got.values, spherical_encoding(lat, lon[:3], 2))


@pytest.mark.parametrize(
    ("units", "explicit", "unit"),
    [
        ({}, None, "degrees"),
        ({"units": "radian"}, None, "radians"),
        ({"units": "degrees_north"}, None, "degrees"),
        ({"units": "degrees_north"}, "radians", "radians"),
        ({"units": "deg"}, None, "degrees"),
        ({"units": "m"}, "radians", "radians"),
    ],
)
def test_unit_of_places(units, explicit, unit):
    lat, lon = np.asarray([0.5, -1.0]), np.asarray([3.0, 0.25])
    coords = {"lat": ("place", lat, units), "lon": ("place", lon, units)}
    options = {} if explicit is None else {"unit": explicit}
    got = pex.encode(xr.Dataset(coords=coords), ("lat", "lon"), "spherical", degree=1, **options)
    np.testing.assert_array_equal(got.values, spherical_encoding(lat, lon, 1, unit=unit))


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.dtype("float32")])
def test_dtype(dtype):
    assert pex.encode(series(), "time", periods="day").dtype == np.float64
    assert pex.encode(series(), "time", periods="day", dtype=dtype).dtype == np.float32
    ds = grid()
    narrow = ds.assign_coords(lat=ds.lat.astype(np.float32))
    assert pex.encode(narrow, "lat", periods=360).dtype == np.float32
    assert pex.encode(narrow, ("lat", "lon"), "spherical", degree=1).dtype == np.float64


def test_parts_of_the_calendar_and_texts_of_spans():
    got = pex.encode(series(), "time", periods=["month", "quarter", "36h", pd.offsets.Day(2)])
    assert got.feature.values[::2].tolist() == [
        *("time_sin_month", "time_sin_quarter", "time_sin_36h", "time_sin_2d")
    ]
    expected = []
    for months in (1, 3):
        starts = [dt.datetime(2023, 13 - months, 1), dt.datetime(2024, 1, 1)]
        starts.append(dt.datetime(2024, 1 + months, 1))
        phase = []
        for time in HOURS.astype("datetime64[s]").tolist():
            start, end = starts[:2] if time < starts[1] else starts[1:]
            phase.append(Fraction((time - start) / (end - start)))
        expected += sinusoids(phase)
    expected += [*sinusoids(phases(None, 36 * 3600)), *sinusoids(phases(None, 2 * 86_400))]
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("names", "attributes"),
    [
        (("lon", "lat"), {}),
        (("longitude", "latitude"), {}),
        (("grid x", "grid y"), {"grid x": {"units": "degrees_east"}}),
        (("x", "y"), {"y": {"standard_name": "latitude"}}),
        (("x", "y"), {"x": {"units": "degree_E"}, "y": {"units": "degreesN"}}),
    ],
)
def test_latitude_and_longitude_are_told_apart(names, attributes):
    lon, lat = np.asarray([10.0, 100.0, 170.0]), np.asarray([-45.0, 60.0])
    values = dict(zip(names, (lon, lat), strict=True))
    coords = {name: (name, values[name], attributes.get(name, {})) for name in names}
    got = pex.encode(xr.Dataset(coords=coords), names, "spherical", degree=2)
    expected = spherical_encoding(lat[:, None], lon, 2)
    np.testing.assert_array_equal(got.transpose("feature", *names[::-1]).values, expected)
    assert got.feature.values[0] == f"{names[1]}_{names[0]}_l0_m0"
    plain = xr.Dataset(coords={"a": lat, "b": lon})
    got = pex.encode(plain, ("a", "b"), "spherical", degree=2)
    np.testing.assert_array_equal(got.values, expected)


def test_missing_times():
    times = HOURS.copy()
    times[3] = None
    da = xr.DataArray(np.zeros(len(HOURS)), dims="sample", coords={"seen": ("sample", times)})
    got = pex.encode(da, "seen", periods="day")
    assert got.isnull().any("feature").values.nonzero()[0].tolist() == [3]


# Attention.


# Libraries.


@pytest.fixture
def forbid_computing():
    """Return the context in which nothing may compute."""
    from dask import config

    def fail(*_, **__):
        pytest.fail("something was computed early")

    return lambda: config.set(scheduler=fail)


CALLS = {
    "lat": {"periods": [1, 360], "harmonics": 2},
    ("lat", "lon"): {"encoding": "spherical", "degree": 2},
    "seen": {"periods": ["day", "year"]},
}


@pytest.mark.library("dask")
@pytest.mark.parametrize("dim", CALLS, ids=str)
def test_coordinates_of_dask_stay_lazy(dim, forbid_computing):
    times = np.datetime64("2024-01-01") + np.arange(12).reshape(3, 4).astype("timedelta64[h]")
    ds = grid().assign_coords(seen=(("y", "x"), times.astype("datetime64[ns]")))
    lazy = ds.chunk(y=2, x=3).assign_coords(
        {name: ds[name].chunk(y=2, x=3) for name in ("lat", "seen")}
    )
    with forbid_computing():
        got = pex.encode(lazy, dim, **CALLS[dim])
    assert got.chunks[1:] == ((2, 1), (3, 1))
    expected = pex.encode(ds, dim, **CALLS[dim])
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.values, expected.values)
    with forbid_computing(), pytest.raises(ValueError, match="`arrangement` must be"):
        pex.encode(lazy, "lat", "fourier", wavelengths=[1], arrangement="mixed")
    with forbid_computing(), pytest.raises(ValueError, match="`degree` must be at most"):
        pex.encode(lazy, ("lat", "lon"), "spherical", degree=5000)


@pytest.mark.library("dask")
@pytest.mark.parametrize("is_given", [True, False])
def test_index_coordinates_are_encoded_in_chunks(is_given, forbid_computing):
    """Explicit chunks, or the chunks of the data; an index of pandas has no chunks."""
    ds = xr.Dataset(coords={"lat": np.linspace(-80, 80, 9), "lon": np.arange(0.0, 360, 30)})
    calls = {
        ("lat", "lon"): {"encoding": "spherical", "degree": 3},
        "lon": {"periods": 360, "dtype": np.float32},
    }
    wanted = {"lat": (4, 4, 1), "lon": (5, 5, 2)}
    for dim, options in calls.items():
        dims = dim if isinstance(dim, tuple) else (dim,)
        chunks = {d: wanted[d] for d in dims}
        data, option = ds, {"chunks": {d: max(lengths) for d, lengths in chunks.items()}}
        if not is_given:
            field = xr.DataArray(np.zeros((9, 12)), ds.coords, ("lat", "lon"))
            data, option = field.chunk(wanted), {}
        with forbid_computing():
            got = pex.encode(data, dim, **options, **option)
        expected = pex.encode(ds, dim, **options)
        assert got.chunks == ((expected.sizes["feature"],), *chunks.values())
        assert got.dtype == expected.dtype
        xr.testing.assert_identical(got.compute(), expected)


@pytest.mark.library("dask")
@pytest.mark.parametrize("lengths", [0, (3, 4), "x"])
def test_chunks_that_do_not_fit(lengths):
    with pytest.raises(ValueError, match=r"`chunks` must have lengths of chunks that fit"):
        pex.encode(series(), "time", periods="day", chunks={"time": lengths})


@pytest.mark.library("dask")
def test_chunks_of_a_lazy_coordinate_are_kept_unless_others_are_given():
    ds = xr.Dataset(coords={"seen": ("x", np.arange(6.0))})
    lazy = ds.assign_coords(seen=ds.seen.chunk(x=2)).assign(v=ds.seen.chunk(x=3))
    assert pex.encode(lazy, "seen", periods=4).chunks[1] == (2, 2, 2)
    assert pex.encode(lazy, "seen", periods=4, chunks={"x": 4}).chunks[1] == (4, 2)


# From a dataset to filled gaps.


@pytest.mark.library("jax")
@pytest.mark.parametrize("values", [[0.5, 1.5], [1, 2]])
def test_arrays_of_jax(values):
    import jax.numpy as jnp

    on_jax = jnp.asarray(np.asarray(values))
    da = xr.DataArray(np.zeros(2), dims="x", coords={"p": ("x", on_jax)})
    encoded = pex.encode(da, "p", periods=3)
    assert isinstance(encoded.data, type(on_jax))
    np.testing.assert_allclose(encoded.values, pe.cyclic_encoding(np.asarray(values), 3), atol=1e-6)


# Errors.


def dates(values):
    return xr.DataArray(np.zeros(2), dims="n", coords={"time": ("n", values)})


COORDS = (
    series()
    .to_dataset()
    .assign_coords(
        word=("time", ["a"] * len(HOURS)),
        rad=("time", np.zeros(len(HOURS)), {"units": "rad"}),
        arc=("time", np.zeros(len(HOURS)), {"units": "radians"}),
        lead=("time", HOURS - HOURS[0]),
    )
    .assign(lat=("x", [1.0, 2.0]))
)
CASES = {
    "xr": xr,
    "encode": pex.encode,
    "da": series(),
    "ds": COORDS,
    "metres": COORDS.assign_coords(y=("time", np.zeros(len(HOURS)), {"units": "m"})),
    "objects": dates(np.asarray([None, None], dtype=object)),
    "zoned": xr.DataArray(
        np.zeros(2),
        dims="time",
        coords={"time": pd.date_range("2024-01-01", periods=2, tz="Europe/Berlin").as_unit("ns")},
    ),
    "bare": xr.DataArray([0.0, 1.0], dims="new"),
}
VALUE_ERRORS = {
    'encode(da, "day", periods=7, time_zone="UTC")': "`time_zone` must be left out unless da['day'] holds datetimes, got zoneinfo.ZoneInfo(key='UTC').",
    'encode(da, "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are 'time', 'day', 'station'.",
    'encode(ds, "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are 'time', 'day', 'station', 'word', 'rad', 'arc', 'lead'. Pass da.assign_coords(x=range(2)) for positions from 0.",
    'encode(ds, "lat", periods=3)': "`dim` must name a coordinate, got 'lat'; there are 'time', 'day', 'station', 'word', 'rad', 'arc', 'lead'. Pass da.set_coords('lat').",
    'encode(bare, "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are none.",
    'encode(da, "time", "cyclical", periods="day")': "`encoding` must be 'cyclic' or 'fourier' or 'spherical', got 'cyclical'.",
    'encode(da, "time", periods="day", feature_dim="time")': "`feature_dim` must be a new name, got 'time'.",
    'encode(da, "time", periods="day", feature_dim="station")': "`feature_dim` must be a new name, got 'station'.",
    'encode(da, "time", periods="fortnight")': "`periods` must be 'day', 'week', 'month', 'quarter', 'year', spans such as '36h' or timedeltas for the times of da['time'], got 'fortnight'.",
    'encode(da, "time", "fourier", wavelengths=["day"])': "`wavelengths` must be spans such as '36h' or timedeltas for the times of da['time'], got 'day'.",
    'encode(da, "time", periods="day", chunks={"y": 3})': "`chunks` must be for dimensions among ('time',), got 'y'.",
    'encode(da, "time", periods=[])': "`periods` must have one value or more, got [].",
    'encode(da, "time", periods=np.timedelta64(0, "D"))': "`periods` must be above zero, got np.timedelta64(0,'D').",
    'encode(da, "day", periods=-7)': "`periods` must be a positive finite number, got -7.",
    'encode(da, "day", periods=[7, 30], harmonics=[1, 2, 3])': "`harmonics` must be a number, or a list of 2, one for each period, got 3 numbers.",
    'encode(da, "day", periods=7, harmonics=0)': "`harmonics` must be a positive integer, got 0.",
    'encode(da, "day", periods=7, harmonics=2000)': "`harmonics` must be at most 2**10, got 2000.",
    'encode(da, "day", "fourier", wavelengths=[0])': "`wavelengths` must be a positive finite number, got 0.",
    'encode(da, "day", "fourier", wavelengths=[3], arrangement="mixed")': "`arrangement` must be 'interleaved' or 'concatenated', got 'mixed'.",
    'encode(da, "day", "fourier", wavelengths=[3, 3])': "`wavelengths` must differ from each other, got 3, 3.",
    'encode(da, "day", "fourier", wavelengths=[2.0**101])': "`wavelengths` must be between 2**-64 and 2**100, got 2.535301200456459e+30.",
    'encode(da, "time", "fourier", wavelengths=np.timedelta64(1, "M"))': "`wavelengths` must be a span of time of fixed length, got np.timedelta64(1,'M').",
    'encode(da, "time", periods=["1D", np.timedelta64(24, "h")])': "`periods` must differ from each other, got 24h, 24h.",
    'encode(da, "time", periods=np.timedelta64(-1, "h"))': "`periods` must be above zero, got np.timedelta64(-1,'h').",
    'encode(ds, ("day", "rad"), "spherical", degree=3)': "`unit` must be given unless the attributes 'units' are both degrees or both radians, got degrees and rad.",
    'encode(da, "day", periods=[7, 30], harmonics=[2])': "`harmonics` must be a number, or a list of 2, one for each period, got 1 number.",
    'encode(metres, ("day", "y"), "spherical", degree=3)': "`unit` must be given unless the attributes 'units' are both degrees or both radians, got degrees and m.",
    'encode(ds, ("rad", "arc"), "spherical", degree=-1)': "`degree` must be a non-negative integer, got -1.",
    'encode(ds, ("rad", "arc"), "spherical", degree=1024)': "`degree` must be at most 1023, got 1024.",
    'encode(ds, ("rad", "arc"), "spherical", degree=3, unit="gon")': "`unit` must be 'degrees' or 'radians', got 'gon'.",
}
TYPE_ERRORS = {
    'encode(da, "time", periods="day", feature_dim=3)': "`feature_dim` must be a name, got 3.",
    'encode(da, {"time"}, periods="day")': "`dim` must be a name, got {'time'}.",
    'encode(da, "time", periods="day", chunks=3)': "`chunks` must be a mapping from dimensions to lengths, got 3.",
    'encode(np.zeros(3), "time", periods="day")': "`da` must be an xarray.DataArray or an xarray.Dataset, got numpy.ndarray.",
    'encode([da], "time", periods="day")': "`da` must be an xarray.DataArray or an xarray.Dataset, got list.",
    'encode(da, ("time", "day"), periods=3)': "`dim` must be one name for 'cyclic', got ('time', 'day'). Pass encoding=\"spherical\" for latitude and longitude.",
    'encode(ds, "lat", "spherical", degree=3)': '`dim` must be the names of latitude and longitude, such as ("lat", "lon"), got \'lat\'.',
    'encode(ds, ("lat", "lon", "height"), "spherical", degree=3)': "`dim` must be the names of latitude and longitude, such as (\"lat\", \"lon\"), got ('lat', 'lon', 'height').",
    'encode(da, "time")': '`periods` must be given for \'cyclic\', got none. Pass periods=["day", "year"], or others.',
    'encode(da, "time", period="day")': "`options` must be among periods, harmonics and dtype for 'cyclic', got 'period'. Did you mean periods?",
    'encode(ds, ("rad", "arc"), "spherical", order=3)': "`options` must be among degree, unit and dtype for 'spherical', got 'order'.",
    'encode(da, "time", periods=365.25)': "`periods` must be 'day', 'week', 'month', 'quarter', 'year', spans such as '36h' or timedeltas for the times of da['time'], got 365.25. Name the unit, such as '365.25h' or '365.25D'.",
    'encode(da, "day", periods="day")': "`periods` must be a positive finite number for the numbers of da['day'], got 'day'. Convert dates, as with pandas.to_datetime; numbers need an encoder of their own.",
    'encode(da, "day", periods=7, dtype=int)': "`dtype` must be a real floating-point dtype of the library, got dtype('int64').",
    'encode(da, "day", periods=7, dtype="number")': "data type 'number' not understood",
    'encode(da, "day", "fourier", wavelengths=np.timedelta64(3, "D"))': "`wavelengths` must be a positive finite number, got np.timedelta64(3,'D') of type timedelta64. Pass days_since(wavelengths).",
    'encode(da, "time", "fourier", wavelengths=[3])': "`wavelengths` must be spans such as '36h' or timedeltas for the times of da['time'], got 3. Name the unit, such as '3h' or '3D'.",
    'encode(da, "time", "fourier", wavelengths=np.timedelta64(1, "D"), unit="D")': "`options` must be among wavelengths, arrangement and dtype for 'fourier', got 'unit'.",
    'encode(ds, ("day", "day"), "spherical", degree=3)': "`dim` must be the names of latitude and longitude, such as (\"lat\", \"lon\"), got ('day', 'day').",
    'encode(ds, ("time", "rad"), "spherical", degree=3)': "`da['time']` must hold numbers, got datetime64[ns].",
    'encode(ds, "word", periods=3)': "`da['word']` must hold numbers or dates, got <U1.",
    'encode(ds, "lead", periods=3)': "`da['lead']` must hold numbers or dates, got timedelta64[ns]. Pass da.assign_coords(lead=days_since(da['lead'])).",
    'encode(objects, "time", periods="day")': "`da['time']` must hold numbers or dates, got object.",
    'encode(zoned, "time", periods="day")': "`da['time']` must hold numbers or dates, got datetime64[ns, Europe/Berlin]. Pass da.assign_coords(time=days_since(da['time'])).",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, **CASES)
