"""Layers that own arrays: drawing them, checking them, comparing them."""

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
    """Return the dataclass field of an array of a layer, to be given if there is no default."""
    return field(default=default, repr=False, metadata={"array": True})


class ArrayDataclass(checks.CheckedDataclass):
    """Base of frozen dataclasses that are equal if their options and their arrays are."""

    _array_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
        cls._array_names += tuple(name for name, f in own.items() if f.metadata.get("array"))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays that the layer holds, by name."""
        return {name: getattr(self, name) for name in self._array_names}

    def __getstate__(self) -> dict[str, object]:
        """Return the fields for copies and pickles, without the plans of calls."""
        state = dict(vars(self))
        return state | {name: {} for name in ("_plans", "_last") if name in state}

    def __hash__(self) -> int:
        options = (f for f in fields(self) if f.compare and not f.metadata.get("array"))  # type: ignore[arg-type]
        return hash((type(self), *(getattr(self, f.name) for f in options)))


def set_weights(
    layer: Any, shapes: Shapes, draw: Draw, xp: Namespace, dtype: Dtype, device: Device
) -> Backend:
    """Check the arrays that a layer was given, draw the others, and return their space.

    Arrays are drawn in the library and dtype, and on the device, of the given ones. The
    layer keeps its seed only if the seed alone determines all of its arrays.
    """
    given = {name: getattr(layer, name) for name in shapes if getattr(layer, name) is not None}
    is_drawn = len(given) < len(shapes)
    if given:
        backend = get_backend(**given)
        checks.real_floating(backend.xp, **given)
        for name, array in given.items():
            if tuple(array.shape) != shapes[name]:
                raise wrong_value(name, f"have shape {shapes[name]}", tuple(array.shape))
        if not is_drawn:
            checks.left_out("where every array is given", dtype=dtype, device=device, xp=xp)
        if xp is not None and backend_for(xp).xp is not backend.xp:
            raise wrong_value("xp", "be the library of the given arrays", format_value(xp))
        dtype = next(iter(given.values())).dtype if dtype is None else dtype
        device = backend.device if device is None else device
    else:
        backend = backend_for(xp, device)
    if is_drawn or layer.rng is not None:
        generator = namespace.random_generator(layer.rng)
    if is_drawn:
        dtype = checks.float_dtype(dtype, backend.xp.float32, backend)
        for name, shape in shapes.items():
            # Also for given arrays, so that a seed draws each array the same whatever is given.
            with namespace.ignore_fp_errors():
                drawn = draw(generator, shape)
                if name not in given:
                    array = backend.xp.asarray(drawn, dtype=dtype, device=device)
                    checks.set_fields(layer, **{name: array})
    is_default = not given and backend.has_host_arrays and dtype == np.float32
    seed = int(layer.rng) if is_default and hasattr(layer.rng, "__index__") else None
    checks.set_fields(layer, rng=seed)
    return backend


def set_padded_table(
    layer: Any, shape: tuple[int, int], draw: Draw, xp: Namespace, dtype: Dtype, device: Device
) -> None:
    """Check or draw the table (features, entries) of a layer, zero at its `padding_idx`.

    A parameter that PyTorch trains is kept: an optimizer would never see a copy.
    """
    padding_idx = checks.optional_index("padding_idx", layer.padding_idx, shape[1])
    backend = set_weights(layer, {"embeddings": shape}, draw, xp, dtype, device)
    table = layer.embeddings
    if not backend.is_trainable(table):
        with backend.current_device(backend.device, backend.xp):
            table = zero_padding_idx(table, padding_idx, backend)
    checks.set_fields(layer, padding_idx=padding_idx, embeddings=table)


def truncated_normal(std: float) -> Draw:
    """Return a function that draws normal numbers, again if beyond two deviations."""

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
    """Set one column of a table (features, entries) to zero, and its gradient with it.

    The columns are counted from `start` on.
    """
    if padding_idx is None:
        return table
    stop = start + table.shape[1]
    column = backend.xp.arange(start, stop, dtype=backend.integer, device=backend.device)
    # The table second, for `select` returns the dtype of the first.
    return namespace.select(column != padding_idx, table, 0.0, backend.xp)


def embedding_lookup(
    name: str, indices: Array, table: Array, backend: Backend, padding_idx: int | None = None
) -> Array:
    """Return the columns of a table (features, entries), as (features, *indices.shape).

    The column of `padding_idx` is zero, and so is its gradient, whatever the table holds. An
    index out of range is an error where it can be read without waiting for a device. Elsewhere
    its column is NaN; libraries themselves would wrap or clip it.
    """
    xp, size = backend.xp, table.shape[1]
    wide = checked_indices(name, indices, size, backend)
    if _can_be_checked(indices, backend):
        taken = backend.take_entries(table, wide, 1)
    else:
        inside = (wide >= 0) & (wide < size)
        taken = backend.take_entries(table, xp.where(inside, wide, 0), 1)
        taken = namespace.select(inside, taken, float("nan"), xp)
    if padding_idx is None:
        return taken
    return namespace.select(wide != padding_idx, taken, 0.0, xp)


def checked_indices(name: str, indices: Array, size: int, backend: Backend) -> Array:
    """Check indices of a table where they can be read; return them in the default integer."""
    xp = backend.xp
    checks.integral(name, indices, xp)
    wide = backend.astype(indices, backend.integer)
    if not _can_be_checked(indices, backend):
        return wide
    if backend.concrete_bool(xp.any((wide < 0) | (wide >= size))):
        lowest = int(xp.min(wide))
        wrong = lowest if lowest < 0 else int(xp.max(wide))
        raise wrong_value(name, f"be from 0 to {size - 1}", wrong)
    return wide


def _can_be_checked(indices: Array, backend: Backend) -> bool:
    """Tell whether indices can be read without waiting for a device."""
    return backend.is_concrete(indices) and backend.is_on_host(indices)


def segment_sum(values: Array, segment_ids: Array, num_segments: int, backend: Backend) -> Array:
    """Return (features, segments): sums of the values (features, n) of each segment.

    Sorted, the values of a segment are a range. Its sum is the sum of blocks of 1, 2, 4, ...
    values that lie within the range, so that what is not finite stays in its own segment.
    """
    xp, on = backend.xp, backend.device
    order = xp.argsort(segment_ids)
    level = xp.take(values, order, axis=1)
    edges = xp.arange(num_segments + 1, dtype=segment_ids.dtype, device=on)
    edges = backend.searchsorted(xp.take(segment_ids, order), edges)
    start, stop = edges[:-1], edges[1:]
    total = xp.zeros((values.shape[0], num_segments), dtype=values.dtype, device=on)
    while level.shape[1] > 0:
        for end, index in ((start, start), (stop, stop - 1)):
            alone = (start < stop) & (end % 2 == 1)
            taken = xp.take(level, xp.where(alone, index, 0), axis=1)
            total = total + xp.where(alone, taken, 0)
        start, stop = (start + 1) // 2, stop // 2
        pairs = 2 * (level.shape[1] // 2)
        level = level[:, 0:pairs:2] + level[:, 1:pairs:2]
    return total


def _same(first: Array, second: Array) -> bool:
    """Tell whether two arrays are of one library, device and dtype, and hold the same numbers.

    None and a number stand for themselves, a list and a tuple for what is in them.
    """
    if first is second:
        return True
    if isinstance(first, list | tuple) and type(first) is type(second):
        return len(first) == len(second) and all(map(_same, first, second))
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
