"""Tables made once for a step: `RoPE.cos_sin` and `apply_rope` give what a call gives."""

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import RoPE, YaRNScaling, apply_rope

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
    rest = tuple(n for i, n in enumerate(shape) if i != rope.feature_axis % 3)
    return {
        "from the start": {},
        "offset": {"offset": 7},
        "integers": {"positions": backend.array([9, 0, 4])},
        "beyond the table": {"positions": backend.array([90, -3, 4])},
        "real": {"positions": backend.array([0.5, 2.25, -1.0])},
        "of a batch": {"positions": backend.array(np.arange(6).reshape(rest))},
    }


@pytest.mark.parametrize("case", ROPES)
def test_tables_made_once_rotate_as_a_call_does(backend, case):
    rope = ROPES[case]
    x = backend.array(np.random.default_rng(0).standard_normal(SHAPES.get(case, (8, 3, 2))))
    options = {
        "layout": rope.layout,
        "rotary_dim": rope.rotary_dim,
        "feature_axis": rope.feature_axis,
    }
    for where in positions_of(case, rope, backend).values():
        cos, sin = rope.cos_sin(x, **where)
        assert cos.shape == sin.shape
        assert cos.ndim == x.ndim
        got = backend.numpy(apply_rope(x, cos, sin, **options))
        expected = backend.numpy(rope(x, **where))
        np.testing.assert_allclose(got, expected, rtol=0, atol=backend.tolerance())
        if backend.name == "numpy":
            np.testing.assert_array_equal(got, expected)


def test_values(backend):
    rope = RoPE(6, 20, base=100)
    x = backend.array(np.zeros((6, 4, 2)))
    cos, sin = (backend.numpy(table) for table in rope.cos_sin(x, offset=3))
    angles = np.asarray([1, 100 ** (-1 / 3), 100 ** (-2 / 3)])[:, None] * np.arange(3, 7)
    for got, expected in ((cos, np.cos(angles)), (sin, np.sin(angles))):
        np.testing.assert_allclose(got, expected[..., None], atol=backend.tolerance())


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
        rotated = [
            rope(x, positions=places),
            apply_rope(x, *rope.cos_sin(x, positions=places), feature_axis=feature),
        ]
        for got in map(backend.numpy, rotated):
            np.testing.assert_allclose(got, expected.transpose(order), atol=backend.tolerance())


def test_coordinates(backend):
    rope = RoPE(12, 20, sections=(1, 2, 3))
    x = backend.array(np.random.default_rng(0).standard_normal((12, 4, 2)))
    positions = backend.array(np.arange(12).reshape(3, 4) % 7)
    tables = rope.cos_sin(x, positions=positions)
    np.testing.assert_allclose(
        backend.numpy(apply_rope(x, *tables)),
        backend.numpy(rope(x, positions=positions)),
        atol=backend.tolerance(),
    )


def test_dtype_is_the_one_to_compute_in(backend):
    rope, array = RoPE(8, 50), np.ones((8, 3))
    for dtype in (*backend.half_dtypes, *(getattr(backend.xp, name) for name in backend.floats)):
        x = backend.xp.astype(backend.array(array), dtype)
        cos, sin = rope.cos_sin(x)
        wide = dtype if dtype in (backend.xp.float32, backend.xp.float64) else backend.xp.float32
        assert cos.dtype == sin.dtype == wide
        rotated = apply_rope(x, cos, sin)
        assert rotated.dtype == dtype
        expected = backend.xp.astype(rope(x), backend.xp.float32)
        rotated = backend.xp.astype(rotated, backend.xp.float32)
        np.testing.assert_array_equal(backend.numpy(rotated), backend.numpy(expected))


def test_pairs_as_complex_numbers(backend):
    rope = RoPE(8, 50)
    z = np.random.default_rng(0).standard_normal((2, 4, 3)) * 1j + 1
    z = backend.array(z[0], "complex128" if backend.wide == "float64" else "complex64")
    cos, sin = rope.cos_sin(z)
    got, expected = backend.numpy(apply_rope(z, cos, sin)), backend.numpy(rope(z))
    np.testing.assert_allclose(got, expected, atol=backend.tolerance())


def test_what_a_caller_writes_reaches_no_table(backend):
    rope, x = RoPE(8, 50), backend.array(np.ones((8, 3)))
    expected = backend.numpy(rope(x)).copy()
    for table in rope.cos_sin(x):
        if backend.name in ("numpy", "torch", "cupy") or backend.name.startswith("strict"):
            table[...] = backend.array(7.0)
    np.testing.assert_array_equal(backend.numpy(rope(x)), expected)


@pytest.mark.library("torch")
def test_a_gradient_runs_through_real_positions():
    import torch

    rope = RoPE(8, 50)
    positions = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    cos, sin = rope.cos_sin(torch.ones((8, 2), dtype=torch.float64), positions=positions)
    (cos.sum() + sin.sum()).backward()
    angle = np.asarray(rope.inv_freq)[:, None] * positions.detach().numpy()
    expected = (rope.inv_freq[:, None] * (np.cos(angle) - np.sin(angle))).sum(axis=0)
    np.testing.assert_allclose(positions.grad.numpy(), expected, atol=1e-12)


def test_one_token_gets_the_tables_of_the_sequence():
    rope = RoPE(8, 9000, feature_axis=-1, seq_axis=-2)
    x = np.random.default_rng(0).standard_normal((3, 2, 5000, 8)).astype(np.float32)
    whole = rope(x)
    for offset in (0, 4095, 4096, 4999):
        token = x[:, :, offset : offset + 1, :]
        np.testing.assert_array_equal(rope(token, offset=offset), whole[:, :, [offset], :])
        cos, sin = rope.cos_sin(token, offset=offset)
        rotated = apply_rope(token, cos, sin, feature_axis=-1)
        np.testing.assert_array_equal(rotated, whole[:, :, [offset], :])
