"""The rotation itself: in one expression where a library traces, else block after block.

Each number is read from memory once and written once: what stands between the two is
a block's, and stays in the cache.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from types import ModuleType
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._blocks import block_lengths, cuts, features_of_pairs
from positional_embeddings._memory import fills_in_parts, memory_strides, on_the_host, shares_memory
from positional_embeddings._namespace import (
    ArrayT,
    Namespace,
    compute_dtype,
    default_integer,
    device_of,
    host,
    is_complex,
)

# Pairs of a block: few enough for a core's cache, or enough for a launch to be worth it.
HOST_BLOCK = 2**14
ACCELERATOR_BLOCK = 2**22

Block = tuple[slice, ...]


def rotated(
    x: ArrayT,
    cos: Any,
    sin: Any,
    axis: int,
    layout: str,
    xp: Namespace,
    *,
    out: Any = None,
    fused: bool | None = False,
) -> ArrayT:
    """Rotate as many pairs as the tables have, which broadcast against them.

    `out` has been checked; it may be `x`. With a `fused` of None a kernel is used where
    there is one, with True there must be one.
    """
    if not fills_in_parts(x, cos, sin):
        if fused:
            _fused().kernel_for(x, demanded=True)
        whole: ArrayT = _at_once(x, cos, sin, axis, layout, xp)
        return whole if out is None else _filled(out, whole)
    if out is not None and any(shares_memory(out, array) for array in (x, cos, sin)):
        return _filled(out, rotated(x, cos, sin, axis, layout, xp, fused=fused))
    if out is None and _is_one_product(x, cos, axis):
        product = x * _complex(cos, sin, x.dtype, xp)
        return xp.astype(product, x.dtype, copy=False)  # type: ignore[no-any-return]
    kernel = None if fused is False else _fused().kernel_for(x, out, demanded=fused)
    target = xp.empty_like(x) if out is None else out
    complex_numbers = is_complex(x.dtype)
    if kernel is not None:
        kernel(x, cos, sin, target, axis, layout)
    elif complex_numbers:
        _multiply_blocks(x, cos, sin, target, axis, xp)
    else:
        _turn_blocks(x, cos, sin, target, axis, layout, xp)
    turning = cos.shape[axis] * (1 if complex_numbers else 2)
    if target is not x and turning < x.shape[axis]:
        others = (*(slice(None),) * axis, slice(turning, None), ...)
        target[others] = x[others]
    return target  # type: ignore[no-any-return]


def turns_vectors(x: Any, layout: str, fused: bool | None) -> bool:  # noqa: FBT001
    """Tell whether `x` is a few vectors in halves, which no kernel rotates.

    With tables of their own two products of whole arrays rotate them, not four of rows.
    """
    return (
        layout == "half"
        and type(x) is host.ndarray
        and x.size <= HOST_BLOCK
        and x.dtype in (host.float32, host.float64)
        and (fused is False or not (fused or _fused().kernel_for(x)))
    )


def vectors_rotated(x: ArrayT, factor: Any, exchanged: Any, axis: int, xp: Namespace) -> ArrayT:
    """Rotate vectors in halves: x * factor + (second, first) * exchanged."""
    before, half = (slice(None),) * axis, x.shape[axis] // 2
    first, second = ((*before, part) for part in features_of_pairs(0, half, half, "half"))
    turned = xp.empty_like(x)
    turned[first] = x[second]
    turned[second] = x[first]
    turned *= exchanged
    turned += x * factor
    return turned  # type: ignore[no-any-return]


def _is_one_product(x: Any, table: Any, axis: int) -> bool:
    """Tell whether a product with a table of complex numbers, much smaller than x, is all."""
    whole = x.shape[axis] == table.shape[axis]
    return whole and is_complex(x.dtype) and 8 * prod(table.shape) <= prod(x.shape)


def check_kernels() -> None:
    """Check that there are kernels at all."""
    _fused().check_installed()


@cache
def _fused() -> ModuleType:
    from positional_embeddings import fused  # noqa: PLC0415 - optional, and only when needed

    return fused


def _filled(out: Any, values: ArrayT) -> ArrayT:
    out[...] = values
    return out  # type: ignore[no-any-return]


def _turn_blocks(
    x: Any, cos: Any, sin: Any, out: Any, axis: int, layout: str, xp: Namespace
) -> None:
    """Turn real pairs, a block of them at a time."""
    before: Any = None
    items = _row_items(x, out, axis, cos.shape[axis], layout)
    for block, beside in _blocks(x, cos, axis):
        at_first, at_second = _features(block, axis, cos.shape[axis], layout)
        first, second = x[at_first], x[at_second]
        if items is not None:
            rows = first, second
            first, second = (xp.empty_like(part) for part in rows)
            _copy_rows(rows[0], first, axis, items, xp)
            _copy_rows(rows[1], second, axis, items, xp)
        if (beside, first.shape) != before:
            c, s = (_as_long(table[beside], first, xp) for table in (cos, sin))
            before = beside, first.shape
        if first.dtype != c.dtype:
            first, second = xp.astype(first, c.dtype), xp.astype(second, c.dtype)
        turned_first = first * c
        turned_first -= second * s
        turned_second = second * c
        turned_second += first * s
        if turned_first.dtype != x.dtype:
            turned_first = xp.astype(turned_first, x.dtype)
            turned_second = xp.astype(turned_second, x.dtype)
        if items is not None:
            _copy_rows(turned_first, out[at_first], axis, items, xp)
            _copy_rows(turned_second, out[at_second], axis, items, xp)
        else:
            out[at_first] = turned_first
            out[at_second] = turned_second


def _row_items(x: Any, out: Any, axis: int, pairs: int, layout: str) -> Any:
    """Return a dtype that holds half a row of features, None where rows are copied as they are.

    NumPy takes ten times as long for each number of short rows; as one item each it copies
    them into a block without gaps, which it goes through as one long row.
    """
    large = type(x) is host.ndarray and pairs <= HOST_BLOCK < x.size
    if layout != "half" or not large:
        return None
    if any(array.strides[axis] != array.itemsize for array in (x, out)):
        return None
    return {8: host.int64, 16: host.complex128}.get(pairs * x.itemsize)


def _copy_rows(source: Any, target: Any, axis: int, items: Any, xp: Namespace) -> None:
    """Copy rows of features as items."""
    first, second = (xp.moveaxis(array, axis, -1).view(items) for array in (source, target))
    second[...] = first


def _as_long(table: Any, block: Any, xp: Namespace) -> Any:
    """Repeat a table's part over its block: NumPy multiplies short rows by a number slowly."""
    if table.shape == block.shape or type(block) is not host.ndarray:
        return table
    repeated = xp.empty_like(block, dtype=table.dtype)
    repeated[...] = table
    return repeated


