"""The softmax of scores, at once or from one block of keys to the next, and products with it."""

from typing import Any, NamedTuple

from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Namespace, np
from positional_embeddings.attention import kernel

# Numbers that are added one by one.
_MOST_SUMMED = 2**13

_INF = float("inf")


def softmax(scores: Any, space: Space) -> Any:
    """Return the softmax along the last axis, zeros where all scores are minus infinity.

    `scores` may be overwritten.
    """
    if 0 in scores.shape:
        return scores
    xp = space.xp
    if space.compiles_kernels:
        return kernel.softmax(scores, xp)
    least = float(xp.finfo(scores.dtype).min)
    highest = space.clip(xp.max(scores, axis=-1, keepdims=True), least)
    out = {"out": scores} if space.takes_out else {}
    powers = xp.exp(xp.subtract(scores, highest, **out), **out)
    # A finite maximum has a weight of 1 before the division.
    total = space.clip(xp.sum(powers, axis=-1, keepdims=True), 1.0)
    return xp.divide(powers, total, **out)


class OnlineSoftmax(NamedTuple):
    """Running maximum of the scores of each query, and sums weighted by exp(score - maximum).

    Algorithm 3 of Milakov and Gimelshein (2018). The maximum is kept `headroom` above the
    highest score, so that no sum of values near the largest float overflows.
    """

    running_max: Any  # (..., query, 1); None if scores are so small that 0 does
    sums: Any  # (..., query, n): of the weighted values
    total: Any  # (..., query, 1): of the weights

    def update(self, scores: Any, values: Any, headroom: float, space: Space) -> "OnlineSoftmax":
        """Return the state after a block of keys; `scores` may be overwritten."""
        xp = space.xp
        if self.running_max is None:
            weights = space.exp_into(scores)
            sums, total = _weighted_sums(weights, values, space)
            return OnlineSoftmax(None, self.sums + sums, self.total + total)
        highest = xp.max(scores, axis=-1, keepdims=True) + headroom
        running_max = xp.maximum(self.running_max, highest)
        finite_max = space.clip(running_max, float(xp.finfo(scores.dtype).min))
        decay = xp.exp(self.running_max - finite_max)
        weights = space.exp_into(scores - finite_max)
        sums, total = _weighted_sums(weights, values, space)
        return OnlineSoftmax(running_max, self.sums * decay + sums, self.total * decay + total)

    def means(self, xp: Namespace) -> Any:
        """Return the weighted means of the values, zeros if every key was hidden."""
        return self.sums / xp.where(self.total == 0, 1.0, self.total)

    def partial(self, xp: Namespace) -> Any:
        """Return the means, the total of the weights and the maximum that they are relative to."""
        maximum = xp.zeros_like(self.total) if self.running_max is None else self.running_max
        maximum = xp.where(self.total == 0, -_INF, maximum)
        return xp.concat([self.means(xp), self.total, maximum], axis=-1)


def merge_partial(parts: Any, xp: Namespace) -> Any:
    """Return one partial output from several, (..., query, part, feature + 2)."""
    means, total, maximum = parts[..., :-2], parts[..., -2:-1], parts[..., -1:]
    highest = xp.max(maximum, axis=-2, keepdims=True)
    weights = total * xp.exp(maximum - xp.where(highest == -_INF, 0.0, highest))
    total = xp.sum(weights, axis=-2, keepdims=True)
    # Divided first: a sum of several large values might overflow.
    weighted = weights / xp.where(total == 0, 1.0, total) * means
    return xp.concat([xp.sum(weighted, axis=-2, keepdims=True), total, highest], axis=-1)


def _weighted_sums(weights: Any, values: Any, space: Space) -> tuple[Any, Any]:
    """Return the sums of the values that have these weights, and of the weights."""
    if space.multiplies_copies:
        total = space.xp.sum(weights, axis=-1, keepdims=True)
        return multiply(weights, values, space), total
    # A product with ones adds up the rows faster than `sum`.
    ones = space.xp.ones((weights.shape[-1], 1), dtype=weights.dtype, device=space.device)
    return weights @ values, weights @ ones


def multiply(rows: Any, table: Any, space: Space) -> Any:
    """Return ``rows @ table``, in one product for query heads that share a key head."""
    if table.ndim == 2 or table.shape[-3] != 1 or rows.shape[-3] == 1:
        return _matmul(rows, table, space)
    *others, groups, count, inner = rows.shape
    merged = space.reshape(rows, (*others, groups * count, inner))
    result = _matmul(merged, table[..., 0, :, :], space)
    return space.reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]))


def _matmul(rows: Any, table: Any, space: Space) -> Any:
    """Return ``rows @ table``, without what makes it slow in some libraries."""
    xp = space.xp
    if space.multiplies_copies:
        few = rows.shape[-2] < rows.shape[-1]
        if table.ndim == 2 or not few or table.strides[-2] != table.itemsize:
            return rows @ table
        # It would copy a transposed table of all keys.
        key, query = xp.matrix_transpose(table), xp.matrix_transpose(rows)
        return xp.matrix_transpose(key @ query)
    if xp is not np or rows.shape[-2] != 1 or table.itemsize in map(abs, table.strides[-2:]):
        return rows @ table
    # NumPy's product of one row with a table that BLAS does not take, since neither of its axes is
    # contiguous, takes ten times as long as its sum of products. In parts, so that no long sum is
    # rounded at every step.
    total = xp.einsum("...ij,...jk->...ik", rows[..., :_MOST_SUMMED], table[..., :_MOST_SUMMED, :])
    for start in range(_MOST_SUMMED, table.shape[-2], _MOST_SUMMED):
        part = slice(start, start + _MOST_SUMMED)
        total += xp.einsum("...ij,...jk->...ik", rows[..., part], table[..., part, :])
    return total
