"""Columns of tables: arrays of numbers, or times as the wall clock shows them and in UTC.

Tables of pandas and polars are read by their own methods, so that neither is imported.
"""

from collections.abc import Sequence
from datetime import date, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import HostArray, host
from positional_embeddings.coordinates.calendar import LENGTHS, elapsed
from positional_embeddings.coordinates.labelled import Times


def as_table(x: Any) -> Any:
    """Return dates along one axis as a table of one column, anything else as it came."""
    if isinstance(x, list | tuple) and any(map(_has_date, x)):
        x = host.asarray(x, dtype=object)
    if len(getattr(x, "shape", ())) != 1 or not _holds_dates(x):
        return x
    if hasattr(x, "to_frame"):  # a series, or an index of pandas, which would be its own index
        return x.to_frame()
    return x[:, None]


def _has_date(row: Any) -> bool:
    return any(map(_is_date, row)) if isinstance(row, list | tuple) else _is_date(row)


def check_no_text(x: Any) -> None:
    """Check that no column of a table holds text that is no number, such as dates."""
    if isinstance(x, list | tuple):
        x = host.asarray(x, dtype=object)
    if hasattr(x, "columns"):
        columns = {f"X[{name!r}]": column_of(x, j) for j, name in enumerate(x.columns)}
    elif isinstance(x, host.ndarray) and x.ndim == 2:
        columns = {f"X[:, {j}]": x[:, j] for j in range(x.shape[1])}
    else:
        columns = {"X": x} if len(getattr(x, "shape", ())) == 1 else {}
    for name, column in columns.items():
        if getattr(column.dtype, "kind", "O") not in "OUT":
            continue
        first = next((value for value in column if not _is_missing(value)), None)
        if isinstance(first, str) and not _is_number(first):
            remedy = f" Pass pandas.to_datetime({name}) for dates."
            raise wrong_type("X", "hold numbers or dates", f"text, {str(first)!r}", remedy)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def columns_of_dates(table: Any) -> list[bool]:
    """Tell which columns of a table hold dates; an array of numbers is not read."""
    may_hold_times = isinstance(table, host.ndarray) and table.dtype.kind in "mMO"
    if not (is_frame(table) or may_hold_times) or len(table.shape) != 2:
        return []
    return [_holds_dates(column_of(table, j)) for j in range(table.shape[1])]


def is_frame(table: Any) -> bool:
    """Tell whether a table is one of pandas or polars."""
    return hasattr(table, "iloc") or hasattr(table, "get_columns")


def column_of(table: Any, at: int) -> Any:
    """Return a column of a table: a series, or an array of one axis."""
    return table.iloc[:, at] if hasattr(table, "iloc") else table[:, at]


def with_columns(table: Any, columns: dict[int, HostArray]) -> Any:
    """Return a copy of a table of pandas or polars with some columns replaced."""
    if hasattr(table, "iloc"):
        table = table.copy()
        for j, column in columns.items():
            table.isetitem(j, column)
        return table
    names = table.columns
    return table.with_columns(type(table)({names[j]: columns[j] for j in columns}).get_columns())


def index_of(name: str, column: Any, names: list[Any], n_columns: int) -> int:
    """Return the index of a column from its name or index."""
    if isinstance(column, str):
        if column not in names:
            raise wrong_value(name, f"be one of {names}", shown(column))
        return names.index(column)
    index = checks.integer(name, column)
    if not 0 <= index < n_columns:
        raise wrong_value(name, f"be 0 to {n_columns - 1}", index)
    return index


def _holds_dates(column: Any) -> bool:
    kind, dtype = getattr(column.dtype, "kind", None), str(column.dtype)
    if kind == "M" or dtype.startswith("Date"):
        return True
    if not (kind == "O" or dtype == "Object"):
        return False
    return any(_is_date(value) and not _is_missing(value) for value in column)


def _is_date(value: Any) -> bool:
    return isinstance(value, date | host.datetime64)


