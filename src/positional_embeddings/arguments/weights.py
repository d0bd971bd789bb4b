"""Layers with arrays: drawing, checking and comparing the arrays, and looking up their entries."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, ClassVar

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_value
from positional_embeddings.arrays.namespace import Array, Device, Dtype, HostArray, Namespace, np

Draw = Callable[[Any, tuple[int, ...]], HostArray]
Shapes = Mapping[str, tuple[int, ...]]


def array_field(default: object = MISSING) -> Any:
    """Return the dataclass field of an array of a layer, required if there is no default."""
    return field(default=default, repr=False, metadata={"array": True})


class ArrayDataclass(checks.CheckedDataclass):
    """Base class of frozen dataclasses with arrays, compared by options and arrays."""

    _array_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        added = {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
        cls._array_names += tuple(name for name, f in added.items() if f.metadata.get("array"))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare]  # type: ignore[arg-type]
        return all(_are_equal(getattr(self, name), getattr(other, name)) for name in names)

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of the layer, by name."""
        return {name: getattr(self, name) for name in self._array_names}

    def __getstate__(self) -> dict[str, object]:
        """Return the fields for copies and pickles, without cached plans."""
        state = dict(vars(self))
        return state | {name: {} for name in ("_plans", "_last") if name in state}

    def __hash__(self) -> int:
        options = (f for f in fields(self) if f.compare and not f.metadata.get("array"))  # type: ignore[arg-type]
        return hash((type(self), *(getattr(self, f.name) for f in options)))


def set_weights(
    layer: Any, shapes: Shapes, draw: Draw, xp: Namespace, dtype: Dtype, device: Device
) -> Backend:
    """Check the arrays passed to a layer, draw the missing arrays, and return their backend.

    Arrays are drawn in the library and dtype, and on the device, of the passed arrays. The
    layer stores its seed only if the seed alone determines all of its arrays.
    """
    passed = {name: getattr(layer, name) for name in shapes if getattr(layer, name) is not None}
    is_drawn = len(passed) < len(shapes)
    if passed:
        backend = get_backend(**passed)
        checks.real_floating(backend.xp, **passed)
        for name, array in passed.items():
            shape = tuple(array.shape)
            if shape != shapes[name]:
                hint = f" Pass {name}.T." if shape == shapes[name][::-1] else ""
                raise wrong_value(name, f"have shape {shapes[name]}", shape, hint)
        if not is_drawn:
            checks.omitted("where every array is given", dtype=dtype, device=device, xp=xp)
        if xp is not None and backend_for(xp).xp is not backend.xp:
            raise wrong_value("xp", "be the library of the given arrays", format_value(xp))
        dtype = next(iter(passed.values())).dtype if dtype is None else dtype
        device = backend.device if device is None else device
    else:
        backend = backend_for(xp, device)
    if is_drawn or layer.rng is not None:
        generator = namespace.random_generator(layer.rng)
    if is_drawn:
        dtype = checks.float_dtype(dtype, backend.xp.float32, backend)
        for name, shape in shapes.items():
            # Draw passed arrays, too, so that a seed determines each missing array.
            with namespace.ignore_fp_errors():
                drawn = draw(generator, shape)
                if name not in passed:
                    array = backend.xp.asarray(drawn, dtype=dtype, device=device)
                    checks.set_fields(layer, **{name: array})
    is_default = not passed and backend.is_numpy and dtype == np.float32
    seed = int(layer.rng) if is_default and hasattr(layer.rng, "__index__") else None
    checks.set_fields(layer, rng=seed)
    return backend


def set_padded_table(
    layer: Any, shape: tuple[int, int], draw: Draw, xp: Namespace, dtype: Dtype, device: Device
) -> None:
    """Check or draw the table (features, entries) of a layer, zero at its `padding_idx`.

    A trainable parameter of PyTorch stays unchanged: its optimizer would not update a copy.
    """
    padding_idx = checks.optional_index("padding_idx", layer.padding_idx, shape[1])
    backend = set_weights(layer, {"embeddings": shape}, draw, xp, dtype, device)
    table = layer.embeddings
    if not backend.is_trainable(table):
        with backend.current_device(backend.device, backend.xp):
            table = zero_padding_idx(table, padding_idx, backend)
    checks.set_fields(layer, padding_idx=padding_idx, embeddings=table)


def truncated_normal(std: float) -> Draw:
    """Return a function that draws normal numbers, truncated at two standard deviations."""

    def draw(generator: Any, shape: tuple[int, ...]) -> HostArray:
        numbers: HostArray = generator.standard_normal(shape)
        while (beyond := abs(numbers) > 2).any():
            numbers[beyond] = generator.standard_normal(int(beyond.sum()))
        return numbers * std

    return draw


