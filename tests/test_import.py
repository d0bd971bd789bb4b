"""What importing the package costs."""

import subprocess
import sys

import array_api_compat  # noqa: F401 - it must be installed

LIBRARIES = ("cupy", "torch", "jax", "dask", "array_api_strict", "matplotlib", "numba", "scipy")


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_import_loads_no_array_library_of_its_own():
    ours = modules_after("import positional_embeddings")
    theirs = modules_after("import array_api_compat, numpy")
    assert not ours & set(LIBRARIES) - theirs
    # Heavy parts of NumPy that its own import leaves out.
    assert not {name for name in ours - theirs if name.startswith("numpy.")}


def test_public_names_are_there():
    import positional_embeddings

    for name in positional_embeddings.__all__:
        assert getattr(positional_embeddings, name) is not None
    assert len(set(positional_embeddings.__all__)) == len(positional_embeddings.__all__)
