"""The softmax of scores, at once or from one block of keys to the next."""

from typing import Any, NamedTuple

from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Namespace
from positional_embeddings.attention import kernel
from positional_embeddings.attention.products import weighted_sums

_INF = float("inf")


def softmax(scores: Any, space: Space) -> Any:
    """Return the softmax along the last axis, zeros where all scores are minus infinity."""
    if 0 in scores.shape:
        return scores
    xp = space.xp
    if space.compiles_kernels:
        return kernel.softmax(scores, xp)
    least = float(xp.finfo(scores.dtype).min)
    highest = xp.max(scores, axis=-1, keepdims=True)
    # A finite maximum has a weight of 1 before the division.
    powers = xp.exp(scores - space.clip(highest, least))
    return powers / space.clip(xp.sum(powers, axis=-1, keepdims=True), 1.0)


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
            sums, total = weighted_sums(weights, values, space)
            return OnlineSoftmax(None, self.sums + sums, self.total + total)
        highest = xp.max(scores, axis=-1, keepdims=True) + headroom
        running_max = xp.maximum(self.running_max, highest)
        finite_max = space.clip(running_max, float(xp.finfo(scores.dtype).min))
        decay = xp.exp(self.running_max - finite_max)
        weights = space.exp_into(scores - finite_max)
        sums, total = weighted_sums(weights, values, space)
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
