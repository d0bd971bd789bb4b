"""Exact cosines and sines of positions times frequencies."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from math import pi, prod
from typing import Any, Literal

from positional_embeddings._core.namespace import (
    ArrayT,
    Dtype,
    HostArray,
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    host,
    is_dtype,
    widest_float,
)
from positional_embeddings.angles.frequencies import TWO_PI, Frequencies

# Steps to a turn, of which an eighth on both sides is wanted, and some to spare.
_STEPS = 8192
_FARTHEST_STEP = _STEPS // 8 + 8

# Cuts a float64 in two, and 2 pi so cut; the lower part has what a float64 leaves over.
_SPLIT = 2.0**27 + 1
_TWO_PI_UPPER = round(2 * pi * 2**23) / 2**23
_TWO_PI_LOWER = float(TWO_PI - Decimal(_TWO_PI_UPPER))
_FARTHEST = 2.0**63  # the farthest real position, of which parts are exact

# What is left of a position is less than this part of a cycle of the highest frequency.
_SMALL = 2.0**-12
BLOCK = 256  # positions of a table that are made at a time, few enough for the cache


def unit_phasors(
    frequencies: Frequencies,
    start: int,
    stop: int,
    factor: float = 1.0,
    frequency_axis: Literal[0, -1] = 0,
) -> Iterator[HostArray]:
    """Yield cosine + i sine of the positions `start` to `stop` - 1, block after block.

    Each is a complex128 NumPy array (frequency, block), with one position beside the
    next frequency in memory. A position in a block is turned on by the whole block's
    angle: two short exact tables, and one multiplication for each number. `start` is a
    multiple of the block's length, so that a position's numbers are always the same.
    """

    def exact(positions: HostArray) -> HostArray:
        cos, sin = cos_sin(positions, frequencies, host.float64, host, frequency_axis=-1)
        return cos + 1j * sin

    dtype = host.int32 if stop < 2**31 else host.int64
    within = exact(host.arange(min(BLOCK, stop - start), dtype=dtype))
    blocks = factor * exact(host.arange(start, stop, BLOCK, dtype=dtype))
    for begin, whole in zip(range(start, stop, BLOCK), blocks, strict=True):
        phasors = whole * within[: stop - begin]
        yield phasors if frequency_axis == -1 else phasors.T


def cos_sin(
    positions: ArrayT,
    frequencies: Frequencies,
    dtype: Dtype,
    xp: Namespace,
    factor: float = 1.0,
    frequency_axis: Literal[0, -1] = 0,
) -> tuple[ArrayT, ArrayT]:
    """Return cosine and sine of integer or real positions, each (frequency, *positions.shape).

    With a `frequency_axis` of -1 they are (*positions.shape, frequency).

    Position times frequency is computed in exact parts and reduced to within an
    eighth of a turn before the one rounding that counts, so that the error does
    not grow with the position.
    """
    work = widest_float(xp, device_of(positions))
    near, rest, quarter = _reduce_phase(positions, frequencies, work, xp, frequency_axis)
    if work == xp.float64:
        cos, sin = _cos_sin_float64(near, rest, xp)
    else:
        cos, sin = _cos_sin_float32(near, rest, xp)
    quadrant = quarter - 4 * xp.floor(quarter / 4)
    odd = (quadrant == 1) | (quadrant == 3)
    cos, sin = xp.where(odd, sin, cos), xp.where(odd, cos, sin)
    cos = xp.where((quadrant == 1) | (quadrant == 2), -cos, cos)
    sin = xp.where(quadrant >= 2, -sin, sin)
    if factor != 1:
        cos, sin = cos * factor, sin * factor
    return xp.astype(cos, dtype, copy=False), xp.astype(sin, dtype, copy=False)


def _cos_sin_float64(near: Any, rest: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return cosine and sine of an eighth of a turn at most.

    What the angle's roundings leave over gives a correction: the sum's, that of 2 pi,
    and that of their product, whose factors are cut into halves of 26 bits for it.
    """
    turn = near + rest
    left = rest - (turn - near)
    angle = (2 * pi) * turn
    upper = turn * _SPLIT
    upper = upper - (upper - turn)
    lower = turn - upper
    product_left = ((_TWO_PI_UPPER * upper - angle) + _TWO_PI_UPPER * lower) + (
        _TWO_PI_LOWER * turn
    )
    left = product_left + (2 * pi) * left
    cos, sin = xp.cos(angle), xp.sin(angle)
    return cos - sin * left, sin + cos * left


