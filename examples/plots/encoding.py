"""Plot an encoding of measurements at irregular times: by their rows, and by the hours."""

import numpy as np
from matplotlib.figure import Figure
from saving import save

from positional_embeddings import sinusoidal_encoding
from positional_embeddings.plotting import plot_encoding


def draw() -> Figure:
    """Return the encoding of the same times, once by their numbers and once as times."""
    times = np.sort(np.random.default_rng(0).uniform(0, 60, 120))
    times = times[(times < 22) | (times > 34)]  # the instrument was broken
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    rows, hours = figure.subplots(1, 2)
    plot_encoding(sinusoidal_encoding(np.arange(times.size), 32), label="row", ax=rows)
    rows.set_title("by row: the gap is lost")
    encoding = sinusoidal_encoding(times, 32)
    plot_encoding(encoding, coordinates=times, label="time (hours)", ax=hours)
    hours.set_title("by time: the gap is there")
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
