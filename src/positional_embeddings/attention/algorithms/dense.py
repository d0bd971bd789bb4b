"""Attention from all scores together."""

from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention.scores import ScoreSpec, without_nonfinite
from positional_embeddings.attention.softmax import query_key_products, softmax, weighted_sums


def attend_dense(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and `lse` if `spec.with_lse`, else None."""
    backend, queries, visible = spec.backend, spec.layout.queries, spec.visible_keys
    if visible is not spec.layout.keys:
        key, value = visible.take(key, -2, backend), visible.take(value, -2, backend)
    if spec.is_unmodified_product:
        # One token of 12 layers takes 0.84 of the time after 16 keys, and a call of 64 keys 0.9
        # (`benchmarks/bench.py --only "decoding step"`).
        output = backend.fused_attention(query, key, value, spec.scale)
        if output is not None:
            return output, None
    if not spec.has_mask_or_bias:
        scores = spec.scores_from_products(query_key_products(query, key, backend, spec.scale))
        weights, lse = softmax(scores, backend, spec.sinks, with_lse=spec.with_lse)
        return weighted_sums(weights, value, backend), lse
    mask = spec.mask_block(queries, visible) if spec.is_masked else None
    return attend_visible(spec, query, key, value, mask, spec.bias_block(queries, visible))


def attend_visible(
    spec: ScoreSpec, query: Array, key: Array, value: Array, mask: Array, bias: Array
) -> tuple[Array, Array]:
    """Return the output, and `lse` or None, where keys may be masked.

    The first pass assumes finite keys and values. One check of the scores and the output, which are
    much smaller in a decoding step, confirms it with one wait for a device. If it fails, a second
    pass replaces non-finite keys and values.
    """
    backend = spec.backend
    if backend.is_concrete(query) and not backend.has_cuda_kernels:
        products = query_key_products(query, key, backend, spec.scale)
        finite_probe = backend.sum_of_all(products)
        to_add = None if bias is None else spec.bias_to_add(bias)
        scores = spec.scores_from_products(products, None, mask, to_add)
        del products  # memory for the weights, unless the scores have overwritten them
        weights, lse = softmax(scores, backend, spec.sinks, with_lse=spec.with_lse)
        output = weighted_sums(weights, value, backend)
        if backend.is_finite(finite_probe + backend.sum_of_all(output)):
            return output, lse
    key, value = backend.astype(key, backend.dtype), backend.astype(value, backend.dtype)

    def attend_finite(key: Array, value: Array, nonfinite: Array = None) -> tuple[Array, Array]:
        weights, lse = _weights(spec, query, key, mask, bias, nonfinite)
        return backend.grouped_matmul(weights, value), lse

    def attend_any(key: Array, value: Array) -> tuple[Array, Array]:
        return attend_finite(*without_nonfinite(key, value, backend))

    loops = backend.loops()
    if loops is None:
        return attend_any(key, value)
    # A sum reads the keys, while a replacement copies them. A check of the scores instead would
    # have NaN in gradients of masked keys.
    total = backend.sum_of_all(key) + backend.sum_of_all(value)
    is_finite = loops.in_batch(backend.xp.isfinite(total))
    return loops.cond(is_finite, attend_finite, attend_any, key, value)  # type: ignore[no-any-return]


def dense_weights(spec: ScoreSpec, query: Array, key: Array) -> Array:
    """Return the softmax of all scores, (..., query, key), zeros if a query attends to no key."""
    queries, keys = spec.layout.queries, spec.layout.keys
    mask, bias = spec.mask_block(queries, keys), spec.bias_block(queries, keys)
    return visible_weights(spec, query, key, mask, bias)


def visible_weights(spec: ScoreSpec, query: Array, key: Array, mask: Array, bias: Array) -> Array:
    """Return the softmax of all scores, where keys may be masked."""
    key, nonfinite = spec.backend.astype(key, spec.backend.dtype), None
    if not (mask is None and bias is None):
        key, _, nonfinite = without_nonfinite(key, key, spec.backend)
    return _weights(spec, query, key, mask, bias, nonfinite)[0]


def _weights(
    spec: ScoreSpec, query: Array, key: Array, mask: Array, bias: Array, nonfinite: Array = None
) -> tuple[Array, Array]:
    """Return the weights, and the logarithm of the sum of exponentials if `spec.with_lse`."""
    backend = spec.backend
    scores = spec.scores_from_products(
        query_key_products(query, key, backend, spec.scale),
        nonfinite,
        *spec.mask_and_bias(mask, bias),
    )
    return softmax(scores, backend, spec.sinks, with_lse=spec.with_lse)
