"""Encodings of named coordinates, shared by `xarray` and `sklearn`.

Each class is one encoding, constructed from coordinates and checked options. `encode` returns
blocks of features, feature axis first, and `names` the names of the features in the same order.
"""

from collections.abc import Sequence
from itertools import chain
from math import inf, pi
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, warn_caller, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, is_real_number, np
from positional_embeddings.encodings import features
from positional_embeddings.encodings.cyclic import cyclic_encoding, harmonic_counts
from positional_embeddings.encodings.fourier import fourier_encoding, octave_wavelengths
from positional_embeddings.encodings.sphere import Unit, check_latitude, spherical_encoding
from positional_embeddings.times import calendar, durations
from positional_embeddings.times.calendar import Duration
from positional_embeddings.times.dates import Times

# Values of a coordinate.
Column: TypeAlias = Times | Array


class Coordinate(NamedTuple):
    """A coordinate of times or numbers."""

    name: str
    values: Column
    label: str  # in error messages, such as "column 'x0'"
    attributes: str = ""  # standard name and units, separated by a space
    levels: str = ""  # "booleans" or "categories"

    def checked(self, name: str, values: Any, *, parts: Sequence[str] = ()) -> list[Duration]:
        """Check an option against the values and return it as a list of durations.

        Durations of times may be strings and offsets for `duration_of`, and names of the calendar
        periods `parts`. Durations of numbers are numbers.
        """
        listed = durations.listed(name, values)
        if not isinstance(self.values, Times):
            for value in listed:
                if isinstance(value, str):
                    requirement = f"be a positive finite number for the numbers of {self.label}"
                    raise wrong_type(name, requirement, format_value(value), _NUMBERS_HINT)
            return [features.wavelength(name, number) for number in listed]
        checked = [durations.duration_of(value, by_calendar=bool(parts)) for value in listed]
        for duration in checked:
            is_part = isinstance(duration, str) and duration in parts
            if not (is_part or calendar.is_timedelta(duration)):
                names = "".join(f"{part!r}, " for part in parts)
                requirement = (
                    f"be {names}spans such as '36h' or timedeltas for the times of {self.label}"
                )
                number = format_value(duration) if is_real_number(duration) else ""
                hint = f" Name the unit, such as '{number}h' or '{number}D'." if number else ""
                wrong = wrong_value if isinstance(duration, str) else wrong_type
                raise wrong(name, requirement, format_value(duration), hint)
        return checked


Coordinates: TypeAlias = Sequence[Coordinate]

# Number of default wavelengths of a coordinate, each half of the one before.
_OCTAVES = 4

# Calendar periods to detect, and the default number of harmonics.
_DETECTED, _DEFAULT_HARMONICS = ("day", "week", "year"), 3

# Steps have a common divisor if their remainders by the median step fill at most `_MAX_STEP_CELLS`
# of `_STEP_CELLS` cells (examples/encoders.py).
_STEP_CELLS, _MAX_STEP_CELLS = 12, 6
# Cells of phases per harmonic; minimum count in a covered cell, relative to the mean count.
_PHASE_CELLS, _MIN_CELL_FRACTION = 4, 0.1
# Cycles that separate a trend from a period. With fewer, larger gaps between phases, in cycles,
# limit the harmonics to one, or to none.
_TREND_CYCLES, _MAX_GAP, _MAX_GAP_OF_ONE = 1.9, 0.11, 0.42

_DEGREES = 360  # of a circle

# The smallest range of a named cycle, as a part of the cycle.
_MIN_CYCLE_PART = 1 / 3

# Octaves warn of rows outside of the range by more than a tenth of it, if so many are improbable in
# a random split; and of a row outside by half of it and three times the range of the outermost
# fifth of the values. Of 92 ordinary tables, random splits of at most three warn.
_MAX_EXTRAPOLATION, _MIN_PROBABILITY = 0.1, 0.03
_FAR_EXTRAPOLATION, _OUTERMOST_PART, _FAR_OUTERMOST = 0.5, 0.2, 3.0

_NUMBERS_HINT = " Convert dates, as with pandas.to_datetime; numbers need an encoder of their own."
_CATEGORIES_HINT = " Encode categories separately, as by OneHotEncoder of scikit-learn."
_PLACES_HINT = """ Give each place an encoder of its own:
place = PositionalEncoder("spherical")
make_column_transformer((place, ["lat", "lon"]), (place, ["to_lat", "to_lon"]), ...)"""


