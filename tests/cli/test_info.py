"""What `info` says of what is there, and of what is missing or broken."""

import json
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings.cli import info, libraries
from positional_embeddings.cli.libraries import Library, Place

PIP = 'pip install "positional-embeddings[{}]"'
HERE = (
    Library("numpy", "2.4", (Place("cpu", None, np),)),
    Library("cupy", None, (Place("", reason=f"not installed: {PIP.format('cupy')}"),)),
    Library("torch", "2.13", (Place("cpu", None, np), Place("cuda:0 H200", reason="no driver"))),
    Library("jax", "0.9", (Place("", reason="OSError: no library"),)),
)


@pytest.fixture
def here(monkeypatch):
    """Have these libraries, and no package of any extra."""
    found = {library.name: library for library in HERE}
    monkeypatch.setattr(libraries, "LIBRARIES", found)
    monkeypatch.setattr(libraries, "find_library", found.__getitem__)
    monkeypatch.setattr(libraries, "installed_version", lambda _: None)
    for name in ("numba", "threadpoolctl"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("here")
def test_text(printed):
    text = printed("info")
    # The folder may be too long for the same line.
    assert f" positional-embeddings {pe.__version__} (" in " ".join(text.split())
    assert f"\n  numpy                  {np.__version__}\n" in text
    start = text.index("\narray libraries\n")
    assert text[start:] == (
        "\narray libraries\n"
        "  numpy 2.4   cpu: works\n"
        '  cupy        not installed: pip install "positional-embeddings[cupy]"\n'
        "  torch 2.13  cpu: works\n"
        "              cuda:0 H200: does not work: no driver\n"
        "  jax 0.9     does not work: OSError: no library\n"
        "\n"
        "kernels that rotate\n"
        "  numba  for arrays of NumPy: not found, ModuleNotFoundError: import of numba halted;\n"
        "         None in sys.modules\n"
        "  cupy   for arrays of CuPy: not found, not installed:\n"
        '         pip install "positional-embeddings[cupy]"\n'
        "\n"
        "threads\n"
        "  numba  not known: ModuleNotFoundError: import of numba halted; None in sys.modules\n"
        "  BLAS   not known: ModuleNotFoundError: import of threadpoolctl halted; None in\n"
        "         sys.modules\n"
        "\n"
        "extras\n"
        "  fast     faster rotation and attention of NumPy arrays; not installed:\n"
        '           pip install "positional-embeddings[fast]"\n'
        '  plot     pictures; not installed: pip install "positional-embeddings[plot]"\n'
        '  sklearn  estimators; not installed: pip install "positional-embeddings[sklearn]"\n'
        "  xarray   encodings of labelled arrays; not installed:\n"
        '           pip install "positional-embeddings[xarray]"\n'
    )


@pytest.mark.usefixtures("here")
def test_json(printed):
    data = json.loads(printed("info --json"))
    assert data["libraries"]["torch"] == {
        "version": "2.13",
        "devices": {"cpu": "works", "cuda:0 H200": "no driver"},
        "reason": "",
    }
    assert data["extras"]["fast"] == {"numba": None, "threadpoolctl": None}
    assert data["kernels"]["cupy"] == {"dtypes": [], "reason": HERE[1].places[0].reason}
    assert data["versions"]["numpy"] == np.__version__


def test_this_machine():
    """In a process of its own: all libraries that are installed are imported."""
    command = [sys.executable, "-m", "positional_embeddings", "info", "--json"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    data = json.loads(run.stdout)
    names = "numpy cupy torch jax dask cubed ndonnx mlx array_api_strict"
    assert list(data["libraries"]) == names.split()
    for name in ("numpy", "array_api_strict"):
        assert data["libraries"][name]["devices"] == {"cpu": "works"}
    assert data["libraries"]["numpy"]["version"] == np.__version__
    has_numba = data["extras"]["fast"]["numba"] is not None
    assert bool(data["kernels"]["numba"]["dtypes"]) == has_numba


@pytest.fixture
def numba(monkeypatch):
    """Have a numba whose kernels rotate the dtypes that are given to it."""
    module = ModuleType("numba")
    module.config = SimpleNamespace(NUMBA_NUM_THREADS=7)
    monkeypatch.setitem(sys.modules, "numba", module)
    monkeypatch.setattr(libraries, "installed_version", lambda _: "1.0")

    def of(*dtypes):
        monkeypatch.setattr(
            info.rotate, "numpy_kernel", lambda dtype: print if dtype in dtypes else None
        )

    return of


def test_the_kernel_of_numba(numba):
    numba("float32", "float64")
    assert info._numba_kernel() == {"dtypes": ["float32", "float64"], "reason": ""}
    assert info._kernel_text(**info._numba_kernel()) == "found, for float32, float64"
    assert info._numba_threads() == "7 for large arrays (NUMBA_NUM_THREADS)"
    numba()
    assert info._numba_kernel() == {"dtypes": [], "reason": "NUMBA_DISABLE_JIT is set"}


def test_a_broken_numba(monkeypatch, numba):
    numba()

    def fail(_):
        message = "NumPy is too new"
        raise ImportError(message)

    monkeypatch.setattr(info.rotate, "numpy_kernel", fail)
    assert info._numba_kernel() == {"dtypes": [], "reason": "ImportError: NumPy is too new"}


def test_the_kernels_of_cupy():
    on_gpu = Library("cupy", "14", (Place("cuda:0", reason="busy"), Place("cuda:1", None, np)))
    dtypes = ("float16", "bfloat16", "float32", "float64")
    assert info._cupy_kernel(on_gpu) == {"dtypes": dtypes, "reason": ""}
    broken = Library("cupy", "14", (Place("cuda:0", reason="no compiler"),))
    assert info._cupy_kernel(broken) == {"dtypes": [], "reason": "no compiler"}


def test_the_threads_of_blas(monkeypatch):
    pools = [
        {"user_api": "blas", "num_threads": 3, "internal_api": "openblas", "version": "0.3"},
        {"user_api": "openmp", "num_threads": 8, "internal_api": "openmp", "version": None},
    ]
    control = ModuleType("threadpoolctl")
    control.threadpool_info = lambda: pools
    monkeypatch.setitem(sys.modules, "threadpoolctl", control)
    assert info._blas_threads() == "3 of openblas 0.3"
    pools.pop(0)
    assert info._blas_threads() == "no library that threadpoolctl knows"


def test_an_extra_that_is_installed():
    versions = {"numba": "0.68", "threadpoolctl": "3.8"}
    assert info._extra_text("fast", versions) == (
        "faster rotation and attention of NumPy arrays; numba 0.68, threadpoolctl 3.8"
    )
