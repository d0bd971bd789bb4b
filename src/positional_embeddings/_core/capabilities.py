"""What an array library can do beyond the Array API standard: one row a library.

A library without a row gets the safe one: its arrays are never written to or read, and none is
kept for another call. Below the table are the few questions that libraries answer in ways of
their own, such as PyTorch's modes and strides.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial, wraps
from threading import get_ident
from types import ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar
from warnings import catch_warnings

from array_api_compat import (
    array_namespace,
    is_cupy_namespace,
    is_dask_array,
    is_dask_namespace,
    is_torch_array,
)

from positional_embeddings._core.errors import shown, wrong_type
from positional_embeddings._core.namespace import (
    Device,
    Dtype,
    HostArray,
    Namespace,
    host,
    is_dtype,
    is_jax_tracer,
    single_device,
    to_host,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# cudaStreamPerThread
_STREAM_OF_THREAD = 2


class _Capabilities(NamedTuple):
    supports_inplace: bool = False  # parts of an array can be assigned
    takes_out: bool = False  # element-wise functions take `out=`
    caches_tables: bool = False  # an array that is made in one call may serve another one
    shows_tracing: bool = False  # an array of a trace has a type of its own
    reads_values: bool = False  # values can be read at once, outside a trace
    has_fmod: bool = False  # there is a remainder that is never rounded
    compiles_kernels: bool = False  # `ElementwiseKernel` compiles what is computed of an element
    multiplies_copies: bool = False  # batched products copy what is transposed or broadcast
    has_loops: bool = False  # what is compiled can loop, by functions beyond the standard
    is_chunked: bool = False  # arrays are computed later, chunk by chunk


_SAFE = _Capabilities()
_ALL = _Capabilities(*[True] * 6)
_JAX = _Capabilities(shows_tracing=True, reads_values=True, has_fmod=True, has_loops=True)
_LIBRARIES = {
    "numpy": _ALL,
    "cupy": _ALL._replace(compiles_kernels=True, multiplies_copies=True),
    "array_api_strict": _ALL._replace(takes_out=False, has_fmod=False),
    # What PyTorch makes in a mode (inference, fake, functional), and what JAX makes in a
    # trace, must not outlive it.
    "torch": _Capabilities(supports_inplace=True, reads_values=True, has_fmod=True),
    "jax": _JAX,
    "jaxlib": _JAX,
    "dask": _Capabilities(has_fmod=True, is_chunked=True),
    "cubed": _Capabilities(is_chunked=True),
}

# (query, key) axes are chunked as the axes of a 2**17 x 2**17 array would be.
_MANY = 2**17


def _row_of(array: Any) -> _Capabilities:
    kind: Any = type(array)
    return _row_of_type(kind)


@lru_cache(maxsize=256)
def _row_of_type(kind: Any) -> _Capabilities:
    libraries = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((_LIBRARIES[name] for name in libraries if name in _LIBRARIES), _SAFE)


def is_host_array(x: Any) -> bool:
    """Tell whether `x` is an array of NumPy itself, not of a subclass."""
    return type(x) is host.ndarray


def supports_inplace(*arrays: Any) -> bool:
    """Tell whether a result of these arrays may be written part after part.

    Not while operations are recorded: PyTorch may differentiate, compile or transform.
    """
    if is_host_array(arrays[0]):
        return True
    if is_torch_array(arrays[0]):
        return not is_compiling(arrays[0]) and not any(map(_is_recorded, arrays))
    return _row_of(arrays[0]).supports_inplace


def _is_recorded(tensor: Any) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return bool(tensor.requires_grad)


def is_writable(x: Any) -> bool:
    """Tell whether the library of an array can write to its arrays at all."""
    return _row_of(x).supports_inplace


def caches_tables(x: Any) -> bool:
    """Tell whether a table made for `x` may be kept for another call."""
    return _row_of(x).caches_tables


def compiles_kernels(x: Any) -> bool:
    """Tell whether the library of an array compiles kernels, each of which is one launch."""
    return _row_of(x).compiles_kernels


def multiplies_copies(x: Any) -> bool:
    """Tell whether a batched product copies operands that are transposed or broadcast.

    CuPy makes both contiguous, and writes lists of pointers for an axis that broadcasts; its
    `vecdot` is a product for each row.
    """
    return _row_of(x).multiplies_copies


def is_compiling(array: Any) -> bool:
    """Tell whether PyTorch compiles what is called with `array`, one of its own or of NumPy."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.compiler.is_compiling():
        return False
    # NumPy's arrays are parts of its graph.
    return is_host_array(array) or bool(is_torch_array(array))


