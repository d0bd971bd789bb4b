"""Fill the gaps in the CO2 record of Mauna Loa, and map 100,000 simulated temperatures.

Each method is judged beside what others would take. Gaps are cut into the record, one in each
`SLOT`; errors and bands are those in the gaps. The Gaussian process has scikit-learn's kernel for
this very record, with the numbers that scikit-learn's documentation found for it, so that it
chooses nothing here; `GapFiller` has no numbers to choose. The temperatures are simulated, so that
the truth is known: a map that has a season, other on each half of the Earth, and a trend, measured
anywhere, any time, and with noise.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, RationalQuadratic, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from tqdm import tqdm

from positional_embeddings import cyclic_encoding, spherical_encoding
from positional_embeddings.sklearn import GapFiller

HERE = Path(__file__).parent
LENGTHS, SLOT = (4, 13, 26), 57  # weeks of a gap, and of the part of the record that has one
YEAR = pd.Timedelta("365.2425D")

PROCESS = 44.8**2 * RBF(51.6) + 0.536**2 * RationalQuadratic(0.968, alpha=2.89)
PROCESS += 2.64**2 * RBF(91.5) * ExpSineSquared(1.48, 1.0, periodicity_bounds="fixed")
PROCESS += 0.188**2 * RBF(0.122) + WhiteKernel(0.0367)


def read_record():
    """Return the CO2 of each week in ppm, NaN where nothing was measured."""
    file = HERE / "data" / "co2_mauna_loa_weekly.csv"
    return pd.read_csv(file, comment="#", parse_dates=["date"], index_col="date").co2_ppm


def years(dates):
    return np.asarray((dates - pd.Timestamp("1970-01-01")) / YEAR) + 1970


def cut_gaps(record, length, rng):
    """Return where a gap of some weeks is at a random place in each slot."""
    gaps = np.zeros(record.size, dtype=bool)
    for start in range(0, record.size - SLOT, SLOT):
        first = start + int(rng.integers(SLOT - length + 1))
        gaps[first : first + length] = True
    return gaps & record.notna().to_numpy()


def straight_line(record):
    seen = record.dropna()
    return np.interp(years(record.index), years(seen.index), seen), np.full(record.size, np.nan)


def seasonal_cycle(record):
    """Interpolate linearly what the mean cycle of a year leaves over, and add it back."""
    week = pd.Series(np.floor(years(record.index) % 1 * 52), record.index)
    yearly = record.rolling("365D", center=True).mean()
    cycle = week.map((record - yearly).iloc[26:-26].groupby(week).mean())
    filled, std = straight_line(record - cycle)
    return filled + cycle, std


def gaussian_process(record):
    seen = record.dropna()
    model = GaussianProcessRegressor(PROCESS, optimizer=None)
    model.fit(years(seen.index)[:, None], seen - seen.mean())
    mean, std = model.predict(years(record.index)[:, None], return_std=True)
    return mean + seen.mean(), std


def gap_filler(record):
    filler = GapFiller().fit(record)
    return filler.transform(record).to_numpy(), filler.transform_std(record).to_numpy()


FILLS = {
    "straight line": straight_line,
    "seasonal cycle": seasonal_cycle,
    "Gaussian process": gaussian_process,
    "GapFiller": gap_filler,
}


def judge_fills(record, rng):
    """Return a table of errors in ppm, parts of the weeks in bands of 95 %, and seconds."""
    rows = {}
    for length in LENGTHS:
        gaps = cut_gaps(record, length, rng)
        for name, fill in tqdm(FILLS.items(), f"Filling gaps of {length} weeks", mininterval=1):
            start = time.perf_counter()
            filled, std = fill(record.mask(gaps))
            seconds = time.perf_counter() - start
            error = (filled - record)[gaps]
            inside = np.mean(np.abs(error) <= 1.96 * std[gaps]) if np.all(std[gaps] > 0) else np.nan
            rows[f"{length} weeks", name] = np.sqrt(np.mean(error**2)), inside, seconds
    table = pd.DataFrame(rows, ["RMSE", "in 95 %", "seconds"]).T
    return table.rename_axis(["gap", "method"])


def on_sphere(table):
    """Return places as points of a ball of radius 1, (rows, 3)."""
    latitude, longitude = np.radians(table.latitude), np.radians(table.longitude)
    across = np.cos(latitude)
    east, north = across * np.sin(longitude), np.sin(latitude)
    return np.column_stack([across * np.cos(longitude), east, north])


def scattered(rows, rng):
    """Return places and times at random, with the temperature that is true there."""
    latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    date = pd.Timestamp("2014-01-01") + rng.uniform(0, 8, rows) * YEAR
    columns = {"date": date, "latitude": latitude, "longitude": rng.uniform(-180, 180, rows)}
    table, currents = pd.DataFrame(columns), np.random.default_rng(5)
    directions = currents.normal(size=(3, 40))
    wavenumbers = currents.uniform(2, 8, 40)  # radians a radius
    directions *= wavenumbers / np.linalg.norm(directions, axis=0)
    sphere, year = on_sphere(table), years(table.date)
    map_ = np.cos(sphere @ directions + currents.uniform(0, 2 * np.pi, 40)) @ (2 / wavenumbers)
    season = sphere[:, 2] * (6 + 2 * np.sin(3 * sphere[:, 0]))
    celsius = 26 - 28 * sphere[:, 2] ** 2 + map_ + 0.02 * (year - 2014)
    return table.assign(celsius=celsius - season * np.cos(2 * np.pi * (year - 0.08)))


def raw_columns(table):
    return np.column_stack([years(table.date), years(table.date) % 1, table.iloc[:, 1:3]])


def on_circles(table):
    """Return points of a sphere, and of the circle of a year, whose distances nothing tears."""
    year = cyclic_encoding(years(table.date), period=1.0, harmonics=1)
    return np.column_stack([2 * on_sphere(table), *year])


def encodings(table):
    """Return spherical harmonics, each also with the season: products of place and time."""
    latitude, longitude = table[["latitude", "longitude"]].to_numpy().T
    place = spherical_encoding(latitude, longitude, 8)  # (81 features, rows)
    year = cyclic_encoding(years(table.date), period=1.0, harmonics=1)
    products = [place, *(place * wave for wave in year)]
    return np.concatenate([*products, years(table.date)[None] - 2018]).T


MAPS = {
    "nearest 30, on a sphere": (KNeighborsRegressor(30), on_circles),
    "boosted trees, raw columns": (HistGradientBoostingRegressor(random_state=0), raw_columns),
    "ridge, raw columns": (Ridge(), raw_columns),
    "ridge, encodings": (Ridge(), encodings),
}


def judge_maps(rng):
    """Return a table of errors in degrees from the truth, at places never measured."""
    samples, queries = scattered(100_000, rng), scattered(20_000, rng)
    measured = samples.celsius + rng.normal(0, 2, len(samples))
    part, rows = years(queries.date) % 1, {}
    near = (abs(queries.longitude) > 170) | (part < 0.03) | (part > 0.97)
    for name, (model, features) in tqdm(MAPS.items(), "Mapping temperatures", mininterval=1):
        start = time.perf_counter()
        mapped = model.fit(features(samples), measured).predict(features(queries))
        seconds = time.perf_counter() - start
        errors = [
            np.sqrt(np.mean((mapped - queries.celsius)[region] ** 2)) for region in (~near, near)
        ]
        rows[name] = *errors, seconds
    names = ["RMSE elsewhere", "at date line, New Year", "seconds"]
    return pd.DataFrame(rows, names).T.rename_axis("method")


def draw(path, record, fills, maps):
    """Draw the record, its longest gap, and both tables."""
    figure = Figure(figsize=(13, 8), layout="constrained")
    panels = figure.subplot_mosaic([["record", "record", "gap"], ["errors", "bands", "maps"]])
    filled, std = gap_filler(record)
    missing, year = record.isna().to_numpy(), years(record.index)
    for name, span in (("record", (1958, 2002)), ("gap", (1963.3, 1965.2))):
        panel = panels[name]
        panel.plot(year, record, ".", color="#2b5c8a", ms=3, label="measured")
        style = {"fmt": "o", "color": "#e4572e", "ms": 4, "elinewidth": 1.5}
        band = 1.96 * std[missing]
        panel.errorbar(year[missing], filled[missing], band, label="filled, 95 % band", **style)
        panel.set(xlabel="year", ylabel="CO$_2$ (ppm)", xlim=span)
    panels["record"].set(title="CO$_2$ in the air at Mauna Loa, by GapFiller")
    panels["record"].legend(loc="upper left")
    panels["gap"].set(title="Its longest gap, 18 weeks", ylim=(314, 325))
    panels["gap"].set_xticks([1963.5, 1964, 1964.5, 1965])
    colors = {method: f"C{i}" for i, method in enumerate(FILLS)}
    for name, column, label in (
        ("errors", "RMSE", "RMSE (ppm)"),
        ("bands", "in 95 %", "part of the weeks in the 95 % band"),
    ):
        table = fills.dropna(subset=column).reset_index()
        bars = table.pivot_table(column, "gap", "method", sort=False)
        bars.plot.bar(ax=panels[name], rot=0, width=0.8, color=colors, xlabel="gap", ylabel=label)
        for container in panels[name].containers:
            style = {"label_type": "center", "rotation": 90, "color": "white"}
            panels[name].bar_label(container, fmt="%.2f", **style)
    panels["errors"].set_title("Error of filling gaps")
    panels["bands"].set_title("Bands of 95 %")
    panels["bands"].axhline(0.95, color="black", lw=1)
    panels["bands"].set_ylim(0, 1.2)
    panels["bands"].legend(loc="upper left", ncols=2)
    bars = maps.iloc[::-1, 1::-1].rename(lambda name: name.replace(", ", ",\n"))
    panel = bars.plot.barh(ax=panels["maps"], width=0.7, color=["0.3", "0.65"])
    panel.legend(*(side[::-1] for side in panel.get_legend_handles_labels()), loc="lower right")
    panel.set(title="A map of 100,000 simulated temperatures", xlabel="RMSE (degrees)", ylabel="")
    panel.set_xlim(0, 0.8)
    for bar, error in zip(panel.patches, bars.to_numpy().T.ravel(), strict=True):
        if error > 0.8:  # which would flatten all others
            middle = bar.get_y() + bar.get_height() / 2
            panel.text(0.79, middle, f"{error:.2f} →", color="white", ha="right", va="center")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description="Fill the gaps of a CO2 record, and map places.")
    parser.add_argument("--output", type=Path, default=HERE / "output" / "demo.png", help="PNG")
    path, record, rng = parser.parse_args().output, read_record(), np.random.default_rng(0)
    print(f"Mauna Loa: {record.size} weeks, {record.isna().sum()} missing.", flush=True)
    fills = judge_fills(record, rng)
    print(f"\nGaps cut into the record, errors in ppm:\n{fills.round(3).to_string(na_rep='')}\n")
    maps = judge_maps(rng)
    print(f"\n100,000 measurements, noise of 2 degrees:\n{maps.round(2).to_string()}\n")
    draw(path, record, fills, maps)
    print(f"The missing weeks are filled, and both tables drawn, in {path}.")


if __name__ == "__main__":
    main()
