// Makes weights of scores, in place or as two halves; it follows block.cu. A block has the scores
// of one query, and its threads, which are whole warps, take every blockDim.x-th key. Each thread
// first adds up the exponentials of its scores, relative to their maximum so far; a warp joins what
// its threads have by shuffles, and then each warp joins what all warps have left in shared memory,
// so that every thread has the sum. A second pass divides by it. Earlier keys are in the sum: what
// the output has of them shrinks. A hidden key has the weight -0.0 for values, unlike one whose
// weight underflows.

// The highest of some scores, and the total of exp(score - highest).
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
  const Index row = blockIdx.x, query = row % traversal.lengths[ROW_AXES - 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Index high = query + traversal.high;
  const Index below = high < traversal.keys ? high : traversal.keys;
  const Index first = query + traversal.low > 0 ? query + traversal.low : 0;
  Number* const own = scores + row * traversal.keys;
  if (mask) mask += start_of(traversal.mask, traversal, row);
  if (bias) bias += start_of(traversal.bias, traversal, row);
  key += start_of(traversal.key, traversal, row);

  auto is_hidden = [&](Index i) {
    return i < first || i >= below || (mask && mask[i * traversal.mask.key]) ||
           (bias && bias[i * traversal.bias.key] == -infinity);
  };
  auto score_of = [&](Index i) {
    Number score = own[i];
    if (!isfinite(score)) {  // as the score of a key that is not finite is
      for (Index at = 0; at < traversal.key_features; at++)
        if (!isfinite(static_cast<Number>(key[i * traversal.key.key + at * traversal.key.feature])))
          score = infinity - infinity;
    }
    // Of a smaller score tanh would only round.
    if (softcap < infinity && fabs(score) > softcap * static_cast<Number>(2.3e-10))
      score = softcap * tanh(score / softcap);
    return bias ? score + bias[i * traversal.bias.key] : score;
  };

  Sum before = {-infinity, 0};
  if (traversal.continues) {
    before = {state[2 * row], state[2 * row + 1]};
  } else if (sinks) {  // a key without value
    const Number sink = sinks[start_of(traversal.sinks, traversal, row)];
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
  for (Index i = threadIdx.x; i < traversal.keys; i += blockDim.x) {
    const Number weight = is_hidden(i) ? hidden : exp(score_of(i) - highest) / total;
    if (halves) {
      const Number scaled = weight * SCALE_OF_HALVES;
      Given* const half = halves + row * traversal.keys + i;
      half[0] = static_cast<Given>(scaled);
      half[gridDim.x * traversal.keys] = static_cast<Given>(scaled - static_cast<Number>(half[0]));
    } else {
      own[i] = weight;
    }
  }
  if (traversal.continues) {
    Number share = before.total * exp(before.highest - highest) / total;
    if (before.total == infinity) share = 1;  // of a sink; the output is 0
    output += start_of(traversal.output, traversal, row);
    for (Index at = threadIdx.x; at < traversal.features; at += blockDim.x) output[at] *= share;
  }
  if (threadIdx.x == 0) {
    if (state) state[2 * row] = sum.highest, state[2 * row + 1] = sum.total;
    if (lse) lse[start_of(traversal.lse, traversal, row)] = sum.total == 0 ? -infinity
                                                                 : sum.highest + log(sum.total);
  }
}
