"""Combine masks, convert them to and from other libraries, and find fully masked queries."""

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device, get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    HostArray,
    Namespace,
    np,
)
from positional_embeddings.masks.index_ranges import index_ranges
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.position_blocks import ImplicitPositions

# States of a block of queries and keys: all pairs masked, some visible, all visible.
_MASKED, _PARTIAL, _FULL = range(3)

_EXAMPLES = "such as CausalMask() or FunctionMask(function)"


def combine_masks(*masks: Array | Mask | None) -> Any:
    """Return the union of masks: a key is masked if any mask is True.

    Masks with the same number of axes broadcast axis by axis. A (query, key) mask gets a last axis
    if other masks are (query, key, batch). (``|`` instead aligns the last axes: use it for masks
    with the same number of axes.)

    Parameters
    ----------
    *masks : array of bool, Mask, or None
        Masks of shape (query, key) or (query, key, batch), which broadcast, or masks with another
        number of axes, the same for all. None is skipped. For the attention mask of a tokenizer,
        (batch, key) with 0 at padding, pass ``(attention_mask == 0).T[None]``. If one mask is a
        `Mask`, all are: ``|`` gives the same result.

    Returns
    -------
    array of bool, Mask, or None
        The union, of the broadcast shape; None if all masks are None.

    Raises
    ------
    TypeError
        If a mask is not a boolean array, or their libraries differ.
    ValueError
        If the shapes do not broadcast, or the numbers of axes differ and are not two and three.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask, create_padding_mask
    >>> mask = combine_masks(create_causal_mask(5), create_padding_mask([3, 4], 5), None)
    >>> mask.shape
    (5, 5, 2)

    A (query, key) mask applies to all sequences:

    >>> import numpy as np
    >>> combine_masks(mask, np.zeros((5, 5), dtype=bool)).shape
    (5, 5, 2)
    """
    if len(masks) == 1 and isinstance(masks[0], list | tuple):
        raise wrong_type("masks", "be separate arguments, combine_masks(*masks)", "one list")
    by_name: dict[str, Array] = {f"masks[{i}]": m for i, m in enumerate(masks) if m is not None}
    arrays = list(by_name.values())
    if not arrays:
        return None
    if not all(isinstance(mask, Mask) for mask in arrays):
        xp = get_backend(**by_name).xp
        for name, mask in by_name.items():
            checks.mask(name, mask, xp)
        shapes = [tuple(mask.shape) for mask in arrays]
        if set(map(len, shapes)) == {2, 3}:
            arrays = [mask if mask.ndim == 3 else mask[:, :, None] for mask in arrays]
        can_broadcast = checks.shapes_broadcast([tuple(mask.shape) for mask in arrays])
        if not can_broadcast or len({mask.ndim for mask in arrays}) > 1:
            requirement = "broadcast, as (query, key) and (query, key, batch) or with equal `ndim`"
            raise wrong_value("masks", requirement, ", ".join(map(str, shapes)))
    return reduce(or_, arrays)


def mask_to_bias(mask: ArrayT, /, dtype: Dtype | None = None) -> ArrayT:
    """Return a mask as a bias: minus infinity where True, 0 elsewhere.

    Use it with implementations of attention that add a mask to the scores. Many implementations
    return NaN for a fully masked query: see `fully_masked_rows`.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key.
    dtype : dtype, optional
        Real floating-point dtype of the result, the library's default if None.

    Returns
    -------
    array
        Shape of `mask`.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array, or `dtype` is not real floating-point.
    ValueError
        If the device does not support `dtype`.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> mask_to_bias(create_causal_mask(2))[:, :, 0]
    array([[  0., -inf],
           [  0.,   0.]])
    """
    backend = get_backend(mask=mask)
    checks.mask("mask", mask, backend.xp)
    dtype = checks.float_dtype(dtype, backend.default_float_dtype, backend)
    minus_infinity = backend.xp.asarray(-float("inf"), dtype=dtype, device=backend.device)
    return namespace.select(mask, minus_infinity, 0.0, backend.xp)  # type: ignore[no-any-return]


