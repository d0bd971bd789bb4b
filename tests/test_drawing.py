"""Which cases run: a part that a seed draws, and the rest."""

import json
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

import drawing

BACKENDS = ("numpy", "strict", "strict-no_x64")


class Case:
    """Stands for a case of a test that pytest has collected."""

    def __init__(self, test, number, backend=None):
        self.nodeid = f"tests/{test}[{number}]"
        self.callspec = SimpleNamespace(params={"backend": backend} if backend else {})


CHEAP = [Case("a.py::cheap", number) for number in range(50)]
SLOW = [Case("a.py::slow", number) for number in range(50)]
LONG = [Case("a.py::long", 0)]
NEW = [Case("b.py::new", number) for number in range(50)]
ON_BACKENDS = [Case("b.py::slow", n, name) for n in range(20) for name in BACKENDS]
ON_TORCH = [Case("b.py::slow", number, "torch") for number in range(20)]


@pytest.fixture(autouse=True)
def _costs(monkeypatch, tmp_path):
    """Write costs in seconds of a case."""
    file = tmp_path / "costs.json"
    costs = {"a.py::slow": 0.05, "a.py::long": 3.0, "b.py::slow": 0.05, "b.py::slow[torch]": 0.5}
    file.write_text(json.dumps(costs), encoding="utf-8")
    monkeypatch.setattr(drawing, "FILE", file)


def drawn(*tests, seconds=0.2, longest=1.0, seed=0):
    """Return the numbers of the cases that are drawn of each test."""
    found = drawing.chosen([one for cases in tests for one in cases], seconds, longest, seed)
    return [[number for number, one in enumerate(cases) if one in found] for cases in tests]


def test_a_budget_pays_for_cases_of_each_test():
    cheap, slow, long, new = drawn(CHEAP, SLOW, LONG, NEW)
    assert cheap == new == list(range(50))
    assert len(slow) == 4
    assert not long
    assert [len(cases) for cases in drawn(SLOW, LONG, seconds=0.01, longest=5.0)] == [1, 1]


def test_a_seed_draws_the_same_cases_again():
    first, again, other = (drawn(SLOW, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    seen = {number for seed in range(100) for number in drawn(SLOW, seed=seed)[0]}
    assert seen == set(range(50))


def test_other_tests_change_nothing():
    assert drawn(SLOW) == drawn(SLOW, CHEAP)[:1] == drawn(NEW, SLOW)[1:]


def test_backends_take_turns_and_numpy_begins():
    (numbers,) = drawn(ON_BACKENDS)
    names = [ON_BACKENDS[number].callspec.params["backend"] for number in numbers]
    assert [names.count(name) for name in BACKENDS] == [2, 1, 1]
    (one,) = drawn(ON_BACKENDS, seconds=0.05)
    assert [ON_BACKENDS[number].callspec.params["backend"] for number in one] == ["numpy"]


def test_a_backend_has_costs_of_its_own():
    slow, on_torch = drawn(ON_BACKENDS, ON_TORCH, seconds=1.0)
    assert len(slow) == 20
    assert len(on_torch) == 2


def test_a_backend_without_costs_of_its_own_has_those_of_numpy():
    on_jax = [Case("b.py::slow", number, "jax") for number in range(20)]
    assert [len(cases) for cases in drawn(on_jax, ON_BACKENDS)] == [4, 4]


TESTS = """
import time

import pytest

@pytest.mark.parametrize("n", range(4))
def test_slow(n):
    start = time.process_time()
    while time.process_time() < start + 0.03:
        pass

def test_fast():
    pass
"""


def test_a_run_and_its_rest_are_the_whole(tmp_path):
    shutil.copy(drawing.__file__, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]", encoding="utf-8")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["drawing"]', encoding="utf-8")
    (tmp_path / "costs.json").write_text("{}", encoding="utf-8")
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")

    def passed(*options):
        """Return the cases that passed, and the lines before them."""
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("COV", "PYTEST"))}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return set(re.findall(r"^(\S+) PASSED", done.stdout, re.MULTILINE)), done.stdout

    whole, _ = passed("--measure-costs")
    assert len(whole) == 5
    costs = json.loads((tmp_path / "costs.json").read_text(encoding="utf-8"))
    assert list(costs) == ["test_some.py::test_slow"]
    assert 0.02 <= costs["test_some.py::test_slow"] < 5  # `os.times` counts ticks of 0.01 s
    drawn, header = passed("--draw", "0.01", "--longest", "9", "--seed", "7")
    rest, _ = passed("--draw", "0.01", "--longest", "9", "--seed", "7", "--rest")
    assert len(drawn) == 2
    assert drawn | rest == whole
    assert not drawn & rest
    assert "0.01 s of each test, --seed 7" in header
