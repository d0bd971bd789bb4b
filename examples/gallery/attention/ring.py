"""
The ring of a cache
===================

A cache of 12 slots, two of them for sink tokens. A new token overwrites the oldest one; the first
two tokens stay. The picture shows which position is in which slot after each step.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import KVCache

cache = KVCache.empty(1, 12, num_sink_tokens=2)
held = []
for _ in range(36):
    cache, step = cache.step(1)
    held.append(np.ravel(step.key_positions))
table = np.full((12, 36), np.nan)
for number, positions in enumerate(held):
    table[: positions.size, number] = np.where(positions < 0, np.nan, positions)

figure, ax = plt.subplots(figsize=(8, 3.2))
format_value = ax.imshow(table, aspect="auto", origin="lower")
ax.set(xlabel="step", ylabel="slot", title="two sink tokens, and ten slots in turns")
figure.colorbar(format_value, label="position")
