"""The kernels equal plain code to the bit."""

import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from positional_embeddings import RoPE
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.rotary import rotate
from positional_embeddings.rotary.kernels.merge_axes import merged_axes

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal((2, 3, 70, 16))

# Inputs, with their axes of features and sequence.
VIEWS = {
    "batch, heads, seq, head": (lambda a: a, -1, -2),
    "batch, seq, heads, head": (lambda a: a.swapaxes(1, 2).copy(), -1, 1),
    "head, seq, heads*batch": (lambda a: a.reshape(6, 70, 16).transpose(2, 1, 0).copy(), 0, 1),
    "head, seq": (lambda a: a[0, 0].T.copy(), 0, 1),
    "seq, head": (lambda a: a[0, 0], -1, -2),
    "Fortran order": (np.asfortranarray, -1, -2),
    "transposed": (lambda a: a.transpose(3, 2, 0, 1), 0, 1),
    "part of the features": (lambda a: a[..., 3:13], -1, -2),
    "every other position": (lambda a: a[:, ::2, ::3], -1, -2),
    "reversed": (lambda a: a[:, :, ::-1, ::-1], -1, -2),
    "every other feature": (lambda a: a[..., ::2], -1, -2),
    "one token": (lambda a: a[:, :, 5:6], -1, -2),
    "one head": (lambda a: a[:1, :1], -1, -2),
    "nothing": (lambda a: a[:0], -1, -2),
    "five axes": (lambda a: a.reshape(2, 3, 70, 2, 8), -1, 2),
}


def needs_kernel(dtype):
    if np.dtype(dtype) == np.float16 and rotate.numpy_kernel(np.dtype(dtype)) is None:
        pytest.skip("numba compiles for a processor that does not convert float16")


def ropes(x, feature, seq, **options):
    options |= {"feature_axis": feature, "seq_axis": seq}
    size = x.shape[feature]
    needs_kernel(x.dtype)
    return RoPE(size, 100, fused=False, **options), RoPE(size, 100, fused=True, **options)


@pytest.mark.library("numba")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_kernel_rotates_as_plain_code_does(view, layout, dtype):
    take, feature, seq = VIEWS[view]
    x = take(BASE.astype(dtype))
    for rotary_dim in (None, 4):
        plain, kernel = ropes(x, feature, seq, layout=layout, rotary_dim=rotary_dim)
        positions = RNG.integers(-50, 50, x.shape[seq])
        for options in ({}, {"offset": 3}, {"inverse": True}, {"positions": positions}):
            expected, got = plain(x, **options), kernel(x, **options)
            assert got.dtype == x.dtype
            assert got.strides == expected.strides
            np.testing.assert_array_equal(got, expected)
            out = np.full_like(x, 7)
            assert kernel(x, out=out, **options) is out
            np.testing.assert_array_equal(out, expected)
            in_place = x.copy(order="K")
            kernel(in_place, out=in_place, **options)
            np.testing.assert_array_equal(in_place, expected)


@pytest.mark.library("numba")
def test_positions_by_batch_and_shifts():
    plain, kernel = ropes(BASE, -1, -2)
    positions = RNG.uniform(-9, 9, (2, 1, 70))
    expected = plain(BASE, positions=positions)
    np.testing.assert_array_equal(kernel(BASE, positions=positions), expected)
    np.testing.assert_array_equal(kernel.shift(BASE, 2.5), plain.shift(BASE, 2.5))


@pytest.fixture
def numba_kernel():
    """The module, with empty caches."""
    from positional_embeddings.rotary.kernels import numba_kernel

    caches = numba_kernel._traversal, numba_kernel.compiled, rotate.numpy_kernel
    for function in caches:
        function.cache_clear()
    yield numba_kernel
    for function in caches:
        function.cache_clear()


@pytest.mark.library("numba")
@pytest.mark.parametrize("table_bytes", [0, 2**10, 2**17])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_pieces_on_several_threads(numba_kernel, threads, table_bytes, monkeypatch):
    monkeypatch.setattr(numba_kernel, "CACHED_TABLE_BYTES", table_bytes)
    monkeypatch.setattr(numba_kernel, "THREAD_BYTES", 2**10)
    monkeypatch.setattr(numba_kernel.numba.config, "NUMBA_NUM_THREADS", threads)
    for layout in ("half", "interleaved"):
        for take, feature, seq in VIEWS.values():
            x = take(BASE)
            plain, kernel = ropes(x, feature, seq, layout=layout)
            np.testing.assert_array_equal(kernel(x), plain(x))
            np.testing.assert_array_equal(kernel.shift(x, 3), plain.shift(x, 3))


