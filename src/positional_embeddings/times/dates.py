"""Dates and spans of time of Python, NumPy, pandas, polars and xarray, and days since an origin.

The libraries are known by attributes, so that none of them is imported.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, np
from positional_embeddings.times.calendar import LENGTHS, elapsed, is_timedelta

# Dtypes of pandas and their unit: datetime64[ns, Europe/Zurich], timestamp[us][pyarrow].
_OF_PANDAS = re.compile(r"(?:datetime64|timedelta64|timestamp|duration)\[(\w+)")


# Dates, or durations: an array, a column of pandas, polars or xarray, or objects of Python.
Dates: TypeAlias = Any


class Times(NamedTuple):
    """Times, NumPy datetime64; both are the same without a zone."""

    wall: HostArray
    utc: HostArray
    zone: str | None  # whose clock it is; None if not present


def days_since(x: Dates, /, origin: Dates = "1970-01-01") -> Array:
    """Return dates as days since an origin, or spans of time as days.

    Parameters
    ----------
    x : dates or spans of time
        An array of datetime64 or timedelta64, a series or an index of pandas (also with columns of
        pyarrow), a series of polars, an array of xarray, or dates, datetimes and timedeltas of
        Python: one, a list, or an array of objects. Dates with a time zone are taken in UTC.
    origin : str, date, datetime or numpy.datetime64, default "1970-01-01"
        The date that becomes 0, in UTC if it has a time zone. Spans of time do not use it.

    Returns
    -------
    NumPy array of float64
        Days in the shape of `x`, NaN where a date is missing; one number for one date. The
        difference is taken in integers, so that days are as exact as float64 is.

    Raises
    ------
    TypeError
        If `x` holds something else than dates, or than spans of time.
    ValueError
        If the time zones in a list differ, one unit of NumPy does not hold all dates of it, spans
        are in months or years, or `origin` is not one date.

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
    """Return `days_since` of an argument with a name."""
    times = utc_of(name, values)
    start = np.datetime64(0, "s")
    if times.dtype.kind == "m":
        if np.datetime_data(times.dtype)[0] not in LENGTHS:
            raise wrong_value(name, "have spans of time of fixed length", str(times.dtype))
        times = times.view(times.dtype.str.replace("m", "M"))  # so long after 1970-01-01
    elif isinstance(origin, str):
        try:
            start = np.datetime64(origin)
        except ValueError:
            raise wrong_value("origin", "be a date such as '1970-01-01'", shown(origin)) from None
    else:
        start = utc_of("origin", origin)
    return elapsed(times, start, "D", name)


def utc_of(name: str, values: Dates) -> Array:
    """Return dates as datetime64, in UTC if they have a zone, and spans of time as timedelta64."""
    if hasattr(values, "to_numpy") and (hasattr(values, "dims") or not hasattr(values, "dtype")):
        values = values.to_numpy()  # xarray, or a table
    dtype: Dtype = getattr(values, "dtype", None)
    is_time = getattr(dtype, "kind", None) in ("m", "M")
    if is_time and not hasattr(values, "to_numpy"):
        return np.asarray(values)
    if is_time and (unit := _OF_PANDAS.match(str(dtype))):
        # Without a dtype, objects would come of dates with a zone, and of columns of pyarrow.
        numpy_type = "datetime64" if dtype.kind == "M" else "timedelta64"
        return values.to_numpy(dtype=f"{numpy_type}[{unit[1]}]")
    if str(dtype).startswith(("Date", "Duration")):
        return values.to_numpy()  # polars, in UTC
    return _utc_of_objects(name, np.asarray(values, dtype=object))


def times_of(name: str, dates: Dates, zone: tzinfo | None = None) -> Times:
    """Return a column of dates on the clock of a zone, of their own if None, and in UTC."""
    utc, own_zone = utc_of(name, dates), zone_of(dates)
    if own_zone is None:
        return Times(utc, utc, None)
    zone = own_zone if zone is None else zone
    if getattr(dates.dtype, "kind", None) == "M":
        wall = utc_of(name, dates.dt.tz_convert(zone).dt.tz_localize(None))
    elif hasattr(dates.dtype, "time_zone") and (key := getattr(zone, "key", None)):
        wall = utc_of(name, dates.dt.convert_time_zone(key).dt.replace_time_zone(None))
    else:  # of Python, or of polars in a zone that has no name
        wall = utc + ahead_of_utc(name, dates, zone)
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
            raise wrong_type(name, "hold dates alone, or spans of time alone", shown(value))
    zones = sorted({str(getattr(value, "tzinfo", None)) for value in present})
    if len(zones) > 1:
        hint = " Convert them to one, as with pandas.to_datetime(..., utc=True)."
        raise wrong_value(name, "have one time zone", " and ".join(zones), hint)
    clock = [_of_numpy(value) for value in values]
    units = {value.dtype for value in clock if value is not None}
    try:
        times: HostArray = np.asarray(clock, dtype="timedelta64" if are_durations else "datetime64")
        # NumPy lets numbers wrap in a unit that is too fine for them.
        pairs = zip(times, clock, strict=True) if len(units) > 1 else ()
        is_exact = all(exact is None or time.astype(exact.dtype) == exact for time, exact in pairs)
    except OverflowError:  # no unit for attoseconds and days
        is_exact = False
    if not is_exact:
        came = " and ".join(sorted(map(str, units)))
        raise wrong_value(name, "have dates that one unit of NumPy holds", came)
    if zones not in ([], ["None"]):
        times = times - ahead_of_utc(name, values, None)
    return times.reshape(objects.shape)


def _of_numpy(value: Dates) -> Array | None:
    """Return a date, as its own clock shows it, or a span of time as one of NumPy."""
    value = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    if value is None or hasattr(value, "to_numpy"):  # pandas keeps the unit
        return value if value is None else value.to_numpy()
    return np.datetime64(value) if is_date(value) else np.timedelta64(value)


def ahead_of_utc(name: str, dates: Iterable[Dates], zone: tzinfo | None) -> Array:
    """Return how far the clock of a zone, or of each date, is ahead of UTC."""
    present = (None if is_missing(value) else value for value in dates)
    try:
        local = [v if v is None or zone is None else v.astimezone(zone) for v in present]
    except OverflowError:
        what = f"keep the times of `{name}` within the years 1 to 9999"
        raise wrong_value("time_zone", what, shown(zone)) from None
    offsets = [None if time is None else time.utcoffset() for time in local]
    return np.asarray(offsets, dtype="timedelta64[us]")


def is_date(value: object) -> bool:
    """Tell whether a value is a date of Python, pandas or NumPy."""
    return isinstance(value, date | np.datetime64)


def is_missing(value: object) -> bool:
    """Tell whether an object is None, NaN, NaT or pandas.NA, which has no truth value."""
    return value is None or str(value) in ("nan", "NaT", "<NA>")
