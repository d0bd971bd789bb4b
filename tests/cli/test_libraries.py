"""Which libraries and devices are found, by stand-ins for those that a machine may lack."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from positional_embeddings.cli import libraries


@pytest.fixture
def make(monkeypatch, tmp_path):
    """Make a library of some source that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)
        found = libraries.find_library(name)
        sys.modules.pop(name, None)
        return found

    return write


def test_numpy_is_there():
    found = libraries.find_library("numpy")
    assert (found.name, found.version) == ("numpy", np.__version__)
    (place,) = found.places
    assert (place.name, place.reason, place.xp) == ("cpu", "", np)


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(libraries, "find_spec", lambda _: None)
    found = libraries.find_library("dask")
    place = libraries.Place("", reason='not installed: pip install "dask[array]"')
    assert found == libraries.Library("dask", None, (place,))


def test_a_library_that_cannot_be_imported(make):
    found = make("cubed", "__version__ = '9'\nraise RuntimeError('no such\\nfile: ' + 300 * 'x')")
    reason = f"RuntimeError: no such file: {'x' * 300}"[:200] + "..."
    assert found.places == (libraries.Place("", reason=reason),)
    longest = f"OSError: {191 * 'x'}"
    assert libraries.reason_of(OSError(191 * "x")) == longest
    assert libraries.reason_of(OSError(192 * "x")) == f"{longest}..."
    (place,) = make("ndonnx", "import nothing_of_this_name").places
    assert place.reason == "ModuleNotFoundError: No module named 'nothing_of_this_name'"


def test_a_version_that_nobody_tells(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_library", ModuleType("a_library"))
    assert libraries._version("a_library") == "of an unknown version"
    assert libraries._version("pytest") == pytest.__version__
    monkeypatch.delattr(pytest, "__version__")
    assert libraries._version("pytest") == libraries.installed_version("pytest")


def test_a_library_without_arrays(make):
    (place,) = make("ndonnx", "def empty(n): return 5").places
    assert (place.name, place.xp) == ("cpu", None)
    assert place.reason.startswith("TypeError: `xp` must be an array namespace")


def test_a_gpu_without_a_driver(make):
    source = """
__version__ = "14.2"
class cuda:
    class runtime:
        def getDeviceCount():
            raise OSError("cudaErrorInsufficientDriver")
"""
    found = make("cupy", source)
    reason = "OSError: cudaErrorInsufficientDriver"
    assert (found.version, found.places) == ("14.2", (libraries.Place("", reason=reason),))


def test_a_machine_without_a_gpu(make):
    source = """
__version__ = "14.2"
class cuda:
    class runtime:
        def getDeviceCount():
            return 0
"""
    assert make("cupy", source).places == (libraries.Place("", reason="it has no device"),)


def test_the_gpus_of_cupy():
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 2, getDeviceProperties=lambda i: {"name": f"GPU {i}".encode()}
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=lambda i: ("device", i)))
    assert list(libraries._devices("cupy", cupy)) == [
        ("cuda:0 GPU 0", ("device", 0)),
        ("cuda:1 GPU 1", ("device", 1)),
    ]


@pytest.mark.parametrize("has_mps", [False, True])
def test_the_devices_of_pytorch(has_mps):
    torch = SimpleNamespace(
        device=lambda *names: names,
        cuda=SimpleNamespace(device_count=lambda: 1, get_device_name=lambda i: f"GPU {i}"),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: has_mps)),
    )
    expected = [("cpu", ("cpu",)), ("cuda:0 GPU 0", ("cuda", 0)), ("mps", ("mps",))]
    assert list(libraries._devices("torch", torch)) == expected[: 2 + has_mps]


def test_the_devices_of_jax(monkeypatch):
    device = SimpleNamespace(platform="gpu", id=1, device_kind="H200")
    jax = ModuleType("jax")
    jax.devices = lambda: [device]
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert list(libraries._devices("jax", None)) == [("gpu:1 H200", device)]


def test_the_device_of_mlx():
    mlx = SimpleNamespace(default_device=lambda: "Device(gpu, 0)")
    assert list(libraries._devices("mlx", mlx)) == [("Device(gpu, 0)", None)]


def test_a_device_that_computes_wrong(monkeypatch):
    monkeypatch.setattr(libraries, "_sum", lambda **_: (np, 4.0))
    (place,) = libraries.find_library("numpy").places
    assert (place.xp, place.reason) == (None, "0 + 1 + 2 is 4 there")
