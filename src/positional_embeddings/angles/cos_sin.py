"""Exact cosines and sines of positions times frequencies."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from math import pi, prod

from positional_embeddings.angles.cupy_kernel import cos_sin_by_kernel, frequency_parts
from positional_embeddings.angles.frequencies import (
    TWO_PI,
    DecimalFrequencies,
    exact_parts,
    in_cycles,
)
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.dispatch import backend_for
from positional_embeddings.arrays.namespace import Array, ArrayT, Dtype, HostArray, Namespace, np

# The backend of all tables, also for other libraries; it computes in float64.
NUMPY_BACKEND = backend_for()

# Steps of the float32 table, from minus to plus an eighth of a cycle, with a margin.
STEPS_PER_CYCLE = 8192
MAX_STEP = STEPS_PER_CYCLE // 8 + 8

# Factor that splits a float64 into two halves; 2 pi in two parts, of which the upper is exact in
# products, and the lower includes the rounding error of 2 pi.
_SPLIT = 2.0**27 + 1
_TWO_PI_UPPER = round(2 * pi * 2**23) / 2**23
_TWO_PI_LOWER = float(TWO_PI - Decimal(_TWO_PI_UPPER))
MAX_REAL_POSITION = 2.0**63  # largest real position whose limbs are exact

# The remainder of a position is less than this part of a cycle of the highest frequency.
MAX_REMAINDER_CYCLES = 2.0**-12
PAGE_BLOCK_POSITIONS = 256  # positions of a block of a page, which fits into the CPU cache

# Limbs of 22 bits times frequencies on a grid of 2**-20: sums of 2**12 products are exact in
# float64, in any order of a matrix product. A coordinate has at most 16 limbs.
SUM_GRID, SUM_LIMB_BITS = 2**20, 22
MAX_COORDINATES = 2**8
# Results of a block, which fits into the CPU cache, and products that BLAS adds on one thread.
SUM_BLOCK_NUMBERS, SUM_BLOCK_PRODUCTS = 2**15, 2**18


def unit_phasors(
    frequencies: DecimalFrequencies, start: int, stop: int, factor: float
) -> Iterator[HostArray]:
    """Yield cosine + i sine of the positions `start` to `stop` - 1, in blocks.

    A block is a complex128 NumPy array (frequency, position). The phasor of a position is the
    product of two exact phasors, of the start of its block and of its index in the block.
    `start` is a multiple of the block length, so that results do not depend on `start`.
    """

    def exact(positions: HostArray) -> HostArray:
        cos, sin = cos_sin(positions, frequencies, np.float64, NUMPY_BACKEND)
        return np.ascontiguousarray((cos + 1j * sin).T)  # type: ignore[no-any-return]

    dtype = np.int32 if stop < 2**31 else np.int64  # int32 has fewer limbs
    indices = exact(np.arange(min(PAGE_BLOCK_POSITIONS, stop - start), dtype=dtype))
    starts = factor * exact(np.arange(start, stop, PAGE_BLOCK_POSITIONS, dtype=dtype))
    for begin, phasors in zip(range(start, stop, PAGE_BLOCK_POSITIONS), starts, strict=True):
        yield (phasors * indices[: stop - begin]).T


def cos_sin(
    positions: ArrayT,
    frequencies: DecimalFrequencies,
    dtype: Dtype,
    backend: Backend,
    factor: float | Array = 1.0,
) -> tuple[ArrayT, ArrayT]:
    """Return cosine and sine of integer or real positions, each (frequency, *positions.shape).

    Position times frequency is computed in exact parts, and reduced to within an eighth of a
    cycle before it is rounded. So the error does not grow with the position.
    """
    if backend.has_cuda_kernels:
        parts = frequency_parts(frequencies, backend)
        tables = cos_sin_by_kernel(positions[None, ...], parts, dtype, backend, factor)
        return tables[0, ...], tables[1, ...]
    return cos_sin_of_sum([positions], [frequencies], dtype, backend, factor)


def cos_sin_of_sum(
    coordinates: Sequence[ArrayT],
    frequencies: Sequence[DecimalFrequencies],
    dtype: Dtype,
    backend: Backend,
    factor: float | Array,
    index: Array = None,
) -> tuple[ArrayT, ArrayT]:
    """Return cosine and sine of a sum of coordinates times frequencies, each (frequency, *shape).

    The coordinates have one dtype and shape, and the same number of frequencies. `index` is as in
    `by_frequency`. The exact parts of the phases are added without rounding, so that the error
    grows neither with the coordinates nor with their number.

    Frequencies on a grid of 2**-21 times limbs of 31 bits are products of 52 bits, exact in
    float64. In float32, the grid is 2**-12, and limbs have 11 bits. Whole cycles are dropped after
    each product and sum.
    """
    xp, backend = backend.xp, backend.with_dtype(backend.widest_float_dtype)
    grid, bits = (2**21, 31) if backend.dtype == xp.float64 else (2**12, 11)

    def columns(rows: Sequence[Sequence[float]], ndim: int) -> list[Array]:
        arrays = (xp.asarray(row, dtype=backend.dtype, device=backend.device) for row in rows)
        return [array[(slice(None), *(None,) * (ndim - 1))] for array in arrays]

    coarse: Array = 0.0
    medium: Array = 0.0
    fine: Array = 0.0
    for positions, row in zip(coordinates, frequencies, strict=True):
        cycles = in_cycles(row)
        limbs, remainder = _limbs(positions, max(map(abs, cycles)), bits, backend)
        if backend.computes_in_blocks and not backend.is_compiling:  # zeros add nothing
            limbs = [limbs[0], *(limb for limb in limbs[1:] if limb[0].any())]
        for numbers, exponent in limbs:
            limb = by_frequency(numbers, index, xp)
            upper, middle, lower = columns(exact_parts(row, grid, exponent), limb.ndim)
            coarse = _fractional(coarse + _fractional(limb * upper, xp), xp)
            medium = _fractional(medium + _fractional(limb * middle, xp), xp)
            fine = fine + limb * lower
        if remainder is not None:
            limb = by_frequency(remainder, index, xp)
            (rounded_cycles,) = columns([cycles], limb.ndim)
            fine = fine + limb * rounded_cycles
        if len(coordinates) > 1:  # a sum of many small parts may be large
            carry = xp.round(grid * fine) / grid
            coarse, fine = backend.computed_once(_fractional(coarse + carry, xp), fine - carry)
    quadrant = xp.round(4 * (coarse + medium + fine))
    phase = (coarse - quadrant / 4) + medium
    return cos_sin_of_phase(phase, fine, quadrant, dtype, backend, factor)


def fill_cos_sin_of_sum(
    coordinates: HostArray,
    frequencies: Sequence[DecimalFrequencies],
    factor: float | HostArray,
    cos: HostArray,
    sin: HostArray,
    *,
    by_quadrant: bool,
) -> None:
    """Write the result of `cos_sin_of_sum` for NumPy arrays, in blocks and by matrix products.

    Coordinates, at most `MAX_COORDINATES`, are (coordinate, point), and results (frequency,
    point). Without `by_quadrant`, the angle is rounded three times instead of once, and the
    computation takes two thirds of the time.
    """
    highest = max(abs(c) for row in frequencies for c in in_cycles(row))
    limbs, _ = _limbs(coordinates[:, :0], highest, SUM_LIMB_BITS, NUMPY_BACKEND)
    limb_parts = [exact_parts(f, SUM_GRID, exponent) for _, exponent in limbs for f in frequencies]
    coarse, medium, fine = np.asarray(limb_parts).transpose(1, 2, 0)
    rounded_cycles = np.asarray([in_cycles(row) for row in frequencies]).T
    length = min(SUM_BLOCK_NUMBERS // len(coarse), SUM_BLOCK_PRODUCTS // coarse.size)
    for block in block_slices(coordinates.shape[1], max(1, length)):
        limbs, remainder = _limbs(coordinates[:, block], highest, SUM_LIMB_BITS, NUMPY_BACKEND)
        numbers = np.concat([limb for limb, _ in limbs])
        phase = _fractional(_fractional(coarse @ numbers, np) + medium @ numbers, np)
        small = fine @ numbers
        if remainder is not None:
            small += rounded_cycles @ remainder
        if by_quadrant:
            quadrant = np.round(4 * phase)
            phase -= quadrant / 4
            tables = cos_sin_of_phase(phase, small, quadrant, np.float64, NUMPY_BACKEND, factor)
            cos[:, block], sin[:, block] = (x + 0.0 for x in tables)  # no negative zeros
            continue
        half = np.round(2 * phase)
        angle = (2 * pi) * ((phase - half / 2) + small)
        signed = factor - 2 * factor * np.abs(half)
        np.multiply(np.cos(angle), signed, out=cos[:, block], casting="same_kind")
        np.multiply(np.sin(angle), signed, out=sin[:, block], casting="same_kind")


def cos_sin_of_phase(
    phase_hi: Array,
    phase_lo: Array,
    quadrant: Array,
    dtype: Dtype,
    backend: Backend,
    factor: float | Array = 1.0,
) -> tuple[Array, Array]:
    """Return cosine and sine of a phase within an eighth of a cycle of a quadrant.

    The phase, in cycles from that quadrant, is the sum of two parts, the second small.
    """
    xp = backend.xp
    if backend.dtype == xp.float64:
        cos, sin = _cos_sin_float64(phase_hi, phase_lo, xp)
    else:
        cos, sin = _cos_sin_float32(phase_hi, phase_lo, backend)
    cos, sin = add_quadrants(cos, sin, quadrant, xp)
    if not (isinstance(factor, int | float) and factor == 1):
        cos, sin = cos * factor, sin * factor
    return backend.astype(cos, dtype), backend.astype(sin, dtype)


def add_quadrants(cos: Array, sin: Array, quadrant: Array, xp: Namespace) -> tuple[Array, Array]:
    """Return cosine and sine of angles after adding a whole number of quadrants, exactly."""
    quadrant = quadrant - 4 * xp.floor(quadrant / 4)
    is_odd = (quadrant == 1) | (quadrant == 3)
    cos, sin = xp.where(is_odd, sin, cos), xp.where(is_odd, cos, sin)
    cos = xp.where((quadrant == 1) | (quadrant == 2), -cos, cos)
    return cos, xp.where(quadrant >= 2, -sin, sin)


def _cos_sin_float64(phase_hi: Array, phase_lo: Array, xp: Namespace) -> tuple[Array, Array]:
    """Return cosine and sine of at most an eighth of a cycle.

    A first-order correction accounts for the rounding of the sum, of 2 pi, and of their product,
    whose factors are split into halves of 26 bits.
    """
    phase = phase_hi + phase_lo
    residual = phase_lo - (phase - phase_hi)
    angle = (2 * pi) * phase
    upper = phase * _SPLIT
    upper = upper - (upper - phase)
    lower = phase - upper
    product_residual = ((_TWO_PI_UPPER * upper - angle) + _TWO_PI_UPPER * lower) + (
        _TWO_PI_LOWER * phase
    )
    residual = product_residual + (2 * pi) * residual
    cos, sin = xp.cos(angle), xp.sin(angle)
    return cos - sin * residual, sin + cos * residual


def _cos_sin_float32(phase_hi: Array, phase_lo: Array, backend: Backend) -> tuple[Array, Array]:
    """Return cosine and sine of at most an eighth of a cycle, with one significant rounding.

    A table has cosine and sine of many steps in twice the precision. The remainder of the angle
    after the nearest step gives a small correction.
    """
    xp = backend.xp
    step = xp.where(xp.isnan(phase_hi), 0.0, xp.round(phase_hi * STEPS_PER_CYCLE))
    index = xp.astype(step, backend.int_dtype) + MAX_STEP
    flat = xp.reshape(index, (prod(phase_hi.shape),))
    # In compiled code of JAX, one lookup takes a quarter of the time of four.
    table = xp.asarray(_steps(), dtype=backend.dtype, device=backend.device)
    entries = xp.reshape(xp.take(table, flat, axis=0), (*phase_hi.shape, 4))
    cos, sin, cos_residual, sin_residual = (entries[..., i] for i in range(4))
    angle = (2 * pi) * ((phase_hi - step / STEPS_PER_CYCLE) + phase_lo)
    sin_angle, one_minus_cos = angle - angle**3 / 6, angle**2 / 2
    return backend.computed_once(
        cos + (cos_residual - (cos * one_minus_cos + sin * sin_angle)),
        sin + (sin_residual + (cos * sin_angle - sin * one_minus_cos)),
    )


@cache
def _steps() -> HostArray:
    """Return cosine and sine of each step in float32, followed by their rounding errors."""
    steps = np.arange(-MAX_STEP, MAX_STEP + 1, dtype=np.float64)
    angles = 2 * pi * steps / STEPS_PER_CYCLE
    exact = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rounded = exact.astype(np.float32)
    return np.concat([rounded, (exact - rounded).astype(np.float32)], axis=1)  # type: ignore[no-any-return]


def by_frequency(numbers: Array, index: Array, xp: Namespace) -> Array:
    """Return numbers of positions with a leading axis of frequencies, of length 1 without index.

    The index has the coordinate of each frequency.
    """
    return numbers[None, ...] if index is None else xp.take(numbers, index, axis=0)


def _limbs(
    positions: Array, highest: float, bits: int, backend: Backend
) -> tuple[list[tuple[Array, int]], Array]:
    """Split positions into short integers, each with the exponent of its unit, and a remainder.

    The remainder of real positions is a small part of a cycle of the highest frequency. Integer
    positions have no remainder.
    """
    xp = backend.xp
    if dtypes.is_dtype(positions.dtype, "integral", xp):
        return integer_limbs(positions, bits, backend), None
    real = backend.astype(positions, backend.dtype)
    real = xp.where(xp.abs(real) <= MAX_REAL_POSITION, real, float("nan"))
    # Towards 0, so that the remainder is exact for negative positions, too.
    whole = xp.trunc(real)
    # Division by a power of two is exact, and has a derivative.
    limbs = _limbs_of_whole(whole, 63, bits, lambda n, power: xp.floor(n / power), backend)
    remainder, exponent = real - whole, 0
    while highest * 2.0**exponent > MAX_REMAINDER_CYCLES:
        exponent -= bits
        limb = xp.trunc(remainder * 2.0**-exponent)
        remainder = remainder - limb * 2.0**exponent
        limbs.append((limb, exponent))
    return limbs, remainder


def integer_limbs(positions: Array, bits: int, backend: Backend) -> list[tuple[Array, int]]:
    """Split integer positions into short integers, each with the exponent of its unit."""
    xp, name = backend.xp, dtypes.dtype_name(positions.dtype)
    narrow = {"int32"} if backend.int_dtype == xp.int64 else {"int32", "uint32"}
    is_narrow = name in narrow
    whole = positions if is_narrow else backend.astype(positions, backend.int_dtype)
    width = 32 if is_narrow or backend.int_dtype == xp.int32 else 63
    limbs = _limbs_of_whole(whole, width, bits, xp.floor_divide, backend)
    if name == "uint64":
        # The conversion to int64 subtracts 2**64 from positions of at least 2**63.
        limbs.append((xp.astype(whole < 0, backend.dtype), 64))
    return limbs


def _limbs_of_whole(
    whole: Array, width: int, bits: int, divide: Callable[[Array, int], Array], backend: Backend
) -> list[tuple[Array, int]]:
    """Split whole positions of `width` bits into limbs, each with the exponent of its unit."""
    limbs, exponent = [], 0
    for _ in range((width - 2) // bits):  # the last limb may have one more bit
        quotient = divide(whole, 2**bits)
        limb = backend.astype(whole - quotient * 2**bits, backend.dtype)
        limbs.append((limb, exponent))
        whole, exponent = quotient, exponent + bits
    return [*limbs, (backend.astype(whole, backend.dtype), exponent)]


def _fractional(cycles: Array, xp: Namespace) -> Array:
    return cycles - xp.round(cycles)
