"""What is added to namespaces that lack something of the standard."""

import importlib

import numpy as np
import pytest

from positional_embeddings import RoPE, create_causal_mask
from positional_embeddings.arrays.find import new_space, space_of


def namespace(library):
    return new_space(importlib.import_module(library)).xp


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
    found = xp.searchsorted(xp.asarray(ordered), xp.asarray(np.asarray(values)), side=side)
    np.testing.assert_array_equal(found.unwrap_numpy(), np.searchsorted(ordered, values, side))


def chunked(xp, array, *chunks):
    return xp.from_array(array, chunks=chunks)


@pytest.mark.library("cubed")
def test_cubed_takes_in_the_order_of_the_indices():
    xp = namespace("cubed")
    x = np.arange(24.0).reshape(6, 4)
    for axis, order in ((0, [5, 0, 3, 3]), (1, [2, 0, 1]), (-1, [3])):
        indices = chunked(xp, np.asarray(order), 2)
        taken = xp.take(chunked(xp, x, 4, 3), indices, axis=axis).compute()
        np.testing.assert_array_equal(taken, np.take(x, order, axis))


@pytest.mark.library("cubed")
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cubed_sorts_along_an_axis_of_several_chunks(axis):
    xp = namespace("cubed")
    x = np.random.default_rng(0).permutation(35).reshape(7, 5)
    array = chunked(xp, x, 3, 2)
    order = xp.argsort(array, axis=axis)
    assert order.dtype == xp.int64
    np.testing.assert_array_equal(order.compute(), np.argsort(x, axis))


@pytest.mark.library("cubed")
@pytest.mark.parametrize(
    ("shape", "chunks", "new"),
    [
        ((3, 4), (2, 3), (12,)),
        ((3, 4), (2, 3), (-1,)),
        ((3, 4), (1, 3), (12,)),
        ((8, 4, 2), (3, 3, 1), (2, 4, 2, 2, 2)),
        ((12, 5), (5, 2), (3, 4, 5)),
        ((4, 1, 6), (3, 1, 4), (1, 8, 3)),
        ((2, 3, 1, 4), (1, 2, 1, 3), (2, 12)),
        ((5,), (2,), (1, 5, 1)),
        ((1, 1), (1, 1), ()),
        ((), (), (1,)),
    ],
)
def test_cubed_reshapes_chunks_of_any_lengths(shape, chunks, new):
    xp = namespace("cubed")
    x = np.arange(np.prod(shape)).reshape(shape)
    got = xp.reshape(chunked(xp, x, *chunks), new).compute()
    np.testing.assert_array_equal(got, x.reshape(new))


@pytest.mark.library("cubed")
def test_cubed_reshapes_chunk_by_chunk():
    xp = namespace("cubed")
    x = xp.ones((100, 4, 6), chunks=(10, 4, 6))
    assert xp.reshape(x, (100, 24)).chunksize == (10, 24)
    assert xp.reshape(x, (400, 6)).chunksize == (40, 6)
    assert xp.reshape(x, (25, 4, 24)).chunksize == (3, 4, 24)
    assert xp.reshape(x[:0, ...], (4, 0)).shape == (4, 0)
    with pytest.raises(ValueError, match="total size"):
        xp.reshape(x, (100, 25))


@pytest.mark.library("cubed")
@pytest.mark.parametrize("shape", [(3, 1), (3, 4), (2, 3, 4), (2, 5, 3, 1)])
def test_cubed_broadcasts_to_few_chunks(shape):
    xp = namespace("cubed")
    x = np.arange(3).reshape(3, 1)
    got = xp.broadcast_to(chunked(xp, x, 2, 1), shape)
    np.testing.assert_array_equal(got.compute(), np.broadcast_to(x, shape))
    assert got.npartitions == 2
    with pytest.raises(ValueError, match="cannot broadcast shape"):
        xp.broadcast_to(got, (2,))


@pytest.mark.library("cubed")
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("chunks", [((2, 3), (1, 2)), ((1, 3), (4, 3)), ((3, 1), (2, 2))])
def test_cubed_joins_arrays_of_other_chunks(axis, chunks):
    xp = namespace("cubed")
    x, y = np.arange(24).reshape(2, 4, 3)
    first, second = (chunked(xp, a, *lengths) for a, lengths in zip((x, y), chunks, strict=True))
    joined = xp.concat([first, second], axis=axis).compute()
    np.testing.assert_array_equal(joined, np.concat([x, y], axis=axis))
    stacked = xp.stack([first, second], axis=axis).compute()
    np.testing.assert_array_equal(stacked, np.stack([x, y], axis=axis))
    none = first[:0, :] if axis == 0 else first[:, :0]
    for parts in ([none, first], [first, none], [none, none]):
        shapes = [np.zeros(part.shape) if part is none else x for part in parts]
        expected = np.concat(shapes, axis=axis)
        np.testing.assert_array_equal(xp.concat(parts, axis=axis).compute(), expected)


@pytest.mark.library("cubed")
def test_cubed_has_dtypes_and_axes_of_the_standard():
    xp = namespace("cubed")
    assert xp.asarray(np.ones(2)).dtype == xp.float64
    assert xp.asarray(np.ones(2), dtype=xp.float32).dtype == xp.float32
    ones, zeros = xp.ones((2, 1)), xp.zeros((2, 2))
    np.testing.assert_array_equal(xp.concat([ones, zeros], axis=-1).compute(), [[1, 0, 0]] * 2)


@pytest.mark.library("cubed")
def test_all_pairs_are_many_chunks_of_cubed():
    mask = create_causal_mask(20_000, xp=namespace("cubed"))
    assert mask.shape == (20_000, 20_000, 1)
    assert max(mask.chunksize) < 20_000


@pytest.mark.library("cubed")
def test_what_cubed_has_not():
    message = "cubed has no `nonzero`, which is needed here: compute the array first."
    with pytest.raises(AttributeError, match=message):
        _ = namespace("cubed").nonzero


@pytest.mark.library("cubed")
def test_arrays_of_cubed_have_elements():
    x = namespace("cubed").zeros((4, 0, 2))
    message = (
        r"^`x` must have elements, got shape \(4, 0, 2\), with which cubed cannot compute\. "
        r"Pass x\.compute\(\)\.$"
    )
    with pytest.raises(ValueError, match=message):
        RoPE(4, 3)(x)


@pytest.mark.library("mlx")
def test_mlx_arrays_have_no_device():
    assert space_of(x=namespace("mlx.core").zeros(2)).device is None


@pytest.mark.library("ndonnx")
def test_values_of_ndonnx_on_the_host():
    x = namespace("ndonnx").asarray([1.0, 2.0])
    np.testing.assert_array_equal(space_of(x=x).to_numpy(x), [1, 2])


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
        new_space(xp) if argument == "xp" else space_of(x=xp.asarray(np.ones(2)))
