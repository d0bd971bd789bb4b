"""Encodings and attention of xarray: the numbers of the bare functions, under names."""

# ruff: noqa: DTZ001 - clocks on walls have no zone

import datetime as dt
import importlib
import itertools
import sys
from fractions import Fraction
from math import cos, pi, prod, sin

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import positional_embeddings as pe
from positional_embeddings import xarray as pex
from positional_embeddings.arrays.find import space_of
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


def waves(phases, harmonics=1):
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
        *waves(phases("day"), 2),
        *waves(phases("week")),
        *waves(phases("year"), 3),
        *waves(phases(None, 43_200)),
        *waves(phases(None, 7 * 86_400)),
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
    np.testing.assert_allclose(got.values, waves(phases(period, seconds)), rtol=0, atol=4e-15)


@pytest.mark.parametrize("periods", [365.25, [365.25, 7], np.asarray([365.25, 7.0])])
def test_cyclic_of_numbers(periods):
    got = pex.encode(series(), "day", periods=periods, harmonics=3)
    days = series().day.values.tolist()
    expected = [
        wave
        for period in np.ravel(periods).tolist()
        for wave in waves([Fraction(day) / Fraction(period) for day in days], 3)
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
    expected = [*waves(phases(None, 30 * 86_400)), *waves(phases(None, 60 * 3600))]
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
    np.testing.assert_allclose(got[:4], [*waves(year), *waves(month)], atol=1e-12)
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
    ("units", "given", "unit"),
    [
        ({}, None, "degrees"),
        ({"units": "radian"}, None, "radians"),
        ({"units": "degrees_north"}, None, "degrees"),
        ({"units": "degrees_north"}, "radians", "radians"),
        ({"units": "deg"}, None, "degrees"),
        ({"units": "m"}, "radians", "radians"),
    ],
)
def test_unit_of_places(units, given, unit):
    lat, lon = np.asarray([0.5, -1.0]), np.asarray([3.0, 0.25])
    coords = {"lat": ("place", lat, units), "lon": ("place", lon, units)}
    options = {} if given is None else {"unit": given}
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
        expected += waves(phase)
    expected += [*waves(phases(None, 36 * 3600)), *waves(phases(None, 2 * 86_400))]
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


def test_attention_to_each_variable_of_a_dataset():
    da = series()
    ds = xr.Dataset(
        {"t2m": da, "count": ("time", np.arange(len(HOURS))), "height": 3.0}, attrs={"by": "us"}
    )
    ds["gaps"] = da.where(np.arange(len(HOURS)) % 3 > 0)
    times = pex.encode(ds, "time", periods=["day", "2D"])
    options = {"dim": "time", "feature_dim": "feature"}
    got = pex.attention(times[:, ::2], times, ds, mask=ds.isnull(), **options)
    assert got.attrs == ds.attrs
    assert got.height.identical(ds.height)
    for name in ("t2m", "gaps"):
        one = pex.attention(times[:, ::2], times, ds[name], mask=ds[name].isnull(), **options)
        xr.testing.assert_identical(got[name].reset_coords(drop=True), one.reset_coords(drop=True))
    counts = pex.attention(times, times, ds["count"].astype(float), **options)
    xr.testing.assert_identical(pex.attention(times, times, ds["count"], **options), counts)
    xr.testing.assert_identical(pex.attention(times, times, ds, **options)["count"], counts)


def test_missing_times():
    times = HOURS.copy()
    times[3] = None
    da = xr.DataArray(np.zeros(len(HOURS)), dims="sample", coords={"seen": ("sample", times)})
    got = pex.encode(da, "seen", periods="day")
    assert got.isnull().any("feature").values.nonzero()[0].tolist() == [3]


# Attention.


def sample(rng, sizes, dtype=np.float64):
    coords = {d: np.arange(n) for d, n in sizes.items() if d in ("time", "new")}
    return xr.DataArray(
        rng.standard_normal(tuple(sizes.values())).astype(dtype), dims=tuple(sizes), coords=coords
    )


SIZES = {"new": 4, "time": 5, "f": 3, "g": 2, "head": 2, "lat": 3}