@pytest.mark.library("numba")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_out_past_the_caches(numba_kernel, layout, dtype, monkeypatch):
    monkeypatch.setattr(rotate, "STREAMED_BYTES", 0)
    monkeypatch.setattr(numba_kernel, "CACHED_TABLE_BYTES", 2**10)
    for size in (16, 64, 80):
        base = RNG.standard_normal((2, 3, 20, size)).astype(dtype)
        for x, feature, seq in ((base, -1, -2), (base.transpose(3, 2, 1, 0).copy(), 0, 1)):
            plain, kernel = ropes(x, feature, seq, layout=layout)
            numbers = np.zeros(x.size + 32, dtype)
            for start in (0, 1, 8):  # aligned or not
                out = numbers[start : start + x.size].reshape(x.shape)
                kernel(x, out=out)
                np.testing.assert_array_equal(out, plain(x))
                assert not numbers[start + x.size :].any()


@pytest.mark.library("numba")
@pytest.mark.parametrize("feature, streams", [(-1, True), (0, False)])
def test_features_far_apart_are_not_written_past_the_caches(
    numba_kernel, feature, streams, monkeypatch
):
    passed, traversal = [], numba_kernel._traversal
    monkeypatch.setattr(
        numba_kernel, "_traversal", lambda *args: passed.append(args[-1]) or traversal(*args)
    )
    monkeypatch.setattr(rotate, "STREAMED_BYTES", 0)
    numbers = np.zeros(2**9, "float32")
    start = -numbers.ctypes.data % numba_kernel.ALIGNED_BYTES // 4
    out = numbers[start : start + 16 * 20].reshape((20, 16) if feature else (16, 20))
    rope = RoPE(16, 20, feature_axis=feature, seq_axis=0 if feature else 1)
    rope(np.ones_like(out), out=out)
    assert passed == [streams]


@pytest.mark.library("numba")
def test_what_has_no_kernel_is_rotated_without():
    subclass = BASE.astype("float32").view(type("Marked", (np.ndarray,), {}))
    unaligned = np.zeros(BASE.nbytes + 1, dtype="uint8")[1:].view("float64").reshape(BASE.shape)
    unaligned[...] = BASE
    options = {"feature_axis": -1, "seq_axis": -2}
    for x in (subclass, unaligned, BASE.astype(">f8"), BASE.astype("longdouble")):
        expected = RoPE(16, 100, fused=False, **options)(x)
        np.testing.assert_array_equal(RoPE(16, 100, **options)(x), expected)
        with pytest.raises(TypeError, match=r"`fused=True` has kernels for NumPy and CuPy arrays"):
            RoPE(16, 100, fused=True, **options)(x)
    z = BASE.view("complex128")
    plain, kernel = (RoPE(16, 100, fused=fused, **options) for fused in (False, True))
    np.testing.assert_array_equal(kernel(z), plain(z))


def test_which_arrays_a_kernel_rotates(monkeypatch):
    """Aligned NumPy arrays; large ones bypass the caches unless `out` is `x`."""
    import array_api_strict as strict

    def kernel():
        raise AssertionError

    x = np.zeros((8, 5))
    array_backend, out = get_backend(x=x), np.empty_like(x)
    monkeypatch.setattr(rotate, "numpy_kernel", lambda _dtype: kernel)
    monkeypatch.setattr(rotate, "STREAMED_BYTES", x.nbytes)
    assert rotate.choose_kernel(x[:, :4], 0, RoPE(8, 5), array_backend) is kernel
    short = x[:, :4]
    for array, given in ((x, x), (short, None), (short, out[:, :4])):
        assert rotate.compiled_kernel_for(array, array_backend, given) is kernel
    for given in (None, out):
        past_caches = rotate.compiled_kernel_for(x, array_backend, given)
        assert (past_caches.func, past_caches.keywords) == (kernel, {"stream": True})
    assert rotate.compiled_kernel_for(x, array_backend, fused=False) is None
    unaligned = np.zeros(x.nbytes + 1, dtype="uint8")[1:].view("float64").reshape(x.shape)
    for other in (x.view(type("Marked", (np.ndarray,), {})), unaligned, strict.ones((8, 5))):
        assert rotate.compiled_kernel_for(other, get_backend(x=other)) is None


