"""Attention masks: boolean, True where a query may not attend to a key.

A mask has shape (query, key, batch), with 1 where it broadcasts, so that masks
combine with ``|``.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal

from positional_embeddings import _axes, _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    Namespace,
    default_float,
    default_integer,
    device_of,
    dtype_name,
    float_dtype,
    known,
    namespace_of,
    namespace_or_numpy,
)

Side = Literal["right", "left"]


def create_causal_mask(
    seq_len: int,
    *,
    key_len: int | None = None,
    offset: int | None = None,
    mask_diagonal: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to its own position and earlier ones.

    Query i stands at position i + `offset`, key j at position j.

    Parameters
    ----------
    seq_len : int
        Number of queries, positive.
    key_len : int, optional
        Number of keys, positive; as many as queries where it is None.
    offset : int, optional
        Position of the first query among the keys. Where it is None,
        ``key_len - seq_len``: the last query sees the last key, as with cached
        keys. With fewer keys than queries the first queries then see nothing.
    mask_diagonal : bool, default False
        Mask each query's own position too. The query at position 0 then attends to
        nothing.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    device : device, optional
        Device of the result.

    Returns
    -------
    array of bool, shape (seq_len, key_len, 1)
        True where key j lies behind query i, and may not be attended to.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a length is not positive.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.2.3.

    Examples
    --------
    >>> create_causal_mask(3)[:, :, 0].astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])

    Two new queries behind three cached keys:

    >>> create_causal_mask(2, key_len=5)[:, :, 0].astype(int)
    array([[0, 0, 0, 0, 1],
           [0, 0, 0, 0, 0]])
    """
    seq_len = _checks.positive_integer("seq_len", seq_len)
    key_len = seq_len if key_len is None else _checks.positive_integer("key_len", key_len)
    offset = key_len - seq_len if offset is None else _checks.integer("offset", offset)
    mask_diagonal = _checks.boolean("mask_diagonal", mask_diagonal)
    xp = namespace_or_numpy(xp)
    dtype = default_integer(xp, device)
    query = xp.arange(offset, offset + seq_len, dtype=dtype, device=device)[:, None, None]
    key = xp.arange(key_len, dtype=dtype, device=device)[None, :, None]
    return key >= query if mask_diagonal else key > query


