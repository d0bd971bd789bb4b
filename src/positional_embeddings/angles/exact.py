"""Exact cosines and sines of positions by one kernel, for libraries that compile kernels.

A frequency is a number of 128 bits behind the point, in cycles per position. The product of its
upper 64 bits with a whole position, modulo 2**64, is the phase without whole cycles; that of the
lower ones is small, and rounding it costs nothing. So positions are exact over all of 64 bits.
"""

from decimal import Decimal, localcontext
from functools import cache
from math import prod
from typing import Any

from positional_embeddings.angles.frequencies import DIGITS, Frequencies
from positional_embeddings.arguments.axes import Order
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.kept import constant_array, host_constant
from positional_embeddings.arrays.namespace import Array, Dtype, Namespace
from positional_embeddings.arrays.space import Space

# 2**63, 2**64, 2**-64, and a circle in two parts, the second one what the first one lacks.
PREAMBLE = """
#define TWO_63 9223372036854775808.0
#define TWO_64 18446744073709551616.0
#define TWO_M64 5.421010862427522e-20
#define CIRCLE 6.283185307179586
#define CIRCLE_REST 2.4492935982947064e-16
__device__ unsigned long long modulo_2_64(double whole) {
  return whole < 0 ? 0ull - (unsigned long long)-whole : (unsigned long long)whole;
}
"""

_OF_INTEGER = """
const double whole = (double)position;
double low = whole * rest;
unsigned long long phase = (unsigned long long)position * frequency;
"""

# Parts of a position are multiplied in twice the digits.
_OF_REAL = """
const double whole = fabs(position) <= TWO_63 ? trunc(position) : nan("");
const double part = position - whole;
const double product = part * cycles;
const double fixed = (product - rint(product)) * TWO_64;
double low = whole * rest + (fma(part, cycles, -product) + part * cycles_rest);
low += (fixed - rint(fixed)) * TWO_M64;
unsigned long long phase = modulo_2_64(whole) * frequency + modulo_2_64(rint(fixed));
"""

_TURN = """
const unsigned quadrant = (phase + (1ull << 61)) >> 62;
const long long from_quadrant = phase - ((unsigned long long)quadrant << 62);
const double high = (double)from_quadrant;
low += (double)(from_quadrant - (long long)high) * TWO_M64;
const double turn = high * TWO_M64 + low;
low -= turn - high * TWO_M64;
"""
# Of `turn + low`, within an eighth of a cycle of a quadrant. What is rounded off the angle is put
# back by a derivative.
COS_SIN_OF_TURN = """
const double angle = CIRCLE * turn;
const double left = fma(CIRCLE, turn, -angle) + (CIRCLE_REST * turn + CIRCLE * low);
const double near_cos = cos(angle), near_sin = sin(angle);
const double c = factor * (near_cos - near_sin * left), s = factor * (near_sin + near_cos * left);
const double turned_cos = quadrant & 1 ? s : c, turned_sin = quadrant & 1 ? c : s;
cosine = quadrant == 1 || quadrant == 2 ? -turned_cos : turned_cos;
sine = quadrant >= 2 ? -turned_sin : turned_sin;
"""

# A product and a sum, each rounded: what is rounded off is added by itself.
OPTIONS = ("--fmad=false",)
_FREQUENCY = """
const unsigned long long frequency = (modulo_2_64(bits) << 32) + modulo_2_64(more_bits);
"""


def frequency_parts(frequencies: Frequencies, space: Space) -> Array:
    """Return what the kernel has to know of the frequencies, on a device: float64 (5, n)."""
    return constant_array(_in_fixed_point, frequencies, dtype=space.xp.float64, space=space)


@host_constant
def _in_fixed_point(frequencies: Frequencies) -> list[list[float]]:
    """Return frequencies in cycles per position in five parts.

    The first three are without whole cycles: 32 bits behind the point and 32 more, as
    whole numbers, and the rounded remainder. Then come the rounded frequency and what it
    leaves over.
    """
    with localcontext(DIGITS):
        cycles = [Decimal(text) for text in frequencies.split()]
        bits = [round(c * 2**64) for c in cycles]
        upper = [float(b % 2**64 >> 32) for b in bits]
        lower = [float(b % 2**32) for b in bits]
        rests = [float(c * 2**64 - b) / 2**64 for c, b in zip(cycles, bits, strict=True)]
        rounded = [float(c) for c in cycles]
        left = [float(c - Decimal(r)) for c, r in zip(cycles, rounded, strict=True)]
    return [upper, lower, rests, rounded, left]


def cos_sin_by_kernel(
    positions: Array, parts: Array, dtype: Dtype, space: Space, factor: float, order: Order = "C"
) -> Array:
    """Return cosine and sine as `cos_sin` does, as one array, in one launch.

    The first axis of the positions is the axis of frequencies, or of length 1.
    """
    xp = space.xp
    integral = dtypes.is_dtype(positions.dtype, "integral", xp)
    if not integral:
        positions = space.astype(positions, xp.float64)
    shape, rows = (parts.shape[1], *positions.shape[1:]), prod(positions.shape[1:])
    flat = xp.reshape(positions, (positions.shape[0], rows))
    numbers = [parts[row, :, None] for row in range(3 if integral else 5)]
    table = (shape[0], rows)
    if order == "F":  # neighbouring threads write neighbours
        flat, numbers, table = flat.T, [row.T for row in numbers], (rows, shape[0])
    both = xp.empty((2, *table), dtype=dtype, device=space.device)
    kernel_of(xp, integral=integral)(flat, *numbers, factor, both[0, ...], both[1, ...])
    return xp.reshape(both.mT if order == "F" else both, (2, *shape))


@cache
def kernel_of(xp: Namespace, *, integral: bool) -> Any:
    """Return the kernel of integer or of real positions."""
    inputs = "P position, float64 bits, float64 more_bits, float64 rest"
    more = "" if integral else ", float64 cycles, float64 cycles_rest"
    phase = _OF_INTEGER if integral else _OF_REAL
    return xp.ElementwiseKernel(
        f"{inputs}{more}, float64 factor",
        "T cosine, T sine",
        f"{_FREQUENCY}{phase}{_TURN}{COS_SIN_OF_TURN}",
        f"positional_embeddings_cos_sin_of_{'integer' if integral else 'real'}",
        preamble=PREAMBLE,
        options=OPTIONS,
    )
