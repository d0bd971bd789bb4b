"""Change the code in small ways, one at a time, and list the changes that no test notices.

All changes, or a sample that a seed draws: the same code gives the same sample. Each change is made
in a copy of the checkout, where the tests that run the changed line are run, the ones that run
least code first, in a forked process that has the libraries imported already. A result holds until
the changed file or the files of these tests change, so that an interrupted run goes on where it
ended. The tests see the libraries of the environment that runs this program.
"""

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/positional_embeddings"
# Compiled where neither coverage nor these tests see it, or written for a GPU.
LEFT_OUT = ("kernels/numba_kernel.py", "kernels/cupy_kernel.py", "__main__.py")
TIMEOUT = 300
MEMORY = 12 * 2**30
FEW = 12  # tests that are run first; most changes fail one of them
# Imported before a process is forked for each change. The package itself is not.
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
CHOSEN = "MUTANTS_TESTS"  # the environment's variable that names a file of tests to run

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
            lines = (statement.lineno, node.end_lineno)
            found.append(Mutant(path, name, lines, start, stop, old, new, key))
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


class Runs:
    """Which tests run a line, from coverage with a context for each test."""

    def __init__(self, data_file: Path) -> None:
        from coverage import CoverageData  # noqa: PLC0415 - pytest reads this module, too

        data = CoverageData(str(data_file))
        data.read()
        self._tests: dict[str, dict[int, list[str]]] = {}
        self._size = Counter[str]()
        for file in data.measured_files():
            lines = {
                line: [name.partition("|")[0] for name in names if name]
                for line, names in data.contexts_by_lineno(file).items()
            }
            path = f"{PACKAGE}/{file.rpartition('/positional_embeddings/')[2]}"
            self._tests[path] = lines
            for tests in lines.values():
                self._size.update(set(tests))

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that run a mutant, the ones that run fewest lines first.

        What runs at import is tested by all tests that run any line of the module.
        """
        lines = self._tests.get(mutant.path, {})
        first, last = mutant.lines
        tests = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        if not tests and any(line in lines for line in range(first, last + 1)):
            tests = {test for some in lines.values() for test in some}
        return sorted(tests, key=lambda test: (self._size[test], test))


def pytest_configure() -> None:
    """Let a test that takes all memory fail (read by pytest, as a plugin)."""
    import resource  # noqa: PLC0415 - not on Windows

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the chosen tests, in their order (read by pytest, as a plugin)."""
    chosen = json.loads(Path(os.environ[CHOSEN]).read_text(encoding="utf-8"))
    place = {test: number for number, test in enumerate(chosen)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
    items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])


