"""
The base of a sinusoidal encoding
=================================

The similarity to one position decreases with the distance. A larger base has longer wavelengths, so
distant positions are more similar.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import sinusoidal_encoding
from positional_embeddings.plotting import plot_similarity

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for ax, base in zip(axes, (100, 10_000, 1_000_000), strict=True):
    encoding = sinusoidal_encoding(np.arange(200), 128, base=base)
    plot_similarity(encoding, reference=100, ax=ax)
    ax.set_title(f"base {base:,}")
    ax.label_outer()
