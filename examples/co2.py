"""Fill gaps in the weekly CO2 record of Mauna Loa by attention, and judge it by other methods.

A trend over years, a season that changes slowly and what is local are added, each smoothed from
what those before it leave over. Widths are chosen on gaps cut into a third of the record, and
errors are those of gaps in the rest. The Gaussian process has scikit-learn's kernel for the record.
"""

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, RationalQuadratic, WhiteKernel
from sklearn.model_selection import ParameterGrid
from tqdm import tqdm

from positional_embeddings.sklearn import AttentionRegressor, GaussianKernel, PeriodicKernel

HERE = Path(__file__).parent
YEAR = 365.25  # days
LENGTHS = (4, 13, 26)  # weeks of a gap
SLOT, PARTS = 57, 3  # weeks that hold one gap; every third slot is for choosing the widths

SEASON = PeriodicKernel(YEAR) * GaussianKernel(8 * YEAR)
SUM = GaussianKernel() + SEASON + GaussianKernel(local_linear=False)
MODEL = AttentionRegressor(SUM, max_iter=1)
WIDTHS = {
    "kernel__k1__k1__length_scale": [YEAR, 2 * YEAR, 4 * YEAR],
    "kernel__k1__k2__k1__length_scale": [0.01 * YEAR, 0.02 * YEAR],
    "kernel__k2__length_scale": [0.1 * YEAR, 0.2 * YEAR, 0.4 * YEAR],
}
PROCESS = 44.8**2 * RBF(51.6) + 0.536**2 * RationalQuadratic(0.968, alpha=2.89)
PROCESS += 2.64**2 * RBF(91.5) * ExpSineSquared(1.48, 1.0, periodicity_bounds="fixed")
PROCESS += 0.188**2 * RBF(0.122) + WhiteKernel(0.0367)


def read_record():
    file = HERE / "data" / "co2_mauna_loa_weekly.csv"
    record = pd.read_csv(file, comment="#", parse_dates=["date"])
    return record.assign(year=1970 + (record.date - pd.Timestamp(0)).dt.days / YEAR)


