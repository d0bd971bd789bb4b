"""
Scores decrease with the distance
=================================

The score of two equal vectors, rotated by their positions, decreases with their distance. A larger
base or YaRN slows the decrease.
"""

import matplotlib.pyplot as plt

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.plotting import plot_rope_decay

ropes = {
    "base 10,000": RoPE(128, 8000),
    "base 500,000": RoPE(128, 8000, 500_000),
    "base 10,000, YaRN": RoPE(128, 8000, scaling=YaRNScaling(4.0, 2048)),
}
figure, (near, far) = plt.subplots(1, 2, figsize=(9, 3.6))
plot_rope_decay(ropes, max_distance=200, ax=near)
near.set_title("200 distances")
plot_rope_decay(ropes, ax=far)
far.set_title("8,000 distances")
far.get_legend().remove()
