"""Fill the gaps in the Mauna Loa CO2 record by attention, without training.

Attention takes a weighted mean of values. Here the values are the weekly measurements,
queries and keys are sinusoidal encodings of the time in years, and a boolean mask hides
the weeks that have no measurement. The scalar product of two encodings of one frequency
is the cosine of their distance in time d, and the softmax of the scores

    cos(2 pi d / period) / (2 pi width / period)**2

is a kernel that falls like exp(-d**2 / (2 width**2)), and comes back after each period.
Three passes of attention fill a gap, each on what the passes before it leave over:

    trend   a kernel of years, and the straight line that fits best below it;
    season  the same weeks of other years, near years before far ones;
    local   a kernel of weeks, for what is neither trend nor season.

The widths are chosen on gaps cut into one third of the record. The errors are reported
for gaps in the other two thirds, next to those of two simple methods.
"""

import argparse
import csv
import importlib
import itertools
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from array_api_compat import array_namespace

from positional_embeddings import (
    attention_weights,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)

Array: TypeAlias = Any  # of the library that --backend names
HostArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
ItemT = TypeVar("ItemT")

HERE = Path(__file__).parent
DATA = HERE / "data" / "co2_mauna_loa_weekly.csv"
BACKENDS = {  # module, and what to install where it is missing
    "numpy": ("array_api_compat.numpy", "numpy"),
    "cupy": ("array_api_compat.cupy", "cupy-cuda13x"),
    "torch": ("array_api_compat.torch", "torch"),
    "jax": ("jax.numpy", "jax"),
}
NEVER = 200.0  # years: a period that does not come back within the record

SEED = 0
GAP_LENGTHS = (4, 13, 26)  # weeks
SLOT = 57  # weeks that hold one gap; not a whole year, so that gaps meet all seasons
PARTS = 3  # every third slot is for choosing
DRAWS = 2  # masks for each length and part: a gap of one may overlap a gap of another

TREND_WIDTHS = (1.0, 2.0, 4.0, 8.0)
SEASON_WIDTHS = (0.005, 0.01, 0.02)
MEMORY_WIDTHS = (4.0, 8.0, 16.0)
LOCAL_WIDTHS = (0.1, 0.2, 0.4)

SILENCE = 3.0  # seconds without a line, where progress is no bar

METHODS = ("straight line", "seasonal cycle", "attention")


class Widths(NamedTuple):
    """Widths of the kernels in years."""

    trend: float
    season: float  # within the year
    memory: float  # of the season, over the years
    local: float


@dataclass(frozen=True)
class Record:
    """Weekly measurements, in NumPy arrays or in those of another library."""

    years: Array
    co2: Array  # ppm, NaN where there is no measurement


# The method: standard array API calls, on the arrays of any library.


def encode(years: Array, period: float, width: float) -> Array:
    """Return encodings (2, weeks) whose products are a kernel of this period and width."""
    radians = 2 * math.pi / period
    return sinusoidal_encoding(years * radians, 2) / (width * radians)


def encode_season(years: Array, widths: Widths) -> Array:
    """Return encodings of the time of year and of the year: their kernels multiply."""
    xp = array_namespace(years)
    of_year = encode(years, 1.0, widths.season)
    return xp.concat([of_year, encode(years, NEVER, widths.memory)], axis=0)


def smooth(queries: Array, keys: Array, values: Array, hidden: Array) -> Array:
    """Return the kernel means (features, queries) of values that are not hidden."""
    return scaled_dot_product_attention(queries, keys, values, mask=hidden[None, :], scale=1.0)


def trend(record: Record, hidden: Array, width: float) -> Array:
    """Return the height of the best straight line below a kernel at each week.

    A kernel mean alone lags on a slope. Means of time, measurement and their products come
    from the same attention, as four features, and give the line.
    """
    xp = array_namespace(record.years)
    codes = encode(record.years, NEVER, width)
    t, y = record.years - 1980.0, record.co2
    means = smooth(codes, codes, xp.stack([t, y, t * t, t * y]), hidden)
    mean_t, mean_y, mean_tt, mean_ty = (means[i, :] for i in range(4))
    slope = (mean_ty - mean_t * mean_y) / (mean_tt - mean_t * mean_t)
    return mean_y + slope * (t - mean_t)


