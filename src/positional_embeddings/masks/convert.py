"""Combine masks, convert them to what others take and back, and find fully masked queries."""

import operator
from functools import reduce
from typing import Any

from positional_embeddings._core import axes, checks
from positional_embeddings._core.capabilities import on_given_device
from positional_embeddings._core.errors import kind_of, shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    Namespace,
    default_float,
    device_of,
    drop_none,
    dtype_name,
    float_dtype,
    host,
    is_dtype,
    namespace_of,
    select,
)
from positional_embeddings._core.positions import position_interval
from positional_embeddings._core.remedies import remedy_for
from positional_embeddings.masks.mask import Mask
from positional_embeddings.masks.ranges import Ranges


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
    given: dict[str, Any] = {f"masks[{i}]": m for i, m in enumerate(masks) if m is not None}
    if not given:
        return None
    if all(isinstance(mask, Mask) for mask in given.values()):
        return reduce(operator.or_, given.values())
    xp = namespace_of(**given)
    for name, mask in given.items():
        checks.mask(name, mask, xp)
    shapes = {name: tuple(mask.shape) for name, mask in given.items()}
    ranks = {len(shape) for shape in shapes.values()}
    if ranks == {2, 3}:
        given = {name: m if m.ndim == 3 else m[:, :, None] for name, m in given.items()}
    elif len(ranks) > 1:
        raise _different_axes(shapes)
    if not checks.shapes_broadcast([tuple(mask.shape) for mask in given.values()]):
        came = ", ".join(map(str, shapes.values()))
        raise wrong_value("masks", "have shapes that broadcast", came, _other_readings(shapes))
    return reduce(operator.or_, given.values())


def _different_axes(shapes: dict[str, tuple[Any, ...]]) -> ValueError:
    """Return the error about masks whose axes could be aligned in more than one way."""
    most = max(map(len, shapes.values()))
    name, shape = min(shapes.items(), key=lambda item: len(item[1]))
    hint = ""
    if len(shape) >= 2:
        new = ["None"] * (most - len(shape))
        first = ", ".join([":", ":", *new])
        last = ", ".join([*[":"] * (len(shape) - 2), *new])
        hint = (
            f" Insert axes of length 1: {name}[{first}] if queries and keys come first, "
            f"{name}[{last}] if they come last."
        )
    requirement = "have as many axes each, or 2 (query, key) and 3 (query, key, batch)"
    return wrong_value("masks", requirement, ", ".join(map(str, shapes.values())), hint)


def _other_readings(shapes: dict[str, tuple[Any, ...]]) -> str:
    """Return how to pass masks of two axes whose axes may not be (query, key)."""
    hints = []
    for name, shape in shapes.items():
        rest = [(*other, 1)[:3] for key, other in shapes.items() if key != name]
        if len(shape) != 2 or not checks.shapes_broadcast(rest):
            continue
        keys = {other[1] for other in rest} - {1}
        first, second = shape
        readings = {
            f"(key, query), pass {name}.T": (second, first, 1),
            f"(key, batch), pass {name}[None]": (1, first, second),
            f"(batch, key), pass {name}.T[None] (of a tokenizer's attention mask "
            "(attention_mask == 0).T[None])": (1, second, first),
        }
        hints += [
            f" If {name} is {reading}."
            for reading, read in readings.items()
            if read[1] in keys and checks.shapes_broadcast([read, *rest])
        ]
    return "".join(hints)


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
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    on = device_of(mask)
    dtype = float_dtype(dtype, default_float(xp, on), xp, on)
    minus_infinity = xp.asarray(-float("inf"), dtype=dtype, device=on)
    bias: ArrayT = select(mask, minus_infinity, 0.0, xp)
    return bias


