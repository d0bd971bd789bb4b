"""Learned embeddings of positions and tokens."""

import copy
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import (
    AbsolutePE,
    LearnedPE,
    add_positional_encoding,
    add_positional_encoding_vjp,
    sinusoidal_encoding,
)
from positional_embeddings.encodings.dropout import dropout


def layer_on(backend, **options):
    dtype = getattr(backend.xp, backend.wide)
    options = {"rng": 0, "xp": backend.xp, "device": backend.device, "dtype": dtype} | options
    return LearnedPE(3, 6, **options)


@given(
    axes=st.sampled_from([(0, 1), (1, 0), (-1, -2), (2, 0)]),
    positions=st.none() | st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
def test_learned_is_a_lookup(backend, axes, positions):
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    layer = layer_on(backend, feature_axis=axes[0], seq_axis=axes[1])
    table = backend.numpy(layer.embeddings)
    array = backend.array(np.moveaxis(x, (0, 1), axes))
    if positions is None:
        got, columns = layer(array, offset=2), [2, 3, 4, 5]
    else:
        got, columns = layer(array, positions=backend.array(positions, "uint8")), positions
    expected = np.stack([x[:, i] + table[:, p, None] for i, p in enumerate(columns)], axis=1)
    np.testing.assert_allclose(
        np.moveaxis(backend.numpy(got), axes, (0, 1)), expected, atol=backend.tolerance()
    )


def test_positions_of_a_batch(backend):
    layer = layer_on(backend)
    positions = np.asarray([[0, 5], [1, 1]])
    got = backend.numpy(
        layer(backend.array(np.zeros((3, 2, 2))), positions=backend.array(positions))
    )
    np.testing.assert_array_equal(got, backend.numpy(layer.embeddings)[:, positions])


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (-1, -2), (2, 0)])
@pytest.mark.parametrize("positions", [None, [5, 0, 5, 1], [[5, 1], [0, 1], [5, 2], [1, 1]]])
def test_encoding_is_what_a_call_adds(backend, axes, positions):
    layer = layer_on(backend, feature_axis=axes[0], seq_axis=axes[1])
    table = backend.numpy(layer.embeddings)
    host = np.moveaxis(np.random.default_rng(0).standard_normal((3, 4, 2)), (0, 1), axes)
    x = backend.array(host)
    if positions is None:
        options, expected = {"offset": 1}, table[:, 1:5, None]
    else:
        own = np.asarray(positions)
        options = {"positions": backend.array(own.T if axes == (-1, -2) else own)}
        expected = table[:, positions].reshape(3, 4, -1)
    encoding = layer.encoding(x, **options)
    assert encoding.dtype == x.dtype
    got = backend.numpy(encoding)
    np.testing.assert_array_equal(got, np.moveaxis(expected, (0, 1), axes))
    called = backend.numpy(layer(x, **options))
    np.testing.assert_array_equal(backend.numpy(add_positional_encoding(x, encoding)), called)
    np.testing.assert_array_equal(backend.numpy(x + encoding), called)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_encoding_for_two_axes(backend, axes):
    layer = layer_on(backend, feature_axis=axes[0], seq_axis=axes[1])
    x = backend.array(np.ones((3, 3)))
    encoding = layer.encoding(x)
    expected = np.moveaxis(backend.numpy(layer.embeddings)[:, :3], (0, 1), axes)
    np.testing.assert_array_equal(backend.numpy(encoding), expected)
    added = backend.numpy(add_positional_encoding(x, encoding))
    np.testing.assert_array_equal(added, backend.numpy(layer(x)))


def test_encoding_for_half_precision_is_float32(backend):
    layer = layer_on(backend)
    for dtype in backend.half_dtypes:
        x = backend.array(np.full((3, 2, 1), 0.3), dtype)
        encoding = layer.encoding(x)
        assert encoding.dtype == backend.xp.float32
        got, expected = (
            backend.numpy(a).astype("float32")
            for a in (add_positional_encoding(x, encoding), layer(x))
        )
        np.testing.assert_array_equal(got, expected)


