"""Encodings of coordinates, and attention over named dimensions, for xarray.

Optional: no other module imports this one, which needs xarray, the extra "xarray".
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import nan, prod
from typing import Any, Literal

from positional_embeddings._core import checks
from positional_embeddings._core.errors import kind_of, shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Namespace,
    default_float,
    device_of,
    host,
    is_real_number,
    namespace_of,
)
from positional_embeddings.attention.dot_product import scaled_dot_product_attention
from positional_embeddings.coordinates.calendar import elapsed
from positional_embeddings.coordinates.dates import Times
from positional_embeddings.coordinates.labelled import ENCODINGS, Coordinate
from positional_embeddings.masks.mask import Mask

try:
    import xarray as xr
except ImportError as error:
    message = (
        'positional_embeddings.xarray needs xarray: pip install "positional-embeddings[xarray]".'
    )
    raise ImportError(message) from error

__all__ = ["attention", "encode"]

Encoding = Literal["cyclic", "fourier", "sinusoidal", "spherical", "random_fourier"]

# The options of each encoding that must be given, and the others with their defaults. The number
# of features is not called `dim` here.
_OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "cyclic": (("periods",), {"harmonics": 1}),
    "fourier": (("wavelengths",), {"arrangement": "interleaved"}),
    "sinusoidal": (
        ("embedding_size",),
        {"base": 10_000, "arrangement": "interleaved", "unit": None, "origin": None},
    ),
    "spherical": (("degree",), {"unit": None}),
    "random_fourier": (("embedding_size", "length_scale", "rng"), {"kernel": "gaussian"}),
}


def encode(
    da: Any,
    /,
    dim: Hashable | Sequence[Hashable],
    encoding: Encoding = "cyclic",
    *,
    feature_dim: Hashable = "feature",
    **options: Any,
) -> Any:
    """Return features of the position along a coordinate, with readable labels.

    Parameters
    ----------
    da : xarray.DataArray or xarray.Dataset
        What has the coordinate; its data are not read.
    dim : str, or list or tuple of str
        Name of a coordinate of numbers or datetime64, of any number of dimensions:
        "time", or "lat" if it is of (y, x). For "spherical" the names of latitude and
        longitude, and for "random_fourier" one name or more; these coordinates broadcast against
        each other over their dimensions. Names, standard names and units of the CF conventions
        ("degrees_north") tell latitude from longitude; if they do not, the latitude is the first.
    encoding : str, default "cyclic"
        "cyclic", sines and cosines of periods; "fourier", sines and cosines of wavelengths;
        "sinusoidal", the encoding of Vaswani et al.; "spherical", spherical harmonics of places;
        or "random_fourier", random Fourier features, whose scalar products approach a kernel.
    feature_dim : str, default "feature"
        Name of the new dimension.
    **options
        Those of the encoding:

        - "cyclic": `periods`, one or a list, and `harmonics` (1 by default), an integer or one for
          each period. Periods of datetimes are "day", "week", "month", "quarter", "year", by the
          calendar, or spans, counted from 1970-01-01: timedeltas, texts such as "36h", and offsets
          of pandas; those of numbers are positive numbers.
        - "fourier": `wavelengths`, one or a list of positive numbers, or of such spans for
          datetimes, and `arrangement`, "interleaved" (default) or "concatenated".
        - "sinusoidal": `embedding_size`, the number of features, `base` (10,000 by default) and
          `arrangement`. Datetimes are counted in `unit`, such as "D" for days, since `origin`,
          1970-01-01 by default.
        - "spherical": `degree`, and `unit`, "degrees" or "radians"; if it is not given, the
          attribute "units" of the coordinates tells, by a text that starts with "deg" or "rad",
          and without it they are in degrees.
        - "random_fourier": `embedding_size`, the number of features, `length_scale`, one or one for
          each coordinate (spans of time for datetimes), `rng`, an integer seed, and `kernel`,
          "gaussian" (default), "matern" or "laplace".
        - All: `dtype`, the real floating-point dtype of the result. If None, that of the
          coordinate, or float64 for integers and datetimes.

    Returns
    -------
    xarray.DataArray
        Features along `feature_dim`, first, and the dimensions of the coordinate after it,
        with all coordinates that these have. Labels such as ``"time_sin_24h_2"`` tell
        coordinate, function, period (or wavelength, or number of the frequency) and harmonic,
        which is left out if a period has only one; those of "spherical" tell degree and order. A
        coordinate of dask stays lazy.

    Raises
    ------
    TypeError
        If `da` is of the wrong kind, an option is unknown, missing or of the wrong kind, or the
        coordinate holds neither numbers nor datetime64.
    ValueError
        If there is no such coordinate, `feature_dim` is the name of one already, or an option
        has a wrong value.

    See Also
    --------
    attention : Attention over the encoded coordinate.

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
    time_sin_24h_1 time_cos_24h_1 time_sin_24h_2 time_cos_24h_2
    >>> features.sel(feature="time_sin_24h_1").values.round(2)
    array([ 0.,  1.,  0., -1.,  0.,  1.,  0., -1.])

    Places on a grid:

    >>> ds = xr.Dataset(coords={"lat": [-45.0, 45.0], "lon": [0.0, 120.0, 240.0]})
    >>> encode(ds, ("lat", "lon"), "spherical", degree=4).sizes
    Frozen({'feature': 25, 'lat': 2, 'lon': 3})
    """
    checks.choice("encoding", encoding, tuple(ENCODINGS))
    coordinates = _coordinates(da, dim, encoding)
    _check_feature_dim(feature_dim, [da, *coordinates.values()])
    dtype = _dtype(coordinates, options.pop("dtype", None))
    features, labels = _plan(encoding, coordinates, options, dtype)
    encoded = xr.apply_ufunc(
        partial(_features_last, features),
        *coordinates.values(),
        output_core_dims=[[feature_dim]],
        dask="parallelized",
        output_dtypes=[dtype],
        dask_gufunc_kwargs={"output_sizes": {feature_dim: len(labels)}},
        keep_attrs=True,
    )
    encoded = encoded.transpose(feature_dim, ...).assign_coords({feature_dim: labels})
    titles = [str(c.attrs.get("long_name", name)) for name, c in coordinates.items()]
    encoded.name = "_".join([*map(str, coordinates), "encoding"])
    encoded.attrs = {"long_name": f"{encoding} encoding of {' and '.join(titles)}", "units": "1"}
    return encoded


def attention(
    query: Any,
    key: Any,
    value: Any,
    /,
    *,
    dim: Hashable | tuple[Hashable, Hashable],
    feature_dim: Hashable,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
    softcap: float | None = None,
    offset: int | None = None,
    block_size: int | None = None,
    fill_value: float = nan,
) -> Any:
    """Return for each query the mean of the values, weighted by the softmax of its scores.

    This is `scaled_dot_product_attention` over named dimensions, in any order. All dimensions
    other than `dim` and `feature_dim`, such as batch, head or place, are aligned by name and
    broadcast. Attention over encoded times smooths a series, and fills its gaps.

    Parameters
    ----------
    query, key : xarray.DataArray
        Real floating-point, with `dim` and `feature_dim`.
    value : xarray.DataArray or xarray.Dataset
        Real floating-point, or integers, which become float64; with `dim`, and with `feature_dim`
        or without it. Of a Dataset each variable with `dim` is a value, and the others are kept.
    dim : str, or pair of str
        Dimension of the queries in `query` and of the keys in `key` and `value`. If it is one
        name, its coordinate in `query` may differ from that in `key`. A pair, such as
        ``("new_time", "time")``, names the two apart.
    feature_dim : str
        Dimension of the features. Its labels in `query` and `key` have to be the same, unless
        `dim` is a pair: features of "new_time" have other labels than those of "time".
    mask : xarray.DataArray of bool, Dataset of these or Mask, optional
        True where a query may not attend to a key, such as ``value.isnull()``, in a Dataset with
        one for each variable. It has the
        dimension of the keys, and may have that of the queries if `dim` is a pair, and
        others. A `Mask`, such as ``CausalMask()``, is for one sequence; it counts positions from 0
        along `dim`, and does not read coordinates.
    bias : xarray.DataArray, optional
        Real floating-point, added to the scores, with dimensions as `mask` has them.
    scale : float, optional
        Positive factor on the scores, 1 by the square root of the number of features if None.
    softcap : float, optional
        Positive bound on the scores: ``softcap * tanh(scores / softcap)``.
    offset : int, optional
        Position of the first query among the keys, for a `Mask`. If None, the last query is at
        the last key.
    block_size : int, optional
        Compute the scores of this many queries and keys at a time.
    fill_value : float, default NaN
        Result for a query that may attend to no key.

    Returns
    -------
    xarray.DataArray or xarray.Dataset
        Name, attributes, dtype and dimensions of `value`, with the dimension of the queries in
        place of that of the keys, after dimensions that `value` lacks. Coordinates of the
        queries and of the features of `value` are kept. It is computed in the widest of the
        dtypes. Arrays of dask stay lazy: chunks along `dim` and `feature_dim` are merged, those
        along other dimensions kept.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind or dtype.
    ValueError
        If a dimension is missing or one too many, labels or sizes of a dimension differ, or an
        option has a wrong value.

    See Also
    --------
    positional_embeddings.scaled_dot_product_attention : The same for arrays; it says more about
        each option.
    encode : Features of coordinates.

    Examples
    --------
    A daily series with gaps, smoothed by attention to days that are near:

    >>> import numpy as np
    >>> import xarray as xr
    >>> days = np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]")
    >>> height = np.sin(np.arange(60) / 10)
    >>> height[[7, 8, 9, 30]] = np.nan
    >>> coords = {"time": days.astype("datetime64[ns]")}
    >>> da = xr.DataArray(height, dims="time", coords=coords, attrs={"units": "m"})
    >>> wavelengths = [np.timedelta64(n, "D") for n in (30, 60, 120)]
    >>> times = encode(da, "time", "fourier", wavelengths=wavelengths)
    >>> options = dict(dim="time", feature_dim="feature", mask=da.isnull(), scale=100)
    >>> smooth = attention(times, times, da, **options)
    >>> int(smooth.isnull().sum()), smooth.attrs
    (0, {'units': 'm'})
    >>> filled = da.fillna(smooth)
    >>> bool(abs(filled - np.sin(np.arange(60) / 10)).max() < 0.1)
    True

    The same on each seventh day:

    >>> attention(times[:, ::7], times, da, **options).sizes
    Frozen({'time': 9})
    """
    q_dim, k_dim = _query_and_key_dim(dim, feature_dim)
    options: dict[str, Any] = {"scale": scale, "softcap": softcap, "offset": offset}
    options["block_size"] = block_size
    if isinstance(value, xr.Dataset):
        options |= {"dim": dim, "feature_dim": feature_dim, "bias": bias, "fill_value": fill_value}
        masks = mask if isinstance(mask, xr.Dataset) else dict.fromkeys(value, mask)
        variables = {
            name: attention(query, key, array, mask=masks[name], **options)
            if k_dim in array.dims
            else array
            for name, array in value.items()
        }
        return xr.Dataset(variables, attrs=value.attrs)
    if isinstance(value, xr.DataArray) and value.dtype.kind in "iu":
        value = value.astype(host.float64)
    arrays = {"query": query, "key": key, "value": value}
    terms = {"mask": mask, "bias": bias}
    terms = {name: term for name, term in terms.items() if term is not None}
    _check_terms(terms)
    if isinstance(mask, Mask):
        options["mask"] = terms.pop("mask")
    elif offset is not None:
        raise wrong_value("offset", "be left out unless `mask` is a `Mask`", offset)
    _check_arrays(arrays)
    _check_dims(arrays | terms, q_dim, k_dim, feature_dim)
    fill_value = _real_number("fill_value", fill_value)

    # The coordinates of the keys have done their work: those of the queries take their place.
    own = {feature_dim}
    shared = xr.align(key, value, *terms.values(), join="exact", copy=False, exclude=own)
    keys, values, *others = (_without_coordinates(array, k_dim) for array in shared)
    # Within, each dimension has one meaning.
    rows = f"{q_dim} of `query`" if q_dim == k_dim else q_dim
    outputs = f"{feature_dim} of `value`"
    queries = query.rename({q_dim: rows})
    if q_dim != k_dim:
        queries = _without_coordinates(queries, feature_dim)
    has_features = feature_dim in value.dims
    values = values.rename({feature_dim: outputs}) if has_features else values.expand_dims(outputs)
    given = [queries, keys, values, *others]
    core = [[rows, feature_dim], [k_dim, feature_dim], [k_dim, outputs]]
    core += [[d for d in (rows, k_dim) if d in term.dims] for term in others]
    with_rows = {name: rows in term.dims for name, term in zip(terms, others, strict=True)}
    attended = xr.apply_ufunc(
        partial(_attend, terms=with_rows, fill_value=fill_value, options=options),
        *(_in_one_chunk(array, dims) for array, dims in zip(given, core, strict=True)),
        input_core_dims=core,
        output_core_dims=[[rows, outputs]],
        join="exact",
        dask="parallelized",
        output_dtypes=[value.dtype],
        keep_attrs=True,
    )
    order = [rows if d == k_dim else d for d in values.dims]
    attended = attended.transpose(*(d for d in attended.dims if d not in order), *order)
    attended = attended.rename({rows: q_dim})
    if has_features:
        attended = attended.rename({outputs: feature_dim})
    else:
        attended = attended.isel({outputs: 0}, drop=True)
    attended.name, attended.attrs = value.name, dict(value.attrs)
    return attended


def _plan(
    encoding: str, coordinates: dict[Hashable, Any], options: dict[str, Any], dtype: Any
) -> tuple[Callable[..., Any], list[str]]:
    """Return the function of an encoding and its labels, after checking its options."""
    needed, optional = _OPTIONS[encoding]
    for name in options:
        if name not in (*needed, *optional):
            what = f"be among {', '.join((*needed, *optional))} and dtype for {encoding!r}"
            raise wrong_type("options", what, shown(name))
    for name in needed:
        if name not in options:
            raise wrong_type(name, f"be given for {encoding!r}", "no such option")
    options = optional | options
    if "embedding_size" in options:
        is_even = encoding == "random_fourier"
        size = options.pop("embedding_size")
        options["dim"] = checks.feature_count("embedding_size", size, even=is_even)
    names = list(coordinates)
    prepare: Callable[[Any], Any] = _as_times
    if encoding == "sinusoidal":
        ((only, coordinate),) = coordinates.items()
        prepare = _to_numbers(only, coordinate, options["unit"], options["origin"])
    elif encoding == "spherical":
        unit = options["unit"]
        options["unit"] = _angular_unit(coordinates) if unit is None else unit
        options["argument"] = "dim"
    # What dask would tell only when it computes is told for no coordinates at all.
    empty = [prepare(host.empty(0, dtype=c.dtype)) for c in coordinates.values()]
    given = [
        Coordinate(str(name), values, f"da[{name!r}]", _attributes(c))
        for (name, c), values in zip(coordinates.items(), empty, strict=True)
    ]
    fitted = ENCODINGS[encoding].fit(given, options)
    if encoding == "spherical":
        names = ["_".join(str(names[i]) for i in fitted.order)]

    def features(*arrays: Any) -> Any:
        blocks = fitted.encode([prepare(array) for array in arrays], dtype)
        return namespace_of(x=blocks[0]).concat(blocks, axis=0)

    features(*(host.empty(0, dtype=c.dtype) for c in coordinates.values()))
    return features, fitted.names(names)


def _as_times(x: Any) -> Any:
    return Times(x, x, None) if x.dtype.kind == "M" else x


def _attributes(coordinate: Any) -> str:
    """Return what the CF conventions say of a coordinate."""
    return " ".join(str(coordinate.attrs.get(name, "")) for name in ("standard_name", "units"))


# The coordinates to encode, and their dtype.


def _coordinates(da: Any, dim: Any, encoding: str) -> dict[Hashable, Any]:
    """Return the coordinates that `dim` names, after checking what they hold."""
    if not isinstance(da, xr.DataArray | xr.Dataset):
        raise wrong_type("da", "be an xarray.DataArray or an xarray.Dataset", kind_of(da))
    is_pair = isinstance(dim, list | tuple)
    if encoding == "spherical":
        if not is_pair or len(dim) != 2 or dim[0] == dim[1]:
            raise wrong_type("dim", "be the names of latitude and longitude", shown(dim))
    elif is_pair and encoding != "random_fourier":
        raise wrong_type("dim", f"be one name for {encoding!r}", shown(dim))
    coordinates = {}
    for name in dim if is_pair else [dim]:
        if name not in da.coords:
            listed = ", ".join(map(repr, da.coords)) or "none"
            raise wrong_value(
                "dim", "name a coordinate", f"{name!r}; there are {listed}", _remedy(da, name)
            )
        coordinates[name] = da.coords[name]
        _check_kind(name, coordinates[name], encoding)
    return coordinates


def _remedy(da: Any, name: Hashable) -> str:
    """Return the sentence that tells how a name that is no coordinate becomes one."""
    if name in da.dims:
        return f" Pass da.assign_coords({name}=range({da.sizes[name]})) for positions from 0."
    return f" Pass da.set_coords({name!r})." if name in getattr(da, "data_vars", ()) else ""


def _check_kind(name: Hashable, coordinate: Any, encoding: str) -> None:
    """Check that a coordinate holds numbers, or datetimes where they have a meaning."""
    dtype = coordinate.dtype
    kind = getattr(dtype, "kind", "")
    is_datetime = isinstance(dtype, host.dtype) and kind == "M"
    if kind in "iuf" or (is_datetime and encoding != "spherical"):
        return
    what = "numbers" if encoding == "spherical" else "numbers or datetime64"
    came, hint = str(dtype), ""
    if kind == "m":
        hint = f" Pass da.assign_coords({name}=da[{name!r}] / numpy.timedelta64(1, 'D')) for days."
    elif kind == "M" and not is_datetime:
        hint = f" Pass da.assign_coords({name}=da.indexes[{name!r}].tz_localize(None))."
    elif kind == "O" and coordinate.chunks is None and coordinate.size:
        first = coordinate.values.flat[0]
        came += f" ({kind_of(first)})"
        if type(first).__module__.partition(".")[0] == "cftime":
            hint = " Pass da.convert_calendar('standard', use_cftime=False)."
    raise wrong_type(f"da[{name!r}]", f"hold {what}", came, hint)


def _is_datetime(coordinate: Any) -> bool:
    return bool(coordinate.dtype.kind == "M")


def _check_feature_dim(feature_dim: Hashable, given: list[Any]) -> None:
    """Check that the new dimension has a name of its own."""
    names = {name for array in given for name in (*array.dims, *array.coords)}
    if feature_dim in names:
        listed = ", ".join(sorted(map(repr, names)))
        raise wrong_value(
            "feature_dim", "be a new name", f"{feature_dim!r}; there are {listed} already"
        )


def _dtype(coordinates: dict[Hashable, Any], dtype: Any) -> Any:
    """Return the dtype of the features."""
    if dtype is None:
        floats = {c.dtype for c in coordinates.values() if c.dtype.kind == "f"}
        if floats:
            return host.result_type(*floats)
        data = next(iter(coordinates.values())).data
        if data.dtype.kind == "M":
            return host.float64
        return default_float(namespace_of(data=data), device_of(data))
    try:
        checked = host.dtype(dtype)
    except TypeError:
        checked = None
    if checked is None or checked.kind != "f":
        raise wrong_type("dtype", "be a real floating-point dtype", shown(dtype))
    return checked


def _to_numbers(name: Hashable, coordinate: Any, unit: Any, origin: Any) -> Callable[[Any], Any]:
    """Return the function from arrays of a coordinate to arrays of numbers."""
    if not _is_datetime(coordinate):
        for option, given in (("unit", unit), ("origin", origin)):
            if given is not None:
                what = f"be left out unless da[{name!r}] holds datetimes"
                raise wrong_value(option, what, shown(given))
        return lambda x: x
    if unit is None:
        raise wrong_value("unit", "be given for datetimes, such as 'D' for days", "None")
    start = host.datetime64("1970-01-01") if origin is None else origin
    return lambda x: elapsed(x, start, unit)


def _angular_unit(coordinates: dict[Hashable, Any]) -> str:
    """Return what the attributes of latitude and longitude say, degrees if nothing."""
    given = [str(c.attrs.get("units", "degrees")) for c in coordinates.values()]
    for name, text in zip(coordinates, given, strict=True):
        if not text.startswith(("deg", "rad")):
            what = f"be given if the attribute 'units' of da[{name!r}] is no angle"
            raise wrong_value("unit", what, shown(text))
    units = {"degrees" if text.startswith("deg") else "radians" for text in given}
    if len(units) > 1:
        names = " and ".join(map(repr, coordinates))
        raise wrong_value("unit", f"be given if {names} differ in theirs", " and ".join(given))
    return units.pop()


def _features_last(features: Callable[..., Any], *coordinates: Any) -> Any:
    """Return the features of coordinates that broadcast, as `apply_ufunc` wants them."""
    encoded = features(*coordinates)
    return namespace_of(encoded=encoded).moveaxis(encoded, 0, -1)


# Attention over named dimensions.


def _query_and_key_dim(dim: Any, feature_dim: Hashable) -> tuple[Hashable, Hashable]:
    """Return the names of the dimensions of queries and of keys."""
    pair = tuple(dim) if isinstance(dim, list | tuple) else (dim, dim)
    if len(pair) != 2:
        raise wrong_value("dim", "be one name, or those of queries and keys", shown(dim))
    if feature_dim in pair:
        raise wrong_value("feature_dim", f"not be in `dim`, {shown(dim)}", shown(feature_dim))
    return pair


def _check_terms(terms: dict[str, Any]) -> None:
    """Check that mask and bias are what has named dimensions, or a `Mask`."""
    for name, term in terms.items():
        if isinstance(term, xr.DataArray):
            checks.mask_or_bias(name, name, term.data, namespace_of(**{name: term.data}))
        elif name == "bias":
            raise wrong_type("bias", "be an xarray.DataArray", shown(term))
        elif not isinstance(term, Mask):
            raise wrong_type("mask", "be an xarray.DataArray of bool or a `Mask`", shown(term))
        elif (count := term._batch()) not in (1, None):  # noqa: SLF001 - of this library
            hint = " Pass an xarray.DataArray with the dimension of the sequences."
            raise wrong_value("mask", "be for one sequence", f"one for {count}", hint)


def _check_arrays(arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        if not isinstance(array, xr.DataArray):
            raise wrong_type(name, "be an xarray.DataArray", kind_of(array))
        checks.real_floating(namespace_of(**{name: array.data}), **{name: array.data})


def _check_dims(
    arrays: dict[str, Any], q_dim: Hashable, k_dim: Hashable, feature_dim: Hashable
) -> None:
    """Check that each array has the dimensions that it must, and none that it may not."""
    for name, array in arrays.items():
        dims = [k_dim] if name not in ("query", "key") else [k_dim, feature_dim]
        dims = [q_dim, feature_dim] if name == "query" else dims
        for d in dims:
            if d not in array.dims:
                raise wrong_value(name, f"have the dimension {d!r}", f"dimensions {array.dims}")
        other = {"query": k_dim, "key": q_dim, "value": q_dim}.get(name, feature_dim)
        if other in array.dims and other not in dims:
            whose = {q_dim: "queries", k_dim: "keys", feature_dim: "features"}[other]
            what = f"not have the dimension {other!r} of the {whose}"
            raise wrong_value(name, what, f"dimensions {array.dims}")


def _real_number(name: str, value: Any) -> float:
    if not is_real_number(value):
        raise wrong_type(name, "be a number", shown(value))
    return float(value)


def _without_coordinates(array: Any, *dims: Hashable) -> Any:
    """Return an array without the coordinates that have one of some dimensions."""
    return array.drop_vars([n for n, c in array.coords.items() if {*c.dims} & {*dims}])


def _in_one_chunk(array: Any, dims: list[Hashable]) -> Any:
    """Merge the chunks along some dimensions of an array that has chunks."""
    return array if array.chunks is None else array.chunk(dict.fromkeys(dims, -1))


def _attend(
    query: Any,
    key: Any,
    value: Any,
    *given: Any,
    terms: dict[str, bool],
    options: dict[str, Any],
    fill_value: float,
) -> Any:
    """Return the output for arrays of axes (..., sequence, feature) and (..., query, key).

    Further axes are aligned at the last one, and broadcast. `terms` tells of mask and bias
    whether they have the axis of the queries.
    """
    named = dict(zip(terms, given, strict=True))
    xp = namespace_of(query=query, key=key, value=value, **named)
    named = {name: a if terms[name] else a[..., None, :] for name, a in named.items()}
    dtype, wide = value.dtype, xp.result_type(query, key, value)
    rank = max(array.ndim for array in (query, key, value, *named.values()))
    query, key, value = (
        _with_axes(xp.astype(array, wide, copy=False), rank) for array in (query, key, value)
    )
    named = {name: _with_axes(array, rank) for name, array in named.items()}
    further = [array.shape[:-2] for array in (query, key, *named.values())]
    shape = tuple(_common_length(lengths) for lengths in zip(*further, strict=True))
    # Along an axis that only the values have, the weights are the same: it is one of features.
    own = [axis for axis, n in enumerate(shape) if n == 1 and value.shape[axis] != 1]
    folded = _folded(value, own, xp)
    # A column of ones is their sum of weights: 0 for a query without keys.
    folded = xp.concat([folded, xp.ones_like(folded[..., :1])], axis=-1)
    output = scaled_dot_product_attention(
        query,
        xp.broadcast_to(key, (*shape, *key.shape[-2:])),
        xp.broadcast_to(folded, (*shape, *folded.shape[-2:])),
        **named,
        **options,
        feature_axis=-1,
        seq_axis=-2,
    )
    output = xp.where(output[..., -1:] == 0, fill_value, output[..., :-1])
    return xp.astype(_unfolded(output, value, own, xp), dtype, copy=False)


def _with_axes(array: Any, rank: int) -> Any:
    return array[(*(None,) * (rank - array.ndim), ...)]


def _common_length(lengths: tuple[int, ...]) -> int:
    return next((n for n in lengths if n != 1), 1)


def _folded(value: Any, own: list[int], xp: Namespace) -> Any:
    """Make some axes part of the last one, and leave 1 in their place."""
    *others, keys, features = value.shape
    rest = [axis for axis in range(value.ndim - 1) if axis not in own]
    value = xp.permute_dims(value, (*rest, *own, value.ndim - 1))
    size = prod(others[axis] for axis in own) * features
    return xp.reshape(value, (*(1 if a in own else n for a, n in enumerate(others)), keys, size))


def _unfolded(output: Any, value: Any, own: list[int], xp: Namespace) -> Any:
    """Undo `_folded` for the output of the attention to a value."""
    rest = [axis for axis in range(value.ndim - 1) if axis not in own]
    order = [*rest, *own, value.ndim - 1]
    lengths = [
        value.shape[axis] if axis in (*own, value.ndim - 1) else output.shape[axis]
        for axis in order
    ]
    return xp.permute_dims(
        xp.reshape(output, tuple(lengths)), tuple(map(order.index, range(value.ndim)))
    )
