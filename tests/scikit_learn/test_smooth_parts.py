"""Each smooth function, its leaves and what they see, against loops that see all samples."""

import numpy as np
import pytest
from sklearn.base import clone

from positional_embeddings.sklearn import GaussianKernel, smooth
from positional_embeddings.sklearn.smooth import Hidden, Samples, Smooth
from smoothers import KERNELS, drawn, kept_of, smoothed, terms_of

INF = float("inf")


def smoother(kernel, samples, ridges=(0.25,), *, cutoff=None, block_size=None):
    (term,) = terms_of(clone(kernel), samples.x.shape[0])
    return Smooth(term, samples, list(ridges), {"cutoff": cutoff, "block_size": block_size})


def assert_same(got, expected):
    sees = np.isfinite(expected.mean[0, 0])
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got.distance, expected.distance, rtol=1e-7, atol=1e-6)
    for name in ("at_query", "squares", "lean"):
        a, b = (getattr(found, name)[..., sees] for found in (got, expected))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("cutoff", [None, 1.3])
@pytest.mark.parametrize("name", KERNELS)
def test_predictions_of_samples_that_are_seen_and_hidden(name, cutoff):
    kernel, factors, columns = KERNELS[name]
    samples, rng = drawn(columns, 30), np.random.default_rng(1)
    x = np.concatenate([samples.x[:, ::4], rng.uniform(-8, 25, (columns, 12))], axis=1)
    m = x.shape[1]
    side = rng.integers(-1, 2, m)
    hidden = {
        "nothing": None,
        "itself": Hidden(x, samples.x, 0.0, np.zeros(m)),
        "a part": Hidden(x, samples.x, 1.1, rng.choice([0.0, 0.4], m)),
        "a side": Hidden(x, samples.x, 0.8, np.zeros(m), side),
        "all": Hidden(x, samples.x, np.inf, np.zeros(m)),
    }
    for what, some in hidden.items():
        kept = None if some is None else kept_of(*some)
        for ridges in [(0.25, 2.0), (0.25, INF), (INF,)]:
            own = smoother(kernel, samples, ridges, cutoff=cutoff, block_size=7)
            got = own.predict(x, some, squares=True)
            assert_same(got, smoothed(factors, samples, x, ridges, kept, cutoff))
            if what == "all":
                assert np.isnan(got.mean).all()


@pytest.mark.parametrize("cutoff", [None, 2.0])
def test_leaves_that_see_few_of_many_samples(cutoff):
    rng = np.random.default_rng(2)
    n = 240
    places = np.sort(rng.uniform(0, 60, n))[None]
    samples = drawn(1, n)._replace(x=places)
    x = rng.permutation(np.concatenate([places[0, ::9], rng.uniform(-4, 64, 30)]))[None]
    m = x.shape[1]
    hidden = [
        None,
        Hidden(x, places, 0.0, np.zeros(m)),
        Hidden(x, places, 0.0, np.full(m, 0.5)),
        Hidden(x, places, 6.0, np.zeros(m)),  # more than a kernel reaches
        Hidden(x, places, 1.0, np.zeros(m), rng.integers(-1, 2, m)),
    ]
    factors = [KERNELS["line"][1][0]._replace(places=lambda x: x / 0.1)]
    for block_size in (5, None):
        own = smoother(GaussianKernel(0.1), samples, cutoff=cutoff, block_size=block_size)
        for some in hidden:
            kept = None if some is None else kept_of(*some)
            got = own.predict(x, some, squares=True)
            assert_same(got, smoothed(factors, samples, x, [0.25], kept, cutoff))


def test_a_heavy_sample_far_away_is_seen_beside_a_light_one():
    x = np.concatenate([[0.0], np.full(4, 9.4), 100 + np.arange(40.0)])[None]
    y = np.ones((1, 45))
    y[0, 0] = 0
    weight = np.concatenate([[1e-12], np.ones(44)])
    samples = Samples(x, y, weight, np.zeros_like(y), np.ones(45))
    got = smoother(GaussianKernel(1.0), samples, [INF]).predict(
        np.zeros((1, 1)), None, squares=True
    )
    share = 4 * np.exp(-(9.4**2) / 2) / 1e-12
    np.testing.assert_allclose(got.mean[0, 0], share / (1 + share), rtol=1e-9)
    np.testing.assert_allclose(got.squares, (1 + share**2 / 4) / (1 + share) ** 2, rtol=1e-9)


@pytest.mark.parametrize("cutoff", [None, 1.5])
def test_reaches_of_leaves(cutoff):
    """Each query is in one leaf, from whose middle all that it sees is within reach."""
    samples, rng = drawn(2, 50), np.random.default_rng(3)
    own = smoother(GaussianKernel(0.5), samples, cutoff=cutoff, block_size=6)
    points = rng.uniform(-2, 30, (40, 2))
    squared = ((points[:, None] - samples.x.T / 0.5) ** 2).sum(axis=-1)
    nearest = np.sort(squared, axis=1)[:, :2]
    width = np.sqrt(2 * (41 + np.log(samples.weight.max() / samples.weight.min())))
    for left in (None, np.zeros(40), np.full(40, 0.5), rng.choice([0.0, 0.5], 40)):
        seen = nearest[:, 0] if left is None else np.where(left > 0, *nearest.T)
        far = np.sqrt(seen + (cutoff or width) ** 2 * np.maximum(1, seen - 3))
        hidden = None if left is None else Hidden(points.T, samples.x, 0.0, left)
        leaves = list(own._leaves(points, hidden))
        assert sorted(np.concatenate([at for at, *_ in leaves])) == list(range(40))
        for at, middle, extent, reach in leaves:
            low, high = points[at].min(axis=0), points[at].max(axis=0)
            np.testing.assert_allclose(middle, (low + high) / 2)
            np.testing.assert_allclose(extent, np.hypot(*(high - low)) / 2)
            np.testing.assert_allclose(reach, far[at].max() + 1e-3)
            assert at.size <= 6


