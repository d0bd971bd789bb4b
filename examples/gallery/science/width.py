"""
The width with autocorrelated weather
=====================================

The weather of consecutive days is correlated. With leave-one-out the model fits the weather as a
part of the season, with a warning. Leaving out a month recovers the season.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import vega_datasets

from positional_embeddings.sklearn import AttentionRegressor

warnings.filterwarnings("ignore", "Neighbouring errors are alike")
weather = vega_datasets.data.seattle_weather()[:730]
dates = weather[["date"]]
figure, ax = plt.subplots()
ax.plot(weather.date, weather.temp_max, ".", color="#bbbbbb", markersize=3, label="measured")
for name, leave_out in {"single days left out": None, 'leave_out="30D"': "30D"}.items():
    model = AttentionRegressor(leave_out=leave_out).fit(dates, weather.temp_max)
    days = model.kernel_.length_scale
    ax.plot(weather.date, model.predict(dates), label=f"{name}: {np.ravel(days)[0]:.1f} days")
ax.set(ylabel="warmest of the day (°C)", title="Seattle, two widths")
ax.legend(loc="upper left", fontsize="small")
ax.set_ylim(top=45)
