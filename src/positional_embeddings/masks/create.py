"""Attention masks: boolean, True where a query may not attend to a key.

A mask has shape (query, key, batch), with 1 where it broadcasts, so that masks
combine with ``|``; one of another number of axes goes through `combine_masks`. Query i
stands at position i + offset, key j at position j.
"""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

from positional_embeddings._core import checks
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import (
    Array,
    Device,
    Namespace,
    default_integer,
    device_of,
    drop_none,
    namespace_of,
    namespace_or_numpy,
)
from positional_embeddings._core.positions import (
    Bounds,
    length_array,
    query_and_key_positions,
    sequence_axis,
    sequence_first,
)

Side = Literal["right", "left"]


def create_causal_mask(
    q_len: int,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    mask_diagonal: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask that lets each query attend to its own position and earlier ones.

    Query i stands at position i + `offset`, key j at position j.

    Parameters
    ----------
    q_len : int
        Number of queries, positive.
    k_len : int, optional
        Number of keys, positive; as many as queries where it is None.
    offset : int, optional
        Position of the first query among the keys. Where it is None,
        ``k_len - q_len``: the last query sees the last key, as with cached
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
    array of bool, shape (q_len, k_len, 1)
        True where key j stands after query i, and may not be attended to.

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
    mask_diagonal = checks.boolean("mask_diagonal", mask_diagonal)
    xp = namespace_or_numpy(xp)
    query, key = query_and_key(q_len, k_len, offset, xp, device)
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
        Length that the sequences are padded to, positive, at most 2**48.
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
    max_len = checks.positive_integer("max_len", max_len, most=checks.MOST_IN_MEMORY)
    checks.choice("side", side, ("right", "left"))
    batch_first = checks.boolean("batch_first", batch_first)
    bounds = Bounds(0, max_len, "`max_len`")
    xp, real = length_array("lengths", lengths, bounds, xp, device)
    on = device_of(real)
    dtype = default_integer(xp, on)
    real = xp.astype(real, dtype, copy=False)
    key = xp.arange(max_len, dtype=dtype, device=on)[None, :, None]
    real = real[:, None, None] if batch_first else real[None, None, :]
    return key >= real if side == "right" else key < max_len - real


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
        Number of keys of the prefix, zero or more, the same or one for each
        sequence.
    k_len : int, optional
        Number of keys, positive; as many as queries where it is None.
    offset : int, optional
        Position of the first query among the keys, ``k_len - q_len`` where it
        is None: the last query stands at the last key.
    xp : namespace, optional
        Array library of the result, NumPy where it is None. An array `prefix_len`
        has a library of its own.
    device : device, optional
        Device of the result where `prefix_len` is not an array.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1 or batch)
        True where key j stands after query i and outside the prefix.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a length is not positive, or a prefix negative or above `k_len`, where
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
    lengths: Any = prefix_len
    if isinstance(lengths, Real):
        what = "an integer or a sequence of integers"
        lengths = [checks.integer("prefix_len", lengths, what)]  # type: ignore[arg-type]
    elif getattr(lengths, "shape", None) == ():
        lengths = lengths[None]
    keys = ("q_len", q_len) if k_len is None else ("k_len", k_len)
    bounds = Bounds(0, checks.positive_integer(*keys), "the number of keys")
    xp, prefix = length_array("prefix_len", lengths, bounds, xp, device)
    query, key = query_and_key(q_len, k_len, offset, xp, device_of(prefix))
    prefix = xp.astype(prefix, key.dtype, copy=False)[None, None, :]
    return (key > query) & (key >= prefix)


def create_segment_mask(
    segment_ids: Array, key_segment_ids: Array | None = None, /, *, seq_axis: int = 0
) -> Any:
    """Return the mask that keeps packed documents apart.

    Parameters
    ----------
    segment_ids : array of int, shape (query,) or (query, batch)
        The document that each query belongs to; a negative number is padding.
    key_segment_ids : array of int, shape (key,) or (key, batch), optional
        The document that each key belongs to; those of the queries where it is
        None. With cached keys, those of all of them: they stand for the number of
        keys and the offset that other masks take.
    seq_axis : int, default 0
        Axis of the sequence in both: 1 for shapes (batch, query) and (batch, key).

    Returns
    -------
    array of bool, shape (query, key, 1 or batch)
        True where query and key belong to different documents, or either is
        padding.

    Raises
    ------
    TypeError
        If an argument is not an array of signed integers, or they come from
        different libraries.
    ValueError
        If an array has the wrong number of axes or no axis `seq_axis`, or the batches
        differ.

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
    query, key = query[:, None, :], key[None, :, :]
    return (query != key) | (query < 0) | (key < 0)


def query_and_key(
    q_len: int,
    k_len: int | None,
    offset: int | None,
    xp: Namespace,
    device: Device | None,
) -> tuple[Any, Any]:
    """Return the positions of queries and keys, on the first and the second of three axes."""
    query, key = query_and_key_positions(q_len, k_len, offset, xp, device)
    return query[:, None, None], key[None, :, None]


def _checked_segments(name: str, ids: Any, seq_axis: int, xp: Namespace) -> Any:
    """Return segment ids as (sequence, batch)."""
    checks.signed_integers(name, ids, xp)
    axis = sequence_axis(name, ids, seq_axis)
    return ids[:, None] if ids.ndim == 1 else sequence_first(ids, axis, xp)


def _transposed_segments(query: Any, key: Any, seq_axis: int) -> str:
    """Tell what to pass if the batches agree once arrays of (sequence, batch) are transposed."""
    if query.shape[0] == key.shape[0]:
        other = 1 - seq_axis % 2
        return f" The sequence is on axis {other} of both? Pass seq_axis={other}."
    if query.shape[0] == key.shape[1]:
        return " Pass the transpose of `segment_ids`?"
    return " Pass the transpose of `key_segment_ids`?" if query.shape[1] == key.shape[0] else ""
