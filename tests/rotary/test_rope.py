"""RoPE against the rotation of the paper, in every layout."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import RoPE, apply_rope, neg_half

even = st.integers(1, 6).map(lambda n: 2 * n)
layouts = st.integers(2, 5).flatmap(
    lambda ndim: st.permutations(range(ndim)).map(lambda order: (ndim, order[0], order[1]))
)


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def moved(array, feature, seq):
    """From (feature, seq, ...) to an array with those on the given axes."""
    return np.moveaxis(array, (0, 1), (feature, seq))


def moved_back(array, feature, seq):
    return np.moveaxis(array, (feature, seq), (0, 1))


def test_neg_half(backend):
    x = numbers((3, 4, 2))
    for axis in (1, -2):
        expected = np.concatenate([-x[:, 2:], x[:, :2]], axis=1)
        np.testing.assert_array_equal(
            backend.numpy(neg_half(backend.array(x), axis)), expected.astype(backend.wide)
        )


def test_neg_half_is_a_quarter_turn():
    x = np.arange(6)
    np.testing.assert_array_equal(neg_half(neg_half(x)), -x)


@given(head=even, seq=st.integers(1, 4), layout=layouts, negative=st.booleans())
def test_rope_is_the_papers_rotation_in_every_layout(backend, head, seq, layout, negative):
    ndim, feature, seq_axis = layout
    x = numbers((head, seq, *(2, 3, 1)[: ndim - 2]))
    positions = np.broadcast_to(np.arange(seq).reshape(-1, *(1,) * (ndim - 2)), x.shape[1:])
    shift = ndim if negative else 0
    rope = RoPE(head, 7, 50, 0.5, feature_axis=feature - shift, seq_axis=seq_axis - shift)
    got = backend.numpy(rope(backend.array(moved(x, feature, seq_axis))))
    assert got.dtype == backend.wide
    expected = oracles.rotated(x, positions, 50, 0.5)
    np.testing.assert_allclose(
        moved_back(got, feature, seq_axis), expected, atol=backend.tolerance()
    )


@given(head=even, seq=st.integers(1, 4), layout=layouts, seed=st.integers(0, 99))
def test_rope_takes_positions_of_every_shape(backend, head, seq, layout, seed):
    ndim, feature, seq_axis = layout
    x = moved(numbers((head, seq, *(2, 3, 1)[: ndim - 2])), feature, seq_axis)
    rng = np.random.default_rng(seed)
    rest = [n for axis, n in enumerate(x.shape) if axis != feature]
    shape = [n if rng.random() < 0.6 else 1 for n in rest]
    positions = rng.uniform(-50, 50, shape if len(rest) > 1 else rest).astype("float32")
    got = RoPE(head, 1, feature_axis=feature, seq_axis=seq_axis)(
        backend.array(x), positions=backend.array(positions)
    )
    # The oracle expects features first; the order of the remaining axes does not matter.
    expected = oracles.rotated(np.moveaxis(x, feature, 0), np.broadcast_to(positions, rest))
    np.testing.assert_allclose(
        np.moveaxis(backend.numpy(got), feature, 0), expected, atol=3 * backend.tolerance()
    )


@given(
    head=even,
    positions=st.lists(st.integers(-1000, 1000), min_size=1, max_size=5),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_rope_keeps_norms_and_is_undone(backend, head, positions, dtype):
    rope = RoPE(head, 8)
    x = numbers((head, len(positions), 3)).astype(dtype)
    places = backend.array(positions)
    rotated = rope(backend.array(x), positions=places)
    got = backend.numpy(rotated)
    tolerance = 1e-12 if got.dtype == "float64" else 1e-5
    np.testing.assert_allclose(
        np.linalg.norm(got, axis=0), np.linalg.norm(x, axis=0), atol=tolerance
    )
    back = rope(rotated, positions=places, inverse=True)
    np.testing.assert_allclose(backend.numpy(back), x, atol=tolerance)


@given(
    head=even,
    first=st.floats(-1e4, 1e4),
    distance=st.floats(-1e3, 1e3),
    shift=st.integers(-100_000, 100_000),
)
def test_scores_depend_on_the_distance_only(head, first, distance, shift):
    rope = RoPE(head, 1)
    q, k = numbers((head, 1, 1), 1), numbers((head, 1, 1), 2)

    def score(start):
        at = [np.asarray([start]), np.asarray([start + distance])]
        return float(np.sum(rope(q, positions=at[0]) * rope(k, positions=at[1])))

    assert score(first) == pytest.approx(score(first + shift), abs=1e-9)


def test_offset_is_a_later_start(backend):
    rope = RoPE(8, 20)
    x = numbers((8, 12, 2))
    whole = backend.numpy(rope(backend.array(x)))
    rest = backend.numpy(rope(backend.array(x[:, 5:]), offset=5))
    np.testing.assert_array_equal(rest, whole[:, 5:])
    given_positions = rope(backend.array(x[:, 5:]), positions=backend.array(np.arange(5, 12)))
    np.testing.assert_allclose(
        backend.numpy(given_positions), whole[:, 5:], atol=backend.tolerance()
    )


def test_positions_may_lie_beyond_the_table(backend):
    rope = RoPE(4, 2)
    x = numbers((4, 1, 1))
    got = backend.numpy(rope(backend.array(x), positions=backend.array([1000])))
    expected = oracles.rotated(x, np.asarray([[1000]]))
    np.testing.assert_allclose(got, expected, atol=backend.tolerance())


def test_half_precision_is_rotated_in_float32(backend):
    x = numbers((64, 50, 2)).astype("float32")
    rope = RoPE(64, 50)
    for dtype in backend.half_dtypes:
        half = backend.array(x, dtype)
        rotated = rope(half)
        assert rotated.dtype == dtype
        rounded = backend.xp.astype(half, backend.xp.float32)
        exact = backend.xp.astype(rope(rounded), dtype)
        np.testing.assert_array_equal(
            backend.numpy(rotated).astype("float32"), backend.numpy(exact).astype("float32")
        )


def test_bfloat16_of_ml_dtypes():
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    x = numbers((8, 5, 2)).astype(bfloat16)
    rotated = RoPE(8, 5)(x)
    assert rotated.dtype == bfloat16
    np.testing.assert_array_equal(rotated, RoPE(8, 5)(x.astype("float32")).astype(bfloat16))


def test_longdouble_keeps_its_dtype():
    x = numbers((4, 3)).astype(np.longdouble)
    rotated = RoPE(4, 3)(x)
    assert rotated.dtype == np.longdouble
    np.testing.assert_allclose(rotated, oracles.rotated(x, np.arange(3)), atol=1e-12)


@pytest.mark.parametrize("shape", [(8, 0, 2), (8, 3, 0)])
def test_empty_arrays(backend, shape):
    x = backend.array(np.zeros(shape))
    assert tuple(RoPE(8, 4)(x).shape) == shape


def test_apply_rope_lines_up_its_tables(backend):
    x = numbers((2, 3, 5, 6))  # (batch, heads, seq, head)
    angles = numbers((5, 3))
    cos, sin = backend.array(np.cos(angles)), backend.array(np.sin(angles))
    last = backend.numpy(apply_rope(backend.array(x), cos, sin, feature_axis=-1))
    first_half, second_half = x[..., :3], x[..., 3:]
    expected = np.concatenate(
        [
            first_half * np.cos(angles) - second_half * np.sin(angles),
            second_half * np.cos(angles) + first_half * np.sin(angles),
        ],
        axis=-1,
    )
    np.testing.assert_allclose(last, expected, atol=backend.tolerance())
    # The same with features first, and on a middle axis with tables of all axes.
    first = apply_rope(
        backend.array(x.transpose(3, 2, 0, 1)),
        backend.array(np.cos(angles).T),
        backend.array(np.sin(angles).T),
        feature_axis=0,
    )
    np.testing.assert_allclose(
        backend.numpy(first).transpose(2, 3, 1, 0), expected, atol=backend.tolerance()
    )
    table = angles.T[None, :, :, None]
    middle = apply_rope(
        backend.array(x.transpose(0, 3, 2, 1)),
        backend.array(np.cos(table)),
        backend.array(np.sin(table)),
        feature_axis=1,
    )
    np.testing.assert_allclose(
        backend.numpy(middle).transpose(0, 3, 2, 1), expected, atol=backend.tolerance()
    )


def test_apply_rope_undoes_itself(backend):
    x = backend.array(numbers((4, 3, 2)))
    cos, sin = backend.array(np.cos(numbers((2, 3)))), backend.array(np.sin(numbers((2, 3))))
    back = apply_rope(apply_rope(x, cos, sin), cos, sin, inverse=True)
    np.testing.assert_allclose(backend.numpy(back), backend.numpy(x), atol=backend.tolerance())


def test_apply_rope_with_the_layers_own_tables():
    rope = RoPE(8, 5)
    x = numbers((8, 5, 3))
    np.testing.assert_array_equal(apply_rope(x, rope.cos, rope.sin), rope(x))


def test_tables_and_frequencies():
    rope = RoPE(6, 9, base=100, scale=2)
    expected = np.asarray([[2 * p * 100 ** (-2 * i / 6) for p in range(9)] for i in range(3)])
    np.testing.assert_allclose(rope.inv_freq, expected[:, 1], rtol=1e-15)
    np.testing.assert_allclose(rope.cos, np.cos(expected), atol=1e-14)
    np.testing.assert_allclose(rope.sin, np.sin(expected), atol=1e-14)
    for table in (rope.inv_freq, rope.cos, rope.sin):
        assert table.dtype == "float64"
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 0


def test_rope_is_a_value():
    rope = RoPE(64, 1024, base=500_000, scale=0.5, feature_axis=-1, seq_axis=-2)
    rope(np.zeros((2, 10, 64), dtype="float32"))
    again = eval(repr(rope))
    twins = (again, pickle.loads(pickle.dumps(rope)), copy.copy(rope), copy.deepcopy(rope))
    for twin in twins:
        assert twin == rope
        assert hash(twin) == hash(rope)
        np.testing.assert_array_equal(twin.cos, rope.cos)
    assert RoPE(64, 1024) != rope
    assert repr(RoPE(np.int64(64), np.int32(8), np.float64(100.0))) == (
        "RoPE(head_size=64, seq_len=8, base=100.0, scale=1.0, layout='half', rotary_dim=None, "
        "scaling=None, sections=None, section_frequencies='shared', section_order='contiguous', "
        "feature_axis=None, seq_axis=None, fused=None)"
    )
    with pytest.raises(AttributeError, match="cannot assign"):
        rope.base = 10
    assert len(pickle.dumps(rope)) < 10_000


def test_two_bases_share_nothing():
    x = numbers((8, 5, 1))
    first, second = RoPE(8, 5, base=10), RoPE(8, 5, base=1000)
    positions = np.arange(5)[:, None]
    np.testing.assert_allclose(first(x), oracles.rotated(x, positions, 10), atol=1e-12)
    np.testing.assert_allclose(second(x), oracles.rotated(x, positions, 1000), atol=1e-12)
    np.testing.assert_allclose(first(x), oracles.rotated(x, positions, 10), atol=1e-12)
