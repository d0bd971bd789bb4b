"""A library that is not known is asked for nothing beyond the standard."""

import array_api_strict as strict
import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.encodings.dropout import dropout


class Locked:
    """An array of a library of which nothing is known: it is not read, and not written to."""

    def __init__(self, array):
        self.array = array

    def __array_namespace__(self, api_version=None):
        return namespace

    def __setitem__(self, key, value):
        raise AssertionError(key)

    def __bool__(self):
        raise AssertionError

    __int__ = __index__ = __float__ = __bool__

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def shape(self):
        return self.array.shape

    @property
    def ndim(self):
        return self.array.ndim

    @property
    def size(self):
        return self.array.size

    @property
    def device(self):
        return self.array.device

    @property
    def T(self):  # noqa: N802 - as the standard has it
        return Locked(self.array.T)

    def to_device(self, device, /, *, stream=None):
        return Locked(self.array.to_device(device, stream=stream))

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        return Locked(self.array[tuple(map(unlocked, keys))])


def unlocked(value):
    if isinstance(value, Locked):
        return value.array
    if isinstance(value, list | tuple):
        return type(value)(map(unlocked, value))
    return value


def locked(value):
    if isinstance(value, strict._array_object.Array):
        return Locked(value)
    return type(value)(map(locked, value)) if isinstance(value, list | tuple) else value


def operator(name):
    def apply(self, *operands):
        return locked(getattr(self.array, name)(*map(unlocked, operands)))

    return apply


for name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or"),
    *("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul", "rand", "ror"),
    *("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert"),
):
    setattr(Locked, f"__{name}__", operator(f"__{name}__"))


class Namespace:
    """The functions of array-api-strict, on locked arrays, without those of extensions."""

    def fmod(self, *arrays):
        """Stand for a function of the same name as NumPy's: the standard has none."""
        raise AssertionError(arrays)

    def __getattr__(self, name):
        if name in ("linalg", "fft"):
            raise AttributeError(name)
        value = getattr(strict, name)
        if not callable(value) or isinstance(value, type) or name.startswith("__"):
            return value

        def call(*arguments, **options):
            options = {key: unlocked(option) for key, option in options.items()}
            return locked(value(*map(unlocked, arguments), **options))

        return call


namespace = Namespace()


def lock(values):
    return Locked(strict.asarray(values))


def values_of(array):
    assert isinstance(array, Locked)
    return np.asarray(array.array)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 5, 2))
