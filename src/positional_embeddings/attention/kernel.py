"""Steps of an attention by kernels, for libraries that compile them: few launches, and no wait.

Other libraries are asked whether all numbers are finite. Here each thread looks at its own one,
and goes back to what that was computed from only if it is not.
"""

from functools import cache
from typing import Any

from positional_embeddings._core.namespace import Namespace

# Raw arrays are indexed as if flat: `i` counts the elements (..., query, key) of the scores, and
# (..., query, feature) of the output.
_SCORES = """
score = product + bias;
if (hidden || bias == -infinity) {
  score = -infinity;
} else if (!isfinite(product)) {
  const long long first = (i / keys / queries * keys + i % keys) * features;
  for (long long at = 0; at < features; at++) {
    if (!isfinite(key[first + at])) score = infinity - infinity;
  }
}
"""

# Without the values of no weight: 0 * infinity is NaN.
_OUTPUT = """
output = product;
if (!isfinite(product)) {
  const long long query = i / features, first = query / queries * keys * features + i % features;
  double sum = 0;
  for (long long at = 0; at < keys; at++) {
    const double weight = weights[query * keys + at];
    if (weight != 0) sum += weight * static_cast<double>(values[first + at * features]);
  }
  output = sum;
}
"""


def masked_scores(products: Any, key: Any, mask: Any, bias: Any, xp: Namespace) -> Any:
    """Return the scores from the scaled products, minus infinity where a key is hidden.

    That is by the mask or a bias of minus infinity, either of which may be None. They are NaN for
    a key that is not finite.
    """
    *rows, queries, keys = products.shape
    features = key.shape[-1]
    key = xp.broadcast_to(key, (*rows, keys, features))
    hidden = False if mask is None else mask
    bias = 0.0 if bias is None else bias
    kernel = _kernel(
        xp,
        "masked_scores",
        "T product, bool hidden, T bias, raw T key, int64 queries, int64 keys, int64 features, "
        "T infinity",
        "T score",
        _SCORES,
    )
    return kernel(products, hidden, bias, key, queries, keys, features, float("inf"))


def softmax(scores: Any, xp: Namespace) -> Any:
    """Return the softmax along the last axis, zeros where all scores are minus infinity."""
    below = _kernel(
        xp,
        "exp_below",
        "T score, T highest, T least",
        "T power",
        "power = exp(score - (highest < least ? least : highest));",
    )
    # A finite maximum has a weight of 1 before the division.
    share = _kernel(
        xp, "share", "T power, T total", "T weight", "weight = power / (total < 1 ? 1 : total);"
    )
    highest = xp.max(scores, axis=-1, keepdims=True)
    powers = below(scores, highest, float(xp.finfo(scores.dtype).min))
    return share(powers, xp.sum(powers, axis=-1, keepdims=True))


def weighted_without_zeros(products: Any, weights: Any, values: Any, xp: Namespace) -> Any:
    """Return ``weights @ values`` from this product, without the values that have no weight."""
    *rows, queries, features = products.shape
    keys = weights.shape[-1]
    values = xp.broadcast_to(values, (*rows, keys, features))
    kernel = _kernel(
        xp,
        "weighted_without_zeros",
        "T product, raw T weights, raw T values, int64 queries, int64 keys, int64 features",
        "T output",
        _OUTPUT,
    )
    return kernel(products, weights, values, queries, keys, features)


@cache
def _kernel(xp: Namespace, name: str, inputs: str, output: str, code: str) -> Any:
    return xp.ElementwiseKernel(inputs, output, code, f"positional_embeddings_{name}")
