"""Attention from all scores at once."""

from typing import Any

from positional_embeddings.arguments.positions import Span
from positional_embeddings.arrays.namespace import Namespace, without_warnings
from positional_embeddings.attention import kernel
from positional_embeddings.attention.scores import Scores, without_nonfinite
from positional_embeddings.attention.softmax import (
    log_sum_exp,
    multiply,
    products,
    softmax,
    weighted_sums,
)


def attend(
    scores: Scores, query: Any, key: Any, value: Any, keys: Span, mask: Any, bias: Any
) -> Any:
    """Return the output, (..., query, feature), from some keys, which hold all that are seen.

    The mask and the bias are arrays for these keys, or None.

    Where keys may be hidden, they are first taken for finite. If the products are, so is all
    that they were computed from. In a decoding step they are much smaller than the keys and the
    values, so that checking them is cheaper; both are checked together, at one wait for a device.
    Kernels need no such check.
    """
    space = scores.space
    xp = space.xp
    if query.dtype != space.dtype:
        query = space.astype(query, space.dtype)
    query = query * scores.scale
    if keys is not scores.layout.keys:
        key, value = keys.take(key, -2, space), keys.take(value, -2, space)
    if mask is None and bias is None:
        found, lse = _softmax(scores.of(products(query, key, space)), scores)
        return _output(weighted_sums(found, value, space), lse, xp)
    if space.is_readable(query) and not space.compiles_kernels:
        with without_warnings():
            found = products(query, key, space)
            total = xp.sum(found)
            to_add = None if bias is None else scores.bias_to_add(bias)
            found, lse = _softmax(scores.of(found, None, mask, to_add), scores)
            output = weighted_sums(found, value, space)
            is_finite = xp.isfinite(total + xp.sum(output))
        if space.is_true(is_finite):
            return _output(output, lse, xp)
    key, value = space.astype(key, space.dtype), space.astype(value, space.dtype)
    if space.compiles_kernels:
        found, lse = _weights(scores, query, key, mask, bias)
        output = kernel.weighted_without_zeros(multiply(found, value, space), found, value, xp)
    else:
        key, value, nonfinite = without_nonfinite(key, value, space)
        found, lse = _weights(scores, query, key, mask, bias, nonfinite)
        output = multiply(found, value, space)
    return _output(output, lse, xp)


def _output(output: Any, lse: Any, xp: Namespace) -> Any:
    return output if lse is None else xp.concat([output, lse], axis=-1)


def weights(scores: Scores, query: Any, key: Any) -> Any:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    space, layout = scores.space, scores.layout
    query = space.astype(query, space.dtype) * scores.scale
    key, nonfinite = space.astype(key, space.dtype), None
    if scores.may_hide and not space.compiles_kernels:
        key, _, nonfinite = without_nonfinite(key, key, space)
    mask, bias = scores.mask_and_bias(layout.queries, layout.keys)
    found, lse = _weights(scores, query, key, mask, bias, nonfinite)
    return found if scores.sinks is None else found * scores.share_of_keys(lse)


def _weights(
    scores: Scores, query: Any, key: Any, mask: Any, bias: Any, nonfinite: Any = None
) -> tuple[Any, Any]:
    """Return the weights, and the logarithm of the sum of exponentials if it is asked for."""
    space = scores.space
    found = products(query, key, space)
    if space.compiles_kernels and not (mask is None and bias is None):
        bias = None if bias is None else scores.bias_to_add(bias)
        found = kernel.masked_scores(found, key, mask, bias, scores.softcap, space.xp)
    else:
        found = scores.of(found, nonfinite, *scores.hidden_and_bias(mask, bias))
    return _softmax(found, scores)


def _softmax(found: Any, scores: Scores) -> tuple[Any, Any]:
    """Return the weights, and the logarithm of the sum of exponentials if it is asked for."""
    space = scores.space
    if not scores.with_lse:
        return softmax(found, space), None
    if 0 in found.shape:
        shape = (*found.shape[:-1], 1)
        none = space.xp.full(shape, -float("inf"), dtype=found.dtype, device=space.device)
        return found, none
    highest = space.highest(found)
    found = softmax(found, space)
    return found, log_sum_exp(highest, found, space)
