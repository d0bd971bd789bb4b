"""Lengths, segments and positions of padded and packed sequences.

Arrays of segments, positions and padding have shape (seq,) or (seq, batch), or (batch, seq)
with ``seq_axis=1``.
"""

from collections.abc import Sequence
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import compute_on_device, get_backend
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Device, Namespace
from positional_embeddings.masks.spans import check_lengths, length_array, sequence_axis


@compute_on_device
def segment_ids_from_lengths(
    lengths: Sequence[int] | AnyArray,
    /,
    total_len: int | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the index of the document that each packed position belongs to.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (documents,)
        Lengths of the documents, zero or more, packed one after another; not where they end, as
        in ``cu_seqlens``.
    total_len : int, optional
        Length of the packed sequence; what remains is padding. If None, the sum of
        `lengths`, which must not be an array.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `lengths` is no array.

    Returns
    -------
    array of int, shape (total_len,)
        0 for the first document, 1 for the second, ..., -1 for padding.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or `total_len` is missing.
    ValueError
        If a length is negative, or their sum is above `total_len`, where values can be read.

    Examples
    --------
    >>> segment_ids_from_lengths([2, 1], 4)
    array([ 0,  0,  1, -1])
    """
    if total_len is None:
        if not isinstance(lengths, list | tuple | range):
            raise wrong_type("total_len", "be given where `lengths` is an array", "None")
        total_len = sum(checks.sequence_of("lengths", lengths))
    total_len = checks.axis_length("total_len", total_len)
    ends = cumulative_lengths(lengths, xp=xp, device=device)
    backend = get_backend(lengths=ends)
    if backend.concrete_bool(ends[-1] > total_len):
        requirement = f"be the sum of `lengths`, {int(ends[-1])}, or more"
        raise wrong_value("total_len", requirement, total_len)
    position = backend.xp.arange(total_len, dtype=ends.dtype, device=backend.device)
    ended = backend.searchsorted(ends[1:], position, side="right")
    return backend.xp.where(position < ends[-1], ended, -1)


def positions_from_segment_ids(segment_ids: ArrayT, /, *, seq_axis: int = 0) -> ArrayT:
    """Return positions that restart from 0 in each document.

    Parameters
    ----------
    segment_ids : array of int, shape (seq,) or (seq, batch)
        The document of each position, each document contiguous; a negative number is padding.
    seq_axis : int, default 0
        Axis of the sequence: 1 for shape (batch, seq).

    Returns
    -------
    array of int
        Shape of `segment_ids`: 0, 1, ... in each document, and 0 in padding.

    Raises
    ------
    TypeError
        If `segment_ids` is not an array of signed integers.
    ValueError
        If it does not have one or two axes, or `seq_axis` is none of them.

    Examples
    --------
    >>> import numpy as np
    >>> positions_from_segment_ids(np.asarray([0, 0, 0, 1, 1, -1]))
    array([0, 1, 2, 0, 1, 0])
    """
    backend = get_backend(segment_ids=segment_ids)
    xp, dtype = backend.xp, backend.integer
    checks.signed_integers("segment_ids", segment_ids, xp)
    axis = sequence_axis("segment_ids", segment_ids, seq_axis)
    if 0 in segment_ids.shape:  # slices of no positions are not in the standard
        return xp.astype(segment_ids, dtype)  # type: ignore[no-any-return]
    # The sequence last, so that each document stays contiguous when the array is flattened.
    order = tuple(range(segment_ids.ndim)) if axis == segment_ids.ndim - 1 else (1, 0)
    ids: Array = xp.permute_dims(segment_ids, order)
    first = ids[..., :1] == ids[..., :1]  # True
    start = xp.concat([first, ids[..., 1:] != ids[..., :-1]], axis=-1)
    document = xp.cumulative_sum(xp.reshape(xp.astype(start, dtype), (-1,)), axis=0, dtype=dtype)
    index = xp.arange(document.shape[0], dtype=dtype, device=backend.device)
    since = index - backend.searchsorted(document, document)
    positions: ArrayT = xp.permute_dims(xp.where(ids < 0, 0, xp.reshape(since, ids.shape)), order)
    return positions


def positions_from_mask(mask: ArrayT, /, *, seq_axis: int = 0) -> ArrayT:
    """Return positions that count the elements that are not padding, on whichever side it is.

    Parameters
    ----------
    mask : array of bool, shape (seq,) or (seq, batch)
        True at padding, such as ``create_padding_mask(...)[0]``.
    seq_axis : int, default 0
        Axis of the sequence: 1 for shape (batch, seq).

    Returns
    -------
    array of int
        Shape of `mask`: 0, 1, ... at elements, and 0 in padding before the first one.
        Padding after an element repeats its position.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If it does not have one or two axes, or `seq_axis` is none of them.

    Examples
    --------
    >>> import numpy as np
    >>> positions_from_mask(np.asarray([True, True, False, False, False]))
    array([0, 0, 0, 1, 2])

    A tokenizer's attention mask has shape (batch, seq), with 1 at a token and 0 at
    padding:

    >>> attention_mask = np.asarray([[1, 1, 1], [0, 1, 1]])
    >>> positions_from_mask(attention_mask == 0, seq_axis=1)
    array([[0, 1, 2],
           [0, 0, 1]])
    """
    backend = get_backend(mask=mask)
    xp, dtype = backend.xp, backend.integer
    checks.mask("mask", mask, xp)
    axis = sequence_axis("mask", mask, seq_axis)
    count = xp.cumulative_sum(xp.astype(xp.logical_not(mask), dtype), axis=axis, dtype=dtype)
    return xp.where(count > 0, count - 1, 0)  # type: ignore[no-any-return]


@compute_on_device
def cumulative_lengths(
    lengths: Sequence[int] | AnyArray,
    /,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the index where each packed document begins, and where the last one ends.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (documents,)
        Lengths of the documents, zero or more.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `lengths` is no array.

    Returns
    -------
    array of int, shape (documents + 1,)
        0 and the cumulative sums of `lengths`, elsewhere called ``cu_seqlens``.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` is not one-dimensional, or where values can be read, one is negative or
        their sum overflows the library's integers.

    Examples
    --------
    >>> cumulative_lengths([2, 1, 3])
    array([0, 2, 3, 6])
    """
    backend, counts = length_array("lengths", lengths, xp, device)
    xp, dtype = backend.xp, backend.integer
    start = xp.zeros(1, dtype=dtype, device=backend.device)
    ends = xp.cumulative_sum(xp.concat([start, counts], axis=0), axis=0, dtype=dtype)
    if backend.concrete_bool(xp.any(ends[1:] < ends[:-1])):
        check_lengths("lengths", counts, backend)
        most = f"{xp.iinfo(dtype).max}, which {dtype_name(dtype)} holds"
        raise wrong_value("lengths", f"add up to at most {most}", "more")
    return ends
