"""
A window with global tokens
===========================

For up to 32 tokens each cell has a border. For 8,000 tokens each cell is a block, and a paler cell
has more masked pairs.
"""

import matplotlib.pyplot as plt

from positional_embeddings import GlobalMask, SlidingWindowMask
from positional_embeddings.plotting import plot_attention

figure, (few, many) = plt.subplots(1, 2, figsize=(9, 4))
plot_attention(SlidingWindowMask(3, 3) & GlobalMask([0, 12]), 24, ax=few)
few.set_title("window of 7, global tokens 0 and 12")
few.get_legend().remove()
mask = SlidingWindowMask(512, 512) & GlobalMask(list(range(512)))
plot_attention(mask, 8000, ax=many)
many.set_title("window of 1,025, 512 global tokens")
