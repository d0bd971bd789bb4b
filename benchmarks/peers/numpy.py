"""NumPy as a textbook writes it: rotations, an attention, masks, biases and tables."""

from typing import TYPE_CHECKING

import numpy as np
from harness.inputs import AttentionInputs, HostArray, frequencies, softmax

if TYPE_CHECKING:
    from harness.inputs import RotationInputs
    from harness.timing import Run


def rotation(inputs: "RotationInputs") -> "Run":
    """Return ``x * cos + rotate_half(x) * sin``, cosine and sine ready made."""
    x, (cos, sin), axis = inputs.x, inputs.doubled_tables, inputs.feature_axis
    if inputs.pairs == "interleaved":
        return lambda: x * cos + rotate_every_two(x) * sin
    return lambda: x * cos + rotate_half(x, axis) * sin


def rotation_by_halves(inputs: "RotationInputs") -> "Run":
    """Return ``[a * cos - b * sin, b * cos + a * sin]`` for pairs whose features are last."""
    x, (cos, sin), half = inputs.x, inputs.tables, inputs.head // 2

    def rotate() -> HostArray:
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    return rotate


def copy_to_array(inputs: "RotationInputs") -> "Run":
    """Return a copy to an array that is there already."""
    x, out = inputs.x, np.empty_like(inputs.x)

    def copy() -> HostArray:
        np.copyto(out, x)
        return out

    return copy


def rotate_half(x: HostArray, axis: int) -> HostArray:
    """Rotate the pairs (i, i + n/2) by 90 degrees."""
    first, second = np.split(x, 2, axis=axis)
    return np.concatenate([-second, first], axis=axis)


def rotate_every_two(x: HostArray) -> HostArray:
    """Rotate the pairs (2i, 2i + 1) by 90 degrees."""
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def complex_product(inputs: "RotationInputs") -> "Run":
    """Return the product with complex numbers of absolute value 1."""
    x, phasors = inputs.x, inputs.unit_phasors
    return lambda: x * phasors


def attention(inputs: AttentionInputs) -> "Run":
    """Return the softmax of the scores times the values."""
    q, k, v = inputs.q, inputs.k, inputs.v
    return lambda: softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)) @ v


def t5_bucket(distances: HostArray, buckets: int, farthest: int) -> HostArray:
    """Return T5's buckets as Raffel's code computes them, for both directions."""
    half = buckets // 2
    exact = half // 2
    far = np.abs(distances)
    ratio = np.log(np.maximum(far, 1) / exact) / np.log(farthest / exact)
    large = np.minimum(exact + (ratio * (half - exact)).astype(np.int64), half - 1)
    return half * (distances > 0) + np.where(far < exact, far, large)


def angles(head: int, seq: int) -> HostArray:
    """Return angles (head / 2, seq) in float64."""
    return frequencies(head)[:, None] * np.arange(seq)


def last_of_tables(head: int, seq: int) -> "Run":
    """Build float32 tables from float64 angles, and return their last column."""

    def build() -> HostArray:
        of_all = angles(head, seq)
        cos, sin = np.cos(of_all).astype(np.float32), np.sin(of_all).astype(np.float32)
        return np.concatenate([cos[:, -1], sin[:, -1]])

    return build
