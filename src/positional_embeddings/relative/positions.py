"""Relative positions, and what the biases by them share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from positional_embeddings._core import checks
from positional_embeddings._core.capabilities import many_chunks
from positional_embeddings._core.errors import wrong_value
from positional_embeddings._core.namespace import (
    Array,
    ArrayT,
    Device,
    Dtype,
    Namespace,
    compute_dtype,
    default_float,
    default_integer,
    device_of,
    drop_none,
    float_dtype,
    is_real_floating,
    namespace_of,
)
from positional_embeddings._core.positions import (
    position_array,
    positions_of_ranges,
    resolve_positions,
)
from positional_embeddings._core.weights import WeightedLayer

# Pairs (start, stop) of whole positions.
Ranges: TypeAlias = Sequence[tuple[int, int]]


def relative_positions(query_positions: ArrayT, key_positions: Array, /) -> ArrayT:
    """Return the position of each key relative to each query.

    Parameters
    ----------
    query_positions, key_positions : array, shape (seq,) or (seq, batch)
        Positions of queries and of keys, integer or real.

    Returns
    -------
    array, shape (query, key) or (query, key, batch)
        Key minus query: for integers in the default integer dtype of the library, so
        that unsigned ones do not wrap; for half precision in float32.

    Raises
    ------
    TypeError
        If an argument is not an array of real numbers, or their libraries differ.
    ValueError
        If the shapes do not fit, or the integers of the library do not hold the distances
        between positions that are in the memory of the host.

    Examples
    --------
    >>> import numpy as np
    >>> relative_positions(np.arange(2, 4), np.arange(4))
    array([[-2, -1,  0,  1],
           [-3, -2, -1,  0]])
    """
    xp = namespace_of(query_positions=query_positions, key_positions=key_positions)
    relative: ArrayT = subtract_positions(query_positions, key_positions, xp)
    return relative


def subtract_positions(query: Any, key: Any, xp: Namespace) -> Any:
    """Check positions, and return key minus query for each pair."""
    query, key = _signed("query_positions", query, xp), _signed("key_positions", key, xp)
    if query.ndim != key.ndim or not checks.shapes_broadcast([query.shape[1:], key.shape[1:]]):
        raise wrong_value(
            "key_positions",
            "have shape (key,), or (key, batch) with the batch of `query_positions` "
            f"{tuple(query.shape)}",
            tuple(key.shape),
        )
    real = [a.dtype for a in (query, key) if is_real_floating(a.dtype, xp)]
    if real:
        dtype = xp.result_type(*(compute_dtype(kind, xp) for kind in real))
        query, key = (xp.astype(a, dtype, copy=False) for a in (query, key))
    with many_chunks(xp):
        return key[None, ...] - query[:, None, ...]


def _signed(name: str, array: Any, xp: Namespace) -> Any:
    """Check positions, and return integers in a signed dtype."""
    checks.real(name, array, xp)
    if array.ndim not in (1, 2):
        raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
    if is_real_floating(array.dtype, xp):
        return array
    return position_array(name, array, xp, device_of(array))


def real_relative_positions(
    query: Any, key: Any, dtype: Dtype | None, xp: Namespace
) -> tuple[Any, Dtype]:
    """Return relative positions in the dtype to compute in, and the dtype of the bias."""
    relative = subtract_positions(query, key, xp)
    on = device_of(relative)
    dtype = float_dtype(dtype, default_float(xp, on), xp, on)
    return xp.astype(relative, compute_dtype(dtype, xp), copy=False), dtype


def relative_positions_of_ranges(
    queries: Ranges, keys: Ranges, dtype: Dtype, xp: Namespace, device: Device | None
) -> Any:
    """Return key minus query for positions from each start to before its stop, in a real dtype."""
    # What a real dtype holds exactly needs no integers first.
    farthest = max(abs(edge) for edges in (*queries, *keys) for edge in edges)
    exact = farthest < 1 / float(xp.finfo(dtype).eps)
    kind = dtype if exact else default_integer(xp, device)
    (start, stop), *others = queries
    if stop - start == 1 and not others:
        moved = tuple((first - start, last - start) for first, last in keys)
        relative = positions_of_ranges(moved, xp, device, dtype=kind)[None, :]
    else:
        query, key = (positions_of_ranges(own, xp, device, dtype=kind) for own in (queries, keys))
        with many_chunks(xp):
            relative = key[None, :] - query[:, None]
    return xp.astype(relative, dtype, copy=False)


def by_head(numbers: Any, relative: Any) -> Any:
    """Reshape (heads,) so that it broadcasts with `relative` of shape (query, key, 1, ...)."""
    return numbers[(slice(None), *(None,) * (relative.ndim - 3))]


def heads_on_axis_2(bias: Any, xp: Namespace) -> Any:
    """Permute (query, key, batch, heads) to (query, key, heads, batch), if there is a batch."""
    return xp.permute_dims(bias, (0, 1, 3, 2)) if bias.ndim == 4 else bias


def check_parameters(shapes: dict[str, tuple[str, ...]], xp: Namespace, **parameters: Any) -> None:
    """Check that parameters are real, and of the same length on axes of the same name."""
    checks.real_floating(xp, **parameters)
    lengths: dict[str, int] = {}
    for name, array in parameters.items():
        shape, axes = tuple(array.shape), shapes[name]
        if len(shape) != len(axes) or any(
            lengths.get(axis, n) != n for axis, n in zip(axes, shape, strict=True)
        ):
            wanted = (f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in axes)
            raise wrong_value(name, f"have shape ({', '.join(wanted)})", shape)
        lengths.update(zip(axes, shape, strict=True))


class Bias(WeightedLayer, ABC):
    """Base of biases that are values: an attention asks them block by block."""

    @abstractmethod
    def _heads(self) -> int:
        """Return the number of heads."""

    def _at_positions(self, query: Any, key: Any, dtype: Dtype) -> Any:
        """Return the bias between positions, in `dtype` unless the bias has one."""
        bias: Any = self
        options = {} if self._arrays() else {"dtype": dtype}
        return bias(query_positions=query, key_positions=key, **options)

    def _between(
        self, queries: Ranges, keys: Ranges, dtype: Dtype, xp: Namespace, device: Device | None
    ) -> Any:
        """Return the bias between ranges of positions, in `dtype` unless the bias has one."""
        query, key = (positions_of_ranges(own, xp, device) for own in (queries, keys))
        return self._at_positions(query, key, dtype)


class FunctionBias(Bias):
    """Base of biases that keep the parameters of a function of this library."""

    def __call__(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        query_positions: Array | None = None,
        key_positions: Array | None = None,
        xp: Namespace | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
    ) -> Any:
        """Return the bias as an array.

        Parameters
        ----------
        q_len, k_len, offset : int, optional
            Numbers of queries and keys, and position of the first query among the keys. If
            None, there are as many keys as queries, and the last query is at the last key.
        query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
            Positions instead of lengths; keys have those of the queries if None.
        xp, dtype, device : optional
            Array library (NumPy if None), real dtype (its default if None) and device of the
            result, for a bias without arrays of its own.

        Returns
        -------
        array, shape (query, key, heads) or (query, key, heads, batch)
            What the function of the bias returns.

        Raises
        ------
        TypeError, ValueError
            The errors of that function.
        """
        lengths = drop_none(q_len=q_len, k_len=k_len, offset=offset)
        positions = drop_none(query_positions=query_positions, key_positions=key_positions)
        options = drop_none(xp=xp, dtype=dtype, device=device)
        return self._function()(**lengths, **positions, **options)

    @abstractmethod
    def _function(self) -> Callable[..., Any]:
        """Return the function with the parameters of this bias."""


class RelativeTable(Bias):
    """Base of layers that own a table `embeddings`, with a row for each relative position."""

    embeddings: Any
    _rows: Callable[[Any, Namespace], Any]

    def __call__(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        query_positions: Array | None = None,
        key_positions: Array | None = None,
    ) -> Any:
        """Return the row of the table for each pair of query and key.

        Parameters
        ----------
        q_len, k_len, offset : int, optional
            Numbers of queries and keys, and position of the first query among the keys. If
            None, there are as many keys as queries, and the last query is at the last key.
        query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
            Integer positions instead of lengths; keys have those of the queries if None.

        Returns
        -------
        array, shape (query, key, n) or (query, key, n, batch)
            In the library and the dtype of the table; n is the `num_heads` of a `T5Bias`,
            the `embedding_size` of a `RelativePE`.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a number is not positive, shapes do not fit, or both lengths and positions are given.
        """
        xp, query, key = resolve_positions(
            q_len, k_len, offset, query_positions, key_positions, embeddings=self.embeddings
        )
        relative = subtract_positions(query, key, xp)
        checks.signed_integers("query_positions", relative, xp)
        return heads_on_axis_2(self._rows(relative, xp), xp)
