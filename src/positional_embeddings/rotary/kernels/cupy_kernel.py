"""Rotation of CuPy arrays: by vectors of 16 bytes where they fit, else pair by pair."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

from positional_embeddings.angles.pairs import split_pairs
from positional_embeddings.arrays.cuda import OPTIONS, cuda_text
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.rotary.kernels.merge_axes import Sizes, merged_axes

NUMBER_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}  # in bytes
DTYPES = tuple(NUMBER_BYTES)
FIRST_OF_64_BITS = 2**31  # the first index of 64 bits
VECTOR_BYTES = 16  # that a thread loads or stores at a time
BLOCK_THREADS = 256
MOST_THREADS_Z = 64  # of a block, by CUDA
MOST_BLOCKS_YZ = 65535  # of a grid along y and along z, by CUDA
# Threads that keep a large GPU busy, such as 132 multiprocessors of 2,048. With more to do, each
# rotates some repeats: the angles of a pair of float16 are as many bytes as the pair, read and
# written, and would come from the cache again for each of them.
BUSY_THREADS = 2**18
MOST_REPEATS = 4


def rotate_cupy(x: Array, cos: Array, sin: Array, out: Array, plan: Any, sign: int) -> None:
    """Rotate `x` into `out`, which may be `x`; their device is the current one."""
    if x.size == 0:
        return
    axis, layout = plan.axis, plan.layout
    arrays = x, out, cos, sin
    dtypes, shapes = (dtype_name(x.dtype), dtype_name(cos.dtype)), (x.shape, cos.shape)
    strides = tuple([array.strides for array in arrays])
    addresses = tuple([array.data.ptr % VECTOR_BYTES for array in arrays])
    launch = _launch(dtypes, shapes, strides, addresses, axis, layout)
    if launch is None:
        numbers, to = (split_pairs(array, axis, layout, cos.shape[axis]) for array in (x, out))
        # Back, by exchanging the numbers of a pair.
        elementwise_kernel()(*numbers[::sign], cos, sin, *to[::sign])
    else:
        kernel = _raw_kernel(*launch.kinds, sign)
        kernel(launch.grid, launch.block, (*arrays, launch.plan))


class Launch(NamedTuple):
    """How to rotate by vectors."""

    kinds: tuple[str | int, ...]  # arguments of `raw_source`, but for the last one
    grid: tuple[int, int, int]  # of blocks
    block: tuple[int, int, int]  # of threads
    plan: HostArray  # the struct Plan


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
    """Return the source of the kernel that rotates by vectors, for these types and constants."""
    names = "NUMBER", "ANGLE", "INDEX", "SIDE_BY_SIDE", "ANGLE_STEP", "ANGLE_ALIGNMENT", "SIGN"
    defined = dict(zip(names, (number, angle, index, *constants), strict=True))
    files = (f"rotary/kernels/{name}.cu" for name in ("rotate_pair", "rotate_vectors"))
    return cuda_text(*files, **defined)


@lru_cache(maxsize=256)
def _launch(
    dtypes: tuple[str, str], shapes: Sizes, strides: Sizes, addresses: Any, axis: int, layout: str
) -> Launch | None:
    """Return how to rotate by vectors, None if the arrays do not lie in memory as that needs.

    Adjacent numbers have to be the features of a row, or one feature along another axis, such as
    a batch. Shapes are the shapes of `x` and the tables; addresses count modulo 16.
    """
    axes = merged_axes(shapes, strides, axis, layout)
    number, angle = (NUMBER_BYTES[dtype] for dtype in dtypes)
    if angle != max(number, 4) or not axes:
        return None
    # Columns are x, out, cos and sin; an axis of length 1 stands for each that is not there.
    lengths = np.asarray([length for length, *_ in axes] + [1])
    steps = np.asarray([step for _, *step in axes] + [[0] * 4])
    sizes = np.repeat([number, angle], 2)
    to_second = 1 if layout == "interleaved" else shapes[1][axis]
    seconds = np.asarray([to_second * step[axis] for step in strides[:2]])

    # One vector has both numbers of its pairs, or one of the first numbers and one of the second.
    side_by_side = int((seconds == sizes[:2]).all() and steps[0, 0] == 2 * sizes[0])
    angle_step = int(steps[0, 2] != 0)
    pairs = int(VECTOR_BYTES // sizes[0] // (1 + side_by_side))
    adjacent = sizes * [1 + side_by_side, 1 + side_by_side, angle_step, angle_step]
    vectors = np.clip(pairs * adjacent, sizes, VECTOR_BYTES)
    # Vectors of numbers begin at multiples of their size; angles may be loaded one by one.
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
    visible_keys = (lengths[:, None] * abs(steps)).sum(axis=0).max() + abs(seconds).max()
    index = "int32" if visible_keys < FIRST_OF_64_BITS else "int64"
    plan = [*np.column_stack([lengths, steps]).ravel(), parts, *seconds]
    struct = np.asarray(plan, dtype=index)
    kinds = *dtypes, index, side_by_side, angle_step, alignment
    return Launch(kinds, grid, block, struct.view(f"V{struct.nbytes}"))


def _order(has_angles: list[bool]) -> list[int] | None:
    """Return which axes are vectors, rows, groups and repeats, -1 if none; None if they are more.

    Repeats have the same angles. Besides the vectors there is only an axis of rows.
    """
    outer = list(range(1, len(has_angles)))
    same = [a for a in outer if not has_angles[a]]
    repeats = same[-1] if same and (same[-1] > 1 or len(outer) > 2) else -1
    others = [a for a in outer if a != repeats]
    return [0, *[*others, -1, -1][:2], repeats] if len(others) <= 2 else None


def _grid(
    vectors: int, rows: int, groups: int, repeats: int
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Return blocks of a grid, threads of a block, and how many blocks the vectors take."""
    x = min(vectors, BLOCK_THREADS)
    y = min(rows, BLOCK_THREADS // x)
    z = min(groups, BLOCK_THREADS // (x * y), MOST_THREADS_Z)
    parts = -(-vectors // x)
    along_x, along_y = parts * -(-rows // y), min(-(-groups // z), MOST_BLOCKS_YZ)
    each = max(1, min(MOST_REPEATS, along_x * along_y * x * y * z * repeats // BUSY_THREADS))
    return (along_x, along_y, min(-(-repeats // each), MOST_BLOCKS_YZ)), (x, y, z), parts
