"""Kernels of a smoother: encodings whose distances say how much one sample weighs for another.

A kernel encodes a sample x as a vector u(x), and gives a sample y a weight of the distance
|u(x) - u(y)| at x, such as exp(-|u(x) - u(y)|**2 / 2), which is attention by scalar products. A
product concatenates the vectors of its factors.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from math import degrees, hypot, inf, pi, radians, sqrt
from typing import Any, Literal, TypeAlias

from sklearn.base import BaseEstimator

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import format_value, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, is_real_number, np
from positional_embeddings.encodings.cyclic import cyclic_encoding
from positional_embeddings.encodings.sphere import spherical_encoding
from positional_embeddings.sklearn import frames
from positional_embeddings.times.calendar import DAY, cycles_of, is_timedelta, length_of
from positional_embeddings.times.dates import time_zone_of, utc_offsets
from positional_embeddings.times.durations import duration_of, latitude_longitude_order, listed

LOO = "loo"

# Mean lengths of the parts of the calendar, in days.
DAYS = {"day": 1.0, "week": 7.0, "month": 30.436875, "quarter": 91.310625, "year": 365.2425}

# Smaller logarithms of weights are this one: the square of a weight, too, is a normal number.
LEAST_SCORE = -345.0

# Seconds at whose multiples clocks change.
_CLOCK_STEP = 900

# Where a search for the width of a periodic kernel begins, in periods.
_PART_OF_PERIOD = 0.05


class Kernel(BaseEstimator):  # type: ignore[misc]
    """Base of kernels: ``a * b`` multiplies their weights, ``a + b`` adds smooth functions.

    They weigh samples, and are no kernels of scikit-learn's ``GaussianProcessRegressor``.
    """

    def __mul__(self, other: Any) -> Any:
        return ProductKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return SumKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def _terms(self) -> list[list[Any]]:
        """Return the kernels whose functions are added, each as factors that are multiplied."""
        return [[self]]


class Factor(Kernel):
    """Base of kernels with a length scale, on some columns."""

    length_scale: Any
    columns: Any
    _at: list[int]  # the columns, as integers
    _nu: float = inf  # smoothness of Matern's weights, which are Gaussian if it is infinite

    def _resolve(self, columns: Sequence[frames.Column], names: list[str]) -> None:
        """Check the parameters for these columns, and make numbers of names and spans."""
        if self.columns is not None:
            if not isinstance(self.columns, list | tuple) or not self.columns:
                requirement = "be a list of integers or names, or None"
                raise wrong_type("columns", requirement, format_value(self.columns))
            self.columns = frames.indices_of("columns", self.columns, names, len(columns))
        self._at = list(range(len(columns))) if self.columns is None else self.columns
        self._resolve_scale([columns[i] for i in self._at])

    def _resolve_scale(self, own: Sequence[frames.Column]) -> None:
        is_time = all(column.is_time for column in own)
        self.length_scale = scale_of("length_scale", self.length_scale, is_time=is_time)

    def _encode(self, x: HostArray) -> Array:
        """Return the coordinates, (features, samples), of samples (columns, samples)."""
        return x[self._at]

    def _first_scale(self, x: HostArray, weight: HostArray) -> Array:
        """Return the length scales that a search begins with: Scott's rule for each column.

        Those of constant columns are infinite, so that they change nothing.
        """
        varies = np.ptp(x[self._at], axis=1) > 0
        if not varies.any():
            return [1.0] * len(self._at)
        scales = _rule_of_thumb(x[self._at], weight, np.count_nonzero(varies))
        return np.where(varies, scales, inf).tolist()

    def _scales(self) -> list[float]:
        """Return the width of each feature, in its unit."""
        return list(np.full(len(self._at), self.length_scale, dtype=np.float64))

    def _score(self, squared: HostArray, widening: HostArray) -> Array:
        """Return the logarithms of weights, of squared distances in widths, which are widened."""
        if self._nu == inf:
            return squared * (-0.5 / widening)
        a = np.sqrt(np.maximum(squared, 0.0) * (2 * self._nu / widening))
        return np.log1p({0.5: 0.0, 1.5: a, 2.5: a + a * a / 3}[self._nu]) - a

    def _visible_keys(self, nothing: float) -> float:
        """Return the distance in widths at which a weight is exp(-nothing), or less."""
        # Of Matern's weights: what is 2 widths away may be the nearest sample.
        return sqrt(2 * nothing) if self._nu == inf else nothing + 2


Term: TypeAlias = list[Factor]  # factors that are multiplied


@dataclass(repr=False, eq=False)
class _Radial(Factor):
    """Base of kernels of the distance in the columns, in which lines may be fitted."""

    length_scale: Any = LOO
    _: KW_ONLY
    columns: Sequence[int] | Sequence[str] | None = None
    local_linear: bool | None = None

    def _resolve_scale(self, own: Sequence[frames.Column]) -> None:
        checks.optional_boolean("local_linear", self.local_linear)
        scales = listed("length_scale", self.length_scale)
        if len(scales) == 1:
            self.length_scale = scales[0]
            super()._resolve_scale(own)
        elif len(scales) != len(own):
            requirement = f"be one number, or {len(own)}, one for each column"
            raise wrong_value("length_scale", requirement, len(scales))
        else:
            pairs = enumerate(zip(scales, own, strict=True))
            scales = [scale_of(f"length_scale[{i}]", s, is_time=c.is_time) for i, (s, c) in pairs]
            self.length_scale = scales


@dataclass(repr=False, eq=False)
class GaussianKernel(_Radial):
    """Weights that fall with the distance: ``exp(-|x - y|**2 / (2 * length_scale**2))``.

    Parameters
    ----------
    length_scale : float, span of time, sequence of these or "loo", default "loo"
        Distance at which a weight is exp(-1/2), in the unit of the columns: one number, or one
        for each column. The regressor chooses "loo" by the leave-one-out error. In columns of
        times, a span is a timedelta or text such as "30D", and a number is in days.
    columns : sequence of int or str, optional
        Columns of the samples that it looks at; all if None.
    local_linear : bool, optional
        Whether a line, or a plane, is fitted to the samples around a query, rather than their
        mean; as the regressor says if None. Not in a product.

    Examples
    --------
    >>> from positional_embeddings.sklearn import GaussianKernel, PeriodicKernel
    >>> PeriodicKernel(1.0, 0.02) * GaussianKernel(8.0)
    ProductKernel(k1=PeriodicKernel(length_scale=0.02, period=1.0),
                  k2=GaussianKernel(length_scale=8.0))
    """


@dataclass(repr=False, eq=False)
class MaternKernel(_Radial):
    """Weights that fall more slowly: Matern's, of the distance r in length scales.

    They are exp(-r) for `nu` 1/2, (1 + a) exp(-a) for 3/2, a being sqrt(3) r, and (1 + a + a**2 /
    3) exp(-a) for 5/2, a being sqrt(5) r.

    Parameters
    ----------
    length_scale, columns, local_linear
        As of a `GaussianKernel`.
    nu : {0.5, 1.5, 2.5}, default 1.5
        The smaller it is, the more the nearest samples weigh, and the farther weights reach.
    """

    _: KW_ONLY
    nu: float = 1.5

    def _resolve_scale(self, own: Sequence[frames.Column]) -> None:
        self._nu = _smoothness(self.nu)
        super()._resolve_scale(own)


def _smoothness(nu: Any) -> float:
    if not is_real_number(nu) or nu not in (0.5, 1.5, 2.5):
        raise wrong_value("nu", "be 0.5, 1.5 or 2.5", format_value(nu))
    return float(nu)


def _rule_of_thumb(x: HostArray, weight: HostArray, dimensions: int) -> Array:
    """Return Scott's length scales: standard deviations, smaller with more samples.

    A range of quartiles that is smaller counts, so that a sample far from all others does not.
    """
    mean = np.average(x, axis=1, weights=weight, keepdims=True)
    deviations = np.sqrt(np.average((x - mean) ** 2, axis=1, weights=weight))
    low, high = np.quantile(x, [0.25, 0.75], axis=1)
    deviations = np.minimum(deviations, np.where(high > low, high - low, inf))
    count = weight.sum() ** 2 / (weight**2).sum()
    return (count ** (-1 / (dimensions + 4)) * deviations).tolist()


@dataclass(repr=False, eq=False)
class PeriodicKernel(Factor):
    """Weights that come back after each period: exp((cos(a) - 1) / b**2).

    Here a is the distance and b the length scale, both times 2 pi / period. Within a period it
    is a `GaussianKernel` of this length scale, nearly, if that is a small part of the period.

    Parameters
    ----------
    period : float, span of time or {"day", "week", "month", "quarter", "year"}
        Period, positive, in the unit of the columns. In columns of times, a span is a timedelta or
        text such as "12h", and a number is in days. A part of the calendar is as long as that very
        day, month or year, on the clock of `time_zone`.
    length_scale : float, span of time or "loo", default "loo"
        Width of the kernel, as of a `GaussianKernel`, relative to a period of mean length: 365.2425
        days for "year".
    columns : sequence of int or str, optional
        Columns of the samples that it looks at; all if None.
    time_zone : str or tzinfo, optional
        Zone such as "Europe/Zurich", whose clock a part of the calendar follows: 8 o'clock is the
        same phase in summer and in winter. If None, the zone of the columns; times without a zone
        are read as the clock shows them, and refused with `time_zone`.

    Examples
    --------
    >>> from positional_embeddings.sklearn import PeriodicKernel
    >>> PeriodicKernel("day", "1h", time_zone="Europe/Zurich")
    PeriodicKernel(length_scale='1h', period='day', time_zone='Europe/Zurich')
    """

    period: Any
    length_scale: Any = LOO
    _: KW_ONLY
    columns: Sequence[int] | Sequence[str] | None = None
    time_zone: Any = None

    def _resolve_scale(self, own: Sequence[frames.Column]) -> None:
        is_time = all(column.is_time for column in own)
        period = duration_of(self.period) if is_time else self.period
        zone = time_zone_of(self.time_zone)
        if is_time and isinstance(period, str) and period in DAYS:
            for column in own:
                frames.check_zone("X", column.zone, zone)
            self.period, self.time_zone = period, zone or own[0].zone
        elif zone is not None:
            requirement = f"be None unless `period` is {' or '.join(map(repr, DAYS))}, of times"
            raise wrong_value("time_zone", requirement, format_value(zone))
        else:
            self.period = scale_of("period", self.period, is_time=is_time, is_period=True)
        super()._resolve_scale(own)

    def _length(self) -> float:
        """Return the mean length of a period."""
        return float(DAYS.get(self.period, self.period))

    def _cycles_before(self, x: HostArray) -> Array:
        """Return the number of periods before places; its fraction is the phase."""
        if self.period not in DAYS:
            return x / self.period
        clock = _wall_clock(x, self.time_zone)
        phase = cycles_of(clock, self.period)
        return np.round(clock.astype(np.int64) / (86400e6 * self._length()) - phase) + phase

    def _first_scale(self, x: HostArray, weight: HostArray) -> float:  # noqa: ARG002
        return _PART_OF_PERIOD * self._length()

    def _encode(self, x: HostArray) -> Array:
        x, period = x[self._at], self.period
        if period in DAYS:
            x, period = cycles_of(_wall_clock(x, self.time_zone), period), 1.0
        return cyclic_encoding(x, period).reshape(-1, x.shape[1])

    def _scales(self) -> list[float]:
        return [2 * pi * self.length_scale / self._length()] * (2 * len(self._at))


@dataclass(repr=False, eq=False)
class SphereKernel(Factor):
    """Weights that fall with the straight distance between two places of a sphere, the chord.

    It is ``2 sin(a / 2)`` radii for an angle `a` between the places: nearly the great circle, up
    to some 60 degrees.

    Parameters
    ----------
    length_scale : float or "loo", default "loo"
        Width of the kernel in degrees of a great circle; 1 degree is 111.2 km on Earth.
    columns : sequence of two int or str, optional
        Columns of latitude and longitude, in degrees. Names such as lat and longitude say which is
        which, and which they are of all columns if None; without them it is these two, or the
        first two, in this order.
    kernel : {"matern", "gaussian"}, default "matern"
        Weights of the distance as of a `MaternKernel` or a `GaussianKernel`.
    nu : {0.5, 1.5, 2.5}, optional
        Smoothness of the kernel "matern"; 1.5 if None.
    local_linear : bool, optional
        Whether a plane is fitted to the samples around a query, rather than their mean; as the
        regressor says if None. Not in a product.

    Examples
    --------
    >>> from positional_embeddings.sklearn import AttentionRegressor, SphereKernel
    >>> places = [[47.4, 8.5], [46.9, 7.4], [-33.9, 151.2]]
    >>> kernel = SphereKernel(3.0, nu=2.5)
    >>> AttentionRegressor(kernel).fit(places, [1.0, 2.0, 9.0]).predict([[47.2, 8.0]]).round(2)
    array([1.49])
    """

    length_scale: Any = LOO
    _: KW_ONLY
    columns: Sequence[int] | Sequence[str] | None = None
    kernel: Literal["matern", "gaussian"] = "matern"
    nu: float | None = None
    local_linear: bool | None = None

    def _resolve(self, columns: Sequence[frames.Column], names: list[str]) -> None:
        if len(columns) < 2:
            raise wrong_value("X", "have a latitude and a longitude for a SphereKernel", "1 column")
        super()._resolve(columns, names)
        if self.columns is not None and len(self.columns) != 2:
            raise wrong_value("columns", "be a latitude and a longitude", self.columns)
        order = latitude_longitude_order("X", [names[i] if names else "" for i in self._at])
        self.columns = self._at = [self._at[i] for i in order]
        checks.optional_boolean("local_linear", self.local_linear)
        checks.choice("kernel", self.kernel, ["matern", "gaussian"])
        if self.kernel == "matern":
            self._nu = _smoothness(1.5 if self.nu is None else self.nu)
        else:
            checks.omitted("with the kernel 'gaussian'", nu=self.nu)

    def _first_scale(self, x: HostArray, weight: HostArray) -> float:
        """Return Scott's rule of thumb for places in a plane."""
        return degrees(hypot(*_rule_of_thumb(self._encode(x), weight, 2)) / 2**0.5) or 1.0

    def _scales(self) -> list[float]:
        return [radians(self.length_scale)] * 3

    def _encode(self, x: HostArray) -> Array:
        latitude, longitude = x[self._at]
        # Harmonics of degree 1 are the three coordinates.
        return spherical_encoding(latitude, longitude, 1)[1:] * (4 * pi / 3) ** 0.5


