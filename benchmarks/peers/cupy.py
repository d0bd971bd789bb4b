"""CuPy: rotations by hand, as a textbook writes them and as a kernel."""

from typing import TYPE_CHECKING

import cupy

if TYPE_CHECKING:
    from harness.inputs import AttentionInputs, RotationInputs
    from harness.timing import Run

# A thread for each pair. `step` is the distance of two features, `row` that of two positions.
KERNEL = """
    int inner = i % (half * step);
    int first = (i / (half * step)) * 2 * half * step + inner;
    int second = first + half * step;
    int entry = (first / row) % seq * half + inner / step % half;
    out[first] = x[first] * cos[entry] - x[second] * sin[entry];
    out[second] = x[second] * cos[entry] + x[first] * sin[entry];
"""


def copy(inputs: "RotationInputs", dtype: str = "float32") -> "Run":
    """Return a copy within the device."""
    return cupy.asarray(inputs.x, dtype=dtype).copy


def copy_of_keys(inputs: "AttentionInputs", dtype: str) -> "Run":
    """Return a copy within the device: one token of attention reads as much, keys and values."""
    return cupy.asarray(inputs.k, dtype=dtype).copy


def textbook(inputs: "RotationInputs") -> "Run":
    """Return ``x * cos + rotate_half(x) * sin``."""
    x, cos, sin = (cupy.asarray(array) for array in (inputs.x, *inputs.doubled_tables))
    axis = inputs.feature_axis

    def rotate() -> cupy.ndarray:
        first, second = cupy.split(x, 2, axis=axis)
        return x * cos + cupy.concatenate([-second, first], axis=axis) * sin

    return rotate


def kernel(inputs: "RotationInputs") -> "Run":
    """Return one kernel over all pairs, for contiguous arrays."""
    parameters = "raw float32 x, raw float32 cos, raw float32 sin, "
    parameters += "int32 half, int32 step, int32 row, int32 seq"
    rotate = cupy.ElementwiseKernel(parameters, "raw float32 out", KERNEL, "rotate_by_hand")
    x = cupy.asarray(inputs.x)
    cos, sin = map(cupy.asarray, inputs.tables)
    step, row = (
        inputs.x.strides[axis] // x.itemsize for axis in (inputs.feature_axis, inputs.seq_axis)
    )
    numbers = (inputs.head // 2, step, row, inputs.seq)

    def run() -> cupy.ndarray:
        out = cupy.empty_like(x)
        rotate(x, cos, sin, *numbers, out, size=x.size // 2)
        return out

    return run
