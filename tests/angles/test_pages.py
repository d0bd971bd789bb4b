"""Tables match the arrays; no cached table becomes stale or leaks out of a trace."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from inspect import signature
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import peak_memory
from positional_embeddings import AbsolutePE, RoPE
from positional_embeddings.angles import cos_sin, pages
from positional_embeddings.arguments import axes
from positional_embeddings.arrays.dispatch import get_backend


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
    cached = {kind[2] for kind in rope._tables._pages if len(kind) > 2}
    assert cached == ({backend.xp} if backend.name.startswith(("strict", "cupy")) else set())


def test_a_table_on_a_device_is_a_copy():
    """It keeps no page on the host in memory, which may be longer."""
    import array_api_strict as strict

    rope = RoPE(8, 5)
    rope(strict.ones((8, 5)))
    on_host, on_device = (page.tables for (page,) in rope._tables._pages.values())
    assert type(on_host) is np.ndarray
    assert not np.shares_memory(np.asarray(on_device), on_host)


def test_views_of_a_page_are_made_once():
    rope, x = RoPE(8, 5), np.ones((8, 5))
    target = axes.input_axes(x, get_backend(x=x), rope, "head_size")
    page = rope._tables._page(("float64", "C"), 0, 5, cos_sin.NUMPY_BACKEND)
    assert page.views(target, cos_sin.NUMPY_BACKEND, full_width=False) is page.views(
        target, cos_sin.NUMPY_BACKEND, full_width=False
    )


def test_few_tables_are_kept(monkeypatch):
    import array_api_strict as strict

    monkeypatch.setattr(pages, "MAX_KINDS", 3)
    rope, info = RoPE(4, 3), strict.__array_namespace_info__()
    for device in info.devices():
        for dtype in info.dtypes(device=device, kind="real floating"):
            x = strict.ones((4, 3), dtype=getattr(strict, dtype), device=device)
            assert rope(x).device == device
    assert len(rope._tables._pages) == 3
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
    made = pages.unit_phasors

    def watched(frequencies, start, stop, *options):
        asked.append((start, stop))
        return made(frequencies, start, stop, *options)

    monkeypatch.setattr(pages, "unit_phasors", watched)
    return asked


def kept_pages(rope):
    (cached,) = rope._tables._pages.values()
    return [(page.start, page.stop) for page in cached]


def test_pages_are_where_the_positions_are(computed):
    """One token of a million positions makes a short page, wherever it is."""
    rope, x = RoPE(4, 1_000_000), np.ones((4, 3))
    for offset, expected in (
        (0, [(0, 4096)]),
        (100, []),
        (4094, [(0, 8192)]),
        (8192, [(8192, 12_288)]),
        (99_000, [(98_304, 102_400)]),
        (999_997, [(999_424, 1_000_000)]),
        (99_001, []),
    ):
        rope(x, offset=offset)
        assert computed == expected
        computed.clear()
    assert kept_pages(rope) == [
        (98_304, 102_400),
        (999_424, 1_000_000),
        (8192, 12_288),
        (0, 8192),
    ]


def test_a_page_takes_the_place_of_those_within_it():
    rope = RoPE(4, 40_000, layout="interleaved")
    for offset, length, expected in (
        (4096, 5000, [(4096, 12_288)]),
        (0, 5000, [(0, 8192), (4096, 12_288)]),
        (0, 9000, [(0, 12_288)]),
        (9000, 9000, [(8192, 20_480), (0, 12_288)]),
        (0, 10, [(0, 12_288), (8192, 20_480)]),
        (0, 20_000, [(0, 20_480)]),
    ):
        rope(np.ones((4, length)), offset=offset)
        assert kept_pages(rope) == expected


def test_few_pages_are_kept(monkeypatch):
    monkeypatch.setattr(pages, "MAX_PAGES", 4)
    rope, x = RoPE(2, 2**40), np.asarray([[1.0], [0.0]])
    for i in range(10):
        rope(x, offset=i * 2**20)
    assert kept_pages(rope) == [(i * 2**20, i * 2**20 + 4096) for i in (9, 8, 7, 6)]
    rope(x, offset=6 * 2**20)
    np.testing.assert_allclose(rope(x)[:, 0], [1, 0])
    assert [start // 2**20 for start, _ in kept_pages(rope)] == [0, 6, 9, 8]


def test_replaced_pages_do_not_stay_in_memory():
    size = 65_536
    rope = RoPE(64, size, fused=False, layout="interleaved")
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
def test_pages_are_no_longer_than_a_whole_table(asked):
    import array_api_strict as strict

    rope, whole = RoPE(2, 20_000), RoPE(2, 20_000)
    for on_device, *edges in asked:
        start, stop = sorted(edges)
        x = np.asarray([[1.0], [0.0]]) * np.ones(stop - start)
        rotated = np.asarray(rope(strict.asarray(x) if on_device else x, offset=start))
        np.testing.assert_array_equal(rotated[0], whole.cos[0, start:stop])
        np.testing.assert_array_equal(rotated[1], whole.sin[0, start:stop])
        for cached in rope._tables._pages.values():
            assert sum(page.stop - page.start for page in cached) <= 20_000


def test_threads_make_pages():
    whole = RoPE(8, 100_000)
    rope = RoPE(8, 100_000)
    offsets = np.random.default_rng(0).integers(0, 99_000, 400).tolist()
    x = np.concatenate([np.ones((4, 1000)), np.zeros((4, 1000))])

    def rotated(offset):
        return rope(x, offset=offset)

    with ThreadPoolExecutor(8) as pool:
        for offset, got in zip(offsets, pool.map(rotated, offsets), strict=True):
            np.testing.assert_array_equal(got[:4], whole.cos[:, offset : offset + 1000])
    assert sum(stop - start for start, stop in kept_pages(rope)) <= 100_000


def test_every_page_has_the_same_numbers(computed):
    rope, x = RoPE(6, 10_000), np.ones((6, 1), dtype=np.float32)
    tokens = {offset: rope(x, offset=offset) for offset in range(0, 10_000, 97)}
    assert computed == [(0, 4096), (4096, 8192), (8192, 10_000)]
    single = RoPE(6, 10_000)
    single(np.ones((6, 10_000), dtype=np.float32))
    for offset, token in tokens.items():
        np.testing.assert_array_equal(single(x, offset=offset), token)


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
    for rope, order in ((features_first, "C"), (features_inner, "F")):
        ((precision, first_order), (page,)), *_ = rope._tables._pages.items()
        assert (precision, first_order) == (dtype, order)
        for table in page.tables:
            assert table.shape == (4, 700)
            assert table.flags[f"{order}_CONTIGUOUS"]


def test_threads_share_a_layer(monkeypatch):
    import array_api_strict as strict

    monkeypatch.setattr(pages, "MAX_KINDS", 2)
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
    import array_api_strict as strict

    rope, x = RoPE(4, 3), strict.ones((4, 3))
    array_backend = replace(get_backend(x=x), device=DeviceWithoutHash())
    target = axes.input_axes(x, array_backend, rope, "head_size")
    asarray = strict.asarray
    monkeypatch.setattr(strict, "asarray", lambda a, **_: asarray(a))
    assert len(rope._tables.aligned_tables(target, None, 0, array_backend)) == 2


@pytest.mark.only_on("cupy")
def test_every_stream_has_tables_of_its_own(backend):
    """No stream uses memory that another stream copies to or frees."""
    import cupy

    rope = RoPE(8, 16)
    x = backend.array(np.random.default_rng(0).standard_normal((8, 5)))
    expected = rope(backend.numpy(x))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for stream in (*streams, *streams):
        with stream:
            got = rope(x)
        stream.synchronize()
        np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())
    cached = {kind[4] for kind in rope._tables._pages if len(kind) > 2}
    assert cached == {(s.ptr, 0) for s in streams}


@pytest.mark.only_on("cupy")
def test_as_many_streams_as_kinds_copy_their_page_once(backend, monkeypatch):
    import cupy

    rope, x = RoPE(8, 16), backend.array(np.ones((8, 5)))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(pages.MAX_KINDS - 1)]
    made, add = [], pages.PositionTables._make_page
    monkeypatch.setattr(
        pages.PositionTables, "_make_page", lambda *args: made.append(args[1]) or add(*args)
    )
    for stream in (*streams, *streams, *streams):
        with stream:
            rope(x)
    # One on the host, from which all are copied.
    assert len(made) == len(streams) + 1 == pages.MAX_KINDS


SIZES = {"flat": (), "sections": (3, 5, 8)}


@pytest.mark.parametrize("sections", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("feature", "seq"), [(0, 1), (-1, -2)])
def test_positions_are_looked_up_in_the_table(backend, sections, feature, seq):
    """Integer positions get the numbers of the table to the last bit, wherever they can be read."""
    options = {"feature_axis": feature, "seq_axis": seq, "sections": sections or None}
    rope = RoPE(32, 9000, **options)
    rng = np.random.default_rng(0)
    shape = (32, 6, 2) if feature == 0 else (2, 6, 32)
    x = rng.standard_normal(shape)
    count = (len(sections),) if sections else ()
    for positions in (
        rng.integers(0, 9000, (*count, 6)),
        rng.integers(0, 9000, (*count, *(shape[1:] if feature == 0 else shape[:-1]))),
    ):
        positions[..., 0], positions[..., -1] = 0, 8999
        got = backend.numpy(rope(backend.array(x), positions=backend.array(positions)))
        cos, sin = (table.astype(backend.wide) for table in (rope.cos, rope.sin))
        counts = sections or (16,)
        parts = positions if sections else positions[None]
        ends = np.cumsum((0, *counts))
        pairs = [slice(a, b) for a, b in pairwise(ends)]
        c, s = (
            np.concatenate([table[rows][:, p] for rows, p in zip(pairs, parts, strict=True)])
            for table in (cos, sin)
        )
        c, s = (t[:, :, None] if positions.ndim == 1 + len(count) else t for t in (c, s))
        if feature == -1:
            c, s = (
                np.moveaxis(t, 0, -1) if t.shape[-1] != 1 else t[..., 0].T[None] for t in (c, s)
            )
        first, second = np.split(x.astype(backend.wide), 2, axis=feature)
        expected = np.concatenate([first * c - second * s, second * c + first * s], axis=feature)
        np.testing.assert_allclose(got, expected, atol=backend.tolerance())
        if backend.name == "numpy":
            np.testing.assert_array_equal(got, expected)


def exact_rotation(x, positions):
    return np.concatenate(
        [RoPE(8, 2).shift(x[:, i : i + 1], p) for i, p in enumerate(positions)], axis=1
    )


def test_positions_outside_the_table_are_computed():
    rope = RoPE(8, 2**40)
    x = np.random.default_rng(0).standard_normal((8, 3))
    for positions in ([-1, 5, 7], [2**40, 1, 2]):
        expected = exact_rotation(x, positions)
        np.testing.assert_allclose(rope(x, positions=np.asarray(positions)), expected, atol=1e-15)
    assert not rope._tables._pages


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_few_positions_far_apart_are_looked_up_one_by_one(order):
    """Each position needs a short page, and no page covers all positions."""
    rope = RoPE(8, 2**40)
    positions = [5, 2**39, 4096, 3 * 2**30, 2**40 - 1]
    x = np.asarray(np.random.default_rng(0).standard_normal((8, 5)), order=order)
    got = rope(x, positions=np.asarray(positions))
    np.testing.assert_allclose(got, exact_rotation(x, positions), atol=4e-15)
    for i, position in enumerate(positions):
        np.testing.assert_array_equal(got[:, [i]], rope(x[:, [i]], offset=position))
    for cached in rope._tables._pages.values():
        assert {page.stop - page.start for page in cached} == {4096}


@pytest.mark.parametrize("order", ["C", "F"])
def test_positions_on_both_sides_of_the_edge_of_a_page(order):
    rope = RoPE(8, 3 * pages.PAGE_POSITIONS)
    positions = [pages.PAGE_POSITIONS - 1, pages.PAGE_POSITIONS]
    x = np.asarray(np.random.default_rng(0).standard_normal((8, 2)), order=order)
    got = rope(x, positions=np.asarray(positions))
    np.testing.assert_allclose(got, exact_rotation(x, positions), atol=4e-15)
    assert kept_pages(rope) == [(0, 2 * pages.PAGE_POSITIONS)]


def test_no_positions_behind_the_last_page():
    for offset in (0, pages.PAGE_POSITIONS - 1, pages.PAGE_POSITIONS):
        assert RoPE(8, pages.PAGE_POSITIONS)(np.zeros((8, 0)), offset=offset).shape == (8, 0)


def test_a_table_of_one_position():
    rope = RoPE(8, 1)
    np.testing.assert_array_equal(rope(np.ones((8, 1))), np.ones((8, 1)))
    assert kept_pages(rope) == [(0, 1)]


def test_many_positions_in_a_short_span_are_looked_up_in_one_page():
    """Its numbers equal the table exactly."""
    rope, positions = RoPE(8, 2**40), 100_000 + 4 * np.arange(2000)
    x = np.concatenate([np.ones((4, 2000)), np.zeros((4, 2000))])
    got = rope(x, positions=positions)
    assert kept_pages(rope) == [(98_304, 110_592)]
    whole = RoPE(8, 110_592)
    np.testing.assert_array_equal(got[:4], whole.cos[:, positions])
    np.testing.assert_array_equal(got[4:], whole.sin[:, positions])


def test_as_many_positions_far_apart_are_looked_up_as_pages_are_kept(monkeypatch):
    monkeypatch.setattr(pages, "MAX_PAGES", 4)
    rope, positions = RoPE(8, 2**40), np.arange(4) * 2**20
    rope(np.ones((8, 4)), positions=positions)
    assert [start for start, _ in kept_pages(rope)] == positions.tolist()[::-1]


def test_many_positions_far_apart_are_computed():
    rope = RoPE(8, 2**40)
    positions = np.arange(65) * 2**20
    x = np.random.default_rng(0).standard_normal((8, 65))
    got = rope(x, positions=positions)
    np.testing.assert_allclose(got, exact_rotation(x, positions.tolist()), atol=1e-14)
    assert not rope._tables._pages
    sections = RoPE(8, 2**40, sections=(2, 2))
    got = sections(x, positions=np.stack([positions, positions]))
    np.testing.assert_allclose(got, exact_rotation(x, positions.tolist()), atol=1e-14)


def test_many_sequences_far_apart_keep_their_pages(computed):
    """A step of each of eight sequences computes no columns that are there."""
    rope, x = RoPE(8, 2**20), np.ones((8, 1))
    offsets = [i * 100_000 for i in range(8)]
    for step in range(3):
        for offset in offsets:
            rope(x, offset=offset + step)
    assert len(computed) == 8


def test_computed_positions_take_bounded_memory():
    """Intermediate results have the size of a block."""
    rope = RoPE(64, 8, fused=False)
    x = np.zeros((64, 1, 20_000), dtype=np.float32)
    positions = np.random.default_rng(0).uniform(0, 1e6, (1, 20_000))
    assert peak_memory(lambda: rope(x, positions=positions)) < 3 * x.nbytes
    looked_up = RoPE(64, 30_000, fused=False)
    positions = np.random.default_rng(0).integers(0, 30_000, (1, 20_000))
    looked_up(x, positions=positions)
    assert peak_memory(lambda: looked_up(x, positions=positions)) < 3 * x.nbytes


def test_nothing_to_rotate_makes_no_doubled_tables():
    rope = RoPE(8, 100, fused=False)
    rope(np.zeros((8, 3, 0)))
    ((page,),) = rope._tables._pages.values()
    assert "full_width" not in vars(page)
    rope(np.zeros((8, 3)))
    cos, sin = page.tables
    np.testing.assert_array_equal(vars(page)["full_width"], [[*cos, *cos], [*-sin, *sin]])


def test_tables_of_one_page_are_doubled():
    for length, rows in ((pages.PAGE_POSITIONS, 4), (pages.PAGE_POSITIONS + 1, 2)):
        page = pages.Page(5, 5 + length, np.ones((2, 2, length)))
        assert page.full_width.shape == (2, rows, length)


def test_pages_begin_where_blocks_do():
    """So that the numbers of a position are the same in every page."""
    assert pages.PAGE_POSITIONS % cos_sin.PAGE_BLOCK_POSITIONS == 0


def test_what_is_kept_is_no_part_of_a_table():
    names = ("_pages", "known", "_views")
    for cached in (RoPE(4, 3)._tables, pages.Page(0, 1, np.ones((2, 1, 1)))):
        assert all(f"{name}=" not in repr(cached) for name in names)
        assert not set(names) & set(signature(type(cached)).parameters)


def test_tables_of_a_long_page_are_kept_once():
    size = 40_000
    token = np.random.default_rng(0).standard_normal((128, 1), dtype=np.float32)
    last = np.asarray([size - 1])

    def built():
        rope = RoPE(128, size, fused=False)
        rope(np.empty((128, size, 0), dtype=np.float32))
        return rope(token, offset=size - 1), rope(token, positions=last)

    expected = RoPE(128, size, fused=False)(token, offset=size - 1)
    for rotated in built():
        np.testing.assert_array_equal(rotated, expected)
    assert peak_memory(built) < 1.5 * 128 * size * 4


def test_a_single_position_is_read_from_a_page():
    """The result has the values of the same position among others, and may be written to."""
    rope = RoPE(8, 100, feature_axis=-1, seq_axis=-2, fused=False)
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8))
    token = x[:, :, :1]
    expected = rope(np.concat([token, token], axis=2), positions=np.asarray([7, 60]))[:, :, 1:]
    for positions in (np.asarray([60]), np.asarray([[60]]), np.asarray([[[60]]], dtype="uint8")):
        np.testing.assert_array_equal(rope(token, positions=positions), expected)
    repeated = rope(x, positions=np.asarray([[60]]))  # one position for a sequence
    np.testing.assert_array_equal(repeated, rope(x, positions=np.full(5, 60)))
    for beyond in (-1, 100, 2**40):
        result = rope(token, positions=np.asarray([beyond]))
        several = rope(token, positions=np.full((2, 1), beyond))
        np.testing.assert_allclose(result, several, rtol=0, atol=1e-15)
    layer, embedded = AbsolutePE(4, 10), np.zeros((4, 1))
    encoding = layer.encoding(embedded, positions=np.asarray([3]))
    before = encoding.copy()
    encoding[:] = 0
    np.testing.assert_array_equal(layer.encoding(embedded, offset=3), before)
