"""Draw how far apart neighbouring float32 angles are, around the circle."""

import matplotlib.pyplot as plt
import numpy as np

figure, axes = plt.subplots(1, 3, figsize=(9, 3.3))
circle = np.linspace(0, 2 * np.pi, 400)
for ax, position in zip(axes, (1e6, 4e6, 1.6e7), strict=True):
    angle = np.float32(position)
    near = [angle]
    while near[-1] - near[0] < 2 * np.pi:
        near.append(np.nextafter(near[-1], np.float32(np.inf)))
    near = np.asarray(near, dtype=np.float64)
    ax.plot(np.cos(circle), np.sin(circle), color="#bbbbbb", linewidth=1)
    ax.plot(np.cos(near), np.sin(near), ".", color="#d55e00")
    step = float(near[1] - near[0])
    ax.set(title=f"near {position:,.0f}", xlabel=f"a step of {step:g} radians", aspect="equal")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
