"""
Covariances on the Earth
========================

The eigenvalues of a covariance are never negative. A Matern kernel of the great-circle distances
between 400 places has negative eigenvalues, so it is not a covariance. The scalar products of
harmonics weighted by degree have none, and decrease with the distance in a similar way.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import spherical_encoding

rng = np.random.default_rng(0)
latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 400)))
longitude = rng.uniform(-180, 180, 400)
unit = spherical_encoding(latitude, longitude, 1)[1:] * np.sqrt(4 * np.pi / 3)
km = 6371 * np.arccos(np.clip(unit.T @ unit, -1, 1))
scaled = np.sqrt(5) * km / 8000
matern = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)  # of smoothness 5/2, over 8000 km

of_kernel = {"kernel": "matern", "nu": 2.5, "length_scale": 8000, "tolerance": 1e-4}
features = spherical_encoding(latitude, longitude, **of_kernel)
harmonics = features.T @ features

figure, (form, spectrum) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
nearest_first = np.argsort(km[0])
for name, matrix, line in (
    ("Matern kernel of distances", matern, "-"),
    ("weighted harmonics", harmonics, "--"),
):
    form.plot(km[0, nearest_first] / 1000, matrix[0, nearest_first], line, label=name)
    spectrum.plot(np.linalg.eigvalsh(matrix), line, linewidth=2)
form.set(xlabel="great-circle distance (1,000 km)", ylabel="covariance", ylim=(0, None))
form.set_title("how two places vary together")
form.legend()
spectrum.axhspan(-1, 0, color="#d0d0d0", linewidth=0)
spectrum.text(395, -3e-3, "not allowed for a covariance", ha="right")
spectrum.set_yscale("symlog", linthresh=1e-5)
spectrum.set(xlabel="number of the eigenvalue", ylabel="eigenvalue", ylim=(-1, 500))
spectrum.set_yticks([-1, -1e-2, -1e-4, 0, 1e-4, 1e-2, 1, 100])
spectrum.set_title("eigenvalues, the smallest first")
