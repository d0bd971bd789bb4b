"""What a report of a bug has to say is printed."""

import runpy

import array_api_strict as strict
import numpy as np
import pytest

import positional_embeddings as pe
from positional_embeddings import versions


def rows_of(text):
    return {line[:22].strip(): line[23:] for line in text.splitlines()}


@pytest.fixture
def _here(monkeypatch, tmp_path):
    """Have two libraries that work, one that is not installed, and one that is broken."""
    (tmp_path / "broken.py").write_text("raise OSError('no driver')")
    monkeypatch.syspath_prepend(tmp_path)
    names = "numpy", "array_api_strict", "no_such_library.numpy", "broken"
    monkeypatch.setattr(versions, "_ARRAY_LIBRARIES", names)


@pytest.mark.usefixtures("_here")
def test_libraries_and_devices(capsys):
    pe.show_versions()
    rows = rows_of(capsys.readouterr().out)
    assert rows["positional-embeddings"].startswith(f"{pe.__version__} (")
    assert rows["numpy"] == f"{np.__version__} on cpu"
    assert rows["array_api_strict"].startswith(f"{strict.__version__} on array_api_strict.Device(")
    assert rows["no_such_library"] == "not installed"
    assert rows["broken"] == "does not work: OSError: no driver"


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("dtypes", [(), ("float32", "float64")])
def test_kernels(capsys, monkeypatch, dtypes):
    monkeypatch.setattr(versions, "numpy_kernel", lambda dtype: dtype in dtypes)
    pe.show_versions()
    rows = rows_of(capsys.readouterr().out)
    assert rows["kernel of numba"] == (", ".join(dtypes) or "none")


@pytest.mark.usefixtures("_here")
def test_the_module_prints_the_same(capsys):
    pe.show_versions()
    expected = capsys.readouterr().out
    runpy.run_module("positional_embeddings", run_name="__main__")
    assert capsys.readouterr().out == expected
