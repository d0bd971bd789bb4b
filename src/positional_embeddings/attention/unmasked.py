"""Attention of few queries to keys that they all see, as one token does in each step of a decoder.

A token of 12 layers takes 0.84 of the time after 16 keys, and a call of 64 keys 0.9
(`benchmarks/bench.py --only "decoding step"`).
"""

from positional_embeddings.arrays.namespace import Array
from positional_embeddings.attention import at_once
from positional_embeddings.attention.scores import ScoreSpec


def attend(spec: ScoreSpec, query: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Return the output, (..., query, feature), and None."""
    backend, seen, keys, values = spec.backend, spec.seen, key, value
    if seen is not spec.layout.keys:
        keys, values = seen.take(key, -2, backend), seen.take(value, -2, backend)
    output = backend.fused_attention(query, keys, values, spec.scale)
    return at_once.attend(spec, query, key, value) if output is None else (output, None)
