"""Encodings of named coordinates: what xarray and the estimators share.

Each class is one encoding, made from coordinates and its options, which it checks against them:
`encode` returns blocks of features, feature axis first, and `names` the names of the features in
the same order.
"""

from collections.abc import Sequence
from itertools import chain
from math import inf, pi
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, np
from positional_embeddings.encodings import features
from positional_embeddings.encodings.cyclic import cyclic_encoding, harmonic_counts
from positional_embeddings.encodings.fourier import fourier_encoding, octave_wavelengths
from positional_embeddings.encodings.sphere import Unit, spherical_encoding
from positional_embeddings.times import calendar, durations
from positional_embeddings.times.calendar import Duration
from positional_embeddings.times.dates import Times

# The values of a coordinate.
Column: TypeAlias = Times | Array


class Coordinate(NamedTuple):
    """A coordinate, `Times` or an array of numbers."""

    name: str
    values: Column
    place: str  # how errors call it, such as "column 'x0'"
    attributes: str = ""  # standard name and units, separated by a blank

    def checked(self, name: str, values: Any, *, parts: Sequence[str] = ()) -> list[Duration]:
        """Return an option as a list of durations, after a check that they suit numbers or times.

        Those of times may be texts and offsets, as `duration_of` takes them, and `parts` of the
        calendar by name. Those of numbers are numbers.
        """
        listed = durations.listed(name, values)
        if not isinstance(self.values, Times):
            for value in listed:
                if isinstance(value, str):
                    requirement = f"be a positive finite number for the numbers of {self.place}"
                    raise wrong_type(name, requirement, format_value(value), _NUMBERS_HINT)
            return [features.wavelength(name, number) for number in listed]
        checked = [durations.duration_of(value, by_calendar=bool(parts)) for value in listed]
        for duration in checked:
            is_part = isinstance(duration, str) and duration in parts
            if not (is_part or calendar.is_timedelta(duration)):
                named = "".join(f"{part!r}, " for part in parts)
                requirement = (
                    f"be {named}spans such as '36h' or timedeltas for the times of {self.place}"
                )
                wrong = wrong_value if isinstance(duration, str) else wrong_type
                raise wrong(name, requirement, format_value(duration))
        return checked


Coordinates: TypeAlias = Sequence[Coordinate]

# Wavelengths of a coordinate if none are given, each half of the one before.
_OCTAVES = 4

# Parts of the calendar that times are looked at for, and their mean lengths in days.
_MEAN_DAYS = {"day": 1.0, "week": 7.0, "year": 365.2425}

# Steps have a common one if their remainders by the median step fill at most the second number of
# the first number of cells (examples/encoders.py).
_STEP_CELLS, _CELLS_IN_COMMON = 12, 6
# Cells of phases for a harmonic; part of the mean count of a cell that makes it measured.
_PHASE_CELLS, _MEASURED = 4, 0.1
# Cycles from which a trend is told from a period. With fewer, gaps between phases, in cycles, that
# leave one harmonic, and none.
_MANY_CYCLES, _LEAVES_ONE, _LEAVES_NONE = 1.9, 0.11, 0.42

_NUMBERS_HINT = " Convert dates, as with pandas.to_datetime; numbers need an encoder of their own."
_PLACES_HINT = """ Give each place an encoder of its own:
place = PositionalEncoder("spherical")
make_column_transformer((place, ["lat", "lon"]), (place, ["to_lat", "to_lon"]), ...)"""


class Cyclic:
    """Sines and cosines of the harmonics of periods, the same for each coordinate."""

    def __init__(self, coordinates: Coordinates, *, periods: Any, harmonics: Any = 1) -> None:
        for coordinate in coordinates:
            self.periods = coordinate.checked("periods", periods, parts=calendar.CALENDAR)
        self.harmonics = harmonic_counts(harmonics, len(self.periods))
        labels = durations.labels_of("periods", self.periods)
        pairs = zip(labels, self.harmonics, strict=True)
        self.labels = [f"{x}_{k + 1}" if n > 1 else x for x, n in pairs for k in range(n)]

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return a block for each period of each coordinate."""
        sinusoids = list(zip(self.periods, self.harmonics, strict=True))
        return [_waves(x, period, count, dtype) for x in columns for period, count in sinusoids]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "time_sin_day_2"."""
        return durations.names_of_waves(names, [self.labels] * len(names))


