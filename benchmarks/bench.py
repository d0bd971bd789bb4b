"""Time this library against a copy and against others, in the same run.

Each number of threads is a process of its own, since most libraries read their limits
only when they are loaded. All contenders of a case are compared with values of float64,
then timed in turns; a copy of the input by NumPy is the unit. Prints each case as it is
measured, and writes tables, a JSON file and a chart.

    python benchmarks/bench.py [--quick] [--threads 1 2] [--only rotation,attention]
"""

import argparse
import json
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from machine import cores, description, limited
from report import (
    case_table,
    headline,
    markdown,
    missing,
    others,
    print_table,
    terminal,
    verdicts_table,
)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from targets import verdicts
from worker import TOPICS, work

TITLE = (
    "Rotary embeddings on the CPU: time in multiples of a copy of the input, less is better\n"
    "dashed line: a copy; full bars: one thread; pale bars below: two threads"
)
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure, print and write."""
    options = _options()
    console = terminal()
    results: list[dict[str, Any]] = []
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, refresh_per_second=1) as progress:
        for order, threads in enumerate(options.threads):
            topics = [topic for topic in options.only if order == 0 or TOPICS[topic][2]]
            if threads > cores():
                console.print(f"{threads} threads left out: there are {cores()} cores.")
            elif topics:
                results += measure(topics, threads, quick=options.quick, progress=progress)
    written = {"machine": description(), "quick": options.quick, "missing": missing(results)}
    report(console, written | {"results": results}, options.results)


def measure(
    topics: list[str], threads: int, *, quick: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Measure in a process of its own, and print what it sends."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender, topics, threads), kwargs={"quick": quick})
    with limited(threads):
        process.start()
    sender.close()
    results: list[dict[str, Any]] = []
    task = progress.add_task(f"{threads} threads: starting", total=None)
    name = "the start"
    try:
        while True:
            kind, value = receiver.recv()
            if kind == "total":
                progress.update(task, total=value)
            elif kind == "case":
                name = value
                progress.update(task, description=f"{threads} threads: {name}")
            else:
                results.append(value)
                progress.console.print(case_table(value))
                progress.advance(task)
    except EOFError:
        process.join()
    progress.update(task, description=f"{threads} threads: done")
    if process.exitcode:
        progress.console.print(
            f"The process of {threads} threads ended in {name}: {process.exitcode}."
        )
    return results


def report(console: Console, written: dict[str, Any], folder: Path) -> None:
    """Print the tables, and write the files."""
    from chart import draw  # noqa: PLC0415 - a worker needs no matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    found = verdicts(written["results"])
    for table in (headline(written["results"]), others(written["results"]), verdicts_table(found)):
        print_table(console, table)
    if written["quick"]:
        console.print("A quick run: its sizes are too small to judge by.")
    for package in written["missing"]:
        console.print(f"missing: {package} (pip install {package})")
    written["targets"] = [vars(verdict) for verdict in found]
    text = json.dumps(written, indent=1)
    (folder / "bench.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "bench.md").write_text(markdown(written, found), encoding="utf-8")
    draw(written, folder / "bench.png", TITLE)
    console.print(f"Written to {folder}: bench.json, bench.md, bench.png")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time this library against others.")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, to try")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--only", help=f"topics with commas between: {','.join(TOPICS)}")
    parser.add_argument("--results", type=Path, help="folder to write to, benchmarks/results")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else list(TOPICS)
    if unknown := sorted(set(options.only) - set(TOPICS)):
        parser.error(f"unknown topics {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    if min(options.threads) < 1:
        parser.error("--threads must be positive")
    if options.results is None:
        # What is tried quickly must not replace what was measured.
        options.results = (
            Path(tempfile.mkdtemp()) if options.quick or options.only != list(TOPICS) else RESULTS
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
