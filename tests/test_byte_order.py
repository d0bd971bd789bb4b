"""Arrays in the other byte order, as files hold them, give the same numbers in that order."""

import numpy as np
import pytest

import positional_embeddings as pe

RNG = np.random.default_rng(0)
COMPLEX = RNG.standard_normal((4, 3, 64)) + 1j * RNG.standard_normal((4, 3, 64))
X = RNG.standard_normal((8, 3, 64)).astype("float32")
LARGE = RNG.standard_normal((8, 3, 3000)).astype("float32")
QKV = RNG.standard_normal((3, 8, 40, 2)).astype("float32")
HIDING = np.where(RNG.random((40, 40, 2)) < 0.3, -1e300, RNG.standard_normal((40, 40, 2)))
TIMES = RNG.random(3)


def attention(*arrays, **options):
    *qkv, bias = arrays
    return pe.scaled_dot_product_attention(*qkv, bias=bias, **options)


CASES = {
    "complex pairs": (pe.RoPE(8, 8), COMPLEX.astype("complex64")),
    "many complex pairs": (pe.RoPE(8, 8), np.tile(COMPLEX, 20).astype("complex64")),
    "few pairs": (pe.RoPE(8, 8), X),
    "many pairs": (pe.RoPE(8, 8), LARGE),
    "half precision": (pe.RoPE(8, 8, layout="interleaved"), X.astype("float16")),
    "in place": (lambda x: pe.RoPE(8, 8)(y := x.copy(), out=y), X),
    "integer positions": (lambda x, p: pe.RoPE(8, 8)(x, positions=p), X, np.arange(3)),
    "real positions": (lambda x, p: pe.RoPE(8, 8)(x, positions=p), X, TIMES),
    "tables": (pe.apply_rope, X, np.cos(X[:4]), np.sin(X[:4])),
    "absolute": (pe.AbsolutePE(8, 8), X),
    "learned": (lambda e, x: pe.LearnedPE(8, 3, embeddings=e)(x), X[:, :, 0], X),
    "Fourier features": (lambda t: pe.fourier_encoding(t, [2.0, 3]), TIMES),
    "harmonics": (lambda t: pe.cyclic_encoding(t, 0.3, 2), TIMES),
    "sinusoids": (lambda t: pe.sinusoidal_encoding(t, 6), TIMES),
    "attention at once": (attention, *QKV, HIDING),
    "attention in blocks": (lambda *a: attention(*a, block_size=8), *QKV, HIDING),
    "KERPLE": (lambda r: pe.KERPLEBias(r, r)(4), np.ones(3)),
    "xPos": (lambda p: pe.xpos_scale(p, 8), TIMES),
    "patches": (
        pe.PatchEmbedding(8, 4, 3, 6, rng=0),
        RNG.standard_normal((3, 8, 8, 2)),
    ),
}


def swapped(array):
    return array.astype(array.dtype.newbyteorder("S"))


@pytest.mark.parametrize("case", CASES)
def test_the_other_byte_order(case):
    function, *arrays = CASES[case]
    expected = function(*arrays)
    got = function(*map(swapped, arrays))
    assert np.array_equal(got, expected)
    assert got.dtype == swapped(expected).dtype
