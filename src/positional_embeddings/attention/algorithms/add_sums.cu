// Adds weighted sums to the output, or finds them there, and corrects those that are not finite; it
// follows block.cu. A block has the features of one query, and each of its threads every
// blockDim.x-th of them. If one of them is not finite, all threads add up the values again, without
// the values of hidden keys; if one that is left is not finite, the output and the logarithm of the
// sum of exponentials are NaN.
extern "C" __global__ void __launch_bounds__(1024) positional_embeddings_add_sums(ARGUMENTS) {
  const Index row = blockIdx.x;
  output += start_of(traversal.output, traversal, row);
  value += start_of(traversal.value, traversal, row);
  Number* const own = sums ? sums + row * traversal.features : output;
  int is_wrong = 0;
  for (Index at = threadIdx.x; at < traversal.features; at += blockDim.x)
    is_wrong |= !isfinite(own[at]);
  if (__syncthreads_or(is_wrong)) {  // the same answer for all threads
    is_wrong = 0;
    for (Index at = threadIdx.x; at < traversal.features; at += blockDim.x) {
      double sum = 0;
      for (Index i = 0; i < traversal.keys; i++) {
        const Index place = row * traversal.keys + i;
        Number weight = halves ? static_cast<Number>(halves[place]) : scores[place];
        if (weight == 0 && signbit(weight)) continue;
        if (halves) {
          const Number rest = static_cast<Number>(halves[gridDim.x * traversal.keys + place]);
          weight = (weight + rest) / SCALE_OF_HALVES;
        }
        const Number number =
            static_cast<Number>(value[i * traversal.value.key + at * traversal.value.feature]);
        is_wrong |= !isfinite(number);
        sum += static_cast<double>(weight) * static_cast<double>(number);
      }
      own[at] = static_cast<Number>(sum);
    }
  }
  if (sums)
    for (Index at = threadIdx.x; at < traversal.features; at += blockDim.x) {
      is_wrong |= !isfinite(output[at]);
      output[at] += own[at];
    }
  if (!__syncthreads_or(is_wrong)) return;
  for (Index at = threadIdx.x; at < traversal.features; at += blockDim.x)
    output[at] = infinity - infinity;
  if (lse && threadIdx.x == 0) lse[start_of(traversal.lse, traversal, row)] = infinity - infinity;
}
