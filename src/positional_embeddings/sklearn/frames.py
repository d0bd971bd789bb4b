"""Tables of the estimators: columns of times, and their conversion to days.

Methods of pandas and polars read their tables, so that this module imports neither.
"""

from collections.abc import Sequence
from datetime import tzinfo
from math import nan
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arrays.errors import (
    format_value,
    type_name,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import HostArray, is_real_number, np
from positional_embeddings.times import dates

# Full turns of angles, with expressions for radians and for the inverse; and the smallest number of
# distinct values near each end of a turn.
_TURNS = [
    (360.0, "np.deg2rad(angle)", "np.rad2deg(np.arctan2(y, x))"),
    (2 * np.pi, "angle", "np.arctan2(y, x)"),
]
_MIN_VALUES_AT_END = 3

# A table or a series of pandas or polars, or an array.
Table: TypeAlias = Any


class Column(NamedTuple):
    """The kind of a column of numbers."""

    is_time: bool  # days since 1970-01-01 UTC, or spans of days
    zone: tzinfo | None  # of the dates
    is_date: bool = False  # days since 1970-01-01 UTC


def as_table(x: Any, name: str = "X") -> Table:
    """Convert a series, or times or text along one axis, to a table of one column."""
    if hasattr(x, "map_partitions"):  # of dask
        hint = f" Pass {name}.compute(), or call a fitted estimator by {name}.map_partitions."
        raise wrong_type(name, "be a table in memory", type_name(x), hint)
    if hasattr(x, "collect"):  # lazy, of polars
        raise wrong_type(name, "be a table in memory", type_name(x), f" Pass {name}.collect().")
    if hasattr(x, "dims") and hasattr(x, "to_dataframe"):  # of xarray
        column = "" if hasattr(x, "data_vars") else "'value'"
        is_small = len(x.dims) <= 2 and column
        call = "to_pandas()" if is_small else f"to_dataframe({column}).reset_index()"
        hint = f" Pass {name}.{call}, which keeps the coordinates."
        raise wrong_type(name, "be a table or an array", type_name(x), hint)
    if isinstance(x, list | tuple):
        x = np.asarray(x, dtype=object)
    if hasattr(x, "to_frame"):  # also an index of pandas
        return x.to_frame()
    return x[:, None] if len(getattr(x, "shape", ())) == 1 and column_kind(x) != "numbers" else x


def labelled_columns(name: str, table: Table) -> list[tuple[str, str, Table]]:
    """Return the label in errors, the kind and the values of each column; raise an error for text.

    The kinds are "dates", "spans" and "numbers". The list is empty for an array of numbers.
    """
    may_hold_times = isinstance(table, np.ndarray) and table.dtype.kind in "mMOUT"
    if not (is_frame(table) or may_hold_times) or len(table.shape) != 2:
        return []
    names = getattr(table, "columns", [f"x{j}" for j in range(table.shape[1])])
    columns = []
    for j, key in enumerate(names):
        label, column = f"{name}[{key!r}]", get_column(table, j)
        label = name if name.endswith(".index") else label
        kind = column_kind(column)
        if kind not in ("dates", "spans", "numbers"):
            hint = conversion_hint(column)
            hint = hint or " Encode categories separately, as by OneHotEncoder of scikit-learn."
            raise wrong_type(label, "hold numbers or dates", kind, hint)
        columns.append((label, kind, column))
    return columns


def conversion_hint(column: Table) -> str:
    """Return a hint how to convert text or periods to dates, or ""."""
    present = (x for x in column if not (dates.is_missing(x) or (isinstance(x, str) and not x)))
    if not (hint := dates.remedy_for(next(present, None))):
        return ""
    hint = max([hint, *map(dates.remedy_for, present)], key=len)  # the longest hint fits all values
    is_series = hasattr(column, "to_frame") and not hasattr(column, "to_series")
    return hint if is_series else hint.replace(".dt", "")  # for an index


def column_kind(column: Table) -> str:
    """Return "dates", "spans" or "numbers", or the first text or period that is no number."""
    kind, name = getattr(column.dtype, "kind", "O"), str(column.dtype)  # polars has no kind
    if kind == "m" or name.startswith("Duration"):
        return "spans"
    if kind == "M" or name.startswith("Date"):
        return "dates"
    if kind in "OUT":
        present = (value for value in column if not dates.is_missing(value))
        first = next(present, nan)
        may_differ = name in ("object", "Object") or isinstance(first, str)
        values = [first, *present] if may_differ else [first]
        if any(map(dates.is_date, values)):
            return "dates"
        for value in values:
            try:
                float(value)
            except ValueError:
                return f"text, {str(value)!r}"
            except TypeError:  # scikit-learn rejects other types
                if hasattr(value, "to_timestamp"):
                    return f"periods, {value!r}"
    return "numbers"


def levels_of(table: Table) -> list[str]:
    """Return "booleans", "categories" or "" for each column."""
    if not is_frame(table):
        count = table.shape[1] if len(getattr(table, "shape", ())) == 2 else 0
        is_boolean = getattr(getattr(table, "dtype", None), "kind", "") == "b"
        return ["booleans" if is_boolean else ""] * count
    dtypes = (str(dtype).lower() for dtype in table.dtypes)
    return [
        "booleans" if name.startswith("bool") else "categories" if name == "category" else ""
        for name in dtypes
    ]


def is_frame(table: Table) -> bool:
    """Return whether a table is a table of pandas or polars."""
    return hasattr(table, "iloc") or hasattr(table, "get_columns")


def get_column(table: Table, index: int) -> Table:
    """Return a column of a table: a series, or an array of one axis."""
    return table.iloc[:, index] if hasattr(table, "iloc") else table[:, index]


def replace_columns(table: Table, columns: dict[int, HostArray]) -> Table:
    """Return a copy of a table of pandas or polars with some columns replaced."""
    if hasattr(table, "iloc"):
        table = table.copy()
        for j, column in columns.items():
            table.isetitem(j, column)
        return table
    names = table.columns
    return table.with_columns(type(table)({names[j]: columns[j] for j in columns}).get_columns())


def frame_of(kind: Any, names: list[str], positions: HostArray, columns: Sequence[Column]) -> Table:
    """Return positions, (rows, columns), as a frame of pandas or polars, with dates for days."""
    frame = kind(dict(zip(names, positions.T, strict=True)))
    times = {}
    for j, column in enumerate(columns):
        if not column.is_time:
            continue
        microseconds = np.round(positions[:, j] * 86400e6)
        times[j] = microseconds.astype("datetime64[us]" if column.is_date else "timedelta64[us]")
    frame = replace_columns(frame, times) if times else frame
    zones = {j: column.zone for j, column in enumerate(columns) if column.zone is not None}
    for j, zone in zones.items():
        clock = get_column(frame, j).dt
        if hasattr(clock, "tz_localize"):
            frame.isetitem(j, clock.tz_localize("UTC").dt.tz_convert(zone))
        else:
            series = clock.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
            frame = frame.with_columns(series)
    return frame


def times_to_days(x: Any, name: str = "X") -> tuple[Table, list[Column]]:
    """Convert times to days since 1970-01-01 UTC, and spans to days; raise an error for text.

    Also return the kinds of the columns, an empty list without times.
    """
    table, days, columns = as_table(x, name), {}, []
    for j, (label, kind, column) in enumerate(labelled_columns(name, table)):
        zone = None
        if kind != "numbers":
            times = dates.utc_of(label, column)
            days[j] = dates.days_of(label, times)
            check_distinct(label, times, days[j])
        if kind == "dates":
            zone, calendar = dates.zone_of(column), dates.calendar_of(column)
            if calendar is not None:
                hint = " Pass days_since of the column, and periods in days."
                raise wrong_value(label, "have dates of the standard calendar", calendar, hint)
            if np.isnan(days[j]).any():
                row = np.flatnonzero(np.isnan(days[j]))[0]
                raise wrong_value(label, "have no missing times", f"NaT in row {row}")
        columns.append(Column(j in days, zone, kind == "dates"))
    if not days:
        return table, []
    if is_frame(table):
        return replace_columns(table, days), columns
    numbers = [days.get(j, table[:, j]) for j in range(len(columns))]
    return np.stack([n.astype(np.float64) for n in numbers], axis=1), columns


def check_times(name: str, columns: list[Column], fitted: list[Column]) -> None:
    """Check that the columns of times, and of times with a zone, are as in `fit`."""
    expected, actual = (
        [f"column {j}{' with a zone' if c.zone else ''}" for j, c in enumerate(table) if c.is_time]
        for table in (fitted, columns)
    )
    if expected != actual:
        requirement = f"have times as in `fit`, in {' and '.join(expected) or 'no column'}"
        raise wrong_value(name, requirement, f"them in {' and '.join(actual) or 'no column'}")


def column_indices(name: str, columns: Any, names: list[Any], n_columns: int) -> list[int]:
    """Return the indices of columns, which are names or indices."""
    choices = [*range(n_columns), *names]
    for i, column in enumerate(columns):
        is_index = isinstance(column, Integral) and is_real_number(column)
        if not (is_index or isinstance(column, str)) or column not in choices:
            raise wrong_value(f"{name}[{i}]", f"be one of {choices}", format_value(column))
    return [choices.index(column) % n_columns for column in columns]


def check_extents(name: str, columns: HostArray, min_extent: float) -> None:
    """Check that each column, (columns, rows), is constant or has a minimum extent."""
    extents = np.ptp(columns, axis=1)
    small = extents[(extents > 0) & (extents < min_extent)]
    if small.size:
        requirement = f"vary by {min_extent} or more in a column, or not at all"
        raise wrong_value(name, requirement, f"{small[0]:g}", " Count them in a smaller unit.")


def check_distinct(name: str, exact: HostArray, rounded: HostArray) -> None:
    """Check that different times or integers also differ in float64."""
    ascending = np.sort(exact, axis=None), np.sort(rounded, axis=None)  # `unique` is far slower
    exact_steps, steps = (np.count_nonzero(x[1:] != x[:-1]) for x in ascending)
    if exact_steps > steps:
        requirement = "have values that differ in float64, with times as days since 1970"
        hint = " Pass differences from the first value, as numbers."
        raise wrong_value(name, requirement, "closer ones", hint)


def message_of_angles(name: str, values: HostArray) -> str:
    """Return a warning of numbers that step from one end of a turn to the other, or ""."""
    steps, low, high = abs(np.diff(values)), values.min(initial=0.0), values.max(initial=0.0)
    for turn, angle, inverse in _TURNS:
        is_turn = low >= 0 or max(-low, high) <= turn / 2
        is_turn = is_turn and 0.9 * turn <= high - low <= turn
        ends = values[values < low + turn / 4], values[values > high - turn / 4]
        is_turn = is_turn and min(np.unique(end).size for end in ends) >= _MIN_VALUES_AT_END
        half_turns = (steps > 0.35 * turn) & (steps < 0.65 * turn)
        if is_turn and np.count_nonzero(steps > 0.8 * turn) > np.count_nonzero(half_turns):
            message = f"{name} looks like angles: steps go from one end of {turn:.5g} to the "
            message += "other, and the mean of both ends is opposite to them. Use two columns, "
            columns = f"x = np.cos({angle}) and y = np.sin({angle})"
            return f"{message}{columns}, and convert by {inverse} % {turn:.5g}."
    return ""


def check_zone(name: str, zone: Any, time_zone: Any) -> None:
    """Check that times have a zone if `time_zone` names one."""
    if time_zone is not None and zone is None:
        requirement = "have times with a zone where `time_zone` is given"
        hint = " Set their zone, as by pandas.Series.dt.tz_localize."
        raise wrong_value(name, requirement, "times without a zone", hint)
