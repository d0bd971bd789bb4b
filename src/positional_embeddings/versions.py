"""Versions, array libraries with their devices, and kernels, for bug reports."""

import sys
from importlib.util import find_spec
from types import ModuleType
from warnings import catch_warnings

from positional_embeddings.arrays.dispatch import backend_for
from positional_embeddings.arrays.namespace import np
from positional_embeddings.rotary.rotate import numpy_kernel

_ARRAY_LIBRARIES = "numpy", "cupy", "torch", "jax.numpy", "dask.array", "mlx.core"
_PACKAGES = "array-api-compat", "numba", "threadpoolctl", "matplotlib", "scikit-learn", "xarray"


def show_versions() -> None:
    """Print the versions of this library and its dependencies, devices and kernels.

    ``python -m positional_embeddings`` prints the same. The function imports all installed array
    libraries, to list their devices.

    Examples
    --------
    >>> show_versions()  # doctest: +ELLIPSIS
    positional-embeddings ...
    """
    import platform  # noqa: PLC0415 - takes long to import
    from importlib import import_module, metadata  # noqa: PLC0415

    import positional_embeddings  # noqa: PLC0415 - imports this module

    path = positional_embeddings.__path__[0]
    rows = {
        "positional-embeddings": f"{positional_embeddings.__version__} ({path})",
        "python": f"{platform.python_version()}, {platform.platform()}",
    }
    installed = {package.name.lower(): package.version for package in metadata.distributions()}
    rows |= {name: installed.get(name, "not installed") for name in _PACKAGES}
    for name in _ARRAY_LIBRARIES:
        library = name.partition(".")[0]
        try:
            module = import_module(name) if find_spec(library) else None
            rows[library] = _devices(module) if module else "not installed"
        except Exception as error:  # noqa: BLE001 - a driver or a compiler may be missing
            rows[library] = f"does not work: {type(error).__name__}: {error}"
    dtypes = [name for name in ("float16", "float32", "float64") if numpy_kernel(np.dtype(name))]
    rows["kernel of numba"] = ", ".join(dtypes) or "none"
    for title, text in rows.items():
        print(f"{title:<22} {text}")  # noqa: T201


def _devices(library: ModuleType) -> str:
    """Return the version and the devices of an array library."""
    package = sys.modules[library.__name__.partition(".")[0]]
    version = getattr(library, "__version__", None) or package.__version__
    with catch_warnings(action="ignore"):  # PyTorch warns about deprecated devices
        devices = backend_for(library).xp.__array_namespace_info__().devices()
    return f"{version} on {', '.join(map(str, filter(None, devices)))}"
