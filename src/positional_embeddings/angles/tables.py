"""Tables of cosine and sine that follow the arrays they are applied to.

A layer keeps pages of positions, made when they are first asked for; the least recently used
one goes first. Every table has the shape (frequency, *positions).
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple, TypeAlias

from positional_embeddings.angles.cos_sin import by_frequency, cos_sin, unit_phasors
from positional_embeddings.angles.frequencies import Frequencies
from positional_embeddings.angles.kernel import cos_sin_by_kernel, frequency_parts
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.axes import Order, Target
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.library import library_of
from positional_embeddings.arrays.memory import cuts, read_only
from positional_embeddings.arrays.namespace import Array, HostArray, Namespace, np
from positional_embeddings.arrays.space import new_space, space_of
from positional_embeddings.arrays.values import integers_on_host

# Pages begin and end at multiples of this number of positions, which takes milliseconds to make.
PAGE = 4096
MAX_PAGES = 64  # of one kind
MAX_KINDS = 16  # of dtype, order in memory, library, device and stream
# Integer positions are looked up in one page if their span is at most this number of times as
# long as their number (several coordinates: this number of page lengths), a few others one by one.
_SPARSE = 4
_LONGEST_SPAN = 16 * PAGE
# Angles that are computed at a time.
_BLOCK = 2**16

# From cosine, sine and their namespace to tables.
Arrange: TypeAlias = Callable[[Any, Any, Namespace], tuple[Any, ...]]
# Precision, order in memory, and what `Target.keeper` has.
Kind: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """The tables of the positions from `start` to before `stop`."""

    start: int
    stop: int
    tables: tuple[Any, ...]

    @cached_property
    def doubled(self) -> tuple[Any, Any]:
        """Cosine and sine as `double_tables` makes them, for NumPy arrays."""
        cos, sin = self.tables
        return double_tables(cos, sin, np)


class Request(NamedTuple):
    """Which tables a call asks for, checked."""

    target: Target
    positions: Any  # None for those from `start` to before `stop`
    position_axes: tuple[int, ...]
    start: int = 0
    stop: int = 0


@dataclass(frozen=True, eq=False)
class PositionTables:
    """The tables of one layer, made for each library, device and dtype that asks.

    They belong to one immutable layer, so that nothing kept here can go stale. Pickles and
    copies start empty.

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
    sections : tuple of int, optional
        For positions of several coordinates: the coordinate of each frequency.
    factor : float, default 1.0
        What cosine and sine are multiplied by.
    """

    frequencies: Frequencies
    size: int
    size_name: str
    arrange: Arrange | None = None
    sections: tuple[int, ...] | None = None
    factor: float = 1.0
    # The pages of each kind, the latest used first: they are replaced in one step.
    _pages: dict[tuple[Any, ...], tuple[Page, ...]] = field(
        default_factory=dict, init=False, repr=False
    )
    # What kernels need to know of the frequencies, by library, device and stream.
    _kernel_parts: dict[tuple[Any, ...], tuple[Any, Any]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.frequencies, self.size, self.size_name)
        return PositionTables, (*fields, self.arrange, self.sections, self.factor)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Number of coordinates of a position, as a shape: none if it is one number."""
        return () if self.sections is None else (max(self.sections) + 1,)

    def on_host(self) -> tuple[HostArray, ...]:
        """Return the whole float64 tables as NumPy arrays that cannot be written to."""
        kind = "float64", "C"
        page = self._find(kind, 0, self.size) or self._add(kind, 0, self.size)
        return tuple(map(read_only, page.tables))

    def check(
        self, target: Target, positions: Array | None, offset: int, name: str = "positions"
    ) -> Request:
        """Check where an array is; `name` is what the caller calls the positions."""
        if positions is not None:
            checks.no_positions_and_offset(positions, offset)
            return Request(target, positions, self._position_axes(positions, target, name))
        count = axes.length(target, target.seq, target.name)
        checks.within_table(count, offset, self.size, self.size_name, target.seq, target.name)
        if target.is_compiling or target.seq_chunks is not None:
            # Computed in the graph, which then serves every offset, and holds no tables.
            shape = (*self.coordinates, count)
            counted = axes.positions_from(offset, count, target)
            return Request(target, target.xp.broadcast_to(counted, shape), (target.seq,))
        return Request(target, None, (target.seq,), offset, offset + count)

    def tables_for(self, request: Request, *, doubled: bool = False) -> tuple[Any, ...]:
        """Return the tables of the positions of an array, with axes that broadcast against it.

        With `doubled`, for NumPy arrays, cosine and sine are as `double_tables` makes them.
        """
        target = request.target
        tables: tuple[Any, ...] | None
        if request.positions is None:
            tables = self._slice(request.start, request.stop, target, doubled=doubled)
        else:
            tables = self._look_up(request.positions, target, doubled=doubled)
            if tables is None:
                tables = self._compute(request.positions, target)
                tables = double_tables(tables[0], tables[1], target.xp) if doubled else tables
        return target.expand(tables, request.position_axes)

    def copies_for(self, request: Request) -> tuple[Any, ...]:
        """Return tables that a caller may keep: nothing written to them reaches a page."""
        tables = self.tables_for(request)
        if request.positions is not None:  # made for the call
            return tables
        return tuple(request.target.xp.astype(t, t.dtype, copy=True) for t in tables)

    def tables_of_number(self, number: float, target: Target) -> tuple[Any, ...]:
        """Return the tables of one position for all of an array."""
        if target.is_compiling:
            positions = axes.repeated_position(number, (*self.coordinates, 1), target)
            return self.tables_for(Request(target, positions, (target.seq,)))
        position = np.asarray([number], dtype=np.int64 if isinstance(number, int) else None)
        dtype = getattr(np, target.precision)
        tables = cos_sin(position, self.frequencies, dtype, new_space(), self.factor)
        return target.expand(tables, (target.seq,))

    def _position_axes(self, positions: Any, target: Target, name: str) -> tuple[int, ...]:
        """Check positions, and return the axes of the target that they belong to."""
        where = target, target.feature, target.seq, target.xp, name
        if self.sections is None:
            return axes.position_axes(positions, *where)
        (count,) = self.coordinates
        if positions.ndim < 2 or positions.shape[0] != count:
            raise wrong_value(
                name,
                f"have a leading axis of {count} coordinates, as `sections` has",
                f"shape {tuple(positions.shape)}",
            )
        return axes.position_axes(positions[0, ...], *where)

    def _slice(self, start: int, stop: int, target: Target, *, doubled: bool) -> tuple[Any, ...]:
        """Return the tables of `start` to before `stop`, on the device if it keeps any."""
        kind = target.precision, target.order, *target.keeper
        page = self._find(kind, start, stop) or self._add(kind, start, stop, target)
        tables = page.doubled if doubled else page.tables
        return tuple([t[:, start - page.start : stop - page.start] for t in tables])

    def _find(self, kind: Kind, start: int, stop: int) -> Page | None:
        """Return a page of a kind that covers `start` to `stop`, None if none does."""
        pages = self._pages.get(kind, ())
        for i, page in enumerate(pages):
            if page.start <= start and stop <= page.stop:
                if i > 0:
                    self._pages[kind] = (page, *pages[:i], *pages[i + 1 :])
                return page
        return None

    def _add(self, kind: Kind, start: int, stop: int, target: Target | None = None) -> Page:
        """Make a page of a kind that covers `start` to `stop`, and keep it before the others."""
        start = min(start, self.size - 1) // PAGE * PAGE
        stop = min(max(start + PAGE, -(-stop // PAGE) * PAGE), self.size)
        if target is not None and target.keeper:
            of_numpy = self._slice(start, stop, target._replace(keeper=()), doubled=False)
            tables = target.from_host(of_numpy, copy=True)
        else:
            tables = self._make(start, stop, *kind)
        new = Page(start, stop, tables)
        others = self._pages.pop(kind, ())
        pages = [new, *(p for p in others if p.start < start or stop < p.stop)]
        # Together they are no longer than a whole table.
        lengths = accumulate(page.stop - page.start for page in pages)
        fitting = sum(length <= self.size for length in lengths)
        self._pages[kind] = tuple(pages[: min(fitting, MAX_PAGES)])
        _evict(self._pages)
        return new

    def _make(self, start: int, stop: int, precision: str, order: Order) -> tuple[HostArray, ...]:
        """Return NumPy tables of `start` to before `stop`."""
        phasors = unit_phasors(self.frequencies, start, stop, self.factor)
        blocks = (self._arranged(p.real, p.imag, np) for p in phasors)
        return _join(blocks, stop - start, order, getattr(np, precision))

    def _look_up(
        self, positions: Any, target: Target, *, doubled: bool
    ) -> tuple[HostArray, ...] | None:
        """Return the tables of integer positions from pages, None if that does not pay."""
        values = integers_on_host(positions, target.xp)
        if values is None or values.size == 0:
            return None
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= self.size:
            return None
        kind = target.precision, target.order
        page = self._find(kind, low, high + 1)
        longest = max(PAGE, _SPARSE * values.size) if self.sections is None else _LONGEST_SPAN
        if page is None and high - low >= longest:
            return self._look_up_each(values, target, doubled=doubled)
        page = page or self._add(kind, low, high + 1)
        tables = page.doubled if doubled else page.tables
        return tuple([self._entries(t, values - page.start, target.order) for t in tables])

    def _look_up_each(
        self, values: HostArray, target: Target, *, doubled: bool
    ) -> tuple[HostArray, ...] | None:
        """Return the tables of a few positions that are far apart, None if they are many."""
        if self.sections is not None or values.size > MAX_PAGES:
            return None
        target = target._replace(keeper=())
        columns = [self._slice(p, p + 1, target, doubled=doubled) for p in values.ravel().tolist()]
        tables = (np.concat(parts, axis=1) for parts in zip(*columns, strict=True))
        return tuple([np.reshape(t, (len(t), *values.shape)) for t in tables])

    def _entries(self, table: HostArray, index: HostArray, order: Order) -> HostArray:
        """Return the entries of a NumPy table at some columns; `index` may have coordinates."""
        if order == "C":
            entries = table.take(index, axis=1)
        else:  # in its order in memory
            entries = table.T.take(index, axis=0).transpose(index.ndim, *range(index.ndim))
        if self.sections is None:
            return entries
        sections = self.sections * (len(table) // len(self.sections))  # of a doubled table, too
        coordinates = np.asarray(sections).reshape(-1, *[1] * (index.ndim - 1))
        chosen = entries[:, 0]
        for coordinate in range(1, len(index)):
            chosen = np.where(coordinates == coordinate, entries[:, coordinate], chosen)
        return chosen

    def _compute(self, positions: Any, target: Target) -> tuple[Any, ...]:
        """Return the tables of any positions."""
        if library_of(positions).is_chunked:
            return self._compute_chunks(positions, target)
        xp = target.xp
        shape = positions.shape[len(self.coordinates) :]
        by_kernel = library_of(positions).compiles_kernels
        if by_kernel or xp is not np or 0 in shape:
            make = self._by_kernel if by_kernel else self._cos_sin
            tables = self._arranged(*make(positions, target), xp)
            has_order = target.order == "C" or (by_kernel and self.arrange is None)
            if has_order or library_of(tables[0]).strides(tables[0]) is None:
                return tables
            return _rows_innermost(tables, xp)
        # In blocks, so that what is computed on the way takes little memory.
        count = prod(shape)
        flat = xp.reshape(positions, (*self.coordinates, count))
        cut = cuts(count, max(1, _BLOCK // self.frequencies.count))
        blocks = (self._arranged(*self._cos_sin(flat[..., c], target), xp) for c in cut)
        tables = _join(blocks, count, target.order)
        return tuple(xp.reshape(table, (len(table), *shape)) for table in tables)

    def _compute_chunks(self, positions: Any, target: Target) -> tuple[Any, ...]:
        """Return the tables of chunked positions, computed in one task for each chunk."""
        coordinates = len(self.coordinates)
        whole = {axis: (positions.shape[axis],) for axis in range(coordinates)}
        positions = library_of(positions).rechunk(positions, whole)
        lengths = library_of(positions).chunks(positions)[coordinates:]
        # Axes of length 1 stand for the tables and their rows; coordinates take the second one.
        positions = positions[(*(None,) * (2 - coordinates), ...)]
        one = self._make(0, 1, target.precision, "C")
        tables = library_of(positions).map_chunks(
            # A copy starts empty: what this layer keeps has no place in a graph.
            partial(_stacked_tables, copy(self), target._replace(shape=())),
            positions,
            chunks=((len(one),), (len(one[0]),), *lengths),
            dtype=target.dtype,
        )
        return tuple(tables[i, ...] for i in range(len(one)))

    def _arranged(self, cos: Any, sin: Any, xp: Namespace) -> tuple[Any, ...]:
        return (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp)

    def _cos_sin(self, positions: Any, target: Target) -> tuple[Any, Any]:
        """Return cosine and sine of positions; each coordinate rotates the pairs of its section."""
        where = target.dtype, space_of(positions=positions), self.factor
        return cos_sin(positions, self.frequencies, *where, coordinates=self.sections)

    def _by_kernel(self, positions: Any, target: Target) -> tuple[Any, Any]:
        """Return cosine and sine of positions in one launch, in two if they have coordinates."""
        space = space_of(positions=positions)
        xp, kind = space.xp, space.table_key
        kept = self._kernel_parts.get(kind)
        if kept is None:
            index = None
            if self.sections is not None:
                index = xp.asarray(self.sections, dtype=target.integer, device=target.device)
            parts = frequency_parts(self.frequencies, space)
            kept = self._kernel_parts[kind] = parts, index
            _evict(self._kernel_parts)
        parts, index = kept
        positions = by_frequency(positions, index, xp)
        return cos_sin_by_kernel(positions, parts, target.dtype, space, self.factor, target.order)


def double_tables(cos: Any, sin: Any, xp: Namespace, axis: int = 0) -> tuple[Any, Any]:
    """Return [cos, cos] and [-sin, sin], tables for all features of the half layout.

    ``x * [cos, cos] + [second, first] * [-sin, sin]`` rotates x = [first, second].
    """
    return xp.concat([cos, cos], axis=axis), xp.concat([-sin, sin], axis=axis)


def _stacked_tables(layer: PositionTables, target: Target, positions: Any) -> Any:
    """Return the tables of a chunk of positions, an array of NumPy or CuPy, as one array."""
    xp = namespace.namespace_of(positions=positions)
    positions = positions[(0,) * (2 - len(layer.coordinates))]
    on = namespace.device_of(positions)
    dtype = getattr(xp, namespace.dtype_name(target.dtype))
    integer = namespace.default_integer(xp, on)
    target = target._replace(xp=xp, device=on, dtype=dtype, integer=integer)
    return xp.stack(layer._compute(positions, target))  # noqa: SLF001


def _evict(kept: dict[Any, Any]) -> None:
    """Drop the kinds that were added first, if there are too many."""
    for old in list(kept)[:-MAX_KINDS]:
        kept.pop(old, None)


def _join(
    blocks: Iterable[tuple[HostArray, ...]], count: int, order: Order, dtype: Any = None
) -> tuple[HostArray, ...]:
    """Return the tables of `count` positions from blocks of them, in their dtype if None."""
    joined: tuple[HostArray, ...] = ()
    start = 0
    for parts in blocks:
        joined = joined or tuple(
            np.empty((len(part), count), dtype=dtype or part.dtype, order=order) for part in parts
        )
        stop = start + parts[0].shape[1]
        for whole, part in zip(joined, parts, strict=True):
            whole[:, start:stop] = part
        start = stop
    return joined


def _rows_innermost(tables: tuple[Any, ...], xp: Namespace) -> tuple[Any, ...]:
    """Return tables with the smallest stride along their frequencies."""
    # Not `moveaxis`, nor `unstack`, which calls it: PyTorch's `vmap` does not know it.
    n = tables[0].ndim
    moved = xp.stack([xp.permute_dims(table, (*range(1, n), 0)) for table in tables])
    rows = (moved[i, ...] for i in range(len(tables)))
    return tuple(xp.permute_dims(table, (n - 1, *range(n - 1))) for table in rows)
