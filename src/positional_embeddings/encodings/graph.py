"""Encodings of the nodes of a graph: eigenvectors of its Laplacian, and random walks."""

from typing import Literal, get_args

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import type_name, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype

Laplacian = Literal["normalized", "combinatorial"]

# Maximum relative difference between the weights of both directions of an edge, in units of eps.
_ROUNDINGS = 1024
# Relative difference below which entries count as equal, as in symmetric graphs.
_TIE = 2.0**-10


def graph_laplacian_encoding(
    adjacency: AnyArray,
    /,
    k: int,
    *,
    laplacian: Laplacian = "normalized",
    dtype: Dtype | None = None,
) -> Array:
    r"""Return eigenvectors of the Laplacian of a graph as features of its nodes.

    They correspond to sines and cosines of a sequence: the first eigenvectors vary slowly along the
    edges, later ones faster.

    Parameters
    ----------
    adjacency : array, shape (..., nodes, nodes)
        Weights of the edges of undirected graphs: symmetric booleans, integers or real numbers,
        0 or more. Pass ``adjacency.toarray()`` of a sparse matrix. The diagonal has the weights of
        loops.
    k : int
        Number of features, positive and below the number of nodes.
    laplacian : {"normalized", "combinatorial"}, default "normalized"
        :math:`I - D^{-1/2} A D^{-1/2}` or :math:`D - A`, with the weights :math:`A` and the
        degrees :math:`D`, the sums of the weights.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real weights, else the
        library's default.

    Returns
    -------
    array, shape (k, ..., nodes)
        Eigenvectors of length 1 for the `k` smallest eigenvalues in ascending order, without the
        first eigenvalue 0; in the library and on the device of `adjacency`.

    Raises
    ------
    TypeError
        If `adjacency` is not an array of booleans or numbers, or its library has no
        ``linalg.eigh``, such as dask.
    ValueError
        If `adjacency` is not square, or `k` or `laplacian` is out of range. If values are concrete,
        also if a weight is negative or not finite, or differs from the weight of the opposite
        direction.

    Notes
    -----
    The sign of an eigenvector is arbitrary. Here the entry of largest magnitude is positive; among
    several (within one part in 1,024), the entry of the first node. The sign is then the same in
    every library. With ties, as in symmetric graphs, it depends on the order of nodes. Train models
    with a random sign of each feature in each step (Dwivedi and Bresson 2021).

    Eigenvectors of equal eigenvalues are unique up to a rotation: for a cycle or a complete graph
    they differ between libraries. So does the end of the result if eigenvalue `k` equals the next
    one. Gradients are not defined there.

    A graph has one eigenvalue 0 for each component. A node without edges is a component; its row of
    both Laplacians is 0.

    For traced values, as in ``jax.jit``, the weight is the mean of both directions.

    References
    ----------
    Dwivedi and Bresson (2021), A Generalization of Transformer Networks to Graphs, section 2.2.
    Belkin and Niyogi (2003), Laplacian Eigenmaps. Chung (1997), Spectral Graph Theory,
    section 1.2, for loops and nodes without edges.

    Examples
    --------
    A path of four nodes:

    >>> import numpy as np
    >>> path = np.eye(4, k=1) + np.eye(4, k=-1)
    >>> graph_laplacian_encoding(path, 2, laplacian="combinatorial").round(2)
    array([[ 0.65,  0.27, -0.27, -0.65],
           [ 0.5 , -0.5 , -0.5 ,  0.5 ]])
    """
    backend = get_backend(adjacency=adjacency)
    xp, weights = backend.xp, _weights(adjacency, backend)
    nodes = weights.shape[-1]
    k = checks.feature_count("k", k)
    checks.choice("laplacian", laplacian, get_args(Laplacian))
    if not hasattr(getattr(xp, "linalg", None), "eigh"):
        requirement = "be an array of a library with `linalg.eigh`"
        hint = " Pass adjacency.compute()." if hasattr(adjacency, "compute") else ""
        raise wrong_type("adjacency", requirement, type_name(adjacency), hint)
    if k >= nodes:
        raise wrong_value("k", f"be below {nodes}, the number of nodes", k)
    dtype = checks.feature_dtype(adjacency, dtype, backend)
    with backend.compute_context(weights):
        weights = _symmetric(weights, adjacency.dtype, backend)
        degrees = xp.sum(weights, axis=-1)
        diagonal = degrees
        if laplacian == "normalized":
            has_edges = degrees > 0
            root = xp.where(has_edges, 1 / xp.sqrt(xp.where(has_edges, degrees, 1.0)), 0.0)
            weights = weights * root[..., :, None] * root[..., None, :]
            diagonal = xp.astype(has_edges, weights.dtype)
        identity = xp.eye(nodes, dtype=weights.dtype, device=backend.device)
        # The standard does not specify the order of eigenvalues; it is ascending in all libraries.
        _, vectors = xp.linalg.eigh(diagonal[..., None] * identity - weights)
        vectors = backend.move_axis(vectors[..., 1 : k + 1], -1, 0)
        return backend.astype(_with_fixed_signs(vectors, backend), dtype)


