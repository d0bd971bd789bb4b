"""Tables for the estimators: which columns hold times, and tables with days for times.

Tables of pandas and polars are read by their own methods, so that neither is imported.
"""

from datetime import tzinfo
from math import nan
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arrays.errors import (
    format_value,
    type_name,
    warn_caller,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import HostArray, is_real_number, np
from positional_embeddings.times import dates

# Turns of angles, what is their angle in radians, and how it is found again; and the fewest values
# near either end of a turn.
_TURNS = [
    (360.0, "np.deg2rad(angle)", "np.rad2deg(np.arctan2(y, x))"),
    (2 * np.pi, "angle", "np.arctan2(y, x)"),
]
_LEAST_AT_END = 3

# A table or a series of pandas or polars, or an array.
Table: TypeAlias = Any


class Column(NamedTuple):
    """A column that regressors and kernels see as numbers."""

    is_time: bool  # in days, since 1970-01-01 UTC or as spans
    zone: tzinfo | None  # in which its dates were
    is_date: bool = False  # since 1970-01-01 UTC


def as_table(x: Any, name: str = "X") -> Table:
    """Return a series, and times or text along one axis, as a table of one column."""
    if hasattr(x, "map_partitions"):  # of dask
        hint = f" Pass {name}.compute(), or call a fitted estimator by {name}.map_partitions."
        raise wrong_type(name, "be a table in memory", type_name(x), hint)
    if hasattr(x, "collect"):  # lazy, of polars
        raise wrong_type(name, "be a table in memory", type_name(x), f" Pass {name}.collect().")
    if isinstance(x, list | tuple):
        x = np.asarray(x, dtype=object)
    if hasattr(x, "to_frame"):  # an index of pandas, too, which would be its own index
        return x.to_frame()
    return x[:, None] if len(getattr(x, "shape", ())) == 1 and kind_of(x) != "numbers" else x


def columns_of(name: str, table: Table) -> list[tuple[str, str, Table]]:
    """Return how errors call each column, "dates", "spans" or "numbers", and it; refuse text.

    An array of numbers is not read.
    """
    may_hold_others = isinstance(table, np.ndarray) and table.dtype.kind in "mMOUT"
    if not (is_frame(table) or may_hold_others) or len(table.shape) != 2:
        return []
    names = getattr(table, "columns", [f"x{j}" for j in range(table.shape[1])])
    columns = []
    for j, key in enumerate(names):
        place, column = f"{name}[{key!r}]", column_of(table, j)
        kind = kind_of(column)
        if kind not in ("dates", "spans", "numbers"):
            hint = remedy_of(column)
            hint = hint or " Encode categories on their own, as by OneHotEncoder of scikit-learn."
            raise wrong_type(place, "hold numbers or dates", kind, hint)
        columns.append((place, kind, column))
    return columns


def remedy_of(column: Table) -> str:
    """Return how the text or the periods of a column become dates, "" for others."""
    present = (x for x in column if not (dates.is_missing(x) or (isinstance(x, str) and not x)))
    if not (hint := dates.remedy_for(next(present, None))):
        return ""
    hint = max([hint, *map(dates.remedy_for, present)], key=len)  # the most careful way
    is_series = hasattr(column, "to_frame") and not hasattr(column, "to_series")
    return hint if is_series else hint.replace(".dt", "")  # as an index has it


def kind_of(column: Table) -> str:
    """Return "dates", "spans" or "numbers", or the first period or text that is no number."""
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
            except TypeError:  # others are scikit-learn's to refuse
                if hasattr(value, "to_timestamp"):
                    return f"periods, {value!r}"
    return "numbers"


def is_frame(table: Table) -> bool:
    """Tell whether a table is one of pandas or polars."""
    return hasattr(table, "iloc") or hasattr(table, "get_columns")


def column_of(table: Table, at: int) -> Table:
    """Return a column of a table: a series, or an array of one axis."""
    return table.iloc[:, at] if hasattr(table, "iloc") else table[:, at]


def with_columns(table: Table, columns: dict[int, HostArray]) -> Table:
    """Return a copy of a table of pandas or polars with some columns replaced."""
    if hasattr(table, "iloc"):
        table = table.copy()
        for j, column in columns.items():
            table.isetitem(j, column)
        return table
    names = table.columns
    return table.with_columns(type(table)({names[j]: columns[j] for j in columns}).get_columns())


def with_days(x: Any, name: str = "X") -> tuple[Table, list[Column]]:
    """Return a table with times as days since 1970-01-01 UTC, and its columns if any are times.

    Spans of time become days; anything else is returned as it came. Text is refused.
    """
    table, days, columns = as_table(x, name), {}, []
    for j, (place, kind, column) in enumerate(columns_of(name, table)):
        zone = None
        if kind != "numbers":
            times = dates.utc_of(place, column)
            days[j] = dates.days_of(place, times)
            check_apart(place, times, days[j])
        if kind == "dates":
            zone, own_calendar = dates.zone_of(column), dates.calendar_of(column)
            if own_calendar is not None:
                hint = " Pass days_since of the column, and periods in days."
                raise wrong_value(place, "have dates of the standard calendar", own_calendar, hint)
            if np.isnan(days[j]).any():
                raise wrong_value(place, "have no missing times", "NaT")
        columns.append(Column(j in days, zone, kind == "dates"))
    if not days:
        return table, []
    if is_frame(table):
        return with_columns(table, days), columns
    numbers = [days.get(j, table[:, j]) for j in range(len(columns))]
    return np.stack([n.astype(np.float64) for n in numbers], axis=1), columns


def check_times(name: str, columns: list[Column], fitted: list[Column]) -> None:
    """Check that the same columns hold times as in `fit`, with zones or without."""
    expected, actual = (
        [f"column {j}{' with a zone' if c.zone else ''}" for j, c in enumerate(some) if c.is_time]
        for some in (fitted, columns)
    )
    if expected != actual:
        requirement = f"have times as in `fit`, in {' and '.join(expected) or 'no column'}"
        raise wrong_value(name, requirement, f"them in {' and '.join(actual) or 'no column'}")


def indices_of(name: str, columns: Any, names: list[Any], n_columns: int) -> list[int]:
    """Return columns, by name or index, as indices."""
    known = [*range(n_columns), *names]
    for i, column in enumerate(columns):
        is_index = isinstance(column, Integral) and is_real_number(column)
        if not (is_index or isinstance(column, str)) or column not in known:
            raise wrong_value(f"{name}[{i}]", f"be one of {known}", format_value(column))
    return [known.index(column) % n_columns for column in columns]


def check_extents(name: str, columns: HostArray, least: float) -> None:
    """Check that the numbers of each column, (columns, rows), vary by so much, or not at all."""
    extents = np.ptp(columns, axis=1)
    small = extents[(extents > 0) & (extents < least)]
    if small.size:
        requirement = f"vary by {least} or more in a column, or not at all"
        raise wrong_value(name, requirement, f"{small[0]:g}", " Count them in a smaller unit.")


def check_apart(name: str, exact: HostArray, rounded: HostArray) -> None:
    """Check that times or integers that differ do so in float64, too."""
    ascending = np.sort(exact, axis=None), np.sort(rounded, axis=None)  # `unique` takes far longer
    exact_steps, steps = (np.count_nonzero(x[1:] != x[:-1]) for x in ascending)
    if exact_steps > steps:
        requirement = "have values that differ in float64, times being days since 1970"
        hint = " Pass how long, or how many, they are after the first one, as numbers."
        raise wrong_value(name, requirement, "closer ones", hint)


def warn_of_angles(name: str, values: HostArray) -> None:
    """Warn of numbers that go, in their order, from one end of a turn to the other as angles do."""
    steps, low, high = abs(np.diff(values)), values.min(initial=0.0), values.max(initial=0.0)
    for turn, angle, back in _TURNS:
        is_turn = low >= 0 or max(-low, high) <= turn / 2
        is_turn = is_turn and 0.9 * turn <= high - low <= turn
        ends = values[values < low + turn / 4], values[values > high - turn / 4]
        is_turn = is_turn and min(np.unique(end).size for end in ends) >= _LEAST_AT_END
        half_turns = (steps > 0.35 * turn) & (steps < 0.65 * turn)
        if is_turn and np.count_nonzero(steps > 0.8 * turn) > np.count_nonzero(half_turns):
            message = f"{name} looks like angles: steps go from one end of {turn:.5g} to the "
            message += "other, and the mean of both ends is opposite to them. Take two columns, "
            both = f"x = np.cos({angle}) and y = np.sin({angle})"
            warn_caller(f"{message}{both}, and {back} % {turn:.5g} of both.")


def check_zone(name: str, zone: Any, time_zone: Any) -> None:
    """Check that times have a zone where another one is asked for."""
    if time_zone is not None and zone is None:
        requirement = "have times with a zone where `time_zone` is given"
        hint = " Give them theirs, as with pandas.Series.dt.tz_localize."
        raise wrong_value(name, requirement, "times without a zone", hint)