def is_readable(array: Any) -> bool:
    """Tell whether the values of an array are there to be read, as far as its type shows it."""
    if is_compiling(array) or is_jax_tracer(array):
        return False
    return _row_of(array).reads_values


def is_concretely_true(condition: Any) -> bool:
    """Tell whether a 0-d boolean array is True, and there to be read.

    False if its value is not there: dask would have to compute it, and JAX and PyTorch
    have none while they trace or compile.
    """
    if not is_readable(condition):
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
        return None if is_compiling(array) else array
    if not (_row_of(array).shows_tracing and is_readable(array) and on_the_host(array)):
        return None
    return to_host(array, xp)


def integers_on_host(array: Any, xp: Namespace) -> HostArray | None:
    """Return the values of an array of integers, None if they are others or not there."""
    return values_on_host(array, xp) if is_dtype(array.dtype, "integral", xp) else None


def on_the_host(x: Any) -> bool:
    """Tell whether an array is in the memory of the host."""
    return is_host_array(x) or "cpu" in str(single_device(x)).lower()


def is_chunked(x: Any) -> bool:
    """Tell whether an array is computed later, chunk by chunk, by dask or by cubed."""
    return _row_of(x).is_chunked


def chunked_arange(
    start: int, stop: int, values_per_pair: int, dtype: Dtype, on: Device, xp: Namespace
) -> Any:
    """Return the integers from `start` to before `stop`, to make an array of pairs of.

    Libraries that compute by chunks cut both axes of the pairs, so that a chunk with
    `values_per_pair`, such as heads, has the size that the library is set to: one chunk for
    each axis would make one chunk of all pairs.
    """
    options = {"dtype": dtype, "device": on}
    if is_dask_namespace(xp) or xp.__name__ in ("cubed", "cubed.array_api"):
        shape = _MANY, _MANY, max(1, values_per_pair)
        options["chunks"] = xp.empty(shape, dtype=dtype, chunks=("auto", "auto", -1)).chunks[0][0]
    return xp.arange(start, stop, **options)


def many_chunks(xp: Namespace) -> Any:
    """Return a context in which dask does not warn of many chunks, as pairs of positions have."""
    if not is_dask_namespace(xp):
        return nullcontext()
    warning = sys.modules["dask.array"].PerformanceWarning
    return catch_warnings(action="ignore", category=warning)


