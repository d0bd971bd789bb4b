"""What calls on CuPy's arrays ask of a GPU, as `gpu_counts` counts it with `--counter`."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

from gpu_counts import Counter
from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    GlobalMask,
    KVCache,
    LearnedPE,
    PaddingMask,
    PrefixMask,
    RelativePE,
    RoPE,
    SlidingWindowMask,
    T5Bias,
    TokenEmbedding,
    apply_rope,
    attention_weights,
    create_causal_mask,
    cyclic_encoding,
    describe_mask,
    fourier_encoding,
    grid_cell_encoding,
    mask_to_bias,
    random_fourier_encoding,
    relative_position_bucket,
    relative_positions,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)

LAST = {"feature_axis": -1, "seq_axis": -2}

pytestmark = pytest.mark.only_on("cupy")


@pytest.fixture
def counter(request):
    """What counts what the third one of equal calls asks for."""
    symbol = request.config.getoption("--counter")
    if symbol is None:
        pytest.skip("launches are counted with --counter")
    import cupy

    return Counter(symbol, cupy)


def test_rotation(backend, counter):
    rope, x = RoPE(8, 100, **LAST), backend.array(np.ones((2, 3, 8)))
    assert counter.of(lambda: rope(x)) == (1, 0, 0, 0, 0)
    positions = backend.array(np.arange(3))
    assert counter.of(lambda: rope(x, positions=positions)) == (2, 0, 0, 0, 0)
    assert counter.of(lambda: rope.tables(positions)) == (1, 0, 0, 0, 0)
    assert counter.of(lambda: rope.shift(x, 5)) == (1, 0, 1, 0, 0)
    parts = RoPE(8, 100, sections=(1, 2, 1), **LAST)
    rows = backend.array(np.ones((3, 3), dtype="int64"))
    assert counter.of(lambda: parts(x, positions=rows)) == (3, 0, 0, 0, 0)
    assert counter.of(lambda: AbsolutePE(8, 100, **LAST)(x)).waits == 0


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_a_token_attends_without_a_copy_of_the_keys(backend, counter, key_heads):
    q = backend.array(np.ones((2, 4, 1, 64)), "float32")
    k = backend.array(np.ones((2, key_heads, 256, 64)), "float32")
    hidden = backend.array(np.arange(256) < 3)[None, None, None, :]
    # The token sees all keys, which a `Mask` tells without being evaluated.
    cases = [
        ({}, 1),
        ({"mask": CausalMask()}, 2),
        ({"mask": hidden}, 2),
        ({"bias": ALiBiBias(4)}, 8),
        ({"mask": hidden, "bias": ALiBiBias(4, causal=False)}, 9),
    ]
    for options, most in cases:
        attend = partial(scaled_dot_product_attention, q, k, k, enable_gqa=True, **LAST, **options)
        launches, waits, _, from_device, products = counter.of(attend)
        assert launches <= most, options
        assert (waits, from_device, products) == (0, 0, 2)
        if "bias" not in options:
            assert sum(counter.allocated(attend)) <= 0.05 * k.nbytes * 4 / key_heads


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_decoding_step_reads_the_keys_that_update_returns_where_they_are(backend, counter, dtype):
    """They are a part of a buffer, which is neither copied nor converted."""
    narrow = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    new = [backend.xp.asarray(np.ones((2, 4, n, 64), narrow)) for n in (300, 1)]
    options = {"num_kv_heads": 4, "head_size": 64, "dtype": new[0].dtype, "xp": backend.xp}
    cache = KVCache.empty(1, 2, 512, **options, **LAST)
    for tokens in new:
        cache, step = cache.step(tokens.shape[-2])
        keys, _ = step.update(0, tokens, tokens)
    attend = partial(scaled_dot_product_attention, new[1], keys, keys, mask=CausalMask())
    attend = partial(attend, positions=step)
    is_half = dtype != "float32"
    # One more product adds what half precision lacks of the weights; one launch rounds the output.
    assert counter.of(attend) == (2 + is_half, 0, 0, 0, 2 + is_half)
    assert sum(counter.allocated(attend)) <= (0.1 if is_half else 0.05) * keys.nbytes


def test_an_update_of_the_online_softmax_is_one_launch(backend, counter):
    """And two products; where keys may be hidden, one more at the end of all keys."""
    x = backend.array(np.ones((1, 2, 64, 8)), "float32")
    q = x[:, :, -16:, :]
    for keys in (32, 64):
        attend = partial(scaled_dot_product_attention, q, x[:, :, -keys:, :], x[:, :, -keys:, :])
        attend = partial(attend, block_size=16, **LAST)
        updates = keys // 16
        assert counter.of(attend) == (updates, 0, 0, 0, 2 * updates)
        assert counter.of(partial(attend, mask=CausalMask())) == (updates + 1, 0, 0, 0, 2 * updates)
    masks = create_causal_mask(64, xp=backend.xp)[..., 0], ALiBiBias(2)
    for name, given in zip(("mask", "bias"), masks, strict=True):
        attend = partial(scaled_dot_product_attention, x, x, x, block_size=16, **LAST)
        _, waits, _, from_device, _ = counter.of(partial(attend, **{name: given}))
        assert (waits, from_device) == (0, 0)


def test_masks_by_lengths_do_not_wait(backend, counter):
    x, lengths = backend.array(np.ones((2, 4, 8, 8))), backend.array([3, 8])
    for kind in (PaddingMask, PrefixMask, GlobalMask):
        assert counter.of(lambda kind=kind: kind(lengths).dense(8)).waits == 0

    def attend():
        return scaled_dot_product_attention(x, x, x, mask=PaddingMask(lengths), **LAST)

    launches, waits, to_device, from_device, _ = counter.of(attend)
    assert launches <= 11
    assert (waits, to_device, from_device) == (0, 0, 0)
    # Numbers are read once, since no mask tells tokens on the wrong side.
    tokens = backend.array([[1, 1, 0], [1, 1, 1]])
    assert counter.of(lambda: PaddingMask.from_attention_mask(tokens)).waits == 1


def test_constants_of_biases_are_kept_on_the_device(backend, counter):
    positions = backend.array(np.arange(9))
    t5 = T5Bias(4, xp=backend.xp, rng=0)
    calls = [
        partial(ALiBiBias(4), 9, xp=backend.xp),
        partial(ALiBiBias(4, causal=False), query_positions=positions),
        partial(t5, 9),
        partial(t5, 1, 9),
        partial(t5, query_positions=positions),
        partial(relative_position_bucket, relative_positions(positions, positions)),
    ]
    for call in calls:
        _, waits, to_device, from_device, _ = counter.of(call)
        assert (waits, to_device, from_device) == (0, 0, 0), call


def test_masks_and_biases(backend, counter):
    table = RelativePE(4, 2, xp=backend.xp, rng=0)
    launches, waits, *_ = counter.of(lambda: table(9))
    assert launches <= 10
    assert waits == 0
    mask = backend.array(np.zeros((40, 40), dtype=bool))
    assert counter.of(lambda: describe_mask(mask)).from_device == 1
    assert counter.of(lambda: describe_mask(CausalMask(), 40)) == (0, 0, 0, 0, 0)


def test_calls_launch_few_kernels_and_wait_for_none(backend, counter):
    x, token = (backend.array(np.ones((2, 4, n, 8), dtype="float32")) for n in (40, 1))
    features_first = [backend.array(np.ones((8, n, 2, 4), dtype="float32")) for n in (1, 40, 40)]
    positions, mask = backend.array(np.arange(40)), create_causal_mask(40, xp=backend.xp)
    rope, plain = RoPE(8, 100, **LAST), RoPE(8, 100, fused=False, **LAST)
    tables = rope.tables(positions, dtype=x.dtype)
    cos, sin = tables.cos, tables.sin
    added, attend = AbsolutePE(8, 100, **LAST), scaled_dot_product_attention
    window = SlidingWindowMask(9, 0)
    most_launches = [
        (partial(rope, token, offset=40), 1),
        (partial(rope, x, inverse=True), 1),
        (partial(tables, x, inverse=True), 1),
        (partial(rope, x, positions=positions * 0.5), 2),
        (partial(rope.shift, x, 5), 1),
        (partial(apply_rope, x, cos, sin, feature_axis=-1), 1),
        (partial(tables, x), 1),
        (partial(plain, x), 8),
        (partial(added, x), 1),
        (partial(added, x, positions=positions), 5),
        (partial(attention_weights, token, x, **LAST), 1),
        (partial(attention_weights, x, x, mask=window, **LAST), 1),
        (partial(attend, token, x, x, mask=window, **LAST), 2),
        (partial(attend, *features_first, feature_axis=0, seq_axis=1), 4),
        (partial(attend, x, x, x, **LAST), 1),
        (partial(attend, x, x, x, mask=CausalMask(), **LAST), 2),
        (partial(attend, x, x, x, mask=CausalMask(), softcap=2.0, return_lse=True, **LAST), 2),
        (partial(create_causal_mask, 40, xp=backend.xp), 3),
        (partial(mask_to_bias, mask), 2),
        (partial(ALiBiBias(4), 40, xp=backend.xp), 5),
        (partial(T5Bias(4, xp=backend.xp, rng=0), 40), 16),
    ]
    for call, most in most_launches:
        launches, waits, _, from_device, _ = counter.of(call)
        assert launches <= most, call
        assert (waits, from_device) == (0, 0), call


def test_embeddings_do_not_wait_for_a_wrong_index(backend, counter):
    layer, embed = (kind(6, 6, xp=backend.xp, rng=0) for kind in (LearnedPE, TokenEmbedding))
    x, wrong = backend.array(np.ones((6, 3))), backend.array([0, 6, -1])
    for call in (partial(layer, x, positions=wrong), partial(embed, wrong)):
        launches, *others = counter.of(call)
        assert launches <= 10
        assert others == [0, 0, 0, 0]
        is_nan = np.isnan(backend.numpy(call()))
        np.testing.assert_array_equal(is_nan, [[False, True, True]] * 6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_encodings_upload_nothing_in_a_later_call(backend, counter, dtype):
    x = backend.array(np.arange(1000), dtype)
    points = backend.array(np.arange(2000).reshape(2, 1000), dtype)
    calls = [
        (partial(sinusoidal_encoding, x, 64), 6),
        (partial(fourier_encoding, x, [7, 365.25]), 6),
        (partial(cyclic_encoding, x, [7, 24, 365.25], [2, 1, 3]), 6),
        (partial(random_fourier_encoding, points, 64, rng=0), 6),
        (partial(grid_cell_encoding, points, [7, 365.25]), 6),
    ]
    for call, most in calls:
        launches, *others = counter.of(call)
        assert launches <= most, call
        assert others == [0, 0, 0, 0]
    encode = partial(cyclic_encoding, x, 365.25)
    assert sum(counter.allocated(encode)) < 5 * encode().nbytes


def test_a_step_of_a_cache_uploads_once(backend, counter):
    """Its positions and those of the keys together; what it stores and attends to, nothing."""
    on = {"xp": backend.xp, "device": backend.device}
    prompt, new = (backend.array(np.ones((2, 3, n, 8))) for n in (15, 1))
    sizes = {"num_kv_heads": 3, "head_size": 8, "dtype": new.dtype, **LAST, **on}
    for options in ({"capacity": 16}, {"window": 13, "num_sink_tokens": 2, "drafts": 1}):
        cache, step = KVCache.empty(3, 2, **options, **sizes).step(15)
        for layer in range(3):
            step.update(layer, prompt, prompt)
        for start in (cache, cache.rewind([0, 1])):
            assert counter.of(lambda start=start: start.step(1)) == (0, 0, 1, 0, 0)
        step = start.step(1)[1]
        layers = iter(range(3))
        stored = counter.of(lambda step=step, layers=layers: step.update(next(layers), new, new))
        assert stored[1:] == (0, 0, 0, 0)
    start = KVCache.empty(1, 2, 16, **sizes).step([[0, 1, 1], [1, 1, 1]])[0]
    assert counter.of(lambda: start.step([[1, 1], [0, 1]])) == (0, 0, 1, 0, 0)