@on_given_device
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
        an array stays so. ONNX Runtime takes the axis of queries only in full, as that of a
        value is.

    Raises
    ------
    TypeError
        If `mask` is neither a `Mask` nor a boolean array, `q_len` is missing for a `Mask`,
        or an option is given with an array.
    ValueError
        If an array does not have two or three axes, a number is not positive, or the mask does
        not fit so many queries and keys.

    Examples
    --------
    >>> from positional_embeddings import CausalMask
    >>> to_attend(CausalMask(), 3)[0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return ~_batch_first(mask, q_len, k_len, offset, xp, device)


@on_given_device
def to_keras(
    mask: Array | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    device: Device | None = None,
) -> Any:
    """Return a mask as Keras' ``MultiHeadAttention`` takes it: True where a query may attend.

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key.
    q_len, k_len, offset : int, optional
        For a `Mask`, as `to_attend` takes them.
    xp, device : optional
        For a `Mask`: array library (NumPy if None) and device of the result.

    Returns
    -------
    array of bool, shape (batch or 1, query, key)
        The `attention_mask` of a call.

    Raises
    ------
    TypeError, ValueError
        The errors of `to_attend`.

    Examples
    --------
    >>> from positional_embeddings import PaddingMask
    >>> to_keras(PaddingMask([2, 3]), 3).shape
    (2, 3, 3)
    """
    return to_attend(mask, q_len, k_len, offset=offset, xp=xp, device=device)[:, 0, ...]


@on_given_device
def to_bias(
    mask: Array | Mask,
    /,
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    offset: int | None = None,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    """Return a mask as a bias that is added to scores (batch, heads, query, key).

    Parameters
    ----------
    mask : Mask, or array of bool, shape (query, key) or (query, key, batch)
        True where a query may not attend to a key.
    q_len, k_len, offset : int, optional
        For a `Mask`, as `to_attend` takes them.
    xp, dtype, device : optional
        Real floating-point dtype of the result (the library's default if None); for a `Mask`
        also its array library (NumPy if None) and device.

    Returns
    -------
    array, shape (batch or 1, 1, query, key)
        Minus infinity where a key is hidden, else 0.

    Raises
    ------
    TypeError, ValueError
        The errors of `to_attend` and of `mask_to_bias`.

    See Also
    --------
    mask_to_bias : The same without moving axes.

    Examples
    --------
    >>> from positional_embeddings import CausalMask
    >>> to_bias(CausalMask(), 2)[0, 0]
    array([[  0., -inf],
           [  0.,   0.]])
    """
    bias: Any = mask_to_bias(_batch_first(mask, q_len, k_len, offset, xp, device), dtype)
    return bias


def to_block_ranges(
    mask: Mask,
    /,
    q_len: int,
    k_len: int | None = None,
    *,
    block_size: int,
    offset: int | None = None,
) -> list[Ranges]:
    """Return which keys each block of queries can see at most, as block-sparse kernels want.

    Parameters
    ----------
    mask : Mask
        All keys are told if it cannot know, as `Mask.key_ranges` says.
    q_len, k_len : int
        Numbers of queries and keys; as many keys as queries if `k_len` is None.
    block_size : int
        Number of queries of a block, positive.
    offset : int, optional
        Position of the first query among the keys. If None, the last query is at the last key.

    Returns
    -------
    list of tuple of (int, int)
        For each block of queries its ascending ranges of keys (start, stop).

    Raises
    ------
    TypeError
        If `mask` is not a `Mask`, or a number is not an integer.
    ValueError
        If a number is not positive, or the mask does not fit so many queries and keys.

    Examples
    --------
    >>> from positional_embeddings import SlidingWindowMask
    >>> to_block_ranges(SlidingWindowMask(2, 0), 8, block_size=4)
    [((0, 4),), ((2, 8),)]
    """
    if not isinstance(mask, Mask):
        raise _not_a_mask(mask, "be a `Mask`, such as CausalMask()")
    block_size = checks.positive_integer("block_size", block_size)
    (start, stop), k_len = position_interval(q_len, k_len, offset, host, "cpu")
    mask._check((start, stop), k_len)
    firsts = range(start, stop, block_size)
    return [mask.key_ranges(first, min(first + block_size, stop), k_len) for first in firsts]


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
    if isinstance(attend, Mask):
        hint = " A `Mask` is a mask already."
        raise wrong_type("attend", "be a boolean array", kind_of(attend), hint)
    xp = namespace_of(attend=attend)
    given: Any = attend
    if not is_dtype(given.dtype, "bool", xp):
        hint = " Pass attend != 0 if 1 marks what may be attended to."
        raise wrong_type(
            "attend",
            "have a boolean dtype, True where a query may attend",
            dtype_name(given.dtype),
            hint if is_dtype(given.dtype, "integral", xp) else "",
        )
    shape = tuple(given.shape)
    if given.ndim not in (2, 3, 4) or (given.ndim == 4 and shape[1] != 1):
        what = "have shape (query, key), (batch, query, key) or (batch, 1, query, key)"
        hint = " Pass the mask of one head, attend[:, 0]." if given.ndim == 4 else ""
        raise wrong_value("attend", what, shape, hint)
    given = given[:, 0, ...] if given.ndim == 4 else given
    given = given[None, ...] if given.ndim == 2 else given
    mask: ArrayT = xp.permute_dims(xp.logical_not(given), (1, 2, 0))
    return mask


def _batch_first(
    mask: Any, q_len: int | None, k_len: int | None, offset: int | None, xp: Any, device: Any
) -> Any:
    """Return a `Mask` or an array as (batch, 1, query, key)."""
    xp, dense = _dense(mask, q_len, k_len, offset, xp, device)
    return xp.permute_dims(dense, (2, 0, 1))[:, None, ...]


def check_lengths_of(mask: Any, **lengths: int | None) -> None:
    """Check that a `Mask` comes with `q_len`, and an array without lengths and offset."""
    if isinstance(mask, Mask):
        if lengths["q_len"] is None:
            raise wrong_type("q_len", "be given for a `Mask`", "None")
        return
    if not hasattr(mask, "shape"):
        raise _not_a_mask(mask, "be a `Mask` or a boolean array")
    for name, option in drop_none(**lengths).items():
        raise wrong_type(name, "be left out where `mask` is an array", shown(option))


def _dense(
    mask: Any, q_len: Any, k_len: int | None, offset: int | None, xp: Any, device: Any
) -> tuple[Namespace, Any]:
    """Return a `Mask` or an array as (query, key, batch), after its namespace."""
    lengths = {"q_len": q_len, "k_len": k_len, "offset": offset}
    if isinstance(mask, Mask):
        check_lengths_of(mask, **lengths)
        dense = mask.dense(**lengths, xp=xp, device=device)
        return namespace_of(mask=dense), dense
    check_lengths_of(mask, **lengths)
    array_xp = namespace_of(mask=mask)
    if xp is not None or device is not None:
        message = "`xp` and `device` must be left out where `mask` is an array."
        raise TypeError(message)
    checks.mask("mask", mask, array_xp)
    if mask.ndim not in (2, 3):
        what = "have shape (query, key) or (query, key, batch)"
        raise wrong_value("mask", what, tuple(mask.shape))
    return array_xp, mask[:, :, None] if mask.ndim == 2 else mask


def _not_a_mask(mask: Any, requirement: str) -> TypeError:
    """Return the error about what is no mask, and tell how it becomes one."""
    hint = remedy_for("mask", mask)
    if isinstance(mask, type) and issubclass(mask, Mask):
        hint = f" Pass {mask.__name__}(...)."
    elif callable(mask):
        hint = " Pass FunctionMask(mask)."
    return wrong_type("mask", requirement, shown(mask), hint)


def fully_masked_rows(mask: ArrayT, /, *, key_axis: int = 1) -> ArrayT:
    """Return which queries may attend to no key.

    Parameters
    ----------
    mask : array of bool
        True where a query may not attend to a key, with all keys on the key axis: length 1
        there means one key.
    key_axis : int, default 1
        Axis of the keys; -1 for masks of shape (..., query, key).

    Returns
    -------
    array of bool
        Shape of `mask` without its key axis.

    Raises
    ------
    TypeError
        If `mask` is not a boolean array.
    ValueError
        If `key_axis` is out of range.

    Examples
    --------
    >>> from positional_embeddings import create_causal_mask
    >>> fully_masked_rows(create_causal_mask(3, mask_diagonal=True))[:, 0]
    array([ True, False, False])
    """
    xp = namespace_of(mask=mask)
    checks.mask("mask", mask, xp)
    axis = axes.axis_of("key_axis", key_axis, mask.ndim, "mask")
    rows: ArrayT = xp.all(mask, axis=axis)
    return rows
