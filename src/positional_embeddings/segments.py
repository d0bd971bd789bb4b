"""The bookkeeping of padded and packed sequences: lengths, segments, positions.

Arrays of segments, positions and padding have shape (sequence,) or (sequence, batch).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from positional_embeddings import _checks
from positional_embeddings._namespace import (
    Array,
    ArrayT,
    Device,
    Namespace,
    default_integer,
    device_of,
    known,
    namespace_of,
    namespace_or_numpy,
)
from positional_embeddings.mask_tools import check_mask


def segment_ids_from_lengths(
    lengths: Sequence[int] | Array,
    /,
    total_len: int | None = None,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the number of the document that each packed position belongs to.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (documents,)
        Lengths of the documents, zero or more, packed one after another.
    total_len : int, optional
        Length of the packed sequence; what remains is padding. Needed where
        `lengths` is an array; the sum of a list or tuple where it is None.
    xp : namespace, optional
        Array library of the result where `lengths` is a list or a tuple.
    device : device, optional
        Device of the result where `lengths` is a list or a tuple.

    Returns
    -------
    array of int, shape (total_len,)
        0 for the first document, 1 for the second, ..., -1 for padding.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or `total_len` is missing.
    ValueError
        If a length is negative or their sum above `total_len`, where values can be
        read.

    Examples
    --------
    >>> segment_ids_from_lengths([2, 1], 4)
    array([ 0,  0,  1, -1])
    """
    if total_len is None:
        if not isinstance(lengths, list | tuple | range):
            message = "`total_len` must be given where `lengths` is an array."
            raise TypeError(message)
        total_len = sum(_checks.integers("lengths", lengths))
    total_len = _checks.positive_integer("total_len", total_len)
    ends = cumulative_lengths(lengths, xp=xp, device=device)
    xp, on = namespace_of(lengths=ends), device_of(ends)
    if known(ends[-1] > total_len):
        message = (
            f"`total_len` must be the sum of `lengths`, {int(ends[-1])}, or more, got {total_len}."
        )
        raise ValueError(message)
    position = xp.arange(total_len, dtype=ends.dtype, device=on)[:, None]
    count = xp.sum(xp.astype(position >= ends[None, 1:], ends.dtype), axis=1, dtype=ends.dtype)
    none = xp.asarray(-1, dtype=ends.dtype, device=on)
    return xp.where(position[:, 0] < ends[-1], count, none)


def positions_from_segment_ids(segment_ids: ArrayT, /) -> ArrayT:
    """Return positions that start anew in each document.

    Parameters
    ----------
    segment_ids : array of int, shape (seq,) or (seq, batch)
        The document of each position, each document in one piece; a negative
        number is padding.

    Returns
    -------
    array of int
        Shape of `segment_ids`: 0, 1, ... in each document, and 0 in padding.

    Raises
    ------
    TypeError
        If `segment_ids` is not an array of signed integers.
    ValueError
        If it has another number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> positions_from_segment_ids(np.asarray([0, 0, 0, 1, 1, -1]))
    array([0, 1, 2, 0, 1, 0])
    """
    xp = namespace_of(segment_ids=segment_ids)
    _checks.signed_integers("segment_ids", segment_ids, xp)
    ids: Any = segment_ids
    index = _index(ids, "segment_ids", xp)
    start = xp.concat([ids[:1, ...] == ids[:1, ...], ids[1:, ...] != ids[:-1, ...]], axis=0)
    zero = index * 0
    first = _running_max(xp.where(start, index + zero, zero), xp)
    positions: ArrayT = xp.where(ids < 0, zero, index - first)
    return positions


def positions_from_mask(mask: ArrayT, /) -> ArrayT:
    """Return positions that count what is not padding, for padding on either side.

    Parameters
    ----------
    mask : array of bool, shape (seq,) or (seq, batch)
        True at padding: ``mask[0]`` of what `create_padding_mask` returns.

    Returns
    -------
    array of int
        Shape of `mask`: 0, 1, ... at what is not padding, and 0 in padding before
        it. Padding behind or between repeats the last position.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If it has another number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> positions_from_mask(np.asarray([True, True, False, False, False]))
    array([0, 0, 0, 1, 2])
    """
    xp = namespace_of(mask=mask)
    check_mask("mask", mask, xp)
    index = _index(mask, "mask", xp)
    real = xp.astype(xp.logical_not(mask), index.dtype)
    count = xp.cumulative_sum(real, axis=0, dtype=index.dtype)
    zero = xp.asarray(0, dtype=index.dtype, device=device_of(mask))
    positions: ArrayT = xp.where(count > 0, count - 1, zero)
    return positions


