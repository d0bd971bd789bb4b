"""Blocks of arrays, and products that are gentle to the memory."""

from collections.abc import Iterable, Sequence
from typing import Any

from positional_embeddings._core.capabilities import is_host_array
from positional_embeddings._core.namespace import HostArray, Namespace

# Numbers that are added one by one.
_PART = 2**13


def row_product(rows: Any, table: Any, xp: Namespace) -> Any:
    """Return ``rows @ table``.

    NumPy's product of one row with a table that BLAS does not take, since neither of its
    axes is contiguous, takes ten times as long as its sum of products.
    """
    one_row = is_host_array(table) and rows.shape[-2] == 1
    if not one_row or table.itemsize in map(abs, table.strides[-2:]):
        return rows @ table
    # In parts, so that no long sum is rounded at every step.
    total = xp.einsum("...ij,...jk->...ik", rows[..., :_PART], table[..., :_PART, :])
    for start in range(_PART, table.shape[-2], _PART):
        part = slice(start, start + _PART)
        total += xp.einsum("...ij,...jk->...ik", rows[..., part], table[..., part, :])
    return total


def read_only(array: HostArray) -> HostArray:
    """Return a view of a host array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def block_lengths(shape: Sequence[int], order: Iterable[int], most: int) -> dict[int, int]:
    """Return how long a block of `most` numbers is on each axis, whole on the last of `order`."""
    lengths = {}
    for axis in reversed(list(order)):
        lengths[axis] = max(1, min(shape[axis], most))
        most //= lengths[axis]
    return lengths


def cuts(size: int, length: int) -> list[slice]:
    """Return slices of an axis, each of `length` but for the last."""
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]
