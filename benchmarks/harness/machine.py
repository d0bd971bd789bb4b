"""What figures depend on: the machine, limits of threads, and the versions of libraries."""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PACKAGES = (
    "positional-embeddings",
    "numpy",
    "numba",
    "torch",
    "onnxruntime",
    "onnx",
    "jax",
    "jaxlib",
    "dask",
    "rotary-embedding-torch",
    "transformers",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "scikit-learn",
)
# Read when a library is loaded, not later.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def description() -> dict[str, Any]:
    """Return date, processor, memory, system and versions."""
    installed = {package.name: package.version for package in distributions()}
    pages = getattr(os, "sysconf_names", {}).get("SC_PHYS_PAGES")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if pages else 0
    return {
        "date": f"{datetime.now(tz=UTC):%Y-%m-%d}",
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gb": round(memory / 1e9, 1),
        "system": _system(),
        "architecture": platform.machine(),
        "gpu": _gpu(),
        "python": sys.version.split()[0],
        "versions": {name: installed[name] for name in PACKAGES if name in installed},
    }


def one_line(machine: dict[str, Any], *packages: str) -> str:
    """Return a description as a sentence, with the versions of all packages or of these."""
    versions = machine["versions"]
    named = ", ".join(f"{name} {versions[name]}" for name in packages or versions)
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
        f"{machine['system']} {machine['architecture']}, Python {machine['python']}, "
        f"{named}, {machine['date']}."
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let processes that start in here use so many threads, on as many cores.

    A process is bound to cores if the system can: some libraries heed nothing else.
    """
    wanted = dict.fromkeys(THREAD_VARIABLES, str(threads))
    if threads == 1:
        wanted["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    before = {name: os.environ.get(name) for name in wanted}
    bound = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    os.environ.update(wanted)
    if bound is not None:
        # The last ones: the first one often serves the system's interrupts.
        os.sched_setaffinity(0, sorted(bound)[-threads:])
    try:
        yield
    finally:
        if bound is not None:
            os.sched_setaffinity(0, bound)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _gpu() -> str | None:
    """Return the name of the GPU that CuPy or PyTorch sees."""
    # No library, no driver, no device: each says so by an error of its own.
    with suppress(Exception):
        return str(import_module("cupy").cuda.runtime.getDeviceProperties(0)["name"].decode())
    with suppress(Exception):
        return str(import_module("torch").cuda.get_device_name(0))
    return None