def season(record: Record, hidden: Array, slow: Array, widths: Widths) -> Array:
    """Return the mean cycle that the trend leaves over, at each week."""
    codes = encode_season(record.years, widths)
    return smooth(codes, codes, (record.co2 - slow)[None, :], hidden)[0, :]


def local(record: Record, hidden: Array, wanted: Array, regular: Array, width: float) -> Array:
    """Return what trend and season leave over, at the wanted weeks."""
    keys = encode(record.years, NEVER, width)
    queries = encode(record.years[wanted], NEVER, width)
    return smooth(queries, keys, (record.co2 - regular)[None, :], hidden)[0, :]


def fill(record: Record, hidden: Array, wanted: Array, widths: Widths) -> Array:
    """Return CO2 in ppm at the wanted weeks, from the weeks that are not hidden."""
    slow = trend(record, hidden, widths.trend)
    regular = slow + season(record, hidden, slow, widths)
    return regular[wanted] + local(record, hidden, wanted, regular, widths.local)


def season_weights(record: Record, hidden: Array, week: int, widths: Widths) -> Array:
    """Return the weight of each week in the second pass, for one week."""
    codes = encode_season(record.years, widths)
    weights = attention_weights(codes[:, week : week + 1], codes, mask=hidden[None, :], scale=1.0)
    return weights[0, :]


# The two methods to compare with, in NumPy.


def straight_line(record: Record, hidden: HostArray, wanted: HostArray) -> HostArray:
    """Interpolate linearly from the last week before a gap to the first one after it."""
    seen = ~hidden
    line: HostArray = np.interp(record.years[wanted], record.years[seen], record.co2[seen])
    return line


def seasonal_cycle(record: Record, hidden: HostArray, wanted: HostArray) -> HostArray:
    """Interpolate linearly what a mean seasonal cycle leaves over, and add the cycle back.

    The cycle is the mean, for each of 52 weeks of the year, of the distance between
    measurement and running mean over a year, the record being interpolated for the latter.
    """
    everywhere = straight_line(record, hidden, np.ones_like(hidden))
    year = np.full(53, 1 / 52)
    year[[0, -1]] /= 2
    detrended = np.full_like(record.co2, np.nan)
    detrended[26:-26] = record.co2[26:-26] - np.convolve(everywhere, year, mode="valid")
    detrended[hidden] = np.nan
    week = np.floor(record.years % 1 * 52).astype(int)
    cycle = np.asarray([np.nanmean(detrended[week == i]) for i in range(52)])[week]
    flat = Record(record.years, record.co2 - cycle)
    filled: HostArray = straight_line(flat, hidden, wanted) + cycle[wanted]
    return filled


# Choosing and judging.


def cut_gaps(weeks: int, length: int, part: int, rng: np.random.Generator) -> HostArray:
    """Return a mask with one gap at a random place in every third slot."""
    gaps = np.zeros(weeks, dtype=bool)
    for slot in range(part, weeks // SLOT, PARTS):
        start = slot * SLOT + int(rng.integers(SLOT - length + 1))
        gaps[start : start + length] = True
    return gaps


def rms(errors: HostArray) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(errors**2)))


def choose_widths(host: Record, record: Record, gaps: list[HostArray]) -> Widths:
    """Return the widths of the least error, in the mean over masks of gaps."""
    xp = array_namespace(record.years)
    missing = np.isnan(host.co2)
    scores: dict[Widths, float] = defaultdict(float)
    for gap, width in show_progress(list(itertools.product(gaps, TREND_WIDTHS))):
        truth = host.co2[gap & ~missing]
        hidden, wanted = xp.asarray(gap | missing), xp.asarray(gap & ~missing)
        slow = trend(record, hidden, width)
        for of_season in itertools.product(SEASON_WIDTHS, MEMORY_WIDTHS):
            regular = slow + season(record, hidden, slow, Widths(width, *of_season, math.nan))
            for near in LOCAL_WIDTHS:
                filled = regular[wanted] + local(record, hidden, wanted, regular, near)
                scores[Widths(width, *of_season, near)] += rms(to_numpy(filled) - truth)
    return min(scores, key=lambda widths: scores[widths])


