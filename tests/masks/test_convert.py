"""Masks in the attention of other frameworks, and masks of other frameworks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    PaddingMask,
    PrefixMask,
    SegmentMask,
    SlidingWindowMask,
    alibi_bias,
    create_padding_mask,
    from_attend,
    fully_masked_rows,
    mask_to_bias,
    scaled_dot_product_attention,
    to_attend,
    to_block_ranges,
)

DOCUMENTS = np.asarray([[0, 0], [0, 1], [1, 1], [1, 1], [1, 2], [-1, 2]])
# Masks of one sequence or two, with numbers of queries and keys.
CASES = {
    "causal, cached keys": (CausalMask(), 4, 6),
    "window": (SlidingWindowMask(2, 1), 5, 5),
    "window, cached keys": (SlidingWindowMask(2, 0), 3, 6),
    "padding on the right": (PaddingMask([6, 3]), 4, 6),
    "padding on the left": (PaddingMask([6, 3], "left"), 4, 6),
    "segments": (SegmentMask(DOCUMENTS), 6, 6),
    "union": (CausalMask() | PaddingMask([6, 2]), 4, 6),
    "union, padding on the left": (CausalMask() | PaddingMask([5, 2], "left"), 5, 5),
    "with global tokens": (SlidingWindowMask(1, 0) & GlobalMask([0, 4]), 6, 6),
    "a query that sees no key": (CausalMask(mask_diagonal=True), 4, 4),
}
HEADS, HEAD = 3, 8


def random_arrays(q_len, k_len):
    """Return queries, keys and values as (batch, heads, seq, head)."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((2, HEADS, n, HEAD)).astype("float32") for n in (q_len, k_len, k_len)
    ]


def assert_close_where_visible(theirs, ours, mask, q_len, k_len):
    """Compare outputs (batch, heads, query, head) of queries that see a key.

    The output of fully masked queries is 0, in PyTorch perhaps NaN, in JAX and Keras the average.
    """
    is_visible = ~np.broadcast_to(fully_masked_rows(mask.dense(q_len, k_len)), (q_len, 2)).T
    assert is_visible.any()
    theirs, ours = (np.asarray(output).swapaxes(1, 2)[is_visible] for output in (theirs, ours))
    np.testing.assert_allclose(theirs, ours, atol=2e-6)


def attention(q, k, v, **options):
    if options["mask"] == CASES["union"][0]:
        options["offset"] = k.shape[-2] - q.shape[-2]  # required for padding with another mask
    return scaled_dot_product_attention(q, k, v, feature_axis=-1, seq_axis=-2, **options)


def attention_of_torch(arrays, convert, added):
    import torch

    mask = convert(torch, torch.float32)
    mask = mask if added is None else mask + torch.as_tensor(added)
    arrays = map(torch.as_tensor, arrays)
    return torch.nn.functional.scaled_dot_product_attention(*arrays, attn_mask=mask).numpy()


def attention_of_jax(arrays, convert, added):
    import jax

    mask = convert(jax.numpy, jax.numpy.float32)
    options = {"mask": mask} if mask.dtype == bool else {"bias": mask}
    if added is not None:
        options["bias"] = options.get("bias", 0.0) + added
    arrays = (array.swapaxes(1, 2) for array in arrays)  # (batch, seq, heads, head)
    return np.asarray(jax.nn.dot_product_attention(*arrays, **options)).swapaxes(1, 2)


def attention_of_onnx_runtime(arrays, convert, added):
    """Run the operator Attention on the CPU."""
    import onnx
    import onnxruntime as runtime
    from onnx import helper

    mask = convert(np, np.float32)
    mask = mask if added is None else mask + added
    inputs_by_name = dict(zip(("Q", "K", "V", "attn_mask"), (*arrays, mask), strict=True))
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in inputs_by_name.items()
    ]
    output = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node("Attention", list(inputs_by_name), ["Y"])
    graph = helper.make_graph([node], "attention", inputs, [output])
    opsets = [helper.make_opsetid("", 23)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs_by_name)[0]


FRAMEWORKS = {
    "torch": attention_of_torch,
    "jax": attention_of_jax,
    "onnxruntime": attention_of_onnx_runtime,
}
of_each_framework = pytest.mark.parametrize(
    "framework",
    [
        pytest.param("torch", marks=pytest.mark.library("torch")),
        pytest.param("jax", marks=pytest.mark.library("jax")),
        pytest.param("onnxruntime", marks=pytest.mark.library("onnx", "onnxruntime")),
    ],
)


