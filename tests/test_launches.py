"""What calls on CuPy's arrays ask of a GPU, where something counts it.

`--counter` names a C function ``long SYMBOL(int kind)`` of a library that is loaded before CUDA's
own. It returns the number of launches (kind 0), waits (1), copies to the device (2), copies from it
(3) and matrix products (6) so far.
"""

import ctypes
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    KVCache,
    RelativePE,
    RoPE,
    SlidingWindowMask,
    T5Bias,
    apply_rope,
    attention_weights,
    create_causal_mask,
    describe_mask,
    mask_to_bias,
    scaled_dot_product_attention,
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
    parts = RoPE(8, 100, sections=(1, 2, 1), **LAST)
    rows = backend.array(np.ones((3, 3), dtype="int64"))
    assert counted(lambda: parts(x, positions=rows)) == (3, 0, 0, 0, 0)
    assert counted(lambda: AbsolutePE(8, 100, **LAST)(x))[WAITS] == 0


def allocated_by(backend, call):
    """Return how many bytes a call allocates, its result among them."""
    sizes, pool = [], backend.xp.cuda.get_allocator()
    with backend.xp.cuda.using_allocator(lambda size: sizes.append(size) or pool(size)):
        call()
    return sum(sizes)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_a_token_attends_without_a_copy_of_the_keys(backend, counted, key_heads):
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
        launches, waits, _, from_device, products = counted(attend)
        assert launches <= most, options
        assert (waits, from_device, products) == (0, 0, 2)
        if "bias" not in options:
            assert allocated_by(backend, attend) <= 0.05 * k.nbytes * 4 / key_heads


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_decoding_step_reads_the_keys_that_store_returns_where_they_are(backend, counted, dtype):
    """They are a part of a buffer, which is neither copied nor converted."""
    narrow = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    cache = KVCache.empty(2, 512, xp=backend.xp, **LAST)
    new = [backend.xp.asarray(np.ones((2, 4, n, 64), narrow)) for n in (300, 1)]
    buffer = backend.xp.asarray(np.zeros((2, 4, 512, 64), narrow))
    for tokens in new:
        cache, step = cache.step(tokens.shape[-2])
        buffer, keys = step.store(buffer, tokens)
    attend = partial(scaled_dot_product_attention, new[1], keys, keys, mask=CausalMask())
    attend = partial(attend, positions=step)
    is_half = dtype != "float32"
    # One more product adds what half precision lacks of the weights; one launch rounds the output.
    assert counted(attend) == (2 + is_half, 0, 0, 0, 2 + is_half)
    assert allocated_by(backend, attend) <= (0.1 if is_half else 0.05) * keys.nbytes


def test_an_update_of_the_online_softmax_is_one_launch(backend, counted):
    """And two products; where keys may be hidden, one more at the end of all keys."""
    x = backend.array(np.ones((1, 2, 64, 8)), "float32")
    q = x[:, :, -16:, :]
    for keys in (32, 64):
        attend = partial(scaled_dot_product_attention, q, x[:, :, -keys:, :], x[:, :, -keys:, :])
        attend = partial(attend, block_size=16, **LAST)
        updates = keys // 16
        assert counted(attend) == (updates, 0, 0, 0, 2 * updates)
        assert counted(partial(attend, mask=CausalMask())) == (updates + 1, 0, 0, 0, 2 * updates)
    masks = create_causal_mask(64, xp=backend.xp)[..., 0], ALiBiBias(2)
    for name, given in zip(("mask", "bias"), masks, strict=True):
        attend = partial(scaled_dot_product_attention, x, x, x, block_size=16, **LAST)
        _, waits, _, from_device, _ = counted(partial(attend, **{name: given}))
        assert (waits, from_device) == (0, 0)


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
        (partial(rope, x, inverse=True), 2),
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
        launches, waits, _, from_device, _ = counted(call)
        assert launches <= most, call
        assert (waits, from_device) == (0, 0), call
