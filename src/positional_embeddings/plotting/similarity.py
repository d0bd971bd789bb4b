"""Pictures of the similarity of encodings: of all pairs, to one of them, and on a map."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, np
from positional_embeddings.plotting import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCALE = {"cmap": "RdBu_r", "vmin": -1.0, "vmax": 1.0}


def plot_similarity(
    encoding: Array,
    /,
    *,
    coordinates: Array | tuple[Array, Array] | None = None,
    reference: SupportsIndex | None = None,
    label: str = "position",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the cosine similarity of encodings: of all pairs, to one position, or on a map.

    Beyond 1,000 positions each cell of all pairs is the mean of a block.

    Parameters
    ----------
    encoding : array of numbers, shape (features, positions)
        The encoding, of any array library, finite and with no column of zeros.
    coordinates : array, shape (positions,), or pair of such arrays, optional
        Where the positions are: real numbers that increase, such as times; or latitudes
        from -90 to 90 and longitudes to the east in degrees, for a map of the similarity to
        `reference`. If None, they are counted from 0.
    reference : int, optional
        Index of the position to compare with all others. If None, all pairs are drawn.
    label : str, default "position"
        What the coordinates are, with their unit, such as "time (years)"; not used for maps.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with an image of all pairs, a line, or a map with a star at the reference.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If an array does not hold real numbers, `coordinates` is a list or tuple of other than
        two arrays, `reference` is missing for a map, or `ax` is no Axes.
    ValueError
        If a shape is wrong, a number is not finite or a column is zero, coordinates do not
        increase, a latitude is beyond a pole, or `reference` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import sinusoidal_encoding
    >>> encoding = sinusoidal_encoding(np.arange(100), 32)
    >>> ax = plot_similarity(encoding, reference=50)
    >>> x, y = ax.get_lines()[0].get_data()
    >>> int(x[np.argmax(y)]), ax.get_ylabel()
    (50, 'cosine similarity to position 50')

    Places on the sphere:

    >>> from positional_embeddings import spherical_encoding
    >>> places = np.asarray([47.4, -33.9]), np.asarray([8.5, 151.2])
    >>> ax = plot_similarity(spherical_encoding(*places, 4), coordinates=places, reference=0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('longitude (degrees east)', 'latitude (degrees north)')
    """
    units = _unit_vectors(encoding)
    count = units.shape[1]
    number = checks.optional_index("reference", reference, count)
    if isinstance(coordinates, list | tuple):
        places = _places(coordinates, count)
        if number is None:
            raise wrong_type("reference", "be given for a map", "None")
        return _draw_map(axes.axes_to_draw_on(ax), units.T @ units[:, number], places, number)
    at = axes.increasing_coordinates(coordinates, count)
    ax = axes.axes_to_draw_on(ax)
    if number is None:
        # The mean of scalar products is the scalar product of means.
        means = axes.block_means(units, (1, *axes.block_lengths((count,))))
        edges = axes.block_edges(at)
        image = axes.draw_cells(ax, means.T @ means, edges, edges, **_SCALE)
        ax.invert_yaxis()
        if coordinates is None:
            axes.tick_integers(ax)
        ax.set(xlabel=label, ylabel=label, aspect="equal")
        axes.add_colour_bar(image, "cosine similarity")
        return ax
    ax.plot(at, units.T @ units[:, number], color="#0072b2", marker="." if count <= 32 else "")
    ax.axvline(at[number], color="#808080", linewidth=0.8, linestyle="--")
    name = f"{label.partition(' (')[0]} {at[number]:.12g}"
    ax.set(xlabel=label, ylabel=f"cosine similarity to {name}")
    ax.margins(x=0)
    return ax


def _unit_vectors(encoding: Any) -> HostArray:
    """Return the columns of an encoding, each divided by its length, in float64."""
    table = axes.encoding_on_host(encoding).astype(np.float64)
    largest = np.max(np.abs(table), axis=0)
    has_direction = np.isfinite(largest) & (largest > 0)
    if not np.all(has_direction):
        at = np.argmin(has_direction)
        what = "hold finite numbers, not all of them zero, at each position"
        raise wrong_value("encoding", what, f"a largest number of {largest[at]} at position {at}")
    # Squares of very large and very small numbers would overflow and vanish.
    table = table / largest
    return table / np.linalg.vector_norm(table, axis=0)  # type: ignore[no-any-return]


def _places(coordinates: Any, count: int) -> tuple[HostArray, HostArray]:
    """Return latitudes and longitudes, these from -180 to 180 degrees."""
    if len(coordinates) != 2:
        what = "be an array, or the pair of latitudes and longitudes"
        raise wrong_type("coordinates", what, f"{len(coordinates)} things")
    latitude, longitude = (
        axes.finite_vector(f"coordinates[{i}]", array, count) for i, array in enumerate(coordinates)
    )
    beyond = latitude[np.abs(latitude) > 90]
    if beyond.size:
        what = "be latitudes from -90 to 90 degrees, before longitudes"
        raise wrong_value("coordinates[0]", what, float(beyond[0]))
    inside = np.abs(longitude) <= 180
    return latitude, np.where(inside, longitude, (longitude + 180) % 360 - 180)


def _draw_map(ax: Any, similarity: HostArray, places: Sequence[HostArray], number: int) -> Any:
    """Draw places of a grid as cells, others as dots."""
    latitude, longitude = places
    rows, row = np.unique(latitude, return_inverse=True)
    columns, column = np.unique(longitude, return_inverse=True)
    cell = row * columns.size + column
    is_table = rows.size * columns.size == cell.size == np.unique(cell).size
    if is_table and min(rows.size, columns.size) > 1:
        cells = similarity[np.argsort(cell)].reshape(rows.size, columns.size)
        image = _draw_grid(ax, cells, columns, axes.edges_between(rows))
    else:
        size = min(max(60_000 / similarity.size, 6.0), 120.0)
        edge = "#404040" if similarity.size <= 1000 else "none"
        dots = {"s": size, "c": similarity, "edgecolors": edge, "linewidths": 0.4}
        image = ax.scatter(longitude, latitude, **dots, **_SCALE)
    star = {"marker": "*", "markersize": 14, "color": "white", "markeredgecolor": "black"}
    ax.plot(longitude[number], latitude[number], linestyle="", clip_on=False, **star)
    ax.set(xlabel="longitude (degrees east)", ylabel="latitude (degrees north)", aspect="equal")
    ax.set(xlim=(-180, 180), ylim=(-90, 90), xticks=range(-180, 181, 60), yticks=range(-90, 91, 30))
    axes.add_colour_bar(image, "cosine similarity to the star", location="bottom", aspect=40)
    return ax


def _draw_grid(ax: Any, cells: HostArray, longitude: HostArray, rows: HostArray) -> Any:
    """Draw the cells of a grid, which begins after the widest gap between its longitudes."""
    once = longitude < longitude[0] + 360  # -180 and 180 degrees are one place
    longitude, cells = longitude[once], cells[:, once]
    first = int(np.argmax(np.diff(longitude, append=longitude[0] + 360))) + 1
    columns = axes.edges_between(np.concat([longitude[first:], longitude[:first] + 360]))
    cells = np.roll(cells, -first, axis=1)
    # A grid that reaches over the date line is drawn on both sides.
    for turn in (0, -360, -720):
        if columns[0] + turn < 180 and columns[-1] + turn > -180:
            image = axes.draw_cells(ax, cells, columns + turn, rows, **_SCALE)
    return image
