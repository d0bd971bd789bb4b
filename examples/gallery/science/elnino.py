"""
A seasonal cycle that changes slowly
====================================

Monthly sea surface temperatures off Peru. A periodic kernel smooths along the year, and a
Gaussian kernel along the decades. Their product shows El Niño: years far above the mean of their
months.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import elnino

from positional_embeddings.sklearn import AttentionRegressor, GaussianKernel, PeriodicKernel

data = elnino.load_pandas().data.set_index("YEAR")
celsius = data.to_numpy().ravel()
time = np.repeat(data.index.to_numpy(), 12) + np.tile(np.arange(12) + 0.5, len(data)) / 12
known = np.isfinite(celsius)
kernel = PeriodicKernel(1.0, 0.06) * GaussianKernel(12.0)
model = AttentionRegressor(kernel).fit(time[known, None], celsius[known])
usual = model.predict(time[:, None])

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.2, 4.6), sharex=True)
top.plot(time, celsius, color="#bbbbbb", label="measured")
top.plot(time, usual, label="usual for the month")
top.set(ylabel="°C", title="sea off Peru")
top.legend(loc="upper left", ncols=2)
top.set_ylim(top=33)
above = celsius - usual
bottom.fill_between(time, above, where=above > 0, color="#d55e00", linewidth=0)
bottom.fill_between(time, above, where=above < 0, color="#0072b2", linewidth=0)
bottom.set(xlabel="year", ylabel="above usual (°C)", title="El Niño, and La Niña")
