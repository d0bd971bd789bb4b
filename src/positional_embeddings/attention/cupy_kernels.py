"""The two kernels of an attention on CuPy's arrays, in CUDA, and how they are launched."""

from functools import cache
from typing import Any, NamedTuple

from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.attention.cublas import steps_of

_TYPES = """#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
typedef {} Number;  // of scores, output and state
typedef {} Given;  // of keys and values
const Number SCALE_OF_HALVES = {};
const int ROW_AXES = {};  // of the rows of scores: those of heads and batches, and the queries
"""

# What a call does not need is a null pointer. Scores, halves, state and sums have a row for each
# query, one after another; the other arrays have the steps of the plan.
_COMMON = """typedef long long Index;
struct Steps { Index row[ROW_AXES], key, feature; };  // in numbers, 0 where an array broadcasts
struct Plan {
  Index lengths[ROW_AXES], keys, key_features, features;
  Index low, high;  // query i sees the keys from i + low to below i + high at most
  Index goes_on;  // 1 if there are a state and an output of earlier keys
  Steps mask, bias, sinks, key, value, output, lse;
};
#define ARGUMENTS \\
  Number* scores, Given* halves, Number* state, Number* sums, const bool* mask, \\
  const Number* bias, const Number* sinks, const Given* key, const Given* value, Number* output, \\
  Number* lse, const Number softcap, const Number largest, const Number infinity, const Plan plan

// Where the part of an array begins that belongs to a row of scores.
__device__ Index start_of(const Steps& steps, const Plan& plan, Index row) {
  Index start = 0;
  for (int axis = ROW_AXES - 1; axis >= 0; axis--) {
    start += row % plan.lengths[axis] * steps.row[axis];
    row /= plan.lengths[axis];
  }
  return start;
}
"""

