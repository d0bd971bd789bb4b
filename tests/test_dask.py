"""dask arrays stay lazy, and keep their chunks."""

import pickle
import re
from pathlib import Path

import dask.array as da
import dask.dataframe as dask_frame
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mask_strategies import masks
from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    FIREBias,
    FunctionMask,
    GlobalMask,
    KERPLEBias,
    KVCache,
    ListMask,
    PaddingMask,
    RelativePE,
    RoPE,
    SandwichBias,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    alibi_bias,
    attention_weights,
    create_causal_mask,
    cyclic_encoding,
    fourier_encoding,
    grid_cell_encoding,
    grid_encoding,
    positions_from_mask,
    positions_from_segment_ids,
    random_fourier_encoding,
    scaled_dot_product_attention,
    sinusoidal_encoding,
    spherical_encoding,
)
from positional_embeddings.sklearn import AttentionRegressor, GapFiller, PositionalEncoder
from samples import MASKS as SAMPLES


def tasks(array):
    return len(dict(array.__dask_graph__()))


@pytest.fixture
def forbid_computing():
    """Let nothing be computed until the test asks for it."""
    from dask import config

    def scheduler(*_, **__):
        message = "computed early"
        raise AssertionError(message)

    with config.set(scheduler=scheduler):
        yield


def test_chunks_along_sequence_and_batch_are_kept():
    x = da.ones((8, 10, 6), chunks=(8, 4, 3))
    assert RoPE(8, 10)(x).chunks[1:] == ((4, 4, 2), (3, 3))
    assert AbsolutePE(8, 10)(x).chunks[1:] == ((4, 4, 2), (3, 3))


def test_batches_of_unknown_length():
    """A filtered array does not know how many it holds until it is computed."""
    values = np.random.default_rng(0).standard_normal((8, 5, 6))
    x = da.from_array(values, chunks=(8, 5, 3))
    some = x[:, :, da.from_array(np.arange(6) % 2 == 0, chunks=3)]
    for layer in (RoPE(8, 5), AbsolutePE(8, 5)):
        np.testing.assert_allclose(layer(some).compute(), layer(values[..., ::2]), atol=1e-12)
    got = scaled_dot_product_attention(some, some, some)
    even = values[..., ::2]
    np.testing.assert_allclose(
        got.compute(), scaled_dot_product_attention(even, even, even), atol=1e-12
    )
    mask = da.from_array(create_causal_mask(5), chunks=2)
    got = scaled_dot_product_attention(some, some, some, mask=mask)
    expected = scaled_dot_product_attention(even, even, even, mask=create_causal_mask(5))
    np.testing.assert_allclose(got.compute(), expected, atol=1e-12)
    hint = r"Call q\.compute_chunk_sizes\(\) first"
    with pytest.raises(ValueError, match=rf"`q` must have a known length on axis 1, .* {hint}"):
        scaled_dot_product_attention(*[some.transpose(0, 2, 1)] * 3, mask=CausalMask())
    q, k = da.from_array(values.transpose(0, 2, 1)), some.transpose(0, 2, 1)
    with pytest.raises(ValueError, match=r"`k` must have a known length on axis 1"):
        scaled_dot_product_attention(q, k, k, mask=CausalMask())
    with pytest.raises(ValueError, match=r"`q` must have a known length on axis 2"):
        scaled_dot_product_attention(some, some, some, block_size=2)


def test_positions_of_unknown_length():
    values = np.random.default_rng(0).standard_normal((4, 6))
    keep = da.from_array(np.arange(6) % 2 == 0, chunks=3)
    x = da.from_array(values, chunks=(4, 3))[:, keep]
    positions = da.arange(6, chunks=3)[keep]
    got = RoPE(4, 1)(x, positions=positions)
    expected = RoPE(4, 1)(values[:, ::2], positions=np.asarray([0, 2, 4]))
    np.testing.assert_allclose(got.compute(), expected, atol=1e-12)


