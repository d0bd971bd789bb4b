"""Kernels of a smoother: encodings, whose distances determine the weights of samples.

A kernel encodes a sample x as a vector u(x). The weight of a sample y at x is a function of the
distance |u(x) - u(y)|, such as exp(-|u(x) - u(y)|**2 / 2), which is attention by scalar products. A
product concatenates the vectors of its factors.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from math import degrees, hypot, inf, pi, radians, sqrt
from typing import Any, Literal, TypeAlias

from sklearn.base import BaseEstimator, clone

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import (
    format_value,
    type_name,
    warn_caller,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, HostArray, is_real_number, np
from positional_embeddings.encodings.cyclic import cyclic_encoding
from positional_embeddings.encodings.sphere import spherical_encoding
from positional_embeddings.sklearn import frames
from positional_embeddings.times.calendar import DAY, MEAN_DAYS, cycles_of, is_timedelta, length_of
from positional_embeddings.times.dates import time_zone_of, utc_offsets
from positional_embeddings.times.durations import duration_of, latitude_longitude_order, listed

LOO = "loo"

# The smallest logarithm of a weight: the square of a weight is a normal number, too.
MIN_LOG_WEIGHT = -345.0

# Clocks change at multiples of this number of seconds.
_CLOCK_STEP_SECONDS = 900

# The initial width of a periodic kernel in a search, in periods.
_INITIAL_WIDTH_PERIODS = 0.05


class Kernel(BaseEstimator):  # type: ignore[misc]
    """Base of kernels: ``a * b`` multiplies their weights, ``a + b`` adds smooth functions.

    They are not the kernels of scikit-learn's ``GaussianProcessRegressor``.
    """

    def __mul__(self, other: Any) -> Any:
        return ProductKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return SumKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def _terms(self) -> list[list[Any]]:
        """Return the terms of a sum, each as the factors of a product."""
        return [[self]]

    def _curves(self, differences: HostArray) -> list[tuple[str, Array]]:
        """Return labels and weights at differences, of each column in each term of a sum."""
        kernel = clone(self)
        terms = kernel._terms()
        factors = [*chain.from_iterable(terms)]
        named = chain.from_iterable(
            f.columns for f in factors if isinstance(f.columns, list | tuple)
        )
        names = [*dict.fromkeys(column for column in named if isinstance(column, str))]
        n_columns = max(len(names), *(factor._min_columns() for factor in factors))
        for factor in factors:
            factor._resolve([factor._column_alone()] * n_columns, names)
            if LOO in listed("length_scale", factor.length_scale):
                hint = " Pass `kernel_` of a fitted AttentionRegressor."
                raise wrong_value("length_scale", "be a number or a span", format_value(LOO), hint)
        curves = []
        for term, stated in zip(terms, self._terms(), strict=True):
            label = " * ".join(" ".join(repr(factor).split()) for factor in stated)
            columns = sorted({i for factor in term for i in factor._line_columns()})
            for i in columns:
                x = np.zeros((n_columns, differences.size))
                x[i] = differences
                log_weight = sum(factor._log_weight_at(x) for factor in term)
                suffix = f", column {names[i] if names else i}" if len(columns) > 1 else ""
                curves.append((f"{label}{suffix}", np.exp(log_weight)))
        return curves


class Factor(Kernel):
    """Base of kernels with a length scale, on some columns."""

    length_scale: Any
    columns: Any
    _indices: list[int]  # of the columns
    _nu: float = inf  # smoothness of Matern weights; Gaussian weights if infinite

    def _resolve(self, columns: Sequence[frames.Column], names: list[str]) -> None:
        """Check the parameters, and convert names and spans to numbers."""
        if self.columns is not None:
            if not isinstance(self.columns, list | tuple) or not self.columns:
                requirement = "be a list of integers or names, or None"
                raise wrong_type("columns", requirement, format_value(self.columns))
            self.columns = frames.column_indices("columns", self.columns, names, len(columns))
        self._indices = list(range(len(columns))) if self.columns is None else self.columns
        self._resolve_scale([columns[i] for i in self._indices])

    def _resolve_scale(self, columns: Sequence[frames.Column]) -> None:
        is_time = all(column.is_time for column in columns)
        self.length_scale = scale_of("length_scale", self.length_scale, is_time=is_time)

    def _min_columns(self) -> int:
        """Return the number of columns that the parameters imply, without samples."""
        counts = [len(listed("length_scale", self.length_scale))]
        columns: list[Any] = listed("columns", self.columns or [0])
        return max(counts + [int(c) + 1 for c in columns if is_real_number(c)])

    def _column_alone(self) -> frames.Column:
        """Return the kind of the columns that the parameters imply, without samples."""
        lengths = [getattr(self, "period", LOO), *listed("length_scale", self.length_scale)]
        is_time = any(value != LOO and not is_real_number(value) for value in lengths)
        return frames.Column(is_time, time_zone_of(getattr(self, "time_zone", None)), is_time)

    def _line_columns(self) -> list[int]:
        """Return the columns along which weights are plotted."""
        return self._indices

    def _log_weight_at(self, x: HostArray) -> Array:
        """Return logarithms of weights of a sample at 0, at x, (columns, queries)."""
        offset = self._encode(x) - self._encode(np.zeros_like(x[:, :1]))
        squared = (offset / np.asarray(self._scales())[:, None]) ** 2
        return self._log_weight(squared.sum(axis=0), np.ones(()))

    def _encode(self, x: HostArray) -> Array:
        """Return features, (features, samples), of x, (columns, samples)."""
        return x[self._indices]

    def _initial_scale(self, x: HostArray, weight: HostArray) -> Array:
        """Return initial length scales of a search: Scott's rule, infinite for constant columns."""
        varies = np.ptp(x[self._indices], axis=1) > 0
        if not varies.any():
            return [1.0] * len(self._indices)
        scales = _scott_scales(x[self._indices], weight, np.count_nonzero(varies))
        return np.where(varies, scales, inf).tolist()

    def _scales(self) -> list[float]:
        """Return the width of each feature, in the unit of the feature."""
        return list(np.full(len(self._indices), self.length_scale, dtype=np.float64))

    def _log_weight(self, squared: HostArray, widening: HostArray) -> Array:
        """Return logarithms of weights, of squared distances over the squared widening."""
        if self._nu == inf:
            return squared * (-0.5 / widening)
        a = np.sqrt(np.maximum(squared, 0.0) * (2 * self._nu / widening))
        return np.log1p({0.5: 0.0, 1.5: a, 2.5: a + a * a / 3}[self._nu]) - a

    def _radius(self, negligible: float) -> float:
        """Return the distance in widths where a weight is at most exp(-negligible)."""
        # The nearest sample may be 2 widths away, where Matern weights are smaller.
        return sqrt(2 * negligible) if self._nu == inf else negligible + 2


