"""
Gaps in a record of CO2
=======================

Half a year is cut out of the weekly record of Mauna Loa. ``GapFiller`` hides windows as long as
the gap in the remaining record, selects the predictions with the smallest error, and estimates the
error of the filled values.
"""

import matplotlib.pyplot as plt
from statsmodels.datasets import co2

from positional_embeddings.sklearn import GapFiller

record = co2.load_pandas().data["1988":"1997"]
gap = (record.index > "1993-02") & (record.index < "1993-08")
filler = GapFiller()
broken = record.assign(co2=record.co2.mask(gap))
filled = filler.fit_transform(broken).co2
std = filler.transform_std(broken).co2

figure, ax = plt.subplots()
ax.plot(broken.co2["1992":"1994"], ".", label="kept")
ax.plot(record.co2[gap], ".", color="#000000", markersize=3, label="cut out")
ax.plot(filled[gap], color="#d55e00", label="filled")
low, high = (filled - 2 * std)[gap], (filled + 2 * std)[gap]
ax.fill_between(filled.index[gap], low, high, color="#d55e00", alpha=0.2, linewidth=0)
ax.set(ylabel="CO2 (ppm)", title="half a year, filled with a band of two deviations")
ax.legend(loc="upper left")
