"""Layers that own arrays: drawing them, checking them, comparing them."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from math import prod
from typing import Any

from array_api_compat import is_lazy_array, is_numpy_namespace

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import is_concretely_true, search_sorted
from positional_embeddings._core.checks import CheckedLayer
from positional_embeddings._core.errors import shown, wrong_value
from positional_embeddings._core.namespace import (
    Device,
    Dtype,
    HostArray,
    Namespace,
    default_integer,
    device_of,
    dtype_name,
    float_dtype,
    namespace_of,
    namespace_or_numpy,
    random_generator,
    select,
    single_device,
)

Draw = Callable[[Any, tuple[int, ...]], HostArray]


def weight() -> Any:
    """Return the dataclass field of an array that a layer owns."""
    return field(default=None, repr=False, metadata={"weight": True})


class WeightedLayer(CheckedLayer):
    """Equality of immutable layers, all dataclasses: the same options, and the same arrays."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _same(getattr(self, f.name), getattr(other, f.name))
            if "weight" in f.metadata
            else getattr(self, f.name) == getattr(other, f.name)
            for f in fields(self)  # type: ignore[arg-type]
            if f.compare
        )

    def __hash__(self) -> int:
        options = (f for f in fields(self) if f.compare and "weight" not in f.metadata)  # type: ignore[arg-type]
        return hash((type(self), *(getattr(self, f.name) for f in options)))


def set_weights(
    layer: Any,
    shapes: Mapping[str, tuple[int, ...]],
    draw: Draw,
    xp: Namespace | None,
    dtype: Dtype | None,
    device: Device | None,
) -> None:
    """Check the arrays that a layer was given, and draw those that it was not.

    What is drawn follows the given ones to their library, dtype and device. The
    layer keeps its seed only where the seed tells all of its arrays.
    """
    generator = random_generator(layer.rng)
    given = {name: getattr(layer, name) for name in shapes if getattr(layer, name) is not None}
    if given:
        xp, dtype, device = _library_of(given, shapes, xp, dtype, device)
    if len(given) < len(shapes):
        xp = namespace_or_numpy(xp)
        dtype = float_dtype(dtype, xp.float32, xp, device)
        for name, shape in shapes.items():
            # Drawn even where it is given, so that a seed gives each array its own numbers.
            drawn = draw(generator, shape)
            if name not in given:
                checks.set_fields(layer, **{name: xp.asarray(drawn, dtype=dtype, device=device)})
    seed_tells_all = not given and is_numpy_namespace(xp) and dtype_name(dtype) == "float32"
    seed = int(layer.rng) if seed_tells_all and hasattr(layer.rng, "__index__") else None
    checks.set_fields(layer, rng=seed)