@pytest.mark.parametrize("case", CASES)
@of_each_framework
@pytest.mark.parametrize("kind", ["attend", "bias", "bias added to another"])
def test_attention_of_other_frameworks(framework, case, kind):
    mask, q_len, k_len = CASES[case]
    arrays = random_arrays(q_len, k_len)
    added = None
    if kind == "bias added to another":
        added = alibi_bias(HEADS, q_len, k_len, dtype=np.float32).transpose(2, 0, 1)[None]

    def convert(xp, dtype):
        if kind == "attend":
            return to_attend(mask, q_len, k_len, xp=xp)
        return mask_to_bias(~to_attend(mask, q_len, k_len, xp=xp), dtype)

    theirs = FRAMEWORKS[framework](arrays, convert, added)
    assert_close_where_visible(
        theirs, attention(*arrays, mask=mask, bias=added), mask, q_len, k_len
    )


@of_each_framework
def test_queries_at_other_positions_than_the_last_in_other_frameworks(framework):
    mask, q_len, k_len, offset = CausalMask() | SlidingWindowMask(2, 0), 3, 8, 1
    arrays = random_arrays(q_len, k_len)
    theirs = FRAMEWORKS[framework](
        arrays, lambda xp, _: to_attend(mask, q_len, k_len, offset=offset, xp=xp), None
    )
    np.testing.assert_allclose(theirs, attention(*arrays, mask=mask, offset=offset), atol=2e-6)


