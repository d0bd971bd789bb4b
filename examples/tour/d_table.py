"""
4. Predict from a table
=======================

This page encodes dates and places of Atlantic storms for scikit-learn. Then an attention over the
rows of a table smooths the data, and estimates its error.
"""

# %%
# A row is a storm at noon of one day. The target is its eastward drift until noon of the next day.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from positional_embeddings.sklearn import AttentionRegressor, PositionalEncoder

file = "../data/atlantic_storms_daily.csv"  # beside the folder of this script
storms = pd.read_csv(file, comment="#", parse_dates=["date"])
tomorrow = storms.groupby(["storm", storms.date.dt.year]).longitude.shift(-1)
storms = storms.assign(drift=tomorrow - storms.longitude).dropna()
storms.head(3)

# %%
# One encoder encodes dates, another encodes places. Cross-validation puts all days of a storm
# into one fold. The scores are R2: 1 is perfect, and 0 is the mean of all storms.

season = PositionalEncoder(periods="year", harmonics=2)
place = PositionalEncoder("spherical")
columns = make_column_transformer((season, ["date"]), (place, ["latitude", "longitude"]))
folds = {"cv": GroupKFold(5), "groups": storms.storm}
encoded = make_pipeline(columns, RidgeCV([0.001, 0.1, 10]))
raw = RidgeCV([0.001, 0.1, 10])
table = storms.assign(day=storms.date.dt.day_of_year)[["day", "latitude", "longitude"]]
print("raw columns", cross_val_score(raw, table, storms.drift, **folds).mean().round(2))
print("encoded    ", cross_val_score(encoded, storms, storms.drift, **folds).mean().round(2))

# %%
# ``AttentionRegressor`` fits a line to the samples around a query, weighted by their
# distance: keys are the samples, and values are the measurements. It chooses the width of the
# kernel by leave-one-out cross-validation. The band is two standard deviations of a new
# storm.

north = storms[["latitude"]]
model = AttentionRegressor().fit(north, storms.drift)
at = pd.DataFrame({"latitude": np.linspace(10, 50, 100)})
mean, std = model.predict(at, return_std=True)
figure, ax = plt.subplots()
ax.plot(storms.latitude, storms.drift, ".", color="#bbbbbb", markersize=2)
ax.plot(at.latitude, mean)
ax.fill_between(at.latitude, mean - 2 * std, mean + 2 * std, alpha=0.2, linewidth=0)
ax.set(xlabel="latitude (degrees north)", ylabel="drift (degrees east in a day)")
ax.set_title("storms drift west in the trade winds")

# %%
# :doc:`The guides </guide/index>` answer single questions, :doc:`the gallery
# </gallery/index>` has more plots, and :doc:`the reference </reference/index>` has every name.
