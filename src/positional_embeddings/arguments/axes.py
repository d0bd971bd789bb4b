"""Where features, sequence and batch are in an array, and what tables need to know of it.

Axes are given by number and never guessed from a length.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import format_value, plural, wrong_value
from positional_embeddings.arrays.namespace import Array, Namespace, Shape

_USUAL_AXES = {
    "(batch, heads, seq, head)": {"feature_axis": -1, "seq_axis": -2},
    "(head, seq, heads, batch)": {"feature_axis": 0, "seq_axis": 1},
}


def axis_of(name: str, axis: SupportsIndex, ndim: int, array: str = "x") -> int:
    """Return an axis counted from 0, of an array with `ndim` of them."""
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
    """Return both axes counted from 0; 0 and 1 where they are None and the array has few axes."""
    if array.ndim < 2:
        requirement = "have at least 2 axes, one of features and one of the sequence"
        raise wrong_value(name, requirement, f"shape {tuple(array.shape)}")
    if feature_axis is None or seq_axis is None:
        options = {"feature_axis": feature_axis, "seq_axis": seq_axis}
        feature_axis, seq_axis = given_or_first(options, array, name, verb)
    feature = axis_of("feature_axis", feature_axis, array.ndim, name)
    seq = axis_of("seq_axis", seq_axis, array.ndim, name)
    if feature == seq:
        requirement = (
            f"be another axis of the {array.ndim}-dimensional `{name}` than `feature_axis`"
        )
        raise wrong_value("seq_axis", f"{requirement} = {feature_axis}", format_value(seq_axis))
    return feature, seq


def given_or_first(
    options: dict[str, int | None], array: Array, name: str = "x", verb: str = "Pass"
) -> list[int]:
    """Return `feature_axis`, and perhaps `seq_axis`: 0 and 1 where they are None.

    For more than three axes that would often be wrong, and an error shows the usual ones.
    """
    if array.ndim > 3 and None in options.values():
        usual = [
            f"{', '.join(f'{axis}={number[axis]}' for axis in options)} for {order}"
            for order, number in _USUAL_AXES.items()
        ]
        requirement, actual = (
            f"be given for `{name}` of {array.ndim} axes",
            f"shape {tuple(array.shape)}",
        )
        raise wrong_value(
            "` and `".join(options), requirement, actual, f" {verb} {', or '.join(usual)}."
        )
    return or_first(*options.values())


def hint_of_last(feature: int, fits: bool, verb: str = "Pass") -> str:  # noqa: FBT001
    """Return the way on where features are on the first axis, and would fit on the last one."""
    return f" {verb} feature_axis=-1, seq_axis=-2 if features are last." * (feature == 0 and fits)


def or_first(*axes: int | None) -> list[int]:
    """Return axes, the first ones of an array where they are None."""
    return [first if axis is None else axis for first, axis in enumerate(axes)]


def four_axes(layer: Any) -> tuple[int, int]:
    """Return the axes of features and sequence of a layer in arrays of four axes."""
    feature, seq = or_first(layer.feature_axis, layer.seq_axis)
    return feature % 4, seq % 4


def is_last(layer: Any) -> bool:
    """Tell whether the features of a layer come after its positions, in arrays of four axes."""
    feature, seq = four_axes(layer)
    return feature > seq


def set_axes(layer: Any) -> None:
    """Set both axes of a layer, by default None, as ints that differ, before there is an array."""
    axes = {"feature_axis": layer.feature_axis, "seq_axis": layer.seq_axis}
    for name, axis in axes.items():
        if axis is not getattr(type(layer), name):  # the default
            axes[name] = checks.integer(name, axis)
    feature, seq = or_first(*axes.values())
    if feature == seq:
        raise wrong_value("seq_axis", f"be another axis than `feature_axis` = {feature}", seq)
    checks.set_fields(layer, **axes)


def length(array: Array, axis: int, name: str = "x") -> int:
    """Return the length of an axis, which a lazy library may not know."""
    size = array.shape[axis]
    if not checks.is_static(size):
        requirement = f"have a known length on axis {axis}"
        hint = "" if size is None else f" Call {name}.compute_chunk_sizes() first."  # of dask
        raise wrong_value(name, requirement, f"shape {tuple(array.shape)}", hint)
    return size  # type: ignore[no-any-return]


def batch_axis(ndim: int, feature: int, seq: int) -> int | None:
    """Return the axis of sequences, None if there is none.

    It is the last one if features and sequence come first, else the first other one.
    """
    others = [axis for axis in range(ndim) if axis not in (feature, seq)]
    return others[-1 if feature + seq == 1 else 0] if others else None


def head_axis(ndim: int, feature: int, seq: int) -> int | None:
    """Return the axis of heads, None if there is none.

    It is the first other one if features and sequence come first, else the last one.
    """
    others = [axis for axis in range(ndim) if axis not in (feature, seq)]
    return others[0 if feature + seq == 1 else -1] if others else None


def axes_of_positions(
    shape: Shape, target: Shape, feature: int, seq: int, name: str
) -> tuple[int, ...]:
    """Check the shape of positions against an array's, and return their axes in it."""
    others = tuple(axis for axis in range(len(target)) if axis != feature)
    batch = batch_axis(len(target), feature, seq)
    with_batch = (seq,) if batch is None else (min(seq, batch), max(seq, batch))
    axes = {1: (seq,), 2: with_batch}.get(len(shape), others)
    lengths = [target[axis] for axis in axes]
    too_few = shape == (1,) and lengths != [1]
    if too_few or len(shape) != len(axes) or not all(map(checks.broadcasts_to, shape, lengths)):
        names = {seq: "seq", batch: "batch"}
        choices = []
        for allowed in dict.fromkeys(((seq,), with_batch, others)):
            text = ", ".join(names.get(axis, str(target[axis])) for axis in allowed)
            sizes = tuple(target[axis] for axis in allowed)
            choices.append(f"({text}{',' * (len(allowed) == 1)}) = {sizes}")
        hint = ", with 1 where it broadcasts" if len(choices) > 1 else ""
        raise wrong_value(name, f"have shape {' or '.join(choices)}{hint}", shape)
    return axes


