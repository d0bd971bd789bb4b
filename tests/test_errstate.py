"""No public call warns or raises of what is in its result.

Every call of the samples is made with numbers that underflow, overflow or are not finite.
"""

import pickle
import warnings

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import positional_embeddings as pe
import positional_embeddings.sklearn as estimators
from hostile.judge import same
from positional_embeddings.encodings.dropout import dropout
from samples import CATALOGUE

RNG = np.random.default_rng(0)
WIDE = 10.0 ** RNG.integers(-300, 300, 1000)
# What is made of the numbers of a call.
NUMBERS = {
    "as they are": lambda x: x,
    "tiny": lambda x: x * 1e-300,
    "subnormal": lambda x: np.full_like(x, 5e-324),
    "wide": lambda x: x * np.resize(WIDE, x.shape),
    "large scores": lambda x: x * 1e4,
    "huge": lambda x: x * 1e300,
    "largest": lambda x: np.copysign(np.finfo(x.dtype).max, x),
    "tiny and huge": lambda x: np.where(x > 0, x * 1e-300, x * 1e300),
    "infinite": lambda x: np.where(x > 0, np.inf, x),
    "minus infinity": lambda x: np.where(x > 0, -np.inf, x),
    "NaN": lambda x: np.where(x > 0, np.nan, x),
    "zero": lambda x: x * 0,
    "float32": lambda x: (x * np.resize(WIDE, x.shape)).astype("float32"),
    "float16": lambda x: (x * np.resize(WIDE[WIDE < 1], x.shape) * 1e4).astype("float16"),
}
CALLS = {f"{name}[{i}]": call for name, calls in CATALOGUE.items() for i, call in enumerate(calls)}


def in_threads(name):
    """Return the name of a call, marked where threads would write to one array or estimator."""
    method = name.partition("[")[0]
    writes = "out" in CALLS[name].values or method.endswith((".attend", ".fit", ".store"))
    return pytest.param(name, marks=[pytest.mark.thread_unsafe] * writes)


def came_of(call, changed):
    """Return what a call gives, or the text of its error."""
    try:
        return call(**changed)
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize("name", [in_threads(name) for name in CALLS])
def test_a_public_call_neither_warns_nor_raises(name):
    call = CALLS[name]
    arrays = {k: v for k, v in call.values.items() if getattr(v, "dtype", None) == np.float64}
    arrays = {k: v for k, v in arrays.items() if isinstance(v, np.ndarray)}
    for change in NUMBERS.values():
        for names in {frozenset(arrays), *(frozenset((k,)) for k in arrays)}:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                changed = {k: change(arrays[k]) for k in names}
                expected = came_of(call, changed)
            # Other warnings, such as of queries far from samples, are no floating-point errors.
            with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
                warnings.simplefilter("ignore", UserWarning)
                came = came_of(call, changed)
                assert np.geterr() == dict.fromkeys(np.geterr(), "raise")
            # BLAS rounds by where arrays lie in memory.
            is_text = isinstance(expected, str)
            assert came == expected if is_text else same(came, expected, exactly=False)


@pytest.fixture
def _raising():
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
        yield


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("block_size", [None, 1])
def test_weights_that_underflow_are_zero(dtype, block_size):
    q, k = np.asarray([[1000.0]], dtype), np.asarray([[1.0, -1.0]], dtype)
    np.testing.assert_array_equal(pe.attention_weights(q, k, scale=1.0), [[1, 0]])
    got = pe.scaled_dot_product_attention(q, k, k, scale=1.0, block_size=block_size)
    np.testing.assert_array_equal(got, [[1]])


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize("asarray", [np.asarray, strict.asarray])
def test_a_tiny_latitude_is_the_equator(asarray):
    tiny, zero = (asarray(np.asarray([x])) for x in (1e-300, 0.0))
    got, want = (np.asarray(pe.spherical_encoding(x, zero, 3)) for x in (tiny, zero))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-15)


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize("asarray", [np.asarray, strict.asarray])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_rotations_that_underflow(asarray, dtype):
    """In blocks, by doubled tables, by a kernel, and by tables of another dtype."""
    tiny = 1e-310 if dtype != "float32" else 1e-42
    features = 2 if dtype == "complex128" else 4
    x = asarray(np.full((features, 3), tiny, dtype))
    where = asarray(np.asarray([0.0, 0.5, 1e-320]))
    for layout, fused in (("half", None), ("half", False), ("interleaved", False)):
        rope = pe.RoPE(4, 8, layout=layout, fused=fused)
        at = rope.tables(where, dtype=None if dtype != "float32" else x.dtype)
        for got in (rope(x, positions=where), at(x), pe.apply_rope(x, at.cos, at.sin)):
            with np.errstate(under="ignore"):
                np.testing.assert_allclose(np.asarray(got)[:, 0], np.asarray(x)[:, 0], rtol=1e-5)
        assert rope(x, inverse=True).shape == x.shape


