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
from positional_embeddings.masks.index_ranges import check_lengths, length_array, sequence_axis


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
        Lengths of the packed documents, zero or more; not cumulative lengths (``cu_seqlens``).
    total_len : int, optional
        Length of the packed sequence, with padding at its end. If None, the sum of `lengths`,
        which must not be an array.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `lengths` is not an array.

    Returns
    -------
    array of int, shape (total_len,)
        0 for the first document, 1 for the second, ..., -1 for padding.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or `total_len` is missing.
    ValueError
        If a length is negative, or the sum exceeds `total_len`. Only concrete values are checked.

    Examples
    --------
    >>> segment_ids_from_lengths([2, 1], 4)
    array([ 0,  0,  1, -1])
    """
    if total_len is None:
        if not isinstance(lengths, list | tuple | range):
            hint = " Pass the length of the packed sequence, with its padding."
            raise wrong_type("total_len", "be given where `lengths` is an array", "None", hint)
        total_len = sum(checks.sequence_of("lengths", lengths))
    total_len = checks.axis_length("total_len", total_len)
    ends = cumulative_lengths(lengths, xp=xp, device=device)
    backend = get_backend(lengths=ends)
    if backend.concrete_bool(ends[-1] > total_len):
        requirement = f"be the sum of `lengths`, {int(ends[-1])}, or more"
        raise wrong_value("total_len", requirement, total_len)
    position = backend.xp.arange(total_len, dtype=ends.dtype, device=backend.device)
    document = backend.searchsorted(ends[1:], position, side="right")
    return backend.xp.where(position < ends[-1], document, -1)


def positions_from_segment_ids(segment_ids: ArrayT, /, *, seq_axis: int = 0) -> ArrayT:
    """Return positions that restart from 0 in each document.

    Parameters
    ----------
    segment_ids : array of int, shape (seq,) or (seq, batch)
        Document of each position; documents are contiguous. A negative number is padding.
    seq_axis : int, default 0
        Axis of the sequence: 1 for shape (batch, seq).

    Returns
    -------
    array of int
        Same shape as `segment_ids`: 0, 1, ... in each document, and 0 in padding.

    Raises
    ------
    TypeError
        If `segment_ids` is not an array of signed integers.
    ValueError
        If `segment_ids` does not have one or two axes, or `seq_axis` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> positions_from_segment_ids(np.asarray([0, 0, 0, 1, 1, -1]))
    array([0, 1, 2, 0, 1, 0])
    """
    backend = get_backend(segment_ids=segment_ids)
    xp, dtype = backend.xp, backend.int_dtype
    checks.signed_integers("segment_ids", segment_ids, xp)
    axis = sequence_axis("segment_ids", segment_ids, seq_axis)
    if 0 in segment_ids.shape:  # the standard has no slices of empty axes
        return xp.astype(segment_ids, dtype)  # type: ignore[no-any-return]
    # With the sequence last, each document is contiguous in the flattened array.
    order = tuple(range(segment_ids.ndim)) if axis == segment_ids.ndim - 1 else (1, 0)
    ids: Array = xp.permute_dims(backend.without_empty_chunks(segment_ids), order)
    is_first = ids[..., :1] == ids[..., :1]  # True
    is_start = xp.concat([is_first, ids[..., 1:] != ids[..., :-1]], axis=-1)
    document = xp.cumulative_sum(xp.reshape(xp.astype(is_start, dtype), (-1,)), axis=0, dtype=dtype)
    index = xp.arange(document.shape[0], dtype=dtype, device=backend.device)
    index = xp.reshape(index - backend.searchsorted(document, document), ids.shape)
    positions: ArrayT = xp.permute_dims(xp.where(ids < 0, 0, index), order)
    return positions


def positions_from_mask(mask: ArrayT, /, *, seq_axis: int = 0) -> ArrayT:
    """Return positions that count the elements that are not padding, which may be on either side.

    Parameters
    ----------
    mask : array of bool, shape (seq,) or (seq, batch)
        True at padding, such as ``create_padding_mask(...)[0]``.
    seq_axis : int, default 0
        Axis of the sequence: 1 for shape (batch, seq).

    Returns
    -------
    array of int
        Same shape as `mask`: 0, 1, ... at elements, and 0 in padding before the first element.
        Padding after an element repeats the position of the element.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `mask` does not have one or two axes, or `seq_axis` is out of range.

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
    xp, dtype = backend.xp, backend.int_dtype
    checks.mask("mask", mask, xp)
    axis = sequence_axis("mask", mask, seq_axis)
    is_element = backend.without_empty_chunks(xp.astype(xp.logical_not(mask), dtype))
    count = xp.cumulative_sum(is_element, axis=axis, dtype=dtype)
    return xp.where(count > 0, count - 1, 0)  # type: ignore[no-any-return]


@compute_on_device
def cumulative_lengths(
    lengths: Sequence[int] | AnyArray,
    /,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the start index of each packed document, and the end of the last document.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (documents,)
        Lengths of the documents, zero or more.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `lengths` is not an array.

    Returns
    -------
    array of int, shape (documents + 1,)
        0 and the cumulative sums of `lengths`, the ``cu_seqlens`` of FlashAttention.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` is not one-dimensional, a length is negative, or the sum overflows the
        integers of the library. Only concrete values are checked.

    Examples
    --------
    >>> cumulative_lengths([2, 1, 3])
    array([0, 2, 3, 6])
    """
    backend, counts = length_array("lengths", lengths, xp, device, axis="documents")
    xp, dtype = backend.xp, backend.int_dtype
    start = xp.zeros(1, dtype=dtype, device=backend.device)
    ends = xp.cumulative_sum(xp.concat([start, counts], axis=0), axis=0, dtype=dtype)
    if backend.concrete_bool(xp.any(ends[1:] < ends[:-1])):
        check_lengths("lengths", counts, backend)
        requirement = f"add up to at most {xp.iinfo(dtype).max}, the largest {dtype_name(dtype)}"
        raise wrong_value("lengths", requirement, "more")
    return ends
