"""Where features, sequence and batch lie in an array.

Axes are given by number and never guessed from a length.
"""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from positional_embeddings._checks import fits, integer, real
from positional_embeddings._namespace import Namespace


def axis_of(name: str, axis: SupportsIndex, ndim: int, array: str = "x") -> int:
    """Return an axis counted from 0, of an array with `ndim` of them."""
    number = integer(name, axis)
    if not -ndim <= number < ndim:
        message = (
            f"`{name}` must be an axis of the {ndim}-dimensional `{array}` "
            f"({-ndim} to {ndim - 1}), got {number}."
            if ndim
            else f"`{array}` must have at least one axis, got a 0-dimensional array."
        )
        raise ValueError(message)
    return number % ndim


def feature_and_seq_axis(
    feature_axis: int, seq_axis: int, array: Any, name: str = "x"
) -> tuple[int, int]:
    """Return both axes counted from 0."""
    if array.ndim < 2:
        message = (
            f"`{name}` must have at least 2 axes, one of features and one of the sequence, "
            f"got shape {tuple(array.shape)}."
        )
        raise ValueError(message)
    feature = axis_of("feature_axis", feature_axis, array.ndim, name)
    seq = axis_of("seq_axis", seq_axis, array.ndim, name)
    if feature == seq:
        message = (
            f"`feature_axis` and `seq_axis` must be two axes, got {feature_axis} and {seq_axis} "
            f"for the {array.ndim}-dimensional `{name}`."
        )
        raise ValueError(message)
    return feature, seq


def distinct_axes(feature_axis: SupportsIndex, seq_axis: SupportsIndex) -> tuple[int, int]:
    """Return both axes as ints, before there is an array to count them on."""
    feature, seq = integer("feature_axis", feature_axis), integer("seq_axis", seq_axis)
    if feature == seq:
        message = f"`feature_axis` and `seq_axis` must be two axes, got {feature} for both."
        raise ValueError(message)
    return feature, seq


def features(
    array: Any, size: int, size_name: str, feature: int, seq: int, name: str = "x"
) -> None:
    """Check the length of the feature axis, and tell of a layout that would fit."""
    shape = tuple(array.shape)
    if shape[feature] == size:
        return
    message = (
        f"`{name}` must have {size} features (`{size_name}`) on axis {feature}, got shape {shape}."
    )
    if shape[seq] == size:
        message += (
            f" {name} has its sequence on axis {feature} and its features on axis {seq}? "
            f"pass feature_axis={seq}, seq_axis={feature}."
        )
    elif shape.count(size) == 1:
        message += (
            f" {name} has its features on axis {shape.index(size)}? "
            f"pass feature_axis={shape.index(size)} and its seq_axis."
        )
    raise ValueError(message)


def length(array: Any, axis: int) -> int:
    """Return the length of an axis, which a lazy library may not know."""
    size = array.shape[axis]
    if not isinstance(size, int):
        message = f"`x` must have a known length on axis {axis}, got shape {tuple(array.shape)}."
        raise ValueError(message)  # noqa: TRY004 - the array is of the right kind
    return size


def position_axes(positions: Any, x: Any, feature: int, seq: int, xp: Namespace) -> list[int]:
    """Check positions against the array that they place, and return their axes in it."""
    real("positions", positions, xp)
    shape = tuple(positions.shape)
    axes = [seq] if len(shape) == 1 else [axis for axis in range(x.ndim) if axis != feature]
    lengths = [x.shape[axis] for axis in axes]
    too_few = shape == (1,) and lengths != [1]
    if too_few or len(shape) != len(axes) or not all(map(fits, shape, lengths)):
        rest = tuple(n for axis, n in enumerate(x.shape) if axis != feature)
        message = (
            f"`positions` must have shape ({x.shape[seq]},)"
            f"{f' or {rest}, with 1 where it broadcasts' if len(rest) > 1 else ''}, got {shape}."
        )
        raise ValueError(message)
    return axes


def placed(table: Any, axes: Sequence[int], ndim: int, xp: Namespace) -> Any:
    """Move axis i of a table to `axes[i]` of `ndim` axes, with length 1 on all others."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != sorted(order):
        table = xp.permute_dims(table, tuple(order))
    return table[tuple(slice(None) if axis in axes else None for axis in range(ndim))]
