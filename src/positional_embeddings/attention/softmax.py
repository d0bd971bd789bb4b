"""Products with keys and values, and the softmax between them, dense or block by block."""

from functools import reduce
from math import prod
from operator import add
from typing import NamedTuple

from positional_embeddings.arrays.backend import TINY_WEIGHT, Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array

# Number of float16 or bfloat16 elements converted at a time, which fit in a core's cache
# (`benchmarks/bench.py --only "decoding step"`).
_MAX_CONVERTED_NUMBERS = 2**17


def query_key_products(
    query: Array, key: Array, backend: Backend, scale: float | None = None
) -> Array:
    """Return the products of queries and keys of any real dtype, (..., query, key).

    If `scale` is None, the queries must already be scaled and cast.
    """
    if scale is not None:
        query = backend.astype(query, backend.dtype) * scale
    if key.dtype == backend.dtype:
        return backend.scalar_products(query, key)
    results = [
        query_key_products(query, backend.astype(key[..., part, :], backend.dtype), backend)
        for part in _parts_to_convert(key, backend)
    ]
    return results[0] if len(results) == 1 else backend.xp.concat(results, axis=-1)


def weighted_sums(weights: Array, value: Array, backend: Backend) -> Array:
    """Return the weighted sums of the values, which have any real dtype."""
    if value.dtype == backend.dtype:
        return backend.grouped_matmul(weights, value)
    parts = ((part, value[..., part, :]) for part in _parts_to_convert(value, backend))
    sums = (
        backend.grouped_matmul(weights[..., part], backend.astype(x, backend.dtype))
        for part, x in parts
    )
    return reduce(add, sums)


def _parts_to_convert(array: Array, backend: Backend) -> list[slice]:
    """Return parts of keys or values to convert separately: on a device, a single part."""
    if 0 in array.shape or not (backend.supports_inplace(array) and backend.is_on_host(array)):
        return [slice(None)]
    size = array.shape[-2]
    return block_slices(size, max(1, _MAX_CONVERTED_NUMBERS * size // prod(array.shape)))


def softmax(
    scores: Array, backend: Backend, sinks: Array = None, *, with_lse: bool = False
) -> tuple[Array, Array]:
    """Return the softmax along the last axis, zeros where all scores are minus infinity.

    `sinks`, (..., 1, 1), are the scores of a key without value. The second result is the logarithm
    of the sum of exponentials, (..., query, 1), if `with_lse`, else None. `scores` may be
    overwritten.
    """
    xp, apply = backend.xp, backend.apply
    if 0 in scores.shape:
        shape = (*scores.shape[:-1], 1)
        lse = xp.full(shape, -float("inf"), dtype=scores.dtype, device=backend.device)
        return scores, lse if sinks is None else xp.maximum(lse, sinks)
    highest = backend.row_max(scores)
    if sinks is not None:
        highest = xp.maximum(highest, _finite(sinks, backend))
    weights = apply(xp.exp, apply(xp.subtract, scores, highest))
    # The maximum has a weight of 1, unless all keys are masked.
    total = backend.row_sum(weights, TINY_WEIGHT)
    if sinks is not None:
        total = total + xp.exp(sinks - highest)
    lse = log_sum_exp(highest, total, backend) if with_lse else None
    # A division after the product with values might overflow.
    return apply(xp.divide, weights, total), lse


def log_sum_exp(highest: Array, total: Array, backend: Backend) -> Array:
    """Return the logarithm of a sum of exponentials relative to the highest one."""
    xp, is_none = backend.xp, total <= TINY_WEIGHT
    lse = highest + xp.log(xp.where(is_none, 1.0, total))
    return xp.where(is_none, -float("inf"), lse)


def _finite(sinks: Array, backend: Backend) -> Array:
    """Return sinks clipped to finite numbers, so that differences are defined."""
    max_finite = float(backend.xp.finfo(sinks.dtype).max)
    return backend.clip(sinks, -max_finite, max_finite)


class OnlineSoftmax(NamedTuple):
    """Running maximum of the scores of each query, and sums weighted by exp(score - maximum).

    Algorithm 3 of Milakov and Gimelshein (2018). The maximum is `headroom` above the
    highest score, so that no sum of values near the largest float overflows.
    """

    sums: Array  # (..., query, n): of the weighted values
    total: Array  # (..., query, 1): of the weights
    running_max: Array  # (..., query, 1); None for small scores in `exponent_unit`

    def with_sinks(self, sinks: Array, backend: Backend) -> "OnlineSoftmax":
        """Return the state after a key without value, with scores (..., 1, 1)."""
        if sinks is None:
            return self
        xp, running_max = backend.xp, self.running_max
        if running_max is None:
            return self._replace(total=self.total + xp.exp(sinks))
        running_max = xp.maximum(running_max, _finite(sinks, backend))
        total = self.total + xp.exp(sinks - running_max)
        return self._replace(total=total, running_max=running_max)

    def update(
        self, scores: Array, mask: Array, values: Array, headroom: float, backend: Backend
    ) -> "OnlineSoftmax":
        """Return the state after a block of keys.

        `mask` is None if all keys are visible. `scores` may be overwritten.
        """
        xp, (old_sums, old_total, running_max) = backend.xp, self
        if running_max is None:
            weights = backend.scaled_exp(scores)
            weights = weights if mask is None else backend.fill(weights, mask, 0.0)
        else:
            scores = scores if mask is None else backend.fill(scores, mask, -float("inf"))
            running_max = xp.maximum(running_max, backend.row_max(scores) + headroom)
            decay = xp.exp(self.running_max - running_max)
            old_sums, old_total = old_sums * decay, old_total * decay
            weights = backend.apply(xp.exp, backend.apply(xp.subtract, scores, running_max))
        sums = backend.apply(xp.add, backend.grouped_matmul(weights, values), old_sums)
        return OnlineSoftmax(sums, old_total + backend.row_sum(weights), running_max)

    def part(self, index: slice) -> "OnlineSoftmax":
        """Return the state of some of the queries."""
        return OnlineSoftmax(*(None if x is None else x[..., index, :] for x in self))

    # Results of a state, as one array (..., query, column).

    def means(self, backend: Backend) -> Array:
        """Return the weighted means of the values, zeros if every key is masked.

        BLAS adds the sums in another order than NumPy adds the total. A mean may exceed the largest
        value by that rounding, a share of up to `keys * finfo.eps`.
        """
        return self.sums / backend.clip(self.total, TINY_WEIGHT)

    def means_and_lse(self, backend: Backend) -> Array:
        """Return the means, and after them the logarithm of the sum of exponentials."""
        highest = 0.0 if self.running_max is None else self.running_max
        lse = log_sum_exp(highest, self.total, backend)
        return backend.xp.concat([self.means(backend), lse], axis=-1)

    def packed(self, backend: Backend) -> Array:
        """Return the state as one array, for merging: sums, total and maximum."""
        xp, highest = backend.xp, self.running_max
        if highest is None:  # small scores are near 0, or there are none
            highest = xp.where(self.total == 0, -float("inf"), xp.zeros_like(self.total))
        return xp.concat([self.sums, self.total, highest], axis=-1)

    @classmethod
    def from_packed(cls, packed: Array) -> "OnlineSoftmax":
        """Return the state of a packed array."""
        return cls(packed[..., :-2], packed[..., -2:-1], packed[..., -1:])
