"""Products of queries, keys and values, (..., sequence, feature)."""

from typing import Any

from positional_embeddings.arrays.libraries.base import Space
from positional_embeddings.arrays.namespace import Namespace, np

# Numbers that are added one by one.
_MOST_SUMMED = 2**13


def multiply(rows: Any, table: Any, space: Space) -> Any:
    """Return ``rows @ table``, in one product for query heads that share a key head."""
    shared = table.ndim > 2 and table.shape[-3] == 1 and rows.shape[-3] != 1
    if not shared:
        return _matmul_row(rows, table, space)
    *others, groups, count, inner = rows.shape
    merged = space.reshape(rows, (*others, groups * count, inner))
    result = _matmul_row(merged, table[..., 0, :, :], space)
    return space.reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]))


def weighted_sums(weights: Any, values: Any, space: Space) -> tuple[Any, Any]:
    """Return the sums of the values that have these weights, and of the weights."""
    if space.multiplies_copies:
        total = space.xp.sum(weights, axis=-1, keepdims=True)
        return multiply(weights, values, space), total
    # A product with ones adds up the rows faster than `sum`.
    ones = space.xp.ones((weights.shape[-1], 1), dtype=weights.dtype, device=space.device)
    return weights @ values, weights @ ones


def _matmul_row(rows: Any, table: Any, space: Space) -> Any:
    """Return ``rows @ table``.

    NumPy's product of one row with a table that BLAS does not take, since neither of its
    axes is contiguous, takes ten times as long as its sum of products.
    """
    xp = space.xp
    if space.multiplies_copies:
        return _matmul_contiguous(rows, table, xp)
    one_row = xp is np and rows.shape[-2] == 1
    if not one_row or table.itemsize in map(abs, table.strides[-2:]):
        return rows @ table
    # In parts, so that no long sum is rounded at every step.
    total = xp.einsum("...ij,...jk->...ik", rows[..., :_MOST_SUMMED], table[..., :_MOST_SUMMED, :])
    for start in range(_MOST_SUMMED, table.shape[-2], _MOST_SUMMED):
        part = slice(start, start + _MOST_SUMMED)
        total += xp.einsum("...ij,...jk->...ik", rows[..., part], table[..., part, :])
    return total


def _matmul_contiguous(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table`` where that copies a transposed table: not one of all keys."""
    few = rows.shape[-2] < rows.shape[-1]
    if table.ndim == 2 or not few or table.strides[-2] != table.itemsize:
        return rows @ table
    key, query = xp.matrix_transpose(table), xp.matrix_transpose(rows)
    return xp.matrix_transpose(key @ query)
