"""Cycles of dates, over leap years, time zones and changes of clocks, and of numbers."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from mpmath import cos, mpf, pi, sin

from exact import Group, function, integers, reals, times, within

WAVES = "features sin(2 pi h c) and cos(2 pi h c) for h = 1, ..., harmonics, in this order"
FUNCTIONS = {
    "calendar": function(
        "The phase of a time is the part of its day, week, month, quarter or year that has passed "
        "on the clock of its place: the time on the clock since the beginning of the part, divided "
        "by the length of the part, both in days of 24 hours of the Gregorian calendar, without "
        "leap seconds. A week begins on Monday, a quarter with January, April, July or October, "
        "and a month, a quarter and a year are as long as that very one. A clock that is put "
        f"forward or back jumps. The encoding has the {WAVES}, c being the phase.",
        "The proleptic Gregorian calendar of ISO 8601; the time zone data base for the offsets",
        parameters={
            "period": "'day', 'week', 'month', 'quarter' or 'year'",
            "harmonics": "number of waves",
            "time_zone": "name of the zone, or null where the clock is all that is known",
        },
        inputs={
            "times": "(time,), as the clock shows them, with the offset from UTC if there is a zone"
        },
        outputs={"encoding": "(time, 2 * harmonics)"},
    ),
    "days_since": function(
        "Days of 24 hours from the origin to the time, in UTC where both have an offset.",
        "The proleptic Gregorian calendar of ISO 8601",
        parameters={"origin": "a time"},
        inputs={"times": "(time,), with offsets from UTC, or without"},
        outputs={"days": "(time,)"},
    ),
    "cyclic": function(
        f"For each period in turn the {WAVES}, c being x / period.",
        "Fourier series of a period",
        parameters={"periods": "list of periods", "harmonics": "number of waves of each period"},
        inputs={"x": "(n,)"},
        outputs={"encoding": "(n, feature)"},
    ),
}
SECOND = timedelta(microseconds=1)
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def phase(text: str, period: str) -> Fraction:
    """Return the part of a period that has passed on the clock."""
    clock = datetime.fromisoformat(text).replace(tzinfo=None)
    midnight = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        start, end = midnight, midnight + timedelta(days=1)
    elif period == "week":
        start = midnight - timedelta(days=clock.weekday())
        end = start + timedelta(days=7)
    else:
        months = MONTHS[period]
        first = (clock.month - 1) // months * months  # from 0
        start = midnight.replace(month=first + 1, day=1)
        year, month = divmod(clock.year * 12 + first + months, 12)
        end = midnight.replace(year=year, month=month + 1, day=1)
    return Fraction((clock - start) // SECOND, (end - start) // SECOND)


def waves(cycles: Fraction, harmonics: int) -> list[Any]:
    """Return sines and cosines; whole quarters of a cycle are exact."""
    features = []
    for h in range(1, harmonics + 1):
        part = cycles * h % 1
        if part * 4 % 1 == 0:
            features += ((0, 1), (1, 0), (0, -1), (-1, 0))[int(part * 4)]
        else:
            angle = 2 * pi * part.numerator / part.denominator
            features += (sin(angle), cos(angle))
    return features


def exactly(value: Fraction) -> Any:
    """Return a fraction as a number of 60 digits."""
    return mpf(value.numerator) / value.denominator


LEAP = [
    "2023-02-28T12:00:00",
    "2024-02-28T12:00:00",
    "2024-02-29T00:00:00",
    "2024-02-29T23:59:59",
    "2024-03-01T00:00:00",
    "2024-12-31T18:00:00",
    "2023-12-31T18:00:00",
]
CENTURIES = [
    "1900-02-28T06:00:00",
    "1900-03-01T06:00:00",
    "1900-12-31T12:00:00",
    "2000-02-29T06:00:00",
    "2000-12-31T12:00:00",
    "2100-02-28T06:00:00",
    "2100-12-31T12:00:00",
]
ORDINARY = [
    "1969-12-31T23:59:59.999999",
    "1970-01-01T00:00:00",
    "1999-07-04T03:07:11.125000",
    "2024-01-01T00:00:00",
    "2024-04-30T21:30:00",
    "2024-06-16T12:00:00",
    "2026-11-24T02:30:40",
]
OLD = ["0001-01-01T00:00:00", "0004-02-29T12:00:00", "1582-10-10T18:00:00", "9998-12-31T23:59:59"]
ZONES = {
    "Europe/Zurich": [
        "2024-03-31T01:59:59+01:00",
        "2024-03-31T03:00:00+02:00",
        "2024-10-27T02:30:00+02:00",
        "2024-10-27T02:30:00+01:00",
        "2024-10-27T03:00:00+01:00",
        "2024-07-01T08:00:00+02:00",
        "2024-01-01T08:00:00+01:00",
    ],
    "America/New_York": [
        "2024-03-10T01:59:59-05:00",
        "2024-03-10T03:00:00-04:00",
        "2024-11-03T01:30:00-04:00",
        "2024-11-03T01:30:00-05:00",
        "2023-12-31T22:00:00-05:00",
    ],
    "Australia/Lord_Howe": [
        "2024-04-07T01:45:00+11:00",
        "2024-04-07T01:45:00+10:30",
        "2024-10-06T02:30:00+11:00",
        "2024-10-05T12:00:00+10:30",
    ],
    "Asia/Kathmandu": ["2024-02-29T05:45:00+05:45", "2024-12-31T23:59:59+05:45"],
    "Pacific/Chatham": ["2024-09-29T02:44:59+12:45", "2024-09-29T03:45:00+13:45"],
    "UTC": ["2024-02-29T00:00:00+00:00", "2024-12-31T23:59:59+00:00"],
}


def group() -> Group:
    """Return the vectors."""
    made = Group("dates", "Cycles of dates and of numbers", FUNCTIONS)
    cases = [
        ("leap-years", "Years of 366 days, and others.", "LeapYear", None, LEAP),
        ("centuries", "1900 and 2100 have 365 days, 2000 has 366.", "LeapYear", None, CENTURIES),
        ("ordinary", "Beginnings, ends and middles.", "", None, ORDINARY),
        ("old", "The first and the last years, by the rule of today.", "LeapYear", None, OLD),
    ]
    cases += [
        (name.lower().replace("/", "-"), f"Clocks of {name}.", "ChangeOfClock", name, texts)
        for name, texts in ZONES.items()
    ]
    for slug, comment, flags, zone, texts in cases:
        for period in ("day", "week", "month", "quarter", "year"):
            harmonics = 2 if period in ("day", "year") else 1
            found = [phase(text, period) for text in texts]
            made.add(
                f"{period}-{slug}",
                comment,
                "" if zone in ("UTC", "Asia/Kathmandu") else flags,
                function="calendar",
                parameters={"period": period, "harmonics": harmonics, "time_zone": zone},
                inputs={"times": times(texts)},
                expected={
                    # Of an angle up to 2 pi h: its own rounding, that of pi and of the phase.
                    "encoding": within(
                        [waves(part, harmonics) for part in found], 1, float64=2 + 4 * harmonics
                    ),
                },
            )
    for slug, comment, flags, origin, texts in (
        ("leap-years", "Over the end of February.", "LeapYear", "2024-01-01T00:00:00", LEAP),
        ("centuries", "Centuries.", "LeapYear", "1970-01-01T00:00:00", CENTURIES),
        ("ordinary", "Also before the origin.", "", "1970-01-01T00:00:00", ORDINARY),
        (
            "zurich",
            "The hour that a change of clocks adds or takes is there.",
            "ChangeOfClock",
            "2024-03-30T23:00:00+00:00",
            ZONES["Europe/Zurich"],
        ),
        (
            "new-york",
            "From an origin of another offset.",
            "ChangeOfClock",
            "2024-01-01T00:00:00+01:00",
            ZONES["America/New_York"],
        ),
    ):
        start = datetime.fromisoformat(origin)
        spans = [(datetime.fromisoformat(text) - start) // SECOND for text in texts]
        days = [exactly(Fraction(span, 86_400_000_000)) for span in spans]
        made.add(
            f"days-{slug}",
            comment,
            flags,
            function="days_since",
            parameters={"origin": origin},
            inputs={"times": times(texts)},
            expected={"days": within(days, 0, float64=1)},
        )
    for slug, comment, flags, periods, harmonics, x in (
        ("hours", "Hours of a day.", "", [24], 2, [0, 1, 6, 12, 18, 23, 24, 25]),
        ("months", "December is next to January.", "", [12], 1, list(range(1, 13))),
        ("degrees", "179 east is next to 179 west.", "DateLine", [360], 3, [-180, -179, 179, 180]),
        ("two-periods", "A week and a year of days.", "", [7, 365.25], 2, [0, 3.5, 100.25, 365.25]),
        ("real", "A period that is rounded.", "RealPosition", [0.1], 2, [0.0, 0.025, 0.3, 7.77]),
        ("far", "Seconds of decades.", "FarPosition", [86400], 2, [10**9 + 7, 2**31 - 1]),
        ("negative", "Before zero.", "NegativePosition", [24], 1, [-1, -6, -24, -1000001]),
    ):
        found = [
            [f for p in periods for f in waves(Fraction(value) / Fraction(p), harmonics)]
            for value in x
        ]
        array = reals if any(isinstance(value, float) for value in x) else integers
        made.add(
            f"cyclic-{slug}",
            comment,
            flags,
            function="cyclic",
            parameters={"periods": periods, "harmonics": harmonics},
            inputs={"x": array(x)},
            expected={"encoding": within(found, 1, float64=2, float32=1)},
        )
    return made