@pytest.mark.usefixtures("forbid_computing")
@pytest.mark.parametrize("layer", [RoPE(8, 4096), AbsolutePE(8, 4096)], ids=["rotary", "absolute"])
def test_few_tasks_for_each_chunk(layer):
    """One task a chunk, and one for its numbers; tables take a few for a chunk of positions."""
    for sequence, batch in ((8, 1), (8, 64), (64, 8)):
        x = da.ones((8, 64 * sequence, batch), chunks=(8, 64, 1))
        made = layer(x)
        assert made.chunks == x.chunks
        assert tasks(made) <= 2 * x.npartitions + 14 * sequence


ENCODINGS = {
    "cyclic_encoding": lambda x: cyclic_encoding(x, [24, 365.25], [3, 1]),
    "fourier_encoding": lambda x: fourier_encoding(x, [4, 8.0], arrangement="concatenated"),
    "sinusoidal_encoding": lambda x: sinusoidal_encoding(x, 7, dtype=x.dtype),
    "spherical_encoding": lambda x: spherical_encoding(x[:, :1], x[0, :], 3),
    "random_fourier_encoding": lambda x: random_fourier_encoding(
        x, 6, rng=np.random.default_rng(0)
    ),
    "grid_cell_encoding": lambda x: grid_cell_encoding(x[:2, :], [4, 8]),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("chunks", [(2, 4), (4, 10), (1, 3)])
def test_encodings_are_one_task_a_chunk_by_the_code_of_numpy(name, chunks, forbid_computing):
    del forbid_computing
    values = np.random.default_rng(0).uniform(-90, 90, (4, 10)).astype(np.float32)
    made = ENCODINGS[name](da.from_array(values, chunks=chunks))
    tasks_of = [key[0].rsplit("-", 1)[0] for key in made.__dask_graph__() if len(key) > 1]
    assert tasks_of.count(name) == made.npartitions
    assert {*tasks_of} <= {name, "array", "getitem", "rechunk-merge", "rechunk-split"}
    expected = ENCODINGS[name](values)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made.compute(scheduler="sync"), expected)


def test_a_grid_is_cut_by_its_features(forbid_computing):
    from dask import config

    del forbid_computing
    with config.set({"array.chunk-size": "64 kiB"}):
        made = grid_encoding((40, 50), 16, xp=da, dtype=np.float32)
    assert made.chunks[0] == (16,)
    assert 16 * made.chunksize[1] * made.chunksize[2] <= 2**14
    assert tasks(made) <= 3 * made.npartitions
    expected = grid_encoding((40, 50), 16, dtype=np.float32)
    np.testing.assert_array_equal(made.compute(scheduler="sync"), expected)


@pytest.mark.usefixtures("forbid_computing")
def test_chunks_that_are_far_too_small_are_warned_of():
    x = da.ones((4, 150, 1), chunks=(4, 1, 1))
    text = r"22,500 chunks of 48 bytes each .*: rechunk the arrays"
    with pytest.warns(da.PerformanceWarning, match=text):
        scaled_dot_product_attention(x, x, x)
    with pytest.warns(da.PerformanceWarning, match="20,000 chunks of 16 bytes"):
        cyclic_encoding(da.ones(20_000, chunks=1), 24)


def test_encodings_of_chunks_of_unknown_length():
    values = np.random.default_rng(0).standard_normal(10)
    x = da.from_array(values, chunks=3)
    made = cyclic_encoding(x[x > 0], 24)
    np.testing.assert_array_equal(made.compute(), cyclic_encoding(values[values > 0], 24))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("chunks", [(8, 4, 3), (4, 3, 2), (3, 10, 1)])
def test_features_become_one_chunk_when_they_are_rotated(layout, chunks):
    values = np.random.default_rng(0).standard_normal((8, 10, 6))
    rope = RoPE(8, 30, layout=layout)
    x = da.from_array(values, chunks=chunks)
    for options in ({}, {"offset": 20}, {"inverse": True}):
        made = rope(x, **options)
        assert made.chunks == ((8,), *x.chunks[1:])
        np.testing.assert_allclose(made.compute(), rope(values, **options), rtol=0, atol=1e-14)


