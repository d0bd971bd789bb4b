"""
Positions need not be integers
==============================

An encoding of the times of measurements shows the hours without measurements. An encoding of
the row numbers does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import sinusoidal_encoding
from positional_embeddings.plotting import plot_encoding

times = np.sort(np.random.default_rng(0).uniform(0, 60, 120))  # hours
times = times[(times < 22) | (times > 34)]

figure, (rows, hours) = plt.subplots(1, 2, figsize=(9, 3.4))
plot_encoding(sinusoidal_encoding(np.arange(times.size), 32), label="row", ax=rows)
rows.set_title("by row: the gap is lost")
plot_encoding(sinusoidal_encoding(times, 32), coordinates=times, label="time (hours)", ax=hours)
hours.set_title("by time: the gap is there")
