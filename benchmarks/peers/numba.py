"""numba: rotations in the loops that its user writes for one layout of arrays."""

from functools import cache
from typing import TYPE_CHECKING

import numba
import numpy as np
from harness.inputs import BSHD, DSN, HostArray, RotationInputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.timing import Run


def features_last(x: HostArray, cos: HostArray, sin: HostArray, out: HostArray) -> HostArray:
    """Rotate (batch, heads, seq, head)."""
    batch, heads, seq, head = x.shape
    half = head // 2
    for row in numba.prange(batch * heads):
        b, h = row // heads, row % heads
        for s in range(seq):
            for i in range(half):
                first, second = x[b, h, s, i], x[b, h, s, i + half]
                out[b, h, s, i] = first * cos[s, i] - second * sin[s, i]
                out[b, h, s, i + half] = second * cos[s, i] + first * sin[s, i]
    return out


def heads_third(x: HostArray, cos: HostArray, sin: HostArray, out: HostArray) -> HostArray:
    """Rotate (batch, seq, heads, head)."""
    batch, seq, heads, head = x.shape
    half = head // 2
    for row in numba.prange(batch * seq):
        b, s = row // seq, row % seq
        for h in range(heads):
            for i in range(half):
                first, second = x[b, s, h, i], x[b, s, h, i + half]
                out[b, s, h, i] = first * cos[s, i] - second * sin[s, i]
                out[b, s, h, i + half] = second * cos[s, i] + first * sin[s, i]
    return out


def features_first(x: HostArray, cos: HostArray, sin: HostArray, out: HostArray) -> HostArray:
    """Rotate (head, seq, heads * batch)."""
    head, seq, count = x.shape
    half = head // 2
    for i in numba.prange(half):
        for s in range(seq):
            for n in range(count):
                first, second = x[i, s, n], x[i + half, s, n]
                out[i, s, n] = first * cos[s, i] - second * sin[s, i]
                out[i + half, s, n] = second * cos[s, i] + first * sin[s, i]
    return out


def interleaved(x: HostArray, cos: HostArray, sin: HostArray, out: HostArray) -> HostArray:
    """Rotate (batch, heads, seq, head) in the interleaved layout."""
    batch, heads, seq, head = x.shape
    for row in numba.prange(batch * heads):
        b, h = row // heads, row % heads
        for s in range(seq):
            for i in range(head // 2):
                first, second = x[b, h, s, 2 * i], x[b, h, s, 2 * i + 1]
                out[b, h, s, 2 * i] = first * cos[s, i] - second * sin[s, i]
                out[b, h, s, 2 * i + 1] = second * cos[s, i] + first * sin[s, i]
    return out


@cache
def compiled(loops: "Callable[..., HostArray]", *, parallel: bool) -> "Run":
    """Compile once for all sizes."""
    return numba.njit(parallel=parallel)(loops)


def rotation(inputs: RotationInputs) -> "Run":
    """Return the loops for this layout, parallel if there are threads for it."""
    kernel, x, (cos, sin) = _kernel(inputs), inputs.x, inputs.tables
    return lambda: kernel(x, cos, sin, np.empty_like(x))


def rotation_to_out(inputs: RotationInputs) -> "Run":
    """Return the same loops, which write to an array that is there already."""
    kernel, x, (cos, sin) = _kernel(inputs), inputs.x, inputs.tables
    out = np.empty_like(x)
    return lambda: kernel(x, cos, sin, out)


def _kernel(inputs: RotationInputs) -> "Run":
    loops = {DSN: features_first, BSHD: heads_third}.get(inputs.layout, features_last)
    if inputs.pairs == "interleaved":
        loops = interleaved
    return compiled(loops, parallel=inputs.threads > 1)
