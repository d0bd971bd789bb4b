"""
A season by harmonics
=====================

A least-squares fit of the maximum temperature of each day in Seattle. One harmonic of the year is
a sine; three harmonics fit the short and dry summer.
"""

import matplotlib.pyplot as plt
import numpy as np
import vega_datasets

from positional_embeddings import cyclic_encoding, days_since

weather = vega_datasets.data.seattle_weather()
days = days_since(weather.date, origin="2012-01-01")
celsius = weather.temp_max.to_numpy()
year = np.arange(366.0)

figure, ax = plt.subplots()
ax.plot(days % 365.25, celsius, ".", color="#bbbbbb", markersize=3, label="measured, 4 years")
for harmonics in (1, 3):
    waves = cyclic_encoding(days, 365.25, harmonics)  # (features, days)
    coefficients = np.linalg.lstsq(waves.T, celsius - celsius.mean())[0]
    fit = celsius.mean() + cyclic_encoding(year, 365.25, harmonics).T @ coefficients
    ax.plot(year, fit, label=f"harmonics={harmonics}")
ax.set(xlabel="day of the year", ylabel="warmest of the day (°C)", title="Seattle, 2012 to 2015")
ax.legend()