def _is_missing(value: Any) -> bool:
    """Tell whether an object is None, NaN, NaT or pandas.NA, which has no truth value."""
    return value is None or str(value) in ("nan", "NaT", "<NA>")


def times_of(column: Any, name: str, zone: tzinfo | None, *, allow_missing: bool = False) -> Times:
    """Return a column of dates as times; a zone is the one whose wall clock is asked for."""
    if isinstance(column, host.ndarray) and column.dtype.kind == "M":
        times = Times(column, column, None)
    elif getattr(column.dtype, "kind", None) == "M":
        times = _times_of_pandas(column, zone)
    elif str(column.dtype).startswith("Date"):
        times = _times_of_polars(column, zone)
    else:
        times = _times_of_objects(list(column), name, zone)
    if not allow_missing and host.isnat(times.wall).any():
        raise wrong_value("X", "have no missing times", f"NaT in column {name!r}")
    if zone is not None and times.zone is None:
        remedy = " Give them theirs, as with pandas.Series.dt.tz_localize."
        came = f"times without a zone in column {name!r}"
        raise wrong_value("X", "have times with a zone where `time_zone` is given", came, remedy)
    return times


def _times_of_pandas(column: Any, zone: tzinfo | None) -> Times:
    if not _has_zone(column):
        naive = _naive_times_of_pandas(column)
        return Times(naive, naive, None)
    local = column if zone is None else column.dt.tz_convert(zone)
    utc = _naive_times_of_pandas(column.dt.tz_convert("UTC").dt.tz_localize(None))
    wall = _naive_times_of_pandas(local.dt.tz_localize(None))
    return Times(wall, utc, str(local.dt.tz))


def _has_zone(column: Any) -> bool:
    try:
        return column.dt.tz is not None
    except NotImplementedError:  # dates of pyarrow
        return False


def _naive_times_of_pandas(column: Any) -> HostArray:
    times: HostArray = column.to_numpy()
    if times.dtype.kind != "M":  # columns of pyarrow become objects
        unit = "ns" if "[ns" in str(column.dtype) else "us"
        times = column.to_numpy(dtype=f"datetime64[{unit}]")
    return times


def _times_of_polars(column: Any, zone: tzinfo | None) -> Times:
    own = getattr(column.dtype, "time_zone", None)
    if own is None:
        naive = column.to_numpy()
        return Times(naive, naive, None)
    utc = column.dt.convert_time_zone("UTC")
    naive = utc.dt.replace_time_zone(None).to_numpy()
    key = own if zone is None else getattr(zone, "key", None)
    if key is None:  # polars knows zones by their names only
        wall = naive + _offsets(_on_clock(utc.to_list(), zone))
    else:
        wall = column.dt.convert_time_zone(key).dt.replace_time_zone(None).to_numpy()
    return Times(wall, naive, own if zone is None else str(zone))


def _on_clock(times: Sequence[Any], zone: tzinfo | None) -> list[Any]:
    """Return times on the clock of a zone, or of their own; None stays None."""
    try:
        return [time if None in (time, zone) else time.astimezone(zone) for time in times]
    except OverflowError:
        what = "keep the times of `X` within the years 1 to 9999"
        raise wrong_value("time_zone", what, shown(zone)) from None


def _offsets(times: Sequence[Any]) -> HostArray:
    """Return how far the clocks of times are ahead of UTC, NaT where a time is missing."""
    offsets = [None if time is None else time.utcoffset() for time in times]
    ahead: HostArray = host.asarray(offsets, dtype="timedelta64[us]")
    return ahead


def _times_of_objects(values: list[Any], name: str, zone: tzinfo | None) -> Times:
    if not all(_is_date(value) or _is_missing(value) for value in values):
        other = next(v for v in values if not (_is_date(v) or _is_missing(v)))
        came = f"{shown(other)} among dates in column {name!r}"
        raise wrong_type("X", "have columns of one kind", came)
    values = [None if _is_missing(value) else value for value in values]
    zones = sorted({str(getattr(v, "tzinfo", None)) for v in values if v is not None})
    if len(zones) > 1:
        came = f"{' and '.join(zones)} in column {name!r}"
        remedy = " Convert them to one, as with pandas.to_datetime(..., utc=True)."
        raise wrong_value("X", "have one time zone in a column", came, remedy)
    own = _naive_times(values, name)
    if zones in ([], ["None"]):
        return Times(own, own, None)
    wall = _naive_times(_on_clock(values, zone), name)
    return Times(wall, own - _offsets(values), zones[0] if zone is None else str(zone))


