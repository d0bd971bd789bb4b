"""Time and memory of calls that once cost many times what they should.

Prints a Markdown table; `--before` adds the figures of an earlier run, which may come from
an older version of the library (by PYTHONPATH). Times are the least of several calls, of
one call if that takes seconds; memory is what Python and NumPy held at most during a call.

    python benchmarks/bench_costs.py [--json FILE] [--before FILE] [--only words]

`results/costs.md` is what it prints with ``--before results/costs_before.json``.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cases.costs import TOPICS, Row, measured
from harness.formats import SIZES, duration, markdown_rows, scaled
from harness.machine import description, one_line


def markdown(written: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Return the table, and what it was measured on."""
    now = {row["name"]: row for row in written["rows"]}
    earlier = {} if before is None else {row["name"]: row for row in before["rows"]}
    head = ["", "time", "peak memory"]
    if before is not None:
        head = ["", *(f"{what}, {when}" for what in head[1:] for when in ("before", "after"))]
    rows = []
    for name in earlier | now:
        both = [now.get(name)] if before is None else [earlier.get(name), now.get(name)]
        rows.append([name, *map(_time, both), *map(_memory, both)])
    return (
        "Time of a call, and the most memory that it held, in multiples of the result, of a\n"
        "textbook's expression or of a copy (`python benchmarks/bench_costs.py`):\n\n"
        f"{markdown_rows(head, rows)}\n\n{one_line(written['machine'], 'numpy')}\n"
    )


def _time(row: Row | None) -> str:
    if row is None:
        return ""
    text = duration(row["seconds"])
    if "unit_seconds" not in row:
        return text
    return f"{text} ({_times(row['seconds'] / row['unit_seconds'])} {row['unit']})"


def _memory(row: Row | None) -> str:
    if row is None or "peak" not in row:
        return ""
    times = _times(row["peak"] / row["unit_peak"])
    return f"{scaled(row['peak'], SIZES)} ({times} {row['unit']})"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 100 else f"{ratio:.3g} x"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Time calls that once cost too much.")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--before", type=Path, help="figures of an earlier run")
    parser.add_argument("--only", default="", help="part of the names of the calls")
    options = parser.parse_args()
    rows = []
    for cost in (cost for topic in TOPICS for cost in topic()):
        if options.only in cost.name:
            rows.append(row := measured(cost))
            print(f"{row['name']}: {_time(row)}, {_memory(row)}", file=sys.stderr, flush=True)
    written = {"machine": description(), "rows": rows}
    if options.json is not None:
        options.json.write_text(f"{json.dumps(written, indent=1)}\n", encoding="utf-8")
    before = options.before and json.loads(options.before.read_text(encoding="utf-8"))
    print(markdown(written, before), end="")


if __name__ == "__main__":
    main()
