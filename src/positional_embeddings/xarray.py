"""Encodings of coordinates, and attention over named dimensions, for xarray.

Optional: no other module imports this one, which needs xarray, the extra "xarray".
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from math import inf, nan, prod
from typing import Any, Literal, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.namespace import Array, Dtype, drop_none, np
from positional_embeddings.attention.attention import scaled_dot_product_attention
from positional_embeddings.masks.mask import Mask
from positional_embeddings.times import dates
from positional_embeddings.times.dates import Times
from positional_embeddings.times.named import ENCODINGS, Column, Coordinate

try:
    import xarray as xr
except ImportError as error:
    message = 'This module needs xarray: pip install "positional-embeddings[xarray]".'
    raise ImportError(message) from error

__all__ = ["attention", "encode"]

Labelled: TypeAlias = xr.DataArray | xr.Dataset
Options: TypeAlias = dict[str, Any]
TimeZone: TypeAlias = str | tzinfo | None
Encoding = Literal["cyclic", "fourier", "spherical"]

# The options that each encoding needs, and those that have defaults.
_OPTIONS = {
    "cyclic": (["periods"], ["harmonics"]),
    "fourier": (["wavelengths"], ["arrangement"]),
    "spherical": ([], ["degree", "unit"]),
}


def encode(
    da: Labelled,
    /,
    dim: Hashable | Sequence[Hashable],
    encoding: Encoding = "cyclic",
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
        What has the coordinate; its data are not read.
    dim : str, or list or tuple of str
        Name of a coordinate of numbers, datetime64 or dates of cftime, of any number of dimensions:
        "time", or "lat" if it is of (y, x). For "spherical" the names of latitude and
        longitude; these coordinates broadcast against each other over their dimensions. Names,
        standard names and units of the CF conventions ("degrees_north") tell latitude from
        longitude; if they do not, the latitude is the first.
    encoding : {"cyclic", "fourier", "spherical"}, default "cyclic"
        Sines and cosines of periods, or of wavelengths, or spherical harmonics of places.
    feature_dim : str, default "feature"
        Name of the new dimension.
    chunks : mapping, optional
        Lengths of the chunks on dimensions of the coordinate, as ``da.chunk`` takes them: the
        features are arrays of dask, computed chunk by chunk, whole on `feature_dim`. If None, an
        array of dask keeps its chunks, and any other coordinate gets the chunks of `da`, if
        it has any.
    time_zone : str or tzinfo, optional
        Zone such as "Europe/Zurich", whose clock calendar periods follow, of datetimes in UTC. If
        None, they follow the datetimes as they are.
    **options
        Those of the encoding:

        - "cyclic": `periods`, one or a list, and `harmonics` (1 by default), an integer or one for
          each period. Periods of dates are "day", "week", "month", "quarter", "year", by the
          calendar, also one of cftime for climate models, or spans, counted from 1970-01-01:
          timedeltas, texts such as "36h", and offsets of pandas; periods of numbers are positive
          numbers.
        - "fourier": `wavelengths`, one or a list of positive numbers, or of such spans for
          datetimes, and `arrangement`, "interleaved" (default) or "concatenated".
        - "spherical": `degree` (6 by default), and `unit`, "degrees" or "radians"; if it is not
          given, the attribute "units" of the coordinates tells, by a text that starts with "deg" or
          "rad", and without it they are in degrees.
        - All: `dtype`, the real floating-point dtype of the result. If None, the dtype of the
          coordinate, or float64 for integers and datetimes.

    Returns
    -------
    xarray.DataArray
        Features along `feature_dim`, first, and the dimensions of the coordinate after it,
        with all coordinates that these have. Labels such as ``"time_sin_day_2"`` tell
        coordinate, function, period (or wavelength) and harmonic, which is left out if a period has
        only one; labels of "spherical" are degree and order.

    Raises
    ------
    TypeError
        If `da` is of the wrong kind, an option is unknown, missing or of the wrong kind, or the
        coordinate holds neither numbers nor dates.
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
    time_sin_day_1 time_cos_day_1 time_sin_day_2 time_cos_day_2
    >>> features.sel(feature="time_sin_day_1").values.round(2)
    array([ 0.,  1.,  0., -1.,  0.,  1.,  0., -1.])

    Places on a grid:

    >>> ds = xr.Dataset(coords={"lat": [-45.0, 45.0], "lon": [0.0, 120.0, 240.0]})
    >>> encode(ds, ("lat", "lon"), "spherical", degree=4).sizes
    Frozen({'feature': 25, 'lat': 2, 'lon': 3})
    """
    checks.choice("encoding", encoding, tuple(_OPTIONS))
    coordinates = _coordinates(da, dim, encoding)
    if not isinstance(feature_dim, str):
        raise wrong_type("feature_dim", "be a name", shown(feature_dim))
    if feature_dim in {*da.dims, *da.coords}:
        raise wrong_value("feature_dim", "be a new name", repr(feature_dim))
    plan = _plan(encoding, coordinates, time_zone, options)
    encoded = xr.apply_ufunc(
        plan.features,
        *_chunked(coordinates, da, chunks),
        output_core_dims=[[feature_dim]],
        dask="parallelized",
        output_dtypes=[plan.dtype],
        dask_gufunc_kwargs={"output_sizes": {feature_dim: len(plan.labels)}},
        keep_attrs=True,
    )
    encoded = encoded.transpose(feature_dim, ...).assign_coords({feature_dim: plan.labels})
    titles = [str(c.attrs.get("long_name", c.name)) for c in coordinates]
    encoded.name = "_".join([*(str(c.name) for c in coordinates), "encoding"])
    encoded.attrs = {"long_name": f"{encoding} encoding of {' and '.join(titles)}", "units": "1"}
    return encoded