# Makes weights of scores, in place or as two halves. A block has the scores of one query, and its
# threads, which are whole warps, take every blockDim.x-th key. Each thread first adds up the
# exponentials of its scores, relative to their maximum so far; a warp joins what its threads have
# by shuffles, and then each warp joins what all warps have left in shared memory, so that every
# thread has the sum. A second pass divides by it. Earlier keys are in the sum: what the output has
# of them shrinks. A hidden key has the weight -0.0 for values, unlike one whose weight underflows.
_SOFTMAX = """// The highest of some scores, and the total of exp(score - highest).
struct Sum { Number highest, total; };

__device__ Sum joined(Sum a, Sum b) {
  const Number highest = a.highest > b.highest ? a.highest : b.highest;
  // Where both are minus infinity, their difference would be NaN.
  if (a.highest != highest) a.total *= exp(a.highest - highest);
  if (b.highest != highest) b.total *= exp(b.highest - highest);
  return {highest, a.total + b.total};
}

__device__ Sum joined_over_warp(Sum sum) {
  for (int distance = 16; distance > 0; distance /= 2)
    sum = joined(sum, {__shfl_xor_sync(0xffffffff, sum.highest, distance),
                       __shfl_xor_sync(0xffffffff, sum.total, distance)});
  return sum;
}

extern "C" __global__ void __launch_bounds__(1024) positional_embeddings_softmax(ARGUMENTS) {
  __shared__ Number highest_of[32], total_of[32];  // of each warp
  const Index row = blockIdx.x, query = row % plan.lengths[ROW_AXES - 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Index below = query + plan.high < plan.keys ? query + plan.high : plan.keys;
  const Index first = query + plan.low > 0 ? query + plan.low : 0;
  Number* const own = scores + row * plan.keys;
  if (mask) mask += start_of(plan.mask, plan, row);
  if (bias) bias += start_of(plan.bias, plan, row);
  key += start_of(plan.key, plan, row);

  auto is_hidden = [&](Index i) {
    return i < first || i >= below || (mask && mask[i * plan.mask.key]) ||
           (bias && bias[i * plan.bias.key] == -infinity);
  };
  auto score_of = [&](Index i) {
    Number score = own[i];
    if (!isfinite(score)) {  // as the score of a key that is not finite is
      for (Index at = 0; at < plan.key_features; at++)
        if (!isfinite(static_cast<Number>(key[i * plan.key.key + at * plan.key.feature])))
          score = infinity - infinity;
    }
    // Of a smaller score tanh would only round.
    if (softcap < infinity && fabs(score) > softcap * static_cast<Number>(2.3e-10))
      score = softcap * tanh(score / softcap);
    return bias ? score + bias[i * plan.bias.key] : score;
  };

  Sum before = {-infinity, 0};
  if (plan.goes_on) {
    before = {state[2 * row], state[2 * row + 1]};
  } else if (sinks) {  // a key without value
    const Number sink = sinks[start_of(plan.sinks, plan, row)];
    before.highest = sink > largest ? largest : sink < -largest ? -largest : sink;
    before.total = exp(sink - before.highest);
  }
  Sum sum = {-infinity, 0};
  for (Index i = first + threadIdx.x; i < below; i += blockDim.x)
    if (!is_hidden(i)) {
      const Number score = score_of(i);
      // NaN is no maximum, but makes the total NaN.
      if (score != -infinity) sum = joined(sum, {score > -infinity ? score : sum.highest,
                                                 score == score ? Number(1) : score});
    }
  sum = joined_over_warp(sum);
  if (lane == 0) highest_of[warp] = sum.highest, total_of[warp] = sum.total;
  __syncthreads();  // now all scores and the state have been read
  sum = joined_over_warp(lane < warps ? Sum{highest_of[lane], total_of[lane]}
                                      : Sum{-infinity, 0});
  sum = joined(before, sum);
  if (sum.highest == infinity) sum.total = infinity - infinity;

  const Number highest = sum.highest == -infinity ? 0 : sum.highest;
  const Number total = sum.total == 0 ? 1 : sum.total;  // there is no key, and all is 0
  const Number hidden = total != total ? total : value ? Number(-0.0) : Number(0);
  for (Index i = threadIdx.x; i < plan.keys; i += blockDim.x) {
    const Number weight = is_hidden(i) ? hidden : exp(score_of(i) - highest) / total;
    if (halves) {
      const Number scaled = weight * SCALE_OF_HALVES;
      Given* const half = halves + row * plan.keys + i;
      half[0] = static_cast<Given>(scaled);
      half[gridDim.x * plan.keys] = static_cast<Given>(scaled - static_cast<Number>(half[0]));
    } else {
      own[i] = weight;
    }
  }
  if (plan.goes_on) {
    Number share = before.total * exp(before.highest - highest) / total;
    if (before.total == infinity) share = 1;  // of a sink; the output is 0
    output += start_of(plan.output, plan, row);
    for (Index at = threadIdx.x; at < plan.features; at += blockDim.x) output[at] *= share;
  }
  if (threadIdx.x == 0) {
    if (state) state[2 * row] = sum.highest, state[2 * row + 1] = sum.total;
    if (lse) lse[start_of(plan.lse, plan, row)] = sum.total == 0 ? -infinity
                                                                 : sum.highest + log(sum.total);
  }
}
"""

# Adds weighted sums to the output, or finds them there, and corrects those that are not finite. A
# block has the features of one query, and each of its threads every blockDim.x-th of them. If one
# of them is not finite, all threads add up the values again, without those of hidden keys; if a
# value that is left is not finite, the output and the logarithm of the sum of exponentials are NaN.
_ADD_SUMS = """
extern "C" __global__ void __launch_bounds__(1024) positional_embeddings_add_sums(ARGUMENTS) {
  const Index row = blockIdx.x;
  output += start_of(plan.output, plan, row);
  value += start_of(plan.value, plan, row);
  Number* const own = sums ? sums + row * plan.features : output;
  int is_wrong = 0;
  for (Index at = threadIdx.x; at < plan.features; at += blockDim.x)
    is_wrong |= !isfinite(own[at]);
  if (__syncthreads_or(is_wrong)) {  // the same answer for all threads
    is_wrong = 0;
    for (Index at = threadIdx.x; at < plan.features; at += blockDim.x) {
      double sum = 0;
      for (Index i = 0; i < plan.keys; i++) {
        const Index place = row * plan.keys + i;
        Number weight = halves ? static_cast<Number>(halves[place]) : scores[place];
        if (weight == 0 && signbit(weight)) continue;
        if (halves) {
          const Number rest = static_cast<Number>(halves[gridDim.x * plan.keys + place]);
          weight = (weight + rest) / SCALE_OF_HALVES;
        }
        const Number number =
            static_cast<Number>(value[i * plan.value.key + at * plan.value.feature]);
        is_wrong |= !isfinite(number);
        sum += static_cast<double>(weight) * static_cast<double>(number);
      }
      own[at] = static_cast<Number>(sum);
    }
  }
  if (sums)
    for (Index at = threadIdx.x; at < plan.features; at += blockDim.x) {
      is_wrong |= !isfinite(output[at]);
      output[at] += own[at];
    }
  if (!__syncthreads_or(is_wrong)) return;
  for (Index at = threadIdx.x; at < plan.features; at += blockDim.x)
    output[at] = infinity - infinity;
  if (lse && threadIdx.x == 0) lse[start_of(plan.lse, plan, row)] = infinity - infinity;
}
"""

