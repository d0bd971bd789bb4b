"""The families of sinusoids against formulas written from each source, and against libraries."""

import math

import numpy as np
import pytest

from backends import peak_memory
from positional_embeddings import sinusoidal_encoding


def to_endpoint(p, dim, *, cos_first=False, cycles=1.0, amplitude=1.0):
    """Tensor2Tensor, Whisper, MLX: n = dim // 2 frequencies from 1 to 1e-4, both included."""
    n = dim // 2
    frequencies = [math.exp(-math.log(1e4) * i / (n - 1)) * cycles for i in range(n)]
    sines = [amplitude * math.sin(p * w) for w in frequencies]
    cosines = [amplitude * math.cos(p * w) for w in frequencies]
    return (cosines + sines if cos_first else sines + cosines) + [0.0] * (dim % 2)


def marian(p, dim):
    whole = [p / 10_000 ** (2 * (j // 2) / dim) for j in range(dim)]
    return [math.sin(a) for a in whole[0::2]] + [math.cos(a) for a in whole[1::2]]


def detr(p, dim, length):
    scaled = (p + 1) / (length + 1e-6) * 2 * math.pi
    whole = [scaled / 10_000 ** (2 * (j // 2) / dim) for j in range(dim)]
    return [math.sin(a) if j % 2 == 0 else math.cos(a) for j, a in enumerate(whole)]


CASES = {
    "marian": ({"preset": "marian"}, marian),
    "tensor2tensor": ({"preset": "tensor2tensor"}, to_endpoint),
    "whisper": ({"preset": "whisper"}, to_endpoint),
    "detr": ({"preset": "detr", "length": 20}, lambda p, d: detr(p, d, 20)),
    "mlx": ({"preset": "mlx"}, lambda p, d: to_endpoint(p, d, amplitude=math.sqrt(2 / d))),
    "mlx, other way": (
        {"preset": "mlx", "cos_first": True, "full_turns": True, "amplitude": 1.0},
        lambda p, d: to_endpoint(p, d, cos_first=True, cycles=2 * math.pi),
    ),
    "cosine first": (
        {"cos_first": True},
        lambda p, d: [
            (math.sin if j % 2 else math.cos)(p / 10_000 ** (2 * (j // 2) / d)) for j in range(d)
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [6, 7])
def test_families(backend, case, dim):
    options, formula = CASES[case]
    positions = np.arange(20)
    got = backend.numpy(sinusoidal_encoding(backend.array(positions), dim, **options))
    expected = np.transpose([formula(p, dim) for p in positions])
    tolerance = 1e-12 if got.dtype == "float64" else 3e-6
    np.testing.assert_allclose(got, expected, atol=tolerance)
    real = backend.array(positions + 0.25)
    got = backend.numpy(sinusoidal_encoding(real, dim, **options))
    expected = np.transpose([formula(p + 0.25, dim) for p in positions])
    np.testing.assert_allclose(got, expected, atol=tolerance)


def test_length_makes_a_full_turn():
    got = sinusoidal_encoding(np.asarray([0, 12]), 2, length=12)
    np.testing.assert_allclose(got, [[0, 0], [1, 1]], atol=1e-15)


@pytest.mark.parametrize("options", [{}, {"cos_first": True}, {"preset": "whisper"}, {"start": -7}])
def test_blocks_are_as_one(options):
    """Odd sizes, too, which omit a cosine or append zeros."""
    positions = np.arange(5000)
    for dim in (16, 15):
        whole = sinusoidal_encoding(positions, dim, **options)
        parts = [sinusoidal_encoding(part, dim, **options) for part in np.split(positions, 50)]
        np.testing.assert_array_equal(whole, np.concatenate(parts, axis=1))


def test_memory_is_that_of_the_result():
    positions, size = np.arange(50_000), 256 * 50_000 * 4
    options = {"dtype": np.float32}
    assert peak_memory(lambda: sinusoidal_encoding(positions, 256, **options)) < 1.2 * size


def test_the_farthest_start_and_the_fewest_features_with_an_endpoint():
    position, start = np.asarray([-1, 0, 2]), 2**60
    for sign in (1, -1):
        encoding = sinusoidal_encoding(position - sign * start, 2, start=sign * start)
        expected = [np.sin(position), np.cos(position)]
        np.testing.assert_allclose(encoding, expected, atol=1e-15)
    encoding = sinusoidal_encoding(position, 2, endpoint=True)
    np.testing.assert_allclose(encoding, expected, atol=1e-15)
