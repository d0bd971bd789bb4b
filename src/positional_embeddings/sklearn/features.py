"""Encodings of whole tables: what fit learns, the features, and their names.

Each class is one encoding: `fit` checks its options against the columns, `encode` returns blocks of
features, feature axis first, and `names` the names of the features in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import host, namespace_of
from positional_embeddings.absolute.sinusoidal import sinusoidal_encoding
from positional_embeddings.coordinates.calendar import DAY, LENGTHS, cycles_of, elapsed, length_of
from positional_embeddings.coordinates.cyclic import cyclic_encoding, harmonic_counts
from positional_embeddings.coordinates.fourier import fourier_encoding, octave_wavelengths
from positional_embeddings.coordinates.random_fourier import random_fourier_encoding
from positional_embeddings.coordinates.spans import (
    check_spans,
    labels_of,
    listed,
    names_of_harmonics,
)
from positional_embeddings.coordinates.sphere import spherical_encoding
from positional_embeddings.sklearn.columns import Times

# A column of `Times`, or an array of numbers of one axis.
Column: TypeAlias = Any
Columns: TypeAlias = Sequence[Column]
Options: TypeAlias = dict[str, Any]

# Wavelengths of a column if none are given, each half of the one before.
_OCTAVES = 4


@dataclass(frozen=True)
class Cyclic:
    """Sines and cosines of the harmonics of periods."""

    periods: tuple[Any, ...]
    harmonics: tuple[int, ...]

    @classmethod
    def fit(cls, columns: Columns, names: Sequence[str], options: Options) -> "Cyclic":
        """Check that each period suits each column."""
        periods = listed("periods", options["periods"])
        for column, name in zip(columns, names, strict=True):
            _check_spans("periods", periods, column, name, by_calendar=True)
        labels_of("periods", periods)
        counts = harmonic_counts(options["harmonics"], len(periods))
        return cls(tuple(periods), tuple(counts))

    def encode(self, columns: Columns) -> list[Any]:
        """Return one block for each column, or for each of its periods."""
        blocks = []
        for column in columns:
            if isinstance(column, Times):
                for period, count in zip(self.periods, self.harmonics, strict=True):
                    blocks.append(cyclic_encoding(_cycles(column, period), 1.0, count))
            else:
                blocks.append(cyclic_encoding(column, self.periods, self.harmonics))
        return blocks

    def names(self, names: Sequence[str]) -> list[str]:
        """Return names such as "time_sin_24h_2"."""
        labels = labels_of("periods", self.periods)
        return [
            feature
            for name in names
            for feature in names_of_harmonics(name, labels, self.harmonics)
        ]


@dataclass(frozen=True)
class Fourier:
    """Sines and cosines of wavelengths, which differ from column to column if fit chose them."""

    wavelengths: tuple[tuple[Any, ...], ...]

    @classmethod
    def fit(cls, columns: Columns, names: Sequence[str], options: Options) -> "Fourier":
        """Check the wavelengths, or choose octaves from twice the range of each column."""
        if options["wavelengths"] is None:
            return cls(tuple(_octaves(column) for column in columns))
        wavelengths = tuple(listed("wavelengths", options["wavelengths"]))
        for column, name in zip(columns, names, strict=True):
            _check_spans("wavelengths", wavelengths, column, name)
        labels_of("wavelengths", wavelengths)
        return cls((wavelengths,) * len(columns))

    def encode(self, columns: Columns) -> list[Any]:
        """Return one block for each column, or for each of its wavelengths."""
        blocks = []
        for column, wavelengths in zip(columns, self.wavelengths, strict=True):
            if isinstance(column, Times):
                phases = (_cycles(column, wavelength) for wavelength in wavelengths)
                blocks += [cyclic_encoding(phase, 1.0) for phase in phases]
            else:
                blocks.append(fourier_encoding(column, wavelengths))
        return blocks

    def names(self, names: Sequence[str]) -> list[str]:
        """Return names such as "depth_sin_12.5"."""
        return [
            f"{name}_{function}_{label}"
            for name, wavelengths in zip(names, self.wavelengths, strict=True)
            for label in labels_of("wavelengths", wavelengths)
            for function in ("sin", "cos")
        ]


@dataclass(frozen=True)
class Sinusoidal:
    """Sinusoidal encoding of positions."""

    dim: int

    @classmethod
    def fit(cls, columns: Columns, names: Sequence[str], options: Options) -> "Sinusoidal":
        """Check that the columns hold numbers."""
        _check_numbers(columns, names, "sinusoidal")
        return cls(checks.feature_count("dim", options["dim"]))

    def encode(self, columns: Columns) -> list[Any]:
        """Return one block for each column."""
        return [sinusoidal_encoding(column, self.dim) for column in columns]

    def names(self, names: Sequence[str]) -> list[str]:
        """Return names such as "position_sin_0", by the index of the frequency."""
        functions = ("sin", "cos")
        return [f"{name}_{functions[i % 2]}_{i // 2}" for name in names for i in range(self.dim)]


@dataclass(frozen=True)
class Spherical:
    """Spherical harmonics of latitude and longitude."""

    degree: int
    unit: Any

    @classmethod
    def fit(cls, columns: Columns, names: Sequence[str], options: Options) -> "Spherical":
        """Check that there are two columns of numbers."""
        _check_numbers(columns, names, "spherical")
        if len(columns) != 2:
            came = f"{len(columns)} features"
            raise wrong_value("X", "have 2 features, latitude and longitude", came)
        return cls(checks.non_negative_integer("degree", options["degree"]), options["unit"])

    def encode(self, columns: Columns) -> list[Any]:
        """Return one block."""
        latitude, longitude = columns
        return [spherical_encoding(latitude, longitude, self.degree, unit=self.unit)]

    def names(self, names: Sequence[str]) -> list[str]:  # noqa: ARG002 - of both columns at once
        """Return names such as "place_l2_m-1"."""
        degrees = range(self.degree + 1)
        return [f"place_l{degree}_m{m}" for degree in degrees for m in range(-degree, degree + 1)]


@dataclass(frozen=True)
class RandomFourier:
    """Random Fourier features of all columns together."""

    dim: int
    spans: tuple[Any, ...]
    origins: tuple[Any, ...]
    kernel: Any
    seed: int

    @classmethod
    def fit(cls, columns: Columns, names: Sequence[str], options: Options) -> "RandomFourier":
        """Check the length scales, and take the first time of each column as its origin."""
        kernel = checks.choice("kernel", options["kernel"], ("gaussian", "matern", "laplace"))
        spans = listed("length_scale", options["length_scale"])
        spans = spans * len(columns) if len(spans) == 1 else spans
        if len(spans) != len(columns):
            what = f"be one length, or one for each of {len(columns)} features"
            raise wrong_value("length_scale", what, shown(options["length_scale"]))
        for column, name, span in zip(columns, names, spans, strict=True):
            in_range = checks.positive_number
            _check_spans("length_scale", [span], column, name, in_range=in_range)
        origins = (c.utc.min() if isinstance(c, Times) else None for c in columns)
        dim = checks.feature_count("dim", options["dim"], even=True)
        return cls(dim, tuple(spans), tuple(origins), kernel, options["seed"])

    def encode(self, columns: Columns) -> list[Any]:
        """Return one block."""
        coordinates, lengths = [], []
        for column, span, origin in zip(columns, self.spans, self.origins, strict=True):
            is_dates = isinstance(column, Times)
            coordinates.append(elapsed(column.utc, origin, span) if is_dates else column)
            lengths.append(1.0 if is_dates else span)
        xp = namespace_of(X=coordinates[0])
        x = xp.stack(coordinates, axis=0)
        options = {"kernel": self.kernel, "length_scale": lengths, "rng": self.seed}
        return [random_fourier_encoding(x, self.dim, **options)]

    def names(self, names: Sequence[str]) -> list[str]:  # noqa: ARG002 - of all columns at once
        """Return names such as "random_sin_0"."""
        return [
            f"random_{function}_{i}" for i in range(self.dim // 2) for function in ("sin", "cos")
        ]


Encoding: TypeAlias = Cyclic | Fourier | Sinusoidal | Spherical | RandomFourier


def _check_spans(
    option: str, spans: Sequence[Any], column: Column, name: str, **options: Any
) -> None:
    """Check that spans are numbers for a column of numbers, and spans of time for times."""
    of_times = isinstance(column, Times)
    whose = f"the {'times' if of_times else 'numbers'} of column {name!r}"
    check_spans(option, spans, whose, of_times=of_times, **options)


def _check_numbers(columns: Columns, names: Sequence[str], encoding: str) -> None:
    for column, name in zip(columns, names, strict=True):
        if isinstance(column, Times):
            what = f"hold numbers with encoding {encoding!r}"
            raise wrong_type("X", what, f"times in column {name!r}")


def _cycles(times: Times, period: Any) -> Any:
    """Return phases by the clock on the wall, or those of a span of time in UTC."""
    return cycles_of(times.wall if isinstance(period, str) else times.utc, period)


def _octaves(column: Column) -> tuple[Any, ...]:
    """Return wavelengths from twice the range of a column down."""
    if not isinstance(column, Times):
        xp = namespace_of(X=column)
        extent = float(xp.max(column)) - float(xp.min(column))
        longest = 2 * extent if extent > 0 else 1.0
        return tuple(float(wave) for wave in octave_wavelengths(_OCTAVES, longest=longest))
    extent = column.utc.max() - column.utc.min()
    longest = 2 * length_of("X", extent) if extent else DAY
    unit = "ns" if longest < 2**62 * LENGTHS["ns"] else "s"
    ticks = longest // LENGTHS[unit]
    return tuple(host.timedelta64(max(ticks >> i, 1), unit) for i in range(_OCTAVES))