@compute_on_device
def to_attend(
    mask: Array | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return a mask in the convention of PyTorch, JAX and ONNX: True where a query may attend.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key.
    q_len, k_len, offset : int, optional
        For a `Mask`: numbers of queries and keys, and position of the first query among the
        keys. If None, `k_len` equals `q_len`, and the last query is at the last key.
    xp, device : optional
        For a `Mask`: array library (NumPy if None) and device of the result, as for `Mask.dense`.

    Returns
    -------
    array of bool, shape (batch or 1, 1, query, key)
        The mask for ``scaled_dot_product_attention(attn_mask=)`` of PyTorch,
        ``dot_product_attention(mask=)`` of JAX, and ``Attention`` of ONNX. Axes of length 1 in an
        array are not expanded. ONNX Runtime requires the full query axis, which a `Mask` has.
        For ``MultiHeadAttention`` of Keras, pass ``to_attend(...)[:, 0]``, and for a bias on
        scores ``mask_to_bias(~to_attend(...))``.

    Raises
    ------
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`,
        or an option for a `Mask` is passed with an array.
    ValueError
        If an array does not have two or three axes, a number is not positive, or the mask does
        not match the numbers of queries and keys.

    Examples
    --------
    >>> from positional_embeddings import CausalMask
    >>> to_attend(CausalMask(), 3)[0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    options: dict[str, Any] = {"q_len": q_len, "k_len": k_len, "offset": offset}
    options |= {"xp": xp, "device": device}
    check_options(mask, for_masks=options)
    is_masked = mask.dense(**options) if isinstance(mask, Mask) else mask
    xp = get_backend(mask=is_masked).xp
    checks.mask("mask", is_masked, xp)
    if is_masked.ndim not in (2, 3):
        requirement = "have shape (query, key) or (query, key, batch)"
        raise wrong_value("mask", requirement, tuple(is_masked.shape))
    is_masked = is_masked[:, :, None] if is_masked.ndim == 2 else is_masked
    return xp.permute_dims(xp.logical_not(is_masked), (2, 0, 1))[:, None, ...]


class BlockRanges(NamedTuple):
    """Indices of the visible blocks of keys of each block of queries, as NumPy arrays of int32.

    Attributes
    ----------
    kv_num_blocks : array, shape (batch, 1, q_blocks)
        Number of partial blocks, which have visible pairs but are not full.
    kv_indices : array, shape (batch, 1, q_blocks, k_blocks)
        Indices of the partial blocks, ascending, then zeros.
    full_kv_num_blocks, full_kv_indices : array
        Number and indices of the full blocks, in which all pairs are visible.
    """

    kv_num_blocks: HostArray
    kv_indices: HostArray
    full_kv_num_blocks: HostArray
    full_kv_indices: HostArray


def to_block_ranges(
    mask: Mask,
    /,
    q_len: int,
    k_len: int | None = None,
    *,
    block_size: int,
    offset: int | None = None,
) -> BlockRanges:
    """Return the visible blocks of keys of each block of queries, for block-sparse kernels.

    For FlexAttention of PyTorch, pass the tables as tensors:
    ``BlockMask.from_kv_blocks(*map(torch.asarray, tables), BLOCK_SIZE=block_size, mask_mod=...,
    seq_lengths=(q_len, k_len))``.

    Parameters
    ----------
    mask : Mask
        Only NumPy arrays of a mask are read: pass ``SegmentMask(ids.cpu().numpy())`` of tensors
        `ids`. With arrays of other libraries, no block that may be visible is omitted.
    q_len, k_len : int
        Numbers of queries and keys. If `k_len` is None, it equals `q_len`.
    block_size : int
        Number of queries and of keys of a block, positive. The last blocks may be shorter, and
        shorter blocks are never listed as full.
    offset : int, optional
        Position of the first query among the keys. If None, the last query is at the last key.

    Returns
    -------
    BlockRanges
        ``(kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)``. The batch is 1 if
        the mask is the same for all sequences.

    Raises
    ------
    TypeError
        If `mask` is not a `Mask`, or a number is not an integer.
    ValueError
        If a number is not positive, or the mask does not match the numbers of queries and keys.

    References
    ----------
    Dong et al. (2024), Flex Attention, section 3.2.

    Examples
    --------
    >>> from positional_embeddings import SlidingWindowMask
    >>> tables = to_block_ranges(SlidingWindowMask(5, 0), 12, block_size=4)
    >>> tables.kv_indices[0, 0]
    array([[0, 0, 0],
           [0, 1, 0],
           [0, 1, 2]], dtype=int32)
    >>> tables.kv_num_blocks[0, 0]
    array([1, 2, 3], dtype=int32)
    """
    if not isinstance(mask, Mask):
        raise wrong_type("mask", f"be a `Mask`, {_EXAMPLES}", format_value(mask))
    block_size = checks.positive_integer("block_size", block_size)
    backend = backend_for()
    (start, stop), k_len = mask._checked_interval(q_len, k_len, offset, backend)
    positions = ImplicitPositions(start, k_len)
    states = [
        _block_states(mask, (first, min(first + block_size, stop)), positions, block_size, backend)
        for first in range(start, stop, block_size)
    ]
    batch = max(map(len, states))
    states = np.stack([np.broadcast_to(row, (batch, row.shape[1])) for row in states], axis=1)
    tables = []
    for state in (_PARTIAL, _FULL):
        is_listed = states[:, None] == state
        counts = np.sum(is_listed, axis=-1, dtype=np.int32)
        order = np.argsort(~is_listed, axis=-1, stable=True)
        is_counted = np.arange(order.shape[-1]) < counts[..., None]
        tables += [counts, np.where(is_counted, order, 0).astype(np.int32)]
    return BlockRanges(*tables)


def _block_states(
    mask: Mask,
    queries: tuple[int, int],
    positions: ImplicitPositions,
    block_size: int,
    backend: Backend,
) -> Array:
    """Return the states of the blocks of a range of query positions, (batch or 1, block)."""
    k_len = positions.k_len
    starts = np.arange(0, k_len, block_size)
    stops = np.minimum(starts + block_size, k_len)
    any_query, every_query = (  # numbers of visible keys in each block
        sum(np.clip(stop, starts, stops) - np.clip(start, starts, stops) for start, stop in ranges)
        for ranges in mask._visible_keys((queries,), k_len)
    )
    is_complete = (stops - starts == block_size) & (queries[1] - queries[0] == block_size)
    is_full = (every_query == stops - starts) & is_complete
    states = np.where(is_full, _FULL, np.where(any_query > 0, _PARTIAL, _MASKED))[None]
    if mask._arrays():
        return states
    for j in np.flatnonzero(states[0] == _PARTIAL):
        keys = index_ranges((int(starts[j]), int(stops[j])))
        query_range = index_ranges(queries).shifted(-positions.offset)
        is_masked = mask._block(query_range, keys, positions, backend)
        column = np.where(is_masked.all(axis=(0, 1)), _MASKED, _PARTIAL)
        if is_complete[j]:
            column = np.where(is_masked.any(axis=(0, 1)), column, _FULL)
        if len(states) < len(column):
            states = np.repeat(states, len(column), axis=0)
        states[:, j] = column
    return states


def from_attend(attend: ArrayT, /) -> ArrayT:
    """Return the mask of an array that is True where a query may attend.

    Parameters
    ----------
    attend : array of bool, shape (query, key), (batch, query, key) or (batch, 1, query, key)
        Mask in the convention of PyTorch, JAX, ONNX or Keras.

    Returns
    -------
    array of bool, shape (query, key, batch or 1)
        True where a query may not attend to a key, for attention with features first. In the layout
        ``(batch, heads, seq, head)`` pass ``~attend`` instead, and in ``(batch, seq, heads, head)``
        ``~attend`` with axes 1 and 2 swapped.

    Raises
    ------
    TypeError
        If `attend` is not a boolean array.
    ValueError
        If `attend` does not have two to four axes, or has several heads.

    Examples
    --------
    >>> from positional_embeddings import CausalMask
    >>> bool((from_attend(to_attend(CausalMask(), 3)) == CausalMask().dense(3)).all())
    True
    """
    xp = get_backend(attend=attend).xp
    visible: Array = attend
    if not dtypes.is_dtype(visible.dtype, "bool", xp):
        requirement = "have a boolean dtype, True where a query may attend"
        hint = " Pass attend == 1, or attend == 0 if it is added to scores."
        raise wrong_type("attend", requirement, dtypes.dtype_name(visible.dtype), hint)
    shape = tuple(visible.shape)
    if visible.ndim not in (2, 3, 4) or (visible.ndim == 4 and shape[1] != 1):
        requirement = "have shape (query, key), (batch, query, key) or (batch, 1, query, key)"
        raise wrong_value("attend", requirement, shape)
    visible = visible[:, 0, ...] if visible.ndim == 4 else visible
    visible = visible[None, ...] if visible.ndim == 2 else visible
    return xp.permute_dims(xp.logical_not(visible), (1, 2, 0))  # type: ignore[no-any-return]


def check_options(
    mask: Array | Mask, for_masks: dict[str, Any], for_arrays: dict[str, Any] | None = None
) -> None:
    """Check the type of a mask, and that options apply to it, a `Mask` or an array."""
    is_object = isinstance(mask, Mask)
    if not (is_object or hasattr(mask, "shape")):
        requirement = f"be a boolean array, or a `Mask`, {_EXAMPLES}"
        raise wrong_type("mask", requirement, format_value(mask))
    kind, unused = ("a `Mask`", for_arrays or {}) if is_object else ("an array", for_masks)
    checks.omitted(f"where `mask` is {kind}", wrong_type, **unused)
    if is_object and for_masks["q_len"] is None:
        raise wrong_type("q_len", "be given for a `Mask`", "None")


def key_axis_of(name: str, array: Array, key_axis: int | None) -> int:
    """Return the axis of keys; by default 1, for arrays of at most three axes."""
    if key_axis is None and array.ndim > 3:
        requirement = f"be given for `{name}` of {array.ndim} axes"
        requirement += ", 1 for (query, key, ...), -1 for (..., query, key)"
        raise wrong_value("key_axis", requirement, f"shape {tuple(array.shape)}")
    return 1 if key_axis is None else key_axis


def fully_masked_rows(mask: ArrayT, /, *, key_axis: int | None = None) -> ArrayT:
    """Return which queries may not attend to any key.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key. The key axis is not broadcast: length 1 means
        one key.
    key_axis : int, optional
        Axis of the keys, -1 for masks of shape (..., query, key). The default is 1. Required for
        masks of more than three axes.

    Returns
    -------
    array of bool
        Shape of `mask` without its key axis.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `key_axis` is out of range, or is missing for more than three axes.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> fully_masked_rows(create_causal_mask(3, mask_diagonal=True))[:, 0]
    array([ True, False, False])
    """
    xp = get_backend(mask=mask).xp
    checks.mask("mask", mask, xp)
    axis = axes.axis_of("key_axis", key_axis_of("mask", mask, key_axis), mask.ndim, "mask")
    return xp.all(mask, axis=axis)  # type: ignore[no-any-return]
