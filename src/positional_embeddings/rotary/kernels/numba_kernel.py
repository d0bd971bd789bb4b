"""Rotation of NumPy arrays of any strides by a kernel that numba compiles.

It runs without the GIL and starts no threads: `dispatch` says why. Numba keeps the compiled
code on disk, next to this file or in the user's cache, if it may write to either.
"""

import platform
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from positional_embeddings.arrays.namespace import Dtype, np

# Length of the arrays that stand for rows: numba demands one. No row is as long.
_MANY = 2**40


def threads() -> int:
    """Return NUMBA_NUM_THREADS, by default the number of cores."""
    count: int = numba.config.NUMBA_NUM_THREADS
    return count


def compiled(dtype: Dtype, ndim: int) -> Any:
    """Return the kernel for arrays of a dtype and a number of axes, or None."""
    numbers, angles = {
        "e": (types.uint16 if _has_half_precision() else None, types.float32),
        "f": (types.float32, types.float32),
        "d": (types.float64, types.float64),
    }.get(dtype.char if dtype.isnative else "", (None, None))
    if numbers is None or numba.config.DISABLE_JIT:
        return None
    read = types.Array(numbers, ndim, "A", readonly=True)
    table = types.Array(angles, ndim, "A", readonly=True)
    write = types.Array(numbers, ndim, "A")
    signature = types.void(read, table, table, write, types.int64, types.boolean)
    try:
        return njit(signature, nogil=True, cache=True)(_rotate)
    except RuntimeError:  # numba may write to neither place
        return njit(signature, nogil=True)(_rotate)


def _has_half_precision() -> bool:
    """Tell whether the processor converts float16; LLVM would call a missing function if not."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("f16c")) or platform.machine().lower() in ("arm64", "aarch64")


@intrinsic
def _pointer(_context: Any, address: Any, array: Any) -> Any:
    """Return an address as a pointer to elements of an array."""
    pointer = types.CPointer(array.dtype)

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(address, array), code


@intrinsic
def _wide(_context: Any, value: Any) -> Any:
    """Return a number to compute with: a float32 if it is the uint16 of a float16."""
    if value != types.uint16:
        return value(value), lambda _context, _builder, _signature, arguments: arguments[0]

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(value), code


@intrinsic
def _narrow(_context: Any, value: Any, like: Any) -> Any:
    """Return a number to store in an array of `like`: the uint16 of a float16 if that is one."""
    if like != types.uint16:
        return value(value, like), lambda _context, _builder, _signature, arguments: arguments[0]

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return like(value, like), code


@njit
def _row(array: Any, offset: int) -> Any:
    """Return the adjacent elements from an offset in bytes on, with the unit stride of vectors."""
    return numba.carray(_pointer(array.ctypes.data + offset, array), _MANY)


@njit
def _rotate_row(
    first: Any,
    second: Any,
    cos: Any,
    sin: Any,
    rotated_first: Any,
    rotated_second: Any,
    count: int,
    table_step: int,
) -> None:
    for i in range(count):
        a, b = _wide(first[i]), _wide(second[i])
        c, s = cos[i * table_step], sin[i * table_step]
        rotated_first[i] = _narrow(a * c - b * s, first[i])
        rotated_second[i] = _narrow(b * c + a * s, first[i])


@njit
def _rotate_interleaved_row(row: Any, cos: Any, sin: Any, rotated: Any, count: int) -> None:
    for i in range(count):
        a, b = _wide(row[2 * i]), _wide(row[2 * i + 1])
        c, s = cos[i], sin[i]
        rotated[2 * i] = _narrow(a * c - b * s, row[0])
        rotated[2 * i + 1] = _narrow(b * c + a * s, row[0])


@njit
def _sort(axes: Any) -> None:
    """Sort axes, rows of lengths and strides: of length 1 first, then by decreasing stride in x."""
    for i in range(1, len(axes)):
        for j in range(i, 0, -1):
            before, after = axes[j - 1], axes[j]
            if before[0] == 1 or (after[0] > 1 and abs(before[1]) >= abs(after[1])):
                break
            for k in range(axes.shape[1]):
                before[k], after[k] = after[k], before[k]


@njit
def _next_row(index: Any, offsets: Any, axes: Any, outer: int) -> None:
    """Go on to the next row: of the outer axes the last counts fastest, as in an odometer."""
    for i in range(outer - 1, -1, -1):
        index[i] += 1
        steps = 1 if index[i] < axes[i, 0] else 1 - axes[i, 0]
        for k in range(1, 5):
            offsets[k] += steps * axes[i, k]
        if steps == 1:
            break
        index[i] = 0


def _rotate(  # pragma: no cover - compiled
    x: Any,
    cos: Any,
    sin: Any,
    out: Any,
    axis: int,
    interleaved: bool,  # noqa: FBT001
) -> None:
    """Write x, rotated, to out. The tables have the axes of x, some of length 1."""
    pairs = cos.shape[axis]
    to_second = 1 if interleaved else pairs
    x_second, out_second = to_second * x.strides[axis], to_second * out.strides[axis]

    # For each axis: its length, and its strides in bytes in x, cos, sin and out.
    axes = np.empty((x.ndim, 5), np.int64)
    for i in range(x.ndim):
        step = 2 if interleaved and i == axis else 1
        axes[i, 0] = pairs if i == axis else x.shape[i]
        axes[i, 1] = step * x.strides[i]
        axes[i, 2] = 0 if cos.shape[i] == 1 else cos.strides[i]
        axes[i, 3] = 0 if sin.shape[i] == 1 else sin.strides[i]
        axes[i, 4] = step * out.strides[i]
    _sort(axes)

    # Rows of adjacent elements are rotated by vector instructions; otherwise each element is
    # a row of its own.
    count, x_step, cos_step, sin_step, out_step = axes[-1]
    size, table_size = x.itemsize, cos.itemsize
    adjacent = x_step == size and out_step == size
    every_other = x_step == out_step == 2 * size and x_second == out_second == size
    one_by_one = cos_step == table_size and sin_step == table_size
    one_for_all = cos_step == 0 and sin_step == 0
    outer = x.ndim - 1
    if not ((adjacent and (one_by_one or one_for_all)) or (every_other and one_by_one)):
        count = 1
        outer = x.ndim

    rows = 1
    for i in range(outer):
        rows *= axes[i, 0]
    index = np.zeros(x.ndim, np.int64)
    offsets = np.zeros(5, np.int64)
    for _ in range(rows):
        c, s = _row(cos, offsets[2]), _row(sin, offsets[3])
        first, rotated_first = _row(x, offsets[1]), _row(out, offsets[4])
        second = _row(x, offsets[1] + x_second)
        rotated_second = _row(out, offsets[4] + out_second)
        if every_other and count > 1:
            _rotate_interleaved_row(first, c, s, rotated_first, count)
        elif one_for_all:
            _rotate_row(first, second, c, s, rotated_first, rotated_second, count, 0)
        else:
            _rotate_row(first, second, c, s, rotated_first, rotated_second, count, 1)
        _next_row(index, offsets, axes, outer)
