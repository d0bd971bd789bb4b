"""
1. Positions become features
============================

A model sees numbers, and nothing in a number says that 23:59 is near to 00:01, or that token 7
comes after token 6. An encoding turns a position into a few features that say so.
"""

# %%
# The first transformer encoded the position of a token by sines and cosines, with wavelengths
# from 6 to 47,000 positions. In the array the features come first, and then the positions.

import numpy as np

from positional_embeddings import cyclic_encoding, sinusoidal_encoding, spherical_encoding
from positional_embeddings.plotting import plot_encoding, plot_similarity

encoding = sinusoidal_encoding(np.arange(100), 64)
print(encoding.shape)
plot_encoding(encoding).set_title("an encoding of 100 positions")

# %%
# Each column is one position. Columns of near positions are similar, and columns of far ones are
# less so. The picture shows this for all pairs of columns, by the cosine of the angle between the
# two.

plot_similarity(encoding).set_title("which positions are similar")

# %%
# The hours of a day repeat. ``cyclic_encoding`` gives the same features to times that are one
# period apart. More harmonics tell near times apart. Here are the hours of a day, compared with
# midnight.

hours = np.linspace(0, 24, 97)
day = cyclic_encoding(hours, period=24.0, harmonics=3)
ax = plot_similarity(day, coordinates=hours, reference=0, label="time (hours)")
ax.set_title("23:59 is near to 00:01")

# %%
# Places lie on a sphere. ``spherical_encoding`` has no seam at the date line and no trouble at
# the poles: these two places are 0.2 degrees of longitude apart, and their features are nearly
# equal.

fiji = spherical_encoding(np.asarray([-16.8, -16.8]), np.asarray([179.9, -179.9]), degree=6)
print(fiji.shape, round(float(np.abs(fiji[:, 0] - fiji[:, 1]).max()), 3))

# %%
# A model takes these features like any others: as columns of a table, or added to the features of
# tokens, which ``AbsolutePE`` does. At the next stop features are rotated instead.
