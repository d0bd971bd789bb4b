// A thread loads the angles of one vector of 16 bytes, or of two if the features of a pair are not
// adjacent. It rotates the vector in every row with these angles (a repeat). The 32 threads of a
// warp have consecutive vectors, then rows, so that memory accesses coalesce. A block has up to 256
// threads: x are the vectors of a row, y rows, z groups of rows. In a grid, x are the blocks of all
// vectors and rows; y and z are blocks of groups and of repeats, with a loop beyond the limits of a
// grid. Threads share no data and write only elements that they have read: there are no races.
// Lengths and steps are 64-bit integers if an offset may reach 2**31 elements.

// It follows rotate_pair.cu. cupy_kernel.py defines NUMBER, ANGLE, INDEX, SIDE_BY_SIDE (1 if both
// features of a pair are in one vector), ANGLE_STEP (0 if all pairs of a vector have one angle),
// ANGLE_ALIGNMENT (in bytes) and SIGN (of the sines: -1 for the inverse).
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>

typedef NUMBER T;  // of x and out
typedef ANGLE C;   // of the tables
typedef INDEX Index;

const int NUMBERS = 16 / sizeof(T);
const int PAIRS = SIDE_BY_SIDE ? NUMBERS / 2 : NUMBERS;
const int ANGLES = ANGLE_STEP ? PAIRS : 1;
const int SECOND = SIDE_BY_SIDE ? 0 : 1;  // index of the vector of the second features

struct Axis { Index length, x, out, cos, sin; };  // steps are in elements
struct Traversal { Axis vectors, rows, groups, repeats; Index parts, x_second, out_second; };

template <typename U, int n, int bytes>  // loaded and stored by instructions of this size
struct alignas(bytes) Vector { U at[n]; };

typedef Vector<T, NUMBERS, 16> Numbers;
typedef Vector<C, ANGLES, ANGLE_ALIGNMENT> Angles;

template <typename V, typename U>
__device__ V load(const U* from) { return *reinterpret_cast<const V*>(from); }

extern "C" __global__ void positional_embeddings_rotate_vectors(
    const T* x, T* out, const C* cos, const C* sin, const Traversal traversal) {
  const Axis &v = traversal.vectors, &r = traversal.rows;
  const Axis &g = traversal.groups, &repeats = traversal.repeats;
  // `parts` consecutive blocks along x cover the vectors of a row.
  const unsigned parts = traversal.parts;
  const unsigned block = blockIdx.x / parts, part = blockIdx.x - block * parts;
  const Index i = static_cast<Index>(part) * blockDim.x + threadIdx.x;
  const Index j = static_cast<Index>(block) * blockDim.y + threadIdx.y;
  if (i >= v.length || j >= r.length) return;
  #pragma unroll 1
  for (Index k = blockIdx.y * blockDim.z + threadIdx.z; k < g.length; k += gridDim.y * blockDim.z) {
    const Angles c = load<Angles>(cos + i * v.cos + j * r.cos + k * g.cos);
    const Angles s = load<Angles>(sin + i * v.sin + j * r.sin + k * g.sin);
    #pragma unroll 1  // unrolling would cost divisions
    for (Index l = blockIdx.z; l < repeats.length; l += gridDim.z) {
      const T* from = x + i * v.x + j * r.x + k * g.x + l * repeats.x;
      T* to = out + i * v.out + j * r.out + k * g.out + l * repeats.out;
      Numbers numbers[1 + SECOND];
      numbers[0] = load<Numbers>(from);
      numbers[SECOND] = load<Numbers>(from + SECOND * traversal.x_second);
      #pragma unroll
      for (int p = 0; p < PAIRS; p++) {
        T& first = numbers[0].at[SIDE_BY_SIDE ? 2 * p : p];
        T& second = numbers[SECOND].at[SIDE_BY_SIDE ? 2 * p + 1 : p];
        const C cosine = c.at[ANGLE_STEP * p], sine = SIGN * s.at[ANGLE_STEP * p];
        rotate_pair(first, second, cosine, sine, first, second);
      }
      // Both vectors are read before either is written, as out may be x.
      *reinterpret_cast<Numbers*>(to) = numbers[0];
      *reinterpret_cast<Numbers*>(to + SECOND * traversal.out_second) = numbers[SECOND];
    }
  }
}
