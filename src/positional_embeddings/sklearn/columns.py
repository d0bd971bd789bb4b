"""Columns of tables for the estimators: which of them hold dates, and tables with days for dates.

Tables of pandas and polars are read by their own methods, so that neither is imported.
"""

from datetime import tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import HostArray, np
from positional_embeddings.encodings.dates import (
    days_of,
    holds_dates,
    holds_spans,
    is_date,
    is_missing,
    zone_of,
)


class Column(NamedTuple):
    """A column that regressors and kernels see as numbers."""

    name: str | None
    is_time: bool  # in days, since 1970-01-01 UTC or as spans
    zone: tzinfo | None  # in which its dates were


def as_table(x: Any) -> Any:
    """Return dates along one axis as a table of one column, anything else as it came."""
    if isinstance(x, list | tuple) and any(map(_has_date, x)):
        x = np.asarray(x, dtype=object)
    if len(getattr(x, "shape", ())) != 1 or not holds_dates(x):
        return x
    if hasattr(x, "to_frame"):  # a series, or an index of pandas, which would be its own index
        return x.to_frame()
    return x[:, None]


def _has_date(row: Any) -> bool:
    return any(map(is_date, row)) if isinstance(row, list | tuple) else is_date(row)


def check_no_text(x: Any) -> None:
    """Check that no column of a table holds text that is no number, such as dates."""
    if isinstance(x, list | tuple):
        x = np.asarray(x, dtype=object)
    if hasattr(x, "columns"):
        columns = {f"X[{name!r}]": column_of(x, j) for j, name in enumerate(x.columns)}
    elif isinstance(x, np.ndarray) and x.ndim == 2:
        columns = {f"X[:, {j}]": x[:, j] for j in range(x.shape[1])}
    else:
        columns = {"X": x} if len(getattr(x, "shape", ())) == 1 else {}
    for name, column in columns.items():
        if getattr(column.dtype, "kind", "O") not in "OUT":
            continue
        first = next((value for value in column if not is_missing(value)), None)
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
    may_hold_times = isinstance(table, np.ndarray) and table.dtype.kind in "mMO"
    if not (is_frame(table) or may_hold_times) or len(table.shape) != 2:
        return []
    return [holds_dates(column_of(table, j)) for j in range(table.shape[1])]


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
        if not any(isinstance(own, str) for own in names):
            raise wrong_type(name, "be an integer for columns without names", shown(column))
        if column not in names:
            raise wrong_value(name, f"be one of {names}", shown(column))
        return names.index(column)
    index = checks.integer(name, column)
    if not 0 <= index < n_columns:
        raise wrong_value(name, f"be 0 to {n_columns - 1}", index)
    return index


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


def with_days(x: Any) -> tuple[Any, list[Column]]:
    """Return a table with times as days since 1970-01-01 UTC, and its columns if any are times.

    Spans of time become days; anything else is returned as it came.
    """
    table, days, columns = as_table(x), {}, []
    of_dates = columns_of_dates(table)
    names = getattr(table, "columns", [f"x{j}" for j in range(len(of_dates))])
    for j, is_date_column in enumerate(of_dates):
        name, column = f"X[{names[j]!r}]", column_of(table, j)
        if is_date_column or holds_spans(column):
            days[j] = days_of(name, column)
        if is_date_column and np.isnan(days[j]).any():
            raise wrong_value(name, "have no missing times", "NaT")
        columns.append(Column(names[j], j in days, zone_of(column) if is_date_column else None))
    if not days:
        return table, []
    if isinstance(table, np.ndarray):
        numbers = [days.get(j, table[:, j]) for j in range(len(columns))]
        return np.stack([n.astype(np.float64) for n in numbers], axis=1), columns
    return with_columns(table, days), columns


def check_times(name: str, columns: list[Column], fitted: list[Column]) -> None:
    """Check that the same columns hold times as in `fit`, with zones or without."""
    expected, came = (
        [f"column {j}{' with a zone' if c.zone else ''}" for j, c in enumerate(some) if c.is_time]
        for some in (fitted, columns)
    )
    if expected != came:
        what, got = (" and ".join(found) or "no column" for found in (expected, came))
        raise wrong_value(name, f"have times as in `fit`, in {what}", f"them in {got}")
