"""Attention from all scores at once."""

from typing import Any

from positional_embeddings.arguments.positions import Span
from positional_embeddings.arrays.namespace import without_warnings
from positional_embeddings.attention import kernel
from positional_embeddings.attention.plan import KeyBlock
from positional_embeddings.attention.products import multiply
from positional_embeddings.attention.scores import Scores, without_nonfinite
from positional_embeddings.attention.softmax import softmax


def attend_at_once(scores: Scores, query: Any, key: Any, value: Any, keys: KeyBlock) -> Any:
    """Return the output, (..., query, feature), from some keys, which hold all that are seen.

    Where keys may be hidden, they are first taken for finite. If the products are, so is all
    that they were computed from. In a decoding step they are much smaller than the keys and the
    values, so that checking them is cheaper; both are checked together, at one wait for a device.
    Kernels need no such check.
    """
    space = scores.space
    xp = space.xp
    key, value = keys.keys.take(key, -2, space), keys.keys.take(value, -2, space)
    query, key, mask, bias = _operands(scores, query, key, keys)
    value = xp.astype(value, space.dtype, copy=False)
    if mask is None and bias is None:
        weights = softmax(scores.of(scores.products(query, key), None, None, None), space)
        return multiply(weights, value, space)
    if space.compiles_kernels:
        weights = _weights_by_kernels(scores, query, key, mask, bias)
        return kernel.weighted_without_zeros(multiply(weights, value, space), weights, value, xp)
    hidden, bias = scores.hidden_and_bias(mask, bias)
    if space.is_readable(query):
        with without_warnings():
            products = scores.products(query, key)
            total = xp.sum(products)
            weights = softmax(scores.of(products, None, hidden, bias), space)
            output = multiply(weights, value, space)
            is_finite = xp.isfinite(total + xp.sum(output))
        if space.is_true(is_finite):
            return output
    key, value, nonfinite = without_nonfinite(key, value, space)
    weights = softmax(scores.of(scores.products(query, key), nonfinite, hidden, bias), space)
    return multiply(weights, value, space)


def weights_at_once(scores: Scores, query: Any, key: Any) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    nonfinite = None
    query, key, mask, bias = _operands(scores, query, key, all_keys(key))
    if scores.may_hide and scores.space.compiles_kernels:
        return _weights_by_kernels(scores, query, key, mask, bias)
    mask, bias = scores.hidden_and_bias(mask, bias)
    if scores.may_hide:
        key, _, nonfinite = without_nonfinite(key, key, scores.space)
    return softmax(scores.of(scores.products(query, key), nonfinite, mask, bias), scores.space)


def all_keys(key: Any) -> KeyBlock:
    """Return all keys as one block."""
    return KeyBlock(Span(((0, key.shape[-2]),), key.shape[-2]), is_masked=True)


def _operands(scores: Scores, query: Any, key: Any, keys: KeyBlock) -> tuple[Any, Any, Any, Any]:
    """Return the scaled queries and the keys to compute with, the mask and the bias."""
    xp, q_len = scores.space.xp, query.shape[-2]
    query = xp.astype(query, scores.space.dtype, copy=False)
    key = xp.astype(key, scores.space.dtype, copy=False)
    queries = Span(((0, q_len),), q_len)
    mask, bias = scores.mask_and_bias(queries, keys.keys, is_masked=keys.is_masked)
    return query * scores.scale, key, mask, bias


def _weights_by_kernels(scores: Scores, query: Any, key: Any, mask: Any, bias: Any) -> Any:
    bias = None if bias is None else scores.bias_to_add(bias)
    products, xp = scores.products(query, key), scores.space.xp
    return softmax(
        kernel.masked_scores(products, key, mask, bias, scores.softcap, xp), scores.space
    )