def repeats_of_positions(shape: tuple[Any, ...], x_axes: "InputAxes") -> int:
    """Return how often positions (seq, batch) are repeated along an axis of heads * batch."""
    if (len(shape), len(x_axes.shape), x_axes.feature + x_axes.seq) != (2, 3, 1):
        return 1
    batch, whole = shape[-1], x_axes.shape[-1]
    is_static = checks.is_static(batch) and checks.is_static(whole)
    return whole // batch if is_static and batch > 1 and whole % batch == 0 else 1


def repeat_for_heads(array: Array, heads: int, backend: Backend) -> Array:
    """Return positions (..., seq, batch), or tables of them, for an axis of heads * batch."""
    if heads == 1:
        return array
    *others, batch = array.shape
    repeated = backend.xp.broadcast_to(array[..., None, :], (*others, heads, batch))
    return backend.reshape(repeated, (*others, heads * batch))


def expand_to_axes(table: Array, axes: Sequence[int], ndim: int, xp: Namespace) -> Array:
    """Move axis i of a table to `axes[i]` of `ndim` axes, with length 1 on all others."""
    order, index = placement(tuple(axes), ndim)
    if order == (1, 0):
        table = table.T
    elif order is not None:
        table = xp.permute_dims(table, order)
    return table[index]


@lru_cache(maxsize=256)
def placement(
    axes: tuple[int, ...], ndim: int
) -> tuple[tuple[int, ...] | None, tuple[slice | None, ...]]:
    """Return the order of a table's axes, None if they are in order, and the index after it."""
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    index = tuple(slice(None) if axis in axes else None for axis in range(ndim))
    return None if order == tuple(sorted(order)) else order, index


Order: TypeAlias = Literal["C", "F"]


class InputAxes(NamedTuple):
    """Shape and axes of the array that tables are applied to, and where its positions are."""

    shape: Shape
    feature: int
    seq: int
    # Of tables (frequency, *position) in memory: "F" if features have a smaller stride than seq.
    order: Order
    name: str
    seq_chunks: Shape  # lengths of the chunks of the sequence
    positions: tuple[int, ...]  # the axes that positions have
    repeats: int = 1  # of positions (seq, batch) on an axis of heads * batch

    def with_positions(self, shape: Shape, name: str, repeats: int = 1) -> "InputAxes":
        """Return these axes with the axes of positions of a shape, after checking it."""
        if repeats > 1:
            shape = (*shape[:-1], repeats * shape[-1])
        own = axes_of_positions(shape, self.shape, self.feature, self.seq, name)
        return self._replace(positions=own, repeats=repeats)


def input_axes(
    x: Array,
    backend: Backend,
    layer: Any,
    size_name: str,
    name: str = "x",
    *,
    complex_pairs: bool = False,
) -> InputAxes:
    """Check an array with the features of a layer on its axes, and return where these are.

    `size_name` is the field of the layer with the number of features. With `complex_pairs` a
    complex number is two of them.
    """
    check = checks.floating if complex_pairs else checks.real_floating
    check(backend.xp, **{name: x})
    own = layer.feature_axis, layer.seq_axis
    feature, seq = feature_and_seq_axis(*own, x, name, "Make the layer with")
    shape, size = tuple(x.shape), getattr(layer, size_name)
    if dtypes.is_complex(x.dtype):
        size, size_name = size // 2, f"{size_name} / 2"  # which has been checked to be even
    if shape[feature] != size:
        requirement = f"have {plural(size, 'feature')} (`{size_name}`) on axis {feature}"
        hint = hint_of_last(feature, shape[-1] == size, "Make the layer with")
        raise wrong_value(name, requirement, f"shape {shape}", hint)
    strides = backend.strides(x)
    is_inner = feature > seq if strides is None else abs(strides[feature]) < abs(strides[seq])
    order: Order = "F" if is_inner else "C"
    return InputAxes(shape, feature, seq, order, name, backend.chunks(x)[seq], (seq,))


def align_axes(
    name: str, array: Array, axes: Sequence[int], target: Shape, meaning: str, hint: str = ""
) -> Array:
    """Give an array the axes of `target` that it lacks, with length 1.

    It has these `axes`, as they are counted in `target`, or all axes of `target`: one further axis
    alone would leave open which one it is. Next to axes that are the first or the last ones there
    may be axes of length 1.
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
    return array