Term: TypeAlias = list[Factor]  # the factors of a product


@dataclass(repr=False, eq=False)
class _Radial(Factor):
    """Base of kernels of the distance in the columns, which may fit lines."""

    length_scale: Any = LOO
    _: KW_ONLY
    columns: Sequence[int] | Sequence[str] | None = None
    local_linear: bool | None = None

    def _resolve_scale(self, columns: Sequence[frames.Column]) -> None:
        checks.optional_boolean("local_linear", self.local_linear)
        scales = listed("length_scale", self.length_scale)
        if len(scales) == 1:
            self.length_scale = scales[0]
            super()._resolve_scale(columns)
        elif len(scales) != len(columns):
            requirement = f"be one number, or {len(columns)}, one for each column"
            raise wrong_value("length_scale", requirement, len(scales))
        else:
            pairs = enumerate(zip(scales, columns, strict=True))
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
        Columns of the samples that the kernel uses; all if None.
    local_linear : bool, optional
        Whether to fit a line, or a plane, to the samples around a query. If False, predict their
        mean; if None, follow the regressor. Not in a product.

    Examples
    --------
    >>> from positional_embeddings.sklearn import GaussianKernel, PeriodicKernel
    >>> PeriodicKernel(1.0, 0.02) * GaussianKernel(8.0)
    ProductKernel(k1=PeriodicKernel(length_scale=0.02, period=1.0),
                  k2=GaussianKernel(length_scale=8.0))
    """


@dataclass(repr=False, eq=False)
class MaternKernel(_Radial):
    """Matern weights, which fall more slowly with the distance than Gaussian weights.

    With the distance r in length scales, they are exp(-r) for `nu` 1/2. They are (1 + a) exp(-a)
    for 3/2, where a = sqrt(3) r, and (1 + a + a**2 / 3) exp(-a) for 5/2, where a = sqrt(5) r.

    Parameters
    ----------
    length_scale, columns, local_linear
        As for `GaussianKernel`.
    nu : {0.5, 1.5, 2.5}, default 1.5
        Smoothness. A smaller `nu` gives more weight to the nearest samples and to distant ones.
    """

    _: KW_ONLY
    nu: float = 1.5

    def _resolve_scale(self, columns: Sequence[frames.Column]) -> None:
        self._nu = _smoothness(self.nu)
        super()._resolve_scale(columns)


def _smoothness(nu: Any) -> float:
    if not is_real_number(nu) or nu not in (0.5, 1.5, 2.5):
        raise wrong_value("nu", "be 0.5, 1.5 or 2.5", format_value(nu))
    return float(nu)


def _scott_scales(x: HostArray, weight: HostArray, dimensions: int) -> Array:
    """Return length scales by Scott's rule, with the interquartile range if it is smaller."""
    mean = np.average(x, axis=1, weights=weight, keepdims=True)
    deviations = np.sqrt(np.average((x - mean) ** 2, axis=1, weights=weight))
    low, high = np.quantile(x, [0.25, 0.75], axis=1)
    deviations = np.minimum(deviations, np.where(high > low, high - low, inf))
    effective_size = weight.sum() ** 2 / (weight**2).sum()
    return (effective_size ** (-1 / (dimensions + 4)) * deviations).tolist()


