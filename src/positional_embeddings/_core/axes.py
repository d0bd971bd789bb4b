"""Where features, sequence and batch lie in an array.

Axes are given by number and never guessed from a length.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, SupportsIndex

from positional_embeddings._core.checks import broadcasts, fits, integer, is_known, real
from positional_embeddings._core.errors import shown, wrong_value
from positional_embeddings._core.namespace import Namespace


def axis_of(name: str, axis: SupportsIndex, ndim: int, array: str = "x") -> int:
    """Return an axis counted from 0, of an array with `ndim` of them."""
    number = integer(name, axis)
    if not -ndim <= number < ndim:
        message = (
            f"`{name}` must be an axis of the {ndim}-dimensional `{array}` "
            f"({-ndim} to {ndim - 1}), got {shown(number)}."
            if ndim
            else f"`{array}` must have at least one axis, got a 0-dimensional array."
        )
        raise ValueError(message)
    return number % ndim


def feature_and_seq_axis(
    feature_axis: int, seq_axis: int, array: Any, name: str = "x"
) -> tuple[int, int]:
    """Return both axes counted from 0."""
    try:
        axes = _counted_from_0(feature_axis, seq_axis, array.ndim)
    except (TypeError, ValueError):  # a list and a 0-d array have no hash
        axes = None
    if axes is not None:
        return axes
    if array.ndim < 2:
        raise wrong_value(
            name,
            "have at least 2 axes, one of features and one of the sequence",
            f"shape {tuple(array.shape)}",
        )
    feature = axis_of("feature_axis", feature_axis, array.ndim, name)
    seq = axis_of("seq_axis", seq_axis, array.ndim, name)
    if feature != seq:
        return feature, seq
    message = (
        f"`feature_axis` and `seq_axis` must be two axes, got {feature_axis} and {seq_axis} "
        f"for the {array.ndim}-dimensional `{name}`."
    )
    raise ValueError(message)


@lru_cache(maxsize=256, typed=True)
def _counted_from_0(feature_axis: int, seq_axis: int, ndim: int) -> tuple[int, int] | None:
    """Return both axes, or None where they are not two axes."""
    try:
        feature = axis_of("feature_axis", feature_axis, ndim)
        seq = axis_of("seq_axis", seq_axis, ndim)
    except (TypeError, ValueError):
        return None
    return None if feature == seq else (feature, seq)


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


def length(array: Any, axis: int, name: str = "x") -> int:
    """Return the length of an axis, which a lazy library may not know."""
    size = array.shape[axis]
    if not is_known(size):
        raise wrong_value(
            name, f"have a known length on axis {axis}", f"shape {tuple(array.shape)}"
        )
    known_size: int = size
    return known_size


def position_axes(
    positions: Any, x: Any, feature: int, seq: int, xp: Namespace, name: str = "positions"
) -> tuple[int, ...]:
    """Check positions against the array that they place, and return their axes in it."""
    real(name, positions, xp)
    shape = tuple(positions.shape)
    others = tuple(axis for axis in range(len(x.shape)) if axis != feature)
    axes = (seq,) if len(shape) == 1 else others
    lengths = [x.shape[axis] for axis in axes]
    too_few = shape == (1,) and lengths != [1]
    if too_few or len(shape) != len(axes) or not all(map(fits, shape, lengths)):
        rest = tuple(n for axis, n in enumerate(x.shape) if axis != feature)
        or_rest = f" or {rest}, with 1 where it broadcasts" if len(rest) > 1 else ""
        raise wrong_value(name, f"have shape ({x.shape[seq]},){or_rest}", shape)
    return axes


def expand_to_axes(table: Any, axes: Sequence[int], ndim: int, xp: Namespace) -> Any:
    """Move axis i of a table to `axes[i]` of `ndim` axes, with length 1 on all others."""
    order, index = placement(tuple(axes), ndim)
    if order is not None:
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


def align_axes(
    name: str, array: Any, own: Sequence[int], target: tuple[Any, ...], meaning: str
) -> Any:
    """Give an array the axes that it lacks beside `target`, with length 1.

    It has its `own` axes, as they are counted in `target`, or all of the axes of `target`:
    one further axis alone would leave open which one it is. Beside own axes that are the
    first or the last ones there may be axes of length 1.
    """
    shape = tuple(array.shape)
    filled = array
    if len(shape) == len(own):
        filled = array[tuple(slice(None) if a in own else None for a in range(len(target)))]
    elif len(shape) != len(target):
        others = (None,) * (len(target) - len(own))
        if list(own) == list(range(len(own))) and set(shape[len(own) :]) <= {1}:
            filled = array[(..., *(0,) * (len(shape) - len(own)))][(..., *others)]
        elif list(own) == list(range(len(target)))[-len(own) :] and set(shape[: -len(own)]) <= {1}:
            filled = array[(*(0,) * (len(shape) - len(own)), ...)][(*others, ...)]
    broadcasts(name, tuple(filled.shape), target, meaning, shape)
    return filled


def other_order(
    name: str, shape: tuple[Any, ...], own: Sequence[int], target: tuple[Any, ...]
) -> str:
    """Return the sentence that tells of the only other order of axes in which a shape would fit.

    `own` are the axes of queries and keys in `target`. A mask or a bias of two axes has
    these alone; one of three may be (query, key, batch), for keys on the last axis.
    """
    first, last = own
    if len(shape) == 2:
        swapped = all(map(fits, shape[::-1], (target[first], target[last])))
        hint = f"keys on axis 0 and its queries on axis 1? pass {name}.T."
        return f" {name} has its {hint}" if swapped else ""
    if len(shape) == 3 < len(target) == last + 1:
        moved = (shape[2], *(1,) * (len(target) - 3), *shape[:2])
        new = ", None" * (len(target) - 3)
        hint = f"(query, key, batch)? pass permute_dims({name}, (2, 0, 1))[:{new}]."
        return f" {name} is {hint}" if all(map(fits, moved, target)) else ""
    if len(shape) != len(target):
        return ""
    orders = [
        order
        for order in permutations(range(len(shape)))
        if all(fits(shape[axis], n) for axis, n in zip(order, target, strict=True))
    ]
    # Axes of length 1 may stand in for one another; queries come before keys.
    rising = [order for order in orders if order[first] < order[last]]
    for some in (orders, rising):
        places = {tuple(axis if shape[axis] != 1 else None for axis in order) for order in some}
        if len(places) == 1:
            order = some[0]
            return (
                f" {name} has its queries on axis {order[first]} and its keys on axis "
                f"{order[last]}? pass permute_dims({name}, {order})."
            )
    return ""
