"""The caches of all layers give what each layer gives for whole sequences."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import AttentionLayer, CausalMask, KVCache, RoPE, SlidingWindowMask

# Axes of features and sequence, and where batch, heads, sequence and features are.
LAYOUTS = {
    "(batch, heads, seq, head)": (-1, -2, (0, 1, 2, 3)),
    "(batch, seq, heads, head)": (-1, 1, (0, 2, 1, 3)),
    "(head, seq, heads, batch)": (0, 1, (3, 2, 1, 0)),
}
LAST = {"feature_axis": -1, "seq_axis": -2}


def layers_of(feature_axis, seq_axis, sections=None):
    """Return layers that see all tokens, a window of three, and one of more than there are."""
    axes = {"feature_axis": feature_axis, "seq_axis": seq_axis}
    rope = RoPE(8, 64, sections=sections, **axes)
    latent = RoPE(4, 64, sections=sections and (1, 1), **axes)
    causal, window = CausalMask(), SlidingWindowMask(2, 0)
    return [
        AttentionLayer(4, 8, num_kv_heads=2, rope=rope, mask=causal, softcap=3.0, **axes),
        AttentionLayer(
            2, 8, rope=rope, mask=causal | window, window=3, scale=0.5, has_sinks=True, **axes
        ),
        AttentionLayer(2, 6, value_size=3, rope=None if sections else latent, mask=causal, **axes),
        AttentionLayer(
            2, 8, bias=pe.ALiBiBias(2), mask=causal | pe.SlidingWindowMask.of(50), window=50, **axes
        ),
    ]


def tokens_of(layers, batch, count, seed=0):
    """Return queries, keys and values of each layer, (batch, heads, seq, features)."""
    rng = np.random.default_rng(seed)
    return [
        [
            rng.standard_normal((batch, heads, count, size), dtype=np.float32)
            for heads, size in (
                (layer.num_heads, layer.head_size),
                (layer.num_kv_heads, layer.head_size),
                (layer.num_kv_heads, layer.value_size),
            )
        ]
        for layer in layers
    ]


def sinks_of(layer, array=np.asarray):
    sinks = np.linspace(-1, 1, layer.num_heads, dtype=np.float32)
    return array(sinks) if layer.has_sinks else None


def wholes(layers, tokens, **options):
    """Return what each layer makes of whole sequences, in the layout with features last."""
    return [
        layer(*qkv, sinks=sinks_of(layer), **options)
        for layer, qkv in zip(layers, tokens, strict=True)
    ]


MASKS = [[[1, 1, 0, 1], [0, 0, 1, 1]], [[1, 1], [1, 0]], [[1], [1]], [[0, 1], [1, 1]]]


@pytest.mark.only_on(
    "numpy", "strict-device1", "torch", "dask", "cupy"
)  # JAX compiles for each length
@pytest.mark.parametrize(
    ("layout", "chunks"), [*zip(LAYOUTS, ([5, 1, 2], [1, 6], MASKS), strict=True)], ids=str
)
def test_steps_give_what_whole_sequences_give(backend, layout, chunks):
    """Prompts and tokens, padded on either side and between, in layers with rings and without."""
    feature_axis, seq_axis, order = LAYOUTS[layout]
    layers, plain = layers_of(feature_axis, seq_axis), layers_of(-1, -2)
    tokens = tokens_of(plain, 2, 12)
    expected = wholes(plain, tokens)
    on = {"xp": backend.xp, "dtype": backend.xp.float32, "device": backend.device}
    cache, before = KVCache.empty(layers, 2, 12, **on), np.zeros(2, dtype=int)
    assert [slots.capacity for slots in cache._form.slots] == [12, 3]
    for chunk in chunks:
        kept = np.ones((2, chunk), dtype=int) if isinstance(chunk, int) else np.asarray(chunk)
        at = np.maximum(0, before[:, None] + np.cumsum(kept, axis=1) - 1)
        cache, step = cache.step(chunk)
        for number, layer in enumerate(layers):
            rows = np.arange(2)[:, None]
            new = [x.swapaxes(1, 2)[rows, at].swapaxes(1, 2) for x in tokens[number]]
            got = step.attend(
                number,
                *(backend.array(x.transpose(order)) for x in new),
                sinks=sinks_of(layer, backend.array),
            )
            got = backend.numpy(got).transpose(np.argsort(order))
            for row, token in np.argwhere(kept):
                want = expected[number][row, :, at[row, token]]
                np.testing.assert_allclose(got[row, :, token], want, atol=2e-6)
        before += kept.sum(axis=1)
    assert np.asarray(cache.lengths).tolist() == before.tolist()


def attended(step, tokens, layers, part):
    """Return what each layer makes of some tokens in a step."""
    return [
        step.attend(number, *(x[:, :, part] for x in qkv), sinks=sinks_of(layer))
        for number, (layer, qkv) in enumerate(zip(layers, tokens, strict=True))
    ]


def test_text_after_images_goes_on_where_they_end():
    """In prompts of two lengths, padded on the left, with positions of each."""
    layers = layers_of(-1, -2, sections=(2, 1, 1))
    tokens = tokens_of(layers, 2, 13)
    given, mask = np.full((3, 2, 10), 77), np.zeros((2, 10), dtype=int)  # padding has no place
    expected, following = [], []
    for row, parts in enumerate([[2, (1, 2, 3), 2], [1, (1, 2, 2), 1]]):
        positions, end = pe.multimodal_positions(parts)
        start = 10 - positions.shape[1]
        mask[row, start:], given[:, row, start:] = 1, positions
        alone = [[x[row : row + 1, :, start:] for x in qkv] for qkv in tokens]
        whole = np.concatenate([positions, np.tile(end + np.arange(3), (3, 1))], axis=1)[:, None]
        expected.append(
            wholes(layers[:2], alone[:2], positions=whole) + wholes(layers[2:], alone[2:])
        )
        following.append(end)
    empty = KVCache.empty(layers, 2, 13, drafts=4, dtype=np.float32)
    cache, step = empty.step(mask, positions=given)
    for part in (slice(0, 10), slice(10, 12), slice(12, 13)):
        if part.start:
            cache, step = cache.step(part.stop - part.start)
            assert step.positions.shape == (3, 2, part.stop - part.start)
        for number, got in enumerate(attended(step, tokens, layers, part)):
            for row in range(2):
                start = max(part.start, 10 - mask[row].sum())
                want = expected[row][number][0, :, start - 13 : part.stop - 13 or None]
                np.testing.assert_allclose(got[row, :, start - part.stop :], want, atol=2e-6)
    with pytest.raises(ValueError, match="`counts` must leave all tokens whose `positions`"):
        cache.rewind(4)
    again = cache.rewind(3).take([1, 0])
    assert again.step(1)[1].positions[:, :, 0].tolist() == [following[::-1]] * 3


@pytest.mark.parametrize("layout", ["(batch, heads, seq, head)", "(head, seq, heads, batch)"])
def test_positions_of_all_shapes(layout):
    feature_axis, seq_axis, _ = LAYOUTS[layout]
    rows = [[0, 2, 4], [1, 3, 9]]
    for sections in (None, (2, 1, 1)):
        layers = layers_of(feature_axis, seq_axis, sections)
        cache = KVCache.empty(layers, 2, 8)
        for given in ([5, 7, 9], rows[:1], rows):
            array = np.asarray(given)
            if array.ndim == 2 and feature_axis == 0:
                array = array.T
            array = np.stack([array, array - 1, array - 2]) if sections else array
            after, step = cache.step(3, positions=array)
            next_ones = after.step(1)[1].positions
            last = np.broadcast_to(np.max(np.atleast_2d(given), axis=1), 2)
            expected = np.reshape(last + 1, (2, 1) if feature_axis else (1, 2))
            np.testing.assert_array_equal(
                next_ones, np.stack([expected] * 3) if sections else expected
            )
            shape = step.positions.shape
            assert shape == (*next_ones.shape[:-2], *shape[-2:])


def test_refused_drafts_and_beams():
    layers = layers_of(-1, -2)
    tokens = tokens_of(layers, 2, 9)
    expected = wholes(layers, tokens)
    cache, step = KVCache.empty(layers, 2, 9, drafts=2, dtype=np.float32).step(4)
    attended(step, tokens, layers, slice(0, 4))
    cache, step = cache.step(2)  # drafts that are refused
    attended(step, tokens_of(layers, 2, 9, seed=1), layers, slice(4, 6))
    cache, step = cache.rewind(2).step(1)
    attended(step, tokens, layers, slice(4, 5))
    beams = cache.take(np.asarray([1, 1, 0]))
    _, step = beams.step(1)
    of_beams = [[x[[1, 1, 0]] for x in qkv] for qkv in tokens]
    for number, got in enumerate(attended(step, of_beams, layers, slice(5, 6))):
        np.testing.assert_allclose(got, expected[number][[1, 1, 0], :, 5:6], atol=2e-6)
    # The buffers of beams are their own.
    _, step = cache.step(1)
    for number, got in enumerate(attended(step, tokens, layers, slice(5, 6))):
        np.testing.assert_allclose(got, expected[number][:, :, 5:6], atol=2e-6)
    cache, step = KVCache.empty(layers, 2, 9, dtype=np.float32).step(4)
    attended(step, tokens, layers, slice(0, 4))
    with pytest.raises(ValueError, match="with `drafts`"):
        cache.rewind(2)


def test_a_cache_of_layers_is_a_value():
    layers = layers_of(-1, -2)
    cache, step = KVCache.empty(layers, 2, 9, dtype=np.float32).step(2)
    text = "KVCache(<4 layers>, capacity=9, lengths=[2, 2]{})"
    assert repr(cache) == text.format(", missing_layers=[0, 1, 2, 3]")
    assert repr(step) == "KVStep(positions=<numpy.ndarray of shape (1, 2)>)"
    attended(step, tokens_of(layers, 2, 2), layers, slice(0, 2))
    assert repr(cache) == text.format("")
    assert cache == copy.deepcopy(cache) == pickle.loads(pickle.dumps(cache))
    assert cache is copy.copy(cache)
    other, step = copy.deepcopy(cache).rewind(1).step(1)
    attended(step, tokens_of(layers, 2, 2, seed=1), layers, slice(1, 2))
    assert cache != other
    assert cache != cache.step(1)[0]
    assert cache != KVCache.empty(layers[:3], 2, 9, dtype=np.float32)


def test_layers_without_attention_have_no_buffers():
    layers = [None, *layers_of(-1, -2)[1:2], None]
    cache, step = KVCache.empty(layers, 2, 9, dtype=np.float32).step(2)
    tokens = tokens_of(layers[1:2], 2, 2)
    assert [slots.window for slots in cache._form.slots] == [3]
    step.attend(1, *tokens[0], sinks=sinks_of(layers[1]))
    assert cache.take([0]).step(1)[0].lengths.tolist() == [3]


@pytest.mark.library("jax")
def test_a_cache_of_layers_is_carried_by_a_loop():
    import jax
    import jax.numpy as jnp

    layers = layers_of(-1, -2)
    tokens = tokens_of(layers, 2, 6)
    expected = wholes(layers, tokens)

    def token(cache, new):
        cache, step = cache.step(1)
        return cache, [
            step.attend(number, *qkv, sinks=sinks_of(layer, jnp.asarray))
            for number, (layer, qkv) in enumerate(zip(layers, new, strict=True))
        ]

    each = [[jnp.moveaxis(x, 2, 0)[:, :, :, None] for x in qkv] for qkv in tokens]
    cache, outputs = jax.lax.scan(token, KVCache.empty(layers, 2, 8, xp=jnp), each)
    assert cache.lengths.tolist() == [6, 6]
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(np.moveaxis(got[:, :, :, 0], 0, 2), want, atol=5e-6)


@pytest.mark.parametrize("size", [4, 9, 64])
def test_tokens_beyond_the_tables_of_a_rope(size):
    """They are computed, as those of `positions=` are."""
    rope = RoPE(8, size, **LAST)
    layers = [AttentionLayer(2, 8, rope=rope, mask=CausalMask(), **LAST)] * 2
    tokens = tokens_of(layers, 1, 12)
    expected = wholes(layers, tokens, positions=np.arange(12))
    cache = KVCache.empty(layers, 1, 12, dtype=np.float32)
    for first in range(12):
        cache, step = cache.step(1)
        got = attended(step, tokens, layers, slice(first, first + 1))
        for one, want in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, want[:, :, first : first + 1], atol=2e-6)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("refused", [None, 0, 9, [[1, 2]]])
def test_a_layer_that_the_first_step_left_out_is_refused(refused, window):
    """Its buffers hold zeros in place of those tokens, also if a step was refused before."""
    ring = AttentionLayer(1, 4, mask=SlidingWindowMask.of(window or 9), window=window, **LAST)
    layers = [ring, ring, AttentionLayer(1, 4, mask=CausalMask(), **LAST)]
    cache = KVCache.empty(layers, 1, 8)
    if refused is not None:
        with pytest.raises(ValueError, match="tokens"):
            cache.step(refused)
    cache, step = cache.step(2)
    x = np.ones((1, 1, 2, 4))
    step.attend(0, x, x, x)
    refused = r"`cache` must hold the tokens of its last step in all layers, .* without layer 1, 2"
    _, step = cache.step(1)
    with pytest.raises(ValueError, match=refused):
        step.attend(0, *[x[:, :, :1]] * 3)
    for use in (copy.deepcopy, pickle.dumps, lambda cache: cache.take([0])):
        with pytest.raises(ValueError, match=refused):
            use(cache)


def of_one_layer(capacity=12, dtype=np.float64, **options):
    """Return a cache of a layer of two heads of four features, and twelve tokens for it."""
    layer = AttentionLayer(2, 4, **{"mask": CausalMask(), **options}, **LAST)
    cache = KVCache.empty([layer, layer], 1, capacity, dtype=dtype)
    return layer, cache, np.random.default_rng(0).standard_normal((3, 1, 2, 12, 4)).astype(dtype)


def by_token(cache, tokens, start=0):
    """Return what both layers of a cache make of tokens one by one, joined; and the last cache."""
    outputs = [[], []]
    for at in range(start, tokens.shape[3]):
        cache, step = cache.step(1)
        for number, output in enumerate(outputs):
            output.append(step.attend(number, *tokens[:, :, :, at : at + 1]))
    first, second = (np.concat(output, axis=2) for output in outputs)
    np.testing.assert_array_equal(first, second)
    return first, cache


@pytest.mark.parametrize(
    "mask",
    [
        None,
        CausalMask(),
        CausalMask() | SlidingWindowMask.of(5),
        CausalMask() | pe.ChunkedMask(4),
        CausalMask() | pe.DilatedMask(2),
        CausalMask() | pe.GlobalMask([0, 7]),
        CausalMask() | pe.SegmentMask(np.repeat([0, 1, 2], 4)),
        CausalMask() | pe.FunctionMask(lambda q, k: (q + k) % 3 == 1),
        CausalMask(mask_diagonal=True),
    ],
    ids=["none", "causal", "window", "chunks", "dilated", "global", "segments", "function", "past"],
)
def test_a_token_sees_what_its_mask_shows_in_each_step(mask):
    """Masks that show all keys at first, or now and then, or never."""
    layer, cache, tokens = of_one_layer(mask=mask)
    if mask is None:  # a token is after all others
        layer = AttentionLayer(2, 4, mask=CausalMask(), **LAST)
    whole = layer(*tokens)
    np.testing.assert_allclose(by_token(cache, tokens)[0], whole, atol=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_a_token_that_sees_what_is_not_finite_gets_nan(which, value):
    layer, cache, tokens = of_one_layer()
    tokens["qkv".index(which), 0, 1, 6, 2] = value
    got, whole = by_token(cache, tokens)[0], layer(*tokens)
    np.testing.assert_allclose(got, whole, atol=1e-15)
    affected = got[0, 1, 6:] if which != "q" else got[0, 1, 6]
    assert np.isnan(affected).all()
    assert np.isfinite(got[0, 0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_token_sums_values_near_the_largest_float(dtype):
    _, cache, tokens = of_one_layer(dtype=dtype)
    largest = 0.99 * np.finfo(dtype).max
    tokens[:2], tokens[2] = 0, largest
    got, _ = by_token(cache, tokens)
    np.testing.assert_allclose(got / largest, np.ones_like(got), rtol=1e-6)


def test_sinks_are_refused_in_each_layer_that_has_none():
    """Also in one whose attention is known from another."""
    _, cache, tokens = of_one_layer()
    _, step = cache.step(1)
    token = tokens[:, :, :, :1]
    expected = step.attend(0, *token)
    with pytest.raises(ValueError, match="`sinks` must be left out"):
        step.attend(1, *token, sinks=np.ones(2))
    np.testing.assert_array_equal(step.attend(1, *token), expected)  # it has stored nothing


def test_tokens_that_do_not_fit_are_refused_in_each_step():
    """Whatever was known to fit in a step before, or in a cache of other sequences."""
    _, cache, tokens = of_one_layer()
    _, cache = by_token(cache, tokens[:, :, :, :2])
    _, step = cache.step(2)
    with pytest.raises(ValueError, match=r"`q` must have shape \(1, 2, 2, 4\), got \(1, 2, 1, 4\)"):
        step.attend(0, *tokens[:, :, :, :1])
    _, step = cache.take([0, 0]).step(1)
    with pytest.raises(ValueError, match=r"`q` must have shape \(2, 2, 1, 4\), got \(1, 2, 1, 4\)"):
        step.attend(0, *tokens[:, :, :, :1])
    _, step = of_one_layer(dtype=np.float32)[1].step(1)
    with pytest.raises(
        TypeError, match="`q` must have the dtype of the cache, float32, got float64"
    ):
        step.attend(0, *tokens[:, :, :, :1])


@pytest.mark.parametrize(
    "combined",
    [lambda grid: CausalMask() | grid, lambda grid: CausalMask() & ~grid, lambda grid: ~grid],
)
def test_a_grid_ends_after_its_last_token(combined):
    _, cache, tokens = of_one_layer(mask=combined(pe.NeighbourhoodMask((2, 3), 5)))
    _, cache = by_token(cache, tokens[:, :, :, :6])
    with pytest.raises(ValueError, match="`shape` must have a token for each query and key"):
        by_token(cache, tokens, 6)


def of_a_window():
    """Return a cache of a layer that sees all tokens and of one with a window of three."""
    masks = {None: CausalMask(), 3: CausalMask() | SlidingWindowMask.of(3)}
    layers = [AttentionLayer(1, 4, mask=masks[n], window=n, **LAST) for n in masks]
    tokens = np.random.default_rng(0).standard_normal((3, 1, 1, 40, 4))
    return layers, KVCache.empty(layers, 1, 40, drafts=1), tokens


def all_attended(cache, tokens, at):
    """Return the next cache, and what both layers make of some tokens."""
    cache, step = cache.step(len(at))
    return cache, [step.attend(number, *tokens[:, :, :, at]) for number in range(2)]


COPIES = {
    "rewind": lambda cache: cache.rewind(0),
    "take": lambda cache: cache.take([0]),
    "deepcopy": copy.deepcopy,
    "pickle": lambda cache: pickle.loads(pickle.dumps(cache)),
}


@pytest.mark.parametrize("prompt", [2, 6])
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_an_earlier_cache_is_refused_before_any_layer_stores(duplicate, prompt):
    """Once a window has lost keys that it needs; the newest one goes on."""
    layers, cache, tokens = of_a_window()
    early, _ = all_attended(cache, tokens, [*range(prompt)])
    cache, _ = all_attended(early, tokens, [20, 21, 22])
    with pytest.raises(ValueError, match=r"`(step|cache)` must (be of the newest|hold its tokens)"):
        all_attended(duplicate(early), tokens, [30])
    cache, got = all_attended(cache, tokens, [23])
    history = [*range(prompt), 20, 21, 22, 23]
    for layer, output in zip(layers, got, strict=True):
        whole = layer(*tokens[:, :, :, history])
        np.testing.assert_allclose(output, whole[:, :, -1:], atol=1e-14)


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_an_earlier_cache_goes_on_in_layers_without_a_window(duplicate):
    layer, cache, tokens = of_one_layer()
    _, early = by_token(cache, tokens[:, :, :, :4])
    later, _ = by_token(early, tokens[:, :, :, 4:8][:, :, :, ::-1])
    got, _ = by_token(duplicate(early), tokens[:, :, :, :6], 4)
    np.testing.assert_allclose(got, layer(*tokens[:, :, :, :6])[:, :, 4:], atol=1e-14)
    assert later.shape == (1, 2, 4, 4)


@pytest.mark.parametrize("sections", [None, (1, 1)])
def test_a_sequence_without_a_token_keeps_its_next_position(sections):
    rope = RoPE(4, 64, sections=sections, **LAST)
    layer = AttentionLayer(1, 4, rope=rope, mask=CausalMask(), **LAST)
    given = lambda rows: np.asarray(rows if sections is None else [rows] * 2)  # noqa: E731
    cache, step = KVCache.empty([layer], 2, 40).step(5)
    step.attend(0, *np.ones((3, 2, 1, 5, 4)))
    later, step = cache.step([[0, 0], [1, 1]], positions=given([[0, 0], [5, 6]]))
    step.attend(0, *np.ones((3, 2, 1, 2, 4)))
    np.testing.assert_array_equal(later.step(1)[1].positions, given([[5], [7]]))
    later = copy.deepcopy(later)
    assert later.rewind([1, 0]).lengths.tolist() == [4, 7]
    later, _ = later.step([[1, 0], [0, 0]], positions=given([[30, 0], [0, 0]]))
    for one in (later, copy.copy(later)):
        np.testing.assert_array_equal(one.step(1)[1].positions, given([[31], [7]]))


@pytest.mark.only_on("numpy", "torch", "jax", "dask")
def test_a_call_that_is_refused_stores_nothing(backend):
    on = {"xp": backend.xp, "dtype": backend.xp.float32, "device": backend.device}
    options = {"mask": CausalMask(), "has_sinks": True, **LAST}
    layer = AttentionLayer(2, 4, **options)
    x = [backend.array(np.ones((1, 2, 3, 4), dtype=np.float32))] * 3
    _, step = KVCache.empty([layer], 1, 8, **on).step(3)
    sinks = backend.array(np.zeros(2, dtype=np.float32))
    for wrong in (
        backend.array(np.zeros(3, dtype=np.float32)),
        backend.array(np.zeros((1, 2), dtype=np.float32)),
        backend.array(np.zeros(2, dtype=np.int32)),
        None,
    ):
        with pytest.raises((ValueError, TypeError), match="`sinks`"):
            step.attend(0, *x, sinks=wrong)
    assert step.attend(0, *x, sinks=sinks).shape == (1, 2, 3, 4)
    layer = AttentionLayer(2, 4, bias=pe.ALiBiBias(3), **LAST)
    cache, step = KVCache.empty([layer], 1, 8, **on).step(3)
    with pytest.raises(ValueError, match="`bias`"):
        step.attend(0, *x)
    assert not backend.numpy(cache._buffers[0][0]).any()


def test_a_step_of_layers_is_made_by_a_cache():
    _, step = KVCache.empty(layers_of(-1, -2), 2, 9).step(2)
    for make in (lambda: type(step)(step.positions), lambda: replace(step, positions=None)):
        with pytest.raises(TypeError, match=r"A KVStep is made by cache\.step"):
            make()
