"""Plots of encodings, masks and biases by Matplotlib.

Optional: no other module imports this one, and Matplotlib, the extra "plot", is imported by
the first plot.
"""

from typing import TYPE_CHECKING, Any, SupportsIndex

from positional_embeddings._core import checks
from positional_embeddings._core.errors import kind_of, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    Namespace,
    host,
    namespace_of,
    to_host,
)
from positional_embeddings.masks.describe import one_mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = ["plot_bias", "plot_encoding", "plot_mask"]

# Cells along an axis; beyond, each cell is the mean of a block.
_MOST_CELLS = 1000

# Beyond this ratio of its sides a plot of square cells would be a line.
_LONGEST_SHAPE = 4
_ATTENDS, _MASKED = "#2b5c8a", "#e6e6e6"  # dark and light, also without colours
_NOT_FINITE = "#d9d9d9"


def plot_encoding(encoding: Array, /, *, ax: "Axes | None" = None) -> "Axes":
    """Plot an encoding, one row for each feature and one column for each position.

    Colours are centred at 0. Beyond 1,000 features or positions each cell is the mean of
    a block of them, so that fast waves fade instead of looking like slow ones.

    Parameters
    ----------
    encoding : array of numbers, shape (features, positions)
        The encoding, of any array library. Pass one of shape (positions, features) as
        ``encoding.T``.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the encoding as its last image, and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `encoding` is not an array of real numbers, or `ax` is no Axes.
    ValueError
        If `encoding` does not have two axes, or one of them is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import sinusoidal_encoding
    >>> ax = plot_encoding(sinusoidal_encoding(np.arange(100), 32))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('position', 'feature')
    >>> ax.images[-1].get_array().shape
    (32, 100)
    """
    xp = namespace_of(encoding=encoding)
    checks.real("encoding", encoding, xp)
    if encoding.ndim != 2:
        raise wrong_value(
            "encoding", "have shape (features, positions)", f"shape {tuple(encoding.shape)}"
        )
    table = _on_host("encoding", encoding, xp)
    ax = _axes_to_draw_on(ax)
    image = _draw(ax, table, cmap="RdBu_r")
    largest = float(host.max(host.abs(image.get_array().compressed()), initial=0.0)) or 1.0
    image.set_clim(-largest, largest)
    ax.set(xlabel="position", ylabel="feature", aspect="auto")
    _add_colour_bar(image, "encoding")
    return ax


def plot_mask(
    mask: Array,
    /,
    *,
    ax: "Axes | None" = None,
    batch: SupportsIndex = 0,
    key_axis: int | None = None,
) -> "Axes":
    """Plot a mask, one row for each query and one column for each key.

    Beyond 1,000 queries or keys each cell is a block, and the paler the more of it is masked.

    Parameters
    ----------
    mask : array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key, of any array library. With `key_axis`
        -1, shape (query, key) or (batch, ..., query, key).
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.
    batch : int, default 0
        Which sequence to draw; a mask of length 1 there is the same for all.
    key_axis : int, optional
        Axis of the keys, after that of the queries: 1 or -1. If None, it is 1, and `mask`
        has two or three axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the mask as its last image (1 where masked), and a legend.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `mask` is not a boolean array, or `ax` is no Axes.
    ValueError
        If `mask` has too few axes, more than three without `key_axis` or an empty one,
        or `batch` is out of range.

    See Also
    --------
    positional_embeddings.describe_mask : The same in characters.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> ax = plot_mask(create_causal_mask(5))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('key', 'query')
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['attends', 'masked']
    """
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    number = checks.non_negative_integer("batch", batch)
    table = _on_host("mask", one_mask(mask, number, key_axis), xp)
    ax = _axes_to_draw_on(ax)

    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - of the extra "plot"
    from matplotlib.patches import Patch  # noqa: PLC0415

    colours = LinearSegmentedColormap.from_list("mask", [_ATTENDS, _MASKED])
    _draw(ax, table, cmap=colours, vmin=0.0, vmax=1.0)
    _label_queries_and_keys(ax, table.shape)
    ax.legend(
        handles=[Patch(color=_ATTENDS, label="attends"), Patch(color=_MASKED, label="masked")],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )
    return ax


