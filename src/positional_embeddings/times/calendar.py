"""Calendar times: the phase of the day, week, month and year, and the time since an origin.

Computed on the host by NumPy's datetime64, as the Array API standard has no dates.
"""

from datetime import timedelta
from math import gcd
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np

# A timedelta of Python, NumPy or pandas, a string such as "36h" or "day", or a number for numeric
# times.
Duration: TypeAlias = Any

# Attoseconds, the finest unit of NumPy, in each unit of fixed length.
LENGTHS = {"as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15}
LENGTHS |= {"s": 10**18, "m": 60 * 10**18, "h": 3600 * 10**18}
DAY = 24 * LENGTHS["h"]
LENGTHS |= {"D": DAY, "W": 7 * DAY}

# Period of the Gregorian calendar.
_YEARS_OF_CALENDAR = 400
# 1970-01-01 is three days after a Monday.
_DAYS_SINCE_MONDAY = 3

_LARGEST_INTEGER = 2**63 - 1
_BELOW_ONE = 1 - 2.0**-53

# Calendar periods: attoseconds of fixed lengths, and numbers of months.
_PARTS = {"day": DAY, "week": 7 * DAY}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
CALENDAR = (*_PARTS, *_MONTHS)
MEAN_DAYS = {"day": 1.0, "week": 7.0, "month": 30.436875, "quarter": 91.310625, "year": 365.2425}

# Days of the months in calendars of climate models without varying years, by the names of cftime.
MODEL_MONTHS = {
    "noleap": (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    "all_leap": (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    "360_day": (30,) * 12,
}


def cycles_of(times: HostArray, period: Duration, calendar: str | None = None) -> HostArray:
    """Return the phase of times in the day, month, year or another period.

    Phases are computed in integers and one division, so that they are exact for any date.

    Parameters
    ----------
    times : NumPy array of datetime64
        Wall-clock times of any shape and unit; NaT gives NaN.
    period : {"day", "week", "month", "quarter", "year"} or timedelta
        "day" starts at 00:00, "week" at Monday 00:00. "month", "quarter" and "year" start at 00:00
        of their first day, and have the length of that month, quarter or year. Periods of a
        positive ``datetime.timedelta``, ``numpy.timedelta64`` or ``pandas.Timedelta`` start at
        1970-01-01 00:00.
    calendar : {"noleap", "all_leap", "360_day"}, optional
        Calendar of a climate model; `times` then count its days since its 1970-01-01.

    Returns
    -------
    NumPy array of float64
        Phases in [0, 1), in the shape of `times`.

    Raises
    ------
    TypeError
        If `times` is not an array of datetime64.
    ValueError
        If `period` is not positive or not of fixed length, `times` have no unit, or their years are
        beyond the range of datetime64 in days.

    Examples
    --------
    >>> import numpy as np
    >>> times = np.asarray(["2024-02-29T18:00", "2024-12-31T00:00"], dtype="datetime64[m]")
    >>> cycles_of(times, "day")
    array([0.75, 0.  ])
    >>> cycles_of(times, "year") * 366
    array([ 59.75, 365.  ])
    >>> cycles_of(times, np.timedelta64(12, "h"))
    array([0.5, 0. ])
    """
    ticks = _ticks_of("times", times)
    if period in _MONTHS:
        phase = _phase_of_months(ticks, _MONTHS[period], calendar)
    else:
        shift = _DAYS_SINCE_MONDAY * DAY if period in _PARTS else 0
        length = _PARTS[period] if period in _PARTS else length_of("period", period)
        _, remainder, divisor = ticks.divmod_by(length, shift)
        phase = remainder / divisor
    return ticks.restore_missing(np.minimum(phase, _BELOW_ONE))


def days_between(times: HostArray, origin: HostArray, name: str = "times") -> HostArray:
    """Return the days since an origin, by a difference of integers.

    Parameters
    ----------
    times : NumPy array of datetime64
        Times of any shape and unit; NaT gives NaN.
    origin : numpy.datetime64
        The origin, with the result 0.
    name : str, default "times"
        Name of the times in error messages.

    Returns
    -------
    NumPy array of float64
        Numbers of days, in the shape of `times`.

    Raises
    ------
    TypeError
        If `times` or `origin` are not datetime64.
    ValueError
        If `origin` is NaT or has axes, dates have no unit, or years are beyond the range of
        datetime64 in days.

    Examples
    --------
    >>> import numpy as np
    >>> times = np.asarray(["2024-02-28", "2024-03-01"], dtype="datetime64[D]")
    >>> days_between(times, np.datetime64("2024-02-28T12:00"))
    array([-0.5,  1.5])
    """
    ticks, start = _ticks_of(name, times), _ticks_of("origin", origin)
    if start.missing.ndim or start.missing:
        raise wrong_value("origin", "be one date", format_value(origin))
    quotient, remainder, divisor = ticks.divmod_by(DAY, -int(start.counts[0]) * start.length)
    # The fraction has the sign of the quotient, to avoid cancellation just before the origin.
    before = (quotient < 0) & (remainder > 0)
    days = (quotient + before).astype(np.float64)
    return ticks.restore_missing(days + np.where(before, remainder - divisor, remainder) / divisor)


def extent_of(times: HostArray) -> int:
    """Return the attoseconds from the first to the last time, 0 if all are missing."""
    ticks = _ticks_of("times", times)
    present = ticks.counts[~ticks.missing.ravel()]
    return (int(np.max(present)) - int(np.min(present))) * ticks.length if present.size else 0


class _Ticks(NamedTuple):
    """Times as integers since 1970.

    The integers have one axis, as NumPy converts 0-d object arrays to Python integers.
    """

    counts: HostArray
    length: int  # attoseconds of a count
    missing: HostArray  # in the shape of the times

    def divmod_by(self, divisor: int, shift: int = 0) -> tuple[Array, Array, int]:
        """Divide times plus `shift` by `divisor`, both in attoseconds.

        Return the quotient, the remainder and the divisor, the latter two without common factors.
        Exact: Python integers replace 64-bit integers that would overflow.
        """
        counts, common = self.counts, gcd(self.length, divisor, shift)
        length, divisor, shift = self.length // common, divisor // common, shift // common
        max_count = max(-int(np.min(counts, initial=0)), int(np.max(counts, initial=0)))
        if max(max_count, 1) * length + abs(shift) + divisor > _LARGEST_INTEGER:
            counts = counts.astype(object)
        product = counts * length + shift
        return product // divisor, product % divisor, divisor

    def restore_missing(self, values: HostArray) -> HostArray:
        """Return values as float64 in the shape of the times, NaN for missing times."""
        values = values.astype(np.float64).reshape(self.missing.shape)
        values[self.missing] = np.nan
        return values


def _phase_of_months(ticks: _Ticks, months: int, calendar: str | None) -> Array:
    """Return the phase in the month, quarter or year."""
    days, remainder, day_length = ticks.divmod_by(DAY)
    if calendar is None:
        first_days = np.arange(_YEARS_OF_CALENDAR * 12 + 1).astype("datetime64[M]")
        starts = first_days.astype("datetime64[D]").astype(np.int64)[::months]
    else:
        starts = np.cumsum((0, *MODEL_MONTHS[calendar]))[::months]
    day = (days % starts[-1]).astype(np.int64)
    index = np.searchsorted(starts, day, side="right") - 1
    since, length = day - starts[index], np.diff(starts)[index]
    if 366 * day_length > _LARGEST_INTEGER:
        since, length = since.astype(object), length.astype(object)
    return (since * day_length + remainder) / (length * day_length)


def _ticks_of(name: str, times: HostArray) -> _Ticks:
    """Check times and return them as integers."""
    if not isinstance(times, np.ndarray | np.generic) or times.dtype.kind != "M":
        raise wrong_type(name, "be NumPy datetime64", format_value(times))
    times = np.asarray(times)
    missing = np.isnat(times)
    unit, count = np.datetime_data(times.dtype)
    if unit == "generic" and not np.all(missing):
        raise wrong_value(name, "have a unit", f"dtype {times.dtype}")
    if unit in ("Y", "M"):
        days = times.astype("datetime64[D]")
        if not np.all(missing | (days.astype(times.dtype) == times)):
            raise wrong_value(name, "be within the years of datetime64[D]", f"dtype {times.dtype}")
        times, unit, count = days, "D", 1
    counts = np.where(missing, 0, times.astype(np.int64)).ravel()
    return _Ticks(counts, count * LENGTHS.get(unit, 1), missing)


def is_timedelta(value: object) -> bool:
    """Return whether a value is a timedelta of Python, pandas or NumPy."""
    return isinstance(value, timedelta | np.timedelta64)


def length_of(name: str, duration: Duration) -> int:
    """Return the attoseconds of a timedelta."""
    if hasattr(duration, "to_timedelta64"):  # pandas also has nanoseconds
        duration = duration.to_timedelta64()
    if isinstance(duration, timedelta):
        length = (duration // timedelta(microseconds=1)) * LENGTHS["us"]
    else:
        unit, count = np.datetime_data(duration.dtype)
        if unit not in LENGTHS or np.isnat(duration):
            raise wrong_value(name, "be a span of time of fixed length", format_value(duration))
        length = int(duration.astype(np.int64)) * count * LENGTHS[unit]
    if length <= 0:
        raise wrong_value(name, "be above zero", format_value(duration))
    return length
