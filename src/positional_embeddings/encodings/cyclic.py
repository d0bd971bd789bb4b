"""Cyclic features: harmonics of periods."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import partial

from positional_embeddings.angles.frequencies import DIGITS
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray
from positional_embeddings.encodings import features

_MAX_HARMONICS = 2**10


def cyclic_encoding(
    x: AnyArray,
    /,
    period: float | Sequence[float] | HostArray,
    harmonics: int | Sequence[int] | HostArray = 1,
    *,
    dtype: Dtype | None = None,
) -> Array:
    r"""Return sines and cosines of the harmonics of one or more periods.

    Parameters
    ----------
    x : array
        Integer or real coordinates of any shape, sign and order, such as times or longitudes.
        Coordinates beyond 2**63, infinity and NaN give NaN.
    period : float, or list, tuple or 1-D NumPy array of floats
        Periods in the unit of `x`, from 2**-64 to 2**100.
    harmonics : int, or list, tuple or 1-D NumPy array of ints, default 1
        Number of harmonics of all periods, or of each, 1 to 1024.
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
        If a period or a number of harmonics is out of range, or the lengths of `period` and
        `harmonics` differ.

    See Also
    --------
    fourier_encoding : Sines and cosines at any wavelengths.

    Notes
    -----
    Phases are computed in exact parts in float64, also for an `x` of float32, and rounded once.
    The error of a feature is about one unit in the last place, for any magnitude of `x`. Floats
    that differ by an exact multiple of the period have the same features up to this error.

    References
    ----------
    Hyndman and Athanasopoulos (2021), Forecasting: Principles and Practice, 3rd edition,
    section 7.4 (Fourier series).

    Examples
    --------
    >>> import numpy as np
    >>> cyclic_encoding(np.asarray([-180, -90, 0, 90, 180]), 360)
    array([[ 0., -1.,  0.,  1.,  0.],
           [-1.,  0.,  1.,  0., -1.]])

    Two harmonics of the day and one of the year, for times in days:

    >>> days = np.asarray([0.75, 366.0, 366.75])
    >>> features = cyclic_encoding(days, [1, 365.25], [2, 1])
    >>> features.shape
    (6, 3)
    >>> np.allclose(features[:4, 0], features[:4, 2], rtol=0)  # the same time of day
    True
    >>> np.allclose(features[4:, 0], features[4:, 1], rtol=0)  # the same time of year
    True
    """
    backend, dtype = features.real_coordinates("x", x, dtype)
    periods = features.scalar_or_sequence("period", period, features.wavelength)
    counts = harmonic_counts(harmonics, len(periods))
    checks.feature_count("2 * sum(harmonics)", 2 * sum(counts))
    sinusoids = features.Sinusoids(_frequencies(tuple(periods), tuple(counts)))
    return sinusoids.encode("cyclic_encoding", x, dtype, backend)


def harmonic_counts(harmonics: int | Sequence[int] | HostArray, periods: int) -> list[int]:
    """Check the number of harmonics of each period and return it."""
    check = partial(checks.positive_integer, max_value=_MAX_HARMONICS)
    return features.scalar_or_sequence("harmonics", harmonics, check, periods, "period")


@cached_constant
def _frequencies(periods: tuple[float, ...], counts: tuple[int, ...]) -> str:
    """Return the digits of the frequencies of the harmonics, in cycles."""
    pairs = zip(periods, counts, strict=True)
    with localcontext(DIGITS):
        sinusoids = (h / Decimal(period) for period, count in pairs for h in range(1, count + 1))
        return " ".join(map(str, sinusoids))
