"""The kernel that numba compiles for NumPy arrays of any strides.

Compiled code is kept on disk, by numba, beside this file or in the user's cache, where
one of the two can be written to.
"""

import platform
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from positional_embeddings._core.namespace import Dtype, host

_MANY = 2**40  # more elements than any row has; numba's arrays must have a length


def threads() -> int:
    """Return the number of threads that NUMBA_NUM_THREADS sets, else that of the cores."""
    count: int = numba.config.NUMBA_NUM_THREADS
    return count


def compiled(dtype: Dtype, ndim: int) -> Any:
    """Return the kernel for arrays of a dtype and a number of axes, None where there is none."""
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
    except RuntimeError:  # numba finds no place to keep it
        return njit(signature, nogil=True)(_rotate)


def _has_half_precision() -> bool:
    """Tell whether the processor converts float16; LLVM would call a function that is not there."""
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
    """Return a number to compute with: a float32 for a uint16 that holds a float16."""
    if value != types.uint16:
        return value(value), lambda _context, _builder, _signature, arguments: arguments[0]

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(value), code


@intrinsic
def _narrow(_context: Any, value: Any, like: Any) -> Any:
    """Return a number to store beside `like`: a uint16 that holds a float16 where that is one."""
    if like != types.uint16:
        return value(value, like), lambda _context, _builder, _signature, arguments: arguments[0]

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return like(value, like), code


@njit
def _row(array: Any, offset: int) -> Any:
    """Return the elements that follow each other from so many bytes on."""
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
def _rotate_interleaved_row(row: Any, cos: Any, sin: Any, turned: Any, count: int) -> None:
    for i in range(count):
        a, b = _wide(row[2 * i]), _wide(row[2 * i + 1])
        c, s = cos[i], sin[i]
        turned[2 * i] = _narrow(a * c - b * s, row[0])
        turned[2 * i + 1] = _narrow(b * c + a * s, row[0])


@njit
def _sort(axes: Any) -> None:
    """Sort rows of lengths and steps: axes of length 1, then from far steps in x to near ones."""
    for i in range(1, len(axes)):
        for j in range(i, 0, -1):
            before, after = axes[j - 1], axes[j]
            if before[0] == 1 or (after[0] > 1 and abs(before[1]) >= abs(after[1])):
                break
            for k in range(axes.shape[1]):
                before[k], after[k] = after[k], before[k]


def _rotate(  # pragma: no cover - compiled
    x: Any,
    cos: Any,
    sin: Any,
    out: Any,
    axis: int,
    interleaved: bool,  # noqa: FBT001
) -> None:
    """Write each pair of x, turned, to out. The tables have the axes of x, some of length 1."""
    pairs = cos.shape[axis]
    to_second = 1 if interleaved else pairs
    x_second, out_second = to_second * x.strides[axis], to_second * out.strides[axis]

    # For each axis: its length, and the bytes of a step in x, cos, sin and out.
    axes = host.empty((x.ndim, 5), host.int64)
    for i in range(x.ndim):
        step = 2 if interleaved and i == axis else 1
        axes[i, 0] = pairs if i == axis else x.shape[i]
        axes[i, 1] = step * x.strides[i]
        axes[i, 2] = 0 if cos.shape[i] == 1 else cos.strides[i]
        axes[i, 3] = 0 if sin.shape[i] == 1 else sin.strides[i]
        axes[i, 4] = step * out.strides[i]
    _sort(axes)

    # Rows whose elements follow each other are turned by vector instructions; of any
    # others each element is a row.
    count, x_step, cos_step, sin_step, out_step = axes[-1]
    size, table_size = x.itemsize, cos.itemsize
    side_by_side = x_step == size and out_step == size
    every_other = x_step == out_step == 2 * size and x_second == out_second == size
    one_by_one = cos_step == table_size and sin_step == table_size
    one_for_all = cos_step == 0 and sin_step == 0
    inner = x.ndim - 1
    if not ((side_by_side and (one_by_one or one_for_all)) or (every_other and one_by_one)):
        count = 1
        inner = x.ndim

    rows = 1
    for i in range(inner):
        rows *= axes[i, 0]
    place = host.zeros(x.ndim, host.int64)
    at = host.zeros(5, host.int64)
    for _ in range(rows):
        c, s = _row(cos, at[2]), _row(sin, at[3])
        first, rotated_first = _row(x, at[1]), _row(out, at[4])
        second, rotated_second = _row(x, at[1] + x_second), _row(out, at[4] + out_second)
        if every_other and count > 1:
            _rotate_interleaved_row(first, c, s, rotated_first, count)
        elif one_for_all:
            _rotate_row(first, second, c, s, rotated_first, rotated_second, count, 0)
        else:
            _rotate_row(first, second, c, s, rotated_first, rotated_second, count, 1)
        # On to the next row, as an odometer counts.
        for i in range(inner - 1, -1, -1):
            place[i] += 1
            steps = 1 if place[i] < axes[i, 0] else 1 - axes[i, 0]
            for k in range(1, 5):
                at[k] += steps * axes[i, k]
            if steps == 1:
                break
            place[i] = 0
