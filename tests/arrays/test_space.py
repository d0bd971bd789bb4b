"""The space of a call, and who asks for it."""

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import positional_embeddings
from positional_embeddings.arrays.space import new_space, space_of

SRC = Path(positional_embeddings.__file__).parent

# Rooms that call the public functions: arrays come to them from other libraries, too.
OUTER_ROOMS = {"cli", "plotting", "sklearn", "xarray.py"}

# What is asked on behalf of public functions, of several each.
FOR_PUBLIC_FUNCTIONS = {
    "positions.resolve_positions",
    "positions.length_array",
    "by_sequence._ByLength._check",
    "weights.set_weights",
    "weights._same",
    "labelled.RandomFourier.encode",
    "labelled._octaves",
    "kv_cache._numbers",
    "kv_cache.KVStep._fit",
    "tables.RotaryTables._fit",
    "scores.scores_of",
}

# A function of the user returned the array.
FOR_FUNCTIONS_OF_USERS = {"scores.call_score_function", "mask.FunctionMask._hides"}


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
    others = map(np.dtype, (space.integer, space.widest, space.default_float))
    assert [*others] == ["int64", "float64", "float64"]


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
    return names[0] in positional_embeddings.__all__ and (is_dunder or name[0] != "_")


def test_the_space_is_asked_for_at_the_door_alone():
    """Below a public function nothing asks what kind of array it has."""
    found = set()
    for path in SRC.rglob("*.py"):
        room = path.relative_to(SRC).parts[0]
        if room in OUTER_ROOMS | {"arrays"}:
            continue
        for names, function in functions_of(ast.parse(path.read_text())):
            # A task of a chunked library gets arrays of another one.
            is_task = names[-1].endswith("_chunk")
            if asked_in(function) and not (is_public(names) or is_task):
                found.add(".".join([path.stem, *names]))
    assert found == FOR_PUBLIC_FUNCTIONS | FOR_FUNCTIONS_OF_USERS
