"""How arrays lie in memory: strides, shared and repeated elements, blocks."""

from collections.abc import Iterable, Sequence
from typing import Any

from array_api_compat import array_namespace, is_torch_array

from positional_embeddings._core.capabilities import is_host_array, strides_of
from positional_embeddings._core.namespace import HostArray, Namespace

# Numbers that are added one by one.
_PART = 2**13


def memory_strides(x: Any) -> tuple[int, ...] | None:
    """Return how far apart neighbours are on each axis, None if the library does not tell."""
    strides = strides_of(x)
    return None if strides is None else tuple(map(abs, strides))


def has_smaller_stride(x: Any, axis: int, other: int) -> bool:
    """Tell whether neighbours on one axis are nearer in memory than those on another."""
    strides = strides_of(x)
    return axis > other if strides is None else abs(strides[axis]) < abs(strides[other])


def shares_memory(array: Any, other: Any) -> bool:
    """Tell whether writing to an array may change what is still to be read of another.

    It cannot if both are the same numbers in the same places, and may if the library does
    not tell.
    """
    if array is other:
        return False
    if is_torch_array(array):
        # Not by their storages: two can be of one memory.
        (start, stop), (other_start, other_stop) = map(_addresses, (array, other))
        return start < other_stop and other_start < stop and _place(array) != _place(other)
    may_share = getattr(array_namespace(array), "may_share_memory", None)
    if may_share is None:
        return True
    return bool(may_share(array, other)) and _place(array) != _place(other)


def _addresses(tensor: Any) -> tuple[int, int]:
    """Return where the elements of a tensor begin and end in memory."""
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    start: int = tensor.data_ptr()
    return start, start + (reach + 1) * tensor.element_size()


def _place(array: Any) -> Any:
    """Return address, shape and strides as one object."""
    if is_torch_array(array):
        return array.data_ptr(), array.shape, array.stride()
    interface = getattr(array, "__array_interface__", None)
    return interface or array.__cuda_array_interface__


def is_read_only(array: Any) -> bool:
    """Tell whether a library that has arrays to write to forbids it for this one."""
    return not getattr(getattr(array, "flags", None), "writeable", True)


def repeats_elements(array: Any) -> bool:
    """Tell whether several elements of an array may be one number in memory."""
    strides = memory_strides(array)
    if strides is None or 0 in array.shape:
        return False
    reach = 0
    for stride, n in sorted(zip(strides, array.shape, strict=True)):
        if n > 1 and stride <= reach:
            return True
        reach += (n - 1) * stride
    return False


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
