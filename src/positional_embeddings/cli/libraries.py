"""Which array libraries are installed, which of their devices compute, and why others do not."""

import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, NamedTuple

from positional_embeddings._core.capabilities import current_device
from positional_embeddings._core.namespace import Namespace, namespace_or_numpy, to_host
from positional_embeddings.cli.terminal import CommandError

# Characters of an error of another library.
_LONGEST_REASON = 200


class Place(NamedTuple):
    """A device of a library, or the reason why it does not compute."""

    name: str
    device: Any = None
    xp: Namespace | None = None
    reason: str = ""


class Library(NamedTuple):
    """An array library, and what it has here."""

    name: str
    version: str | None  # None if it is not installed
    places: tuple[Place, ...] = ()
    reason: str = ""


class _Entry(NamedTuple):
    name: str  # that of its package
    install: str  # what pip installs
    module: str  # that has its functions
    devices: Callable[[Any], Iterator[tuple[str, Any]]]  # names and devices; None is its own


def _of_the_host(_: Any) -> Iterator[tuple[str, Any]]:
    yield "cpu", None


def _of_mlx(mlx: Any) -> Iterator[tuple[str, Any]]:
    yield str(mlx.default_device()), None


def _of_cupy(cupy: Any) -> Iterator[tuple[str, Any]]:
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        name = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        yield f"cuda:{index} {name}", cupy.cuda.Device(index)


def _of_torch(torch: Any) -> Iterator[tuple[str, Any]]:
    yield "cpu", torch.device("cpu")
    for index in range(torch.cuda.device_count()):
        yield f"cuda:{index} {torch.cuda.get_device_name(index)}", torch.device("cuda", index)
    if torch.backends.mps.is_available():
        yield "mps", torch.device("mps")


def _of_jax(_: Any) -> Iterator[tuple[str, Any]]:
    for device in import_module("jax").devices():
        yield f"{device.platform}:{device.id} {device.device_kind}", device


_ENTRIES = (
    _Entry("numpy", "numpy", "numpy", _of_the_host),
    _Entry("cupy", '"positional-embeddings[cupy]"', "cupy", _of_cupy),
    _Entry("torch", "torch", "torch", _of_torch),
    _Entry("jax", "jax", "jax.numpy", _of_jax),
    _Entry("dask", '"dask[array]"', "dask.array", _of_the_host),
    _Entry("cubed", "cubed", "cubed", _of_the_host),
    _Entry("ndonnx", "ndonnx", "ndonnx", _of_the_host),
    _Entry("mlx", "mlx", "mlx.core", _of_mlx),
    _Entry("array_api_strict", "array-api-strict", "array_api_strict", _of_the_host),
)


def libraries(names: Collection[str] | None = None) -> Iterator[Library]:
    """Yield the libraries of some names, or all that are known, with what they have.

    Those that are installed are imported.
    """
    known = {entry.name: entry for entry in _ENTRIES}
    for name in names or ():
        if name not in known:
            raise CommandError(f"--library must be one of {', '.join(known)}, got {name!r}")
    for entry in _ENTRIES if names is None else [known[name] for name in names]:
        if find_spec(entry.name) is None:
            yield Library(entry.name, None, reason=f"not installed: pip install {entry.install}")
            continue
        with quiet():
            try:
                module = import_module(entry.module)
                version = _version(entry.name)
                places = tuple(
                    _tried(name, device, module) for name, device in entry.devices(module)
                )
            except Exception as error:  # noqa: BLE001 - a broken library raises anything
                yield Library(entry.name, _version(entry.name), reason=reason_of(error))
                continue
        reason = "" if places else "it has no device"
        yield Library(entry.name, version, places, reason)


@contextmanager
def quiet() -> Iterator[None]:
    """Return a context in which other libraries do not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _version(name: str) -> str:
    """Return the version of a package, which CuPy has under other names."""
    version = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(version, str):
        return version
    return installed_version(name) or "of an unknown version"


def _tried(name: str, device: Any, module: Any) -> Place:
    """Compute something on a device."""
    try:
        xp = namespace_or_numpy(module)
        with current_device(xp, device):
            three = xp.sum(xp.arange(3, dtype=xp.float32, device=device))
            found = float(to_host(three, xp))
    except Exception as error:  # noqa: BLE001 - a driver or a compiler raises anything
        return Place(name, reason=reason_of(error))
    if found != 3:
        return Place(name, reason=f"0 + 1 + 2 is {found:g} there")
    return Place(name, device, xp)


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
