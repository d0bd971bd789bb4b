"""Both layouts, partial rotation, complex numbers and shifts."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import (
    LinearScaling,
    RoPE,
    YaRNScaling,
    apply_rope,
    convert_layout,
    rotate_pairs,
)

layouts = st.sampled_from(["half", "interleaved"])


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def rotated_pair_by_pair(x, positions, rotary_dim, layout, base=10_000.0):
    """x (head, seq); each pair of features is one complex number, rotated by Python."""
    out = x.copy()
    half = rotary_dim // 2
    for i in range(half):
        a, b = (i, i + half) if layout == "half" else (2 * i, 2 * i + 1)
        for s, p in enumerate(positions):
            angle = p * base ** (-2 * i / rotary_dim)
            rotated = complex(x[a, s], x[b, s]) * complex(math.cos(angle), math.sin(angle))
            out[a, s], out[b, s] = rotated.real, rotated.imag
    return out


@given(
    layout=layouts,
    head=st.integers(2, 9),
    share=st.integers(1, 4),
    seq=st.integers(1, 4),
    axes=st.sampled_from([(0, 1), (1, 0)]),
)
def test_layouts_and_partial_rotation(backend, layout, head, share, seq, axes):
    rotary_dim = min(2 * share, head // 2 * 2)
    x = numbers(head, seq)
    rope = RoPE(
        head, 9, layout=layout, rotary_dim=rotary_dim, feature_axis=axes[0], seq_axis=axes[1]
    )
    array = backend.array(x if axes == (0, 1) else x.T)
    got = backend.numpy(rope(array, offset=3))
    expected = rotated_pair_by_pair(x, range(3, 3 + seq), rotary_dim, layout)
    np.testing.assert_allclose(got if axes == (0, 1) else got.T, expected, atol=backend.tolerance())
    assert rope.cos.shape == (rotary_dim // 2, 9)
    back = backend.numpy(rope(rope(array, offset=3), offset=3, inverse=True))
    np.testing.assert_allclose(back, backend.numpy(array), atol=backend.tolerance())


@given(layout=layouts, rotary_dim=st.sampled_from([2, 4, 6]))
def test_apply_rope_has_the_same_layouts(backend, layout, rotary_dim):
    rope = RoPE(7, 5, layout=layout, rotary_dim=rotary_dim)
    x = numbers(7, 5, 2)
    got = apply_rope(
        *(backend.array(a) for a in (x, rope.cos, rope.sin)), layout=layout, rotary_dim=rotary_dim
    )
    np.testing.assert_allclose(backend.numpy(got), rope(x), atol=backend.tolerance())


@given(n=st.integers(0, 7))
def test_rotate_pairs(backend, n):
    x = numbers(n, 2)
    expected = x.copy()
    for i in range(n // 2):
        expected[2 * i], expected[2 * i + 1] = -x[2 * i + 1], x[2 * i]
    got = backend.numpy(rotate_pairs(backend.array(x)))
    np.testing.assert_array_equal(got, expected.astype(backend.wide))
    got = backend.numpy(rotate_pairs(backend.array(x.T), -1))
    np.testing.assert_array_equal(got, expected.T.astype(backend.wide))


@given(
    heads=st.none() | st.integers(1, 3),
    head=st.integers(2, 7),
    share=st.none() | st.integers(1, 3),
    source=layouts,
    target=layouts,
)
def test_converted_activations_are_rotated_alike(backend, heads, head, share, source, target):
    head = head if share is not None else head // 2 * 2
    rotary_dim = head if share is None else min(2 * share, head // 2 * 2)
    count = heads or 1
    x = backend.array(numbers(3, count * head))
    options = {
        "axis": -1,
        "num_heads": heads,
        "rotary_dim": None if share is None else rotary_dim,
    }

    def rotated(array, layout):
        rope = RoPE(head, 3, layout=layout, rotary_dim=rotary_dim, feature_axis=-1, seq_axis=0)
        parts = [array[:, h * head : (h + 1) * head] for h in range(count)]
        return np.concatenate([backend.numpy(rope(part)) for part in parts], axis=-1)

    moved = convert_layout(x, source, target, **options)
    back = convert_layout(moved, target, source, **options)
    np.testing.assert_array_equal(backend.numpy(back), backend.numpy(x))
    expected = convert_layout(rotated(x, source), source, target, **options)
    np.testing.assert_array_equal(rotated(moved, target), expected)


def test_converted_weights_and_biases_give_the_same_scores():
    """Rows of the projection are features: the scores of a checkpoint do not change."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 5))
    weights, biases = rng.standard_normal((2, 12, 12)), rng.standard_normal((2, 12, 1))

    def scores(layout, weights, biases):
        rope = RoPE(6, 5, layout=layout)
        q, k = (
            rope((w @ x + b).reshape(2, 6, 5).transpose(1, 2, 0))
            for w, b in zip(weights, biases, strict=True)
        )
        return np.einsum("fih,fjh->ijh", q, k)

    converted = [
        [convert_layout(a, "interleaved", "half", axis=0, num_heads=2) for a in arrays]
        for arrays in (weights, biases)
    ]
    np.testing.assert_allclose(
        scores("half", *converted), scores("interleaved", weights, biases), atol=1e-12
    )