def random_walk_encoding(
    adjacency: AnyArray, /, steps: int, *, dtype: Dtype | None = None
) -> Array:
    r"""Return the probabilities that a random walk returns to each node of a graph.

    Parameters
    ----------
    adjacency : array, shape (..., nodes, nodes)
        Weights of the edges of graphs, from the node of the row to the node of the column:
        booleans, integers or real numbers, 0 or more. Pass ``adjacency.toarray()`` of a sparse
        matrix. Graphs may be directed. The diagonal has the
        weights of loops.
    steps : int
        Number of features, positive.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real weights, else the
        library's default.

    Returns
    -------
    array, shape (steps, ..., nodes)
        Diagonal of :math:`(D^{-1} A)^t` for t = 1 to `steps`, with the row sums :math:`D` of the
        weights :math:`A`: the probability of return after t steps, each along an edge drawn by its
        weight. A node without outgoing edges ends a walk and has probability 0. In the library and
        on the device of `adjacency`.

    Raises
    ------
    TypeError
        If `adjacency` is not an array of booleans or numbers, or `steps` not an integer.
    ValueError
        If `adjacency` is not square, or `steps` is not positive. If values are concrete, also if a
        weight is negative or not finite.

    References
    ----------
    Dwivedi et al. (2022), Graph Neural Networks with Learnable Structural and Positional
    Representations, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> star = np.asarray([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    >>> random_walk_encoding(star, 3)
    array([[0. , 0. , 0. ],
           [1. , 0.5, 0.5],
           [0. , 0. , 0. ]])
    """
    backend = get_backend(adjacency=adjacency)
    xp, weights = backend.xp, _weights(adjacency, backend)
    steps = checks.feature_count("steps", steps)
    dtype = checks.feature_dtype(adjacency, dtype, backend)
    with backend.compute_context(weights):
        degrees = xp.sum(weights, axis=-1, keepdims=True)
        one_step = xp.where(degrees > 0, weights / xp.where(degrees > 0, degrees, 1.0), 0.0)
        # `linalg.diagonal` is in an optional extension of the standard.
        is_diagonal = xp.eye(weights.shape[-1], dtype=xp.bool, device=backend.device)
        probabilities = [xp.sum(xp.where(is_diagonal, one_step, 0.0), axis=-1)]
        walk = one_step
        for step in range(2, steps + 1):
            # The diagonal of a product of two powers needs no product of matrices.
            next_walk = walk if step % 2 == 0 else xp.matmul(walk, one_step)
            probabilities.append(xp.sum(next_walk * xp.matrix_transpose(walk), axis=-1))
            walk = next_walk
        return backend.astype(xp.stack(probabilities), dtype)


def _weights(adjacency: Array, backend: Backend) -> Array:
    """Check the weights, with values if they are concrete, and return them in the widest float."""
    xp = backend.xp
    if not dtypes.is_dtype(adjacency.dtype, "bool", xp):
        checks.real("adjacency", adjacency, xp)
    shape = tuple(adjacency.shape)
    if len(shape) < 2 or checks.lengths_differ(shape[-2], shape[-1]):
        raise wrong_value("adjacency", "have shape (..., nodes, nodes)", f"shape {shape}")
    weights = backend.astype(adjacency, backend.widest_float_dtype)
    errors = (~xp.isfinite(weights), "NaN or infinity"), (weights < 0, "negative ones")
    for is_wrong, actual in errors:
        if backend.concrete_bool(xp.any(is_wrong)):
            raise wrong_value("adjacency", "have finite weights of 0 or more", actual)
    return weights


def _symmetric(weights: Array, dtype: Dtype, backend: Backend) -> Array:
    """Check that weights of both directions are equal up to rounding and return their mean."""
    xp, opposite = backend.xp, backend.xp.matrix_transpose(weights)
    is_real = dtypes.is_real_floating(dtype, xp)
    eps = float(xp.finfo(backend.dtype if is_real else backend.widest_float_dtype).eps)
    tolerance = _ROUNDINGS * eps * (weights + opposite)
    if backend.concrete_bool(xp.any(xp.abs(weights - opposite) > tolerance)):
        hint = " Pass adjacency + adjacency.mT for the edges of both directions."
        raise wrong_value("adjacency", "be symmetric", "edges of one direction", hint)
    return (weights + opposite) / 2


def _with_fixed_signs(vectors: Array, backend: Backend) -> Array:
    """Flip vectors along the last axis so that the first entry of largest magnitude is positive."""
    xp, nodes, magnitude = backend.xp, vectors.shape[-1], backend.xp.abs(vectors)
    is_largest = magnitude >= (1 - _TIE) * xp.max(magnitude, axis=-1, keepdims=True)
    node = xp.arange(nodes, dtype=backend.int_dtype, device=backend.device)
    first = xp.min(xp.where(is_largest, node, nodes), axis=-1, keepdims=True)
    largest = xp.sum(xp.where(node == first, vectors, 0.0), axis=-1, keepdims=True)
    return xp.where(largest < 0, -vectors, vectors)