def cut_gaps(weeks, at, rng):
    """Return a mask with one gap at a random place in every third slot."""
    (part, length), gaps = at, np.zeros(weeks, dtype=bool)
    for slot in range(part, weeks // SLOT, PARTS):
        start = slot * SLOT + int(rng.integers(SLOT - length + 1))
        gaps[start : start + length] = True
    return gaps


def straight_line(seen, wanted):
    return np.interp(wanted.year, seen.year, seen.co2_ppm), np.nan


def seasonal_cycle(seen, wanted):
    """Interpolate linearly what the mean cycle of a year leaves over, and add it back."""
    yearly = seen.rolling("365D", on="date", center=True).co2_ppm.mean()
    week = np.floor(seen.year % 1 * 52)
    cycle = (seen.co2_ppm - yearly)[26:-26].groupby(week[26:-26]).mean()
    line, _ = straight_line(seen.assign(co2_ppm=seen.co2_ppm - week.map(cycle)), wanted)
    return line + np.floor(wanted.year % 1 * 52).map(cycle), np.nan


def gaussian_process(seen, wanted, kernel):
    model = GaussianProcessRegressor(kernel, optimizer=None)
    model.fit(seen[["year"]], seen.co2_ppm - seen.co2_ppm.mean())
    mean, std = model.predict(wanted[["year"]], return_std=True)
    return mean + seen.co2_ppm.mean(), std


def attention(seen, wanted, model):
    return model.fit(seen[["date"]], seen.co2_ppm).predict(wanted[["date"]], return_std=True)


def watched(likelihood, start, bounds):
    """Return what scikit-learn's own optimizer does, and show that it is at work."""
    with tqdm(
        desc="Fitting the Gaussian process", unit=" trials", mininterval=3, miniters=1
    ) as bar:

        def counted(theta):
            bar.update()
            return likelihood(theta)

        best = minimize(counted, start, method="L-BFGS-B", jac=True, bounds=bounds)
    return best.x, best.fun


def judge(method, record, gaps, after_each=lambda: None):
    """Return the error in ppm, how many weeks are in the 95 % band, and the seconds of a fill."""
    start, errors, inside = time.perf_counter(), [], []
    for gap in gaps:
        filled, std = method(record[~gap & record.co2_ppm.notna()], record[gap])
        errors.append(filled - record.co2_ppm[gap])
        inside.append(abs(errors[-1]) / std <= 1.96 if np.all(std > 0) else [np.nan])
        after_each()
    seconds = (time.perf_counter() - start) / len(gaps)
    return np.sqrt(np.mean(np.concatenate(errors) ** 2)), np.mean(np.hstack(inside)), seconds


def choose_widths(record, gaps):
    errors = []
    for widths in tqdm(ParameterGrid(WIDTHS), "Choosing widths", mininterval=3):
        model = clone(MODEL).set_params(**widths)
        errors.append(judge(lambda *tables, model=model: attention(*tables, model), record, gaps))
    return ParameterGrid(WIDTHS)[np.argmin(np.array(errors)[:, 0])]


def draw(path, record, filled, std, table):
    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplot_mosaic([["record", "record"], ["gap", "errors"]])
    missing, band = record.co2_ppm.isna(), [filled + sigma * std for sigma in (-1.96, 1.96)]
    for name, years in (("record", (1958, 2002)), ("gap", (1963.3, 1965.2))):
        panel = panels[name]
        panel.plot(record.year, record.co2_ppm, ".", color="#2b5c8a", ms=3, label="measured")
        panel.fill_between(record.year, *band, color="#e4572e", alpha=0.3, lw=0, label="95 % band")
        panel.plot(
            record.year[missing], filled[missing], "o", color="#e4572e", ms=4, label="filled"
        )
        panel.set(xlabel="year", ylabel="CO$_2$ (ppm)", xlim=years)
    panels["record"].legend(title="CO$_2$ in the air at Mauna Loa", loc="upper left")
    panels["gap"].set(title="Its longest gap, 18 weeks", ylim=(314, 325))
    bars = table.reset_index().pivot_table("RMSE", "gap", "method", sort=False)
    bars.plot.bar(ax=panels["errors"], rot=0, width=0.8, colormap="cividis")
    panels["errors"].set(title="Error of filling gaps cut into the record", ylabel="RMSE (ppm)")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description="Fill the gaps of a CO2 record by attention.")
    parser.add_argument("--output", type=Path, default=HERE / "output" / "co2.png", help="PNG")
    path, record, rng = parser.parse_args().output, read_record(), np.random.default_rng(0)
    measured = record.co2_ppm.notna()
    print(f"Mauna Loa: {len(record)} weeks, {(~measured).sum()} missing.", flush=True)
    pairs = product(range(PARTS), LENGTHS)
    gaps = {at: [measured & cut_gaps(len(record), at, rng) for _ in range(2)] for at in pairs}
    model = clone(MODEL).set_params(**choose_widths(record, [gaps[0, n][0] for n in LENGTHS]))
    print(
        "The Gaussian process chooses its kernel on every fourth week; it fills gaps from all.",
        flush=True,
    )
    years, co2 = record[measured][["year"]][::4], record.co2_ppm[measured][::4]
    kernel = (
        GaussianProcessRegressor(PROCESS, optimizer=watched).fit(years, co2 - co2.mean()).kernel_
    )
    methods = {
        "straight line": straight_line,
        "seasonal cycle": seasonal_cycle,
        "Gaussian process": lambda *tables: gaussian_process(*tables, kernel),
        "attention": lambda *tables: attention(*tables, model),
    }
    rows = {}
    fills = len(methods) * sum(len(gaps[1, n] + gaps[2, n]) for n in LENGTHS)
    with tqdm(desc="Filling gaps", total=fills, mininterval=3, miniters=1) as bar:
        for n, name in product(LENGTHS, methods):
            cut = gaps[1, n] + gaps[2, n]
            rows[f"{n} weeks", name] = judge(methods[name], record, cut, bar.update)
    table = pd.DataFrame(rows, ["RMSE", "in 95 %", "seconds"]).T.rename_axis(["gap", "method"])
    print(f"\nErrors of gaps in the rest, in ppm:\n{table.round(3).to_string(na_rep='')}\n")
    draw(path, record, *attention(record[measured], record, model), table)
    print(f"The {(~measured).sum()} missing weeks are filled in {path}.")


if __name__ == "__main__":
    main()
