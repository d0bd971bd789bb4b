"""Each smooth function, whatever its queries see of the samples, against loops that see all."""

import numpy as np
import pytest
from sklearn.base import clone

from backends import peak_memory
from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
)
from smoothers import KERNELS, drawn, folded, kept_of, smoothed

# Queries far outside of the samples are asked on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* farther outside of the samples")

INF = float("inf")


def fitted(kernel, *samples, **options):
    return AttentionRegressor(clone(kernel), **options).fit(*samples)


@pytest.mark.parametrize("block_size", [7, None])
@pytest.mark.parametrize("cutoff", [None, 1.3])
@pytest.mark.parametrize("name", KERNELS)
def test_predictions_are_those_of_a_loop(name, cutoff, block_size):
    """Also of samples of many weights, some at one place; of queries at, near and far from them."""
    kernel, factors, columns = KERNELS[name]
    x, y, weight = drawn(columns, 30)
    samples, _ = folded(x, y, weight)
    far = np.random.default_rng(1).uniform(-8, 25, (12, columns))
    q = np.concatenate([x[::4], far, 40 * np.ones((1, columns))])
    model = fitted(kernel, x, y, weight, cutoff=cutoff, block_size=block_size)
    ridge = 0.25 if len(factors) == 1 else INF
    expected = smoothed(factors, samples, q.T, [ridge], cutoff=cutoff)
    np.testing.assert_allclose(model.predict(q), expected.mean[0].T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cutoff", [None, 1.3])
@pytest.mark.parametrize("name", KERNELS)
def test_samples_that_are_left_out_with_their_neighbours(name, cutoff):
    kernel, factors, columns = KERNELS[name]
    x, y, weight = drawn(columns, 30)
    samples, at = folded(x, y, weight)
    ridge = 0.25 if len(factors) == 1 else INF
    for radius in (1e-9, 1.1):
        model = fitted(kernel, x, y, weight, cutoff=cutoff, block_size=7, leave_out=radius)
        kept = kept_of(samples.x, samples.x, radius, np.zeros(samples.weight.size))
        expected = smoothed(factors, samples, samples.x, [ridge], kept, cutoff)
        mean = expected.mean[0][:, at].T
        np.testing.assert_allclose(model.predict_left_out(), mean, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cutoff", [None, 2.0])
@pytest.mark.parametrize("block_size", [5, None])
def test_queries_that_see_few_of_many_samples(cutoff, block_size):
    """Queries in any order; what is left out is more than a kernel reaches, or less."""
    rng = np.random.default_rng(2)
    x, y, weight = np.sort(rng.uniform(0, 60, (240, 1)), axis=0), *rng.uniform(0.2, 3, (2, 240))
    samples, _ = folded(x, y[:, None], weight)
    q = rng.permutation(np.concatenate([x[::9], rng.uniform(-4, 64, (30, 1))]))
    factors = [KERNELS["line"][1][0]._replace(places=lambda x: x / 0.1)]
    for radius in (0.05, 6.0):
        model = fitted(
            GaussianKernel(0.1),
            x,
            y,
            weight,
            cutoff=cutoff,
            block_size=block_size,
            leave_out=radius,
        )
        kept = kept_of(x.T, x.T, radius, np.zeros(240))
        expected = smoothed(factors, samples, x.T, [0.25], kept, cutoff).mean[0, 0]
        np.testing.assert_allclose(model.predict_left_out(), expected, rtol=1e-8, atol=1e-10)
        expected = smoothed(factors, samples, q.T, [0.25], cutoff=cutoff).mean[0, 0]
        np.testing.assert_allclose(model.predict(q), expected, rtol=1e-8, atol=1e-10)


HEAVY = {  # a kernel, and the distance of what weighs about exp(-44) of what is near
    "gaussian": (GaussianKernel(1.0, local_linear=False), 9.4, np.exp(-(9.4**2) / 2)),
    "exponential": (MaternKernel(1.0, nu=0.5, local_linear=False), 44.0, np.exp(-44)),
    "matern": (
        MaternKernel(1.0, local_linear=False),
        28.0,
        (1 + 3**0.5 * 28) * np.exp(-(3**0.5) * 28),
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_sample_far_away_is_seen_beside_a_light_one(name):
    kernel, far, weight = HEAVY[name]
    x = np.concatenate([[0.0], np.full(4, far), 900 + np.arange(40.0)])[:, None]
    y = np.concatenate([[0.0], np.ones(44)])
    model = fitted(kernel, x, y, np.concatenate([[1e-19], np.ones(44)]))
    share = 4 * weight / 1e-19
    assert model.predict([[0.0]])[0] == pytest.approx(share / (1 + share), rel=1e-9)
    assert 0.1 < share / (1 + share) < 0.9


def test_a_sample_at_the_cutoff_is_seen():
    x, y = np.array([[0.0], [2.0]]), np.array([1.0, 3.0])
    for cutoff, share in [(2.0, np.exp(-2)), (1.99, 0.0)]:
        model = fitted(GaussianKernel(1.0, local_linear=False), x, y, cutoff=cutoff)
        assert model.predict([[0.0]])[0] == pytest.approx((1 + 3 * share) / (1 + share))


@pytest.mark.parametrize("name", ["plane", "product of three"])
def test_queries_together_are_as_queries_alone(name):
    kernel, _, columns = KERNELS[name]
    x, y, weight = drawn(columns, 40)
    q = np.random.default_rng(5).uniform(-40, 60, (50, columns))
    model = fitted(kernel, x, y, weight)
    mean, std = model.predict(q, return_std=True)
    for i, row in enumerate(q):
        one = model.predict(row[None], return_std=True)
        np.testing.assert_allclose(one, [mean[[i]], std[[i]]], rtol=1e-8, atol=1e-9)


def test_memory_is_that_of_a_block():
    """However many samples each query sees, and however many queries there are."""
    rng = np.random.default_rng(0)
    x, q = np.sort(rng.uniform(0, 1, (30_000, 1)), axis=0), rng.uniform(0, 1, (200, 1))
    wide = fitted(GaussianKernel(0.5), x, x[:, 0])
    # All weights at once are 48 MB, and ten times as many.
    assert peak_memory(lambda: wide.predict(q)) < 40e6
    few = fitted(GaussianKernel(0.5), x[::30], x[::30, 0], block_size=1)
    many = fitted(GaussianKernel(0.5), x[::30], x[::30, 0])
    q = np.full((60, 1), 0.5)
    all_at_once = peak_memory(lambda: many.predict(q))
    assert peak_memory(lambda: few.predict(q)) < 0.5 * all_at_once
