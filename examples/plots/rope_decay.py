"""Plot how the score of rotary embeddings decays with the distance, by base and scaling."""

from matplotlib.figure import Figure
from saving import save

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.plotting import plot_rope_decay


def draw() -> Figure:
    """Return scores of near distances and of far ones."""
    ropes = {
        "base 10,000": RoPE(128, 8000),
        "base 500,000": RoPE(128, 8000, 500_000),
        "base 10,000, YaRN": RoPE(128, 8000, scaling=YaRNScaling(4.0, 2048)),
    }
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    near, far = figure.subplots(1, 2)
    plot_rope_decay(ropes, max_distance=200, ax=near)
    plot_rope_decay(ropes, ax=far)
    far.get_legend().remove()
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