def attention(
    query: xr.DataArray,
    key: xr.DataArray,
    value: Labelled,
    /,
    *,
    dim: Hashable | tuple[Hashable, Hashable],
    feature_dim: Hashable,
    mask: Labelled | Mask | None = None,
    bias: xr.DataArray | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    offset: int | None = None,
    block_size: int | None = None,
    fill_value: float = nan,
) -> Labelled:
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
        ``("new_time", "time")``, names the two apart. Both dimensions of a grid become one by
        ``array.stack(cell=("lat", "lon"))``, and two again by ``unstack("cell")``.
    feature_dim : str
        Dimension of the features. Its labels in `query` and `key` have to be the same, unless
        `dim` is a pair: features of "new_time" have other labels than features of "time".
    mask : xarray.DataArray of bool, Dataset of these or Mask, optional
        True where a query may not attend to a key, such as ``value.isnull()``, in a Dataset with
        one for each variable. It has the
        dimension of the keys, and may have the queries' if `dim` is a pair, and
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
        place of the keys', after dimensions that `value` lacks. Coordinates of the
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
    q_dim, k_dim = _pair_of(dim, feature_dim, query, key)
    options: Options = {"scale": scale, "softcap": softcap, "offset": offset}
    options["block_size"] = block_size
    if isinstance(value, xr.Dataset):
        options |= {"dim": dim, "feature_dim": feature_dim, "bias": bias, "fill_value": fill_value}
        return _attend_variables(partial(attention, query, key, **options), value, mask, k_dim)
    if isinstance(value, xr.DataArray) and value.dtype.kind in "iu":
        value = value.astype(np.float64)
    terms = drop_none(mask=mask, bias=bias)
    if isinstance(mask, Mask):
        options["mask"] = terms.pop("mask")
        if (count := mask._batch()) not in (1, None):  # noqa: SLF001 - of this library
            hint = " Pass an xarray.DataArray with the dimension of the sequences."
            raise wrong_value("mask", "be for one sequence", f"one for {count}", hint)
    elif offset is not None:
        raise wrong_value("offset", "be left out unless `mask` is a `Mask`", offset)
    _check_array("query", query, (q_dim, feature_dim), k_dim)
    _check_array("key", key, (k_dim, feature_dim), q_dim)
    _check_array("value", value, (k_dim,), q_dim)
    for name, term in terms.items():
        _check_array(name, term, (k_dim,), feature_dim)

    # From here on, coordinates of the queries take the place of coordinates of the keys.
    shared: tuple[xr.DataArray, ...] = ()
    for name, array in {"key": key, "value": value, **terms}.items():
        try:
            shared = xr.align(*shared, array, join="exact", copy=False, exclude={feature_dim})
        except ValueError as error:
            message = f"`{name}` must have the labels of the others: {error}"
            raise type(error)(message) from None
    keys, values, *others = (_without_coordinates(array, k_dim) for array in shared)
    # Within, each dimension has one meaning.
    rows = f"{q_dim} of `query`" if q_dim == k_dim else q_dim
    outputs, one_row = f"{feature_dim} of `value`", "all queries"
    queries = query.rename({q_dim: rows})
    if q_dim != k_dim:
        queries = _without_coordinates(queries, feature_dim)
    has_features = feature_dim in value.dims
    values = values.rename({feature_dim: outputs}) if has_features else values.expand_dims(outputs)
    others = [term if rows in term.dims else term.expand_dims(one_row) for term in others]
    core = [[rows, feature_dim], [k_dim, feature_dim], [k_dim, outputs]]
    core += [[rows if rows in term.dims else one_row, k_dim] for term in others]
    arrays = [
        array if array.chunks is None else array.chunk(dict.fromkeys(dims, -1))
        for array, dims in zip([queries, keys, values, *others], core, strict=True)
    ]
    attended = xr.apply_ufunc(
        partial(_attend, terms=tuple(terms), fill_value=_fill(fill_value), options=options),
        *arrays,
        input_core_dims=core,
        output_core_dims=[[rows, outputs]],
        join="exact",
        dask="parallelized",
        output_dtypes=[value.dtype],
        keep_attrs=True,
    )
    order = [rows if d == k_dim else d for d in values.dims]
    attended = attended.transpose(*(d for d in attended.dims if d not in order), *order)
    if not has_features:
        attended = attended.isel({outputs: 0})
    attended = attended.rename({rows: q_dim} | ({outputs: feature_dim} if has_features else {}))
    attended.name, attended.attrs = value.name, dict(value.attrs)
    return attended


