"""Causal and padding masks as arrays: True where a query may not attend to a key.

Arrays have shape (query, key, batch), or 1 on an axis, and combine by ``|``. For masks with
different numbers of axes, use `combine_masks`.
"""

from collections.abc import Sequence
from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.namespace import AnyArray, Device, Namespace
from positional_embeddings.masks.by_position import CausalMask
from positional_embeddings.masks.by_sequence import PaddingMask, Side


def create_causal_mask(
    q_len: int,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    mask_diagonal: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask in which each query attends to its own and earlier positions.

    Query i is at position i + `offset`, key j at position j.

    Parameters
    ----------
    q_len, k_len : int
        Numbers of queries and keys, positive. If `k_len` is None, it equals `q_len`.
    offset : int, optional
        Position of the first query among the keys. If None, ``k_len - q_len``: the last
        query is at the last key, as with cached keys. With fewer keys than queries, the
        first queries then are fully masked.
    mask_diagonal : bool, default False
        Also mask the position of each query. The query at position 0 then is fully masked.
    xp, device : optional
        Array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (q_len, k_len, 1)
        True where key j is after query i.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
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


def create_padding_mask(
    lengths: Sequence[int] | AnyArray,
    /,
    max_len: int,
    *,
    side: Side = "right",
    batch_first: bool = False,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return the mask of the padding of sequences of different lengths.

    Parameters
    ----------
    lengths : list, tuple or array of int, shape (batch,)
        Lengths of the sequences without padding, 0 to `max_len`.
    max_len : int
        Length of the padded sequences, positive, at most 2**48.
    side : {"right", "left"}, default "right"
        Side of the padding.
    batch_first : bool, default False
        Return shape (batch, max_len, 1) instead.
    xp, device : optional
        Array library (NumPy if None) and device of the result; only if `lengths` is a list, a
        tuple or a NumPy array.

    Returns
    -------
    array of bool, shape (1, max_len, batch)
        True where a key is padding. Combines with a causal mask by ``|``.

    Raises
    ------
    TypeError
        If `lengths` are not integers, or another argument is of the wrong type.
    ValueError
        If `lengths` is not one-dimensional, or a length is negative or above `max_len`. Lengths
        on a GPU, lazy or in a trace are not checked.

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
    max_len = checks.axis_length("max_len", max_len)
    mask = PaddingMask(lengths, side).dense(1, max_len, xp=xp, device=device)
    if not checks.boolean("batch_first", batch_first):
        return mask
    return get_backend(mask=mask).xp.permute_dims(mask, (2, 1, 0))
