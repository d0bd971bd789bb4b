"""
Learned positions for larger images
===================================

``LearnedPE.resize`` interpolates a table of 8 x 8 patches to 20 x 20. Here the table holds the
pixels of handwritten digits, to show the effect of bicubic interpolation.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from positional_embeddings import LearnedPE

table = LearnedPE(3, 64, embeddings=load_digits().data[[0, 3, 6]])  # 3 features, 64 positions
figure, axes = plt.subplots(2, 3, figsize=(7, 4.6))
for row, (layer, side) in zip(axes, ((table, 8), (table.resize((20, 20)), 20)), strict=True):
    for feature, ax in enumerate(row):
        ax.imshow(layer.embeddings[feature].reshape(side, side), cmap="gray_r")
        ax.set(xticks=[], yticks=[], title=f"feature {feature}, {side} x {side}")
