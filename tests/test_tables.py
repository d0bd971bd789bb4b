"""Tables follow the arrays, and none of them goes stale or leaks out of a trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import AbsolutePE, RoPE, _tables


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


def test_a_growing_table_keeps_what_it_has(monkeypatch):
    """Every position is computed once, and gets the same numbers as in a table made at once."""
    asked = []
    made = _tables.turning_numbers

    def watched(frequencies, start, stop, factor):
        asked.append((start, stop))
        return made(frequencies, start, stop, factor)

    monkeypatch.setattr(_tables, "turning_numbers", watched)
    rope, x = RoPE(6, 10_000), np.ones((6, 1), dtype=np.float32)
    tokens = {offset: rope(x, offset=offset) for offset in range(0, 10_000, 97)}
    assert asked == [(0, 4096), (4096, 8192), (8192, 10_000)]
    at_once = RoPE(6, 10_000)
    at_once(np.ones((6, 10_000), dtype=np.float32))
    assert asked[3:] == [(0, 10_000)]
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
    from concurrent.futures import ThreadPoolExecutor

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
