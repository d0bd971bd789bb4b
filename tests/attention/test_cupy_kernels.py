"""Keys and values that are not finite, whichever way they are dealt with."""

import re

import numpy as np
import pytest

from positional_embeddings import ALiBiBias, attention_weights, scaled_dot_product_attention
from positional_embeddings.arrays.libraries.numpy import NumPy
from positional_embeddings.attention import cupy_kernels

LAST = {"feature_axis": -1, "seq_axis": -2}
HEADS, KEYS, HEAD = 4, 7, 3


def plain_loop(q, k, v, mask, bias, softcap):
    """Weights and output, (batch, heads, query, ...), query by query from the keys that it sees."""
    weights = np.zeros((*q.shape[:3], k.shape[2]))
    output = np.zeros((*q.shape[:3], v.shape[3]))
    for batch, head, query in np.ndindex(q.shape[:3]):
        at, own = (batch, head, query), (batch % len(k), head * k.shape[1] // q.shape[1])
        hidden = np.broadcast_to(mask, weights.shape)[at] | (
            np.broadcast_to(bias, weights.shape)[at] == -np.inf
        )
        seen = np.flatnonzero(~hidden)
        scores = k[own][seen] @ q[at] / np.sqrt(q.shape[-1])
        scores[~np.isfinite(k[own][seen]).all(axis=-1)] = np.nan
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        scores = scores + np.broadcast_to(bias, weights.shape)[at][seen]
        if np.isnan(scores).any():
            weights[at], output[at] = np.nan, np.nan
        elif len(seen):
            powers = np.exp(scores - scores.max())
            weights[at][seen] = powers / powers.sum()
            finite = np.isfinite(v[own][seen]).all()
            output[at] = sum(weights[at][j] * v[own][j] for j in seen) if finite else np.nan
    return weights, output


def partly_infinite(rng, queries, key_heads, key_batch):
    """Queries, keys, values, a mask and a bias; the last query sees nothing that is not finite."""
    q = rng.standard_normal((2, HEADS, queries, HEAD))
    k = rng.standard_normal((key_batch, key_heads, KEYS, HEAD))
    v = rng.standard_normal((key_batch, key_heads, KEYS, 2))
    k[..., 0, 1], k[:, 0, 1, :], k[-1, -1, 2, 0] = np.nan, -np.inf, np.inf
    v[..., 0, :], v[..., 3, 0], v[0, -1, 4, 0], v[-1, 0, 4, 1] = np.nan, np.inf, -np.inf, np.inf
    mask = rng.random((2, HEADS, queries, KEYS)) < 0.4
    mask[..., 0] = True
    mask[..., -1, :5] = True
    mask[0, 0, 0, :] = True
    bias = rng.standard_normal((1, HEADS, 1, KEYS))
    bias[..., 6] = -np.inf
    return q, k, v, mask, bias


def check(array, numpy, q, k, v, tolerance, *, mask, bias, softcap):
    """Compare the attention of a library with the plain loop."""
    given = {"mask": mask, "bias": bias}
    options = {name: array(value) for name, value in given.items() if value is not None}
    options |= {"softcap": softcap, "enable_gqa": True, **LAST}
    arrays = [array(x) for x in (q, k, v)]
    with np.errstate(invalid="ignore"):
        loop = plain_loop(
            q, k, v, False if mask is None else mask, 0.0 if bias is None else bias, softcap
        )
    attend = scaled_dot_product_attention
    got = attention_weights(*arrays[:2], **options), attend(*arrays, **options)
    for result, expected in zip(got, loop, strict=True):
        np.testing.assert_allclose(numpy(result), expected, rtol=tolerance, atol=tolerance)
    assert np.isfinite(loop[1][:, :, -1]).all()


CASES = pytest.mark.parametrize(
    ("queries", "key_heads", "key_batch", "softcap"),
    [(1, 4, 2, None), (3, 4, 1, None), (1, 2, 2, None), (3, 1, 2, 2.0), (1, 1, 1, None)],
)


@CASES
def test_not_finite_in_any_layout(backend, queries, key_heads, key_batch, softcap):
    rng = np.random.default_rng(0)
    *arrays, mask, bias = partly_infinite(rng, queries, key_heads, key_batch)
    tolerance = backend.tolerance() + 1e-14
    for terms in (
        {"mask": mask, "bias": None},
        {"mask": mask, "bias": bias},
        {"mask": None, "bias": np.where(mask, -np.inf, bias)},
    ):
        check(backend.array, backend.numpy, *arrays, tolerance, **terms, softcap=softcap)


class KernelInPython:
    """Stands in for CuPy's class; `test_not_finite_in_any_layout` runs the kernels themselves."""

    def __init__(self, inputs, output, code, name):
        self.names = [declared.split()[-1] for declared in inputs.split(",")]
        assert {*self.names, output.split()[-1]} <= set(re.findall(r"\w+", code))
        self.compute = getattr(self, name.removeprefix("positional_embeddings_"))

    def __call__(self, *arguments):
        return self.compute(**dict(zip(self.names, arguments, strict=True)))

    @staticmethod
    def masked_scores(product, hidden, bias, key, queries, keys, features, softcap, infinity):
        assert key.shape == (*product.shape[:-2], keys, features)
        assert product.shape[-2:] == (queries, keys)
        wrong = ~np.isfinite(key).all(axis=-1)[..., None, :] & ~np.isfinite(product)
        scores = np.where(wrong, np.nan, product)
        capped = scores if softcap == infinity else softcap * np.tanh(scores / softcap)
        return np.where(hidden | (bias == -infinity), -infinity, capped + bias)

    @staticmethod
    def exp_below(score, highest, least):
        return np.exp(score - np.maximum(highest, least))

    @staticmethod
    def share(power, total):
        return power / np.maximum(total, 1.0)

    @staticmethod
    def weighted_without_zeros(product, products, weights, values, queries, keys, features, nan):
        assert product is products
        assert weights.shape == (*product.shape[:-2], queries, keys)
        assert values.shape == (*product.shape[:-2], keys, features)
        values = np.where(np.isfinite(values).all(axis=-1, keepdims=True), values, nan)
        terms = weights[..., None] * values[..., None, :, :]
        return np.where(weights[..., None] == 0, 0.0, terms).sum(axis=-2)


@pytest.fixture
def with_kernels(monkeypatch):
    monkeypatch.setattr(np, "ElementwiseKernel", KernelInPython, raising=False)
    monkeypatch.setattr(NumPy, "compiles_kernels", True)
    yield
    cupy_kernels.kernel_by_name.cache_clear()


@CASES
@pytest.mark.usefixtures("with_kernels")
def test_what_kernels_are_given(queries, key_heads, key_batch, softcap):
    rng = np.random.default_rng(0)
    *arrays, mask, bias = partly_infinite(rng, queries, key_heads, key_batch)
    with np.errstate(invalid="ignore"):
        for terms in (
            {"mask": mask, "bias": None},
            {"mask": mask, "bias": bias},
            {"mask": None, "bias": np.where(mask, -np.inf, bias)},
        ):
            check(np.asarray, np.asarray, *arrays, 1e-14, **terms, softcap=softcap)


@pytest.mark.usefixtures("with_kernels")
def test_what_kernels_are_given_without_a_mask():
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, HEADS, 5, HEAD)) for _ in range(3))
    bias = np.moveaxis(ALiBiBias(HEADS)(5), -1, 0)[None, ...]
    for terms in ({"mask": None, "bias": None}, {"mask": None, "bias": bias}):
        check(np.asarray, np.asarray, q, k, v, 1e-14, **terms, softcap=None)
    empty = scaled_dot_product_attention(q, k[:, :, :0], v[:, :, :0], **LAST)
    np.testing.assert_array_equal(empty, np.zeros_like(q))


@pytest.mark.usefixtures("with_kernels")
def test_the_sum_of_exponentials_beside_a_mask():
    q, k, v = (np.random.default_rng(i).standard_normal((2, HEADS, 5, HEAD)) for i in range(3))
    seen = np.tril(np.ones((5, 5)))
    _, lse = scaled_dot_product_attention(q, k, v, mask=seen == 0, return_lse=True, **LAST)
    exponentials = np.exp(q @ k.mT / np.sqrt(HEAD)) * seen
    np.testing.assert_allclose(lse, np.log(exponentials.sum(axis=-1)), atol=1e-12)
