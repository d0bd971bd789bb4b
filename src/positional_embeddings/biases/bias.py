"""Relative positions, and the base of biases."""

from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from positional_embeddings.arguments import checks
from positional_embeddings.arguments.weights import ArrayDataclass
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import compute_on_device, get_backend
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import (
    AnyArray,
    Array,
    ArrayT,
    Device,
    Dtype,
    HostArray,
    Namespace,
    np,
)
from positional_embeddings.masks.index_ranges import IndexRanges, position_array, resolve_positions


def relative_positions(query_positions: ArrayT, key_positions: AnyArray, /) -> ArrayT:
    """Return the position of each key relative to each query.

    Parameters
    ----------
    query_positions, key_positions : array, shape (seq,) or (seq, batch)
        Positions of queries and of keys, integer or real. Integers are exact within 2047 in
        float16 and 255 in bfloat16; larger positions raise an error. Values in a trace, lazy or
        on a GPU are not checked.

    Returns
    -------
    array, shape (query, key) or (query, key, batch)
        Key minus query. The dtype is the default integer dtype of the library for integers,
        including unsigned integers, and float32 for float16 and bfloat16.

    Raises
    ------
    TypeError
        If an argument is not an array of real numbers, or their libraries differ.
    ValueError
        If the shapes do not match, or positions on the host are too large for the dtype of the
        result.

    Examples
    --------
    >>> import numpy as np
    >>> relative_positions(np.arange(2, 4), np.arange(4))
    array([[-2, -1,  0,  1],
           [-3, -2, -1,  0]])
    """
    backend = get_backend(query_positions=query_positions, key_positions=key_positions)
    query, key = _checked_positions(query_positions, key_positions, backend)
    return subtract_positions(query, key, backend)  # type: ignore[no-any-return]


def _checked_positions(
    query: Array, key: Array, backend: Backend, *, are_integers: bool = False
) -> tuple[Array, Array]:
    """Check positions of queries and keys; return both in one dtype.

    The dtype is signed for integers, and float32 for float16 and bfloat16.
    """
    xp, positions = backend.xp, {"query_positions": query, "key_positions": key}
    real_dtypes = []
    for name, array in positions.items():
        if are_integers:
            checks.integral(name, array, xp)
        checks.positions(name, array, backend)
        if array.ndim not in (1, 2):
            raise wrong_value(name, "have shape (seq,) or (seq, batch)", tuple(array.shape))
        if dtypes.is_real_floating(array.dtype, xp):
            real_dtypes.append(dtypes.compute_dtype(array.dtype, xp))
        else:
            positions[name] = position_array(name, array, backend)
    if query.ndim != key.ndim or not checks.shapes_broadcast([query.shape[1:], key.shape[1:]]):
        requirement = "have shape (key,), or (key, batch) with the batch of `query_positions`"
        raise wrong_value("key_positions", f"{requirement} {tuple(query.shape)}", tuple(key.shape))
    query, key = positions.values()
    if real_dtypes:
        dtype = xp.result_type(*real_dtypes)
        query, key = backend.astype(query, dtype), backend.astype(key, dtype)
    return query, key


def subtract_positions(query: Array | None, key: Array, backend: Backend) -> Array:
    """Return key minus query for each pair; None is a query at position 0."""
    if query is None:
        return key[None, ...]
    with backend.without_chunk_warnings(), backend.compute_context(key):
        return key[None, ...] - query[:, None, ...]


def real_relative_positions(query: Array | None, key: Array, backend: Backend) -> Array:
    """Return relative positions in the compute dtype."""
    return backend.astype(subtract_positions(query, key, backend), backend.dtype)


def supports_strided_views(backend: Backend) -> bool:
    """Return whether elements of an array may share memory."""
    return backend.is_numpy and not backend.is_compiling


def toeplitz(values: HostArray, q_len: int, k_len: int) -> Array:
    """Return values of consecutive queries and keys, (query, key, ...), as a read-only view.

    The input (query + key - 1, ...) is ordered by key minus query.
    """
    step, *strides = values.strides
    shape, strides = (q_len, k_len, *values.shape[1:]), [-step, step, *strides]
    return np.lib.stride_tricks.as_strided(values[q_len - 1 :], shape, strides, writeable=False)


def check_parameters(
    xp: Namespace, shapes: dict[str, tuple[str, ...]], **parameters: Array
) -> None:
    """Check that parameters are real, and axes of the same name have the same length."""
    checks.real_floating(xp, **parameters)
    lengths: dict[str, int] = {}
    for name, array in parameters.items():
        shape, axes = tuple(array.shape), shapes[name]
        if len(shape) != len(axes) or any(
            lengths.get(axis, n) != n for axis, n in zip(axes, shape, strict=True)
        ):
            parts = (f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in axes)
            raise wrong_value(name, f"have shape ({', '.join(parts)})", shape)
        lengths.update(zip(axes, shape, strict=True))


