"""Draw what a mask knows of some blocks of queries: keys that any or all of them see."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from positional_embeddings import CausalMask, GlobalMask, SlidingWindowMask
from positional_embeddings.plotting import plot_attention

LENGTH, BLOCK = 32, 8
masks = {
    "causal": CausalMask(),
    "causal, window of 10": CausalMask() | SlidingWindowMask(9, None),
    "the same, 2 global tokens": CausalMask() | (SlidingWindowMask(9, None) & GlobalMask([0, 1])),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.7))
for ax, (name, mask) in zip(axes, masks.items(), strict=True):
    plot_attention(mask, LENGTH, ax=ax)
    ax.get_legend().remove()
    ax.set_title(name)
    seen = 0
    for start in range(0, LENGTH, BLOCK):
        for first, stop in mask.key_ranges(start, start + BLOCK, LENGTH):
            seen += (stop - first) * BLOCK
            box = Rectangle((first - 0.5, start - 0.5), stop - first, BLOCK)
            box.set(fill=False, edgecolor="#d55e00", linewidth=2)
            ax.add_patch(box)
    ax.set_xlabel(f"key: {np.round(100 * seen / LENGTH**2):.0f} % of the scores")