def _chunked(coordinates: list[xr.DataArray], da: Labelled, chunks: Any) -> list[xr.DataArray]:
    """Return coordinates in the chunks that are given, or in the chunks of `da`."""
    dims = {d: None for c in coordinates for d in c.dims}
    is_given = chunks is not None
    if not is_given:
        chunksizes = da.unify_chunks().chunksizes
        chunks = {d: chunksizes[d] for d in dims if d in chunksizes}
    elif not isinstance(chunks, Mapping):
        raise wrong_type("chunks", "be a mapping from dimensions to lengths", shown(chunks))
    elif unknown := next((d for d in chunks if d not in dims), None):
        raise wrong_value("chunks", f"be for dimensions among {tuple(dims)}", shown(unknown))
    if not chunks:
        return coordinates
    chunked = []
    for c in coordinates:
        if is_given or c.chunks is None:
            # An index of pandas has no chunks: its values are one chunk first.
            lengths = {d: chunks.get(d, -1) for d in c.dims}
            try:
                data = c.variable.to_base_variable().chunk(lengths).data
            except (TypeError, ValueError, ZeroDivisionError):
                what = f"have lengths of chunks that fit {dict(c.sizes)}"
                raise wrong_value("chunks", what, shown(chunks)) from None
            c = xr.DataArray(data, c.coords, c.dims, c.name, c.attrs)  # noqa: PLW2901
        chunked.append(c)
    return chunked


# From the values of a coordinate to what is encoded.
Read: TypeAlias = Callable[[Array], Column]


class _Plan(NamedTuple):
    """What an encoding computes, on the last axis, with the labels and the dtype of that."""

    features: Callable[..., Array]
    labels: list[str]
    dtype: Dtype


def _plan(
    encoding: str, coordinates: list[xr.DataArray], time_zone: TimeZone, options: Options
) -> _Plan:
    """Return the plan of an encoding, after checking its options."""
    dtype = options.pop("dtype", None)
    dtype = None if dtype is None else np.dtype(dtype)
    needed, others = _OPTIONS[encoding]
    for name in options:
        if name not in needed + others:
            what = f"be among {', '.join(needed + others)} and dtype for {encoding!r}"
            raise wrong_type("options", what, shown(name))
    for name in needed:
        if name not in options:
            raise wrong_type(name, f"be given for {encoding!r}", "no such option")
    read = _reader(coordinates[0], time_zone)
    if encoding == "spherical":
        options["argument"] = "dim"
        if options.get("unit") is None:
            options["unit"] = _angular_unit(coordinates)
    # Errors that dask would raise only when it computes are raised here, by no coordinates at all.
    empty = [np.empty(0, dtype=c.dtype) for c in coordinates]
    described = []
    for c, values in zip(coordinates, empty, strict=True):
        of_cf = " ".join(str(c.attrs.get(name, "")) for name in ("standard_name", "units"))
        described.append(Coordinate(str(c.name), read(values), f"da[{c.name!r}]", of_cf))
    encoder = ENCODINGS[encoding](described, **options)
    names = [c.name for c in coordinates]
    if encoding == "spherical":
        names = ["_".join(str(names[i]) for i in encoder.order)]

    def features(*arrays: Array) -> Array:
        """Return the features of coordinates that broadcast, on the last axis."""
        blocks = encoder.encode([read(array) for array in arrays], dtype)
        xp = space_of(x=blocks[0]).xp
        return xp.moveaxis(xp.concat(blocks, axis=0), 0, -1)

    return _Plan(features, encoder.names(names), features(*empty).dtype)