@dataclass(repr=False, eq=False)
class _Pair(Kernel):
    """Base of kernels that are made of two."""

    k1: Kernel
    k2: Kernel

    def _parts(self) -> list[Kernel]:
        for name, part in (("k1", self.k1), ("k2", self.k2)):
            if not isinstance(part, Kernel):
                raise wrong_kernel(name, "be a kernel", part)
        return [self.k1, self.k2]


@dataclass(repr=False, eq=False)
class ProductKernel(_Pair):
    """The product of two kernels: a sample weighs much where it does for both.

    Parameters
    ----------
    k1, k2 : Kernel
        The factors, none of them a sum.
    """

    def _terms(self) -> list[list[Any]]:
        for name, part in zip(("k1", "k2"), self._parts(), strict=True):
            if isinstance(part, SumKernel):
                requirement = "be no sum, whose terms are smoothed one after the other"
                raise wrong_type(name, requirement, format_value(part))
        factors = [factor for part in self._parts() for factor in part._terms()[0]]
        for factor in factors:
            if getattr(factor, "local_linear", None):
                requirement = "be None or False in a product"
                raise wrong_value("local_linear", requirement, factor.local_linear)
        return [factors]


@dataclass(repr=False, eq=False)
class SumKernel(_Pair):
    """The sum of two smooth functions, each with a kernel of its own.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels. Each function is smoothed from what the others leave over, the first one
        first: a slow trend before a season, a season before what is local.
    """

    def _terms(self) -> list[list[Any]]:
        return [term for part in self._parts() for term in part._terms()]