def cumulative_lengths(
    lengths: Sequence[int] | Array,
    /,
    *,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return where each packed document begins, and where the last one ends.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (documents,)
        Lengths of the documents, zero or more.
    xp : namespace, optional
        Array library of the result where `lengths` is a list or a tuple.
    device : device, optional
        Device of the result where `lengths` is a list or a tuple.

    Returns
    -------
    array of int, shape (documents + 1,)
        0 and the running sum, known as ``cu_seqlens`` elsewhere.

    Raises
    ------
    TypeError
        If `lengths` are not integers.
    ValueError
        If `lengths` is not one-dimensional, or one is negative, where values can
        be read.

    Examples
    --------
    >>> cumulative_lengths([2, 1, 3])
    array([0, 2, 3, 6])
    """
    xp, real = length_array("lengths", lengths, Bounds(), xp, device)
    on = device_of(real)
    real = xp.astype(real, default_integer(xp, on), copy=False)
    start = xp.asarray([0], dtype=real.dtype, device=on)
    return xp.cumulative_sum(xp.concat([start, real], axis=0), axis=0, dtype=real.dtype)


def lengths_from_cumulative(cumulative: ArrayT, /) -> ArrayT:
    """Return the lengths of packed documents from where each begins.

    Parameters
    ----------
    cumulative : array of int, shape (documents + 1,)
        Where each document begins, and where the last one ends.

    Returns
    -------
    array of int, shape (documents,)
        The lengths.

    Raises
    ------
    TypeError
        If `cumulative` is not an array of signed integers.
    ValueError
        If it is not one-dimensional, or empty.

    Examples
    --------
    >>> lengths_from_cumulative(cumulative_lengths([2, 1, 3]))
    array([2, 1, 3])
    """
    xp = namespace_of(cumulative=cumulative)
    _checks.signed_integers("cumulative", cumulative, xp)
    if cumulative.ndim != 1 or cumulative.shape[0] == 0:
        message = f"`cumulative` must have shape (documents + 1,), got {tuple(cumulative.shape)}."
        raise ValueError(message)
    lengths: ArrayT = cumulative[1:] - cumulative[:-1]
    return lengths


def lengths_from_segment_ids(segment_ids: ArrayT, /, num_segments: int) -> ArrayT:
    """Return the lengths of packed documents from the document of each position.

    Parameters
    ----------
    segment_ids : array of int, shape (seq,) or (seq, batch)
        The document of each position, from 0; a negative number is padding.
    num_segments : int
        Number of documents, positive. It is asked for since a shape may not depend
        on values.

    Returns
    -------
    array of int, shape (num_segments,) or (num_segments, batch)
        The lengths.

    Raises
    ------
    TypeError
        If `segment_ids` is not an array of signed integers.
    ValueError
        If `num_segments` is not positive, or below one of the ids, where values can
        be read.

    Examples
    --------
    >>> import numpy as np
    >>> lengths_from_segment_ids(np.asarray([0, 0, 2, -1]), 3)
    array([2, 0, 1])
    """
    xp = namespace_of(segment_ids=segment_ids)
    _checks.signed_integers("segment_ids", segment_ids, xp)
    num_segments = _checks.positive_integer("num_segments", num_segments)
    ids: Any = segment_ids
    dtype = _index(ids, "segment_ids", xp).dtype
    if known(xp.any(ids >= num_segments)):
        message = f"`num_segments` must be above every one of `segment_ids`, got {num_segments}."
        raise ValueError(message)
    numbers = xp.arange(num_segments, dtype=dtype, device=device_of(ids))
    numbers = numbers[(slice(None), *(None,) * ids.ndim)]
    same = xp.astype(ids, dtype, copy=False)[None, ...] == numbers
    lengths: ArrayT = xp.sum(xp.astype(same, dtype), axis=1, dtype=dtype)
    return lengths


class Bounds(NamedTuple):
    """What lengths may be, and what the upper bound is called."""

    least: int = 0
    most: int | None = None
    most_name: str = ""

    def check(self, name: str, lengths: Sequence[int]) -> None:
        """Raise at the first length out of bounds."""
        for i, n in enumerate(lengths):
            if n < self.least or (self.most is not None and n > self.most):
                bound = f"between {self.least} and {self.most_name} = {self.most}"
                bound = f"{self.least} or more" if self.most is None else bound
                message = f"`{name}` must be {bound}, got {n} at index {i}."
                raise ValueError(message)


def length_array(
    name: str, lengths: Any, bounds: Bounds, xp: Namespace | None, device: Device | None
) -> tuple[Namespace, Any]:
    """Return the namespace of the lengths, and the lengths as one of its arrays."""
    if isinstance(lengths, list | tuple | range):
        xp = namespace_or_numpy(xp)
        numbers = _checks.integers(name, lengths)
        bounds.check(name, numbers)
        return xp, xp.asarray(numbers, dtype=default_integer(xp, device), device=device)
    if xp is not None or device is not None:
        message = f"`xp` and `device` must be left out where `{name}` is an array."
        raise TypeError(message)
    xp = namespace_of(**{name: lengths})
    _checks.integral(name, lengths, xp)
    if lengths.ndim != 1:
        message = f"`{name}` must have shape (batch,), got {tuple(lengths.shape)}."
        raise ValueError(message)
    # uint64 does not compare with Python's integers everywhere, and wraps when it is cast.
    wide = xp.astype(lengths, default_integer(xp, device_of(lengths)), copy=False)
    most = xp.iinfo(wide.dtype).max if bounds.most is None else bounds.most
    if known(xp.any((wide < bounds.least) | (wide > most))):
        bounds.check(name, [int(lengths[i]) for i in range(lengths.shape[0])])
    return xp, lengths


def _index(array: Any, name: str, xp: Namespace) -> Any:
    """Return 0, 1, ... along the first axis, with 1 on all others."""
    if array.ndim not in (1, 2):
        message = f"`{name}` must have shape (seq,) or (seq, batch), got {tuple(array.shape)}."
        raise ValueError(message)
    on = device_of(array)
    index = xp.arange(array.shape[0], dtype=default_integer(xp, on), device=on)
    return index[(slice(None), *(None,) * (array.ndim - 1))]


def _running_max(values: Any, xp: Namespace) -> Any:
    """Return the largest value so far along the first axis, in log2(n) steps."""
    step = 1
    while step < values.shape[0]:
        later = xp.maximum(values[step:, ...], values[:-step, ...])
        values = xp.concat([values[:step, ...], later], axis=0)
        step *= 2
    return values