@pytest.mark.usefixtures("_raising")
def test_factors_and_tables_that_underflow():
    scaling = pe.YaRNScaling(2.0, 4, attention_factor=1e150)
    rope, x, tiny = pe.RoPE(8, 16, scaling=scaling), np.ones((8, 3)), np.full(3, 1e-170)
    rotated = rope(x, positions=tiny)
    np.testing.assert_allclose(rope(rotated, positions=tiny, inverse=True), x)
    cos = np.full((4, 3), 1e-300)
    np.testing.assert_array_equal(pe.apply_rope(x.astype("float32"), cos, cos), 0)


@pytest.mark.usefixtures("_raising")
def test_distances_of_infinite_positions():
    far = np.asarray([np.inf, 0.0])
    np.testing.assert_array_equal(
        pe.relative_positions(far, far), [[np.nan, -np.inf], [np.inf, 0.0]]
    )


@pytest.mark.usefixtures("_raising")
def test_weights_drawn_with_a_tiny_deviation():
    for layer in (pe.LearnedPE(4, 3, init_std=1e-44, rng=0), pe.T5Bias(2, init_std=1e-44, rng=0)):
        assert np.abs(layer.embeddings).max() < 1e-43


def divides(*_):
    return np.asarray([1.0]) / np.asarray([0.0]) > 0


def encoding_mask(q_pos, k_pos):
    """A mask whose function calls the library itself, and then divides."""
    pe.attention_weights(np.asarray([[1e5]]), np.asarray([[1.0, -1.0]]), scale=1.0)
    return divides() | (q_pos < k_pos)


def attended(**options):
    x = np.ones((2, 6))
    return pe.scaled_dot_product_attention(x, x, x, **options)


# Functions whose results an attention or a bias computes with.
WITHIN = {
    "mask of an attention": lambda: attended(mask=lambda q, k: divides() & (q < k)),
    "mask in blocks": lambda: attended(mask=lambda q, k: divides() & (q < k), block_size=2),
    "bias of an attention": lambda: attended(bias=lambda q, k: 1.0 * (divides() & (q < k))),
    "function mask of an attention": lambda: attended(
        mask=pe.FunctionMask(lambda q, k: divides() & (q < k))
    ),
    "bias": lambda: pe.FunctionBias(lambda q, k: 1.0 * (divides() & (q < k)), num_heads=1)(3),
}
USERS = {
    "mask": lambda: pe.FunctionMask(lambda q, k: divides() | (q < k)).dense(3),
    "mask that calls the library": lambda: pe.FunctionMask(encoding_mask).dense(3),
    "rng": lambda: dropout(np.ones(1), 0.5, rng=lambda _: 1 + 0 * divides()),
    "scaling": lambda: pe.RoPE.from_hf_config(
        {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 1},
        scaling=lambda dim, *_: ([1.0 + divides()[0]] * (dim // 2), 1.0),
        seq_len=4,
    )(np.ones((8, 3))),
    "estimator": lambda: estimators.GapFiller(Dividing(), positions=[0]).fit_transform(
        np.asarray([[0.0, 1.0], [1.0, np.nan], [2.0, 3.0]])
    ),
}


class Dividing(LinearRegression):
    """A regressor of the user that divides by zero."""

    def predict(self, X):  # noqa: N803
        divides()
        return super().predict(X)


@pytest.mark.parametrize("name", WITHIN)
def test_functions_that_are_part_of_a_formula_do_not_warn(name):
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
        WITHIN[name]()


@pytest.mark.parametrize("name", USERS)
def test_functions_of_the_user_do_as_the_user_asks(name):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        USERS[name]()
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        USERS[name]()
    with np.errstate(all="ignore"), warnings.catch_warnings(action="error"):
        USERS[name]()
    came = []
    with np.errstate(all="call", call=lambda *which: came.append(which)):
        USERS[name]()
    assert came[0][0] == "divide by zero"


@pytest.mark.parametrize("name", pe.__all__)
def test_public_names_are_pickled_by_name(name):
    value = getattr(pe, name)
    assert pickle.loads(pickle.dumps(value)) is value or isinstance(value, str)


@pytest.mark.usefixtures("_raising")
def test_attributes_neither_warn_nor_raise():
    rope = pe.RoPE(8, 16, base=1e300, scale=1e-30)
    assert [np.isfinite(table).all() for table in (rope.cos, rope.sin, rope.inv_freq)] == [True] * 3
