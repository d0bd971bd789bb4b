"""Combine masks, convert them to biases, and find fully masked queries."""

import operator
from functools import reduce
from typing import Any

from positional_embeddings._core import axes, checks
from positional_embeddings._core.errors import wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Dtype,
    default_float,
    device_of,
    float_dtype,
    namespace_of,
    select,
)


def combine_masks(*masks: Array | None) -> Any:
    """Return the mask that hides what any of the given masks hides.

    Masks with the same number of axes broadcast axis by axis. A mask of two axes is (query, key),
    as in attention, and gets a third axis if others are (query, key, batch). (``|`` would align
    their last axes instead: use it for masks with the same number of axes.)

    Parameters
    ----------
    *masks : array of bool or None
        Masks of shape (query, key) or (query, key, batch), with 1 where they broadcast, or
        all with another number of axes; None is skipped. The attention mask of a
        tokenizer, (batch, key) with 0 at padding, is ``(attention_mask == 0).T[None]``.

    Returns
    -------
    array of bool, or None
        Their union, of the broadcast shape; None if every mask is None.

    Raises
    ------
    TypeError
        If a mask is not a boolean array, or their libraries differ.
    ValueError
        If their shapes do not broadcast, or their numbers of axes differ and are not two and three.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask, create_padding_mask
    >>> both = combine_masks(create_causal_mask(5), create_padding_mask([3, 4], 5), None)
    >>> both.shape
    (5, 5, 2)

    A mask of your own, (query, key), applies to the whole batch:

    >>> import numpy as np
    >>> own = np.zeros((5, 5), dtype=bool)
    >>> combine_masks(both, own).shape
    (5, 5, 2)
    """
    if len(masks) == 1 and isinstance(masks[0], list | tuple):
        raise wrong_type("masks", "be given one by one, as combine_masks(*masks)", "one list")
    given = {f"masks[{i}]": mask for i, mask in enumerate(masks) if mask is not None}
    if not given:
        return None
    xp = namespace_of(**given)
    for name, mask in given.items():
        checks.mask(name, mask, xp)
    shapes = {name: tuple(mask.shape) for name, mask in given.items()}
    ranks = {len(shape) for shape in shapes.values()}
    if ranks == {2, 3}:
        given = {name: m if m.ndim == 3 else m[:, :, None] for name, m in given.items()}
    elif len(ranks) > 1:
        raise _different_axes(shapes)
    if not checks.shapes_broadcast([tuple(mask.shape) for mask in given.values()]):
        came = ", ".join(map(str, shapes.values()))
        raise wrong_value("masks", "have shapes that broadcast", came, _other_readings(shapes))
    return reduce(operator.or_, given.values())


def _different_axes(shapes: dict[str, tuple[Any, ...]]) -> ValueError:
    """Return the error about masks whose axes could be aligned in more than one way."""
    most = max(map(len, shapes.values()))
    name, shape = min(shapes.items(), key=lambda item: len(item[1]))
    hint = ""
    if len(shape) >= 2:
        new = ["None"] * (most - len(shape))
        first = ", ".join([":", ":", *new])
        last = ", ".join([*[":"] * (len(shape) - 2), *new])
        hint = (
            f" Insert axes of length 1: {name}[{first}] if queries and keys come first, "
            f"{name}[{last}] if they come last."
        )
    requirement = "have as many axes each, or 2 (query, key) and 3 (query, key, batch)"
    return wrong_value("masks", requirement, ", ".join(map(str, shapes.values())), hint)


def _other_readings(shapes: dict[str, tuple[Any, ...]]) -> str:
    """Return how to pass masks of two axes whose axes may not be (query, key)."""
    hints = []
    for name, shape in shapes.items():
        rest = [(*other, 1)[:3] for key, other in shapes.items() if key != name]
        if len(shape) != 2 or not checks.shapes_broadcast(rest):
            continue
        keys = {other[1] for other in rest} - {1}
        first, second = shape
        readings = {
            f"(key, query), pass {name}.T": (second, first, 1),
            f"(key, batch), pass {name}[None]": (1, first, second),
            f"(batch, key), pass {name}.T[None] (of a tokenizer's attention mask "
            "(attention_mask == 0).T[None])": (1, second, first),
        }
        hints += [
            f" If {name} is {reading}."
            for reading, read in readings.items()
            if read[1] in keys and checks.shapes_broadcast([read, *rest])
        ]
    return "".join(hints)


def mask_to_bias(mask: ArrayT, /, dtype: Dtype | None = None) -> ArrayT:
    """Return a mask as a bias: minus infinity where True, 0 elsewhere.

    For implementations of attention that add a mask to the scores. Many of them give NaN
    for a query that may attend to no key: see `fully_masked_rows`.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key.
    dtype : dtype, optional
        Real floating-point dtype of the result, the library's default if None.

    Returns
    -------
    array
        Shape of `mask`.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array, or `dtype` is not real floating-point.
    ValueError
        If the device does not have `dtype`.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> mask_to_bias(create_causal_mask(2))[:, :, 0]
    array([[  0., -inf],
           [  0.,   0.]])
    """
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    on = device_of(mask)
    dtype = float_dtype(dtype, default_float(xp, on), xp, on)
    minus_infinity = xp.asarray(-float("inf"), dtype=dtype, device=on)
    bias: ArrayT = select(mask, minus_infinity, 0.0, xp)
    return bias


def fully_masked_rows(mask: ArrayT, /, *, key_axis: int = 1) -> ArrayT:
    """Return which queries may attend to no key.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key, with all keys on the key axis: length 1
        there means one key.
    key_axis : int, default 1
        Axis of the keys; -1 for masks of shape (..., query, key).

    Returns
    -------
    array of bool
        Shape of `mask` without its key axis.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `key_axis` is out of range.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> fully_masked_rows(create_causal_mask(3, mask_diagonal=True))[:, 0]
    array([ True, False, False])
    """
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    axis = axes.axis_of("key_axis", key_axis, mask.ndim, "mask")
    rows: ArrayT = xp.all(mask, axis=axis)
    return rows
