"""Products of CuPy's arrays as they lie in memory, by cuBLAS."""

from itertools import product
from typing import NamedTuple

from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, np

# cudaDataType_t
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}


class Axis(NamedTuple):
    """An axis of a product, and how far apart its neighbours are in each array, in numbers."""

    length: int
    rows: int
    table: int
    out: int


def multiply(
    rows: Array, table: Array, out: Array, alpha: float = 1.0, beta: float = 0.0
) -> None:
    """Write ``alpha * rows @ table + beta * out`` to `out`.

    `out` has all axes of both, and contiguous columns. It is float32 for operands in half
    precision, which cuBLAS adds up in float32. An operand is copied only if neither axis of its
    matrices is contiguous. Rows that meet one table, such as those of heads that share keys, are
    rows of one matrix. Of the other axes cuBLAS goes along the longest; each place on the rest is
    a call.
    """
    if out.size == 0:
        return
    inner, columns = table.shape[-2:]
    if inner == 0:
        out[...] = out * beta if beta else 0.0
        return
    axes = _merged_axes(rows, table, out)
    row = axes.pop() if axes and axes[-1].table == 0 else Axis(1, 0, 0, 0)
    # cuBLAS has columns first, so that the table comes first, and both are transposed.
    of_table = _leading((inner, columns), _steps(table)[-2:])
    of_rows = _leading((row.length, inner), (row.rows, _steps(rows)[-1]))
    if of_table is None or of_rows is None:
        table = table.copy(order="C") if of_table is None else table
        rows = rows.copy(order="C") if of_rows is None else rows
        multiply(rows, table, out, alpha, beta)
        return
    axes.sort()
    batch = axes.pop() if axes else Axis(1, 0, 0, 0)
    operand, result = _TYPES[dtype_name(table.dtype)], _TYPES[dtype_name(out.dtype)]
    # Numbers of the host, which are read before the call returns.
    factors = np.asarray([alpha, beta], dtype=dtype_name(out.dtype))

    from cupy.cuda.device import get_cublas_handle  # noqa: PLC0415
    from cupy_backends.cuda.libs import cublas  # noqa: PLC0415

    in_double = result == _TYPES["float64"]
    for place in product(*(range(axis.length) for axis in axes)):
        starts = [
            array.data.ptr + array.itemsize * sum(i * axis[n] for i, axis in zip(place, axes, strict=True))
            for n, array in enumerate((rows, table, out), 1)
        ]
        cublas.gemmStridedBatchedEx(
            get_cublas_handle(),
            *(of_table.transposed, of_rows.transposed, columns, row.length, inner),
            factors.ctypes.data,
            *(starts[1], operand, of_table.step, batch.table),
            *(starts[0], operand, of_rows.step, batch.rows),
            factors.ctypes.data + factors.itemsize,
            *(starts[2], result, max(row.out, columns), batch.out),
            batch.length,
            cublas.CUBLAS_COMPUTE_64F if in_double else cublas.CUBLAS_COMPUTE_32F,
            cublas.CUBLAS_GEMM_DEFAULT,
        )


def _steps(array: Array) -> list[int]:
    """Return how far apart the neighbours on each axis are, 0 where an axis broadcasts."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [0 if n == 1 else step // array.itemsize for n, step in pairs]


def _merged_axes(rows: Array, table: Array, out: Array) -> list[Axis]:
    """Return the axes of `out` but for its columns; axes that go on in one another are one."""
    of_table = [*_steps(table)[:-2], 0]
    merged: list[Axis] = []
    for axis in map(Axis, out.shape, _steps(rows), of_table, _steps(out)[:-1]):
        if axis.length == 1:
            continue
        if merged and merged[-1][1:] == tuple(axis.length * step for step in axis[1:]):
            axis = axis._replace(length=axis.length * merged.pop().length)  # noqa: PLW2901
        merged.append(axis)
    return merged


class Leading(NamedTuple):
    """How cuBLAS is to read a matrix."""

    transposed: int  # whether its rows are not contiguous, but its columns are
    step: int  # from one of them to the next


def _leading(lengths: tuple[int, int], steps: list[int] | tuple[int, int]) -> Leading | None:
    """Return how to read a matrix, None if neither its rows nor its columns are contiguous."""
    for transposed in (0, 1):
        (count, length), (step, inner) = lengths, steps
        if transposed:
            count, length, step, inner = length, count, inner, step
        if (length == 1 or inner == 1) and (count == 1 or step >= length):
            return Leading(transposed, max(step, length))
    return None