def reference(query, key, value, mask=None, bias=None, **options):
    """Return the attention of each combination of the further dimensions by the bare function."""
    terms = {n: t for n, t in (("mask", mask), ("bias", bias)) if t is not None}
    given = [query, key, value, *terms.values()]
    further = sorted({d for a in given for d in a.dims} - {"new", "time", "f"})
    v_features = value.sizes.get("f", 1)
    out = np.empty((*(SIZES[d] for d in further), query.sizes["new"], v_features))

    def at(array, place, dims):
        array = array.isel({d: i for d, i in place.items() if d in array.dims})
        return array.expand_dims([d for d in dims if d not in array.dims]).transpose(*dims).values

    for index in itertools.product(*(range(SIZES[d]) for d in further)):
        place = dict(zip(further, index, strict=True))
        arrays = [at(query, place, ("f", "new"))]
        arrays += [at(array, place, ("f", "time")) for array in (key, value)]
        own = {name: at(term, place, ("new", "time")) for name, term in terms.items()}
        out[index] = pe.scaled_dot_product_attention(*arrays, **own, **options).T
    result = xr.DataArray(out, dims=(*further, "new", "f"))
    return result if "f" in value.dims else result.isel(f=0)


@pytest.mark.parametrize("seed", range(40))
def test_attention_is_that_of_each_combination_of_the_further_dimensions(seed):
    """Arrays have any of the further dimensions, and theirs in any order."""
    rng = np.random.default_rng(seed)

    def drawn(*dims):
        further = [d for d in ("g", "head", "lat") if rng.random() < 0.4]
        order = rng.permutation([*dims, *further])
        return sample(rng, {d: SIZES[d] for d in order.tolist()})

    query, key = drawn("new", "f"), drawn("time", "f")
    value = drawn("time", "f") if seed % 2 else drawn("time")
    mask = drawn("time", "new") > 0.5 if seed % 3 else drawn("time") > 0.5
    bias = drawn("time", "new") if seed % 5 else None
    mask = mask if seed % 4 else None
    options = [{}, {"scale": 0.3}, {"softcap": 2.0}, {"block_size": 2}][seed // 7 % 4]
    got = pex.attention(
        query,
        key,
        value,
        dim=("new", "time"),
        feature_dim="f",
        mask=mask,
        bias=bias,
        fill_value=0.0,
        **options,
    )
    expected = reference(query, key, value, mask, bias, **options)
    assert set(got.dims) == set(expected.dims)
    own = [{"time": "new"}.get(d, d) for d in value.dims]
    assert list(got.dims[len(got.dims) - len(own) :]) == own
    np.testing.assert_allclose(got.transpose(*expected.dims).values, expected.values, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_places_that_hide_other_keys(dtype, has_bias):
    """Some see nothing, some only keys of weights that are too small for a float."""
    rng = np.random.default_rng(1)
    query, key = (sample(rng, {n: SIZES[n], "f": 3}, dtype) for n in ("new", "time"))
    value = sample(rng, {"lat": 3, "g": 2, "time": 5}, dtype)
    key[4] = -30 * query[0]
    mask = sample(rng, {"g": 2, "time": 5, "lat": 3}) > 0.5
    mask[0, :, 0] = True
    mask[0, :, 1] = [True, True, True, True, False]
    value = value.where(~mask, np.nan)
    mask[1, 0, 2], value[2, 1, 0] = False, np.inf
    bias = sample(rng, {"new": 4, "time": 5}, dtype) if has_bias else None
    options = {"mask": mask, "bias": bias, "scale": 20.0}
    got = pex.attention(query, key, value, dim=("new", "time"), feature_dim="f", **options)
    expected = reference(query, key, value, **options)
    hidden = mask.all("time")
    assert got.dtype == dtype
    assert bool(got.where(hidden, np.nan).isnull().all())
    assert bool(got.isel(g=0, lat=1).notnull().all())
    assert bool(got.isel(g=1, lat=2).isnull().all())
    places = (~hidden).broadcast_like(expected)
    expected = expected.where(places)
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got.transpose(*expected.dims), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "hides",
    [
        {},
        {"mask": xr.DataArray(np.arange(6) == 5, dims="time")},
        {"mask": xr.DataArray(np.arange(6) == 5, dims="time").expand_dims(place=3)},
        {"mask": pe.CausalMask()},
        {"bias": xr.DataArray([0.0, 0, 0, 0, 0, -np.inf], dims="time")},
    ],
    ids=["none", "shared", "each", "causal", "bias"],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_at_one_place_does_not_reach_another(hides, bad):
    rng = np.random.default_rng(0)
    query = sample(rng, {"time": 6, "f": 3})
    value = sample(rng, {"time": 6, "place": 3, "f": 2})
    value[3, 1, 0], value[5, 2, 0] = bad, bad
    got = pex.attention(query, query, value, dim="time", feature_dim="f", **hides)
    for place in range(3):
        here = hides
        if "place" in getattr(hides.get("mask"), "dims", ()):
            here = {"mask": hides["mask"][place]}
        one = value.isel(place=place)
        expected = pex.attention(query, query, one, dim="time", feature_dim="f", **here)
        np.testing.assert_allclose(got.isel(place=place), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("hidden", "size"), [(36, 1e-24), (24, 1e-33)])
def test_places_of_tiny_values_keep_their_digits(hidden, size):
    """Where the weights of the keys are tiny, and where only their products with values are."""
    t = np.arange(40.0)
    angles = np.stack([np.cos(t / 40), np.sin(t / 40)]).astype(np.float32)
    query = xr.DataArray(angles, dims=("f", "time"))
    tiny = (1 + np.random.default_rng(0).random((40, 2))) * size
    value = xr.DataArray(tiny.astype(np.float32), dims=("time", "place"))
    mask = xr.DataArray(np.stack([t < hidden, t < 0], axis=1), dims=("time", "place"))
    options = {"dim": "time", "feature_dim": "f", "scale": 100}
    both = pex.attention(query, query, value, mask=mask, **options)
    for place in range(2):
        alone = pex.attention(query, query, value[:, place], mask=mask[:, place], **options)
        np.testing.assert_allclose(both[:, place], alone, rtol=2e-6)


@pytest.fixture
def scores(monkeypatch):
    """Return a list of how many scores each call of the bare function has, and if it has a mask."""
    calls, bare = [], pex.scaled_dot_product_attention

    def attend(query, key, value, **options):
        calls.append((query.shape[-2] * prod(key.shape[:-1]), "mask" in options))
        return bare(query, key, value, **options)

    monkeypatch.setattr(pex, "scaled_dot_product_attention", attend)
    return calls


def test_places_that_hide_keys_cost_no_scores_of_their_own(scores):
    """Neither do one of zeros, and one that sees nothing; one of tiny weights does."""
    n, places = 20, 6
    t = np.arange(n) / n
    times = xr.DataArray(np.stack([np.cos(t), np.sin(t)]), dims=("f", "time"))
    value = xr.DataArray(np.ones((places, n)), dims=("place", "time"))
    value[1] = 0.0
    mask = xr.DataArray(np.eye(places, n, dtype=bool), dims=("place", "time"))
    mask[2] = True
    options = {"dim": "time", "feature_dim": "f"}
    pex.attention(times, times, value, mask=mask, **options)
    pex.attention(times, times, value, mask=mask, bias=value[0], **options)
    pex.attention(times, times, value[:2], mask=mask[:2], **options)
    assert scores == [(n * n, False)] * 3
    scores.clear()
    mask[3] = t < 0.9
    pex.attention(times, times, value, mask=mask, scale=5000, **options)
    heads = times.expand_dims(head=2)
    pex.attention(heads, heads, value, mask=mask, scale=5000, **options)
    assert scores == [(count * n * n, own) for count in (1, 2) for own in (False, True)]
    scores.clear()
    pex.attention(times, times, value, mask=mask, bias=value, **options)
    assert scores == [(places * n * n, True)]


def test_a_grid_is_attended_over_as_the_error_says():
    ds = xr.Dataset(coords={"lat": [50.0, -10.0, 20.0], "lon": [-179.0, 179.0, 0.0, 90.0]})
    places = pex.encode(ds, ("lat", "lon"), "spherical", degree=2)
    values = sample(np.random.default_rng(0), {"lat": 3, "lon": 4}).assign_coords(ds.coords)
    names = {"dim": ("lat", "lon"), "feature_dim": "feature"}
    with pytest.raises(ValueError, match="one name for queries and keys that have both"):
        pex.attention(places, places, values, **names)
    cells, column = (a.stack(cell=("lat", "lon")) for a in (places, values))
    got = pex.attention(cells, cells, column, dim="cell", feature_dim="feature").unstack("cell")
    q, v = places.values.reshape(9, 12), values.values.reshape(1, 12)
    expected = pe.scaled_dot_product_attention(q, q, v).reshape(3, 4)
    np.testing.assert_allclose(got.reindex_like(values), expected, atol=1e-12)


def test_names_coordinates_and_attributes_of_attention():
    rng = np.random.default_rng(0)
    query = sample(rng, {"new": 4, "f": 3}).assign_coords(
        f=["a", "b", "c"], season=("new", list("wsws"))
    )
    key = sample(rng, {"f": 3, "time": 5}).assign_coords(f=list("xyz"), mood=("time", range(5)))
    value = sample(rng, {"lat": 3, "f": 2, "time": 5}, np.float32).assign_coords(
        f=["u", "v"], lat=("lat", [1, 2, 3], {"units": "degrees_north"}), height=2.0
    )
    value.name, value.attrs = "wind", {"units": "m/s"}
    got = pex.attention(query, key, value, dim=("new", "time"), feature_dim="f")
    assert (got.dims, got.name, got.attrs) == (("lat", "f", "new"), "wind", {"units": "m/s"})
    assert got.dtype == np.float32
    assert set(got.coords) == {"new", "season", "lat", "f", "height"}
    assert got.f.values.tolist() == ["u", "v"]
    xr.testing.assert_identical(got.season.drop_vars("height"), query.season)
    assert got.lat.attrs == {"units": "degrees_north"}
    wide = pex.attention(query, key, value.astype(float), dim=("new", "time"), feature_dim="f")
    np.testing.assert_allclose(got.values, wide.values, rtol=1e-6)


def test_one_name_for_queries_and_keys():
    """The times of the queries need not be those of the keys; a mask has those of the keys."""
    rng = np.random.default_rng(1)
    key, value = sample(rng, {"f": 3, "time": 5}), sample(rng, {"time": 5})
    query = sample(rng, {"time": 4, "f": 3}).assign_coords(time=[10, 20, 30, 40])
    mask = value > 0.5
    got = pex.attention(query, key, value, dim="time", feature_dim="f", mask=mask)
    expected = pe.scaled_dot_product_attention(
        query.values.T, key.values, value.values[None], mask=mask.values[None]
    )
    np.testing.assert_allclose(got.values, expected[0], atol=1e-12)
    assert got.time.values.tolist() == [10, 20, 30, 40]


def test_stacked_dimensions_are_unstacked_again():
    rng = np.random.default_rng(2)
    ds = sample(rng, {"f": 3, "y": 2, "x": 3}).assign_coords(y=[10, 20], x=[1, 2, 3])
    places = ds.stack(place=("y", "x"))
    got = pex.attention(
        places, places, ds[0].stack(place=("y", "x")), dim="place", feature_dim="f"
    ).unstack("place")
    x = ds.values.reshape(3, 6)
    expected = pe.scaled_dot_product_attention(x, x, x[:1]).reshape(2, 3)
    np.testing.assert_allclose(got.values, expected, atol=1e-12)
    assert got.y.values.tolist() == [10, 20]


@pytest.mark.parametrize("offset", [None, 1])
def test_mask_of_the_library(offset):
    rng = np.random.default_rng(3)
    query, key, value = (
        sample(rng, {"lat": 3, "new": 4, "f": 3}),
        sample(rng, {"lat": 3, "time": 5, "f": 3}),
        sample(rng, {"lat": 3, "time": 5, "f": 2}),
    )
    mask = pe.CausalMask() | pe.SlidingWindowMask(1, 0)
    got = pex.attention(
        query, key, value, dim=("new", "time"), feature_dim="f", mask=mask, offset=offset
    )
    expected = pe.scaled_dot_product_attention(
        query.values,
        key.values,
        value.values,
        mask=mask,
        offset=offset,
        feature_axis=-1,
        seq_axis=-2,
    )
    np.testing.assert_allclose(got.values, expected, atol=1e-12)
    early = pe.FunctionMask(lambda q_pos, k_pos: k_pos < 2 + 0 * q_pos)
    got = pex.attention(query, key, value, dim=("new", "time"), feature_dim="f", mask=early)
    assert got.notnull().all()


def test_queries_without_keys_get_the_fill_value():
    rng = np.random.default_rng(4)
    query, key = sample(rng, {"new": 2, "f": 3}), sample(rng, {"time": 5, "f": 3})
    value = sample(rng, {"time": 5, "lat": 3})
    value[:, 1] = np.nan
    value[2, 0] = np.nan
    options = {"dim": ("new", "time"), "feature_dim": "f", "mask": value.isnull()}
    got = pex.attention(query, key, value, **options)
    assert got.isnull().values.tolist() == [[False, True, False]] * 2
    assert (pex.attention(query, key, value, **options, fill_value=-1)[:, 1] == -1).all()
    none = pex.attention(query, key[:0], value[:0], dim=("new", "time"), feature_dim="f")
    assert none.shape == (2, 3)
    assert none.isnull().all()


def test_labels_that_conflict_are_an_error():
    rng = np.random.default_rng(5)
    key, value = sample(rng, {"f": 3, "time": 5}), sample(rng, {"time": 5})
    later = value.assign_coords(time=value.time + 1)
    with pytest.raises(ValueError, match=r"`value` .* cannot align objects .*'time'"):
        pex.attention(key, key, later, dim="time", feature_dim="f")
    for name, term in {"mask": later > 0, "bias": later}.items():
        with pytest.raises(ValueError, match=rf"`{name}` .* cannot align objects .*'time'"):
            pex.attention(key, key, value, dim="time", feature_dim="f", **{name: term})
    named, other = key.assign_coords(f=list("abc")), key.assign_coords(f=list("acb"))
    with pytest.raises(ValueError, match=r"cannot align objects .*'f'"):
        pex.attention(named, other, value, dim="time", feature_dim="f")
    with pytest.raises(ValueError, match=r"cannot .*'f'"):
        pex.attention(key[:2], key, value, dim="time", feature_dim="f")


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
    """Those that are given, or those of the data; an index of pandas has none."""
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


@pytest.mark.library("dask")
@pytest.mark.parametrize("chunks", [{"lat": 2}, {"lat": 2, "time": 3}, {"time": 2, "head": 1}])
def test_attention_on_dask_stays_lazy(chunks, forbid_computing):
    rng = np.random.default_rng(6)
    query, key = sample(rng, {"head": 2, "new": 4, "f": 3}), sample(rng, {"f": 3, "time": 5})
    value, mask = sample(rng, {"lat": 3, "time": 5, "f": 2}), sample(rng, {"time": 5, "lat": 3}) > 0
    options = {"dim": ("new", "time"), "feature_dim": "f"}
    expected = pex.attention(query, key, value, mask=mask, **options)
    own = {
        name: {d: n for d, n in chunks.items() if d in a.dims}
        for name, a in (("query", query), ("value", value), ("mask", mask))
    }
    with forbid_computing():
        got = pex.attention(
            query.chunk(own["query"]),
            key,
            value.chunk(own["value"]),
            mask=mask.chunk(own["mask"]),
            **options,
        )
        partly = pex.attention(query, key, value.chunk(own["value"]), mask=mask, **options)
    assert got.chunksizes["new"] == (4,)
    assert got.chunksizes["lat"] == ((2, 1) if "lat" in chunks else (3,))
    assert got.chunksizes["head"] == ((1, 1) if "head" in chunks else (2,))
    for lazy in (got, partly):
        assert lazy.chunks is not None
        assert lazy.dtype == expected.dtype
        np.testing.assert_allclose(lazy.values, expected.values, atol=1e-12)
    window = pex.attention(
        query.chunk(),
        key,
        value.chunk(own["value"]),
        mask=pe.CausalMask(),
        **options,
    )
    expected = pex.attention(query, key, value, mask=pe.CausalMask(), **options)
    np.testing.assert_allclose(window.values, expected.values, atol=1e-12)


@pytest.mark.library("jax")
def test_arrays_of_jax():
    import jax.numpy as jnp

    rng = np.random.default_rng(7)
    arrays = [sample(rng, {"time": 5, "f": n}, np.float32) for n in (3, 3, 2)]
    on_jax = [a.copy(data=jnp.asarray(a.values)) for a in arrays]
    mask = arrays[2][:, 0] > 0
    options = {"dim": "time", "feature_dim": "f"}
    got = pex.attention(*on_jax, mask=mask.copy(data=jnp.asarray(mask.values)), **options)
    assert isinstance(got.data, type(on_jax[0].data))
    expected = pex.attention(*arrays, mask=mask, **options)
    np.testing.assert_allclose(
        space_of(x=got.data).to_numpy(got.data), expected.values, rtol=1e-5, atol=1e-6
    )
    for values in (np.asarray([0.5, 1.5], np.float32), np.asarray([1, 2], np.int32)):
        da = xr.DataArray(values, dims="x", coords={"p": ("x", jnp.asarray(values))})
        encoded = pex.encode(da, "p", periods=3)
        assert isinstance(encoded.data, type(on_jax[0].data))
        np.testing.assert_allclose(encoded.values, pe.cyclic_encoding(values, 3), atol=1e-6)


# From a dataset to filled gaps.


def test_gaps_of_a_dataset_are_filled_without_glue():
    rng = np.random.default_rng(8)
    time = pd.date_range("2024-01-01", periods=240, freq="3h")
    lat, lon = np.linspace(-60, 60, 4), np.linspace(0, 300, 6)
    hour = 3 * np.arange(240)
    truth = xr.Dataset(
        {
            "t2m": (
                ("time", "lat", "lon"),
                20 * np.cos(np.radians(lat))[:, None]
                + 5 * np.sin(np.radians(lon))
                + (4 * np.sin(2 * np.pi * hour / 24) + hour / 240)[:, None, None],
                {"units": "degC"},
            )
        },
        coords={"time": time, "lat": lat, "lon": lon},
    )
    ds = truth.where(truth.t2m.copy(data=rng.random(truth.t2m.shape)) > 0.3)
    ds["t2m"][:, 0, 0] = np.nan  # a place without any

    # Along time: each place has gaps of its own.
    wavelengths = [pd.Timedelta(days=60), pd.Timedelta(days=120)]
    times = xr.concat(
        [
            7 * pex.encode(ds, "time", periods="day"),
            10 * pex.encode(ds, "time", "fourier", wavelengths=wavelengths),
        ],
        "feature",
    )
    filled = ds.t2m.fillna(
        pex.attention(
            times, times, ds.t2m, dim="time", feature_dim="feature", mask=ds.t2m.isnull(), scale=2
        )
    )
    assert filled.dims == ds.t2m.dims
    assert filled.attrs == {"units": "degC"}
    assert filled.isnull().sum() == time.size
    assert filled[:, 0, 0].isnull().all()
    error = abs(filled - truth.t2m).where(ds.t2m.isnull())
    assert float(error.mean()) < 0.2
    assert float(error.mean()) < 0.1 * float(abs(ds.t2m.mean("time") - truth.t2m).mean())

    # Along places: what lacks there comes from its neighbours, as far as they tell.
    places = pex.encode(ds, ("lat", "lon"), "spherical", degree=6).stack(place=("lat", "lon"))
    stacked = filled.stack(place=("lat", "lon"))
    everywhere = stacked.fillna(
        pex.attention(
            places,
            places,
            stacked,
            dim="place",
            feature_dim="feature",
            mask=stacked.isnull(),
            scale=20,
        )
    ).unstack("place")
    assert everywhere.isnull().sum() == 0
    assert abs(everywhere - truth.t2m).max() < 12


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
    "attention": pex.attention,
    "da": series(),
    "ds": COORDS,
    "metres": COORDS.assign_coords(y=("time", np.zeros(len(HOURS)), {"units": "m"})),
    "objects": dates(np.asarray([None, None], dtype=object)),
    "zoned": xr.DataArray(
        np.zeros(2),
        dims="time",
        coords={"time": pd.date_range("2024-01-01", periods=2, tz="Europe/Berlin").as_unit("ns")},
    ),
    "q": sample(np.random.default_rng(0), {"new": 4, "f": 3}),
    "k": sample(np.random.default_rng(0), {"time": 5, "f": 3}),
    "v": sample(np.random.default_rng(0), {"time": 5, "g": 2}),
    "pair": {"dim": ("new", "time"), "feature_dim": "f"},
    "one": {"dim": "time", "feature_dim": "f"},
}
VALUE_ERRORS = {
    'attention(q.expand_dims("time"), k.expand_dims("new"), v, **pair)': "`dim` must be one name for queries and keys that have both, got ('new', 'time'). Make one of a grid's by .stack(cell=('new', 'time')) of all arrays: dim='cell'.",
    'encode(da, "day", periods=7, time_zone="UTC")': "`time_zone` must be left out unless da['day'] holds datetimes, got zoneinfo.ZoneInfo(key='UTC').",
    'encode(da, "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are 'time', 'day', 'station'.",
    'encode(ds, "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are 'time', 'day', 'station', 'word', 'rad', 'arc', 'lead'. Pass da.assign_coords(x=range(2)) for positions from 0.",
    'encode(ds, "lat", periods=3)': "`dim` must name a coordinate, got 'lat'; there are 'time', 'day', 'station', 'word', 'rad', 'arc', 'lead'. Pass da.set_coords('lat').",
    'encode(q.drop_vars("new"), "x", periods=3)': "`dim` must name a coordinate, got 'x'; there are none.",
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
    "attention(q, k, v, **one)": "`query` must have the dimension 'time', got dimensions ('new', 'f').",
    "attention(k, q, v, **pair)": "`query` must have the dimension 'new', got dimensions ('time', 'f').",
    'attention(q, k, v, dim=("new", "old"), feature_dim="f")': "`key` must have the dimension 'old', got dimensions ('time', 'f').",
    'attention(q, k, v, dim="time", feature_dim="g")': "`query` must have the dimension 'time', got dimensions ('new', 'f').",
    'attention(q, k, v, dim=("new", "time", "old"), feature_dim="f")': "`dim` must be one name, or those of queries and keys, got ('new', 'time', 'old').",
    'attention(q, k, v, dim=("new", "time"), feature_dim="time")': "`feature_dim` must not be in `dim`, ('new', 'time'), got 'time'.",
    'attention(q.expand_dims("time"), k, v, **pair)': "`query` must not have the dimension 'time', got dimensions ('time', 'new', 'f').",
    'attention(q, k.expand_dims("new"), v, **pair)': "`key` must not have the dimension 'new', got dimensions ('new', 'time', 'f').",
    'attention(q, k, v.expand_dims("new"), **pair)': "`value` must not have the dimension 'new', got dimensions ('new', 'time', 'g').",
    'attention(q, k, v.to_dataset(name="u"), dim="tme", feature_dim="f")': "`value` must have a variable with the dimension 'tme', got dimensions ('time', 'g').",
    'attention(q, k, v.to_dataset(name="u"), mask=(v > 0).to_dataset(name="w"), **pair)': "`mask` must have a variable for value['u'], got variables ['w'].",
    "attention(q, k, v, mask=q[:, 0] > 0, **pair)": "`mask` must have the dimension 'time', got dimensions ('new',).",
    "attention(q, k, v, mask=k > 0, **pair)": "`mask` must not have the dimension 'f', got dimensions ('time', 'f').",
    "attention(q, k, v, mask=PaddingMask([3, 4]), **pair)": "`mask` must be for one sequence, got one for 2. Pass an xarray.DataArray with the dimension of the sequences.",
    "attention(q, k, v, bias=q[:, 0], **pair)": "`bias` must have the dimension 'time', got dimensions ('new',).",
    "attention(q, k, v, scale=-1, **pair)": "`scale` must be a positive finite number, got -1.",
    "attention(q, k, v, softcap=0, **pair)": "`softcap` must be a positive finite number, got 0.",
    "attention(q, k, v, offset=1, **pair)": "`offset` must be left out unless `mask` is a `Mask`, got 1.",
    "attention(q, k, v, offset=1, mask=v > 0, **pair)": "`offset` must be left out unless `mask` is a `Mask`, got 1.",
    "attention(q, k, v, block_size=0, **pair)": "`block_size` must be a positive integer, got 0.",
}
TYPE_ERRORS = {
    "attention(q, k, v, fill_value=[0.0], **pair)": "`fill_value` must be a finite number, got [0.0] of type list.",
    'encode(da, "time", periods="day", feature_dim=3)': "`feature_dim` must be a name, got 3.",
    'encode(da, {"time"}, periods="day")': "`dim` must be a name, got {'time'}.",
    'attention(q, k, xr.Dataset({"u": v, "s": ("time", ["a"] * v.sizes["time"])}), **pair)': "`value['s']` must have an integer or real dtype, got str32.",
    "attention(q, k, v, mask=v.to_dataset(name='u'), **pair)": "`mask` must be an xarray.DataArray of bool or a `Mask`, got xarray.core.dataset.Dataset.",
    'encode(da, "time", periods="day", chunks=3)': "`chunks` must be a mapping from dimensions to lengths, got 3.",
    'encode(np.zeros(3), "time", periods="day")': "`da` must be an xarray.DataArray or an xarray.Dataset, got numpy.ndarray.",
    'encode([da], "time", periods="day")': "`da` must be an xarray.DataArray or an xarray.Dataset, got list.",
    'encode(da, ("time", "day"), periods=3)': "`dim` must be one name for 'cyclic', got ('time', 'day').",
    'encode(ds, "lat", "spherical", degree=3)': "`dim` must be the names of latitude and longitude, got 'lat'.",
    'encode(ds, ("lat", "lon", "height"), "spherical", degree=3)': "`dim` must be the names of latitude and longitude, got ('lat', 'lon', 'height').",
    'encode(da, "time")': "`periods` must be given for 'cyclic', got no such option.",
    'encode(da, "time", period="day")': "`options` must be among periods, harmonics and dtype for 'cyclic', got 'period'.",
    'encode(ds, ("rad", "arc"), "spherical", order=3)': "`options` must be among degree, unit and dtype for 'spherical', got 'order'.",
    'encode(da, "time", periods=365.25)': "`periods` must be 'day', 'week', 'month', 'quarter', 'year', spans such as '36h' or timedeltas for the times of da['time'], got 365.25.",
    'encode(da, "day", periods="day")': "`periods` must be a positive finite number for the numbers of da['day'], got 'day'. Convert dates, as with pandas.to_datetime; numbers need an encoder of their own.",
    'encode(da, "day", periods=7, dtype=int)': "`dtype` must be a real floating-point dtype of the library, got dtype('int64').",
    'encode(da, "day", periods=7, dtype="number")': "data type 'number' not understood",
    'encode(da, "day", "fourier", wavelengths=np.timedelta64(3, "D"))': "`wavelengths` must be a positive finite number, got np.timedelta64(3,'D') of type timedelta64. Pass days_since(wavelengths).",
    'encode(da, "time", "fourier", wavelengths=[3])': "`wavelengths` must be spans such as '36h' or timedeltas for the times of da['time'], got 3.",
    'encode(da, "time", "fourier", wavelengths=np.timedelta64(1, "D"), unit="D")': "`options` must be among wavelengths, arrangement and dtype for 'fourier', got 'unit'.",
    'encode(ds, ("day", "day"), "spherical", degree=3)': "`dim` must be the names of latitude and longitude, got ('day', 'day').",
    'encode(ds, ("time", "rad"), "spherical", degree=3)': "`da['time']` must hold numbers, got datetime64[ns].",
    'encode(ds, "word", periods=3)': "`da['word']` must hold numbers or dates, got <U1.",
    'encode(ds, "lead", periods=3)': "`da['lead']` must hold numbers or dates, got timedelta64[ns]. Pass da.assign_coords(lead=days_since(da['lead'])).",
    'encode(objects, "time", periods="day")': "`da['time']` must hold numbers or dates, got object.",
    'encode(zoned, "time", periods="day")': "`da['time']` must hold numbers or dates, got datetime64[ns, Europe/Berlin]. Pass da.assign_coords(time=days_since(da['time'])).",
    "attention(q.values, k, v, **pair)": "`query` must be an xarray.DataArray, got numpy.ndarray of shape (4, 3).",
    "attention(q, k, v > 0, **pair)": "`value` must have a real floating-point dtype, got bool.",
    "attention(q, k.astype(int), v, **pair)": "`key` must have a real floating-point dtype, got int64.",
    "attention(q, k, v, mask=v, **pair)": "`mask` must have a boolean dtype, True where a query may not attend, got float64. Pass mask < 0 if it would be added to scores.",
    "attention(q, k, v, mask=v.values > 0, **pair)": "`mask` must be an xarray.DataArray of bool or a `Mask`, got numpy.ndarray of shape (5, 2).",
    "attention(q, k, v, mask=CausalMask, **pair)": "`mask` must be an xarray.DataArray of bool or a `Mask`, got <class 'positional_embeddings.masks.by_position.CausalMask'>.",
    "attention(q, k, v, bias=v > 0, **pair)": "`bias` must have a real floating-point dtype, got bool.",
    "attention(q, k, v, bias=alibi_bias(1, 4, 5), **pair)": "`bias` must be an xarray.DataArray, got numpy.ndarray of shape (4, 5, 1).",
    "attention(q, k, v, bias=ALiBiBias(1), **pair)": "`bias` must be an xarray.DataArray, got ALiBiBias(num_heads=1, causal=True, slopes=None).",
    "attention(q, k, v, offset=0.5, mask=CausalMask(), **pair)": "`offset` must be an integer, got 0.5 of type float.",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, **CASES)
