"""Products of CuPy's arrays as they lie in memory, by cuBLAS."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, Namespace, np

# cudaDataType_t
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
# Matrices of a call. For more, devices have returned wrong products (PyTorch issues 25241, 45724).
_MAX_MATRICES = 63 * 1024


class Axis(NamedTuple):
    """An axis of a product, and how far apart its neighbours are in each array, in numbers."""

    length: int = 1
    rows: int = 0
    table: int = 0
    out: int = 0


class Leading(NamedTuple):
    """Layout of a matrix for cuBLAS."""

    transposed: int  # whether its columns are contiguous, not its rows
    step: int  # distance of neighbouring columns or rows


def gemm(
    rows: Array, table: Array, out: Array, backend: Backend, alpha: float = 1.0, beta: float = 0.0
) -> None:
    """Write ``alpha * rows @ table + beta * out`` to `out`.

    `out` has all axes of both operands, and contiguous rows. It is float32 for float16 and
    bfloat16, which cuBLAS adds up in float32. Operands are copied if they are not `as_matrices`.
    Rows with one table, such as queries of heads that share keys, are rows of one matrix. One call
    of cuBLAS covers the longest other axis; each index of the remaining axes is a call.
    """
    if out.size == 0:
        return
    inner, columns = table.shape[-2:]
    if inner == 0:
        out[...] = out * beta if beta else 0.0
        return
    axes = _merged_axes(rows, table, out)
    row = axes.pop() if axes and axes[-1].table == 0 else Axis()
    row_operand = _leading((row.length, inner), (row.rows, steps_of(rows)[-1]))
    table_operand = _leading((inner, columns), steps_of(table)[-2:])
    if row_operand is None or table_operand is None:
        if row_operand is None and not rows.flags.c_contiguous:
            rows = rows.copy(order="C")
        else:
            table = table.copy(order="C")
        gemm(rows, table, out, backend, alpha, beta)
        return
    # cuBLAS does not document negative steps from matrix to matrix.
    axes.sort(key=lambda axis: (min(axis) >= 0, axis))
    batch = axes.pop() if axes and min(axes[-1]) >= 0 else Axis()
    # Numbers of the host, which are read before the call returns.
    factors = np.asarray([alpha, beta], dtype=dtype_name(out.dtype))
    handle, cublas = _handle_and_library()
    in_double = dtype_name(out.dtype) == "float64"
    axes.append(batch._replace(length=1))
    firsts = range(0, batch.length, _MAX_MATRICES)
    for indices in product(*(range(axis.length) for axis in axes[:-1]), firsts):
        operands = []
        # Matrices of cuBLAS are column-major, so the table is the first operand.
        for name, array in (("table", table), ("rows", rows), ("out", out)):
            steps = (i * getattr(axis, name) for i, axis in zip(indices, axes, strict=True))
            start = backend.address(array) + sum(steps) * array.itemsize
            operands.append((start, _TYPES[dtype_name(array.dtype)]))
        cublas.gemmStridedBatchedEx(
            handle,
            *(table_operand.transposed, row_operand.transposed, columns, row.length, inner),
            factors.ctypes.data,
            *(*operands[0], table_operand.step, batch.table),
            *(*operands[1], row_operand.step, batch.rows),
            factors.ctypes.data + factors.itemsize,
            *(*operands[2], max(row.out, columns), batch.out),
            min(batch.length - indices[-1], _MAX_MATRICES),
            cublas.CUBLAS_COMPUTE_64F if in_double else cublas.CUBLAS_COMPUTE_32F,
            cublas.CUBLAS_GEMM_DEFAULT,
        )


def as_matrices(array: Array) -> Array:
    """Return an array, copied if neither of its last two axes is contiguous."""
    is_read = _leading(array.shape[-2:], steps_of(array)[-2:]) is not None
    return array if is_read else array.copy(order="C")


def steps_of(array: Array) -> list[int]:
    """Return the stride of each axis in numbers; 0 where an axis broadcasts."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [0 if n == 1 else stride // array.itemsize for n, stride in pairs]


def _merged_axes(rows: Array, table: Array, out: Array) -> list[Axis]:
    """Return the axes of `out` except the last one; adjacent axes in memory are merged."""
    table_operand = [*steps_of(table)[:-2], 0]
    merged: list[Axis] = []
    for length, *steps in zip(out.shape[:-1], steps_of(rows), table_operand, steps_of(out)):  # noqa: B905
        if length == 1:
            continue
        if merged and list(merged[-1][1:]) == [length * step for step in steps]:
            length *= merged.pop().length  # noqa: PLW2901
        merged.append(Axis(length, *steps))
    return merged


def _leading(lengths: Sequence[int], steps: Sequence[int]) -> Leading | None:
    """Return the layout of a matrix, None if neither its rows nor its columns are contiguous."""
    for transposed, order in enumerate((slice(None), slice(None, None, -1))):
        (count, length), (step, inner) = lengths[order], steps[order]
        if (length == 1 or inner == 1) and (count == 1 or step >= length):
            return Leading(transposed, max(step, length))
    return None


def _handle_and_library() -> tuple[int, Namespace]:
    """Return the handle of cuBLAS for the current device and stream, and its functions."""
    from cupy.cuda.device import get_cublas_handle  # noqa: PLC0415
    from cupy_backends.cuda.libs import cublas  # noqa: PLC0415

    return get_cublas_handle(), cublas
