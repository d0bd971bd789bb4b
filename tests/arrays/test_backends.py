"""Wrappers of namespaces that do not conform to the standard."""

import importlib

import numpy as np
import pytest

from positional_embeddings import create_causal_mask
from positional_embeddings.arrays.dispatch import backend_for, get_backend


def namespace(library):
    return backend_for(importlib.import_module(library)).xp


@pytest.mark.library("mlx")
def test_mlx_has_devices_and_arguments_of_the_standard():
    xp = namespace("mlx.core")
    x = xp.asarray(np.asarray([1, 2, 3], dtype="int8"), device=xp.default_device())
    assert x.dtype == xp.int8
    assert xp.astype(x, xp.int8, copy=False) is x
    assert xp.astype(x, xp.float32).dtype == xp.float32
    assert xp.sum(x).dtype == xp.int32
    assert xp.sum(x, dtype=xp.int64).dtype == xp.int64
    assert xp.zeros(2, dtype=xp.bool).dtype == xp.bool
    assert xp.__array_namespace_info__().default_dtypes()["integral"] == xp.int64


@pytest.mark.library("mlx")
def test_mlx_takes_kinds_of_devices():
    xp = namespace("mlx.core")
    for device in (xp.cpu, xp.Device(xp.cpu, 0)):
        mask = create_causal_mask(3, xp=xp, device=device)
        np.testing.assert_array_equal(np.asarray(mask), create_causal_mask(3))


@pytest.mark.library("ndonnx")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("values", [3, [3, 0, 9], [[1, 3], [2, 4]]])
def test_ndonnx_searches_values_of_any_axes(values, side):
    xp = namespace("ndonnx")
    ordered = np.asarray([1, 3, 3, 5])
    result = xp.searchsorted(xp.asarray(ordered), xp.asarray(np.asarray(values)), side=side)
    np.testing.assert_array_equal(result.unwrap_numpy(), np.searchsorted(ordered, values, side))


@pytest.mark.library("mlx")
def test_mlx_arrays_have_no_device():
    assert get_backend(x=namespace("mlx.core").zeros(2)).device is None


@pytest.mark.library("ndonnx")
def test_values_of_ndonnx_on_the_host():
    x = namespace("ndonnx").asarray([1.0, 2.0])
    np.testing.assert_array_equal(get_backend(x=x).to_numpy(x), [1, 2])


MESSAGES = {
    ("blosc2", "x"): (
        r"`x` must be a plain array, got blosc2\.ndarray\.NDArray: its parts, sums and products "
        r"are arrays of other types\. Pass x\[\.\.\.\]\.$"
    ),
    ("blosc2", "xp"): (
        r"`xp` must be a namespace of plain arrays, got blosc2: its parts, sums and products "
        r"are arrays of other types\. Leave it out, and pass the result to blosc2\.asarray\.$"
    ),
    ("sparse", "x"): (
        r"`x` must be a plain array, got sparse\..*COO: encodings have few zeros, if any\. "
        r"Pass x\.todense\(\)\.$"
    ),
    ("sparse", "xp"): (
        r"`xp` must be a namespace of plain arrays, got sparse: encodings have few zeros, if "
        r"any\. Leave it out, and pass the result to sparse\.asarray\.$"
    ),
}


@pytest.mark.parametrize(
    ("library", "argument"),
    [pytest.param(*key, marks=pytest.mark.library(key[0])) for key in MESSAGES],
)
def test_what_is_told_of_libraries_that_are_refused(library, argument):
    xp = importlib.import_module(library)
    with pytest.raises(TypeError, match=MESSAGES[library, argument]):
        backend_for(xp) if argument == "xp" else get_backend(x=xp.asarray(np.ones(2)))
