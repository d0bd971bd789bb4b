"""Array library, device and dtype of a call.

The only module that knows NumPy by name: it is the default namespace, and the
host on which small constants and tables are computed.
"""

from functools import lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_lazy_array,
    is_numpy_array,
    is_numpy_namespace,
    is_torch_array,
)
from array_api_compat import device as _device

__all__ = [
    "Array",
    "ArrayT",
    "Device",
    "Dtype",
    "HostArray",
    "Namespace",
    "compute_dtype",
    "default_float",
    "default_integer",
    "device_of",
    "dtype_name",
    "exp_in_place",
    "fills_in_parts",
    "float_dtype",
    "host",
    "is_complex",
    "is_cupy_array",
    "is_lazy_array",
    "is_numpy_array",
    "is_numpy_namespace",
    "is_read_only",
    "is_real_floating",
    "kind_of",
    "known",
    "makes_tables_anew",
    "memory_strides",
    "namespace_of",
    "namespace_or_numpy",
    "nearer_in_memory",
    "on_the_host",
    "present",
    "random_generator",
    "read_only",
    "repeats_elements",
    "shares_memory",
    "widest_float",
]

Namespace: TypeAlias = Any
Dtype: TypeAlias = Any
Device: TypeAlias = Any
HostArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Array(Protocol):
    """What this library asks of an array's type; the rest is its namespace's."""

    @property
    def shape(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)

# Plain NumPy keeps the standard too; the namespace that wraps it takes 0.1 s to import.
host: Namespace = np
_PLAIN = {np.ndarray}

_NARROW_DTYPES = ("float16", "bfloat16", "float8_", "float6_", "float4_")


def namespace_of(**arrays: Any) -> Namespace:
    """Return the one namespace of the given arrays, named for the messages."""
    if set(map(type, arrays.values())) == _PLAIN:
        return host
    for name, array in arrays.items():
        _check_array(name, array)
    try:
        return array_namespace(*arrays.values())
    except TypeError:
        *names, last = (f"`{name}`" for name in arrays)
        kinds = ", ".join(f"{kind_of(array)} for `{name}`" for name, array in arrays.items())
        message = f"{', '.join(names)} and {last} must come from one array library, got {kinds}."
        raise TypeError(message) from None


def present(**arrays: Any) -> dict[str, Any]:
    """Return the optional arrays that are there, by name."""
    return {name: array for name, array in arrays.items() if array is not None}


def _check_array(name: str, array: Any) -> None:
    # NumPy takes both for plain arrays: `concat` drops the mask, `*` multiplies matrices.
    if isinstance(array, np.ma.MaskedArray | np.matrix):
        reason, remedy = (
            ("its mask would be ignored", f"{name}.filled(...) and a mask of its own")
            if isinstance(array, np.ma.MaskedArray)
            else ("its product is another one", f"numpy.asarray({name})")
        )
        message = f"`{name}` must be a plain array, got {kind_of(array)}: {reason}. Pass {remedy}."
        raise TypeError(message)
    if not is_array_api_obj(array):
        hint = f" Pass numpy.asarray({name})." if isinstance(array, list | tuple) else ""
        message = (
            f"`{name}` must be an array (NumPy, CuPy, PyTorch, JAX, dask, ...), "
            f"got {kind_of(array)}.{hint}"
        )
        raise TypeError(message)


def kind_of(value: Any) -> str:
    """Return the type of a value as a user knows it, such as numpy.ndarray."""
    if value is None:
        return "None"
    kind = type(value)
    modules = [part for part in kind.__module__.split(".") if not part.startswith("_")]
    return ".".join([*(part for part in modules if part != "builtins"), kind.__qualname__])


def namespace_or_numpy(xp: Namespace | None) -> Namespace:
    """Return `xp` as a namespace that keeps the standard, NumPy's where it is None."""
    if xp is None:
        xp = host
    try:
        return array_namespace(xp.empty(0))
    except (AttributeError, TypeError):
        message = f"`xp` must be an array namespace such as numpy or cupy, got {xp!r}."
        raise TypeError(message) from None


def device_of(array: Any) -> Device:
    """Return the device to make arrays on that meet `array`.

    None, which leaves it to the library, for a JAX array over several devices, whose
    sharding is made for its own shape, or in a trace, where it has none.
    """
    if _is_jax_tracer(array):
        return None
    on = _device(array)
    return None if hasattr(on, "device_set") else on


def _is_jax_tracer(array: Any) -> bool:
    # What it does not know it tells by errors that take a millisecond to word.
    return any(kind.__name__ == "Tracer" for kind in type(array).__mro__)


def memory_strides(x: Any) -> tuple[int, ...] | None:
    """Return how far apart neighbours are on each axis, None where the library does not tell."""
    strides = _strides(x)
    return None if strides is None else tuple(map(abs, strides))


def _strides(x: Any) -> Any:
    if is_torch_array(x):
        return x.stride()
    return getattr(x, "strides", None)


def nearer_in_memory(x: Any, axis: int, other: int) -> bool:
    """Tell whether neighbours on one axis lie nearer in memory than those on another."""
    strides = _strides(x)
    return axis > other if strides is None else abs(strides[axis]) < abs(strides[other])


def on_the_host(x: Any) -> bool:
    """Tell whether an array lies in the memory of the host."""
    return "cpu" in str(_device(x)).lower()


def fills_in_parts(*arrays: Any) -> bool:
    """Tell whether a result of these arrays may be written part after part.

    Not where operations are recorded: in JAX and dask, and in PyTorch where it
    differentiates, compiles or transforms a function.
    """
    if type(arrays[0]) is np.ndarray:
        return True
    if is_torch_array(arrays[0]):
        return not _is_compiling(arrays[0]) and not any(map(_is_recorded, arrays))
    return not is_lazy_array(arrays[0])


