"""
Biases by distance
==================

Four biases against the distance, for several heads. ALiBi is linear, KERPLE and Sandwich
flatten, and T5 has a learned value for each bucket of distances.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import ALiBiBias, KERPLEBias, SandwichBias, T5Bias

r1, r2 = np.asarray([0.5, 1.0, 2.0, 4.0]), np.asarray([0.5, 0.2, 0.1, 0.02])
BIASES = {
    "ALiBi": ALiBiBias(4),
    "KERPLE": KERPLEBias(r1, r2),
    "Sandwich": SandwichBias(4),
    "T5, at random": T5Bias(4, bidirectional=False, rng=0),
}
figure, axes = plt.subplots(1, 4, figsize=(11, 3))
for ax, (name, bias) in zip(axes, BIASES.items(), strict=True):
    last = bias(1, 200)[0, ::-1]  # one query after 199 keys: (distance, heads)
    for head in range(4):
        ax.plot(last[:, head], label=f"head {head}")
    ax.set(title=name, xlabel="distance")
axes[0].set_ylabel("bias")
axes[0].legend(fontsize="small")
