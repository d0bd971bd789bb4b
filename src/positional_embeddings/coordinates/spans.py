"""Periods, wavelengths and lengths of tables with names: their lists, checks and labels.

Spans are numbers for numbers, and spans of time for times. Every error names the caller's argument.
"""

from collections.abc import Callable, Sequence
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import is_real_number
from positional_embeddings._core.remedies import remedy_for_span
from positional_embeddings.coordinates.calendar import DAY, LENGTHS, is_timedelta, length_of
from positional_embeddings.coordinates.fourier import wavelength

# A week and seven days of 24 hours start at different times.
_CALENDAR = {"day": "24h", "week": "week", "year": "year"}
# The units of labels, the longest first, and what NumPy calls them.
_UNITS = {"d": "D", "h": "h", "min": "m"}
_UNITS |= {unit: unit for unit in ("s", "ms", "us", "ns", "ps", "fs", "as")}
# Beyond, a span is labelled by its days, with as many digits as `%g` has.
_LARGEST_COUNT = 999_999


def listed(name: str, values: Any) -> list[Any]:
    """Return one value, or several in a list, a tuple, an array or an index, as a list."""
    is_array = len(getattr(values, "shape", ())) == 1
    if not is_array and not isinstance(values, list | tuple):
        return [values]
    if len(values) == 0:
        raise wrong_value(name, "have one value or more", shown(values))
    return list(values)


def check_spans(
    name: str,
    spans: Sequence[Any],
    whose: str,
    *,
    of_times: bool,
    by_calendar: bool = False,
    in_range: Callable[[str, Any], Any] = wavelength,
) -> None:
    """Check that spans suit numbers or times; errors tell `whose` spans they are.

    For times, `by_calendar` allows "day", "week" and "year"; numbers are checked by `in_range`.
    """
    for span in spans:
        if not of_times:
            if not is_real_number(span):
                hint = remedy_for_span(name, span, "/")
                raise wrong_type(name, f"be numbers for {whose}", shown(span), hint)
            in_range(name, span)
        elif is_timedelta(span):
            length_of(name, span)
        elif by_calendar and isinstance(span, str):
            checks.choice(name, span, tuple(_CALENDAR))
        else:
            what = "'day', 'week', 'year' or timedeltas" if by_calendar else "timedeltas"
            raise wrong_type(name, f"be {what} for {whose}", shown(span))


def labels_of(name: str, spans: Sequence[Any]) -> list[str]:
    """Return spans as labels, short if that tells them apart, after checking that they differ."""
    for is_exact in (False, True):
        labels = [_label(name, span, is_exact=is_exact) for span in spans]
        if len(set(labels)) == len(labels):
            return labels
    raise wrong_value(name, "differ from each other", ", ".join(labels))


def _label(name: str, span: Any, *, is_exact: bool) -> str:
    """Return a span in the longest unit that it is a whole number of, such as "90min"."""
    if isinstance(span, str):
        return _CALENDAR[span]
    if not is_timedelta(span):
        return repr(float(span)).removesuffix(".0") if is_exact else f"{float(span):g}"
    length = length_of(name, span)
    if length == DAY:  # as its parts, 12h and 8h
        return "24h"
    unit = next(unit for unit, ours in _UNITS.items() if length % LENGTHS[ours] == 0)
    count = length // LENGTHS[_UNITS[unit]]
    is_short = is_exact or count <= _LARGEST_COUNT
    return f"{count}{unit}" if is_short else f"{length / DAY:g}d"


def names_of_harmonics(
    coordinate: Any, labels: Sequence[str], harmonics: Sequence[int]
) -> list[str]:
    """Return names such as "time_sin_24h_2", without the harmonic if a period has only one."""
    return [
        f"{coordinate}_{function}_{label}{f'_{harmonic}' if count > 1 else ''}"
        for label, count in zip(labels, harmonics, strict=True)
        for harmonic in range(1, count + 1)
        for function in ("sin", "cos")
    ]
