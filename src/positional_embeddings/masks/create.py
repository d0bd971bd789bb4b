"""Masks as arrays: True where a query may not attend to a key.

A mask has shape (query, key, batch), with 1 where it broadcasts, so that masks combine with
``|``; `combine_masks` takes masks with other numbers of axes. Query i is at position
i + offset, key j at position j.
"""

from collections.abc import Sequence
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import on_given_device
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Namespace,
    drop_none,
    namespace_of,
)
from positional_embeddings._core.positions import length_array, sequence_first
from positional_embeddings.masks.sequences import (
    PaddingMask,
    PrefixMask,
    SegmentMask,
    Side,
    prefix_lengths,
)
from positional_embeddings.masks.structured import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    SlidingWindowMask,
)

Window = tuple[int | None, int | None]


def create_causal_mask(
    q_len: int,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    mask_diagonal: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to its own and earlier positions.

    Query i is at position i + `offset`, key j at position j.

    Parameters
    ----------
    q_len, k_len : int
        Numbers of queries and keys, positive; as many keys as queries if `k_len` is None.
    offset : int, optional
        Position of the first query among the keys. If None, ``k_len - q_len``: the last
        query is at the last key, as with cached keys. With fewer keys than queries the
        first queries then attend to nothing.
    mask_diagonal : bool, default False
        Also mask each query's own position. The query at position 0 then attends to nothing.
    xp, device : optional
        Array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1)
        True where key j comes after query i.

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

    Two new queries after three cached keys:

    >>> create_causal_mask(2, k_len=5)[:, :, 0].astype(int)
    array([[0, 0, 0, 0, 1],
           [0, 0, 0, 0, 0]])
    """
    return CausalMask(mask_diagonal).dense(q_len, k_len, offset=offset, xp=xp, device=device)


@on_given_device
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
        Lengths of the sequences without padding, 0 to `max_len`.
    max_len : int
        Length that the sequences are padded to, positive, at most 2**48.
    side : {"right", "left"}, default "right"
        Side that the padding is on.
    batch_first : bool, default False
        Return shape (batch, max_len, 1) instead.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `lengths` is no array.

    Returns
    -------
    array of bool, shape (1, max_len, batch)
        True where a key is padding. Combines with a causal mask by ``|``.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or another argument is of the wrong kind.
    ValueError
        If `lengths` is not one-dimensional, or one of them is negative or above `max_len`.
        Lengths that cannot be read, in a dask array or while JAX traces, are not checked.

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
    max_len = checks.length_in_memory("max_len", max_len)
    batch_first = checks.boolean("batch_first", batch_first)
    xp, lengths = length_array("lengths", lengths, xp, device, max_len, "`max_len`")
    mask = PaddingMask(lengths, side).dense(1, max_len)
    return xp.permute_dims(mask, (2, 1, 0)) if batch_first else mask


@on_given_device
def create_prefix_mask(
    q_len: int,
    prefix_len: int | Sequence[int] | Array,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the causal mask whose first keys every query may attend to (prefix LM).

    Parameters
    ----------
    q_len : int
        Number of queries, positive.
    prefix_len : int, or list, tuple or array of int, shape (batch,)
        Number of keys of the prefix, zero or more, the same for all sequences or one for each.
    k_len, offset : int, optional
        Number of keys, and position of the first query among them. If None, there are as
        many keys as queries, and the last query is at the last key.
    xp, device : optional
        Array library (NumPy if None) and device of the result, if `prefix_len` is no array.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1 or batch)
        True where key j comes after query i and is not in the prefix.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a length is not positive, or a prefix is negative or longer than `k_len`, where
        its value can be read.

    References
    ----------
    Raffel et al. (2020), T5, section 3.2.1.

    Examples
    --------
    >>> create_prefix_mask(3, 2)[:, :, 0].astype(int)
    array([[0, 0, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """
    keys = checks.positive_integer("q_len", q_len)
    if k_len is not None:
        keys = checks.positive_integer("k_len", k_len)
    prefix = prefix_lengths("prefix_len", prefix_len, xp, device, keys)
    return PrefixMask(prefix).dense(q_len, k_len, offset=offset)


def create_segment_mask(
    segment_ids: Array, key_segment_ids: Array | None = None, /, *, seq_axis: int = 0
) -> Any:
    """Return the mask that keeps packed documents apart.

    Parameters
    ----------
    segment_ids : array of int, shape (query,) or (query, batch)
        The document that each query belongs to; a negative number is padding.
    key_segment_ids : array of int, shape (key,) or (key, batch), optional
        The document that each key belongs to, `segment_ids` if None. With cached keys,
        those of all keys: they take the place of the `k_len` and `offset` of other masks.
    seq_axis : int, default 0
        Axis of the sequence in both: 1 for shapes (batch, query) and (batch, key).

    Returns
    -------
    array of bool, shape (query, key, 1 or batch)
        True where query and key belong to different documents, or either is padding.

    Raises
    ------
    TypeError
        If an argument is not an array of signed integers, or their libraries differ.
    ValueError
        If an array has the wrong number of axes or no axis `seq_axis`, or the batches differ.

    See Also
    --------
    segment_ids_from_lengths : The segments of documents packed one after another.

    References
    ----------
    Krell et al. (2021), Efficient Sequence Packing, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> create_segment_mask(np.asarray([0, 0, 1, -1]))[:, :, 0].astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 0, 1],
           [1, 1, 1, 1]])

    An array of shape (batch, seq) gives a mask of shape (query, key, batch) all the same:

    >>> create_segment_mask(np.asarray([[0, 0, 1], [0, 1, 1]]), seq_axis=1).shape
    (3, 3, 2)
    """
    given = drop_none(segment_ids=segment_ids, key_segment_ids=key_segment_ids)
    xp = namespace_of(**given)
    query, *others = (_checked_segments(name, ids, seq_axis, xp) for name, ids in given.items())
    key = others[0] if others else query
    if not checks.shapes_broadcast([query.shape[1:], key.shape[1:]]):
        raise wrong_value(
            "key_segment_ids",
            f"have the batch of `segment_ids`, {query.shape[1]}",
            key.shape[1],
            _transposed_segments(query, key, seq_axis),
        )
    return SegmentMask(query, *others).dense(query.shape[0], key.shape[0])


