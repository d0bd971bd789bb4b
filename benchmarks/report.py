"""Tables for the terminal and for Markdown."""

import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from targets import FUSED, OURS, PLAIN, Result, Verdict, place

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
WIDTH = 150  # where the output goes to a file
LONE_FIGURES = ("whole tables", "first token", "slowest token", "median token", "beyond")
RESULTS_WITHOUT_TIMES = ("missing", "absent", "failed", "wrong")


@dataclass(frozen=True)
class Plain:
    """A table of strings, for either medium."""

    title: str
    head: list[str]
    rows: list[list[str]]


def terminal() -> Console:
    """Return where to print."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def print_table(console: Console, table: Plain) -> None:
    """Print a table, unless it is empty."""
    if table.rows:
        console.print(_rich(table))


def case_table(result: Result) -> Table:
    """Return the figures of one case."""
    unit = result.get("unit", "")
    number = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    title = f"{result['topic']}, {place(result)}, {number}"
    rows = [_row(name, entry, result) for name, entry in result["contenders"].items()]
    rows += [[key, duration(result[key])] for key in LONE_FIGURES if key in result]
    if "failed" in result:
        rows.append(["failed", result["failed"]])
    return _rich(Plain(title, ["", "median", "quartiles", f"of {unit}", "peak memory", ""], rows))


def _row(name: str, entry: dict[str, Any], result: Result) -> list[str]:
    if "median" not in entry:
        return [name, *[""] * 4, excuse(entry)]
    spread = f"{duration(entry['q1'])} to {duration(entry['q3'])}"
    peak = f"{entry['peak_bytes'] / result['bytes']:.2f}" if "peak_bytes" in entry else ""
    times = [duration(entry["median"]), spread, f"{entry['ratio']:.2f}"]
    return [name, *times, peak, entry.get("note", "")]


def excuse(entry: dict[str, Any]) -> str:
    """Return why a contender has no times."""
    if "missing" in entry:
        return f"missing (pip install {entry['missing']})"
    return ", ".join(f"{key}: {entry[key]}" for key in RESULTS_WITHOUT_TIMES if key in entry)


def duration(seconds: float) -> str:
    """Return seconds with three digits and a unit."""
    for size, unit in SECONDS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.3g} ns"


def missing(results: list[Result]) -> list[str]:
    """Return the packages that contenders lack."""
    entries = [entry for result in results for entry in result["contenders"].values()]
    return sorted({entry["missing"] for entry in entries if "missing" in entry})


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
    number = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    name = "one token" if result["topic"] == "decoding" else result["layout"]
    return f"{name}, {number}"


def _cell(result: Result, name: str) -> str:
    entry = result["contenders"].get(name, {})
    if "median" not in entry:
        return next((key for key in RESULTS_WITHOUT_TIMES if key in entry), "")
    if result["topic"] == "decoding":
        return duration(entry["median"])
    return f"{entry['ratio']:.2f}{'*' if 'note' in entry else ''}"


def others(results: list[Result]) -> Plain:
    """Return what this library does besides rotating, beside what others take for it."""
    rows = []
    for result in results:
        if result["topic"] == "decoding" or result.get("main") or "failed" in result:
            continue
        times = {n: e["median"] for n, e in result["contenders"].items() if "median" in e}
        mine = [name for name in (FUSED, PLAIN, OURS) if name in times]
        rest = {name: time for name, time in times.items() if name not in mine}
        rest |= {name: result[name] for name in LONE_FIGURES if name in result}
        rows.append(
            [
                f"{result['topic']}, {place(result)}",
                str(result["threads"]),
                " / ".join(duration(times[name]) for name in mine),
                ", ".join(f"{name} {duration(time)}" for name, time in rest.items()),
            ]
        )
    title = "Everything else (of two figures the first is the fused path's)"
    return Plain(title, ["", "threads", "this library", "beside it"], rows)


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


def markdown(written: dict[str, Any], verdicts: list[Verdict]) -> str:
    """Return the tables and what they were measured on."""
    results, machine = written["results"], written["machine"]
    tables = [headline(results), others(results), verdicts_table(verdicts)]
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    about = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
        f"{machine['system']} {machine['architecture']}, Python {machine['python']}, "
        f"{versions}, {machine['date']}."
    )
    parts = [_markdown(table) for table in tables if table.rows]
    if any("note" in e for r in results for e in r["contenders"].values()):
        parts.insert(
            1, "\\* takes no features first: as many bytes in (batch, heads, seq, head).\n"
        )
    if written["missing"]:
        parts.append(f"Missing: {', '.join(written['missing'])}.\n")
    return "\n".join([*parts, f"{about}\n"])


def _markdown(table: Plain) -> str:
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    body = "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
    return f"{table.title}:\n\n{body}\n"


def _rich(table: Plain) -> Table:
    made = Table(title=table.title, title_justify="left", title_style="bold")
    for i, name in enumerate(table.head):
        made.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in table.rows:
        made.add_row(*row, style="bold green" if row[0].startswith(OURS) else None)
    return made
