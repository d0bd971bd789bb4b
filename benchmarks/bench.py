"""Time this library against a copy and against others, in the same run.

Each number of threads is a process of its own, since most libraries read their limits
only when they are loaded. All contenders of a case are compared with values of float64,
then timed in alternation; a copy of the input by NumPy is the unit. Prints each case as it
is measured, and writes tables and a chart.

    python benchmarks/bench.py [--quick] [--threads 1 2] [--only rotation,attention]
"""

import argparse
from typing import Any

from cases.attention import attention, cached_step, decoding_step, few_queries
from cases.imports import importing
from cases.masks import biases, masks
from cases.rotation import complex_numbers, decoding, positions, rotation
from cases.sparse import sparse
from cases.tables import tables
from harness.contenders import Settings
from harness.machine import cores
from harness.report import case_table, parser, terminal, write_report
from harness.targets import verdicts
from harness.worker import messages
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

TITLE = (
    "Rotary embeddings on the CPU: time in multiples of a copy of the input, less is better\n"
    "dashed line: a copy; full bars: one thread; pale bars below: two threads"
)
TOPICS = {
    "rotation": rotation,
    "complex": complex_numbers,
    "decoding": decoding,
    "positions": positions,
    "attention": attention,
    "few queries": few_queries,
    "decoding step": decoding_step,
    "cached step": cached_step,
    "sparse": sparse,
    "tables": tables,
    "masks": masks,
    "biases": biases,
    "import": importing,
}
# The number of threads makes a difference to these.
THREADED = ("rotation", "complex", "decoding", "attention", "sparse")


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
            topics = [topic for topic in options.only if order == 0 or topic in THREADED]
            if threads > cores():
                console.print(f"{threads} threads left out: there are {cores()} cores.")
            elif topics:
                results += measure(topics, Settings(threads, options.quick), progress)
    whole = options.only == list(TOPICS)
    found = verdicts(results)
    write_report(console, results, found, options, name="bench", title=TITLE, whole=whole)


def measure(topics: list[str], settings: Settings, progress: Progress) -> list[dict[str, Any]]:
    """Measure in a process of its own, and print what it sends."""
    results: list[dict[str, Any]] = []
    of_process = f"{settings.threads} threads"
    task = progress.add_task(f"{of_process}: starting", total=None)
    case = "the start"
    for kind, value in messages([TOPICS[topic] for topic in topics], settings):
        if kind == "total":
            progress.update(task, total=value)
        elif kind == "case":
            case = value
            progress.update(task, description=f"{of_process}: {case}")
        elif kind == "result":
            results.append(value)
            progress.console.print(case_table(value))
            progress.advance(task)
        elif value:
            progress.console.print(f"The process of {of_process} ended in {case}: {value}.")
    progress.update(task, description=f"{of_process}: done")
    return results


def _options() -> argparse.Namespace:
    made = parser("Time this library against others.")
    made.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads")
    made.add_argument("--only", help=f"topics with commas between: {','.join(TOPICS)}")
    options = made.parse_args()
    options.only = options.only.split(",") if options.only else list(TOPICS)
    if unknown := sorted(set(options.only) - set(TOPICS)):
        made.error(f"unknown topics {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    if min(options.threads) < 1:
        made.error("--threads must be positive")
    return options


if __name__ == "__main__":
    main()
