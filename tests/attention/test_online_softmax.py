"""Attention block by block gives what the plain loop gives, and keeps no more than a block."""

import math
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from positional_embeddings import (
    attention_weights,
    create_causal_mask,
    mask_to_bias,
    scaled_dot_product_attention,
)
from positional_embeddings.arrays import threads as _threads
from positional_embeddings.arrays.backends.numpy import NumPyBackend
from positional_embeddings.attention.algorithms import blocks
from positional_embeddings.attention.scores import ScoreSpec

sizes = st.integers(1, 7)


def numbers(rng, *shape):
    return rng.standard_normal(shape)


def compiled(backend):
    """Whether each block is compiled, which takes a while."""
    return backend.lazy or backend.name.startswith("jax")


@pytest.fixture
def block_size(backend):
    return 5 if compiled(backend) else 2


@given(
    head=sizes,
    v_head=sizes,
    q_len=sizes,
    k_len=sizes,
    size=st.integers(1, 8),
    most=st.sampled_from([1, 10, 1000]),
    masked=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    biased=st.booleans(),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    softcap=st.none() | st.floats(0.5, 5),
    axes=st.sampled_from([(0, 1), (-1, -2), (3, 1)]),
    seed=st.integers(0, 99),
)
def test_blocks_of_any_size_are_the_plain_loop(
    backend, head, v_head, q_len, k_len, size, most, masked, biased, spread, softcap, axes, seed
):
    size = max(size, 4) if compiled(backend) else size
    rng = np.random.default_rng(seed)
    q = spread * numbers(rng, head, q_len, 6)
    k, v = numbers(rng, head, k_len, 6), numbers(rng, v_head, k_len, 6)
    mask = rng.random((q_len, k_len, 6)) < masked if masked else None
    bias = spread * numbers(rng, q_len, k_len, 6) if biased else None
    expected, _ = oracles.attention(q, k, v, mask, bias, softcap=softcap)

    score_axes = tuple(sorted(axis % 4 for axis in axes))

    def expand_to_axes(array, at):
        return backend.array(np.moveaxis(array.reshape(*array.shape[:2], 2, 3), (0, 1), at))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_SCORES_ON_HOST", most)
        got = scaled_dot_product_attention(
            *(expand_to_axes(array, axes) for array in (q, k, v)),
            mask=None if mask is None else expand_to_axes(mask, score_axes),
            bias=None if bias is None else expand_to_axes(bias, score_axes),
            softcap=softcap,
            block_size=size,
            feature_axis=axes[0],
            seq_axis=axes[1],
        )
    got = np.moveaxis(backend.numpy(got), axes, (0, 1)).reshape(expected.shape)
    tolerance = backend.tolerance() * max(1, spread)
    np.testing.assert_allclose(got, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("unit", [1.0, math.log2(math.e)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_exponentials_as_powers_of_e_or_of_2(unit, dtype, spread, monkeypatch):
    """NumPy has the ones or the others in vector instructions."""
    monkeypatch.setattr(NumPyBackend, "exponent_unit", unit)
    powers = []
    scaled_exp = NumPyBackend.scaled_exp
    monkeypatch.setattr(
        NumPyBackend, "scaled_exp", lambda *own: powers.append(1) or scaled_exp(*own)
    )
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 12, 2)).astype(dtype)
    mask = create_causal_mask(12)
    mask[:, 3] = True
    expected, _ = oracles.attention(*(x.astype("float64") for x in (spread * q, k, v)), mask)
    got, lse = scaled_dot_product_attention(
        (spread * q).astype(dtype), k, v, mask=mask, block_size=5, return_lse=True
    )
    assert bool(powers) == (spread < 10)  # where scores are small
    tolerance = {"float32": 3e-6, "float64": 1e-14}[dtype] * max(1, spread)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    scores = spread * np.einsum("hqb,hkb->qkb", q, k, dtype="float64") / 2
    scores[np.broadcast_to(mask, scores.shape)] = -np.inf
    total = np.logaddexp.reduce(scores, axis=1)
    np.testing.assert_allclose(lse, total, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [None, 5])
@pytest.mark.parametrize("axes", [(0, 1), (-1, -2), (3, 1)])
def test_functions_of_positions(backend, axes, size):
    """A mask and a bias that are asked for are those that are given whole."""
    rng = np.random.default_rng(0)
    xp = backend.xp
    q, k, v = (np.moveaxis(numbers(rng, 3, n, 2, 4), (0, 1), axes) for n in (7, 9, 9))
    score_axes = sorted(axis % 4 for axis in axes)
    slopes = np.asarray([0.5, 1.0, 2.0, 3.0])
    others = [axis for axis in range(4) if axis not in score_axes]
    expanded = [np.newaxis] * 4
    expanded[others[1]] = slice(None)
    between = [0] * 4
    between[score_axes[0]], between[score_axes[1]] = slice(None), slice(None)
    between = tuple(slice(None) if part == slice(None) else None for part in between)

    def far(q_idx, k_idx):
        return abs(q_idx - k_idx) > 4

    def linear(q_idx, k_idx):
        distance = xp.astype(abs(q_idx - k_idx), getattr(xp, backend.wide))
        return -backend.array(slopes[tuple(expanded)]) * distance[between]

    rows, columns = np.arange(7)[:, None], np.arange(9)[None, :]
    distance = np.abs(rows - columns)
    arrays = [backend.array(array) for array in (q, k, v)]
    options = {"feature_axis": axes[0], "seq_axis": axes[1]}
    expected = scaled_dot_product_attention(
        *arrays,
        mask=backend.array(distance > 4),
        bias=backend.array(-slopes[tuple(expanded)] * distance[between]),
        **options,
    )
    got = scaled_dot_product_attention(*arrays, mask=far, bias=linear, block_size=size, **options)
    np.testing.assert_allclose(
        backend.numpy(got), backend.numpy(expected), atol=backend.tolerance()
    )


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries(backend, kv_heads, block_size):
    rng = np.random.default_rng(0)
    shapes = [(5, 4, 3), (6, kv_heads, 3), (6, kv_heads, 3)]
    arrays = [backend.array(numbers(rng, 3, *shape)) for shape in shapes]
    options = {"mask": backend.array(rng.random((5, 6, 4, 3)) < 0.3), "enable_gqa": True}
    options |= {"feature_axis": 0, "seq_axis": 1}
    got, whole = (
        scaled_dot_product_attention(*arrays, block_size=size, **options)
        for size in (block_size, None)
    )
    np.testing.assert_allclose(backend.numpy(got), backend.numpy(whole), atol=backend.tolerance())


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_rise_and_fall(backend, block_size, sign, window):
    """From a block to the next, by far more than exp of them could hold."""
    q = np.ones((1, 10, 1))
    k = 100.0 * sign * (np.arange(10.0)[None, :, None] - 20)
    v = np.cos(np.arange(10.0))[None, :, None]
    mask = None
    if window is not None:
        rows, columns = np.arange(10)[:, None, None], np.arange(10)[None, :, None]
        mask = np.abs(rows - columns) > window
    expected, _ = oracles.attention(q, k, v, mask)
    got = scaled_dot_product_attention(
        *(backend.array(array) for array in (q, k, v)),
        mask=None if mask is None else backend.array(mask),
        block_size=block_size,
    )
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_means_of_values_near_the_largest_number(backend, block_size, spread):
    """Their sum would overflow, their mean does not; small ones next to them stay exact."""
    rng = np.random.default_rng(0)
    largest = 0.9 * float(backend.xp.finfo(getattr(backend.xp, backend.wide)).max)
    q, k = spread * numbers(rng, 3, 4, 1), numbers(rng, 3, 9, 1)
    shares = rng.uniform(0.5, 1, (2, 9, 1))
    expected, _ = oracles.attention(q, k, shares)
    v = shares * np.asarray([largest, 1e-20])[:, None, None]
    got = scaled_dot_product_attention(
        *(backend.array(array) for array in (q, k, v)), block_size=block_size
    )
    got = backend.numpy(got) / np.asarray([largest, 1e-20], dtype=backend.wide)[:, None, None]
    tolerance = backend.tolerance() * spread
    np.testing.assert_allclose(got, expected, rtol=tolerance)


@pytest.mark.parametrize("lowest", [-1e4, -1e9, "of the dtype"])
def test_keys_that_a_large_finite_bias_pads(backend, block_size, lowest):
    """On the left, so that the first blocks score far below what follows."""
    rng = np.random.default_rng(0)
    if lowest == "of the dtype":
        lowest = float(backend.xp.finfo(getattr(backend.xp, backend.wide)).min)
    q, k, v = numbers(rng, 4, 5, 2), numbers(rng, 4, 10, 2), numbers(rng, 3, 10, 2)
    bias = numbers(rng, 5, 10, 1)
    bias[:, :7] = lowest
    expected, _ = oracles.attention(q, k, v, bias=bias)
    got = scaled_dot_product_attention(
        *(backend.array(array) for array in (q, k, v)),
        bias=backend.array(bias),
        block_size=block_size,
    )
    np.testing.assert_allclose(backend.numpy(got), expected, atol=backend.tolerance())


def test_a_large_value_that_is_hidden_changes_nothing(backend, block_size):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 2, 9, 1) for _ in range(3))
    v *= 1e-30
    v[:, 4] = 1e30
    mask = np.zeros((9, 9, 1), dtype=bool)
    mask[:, 4] = True
    expected, _ = oracles.attention(q, k, v, mask)
    got = scaled_dot_product_attention(
        *(backend.array(array) for array in (q, k, v)),
        mask=backend.array(mask),
        block_size=block_size,
    )
    np.testing.assert_allclose(
        1e30 * backend.numpy(got).astype("float64"), 1e30 * expected, atol=backend.tolerance()
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_values_under_growing_scores(dtype):
    q, k = np.full((1, 4), 24.9, dtype), np.ones((1, 8192), dtype)
    k[:, :128] = 0
    v = np.full((1, 8192), 0.88 * np.finfo(dtype).max, dtype)
    rounding = 8192 * np.finfo(dtype).eps  # as the docstring has it
    for size in (128, 1000, 8192):
        got = scaled_dot_product_attention(q, k, v, scale=1.0, block_size=size)
        np.testing.assert_allclose(got, v[:, :4], rtol=rounding)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [1, 31, 64, 1000])
