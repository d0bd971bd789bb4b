"""Which cases run: all that are cheap, and of each other test as many as a budget pays for.

`costs.json` has the seconds of CPU that a case of a test takes, for each test whose cases take more
than `CHEAP` in the mean; `make costs` measures them. A test that is not in it is cheap: a new one
runs whole. A backend has costs of its own, but for array-api-strict, which counts with NumPy.

`--draw SECONDS` pays for so many seconds of each test, one case at least; `--seed` draws which.
`--longest SECONDS` leaves out the tests whose cases take more. `--rest` runs what these leave out.
"""

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

CHEAP = 0.01  # seconds
FILE = Path(__file__).with_name("costs.json")
COSTS = pytest.StashKey[dict[str, list[float]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("drawing", "which cases run")
    group.addoption(
        "--draw",
        type=float,
        metavar="SECONDS",
        help=f"run cases worth so many seconds of CPU of each test, and all of less than {CHEAP} s",
    )
    group.addoption(
        "--longest",
        type=float,
        default=inf,
        metavar="SECONDS",
        help="with --draw, leave out the tests whose cases take longer",
    )
    group.addoption("--rest", action="store_true", help="run the cases that --draw leaves out")
    group.addoption(
        "--seed", type=int, default=0, help="the number that draws the cases, 0 by default"
    )
    group.addoption(
        "--measure-costs",
        action="store_true",
        help=f"write {FILE.name} anew for the tests that run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COSTS] = defaultdict(list)


def pytest_report_header(config: pytest.Config) -> str | None:
    if (seconds := config.getoption("--draw")) is None:
        return None
    what = "all but " if config.getoption("--rest") else ""
    return f"cases: {what}{seconds:g} s of each test, --seed {config.getoption('--seed')}"


def test_of(item: pytest.Item) -> str:
    """Return the name by which `costs.json` knows the test of a case."""
    path, _, name = item.nodeid.partition("::")
    name = f"{path.removeprefix('tests/')}::{name.partition('[')[0]}"
    backend = backend_of(item)
    return name if backend.partition("-")[0] in ("", "numpy", "strict") else f"{name}[{backend}]"


def backend_of(item: pytest.Item) -> str:
    return item.callspec.params.get("backend", "") if hasattr(item, "callspec") else ""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[Any]:
    """Leave out cases, after all that leave out some for other reasons."""
    result = yield
    if (seconds := config.getoption("--draw")) is not None:
        drawn = chosen(items, seconds, config.getoption("--longest"), config.getoption("--seed"))
        left_out = [item for item in items if (item in drawn) is config.getoption("--rest")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if (item in drawn) is not config.getoption("--rest")]
    return result


def chosen(
    items: Iterable[pytest.Item], seconds: float, longest: float, seed: int
) -> set[pytest.Item]:
    """Return the cases that a budget for each test pays for."""
    costs = json.loads(FILE.read_text(encoding="utf-8"))
    by_test = defaultdict(list)
    for item in items:
        by_test[test_of(item)].append(item)
    drawn = set()
    for test, cases in by_test.items():
        cost = costs.get(test, costs.get(test.partition("[")[0], 0.0))
        if cost <= longest:
            count = max(1, int(seconds / cost)) if cost else len(cases)
            drawn.update(shuffled(cases, f"{seed} {test}")[:count])
    return drawn


def shuffled(cases: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return cases in the order in which they are drawn: the backends by turns, NumPy first."""
    draw = random.Random(seed)  # noqa: S311 - the same again for the same seed
    by_backend = defaultdict(list)
    for case in draw.sample(cases, len(cases)):
        by_backend[backend_of(case)].append(case)
    turns = [
        (turn, backend != "numpy", number, case)
        for number, (backend, some) in enumerate(by_backend.items())
        for turn, case in enumerate(some)
    ]
    return [case for *_, case in sorted(turns, key=lambda turn: turn[:3])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Measure a case, with its fixtures and the processes that it started."""
    before = sum(os.times()[:4])
    result = yield
    item.config.stash[COSTS][test_of(item)].append(sum(os.times()[:4]) - before)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the costs, or hand them from a worker of pytest-xdist to its controller."""
    measured = dict(session.config.stash[COSTS])
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = measured
    elif session.config.getoption("--measure-costs"):
        costs = json.loads(FILE.read_text(encoding="utf-8")) | {
            test: round(fmean(seconds), 3) for test, seconds in measured.items()
        }
        costs = {test: cost for test, cost in sorted(costs.items()) if cost > CHEAP}
        FILE.write_text(json.dumps(costs, indent=0) + "\n", encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for test, seconds in getattr(node, "workeroutput", {}).get("costs", {}).items():
        node.config.stash[COSTS][test] += seconds
