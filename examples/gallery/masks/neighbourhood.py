"""
Neighbours on a grid
====================

The patches of an image, row by row in one sequence, attend to their 5 x 5 neighbours. Left: the
mask. Right: the visible patches of three queries on the grid.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import NeighbourhoodMask
from positional_embeddings.plotting import plot_attention

rows, columns = 12, 16
mask = NeighbourhoodMask((rows, columns), 2)
hidden = mask.dense(rows * columns)[:, :, 0]

figure, (whole, grid) = plt.subplots(1, 2, figsize=(9, 4))
plot_attention(mask, rows * columns, ax=whole)
whole.set_title("192 tokens")
seen = np.zeros((rows, columns))
for row, column in ((0, 0), (5, 8), (9, 15)):
    seen += ~hidden[row * columns + column].reshape(rows, columns)
    grid.plot(column, row, "o", color="#d55e00")
grid.imshow(seen, cmap="Blues", vmax=2)
grid.set(title="what three queries see", xlabel="column", ylabel="row")
