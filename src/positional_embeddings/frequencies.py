"""Frequencies, and exact angles of positions.

Frequency i of `dim` features is ``base ** (-2 i / dim)``, in radians per position
(Vaswani et al. 2017, section 3.5; Su et al. 2021, equation 15).
"""

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from math import pi
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._namespace import (
    ArrayT,
    Device,
    Dtype,
    HostArray,
    Namespace,
    default_integer,
    device_of,
    float_dtype,
    host,
    namespace_or_numpy,
    widest_float,
)

# A frequency is kept with far more digits than a float64 has: at position 2**31
# the error of a rounded frequency is 2**31 times as large.
DIGITS = Context(prec=60)
TWO_PI = Decimal("6.283185307179586476925286766559005768394338798750211641949889")


def inverse_frequencies(
    dim: int,
    base: float = 10_000,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the frequencies of sinusoidal and rotary encodings.

    Parameters
    ----------
    dim : int
        Number of features, 1 or more. An odd number has a last frequency of its own.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of the result, float64 where the device has it.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (ceil(dim / 2),)
        :math:`\theta_i = \mathrm{base}^{-2i/\mathrm{dim}}`, radians per position,
        correctly rounded.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `dim` or `base` is not positive.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> inverse_frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    dim = _checks.positive_integer("dim", dim)
    base = _checks.positive_number("base", base)
    xp = namespace_or_numpy(xp)
    dtype = float_dtype(dtype, widest_float(xp, device), xp, device)
    rounded = [float(frequency) for frequency in _radians(dim, base)]
    return xp.asarray(rounded, dtype=dtype, device=device)


def compute_frequencies(
    dim: int,
    seq_len: int,
    base: float = 10_000,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the angles of the positions 0 to `seq_len` - 1.

    Parameters
    ----------
    dim : int
        Number of features, 1 or more.
    seq_len : int
        Number of positions, 1 or more.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of the result, float64 where the device has it.
        Angles are computed in float64 and rounded once.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (ceil(dim / 2), seq_len)
        :math:`m\,\theta_i`, radians, with the frequency first and the position second.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `dim`, `seq_len` or `base` is not positive.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> compute_frequencies(4, 3)
    array([[0.  , 1.  , 2.  ],
           [0.  , 0.01, 0.02]])
    """
    seq_len = _checks.positive_integer("seq_len", seq_len)
    frequencies = inverse_frequencies(dim, base)
    xp = namespace_or_numpy(xp)
    dtype = float_dtype(dtype, widest_float(xp, device), xp, device)
    angles = frequencies[:, None] * host.arange(seq_len, dtype=host.float64)
    return xp.asarray(angles, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _radians(dim: int, base: float) -> tuple[Decimal, ...]:
    with localcontext(DIGITS):
        return _powers(base, [Decimal(2 * i) / dim for i in range((dim + 1) // 2)])


@lru_cache(maxsize=64)
def turns(dim: int, base: float, scale: float | Decimal = 1.0) -> tuple[Decimal, ...]:
    """Return the frequencies times `scale` in turns per position, with 60 digits."""
    with localcontext(DIGITS):
        factor = Decimal(scale) / TWO_PI
        return tuple(frequency * factor for frequency in _radians(dim, base))


@lru_cache(maxsize=64)
def turns_to_endpoint(count: int, base: float, scale: float | Decimal = 1.0) -> tuple[Decimal, ...]:
    """Return `count` frequencies from 1 to ``1 / base``, both included, as `turns` does."""
    with localcontext(DIGITS):
        factor = Decimal(scale) / TWO_PI
        exponents = [Decimal(i) / max(count - 1, 1) for i in range(count)]
        return tuple(frequency * factor for frequency in _powers(base, exponents))


def _powers(base: float, exponents: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Return base to the power of each negated exponent."""
    log_base = Decimal(base).ln()
    return tuple((-exponent * log_base).exp() for exponent in exponents)


def cos_sin_table(
    frequencies: Sequence[Decimal], seq_len: int, dtype: Dtype
) -> tuple[HostArray, HostArray]:
    """Return cosine and sine of the positions 0 to `seq_len` - 1 as NumPy arrays.

    `frequencies` are in turns per position; both tables are (frequency, position).
    """
    cos = host.empty((len(frequencies), seq_len), dtype=dtype)
    sin = host.empty((len(frequencies), seq_len), dtype=dtype)
    block = 2048  # keeps the temporaries of a long table in the cache
    for start in range(0, seq_len, block):
        stop = min(start + block, seq_len)
        positions = host.arange(start, stop, dtype=host.float64)
        cos[:, start:stop], sin[:, start:stop] = cos_sin(positions, frequencies, dtype, host)
    return cos, sin


def cos_sin(
    positions: ArrayT, frequencies: Sequence[Decimal], dtype: Dtype, xp: Namespace
) -> tuple[ArrayT, ArrayT]:
    """Return cosine and sine of integer or real positions, each (frequency, *positions.shape).

    `frequencies` are in turns per position. Position times frequency is computed
    in exact parts and reduced to within an eighth of a turn before the one
    rounding that counts, so that the error does not grow with the position:
    integers are exact to 2**31 in magnitude, reals to their own rounding.
    """
    work = widest_float(xp, device_of(positions))
    eighths, quarter = _reduced_turns(positions, frequencies, work, xp)
    angle = (2 * pi) * eighths
    cos, sin = xp.cos(angle), xp.sin(angle)
    quadrant = quarter - 4 * xp.floor(quarter / 4)
    odd = (quadrant == 1) | (quadrant == 3)
    cos, sin = xp.where(odd, sin, cos), xp.where(odd, cos, sin)
    cos = xp.where((quadrant == 1) | (quadrant == 2), -cos, cos)
    sin = xp.where(quadrant >= 2, -sin, sin)
    return xp.astype(cos, dtype, copy=False), xp.astype(sin, dtype, copy=False)


def _reduced_turns(
    positions: Any, frequencies: Sequence[Decimal], work: Dtype, xp: Namespace
) -> tuple[Any, Any]:
    """Return the turns as an offset within an eighth of the nearest quarter, and that quarter.

    Frequencies on a grid of 2**-21 times positions of 31 bits are products of 52
    bits, exact in float64; a grid of 2**-12 and positions cut into limbs of 11
    bits do the same in float32. Whole turns are dropped as soon as they come.
    """
    on = device_of(positions)
    if work == xp.float64:
        limbs, grid = [(xp.astype(positions, work, copy=False), frequencies)], 2**21
    else:
        limbs, grid = _limbs(positions, frequencies, xp), 2**12
    coarse: Any = 0.0
    medium: Any = 0.0
    fine: Any = 0.0
    for limb, limb_frequencies in limbs:
        table = xp.asarray(_split(limb_frequencies, grid), dtype=work, device=on)
        table = table[(slice(None), slice(None), *(None,) * positions.ndim)]
        coarse = coarse + _without_whole(limb * table[0, ...], xp)
        medium = medium + _without_whole(limb * table[1, ...], xp)
        fine = fine + limb * table[2, ...]
    coarse = _without_whole(coarse, xp)
    quarter = xp.round(4 * (coarse + medium))
    return ((coarse - quarter / 4) + medium) + fine, quarter


def _limbs(
    positions: Any, frequencies: Sequence[Decimal], xp: Namespace
) -> list[tuple[Any, Sequence[Decimal]]]:
    """Cut positions into float32 parts of few bits, each with the frequencies of its unit."""
    limbs = []
    if xp.isdtype(positions.dtype, "integral"):
        whole = xp.astype(positions, default_integer(xp, device_of(positions)), copy=False)
    else:
        positions = xp.astype(positions, xp.float32, copy=False)
        whole = xp.floor(positions)
        limbs.append((positions - whole, frequencies))
    for weight in (1, 2**11):
        rest = xp.floor_divide(whole, 2**11)
        low = xp.astype(whole - rest * 2**11, xp.float32)
        limbs.append((low, _per_unit(frequencies, weight)))
        whole = rest
    limbs.append((xp.astype(whole, xp.float32), _per_unit(frequencies, 2**22)))
    return limbs


def _per_unit(frequencies: Sequence[Decimal], weight: int) -> list[Decimal]:
    """Return the turns of a step of `weight` whole positions, without the whole turns."""
    with localcontext(DIGITS):
        return [f * weight - round(f * weight) for f in frequencies]


def _without_whole(turns: Any, xp: Namespace) -> Any:
    return turns - xp.round(turns)


def _split(frequencies: Sequence[Decimal], grid: int) -> list[list[float]]:
    """Split frequencies into multiples of 1 / grid, of 1 / grid**2, and what is left."""
    with localcontext(DIGITS):
        coarse = [round(f * grid) for f in frequencies]
        rests = [f * grid - c for f, c in zip(frequencies, coarse, strict=True)]
        medium = [round(rest * grid) for rest in rests]
        fine = [float(rest * grid - m) / grid**2 for rest, m in zip(rests, medium, strict=True)]
    return [[c / grid for c in coarse], [m / grid**2 for m in medium], fine]
