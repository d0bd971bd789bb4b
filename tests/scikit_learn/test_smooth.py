"""Each smooth function, compared with loops over all samples."""

import numpy as np
import pytest
from sklearn.base import clone

from backends import peak_memory
from positional_embeddings.sklearn import (
    AttentionRegressor,
    GaussianKernel,
    MaternKernel,
)
from smoothers import KERNELS, average_replicates, draw_samples, smooth, visible_weights

# Queries far outside of the samples are asked on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* farther outside of the samples")

INF = float("inf")


def fitted(kernel, *samples, **options):
    return AttentionRegressor(clone(kernel), **options).fit(*samples)


@pytest.mark.parametrize("block_size", [7, None])
@pytest.mark.parametrize("cutoff", [None, 1.3])
@pytest.mark.parametrize("name", KERNELS)
def test_predictions_are_those_of_a_loop(name, cutoff, block_size):
    """For samples with weights and replicates; for queries at, near and far from samples."""
    kernel, factors, columns = KERNELS[name]
    x, y, weight = draw_samples(columns, 30)
    samples, _ = average_replicates(x, y, weight)
    far = np.random.default_rng(1).uniform(-8, 25, (12, columns))
    q = np.concatenate([x[::4], far, 40 * np.ones((1, columns))])
    model = fitted(kernel, x, y, weight, cutoff=cutoff, block_size=block_size)
    ridge = 0.25 if len(factors) == 1 else INF
    expected = smooth(factors, samples, q.T, [ridge], cutoff=cutoff)
    np.testing.assert_allclose(model.predict(q), expected.mean[0].T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cutoff", [None, 1.3])
@pytest.mark.parametrize("name", KERNELS)
def test_samples_that_are_left_out_with_their_neighbours(name, cutoff):
    kernel, factors, columns = KERNELS[name]
    x, y, weight = draw_samples(columns, 30)
    samples, location = average_replicates(x, y, weight)
    ridge = 0.25 if len(factors) == 1 else INF
    for radius in (1e-9, 1.1):
        model = fitted(kernel, x, y, weight, cutoff=cutoff, block_size=7, leave_out=radius)
        visible = visible_weights(samples.x, samples.x, radius, np.zeros(samples.weight.size))
        expected = smooth(factors, samples, samples.x, [ridge], visible, cutoff)
        mean = expected.mean[0][:, location].T
        np.testing.assert_allclose(model.predict_left_out(), mean, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("cutoff", [None, 2.0])
@pytest.mark.parametrize("block_size", [5, None])
def test_queries_that_see_few_of_many_samples(cutoff, block_size):
    """Queries in any order; the radius of hidden samples is larger than the kernel, or smaller."""
    rng = np.random.default_rng(2)
    x, y, weight = np.sort(rng.uniform(0, 60, (240, 1)), axis=0), *rng.uniform(0.2, 3, (2, 240))
    samples, _ = average_replicates(x, y[:, None], weight)
    q = rng.permutation(np.concatenate([x[::9], rng.uniform(-4, 64, (30, 1))]))
    factors = [KERNELS["line"][1][0]._replace(features=lambda x: x / 0.1)]
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
        visible = visible_weights(x.T, x.T, radius, np.zeros(240))
        expected = smooth(factors, samples, x.T, [0.25], visible, cutoff).mean[0, 0]
        np.testing.assert_allclose(model.predict_left_out(), expected, rtol=1e-8, atol=1e-10)
        expected = smooth(factors, samples, q.T, [0.25], cutoff=cutoff).mean[0, 0]
        np.testing.assert_allclose(model.predict(q), expected, rtol=1e-8, atol=1e-10)


HEAVY = {  # a kernel, and the distance at which a weight is about exp(-44)
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
    x, y, weight = draw_samples(columns, 40)
    q = np.random.default_rng(5).uniform(-40, 60, (50, columns))
    model = fitted(kernel, x, y, weight)
    mean, std = model.predict(q, return_std=True)
    for i, row in enumerate(q):
        one = model.predict(row[None], return_std=True)
        np.testing.assert_allclose(one, [mean[[i]], std[[i]]], rtol=1e-8, atol=1e-9)


def test_memory_is_that_of_a_block():
    """For any number of visible samples, and of queries."""
    rng = np.random.default_rng(0)
    x, q = np.sort(rng.uniform(0, 1, (30_000, 1)), axis=0), rng.uniform(0, 1, (200, 1))
    model = fitted(GaussianKernel(0.5), x, x[:, 0])
    # The full weight matrix has 48 MB.
    assert peak_memory(lambda: model.predict(q)) < 40e6
    few = fitted(GaussianKernel(0.5), x[::30], x[::30, 0], block_size=1)
    many = fitted(GaussianKernel(0.5), x[::30], x[::30, 0])
    q = np.full((60, 1), 0.5)
    full_memory = peak_memory(lambda: many.predict(q))
    assert peak_memory(lambda: few.predict(q)) < 0.5 * full_memory
