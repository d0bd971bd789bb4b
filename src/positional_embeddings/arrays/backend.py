"""The space of a call: array library, device, dtypes, and what the library can do."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from array_api_compat import device as _device

from positional_embeddings.arrays.dtypes import compute_dtype
from positional_embeddings.arrays.namespace import (
    Array,
    Device,
    Dtype,
    HostArray,
    Namespace,
    Shape,
    drop_none,
    ignore_fp_errors,
    is_compiling,
    np,
)

# Less than the total of the weights of any keys; to 1 it adds nothing.
TINY_WEIGHT = 2.0**-60


class Loops(NamedTuple):
    """Control flow of a library that compiles, where a loop of Python would be unrolled."""

    # From a function of (state, element), a first state, and arrays whose first axis it goes
    # along, to the last state and what else the function returned. What it computes on the
    # way is computed again for a gradient, and not kept.
    scan: Callable[..., Any]
    cond: Callable[..., Any]  # of a 0-d condition, two functions, and their arguments


@dataclass(frozen=True, eq=False)
class Backend:
    """Where a call computes; found once, by `get_backend` or `backend_for`.

    Each library has a class of its own, which knows what it can do beyond the Array API standard,
    and where it departs from it. This one has the safe answers, for a library that is not known:
    its arrays are never written to, never read, and never kept for another call.
    """

    xp: Namespace
    device: Device  # to make arrays on; None leaves it to the library
    dtype: Dtype  # to compute in: real, float32 for half precision
    integer: Dtype  # dtype of positions: int64, or int32 on a device without 64 bits
    widest: Dtype  # float64, or float32 on a device without it
    default_float: Dtype  # that the library gives to numbers without a dtype

    is_mutable = False  # parts of an array can be assigned
    supports_out = False  # element-wise functions take `out=`
    keeps_tables = False  # an array made in one call may serve another one
    reads_values = False  # values can be read at once, outside a trace
    shows_tracing = False  # an array of a trace has a type of its own
    has_cuda_kernels = False  # its kernels, written in CUDA, are compiled at their first call
    has_host_arrays = False  # its arrays are NumPy's, which results of the host need no copy for
    computes_in_blocks = False  # blocks that fit the cache take less time than whole arrays
    rotation_kernel = ""  # the library that rotates its arrays in one pass
    is_chunked = False  # arrays are computed later, chunk by chunk
    records_gradients = False  # operations are recorded, to be differentiated
    exponent_unit = 1.0  # `scaled_exp` takes exponents in multiples of its reciprocal

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        """Return a namespace that keeps the standard: `xp`, or one that forwards to it."""
        return xp

    def computing_in(self, dtype: Dtype) -> "Backend":
        """Return the same space with a dtype to compute in, float32 for half precision."""
        dtype = compute_dtype(dtype, self.xp)
        return self if dtype == self.dtype else replace(self, dtype=dtype)

    # Where an array is, and whether its values are there.

    @classmethod
    def single_device(cls, array: Array) -> Device:
        """Return the device of an array; None in a trace, or over several devices."""
        try:
            return _device(array)
        except AttributeError:
            return None

    @classmethod
    def device_for(cls, array: Array) -> Device:
        """Return the device to make arrays on that meet this one; None leaves it to the library."""
        return cls.single_device(array)

    def is_on_host(self, array: Array) -> bool:
        """Tell whether an array is in the memory of the host."""
        return "cpu" in str(self.single_device(array)).lower()

    @property
    def is_compiling(self) -> bool:
        """Whether PyTorch compiles what is called; arrays of NumPy are parts of its graph."""
        return is_compiling()

    def is_concrete(self, array: Array) -> bool:  # noqa: ARG002
        """Tell whether the values of an array are there to be read, as far as its type shows."""
        return self.reads_values

    def to_numpy(self, array: Array) -> HostArray:
        """Return an array of any device as one of NumPy; a chunked library has to compute it."""
        # NumPy has no bfloat16.
        wide = self.astype(array, compute_dtype(array.dtype, self.xp))
        return self._to_numpy(wide)  # type: ignore[no-any-return]

    def _to_numpy(self, array: Array) -> Array:
        try:
            return np.asarray(array)
        except (RuntimeError, TypeError):  # it is on another device
            return np.from_dlpack(array, device="cpu")

    def concrete_bool(self, condition: Array) -> bool:
        """Tell whether a 0-d boolean array is True, and there to be read.

        False if its value is not there: dask would have to compute it, and JAX and PyTorch
        have none while they trace or compile.
        """
        if not self.is_concrete(condition):
            return False
        try:
            return bool(condition)
        except Exception:  # noqa: BLE001 - every library has exceptions of its own for this
            return False

    def values_on_host(self, array: Array) -> HostArray | None:
        """Return the values of an array that is in the memory of the host, None if they are not.

        A device is not waited for, nothing lazy is computed, and no trace takes them for constants.
        """
        if not (self.shows_tracing and self.is_concrete(array) and self.is_on_host(array)):
            return None
        return self.to_numpy(array)

    # Memory.

    def supports_inplace(self, *arrays: Array) -> bool:  # noqa: ARG002
        """Tell whether a result of these arrays may be written part by part."""
        return self.is_mutable

    def strides(self, array: Array) -> tuple[int, ...] | None:
        """Return the distance of neighbours on each axis; None if the library does not say."""
        strides = getattr(array, "strides", None)
        return None if strides is None else tuple(map(abs, strides))

    def address(self, array: Array) -> int | None:  # noqa: ARG002
        """Return where the first element of an array is in memory, None if it may move."""
        return None

    def owner(self, array: Array) -> Array:
        """Return the object that the memory of an array belongs to."""
        base = getattr(array, "base", None)
        return self.owner(base) if isinstance(base, type(array)) else array

    def shares_memory(self, array: Array, other: Array) -> bool:
        """Tell whether writing to an array may change what is still to be read of another.

        It cannot if both are the same numbers in the same places, and may if the library does
        not say.
        """
        may_share = getattr(self.xp, "may_share_memory", None)
        if may_share is None or array is other:
            return array is not other
        return bool(may_share(array, other)) and self._place(array) != self._place(other)

    def _place(self, array: Array) -> object:
        """Return address, shape and strides as one object."""
        interface = getattr(array, "__array_interface__", None)
        return interface or array.__cuda_array_interface__

    # Functions that a library computes faster, or wrongly, as the standard spells them.

    def apply(self, function: Callable[..., Array], x: Array, *others: Array) -> Array:
        """Return ``function(x, *others)``, written to `x` itself if the library can."""
        return function(x, *others)

    def scaled_exp(self, x: Array) -> Array:
        """Return ``exp(x / exponent_unit)``, far from overflow and underflow; may overwrite `x`."""
        return self.apply(self.xp.exp, x)

    def astype(self, x: Array, dtype: Dtype) -> Array:
        """Return an array in a dtype, itself if it has it."""
        return self.xp.astype(x, dtype, copy=False)

    def matmul(self, rows: Array, table: Array) -> Array:
        """Return ``rows @ table``."""
        return rows @ table

    def grouped_matmul(self, rows: Array, table: Array) -> Array:
        """Return ``rows @ table``, in one product for query heads that share a key head."""
        if table.ndim == 2 or table.shape[-3] != 1 or rows.shape[-3] == 1:
            return self.matmul(rows, table)
        *others, groups, count, inner = rows.shape
        merged = self.reshape(rows, (*others, groups * count, inner))
        result = self.matmul(merged, table[..., 0, :, :])
        return self.reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]))

    def fused_attention(self, query: Array, key: Array, value: Array, scale: float) -> Array:
        """Return the attention of queries that see all keys, None without a faster method.

        Also None if the result is not finite. Several heads of queries, on axis -3, may share one
        of keys.
        """

    def transpose(self, x: Array) -> Array:
        """Return an array with its last two axes exchanged."""
        return self.xp.matrix_transpose(x)

    def move_axis(self, x: Array, source: int, target: int) -> Array:
        """Return an array with an axis moved; PyTorch's `vmap` does not know `moveaxis`."""
        order = list(range(x.ndim))
        order.insert(target % x.ndim, order.pop(source))
        return self.xp.permute_dims(x, order)

    def row_max(self, x: Array) -> Array:
        """Return the maximum along the last axis, which stays; no less than any finite number."""
        least = float(self.xp.finfo(x.dtype).min)
        return self.clip(self.xp.max(x, axis=-1, keepdims=True), least)

    def row_sum(self, x: Array, initial: float = 0.0) -> Array:
        """Return `initial` and the sum along the last axis, which stays."""
        total = self.xp.sum(x, axis=-1, keepdims=True)
        return total + initial if initial else total

    def sum_of_all(self, x: Array) -> Array:
        """Return the sum of all numbers, or of their squares, which is finite only if they are."""
        return self.xp.sum(x)

    def is_finite(self, number: Array) -> bool:
        """Tell whether a number, which is there to be read, is finite."""
        return self.concrete_bool(self.xp.isfinite(number))

    def fill(self, x: Array, mask: Array, value: float) -> Array:
        """Return `x` with a value where a mask is True; NumPy's `x` itself is written to."""
        return self.xp.where(mask, value, x)

    def clip(self, x: Array, least: float, most: float | None = None) -> Array:
        """Return `x` within bounds; None is no bound."""
        return self.xp.maximum(x if most is None else self.xp.minimum(x, most), least)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return an array in another shape, with or without elements."""
        return self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        """Return where values stand in an ordered array, in the dtype of the values."""
        return self.astype(self.xp.searchsorted(ordered, values, side=side), values.dtype)

    def take_entries(self, table: Array, indices: Array, axis: int) -> Array:
        """Return the entries of a table along an axis, which becomes the axes of the indices."""
        if indices.ndim == 1:
            return self.xp.take(table, indices, axis=axis)
        taken = self.xp.take(table, self.xp.reshape(indices, (prod(indices.shape),)), axis=axis)
        shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
        return self.xp.reshape(taken, shape)

    def contiguous_rows(self, x: Array) -> Array:
        """Return an array whose entries along the last axis are neighbours in memory."""
        return x

    # Chunks: an array of a library without them is one chunk.

    def chunks(self, x: Array) -> tuple[Shape, ...]:
        """Return the lengths of the chunks on each axis, NaN where dask does not know them."""
        return tuple((n,) for n in x.shape)

    def rechunk(self, x: Array, chunks: Mapping[int, Shape]) -> Array:  # noqa: ARG002
        """Return an array with these chunks on some axes; axes of length 1 stay."""
        return x

    def map_chunks(
        self,
        function: Callable[..., Array],
        *arrays: Array,
        chunks: tuple[Shape, ...],
        dtype: Dtype,  # noqa: ARG002
        name: str = "",  # noqa: ARG002
        numbered: bool = False,
        shared: Array = None,
    ) -> Array:
        """Return what a function makes of the chunks in the same place of arrays.

        `chunks` and `dtype` are those of the result, and `name` is that of all tasks. The function
        gets `block_id`, the numbers of its chunk on all axes, if they are `numbered`, and `shared`,
        what all tasks have in common. The arrays have as many axes as the result, or lack the first
        ones. On each axis they have as many chunks as it, or one.
        """
        numbers = {"block_id": (0,) * len(chunks)} if numbered else {}
        return function(*arrays, **numbers, **drop_none(shared=shared))

    def arange(
        self, start: int, stop: int, _shape: Shape, _axis: int, _values: int, _dtype: Dtype
    ) -> Array:
        """Return integers for an axis of an array of a shape, in its chunks if the library has any.

        The array has a number of values of a dtype at each place, such as one for each head.
        """
        return self.xp.arange(start, stop, dtype=self.integer, device=self.device)

    # Contexts.

    def without_chunk_warnings(self) -> AbstractContextManager[object]:
        """Return a context without warnings of many chunks, as pairs of positions have."""
        return nullcontext()

    def compute_context(self, x: Array) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return a context in which products have the dtype of their operands, and nothing warns.

        A library with a current device computes on the device of `x` there.
        """
        return ignore_fp_errors()

    @staticmethod
    def current_device(device: Device, xp: Namespace) -> AbstractContextManager[object]:  # noqa: ARG004
        """Return a context in which the library computes on a device."""
        return nullcontext()

    @property
    def table_key(self) -> Any:
        """What tables are kept for: library, device and stream; None if none may be kept."""
        return (self.xp, str(self.device)) if self.keeps_tables else None

    # Training and compiling.

    def is_trained(self, array: Array) -> bool:  # noqa: ARG002
        """Tell whether an array is a parameter, or gets a gradient."""
        return False

    def loops(self) -> Loops | None:
        """Return the loops of the library if what is called now is compiled."""
        return None


class NamespaceProxy:
    """A namespace that has the names of a library, but for those that it defines itself."""

    def __init__(self, library: Namespace) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)
