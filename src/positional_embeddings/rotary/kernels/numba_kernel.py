"""Rotation of strided NumPy arrays by loops that numba compiles.

Numba's own threads are not used: its OpenMP layer kills a forked child process, and its
workqueue layer aborts the process if two threads call it concurrently. The loops run on one thread
and release the GIL, so that Python threads can share the rows of an array. Numba caches the
compiled code on disk, next to this file or in the user's cache, if either is writable.
"""

import platform
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, TypeAlias

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from positional_embeddings.arrays import threads
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, np
from positional_embeddings.rotary.kernels.merge_axes import Sizes, merged_axes

NumbaType: TypeAlias = Any
Value: TypeAlias = Any  # of LLVM, or an object that makes one

# Types of features and angles, by the size of a feature in bytes. Numba has no float16.
_TYPES = {
    2: (types.uint16, types.float32),
    4: (types.float32, types.float32),
    8: (types.float64, types.float64),
}
# `benchmarks/bench.py` chose all constants.
# Pairs of a vector: two cache lines of float32, if a row is a multiple of that. Adjacent features
# of a pair are shuffled, which is slow for long vectors.
LANES, FEWER_LANES = 32, 8
# Size of the part of the tables that stays cached for all its rows.
CACHED_TABLE_BYTES = 2**21
# Short axes are merged up to this number of pairs; threads share longer ones.
MAX_ROW_PAIRS = 1024
# Size of `x` per thread for which a further thread pays.
THREAD_BYTES = 2**20
# Alignment of vectors that are stored past the caches.
ALIGNED_BYTES = 16
# Distance of prefetches, as processors prefetch within a page only, and size of a cache line.
AHEAD_BYTES, LINE_BYTES = 2048, 64


def has_kernel(dtype: Dtype) -> bool:
    """Return whether there is a kernel for a dtype."""
    if not dtype.isnative or numba.config.DISABLE_JIT:
        return False
    # If the target does not convert float16, LLVM calls a missing function. NUMBA_CPU_NAME and
    # NUMBA_CPU_FEATURES choose the target.
    is_arm = platform.machine().lower() in ("arm64", "aarch64")
    chosen = numba.config.CPU_FEATURES
    features = llvm.get_host_cpu_features().flatten() if chosen is None else chosen
    has_half = is_arm or "+f16c" in features.split(",")
    return dtype.char in "fd" or (dtype.char == "e" and has_half)


def rotate_numpy(
    x: Array, cos: Array, sin: Array, out: Array, plan: Any, sign: int, *, stream: bool = False
) -> None:
    """Rotate `x` into `out`, which may be `x`; `stream` bypasses caches for adjacent features."""
    if x.size == 0:
        return
    sin = sin if sign > 0 else -sin
    if x.itemsize == 2:
        x, out = x.view(np.uint16), out.view(np.uint16)
    shapes, strides = (x.shape, cos.shape), (x.strides, out.strides, cos.strides, sin.strides)
    # Features that are not contiguous would take three times as long past the caches.
    stream = stream and out.strides[plan.axis] == out.itemsize
    stream = stream and out.ctypes.data % ALIGNED_BYTES == 0
    kernel, loops, pieces = _traversal(x.itemsize, shapes, strides, plan.axis, plan.layout, stream)
    rotate = partial(kernel, x, cos, sin, out, loops)
    if len(pieces) == 1:
        rotate(*pieces[0])
    else:
        threads.run_in_threads(lambda rows: rotate(*rows), pieces, len(pieces))


class Traversal(NamedTuple):
    """Kernel of a rotation, and the loops over its arrays: both depend on shapes and strides."""

    kernel: Callable[..., None]
    loops: HostArray  # length of each axis, and its steps in x, out, cos and sin
    pieces: list[tuple[int, int]]  # start and stop of the rows of each thread