def normal(std: float) -> Draw:
    """Return a function that draws normal numbers."""
    return lambda generator, shape: generator.standard_normal(shape) * std


def zero_padding_idx(
    table: Array, padding_idx: int | None, backend: Backend, start: int = 0
) -> Array:
    """Return a table (features, entries) with the column `padding_idx` zero, without gradient.

    The columns are numbered from `start`.
    """
    if padding_idx is None:
        return table
    stop = start + table.shape[1]
    column = backend.xp.arange(start, stop, dtype=backend.int_dtype, device=backend.device)
    # The table is the first choice, whose dtype `select` returns.
    return namespace.select(column != padding_idx, table, 0.0, backend.xp)


def embedding_lookup(
    name: str, indices: Array, table: Array, backend: Backend, padding_idx: int | None = None
) -> Array:
    """Return the columns of a table (features, entries), as (features, *indices.shape).

    The column `padding_idx` is zero and has no gradient, even if the table is not zero there. An
    index out of range is an error if it can be read without waiting for a device. Otherwise its
    column is NaN, while libraries would wrap or clip the index.
    """
    xp, size = backend.xp, table.shape[1]
    index = checked_indices(name, indices, size, backend)
    if _can_be_checked(indices, backend):
        columns = backend.take_entries(table, index, 1)
    else:
        is_valid = (index >= 0) & (index < size)
        columns = backend.take_entries(table, xp.where(is_valid, index, 0), 1)
        columns = namespace.select(is_valid, columns, float("nan"), xp)
    if padding_idx is None:
        return columns
    return namespace.select(index != padding_idx, columns, 0.0, xp)


def checked_indices(name: str, indices: Array, size: int, backend: Backend) -> Array:
    """Return indices in the default integer dtype, after checking them if they can be read."""
    xp = backend.xp
    checks.integral(name, indices, xp)
    index = backend.astype(indices, backend.int_dtype)
    if not _can_be_checked(indices, backend):
        return index
    if backend.concrete_bool(xp.any((index < 0) | (index >= size))):
        lowest = int(xp.min(index))
        wrong = lowest if lowest < 0 else int(xp.max(index))
        raise wrong_value(name, f"be from 0 to {size - 1}", wrong)
    return index


def _can_be_checked(indices: Array, backend: Backend) -> bool:
    """Return whether indices can be read without waiting for a device."""
    return backend.is_concrete(indices) and backend.is_on_host(indices)


def segment_sum(values: Array, segment_ids: Array, num_segments: int, backend: Backend) -> Array:
    """Return the sums (features, segments) of values (features, n) over segments.

    After sorting, a segment is a range of values. It is the union of blocks of 1, 2, 4, ...
    values, whose sums are added: an infinity or NaN affects only its own segment.
    """
    xp, device = backend.xp, backend.device
    order = xp.argsort(segment_ids)
    level = xp.take(values, order, axis=1)
    edges = xp.arange(num_segments + 1, dtype=segment_ids.dtype, device=device)
    edges = backend.searchsorted(xp.take(segment_ids, order), edges)
    start, stop = edges[:-1], edges[1:]
    total = xp.zeros((values.shape[0], num_segments), dtype=values.dtype, device=device)
    while level.shape[1] > 0:
        for end, index in ((start, start), (stop, stop - 1)):
            is_unpaired = (start < stop) & (end % 2 == 1)
            block_sums = xp.take(level, xp.where(is_unpaired, index, 0), axis=1)
            total = total + xp.where(is_unpaired, block_sums, 0)
        start, stop = (start + 1) // 2, stop // 2
        pairs = 2 * (level.shape[1] // 2)
        level = level[:, 0:pairs:2] + level[:, 1:pairs:2]
    return total


def _are_equal(first: Array, second: Array) -> bool:
    """Return whether two arrays have equal library, device, dtype and elements; NaN equals NaN.

    None and numbers are compared by value, lists and tuples item by item.
    """
    if first is second:
        return True
    if isinstance(first, list | tuple) and type(first) is type(second):
        return len(first) == len(second) and all(map(_are_equal, first, second))
    are_arrays = [hasattr(a, "shape") for a in (first, second)]
    if not all(are_arrays):
        return not any(are_arrays) and bool(first == second)
    try:
        backend = get_backend(first=first, second=second)
    except TypeError:
        return False
    forms = [(a.dtype, backend.single_device(a), tuple(a.shape)) for a in (first, second)]
    if forms[0] != forms[1]:
        return False
    both_nan = (first != first) & (second != second)  # noqa: PLR0124
    return bool(backend.xp.all((first == second) | both_nan))
