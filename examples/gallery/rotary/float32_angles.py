"""
The error of float32 angles
===========================

An angle of 100,000 radians in float32 is accurate only to 0.004. Cosines of such angles lose a
digit for each power of ten; the tables of this library do not.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import RoPE

positions = np.unique(np.geomspace(1, 2**24, 400).astype(np.int64))
rope = RoPE(128, 1)
exact = np.cos(np.outer(rope.inv_freq, positions).astype(np.longdouble)).astype(np.float64)
angles = rope.inv_freq.astype(np.float32)[:, None] * positions.astype(np.float32)
usual = np.cos(angles)
ours = rope.tables(positions, dtype=np.float32).cos

figure, ax = plt.subplots()
for name, table in {"angles in float32": usual, "this library": ours}.items():
    error = np.abs(table - exact).max(axis=0)
    ax.loglog(positions, np.maximum.accumulate(error), label=name)
ax.axhline(2**-25, color="#808080", linestyle=":", label="half a unit in the last place")
ax.set(xlabel="position", ylabel="largest error up to here", title="cosines in float32")
ax.legend()
