"""
1. Encode positions as features
===============================

A model takes numbers. A number does not show that 23:59 is close to 00:01, or that token 7
follows token 6. An encoding maps a position to a few features that do.
"""

# %%
# The first transformer encoded the position of a token by sines and cosines, with wavelengths
# from 6 to 47,000 positions. The array has the shape (features, positions).

import numpy as np

from positional_embeddings import cyclic_encoding, sinusoidal_encoding, spherical_encoding
from positional_embeddings.plotting import plot_encoding, plot_similarity

encoding = sinusoidal_encoding(np.arange(100), 64)
print(encoding.shape)
plot_encoding(encoding).set_title("an encoding of 100 positions")

# %%
# Each column is one position. Columns of close positions are similar, and columns of distant
# positions are less similar. The plot shows the cosine similarity of all pairs of columns.

plot_similarity(encoding).set_title("which positions are similar")

# %%
# The hours of a day repeat. ``cyclic_encoding`` returns equal features for times that are one
# period apart. More harmonics separate close times. The plot compares the hours of a day with
# midnight.

hours = np.linspace(0, 24, 97)
day = cyclic_encoding(hours, period=24.0, harmonics=3)
ax = plot_similarity(day, coordinates=hours, reference=0, label="time (hours)")
ax.set_title("23:59 is near to 00:01")

# %%
# Places lie on a sphere. ``spherical_encoding`` is continuous at the date line and at
# the poles: these two places are 0.2 degrees of longitude apart, and their features are nearly
# equal.

fiji = spherical_encoding(np.asarray([-16.8, -16.8]), np.asarray([179.9, -179.9]), degree=6)
print(fiji.shape, round(float(np.abs(fiji[:, 0] - fiji[:, 1]).max()), 3))

# %%
# A model takes these features as columns of a table, or added to the features of
# tokens by ``AbsolutePE``. The next page rotates features instead.
