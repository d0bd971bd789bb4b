"""Products of queries, keys and values, (..., sequence, feature)."""

from typing import Any

from positional_embeddings.arrays.library import library_of
from positional_embeddings.arrays.namespace import Namespace, device_of, is_host_array

# Numbers that are added one by one.
_MOST_SUMMED = 2**13


def multiply(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``, in one product for query heads that share a key head."""
    shared = table.ndim > 2 and table.shape[-3] == 1 and rows.shape[-3] != 1
    if not shared:
        return _matmul_row(rows, table, xp)
    *others, groups, count, inner = rows.shape
    reshape = library_of(rows).reshape
    merged = reshape(rows, (*others, groups * count, inner), xp)
    result = _matmul_row(merged, table[..., 0, :, :], xp)
    return reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]), xp)


def weighted_sums(weights: Any, values: Any, xp: Namespace) -> tuple[Any, Any]:
    """Return the sums of the values that have these weights, and of the weights."""
    if library_of(weights).multiplies_copies:
        total = xp.sum(weights, axis=-1, keepdims=True)
        return multiply(weights, values, xp), total
    # A product with ones adds up the rows faster than `sum`.
    ones = xp.ones((weights.shape[-1], 1), dtype=weights.dtype, device=device_of(weights))
    return weights @ values, weights @ ones


def _matmul_row(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``.

    NumPy's product of one row with a table that BLAS does not take, since neither of its
    axes is contiguous, takes ten times as long as its sum of products.
    """
    if library_of(table).multiplies_copies:
        return _matmul_contiguous(rows, table, xp)
    one_row = is_host_array(table) and rows.shape[-2] == 1
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
