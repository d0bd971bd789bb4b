"""Rotation of CuPy arrays by an elementwise kernel."""

from functools import cache
from typing import Any

from positional_embeddings.rotary.layouts import features_of_pairs


def rotate_cupy(x: Any, cos: Any, sin: Any, out: Any, axis: int, layout: str) -> None:
    """Rotate `x` into `out`, one pair in each thread of the device."""
    before, pairs = (slice(None),) * axis, cos.shape[axis]
    first, second = (
        (*before, features, ...) for features in features_of_pairs(0, pairs, pairs, layout)
    )
    _cupy_kernel()(x[first], x[second], cos, sin, out[first], out[second])


@cache
def _cupy_kernel() -> Any:
    import cupy  # noqa: PLC0415

    return cupy.ElementwiseKernel(
        "T first, T second, C cos, C sin",
        "T rotated_first, T rotated_second",
        """
        const C a = static_cast<C>(first), b = static_cast<C>(second);
        rotated_first = static_cast<T>(a * cos - b * sin);
        rotated_second = static_cast<T>(b * cos + a * sin);
        """,
        "positional_embeddings_rotate",
        options=("--fmad=false",),  # as NumPy rounds
    )
