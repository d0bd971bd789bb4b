"""Plot the attention between the words of a phrase, by two heads of ALiBi."""

import numpy as np
from matplotlib.figure import Figure
from saving import save

from positional_embeddings import CausalMask, alibi_bias, attention_weights
from positional_embeddings.plotting import plot_attention

WORDS = ["a", "rose", "is", "a", "rose", "is", "a", "rose"]


def draw() -> Figure:
    """Return attention weights of a head that looks far and one that looks near."""
    every = sorted(set(WORDS))
    features = np.eye(len(every))[:, [every.index(word) for word in WORDS]]
    q = k = np.repeat(3 * features[:, :, None], 4, axis=2)  # four heads
    weights = attention_weights(q, k, mask=CausalMask(), bias=alibi_bias(4, len(WORDS)))
    figure = Figure(figsize=(9, 4), layout="compressed")
    for head, ax in zip((0, 3), figure.subplots(1, 2), strict=True):
        plot_attention(weights, index=head, ax=ax)
        ax.set_title(f"ALiBi slope 1/{4 ** (head + 1)}")
        ax.set_xticks(range(len(WORDS)), WORDS, rotation=45)
        ax.set_yticks(range(len(WORDS)), WORDS)
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
