"""Masks and biases that are values give what their arrays give, and visit few blocks."""

from functools import partial
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import positional_embeddings.attention.plan as planning
from backends import peak_memory
from mask_strategies import BATCH, element_by_element, masks
from positional_embeddings import (
    ALiBiBias,
    CausalMask,
    ChunkedMask,
    FIREBias,
    FunctionMask,
    GlobalMask,
    KERPLEBias,
    Mask,
    PaddingMask,
    PrefixMask,
    RelativePE,
    RoPEMultiHeadAttention,
    SandwichBias,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    alibi_bias,
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.algorithms import blocks
from positional_embeddings.attention.at_positions import ConcretePositions, ExplicitPositions
from positional_embeddings.attention.plan import plan_blocks

HEADS, HEAD = 2, 3
# From (batch, heads, seq, head) to other layouts, with their axes of features and sequence.
LAYOUTS = {
    "(batch, heads, seq, head)": ((0, 1, 2, 3), -1, -2),
    "(batch, seq, heads, head)": ((0, 2, 1, 3), -1, 1),
    "(head, seq, heads, batch)": ((3, 2, 1, 0), 0, 1),
    "(seq, head, heads, batch)": ((2, 3, 1, 0), 1, 0),
    "(head, seq, heads * batch)": ((3, 2, 1, 0), 0, 1),
}


T5 = pytest.param("T5", marks=pytest.mark.needs("searchsorted"))
BIASES = ["ALiBi", "ALiBi of both sides", "KERPLE", "FIRE", "Sandwich", T5, "Shaw"]


def in_layout(array, layout):
    """Move the axes of (batch, heads, seq, head)."""
    moved = np.transpose(array, LAYOUTS[layout][0])
    return moved.reshape(*moved.shape[:2], -1) if "*" in layout else moved


def compiled(backend):
    """Whether each block is compiled, which takes a while."""
    return backend.lazy or backend.name.startswith("jax")


def inputs(rng, q_len, k_len):
    shapes = [(BATCH, HEADS, n, HEAD) for n in (q_len, k_len, k_len)]
    return [rng.standard_normal(shape) for shape in shapes]


def close(backend, got, expected):
    tolerance = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(got), expected, rtol=tolerance, atol=tolerance)


@given(data=st.data(), k_len=st.integers(1, 9), layout=st.sampled_from(list(LAYOUTS)))
def test_a_mask_value_is_its_array_in_every_layout(backend, data, k_len, layout):
    q_len = data.draw(st.integers(1, k_len))
    offset = data.draw(st.none() | st.integers(0, k_len - q_len))
    mask, hides = data.draw(masks(k_len, backend))
    if "PaddingMask" in repr(mask):  # where queries are fewer than keys, most are refused
        q_len, offset = k_len, None
    block_size = None if compiled(backend) else data.draw(st.none() | st.integers(1, 4))
    most = data.draw(st.sampled_from([4, 32, 2**18]))
    arrays = inputs(np.random.default_rng(k_len), q_len, k_len)

    start = k_len - q_len if offset is None else offset
    dense = np.moveaxis(element_by_element(hides, q_len, k_len, start), 2, 0)[:, None]
    axes = {"feature_axis": -1, "seq_axis": -2}
    expected = scaled_dot_product_attention(*arrays, mask=dense, **axes)

    _, feature, seq = LAYOUTS[layout]
    own = [backend.array(in_layout(array, layout)) for array in arrays]
    axes = {"feature_axis": feature, "seq_axis": seq, "offset": offset}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_SCORES_ON_HOST", most if not compiled(backend) else 2**18)
        if data.draw(st.booleans()):
            cut_as_far_as_possible(patch)
        got = scaled_dot_product_attention(*own, mask=mask, block_size=block_size, **axes)
    close(backend, got, in_layout(expected, layout))

    weights = backend.numpy(attention_weights(*own[:2], mask=mask, **axes))
    if layout == "(batch, heads, seq, head)":
        assert not weights[np.broadcast_to(dense, weights.shape)].any()


