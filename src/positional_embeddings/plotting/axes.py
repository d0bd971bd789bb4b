"""Axes to draw on, their coordinates, and heat maps of at most 1,000 cells a side."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import type_name, wrong_type, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.image import AxesImage

# Cells along an axis; in larger tables each cell is the mean of a block.
MAX_CELLS = 1000
# With more cells along an axis, cells may be smaller than a pixel.
_MAX_SHARP_CELLS = 100


def import_matplotlib(module: str) -> Any:
    """Import a module of Matplotlib, of the extra "plot"."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError:
        message = 'Pictures need Matplotlib: pip install "positional-embeddings[plot]".'
        raise ImportError(message) from None


@finished_before_forks
def axes_to_draw_on(ax: "Axes | None") -> "Axes":
    """Return `ax`, after checking it, or the Axes of a new figure if None."""
    plt = import_matplotlib("pyplot")
    if ax is None:
        return plt.subplots(layout="compressed")[1]
    if not isinstance(ax, plt.Axes):
        raise wrong_type("ax", "be a matplotlib.axes.Axes or None", type_name(ax))
    return ax


def on_host(name: str, array: AnyArray, check: Callable[..., None] = checks.real) -> HostArray:
    """Return a NumPy array, after checking that the dtype is correct and the array not empty."""
    backend = get_backend(**{name: array})
    check(name, array, backend.xp)
    if 0 in array.shape:
        raise wrong_value(name, "not be empty", f"shape {tuple(array.shape)}")
    return backend.to_numpy(array)


def encoding_on_host(encoding: AnyArray) -> HostArray:
    """Return an encoding as a NumPy array, after checking that it is (features, positions)."""
    if not hasattr(encoding, "shape") and hasattr(encoding, "embeddings"):
        hint = " Pass encoding.embeddings."
        raise wrong_type("encoding", "be an array", type_name(encoding), hint)
    table = on_host("encoding", encoding)
    if table.ndim != 2:
        raise wrong_value("encoding", "have shape (features, positions)", f"shape {table.shape}")
    return table


def finite_vector(name: str, array: AnyArray, count: int) -> HostArray:
    """Return numbers as a float64 NumPy array, after checking that they are finite and `count`."""
    numbers = on_host(name, array).astype(np.float64)
    if numbers.shape != (count,):
        requirement = f"have shape ({count},), one for each column of `encoding`"
        raise wrong_value(name, requirement, numbers.shape)
    if not np.all(np.isfinite(numbers)):
        raise wrong_value(name, "hold finite numbers", "one that is not")
    return numbers


def increasing_coordinates(coordinates: AnyArray | None, count: int) -> HostArray:
    """Return coordinates, after checking that they increase; 0, 1, ... if None."""
    numbers: HostArray = np.arange(count)
    if coordinates is not None:
        numbers = finite_vector("coordinates", coordinates, count)
    steps = np.diff(numbers)
    if np.any(steps <= 0):
        i = np.argmin(steps)
        raise wrong_value("coordinates", "increase", f"a step of {steps[i]:g} to index {i + 1}")
    return numbers


def edges_between(coordinates: HostArray) -> Array:
    """Return the edges of cells around coordinates, midway between neighbours."""
    if coordinates.size == 1:
        return coordinates + np.asarray([-0.5, 0.5])
    midpoints = (coordinates[1:] + coordinates[:-1]) / 2
    ends = 2 * coordinates[[0, -1]] - midpoints[[0, -1]]
    return np.concat([ends[:1], midpoints, ends[1:]])


def block_edges(coordinates: HostArray) -> Array:
    """Return the edges of blocks of cells around coordinates."""
    (length,) = block_lengths(coordinates.shape)
    edges = edges_between(coordinates)
    return np.concat([edges[:-1:length], edges[-1:]])


def block_lengths(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of rows and columns of a block, which one cell of a heat map shows."""
    return tuple(-(-size // MAX_CELLS) for size in shape)


def block_means(table: HostArray, lengths: tuple[int, ...] | None = None) -> HostArray:
    """Return the mean of each block of a table, in float64; the last blocks may be shorter."""
    cells = table
    for axis, length in enumerate(lengths or block_lengths(table.shape)):
        starts = np.arange(0, table.shape[axis], length)
        sizes = np.expand_dims(np.diff(starts, append=table.shape[axis]), 1 - axis)
        with np.errstate(invalid="ignore"):  # infinities of both signs
            cells = np.add.reduceat(cells, starts, axis, dtype=np.float64) / sizes
    return cells


def draw_cells(
    ax: "Axes", cells: HostArray, columns: HostArray, rows: HostArray, **options: Any
) -> "AxesImage":
    """Draw cells between edges, the first row at the top; hatch numbers that are not finite."""
    cells, right = _evenly_spaced(cells.T, columns)
    cells, bottom = _evenly_spaced(cells.T, rows)
    is_smooth = max(cells.shape) > _MAX_SHARP_CELLS
    if is_smooth:
        # Matplotlib smooths along both axes: without repeats, large cells would be blurred.
        for axis, size in enumerate(cells.shape):
            cells = np.repeat(cells, max(1, MAX_CELLS // size), axis)
    image = ax.imshow(
        cells,
        extent=(columns[0], right, bottom, rows[0]),
        interpolation="auto" if is_smooth else "nearest",
        interpolation_stage="data",
        **options,
    )
    ax.set(xlim=(columns[0], columns[-1]), ylim=(rows[-1], rows[0]))
    # Transparent, so that the hatched background is visible.
    image.set_cmap(image.get_cmap().with_extremes(bad=(0.0, 0.0, 0.0, 0.0)))
    if np.ma.is_masked(image.get_array()):
        ax.patch.set(facecolor="#d9d9d9", edgecolor="#8c8c8c", hatch="////", linewidth=0)
    return image


def _evenly_spaced(cells: HostArray, edges: HostArray) -> tuple[HostArray, float]:
    """Resample rows between edges to rows of one height; return them and the end of the last."""
    sizes, height = np.diff(edges), float(edges[1] - edges[0])
    # The last row may be shorter.
    if np.all(abs(sizes[:-1] - height) <= 1e-6 * height) and sizes[-1] <= (1 + 1e-6) * height:
        return cells, float(edges[0]) + height * sizes.size
    grid = np.linspace(edges[0], edges[-1], MAX_CELLS + 1)

    def integral(table: HostArray) -> Array:
        """Return the integral over each new row, from linear interpolation between edges."""
        sums = np.cumulative_sum(table * sizes[:, None], axis=0, include_initial=True)
        return np.diff([np.interp(grid, edges, column) for column in sums.T]).T

    finite = np.isfinite(cells)
    total, weight = integral(np.where(finite, cells, 0.0)), integral(finite)
    is_valid = weight > 0.5 * np.diff(grid)[:, None]
    return np.where(is_valid, total / np.where(is_valid, weight, 1.0), np.nan), float(edges[-1])


def add_colour_bar(
    image: "AxesImage", label: str, missing: str = "not finite", **options: Any
) -> "Colorbar":
    """Add a colour bar, whose label explains grey cells."""
    grey = f" (grey: {missing})" if np.ma.is_masked(image.get_array()) else ""
    return image.axes.figure.colorbar(image, ax=image.axes, label=label + grey, **options)
