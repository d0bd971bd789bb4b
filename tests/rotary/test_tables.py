"""Tables of a step equal calls of the rope, and broadcast in `apply_rope`."""

from inspect import signature

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import RoPE, YaRNScaling, apply_rope
from positional_embeddings.rotary.tables import RotaryTables

lazy_xp_modules = [pe]

ROPES = {
    "half": RoPE(8, 50),
    "interleaved": RoPE(8, 50, layout="interleaved"),
    "partial": RoPE(8, 50, rotary_dim=4),
    "scaled": RoPE(8, 50, scaling=YaRNScaling(4.0, 16)),
    "heads last": RoPE(8, 50, feature_axis=-1, seq_axis=-2),
    "sequence first": RoPE(8, 50, feature_axis=2, seq_axis=0),
}
SHAPES = {"heads last": (2, 3, 8), "sequence first": (3, 2, 8)}


def positions_of(case, rope, backend):
    shape = SHAPES.get(case, (8, 3, 2))
    rest = tuple(n for i, n in enumerate(shape) if i != (rope.feature_axis or 0) % 3)
    return {
        "integers": backend.array([9, 0, 4]),
        "beyond the table": backend.array([90, -3, 4]),
        "real": backend.array([0.5, 2.25, -1.0]),
        "of a batch": backend.array(np.arange(6).reshape(rest)),
    }


@pytest.mark.parametrize("case", ROPES)
def test_tables_made_once_rotate_as_a_call_does(backend, case):
    rope = ROPES[case]
    x = backend.array(np.random.default_rng(0).standard_normal(SHAPES.get(case, (8, 3, 2))))
    for positions in positions_of(case, rope, backend).values():
        tables = rope.tables(positions, dtype=x.dtype)
        expected = backend.numpy(rope(x, positions=positions))
        for _ in range(2):  # the second time from the cache
            got = backend.numpy(tables(x))
            np.testing.assert_allclose(got, expected, rtol=0, atol=backend.tolerance())
        if backend.name == "numpy":
            np.testing.assert_array_equal(got, expected)
        back = backend.numpy(tables(tables(x), inverse=True))
        np.testing.assert_allclose(back, backend.numpy(x), atol=8 * backend.tolerance())


@pytest.mark.parametrize("case", ROPES)
def test_cosine_and_sine_fit_apply_rope(backend, case):
    rope = ROPES[case]
    x = backend.array(np.random.default_rng(0).standard_normal(SHAPES.get(case, (8, 3, 2))))
    options = {
        "layout": rope.layout,
        "rotary_dim": rope.rotary_dim,
        "feature_axis": rope.feature_axis,
    }
    positions = positions_of(case, rope, backend)["of a batch"]
    tables = rope.tables(positions, dtype=x.dtype)
    cos, sin = tables.cos, tables.sin
    if case == "sequence first":  # (seq, batch, pairs), as the array
        assert cos.shape == (3, 2, 4)
    got, expected = apply_rope(x, cos, sin, **options), rope(x, positions=positions)
    atol = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), backend.numpy(expected), rtol=0, atol=atol)


def test_values(backend):
    rope = RoPE(6, 20, base=100)
    on = {"xp": backend.xp, "device": backend.device}
    tables = rope.tables(range(3, 7), dtype=getattr(backend.xp, backend.wide), **on)
    angles = np.asarray([1, 100 ** (-1 / 3), 100 ** (-2 / 3)])[:, None] * np.arange(3, 7)
    for got, expected in ((tables.cos, np.cos(angles)), (tables.sin, np.sin(angles))):
        np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


def test_positions_of_a_batch_fit_any_layout(backend):
    q = np.random.default_rng(0).standard_normal((2, 4, 3, 8))  # (batch, heads, seq, head)
    positions = np.asarray([[0, 5, 7], [3, 1, 11]])
    expected = RoPE(8, 50, feature_axis=-1, seq_axis=-2)(q, positions=positions[:, None, :])
    for order, feature, seq in (
        ((0, 1, 2, 3), -1, -2),
        ((0, 2, 1, 3), -1, 1),
        ((3, 2, 1, 0), 0, 1),
        ((2, 3, 1, 0), 1, 0),
    ):
        rope = RoPE(8, 50, feature_axis=feature, seq_axis=seq)
        places = backend.array(positions.T if feature + seq == 1 else positions)
        x = backend.array(q.transpose(order))
        for rotated in (rope(x, positions=places), rope.tables(places, dtype=x.dtype)(x)):
            got = backend.numpy(rotated)
            np.testing.assert_allclose(got, expected.transpose(order), atol=backend.tolerance())


def test_coordinates(backend):
    rope = RoPE(12, 20, sections=(1, 2, 3))
    x = backend.array(np.random.default_rng(0).standard_normal((12, 4, 2)))
    positions = backend.array(np.arange(12).reshape(3, 4) % 7)
    tables = rope.tables(positions, dtype=x.dtype)
    np.testing.assert_allclose(
        backend.numpy(tables(x)),
        backend.numpy(rope(x, positions=positions)),
        atol=backend.tolerance(),
    )


