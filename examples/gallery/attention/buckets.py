"""
The buckets of T5
=================

Each short distance has its own bucket. Longer distances share buckets, whose size grows with the
distance.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import relative_position_bucket, relative_positions

distances = np.arange(-160, 161)
both = relative_position_bucket(distances)
causal = relative_position_bucket(distances, bidirectional=False)
square = relative_position_bucket(relative_positions(np.arange(64), np.arange(64)))

figure, (curve, map_) = plt.subplots(1, 2, figsize=(9, 3.6))
curve.step(distances, both, where="mid", label="both directions")
curve.step(distances, causal, where="mid", label="causal")
curve.set(xlabel="key minus query", ylabel="bucket", title="32 buckets")
curve.legend()
format_value = map_.imshow(square)
map_.set(xlabel="key", ylabel="query", title="64 tokens")
figure.colorbar(format_value, ax=map_, label="bucket")
