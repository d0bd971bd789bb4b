"""Attention from all scores at once."""

from typing import Any

from positional_embeddings.arguments.spans import Span
from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention.scores import Scores, without_nonfinite
from positional_embeddings.attention.softmax import multiply, products, softmax, weighted_sums


def attend(
    scores: Scores,
    query: Array,
    key: Array,
    value: Array,
    *,
    keys: Span,
    is_masked: bool,
    mask: Array = None,
    bias: Array = None,
) -> tuple[Any, Any]:
    """Return the output, (..., query, feature), from some keys, which hold all that are seen.

    `is_masked` tells whether a mask hides some of them. The mask and the bias are asked for these
    keys, unless they are given.

    Where keys may be hidden, they are first taken for finite. If the products are, so is all
    that they were computed from. In a decoding step they are much smaller than the keys and the
    values, so that checking them is cheaper; both are checked together, at one wait for a device.
    """
    space, layout = scores.space, scores.layout
    if is_masked and mask is None:
        mask = scores.mask_between(layout.queries, keys)
    if bias is None:
        bias = scores.bias_between(layout.queries, keys)
    query = space.astype(query, space.dtype) * scores.scale
    if keys is not layout.keys:
        key, value = keys.take(key, -2, space), keys.take(value, -2, space)
    if not scores.may_hide:
        weights, lse = _softmax(scores.of(products(query, key, space)), scores)
        return weighted_sums(weights, value, space), lse
    if space.is_readable(query):
        found = products(query, key, space)
        checked = space.sum_of_all(found)
        to_add = None if bias is None else scores.bias_to_add(bias)
        weights, lse = _softmax(scores.of(found, None, mask, to_add), scores)
        output = weighted_sums(weights, value, space)
        if space.is_finite(checked + space.sum_of_all(output)):
            return output, lse
    key, value = space.astype(key, space.dtype), space.astype(value, space.dtype)
    key, value, nonfinite = without_nonfinite(key, value, space)
    weights, lse = _weights(scores, query, key, mask, bias, nonfinite)
    return multiply(weights, value, space), lse


def weights(scores: Scores, query: Array, key: Array) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    space, layout = scores.space, scores.layout
    query = space.astype(query, space.dtype) * scores.scale
    key, nonfinite = space.astype(key, space.dtype), None
    if scores.may_hide:
        key, _, nonfinite = without_nonfinite(key, key, space)
    mask = scores.mask_between(layout.queries, layout.keys)
    bias = scores.bias_between(layout.queries, layout.keys)
    return _weights(scores, query, key, mask, bias, nonfinite)[0]


def _weights(
    scores: Scores, query: Array, key: Array, mask: Array, bias: Array, nonfinite: Array = None
) -> tuple[Any, Any]:
    """Return the weights, and the logarithm of the sum of exponentials if it is asked for."""
    space = scores.space
    found = products(query, key, space)
    return _softmax(scores.of(found, nonfinite, *scores.hidden_and_bias(mask, bias)), scores)


def _softmax(found: Any, scores: Scores) -> tuple[Any, Any]:
    return softmax(found, scores.space, scores.sinks, with_lse=scores.with_lse)
