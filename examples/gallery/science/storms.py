"""
The drift of storms
===================

Ridge regression on spherical harmonics predicts how far Atlantic storms drift to the east in
a day. Storms drift to the west in the trade winds, and to the east farther north.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from positional_embeddings.sklearn import PositionalEncoder

file = "../../data/atlantic_storms_daily.csv"  # from the folder of this script
storms = pd.read_csv(file, comment="#", parse_dates=["date"])
tomorrow = storms.groupby(["storm", storms.date.dt.year]).longitude.shift(-1)
storms = storms.assign(drift=tomorrow - storms.longitude).dropna()
model = make_pipeline(PositionalEncoder("spherical", degree=8), RidgeCV([0.001, 0.1, 10]))
places = ["latitude", "longitude"]
model.fit(storms[places], storms.drift)

north, east = np.meshgrid(np.arange(10, 50.5), np.arange(-95, -14.5), indexing="ij")
grid = pd.DataFrame({"latitude": north.ravel(), "longitude": east.ravel()})
drift = model.predict(grid).reshape(north.shape)

figure, ax = plt.subplots(figsize=(7.2, 3.8))
levels = np.arange(-10, 11, 2)
format_value = ax.contourf(east, north, drift, levels, cmap="RdBu_r", extend="both")
ax.plot(storms.longitude, storms.latitude, ",", color="#323232")
ax.set(xlabel="longitude (degrees east)", ylabel="latitude (degrees north)")
ax.set(title="drift of storms", xlim=(-95, -15), ylim=(10, 50))
figure.colorbar(format_value, label="degrees east in a day")
