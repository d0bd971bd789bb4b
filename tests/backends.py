"""The array libraries that the tests run on, and how a test makes and reads their arrays."""

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

# Name of the test's backend, and the package that it needs.
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
# Modules with the functions of a library, if they are not those of its name.
MODULES = {"dask": "dask.array", "mlx": "mlx.core"}
# Run only where they are asked for: libraries with faults of their own, or that take long, and
# variants that differ little from others.
ON_DEMAND = ("ndonnx", "mlx", "strict-device2", "jax-x64", "jax-jit")
# Libraries whose arrays are refused, by an error that tells the remedy.
UNFIT = ("blosc2", "sparse")
# Public names that a backend cannot compute, and the error that says so.
ERRORS = {
    ("graph_laplacian_encoding", name): r"a library with `linalg\.eigh`, got"
    for name in ("dask", "ndonnx")
}

# They have float64, and compute its exponential, sines and cosines in float32.
_SINGLE = ("ndonnx", "mlx")

# Their values are not read: they compute later, or have no class in `arrays/backends`.
_NOT_READ = ("ndonnx", "mlx")


def missing(name: str) -> str | None:
    """Tell why a backend cannot run here, or None where it can."""
    package = NAMES[name]
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed"
    if package == "cupy":
        import cupy

        try:
            # It imports without a GPU, and allocates without what kernels are compiled by.
            float((cupy.arange(1) + 1).sum())
        except Exception as error:  # noqa: BLE001 - whatever the driver or the compiler says
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
        """Whether the library's functions are jitted, or may not compute, in this test."""
        return self.name == "dask" or "jit" in self.name

    @property
    def reads_values(self) -> bool:
        """Whether a wrong value is found: elsewhere its result is NaN, or left out."""
        return not self.lazy and self.name not in _NOT_READ

    def reads_indices(self, indices: Any) -> bool:
        """Whether a wrong index is found: a device is not waited for."""
        return self.reads_values and get_backend(indices=indices).is_on_host(indices)

    @property
    def floats(self) -> list[str]:
        info = self.xp.__array_namespace_info__()
        names = info.dtypes(device=self.device, kind="real floating")  # ndonnx tells all kinds
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
        """By how much a float64 sine may err more than a CPU's: 2 units in the last place."""
        return 2.0**-52 if self.name == "cupy" else 0.0

    def lacks(self, ability: str) -> str | None:
        """Tell why the backend cannot do a thing here, or None: it is found out by doing it."""
        return _cupy_lacks(ability) if self.name == "cupy" else None

    def tolerance(self, dtype: str | None = None) -> float:
        if self.name in _SINGLE:
            return 2e-6
        return 1e-12 if (dtype or self.wide) == "float64" else 2e-6

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Make an array; float64 becomes float32 where the device has no float64."""
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
        """Return an array's numbers on the host, and check that it is of this backend."""
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


# Parts of CuPy that stand on libraries of their own, of which any may be missing.
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
    except Exception as error:  # noqa: BLE001 - each library fails in its own way
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
            # Tasks call functions of this library, which forbid to compute by a setting of
            # the process: not in several threads, also where array-api-extra asks for threads.
            setting = importlib.import_module("dask").config.set(
                scheduler="synchronous", num_workers=1
            )
        array_backend = get_backend(array=library.empty(1))
        xp, device = array_backend.xp, array_backend.device
    with setting:
        yield Backend(name, xp, device)


@contextmanager
def _indices_of_32_bits(xp: Any, device: Any) -> Iterator[None]:
    """Mend functions that return int64 indices on a device of array-api-strict without int64.

    The standard has them return the default index dtype of the device.
    """
    with ExitStack() as stack:
        for name in ("argsort", "searchsorted"):
            mended = partial(_through_the_cpu, getattr(xp, name), xp, device)
            stack.enter_context(patch.object(xp, name, mended))
        yield


def _through_the_cpu(function: Any, xp: Any, device: Any, *arrays: Any, **options: Any) -> Any:
    assert {array.device for array in arrays} == {device}
    indices = function(*(a.to_device(xp.Device("CPU_DEVICE")) for a in arrays), **options)
    return xp.astype(indices, xp.int32).to_device(device)


def peak_memory(call: Callable[[], Any]) -> int:
    """Return the largest number of bytes that Python and NumPy held during a call."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return peak - before
