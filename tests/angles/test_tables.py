"""Tables follow the arrays, and none of them goes stale or leaks out of a trace."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import AbsolutePE, RoPE
from positional_embeddings.angles import tables as _tables


def test_one_layer_serves_every_backend_dtype_and_device(backend):
    x = np.random.default_rng(0).standard_normal((8, 5, 2))
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        expected = layer(x)
        for name in backend.floats:
            got = layer(backend.array(x, name))
            assert got.dtype == getattr(backend.xp, name)
            np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance(name))
        np.testing.assert_array_equal(layer(x), expected)


def test_tables_are_kept_for_eager_arrays_only(backend):
    rope = RoPE(8, 5)
    x = backend.array(np.ones((8, 5)))
    rope(x)
    kept = {key[0] for key in rope._tables._moved}
    assert kept == ({backend.xp} if backend.name.startswith(("strict", "cupy")) else set())


def test_few_tables_are_kept(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr(_tables, "MOST_KEPT", 3)
    rope, info = RoPE(4, 3), strict.__array_namespace_info__()
    for device in info.devices():
        for dtype in info.dtypes(device=device, kind="real floating"):
            x = strict.ones((4, 3), dtype=getattr(strict, dtype), device=device)
            assert rope(x).device == device
    assert len(rope._tables._moved) == 3
    x = np.ones((4, 3))
    np.testing.assert_array_equal(rope(x), RoPE(4, 3)(x))


def test_an_input_is_never_written_to(backend):
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        for name in backend.floats:
            x = np.random.default_rng(0).standard_normal((8, 5, 2)).astype(name)
            array = backend.array(x)
            layer(array)
            np.testing.assert_array_equal(backend.numpy(array), x)


def test_an_output_is_not_the_table(backend):
    layer = AbsolutePE(8, 5)
    first = backend.numpy(layer(backend.array(np.zeros((8, 5))))).copy()
    output = layer(backend.array(np.zeros((8, 5))))
    if backend.name in ("numpy", "torch", "cupy"):
        output += 1
    np.testing.assert_array_equal(backend.numpy(layer(backend.array(np.zeros((8, 5))))), first)


def test_tables_grow_with_the_positions(backend):
    rope = RoPE(4, 20_000)
    expected = RoPE(4, 20_000).cos
    rows = np.concatenate([np.ones((2, 3)), np.zeros((2, 3))])
    for offset in (0, 5_000, 100, 19_997):
        got = backend.numpy(rope(backend.array(rows), offset=offset))
        wanted = expected[:, offset : offset + 3]
        np.testing.assert_allclose(got[:2], wanted, atol=backend.tolerance())


@pytest.fixture
def computed(monkeypatch):
    """The positions, from where to where, of which numbers were computed."""
    asked = []
    made = _tables.unit_phasors

    def watched(frequencies, start, stop, factor):
        asked.append((start, stop))
        return made(frequencies, start, stop, factor)

    monkeypatch.setattr(_tables, "unit_phasors", watched)
    return asked


def stretches(rope):
    (kept,) = rope._tables._on_host.values()
    return {first: tables[0].shape[1] for first, tables in kept.items()}


def test_tables_are_where_the_positions_are():
    """One token of a million positions builds a short table, wherever it stands."""
    rope, x = RoPE(4, 1_000_000), np.ones((4, 3))
    for offset, added in (
        (0, {0: 4096}),
        (4094, {0: 8192}),
        (100, {}),
        (8192, {8192: 4096}),
        (99_000, {98_304: 4096}),
        (999_997, {999_424: 576}),
    ):
        expected = {**(stretches(rope) if offset else {}), **added}
        rope(x, offset=offset)
        assert stretches(rope) == expected


def test_stretches_are_merged():
    rope = RoPE(4, 20_000)
    for offset, length, expected in (
        (4096, 5000, {4096: 8192}),
        (0, 5000, {4096: 8192, 0: 8192}),
        (9000, 9000, {0: 20_000}),  # together they would be longer than the whole table
    ):
        rope(np.ones((4, length)), offset=offset)
        assert stretches(rope) == expected


def test_no_position_is_computed_twice(computed):
    rope = RoPE(2, 65_536)
    for offset, length, expected in (
        (4096, 1, [(4096, 8192)]),
        (20_000, 1, [(16_384, 20_480)]),
        (0, 30_000, [(0, 4096), (8192, 16_384), (20_480, 32_768)]),
        (30_000, 9000, [(32_768, 65_536)]),
    ):
        rope(np.ones((2, length)), offset=offset)
        assert computed == expected
        computed.clear()


def test_steps_across_the_ends_of_stretches():
    """A stretch that grows grows to twice its length, so that few columns are copied."""
    rope, lengths = RoPE(2, 300_000), []
    for offset in range(0, 290_000, 500):
        rope(np.ones((2, 500)), offset=offset)
        lengths.append(tuple(stretches(rope).values()))
    assert set(lengths) == {(2**n,) for n in range(12, 19)} | {(300_000,)}


def test_few_stretches_are_kept():
    rope, x = RoPE(2, 2**40), np.asarray([[1.0], [0.0]])
    for i in range(100):
        rope(x, offset=i * 2**20)
    assert list(stretches(rope)) == [i * 2**20 for i in range(36, 100)]
    np.testing.assert_allclose(rope(x)[:, 0], [1, 0])


def test_replaced_stretches_do_not_stay_in_memory():
    """The tables of the latest calls do not hold what no longer is a table of the layer."""
    size = 65_536
    rope = RoPE(64, size, fused=False)
    rope(np.zeros((64, 1, 0)))
    tracemalloc.start()
    try:
        for stop in (*range(4096, size, 12_288), size):
            rope(np.zeros((64, stop, 0)))
            rope(np.zeros((64, stop // 2, 0)), offset=100)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.01 * 64 * size * 8


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 20_000), st.integers(0, 20_000)), max_size=8)
)
def test_moved_tables_are_no_longer_than_a_whole_one(asked):
    strict = pytest.importorskip("array_api_strict")
    rope, whole = RoPE(2, 20_000), RoPE(2, 20_000)
    for moved, *edges in asked:
        start, stop = sorted(edges)
        x = np.asarray([[1.0], [0.0]]) * np.ones(stop - start)
        rotated = np.asarray(rope(strict.asarray(x) if moved else x, offset=start))
        np.testing.assert_array_equal(rotated[0], whole.cos[0, start:stop])
        for kept in rope._tables._moved.values():
            assert sum(tables[0].shape[1] for tables in kept.values()) <= 20_000


def test_moved_tables_make_room():
    """Those on the host were merged meanwhile, and all that was moved would be too long."""
    strict = pytest.importorskip("array_api_strict")
    rope = RoPE(4, 40_960)
    rope(strict.ones((4, 20_480)), offset=12_288)
    rope(strict.ones((4, 16_384)))
    rope(np.ones((4, 16_385)))
    assert stretches(rope) == {0: 32_768}
    rope(strict.ones((4, 8192)), offset=32_768)
    (kept,) = rope._tables._moved.values()
    assert {first: tables[0].shape[1] for first, tables in kept.items()} == {32_768: 8192}


def test_threads_grow_tables():
    whole = RoPE(8, 100_000)
    rope = RoPE(8, 100_000)
    offsets = np.random.default_rng(0).integers(0, 99_000, 400).tolist()
    x = np.concatenate([np.ones((4, 1000)), np.zeros((4, 1000))])

    def turned(offset):
        return rope(x, offset=offset)

    with ThreadPoolExecutor(8) as pool:
        for offset, got in zip(offsets, pool.map(turned, offsets), strict=True):
            np.testing.assert_array_equal(got[:4], whole.cos[:, offset : offset + 1000])
    assert sum(stretches(rope).values()) <= 100_000
    assert len(rope._tables._latest) <= 4


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)), max_size=8))
def test_no_column_is_wrong_and_no_memory_is_wasted(asked):
    rope = RoPE(2, 20_000)
    whole = RoPE(2, 20_000)
    for edges in asked:
        start, stop = sorted(edges)
        rotated = rope(np.asarray([[1.0], [0.0]]) * np.ones(stop - start), offset=start)
        np.testing.assert_array_equal(rotated[:1], whole.cos[:, start:stop])
        np.testing.assert_array_equal(rotated[1:], whole.sin[:, start:stop])
        assert sum(stretches(rope).values()) <= 20_000


def test_a_growing_table_keeps_what_it_has(computed):
    """Every position is computed once, and gets the same numbers as in a table made at once."""
    rope, x = RoPE(6, 10_000), np.ones((6, 1), dtype=np.float32)
    tokens = {offset: rope(x, offset=offset) for offset in range(0, 10_000, 97)}
    assert computed == [(0, 4096), (4096, 8192), (8192, 10_000)]
    at_once = RoPE(6, 10_000)
    at_once(np.ones((6, 10_000), dtype=np.float32))
    assert computed[3:] == [(0, 10_000)]
    for offset, token in tokens.items():
        np.testing.assert_array_equal(at_once(x, offset=offset), token)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tables_lie_in_memory_as_the_array_does(dtype):
    """The order in memory is for speed, and changes no number."""
    x = np.random.default_rng(0).standard_normal((8, 700)).astype(dtype)
    features_first, features_inner = RoPE(8, 700), RoPE(8, 700)
    expected = features_first(x)
    np.testing.assert_array_equal(features_inner(np.asfortranarray(x)), expected)
    positions = np.arange(700)
    for array in (x, np.asfortranarray(x)):
        got = features_first(array, positions=positions)
        np.testing.assert_allclose(got, expected, atol=1e-6 if dtype == "float32" else 4e-15)
    (first,), (inner,) = features_first._tables._on_host, features_inner._tables._on_host
    assert (first, inner) == ((dtype, False), (dtype, True))
    assert features_first._tables._on_host[first][0][0].flags.c_contiguous
    assert features_inner._tables._on_host[inner][0][0].flags.f_contiguous


def test_threads_share_a_layer(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr(_tables, "MOST_KEPT", 2)
    rope, info = RoPE(4, 3), strict.__array_namespace_info__()
    arrays = [
        strict.ones((4, 3), dtype=getattr(strict, dtype), device=device)
        for device in info.devices()
        for dtype in info.dtypes(device=device, kind="real floating")
    ] + [np.ones((4, 3))]
    with ThreadPoolExecutor(8) as pool:
        for got, x in zip(pool.map(rope, arrays * 50), arrays * 50, strict=True):
            assert got.dtype == x.dtype


class DeviceWithoutHash:
    """As CuPy's devices are."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, DeviceWithoutHash)


def test_a_device_needs_no_hash(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr(_tables, "device_of", lambda _: DeviceWithoutHash())
    monkeypatch.setattr(strict, "asarray", lambda a, **_: np.asarray(a))
    tables = RoPE(4, 3)._tables
    assert len(tables.beside(strict.ones((4, 3)), None, 0, 0, 1, strict)) == 2
