"""Write the table of docs/results/vectors.md: who passes how many vectors.

    python vectors/table.py [--peer NAME ...] [--output docs/results/vectors.md]

Every peer has to be installed. With `--peer` only some are run, and printed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
os.environ["KERAS_BACKEND"] = "numpy"
sys.path[:0] = [str(FOLDER), str(FOLDER / "runners")]

from check import DTYPES, GROUPS, CannotError, Run, Verdict, read, verdicts  # noqa: E402

OURS = {"this library": "numpy", "this library, PyTorch": "torch", "this library, JAX": "jax"}
RUNNERS = {"PyTorch": ("torch_run", "torch"), "JAX": ("jax_run", "jax")}
PEERS = ("transformers", "rotary_embedding_torch", "x_transformers", "positional_encodings")
PEERS += ("onnx", "keras", "e3nn", "scipy", "pandas", "sklearn")
C = "C (long double)"
# It compiles each step of each degree, which takes many minutes.
LEFT_OUT = {"this library, JAX": "HighDegree"}
LINE = re.compile(r"(\S+)\.json (\w+): (\d+) pass, (\d+) fail, (\d+) cannot")
MARKS = "<!-- table -->", "<!-- end of the table -->"


def of_peer(module: Any) -> Run:
    """Return what runs a test on a peer."""

    def run(function: str, p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
        if function not in module.FUNCTIONS:
            raise CannotError("")
        found: dict[str, Any] = module.FUNCTIONS[function](p, x, dtype)
        return found

    return run


def opened(name: str) -> tuple[Run, list[str], str]:
    """Return how to run a peer, its dtypes, and its versions."""
    if name in OURS:
        ours = import_module("numpy_run")
        library, dtypes = ours.opened(OURS[name])
        return ours.runner(library), dtypes, ""
    if name in RUNNERS:
        module, package = (RUNNERS[name][0], RUNNERS[name][1])
        runner = import_module(module)
        return runner.run, runner.DTYPES, f"{name} {version(package).partition('+')[0]}"
    peer = import_module(f"peers.{name}")
    versions = ", ".join(f"{package} {version(package)}" for package in peer.PACKAGES)
    return of_peer(peer), peer.DTYPES, versions


def flags_of(found: list[Verdict]) -> str:
    """Return the flags of tests that failed, the most frequent ones first."""
    failed = {v.test["id"]: v.test for v in found if v.outcome == "fail"}
    counts = Counter(flag for test in failed.values() for flag in test["flags"] or ["no flag"])
    return ", ".join(f"{flag} {count}" for flag, count in counts.most_common(4))


def rows_of(name: str, title: str, run: Run, dtypes: list[str]) -> dict[str, list[str]]:
    """Return a row of the table for each group in which a peer can do something."""
    rows = {}
    for group in GROUPS:
        tests = [t for t in read(group)["tests"] if LEFT_OUT.get(name) not in t["flags"]]
        found = list(verdicts(run, dtypes, tests))
        cells = []
        for dtype in DTYPES:
            counts = Counter(v.outcome for v in found if v.dtype == dtype)
            is_all = not counts["fail"] and not counts["cannot"]
            text = "/".join(str(counts[key]) for key in ("pass", "fail", "cannot"))
            cells.append("" if not counts else f"**{counts['pass']}**" if is_all else text)
        if any(v.outcome != "cannot" for v in found):
            rows[group] = [title, *cells, flags_of(found)]
        print(f"{name} {group}: {' '.join(cells)} {flags_of(found)}", flush=True)
    return rows


def rows_of_c() -> dict[str, list[str]]:
    """Compile and run the program in C."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = FOLDER / "runners" / "c" / "run.c", Path(folder) / "run"
        subprocess.run(["cc", "-O2", "-o", program, source, "-lm"], check=True)  # noqa: S603, S607
        rows: dict[str, list[str]] = {}
        for group in GROUPS:
            command = [program, FOLDER / f"{group}.json"]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            cells = dict.fromkeys(DTYPES, "")
            for _, dtype, good, bad, cannot in LINE.findall(ran.stdout):
                cells[dtype] = (
                    f"{good}/{bad}/{cannot}" if bad != "0" or cannot != "0" else f"**{good}**"
                )
            tests = {test["id"]: test for test in read(group)["tests"]}
            ids = set(re.findall(r"^(\S+) fails in", ran.stdout, re.MULTILINE))
            failed = [Verdict(tests[name], "", "fail", "") for name in sorted(ids)]
            if any(not cell.startswith("0/0/") for cell in cells.values() if cell):
                rows[group] = [C, *cells.values(), flags_of(failed)]
    return rows


def table(rows: list[dict[str, list[str]]]) -> str:
    """Return the table, by group."""
    lines = [f"| group | library | {' | '.join(DTYPES)} | what fails |", "| --- " * 7 + "|"]
    for group in GROUPS:
        own = [row[group] for row in rows if group in row]
        lines += [
            f"| {group if number == 0 else ''} | {' | '.join(row)} |"
            for number, row in enumerate(own)
        ]
    return "\n".join(re.sub(" +", " ", line) for line in lines)


def main() -> None:
    """Run all peers, and write the page."""
    parser = argparse.ArgumentParser(description="Who passes how many vectors.")
    names = [*OURS, *RUNNERS, *PEERS]
    parser.add_argument("--peer", choices=names, action="append")
    page = FOLDER.parent / "docs" / "results" / "vectors.md"
    parser.add_argument("--output", type=Path, default=page)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, versions = [], []
    for name in options.peer or names:
        run, dtypes, own = opened(name)
        peer = sys.modules.get(f"peers.{name}")
        rows.append(rows_of(name, getattr(peer, "TITLE", name), run, dtypes))
        versions.append(own)
        if name == "JAX" and not options.peer:
            rows.append(rows_of_c())
    if options.peer:
        return
    text = options.output.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    made = f"{table(rows)}\n\nVersions: {', '.join(filter(None, versions))}."
    page = f"{before}{MARKS[0]}\n\n{made}\n\n{MARKS[1]}{after}"
    options.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
