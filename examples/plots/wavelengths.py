"""Plot the wavelengths of a head like Llama's before and after YaRN extends its context."""

from matplotlib.figure import Figure
from saving import save

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.plotting import plot_wavelengths


def draw() -> Figure:
    """Return wavelengths before and after a context of 4,096 becomes one of 32,768."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    extended = RoPE(128, 32_768, scaling=YaRNScaling(8.0, 4096))
    plot_wavelengths({"as trained": RoPE(128, 4096), "extended by YaRN": extended}, ax=ax)
    ax.set_title("pairs above their context never complete a cycle")
    return figure


if __name__ == "__main__":
    save(draw(), __file__, __doc__)
