"""Heat maps: encodings, masks, biases and attention weights."""

from collections.abc import Iterator
from math import floor, log10
from typing import TYPE_CHECKING, Any, SupportsIndex

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    default_integer,
    device_of,
    host,
    namespace_of,
    to_host,
)
from positional_embeddings._core.positions import position_interval
from positional_embeddings.masks.convert import check_lengths_of
from positional_embeddings.masks.describe import axis_missing, one_mask
from positional_embeddings.masks.mask import Mask
from positional_embeddings.plotting.axes import (
    add_colour_bar,
    axes_to_draw_on,
    block_lengths,
    block_means,
    check_label,
    draw_between,
    draw_cells,
    edges_between,
    increasing_vector,
    on_host,
)
from positional_embeddings.relative.positions import Bias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Beyond this ratio of its sides a plot of square cells would be a line.
_LONGEST_SHAPE = 4
_MOST_BORDERED = 32
_ATTENDS, _MASKED = "#2b5c8a", "#e6e6e6"  # dark and light, also without colours

# Weights in half precision may be a little above 1.
_ROUNDING = 1e-2

# Numbers of a mask or a bias that are evaluated at a time.
_MOST_AT_ONCE = 2**22


def plot_encoding(
    encoding: Array,
    /,
    *,
    coordinates: Array | None = None,
    label: str = "position",
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot an encoding, one row for each feature and one column for each position.

    Colours are centred at 0. Beyond 1,000 features or positions each cell is the mean of
    a block of them, so that fast waves fade instead of looking like slow ones.

    Parameters
    ----------
    encoding : array of numbers, shape (features, positions)
        The encoding, of any array library. Pass one of shape (positions, features) as
        ``encoding.T``.
    coordinates : array, shape (positions,), optional
        Where the columns are drawn, such as times: real numbers that increase, of any
        library. A column reaches halfway to its neighbours. If None, they are counted from 0.
    label : str, default "position"
        Label of the axis, with a unit, such as "time (years)".
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
        If an array does not hold real numbers, `label` is no text, or `ax` is no Axes.
    ValueError
        If `encoding` does not have two axes, one of them is empty, or `coordinates` are not
        finite, do not increase, or are not as many as columns.

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
    check_label(label)
    table = on_host("encoding", encoding, xp)
    lengths, count = block_lengths(table.shape), table.shape[1]
    cells = block_means(table, lengths)
    edges = None
    if coordinates is not None:
        edges = edges_between(increasing_vector("coordinates", coordinates, count))
        edges = edges[[*range(0, count, lengths[1]), count]]
    ax = axes_to_draw_on(ax)
    if edges is None:
        image = draw_cells(ax, cells, table.shape, cmap="RdBu_r")
    else:
        rows = host.arange(cells.shape[0] + 1) * lengths[0] - 0.5
        image = draw_between(ax, cells, edges, rows, cmap="RdBu_r")
        ax.set(ylim=(table.shape[0] - 0.5, -0.5))
        ax.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    largest = float(host.max(host.abs(cells[host.isfinite(cells)]), initial=0.0)) or 1.0
    image.set_clim(-largest, largest)
    ax.set(xlabel=label, ylabel="feature", aspect="auto")
    means = "" if lengths[1] == 1 else f" (means of {lengths[1]} positions)"
    add_colour_bar(image, f"encoding{means}")
    return ax


def plot_mask(
    mask: Array | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    batch: SupportsIndex = 0,
    key_axis: int | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot a mask, one row for each query and one column for each key.

    Beyond 1,000 queries or keys each cell is a block, and the paler the more of it is masked.
    Up to 32 of both, cells have borders.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key, of any array library. With `key_axis`
        -1, an array has shape (query, key) or (batch, ..., query, key).
    q_len, k_len, offset : int, optional
        For a `Mask`: numbers of queries and keys, and position of the first query among
        the keys. If None, there are as many keys as queries, and the last query is at the
        last key.
    batch : int, default 0
        Which sequence to draw; a mask of length 1 there is the same for all.
    key_axis : int, optional
        Axis of the keys, after that of the queries: 1 or -1. If None, it is 1, and `mask`
        has two or three axes. Axes beside that of the batch have length 1.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the mask as its last image (1 where masked), and a legend.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`, an
        option is not for this kind of mask, or `ax` is no Axes.
    ValueError
        If `mask` has too few axes, more than three without `key_axis`, several masks for
        each sequence or an empty axis, or `batch` is out of range.

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

    A `Mask` is evaluated for some queries at a time:

    >>> from positional_embeddings import CausalMask, SlidingWindowMask
    >>> ax = plot_mask(CausalMask() | SlidingWindowMask(512, 0), 8000)
    """
    number = checks.non_negative_integer("batch", batch)
    check_lengths_of(mask, q_len=q_len, k_len=k_len, offset=offset)
    if isinstance(mask, Mask):
        if key_axis is not None:
            raise wrong_type("key_axis", "be left out for a `Mask`", shown(key_axis))
        shape, cells = _cells_of_mask(mask, (q_len, k_len, offset), number)
    else:
        xp = namespace_of(mask=mask)
        checks.mask("mask", mask, xp)
        table = on_host("mask", one_mask(mask, number, key_axis)[0], xp)
        shape, cells = table.shape, block_means(table, block_lengths(table.shape))
    ax = axes_to_draw_on(ax)

    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - of the extra "plot"
    from matplotlib.patches import Patch  # noqa: PLC0415

    colours = LinearSegmentedColormap.from_list("mask", [_ATTENDS, _MASKED])
    draw_cells(ax, cells, shape, cmap=colours, vmin=0.0, vmax=1.0)
    _label_queries_and_keys(ax, shape)
    if max(shape) <= _MOST_BORDERED:
        ax.set_xticks(host.arange(shape[1] + 1) - 0.5, minor=True)
        ax.set_yticks(host.arange(shape[0] + 1) - 0.5, minor=True)
        ax.tick_params(which="minor", length=0)
        ax.grid(visible=True, which="minor", color="white", linewidth=0.8)
    ax.legend(
        handles=[Patch(color=_ATTENDS, label="attends"), Patch(color=_MASKED, label="masked")],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )
    return ax


def plot_bias(
    bias: Array | Bias,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    head: SupportsIndex = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot a bias of attention scores, one row for each query and one column for each key.

    Cells that are not finite, such as the minus infinity of a mask, are hatched grey. Beyond
    1,000 queries or keys each cell is the mean of a block; a bias that is a value is then
    evaluated for the middle query of each block only.

    Parameters
    ----------
    bias : array of numbers, shape (query, key) or (query, key, heads)
        The bias, of any array library; or a value such as `ALiBiBias`, `KERPLEBias`,
        `FIREBias`, `SandwichBias` or `T5Bias`.
    q_len, k_len, offset : int, optional
        For a bias that is a value: numbers of queries and keys, and position of the first
        query among the keys. If None, there are as many keys as queries, and the last query
        is at the last key.
    head : int, default 0
        Which head to draw; an array of length 1 there is the same for all.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the bias as its last image, and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `bias` is neither a bias of this library nor an array of real numbers, `q_len` is
        missing for a value or a length is given with an array, or `ax` is no Axes.
    ValueError
        If `bias` has neither two nor three axes or an empty one, or a number is out of range.

    Examples
    --------
    >>> from positional_embeddings import ALiBiBias
    >>> ax = plot_bias(ALiBiBias(8), 50, head=3)
    >>> ax.images[-1].colorbar.ax.get_ylabel()
    'bias of head 3'
    """
    number = checks.non_negative_integer("head", head)
    if isinstance(bias, Bias):
        if q_len is None:
            raise wrong_type("q_len", "be given for a bias that is a value", "None")
        _check_head(number, bias._heads())
        shape, cells = _cells_of_bias(bias, (q_len, k_len, offset), number)
        label = f"bias of head {number}"
    else:
        if not hasattr(bias, "shape"):
            hint = " plot_mask draws masks." if isinstance(bias, Mask) else ""
            if isinstance(bias, type):
                hint = f" Pass {bias.__name__}(...)."
            raise wrong_type(
                "bias", "be an array or a value such as ALiBiBias(8)", shown(bias), hint
            )
        for name, option in {"q_len": q_len, "k_len": k_len, "offset": offset}.items():
            if option is not None:
                raise wrong_type(name, "be left out where `bias` is an array", shown(option))
        table, label = _bias_table(bias, number)
        shape, cells = table.shape, block_means(table, block_lengths(table.shape))
    ax = axes_to_draw_on(ax)
    image = draw_cells(ax, cells, shape, cmap="viridis")
    _label_queries_and_keys(ax, shape)
    add_colour_bar(image, label)
    return ax


def plot_attention(
    weights: Array,
    /,
    *,
    index: SupportsIndex | tuple[SupportsIndex, ...] = 0,
    key_axis: int | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Plot attention weights, one row for each query and one column for each key.

    Colours grow with the cube root of the weight, so that small weights are seen, too. Queries
    that see no key are hatched grey. Beyond 1,000 queries or keys each cell is the mean of a
    block, and is grey if one of its queries sees no key.

    Parameters
    ----------
    weights : array of numbers, shape (query, key, ...)
        Weights from 0 to 1, as `attention_weights` returns them, of any array library. With
        `key_axis` -1, shape (..., query, key).
    index : int or tuple of int, default 0
        Which of the other axes to draw, such as the head: the index on the first of them,
        or on several; 0 on the rest.
    key_axis : int, optional
        Axis of the keys, after that of the queries: 1 or -1. If None, it is 1, and `weights`
        has two or three axes.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on, those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, with the weights as its last image, and a colour bar.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    TypeError
        If `weights` is not an array of real numbers, `index` is not of integers, or `ax` is
        no Axes.
    ValueError
        If `weights` has too few axes, more than three without `key_axis` or an empty one, one
        of those drawn is not from 0 to 1, or `index` or `key_axis` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from positional_embeddings import CausalMask, attention_weights
    >>> x = np.random.default_rng(0).standard_normal((16, 10))
    >>> ax = plot_attention(attention_weights(x, x, mask=CausalMask()))
    >>> ax.images[-1].colorbar.ax.get_ylabel()
    'attention weight'
    """
    xp = namespace_of(weights=weights)
    checks.real("weights", weights, xp)
    if weights.ndim < 2:
        shape = f"shape {tuple(weights.shape)}"
        raise wrong_value("weights", "have axes of queries and keys", shape)
    if key_axis is None and weights.ndim > 3:
        raise axis_missing("weights", weights)
    axis = checks.choice("key_axis", 1 if key_axis is None else key_axis, (1, -1))
    given: Any = weights
    others = tuple(given.shape[2:] if axis == 1 else given.shape[:-2])
    chosen = _indices(index, others)
    table = on_host("weights", given[(..., *chosen) if axis == 1 else (*chosen, ...)], xp)
    wrong = ~((table >= 0) & (table <= 1 + _ROUNDING))
    if host.any(wrong):
        query, key = (int(i) for i in host.unravel_index(host.argmax(wrong), table.shape))
        came = f"{table[query, key]:g} at query {query} and key {key}"
        raise wrong_value("weights", "be from 0 to 1", came)
    cells = block_means(table, block_lengths(table.shape))
    blind = host.max(table, axis=1, keepdims=True) == 0
    cells[block_means(blind, block_lengths(blind.shape))[:, 0] > 0, :] = host.nan
    ax = axes_to_draw_on(ax)

    from matplotlib.colors import PowerNorm  # noqa: PLC0415 - of the extra "plot"

    largest = float(host.max(cells, where=host.isfinite(cells), initial=0.0)) or 1.0
    norm = PowerNorm(1 / 3, vmin=0.0, vmax=largest)
    image = draw_cells(ax, cells, table.shape, cmap="viridis", norm=norm)
    _label_queries_and_keys(ax, table.shape)
    bar = add_colour_bar(image, "attention weight", "sees no key")
    bar.set_ticks(_ticks_to(largest))
    bar.ax.yaxis.set_major_formatter("{x:.2g}")
    return ax


def _indices(index: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return an index on each of some axes, 0 on those that are not given."""
    given = index if isinstance(index, tuple) else (index,) if shape else ()
    if not shape and not isinstance(index, tuple):
        checks.integer("index", index)
        if index != 0:
            raise wrong_value("index", "be 0 where `weights` has no further axes", index)
    numbers = [checks.non_negative_integer(f"index[{i}]", n) for i, n in enumerate(given)]
    if len(numbers) > len(shape):
        what = f"have at most {len(shape)} numbers, one for each further axis of `weights`"
        raise wrong_value("index", what, shown(index))
    for i, (number, size) in enumerate(zip(numbers, shape, strict=False)):
        if number >= size:
            raise wrong_value(f"index[{i}]", f"be below {size}", number)
    return (*numbers, *(0,) * (len(shape) - len(numbers)))


def _ticks_to(largest: float) -> list[float]:
    """Return 0 and round numbers whose cube roots are not too near each other."""
    decade = floor(log10(largest))
    ticks: list[float] = []
    for power in range(decade, decade - 5, -1):
        for digit in (5, 2, 1):
            tick = digit * 10.0**power
            place = (tick / largest) ** (1 / 3)
            free = not ticks or (ticks[-1] / largest) ** (1 / 3) - place > 0.1
            if 0.1 < place <= 1 and free:
                ticks.append(tick)
    return [*ticks, 0.0]


def _check_head(number: int, heads: int) -> None:
    if number >= heads:
        raise wrong_value("head", f"be below {heads}, the heads of `bias`", number)


def _bias_table(bias: Any, number: int) -> tuple[HostArray, str]:
    """Return the bias of one head of an array, and what it is called."""
    xp = namespace_of(bias=bias)
    checks.real("bias", bias, xp)
    if bias.ndim not in (2, 3):
        shape = f"shape {tuple(bias.shape)}"
        raise wrong_value("bias", "have shape (query, key) or (query, key, heads)", shape)
    if bias.ndim == 2:
        return on_host("bias", bias, xp), "bias"
    heads = bias.shape[2]
    if heads != 1:
        _check_head(number, heads)
    chosen = bias[:, :, 0 if heads == 1 else number]
    return on_host("bias", chosen, xp), f"bias of head {number}"


def _cells_of_mask(
    mask: Mask, lengths: tuple[Any, Any, Any], batch: int
) -> tuple[tuple[int, int], HostArray]:
    """Return the numbers of queries and keys, and which share of each block is masked."""
    xp, device = mask._library(None, None)
    (start, stop), k_len = position_interval(*lengths, xp=xp, device=device)
    mask._check((start, stop), k_len)
    shape = (stop - start, k_len)
    blocks = block_lengths(shape)
    cells: list[HostArray] = []
    for first, last in _bands(shape, blocks[0], mask._batch() or 1):
        queries = ((start + first, start + last),)
        hidden = mask._between(queries, ((0, k_len),), k_len, xp, device)
        hidden = xp.broadcast_to(hidden, (last - first, k_len, hidden.shape[2]))
        cells.append(block_means(to_host(one_mask(hidden, batch, 1)[0], xp), blocks))
    return shape, host.concat(cells)


def _cells_of_bias(
    bias: Bias, lengths: tuple[Any, Any, Any], head: int
) -> tuple[tuple[int, int], HostArray]:
    """Return the numbers of queries and keys, and the bias of the middle query of each block."""
    own: Any = next(iter(bias._arrays().values()), None)
    xp, device = (host, None) if own is None else (namespace_of(bias=own), device_of(own))
    (start, stop), k_len = position_interval(*lengths, xp=xp, device=device)
    shape = (stop - start, k_len)
    length, columns = block_lengths(shape)
    firsts = host.arange(start, stop, length)
    middles = (firsts + host.minimum(firsts + length, stop) - 1) // 2
    dtype = default_integer(xp, device)
    keys = xp.arange(k_len, dtype=dtype, device=device)
    cells: list[HostArray] = []
    evaluate: Any = bias
    for first, last in _bands((middles.size, k_len), 1, bias._heads()):
        queries = xp.asarray(middles[first:last], dtype=dtype, device=device)
        band = evaluate(query_positions=queries, key_positions=keys)[:, :, head]
        cells.append(block_means(to_host(band, xp), (1, columns)))
    return shape, host.concat(cells)


def _bands(shape: tuple[int, int], length: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that are whole blocks, and few enough to be evaluated at once."""
    rows = max(_MOST_AT_ONCE // (length * shape[1] * numbers), 1) * length
    for first in range(0, shape[0], rows):
        yield first, min(first + rows, shape[0])


def _label_queries_and_keys(ax: Any, shape: tuple[int, ...]) -> None:
    square = max(shape) <= _LONGEST_SHAPE * min(shape)
    ax.set(xlabel="key", ylabel="query", aspect="equal" if square else "auto")