def _naive_times(values: Sequence[Any], name: str) -> HostArray:
    """Return dates as their own clock shows them; a Timestamp of pandas keeps its unit."""
    naive = [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in values]
    keep = [_datetime64(value) for value in naive]
    times: HostArray = host.asarray(keep)
    is_exact = (
        host.isnat(own) or time.astype(own.dtype) == own
        for time, own in zip(times, keep, strict=True)
    )
    if times.dtype.kind != "M" or not all(is_exact):
        units = " and ".join(sorted({str(time.dtype) for time in keep}))
        raise wrong_value("X", "have dates that one unit holds", f"{units} in column {name!r}")
    return times


def _datetime64(value: Any) -> Any:
    if value is None:
        return host.datetime64("NaT", "s")
    return value.to_datetime64() if hasattr(value, "to_datetime64") else host.datetime64(value)


def time_zone_of(time_zone: Any) -> tzinfo | None:
    """Return a zone from its name, such as "Europe/Zurich"."""
    if time_zone is None or isinstance(time_zone, tzinfo):
        return time_zone
    what = 'be the name of a time zone, such as "Europe/Zurich", a tzinfo or None'
    if not isinstance(time_zone, str):
        raise wrong_type("time_zone", what, shown(time_zone))
    try:
        return ZoneInfo(time_zone)
    except (KeyError, OSError, ValueError):  # the last two where the text is no file's name
        raise wrong_value("time_zone", what, shown(time_zone)) from None


def with_days(x: Any) -> tuple[Any, list[bool]]:
    """Return a table with times as days since 1970-01-01 UTC, and which columns were times.

    Spans of time become days; anything else is returned as it came.
    """
    table = as_table(x)
    dates = enumerate(columns_of_dates(table))
    kinds = [is_date or holds_spans(column_of(table, j)) for j, is_date in dates]
    if not any(kinds):
        return table, []
    names = list(getattr(table, "columns", (f"x{j}" for j in range(len(kinds)))))
    days = {j: days_of(column_of(table, j), str(names[j])) for j, kind in enumerate(kinds) if kind}
    if isinstance(table, host.ndarray):
        rest = [days[j] if j in days else table[:, j] for j in range(len(kinds))]
        return host.stack([column.astype(host.float64) for column in rest], axis=1), kinds
    return with_columns(table, days), kinds


def holds_spans(column: Any) -> bool:
    """Tell whether a column holds spans of time."""
    dtype = column.dtype
    return getattr(dtype, "kind", None) == "m" or str(dtype).startswith("Duration")


def check_times(name: str, is_time: list[bool], fitted: list[bool]) -> None:
    """Check that the same columns hold times as in `fit`."""
    if is_time != fitted:
        names = [[f"column {j}" for j, t in enumerate(kinds) if t] for kinds in (fitted, is_time)]
        expected, came = (" and ".join(found) or "no column" for found in names)
        raise wrong_value(name, f"have times as in `fit`, in {expected}", f"them in {came}")


def days_of(column: Any, name: str) -> HostArray:
    """Return a column of dates as days since 1970-01-01 UTC, or of spans of time as days."""
    if holds_spans(column):
        spans = host.asarray(column)
        if host.datetime_data(spans.dtype)[0] not in LENGTHS:
            came = f"{spans.dtype} in column {name!r}"
            raise wrong_value("X", "have spans of time of fixed length", came)
        times = spans.view(spans.dtype.str.replace("m", "M"))  # so long after 1970-01-01
    else:
        times = times_of(column, name, None).utc
    return elapsed(times, host.datetime64(0, "s"), "D")