def test_encoding_of_positions_outside_the_table(backend):
    layer, x = layer_on(backend), backend.array(np.zeros((3, 2)))
    positions = backend.array([0, 6])
    if not backend.reads_indices(positions):
        got = backend.numpy(layer.encoding(x, positions=positions))
        np.testing.assert_array_equal(np.isnan(got), [[False, True]] * 3)
    else:
        with pytest.raises(ValueError, match="`positions` must be from 0 to 5, got 6"):
            layer.encoding(x, positions=positions)


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        ((4, 2), {}, ValueError, "`x` must have 3 features (`embedding_size`) on axis 0"),
        (
            (3, 7),
            {},
            ValueError,
            "`x` must have at most 6 positions (`max_len`) on axis 1, got 7 at offset 0.",
        ),
        (
            (3, 2),
            {"offset": 1, "positions": np.arange(2)},
            ValueError,
            "`offset` must be left out where `positions` are given, got 1.",
        ),
        (
            (3, 2),
            {"positions": np.ones(2)},
            TypeError,
            "`positions` must have an integer dtype, got float64.",
        ),
    ],
)
def test_encoding_refuses_what_a_call_refuses(shape, options, error, message):
    with pytest.raises(error, match="^" + re.escape(message)):
        LearnedPE(3, 6).encoding(np.zeros(shape), **options)
    with pytest.raises(TypeError, match="`x` must have a real floating-point dtype, got int64"):
        LearnedPE(3, 6).encoding(np.zeros(shape, dtype="int64"), **options)


@pytest.mark.library("torch")
def test_agrees_with_torchs_embedding():
    import torch

    theirs = torch.nn.Embedding(10, 4, dtype=torch.float64)
    layer = LearnedPE(4, 10, embeddings=theirs.weight.detach().T, feature_axis=-1, seq_axis=-2)
    x = torch.rand((2, 5, 4), dtype=torch.float64)
    torch.testing.assert_close(layer(x), x + theirs(torch.arange(5)), atol=1e-12, rtol=0)
    positions = torch.as_tensor([3, 1, 3, 9, 0])
    torch.testing.assert_close(layer(x, positions=positions), x + theirs(positions))


@pytest.mark.library("torch")
def test_gradient_agrees_with_autograd():
    import torch

    rng = np.random.default_rng(0)
    x, grad = rng.standard_normal((2, 3, 4, 2))
    for options in (
        {},
        {"offset": 1},
        {"positions": np.asarray([1, 1, 4, 0])},
        {"positions": np.asarray([[1, 2], [1, 2], [4, 5], [1, 1]])},
        {"positions": np.asarray([[3], [1], [3], [0]])},
    ):
        for padding_idx in (None, 1):
            layer = LearnedPE(3, 6, rng=0, dtype=np.float64, padding_idx=padding_idx)
            weight = torch.asarray(layer.embeddings).requires_grad_()
            leaf = torch.asarray(x).requires_grad_()
            given_options = {
                name: torch.asarray(o) if name == "positions" else o for name, o in options.items()
            }
            twin = replace(layer, embeddings=weight)
            twin(leaf, **given_options).backward(torch.asarray(grad))
            grad_x, grad_embeddings = layer.vjp(grad, **options)
            np.testing.assert_allclose(grad_x, leaf.grad.numpy(), atol=1e-12)
            np.testing.assert_allclose(grad_embeddings, weight.grad.numpy(), atol=1e-12)
            if padding_idx is not None:
                assert not grad_embeddings[:, padding_idx].any()


@pytest.mark.needs("sort")
@pytest.mark.parametrize("axes", [(0, 1), (-1, -2), (1, 2)])
def test_vjp_on_every_backend(backend, axes):
    grad = np.random.default_rng(0).standard_normal((3, 4, 2))
    layer = layer_on(backend, feature_axis=axes[0], seq_axis=axes[1])
    positions = [2, 0, 2, 5]
    expected = np.zeros((3, 6))
    for i, p in enumerate(positions):
        expected[:, p] += grad[:, i].sum(axis=-1)
    _, got = layer.vjp(
        backend.array(np.moveaxis(grad, (0, 1), axes)), positions=backend.array(positions)
    )
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


