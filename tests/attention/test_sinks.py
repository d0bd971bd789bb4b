"""Logits of no key, and the logarithm of the sum of exponentials, by plain loops."""

import math

import numpy as np
import pytest

from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    PaddingMask,
    attention_weights,
    scaled_dot_product_attention,
)

AXES = {"feature_axis": -1, "seq_axis": -2}
RNG = np.random.default_rng(0)
Q = RNG.standard_normal((2, 4, 5, 8))
K, V = RNG.standard_normal((2, 2, 4, 7, 8))
OFFSET = 2  # five queries, the last of seven tokens
SINKS = np.asarray([0.3, -2.0, 5.0, 1.0])
HIDDEN = np.triu(np.ones((5, 7), dtype=bool), 3)
HIDDEN[0] = True


def loop(sinks, hidden):
    """Return outputs, logarithms of sums and weights, query by query."""
    out, lse, weights = np.zeros((2, 4, 5, 8)), np.zeros((2, 4, 5)), np.zeros((2, 4, 5, 7))
    for b, h, i in np.ndindex(2, 4, 5):
        seen = [j for j in range(7) if not hidden[i, j]]
        exp = {j: math.exp(sum(Q[b, h, i] * K[b, h, j]) / math.sqrt(8)) for j in seen}
        total = sum(exp.values()) + (0 if sinks is None else math.exp(sinks[h]))
        lse[b, h, i] = math.log(total) if total else -math.inf
        for j in seen:
            weights[b, h, i, j] = exp[j] / total
            out[b, h, i] += weights[b, h, i, j] * V[b, h, j]
    return out, lse, weights


def close(backend, got, expected):
    tolerance = 4 * backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("block_size", [None, 2])
@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_sinks_and_sums_are_those_of_loops(backend, with_sinks, is_hidden, block_size):
    hidden = HIDDEN if is_hidden else np.zeros_like(HIDDEN)
    out, lse, weights = loop(SINKS if with_sinks else None, hidden)
    arrays = [backend.array(x) for x in (Q, K, V)]
    options = {
        "mask": backend.array(HIDDEN) if is_hidden else None,
        "sinks": backend.array(SINKS) if with_sinks else None,
        **AXES,
    }
    got = scaled_dot_product_attention(*arrays, return_lse=True, block_size=block_size, **options)
    close(backend, got[0], out)
    close(backend, got[1], lse)
    alone = scaled_dot_product_attention(*arrays, block_size=block_size, **options)
    close(backend, alone, out)
    close(backend, attention_weights(*arrays[:2], **options), weights)


def test_outputs_of_parts_of_the_keys_are_merged(backend):
    arrays = [backend.array(x) for x in (Q, K, V)]
    xp = backend.xp
    whole, lse = scaled_dot_product_attention(*arrays, return_lse=True, **AXES)
    outputs, sums = [], []
    for at in (slice(0, 3), slice(3, 7)):
        q, k, v = arrays[0], arrays[1][:, :, at, :], arrays[2][:, :, at, :]
        output, own = scaled_dot_product_attention(q, k, v, return_lse=True, **AXES)
        outputs.append(output)
        sums.append(own)
    together = xp.logaddexp(*sums)
    merged = sum(
        x * xp.exp(own - together)[..., None] for x, own in zip(outputs, sums, strict=True)
    )
    close(backend, merged, backend.numpy(whole))
    close(backend, together, backend.numpy(lse))


@pytest.mark.parametrize("layout", ["(head, seq, heads, batch)", "(head, seq, heads * batch)"])
def test_sinks_belong_to_heads_in_any_layout(backend, layout):
    expected, lse = scaled_dot_product_attention(
        *(Q, K, V),
        mask=CausalMask() | PaddingMask([7, 4]),
        offset=OFFSET,
        sinks=SINKS,
        return_lse=True,
        **AXES,
    )
    is_merged = "*" in layout

    def moved(x):
        x = np.transpose(x, (*range(3, 1, -1), 1, 0)) if x.ndim == 4 else np.transpose(x, (2, 1, 0))
        return x.reshape(*x.shape[:-2], -1) if is_merged else x

    got = scaled_dot_product_attention(
        *(backend.array(moved(x)) for x in (Q, K, V)),
        mask=CausalMask() | PaddingMask([7, 4]),
        offset=OFFSET,
        sinks=backend.array(SINKS),
        return_lse=True,
        feature_axis=0,
        seq_axis=1,
    )
    close(backend, got[0], moved(expected))
    close(backend, got[1], moved(lse))


def test_sinks_of_shared_heads_and_a_bias(backend):
    k, v = K[:, ::2], V[:, ::2]
    expected = scaled_dot_product_attention(
        Q, np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1), bias=ALiBiBias(4), sinks=SINKS, **AXES
    )
    got = scaled_dot_product_attention(
        *map(backend.array, (Q, k, v)),
        bias=ALiBiBias(4),
        sinks=backend.array(SINKS),
        enable_gqa=True,
        **AXES,
    )
    close(backend, got, expected)


