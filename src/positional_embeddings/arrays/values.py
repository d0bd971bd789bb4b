"""Values of arrays that are there to be read, and memory that may be written to."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from positional_embeddings.arrays.library import library_of, library_of_namespace
from positional_embeddings.arrays.namespace import (
    HostArray,
    Namespace,
    is_dtype,
    is_host_array,
    to_host,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def is_concretely_true(condition: Any) -> bool:
    """Tell whether a 0-d boolean array is True, and there to be read.

    False if its value is not there: dask would have to compute it, and JAX and PyTorch
    have none while they trace or compile.
    """
    if not library_of(condition).is_readable(condition):
        return False
    try:
        return bool(condition)
    except Exception:  # noqa: BLE001 - every library has exceptions of its own for this
        return False


def values_on_host(array: Any, xp: Namespace) -> HostArray | None:
    """Return the values of an array that is in the memory of the host, None if they are not there.

    A device is not waited for, nothing lazy is computed, and no trace takes them for constants.
    """
    if is_host_array(array):
        return None if library_of(array).is_compiling(array) else array
    library = library_of(array)
    if not (library.shows_tracing and library.is_readable(array) and library.is_on_host(array)):
        return None
    return to_host(array, xp)


def integers_on_host(array: Any, xp: Namespace) -> HostArray | None:
    """Return the values of an array of integers, None if they are others or not there."""
    return values_on_host(array, xp) if is_dtype(array.dtype, "integral", xp) else None


def is_read_only(array: Any) -> bool:
    """Tell whether a library that has arrays to write to forbids it for this one."""
    return not getattr(getattr(array, "flags", None), "writeable", True)


def repeats_elements(array: Any) -> bool:
    """Tell whether several elements of an array may be one number in memory."""
    strides = library_of(array).strides(array)
    if strides is None or 0 in array.shape:
        return False
    reach = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= reach:
            return True
        reach += (n - 1) * stride
    return False


def on_given_device(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function with the options `xp` and `device` compute on that device."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        on = options.get("device")
        if on is None:
            return function(*args, **options)
        xp = options.get("xp")
        with library_of_namespace(xp).current_device(on, xp):
            return function(*args, **options)

    return call
