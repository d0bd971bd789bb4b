"""
A rose is a rose
================

Words attend to equal words. One head of ALiBi attends to close words, the other to distant words.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import CausalMask, alibi_bias, attention_weights
from positional_embeddings.plotting import plot_attention

WORDS = ["a", "rose", "is", "a", "rose", "is", "a", "rose"]
every = sorted(set(WORDS))
features = np.eye(len(every))[:, [every.index(word) for word in WORDS]]
q = k = np.repeat(3 * features[:, :, None], 4, axis=2)  # four heads
weights = attention_weights(q, k, mask=CausalMask(), bias=alibi_bias(4, len(WORDS)))
assert weights[7, 1, 0] < weights[7, 4, 0] < weights[7, 7, 0]  # three roses

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="compressed")
for head, ax in zip((0, 3), axes, strict=True):
    plot_attention(weights, index=head, ax=ax)
    ax.set_title(f"ALiBi slope 1/{4 ** (head + 1)}")
    ax.set_xticks(range(len(WORDS)), WORDS, rotation=45)
    ax.set_yticks(range(len(WORDS)), WORDS)
