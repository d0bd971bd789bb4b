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
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import array_api_compat

import positional_embeddings as pe
from positional_embeddings.arrays.namespace import np
from positional_embeddings.cli import libraries
from positional_embeddings.cli.terminal import Answer, Parser, table
from positional_embeddings.rotary import rotate
from positional_embeddings.rotary.kernels import cupy_kernel

# The optional parts of the package, what each is for, and what it needs.
_EXTRAS = {
    "fast": ("faster rotation and attention of NumPy arrays", ("numba", "threadpoolctl")),
    "plot": ("pictures", ("matplotlib",)),
    "sklearn": ("estimators", ("scikit-learn",)),
    "xarray": ("encodings of labelled arrays", ("xarray",)),
}


SUMMARY = "tell which array libraries, devices and kernels work here"


def add_arguments(_: Parser) -> None:
    """Add no arguments to the parser of the command."""


def run(_: argparse.Namespace) -> Answer:
    """Tell what is installed, and what of it works."""
    versions = {
        "positional-embeddings": f"{pe.__version__} ({Path(pe.__file__).parent})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "numpy": np.__version__,
        "array-api-compat": array_api_compat.__version__,
        "platform": f"{platform.platform()}, {os.cpu_count()} cores",
    }
    libraries_here = {name: libraries.find_library(name) for name in libraries.LIBRARIES}
    kernels = {"numba": _numba_kernel(), "cupy": _cupy_kernel(libraries_here["cupy"])}
    threads = {"numba": _or_reason(_numba_threads), "BLAS": _or_reason(_blas_threads)}
    extras = {
        name: {package: libraries.installed_version(package) for package in packages}
        for name, (_, packages) in _EXTRAS.items()
    }
    parts: dict[str, Iterable[tuple[str, str]]] = {
        "versions": versions.items(),
        "array libraries": [
            row for library in libraries_here.values() for row in _rows_of(library)
        ],
        "kernels that rotate": [
            (name, f"for arrays of {arrays}: {_kernel_text(**kernels[name])}")
            for name, arrays in (("numba", "NumPy"), ("cupy", "CuPy"))
        ],
        "threads": threads.items(),
        "extras": [(name, _extra_text(name, packages)) for name, packages in extras.items()],
    }
    titled = (f"{title}\n{table([('', *row) for row in rows])}" for title, rows in parts.items())
    of_libraries = {
        name: {
            "version": library.version,
            "devices": {p.name: p.reason or "works" for p in library.places if p.name},
            "reason": "".join(p.reason for p in library.places if not p.name),
        }
        for name, library in libraries_here.items()
    }
    data = {"versions": versions, "libraries": of_libraries, "kernels": kernels}
    return Answer("\n\n".join(titled), data | {"threads": threads, "extras": extras})


def _rows_of(library: libraries.Library) -> Iterator[tuple[str, str]]:
    """Yield a row for each device of a library, the name of the library in the first one."""
    for place in library.places:
        title = library.title if place is library.places[0] else ""
        where = f"{place.name}: " if place.name else ""
        works = "does not work: " if place.reason and library.version else ""
        yield title, f"{where}{works}{place.reason or 'works'}"


def _numba_kernel() -> dict[str, Any]:
    """Return the dtypes that the kernel rotates, or the reason why there is none."""
    try:
        import_module("numba")
        names = ("float16", "float32", "float64")
        dtypes = [name for name in names if rotate.numpy_kernel(np.dtype(name))]
    except Exception as error:  # noqa: BLE001 - of a broken installation
        return {"dtypes": [], "reason": libraries.reason_of(error)}
    return {"dtypes": dtypes, "reason": "" if dtypes else "NUMBA_DISABLE_JIT is set"}


def _cupy_kernel(cupy: libraries.Library) -> dict[str, Any]:
    if any(place.xp is not None for place in cupy.places):
        return {"dtypes": cupy_kernel.DTYPES, "reason": ""}
    return {"dtypes": [], "reason": " ".join(place.reason for place in cupy.places)}


def _kernel_text(dtypes: list[str], reason: str) -> str:
    return f"found, for {', '.join(dtypes)}" if dtypes else f"not found, {reason}"


def _or_reason(describe: Callable[[], str]) -> str:
    try:
        return describe()
    except ImportError as error:
        return f"not known: {libraries.reason_of(error)}"


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
    found = ", ".join(f"{package} {version}" for package, version in versions.items())
    if None in versions.values():
        found = f'not installed: pip install "positional-embeddings[{name}]"'
    return f"{_EXTRAS[name][0]}; {found}"
