"""Change the code in small ways, one at a time, and list the changes that no test notices.

All changes, or a sample that a seed draws: the same code gives the same sample. The tests that run
the changed line are run for a limited time, one case of each test first. pytest collects all tests
once; a process that is forked from it gives the changed function its new code. What runs when the
package is imported is changed in the file, in a copy of the checkout. An interrupted run goes on
where it ended: what is killed stays so until the changed file changes or the test that failed is
gone, what survives until files of its tests change or they get more time.
The tests see the libraries of the environment that runs this program.

A survivor is a place to look, no fault: no test can notice another length of a block, for example.
"""

import argparse
import ast
import gc
import hashlib
import inspect
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FunctionType
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/positional_embeddings"
# Compiled where neither coverage nor these tests see it, or written for a GPU.
LEFT_OUT = ("kernels/numba_kernel.py", "kernels/cupy_kernel.py", "__main__.py")
TIMEOUT = 120.0
LONGEST = 5.0  # seconds of a test of a function, if the tests of a change get less
MOST = 1000  # tests that are collected for a change of what runs at import
MEMORY = 12 * 2**30
# Imported before a process is forked in which the package is not imported yet.
LIBRARIES = [
    "array_api_compat",
    "array_api_strict",
    "hypothesis.extra.numpy",
    "matplotlib.pyplot",
    "mpmath",
    "pandas",
    "polars",
    "pytest",
    "scipy.stats",
    "sklearn.utils.estimator_checks",
    "xarray",
]
PYTEST = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.BitXor: ("^", "|"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(LIBRARIES)


@dataclass(frozen=True)
class Mutant:
    """A change of the code: the bytes from `start` to `stop` of a file become `new`."""

    path: str
    name: str  # of the function or class
    line: str  # the text of the line where it begins
    lines: tuple[int, int]
    start: int
    stop: int
    old: str
    new: str
    key: str  # the same while the function is the same, wherever it stands

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]} ({self.name}): {self.old!r} -> {self.new!r}"


def mutants_of(source: str, path: str = "") -> list[Mutant]:
    """Return each change of a module's source."""
    code = source.encode()
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        start = starts[node.lineno - 1] + node.col_offset
        return start, starts[node.end_lineno - 1] + node.end_col_offset

    found, seen = [], Counter[str]()
    for node, name, statement in _walk(ast.parse(source)):
        for start, stop, new in _changes(node, span, code):
            old = code[start:stop].decode()
            text = code[slice(*span(statement))].decode() if statement.end_lineno else ""
            what = f"{path} {name} {text} {old} {new}"
            seen[what] += 1
            key = hashlib.sha256(f"{what} {seen[what]}".encode()).hexdigest()
            line = source.splitlines()[code[:start].count(b"\n")].strip()
            lines = (statement.lineno, node.end_lineno)
            found.append(Mutant(path, name, line, lines, start, stop, old, new, key))
    return found


