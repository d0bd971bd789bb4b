"""
Similarity in a year, and on the globe
======================================

The cosine similarity of encodings shows which positions are close for a model. December is close to
January, and the similarity to Zurich decreases in all directions.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import cyclic_encoding, spherical_encoding
from positional_embeddings.plotting import plot_similarity

figure, (year, world) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(1, 1.6))
days = np.arange(1, 366)
encoding = cyclic_encoding(days, 365.25, harmonics=3)
plot_similarity(encoding, coordinates=days, label="day of the year", ax=year)
year.set_title("days of a year")

grid = np.meshgrid(np.arange(-88.5, 90, 3), np.arange(-178.5, 180, 3), indexing="ij")
latitude, longitude = (axis.ravel() for axis in grid)
zurich = int(np.argmin(np.hypot(latitude - 47.4, longitude - 8.5)))
features = spherical_encoding(latitude, longitude, 6)
plot_similarity(features, coordinates=(latitude, longitude), reference=zurich, ax=world)
world.set_title("places, compared with Zurich")