def create_sliding_window_mask(
    q_len: int,
    window: Window,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to a window around its position.

    Parameters
    ----------
    q_len : int
        Number of queries, positive.
    window : tuple of two int or None
        Numbers of keys before and after its own position that a query attends to, None for
        all. ``(w - 1, 0)`` is the causal window of w keys.
    k_len, offset : int, optional
        Number of keys, and position of the first query among them. If None, there are as
        many keys as queries, and the last query is at the last key.
    xp, device : optional
        Array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1)
        True where key j is outside ``i - left <= j <= i + right``.

    Raises
    ------
    TypeError
        If `window` is not a pair, or an argument is of the wrong kind.
    ValueError
        If a length is not positive, or a side of the window negative.

    References
    ----------
    Beltagy et al. (2020), Longformer, section 3.1.

    Examples
    --------
    >>> create_sliding_window_mask(4, (1, 0))[:, :, 0].astype(int)
    array([[0, 1, 1, 1],
           [0, 0, 1, 1],
           [1, 0, 0, 1],
           [1, 1, 0, 0]])
    """
    left, right = _window(window)
    mask = SlidingWindowMask(left, right)
    return mask.dense(q_len, k_len, offset=offset, xp=xp, device=device)


def create_chunked_mask(
    q_len: int,
    chunk_size: int,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to the keys of its own chunk.

    Parameters
    ----------
    q_len : int
        Number of queries, positive.
    chunk_size : int
        Number of positions in a chunk, positive.
    k_len, offset : int, optional
        Number of keys, and position of the first query among them. If None, there are as
        many keys as queries, and the last query is at the last key.
    xp, device : optional
        Array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1)
        True where ``i // chunk_size`` and ``j // chunk_size`` differ. Combine with a
        causal mask for causal chunks.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive.

    References
    ----------
    Child et al. (2019), Generating Long Sequences with Sparse Transformers, section 4.

    Examples
    --------
    >>> create_chunked_mask(4, 2)[:, :, 0].astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 0, 0],
           [1, 1, 0, 0]])
    """
    chunk_size = checks.positive_integer("chunk_size", chunk_size)
    return ChunkedMask(chunk_size).dense(q_len, k_len, offset=offset, xp=xp, device=device)


def create_dilated_mask(
    q_len: int,
    dilation: int,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to every `dilation`-th position.

    Parameters
    ----------
    q_len : int
        Number of queries, positive.
    dilation : int
        Step between the keys that a query attends to, positive; 1 masks nothing.
    k_len, offset : int, optional
        Number of keys, and position of the first query among them. If None, there are as
        many keys as queries, and the last query is at the last key.
    xp, device : optional
        Array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1)
        True where ``i - j`` is not a multiple of `dilation`. Combine with a sliding-window
        or causal mask to limit it.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a size is not positive.

    References
    ----------
    Beltagy et al. (2020), Longformer, section 3.1.

    Examples
    --------
    >>> create_dilated_mask(4, 2)[:, :, 0].astype(int)
    array([[0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0]])
    """
    dilation = checks.positive_integer("dilation", dilation)
    return DilatedMask(dilation).dense(q_len, k_len, offset=offset, xp=xp, device=device)


def _checked_segments(name: str, ids: Any, seq_axis: int, xp: Namespace) -> Any:
    """Return segment ids as (sequence, batch)."""
    checks.signed_integers(name, ids, xp)
    ids = sequence_first(name, ids, seq_axis, xp)
    return ids[:, None] if ids.ndim == 1 else ids


def _transposed_segments(query: Any, key: Any, seq_axis: int) -> str:
    """Return a hint if the batches agree once arrays of (sequence, batch) are transposed."""
    if query.shape[0] == key.shape[0]:
        other = 1 - seq_axis % 2
        return f" The sequence is on axis {other} of both? Pass seq_axis={other}."
    if query.shape[0] == key.shape[1]:
        return " Pass the transpose of `segment_ids`?"
    return " Pass the transpose of `key_segment_ids`?" if query.shape[1] == key.shape[0] else ""


def _window(window: Any) -> Window:
    if not (isinstance(window, tuple | list) and len(window) == 2):
        raise wrong_type(
            "window",
            "be a pair (left, right) of numbers of keys, None for all of a side",
            shown(window),
        )
    left, right = (
        None if side is None else checks.non_negative_integer(f"window[{i}]", side)
        for i, side in enumerate(window)
    )
    return left, right
