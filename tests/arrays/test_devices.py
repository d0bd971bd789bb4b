"""CuPy computes on its current device alone: `device=` makes another one current for a call."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.arrays.backends.cupy import CuPyBackend
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.caching import _constants
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device

# Whatever has a `device=`; layers are asked for the array that they draw.
CALLS = {
    "alibi_bias": lambda on: pe.alibi_bias(2, 3, **on),
    "alibi_slopes": lambda on: pe.alibi_slopes(2, **on),
    "ALiBiBias": lambda on: pe.ALiBiBias(2)(3, **on),
    "compute_frequencies": lambda on: pe.compute_frequencies(4, 3, **on),
    "create_causal_mask": lambda on: pe.create_causal_mask(3, **on),
    "ChunkedMask": lambda on: pe.ChunkedMask(2).dense(4, **on),
    "DilatedMask": lambda on: pe.DilatedMask(2).dense(4, **on),
    "create_padding_mask": lambda on: pe.create_padding_mask([1, 2], 3, **on),
    "PrefixMask": lambda on: pe.PrefixMask([1, 2]).dense(3, **on),
    "SlidingWindowMask": lambda on: pe.SlidingWindowMask(1, 0).dense(3, **on),
    "cumulative_lengths": lambda on: pe.cumulative_lengths([1, 2], **on),
    "grid_encoding": lambda on: pe.grid_encoding((2, 3), 4, **on),
    "grid_positions": lambda on: pe.grid_positions((2, 3), **on),
    "inverse_frequencies": lambda on: pe.inverse_frequencies(4, **on),
    "LearnedPE": lambda on: pe.LearnedPE(4, 3, padding_idx=1, rng=0, **on).embeddings,
    "Mask.dense": lambda on: (pe.CausalMask() | pe.PaddingMask([1, 2])).dense(3, **on),
    "PatchEmbedding": lambda on: pe.PatchEmbedding(4, 2, 3, 4, rng=0, **on).kernel,
    "multimodal_positions": lambda on: pe.multimodal_positions([2, (1, 2, 2)], **on)[0],
    "RelativePE": lambda on: pe.RelativePE(3, 4, rng=0, **on).embeddings,
    "RoPEMultiHeadAttention": lambda on: pe.RoPEMultiHeadAttention(8, 2, rng=0, **on).Wq,
    "SandwichBias": lambda on: pe.SandwichBias(2, dim=4)(3, **on),
    "segment_ids_from_lengths": lambda on: pe.segment_ids_from_lengths([1, 2], **on),
    "T5Bias": lambda on: pe.T5Bias(2, rng=0, **on).embeddings,
    "to_attend": lambda on: pe.to_attend(pe.CausalMask(), 3, **on),
    "TokenEmbedding": lambda on: pe.TokenEmbedding(4, 3, padding_idx=1, rng=0, **on).embeddings,
}


@pytest.mark.complete
def test_nothing_that_has_a_device_is_left_out():
    called = {name: getattr(pe, name) for name in pe.__all__ if callable(getattr(pe, name))}
    have = {name for name, call in called.items() if "device" in signature(call).parameters}
    assert have <= CALLS.keys()


@pytest.fixture
def two_devices(backend):
    """Return CuPy and its second device, while the first one is current."""
    assert backend.name == "cupy"
    import cupy

    if (count := cupy.cuda.runtime.getDeviceCount()) < 2:
        pytest.skip(f"CuPy has {count} device here")
    return cupy, cupy.cuda.Device(1)


@pytest.mark.only_on("cupy")
@pytest.mark.parametrize("call", CALLS)
def test_result_is_on_the_device_that_is_asked_for(two_devices, call):
    cupy, other = two_devices
    got = CALLS[call]({"xp": cupy, "device": other})
    assert got.device == other
    assert cupy.cuda.Device() == cupy.cuda.Device(0)
    with other:
        np.testing.assert_allclose(got.get(), CALLS[call]({}), rtol=1e-6)


@pytest.mark.only_on("cupy")
def test_every_device_has_pages_of_its_own(two_devices):
    cupy, _ = two_devices
    x = np.random.default_rng(0).standard_normal((8, 5))
    rope = pe.RoPE(8, 16)
    for _ in range(2):
        for number in (0, 1):
            with cupy.cuda.Device(number) as device:
                got = rope(cupy.asarray(x))
                assert got.device == device
                np.testing.assert_allclose(got.get(), rope(x), atol=1e-12)
    pages = {kind[3]: page for kind, (page, *_) in rope._tables._pages.items() if len(kind) > 2}
    for device, page in pages.items():
        for table in page.tables:
            assert str(table.device) == device
    assert len(pages) == 2


@pytest.mark.only_on("cupy")
def test_every_device_has_constants_of_its_own(two_devices):
    cupy, other = two_devices
    biases = pe.ALiBiBias(3), pe.ALiBiBias(3, causal=False)
    expected = [bias(query_positions=np.arange(6)) for bias in biases]
    buckets = pe.relative_position_bucket(np.arange(-99, 99))
    for _ in range(2):
        for device in (cupy.cuda.Device(0), other):
            with device:
                positions, relative = cupy.arange(6), cupy.arange(-99, 99)
                got = [bias(query_positions=positions) for bias in biases]
                got.append(pe.relative_position_bucket(relative))
                assert all(array.device == device for array in got)
                for array, values in zip(got, [*expected, buckets], strict=True):
                    np.testing.assert_allclose(array.get(), values, rtol=1e-6)
    # A constant that is made while another device is current is on that of the arrays.
    with other:
        relative = cupy.arange(-99, 99)
    _constants.clear()
    with contextlib.suppress(ValueError):  # CuPy refuses arrays of another device than the current
        pe.relative_position_bucket(relative)
    with other:
        np.testing.assert_array_equal(pe.relative_position_bucket(relative).get(), buckets)
    assert {str(array.device) for array in _constants.values()} == {str(other)}


@pytest.mark.only_on("cupy")
def test_calls_on_the_current_device(two_devices):
    """Masks, biases and attention create arrays on the device of their arguments."""
    cupy, other = two_devices
    q = np.random.default_rng(0).standard_normal((8, 5, 2))
    bias, mask = pe.T5Bias(2, rng=0), pe.CausalMask() | pe.PaddingMask([3, 5])
    expected = pe.scaled_dot_product_attention(q, q, q, mask=mask)
    with other:
        query = cupy.asarray(q)
        got = pe.scaled_dot_product_attention(query, query, query, mask=mask)
        assert got.device == other
        np.testing.assert_allclose(got.get(), expected, atol=1e-12)
        layer = pe.T5Bias(2, embeddings=cupy.asarray(bias.embeddings))
        assert layer(3).device == other
        np.testing.assert_array_equal(layer(3).get(), bias(3))
    # Where another device is current, an attention is computed on that of its arrays.
    got = pe.scaled_dot_product_attention(query, query, query, mask=pe.CausalMask())
    assert got.device == other
    expected = pe.scaled_dot_product_attention(q, q, q, mask=pe.CausalMask())
    with other:
        np.testing.assert_allclose(got.get(), expected, atol=1e-12)


class Device:
    """As CuPy's: a number, and current within a context."""

    current = 0

    def __init__(self, number):
        self.number = int(number)

    def __enter__(self):
        self.outer, Device.current = Device.current, self.number

    def __exit__(self, *error):
        Device.current = self.outer


