"""Which array libraries are installed, which of their devices compute, and why others do not."""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from positional_embeddings.arrays.find import new_space, on_given_device
from positional_embeddings.arrays.namespace import Device, Namespace

# Characters of an error of another library.
_LONGEST_REASON = 200

LIBRARIES = ("numpy", "cupy", "torch", "jax", "dask", "cubed", "ndonnx", "mlx", "array_api_strict")
# The module that has the functions, and what pip installs, where it is not the name.
_MODULES = {"jax": "jax.numpy", "dask": "dask.array", "mlx": "mlx.core"}
_PACKAGES = {"cupy": '"positional-embeddings[cupy]"', "dask": '"dask[array]"'}


class Place(NamedTuple):
    """A device of a library, or the reason why it does not compute."""

    name: str  # empty if the library has no device
    device: Device = None
    xp: Namespace | None = None
    reason: str = ""


class Library(NamedTuple):
    """An array library and its devices."""

    name: str
    version: str | None  # None if it is not installed
    places: tuple[Place, ...]

    @property
    def title(self) -> str:
        """Return the name and the version."""
        return f"{self.name} {self.version}" if self.version else self.name


def find_library(name: str) -> Library:
    """Import a library, and try its devices."""
    if find_spec(name) is None:
        reason = f"not installed: pip install {_PACKAGES.get(name, name.replace('_', '-'))}"
        return Library(name, None, (Place("", reason=reason),))
    with warnings.catch_warnings(action="ignore"):
        try:
            module = import_module(_MODULES.get(name, name))
            places = tuple(_tried(*device, module) for device in _devices(name, module))
            reason = "it has no device"
        except Exception as error:  # noqa: BLE001 - a broken library raises anything
            places, reason = (), reason_of(error)
    return Library(name, _version(name), places or (Place("", reason=reason),))


def _devices(name: str, module: ModuleType) -> Iterator[tuple[str, Device]]:
    """Yield the names of the devices of a library, and the devices; None is its own."""
    if name == "cupy":
        runtime = module.cuda.runtime
        for index in range(runtime.getDeviceCount()):
            model = runtime.getDeviceProperties(index)["name"].decode()
            yield f"cuda:{index} {model}", module.cuda.Device(index)
    elif name == "torch":
        yield "cpu", module.device("cpu")
        for index in range(module.cuda.device_count()):
            model = module.cuda.get_device_name(index)
            yield f"cuda:{index} {model}", module.device("cuda", index)
        if module.backends.mps.is_available():
            yield "mps", module.device("mps")
    elif name == "jax":
        for device in import_module("jax").devices():
            yield f"{device.platform}:{device.id} {device.device_kind}", device
    else:
        yield str(module.default_device()) if name == "mlx" else "cpu", None


def _version(name: str) -> str:
    """Return the version of a package, which CuPy has under other names."""
    version = getattr(sys.modules.get(name), "__version__", None)
    return version or installed_version(name) or "of an unknown version"


def _tried(name: str, device: Device, module: ModuleType) -> Place:
    """Compute something on a device."""
    try:
        xp, total = _sum(xp=module, device=device)
    except Exception as error:  # noqa: BLE001 - a driver or a compiler raises anything
        return Place(name, reason=reason_of(error))
    if total != 3:
        return Place(name, reason=f"0 + 1 + 2 is {total:g} there")
    return Place(name, device, xp)


@on_given_device
def _sum(*, xp: Namespace, device: Device) -> tuple[Namespace, float]:
    """Return the namespace that keeps the standard, and 0 + 1 + 2."""
    space = new_space(xp, device)
    xp = space.xp
    return xp, float(space.to_numpy(xp.sum(xp.arange(3, dtype=xp.float32, device=device))))


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def reason_of(error: BaseException) -> str:
    """Return an error of another library as one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
