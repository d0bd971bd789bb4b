"""Encodings of the nodes of graphs against closed forms, and against counted walks."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import graph_laplacian_encoding, random_walk_encoding

LAPLACIANS = ("normalized", "combinatorial")


def path(n):
    return np.eye(n, k=1) + np.eye(n, k=-1)


def cycle(n):
    return np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)


def complete(n):
    return np.ones((n, n)) - np.eye(n)


def star(n):
    weights = np.zeros((n, n))
    weights[0, 1:] = weights[1:, 0] = 1
    return weights


def random_graph(n, seed=0):
    """A connected graph with distinct weights and distinct eigenvalues."""
    weights = np.triu(np.random.default_rng(seed).uniform(0.1, 1, (n, n)), 1)
    return weights + weights.T


def laplacian(weights, kind):
    """The definition, entry by entry; a node without edges has a row of zeros."""
    n = len(weights)
    degree = [math.fsum(row) for row in weights.tolist()]
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if kind == "combinatorial":
                matrix[i, j] = (degree[i] if i == j else 0.0) - weights[i, j]
            elif degree[i] and degree[j]:
                matrix[i, j] = (i == j) - weights[i, j] / math.sqrt(degree[i] * degree[j])
    return matrix


def with_signs(vectors):
    """Make the first of the largest entries positive."""
    signs = []
    for row in vectors:
        largest = max(abs(v) for v in row)
        (first, *_) = [v for v in row if abs(v) >= (1 - 2**-10) * largest]
        signs.append(math.copysign(1, first))
    return np.asarray(signs)[:, None] * vectors


def projector(vectors):
    return vectors.T @ vectors


def close(backend, got, expected):
    tolerance = 1e-12 if backend.wide == "float64" else 5e-6
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=0, atol=tolerance)


@pytest.fixture
def with_eigh(backend):
    if backend.name == "dask":
        pytest.skip(f"{backend.name} has no linalg.eigh: see test_libraries_without_eigh")
    if (reason := backend.lacks("eigh")) is not None:
        pytest.skip(reason)
    return backend


# Eigenvectors.


@pytest.mark.parametrize("n", [2, 5, 8])
def test_path(with_eigh, n):
    """Cosines: cos(pi j (i + 1/2) / n), and sqrt(degree) cos(pi j i / (n - 1))."""
    plain = [[math.cos(math.pi * j * (i + 0.5) / n) for i in range(n)] for j in range(1, n)]
    degree = [1, *[2] * (n - 2), 1]
    normalized = [
        [math.sqrt(degree[i]) * math.cos(math.pi * j * i / (n - 1)) for i in range(n)]
        for j in range(1, n)
    ]
    for kind, rows in (("combinatorial", plain), ("normalized", normalized)):
        expected = with_signs([np.asarray(row) / math.hypot(*row) for row in rows])
        got = graph_laplacian_encoding(with_eigh.array(path(n)), n - 1, laplacian=kind)
        close(with_eigh, got, expected)


@pytest.mark.parametrize("kind", LAPLACIANS)
def test_cycle(with_eigh, kind):
    """Cosine and sine of each frequency have one eigenvalue: their plane is determined."""
    n = 7
    got = with_eigh.numpy(graph_laplacian_encoding(with_eigh.array(cycle(n)), 6, laplacian=kind))
    i = np.arange(n)
    for j in (1, 2, 3):
        angle = 2 * math.pi * j * i / n
        expected = np.stack([np.cos(angle), np.sin(angle)]) / math.sqrt(n / 2)
        pair = got[2 * j - 2 : 2 * j]
        tolerance = 1e-12 if with_eigh.wide == "float64" else 5e-6
        np.testing.assert_allclose(projector(pair), projector(expected), atol=tolerance)


@pytest.mark.parametrize("kind", LAPLACIANS)
def test_complete_graph(with_eigh, kind):
    """All eigenvalues but the first are equal: vectors orthogonal to the constant vector."""
    n = 6
    got = graph_laplacian_encoding(with_eigh.array(complete(n)), n - 1, laplacian=kind)
    got = with_eigh.numpy(got)
    tolerance = 1e-12 if with_eigh.wide == "float64" else 5e-6
    np.testing.assert_allclose(projector(got), np.eye(n) - 1 / n, atol=tolerance)


def test_star(with_eigh):
    n = 6
    plain = np.asarray([n - 1.0, *[-1.0] * (n - 1)]) / math.sqrt(n * (n - 1))
    normalized = np.asarray([math.sqrt(n - 1), *[-1.0] * (n - 1)]) / math.sqrt(2 * (n - 1))
    for kind, last in (("combinatorial", plain), ("normalized", normalized)):
        got = graph_laplacian_encoding(with_eigh.array(star(n)), n - 1, laplacian=kind)
        close(with_eigh, got[-1, ...], last)
        leaves = with_eigh.numpy(got)[:-1]  # one eigenvalue, 1: zero at the centre, of sum 0
        expected = np.zeros((n, n))
        expected[1:, 1:] = np.eye(n - 1) - 1 / (n - 1)
        tolerance = 1e-12 if with_eigh.wide == "float64" else 5e-6
        np.testing.assert_allclose(projector(leaves), expected, atol=tolerance)


@pytest.mark.parametrize("kind", LAPLACIANS)
def test_eigenvectors_of_a_weighted_graph_with_loops(with_eigh, kind):
    weights = random_graph(9)
    weights[2, 2] = 0.7
    got = graph_laplacian_encoding(with_eigh.array(weights), 5, laplacian=kind)
    got = with_eigh.numpy(got).astype(float)
    matrix = laplacian(weights, kind)
    values = [row @ matrix @ row for row in got]
    assert values[0] > 0
    assert all(a < b for a, b in pairwise(values))
    tolerance = 1e-12 if with_eigh.wide == "float64" else 1e-5
    np.testing.assert_allclose(got @ got.T, np.eye(5), atol=tolerance)
    for value, row in zip(values, got, strict=True):
        np.testing.assert_allclose(matrix @ row, value * row, atol=10 * tolerance)
    np.testing.assert_array_equal(with_signs(got), got)
    # No small eigenvalue is omitted.
    below = [v for v in np.linalg.eigvalsh(matrix)[1:] if v < values[-1] + 1e-5]
    assert len(below) == 5


@pytest.mark.parametrize("kind", LAPLACIANS)
def test_components_and_nodes_without_edges(with_eigh, kind):
    """A path of three, an edge and an isolated node: three zero eigenvalues, one omitted."""
    weights = np.zeros((6, 6))
    weights[:3, :3], weights[4:, 4:] = path(3), path(2)
    got = graph_laplacian_encoding(with_eigh.array(weights), 5, laplacian=kind)
    got = with_eigh.numpy(got).astype(float)
    assert np.isfinite(got).all()
    matrix = laplacian(weights, kind)
    values = np.asarray([row @ matrix @ row for row in got])
    tolerance = 1e-12 if with_eigh.wide == "float64" else 1e-5
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[1:], atol=tolerance)
    np.testing.assert_allclose(got @ matrix, values[:, None] * got, atol=10 * tolerance)
    np.testing.assert_allclose(values[:2], 0, atol=tolerance)


BATCH = np.asarray([random_graph(5, seed) for seed in range(6)]).reshape(2, 3, 5, 5)


def test_eigenvectors_of_a_batch(with_eigh):
    got = graph_laplacian_encoding(with_eigh.array(BATCH), 3)
    expected = [[graph_laplacian_encoding(graph, 3) for graph in row] for row in BATCH]
    close(with_eigh, got, np.moveaxis(np.asarray(expected), 2, 0))


def test_signs_in_a_batch():
    """The sign of each vector is independent of the other vectors."""
    batch = np.asarray([random_graph(5, seed) for seed in range(32)]).reshape(8, 4, 5, 5)
    expected = [[graph_laplacian_encoding(graph, 3) for graph in row] for row in batch]
    got = graph_laplacian_encoding(batch, 3)
    np.testing.assert_allclose(got, np.moveaxis(np.asarray(expected), 2, 0), atol=1e-12)


def test_walks_of_a_batch(backend):
    got = random_walk_encoding(backend.array(BATCH), 4)
    expected = [[random_walk_encoding(graph, 4) for graph in row] for row in BATCH]
    close(backend, got, np.moveaxis(np.asarray(expected), 2, 0))


@given(seed=st.integers(0, 1000), kind=st.sampled_from(LAPLACIANS))
def test_permuting_nodes_permutes_the_encodings(seed, kind):
    """Signs, too, as no two entries of these vectors are the largest."""
    weights = random_graph(7, seed)
    order = np.random.default_rng(seed).permutation(7)
    permuted = weights[order][:, order]
    first = graph_laplacian_encoding(weights, 4, laplacian=kind)
    magnitudes = np.sort(abs(first), axis=-1)
    same_sign = magnitudes[:, -2] < (1 - 2**-9) * magnitudes[:, -1]
    got = graph_laplacian_encoding(permuted, 4, laplacian=kind)
    np.testing.assert_allclose(got[same_sign], first[same_sign][:, order], atol=1e-9)
    np.testing.assert_allclose(abs(got), abs(first[:, order]), atol=1e-9)
    walks = random_walk_encoding(weights, 5)
    np.testing.assert_allclose(random_walk_encoding(permuted, 5), walks[:, order], atol=1e-14)


@given(factor=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_the_unit_of_weights_changes_nothing(factor, seed):
    weights = random_graph(6, seed)
    for encode in (
        lambda a: graph_laplacian_encoding(a, 3),
        lambda a: graph_laplacian_encoding(a, 3, laplacian="combinatorial"),
        lambda a: random_walk_encoding(a, 4),
    ):
        np.testing.assert_allclose(encode(factor * weights), encode(weights), atol=1e-9)


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-14), ("float32", 1e-6)])
def test_rounding_leaves_a_graph_undirected(dtype, rounding):
    weights = random_graph(6)
    nudged = weights * (1 + rounding * np.random.default_rng(0).standard_normal((6, 6)))
    got = graph_laplacian_encoding(nudged.astype(dtype), 3)
    np.testing.assert_allclose(got, graph_laplacian_encoding(weights, 3), atol=100 * rounding)


@pytest.mark.parametrize(("ratio", "sign"), [(0.9993, 1), (0.9985, -1)])
def test_an_entry_within_a_thousandth_of_the_largest_may_give_the_sign(ratio, sign):
    """Two nodes of degrees 2 and 2 ratio**2: the vector is orthogonal to their roots."""
    got = graph_laplacian_encoding(np.asarray([[1, 1], [1, 2 * ratio**2 - 1]]), 1)
    expected = sign * np.asarray([[ratio, -1.0]]) / math.hypot(ratio, 1)
    np.testing.assert_allclose(got, expected, atol=1e-14)


def test_a_library_without_eigh(monkeypatch):
    import array_api_strict as strict

    monkeypatch.delattr(strict.linalg, "eigh")
    message = r"a library with `linalg.eigh`, got array_api_strict\.Array\.$"
    with pytest.raises(TypeError, match=message):
        graph_laplacian_encoding(strict.ones((3, 3)), 1)


def check_dtypes(backend, encode):
    xp, plain = backend.xp, path(4)
    default = xp.asarray(1.0, device=backend.device).dtype
    exact = encode(plain, 3)

    def check(got, dtype):
        assert got.dtype == dtype
        single = backend.numpy(xp.astype(got, xp.float32))
        np.testing.assert_allclose(single, exact, atol=max(float(xp.finfo(dtype).eps), 5e-7))

    for kind in ("bool", "int32"):
        check(encode(backend.array(plain, kind), 3), default)
    for dtype in (*backend.half_dtypes, *(getattr(xp, name) for name in backend.floats)):
        check(encode(xp.astype(backend.array(plain), dtype), 3), dtype)
        check(encode(backend.array(plain), 3, dtype=dtype), dtype)


def test_dtypes_of_eigenvectors(with_eigh):
    check_dtypes(with_eigh, graph_laplacian_encoding)


def test_dtypes_of_walks(backend):
    check_dtypes(backend, random_walk_encoding)


@pytest.mark.library("dask")
def test_libraries_without_eigh():
    import dask.array

    message = r"a library with `linalg.eigh`, got dask\.array.* Pass adjacency.compute\(\)\.$"
    with pytest.raises(TypeError, match=message):
        graph_laplacian_encoding(dask.array.ones((3, 3)), 1)


@pytest.mark.library("jax")
def test_values_that_cannot_be_read():
    """A traced weight is the mean of both directions."""
    import jax

    with jax.enable_x64(True):
        one_way = np.triu(random_graph(5))
        got = jax.jit(lambda a: graph_laplacian_encoding(a, 2))(jax.numpy.asarray(one_way))
    expected = graph_laplacian_encoding((one_way + one_way.T) / 2, 2)
    np.testing.assert_allclose(np.asarray(got), expected, atol=1e-12)


@pytest.mark.library("torch")
def test_gradients():
    import torch

    weights = torch.tensor(random_graph(5)[np.triu_indices(5, 1)], requires_grad=True)
    rows, columns = np.triu_indices(5, 1)

    def graph(values):
        filled = torch.zeros((5, 5), dtype=torch.float64).index_put((rows_, columns_), values)
        return filled + filled.mT

    rows_, columns_ = torch.asarray(rows), torch.asarray(columns)
    for encode in (
        lambda w: graph_laplacian_encoding(graph(w), 3),
        lambda w: graph_laplacian_encoding(graph(w), 3, laplacian="combinatorial"),
        lambda w: random_walk_encoding(graph(w), 4),
    ):
        assert torch.autograd.gradcheck(encode, (weights,))


@pytest.mark.library("jax")
def test_gradients_in_jax():
    import jax
    from jax.test_util import check_grads

    with jax.enable_x64(True):
        weights = jax.numpy.asarray(random_graph(5))
        for encode in (
            lambda w: graph_laplacian_encoding(1 + w + w.mT, 3),
            lambda w: random_walk_encoding(1 + w, 4),
        ):
            check_grads(jax.jit(encode), (weights,), order=1, modes=["rev"])


@pytest.mark.library("torch")
def test_a_node_without_edges_has_a_gradient():
    import torch

    weights = torch.zeros((4, 4), dtype=torch.float64)
    weights[:3, :3] = torch.asarray(random_graph(3))
    weights.requires_grad_()
    (graph_laplacian_encoding(weights, 3)[2] ** 3).sum().backward(retain_graph=True)
    random_walk_encoding(weights, 4).sum().backward()
    assert torch.isfinite(weights.grad[:3, :3]).all()


# Random walks.


def returns(weights, node, steps):
    """Add the probabilities of all walks that return after a number of steps."""
    total = 0.0
    walks = [(node, 1.0)]
    for _ in range(steps):
        further = []
        for at, probability in walks:
            leaving = sum(weights[at])
            further += [
                (to, probability * weight / leaving)
                for to, weight in enumerate(weights[at])
                if weight
            ]
        walks = further
    for at, probability in walks:
        total += probability if at == node else 0.0
    return total


GRAPHS = {
    "path": path(4),
    "cycle": cycle(5),
    "complete": complete(4),
    "star": star(5),
    "weighted": random_graph(4),
    "directed": np.asarray([[0, 2, 0, 0.5], [0, 0, 3, 0], [1, 1, 0.25, 0], [0, 0, 0, 0]]),
    "no edges": np.zeros((3, 3)),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_walks_counted_one_by_one(backend, graph):
    weights = GRAPHS[graph]
    rows = weights.tolist()
    expected = [[returns(rows, node, t) for node in range(len(rows))] for t in range(1, 7)]
    close(backend, random_walk_encoding(backend.array(weights), 6), expected)


def test_walks_on_a_complete_graph():
    """(1 - (-1 / (n - 1))**(t - 1)) / n, from the eigenvalues of its transition matrix."""
    n, steps = 9, 20
    expected = [[(1 - (-1 / (n - 1)) ** (t - 1)) / n] * n for t in range(1, steps + 1)]
    np.testing.assert_allclose(random_walk_encoding(complete(n), steps), expected, atol=1e-15)


def test_walks_of_few_steps_are_the_first_of_many():
    weights = random_graph(6)
    whole = random_walk_encoding(weights, 9)
    for steps in range(1, 9):
        np.testing.assert_array_equal(random_walk_encoding(weights, steps), whole[:steps])


def test_a_node_without_edges_comes_before_slower_waves():
    """It has eigenvalue 0, as the constant has; the waves of a path of five nodes follow."""
    weights = np.zeros((6, 6))
    weights[:5, :5] = np.eye(5, k=1) + np.eye(5, k=-1)
    wave = np.sqrt([1, 2, 2, 2, 1, 0]) * np.cos(np.pi * np.arange(6) / 4)
    encoding = graph_laplacian_encoding(weights, 2)[1]
    np.testing.assert_allclose(np.abs(encoding), np.abs(wave) / np.linalg.norm(wave), atol=1e-12)
