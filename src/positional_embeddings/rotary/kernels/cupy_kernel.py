"""Rotation of CuPy arrays: by vectors of 16 bytes where they fit, else pair by pair."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.rotary.kernels.merge_axes import Sizes, merged_axes
from positional_embeddings.rotary.layouts import halves

# A product is not fused with the sum that follows: NumPy rounds it.
OPTIONS = ("--fmad=false",)

_PAIR_BY_PAIR = """
const C a = static_cast<C>(first), b = static_cast<C>(second), c = cos, s = sin;
rotated_first = static_cast<T>(a * c - b * s);
rotated_second = static_cast<T>(b * c + a * s);
"""

_TYPES = """
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
typedef {} T;  // of x and out
typedef {} C;  // of the tables
typedef {} Index;
const int SIDE_BY_SIDE = {};  // 1 if both numbers of a pair are in one vector
const int ANGLE_STEP = {};  // 0 if all pairs of a vector have one angle
const int ANGLE_ALIGNMENT = {};  // in bytes
const C SIGN = {};  // of the sines: -1 rotates back
"""

# A thread rotates the pairs of one vector of 16 bytes, or of two if the numbers of a pair lie
# apart, in every row that has the same angles (a repeat), which it loads once. A warp is 32 threads
# with consecutive vectors, and then rows, so that it reads and writes whole lines of memory. A
# block is up to 256 threads: along x the vectors of a row, along y rows, along z groups of rows.
# Of a grid, x has the blocks of vectors and rows, which cover all of them; y and z have blocks of
# groups and of repeats, and go on to further ones by a loop where there are more than a grid may
# have. A thread writes nothing but what it has read before, and shares nothing: there are no races.
# Lengths and steps are 64-bit integers where a byte may be 2**31 numbers away.
_BY_VECTORS = """
const int NUMBERS = 16 / sizeof(T);
const int PAIRS = SIDE_BY_SIDE ? NUMBERS / 2 : NUMBERS;
const int ANGLES = ANGLE_STEP ? PAIRS : 1;
const int SECOND = SIDE_BY_SIDE ? 0 : 1;  // which vector has the second numbers

struct Axis { Index length, x, out, cos, sin; };  // with its steps, in numbers
struct Plan { Axis vectors, rows, groups, repeats; Index parts, x_second, out_second; };

template <typename U, int n, int bytes>  // what instructions of so many bytes load or store
struct alignas(bytes) Vector { U at[n]; };

typedef Vector<T, NUMBERS, 16> Numbers;
typedef Vector<C, ANGLES, ANGLE_ALIGNMENT> Angles;

template <typename V, typename U>
__device__ V load(const U* from) { return *reinterpret_cast<const V*>(from); }

extern "C" __global__ void positional_embeddings_rotate_vectors(
    const T* x, T* out, const C* cos, const C* sin, const Plan plan) {
  const Axis &v = plan.vectors, &r = plan.rows, &g = plan.groups, &same = plan.repeats;
  // This number of blocks along x follow each other along the vectors.
  const unsigned parts = plan.parts, block = blockIdx.x / parts, part = blockIdx.x - block * parts;
  const Index i = static_cast<Index>(part) * blockDim.x + threadIdx.x;
  const Index j = static_cast<Index>(block) * blockDim.y + threadIdx.y;
  if (i >= v.length || j >= r.length) return;
  #pragma unroll 1
  for (Index k = blockIdx.y * blockDim.z + threadIdx.z; k < g.length; k += gridDim.y * blockDim.z) {
    const Angles c = load<Angles>(cos + i * v.cos + j * r.cos + k * g.cos);
    const Angles s = load<Angles>(sin + i * v.sin + j * r.sin + k * g.sin);
    #pragma unroll 1  // more would cost divisions
    for (Index l = blockIdx.z; l < same.length; l += gridDim.z) {
      const T* from = x + i * v.x + j * r.x + k * g.x + l * same.x;
      T* to = out + i * v.out + j * r.out + k * g.out + l * same.out;
      Numbers numbers[1 + SECOND];
      numbers[0] = load<Numbers>(from);
      numbers[SECOND] = load<Numbers>(from + SECOND * plan.x_second);
      #pragma unroll
      for (int p = 0; p < PAIRS; p++) {
        T& first = numbers[0].at[SIDE_BY_SIDE ? 2 * p : p];
        T& second = numbers[SECOND].at[SIDE_BY_SIDE ? 2 * p + 1 : p];
        const C a = static_cast<C>(first), b = static_cast<C>(second);
        const C cosine = c.at[ANGLE_STEP * p], sine = SIGN * s.at[ANGLE_STEP * p];
        first = static_cast<T>(a * cosine - b * sine);
        second = static_cast<T>(b * cosine + a * sine);
      }
      // Both have been read before either is written: out may be x.
      *reinterpret_cast<Numbers*>(to) = numbers[0];
      *reinterpret_cast<Numbers*>(to + SECOND * plan.out_second) = numbers[SECOND];
    }
  }
}
"""

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


def rotate_cupy(x: Array, cos: Array, sin: Array, out: Array, rotation: Any, sign: int) -> None:
    """Rotate `x` into `out`, which may be `x`; their device is the current one."""
    if x.size == 0:
        return
    axis, layout = rotation.axis, rotation.layout
    arrays = x, out, cos, sin
    dtypes, shapes = (dtype_name(x.dtype), dtype_name(cos.dtype)), (x.shape, cos.shape)
    strides = tuple([array.strides for array in arrays])
    addresses = tuple([array.data.ptr % VECTOR_BYTES for array in arrays])
    launch = _launch(dtypes, shapes, strides, addresses, axis, layout)
    if launch is None:
        numbers, to = (halves(array, axis, layout, cos.shape[axis]) for array in (x, out))
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
        _PAIR_BY_PAIR,
        "positional_embeddings_rotate",
        options=OPTIONS,
    )


@cache
def _raw_kernel(*kinds: Any) -> Any:
    import cupy  # noqa: PLC0415

    return cupy.RawKernel(raw_source(*kinds), "positional_embeddings_rotate_vectors", OPTIONS)


def raw_source(number: str, angle: str, index: str, *constants: int) -> str:
    """Return the source of the kernel that rotates by vectors, for these types and constants."""
    types = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
    names = [types.get(name, name) for name in (number, angle, index)]
    return _TYPES.format(*names, *constants) + _BY_VECTORS


@lru_cache(maxsize=256)
def _launch(
    dtypes: tuple[str, str], shapes: Sizes, strides: Sizes, addresses: Any, axis: int, layout: str
) -> Launch | None:
    """Return how to rotate by vectors, None if the arrays do not lie in memory as that needs.

    Adjacent have to be the numbers of a row of features, or those of one feature along another
    axis, such as a batch. Shapes are the shapes of `x` and the tables; addresses count modulo 16.
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
    reach = (lengths[:, None] * abs(steps)).sum(axis=0).max() + abs(seconds).max()
    index = "int32" if reach < FIRST_OF_64_BITS else "int64"
    plan = [*np.column_stack([lengths, steps]).ravel(), parts, *seconds]
    struct = np.asarray(plan, dtype=index)
    kinds = *dtypes, index, side_by_side, angle_step, alignment
    return Launch(kinds, grid, block, struct.view(f"V{struct.nbytes}"))


def _order(has_angles: list[bool]) -> list[int] | None:
    """Return which axes are vectors, rows, groups and repeats, -1 if none; None if they are more.

    Repeats have the same angles. The only axis beside the vectors is one of rows.
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
