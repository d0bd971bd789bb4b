"""What PyTorch's users expect beyond arrays: gradients, tracing, other devices."""

import copy
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import positional_embeddings as pe
import samples
from positional_embeddings import (
    AbsolutePE,
    ALiBiBias,
    AttentionLayer,
    CausalMask,
    ChunkedMask,
    DilatedMask,
    DynamicNTKScaling,
    FIREBias,
    FunctionBias,
    FunctionMask,
    GlobalMask,
    KERPLEBias,
    KVCache,
    LearnedPE,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NeighbourhoodMask,
    NTKScaling,
    PaddingMask,
    PatchEmbedding,
    PrefixMask,
    ProportionalScaling,
    RelativePE,
    RoPE,
    RoPEMultiHeadAttention,
    SandwichBias,
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    TokenEmbedding,
    YaRNScaling,
    alibi_bias,
    compute_frequencies,
    create_causal_mask,
    create_padding_mask,
    cyclic_encoding,
    fourier_encoding,
    graph_laplacian_encoding,
    grid_cell_encoding,
    grid_encoding,
    inverse_frequencies,
    mask_to_bias,
    random_fourier_encoding,
    random_walk_encoding,
    scaled_dot_product_attention,
    sinusoidal_encoding,
    spherical_encoding,
    xpos_scale,
)
from positional_embeddings.arrays.backends.torch import PyTorchBackend
from positional_embeddings.arrays.caching import call_key
from positional_embeddings.arrays.dispatch import get_backend


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.asarray(values, dtype=torch.float64).requires_grad_()


def test_gradients_of_everything_that_is_differentiable():
    check = torch.autograd.gradcheck
    x, positions = leaf(4, 3, 2), leaf(3, seed=1)
    assert check(lambda x, p: RoPE(4, 3)(x, positions=p), (x, positions))
    assert check(RoPE(4, 3), (x,))
    assert check(AbsolutePE(4, 3), (x,))
    assert check(lambda p: sinusoidal_encoding(p, 5), (positions,))
    q, k, v, bias = (
        leaf(4, 3, 2),
        leaf(4, 5, 2, seed=1),
        leaf(2, 5, 2, seed=2),
        leaf(3, 5, 1, seed=3),
    )
    mask = create_causal_mask(3, k_len=5, offset=-1, xp=torch)
    for size in (None, 2):
        assert check(
            lambda q, k, v, b, size=size: scaled_dot_product_attention(
                q, k, v, mask=mask, bias=b, softcap=2.0, block_size=size
            ),
            (q, k, v, bias),
        )
    mha = RoPEMultiHeadAttention(4, 2, rng=0, xp=torch, dtype=torch.float64)
    assert check(mha, (x,))


@pytest.mark.parametrize("block_size", [None, 3])
def test_masked_garbage_reaches_no_gradient(block_size):
    q, k, v = leaf(2, 4, 1), leaf(2, 4, 1, seed=1), leaf(2, 4, 1, seed=2)
    with torch.no_grad():
        k[:, 3], v[:, 3] = torch.nan, torch.inf
    mask = create_causal_mask(4, xp=torch) | create_padding_mask([3], 4, xp=torch)
    output = scaled_dot_product_attention(q, k, v, mask=mask, block_size=block_size)
    output.sum().backward()
    for array in (q.grad, k.grad, v.grad):
        assert torch.isfinite(array).all()


def test_a_fake_or_meta_table_is_used_once():
    from torch._subclasses.fake_tensor import FakeTensorMode

    rope, x = RoPE(4, 3), torch.ones((4, 3))
    with FakeTensorMode() as mode:
        assert rope(mode.from_tensor(x)).shape == x.shape
    assert rope(torch.ones((4, 3), device="meta")).device.type == "meta"
    np.testing.assert_allclose(rope(x).numpy(), RoPE(4, 3)(np.ones((4, 3))), atol=1e-6)


def test_a_table_of_a_mode_is_used_once():
    rope, x = RoPE(4, 3), torch.ones((4, 3))
    expected = RoPE(4, 3)(np.ones((4, 3)))
    with torch.inference_mode():
        rope(torch.ones((4, 3)))
    leaf_x = torch.ones((4, 3), requires_grad=True)
    rope(leaf_x).sum().backward()
    assert leaf_x.grad is not None
    torch.func.functionalize(rope)(x)
    np.testing.assert_allclose(rope(x).numpy(), expected, atol=1e-6)


def test_vmap_and_export():
    x = torch.asarray(np.random.default_rng(0).standard_normal((2, 4, 3)))
    rope = RoPE(4, 3)
    each = torch.stack([rope(part) for part in x])
    torch.testing.assert_close(torch.func.vmap(rope)(x), each)

    class Rotation(torch.nn.Module):
        def forward(self, x):
            return rope(x)

    exported = torch.export.export(Rotation(), (x[0],), strict=False)
    torch.testing.assert_close(exported.module()(x[1]), each[1])
    torch.testing.assert_close(rope(x[1]), each[1])


