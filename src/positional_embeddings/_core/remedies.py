"""Remedies: the line that makes an array of numbers of a table, a date or a span of time.

What is refused is told how it becomes an array. Tables of pandas, polars and xarray are known by
their names and attributes, so that none of them is imported.
"""

from datetime import date, timedelta
from numbers import Integral, Real
from typing import Any

_DAY = "numpy.timedelta64(1, 'D')"
_WITH_GAPS = "dtype=float, na_value=numpy.nan"
_ORIGIN = "numpy.datetime64(0, 'D')"
_SINCE_1970 = " for days since 1970-01-01"
_TO_UTC = "'datetime64[ns]'"

# Arrays that hold integers: times become whole days.
_INTEGER_ARRAYS = ("cumulative", "ids", "key_ids", "lengths", "relative_position", "segment_ids")

# Arrays for which one number will do: in a list, or as an array without axes.
_LISTED = ("ids", "indices", "lengths")
_OF_ANY_SHAPE = ("latitude", "longitude")

# Options that count positions, places among them and distances between them: these may be days.
_LENGTHS = ("k_len", "max_len", "original_max_position", "q_len", "seq_len")
_PLACES = ("center", "delta", "offset", "q_start", "q_stop", "start")
_SPANS = ("chunk_size", "length", "max_distance", "period", "periods", "threshold", "window")
_WAVES = ("length_scale", "longest", "scale_base", "shortest", "wavelengths")
_IN_POSITIONS = _LENGTHS + _PLACES + _SPANS + _WAVES


def remedy_for(name: str, value: Any) -> str:
    """Return the sentence that tells how a value of a kind that is known becomes an array."""
    if isinstance(value, list | tuple | str | bool | Real):
        return _sentence(_line_for_python(name, value))
    if hasattr(value, "dense") and hasattr(value, "key_ranges"):
        return f" Pass {name}.dense(q_len, k_len)."
    if hasattr(value, "toarray"):  # a sparse matrix of SciPy
        return f" Pass {name}.toarray()."
    division = "//" if _without_index(name) in _INTEGER_ARRAYS else "/"
    if isinstance(value, date | timedelta):
        return _sentence(_line_for_one_time(name, value, division))
    packages = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    if packages & {"pandas", "polars"} and hasattr(value, "to_numpy"):
        return _remedy_for_table(name, value, division)
    return _remedy_for_xarray(name, value, division) if "xarray" in packages else ""


def _line_for_python(name: str, value: Any) -> str:
    """Return the line for a list, a text or one number."""
    if isinstance(value, list | tuple):
        return f"numpy.asarray({name})"
    if isinstance(value, str | bool):
        return "a `Mask` such as CausalMask()" if name == "mask" else ""
    if name in _LISTED:
        return f"[{name}]"
    if name == "positions" and isinstance(value, Integral):
        return f"numpy.arange({name})"
    return f"numpy.asarray({name})" if name in _OF_ANY_SHAPE else ""


def remedy_for_times(name: str, array: Any, division: str) -> str:
    """Return the sentence that tells how dates, spans of time and objects become numbers."""
    kind = _kind_of(array)
    if kind.startswith("objects") and array.shape:
        return _sentence(_line_for_objects(name, array, kind, division))
    if kind == "date":
        return _sentence(_line_for_dates(name, division))
    return _sentence(f"{name} {division} {_DAY} for days" if kind == "span" else "")


def remedy_for_span(name: str, value: Any, division: str) -> str:
    """Return the sentence that tells how a span of time becomes a number of positions."""
    is_span = isinstance(value, timedelta) or _kind_of(value) == "span"
    counts_positions = _without_index(name) in _IN_POSITIONS
    return f" Pass {name} {division} {_DAY} for days." if is_span and counts_positions else ""


def _without_index(name: str) -> str:
    return name.partition("[")[0]


def _sentence(line: str) -> str:
    return f" Pass {line}." if line else ""


def _kind_of(values: Any) -> str:
    """Return what values are by their dtype, and objects by the first of them."""
    dtype = getattr(values, "dtype", None)
    letter, text = getattr(dtype, "kind", ""), str(dtype)
    if letter == "M" or text.startswith(("Date", "datetime64")):
        return "date"
    if letter == "m" or text.startswith(("Duration", "timedelta64")):
        return "span"
    if text.startswith("period["):
        return "period"
    if text in ("str", "string", "String"):
        return "text"
    if text not in ("object", "Object"):
        return "number"
    first = next(iter(getattr(values, "flat", values)), None)
    kinds = {date: "objects: dates", timedelta: "objects: spans", Real: "objects: numbers"}
    return next((kinds[kind] for kind in kinds if isinstance(first, kind)), "text")