def _fill(value: Any) -> float:
    """Return the number for queries that attend to no key, NaN and infinities among floats."""
    return value if isinstance(value, float) else float(checks.finite_number("fill_value", value))


def _coordinates(da: Labelled, dim: Any, encoding: str) -> list[xr.DataArray]:
    """Return the coordinates that `dim` names, after checking what they hold."""
    if not isinstance(da, xr.DataArray | xr.Dataset):
        raise wrong_type("da", "be an xarray.DataArray or an xarray.Dataset", type_name(da))
    is_pair = isinstance(dim, list | tuple)
    if encoding == "spherical":
        if not is_pair or len(dim) != 2 or dim[0] == dim[1]:
            raise wrong_type("dim", "be the names of latitude and longitude", shown(dim))
    elif is_pair:
        raise wrong_type("dim", f"be one name for {encoding!r}", shown(dim))
    coordinates = []
    for name in dim if is_pair else [dim]:
        if not isinstance(name, Hashable):
            raise wrong_type("dim", "be a name", shown(dim))
        if name not in da.coords:
            listed = ", ".join(map(repr, da.coords)) or "none"
            remedy = ""
            if name in da.dims:
                positions = f"{name}=range({da.sizes[name]})"
                remedy = f" Pass da.assign_coords({positions}) for positions from 0."
            elif name in getattr(da, "data_vars", ()):
                remedy = f" Pass da.set_coords({name!r})."
            raise wrong_value("dim", "name a coordinate", f"{name!r}; there are {listed}", remedy)
        c, place = da.coords[name], f"da[{name!r}]"
        dtype, has_times = c.dtype, encoding != "spherical"
        first = next(iter(c.values.flat), None) if dtype.kind in "OUT" else None
        is_datetime = isinstance(dtype, np.dtype) and dtype.kind == "M"
        is_datetime = is_datetime or hasattr(first, "dayofyr")  # a date of cftime
        if dtype.kind not in "iuf" and not (is_datetime and has_times):
            what = "hold numbers or dates" if has_times else "hold numbers"
            remedy = dates.remedy_for(first)
            if dtype.kind in "mM" and not is_datetime:
                remedy = f" Pass da.assign_coords({name}=days_since({place}))."
            raise wrong_type(place, what, str(dtype), remedy)
        coordinates.append(c)
    return coordinates


def _reader(coordinate: xr.DataArray, time_zone: TimeZone) -> Read:
    """Return what reads the values of coordinates: times on the clock of a zone, or as numbers."""
    zone, model = dates.time_zone_of(time_zone), dates.model_of(coordinate)
    if zone is not None and (coordinate.dtype.kind not in "MO" or model is not None):
        what = f"be left out unless da[{coordinate.name!r}] holds datetimes"
        raise wrong_value("time_zone", what, shown(zone))

    def read(x: Array) -> Column:
        if x.dtype.kind not in "MO":
            return x
        utc = wall = dates.utc_of("x", x)
        if zone is not None:
            in_utc = xr.IndexVariable("time", utc.ravel()).to_index().tz_localize("UTC")
            wall = in_utc.tz_convert(zone).tz_localize(None).to_numpy().reshape(x.shape)
        return Times(wall, utc, model=model)

    return read


def _angular_unit(coordinates: list[xr.DataArray]) -> str:
    """Return what the attributes of latitude and longitude say, degrees if nothing."""
    units = [str(c.attrs.get("units", "degrees")) for c in coordinates]
    for unit in ("degrees", "radians"):
        if all(text.startswith(unit[:3]) for text in units):
            return unit
    what = "be given unless the attributes 'units' are both degrees or both radians"
    raise wrong_value("unit", what, " and ".join(units))


# Attention over named dimensions.


