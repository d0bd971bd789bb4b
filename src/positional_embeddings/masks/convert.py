"""Combine masks, convert them to what others take and back, and find fully masked queries."""

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
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.points import ImplicitPositions
from positional_embeddings.masks.spans import index_ranges

# What a block of queries sees of a block of keys.
_HIDDEN, _PART, _WHOLE = range(3)

_EXAMPLES = "such as CausalMask() or FunctionMask(function)"


def combine_masks(*masks: Array | Mask | None) -> Any:
    """Return the mask that hides what any of the given masks hides.

    Masks with the same number of axes broadcast axis by axis. A mask of two axes is (query, key),
    as in attention, and gets a third axis if others are (query, key, batch). (``|`` would align
    their last axes instead: use it for masks with the same number of axes.)

    Parameters
    ----------
    *masks : array of bool, Mask, or None
        Masks of shape (query, key) or (query, key, batch), with 1 where they broadcast, or
        all with another number of axes; None is skipped. The attention mask of a
        tokenizer, (batch, key) with 0 at padding, is ``(attention_mask == 0).T[None]``. Or
        each a `Mask`, which ``|`` combines as well.

    Returns
    -------
    array of bool, Mask, or None
        Their union, of the broadcast shape; None if every mask is None.

    Raises
    ------
    TypeError
        If a mask is not a boolean array, or their libraries differ.
    ValueError
        If their shapes do not broadcast, or their numbers of axes differ and are not two and three.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask, create_padding_mask
    >>> both = combine_masks(create_causal_mask(5), create_padding_mask([3, 4], 5), None)
    >>> both.shape
    (5, 5, 2)

    A mask of your own, (query, key), applies to the whole batch:

    >>> import numpy as np
    >>> own = np.zeros((5, 5), dtype=bool)
    >>> combine_masks(both, own).shape
    (5, 5, 2)
    """
    if len(masks) == 1 and isinstance(masks[0], list | tuple):
        raise wrong_type("masks", "be given one by one, as combine_masks(*masks)", "one list")
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
        fit = checks.shapes_broadcast([tuple(mask.shape) for mask in arrays])
        if not fit or len({mask.ndim for mask in arrays}) > 1:
            requirement = (
                "broadcast, as (query, key) and (query, key, batch) or with as many axes each"
            )
            raise wrong_value("masks", requirement, ", ".join(map(str, shapes)))
    return reduce(or_, arrays)


