"""Tables of cosine and sine that follow the arrays they are applied to.

A layer keeps a few windows of positions, made when they are first asked for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import caches_tables, is_compiling, values_on_host
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.memory import cuts, has_smaller_stride, read_only
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    host,
    is_dtype,
    widest_float,
)
from positional_embeddings.angles.cos_sin import cos_sin, unit_phasors
from positional_embeddings.angles.frequencies import Frequencies

# Windows begin and end at multiples of so many positions, which take milliseconds to make.
PAGE = 4096
MOST_WINDOWS = 4  # of one kind
MOST_KINDS = 8  # of dtype, device and order in memory
# Integer positions are looked up in a window of so many pages; others are computed.
_MOST_PAGES = 16
RowAxis: TypeAlias = Literal[0, -1]
_ALL = slice(None)
# Angles that are computed at a time.
_BLOCK = 2**16


# Precision, row axis and doubling.
Kind: TypeAlias = tuple[str, RowAxis, bool]


class Window(NamedTuple):
    """Tables of the positions from `start` to before `stop`, as `Target.row_axis` says."""

    start: int
    stop: int
    tables: tuple[Any, ...]


class Target(NamedTuple):
    """What tables have to know of the array that they are applied to."""

    xp: Namespace
    device: Any
    dtype: Any  # to compute in
    precision: str  # of tables on the host
    shape: tuple[Any, ...]
    feature: int
    seq: int
    # Tables are (*position, row) if the features of an array are nearer in memory than its
    # positions, with -1, else (row, *position), with 0.
    row_axis: RowAxis
    is_cached: bool
    is_compiling: bool
    name: str

    def from_host(self, tables: Iterable[Any], *, copy: bool | None = None) -> tuple[Any, ...]:
        """Return NumPy tables in the target's library."""
        if self.xp is host:
            return tuple(tables)
        options = {"dtype": self.dtype, "device": self.device, "copy": copy}
        return tuple(self.xp.asarray(table, **options) for table in tables)

    def expand(self, tables: Iterable[Any], position_axes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return tables with axes that broadcast against the target."""
        inner = self.row_axis == -1
        own = (*position_axes, self.feature) if inner else (self.feature, *position_axes)
        order, index = axes.placement(own, len(self.shape))
        if order is not None:
            tables = [self.xp.permute_dims(table, order) for table in tables]
        return tuple([table[index] for table in tables])


def target_of(x: Any, feature: int, seq: int, xp: Namespace, name: str = "x") -> Target:
    """Return what tables have to know of `x`, whose axes have been checked."""
    if xp is host:
        return _host_target(x.dtype, x.shape, x.strides, feature, seq, name)
    dtype = compute_dtype(x.dtype, xp)
    return Target(
        xp,
        device_of(x),
        dtype,
        "float32" if dtype == xp.float32 else "float64",
        tuple(x.shape),
        feature,
        seq,
        -1 if has_smaller_stride(x, feature, seq) else 0,
        caches_tables(x),
        is_compiling(x),
        name,
    )


@lru_cache(maxsize=256)
def _host_target(
    dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], feature: int, seq: int, name: str
) -> Target:
    """Return the target of a NumPy array: it takes a third of a step of one token otherwise."""
    row_axis: RowAxis = -1 if abs(strides[feature]) < abs(strides[seq]) else 0
    compute = compute_dtype(dtype, host)
    precision = "float32" if compute == host.float32 else "float64"
    where = shape, feature, seq, row_axis
    return Target(
        host, "cpu", compute, precision, *where, is_cached=True, is_compiling=False, name=name
    )


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
        From cosine, sine, a namespace and the axis of their frequencies to the tables, if they
        are not cosine and sine themselves.
    sections : tuple of tuple of int, optional
        Which frequencies belong to each coordinate of positions that have several.
    factor : float, default 1.0
        What cosine and sine are multiplied by.
    """

    frequencies: Frequencies
    size: int
    size_name: str
    arrange: Callable[[Any, Any, Namespace, RowAxis], tuple[Any, ...]] | None = None
    sections: tuple[tuple[int, ...], ...] | None = None
    factor: float = 1.0
    # By dtype, order in memory and doubling; and by library and device, too.
    _windows: dict[Kind, list[Window]] = field(default_factory=dict, init=False, repr=False)
    _device_windows: dict[tuple[Any, ...], list[Window]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.frequencies, self.size, self.size_name, self.arrange, self.sections)
        return PositionTables, (*fields, self.factor)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Number of coordinates of a position, as a shape: none if it is one number."""
        return () if self.sections is None else (len(self.sections),)

    def on_host(self) -> tuple[HostArray, ...]:
        """Return the whole float64 tables as NumPy arrays that cannot be written to."""
        window = self._window(0, self.size, "float64", 0, False)  # noqa: FBT003
        return tuple(map(read_only, window.tables))

    def tables_for(
        self,
        target: Target,
        positions: Array | None,
        offset: int,
        *,
        doubled: bool = False,
        name: str = "positions",
    ) -> tuple[Any, ...]:
        """Return the tables of the positions of an array, with axes that broadcast against it.

        With `doubled`, for NumPy arrays, they are those that `double_tables` makes of cosine
        and sine. `name` is what the caller calls the positions.
        """
        checks.no_positions_and_offset(positions, offset)
        xp = target.xp
        if positions is None:
            count = axes.length(target, target.seq, target.name)
            stop = offset + count
            checks.within_table(count, offset, self.size, self.size_name, target.seq, target.name)
            if not target.is_compiling:
                tables = self._slice_tables(offset, stop, target, doubled=doubled)
                return target.expand(tables, (target.seq,))
            # Computed in the graph, which then serves every offset.
            integer = default_integer(xp, target.device)
            positions = xp.arange(offset, stop, dtype=integer, device=target.device)
            positions = xp.broadcast_to(positions, (*self.coordinates, stop - offset))
        own = self._position_axes(positions, target, name)
        found = self._looked_up(positions, target, doubled=doubled)
        if found is None:
            found = self._computed(positions, target)
            found = double_tables(found[0], found[1], xp, target.row_axis) if doubled else found
        return target.expand(found, own)

    def tables_of_number(self, number: float, target: Target) -> tuple[Any, ...]:
        """Return the tables of one position for all of an array."""
        xp = target.xp
        if target.is_compiling:
            dtype_of = default_integer if isinstance(number, int) else widest_float
            shape = (*self.coordinates, axes.length(target, target.seq, target.name))
            dtype = dtype_of(xp, target.device)
            positions = xp.full(shape, number, dtype=dtype, device=target.device)
            return self.tables_for(target, positions, 0, name="delta")
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

    def _slice_tables(
        self, start: int, stop: int, target: Target, *, doubled: bool
    ) -> list[Any] | tuple[Any, ...]:
        """Return the tables of `start` to before `stop` in the library of the target."""
        kind = target.precision, target.row_axis, doubled
        if target.is_cached and target.xp is not host:
            window = self._device_window(start, stop, target, *kind)
            return _part(window, start, stop, target.row_axis)
        return target.from_host(
            _part(self._window(start, stop, *kind), start, stop, target.row_axis)
        )

    def _window(self, start: int, stop: int, *kind: *Kind) -> Window:
        """Return a window of NumPy tables that covers `start` to `stop`."""
        kept = self._windows.get(kind, ())
        return _covering(kept, start, stop) or _with_new(
            self._windows, kind, start, stop, self.size, partial(self._made, kind)
        )

    def _device_window(self, start: int, stop: int, target: Target, *kind: *Kind) -> Window:
        """Return a window of tables on the device of the target."""

        def made(first: int, last: int) -> tuple[Any, ...]:
            tables = _part(self._window(first, last, *kind), first, last, target.row_axis)
            return target.from_host(tables, copy=True)

        # CuPy's devices have no hash.
        device_kind = target.xp, str(target.device), *kind
        kept = self._device_windows.get(device_kind, ())
        return _covering(kept, start, stop) or _with_new(
            self._device_windows, device_kind, start, stop, self.size, made
        )

    def _made(self, kind: Kind, start: int, stop: int) -> tuple[HostArray, ...]:
        """Return NumPy tables of `start` to before `stop`."""
        precision, row_axis, doubled = kind
        made: tuple[HostArray, ...] = ()
        at = 0
        for phasors in unit_phasors(self.frequencies, start, stop, self.factor, row_axis):
            tables = self._arranged(phasors.real, phasors.imag, host, row_axis)
            tables = double_tables(tables[0], tables[1], host, row_axis) if doubled else tables
            made = made or tuple(
                host.empty(_shape(t.shape[row_axis], (stop - start,), row_axis), dtype=precision)
                for t in tables
            )
            count = phasors.shape[-1 - row_axis]
            for whole, part in zip(made, tables, strict=True):
                whole[_columns(at, at + count, row_axis)] = part
            at += count
        return made

    def _looked_up(
        self, positions: Any, target: Target, *, doubled: bool
    ) -> tuple[Any, ...] | None:
        """Return the tables of integer positions from a window, None if no window has them."""
        values = None
        if is_dtype(positions.dtype, "integral", target.xp) and 0 not in positions.shape:
            values = values_on_host(positions, target.xp)
        if values is None:
            return None
        low, high = int(values.min()), int(values.max())
        pages = high // PAGE - low // PAGE + 1
        if low < 0 or high >= self.size or pages > _MOST_PAGES:
            return None
        window = self._window(low, high + 1, target.precision, target.row_axis, doubled)
        index = values - window.start
        return target.from_host(
            self._gathered(table, index, target.row_axis) for table in window.tables
        )

    def _gathered(self, table: HostArray, index: HostArray, row_axis: RowAxis) -> HostArray:
        """Return the entries of a NumPy table at some positions."""
        if self.sections is None:
            gathered: HostArray = host.take(table, index, axis=-1 - row_axis)
            return gathered
        # Rows of a doubled table are twice those of the pairs.
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
        xp, dtype, row_axis = target.xp, target.dtype, target.row_axis
        shape = positions.shape[len(self.coordinates) :]
        if xp is not host or 0 in shape:
            return self._arranged(*self._cos_sin(positions, dtype, xp, row_axis), xp, row_axis)
        # In blocks, so that what is computed on the way takes little memory.
        count = prod(shape)
        flat = xp.reshape(positions, (*self.coordinates, count))
        tables: tuple[HostArray, ...] = ()
        for block in cuts(count, max(1, _BLOCK // self.frequencies.count)):
            cos, sin = self._cos_sin(flat[..., block], dtype, xp, row_axis)
            parts = self._arranged(cos, sin, xp, row_axis)
            tables = tables or tuple(
                xp.empty(_shape(part.shape[row_axis], (count,), row_axis), dtype=part.dtype)
                for part in parts
            )
            for whole, part in zip(tables, parts, strict=True):
                whole[_columns(block.start, block.stop, row_axis)] = part
        return tuple(
            xp.reshape(table, _shape(table.shape[row_axis], shape, row_axis)) for table in tables
        )

    def _arranged(self, cos: Any, sin: Any, xp: Namespace, row_axis: RowAxis) -> tuple[Any, ...]:
        return (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp, row_axis)

    def _cos_sin(
        self, positions: Any, dtype: Any, xp: Namespace, row_axis: RowAxis
    ) -> tuple[Any, Any]:
        """Return cosine and sine of positions; each coordinate rotates the pairs of its section."""
        if self.sections is None:
            return cos_sin(positions, self.frequencies, dtype, xp, self.factor, row_axis)
        parts = [
            cos_sin(
                positions[c, ...], self.frequencies.chosen(pairs), dtype, xp, self.factor, row_axis
            )
            for c, pairs in enumerate(self.sections)
        ]
        places = [pair for pairs in self.sections for pair in pairs]
        order = [places.index(pair) for pair in range(len(places))]
        on = device_of(positions)
        index = xp.asarray(order, dtype=default_integer(xp, on), device=on)
        cos, sin = (
            xp.take(xp.concat(list(rows), axis=row_axis), index, axis=row_axis)
            for rows in zip(*parts, strict=True)
        )
        return cos, sin


def double_tables(cos: Any, sin: Any, xp: Namespace, axis: int) -> tuple[Any, Any]:
    """Return [cos, cos] and [-sin, sin]: the factors of both features of each pair.

    ``x * [cos, cos] + [second, first] * [-sin, sin]`` is `x` in the half layout, rotated.
    """
    return xp.concat([cos, cos], axis=axis), xp.concat([-sin, sin], axis=axis)


def own_tables(tables: Iterable[Any], xp: Namespace) -> tuple[Any, ...]:
    """Return tables that a caller may keep: nothing written to them reaches those of a layer."""
    if xp is host:
        return tuple(map(read_only, tables))
    return tuple(xp.asarray(table, copy=True) for table in tables)


def _covering(windows: Sequence[Window], start: int, stop: int) -> Window | None:
    """Return a window that covers `start` to `stop`, None if none does."""
    for window in windows:
        if window.start <= start and stop <= window.stop:
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
    """Make a window of a kind that covers `start` to `stop`, and keep it in front of the others.

    Threads may do so at the same time: what is kept of a kind is replaced in one step.
    """
    page = min(start, size - 1) // PAGE
    first, last = page * PAGE, min(max(page + 1, -(-stop // PAGE)) * PAGE, size)
    new = Window(first, last, make(first, last))
    others = [w for w in windows.get(kind, ()) if w.start < first or last < w.stop]
    # Together they are no wider than a whole table.
    widths = accumulate(window.stop - window.start for window in (new, *others))
    fitting = sum(width <= size for width in widths)
    windows[kind] = [new, *others][: max(1, min(fitting, MOST_WINDOWS))]
    for old in list(windows)[:-MOST_KINDS]:
        windows.pop(old, None)
    return new


def _part(window: Window, start: int, stop: int, row_axis: RowAxis) -> list[Any]:
    """Return the tables of some positions of a window."""
    columns = _columns(start - window.start, stop - window.start, row_axis)
    return [table[columns] for table in window.tables]


def _columns(start: int, stop: int, row_axis: RowAxis) -> tuple[slice, slice]:
    """Return where some positions are in a table."""
    at = slice(start, stop)
    return (at, _ALL) if row_axis == -1 else (_ALL, at)


def _shape(rows: int, positions: tuple[int, ...], row_axis: RowAxis) -> tuple[int, ...]:
    return (*positions, rows) if row_axis == -1 else (rows, *positions)