class Bias(ArrayDataclass):
    """Base class of biases, which attention evaluates block by block."""

    _takes_integers: ClassVar[bool] = False  # whether positions must be integers
    _is_relative: ClassVar[bool] = True  # whether it depends on key minus query only
    _calls_function: ClassVar[bool] = False  # whether it calls a function of the user

    @compute_on_device
    def __call__(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        offset: int | None = None,
        query_positions: AnyArray | None = None,
        key_positions: AnyArray | None = None,
        xp: Namespace | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
    ) -> Any:
        """Return the bias as an array.

        Parameters
        ----------
        q_len, k_len, offset : int, optional
            Numbers of queries and keys, and position of the first query among the keys. If
            None, `k_len` equals `q_len`, and the last query is at the last key.
        query_positions, key_positions : array, shape (seq,) or (seq, batch), optional
            Positions instead of lengths. If `key_positions` is None, it equals `query_positions`.
            `T5Bias` and `RelativePE` require integers. For float16 and bfloat16, see
            `relative_positions`.
        xp, dtype, device : optional
            Array library (NumPy if None), real dtype (its default if None) and device of the
            result, for a bias without arrays; `xp` and `device` only without positions.

        Returns
        -------
        array, shape (query, key, heads) or (query, key, heads, batch)
            Bias of each pair and head. The heads of a `RelativePE` are its features. With
            arrays, the library and the dtype are the library and the dtype of the first array.

        Raises
        ------
        TypeError
            If an argument is of the wrong type.
        ValueError
            If a number is not positive, shapes do not match, positions are too large for float16 or
            bfloat16, or both lengths and positions are passed.
        """
        arrays = self._arrays()
        if arrays:
            options = {"xp": xp, "dtype": dtype, "device": device}
            checks.omitted("for a bias with its own arrays", wrong_type, **options)
        positions = q_len, k_len, offset, query_positions, key_positions
        backend, queries, keys = resolve_positions(*positions, xp=xp, device=device, **arrays)
        default = next(iter(arrays.values())).dtype if arrays else backend.default_float_dtype
        dtype = checks.float_dtype(dtype, default, backend)
        if query_positions is None:
            bias = self._block(queries, keys, backend, dtype, order="C")
            return np.ascontiguousarray(bias) if supports_strided_views(backend) else bias
        query, key = _checked_positions(queries, keys, backend, are_integers=self._takes_integers)
        bias = self._at_positions(query, key, backend, dtype)
        return backend.xp.permute_dims(bias, (0, 1, 3, 2)) if bias.ndim == 4 else bias

    # NumPy scalars defer to `__rmul__`.
    __array_ufunc__ = None

    def __mul__(self, factor: float) -> "Bias":
        """Return the bias times a finite number, such as 1 / sqrt(head_size) for Falcon's ALiBi."""
        return _ScaledBias(self, checks.finite_number("factor", factor))

    __rmul__ = __mul__

    def _formula(self, query: Array | None, key: Array, backend: Backend) -> Array:  # noqa: ARG002
        """Return the bias between positions, (query, key, heads) or (query, key, batch, heads).

        None is a query at position 0.
        """
        name = type(self).__name__
        message = f"`{name}` has no formula of its own: pass a FunctionBias or an array instead."
        raise TypeError(message)

    def _heads(self) -> int:
        """Return the number of heads; 1 if the bias is the same for all heads."""
        heads: int = getattr(self, "num_heads", 1)
        return heads

    def _in_dtype(self, dtype: Dtype, query: Array | None, key: Array, backend: Backend) -> Array:
        """Return the bias between positions in a dtype; float16 is computed in float32."""
        with backend.compute_context(key):
            bias = self._formula(query, key, backend.with_dtype(dtype))
            return backend.astype(bias, dtype)

    def _block(
        self,
        queries: IndexRanges,
        keys: IndexRanges,
        backend: Backend,
        dtype: Dtype | None = None,
        order: str = "F",
    ) -> Array:
        """Return the bias between ranges of positions, in `_compute_dtype` if `dtype` is None.

        It may be a view, with the heads last in memory ("C") or first ("F"), as in scores.
        """
        q_ranges, k_ranges = queries.ranges or (), keys.ranges or ()
        are_consecutive, is_single = len(q_ranges) == len(k_ranges) == 1, queries.size == 1
        is_toeplitz = self._is_relative and are_consecutive
        is_toeplitz = is_toeplitz and (is_single or supports_strided_views(backend))
        if backend.is_chunked or not is_toeplitz:
            query, key = (ranges.indices(backend, self._heads()) for ranges in (queries, keys))
            return self._at_positions(query, key, backend, dtype)
        dtype = self._compute_dtype(backend) if dtype is None else dtype
        backend = backend.with_dtype(dtype)
        # Each relative position once, in the compute dtype if it is exact.
        ((q_start, q_stop),), ((k_start, k_stop),) = q_ranges, k_ranges
        start, stop = k_start - q_stop + 1, k_stop - q_start
        is_exact = max(-start, stop) * float(backend.xp.finfo(backend.dtype).eps) < 1
        takes_floats = is_exact and not self._takes_integers
        position_dtype = backend.dtype if takes_floats else backend.int_dtype
        relative = backend.xp.arange(start, stop, dtype=position_dtype, device=backend.device)
        bias = self._in_dtype(dtype, None, relative, backend)
        if is_single:
            return bias
        return toeplitz(np.asarray(bias[0], order=order), queries.size, keys.size)

    def _at_positions(
        self, query: Array, key: Array, backend: Backend, dtype: Dtype | None = None
    ) -> Array:
        """Return the bias between arrays of positions, in `_compute_dtype` if `dtype` is None."""
        dtype = self._compute_dtype(backend) if dtype is None else dtype
        compute = self._by_chunks if backend.is_chunked else self._in_dtype
        return compute(dtype, query, key, backend.with_dtype(dtype))

    def _at_pairs(self, query: Array, key: Array, backend: Backend) -> Array:
        """Return the bias between queries and their keys, (query, key, batch, heads).

        The positions are (query, 1, batch or 1) and (query, key, batch or 1).
        """
        xp, (n, m, _) = backend.xp, key.shape
        batch = max(query.shape[2], key.shape[2])
        # Each query of each sequence becomes a sequence with one query.
        query = backend.reshape(xp.broadcast_to(query, (n, 1, batch)), (1, n * batch))
        key = xp.permute_dims(xp.broadcast_to(key, (n, m, batch)), (1, 0, 2))
        bias = self._at_positions(query, backend.reshape(key, (m, n * batch)), backend)
        bias = backend.reshape(bias, (m, n, batch, bias.shape[-1]))
        return xp.permute_dims(bias, (1, 0, 2, 3))

    def _compute_dtype(self, backend: Backend) -> Dtype:
        """Return the dtype of the first array, float32 instead of float16 and bfloat16."""
        arrays = self._arrays().values()
        return next((dtypes.compute_dtype(a.dtype, backend.xp) for a in arrays), backend.dtype)

    def _by_chunks(self, dtype: Dtype, query: Array, key: Array, backend: Backend) -> Array:
        """Return the bias between chunked positions, one task for each chunk."""
        arrays, without_arrays = self._arrays(), copy(self)
        checks.set_fields(without_arrays, **dict.fromkeys(arrays))
        one_chunk = [{axis: (n,) for axis, n in enumerate(x.shape)} for x in arrays.values()]
        q_chunks, *batch = backend.chunks(query)
        key = backend.rechunk(key, dict(enumerate(batch, start=1)))
        return backend.map_chunks(
            partial(_bias_of_chunk, without_arrays, tuple(arrays), dtype),
            query[:, None, ..., None],
            key[None, ..., None],
            *map(backend.rechunk, arrays.values(), one_chunk),
            chunks=(q_chunks, backend.chunks(key)[0], *batch, (self._heads(),)),
            dtype=dtype,
            name=type(self).__name__,
        )


