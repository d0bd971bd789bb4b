"""The backend of a call."""

import array_api_strict as strict
import ml_dtypes
import numpy as np
import pytest

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.backends.numpy import NumPyBackend, StrictBackend
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.dtypes import is_dtype


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float16", "float32"),
        (ml_dtypes.bfloat16, "float32"),
        ("float32", "float32"),
        (">f4", "float32"),
        ("complex64", "float32"),
        ("float64", "float64"),
        ("complex128", "float64"),
        ("int8", "float64"),
        ("bool", "float64"),
    ],
)
def test_the_dtype_to_compute_in(name, dtype):
    array_backend = get_backend(x=np.zeros(1, name), y=np.zeros(1, "float32"))
    assert np.dtype(array_backend.dtype) == dtype
    assert np.dtype(array_backend.dtype).isnative
    assert (array_backend.xp, array_backend.device) == (np, "cpu")
    dtypes = map(
        np.dtype,
        (
            array_backend.int_dtype,
            array_backend.widest_float_dtype,
            array_backend.default_float_dtype,
        ),
    )
    assert [*dtypes] == ["int64", "float64", "float64"]


@pytest.mark.parametrize("name", ["int8", "int32", "bool"])
def test_integers_have_the_default_dtype_to_compute_in(backend, name):
    array_backend = get_backend(x=backend.array(np.zeros(1), name))
    assert array_backend.dtype == backend_for(backend.xp, backend.device).dtype


def test_a_new_space_computes_in_the_default_dtype(backend):
    array_backend = backend_for(backend.xp, backend.device)
    one = backend.xp.asarray(1.0, device=backend.device)
    assert array_backend.dtype == array_backend.default_float_dtype == one.dtype
    assert array_backend.xp is get_backend(x=one).xp is backend.xp
    assert get_backend(x=one).device == backend.device


def test_another_dtype_to_compute_in(backend):
    array_backend = backend_for(backend.xp, backend.device)
    assert array_backend.with_dtype(backend.xp.float32).dtype == backend.xp.float32
    assert array_backend.dtype == array_backend.default_float_dtype


@pytest.mark.parametrize("length", [3, 2000])
def test_totals_begin_with_a_number(length):
    x = np.random.default_rng(0).uniform(size=(2, length))
    for array in (x, strict.asarray(x)):
        array_backend = get_backend(x=array)
        for start in (0.0, 3.5):
            total = np.asarray(array_backend.row_sum(array, start))
            np.testing.assert_allclose(total, start + x.sum(axis=-1, keepdims=True), rtol=1e-14)


def test_an_array_of_the_dtype_is_returned_itself():
    for x in (np.ones(3), strict.ones(3)):
        assert get_backend(x=x).astype(x, x.dtype) is x


def test_a_row_by_a_table_of_many_rows_is_rounded_little():
    """Not at every step of a long sum, of which a product with a table of gaps consists."""
    rng, array_backend = np.random.default_rng(0), backend_for()
    row = rng.uniform(size=(1, 2**20)).astype("float32")
    table = rng.uniform(size=(2**20, 4)).astype("float32")[:, ::2]
    exact = row.astype("float64") @ table.astype("float64")
    np.testing.assert_allclose(array_backend.matmul(row, table), exact, rtol=1e-6)


def test_other_products_are_those_of_the_library():
    rng, array_backend = np.random.default_rng(0), backend_for()
    rows = rng.uniform(size=(3, 2**14)).astype("float32")
    table = rng.uniform(size=(2**14, 4)).astype("float32")
    for few in (rows, rows[:1]):
        np.testing.assert_array_equal(array_backend.matmul(few, table), few @ table)
    gaps = table[:, ::2]
    np.testing.assert_array_equal(array_backend.matmul(rows, gaps), rows @ gaps)


def test_entries_by_indices_of_any_axes(backend):
    table = np.random.default_rng(0).uniform(size=(4, 5, 3)).astype("float32")
    array_backend = backend_for(backend.xp, backend.device)
    for indices in ([1, 0, 4], [[3, 3], [0, 1]]):
        index = backend.array(np.asarray(indices))
        got = backend.numpy(array_backend.take_entries(backend.array(table), index, 1))
        np.testing.assert_array_equal(got, np.take(table, indices, axis=1))


def test_a_library_that_is_not_known_can_do_nothing_more():
    can = ("is_mutable", "supports_out", "can_cache_arrays", "reads_values", "shows_tracing")
    is_so = ("has_cuda_kernels", "is_chunked", "records_gradients")
    assert not any(getattr(Backend, name) for name in can + is_so)
    assert all(getattr(NumPyBackend, name) for name in can)
    assert [name for name in can if not getattr(StrictBackend, name)] == ["supports_out"]
    assert type(get_backend(x=np.zeros(1))) is NumPyBackend
    assert type(get_backend(x=strict.zeros(1))) is type(backend_for(strict)) is StrictBackend


@pytest.mark.parametrize("xp", [np, strict])
@pytest.mark.parametrize("size", [5, 700])
def test_totals(xp, size):
    x = np.arange(3.0 * size).reshape(3, size)
    array = xp.asarray(x)
    array_backend = get_backend(x=array)
    for initial, options in ((0, ()), (2.5, (2.5,))):
        expected = [[sum(row) + initial] for row in x.tolist()]
        np.testing.assert_array_equal(np.asarray(array_backend.row_sum(array, *options)), expected)


def test_values_of_another_device_are_not_read():
    x = strict.zeros(3, device=strict.Device("device1"))
    assert get_backend(x=x).values_on_host(x) is None


def test_subclasses_have_the_backend_of_their_library():
    array = np.ones(2).view(type("Marked", (np.ndarray,), {}))
    assert type(get_backend(x=array)) is NumPyBackend


def test_questions_are_answered_by_booleans():
    x = strict.ones(2)
    array_backend = get_backend(x=x)
    lazy = type("Lazy", (StrictBackend,), {"reads_values": False})(*vars(array_backend).values())
    answers = [
        array_backend.is_compiling,
        array_backend.is_trainable(x),
        lazy.concrete_bool(strict.asarray(True)),
        is_dtype(type("NoDtype", (), {}), "integral", np),
    ]
    assert [type(answer) for answer in answers] == [bool] * 4
    assert not any(answers)
