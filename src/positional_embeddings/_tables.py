"""Tables of cosines and sines that follow the arrays they are applied to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal

from positional_embeddings._axes import length, placed, position_axes
from positional_embeddings._checks import no_positions_and_offset, within_table
from positional_embeddings._memory import makes_tables_anew, nearer_in_memory, read_only
from positional_embeddings._namespace import (
    Array,
    HostArray,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    host,
    is_numpy_namespace,
)
from positional_embeddings._stretches import Stretches, covering, to_make, width, with_one_more
from positional_embeddings._turning import for_vectors
from positional_embeddings.angles import cos_sin, turning_numbers
from positional_embeddings.frequencies import Turns

MOST_KEPT = 8
# Queries and keys of a step, and what else has their positions.
_MOST_LATEST = 4
_LOCK = Lock()


@dataclass(frozen=True, eq=False)
class PositionTables:
    """The tables of one layer, made for each library, device and dtype that asks.

    They belong to one immutable layer, so that nothing kept here can go stale. They
    are made where positions are, in stretches that are never more than a whole table.
    Pickles and deep copies start empty.

    Attributes
    ----------
    frequencies : Turns
        Turns per position.
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

    frequencies: Turns
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
    ) -> tuple[Any, ...]:
        """Return the tables of the positions of `x`, with axes that broadcast against it.

        With `twice`, which takes NumPy arrays, they come once more as `for_vectors` makes
        them, where they are asked for again: in the layers of a model.
        """
        if xp is not host or positions is not None:
            return self._placed(x, positions, offset, feature, seq, xp)
        key = (x.dtype, x.shape, x.strides, offset, feature, seq, twice)
        tables = self._latest.get(key)
        if tables is None:
            tables = self._placed(x, positions, offset, feature, seq, xp)
        elif twice and len(tables) == 2:
            tables = (*tables, *for_vectors(x, *tables, feature, xp))
        else:
            return tables
        with _LOCK:
            self._latest.pop(key, None)
            while len(self._latest) >= _MOST_LATEST:
                del self._latest[next(iter(self._latest))]
            self._latest[key] = tables
        return tables

    def _placed(
        self, x: Any, positions: Array | None, offset: int, feature: int, seq: int, xp: Namespace
    ) -> tuple[Any, ...]:
        no_positions_and_offset(positions, offset)
        dtype = compute_dtype(x.dtype, xp)
        inner = nearer_in_memory(x, feature, seq)
        if positions is None:
            stop = offset + length(x, seq)
            within_table(stop - offset, offset, self.size, self.size_name, seq)
            tables = self._tables(offset, stop, x, dtype, xp, features_inner=inner)
            axes = [feature, seq]
        else:
            axes = [feature, *self._position_axes(positions, x, feature, seq, xp)]
            tables = self._cos_sin(positions, dtype, xp, features_inner=inner)
            tables = self._arranged(*tables, xp)
        return tuple(placed(table, axes, x.ndim, xp) for table in tables)

    def of_number(
        self, number: float, x: Any, feature: int, seq: int, xp: Namespace
    ) -> tuple[Any, ...]:
        """Return the tables of one position for all of `x`, computed on the host."""
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
        return tuple(placed(table, [feature, seq], x.ndim, xp) for table in moved)

    def _arranged(self, cos: Any, sin: Any, xp: Namespace) -> tuple[Any, ...]:
        return (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp)

    def _position_axes(
        self, positions: Any, x: Any, feature: int, seq: int, xp: Namespace
    ) -> list[int]:
        """Check positions, and return the axes of `x` that they belong to."""
        if self.sections is None:
            return position_axes(positions, x, feature, seq, xp)
        count = len(self.sections)
        if positions.ndim < 2 or positions.shape[0] != count:
            message = (
                f"`positions` must have a leading axis of {count} coordinates, as `sections` "
                f"has, got shape {tuple(positions.shape)}."
            )
            raise ValueError(message)
        return position_axes(positions[0, ...], x, feature, seq, xp)

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
            return xp.moveaxis(tables[0], -1, 0), xp.moveaxis(tables[1], -1, 0)
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
            with _LOCK:
                self._moved.pop(key, None)
                while len(self._moved) >= MOST_KEPT:
                    del self._moved[next(iter(self._moved))]
                stretches = self._moved[key] = with_one_more(stretches, first, tables)
        return tuple(table[:, start - first : stop - first] for table in stretches[first])

    def _host_columns(
        self, name: str, start: int, stop: int, *, features_inner: bool
    ) -> tuple[HostArray, ...]:
        first, tables = self._host_stretch(name, start, stop, features_inner=features_inner)
        return tuple(table[:, start - first : stop - first] for table in tables)

    def _host_stretch(
        self, name: str, start: int, stop: int, *, features_inner: bool
    ) -> tuple[int, tuple[HostArray, ...]]:
        """Return NumPy tables that reach from `start` or before to `stop` or beyond."""
        key = (name, features_inner)
        stretches = self._on_host.get(key, {})
        first = covering(stretches, start, stop)
        if first is None:
            first, last = to_make(stretches, start, stop, self.size)
            before = stretches.get(first, ())
            tables = self._lengthened(before, first, last, name, features_inner=features_inner)
            stretches = self._on_host[key] = with_one_more(stretches, first, tables)
        return first, stretches[first]

    def _lengthened(
        self,
        tables: tuple[HostArray, ...],
        first: int,
        last: int,
        name: str,
        *,
        features_inner: bool,
    ) -> tuple[HostArray, ...]:
        """Return tables from `first` to `last`, of which those that are there are copied."""
        start = first + (width(tables) if tables else 0)
        longer: tuple[HostArray, ...] = ()
        for numbers in turning_numbers(self.frequencies, start, last, self.factor):
            parts = self._arranged(numbers.real, numbers.imag, host)
            if not longer:
                longer = tuple(
                    _empty(len(part), last - first, name, features_inner) for part in parts
                )
                for table, old in zip(longer, tables, strict=bool(tables)):
                    table[:, : start - first] = old
            stop = start + numbers.shape[1]
            for table, part in zip(longer, parts, strict=True):
                table[:, start - first : stop - first] = part
            start = stop
        return longer


def _empty(rows: int, columns: int, name: str, rows_inner: bool) -> HostArray:  # noqa: FBT001
    table: HostArray = host.empty(
        (columns, rows) if rows_inner else (rows, columns), dtype=getattr(host, name)
    )
    return table.T if rows_inner else table
