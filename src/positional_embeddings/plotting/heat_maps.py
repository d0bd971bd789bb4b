"""Heat maps of encodings, similarities, masks, biases and attention weights."""

from collections.abc import Callable, Sequence
from math import ceil, log10
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.dtypes import is_dtype
from positional_embeddings.arrays.errors import format_value, plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, HostArray, np
from positional_embeddings.biases.bias import Bias
from positional_embeddings.masks.describe import select_table
from positional_embeddings.masks.index_ranges import position_interval
from positional_embeddings.masks.mask import Mask
from positional_embeddings.plotting import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Largest aspect ratio of a plot with square cells.
_MAX_ASPECT = 4
_MAX_BORDERED_CELLS = 32
_COLOURS = {"attends": "#2b5c8a", "masked": "#e6e6e6"}  # dark and light, for print without colours

_SIMILARITIES = {"cmap": "RdBu_r", "vmin": -1.0, "vmax": 1.0}

# Ticks of weights up to 1: round numbers with well separated cube roots.
_TICKS = np.asarray([0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 1.0])

# Weights in half precision may exceed 1 by this.
_ROUNDING = 1e-2

# Elements of a mask of one sequence, or of a bias, that are evaluated together.
_BLOCK_NUMBERS = 2**22


def plot_encoding(
    encoding: AnyArray,
    /,
    *,
    coordinates: AnyArray | None = None,
    label: str = "position",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot an encoding, one row for each feature and one column for each position.

    Colours are centred at 0. Beyond 1,000 features or positions, each cell is the mean of a
    block. So fast waves fade, and do not look like slow waves.

    Parameters
    ----------
    encoding : array of numbers, shape (features, positions)
        The encoding, of any array library. Pass one of shape (positions, features) as
        ``encoding.T``.
    coordinates : array, shape (positions,), optional
        Coordinates of the columns, such as times: increasing real numbers, of any library. A
        column extends midway to its neighbours. If None, the coordinates are 0, 1, ...
    label : str, default "position"
        Label of the axis, with a unit, such as "time (years)".
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the encoding as its last image, and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If an array does not hold real numbers, or `ax` is no Axes.
    ValueError
        If `encoding` does not have two axes or is empty, or `coordinates` are not finite, do not
        increase, or do not match the columns.

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
    table = axes.encoding_on_host(encoding)
    n_features, n_positions = table.shape
    column_coordinates = axes.increasing_coordinates(coordinates, n_positions)
    ax = axes.axes_to_draw_on(ax)
    cells = axes.block_means(table)
    edges = axes.block_edges(column_coordinates), axes.block_edges(np.arange(n_features))
    largest = _largest(np.abs(cells))
    image = axes.draw_cells(ax, cells, *edges, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.locator_params("both" if coordinates is None else "y", integer=True, min_n_ticks=1)
    ax.set(xlabel=label, ylabel="feature", aspect="auto")
    _, length = axes.block_lengths(table.shape)
    means = "" if length == 1 else f" (means of {length} positions)"
    axes.add_colour_bar(image, f"encoding{means}")
    return ax


def plot_similarity(
    encoding: AnyArray,
    /,
    *,
    coordinates: AnyArray | tuple[AnyArray, AnyArray] | None = None,
    reference: SupportsIndex | None = None,
    label: str = "position",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot the cosine similarity of encodings: of all pairs, to one position, or on a map.

    In a plot of all pairs of more than 1,000 positions, each cell is the mean of a block.

    Parameters
    ----------
    encoding : array of numbers, shape (features, positions)
        The encoding, of any array library, finite and with no column of zeros.
    coordinates : array, shape (positions,), or pair of such arrays, optional
        Coordinates of the positions: increasing real numbers, such as times; or latitudes from
        -90 to 90 and longitudes to the east in degrees, for a map of the similarity to
        `reference`. If None, the coordinates are 0, 1, ...
    reference : int, optional
        Index of the position to compare with all others. If None, all pairs are drawn.
    label : str, default "position"
        Label of the coordinates, with a unit, such as "time (years)"; not used for maps.
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
    index = checks.optional_index("reference", reference, count)
    if isinstance(coordinates, list | tuple):
        points = _map_points(coordinates, count)
        if index is None:
            raise wrong_type("reference", "be given for a map", "None")
        return _draw_map(axes.axes_to_draw_on(ax), units.T @ units[:, index], points, index)
    x = axes.increasing_coordinates(coordinates, count)
    ax = axes.axes_to_draw_on(ax)
    if index is None:
        # The mean of inner products is the inner product of means.
        means = axes.block_means(units, (1, *axes.block_lengths((count,))))
        edges = axes.block_edges(x)
        image = axes.draw_cells(ax, means.T @ means, edges, edges, **_SIMILARITIES)
        ax.invert_yaxis()
        if coordinates is None:
            ax.locator_params(integer=True, min_n_ticks=1)
        ax.set(xlabel=label, ylabel=label, aspect="equal")
        axes.add_colour_bar(image, "cosine similarity")
        return ax
    ax.plot(x, units.T @ units[:, index], color="#0072b2", marker="." if count <= 32 else "")
    ax.axvline(x[index], color="#808080", linewidth=0.8, linestyle="--")
    name = f"{label.partition(' (')[0]} {x[index]:.12g}"
    ax.set(xlabel=label, ylabel=f"cosine similarity to {name}")
    ax.margins(x=0)
    return ax


def plot_attention(
    table: AnyArray | Mask | Bias,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    kind: Literal["weights", "bias"] = "weights",
    index: SupportsIndex | tuple[SupportsIndex, ...] = 0,
    key_axis: int | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot a mask, a bias or weights, one row for each query and one column for each key.

    Beyond 1,000 queries or keys, each cell shows a block: the mean of its weights or of its bias,
    or its masked fraction, in paler colours for larger fractions.

    Colours of weights follow the cube root, so that small weights are visible, too. Hatched grey
    marks queries without a visible key, and blocks with such a query. It also marks numbers of a
    bias that are not finite, such as the minus infinity of a mask. Up to 32 queries and keys, cells
    of masks have borders.

    Parameters
    ----------
    table : Mask, Bias, or array, shape (query, key, ...)
        A `Mask`, or an array of bool, True where a query may not attend to a key. A bias, such as
        `ALiBiBias`, `KERPLEBias`, `FIREBias`, `SandwichBias` or `T5Bias`, or an array of real
        numbers. Weights from 0 to 1, as `attention_weights` returns them. Arrays are of any array
        library; with `key_axis` -1, they have shape (..., query, key).
    q_len, k_len, offset : int, optional
        For a `Mask` or a `Bias`: numbers of queries and keys, and position of the first query
        among the keys. By default, `k_len` is `q_len`, and the last query is at the last key.
    kind : {"weights", "bias"}, default "weights"
        Meaning of an array of numbers.
    index : int or tuple of int, default 0
        Index on the further axes of `table`, such as the sequence or the head: on the first
        further axis, or on several; 0 on the remaining axes. Axes of length 1 broadcast.
    key_axis : int, optional
        Axis of the keys of an array, after the axis of the queries: 1 or -1. If None, it is 1,
        the array has two or three axes, and the last two do not look like query and key.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure's if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the table as its last image (1 where masked), and a legend for a mask, a colour
        bar for numbers.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `table` is neither a `Mask`, a `Bias` nor an array of bool or real numbers, `q_len` is
        no integer for a `Mask` or a `Bias`, an option has no use for this kind of table, `index`
        is not of integers, or `ax` is no Axes.
    ValueError
        If `table` has too few axes, more than three without `key_axis`, or an empty axis, if its
        last two axes are of equal length, or of weights that sum to 1 as of (heads, query, key),
        without `key_axis`, if a drawn weight is not from 0 to 1, or if a number is out of range.

    See Also
    --------
    positional_embeddings.describe_mask : A mask in characters.

    Notes
    -----
    A `Mask` is evaluated in blocks of queries, and a `Bias` only for the middle query of each
    block.

    Examples
    --------
    >>> from positional_embeddings import ALiBiBias, CausalMask, SlidingWindowMask
    >>> ax = plot_attention(CausalMask() | SlidingWindowMask(512, None), 8000)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('key', 'query')
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['attends', 'masked']
    >>> ax = plot_attention(ALiBiBias(8), 50, index=3)
    >>> ax.images[-1].colorbar.ax.get_ylabel()
    'bias of head 3'

    Weights, here of one sequence and one head:

    >>> import numpy as np
    >>> from positional_embeddings import attention_weights
    >>> x = np.random.default_rng(0).standard_normal((16, 10))
    >>> ax = plot_attention(attention_weights(x, x, mask=CausalMask()))
    >>> ax.images[-1].colorbar.ax.get_ylabel()
    'attention weight'
    """
    table_kind = _kind_of(table, checks.choice("kind", kind, ("weights", "bias")))
    lengths = {"q_len": q_len, "k_len": k_len, "offset": offset}
    is_object = isinstance(table, Mask | Bias)
    unused = {"key_axis": key_axis} if is_object else lengths
    requirement = "a `Mask` or a `Bias`" if is_object else "an array"
    checks.omitted(f"where `table` is {requirement}", wrong_type, **unused)
    indices = index if isinstance(index, tuple) else (index,)
    named = {f"index[{i}]": number for i, number in enumerate(indices)}
    numbers = {name: checks.non_negative_integer(name, number) for name, number in named.items()}

    shape = tuple(getattr(table, "shape", ()))
    if key_axis is None and len(shape) == 3 and _may_be_heads_first(table, shape, table_kind):
        hint = " Pass key_axis=-1 for (heads, query, key), or key_axis=1 for (query, key, heads)."
        raise wrong_value("key_axis", "be given for an ambiguous shape", shape, hint)

    def pick(array: AnyArray) -> HostArray:
        part, sizes = select_table("table", array, numbers, key_axis)
        if len(numbers) > len(sizes):
            requirement = (
                f"have at most one number for each further axis of `table` ({array.ndim - 2})"
            )
            raise wrong_value("index", requirement, plural(len(numbers), "number"))
        part = axes.on_host("table", part, checks.mask if table_kind == "mask" else checks.real)
        return _checked_weights(part) if table_kind == "weights" else part

    shape, cells = _cells(table, lengths, pick)
    ax = axes.axes_to_draw_on(ax)
    if table_kind == "mask":
        _draw_mask(ax, cells, shape)
    elif table_kind == "weights":
        _draw_weights(ax, cells, shape)
    else:
        image = _draw_scores(ax, cells, shape, cmap="viridis")
        has_heads = isinstance(table, Mask | Bias) or table.ndim == 3
        axes.add_colour_bar(image, f"bias of head {numbers['index[0]']}" if has_heads else "bias")
    return ax


def _kind_of(table: AnyArray | Mask | Bias, number_kind: str) -> str:
    """Return the kind of a table: "mask", "bias" or "weights"; `number_kind` for numbers."""
    if isinstance(table, Mask | Bias):
        return "mask" if isinstance(table, Mask) else "bias"
    if not hasattr(table, "shape"):
        requirement = "be an array, a `Mask` or a `Bias`, such as CausalMask() or ALiBiBias(8)"
        raise wrong_type("table", requirement, format_value(table))
    is_mask = is_dtype(table.dtype, "bool", get_backend(table=table).xp)
    return "mask" if is_mask else number_kind


def _may_be_heads_first(table: Any, shape: tuple[int, ...], table_kind: str) -> bool:
    """Return whether the last axis may be the keys, by the lengths or by the sums of weights."""
    is_square = shape[1] == shape[2] and max(shape) > 1
    if 0 in shape or table_kind != "weights":
        return is_square
    sums = (axes.on_host("table", table[0, ...]).sum(axis=i, dtype=np.float64) for i in (0, 1))
    first, last = (bool(np.all(np.minimum(abs(s), abs(s - 1)) <= _ROUNDING)) for s in sums)
    if is_square and shape[0] == shape[1]:
        return last or not first
    return is_square or (last and not first)


def _checked_weights(weights: HostArray) -> Array:
    """Return weights, after checking them, with NaN for queries without a visible key."""
    if not np.all((weights >= 0) & (weights <= 1 + _ROUNDING)):
        actual = f"numbers from {np.min(weights):g} to {np.max(weights):g}"
        raise wrong_value("table", "be from 0 to 1", actual, ' Pass kind="bias" for a bias.')
    return np.where(np.max(weights, axis=1, keepdims=True) > 0, weights, np.nan)


def _draw_mask(ax: "Axes", cells: HostArray, shape: tuple[int, ...]) -> None:
    """Draw a mask, with borders between a few cells, and a legend."""
    colors, patches = map(axes.import_matplotlib, ("colors", "patches"))
    cmap = colors.LinearSegmentedColormap.from_list("mask", list(_COLOURS.values()))
    _draw_scores(ax, cells, shape, cmap=cmap, vmin=0.0, vmax=1.0)
    if max(shape) <= _MAX_BORDERED_CELLS:
        ax.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
        ax.tick_params(which="minor", length=0)
        ax.grid(visible=True, which="minor", color="white", linewidth=0.8)
    style = {"edgecolor": "#8c8c8c"}
    handles = [patches.Patch(facecolor=c, label=label, **style) for label, c in _COLOURS.items()]
    # Inside, since a legend outside could cover other axes or a title; a frame separates it.
    ax.legend(handles=handles, loc="upper right", fontsize="small", handlelength=1.0, frameon=True)


def _draw_weights(ax: "Axes", cells: HostArray, shape: tuple[int, ...]) -> None:
    """Draw weights in colours that follow their cube roots."""
    largest = _largest(cells)
    norm = axes.import_matplotlib("colors").PowerNorm(1 / 3, vmin=0.0, vmax=largest)
    image = _draw_scores(ax, cells, shape, cmap="viridis", norm=norm)
    bar = axes.add_colour_bar(image, "attention weight", "sees no key")
    ticks = _TICKS * 10.0 ** ceil(log10(largest))
    bar.set_ticks(ticks[ticks <= largest])
    bar.ax.yaxis.set_major_formatter("{x:.2g}")


def _largest(cells: HostArray) -> float:
    """Return the largest finite number, or 1 if it is 0 or missing."""
    return float(np.max(cells, where=np.isfinite(cells), initial=0.0)) or 1.0


def _cells(
    table: AnyArray | Mask | Bias, lengths: dict[str, Any], pick: Callable[[AnyArray], HostArray]
) -> tuple[tuple[int, ...], HostArray]:
    """Return the numbers of queries and keys, and the block means of the picked table."""
    if not isinstance(table, Mask | Bias):
        array = pick(table)
        return array.shape, axes.block_means(array)
    (start, stop), k_len = position_interval(**lengths, backend=backend_for())
    rows, columns = axes.block_lengths((stop - start, k_len))
    numbers = rows * k_len  # in a row of cells
    if isinstance(table, Bias):
        sample = table(1)  # determines library and device
        backend = get_backend(bias=sample)
        keys = backend.xp.arange(k_len, device=backend.device)
        numbers = k_len * sample.shape[2]
    step = rows * max(_BLOCK_NUMBERS // numbers, 1)
    cells: list[HostArray] = []
    for first in range(start, stop, step):
        last = min(first + step, stop)
        if isinstance(table, Mask):
            part, blocks = table.dense(last - first, k_len, offset=first), (rows, columns)
        else:
            middles = np.minimum(np.arange(first, last, rows) + (rows - 1) // 2, last - 1)
            queries = backend.xp.asarray(middles.tolist(), device=backend.device)
            part, blocks = table(query_positions=queries, key_positions=keys), (1, columns)
        cells.append(axes.block_means(pick(part), blocks))
    return (stop - start, k_len), np.concat(cells)


def _draw_scores(
    ax: "Axes", cells: HostArray, shape: tuple[int, ...], **options: Any
) -> "AxesImage":
    """Draw the cells of a table of queries and keys."""
    rows, columns = (axes.block_edges(np.arange(size)) for size in shape)
    image = axes.draw_cells(ax, cells, columns, rows, **options)
    ax.locator_params(integer=True, min_n_ticks=1)
    is_square = max(shape) <= _MAX_ASPECT * min(shape)
    ax.set(xlabel="key", ylabel="query", aspect="equal" if is_square else "auto")
    return image


def _unit_vectors(encoding: AnyArray) -> HostArray:
    """Return the columns of an encoding, each divided by its length, in float64."""
    table = axes.encoding_on_host(encoding).astype(np.float64)
    largest = np.max(np.abs(table), axis=0)
    has_direction = np.isfinite(largest) & (largest > 0)
    if not np.all(has_direction):
        i = np.argmin(has_direction)
        requirement = "hold finite numbers, not all of them zero, at each position"
        actual = f"a largest number of {largest[i]} at position {i}"
        raise wrong_value("encoding", requirement, actual)
    # Squares of very large and very small numbers would overflow and underflow.
    table = table / largest
    return table / np.linalg.vector_norm(table, axis=0)  # type: ignore[no-any-return]


def _map_points(coordinates: Sequence[AnyArray], count: int) -> tuple[HostArray, HostArray]:
    """Return latitudes, and longitudes from -180 to 180 degrees."""
    if len(coordinates) != 2:
        requirement = "be an array, or the pair of latitudes and longitudes"
        raise wrong_type("coordinates", requirement, plural(len(coordinates), "thing"))
    latitude, longitude = (
        axes.finite_vector(f"coordinates[{i}]", array, count) for i, array in enumerate(coordinates)
    )
    invalid = latitude[np.abs(latitude) > 90]
    if invalid.size:
        requirement = "be latitudes from -90 to 90 degrees, before longitudes"
        raise wrong_value("coordinates[0]", requirement, float(invalid[0]))
    return latitude, np.where(np.abs(longitude) <= 180, longitude, (longitude + 180) % 360 - 180)


def _draw_map(
    ax: "Axes", similarity: HostArray, points: Sequence[HostArray], reference: int
) -> "Axes":
    """Draw points of a grid as cells, other points as dots."""
    latitude, longitude = points
    rows, row = np.unique(latitude, return_inverse=True)
    columns, column = np.unique(longitude, return_inverse=True)
    cell = row * columns.size + column
    is_grid = rows.size * columns.size == cell.size == np.unique(cell).size
    if is_grid and min(rows.size, columns.size) > 1:
        cells = similarity[np.argsort(cell)].reshape(rows.size, columns.size)
        image = _draw_grid(ax, cells, columns, axes.edges_between(rows))
    else:
        size = min(max(60_000 / similarity.size, 6.0), 120.0)
        edge = "#404040" if similarity.size <= 1000 else "none"
        dots = {"s": size, "c": similarity, "edgecolors": edge, "linewidths": 0.4}
        image = ax.scatter(longitude, latitude, **dots, **_SIMILARITIES)
    star = {"marker": "*", "markersize": 14, "color": "white", "markeredgecolor": "black"}
    ax.plot(longitude[reference], latitude[reference], linestyle="", clip_on=False, **star)
    ax.set(xlabel="longitude (degrees east)", ylabel="latitude (degrees north)", aspect="equal")
    ax.set(xlim=(-180, 180), ylim=(-90, 90), xticks=range(-180, 181, 60), yticks=range(-90, 91, 30))
    axes.add_colour_bar(image, "cosine similarity to the star", location="bottom", aspect=40)
    return ax


def _draw_grid(ax: "Axes", cells: HostArray, longitude: HostArray, rows: HostArray) -> "AxesImage":
    """Draw the cells of a grid, from the largest gap between its longitudes."""
    is_unique = longitude < longitude[0] + 360  # -180 and 180 degrees are the same
    longitude, cells = longitude[is_unique], cells[:, is_unique]
    first = int(np.argmax(np.diff(longitude, append=longitude[0] + 360))) + 1
    columns = axes.edges_between(np.concat([longitude[first:], longitude[:first] + 360]))
    cells = np.roll(cells, -first, axis=1)
    # A grid across the date line is drawn on both sides.
    for shift in (0, -360, -720):
        if columns[0] + shift < 180 and columns[-1] + shift > -180:
            image = axes.draw_cells(ax, cells, columns + shift, rows, **_SIMILARITIES)
    return image