def cut_as_far_as_possible(patch):
    """Cut blocks of few queries, too, and let them meet few keys together."""
    for name, value in {"_SLICE_COST": 0, "_BLOCK_COST": 0, "_KEY_MULTIPLE": 1}.items():
        patch.setattr(planning, name, value)


@pytest.mark.parametrize("case", ["causal", "causal | window", "causal | padding"])
def test_parts_of_a_block_go_on_with_what_it_has_met(backend, case, monkeypatch):
    """Queries that meet keys together, then halves of them others, and halves of these."""
    cut_as_far_as_possible(monkeypatch)
    masks_by_name = {
        "causal": CausalMask(),
        "causal | window": CausalMask() | SlidingWindowMask(13, 0),
        "causal | padding": CausalMask() | PaddingMask([16, 11]),
    }
    mask = masks_by_name[case]
    assert max(depth(block) for block in plan_blocks(16, 16, 8, 64, *reach_of(mask, 16))) >= 2
    arrays = inputs(np.random.default_rng(0), 16, 16)
    dense = np.moveaxis(mask.dense(16), 2, 0)[:, None]
    axes = {"feature_axis": -1, "seq_axis": -2}
    expected = scaled_dot_product_attention(*arrays, mask=dense, **axes)
    # Scores that need no maximum, and scores that do.
    own = [backend.array(x) for x in arrays]
    got = scaled_dot_product_attention(*own, mask=mask, block_size=8, **axes)
    close(backend, got, expected)
    expected = scaled_dot_product_attention(*arrays, mask=dense, scale=100.0, **axes)
    got = scaled_dot_product_attention(*own, mask=mask, block_size=8, scale=100.0, **axes)
    close(backend, got, expected)


def depth(block):
    return max((1 + depth(part) for part in block.parts), default=0)


def bias_values(backend):
    """Return bias values for two heads."""
    ones, table = backend.array([1.0, 0.5]), backend.array(np.arange(8.0).reshape(4, 2))
    fire = [backend.array(x) for x in ([1.0], [0.5], [[1.0], [-1.0]], [0.0, 1.0])]
    return {
        "ALiBi": ALiBiBias(2),
        "ALiBi of both sides": ALiBiBias(2, causal=False),
        "KERPLE": KERPLEBias(ones, ones),
        "FIRE": FIREBias(*fire, c=0.1, threshold=4.0),
        "Sandwich": SandwichBias(2, dim=4),
        "T5": T5Bias(2, bidirectional=False, num_buckets=4, max_distance=8, embeddings=table),
        "Shaw": RelativePE(2, 2, embeddings=backend.array(np.arange(10.0).reshape(5, 2))),
    }


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", BIASES)
def test_a_bias_value_is_its_array_in_every_layout(backend, layout, kind):
    value = bias_values(backend)[kind]
    q_len, k_len, offset = 3, 6, 2
    options = {"offset": offset}
    if kind in ("ALiBi", "ALiBi of both sides", "Sandwich"):
        dtype = getattr(backend.xp, backend.wide)
        options |= {"xp": backend.xp, "device": backend.device, "dtype": dtype}
    dense = backend.numpy(value(q_len, k_len, **options))
    if kind.startswith("ALiBi"):
        array = alibi_bias(2, q_len, k_len, causal=value.causal, **options)
        np.testing.assert_array_equal(backend.numpy(array), dense)
    arrays = inputs(np.random.default_rng(0), q_len, k_len)
    mask = CausalMask() | PaddingMask([6, 4])
    hidden = np.moveaxis(mask.dense(q_len, k_len, offset=offset), 2, 0)[:, None]
    expected = scaled_dot_product_attention(
        *arrays, mask=hidden, bias=np.moveaxis(dense, 2, 0)[None], feature_axis=-1, seq_axis=-2
    )
    _, feature, seq = LAYOUTS[layout]
    own = [backend.array(in_layout(array, layout)) for array in arrays]
    axes = {"feature_axis": feature, "seq_axis": seq, "offset": offset}
    for size in (None,) if compiled(backend) else (None, 2):
        got = scaled_dot_product_attention(*own, mask=mask, bias=value, block_size=size, **axes)
        close(backend, got, in_layout(expected, layout))


