"""Cyclic features: harmonics of periods, with exact wrapping."""

from collections.abc import Sequence
from functools import partial
from math import frexp, ldexp
from typing import Any

from positional_embeddings.angles.cos_sin import cos_sin_of_phase, grid_and_bits, integer_limbs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.kept import host_constant
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.encodings import features

_MOST_HARMONICS = 2**10
# Half a period holds up to 2**11 quarters of the cycles of a harmonic: numbers of 12 bits.
_BITS_OF_QUARTERS = 12


def cyclic_encoding(
    x: AnyArray,
    /,
    period: float | Sequence[float] | HostArray,
    harmonics: int | Sequence[int] | HostArray = 1,
    *,
    dtype: Dtype | None = None,
) -> Any:
    r"""Return sines and cosines of the harmonics of one period or several.

    Parameters
    ----------
    x : array
        Integer or real coordinates of any shape, sign, size and order, such as times or
        longitudes. Those that are not finite give NaN.
    period : float, or list, tuple or 1-D NumPy array of floats
        Periods in the unit of `x`, from 2**-64 to 2**100.
    harmonics : int, or list, tuple or 1-D NumPy array of ints, default 1
        Number of harmonics of every period, or of each, 1 to 1024.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of a real `x`,
        or the library's default for integers.

    Returns
    -------
    array, shape (2 * sum of harmonics, *x.shape)
        :math:`\sin(2\pi h x/p)` and :math:`\cos(2\pi h x/p)` for each period :math:`p` and
        :math:`h = 1, 2, \ldots` up to its harmonics, in the library and on the device of `x`.

    Raises
    ------
    TypeError
        If `x` is not an array of numbers, or `period` or `harmonics` are of the wrong kind.
    ValueError
        If a period or a number of harmonics is out of range, or there is not one number of
        harmonics for each period.

    See Also
    --------
    fourier_encoding : Sines and cosines at any wavelengths.

    Notes
    -----
    `x` is first reduced to within half a period of 0, which is exact: what differs by whole
    periods, as the real numbers that the floats are, has the same features to the last bit,
    and at a quarter of a harmonic's period they are 0, 1 or -1. This holds for all reals, and
    for integers of 64 bits with periods of up to 2**53.

    All is computed in float64, also for an `x` of float32. On a device without float64 the
    periods are rounded to float32, and all this holds for the rounded ones: 365.25 and whole
    numbers up to 2**24 stay what they are.

    References
    ----------
    Hyndman and Athanasopoulos (2021), Forecasting: Principles and Practice, 3rd edition,
    section 7.4 (Fourier series); Sterbenz (1974), Floating-Point Computation, theorem 4.3.1.

    Examples
    --------
    >>> import numpy as np
    >>> cyclic_encoding(np.asarray([-180, -90, 0, 90, 180]), 360)
    array([[ 0., -1.,  0.,  1.,  0.],
           [-1.,  0.,  1.,  0., -1.]])

    Two harmonics of the day, and one of the year, of times in days:

    >>> days = np.asarray([0.75, 366.0, 366.75])
    >>> features = cyclic_encoding(days, [1, 365.25], [2, 1])
    >>> features.shape
    (6, 3)
    >>> np.array_equal(features[:4, 0], features[:4, 2])  # the same time of day
    True
    >>> np.array_equal(features[4:, 0], features[4:, 1])  # the same time of year
    True
    """
    space = space_of(x=x)
    checks.real("x", x, space.xp)
    periods = features.one_or_each("period", period, features.wavelength)
    counts = harmonic_counts(harmonics, len(periods))
    count = checks.feature_count("2 * sum(harmonics)", 2 * sum(counts))
    dtype = checks.feature_dtype(x, dtype, space)

    def encode(x: Array, space: Space) -> Any:
        work, space = dtypes.compute_dtype(dtype, space.xp), space.computing_in(space.widest)
        xp = space.xp
        parts = _period_parts(space.dtype == xp.float64, *periods)
        at_period = [i for i, n in enumerate(counts) for _ in range(n)]

        def by_row(numbers: list[float], ndim: int) -> Any:
            row = xp.asarray(numbers, dtype=space.dtype, device=space.device)
            return row[(..., *(None,) * ndim)]

        def at(part: Any) -> tuple[Any, Any]:
            """Return cosine and sine of every harmonic of every period, (harmonic, *part.shape).

            A harmonic h of a reduced coordinate r is at ``h * r - n * period / 4`` from the nearest
            quarter of the period. Both products are sums of two parts of few bits, r = a + b and
            period / 4 = upper + lower, so that what remains of them is exact.
            """
            reduced = _within_half(part, by_row(parts[0], part.ndim), space)
            if len(periods) > 1:
                index = xp.asarray(at_period, dtype=space.integer, device=space.device)
                reduced = xp.take(reduced, index, axis=0)
            harmonic = by_row([float(h) for n in counts for h in range(1, n + 1)], part.ndim)
            rows = ([row[i] for i in at_period] for row in parts)
            period, unit, upper, lower = (by_row(row, part.ndim) for row in rows)
            a = xp.round(reduced / unit) * unit
            b = reduced - a
            quarters = xp.round(harmonic * reduced / (period / 4))
            rest = (harmonic * a - quarters * upper) + (harmonic * b - quarters * lower)
            cos, sin = cos_sin_of_phase(rest / period, 0.0, quarters, work, space)
            return cos + 0.0, sin + 0.0  # no negative zeros

        return features.encode(x, at, count // 2, dtype, space)

    return features.by_chunks("cyclic_encoding", encode, [x], count, dtype, space)


def harmonic_counts(harmonics: Any, periods: int) -> list[int]:
    """Return the number of harmonics of each period, after checking it."""
    check = partial(checks.positive_integer, most=_MOST_HARMONICS)
    return features.one_or_each("harmonics", harmonics, check, periods, "period")


def _within_half(x: Array, period: Any, space: Space) -> Any:
    """Return the distance of `x` from the nearest multiple of each period, exactly.

    Integers are sums of two floats or three, whose remainders are multiples of what the last
    bit of a period stands for, and so is their sum.
    """
    xp = space.xp
    if dtypes.is_dtype(x.dtype, "integral", xp):
        bits = grid_and_bits(space)[1]
        parts = [limb * 2.0**exponent for limb, exponent in integer_limbs(x, bits, space)]
    else:
        real = space.astype(x, space.dtype)
        parts = [xp.where(xp.isfinite(real), real, float("nan"))]

    def centred(distance: Any) -> Any:
        """Subtract a period beyond half of one, which is exact (Sterbenz)."""
        half = period / 2
        distance = xp.where(distance > half, distance - period, distance)
        return xp.where(distance < -half, distance + period, distance)

    first, *more = (centred(space.remainder(part[None, ...], period)) for part in parts)
    for remainder in more:
        first = centred(first + remainder)
    return first


@host_constant
def _period_parts(is_double: bool, *periods: float) -> list[list[float]]:  # noqa: FBT001
    """Return periods, units of the first part of a coordinate, and both parts of a quarter."""
    dtype, digits = (np.float64, 53) if is_double else (np.float32, 24)
    parts = []
    for number in periods:
        period = float(dtype(number))
        fraction, exponent = frexp(period)
        bits = digits - _BITS_OF_QUARTERS
        quarter, upper = period / 4, ldexp(round(ldexp(fraction, bits)), exponent - bits) / 4
        parts.append([period, ldexp(1.0, exponent - digits // 2), upper, quarter - upper])
    return [list(row) for row in zip(*parts, strict=True)]