def _multiply_blocks(x: Any, cos: Any, sin: Any, out: Any, axis: int, xp: Namespace) -> None:
    """Turn complex numbers, a block of them at a time."""
    before: Any = None
    for block, beside in _blocks(x, cos, axis):
        if beside != before:
            turn = _complex(cos[beside], sin[beside], x.dtype, xp)
            before = beside
        out[block] = x[block] * turn


def _complex(cos: Any, sin: Any, dtype: Any, xp: Namespace) -> Any:
    return xp.astype(cos, dtype) + 1j * xp.astype(sin, dtype)


def _blocks(x: Any, table: Any, axis: int) -> Iterator[tuple[Block, Any]]:
    """Yield where the blocks of pairs of `x` are, and where the table has their angles.

    Within a block they follow the order of memory, and blocks that need the same part
    of the table come one after another.
    """
    shape = (*x.shape[:axis], table.shape[axis], *x.shape[axis + 1 :])
    most = HOST_BLOCK
    if prod(shape) > most and not on_the_host(x):
        most = ACCELERATOR_BLOCK
    if prod(shape) <= most:
        yield tuple([slice(0, n) for n in shape]), ...
        return
    order = _memory_order(x)
    lengths = block_lengths(shape, order, most)
    order.sort(key=lambda a: table.shape[a] == 1)
    for parts in product(*(cuts(shape[a], lengths[a]) for a in order)):
        part_of = dict(zip(order, parts, strict=True))
        block = [part_of[a] for a in range(len(shape))]
        beside = [slice(0, 1) if table.shape[a] == 1 else part for a, part in enumerate(block)]
        yield tuple(block), tuple(beside)


