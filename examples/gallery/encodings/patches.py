"""
The patches of a photograph
===========================

``grid_encoding`` gives each patch of an image a vector, half for its row and half for its
column. The map shows the cosine similarity of each patch to the framed patch.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from positional_embeddings import grid_encoding

image = load_sample_image("china.jpg")[:416, :640]
rows, columns = 13, 20  # patches of 32 x 32 pixels
encoding = grid_encoding((rows, columns), 128, base=100).reshape(128, -1)
patch = 4 * columns + 6
units = encoding / np.linalg.vector_norm(encoding, axis=0)
similarity = (units[:, patch] @ units).reshape(rows, columns)

figure, (photo, like) = plt.subplots(1, 2, figsize=(10, 3.4))
photo.imshow(image)
photo.set(xticks=np.arange(0, 640, 32) - 0.5, yticks=np.arange(0, 416, 32) - 0.5)
photo.tick_params(labelbottom=False, labelleft=False, length=0)
photo.grid(visible=True, color="white", linewidth=0.4)
photo.set_title("416 x 640 pixels, 13 x 20 patches")
format_value = like.imshow(similarity, vmin=0, vmax=1)
like.set(title="similarity to one patch", xlabel="column", ylabel="row")
for ax, size in ((photo, 32), (like, 1)):
    at = ((6 - 0.5 * (size == 1)) * size, (4 - 0.5 * (size == 1)) * size)
    ax.add_patch(plt.Rectangle(at, size, size, fill=False, edgecolor="#d55e00", linewidth=2))
figure.colorbar(format_value, ax=like, label="cosine similarity")
