"""Encodings of coordinates of xarray.

Optional: no other module imports this module, which needs xarray, of the extra "xarray".
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import (
    did_you_mean,
    format_value,
    type_name,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, Dtype, np
from positional_embeddings.times import dates
from positional_embeddings.times.dates import Times
from positional_embeddings.times.named import ENCODINGS, Column, Coordinate

try:
    import xarray as xr
except ImportError as error:
    message = 'This module needs xarray: pip install "positional-embeddings[xarray]".'
    raise ImportError(message) from error

__all__ = ["encode"]

Labelled: TypeAlias = xr.DataArray | xr.Dataset
TimeZone: TypeAlias = str | tzinfo | None

# The required and the optional options of each encoding.
_OPTIONS = {
    "cyclic": (["periods"], ["harmonics"]),
    "fourier": (["wavelengths"], ["arrangement"]),
    "spherical": ([], ["degree", "unit"]),
}


def encode(
    da: Labelled,
    /,
    dim: Hashable | Sequence[Hashable],
    encoding: Literal["cyclic", "fourier", "spherical"] = "cyclic",
    *,
    feature_dim: Hashable = "feature",
    chunks: Mapping[Hashable, Any] | None = None,
    time_zone: TimeZone = None,
    **options: Any,
) -> xr.DataArray:
    """Return features of the position along a coordinate, with readable labels.

    Parameters
    ----------
    da : xarray.DataArray or xarray.Dataset
        Object with the coordinate; its data are not read.
    dim : str, or list or tuple of str
        Name of a coordinate of numbers, datetime64 or dates of cftime, of any number of dimensions:
        "time", or "lat" with dimensions (y, x). For "spherical", the names of latitude and
        longitude, which broadcast against each other over their dimensions. Names, standard names
        and units of the CF conventions ("degrees_north") distinguish latitude from longitude; by
        default the latitude is first.
    encoding : {"cyclic", "fourier", "spherical"}, default "cyclic"
        Sines and cosines of periods, or of wavelengths, or spherical harmonics of points.
    feature_dim : str, default "feature"
        Name of the new dimension.
    chunks : mapping, optional
        Chunk lengths along dimensions of the coordinate, as in ``da.chunk``. The features are then
        dask arrays, with one chunk along `feature_dim`. If None, a dask coordinate keeps its
        chunks, and any other coordinate takes the chunks of `da`, if there are any.
    time_zone : str or tzinfo, optional
        Time zone of calendar periods, such as "Europe/Zurich", for datetimes in UTC. If None,
        periods follow the datetimes without conversion.
    **options
        Options of the encoding:

        - "cyclic": `periods`, one or a list, and `harmonics` (1 by default), an integer or one for
          each period. Periods of dates are "day", "week", "month", "quarter", "year" of the
          calendar, which may be a cftime calendar of climate models; or durations, counted from
          1970-01-01: timedeltas, texts such as "36h", and offsets of pandas. Periods of numbers
          are positive numbers.
        - "fourier": `wavelengths`, one or a list of positive numbers, or of such durations for
          datetimes, and `arrangement`, "interleaved" (default) or "concatenated".
        - "spherical": `degree` (6 by default), and `unit`, "degrees" or "radians". By default, the
          attribute "units" of the coordinates determines the unit, by a text that starts with
          "deg" or "rad"; without the attribute, the unit is degrees.
        - All: `dtype`, the real floating-point dtype of the result. If None, the dtype of the
          coordinate, or float64 for integers and datetimes.

    Returns
    -------
    xarray.DataArray
        Features along `feature_dim`, the first dimension, followed by the dimensions of the
        coordinate, with all their coordinates. Labels such as ``"time_sin_day_2"`` have
        coordinate, function, period (or wavelength) and harmonic, which is omitted if a period
        has only one. Labels of "spherical" have degree and order.

    Raises
    ------
    TypeError
        If `da` is of the wrong kind, an option is unknown, missing or of the wrong kind, or the
        coordinate holds neither numbers nor dates.
    ValueError
        If there is no such coordinate, `feature_dim` is already a coordinate or dimension, or an
        option has a wrong value.

    See Also
    --------
    positional_embeddings.sklearn.PositionalEncoder : Encodings of the columns of a table.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> time = np.arange("2024-01-01", "2024-01-03", 6, dtype="datetime64[h]")
    >>> da = xr.DataArray(np.ones(8), dims="time", coords={"time": time.astype("datetime64[ns]")})
    >>> features = encode(da, "time", periods=["day", "year"], harmonics=[2, 1])
    >>> features.sizes
    Frozen({'feature': 6, 'time': 8})
    >>> print(*features.feature.values[:4])
    time_sin_day_1 time_cos_day_1 time_sin_day_2 time_cos_day_2
    >>> features.sel(feature="time_sin_day_1").values.round(2)
    array([ 0.,  1.,  0., -1.,  0.,  1.,  0., -1.])

    Points of a grid:

    >>> ds = xr.Dataset(coords={"lat": [-45.0, 45.0], "lon": [0.0, 120.0, 240.0]})
    >>> encode(ds, ("lat", "lon"), "spherical", degree=4).sizes
    Frozen({'feature': 25, 'lat': 2, 'lon': 3})
    """
    checks.choice("encoding", encoding, tuple(_OPTIONS))
    coordinates = _coordinates(da, dim, encoding)
    if not isinstance(feature_dim, str):
        raise wrong_type("feature_dim", "be a name", format_value(feature_dim))
    if feature_dim in {*da.dims, *da.coords}:
        raise wrong_value("feature_dim", "be a new name", repr(feature_dim))
    function, labels, result_dtype = _feature_function(encoding, coordinates, time_zone, options)
    encoded = xr.apply_ufunc(
        function,
        *_chunked(coordinates, da, chunks),
        output_core_dims=[[feature_dim]],
        dask="parallelized",
        output_dtypes=[result_dtype],
        dask_gufunc_kwargs={"output_sizes": {feature_dim: len(labels)}},
        keep_attrs=True,
    )
    encoded = encoded.transpose(feature_dim, ...).assign_coords({feature_dim: labels})
    titles = [str(c.attrs.get("long_name", c.name)) for c in coordinates]
    encoded.name = "_".join([*(str(c.name) for c in coordinates), "encoding"])
    encoded.attrs = {"long_name": f"{encoding} encoding of {' and '.join(titles)}", "units": "1"}
    return encoded


def _chunked(coordinates: list[xr.DataArray], da: Labelled, chunks: Any) -> list[xr.DataArray]:
    """Return coordinates with explicit chunks, or with the chunks of `da`."""
    dims = {d: None for c in coordinates for d in c.dims}
    is_explicit = chunks is not None
    if not is_explicit:
        chunksizes = da.unify_chunks().chunksizes
        chunks = {d: chunksizes[d] for d in dims if d in chunksizes}
    elif not isinstance(chunks, Mapping):
        raise wrong_type("chunks", "be a mapping from dimensions to lengths", format_value(chunks))
    elif unknown := next((d for d in chunks if d not in dims), None):
        raise wrong_value("chunks", f"be for dimensions among {tuple(dims)}", format_value(unknown))
    if not chunks:
        return coordinates
    chunked = []
    for c in coordinates:
        if is_explicit or c.chunks is None:
            # An index of pandas cannot be chunked: convert it to a base variable.
            lengths = {d: chunks.get(d, -1) for d in c.dims}
            try:
                data = c.variable.to_base_variable().chunk(lengths).data
            except (TypeError, ValueError, ZeroDivisionError):
                requirement = f"have lengths of chunks that fit {dict(c.sizes)}"
                raise wrong_value("chunks", requirement, format_value(chunks)) from None
            c = xr.DataArray(data, c.coords, c.dims, c.name, c.attrs)  # noqa: PLW2901
        chunked.append(c)
    return chunked


# From the values of a coordinate to a column to encode.
Read: TypeAlias = Callable[[Array], Column]


def _feature_function(
    encoding: str, coordinates: list[xr.DataArray], time_zone: TimeZone, options: dict[str, Any]
) -> tuple[Callable[..., Array], list[str], Dtype]:
    """Check the options of an encoding, and return its function, labels and dtype.

    The features are on the last axis of the result of the function.
    """
    dtype = options.pop("dtype", None)
    dtype = None if dtype is None else np.dtype(dtype)
    required, optional = _OPTIONS[encoding]
    for name in options:
        if name not in required + optional:
            requirement = f"be among {', '.join(required + optional)} and dtype for {encoding!r}"
            hint = did_you_mean(name, required + optional)
            raise wrong_type("options", requirement, format_value(name), hint)
    for name in required:
        if name not in options:
            value = '["day", "year"]' if name == "periods" else "[1.0, 10.0]"
            hint = f" Pass {name}={value}, or others."
            raise wrong_type(name, f"be given for {encoding!r}", "none", hint)
    read = _reader(coordinates[0], time_zone)
    if encoding == "spherical":
        options["argument"] = "dim"
        if options.get("unit") is None:
            options["unit"] = _angular_unit(coordinates)
    # Empty coordinates raise errors here, which dask would raise only when it computes.
    empty = [np.empty(0, dtype=c.dtype) for c in coordinates]
    descriptions = []
    for c, values in zip(coordinates, empty, strict=True):
        cf_text = " ".join(str(c.attrs.get(name, "")) for name in ("standard_name", "units"))
        # Values in memory show which harmonics they resolve.
        column = read(c.values if encoding == "cyclic" and c.chunks is None else values)
        descriptions.append(Coordinate(str(c.name), column, f"da[{c.name!r}]", cf_text))
    encoder = ENCODINGS[encoding](descriptions, **options)
    names = [c.name for c in coordinates]
    if encoding == "spherical":
        names = ["_".join(str(names[i]) for i in encoder.order)]

    def features(*arrays: Array) -> Array:
        """Return the features of coordinates that broadcast, along the last axis."""
        blocks = encoder.encode([read(array) for array in arrays], dtype)
        xp = get_backend(x=blocks[0]).xp
        return xp.moveaxis(xp.concat(blocks, axis=0), 0, -1)

    return features, encoder.names(names), features(*empty).dtype


def _coordinates(da: Labelled, dim: Any, encoding: str) -> list[xr.DataArray]:
    """Return the coordinates named by `dim`, after checking their dtypes."""
    if not isinstance(da, xr.DataArray | xr.Dataset):
        raise wrong_type("da", "be an xarray.DataArray or an xarray.Dataset", type_name(da))
    is_pair = isinstance(dim, list | tuple)
    if encoding == "spherical":
        if not is_pair or len(dim) != 2 or dim[0] == dim[1]:
            requirement = 'be the names of latitude and longitude, such as ("lat", "lon")'
            raise wrong_type("dim", requirement, format_value(dim))
    elif is_pair:
        hint = ' Pass encoding="spherical" for latitude and longitude.' if len(dim) == 2 else ""
        raise wrong_type("dim", f"be one name for {encoding!r}", format_value(dim), hint)
    coordinates = []
    for name in dim if is_pair else [dim]:
        if not isinstance(name, Hashable):
            raise wrong_type("dim", "be a name", format_value(dim))
        if name not in da.coords:
            listed = ", ".join(map(repr, da.coords)) or "none"
            remedy = ""
            if name in da.dims:
                positions = f"{name}=range({da.sizes[name]})"
                remedy = f" Pass da.assign_coords({positions}) for positions from 0."
            elif name in getattr(da, "data_vars", ()):
                remedy = f" Pass da.set_coords({name!r})."
            raise wrong_value("dim", "name a coordinate", f"{name!r}; there are {listed}", remedy)
        c, label = da.coords[name], f"da[{name!r}]"
        dtype, has_times = c.dtype, encoding != "spherical"
        first = next(iter(c.values.flat), None) if dtype.kind in "OUT" else None
        is_datetime = isinstance(dtype, np.dtype) and dtype.kind == "M"
        is_datetime = is_datetime or hasattr(first, "dayofyr")  # cftime
        if dtype.kind not in "iuf" and not (is_datetime and has_times):
            requirement = "hold numbers or dates" if has_times else "hold numbers"
            remedy = dates.remedy_for(first)
            if dtype.kind in "mM" and not is_datetime:
                remedy = f" Pass da.assign_coords({name}=days_since({label}))."
            raise wrong_type(label, requirement, str(dtype), remedy)
        coordinates.append(c)
    return coordinates


def _reader(coordinate: xr.DataArray, time_zone: TimeZone) -> Read:
    """Return a function that reads the values of coordinates: numbers, or times in a zone."""
    zone, calendar = dates.time_zone_of(time_zone), dates.calendar_of(coordinate)
    if zone is not None and (coordinate.dtype.kind not in "MO" or calendar is not None):
        requirement = f"be left out unless da[{coordinate.name!r}] holds datetimes"
        raise wrong_value("time_zone", requirement, format_value(zone))

    def read(x: Array) -> Column:
        if x.dtype.kind not in "MO":
            return x
        utc = wall = dates.utc_of("x", x)
        if zone is not None:
            in_utc = xr.IndexVariable("time", utc.ravel()).to_index().tz_localize("UTC")
            wall = in_utc.tz_convert(zone).tz_localize(None).to_numpy().reshape(x.shape)
        return Times(wall, utc, calendar=calendar)

    return read


def _angular_unit(coordinates: list[xr.DataArray]) -> str:
    """Return the unit in the attributes of latitude and longitude, by default degrees."""
    units = [str(c.attrs.get("units", "degrees")) for c in coordinates]
    for unit in ("degrees", "radians"):
        if all(text.startswith(unit[:3]) for text in units):
            return unit
    requirement = "be given unless the attributes 'units' are both degrees or both radians"
    raise wrong_value("unit", requirement, " and ".join(units))