def _memory_order(x: Any) -> list[int]:
    """Return the axes, from that of the farthest neighbours to that of the nearest."""
    strides = memory_strides(x)
    axes = list(range(x.ndim))
    return axes if strides is None else sorted(axes, key=lambda a: -strides[a])


def _features(
    block: Block, axis: int, pairs: int, layout: str
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return where the first and the second features of a block of pairs are."""
    first, second = features_of_pairs(block[axis].start, block[axis].stop, pairs, layout)
    before, after = block[:axis], block[axis + 1 :]
    return (*before, first, *after), (*before, second, *after)


def _at_once(x: Any, cos: Any, sin: Any, axis: int, layout: str, xp: Namespace) -> Any:
    """Turn everything in one expression, which JAX and dask fuse."""
    pairs = cos.shape[axis]
    turning, rest = cut_along(x, axis, pairs if is_complex(x.dtype) else 2 * pairs)
    if is_complex(x.dtype):
        turned = turning * _complex(cos, sin, x.dtype, xp)
    else:
        wide = xp.astype(turning, compute_dtype(x.dtype, xp), copy=False)
        first, second = halves(wide, axis, layout)
        turned = joined(first * cos - second * sin, second * cos + first * sin, axis, layout, xp)
        turned = xp.astype(turned, x.dtype, copy=False)
    return turned if rest is None else xp.concat([turned, rest], axis=axis)


def cut_along(x: Any, axis: int, size: int) -> tuple[Any, Any]:
    """Return the first `size` along an axis, and the others, None where there are none."""
    before = (slice(None),) * axis
    if x.shape[axis] == size:
        return x, None
    return x[(*before, slice(None, size), ...)], x[(*before, slice(size, None), ...)]


def halves(x: Any, axis: int, layout: str) -> tuple[Any, Any]:
    """Return the first and the second feature of each pair."""
    before, half = (slice(None),) * axis, x.shape[axis] // 2
    first, second = features_of_pairs(0, half, half, layout)
    return x[(*before, first, ...)], x[(*before, second, ...)]


def joined(first: Any, second: Any, axis: int, layout: str, xp: Namespace) -> Any:
    """Put the first and the second features of pairs together."""
    half = first.shape[axis]
    known = all(_checks.is_known(n) for n in first.shape)
    if known and layout == "half":
        return xp.concat([first, second], axis=axis)
    if known and 0 not in first.shape:
        shape = (*first.shape[:axis], 2 * half, *first.shape[axis + 1 :])
        return xp.reshape(xp.stack([first, second], axis=axis + 1), shape)
    # dask does not concatenate what has unknown lengths, nor reshape it or what is empty.
    on = device_of(first)
    rows = range(2 * half)
    order = [i % half for i in rows] if layout == "half" else [i // 2 for i in rows]
    of_first = [i < half for i in rows] if layout == "half" else [i % 2 == 0 for i in rows]
    order = xp.asarray(order, dtype=default_integer(xp, on), device=on)
    choose = xp.asarray(of_first, dtype=xp.bool, device=on)
    choose = choose[(..., *(None,) * (first.ndim - axis - 1))]
    return xp.where(choose, xp.take(first, order, axis=axis), xp.take(second, order, axis=axis))
