"""Rotation by hand in CuPy: as a textbook writes it, and as a kernel of one's own."""

from typing import TYPE_CHECKING

import cupy
import numpy as np

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from timing import Run

# A thread for each pair. `step` is the distance of two features, `row` that of two positions.
KERNEL = """
    int inner = i % (half * step);
    int first = (i / (half * step)) * 2 * half * step + inner;
    int second = first + half * step;
    int entry = (first / row) % seq * half + inner / step % half;
    out[first] = x[first] * cos[entry] - x[second] * sin[entry];
    out[second] = x[second] * cos[entry] + x[first] * sin[entry];
"""


def copy(problem: "Rotation") -> "Run":
    """Return a copy within the device."""
    return cupy.asarray(problem.x).copy


def textbook(problem: "Rotation") -> "Run":
    """Return ``x * cos + rotate_half(x) * sin``."""
    x, cos, sin = (cupy.asarray(array) for array in (problem.x, problem.cos, problem.sin))
    axis = problem.feature_axis

    def rotate() -> cupy.ndarray:
        first, second = cupy.split(x, 2, axis=axis)
        return x * cos + cupy.concatenate([-second, first], axis=axis) * sin

    return rotate


def kernel(problem: "Rotation") -> "Run":
    """Return one kernel over all pairs, for contiguous arrays."""
    inputs = "raw float32 x, raw float32 cos, raw float32 sin, "
    inputs += "int32 half, int32 step, int32 row, int32 seq"
    rotate = cupy.ElementwiseKernel(inputs, "raw float32 out", KERNEL, "rotate_by_hand")
    x = cupy.asarray(problem.x)
    cos, sin = (cupy.asarray(f(problem.angles).astype(x.dtype)) for f in (np.cos, np.sin))
    step, row = (
        problem.x.strides[axis] // x.itemsize for axis in (problem.feature_axis, problem.seq_axis)
    )
    numbers = (problem.head // 2, step, row, problem.seq)

    def run() -> cupy.ndarray:
        out = cupy.empty_like(x)
        rotate(x, cos, sin, *numbers, out, size=x.size // 2)
        return out

    return run
