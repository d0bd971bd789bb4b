"""Exact cosines and sines of positions times frequencies."""

from functools import cache
from math import pi, prod
from typing import Any

from positional_embeddings._namespace import (
    ArrayT,
    Dtype,
    HostArray,
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    host,
    widest_float,
)
from positional_embeddings.frequencies import Turns

# Steps to a turn, of which an eighth on both sides is wanted, and some to spare.
_STEPS = 8192
_FARTHEST_STEP = _STEPS // 8 + 8


def cos_sin_table(
    frequencies: Turns, seq_len: int, dtype: Dtype, factor: float = 1.0
) -> tuple[HostArray, HostArray]:
    """Return cosine and sine of the positions 0 to `seq_len` - 1 as NumPy arrays.

    Both tables are (frequency, position).
    """
    cos = host.empty((len(frequencies), seq_len), dtype=dtype)
    sin = host.empty((len(frequencies), seq_len), dtype=dtype)
    block = 2048  # keeps the temporaries of a long table in the cache
    for start in range(0, seq_len, block):
        stop = min(start + block, seq_len)
        positions = host.arange(start, stop, dtype=host.int32 if stop < 2**31 else host.int64)
        cos[:, start:stop], sin[:, start:stop] = cos_sin(
            positions, frequencies, dtype, host, factor
        )
    return cos, sin


def cos_sin(
    positions: ArrayT, frequencies: Turns, dtype: Dtype, xp: Namespace, factor: float = 1.0
) -> tuple[ArrayT, ArrayT]:
    """Return cosine and sine of integer or real positions, each (frequency, *positions.shape).

    Position times frequency is computed in exact parts and reduced to within an
    eighth of a turn before the one rounding that counts, so that the error does
    not grow with the position.
    """
    work = widest_float(xp, device_of(positions))
    near, rest, quarter = _reduced_turns(positions, frequencies, work, xp)
    if work == xp.float64:
        angle = (2 * pi) * (near + rest)
        cos, sin = xp.cos(angle), xp.sin(angle)
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


def _cos_sin_float32(near: Any, rest: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return cosine and sine of an eighth of a turn at most, with one rounding that counts.

    Around the nearest of many steps, whose cosine and sine are known to twice the
    digits, what remains of the angle gives but a small correction.
    """
    on = device_of(near)
    step = xp.round(near * _STEPS)
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


def _reduced_turns(
    positions: Any, frequencies: Turns, work: Dtype, xp: Namespace
) -> tuple[Any, Any, Any]:
    """Return the turns as an offset within an eighth of the nearest quarter, and that quarter.

    The offset comes in two parts, one exact and one small. Frequencies on a grid of
    2**-21 times limbs of 31 bits are products of 52 bits, exact in float64; a grid of
    2**-12 and limbs of 11 bits do the same in float32. Whole turns are dropped as soon
    as they come.
    """
    grid, bits = (2**21, 31) if work == xp.float64 else (2**12, 11)

    def parts(weight: int | None) -> list[Any]:
        table = frequencies.parts(grid, weight)
        rows = (xp.asarray(row, dtype=work, device=device_of(positions)) for row in table)
        return [row[(slice(None), *(None,) * positions.ndim)] for row in rows]

    whole, upper, lower = _whole_and_behind_the_point(positions, bits, work, xp)
    coarse: Any = 0.0
    medium: Any = 0.0
    fine: Any = 0.0
    for limb, weight in _limbs(whole, bits, work, xp):
        first, second, third = parts(weight)
        coarse = _without_whole(coarse + _without_whole(limb * first, xp), xp)
        medium = medium + _without_whole(limb * second, xp)
        fine = fine + limb * third
    if upper is not None:
        first, second, third = parts(None)
        rest = second + third
        coarse = _without_whole(coarse + _without_whole(upper * first, xp), xp)
        fine = fine + (upper * rest + lower * (first + rest))
    quarter = xp.round(4 * (coarse + medium + fine))
    return (coarse - quarter / 4) + medium, fine, quarter


def _whole_and_behind_the_point(
    positions: Any, bits: int, work: Dtype, xp: Namespace
) -> tuple[Any, Any, Any]:
    """Return whole positions, the first `bits` behind the point of real ones, and the others."""
    if xp.isdtype(positions.dtype, "integral"):
        return _at_least_32_bits(positions, xp)[None, ...], None, None
    real = xp.astype(positions, work, copy=False)[None, ...]
    whole = xp.floor(real)
    behind = real - whole
    upper = xp.floor(behind * 2**bits) / 2**bits
    return whole, upper, behind - upper


def _limbs(whole: Any, bits: int, work: Dtype, xp: Namespace) -> list[tuple[Any, int]]:
    """Cut whole positions into parts of few bits, each with the weight of its unit."""
    cuts = 2 if bits == 11 else 0 if dtype_name(whole.dtype) == "int32" else 1
    limbs = []
    weight = 1
    for _ in range(cuts):
        rest = _quotient(whole, 2**bits, xp)
        limbs.append((xp.astype(whole - rest * 2**bits, work, copy=False), weight))
        whole, weight = rest, weight * 2**bits
    return [*limbs, (xp.astype(whole, work, copy=False), weight)]


def _quotient(whole: Any, divisor: int, xp: Namespace) -> Any:
    if xp.isdtype(whole.dtype, "integral"):
        return xp.floor_divide(whole, divisor)
    return xp.floor(whole / divisor)  # exact for a power of two, and has a derivative


def _at_least_32_bits(positions: Any, xp: Namespace) -> Any:
    """Widen integers in which a limb has no room; the others keep their values as they are."""
    integer = default_integer(xp, device_of(positions))
    name = dtype_name(positions.dtype)
    if name == "int32" or (name == "uint32" and dtype_name(integer) == "int32"):
        return positions
    return xp.astype(positions, integer, copy=False)


def _without_whole(turns: Any, xp: Namespace) -> Any:
    return turns - xp.round(turns)