@pytest.mark.parametrize("name", ["complex64", "complex128"])
@pytest.mark.parametrize("positions", [None, [3, -1, 1000, 2]])
def test_complex_numbers_are_pairs(backend, name, positions):
    if name == "complex128" and backend.wide == "float32":
        name = "complex64"
    real = numbers(4, 6).astype("float32" if name == "complex64" else "float64")
    x = real.view(name)  # (seq, pairs)
    rope = RoPE(6, 9, layout="interleaved", feature_axis=-1, seq_axis=0)
    given_positions = None if positions is None else backend.array(positions)
    got = backend.numpy(rope(backend.array(x), positions=given_positions))
    assert got.dtype == name
    host_positions = None if positions is None else np.asarray(positions)
    tolerance = 2e-6 if name == "complex64" else 1e-12
    expected = rope(real.astype("float64"), positions=host_positions)
    np.testing.assert_allclose(got.view(real.dtype), expected, atol=tolerance)
    back = rope(backend.array(got), positions=given_positions, inverse=True)
    np.testing.assert_allclose(backend.numpy(back), x, atol=tolerance)
    cos, sin = (backend.array(t.T[:4], real.dtype.name) for t in (rope.cos, rope.sin))
    applied = apply_rope(backend.array(x), cos, sin, feature_axis=-1)
    np.testing.assert_allclose(backend.numpy(applied), rope(x), atol=tolerance)
    part = apply_rope(backend.array(x), cos[:, :1], sin[:, :1], feature_axis=-1, rotary_dim=2)
    np.testing.assert_array_equal(backend.numpy(part)[:, 1:], x[:, 1:])


@given(
    start=st.integers(0, 50),
    delta=st.integers(-60, 1000) | st.floats(-60, 1000, width=32),
    layout=layouts,
    scaled=st.booleans(),
)
def test_shift_moves_what_is_rotated(backend, start, delta, layout, scaled):
    scaling = YaRNScaling(4.0, 64) if scaled else None
    rope = RoPE(6, 1, layout=layout, scaling=scaling)
    x = backend.array(numbers(6, 3, 2))
    places = np.arange(start, start + 3)
    shifted = rope.shift(rope(x, positions=backend.array(places)), delta)
    expected = rope(numbers(6, 3, 2), positions=places + delta)
    np.testing.assert_allclose(backend.numpy(shifted), expected, atol=5 * backend.tolerance())