def _line_for_dates(line: str, division: str) -> str:
    """Return the line from an array of datetime64; two arrays have the same origin."""
    return f"({line} - {_ORIGIN}) {division} {_DAY}{_SINCE_1970}"


def _zone_of(column: Any) -> Any:
    """Return the time zone of dates of pandas, whose arrays would be of objects."""
    return getattr(getattr(column, "dtype", None), "tz", None)


def _line_for_objects(line: str, values: Any, kind: str, division: str) -> str:
    """Return the line from an array of objects, such as dates with a time zone, to numbers."""
    if kind == "objects: numbers":
        return f"{line}.astype(float)"
    if kind == "objects: spans":
        return f"{line}.astype('timedelta64[us]') {division} {_DAY} for days"
    first = next(iter(getattr(values, "flat", values)))
    if getattr(first, "tzinfo", None) is None:
        return _line_for_dates(f"{line}.astype('datetime64[us]')", division)
    spans = f"({line} - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))"
    return f"{spans}.astype('timedelta64[us]') {division} {_DAY}{_SINCE_1970}"


def _line_for_one_time(name: str, time: date | timedelta, division: str) -> str:
    """Return the line for one date or span: in UTC if it has a time zone."""
    if isinstance(time, timedelta):
        return f"numpy.asarray({name} {division} {_DAY}) for days"
    if hasattr(time, "to_datetime64"):  # of pandas
        moment = f"{name}.to_datetime64()"
    elif getattr(time, "tzinfo", None) is not None:
        return f"numpy.asarray({name}.timestamp() {division} 86400){_SINCE_1970}"
    else:
        moment = f"numpy.datetime64({name})"
    return _line_for_dates(moment, division)


def _remedy_for_xarray(name: str, value: Any, division: str) -> str:
    if hasattr(value, "data_vars"):  # a data set, of which one array is an example
        first = next(iter(value.data_vars), next(iter(value.coords), None))
        return "" if first is None else remedy_for(f"{name}[{first!r}]", value[first])
    if not hasattr(value, "data"):
        return ""
    lines = {
        "date": f"(({name} - {_ORIGIN}) {division} {_DAY}).data{_SINCE_1970}",
        "span": f"({name} {division} {_DAY}).data for days",
    }
    return _sentence(lines.get(_kind_of(value), f"{name}.data"))


def _remedy_for_table(name: str, value: Any, division: str) -> str:
    """Return the sentence about a series, an index or a table of pandas or polars."""
    if hasattr(value, "columns") and hasattr(value, "dtypes"):
        return _sentence(_line_for_columns(name, value, division))
    kind = _kind_of(value)
    if kind.startswith("objects"):
        return _sentence(_line_for_objects(f"{name}.to_numpy()", value, kind, division))
    starts = f"{name}.dt.to_timestamp()" if hasattr(value, "dt") else f"{name}.to_timestamp()"
    has_gaps = getattr(value, "hasnans", False) and hasattr(value.dtype, "na_value")
    lines = {
        "date": _line_for_dates(f"{name}.to_numpy({_TO_UTC if _zone_of(value) else ''})", division),
        "span": f"{name}.to_numpy() {division} {_DAY} for days",
        "period": _line_for_dates(f"{starts}.to_numpy()", division),
        "number": f"{name}.to_numpy({_WITH_GAPS if has_gaps else ''})",
        "text": "",
    }
    return _sentence(lines[kind])


def _line_for_columns(name: str, table: Any, division: str) -> str:
    """Return the line for a table of one kind, or else for its columns of numbers."""
    of_pandas = hasattr(table, "iloc")
    columns = [table.iloc[:, j] if of_pandas else table[:, j] for j in range(table.shape[1])]
    kinds = {_kind_of(column) for column in columns}
    array = f"{name}.to_numpy()"
    dates = f"{name}.to_numpy({_TO_UTC})" if any(map(_zone_of, columns)) else array
    numbers = "select_dtypes('number')" if of_pandas else "select(polars.selectors.numeric())"
    lines = {
        "date": _line_for_dates(dates, division),
        "span": f"{array} {division} {_DAY} for days",
        "number": array,
        "mixed": f"{name}.{numbers}.to_numpy() for its numbers" if "number" in kinds else "",
    }
    return lines.get(kinds.pop() if len(kinds) == 1 else "mixed", "")