def _walk(tree: ast.Module) -> Iterator[tuple[Any, str, Any]]:
    """Yield nodes that may be changed, the name of their function, and their statement."""

    def below(node: ast.AST, name: str, statement: Any) -> Iterator[tuple[Any, str, Any]]:
        for field, value in ast.iter_fields(node):
            # Annotations, types and decorators do not compute.
            if field in {"annotation", "returns", "decorator_list"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                inner, around = name, statement
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    inner = f"{name}.{child.name}".lstrip(".")
                if isinstance(child, ast.stmt):
                    around = child
                yield child, inner, around
                yield from below(child, inner, around)

    return below(tree, "", tree)


def _changes(node: Any, span: Any, code: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where a node is changed, and what comes there."""

    def between(left: Any, right: Any, operator: Any) -> Iterator[tuple[int, int, str]]:
        if type(operator) in SWAPS:
            old, new = SWAPS[type(operator)]
            start = code.index(old.encode(), span(left)[1], span(right)[0])
            yield start, start + len(old), new

    match node:
        case ast.Compare():
            for left, operator, right in zip(
                [node.left, *node.comparators], node.ops, node.comparators, strict=False
            ):
                yield from between(left, right, operator)
        case ast.BinOp():
            yield from between(node.left, node.right, node.op)
        case ast.BoolOp():
            for left, right in pairwise(node.values):
                yield from between(left, right, node.op)
        case ast.UnaryOp(op=ast.Not()):
            yield span(node)[0], span(node)[0] + len("not"), ""
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield span(node)[0], span(node)[0] + len("-"), ""
        case ast.Constant(value=bool()):
            yield *span(node), str(not node.value)
        case ast.Constant(value=int() | float()):
            yield *span(node), repr(node.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            start, stop = span(node.test)
            yield start, stop, f"not ({code[start:stop].decode()})"
        case ast.Return(value=ast.AST() as value) if ast.unparse(value) != "None":
            yield *span(node), "return None"
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield *span(node), "pass"


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return some of the mutants; code that did not change gives the same ones again."""
    order = {m.key: hashlib.sha256(f"{seed} {m.key}".encode()).digest() for m in mutants}
    return sorted(mutants, key=lambda m: order[m.key])[:count]


def changed(mutant: Mutant, code: bytes) -> bytes:
    """Return the code of a file with a change; other lines keep their numbers."""
    lines = mutant.old.count("\n") - mutant.new.count("\n")
    return code[: mutant.start] + mutant.new.encode() + b"\n" * lines + code[mutant.stop :]


class Runs:
    """Which tests run a line, from coverage with a context for each test."""

    def __init__(self, data_file: Path) -> None:
        from coverage import CoverageData  # noqa: PLC0415 - pytest reads this module, too

        data = CoverageData(str(data_file))
        data.read()
        self._tests: dict[str, dict[int, set[str]]] = {}
        self._size = Counter[str]()
        for file in data.measured_files():
            lines = {
                line: {name.rpartition("|")[0] for name in names}
                for line, names in data.contexts_by_lineno(file).items()
            }
            path = f"{PACKAGE}/{file.rpartition('/positional_embeddings/')[2]}"
            self._tests[path] = lines
            for tests in lines.values():
                self._size.update(tests)
        self.names = self._size.keys()  # of all tests, and "" of none

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that run a mutant, one case of each first, those of its package first.

        What runs at import is tested by all tests of its package, and then by all others that run
        any line of the module.
        """
        found = self._contexts(mutant)
        tests = found - {""}
        package = mutant.path.removeprefix(f"{PACKAGE}/").partition("/")[0]
        package = f"tests/{package}/".replace("sklearn", "scikit_learn")
        if found and not tests:
            tests = set().union(*self._tests[mutant.path].values()) - {""}
            own = {test for test in self.names if package in test and tests}
            return self._in_turn(own, package) + self._in_turn(tests - own, package)
        return self._in_turn(tests, package)

    def _in_turn(self, tests: set[str], package: str) -> list[str]:
        """Return one case of each test, then the next one of each, and so on."""
        cases: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (package not in test, self._size[test], test)):
            cases[test.partition("[")[0]].append(test)
        return [test for some in zip_longest(*cases.values()) for test in some if test]

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Tell whether a mutant runs before the tests do."""
        return "" in self._contexts(mutant)

    def _contexts(self, mutant: Mutant) -> set[str]:
        lines = self._tests.get(mutant.path, {})
        first, last = mutant.lines
        return {name for line in range(first, last + 1) for name in lines.get(line, ())}


def start_test_process(tree: Path, log: Path) -> None:
    """Prepare a process that runs tests: of its own group, and with a limit of memory."""
    import resource  # noqa: PLC0415 - not on Windows

    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    see_tree(tree)


def see_tree(tree: Path) -> None:
    """Let this process see a copy of the checkout."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path.insert(0, str(tree / "src"))
    sys.dont_write_bytecode = True


class Forks:
    """Runs the tests of changed functions, each in a fork of this process (a plugin of pytest)."""

    def __init__(self, tree: Path, runs: Runs, jobs: int, seconds: float) -> None:
        self._tree, self._runs, self._jobs, self._seconds = tree, runs, jobs, seconds
        self._passes: dict[str, bool] = {}  # whether a test passes without a change
        self._running: dict[int, Mutant] = {}

    def run(
        self, todo: list[Mutant], options: list[str], record: Callable[[Mutant, str, str], None]
    ) -> list[Mutant]:
        """Record what the tests find; return the changes that have to be made in a file."""
        import pytest  # noqa: PLC0415 - other processes have imported it before

        self._todo, self._record, self._left = deque(todo), record, list[Mutant]()
        see_tree(self._tree)
        status = pytest.main(["-s", *PYTEST, *options], plugins=[self])
        if status:
            sys.exit("The tests cannot be collected.")
        return self._left

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the tests of each change, rather than all tests."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        functions: dict[CodeType, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if type(found) is FunctionType and PACKAGE in found.__code__.co_filename:
                functions[found.__code__].append(found)
        gc.freeze()  # else forks would copy all memory
        while self._todo or self._running:
            if not self._todo or len(self._running) == self._jobs:
                self._wait()
                continue
            mutant = self._todo.popleft()
            codes = new_codes(self._tree / mutant.path, mutant)
            swaps = [(function, new) for old, new in codes for function in functions[old]]
            if swaps:
                pid = self._fork(swaps, self._runs.of(mutant))
                self._running[pid] = mutant
            else:
                self._left.append(mutant)
        return True

    def _fork(self, swaps: list[tuple[FunctionType, CodeType]], tests: list[str]) -> int:
        """Start tests of functions with new code; the file of its number names what fails."""
        items = [self._items[test] for test in tests if self._passes.get(test, True)]
        if pid := os.fork():
            return pid
        status = 1
        try:
            start_test_process(self._tree, Path(os.devnull))
            for function, code in swaps:
                function.__code__ = code
            end = time.monotonic() + self._seconds
            for item, following in pairwise([*items, None]):
                if time.monotonic() > end:
                    break
                self._last(os.getpid()).write_text(item.nodeid, encoding="utf-8")
                self._session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._session.testsfailed:
                    os._exit(1)
            status = 0
        finally:
            os._exit(status)

    def _last(self, pid: int) -> Path:
        """Return the file that names the last test of a fork."""
        return self._tree / f"last-{pid}"

    def _ended(self, pid: int) -> tuple[int, str] | None:
        """Return the status of a fork and its last test, None if it goes on.

        A test that takes too long is ended: it loops, or waits for a thread, which forks lack.
        """
        own, status = os.waitpid(pid, os.WNOHANG)
        last = self._last(pid)
        if not own:
            if last.exists() and time.time() - last.stat().st_mtime > max(self._seconds, LONGEST):
                os.killpg(pid, signal.SIGKILL)
            return None
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what a test has started
        test = last.read_text(encoding="utf-8") if last.exists() else ""
        last.unlink(missing_ok=True)
        return status, test

    def _wait(self) -> None:
        """Wait for a moment, and record the changes whose tests have ended."""
        time.sleep(0.01)
        for pid, mutant in list(self._running.items()):
            if (ended := self._ended(pid)) is None:
                continue
            del self._running[pid]
            status, test = ended
            if test and status and not self._passes_without_change(test):
                print(f"Left out, since it fails without any change: {test}", flush=True)
                self._todo.append(mutant)
            elif status:
                is_over = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
                self._record(mutant, "timeout" if is_over else "killed", test)
            elif self._runs.runs_at_import(mutant):
                self._left.append(mutant)
            else:
                self._record(mutant, "survived", "")

    def _passes_without_change(self, test: str) -> bool:
        if test not in self._passes:
            pid = self._fork([], [test])
            while (ended := self._ended(pid)) is None:
                time.sleep(0.01)
            self._passes[test] = not ended[0]
        return self._passes[test]


def new_codes(file: Path, mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Return the code of functions before and after a change, none if it is in no function."""
    source = file.read_bytes()
    old, new = (
        list(functions_of(compile(text, str(file), "exec")))
        for text in (source, changed(mutant, source))
    )
    if len(old) != len(new):  # a comprehension is gone, which runs at import
        return []
    pairs = [
        [list(all_of(code)) for code in pair]
        for pair in zip(old, new, strict=True)
        if pair[0] != pair[1]
    ]
    return [inner for own in pairs for inner in zip(*own, strict=False)]


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions and methods, but not of functions inside them."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            is_function = inner.co_flags & inspect.CO_OPTIMIZED
            yield from [inner] if is_function else functions_of(inner)


def all_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of functions inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from all_of(inner)


class Chosen:
    """Runs the chosen tests in their order, until their time is over (a plugin of pytest)."""

    def __init__(self, tests: list[str], seconds: float, failed: Path) -> None:
        self._place = {test: number for number, test in enumerate(tests)}
        self._seconds, self._failed = seconds, failed

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Keep the chosen tests, in their order."""
        others = [item for item in items if item.nodeid not in self._place]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid in self._place]
        items.sort(key=lambda item: self._place[item.nodeid])
        self._end = time.monotonic() + self._seconds

    def pytest_runtest_protocol(self) -> bool | None:
        """Run no further tests when the time is over."""
        return True if time.monotonic() > self._end else None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the name of a test that failed."""
        if report.failed:
            self._failed.write_text(report.nodeid, encoding="utf-8")


def run_pytest(tree: Path, tests: list[str], seconds: float, options: list[str]) -> None:
    """Run tests in a copy of the checkout, and end this process with pytest's status."""
    start_test_process(tree, tree / "chosen.log")
    import pytest  # noqa: PLC0415 - imported before, by the process that is forked

    files = sorted({test.partition("::")[0] for test in tests})
    plugins = [Chosen(tests, seconds, tree / "failed")]
    os._exit(int(pytest.main(["-x", *PYTEST, *options, *files], plugins=plugins)))


def outcome(tree: Path, mutant: Mutant, *arguments: Any) -> tuple[str, str]:
    """Make a change in a file and run tests; return what became of it, and what test failed."""
    file, failed = tree / mutant.path, tree / "failed"
    original = file.read_bytes()
    file.write_bytes(changed(mutant, original))
    failed.write_text("", encoding="utf-8")
    try:
        process = FORKS.Process(target=run_pytest, args=(tree, *arguments))
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return "timeout", ""
        if process.exitcode == 5:
            said = (tree / "chosen.log").read_text(encoding="utf-8")
            message = f"no test of {mutant} was found:\n{said}"
            raise RuntimeError(message)
    finally:
        file.write_bytes(original)
    return "killed" if process.exitcode else "survived", failed.read_text(encoding="utf-8")


def copy_tree(source: Path, to: Path) -> None:
    """Copy what the tests need of the checkout."""
    shutil.rmtree(to, ignore_errors=True)
    unneeded = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(source, to, ignore=unneeded)


@cache
def digest(*files: Path) -> str:
    """Return a hash of files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def digest_of_all(source: Path) -> str:
    """Return a hash of the code and its tests."""
    return digest(*sorted(p for part in ("src", "tests") for p in (source / part).rglob("*.py")))


class Results:
    """What became of changes, kept in a file."""

    def __init__(self, file: Path, source: Path, runs: Runs, seconds: float) -> None:
        self._file, self._source, self._runs, self._seconds = file, source, runs, seconds
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
        self._known = {one["key"]: one for one in map(json.loads, lines)}

    def of(self, mutant: Mutant) -> str | None:
        """Return what became of a change, None if that is not known or may be different now."""
        one = self._known.get(self._key(mutant))
        if one is None:
            return None
        if one["outcome"] == "survived":
            holds = one["tests"] == self._tests(mutant) and one["seconds"] >= self._seconds
        else:
            holds = one["by"] in self._runs.names
        return str(one["outcome"]) if holds else None

    def add(self, mutant: Mutant, outcome: str, by: str) -> None:
        """Keep what became of a change, and what test failed."""
        key, tests = self._key(mutant), self._tests(mutant)
        own = {"key": key, "outcome": outcome, "by": by, "tests": tests, "seconds": self._seconds}
        self._known[key] = own
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(mutant) | own) + "\n")

    def _key(self, mutant: Mutant) -> str:
        return f"{mutant.key}-{digest(self._source / mutant.path)}"

    def _tests(self, mutant: Mutant) -> str:
        files = sorted({test.partition("::")[0] for test in self._runs.of(mutant)})
        return digest(*(self._source / file for file in files))


def measured(source: Path, folder: Path, options: list[str]) -> Runs:
    """Run all tests once, noting which of them run each line."""
    data_file = folder / f"coverage-{digest_of_all(source)}"
    if not data_file.exists():
        print("Noting which tests run each line (some minutes) ...", flush=True)
        tree = folder / "tree"
        copy_tree(source, tree)
        cov = ["--numprocesses=auto", "--cov", "--cov-context=test", "--cov-report="]
        cov.append("--cov-fail-under=0")
        environment = {"PYTHONPATH": str(tree / "src"), "COVERAGE_FILE": str(data_file)}
        # The core of Python 3.14 notes a line for the first test alone.
        environment["COVERAGE_CORE"] = "ctrace"
        done = subprocess.run(  # noqa: S603 - this environment's pytest
            [sys.executable, "-B", "-m", "pytest", *PYTEST, *cov, *options],
            cwd=tree,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            data_file.unlink(missing_ok=True)
            sys.exit(f"The tests fail without any change:\n{done.stdout[-3000:]}")
    return Runs(data_file)


def table(outcomes: dict[Mutant, str]) -> str:
    """Return a table of how many changes of each package were killed."""
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, found in outcomes.items():
        package = mutant.path.removeprefix(f"{PACKAGE}/").rpartition("/")[0] or "top"
        for name in (package, "all"):
            packages[name].update([found, "changes"])
    lines = [
        "| package | changes | killed | survived |",
        "| --- | --- | --- | --- |",
    ]
    for package, counts in sorted(packages.items(), key=lambda item: (item[0] == "all", item[0])):
        killed = counts["killed"] + counts["timeout"]
        numbers = counts["changes"], killed, counts["survived"]
        lines.append(f"| {package} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def main() -> None:
    """Print the number of changes that the tests notice in each package, and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="how many changes (all)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
    parser.add_argument("--only", default="", help="part of the paths of files to change")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--seconds", type=float, default=20, help="time of tests of a change (20)")
    parser.add_argument("--source", type=Path, default=ROOT, help="a checkout (this one)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv/mutants")
    parser.add_argument("--pytest", default="", help="further options of pytest")
    options = parser.parse_args()
    folder, source = options.folder.resolve(), options.source.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    extra = options.pytest.split()

    runs = measured(source, folder, extra)
    mutants = [
        mutant
        for file in sorted((source / PACKAGE).rglob("*.py"))
        if options.only in (path := file.relative_to(source).as_posix())
        and not path.endswith(LEFT_OUT)
        for mutant in mutants_of(file.read_text(encoding="utf-8"), path)
    ]
    run = [mutant for mutant in mutants if runs.of(mutant)]
    print(f"{len(mutants)} changes, of lines that a test runs: {len(run)}", flush=True)
    drawn = sample(run, options.count or len(run), options.seed)

    results = Results(folder / "results.jsonl", source, runs, options.seconds)
    todo = [mutant for mutant in drawn if results.of(mutant) is None]
    progress = tqdm(total=len(drawn), initial=len(drawn) - len(todo), unit="change")

    def record(mutant: Mutant, found: str, by: str) -> None:
        results.add(mutant, found, by)
        progress.update()
        if found == "survived":
            tqdm.write(f"{found} {mutant}")

    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.jobs):
        copy_tree(source, folder / f"tree{number}")
        trees.put(folder / f"tree{number}")

    def change_file(mutant: Mutant) -> None:
        tree = trees.get()
        try:
            some = runs.of(mutant)[:MOST]
            record(mutant, *outcome(tree, mutant, some, options.seconds, extra))
        finally:
            trees.put(tree)

    forks = Forks(folder / "tree0", runs, options.jobs, options.seconds)
    left = forks.run(todo, extra, record) if todo else []
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(change_file, left))
    progress.close()
    outcomes = {mutant: results.of(mutant) or "" for mutant in drawn}
    survivors = [mutant for mutant in drawn if outcomes[mutant] == "survived"]
    print(f"\n{table(outcomes)}\n\nSurvivors: {len(survivors)}")
    print("\n".join(f"  {mutant}" for mutant in survivors) or "  none")


if __name__ == "__main__":
    main()
