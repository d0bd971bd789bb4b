"""Points that encodings are of: the most similar ones of a grid, and then the tops of peaks."""

from math import inf, nan
from typing import NamedTuple

from positional_embeddings.angles.pairs import split_pairs
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.encodings.features import angle_sum

# Numbers that are compared at a time.
_NUMBERS_OF_A_BLOCK = 2**22
# Steps to the top of a peak: without noise the error of a step is the third power of the error
# before it. One is at most `_LONGEST_STEP` times as long as one that cannot lead down.
_STEPS, _LONGEST_STEP = 8, 4
# How often each of several points is found again without the others, which move its peak.
_ROUNDS = 8


class Grid(NamedTuple):
    """Points of a grid, and what has to be known of the waves; arrays of the host, or of a call."""

    points: Array  # (coordinate, point)
    encodings: Array  # (2 * wave, point): all sines, then all cosines
    least: Array  # (coordinate, 1), of the bounds
    most: Array  # (coordinate, 1)
    half_cycle: Array  # (coordinate, 1), of the fastest wave
    frequencies: Array  # (wave, coordinate), in radians
    inverse: Array  # (coordinate, coordinate), of the kernel's curvature at 0
    weight: Array  # of all waves together, 0-d


class Peak(NamedTuple):
    """The top of a peak of the similarity of each encoding and the encodings of points."""

    point: Array  # (coordinate, encoding)
    encoding: Array  # (2 * wave, encoding), of the point
    strength: Array  # (encoding,): how often this is in the encoding


def decode_points(encodings: Array, grid: Grid, count: int, backend: Backend) -> Array:
    """Return the points of encodings (2 * wave, n), best ones first, and then their strengths.

    Both are rows, (count * coordinate + count, n).
    """
    xp = backend.xp
    grid = Grid(*(xp.asarray(x, dtype=backend.dtype, device=backend.device) for x in grid))
    length = max(1, _NUMBERS_OF_A_BLOCK // (grid.points.shape[0] * grid.points.shape[1]))
    blocks = cuts(encodings.shape[1], length) or [slice(0, 0)]
    return xp.concat([_find_peaks(encodings[:, b], grid, count, backend) for b in blocks], axis=1)


def _find_peaks(encodings: Array, grid: Grid, count: int, backend: Backend) -> Array:
    """Return points, each found in what those before it leave over, and half a cycle from them.

    Their strengths are further rows.
    """
    xp, tops = backend.xp, []
    shape = grid.points.shape[1], encodings.shape[1]
    numbers = xp.arange(shape[0], dtype=backend.integer, device=backend.device)[:, None]
    is_taken = xp.zeros(shape, dtype=xp.bool, device=backend.device)
    for _ in range(count):
        similarity = xp.where(is_taken, -inf, grid.encodings.T @ encodings)
        # `argmax` of array-api-strict needs int64.
        is_best = similarity == xp.max(similarity, axis=0)
        start = xp.min(xp.where(is_best, numbers, shape[0] - 1), axis=0)
        point, encoding = (xp.take(x, start, axis=1) for x in (grid.points, grid.encodings))
        apart = xp.abs(grid.points[:, :, None] - point[:, None, :])
        is_taken = is_taken | xp.all(apart <= grid.half_cycle[:, :, None], axis=0)
        tops.append(_climb(encodings, point, encoding, grid, backend))
        encodings = encodings - tops[-1].strength * tops[-1].encoding
    for i in range(_ROUNDS * count if count > 1 else 0):
        top = tops[i % count]
        encodings = encodings + top.strength * top.encoding
        tops[i % count] = top = _climb(encodings, top.point, top.encoding, grid, backend)
        encodings = encodings - top.strength * top.encoding
    # Where nothing is similar, there is no point.
    points = [xp.where(top.strength > 0, top.point, nan) for top in tops]
    return xp.concat([*points, *(top.strength[None, :] for top in tops)], axis=0)


def _climb(encodings: Array, point: Array, encoding: Array, grid: Grid, backend: Backend) -> Peak:
    """Return the tops near points, by Newton's steps along the way that a kernel's top would be.

    The curvature of a kernel at its top is known; that of a similarity along one way is computed.
    """
    xp, sinusoids = backend.xp, grid.frequencies.shape[0]
    sin, cos = split_pairs(encoding, 0, "half", sinusoids)
    ahead = angle_sum(split_pairs(encodings, 0, "half", sinusoids), (-sin, cos))
    size, moved = xp.sqrt(ahead[0] ** 2 + ahead[1] ** 2), xp.zeros_like(point)
    left = ahead
    for _ in range(_STEPS):
        # The similarity is the sum of the cosines, its slope that of frequencies times the sines.
        slope = grid.frequencies.T @ left[0]
        way = grid.inverse @ slope
        squared = (grid.frequencies @ way) ** 2
        curvature = xp.sum(squared * left[1], axis=0)
        curvature = xp.maximum(curvature, xp.sum(squared * size, axis=0) / _LONGEST_STEP)
        length = xp.sum(slope * way, axis=0) / xp.where(curvature > 0, curvature, 1.0)
        moved = xp.minimum(moved + length * way, grid.most - point)
        moved = xp.maximum(moved, grid.least - point)
        angle = grid.frequencies @ moved
        turn = xp.sin(angle), xp.cos(angle)
        left = angle_sum(ahead, (-turn[0], turn[1]))
    strength = xp.sum(left[1], axis=0) / grid.weight
    return Peak(point + moved, xp.concat(angle_sum((sin, cos), turn), axis=0), strength)