FIRST = {"feature_axis": 0, "seq_axis": 1}


def parts_of_attention(rng, **hidden):
    """Return q, k and v (head, seq, heads, batch)."""
    q, k, v = rng.standard_normal((3, 8, 20, 4, 2))
    if hidden:
        k[0, 3], v[1, 4] = np.nan, np.inf
    return q, k, v


MASKS = {
    "none": {},
    "causal": {"mask": CausalMask()},
    "window": {"mask": CausalMask() | SlidingWindowMask(3, 0)},
    "scattered": {"mask": SlidingWindowMask(2, 2) & GlobalMask([0, 15])},
    "padding": {"mask": PaddingMask([3, 15])},
    "nothing seen": {"mask": CausalMask() | PaddingMask([0, 20], side="left")},
    "bias value": {"mask": CausalMask(), "bias": ALiBiBias(4)},
    "function": {"mask": lambda q_idx, k_idx: (q_idx + k_idx) % 3 == 0},
    "function in a value": {"mask": FunctionMask(lambda i, j: (i + j) % 3 == 0) | CausalMask()},
    "offset": {"mask": CausalMask(), "offset": -5},
    "softcap in blocks": {"softcap": 2.0, "block_size": 3},
}


@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("chunks", [(4, 6, 2, 1), (8, 1, 4, 2), (8, 20, 1, 2)])
def test_attention_over_chunks_of_keys(options, heads, chunks):
    q, k, v = parts_of_attention(np.random.default_rng(0))
    k, v = k[:, :, :heads], v[:, :, :heads]
    x, y, z = (da.from_array(array, chunks=chunks) for array in (q, k, v))
    made = scaled_dot_product_attention(x, y, z, enable_gqa=True, **options, **FIRST)
    assert made.chunks[1] == x.chunks[1]
    expected = scaled_dot_product_attention(q, k, v, enable_gqa=True, **options, **FIRST)
    np.testing.assert_allclose(made.compute(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["causal", "window", "padding", "bias value"])
def test_hidden_keys_that_are_not_finite_do_not_matter_in_any_chunk(name):
    q, k, v = parts_of_attention(np.random.default_rng(0), hidden=True)
    made = scaled_dot_product_attention(
        *(da.from_array(array, chunks=(8, 6, 2, 1)) for array in (q, k, v)), **MASKS[name], **FIRST
    )
    expected = scaled_dot_product_attention(q, k, v, **MASKS[name], **FIRST)
    np.testing.assert_allclose(made.compute(), expected, rtol=0, atol=1e-13)


def test_chunks_whose_keys_a_query_does_not_see_weigh_nothing():
    """Also if their scores are near 0, and those of the keys that it sees far below."""
    q = np.full((4, 8, 2), 10.0, dtype="float32")
    k = np.zeros((4, 8, 2), dtype="float32")
    k[:, 4:, :] = -10
    v = np.random.default_rng(0).standard_normal((4, 8, 2)).astype("float32")
    mask = PaddingMask([4, 8], side="left")
    expected = scaled_dot_product_attention(q, k, v, mask=mask)
    chunked = (da.from_array(x, chunks=(4, 4, 2)) for x in (q, k, v))
    got = scaled_dot_product_attention(*chunked, mask=mask).compute()
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert abs(got).max() > 0.1


@st.composite
def chunks_of(draw, total):
    """Draw chunks of an axis, some of length 0."""
    chunks = draw(st.lists(st.integers(0, total), max_size=3))
    chunks = [n for i, n in enumerate(chunks) if sum(chunks[: i + 1]) <= total]
    return (*chunks, total - sum(chunks))


@settings(max_examples=10)
@given(data=st.data(), size=st.integers(1, 7))
def test_all_trees_of_masks_on_chunks_of_any_lengths(data, size):
    mask, _ = data.draw(masks(size, kinds=tuple(SAMPLES)))
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, size, 2, 2))
    heads, batch, q_chunks, k_chunks = (data.draw(chunks_of(n)) for n in (2, 2, size, size))
    x = da.from_array(q, chunks=(4, q_chunks, heads, batch))
    y, z = (da.from_array(array, chunks=(4, k_chunks, heads, batch)) for array in (k, v))
    options = {"mask": mask, "feature_axis": 0, "seq_axis": 1}
    for function, lazy, arrays in (
        (scaled_dot_product_attention, (x, y, z), (q, k, v)),
        (attention_weights, (x, y), (q, k)),
    ):
        expected = function(*arrays, **options)
        np.testing.assert_allclose(function(*lazy, **options).compute(), expected, atol=1e-13)