def judge(
    host: Record, record: Record, gaps: list[HostArray], widths: Widths
) -> tuple[int, dict[str, float]]:
    """Return the number of hidden measurements, and the error of each method in ppm."""
    xp = array_namespace(record.years)
    missing = np.isnan(host.co2)
    errors = defaultdict(list)
    for gap in gaps:
        hidden, wanted = gap | missing, gap & ~missing
        filled = fill(record, xp.asarray(hidden), xp.asarray(wanted), widths)
        truth = host.co2[wanted]
        errors["straight line"].append(straight_line(host, hidden, wanted) - truth)
        errors["seasonal cycle"].append(seasonal_cycle(host, hidden, wanted) - truth)
        errors["attention"].append(to_numpy(filled) - truth)
    pooled = {method: np.concatenate(parts) for method, parts in errors.items()}
    return pooled["attention"].size, {method: rms(all_) for method, all_ in pooled.items()}


# Reading, drawing and the command line.


def read_record(path: Path) -> tuple[list[date], Record]:
    """Read dates and measurements; time is in mean years of 365.25 days."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    dates = [date.fromisoformat(row["date"]) for row in rows]
    years = [1958 + (day - date(1958, 1, 1)).days / 365.25 for day in dates]
    co2 = [float(row["co2_ppm"] or "nan") for row in rows]
    return dates, Record(np.asarray(years), np.asarray(co2))


def load(module: str, package: str) -> Any:
    """Import a module, or leave with one line that says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"co2.py: {error}. Install it: pip install {package}"
        raise SystemExit(message) from None


def load_namespace(backend: str) -> Any:
    """Return the namespace of an array library, one that has float64."""
    module, package = BACKENDS[backend]
    if backend == "jax":
        load("jax", package).config.update("jax_enable_x64", True)  # noqa: FBT003 - JAX takes it so
    return load(module, package)