def test_positions_outside_the_table(backend):
    layer = layer_on(backend)
    x, positions = backend.array(np.zeros((3, 2, 1))), backend.array([0, 6])
    if not backend.reads_indices(positions):
        got = backend.numpy(layer(x, positions=positions))
        assert np.isfinite(got[:, 0]).all()
        assert np.isnan(got[:, 1]).all()
        assert np.isnan(backend.numpy(layer(x, positions=backend.array([0, -1])))[:, 1]).all()
    else:
        for wrong in (6, -1):
            message = f"`positions` must be from 0 to 5, got {wrong}"
            with pytest.raises(ValueError, match=message):
                layer(x, positions=backend.array([0, wrong]))


def test_padding_idx_is_zero(backend):
    layer = layer_on(backend, padding_idx=2)
    table = backend.numpy(layer.embeddings)
    assert not table[:, 2].any()
    assert np.count_nonzero(table) == 15
    loaded = replace(layer, embeddings=backend.array(np.ones((3, 6))))
    assert not backend.numpy(loaded.embeddings)[:, 2].any()


def test_table_starts_from_a_truncated_normal():
    table = LearnedPE(100, 500, init_std=0.5, rng=1).embeddings
    assert table.dtype == np.float32
    assert abs(table).max() <= 1
    # Standard deviation of a standard normal truncated at two.
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    inside = math.erf(math.sqrt(2))
    assert np.std(table) == pytest.approx(0.5 * math.sqrt(1 - 4 * density / inside), rel=0.01)
    assert np.mean(table) == pytest.approx(0, abs=5 * 0.5 / math.sqrt(table.size))


@given(old=st.integers(1, 6), new=st.integers(1, 9))
def test_resize_is_linear_interpolation(backend, old, new):
    table = np.random.default_rng(0).standard_normal((3, old))
    layer = LearnedPE(3, old, embeddings=backend.array(table))
    resized = layer.resize(new)
    assert resized.max_len == new
    places = np.linspace(0, old - 1, new)
    expected = [np.interp(places, np.arange(old), row) for row in table]
    np.testing.assert_allclose(
        backend.numpy(resized.embeddings), expected, atol=backend.tolerance()
    )


def cubic_loop(table, height, width, antialias):
    """Interpolate a table (rows, columns) patch by patch, by Keys's equations."""
    a = -0.5 if antialias else -0.75
    result = np.zeros((height, width))

    def weights(new, count, old):
        centre = (new + 0.5) * old / count - 0.5
        spread = max(1.0, old / count) if antialias else 1.0
        found = {}
        for cell in range(-4 * old - 4, 5 * old + 5):
            x = abs(cell - centre) / spread
            if x < 1:
                weight = (a + 2) * x**3 - (a + 3) * x**2 + 1
            elif x < 2:
                weight = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
            else:
                continue
            if antialias and not 0 <= cell < old:
                continue
            inside = min(max(cell, 0), old - 1)
            found[inside] = found.get(inside, 0.0) + weight
        return {cell: weight / sum(found.values()) for cell, weight in found.items()}

    for i in range(height):
        for j in range(width):
            for row, down in weights(i, height, table.shape[0]).items():
                for column, across in weights(j, width, table.shape[1]).items():
                    result[i, j] += down * across * table[row, column]
    return result


GRIDS = [((3, 3), (5, 4)), ((7, 4), (3, 2)), ((1, 5), (2, 11)), ((2, 2), (2, 2)), ((6, 6), (1, 13))]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), GRIDS)
def test_resize_of_a_grid_is_cubic(backend, old, new, antialias):
    table = np.random.default_rng(0).standard_normal((2, 1 + math.prod(old)))
    layer = LearnedPE(2, table.shape[1], embeddings=backend.array(table))
    grid = None if old[0] == old[1] else old
    resized = layer.resize(new, grid=grid, prefix=1, antialias=antialias)
    assert resized.max_len == 1 + math.prod(new)
    got = backend.numpy(resized.embeddings)
    np.testing.assert_array_equal(got[:, 0], backend.numpy(layer.embeddings)[:, 0])
    for row, numbers in zip(table, got, strict=True):
        expected = cubic_loop(row[1:].reshape(old), *new, antialias)
        tolerance = 4 * backend.tolerance()
        np.testing.assert_allclose(numbers[1:].reshape(new), expected, atol=tolerance)