def test_lists_of_other_masks_in_several_chunks_of_queries():
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 6, 1))
    lists = ListMask([[i, (i + 2) % 6] for i in range(6)])
    for mask in (~lists, lists & CausalMask(), ~(lists | PaddingMask([4]))):
        chunked = (da.from_array(x, chunks=(4, 2, 1)) for x in (q, k, v))
        result = scaled_dot_product_attention(*chunked, mask=mask).compute()
        expected = scaled_dot_product_attention(q, k, v, mask=mask)
        np.testing.assert_allclose(result, expected, atol=1e-13)


def test_positions_in_chunks_without_elements():
    mask = np.asarray([[0, 1, 1, 1], [1, 1, 0, 0]], dtype=bool)
    for chunks in (((1, 0, 1), (2, 0, 2)), ((0, 2), (0, 4, 0))):
        positions = positions_from_mask(da.from_array(mask, chunks=chunks), seq_axis=1)
        np.testing.assert_array_equal(positions.compute(), positions_from_mask(mask, seq_axis=1))
    ids = da.from_array(np.asarray([0, 0, 0, 1, 1]), chunks=((0, 2, 0, 3),))
    np.testing.assert_array_equal(positions_from_segment_ids(ids).compute(), [0, 1, 2, 0, 1])


def test_a_batch_of_unknown_length():
    """Masks that differ between its sequences, and grouped heads, need its length."""
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 2))
    lazy = da.from_array(x, chunks=(1, 4, 5, 2))
    some = lazy[da.from_array(np.asarray([True, False, True]), chunks=1)]
    axes = {"feature_axis": -1, "seq_axis": -2}
    chosen = x[[0, 2]]
    for options in ({"mask": CausalMask()}, {"bias": ALiBiBias(4)}):
        result = scaled_dot_product_attention(some, some, some, **options, **axes).compute()
        expected = scaled_dot_product_attention(chosen, chosen, chosen, **options, **axes)
        np.testing.assert_allclose(result, expected, atol=1e-13)
    with pytest.raises(ValueError, match=r"axis 0, .*Call q\.compute_chunk_sizes\(\) first"):
        scaled_dot_product_attention(some, some, some, mask=PaddingMask([5, 3]), **axes)
    keys = some[:, :2]
    with pytest.raises(ValueError, match=r"axis 0, .*Call q\.compute_chunk_sizes\(\) first"):
        scaled_dot_product_attention(some, keys, keys, enable_gqa=True, **axes)
    mask = da.zeros((2, 1, 5, 5), dtype=bool)
    with pytest.raises(ValueError, match=r"axes of unknown lengths.*compute_chunk_sizes"):
        scaled_dot_product_attention(some, some, some, mask=mask, **axes)


def test_means_of_large_values_in_many_chunks_are_finite():
    q = da.zeros((2, 64, 1), chunks=(2, 8, 1), dtype="float32")
    v = da.full((2, 64, 1), 3e38, chunks=(2, 8, 1), dtype="float32")
    np.testing.assert_allclose(scaled_dot_product_attention(q, q, v).compute(), 3e38, rtol=1e-6)


