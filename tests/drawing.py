"""Random selection of test cases: all cheap cases, and cases of other tests within a budget.

`costs.json` has the mean CPU seconds of a case, for each test with a mean above `CHEAP`; `make
costs` measures them. Other tests, such as new ones, are cheap, and all of their cases run. Costs
are separate for each backend, except array-api-strict, which has the costs of NumPy.

`--draw SECONDS` is the budget of each test, for at least one case; `--seed` draws the cases.
`--longest SECONDS` leaves out tests with more expensive cases. `--rest` runs the cases left out.
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
        help=f"run cases of this many CPU seconds of each test, and all cases below {CHEAP} s",
    )
    group.addoption(
        "--longest",
        type=float,
        default=inf,
        metavar="SECONDS",
        help="with --draw, leave out tests whose cases take longer",
    )
    group.addoption("--rest", action="store_true", help="run the cases that --draw leaves out")
    group.addoption("--seed", type=int, default=0, help="seed of the random cases, 0 by default")
    group.addoption(
        "--measure-costs",
        action="store_true",
        help=f"update {FILE.name} for the tests that run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COSTS] = defaultdict(list)


def pytest_report_header(config: pytest.Config) -> str | None:
    if (seconds := config.getoption("--draw")) is None:
        return None
    prefix = "all but " if config.getoption("--rest") else ""
    return f"cases: {prefix}{seconds:g} s of each test, --seed {config.getoption('--seed')}"


def test_of(item: pytest.Item) -> str:
    """Return the name of the test of a case in `costs.json`."""
    path, _, name = item.nodeid.partition("::")
    name = f"{path.removeprefix('tests/')}::{name.partition('[')[0]}"
    backend = backend_of(item)
    return name if backend.partition("-")[0] in ("", "numpy", "strict") else f"{name}[{backend}]"


def backend_of(item: pytest.Item) -> str:
    return item.callspec.params.get("backend", "") if hasattr(item, "callspec") else ""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[Any]:
    """Leave out cases, after all other hooks have left out cases."""
    result = yield
    if (seconds := config.getoption("--draw")) is not None:
        drawn = chosen(items, seconds, config.getoption("--longest"), config.getoption("--seed"))
        left_out = [item for item in items if (item in drawn) is config.getoption("--rest")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if (item in drawn) is not config.getoption("--rest")]
    return result


def chosen(
    items: Iterable[pytest.Item], seconds: float, max_cost: float, seed: int
) -> set[pytest.Item]:
    """Return the cases within a budget for each test."""
    costs = json.loads(FILE.read_text(encoding="utf-8"))
    by_test = defaultdict(list)
    for item in items:
        by_test[test_of(item)].append(item)
    drawn = set()
    for test, cases in by_test.items():
        cost = costs.get(test, costs.get(test.partition("[")[0], 0.0))
        if cost <= max_cost:
            count = max(1, int(seconds / cost)) if cost else len(cases)
            drawn.update(shuffled(cases, f"{seed} {test}")[:count])
    return drawn


def shuffled(cases: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return cases in random order, alternating between the backends, NumPy first."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    by_backend = defaultdict(list)
    for case in draw.sample(cases, len(cases)):
        by_backend[backend_of(case)].append(case)
    turns = [
        (turn, backend != "numpy", number, case)
        for number, (backend, group) in enumerate(by_backend.items())
        for turn, case in enumerate(group)
    ]
    return [case for *_, case in sorted(turns, key=lambda turn: turn[:3])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Measure a case, including its fixtures and child processes."""
    before = sum(os.times()[:4])
    result = yield
    item.config.stash[COSTS][test_of(item)].append(sum(os.times()[:4]) - before)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the costs, or send them from a worker of pytest-xdist to its controller."""
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
