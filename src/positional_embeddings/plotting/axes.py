"""Axes to draw on, coordinates along them, and heat maps of at most 1,000 cells a side."""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import kind_of, wrong_type, wrong_value
from positional_embeddings._core.forks import finished_before_forks
from positional_embeddings._core.namespace import (
    HostArray,
    Namespace,
    host,
    namespace_of,
    to_host,
)

# Cells along an axis; beyond, each cell is the mean of a block.
MOST_CELLS = 1000
# So many are larger than pixels in most pictures.
_FEW_CELLS = 100
NOT_FINITE = "#d9d9d9"

# Okabe and Ito's colours, without the yellow that white paper swallows. There are four dashes and
# seven colours, so that lines differ without colours, too.
COLOURS = ("#0072b2", "#d55e00", "#000000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("-", "--", "-.", ":")


@finished_before_forks
def axes_to_draw_on(ax: Any) -> Any:
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


def on_host(name: str, array: Any, xp: Namespace) -> HostArray:
    """Return an array that is not empty on the host."""
    if 0 in array.shape:
        raise wrong_value(name, "not be empty", f"shape {tuple(array.shape)}")
    return to_host(array, xp)


def check_label(label: Any) -> None:
    """Check the label of an axis."""
    if not isinstance(label, str):
        raise wrong_type("label", 'be text, such as "time (years)"', kind_of(label))


def finite_vector(name: str, array: Any, count: int) -> HostArray:
    """Return finite numbers, one for each of so many columns, on the host in float64."""
    xp = namespace_of(**{name: array})
    checks.real(name, array, xp)
    if tuple(array.shape) != (count,):
        what = f"have shape ({count},), one for each column of `encoding`"
        raise wrong_value(name, what, tuple(array.shape))
    numbers = to_host(array, xp)
    numbers = numbers.astype(host.float64)
    if not host.all(host.isfinite(numbers)):
        raise wrong_value(name, "hold finite numbers", "one that is not")
    return numbers


def increasing_vector(name: str, array: Any, count: int) -> HostArray:
    """Return finite numbers that increase, one for each of so many columns."""
    numbers = finite_vector(name, array, count)
    falls = host.flatnonzero(host.diff(numbers) <= 0)
    if falls.size:
        first = int(falls[0])
        came = f"{float(numbers[first])} and then {float(numbers[first + 1])} at index {first + 1}"
        raise wrong_value(name, "increase", came)
    return numbers


def edges_between(coordinates: HostArray) -> HostArray:
    """Return the edges of cells around coordinates, halfway between neighbours."""
    if coordinates.size == 1:
        edges: HostArray = coordinates[0] + host.asarray([-0.5, 0.5])
        return edges
    middles: HostArray = (coordinates[1:] + coordinates[:-1]) / 2
    first, last = 2 * coordinates[0] - middles[0], 2 * coordinates[-1] - middles[-1]
    edges = host.concat([[first], middles, [last]])
    return edges  # noqa: RET504 - its type is known


def block_lengths(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many rows and columns one cell of a heat map stands for."""
    return tuple(-(-size // MOST_CELLS) for size in shape)


def block_means(table: HostArray, lengths: tuple[int, ...]) -> HostArray:
    """Return the mean of each block of a table, in float64; the last ones may be cut short."""
    cells = table
    for axis, (size, length) in enumerate(zip(table.shape, lengths, strict=True)):
        starts = host.arange(0, size, length)
        sizes = host.expand_dims(host.diff(starts, append=size), 1 - axis)
        with host.errstate(invalid="ignore"):  # infinities of both signs
            cells = host.add.reduceat(cells, starts, axis, dtype=host.float64) / sizes
    return cells


def draw_cells(ax: Any, cells: HostArray, shape: tuple[int, ...], **options: Any) -> Any:
    """Draw the cells of a table of some shape on axes that count from 0."""
    ends = [
        size * length - 0.5 for size, length in zip(cells.shape, block_lengths(shape), strict=True)
    ]
    image = _draw_image(ax, cells, (-0.5, ends[1], ends[0], -0.5), options)
    # The last block may be cut short.
    ax.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5))
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return image


def draw_between(
    ax: Any, cells: HostArray, columns: HostArray, rows: HostArray, **options: Any
) -> Any:
    """Draw cells between edges of columns and of rows, which need not be evenly spaced."""
    even, right = _evenly_spaced(cells.T, columns)
    even, top = _evenly_spaced(even.T, rows)
    image = _draw_image(ax, even, (columns[0], right, top, rows[0]), options)
    ax.set(xlim=(columns[0], columns[-1]), ylim=(rows[0], rows[-1]))
    return image


def _evenly_spaced(cells: HostArray, edges: HostArray) -> tuple[HostArray, float]:
    """Return rows of one height in place of rows between edges, and where the last one ends."""
    sizes, height = host.diff(edges), float(edges[1] - edges[0])
    # The last one may be cut short.
    if host.all(abs(sizes[:-1] - height) <= 1e-6 * height) and sizes[-1] <= (1 + 1e-6) * height:
        return cells, float(edges[0]) + height * sizes.size
    finite = host.isfinite(cells)
    even = host.linspace(edges[0], edges[-1], MOST_CELLS + 1)
    # Each new row is the mean of what it covers. The integral up to an edge is linear in between.
    total, known = (
        host.stack([host.interp(even, edges, _running_sums(column, sizes)) for column in table.T])
        for table in (host.where(finite, cells, 0.0), finite)
    )
    total, known = host.diff(total).T, host.diff(known).T
    is_known = known > 0.5 * host.diff(even)[:, None]
    means = host.where(is_known, total / host.where(is_known, known, 1.0), host.nan)
    return means, float(edges[-1])


def _running_sums(values: HostArray, sizes: HostArray) -> HostArray:
    sums: HostArray = host.concat([[0.0], host.cumsum(values * sizes)])
    return sums


def _draw_image(
    ax: Any, cells: HostArray, extent: tuple[float, ...], options: dict[str, Any]
) -> Any:
    """Draw cells, smoothed where they may be smaller than the pixels of a screen."""
    many = max(cells.shape) > _FEW_CELLS
    if many:
        # Matplotlib smooths along both axes or none: a few large cells would fade into another.
        for axis, size in enumerate(cells.shape):
            cells = host.repeat(cells, max(1, MOST_CELLS // size), axis)
    image = ax.imshow(
        cells,
        extent=extent,
        interpolation="auto" if many else "nearest",
        interpolation_stage="data",
        **options,
    )
    return grey_where_not_finite(image)


def grey_where_not_finite(image: Any) -> Any:
    """Leave out what is not finite, so that hatched grey is seen: no colour map has it."""
    image.set_cmap(image.get_cmap().with_extremes(bad=(0.0, 0.0, 0.0, 0.0)))
    if host.ma.is_masked(image.get_array()):
        image.axes.patch.set(facecolor=NOT_FINITE, edgecolor="#8c8c8c", hatch="////", linewidth=0)
    return image


def add_colour_bar(image: Any, label: str, missing: str = "not finite", **options: Any) -> Any:
    """Add a colour bar, which says what is grey."""
    grey = f" (grey: {missing})" if host.ma.is_masked(image.get_array()) else ""
    return image.axes.figure.colorbar(image, ax=image.axes, label=label + grey, **options)


def line_style(number: int) -> dict[str, str]:
    """Return the colour and the dashes of one of several lines."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
    }
