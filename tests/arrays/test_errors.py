"""What messages say of a value, and of arrays that look as if they kept the standard."""

import re

import numpy as np
import pytest

from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value
from wrong_inputs import foreign


def test_an_array_is_shown_by_its_shape_unless_it_is_one_number():
    assert format_value(np.zeros((2, 3))) == "numpy.ndarray of shape (2, 3)"
    assert format_value(np.zeros((2, 0))) == "numpy.ndarray of shape (2, 0)"
    assert format_value(np.zeros(0)) == "numpy.ndarray of shape (0,)"
    assert format_value(np.asarray(3)) == "array(3)"
    assert format_value(np.float64(0.5)) == repr(np.float64(0.5))


def test_what_is_long_is_cut():
    assert format_value("x" * 498) == repr("x" * 498)  # 500 characters with its quotes
    assert format_value("x" * 499) == "'" + "x" * 499 + "..."


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [("blosc2.ndarray", "NDArray", "x[...]"), ("sparse.numba_backend", "COO", "x.todense()")],
)
def test_arrays_that_do_not_keep_the_standard_are_known_by_their_module(module, name, line):
    message = rf"^`x` must be a plain array, got {module}.{name}: .* Pass {re.escape(line)}\.$"
    with pytest.raises(TypeError, match=message):
        get_backend(x=foreign(module, name))
