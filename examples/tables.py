"""From tables with times and places to fitted pipelines: pandas and xarray, without glue.

Artificial temperatures at eight places, every three hours for two years: a cycle of the day, one
of the year that grows with the latitude, and noise. A week is missing at one place.
"""

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from positional_embeddings.sklearn import (
    AttentionRegressor,
    GapFiller,
    GaussianKernel,
    PeriodicKernel,
    PositionalEncoder,
)
from positional_embeddings.xarray import encode


def measure():
    """Return a Dataset of temperatures with dimensions time and place."""
    time = pd.date_range("2023-01-01", "2024-12-31T21:00", freq="3h")
    latitude = np.linspace(-60, 60, 8)
    day = 2 * np.pi * (time.hour.to_numpy() / 24)[:, None]
    year = 2 * np.pi * (time.day_of_year.to_numpy() / 365.25)[:, None]
    air = 25 - 0.004 * latitude**2 - 5 * np.cos(day) - 0.2 * latitude * np.cos(year)
    air = air + np.random.default_rng(0).normal(0, 1, air.shape)
    air[1000:1056, 3] = np.nan
    return xr.Dataset(
        {"air": (("time", "place"), air, {"units": "degC"})},
        {
            "time": time,
            "latitude": ("place", latitude),
            "longitude": ("place", np.linspace(-170, 170, 8)),
        },
    )


def predict_one_place(data):
    """Fit times of one place, from a frame with a datetime index: score of each later half year."""
    frame = data.air.isel(place=6).to_series().to_frame()
    model = make_pipeline(PositionalEncoder(periods=["day", "year"], harmonics=2), Ridge())
    return cross_val_score(model, frame.index, frame.air, cv=TimeSeriesSplit(3))


def predict_all_places(data):
    """Fit times and places, from some rows of a table: score of others."""
    rows = data.to_dataframe().reset_index().dropna().sample(2000, random_state=0)
    when = PositionalEncoder(periods=["day", "year"], harmonics=1, trend=False)  # distances
    where = PositionalEncoder("spherical", degree=2)
    columns = make_column_transformer((when, ["time"]), (where, ["latitude", "longitude"]))
    model = make_pipeline(columns, AttentionRegressor(length_scale=0.5))
    return model.fit(rows[::2], rows.air[::2]).score(rows[1::2], rows.air[1::2])


def fill_gaps(data):
    """Fill the missing week of a frame with a datetime index, by days around it."""
    frame = data.air.to_pandas()
    kernel = GaussianKernel(5.0) + PeriodicKernel("day", 0.05) * GaussianKernel(5.0)
    smoother = AttentionRegressor(kernel, cutoff=6.0, tol=0.01)
    return GapFiller(smoother).fit_transform(frame)


def smooth(data):
    """Return the mean day of each place, by attention over the phases of the day."""
    features = encode(data, "time", periods=["day"]) * 5
    hours = features.isel(time=slice(8)).rename(time="hour")
    scores = xr.dot(hours, features, dim="feature") / np.sqrt(features.sizes["feature"])
    weights = np.exp(scores - scores.max("time"))
    there = (~np.isnan(data.air)).astype(float)
    return xr.dot(weights, data.air.fillna(0), dim="time") / xr.dot(weights, there, dim="time")


def main():
    data = measure()
    print("Score of later times at one place:", predict_one_place(data).round(3))
    print("Score of all places and times:", round(predict_all_places(data), 3))
    filled = fill_gaps(data)
    gaps = [int(np.isnan(values).sum()) for values in (data.air.to_numpy(), filled.to_numpy())]
    print("Missing before and after:", *gaps)
    print("Mean day at each place:", smooth(data).round(1).to_pandas(), sep="\n")


if __name__ == "__main__":
    main()
