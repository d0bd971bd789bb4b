// What softmax.cu and add_sums.cu begin with: the arguments of a kernel, for a block of queries.
// cupy_kernels.py puts before it what it depends on: NUMBER, GIVEN, SCALE_OF_HALVES and ROW_AXES,
// which counts the axes of the rows of scores: heads, batches and queries.
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>

typedef NUMBER Number;  // of scores, output and state
typedef GIVEN Given;  // of keys and values
typedef long long Index;

// An array that a call does not have is a null pointer. Scores, halves, state and sums have
// consecutive rows, one for each query; the other arrays have the steps of the traversal.
struct Steps { Index row[ROW_AXES], key, feature; };  // in numbers, 0 where an array broadcasts
struct Traversal {
  Index lengths[ROW_AXES], keys, key_features, features;
  Index low, high;  // query i sees the keys from i + low to below i + high at most
  Index continues;  // 1 if there are a state and an output of earlier keys
  Steps mask, bias, sinks, key, value, output, lse;
};
#define ARGUMENTS \
  Number* scores, Given* halves, Number* state, Number* sums, const bool* mask, \
  const Number* bias, const Number* sinks, const Given* key, const Given* value, Number* output, \
  Number* lse, const Number softcap, const Number largest, const Number infinity, \
  const Traversal traversal

// Return the index of the first number of an array for a row of scores.
__device__ Index start_of(const Steps& steps, const Traversal& traversal, Index row) {
  Index start = 0;
  for (int axis = ROW_AXES - 1; axis >= 0; axis--) {
    start += row % traversal.lengths[axis] * steps.row[axis];
    row /= traversal.lengths[axis];
  }
  return start;
}
