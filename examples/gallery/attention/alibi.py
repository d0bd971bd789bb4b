"""
The slopes of ALiBi
===================

ALiBi subtracts the distance times a slope from the scores. Each head has its own slope. A causal
mask hides later keys.
"""

import matplotlib.pyplot as plt

from positional_embeddings import CausalMask, alibi_bias, mask_to_bias
from positional_embeddings.plotting import plot_attention

hidden = mask_to_bias(CausalMask().dense(48))
figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="compressed")
for head, ax in zip((0, 2, 5), axes, strict=True):
    plot_attention(alibi_bias(8, 48) + hidden, kind="bias", index=head, ax=ax)
    ax.set_title(f"slope 1/{2 ** (head + 1)}")