@pytest.mark.library("torch")
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), [*GRIDS, ((14, 14), (37, 24)), ((32, 32), (7, 9))])
def test_resize_of_a_grid_is_that_of_pytorch(old, new, antialias):
    import torch

    table = np.random.default_rng(0).standard_normal((3, math.prod(old)))
    images = torch.asarray(table.reshape(1, 3, *old))
    options = {"mode": "bicubic", "align_corners": False, "antialias": antialias}
    expected = torch.nn.functional.interpolate(images, size=new, **options)
    layer = LearnedPE(3, table.shape[1], embeddings=table)
    got = layer.resize(new, grid=old, antialias=antialias).embeddings
    np.testing.assert_allclose(got, expected.reshape(3, -1), atol=1e-13)


def test_half_precision(backend):
    layer = layer_on(backend)
    for dtype in backend.half_dtypes:
        x = backend.array(np.full((3, 2, 1), 0.3), dtype)
        got = layer(x)
        assert got.dtype == dtype
        wide = layer(backend.xp.astype(x, backend.xp.float32))
        np.testing.assert_array_equal(
            backend.numpy(got).astype("float32"),
            backend.numpy(backend.xp.astype(wide, dtype)).astype("float32"),
        )


def test_layer_is_a_value():
    layer = LearnedPE(4, 10, init_std=0.1, padding_idx=3, dropout=0.5, rng=7, feature_axis=-1)
    twins = (eval(repr(layer)), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer))
    for twin in twins:
        assert twin == layer
    assert (
        LearnedPE(4, 10, init_std=0.1, padding_idx=3, dropout=0.5, rng=8, feature_axis=-1) != layer
    )
    assert LearnedPE(4, 10) != AbsolutePE(4, 10)
    with pytest.raises(AttributeError, match="cannot assign"):
        layer.padding_idx = None


def test_dropout_keeps_the_expected_value(backend):
    x = backend.array(np.full(20_000, 3.0))
    rng = np.random.default_rng(0)
    dropped = backend.numpy(dropout(x, 0.25, rng=rng.random))
    assert set(np.round(np.unique(dropped), 5)) == {0.0, 4.0}
    # Five deviations of a mean of 20,000 numbers that are 4 with probability 3/4.
    assert np.mean(dropped) == pytest.approx(3.0, abs=5 * 4 * math.sqrt(0.75 * 0.25 / 20_000))
    np.testing.assert_array_equal(backend.numpy(dropout(x, 0.25)), backend.numpy(x))
    np.testing.assert_array_equal(backend.numpy(dropout(x, 0.0, rng=rng)), backend.numpy(x))


def test_dropout_takes_generators_and_functions():
    x = np.ones((3, 4))
    first = dropout(x, 0.5, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(first, dropout(x, 0.5, rng=np.random.default_rng(5).random))
    np.testing.assert_array_equal(dropout(x, 0.5, rng=lambda shape: np.full(shape, 0.5)), 2 * x)
    np.testing.assert_array_equal(dropout(x, 0.5, rng=lambda shape: np.full(shape, 0.49)), 0 * x)


def test_dropout_with_numbers_of_the_library(backend):
    x = backend.array(np.ones((2, 3)))
    numbers = np.asarray([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    got = dropout(x, 0.3, rng=lambda _: backend.array(numbers))
    expected = np.where(numbers.astype(backend.wide) >= 0.3, 1 / 0.7, 0)
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=1e-6)


@pytest.mark.parametrize("layer", [AbsolutePE(8, 5, dropout=0.5), LearnedPE(8, 5, dropout=0.5)])
def test_layers_drop_only_with_rng(layer):
    x = np.ones((8, 5, 3), dtype=np.float32)
    whole = layer(x)
    np.testing.assert_array_equal(layer(x), whole)
    dropped = layer(x, rng=np.random.default_rng(0))
    kept = dropped != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept], rtol=1e-6)
    assert dropped.dtype == x.dtype


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (-1, -2)])
def test_adding_an_encoding_and_its_gradient(backend, axes):
    rng = np.random.default_rng(0)
    x, encoding = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 3))
    options = {"feature_axis": axes[0], "seq_axis": axes[1]}
    array = backend.array(np.moveaxis(x, (0, 1), axes))
    got = add_positional_encoding(array, backend.array(encoding), **options)
    np.testing.assert_allclose(
        np.moveaxis(backend.numpy(got), axes, (0, 1)),
        x + encoding[..., None],
        atol=backend.tolerance(),
    )
    grad_x, grad_encoding = add_positional_encoding_vjp(array, backend.array(encoding), **options)
    np.testing.assert_array_equal(backend.numpy(grad_x), backend.numpy(array))
    np.testing.assert_allclose(
        backend.numpy(grad_encoding), x.sum(axis=-1), atol=backend.tolerance()
    )


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 3, 1), (4, 1, 2)])
def test_gradient_of_an_encoding_in_the_layout_of_x(backend, shape):
    rng = np.random.default_rng(0)
    x, encoding = rng.standard_normal((4, 3, 2)), rng.standard_normal(shape)
    got = add_positional_encoding(backend.array(x), backend.array(encoding))
    np.testing.assert_allclose(backend.numpy(got), x + encoding, atol=backend.tolerance())
    _, grad = add_positional_encoding_vjp(backend.array(x), backend.array(encoding))
    repeated = tuple(i for i in range(3) if shape[i] == 1)
    expected = x.sum(axis=repeated, keepdims=True) if repeated else x
    np.testing.assert_allclose(backend.numpy(grad), expected, atol=backend.tolerance())


