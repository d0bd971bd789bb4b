"""Masks as text."""

from typing import Any

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import plural, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Shape, np
from positional_embeddings.masks.convert import check_options, key_axis_of
from positional_embeddings.masks.index_ranges import index_ranges
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions
from positional_embeddings.masks.ranges import Ranges

# Two queries or keys at each end.
_MIN_MAX_SIZE = 4


def describe_mask(
    mask: AnyArray | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    batch: int = 0,
    key_axis: int | None = None,
    max_size: int = 32,
) -> str:
    """Return a mask as text, one character for each query and key.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key. With `key_axis` -1, an array has shape
        (query, key) or (batch, ..., query, key); with `key_axis` 1, (query, key) or
        (query, key, batch, ...).
    q_len, k_len, offset : int, optional
        For a `Mask`: numbers of queries and keys, and position of the first query among the
        keys. If None, `k_len` equals `q_len`, and the last query is at the last key.
    batch : int, default 0
        Index of the sequence to draw; any index if the mask has a batch of length 1.
    key_axis : int, optional
        Axis of the keys, next to the axis of the queries: 1 or -1. If None, it is 1, and
        `mask` has two or three axes.
    max_size : int, default 32
        Maximum number of queries and of keys to draw, 4 or more. The middle of a longer mask is
        omitted.

    Returns
    -------
    str
        A line for each query, below the indices of the keys: the index of the query, ``#`` at
        visible keys and ``.`` at masked keys. The last line is a legend with the sizes.

    Raises
    ------
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`, or
        an option does not apply to this type of mask.
    ValueError
        If `mask` has too few axes, or four or more without `key_axis`, or `batch` or `max_size`
        is out of range.

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

    Only the drawn part of a `Mask` is evaluated:

    >>> from positional_embeddings import CausalMask, SlidingWindowMask
    >>> print(describe_mask(CausalMask() | SlidingWindowMask(2, None), 4, 8, max_size=6))
          key
          01:67
    query
        0 ..:..
        1 ..:..
        2 ..:#.
        3 ..:##
    # attends   . masked   (4 queries, 8 keys)
    """
    if checks.positive_integer("max_size", max_size) < _MIN_MAX_SIZE:
        raise wrong_value("max_size", f"be {_MIN_MAX_SIZE} or more", max_size)
    batch = checks.non_negative_integer("batch", batch)
    lengths: dict[str, Any] = {"q_len": q_len, "k_len": k_len, "offset": offset}
    check_options(mask, for_masks=lengths, for_arrays={"key_axis": key_axis})
    if isinstance(mask, Mask):
        backend = mask._backend()
        (start, stop), k_len = mask._checked_interval(**lengths, backend=backend)
        shape = (stop - start, k_len)
        rows, columns = (_select_ends(size, max_size) for size in shape)
        is_masked = mask._block(
            index_ranges(*rows), index_ranges(*columns), ImplicitPositions(start, k_len), backend
        )
        table, sequences = _sequence_table(is_masked, batch, 1)
    else:
        backend = get_backend(mask=mask)
        checks.mask("mask", mask, backend.xp)
        table, sequences = _sequence_table(mask, batch, key_axis)
        shape = tuple(table.shape)
        rows, columns = (_select_ends(size, max_size) for size in shape)
        table = index_ranges(*rows).take(table, -2, backend)
        table = index_ranges(*columns).take(table, -1, backend)
    width = max(5, len(str(shape[0] - 1)))
    indent = " " * (width + 1)
    queries, keys = ([i for part in parts for i in range(*part)] for parts in (rows, columns))
    digits = len(str(max(keys, default="")))
    key_numbers = _with_gap([str(j).rjust(digits) for j in keys], columns, ":" * digits)
    lines = [f"{indent}key", *(indent + "".join(line) for line in zip(*key_numbers, strict=True))]
    masked_keys = np.broadcast_to(backend.to_numpy(table), (len(queries), len(keys))).tolist()
    cells = ["".join(_with_gap(["#."[h] for h in row], columns, ":")) for row in masked_keys]
    query_lines = [f"{i:{width}d} {row}" for i, row in zip(queries, cells, strict=True)]
    lines += ["query", *_with_gap(query_lines, rows, ":".rjust(width))]
    size = f"{plural(shape[0], 'query')}, {plural(shape[1], 'key')}"
    sequence = "" if sequences == 1 else f"; sequence {batch} of {sequences}"
    lines.append(f"# attends   . masked   ({size}{sequence})")
    return "\n".join(line.rstrip() for line in lines)


def _select_ends(size: int, max_size: int) -> Ranges:
    """Return the drawn queries or keys: all, or the first and the last ones."""
    half = (max_size - 1) // 2
    return ((0, size),) if size <= max_size else ((0, half), (size - half, size))


def _with_gap(texts: list[str], parts: Ranges, gap: str) -> list[str]:
    """Return texts, one for each position in one or two parts, with a gap between the parts."""
    first = parts[0][1]
    return texts if len(parts) == 1 else [*texts[:first], gap, *texts[first:]]


def _sequence_table(mask: Array, batch: int, key_axis: int | None) -> tuple[Array, int]:
    """Return the (query, key) mask of one sequence, and the number of sequences."""
    table, (sequences, *heads) = select_table("mask", mask, {"batch": batch}, key_axis)
    if set(heads) - {1}:
        requirement = "have length 1 on axes other than batch, queries and keys"
        hint = " Pass one of the masks, such as that of one head."
        raise wrong_value("mask", requirement, f"shape {tuple(mask.shape)}", hint)
    return table, sequences


def select_table(
    name: str, array: Array, indices: dict[str, int], key_axis: int | None
) -> tuple[Array, Shape]:
    """Return the (query, key) table at indices of the other axes, and the lengths of these axes.

    The keys of `indices` are the names in messages. A missing index is 0, and any index is valid
    on an axis of length 1.
    """
    if array.ndim < 2:
        raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
    are_last = checks.choice("key_axis", key_axis_of(name, array, key_axis), (1, -1)) == -1
    sizes = tuple(array.shape[:-2] if are_last else array.shape[2:])
    if 0 in sizes:
        raise wrong_value(name, "not be empty", f"shape {tuple(array.shape)}")
    for (option, i), size in zip(indices.items(), sizes, strict=False):
        if i >= size != 1:
            raise wrong_value(option, f"be below {size}", i)
    padded = [*indices.values(), *[0] * len(sizes)]
    index = [i % size for i, size in zip(padded, sizes, strict=False)]
    return array[(*index, ...) if are_last else (..., *index)], sizes or (1,)
