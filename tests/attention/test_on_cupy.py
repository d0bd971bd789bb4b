"""Attention by CuPy's kernels and cuBLAS against plain loops; without CuPy, by stand-ins.

What NumPy's arrays are given here is what a GPU would be given: the stand-ins compute with arrays
from the pointers, steps and numbers of each launch and each product.
"""

import ctypes
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    GlobalMask,
    Mask,
    SlidingWindowMask,
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.attention.algorithms import cublas, cupy, cupy_kernels

LAST = {"feature_axis": -1, "seq_axis": -2}
HEADS, KEYS, HEAD = 4, 7, 3


def plain_loop(q, k, v, mask, bias, softcap):
    """Weights and output, (batch, heads, query, ...), query by query from the keys that it sees."""
    weights = np.zeros((*q.shape[:3], k.shape[2]))
    output = np.zeros((*q.shape[:3], v.shape[3]))
    for batch, head, query in np.ndindex(q.shape[:3]):
        at, own = (batch, head, query), (batch % len(k), head * k.shape[1] // q.shape[1])
        hidden = np.broadcast_to(mask, weights.shape)[at] | (
            np.broadcast_to(bias, weights.shape)[at] == -np.inf
        )
        seen = np.flatnonzero(~hidden)
        scores = k[own][seen] @ q[at] / np.sqrt(q.shape[-1])
        scores[~np.isfinite(k[own][seen]).all(axis=-1)] = np.nan
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        scores = scores + np.broadcast_to(bias, weights.shape)[at][seen]
        if np.isnan(scores).any():
            weights[at], output[at] = np.nan, np.nan
        elif len(seen):
            powers = np.exp(scores - scores.max())
            weights[at][seen] = powers / powers.sum()
            finite = np.isfinite(v[own][seen]).all()
            output[at] = sum(weights[at][j] * v[own][j] for j in seen) if finite else np.nan
    return weights, output


def partly_infinite(rng, queries, key_heads, key_batch):
    """Queries, keys, values, a mask and a bias; the last query sees nothing that is not finite."""
    q = rng.standard_normal((2, HEADS, queries, HEAD))
    k = rng.standard_normal((key_batch, key_heads, KEYS, HEAD))
    v = rng.standard_normal((key_batch, key_heads, KEYS, 2))
    k[..., 0, 1], k[:, 0, 1, :], k[-1, -1, 2, 0] = np.nan, -np.inf, np.inf
    v[..., 0, :], v[..., 3, 0], v[0, -1, 4, 0], v[-1, 0, 4, 1] = np.nan, np.inf, -np.inf, np.inf
    mask = rng.random((2, HEADS, queries, KEYS)) < 0.4
    mask[..., 0] = True
    mask[..., -1, :5] = True
    mask[0, 0, 0, :] = True
    bias = rng.standard_normal((1, HEADS, 1, KEYS))
    bias[..., 6] = -np.inf
    return q, k, v, mask, bias


def check(array, numpy, q, k, v, tolerance, *, mask, bias, softcap):
    """Compare the attention of a library with the plain loop."""
    given = {"mask": mask, "bias": bias}
    options = {name: array(value) for name, value in given.items() if value is not None}
    options |= {"softcap": softcap, "enable_gqa": True, **LAST}
    arrays = [array(x) for x in (q, k, v)]
    with np.errstate(invalid="ignore"):
        loop = plain_loop(
            q, k, v, False if mask is None else mask, 0.0 if bias is None else bias, softcap
        )
    attend = scaled_dot_product_attention
    got = attention_weights(*arrays[:2], **options), attend(*arrays, **options)
    for result, expected in zip(got, loop, strict=True):
        np.testing.assert_allclose(numpy(result), expected, rtol=tolerance, atol=tolerance)
    assert np.isfinite(loop[1][:, :, -1]).all()


CASES = pytest.mark.parametrize(
    ("queries", "key_heads", "key_batch", "softcap"),
    [(1, 4, 2, None), (3, 4, 1, None), (1, 2, 2, None), (3, 1, 2, 2.0), (1, 1, 1, None)],
)


@CASES
def test_not_finite_in_any_layout(backend, queries, key_heads, key_batch, softcap):
    rng = np.random.default_rng(0)
    *arrays, mask, bias = partly_infinite(rng, queries, key_heads, key_batch)
    tolerance = backend.tolerance() + 1e-14
    for terms in (
        {"mask": mask, "bias": None},
        {"mask": mask, "bias": bias},
        {"mask": None, "bias": np.where(mask, -np.inf, bias)},
    ):
        check(backend.array, backend.numpy, *arrays, tolerance, **terms, softcap=softcap)


class RawKernel:
    """As CuPy's, for the kernels of an attention: computes with the arrays of a launch."""

    def __init__(self, source, name, options):
        assert re.search(rf"__global__ void __launch_bounds__\(1024\) {name}\(", source)
        assert options == ("--fmad=false",)
        self.axes = int(re.search(r"#define ROW_AXES (\d+)\n", source)[1])
        self.scale = float(re.search(r"#define SCALE_OF_HALVES (\d+)\n", source)[1])
        self.compute = getattr(self, name.removeprefix("positional_embeddings_"))

    def __call__(self, grid, block, arguments):
        *arrays, softcap, largest, _, traversal = arguments
        arrays = [None if isinstance(x, np.uintp) else x for x in arrays]
        numbers = traversal.view("int64").tolist()
        lengths, numbers = numbers[: self.axes], numbers[self.axes :]
        keys, key_features, features, low, high, goes_on, *steps = numbers
        assert grid == (np.prod(lengths),)
        assert block[0] % 32 == 0
        assert 32 <= block[0] <= 1024
        scores, halves, state, sums, *others = arrays
        steps = np.reshape(steps, (len(others), self.axes + 2))
        widths = 1, 1, 1, key_features, features, features, 1
        views = [
            None if x is None else as_strided(x, (*lengths, keys, width), own * x.itemsize)
            for x, own, width in zip(others, steps, widths, strict=True)
        ]
        for contiguous in (scores, halves, state, sums):
            assert contiguous is None or contiguous.flags.c_contiguous
        place = np.arange(lengths[-1])[:, None] + [low, high]
        outside = (np.arange(keys) < place[:, :1]) | (np.arange(keys) >= place[:, 1:])
        names = "mask", "bias", "sinks", "key", "value", "output", "lse"
        given = dict(zip(names, views, strict=True))
        with np.errstate(all="ignore"):
            self.compute(scores, halves, state, sums, outside, softcap, largest, goes_on, **given)

    def softmax(self, scores, halves, state, _, outside, softcap, largest, goes_on, **given):
        mask, bias, sinks, key, value, output, lse = given.values()
        hidden = np.broadcast_to(outside, scores.shape)
        wrong = ~np.isfinite(scores) & ~np.isfinite(key).all(axis=-1)
        own = np.where(wrong, np.nan, scores).astype(float)
        if softcap < np.inf:
            own = np.where(abs(own) > softcap * 2.3e-10, softcap * np.tanh(own / softcap), own)
        if mask is not None:
            hidden = hidden | mask[..., 0]
        if bias is not None:
            hidden, own = hidden | (bias[..., 0] == -np.inf), own + bias[..., 0]
        own = np.where(hidden, -np.inf, own)
        before = np.stack([np.full(scores.shape[:-1], -np.inf), np.zeros(scores.shape[:-1])])
        if goes_on:
            before = np.moveaxis(state, -1, 0).astype(float)
        elif sinks is not None:
            sink = sinks[..., 0, 0].astype(float)
            before[0] = np.clip(sink, -largest, largest)
            before[1] = np.exp(sink - before[0])
        highest = np.maximum(before[0], np.fmax.reduce(own, axis=-1, initial=-np.inf))
        base = np.where(highest == -np.inf, 0.0, highest)
        powers, kept = np.exp(own - base[..., None]), before[1] * np.exp(before[0] - base)
        total = kept + powers.sum(axis=-1)
        divisor = np.where(total == 0, 1.0, total)
        share = np.where(before[1] == np.inf, 1.0, kept / divisor)
        weights = powers / divisor[..., None]
        weights[hidden & ~np.isnan(weights)] = 0.0 if value is None else -0.0
        if halves is None:
            scores[...] = weights
        else:
            halves[0] = weights * self.scale
            halves[1] = weights * self.scale - halves[0]
        if goes_on:
            output[..., 0, :] *= share[..., None]
        if state is not None:
            state[..., 0], state[..., 1] = highest, total
        if lse is not None:
            lse[..., 0, 0] = np.where(total == 0, -np.inf, highest + np.log(total))

    def add_sums(self, scores, halves, _, sums, *_others, **given):
        value, output, lse = given["value"], given["output"][..., 0, :], given["lse"]
        weights = scores if halves is None else halves[0] / self.scale + halves[1] / self.scale
        first = scores if halves is None else halves[0]
        hidden = ((first == 0) & np.signbit(first))[..., None]
        terms = np.where(hidden, 0.0, weights[..., None].astype(float) * value)
        own = output if sums is None else sums
        wrong = ~np.isfinite(own).all(axis=-1)
        own[wrong] = terms.sum(axis=-2)[wrong]
        wrong &= (~hidden & ~np.isfinite(value)).any(axis=(-1, -2))
        if sums is not None:
            wrong |= ~np.isfinite(output).all(axis=-1)
            output += sums
        output[wrong] = np.nan
        if lse is not None:
            lse[..., 0, 0][wrong] = np.nan


DTYPES = {0: np.float32, 1: np.float64, 2: np.float16}


def at_address(address, code, step, leading, shape):
    """Matrices with columns first, (count, column, row), from where they begin."""
    dtype = np.dtype(DTYPES[code])
    count, columns, rows = shape
    assert leading >= rows
    size = (count - 1) * step + (columns - 1) * leading + rows
    room = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    strides = (step * dtype.itemsize, leading * dtype.itemsize, dtype.itemsize)
    return as_strided(np.frombuffer(room, dtype), shape, strides, writeable=True)


def gemm(_, ta, tb, m, n, k, alpha, *rest):
    """As cuBLAS's `gemmStridedBatchedEx`."""
    a, a_code, lda, a_step, b, b_code, ldb, b_step, beta, c, c_code, ldc, c_step, *last = rest
    count, computes_in, _ = last
    assert computes_in == ("in double" if c_code == 1 else "in single")
    number = ctypes.c_double if c_code == 1 else ctypes.c_float
    alpha, beta = (number.from_address(address).value for address in (alpha, beta))
    left = at_address(a, a_code, a_step, lda, (count, m, k) if ta else (count, k, m))
    right = at_address(b, b_code, b_step, ldb, (count, k, n) if tb else (count, n, k))
    out = at_address(c, c_code, c_step, ldc, (count, n, m))
    left, right = (x.astype(out.dtype) for x in (left, right))
    with np.errstate(all="ignore"):
        products = (right.mT if tb else right) @ (left.mT if ta else left)
        out[...] = alpha * products + (beta * out if beta else 0.0)


@pytest.fixture
def on_device(backend, monkeypatch):
    """The backend: CuPy, or NumPy with arrays that go the way of CuPy's."""
    if backend.name != "cupy":
        library = SimpleNamespace(
            gemmStridedBatchedEx=gemm,
            CUBLAS_COMPUTE_64F="in double",
            CUBLAS_COMPUTE_32F="in single",
            CUBLAS_GEMM_DEFAULT=-1,
        )
        names = {
            "cupy": {"RawKernel": RawKernel},
            "cupy.cuda": {},
            "cupy.cuda.device": {"get_cublas_handle": lambda: 1},
            "cupy_backends": {},
            "cupy_backends.cuda": {},
            "cupy_backends.cuda.libs": {"cublas": library},
        }
        for name, attributes in names.items():
            module = ModuleType(name)
            vars(module).update(attributes)
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(NumPyBackend, "has_cuda_kernels", True)
        cupy_kernels.kernel.cache_clear()
    yield backend
    if backend.name != "cupy":
        cupy_kernels.kernel.cache_clear()


ONLY = pytest.mark.only_on("numpy", "cupy")
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
MASKS = [
    CausalMask(),
    CausalMask(mask_diagonal=True),
    SlidingWindowMask(2, 1),
    CausalMask() | SlidingWindowMask(3, None),
    CausalMask() | ChunkedMask(3),
    ~CausalMask(),
    (CausalMask() | SlidingWindowMask(1, 0)) & GlobalMask([0, 3, 7]),
]


@st.composite
def calls(draw, dtypes, mask_kinds=("none", "array", "value")):
    """Arrays of NumPy, options of a call, and what the loops get for them."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    dtype = draw(st.sampled_from(dtypes))
    key_heads, group, batch = (draw(st.integers(1, 3)) for _ in range(3))
    q_len, k_len, head, v_head = (draw(st.integers(1, 9)) for _ in range(4))
    key_batch = draw(st.sampled_from([1, batch]))
    q = rng.standard_normal((batch, key_heads * group, q_len, head)) * 2
    k = rng.standard_normal((key_batch, key_heads, k_len, head))
    v = rng.standard_normal((key_batch, key_heads, k_len, v_head))
    given, kind = {}, draw(st.sampled_from(mask_kinds))
    if kind == "array":
        shape = [n if draw(st.booleans()) else 1 for n in (batch, key_heads * group, q_len, k_len)]
        given["mask"] = rng.random(shape) < draw(st.sampled_from([0.3, 0.9]))
    elif kind == "value":
        given["mask"] = draw(st.sampled_from(MASKS))
        # The keys of the queries are among the keys, unless these are fewer.
        offsets = [None, 0] if q_len <= k_len < q_len + 2 else [None, 0, 2]
        given["offset"] = draw(st.sampled_from(offsets))
    if draw(st.booleans()):
        shape = [n if draw(st.booleans()) else 1 for n in (batch, key_heads * group, q_len, k_len)]
        given["bias"] = rng.standard_normal(shape)
        given["bias"][rng.random(shape) < 0.1] = -np.inf
    if "mask" in given or "bias" in given:
        for array in (k, v):
            is_wrong = rng.random(array.shape) < draw(st.sampled_from([0.0, 0.02]))
            array[is_wrong] = rng.choice([np.nan, np.inf, -np.inf], int(is_wrong.sum()))
    given["softcap"] = draw(st.sampled_from([None, 1.5]))
    given["scale"] = draw(st.sampled_from([None, 0.7]))
    if draw(st.booleans()):
        given["sinks"] = rng.standard_normal(key_heads * group)
    given["block_size"] = draw(st.sampled_from([None, None, 2, 5]))
    order = draw(st.permutations(range(4)))
    room = draw(st.integers(0, 2))
    sizes = draw(
        st.fixed_dictionaries(
            {
                "_MAX_SCORES": st.sampled_from([2**24, 20]),
                "_MAX_QUERIES": st.sampled_from([512, 3]),
                "_MIN_QUERIES": st.sampled_from([64, 2]),
                "_MAX_KEYS": st.sampled_from([2**18, 4]),
            }
        )
    )
    return dtype, (q, k, v), given, order, room, sizes


def laid_out(array, dtype, order, room, backend):
    """An array whose axes lie in another order in memory, with some room between its rows."""
    wider = np.pad(array, [(0, 0), (0, 0), (0, room), (0, 0)], constant_values=np.nan)
    dtype = bfloat16 if dtype == "bfloat16" else dtype
    there = np.ascontiguousarray(wider.transpose(order)).astype(dtype)
    there = backend.xp.asarray(there, device=backend.device)
    there = backend.xp.permute_dims(there, tuple(np.argsort(order).tolist()))
    return there[:, :, : array.shape[2], :]


def loops(q, k, v, *, mask=None, bias=None, softcap=None, sinks=None, scale=None):
    """Weights, output and lse of each query, from the keys that it sees, in float64."""
    may_hide = mask is not None or bias is not None
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    shape = (*q.shape[:3], k.shape[2])
    hidden = np.zeros(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    bias = np.broadcast_to(0.0 if bias is None else bias, shape)
    weights, output, lse = np.zeros(shape), np.zeros((*shape[:3], v.shape[3])), np.zeros(shape[:3])
    for at in np.ndindex(shape[:3]):
        own = at[0] % len(k), at[1] * k.shape[1] // q.shape[1]
        seen = np.flatnonzero(~hidden[at] & (bias[at] != -np.inf))
        keys, values = k[own][seen], v[own][seen]
        scores = keys @ q[at] * scale
        if may_hide:
            scores[~np.isfinite(keys).all(axis=-1)] = np.nan
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        powers = np.exp(scores + bias[at][seen])
        total = powers.sum() + (0.0 if sinks is None else np.exp(sinks[at[1]]))
        lse[at] = np.log(total) if total > 0 or np.isnan(total) else -np.inf
        if len(seen):
            weights[at][seen] = powers / total
            output[at] = weights[at][seen] @ values
            if np.isnan(total):
                weights[at] = np.nan
            if may_hide and not np.isfinite(values).all():
                output[at] = lse[at] = np.nan
    return weights, output, lse


def compare(call, backend, monkeypatch):
    dtype, arrays, given, order, room, sizes = call
    for name, size in sizes.items():
        monkeypatch.setattr(cupy, name, size)
    there = [laid_out(x, dtype, order, room, backend) for x in arrays]
    rounded = [backend.numpy(x).astype(float) for x in there]
    of_loops = {name: given.get(name) for name in ("mask", "bias", "softcap", "sinks", "scale")}
    if isinstance(of_loops["mask"], Mask):
        q_len, k_len = arrays[0].shape[2], arrays[1].shape[2]
        dense = of_loops["mask"].dense(q_len, k_len, offset=given["offset"])
        of_loops["mask"] = np.moveaxis(dense, -1, 0)[None]
    options = {name: value for name, value in given.items() if value is not None}
    for name in ("mask", "bias", "sinks"):
        if isinstance(options.get(name), np.ndarray):
            kind = None if name == "mask" else "float64" if dtype == "float64" else "float32"
            options[name] = backend.array(options[name], kind)
    attend_options = {"enable_gqa": True, "return_lse": True, **options, **LAST}
    options = {"enable_gqa": True, **options, **LAST}
    options.pop("block_size", None)
    with np.errstate(all="ignore"):
        weights, output, lse = loops(*rounded, **of_loops)
    got = scaled_dot_product_attention(*there, **attend_options)
    own = TOLERANCES[dtype]
    as_float = lambda x: backend.numpy(x).astype(float)  # noqa: E731
    np.testing.assert_allclose(as_float(got[0]), output, rtol=own, atol=own)
    np.testing.assert_allclose(as_float(got[1]), lse, rtol=min(own, 1e-5), atol=1e-5)
    got = attention_weights(*there[:2], **options)
    np.testing.assert_allclose(as_float(got), weights, rtol=own, atol=own)


@ONLY
@settings(max_examples=150)
@given(data=st.data())
def test_attention_is_that_of_loops(on_device, data):
    halves = ["float16", "bfloat16"] if on_device.name == "cupy" else ["float16"]
    call = data.draw(calls([*halves, "float32", "float64"]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        compare(call, on_device, monkeypatch)


@ONLY
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("q_len", "k_len", "v_head"),
    [(1, 1, 1), (2, 1100, 3), (1, 5000, 2), (1100, 3, 2), (2, 3, 1100)],
)
def test_lengths_of_one_and_of_more_than_a_block_has_threads(
    on_device, monkeypatch, dtype, q_len, k_len, v_head
):
    rng = np.random.default_rng(0)
    lengths = (q_len, 3), (k_len, 3), (k_len, v_head)
    q, k, v = (rng.standard_normal((1, 2, n, features)) for n, features in lengths)
    mask = rng.random((q_len, k_len)) < 0.5
    v[..., -1, :] = np.inf  # hidden from the first query alone
    mask[:, -1] = np.arange(q_len) == 0
    for block_size in (None, 700):
        options = {"mask": mask[None, None], "block_size": block_size}
        compare((dtype, (q, k, v), options, range(4), 1, {}), on_device, monkeypatch)


@ONLY
def test_scores_near_the_ends_of_the_dtype(on_device):
    """Weights that underflow hide no value that is not finite, and infinite scores give NaN."""
    q, k = on_device.array([[[1.0]]], "float32"), on_device.array([[[0.0], [-200.0]]], "float32")
    for value, expected in ((np.inf, np.nan), (5.0, 2.0)):
        v = on_device.array([[[2.0], [value]]], "float32")
        got = scaled_dot_product_attention(q, k, v, mask=CausalMask(), return_lse=True, **LAST)
        np.testing.assert_array_equal(on_device.numpy(got[0]), [[[expected]]])
        assert np.isnan(on_device.numpy(got[1])).all() == np.isnan(expected)
    k = on_device.array([[[0.0], [3e38]]], "float32")
    got = scaled_dot_product_attention(q * 10, k, v, return_lse=True, **LAST)
    assert all(np.isnan(on_device.numpy(x)).all() for x in got)


@ONLY
def test_values_near_the_largest_number(on_device):
    rounding = 64 * float(np.finfo("float32").eps)  # as the docstring has it
    largest = (1 - rounding) * float(np.finfo("float32").max)
    q, k = (on_device.array(np.zeros((1, n, 1)), "float32") for n in (1, 64))
    v = on_device.array(np.full((1, 64, 2), largest), "float32")
    for options in ({}, {"block_size": 16}, {"mask": CausalMask()}):
        got = on_device.numpy(scaled_dot_product_attention(q, k, v, **options, **LAST))
        np.testing.assert_allclose(got, np.full((1, 1, 2), largest), rtol=rounding)


@ONLY
@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 128), ({"mask": CausalMask()}, 80), ({"mask": SlidingWindowMask(511, 0)}, 20)],
)
def test_8192_tokens_of_32_heads_take_few_blocks(on_device, monkeypatch, options, most):
    x = on_device.array(np.zeros((32, 8192, 1)), "float32")
    blocks, launches = [], []

    def multiply(_rows, _table, out, *_others):
        blocks.append(out.size)

    monkeypatch.setattr(cublas, "gemm", multiply)
    monkeypatch.setattr(cupy, "launch", lambda name, _: launches.append(name))
    scaled_dot_product_attention(x, x, x, **options, **LAST)
    assert len(blocks) == 2 * launches.count("softmax")
    assert len(blocks) // 2 <= most
    assert len(launches) <= 2 * most
    assert max(blocks) <= 2**24
    # All keys that a query sees are in one block: of the causal triangle little else is computed.
    if options:
        assert sum(blocks[::2]) <= {80: 0.6, 20: 0.14}[most] * 32 * 8192**2


@ONLY
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_heads_that_share_keys_are_rows_of_one_product(on_device, monkeypatch, key_heads):
    shapes = []
    launch = cupy.launch

    def seen(name, block):
        shapes.append(block.scores.shape)
        launch(name, block)

    monkeypatch.setattr(cupy, "launch", seen)
    q, k, v = (on_device.array(np.ones((2, n, m, 8))) for n, m in ((4, 1), *[(key_heads, 6)] * 2))
    got = scaled_dot_product_attention(q, k, v, enable_gqa=True, **LAST)
    np.testing.assert_allclose(on_device.numpy(got), np.ones((2, 4, 1, 8)))
    assert [np.prod(shape) for shape in shapes] == [2 * 4 * 6]


@ONLY
def test_no_features_and_no_elements(on_device):
    q, k, v = (on_device.array(np.ones((2, n, m))) for n, m in ((3, 0), (5, 0), (5, 2)))
    got = scaled_dot_product_attention(q, k, v, **LAST)
    np.testing.assert_allclose(on_device.numpy(got), np.ones((2, 3, 2)))
    weights = attention_weights(q, k, mask=CausalMask(), offset=0, **LAST)
    expected = np.tri(3, 5) / np.arange(1, 4)[:, None]
    np.testing.assert_allclose(on_device.numpy(weights), np.stack([expected] * 2), rtol=1e-6)
    for lengths in ((0, 5), (3, 0)):
        q, k = (on_device.array(np.ones((2, n, 4))) for n in lengths)
        assert tuple(attention_weights(q, k, **LAST).shape) == (2, *lengths)
        assert tuple(scaled_dot_product_attention(q, k, k, **LAST).shape) == (2, lengths[0], 4)


@ONLY
def test_a_product_adds_to_what_is_there(on_device):
    array_backend = get_backend(x=on_device.array(np.ones(1)))
    for inner in (0, 3):
        out = on_device.array(np.full((2, 4, 5), 2.0))
        rows, table = (on_device.array(np.ones(n)) for n in ((2, 4, inner), (2, inner, 5)))
        cublas.gemm(rows, table, out, array_backend, 0.5, 3.0)
        np.testing.assert_allclose(on_device.numpy(out), np.full((2, 4, 5), 6 + inner / 2))


@ONLY
def test_scattered_queries_that_see_all_keys_are_a_block_of_their_own(on_device):
    """What several ranges of queries have is written to their places."""
    mask = (CausalMask() | SlidingWindowMask(1, 0)) & GlobalMask([1, 4])
    q, k, v = (np.random.default_rng(i).standard_normal((1, 1, 6, 2)) for i in range(3))
    hidden = np.moveaxis(mask.dense(6), -1, 0)[None]
    got = scaled_dot_product_attention(*map(on_device.array, (q, k, v)), mask=mask, **LAST)
    expected = loops(q, k, v, mask=hidden)[1]
    np.testing.assert_allclose(on_device.numpy(got), expected, atol=1e-12)


@ONLY
def test_features_that_lie_first_are_copied_once(on_device, monkeypatch):
    """Not for each block of queries."""
    monkeypatch.setattr(cupy, "_MAX_QUERIES", 2)
    copied, as_matrices = [], cublas.as_matrices
    monkeypatch.setattr(cublas, "as_matrices", lambda x: copied.append(x) or as_matrices(x))
    steps, multiply = [], cublas.gemm

    def seen(rows, table, *others):
        steps.append(cublas.steps_of(table)[-2:])
        multiply(rows, table, *others)

    monkeypatch.setattr(cublas, "gemm", seen)
    x = np.random.default_rng(0).standard_normal((3, 9, 4, 2))
    there = on_device.array(x)
    got = scaled_dot_product_attention(
        there, there, there, mask=CausalMask(), feature_axis=0, seq_axis=1
    )
    _, expected, _ = loops(x.T, x.T, x.T, mask=~np.tri(9, dtype=bool))
    np.testing.assert_allclose(on_device.numpy(got).T, expected, atol=1e-12)
    assert len(copied) == 3
    assert all(1 in pair for pair in steps)


@pytest.mark.only_on("cupy")
@pytest.mark.parametrize("options", [{}, {"mask": CausalMask(), "block_size": 2}])
def test_large_values_of_bfloat16_do_not_overflow(backend, options):
    q, value = np.zeros((1, 1, 5, 4)), np.full((1, 1, 5, 4), 1e35)
    q, value = (backend.xp.asarray(x.astype(bfloat16)) for x in (q, value))
    output = scaled_dot_product_attention(q, q, value, **LAST, **options)
    np.testing.assert_array_equal(backend.numpy(output), backend.numpy(value))


def test_a_sink_that_is_nan_is_in_the_output_of_a_query_that_sees_no_key(backend):
    x = backend.array(np.ones((1, 1, 2, 4)))
    mask = backend.array([[True, True], [False, True]])
    options = {"mask": mask, "sinks": backend.array([np.nan]), "return_lse": True, **LAST}
    for result in scaled_dot_product_attention(x, x, x, **options):
        assert np.isnan(backend.numpy(result)).all()


@pytest.mark.only_on("cupy")
def test_many_matrices_and_those_in_reverse(backend):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((70_000, 1, 2, 1)).astype("float32")
    expected = scaled_dot_product_attention(x, x, x, **LAST)[::-1]
    x = backend.array(x)[::-1]
    output = backend.numpy(scaled_dot_product_attention(x, x, x, **LAST))
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
