"""What calls on CuPy's arrays ask of a GPU, where something counts it.

`--counter` names a C function ``long SYMBOL(int kind)`` of a library that is loaded before CUDA's
own. It returns the number of launches (kind 0), waits (1), copies to the device (2), copies from it
(3) and matrix products (6) so far.
"""

import ctypes
from functools import partial

import numpy as np
import pytest

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
    mask_to_bias,
    relative_position_bucket,
    relative_positions,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)

LAUNCHES, WAITS, TO_DEVICE, FROM_DEVICE, PRODUCTS = 0, 1, 2, 3, 6
LAST = {"feature_axis": -1, "seq_axis": -2}

pytestmark = pytest.mark.only_on("cupy")


@pytest.fixture
def counted(request):
    """Return a function that counts what the third one of equal calls asks for."""
    symbol = request.config.getoption("--counter")
    if symbol is None:
        pytest.skip("launches are counted with --counter")
    count = getattr(ctypes.CDLL(None), symbol)
    count.restype = ctypes.c_long

    def of(call):
        for _ in range(2):
            call()
        kinds = LAUNCHES, WAITS, TO_DEVICE, FROM_DEVICE, PRODUCTS
        before = [count(kind) for kind in kinds]
        call()
        return tuple(count(kind) - n for kind, n in zip(kinds, before, strict=True))

    return of


def test_rotation(backend, counted):
    rope, x = RoPE(8, 100, **LAST), backend.array(np.ones((2, 3, 8)))
    assert counted(lambda: rope(x)) == (1, 0, 0, 0, 0)
    positions = backend.array(np.arange(3))
    assert counted(lambda: rope(x, positions=positions)) == (2, 0, 0, 0, 0)
    assert counted(lambda: rope.tables(positions)) == (1, 0, 0, 0, 0)
    assert counted(lambda: rope.shift(x, 5)) == (1, 0, 1, 0, 0)
    parts = RoPE(8, 100, sections=(1, 2, 1), **LAST)
    rows = backend.array(np.ones((3, 3), dtype="int64"))
    assert counted(lambda: parts(x, positions=rows)) == (3, 0, 0, 0, 0)
    assert counted(lambda: AbsolutePE(8, 100, **LAST)(x))[WAITS] == 0


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_a_token_attends_without_a_copy_of_the_keys(backend, counted, key_heads):
    q = backend.array(np.ones((2, 4, 1, 8)))
    k = backend.array(np.ones((2, key_heads, 64, 8)))
    allocated = []

    def attend(**options):
        return scaled_dot_product_attention(q, k, k, enable_gqa=True, **LAST, **options)

    launches, waits, *copies, products = counted(attend)
    assert launches <= 10
    assert (waits, copies, products) == (0, [0, 0], 2)
    pool = backend.xp.cuda.get_allocator()
    with backend.xp.cuda.using_allocator(lambda n: allocated.append(n) or pool(n)):
        attend()
    assert max(allocated) < k.nbytes
    hidden = backend.array(np.arange(64) < 3)[None, None, None, :]
    # The token sees all keys, which a `Mask` tells without being evaluated.
    cases = {"mask": CausalMask()}, {"mask": hidden}, {"bias": ALiBiBias(4)}
    for options in (*cases, {"mask": hidden, "bias": ALiBiBias(4, causal=False)}):
        launches, waits, _, from_device, products = counted(lambda of=options: attend(**of))
        assert launches <= 10 + len(options) - 1
        assert (waits, from_device, products) == (0, 0, 2)
        with backend.xp.cuda.using_allocator(lambda n: allocated.append(n) or pool(n)):
            attend(**options)
        assert max(allocated) < k.nbytes


def test_blocks_wait_once_for_keys_and_values(backend, counted):
    x = backend.array(np.ones((1, 2, 64, 8)))

    def attend(**options):
        return scaled_dot_product_attention(x, x, x, block_size=16, **LAST, **options)

    launches, waits, to_device, from_device, products = counted(attend)
    assert (waits, to_device, from_device, products) == (0, 0, 0, 2 * 4 * 4)
    assert launches < 17 * 4 * 4
    assert counted(lambda: attend(mask=CausalMask()))[WAITS] == 1
    assert counted(lambda: attend(bias=ALiBiBias(2)))[WAITS] <= 1 + 4 * 4


