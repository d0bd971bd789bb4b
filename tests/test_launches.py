"""What calls on CuPy's arrays ask of a GPU, where something counts it."""

import ctypes

import numpy as np
import pytest

from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    CausalMask,
    RelativePE,
    RoPE,
    describe_mask,
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
    assert counted(lambda: rope.cos_sin(x, positions=positions)) == (1, 0, 0, 0, 0)
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


def test_blocks_wait_once_for_keys_and_once_for_values(backend, counted):
    x = backend.array(np.ones((1, 2, 64, 8)))

    def attend(**options):
        return scaled_dot_product_attention(x, x, x, block_size=16, **LAST, **options)

    launches, waits, to_device, from_device, products = counted(attend)
    assert (waits, to_device, from_device, products) == (0, 0, 0, 2 * 4 * 4)
    assert launches < 17 * 4 * 4
    assert counted(lambda: attend(mask=CausalMask()))[WAITS] == 2
    assert counted(lambda: attend(bias=ALiBiBias(2)))[WAITS] <= 2 + 4 * 4


def test_masks_and_biases(backend, counted):
    table = RelativePE(4, 2, xp=backend.xp, rng=0)
    launches, waits, *_ = counted(lambda: table(9))
    assert launches <= 10
    assert waits == 0
    mask = backend.array(np.zeros((40, 40), dtype=bool))
    assert counted(lambda: describe_mask(mask))[FROM_DEVICE] == 1
    assert counted(lambda: describe_mask(CausalMask(), 40)) == (0, 0, 0, 0, 0)