def wrong_kernel(name: str, requirement: str, got: Any) -> Exception:
    """Return the error about what is no kernel; scikit-learn has others, of Gaussian processes."""
    if type(got).__module__.startswith("sklearn.gaussian_process"):
        hint = (
            " Kernels of Gaussian processes are others: take GaussianKernel for RBF, MaternKernel "
            "for Matern, PeriodicKernel for ExpSineSquared."
        )
        return wrong_type(name, requirement, type_name(got), hint)
    wrong = wrong_value if isinstance(got, str) else wrong_type
    return wrong(name, requirement, format_value(got))


def _wall_clock(days: HostArray, zone: tzinfo | None) -> HostArray:
    """Return days since 1970-01-01 UTC as times on the clock of a zone."""
    utc: HostArray = np.round(days * 86400e6).astype("datetime64[us]")
    if zone is None:
        return utc
    steps, at = np.unique(days * 86400 // _CLOCK_STEP, return_inverse=True)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    times = (epoch + timedelta(seconds=_CLOCK_STEP * step) for step in steps)
    utc += utc_offsets("X", times, zone)[at].reshape(days.shape)
    return utc


def scale_of(name: str, scale: Any, *, is_time: bool, is_period: bool = False) -> Any:
    """Return a length as a number, a span of time in days; "loo" as it is, if it may be."""
    if isinstance(scale, str) and scale == LOO and not is_period:
        return scale
    span = duration_of(scale, by_calendar=is_period) if is_time else scale
    if is_time and is_timedelta(span):
        return length_of(name, span) / DAY
    if not isinstance(span, str):
        return checks.positive_number(name, span)
    if is_time and is_period and span in DAYS:
        return DAYS[span]
    requirement = "be a positive number" + ("" if is_period else ' or "loo"')
    requirement += ', or a span such as "30D" or "12h"' if is_time else ""
    raise wrong_value(name, requirement, format_value(scale))
