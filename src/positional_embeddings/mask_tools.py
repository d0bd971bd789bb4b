"""Combining, converting and looking at attention masks."""

import operator
from functools import reduce
from typing import Any

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Dtype,
    Namespace,
    default_float,
    device_of,
    dtype_name,
    float_dtype,
    is_dtype,
    namespace_of,
    select,
)


def combine_masks(*masks: Array | None) -> Any:
    """Return the mask that hides what any of the given masks hides.

    Masks with the same number of axes are lined up axis by axis. A mask of two axes is
    (query, key), as an attention reads it, and gets a third axis if others are
    (query, key, batch). (``|`` of arrays lines up their last axes: use it for masks with
    the same number of axes.)

    Parameters
    ----------
    *masks : array of bool or None
        Masks of shape (query, key) or (query, key, batch), with 1 where they broadcast,
        or all of another number of axes; None is skipped. The attention mask of a
        tokenizer, (batch, key) with 0 at padding, is ``(attention_mask == 0).T[None]``.

    Returns
    -------
    array of bool, or None
        Their union, of the broadcast shape; None if every mask is None.

    Raises
    ------
    TypeError
        If a mask is not a boolean array, or they come from different libraries.
    ValueError
        If their shapes do not broadcast, or their numbers of axes differ and are not two
        and three.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask, create_padding_mask
    >>> both = combine_masks(create_causal_mask(5), create_padding_mask([3, 4], 5), None)
    >>> both.shape
    (5, 5, 2)

    One's own mask (query, key) hides the same for the whole batch:

    >>> import numpy as np
    >>> own = np.zeros((5, 5), dtype=bool)
    >>> combine_masks(both, own).shape
    (5, 5, 2)
    """
    if len(masks) == 1 and isinstance(masks[0], list | tuple):
        message = "`masks` must be given one by one, as combine_masks(*masks), got one list."
        raise TypeError(message)
    given = {f"masks[{i}]": mask for i, mask in enumerate(masks) if mask is not None}
    if not given:
        return None
    xp = namespace_of(**given)
    for name, mask in given.items():
        check_mask(name, mask, xp)
    shapes = {name: tuple(mask.shape) for name, mask in given.items()}
    axes = {len(shape) for shape in shapes.values()}
    if axes == {2, 3}:
        given = {name: m if m.ndim == 3 else m[:, :, None] for name, m in given.items()}
    elif len(axes) > 1:
        raise _different_axes(shapes)
    if not _checks.shapes_broadcast([tuple(mask.shape) for mask in given.values()]):
        message = (
            f"`masks` must have shapes that broadcast, got {', '.join(map(str, shapes.values()))}."
        )
        raise ValueError(message + _other_readings(shapes))
    return reduce(operator.or_, given.values())


def _different_axes(shapes: dict[str, tuple[Any, ...]]) -> ValueError:
    """Return the error about masks whose axes may be lined up in more than one way."""
    most = max(map(len, shapes.values()))
    name, shape = min(shapes.items(), key=lambda item: len(item[1]))
    message = (
        "`masks` must have as many axes each, or 2 (query, key) and 3 (query, key, batch), "
        f"got {', '.join(map(str, shapes.values()))}."
    )
    if len(shape) < 2:
        return ValueError(message)
    new = ["None"] * (most - len(shape))
    first = ", ".join([":", ":", *new])
    last = ", ".join([*[":"] * (len(shape) - 2), *new])
    return ValueError(
        f"{message} Insert axes of length 1: {name}[{first}] if queries and keys come first, "
        f"{name}[{last}] if they come last."
    )


def _other_readings(shapes: dict[str, tuple[Any, ...]]) -> str:
    """Return what masks of two axes must be turned into if their axes are others."""
    hints = []
    for name, shape in shapes.items():
        rest = [(*other, 1)[:3] for key, other in shapes.items() if key != name]
        if len(shape) != 2 or not _checks.shapes_broadcast(rest):
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
            if read[1] in keys and _checks.shapes_broadcast([read, *rest])
        ]
    return "".join(hints)


def mask_to_bias(mask: ArrayT, /, dtype: Dtype | None = None) -> ArrayT:
    """Return the bias that a mask is: minus infinity where it hides, 0 elsewhere.

    For attentions that add a mask to the scores. Many of them give NaN for a query
    that is masked everywhere: see `fully_masked_rows`.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key.
    dtype : dtype, optional
        Real floating-point dtype of the result, the library's default where it is
        None.

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
    check_mask("mask", mask, xp)
    on = device_of(mask)
    dtype = float_dtype(dtype, default_float(xp, on), xp, on)
    hidden = xp.asarray(-float("inf"), dtype=dtype, device=on)
    free = xp.asarray(0.0, dtype=dtype, device=on)
    bias: ArrayT = select(mask, hidden, free, xp)
    return bias


def fully_masked_rows(mask: ArrayT, /, *, key_axis: int = 1) -> ArrayT:
    """Tell which queries may attend to nothing.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key, over all keys: a mask of
        length 1 on its key axis is taken as one key.
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
    check_mask("mask", mask, xp)
    axis = _axes.axis_of("key_axis", key_axis, mask.ndim, "mask")
    rows: ArrayT = xp.all(mask, axis=axis)
    return rows