@lru_cache(maxsize=256)
@finished_before_forks
def _traversal(
    size: int,
    shapes: Sizes,
    strides: Sizes,
    axis: int,
    layout: str,
    stream: bool,  # noqa: FBT001
) -> Traversal:
    """Return the traversal of arrays of these shapes and strides, in bytes."""
    axes = merged_axes(shapes, strides, axis, layout, MAX_ROW_PAIRS)
    axes += [(1, 0, 0, 0, 0)] * (3 - len(axes))
    # The innermost axis has the two features of a pair.
    pair_step = 1 if layout == "interleaved" else shapes[1][axis]
    x_second, out_second = pair_step * strides[0][axis], pair_step * strides[1][axis]

    # Adjacent pairs are rotated by vectors, all other pairs one by one.
    count, x_step, out_step, *angle_steps = axes[0]
    side_by_side = x_second == out_second == size
    lanes = FEWER_LANES if side_by_side or count % LANES else LANES
    one_angle = angle_steps == [0, 0]
    adjacent = x_step == out_step == (2 * size if side_by_side else size)
    adjacent &= one_angle or angle_steps == [max(size, 4)] * 2
    # Vectors that are stored past the caches are aligned.
    starts = [*(step[2] for step in axes[1:]), 0 if side_by_side else out_second]
    stream &= not any(start % ALIGNED_BYTES for start in starts)
    kind = (lanes, side_by_side, one_angle, stream) if adjacent else (1, False, False, False)

    # If an outer axis repeats the angles of these rows, the rows are split into parts. Each part is
    # rotated along all of that axis, so that its tables stay cached.
    (all_rows, *row_steps), outer = axes[1], prod(length for length, *_ in axes[2:])
    repeats = row_steps[2:] != [0, 0] and axes[2][0] > 1 and axes[2][3:] == (0, 0)
    max_rows = max(1, CACHED_TABLE_BYTES // (2 * count * max(size, 4))) if repeats else all_rows
    part = min(all_rows, max_rows)
    parts = all_rows, *(part * step for step in row_steps)
    inner = (part, *row_steps), axes[0], (2, x_second, out_second, 0, 0)
    loops = np.asarray([parts, *axes[:1:-1], *inner], dtype=np.int64)

    rows = part * outer * -(-all_rows // part)
    max_pieces = min(numba.config.NUMBA_NUM_THREADS, prod(shapes[0]) * size // THREAD_BYTES)
    count = max(1, min(rows, max_pieces))
    pieces = list(pairwise(rows * i // count for i in range(count + 1)))
    return Traversal(compiled(size, len(shapes[0]), *kind), loops, pieces)


@cache
def compiled(size: int, ndim: int, *kind: Any) -> Any:
    """Return the compiled loops for the size of a feature and the number of axes."""
    numbers, angles = _TYPES[size]
    read = types.Array(numbers, ndim, "A", readonly=True)
    table = types.Array(angles, ndim, "A", readonly=True)
    write = types.Array(numbers, ndim, "A")
    loops = types.Array(types.int64, 2, "C")
    arguments = read, table, table, write, loops, types.int64, types.int64
    signature, rotate = types.void(*arguments), _loops(*kind)
    try:
        return njit(signature, nogil=True, error_model="numpy", cache=True)(rotate)
    except RuntimeError:  # neither cache directory is writable
        return njit(signature, nogil=True, error_model="numpy")(rotate)


def _loops(lanes: int, side_by_side: bool, one_angle: bool, stream: bool) -> Any:  # noqa: FBT001
    """Return loops over rows of pairs, by vectors of `lanes` pairs."""
    last_part = 2 if stream and not side_by_side else int(stream)

    def rotate(  # pragma: no cover - compiled
        x: Array, cos: Array, sin: Array, out: Array, loops: HostArray, start: int, stop: int
    ) -> None:
        rows, x_row, out_row, cos_row, sin_row = loops[-3]
        count, x_step, out_step, cos_step, sin_step = loops[-2]
        _, x_second, out_second, _, _ = loops[-1]
        for block in range(start // rows, -(-stop // rows)):
            # Addresses are unsigned; unsigned plus signed would be a float.
            x_block, out_block = np.int64(x.ctypes.data), np.int64(out.ctypes.data)
            cos_block, sin_block = np.int64(cos.ctypes.data), np.int64(sin.ctypes.data)
            remainder, index = block, 0
            for axis in range(len(loops) - 4, -1, -1):
                index, remainder = remainder % loops[axis, 0], remainder // loops[axis, 0]
                x_block += index * loops[axis, 1]
                out_block += index * loops[axis, 2]
                cos_block += index * loops[axis, 3]
                sin_block += index * loops[axis, 4]
            # The last part of the rows may be shorter.
            last = min(stop - block * rows, rows, loops[0, 0] - index * rows)
            for row in range(max(start - block * rows, 0), last):
                a, b = x_block + row * x_row, out_block + row * out_row
                c, s = cos_block + row * cos_row, sin_block + row * sin_row
                if last_part == 2:
                    # All first halves before the second, so that complete cache lines are stored.
                    for i in range(0, count // lanes * lanes, lanes):
                        first, to = a + i * x_step, b + i * out_step
                        cosine, sine = c + i * cos_step, s + i * sin_step
                        addresses = first, first + x_second, to, to + out_second, cosine, sine
                        _rotate_pairs(x, cos, lanes, side_by_side, one_angle, 1, addresses)
                for _ in range(count // lanes):
                    addresses = a, a + x_second, b, b + out_second, c, s
                    _rotate_pairs(x, cos, lanes, side_by_side, one_angle, last_part, addresses)
                    a, b = a + lanes * x_step, b + lanes * out_step
                    c, s = c + lanes * cos_step, s + lanes * sin_step
                for _ in range(count % lanes):
                    addresses = a, a + x_second, b, b + out_second, c, s
                    _rotate_pairs(x, cos, 1, side_by_side, one_angle, 0, addresses)
                    a, b, c, s = a + x_step, b + out_step, c + cos_step, s + sin_step

    return rotate


@intrinsic(prefer_literal=True)
def _rotate_pairs(
    _context: Value,
    x: NumbaType,
    cos: NumbaType,
    lanes: NumbaType,
    side_by_side: NumbaType,
    one_angle: NumbaType,
    part: NumbaType,
    addresses: NumbaType,
) -> Value:
    """Rotate a vector of pairs.

    The addresses are of the first and second features of `x` and of `out`, of cosines and sines.
    """
    n = lanes.literal_value

    def code(context: Value, builder: Value, _signature: Value, arguments: Value) -> Value:
        angle = context.get_value_type(cos.dtype)
        number = ir.HalfType() if x.dtype == types.uint16 else angle
        a, a2, b, b2, c, s = cgutils.unpack_tuple(builder, arguments[-1])

        def load(address: Value, dtype: Dtype, count: int) -> Value:
            pointer = builder.inttoptr(address, ir.VectorType(dtype, count).as_pointer())
            vector = builder.load(pointer, align=context.get_abi_sizeof(dtype))
            return vector if dtype == angle else builder.fpext(vector, ir.VectorType(angle, count))

        def store(vector: Value, address: Value) -> None:
            vector_type = ir.VectorType(number, vector.type.count)
            vector = vector if number == angle else builder.fptrunc(vector, vector_type)
            pointer = builder.inttoptr(address, vector_type.as_pointer())
            align = ALIGNED_BYTES if part.literal_value else context.get_abi_sizeof(number)
            stored = builder.store(vector, pointer, align=align)
            if part.literal_value:
                metadata = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                stored.set_metadata("nontemporal", metadata)

        def fetch(address: Value, length: int) -> None:
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], function)
            flags = [word(0), word(3), word(1)]
            for offset in range(AHEAD_BYTES, AHEAD_BYTES + length, LINE_BYTES):
                pointer = builder.inttoptr(builder.add(address, address.type(offset)), byte)
                builder.call(prefetch, [pointer, *flags])

        def pick(first: Value, second: Value, lanes: list[int]) -> Value:
            mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
            return builder.shuffle_vector(first, second, mask)

        length = n * context.get_abi_sizeof(number)
        second = builder.add(a, a.type(length)) if side_by_side.literal_value else a2
        for address in (a, second) if part.literal_value == 1 else ():
            fetch(address, length)
        if side_by_side.literal_value:
            pair = load(a, number, 2 * n)
            first, second = (pick(pair, pair, [*range(i, 2 * n, 2)]) for i in range(2))
        else:
            first, second = load(a, number, n), load(a2, number, n)
        angles = 1 if one_angle.literal_value else n
        cosine, sine = (load(table, angle, angles) for table in (c, s))
        if angles < n:
            cosine, sine = (pick(table, table, [0] * n) for table in (cosine, sine))
        # Each product is rounded, as in NumPy.
        rotated_first = builder.fsub(builder.fmul(first, cosine), builder.fmul(second, sine))
        rotated_second = builder.fadd(builder.fmul(second, cosine), builder.fmul(first, sine))
        if side_by_side.literal_value:
            store(pick(rotated_first, rotated_second, [i + j for i in range(n) for j in (0, n)]), b)
        else:
            # 0 stores both halves; past the caches 1 stores the first one, and 2 the second one.
            if part.literal_value < 2:
                store(rotated_first, b)
            if part.literal_value != 1:
                store(rotated_second, b2)
        return context.get_dummy_value()

    return types.void(x, cos, lanes, side_by_side, one_angle, part, addresses), code