def started_pytest(tree: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start pytest in a copy of the checkout."""
    paths = os.pathsep.join([str(tree / "src"), str(ROOT / ".ci")])
    return subprocess.Popen(  # noqa: S603 - this environment's pytest
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_pytest(tree: Path, arguments: list[str], chosen: Path) -> None:
    """Run pytest in a copy of the checkout, and end this process with its status."""
    os.setsid()
    os.chdir(tree)
    log = os.open(chosen.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= {CHOSEN: str(chosen), "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT / '.ci'}"}
    sys.path[:0] = [str(tree / "src"), str(ROOT / ".ci")]
    sys.dont_write_bytecode = True
    import pytest  # noqa: PLC0415 - imported before, by the process that is forked

    # hypothesis, a plugin of pytest, was imported before.
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main(["-q", "-p", "no:cacheprovider", *ignored, *arguments])
    os._exit(int(status))


def outcome(tree: Path, mutant: Mutant, tests: list[str], options: list[str]) -> str:
    """Run the tests on a mutant: killed, timeout or survived."""
    file = tree / mutant.path
    original = file.read_bytes()
    file.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.stop :])
    try:
        for some in filter(None, (tests[:FEW], tests[FEW:])):
            status = status_of(tree, some, options)
            if status is None:
                return "timeout"
            if status == 5:
                said = (tree / "chosen.log").read_text(encoding="utf-8")
                message = f"no test of {mutant} was found:\n{said}"
                raise RuntimeError(message)
            if status:
                return "killed"
    finally:
        file.write_bytes(original)
    return "survived"


def status_of(tree: Path, tests: list[str], options: list[str]) -> int | None:
    """Return the exit status of some tests, None after a timeout."""
    chosen = tree / "chosen.json"
    chosen.write_text(json.dumps(tests), encoding="utf-8")
    files = sorted({test.partition("::")[0] for test in tests})
    arguments = ["-x", "-p", "mutants", *options, *files]
    process = FORKS.Process(target=run_pytest, args=(tree, arguments, chosen))
    process.start()
    process.join(TIMEOUT)
    if process.exitcode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


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


def result_key(source: Path, mutant: Mutant, tests: list[str]) -> str:
    """Return a hash of a mutant, the code around it and the tests that run it."""
    files = sorted({test.partition("::")[0] for test in tests})
    return f"{mutant.key}-{digest(source / mutant.path, *(source / file for file in files))}"


def measured(source: Path, folder: Path, options: list[str]) -> Runs:
    """Run all tests once, noting which of them run each line."""
    data_file = folder / f"coverage-{digest_of_all(source)}"
    if not data_file.exists():
        print("Noting which tests run each line (some minutes) ...", flush=True)
        copy_tree(source, folder / "tree")
        running = started_pytest(
            folder / "tree",
            *("--cov", "--cov-context=test", "--cov-report=", "--cov-fail-under=0", *options),
            COVERAGE_FILE=str(data_file),
        )
        said, _ = running.communicate()
        if running.returncode:
            data_file.unlink(missing_ok=True)
            sys.exit(f"The tests fail without any change:\n{said[-3000:]}")
    return Runs(data_file)


def main() -> None:
    """Print each mutant and its outcome, and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="how many changes (all)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (0)")
    parser.add_argument("--only", default="", help="part of the paths of files to change")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--source", type=Path, default=ROOT, help="a checkout (this one)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv/mutants")
    parser.add_argument("--pytest", default="", help="further options of pytest")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    extra = options.pytest.split()

    runs = measured(options.source, options.folder, extra)
    mutants = [
        mutant
        for file in sorted((options.source / PACKAGE).rglob("*.py"))
        if options.only in (path := file.relative_to(options.source).as_posix())
        and not path.endswith(LEFT_OUT)
        for mutant in mutants_of(file.read_text(encoding="utf-8"), path)
    ]
    run = [mutant for mutant in mutants if runs.of(mutant)]
    print(f"{len(mutants)} changes, of lines that a test runs: {len(run)}", flush=True)
    results = options.folder / "results.jsonl"
    known = {}
    if results.exists():
        lines = results.read_text(encoding="utf-8").splitlines()
        known = {one["result"]: one["outcome"] for one in map(json.loads, lines)}

    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.jobs):
        copy_tree(options.source, options.folder / f"tree{number}")
        trees.put(options.folder / f"tree{number}")

    def outcome_of(mutant: Mutant) -> str:
        tests = runs.of(mutant)
        key = result_key(options.source, mutant, tests)
        if key not in known:
            tree = trees.get()
            try:
                found = outcome(tree, mutant, tests, extra)
            finally:
                trees.put(tree)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(mutant) | {"result": key, "outcome": found}) + "\n")
            known[key] = found
            if found != "killed":
                tqdm.write(f"{found:8} {mutant}")
        return known[key]

    by_outcome: dict[str, list[Mutant]] = defaultdict(list)
    drawn = sample(run, options.count or len(run), options.seed)
    unchanged = replace(drawn[0], stop=drawn[0].start, new="")
    if outcome(options.folder / "tree0", unchanged, runs.of(drawn[0]), extra) != "survived":
        sys.exit("Chosen tests fail without any change.")
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = tqdm(pool.map(outcome_of, drawn), total=len(drawn), unit="change")
        for mutant, found in zip(drawn, outcomes, strict=True):
            by_outcome[found].append(mutant)
    survivors = by_outcome["survived"]
    print(f"\n{len(drawn) - len(survivors)} of {len(drawn)} killed; survivors:")
    print("\n".join(f"  {mutant}" for mutant in survivors) or "  none")


if __name__ == "__main__":
    main()