def test_the_farthest_positions():
    """A shift by 2**60, and the largest integer in a list of positions, are exact."""
    rope, x = RoPE(2, 3), numbers(2, 1)
    np.testing.assert_allclose(
        rope.shift(x, 2**60), oracles.rotated(x, np.asarray([2**60])), atol=1e-12
    )
    with pytest.raises(ValueError, match=r"`delta` must be within 2\*\*60 positions"):
        rope.shift(x, 2**60 + 1)
    farthest = 2**63 - 1
    with mpmath.workdps(40):
        cosine, sine = float(mpmath.cos(farthest)), float(mpmath.sin(farthest))
    for sign in (1, -1):
        tables = rope.tables([sign * farthest])
        np.testing.assert_allclose(tables.cos, [[cosine]], atol=1e-14)
        np.testing.assert_allclose(tables.sin, [[sign * sine]], atol=1e-14)


def test_complex_numbers_are_shifted(backend):
    rope = RoPE(6, 9, layout="interleaved")
    z = (numbers(3, 4) + 1j * numbers(3, 4, seed=1)).astype("complex64")
    got = backend.numpy(rope.shift(backend.array(z), 3))
    angles = 3 * 10_000.0 ** (-2 * np.arange(3) / 6)
    np.testing.assert_allclose(got, z * np.exp(1j * angles)[:, None], atol=2e-6)


def test_shift_by_an_array(backend):
    rope = RoPE(6, 3)
    x, delta = backend.array(numbers(6, 3, 2)), np.asarray([[1, 2], [0, -4], [7, 7]])
    got = rope.shift(rope(x), backend.array(delta))
    expected = oracles.rotated(numbers(6, 3, 2), np.arange(3)[:, None] + delta)
    np.testing.assert_allclose(backend.numpy(got), expected, atol=5 * backend.tolerance())


@pytest.mark.parametrize("delta", [2**31 + 5, 16_777_217.0, 123_456_789.0, 100_000.3, -7.5])
def test_a_shift_by_a_number_is_exact_on_every_device(backend, delta):
    rope, x = RoPE(6, 3), numbers(6, 3, 2)
    got = backend.numpy(rope.shift(backend.array(x), delta))
    places = np.full(3, int(delta) if delta == int(delta) else delta)
    np.testing.assert_allclose(got, rope(x, positions=places), atol=backend.tolerance())


def test_a_shift_by_scalars_of_every_kind(backend):
    rope, x = RoPE(6, 3), backend.array(numbers(6, 3, 2))
    expected = backend.numpy(rope.shift(x, 5))
    for delta in (np.int64(5), np.float64(5), backend.array(5), backend.array(5.0)):
        got = backend.numpy(rope.shift(x, delta))
        np.testing.assert_allclose(got, expected, atol=backend.tolerance())
    sections = RoPE(6, 3, sections=(2, 1))
    got = backend.numpy(sections.shift(x, backend.array(5)))
    np.testing.assert_allclose(got, expected, atol=backend.tolerance())


@pytest.mark.parametrize("factor", [None, 2.0])
def test_inverse_divides_by_the_attention_factor(backend, factor):
    rope = RoPE(8, 20, scaling=YaRNScaling(4.0, 64, attention_factor=factor))
    assert rope.attention_factor > 1.1
    x = backend.array(numbers(8, 5))
    rotated = rope(x)
    lengths = np.linalg.norm(backend.numpy(rotated), axis=0)
    whole = rope.attention_factor * np.linalg.norm(numbers(8, 5), axis=0)
    np.testing.assert_allclose(lengths, whole, rtol=1e-5)
    back = rope(rotated, inverse=True)
    np.testing.assert_allclose(backend.numpy(back), numbers(8, 5), atol=backend.tolerance())


def test_scaling_is_part_of_the_value():
    rope = RoPE(8, 20, scaling=LinearScaling(2))
    assert rope == RoPE(8, 20, scaling=LinearScaling(2.0))
    assert rope != RoPE(8, 20, scaling=LinearScaling(3))
    assert hash(rope) == hash(RoPE(8, 20, scaling=LinearScaling(2)))
    x = numbers(8, 20)
    np.testing.assert_allclose(rope(x), RoPE(8, 20, scale=0.5)(x), atol=1e-14)
