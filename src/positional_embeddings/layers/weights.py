"""Layers that own arrays: drawing them, checking them, comparing them."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import partial
from math import prod
from typing import Any

from array_api_compat import is_numpy_namespace

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import namespace, values
from positional_embeddings.arrays.errors import shown, wrong_value
from positional_embeddings.arrays.library import library_of, library_of_namespace
from positional_embeddings.arrays.namespace import Device, Dtype, HostArray, Namespace

Draw = Callable[[Any, tuple[int, ...]], HostArray]
Shapes = Mapping[str, tuple[int, ...]]


def weight() -> Any:
    """Return the dataclass field of an array that a layer owns."""
    return field(default=None, repr=False, metadata={"weight": True})


def array_field() -> Any:
    """Return the dataclass field of an array that has to be given."""
    return field(repr=False, metadata={"weight": True})


def part() -> Any:
    """Return the dataclass field of layers that a layer is made of."""
    return field(metadata={"part": True})


class WeightedLayer(checks.CheckedLayer):
    """Base of frozen dataclasses that are equal if their options and their arrays are."""

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

    def _arrays(self) -> dict[str, Any]:
        """Return the arrays that the layer holds, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if "weight" in f.metadata}  # type: ignore[arg-type]

    def __hash__(self) -> int:
        options = (f for f in fields(self) if f.compare and "weight" not in f.metadata)  # type: ignore[arg-type]
        return hash((type(self), *(getattr(self, f.name) for f in options)))


def set_weights(
    layer: Any, shapes: Shapes, draw: Draw, xp: Any, dtype: Any, device: Any
) -> Namespace:
    """Check the arrays that a layer was given, draw the others, and return their namespace.

    Arrays are drawn in the library and dtype, and on the device, of the given ones. The
    layer keeps its seed only if the seed alone determines all of its arrays.
    """
    given = {name: getattr(layer, name) for name in shapes if getattr(layer, name) is not None}
    if given:
        xp, dtype, device = _library_of(given, shapes, xp, dtype, device)
    else:
        xp = namespace.namespace_or_numpy(xp)
    if len(given) < len(shapes) or layer.rng is not None:
        generator = namespace.random_generator(layer.rng)
    if len(given) < len(shapes):
        dtype = namespace.float_dtype(dtype, xp.float32, xp, device)
        for name, shape in shapes.items():
            # Also for given arrays, so that a seed draws each array the same whatever is given.
            drawn = draw(generator, shape)
            if name not in given:
                checks.set_fields(layer, **{name: xp.asarray(drawn, dtype=dtype, device=device)})
    from_seed = not given and is_numpy_namespace(xp) and namespace.dtype_name(dtype) == "float32"
    seed = int(layer.rng) if from_seed and hasattr(layer.rng, "__index__") else None
    checks.set_fields(layer, rng=seed)
    return xp


def set_padded_table(
    layer: Any, shape: tuple[int, int], draw: Draw, xp: Any, dtype: Any, device: Any
) -> None:
    """Check or draw the table (features, entries) of a layer, zero at its `padding_idx`.

    A parameter that PyTorch trains is kept: an optimizer would never see a copy.
    """
    padding_idx = checks.optional_index("padding_idx", layer.padding_idx, shape[1])
    xp = set_weights(layer, {"embeddings": shape}, draw, xp, dtype, device)
    table = layer.embeddings
    if not library_of(table).is_trained(table):
        with library_of_namespace(xp).current_device(namespace.device_of(table), xp):
            table = zero_padding_idx(table, padding_idx, xp)
    checks.set_fields(layer, padding_idx=padding_idx, embeddings=table)


def _library_of(
    given: dict[str, Any], shapes: Shapes, xp: Any, dtype: Any, device: Any
) -> tuple[Namespace, Dtype, Device]:
    """Check arrays that were given; return the namespace, dtype and device of the others."""
    theirs = namespace.namespace_of(**given)
    checks.real_floating(theirs, **given)
    for name, array in given.items():
        if tuple(array.shape) != shapes[name]:
            raise wrong_value(name, f"have shape {shapes[name]}", tuple(array.shape))
    like = next(iter(given.values()))
    for option, value in (("dtype", dtype), ("device", device), ("xp", xp)):
        if value is not None and len(given) == len(shapes):
            raise wrong_value(option, "be left out where every array is given", shown(value))
    if xp is not None and namespace.namespace_or_numpy(xp) is not theirs:
        raise wrong_value("xp", "be the library of the given arrays", shown(xp))
    on = namespace.device_of(like) if device is None else device
    return theirs, like.dtype if dtype is None else dtype, on


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


def zero_padding_idx(table: Any, padding_idx: int | None, xp: Namespace, start: int = 0) -> Any:
    """Set one column of a table (features, entries) to zero, and its gradient with it.

    The columns are counted from `start` on.
    """
    if padding_idx is None:
        return table
    on = namespace.device_of(table)
    stop = start + table.shape[1]
    column = xp.arange(start, stop, dtype=namespace.default_integer(xp, on), device=on)
    # The table second, for `select` returns the dtype of the first.
    return namespace.select(column != padding_idx, table, 0.0, xp)


