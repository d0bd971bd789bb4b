"""
Covariances on the Earth
========================

A Matern kernel of great-circle distances is no covariance on the sphere: some eigenvalues of 400
places are below 0. Harmonics that are weighted by degree give one that is, of a similar form.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import spherical_encoding

rng = np.random.default_rng(0)
latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 400)))
longitude = rng.uniform(-180, 180, 400)
unit = spherical_encoding(latitude, longitude, 1)[1:] * np.sqrt(4 * np.pi / 3)
scaled = np.sqrt(5) * 6371 / 8000 * np.arccos(np.clip(unit.T @ unit, -1, 1))
matern = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)  # of smoothness 5/2, over 8000 km

of_kernel = {"kernel": "matern", "nu": 2.5, "length_scale": 8000, "tolerance": 1e-4}
features = spherical_encoding(latitude, longitude, **of_kernel)
figure, (form, spectrum) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
covariance = features.T @ features
away = np.argsort(scaled[0])
form.plot(scaled[0, away] / np.sqrt(5) * 8000, matern[0, away], label="great-circle distances")
form.plot(scaled[0, away] / np.sqrt(5) * 8000, covariance[0, away], "--", label="harmonics")
form.set(xlabel="distance (km)", ylabel="covariance", title="a similar form")
form.legend(frameon=False)
for matrix, style in ((matern, "o"), (covariance, ".")):
    spectrum.plot(np.linalg.eigvalsh(matrix)[:150], style, markersize=4)
spectrum.axhline(0, color="#808080", linewidth=0.8)
spectrum.set(xlabel="number", ylabel="smallest eigenvalues", title="one of them below 0")
spectrum.set_yscale("symlog", linthresh=1e-6)
