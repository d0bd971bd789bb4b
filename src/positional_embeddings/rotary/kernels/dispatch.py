"""Which compiled kernel, if any, rotates an array in one pass over memory.

Numba is imported on first use.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from positional_embeddings.arrays.errors import type_name
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Dtype, dtype_name, is_complex, np
from positional_embeddings.rotary.kernels import cupy_kernel

# Called with x, cos, sin, out, axis and layout; the tables have the axes of x.
Kernel = Callable[..., None]

# The size from which on an `out` that is there already is written past the caches.
_STREAM_BYTES = 2**25
_NUMBA = "numba for NumPy arrays (pip install 'positional-embeddings[fast]')"
_CUPY = "CuPy for its own (pip install 'positional-embeddings[cupy]', [cupy12] for CUDA 12)"


def check_installed() -> None:
    """Check that a library with a kernel is installed."""
    if find_spec("numba") is None and find_spec("cupy") is None:
        message = f"`fused=True` needs {_NUMBA} or {_CUPY}; neither is installed."
        raise ImportError(message)


def kernel_for(
    x: Any, space: Space, out: Any = None, *, fused: bool | None = None
) -> Kernel | None:
    """Return the kernel that rotates `x` into `out`, or into a new array like it, if any.

    None if `fused` is False. If it is True there must be one, except for complex numbers.
    """
    if fused is False:
        return None
    kernel, unfit = _kernel_of(x, space), x
    if out is not None and kernel and not (out.dtype == x.dtype and _kernel_of(out, space)):
        kernel, unfit = None, out
    if kernel is None and fused and not is_complex(unfit.dtype):
        raise _no_kernel(unfit, space)
    # In place, a cache has what is written.
    if kernel and type(out) is np.ndarray and out is not x and out.nbytes >= _STREAM_BYTES:
        return partial(kernel, stream=True)
    return kernel


def _kernel_of(x: Any, space: Space) -> Kernel | None:
    if space.rotation_kernel == "numba" and type(x) is np.ndarray and x.flags.aligned:
        return numpy_kernel(x.dtype)
    rotates = space.rotation_kernel == "cupy" and dtype_name(x.dtype) in cupy_kernel.DTYPES
    return cupy_kernel.rotate_cupy if rotates else None


def _no_kernel(unfit: Any, space: Space) -> Exception:
    """Return the error about an array, `x` or `out`, without a kernel."""
    if space.rotation_kernel == "numba" and find_spec("numba") is None:
        return ImportError(f"`fused=True` needs {_NUMBA}, which is not installed.")
    return TypeError(
        "`fused=True` has kernels for NumPy and CuPy arrays of float16, float32 and "
        "float64, and bfloat16 on CuPy, aligned and in the machine's byte order, `out` like `x`, "
        f"got {type_name(unfit)} of {unfit.dtype}; fused=None rotates it without one."
    )


@cache
@finished_before_forks
def numpy_kernel(dtype: Dtype) -> Kernel | None:
    """Return the kernel for NumPy's arrays of a dtype, None if there is none."""
    try:
        from positional_embeddings.rotary.kernels.numba_kernel import (  # noqa: PLC0415
            has_kernel,
            rotate_numpy,
        )
    except ImportError:
        return None
    return rotate_numpy if has_kernel(dtype) else None