def embedding_lookup(
    name: str, indices: Any, table: Any, xp: Namespace, padding_idx: int | None = None
) -> Any:
    """Return the columns of a table (features, entries), as (features, *indices.shape).

    That of `padding_idx` is zero, and so is its gradient, whatever the table holds. An index out
    of range is an error where it can be read. Elsewhere its column is NaN; libraries themselves
    would wrap or clip it.
    """
    size = table.shape[1]
    indices = checked_indices(name, indices, size, xp)
    if library_of(indices).is_readable(indices):
        taken = take_entries(table, indices, 1, xp)
    else:
        inside = (indices >= 0) & (indices < size)
        taken = take_entries(table, xp.where(inside, indices, 0), 1, xp)
        taken = namespace.select(inside, taken, float("nan"), xp)
    if padding_idx is None:
        return taken
    return namespace.select(indices != padding_idx, taken, 0.0, xp)


def take_entries(table: Any, indices: Any, axis: int, xp: Namespace) -> Any:
    """Return the entries of a table along an axis, which becomes the axes of the indices."""
    if indices.ndim == 1:
        return xp.take(table, indices, axis=axis)
    if indices.ndim > 1 and library_of(indices).is_chunked:
        return _take_by_chunks(table, indices, axis)
    flat = xp.reshape(indices, (prod(indices.shape),))
    taken = xp.take(table, flat, axis=axis)
    return xp.reshape(taken, (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :]))


def _take_by_chunks(table: Any, indices: Any, axis: int) -> Any:
    """Take the entries of each chunk of indices, from all along the axis, in one task."""
    rest = table.ndim - axis - 1
    table = library_of(table).rechunk(table, {axis: (table.shape[axis],)})
    lengths = library_of(table).chunks(table)
    chunks = (*lengths[:axis], *library_of(indices).chunks(indices), *lengths[axis + 1 :])
    own = (..., *(None,) * (indices.ndim - 1), *(slice(None),) * rest)
    index = (*(None,) * axis, ..., *(None,) * rest)
    take = partial(_take_chunk, axis=axis, rest=rest)
    map_chunks = library_of(table).map_chunks
    return map_chunks(take, table[own], indices[index], chunks=chunks, dtype=table.dtype)


def _take_chunk(table: Any, indices: Any, *, axis: int, rest: int) -> Any:
    xp = namespace.namespace_of(table=table)
    indices = xp.asarray(indices, device=namespace.device_of(table))
    lacking = (0,) * (indices.ndim - axis - rest - 1)
    table = table[(..., *lacking, *(slice(None),) * rest)]
    return take_entries(table, indices[(*(0,) * axis, ..., *(0,) * rest)], axis, xp)


def checked_indices(name: str, indices: Any, size: int, xp: Namespace) -> Any:
    """Check indices of a table where they can be read; return them in the default integer."""
    checks.integral(name, indices, xp)
    dtype = namespace.default_integer(xp, namespace.device_of(indices))
    wide = xp.astype(indices, dtype, copy=False)
    if values.is_concretely_true(xp.any((wide < 0) | (wide >= size))):
        lowest = int(xp.min(wide))
        wrong = lowest if lowest < 0 else int(xp.max(wide))
        raise wrong_value(name, f"be from 0 to {size - 1}", wrong)
    return wide


def segment_sum(values: Any, segment_ids: Any, num_segments: int, xp: Namespace) -> Any:
    """Return (features, segments): sums of the values (features, n) of each segment.

    Sorted, the values of a segment are a range. Its sum is the sum of blocks of 1, 2, 4, ...
    values that lie within the range, so that what is not finite stays in its own segment.
    """
    order = xp.argsort(segment_ids)
    level = xp.take(values, order, axis=1)
    on = namespace.device_of(segment_ids)
    edges = xp.arange(num_segments + 1, dtype=segment_ids.dtype, device=on)
    edges = library_of(segment_ids).searchsorted(xp.take(segment_ids, order), edges)
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


def _same(first: Any, second: Any) -> bool:
    """Tell whether two arrays are of one library, device and dtype, and hold the same numbers.

    None and a number stand for themselves.
    """
    if first is second:
        return True
    if not (hasattr(first, "shape") and hasattr(second, "shape")):
        return bool(first == second)
    try:
        xp = namespace.namespace_of(first=first, second=second)
    except TypeError:
        return False
    described = [(a.dtype, library_of(a).single_device(a), tuple(a.shape)) for a in (first, second)]
    if described[0] != described[1]:
        return False
    both_nan = (first != first) & (second != second)  # noqa: PLR0124
    return bool(xp.all((first == second) | both_nan))
