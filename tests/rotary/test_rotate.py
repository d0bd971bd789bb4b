"""Rotation block by block, into new arrays and into `out`, equals one expression."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby, product

import numpy as np
import pytest

from positional_embeddings import RoPE, YaRNScaling, apply_rope
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.rotary import rotate

RNG = np.random.default_rng(0)

# Shape, feature axis and sequence axis.
LAYOUTS = {
    "head, seq": ((8, 50), 0, 1),
    "head, seq, heads*batch": ((8, 50, 6), 0, 1),
    "batch, heads, seq, head": ((2, 3, 50, 8), -1, -2),
    "batch, seq, heads, head": ((2, 50, 3, 8), -1, 1),
    "seq, head, batch": ((50, 8, 3), 1, 0),
}


def loop(x, feature, seq, layout, pairs, *, inverse=False):
    """Rotate pair after pair, position after position."""
    rope = RoPE(x.shape[feature], x.shape[seq])
    moved = np.moveaxis(x.astype(np.float64), (feature, seq), (0, 1))
    result = moved.copy()
    frequencies = RoPE(2 * pairs, 1).inv_freq
    for i in range(pairs):
        a, b = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
        for position in range(moved.shape[1]):
            angle = position * frequencies[i] * (-1 if inverse else 1)
            c, s = np.cos(angle), np.sin(angle)
            result[a, position] = moved[a, position] * c - moved[b, position] * s
            result[b, position] = moved[b, position] * c + moved[a, position] * s
    assert rope.head_size == moved.shape[0]
    return np.moveaxis(result, (0, 1), (feature, seq))


@pytest.fixture(params=[1, 7, 64, 2**14])
def block(request, monkeypatch):
    """Number of pairs in a block, from one to all."""
    monkeypatch.setattr(rotate, "HOST_BLOCK_PAIRS", request.param)
    return request.param


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("shape", LAYOUTS)
def test_blocks_of_any_size(backend, shape, layout, rotary_dim):
    shape, feature, seq = LAYOUTS[shape]
    x = RNG.standard_normal(shape).astype("float32")
    rope = RoPE(
        8, 50, layout=layout, rotary_dim=rotary_dim, feature_axis=feature, seq_axis=seq, fused=False
    )
    for inverse in (False, True):
        expected = loop(x, feature, seq, layout, (rotary_dim or 8) // 2, inverse=inverse)
        got = rope(backend.array(x), inverse=inverse)
        np.testing.assert_allclose(backend.numpy(got), expected, atol=2e-6)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("shape", LAYOUTS)
def test_complex_blocks_of_any_size(backend, shape):
    shape, feature, seq = LAYOUTS[shape]
    if not hasattr(backend.xp, "complex64"):
        pytest.skip("no complex numbers")
    z = (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype("complex64")
    rope = RoPE(16, 50, rotary_dim=12, feature_axis=feature, seq_axis=seq)
    got = backend.numpy(rope(backend.array(z)))
    cos, sin = rope.cos, rope.sin
    axes = [1] * z.ndim
    axes[feature], axes[seq] = 6, 50
    phasor = (cos + 1j * sin) if feature % z.ndim < seq % z.ndim else (cos + 1j * sin).T
    expected = z.copy()
    part = [slice(None)] * z.ndim
    part[feature] = slice(0, 6)
    expected[tuple(part)] *= phasor.reshape(axes)
    np.testing.assert_allclose(got, expected, atol=4e-6)


def writes(backend):
    return backend.name.startswith(("numpy", "strict", "torch", "cupy"))


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("shape", LAYOUTS)
def test_out_is_written_to_where_that_can_be(backend, shape, rotary_dim):
    shape, feature, seq = LAYOUTS[shape]
    numbers = RNG.standard_normal(shape).astype("float32")
    rope = RoPE(8, 50, rotary_dim=rotary_dim, feature_axis=feature, seq_axis=seq, fused=False)
    x = backend.array(numbers)
    expected = backend.numpy(rope(x)).copy()
    out = backend.array(np.full(shape, 7, dtype="float32"))
    if not writes(backend):
        with pytest.raises(TypeError, match="`out` must be an array that can be written to, got"):
            rope(x, out=out)
        return
    assert rope(x, out=out) is out
    np.testing.assert_array_equal(backend.numpy(out), expected)
    np.testing.assert_array_equal(backend.numpy(x), numbers)
    assert rope(x, out=x) is x
    np.testing.assert_array_equal(backend.numpy(x), expected)


@pytest.mark.parametrize("fused", [False, None])
def test_out_that_overlaps(fused, monkeypatch):
    """`out` may be a shifted or reversed view of the input."""
    monkeypatch.setattr(rotate, "HOST_BLOCK_PAIRS", 16)
    rope = RoPE(8, 50, feature_axis=-1, seq_axis=-2, fused=fused)
    for view in (lambda a: a[1:], lambda a: a[:-1], lambda a: a[1:, :, ::-1], lambda a: a[1:]):
        buffer = RNG.standard_normal((4, 50, 8))
        x, out = buffer[:-1], view(buffer)
        expected = rope(x.copy())
        rope(x, out=out)
        np.testing.assert_array_equal(out, expected)
    # Another view of the same memory is rotated in place.
    buffer = RNG.standard_normal((4, 50, 8))
    expected = rope(buffer[1:].copy())
    rope(buffer[1:], out=buffer[1:])
    np.testing.assert_array_equal(buffer[1:], expected)


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_out_that_overlaps_on_every_backend(backend, fused, dtype):
    """As above; PyTorch has no reversed views, and JAX and dask are immutable."""
    rope = RoPE(8, 50, feature_axis=-1, seq_axis=-2, fused=fused)
    views = [lambda a: a[1:, ...], lambda a: a[:-1, ...], lambda a: a[:3, 1:, ...]]
    if backend.name != "torch":
        views.append(lambda a: a[1:, :, ::-1])
    for view in views if writes(backend) else ():
        buffer = backend.array(RNG.standard_normal((4, 50, 8)), dtype)
        out = view(buffer)
        x = buffer[:-1, : out.shape[1], :]
        expected = backend.numpy(rope(backend.xp.asarray(x, copy=True))).copy()
        assert rope(x, out=out) is out
        np.testing.assert_array_equal(backend.numpy(out), expected)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("which", ["cos", "sin"])
def test_tables_in_out(backend, which):
    """`out` overlaps the tables."""
    x, out, other = (RNG.standard_normal(shape) for shape in ((8, 5), (8, 5), (4, 5)))
    table = out[:4]
    cos, sin = (table, other) if which == "cos" else (other, table)
    expected = np.empty_like(x)
    expected[::2] = x[::2] * cos - x[1::2] * sin
    expected[1::2] = x[1::2] * cos + x[::2] * sin
    x, out, other = (backend.array(array) for array in (x, out, other))
    if writes(backend):
        cos, sin = (out[:4, :], other) if which == "cos" else (other, out[:4, :])
        got = backend.numpy(apply_rope(x, cos, sin, layout="interleaved", out=out))
        np.testing.assert_allclose(got, expected, atol=backend.tolerance())


def test_tables_apart_from_out_are_not_copied():
    x, table = np.ones((64, 20_000)), np.ones((32, 20_000))
    out = np.empty_like(x)
    apply_rope(x, table, table, out=out)
    tracemalloc.start()
    apply_rope(x, table, table, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 8 * rotate.HOST_BLOCK_PAIRS < table.nbytes


@pytest.mark.parametrize("size", [5, 20_000])
@pytest.mark.parametrize("wide", ["cos", "sin", "both", "none"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tables_are_rounded_to_what_is_computed_in(dtype, wide, size):
    x = RNG.standard_normal((8, size)).astype(dtype)
    computed = "float64" if dtype == "float64" else "float32"
    angles = RNG.standard_normal((4, size))
    cos = np.cos(angles).astype("float64" if wide in ("cos", "both") else "float32")
    sin = np.sin(angles).astype("float64" if wide in ("sin", "both") else "float32")
    got = apply_rope(x, cos, sin)
    first, second, c, s = (array.astype(computed) for array in (x[:4], x[4:], cos, sin))
    expected = np.concat([first * c - second * s, second * c + first * s]).astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


def test_a_quarter_of_a_few_features():
    x, angles = RNG.standard_normal((8, 5)), RNG.standard_normal((1, 5))
    expected = x.copy()
    expected[0] = x[0] * np.cos(angles[0]) - x[1] * np.sin(angles[0])
    expected[1] = x[1] * np.cos(angles[0]) + x[0] * np.sin(angles[0])
    got = apply_rope(x, np.cos(angles), np.sin(angles), rotary_dim=2)
    np.testing.assert_allclose(got, expected, atol=1e-14)


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("order", ["C", "F", "mixed"])
def test_the_order_in_memory_is_kept(order, fused):
    x = RNG.standard_normal((8, 30, 4))
    x = {"C": x, "F": np.asfortranarray(x), "mixed": np.moveaxis(x.transpose(1, 2, 0).copy(), 2, 0)}
    x = x[order]
    rope = RoPE(8, 30, fused=fused)
    assert rope(x).strides == x.strides
    np.testing.assert_array_equal(rope(x), rope(np.ascontiguousarray(x)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(64, 1000, 40), (64, 40, 1000)])
def test_memory_is_the_output_and_a_few_blocks(shape, order):
    x = np.asarray(np.ones(shape, dtype="float32"), order=order)
    rope = RoPE(64, 1000, fused=False)
    rope(x)
    tracemalloc.start()
    rope(x)
    peak = tracemalloc.get_traced_memory()[1]
    rope(x, out=x)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    rope(x, out=x)
    in_place = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < x.nbytes + 10 * 4 * rotate.HOST_BLOCK_PAIRS
    assert in_place < 10 * 4 * rotate.HOST_BLOCK_PAIRS


def test_blocks_are_large_on_an_accelerator(monkeypatch):
    monkeypatch.setattr(rotate, "HOST_BLOCK_PAIRS", 8)
    x = np.ones((8, 10))
    table = np.ones((4, 10))
    assert len(list(rotate._blocks(x, table, 0, get_backend(x=x)))) > 1
    monkeypatch.setattr(NumPyBackend, "is_on_host", lambda *_: False)
    assert len(list(rotate._blocks(x, table, 0, get_backend(x=x)))) == 1


@pytest.mark.parametrize(("order", "lengths"), [("C", (1, 4, 4)), ("F", (3, 5, 1))])
def test_blocks_follow_the_memory_and_each_part_of_the_table_is_used_up(
    order, lengths, monkeypatch
):
    monkeypatch.setattr(rotate, "HOST_BLOCK_PAIRS", 16)
    x = np.zeros((3, 40, 8), order=order)  # (batch, seq, head)
    blocks = list(rotate._blocks(x, np.zeros((1, 40, 4)), 2, get_backend(x=x)))
    assert tuple(part.stop - part.start for part in blocks[0][0]) == lengths
    parts = [str(part_of_table) for _, part_of_table in blocks]
    assert len(list(groupby(parts))) == len(set(parts))
    seen = np.zeros((3, 40, 4))
    for block, _ in blocks:
        seen[block] += 1
    assert (seen == 1).all()


def test_blocks_without_strides(monkeypatch):
    """Arrays of a library without strides count as C order."""
    monkeypatch.setattr(rotate, "HOST_BLOCK_PAIRS", 8)
    monkeypatch.setattr(NumPyBackend, "strides", lambda *_: None)
    x = RNG.standard_normal((8, 50, 2))
    np.testing.assert_allclose(RoPE(8, 50, fused=False)(x), loop(x, 0, 1, "half", 4), atol=1e-12)
    out = np.empty_like(x)
    np.testing.assert_array_equal(RoPE(8, 50, fused=False)(x, out=out), RoPE(8, 50)(x))


def test_memory_that_cannot_be_compared():
    array_backend = replace(backend_for(), xp=object())
    assert array_backend.shares_memory(np.ones(3), np.ones(3))


def test_out_on_another_device():
    import array_api_strict as strict

    x = strict.ones((8, 3))
    out = strict.ones((8, 3), device=strict.Device("device1"))
    with pytest.raises(ValueError, match="`out` must be on the device of `x`"):
        RoPE(8, 3)(x, out=out)


@pytest.mark.library("torch")
def test_torch_records_what_it_differentiates():
    import torch

    rope = RoPE(8, 5)
    x = torch.ones((8, 5), dtype=torch.float64, requires_grad=True)
    out = torch.zeros((8, 5), dtype=torch.float64)
    rope(x, out=out).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), rope(np.ones((8, 5)), inverse=True), atol=1e-12)
    with torch.no_grad():
        assert rope(x, out=out) is out
    batched = torch.func.vmap(rope)(torch.ones((3, 8, 5)))
    np.testing.assert_allclose(batched[1].numpy(), rope(np.ones((8, 5))), atol=2e-6)


@pytest.mark.parametrize("shape", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_a_few_vectors_again_and_again(shape, dtype):
    """From the second call on, full-width tables give the same bits."""
    shape, feature, seq = LAYOUTS[shape]
    ropes = [
        RoPE(8, 200, feature_axis=feature, seq_axis=seq, fused=False, scaling=scaling)
        for scaling in (None, YaRNScaling(4.0, 50))
    ]
    arrays = [
        RNG.standard_normal(shape).astype(dtype),
        np.asfortranarray(RNG.standard_normal(shape).astype(dtype)),
        np.flip(RNG.standard_normal(shape).astype(dtype)),
        RNG.standard_normal(shape).astype(dtype).take([3], axis=seq),
    ]
    for _ in range(3):
        for x, rope, offset in product(arrays, ropes, (0, 7)):
            got = rope(x, offset=offset)
            expected = rope(x, offset=offset, out=np.empty_like(x))  # in blocks
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == x.dtype
            assert got.strides == np.empty_like(x).strides
            np.testing.assert_array_equal(rope(x, offset=offset), expected)
            got[...] = 0  # does not change the cache


def test_few_vectors_are_rotated_at_once(monkeypatch):
    """Arrays with all features rotated, of up to `MAX_FULL_WIDTH_SIZE` elements."""
    shapes, rotate_full_width = [], rotate.rotate_full_width

    def rotate_at_once(x, *rest, **options):
        shapes.append(x.shape)
        rotate_full_width(x, *rest, **options)

    monkeypatch.setattr(rotate, "MAX_FULL_WIDTH_SIZE", 40)
    monkeypatch.setattr(rotate, "numpy_kernel", lambda _dtype: None)
    monkeypatch.setattr(rotate, "rotate_full_width", rotate_at_once)
    for shape, rotary_dim in (((8, 5), None), ((8, 5), 6), ((8, 6), None), ((2, 20), None)):
        x, table = np.ones(shape), np.ones(((rotary_dim or shape[0]) // 2, shape[1]))
        apply_rope(x, table, table, rotary_dim=rotary_dim)
    assert shapes == [(8, 5), (2, 20)]


def test_a_second_call_looks_nothing_up(monkeypatch):
    """Choosing a kernel takes longer than rotating a few vectors."""
    rope, positions = RoPE(8, 50), np.asarray([4, 0, 9])
    x, out = RNG.standard_normal((8, 3)), np.empty((8, 3))
    tables = rope.tables(positions)
    calls = [
        lambda **to: rope(x, **to),
        lambda **to: rope(x, positions=positions, **to),
        lambda **to: tables(x, **to),
    ]
    expected = [call() for call in calls]
    for call in calls:
        call(out=out)

    def choose_kernel(*_arguments, **_options):
        raise AssertionError

    monkeypatch.setattr(rotate, "choose_kernel", choose_kernel)
    for call, rotated in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(call(), rotated)
        np.testing.assert_array_equal(call(out=out), rotated)


def test_other_arrays_are_checked_after_a_call():
    import array_api_strict as strict

    rope, x = RoPE(8, 50), np.ones((8, 3))
    table = np.ones((4, 3))
    for _ in range(2):
        rope(x, positions=np.arange(3))
        apply_rope(x, table, table)
        with pytest.raises(TypeError, match="`x` and `positions` must come from one array library"):
            rope(x, positions=strict.arange(3))
        with pytest.raises(TypeError, match="`x`, `cos` and `sin` must come from one array lib"):
            apply_rope(x, table, strict.ones((4, 3)))


def test_a_step_from_several_threads():
    """Cached plans and tables are consistent across threads."""
    rope = RoPE(8, 2000, feature_axis=-1, seq_axis=-2, fused=False)
    x = RNG.standard_normal((1, 4, 1, 8))
    expected = [rope(x, offset=i, out=np.empty_like(x)) for i in range(50)]

    def steps(_):
        for _ in range(20):
            for i in range(50):
                assert (rope(x, offset=i) == expected[i]).all()
                assert (rope(x, offset=i) == expected[i]).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(steps, range(4)))


@pytest.mark.parametrize("swapped", [False, True])
def test_tables_that_broadcast_differently(backend, swapped):
    """One table has a single element, and the other one an element for each pair."""
    x = RNG.standard_normal((2, 70, 300))
    narrow = np.asarray([[[0.6]]])
    wide = np.sin(np.linspace(0, 3, 21_000)).reshape(1, 70, 300)
    cos, sin = (wide, narrow) if swapped else (narrow, wide)
    got = apply_rope(*(backend.array(array, "float32") for array in (x, cos, sin)))
    expected = np.concatenate([x[:1] * cos - x[1:] * sin, x[1:] * cos + x[:1] * sin])
    np.testing.assert_allclose(backend.numpy(got), expected, atol=2e-6)


@pytest.mark.parametrize("head_size", [2, 4, 8, 10])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_many_short_rows(head_size, dtype):
    """Adjacent heads of a few features, and partial rotation."""
    x = RNG.standard_normal((3, 700, 5, head_size)).astype(dtype)
    plain = {"feature_axis": -1, "seq_axis": 1, "fused": False}
    for size, array in ((head_size, x), (3 * head_size, np.concatenate([x, x, x], axis=-1))):
        rope = RoPE(size, 700, rotary_dim=head_size, **plain)
        cos, sin = (table.T[:, None, :] for table in (rope.cos, rope.sin))
        first, second = x[..., : head_size // 2], x[..., head_size // 2 :]
        rotated = [first * cos - second * sin, second * cos + first * sin]
        expected = np.concatenate([*rotated, array[..., head_size:]], axis=-1)
        got = rope(array)
        assert got.dtype == x.dtype
        tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
        np.testing.assert_allclose(got, expected, atol=tolerance)