@dataclass(repr=False, eq=False)
class PeriodicKernel(Factor):
    """Periodic weights: exp((cos(a) - 1) / b**2).

    Here a is the distance and b the length scale, both times 2 pi / period. If the length scale is
    a small part of the period, a `GaussianKernel` has nearly the same weights within a period.

    Parameters
    ----------
    period : float, span of time or {"day", "week", "month", "quarter", "year"}
        Period, positive, in the unit of the columns. In columns of times, it is a span, a timedelta
        or text such as "12h"; a number is an error. Calendar periods have the length of each day,
        month or year, on the clock of `time_zone`.
    length_scale : float, span of time or "loo", default "loo"
        Width of the kernel, as for `GaussianKernel`, relative to a period of mean length: 365.2425
        days for "year".
    columns : sequence of int or str, optional
        Columns of the samples that the kernel uses; all if None.
    time_zone : str or tzinfo, optional
        Zone such as "Europe/Zurich", whose clock a calendar period follows: 8 o'clock is the same
        phase in summer and in winter. If None, the zone of the columns; times without a zone are
        local times, and an error with `time_zone`.

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

    def _resolve_scale(self, columns: Sequence[frames.Column]) -> None:
        is_time = all(column.is_time for column in columns)
        period = duration_of(self.period) if is_time else self.period
        zone = time_zone_of(self.time_zone)
        if is_time and isinstance(period, str) and period in MEAN_DAYS:
            for column in columns:
                frames.check_zone("X", column.zone, zone)
            self.period, self.time_zone = period, zone or columns[0].zone
        elif zone is not None:
            requirement = (
                f"be None unless `period` is {' or '.join(map(repr, MEAN_DAYS))}, of times"
            )
            raise wrong_value("time_zone", requirement, format_value(zone))
        else:
            self.period = period_of("period", self.period, is_time=is_time)
        super()._resolve_scale(columns)

    def _mean_length(self) -> float:
        """Return the mean length of a period."""
        return float(MEAN_DAYS.get(self.period, self.period))

    def _cycles(self, x: HostArray) -> Array:
        """Return the number of periods before each position; its fraction is the phase."""
        if self.period not in MEAN_DAYS:
            return x / self.period
        clock = _wall_clock(x, self.time_zone)
        phase = cycles_of(clock, self.period)
        return np.round(clock.astype(np.int64) / (86400e6 * self._mean_length()) - phase) + phase

    def _initial_scale(self, x: HostArray, weight: HostArray) -> float:  # noqa: ARG002
        return _INITIAL_WIDTH_PERIODS * self._mean_length()

    def _encode(self, x: HostArray) -> Array:
        x, period = x[self._indices], self.period
        if period in MEAN_DAYS:
            x, period = cycles_of(_wall_clock(x, self.time_zone), period), 1.0
        return cyclic_encoding(x, period).reshape(-1, x.shape[1])

    def _scales(self) -> list[float]:
        return [2 * pi * self.length_scale / self._mean_length()] * (2 * len(self._indices))


@dataclass(repr=False, eq=False)
class SphereKernel(Factor):
    """Weights that fall with the chord between two points on a sphere.

    The chord is ``2 sin(a / 2)`` radii for an angle `a` between the points. Up to about 60 degrees,
    it is nearly the great-circle distance.

    Parameters
    ----------
    length_scale : float or "loo", default "loo"
        Width of the kernel in degrees of a great circle; 1 degree is 111.2 km on Earth.
    columns : sequence of two int or str, optional
        Columns of latitude and longitude, in degrees. Names such as lat and longitude identify
        them, among all columns if None. Without such names, the order is latitude, longitude, and
        None means the first two columns.
    kernel : {"matern", "gaussian"}, default "matern"
        Weights as for `MaternKernel` or `GaussianKernel`.
    nu : {0.5, 1.5, 2.5}, optional
        Smoothness of the kernel "matern"; 1.5 if None.
    local_linear : bool, optional
        Whether to fit a plane to the samples around a query. If False, predict their mean; if
        None, follow the regressor. Not in a product.

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
        order = latitude_longitude_order("X", [names[i] if names else "" for i in self._indices])
        self.columns = self._indices = [self._indices[i] for i in order]
        if self.length_scale != LOO and self.length_scale > 180:
            message = (
                f"`length_scale` = {self.length_scale} is in degrees, and wider than the sphere. "
                "For kilometres on Earth, divide by 111.2."
            )
            warn_caller(message)
        checks.optional_boolean("local_linear", self.local_linear)
        checks.choice("kernel", self.kernel, ["matern", "gaussian"])
        if self.kernel == "matern":
            self._nu = _smoothness(1.5 if self.nu is None else self.nu)
        else:
            checks.omitted("with the kernel 'gaussian'", nu=self.nu)

    def _min_columns(self) -> int:
        return max(2, super()._min_columns())

    def _line_columns(self) -> list[int]:
        return self._indices[1:]  # degrees of longitude on the equator

    def _initial_scale(self, x: HostArray, weight: HostArray) -> float:
        """Return the length scale of Scott's rule for points in a plane."""
        return degrees(hypot(*_scott_scales(self._encode(x), weight, 2)) / 2**0.5) or 1.0

    def _scales(self) -> list[float]:
        return [radians(self.length_scale)] * 3

    def _encode(self, x: HostArray) -> Array:
        latitude, longitude = x[self._indices]
        # Harmonics of degree 1 are the three coordinates.
        return spherical_encoding(latitude, longitude, 1)[1:] * (4 * pi / 3) ** 0.5


