"""What a library can do beyond the Array API standard."""

from contextlib import nullcontext
from typing import Any

from array_api_compat import (
    array_namespace,
    is_cupy_array,
    is_dask_array,
    is_lazy_array,
    is_torch_array,
)

from positional_embeddings._core.namespace import Namespace, _is_jax_tracer, host


def is_compiling(array: Any) -> bool:
    """Tell whether PyTorch compiles what is called with `array`."""
    return is_torch_array(array) and bool(array_namespace(array).compiler.is_compiling())


def is_readable(array: Any) -> bool:
    """Tell whether the values of an array are there to be read, as far as its type shows it."""
    return not (is_compiling(array) or is_dask_array(array) or _is_jax_tracer(array))


def is_concretely_true(condition: Any) -> bool:
    """Tell whether a 0-d boolean array is known to be True.

    False where its value is not there to be read: dask would have to compute it, and
    JAX and PyTorch have none while they trace or compile.
    """
    if not is_readable(condition):
        return False
    try:
        return bool(condition)
    except Exception:  # noqa: BLE001 - every library has exceptions of its own for this
        return False


def without_autocast(x: Any) -> Any:
    """Return a context in which PyTorch multiplies in the dtype of its operands."""
    if not is_torch_array(x):
        return nullcontext()
    torch, kind = array_namespace(x), x.device.type
    enabled = torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if enabled else nullcontext()


def supports_inplace(*arrays: Any) -> bool:
    """Tell whether a result of these arrays may be written part after part.

    Not where operations are recorded: in JAX and dask, and in PyTorch where it
    differentiates, compiles or transforms a function.
    """
    if type(arrays[0]) is host.ndarray:
        return True
    if is_torch_array(arrays[0]):
        return not is_compiling(arrays[0]) and not any(map(_is_recorded, arrays))
    return not is_lazy_array(arrays[0])


def _is_recorded(tensor: Any) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return bool(tensor.requires_grad)


def exp_in_place(x: Any, xp: Namespace) -> Any:
    """Return the exponential, written over `x` where the library has a word for it.

    The standard has none. A new array would take twice the cache.
    """
    return xp.exp(x, out=x) if type(x) is host.ndarray or is_cupy_array(x) else xp.exp(x)


def search_sorted(ordered: Any, values: Any, xp: Namespace, side: str = "left") -> Any:
    """Return where values stand in an ordered array, in the dtype of the values.

    dask searches each chunk of `ordered` for all values, so that it has to be one chunk, and
    fails for values without axes; PyTorch warns of values that it has to copy into order.
    """
    if is_dask_array(ordered):
        found = xp.searchsorted(ordered.rechunk(-1), values[None, ...], side=side)[0, ...]
    else:
        values = values.contiguous() if is_torch_array(values) else values
        found = xp.searchsorted(ordered, values, side=side)
    return xp.astype(found, values.dtype, copy=False)


def makes_tables_anew(x: Any) -> bool:
    """Tell whether a table made beside `x` must not be kept for another call.

    One that is made while JAX traces must not outlive the trace, nor one that PyTorch
    makes in a mode (inference, fake, functional) the mode.
    """
    return is_lazy_array(x) or is_torch_array(x)
