"""The whole library in PyTorch's modes and transformations: one table, and a test for each."""

import gc
from functools import lru_cache, partial
from types import CellType, FunctionType
from typing import Any, NamedTuple

import pytest
import torch

import positional_embeddings as pe


def numbers(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


class Use(NamedTuple):
    """A call of the library: what makes it for a device, and the arrays it is called with."""

    make: Any  # of {"device": ...}
    arrays: tuple[Any, ...] = ()

    def layer(self, device="cpu"):
        return self.make({"device": device})


def drawn(layer, *sizes, **options):
    """Return what makes a layer with weights of PyTorch."""
    return lambda on: layer(*sizes, rng=0, xp=torch, **options, **on)


def of(function, *values, **options):
    """Return what makes a function of arrays and some other values."""
    return lambda _: lambda *arrays: function(*arrays, *values, **options)


def by_lengths(function, *values, **options):
    """Return what makes a function of no arrays, but of a library and a device."""
    return lambda on: lambda: function(*values, xp=torch, **on, **options)


def biased(make):
    """Return what makes an attention with a bias of `RelativePE` and the like."""

    def attention(on):
        bias = make(on)
        return lambda x: pe.scaled_dot_product_attention(x, x, x, bias=bias)

    return attention


def masked(mask, **options):
    """Return what makes an attention with a mask."""
    return lambda _: lambda x: pe.scaled_dot_product_attention(x, x, x, mask=mask, **options)


X, PLACES, TIMES = numbers(8, 5, 2), torch.arange(5) * 3, numbers(5) * 90
HIDDEN = torch.ones(5, 5, dtype=torch.bool).triu(1)
IDS, LENGTHS = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([2, 3])
EDGES, DRAWN = numbers(5, 5), numbers(8, 5, 2, seed=9)
PAIR, MATRIX = numbers(2, seed=1) + 0.2, numbers(2, 3, seed=2)
FIRE = (
    *(numbers(3, seed=3), numbers(3, seed=4), MATRIX, PAIR),
    *(torch.tensor(0.1), torch.tensor(1.5)),
)
ANGLES = (numbers(4, 5, seed=5), numbers(4, 5, seed=6))

USES = {
    "ALiBiBias": Use(biased(lambda _: pe.ALiBiBias(2)), (X,)),
    "AbsolutePE": Use(lambda _: pe.AbsolutePE(8, 20), (X,)),
    "CausalMask": Use(masked(pe.CausalMask()), (X,)),
    "ChunkedMask": Use(masked(pe.ChunkedMask(2)), (X,)),
    "DilatedMask": Use(masked(pe.DilatedMask(2)), (X,)),
    "DynamicNTKScaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.DynamicNTKScaling(2.0, 4)), (X,)),
    "FIREBias": Use(
        of(
            lambda x, a, b, e, f, c, limit: biased(
                lambda _: pe.FIREBias(a, b, e, f, c=c, threshold=limit)
            )(None)(x)
        ),
        (X, *FIRE),
    ),
    "FunctionBias": Use(biased(lambda _: pe.FunctionBias(lambda q, k: (k - q) / 4)), (X,)),
    "FunctionMask": Use(masked(pe.FunctionMask(lambda q, k: k > q)), (X,)),
    "GlobalMask": Use(masked(pe.SlidingWindowMask(1, 1) & pe.GlobalMask([0])), (X,)),
    "KERPLEBias": Use(
        of(lambda x, *r: biased(lambda _: pe.KERPLEBias(*r))(None)(x)), (X, PAIR, PAIR + 0.5)
    ),
    "LearnedPE": Use(drawn(pe.LearnedPE, 8, 9, padding_idx=1), (X,)),
    "LinearScaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.LinearScaling(2.0)), (X,)),
    "Llama3Scaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.Llama3Scaling(8, 1, 4, 10)), (X,)),
    "LongRoPEScaling": Use(
        lambda _: pe.RoPE(8, 9, scaling=pe.LongRoPEScaling([1.0] * 4, [2.0] * 4, 4, factor=2)),
        (X,),
    ),
    "NTKScaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.NTKScaling(2.0)), (X,)),
    "NeighbourhoodMask": Use(masked(pe.NeighbourhoodMask((1, 5), 1)), (X,)),
    "PaddingMask": Use(masked(pe.PaddingMask([3, 5])), (X,)),
    "PatchEmbedding": Use(drawn(pe.PatchEmbedding, 4, 2, 3, 6), (numbers(3, 4, 4, 2),)),
    "PrefixMask": Use(masked(pe.PrefixMask([2, 4])), (X,)),
    "ProportionalScaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.ProportionalScaling(0.5)), (X,)),
    "RelativePE": Use(biased(drawn(pe.RelativePE, 3, 2)), (X,)),
    "RoPE": Use(lambda _: pe.RoPE(8, 9), (X,)),
    "RoPEMultiHeadAttention": Use(drawn(pe.RoPEMultiHeadAttention, 8, 2, num_kv_heads=1), (X,)),
    "SandwichBias": Use(biased(lambda _: pe.SandwichBias(2)), (X,)),
    "SegmentMask": Use(masked(pe.SegmentMask([0, 0, 1, 1, 1])), (X,)),
    "SlidingWindowMask": Use(masked(pe.SlidingWindowMask(2, 0), block_size=2), (X,)),
    "T5Bias": Use(biased(drawn(pe.T5Bias, 2)), (X,)),
    "TokenEmbedding": Use(drawn(pe.TokenEmbedding, 9, 4, padding_idx=0), (IDS,)),
    "YaRNScaling": Use(lambda _: pe.RoPE(8, 9, scaling=pe.YaRNScaling(4, 10)), (X,)),
    "add_positional_encoding": Use(of(pe.add_positional_encoding), (X, X[:, :, 0])),
    "add_positional_encoding_vjp": Use(
        of(lambda *xs: pe.add_positional_encoding_vjp(*xs)[1]), (X, X[:, :, 0])
    ),
    "alibi_bias": Use(by_lengths(pe.alibi_bias, 2, 5)),
    "alibi_slopes": Use(by_lengths(pe.alibi_slopes, 6)),
    "apply_rope": Use(
        of(lambda x, c, s: pe.apply_rope(x, c[..., None], s[..., None])), (X, *ANGLES)
    ),
    "attention_weights": Use(of(pe.attention_weights, mask=pe.CausalMask()), (X, X)),
    "combine_masks": Use(of(pe.combine_masks), (HIDDEN, HIDDEN.mT)),
    "compute_frequencies": Use(by_lengths(pe.compute_frequencies, 8, 5)),
    "convert_layout": Use(of(pe.convert_layout, "half", "interleaved", axis=0), (X,)),
    "create_causal_mask": Use(by_lengths(pe.create_causal_mask, 5)),
    "create_padding_mask": Use(of(pe.create_padding_mask, 5), (LENGTHS,)),
    "cumulative_lengths": Use(of(pe.cumulative_lengths), (LENGTHS,)),
    "cyclic_encoding": Use(of(pe.cyclic_encoding, 24), (TIMES,)),
    "dropout": Use(
        lambda on: lambda x: pe.dropout(x, 0.5, rng=lambda _: DRAWN.to(on["device"])), (X,)
    ),
    "fourier_encoding": Use(of(pe.fourier_encoding, [1.0, 0.5]), (X[:2, :, 0],)),
    "from_attend": Use(of(pe.from_attend), (HIDDEN,)),
    "fully_masked_rows": Use(of(pe.fully_masked_rows), (HIDDEN,)),
    "graph_laplacian_encoding": Use(
        of(lambda a: pe.graph_laplacian_encoding(a + a.mT, 2)), (EDGES,)
    ),
    "grid_cell_encoding": Use(of(pe.grid_cell_encoding, 12), (X[:2, :, 0],)),
    "grid_encoding": Use(by_lengths(pe.grid_encoding, (3, 4), 8)),
    "grid_positions": Use(by_lengths(pe.grid_positions, (3, 4))),
    "inverse_frequencies": Use(by_lengths(pe.inverse_frequencies, 8)),
    "mask_to_bias": Use(of(pe.mask_to_bias), (HIDDEN,)),
    "neg_half": Use(of(pe.neg_half), (X,)),
    "positions_from_mask": Use(of(pe.positions_from_mask), (IDS == 0,)),
    "positions_from_segment_ids": Use(of(pe.positions_from_segment_ids), (IDS,)),
    "random_fourier_encoding": Use(of(pe.random_fourier_encoding, 6, rng=0), (X,)),
    "random_walk_encoding": Use(of(lambda a: pe.random_walk_encoding(a + a.mT, 3)), (EDGES,)),
    "relative_position_bucket": Use(of(pe.relative_position_bucket), (PLACES - 5,)),
    "relative_positions": Use(of(pe.relative_positions), (PLACES, PLACES + 1)),
    "rotate_pairs": Use(of(pe.rotate_pairs), (X,)),
    "scaled_dot_product_attention": Use(of(pe.scaled_dot_product_attention), (X, X + 1, X - 1)),
    "segment_ids_from_lengths": Use(of(pe.segment_ids_from_lengths, 6), (LENGTHS,)),
    "sinusoidal_encoding": Use(of(pe.sinusoidal_encoding, 8), (TIMES,)),
    "spherical_encoding": Use(of(pe.spherical_encoding, 2), (TIMES, TIMES + 7)),
    "to_attend": Use(of(pe.to_attend), (HIDDEN,)),
    "to_bias": Use(of(pe.to_bias), (HIDDEN,)),
    "to_keras": Use(of(pe.to_keras), (HIDDEN[:, :, None],)),
    "xpos_scale": Use(of(pe.xpos_scale, 8), (TIMES,)),
}
NO_USE = {
    "KVCache": "holds no numbers but positions",
    "KVStep": "writes to buffers",
    "RotaryTables": "holds tables of one dtype on one device",
    "Mask": "an abstract base",
    "__version__": "a text",
    "days_since": "takes dates of NumPy",
    "describe_mask": "reads values, and returns a text",
    "log_wavelengths": "returns numbers of NumPy",
    "octave_wavelengths": "returns numbers of NumPy",
    "to_block_ranges": "returns numbers",
}

WITH_ARRAYS = [name for name, use in USES.items() if use.arrays]
OF_REAL_NUMBERS = [n for n in WITH_ARRAYS if USES[n].arrays[0].is_floating_point()]


def test_the_table_holds_all_that_is_public():
    assert sorted([*USES, *NO_USE]) == sorted(pe.__all__)


# PyTorch warns of the copies that it makes itself for each of a batch.
@pytest.mark.filterwarnings("ignore:torch.searchsorted")
@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_vmap(name):
    use = USES[name]
    call = use.layer()
    stacked = [torch.stack([x, x.flip(-1) if x.ndim else 2 * x]) for x in use.arrays]
    each = torch.stack([call(*parts) for parts in zip(*stacked, strict=True)])
    torch.testing.assert_close(torch.func.vmap(call)(*stacked), each, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", OF_REAL_NUMBERS)
def test_grad(name):
    """It is the slope of what is computed, in one direction for all arrays."""
    use = USES[name]
    call, arrays = use.layer(), [x.double() for x in use.arrays]
    directions = [numbers(*x.shape, seed=7).double() for x in arrays]
    weights = numbers(*call(*arrays).shape, seed=8)

    def total(*arrays):
        return (call(*arrays) * weights).sum()

    gradients = torch.func.grad(total, argnums=tuple(range(len(arrays))))(*arrays)
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    step = 1e-6
    there, back = (
        total(*(x + s * d for x, d in zip(arrays, directions, strict=True))) for s in (step, -step)
    )
    torch.testing.assert_close(slope, (there - back) / (2 * step), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast(name, dtype):
    """It changes neither dtypes nor values."""
    use = USES[name]
    arrays = [x.to(dtype) if x.is_floating_point() else x for x in use.arrays]
    alone = use.layer()(*arrays)
    with torch.autocast("cpu", torch.bfloat16):
        under = use.layer()(*arrays)
    assert under.dtype == alone.dtype
    assert torch.equal(under, alone)


def trained(call, arrays):
    """Return the gradients of all real arrays that a call is given."""
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in arrays]
    call(*leaves).sum().backward()
    return [x.grad for x in leaves if x.requires_grad]


@pytest.mark.parametrize("name", USES)
def test_inference_mode(name):
    use = USES[name]
    call, fresh = use.layer(), use.layer()
    expected = fresh(*use.arrays)
    with torch.inference_mode():
        assert torch.equal(call(*use.arrays), expected)
    if name in OF_REAL_NUMBERS:
        gradients = trained(call, use.arrays)
        torch.testing.assert_close(gradients, trained(fresh, use.arrays), atol=0, rtol=0)
        assert gradients[0] is not None
    with torch.inference_mode():
        assert torch.equal(call(*use.arrays), expected)
    assert torch.equal(call(*use.arrays), expected)


CONTAINERS = {dict, list, tuple, set, CellType, partial, type(lru_cache(int))}


def is_ours(thing):
    kind = type(thing)
    module = thing.__module__ if kind is FunctionType else kind.__module__
    return str(module).startswith((pe.__name__, __name__))


def tensors_behind(call):
    """Return the tensors that a call holds, and its layers, functions and their modules."""
    left, seen, found = [call], set(), []
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if issubclass(type(thing), torch.Tensor):
            found.append(thing)
        elif type(thing) in CONTAINERS or is_ours(thing):
            left += gc.get_referents(thing)
    return found


@pytest.mark.parametrize("name", USES)
def test_fake_tensors(name):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    use = USES[name]
    call = use.layer()
    expected = use.layer()(*use.arrays)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = call(*(mode.from_tensor(x) for x in use.arrays))
    assert isinstance(fake, FakeTensor)
    assert (fake.shape, fake.dtype, fake.device) == (
        expected.shape,
        expected.dtype,
        expected.device,
    )
    assert not any(isinstance(held, FakeTensor) for held in tensors_behind(call))
    assert torch.equal(call(*use.arrays), expected)


@pytest.mark.parametrize("name", USES)
def test_meta_device(name):
    use = USES[name]
    expected = use.layer()(*use.arrays)
    meta = use.layer("meta")(*(x.to("meta") for x in use.arrays))
    assert (meta.shape, meta.dtype) == (expected.shape, expected.dtype)
    assert meta.device.type == "meta"
    torch.testing.assert_close(use.layer()(*use.arrays), expected, atol=0, rtol=0)


def parameter(*shape):
    return torch.nn.Parameter(numbers(*shape, seed=sum(shape)) + 0.2)


# Its parameters by name, what makes the layer of them, and how it is called.
TRAINED = {
    "PatchEmbedding": (
        {"kernel": (6, 3, 2, 2), "bias": (6,)},
        lambda **weights: pe.PatchEmbedding(4, 2, 3, 6, **weights),
        lambda layer: layer(numbers(3, 4, 4, 2)),
    ),
    "RelativePE": (
        {"embeddings": (7, 2)},
        lambda **weights: pe.RelativePE(3, 2, **weights),
        lambda layer: layer(5),
    ),
    "RoPEMultiHeadAttention": (
        dict.fromkeys(("Wq", "Wk", "Wv", "Wo"), (8, 8)),
        lambda **weights: pe.RoPEMultiHeadAttention(8, 2, **weights),
        lambda layer: layer(X),
    ),
    "T5Bias": (
        {"embeddings": (32, 2)},
        lambda **weights: pe.T5Bias(2, **weights),
        lambda layer: layer(5),
    ),
    "KERPLEBias": (
        {"r1": (2,), "r2": (2,)},
        pe.KERPLEBias,
        lambda layer: pe.scaled_dot_product_attention(X, X, X, bias=layer),
    ),
    "FIREBias": (
        {
            "hidden_weight": (3,),
            "hidden_bias": (3,),
            "output_weight": (2, 3),
            "output_bias": (2,),
            "c": (),
            "threshold": (),
        },
        pe.FIREBias,
        lambda layer: pe.scaled_dot_product_attention(X, X, X, bias=layer),
    ),
    "KERPLEBias as an array": (
        {"r1": (2,), "r2": (2,)},
        pe.KERPLEBias,
        lambda layer: layer(5),
    ),
}


@pytest.mark.parametrize("name", TRAINED)
def test_an_optimizer_trains_the_parameters_of_a_layer(name):
    shapes, make, call = TRAINED[name]
    weights = {key: parameter(*shape) for key, shape in shapes.items()}
    layer = make(**weights)
    for key, given in weights.items():
        assert getattr(layer, key) is given
    optimizer = torch.optim.SGD(weights.values(), lr=1e-4)
    first = call(layer)
    (first**2).sum().backward()
    assert all(w.grad is not None for w in weights.values())
    assert all(w.grad.any() for w in weights.values())
    optimizer.step()
    second = call(layer)
    assert not torch.equal(first, second)
    assert (second**2).sum() < (first**2).sum()
    torch.testing.assert_close(second, call(make(**weights)), atol=0, rtol=0)
