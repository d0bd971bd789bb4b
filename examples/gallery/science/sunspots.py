"""
Sunspots with a prediction interval
===================================

``AttentionRegressor`` smooths the sunspots of 309 years. Leave-one-out cross-validation chooses its
width. The band is two standard deviations of a new measurement.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import sunspots

from positional_embeddings.sklearn import AttentionRegressor

data = sunspots.load_pandas().data
years, spots = data[["YEAR"]].to_numpy(), data.SUNACTIVITY.to_numpy()
model = AttentionRegressor().fit(years, spots)
at = np.linspace(1900, 2008, 1000)[:, None]
mean, std = model.predict(at, return_std=True)

figure, ax = plt.subplots()
ax.fill_between(at[:, 0], mean - 2 * std, mean + 2 * std, color="#cfe3f0", label="two deviations")
ax.plot(at, mean, label=f"a width of {model.kernel_.length_scale[0]:.2g} years")
recent = years[:, 0] >= 1900
ax.plot(years[recent], spots[recent], ".", color="#d55e00", label="measured")
ax.set(xlabel="year", ylabel="sunspots", title="sunspots of each year")
ax.legend(ncols=3, loc="upper left")
ax.set_ylim(top=280)