@pytest.mark.parametrize("kind", BIASES)
def test_bias_values_compare(backend, kind):
    first, second = (bias_values(backend)[kind] for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert sum(first == value for value in bias_values(backend).values()) == 1
    fire = [backend.array(x) for x in ([1.0], [0.5], [[1.0], [-1.0]], [0.0, 1.0])]
    assert FIREBias(*fire, c=0.1, threshold=4.0) != FIREBias(*fire, c=0.2, threshold=4.0)


def test_a_bias_value_alone(backend):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, n, 2)) for n in (2, 5, 5))
    expected = scaled_dot_product_attention(q, k, v, bias=alibi_bias(2, 2, 5, causal=False))
    own = [backend.array(x) for x in (q, k, v)]
    close(backend, scaled_dot_product_attention(*own, bias=ALiBiBias(2, causal=False)), expected)


def test_values_meet_grouped_queries(backend):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 5, 3))
    k, v = rng.standard_normal((2, 2, 2, 5, 3))
    axes = {"feature_axis": -1, "seq_axis": -2, "enable_gqa": True}
    mask = CausalMask() | PaddingMask([5, 3])
    dense = np.moveaxis(mask.dense(5), 2, 0)[:, None]
    bias = np.moveaxis(alibi_bias(4, 5), 2, 0)[None]
    expected = scaled_dot_product_attention(q, k, v, mask=dense, bias=bias, **axes)
    own = [backend.array(x) for x in (q, k, v)]
    got = scaled_dot_product_attention(*own, mask=mask, bias=ALiBiBias(4), **axes)
    close(backend, got, expected)
    # One axis, of heads: it is not merged with a batch.
    one = [backend.array(np.moveaxis(x[0], (0, 1, 2), (2, 1, 0))) for x in (q, k, v)]
    got = scaled_dot_product_attention(*one, mask=CausalMask(), bias=ALiBiBias(4), enable_gqa=True)
    expected = scaled_dot_product_attention(q, k, v, mask=CausalMask(), bias=ALiBiBias(4), **axes)
    close(backend, got, np.moveaxis(expected[0], (0, 1, 2), (2, 1, 0)))


def test_multi_head_attention_takes_values(backend):
    own = {"xp": backend.xp, "device": backend.device}
    layer = RoPEMultiHeadAttention(8, 2, rng=0, **own)
    x = backend.array(np.random.default_rng(1).standard_normal((8, 6, 2)).astype("float32"))
    mask = CausalMask() | PaddingMask([6, 4])
    value = backend.numpy(layer(x, mask, bias=ALiBiBias(2)))
    bias = alibi_bias(2, 6, dtype=backend.xp.float32, **own)
    np.testing.assert_allclose(
        value, backend.numpy(layer(x, mask.dense(6, **own), bias=bias)), atol=2e-6
    )


def test_what_a_function_mask_gets_are_positions(backend):
    """After cached keys, where a bare function gets indices."""
    q, k = (backend.array(np.ones((2, n))) for n in (1, 3))
    v = backend.array([[0.0, 1.0, 2.0]])
    value = FunctionMask(lambda q_pos, k_pos: k_pos != q_pos)
    close(backend, scaled_dot_product_attention(q, k, v, mask=value), [[2.0]])
    close(backend, scaled_dot_product_attention(q, k, v, mask=value, offset=1), [[1.0]])
    bare = scaled_dot_product_attention(q, k, v, mask=lambda q_idx, k_idx: k_idx != q_idx)
    close(backend, bare, [[0.0]])