# Of weights, which are 1 at most: small ones are no subnormal halves. The exponents of bfloat16 are
# those of float32.
SCALES_OF_HALVES = {"float16": 2**15}

SOURCES = {"softmax": _SOFTMAX, "add_sums": _ADD_SUMS}

_KEYS_A_THREAD = 4  # so that a block of 1,024 threads has 4,096 keys and more
_WARP, _MOST_THREADS = 32, 1024

# Farther from a query than any key.
FAR = 2**62


class Block(NamedTuple):
    """What the kernels get: arrays, None for what is not needed, and numbers."""

    scores: Array  # (..., query, key): products; then weights, unless there are halves
    halves: Array = None  # (2, ..., query, key): the weights as a sum of two numbers
    state: Array = None  # (..., query, 2): highest score so far, and total relative to it
    sums: Array = None  # (..., query, feature) to add to the output; None if they are there
    mask: Array = None  # (..., query, key)
    bias: Array = None
    sinks: Array = None  # (..., 1, 1)
    key: Array = None  # (..., key, feature): the features that have to be finite
    value: Array = None
    output: Array = None  # (..., query, feature), whose features are contiguous
    lse: Array = None  # (..., query, 1)
    softcap: float | None = None
    low: int = -FAR  # query i sees the keys from i + low to below i + high at most
    high: int = FAR
    goes_on: bool = False  # whether there are the state and the output of earlier keys

    @property
    def may_hide(self) -> bool:
        """Return whether a key may be hidden from a query."""
        return not (self.mask is self.bias is None and (self.low, self.high) == (-FAR, FAR))


# Which of the axes (query, key, feature) the arrays with steps lack: masks, keys and outputs.
_LACKS = (-1, -1, -1, -3, -3, -2, -2)


def launch(name: str, block: Block) -> None:
    """Launch one of the kernels, `softmax` or `add_sums`."""
    *arrays, softcap, low, high, goes_on = block
    dtype, (*rows, keys) = block.scores.dtype, block.scores.shape
    features = 0 if block.value is None else block.value.shape[-1]
    plan = [*rows, keys, block.key.shape[-1], features, low, high, goes_on]
    for array, axis in zip(arrays[-len(_LACKS) :], _LACKS, strict=True):
        steps = [] if array is None else steps_of(array)
        steps.insert(max(0, len(steps) + 1 + axis), 0)
        plan += [0] * (len(rows) + 2 - len(steps)) + steps
    struct = np.asarray(plan, dtype="int64")
    largest = float(np.finfo(dtype).max)
    cap = np.inf if softcap is None or softcap > largest else softcap
    numbers = [dtype.type(number) for number in (cap, largest, np.inf)]
    pointers = [np.uintp(0) if array is None else array for array in arrays]
    along = -(-keys // _KEYS_A_THREAD) if name == "softmax" else features
    threads = min(-(-along // _WARP) * _WARP, _MOST_THREADS)
    compiled = kernel(name, dtype_name(dtype), dtype_name(block.key.dtype), len(rows))
    arguments = (*pointers, *numbers, struct.view(f"V{struct.nbytes}"))
    compiled((block.scores.size // keys,), (threads,), arguments)


@cache
def kernel(name: str, number: str, given: str, row_axes: int) -> Any:
    """Return a kernel for these types, which is compiled when it is launched."""
    import cupy  # noqa: PLC0415

    text = source(name, number, given, row_axes)
    # A score less the highest one is exact where they are equal, unless it is joined to a product.
    return cupy.RawKernel(text, f"positional_embeddings_{name}", options=("--fmad=false",))


def source(name: str, number: str, given: str, row_axes: int) -> str:
    """Return the source of a kernel: for scores of one dtype, and keys and values of another."""
    types = {"float32": "float", "float64": "double"}
    names = [types.get(dtype, dtype) for dtype in (number, given)]
    return _TYPES.format(*names, SCALES_OF_HALVES.get(given, 1), row_axes) + _COMMON + SOURCES[name]