def to_numpy(array: Array) -> HostArray:
    """Return an array of any library as one of NumPy."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def runs(mask: HostArray) -> list[tuple[int, int]]:
    """Return start and stop of each run of True."""
    edges = np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def longest_gap(missing: HostArray) -> tuple[int, int]:
    """Return start and stop of the longest run of missing weeks."""
    return max(runs(missing), key=lambda gap: gap[1] - gap[0])


def say(text: str = "") -> None:
    """Print a line at once."""
    print(text, flush=True)


def show_progress(items: Sequence[ItemT]) -> Iterator[ItemT]:
    """Yield the items, and tell on stderr how many are done.

    On a terminal this is a bar that goes away at the end, elsewhere a line every few seconds.
    """
    on_terminal = sys.stderr.isatty()
    start = told = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        left = (now - start) * (len(items) / done - 1)
        text = f"{done / len(items):6.0%} done, about {left:.0f} s left"
        if on_terminal:
            bar = "#" * (30 * done // len(items))
            print(f"\r  [{bar:.<30}]{text} ", end="", file=sys.stderr, flush=True)
        elif now - told >= SILENCE:
            print(text, file=sys.stderr, flush=True)
            told = now
    if on_terminal:
        print("\r" + " " * 70, end="\r", file=sys.stderr, flush=True)


def draw(
    path: Path,
    host: Record,
    filled: HostArray,
    weights: HostArray,
    table: dict[int, dict[str, float]],
) -> None:
    """Draw record, longest gap, kernel and errors into one PNG."""
    blue, pale, orange, grey = "#2b5c8a", "#9dbcd8", "#e4572e", "#8a8a8a"
    figure = load("matplotlib.figure", "matplotlib").Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplot_mosaic([["record"] * 3, ["gap", "kernel", "errors"]])
    years, missing = host.years, np.isnan(host.co2)
    start, stop = longest_gap(missing)
    near, inside = slice(start - 32, stop + 32), slice(start - 1, stop + 1)

    panel = axes["record"]
    panel.axvspan(years[near.start], years[near.stop], color=grey, alpha=0.2, linewidth=0)
    panel.plot(years, host.co2, color=blue, linewidth=1, label="measured, weekly mean")
    panel.plot(years, filled, "o", color=orange, markersize=3.5, label="filled by attention")
    panel.set(title="CO$_2$ in the air at Mauna Loa, Hawaii", xlim=(1957.5, 2002.5))
    panel.set(xlabel="year", ylabel="CO$_2$ (ppm)")
    panel.legend(loc="lower right", frameon=False)

    panel = axes["gap"]
    line = straight_line(host, missing, np.ones_like(missing))
    panel.plot(years[inside], line[inside], "--", color=grey, label="straight line")
    panel.plot(years[near], host.co2[near], "o", color=blue, markersize=4, label="measured")
    panel.plot(years[near], filled[near], "o", color=orange, markersize=4, label="attention")
    panel.set(title=f"Its longest gap, {stop - start} weeks\n(shaded above)", xlabel="year")
    panel.set(ylabel="CO$_2$ (ppm)", xticks=np.arange(1963.5, 1965.1, 0.5), ylim=(315, 324.5))
    panel.legend(loc="upper left", frameon=False)

    panel = axes["kernel"]
    distance = years - years[(start + stop) // 2]
    panel.vlines(distance, 0, 100 * weights, color=blue, linewidth=1.5)
    panel.axvline(0, color=orange, linestyle=":", linewidth=1.5, label="week to be filled")
    panel.set(title="Season: attention weights\nfor a week in this gap", xlim=(-7, 21))
    panel.set(xlabel="distance in time (years)", ylabel="weight (%)", ylim=(0, None))
    panel.legend(loc="upper right", frameon=False)

    panel = axes["errors"]
    for i, (method, color) in enumerate(zip(METHODS, (grey, pale, orange), strict=True)):
        heights = [errors[method] for errors in table.values()]
        places = np.arange(len(table)) + 0.29 * (i - 1)
        bars = panel.bar(places, heights, 0.27, color=color, label=method)
        panel.bar_label(bars, fmt="%.2f", fontsize="small", padding=2)
    panel.set_xticks(range(len(table)), [f"{length} weeks" for length in table])
    panel.set(title="Error of filling gaps\ncut into the record", ylabel="RMSE (ppm)")
    panel.set(xlabel="length of the gap")
    panel.legend(loc="upper left", frameon=False)

    for panel in axes.values():
        panel.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description="Fill the gaps of a CO2 record by attention.")
    parser.add_argument("--backend", choices=BACKENDS, default="numpy", help="array library")
    parser.add_argument("--output", type=Path, default=HERE / "output" / "co2.png", help="PNG")
    parser.add_argument("--no-plot", action="store_true", help="leave the picture out")
    options = parser.parse_args()
    xp = load_namespace(options.backend)
    if not options.no_plot:
        load("matplotlib.figure", "matplotlib (or leave it out with --no-plot)")

    dates, host = read_record(DATA)
    record = Record(xp.asarray(host.years), xp.asarray(host.co2))
    missing = np.isnan(host.co2)
    say(f"Mauna Loa, {dates[0]} to {dates[-1]}: {missing.size} weeks, {missing.sum()} missing.")

    rng = np.random.default_rng(SEED)
    gaps = {
        (part, length): [cut_gaps(missing.size, length, part, rng) for _ in range(DRAWS)]
        for part in range(PARTS)
        for length in GAP_LENGTHS
    }
    tuning = [gaps[0, length][0] for length in GAP_LENGTHS]
    say(f"Choosing the widths on {sum(len(runs(gap)) for gap in tuning)} gaps ...")
    widths = choose_widths(host, record, tuning)
    chosen = ", ".join(f"{name} {width:g}" for name, width in widths._asdict().items())
    say(f"Chosen, in years: {chosen}.")

    say("Filling gaps in the rest of the record, RMSE in ppm:\n")
    say(f"{'gap':>8}{'gaps':>6}{'weeks':>7}" + "".join(f"{method:>16}" for method in METHODS))
    table = {}
    for length in GAP_LENGTHS:
        reported = [gap for part in range(1, PARTS) for gap in gaps[part, length]]
        number, table[length] = judge(host, record, reported, widths)
        errors = "".join(f"{table[length][method]:16.3f}" for method in METHODS)
        say(f"{length:2} weeks{sum(len(runs(gap)) for gap in reported):6}{number:7}{errors}")

    start, stop = longest_gap(missing)
    say(f"\nFilling the {missing.sum()} missing weeks, in {len(runs(missing))} gaps ...")
    hidden = xp.asarray(missing)
    filled = np.full(missing.size, np.nan)
    filled[missing] = to_numpy(fill(record, hidden, hidden, widths))
    say(f"The longest is {stop - start} weeks from {dates[start]}, filled with (ppm):")
    say(" ".join(f"{ppm:.1f}" for ppm in filled[start:stop]))

    if not options.no_plot:
        weights = season_weights(record, hidden, (start + stop) // 2, widths)
        draw(options.output, host, filled, to_numpy(weights), table)
        say(f"Picture written to {options.output}.")


if __name__ == "__main__":
    main()
