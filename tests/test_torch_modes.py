"""The whole library in PyTorch's modes and transformations: one table, and a test for each."""

import gc
from functools import lru_cache, partial
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import positional_embeddings as pe
from positional_embeddings.encodings.dropout import dropout
from samples import BIASES, CATALOGUE, MASKS, NAMES, Library, is_numbers


def numbers(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


class Use(NamedTuple):
    """A call of the library: what makes it for a device, and the arrays it is called with."""

    make: Any  # of {"device": ...}
    arrays: tuple[Any, ...] = ()

    def layer(self, device="cpu"):
        return self.make({"device": device})


def of(function, *values, **options):
    """Return what makes a function of arrays and some other values."""
    return lambda _: lambda *arrays: function(*arrays, *values, **options)


def joined(result):
    """Return a result as one array; there may be several."""
    return torch.cat([one.flatten() for one in result]) if isinstance(result, tuple) else result


def arrays_of(call):
    """Return the arrays that a call makes for a library."""
    arrays = []
    call.on(Library(lambda x: arrays.append(x) or x, {"xp": np, "device": "cpu"}))
    return tuple(map(tensor, arrays))


def of_sample(calls):
    """Return the use of a sample: of its first call of real numbers, or else of arrays."""
    given = {id(call): arrays_of(call) for call in calls}
    of_reals = [c for c in calls if given[id(c)] and all(map(is_real, given[id(c)]))]
    call = next(iter([*of_reals, *(c for c in calls if given[id(c)]), *calls]))
    is_layer = isinstance(call.function, type) and not any(map(is_numbers, call.values.values()))

    def make(on):
        new = {"xp": torch, **on}
        if not is_layer:
            return lambda *arrays: joined(call.on(Library(next_of(arrays), new)))
        made = call.made(call.values_on(Library(None, new)))
        return lambda *arrays: joined(call.use(made, Library(next_of(arrays), new)))

    return Use(make, given[id(call)])


def next_of(arrays):
    """Return what takes the place of what makes an array: the next one of some."""
    left = iter(arrays)
    return lambda _: next(left)


def is_real(array):
    return array.is_floating_point()


def tensor(array):
    return torch.asarray(array, dtype=torch.float32 if array.dtype.kind == "f" else None)


def attention_of(kind, values, option):
    """Return the use of a mask or a bias: an attention, of the arrays of a bias, too."""
    arrays = {name: tensor(value) for name, value in values.items() if is_numbers(value)}
    if option == "mask":
        values = values | {name: value.tolist() for name, value in arrays.items()}
        arrays = {}

    def make(on):
        new = {"xp": torch, **on}
        others = {
            name: new.get(name, value)
            for name, value in values.items()
            if name not in arrays and name != "dtype"
        }
        value = None if arrays else getattr(pe, kind)(**others)

        def attention(x, *own):
            made = value
            if made is None:
                made = getattr(pe, kind)(**others, **dict(zip(arrays, own, strict=True)))
            return pe.scaled_dot_product_attention(x, x, x, **{option: made})

        return attention

    return Use(make, (X, *arrays.values()))


X = numbers(8, 5, 2)
EDGES, DRAWN = numbers(5, 5), numbers(8, 5, 2, seed=9)
# Of names whose sample is no function of all numbers, or holds none of PyTorch.
OWN = {
    "dropout": Use(
        lambda on: lambda x: dropout(x, 0.5, rng=lambda _: DRAWN.to(on["device"])), (X,)
    ),
    "graph_laplacian_encoding": Use(
        of(lambda a: pe.graph_laplacian_encoding(a + a.mT, 2)), (EDGES,)
    ),
    "random_walk_encoding": Use(of(lambda a: pe.random_walk_encoding(a + a.mT, 3)), (EDGES,)),
}
NO_USE = {
    "KVCache": "writes to buffers",
    "KVStep": "writes to buffers",
    "RotaryTables": "holds tables of one dtype on one device",
    "Mask": "an abstract base",
    "__version__": "a text",
    "days_since": "takes dates of NumPy",
    "describe_mask": "reads values, and returns a text",
    "show_versions": "prints",
    "log_wavelengths": "returns numbers of NumPy",
    "octave_wavelengths": "returns numbers of NumPy",
    "spherical_truncation_error": "returns a number",
    "to_block_ranges": "returns numbers",
}

USES = {name: of_sample(calls) for name, calls in CATALOGUE.items() if name in NAMES}
USES |= {kind: attention_of(kind, sample.values[0], "mask") for kind, sample in MASKS.items()}
USES |= {kind: attention_of(kind, values[0], "bias") for kind, values in BIASES.items()}
USES |= OWN
for _name in NO_USE:
    USES.pop(_name, None)
WITH_ARRAYS = [name for name, use in USES.items() if use.arrays]
OF_REAL_NUMBERS = [name for name in WITH_ARRAYS if all(map(is_real, USES[name].arrays))]


@pytest.mark.complete
def test_all_that_is_public_is_used():
    assert sorted([*USES, *NO_USE]) == sorted(NAMES)


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