def test_a_mean_is_in_the_range_of_its_values_up_to_rounding(backend, block_size, count, sign):
    """Also next to the largest number, in whatever order the sums are added up."""
    rounding = count * float(np.finfo("float32").eps)
    value = sign * (1 - rounding) * float(np.finfo("float32").max)
    q, k = (numbers(np.random.default_rng(0), 2, n) for n in (3, count))
    q, k, v = (backend.array(x, "float32") for x in (q, k, np.full((2, count), value)))
    for bias in (None, backend.array(np.zeros((3, count)), "float32")):
        got = scaled_dot_product_attention(q, k, v, bias=bias, block_size=block_size)
        np.testing.assert_allclose(backend.numpy(got), np.full((2, 3), value), rtol=rounding)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("hide", ["mask", "bias", "function"])
def test_what_is_masked_reaches_no_output(backend, block_size, garbage, hide):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 2, 7, 1) for _ in range(3))
    causal = create_causal_mask(7)
    clean, _ = oracles.attention(q, k, v, causal, softcap=2.0)
    k[:, 5], v[:, 5] = garbage, garbage
    mask = backend.array(causal)
    given_mask = {
        "mask": {"mask": mask},
        "bias": {"bias": mask_to_bias(mask)},
        "function": {"mask": lambda q_idx, k_idx: k_idx > q_idx},
    }[hide]
    output = scaled_dot_product_attention(
        *map(backend.array, (q, k, v)), softcap=2.0, block_size=block_size, **given_mask
    )
    tolerance = backend.tolerance()
    np.testing.assert_allclose(backend.numpy(output)[:, :5], clean[:, :5], atol=tolerance)
    assert np.isnan(backend.numpy(output)[:, 5:]).all()


