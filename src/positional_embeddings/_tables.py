"""Tables of cosines and sines that follow the arrays they are applied to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from positional_embeddings._axes import length, placed, position_axes
from positional_embeddings._checks import no_positions_and_offset, within_table
from positional_embeddings._namespace import (
    Array,
    HostArray,
    Namespace,
    compute_dtype,
    device_of,
    host,
    is_lazy_array,
    is_numpy_namespace,
    known,
    read_only,
)
from positional_embeddings.frequencies import cos_sin, cos_sin_table

_MOST_KEPT = 8


@dataclass(frozen=True, eq=False)
class PositionTables:
    """The tables of one layer, made for each library, device and dtype that asks.

    They belong to one immutable layer, so that nothing kept here can go stale.
    Tables of lazy or traced arrays are made anew at each call: one that is made
    while JAX traces must not outlive the trace. Pickles and copies start empty.

    Attributes
    ----------
    frequencies : tuple of Decimal
        Turns per position.
    size : int
        Number of positions in a table.
    size_name : str
        The layer's name for it.
    arrange : callable
        From cosine, sine (frequency, position...) and a namespace to the tables.
    """

    frequencies: tuple[Decimal, ...]
    size: int
    size_name: str
    arrange: Callable[[Any, Any, Namespace], tuple[Any, ...]]
    _kept: dict[tuple[Any, ...], tuple[Any, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return PositionTables, (self.frequencies, self.size, self.size_name, self.arrange)

    def on_host(self, dtype: str = "float64") -> tuple[HostArray, ...]:
        """Return the tables as NumPy arrays that cannot be written to."""
        return tuple(read_only(table) for table in self._host_tables(dtype))

    def beside(
        self, x: Any, positions: Array | None, offset: int, feature: int, seq: int, xp: Namespace
    ) -> tuple[Any, ...]:
        """Return the tables of the positions of `x`, with axes that broadcast against it."""
        no_positions_and_offset(positions, offset)
        dtype = compute_dtype(x.dtype, xp)
        if positions is None:
            stop = offset + length(x, seq)
            within_table(stop - offset, offset, self.size, self.size_name, seq)
            tables, axes = self._columns(offset, stop, x, dtype, xp), [feature, seq]
        else:
            axes = [feature, *position_axes(positions, x, feature, seq, xp)]
            tables = self.arrange(*cos_sin(positions, self.frequencies, dtype, xp), xp)
        return tuple(placed(table, axes, x.ndim, xp) for table in tables)

    def _columns(self, start: int, stop: int, x: Any, dtype: Any, xp: Namespace) -> tuple[Any, ...]:
        tables = self._host_tables("float32" if dtype == xp.float32 else "float64")
        if not is_numpy_namespace(xp):
            on = device_of(x)
            if is_lazy_array(x):
                return tuple(
                    xp.asarray(table[:, start:stop], dtype=dtype, device=on) for table in tables
                )
            tables = self._keep(
                (xp, on, dtype),
                lambda: tuple(xp.asarray(t, dtype=dtype, device=on, copy=True) for t in tables),
            )
        return tuple(table[:, start:stop] for table in tables)

    def _host_tables(self, dtype: str) -> tuple[HostArray, ...]:
        def build() -> tuple[HostArray, ...]:
            table = cos_sin_table(self.frequencies, self.size, getattr(host, dtype))
            return self.arrange(*table, host)

        return self._keep((host, "cpu", dtype), build)

    def _keep(self, key: tuple[Any, ...], make: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        tables = self._kept.get(key)
        if tables is None:
            tables = make()
            # PyTorch's fake and meta tensors have no values and are good for one use only.
            if known(tables[0][0, 0] == tables[0][0, 0]):
                while len(self._kept) >= _MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[key] = tables
        return tables
