"""Fixtures of backends, and selection of tests by the installed libraries.

`--backend NAME` (repeatable) selects backends; by default, all installed backends run, except
`ON_DEMAND`. Tests marked `library` need libraries outside of the dependency group "test".
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from array_api_extra.testing import lazy_xp_function, patch_lazy_xp_functions
from hypothesis import HealthCheck, settings

import absent
import positional_embeddings as pe
from absent import Absent
from backends import NAMES, ON_DEMAND, Backend, missing, opened

settings.register_profile(
    "default",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# JAX compiles for each shape.
settings.register_profile("jax", settings.get_profile("default"), max_examples=3)
settings.load_profile("default")
pytest.register_assert_rewrite("wrong_inputs")
pytest_plugins = ["drawing"]

# Functions that the backends jax-jit compile, and that must not compute on dask.
for name in pe.__all__:
    function = getattr(pe, name)
    reads_values = name == "describe_mask"
    if callable(function) and not isinstance(function, type) and not reads_values:
        lazy_xp_function(function)
for name in pe.__all__:
    layer = getattr(pe, name)
    if isinstance(layer, type) and any("__call__" in vars(base) for base in layer.__mro__):
        lazy_xp_function((layer, "__call__"))
lazy_xp_function((pe.Mask, "dense"))
lazy_xp_function((pe.RoPE, "tables"))
lazy_xp_function((pe.AbsolutePE, "encoding"))
lazy_xp_function((pe.LearnedPE, "vjp"))
lazy_xp_function((pe.LearnedPE, "encoding"))

# Test modules that import a library at their top.
MODULES = {
    "conformance/test_onnx.py": "onnx",
    "test_dask.py": "dask",
    "test_jax.py": "jax",
    "test_torch.py": "torch",
    "test_torch_modes.py": "torch",
}
# Programs that tests need, in marks `library`.
PROGRAMS = ("chromium", "node")
MARKERS = (
    "complete: each public name is registered everywhere; `make complete` runs these",
    "backend: runs on an array library; set on each test with the fixture `backend`",
    "library(*names): needs libraries outside of the dependency group `test`",
    "long: takes long; runs with --long only",
    "needs(ability): skip if the backend lacks the ability",
    "only_on(*names): runs on these backends only",
    "thread_unsafe: for pytest-run-parallel: measures or changes the state of the process",
)
# Names in tests and their helpers that measure or change the state of the process, such as its
# memory, modules or digits of mpmath, or start another process.
PROCESS_NAMES = {"MonkeyPatch", "loaded", "mpmath", "subprocess", "tracemalloc"}
LONG = "--long"
# Tests and modules that are left out, by missing library, or by `LONG`.
LEFT_OUT = pytest.StashKey[dict[str, list[str]]]()

TESTS = Path(__file__).parent

# Draw plots into memory, even with a screen.
os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=sorted(NAMES),
        help="run on this backend, and fail if it cannot run; may be repeated",
    )
    parser.addoption(
        "--every-library",
        action="store_true",
        help="fail if a library that a test needs is not installed",
    )
    parser.addoption(
        "--blas-threads",
        type=int,
        help="let BLAS compute in this many threads, whatever the machine",
    )
    parser.addoption(LONG, action="store_true", help="run the tests that take long, too")
    parser.addoption(
        "--counter", help="C function that counts requests to a GPU: see tests/test_launches.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    if threads := config.getoption("--blas-threads"):
        import threadpoolctl

        threadpoolctl.threadpool_limits(threads, user_api="blas")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[LEFT_OUT] = defaultdict(list)
    for name in config.getoption("--backend") or []:
        if (reason := missing(name)) is not None:
            message = f"--backend {name}: {reason}"
            raise pytest.UsageError(message)
    if {name.partition("-")[0] for name in config.getoption("--backend") or []} == {"jax"}:
        settings.load_profile("jax")


def _chosen(config: pytest.Config) -> list[str]:
    return config.getoption("--backend") or [
        name for name in NAMES if name not in ON_DEMAND and missing(name) is None
    ]


def pytest_report_header(config: pytest.Config) -> list[str]:
    chosen = _chosen(config)
    left_out = [f"{name} ({missing(name) or 'not asked for'})" for name in NAMES]
    left_out = [text for name, text in zip(NAMES, left_out, strict=True) if name not in chosen]
    return [f"backends: {', '.join(chosen)}", f"left out: {', '.join(left_out) or 'none'}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        backends = [
            pytest.param(name, marks=pytest.mark.backend) for name in _chosen(metafunc.config)
        ]
        metafunc.parametrize("backend", backends, indirect=True)


@cache
def _is_missing(library: str) -> bool:
    return (shutil.which(library) if library in PROGRAMS else find_spec(library)) is None


def _demand_libraries(config: pytest.Config) -> None:
    """Raise an error with `--every-library` if a library is missing."""
    names = sorted(config.stash[LEFT_OUT].keys() - {LONG})
    if names and config.getoption("--every-library"):
        message = f"--every-library: not installed: {', '.join(names)}"
        raise pytest.UsageError(message)


def _library_of_module(path: Path) -> str | None:
    return MODULES.get(path.relative_to(TESTS).as_posix()) if path.is_relative_to(TESTS) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[list[pytest.Collector]]:
    """Collect doctests only in `src/`."""
    collectors = yield
    if not file_path.is_relative_to(TESTS):
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """Leave out modules whose library is missing."""
    library = _library_of_module(collector.path)
    if library is None or not _is_missing(library):
        return None
    collector.config.stash[LEFT_OUT][library].append(collector.nodeid)
    return pytest.CollectReport(collector.nodeid, "passed", None, [])


def pytest_itemcollected(item: pytest.Item) -> None:
    if (library := _library_of_module(item.path)) is not None:
        item.add_marker(pytest.mark.library(library))
    function = getattr(item, "function", None)
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    if not PROCESS_NAMES.isdisjoint(_names_with_helpers(function)):
        item.add_marker("thread_unsafe")
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = _names_of(getattr(function, "__code__", None)) & absent.NAMES.keys()
    libraries = {absent.NAMES[name] for name in names}
    libraries |= {value.library for value in parameters if isinstance(value, Absent)}
    if libraries:
        item.add_marker(pytest.mark.library(*libraries))


@cache
def _names_with_helpers(function: object) -> set[str]:
    """Return the names in the code of a test function and of its helpers."""
    names, functions, visited = set[str](), [function], set[object]()
    while functions:
        function = functions.pop()
        code = getattr(function, "__code__", None)
        if code not in visited and getattr(code, "co_filename", "/").startswith(str(TESTS)):
            visited.add(code)
            names |= _names_of(code)
            functions += [function.__globals__.get(name) for name in _names_of(code)]
    return names


@cache
def _names_of(code: object) -> frozenset[str]:
    """Return the names in code, including nested functions."""
    if not isinstance(code, CodeType):
        return frozenset()
    return frozenset(code.co_names).union(*map(_names_of, code.co_consts))


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are long, of other backends, or need a missing library."""
    selected, deselected = [], []
    for item in items:
        if (only_on := item.get_closest_marker("only_on")) is not None:
            leave_out = item.callspec.params["backend"] not in only_on.args
        else:
            leave_out = False
        libraries = {name for mark in item.iter_markers("library") for name in mark.args}
        for library in filter(_is_missing, libraries):
            config.stash[LEFT_OUT][library].append(item.nodeid)
            leave_out = True
        is_long = item.get_closest_marker("long") is not None
        if is_long and not (leave_out or config.getoption(LONG)):
            config.stash[LEFT_OUT][LONG].append(item.nodeid)
            leave_out = True
        (deselected if leave_out else selected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected
    if not hasattr(config, "workeroutput"):
        _demand_libraries(config)
        return
    # A worker of pytest-xdist reports to its controller, since only the controller may raise.
    config.workeroutput["left_out"] = dict(config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the list of a worker; the lists of all workers are equal."""
    node.config.stash[LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", {}))
    _demand_libraries(node.config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write one line with the number of tests left out, by library."""
    left_out = dict(config.stash[LEFT_OUT])
    long = len(left_out.pop(LONG, ()))
    texts = []
    for library, names in sorted(left_out.items()):
        modules = [Path(name).name for name in names if "::" not in name]
        tests = len(names) - len(modules)
        counts = [f"{tests} test" + "s" * (tests > 1)] * bool(tests)
        texts.append(f"{library} ({', '.join(counts + modules)})")
    if texts:
        line = f"Left out, since they are not installed: {', '.join(texts)}"
        terminalreporter.write_line(line + f"; and {long} long tests ({LONG})" * bool(long))
    elif long:
        terminalreporter.write_line(f"Left out: {long} long tests ({LONG})")


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with opened(request.param) as backend:
        for marker in request.node.iter_markers("needs"):
            if (reason := backend.lacks(*marker.args)) is not None:
                pytest.skip(reason)
        if not backend.lazy:
            yield backend
            return
        with patch_lazy_xp_functions(request, xp=backend.xp):
            yield backend