@pytest.mark.parametrize("block_size", [None, 4])
def test_hidden_keys_do_not_matter(backend, block_size):
    """Whether they are passed over, or in a block that is computed."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 40))
    mask = CausalMask() | SlidingWindowMask(5, 0)
    expected = scaled_dot_product_attention(q, k, v, mask=mask.dense(40)[..., 0])
    k[:, :3], v[:, :3] = np.nan, np.inf
    clean = slice(8, None)
    got = scaled_dot_product_attention(
        *(backend.array(x) for x in (q, k, v)), mask=mask, block_size=block_size
    )
    close(backend, got[:, clean], expected[:, clean])
    # The next token of a sequence whose window has left them behind.
    got = scaled_dot_product_attention(
        *(backend.array(x) for x in (q[:, -1:], k, v)), mask=mask, block_size=block_size
    )
    close(backend, got, expected[:, -1:])


@pytest.mark.parametrize("q_len", [1, 64])
def test_scattered_tokens_are_gathered(backend, q_len):
    """More queries and more keys than are cut out one by one."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, n)) for n in (q_len, 64, 64))
    mask = SlidingWindowMask(1, 0) & GlobalMask(range(2, 60, 5))
    assert len(mask.key_ranges(63, 64, 64)) == 13
    expected = scaled_dot_product_attention(q, k, v, mask=mask.dense(q_len, 64)[..., 0])
    own = [backend.array(x) for x in (q, k, v)]
    for size in (None,) if compiled(backend) else (None, 16):
        got = scaled_dot_product_attention(*own, mask=mask, block_size=size)
        close(backend, got, expected)


@pytest.mark.parametrize("block_size", [None, 2])
def test_queries_that_see_nothing_get_zeros(backend, block_size):
    x = backend.array(np.ones((3, 4)))
    mask = PaddingMask([0]) | CausalMask()
    got = scaled_dot_product_attention(x, x, x, mask=mask, block_size=block_size)
    close(backend, got, np.zeros((3, 4)))
    none = scaled_dot_product_attention(x, x[:, :1], x[:, :1], mask=mask, block_size=block_size)
    close(backend, none, np.zeros((3, 4)))


def test_empty_arrays(backend):
    q, k = (backend.array(np.ones((3, n))) for n in (0, 4))
    assert scaled_dot_product_attention(q, k, k, mask=CausalMask()).shape == (3, 0)
    documents = SegmentMask(np.asarray([0, 0, 1, 1]), np.zeros(0, dtype=int))
    for mask in (CausalMask(), CausalMask() | documents):
        close(backend, scaled_dot_product_attention(k, q, q, mask=mask), np.zeros((3, 4)))
    got = scaled_dot_product_attention(k, q, q, bias=ALiBiBias(1), block_size=2)
    close(backend, got, np.zeros((3, 4)))


@pytest.mark.only_on("torch", "jax")
def test_gradients_flow_through_the_blocks_that_are_left(backend):
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 12)).astype("float32")
    mask = CausalMask(mask_diagonal=True) | SlidingWindowMask(3, 0)
    values = {"value": mask, "array": backend.array(mask.dense(12)[..., 0])}
    gradients = {}
    for name, given_mask in values.items():

        def loss(*arrays, mask=given_mask):
            output = scaled_dot_product_attention(*arrays, mask=mask, block_size=4)
            return (output**2).sum()

        arrays = [backend.array(x) for x in (q, k, v)]
        if backend.name == "torch":
            arrays = [array.requires_grad_() for array in arrays]
            loss(*arrays).backward()
            gradients[name] = [array.grad.numpy() for array in arrays]
        else:
            import jax

            gradients[name] = jax.grad(loss, argnums=(0, 1, 2))(*arrays)
    for got, expected in zip(gradients["value"], gradients["array"], strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.only_on("torch", "jax")
def test_masks_come_in_blocks_without_writing_to_arrays(backend, monkeypatch):
    """Where a library records gradients or traces: of all scores at once training takes longer."""
    monkeypatch.setattr(blocks, "MAX_SCORES_ON_HOST", 64)
    asked = count_blocks(monkeypatch)
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 64))
    own = [backend.array(x) for x in (q, k, v)]
    if backend.name == "torch":
        own[0].requires_grad_()
    for mask in (CausalMask() | SlidingWindowMask(3, 0), CausalMask()):
        asked.clear()
        got = scaled_dot_product_attention(*own, mask=mask)
        assert len(asked) > 1
        close(backend, got, scaled_dot_product_attention(q, k, v, mask=mask.dense(64)[..., 0]))


