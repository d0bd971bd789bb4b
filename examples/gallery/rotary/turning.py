"""
One vector at many positions
============================

A rotation turns each pair of features by its own angle. The first pair completes a cycle every six
positions; the last pair has hardly turned after 60.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import RoPE

rope = RoPE(8, 60)
vector = np.repeat(np.asarray([1.0, 0.0]), 4)  # every pair points to the right
turned = rope(np.repeat(vector[:, None], 60, axis=1))

figure, axes = plt.subplots(1, 4, figsize=(10, 2.9), sharex=True, sharey=True)
for pair, ax in enumerate(axes):
    x, y = turned[pair], turned[pair + 4]  # layout "half": features i and i + 4
    format_value = ax.scatter(x, y, c=np.arange(60), s=16)
    ax.set(title=f"pair {pair}", aspect="equal", xlabel=f"features {pair} and {pair + 4}")
figure.colorbar(format_value, ax=axes, label="position")