class Cyclic:
    """Sines and cosines of the harmonics of periods, which all coordinates share."""

    def __init__(self, coordinates: Coordinates, *, periods: Any, harmonics: Any = 1) -> None:
        for coordinate in coordinates:
            self.periods = coordinate.checked("periods", periods, parts=calendar.CALENDAR)
        self.harmonics = harmonic_counts(harmonics, len(self.periods))
        labels = durations.labels_of("periods", self.periods)
        pairs = zip(labels, self.harmonics, strict=True)
        self.labels = [f"{x}_{k + 1}" if n > 1 else x for x, n in pairs for k in range(n)]
        for coordinate in coordinates:
            self._warn_of_harmonics(coordinate)

    def _warn_of_harmonics(self, coordinate: Coordinate) -> None:
        """Warn of more harmonics than the default that the values do not resolve."""
        column = coordinate.values
        if 0 in (column.utc if isinstance(column, Times) else column).shape:
            return
        for period, count in zip(self.periods, self.harmonics, strict=True):
            resolved = count
            if count > _DEFAULT_HARMONICS:
                resolved = _resolved_harmonics(column, period, count)
            if resolved < count:
                label = durations.labels_of("periods", [period])[0]
                message = (
                    f"The values of {coordinate.label} resolve {resolved} of {count} harmonics "
                )
                message += f"of the period {label!r}: predictions at other phases may be far too "
                warn_caller(f"{message}large. Pass harmonics={max(resolved, 1)}.")

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return a block for each period of each coordinate."""
        sinusoids = list(zip(self.periods, self.harmonics, strict=True))
        return [_sinusoids(x, period, count, dtype) for x in columns for period, count in sinusoids]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "time_sin_day_2"."""
        return durations.sinusoid_names(names, [self.labels] * len(names))


