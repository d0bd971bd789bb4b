"""Masks drawn in characters."""

from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import Array, namespace_of


def describe_mask(
    mask: Array, /, *, batch: int = 0, key_axis: int | None = None, most: int = 32
) -> str:
    """Return a mask drawn in characters, one for each query and key.

    Parameters
    ----------
    mask : array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key. With `key_axis` -1, shape (query, key) or
        (batch, ..., query, key); with `key_axis` 1, (query, key) or (query, key, batch, ...).
    batch : int, default 0
        Which sequence to draw; a mask of length 1 there is the same for all.
    key_axis : int, optional
        Axis of the keys, next to that of the queries: 1 or -1. If None, it is 1, and
        `mask` has two or three axes.
    most : int, default 32
        Largest number of queries and of keys to draw, 4 or more; the middle of a longer
        mask is left out.

    Returns
    -------
    str
        A line for each query with its index, ``#`` where it attends and ``.`` where it may
        not, below the indices of the keys.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `mask` has too few axes, or four or more without `key_axis`, or `batch` is out of range.

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
    checks.mask("mask", mask, xp)
    most = max(checks.positive_integer("most", most), 4)
    picture = one_mask(mask, checks.non_negative_integer("batch", batch), key_axis)
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
        raise wrong_value("mask", "have axes of queries and keys", f"shape {tuple(mask.shape)}")
    if key_axis is None:
        if mask.ndim > 3:
            raise wrong_value(
                "key_axis",
                f"be given for a mask of {mask.ndim} axes, 1 for (query, key, ...), "
                "-1 for (..., query, key)",
                f"shape {tuple(mask.shape)}",
            )
        key_axis = 1
    checks.choice("key_axis", key_axis, (1, -1))
    size, *others = (mask.shape[2:] if key_axis == 1 else mask.shape[:-2]) or (1,)
    if set(others) - {1}:
        raise wrong_value(
            "mask",
            "have length 1 on axes other than those of batch, queries and keys",
            f"shape {tuple(mask.shape)}: pass one of the masks, such as that of one head",
        )
    if size != 1 and batch >= size:
        raise wrong_value("batch", f"be below {size}, the batch of `mask`", batch)
    rest = (0,) * len(others)
    chosen = (0 if size == 1 else batch, *rest) if mask.ndim > 2 else ()
    return mask[(..., *chosen)] if key_axis == 1 else mask[(*chosen, ...)]


def _drawn(size: int, most: int) -> list[int | None]:
    """Return the indices to draw, None for those that are left out in the middle."""
    if size <= most:
        return list(range(size))
    half = (most - 1) // 2
    return [*range(half), None, *range(size - half, size)]


def _key_numbers(columns: list[int | None]) -> list[str]:
    """Return the indices of the keys, written downwards, one line for each digit."""
    width = max((len(str(j)) for j in columns if j is not None), default=0)
    texts = [":" * width if j is None else str(j).rjust(width) for j in columns]
    return ["      " + "".join(text[line] for text in texts) for line in range(width)]