def test_default_dtype_and_device_do_not_leak():
    torch.set_default_dtype(torch.float64)
    try:
        assert RoPE(4, 3)(torch.ones((4, 3), dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        x = torch.ones((4, 3), device="cpu")
        assert RoPE(4, 3)(x).device.type == "cpu"
        assert RoPE(4, 3)(x, positions=torch.arange(3, device="cpu")).device.type == "cpu"


def test_agrees_with_torchs_attention():
    q, k, v = (leaf(2, 3, n, 8, seed=n) for n in (5, 7, 7))
    mask = create_causal_mask(5, k_len=7, xp=torch)[:, :, 0]
    ours = scaled_dot_product_attention(q, k, v, mask=mask, feature_axis=-1, seq_axis=-2)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


QUIET = pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
IN_HALVES = {"feature_axis": -1, "seq_axis": -2}


def compilations(function, *calls, dynamic=None):
    """Compile a function whole, compare each call with the eager one, and count compilations."""
    from torch._dynamo.testing import CompileCounter

    torch.compiler.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend=counter)
    for arguments in calls:
        expected = function(*arguments)
        torch.testing.assert_close(compiled(*arguments), expected, atol=1e-6, rtol=0)
    return counter.frame_count


def test_an_attention_with_rope_is_compiled_without_warnings_of_this_package():
    rope, pe = RoPE(8, 100, **IN_HALVES), AbsolutePE(8, 100, **IN_HALVES)
    large = RoPE(8, 2**22, **IN_HALVES)  # its tables are computed in the graph

    def attend(x, offset):
        q, k = rope(pe(x, offset=offset), offset=offset), large(x, offset=offset)
        return scaled_dot_product_attention(q, k, x, mask=CausalMask(), **IN_HALVES)

    x = torch.rand(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    torch._dynamo.utils.warn_once_cache.clear()
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        assert compilations(attend, *((x, offset) for offset in (3, 40, 90))) == 2
    messages = [str(warning.message) for warning in recorded]
    assert not [text for text in messages if "positional_embeddings" in text]


@QUIET
def test_five_lengths_compile_as_often_as_the_textbook():
    rope = RoPE(8, 64)

    def step(x):
        return scaled_dot_product_attention(rope(x), x, x, mask=CausalMask())

    def textbook(x):
        weights = torch.einsum("fqh,fkh->hqk", x, x).softmax(-1)
        return torch.einsum("hqk,fkh->fqh", weights, x)

    calls = [(torch.randn(8, n, 2),) for n in (3, 5, 8, 13, 21)]
    assert compilations(step, *calls, dynamic=True) == 1
    assert compilations(textbook, *calls, dynamic=True) == 1


@QUIET
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_decoding_loop_is_compiled_once(dtype):
    """Twice, that is: for the first offset, and for every offset."""
    seeded = torch.Generator().manual_seed(0)
    token = torch.rand(3, 1, 16, dtype=dtype, generator=seeded)
    rope = RoPE(16, 10**6, **IN_HALVES)

    def step(x, offset):
        return rope(x, offset=offset)

    assert compilations(step, *((token, offset) for offset in range(50))) == 2

    far = torch.compile(step, fullgraph=True, backend="eager")(token, 999_999)
    exact = rope(token.double().numpy(), offset=999_999)
    tolerance = 1e-15 if dtype == torch.float64 else 1e-7
    np.testing.assert_allclose(far.double().numpy(), exact, rtol=0, atol=tolerance)


@QUIET
def test_what_takes_an_offset_or_a_length_is_compiled_for_all():
    token, learned = torch.rand(8, 1, 3), LearnedPE(8, 40, embeddings=torch.rand(8, 40))
    sections, scaled = RoPE(8, 40, sections=(1, 3)), RoPE(8, 40, scaling=YaRNScaling(4, 10))
    calls = [
        lambda i: AbsolutePE(8, 40)(token, offset=i),
        lambda i: learned(token, offset=i),
        lambda i: sections(token, offset=i),
        lambda i: scaled(token, offset=i, inverse=True),
        lambda i: scaled.shift(token, i - 5),
        lambda i: create_causal_mask(1, k_len=i + 2, xp=torch),
        lambda i: alibi_bias(4, i + 2, xp=torch),
    ]
    for call in calls:
        assert compilations(call, *((i,) for i in range(10))) <= 2


@QUIET
def test_encodings_and_masks_are_compiled_whole():
    x, places, times = torch.rand(8, 5, 3), torch.arange(5) * 7, torch.rand(5) * 1e3
    rope, of_sections = RoPE(8, 40), RoPE(8, 40, sections=(1, 3))
    sizes = torch.tensor([2, 5, 3])
    calls = [
        lambda: rope(x, positions=places),
        lambda: rope(x, positions=times),
        lambda: of_sections(x, positions=torch.stack([places, places + 1])),
        lambda: rope.shift(x, 0.5),
        lambda: AbsolutePE(8, 40)(x, positions=places),
        lambda: sinusoidal_encoding(times, 7, preset="whisper"),
        lambda: random_fourier_encoding(x, 6, length_scale=0.5, orthogonal=True, rng=0),
        lambda: random_fourier_encoding(x, 6, kernel="periodic", period=(7,) * 8, rng=0),
        lambda: graph_laplacian_encoding(x[:, :, 0] @ x[:, :, 0].mT, 2),
        lambda: random_walk_encoding(x[:, :, 0] @ x[:, :, 0].mT, 3),
        lambda: sinusoidal_encoding(times, 8, preset="detr", length=50.0),
        lambda: inverse_frequencies(6, xp=torch, dtype=torch.float32),
        lambda: create_padding_mask(sizes, 5),
        lambda: PrefixMask(sizes).dense(5),
        lambda: SegmentMask(places // 10).dense(len(places)),
        lambda: SlidingWindowMask(2, 0).dense(5, xp=torch),
    ]
    for call in calls:
        assert compilations(call, ()) == 1


@QUIET
def test_a_compiled_function_keeps_layers_and_numbers_apart():
    """Numbers that a function is compiled for are compared, so that none serves for another."""
    x, times = torch.rand(8, 5), torch.arange(5)
    layers = [RoPE(8, 9), RoPE(8, 9, 100), RoPE(8, 9), RoPE(8, 9, scaling=YaRNScaling(4, 4))]
    assert compilations(lambda rope: rope(x), *((layer,) for layer in layers)) == 3
    sizes = ((times, dim, base) for dim, base in ((8, 10), (6, 10), (4, 100), (4, 2.5), (4, 3.5)))
    compilations(lambda p, dim, base: sinusoidal_encoding(p, dim, base=base), *sizes)


def test_the_first_call_of_all_may_be_a_compiled_one():
    code = """
import torch
from positional_embeddings import RoPE, sinusoidal_encoding
rope, x, at = RoPE(8, 9), torch.rand(8, 1), torch.arange(1)
calls = [lambda i: rope(x, offset=i), lambda i: x + sinusoidal_encoding(at + i, 8, base=7)]
results = [torch.compile(call, fullgraph=True, backend="eager")(4) for call in calls]
torch.testing.assert_close(results, [call(4) for call in calls])
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_an_exported_rotation_takes_every_offset_and_length():
    rope = RoPE(8, 100)

    class Step(torch.nn.Module):
        def forward(self, x):
            return rope.shift(rope(x, offset=3), 2), rope.shift(x, 0.5)

    dynamic = {"x": {1: torch.export.Dim("seq", min=2, max=90)}}
    exported = torch.export.export(
        Step(), (torch.rand(8, 5),), dynamic_shapes=dynamic, strict=False
    )
    x = torch.rand(8, 60)
    torch.testing.assert_close(exported.module()(x), Step()(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize("options", [{}, IN_HALVES])
def test_positions_are_mapped(options):
    rope, pe = RoPE(8, 40, **options), AbsolutePE(8, 40, **options)
    sections = RoPE(8, 40, sections=(1, 3), **options)
    shape = (3, 5, 8) if options else (3, 8, 5)
    x, places = torch.rand(shape), torch.randint(0, 100, (3, 5))
    pairs = torch.randint(0, 100, (3, 2, 5))
    calls = [
        (lambda p: rope(x[0], positions=p), places),
        (lambda x, p: rope(x, positions=p), x, places),
        (rope.shift, x, places * 0.5),
        (lambda x, p: sections(x, positions=p), x, pairs),
        (lambda x, p: pe(x, positions=p), x, places),
        (lambda p: sinusoidal_encoding(p, 7), places),
        (lambda x: rope(x, offset=3), x),
    ]
    for call, *arrays in calls:
        each = torch.stack([call(*parts) for parts in zip(*arrays, strict=True)])
        torch.testing.assert_close(torch.func.vmap(call)(*arrays), each, atol=1e-6, rtol=0)


@QUIET
@pytest.mark.parametrize("options", [{}, {"block_size": 3}, {"bias": 0}, {"function": 0}])
def test_attention_is_compiled_whole(options):
    q, k, v = torch.rand(3, 4, 7, 2).unbind()
    mask = create_causal_mask(7, xp=torch)
    if "function" in options:
        options = {"mask": lambda q_idx, k_idx: k_idx > q_idx}
    elif "bias" in options:
        options = {"bias": mask_to_bias(mask, torch.float32)}
    else:
        options = {"mask": mask} | options

    def attend(q, k, v):
        return scaled_dot_product_attention(q, k, v, **options)

    compiled = torch.compile(attend, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(q, k, v), attend(q, k, v))


DOCUMENTS = [0, 0, 0, 1, 1, 2, 2]
MASKS = {
    "window": SlidingWindowMask(2, 0),
    "chunks": ChunkedMask(3),
    "steps": DilatedMask(2),
    "neighbours": NeighbourhoodMask((2, 4), 1),
    "function": FunctionMask(lambda q_pos, k_pos: k_pos > q_pos),
    "global tokens": SlidingWindowMask(1, 1) & GlobalMask([0, 4]),
    "global tokens of PyTorch": GlobalMask(torch.tensor([0, 2])),
    "padding": CausalMask() | PaddingMask([3, 7]),
    "padding on the left": PaddingMask(np.asarray([3, 7]), "left"),
    "padding of PyTorch": PaddingMask(torch.tensor([3, 7])),
    "prefix": PrefixMask([2, 5]),
    "documents": ~SegmentMask(DOCUMENTS),
    "documents of PyTorch": SegmentMask(torch.tensor(DOCUMENTS)),
}


@QUIET
@pytest.mark.parametrize("name", MASKS)
def test_attention_with_a_mask_as_value_is_compiled_whole(name):
    q, k, v = torch.rand(3, 4, 7, 2).unbind()

    def attend(q, k, v):
        whole = scaled_dot_product_attention(q, k, v, mask=MASKS[name])
        return whole, scaled_dot_product_attention(q, k, v, mask=MASKS[name], block_size=4)

    assert compilations(attend, (q, k, v)) == 1


@QUIET
@pytest.mark.parametrize("kind", samples.MASKS)
def test_attention_with_each_mask_is_compiled_whole(kind):
    q, k, v = torch.rand(3, 4, 5, 2).unbind()
    mask = getattr(pe, kind)(**samples.MASKS[kind].values[0])

    def attend(q, k, v):
        whole = scaled_dot_product_attention(q, k, v, mask=mask)
        return whole, scaled_dot_product_attention(q, k, v, mask=mask, block_size=4)

    assert compilations(attend, (q, k, v)) == 1


@QUIET
def test_a_compiled_attention_reads_the_numbers_of_each_mask():
    """Those of NumPy are inputs of the graph, so that none serves for another."""
    x = torch.rand(4, 7, 2)
    masks = [PaddingMask([3, 7]), PaddingMask([6, 1]), SegmentMask(DOCUMENTS), SegmentMask([0] * 7)]
    masks += [GlobalMask([0]), GlobalMask([5])]

    def attend(x, mask):
        return scaled_dot_product_attention(x, x, x, mask=mask)

    assert compilations(attend, *((x, mask) for mask in masks)) <= 4


@QUIET
def test_attention_with_a_bias_as_value_is_compiled_whole():
    q, k, v = torch.rand(3, 4, 7, 2).unbind()
    numbers = torch.rand(3, 2)
    biases = [
        ALiBiBias(2),
        T5Bias(2, rng=0, xp=torch),
        SandwichBias(2),
        KERPLEBias(numbers[0], numbers[1]),
        FIREBias(numbers[0], numbers[1], numbers[:2], numbers[2], c=0.1, threshold=2.0),
        RelativePE(3, 2, rng=0, xp=torch),
    ]
    for bias in biases:

        def attend(q, k, v, bias=bias):
            return scaled_dot_product_attention(q, k, v, mask=CausalMask(), bias=bias)

        assert compilations(attend, (q, k, v)) == 1


@QUIET
def test_layers_that_are_made_in_a_compiled_function():
    x, table = torch.rand(8, 7, 2), torch.rand(8, 9)
    lengths, weights = torch.tensor([3, 7]), torch.rand(4, 8, 8)
    ids = torch.tensor([0, 8, 1])
    scalings = [
        lambda: LinearScaling(2.0),
        lambda: NTKScaling(2.0),
        lambda: DynamicNTKScaling(2.0, 10),
        lambda: YaRNScaling(4, 10),
        lambda: Llama3Scaling(8, 1, 4, 10),
        lambda: LongRoPEScaling([1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 3.0, 4.0], 10, factor=4),
        lambda: ProportionalScaling(0.5),
    ]
    calls = [lambda make=make: RoPE(8, 40, scaling=make())(x) for make in scalings]
    calls += [
        lambda: RoPE(8, 40, sections=(1, 3))(x),
        lambda: AbsolutePE(8, 40)(x),
        lambda: LearnedPE(8, 9, embeddings=table, padding_idx=1)(x),
        lambda: TokenEmbedding(9, 8, embeddings=table, padding_idx=1)(ids),
        lambda: T5Bias(1, num_buckets=8, embeddings=table[:, :1])(5),
        lambda: scaled_dot_product_attention(x, x, x, mask=CausalMask() | PaddingMask(lengths)),
        lambda: RoPEMultiHeadAttention(
            8, 2, Wq=weights[0], Wk=weights[1], Wv=weights[2], Wo=weights[3]
        )(x, mask=CausalMask()),
        lambda: compute_frequencies(8, 5, xp=torch),
    ]
    for call in calls:
        assert compilations(call, ()) == 1


@QUIET
def test_a_compiled_function_keeps_scalings_apart():
    x = torch.rand(8, 5)
    scalings = [YaRNScaling(4, 4), YaRNScaling(8, 4), NTKScaling(2.0), NTKScaling(3.0), None]
    long = [LongRoPEScaling([1.0] * 4, [n] * 4, 3, factor=4) for n in (2.0, 3.0)]
    calls = ((x, scaling) for scaling in (*scalings, *long))
    compilations(lambda x, scaling: RoPE(8, 9, scaling=scaling)(x), *calls)


@QUIET
def test_growing_sequences_and_caches_are_compiled_for_all_lengths():
    rope, mha = RoPE(8, 100), RoPEMultiHeadAttention(8, 2, rng=0, xp=torch)
    x, keys = torch.rand(8, 40, 2), torch.rand(8, 60, 2)
    calls = [
        lambda n: rope(x[:, :n, :]),
        lambda n: scaled_dot_product_attention(
            x[:, :1, :], keys[:, :n, :], keys[:, :n, :], mask=CausalMask()
        ),
        lambda n: mha(x[:, :n, :], mask=CausalMask()),
    ]
    for call in calls:
        assert compilations(call, *((n,) for n in range(2, 8))) <= 2


@QUIET
def test_encodings_of_coordinates_are_compiled_whole():
    points, times = torch.rand(2, 5, 3), torch.rand(5) * 90
    calls = [
        lambda: fourier_encoding(points, [1.0, 0.5]),
        lambda: fourier_encoding(points, preset="nerf"),
        lambda: cyclic_encoding(times, 24),
        lambda: spherical_encoding(times, times, 3),
        lambda: grid_encoding((3, 4), 8, xp=torch),
        lambda: grid_cell_encoding(points, 12),
        lambda: xpos_scale(times, 8),
    ]
    for call in calls:
        assert compilations(call, ()) == 1


PADDED = {
    "positions": (lambda p: LearnedPE(4, 6, embeddings=p, padding_idx=2), torch.ones(4, 5)),
    "tokens": (lambda p: TokenEmbedding(6, 4, embeddings=p, padding_idx=2), torch.arange(6)),
}


@pytest.mark.parametrize("name", PADDED)
def test_an_optimizer_trains_the_parameter_of_a_layer_with_padding(name):
    make, x = PADDED[name]
    table = torch.nn.Parameter(torch.rand(4, 6))
    layer = make(table)
    assert layer.embeddings is table
    optimizer, before, losses = torch.optim.SGD([table], lr=0.1), table.detach().clone(), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] > losses[1] > losses[2]
    assert torch.equal(table[:, 2], before[:, 2])
    without = x[:, 2] if name == "positions" else torch.zeros(4)
    assert torch.equal(layer(x)[:, 2], without)
    frozen = torch.nn.Parameter(table.detach(), requires_grad=False)
    assert make(frozen).embeddings is frozen


def test_a_module_takes_the_parameters_of_its_layers_along():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.rand(4, 6))
            self.encode = LearnedPE(4, 6, embeddings=self.table, padding_idx=0)

    model = Model()
    for other in (copy.deepcopy(model), model.to(torch.float64)):
        assert other.encode.embeddings is other.table
    model.load_state_dict({"table": torch.ones(4, 6)})
    assert torch.equal(model.encode(torch.zeros(4, 2)), torch.tensor([[0.0, 1.0]] * 4))


@pytest.mark.parametrize("block_size", [None, 3])
def test_attention_is_mapped(block_size):
    q, k, v = torch.rand(3, 5, 4, 7).unbind()

    def attend(q, k, v):
        return scaled_dot_product_attention(q, k, v, block_size=block_size)

    mapped = torch.func.vmap(attend)(q, k, v)
    torch.testing.assert_close(
        mapped, torch.stack([attend(*xs) for xs in zip(q, k, v, strict=True)])
    )


def test_what_shares_memory():
    x = torch.zeros(4, 6)
    for other, shared in ((x, False), (x[:], False), (x[1:], True), (x.T, True), (x + 0, False)):
        assert get_backend(x=x).shares_memory(x, other) == shared


def test_out_is_written_to_without_another_array():
    """Not one of its size, at least."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if "empty" in str(function) or "clone" in str(function):
                self.size = max(self.size, result.numel())
            return result

    rope = RoPE(64, 4096, feature_axis=-1, seq_axis=-2)
    x = torch.rand(8, 4096, 64)
    expected = rope(x)
    with Largest() as of_out:
        torch.testing.assert_close(rope(x, out=torch.empty_like(x).zero_()), expected)
    with Largest() as in_place:
        assert rope(x, out=x) is x
    torch.testing.assert_close(x, expected)
    assert in_place.size < x.numel() / 8
    assert of_out.size == x.numel()


@pytest.mark.parametrize("size", [None, 8])
def test_what_nobody_may_attend_to_has_a_gradient_of_zeros(size):
    q, k, v = leaf(4, 32, 2), leaf(4, 32, 2, seed=1), leaf(4, 32, 2, seed=2)
    mask = torch.ones(32, 32, 1, dtype=torch.bool)
    output = scaled_dot_product_attention(q, k, v, mask=mask, block_size=size)
    output.sum().backward()
    assert not output.any()
    assert not any(array.grad.any() for array in (q, k, v))


@pytest.mark.parametrize("by_function", [False, True])
def test_a_learned_bias_that_is_masked_everywhere_has_a_gradient_of_zeros(by_function):
    x, b = torch.ones(4, 32), torch.zeros(32, 32, requires_grad=True)
    mask = torch.ones(32, 32, dtype=torch.bool)
    bias = (lambda q_idx, k_idx: b[q_idx, k_idx]) if by_function else b
    output = scaled_dot_product_attention(x, x, x, mask=mask, bias=bias, block_size=8)
    output.sum().backward()
    assert not output.any()
    assert not b.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [None, 64])
def test_attention_keeps_its_precision_under_autocast(dtype, size):
    """Powers that are not normalised yet are beyond half precision."""
    numbers = np.random.default_rng(0).standard_normal((64, 1024, 1))
    x = torch.asarray(0.8 + 0.3 * numbers, dtype=torch.float32)
    alone = scaled_dot_product_attention(x, x, x, block_size=size)
    with torch.autocast("cpu", dtype):
        under = scaled_dot_product_attention(x, x, x, block_size=size)
        assert (x.mT @ x.mT.mT).dtype == dtype  # is it on?
    assert torch.equal(under, alone)


def test_layers_and_biases_keep_their_precision_under_autocast():
    rng = np.random.default_rng(0)
    x = torch.asarray(rng.standard_normal((8, 5, 2)), dtype=torch.float32)
    images = torch.asarray(rng.standard_normal((3, 8, 8, 2)), dtype=torch.float32)
    w1, b1, b2 = (torch.asarray(rng.standard_normal(4), dtype=torch.float32) for _ in range(3))
    calls = [
        lambda: RoPEMultiHeadAttention(8, 2, rng=0, xp=torch)(x),
        lambda: PatchEmbedding(8, 4, 3, 6, rng=0, xp=torch)(images),
        lambda: SandwichBias(2)(5, xp=torch),
        lambda: FIREBias(w1, b1, w1[:, None] * w1, b2, c=0.1, threshold=2.0)(5),
    ]
    for call in calls:
        alone = call()
        with torch.autocast("cpu", torch.float16):
            under = call()
        assert torch.equal(under, alone)


@pytest.mark.parametrize("apart", [0, 1, 5, 300])
def test_out_that_shares_memory_through_another_storage(apart):
    memory = np.random.default_rng(0).standard_normal(64 * 300 + 300).astype("float32")
    x = torch.from_numpy(memory[apart : apart + 64 * 300].reshape(64, 300))
    out = torch.from_numpy(memory[: 64 * 300].reshape(64, 300))
    rope = RoPE(64, 300)
    expected = rope(x.clone())
    assert torch.equal(rope(x, out=out), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_positions_are_no_constants_of_a_trace():
    from torch.fx.experimental.proxy_tensor import make_fx

    x, positions = torch.rand(8, 3), torch.arange(3)
    rope, pe = RoPE(8, 100), AbsolutePE(8, 100)

    def call(x, positions):
        return rope(pe(x, positions=positions), positions=positions)

    traced = torch.jit.trace(call, (x, positions), check_trace=False)
    made = make_fx(call)(x, positions)
    expected = call(x, positions + 7)
    for compiled in (traced, made):
        torch.testing.assert_close(compiled(x, positions + 7), expected, atol=1e-6, rtol=0)


@QUIET
def test_a_compiled_attention_takes_the_step_of_a_cache():
    axes = {"feature_axis": -1, "seq_axis": -2}

    def attend(q, keys, step):
        return scaled_dot_product_attention(
            q, keys, keys, mask=CausalMask(), positions=step, **axes
        )

    # A full ring: shapes do not change.
    cache, steps = KVCache.empty(1, 2, window=3, num_kv_heads=3, head_size=4, **axes, xp=torch), []
    cache, step = cache.step([[0, 1], [1, 1]])
    step.update(0, *torch.rand(2, 2, 3, 2, 4))
    for token in torch.rand(9, 2, 3, 1, 4):
        cache, step = cache.step(1)
        steps.append((token, step.update(0, token, token)[0].clone(), step.of(0)))
    assert compilations(attend, *steps) <= 2


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_plans_are_remembered_for_plain_tensors_alone():
    """What a mode, a transformation or a compilation makes does not outlive it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, keys = torch.zeros(2, 3), []

    def with_key(x):
        keys.append(call_key(x, None))
        return x + 0.0

    vmap, jvp, functionalize = torch.vmap(with_key), torch.func.jvp, torch.func.functionalize
    (
        vmap(x),
        jvp(with_key, (x,), (x,)),
        functionalize(with_key)(x),
        torch.func.grad(lambda x: with_key(x).sum())(x),
    )
    torch.jit.trace(with_key, x)
    torch.compile(with_key, backend="eager", fullgraph=False)(x)
    with torch.device("cpu"):  # a mode of functions
        with_key(x)
    with FakeTensorMode() as mode:
        with_key(mode.from_tensor(x))
    with torch.autograd.forward_ad.dual_level():
        with_key(x)
    with_key(torch.nn.Parameter(x))
    assert {key for key in keys if key is not None} <= {call_key(x, None)}
    assert keys.count(call_key(x, None)) <= 1  # `torch.jit.trace` also runs the function itself


def test_keys_tell_tensors_apart():
    x, leaf = torch.zeros(2, 3), torch.zeros(2, 3, requires_grad=True)
    tensors = [
        x,
        x.T,
        x.to(torch.float64),
        torch.zeros(2, 4),
        leaf,
        torch.zeros(2, 3, device="meta"),
    ]
    keys = [call_key(tensor, None) for tensor in tensors]
    keys += [call_key(x, x), call_key(x, torch.zeros(2, 3)), call_key(x, None, x)]
    keys += [call_key(x, None, leaf), call_key(x, torch.zeros(3, 2).T)]
    with torch.inference_mode():
        keys.append(call_key(x, None))
    torch.set_default_dtype(torch.float64)
    try:
        keys.append(call_key(x, None))
    finally:
        torch.set_default_dtype(torch.float32)
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert call_key(torch.ones(2, 3), None) == keys[0]
    assert call_key(x, None, np.zeros(3)) is None


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_remembered_plan_rotates_and_differentiates_alike(layout):
    rope = RoPE(8, 32, layout=layout, feature_axis=-1, seq_axis=-2)
    x, positions = (
        torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)),
        torch.arange(3, 8),
    )
    tables = rope.tables(positions)
    for _ in range(2):
        with torch.inference_mode():
            inferred = [rope(x, offset=3), rope(x, positions=positions), tables(x)]
        plain = [rope(x, offset=3), rope(x, positions=positions), tables(x)]
        out = torch.empty_like(x)
        plain += [rope(x, offset=3, out=out).clone(), tables(x, out=out)]
        leaf = x.clone().requires_grad_()
        recorded = [rope(leaf, offset=3), rope(leaf, positions=positions), tables(leaf)]
        expected = rope(x.numpy(), offset=3)
        for result in (*inferred, *plain, *recorded):
            np.testing.assert_array_equal(result.detach().numpy(), expected)
        for result in recorded:
            leaf.grad = None
            (result * x).sum().backward()
            np.testing.assert_allclose(
                leaf.grad.numpy(), rope(x, offset=3, inverse=True), atol=1e-6
            )


def test_tables_that_are_trained_are_not_remembered():
    rope, x = RoPE(4, 8), torch.ones((4, 3))
    made = rope.tables(torch.arange(3))
    trained = type(made)(rope, torch.nn.Parameter(made.cos_sin.clone()))
    before = trained(x)
    before.sum().backward()
    with torch.no_grad():
        first = trained(x)
        trained.cos_sin.mul_(2)
        np.testing.assert_array_equal(trained(x).numpy(), 2 * first.numpy())
    assert trained.cos_sin.grad is not None


POINTS = torch.linspace(-300.0, 300.0, 1001, dtype=torch.float64)
ENCODINGS = {
    "sinusoidal": lambda x, **options: sinusoidal_encoding(x, 16, **options),
    "cyclic": lambda x, **options: cyclic_encoding(x, 7.0, harmonics=2, **options),
    "fourier": lambda x, **options: fourier_encoding(x, [3.0, 5.0], **options),
    "random": lambda x, **options: random_fourier_encoding(x[None], 16, rng=0, **options),
    "spherical": lambda x, **options: spherical_encoding(x / 4, x, 3, **options),
}


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("name", ENCODINGS)
def test_numpy_computes_encodings_of_tensors_on_the_host(name):
    """The numbers are the same, and a gradient or a mode does without NumPy."""
    encode = ENCODINGS[name]
    for dtype in (None, torch.float32, torch.float16):
        result = encode(POINTS, dtype=dtype)
        numpy_dtype = None if dtype is None else getattr(np, str(dtype)[6:])
        assert result.dtype == (dtype or torch.float64)
        np.testing.assert_array_equal(result.numpy(), encode(POINTS.numpy(), dtype=numpy_dtype))
    half = encode(POINTS, dtype=torch.bfloat16)
    torch.testing.assert_close(half, encode(POINTS, dtype=torch.float32).to(torch.bfloat16))
    leaf = POINTS.clone().requires_grad_()
    recorded = encode(leaf)
    assert recorded.requires_grad
    assert torch.allclose(recorded.detach(), encode(POINTS), atol=1e-12)
    with torch.no_grad():
        assert torch.equal(encode(leaf), encode(POINTS))
    mapped = torch.vmap(encode)(POINTS[:6, None])
    assert torch.allclose(mapped[..., 0].T, encode(POINTS[:6]), atol=1e-12)
    _, tangent = torch.func.jvp(encode, (POINTS,), (torch.ones_like(POINTS),))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(POINTS, torch.ones_like(POINTS))
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(encode(dual)).tangent, tangent)


def test_a_remembered_plan_of_a_step_holds_no_tensor_of_the_caller():
    """A mask that changes is read again, and the gradient of a bias is recorded anew."""
    axes = {"feature_axis": -1, "seq_axis": -2}
    q, k, v = (
        torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    cache = KVCache.empty(1, 1, 8, num_kv_heads=2, head_size=4, xp=torch, **axes)
    step = cache.step(3)[1].of(0)

    def attend(**options):
        return scaled_dot_product_attention(q, k, v, positions=step, **axes, **options)

    plain = attend(mask=CausalMask())
    assert len(step._plans) == 1
    assert torch.equal(attend(mask=CausalMask()), plain)
    with torch.inference_mode():
        assert torch.equal(attend(mask=CausalMask()), plain)
    assert len(step._plans) == 2
    mask = torch.ones(3, 3, dtype=torch.bool).triu(1)
    torch.testing.assert_close(attend(mask=mask), plain)
    mask[:] = False
    torch.testing.assert_close(attend(mask=mask), attend())
    weight = torch.nn.Parameter(torch.zeros(32, 2))
    bias = T5Bias(2, embeddings=weight)
    for _ in range(2):
        weight.grad = None
        attend(bias=bias).pow(2).sum().backward()
        assert torch.any(weight.grad != 0)


def decoder(**options):
    """Return a cache of two equal layers, and what attends in each for a token."""
    layer = AttentionLayer(2, 4, mask=CausalMask(), **options, **IN_HALVES)
    cache, step = KVCache.empty([layer] * 2, 1, 8, xp=torch, dtype=torch.float32).step(2)
    tokens = torch.randn(5, 1, 2, 2, 4, generator=torch.Generator().manual_seed(0))
    for number in range(2):
        step.attend(number, *tokens[:3])
    return cache, tokens[2:, :, :, :1]


@pytest.mark.parametrize("rope", [RoPE(4, 8, **IN_HALVES), RoPE(4, 2, **IN_HALVES), None])
def test_like_layers_of_a_step_are_planned_once(rope, monkeypatch):
    """For each mode of PyTorch anew, with equal outputs."""
    plan, planned = AttentionLayer._plan_in_step, []
    monkeypatch.setattr(AttentionLayer, "_plan_in_step", lambda *x: planned.append(x) or plan(*x))
    (cache, qkv), outputs, modes = decoder(rope=rope), [], [torch.no_grad, torch.inference_mode]
    planned.clear()
    for mode in modes:
        with mode():
            step = cache.rewind(0).step(1)[1]
            outputs += [step.attend(number, *qkv) for number in range(2)]
    with torch.inference_mode():
        step = cache.rewind(0).step(1)[1]
        outputs.append(step.attend(0, *qkv))
    leaves = qkv.clone().requires_grad_()
    outputs.append(step.attend(1, *leaves))
    outputs[-1].sum().backward()
    assert torch.all(leaves.grad[2] > 0)
    assert len(planned) == 4
    assert all(torch.equal(output, outputs[0]) for output in outputs)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_function_of_tensors_is_called_in_each_layer_of_a_step(is_scaled):
    """As it has a gradient in one layer, and none in the other."""
    weight = torch.nn.Parameter(torch.ones(8))
    bias = FunctionBias(lambda q, k: weight[(q - k).clamp(0, 7)])
    cache, qkv = decoder(bias=2.0 * bias if is_scaled else bias)
    step = cache.step(1)[1]
    with torch.no_grad():
        step.attend(0, *qkv)
    step.attend(1, *qkv).square().sum().backward()
    assert weight.grad[:3].any()


def test_a_bias_of_tensors_is_read_in_each_layer_of_a_step():
    """It may change, and has gradients of its own."""
    weight = torch.nn.Parameter(torch.zeros(32, 2))
    cache, qkv = decoder(bias=T5Bias(2, embeddings=weight))
    step = cache.step(1)[1]
    outputs = [step.attend(0, *qkv)]
    weight.data[0] = 100.0  # of the token itself
    outputs.append(step.attend(1, *qkv))
    torch.testing.assert_close(outputs[1], qkv[2])
    assert not torch.allclose(*outputs)
    outputs[0].sum().backward()
    assert torch.any(weight.grad != 0)


def test_a_cache_of_inference_mode_is_copied_to_go_on_outside():
    with torch.inference_mode():
        cache, qkv = decoder()
    inside, (q, k, v) = copy.deepcopy(cache), qkv.clone()
    with pytest.raises(
        ValueError, match=r"`cache` must be used in torch\.inference_mode, .* copy it"
    ):
        cache.step(1)[1].attend(0, q, k, v)
    assert inside.step(1)[1].attend(0, q.requires_grad_(), k, v).requires_grad
    with pytest.raises(
        TypeError, match=r"`dtype` must be a real dtype .*float32.*Pass torch\.float32"
    ):
        KVCache.empty(1, 1, 8, num_kv_heads=1, head_size=2, xp=torch, dtype=np.float32, **IN_HALVES)
    with pytest.raises(TypeError, match=r"got torch\.float32\. Pass numpy\.float32"):
        KVCache.empty(1, 1, 8, num_kv_heads=1, head_size=2, dtype=torch.float32, **IN_HALVES)


def test_results_are_overwritten_where_nothing_is_recorded():
    """An attention without gradients equals one with gradients, to the bit."""
    q, k, v = (torch.randn(2, 300, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    options = {"feature_axis": -1, "seq_axis": -2, "mask": CausalMask(), "block_size": 64}
    inputs = [x.clone() for x in (q, k, v)]
    expected = scaled_dot_product_attention(*inputs, **options)
    assert all(map(torch.equal, inputs, (q, k, v)))
    for index in range(3):
        leaves = [x.clone().requires_grad_(i == index) for i, x in enumerate((q, k, v))]
        output = scaled_dot_product_attention(*leaves, **options)
        output.sum().backward()
        torch.testing.assert_close(output.detach(), expected, rtol=0, atol=1e-6)
        assert torch.isfinite(leaves[index].grad).all()


def test_another_release_of_pytorch_remembers_nothing(monkeypatch):
    """Its private names tell whether a mode is active; without one, tensors are not NumPy's."""
    x = torch.ones(1, 2, 5, 8)
    rope = pe.RoPE(8, 20, feature_axis=-1, seq_axis=-2)
    expected = rope(x)
    monkeypatch.delattr(torch.autograd.forward_ad, "_current_level")
    assert torch.equal(rope(x), expected)
    places = torch.linspace(0, 9, 5, dtype=torch.float64)
    np.testing.assert_allclose(
        pe.sinusoidal_encoding(places, 8), pe.sinusoidal_encoding(places.numpy(), 8), atol=1e-7
    )


@pytest.mark.parametrize("layer", [RoPE(8, 100, **IN_HALVES), AbsolutePE(8, 100, **IN_HALVES)])
def test_tables_are_constants_while_pytorch_compiles(layer, monkeypatch):
    x = torch.rand(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    expected = layer(x, offset=3)
    monkeypatch.setattr(PyTorchBackend, "is_compiling", True)
    torch.testing.assert_close(layer(x, offset=3), expected)


def test_a_ring_whose_lengths_a_compilation_does_not_know(monkeypatch):
    """All slots are stored anew."""

    def outputs():
        cache = KVCache.empty(
            1, 1, xp=torch, num_kv_heads=1, head_size=2, window=2, num_sink_tokens=1, **IN_HALVES
        )
        for number in range(5):
            new = torch.arange(2.0).reshape(1, 1, 1, 2) + number
            cache, step = cache.step(torch.ones(1, 1, dtype=torch.int64))
            keys, values = step.update(0, new, new)
            yield scaled_dot_product_attention(
                new, keys, values, mask=CausalMask(), positions=step, **IN_HALVES
            )

    expected = list(outputs())
    monkeypatch.setattr(PyTorchBackend, "is_compiling", True)
    torch.testing.assert_close(list(outputs()), expected)


@pytest.mark.parametrize("ids", [[0, 0, 1, 1], torch.tensor([[0], [0], [1], [1]])])
def test_documents_of_a_padded_prompt_while_pytorch_compiles(ids, monkeypatch):
    axes = {"feature_axis": -1, "seq_axis": -2}
    tokens = torch.tensor([[0, 1, 1, 1], [1, 0, 1, 1]])
    x = torch.rand(2, 1, 4, 2, generator=torch.Generator().manual_seed(0))
    cache = KVCache.empty(1, 2, 8, xp=torch, num_kv_heads=1, head_size=2, **axes)
    _, step = cache.step(tokens)
    keys, values = step.update(0, x, x)

    def attend():
        mask = CausalMask() | SegmentMask(ids)
        output = scaled_dot_product_attention(x, keys, values, mask=mask, positions=step, **axes)
        return output * tokens[:, None, :, None]

    expected = attend()
    monkeypatch.setattr(PyTorchBackend, "is_compiling", True)
    torch.testing.assert_close(attend(), expected)
