"""
All masks
=========

Each mask is an object with a rule. Masks combine by ``|`` (masked by either), ``&`` (masked by
both) and ``~``.
"""

import matplotlib.pyplot as plt

from positional_embeddings import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    FunctionMask,
    GlobalMask,
    NeighbourhoodMask,
    PaddingMask,
    PrefixMask,
    SegmentMask,
    SlidingWindowMask,
)
from positional_embeddings.plotting import plot_attention

MASKS = {
    "CausalMask()": CausalMask(),
    "SlidingWindowMask(3, 1)": SlidingWindowMask(3, 1),
    "ChunkedMask(4)": ChunkedMask(4),
    "DilatedMask(3)": DilatedMask(3),
    "PaddingMask([11])": PaddingMask([11]),
    "PrefixMask(5)": PrefixMask(5),
    "SegmentMask(...)": SegmentMask([0] * 4 + [1] * 7 + [2] * 5),
    "NeighbourhoodMask((4, 4), 1)": NeighbourhoodMask((4, 4), 1),
    "~GlobalMask([0, 8])": ~GlobalMask([0, 8]),
    "FunctionMask(...)": FunctionMask(lambda q, k: (q + k) % 3 == 0),
}
figure, axes = plt.subplots(2, 5, figsize=(11, 5), sharex=True, sharey=True)
for ax, (name, mask) in zip(axes.flat, MASKS.items(), strict=True):
    plot_attention(mask, 16, ax=ax)
    ax.set_title(name, fontsize="medium")
    ax.get_legend().remove()
    ax.label_outer()
