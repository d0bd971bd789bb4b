"""
Grid cells
==========

Sines and cosines along three directions 120 degrees apart add up to a hexagonal pattern, like the
firing of grid cells in the brain of a rat. Several scales together distinguish points of a plane.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import grid_cell_encoding

metres = np.linspace(-2, 2, 201)
points = np.stack(np.meshgrid(metres, metres))
figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True, layout="compressed")
for ax, scales in zip(axes, ([1.0], [0.5], [2.0, 1.0, 0.5]), strict=True):
    features = grid_cell_encoding(points, scales)
    similarity = np.einsum("f,fyx->yx", features[:, 100, 100], features) / (3 * len(scales))
    image = ax.imshow(similarity, extent=(-2, 2, -2, 2), vmin=-1, vmax=1, cmap="RdBu_r")
    ax.set(title=f"wavelengths {', '.join(map(str, scales))} m", xlabel="x (m)")
axes[0].set_ylabel("y (m)")
figure.colorbar(image, ax=axes, label="similarity to the middle")