def test_chunks_that_cut_a_group_of_heads():
    q = np.random.default_rng(0).standard_normal((4, 6, 12))
    k, v = np.random.default_rng(1).standard_normal((2, 4, 6, 3))
    chunked = [da.from_array(x, chunks=(4, 3, 5)) for x in (q, k, v)]
    options = {"enable_gqa": True, "bias": ALiBiBias(12)}
    expected = scaled_dot_product_attention(q, k, v, **options)
    got = scaled_dot_product_attention(*chunked, **options).compute()
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_masks_and_biases_that_are_arrays_are_cut_as_the_keys_are():
    rng = np.random.default_rng(0)
    q, k, v = parts_of_attention(rng)
    given = {"mask": rng.random((20, 20, 1, 2)) < 0.3, "bias": rng.standard_normal((1, 20, 4, 1))}
    made = scaled_dot_product_attention(
        *(da.from_array(array, chunks=(8, 6, 2, 1)) for array in (q, k, v)),
        **{name: da.from_array(array, chunks=7) for name, array in given.items()},
        **FIRST,
    )
    expected = scaled_dot_product_attention(q, k, v, **given, **FIRST)
    np.testing.assert_allclose(made.compute(), expected, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("forbid_computing")
def test_graphs_grow_with_the_pairs_of_chunks_that_are_seen():
    x = da.ones((64, 65_536, 8), chunks=(64, 1024, 8), dtype=np.float32)
    n = x.numblocks[1]
    window = CausalMask() | SlidingWindowMask(1024, 0)
    for mask, pairs in ((None, n * n), (CausalMask(), n * (n + 1) / 2), (window, 2 * n)):
        made = scaled_dot_product_attention(x, x, x, mask=mask)
        assert made.chunks == x.chunks
        assert tasks(made) < 3 * pairs + 20 * n


TABLE = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
BIASES = {
    "ALiBiBias": lambda _: ALiBiBias(4),
    "SandwichBias": lambda _: SandwichBias(4, dim=8),
    "T5Bias": lambda a: T5Bias(4, num_buckets=8, embeddings=a(TABLE)),
    "RelativePE": lambda a: RelativePE(2, 4, embeddings=a(TABLE[:5])),
    "KERPLEBias": lambda a: KERPLEBias(a(np.ones(4)), a(np.arange(1.0, 5))),
    "FIREBias": lambda a: FIREBias(
        a(TABLE[0]), a(TABLE[1]), a(TABLE[2:6]), a(TABLE[6]), c=1.0, threshold=2.0
    ),
}


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("lengths", [(30, 40), (1, 40)])
def test_biases_are_one_task_a_chunk_by_the_code_of_numpy(name, lengths):
    from dask import config

    expected = BIASES[name](np.asarray)(*lengths)
    bias = BIASES[name](lambda x: da.from_array(x, chunks=2))
    with config.set({"array.chunk-size": "4 kiB"}):
        made = bias(*lengths, **({} if bias._arrays() else {"xp": da}))
    keys = [key[0].rsplit("-", 1)[0] for key in made.__dask_graph__() if len(key) > 1]
    assert keys.count(name) == made.npartitions >= 4
    assert {*keys} <= {name, "array", "arange", "getitem", "rechunk-merge"}
    assert made.dtype == expected.dtype
    np.testing.assert_allclose(made.compute(), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", BIASES)
def test_biases_at_positions_are_one_task_a_chunk(name, batch):
    rng = np.random.default_rng(0)
    query, key = rng.integers(0, 50, (12, *batch)), rng.integers(0, 50, (10, *batch))
    at = {"query_positions": query, "key_positions": key}
    expected = BIASES[name](np.asarray)(**at)
    chunks = {"query_positions": (5, 2), "key_positions": (4, 3)}
    lazy = {n: da.from_array(x, chunks=chunks[n][: x.ndim]) for n, x in at.items()}
    made = BIASES[name](lambda x: da.from_array(x, chunks=2))(**lazy)
    keys = [key[0].rsplit("-", 1)[0] for key in made.__dask_graph__() if len(key) > 1]
    assert keys.count(name) == made.npartitions == 9 * (2 if batch else 1)
    rounding = np.finfo(expected.dtype).eps  # of matrix products of other lengths
    np.testing.assert_allclose(made.compute(), expected, rtol=0, atol=4 * rounding)


@pytest.mark.usefixtures("forbid_computing")
def test_tasks_share_a_mask_that_holds_an_array():
    n = 2**20
    x = da.ones((4, n, 1), chunks=(4, 2048, 1), dtype=np.float32)
    made = scaled_dot_product_attention(x, x, x, mask=SegmentMask(np.arange(n) // 2048))
    # Each task is sent on its own.
    assert sum(len(pickle.dumps(task)) for task in dict(made.__dask_graph__()).values()) < 60e6
    assert tasks(made) < 12 * x.numblocks[1]


def largest_chunk(array):
    lengths = (max(axis) for axis in array.chunks)
    return np.prod([*lengths]) * array.dtype.itemsize


@pytest.mark.usefixtures("forbid_computing")
@pytest.mark.parametrize(
    "make",
    [
        lambda: create_causal_mask(100_000, xp=da),
        lambda: (CausalMask() | SlidingWindowMask(9, 0)).dense(100_000, xp=da),
        lambda: FunctionMask(lambda i, j: (i - j) % 2 == 0).dense(100_000, xp=da),
        lambda: alibi_bias(8, 100_000, xp=da, dtype=np.float32),
        # Graphs of half a million tasks.
        pytest.param(lambda: T5Bias(8, xp=da)(100_000), marks=pytest.mark.long),
    ],
    ids=["causal", "window", "function", "alibi", "T5"],
)
def test_all_pairs_are_many_chunks(make):
    from dask import config

    made = make()
    assert largest_chunk(made) <= 2**27
    assert made.numblocks[0] == made.numblocks[1] >= 20
    with config.set({"array.chunk-size": "2 MiB"}):
        assert largest_chunk(make()) <= 2**21


@pytest.mark.usefixtures("forbid_computing")
@pytest.mark.parametrize("number", range(3))
def test_the_how_to_runs_and_computes_nothing(number):
    page = Path(__file__).parents[1] / "docs" / "guide" / "larger_than_memory.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    exec(blocks[number], {})  # noqa: S102 - a page of this repository


ESTIMATORS = {
    "PositionalEncoder": lambda x: PositionalEncoder().fit(x),
    "AttentionRegressor": lambda x: AttentionRegressor().fit(x, np.arange(4.0)),
    "GapFiller": lambda x: GapFiller().fit(x),
}


@pytest.mark.usefixtures("forbid_computing")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_dataframe_of_dask_is_refused(name):
    frame = dask_frame.from_pandas(pd.DataFrame({"x": np.arange(4.0)}), npartitions=2)
    expected = (
        "`X` must be a table in memory, got dask.dataframe.dask_expr.DataFrame. "
        "Pass X.compute(), or call a fitted estimator by X.map_partitions."
    )
    with pytest.raises(TypeError) as raised:
        ESTIMATORS[name](frame)
    assert str(raised.value) == expected


def test_tasks_neither_warn_nor_raise_of_what_is_normal():
    """Also when they are computed, by threads of dask or as the user has set NumPy's errors."""
    x = np.random.default_rng(0).standard_normal((4, 40)) * 1e3
    far = x.copy()
    far[0, 3] = np.inf
    calls = [
        (lambda a: scaled_dot_product_attention(a, a, a, mask=CausalMask()), x),
        (lambda a: scaled_dot_product_attention(a, a, a, mask=CausalMask()), far),
        (RoPE(4, 100), x * 1e-313),
        (lambda a: cyclic_encoding(a, 24), np.full(40, 1e-300)),
    ]
    for call, numbers in calls:
        expected = call(numbers)
        array = da.from_array(numbers, chunks=10 if numbers.ndim == 1 else (4, 10))
        with np.errstate(all="raise"):
            got = call(array).compute(scheduler="synchronous")
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_a_cache_takes_no_lazy_attention_mask():
    cache = KVCache.empty(1, 1, 8, num_kv_heads=1, head_size=4, feature_axis=-1, seq_axis=-2)
    with pytest.raises(TypeError, match="`tokens` must be a list or an array in memory"):
        cache.step(da.ones((1, 3), dtype=int))
