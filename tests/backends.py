"""Backends of the tests: array libraries on a device, whose arrays tests create and read."""

import importlib.util
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import array_api_compat
import numpy as np

from positional_embeddings.arrays.dispatch import get_backend

# Names of backends in tests, and their packages.
NAMES = {
    "numpy": "numpy",
    "strict": "array_api_strict",
    "strict-device1": "array_api_strict",
    "strict-device2": "array_api_strict",
    "strict-no_float64": "array_api_strict",
    "strict-no_x64": "array_api_strict",
    "torch": "torch",
    "jax": "jax",
    "jax-x64": "jax",
    "jax-jit": "jax",
    "jax-jit-x64": "jax",
    "dask": "dask",
    "ndonnx": "ndonnx",
    "mlx": "mlx",
    "cupy": "cupy",
}
# Modules of array functions, if their name is not the name of the package.
MODULES = {"dask": "dask.array", "mlx": "mlx.core"}
# Run only with `--backend`: libraries with bugs, slow libraries, and variants that differ little.
ON_DEMAND = ("ndonnx", "mlx", "strict-device2", "jax-x64", "jax-jit")
# Libraries whose arrays raise an error with a remedy.
UNFIT = ("blosc2", "sparse")
# Public names that a backend cannot compute, and the error message.
ERRORS = {
    ("graph_laplacian_encoding", name): r"a library with `linalg\.eigh`, got"
    for name in ("dask", "ndonnx")
}

# With float64, but exponentials, sines and cosines in float32.
_SINGLE = ("ndonnx", "mlx")

# Without `reads_values` in their class in `arrays/backends`.
_NOT_READ = ("ndonnx", "mlx")


def missing(name: str) -> str | None:
    """Return the reason why a backend cannot run on this machine, None if it can."""
    package = NAMES[name]
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed"
    if package == "cupy":
        import cupy

        try:
            # CuPy imports without a GPU, and allocates without the libraries of its compiler.
            float((cupy.arange(1) + 1).sum())
        except Exception as error:  # noqa: BLE001 - any error of the driver or the compiler
            return f"CuPy cannot compute here: {error}"
    return None