def mask_to_bias(mask: ArrayT, /, dtype: Dtype | None = None) -> ArrayT:
    """Return a mask as a bias: minus infinity where True, 0 elsewhere.

    For implementations of attention that add a mask to the scores. Many of them give NaN
    for a query that may attend to no key: see `fully_masked_rows`.

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
        If the device does not have `dtype`.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> mask_to_bias(create_causal_mask(2))[:, :, 0]
    array([[  0., -inf],
           [  0.,   0.]])
    """
    backend = get_backend(mask=mask)
    checks.mask("mask", mask, backend.xp)
    dtype = checks.float_dtype(dtype, backend.default_float, backend)
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
    """Return a mask as PyTorch, JAX and ONNX take it: True where a query may attend.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key.
    q_len, k_len, offset : int, optional
        For a `Mask`: numbers of queries and keys, and position of the first query among
        the keys. If None, there are as many keys as queries, and the last query is at the
        last key.
    xp, device : optional
        For a `Mask`: array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (batch or 1, 1, query, key)
        What PyTorch's ``scaled_dot_product_attention(attn_mask=)``, JAX's
        ``dot_product_attention(mask=)`` and ONNX's ``Attention`` take. An axis of length 1 in
        an array stays so. ONNX Runtime needs the axis of queries in full, as a `Mask` gives it.
        Keras' ``MultiHeadAttention`` takes ``to_attend(...)[:, 0]``, and what adds a bias to scores
        ``mask_to_bias(~to_attend(...))``.

    Raises
    ------
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`,
        or an option is given with an array.
    ValueError
        If an array does not have two or three axes, a number is not positive, or the mask does
        not fit this number of queries and keys.

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
    hidden = mask.dense(**options) if isinstance(mask, Mask) else mask
    xp = get_backend(mask=hidden).xp
    checks.mask("mask", hidden, xp)
    if hidden.ndim not in (2, 3):
        requirement = "have shape (query, key) or (query, key, batch)"
        raise wrong_value("mask", requirement, tuple(hidden.shape))
    hidden = hidden[:, :, None] if hidden.ndim == 2 else hidden
    return xp.permute_dims(xp.logical_not(hidden), (2, 0, 1))[:, None, ...]


class BlockRanges(NamedTuple):
    """Which blocks of keys each block of queries sees, as NumPy arrays of int32.

    Attributes
    ----------
    kv_num_blocks : array, shape (batch, 1, q_blocks)
        Number of blocks of keys that are seen in part.
    kv_indices : array, shape (batch, 1, q_blocks, k_blocks)
        Which blocks these are, in ascending order; zeros after them.
    full_kv_num_blocks, full_kv_indices : array
        The same of the blocks that are seen as a whole.
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
    """Return which blocks of keys each block of queries sees, as block-sparse kernels want.

    PyTorch's FlexAttention takes the tables, as tensors, in this order:
    ``BlockMask.from_kv_blocks(*map(torch.asarray, tables), BLOCK_SIZE=block_size, mask_mod=...,
    seq_lengths=(q_len, k_len))``.

    Parameters
    ----------
    mask : Mask
        Arrays of other libraries than NumPy are not read: a block of which such a mask may hide a
        part counts as seen in part.
    q_len, k_len : int
        Numbers of queries and keys; as many keys as queries if `k_len` is None.
    block_size : int
        Number of queries and of keys of a block, positive. The last ones may be shorter, and are
        never seen as a whole then.
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
        If a number is not positive, or the mask does not fit this number of queries and keys.

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
    at = ImplicitPositions(start, k_len)
    states = [
        _states(mask, (first, min(first + block_size, stop)), at, block_size, backend)
        for first in range(start, stop, block_size)
    ]
    batch = max(map(len, states))
    states = np.stack([np.broadcast_to(row, (batch, row.shape[1])) for row in states], axis=1)
    tables = []
    for state in (_PART, _WHOLE):
        chosen = states[:, None] == state
        counts = np.sum(chosen, axis=-1, dtype=np.int32)
        order = np.argsort(~chosen, axis=-1, stable=True)
        is_counted = np.arange(order.shape[-1]) < counts[..., None]
        tables += [counts, np.where(is_counted, order, 0).astype(np.int32)]
    return BlockRanges(*tables)


def _states(
    mask: Mask, queries: tuple[int, int], at: ImplicitPositions, block_size: int, backend: Backend
) -> Array:
    """Return what queries at some positions see of each block of keys, (batch or 1, block)."""
    starts = np.arange(0, at.k_len, block_size)
    stops = np.minimum(starts + block_size, at.k_len)
    (
        any_query,
        every_query,
    ) = (  # how many keys of each block any of the queries sees, and all of them
        sum(np.clip(stop, starts, stops) - np.clip(start, starts, stops) for start, stop in ranges)
        for ranges in mask._visible_keys((queries,), at.k_len)
    )
    is_long = (stops - starts == block_size) & (queries[1] - queries[0] == block_size)
    is_whole = (every_query == stops - starts) & is_long
    states = np.where(is_whole, _WHOLE, np.where(any_query > 0, _PART, _HIDDEN))[None]
    if mask._arrays():
        return states
    for j in np.flatnonzero(states[0] == _PART):
        keys = index_ranges((int(starts[j]), int(stops[j])))
        hidden = mask._between(index_ranges(queries).shifted(-at.offset), keys, at, backend)
        own_states = np.where(hidden.all(axis=(0, 1)), _HIDDEN, _PART)
        if is_long[j]:
            own_states = np.where(hidden.any(axis=(0, 1)), own_states, _WHOLE)
        if len(states) < len(own_states):
            states = np.repeat(states, len(own_states), axis=0)
        states[:, j] = own_states
    return states


def from_attend(attend: ArrayT, /) -> ArrayT:
    """Return the mask of an array that is True where a query may attend.

    Parameters
    ----------
    attend : array of bool, shape (query, key), (batch, query, key) or (batch, 1, query, key)
        What PyTorch, JAX, ONNX or Keras take.

    Returns
    -------
    array of bool, shape (query, key, batch or 1)
        True where a query may not attend to a key.

    Raises
    ------
    TypeError
        If `attend` is not a boolean array.
    ValueError
        If it does not have two to four axes, or is for several heads.

    Examples
    --------
    >>> from positional_embeddings import CausalMask
    >>> bool((from_attend(to_attend(CausalMask(), 3)) == CausalMask().dense(3)).all())
    True
    """
    xp = get_backend(attend=attend).xp
    seen: Array = attend
    if not dtypes.is_dtype(seen.dtype, "bool", xp):
        requirement = "have a boolean dtype, True where a query may attend"
        raise wrong_type("attend", requirement, dtypes.dtype_name(seen.dtype))
    shape = tuple(seen.shape)
    if seen.ndim not in (2, 3, 4) or (seen.ndim == 4 and shape[1] != 1):
        requirement = "have shape (query, key), (batch, query, key) or (batch, 1, query, key)"
        raise wrong_value("attend", requirement, shape)
    seen = seen[:, 0, ...] if seen.ndim == 4 else seen
    seen = seen[None, ...] if seen.ndim == 2 else seen
    return xp.permute_dims(xp.logical_not(seen), (1, 2, 0))  # type: ignore[no-any-return]


def check_options(
    mask: Array | Mask, for_masks: dict[str, Any], for_arrays: dict[str, Any] | None = None
) -> None:
    """Check that options are given for a `Mask` that are for one, or for an array."""
    is_value = isinstance(mask, Mask)
    if not (is_value or hasattr(mask, "shape")):
        raise wrong_type(
            "mask", f"be a boolean array, or a `Mask`, {_EXAMPLES}", format_value(mask)
        )
    kind, unused = ("a `Mask`", for_arrays or {}) if is_value else ("an array", for_masks)
    checks.omitted(f"where `mask` is {kind}", wrong_type, **unused)
    if is_value and for_masks["q_len"] is None:
        raise wrong_type("q_len", "be given for a `Mask`", "None")


def key_axis_of(name: str, array: Array, key_axis: int | None) -> int:
    """Return the axis of keys, 1 if it is not given for an array of at most three axes."""
    if key_axis is None and array.ndim > 3:
        requirement = f"be given for `{name}` of {array.ndim} axes"
        requirement += ", 1 for (query, key, ...), -1 for (..., query, key)"
        raise wrong_value("key_axis", requirement, f"shape {tuple(array.shape)}")
    return 1 if key_axis is None else key_axis


def fully_masked_rows(mask: ArrayT, /, *, key_axis: int | None = None) -> ArrayT:
    """Return which queries may attend to no key.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key, with all keys on the key axis: length 1
        there means one key.
    key_axis : int, optional
        Axis of the keys: 1 by default for a mask of at most three axes, and to be given for more;
        -1 for masks of shape (..., query, key).

    Returns
    -------
    array of bool
        Shape of `mask` without its key axis.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `key_axis` is out of range, or is left out for more than three axes.

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