def _is_compiling(tensor: Any) -> bool:
    return bool(array_namespace(tensor).compiler.is_compiling())


def _is_recorded(tensor: Any) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return bool(tensor.requires_grad)


def shares_memory(array: Any, other: Any) -> bool:
    """Tell whether writing to an array may change what is still to be read of another.

    It cannot where both are the same numbers in the same places, and may in a library
    that does not tell.
    """
    if array is other:
        return False
    if is_torch_array(array):
        start, other_start = (tensor.untyped_storage().data_ptr() for tensor in (array, other))
        return bool(start == other_start and _place(array) != _place(other))
    may_share = getattr(array_namespace(array), "may_share_memory", None)
    if may_share is None:
        return True
    return bool(may_share(array, other)) and _place(array) != _place(other)


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
    strides = memory_strides(array)
    if strides is None or 0 in array.shape:
        return False
    reach = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= reach:
            return True
        reach += (n - 1) * stride
    return False


def exp_in_place(x: Any, xp: Namespace) -> Any:
    """Return the exponential, written over `x` where the library has a word for it.

    The standard has none. A new array would take twice the cache.
    """
    return xp.exp(x, out=x) if type(x) is np.ndarray or is_cupy_array(x) else xp.exp(x)


def makes_tables_anew(x: Any) -> bool:
    """Tell whether a table made beside `x` must not be kept for another call.

    One that is made while JAX traces must not outlive the trace, nor one that PyTorch
    makes in a mode (inference, fake, functional) the mode.
    """
    return is_lazy_array(x) or is_torch_array(x)


@lru_cache(maxsize=256, typed=True)
def dtype_name(dtype: Dtype) -> str:
    """Return the bare name of a dtype of any library, such as "float32"."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


@lru_cache(maxsize=256, typed=True)
def is_real_floating(dtype: Dtype, xp: Namespace) -> bool:
    """Tell whether `dtype` holds real floating-point numbers, ml_dtypes' bfloat16 included."""
    try:
        return bool(xp.isdtype(dtype, "real floating"))
    except (AttributeError, TypeError):
        return _is_numpys_bfloat16(dtype)


def _is_numpys_bfloat16(dtype: Dtype) -> bool:
    # NumPy does not know the kind of ml_dtypes' types.
    try:
        return np.dtype(dtype).name == "bfloat16"
    except TypeError:
        return False


def float_dtype(dtype: Dtype | None, default: Dtype, xp: Namespace, on: Device) -> Dtype:
    """Return `dtype` after checking that the device has it, or `default` where it is None."""
    if dtype is None:
        return default
    if not is_real_floating(dtype, xp):
        message = f"`dtype` must be a real floating-point dtype of the library, got {dtype!r}."
        raise TypeError(message)
    if dtype_name(dtype) == "float64" and widest_float(xp, on) != xp.float64:
        message = "`dtype` must be a dtype that the device has, got float64."
        raise ValueError(message)
    return dtype


def widest_float(xp: Namespace, on: Device) -> Dtype:
    """Return float64, or float32 on a device that has no float64."""
    floats = xp.__array_namespace_info__().dtypes(device=on, kind="real floating")
    return xp.float64 if "float64" in floats else xp.float32


def default_float(xp: Namespace, on: Device) -> Dtype:
    """Return the real dtype that the library gives to numbers without one."""
    return xp.__array_namespace_info__().default_dtypes(device=on)["real floating"]


def default_integer(xp: Namespace, on: Device) -> Dtype:
    """Return the integer dtype of positions: int64, or int32 on a device without 64 bits."""
    return xp.__array_namespace_info__().default_dtypes(device=on)["integral"]


def is_complex(dtype: Dtype) -> bool:
    """Tell whether `dtype` holds complex floating-point numbers."""
    return dtype_name(dtype) in ("complex64", "complex128")


@lru_cache(maxsize=256, typed=True)
def compute_dtype(dtype: Dtype, xp: Namespace) -> Dtype:
    """Return the real dtype to compute in: float32 for half precision and complex64."""
    name = dtype_name(dtype)
    if name == "complex128":
        return xp.float64
    narrow = name == "complex64" or name.startswith(_NARROW_DTYPES)
    return xp.float32 if narrow else dtype


def known(condition: Any) -> bool:
    """Tell whether a 0-d boolean array is known to be True.

    False where its value is not there to be read: dask would have to compute it, and
    JAX and PyTorch have none while they trace or compile.
    """
    compiling = is_torch_array(condition) and _is_compiling(condition)
    if compiling or is_dask_array(condition) or _is_jax_tracer(condition):
        return False
    try:
        return bool(condition)
    except Exception:  # noqa: BLE001 - every library has exceptions of its own for this
        return False


def read_only(array: HostArray) -> HostArray:
    """Return a view of a host array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def random_generator(rng: Any) -> "np.random.Generator":
    """Return a NumPy generator from a seed, a generator or None."""
    what = "a non-negative integer seed or a numpy.random.Generator"
    seed = isinstance(rng, int | np.integer) and not isinstance(rng, bool)
    if not (rng is None or seed or isinstance(rng, np.random.Generator)):
        message = f"`rng` must be {what}, got {rng!r}."
        raise TypeError(message)
    if seed and rng < 0:
        message = f"`rng` must be {what}, got {rng}."
        raise ValueError(message)
    return np.random.default_rng(rng)