def _cos_sin_float32(near: Any, rest: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return cosine and sine of an eighth of a turn at most, with one rounding that counts.

    Around the nearest of many steps, whose cosine and sine are known to twice the
    digits, what remains of the angle gives but a small correction.
    """
    on = device_of(near)
    step = xp.where(xp.isnan(near), xp.zeros_like(near), xp.round(near * _STEPS))
    index = xp.astype(step, default_integer(xp, on)) + _FARTHEST_STEP
    flat = xp.reshape(index, (prod(near.shape),))
    cos, cos_rest, sin, sin_rest = (
        xp.reshape(xp.take(xp.asarray(row, dtype=near.dtype, device=on), flat), near.shape)
        for row in _steps()
    )
    angle = (2 * pi) * ((near - step / _STEPS) + rest)
    rise, fall = angle - angle**3 / 6, angle**2 / 2
    return (
        cos + (cos_rest - (cos * fall + sin * rise)),
        sin + (sin_rest + (cos * rise - sin * fall)),
    )


@cache
def _steps() -> tuple[HostArray, ...]:
    """Return cosine and sine of the steps, each as a float32 and what it leaves over."""
    steps = host.arange(-_FARTHEST_STEP, _FARTHEST_STEP + 1, dtype=host.float64)
    rows = []
    for exact in (host.cos(2 * pi * steps / _STEPS), host.sin(2 * pi * steps / _STEPS)):
        rounded = exact.astype(host.float32)
        rows += [rounded, (exact - rounded).astype(host.float32)]
    return tuple(rows)


def _reduce_phase(
    positions: Any, frequencies: Frequencies, work: Dtype, xp: Namespace, frequency_axis: int
) -> tuple[Any, Any, Any]:
    """Return the turns as an offset within an eighth of the nearest quarter, and that quarter.

    The offset comes in two parts, one exact and one small. Frequencies on a grid of
    2**-21 times limbs of 31 bits are products of 52 bits, exact in float64; a grid of
    2**-12 and limbs of 11 bits do the same in float32. Whole turns are dropped as soon
    as they come.
    """
    grid, bits = (2**21, 31) if work == xp.float64 else (2**12, 11)
    first_axis = frequency_axis == 0
    others = (None,) * positions.ndim
    beside_positions = (slice(None), *others) if first_axis else (*others, slice(None))

    def by_frequency(rows: Sequence[Sequence[float]]) -> list[Any]:
        on = device_of(positions)
        return [xp.asarray(row, dtype=work, device=on)[beside_positions] for row in rows]

    beside_frequencies = (None, ...) if first_axis else (..., None)
    limbs, rest = _limbs(positions, frequencies.highest(), bits, work, xp)
    coarse: Any = 0.0
    medium: Any = 0.0
    fine: Any = 0.0
    for numbers, exponent in limbs:
        limb = numbers[beside_frequencies]
        first, second, third = by_frequency(frequencies.parts(grid, exponent))
        coarse = _fractional(coarse + _fractional(limb * first, xp), xp)
        medium = _fractional(medium + _fractional(limb * second, xp), xp)
        fine = fine + limb * third
    if rest is not None:
        (whole_frequency,) = by_frequency([frequencies.per_position()])
        fine = fine + rest[beside_frequencies] * whole_frequency
    quarter = xp.round(4 * (coarse + medium + fine))
    return (coarse - quarter / 4) + medium, fine, quarter


def _limbs(
    positions: Any, highest: float, bits: int, work: Dtype, xp: Namespace
) -> tuple[list[tuple[Any, int]], Any]:
    """Cut positions into integers of few bits, each with the exponent of its unit, and a rest.

    The rest of real positions is a small part of a cycle of the highest frequency; integer
    positions leave none.
    """
    if is_dtype(positions.dtype, "integral", xp):
        whole = _at_least_32_bits(positions, xp)
        limbs = _limbs_of_whole(whole, bits, work, xp)
        if dtype_name(positions.dtype) == "uint64":
            # As int64 those from 2**63 on are less by 2**64.
            limbs.append((xp.astype(whole < 0, work), 64))
        return limbs, None
    real = xp.astype(positions, work, copy=False)
    nan = xp.asarray(float("nan"), dtype=work, device=device_of(positions))
    real = xp.where(xp.abs(real) <= _FARTHEST, real, nan)
    # Towards 0, so that what is cut off is exact for negative positions, too.
    whole = xp.trunc(real)
    limbs = _limbs_of_whole(whole, bits, work, xp)
    rest, exponent = real - whole, 0
    while highest * 2.0**exponent > _SMALL:
        exponent -= bits
        limb = xp.trunc(rest * 2.0**-exponent)
        rest = rest - limb * 2.0**exponent
        limbs.append((limb, exponent))
    return limbs, rest


def _limbs_of_whole(whole: Any, bits: int, work: Dtype, xp: Namespace) -> list[Any]:
    """Cut whole positions into parts of few bits, each with the exponent of its unit."""
    width = 32 if dtype_name(whole.dtype) in ("int32", "uint32") else 63
    cuts = (width - 2) // bits  # the last part has room for one bit more
    limbs = []
    exponent = 0
    for _ in range(cuts):
        rest = _quotient(whole, 2**bits, xp)
        limbs.append((xp.astype(whole - rest * 2**bits, work, copy=False), exponent))
        whole, exponent = rest, exponent + bits
    return [*limbs, (xp.astype(whole, work, copy=False), exponent)]


def _quotient(whole: Any, divisor: int, xp: Namespace) -> Any:
    if is_dtype(whole.dtype, "integral", xp):
        return xp.floor_divide(whole, divisor)
    return xp.floor(whole / divisor)  # exact for a power of two, and has a derivative


def _at_least_32_bits(positions: Any, xp: Namespace) -> Any:
    """Widen integers in which a limb has no room; the others keep their values as they are."""
    integer = default_integer(xp, device_of(positions))
    name = dtype_name(positions.dtype)
    if name == "int32" or (name == "uint32" and dtype_name(integer) == "int32"):
        return positions
    return xp.astype(positions, integer, copy=False)


def _fractional(turns: Any, xp: Namespace) -> Any:
    return turns - xp.round(turns)