IDS = np.asarray([2, 0, 1, 4, 3])
CALLS = {
    "rotation": lambda a: pe.RoPE(8, 10)(a(X), offset=2),
    "interleaved": lambda a: pe.RoPE(8, 10, layout="interleaved")(a(X)),
    "partial": lambda a: pe.RoPE(8, 10, rotary_dim=4)(a(X), inverse=True),
    "positions": lambda a: pe.RoPE(8, 10)(a(X), positions=a(IDS)),
    "real positions": lambda a: pe.RoPE(8, 10)(a(X), positions=a(IDS / 2)),
    "shift": lambda a: pe.RoPE(8, 10).shift(a(X), 3),
    "tables": lambda a: pe.RoPE(8, 10).tables(a(np.arange(X.shape[1]))).sin,
    "given tables": lambda a: pe.RoPE(8, 10).tables(a(np.arange(X.shape[1])))(a(X)),
    "sinusoids": lambda a: pe.sinusoidal_encoding(a(IDS), 7),
    "absolute": lambda a: pe.AbsolutePE(8, 10)(a(X)),
    "learned": lambda a: pe.LearnedPE(8, 10, embeddings=a(RNG_TABLE))(a(X), positions=a(IDS)),
    "tokens": lambda a: pe.TokenEmbedding(10, 8, embeddings=a(RNG_TABLE))(a(IDS)),
    "dropout": lambda a: dropout(a(X), 0.5, rng=np.random.default_rng(0)),
    "relative positions": lambda a: pe.relative_positions(a(IDS), a(IDS)),
    "buckets": lambda a: pe.relative_position_bucket(a(50 * IDS - 100)),
    "kerple": lambda a: pe.KERPLEBias(a(np.ones(2)), a(np.ones(2)))(3),
    "segments": lambda a: pe.SegmentMask(a(IDS // 2)).dense(len(IDS)),
    "positions of a mask": lambda a: pe.positions_from_mask(a(IDS > 2)),
    "padding": lambda a: pe.create_padding_mask(a(IDS), 5),
    "bias of a mask": lambda a: pe.mask_to_bias(a(IDS > 2)),
    "fourier": lambda a: pe.fourier_encoding(a(X), [2.0, 0.3]),
    "cyclic": lambda a: pe.cyclic_encoding(a(100 * X), [2.0, 0.3], 3),
    "cyclic integers": lambda a: pe.cyclic_encoding(a(10**15 * IDS), 365.25),
    "random fourier": lambda a: pe.random_fourier_encoding(a(X), 6, rng=0),
    "grid cells": lambda a: pe.grid_cell_encoding(a(X[:2]), [2.0, 0.3]),
    "sphere": lambda a: pe.spherical_encoding(a(X), a(X), 3),
    "walks": lambda a: pe.random_walk_encoding(a(X[:5, :, 0] ** 2), 4),
    "attention": lambda a: pe.scaled_dot_product_attention(a(X), a(X), a(X)),
    "masked": lambda a: pe.scaled_dot_product_attention(
        a(X), a(X), a(X), mask=a(np.triu(np.ones((5, 5), bool), 1)), softcap=5.0
    ),
    "in blocks": lambda a: pe.scaled_dot_product_attention(
        a(X), a(X), a(X), mask=lambda q, k: k > q, block_size=2
    ),
}
RNG_TABLE = RNG.standard_normal((8, 10))


@pytest.mark.parametrize("case", CALLS)
def test_a_library_that_is_not_known(case):
    expected = CALLS[case](np.asarray)
    np.testing.assert_allclose(values_of(CALLS[case](lock)), expected, rtol=0, atol=1e-14)


def test_it_need_not_have_linear_algebra():
    with pytest.raises(TypeError, match="`adjacency` must be an array of a library with `linalg"):
        pe.graph_laplacian_encoding(lock(np.ones((3, 3))), 1)


def test_it_keeps_nothing():
    rope = pe.RoPE(8, 10)
    rope(lock(X))
    assert list(rope._tables._pages) == [("float64", "C")]


def test_it_cannot_be_written_to():
    with pytest.raises(TypeError, match="`out` must be an array that can be written to"):
        pe.RoPE(8, 10)(lock(X), out=lock(X))


def test_rows():
    for x, supports_inplace in ((np.ones(1), True), (strict.ones(1), True), (lock([1.0]), False)):
        assert get_backend(x=x).supports_inplace(x) == supports_inplace
    assert get_backend(x=lock([1.0])).values_on_host(lock([1.0])) is None


UNKNOWN = Backend(np, None, np.float64, np.int64, np.float64, np.float64)


def test_an_array_without_chunks_is_one_chunk():
    array_backend, x = UNKNOWN, np.arange(6.0).reshape(2, 3)
    assert array_backend.chunks(x) == ((2,), (3,))
    assert array_backend.rechunk(x, {0: (1, 1)}) is x
    options = {"chunks": array_backend.chunks(x), "dtype": x.dtype}
    np.testing.assert_array_equal(array_backend.map_chunks(np.negative, x, **options), -x)
    placed = array_backend.map_chunks(
        lambda x, block_id: (x, block_id), x, **options, numbered=True
    )
    assert placed[1] == (0, 0)


def test_an_array_may_have_no_device():
    assert UNKNOWN.device_for(object()) is None
    assert not UNKNOWN.is_on_host(object())