def plot_bias(bias: Array, /, *, ax: "Axes | None" = None, head: SupportsIndex = 0) -> "Axes":
    """Plot a bias of attention scores, one row for each query and one column for each key.

    Cells that are not finite, such as the minus infinity of a mask, are grey. Beyond 1,000
    queries or keys each cell is the mean of a block.

    Parameters
    ----------
    bias : array of numbers, shape (query, key) or (query, key, heads)
        The bias, of any array library.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.
    head : int, default 0
        Which head to draw; a bias of length 1 there is the same for all.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the bias as its last image, and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `bias` is not an array of real numbers, or `ax` is no Axes.
    ValueError
        If `bias` has neither two nor three axes or an empty one, or `head` is out of range.

    Examples
    --------
    >>> from positional_embeddings import alibi_bias
    >>> ax = plot_bias(alibi_bias(8, 50), head=3)
    >>> ax.images[-1].colorbar.ax.get_ylabel()
    'bias of head 3'
    """
    xp = namespace_of(bias=bias)
    checks.real("bias", bias, xp)
    if bias.ndim not in (2, 3):
        raise wrong_value(
            "bias", "have shape (query, key) or (query, key, heads)", f"shape {tuple(bias.shape)}"
        )
    number = checks.non_negative_integer("head", head)
    label, drawn = "bias", bias
    if bias.ndim == 3:
        heads = bias.shape[2]
        if heads != 1 and number >= heads:
            raise wrong_value("head", f"be below {heads}, the heads of `bias`", number)
        label, drawn = f"bias of head {number}", bias[:, :, 0 if heads == 1 else number]
    table = _on_host("bias", drawn, xp)
    ax = _axes_to_draw_on(ax)
    image = _draw(ax, table, cmap="viridis")
    _label_queries_and_keys(ax, table.shape)
    _add_colour_bar(image, label)
    return ax


def _on_host(name: str, array: Any, xp: Namespace) -> HostArray:
    if 0 in array.shape:
        raise wrong_value(name, "not be empty", f"shape {tuple(array.shape)}")
    return to_host(array, xp)


def _axes_to_draw_on(ax: Any) -> Any:
    """Return Axes that were given, or those of a new figure."""
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - of the extra "plot"
        from matplotlib.axes import Axes  # noqa: PLC0415
    except ImportError:
        message = 'Pictures need Matplotlib: pip install "positional-embeddings[plot]".'
        raise ImportError(message) from None
    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise wrong_type("ax", "be a matplotlib.axes.Axes or None", kind_of(ax))
    return ax


def _draw(ax: Any, table: HostArray, **options: Any) -> Any:
    """Draw a table on axes that count from 0; each cell of a long one is the mean of a block."""
    cells, ends = table, []
    for axis, size in enumerate(table.shape):
        step = -(-size // _MOST_CELLS)
        starts = host.arange(0, size, step)
        sizes = host.expand_dims(host.diff(starts, append=size), 1 - axis)
        with host.errstate(invalid="ignore"):  # infinities of both signs
            cells = host.add.reduceat(cells, starts, axis, dtype=host.float64) / sizes
        ends.append(step * starts.size - 0.5)
    extent = (-0.5, ends[1], ends[0], -0.5)
    image = ax.imshow(cells, extent=extent, interpolation_stage="data", **options)
    image.set_cmap(image.get_cmap().with_extremes(bad=_NOT_FINITE))
    # The last block may be cut short.
    ax.set(xlim=(-0.5, table.shape[1] - 0.5), ylim=(table.shape[0] - 0.5, -0.5))
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return image


def _label_queries_and_keys(ax: Any, shape: tuple[int, ...]) -> None:
    square = max(shape) <= _LONGEST_SHAPE * min(shape)
    ax.set(xlabel="key", ylabel="query", aspect="equal" if square else "auto")


def _add_colour_bar(image: Any, label: str) -> None:
    grey = " (grey: not finite)" if host.ma.is_masked(image.get_array()) else ""
    image.axes.figure.colorbar(image, ax=image.axes, label=label + grey)
