"""
A mask
======

A window.
"""

from positional_embeddings import CausalMask
from positional_embeddings.plotting import plot_mask

plot_mask(CausalMask(), 24)