def test_values_that_are_not_finite_come_through(backend, block_size):
    arrays = [backend.array(array) for array in oracles.partly_infinite(np.random.default_rng(0))]
    whole, blocked = (
        scaled_dot_product_attention(*arrays[:3], mask=arrays[3], block_size=size)
        for size in (None, block_size)
    )
    np.testing.assert_allclose(
        backend.numpy(blocked), backend.numpy(whole), atol=backend.tolerance()
    )


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (0, 0)])
def test_no_queries_or_no_keys(backend, lengths):
    q, k = np.ones((2, lengths[0], 2)), np.ones((2, lengths[1], 2))
    got = scaled_dot_product_attention(
        *map(backend.array, (q, k, k)), mask=lambda i, j: j > i, block_size=2
    )
    np.testing.assert_array_equal(backend.numpy(got), np.zeros((2, lengths[0], 2)))


def test_values_without_features(backend):
    q, v = (backend.array(np.ones((features, 5, 2))) for features in (2, 0))
    got = scaled_dot_product_attention(q, q, v, block_size=2)
    assert got.shape == (0, 5, 2)


def test_half_precision(backend, block_size):
    rng = np.random.default_rng(0)
    q, k, v = (numbers(rng, 8, 9, 2).astype("float32") for _ in range(3))
    for dtype in backend.half_dtypes:
        halves = [backend.array(array, dtype) for array in (q, k, v)]
        got, whole = (
            scaled_dot_product_attention(*halves, block_size=size) for size in (block_size, None)
        )
        assert got.dtype == dtype
        ulp = 2**-10 if "bfloat" not in str(dtype) else 2**-7
        np.testing.assert_allclose(
            backend.numpy(got).astype("float32"),
            backend.numpy(whole).astype("float32"),
            rtol=ulp,
            atol=1e-6,
        )