def test_half_precision_is_rotated_by_tables_of_float32(backend):
    rope, positions = RoPE(8, 50), backend.array(np.arange(3))
    for dtype in backend.half_dtypes:
        x = backend.xp.astype(backend.array(np.ones((8, 3))), dtype)
        tables = rope.tables(positions, dtype=dtype)
        assert tables.cos.dtype == tables.sin.dtype == backend.xp.float32
        rotated = tables(x)
        assert rotated.dtype == dtype
        rotated, expected = (backend.xp.astype(r, backend.xp.float32) for r in (rotated, rope(x)))
        np.testing.assert_array_equal(backend.numpy(rotated), backend.numpy(expected))


def test_wide_tables_rotate_narrow_arrays_but_not_the_other_way_round():
    rope, x = RoPE(8, 50), np.ones((8, 3), dtype=np.float32)
    np.testing.assert_array_equal(rope.tables(range(3))(x), rope(x))
    with pytest.raises(TypeError, match="`x` must have the dtype of the tables, float32, or less"):
        rope.tables(range(3), dtype=np.float32)(x.astype(np.float64))


def test_tables_write_to_out():
    rope, x = RoPE(8, 50), np.random.default_rng(0).standard_normal((8, 3, 2))
    tables, expected = rope.tables(range(3)), rope(x)
    out = np.empty_like(x)
    assert tables(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert tables(x, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_pairs_as_complex_numbers(backend):
    rope = RoPE(8, 50)
    z = np.random.default_rng(0).standard_normal((2, 4, 3)) * 1j + 1
    z = backend.array(z[0], "complex128" if backend.wide == "float64" else "complex64")
    tables = rope.tables(backend.array(np.arange(3)), dtype=getattr(backend.xp, backend.wide))
    got, expected = backend.numpy(tables(z)), backend.numpy(rope(z))
    np.testing.assert_allclose(got, expected, atol=backend.tolerance())


def test_nobody_writes_to_tables():
    for array in (RoPE(8, 50).tables(range(3)).cos_sin, RoPE(8, 50).tables(range(3)).cos):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7.0


@pytest.mark.parametrize("case", ROPES)
def test_tables_lie_in_memory_as_they_are_read(case):
    """Pairs are adjacent if features are last."""
    tables = ROPES[case].tables(range(3))
    assert tables.cos.flags.c_contiguous
    assert tables.sin.flags.c_contiguous


def test_tables_are_values():
    rope = RoPE(8, 50)
    tables = rope.tables(range(3))
    tables(np.ones((8, 3)))
    assert repr(tables) == f"RotaryTables(rope={rope!r})"
    assert list(signature(RotaryTables).parameters) == ["rope", "cos_sin"]
    assert rope.tables(range(3)) == rope.tables(range(3))
    assert rope.tables(range(3)) != rope.tables(range(1, 4))
    assert hash(rope.tables(range(3))) == hash(rope.tables([0, 1, 2]))


@pytest.mark.library("torch")
def test_a_gradient_runs_through_real_positions():
    import torch

    rope = RoPE(8, 50)
    positions = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    tables = rope.tables(positions, dtype=torch.float64)
    (tables.cos.sum() + tables.sin.sum()).backward()
    angle = np.asarray(rope.inv_freq)[:, None] * positions.detach().numpy()
    expected = (rope.inv_freq[:, None] * (np.cos(angle) - np.sin(angle))).sum(axis=0)
    np.testing.assert_allclose(positions.grad.numpy(), expected, atol=1e-12)


@pytest.mark.library("jax")
def test_tables_are_an_argument_of_jit():
    import jax
    import jax.numpy as jnp

    rope, x = RoPE(8, 50), jnp.ones((8, 3))
    rotate = jax.jit(lambda tables, x: tables(x))
    for start in (0, 7):
        tables = rope.tables(jnp.arange(start, start + 3))
        np.testing.assert_allclose(rotate(tables, x), rope(x, offset=start), atol=2e-6)


def test_one_token_gets_the_tables_of_the_sequence():
    rope = RoPE(8, 9000, feature_axis=-1, seq_axis=-2)
    x = np.random.default_rng(0).standard_normal((3, 2, 5000, 8)).astype(np.float32)
    whole = rope(x)
    for offset in (0, 4095, 4096, 4999):
        token = x[:, :, offset : offset + 1, :]
        np.testing.assert_array_equal(rope(token, offset=offset), whole[:, :, [offset], :])
        tables = rope.tables([offset], dtype=np.float32)
        np.testing.assert_array_equal(tables(token), whole[:, :, [offset], :])


@pytest.mark.parametrize("sections", [None, (2, 2)])
def test_heads_and_batch_may_share_an_axis(backend, sections):
    rope = RoPE(8, 50, sections=sections, feature_axis=0, seq_axis=1)
    x = np.random.default_rng(0).standard_normal((8, 3, 4, 2))  # (head, seq, heads, batch)
    positions = np.asarray([[0, 4], [1, 5], [2, 9]])  # (seq, batch)
    positions = positions if sections is None else np.stack([positions, positions[::-1]])
    expected = rope(x, positions=positions).reshape(8, 3, 8)
    merged, at = backend.array(x.reshape(8, 3, 8)), backend.array(positions)
    found = rope(merged, positions=at), rope.tables(at, dtype=merged.dtype)(merged)
    for got in (*found, rope.shift(merged, at)):
        np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
