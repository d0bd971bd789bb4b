"""
Rows and columns of an image
============================

With ``sections`` half of the pairs turn by the row of a patch and half by its column, as in
Qwen2-VL and Pixtral. The score of equal vectors decreases with the distance in both directions.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import RoPE, grid_positions

shape = (33, 49)
options = {"base": 100, "sections": (16, 16)}
ropes = {
    "frequencies shared": RoPE(64, 64, **options),
    "frequencies restart": RoPE(64, 64, **options, section_frequencies="restart"),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
for ax, (name, rope) in zip(axes, ropes.items(), strict=True):
    rotated = rope(np.full((64, 33 * 49), 1 / 8), positions=grid_positions(shape))
    score = (rotated[:, 16 * 49 + 24] @ rotated).reshape(shape)
    format_value = ax.imshow(score, vmin=-1, vmax=1, cmap="RdBu_r")
    ax.set(title=name, xlabel="column")
axes[0].set_ylabel("row")
figure.colorbar(format_value, ax=axes, label="score with the middle")
