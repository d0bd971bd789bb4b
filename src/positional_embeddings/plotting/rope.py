"""Plots of rotary embeddings: the score against the distance, and the wavelengths."""

from collections.abc import Mapping
from itertools import cycle
from math import pi
from typing import TYPE_CHECKING, Any, SupportsIndex

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import plural, type_name, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import HostArray, np
from positional_embeddings.plotting.axes import axes_to_draw_on
from positional_embeddings.rotary.rope import RoPE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Columns of a plot. For larger distances a column is a block of distances, of which at most
# _MAX_SAMPLES are computed.
_COLUMNS = 1000
_MAX_SAMPLES = 1000
_GOLDEN_RATIO = (1 + 5**0.5) / 2

# Okabe and Ito's colours, without yellow, which is invisible on white paper. Dashes distinguish
# lines without colours, too.
_COLOURS = ("#0072b2", "#d55e00", "#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES = ("-", "--", "-.", ":")
_STYLES = [{"color": _COLOURS[i % 7], "linestyle": _DASHES[i % 4]} for i in range(28)]


def plot_rope_decay(
    ropes: RoPE | Mapping[str, RoPE],
    /,
    *,
    max_distance: SupportsIndex | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    r"""Plot the score of a query and a key against their distance, for equal features.

    Query and key are the same vector of length 1, with equal rotated features. Beyond 1,000
    distances, a line shows the mean of each block of distances, and a band the range from its
    smallest to its largest score. So fast waves do not look like slow waves.

    Parameters
    ----------
    ropes : RoPE, or mapping of str to RoPE
        One rotary embedding, or several and their labels.
    max_distance : int, optional
        Largest distance in positions, 1 to 2**40; the largest `seq_len` if None.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with a line for each embedding, and a legend if they have labels.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `ropes` is neither a `RoPE` nor a mapping of text to `RoPE`, `max_distance` is no
        integer, or `ax` is no Axes.
    ValueError
        If `ropes` is empty, or `max_distance` is out of range.

    Notes
    -----
    The score at distance d is :math:`a^2 \frac{2}{n} \sum_i \cos(d\,\theta_i)` for the
    n rotated features, the frequencies :math:`\theta_i` and the attention factor a, in
    float64. With `sections`, all coordinates have the same distance. Beyond a million distances,
    1,000 unevenly spaced distances represent each block.

    References
    ----------
    Su et al. (2021), RoFormer, section 3.4.3.

    Examples
    --------
    >>> from positional_embeddings import RoPE
    >>> ropes = {"base 10,000": RoPE(64, 512), "base 500,000": RoPE(64, 512, 500_000)}
    >>> ax = plot_rope_decay(ropes)
    >>> ax.get_xlabel(), [line.get_label() for line in ax.get_lines()]
    ('distance (positions)', ['base 10,000', 'base 500,000'])
    """
    lines = _lines(ropes)
    limit = max(rope.seq_len for _, rope, _ in lines)
    if max_distance is not None:
        limit = checks.positive_integer("max_distance", max_distance, max_value=2**40)
    ax = axes_to_draw_on(ax)
    for label, rope, style in lines:
        distances, mean, lower, upper = _scores(rope, limit)
        ax.plot(distances, mean, label=label, **style)
        if limit >= _COLUMNS:
            ax.fill_between(distances, lower, upper, color=style["color"], alpha=0.2, linewidth=0)
    ax.grid(visible=True, axis="y", color="#e0e0e0")
    ax.set_axisbelow(True)
    ax.set(xlabel="distance (positions)", ylabel="score of equal unit vectors", xlim=(0, limit))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.locator_params("x", integer=True, min_n_ticks=1, nbins=5)
    _add_legend(ax)
    return ax


def plot_wavelengths(ropes: RoPE | Mapping[str, RoPE], /, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the wavelength of each rotated pair of features, in positions.

    A horizontal line is drawn at each `seq_len`: pairs above it never complete a cycle.

    Parameters
    ----------
    ropes : RoPE, or mapping of str to RoPE
        One rotary embedding, or several and their labels, such as before and after an extension
        of the context.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with a line for each embedding and each context length. Pairs of frequency 0 have an
        infinite wavelength: they are triangles at the top, and the legend has their number.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `ropes` is neither a `RoPE` nor a mapping of text to `RoPE`, or `ax` is no Axes.
    ValueError
        If `ropes` is empty.

    Examples
    --------
    >>> from positional_embeddings import RoPE, YaRNScaling
    >>> after = RoPE(128, 32_768, scaling=YaRNScaling(8.0, 4096))
    >>> ax = plot_wavelengths({"trained": RoPE(128, 4096), "YaRN": after})
    >>> [text.get_text() for text in ax.texts]
    ['context of 4,096', 'context of 32,768']
    """
    lines = _lines(ropes)
    ax = axes_to_draw_on(ax)
    for label, rope, style in lines:
        frequencies = np.abs(rope.inv_freq)
        unrotated = np.flatnonzero(frequencies == 0)
        lengths = 2 * pi / np.where(frequencies == 0, np.nan, frequencies)
        ax.plot(lengths, label=label, marker="." if frequencies.size <= 128 else "", **style)
        if unrotated.size:
            pairs = plural(unrotated.size, "pair")
            text = f"{label}: {pairs} not rotated" if label else f"{pairs} not rotated"
            marks: dict[str, Any] = {"fillstyle": "none", "clip_on": False, "label": text}
            marks |= {"color": style["color"], "transform": ax.get_xaxis_transform()}
            ax.plot(unrotated, np.full(unrotated.size, 0.97), "^", **marks)
    frequencies = np.concat([np.abs(rope.inv_freq) for _, rope, _ in lines])
    for number, length in enumerate(sorted({rope.seq_len for _, rope, _ in lines})):
        ax.axhline(length, color="#606060", linewidth=0.8, linestyle=(0, (6, 3)))
        # On the side with fewer curves, and on different sides of two close lines.
        is_left = np.mean(frequencies * length > 2 * pi) > 0.5
        alignment = {"ha": "left" if is_left else "right", "va": "bottom" if number else "top"}
        ax.annotate(
            f"context of {length:,}",
            (0.02 if is_left else 0.98, length),
            xycoords=ax.get_yaxis_transform(),
            xytext=(0, 2 if number else -2),
            textcoords="offset points",
            color="#404040",
            fontsize="small",
            **alignment,
        )
    ax.set(xlabel="pair of features", ylabel="wavelength (positions)", yscale="log")
    ax.locator_params("x", integer=True, min_n_ticks=1)
    _add_legend(ax)
    return ax


def _lines(ropes: Any) -> list[tuple[str, RoPE, dict[str, str]]]:
    """Return label, embedding and line style of each embedding; a single one has the label ""."""
    if isinstance(ropes, RoPE):
        ropes = {"": ropes}
    requirement = "be a RoPE, or a mapping of labels to RoPEs"
    if not isinstance(ropes, Mapping):
        raise wrong_type("ropes", requirement, type_name(ropes))
    if not ropes:
        raise wrong_value("ropes", "not be empty", "no RoPE")
    for label, rope in ropes.items():
        if not (isinstance(label, str) and isinstance(rope, RoPE)):
            raise wrong_type("ropes", requirement, f"{type_name(rope)} at {label!r}")
    # Matplotlib omits labels that start with "_" from legends.
    labels = (f" {label}" if label.startswith("_") else label for label in ropes)
    return list(zip(labels, ropes.values(), cycle(_STYLES), strict=False))


def _scores(rope: RoPE, max_distance: int) -> HostArray:
    """Return distances, and the mean, the smallest and the largest score of each block."""
    frequencies, factor = rope.inv_freq, rope.attention_factor**2
    length = -(-(max_distance + 1) // _COLUMNS)
    # Steps of one size may be whole numbers of cycles; multiples of the golden ratio are not.
    fractions = np.arange(_MAX_SAMPLES) * _GOLDEN_RATIO % 1
    columns = []
    for start in range(0, max_distance + 1, length):
        size = min(length, max_distance + 1 - start)
        is_full = size <= _MAX_SAMPLES
        distances = start + (np.arange(size) if is_full else np.floor(fractions * size))
        scores = factor * np.mean(np.cos(distances[:, None] * frequencies), axis=1)
        columns.append((distances.mean(), scores.mean(), scores.min(), scores.max()))
    return np.asarray(columns).T  # type: ignore[no-any-return]


def _add_legend(ax: "Axes") -> None:
    """Add a legend if anything has a label."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False)
