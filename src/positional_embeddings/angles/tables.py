"""Tables of cosine and sine that follow the arrays they are applied to.

A layer keeps a few windows of positions, made when they are first asked for; the least
recently used one goes first.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings._core import axes, checks
from positional_embeddings._core.axes import RowAxis, Target
from positional_embeddings._core.capabilities import (
    chunks_of,
    compiles_kernels,
    current_stream,
    integers_on_host,
    is_chunked,
    map_chunks,
    rechunked,
)
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.memory import cuts, read_only
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    host,
    namespace_of,
)
from positional_embeddings.angles.cos_sin import cos_sin, unit_phasors
from positional_embeddings.angles.frequencies import Frequencies
from positional_embeddings.angles.kernel import cos_sin_by_kernel, frequency_parts

# Windows begin and end at multiples of so many positions, which take milliseconds to make.
PAGE = 4096
MOST_WINDOWS = 64  # of one kind
MOST_KINDS = 8  # of dtype, device, stream and order in memory
# Integer positions are looked up in one window if it is at most so many times as wide as they
# are many (those of several coordinates, if it has at most so many pages), a few others one by one.
_SPARSE = 4
_MOST_PAGES = 16
# Angles that are computed at a time.
_BLOCK = 2**16
_ALL = slice(None)

# From cosine, sine, a namespace and the axis of their frequencies to tables.
Arrange: TypeAlias = Callable[[Any, Any, Namespace, RowAxis], tuple[Any, ...]]
# Precision, row axis, and whether tables are doubled.
Kind: TypeAlias = tuple[str, RowAxis, bool]


class Window(NamedTuple):
    """Tables of the positions from `start` to before `stop`, as `Target.row_axis` says."""

    start: int
    stop: int
    tables: tuple[Any, ...]


class Request(NamedTuple):
    """Which tables a call asks for, checked."""

    target: Target
    positions: Any  # None for those from `start` to before `stop`
    values: HostArray | None  # of integer positions, if they are there to be read
    position_axes: tuple[int, ...]
    start: int = 0
    stop: int = 0


@dataclass(frozen=True, eq=False)
class PositionTables:
    """The tables of one layer, made for each library, device and dtype that asks.

    They belong to one immutable layer, so that nothing kept here can go stale. Pickles and
    deep copies start empty.

    Attributes
    ----------
    frequencies : Frequencies
        Cycles per position.
    size : int
        Number of positions in a whole table.
    size_name : str
        The layer's name for it.
    arrange : callable, optional
        Makes the tables of cosine and sine, if they are not these themselves.
    sections : tuple of tuple of int, optional
        Which frequencies belong to each coordinate of positions that have several.
    factor : float, default 1.0
        What cosine and sine are multiplied by.
    double : callable, optional
        Makes another form of the tables, which is kept for calls that ask for it.
    """

    frequencies: Frequencies
    size: int
    size_name: str
    arrange: Arrange | None = None
    sections: tuple[tuple[int, ...], ...] | None = None
    factor: float = 1.0
    double: Arrange | None = None
    # By dtype, order in memory and doubling; and by library, device and stream, too.
    _windows: dict[Kind, list[Window]] = field(default_factory=dict, init=False, repr=False)
    _device_windows: dict[tuple[Any, ...], list[Window]] = field(
        default_factory=dict, init=False, repr=False
    )

    # What kernels have to know of the frequencies, by library, device and stream.
    _kernel_parts: dict[tuple[Any, ...], tuple[Any, Any]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.frequencies, self.size, self.size_name, self.arrange, self.sections)
        return PositionTables, (*fields, self.factor, self.double)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Number of coordinates of a position, as a shape: none if it is one number."""
        return () if self.sections is None else (len(self.sections),)

    def on_host(self) -> tuple[HostArray, ...]:
        """Return the whole float64 tables as NumPy arrays that cannot be written to."""
        window = self._window(0, self.size, "float64", 0, False)  # noqa: FBT003
        return tuple(map(read_only, window.tables))

    def check(
        self, target: Target, positions: Array | None, offset: int, name: str = "positions"
    ) -> Request:
        """Check where an array is; `name` is what the caller calls the positions."""
        checks.no_positions_and_offset(positions, offset)
        if positions is not None:
            own = self._position_axes(positions, target, name)
            integers = integers_on_host(positions, target.xp)
            return Request(target, positions, integers, own)
        count = axes.length(target, target.seq, target.name)
        checks.within_table(count, offset, self.size, self.size_name, target.seq, target.name)
        if target.is_compiling or target.seq_chunks is not None:
            # Computed in the graph, which then serves every offset, and holds no tables.
            shape = (*self.coordinates, count)
            counted = axes.positions_from(offset, count, target)
            return Request(target, target.xp.broadcast_to(counted, shape), None, (target.seq,))
        return Request(target, None, None, (target.seq,), offset, offset + count)

    def kept_tables_for(self, request: Request) -> tuple[Any, ...]:
        """Return tables that a caller may keep: nothing written to them reaches a window."""
        found = self.tables_for(request)
        if request.positions is None:  # of a window; others are made for the call
            found = tuple(
                request.target.xp.astype(table, table.dtype, copy=True) for table in found
            )
        return found

    def tables_for(self, request: Request, *, doubled: bool = False) -> tuple[Any, ...]:
        """Return the tables of the positions of an array, with axes that broadcast against it.

        With `doubled`, for NumPy arrays, they are those that `double` makes of cosine and sine.
        """
        target = request.target
        found: tuple[Any, ...] | None
        if request.positions is None:
            found = self._slice_tables(request, doubled=doubled)
        else:
            found = self._look_up_positions(request, doubled=doubled)
        if found is None:
            found = self._computed(request.positions, target)
            found = self._doubled(found, target.xp, target.row_axis) if doubled else found
        return target.expand(found, request.position_axes)

    def tables_of_number(self, number: float, target: Target) -> tuple[Any, ...]:
        """Return the tables of one position for all of an array."""
        if target.is_compiling:
            shape = (*self.coordinates, axes.length(target, target.seq, target.name))
            positions = axes.repeated_position(number, shape, target)
            return self.tables_for(Request(target, positions, None, (target.seq,)))
        position = host.asarray([number], dtype=host.int64 if isinstance(number, int) else None)
        dtype = getattr(host, target.precision)
        tables = cos_sin(position, self.frequencies, dtype, host, self.factor, target.row_axis)
        return target.expand(target.from_host(tables), (target.seq,))

    def _position_axes(self, positions: Any, target: Target, name: str) -> tuple[int, ...]:
        """Check positions, and return the axes of the target that they belong to."""
        where = target, target.feature, target.seq, target.xp, name
        if self.sections is None:
            return axes.position_axes(positions, *where)
        count = len(self.sections)
        if positions.ndim < 2 or positions.shape[0] != count:
            raise wrong_value(
                name,
                f"have a leading axis of {count} coordinates, as `sections` has",
                f"shape {tuple(positions.shape)}",
            )
        return axes.position_axes(positions[0, ...], *where)

    def _slice_tables(self, request: Request, *, doubled: bool) -> tuple[Any, ...]:
        """Return the tables from `start` to before `stop` in the library of the target."""
        target, start, stop = request.target, request.start, request.stop
        kind = target.precision, target.row_axis, doubled
        if target.is_cached and target.xp is not host:
            window = self._device_window(start, stop, target, *kind)
            return tuple(_part(window, start, stop, target.row_axis))
        window = self._window(start, stop, *kind)
        return target.from_host(_part(window, start, stop, target.row_axis))

    def _window(self, start: int, stop: int, *kind: *Kind) -> Window:
        """Return a window of NumPy tables that covers `start` to `stop`."""
        return _covering(self._windows, kind, start, stop) or _with_new(
            self._windows, kind, start, stop, self.size, partial(self._made, kind)
        )

    def _device_window(self, start: int, stop: int, target: Target, *kind: *Kind) -> Window:
        """Return a window of tables on the device of the target."""

        def made(first: int, last: int) -> tuple[Any, ...]:
            tables = _part(self._window(first, last, *kind), first, last, target.row_axis)
            return target.from_host(tables, copy=True)

        # CuPy copies tables without waiting, in the order of its current stream: another stream
        # gets tables of its own. CuPy's devices have no hash.
        device_kind = target.xp, str(target.device), current_stream(target.xp), *kind
        return _covering(self._device_windows, device_kind, start, stop) or _with_new(
            self._device_windows, device_kind, start, stop, self.size, made
        )

    def _made(self, kind: Kind, start: int, stop: int) -> tuple[HostArray, ...]:
        """Return NumPy tables of `start` to before `stop`."""
        precision, row_axis, doubled = kind

        def blocks() -> Iterator[tuple[HostArray, ...]]:
            for phasors in unit_phasors(self.frequencies, start, stop, self.factor, row_axis):
                tables = self._arranged(phasors.real, phasors.imag, host, row_axis)
                yield self._doubled(tables, host, row_axis) if doubled else tables

        return _join(blocks(), stop - start, row_axis, getattr(host, precision))

    def _look_up_positions(self, request: Request, *, doubled: bool) -> tuple[Any, ...] | None:
        """Return the tables of integer positions from windows, None if that does not pay."""
        target, values = request.target, request.values
        if values is None or values.size == 0:
            return None
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= self.size:
            return None
        kind = target.precision, target.row_axis, doubled
        window = _covering(self._windows, kind, low, high + 1)
        widest = max(PAGE, _SPARSE * values.size)
        if self.sections is not None:
            widest = _MOST_PAGES * PAGE
        if window is None and high - low >= widest:
            found = self._look_up_each(values, kind)
            return None if found is None else target.from_host(found)
        window = window or self._window(low, high + 1, *kind)
        index = values - window.start
        return target.from_host(
            self._gathered(table, index, target.row_axis) for table in window.tables
        )

    def _look_up_each(self, values: HostArray, kind: Kind) -> list[HostArray] | None:
        """Return the tables of a few positions that are far apart, None if they are many."""
        if self.sections is not None or values.size > MOST_WINDOWS:
            return None
        found: list[HostArray] = []
        for i, position in enumerate(values.ravel().tolist()):
            window = self._window(position, position + 1, *kind)
            at = position - window.start
            columns = [t[at] if kind[1] == -1 else t[:, at] for t in window.tables]
            found = found or [
                host.empty((values.size, len(column)), dtype=column.dtype) for column in columns
            ]
            for whole, column in zip(found, columns, strict=True):
                whole[i] = column
        whole_tables = (table.reshape(*values.shape, table.shape[1]) for table in found)
        return [t if kind[1] == -1 else host.moveaxis(t, -1, 0) for t in whole_tables]

    def _gathered(self, table: HostArray, index: HostArray, row_axis: RowAxis) -> HostArray:
        """Return the entries of a NumPy table at some positions."""
        if self.sections is None:
            gathered: HostArray = host.take(table, index, axis=-1 - row_axis)
            return gathered
        # A doubled table has two rows a pair.
        size = table.shape[row_axis]
        step = sum(map(len, self.sections))
        gathered = host.empty(_shape(size, index.shape[1:], row_axis), dtype=table.dtype)
        for pairs, coordinate in zip(self.sections, index, strict=True):
            rows = [pair + start for start in range(0, size, step) for pair in pairs]
            own = host.take(host.take(table, coordinate, axis=-1 - row_axis), rows, axis=row_axis)
            gathered[(rows, ...) if row_axis == 0 else (..., rows)] = own
        return gathered

    def _computed(self, positions: Any, target: Target) -> tuple[Any, ...]:
        """Return the tables of any positions."""
        if is_chunked(positions):
            return self._computed_by_chunks(positions, target)
        xp, row_axis = target.xp, target.row_axis
        shape = positions.shape[len(self.coordinates) :]

        def compute(positions: Any) -> tuple[Any, ...]:
            cos, sin = self._cos_sin(positions, target)
            return self._arranged(cos, sin, xp, row_axis)

        if xp is not host or 0 in shape:
            return compute(positions)
        # In blocks, so that what is computed on the way takes little memory.
        count = prod(shape)
        flat = xp.reshape(positions, (*self.coordinates, count))
        blocks = cuts(count, max(1, _BLOCK // self.frequencies.count))
        parts = (compute(flat[..., block]) for block in blocks)
        tables = _join(parts, count, row_axis)
        return tuple(
            xp.reshape(table, _shape(table.shape[row_axis], shape, row_axis)) for table in tables
        )

    def _computed_by_chunks(self, positions: Any, target: Target) -> tuple[Any, ...]:
        """Return the tables of chunked positions, those of a chunk in one task."""
        coordinates = len(self.coordinates)
        positions = rechunked(positions, {a: (positions.shape[a],) for a in range(coordinates)})
        lengths = chunks_of(positions)[coordinates:]
        inner = target.row_axis == -1
        # A layer of its own, for what this one keeps has no place in a graph.
        make, fields = self.__reduce__()
        of_chunk = partial(_stacked_tables, make(*fields), target._replace(shape=()))
        one_position = host.zeros((*self.coordinates, *(1,) * len(lengths)))
        tables = of_chunk(self._with_axes_of_tables(one_position, inner=inner))
        count, rows = tables.shape[0], tables.shape[-1 if inner else 1]
        chunks = ((count,), *lengths, (rows,)) if inner else ((count,), (rows,), *lengths)
        positions = self._with_axes_of_tables(positions, inner=inner)
        tables = map_chunks(of_chunk, positions, chunks=chunks, dtype=target.dtype)
        return tuple(tables[i, ...] for i in range(count))

    def _with_axes_of_tables(self, positions: Any, *, inner: bool) -> Any:
        """Return positions with axes of length 1 for tables and their rows."""
        # The coordinates, if there are any, take the first of them.
        first = (None,) * ((1 if inner else 2) - len(self.coordinates))
        return positions[(*first, ..., None)] if inner else positions[(*first, ...)]

    def _arranged(self, cos: Any, sin: Any, xp: Namespace, row_axis: RowAxis) -> tuple[Any, ...]:
        return (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp, row_axis)

    def _doubled(
        self, tables: tuple[Any, ...], xp: Namespace, row_axis: RowAxis
    ) -> tuple[Any, ...]:
        return self.double(tables[0], tables[1], xp, row_axis)  # type: ignore[misc]

    def _cos_sin(self, positions: Any, target: Target) -> tuple[Any, Any]:
        """Return cosine and sine of positions; each coordinate rotates the pairs of its section."""
        xp, row_axis = target.xp, target.row_axis
        if compiles_kernels(positions):
            return self._by_kernel(positions, target)

        def of_part(positions: Any, frequencies: Frequencies) -> tuple[Any, Any]:
            return cos_sin(positions, frequencies, target.dtype, xp, self.factor, row_axis)

        if self.sections is None:
            return of_part(positions, self.frequencies)
        parts = [
            of_part(positions[c, ...], self.frequencies.take(pairs))
            for c, pairs in enumerate(self.sections)
        ]
        places = [pair for pairs in self.sections for pair in pairs]
        order = [places.index(pair) for pair in range(len(places))]
        index = xp.asarray(order, dtype=target.integer, device=target.device)
        cos, sin = (
            xp.take(xp.concat(list(rows), axis=row_axis), index, axis=row_axis)
            for rows in zip(*parts, strict=True)
        )
        return cos, sin

    def _by_kernel(self, positions: Any, target: Target) -> tuple[Any, Any]:
        """Return cosine and sine of positions in one launch, in two if they have coordinates."""
        xp = target.xp
        kind = xp, str(target.device), current_stream(xp)
        kept = self._kernel_parts.get(kind)
        if kept is None:
            coordinates = [
                coordinate
                for pair in range(self.frequencies.count)
                for coordinate, pairs in enumerate(self.sections or ())
                if pair in pairs
            ]
            index = xp.asarray(coordinates, dtype=target.integer, device=target.device)
            parts = frequency_parts(self.frequencies, xp, target.device)
            kept = self._kernel_parts[kind] = parts, index
            _forget_oldest(self._kernel_parts)
        parts, index = kept
        if self.sections is not None:
            positions = xp.take(positions, index, axis=0)
        where = target.dtype, xp, self.factor, target.row_axis
        return cos_sin_by_kernel(positions, parts, *where, per_frequency=self.sections is not None)


def _stacked_tables(layer: PositionTables, target: Target, positions: Any) -> Any:
    """Return the tables of a chunk of positions, an array of NumPy or CuPy, as one array."""
    xp, inner = namespace_of(positions=positions), target.row_axis == -1
    first = (0,) * ((1 if inner else 2) - len(layer.coordinates))
    positions = positions[(*first, ..., 0)] if inner else positions[(*first, ...)]
    on = device_of(positions)
    dtype = getattr(xp, dtype_name(target.dtype))
    target = target._replace(xp=xp, device=on, dtype=dtype, integer=default_integer(xp, on))
    return xp.stack(layer._computed(positions, target))  # noqa: SLF001


def _covering(windows: dict[Any, Any], kind: Any, start: int, stop: int) -> Window | None:
    """Return a window of a kind that covers `start` to `stop`, None if none does."""
    kept: list[Window] = windows.get(kind, [])
    for i, window in enumerate(kept):
        if window.start <= start and stop <= window.stop:
            if i > 0:  # the least recently used one is the last
                windows[kind] = [window, *kept[:i], *kept[i + 1 :]]
            return window
    return None


def _with_new(
    windows: dict[Any, Any],
    kind: Any,
    start: int,
    stop: int,
    size: int,
    make: Callable[[int, int], tuple[Any, ...]],
) -> Window:
    """Make a window of a kind that covers `start` to `stop`, and keep it before the others.

    Threads may do so at the same time: what is kept of a kind is replaced in one step.
    """
    kept = windows.get(kind, ())
    page = min(start, size - 1) // PAGE
    first, last = page * PAGE, max(page + 1, -(-stop // PAGE)) * PAGE
    # One that grows becomes at least twice as long, so that it is seldom made anew.
    last = max([last, *(2 * w.stop - w.start for w in kept if w.start == first)])
    last = min(last, size)
    new = Window(first, last, make(first, last))
    others = [w for w in kept if w.start < first or last < w.stop]
    # Together they are no wider than a whole table.
    widths = accumulate(window.stop - window.start for window in (new, *others))
    fitting = sum(width <= size for width in widths)
    windows.pop(kind, None)
    windows[kind] = [new, *others][: max(1, min(fitting, MOST_WINDOWS))]
    _forget_oldest(windows)
    return new


def _forget_oldest(kept: dict[Any, Any]) -> None:
    """Drop the kinds that were added first, if there are too many."""
    for old in list(kept)[:-MOST_KINDS]:
        kept.pop(old, None)


def _join(
    blocks: Iterable[tuple[HostArray, ...]], count: int, row_axis: RowAxis, dtype: Any = None
) -> tuple[HostArray, ...]:
    """Return the tables of `count` positions from those of blocks, in their dtype if None."""
    joined: tuple[HostArray, ...] = ()
    start = 0
    for parts in blocks:
        joined = joined or tuple(
            host.empty(_shape(part.shape[row_axis], (count,), row_axis), dtype=dtype or part.dtype)
            for part in parts
        )
        stop = start + parts[0].shape[-1 - row_axis]
        for whole, part in zip(joined, parts, strict=True):
            whole[_interval(start, stop, row_axis)] = part
        start = stop
    return joined


def _part(window: Window, start: int, stop: int, row_axis: RowAxis) -> list[Any]:
    """Return the tables of some positions of a window."""
    interval = _interval(start - window.start, stop - window.start, row_axis)
    return [table[interval] for table in window.tables]


def _interval(start: int, stop: int, row_axis: RowAxis) -> tuple[slice, slice]:
    """Return where some positions are in a table."""
    at = slice(start, stop)
    return (at, _ALL) if row_axis == -1 else (_ALL, at)


def _shape(rows: int, positions: tuple[int, ...], row_axis: RowAxis) -> tuple[int, ...]:
    return (*positions, rows) if row_axis == -1 else (rows, *positions)
