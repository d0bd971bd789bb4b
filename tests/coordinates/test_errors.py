"""Wrong inputs of coordinates, and the messages of their errors."""

import numpy as np

from wrong_inputs import make_test

VALUE_ERRORS = {
    "grid_positions(())": "`shape` must have one coordinate or more, got ().",
    "grid_positions((3, 0))": "`shape` must be a positive integer, got 0.",
    "grid_positions((300, 10), dtype=np.int8)": f"`dtype` must hold the coordinates to 299, got {np.int8!r}.",
    "grid_positions((10**15, 10**15))": f"`prod(shape)` must be at most 2**48, got {10**30}.",
    "random_fourier_encoding(zeros(()), 4, rng=0)": "`x` must have its coordinates on axis 0, got shape (). Pass x[None].",
    "random_fourier_encoding(zeros((0, 3)), 4, rng=0)": "`x` must have one coordinate or more on axis 0, got shape (0, 3).",
    "random_fourier_encoding(zeros((2, 3)), 5, rng=0)": "`dim` must be a positive even integer, got 5.",
    "random_fourier_encoding(zeros((2, 3)), 0, rng=0)": "`dim` must be a positive even integer, got 0.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='rbf', rng=0)": "`kernel` must be 'gaussian' or 'matern' or 'laplace' or 'periodic', got 'rbf'.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=0, rng=0)": "`length_scale` must be a positive finite number, got 0.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=1e-20, rng=0)": "`length_scale` must be 2**-50 or more, got 1e-20.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=[1, -1.0], rng=0)": "`length_scale[1]` must be a positive finite number, got -1.0.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=[1, 2, 3], rng=0)": "`length_scale` must be a number, or 2, one for each coordinate on axis 0 of `x`, got [1, 2, 3].",
    "random_fourier_encoding(zeros((2, 3)), 4, nu=1.5, rng=0)": "`nu` must be left out with the kernel 'gaussian', got 1.5.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='matern', nu=0.01, rng=0)": "`nu` must be 0.1 or more, got 0.01.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='laplace', period=1.0, rng=0)": "`period` must be left out with the kernel 'laplace', got 1.0.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='laplace', orthogonal=True, rng=0)": "`orthogonal` must be left out with the kernel 'laplace', got True.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=1.0, orthogonal=True, rng=0)": "`orthogonal` must be left out with the kernel 'periodic', got True.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', rng=0)": "`period` must be given with the kernel 'periodic', got None.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=(7, 0), rng=0)": "`period[1]` must be a positive finite number, got 0.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=1, length_scale=1e-12, rng=0)": "`length_scale` must be 2**-30 or more, got 1e-12.",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=-1)": "`rng` must be a non-negative integer seed or a numpy.random.Generator, got -1.",
    "grid_encoding((2, 2, 2, 2), 8)": "`shape` must have 1 to 3 coordinates, got (2, 2, 2, 2).",
    "grid_encoding((2, 0), 8)": "`shape` must be a positive integer, got 0.",
    "grid_encoding((), 8)": "`shape` must have one coordinate or more, got ().",
    "grid_encoding((2, 2), 0)": "`dim` must be a positive integer, got 0.",
    "grid_encoding((2, 2), 4, base=-1)": "`base` must be a positive finite number, got -1.",
    "grid_cell_encoding(zeros((3, 2)), [1])": "`points` must have shape (2, ...), both coordinates first, got (3, 2). Pass moveaxis(points, -1, 0) if the coordinates are on its last axis.",
    "grid_cell_encoding(zeros((3, 4)), [1])": "`points` must have shape (2, ...), both coordinates first, got (3, 4).",
    "grid_cell_encoding(np.float64(1) * ones(()), [1])": "`points` must have shape (2, ...), both coordinates first, got ().",
    "grid_cell_encoding(zeros((2, 3)), [])": "`wavelengths` must have 1 to 2**16 numbers, got 0.",
    "grid_cell_encoding(zeros((2, 3)), [1, -2.5])": "`wavelengths[1]` must be a positive finite number, got -2.5.",
    "grid_cell_encoding(zeros((2, 3)), [1], kind='hexagon')": "`kind` must be 'theory' or 'grid', got 'hexagon'.",
    "spherical_encoding(zeros(3), zeros(4), 2)": "`longitude` must broadcast against the shape of `latitude`, (3,), got (4,).",
    "spherical_encoding(zeros(3), zeros(3), -1)": "`degree` must be a non-negative integer, got -1.",
    "spherical_encoding(zeros(3), zeros(3), 1024)": "`degree` must be at most 1023, got 1024.",
    "spherical_encoding(zeros(3), zeros(3), 2, unit='gradians')": "`unit` must be 'degrees' or 'radians', got 'gradians'.",
    "spherical_encoding(np.asarray([8.5, -151.2]), zeros(2), 2)": "`latitude` must be from -90 to 90 degrees, got -151.2. Pass the latitude first, then the longitude.",
    "spherical_encoding(np.asarray(91), zeros(2), 2)": "`latitude` must be from -90 to 90 degrees, got 91.0. Pass the latitude first, then the longitude.",
    "spherical_encoding(np.asarray(47.5), zeros(2), 2, unit='radians')": "`latitude` must be from -pi/2 to pi/2 radians, got 47.5. Pass unit='degrees' if it is in degrees.",
    "graph_laplacian_encoding(zeros(3), 1)": "`adjacency` must have shape (..., nodes, nodes), got shape (3,).",
    "graph_laplacian_encoding(zeros((3, 4)), 1)": "`adjacency` must have shape (..., nodes, nodes), got shape (3, 4).",
    "graph_laplacian_encoding(ones((3, 3)), 0)": "`k` must be a positive integer, got 0.",
    "graph_laplacian_encoding(ones((3, 3)), 3)": "`k` must be below 3, the number of nodes, got 3.",
    "graph_laplacian_encoding(ones((3, 3)), 1, laplacian='signless')": "`laplacian` must be 'normalized' or 'combinatorial', got 'signless'.",
    "graph_laplacian_encoding(np.tri(3), 1)": "`adjacency` must be symmetric, got edges of one direction. Pass adjacency + adjacency.mT for the edges of both directions.",
    "graph_laplacian_encoding(-ones((3, 3)), 1)": "`adjacency` must have finite weights of 0 or more, got negative ones.",
    "graph_laplacian_encoding(np.nan * ones((3, 3)), 1)": "`adjacency` must have finite weights of 0 or more, got NaN or infinity.",
    "random_walk_encoding(zeros((3, 4)), 1)": "`adjacency` must have shape (..., nodes, nodes), got shape (3, 4).",
    "random_walk_encoding(ones((3, 3)), 0)": "`steps` must be a positive integer, got 0.",
    "random_walk_encoding(np.inf * ones((3, 3)), 1)": "`adjacency` must have finite weights of 0 or more, got NaN or infinity.",
}
TYPE_ERRORS = {
    "grid_positions(3)": "`shape` must be a list or tuple of integers, got 3.",
    "grid_positions((2, 3), dtype=[np.int32])": "`dtype` must be an integer or real dtype of the library, got [<class 'numpy.int32'>].",
    "random_fourier_encoding([[0.5]], 4, rng=0)": "`x` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(x).",
    "random_fourier_encoding(zeros((2, 3), bool), 4, rng=0)": "`x` must have an integer or real dtype, got bool.",
    "random_fourier_encoding(week[None], 4, rng=0)": "`x` must have an integer or real dtype, got datetime64[D]. Pass (x - x[0]) / numpy.timedelta64(1, 'D') for days.",
    "random_fourier_encoding(zeros((2, 3)), 4.0, rng=0)": "`dim` must be a positive even integer, got 4.0 of type float.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale='wide', rng=0)": "`length_scale` must be a positive finite number, got 'wide' of type str.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=ones((2, 1)), rng=0)": "`length_scale[0]` must be a positive finite number, got [1.0] of type list.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='matern', nu='smooth', rng=0)": "`nu` must be a positive finite number, got 'smooth' of type str.",
    "random_fourier_encoding(zeros((2, 3)), 4, orthogonal=1, rng=0)": "`orthogonal` must be True or False, got 1.",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=None)": "`rng` must be a non-negative integer seed or a numpy.random.Generator, got None. Pass one seed for all points that are compared, such as queries and keys.",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=0.5)": "`rng` must be a non-negative integer seed or a numpy.random.Generator, got 0.5.",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=0, dtype=np.int32)": f"`dtype` must be a real floating-point dtype of the library, got {np.int32!r}.",
    "grid_encoding(4, 8)": "`shape` must be a list or tuple of integers, got 4.",
    "grid_encoding((2, 2), 4, dtype=np.int32)": f"`dtype` must be a real floating-point dtype of the library, got {np.int32!r}.",
    "grid_cell_encoding([[0, 1], [2, 3]], [1])": "`points` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(points).",
    "grid_cell_encoding(zeros((2, 3)), 5)": "`wavelengths` must be a list, a tuple or a one-dimensional NumPy array of positive numbers, got 5.",
    "grid_cell_encoding(zeros((2, 3)), ones((2, 2)))": "`wavelengths` must be a list, a tuple or a one-dimensional NumPy array of positive numbers, got numpy.ndarray of shape (2, 2).",
    "grid_cell_encoding(zeros((2, 3)), ['a'])": "`wavelengths[0]` must be a positive finite number, got 'a' of type str.",
    "grid_cell_encoding(zeros((2, 3), bool), [1])": "`points` must have an integer or real dtype, got bool.",
    "spherical_encoding(1.0, zeros(2), 2)": "`latitude` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got float.",
    "spherical_encoding(zeros(2), foreign('pandas', 'Series'), 2)": "`longitude` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Series. Pass longitude.to_numpy().",
    "spherical_encoding(zeros(2, complex), zeros(2), 2)": "`latitude` must have an integer or real dtype, got complex128.",
    "spherical_encoding(zeros(2), zeros(2, bool), 2)": "`longitude` must have an integer or real dtype, got bool.",
    "spherical_encoding(zeros(2), zeros(2), 2.5)": "`degree` must be a non-negative integer, got 2.5 of type float.",
    "graph_laplacian_encoding(Sparse(), 1)": "`adjacency` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got scipy.sparse.csr_array. Pass adjacency.toarray().",
    "graph_laplacian_encoding(ones((3, 3), complex), 1)": "`adjacency` must have an integer or real dtype, got complex128.",
    "graph_laplacian_encoding(ones((3, 3)), 1.0)": "`k` must be a positive integer, got 1.0 of type float.",
    "random_walk_encoding(ones((3, 3)), '2')": "`steps` must be a positive integer, got '2' of type str.",
    "random_walk_encoding(ones((3, 3)), 2, dtype=bool)": "`dtype` must be a real floating-point dtype of the library, got <class 'bool'>.",
}


class Sparse:
    """As a sparse matrix of SciPy, which need not be installed."""

    __module__ = "scipy.sparse"
    __qualname__ = "csr_array"

    def toarray(self):
        raise NotImplementedError


test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, Sparse=Sparse)
