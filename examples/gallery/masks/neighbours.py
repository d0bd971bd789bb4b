"""
The mean of the nearest stations
================================

In this map of 200 stations, each place attends to its eight nearest stations, listed in a
``ListMask``. Only 96,000 of 2.4 million pairs are computed.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import ListMask, scaled_dot_product_attention

rng = np.random.default_rng(3)
stations = rng.uniform(0, 10, (2, 200))
measured = np.sin(stations[0]) + np.cos(stations[1]) + rng.normal(0, 0.1, 200)
east, north = np.meshgrid(np.linspace(0, 10, 120), np.linspace(0, 10, 100))
places = np.stack([east.ravel(), north.ravel()])

squares = ((places[:, :, None] - stations[:, None, :]) ** 2).sum(axis=0)
nearest = np.argpartition(squares, 8, axis=1)[:, :8]
# exp(-distance**2 / (2 * width**2)) is a softmax: the square of the query cancels in it.
width = 0.6
q = np.concat([places, np.ones((1, places.shape[1]))])
k = np.concat([stations, -(stations**2).sum(axis=0, keepdims=True) / 2])
options = {"mask": ListMask(nearest), "scale": width**-2}
smooth = scaled_dot_product_attention(q, k, measured[None, :], **options)

figure, (lists, whole) = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
lists.scatter(*stations, c=measured, s=12, cmap="viridis", vmin=-2, vmax=2)
for at in (2_525, 6_090, 9_930):
    for key in nearest[at]:
        lists.plot(*np.stack([places[:, at], stations[:, key]]).T, color="#d55e00", lw=1)
    lists.plot(*places[:, at], "o", color="#d55e00")
image = whole.pcolormesh(east, north, smooth.reshape(east.shape), vmin=-2, vmax=2)
lists.set(title="three places and their lists", xlabel="east", ylabel="north")
whole.set(title="mean of the nearest stations", xlabel="east")
figure.colorbar(image, ax=whole)