@dataclass(repr=False, eq=False)
class _Pair(Kernel):
    """Base of sums and products of two kernels."""

    k1: Kernel
    k2: Kernel

    def _operands(self) -> list[Kernel]:
        for name, kernel in (("k1", self.k1), ("k2", self.k2)):
            if not isinstance(kernel, Kernel):
                raise wrong_kernel(name, "be a kernel", kernel)
        return [self.k1, self.k2]


@dataclass(repr=False, eq=False)
class ProductKernel(_Pair):
    """The product of two kernels: the product of their weights.

    Parameters
    ----------
    k1, k2 : Kernel
        The factors, which are not sums.
    """

    def _terms(self) -> list[list[Any]]:
        for name, kernel in zip(("k1", "k2"), self._operands(), strict=True):
            if isinstance(kernel, SumKernel):
                requirement = "be no sum, as each term of a sum is a separate function"
                raise wrong_type(name, requirement, format_value(kernel))
        factors = [factor for kernel in self._operands() for factor in kernel._terms()[0]]
        for factor in factors:
            if getattr(factor, "local_linear", None):
                requirement = "be None or False in a product"
                raise wrong_value("local_linear", requirement, factor.local_linear)
        return [factors]


@dataclass(repr=False, eq=False)
class SumKernel(_Pair):
    """The sum of two smooth functions, each with its own kernel.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels. Each function in turn is fitted to the residuals of all others. Put a slow
        trend before a season, and a season before local changes.
    """

    def _terms(self) -> list[list[Any]]:
        return [term for kernel in self._operands() for term in kernel._terms()]


