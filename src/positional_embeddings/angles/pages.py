"""Tables of cosine and sine in the library, dtype and device of the input of a layer.

A layer caches pages of positions, computed at their first use, and drops the least recently used
page first. Tables are an array (table, frequency, *positions), cosine before sine.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import accumulate
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

from positional_embeddings.angles.cos_sin import (
    NUMPY_BACKEND,
    by_frequency,
    cos_sin_of_sum,
    unit_phasors,
)
from positional_embeddings.angles.cupy_kernel import cos_sin_by_kernel, frequency_parts
from positional_embeddings.angles.frequencies import DecimalFrequencies, in_cycles
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arguments.axes import InputAxes, Order
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.backends.torch import graph_constant
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.caching import (
    constant_array,
    get_or_compute,
    read_only,
    remember,
    specialized,
)
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.forks import cached_property
from positional_embeddings.arrays.namespace import (
    AnyArray,
    Array,
    Dtype,
    HostArray,
    ignore_fp_errors,
    np,
)

# Pages start and end at multiples of this number of positions, which takes milliseconds.
PAGE_POSITIONS = 4096
MAX_PAGES = 64  # of one `PageKey`
MAX_PAGE_KEYS = 16
# Integer positions come from one page if their range is shorter than a page, or than this
# multiple of their number. Otherwise, each of at most `MAX_PAGES`
# positions has its own page.
MAX_RANGE_RATIO = 4
# Numbers of a full table that is a constant of compiled code, 4 MB in float32.
MAX_CONSTANT_NUMBERS = 2**20
# Angles of a block, which limits the memory of intermediate results.
COMPUTED_BLOCK_ANGLES = 2**16
# Angles of full tables that may be a constant of a graph: 64 MB of float32.
MAX_CONSTANT_ANGLES = 2**23

# From cosine, sine and their namespace to tables.
Arrange: TypeAlias = Callable[..., tuple[Array, ...]]
# Dtype and memory order of pages; for other libraries than NumPy also `Backend.cache_key`.
PageKey: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """Tables of the positions `start` to `stop` - 1."""

    start: int
    stop: int
    tables: Array
    _views: dict[Any, tuple[Array, ...]] = field(default_factory=dict, init=False)
    _rows: dict[Any, tuple[Array, ...]] = field(default_factory=dict, init=False)

    def rows(
        self,
        start: int,
        stop: int,
        x_axes: InputAxes,
        backend: Backend,
        device_key: Any,
        *,
        full_width: bool,
    ) -> tuple[Array, ...]:
        """Return `views` of the positions `start` to `stop` - 1.

        PyTorch's are cached, since its slices take a tenth of the time of a token.
        """
        seq, feature = x_axes.seq_axis, x_axes.feature_axis

        def slices() -> tuple[Array, ...]:
            views = self.views(x_axes, backend, device_key, full_width=full_width)
            index = (*(slice(None),) * seq, slice(start - self.start, stop - self.start), ...)
            return tuple(map(itemgetter(index), views))

        if backend.is_numpy:
            return slices()
        key = start, stop, feature, seq, len(x_axes.shape), full_width, device_key
        return get_or_compute(self._rows, key, slices)

    def views(
        self, x_axes: InputAxes, backend: Backend, device_key: Any = (), *, full_width: bool
    ) -> tuple[Array, ...]:
        """Return each table with axes that broadcast against the input.

        `device_key` is `Backend.cache_key`, or () for NumPy arrays.
        """
        key = x_axes.feature_axis, x_axes.seq_axis, len(x_axes.shape), full_width, device_key
        tables = self.full_width if full_width else self.tables
        return get_or_compute(self._views, key, partial(align_tables, tables, x_axes, backend))

    @cached_property
    def full_width(self) -> HostArray:
        """NumPy tables [cos, cos] and [-sin, sin] for all features of the half layout.

        For a page longer than usual, return the plain tables, to save memory.
        """
        if self.stop - self.start > PAGE_POSITIONS:
            return self.tables  # type: ignore[no-any-return]
        full_width = np.concat([self.tables, self.tables], axis=1)  # in the same memory order
        np.negative(self.tables[1], out=full_width[1, : self.tables.shape[1]])
        return full_width  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False, repr=False)
class PositionTables:
    """Cached tables of a layer for each library, device and dtype of its inputs.

    The layer is immutable, so that no cached table becomes stale. Pickles and copies start
    with empty caches.

    Attributes
    ----------
    frequencies : DecimalFrequencies
        Cycles per position.
    size : int
        Number of positions of a full table.
    size_name : str
        Name of the option of the layer with this number.
    arrange : callable, optional
        Function from cosine, sine and namespace to tables; cosine and sine if None.
    coordinates : tuple of int, optional
        Coordinate of each frequency, for positions with several coordinates.
    factor : float, default 1.0
        Factor of cosine and sine.
    """

    frequencies: DecimalFrequencies
    size: int
    size_name: str
    arrange: Arrange | None = None
    coordinates: tuple[int, ...] | None = None
    factor: float = 1.0
    # The pages of each `PageKey`, the most recently used first. Tuples are replaced atomically.
    _pages: dict[PageKey, tuple[Page, ...]] = field(default_factory=dict, init=False)
    # Plans of the rotation, by `call_key`.
    plans: dict[Any, Any] = field(default_factory=dict, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return PositionTables, tuple(getattr(self, f.name) for f in fields(self) if f.init)

    @property
    def coordinate_shape(self) -> tuple[int, ...]:
        """Shape of a position: its number of coordinates, or () without coordinates."""
        return () if self.coordinates is None else (max(self.coordinates) + 1,)

    def full_tables(self) -> tuple[HostArray, ...]:
        """Return the full float64 tables as read-only NumPy arrays."""
        return tuple(read_only(self._slice(("float64", "C"), 0, self.size)))

    def with_positions(
        self,
        x_axes: InputAxes,
        positions: AnyArray | None,
        backend: Backend,
        name: str = "positions",
        *,
        for_heads: bool = False,
    ) -> InputAxes:
        """Check positions, and return `x_axes` with their axes.

        `name` is the name of the positions in errors. With `for_heads`, positions (seq, batch) are
        repeated for an axis of heads * batch.
        """
        if positions is None:
            return x_axes
        shape = self._shape(positions, name, backend)
        heads = axes.repeats_of_positions(shape, x_axes) if for_heads else 1
        return x_axes.with_positions(shape, name, heads)

    def aligned_tables(
        self,
        x_axes: InputAxes,
        positions: AnyArray | None,
        offset: int,
        backend: Backend,
        *,
        full_width: bool = False,
    ) -> tuple[Array, ...]:
        """Return the tables of the positions of an input, with axes that broadcast against it.

        `x_axes` are a result of `with_positions`. With `full_width`, for arrays in host memory,
        tables from pages are `Page.full_width`.
        """
        if positions is not None:
            if offset:
                checks.omitted("where `positions` are given", offset=offset)
            position = self._single_position(positions, backend)
            if position is None:
                if x_axes.repeats > 1:
                    with backend.compute_context(positions):
                        positions = axes.repeat_for_heads(positions, x_axes.repeats, backend)
                tables = self._at_positions(positions, x_axes.order, backend, full_width=full_width)
                return align_tables(tables, x_axes, backend)
            offset, count, x_axes = position, 1, x_axes._replace(position_axes=(x_axes.seq_axis,))
        else:
            count = axes.length(x_axes, x_axes.seq_axis, x_axes.name)
        seq = x_axes.seq_axis
        stop = offset + count
        if stop > self.size:
            is_possible = stop <= checks.max_position(backend)
            hint = f" Make the layer with {self.size_name}={stop} or more." if is_possible else ""
            checks.within_table(count, offset, self.size, self.size_name, seq, x_axes.name, hint)
        if not backend.is_numpy and (backend.is_compiling or backend.is_chunked):
            tables = self._tables_in_graph(offset, stop, x_axes, backend)
            return align_tables(tables, x_axes, backend)
        page_key: PageKey = (_host_dtype_name(backend), x_axes.order)
        device_key = () if backend.is_numpy else backend.cache_key
        if device_key is None:
            return align_tables(self._slice(page_key, offset, stop), x_axes, backend)
        page_key = page_key if backend.shares_numpy_memory else (*page_key, *device_key)
        page = self._page(page_key, offset, stop, backend)
        return page.rows(offset, stop, x_axes, backend, device_key, full_width=full_width)

    def _tables_in_graph(
        self, offset: int, stop: int, x_axes: InputAxes, backend: Backend
    ) -> Array:
        """Return the tables of `offset` to `stop` - 1 in a graph, which serves all offsets."""
        order, angles = x_axes.order, self.size * len(in_cycles(self.frequencies))
        if backend.is_compiling and angles <= MAX_CONSTANT_ANGLES:
            size, factor = specialized(self.size), specialized(self.factor)
            values = self.frequencies, size, factor, order, _host_dtype_name(backend)
            full = graph_constant(_cos_sin, *values, dtype=backend.dtype, device=backend.device)
            # A slice of a constant would be a constant of one offset.
            index = backend.xp.arange(offset, stop, dtype=backend.int_dtype, device=backend.device)
            tables = full[..., index]
            if self.arrange is None:
                return tables
            return self._stack(tables[0, ...], tables[1, ...], order, backend)
        chunks = {"chunks": (x_axes.seq_chunks,)} if backend.is_chunked else {}
        options = {"dtype": backend.int_dtype, "device": backend.device, **chunks}
        positions = backend.xp.arange(offset, stop, **options)
        positions = backend.xp.broadcast_to(positions, (*self.coordinate_shape, stop - offset))
        return self._compute(positions, order, backend)

    def tables_of_positions(self, positions: Array, order: Order, backend: Backend) -> Array:
        """Return the tables of positions, (table, frequency, *position), owned by the caller."""
        if not self._shape(positions, "positions", backend):
            raise wrong_value("positions", "have one axis or more", f"shape {positions.shape}")
        tables = self._at_positions(positions, order, backend)
        if backend.is_numpy:
            return read_only(tables)
        options = {"dtype": backend.dtype, "device": backend.device}
        return backend.xp.asarray(tables, **options) if type(tables) is np.ndarray else tables

    def _shape(self, positions: Array, name: str, backend: Backend) -> tuple[Any, ...]:
        """Check positions, and return their shape without the axis of coordinates."""
        checks.positions(name, positions, backend)
        leading, shape = self.coordinate_shape, tuple(positions.shape)
        if leading and (shape[:1] != leading or len(shape) < 2):
            requirement = f"have a leading axis of {leading[0]} coordinates, as `sections` has"
            raise wrong_value(name, requirement, f"shape {shape}")
        return shape[len(leading) :]

    def _single_position(self, positions: Array, backend: Backend) -> int | None:
        """Return a position of the table that is alone, in host memory, else None."""
        is_concrete = backend.shares_numpy_memory and not backend.is_compiling
        if not (is_concrete and self.coordinates is None and prod(positions.shape) == 1):
            return None
        is_integral = dtypes.is_dtype(positions.dtype, "integral", backend.xp)
        values = backend.values_on_host(positions) if is_integral else None
        position = -1 if values is None else int(values.item())
        return position if 0 <= position < self.size else None

    def _at_positions(
        self, positions: Array, order: Order, backend: Backend, *, full_width: bool = False
    ) -> Array:
        tables = self._look_up(positions, order, backend, full_width=full_width)
        if tables is not None:
            return tables
        is_integral = dtypes.is_dtype(positions.dtype, "integral", backend.xp)
        is_small = 2 * self.size * len(in_cycles(self.frequencies)) <= MAX_CONSTANT_NUMBERS
        has_constant = is_integral and is_small and not self.coordinates
        loops = backend.loops() if has_constant else None
        if loops is None:
            return self._compute(positions, order, backend)
        # Flat tables in memory order: XLA would choose the order of computed tables for all.
        axis = 1 if order == "C" else positions.ndim + 1
        table = self._slice((_host_dtype_name(backend), order), 0, self.size)
        shape = list(positions.shape)
        shape = [len(table), *shape[: axis - 1], table.shape[1], *shape[axis - 1 :]]

        def look_up(positions: Array) -> Array:
            options = {"dtype": backend.dtype, "device": backend.device}
            entries = backend.xp.asarray(table if order == "C" else table.mT, **options)
            index = backend.astype(positions, backend.int_dtype)
            entries = backend.take_entries(entries, index, 2 if order == "C" else 1)
            return backend.xp.reshape(entries, (-1,))

        def compute(positions: Array) -> Array:
            tables = backend.move_axis(self._compute(positions, order, backend), 1, axis)
            return backend.xp.reshape(tables, (-1,))

        def compiled(positions: Array) -> Array:
            index = backend.astype(positions, backend.int_dtype)
            is_in_table = loops.in_batch(backend.xp.all((index >= 0) & (index < self.size)))
            return loops.cond(is_in_table, look_up, compute, positions)

        tables = backend.xp.reshape(loops.on_cpu(compiled, compute, positions), shape)
        return backend.move_axis(tables, axis, 1)

    def aligned_copies(
        self, x_axes: InputAxes, positions: AnyArray | None, offset: int, backend: Backend
    ) -> tuple[Array, ...]:
        """Return aligned tables as copies that the caller may overwrite."""
        tables = self.aligned_tables(x_axes, positions, offset, backend)
        if positions is not None and positions.shape != (1,) * positions.ndim:  # not from a cache
            return tables
        return tuple([backend.xp.astype(t, t.dtype, copy=True) for t in tables])

    def tables_of_number(
        self, number: float, x_axes: InputAxes, backend: Backend
    ) -> tuple[Array, ...]:
        """Return the tables of a single position, for all elements of an input."""
        precision = getattr(np, _host_dtype_name(backend))
        source = backend if backend.is_compiling else NUMPY_BACKEND.with_dtype(precision)
        dtype = source.int_dtype if isinstance(number, int) else source.widest_float_dtype
        position = source.xp.full(
            (*self.coordinate_shape, 1), number, dtype=dtype, device=source.device
        )
        with ignore_fp_errors():
            return align_tables(self._compute_unblocked(position, "C", source), x_axes, backend)

    def _slice(self, page_key: PageKey, start: int, stop: int) -> Array:
        """Return the host tables of `start` to `stop` - 1, from a page of a `PageKey`."""
        page = self._page(page_key, start, stop, NUMPY_BACKEND)
        return page.tables[..., start - page.start : stop - page.start]

    def _page(self, page_key: PageKey, start: int, stop: int, backend: Backend) -> Page:
        """Return a page of a `PageKey` that covers `start` to `stop`, and move it to the front."""
        pages = self._pages.get(page_key, ())
        for i, page in enumerate(pages):
            if page.start <= start and stop <= page.stop:
                if i > 0:
                    self._pages[page_key] = (page, *pages[:i], *pages[i + 1 :])
                return page
        return self._make_page(page_key, start, stop, backend)

    def _make_page(self, page_key: PageKey, start: int, stop: int, backend: Backend) -> Page:
        """Compute a page of a `PageKey` from `start` to `stop` or beyond, and cache it in front."""
        start = min(start, self.size - 1) // PAGE_POSITIONS * PAGE_POSITIONS
        stop = min(
            max(start + PAGE_POSITIONS, -(-stop // PAGE_POSITIONS) * PAGE_POSITIONS), self.size
        )
        precision, order, *on_device = page_key
        if on_device:
            tables = self._slice((precision, order), start, stop)
            tables = tables if order == "C" else tables.mT  # copies are in C order
            options = {"dtype": backend.dtype, "device": backend.device}
            with backend.current_device(backend.device, backend.xp):
                tables = backend.xp.asarray(tables, copy=True, **options)
            tables = tables if order == "C" else tables.mT
        else:
            phasors = unit_phasors(self.frequencies, start, stop, self.factor)
            blocks = (self._stack(p.real, p.imag, "C", NUMPY_BACKEND) for p in phasors)
            with ignore_fp_errors():
                tables = _join(blocks, stop - start, order, getattr(np, precision))
        page = Page(start, stop, tables)
        cached = self._pages.pop(page_key, ())
        pages = [page, *(p for p in cached if p.start < start or stop < p.stop)]
        # Their total length is at most the length of a full table.
        lengths = accumulate(page.stop - page.start for page in pages)
        count = sum(length <= self.size for length in lengths)
        remember(self._pages, page_key, tuple(pages[: min(count, MAX_PAGES)]), MAX_PAGE_KEYS)
        return page

    def _look_up(
        self, positions: Array, order: Order, backend: Backend, *, full_width: bool
    ) -> Array:
        """Return NumPy tables of integer positions from pages, None if computing is faster."""
        is_integral = dtypes.is_dtype(positions.dtype, "integral", backend.xp)
        values = backend.values_on_host(positions) if is_integral else None
        if values is None or values.size == 0:
            return None
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= self.size:
            return None
        page_key = _host_dtype_name(backend), order
        if high - low < max(PAGE_POSITIONS, MAX_RANGE_RATIO * values.size):
            page = self._page(page_key, low, high + 1, NUMPY_BACKEND)
            tables, index = page.full_width if full_width else page.tables, values - page.start
            if order == "C":
                tables = tables.take(index, axis=2)
            else:  # in memory order
                last = index.ndim + 1
                tables = tables.mT.take(index, axis=1).transpose(0, last, *range(1, last))
        elif values.size <= MAX_PAGES:
            columns = [self._slice(page_key, p, p + 1) for p in values.ravel().tolist()]
            tables = np.concat(columns, axis=2)
            tables = tables.reshape(*tables.shape[:2], *values.shape)
        else:
            return None
        if self.coordinates is None:
            return tables
        copies = tables.shape[1] // len(self.coordinates)  # two in full width
        coordinates = np.asarray(self.coordinates * copies).reshape(-1, *[1] * (values.ndim - 1))
        result = tables[:, :, 0]
        for coordinate in range(1, len(values)):
            result = np.where(coordinates == coordinate, tables[:, :, coordinate], result)
        return result

    def _compute(self, positions: Array, order: Order, backend: Backend) -> Array:
        """Compute the tables of positions of any dtype."""
        if backend.is_chunked:
            return self._compute_chunks(positions, order, backend)
        xp, shape = backend.xp, positions.shape[len(self.coordinate_shape) :]
        with backend.compute_context(positions):
            if backend.has_cuda_kernels:
                # One launch, or two if positions have coordinates.
                parts = frequency_parts(self.frequencies, backend)
                rows = by_frequency(positions, self._coordinate_of_frequency(backend), xp)
                tables = cos_sin_by_kernel(rows, parts, backend.dtype, backend, self.factor, order)
                if self.arrange is None:
                    return tables
                return self._stack(tables[0, ...], tables[1, ...], order, backend)
            if not backend.computes_in_blocks or 0 in shape:
                return self._compute_unblocked(positions, order, backend)
            count = prod(shape)
            length = max(1, COMPUTED_BLOCK_ANGLES // len(in_cycles(self.frequencies)))
            flat = xp.reshape(positions, (*self.coordinate_shape, count))
            blocks = (
                self._compute_unblocked(flat[..., block], "C", backend)
                for block in block_slices(count, length)
            )
            tables = _join(blocks, count, order, backend.dtype)
            return xp.reshape(tables, (*tables.shape[:2], *shape))

    def _compute_chunks(self, positions: Array, order: Order, backend: Backend) -> Array:
        """Compute the tables of chunked positions, one task for each chunk."""
        coordinates, precision = len(self.coordinate_shape), _host_dtype_name(backend)
        positions = backend.rechunk(
            positions, {a: (positions.shape[a],) for a in range(coordinates)}
        )
        lengths = backend.chunks(positions)[coordinates:]
        # Axes of tables and rows, of length 1, unless an axis of coordinates is in place of rows.
        positions = positions[(*(None,) * (2 - coordinates), ...)]
        tables, rows, _ = self._slice((precision, "C"), 0, 1).shape
        return backend.map_chunks(
            # A copy has empty caches, which do not belong in a graph.
            partial(_tables_of_chunk, copy(self), precision, order),
            positions,
            chunks=((tables,), (rows,), *lengths),
            dtype=backend.dtype,
            name="position_tables",
        )

    def _stack(self, cos: Array, sin: Array, order: Order, backend: Backend) -> Array:
        """Return the tables of cosine and sine as one array, in a memory order."""
        xp = backend.xp
        tables = (cos, sin) if self.arrange is None else self.arrange(cos, sin, xp)
        if order == "C" or backend.strides(tables[0]) is None:
            return xp.stack(tables)
        # PyTorch's `vmap` does not support `unstack`.
        rows = xp.stack([backend.move_axis(table, 0, -1) for table in tables])
        return backend.move_axis(rows, -1, 1)

    def _compute_unblocked(self, positions: Array, order: Order, backend: Backend) -> Array:
        """Compute the tables of positions; each coordinate rotates the pairs of its section."""
        options = backend.dtype, backend, self.factor, self._coordinate_of_frequency(backend)
        cos, sin = cos_sin_of_sum([positions], [self.frequencies], *options)
        return self._stack(cos, sin, order, backend)

    def _coordinate_of_frequency(self, backend: Backend) -> Array:
        """Return the coordinate of each frequency as an array, None without sections."""
        if self.coordinates is None:
            return None
        return constant_array(list, self.coordinates, dtype=backend.int_dtype, backend=backend)


def _host_dtype_name(backend: Backend) -> str:
    """Return the name of the dtype of host tables for a backend."""
    return "float32" if backend.dtype == backend.xp.float32 else "float64"


def align_tables(tables: Array, x_axes: InputAxes, backend: Backend) -> tuple[Array, ...]:
    """Return tables of NumPy or the library with axes that broadcast against the input."""
    is_numpy = type(tables) is np.ndarray
    xp = np if is_numpy else backend.xp
    table_axes = (0, x_axes.feature_axis + 1, *[axis + 1 for axis in x_axes.position_axes])
    order, index = axes.placement(table_axes, len(x_axes.shape) + 1)
    aligned = (tables if order is None else xp.permute_dims(tables, order))[index]
    if backend.is_numpy:
        return tuple(aligned)
    if is_numpy:
        with backend.current_device(backend.device, backend.xp):
            aligned = backend.xp.asarray(aligned, dtype=backend.dtype, device=backend.device)
        if backend.shares_numpy_memory:
            return backend.xp.unstack(aligned)  # type: ignore[no-any-return]
    return tuple([aligned[i, ...] for i in range(aligned.shape[0])])


def _tables_of_chunk(
    layer: PositionTables, precision: str, order: Order, positions: Array
) -> Array:
    """Compute the tables of a chunk of positions, a NumPy or CuPy array."""
    backend = get_backend(positions=positions)
    positions = positions[(0,) * (2 - len(layer.coordinate_shape))]
    backend = backend.with_dtype(getattr(backend.xp, precision))
    return layer._compute(positions, order, backend)  # noqa: SLF001


def _cos_sin(
    frequencies: DecimalFrequencies, size: int, factor: float, order: Order, dtype_name: str
) -> HostArray:
    """Return cosine and sine of the positions 0 to `size` - 1, in a memory order."""
    with np.errstate(all="ignore"):
        blocks = (np.stack([p.real, p.imag]) for p in unit_phasors(frequencies, 0, size, factor))
        return _join(blocks, size, order, getattr(np, dtype_name))


def _join(blocks: Iterable[HostArray], count: int, order: Order, dtype: Dtype) -> HostArray:
    """Join blocks to the tables of `count` positions, in a memory order."""
    joined: Array = None
    start = 0
    for block in blocks:
        tables, rows, length = block.shape
        if joined is None and order == "C":
            joined = np.empty((tables, rows, count), dtype=dtype)
        elif joined is None:
            joined = np.empty((tables, count, rows), dtype=dtype).mT
        joined[..., start : start + length] = block
        start += length
    return joined  # type: ignore[no-any-return]
