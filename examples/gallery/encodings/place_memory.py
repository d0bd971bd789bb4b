"""
A memory of places
==================

Three things are bound to their places and added to one vector of 1,024 numbers. Unbinding a thing
from the memory gives a vector similar to the encoding of its place; the star marks
the decoded place. The second row shows the kernels of three encodings: the similarity of the
encodings of two points, by the difference of the points.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import FourierFeatures
from positional_embeddings.plotting import plot_kernel

rng = np.random.default_rng(0)
plane = FourierFeatures.random(2, 1024, length_scale=0.4, rng=0)
things = plane.encode(rng.uniform(-1e6, 1e6, (2, 3)))
places = np.asarray([[1.0, 3.0, 4.2], [4.0, 2.5, 0.7]])
memory = plane.bind(things, plane.encode(places)).sum(axis=1)

metres = np.linspace(0, 5, 101)
room = plane.encode(np.stack(np.meshgrid(metres, metres)))
figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="compressed")
for ax, name, thing in zip(axes[0], ("cup", "key", "lamp"), things.T, strict=True):
    unbound = plane.unbind(memory, thing)
    similar = np.einsum("f,fyx->yx", unbound, room)
    image = ax.imshow(similar, origin="lower", extent=(0, 5, 0, 5), cmap="RdBu_r", vmin=-1, vmax=1)
    ax.plot(*plane.decode(unbound, [(0, 5), (0, 5)]), "*k")
    ax.set(title=f"where is the {name}?", xlabel="x (m)", ylabel="y (m)")
    figure.colorbar(image, ax=ax, label="similarity")

hexagonal = FourierFeatures.hexagonal([0.8, 1.2, 1.8], [0.0, 0.3, 0.7])
plot_kernel(plane, 2.5, label="difference (m)", ax=axes[1, 0])
plot_kernel(hexagonal, 2.5, label="difference (m)", ax=axes[1, 1])
plot_kernel(FourierFeatures.sinusoidal(64), 100, label="difference (positions)", ax=axes[1, 2])
axes[1, 2].set_box_aspect(1)
for ax, title in zip(axes[1], ("random", "hexagonal", "sinusoidal"), strict=True):
    ax.set_title(f"kernel of {title} features")