def merged(x, out, axis, layout, longest=np.inf):
    """Merge the axes of arrays with a table for each of their pairs."""
    table = np.zeros([n // 2 if a == axis else n for a, n in enumerate(x.shape)])
    strides = [array.strides for array in (x, out, table, table)]
    return merged_axes((x.shape, table.shape), strides, axis, layout, longest)


def test_axes_that_continue_one_another_are_merged():
    x = np.zeros((3, 4, 6))
    merged_axis = [(36, 16, 16, 8, 8)]  # contiguous, two features per pair
    assert merged(x, x, 2, "interleaved") == merged(x, x, 2, "interleaved", 36) == merged_axis
    parts = [(12, 16, 16, 8, 8), (3, 192, 192, 96, 96)]
    assert merged(x, x, 2, "interleaved", 35) == merged(x, x, 2, "interleaved", 12) == parts
    apart = [(3, 16, 16, 8, 8), (4, 48, 48, 24, 24), (3, 192, 192, 96, 96)]
    assert merged(x, x, 2, "interleaved", 11) == apart
    assert merged(x, x, 2, "half")[0] == (3, 8, 8, 8, 8)


def test_axes_are_in_the_order_of_the_array_that_is_read():
    x = np.zeros((3, 4))
    out = np.zeros((3, 4), order="F")
    assert merged(x, out, 1, "half") == [(2, 8, 24, 8, 8), (3, 32, 8, 16, 16)]
    assert merged(out, x, 1, "half") == [(3, 8, 32, 16, 16), (2, 24, 8, 8, 8)]


@pytest.mark.library("numba")
def test_other_libraries_have_no_kernel(backend):
    if backend.name in ("numpy", "cupy"):
        return
    with pytest.raises(TypeError, match="fused=None rotates it without one"):
        RoPE(8, 5, fused=True)(backend.array(np.ones((8, 5))))


@pytest.mark.library("numba")
def test_half_precision_needs_the_processor(numba_kernel, monkeypatch):
    no_features = numba_kernel.llvm.FeatureMap
    monkeypatch.setattr(numba_kernel.llvm, "get_host_cpu_features", no_features)
    monkeypatch.setattr(numba_kernel.numba.config, "CPU_FEATURES", None)
    monkeypatch.setattr(numba_kernel.platform, "machine", lambda: "x86_64")
    assert not numba_kernel.has_kernel(np.dtype("float16"))
    for features, expected in (("", False), ("+avx,+f16c", True), ("+avx,-f16c", False)):
        monkeypatch.setattr(numba_kernel.numba.config, "CPU_FEATURES", features)
        assert numba_kernel.has_kernel(np.dtype("float16")) is expected
    monkeypatch.setattr(numba_kernel.platform, "machine", lambda: "arm64")
    assert numba_kernel.has_kernel(np.dtype("float16"))


def test_without_numba(monkeypatch):
    """Without numba: plain code, or an error with the install command if `fused` is True."""
    rotate.numpy_kernel.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(
        sys.modules, "positional_embeddings.rotary.kernels.numba_kernel", raising=False
    )
    try:
        x = np.ones((8, 5))
        np.testing.assert_array_equal(RoPE(8, 5)(x), RoPE(8, 5, fused=False)(x))
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__spec__=object()))
        rope = RoPE(8, 5, fused=True)
        with pytest.raises(ImportError, match=r"pip install 'positional-embeddings\[fast\]'"):
            rope(x)
        monkeypatch.setitem(sys.modules, "cupy", None)
        with pytest.raises(ImportError, match="neither is installed"):
            RoPE(8, 5, fused=True)
    finally:
        rotate.numpy_kernel.cache_clear()


def test_numba_is_not_imported_before_a_rotation():
    code = (
        "import sys, numpy, positional_embeddings as pe; rope = pe.RoPE(8, 5); "
        "assert 'numba' not in sys.modules; rope(numpy.ones((8, 5)))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.library("numba")
def test_where_nothing_can_be_kept_on_disk(numba_kernel, monkeypatch):
    njit = numba_kernel.njit

    def without_place(*args, cache=False, **options):
        if cache:
            message = "cannot cache function: no locator available"
            raise RuntimeError(message)
        return njit(*args, **options)

    monkeypatch.setattr(numba_kernel, "njit", without_place)
    plain, kernel = ropes(BASE, -1, -2)
    np.testing.assert_array_equal(kernel(BASE), plain(BASE))


@pytest.mark.library("numba")
def test_where_numba_is_switched_off(numba_kernel, monkeypatch):
    monkeypatch.setattr(numba_kernel.numba.config, "DISABLE_JIT", True)
    assert rotate.compiled_kernel_for(BASE, get_backend(x=BASE)) is None


@pytest.mark.library("numba")
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_out_in_another_byte_order(dtype):
    needs_kernel(dtype)
    x = RNG.standard_normal((8, 5, 2)).astype(dtype)
    out = np.empty(x.shape, np.dtype(dtype).newbyteorder())
    assert RoPE(8, 64)(x, out=out) is out
    np.testing.assert_array_equal(out, RoPE(8, 64)(x))
    message = f"got numpy.ndarray of {out.dtype}; fused=None rotates it without one."
    with pytest.raises(TypeError, match=re.escape(message)):
        RoPE(8, 64, fused=True)(x, out=out)


@pytest.mark.library("numba")
@pytest.mark.parametrize("shape", [(2, 0, 4, 8), (0, 3, 4, 8), (2, 3, 0, 8)])
def test_arrays_without_elements(shape):
    rope = RoPE(8, 10, feature_axis=-1, seq_axis=1)
    assert rope(np.empty(shape)).shape == shape
