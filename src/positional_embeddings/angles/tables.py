"""Tables of cosines and sines that follow the arrays they are applied to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from array_api_compat import is_numpy_namespace

from positional_embeddings._core.axes import expand_to_axes, length, position_axes
from positional_embeddings._core.capabilities import is_compiling, makes_tables_anew
from positional_embeddings._core.checks import no_positions_and_offset, within_table
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.memory import has_smaller_stride, read_only
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    host,
    widest_float,
)
from positional_embeddings.angles.cos_sin import BLOCK, cos_sin, unit_phasors
from positional_embeddings.angles.frequencies import Frequencies

# Where stretches begin and end, but for the end of all.
_PIECE = 16 * BLOCK
_MOST = 64

# Tables, (row, position), by the first of the positions that they cover.
Stretches = dict[int, tuple[Any, ...]]


def covering(stretches: Stretches, start: int, stop: int) -> int | None:
    """Return the first position of a stretch that covers `start` to `stop`, the newest of them."""
    for first in reversed(stretches):
        if first <= start and stop <= first + width(stretches[first]):
            return first
    return None


def to_make(stretches: Stretches, start: int, stop: int, size: int) -> tuple[int, int]:
    """Return from where to where to make a stretch that covers `start` to `stop`.

    Where `start` is in a stretch, that one is made longer, to twice its length. If not,
    a new one begins, so that nothing is computed or moved for the positions before.
    Where all would be longer than one of all positions, the `size`, it is that one.
    """
    grown = covering(stretches, start, start + 1)
    if grown is None:
        first = min(start, size - 1) // _PIECE * _PIECE
        last = first + _PIECE
    else:
        first, last = grown, grown + 2 * width(stretches[grown])
    last = min(max(last, -(-stop // _PIECE) * _PIECE), size)
    beside = others(stretches, first, last).values()
    return (first, last) if sum(map(width, beside)) + last - first <= size else (0, size)


def spans(
    stretches: Stretches, first: int, last: int
) -> Iterator[tuple[int, int, tuple[Any, ...] | None]]:
    """Yield, from `first` to `last`, start, stop and tables, None where none are there."""
    while first < last:
        at = covering(stretches, first, first + 1)
        if at is None:
            stop = min((start for start in stretches if start > first), default=last)
            stop = min(stop, last)
            yield first, stop, None
        else:
            stop = min(last, at + width(stretches[at]))
            yield first, stop, columns(stretches[at], first - at, stop - at)
        first = stop


def with_one_more(
    stretches: Stretches, first: int, tables: tuple[Any, ...], size: int
) -> Stretches:
    """Return the stretches and one more, which takes the place of those within it.

    It takes the place of all where they would be longer than one of all positions, and
    that of the oldest where they are many.
    """
    more = {**others(stretches, first, first + width(tables)), first: tables}
    if sum(map(width, more.values())) > size:
        return {first: tables}
    return dict(list(more.items())[-_MOST:])


def others(stretches: Stretches, first: int, last: int) -> Stretches:
    """Return those stretches that do not lie within `first` to `last`."""
    return {
        start: tables
        for start, tables in stretches.items()
        if start < first or start + width(tables) > last
    }


def columns(tables: tuple[Any, ...], start: int, stop: int) -> tuple[Any, ...]:
    """Return a part of tables, counted from their own start."""
    return tuple(table[:, start:stop] for table in tables)


def width(tables: tuple[Any, ...]) -> int:
    width: int = tables[0].shape[1]
    return width


MOST_KEPT = 8

# Queries and keys of a step, and what else has their positions.
_MOST_LATEST = 4
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class PositionTables:
    """The tables of one layer, made for each library, device and dtype that asks.

    They belong to one immutable layer, so that nothing kept here can go stale. They
    are made where positions are, in stretches that together are never more than a whole
    table of their kind. Pickles and deep copies start empty.

    Attributes
    ----------
    frequencies : Frequencies
        Frequencies per position.
    size : int
        Number of positions in a whole table.
    size_name : str
        The layer's name for it.
    arrange : callable, optional
        From cosine, sine (frequency, position...) and a namespace to the tables, where
        they are not cosine and sine themselves.
    sections : tuple of tuple of int, optional
        Which frequencies belong to each coordinate of positions that have several.
    factor : float, default 1.0
        What cosine and sine are multiplied by.
    """

    frequencies: Frequencies
    size: int
    size_name: str
    arrange: Callable[[Any, Any, Namespace], tuple[Any, ...]] | None = None
    sections: tuple[tuple[int, ...], ...] | None = None
    factor: float = 1.0
    # By dtype and order in memory; by library and device too; and as the latest calls had them.
    _on_host: dict[tuple[str, bool], Stretches] = field(
        default_factory=dict, init=False, repr=False
    )
    _moved: dict[tuple[Any, ...], Stretches] = field(default_factory=dict, init=False, repr=False)
    _latest: dict[tuple[Any, ...], tuple[Any, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return PositionTables, (
            self.frequencies,
            self.size,
            self.size_name,
            self.arrange,
            self.sections,
            self.factor,
        )

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Number of coordinates of a position, as a shape: none where it is one number."""
        return () if self.sections is None else (len(self.sections),)

    def on_host(self) -> tuple[HostArray, ...]:
        """Return the whole float64 tables as NumPy arrays that cannot be written to."""
        tables = self._host_columns("float64", 0, self.size, features_inner=False)
        return tuple(read_only(table) for table in tables)

    def beside(
        self,
        x: Any,
        positions: Array | None,
        offset: int,
        feature: int,
        seq: int,
        xp: Namespace,
        *,
        twice: bool = False,
        name: str = "positions",
    ) -> tuple[Any, ...]:
        """Return the tables of the positions of `x`, with axes that broadcast against it.

        With `twice`, which takes NumPy arrays, they come once more as `_for_vectors` makes
        them, where they are asked for again: in the layers of a model. `name` is what the
        caller calls the positions.
        """
        no_positions_and_offset(positions, offset)
        if positions is not None:
            return self._at_positions(x, positions, feature, seq, xp, name)
        if xp is not host:
            return self._in_sequence(x, offset, feature, seq, xp)
        key = (x.dtype, x.shape, x.strides, offset, feature, seq, twice)
        tables = self._latest.get(key)
        if tables is None:
            tables = self._in_sequence(x, offset, feature, seq, xp)
        elif twice and len(tables) == 2:
            tables = (*tables, *_for_vectors(x, *tables, feature, xp))
        else:
            return tables
        _keep(self._latest, key, tables, _MOST_LATEST)
        return tables

    def _in_sequence(
        self, x: Any, offset: int, feature: int, seq: int, xp: Namespace
    ) -> tuple[Any, ...]:
        stop = offset + length(x, seq)
        within_table(stop - offset, offset, self.size, self.size_name, seq)
        if is_compiling(x):
            # Computed in the graph, which then serves every offset.
            on = device_of(x)
            positions = xp.arange(offset, stop, dtype=default_integer(xp, on), device=on)
            positions = xp.broadcast_to(positions, (*self.coordinates, stop - offset))
            return self._at_positions(x, positions, feature, seq, xp, "positions")
        dtype = compute_dtype(x.dtype, xp)
        inner = has_smaller_stride(x, feature, seq)
        tables = self._tables(offset, stop, x, dtype, xp, features_inner=inner)
        return tuple(expand_to_axes(table, [feature, seq], x.ndim, xp) for table in tables)

    def _at_positions(
        self, x: Any, positions: Array, feature: int, seq: int, xp: Namespace, name: str
    ) -> tuple[Any, ...]:
        axes = [feature, *self._position_axes(positions, x, feature, seq, xp, name)]
        dtype = compute_dtype(x.dtype, xp)
        inner = has_smaller_stride(x, feature, seq)
        cos, sin = self._cos_sin(positions, dtype, xp, features_inner=inner)
        return tuple(
            expand_to_axes(table, axes, x.ndim, xp) for table in self._arranged(cos, sin, xp)
        )

    def of_number(
        self, number: float, x: Any, feature: int, seq: int, xp: Namespace
    ) -> tuple[Any, ...]:
        """Return the tables of one position for all of `x`."""
        if is_compiling(x):
            dtype_of = default_integer if isinstance(number, int) else widest_float
            on = device_of(x)
            shape = (*self.coordinates, length(x, seq))
            positions = xp.full(shape, number, dtype=dtype_of(xp, on), device=on)
            return self._at_positions(x, positions, feature, seq, xp, "delta")
        dtype = compute_dtype(x.dtype, xp)
        kind = host.int64 if isinstance(number, int) else host.float64
        name = "float32" if dtype == xp.float32 else "float64"
        tables = cos_sin(
            host.asarray([number], dtype=kind),
            self.frequencies,
            getattr(host, name),
            host,
            self.factor,
        )
        on = device_of(x)
        moved = (xp.asarray(table, dtype=dtype, device=on) for table in tables)
        return tuple(expand_to_axes(table, [feature, seq], x.ndim, xp) for table in moved)

    def _arranged(self, cos: Any, sin: Any, xp: Namespace) -> tuple[Any, ...]:
        return (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp)

    def _position_axes(
        self, positions: Any, x: Any, feature: int, seq: int, xp: Namespace, name: str
    ) -> list[int]:
        """Check positions, and return the axes of `x` that they belong to."""
        if self.sections is None:
            return position_axes(positions, x, feature, seq, xp, name)
        count = len(self.sections)
        if positions.ndim < 2 or positions.shape[0] != count:
            raise wrong_value(
                name,
                f"have a leading axis of {count} coordinates, as `sections` has",
                f"shape {tuple(positions.shape)}",
            )
        return position_axes(positions[0, ...], x, feature, seq, xp, name)

    def _cos_sin(
        self, positions: Any, dtype: Any, xp: Namespace, *, features_inner: bool
    ) -> tuple[Any, Any]:
        """Return cosine and sine of positions; each coordinate turns the pairs of its section.

        They are (frequency, position...), whichever of the two lies inside in memory.
        """
        axis: Literal[0, -1] = -1 if features_inner else 0
        if self.sections is None:
            tables = cos_sin(positions, self.frequencies, dtype, xp, self.factor, axis)
        else:
            parts = [
                cos_sin(
                    positions[c, ...], self.frequencies.chosen(pairs), dtype, xp, self.factor, axis
                )
                for c, pairs in enumerate(self.sections)
            ]
            places = [pair for pairs in self.sections for pair in pairs]
            order = [places.index(pair) for pair in range(len(places))]
            on = device_of(positions)
            index = xp.asarray(order, dtype=default_integer(xp, on), device=on)
            cos, sin = (
                xp.take(xp.concat(list(rows), axis=axis), index, axis=axis)
                for rows in zip(*parts, strict=True)
            )
            tables = cos, sin
        if features_inner:
            # PyTorch's vmap has no rule for moveaxis.
            last = tables[0].ndim - 1
            cos, sin = (xp.permute_dims(table, (last, *range(last))) for table in tables)
            return cos, sin
        return tables

    def _tables(
        self, start: int, stop: int, x: Any, dtype: Any, xp: Namespace, *, features_inner: bool
    ) -> tuple[Any, ...]:
        """Return the columns `start` to `stop` of the tables in the library of `x`."""
        name = "float32" if dtype == xp.float32 else "float64"
        if is_numpy_namespace(xp):
            return self._host_columns(name, start, stop, features_inner=features_inner)
        on = device_of(x)
        if makes_tables_anew(x):
            return tuple(
                xp.asarray(table, dtype=dtype, device=on)
                for table in self._host_columns(name, start, stop, features_inner=features_inner)
            )
        # CuPy's devices have no hash.
        key = (xp, str(on), dtype, features_inner)
        stretches = self._moved.get(key, {})
        first = covering(stretches, start, stop)
        if first is None:
            first, source = self._host_stretch(name, start, stop, features_inner=features_inner)
            tables = tuple(xp.asarray(table, dtype=dtype, device=on, copy=True) for table in source)
            stretches = with_one_more(stretches, first, tables, self.size)
            _keep(self._moved, key, stretches, MOST_KEPT)
        return columns(stretches[first], start - first, stop - first)

    def _host_columns(
        self, name: str, start: int, stop: int, *, features_inner: bool
    ) -> tuple[HostArray, ...]:
        first, tables = self._host_stretch(name, start, stop, features_inner=features_inner)
        return columns(tables, start - first, stop - first)

    def _host_stretch(
        self, name: str, start: int, stop: int, *, features_inner: bool
    ) -> tuple[int, tuple[HostArray, ...]]:
        """Return where NumPy tables begin that cover `start` to `stop`, and these tables."""
        key = (name, features_inner)
        stretches = self._on_host.get(key, {})
        first = covering(stretches, start, stop)
        if first is None:
            first, last = to_make(stretches, start, stop, self.size)
            tables = self._made(stretches, first, last, name, features_inner=features_inner)
            stretches = self._on_host[key] = with_one_more(stretches, first, tables, self.size)
            # Parts of a stretch that is no longer there would keep all of it in memory.
            self._latest.clear()
        return first, stretches[first]

    def _made(
        self, stretches: Stretches, first: int, last: int, name: str, *, features_inner: bool
    ) -> tuple[HostArray, ...]:
        """Return tables from `first` to `last`."""
        made: tuple[HostArray, ...] = ()
        for start, parts in self._parts(stretches, first, last):
            if not made:
                made = tuple(
                    _empty(len(part), last - first, name, features_inner) for part in parts
                )
            for table, part in zip(made, parts, strict=True):
                table[:, start - first : start - first + part.shape[1]] = part
        return made

    def _parts(
        self, stretches: Stretches, first: int, last: int
    ) -> Iterator[tuple[int, tuple[HostArray, ...]]]:
        """Yield parts of tables and where they begin; only those not there are computed."""
        for start, stop, kept in spans(stretches, first, last):
            if kept is not None:
                yield start, kept
                continue
            at = start
            for numbers in unit_phasors(self.frequencies, start, stop, self.factor):
                yield at, self._arranged(numbers.real, numbers.imag, host)
                at += numbers.shape[1]


def _for_vectors(x: Any, cos: Any, sin: Any, axis: int, xp: Namespace) -> tuple[Any, Any]:
    """Return the factors of all numbers of `x`, and of those in the other half in their place."""
    factor, exchanged = xp.empty_like(x), xp.empty_like(x)
    factor[...] = xp.concat([cos, cos], axis=axis)
    exchanged[...] = xp.concat([-sin, sin], axis=axis)
    return factor, exchanged


def _keep(kept: dict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Put a value after those that are kept, of which the first make room.

    Threads may do so at the same time: each step is one of the dictionary's own.
    """
    kept.pop(key, None)
    kept[key] = value
    for old in list(kept)[:-most]:
        kept.pop(old, None)


def _empty(rows: int, columns: int, name: str, rows_inner: bool) -> HostArray:  # noqa: FBT001
    table: HostArray = host.empty(
        (columns, rows) if rows_inner else (rows, columns), dtype=getattr(host, name)
    )
    return table.T if rows_inner else table
