"""Masks drawn in characters."""

from typing import Any, NamedTuple

from positional_embeddings._core import checks
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    HostArray,
    namespace_of,
    to_host,
)
from positional_embeddings._core.positions import position_interval
from positional_embeddings.masks.convert import check_lengths_of
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import count_positions

# Two at each end.
_FEWEST_DRAWN = 4


def describe_mask(
    mask: Array | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    batch: int = 0,
    key_axis: int | None = None,
    most: int = 32,
) -> str:
    """Return a mask drawn in characters, one for each query and key.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key. With `key_axis` -1, an array has shape
        (query, key) or (batch, ..., query, key); with `key_axis` 1, (query, key) or
        (query, key, batch, ...).
    q_len, k_len, offset : int, optional
        For a `Mask`: numbers of queries and keys, and position of the first query among
        the keys. If None, there are as many keys as queries, and the last query is at the
        last key.
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
        not, below the indices of the keys; the last line says which sequence of a batch it is.

    Raises
    ------
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`, or
        an option is given that is not for this kind of mask.
    ValueError
        If `mask` has too few axes, or four or more without `key_axis`, or `batch` or `most` is
        out of range.

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

    A `Mask` is evaluated only where it is drawn:

    >>> from positional_embeddings import CausalMask, SlidingWindowMask
    >>> print(describe_mask(CausalMask() | SlidingWindowMask(2, 0), 4, 8, most=6))
          key
          01:67
    query
        0 ..:..
        1 ..:..
        2 ..:#.
        3 ..:##
    # attends   . masked   (4 queries, 8 keys)
    """
    if checks.positive_integer("most", most) < _FEWEST_DRAWN:
        raise wrong_value("most", f"be {_FEWEST_DRAWN} or more", most)
    batch = checks.non_negative_integer("batch", batch)
    lengths = {"q_len": q_len, "k_len": k_len, "offset": offset}
    check_lengths_of(mask, **lengths)
    if isinstance(mask, Mask):
        (rows, columns), cells, sequences = _of_value(mask, lengths, batch, key_axis, most)
    else:
        (rows, columns), cells, sequences = _of_array(mask, batch, key_axis, most)
    width = max(5, len(str(rows.size - 1)))
    indent = " " * (width + 1)
    lines = [f"{indent}key", *(indent + line for line in _key_numbers(columns.shown)), "query"]
    hidden = iter(cells.tolist())
    for i in rows.shown:
        if i is None:
            lines.append(":".rjust(width))
            continue
        row = iter(next(hidden))
        cells_of_row = (":" if j is None else "." if next(row) else "#" for j in columns.shown)
        lines.append(f"{i:{width}d} {''.join(cells_of_row)}")
    which = "" if sequences == 1 else f"; sequence {batch} of {sequences}"
    lines.append(f"# attends   . masked   ({rows.size} queries, {columns.size} keys{which})")
    return "\n".join(line.rstrip() for line in lines)


class _Selection(NamedTuple):
    """Which of some queries or keys are drawn: the first and the last ones."""

    size: int
    parts: tuple[tuple[int, int], ...]

    @property
    def shown(self) -> list[int | None]:
        """Return their indices, None for those that are left out in the middle."""
        first, *last = (list(range(*part)) for part in self.parts)
        return [*first, *([None, *last[0]] if last else [])]


def _select_ends(size: int, most: int) -> _Selection:
    half = (most - 1) // 2
    return _Selection(size, ((0, size),) if size <= most else ((0, half), (size - half, size)))


def _of_array(
    mask: Any, batch: int, key_axis: int | None, most: int
) -> tuple[tuple[_Selection, _Selection], HostArray, int]:
    """Return which queries and keys of an array are drawn, their mask, and how many there are."""
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    picture, sequences = one_mask(mask, batch, key_axis)
    rows, columns = (_select_ends(size, most) for size in picture.shape)
    picture = xp.concat([picture[a:b, :] for a, b in rows.parts], axis=0)
    picture = xp.concat([picture[:, a:b] for a, b in columns.parts], axis=1)
    return (rows, columns), to_host(picture, xp), sequences


def _of_value(
    mask: Mask, lengths: dict[str, Any], batch: int, key_axis: int | None, most: int
) -> tuple[tuple[_Selection, _Selection], HostArray, int]:
    """Return which queries and keys of a `Mask` are drawn, their mask, and how many there are."""
    if key_axis is not None:
        raise wrong_type("key_axis", "be left out for a `Mask`", shown(key_axis))
    xp, device = mask._library(None, None)
    queries, k_len = position_interval(**lengths, xp=xp, device=device)
    mask._check(queries, k_len)
    rows, columns = _select_ends(queries[1] - queries[0], most), _select_ends(k_len, most)
    at_queries = tuple((queries[0] + a, queries[0] + b) for a, b in rows.parts)
    hidden = mask._between(at_queries, columns.parts, k_len, xp, device)
    shape = (count_positions(rows.parts), count_positions(columns.parts), hidden.shape[2])
    hidden = xp.broadcast_to(hidden, shape)
    picture, sequences = one_mask(hidden, batch, 1)
    return (rows, columns), to_host(picture, xp), sequences


def one_mask(mask: Any, batch: int, key_axis: int | None) -> tuple[Any, int]:
    """Return the (query, key) mask of one sequence, and the number of sequences."""
    if mask.ndim < 2:
        raise wrong_value("mask", "have axes of queries and keys", f"shape {tuple(mask.shape)}")
    if key_axis is None:
        if mask.ndim > 3:
            raise axis_missing("mask", mask)
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
    return mask[(..., *chosen) if key_axis == 1 else (*chosen, ...)], size


def axis_missing(name: str, array: Any) -> ValueError:
    """Return the error about an array whose axes of queries and keys could be the first or last."""
    what = f"be given for `{name}` of {array.ndim} axes"
    what += ", 1 for (query, key, ...), -1 for (..., query, key)"
    return wrong_value("key_axis", what, f"shape {tuple(array.shape)}")


def _key_numbers(columns: list[int | None]) -> list[str]:
    """Return the indices of the keys, written downwards, one line for each digit."""
    width = max((len(str(j)) for j in columns if j is not None), default=0)
    texts = [":" * width if j is None else str(j).rjust(width) for j in columns]
    return ["".join(text[line] for text in texts) for line in range(width)]
