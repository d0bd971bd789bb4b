"""Plots of the kernels of Fourier features and of AttentionRegressor."""

from typing import TYPE_CHECKING

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import type_name, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import np
from positional_embeddings.encodings.fourier_features import FourierFeatures
from positional_embeddings.plotting import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from positional_embeddings.sklearn.kernels import Kernel

# Differences of a line, and of each axis of a map; odd numbers, to include the difference 0.
_LINE_POINTS, _SIDE_POINTS = 2001, 301


def plot_kernel(
    features: "FourierFeatures | Kernel",
    reach: float,
    /,
    *,
    label: str = "difference",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot a kernel against the difference of two points.

    The kernel of Fourier features is the cosine similarity of two encodings, and a kernel of
    `AttentionRegressor` the weight of a sample: 1 at the difference 0.

    Parameters
    ----------
    features : FourierFeatures or Kernel
        Features of one coordinate, for a line, or of two, for a map. A kernel of
        ``positional_embeddings.sklearn`` with widths, such as ``regressor.kernel_``, for a line for
        each column and each term of a sum.
    reach : float
        Largest difference of a coordinate, positive: in days for kernels of times, from
        1970-01-01, and in degrees of a great circle for a `SphereKernel`. It is drawn in 1,000
        steps, and in 150 on a map: waves with more than half of this number of cycles look slower
        than they are.
    label : str, default "difference"
        Label of the axes, with a unit, such as "difference (km)".
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with lines, or an image and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `features` are neither `FourierFeatures` nor a kernel, or another argument is of the
        wrong kind.
    ValueError
        If there are more than two coordinates, `reach` is not positive, or a kernel has the width
        "loo".

    Examples
    --------
    >>> from positional_embeddings import FourierFeatures
    >>> ax = plot_kernel(FourierFeatures.sinusoidal(64), 100)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('difference', 'kernel')
    >>> ax = plot_kernel(FourierFeatures.hexagonal([1.0, 1.6]), 4, label="difference (m)")
    >>> ax.get_xlabel(), ax.images[-1].colorbar.ax.get_ylabel()
    ('difference (m), x', 'kernel')
    """
    is_kernel = hasattr(features, "_curves")  # scikit-learn is not imported
    if not (is_kernel or isinstance(features, FourierFeatures)):
        requirement = (
            "be FourierFeatures or a kernel, such as AttentionRegressor().fit(X, y).kernel_"
        )
        raise wrong_type("features", requirement, type_name(features))
    reach = checks.positive_number("reach", reach)
    if is_kernel:
        differences = np.linspace(-reach, reach, _LINE_POINTS)
        curves = features._curves(differences)  # type: ignore[union-attr]
        ax = axes.axes_to_draw_on(ax)
        for name, weight in curves:
            ax.plot(differences, weight, label=name)
        if len(curves) > 1:
            ax.legend(fontsize="small")
        ax.set(xlabel=label, ylabel="weight", xlim=(-reach, reach))
        return ax
    coordinates = features.frequencies.size // len(features.frequencies)
    if coordinates > 2:
        raise wrong_value("features", "have one coordinate or two", f"{coordinates} coordinates")
    ax = axes.axes_to_draw_on(ax)
    differences = np.linspace(-reach, reach, _LINE_POINTS if coordinates == 1 else _SIDE_POINTS)
    points = np.stack(np.meshgrid(*[differences] * coordinates))
    kernel = features.kernel(points if features.frequencies.ndim == 2 else points[0])
    kernel = kernel / np.max(kernel)  # the maximum is at 0
    if coordinates == 1:
        ax.plot(differences, kernel, color="#0072b2")
        ax.set(xlabel=label, ylabel="kernel", xlim=(-reach, reach))
        return ax
    edges = axes.edges_between(differences)
    image = axes.draw_cells(ax, kernel, edges, edges, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
    ax.invert_yaxis()
    ax.set(xlabel=f"{label}, x", ylabel=f"{label}, y", aspect="equal")
    axes.add_colour_bar(image, "kernel")
    return ax
