"""The array library of an array or of a namespace."""

from functools import lru_cache
from typing import Any

import numpy  # noqa: ICN001, TID251 - its type alone

from positional_embeddings.arrays.libraries.base import Library
from positional_embeddings.arrays.libraries.cubed import Cubed
from positional_embeddings.arrays.libraries.cupy import CuPy
from positional_embeddings.arrays.libraries.dask import Dask
from positional_embeddings.arrays.libraries.jax import JAX
from positional_embeddings.arrays.libraries.mlx import MLX
from positional_embeddings.arrays.libraries.ndonnx import NDONNX
from positional_embeddings.arrays.libraries.numpy import NumPy, Strict
from positional_embeddings.arrays.libraries.torch import PyTorch

# By the first part of the names of their modules.
_LIBRARIES: dict[str, Library] = {
    "numpy": NumPy(),
    "array_api_strict": Strict(),
    "cupy": CuPy(),
    "torch": PyTorch(),
    "jax": JAX(),
    "jaxlib": JAX(),
    "dask": Dask(),
    "cubed": Cubed(),
    "mlx": MLX(),
    "ndonnx": NDONNX(),
}
_NUMPY, _UNKNOWN = _LIBRARIES["numpy"], Library()


def library_of(array: Any) -> Library:
    """Return the library of an array, also of a subclass of its arrays."""
    array_type: Any = type(array)
    # PyTorch compiles no loop over the bases of NumPy's arrays.
    return _NUMPY if array_type is numpy.ndarray else _library_of_type(array_type)


@lru_cache(maxsize=256)
def _library_of_type(array_type: Any) -> Library:
    names = [base.__module__.partition(".")[0] for base in array_type.__mro__]
    known = [_LIBRARIES[name] for name in names if name in _LIBRARIES]
    return known[0] if known else _UNKNOWN


def library_of_namespace(xp: Any) -> Library:
    """Return the library of a namespace, or of its wrapper in array_api_compat."""
    name = getattr(xp, "__name__", "").removeprefix("array_api_compat.")
    return _LIBRARIES.get(name.partition(".")[0], _UNKNOWN)