class Trend:
    """A coordinate scaled to -1 at its minimum and 1 at its maximum."""

    def __init__(self, coordinates: Coordinates) -> None:
        (coordinate,) = coordinates
        self.origin = _first_time(coordinate.values)
        self.low, self.high = _bounds(_since(coordinate.values, self.origin))

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:  # noqa: ARG002
        """Return one block."""
        # Halves of the largest numbers do not overflow.
        x, low, high = _since(columns[0], self.origin)[None, ...] / 2, self.low / 2, self.high / 2
        return [((x - low) - (high - x)) / ((high - low) or 1.0)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return a name such as "time_trend"."""
        return [f"{names[0]}_trend"]


class Unchanged:
    """A coordinate of booleans as 0 and 1."""

    def encode(self, columns: Sequence[Array], dtype: Dtype = None) -> list[Array]:  # noqa: ARG002
        """Return one block."""
        return [columns[0][None, ...]]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return the name of the coordinate."""
        return [str(names[0])]


class Fourier:
    """Sines and cosines of wavelengths, by default octaves below twice the coordinate's range."""

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
        # Of coordinates with default wavelengths: they repeat beyond.
        self.ranges = [_Range(c) for c in coordinates] if wavelengths is None else []

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return one block for each coordinate of numbers, and for each wavelength of times."""
        for column_range, column in zip(self.ranges, columns, strict=False):
            column_range.warn_outside(column)
        options: dict[str, Any] = {"arrangement": self.arrangement, "dtype": dtype}
        blocks = []
        for column, wavelengths in zip(columns, self.wavelengths, strict=True):
            if not isinstance(column, Times):
                blocks.append(fourier_encoding(column, wavelengths, **options))
                continue
            sinusoids = [_sinusoids(column, wavelength, 1, dtype) for wavelength in wavelengths]
            if self.arrangement == "concatenated":
                sinusoids = [wave[i : i + 1, ...] for i in (0, 1) for wave in sinusoids]
            blocks += sinusoids
        return blocks

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "depth_sin_12.5"."""
        return durations.sinusoid_names(names, self.labels, self.arrangement)


class Spherical:
    """Spherical harmonics of latitude and longitude; `argument` is their name in errors."""

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
                raise wrong_type("X", requirement, f"times in {coordinate.label}")
        if len(coordinates) != 2:
            actual = ", ".join(c.name for c in coordinates)
            raise wrong_value("X", "have 2 features, latitude and longitude", actual, _PLACES_HINT)
        self.degree, self.unit = degree, unit
        texts = [f"{c.name} {c.attributes}" for c in coordinates]
        self.order = durations.latitude_longitude_order(argument, texts)
        latitude: Any = coordinates[self.order[0]].values
        check_latitude(latitude, unit, get_backend(latitude=latitude))

    def encode(self, columns: Sequence[Array], dtype: Dtype = None) -> list[Array]:
        """Return one block."""
        latitude, longitude = (columns[i] for i in self.order)
        return [spherical_encoding(latitude, longitude, self.degree, unit=self.unit, dtype=dtype)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return names such as "place_l2_m-1"; a single name replaces "place"."""
        place = names[0] if len(names) == 1 else "place"
        degrees = range(self.degree + 1)
        return [f"{place}_l{degree}_m{m}" for degree in degrees for m in range(-degree, degree + 1)]


class Auto:
    """An encoding of each coordinate chosen by its values and name.

    Times become sines and cosines of `periods`, or of the calendar periods that they cover. A pair
    of latitude and longitude, detected by name, becomes spherical harmonics, and a longitude alone
    a cycle. Other numbers become sines and cosines of `periods`, or of octaves.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        *,
        periods: Any = None,
        harmonics: Any = 3,
        trend: Any = "auto",
        degree: int = 6,
        unit: Unit = "degrees",
    ) -> None:
        if not (isinstance(trend, bool) or (isinstance(trend, str) and trend == "auto")):
            wrong = wrong_value if isinstance(trend, str) else wrong_type
            raise wrong("trend", 'be True, False or "auto"', format_value(trend))
        circle = float(_DEGREES) if unit == "degrees" else 2 * pi
        names = ["" if isinstance(c.values, Times) else c.name for c in coordinates]
        signs = [*map(durations.latitude_sign, names)]
        sphere_axes = [i for i, sign in enumerate(signs) if sign] if {1, -1} <= {*signs} else []
        # Encoders, and the indices of their coordinates.
        self.parts: list[tuple[Any, list[int]]] = []
        if sphere_axes:
            sphere = Spherical([coordinates[i] for i in sphere_axes], degree=degree, unit=unit)
            self.parts.append((sphere, sphere_axes))
        for i, coordinate in enumerate(coordinates):
            if i not in sphere_axes:
                line, cycles, counts = [coordinate], periods, harmonics
                is_time = isinstance(coordinate.values, Times)
                if periods is None and is_time:
                    cycles, counts = _resolved_periods(coordinate.values, harmonics)
                elif periods is None:
                    cycles = circle if signs[i] == -1 else _cycle_of(coordinate)
                    if coordinate.levels == "booleans":
                        self.parts.append((Unchanged(), [i]))
                        continue
                    if cycles is not None:
                        counts = max(harmonic_counts(harmonics, len(_DETECTED)))
                        counts = min(counts, int(cycles // 2))
                    elif coordinate.levels:
                        raise wrong_type(
                            "X",
                            f"hold numbers, dates or booleans in {coordinate.label}",
                            "categories",
                            _CATEGORIES_HINT,
                        )
                options = {"periods": cycles, "harmonics": counts}
                encoder = Fourier(line) if cycles is None else Cyclic(line, **options)
                self.parts.append((encoder, [i]))
                has_trend = trend
                if trend == "auto":
                    used = getattr(encoder, "periods", ())
                    has_trend = is_time or (periods is not None and not _cycle_of(coordinate))
                    has_trend = has_trend and _has_trend(coordinate.values, used)
                if has_trend:
                    self.parts.append((Trend(line), [i]))

    def encode(self, columns: Sequence[Column], dtype: Dtype = None) -> list[Array]:
        """Return the blocks of all parts."""
        blocks = (encoder.encode([columns[i] for i in axes], dtype) for encoder, axes in self.parts)
        return [*chain.from_iterable(blocks)]

    def names(self, names: Sequence[object]) -> list[str]:
        """Return the names of all parts."""
        part_names = (encoder.names([names[i] for i in axes]) for encoder, axes in self.parts)
        return [*chain.from_iterable(part_names)]


ENCODINGS: Any = {"auto": Auto, "cyclic": Cyclic, "fourier": Fourier, "spherical": Spherical}


def _sinusoids(column: Column, period: Duration, harmonics: int, dtype: Dtype) -> Array:
    """Return the sinusoids of a calendar period in local time, or of a duration in UTC."""
    if isinstance(column, Times):
        clock = _clock(column, period)
        column, period = calendar.cycles_of(clock, period, column.calendar), 1.0
    return cyclic_encoding(column, period, harmonics, dtype=dtype)


class _Range:
    """The range of a coordinate, in numbers or days."""

    def __init__(self, coordinate: Coordinate) -> None:
        self.label, self.origin = coordinate.label, _first_time(coordinate.values)
        x = _since(coordinate.values, self.origin)
        x = get_backend(X=x).to_numpy(x).astype(np.float64)
        x = x[~np.isnan(x)] if not np.isnan(x).all() else np.zeros(1)
        self.size, inner = x.size, round(_OUTERMOST_PART * (x.size - 1))
        ranks = [0, inner, -1 - inner, -1]
        low, inner_low, inner_high, high = np.partition(x, ranks)[ranks].tolist()
        margin, far = ((high - low) * part for part in (_MAX_EXTRAPOLATION, _FAR_EXTRAPOLATION))
        self.limits = low - margin, high + margin
        far_low, far_high = (inner_low - low) * _FAR_OUTERMOST, (high - inner_high) * _FAR_OUTERMOST
        self.far_limits = low - max(far, far_low), high + max(far, far_high)

    def warn_outside(self, column: Column) -> None:
        """Warn of values far outside of the range, or of more than in a random split."""
        x = _since(column, self.origin)
        xp = get_backend(X=x).xp
        limits = self.limits, self.far_limits
        counts = [int(xp.count_nonzero((x < low) | (x > high))) for low, high in limits]
        size = min(x.shape[0], self.size)  # a split rarely has fewer rows in `fit`
        # The probability that the outermost rows of all are not in `fit`.
        probability = (size / (size + self.size)) ** counts[0]
        if counts[1] or probability < _MIN_PROBABILITY:
            label = f"{self.label[:1].upper()}{self.label[1:]}"
            message = f"{label} has values farther outside of its range in `fit` than a tenth of "
            message += "it: octaves repeat there, and predictions may be wrong. Pass `wavelengths` "
            warn_caller(f"{message}of twice the range of all data, or encode a trend alone.")


def _first_time(column: Column) -> Array | None:
    """Return the first time, 1970 if all are missing, or None for numbers."""
    if not isinstance(column, Times):
        return None
    times = column.utc[~np.isnat(column.utc)]
    return times.min() if times.size else np.datetime64(0, "s")


def _since(column: Column, origin: Array | None) -> Array:
    """Return times as days since an origin, and numbers unchanged."""
    return column if origin is None else calendar.days_between(column.utc, origin)


def _bounds(numbers: Array) -> tuple[float, float]:
    """Return the minimum and the maximum, ignoring NaN."""
    xp = get_backend(X=numbers).xp
    is_missing = xp.isnan(numbers)
    low, high = xp.where(is_missing, inf, numbers), xp.where(is_missing, -inf, numbers)
    return float(xp.min(low)), float(xp.max(high))


def _resolved_periods(times: Times, harmonics: Any) -> tuple[list[str] | None, list[int]]:
    """Return the calendar periods that times resolve, or None, and their harmonics."""
    counts = zip(_DETECTED, harmonic_counts(harmonics, len(_DETECTED)), strict=True)
    resolved = {part: _resolved_harmonics(times, part, count) for part, count in counts}
    resolved = {part: count for part, count in resolved.items() if count}
    return [*resolved] or None, [*resolved.values()]


def _resolved_harmonics(column: Column, period: Any, max_count: int) -> int:
    """Return the number of harmonics of a period that a column resolves, 0 to `max_count`."""
    if not isinstance(column, Times):
        x = get_backend(X=column).to_numpy(column).astype(np.float64)
        x = x[~np.isnan(x)]
        return count_harmonics(x, x / period % 1, period, max_count)
    days, clock = _since(column, _first_time(column)), _clock(column, period)
    is_valid = ~np.isnan(days)
    phases = calendar.cycles_of(clock[is_valid], period, column.calendar)
    return count_harmonics(days[is_valid], phases, _mean_length(period), max_count)


def _has_trend(column: Column, periods: Sequence[Duration]) -> bool:
    """Return whether values cover the longest period enough to separate a trend from it."""
    low, high = _bounds(_since(column, _first_time(column)))
    length = max(high - low, 0.0)  # not -inf if all are missing
    return length >= _TREND_CYCLES * max(map(_mean_length, periods), default=0.0)


def _cycle_of(coordinate: Coordinate) -> float | None:
    """Return the cycle of a coordinate whose name and numbers have one, else None."""
    cycles, x = durations.named_cycles(coordinate.name), coordinate.values
    if not cycles:
        return None
    (low, high), xp = _bounds(x), get_backend(X=x).xp
    cycle = next((c for c in cycles if high <= c), 0)
    is_angle = cycle == _DEGREES
    is_whole = bool(xp.all((x == xp.round(x)) | xp.isnan(x)))
    lowest = -cycle / 2 if is_angle else 0
    # Whole degrees of both 0 and 360 distinguish calm from north.
    limit = cycle + (is_angle and not is_whole)
    fits = lowest <= low and _MIN_CYCLE_PART * cycle <= high - low < limit
    return float(cycle) if fits and (is_angle or is_whole) else None


def _clock(times: Times, period: Duration) -> HostArray:
    """Return local times for a calendar period, and UTC for a duration."""
    return times.wall if isinstance(period, str) else times.utc


def _mean_length(period: Duration) -> float:
    """Return the mean length of a period: a number, or that of a period of times in days."""
    if isinstance(period, str):
        return calendar.MEAN_DAYS[period]
    is_span = calendar.is_timedelta(period)
    return calendar.length_of("periods", period) / calendar.DAY if is_span else float(period)


def count_harmonics(x: HostArray, phases: HostArray, period: float, max_count: int) -> int:
    """Return the number of harmonics of a period that samples resolve, 0 to `max_count`."""
    steps = np.diff(np.unique(x))
    if not steps.size or (2 * np.median(steps) > period and have_common_step(steps)):
        return 0
    cells = _PHASE_CELLS * max_count
    counts = np.bincount((phases * cells).astype(np.int64), minlength=cells)
    covered = int(np.count_nonzero(counts >= _MIN_CELL_FRACTION * counts.mean()))
    count = min(max_count, covered // 2)
    if steps.sum() >= _TREND_CYCLES * period:
        return count
    gap = np.diff(np.sort(phases), append=phases.min() + 1).max()
    return 0 if gap > _MAX_GAP_OF_ONE else min(count, 1) if gap > _MAX_GAP else count


def have_common_step(steps: HostArray) -> bool:
    """Return whether steps are nearly multiples of a common step, as in a grid."""
    parts = np.floor(_STEP_CELLS * (steps / np.median(steps) % 1))
    return bool(np.unique(parts).size <= _MAX_STEP_CELLS)


def _octaves(coordinate: Coordinate) -> list[Duration]:
    """Return octaves of wavelengths below twice the range of a coordinate, ignoring NaN."""
    column = coordinate.values
    if not isinstance(column, Times):
        low, high = _bounds(column)
        first = 2 * (high - low) if high > low else 1.0
        if not 2 ** (_OCTAVES - 1) * features.MIN_WAVELENGTH <= first <= features.MAX_WAVELENGTH:
            requirement = (
                f"range over 2**-62 to 2**99 in {coordinate.label} if `wavelengths` is None"
            )
            raise wrong_value("X", requirement, first / 2, " Count it in another unit.")
        return [float(wave) for wave in octave_wavelengths(_OCTAVES, longest=first)]
    # Within the range of timedelta64, in the finest unit that holds the first wavelength.
    first = max(2 * calendar.extent_of(column.utc) or calendar.DAY, 2 ** (_OCTAVES - 1))
    first = min(first, 2**62 * calendar.LENGTHS["W"])
    unit = next(unit for unit, length in calendar.LENGTHS.items() if first <= 2**62 * length)
    ticks = first // calendar.LENGTHS[unit]
    return [np.timedelta64(ticks >> i, unit) for i in range(_OCTAVES)]
