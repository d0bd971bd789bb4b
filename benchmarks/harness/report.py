"""Tables for the terminal and for Markdown, and the files of a run."""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.formats import duration, markdown_rows
from harness.machine import description, one_line
from harness.targets import FUSED, OURS, PLAIN, Result, Verdict, case_name

RESULTS = Path(__file__).parents[1] / "results"
WIDTH = 150  # of output that goes to a file
LONE_FIGURES = ("whole tables", "first token", "slowest token", "median token", "beyond")
WITHOUT_TIMES = ("missing", "absent", "failed", "wrong")


@dataclass(frozen=True)
class Plain:
    """A table of strings, for the terminal or for Markdown."""

    title: str
    head: list[str]
    rows: list[list[str]]


def parser(about: str) -> argparse.ArgumentParser:
    """Return the options that all runs have."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--quick", action="store_true", help="small sizes and few rounds, to try")
    made.add_argument("--results", type=Path, help="folder to write to, benchmarks/results")
    return made


def write_report(
    console: Console,
    results: list[Result],
    found: list[Verdict],
    options: argparse.Namespace,
    *,
    name: str,
    title: str,
    whole: bool = True,
) -> None:
    """Print the tables, and write them and a chart."""
    from harness.chart import draw  # noqa: PLC0415 - a worker needs no matplotlib

    tables = [headline(results), others(results), verdicts_table(found)]
    tables = [table for table in tables if table.rows]
    for table in tables:
        console.print(_rich(table))
    if options.quick:
        console.print("A quick run: its sizes are too small to judge by.")
    # What is tried quickly must not replace what was measured.
    partial = options.quick or not whole
    folder = options.results or (Path(tempfile.mkdtemp()) if partial else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    machine = description()
    text = markdown(tables, results, machine)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    draw(results, machine, folder / f"{name}.png", title)
    console.print(f"Written to {folder}: {name}.md, {name}.png")


def terminal() -> Console:
    """Return where to print."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def case_table(result: Result) -> Table:
    """Return the figures of one case."""
    unit = result.get("unit", "")
    title = f"{result['topic']}, {case_name(result)}, {_threads(result)}"
    rows = [_row(name, entry, result) for name, entry in result["contenders"].items()]
    rows += [[key, duration(result[key])] for key in LONE_FIGURES if key in result]
    if "failed" in result:
        rows.append(["failed", result["failed"]])
    return _rich(Plain(title, ["", "median", "quartiles", f"of {unit}", "peak memory", ""], rows))


def _row(name: str, entry: dict[str, Any], result: Result) -> list[str]:
    if "median" not in entry:
        return [name, *[""] * 4, _excuse(entry)]
    spread = f"{duration(entry['q1'])} to {duration(entry['q3'])}"
    peak = f"{entry['peak_bytes'] / result['bytes']:.2f}" if "peak_bytes" in entry else ""
    times = [duration(entry["median"]), spread, f"{entry['ratio']:.2f}"]
    return [name, *times, peak, entry.get("note", "")]


def _excuse(entry: dict[str, Any]) -> str:
    """Return why a contender has no times."""
    if "missing" in entry:
        return f"missing (pip install {entry['missing']})"
    return ", ".join(f"{key}: {entry[key]}" for key in WITHOUT_TIMES if key in entry)


def headline(results: list[Result]) -> Plain:
    """Return the rotation of the middle size, in multiples of a copy, and of one token."""
    sizes = list(dict.fromkeys(r["bytes"] for r in results if r.get("main")))
    chosen = [r for r in results if r.get("main") and r["bytes"] == sizes[len(sizes) // 2]]
    chosen += [r for r in results if r["topic"] == "decoding" and r["threads"] == 1]
    names = dict.fromkeys(name for r in chosen for name in r["contenders"])
    size = chosen[0]["case"] if chosen else ""
    head = [_column(result) for result in chosen]
    rows = [[name, *(_cell(r, name) for r in chosen)] for name in names if name != "copy"]
    title = f"Time of a rotation of {size} in multiples of a copy, and of one token"
    return Plain(title, ["", *head], rows)


def _column(result: Result) -> str:
    name = "one token" if result["topic"] == "decoding" else result["layout"]
    return f"{name}, {_threads(result)}"


def _threads(result: Result) -> str:
    return f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")


def _cell(result: Result, name: str) -> str:
    entry = result["contenders"].get(name, {})
    if "median" not in entry:
        return next((key for key in WITHOUT_TIMES if key in entry), "")
    if result["topic"] == "decoding":
        return duration(entry["median"])
    return f"{entry['ratio']:.2f}{'*' if 'note' in entry else ''}"


def others(results: list[Result]) -> Plain:
    """Return the times of everything but rotations, of this library and of others."""
    rows = []
    for result in results:
        if result["topic"] == "decoding" or result.get("main") or "failed" in result:
            continue
        times = {n: e["median"] for n, e in result["contenders"].items() if "median" in e}
        mine = [name for name in (FUSED, PLAIN, OURS) if name in times]
        rest = {name: time for name, time in times.items() if name not in mine}
        rest |= {name: result[name] for name in LONE_FIGURES if name in result}
        ours = " / ".join(duration(times[name]) for name in mine)
        theirs = ", ".join(f"{name} {duration(time)}" for name, time in rest.items())
        title = f"{result['topic']}, {case_name(result)}"
        rows.append([title, str(result["threads"]), ours, theirs])
    title = "Everything else (of two figures the first is the fused path's)"
    return Plain(title, ["", "threads", "this library", "others"], rows)


def verdicts_table(verdicts: list[Verdict]) -> Plain:
    """Return the targets, each with its worst figure."""
    rows = [
        [
            verdict.target,
            str(verdict.threads),
            f"{verdict.limit:g}",
            f"{verdict.worst:.3g}",
            verdict.where,
            "met" if verdict.met == verdict.cases else f"met in {verdict.met} of {verdict.cases}",
        ]
        for verdict in verdicts
    ]
    head = ["target", "threads", "at most", "worst figure", "where", ""]
    return Plain("Targets", head, rows)


def markdown(tables: list[Plain], results: list[Result], machine: dict[str, Any]) -> str:
    """Return the tables and what they were measured on."""
    parts = [f"{table.title}:\n\n{markdown_rows(table.head, table.rows)}\n" for table in tables]
    entries = [entry for result in results for entry in result["contenders"].values()]
    if any("note" in entry for entry in entries):
        parts.insert(
            1, "\\* takes no features first: as many bytes in (batch, heads, seq, head).\n"
        )
    missing = sorted({entry["missing"] for entry in entries if "missing" in entry})
    if missing:
        parts.append(f"Missing: {', '.join(missing)}.\n")
    return "\n".join([*parts, f"{one_line(machine)}\n"])


def _rich(table: Plain) -> Table:
    made = Table(title=table.title, title_justify="left", title_style="bold")
    for i, name in enumerate(table.head):
        made.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in table.rows:
        made.add_row(*row, style="bold green" if row[0].startswith(OURS) else None)
    return made