class Trend:
    """A coordinate itself, -1 at the least and 1 at the largest value that this is made from."""

    def __init__(self, coordinates: Coordinates) -> None:
        (coordinate,) = coordinates
        self.origin = _first_time(coordinate.values)
        self.low, self.high = _bounds(_since(coordinate.values, self.origin))

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:  # noqa: ARG002
        """Return one block."""
        x = _since(columns[0], self.origin)[None, ...]
        return [((x - self.low) - (self.high - x)) / ((self.high - self.low) or 1.0)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return a name such as "time_trend"."""
        return [f"{names[0]}_trend"]


class Fourier:
    """Sines and cosines of wavelengths, by default octaves from twice the range of a coordinate."""

    def __init__(
        self, coordinates: Coordinates, *, wavelengths: Any = None, arrangement: str = "interleaved"
    ) -> None:
        self.wavelengths = [
            _octaves(c) if wavelengths is None else c.checked("wavelengths", wavelengths)
            for c in coordinates
        ]
        self.labels = [
            durations.labels_of("wavelengths", sinusoids) for sinusoids in self.wavelengths
        ]
        self.arrangement = checks.choice("arrangement", arrangement, features.ARRANGEMENTS)

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return one block for each coordinate of numbers, and for each wave of times."""
        options: dict[str, Any] = {"arrangement": self.arrangement, "dtype": dtype}
        blocks = []
        for column, wavelengths in zip(columns, self.wavelengths, strict=True):
            if not isinstance(column, Times):
                blocks.append(fourier_encoding(column, wavelengths, **options))
                continue
            sinusoids = [_waves(column, wavelength, 1, dtype) for wavelength in wavelengths]
            if self.arrangement == "concatenated":
                sinusoids = [wave[i : i + 1, ...] for i in (0, 1) for wave in sinusoids]
            blocks += sinusoids
        return blocks

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "depth_sin_12.5"."""
        return durations.names_of_waves(names, self.labels, self.arrangement)


class Spherical:
    """Spherical harmonics of latitude and longitude, which are `argument` to the caller."""

    def __init__(
        self,
        coordinates: Coordinates,
        *,
        degree: int = 6,
        unit: Unit = "degrees",
        argument: str = "X",
    ) -> None:
        for coordinate in coordinates:
            if isinstance(coordinate.values, Times):
                requirement = "hold numbers with encoding 'spherical'"
                raise wrong_type("X", requirement, f"times in {coordinate.place}")
        if len(coordinates) != 2:
            actual = ", ".join(c.name for c in coordinates)
            raise wrong_value("X", "have 2 features, latitude and longitude", actual, _PLACES_HINT)
        self.degree, self.unit = degree, unit
        texts = [f"{c.name} {c.attributes}" for c in coordinates]
        self.order = durations.order_of_places(argument, texts)

    def encode(self, columns: Sequence[Array], dtype: Dtype = None) -> list[Array]:
        """Return one block."""
        latitude, longitude = (columns[i] for i in self.order)
        return [spherical_encoding(latitude, longitude, self.degree, unit=self.unit, dtype=dtype)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "place_l2_m-1", "place" being the name if there is only one."""
        place = names[0] if len(names) == 1 else "place"
        degrees = range(self.degree + 1)
        return [f"{place}_l{degree}_m{m}" for degree in degrees for m in range(-degree, degree + 1)]


class Auto:
    """Each coordinate by what it holds.

    Times become sines and cosines of `periods`, or of the parts of the calendar that they cover; a
    latitude and a longitude, which names and units tell, spherical harmonics; a longitude alone a
    cycle; and other numbers sines and cosines of `periods`, or of octaves.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        *,
        periods: Any = None,
        harmonics: Any = 3,
        trend: bool = False,
        degree: int = 6,
        unit: Unit = "degrees",
    ) -> None:
        checks.boolean("trend", trend)
        turn = 360.0 if unit == "degrees" else 2 * pi
        names = ["" if isinstance(c.values, Times) else c.name for c in coordinates]
        signs = [*map(durations.sign_of_place, names)]
        place = [i for i, sign in enumerate(signs) if sign] if {1, -1} <= {*signs} else []
        # What encodes some coordinates together, and their indices.
        self.parts: list[tuple[Any, list[int]]] = []
        if place:
            own = [coordinates[i] for i in place]
            self.parts.append((Spherical(own, degree=degree, unit=unit), place))
        for i, coordinate in enumerate(coordinates):
            if i not in place:
                own, cycles, counts, is_long = [coordinate], periods, harmonics, False
                if periods is None and isinstance(coordinate.values, Times):
                    cycles, counts, is_long = _resolved_parts(coordinate.values, harmonics)
                elif periods is None and signs[i] == -1:
                    cycles = turn
                sinusoids = {"periods": cycles, "harmonics": counts}
                encoder = Fourier(own) if cycles is None else Cyclic(own, **sinusoids)
                self.parts.append((encoder, [i]))
                if trend or is_long:
                    self.parts.append((Trend(own), [i]))

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return the blocks of all parts."""
        each = (encoder.encode([columns[i] for i in at], dtype) for encoder, at in self.parts)
        return [*chain.from_iterable(each)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return the names of all parts."""
        each = (encoder.names([names[i] for i in at]) for encoder, at in self.parts)
        return [*chain.from_iterable(each)]


ENCODINGS: Any = {"auto": Auto, "cyclic": Cyclic, "fourier": Fourier, "spherical": Spherical}


def _waves(column: Column, period: Duration, harmonics: int, dtype: Dtype) -> Array:
    """Return the waves of a period: by the clock on the wall, or of a duration of time in UTC."""
    if isinstance(column, Times):
        times = column.wall if isinstance(period, str) else column.utc
        column, period = calendar.cycles_of(times, period, column.calendar), 1.0
    return cyclic_encoding(column, period, harmonics, dtype=dtype)


def _first_time(column: Column) -> Array | None:
    """Return the first of some times, 1970 if there is none, and None for numbers."""
    if not isinstance(column, Times):
        return None
    times = column.utc[~np.isnat(column.utc)]
    return times.min() if times.size else np.datetime64(0, "s")


def _since(column: Column, origin: Array | None) -> Array:
    """Return times as days since an origin, and numbers as they came."""
    return column if origin is None else calendar.days_between(column.utc, origin)


def _bounds(numbers: Array) -> tuple[float, float]:
    """Return the least and the largest number; what is missing is left out."""
    xp = get_backend(X=numbers).xp
    is_missing = xp.isnan(numbers)
    low, high = xp.where(is_missing, inf, numbers), xp.where(is_missing, -inf, numbers)
    return float(xp.min(low)), float(xp.max(high))


def _resolved_parts(times: Times, harmonics: Any) -> tuple[list[str] | None, list[int], bool]:
    """Return what parts of the calendar times tell, or None, their harmonics, and if a trend."""
    days, told = _since(times, _first_time(times)), {}
    is_there = ~np.isnan(days)
    counts = harmonic_counts(harmonics, len(_MEAN_DAYS))
    for (part, length), most in zip(_MEAN_DAYS.items(), counts, strict=True):
        phases = calendar.cycles_of(times.wall[is_there], part, times.calendar)
        if count := resolved_harmonics(days[is_there], phases, length, most):
            told[part] = count
    extent = days[is_there].max(initial=0.0)
    longest = max((_MEAN_DAYS[part] for part in told), default=0.0)
    return [*told] or None, [*told.values()], bool(extent >= _MANY_CYCLES * longest)


def resolved_harmonics(places: HostArray, phases: HostArray, period: float, most: int) -> int:
    """Return how many harmonics of a period samples at some places and phases tell, 0 to `most`."""
    steps = np.diff(np.unique(places))
    if not steps.size or (2 * np.median(steps) > period and have_common(steps)):
        return 0
    cells = _PHASE_CELLS * most
    counts = np.bincount((phases * cells).astype(np.int64), minlength=cells)
    told = min(most, int(np.count_nonzero(counts >= _MEASURED * counts.mean())) // 2)
    if steps.sum() >= _MANY_CYCLES * period:
        return told
    gap = np.diff(np.sort(phases), append=phases.min() + 1).max()
    return 0 if gap > _LEAVES_NONE else min(told, 1) if gap > _LEAVES_ONE else told


def have_common(steps: HostArray) -> bool:
    """Tell whether steps are multiples of a common one, or nearly so, as those of a grid are."""
    parts = np.floor(_STEP_CELLS * (steps / np.median(steps) % 1))
    return bool(np.unique(parts).size <= _CELLS_IN_COMMON)


def _octaves(coordinate: Coordinate) -> list[Duration]:
    """Return wavelengths from twice the range of a coordinate down; what is missing is left out."""
    column = coordinate.values
    if not isinstance(column, Times):
        low, high = _bounds(column)
        longest = 2 * (high - low) if high > low else 1.0
        if not 2 ** (_OCTAVES - 1) * features.SHORTEST <= longest <= features.LONGEST:
            requirement = (
                f"range over 2**-62 to 2**99 in {coordinate.place} if `wavelengths` is None"
            )
            raise wrong_value("X", requirement, longest / 2, " Count it in another unit.")
        return [float(wave) for wave in octave_wavelengths(_OCTAVES, longest=longest)]
    # What timedelta64 holds, in the finest unit that holds the longest.
    longest = max(2 * calendar.extent_of(column.utc) or calendar.DAY, 2 ** (_OCTAVES - 1))
    longest = min(longest, 2**62 * calendar.LENGTHS["W"])
    unit = next(unit for unit, length in calendar.LENGTHS.items() if longest <= 2**62 * length)
    ticks = longest // calendar.LENGTHS[unit]
    return [np.timedelta64(ticks >> i, unit) for i in range(_OCTAVES)]
