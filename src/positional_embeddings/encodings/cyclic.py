"""Cyclic features: harmonics of periods, with exact wrapping."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import frexp, ldexp

from positional_embeddings.angles.cos_sin import cos_sin_of_phase, grid_and_bits, integer_limbs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.cuda import OPTIONS, cuda_text
from positional_embeddings.arrays.kept import host_constant
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray, Namespace, np
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
) -> Array:
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
    space, dtype = features.real_coordinates("x", x, dtype)
    periods = features.one_or_each("period", period, features.wavelength)
    counts = harmonic_counts(harmonics, len(periods))
    count = checks.feature_count("2 * sum(harmonics)", 2 * sum(counts))
    waves = list(zip(periods, counts, strict=True))

    def encode(x: Array, space: Space) -> Array:
        space = space.computing_in(space.widest)
        if space.compiles_kernels:
            return _by_kernel(x, waves, dtype, space)

        def sin_cos(x: Array) -> tuple[Array, Array]:
            work, parts = dtypes.compute_dtype(dtype, space.xp), _exact_parts(x, space)
            both = [_harmonics(parts, *wave, work, space) for wave in waves]
            if len(waves) == 1:
                return both[0]
            sin, cos = (space.xp.concat(blocks, axis=0) for blocks in zip(*both, strict=True))
            return sin, cos

        return features.arranged(x, sin_cos, count // 2, dtype, space)

    return features.by_chunks("cyclic_encoding", encode, [x], count, dtype, space)


def harmonic_counts(harmonics: int | Sequence[int] | HostArray, periods: int) -> list[int]:
    """Return the number of harmonics of each period, after checking it."""
    check = partial(checks.positive_integer, most=_MOST_HARMONICS)
    return features.one_or_each("harmonics", harmonics, check, periods, "period")


def _exact_parts(x: Array, space: Space) -> list[Array]:
    """Return coordinates as sums of floats: two or three of an integer, NaN for an infinity."""
    if dtypes.is_dtype(x.dtype, "integral", space.xp):
        bits = grid_and_bits(space)[1]
        return [limb * 2.0**exponent for limb, exponent in integer_limbs(x, bits, space)]
    real = space.astype(x, space.dtype)
    return [space.xp.where(space.xp.isfinite(real), real, float("nan"))]


def _harmonics(
    parts: list[Array], period: float, count: int, work: Dtype, space: Space
) -> tuple[Array, Array]:
    """Return sine and cosine of the harmonics of a period, each (harmonic, *shape).

    Remainders of the parts are multiples of what the last bit of the period stands for, and so is
    their sum: the coordinate is reduced to within half a period exactly. A harmonic h of what is
    left, r, is at ``h * r - n * period / 4`` from the nearest quarter of the period. Both products
    are sums of two parts of few bits, r = a + b and period / 4 = upper + lower, so that what
    remains of them is exact.
    """
    xp = space.xp
    period, unit, upper, lower = _period_parts(period, space.dtype == xp.float64)
    reduced, *more = (
        _centred(space.remainder(part[None, ...], period), period, xp) for part in parts
    )
    for remainder in more:
        reduced = _centred(reduced + remainder, period, xp)
    harmonic = xp.arange(1, count + 1, dtype=space.dtype, device=space.device)
    harmonic = harmonic[(..., *(None,) * (reduced.ndim - 1))]
    a = xp.round(reduced / unit) * unit
    b = reduced - a
    quarters = xp.round(harmonic * reduced / (period / 4))
    rest = (harmonic * a - quarters * upper) + (harmonic * b - quarters * lower)
    cos, sin = cos_sin_of_phase(rest / period, 0.0, quarters, work, space)
    return sin + 0.0, cos + 0.0  # no negative zeros


def _centred(distance: Array, period: float, xp: Namespace) -> Array:
    """Subtract a period beyond half of one, which is exact (Sterbenz)."""
    distance = xp.where(distance > period / 2, distance - period, distance)
    return xp.where(distance < -period / 2, distance + period, distance)


@host_constant
def _period_parts(period: float, is_double: bool) -> list[float]:  # noqa: FBT001
    """Return a period, the unit of the first part of a coordinate, and both parts of a quarter."""
    dtype, digits = (np.float64, 53) if is_double else (np.float32, 24)
    period = float(dtype(period))
    fraction, exponent = frexp(period)
    bits = digits - _BITS_OF_QUARTERS
    quarter, upper = period / 4, ldexp(round(ldexp(fraction, bits)), exponent - bits) / 4
    return [period, ldexp(1.0, exponent - digits // 2), upper, quarter - upper]


def _by_kernel(x: Array, waves: Sequence[tuple[float, int]], dtype: Dtype, space: Space) -> Array:
    """Return the features in one launch for each period."""
    xp, size = space.xp, x.size
    integral = dtypes.is_dtype(x.dtype, "integral", xp)
    flat = xp.reshape(x if integral else space.astype(x, xp.float64), (1, size))
    rows = 2 * sum(count for _, count in waves)
    encoding = xp.empty((rows, size), dtype=dtype, device=space.device)
    start = 0
    for period, count in waves:
        parts, block = _period_parts(period, True), encoding[start : start + 2 * count, :]  # noqa: FBT003
        kernel_of(xp)(flat, *parts, size, block[1::2, :], block[::2, :])
        start += 2 * count
    return xp.reshape(encoding, (rows, *x.shape))


@cache
def kernel_of(xp: Namespace) -> Callable[..., None]:
    """Return the kernel of integers of any width, or of float64."""
    kernel: Callable[..., None] = xp.ElementwiseKernel(
        "X x, float64 period, float64 unit, float64 upper, float64 lower, int64 size",
        "T cosine, T sine",
        "cos_sin_of_harmonic(x, period, unit, upper, lower, i / size + 1, cosine, sine)",
        "positional_embeddings_cyclic",
        preamble=cuda_text("angles/cos_sin.cu", "encodings/cyclic.cu"),
        options=OPTIONS,
    )
    return kernel
