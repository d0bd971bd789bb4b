"""Causal, padding, prefix and segment masks: True where a query may not attend to a key.

A mask has shape (query, key, batch), with 1 where it broadcasts, so that masks combine with
``|``; `combine_masks` takes masks with other numbers of axes. Query i is at position
i + offset, key j at position j.
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
    device_of,
    drop_none,
    namespace_of,
    namespace_or_numpy,
)
from positional_embeddings._core.positions import (
    length_array,
    positions_from_lengths,
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
    checks.choice("side", side, ("right", "left"))
    batch_first = checks.boolean("batch_first", batch_first)
    xp, real = length_array("lengths", lengths, xp, device, max_len, "`max_len`")
    key = xp.arange(max_len, dtype=real.dtype, device=device_of(real))[None, :, None]
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
    lengths: Any = prefix_len
    if isinstance(lengths, Real):
        what = "an integer or a sequence of integers"
        lengths = [checks.integer("prefix_len", lengths, what)]  # type: ignore[arg-type]
    elif getattr(lengths, "shape", None) == ():
        lengths = lengths[None]
    keys = checks.positive_integer(*(("q_len", q_len) if k_len is None else ("k_len", k_len)))
    xp, prefix = length_array("prefix_len", lengths, xp, device, keys, "the number of keys")
    query, key = query_and_key(q_len, k_len, offset, xp, device_of(prefix))
    return (key > query) & (key >= prefix[None, None, :])


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
    query, key = query[:, None, :], key[None, :, :]
    return (query != key) | (query < 0) | (key < 0)


def query_and_key(
    q_len: int, k_len: int | None, offset: int | None, xp: Namespace, device: Device | None
) -> tuple[Any, Any]:
    """Return positions of queries and keys that broadcast to (query, key, 1)."""
    query, key = positions_from_lengths(q_len, k_len, offset, xp, device)
    return query[:, None, None], key[None, :, None]


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
