"""Products with keys and values, and between them the softmax, at once or block by block."""

from functools import reduce
from math import prod
from operator import add
from typing import Any, NamedTuple

from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.memory import cuts
from positional_embeddings.attention import kernel

# Less than the total of the weights of any keys; to 1 it adds nothing.
_TINY = 2.0**-60

# Numbers of half precision that are converted at a time: they stay in a cache.
_MOST_CONVERTED = 2**17


def products(query: Any, key: Any, space: Space) -> Any:
    """Return the products of scaled queries and keys of any real dtype, (..., query, key)."""
    if key.dtype == space.dtype:
        return multiply(query, space.transpose(key), space)
    parts = [key[..., at, :] for at in _parts_to_convert(key, space)]
    found = [products(query, space.astype(part, space.dtype), space) for part in parts]
    return found[0] if len(found) == 1 else space.xp.concat(found, axis=-1)


def weighted_sums(weights: Any, value: Any, space: Space) -> Any:
    """Return the sums of values of any real dtype that have these weights."""
    if value.dtype == space.dtype:
        return multiply(weights, value, space)
    parts = ((at, value[..., at, :]) for at in _parts_to_convert(value, space))
    sums = (multiply(weights[..., at], space.astype(x, space.dtype), space) for at, x in parts)
    return reduce(add, sums)


def _parts_to_convert(array: Any, space: Space) -> list[slice]:
    """Return parts of keys or values to convert one by one, all of them but on the host."""
    if 0 in array.shape or not (space.supports_inplace(array) and space.is_on_host(array)):
        return [slice(None)]
    size = array.shape[-2]
    return cuts(size, max(1, _MOST_CONVERTED * size // prod(array.shape)))


def multiply(rows: Any, table: Any, space: Space) -> Any:
    """Return ``rows @ table``, in one product for query heads that share a key head."""
    if table.ndim == 2 or table.shape[-3] != 1 or rows.shape[-3] == 1:
        return space.matmul(rows, table)
    *others, groups, count, inner = rows.shape
    merged = space.reshape(rows, (*others, groups * count, inner))
    result = space.matmul(merged, table[..., 0, :, :])
    return space.reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]))


def softmax(scores: Any, space: Space) -> Any:
    """Return the softmax along the last axis, zeros where all scores are minus infinity.

    `scores` may be overwritten.
    """
    if 0 in scores.shape:
        return scores
    if space.compiles_kernels:
        return kernel.softmax(scores, space.xp)
    xp, into = space.xp, space.into
    weights = into(xp.exp, into(xp.subtract, scores, space.highest(scores)))
    # Divided later, sums might overflow. The maximum has a weight of 1, unless no key is seen.
    return into(xp.divide, weights, space.total(weights, _TINY))


class OnlineSoftmax(NamedTuple):
    """Running maximum of the scores of each query, and sums weighted by exp(score - maximum).

    Algorithm 3 of Milakov and Gimelshein (2018). The maximum is kept `headroom` above the
    highest score, so that no sum of values near the largest float overflows.
    """

    running_max: Any  # (..., query, 1); None of small scores, in the `exponent_unit` of the space
    sums: Any  # (..., query, n): of the weighted values
    total: Any  # (..., query, 1): of the weights

    def update(
        self, scores: Any, hidden: Any, values: Any, headroom: float, space: Space
    ) -> "OnlineSoftmax":
        """Return the state after a block of keys, hidden where a mask is True or if it is None.

        `scores` may be overwritten.
        """
        xp, (running_max, old_sums, old_total) = space.xp, self
        if running_max is None:
            weights = space.small_exp(scores)
            weights = weights if hidden is None else space.fill(weights, hidden, 0.0)
        else:
            scores = scores if hidden is None else space.fill(scores, hidden, -float("inf"))
            running_max = xp.maximum(running_max, space.highest(scores) + headroom)
            decay = xp.exp(self.running_max - running_max)
            old_sums, old_total = old_sums * decay, old_total * decay
            weights = space.into(xp.exp, space.into(xp.subtract, scores, running_max))
        sums = space.into(xp.add, multiply(weights, values, space), old_sums)
        return OnlineSoftmax(running_max, sums, old_total + space.total(weights))

    def rows(self, at: slice) -> "OnlineSoftmax":
        """Return the state of some of the queries."""
        return OnlineSoftmax(*(None if x is None else x[..., at, :] for x in self))

    def output(self, space: Space, *, with_lse: bool) -> Any:
        """Return the weighted means of the values, zeros if every key was hidden.

        After them comes the logarithm of the sum of exponentials, if it is asked for.
        """
        means = self.sums / space.clip(self.total, _TINY)
        if not with_lse:
            return means
        lse = log_or_inf(self.total, space.xp)
        lse = lse if self.running_max is None else lse + self.running_max
        return space.xp.concat([means, lse], axis=-1)


def log_sum_exp(highest: Any, weights: Any, space: Space) -> Any:
    """Return the logarithm of the sum of exponentials of scores, (..., query, 1).

    `highest` is the highest score, and has the largest of the weights.
    """
    largest = space.xp.max(weights, axis=-1, keepdims=True)
    return space.xp.where(largest == 0, -float("inf"), highest - log_or_inf(largest, space.xp))


def log_or_inf(x: Any, xp: Any) -> Any:
    """Return the logarithm, minus infinity of 0 without a warning."""
    return xp.where(x == 0, -float("inf"), xp.log(xp.where(x == 0, 1.0, x)))
