"""Half precision that a library only half knows: bfloat16 positions, and a `where` without it."""

import re

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings as pe

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ONES = np.ones(2)

USES = {
    "rope": lambda p, of: pe.RoPE(4, 8)(of(np.ones((4, 4))), positions=p),
    "shift": lambda p, of: pe.RoPE(4, 8).shift(of(np.ones((4, 4))), p),
    "coordinates": lambda p, of: pe.RoPE(4, 8, sections=(1, 1))(
        of(np.ones((4, 4))), positions=of.__self__.xp.stack([p, p])
    ),
    "absolute": lambda p, of: pe.AbsolutePE(4, 8)(of(np.ones((4, 4))), positions=p),
    "relative": lambda p, _: pe.relative_positions(p, p),
    "alibi": lambda p, _: pe.alibi_bias(2, query_positions=p),
    "sandwich": lambda p, _: pe.SandwichBias(2, dim=4)(query_positions=p),
    "kerple": lambda p, of: pe.KERPLEBias(of(ONES), of(ONES))(query_positions=p),
    "fire": lambda p, of: pe.FIREBias(
        of(ONES), of(ONES), of(np.ones((2, 2))), of(ONES), c=0.5, threshold=2.0
    )(query_positions=p),
}


def half_dtypes(backend):
    """Return them with ml_dtypes' bfloat16, which is NumPy's and CuPy's."""
    own = [BFLOAT16] if backend.name in ("numpy", "cupy") else []
    return [*backend.half_dtypes, *own]


@pytest.mark.parametrize("use", USES)
def test_half_precision_positions_are_their_numbers(backend, use):
    numbers = backend.array([0.0, 1.5, -3.0, 7.25], "float32")
    for dtype in half_dtypes(backend):
        narrow = backend.xp.astype(numbers, dtype)
        got, expected = (USES[use](positions, backend.array) for positions in (narrow, numbers))
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(
            backend.numpy(got), backend.numpy(expected), atol=backend.tolerance("float32")
        )


# What is called with positions, and the name of the argument.
LIMITED = {name: ("positions", use) for name, use in USES.items()} | {
    "shift": ("delta", USES["shift"]),
    "tables": ("positions", lambda p, _: pe.RoPE(4, 8).tables(p).cos),
    "sinusoidal": ("positions", lambda p, _: pe.sinusoidal_encoding(p, 4)),
    "xpos": ("positions", lambda p, _: pe.xpos_scale(p, 4)),
    "keys": (
        "key_positions",
        lambda p, _: pe.alibi_bias(2, query_positions=0 * p, key_positions=p),
    ),
}
for _name in ("relative", "alibi", "sandwich", "kerple", "fire"):
    LIMITED[_name] = ("query_positions", USES[_name])


@pytest.mark.parametrize("use", LIMITED)
def test_half_precision_positions_beyond_all_integers(backend, use):
    """2048 may be 2049, and 256 may be 257, rounded; what cannot be read is taken as it is."""
    if "jit" in backend.name:
        pytest.skip("not all of these calls are traced")
    name, call = LIMITED[use]
    for dtype in half_dtypes(backend):
        end = 256 if "bfloat16" in str(dtype) else 2048
        kind = "bfloat16" if end == 256 else "float16"
        near, far = (
            backend.xp.astype(backend.array([0.0, -n, 1.0, 2.0], "float32"), dtype)
            for n in (end - 1, end + 1)
        )
        call(near, backend.array)
        if not backend.reads_values or backend.name == "cupy":  # in the memory of a device
            call(far, backend.array)
            continue
        message = (
            f"`{name}` must be within {end - 1} in {kind}, which lacks integers from {end} on, "
            f"got -{end}.0. Pass integers, or float32."
        )
        for _ in range(2):  # also where the layer knows the call
            with pytest.raises(ValueError, match=rf"^{re.escape(message)}$"):
                call(far, backend.array)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_half_precision_positions_that_are_no_numbers(dtype):
    assert np.isnan(pe.sinusoidal_encoding(np.asarray([np.nan], dtype=dtype), 2)).all()
    with pytest.raises(ValueError, match="got inf"):
        pe.sinusoidal_encoding(np.asarray([np.inf], dtype=dtype), 2)


@pytest.mark.parametrize(
    ("dtype", "most"),
    [(np.float16, 2048), (np.dtype("f2"), 2048), (BFLOAT16, 256), (np.float32, 2**24)],
)
def test_grids_whose_coordinates_a_dtype_does_not_hold(dtype, most):
    if most < 2**24:
        np.testing.assert_array_equal(
            pe.grid_positions((most + 1,), dtype=dtype)[0], range(most + 1)
        )
    with pytest.raises(ValueError, match=f"^`dtype` must hold the coordinates to {most + 1}, got"):
        pe.grid_positions((most + 2,), dtype=dtype)


