"""Rotation as a textbook writes it in NumPy, cosine and sine ready made."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from contenders import HostArray
    from timing import Run


def rotate_half(x: "HostArray", axis: int) -> "HostArray":
    """Turn the pairs (i, i + n/2) by a quarter."""
    first, second = np.split(x, 2, axis=axis)
    return np.concatenate([-second, first], axis=axis)


def rotate_every_two(x: "HostArray") -> "HostArray":
    """Turn the pairs (2i, 2i + 1) by a quarter."""
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def textbook(problem: "Rotation") -> "Run":
    """Return ``x * cos + rotate_half(x) * sin``."""
    x, cos, sin, axis = problem.x, problem.cos, problem.sin, problem.feature_axis
    if problem.pairs == "interleaved":
        return lambda: x * cos + rotate_every_two(x) * sin
    return lambda: x * cos + rotate_half(x, axis) * sin


def complex_product(problem: "Rotation") -> "Run":
    """Return the product by complex numbers of absolute value 1."""
    x, turns = problem.x, problem.turns
    return lambda: x * turns
