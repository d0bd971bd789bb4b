"""Attention from all scores at once."""

from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention.scores import Scores, without_nonfinite
from positional_embeddings.attention.softmax import products, softmax, weighted_sums


def attend(scores: Scores, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and the logarithm of the sum if it is asked for."""
    space, queries, seen = scores.space, scores.layout.queries, scores.seen
    if seen is not scores.layout.keys:
        key, value = seen.take(key, -2, space), seen.take(value, -2, space)
    if not scores.may_hide:
        logits = scores.from_products(products(query, key, space, scores.scale))
        weights, lse = softmax(logits, space, scores.sinks, with_lse=scores.with_lse)
        return weighted_sums(weights, value, space), lse
    mask = scores.mask_between(queries, seen) if scores.is_masked else None
    return attend_seen(scores, query, key, value, mask, scores.bias_between(queries, seen))


def attend_seen(
    scores: Scores, query: Array, key: Array, value: Array, mask: Array, bias: Array
) -> tuple[Array, Array]:
    """Return what `attend` does, where a mask or a bias may hide keys.

    They are first taken for finite. If the products are, so is all that they were computed from.
    In a decoding step they are much smaller than the keys and the values, so that checking them
    is cheaper; both are checked together, at one wait for a device.
    """
    space = scores.space
    if space.is_readable(query) and not space.compiles_kernels:
        logits = products(query, key, space, scores.scale)
        checked = space.sum_of_all(logits)
        to_add = None if bias is None else scores.bias_to_add(bias)
        logits = scores.from_products(logits, None, mask, to_add)
        weights, lse = softmax(logits, space, scores.sinks, with_lse=scores.with_lse)
        output = weighted_sums(weights, value, space)
        if space.is_finite(checked + space.sum_of_all(output)):
            return output, lse
    key, value = space.astype(key, space.dtype), space.astype(value, space.dtype)
    key, value, nonfinite = without_nonfinite(key, value, space)
    weights, lse = _weights(scores, query, key, mask, bias, nonfinite)
    return space.multiply(weights, value), lse


def weights(scores: Scores, query: Array, key: Array) -> Array:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    pairs = scores.layout.queries, scores.layout.keys
    return weights_seen(
        scores, query, key, scores.mask_between(*pairs), scores.bias_between(*pairs)
    )


def weights_seen(scores: Scores, query: Array, key: Array, mask: Array, bias: Array) -> Array:
    """Return what `weights` does, where a mask or a bias may hide keys."""
    key, nonfinite = scores.space.astype(key, scores.space.dtype), None
    if not (mask is None and bias is None):
        key, _, nonfinite = without_nonfinite(key, key, scores.space)
    return _weights(scores, query, key, mask, bias, nonfinite)[0]


def _weights(
    scores: Scores, query: Array, key: Array, mask: Array, bias: Array, nonfinite: Array = None
) -> tuple[Array, Array]:
    """Return the weights, and the logarithm of the sum of exponentials if it is asked for."""
    space = scores.space
    logits = products(query, key, space, scores.scale)
    logits = scores.from_products(logits, nonfinite, *scores.hidden_and_bias(mask, bias))
    return softmax(logits, space, scores.sinks, with_lse=scores.with_lse)
