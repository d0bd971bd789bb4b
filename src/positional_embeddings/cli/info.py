"""Tell which array libraries, devices, kernels and extras work here, and why others do not.

Each library that is installed is imported, and computes a sum on each of its devices.

For example:
  positional-embeddings info
  positional-embeddings info --json > info.json      for a report of a fault
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from positional_embeddings.arrays.namespace import np
from positional_embeddings.cli.libraries import (
    LIBRARIES,
    Library,
    find_library,
    installed_version,
    reason_of,
)
from positional_embeddings.cli.terminal import Answer, add_command, table
from positional_embeddings.rotary.kernels import cupy_kernel, dispatch

# The optional parts of the package, what each is for, and what it needs.
_EXTRAS = {
    "fast": ("faster rotation and attention of NumPy arrays", ("numba", "threadpoolctl")),
    "plot": ("pictures", ("matplotlib",)),
    "sklearn": ("estimators", ("scikit-learn",)),
    "xarray": ("encodings of labelled arrays", ("xarray",)),
}


def add_to(commands: Any) -> None:
    """Add the command to the commands of a parser."""
    summary = "tell which array libraries, devices and kernels work here"
    add_command(commands, "info", run, summary, __doc__)


def run(_: argparse.Namespace) -> Answer:
    """Tell what is installed, and what of it works."""
    package: Any = import_module("positional_embeddings")
    versions = {
        "positional-embeddings": f"{package.__version__} ({Path(package.__file__).parent})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "numpy": np.__version__,
        "array-api-compat": import_module("array_api_compat").__version__,
        "platform": f"{platform.platform()}, {os.cpu_count()} cores",
    }
    libraries = {name: find_library(name) for name in LIBRARIES}
    kernels = {"numba": _numba_kernel(), "cupy": _cupy_kernel(libraries["cupy"])}
    threads = {"numba": _or_reason(_numba_threads), "BLAS": _or_reason(_blas_threads)}
    extras = {
        name: {package: installed_version(package) for package in packages}
        for name, (_, packages) in _EXTRAS.items()
    }
    parts = {
        "versions": versions.items(),
        "array libraries": [row for library in libraries.values() for row in _rows_of(library)],
        "kernels that rotate": [
            ("numba", f"for arrays of NumPy: {_kernel_text(**kernels['numba'])}"),
            ("cupy", f"for arrays of CuPy: {_kernel_text(**kernels['cupy'])}"),
        ],
        "threads": threads.items(),
        "extras": [(name, _extra_text(name, packages)) for name, packages in extras.items()],
    }
    text = "\n\n".join(
        f"{title}\n{table([('', *row) for row in rows])}" for title, rows in parts.items()
    )
    data = {
        "versions": versions,
        "libraries": {
            name: {
                "version": library.version,
                "devices": {place.name: place.reason or "works" for place in library.places},
                "reason": library.reason,
            }
            for name, library in libraries.items()
        },
        "kernels": kernels,
        "threads": threads,
        "extras": extras,
    }
    return Answer(text, data)


def _rows_of(library: Library) -> Iterator[tuple[str, str]]:
    """Yield a row for each device of a library, or one with the reason why there is none."""
    if not library.places:
        works = "does not work: " if library.version else ""
        yield library.title, f"{works}{library.reason}"
    titles = [library.title, *[""] * len(library.places)]
    for title, place in zip(titles, library.places, strict=False):
        works = f"does not work: {place.reason}" if place.reason else "works"
        yield title, f"{place.name}: {works}"


def _numba_kernel() -> dict[str, Any]:
    """Return the dtypes that the kernel rotates, or the reason why there is none."""
    try:
        import_module("numba")
        dtypes = [
            dtype
            for dtype in ("float16", "float32", "float64")
            if dispatch.kernel_for(np.zeros((2, 2), dtype=dtype)) is not None
        ]
    except Exception as error:  # noqa: BLE001 - of a broken installation
        return {"dtypes": [], "reason": reason_of(error)}
    return {"dtypes": dtypes, "reason": "" if dtypes else "NUMBA_DISABLE_JIT is set"}


def _cupy_kernel(cupy: Library) -> dict[str, Any]:
    reasons = [cupy.reason, *(place.reason for place in cupy.places)]
    works = any(place.xp is not None for place in cupy.places)
    return {
        "dtypes": cupy_kernel.DTYPES if works else [],
        "reason": "" if works else " ".join(filter(None, reasons)),
    }


def _kernel_text(dtypes: list[str], reason: str) -> str:
    return f"found, for {', '.join(dtypes)}" if dtypes else f"not found, {reason}"


def _or_reason(describe: Callable[[], str]) -> str:
    try:
        return describe()
    except ImportError as error:
        return f"not known: {reason_of(error)}"


def _numba_threads() -> str:
    count = import_module("numba").config.NUMBA_NUM_THREADS
    return f"{count} for large arrays (NUMBA_NUM_THREADS)"


def _blas_threads() -> str:
    found = [
        f"{blas['num_threads']} of {blas['internal_api']} {blas['version']}"
        for blas in import_module("threadpoolctl").threadpool_info()
        if blas["user_api"] == "blas"
    ]
    return ", ".join(found) or "no library that threadpoolctl knows"


def _extra_text(name: str, versions: dict[str, str | None]) -> str:
    what = _EXTRAS[name][0]
    if None in versions.values():
        return f'{what}; not installed: pip install "positional-embeddings[{name}]"'
    found = (f"{package} {version}" for package, version in versions.items())
    return f"{what}; {', '.join(found)}"
