"""The space of a call, and who asks for it."""

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings
from positional_embeddings.arrays.space import new_space, space_of

SRC = Path(positional_embeddings.__file__).parent

# Rooms that arrays come to from other libraries: their modules are doors.
OUTER_ROOMS = {"cli", "plotting", "sklearn", "xarray.py"}


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ("float16", "float32"),
        (ml_dtypes.bfloat16, "float32"),
        ("float32", "float32"),
        (">f4", "float32"),
        ("complex64", "float32"),
        ("float64", "float64"),
        ("complex128", "float64"),
        ("int8", "float64"),
        ("bool", "float64"),
    ],
)
def test_the_dtype_to_compute_in(given, dtype):
    space = space_of(x=np.zeros(1, given), y=np.zeros(1, "float32"))
    assert np.dtype(space.dtype) == dtype
    assert np.dtype(space.dtype).isnative
    assert (space.xp, space.device) == (np, "cpu")
    assert [*map(np.dtype, (space.integer, space.widest, space.default_float))] == [
        "i8",
        "f8",
        "f8",
    ]


def test_a_new_space_computes_in_the_default_dtype(backend):
    space = new_space(backend.xp, backend.device)
    one = backend.xp.asarray(1.0, device=backend.device)
    assert space.dtype == space.default_float == one.dtype
    assert space.xp is space_of(x=one).xp is backend.xp
    assert space_of(x=one).device == backend.device


def test_another_dtype_to_compute_in(backend):
    space = new_space(backend.xp, backend.device)
    assert space.computing_in(backend.xp.float32).dtype == backend.xp.float32
    assert space.dtype == space.default_float


def functions_of(node, names=()):
    """Yield the names of each function, with those of the classes and functions around it."""
    for child in ast.iter_child_nodes(node):
        inner = names
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = (*names, child.name)
        if isinstance(child, ast.FunctionDef):
            yield inner, child
        yield from functions_of(child, inner)


def asked_in(function):
    """Tell whether a function itself, without inner ones, asks for the space of arrays."""
    called = (n.func for n in ast.walk(function) if isinstance(n, ast.Call))
    names = {getattr(f, "id", getattr(f, "attr", None)) for f in called}
    return bool(names & {"space_of", "new_space"})


def is_public(names):
    *_, name = names
    is_dunder = name.startswith("__") and name.endswith("__")
    return is_dunder or not any(part.startswith("_") for part in names)


def test_the_space_is_asked_for_at_the_door_alone():
    """Below a public function nothing asks what kind of array it has."""
    found = set()
    for path in SRC.rglob("*.py"):
        room = path.relative_to(SRC).parts[0]
        if room in OUTER_ROOMS | {"arrays"}:
            continue
        for names, function in functions_of(ast.parse(path.read_text())):
            if asked_in(function) and not is_public(names):
                found.add(".".join([path.stem, *names]))
    assert found == set()