def wrong_kernel(name: str, requirement: str, actual: Any) -> Exception:
    """Return the error for an object that is no kernel, such as one of a Gaussian process."""
    if type(actual).__module__.startswith("sklearn.gaussian_process"):
        hint = (
            " Kernels of Gaussian processes differ: use GaussianKernel for RBF, MaternKernel for "
            "Matern, PeriodicKernel for ExpSineSquared."
        )
        return wrong_type(name, requirement, type_name(actual), hint)
    if isinstance(actual, str):
        hint = " Pass an object, such as MaternKernel()."
        return wrong_value(name, requirement, format_value(actual), hint)
    return wrong_type(name, requirement, format_value(actual))


def _wall_clock(days: HostArray, zone: tzinfo | None) -> HostArray:
    """Return days since 1970-01-01 UTC as times on the clock of a zone."""
    utc: HostArray = np.round(days * 86400e6).astype("datetime64[us]")
    if zone is None:
        return utc
    steps, step_index = np.unique(days * 86400 // _CLOCK_STEP_SECONDS, return_inverse=True)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    times = (epoch + timedelta(seconds=_CLOCK_STEP_SECONDS * step) for step in steps)
    utc += utc_offsets("X", times, zone)[step_index].reshape(days.shape)
    return utc


def period_of(name: str, period: Any, *, is_time: bool) -> float:
    """Return a period as a number, in days for times, where a bare number is ambiguous."""
    if is_time and is_real_number(period):
        requirement = 'be a span such as "24h" or pd.Timedelta("24h") for times, which have no unit'
        hint = f' Pass "{period:g}D" if the number counts days.'
        raise wrong_type(name, requirement, format_value(period), hint)
    return scale_of(name, period, is_time=is_time, is_period=True)  # type: ignore[no-any-return]


def scale_of(name: str, scale: Any, *, is_time: bool, is_period: bool = False) -> Any:
    """Return a length as a number, in days for times; "loo" unchanged, unless it is a period."""
    if isinstance(scale, str) and scale == LOO and not is_period:
        return scale
    span = duration_of(scale, by_calendar=is_period) if is_time else scale
    if is_time and is_timedelta(span):
        return length_of(name, span) / DAY
    if not isinstance(span, str):
        return checks.positive_number(name, span)
    if is_time and is_period and span in MEAN_DAYS:
        return MEAN_DAYS[span]
    requirement = "be a positive number" + ("" if is_period else ' or "loo"')
    requirement += ', or a span such as "30D" or "12h"' if is_time else ""
    requirement += f", or {', '.join(map(repr, MEAN_DAYS))}" * (is_time and is_period)
    hint = " Spans are for columns of times." * (not is_time)
    if hint and not is_period:
        hint += ' For several columns, pass a width for each, such as ["30D", "loo"].'
    raise wrong_value(name, requirement, format_value(scale), hint)
