"""
Decay by xPos
=============

xPos multiplies rotated queries and divides rotated keys by a factor that depends on the position,
so scores always decay with the distance. The option ``center`` keeps the factors close to 1.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import RoPE, apply_rope, xpos_scale

positions = np.arange(1024)
tables = RoPE(64, 1024).tables(positions, dtype=np.float64)
ones = np.full((64, 1024), 1 / 8)

figure, ax = plt.subplots()
plain = apply_rope(ones, tables.cos, tables.sin)
ax.plot(plain[:, -1] @ plain[:, ::-1], label="RoPE", color="#808080")
for scale_base in (512, 128):
    scale = xpos_scale(positions, 64, scale_base=scale_base, center=512)
    q = apply_rope(ones, tables.cos * scale, tables.sin * scale)
    k = apply_rope(ones, tables.cos / scale, tables.sin / scale)
    ax.plot(q[:, -1] @ k[:, ::-1], label=f"xPos, scale base {scale_base}")
ax.set(xlabel="distance (positions)", ylabel="score of equal vectors", title="scores with decay")
ax.legend()
