"""Wrong inputs of grids, and the messages of their errors."""

import numpy as np

from wrong_inputs import make_test

VALUE_ERRORS = {
    "grid_positions(())": "`shape` must have one coordinate or more, got ().",
    "grid_positions((3, 0))": "`shape` must be a positive integer, got 0.",
    "grid_positions((300, 10), dtype=np.int8)": f"`dtype` must hold the coordinates to 299, got {np.int8!r}.",
    "grid_positions((10**15, 10**15))": f"`prod(shape)` must be at most 2**48, got {10**30}.",
}
TYPE_ERRORS = {
    "grid_positions(3)": "`shape` must be a list or tuple of integers, got 3.",
    "grid_positions((2, 3), dtype=[np.int32])": "`dtype` must be an integer or real dtype of the library, got [<class 'numpy.int32'>].",
}

test_messages = make_test(VALUE_ERRORS, TYPE_ERRORS)