CUPY = ModuleType("cupy")
CUPY.cuda = SimpleNamespace(
    Device=Device, get_current_stream=lambda device: SimpleNamespace(ptr=device)
)


def test_device_is_current_for_the_call_only():
    @compute_on_device
    def current(*, xp=None, device=None):  # noqa: ARG001
        return Device.current

    assert current(xp=CUPY, device=3) == 3
    assert current(xp=CUPY) == current(xp=np, device="cpu") == current(device=3) == 0
    assert Device.current == 0


@pytest.mark.parametrize("device", ["cuda:1", "cpu", [0]])
def test_what_is_no_device(device):
    message = r"`device` must be a cupy\.cuda\.Device or its number, got"
    with pytest.raises(TypeError, match=message):
        CuPyBackend.current_device(device, CUPY)


def test_streams_are_told_apart():
    with ThreadPoolExecutor(1) as pool:

        def streams(number):
            array_backend = CuPyBackend(CUPY, number, np.float64, np.int64, np.float64, np.float64)
            return [array_backend.cache_key, pool.submit(lambda: array_backend.cache_key).result()]

        of_all, of_threads, of_one_stream = (streams(number) for number in (0, 2, 4112))
    assert of_all[0] == of_all[1]
    assert of_threads[0] != of_threads[1]
    assert of_one_stream[0] == of_one_stream[1]
    assert len({*of_all, *of_threads, *of_one_stream}) == 4
    assert backend_for().cache_key == (np, "cpu")


@pytest.mark.parametrize("xp", [np, None, 3, []])
def test_what_is_not_cupy_has_no_current_device(xp):
    @compute_on_device
    def current(*, xp, device):  # noqa: ARG001
        return Device.current

    assert current(xp=xp, device="cpu") == 0


def test_the_address_of_an_array_of_cupy():
    array_backend = CuPyBackend(CUPY, 0, np.float64, np.int64, np.float64, np.float64)
    assert array_backend.address(SimpleNamespace(data=SimpleNamespace(ptr=512))) == 512


def test_cupy_computes_on_the_device_of_an_array():
    assert CuPyBackend.compute_context(None, SimpleNamespace(device="cuda:1")) == "cuda:1"


def test_rotation_is_computed_on_the_device_of_its_array(monkeypatch):
    """Angles on the device of the positions, products on the device of the rotated array."""
    rope, x = pe.RoPE(8, 10, feature_axis=-1, seq_axis=-2), np.random.default_rng(0).random((3, 8))
    positions = np.asarray([0.5, -3.25, 7.0])
    expected, current, entered = rope(x, positions=positions), [], []

    @contextlib.contextmanager
    def on_device_of(_backend, array):
        entered.append(array.shape)
        current.append(array.shape)
        yield
        current.pop()

    monkeypatch.setattr(NumPyBackend, "compute_context", on_device_of)
    rotated = pe.RoPE(8, 10, feature_axis=-1, seq_axis=-2)(x, positions=positions)
    np.testing.assert_array_equal(rotated, expected)
    assert {positions.shape, x.shape} <= set(entered)
    assert not current