def sizes(own, points):
    return sorted(at.size for at, *_ in own._leaves(np.asarray(points, dtype=np.float64), None))


def test_sizes_of_leaves(monkeypatch):
    """Queries are split by number, by their extent in widened kernels, and by what they see."""
    samples = Samples(
        *(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1), np.zeros((1, 1)), np.ones(1))
    )
    own = smoother(GaussianKernel(1.0), samples, block_size=4)
    assert sizes(own, [[0.0], [0.1], [0.2], [0.3]]) == [4]
    assert sizes(own, [[0.0], [0.1], [0.2], [0.3], [0.4]]) == [2, 3]
    # One extends over 64 widths, or more where even the nearest query is farther away than 2.
    assert sizes(own, [[-1.0], [63.0]]) == [2]
    assert sizes(own, [[-1.0], [63.5]]) == [1, 1]
    assert sizes(own, [[-200.0], [200.0]]) == [2]
    assert sizes(own, [[10.0], [640.0]]) == [2]
    assert sizes(own, [[10.0], [641.0]]) == [1, 1]
    # Of 40 samples, a query reaches those within some 9 widths.
    x = np.arange(0.0, 200.0, 5.0)[None]
    many = Samples(x, np.zeros_like(x), np.ones(40), np.zeros_like(x), np.ones(40))
    own = smoother(GaussianKernel(1.0), many)
    points = [[100.0], [105.0], [110.0]]
    reach = 5 + np.sqrt(82) + 1e-3
    weights = 3 * np.count_nonzero(abs(x - 105) <= reach)
    monkeypatch.setattr(smooth, "_MOST_WEIGHTS", weights)
    assert sizes(own, points) == [3]
    monkeypatch.setattr(smooth, "_MOST_WEIGHTS", weights - 1)
    assert sizes(own, points) == [1, 2]


def test_what_is_seen_from_a_place():
    """It is what is near, in order, or all where more than a quarter is near."""
    x = np.random.default_rng(4).permutation(np.arange(80.0))[None]
    samples = Samples(x, np.zeros_like(x), np.ones(80), np.zeros_like(x), np.ones(80))
    own = smoother(GaussianKernel(1.0), samples)
    for middle, radius in [(40.0, 3.2), (0.0, 19.0), (30.5, 9.5)]:
        near = np.flatnonzero(abs(x[0] - middle) <= radius)
        got = own._seen_from(np.array([middle]), radius)
        assert got.tolist() == near.tolist()
    assert own._seen_from(np.array([0.0]), 20.0).tolist() == list(range(80))
    assert own._seen_from(np.array([40.0]), 0.5).dtype == np.int64


@pytest.mark.parametrize("name", ["plane", "product of three"])
def test_sizes_of_leaves_change_no_result(name, monkeypatch):
    kernel, _, columns = KERNELS[name]
    samples = drawn(columns, 40)
    x = np.random.default_rng(5).uniform(-40, 60, (columns, 50))
    hidden = Hidden(x, samples.x, 1.0, np.zeros(50))
    found = [smoother(kernel, samples).predict(x, hidden, squares=True)]
    for bound, least in [("_MOST_QUERIES", 3), ("_MOST_WEIGHTS", 50), ("_MOST_EXTENT", 0.5)]:
        with monkeypatch.context() as patch:
            patch.setattr(smooth, bound, least)
            found.append(smoother(kernel, samples).predict(x, hidden, squares=True))
    with monkeypatch.context() as patch:
        patch.setattr(smooth, "_SLACK", 2.0)
        found.append(smoother(kernel, samples).predict(x, hidden, squares=True))
    for other in found[1:]:
        assert_same(other, found[0])


def test_the_farthest_place():
    samples = drawn(1, 5)
    own = smoother(GaussianKernel(0.5), samples)
    assert own.points(np.array([[0.5e150, -0.5e150]])).tolist() == [[1e150], [-1e150]]
    with pytest.raises(ValueError, match=r"`X` must be within 1e.150 widths of the kernel from 0"):
        own.points(np.array([[0.0, -0.51e150]]))


def test_a_sample_at_the_cutoff_is_seen():
    x = np.array([[0.0, 2.0]])
    samples = Samples(x, np.array([[1.0, 3.0]]), np.ones(2), np.zeros((1, 2)), np.ones(2))
    hidden = Hidden(x[:, :1], x, 0.0, np.array([0.5]))
    for cutoff, distance, share in [(2.0, 2.0, np.exp(-2)), (1.99, INF, 0.0)]:
        own = smoother(GaussianKernel(1.0), samples, [INF], cutoff=cutoff)
        got = own.predict(x[:, :1], hidden, squares=True)
        assert got.distance == [distance]
        np.testing.assert_allclose(got.mean, (0.5 + 3 * share) / (0.5 + share))