@pytest.mark.parametrize("order", ["features last", "features first", "sliced"])
@pytest.mark.parametrize("hidden", [None, "array", "function"])
def test_no_more_than_a_block_exists(order, hidden):
    n = 2048
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, n, 16)).astype("float32")
    axes, score_axes = {"feature_axis": -1, "seq_axis": -2}, (-2, -1)
    if order == "features first":
        q, k, v = (np.ascontiguousarray(x.transpose(2, 1, 0)) for x in (q, k, v))
        axes, score_axes = {"feature_axis": 0, "seq_axis": 1}, (0, 1)
    elif order == "sliced":
        q, k, v = (np.repeat(x, 2, axis=-1)[..., ::2] for x in (q, k, v))
    mask = {
        None: None,
        "array": create_causal_mask(n)[..., 0],
        "function": lambda q_idx, k_idx: k_idx > q_idx,
    }[hidden]
    tracemalloc.start()
    got = scaled_dot_product_attention(q, k, v, mask=mask, **axes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Scores of all: 2 * 2048 * 2048 * 4 bytes = 32 MiB.
    assert peak < 12 * 2**20
    weights = np.moveaxis(attention_weights(q, k, mask=mask, **axes), score_axes, (-2, -1))
    expected = weights @ np.moveaxis(v, (axes["seq_axis"], axes["feature_axis"]), (-2, -1))
    got = np.moveaxis(got, (axes["seq_axis"], axes["feature_axis"]), (-2, -1))
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_hidden_blocks_are_passed_over(monkeypatch):
    """Under a causal mask about half of the scores are never computed."""
    computed = []
    scores = ScoreSpec.scores_from_products

    def count(*args):
        computed.append(scores(*args))
        return computed[-1]

    monkeypatch.setattr(ScoreSpec, "scores_from_products", count)
    x = np.ones((2, 100))
    scaled_dot_product_attention(x, x, x, mask=lambda i, j: j > i, block_size=10)
    assert len(computed) == 55


@pytest.fixture
def threads():
    """Two threads of BLAS, whatever the machine has."""
    import threadpoolctl

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if _threads._blas().lib_controllers[0].num_threads < 2:
            pytest.skip("BLAS takes one thread only")
        yield


def heads_of_ones(n=256):
    """Return ones: queries of zeros give them weights of 1, whose sums are exact."""
    return np.ones((4, n, 8), dtype="float32")


@pytest.mark.thread_unsafe
@pytest.mark.usefixtures("threads")
def test_threads_share_the_work_and_give_blas_its_own_back():
    x = heads_of_ones()
    names, threads_of_blas = set(), set()
    meet = threading.Barrier(2, timeout=60)

    def mask(q_idx, k_idx):
        if q_idx[0, 0] < 128 and k_idx[0, 0] == 0:
            meet.wait()  # which one thread alone never passes
        names.add(threading.current_thread().name)
        threads_of_blas.add(_threads._blas().lib_controllers[0].num_threads)
        return k_idx > q_idx

    axes = {"feature_axis": -1, "seq_axis": -2}
    got = scaled_dot_product_attention(0 * x, x, x, mask=mask, block_size=64, **axes)
    np.testing.assert_array_equal(got, x)
    assert len(names) == 2
    assert threads_of_blas == {1}
    assert _threads._blas().lib_controllers[0].num_threads == 2


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("setting", ["warn", "raise"])
def test_threads_do_not_warn_and_raise_what_is_raised(setting):
    x = heads_of_ones()
    huge = np.float32(3e38) * x
    axes = {"feature_axis": -1, "seq_axis": -2, "block_size": 64}
    with np.errstate(over=setting, invalid=setting):
        assert np.isnan(scaled_dot_product_attention(huge, huge, x, **axes)).all()

    def mask(_q_idx, _k_idx):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scaled_dot_product_attention(x, x, x, mask=mask, **axes)
    assert _threads._blas().lib_controllers[0].num_threads == 2


@pytest.mark.usefixtures("threads")
def test_one_call_within_another_takes_one_thread():
    x = heads_of_ones(64)
    axes = {"feature_axis": -1, "seq_axis": -2, "block_size": 32}

    def mask(q_idx, k_idx):
        np.testing.assert_array_equal(scaled_dot_product_attention(0 * x, x, x, **axes), x)
        return k_idx > q_idx

    got = scaled_dot_product_attention(0 * x, x, x, mask=mask, **axes)
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("installed", [True, False])
def test_one_thread_where_there_are_no_more(monkeypatch, installed):
    class OneThread:
        lib_controllers = ()

    monkeypatch.setattr(_threads, "_blas", OneThread if installed else lambda: None)
    x = heads_of_ones()
    names = set()

    def mask(q_idx, k_idx):
        names.add(threading.current_thread().name)
        return k_idx > q_idx

    got = scaled_dot_product_attention(
        0 * x, x, x, mask=mask, feature_axis=-1, seq_axis=-2, block_size=64
    )
    np.testing.assert_array_equal(got, x)
    assert names == {threading.current_thread().name}


def test_without_threadpoolctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert _threads._blas.__wrapped__() is None


def run_alone(code):
    """Run code in a process of its own, with two threads, and return what it prints."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_child_has_threads_of_its_own():
    """Even where the parent was at work."""
    code = """
import os
from positional_embeddings.arrays import threads as _threads
_threads._Job.with_limit.append(None)
child = os.fork()
if child == 0:
    os._exit(len(_threads._Job.with_limit))
print(os.waitpid(child, 0)[1])
"""
    assert run_alone(code) == "0\n"
    before = _threads._pool()
    _threads._forget_threads()
    assert _threads._pool() is not before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_child_forked_during_an_attention_has_all_threads_of_blas(monkeypatch):
    code = """
import os
import numpy as np
from positional_embeddings import scaled_dot_product_attention
from positional_embeddings.arrays import threads as _threads

def threads():
    return max(library.num_threads for library in _threads._blas().lib_controllers)

def mask(q_pos, k_pos):
    if q_pos[0, 0] == k_pos[0, 0] == 0:
        at_work = threads()
        child = os.fork()
        if child == 0:
            os._exit(threads())
        print(before, at_work, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return k_pos > q_pos

x = np.ones((64, 2048), dtype="float32")
before = threads()
scaled_dot_product_attention(x, x, x, mask=mask)
print(threads())
"""
    before, at_work, of_child, after = map(int, run_alone(code).split())
    assert at_work == 1
    assert before == of_child == after

    class Library:
        def set_num_threads(self, number):
            self.number = number

    library = Library()
    monkeypatch.setattr(_threads._Job, "limited", ((library, 3),))
    _threads._forget_threads()
    assert library.number == 3
    assert _threads._Job.limited == ()


def test_a_call_while_the_interpreter_ends():
    code = """
import atexit
import numpy as np
from positional_embeddings import RoPE, scaled_dot_product_attention
x = np.ones((8, 2048, 64), dtype="float32")
axes = {"feature_axis": -1, "seq_axis": -2}
rope = RoPE(64, 2048, **axes)

def last():
    rope(x)
    assert (abs(scaled_dot_product_attention(x, x, x, **axes) - 1) < 1e-5).all()
    print("done")

atexit.register(last)
"""
    assert run_alone(code) == "done\n"


DECODING = {
    "head, seq, heads": ((64, 1, 8), 0, 1),
    "batch, heads, seq, head": ((1, 8, 1, 64), -1, -2),
    "batch, seq, heads, head": ((2, 1, 4, 64), -1, 1),
}


@pytest.mark.parametrize("layout", DECODING)
@pytest.mark.parametrize("hides", [False, True])
def test_one_query_over_many_keys_copies_none_of_them(layout, hides):
    shape, feature, seq = DECODING[layout]
    rng = np.random.default_rng(0)
    q = rng.standard_normal(shape, dtype=np.float32)
    keys = list(shape)
    keys[seq] = 20_000
    k, v = rng.standard_normal((2, *keys), dtype=np.float32)
    mask = None
    if hides:
        lengths = [1] * len(shape)
        lengths[max(feature % len(shape), seq % len(shape))] = 20_000
        mask = (np.arange(20_000) % 7 == 0).reshape(lengths)
    axes = {"feature_axis": feature, "seq_axis": seq}
    tracemalloc.start()
    got = scaled_dot_product_attention(q, k, v, mask=mask, **axes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.2 * k.nbytes

    rows = [np.moveaxis(x, (seq, feature), (-2, -1)).astype(np.float64) for x in (q, k, v)]
    scores = np.einsum("...qd,...kd->...qk", *rows[:2]) / 8
    if hides:
        scores[..., np.arange(20_000) % 7 == 0] = -np.inf
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    means = np.einsum("...qk,...kd->...qd", powers / powers.sum(-1, keepdims=True), rows[2])
    np.testing.assert_allclose(np.moveaxis(got, (seq, feature), (-2, -1)), means, atol=2e-6)


# Axes of sequence, heads, batch and features.
ORDERS = [(2, 1, 0, 3), (1, 2, 0, 3), (0, 2, 1, 3), (1, 2, 3, 0), (0, 2, 3, 1), (3, 2, 1, 0)]


@pytest.mark.parametrize("axes", ORDERS)
@pytest.mark.parametrize("q_len", [1, 5])
def test_groups_of_heads_on_every_axis(backend, axes, q_len):
    """Queries that share keys are multiplied with them together, wherever their heads lie."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((n, h, 2, 4)) for n, h in ((q_len, 6), (9, 3), (9, 3)))
    mask = rng.random((q_len, 9, 6, 2)) < 0.4
    heads = [np.repeat(x, 2, axis=1) for x in (k, v)]
    scores = np.einsum("qhbd,khbd->qkhb", q, heads[0]) / 2
    powers = np.where(mask, 0, np.exp(scores))
    sums = powers.sum(1, keepdims=True)
    weights = powers / np.where(sums == 0, 1, sums)
    expected = np.einsum("qkhb,khbd->qhbd", weights, heads[1])

    moved = [backend.array(np.moveaxis(x, range(4), axes)) for x in (q, k, v)]
    low, high = sorted((axes[0], axes[3]))
    mask = backend.array(np.moveaxis(mask, range(4), (low, high, axes[1], axes[2])))
    got = scaled_dot_product_attention(
        *moved, mask=mask, enable_gqa=True, feature_axis=axes[3], seq_axis=axes[0]
    )
    got = np.moveaxis(backend.numpy(got), axes, range(4))
    np.testing.assert_allclose(got, expected, atol=backend.tolerance() * 10)


@pytest.mark.parametrize("softcap", [1e10, 1e19, 1e30, 3e38, 1e39, 1e300])
def test_a_cap_far_above_the_scores_changes_nothing(backend, softcap):
    x = backend.array(np.random.default_rng(0).standard_normal((8, 5, 2)), "float32")
    got = scaled_dot_product_attention(x, x, x, softcap=softcap)
    expected = scaled_dot_product_attention(x, x, x)
    np.testing.assert_allclose(backend.numpy(got), backend.numpy(expected), atol=1e-6)


def test_a_large_cap_holds_for_larger_scores():
    q, k = np.asarray([[1e25]]), np.asarray([[1e25, 0.0]])
    weights = attention_weights(q, k, softcap=1e20, scale=1.0, bias=np.asarray([[-1e20, 0.0]]))
    np.testing.assert_array_equal(weights, [[0.5, 0.5]])
