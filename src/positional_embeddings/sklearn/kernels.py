"""Kernels of a smoother: encodings whose distances say how much one sample weighs for another.

A kernel encodes a sample x as a vector u(x), and gives a sample y the weight
exp(-|u(x) - u(y)|**2 / 2) at x. Up to a factor this is the softmax of scalar products that
attention computes. The vectors of a product are those of its factors, one after the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import degrees, hypot, pi, radians
from typing import Any

from sklearn.base import BaseEstimator

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Namespace,
    default_integer,
    device_of,
    is_real_number,
)
from positional_embeddings.coordinates.cyclic import cyclic_encoding
from positional_embeddings.coordinates.sphere import spherical_encoding

LOO = "loo"

# Where a search for the width of a periodic kernel begins, in periods.
_PART_OF_PERIOD = 0.05


class Kernel(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of kernels: ``a * b`` multiplies their weights, ``a + b`` adds smooth functions."""

    def __mul__(self, other: Any) -> Any:
        return ProductKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return SumKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def _terms(self) -> list["Kernel"]:
        """Return the kernels that are added."""
        return [self]

    @abstractmethod
    def _factors(self) -> list["Factor"]:
        """Return the kernels that are multiplied."""

    def _check(self, n_columns: int) -> None:
        """Check the parameters for samples of so many columns."""
        for factor in self._factors():
            factor._check(n_columns)

    def _encode(self, x: Any, xp: Namespace) -> Any:
        """Return the vectors u, (features, samples), of samples (columns, samples)."""
        parts = [factor._encode(x, xp) for factor in self._factors()]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


class Factor(Kernel):
    """Base of kernels with a length scale, on some columns."""

    length_scale: Any
    columns: Any

    def _factors(self) -> list["Factor"]:
        return [self]

    def _check(self, n_columns: int) -> None:
        own = self._own_columns(n_columns)
        for i, column in enumerate(own):
            if not 0 <= column < n_columns:
                raise wrong_value(f"columns[{i}]", f"be 0 to {n_columns - 1}", column)
        self._check_scale(len(own))

    def _check_scale(self, n_columns: int) -> None:  # noqa: ARG002 - one for all of them
        if isinstance(self.length_scale, str):
            if self.length_scale != LOO:
                what = 'be a positive number or "loo"'
                raise wrong_value("length_scale", what, shown(self.length_scale))
        else:
            checks.positive_number("length_scale", self.length_scale)

    def _own_columns(self, n_columns: int) -> list[int]:
        if self.columns is None:
            return list(range(n_columns))
        if not isinstance(self.columns, list | tuple) or not self.columns:
            raise wrong_type("columns", "be a list of integers or None", shown(self.columns))
        return checks.integers("columns", self.columns)

    def _select(self, x: Any, xp: Namespace) -> Any:
        """Return the columns of samples that it looks at."""
        if self.columns is None:
            return x
        on = device_of(x)
        own = xp.asarray(self._own_columns(x.shape[0]), dtype=default_integer(xp, on), device=on)
        return xp.take(x, own, axis=0)

    @abstractmethod
    def _first_scale(self, x: Any, weight: Any, xp: Namespace) -> Any:
        """Return the length scale that a search begins with."""


class GaussianKernel(Factor):
    """Weights that fall with the distance: exp(-|x - y|**2 / (2 * length_scale**2)).

    Parameters
    ----------
    length_scale : float, sequence of float or "loo", default "loo"
        Distance at which a weight is exp(-1/2), in the unit of the columns: one number, or one
        for each column. The regressor chooses "loo" by the leave-one-out error.
    columns : sequence of int, optional
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

    def __init__(
        self,
        length_scale: float | Sequence[float] | str = LOO,
        *,
        columns: Sequence[int] | None = None,
        local_linear: bool | None = None,
    ) -> None:
        self.length_scale = length_scale
        self.columns = columns
        self.local_linear = local_linear

    def _check(self, n_columns: int) -> None:
        super()._check(n_columns)
        checks.optional_boolean("local_linear", self.local_linear)

    def _check_scale(self, n_columns: int) -> None:
        if isinstance(self.length_scale, str) or is_real_number(self.length_scale):
            super()._check_scale(n_columns)
            return
        try:
            scales = list(self.length_scale)
        except TypeError:
            what = 'be a positive number, one for each column, or "loo"'
            raise wrong_type("length_scale", what, shown(self.length_scale)) from None
        for i, scale in enumerate(scales):
            checks.positive_number(f"length_scale[{i}]", scale)
        if len(scales) != n_columns:
            what = f"be one number, or {n_columns}, one for each column"
            raise wrong_value("length_scale", what, len(scales))

    def _first_scale(self, x: Any, weight: Any, xp: Namespace) -> list[float]:
        """Return Scott's rule of thumb for each column."""
        x = self._select(x, xp)
        return [scale or 1.0 for scale in _rule_of_thumb(x, weight, x.shape[0], xp)]

    def _encode(self, x: Any, xp: Namespace) -> Any:
        x = self._select(x, xp)
        if is_real_number(self.length_scale):
            return x / self.length_scale
        scales = [float(scale) for scale in self.length_scale]
        return x / xp.asarray(scales, dtype=x.dtype, device=device_of(x))[:, None]


