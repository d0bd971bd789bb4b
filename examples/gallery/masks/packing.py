"""
Packed documents
================

Packing three documents into one row saves padding. Each token attends only to its own document, and
positions restart in each document.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import (
    CausalMask,
    SegmentMask,
    positions_from_segment_ids,
    segment_ids_from_lengths,
)
from positional_embeddings.plotting import plot_attention

segments = segment_ids_from_lengths([6, 9, 5])
positions = positions_from_segment_ids(segments)

figure, (square, steps) = plt.subplots(1, 2, figsize=(9, 3.8))
plot_attention(CausalMask() | SegmentMask(segments), 20, ax=square)
square.set_title("what a token sees")
steps.step(np.arange(20), positions, where="mid", label="position")
steps.step(np.arange(20), segments, where="mid", label="segment")
steps.set(xlabel="token of the row", title="positions and segments", xticks=range(0, 20, 4))
steps.legend()
