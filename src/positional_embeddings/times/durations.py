"""Periods, wavelengths and lengths of tables with names: their lists and labels.

Beside numbers a duration is a number, too. Every error names the caller's argument.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.times import calendar
from positional_embeddings.times.calendar import CALENDAR, DAY, LENGTHS, Duration, is_timedelta

# The units of labels, the longest first, and what NumPy calls them.
_UNITS = {"d": "D", "h": "h", "min": "m"}
_UNITS |= {unit: unit for unit in ("s", "ms", "us", "ns", "ps", "fs", "as")}
# Beyond, a duration is labelled by its days, with as many digits as `%g` has.
_LARGEST_COUNT = 999_999

# A duration as text is a number and a unit; an offset of pandas may lack the number.
_TEXT = re.compile(r"(\d{1,8}(?:\.\d+)?)?([A-Za-z]+)(?:-[A-Z]{3})?")
_TEXT_UNITS = {"D": "days", "h": "hours", "min": "minutes", "s": "seconds"}
_TEXT_UNITS |= {"d": "days", "W": "weeks", "ms": "milliseconds", "us": "microseconds"}
_OFFSETS = {"D": "day", "W": "week", "M": "month", "Q": "quarter", "Y": "year"}

# What names, standard names and units of the CF conventions say of a coordinate.
# Names such as lat, lons, XLAT, rlon, geolon and lonCell, and units such as degrees_north.
_NAME = r"(?<![a-z])(?:[cgnrtux]|geo)?(?:{})(?:s|c|cell|deg)?(?![a-z])"
_LATITUDE = re.compile(r"latitude|degrees?_?n(orth)?(?![a-z])|" + _NAME.format("lat"))
_LONGITUDE = re.compile(r"longitude|degrees?_?e(ast)?(?![a-z])|" + _NAME.format("lon|long|lng"))


def listed(name: str, values: Any) -> list[Duration]:
    """Return one value, or several in a list, a tuple, an array or an index, as a list."""
    is_array = len(getattr(values, "shape", ())) == 1
    if not is_array and not isinstance(values, list | tuple):
        return [values]
    items = list(values)
    if not items:
        raise wrong_value(name, "have one value or more", format_value(values))
    return items


def duration_of(duration: Duration, *, by_calendar: bool = True) -> Duration:
    """Return a text such as "24h" or "30D", or an offset of pandas, as a timedelta.

    With `by_calendar` an offset by one day, week, month, quarter or year becomes the name of this
    part of the calendar. Anything else is returned as it came.
    """
    text = getattr(duration, "freqstr", duration)
    match = _TEXT.fullmatch(text) if isinstance(text, str) and text not in CALENDAR else None
    if match is None:
        return duration
    count, unit = match.groups()
    # "MS", "BQE-DEC" and the like are pandas' own.
    if text is not duration and count is None and by_calendar:
        part = unit.removesuffix("E").removesuffix("S").removeprefix("B")
        if part in _OFFSETS:
            return _OFFSETS[part]
    if unit not in _TEXT_UNITS or (text is duration and count is None):
        return duration
    return timedelta(**{_TEXT_UNITS[unit]: float(count or 1)})


def labels_of(name: str, durations: Sequence[Duration]) -> list[str]:
    """Return durations as labels, short if that tells them apart; equal ones are an error."""
    for is_exact in (False, True):
        labels = [_label(name, duration, is_exact=is_exact) for duration in durations]
        if len(set(labels)) == len(labels):
            return labels
    raise wrong_value(name, "differ from each other", ", ".join(labels))


def _label(name: str, duration: Duration, *, is_exact: bool) -> str:
    """Return a duration in the longest unit that it is a whole number of, such as "90min"."""
    if isinstance(duration, str):  # a week and seven days of 24 hours start at different times
        return duration
    if not is_timedelta(duration):
        return repr(float(duration)).removesuffix(".0") if is_exact else f"{float(duration):g}"
    length = calendar.length_of(name, duration)
    if length == DAY:  # as its parts, 12h and 8h
        return "24h"
    unit = next(unit for unit, ours in _UNITS.items() if length % LENGTHS[ours] == 0)
    count = length // LENGTHS[_UNITS[unit]]
    return f"{count}{unit}" if is_exact or count <= _LARGEST_COUNT else f"{length / DAY:g}d"


def names_of_waves(
    names: Sequence[object], labels: Sequence[Sequence[str]], arrangement: str = "interleaved"
) -> list[str]:
    """Return names such as "time_sin_8d", of a sine and a cosine for each label of a coordinate."""
    sinusoids = []
    for name, of_name in zip(names, labels, strict=True):
        sines, cosines = ([f"{name}_{f}_{label}" for label in of_name] for f in ("sin", "cos"))
        pairs = [*chain(*zip(sines, cosines, strict=True))]
        sinusoids += pairs if arrangement == "interleaved" else sines + cosines
    return sinusoids


def sign_of_place(text: str) -> int:
    """Return 1 for the name or the units of a latitude, -1 for a longitude, 0 for anything else."""
    text = text.lower()
    return bool(_LATITUDE.search(text)) - bool(_LONGITUDE.search(text))


def order_of_places(name: str, texts: Sequence[str]) -> tuple[int, int]:
    """Return which of two coordinates or more is the latitude, and which the longitude.

    Names, and standard names and units of the CF conventions, say which it is. If they do not,
    the latitude is the first of the others, then the longitude.
    """
    signs = [*map(sign_of_place, texts)]
    if signs.count(1) > 1 or signs.count(-1) > 1:
        actual = " and ".join(repr(text.strip()) for text in texts)
        raise wrong_value(name, "hold one latitude and one longitude", actual)
    latitude = signs.index(max(signs))
    others = (i for i in range(len(signs)) if i != latitude)
    return latitude, min(others, key=signs.__getitem__)
