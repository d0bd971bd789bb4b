"""
Handwritten digits as a graph
=============================

Edges join each of 400 digits to its eight nearest neighbours. The encoding by eigenvectors of the
graph Laplacian uses only the edges, and still separates the digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from positional_embeddings import graph_laplacian_encoding

pixels, digits = load_digits(n_class=7, return_X_y=True)
pixels, digits = pixels[:400], digits[:400]
near = kneighbors_graph(pixels, 8).toarray()
encoding = graph_laplacian_encoding(np.maximum(near, near.T), 4)

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, (x, y) in zip(axes, ((0, 1), (2, 3)), strict=True):
    for digit in range(7):
        of_digit = encoding[:, digits == digit]
        ax.plot(of_digit[x], of_digit[y], ".", markersize=4, label=digit)
    ax.set(xlabel=f"feature {x}", ylabel=f"feature {y}", title=f"features {x} and {y}")
axes[1].legend(title="digit", loc="center left", bbox_to_anchor=(1, 0.5))
