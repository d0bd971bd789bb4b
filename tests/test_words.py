"""Retired words are not identifiers of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import positional_embeddings

ROOT = Path(positional_embeddings.__file__).parent
# Names of an earlier vocabulary, and the established term for each.
REPLACEMENTS = {
    "Consecutive": "ImplicitPositions",
    "Facts": "ModelType",
    "GivenPositions": "ExplicitPositions",
    "HostPositions": "ConcretePositions",
    "Options": "AttentionArguments",
    "Points": "PositionBlock",
    "Reach": "VisibleKeys",
    "Rules": "AttentionArguments",
    "Shares": "GroupParts",
    "Space": "Backend",
    "Span": "IndexRanges",
    "Waves": "Sinusoids",
    "at_once": "dense",
    "at_query": "leverage",
    "by_all": "every_query",
    "by_any": "any_query",
    "came": "actual",
    "can_write": "is_mutable",
    "compiles_kernels": "has_cuda_kernels",
    "doubled": "full_width",
    "facts": "model_type",
    "gathered": "listed_keys",
    "get_or_make": "get_or_compute",
    "guard": "ridge",
    "host_cache": "cached_constant",
    "is_known": "is_static",
    "is_readable": "is_concrete",
    "is_true": "concrete_bool",
    "jax_scan": "jax_loops",
    "keep": "remember",
    "kept": "cached",
    "new_space": "backend_for",
    "numbers_of": "as_integer_array",
    "on_cupy": "cupy",
    "one_or_each": "scalar_or_sequence",
    "quiet": "ignore_fp_errors",
    "rotator": "kernel",
    "several": "sequence_of",
    "shown": "format_value",
    "skew": "asymmetry",
    "space": "backend",
    "space_of": "get_backend",
    "takes_out": "supports_out",
    "takes_strides": "supports_strided_views",
    "tilt": "slope",
    "twins": "replicates",
    "unmasked": "dense",
    "waves": "sinusoids",
    "what": "requirement",
}


def identifiers(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of a syntax tree binds or uses."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case ast.alias(name=name, asname=alias):
            yield from (*name.split("."), alias or name)


def retired(source: str) -> set[str]:
    """Return the retired identifiers of a module, without leading underscores."""
    nodes = ast.walk(ast.parse(source))
    return {name.lstrip("_") for node in nodes for name in identifiers(node)} & REPLACEMENTS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "kept = 1",
        "x.kept",
        "def f(kept): ...",
        "def _kept(): ...",
        "class Space: ...",
        "f(kept=1)",
        "import kept.module",
        "from module import kept",
        "from module import name as kept",
        "f'{kept}'",
    ],
)
def test_a_retired_identifier_is_found(source):
    assert len(retired(source)) == 1


def test_words_in_text_are_no_identifiers():
    assert retired("text = 'kept'  # kept") == set()


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_identifier_is_retired(path):
    words = retired(path.read_text(encoding="utf-8")) | {path.stem} & REPLACEMENTS.keys()
    # What a failure shows is the term to write instead.
    assert {word: REPLACEMENTS[word] for word in words} == {}