def test_adding_takes_the_memory_of_its_result():
    x, encoding = np.ones((8, 500, 50)), np.ones((8, 500))
    assert peak_memory(lambda: add_positional_encoding(x, encoding)) < 1.1 * x.nbytes
    assert peak_memory(lambda: add_positional_encoding_vjp(x, encoding)) < 0.1 * x.nbytes
    assert peak_memory(lambda: add_positional_encoding_vjp(x, x)) < 0.1 * x.nbytes


def test_encoding_of_two_axes_beside_x_of_two(backend):
    x, encoding = np.ones((4, 3)), sinusoidal_encoding(np.arange(3), 4)
    got = add_positional_encoding(backend.array(x), backend.array(encoding))
    np.testing.assert_allclose(backend.numpy(got), x + encoding, atol=backend.tolerance())
    _, grad = add_positional_encoding_vjp(backend.array(x), backend.array(encoding))
    np.testing.assert_array_equal(backend.numpy(grad), x)


@pytest.mark.needs("sort")
def test_what_is_not_finite_reaches_only_its_own_column(backend):
    grad = np.asarray([[np.nan, 1.0, 1.0]])
    layer = LearnedPE(1, 4, padding_idx=0, embeddings=backend.array(np.ones((1, 4))))
    _, got = layer.vjp(backend.array(grad), positions=backend.array([1, 0, 2]))
    np.testing.assert_array_equal(backend.numpy(got), [[0, np.nan, 1, 0]])
    table = LearnedPE(1, 3, embeddings=backend.array(np.asarray([[1.0, 2.0, np.inf]])))
    resized = backend.numpy(table.resize(5).embeddings)
    np.testing.assert_array_equal(resized, [[1, 1.5, 2, np.inf, np.inf]])
    with pytest.raises(ValueError, match="`positions` must be from 0 to 2, got 7"):
        LearnedPE(1, 3).vjp(np.ones((1, 2)), positions=np.asarray([0, 7]))


def test_a_number_that_is_not_finite_spreads_over_its_feature_in_a_grid():
    grid = np.ones((2, 13))
    grid[0, 7] = np.inf
    with np.errstate(invalid="ignore"):
        table = LearnedPE(2, 13, embeddings=grid).resize((5, 5), prefix=4).embeddings
    assert not np.isfinite(table[0, 4:]).any()
    np.testing.assert_array_equal(table[0, :4], 1)
    np.testing.assert_allclose(table[1], 1)