@dataclass(frozen=True)
class Backend:
    """One array library on one device."""

    name: str
    xp: Any
    device: Any

    @property
    def lazy(self) -> bool:
        """Whether functions are compiled by JAX, or must not compute on dask, in this test."""
        return self.name == "dask" or "jit" in self.name

    @property
    def reads_values(self) -> bool:
        """Whether invalid values raise errors; otherwise their results are NaN, or masked."""
        return not self.lazy and self.name not in _NOT_READ

    def reads_indices(self, indices: Any) -> bool:
        """Return whether invalid indices raise errors, which needs indices in host memory."""
        return self.reads_values and get_backend(indices=indices).is_on_host(indices)

    @property
    def floats(self) -> list[str]:
        info = self.xp.__array_namespace_info__()
        names = info.dtypes(device=self.device, kind="real floating")  # all kinds in ndonnx
        floats = sorted(name for name in names if name.startswith("float"))
        return floats[:1] if self.name in _SINGLE else floats

    @property
    def wide(self) -> str:
        return self.floats[-1]

    @property
    def has_float64(self) -> bool:
        info = self.xp.__array_namespace_info__()
        return "float64" in info.dtypes(device=self.device, kind="real floating")

    @property
    def has_int64(self) -> bool:
        info = self.xp.__array_namespace_info__()
        return "int64" in info.dtypes(device=self.device, kind="integral")

    @property
    def half_dtypes(self) -> list[Any]:
        names = ("float16", "bfloat16")
        return [getattr(self.xp, name) for name in names if hasattr(self.xp, name)]

    @property
    def sine_error(self) -> float:
        """Additional tolerance of float64 sines: 2 units in the last place on a GPU."""
        return 2.0**-52 if self.name == "cupy" else 0.0

    def lacks(self, ability: str) -> str | None:
        """Return the reason why the backend lacks an ability, None if it has the ability."""
        return _cupy_lacks(ability) if self.name == "cupy" else None

    def tolerance(self, dtype: str | None = None) -> float:
        if self.name in _SINGLE:
            return 2e-6
        return 1e-12 if (dtype or self.wide) == "float64" else 2e-6

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Return an array; float64 becomes float32 if the device has no float64."""
        host = np.asarray(values)
        if dtype is None:
            dtype = host.dtype.name
        if isinstance(dtype, str):
            dtype = self.wide if dtype == "float64" else dtype
            dtype = "int32" if dtype == "int64" and not self.has_int64 else dtype
            host = host.astype(dtype)
            dtype = getattr(self.xp, dtype)
        if self.name == "dask":
            import dask.array

            chunks = tuple(max(1, (n + 1) // 2) for n in host.shape)
            return dask.array.from_array(host.astype(dtype), chunks=chunks)
        return self.xp.asarray(host, dtype=dtype, device=self.device)

    def numpy(self, array: Any) -> np.ndarray:
        """Return an array as a NumPy array, after checking that it belongs to this backend."""
        assert get_backend(array=array).xp is self.xp
        if self.name.startswith("strict"):
            assert array.device == self.device
            array = array_api_compat.to_device(array, self.xp.Device("CPU_DEVICE"))
        elif self.name == "torch":
            array = array.detach()
            array = array.float() if array.dtype == self.xp.bfloat16 else array
        elif self.name == "cupy":
            array = array.get()
        elif self.name == "ndonnx":
            array = array.unwrap_numpy()
        elif self.name == "mlx" and array.dtype == self.xp.bfloat16:
            array = array.astype(self.xp.float32)
        return np.asarray(array)


def _captures(cupy: Any) -> bool:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        stream.end_capture()
    return True


# Parts of CuPy that need further libraries, any of which may be missing.
_TRIALS: dict[str, Callable[[Any], bool]] = {
    "eigh": lambda cupy: cupy.linalg.eigh(cupy.eye(1))[0].tolist() == [1],
    "graphs": _captures,
    "searchsorted": lambda cupy: (
        cupy.searchsorted(cupy.asarray([1]), cupy.asarray([2, 0, 2])).tolist() == [1, 0, 1]
    ),
    "sort": lambda cupy: cupy.sort(cupy.asarray([2, 1])).tolist() == [1, 2],
}


@cache
def _cupy_lacks(ability: str) -> str | None:
    import cupy

    try:
        works = _TRIALS[ability](cupy)
    except Exception as error:  # noqa: BLE001 - the type depends on the library
        return f"CuPy has no {ability} here: {error}"
    return None if works else f"CuPy's {ability} gives wrong results here"


@contextmanager
def opened(name: str) -> Iterator[Backend]:
    """Open a backend for a test; JAX's 64-bit numbers are a setting of the process."""
    setting: Any = nullcontext()
    if name.startswith("strict"):
        import array_api_strict as xp

        device = xp.Device(name.partition("-")[2] or "CPU_DEVICE")
        if name == "strict-no_x64":
            setting = _indices_of_32_bits(xp, device)
    elif name.startswith("jax"):
        import jax
        import jax.numpy as xp

        device = jax.devices("cpu")[0]
        setting = jax.enable_x64(name.endswith("x64"))
    else:
        library = importlib.import_module(MODULES.get(name, name))
        if name == "dask":
            # array-api-extra forbids computing by a setting of the process, so that tasks must
            # not run in several threads.
            setting = importlib.import_module("dask").config.set(
                scheduler="synchronous", num_workers=1
            )
        array_backend = get_backend(array=library.empty(1))
        xp, device = array_backend.xp, array_backend.device
    with setting:
        yield Backend(name, xp, device)


@contextmanager
def _indices_of_32_bits(xp: Any, device: Any) -> Iterator[None]:
    """Correct functions that return int64 indices on a device of array-api-strict without int64.

    The standard requires the default index dtype of the device.
    """
    with ExitStack() as stack:
        for name in ("argsort", "searchsorted"):
            corrected = partial(_on_cpu, getattr(xp, name), xp, device)
            stack.enter_context(patch.object(xp, name, corrected))
        yield


def _on_cpu(function: Any, xp: Any, device: Any, *arrays: Any, **options: Any) -> Any:
    assert {array.device for array in arrays} == {device}
    indices = function(*(a.to_device(xp.Device("CPU_DEVICE")) for a in arrays), **options)
    return xp.astype(indices, xp.int32).to_device(device)


def peak_memory(call: Callable[[], Any]) -> int:
    """Return the peak number of bytes allocated by Python and NumPy during a call."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return peak - before
