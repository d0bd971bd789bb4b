"""Retired words are not identifiers of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import positional_embeddings

ROOT = Path(positional_embeddings.__file__).parent
# Names of an earlier vocabulary, each with a more established word in its place.
WORDS = """
Consecutive Facts GivenPositions HostPositions Options Points Reach Rules Shares Space Span
Waves at_once at_query by_all by_any came can_write compiles_kernels doubled facts gathered
get_or_make guard host_cache is_known is_readable is_true jax_scan keep kept new_space
numbers_of on_cupy one_or_each quiet rotator several shown skew space space_of takes_out
takes_strides tilt twins unmasked waves what
"""
RETIRED = frozenset(WORDS.split())


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
    return {name.lstrip("_") for node in nodes for name in identifiers(node)} & RETIRED


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
    assert path.stem.lstrip("_") not in RETIRED
    assert retired(path.read_text(encoding="utf-8")) == set()