@pytest.mark.needs("sort")
@given(
    positions=st.lists(st.integers(0, 5), max_size=40),
    wrong=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_vjp_of_positions_that_repeat(backend, positions, wrong, seed):
    """Also for many, for none, and next to infinity or NaN."""
    grad = np.random.default_rng(seed).standard_normal((3, len(positions))).astype(backend.wide)
    if wrong < len(positions):
        grad[1, wrong] = np.inf
    expected = np.zeros((3, 6))
    for i, p in enumerate(positions):
        expected[:, p] += grad[:, i]
    if backend.name == "dask" and not positions:
        return  # they do not support empty arrays
    _, got = layer_on(backend).vjp(
        backend.array(grad, backend.wide), positions=backend.array(positions, "int32")
    )
    np.testing.assert_allclose(backend.numpy(got), expected, atol=10 * backend.tolerance())


@pytest.mark.needs("sort")
def test_vjp_of_positions_that_cannot_be_read(backend):
    grad, positions = backend.array(np.ones((3, 4))), backend.array([-1, 0, 6, 0])
    if not backend.reads_indices(positions):
        _, got = layer_on(backend).vjp(grad, positions=positions)
        np.testing.assert_array_equal(backend.numpy(got), [[2, 0, 0, 0, 0, 0]] * 3)
    else:
        with pytest.raises(ValueError, match="`positions` must be from 0 to 5, got -1"):
            layer_on(backend).vjp(grad, positions=positions)


def test_vjp_of_an_offset_is_a_slice(backend):
    grad = np.asarray([[np.nan, 1.0, np.inf]] * 3)
    for offset in (0, 2, 3):
        expected = np.zeros((3, 6))
        expected[:, offset : offset + 3] = grad
        _, got = layer_on(backend).vjp(backend.array(grad), offset=offset)
        np.testing.assert_array_equal(backend.numpy(got), expected)


@pytest.mark.library("torch")
def test_vjp_may_be_differentiated():
    """It is linear: the gradient of a product with a constant is the constant, looked up."""
    import torch

    rng = np.random.default_rng(0)
    positions, weight = rng.integers(0, 6, 9), rng.standard_normal((3, 6))
    layer = LearnedPE(3, 6, embeddings=torch.zeros((3, 6), dtype=torch.float64))
    grad = torch.asarray(rng.standard_normal((3, 9)), requires_grad=True)
    _, table = layer.vjp(grad, positions=torch.asarray(positions))
    (table * torch.asarray(weight)).sum().backward()
    np.testing.assert_allclose(grad.grad.numpy(), weight[:, positions], atol=1e-12)


def test_gradients_and_tables_take_the_memory_of_a_few_arrays():
    rng = np.random.default_rng(0)
    layer, grad = LearnedPE(8, 512, rng=0), rng.standard_normal((8, 4000)).astype("float32")
    positions = rng.integers(0, 512, 4000)
    assert peak_memory(lambda: layer.vjp(grad, positions=positions)) < 8 * grad.nbytes
    small = grad[:, :512]
    assert peak_memory(lambda: layer.vjp(small)) < 8 * small.nbytes
    assert peak_memory(lambda: layer.resize(1024)) < 12 * 8 * 1024 * 4


@pytest.mark.parametrize("new", [1, 2, 3, 7, 500])
def test_resizing_keeps_the_ends_to_the_bit(backend, new):
    ends = np.asarray([[np.inf, 0.1, 0.2, 0.3], [0.7, np.nan, np.inf, -0.1]])
    layer = LearnedPE(2, 4, embeddings=backend.array(ends))
    got = backend.numpy(layer.resize(new).embeddings)
    kept = backend.numpy(layer.embeddings)
    np.testing.assert_array_equal(got[:, 0], kept[:, 0])
    if new > 1:
        np.testing.assert_array_equal(got[:, -1], kept[:, -1])


def test_an_encoding_is_no_view_of_the_table():
    pe = LearnedPE(4, 10, rng=0)
    table = pe.embeddings.copy()
    encoding = pe.encoding(np.zeros((4, 3), dtype=np.float32))
    encoding *= 2
    np.testing.assert_array_equal(pe.embeddings, table)


def test_a_grid_of_one_position_is_spread_over_the_new_one():
    layer = LearnedPE(3, 1, rng=0)
    for options in {"grid": (1, 1)}, {}:
        table = layer.resize((2, 3), **options).embeddings
        np.testing.assert_allclose(table, np.repeat(layer.embeddings, 6, axis=1), rtol=1e-6)
