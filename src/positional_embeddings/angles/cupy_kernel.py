"""Exact cosines and sines of positions by one CUDA kernel.

A frequency is a fixed-point number with 128 fractional bits, in cycles per position. The product of
its upper 64 bits and a whole position, modulo 2**64, is the phase without whole cycles. The
product of the lower bits is small, and may be rounded. So all 64-bit positions are exact.
"""

from decimal import Decimal, localcontext
from functools import cache
from math import prod
from typing import Any

from positional_embeddings.angles.frequencies import DIGITS, DecimalFrequencies
from positional_embeddings.arguments.axes import Order
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.caching import cached_constant, constant_array
from positional_embeddings.arrays.cuda import OPTIONS, cuda_text
from positional_embeddings.arrays.namespace import Array, Dtype, Namespace, np


def frequency_parts(frequencies: DecimalFrequencies, backend: Backend) -> Array:
    """Return the parts of the frequencies for the kernel, on a device: float64 (5, n)."""
    return constant_array(_in_fixed_point, frequencies, dtype=backend.xp.float64, backend=backend)


@cached_constant
def _in_fixed_point(frequencies: DecimalFrequencies) -> list[list[float]]:
    """Return frequencies in cycles per position in five parts.

    The first three omit whole cycles: the first 32 fractional bits and the next 32 as whole
    numbers, and the rounded remainder. The last two are the rounded frequency and its error.
    """
    with localcontext(DIGITS):
        cycles = [Decimal(text) for text in frequencies.split()]
        bits = [round(c * 2**64) for c in cycles]
        upper = [float(b % 2**64 >> 32) for b in bits]
        lower = [float(b % 2**32) for b in bits]
        remainders = [float(c * 2**64 - b) / 2**64 for c, b in zip(cycles, bits, strict=True)]
        rounded = [float(c) for c in cycles]
        errors = [float(c - Decimal(r)) for c, r in zip(cycles, rounded, strict=True)]
    return [upper, lower, remainders, rounded, errors]


def cos_sin_by_kernel(
    positions: Array,
    parts: Array,
    dtype: Dtype,
    backend: Backend,
    factor: float | Array,
    order: Order = "C",
) -> Array:
    """Return cosine and sine as `cos_sin` does, in one array and one launch.

    The first axis of the positions is the axis of frequencies, or has length 1.
    """
    xp = backend.xp
    integral = dtypes.is_dtype(positions.dtype, "integral", xp)
    if not integral:
        positions = backend.astype(positions, xp.float64)
    shape, rows = (parts.shape[1], *positions.shape[1:]), prod(positions.shape[1:])
    flat = xp.reshape(positions, (positions.shape[0], rows))
    numbers = [parts[row, :, None] for row in range(3 if integral else 5)]
    table_shape, factor = (shape[0], rows), _factor_column(factor, xp)
    if order == "F":  # neighbouring threads write neighbouring elements
        flat, numbers, table_shape = flat.T, [row.T for row in numbers], (rows, shape[0])
    tables = xp.empty((2, *table_shape), dtype=dtype, device=backend.device)
    kernel_of(xp, integral=integral)(flat, *numbers, factor, tables[0, ...], tables[1, ...])
    return xp.reshape(tables.mT if order == "F" else tables, (2, *shape))


def cos_sin_of_sum_by_kernel(
    points: Array,
    frequencies: tuple[DecimalFrequencies, ...],
    dtype: Dtype,
    backend: Backend,
    factor: float | Array,
) -> Array:
    """Return cosine and sine of points (coordinate, *S) as `cos_sin_of_sum` does, in one launch."""
    xp, count = backend.xp, len(frequencies)
    if not dtypes.is_dtype(points.dtype, "integral", xp):
        points = backend.astype(points, xp.float64)
    shape, factor = points.shape[1:], _factor_column(factor, xp)
    points = xp.reshape(points, (count, prod(shape)))
    parts = constant_array(_sum_in_fixed_point, *frequencies, dtype=xp.float64, backend=backend)
    tables = xp.empty((2, parts.shape[0], points.shape[1]), dtype=dtype, device=backend.device)
    outputs = tables[0, ...], tables[1, ...]
    sum_kernel_of(xp)(points, parts, count, points.shape[1], factor, *outputs)
    return xp.reshape(tables, (*tables.shape[:2], *shape))


def _factor_column(factor: float | Array, xp: Namespace) -> float | Array:
    """Return a single factor, or the factors of all frequencies as a column."""
    return factor if isinstance(factor, int | float) else xp.reshape(factor, (-1, 1))


@cached_constant
def _sum_in_fixed_point(*frequencies: DecimalFrequencies) -> list[list[list[float]]]:
    """Return the five parts of frequencies, (frequency, coordinate, part)."""
    parts = np.asarray([_in_fixed_point(f) for f in frequencies])
    return parts.transpose(2, 0, 1).tolist()  # type: ignore[no-any-return]


@cache
def sum_kernel_of(xp: Namespace) -> Any:
    """Return the kernel of sums of integer or of real coordinates."""
    return xp.ElementwiseKernel(
        "raw P points, raw float64 parts, int64 count, int64 size, float64 factor",
        "T cosine, T sine",
        "cos_sin_of_sum(points, i % size, size, &parts[i / size * 5 * count], count, factor, "
        "cosine, sine)",
        "positional_embeddings_cos_sin_of_sum",
        preamble=cuda_text("angles/cos_sin.cu"),
        options=OPTIONS,
    )


@cache
def kernel_of(xp: Namespace, *, integral: bool) -> Any:
    """Return the kernel of integer or of real positions."""
    cycle_names = () if integral else ("cycles", "cycles_rest")
    names = "bits", "more_bits", "rest", *cycle_names, "factor"
    kind = "integer" if integral else "real"
    return xp.ElementwiseKernel(
        ", ".join(["P position", *(f"float64 {name}" for name in names)]),
        "T cosine, T sine",
        f"cos_sin_of_{kind}(position, {', '.join(names)}, cosine, sine)",
        f"positional_embeddings_cos_sin_of_{kind}",
        preamble=cuda_text("angles/cos_sin.cu"),
        options=OPTIONS,
    )
