"""
Random Fourier features
=======================

Scalar products of random features approximate a kernel. Four times as many features halve the
spread around the kernel.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import random_fourier_encoding

distance = np.linspace(0, 4, 200)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for ax, dim in zip(axes, (32, 256, 2048), strict=True):
    for seed in range(5):
        features = random_fourier_encoding(distance[None, :], dim, rng=seed)
        label = {"label": "five draws"} if seed == 0 else {}
        ax.plot(distance, features[:, 0] @ features, color="#56b4e9", linewidth=1, **label)
    ax.plot(distance, np.exp(-(distance**2) / 2), "--", color="#000000", label="Gaussian kernel")
    ax.set(title=f"{dim} features", xlabel="distance (length scales)")
axes[0].set_ylabel("scalar product")
axes[0].legend()
