"""A function of positions as a bias, in a call and in attention."""

import numpy as np
import pytest
from array_api_compat import array_namespace

import oracles
from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    FunctionBias,
    KVCache,
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.biases.bias import Bias


def penalty(q_pos, k_pos):
    """Return a real bias of integer positions, in any library."""
    xp = array_namespace(q_pos, k_pos)
    return -xp.astype(xp.abs(k_pos - q_pos), xp.float32) / 4


def of_heads(q_pos, k_pos):
    return penalty(q_pos, k_pos)[..., None] * np.asarray([1.0, 0.5])


def by_pairs(query, key):
    return np.asarray([[-abs(j - i) / 4 for j in key] for i in query])


def test_a_call_gives_the_function_of_each_pair(backend):
    bias = FunctionBias(lambda q, k: -abs(k - q) / 4)
    positions = np.asarray([3.0, 0.5, -2.0])
    got = bias(query_positions=backend.array(positions))
    assert got.shape == (3, 3, 1)
    np.testing.assert_allclose(backend.numpy(got)[..., 0], by_pairs(positions, positions))


def test_heads_follow_the_pairs():
    bias = FunctionBias(of_heads, num_heads=2)
    pairs = by_pairs(range(2, 4), range(4))
    np.testing.assert_array_equal(bias(2, 4), np.stack([pairs, 0.5 * pairs], axis=-1))
    shared = FunctionBias(penalty, num_heads=2)(2, 4)  # the same for all heads
    np.testing.assert_array_equal(shared, np.stack([pairs, pairs], axis=-1))
    batched = np.asarray([[0, 1], [5, 3]])
    got = bias(query_positions=batched)  # (query, key, heads, batch)
    for row in range(2):
        pairs = by_pairs(batched[:, row], batched[:, row])
        np.testing.assert_array_equal(got[..., row], np.stack([pairs, 0.5 * pairs], axis=-1))


def test_what_broadcasts_is_a_bias_of_each_pair():
    assert FunctionBias(lambda _, k: -1.0 * k)(2, 3).shape == (2, 3, 1)
    assert FunctionBias(lambda *_: np.zeros((1, 1, 2)), 2)(2, 3).shape == (2, 3, 2)


@pytest.mark.parametrize("block_size", [None, 2])
def test_an_attention_evaluates_it(backend, block_size):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 5, 2))
    expected, _ = oracles.attention(q, k, v, bias=by_pairs(range(5), range(5))[..., None])
    got = scaled_dot_product_attention(
        *(backend.array(x) for x in (q, k, v)), bias=FunctionBias(penalty), block_size=block_size
    )
    tolerance = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("make", [lambda b: b, lambda b: b.rewind([1, 0])], ids=["one", "several"])
def test_beside_a_step_it_gets_positions(make):
    """The positions of slots in a ring, the same for all sequences or different."""
    cache = KVCache.empty(
        1, 2, window=4, drafts=1, num_kv_heads=1, head_size=1, feature_axis=-1, seq_axis=-2
    )
    cache, step = cache.step(7)
    step.update(0, *np.ones((2, 2, 1, 7, 1)))
    _, step = make(cache).step(1)
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 4))
    for bias, slopes in (
        (FunctionBias(of_heads, 2), (1.0, 0.5)),
        (FunctionBias(penalty), (1.0, 1.0)),
    ):
        options = {"mask": CausalMask(), "positions": step}
        got = attention_weights(x[:, :, :1], x, bias=bias, **options)
        for row, head in np.ndindex(2, 2):
            i = min(row, len(step.positions) - 1)
            query, keys = int(step.positions[i, 0]), step.key_positions[i]
            scores = x[row, head] @ x[row, head, 0] / 2
            pairs = [slopes[head] * -abs(int(p) - query) / 4 for p in keys]
            is_stored = [query - 4 < p <= query for p in keys]
            weights = np.where(is_stored, np.exp(scores + pairs), 0)
            np.testing.assert_allclose(got[row, head, 0], weights / weights.sum(), atol=1e-12)


def test_it_is_a_value():
    assert FunctionBias(penalty) == FunctionBias(penalty) != FunctionBias(penalty, 2)
    assert len({FunctionBias(penalty), FunctionBias(penalty), FunctionBias(of_heads)}) == 2
    for wrong in (ALiBiBias, ALiBiBias(2), 3):
        with pytest.raises(TypeError, match="`function` must be a function of positions"):
            FunctionBias(wrong)


class OwnBias(Bias):
    """A subclass without a formula."""


@pytest.mark.parametrize(
    "call",
    [
        lambda bias: bias(3),
        lambda bias: bias(query_positions=np.asarray([0, 1])),
        lambda bias: scaled_dot_product_attention(*np.ones((3, 4, 3, 2)), bias=bias),
    ],
)
def test_biases_without_a_formula(call):
    message = r"^`OwnBias` has no formula of its own: pass a FunctionBias or an array instead"
    with pytest.raises(TypeError, match=message):
        call(OwnBias())
