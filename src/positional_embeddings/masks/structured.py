"""Sparse attention masks: windows, chunks and dilation.

True where a query may not attend to a key; query i is at position i + offset, key j at position j.
"""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type
from positional_embeddings._core.namespace import Device, Namespace, device_of, namespace_or_numpy
from positional_embeddings._core.positions import farthest_position
from positional_embeddings.masks.create import query_and_key

Window = tuple[int | None, int | None]


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
    xp = namespace_or_numpy(xp)
    query, key = query_and_key(q_len, k_len, offset, xp, device)
    # No two positions are farther apart.
    widest = 2 * farthest_position(query.dtype, xp)
    left, right = (None if side is None or side > widest else side for side in (left, right))
    if left is None and right is None:
        shape = (query.shape[0], key.shape[1], 1)
        return xp.zeros(shape, dtype=xp.bool, device=device_of(query))
    if left is None:
        return key > query + right
    if right is None:
        return key < query - left
    return (key < query - left) | (key > query + right)


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
    xp = namespace_or_numpy(xp)
    query, key = query_and_key(q_len, k_len, offset, xp, device)
    chunk_size = min(chunk_size, xp.iinfo(query.dtype).max)
    return xp.floor_divide(query, chunk_size) != xp.floor_divide(key, chunk_size)


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
    xp = namespace_or_numpy(xp)
    query, key = query_and_key(q_len, k_len, offset, xp, device)
    dilation = min(dilation, xp.iinfo(query.dtype).max)
    return xp.remainder(query, dilation) != xp.remainder(key, dilation)


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