def test_masks_by_lengths_do_not_wait(backend, counted):
    x, lengths = backend.array(np.ones((2, 4, 8, 8))), backend.array([3, 8])
    for kind in (PaddingMask, PrefixMask, GlobalMask):
        assert counted(lambda kind=kind: kind(lengths).dense(8))[WAITS] == 0

    def attend():
        return scaled_dot_product_attention(x, x, x, mask=PaddingMask(lengths), **LAST)

    launches, waits, to_device, from_device, _ = counted(attend)
    assert launches <= 11
    assert (waits, to_device, from_device) == (0, 0, 0)
    # Numbers are read once, since no mask tells tokens on the wrong side.
    tokens = backend.array([[1, 1, 0], [1, 1, 1]])
    assert counted(lambda: PaddingMask.from_attention_mask(tokens))[WAITS] == 1


def test_constants_of_biases_are_kept_on_the_device(backend, counted):
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
        _, waits, to_device, from_device, _ = counted(call)
        assert (waits, to_device, from_device) == (0, 0, 0), call


def test_masks_and_biases(backend, counted):
    table = RelativePE(4, 2, xp=backend.xp, rng=0)
    launches, waits, *_ = counted(lambda: table(9))
    assert launches <= 10
    assert waits == 0
    mask = backend.array(np.zeros((40, 40), dtype=bool))
    assert counted(lambda: describe_mask(mask))[FROM_DEVICE] == 1
    assert counted(lambda: describe_mask(CausalMask(), 40)) == (0, 0, 0, 0, 0)


def test_calls_launch_few_kernels_and_wait_for_none(backend, counted):
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
        (partial(attention_weights, token, x, **LAST), 5),
        (partial(attend, token, x, x, mask=window, **LAST), 9),
        (partial(attend, *features_first, feature_axis=0, seq_axis=1), 7),
        (partial(attend, x, x, x, **LAST), 6),
        (partial(attend, x, x, x, mask=CausalMask(), **LAST), 11),
        (partial(create_causal_mask, 40, xp=backend.xp), 3),
        (partial(mask_to_bias, mask), 2),
        (partial(ALiBiBias(4), 40, xp=backend.xp), 5),
        (partial(T5Bias(4, xp=backend.xp, rng=0), 40), 16),
    ]
    for call, most in most_launches:
        launches, waits, _, from_device, _ = counted(call)
        assert launches <= most, call
        assert (waits, from_device) == (0, 0), call


def test_embeddings_do_not_wait_for_a_wrong_index(backend, counted):
    layer, embed = (kind(6, 6, xp=backend.xp, rng=0) for kind in (LearnedPE, TokenEmbedding))
    x, wrong = backend.array(np.ones((6, 3))), backend.array([0, 6, -1])
    for call in (partial(layer, x, positions=wrong), partial(embed, wrong)):
        launches, *others = counted(call)
        assert launches <= 10
        assert others == [0, 0, 0, 0]
        is_nan = np.isnan(backend.numpy(call()))
        np.testing.assert_array_equal(is_nan, [[False, True, True]] * 6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_encodings_upload_nothing_in_a_later_call(backend, counted, dtype):
    x, allocated = backend.array(np.arange(1000), dtype), []
    calls = [
        (partial(sinusoidal_encoding, x, 64), 6),
        (partial(fourier_encoding, x, [7, 365.25]), 6),
        (partial(cyclic_encoding, x, [7, 24, 365.25], [2, 1, 3]), 4),
    ]
    for call, most in calls:
        launches, *others = counted(call)
        assert launches <= most, call
        assert others == [0, 0, 0, 0]
    pool = backend.xp.cuda.get_allocator()
    with backend.xp.cuda.using_allocator(lambda n: allocated.append(n) or pool(n)):
        encoding = cyclic_encoding(x, 365.25)
    assert sum(allocated) < 4 * encoding.nbytes


def test_a_step_of_a_cache_uploads_once(backend, counted):
    """Its positions and those of the keys together; what it stores and attends to, nothing."""
    on = {"xp": backend.xp, "device": backend.device}
    buffer, new = (backend.array(np.ones((2, 3, n, 8))) for n in (16, 1))
    for options in ({}, {"sinks": 2}):
        cache = KVCache.empty(2, 16, **options, **LAST, **on).step(15)[0]
        for start in (cache, cache.rewind([0, 1])):
            assert counted(lambda start=start: start.step(1)) == (0, 0, 1, 0, 0)
            steps = iter([start.step(1)[1] for _ in range(3)])
            stored = counted(lambda steps=steps: next(steps).store(buffer + 0, new))
            assert stored[1:] == (0, 0, 0, 0)
    start = KVCache.empty(2, 16, **on).step([[0, 1, 1], [1, 1, 1]])[0]
    assert counted(lambda: start.step([[1, 1], [0, 1]])) == (0, 0, 1, 0, 0)
