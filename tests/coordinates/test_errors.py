"""Wrong inputs of coordinates, and the messages of their errors."""

import numpy as np

from wrong_inputs import make_test

VALUE_ERRORS = {
    "grid_positions(())": "`shape` must have one coordinate or more, got ().",
    "grid_positions((300, 10), dtype=np.int8)": f"`dtype` must hold the coordinates to 299, got {np.int8!r}.",
    "random_fourier_encoding(zeros(()), 4, rng=0)": "`x` must have its coordinates on axis 0, got shape (). Pass x[None].",
    "random_fourier_encoding(zeros((0, 3)), 4, rng=0)": "`x` must have one coordinate or more on axis 0, got shape (0, 3).",
    "random_fourier_encoding(zeros((2, 3)), 5, rng=0)": "`dim` must be a positive even integer, got 5.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='rbf', rng=0)": "`kernel` must be 'gaussian' or 'matern' or 'laplace' or 'periodic', got 'rbf'.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=1e-20, rng=0)": "`length_scale` must be 2**-50 or more, got 1e-20.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=[1, 2, 3], rng=0)": "`length_scale` must be a number, or 2, one for each coordinate on axis 0 of `x`, got [1, 2, 3].",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=ones((2, 1)), rng=0)": "`length_scale` must have one axis, of one number or more, got shape (2, 1).",
    "random_fourier_encoding(zeros((2, 3)), 4, nu=1.5, rng=0)": "`nu` must be left out with the kernel 'gaussian', got 1.5.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='matern', nu=0.01, rng=0)": "`nu` must be 0.1 or more, got 0.01.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='laplace', period=1.0, rng=0)": "`period` must be left out with the kernel 'laplace', got 1.0.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='laplace', orthogonal=True, rng=0)": "`orthogonal` must be left out with the kernel 'laplace', got True.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=1.0, orthogonal=True, rng=0)": "`orthogonal` must be left out with the kernel 'periodic', got True.",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', rng=0)": "`period` must be given with the kernel 'periodic', got None.",
    "grid_encoding((2, 2, 2, 2), 8)": "`shape` must have 1 to 3 coordinates, got (2, 2, 2, 2).",
    "grid_cell_encoding(zeros((3, 2)), [1])": "`points` must have shape (2, ...), both coordinates first, got (3, 2).",
    "grid_cell_encoding(zeros((2, 3)), [1, 1e-45])": "`wavelengths[1]` must be between 2**-64 and 2**100, got 1e-45.",
    "grid_cell_encoding(zeros((2, 3)), [1], kind='hexagon')": "`kind` must be 'theory' or 'grid', got 'hexagon'.",
    "spherical_encoding(zeros(3), zeros(4), 2)": "`longitude` must broadcast against the shape of `latitude`, (3,), got (4,).",
    "spherical_encoding(zeros(3), zeros(3), -1)": "`degree` must be a non-negative integer, got -1.",
    "spherical_encoding(zeros(3), zeros(3), 1024)": "`degree` must be at most 1023, got 1024.",
    "spherical_encoding(zeros(3), zeros(3), 2, unit='gradians')": "`unit` must be 'degrees' or 'radians', got 'gradians'.",
    "spherical_encoding(np.asarray([8.5, -151.2]), zeros(2), 2)": "`latitude` must be from -90 to 90 degrees, got -151.2.",
    "spherical_encoding(np.asarray(47.5), zeros(2), 2, unit='radians')": "`latitude` must be from -pi/2 to pi/2 radians, got 47.5.",
    "graph_laplacian_encoding(zeros(3), 1)": "`adjacency` must have shape (..., nodes, nodes), got shape (3,).",
    "graph_laplacian_encoding(ones((3, 3)), 3)": "`k` must be below 3, the number of nodes, got 3.",
    "graph_laplacian_encoding(ones((3, 3)), 1, laplacian='signless')": "`laplacian` must be 'normalized' or 'combinatorial', got 'signless'.",
    "graph_laplacian_encoding(np.tri(3), 1)": "`adjacency` must be symmetric, got edges of one direction. Pass adjacency + adjacency.mT for the edges of both directions.",
    "graph_laplacian_encoding(-ones((3, 3)), 1)": "`adjacency` must have finite weights of 0 or more, got negative ones.",
    "graph_laplacian_encoding(np.nan * ones((3, 3)), 1)": "`adjacency` must have finite weights of 0 or more, got NaN or infinity.",
    "fourier_encoding(zeros(3), [1], preset='nerf')": "`preset` must be left out with `wavelengths`, got 'nerf'.",
    "fourier_encoding(zeros(3), preset='mip')": "`preset` must be 'nerf' or 'nerf_directions', got 'mip'.",
    "octave_wavelengths(67)": "`n` must keep `longest` = 2.0 / 2**(n - 1) at 2**-64 or more, got 67.",
    "log_wavelengths(2, 1, 3)": "`longest` must be at least `shortest` = 2.0, got 1.0.",
    "log_wavelengths(1, 2, 1)": "`n` must be 2 or more if `shortest` and `longest` differ, got 1.",
    "cyclic_encoding(zeros(3), [24, 7], [1])": "`harmonics` must be an integer, or one for each of 2 periods, got 1 of them.",
}
TYPE_ERRORS = {
    "fourier_encoding([1.0], [2.0])": "`x` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(x).",
    "fourier_encoding(week, [2.0])": "`x` must have an integer or real dtype, got datetime64[D]. Pass days_since(x).",
    "fourier_encoding(zeros(3))": "`wavelengths` or `preset` must be given, got neither.",
    "fourier_encoding(zeros(3), foreign('pandas', 'Series'))": "`wavelengths` must be a list, a tuple or a 1-D NumPy array of numbers, got pandas.Series of shape (3, 2). Pass wavelengths.to_numpy().",
    "fourier_encoding(zeros(3), week - week[0])": "`wavelengths[0]` must be a positive finite number, got np.timedelta64(0,'D') of type timedelta64. Pass days_since(wavelengths[0]).",
    "cyclic_encoding(zeros(3), np.timedelta64(1, 'D'))": "`period` must be a positive finite number, got np.timedelta64(1,'D') of type timedelta64. Pass days_since(period).",
    "cyclic_encoding(zeros(3), foreign('pandas', 'Series'))": "`period` must be a list, a tuple or a 1-D NumPy array of numbers, got pandas.Series of shape (3, 2). Pass period.to_numpy().",
    "grid_positions(3)": "`shape` must be a list or tuple of integers, got 3.",
    "grid_positions((2, 3), dtype=[np.int32])": "`dtype` must be an integer or real dtype of the library, got [<class 'numpy.int32'>].",
    "random_fourier_encoding(zeros((2, 3)), 4.0, rng=0)": "`dim` must be a positive even integer, got 4.0 of type float.",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=foreign('pandas', 'Series'), rng=0)": "`length_scale` must be a list, a tuple or a 1-D NumPy array of numbers, got pandas.Series of shape (3, 2). Pass length_scale.to_numpy().",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=foreign('torch', 'Tensor'), rng=0)": "`period` must be a list, a tuple or a 1-D NumPy array of numbers, got torch.Tensor of shape (3, 2). Pass period.to_numpy().",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=None)": "`rng` must be a non-negative integer seed or a numpy.random.Generator, got None. Pass one seed for all points that are compared, such as queries and keys.",
    "grid_cell_encoding([[0, 1], [2, 3]], [1])": "`points` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got list. Pass numpy.asarray(points).",
    "spherical_encoding(1.0, zeros(2), 2)": "`latitude` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got float.",
    "spherical_encoding(zeros(2), foreign('pandas', 'Series'), 2)": "`longitude` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got pandas.Series. Pass longitude.to_numpy().",
    "spherical_encoding(zeros(2), zeros(2), 2.5)": "`degree` must be a non-negative integer, got 2.5 of type float.",
    "graph_laplacian_encoding(Sparse(), 1)": "`adjacency` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), got scipy.sparse.csr_array. Pass adjacency.toarray().",
}


