"""Masks drawn in characters."""

from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import plural, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Shape, np
from positional_embeddings.masks.convert import check_options, key_axis_of
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.points import ImplicitPositions
from positional_embeddings.masks.ranges import Ranges
from positional_embeddings.masks.spans import index_ranges

# Queries or keys that are drawn at least: two at each end.
_FEWEST_DRAWN = 4


def describe_mask(
    mask: AnyArray | Mask,
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
        Axis of the keys, next to the axis of the queries: 1 or -1. If None, it is 1, and
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
    >>> print(describe_mask(CausalMask() | SlidingWindowMask(2, None), 4, 8, most=6))
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
    lengths: dict[str, Any] = {"q_len": q_len, "k_len": k_len, "offset": offset}
    check_options(mask, for_masks=lengths, for_arrays={"key_axis": key_axis})
    if isinstance(mask, Mask):
        backend = mask._backend()
        (start, stop), k_len = mask._checked_interval(**lengths, backend=backend)
        shape = (stop - start, k_len)
        rows, columns = (_select_ends(size, most) for size in shape)
        hidden = mask._between(
            index_ranges(*rows), index_ranges(*columns), ImplicitPositions(start, k_len), backend
        )
        picture, sequences = _sequence_table(hidden, batch, 1)
    else:
        backend = get_backend(mask=mask)
        checks.mask("mask", mask, backend.xp)
        picture, sequences = _sequence_table(mask, batch, key_axis)
        shape = tuple(picture.shape)
        rows, columns = (_select_ends(size, most) for size in shape)
        some_queries = index_ranges(*rows).take(picture, -2, backend)
        picture = index_ranges(*columns).take(some_queries, -1, backend)
    width = max(5, len(str(shape[0] - 1)))
    indent = " " * (width + 1)
    queries, keys = ([i for part in parts for i in range(*part)] for parts in (rows, columns))
    digits = len(str(max(keys, default="")))
    key_numbers = _with_gap([str(j).rjust(digits) for j in keys], columns, ":" * digits)
    lines = [f"{indent}key", *(indent + "".join(line) for line in zip(*key_numbers, strict=True))]
    hidden_keys = np.broadcast_to(backend.to_numpy(picture), (len(queries), len(keys))).tolist()
    cells = ["".join(_with_gap(["#."[h] for h in row], columns, ":")) for row in hidden_keys]
    drawn_rows = [f"{i:{width}d} {row}" for i, row in zip(queries, cells, strict=True)]
    lines += ["query", *_with_gap(drawn_rows, rows, ":".rjust(width))]
    size = f"{plural(shape[0], 'query')}, {plural(shape[1], 'key')}"
    which = "" if sequences == 1 else f"; sequence {batch} of {sequences}"
    lines.append(f"# attends   . masked   ({size}{which})")
    return "\n".join(line.rstrip() for line in lines)


def _select_ends(size: int, most: int) -> Ranges:
    """Return the queries or keys that are drawn: all, or the first and the last ones."""
    half = (most - 1) // 2
    return ((0, size),) if size <= most else ((0, half), (size - half, size))


def _with_gap(texts: list[str], parts: Ranges, gap: str) -> list[str]:
    """Return texts, one for each position in the parts, with a gap between two parts."""
    first = parts[0][1]
    return texts if len(parts) == 1 else [*texts[:first], gap, *texts[first:]]


def _sequence_table(mask: Array, batch: int, key_axis: int | None) -> tuple[Array, int]:
    """Return the (query, key) mask of one sequence, and the number of sequences."""
    picture, (sequences, *others) = table_at("mask", mask, {"batch": batch}, key_axis)
    if set(others) - {1}:
        requirement = "have length 1 on axes other than batch, queries and keys"
        hint = " Pass one of the masks, such as that of one head."
        raise wrong_value("mask", requirement, f"shape {tuple(mask.shape)}", hint)
    return picture, sequences


def table_at(
    name: str, array: Array, numbers: dict[str, int], key_axis: int | None
) -> tuple[Array, Shape]:
    """Return the (query, key) table at numbers on its other axes, and how long these are.

    The numbers are named for messages. There is a 0 for each that lacks; one of an axis of length
    1 is the same for all.
    """
    if array.ndim < 2:
        raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
    are_last = checks.choice("key_axis", key_axis_of(name, array, key_axis), (1, -1)) == -1
    sizes = tuple(array.shape[:-2] if are_last else array.shape[2:])
    if 0 in sizes:
        raise wrong_value(name, "not be empty", f"shape {tuple(array.shape)}")
    for (option, number), size in zip(numbers.items(), sizes, strict=False):
        if number >= size != 1:
            raise wrong_value(option, f"be below {size}", number)
    whole = [*numbers.values(), *[0] * len(sizes)]
    at = [number % size for number, size in zip(whole, sizes, strict=False)]
    return array[(*at, ...) if are_last else (..., *at)], sizes or (1,)
