"""The bar chart: a panel for each layout and size, and one row of everything else."""

from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.formats import duration
from harness.inputs import BHSD, BSHD, DSN
from harness.targets import COPY_TO, FUSED, LOOPS, LOOPS_WITH_OUT, OURS, PLAIN, WITH_OUT, Result

FUSED_COLOUR, PLAIN_COLOUR, PEER_COLOUR, LINE_COLOUR = "#c0392b", "#e67e22", "#9aa0a6", "#333333"
# What memory and plain loops allow: next to this library, in a colour of their own.
LIMITS, LIMIT_COLOUR = (COPY_TO, LOOPS_WITH_OUT, LOOPS), "#2c7fb8"
PALER = 0.45
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
# Longer bars are cut off, in multiples of the best peer or of a copy.
LONGEST = 12


def draw(results: list[Result], machine: dict[str, Any], path: Path, title: str) -> None:
    """Draw the results of a run, if there are any to draw."""
    rows = [row for row in _rows(results) if row]
    if not rows:
        return
    order = _common_order(results)
    figure = Figure(figsize=(17, 1.2 + 3.5 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for panels, row in zip(grid, rows, strict=True):
        for panel in panels:
            panel.set_axis_off()
        for panel, by_threads in zip(panels, row, strict=False):
            panel.set_axis_on()
            first = by_threads[0]
            _panel(panel, by_threads, order if first.get("main") else _order(first))
    entries = [entry for result in results for entry in result["contenders"].values()]
    notes = [entry["note"] for entry in entries if "note" in entry]
    figure.suptitle(title, fontsize=15)
    about = (
        f"{machine['gpu'] or machine['cpu']}, {machine['system']}, Python {machine['python']}, "
        f"{machine['date']}" + (f"; * takes no features first: {notes[0]}" if notes else "")
    )
    figure.supxlabel(about, fontsize=9, color=LINE_COLOUR)
    figure.savefig(path, dpi=110)


def _rows(results: list[Result]) -> list[list[list[Result]]]:
    """Return the panels of each row, each with its results by number of threads."""
    main = [result for result in results if result.get("main")]
    rows = []
    for size in dict.fromkeys(result["case"] for result in main):
        of_size = [result for result in main if result["case"] == size]
        rows.append([[r for r in of_size if r["layout"] == layout] for layout in (DSN, BHSD, BSHD)])
    attention = [r for r in results if r["topic"] == "attention" and r["contenders"]]
    shortest = min((r["tokens"] for r in attention), default=0)
    last = [
        [r for r in results if r["topic"] == "decoding"],
        [r for r in results if r["topic"] == "complex" and r.get("layout") == BHSD],
        [r for r in attention if r["tokens"] == shortest],
    ]
    return [[panel for panel in row if panel] for row in (*rows, last)]


def _panel(panel: Axes, results: list[Result], order: list[str]) -> None:
    """Draw the bars of one case, one below the other for each number of threads."""
    unit = _unit(results[0])
    values = [[r["contenders"].get(name, {}).get(unit, 0.0) for name in order] for r in results]
    longest = _longest([value for row in values for value in row])
    height = 0.8 / len(results)
    for i, row in enumerate(values):
        for j, (name, value) in enumerate(zip(order, row, strict=True)):
            y, alpha = j + (i + 0.5) * height - 0.4, PALER if i else 1.0
            panel.barh(y, min(value, longest), 0.9 * height, color=_colour(name), alpha=alpha)
            label = _label(value, results[i], name, cut=value > longest)
            weight = "bold" if name.startswith(OURS) else "normal"
            x = min(value, longest) + 0.01 * longest
            size = 7.5 if i else 8.5
            panel.text(x, y, label, va="center", fontsize=size, fontweight=weight, bbox=WHITE)
    if unit == "ratio":
        panel.axvline(1, color=LINE_COLOUR, linewidth=1, linestyle="--", zorder=0)
    _axes(panel, results[0], order, longest)


def _axes(panel: Axes, result: Result, order: list[str], longest: float) -> None:
    panel.set_xlim(0, 1.15 * longest)
    panel.set_ylim(len(order) - 0.5, -0.5)
    panel.set_yticks(range(len(order)), order, fontsize=9)
    for label in panel.get_yticklabels():
        label.set_fontweight("bold" if label.get_text().startswith(OURS) else "normal")
    panel.set_xticks([])
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.set_title(_title(result), fontsize=11, loc="left")


def _title(result: Result) -> str:
    if result["topic"] == "rotation":
        return f"{result['case']}, {result['layout']}"
    if result["topic"] == "decoding":
        return "time of one token of 32 heads of 128"
    if result["topic"] == "complex":
        return f"{result['case']} of complex numbers"
    return f"time of attention, {result['case']}, 8 heads of 64"


def _unit(result: Result) -> str:
    return "ratio" if result["topic"] in {"rotation", "complex"} else "median"


def _order(result: Result) -> list[str]:
    """Return what was timed: this library first, then the others, the fastest first."""
    unit = _unit(result)
    timed = {n: e[unit] for n, e in result["contenders"].items() if unit in e and n != "copy"}
    return sorted(timed, key=lambda name: (_rank(name), timed[name]))


def _common_order(results: list[Result]) -> list[str]:
    """Return one order for all rotations, by the median of their ratios."""
    ratios: dict[str, list[float]] = {}
    for result in results:
        if result.get("main"):
            for name in _order(result):
                ratios.setdefault(name, []).append(result["contenders"][name]["ratio"])
    return sorted(ratios, key=lambda name: (_rank(name), median(ratios[name])))


def _rank(name: str) -> int:
    first = (WITH_OUT, FUSED, PLAIN, OURS, *LIMITS)
    return first.index(name) if name in first else len(first) + (not name.startswith(OURS))


def _longest(values: list[float]) -> float:
    """Return the length at which bars are cut, so that a slow contender does not hide others."""
    ordered = sorted(value for value in values if value)
    return min(ordered[-1], LONGEST * ordered[0], 1.8 * ordered[3 * len(ordered) // 4])


def _colour(name: str) -> str:
    colours = {PLAIN: PLAIN_COLOUR} | dict.fromkeys(LIMITS, LIMIT_COLOUR)
    return colours.get(name, FUSED_COLOUR if name.startswith(OURS) else PEER_COLOUR)


def _label(value: float, result: Result, name: str, *, cut: bool) -> str:
    if not value:
        return ""
    if _unit(result) == "ratio":
        text = f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    else:
        text = duration(value)
    star = "*" if "note" in result["contenders"][name] else ""
    return f"{text}{star}{' →' if cut else ''}"
