"""Find the backend of some arrays, or of the options `xp` and `device`."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

from array_api_compat import array_namespace, is_array_api_obj

from positional_embeddings.arrays import dtypes, errors
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.backends import cupy, dask, jax, mlx, ndonnx, numpy, torch
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.errors import format_value, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.namespace import (
    Array,
    Device,
    Dtype,
    Namespace,
    cached_lookup,
    is_compiling,
    np,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# By the top-level package of the type of an array.
_LIBRARIES: dict[str, type[Backend]] = {
    "numpy": numpy.NumPyBackend,
    "array_api_strict": numpy.StrictBackend,
    "cupy": cupy.CuPyBackend,
    "torch": torch.PyTorchBackend,
    "jax": jax.JAXBackend,
    "jaxlib": jax.JAXBackend,
    "dask": dask.DaskBackend,
    "mlx": mlx.MLXBackend,
    "ndonnx": ndonnx.NDONNXBackend,
}

_PLAIN = {np.ndarray}

# Unsupported libraries and types of arrays: the reason, and an expression for a plain array.
_UNFIT = {
    "blosc2": ("its parts, sums and products are arrays of other types", "{}[...]"),
    "sparse": ("encodings have few zeros, if any", "{}.todense()"),
    # Subclasses of NumPy arrays: `concat` drops the mask, and `*` is a matrix product.
    "MaskedArray": ("its mask would be ignored", "{}.filled(...) and a mask of its own"),
    "matrix": ("its product is another one", "numpy.asarray({})"),
}


def get_backend(**arrays: Array) -> Backend:
    """Return the backend of arrays, which are named for error messages.

    The first array determines the device and the dtype to compute in.
    """
    first = next(iter(arrays.values()))
    types = set(map(type, arrays.values()))
    if _PLAIN.issuperset(types):
        return _numpy_backend(first.dtype)
    pytorch = sys.modules.get("torch")
    if pytorch is not None and types == {pytorch.Tensor} and not is_compiling():
        return _pytorch_backend(first.device, first.dtype, pytorch.get_default_dtype())
    for name, array in arrays.items():
        _check_array(name, array, arrays)
    try:
        xp = _namespace(*arrays.values())
    except TypeError:
        *names, last = (f"`{name}`" for name in arrays)
        kinds = ", ".join(f"{type_name(array)} for `{name}`" for name, array in arrays.items())
        message = f"{', '.join(names)} and {last} must come from one array library, got {kinds}."
        if any(name.endswith(" of the cache") for name in arrays):
            message += (
                " Convert the arrays, or make the cache with their library, such as xp=torch."
            )
        raise TypeError(message) from None
    backend_class = _backend_class_of_type(first.__class__)
    return _backend(backend_class, xp, backend_class.device_for(first), first.dtype)


def backend_for(xp: Namespace | None = None, device: Device | None = None) -> Backend:
    """Return the backend of a library, NumPy if `xp` is None, with its default real dtype."""
    if xp is None or xp is np:
        if device is None:
            return _numpy_backend(np.dtype(np.float64))
        return _backend(numpy.NumPyBackend, np, device, None)
    try:
        empty = xp.empty(0)
        standard = _namespace(empty)
    except (AttributeError, TypeError):
        raise wrong_type(
            "xp", "be an array namespace such as numpy or cupy", format_value(xp)
        ) from None
    library = _library_name(empty)
    if library in _UNFIT:
        requirement = f"{library}: {_UNFIT[library][0]}"
        remedy = f" Leave it out, and pass the result to {library}.asarray."
        raise wrong_type("xp", "be a namespace of plain arrays", requirement, remedy)
    return _backend(_backend_class_of_namespace(standard), standard, device, None)


@cached_lookup
def _numpy_backend(dtype: Dtype) -> Backend:
    return _backend(numpy.NumPyBackend, np, "cpu", dtype)


@cached_lookup
@finished_before_forks
def _pytorch_backend(device: Device, dtype: Dtype, default_dtype: Dtype) -> Backend:  # noqa: ARG001
    """Return the backend of tensors; the default dtype of the library is one of its fields."""
    xp = import_module("array_api_compat.torch")
    return _backend(torch.PyTorchBackend, standard_namespace(xp), device, dtype)


def _backend(
    backend_class: type[Backend], xp: Namespace, device: Device, dtype: Dtype | None
) -> Backend:
    info = xp.__array_namespace_info__()
    try:
        defaults = info.default_dtypes(device=device)
    except (TypeError, ValueError):
        raise wrong_value("device", "be a device of the library", format_value(device)) from None
    is_float = dtype is not None and (
        dtypes.is_real_floating(dtype, xp) or dtypes.is_complex(dtype)
    )
    default_float = defaults["real floating"]
    has_float64 = "float64" in info.dtypes(device=device, kind="real floating")
    return backend_class(
        xp,
        device,
        dtype=dtypes.compute_dtype(dtype, xp) if is_float else default_float,
        int_dtype=defaults["integral"],
        widest_float_dtype=xp.float64 if has_float64 else xp.float32,
        default_float_dtype=default_float,
    )


def _check_array(name: str, array: Array, arrays: dict[str, Array]) -> None:
    """Check the type of an array; a remedy creates an array of the library of the `arrays`."""
    library = _library_name(array)
    names = (library, *(base.__name__ for base in type(array).__mro__))
    unfit = next((n for n in names if n in _UNFIT), None)
    if unfit is not None:
        reason, expression = _UNFIT[unfit]
        actual = f"{type_name(array)}: {reason}"
        raise wrong_type(name, "be a plain array", actual, f" Pass {expression.format(name)}.")
    if not is_array_api_obj(array):
        requirement = "be an array (NumPy, CuPy, PyTorch, JAX, dask, ...)"
        others = filter(is_array_api_obj, arrays.values())
        library = next((array_namespace(x).__name__ for x in others), "numpy")
        remedy = errors.remedy_for(name, array, library.removeprefix("array_api_compat."))
        raise wrong_type(name, requirement, type_name(array), remedy)


def _library_name(array: object) -> str:
    return type(array).__module__.partition(".")[0]


def _namespace(*arrays: Array) -> Namespace:
    for array in arrays:
        _import_wrapper(_library_name(array))
    return standard_namespace(array_namespace(*arrays))


@cached_constant
@finished_before_forks
def _import_wrapper(library: str) -> None:
    """Import the wrapper of a library in array_api_compat, if there is one."""
    with suppress(ModuleNotFoundError):
        import_module(f"array_api_compat.{'dask.array' if library == 'dask' else library}")


@cached_lookup
def standard_namespace(xp: Namespace) -> Namespace:
    """Return `xp`, or a wrapper of it that conforms to the standard."""
    return _backend_class_of_namespace(xp).namespace(xp)


def _backend_class_of_type(array_type: type[object]) -> type[Backend]:
    return _LIBRARIES.get(_known_library(array_type), Backend)


@cached_lookup
def _known_library(array_type: type[object]) -> str:
    """Return the library of a type of arrays or of a base class, "" if it has no backend."""
    names = [base.__module__.partition(".")[0] for base in array_type.__mro__]
    return next((name for name in names if name in _LIBRARIES), "")


def _backend_class_of_namespace(xp: Namespace) -> type[Backend]:
    """Return the backend class of a namespace, or of its wrapper in array_api_compat."""
    name = getattr(xp, "__name__", "").removeprefix("array_api_compat.")
    return _LIBRARIES.get(name.partition(".")[0], Backend)


def compute_on_device(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function with the options `xp` and `device` compute on that device."""

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        device, xp = options.get("device"), options.get("xp")
        if device is None:
            return function(*args, **options)
        with _backend_class_of_namespace(xp).current_device(device, xp):
            return function(*args, **options)

    return call