@pytest.mark.library("jax", "keras")
@pytest.mark.parametrize("case", CASES)
def test_attention_of_keras(monkeypatch, tmp_path, case):
    """The layer of Keras projects queries, keys, values and outputs."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    import keras

    mask, q_len, k_len = CASES[case]
    rng = np.random.default_rng(0)
    queries, keys = (
        rng.standard_normal((2, n, HEADS * HEAD)).astype("float32") for n in (q_len, k_len)
    )
    weights = [
        0.3 * rng.standard_normal(shape).astype("float32")
        for shape in 3 * [(HEADS * HEAD, HEADS, HEAD)] + [(HEADS, HEAD, HEADS * HEAD)]
    ]
    layer = keras.layers.MultiHeadAttention(HEADS, HEAD, use_bias=False)
    layer.build(queries.shape, keys.shape)
    names = [weight.path.split("/")[-2] for weight in layer.weights]
    assert names == ["query", "key", "value", "attention_output"]
    layer.set_weights(weights)
    attend = to_attend(mask, q_len, k_len)[:, 0]
    theirs = keras.ops.convert_to_numpy(layer(queries, keys, attention_mask=attend))
    projected = [
        np.einsum("bsf,fhd->bhsd", x, weight)
        for x, weight in zip((queries, keys, keys), weights, strict=False)
    ]
    ours = np.einsum("bhsd,hdf->bsf", attention(*projected, mask=mask), weights[-1])
    assert_close_where_visible(theirs[:, None], ours[:, None], mask, q_len, k_len)


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(backend, case):
    mask, q_len, k_len = CASES[case]
    options = {"xp": backend.xp, "device": backend.device}
    dense = mask.dense(q_len, k_len)
    attend = to_attend(mask, q_len, k_len, **options)
    assert attend.shape == (dense.shape[2], 1, q_len, k_len)
    np.testing.assert_array_equal(backend.numpy(attend)[:, 0], ~dense.transpose(2, 0, 1))
    np.testing.assert_array_equal(backend.numpy(from_attend(attend)), dense)
    np.testing.assert_array_equal(backend.numpy(from_attend(attend[:, 0, ...])), dense)
    for dtype in backend.floats:
        dtype = getattr(backend.xp, dtype)  # noqa: PLW2901 - the dtype of this name
        bias = mask_to_bias(~attend, dtype)
        assert bias.dtype == dtype
        expected = np.where(backend.numpy(attend), 0.0, -np.inf)
        np.testing.assert_array_equal(backend.numpy(bias), expected)


def test_arrays_of_a_mask_tell_the_library(backend):
    lengths = backend.array([3, 1])
    mask = PaddingMask(lengths) | CausalMask()
    expected = (PaddingMask([3, 1]) | CausalMask()).dense(2, 3)
    got = from_attend(to_attend(mask, 2, 3))
    np.testing.assert_array_equal(backend.numpy(got), expected)


def test_arrays_are_converted(backend):
    union = CASES["union"][0].dense(4, 6)
    for dense in (union, union[:, :, 0], union[:, :, :1]):
        array = backend.array(dense)
        expected = dense.reshape(4, 6, -1)
        attend = to_attend(array)
        np.testing.assert_array_equal(backend.numpy(attend)[:, 0], ~expected.transpose(2, 0, 1))
        assert attend.shape[1] == 1
    padding = create_padding_mask([2, 4], 4)
    assert to_attend(padding).shape == (2, 1, 1, 4)


def test_from_attend_of_two_three_and_four_axes(backend):
    attend = np.random.default_rng(0).random((2, 1, 3, 4)) < 0.5
    expected = ~attend[:, 0].transpose(1, 2, 0)
    for array, hidden in (
        (attend, expected),
        (attend[:, 0], expected),
        (attend[:1, 0], expected[..., :1]),
        (attend[1, 0], expected[..., 1:]),
    ):
        np.testing.assert_array_equal(backend.numpy(from_attend(backend.array(array))), hidden)


def tokenized(lengths, seq, side):
    """Return the attention mask of a tokenizer, with ones at tokens."""
    rows = [[1] * n + [0] * (seq - n) for n in lengths]
    return np.asarray([row if side == "right" else row[::-1] for row in rows])


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    side=st.sampled_from(["right", "left"]),
    dtype=st.sampled_from(["bool", "uint8", "int32", "int64"]),
)
def test_attention_masks_of_tokenizers(backend, lengths, side, dtype):
    attention_mask = backend.array(tokenized(lengths, 5, side), dtype)
    expected = PaddingMask(lengths, side)
    mask = PaddingMask.from_attention_mask(attention_mask, side=side)
    assert mask.side == side
    np.testing.assert_array_equal(backend.numpy(mask.lengths), lengths)
    np.testing.assert_array_equal(backend.numpy(mask.dense(2, 5)), expected.dense(2, 5))
    if backend.name == "numpy":
        assert mask == expected
        assert mask.key_ranges(0, 2, 5) == expected.key_ranges(0, 2, 5)


def padding_by_sum(attention_mask):
    """Return the lengths from an attention mask, which may have its padding on the wrong side."""
    return PaddingMask.from_attention_mask(attention_mask).lengths


@pytest.mark.parametrize(
    "wrong",
    [[[0, 1, 1]], [[1, 0, 1]], [[2, 1, 0]]],
    ids=["wrong side", "a gap", "numbers other than 0 and 1"],
)
def test_attention_masks_are_checked_where_they_can_be_read(backend, wrong):
    attention_mask = backend.array(wrong)
    if backend.name == "dask":
        import dask

        def computed(*_, **__):
            pytest.fail("the values were computed")

        with dask.config.set(scheduler=computed):
            lengths = padding_by_sum(attention_mask)
        np.testing.assert_array_equal(lengths.compute(), np.sum(wrong, axis=1))
        return
    if backend.name.startswith("jax"):
        import jax

        lengths = jax.jit(padding_by_sum)(attention_mask)
        np.testing.assert_array_equal(backend.numpy(lengths), np.sum(wrong, axis=1))
    with pytest.raises(ValueError, match="`attention_mask` must"):
        padding_by_sum(attention_mask)


@pytest.mark.library("jax")
def test_an_attention_mask_inside_jit():
    import jax

    tokens = tokenized([2, 4], 4, "left")

    @jax.jit
    def attend(attention_mask):
        mask = CausalMask() | PaddingMask.from_attention_mask(attention_mask, side="left")
        return to_attend(mask, 4)

    expected = CausalMask() | PaddingMask([2, 4], "left")
    np.testing.assert_array_equal(attend(tokens), to_attend(expected, 4))


@pytest.mark.library("dask")
def test_an_attention_mask_whose_lengths_dask_does_not_know():
    from dask import array

    attention_mask = tokenized([2, 0, 3], 3, "right")
    rows = array.from_array(attention_mask)[array.from_array(attention_mask).sum(axis=1) > 0]
    mask = PaddingMask.from_attention_mask(rows)
    np.testing.assert_array_equal(mask.dense(1, 3).compute(), PaddingMask([2, 3]).dense(1, 3))
    columns = array.from_array(attention_mask)[:, array.from_array(attention_mask).sum(axis=0) > 0]
    lengths = PaddingMask.from_attention_mask(columns).lengths
    np.testing.assert_array_equal(lengths.compute(), [2, 0, 3])


def test_blocks_of_keys_are_in_ascending_order_and_whole_where_all_see_them(backend):
    """Lengths on a device are not read: only the causal mask gives full blocks."""
    mask = CausalMask() & PaddingMask(backend.array([0]))
    tables = to_block_ranges(mask, 80, block_size=2)
    np.testing.assert_array_equal(tables.full_kv_num_blocks[0, 0], np.arange(40))
    for i, row in enumerate(tables.full_kv_indices[0, 0]):
        np.testing.assert_array_equal(row, [*range(i), *[0] * (40 - i)])
    np.testing.assert_array_equal(tables.kv_indices[0, 0, :, 0], np.arange(40))


def test_an_attention_mask_without_tokens_or_sequences():
    assert PaddingMask.from_attention_mask(np.zeros((2, 3), int)) == PaddingMask([0, 0])
    assert PaddingMask.from_attention_mask(np.zeros((2, 0), int)) == PaddingMask([0, 0])
    assert PaddingMask.from_attention_mask(np.zeros((0, 3), int)) == PaddingMask([])


@st.composite
def random_masks(draw):
    """Draw a mask of up to 12 keys, combined or not."""
    small = st.integers(0, 4)
    lengths = st.lists(st.integers(0, 4), min_size=2, max_size=2)
    rules = st.one_of(
        st.builds(CausalMask, mask_diagonal=st.booleans()),
        st.builds(SlidingWindowMask, st.none() | small, st.none() | small),
        st.builds(PaddingMask, lengths, st.sampled_from(["right", "left"])),
        st.builds(PrefixMask, lengths),
        st.builds(SegmentMask, st.lists(st.integers(-1, 2), min_size=12, max_size=12)),
        st.builds(ChunkedMask, st.integers(1, 5)),
        st.builds(DilatedMask, st.integers(1, 5)),
        st.builds(GlobalMask, st.lists(st.integers(0, 11), max_size=2)),
        st.just(FunctionMask(lambda q_pos, k_pos: (q_pos + k_pos) % 3 == 0)),
    )
    mask, other = draw(rules), draw(rules)
    return draw(st.sampled_from([mask, ~mask, mask | other, mask & other, mask & ~other]))


def partial_and_full(tables):
    """Return the partial and full blocks of each sequence and block of queries."""
    batch, _, rows = tables.kv_num_blocks.shape
    pairs = tables[:2], tables[2:]
    return [
        [
            tuple(index[b, 0, i, : count[b, 0, i]].tolist() for count, index in pairs)
            for i in range(rows)
        ]
        for b in range(batch)
    ]


@given(
    mask=random_masks(),
    k_len=st.integers(4, 12),
    queries=st.tuples(st.integers(0, 11), st.integers(0, 11)),
    block_size=st.integers(1, 13),
)
def test_blocks_are_seen_in_part_or_as_a_whole(mask, k_len, queries, block_size):
    offset, last = sorted(min(position, k_len - 1) for position in queries)
    q_len = last + 1 - offset
    tables = to_block_ranges(mask, q_len, k_len, block_size=block_size, offset=offset)
    visible = ~mask.dense(q_len, k_len, offset=offset)
    blocks = partial_and_full(tables)
    assert all(table.dtype == np.int32 for table in tables)
    assert tables.kv_indices.shape[2:] == (-(-q_len // block_size), -(-k_len // block_size))
    for b in range(visible.shape[2]):
        for i, start in enumerate(range(0, q_len, block_size)):
            partial, full = blocks[b if len(blocks) > 1 else 0][i]
            for j, first in enumerate(range(0, k_len, block_size)):
                block = visible[start : start + block_size, first : first + block_size, b]
                is_full = block.shape == (block_size, block_size) and block.all()
                assert (j in full) == is_full
                assert (j in partial) == (block.any() and not is_full)


def test_blocks_of_several_sequences():
    mask = CausalMask() | PaddingMask([4, 1])
    tables = to_block_ranges(mask, 6, block_size=2)
    assert partial_and_full(tables) == [
        [([0], []), ([1], [0]), ([], [0, 1])],
        [([0], []), ([0], []), ([0], [])],
    ]


def test_blocks_do_not_need_values(backend):
    mask = CausalMask() | PaddingMask(backend.array([3, 1]))
    blocks = partial_and_full(to_block_ranges(mask, 4, block_size=2))
    if backend.name == "numpy":
        assert blocks == [[([0], []), ([1], [0])], [([0], []), ([0], [])]]
    else:
        assert blocks == [[([0], []), ([0, 1], [])]]


@pytest.mark.library("torch")
def test_flex_attention_takes_the_blocks():
    import torch
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask

    mask = CausalMask() | SlidingWindowMask(200, 0) | PaddingMask([500, 380])

    def mask_mod(b, _, q, k):
        return (k <= q) & (k >= q - 200) & (k < torch.asarray([500, 380])[b])

    tables = map(torch.asarray, to_block_ranges(mask, 512, block_size=64))
    ours = BlockMask.from_kv_blocks(*tables, BLOCK_SIZE=64, mask_mod=mask_mod)
    theirs = create_block_mask(mask_mod, 2, 1, 512, 512, device="cpu", BLOCK_SIZE=64)
    assert torch.equal(ours.to_dense(), theirs.to_dense())
    for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