@pytest.mark.parametrize("heads", [2, 3])
def test_blocks_of_heads_with_masks_and_biases_of_their_own(heads):
    """So many scores that each head has blocks of its own."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, heads, 600, 4))
    mask = rng.random((heads, 600, 600)) < 0.5
    bias = rng.standard_normal((heads, 600, 600))
    axes = {"feature_axis": -1, "seq_axis": -2}
    for of_heads in ({"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias[:1]}):
        got = scaled_dot_product_attention(q, k, v, **of_heads, **axes)
        for head in range(heads):
            own = {name: x[head % x.shape[0]] for name, x in of_heads.items()}
            scores = q[head] @ k[head].T / 2 + own.get("bias", 0)
            weights = np.where(own.get("mask", False), 0, np.exp(scores))
            expected = weights @ v[head] / weights.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(got[head], expected, atol=1e-12)


@given(data=st.data(), n=st.integers(1, 40), cut=st.booleans())
def test_blocks_cover_what_is_visible(data, n, cut):
    mask, hides = data.draw(masks(n))
    size = data.draw(st.none() | st.integers(1, 9))
    most = data.draw(st.sampled_from([16, 64, 1024]))
    visible_keys = data.draw(st.sampled_from([(None, ()), reach_of(mask, n)]))
    visible = ~element_by_element(hides, n, n, 0)
    met = np.zeros((n, n), dtype=int)
    with pytest.MonkeyPatch.context() as patch:
        if cut:
            cut_as_far_as_possible(patch)
        planned = plan_blocks(n, n, size, most, *visible_keys, data.draw(st.integers(0, 20)))
    for block in planned:
        for at_queries, (keys, is_masked, _) in block.blocks():
            for start, stop in keys.ranges:
                assert 0 <= start < stop <= n
                for queries in at_queries.ranges:
                    met[slice(*queries), start:stop] += 1
                    assert is_masked or visible[slice(*queries), start:stop].all()
            assert size is None or keys.size <= size
        assert size is None or block.queries.size <= size
        assert_in_order(block)
    assert set(np.unique(met)) <= {0, 1}
    assert (met == 1)[visible.any(axis=2)].all()


def assert_in_order(block):
    """The parts of a block are its queries, in their order."""
    parts = [list(positions(part.queries)) for part in block.parts]
    if parts:
        assert [*chain(*parts)] == list(positions(block.queries))
    for part in block.parts:
        assert_in_order(part)


def positions(span):
    return chain.from_iterable(range(*own) for own in span.ranges)


def reach_of(mask, n):
    return lambda queries: mask._visible_keys(queries, n), mask._global_queries()


def scores_of(mask, n, rows=8):
    """Return how many scores of each row are computed, and how many of them with a mask."""
    together = masked = 0
    for block in plan_blocks(n, n, None, 2**18, *reach_of(mask, n), rows):
        together += block.count_scores()
        for queries, (keys, is_masked, _) in block.blocks():
            masked += queries.size * keys.size * is_masked
    return together, masked


@pytest.mark.parametrize(
    ("k_len", "block_size", "lengths"),
    [
        (1536, None, [768, 768]),  # the longest of 512 queries
        (1537, None, [513, 513, 511]),
        (1024, None, [512, 512]),
        (1024, 512, [512, 512]),
        (1152, 576, [576, 576]),
    ],
)
def test_blocks_of_keys_have_equal_lengths(k_len, block_size, lengths):
    (block,) = plan_blocks(512, k_len, block_size, 2**18, None, ())
    assert [at.keys.size for at in block.key_blocks] == lengths


def test_global_queries_are_cut_between_them(monkeypatch):
    """They are planned together, but these see keys that are far from each other."""
    cut_as_far_as_possible(monkeypatch)
    ranges = ((0, 1), (100, 101), (200, 201), (300, 301))
    window, _ = reach_of(SlidingWindowMask(4, 4), 400)
    blocks = plan_blocks(400, 400, None, 2**18, window, ranges)[:4]
    assert [block.queries.ranges for block in blocks] == [(own,) for own in ranges]
    assert [block.count_scores() for block in blocks] == [5, 9, 9, 9]


def test_a_mask_that_hides_in_all_blocks_is_planned_as_an_array_is():
    """As of shuffled positions, of which any block has some that are hidden."""
    n = 4096
    positions = np.random.default_rng(0).permutation(n)[:, None]
    known = ConcretePositions.of(positions, positions)
    at, mask = ExplicitPositions(positions, positions, known), CausalMask()
    visible_keys = partial(at.visible_keys, mask), at.global_queries(mask)
    assert plan_blocks(n, n, None, 2**18, *visible_keys) == plan_blocks(n, n, None, 2**18, None, ())


def test_the_number_of_scores_grows_with_the_window():
    window = CausalMask() | SlidingWindowMask(511, 0)
    n = 65_536
    assert scores_of(window, n)[0] <= 1.6 * 512 * n
    wide, masked = scores_of(CausalMask() | SlidingWindowMask(4095, 0), n)
    assert masked <= 0.3 * wide  # a block of 512 queries sees most of its keys with all of them
    # A window of 256 meets 511 keys of a block, and a token meets all keys once and all queries.
    for tokens in (16, 1000):
        scattered = GlobalMask(np.linspace(0, n - 1, tokens).astype(int))
        scores = scores_of(SlidingWindowMask(128, 127) & scattered, n)[0]
        assert scores <= (511 + 2 * tokens) * n
    documents = SegmentMask(np.arange(n) // 512)
    assert scores_of(documents, n) == (512 * n, 0)
    assert scores_of(ChunkedMask(512), n) == (512 * n, 0)
    causal, masked = scores_of(CausalMask(), n)
    assert causal <= 1.01 * n * n / 2
    assert masked <= 0.012 * causal  # 384 keys of a query


def test_many_heads_are_worth_smaller_blocks():
    """A mask is evaluated once for all of them."""
    for mask in (CausalMask(), CausalMask() | SlidingWindowMask(511, 0)):
        many, one = (scores_of(mask, 4096, rows)[0] for rows in (16, 1))
        assert many <= 0.95 * one


def count_blocks(monkeypatch):
    """Return a list that gets the queries and keys of each block that a mask is asked about."""
    asked = []
    between = Mask._block

    def plural(self, queries, keys, *options):
        asked.append((*queries.ranges, keys.ranges))
        return between(self, queries, keys, *options)

    monkeypatch.setattr(Mask, "_block", plural)
    return asked


def test_blocks_that_hide_nothing_are_not_asked_for(monkeypatch):
    asked = count_blocks(monkeypatch)
    x = np.random.default_rng(0).standard_normal((4, 2048)).astype("float32")
    scaled_dot_product_attention(x, x, x, mask=CausalMask())
    # One block on the diagonal for each block of queries.
    assert len(asked) == 4
    assert all(start <= queries[0] for queries, ((start, _), *_) in asked)
    asked.clear()
    scaled_dot_product_attention(x[:, :1], x, x, mask=CausalMask())
    assert not asked  # a next token sees everything


@pytest.mark.parametrize(
    "mask",
    [
        CausalMask() | SlidingWindowMask(511, 0),
        SegmentMask(np.arange(16_384) // 512),
        CausalMask() | (SlidingWindowMask(255, 0) & GlobalMask(range(16))),
    ],
    ids=["window", "documents", "global tokens"],
)
def test_long_sequences_take_little_memory(mask):
    x = np.random.default_rng(0).standard_normal((1, 16_384, 64)).astype("float32")
    axes = {"feature_axis": -1, "seq_axis": -2}
    peak = peak_memory(lambda: scaled_dot_product_attention(x, x, x, mask=mask, **axes))
    assert peak < 20e6 + x.nbytes


def test_many_heads_take_little_memory():
    """As many at a time as one block has room for."""
    x = np.random.default_rng(0).standard_normal((100, 768, 4)).astype("float32")
    axes = {"feature_axis": -1, "seq_axis": -2}
    peak = peak_memory(lambda: scaled_dot_product_attention(x, x, x, **axes))
    assert peak < 20e6  # all scores have 236 MB


@pytest.mark.parametrize("block_size", [None, 2])
@pytest.mark.parametrize(("heads", "batch"), [(2, 0), (0, 2), (0, 0)])
def test_no_sequences_and_no_heads_give_an_empty_output(backend, heads, batch, block_size):
    """As without a mask, where heads and batch share an axis and where they do not."""
    numbers = np.ones(batch, dtype="int64")
    bias = KERPLEBias(*[backend.array(np.ones(heads, dtype="float32"))] * 2)
    cases = [
        {},
        {"bias": bias},
        {"mask": PaddingMask(numbers)},
        {"mask": ~PrefixMask(backend.array(numbers)) | CausalMask()},
        {"mask": SegmentMask(np.zeros((3, batch), dtype="int64")), "bias": bias},
    ]
    layouts = {
        (4, 3, heads * batch): {},
        (batch, heads, 3, 4): {"feature_axis": -1, "seq_axis": -2},
    }
    for shape, axes in layouts.items():
        q = backend.array(np.ones(shape, dtype="float32"))
        for case in cases:
            out = scaled_dot_product_attention(q, q, q, block_size=block_size, **case, **axes)
            assert tuple(out.shape) == shape
            if block_size is None:
                assert 0 in attention_weights(q, q, **case, **axes).shape


def test_no_query_heads_share_key_heads(backend):
    q, k = (backend.array(np.ones((n, 3, 4), dtype="float32")) for n in (0, 2))
    axes = {"feature_axis": -1, "seq_axis": -2}
    got = scaled_dot_product_attention(q, k, k, enable_gqa=True, **axes)
    assert tuple(got.shape) == (0, 3, 4)


def test_no_sequences_for_queries_that_are_there(backend):
    q = backend.array(np.ones((4, 3, 2), dtype="float32"))
    what = r"^`mask` must be for a number of sequences that divides axis 2 of `q`, 2"
    with pytest.raises(ValueError, match=what):
        scaled_dot_product_attention(q, q, q, mask=PaddingMask([]))


def test_a_block_of_two_documents_is_cut_between_them(monkeypatch):
    n = 512
    mask = SegmentMask(np.arange(n) // 256)
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, n, 1))
    asked = count_blocks(monkeypatch)
    got = scaled_dot_product_attention(q, k, v, mask=mask, block_size=n)
    assert not asked  # each half sees all keys of its document, and no others
    expected = scaled_dot_product_attention(q, k, v, mask=mask.dense(n))
    np.testing.assert_allclose(got, expected, atol=1e-13)


def test_a_mask_of_sequences_needs_no_axis_of_heads(backend):
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 5, 3))
    hidden = np.arange(5) >= np.asarray([5, 3])[:, None, None]
    axes = {"feature_axis": -1, "seq_axis": -2}
    expected = scaled_dot_product_attention(q, k, v, mask=hidden, **axes)
    own = [backend.array(x) for x in (q, k, v)]
    got = scaled_dot_product_attention(*own, mask=PaddingMask([5, 3]), **axes)
    close(backend, got, expected)
