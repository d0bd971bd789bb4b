"""Plot a sliding window with global tokens: for 24 tokens, and for 8,000."""

from matplotlib.figure import Figure
from saving import save

from positional_embeddings import GlobalMask, SlidingWindowMask
from positional_embeddings.plotting import plot_mask


def draw() -> Figure:
    """Return a mask for few tokens and one for many."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    few, many = figure.subplots(1, 2)
    plot_mask(SlidingWindowMask(3, 3) & GlobalMask([0, 12]), 24, ax=few)
    few.set_title("window of 7, global tokens 0 and 12")
    few.get_legend().remove()
    mask = SlidingWindowMask(512, 512) & GlobalMask(list(range(512)))
    plot_mask(mask, 8000, ax=many)
    many.set_title("window of 1,025, 512 global tokens")
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
