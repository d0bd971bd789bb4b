"""`info`: versions, array libraries with their devices, kernels, threads and extras."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from positional_embeddings._core.namespace import host
from positional_embeddings.cli.libraries import Library, installed_version, libraries, reason_of
from positional_embeddings.cli.terminal import Answer, add_json, table
from positional_embeddings.rotary.kernels import cupy_kernel, dispatch

_DESCRIPTION = """\
Tell what is installed, what of it works here, and why the rest does not: array libraries and
their devices, the compiled kernels that rotate, threads, and optional parts of this package.

Each library that is installed is imported, and computes a sum on each of its devices.
"""
_EPILOG = """\
examples:
  positional-embeddings info
  positional-embeddings info --json > info.json      for a report of a fault
"""

# The optional parts of the package, what each is for, and what it needs.
_EXTRAS = {
    "fast": ("faster rotation and attention of NumPy arrays", ("numba", "threadpoolctl")),
    "plot": ("pictures", ("matplotlib",)),
    "sklearn": ("estimators", ("scikit-learn",)),
    "xarray": ("encodings of labelled arrays", ("xarray",)),
}


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "info",
        help="tell which array libraries, devices and kernels work here",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> Answer:
    """Tell what is installed, and what of it works."""
    versions, threads, found = _versions(), _threads(), list(libraries())
    extras = {
        name: {package: installed_version(package) for package in of}
        for name, (_, of) in _EXTRAS.items()
    }
    kernels = {
        "numba": _numba_kernel(),
        "cupy": _cupy_kernels(next(library for library in found if library.name == "cupy")),
    }
    parts = (
        ("versions", versions.items()),
        ("array libraries", _library_rows(found)),
        ("kernels that rotate", [(name, _kernel_text(name, of)) for name, of in kernels.items()]),
        ("threads", threads.items()),
        ("extras", [(name, _extra_text(name, of)) for name, of in extras.items()]),
    )
    data = {
        "versions": versions,
        "libraries": {library.name: _facts(library) for library in found},
        "kernels": {name: kernel._asdict() for name, kernel in kernels.items()},
        "threads": threads,
        "extras": extras,
    }
    return Answer("\n\n".join(_part(title, rows) for title, rows in parts), data)


def _part(title: str, rows: Iterable[tuple[str, str]]) -> str:
    return f"{title}\n{table([('', *row) for row in rows])}"


def _versions() -> dict[str, str]:
    package: Any = import_module("positional_embeddings")
    return {
        "positional-embeddings": f"{package.__version__} ({Path(package.__file__).parent})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "numpy": host.__version__,
        "array-api-compat": import_module("array_api_compat").__version__,
        "platform": f"{platform.platform()}, {os.cpu_count()} cores",
    }


def _facts(library: Library) -> dict[str, Any]:
    return {
        "version": library.version,
        "devices": {place.name: place.reason or "works" for place in library.places},
        "reason": library.reason,
    }


def _library_rows(found: list[Library]) -> list[tuple[str, str]]:
    """Return a row for each device of each library, and one for a library without."""
    rows = []
    for library in found:
        title = " ".join(filter(None, (library.name, library.version)))
        if not library.places:
            works = "" if library.version is None else "does not work: "
            rows.append((title, f"{works}{library.reason}"))
        for place in library.places:
            text = f"does not work: {place.reason}" if place.reason else "works"
            rows.append((title, f"{place.name}: {text}"))
            title = ""
    return rows


class _Kernel(NamedTuple):
    """A kernel with the dtypes that it rotates, or the reason why there is none."""

    dtypes: tuple[str, ...] = ()
    reason: str = ""


def _kernel_text(library: str, kernel: _Kernel) -> str:
    arrays = {"numba": "NumPy", "cupy": "CuPy"}[library]
    found = f"found, for {', '.join(kernel.dtypes)}" if kernel.dtypes else "not found"
    return f"for arrays of {arrays}: {', '.join(filter(None, (found, kernel.reason)))}"


def _numba_kernel() -> _Kernel:
    if installed_version("numba") is None:
        what = 'numba is not installed: pip install "positional-embeddings[fast]"'
        return _Kernel(reason=what)
    try:
        import_module("numba")
        dtypes = tuple(
            dtype
            for dtype in ("float16", "float32", "float64")
            if dispatch.kernel_for(host.zeros((2, 2), dtype=dtype)) is not None
        )
    except Exception as error:  # noqa: BLE001 - of a broken installation
        return _Kernel(reason=f"numba does not work: {reason_of(error)}")
    return _Kernel(dtypes, "" if dtypes else "NUMBA_DISABLE_JIT is set")


def _cupy_kernels(cupy: Library) -> _Kernel:
    if any(place.xp is not None for place in cupy.places):
        return _Kernel(cupy_kernel.DTYPES)
    reasons = [cupy.reason, *(place.reason for place in cupy.places)]
    return _Kernel(reason=" ".join(filter(None, reasons)))


def _threads() -> dict[str, str]:
    return {"numba": _told(_numba_threads), "BLAS": _told(_blas_threads)}


def _told(tell: Callable[[], str]) -> str:
    try:
        return tell()
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
    return f"{what}; {', '.join(f'{package} {of}' for package, of in versions.items())}"
