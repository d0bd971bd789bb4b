// A thread rotates the pairs of one vector of 16 bytes, or of two if the numbers of a pair lie
// apart, in every row that has the same angles (a repeat), which it loads once. A warp is 32
// threads with consecutive vectors, and then rows, so that it reads and writes whole lines of
// memory. A block is up to 256 threads: along x the vectors of a row, along y rows, along z groups
// of rows. Of a grid, x has the blocks of vectors and rows, which cover all of them; y and z have
// blocks of groups and of repeats, and go on to further ones by a loop where there are more than a
// grid may have. A thread writes nothing but what it has read before, and shares nothing: there are
// no races. Lengths and steps are 64-bit integers where a byte may be 2**31 numbers away.

// It follows rotate_pair.cu. cupy_kernel.py defines what it depends on: NUMBER, ANGLE, INDEX,
// SIDE_BY_SIDE (1 if both numbers of a pair are in one vector), ANGLE_STEP (0 if all pairs of a
// vector have one angle), ANGLE_ALIGNMENT (in bytes) and SIGN (of the sines: -1 rotates back).
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>

typedef NUMBER T;  // of x and out
typedef ANGLE C;   // of the tables
typedef INDEX Index;

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
        const C cosine = c.at[ANGLE_STEP * p], sine = SIGN * s.at[ANGLE_STEP * p];
        rotate_pair(first, second, cosine, sine, first, second);
      }
      // Both have been read before either is written: out may be x.
      *reinterpret_cast<Numbers*>(to) = numbers[0];
      *reinterpret_cast<Numbers*>(to + SECOND * plan.out_second) = numbers[SECOND];
    }
  }
}
