"""Draw an encoding, a mask, and the similarity of places: side by side, or stacked for phones."""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import (
    CausalMask,
    SlidingWindowMask,
    sinusoidal_encoding,
    spherical_encoding,
)
from positional_embeddings.plotting import plot_attention, plot_encoding, plot_similarity


def wide():
    draw(*plt.subplots(1, 3, figsize=(11, 3.1), width_ratios=(1, 0.8, 1.4))[1])


def stacked():
    draw(*plt.subplots(3, 1, figsize=(4.4, 10))[1])


def draw(encoding, mask, world):
    plot_encoding(sinusoidal_encoding(np.arange(100), 64), ax=encoding)
    encoding.set_title("an encoding of positions")
    plot_attention(CausalMask() | SlidingWindowMask(7, None), 32, ax=mask)
    mask.set_title("a causal mask with a window")
    legend = mask.get_legend()
    texts = [text.get_text() for text in legend.get_texts()]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.32), "ncols": 2}
    mask.legend(legend.legend_handles, texts, **below).set_in_layout(False)
    grid = np.meshgrid(np.arange(-88.5, 90, 3), np.arange(-178.5, 180, 3), indexing="ij")
    latitude, longitude = (axis.ravel() for axis in grid)
    auckland = int(np.argmin(np.hypot(latitude + 36.8, longitude - 174.7)))
    features = spherical_encoding(latitude, longitude, 6)
    plot_similarity(features, coordinates=(latitude, longitude), reference=auckland, ax=world)
    world.set_title("what is near to Auckland")
