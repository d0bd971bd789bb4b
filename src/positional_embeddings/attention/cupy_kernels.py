"""Steps of an attention by kernels, for libraries that compile them: few launches, and no wait.

Other libraries are asked whether all numbers are finite. Here each thread looks at its own one,
and goes back to what that was computed from only if it is not.
"""

from functools import cache
from typing import Any

from positional_embeddings.arrays.namespace import Array, Namespace

# Raw arrays are indexed as if flat: `i` counts the elements (..., query, key) of the scores, and
# (..., query, feature) of the output.
_SCORES = """
score = product;
if (!isfinite(product)) {
  const long long first = (i / keys / queries * keys + i % keys) * features;
  for (long long at = 0; at < features; at++) {
    if (!isfinite(key[first + at])) score = infinity - infinity;
  }
}
// Of a smaller score tanh would only round; infinity is no cap.
if (fabs(score) > softcap * 2.3e-10) score = softcap * tanh(score / softcap);
score = hidden || bias == -infinity ? -infinity : score + bias;
"""

# Without the values of no weight: 0 * infinity is NaN. NaN in all features if one is not finite.
_OUTPUT = """
const long long query = i / features;
bool finite = true;
for (long long at = 0; at < features; at++) {
  if (!isfinite(products[query * features + at])) finite = false;
}
output = product;
if (!finite) {
  const long long first = query / queries * keys * features;
  double sum = 0;
  for (long long key = 0; key < keys; key++) {
    const double weight = weights[query * keys + key];
    if (weight == 0) continue;
    sum += weight * static_cast<double>(values[first + key * features + i % features]);
    for (long long at = 0; at < features; at++) {
      if (!isfinite(values[first + key * features + at])) sum = nan;
    }
  }
  output = sum;
}
"""


_SIZES = "int64 queries, int64 keys, int64 features"

# Inputs, output and code of each kernel.
KERNELS = {
    "masked_scores": (
        f"T product, bool hidden, T bias, raw T key, {_SIZES}, T softcap, T infinity",
        "T score",
        _SCORES,
    ),
    "exp_below": (
        "T score, T highest, T least",
        "T power",
        "power = exp(score - (highest < least ? least : highest));",
    ),
    # A finite maximum has a weight of 1 before the division.
    "share": ("T power, T total", "T weight", "weight = power / (total < 1 ? 1 : total);"),
    "weighted_without_zeros": (
        f"T product, raw T products, raw T weights, raw T values, {_SIZES}, T nan",
        "T output",
        _OUTPUT,
    ),
}


def masked_scores(
    products: Array, key: Array, mask: Array, bias: Array, softcap: float | None, xp: Namespace
) -> Any:
    """Return the scores from the scaled products, minus infinity where a key is hidden.

    The mask or a bias of minus infinity hides them; either may be None. They are NaN for
    a key that is not finite.
    """
    *rows, queries, keys = products.shape
    features = key.shape[-1]
    key = xp.broadcast_to(key, (*rows, keys, features))
    hidden = False if mask is None else mask
    bias = 0.0 if bias is None else bias
    infinity = float("inf")
    softcap = infinity if softcap is None else softcap
    kernel = kernel_by_name("masked_scores", xp)
    return kernel(products, hidden, bias, key, queries, keys, features, softcap, infinity)


def softmax(scores: Array, xp: Namespace) -> Any:
    """Return the softmax along the last axis, zeros where all scores are minus infinity."""
    highest = xp.max(scores, axis=-1, keepdims=True)
    least = float(xp.finfo(scores.dtype).min)
    powers = kernel_by_name("exp_below", xp)(scores, highest, least)
    return kernel_by_name("share", xp)(powers, xp.sum(powers, axis=-1, keepdims=True))


def weighted_without_zeros(products: Array, weights: Array, values: Array, xp: Namespace) -> Any:
    """Return ``weights @ values`` from this product, without the values that have no weight.

    It is NaN in all features if a value that has a weight is not finite.
    """
    *rows, queries, features = products.shape
    keys = weights.shape[-1]
    values = xp.broadcast_to(values, (*rows, keys, features))
    kernel = kernel_by_name("weighted_without_zeros", xp)
    return kernel(products, products, weights, values, queries, keys, features, float("nan"))


@cache
def kernel_by_name(name: str, xp: Namespace) -> Any:
    """Return one of the kernels, which the library compiles when it is called."""
    inputs, output, code = KERNELS[name]
    return xp.ElementwiseKernel(inputs, output, code, f"positional_embeddings_{name}")