class Sparse:
    """As a sparse matrix of SciPy, which need not be installed."""

    __module__ = "scipy.sparse"
    __qualname__ = "csr_array"

    def toarray(self):
        raise NotImplementedError


# Calls whose argument is refused by a check that other calls have, too.
NAMED = {
    "grid_positions((3, 0))": "shape",
    "grid_positions((10**15, 10**15))": "prod(shape)",
    "random_fourier_encoding(zeros((2, 3)), 0, rng=0)": "dim",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=0, rng=0)": "length_scale",
    "random_fourier_encoding(zeros((2, 3)), 4, length_scale=[1, -1.0], rng=0)": "length_scale[1]",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='periodic', period=(7, 0), rng=0)": "period[1]",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=-1)": "rng",
    "grid_encoding((2, 0), 8)": "shape",
    "grid_encoding((2, 2), 0)": "dim",
    "grid_encoding((2, 2), 4, base=-1)": "base",
    "grid_cell_encoding(np.float64(1) * ones(()), [1])": "points",
    "grid_cell_encoding(zeros((2, 3)), [])": "wavelengths",
    "grid_cell_encoding(zeros((2, 3)), [1e31])": "wavelengths[0]",
    "grid_cell_encoding(zeros((2, 3)), [1.0] * 174763)": "6 * len(wavelengths)",
    "grid_cell_encoding(zeros((2, 3)), [1.0] * (2**18 + 1), kind='grid')": "4 * len(wavelengths)",
    "grid_cell_encoding(zeros((2, 3)), [1, -2.5])": "wavelengths[1]",
    "spherical_encoding(np.asarray(91), zeros(2), 2)": "latitude",
    "graph_laplacian_encoding(zeros((3, 4)), 1)": "adjacency",
    "graph_laplacian_encoding(ones((3, 3)), 0)": "k",
    "random_walk_encoding(zeros((3, 4)), 1)": "adjacency",
    "random_walk_encoding(ones((3, 3)), 0)": "steps",
    "random_walk_encoding(np.inf * ones((3, 3)), 1)": "adjacency",
    "fourier_encoding(zeros(3), [])": "wavelengths",
    "fourier_encoding(zeros(3), [1, -2])": "wavelengths[1]",
    "fourier_encoding(zeros(3), np.asarray([np.nan]))": "wavelengths[0]",
    "fourier_encoding(zeros(3), [1e-30])": "wavelengths[0]",
    "fourier_encoding(zeros(3), [1.0] * (2**19 + 1))": "2 * len(wavelengths)",
    "fourier_encoding(zeros(3), [1], arrangement='sines')": "arrangement",
    "octave_wavelengths(0)": "n",
    "octave_wavelengths(3, longest=0)": "longest",
    "log_wavelengths(0, 1, 3)": "shortest",
    "log_wavelengths(1, np.inf, 3)": "longest",
    "cyclic_encoding(zeros(3), 0)": "period",
    "cyclic_encoding(zeros(3), [24, -1.0])": "period[1]",
    "cyclic_encoding(zeros(3), 24, 0)": "harmonics",
    "cyclic_encoding(zeros(3), [24, 7], [1, 0])": "harmonics[1]",
    "cyclic_encoding(zeros(3), [24] * 600, 1024)": "2 * sum(harmonics)",
    "fourier_encoding(zeros(3, complex), [2.0])": "x",
    "fourier_encoding(zeros(3), [2.0], dtype=int)": "dtype",
    "log_wavelengths(1, 2, 3.0)": "n",
    "cyclic_encoding(1.0, 24)": "x",
    "cyclic_encoding(week, 7)": "x",
    "cyclic_encoding(zeros(3), 24, [2.0])": "harmonics[0]",
    "random_fourier_encoding([[0.5]], 4, rng=0)": "x",
    "random_fourier_encoding(week[None], 4, rng=0)": "x",
    "random_fourier_encoding(zeros((2, 3)), 4, kernel='matern', nu='smooth', rng=0)": "nu",
    "random_fourier_encoding(zeros((2, 3)), 4, orthogonal=1, rng=0)": "orthogonal",
    "random_fourier_encoding(zeros((2, 3)), 4, rng=0, dtype=np.int32)": "dtype",
    "grid_encoding((2, 2), 4, dtype=np.int32)": "dtype",
    "grid_cell_encoding(zeros((2, 3)), foreign('pandas', 'Series'))": "wavelengths",
    "grid_cell_encoding(zeros((2, 3), bool), [1])": "points",
    "spherical_encoding(zeros(2), zeros(2, bool), 2)": "longitude",
    "random_walk_encoding(ones((3, 3)), 2, dtype=bool)": "dtype",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS, NAMED, Sparse=Sparse)