def describe_mask(
    mask: Array, /, *, batch: int = 0, key_axis: int | None = None, most: int = 32
) -> str:
    """Return a picture of a mask to print: one character for each query and key.

    Parameters
    ----------
    mask : array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key. With `key_axis` -1, shape
        (query, key) or (batch, ..., query, key); with `key_axis` 1, (query, key) or
        (query, key, batch, ...).
    batch : int, default 0
        Which sequence to draw; a mask of length 1 there is the same for all.
    key_axis : int, optional
        Axis of the keys, next to that of the queries: 1 or -1. If None, it is 1, and
        `mask` has two or three axes.
    most : int, default 32
        Most queries and keys that are drawn, 4 or more; the middle of a longer
        mask is left out.

    Returns
    -------
    str
        A line for each query with its number, ``#`` where it attends and ``.`` where
        it may not; above them the numbers of the keys.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `mask` has too few axes, or four or more without `key_axis`, or `batch` is out
        of range.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> print(describe_mask(create_causal_mask(5)))
          key
          01234
    query
        0 #....
        1 ##...
        2 ###..
        3 ####.
        4 #####
    # attends   . masked   (5 queries, 5 keys)
    """
    xp = namespace_of(mask=mask)
    check_mask("mask", mask, xp)
    most = max(_checks.positive_integer("most", most), 4)
    picture = one_mask(mask, _checks.non_negative_integer("batch", batch), key_axis)
    queries, keys = picture.shape
    rows, columns = _drawn(queries, most), _drawn(keys, most)
    lines = ["      key", *_key_numbers(columns), "query"]
    for i in rows:
        if i is None:
            lines.append("    : ")
            continue
        cells = (":" if j is None else "." if bool(picture[i, j]) else "#" for j in columns)
        lines.append(f"{i:5d} {''.join(cells)}")
    lines.append(f"# attends   . masked   ({queries} queries, {keys} keys)")
    return "\n".join(line.rstrip() for line in lines)


def one_mask(mask: Any, batch: int, key_axis: int | None) -> Any:
    """Return the (query, key) mask of one sequence."""
    if mask.ndim < 2:
        message = f"`mask` must have axes of queries and keys, got shape {tuple(mask.shape)}."
        raise ValueError(message)
    if key_axis is None:
        if mask.ndim > 3:
            message = (
                f"`key_axis` must be given for a mask of {mask.ndim} axes, 1 for (query, key, "
                f"...), -1 for (..., query, key), got shape {tuple(mask.shape)}."
            )
            raise ValueError(message)
        key_axis = 1
    _checks.choice("key_axis", key_axis, (1, -1))
    size, *others = (mask.shape[2:] if key_axis == 1 else mask.shape[:-2]) or (1,)
    if set(others) - {1}:
        message = (
            "`mask` must have length 1 on axes other than those of batch, queries and keys, got "
            f"shape {tuple(mask.shape)}: pass one of the masks, such as that of one head."
        )
        raise ValueError(message)
    if size != 1 and batch >= size:
        message = f"`batch` must be below {size}, the batch of `mask`, got {batch}."
        raise ValueError(message)
    rest = (0,) * len(others)
    chosen = (0 if size == 1 else batch, *rest) if mask.ndim > 2 else ()
    return mask[(..., *chosen)] if key_axis == 1 else mask[(*chosen, ...)]


def _drawn(size: int, most: int) -> list[int | None]:
    """Return the indices to draw, None for those left out in the middle."""
    if size <= most:
        return list(range(size))
    half = (most - 1) // 2
    return [*range(half), None, *range(size - half, size)]


def _key_numbers(columns: list[int | None]) -> list[str]:
    """Return the numbers of the keys, written downwards, one line for each digit."""
    width = max((len(str(j)) for j in columns if j is not None), default=0)
    texts = [":" * width if j is None else str(j).rjust(width) for j in columns]
    return ["      " + "".join(text[line] for text in texts) for line in range(width)]


def check_mask(name: str, mask: Any, xp: Namespace) -> None:
    """Check that a mask is boolean, and tell of the polarity where it is not."""
    if not is_dtype(mask.dtype, "bool", xp):
        # A tokenizer's attention mask is 1 at tokens.
        hint = f" Pass {name} == 0 if 1 marks what may be attended to."
        message = (
            f"`{name}` must have a boolean dtype, True where a query may not attend, "
            f"got {dtype_name(mask.dtype)}.{hint if is_dtype(mask.dtype, 'integral', xp) else ''}"
        )
        raise TypeError(message)