def _pair_of(dim: object, feature_dim: Hashable, *arrays: object) -> tuple[Hashable, Hashable]:
    """Return the dimensions of the queries and of the keys, after a check."""
    pair = tuple(dim) if isinstance(dim, list | tuple) else (dim, dim)
    if len(pair) != 2 or not all(isinstance(name, Hashable) for name in pair):
        raise wrong_value("dim", "be one name, or those of queries and keys", shown(dim))
    if feature_dim in pair:
        raise wrong_value("feature_dim", f"not be in `dim`, {shown(dim)}", shown(feature_dim))
    if pair[0] != pair[1] and all({*pair} <= {*getattr(array, "dims", ())} for array in arrays):
        hint = f" Make one of a grid's by .stack(cell={pair}) of all arrays: dim='cell'."
        raise wrong_value("dim", "be one name for queries and keys that have both", f"{pair}", hint)
    return pair


def _attend_variables(
    attend: Callable[..., xr.DataArray], value: xr.Dataset, mask: Any, k_dim: Hashable
) -> xr.Dataset:
    """Return a Dataset with the output of each variable that has the dimension of the keys."""
    results = dict(value.items())
    names = [name for name, array in results.items() if k_dim in array.dims]
    if not names:
        what = f"have a variable with the dimension {k_dim!r}"
        raise wrong_value("value", what, f"dimensions {tuple(value.dims)}")
    for name in names:
        place, of_variable = f"value[{name!r}]", mask
        if isinstance(mask, xr.Dataset):
            if name not in mask:
                came = f"variables {list(mask.data_vars)}"
                raise wrong_value("mask", f"have a variable for {place}", came)
            of_variable = mask[name]
        checks.real(place, results[name].data, space_of(value=results[name].data).xp)
        results[name] = attend(results[name], mask=of_variable)
    return xr.Dataset(results, attrs=value.attrs)


def _check_array(name: str, array: Any, needed: Sequence[Hashable], other: Hashable) -> None:
    """Check that an array has the dimensions that it must, and not another one, and its dtype."""
    if not isinstance(array, xr.DataArray):
        what = " of bool or a `Mask`" if name == "mask" else ""
        came = type_name(array) if isinstance(array, xr.Dataset) else shown(array)
        raise wrong_type(name, f"be an xarray.DataArray{what}", came)
    checks.mask_or_bias(name, name, array.data, space_of(**{name: array.data}).xp)
    came = f"dimensions {array.dims}"
    for dim in needed:
        if dim not in array.dims:
            raise wrong_value(name, f"have the dimension {dim!r}", came)
    if other in array.dims and other not in needed:
        raise wrong_value(name, f"not have the dimension {other!r}", came)