@dataclass(frozen=True, eq=False, repr=False)
class _ScaledBias(Bias):
    """A bias times a number."""

    bias: Bias = field(metadata={"part": True})
    factor: float

    def __repr__(self) -> str:
        return f"{self.factor} * {self.bias!r}"

    def __post_init__(self) -> None:
        flags = ("_takes_integers", "_is_relative", "_calls_function")
        checks.set_fields(self, **{name: getattr(self.bias, name) for name in flags})

    def _formula(self, query: Array | None, key: Array, backend: Backend) -> Array:
        return self.bias._formula(query, key, backend) * self.factor

    def _heads(self) -> int:
        return self.bias._heads()

    def _arrays(self) -> dict[str, Array]:
        return self.bias._arrays()

    def _by_chunks(self, dtype: Dtype, query: Array, key: Array, backend: Backend) -> Array:
        return self.bias._by_chunks(dtype, query, key, backend) * self.factor


def _bias_of_chunk(
    bias: Bias, names: tuple[str, ...], dtype: Dtype, query: Array, key: Array, *arrays: Array
) -> Array:
    """Return the bias between the positions of a chunk, NumPy or CuPy arrays."""
    bias = copy(bias)
    checks.set_fields(bias, **dict(zip(names, arrays, strict=True)))
    return bias._in_dtype(dtype, query[:, 0, ..., 0], key[0, ..., 0], get_backend(query=query))
