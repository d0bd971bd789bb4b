"""Expect where an Atlantic storm is tomorrow, from its place and the season, by six methods.

Raw columns, splines, encodings and attention are judged by the distance in km between expected
and true places. Folds are of whole storms, in choosing widths and penalties, too: days of one
storm are much alike, and tell of each other what nobody knows of a new storm. No method sees
where a storm came from, so that all miss far.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer
from tqdm import tqdm

import positional_embeddings.sklearn as pe

HERE = Path(__file__).parent
YEAR, KM_PER_DEGREE, CSV = 365.25, 111.195, "atlantic_storms_daily.csv"
PLACE, DATE, TARGETS = ["latitude", "longitude"], ["date"], ["km_east", "km_north"]
DAY = FunctionTransformer(lambda dates: dates.apply(lambda column: column.dt.day_of_year))
DEGREES, DAYS, ALPHAS = [3, 4, 6], [20, 40], [1, 10, 100]  # widths of kernels, penalties


def read_record():
    """Return a table of storms, places and dates, and km to the east and north a day later."""
    record = pd.read_csv(HERE / "data" / CSV, comment="#", parse_dates=["date"])
    record["storm"] = record.storm.ne(record.storm.shift()).cumsum()  # names are used again
    later = record.groupby("storm")[PLACE + DATE].shift(-1)
    between = np.radians((record.latitude + later.latitude) / 2)
    record["km_east"] = KM_PER_DEGREE * (later.longitude - record.longitude) * np.cos(between)
    record["km_north"] = KM_PER_DEGREE * (later.latitude - record.latitude)
    return record[later.date - record.date == pd.Timedelta("1D")].reset_index(drop=True)


def ridge(place, date):
    columns = ColumnTransformer([("place", place, PLACE), ("date", date, DATE)])
    return Pipeline([("columns", columns), ("products", "passthrough"), ("ridge", Ridge())])


def sizes(name, alone, in_products):
    """Return a grid of features alone, and one of their products, which are many."""
    name, products = f"columns__place__{name}", [PolynomialFeatures(interaction_only=True)]
    grids = {name: alone}, {name: [in_products], "products": products}
    return [grid | {"ridge__alpha": ALPHAS} for grid in grids]


def methods():
    """Return a model and what is tried of its parameters, by name."""
    boosting = MultiOutputRegressor(GradientBoostingRegressor(min_samples_leaf=30))
    boosted = ridge("passthrough", DAY).set_params(ridge=boosting)
    season = SplineTransformer(knots=np.linspace(0, YEAR, 7)[:, None], extrapolation="periodic")
    splines = ridge(SplineTransformer(), make_pipeline(DAY, season))
    yearly = pe.PositionalEncoder(periods="year", harmonics=2)
    encodings = ridge(pe.PositionalEncoder("spherical"), yearly)
    near = pe.SphereKernel(kernel="gaussian") * pe.PeriodicKernel(f"{YEAR}D", columns=[2])
    near_widths = {"kernel__k1__length_scale": DEGREES, "kernel__k2__length_scale": DAYS}
    both = pe.GaussianKernel(8, columns=[0, 1]) + near
    both_widths = {"kernel__k2__k1__length_scale": DEGREES, "kernel__k2__k2__length_scale": DAYS}
    return {
        "raw columns, ridge": (ridge("passthrough", DAY), {"ridge__alpha": ALPHAS}),
        "raw columns, boosting": (boosted, {"ridge__estimator__max_depth": [2, 3, 4]}),
        "splines, ridge": (splines, sizes("n_knots", [6, 10], 5)),
        "encodings, ridge": (encodings, sizes("degree", [6, 9], 5)),
        "attention": (pe.AttentionRegressor(near), near_widths),
        "planes and attention": (pe.AttentionRegressor(both, max_iter=2), both_widths),
    }


def tuned(method, record):
    """Return the model whose parameters do best on held-out storms of the record."""
    search = GridSearchCV(*method, cv=GroupKFold(3), scoring="neg_mean_squared_error")
    data = record[PLACE + DATE], record[TARGETS].to_numpy()
    return search.fit(*data, groups=record.storm).best_estimator_


def judge(method, train, test):
    """Return the error in km, the part of the variance that is told, and the seconds it took."""
    start = time.perf_counter()
    guess = tuned(method, train).predict(test[PLACE + DATE])
    square, total = (((test[TARGETS] - g) ** 2).sum().sum() for g in (guess, train[TARGETS].mean()))
    return (square / len(test)) ** 0.5, 1 - square / total, time.perf_counter() - start


def compare(record, every):
    """Return a table of the scores of all methods on all folds."""
    folds = list(GroupKFold(5, shuffle=True, random_state=0).split(record, groups=record.storm))
    pairs, rows = [(name, fold) for name in every for fold in range(5)], {}
    for name, fold in tqdm(pairs, "Judging", mininterval=3):
        rows[name, fold] = judge(every[name], *(record.iloc[part] for part in folds[fold]))
    return pd.DataFrame(rows, ["RMSE in km", "R2", "seconds"]).T.rename_axis(["method", "fold"])


def summarize(table):
    """Return means, and what is gained on the first method in the same fold, with its spread."""
    errors = table.pivot_table("RMSE in km", "method", "fold", sort=False)
    gain = errors.iloc[0] - errors
    spread = {"+-": errors.std(axis=1), "gain": gain.mean(axis=1), "+- ": gain.std(axis=1)}
    return table.groupby("method", sort=False).mean().assign(**spread)


def draw_map(panel, record, model, date):
    """Draw where storms go at a date, at places that they have within a month of it."""
    seen = record[(record.date.dt.day_of_year - date.day_of_year).abs() < 30][PLACE].to_numpy()
    grid = np.stack(np.meshgrid(np.arange(9, 60, 3), np.arange(-98, 0, 4)), axis=-1).reshape(-1, 2)
    grid = grid[(np.abs(grid[:, None] - seen) < 2).all(axis=2).sum(axis=1) > 2]
    east, north = model.predict(pd.DataFrame(grid, columns=PLACE).assign(date=date)).T
    panel.plot(seen[:, 1], seen[:, 0], ".", color="#cccccc", ms=3)
    look = {"cmap": "coolwarm", "width": 3e-3, "scale": 12e3}
    arrows = panel.quiver(*grid.T[::-1], east, north, east > 0, **look)
    panel.quiverkey(arrows, 0.14, 0.88, 500, "500 km a day")
    panel.set(title=f"{date:%d %B}: expected way in a day", xlabel="longitude", ylabel="latitude")
    panel.set(aspect=1.2, xlim=(-102, 2), ylim=(6, 60))


def draw(path, record, model, table):
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    panels = figure.subplot_mosaic([["08", "10"], ["scores", "scores"]], height_ratios=[1.5, 1])
    for month in ("08", "10"):
        draw_map(panels[month], record, model, pd.Timestamp(f"2022-{month}-15"))
    errors = table.pivot_table("RMSE in km", "method", "fold", sort=False)[::-1]
    panels["scores"].plot(errors, errors.index, "o", color="#aaaaaa", ms=5)
    panels["scores"].plot(errors.mean(axis=1), errors.index, "D", color="#2b5c8a", ms=9)
    panels["scores"].set(xlabel="RMSE (km)", title="Error of tomorrow's place: folds and mean")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description="Expect the way of storms from place and season.")
    parser.add_argument("--output", type=Path, default=HERE / "output" / "stations.png", help="PNG")
    path, record, every = parser.parse_args().output, read_record(), methods()
    print(f"{len(record)} days of {record.storm.nunique()} storms, 1995 to 2022.", flush=True)
    table = compare(record, every)
    print(f"\nWhole storms held out:\n\n{summarize(table).round(2).to_string()}\n")
    draw(path, record, tuned(every["planes and attention"], record), table)


if __name__ == "__main__":
    main()
