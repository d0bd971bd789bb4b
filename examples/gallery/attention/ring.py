"""
The ring buffer of a cache
==========================

A cache has 12 slots, including two sink tokens. A new token overwrites the oldest token; the first
two tokens stay. The plot shows the position in each slot after each step.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import KVCache

cache = KVCache.empty(
    1, 1, window=10, num_sink_tokens=2, num_kv_heads=1, head_size=1, feature_axis=-1, seq_axis=-2
)
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
