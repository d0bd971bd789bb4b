"""Rotation in one pass over memory: which kernel an array gets, and on which threads.

The kernels are the only modules that know a library by name, other than `arrays.namespace`
and `arrays.libraries`. Numba is imported on first use.

Numba's own threads are not used: its OpenMP layer kills a forked child process, and its
workqueue layer aborts the process if two threads call it at a time. A kernel runs on one
thread and without the GIL, so that a pool of Python threads can run it on parts of an array.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from array_api_compat import is_cupy_array, is_numpy_array

from positional_embeddings.arrays.errors import type_name
from positional_embeddings.arrays.forks import finished_before_forks, register_at_fork
from positional_embeddings.arrays.namespace import Dtype, dtype_name, is_complex, np
from positional_embeddings.rotary.kernels import cupy_kernel

# Called with x, cos, sin, out, axis and layout; the tables have the axes of x.
Kernel = Callable[[Any, Any, Any, Any, int, str], None]

# The part of both tables that a piece of work needs fits into the cache of a core.
_TABLE_BYTES = 2**18

# The part of x from which on waking up a thread pays.
_THREAD_BYTES = 2**20
_NUMBA = "numba for NumPy arrays (pip install 'positional-embeddings[fast]')"
_CUPY = "CuPy for its own (pip install 'positional-embeddings[cupy]', [cupy12] for CUDA 12)"


def check_installed() -> None:
    """Check that a library with a kernel is installed."""
    if find_spec("numba") is None and find_spec("cupy") is None:
        message = f"`fused=True` needs {_NUMBA} or {_CUPY}; neither is installed."
        raise ImportError(message)


def kernel_for(x: Any, out: Any = None, *, fused: bool | None = None) -> Kernel | None:
    """Return the kernel that rotates `x` into `out`, or into a new array like it, if any.

    None if `fused` is False. If it is True there must be one, except for complex numbers.
    """
    if fused is False:
        return None
    kernel, unfit = _kernel_of(x), x
    if out is not None and kernel and not (out.dtype == x.dtype and _kernel_of(out)):
        kernel, unfit = None, out
    if kernel is None and fused and not is_complex(unfit.dtype):
        raise _no_kernel(unfit)
    return kernel


def _kernel_of(x: Any) -> Kernel | None:
    if type(x) is np.ndarray:
        return _kernel_for_numpy(x.dtype, x.ndim) if x.flags.aligned else None
    rotates = is_cupy_array(x) and dtype_name(x.dtype) in cupy_kernel.DTYPES
    return cupy_kernel.rotate_cupy if rotates else None


def _no_kernel(unfit: Any) -> Exception:
    """Return the error about an array, `x` or `out`, without a kernel."""
    if is_numpy_array(unfit) and find_spec("numba") is None:
        return ImportError(f"`fused=True` needs {_NUMBA}, which is not installed.")
    return TypeError(
        "`fused=True` has kernels for NumPy and CuPy arrays of float16, float32 and "
        "float64, and bfloat16 on CuPy, aligned and in the machine's byte order, `out` like `x`, "
        f"got {type_name(unfit)} of {unfit.dtype}; fused=None rotates it without one."
    )


@cache
@finished_before_forks
def _kernel_for_numpy(dtype: Dtype, ndim: int) -> Kernel | None:
    try:
        from positional_embeddings.rotary.kernels.numba_kernel import compiled, threads  # noqa: PLC0415
    except ImportError:
        return None
    kernel = compiled(dtype, ndim)
    return None if kernel is None else partial(_rotate_numpy, kernel, threads())


def _rotate_numpy(
    kernel: Any, threads: int, x: Any, cos: Any, sin: Any, out: Any, axis: int, layout: str
) -> None:
    """Rotate NumPy arrays piece by piece, on several threads if that pays."""
    if x.dtype == np.float16:
        x, out = x.view(np.uint16), out.view(np.uint16)  # numba has no float16
    most, threads = threads, min(threads, x.nbytes // _THREAD_BYTES)
    if threads < 2 and 2 * cos.nbytes <= _TABLE_BYTES:
        kernel(x, cos, sin, out, axis, layout == "interleaved")
        return

    def rotate(pieces: list[tuple[slice, ...]]) -> None:
        for piece in pieces:
            rows = tuple(s if n > 1 else slice(None) for s, n in zip(piece, cos.shape, strict=True))
            kernel(x[piece], cos[rows], sin[rows], out[piece], axis, layout == "interleaved")

    pieces = _pieces(x.shape, cos, axis, threads)
    threads = max(1, min(threads, len(pieces)))
    shares = [pieces[i::threads] for i in range(threads)]
    others = _started(rotate, shares[1:], most)
    for share in (shares[0], *shares[1 + len(others) :]):
        rotate(share)
    for other in others:
        other.result()


def _started(work: Callable[[Any], None], shares: list[Any], most: int) -> list[Future[None]]:
    """Start work on threads; on fewer, or none, while the interpreter shuts down."""
    started: list[Future[None]] = []
    try:
        for share in shares:
            started.append(_pool(most).submit(work, share))  # noqa: PERF401
    except RuntimeError:
        pass
    return started


def _pieces(shape: tuple[int, ...], table: Any, axis: int, threads: int) -> list[tuple[slice, ...]]:
    """Cut an array along the longest axis of its tables, or, if all are 1, its own longest."""
    axes = [a for a in range(len(shape)) if a != axis]
    cut = max(axes, key=lambda a: (table.shape[a], shape[a]))
    count = max(threads, -(-2 * table.nbytes // _TABLE_BYTES) if table.shape[cut] > 1 else 1)
    step = max(1, -(-shape[cut] // count))
    return [
        tuple(slice(start, start + step) if a == cut else slice(None) for a in range(len(shape)))
        for start in range(0, shape[cut], step)
    ]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="positional_embeddings")


# A forked child has none of its parent's threads.
register_at_fork(after_in_child=_pool.cache_clear)
