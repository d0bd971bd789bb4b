"""The program that changes the code in small ways, and lists what no test notices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import loaded

PROGRAM = Path(__file__).parents[1] / ".ci" / "mutants.py"
CODE = '''"""Sizes: 1."""
LARGE: int = 5


def size(n: int, *, strict=False):
    """Return 2 words."""
    if n < 0 and not strict:
        raise ValueError(n)
    n += 1
    return "many" if n >= LARGE else -n


def nothing():
    return None
'''
CHANGES = [
    ("5", "6"),
    ("False", "True"),
    ("n < 0 and not strict", "not (n < 0 and not strict)"),
    ("and", "or"),
    ("<", "<="),
    ("0", "1"),
    ("not", ""),
    ("raise ValueError(n)", "pass"),
    ("n += 1", "pass"),
    ("1", "2"),
    ('return "many" if n >= LARGE else -n', "return None"),
    ("n >= LARGE", "not (n >= LARGE)"),
    (">=", ">"),
    ("-", ""),
]
FEW = """
from functools import cache

LARGE = 3


def grow(n):
    return n + 1 if n >= LARGE else 0


@cache
def kept(n):
    return n - 1


def unused(n):
    return n - 1


FIRST = kept(2)
"""
TESTS = """
import pytest
from positional_embeddings.sizes import FIRST, grow, kept

def test_large():
    assert grow(7) == 8

@pytest.mark.parametrize("text", ["a | b", "c"])
def test_something_else(text):
    assert kept(1) == 0
    assert FIRST == 1
"""
CONFIGURATION = """
[tool.pytest.ini_options]
testpaths = ["tests"]
[tool.coverage.run]
source = ["positional_embeddings"]
"""


@pytest.fixture(scope="module")
def mutants():
    yield from loaded(PROGRAM)


def changed(mutant, code):
    raw = code.encode()
    return (raw[: mutant.start] + mutant.new.encode() + raw[mutant.stop :]).decode()


def test_every_kind_of_change_is_found(mutants):
    found = mutants.mutants_of(CODE)
    assert sorted((one.old, one.new) for one in found) == sorted(CHANGES)
    assert {one.name for one in found} == {"", "size"}
    for one in found:
        compile(changed(one, CODE), one.name, "exec")


def test_operators_of_several_operands(mutants):
    code = "ä = a < b <= c or d or (e\n    # and\n    or f)"  # bytes are counted, not letters
    texts = {changed(one, code) for one in mutants.mutants_of(code)}
    assert texts == {
        code.replace("a < b", "a <= b"),
        code.replace("b <= c", "b < c"),
        code.replace("c or d", "c and d"),
        code.replace("or (e", "and (e"),
        code.replace("or f", "and f"),
    }


def test_a_sample_stays_while_the_code_does(mutants):
    more = CODE + "\n\ndef other(m):\n    return m * 3\n"
    old, new = mutants.mutants_of(CODE), mutants.mutants_of("# moved by a line\n" + more)
    assert {one.key for one in old} < {one.key for one in new}
    drawn, again = ([m.key for m in mutants.sample(of, 100, 7)] for of in (old, new))
    assert drawn == [key for key in again if key in set(drawn)]
    assert drawn != [one.key for one in mutants.sample(old, 100, 8)]
    assert [one.key for one in mutants.sample(old, 3, 7)] == drawn[:3]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX groups of processes")
def test_survivors_are_listed_and_results_kept(tmp_path):
    source, folder = tmp_path / "checkout", tmp_path / "results"
    package = source / "src" / "positional_embeddings"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text(FEW, encoding="utf-8")
    (source / "tests").mkdir()
    (source / "tests" / "test_sizes.py").write_text(TESTS, encoding="utf-8")
    (source / "pyproject.toml").write_text(CONFIGURATION, encoding="utf-8")
    options = ["--source", str(source), "--folder", str(folder), "--jobs", "2"]

    def printed(*more):
        command = [sys.executable, "-W", "error", str(PROGRAM), *options, *more]
        # The suite itself may be measured.
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("COV", "PYTEST"))}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    first = printed()
    assert "14 changes, of lines that a test runs: 11\n" in first
    # No test has a size near 3; the change of what runs at import is found in the file.
    survivors = {"'>=' -> '>'", "'3' -> '4'", "'0' -> '1'"}
    counts, _, listed = first.partition("\n\nSurvivors: 3\n")
    assert counts.endswith("| top | 11 | 8 | 3 |\n| all | 11 | 8 | 3 |")
    assert {line.partition("): ")[2] for line in listed.splitlines()} == survivors
    assert first.count("\nsurvived ") == 3

    again = printed()
    assert "Noting" not in again
    assert "\nsurvived " not in again
    assert again.endswith(f"\n\nSurvivors: 3\n{listed}")

    # With more time survivors are tried again.
    assert printed("--seconds", "21").count("\nsurvived ") == 3