def chunks_of(x: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the lengths of the chunks on each axis, NaN where dask does not know them."""
    chunks: tuple[tuple[Any, ...], ...] = x.chunks
    return chunks


def rechunked(x: Any, chunks: Mapping[int, tuple[int, ...]]) -> Any:
    """Return a chunked array with these chunks on some axes; axes of length 1 stay."""
    wanted = {
        axis: lengths
        for axis, lengths in chunks.items()
        if x.shape[axis] != 1 and x.chunks[axis] != lengths
    }
    if not is_dask_array(x):  # cubed has one length of all but the last chunk
        wanted = {axis: lengths[0] for axis, lengths in wanted.items()}  # type: ignore[misc]
    return x.rechunk(wanted) if wanted else x


def map_chunks(
    function: Callable[..., Any],
    *arrays: Any,
    chunks: tuple[tuple[Any, ...], ...],
    dtype: Any,
    numbered: bool = False,
) -> Any:
    """Return what a function makes of the chunks in the same place of chunked arrays.

    The arrays have as many axes as `chunks`, those of the result. On each axis they have as many
    chunks as it, or one. The function gets the chunks, arrays of NumPy or CuPy or whatever they
    are, in one task for each; if `numbered`, also the numbers of the chunk on all axes, as its
    parameter `block_id`.
    """
    first = arrays[0]
    if is_dask_array(first):
        library = sys.modules["dask.array"]
        # Else dask would call the function with empty arrays.
        meta = library.utils.meta_from_array(first, ndim=len(chunks), dtype=dtype)
        return library.map_blocks(function, *arrays, chunks=chunks, dtype=dtype, meta=meta)
    # cubed counts the chunks of the first array.
    library = sys.modules["cubed"]
    numbers = tuple(map(len, chunks))
    counted = library.empty(numbers, dtype=library.bool, chunks=1, spec=first.spec)
    applied = partial(_without_first, function, numbered=numbered)
    return library.map_blocks(applied, counted, *arrays, chunks=chunks, dtype=dtype)


def _without_first(
    function: Callable[..., Any],
    _: Any,
    *chunks: Any,
    numbered: bool,
    block_id: tuple[int, ...],
) -> Any:
    return function(*chunks, block_id=block_id) if numbered else function(*chunks)


def strides_of(x: Any) -> tuple[int, ...] | None:
    """Return how far apart neighbours are on each axis, None if the library does not tell."""
    strides = x.stride() if is_torch_array(x) else getattr(x, "strides", None)
    return None if strides is None else tuple(map(abs, strides))


def shares_memory(array: Any, other: Any) -> bool:
    """Tell whether writing to an array may change what is still to be read of another.

    It cannot if both are the same numbers in the same places, and may if the library does
    not tell.
    """
    if array is other:
        return False
    if is_torch_array(array):
        # Not by their storages: two can be of one memory.
        (start, stop), (other_start, other_stop) = map(_addresses, (array, other))
        return start < other_stop and other_start < stop and _place(array) != _place(other)
    may_share = getattr(array_namespace(array), "may_share_memory", None)
    if may_share is None:
        return True
    return bool(may_share(array, other)) and _place(array) != _place(other)


def _addresses(tensor: Any) -> tuple[int, int]:
    """Return where the elements of a tensor begin and end in memory."""
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    start: int = tensor.data_ptr()
    return start, start + (reach + 1) * tensor.element_size()


def _place(array: Any) -> Any:
    """Return address, shape and strides as one object."""
    if is_torch_array(array):
        return array.data_ptr(), array.shape, array.stride()
    interface = getattr(array, "__array_interface__", None)
    return interface or array.__cuda_array_interface__


def is_read_only(array: Any) -> bool:
    """Tell whether a library that has arrays to write to forbids it for this one."""
    return not getattr(getattr(array, "flags", None), "writeable", True)


def repeats_elements(array: Any) -> bool:
    """Tell whether several elements of an array may be one number in memory."""
    strides = strides_of(array)
    if strides is None or 0 in array.shape:
        return False
    reach = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= reach:
            return True
        reach += (n - 1) * stride
    return False


def without_autocast(x: Any) -> Any:
    """Return a context in which PyTorch multiplies in the dtype of its operands."""
    if not is_torch_array(x):
        return nullcontext()
    torch, kind = array_namespace(x), x.device.type
    # It refuses to be asked about devices without it, such as "meta".
    enabled = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if enabled else nullcontext()


def on_given_device(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function with the options `xp` and `device` compute on that device."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        on = options.get("device")
        if on is None:
            return function(*args, **options)
        with current_device(options.get("xp"), on):
            return function(*args, **options)

    return call


def current_device(xp: Namespace, on: Device) -> Any:
    """Return a context in which CuPy computes on a device; None is its current one.

    Elsewhere it refuses to compute, and its creation functions make their arrays on the
    current device, whatever their `device=` says.
    """
    if not _is_cupy(xp):
        return nullcontext()
    try:
        return xp.cuda.Device(on)
    except (TypeError, ValueError):
        raise wrong_type("device", "be a cupy.cuda.Device or its number", shown(on)) from None


def current_stream(xp: Namespace) -> tuple[int, int] | None:
    """Return what tells CuPy's current stream from others, None for other libraries.

    One stream does not wait for what another one computes or copies, nor before memory that
    it has freed is written to: arrays that are kept have to stay with the stream they are of.
    """
    if not _is_cupy(xp):
        return None
    pointer = xp.cuda.get_current_stream().ptr
    # The default streams of all threads have one pointer.
    return pointer, get_ident() if pointer == _STREAM_OF_THREAD else 0


def _is_cupy(xp: Namespace) -> bool:
    return isinstance(xp, ModuleType) and is_cupy_namespace(xp)


def is_trained(x: Any) -> bool:
    """Tell whether an array is a parameter of PyTorch, or another tensor that gets a gradient."""
    if not is_torch_array(x):
        return False
    return bool(x.requires_grad) or isinstance(x, array_namespace(x).nn.Parameter)


def records_gradients(x: Any) -> bool:
    """Tell whether a library differentiates by recording what is computed, as PyTorch does."""
    return bool(is_torch_array(x))


class Loops(NamedTuple):
    """Control flow of a library that compiles, where a loop of Python would be unrolled."""

    # From a function of (state, element), a first state, and arrays whose first axis it goes
    # along, to the last state and what the function returned beside it. What it computes on the
    # way is computed again for a gradient, and not kept.
    scan: Callable[..., Any]
    cond: Callable[..., Any]  # of a 0-d condition, two functions, and their arguments


def loops_of(array: Any, xp: Namespace) -> Loops | None:
    """Return the loops of a library that compiles what is called now, None in other cases.

    JAX calls what is not compiled operation by operation, and would compile each such loop anew.
    """
    # What is made while JAX compiles is traced, too; not so where it differentiates only.
    if not _row_of(array).has_loops or not is_jax_tracer(xp.zeros(())):
        return None
    jax = sys.modules["jax"]

    def scan(body: Callable[..., Any], state: Any, elements: Any) -> Any:
        return jax.lax.scan(jax.checkpoint(body, prevent_cse=False), state, elements)

    return Loops(scan, jax.lax.cond)


def exp_in_place(x: Any, xp: Namespace) -> Any:
    """Return the exponential, written over `x` if the library can.

    The standard cannot. A new array would take twice the cache.
    """
    return xp.exp(x, out=x) if _row_of(x).takes_out else xp.exp(x)


def fill_in_place(x: Any, mask: Any, value: float, xp: Namespace) -> Any:
    """Return `x` with a value where a mask is True, written to NumPy's `x` itself.

    NumPy's `where` takes four times as long.
    """
    if not is_host_array(x):
        return xp.where(mask, value, x)
    host.copyto(x, value, where=mask)
    return x


def bounded(x: Any, least: float, most: float | None, xp: Namespace) -> Any:
    """Return the numbers of `x`, those beyond the bounds as the bounds; None is no bound.

    The standard's `clip` takes CuPy 15 launches and four waits; for NumPy it is the faster one.
    PyTorch does not compile `maximum` of a number.
    """
    if is_torch_array(x):
        return x.clamp(least, most)
    if is_host_array(x):
        return xp.clip(x, least, most)
    return xp.maximum(x if most is None else xp.minimum(x, most), least)


def exact_remainder(x: Any, divisor: Any, xp: Namespace) -> Any:
    """Return what a positive divisor leaves of `x`, with its sign, without a rounding.

    The standard's `remainder` may round: CuPy subtracts a product. PyTorch gives NaN where a
    quotient overflows: it first gets the remainder of a multiple of the divisor.
    """
    if is_torch_array(x) and x.dtype == xp.float64:
        x = xp.fmod(x, divisor * 2.0**100)
    if _row_of(x).has_fmod:
        return xp.fmod(x, divisor)
    return xp.sign(x) * xp.remainder(xp.abs(x), divisor)


def reshaped(x: Any, shape: tuple[int, ...], xp: Namespace) -> Any:
    """Return an array in another shape; dask fails to reshape one without elements."""
    if is_dask_array(x) and 0 in shape:
        return xp.zeros(shape, dtype=x.dtype)
    return xp.reshape(x, shape)


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
