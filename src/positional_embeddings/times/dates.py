"""Dates and durations of Python, NumPy, pandas, polars, xarray and cftime; days since a date.

Attributes identify the libraries, so that none is imported.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, np
from positional_embeddings.times.calendar import LENGTHS, MODEL_MONTHS, days_between, is_timedelta

# The unit in dtypes of pandas: datetime64[ns, Europe/Zurich], timestamp[us][pyarrow].
_PANDAS_UNIT = re.compile(r"(?:datetime64|timedelta64|timestamp|duration)\[(\w+)")

_JULIAN_DAY_OF_1970 = 2_440_588

# Strings that look like dates, such as "5 May 2024", and not like numbers; the offset at their end;
# and the conversion of several offsets to one zone.
_DATE = re.compile(r"(?![-+]?\d+[.,]\d*$).*\d[-/.:, ]+\w")
_OFFSET = re.compile(r"\d(Z|[+-]\d\d:?\d\d)$")
_TO_ONE_ZONE = "pd.to_datetime(..., utc=True).dt.tz_convert(zone)"

# Dates, or durations: an array, a column of pandas, polars or xarray, or objects of Python.
Dates: TypeAlias = Any


class Times(NamedTuple):
    """Times, NumPy datetime64; local times and UTC are the same without a zone.

    Times of a climate model count the days of its own calendar since its 1970-01-01.
    """

    wall: HostArray
    utc: HostArray
    zone: str | None = None  # of the local times
    calendar: str | None = None  # of a climate model, such as "noleap"


def days_since(x: Dates, /, origin: Dates = "1970-01-01") -> Array:
    """Return dates as days since an origin, or durations as days.

    Parameters
    ----------
    x : dates or durations
        An array of datetime64 or timedelta64, a pandas series or index (also with pyarrow dtypes),
        a polars series, an xarray array; or dates, datetimes and timedeltas of Python and dates of
        cftime, as one object, a list, or an object array. Dates with a time zone are converted to
        UTC. In the calendars "noleap", "all_leap" and "360_day" of climate models, days are counted
        in the calendar itself; other cftime dates are points in time.
    origin : str, date, datetime, numpy.datetime64 or date of cftime, default "1970-01-01"
        The date with the result 0, in UTC if it has a time zone. For dates of a climate model, a
        date of the same calendar, or the default. Unused for durations.

    Returns
    -------
    NumPy array of float64
        Days in the shape of `x`, NaN for a missing date; a scalar for one date. Differences are
        computed in integers, and rounded once to float64.

    Raises
    ------
    TypeError
        If `x` does not hold only dates, or only durations.
    ValueError
        If time zones or calendars in a list differ, no NumPy unit holds all its dates, durations
        are in months or years, or `origin` is not one date of the same calendar.

    See Also
    --------
    cyclic_encoding : Sines and cosines of periods, such as 365.25 days.

    Examples
    --------
    >>> from datetime import datetime, timedelta
    >>> import numpy as np
    >>> dates = np.asarray(["2024-02-28T12", "2024-03-01", "NaT"], dtype="datetime64[h]")
    >>> days_since(dates, origin="2024-01-01")
    array([58.5, 60. ,  nan])
    >>> days_since([datetime.fromisoformat("1970-01-02T12:00+02:00")])
    array([1.41666667])
    >>> days_since(timedelta(hours=36))
    np.float64(1.5)
    """
    return days_of("x", x, origin)[()]


def days_of(name: str, values: Dates, origin: Dates = "1970-01-01") -> HostArray:
    """Return `days_since` of the argument `name`."""
    times, start = utc_of(name, values), np.datetime64(0, "s")
    if times.dtype.kind != "m":
        start = origin_of(origin, calendar_of(values))
    elif np.datetime_data(times.dtype)[0] in LENGTHS:
        times = times.view(times.dtype.str.replace("m", "M"))  # durations after 1970-01-01
    else:
        raise wrong_value(name, "have spans of time of fixed length", str(times.dtype))
    return days_between(times, start, name)


def origin_of(origin: Dates, calendar: str | None) -> Array:
    """Check an origin against the calendar of the dates and return it as datetime64."""
    if isinstance(origin, str):
        try:
            if origin.lower() in ("", "nat"):  # in NumPy, times without a unit
                raise ValueError
            origin = np.datetime64(origin)
        except ValueError:
            raise wrong_value(
                "origin", "be a date such as '1970-01-01'", format_value(origin)
            ) from None
    start = utc_of("origin", origin)
    if calendar_of(origin) != calendar and np.any(start != np.datetime64(0, "s")):
        requirement = (
            f"be 1970-01-01, or a date of the calendar of the dates, {calendar or 'standard'}"
        )
        raise wrong_value("origin", requirement, format_value(origin))
    return start


def calendar_of(dates: Dates) -> str | None:
    """Return the climate-model calendar of cftime dates, None for all other dates."""
    if str(getattr(dates, "dtype", "object")).lower() != "object":
        return None
    calendars = (getattr(date, "calendar", None) for date in np.asarray(dates, dtype=object).flat)
    return next((calendar for calendar in calendars if calendar in MODEL_MONTHS), None)


def utc_of(name: str, values: Dates) -> Array:
    """Return dates as datetime64, in UTC if they have a zone, and durations as timedelta64."""
    if hasattr(values, "to_numpy") and (hasattr(values, "dims") or not hasattr(values, "dtype")):
        values = values.to_numpy()  # xarray, or a table
    dtype: Dtype = getattr(values, "dtype", None)
    is_time = getattr(dtype, "kind", None) in ("m", "M")
    if is_time and not hasattr(values, "to_numpy"):
        return np.asarray(values)
    if is_time and (unit := _PANDAS_UNIT.match(str(dtype))):
        # Without a dtype, dates with a zone and pyarrow columns become objects.
        numpy_type = "datetime64" if dtype.kind == "M" else "timedelta64"
        return values.to_numpy(dtype=f"{numpy_type}[{unit[1]}]")
    if str(dtype).startswith(("Date", "Duration")):
        return values.to_numpy()  # polars, in UTC
    return _utc_of_objects(name, np.asarray(values, dtype=object))


def times_of(name: str, dates: Dates, zone: tzinfo | None = None) -> Times:
    """Return a column of dates in the local time of a zone, by default their own, and in UTC."""
    utc, own_zone = utc_of(name, dates), zone_of(dates)
    if own_zone is None:
        return Times(utc, utc, calendar=calendar_of(dates))
    zone = own_zone if zone is None else zone
    if getattr(dates.dtype, "kind", None) == "M":
        wall = utc_of(name, dates.dt.tz_convert(zone).dt.tz_localize(None))
    elif hasattr(dates.dtype, "time_zone") and (key := getattr(zone, "key", None)):
        wall = utc_of(name, dates.dt.convert_time_zone(key).dt.replace_time_zone(None))
    else:  # Python dates, or polars with a zone without a name
        wall = utc + utc_offsets(name, dates, zone)
    return Times(wall, utc, str(zone))


def zone_of(dates: Dates) -> tzinfo | None:
    """Return the time zone of a column of dates."""
    dtype = dates.dtype
    if getattr(dtype, "kind", None) == "M":
        return dates.dt.tz if "," in str(dtype) else None
    if str(dtype).startswith("Date"):
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - takes long to import

        name = getattr(dtype, "time_zone", None)
        return None if name is None else ZoneInfo(name)
    zones = (getattr(value, "tzinfo", None) for value in dates)
    return next((zone for zone in zones if zone is not None), None)


def _utc_of_objects(name: str, objects: HostArray) -> HostArray:
    values = [None if is_missing(value) else value for value in objects.flat]
    present = [value for value in values if value is not None]
    are_durations = bool(present) and is_timedelta(present[0])
    for value in present:
        if not (is_timedelta(value) if are_durations else is_date(value)):
            requirement, hint = "hold dates alone, or spans of time alone", remedy_for(value)
            raise wrong_type(name, requirement, format_value(value), hint)
    zones = sorted({str(getattr(v, "calendar", getattr(v, "tzinfo", None))) for v in present})
    if len(zones) > 1:
        hint = f" Convert them to one, as with {_TO_ONE_ZONE}."
        raise wrong_value(name, "have one time zone or calendar", " and ".join(zones), hint)
    clock = [_numpy_time(value) for value in values]
    units = {value.dtype for value in clock if value is not None}
    try:
        # NumPy infers the unit.
        dtype = "timedelta64" if are_durations else "datetime64" if present else "datetime64[s]"
        times: HostArray = np.asarray(clock, dtype=dtype)
        # Times overflow silently in a unit that is too fine.
        pairs = zip(times, clock, strict=True) if len(units) > 1 else ()
        is_exact = all(exact is None or time.astype(exact.dtype) == exact for time, exact in pairs)
    except OverflowError:  # no unit for attoseconds and days
        is_exact = False
    if not is_exact:
        actual = " and ".join(sorted(map(str, units)))
        raise wrong_value(name, "have dates that one unit of NumPy holds", actual)
    if any(getattr(value, "tzinfo", None) is not None for value in present):
        times = times - utc_offsets(name, values, None)
    return times.reshape(objects.shape)


def _numpy_time(value: Dates) -> Array | None:
    """Return a date in local time as datetime64, or a duration as timedelta64."""
    if hasattr(value, "dayofyr"):  # cftime
        start = _JULIAN_DAY_OF_1970
        if value.calendar in MODEL_MONTHS:
            start = value.replace(year=1970, month=1, day=1).toordinal()
        minutes = ((value.toordinal() - start) * 24 + value.hour) * 60 + value.minute
        microseconds = (minutes * 60 + value.second) * 10**6 + value.microsecond
        return np.datetime64(microseconds, "us")
    value = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if value is None or hasattr(value, "to_numpy"):  # pandas preserves the unit
        return value if value is None else value.to_numpy()
    return np.datetime64(value) if is_date(value) else np.timedelta64(value)


def utc_offsets(name: str, dates: Iterable[Dates], zone: tzinfo | None) -> Array:
    """Return the UTC offsets of dates, in a zone or in their own."""
    present = (None if is_missing(value) else value for value in dates)
    try:
        local = [v if v is None or zone is None else v.astimezone(zone) for v in present]
    except OverflowError:
        requirement = f"keep the times of `{name}` within the years 1 to 9999"
        raise wrong_value("time_zone", requirement, format_value(zone)) from None
    offsets = [None if time is None else time.utcoffset() for time in local]
    return np.asarray(offsets, dtype="timedelta64[us]")


def is_date(value: object) -> bool:
    """Return whether a value is a date of Python, pandas, NumPy or cftime."""
    return isinstance(value, date | np.datetime64) or hasattr(value, "dayofyr")


def remedy_for(value: object) -> str:
    """Return the remedy for strings and pandas periods in place of dates, "" for other values."""
    if hasattr(value, "to_timestamp"):
        return " Convert periods to their start, as with .dt.to_timestamp() of pandas."
    if not isinstance(value, str) or not _DATE.match(value):
        return ""
    conversion = _TO_ONE_ZONE if _OFFSET.search(value) else "pandas.to_datetime"
    return f" Convert dates, as with {conversion}."


def is_missing(value: object) -> bool:
    """Return whether an object is None, NaN, NaT or pandas.NA, which has no truth value."""
    return value is None or str(value) in ("nan", "NaT", "<NA>")


def time_zone_of(time_zone: Any) -> tzinfo | None:
    """Return a zone from its name, such as "Europe/Zurich"."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - takes long to import

    if time_zone is None or isinstance(time_zone, tzinfo):
        return time_zone
    requirement = 'be the name of a time zone, such as "Europe/Zurich", a tzinfo or None'
    wrong = wrong_value if isinstance(time_zone, str) else wrong_type
    try:
        return ZoneInfo(time_zone)
    except (KeyError, OSError, TypeError, ValueError):  # OSError for an invalid file name
        raise wrong("time_zone", requirement, format_value(time_zone)) from None
