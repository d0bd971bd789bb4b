"""Periods and wavelengths of named coordinates: lists and labels.

A duration may be a number. Every error names the caller's argument.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.times import calendar
from positional_embeddings.times.calendar import CALENDAR, DAY, LENGTHS, Duration, is_timedelta

# Units of labels, the longest first, and their names in NumPy.
_UNITS = {"d": "D", "h": "h", "min": "m"}
_UNITS |= {unit: unit for unit in ("s", "ms", "us", "ns", "ps", "fs", "as")}
# Longer durations are labelled in days, by `%g`.
_MAX_COUNT = 999_999

# A duration as a string is a number and a unit, or several; the number is optional in pandas
# offsets.
_NUMBER = r"(\d{1,8}(?:\.\d+)?)"
_TEXT = re.compile(_NUMBER + r"?([A-Za-z]+)(?:-[A-Z]{3})?")
_TERM = re.compile(_NUMBER + r"([A-Za-z]+)")
_TEXT_UNITS = {"D": "days", "h": "hours", "min": "minutes", "s": "seconds"}
_TEXT_UNITS |= {"d": "days", "W": "weeks", "ms": "milliseconds", "us": "microseconds"}
_OFFSETS = {"D": "day", "W": "week", "M": "month", "Q": "quarter", "Y": "year"}

# Names and CF standard names and units of a latitude or longitude, such as lat, lons, XLAT, rlon,
# geolon, lonCell and degrees_north.
_NAME = r"(?<![a-z])(?:[cgnrtux]|geo)?(?:{})(?:s|c|cell|deg)?(?![a-z])"
_LATITUDE = re.compile(r"latitude|degrees?_?n(orth)?(?![a-z])|" + _NAME.format("lat"))
_LONGITUDE = re.compile(r"longitude|degrees?_?e(ast)?(?![a-z])|" + _NAME.format("lon|long|lng"))

# Names of columns that repeat, without separators, and the lengths of their cycles: whole numbers
# of a clock or calendar, and degrees.
_CYCLES = {
    "(hour|hr)(ofday)?": (24,),
    "(minute|second)(of(hour|minute))?": (60,),
    "weekday|dayofweek|dow|wday": (7,),
    "(month|mnth)(ofyear)?": (12,),
    "(iso)?week(ofyear)?": (52, 53),
    "dayofyear|doy|yday|yearday": (365, 366),
    "(wind(from)?(dir|direction)|wdir|azimuth|bearing|heading)(deg|degrees)?": (360,),
}
_CYCLE_PREFIX = "(?:date|time|datetime|timestamp)?"


def listed(name: str, values: Any) -> list[Duration]:
    """Return a value, or the values of a list, tuple, array or index, as a list."""
    is_array = len(getattr(values, "shape", ())) == 1
    if not is_array and not isinstance(values, list | tuple):
        return [values]
    items = list(values)
    if not items:
        raise wrong_value(name, "have one value or more", format_value(values))
    return items


def duration_of(duration: Duration, *, by_calendar: bool = True) -> Duration:
    """Return a string such as "24h" or "12h25min", or a pandas offset, as a timedelta.

    With `by_calendar` an offset of one day, week, month, quarter or year becomes the name of the
    calendar period. Other values are returned unchanged.
    """
    text = getattr(duration, "freqstr", duration)
    if not isinstance(text, str) or text in CALENDAR:
        return duration
    match = _TEXT.fullmatch(text)
    if match is None:
        terms = _TERM.findall(text)
        is_sum = "".join(map("".join, terms)) == text and all(u in _TEXT_UNITS for _, u in terms)
        lengths = [timedelta(**{_TEXT_UNITS[u]: float(n)}) for n, u in terms] if is_sum else []
        return sum(lengths, timedelta()) if lengths else duration
    count, unit = match.groups()
    # Only pandas has offsets such as "MS" and "BQE-DEC".
    if text is not duration and count is None and by_calendar:
        part = unit.removesuffix("E").removesuffix("S").removeprefix("B")
        if part in _OFFSETS:
            return _OFFSETS[part]
    if unit not in _TEXT_UNITS or (text is duration and count is None):
        return duration
    return timedelta(**{_TEXT_UNITS[unit]: float(count or 1)})


def labels_of(name: str, durations: Sequence[Duration]) -> list[str]:
    """Return labels of durations, short if they are unique; equal durations are an error."""
    for is_exact in (False, True):
        labels = [_label(name, duration, is_exact=is_exact) for duration in durations]
        if len(set(labels)) == len(labels):
            return labels
    raise wrong_value(name, "differ from each other", ", ".join(labels))


def _label(name: str, duration: Duration, *, is_exact: bool) -> str:
    """Return a duration in the longest unit that divides it, such as "90min"."""
    if isinstance(duration, str):  # a calendar week and seven days of 24 hours differ
        return duration
    if not is_timedelta(duration):
        return repr(float(duration)).removesuffix(".0") if is_exact else f"{float(duration):g}"
    length = calendar.length_of(name, duration)
    if length == DAY:  # consistent with 12h and 8h
        return "24h"
    unit = next(unit for unit, code in _UNITS.items() if length % LENGTHS[code] == 0)
    count = length // LENGTHS[_UNITS[unit]]
    return f"{count}{unit}" if is_exact or count <= _MAX_COUNT else f"{length / DAY:g}d"


def sinusoid_names(
    names: Sequence[object], labels: Sequence[Sequence[str]], arrangement: str = "interleaved"
) -> list[str]:
    """Return names such as "time_sin_8d" of the features of each label of each coordinate."""
    sinusoids = []
    for name, name_labels in zip(names, labels, strict=True):
        sines, cosines = ([f"{name}_{f}_{label}" for label in name_labels] for f in ("sin", "cos"))
        pairs = [*chain(*zip(sines, cosines, strict=True))]
        sinusoids += pairs if arrangement == "interleaved" else sines + cosines
    return sinusoids


def latitude_sign(text: str) -> int:
    """Return 1 for the name or units of a latitude, -1 for a longitude, else 0."""
    text = text.lower()
    return bool(_LATITUDE.search(text)) - bool(_LONGITUDE.search(text))


def latitude_longitude_order(name: str, texts: Sequence[str]) -> tuple[int, int]:
    """Return the indices of the latitude and the longitude among coordinates.

    Names, and CF standard names and units, determine them. Otherwise, the latitude is the first
    remaining coordinate, then the longitude.
    """
    signs = [*map(latitude_sign, texts)]
    if signs.count(1) > 1 or signs.count(-1) > 1:
        actual = " and ".join(repr(text.strip()) for text in texts)
        raise wrong_value(name, "hold one latitude and one longitude", actual)
    latitude = signs.index(max(signs))
    remaining = (i for i in range(len(signs)) if i != latitude)
    return latitude, min(remaining, key=signs.__getitem__)


def named_cycles(name: str) -> tuple[int, ...]:
    """Return the possible lengths of the cycle of a column such as "hour" or "wind_dir"."""
    text = re.sub("[^a-z0-9]", "", name.lower())
    matches = (
        n for pattern, n in _CYCLES.items() if re.fullmatch(f"{_CYCLE_PREFIX}({pattern})", text)
    )
    return next(matches, ())
