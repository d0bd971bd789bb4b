"""Decode points from encodings: the most similar points of a grid, refined by Newton's method."""

from math import inf, nan
from typing import NamedTuple

from positional_embeddings.angles.pairs import split_pairs
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.encodings.features import angle_sum

# Similarities per block.
_BLOCK_ELEMENTS = 2**22
# Newton steps, which converge cubically without noise; maximum length of a step, relative to a step
# that cannot decrease the similarity.
_STEPS, _MAX_STEP_RATIO = 8, 4
# Refinements of each of several points, with the encodings of all other points subtracted.
_NUM_REFINEMENTS = 8


class Grid(NamedTuple):
    """Points of a grid and parameters of the waves, in arrays of the host or of a call."""

    points: Array  # (coordinate, point)
    encodings: Array  # (2 * wave, point): all sines, then all cosines
    lower_bound: Array  # (coordinate, 1)
    upper_bound: Array  # (coordinate, 1)
    half_cycle: Array  # (coordinate, 1), of the fastest wave
    frequencies: Array  # (wave, coordinate), in radians
    inverse: Array  # (coordinate, coordinate), of the kernel's curvature at 0
    weight: Array  # 0-d, sum of all weights


class Peak(NamedTuple):
    """Local maximum of the similarity of each encoding to the encodings of points."""

    point: Array  # (coordinate, encoding)
    encoding: Array  # (2 * wave, encoding), of the point
    strength: Array  # (encoding,), factor of the point's encoding in the sum


def decode_points(encodings: Array, grid: Grid, count: int, backend: Backend) -> Array:
    """Decode encodings (2 * wave, n) to rows (count * coordinate + count, n).

    The points are first, in order of decreasing similarity, then their strengths.
    """
    xp = backend.xp
    grid = Grid(*(xp.asarray(x, dtype=backend.dtype, device=backend.device) for x in grid))
    length = max(1, _BLOCK_ELEMENTS // (grid.points.shape[0] * grid.points.shape[1]))
    blocks = block_slices(encodings.shape[1], length) or [slice(0, 0)]
    return xp.concat([_find_peaks(encodings[:, b], grid, count, backend) for b in blocks], axis=1)


def _find_peaks(encodings: Array, grid: Grid, count: int, backend: Backend) -> Array:
    """Return the peaks as rows: their points, then their strengths.

    Each is at least half a cycle from all points before it, whose encodings are subtracted.
    """
    xp, peaks = backend.xp, []
    shape = grid.points.shape[1], encodings.shape[1]
    indices = xp.arange(shape[0], dtype=backend.int_dtype, device=backend.device)[:, None]
    is_taken = xp.zeros(shape, dtype=xp.bool, device=backend.device)
    for _ in range(count):
        similarity = xp.where(is_taken, -inf, grid.encodings.T @ encodings)
        # `argmax` of array-api-strict needs int64.
        is_best = similarity == xp.max(similarity, axis=0)
        best = xp.min(xp.where(is_best, indices, shape[0] - 1), axis=0)
        point, encoding = (xp.take(x, best, axis=1) for x in (grid.points, grid.encodings))
        distance = xp.abs(grid.points[:, :, None] - point[:, None, :])
        is_taken = is_taken | xp.all(distance <= grid.half_cycle[:, :, None], axis=0)
        peaks.append(_refine_peak(encodings, point, encoding, grid, backend))
        encodings = encodings - peaks[-1].strength * peaks[-1].encoding
    for i in range(_NUM_REFINEMENTS * count if count > 1 else 0):
        peak = peaks[i % count]
        encodings = encodings + peak.strength * peak.encoding
        peaks[i % count] = peak = _refine_peak(encodings, peak.point, peak.encoding, grid, backend)
        encodings = encodings - peak.strength * peak.encoding
    # Without similarity, a point is NaN.
    points = [xp.where(peak.strength > 0, peak.point, nan) for peak in peaks]
    return xp.concat([*points, *(peak.strength[None, :] for peak in peaks)], axis=0)


def _refine_peak(
    encodings: Array, point: Array, encoding: Array, grid: Grid, backend: Backend
) -> Peak:
    """Refine points by Newton steps towards the maximum of the similarity.

    The inverse curvature of the kernel at 0 gives the direction of a step, and the curvature of the
    similarity along it the length.
    """
    xp, sinusoids = backend.xp, grid.frequencies.shape[0]
    sin, cos = split_pairs(encoding, 0, "half", sinusoids)
    initial = angle_sum(split_pairs(encodings, 0, "half", sinusoids), (-sin, cos))
    amplitude, displacement = xp.sqrt(initial[0] ** 2 + initial[1] ** 2), xp.zeros_like(point)
    difference = initial
    for _ in range(_STEPS):
        # The similarity is the sum of the cosines, with the slope sum(frequencies * sines).
        slope = grid.frequencies.T @ difference[0]
        direction = grid.inverse @ slope
        squared = (grid.frequencies @ direction) ** 2
        curvature = xp.sum(squared * difference[1], axis=0)
        curvature = xp.maximum(curvature, xp.sum(squared * amplitude, axis=0) / _MAX_STEP_RATIO)
        length = xp.sum(slope * direction, axis=0) / xp.where(curvature > 0, curvature, 1.0)
        displacement = xp.minimum(displacement + length * direction, grid.upper_bound - point)
        displacement = xp.maximum(displacement, grid.lower_bound - point)
        angle = grid.frequencies @ displacement
        rotation = xp.sin(angle), xp.cos(angle)
        difference = angle_sum(initial, (-rotation[0], rotation[1]))
    strength = xp.sum(difference[1], axis=0) / grid.weight
    return Peak(point + displacement, xp.concat(angle_sum((sin, cos), rotation), axis=0), strength)
