"""Rotation of CuPy arrays by vectors of 16 bytes, or pair by pair if these are not aligned."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

from positional_embeddings.angles.pairs import split_pairs
from positional_embeddings.arrays.cuda import OPTIONS, cuda_text
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.rotary.kernels.merge_axes import Sizes, merged_axes

NUMBER_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
DTYPES = tuple(NUMBER_BYTES)
INT32_LIMIT = 2**31  # the first index that needs 64 bits
VECTOR_BYTES = 16  # of a load or store of a thread
BLOCK_THREADS = 256
MAX_THREADS_Z = 64  # of a block, in CUDA
MAX_BLOCKS_YZ = 65535  # of a grid along y and along z, in CUDA
# Threads that occupy a large GPU, such as 132 multiprocessors of 2,048 threads. With more work,
# each thread rotates several repeats by the angles that it has loaded: the angles of a pair of
# float16 have the size of the pair before and after the rotation.
BUSY_THREADS = 2**18
MAX_REPEATS = 4


def rotate_cupy(x: Array, cos: Array, sin: Array, out: Array, plan: Any, sign: int) -> None:
    """Rotate `x` into `out`, which may be `x`, on the current device."""
    if x.size == 0:
        return
    axis, layout = plan.axis, plan.layout
    arrays = x, out, cos, sin
    dtypes, shapes = (dtype_name(x.dtype), dtype_name(cos.dtype)), (x.shape, cos.shape)
    strides = tuple([array.strides for array in arrays])
    addresses = tuple([array.data.ptr % VECTOR_BYTES for array in arrays])
    launch = _launch(dtypes, shapes, strides, addresses, axis, layout)
    if launch is None:
        pair, out_pair = (split_pairs(array, axis, layout, cos.shape[axis]) for array in (x, out))
        # The inverse swaps the features of a pair.
        elementwise_kernel()(*pair[::sign], cos, sin, *out_pair[::sign])
    else:
        kernel = _raw_kernel(*launch.kinds, sign)
        kernel(launch.grid, launch.block, (*arrays, launch.traversal))


class Launch(NamedTuple):
    """Launch parameters of a rotation by vectors."""

    kinds: tuple[str | int, ...]  # arguments of `raw_source` without the sign
    grid: tuple[int, int, int]  # blocks
    block: tuple[int, int, int]  # threads
    traversal: HostArray  # struct Traversal


@cache
def elementwise_kernel() -> Any:
    """Return the kernel that rotates pair by pair."""
    import cupy  # noqa: PLC0415

    return cupy.ElementwiseKernel(
        "T first, T second, C cos, C sin",
        "T rotated_first, T rotated_second",
        "rotate_pair(first, second, cos, sin, rotated_first, rotated_second)",
        "positional_embeddings_rotate",
        preamble=cuda_text("rotary/kernels/rotate_pair.cu"),
        options=OPTIONS,
    )


@cache
def _raw_kernel(*kinds: Any) -> Any:
    import cupy  # noqa: PLC0415

    return cupy.RawKernel(raw_source(*kinds), "positional_embeddings_rotate_vectors", OPTIONS)


def raw_source(number: str, angle: str, index: str, *constants: int) -> str:
    """Return the source of the kernel that rotates by vectors."""
    names = "NUMBER", "ANGLE", "INDEX", "SIDE_BY_SIDE", "ANGLE_STEP", "ANGLE_ALIGNMENT", "SIGN"
    definitions = dict(zip(names, (number, angle, index, *constants), strict=True))
    files = (f"rotary/kernels/{name}.cu" for name in ("rotate_pair", "rotate_vectors"))
    return cuda_text(*files, **definitions)


@lru_cache(maxsize=256)
def _launch(
    dtypes: tuple[str, str], shapes: Sizes, strides: Sizes, addresses: Any, axis: int, layout: str
) -> Launch | None:
    """Return the launch of a rotation by vectors, or None if the memory layout does not allow it.

    Adjacent numbers have to be the features of a row, or one feature along another axis, such as
    a batch. `shapes` are the shapes of `x` and the tables; `addresses` are modulo 16.
    """
    axes = merged_axes(shapes, strides, axis, layout)
    number, angle = (NUMBER_BYTES[dtype] for dtype in dtypes)
    if angle != max(number, 4) or not axes:
        return None
    # Columns are x, out, cos and sin. An axis of length 1 replaces missing axes.
    lengths = np.asarray([length for length, *_ in axes] + [1])
    steps = np.asarray([step for _, *step in axes] + [[0] * 4])
    sizes = np.repeat([number, angle], 2)
    second_offset = 1 if layout == "interleaved" else shapes[1][axis]
    seconds = np.asarray([second_offset * step[axis] for step in strides[:2]])

    # A vector holds complete pairs if their features are adjacent, else first or second features.
    side_by_side = int((seconds == sizes[:2]).all() and steps[0, 0] == 2 * sizes[0])
    angle_step = int(steps[0, 2] != 0)
    pairs = int(VECTOR_BYTES // sizes[0] // (1 + side_by_side))
    adjacent = sizes * [1 + side_by_side, 1 + side_by_side, angle_step, angle_step]
    vectors = np.clip(pairs * adjacent, sizes, VECTOR_BYTES)
    # Vectors of features start at multiples of their size; angles may be loaded one by one.
    starts = np.asarray([addresses, *steps[1:]]) % vectors
    alignment = int(angle if starts[:, 2:].any() else vectors[2])
    order = _order(steps[:-1, 2:].any(axis=1).tolist())
    if (steps[0] != adjacent).any() or lengths[0] % pairs or starts[:, :2].any():
        return None
    if order is None or (not side_by_side and (seconds % VECTOR_BYTES).any()):
        return None

    lengths[0] //= pairs
    steps[0] *= pairs
    lengths, steps, seconds = lengths[order], steps[order] // sizes, seconds // sizes[:2]
    grid, block, parts = _grid(*lengths.tolist())
    max_offset = (lengths[:, None] * abs(steps)).sum(axis=0).max() + abs(seconds).max()
    index = "int32" if max_offset < INT32_LIMIT else "int64"
    traversal = [*np.column_stack([lengths, steps]).ravel(), parts, *seconds]
    struct = np.asarray(traversal, dtype=index)
    kinds = *dtypes, index, side_by_side, angle_step, alignment
    return Launch(kinds, grid, block, struct.view(f"V{struct.nbytes}"))


def _order(has_angles: list[bool]) -> list[int] | None:
    """Return the axes of vectors, rows, groups and repeats, or None if there are more axes.

    A missing axis is -1. Repeats have the same angles.
    """
    outer = list(range(1, len(has_angles)))
    repeated = [a for a in outer if not has_angles[a]]
    repeats = repeated[-1] if repeated and (repeated[-1] > 1 or len(outer) > 2) else -1
    rows_and_groups = [a for a in outer if a != repeats]
    return [0, *[*rows_and_groups, -1, -1][:2], repeats] if len(rows_and_groups) <= 2 else None


def _grid(
    vectors: int, rows: int, groups: int, repeats: int
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Return the blocks of a grid, the threads of a block, and the number of blocks per row."""
    x = min(vectors, BLOCK_THREADS)
    y = min(rows, BLOCK_THREADS // x)
    z = min(groups, BLOCK_THREADS // (x * y), MAX_THREADS_Z)
    parts = -(-vectors // x)
    along_x, along_y = parts * -(-rows // y), min(-(-groups // z), MAX_BLOCKS_YZ)
    threads = along_x * along_y * x * y * z * repeats
    along_z = -(-repeats // max(1, min(MAX_REPEATS, threads // BUSY_THREADS)))
    return (along_x, along_y, min(along_z, MAX_BLOCKS_YZ)), (x, y, z), parts
