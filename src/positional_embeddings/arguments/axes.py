"""Axes of features, sequence and batch of an array, by number and never guessed from a length."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import format_value, plural, wrong_value
from positional_embeddings.arrays.namespace import Array, Namespace, Shape, cached_lookup

_USUAL_AXES = {
    "(batch, heads, seq, head)": {"feature_axis": -1, "seq_axis": -2},
    "(head, seq, heads, batch)": {"feature_axis": 0, "seq_axis": 1},
}


def axis_of(name: str, axis: SupportsIndex, ndim: int, array: str = "x") -> int:
    """Return an axis of an array of `ndim` dimensions, as non-negative integers."""
    number = axis if type(axis) is int else checks.integer(name, axis)
    if not -ndim <= number < ndim:
        if ndim == 0:
            raise wrong_value(array, "have at least one axis", "a 0-dimensional array")
        requirement = f"be an axis of the {ndim}-dimensional `{array}` ({-ndim} to {ndim - 1})"
        raise wrong_value(name, requirement, format_value(number))
    return number % ndim


def feature_and_seq_axis(
    feature_axis: int | None,
    seq_axis: int | None,
    array: Array,
    name: str = "x",
    verb: str = "Pass",
) -> tuple[int, int]:
    """Return both axes as non-negative integers; the default is 0 and 1 for at most three axes."""
    if array.ndim < 2:
        requirement = "have at least 2 axes, one of features and one of the sequence"
        raise wrong_value(name, requirement, f"shape {tuple(array.shape)}")
    if feature_axis is None or seq_axis is None:
        options = {"feature_axis": feature_axis, "seq_axis": seq_axis}
        feature_axis, seq_axis = resolve_axes(options, array, name, verb)
    feature = axis_of("feature_axis", feature_axis, array.ndim, name)
    seq = axis_of("seq_axis", seq_axis, array.ndim, name)
    if feature == seq:
        requirement = (
            f"be another axis of the {array.ndim}-dimensional `{name}` than `feature_axis`"
        )
        raise wrong_value("seq_axis", f"{requirement} = {feature_axis}", format_value(seq_axis))
    return feature, seq


def resolve_axes(
    options: dict[str, int | None], array: Array, name: str = "x", verb: str = "Pass"
) -> list[int]:
    """Return `feature_axis`, and perhaps `seq_axis`, by default 0 and 1.

    The defaults would often be wrong for more than three axes: the error lists the usual axes.
    """
    if array.ndim > 3 and None in options.values():
        usual = [
            f"{', '.join(f'{axis}={number[axis]}' for axis in options)} for {order}"
            for order, number in _USUAL_AXES.items()
        ]
        requirement = f"be given for `{name}` of {array.ndim} axes"
        actual, hint = f"shape {tuple(array.shape)}", f" {verb} {', or '.join(usual)}."
        raise wrong_value("` and `".join(options), requirement, actual, hint)
    return default_axes(*options.values())


def hint_for_last_axis(feature: int, fits: bool, verb: str = "Pass") -> str:  # noqa: FBT001
    """Return the remedy if features are on the first axis and would fit on the last axis."""
    return f" {verb} feature_axis=-1, seq_axis=-2 if features are last." * (feature == 0 and fits)


def default_axes(*axes: int | None) -> list[int]:
    """Return axes, by default 0, 1, ..."""
    return [default if axis is None else axis for default, axis in enumerate(axes)]


def axes_in_4d(layer: Any) -> tuple[int, int]:
    """Return the axes of features and sequence of a layer in arrays of four dimensions."""
    feature, seq = default_axes(layer.feature_axis, layer.seq_axis)
    return feature % 4, seq % 4


def has_features_last(layer: Any) -> bool:
    """Return whether features follow positions in arrays of four dimensions of a layer."""
    feature, seq = axes_in_4d(layer)
    return feature > seq


def set_axes(layer: Any) -> None:
    """Check that both axes of a layer, by default None, are integers and differ, and set them."""
    axes = {"feature_axis": layer.feature_axis, "seq_axis": layer.seq_axis}
    for name, axis in axes.items():
        if axis is not getattr(type(layer), name):  # the default
            axes[name] = checks.integer(name, axis)
    feature, seq = default_axes(*axes.values())
    if feature == seq:
        raise wrong_value("seq_axis", f"be another axis than `feature_axis` = {feature}", seq)
    checks.set_fields(layer, **axes)


def length(array: Array, axis: int, name: str = "x") -> int:
    """Return the length of an axis; raise an error if a lazy library does not know it."""
    size = array.shape[axis]
    if not checks.is_static(size):
        requirement = f"have a known length on axis {axis}"
        hint = "" if size is None else f" Call {name}.compute_chunk_sizes() first."  # of dask
        raise wrong_value(name, requirement, f"shape {tuple(array.shape)}", hint)
    return size  # type: ignore[no-any-return]


def batch_axis(ndim: int, feature: int, seq: int) -> int | None:
    """Return the axis of sequences, None if there is none.

    It is the last axis if features and sequence are first, else the first of the remaining axes.
    """
    remaining = [axis for axis in range(ndim) if axis not in (feature, seq)]
    return remaining[-1 if feature + seq == 1 else 0] if remaining else None


def head_axis(ndim: int, feature: int, seq: int) -> int | None:
    """Return the axis of heads, None if there is none.

    It is the first of the remaining axes if features and sequence are first, else the last.
    """
    remaining = [axis for axis in range(ndim) if axis not in (feature, seq)]
    return remaining[0 if feature + seq == 1 else -1] if remaining else None


def axes_of_positions(
    shape: Shape, target: Shape, feature: int, seq: int, name: str
) -> tuple[int, ...]:
    """Check the shape of positions, and return their axes in an array of shape `target`."""
    all_axes = tuple(axis for axis in range(len(target)) if axis != feature)
    batch = batch_axis(len(target), feature, seq)
    with_batch = (seq,) if batch is None else (min(seq, batch), max(seq, batch))
    axes = {1: (seq,), 2: with_batch}.get(len(shape), all_axes)
    lengths = [target[axis] for axis in axes]
    is_single = shape == (1,) and lengths != [1]
    if is_single or len(shape) != len(axes) or not all(map(checks.broadcasts_to, shape, lengths)):
        names = {seq: "seq", batch: "batch"}
        choices = []
        for allowed in dict.fromkeys(((seq,), with_batch, all_axes)):
            text = ", ".join(names.get(axis, str(target[axis])) for axis in allowed)
            sizes = tuple(target[axis] for axis in allowed)
            choices.append(f"({text}{',' * (len(allowed) == 1)}) = {sizes}")
        hint = ", with 1 where it broadcasts" if len(choices) > 1 else ""
        raise wrong_value(name, f"have shape {' or '.join(choices)}{hint}", shape)
    return axes


def repeats_of_positions(shape: tuple[Any, ...], x_axes: "InputAxes") -> int:
    """Return the number of repeats of positions (seq, batch) along an axis of heads * batch."""
    if (len(shape), len(x_axes.shape), x_axes.feature_axis + x_axes.seq_axis) != (2, 3, 1):
        return 1
    batch, size = shape[-1], x_axes.shape[-1]
    is_static = checks.is_static(batch) and checks.is_static(size)
    return size // batch if is_static and batch > 1 and size % batch == 0 else 1


def repeat_for_heads(array: Array, heads: int, backend: Backend) -> Array:
    """Return positions or tables (..., seq, batch), repeated for an axis of heads * batch."""
    if heads == 1:
        return array
    *leading, batch = array.shape
    repeated = backend.xp.broadcast_to(array[..., None, :], (*leading, heads, batch))
    return backend.reshape(repeated, (*leading, heads * batch))


def expand_to_axes(table: Array, axes: Sequence[int], ndim: int, xp: Namespace) -> Array:
    """Move axis i of a table to `axes[i]` of `ndim` axes; all other axes have length 1."""
    order, index = placement(tuple(axes), ndim)
    if order == (1, 0):
        table = table.T
    elif order is not None:
        table = xp.permute_dims(table, order)
    return table[index]


@cached_lookup
def placement(
    axes: tuple[int, ...], ndim: int
) -> tuple[tuple[int, ...] | None, tuple[slice | None, ...]]:
    """Return the permutation of the axes of a table, and the index that inserts axes of length 1.

    The permutation is None if it is the identity.
    """
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    index = tuple(slice(None) if axis in axes else None for axis in range(ndim))
    return None if order == tuple(sorted(order)) else order, index


Order: TypeAlias = Literal["C", "F"]


class InputAxes(NamedTuple):
    """Shape, axes and positions of an array to which tables are applied."""

    shape: Shape
    feature_axis: int
    seq_axis: int
    # Memory order of tables (frequency, *position): "F" if the stride of features is less than
    # the stride of the sequence.
    order: Order
    name: str
    seq_chunks: Shape  # lengths of the chunks of the sequence
    position_axes: tuple[int, ...]
    repeats: int = 1  # of positions (seq, batch) along an axis of heads * batch

    def with_positions(self, shape: Shape, name: str, repeats: int = 1) -> "InputAxes":
        """Check the shape of positions, and return a copy with their axes."""
        if repeats > 1:
            shape = (*shape[:-1], repeats * shape[-1])
        position_axes = axes_of_positions(shape, self.shape, self.feature_axis, self.seq_axis, name)
        return self._replace(position_axes=position_axes, repeats=repeats)


def input_axes(
    x: Array,
    backend: Backend,
    layer: Any,
    size_name: str,
    name: str = "x",
    *,
    complex_pairs: bool = False,
) -> InputAxes:
    """Check the dtype and the features of an input of a layer, and return its axes.

    `size_name` is the field of the layer with the number of features. With `complex_pairs`, a
    complex number is a pair of features.
    """
    check = checks.floating if complex_pairs else checks.real_floating
    check(backend.xp, **{name: x})
    layer_axes = layer.feature_axis, layer.seq_axis
    feature, seq = feature_and_seq_axis(*layer_axes, x, name, "Make the layer with")
    shape, size = tuple(x.shape), getattr(layer, size_name)
    if dtypes.is_complex(x.dtype):
        size, size_name = size // 2, f"{size_name} / 2"  # the layer has checked that it is even
    if shape[feature] != size:
        requirement = f"have {plural(size, 'feature')} (`{size_name}`) on axis {feature}"
        hint = hint_for_last_axis(feature, shape[-1] == size, "Make the layer with")
        if len(shape) == 3 and (feature, seq) == (0, 1) and shape[1] == size:
            hint = " Make the layer with feature_axis=1, seq_axis=0 if the sequence is first."
        raise wrong_value(name, requirement, f"shape {shape}", hint)
    strides = backend.strides(x)
    is_inner = feature > seq if strides is None else abs(strides[feature]) < abs(strides[seq])
    order: Order = "F" if is_inner else "C"
    return InputAxes(shape, feature, seq, order, name, backend.chunks(x)[seq], (seq,))


def align_axes(
    name: str, array: Array, axes: Sequence[int], target: Shape, meaning: str, hint: str = ""
) -> Array:
    """Add axes of length 1 to an array, so that it broadcasts to `target`.

    The array has `axes` of `target`, or all axes: any other number would be ambiguous. If `axes`
    are the first or the last axes of `target`, the array may have some of its axes of length 1.
    """
    shape, extra = tuple(array.shape), array.ndim - len(axes)
    if array.ndim != len(target) and extra > 0:
        if list(axes) == list(range(len(axes))) and set(shape[len(axes) :]) <= {1}:
            array = array[(..., *(0,) * extra)]
        elif list(axes) == list(range(len(target)))[-len(axes) :] and set(shape[:extra]) <= {1}:
            array = array[(*(0,) * extra, ...)]
    if array.ndim == len(axes):
        array = array[tuple(slice(None) if a in axes else None for a in range(len(target)))]
    checks.broadcasts(name, tuple(array.shape), target, meaning, shape, hint)
    if any(n != n and m not in (1, n) and m == m for n, m in zip(target, array.shape, strict=True)):  # noqa: PLR0124
        hint = " Call compute_chunk_sizes() of the arrays first."
        requirement = f"have length 1 on axes of unknown lengths, as those of {target}"
        raise wrong_value(name, requirement, f"shape {shape}", hint)
    return array
