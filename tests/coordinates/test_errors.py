"""Wrong inputs of grids and points, and the messages of their errors."""

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
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