def create_padding_mask(
    lengths: Sequence[int] | Array,
    /,
    max_len: int,
    *,
    side: Side = "right",
    batch_first: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that hides the padding of sequences of different lengths.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (batch,)
        Number of real elements of each sequence, 0 to `max_len`, of any integer
        dtype.
    max_len : int
        Length that the sequences are padded to, positive.
    side : {"right", "left"}, default "right"
        Side that the padding is on.
    batch_first : bool, default False
        Return shape (batch, max_len, 1) instead.
    xp : namespace, optional
        Array library of the result where `lengths` is a list or a tuple, NumPy
        where it is None. An array has a library of its own.
    device : device, optional
        Device of the result where `lengths` is a list or a tuple.

    Returns
    -------
    array of bool, shape (1, max_len, batch)
        True where a key is padding, and may not be attended to. Combines with a
        causal mask by ``|``.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or another argument is of the wrong kind.
    ValueError
        If `lengths` is not one-dimensional, or one of them is negative or above
        `max_len`. Lengths whose values cannot be read, in a dask array or while
        JAX traces, are not checked.

    Examples
    --------
    >>> create_padding_mask([2, 3], 4)[0].astype(int)
    array([[0, 0],
           [0, 0],
           [1, 0],
           [1, 1]])
    >>> create_padding_mask([2, 3], 4, side="left", batch_first=True)[:, :, 0].astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 0, 0]])
    """
    max_len = _checks.positive_integer("max_len", max_len)
    _checks.choice("side", side, ("right", "left"))
    batch_first = _checks.boolean("batch_first", batch_first)
    xp, real = _length_array(lengths, xp, device)
    _check_lengths(real, max_len, xp)
    on = device_of(real)
    dtype = default_integer(xp, on)
    real = xp.astype(real, dtype, copy=False)
    key = xp.arange(max_len, dtype=dtype, device=on)[None, :, None]
    real = real[:, None, None] if batch_first else real[None, None, :]
    return key >= real if side == "right" else key < max_len - real


def _length_array(
    lengths: Any, xp: Namespace | None, device: Device | None
) -> tuple[Namespace, Any]:
    """Return the namespace of the lengths, and the lengths as one of its arrays."""
    if isinstance(lengths, list | tuple):
        xp = namespace_or_numpy(xp)
        numbers = [_checks.integer("lengths", n, "a sequence of integers") for n in lengths]
        return xp, xp.asarray(numbers, dtype=default_integer(xp, device), device=device)
    if xp is not None or device is not None:
        message = "`xp` and `device` must be left out where `lengths` is an array."
        raise TypeError(message)
    xp = namespace_of(lengths=lengths)
    if not xp.isdtype(lengths.dtype, "integral"):
        message = f"`lengths` must have an integer dtype, got {dtype_name(lengths.dtype)}."
        raise TypeError(message)
    if lengths.ndim != 1:
        message = f"`lengths` must have shape (batch,), got {tuple(lengths.shape)}."
        raise ValueError(message)
    return xp, lengths


def _check_lengths(lengths: Any, max_len: int, xp: Namespace) -> None:
    """Check the lengths where their values are there to be read."""
    # uint64 does not compare with Python's integers everywhere, and wraps when it is cast.
    wide = xp.astype(lengths, default_integer(xp, device_of(lengths)), copy=False)
    wrong = (wide < 0) | (wide > max_len)
    if known(xp.any(wrong)):
        first = next(i for i in range(wrong.shape[0]) if wrong[i])
        message = (
            f"`lengths` must lie between 0 and `max_len` = {max_len}, "
            f"got {int(lengths[first])} at index {first}."
        )
        raise ValueError(message)


def combine_masks(*masks: Array | None) -> Any:
    """Return the mask that hides what any of the given masks hides.

    Parameters
    ----------
    *masks : array of bool or None
        Masks of shapes that broadcast against one another; None is skipped.

    Returns
    -------
    array of bool, or None
        Their union, of the broadcast shape; None where every mask is None.

    Raises
    ------
    TypeError
        If a mask is not a boolean array, or they come from different libraries.
    ValueError
        If their shapes do not broadcast.

    Examples
    --------
    >>> both = combine_masks(create_causal_mask(5), create_padding_mask([3, 4], 5), None)
    >>> both.shape
    (5, 5, 2)
    """
    given = {f"masks[{i}]": mask for i, mask in enumerate(masks) if mask is not None}
    if not given:
        return None
    xp = namespace_of(**given)
    for name, mask in given.items():
        check_mask(name, mask, xp)
    shapes = [tuple(mask.shape) for mask in given.values()]
    if not _checks.shapes_broadcast(shapes):
        message = f"`masks` must have shapes that broadcast, got {', '.join(map(str, shapes))}."
        raise ValueError(message)
    return reduce(operator.or_, given.values())


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
    bias: ArrayT = xp.where(mask, hidden, free)
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
    >>> fully_masked_rows(create_causal_mask(3, mask_diagonal=True))[:, 0]
    array([ True, False, False])
    """
    xp = namespace_of(mask=mask)
    check_mask("mask", mask, xp)
    axis = _axes.axis_of("key_axis", key_axis, mask.ndim, "mask")
    rows: ArrayT = xp.all(mask, axis=axis)
    return rows


def check_mask(name: str, mask: Any, xp: Namespace) -> None:
    """Check that a mask is boolean, and tell of the polarity where it is not."""
    if not xp.isdtype(mask.dtype, "bool"):
        message = (
            f"`{name}` must have a boolean dtype, True where a query may not attend, "
            f"got {dtype_name(mask.dtype)}."
        )
        raise TypeError(message)
