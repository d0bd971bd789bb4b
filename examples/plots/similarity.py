"""Plot the similarity of the days of a year, and of places on the sphere."""

import numpy as np
from matplotlib.figure import Figure
from saving import save

from positional_embeddings import cyclic_encoding, spherical_encoding
from positional_embeddings.plotting import plot_similarity


def draw() -> Figure:
    """Return the similarity of all days, and a map of that to Zurich."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    year, world = figure.subplots(1, 2, width_ratios=(1, 1.6))
    days = np.arange(1, 366)
    encoding = cyclic_encoding(days, 365.25, harmonics=3)
    plot_similarity(encoding, coordinates=days, label="day of the year", ax=year)
    grid = np.meshgrid(np.arange(-88.5, 90, 3), np.arange(-178.5, 180, 3), indexing="ij")
    latitude, longitude = (axis.ravel() for axis in grid)
    zurich = int(np.argmin(np.hypot(latitude - 47.4, longitude - 8.5)))
    features = spherical_encoding(latitude, longitude, 6)
    plot_similarity(features, coordinates=(latitude, longitude), reference=zurich, ax=world)
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