def _without_coordinates(array: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Return an array without the coordinates that have a dimension."""
    return array.drop_vars([name for name, c in array.coords.items() if dim in c.dims])


def _attend(*arrays: Array, terms: tuple[str, ...], options: Options, fill_value: float) -> Array:
    """Return the output for query, key and value, and for the mask and the bias that `terms` name.

    Their axes are (..., sequence, feature) and (..., query, key). Further axes are aligned at the
    last one, and broadcast.
    """
    rank = max(array.ndim for array in arrays)
    query, key, value, *others = (a[(*(None,) * (rank - a.ndim), ...)] for a in arrays)
    space = space_of(query=query, key=key, value=value)
    xp, dtype, wide = space.xp, value.dtype, space.xp.result_type(query, key, value)
    query, key, value = (space.astype(array, wide) for array in (query, key, value))
    terms_by_name = dict(zip(terms, others, strict=True))
    hides = bool(terms_by_name) or options.get("mask") is not None
    attend = partial(_attend_aligned, query, key, options=options, hides=hides)

    def attend_to_each(value: Array, **terms_by_name: Array) -> Array:
        # Ones become the sum of the weights: 0 for a query without keys.
        ones = xp.ones_like(value[(*(slice(0, 1),) * (rank - 2), slice(None), slice(0, 1))])
        mean, weight = attend(value, ones, **terms_by_name)
        return xp.where(weight == 0, fill_value, mean)

    places: list[int] = []
    mask = terms_by_name.get("mask")
    if mask is not None and mask.shape[-2] == 1 and space.supports_inplace(value):
        of_all = [query, key, *others[1:]]
        lacking = (axis for axis in range(rank - 2) if all(a.shape[axis] == 1 for a in of_all))
        places = [axis for axis in lacking if mask.shape[axis] != 1]
    if not places:
        return space.astype(attend_to_each(value, **terms_by_name), dtype)

    # Places that hide other keys, but have queries and keys in common, have the weights in common,
    # too: the mean is the weighted sum of the values that a place sees by its part of the weights.
    is_seen = ~xp.matrix_transpose(mask)
    bias = {name: array for name, array in terms_by_name.items() if name == "bias"}
    total, part = attend(xp.where(is_seen, value, 0.0), xp.astype(is_seen, wide), **bias)
    attended = xp.where(part == 0, fill_value, total / xp.where(part == 0, 1.0, part))
    # A place whose part, or sum, is so small that it lacks digits has weights of its at_place.
    least = xp.finfo(wide).smallest_normal / xp.finfo(wide).eps
    is_small = (xp.abs(total) < least) & (total != 0)
    is_poor = ~(part >= least**0.5) | is_small
    is_poor &= xp.any(is_seen, axis=-2, keepdims=True)
    is_poor = xp.any(is_poor, axis=tuple(a for a in range(rank) if a not in places), keepdims=True)
    for index in np.argwhere(space.to_numpy(is_poor)).tolist():
        at = {axis: slice(index[axis], index[axis] + 1) for axis in places}
        at_place = {"value": value, **terms_by_name}
        for name, array in at_place.items():
            n_at = (at[a] if a in at and n > 1 else slice(None) for a, n in enumerate(array.shape))
            at_place[name] = array[tuple(n_at)]
        attended[tuple(at.get(axis, slice(None)) for axis in range(rank))] = attend_to_each(
            **at_place
        )
    return space.astype(attended, dtype)


def _attend_aligned(
    query: Array, key: Array, *values: Array, options: Options, hides: bool, **others: Array
) -> list[Array]:
    """Return the means of several arrays of values; all arrays have as many axes.

    `hides` tells whether the attention has a mask or a bias: then a value that is not finite makes
    all features of its place NaN, and no other place.
    """
    space = space_of(query=query, key=key)
    xp = space.xp
    shape = np.broadcast_shapes(*(array.shape[:-2] for array in (query, key, *others.values())))
    # Along an axis that only values have, the weights are the same: it is one of features.
    lacking = (axis for axis, n in enumerate(shape) if n == 1)
    value_axes = tuple(axis for axis in lacking if any(value.shape[axis] != 1 for value in values))
    is_bad = [~xp.isfinite(value) for value in values]
    if value_axes and hides and any(space.is_true(xp.any(bad)) for bad in is_bad):
        # The means of the finite values, and where a query sees others: equal weights tell.
        finite = [xp.where(b, 0.0, value) for b, value in zip(is_bad, values, strict=True)]
        others |= {"options": options, "hides": hides}
        means = _attend_aligned(query, key, *finite, **others)
        flags = [xp.astype(xp.any(b, axis=-1, keepdims=True), query.dtype) for b in is_bad]
        if "bias" in others:
            is_hidden, zeros = others["bias"] == -inf, xp.zeros_like(others["bias"])
            others["bias"] = xp.where(is_hidden, others["bias"], zeros)
        query, key = xp.zeros_like(query), xp.zeros_like(key)
        seen = _attend_aligned(query, key, *flags, **others)
        return [xp.where(flag > 0, nan, mean) for flag, mean in zip(seen, means, strict=True)]
    ends = tuple(range(-1 - len(value_axes), -1))
    shape = tuple(n for axis, n in enumerate(shape) if axis not in value_axes)
    columns, features = [], []
    for value in values:
        column = xp.moveaxis(value, value_axes, ends)
        features.append(column.shape[len(shape) + 1 :])
        column = xp.reshape(column, (*column.shape[: len(shape) + 1], prod(features[-1])))
        columns.append(xp.broadcast_to(column, (*shape, *column.shape[-2:])))
    query, key = (xp.squeeze(array, axis=value_axes) for array in (query, key))
    key = xp.broadcast_to(key, (*shape, *key.shape[-2:]))
    options = {**options, "feature_axis": -1, "seq_axis": -2}
    options |= {name: xp.squeeze(array, axis=value_axes) for name, array in others.items()}
    attended = scaled_dot_product_attention(query, key, xp.concat(columns, axis=-1), **options)
    means, start = [], 0
    for lengths in features:
        mean = attended[..., start : start + prod(lengths)]
        mean = xp.reshape(mean, (*mean.shape[:-1], *lengths))
        means.append(xp.moveaxis(mean, ends, value_axes))
        start += prod(lengths)
    return means
