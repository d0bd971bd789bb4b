"""Plot the biases of ALiBi: near heads and far heads, hidden after the query."""

from matplotlib.figure import Figure
from saving import save

from positional_embeddings import CausalMask, alibi_bias, mask_to_bias
from positional_embeddings.plotting import plot_bias


def draw() -> Figure:
    """Return the bias of three of eight heads."""
    figure = Figure(figsize=(11, 3), layout="compressed")
    hidden = mask_to_bias(CausalMask().dense(48))
    for head, ax in zip((0, 2, 5), figure.subplots(1, 3), strict=True):
        plot_bias(alibi_bias(8, 48) + hidden, head=head, ax=ax)
        ax.set_title(f"slope 1/{2 ** (head + 1)}")
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