def _rule_of_thumb(x: Any, weight: Any, dimensions: int, xp: Namespace) -> list[float]:
    """Return Scott's length scales: standard deviations, smaller with more samples."""
    total = xp.sum(weight)
    mean = xp.sum(weight * x, axis=1, keepdims=True) / total
    variances = xp.sum(weight * (x - mean) ** 2, axis=1) / total
    # Weights below 1 are no repetitions, and may have any unit.
    count = float(xp.sum(xp.where(weight < 1, 1.0, weight)))
    factor = count ** (-1 / (dimensions + 4))
    return [factor * float(variances[i]) ** 0.5 for i in range(x.shape[0])]


class PeriodicKernel(Factor):
    """Weights that come back after each period: exp((cos(a) - 1) / b**2).

    Here a is the distance and b the length scale, both times 2 pi / period. Within a period it
    is a `GaussianKernel` of this length scale, nearly, if that is a small part of the period.

    Parameters
    ----------
    period : float
        Period, positive, in the unit of the columns.
    length_scale : float or "loo", default "loo"
        Width of the kernel in the unit of the columns.
    columns : sequence of int, optional
        Columns of the samples that it looks at; all if None.
    """

    def __init__(
        self,
        period: float,
        length_scale: float | str = LOO,
        *,
        columns: Sequence[int] | None = None,
    ) -> None:
        self.period = period
        self.length_scale = length_scale
        self.columns = columns

    def _check(self, n_columns: int) -> None:
        checks.positive_number("period", self.period)
        super()._check(n_columns)

    def _first_scale(self, x: Any, weight: Any, xp: Namespace) -> float:  # noqa: ARG002
        return _PART_OF_PERIOD * self.period

    def _encode(self, x: Any, xp: Namespace) -> Any:
        x = self._select(x, xp)
        circle = cyclic_encoding(x, self.period) / (2 * pi * self.length_scale / self.period)
        return xp.reshape(circle, (2 * x.shape[0], x.shape[1]))


class SphereKernel(Factor):
    """Weights that fall with the angle between two places: exp((cos(a) - 1) / length_scale**2).

    Parameters
    ----------
    length_scale : float or "loo", default "loo"
        Width of the kernel in degrees of a great circle (1 degree is 111 km on Earth); in the
        formula above it is in radians.
    columns : sequence of two int, optional
        Columns of latitude and longitude, in degrees; the first two if None.
    """

    def __init__(
        self, length_scale: float | str = LOO, *, columns: Sequence[int] | None = None
    ) -> None:
        self.length_scale = length_scale
        self.columns = columns

    def _check(self, n_columns: int) -> None:
        super()._check(n_columns)
        if self.columns is not None and len(self.columns) != 2:
            raise wrong_value("columns", "be those of latitude and longitude", self.columns)

    def _own_columns(self, n_columns: int) -> list[int]:
        return [0, 1] if self.columns is None else super()._own_columns(n_columns)

    def _first_scale(self, x: Any, weight: Any, xp: Namespace) -> float:
        """Return Scott's rule of thumb for places in a plane."""
        scales = _rule_of_thumb(self._places(x), weight, 2, xp)
        return degrees(hypot(*scales) / 2**0.5) or 1.0

    def _encode(self, x: Any, xp: Namespace) -> Any:  # noqa: ARG002
        return self._places(x) / radians(self.length_scale)

    def _places(self, x: Any) -> Any:
        """Return places on the unit sphere, (3, samples)."""
        latitude, longitude = (x[column, :] for column in self._own_columns(x.shape[0]))
        # Harmonics of degree 1 are the three coordinates.
        return spherical_encoding(latitude, longitude, 1)[1:, :] * (4 * pi / 3) ** 0.5


class _Pair(Kernel):
    """Base of kernels that are made of two."""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1 = k1
        self.k2 = k2

    def _parts(self) -> list[Kernel]:
        for name, part in (("k1", self.k1), ("k2", self.k2)):
            if not isinstance(part, Kernel):
                raise wrong_type(name, "be a kernel", shown(part))
        return [self.k1, self.k2]


class ProductKernel(_Pair):
    """The product of two kernels: a sample weighs much where it does for both.

    Parameters
    ----------
    k1, k2 : Kernel
        The factors, none of them a sum.
    """

    def _factors(self) -> list[Factor]:
        for name, part in zip(("k1", "k2"), self._parts(), strict=True):
            if isinstance(part, SumKernel):
                what = "be no sum, whose terms are smoothed one after the other"
                raise wrong_type(name, what, shown(part))
        return [factor for part in self._parts() for factor in part._factors()]

    def _check(self, n_columns: int) -> None:
        super()._check(n_columns)
        for factor in self._factors():
            if getattr(factor, "local_linear", None):
                raise wrong_value(
                    "local_linear", "be None or False in a product", factor.local_linear
                )


class SumKernel(_Pair):
    """The sum of two smooth functions, each with a kernel of its own.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels. Each function is smoothed from what the others leave over, the first one
        first: a slow trend before a season, a season before what is local.
    """

    def _terms(self) -> list[Kernel]:
        return [term for part in self._parts() for term in part._terms()]

    def _factors(self) -> list[Factor]:
        return [factor for term in self._terms() for factor in term._factors()]

    def _check(self, n_columns: int) -> None:
        for term in self._terms():
            term._check(n_columns)
