"""Attention from all scores at once."""

from typing import Any

from positional_embeddings.arguments.positions import whole_span
from positional_embeddings.arrays.namespace import without_warnings
from positional_embeddings.attention import kernel
from positional_embeddings.attention.plan import KeyBlock
from positional_embeddings.attention.scores import Scores, without_nonfinite
from positional_embeddings.attention.softmax import multiply, softmax


def attend_at_once(
    scores: Scores, query: Any, key: Any, value: Any, keys: KeyBlock | None = None
) -> Any:
    """Return the output, (..., query, feature), from some keys, which hold all that are seen.

    Where keys may be hidden, they are first taken for finite. If the products are, so is all
    that they were computed from. In a decoding step they are much smaller than the keys and the
    values, so that checking them is cheaper; both are checked together, at one wait for a device.
    Kernels need no such check.
    """
    space = scores.space
    xp = space.xp
    if keys is not None:
        key, value = keys.keys.take(key, -2, space), keys.keys.take(value, -2, space)
    query, key, mask, bias = _operands(scores, query, key, keys)
    value = xp.astype(value, space.dtype, copy=False)
    if mask is None and bias is None:
        return multiply(softmax(scores.of(scores.products(query, key)), space), value, space)
    if space.compiles_kernels:
        weights = _weights(scores, query, key, mask, bias)
        return kernel.weighted_without_zeros(multiply(weights, value, space), weights, value, xp)
    if space.is_readable(query):
        with without_warnings():
            products = scores.products(query, key)
            total = xp.sum(products)
            found = scores.of(products, None, *scores.hidden_and_bias(mask, bias))
            output = multiply(softmax(found, space), value, space)
            is_finite = xp.isfinite(total + xp.sum(output))
        if space.is_true(is_finite):
            return output
    key, value, nonfinite = without_nonfinite(key, value, space)
    return multiply(_weights(scores, query, key, mask, bias, nonfinite), value, space)


def weights_at_once(scores: Scores, query: Any, key: Any) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    query, key, mask, bias = _operands(scores, query, key, None)
    nonfinite = None
    if scores.may_hide and not scores.space.compiles_kernels:
        key, _, nonfinite = without_nonfinite(key, key, scores.space)
    return _weights(scores, query, key, mask, bias, nonfinite)


def _operands(
    scores: Scores, query: Any, key: Any, keys: KeyBlock | None
) -> tuple[Any, Any, Any, Any]:
    """Return the scaled queries and the keys to compute with, the mask and the bias."""
    xp, dtype = scores.space.xp, scores.space.dtype
    query = xp.astype(query, dtype, copy=False) * scores.scale
    key = xp.astype(key, dtype, copy=False)
    if scores.mask is None and scores.bias is None:
        return query, key, None, None
    keys = KeyBlock(whole_span(key.shape[-2])) if keys is None else keys
    return query, key, *scores.mask_and_bias(whole_span(query.shape[-2]), keys)


def _weights(
    scores: Scores, query: Any, key: Any, mask: Any, bias: Any, nonfinite: Any = None
) -> Any:
    products, space = scores.products(query, key), scores.space
    if space.compiles_kernels and scores.may_hide:
        bias = None if bias is None else scores.bias_to_add(bias)
        found = kernel.masked_scores(products, key, mask, bias, scores.softcap, space.xp)
    else:
        found = scores.of(products, nonfinite, *scores.hidden_and_bias(mask, bias))
    return softmax(found, space)