def test_encodings_of_half_precision_positions(backend):
    """They come in the dtype of the positions, and in another one if that is asked for."""
    numbers = backend.array([0.0, 1.5, -3.0, 7.25], "float32")
    encodings = (pe.sinusoidal_encoding, pe.xpos_scale)
    for encoding in encodings:
        wide = backend.numpy(encoding(numbers, 4))
        for dtype in half_dtypes(backend):
            narrow = backend.xp.astype(numbers, dtype)
            assert encoding(narrow, 4).dtype == dtype
            got = encoding(narrow, 4, dtype=backend.xp.float32)
            np.testing.assert_allclose(backend.numpy(got), wide, atol=2e-6)
            rounded = backend.numpy(encoding(narrow, 4)).astype("float32")
            np.testing.assert_allclose(rounded, wide, atol=2**-8)


def test_results_of_half_precision_have_their_dtype(backend):
    """Of CuPy, too, whose `where` and products know bfloat16 by halves."""
    q = backend.array(np.random.default_rng(0).standard_normal((4, 5, 2)), "float32")
    table = backend.array(np.arange(1.0, 13).reshape(4, 3), "float32")
    ids, mask = backend.array([[2, 1], [0, 1]]), backend.array(np.tri(5) == 0)
    calls = {
        "add": lambda x, _: pe.add_positional_encoding(x, x[:, :, 0]),
        "attention": lambda x, _: pe.scaled_dot_product_attention(x, x, x, mask=pe.CausalMask()),
        "mask_to_bias": lambda x, _: pe.mask_to_bias(mask, x.dtype),
        "rope": lambda x, _: pe.RoPE(4, 8)(x),
        "token": lambda _, t: pe.TokenEmbedding(3, 4, padding_idx=1, embeddings=t)(ids),
        "learned": lambda _, t: pe.LearnedPE(4, 3, padding_idx=1, embeddings=t).embeddings,
        "t5": lambda _, t: pe.T5Bias(3, num_buckets=4, max_distance=8, embeddings=t)(1, 1),
        "weights": lambda x, _: pe.attention_weights(x, x),
    }
    for name, call in calls.items():
        expected = backend.numpy(call(q, table))
        for dtype in half_dtypes(backend):
            got = call(*(backend.xp.astype(array, dtype) for array in (q, table)))
            assert got.dtype == dtype, name
            numbers = backend.numpy(got).astype("float32")
            np.testing.assert_allclose(numbers, expected, rtol=2**-5, atol=2**-5, err_msg=name)


@pytest.fixture
def where_without_bfloat16(monkeypatch):
    """NumPy with a `where` that knows no bfloat16, as CuPy's, and gives float32."""
    plain = np.where

    def where(condition, first, second):
        chosen = plain(condition, first, second)
        return chosen.astype("float32") if chosen.dtype == BFLOAT16 else chosen

    monkeypatch.setattr(np, "where", where)


@pytest.mark.usefixtures("where_without_bfloat16")
def test_results_have_the_dtype_that_is_asked_for():
    assert np.where(True, *np.zeros((2, 1), BFLOAT16)).dtype == "float32"
    bias = pe.mask_to_bias(np.asarray([True, False]), BFLOAT16)
    assert bias.dtype == BFLOAT16
    np.testing.assert_array_equal(bias.astype("float64"), [-np.inf, 0])
    table = np.arange(1, 7).reshape(2, 3).astype(BFLOAT16)
    expected = [[1, 0, 3], [4, 0, 6]]
    for layer in (
        pe.TokenEmbedding(3, 2, padding_idx=1, embeddings=table),
        pe.LearnedPE(2, 3, padding_idx=1, embeddings=table),
    ):
        assert layer.embeddings.dtype == BFLOAT16
        np.testing.assert_array_equal(layer.embeddings.astype("float64"), expected)
    vectors = pe.TokenEmbedding(3, 2, padding_idx=1, embeddings=table)(np.asarray([2, 1]))
    assert vectors.dtype == BFLOAT16
    np.testing.assert_array_equal(vectors.astype("float64"), [[3, 0], [6, 0]])


@pytest.mark.library("dask")
@pytest.mark.usefixtures("where_without_bfloat16")
def test_lazy_lookup_has_the_dtype_of_the_table():
    import dask.array as dask

    table = dask.from_array(np.arange(1, 7).reshape(2, 3).astype(BFLOAT16))
    vectors = pe.TokenEmbedding(3, 2, embeddings=table)(dask.from_array(np.asarray([2, 1])))
    assert vectors.dtype == BFLOAT16
    assert vectors.compute().dtype == BFLOAT16
    np.testing.assert_array_equal(vectors.compute().astype("float64"), [[3, 2], [6, 5]])