def test_sums_of_half_precision_are_in_float32():
    arrays = [x.astype(np.float16) for x in (Q, K, V)]
    output, lse = scaled_dot_product_attention(*arrays, return_lse=True, **AXES)
    assert (output.dtype, lse.dtype) == (np.float16, np.float32)
    np.testing.assert_allclose(lse, loop(None, np.zeros_like(HIDDEN))[1], atol=2e-3)


def test_queries_without_keys():
    none = np.zeros((2, 4, 0, 8))
    output, lse = scaled_dot_product_attention(Q, none, none, sinks=SINKS, return_lse=True, **AXES)
    assert not output.any()
    np.testing.assert_array_equal(lse, np.broadcast_to(SINKS[:, None], lse.shape))


@pytest.mark.parametrize("level", [0.0, -1e3, 1e3, -1e5, 1e5])
@pytest.mark.parametrize("block_size", [None, 1, 3])
def test_large_scores_lose_no_digits(backend, block_size, level):
    """Sinks are in the maximum and the total of the softmax: a sum in float32 would be too late."""
    scores = level + np.arange(8.0) / 4
    values, sink = np.arange(8.0) + 1, level + 2.5
    powers = [math.exp(s - level) for s in scores]
    total = sum(powers) + math.exp(sink - level)
    expected = sum(p * v for p, v in zip(powers, values, strict=True)) / total
    q, k, v = (backend.array(x[:, None], "float32") for x in (np.ones(3), scores, values))
    options = {"sinks": backend.array(np.asarray([sink]), "float32"), "scale": 1.0}
    options |= {"feature_axis": -1, "seq_axis": -2}
    q, k, v = (x[None, ...] for x in (q, k, v))
    got = scaled_dot_product_attention(q, k, v, block_size=block_size, **options)
    # An exponential for each of eight blocks; NumPy's are within 3 units in the last place.
    rtol = 8 * 3 * np.finfo("float32").eps
    np.testing.assert_allclose(backend.numpy(got), np.full((1, 3, 1), expected), rtol=rtol)
    weights = backend.numpy(attention_weights(q, k, **options))
    np.testing.assert_allclose(weights[0], np.tile(powers, (3, 1)) / total, rtol=rtol)


@pytest.mark.parametrize("block_size", [None, 1])
@pytest.mark.parametrize(("sink", "lse"), [(-math.inf, -math.inf), (math.inf, math.inf), (2, 2)])
def test_a_query_without_keys_has_its_sink_alone(backend, block_size, sink, lse):
    arrays = [backend.array(np.ones((1, 3, 2)), "float32") for _ in "qkv"]
    options = {"sinks": backend.array(np.asarray([sink]), "float32"), **AXES}
    options["mask"] = backend.array(np.ones((3, 3), dtype=bool))
    got = scaled_dot_product_attention(*arrays, return_lse=True, block_size=block_size, **options)
    np.testing.assert_array_equal(backend.numpy(got[0]), np.zeros((1, 3, 2)))
    # In blocks the logarithm of an exponential, each of which is rounded.
    np.testing.assert_allclose(backend.numpy(got[1]), np.full((1, 3), lse), rtol=5e-7)
    weights = attention_weights(*arrays[:2], **options)
    np.testing.assert_array_equal(backend.numpy(weights), np.zeros((1, 3, 3)))
    # Minus infinity is no key at all, and infinity outweighs all others.
    del options["mask"]
    got = scaled_dot_product_attention(*arrays, block_size=block_size, **options)
    expected = {-math.inf: 1.0, math.inf: 0.0, 2: 3 / (3 + math.exp(2 - math.sqrt(2)))}[sink]
    np.testing.assert_allclose(backend.numpy(got), np.full((1, 3, 2), expected), rtol=5e-7)


def test_sinks_beside_scores_that_need_no_maximum():
    """Few keys in blocks: the sinks are as small as the scores, or have a maximum subtracted."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 6, 4))
    for sinks in ([0.5, -20.0], [0.5, 30.0], [-np.inf, -200.0]):
        options = {"sinks": np.asarray(sinks), **AXES}
        whole = scaled_dot_product_attention(q, k, v, return_lse=True, **options)
        parts = scaled_dot_product_attention(q, k, v, return_lse=True, block_size=2, **options)
        for got, expected in zip(parts, whole, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)


def test_a_sink_that_the_dtype_does_not_hold_outweighs_all_keys():
    x = np.ones((2, 3, 1), "float32")
    got = scaled_dot_product_attention(x, x, x, sinks=np.asarray([1e300]))
    np.testing.assert_array_equal(got, np.zeros_like(x))