def _library_of(
    given: dict[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    xp: Namespace | None,
    dtype: Dtype | None,
    device: Device | None,
) -> tuple[Namespace, Dtype, Device]:
    """Check arrays that were given, and return where to draw the others."""
    theirs = namespace_of(**given)
    checks.real_floating(theirs, **given)
    for name, array in given.items():
        if tuple(array.shape) != shapes[name]:
            raise wrong_value(name, f"have shape {shapes[name]}", tuple(array.shape))
    like = next(iter(given.values()))
    for option, value in (("dtype", dtype), ("device", device), ("xp", xp)):
        if value is not None and len(given) == len(shapes):
            raise wrong_value(option, "be left out where every array is given", shown(value))
    if xp is not None and namespace_or_numpy(xp) is not theirs:
        raise wrong_value("xp", "be the library of the given arrays", shown(xp))
    on = device_of(like) if device is None else device
    return theirs, like.dtype if dtype is None else dtype, on


def truncated_normal(std: float) -> Draw:
    """Return a source of normal numbers that are drawn again beyond two deviations."""

    def draw(generator: Any, shape: tuple[int, ...]) -> HostArray:
        numbers: HostArray = generator.standard_normal(shape)
        while (beyond := abs(numbers) > 2).any():
            numbers[beyond] = generator.standard_normal(int(beyond.sum()))
        return numbers * std

    return draw


def normal(std: float) -> Draw:
    """Return a source of normal numbers."""
    return lambda generator, shape: generator.standard_normal(shape) * std


def zero_padding_idx(table: Any, column: int | None, axis: int, xp: Namespace) -> Any:
    """Set one entry along an axis to zero, and its gradient with it."""
    if column is None:
        return table
    on = device_of(table)
    number = xp.arange(table.shape[axis], dtype=default_integer(xp, on), device=on)
    number = number[(..., *(None,) * (table.ndim - 1 - axis))]
    zero = xp.asarray(0.0, dtype=table.dtype, device=on)
    return select(number == column, zero, table, xp)


def embedding_lookup(name: str, indices: Any, table: Any, axis: int, xp: Namespace) -> Any:
    """Return the entries of a table, in place of `axis` the axes of the indices.

    An index out of range is an error where it can be read. Elsewhere its entry is NaN:
    libraries wrap it, clip it or take another entry.
    """
    size, on = table.shape[axis], device_of(indices)
    flat = xp.reshape(checked_indices(name, indices, size, xp), (prod(indices.shape),))
    wrong = None
    if is_lazy_array(flat):
        wrong = (flat < 0) | (flat >= size)
        flat = xp.where(wrong, xp.asarray(0, dtype=flat.dtype, device=on), flat)
    taken = xp.take(table, flat, axis=axis)
    if wrong is not None:
        nan = xp.asarray(float("nan"), dtype=table.dtype, device=on)
        taken = select(wrong[(..., *(None,) * (table.ndim - 1 - axis))], nan, taken, xp)
    shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
    return taken if indices.ndim == 1 else xp.reshape(taken, shape)


def checked_indices(name: str, indices: Any, size: int, xp: Namespace) -> Any:
    """Check indices of a table where they can be read, and return them as wide integers."""
    checks.integral(name, indices, xp)
    wide = xp.astype(indices, default_integer(xp, device_of(indices)), copy=False)
    for index, wrong in ((xp.min, wide < 0), (xp.max, wide >= size)):
        if is_concretely_true(xp.any(wrong)):
            raise wrong_value(name, f"be from 0 to {size - 1}", int(index(wide)))
    return wide


def sums_by_column(values: Any, columns: Any, size: int, xp: Namespace) -> Any:
    """Return (features, size): of each column the sum of the values (features, n) sent to it.

    Sorted by column, the values of a column are a range. It is put together from sums of
    2, 4, 8, ... neighbours that lie within it, so that nothing else reaches the column.
    """
    on = device_of(columns)
    order = xp.argsort(columns)
    level = xp.take(values, order, axis=1)
    edges = xp.arange(size + 1, dtype=columns.dtype, device=on)
    edges = search_sorted(xp.take(columns, order), edges, xp)
    start, stop = edges[:-1], edges[1:]
    zero = xp.asarray(0, dtype=values.dtype, device=on)
    total = xp.zeros((values.shape[0], size), dtype=values.dtype, device=on)
    while level.shape[1] > 0:
        for end, index in ((start, start), (stop, stop - 1)):
            alone = (start < stop) & (end % 2 == 1)
            taken = xp.take(level, xp.where(alone, index, index * 0), axis=1)
            total = total + xp.where(alone, taken, zero)
        start, stop = (start + 1) // 2, stop // 2
        pairs = 2 * (level.shape[1] // 2)
        level = level[:, 0:pairs:2] + level[:, 1:pairs:2]
    return total


def _same(first: Any, second: Any) -> bool:
    """Tell whether two arrays are of one kind and hold the same numbers."""
    if first is second:
        return True
    try:
        xp = namespace_of(first=first, second=second)
    except TypeError:
        return False
    alike = first.dtype == second.dtype and single_device(first) == single_device(second)
    if not alike or tuple(first.shape) != tuple(second.shape):
        return False
    both_nan = (first != first) & (second != second)  # noqa: PLR0124
    return bool(xp.all((first == second) | both_nan))
