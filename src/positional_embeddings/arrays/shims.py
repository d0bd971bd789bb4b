"""Old names, while the rooms move to `Space`."""

from typing import Any

from positional_embeddings.arrays import space as _space
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import (
    check_real_dtype,
    dtype_name,
    is_real_floating,
    np,
)

namespace_or_numpy = _space.namespace_or_numpy
adapted = _space.adapted


def namespace_of(**arrays: Any) -> Any:
    return _space.space_of(**arrays).xp


def library_of(array: Any) -> Any:
    if type(array) is np.ndarray:
        return _space._numpy_space(np.float64)
    library = _space._library_of_type(type(array))
    return _space._space(library, _space._namespace(array), library.device_for(array), None)


def library_of_namespace(xp: Any) -> Any:
    return _space.new_space(xp)


def device_of(array: Any) -> Any:
    return _space._library_of_type(type(array)).device_for(array)


def is_host_array(x: Any) -> bool:
    return type(x) is np.ndarray


def widest_float(xp: Any, on: Any) -> Any:
    floats = xp.__array_namespace_info__().dtypes(device=on, kind="real floating")
    return xp.float64 if "float64" in floats else xp.float32


def default_float(xp: Any, on: Any) -> Any:
    return xp.__array_namespace_info__().default_dtypes(device=on)["real floating"]


def default_integer(xp: Any, on: Any) -> Any:
    return xp.__array_namespace_info__().default_dtypes(device=on)["integral"]


def float_dtype(dtype: Any, default: Any, xp: Any, on: Any) -> Any:
    if dtype is None:
        return default
    check_real_dtype(dtype, "a real floating-point dtype", xp)
    if dtype_name(dtype) == "float64" and widest_float(xp, on) != xp.float64:
        raise wrong_value("dtype", "be a dtype that the device has", "float64")
    return dtype


def feature_dtype(x: Any, dtype: Any, xp: Any) -> Any:
    on = device_of(x)
    default = x.dtype if is_real_floating(x.dtype, xp) else default_float(xp, on)
    return float_dtype(dtype, default, xp, on)


def to_host(array: Any, xp: Any) -> Any:
    return library_of(array).to_numpy(array)


def is_concretely_true(condition: Any) -> bool:
    return library_of(condition).is_true(condition)


def values_on_host(array: Any, xp: Any) -> Any:
    return library_of(array).values_on_host(array)
