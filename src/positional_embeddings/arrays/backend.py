"""The backend of a call: array library, device and dtypes, and abilities of the library."""

from collections.abc import Callable, Mapping, Sequence
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

# Below any total of attention weights; adding it to 1 gives 1.
TINY_WEIGHT = 2.0**-60


class Loops(NamedTuple):
    """Control flow of a compiling library, which would unroll a loop of Python."""

    # (function of state and element, initial state, arrays) -> final state, stacked outputs. It
    # scans the first axis of the arrays, and recomputes intermediate results for a gradient.
    scan: Callable[..., Any]
    cond: Callable[..., Any]  # (0-d condition, true function, false function, *arguments)
    # (0-d condition) -> whether it is True in the whole batch of `vmap`, which computes both
    # functions of a condition that differs within the batch.
    in_batch: Callable[..., Any]
    on_cpu: Callable[..., Any]  # (function for the CPU, function for other devices, *arguments)
    is_cpu_default: bool  # whether the default device is the CPU; a trace has no device


@dataclass(frozen=True, eq=False)
class Backend:
    """Array library, device and dtypes of a call.

    `get_backend` returns the backend of the arrays of a call, `backend_for` the backend of the
    options `xp` and `device`. A subclass for each library adds its abilities beyond the Array API
    standard, and its deviations from it. This class has safe defaults for unknown libraries: it
    neither writes to arrays, nor reads their values, nor caches them.
    """

    xp: Namespace  # functions of the library, as the standard defines them
    device: Device  # device of new arrays; None is the default device of the library
    dtype: Dtype  # real dtype to compute in; float32 for half precision
    int_dtype: Dtype  # dtype of positions: int64, or int32 on a device without int64
    widest_float_dtype: Dtype  # widest real dtype of the device: float64 or float32
    default_float_dtype: Dtype  # default real dtype of the library

    # Abilities.
    is_mutable = False  # elements can be assigned
    supports_put = False  # `put` assigns elements, in place in a compiled function
    supports_out = False  # element-wise functions take `out=`
    can_cache_arrays = False  # arrays may outlive the call that creates them
    # Arrays of an eager library have values, traced arrays (JAX, torch.compile) have none, and a
    # lazy library (dask) would compute them. `is_concrete` asks for one array. `concrete_bool` and
    # `values_on_host` read values, if they are there.
    reads_values = False  # values of arrays can be read without delay, unless traced
    shows_tracing = False  # the type of an array shows whether it is traced
    has_cuda_kernels = False  # kernels written in CUDA run on its arrays
    is_numpy = False  # its arrays are NumPy arrays
    shares_numpy_memory = False  # its arrays in host memory may share memory with NumPy arrays
    computes_in_blocks = False  # blocks that fit into the CPU cache are faster than whole arrays
    rotation_kernel = ""  # library of the kernel that rotates its arrays, "" if there is none
    is_chunked = False  # arrays are computed lazily, chunk by chunk
    records_gradients = False  # operations are recorded for automatic differentiation
    exponent_unit = 1.0  # `scaled_exp` computes exp(x / exponent_unit)

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        """Return `xp`, or a wrapper of it that conforms to the standard."""
        return xp

    def with_dtype(self, dtype: Dtype) -> "Backend":
        """Return the backend with another dtype to compute in, float32 for half precision."""
        dtype = compute_dtype(dtype, self.xp)
        return self if dtype == self.dtype else replace(self, dtype=dtype)

    # Devices and values.

    @classmethod
    def single_device(cls, array: Array) -> Device:
        """Return the device of an array, None if it is traced or spans several devices."""
        try:
            return _device(array)
        except AttributeError:
            return None

    @classmethod
    def device_for(cls, array: Array) -> Device:
        """Return the device of new arrays to combine with an array, None for the default."""
        return cls.single_device(array)

    def is_on_host(self, array: Array) -> bool:
        """Return whether an array is in host memory."""
        return "cpu" in str(self.single_device(array)).lower()

    @property
    def is_compiling(self) -> bool:
        """Whether PyTorch is compiling; NumPy arrays then belong to its graph, too."""
        return is_compiling()

    def is_concrete(self, array: Array) -> bool:  # noqa: ARG002
        """Return whether the values of an array can be read, judged by its type."""
        return self.reads_values

    def to_numpy(self, array: Array) -> HostArray:
        """Return an array as a NumPy array; copy it from its device, and compute a lazy one."""
        # NumPy has no bfloat16.
        upcast = self.astype(array, compute_dtype(array.dtype, self.xp))
        return self._to_numpy(upcast)  # type: ignore[no-any-return]

    def _to_numpy(self, array: Array) -> Array:
        try:
            return np.asarray(array)
        except (RuntimeError, TypeError):  # it is on another device
            return np.from_dlpack(array, device="cpu")

    def concrete_bool(self, condition: Array) -> bool:
        """Return whether a 0-d boolean array is concrete and True.

        The result is False if the value cannot be read: dask would have to compute it, and JAX
        and PyTorch have no values while they trace or compile.
        """
        if not self.is_concrete(condition):
            return False
        try:
            return bool(condition)
        except Exception:  # noqa: BLE001 - the type of the error depends on the library
            return False

    def values_on_host(self, array: Array) -> HostArray | None:
        """Return the values of a concrete array in host memory, else None.

        It neither waits for a device, nor computes a lazy array, nor makes constants of a trace.
        """
        if not (self.shows_tracing and self.is_concrete(array) and self.is_on_host(array)):
            return None
        return self.to_numpy(array)

    def call_with_numpy(
        self,
        function: Callable[..., HostArray],
        arrays: Sequence[Array],
        dtype: Dtype,
    ) -> Array:
        """Return the result of a function of NumPy arrays and a dtype, without a copy.

        The result is None unless the arrays are concrete tensors of PyTorch in host memory that
        record no gradient. NumPy computes in blocks, which takes a tenth of the time.
        """

    # Memory.

    def is_read_only(self, array: Array) -> bool:  # noqa: ARG002
        """Return whether an array was made in the inference mode of PyTorch, which has ended."""
        return False

    def supports_inplace(self, *arrays: Array) -> bool:  # noqa: ARG002
        """Return whether a result of these arrays may be written in place."""
        return self.is_mutable

    def strides(self, array: Array) -> tuple[int, ...] | None:
        """Return the absolute stride of each axis, None if the library does not have strides."""
        strides = getattr(array, "strides", None)
        return None if strides is None else tuple(map(abs, strides))

    def address(self, array: Array) -> Any:
        """Return the memory address of the first element of an array of NumPy or CuPy."""

    def shares_memory(self, array: Array, other: Array) -> bool:
        """Return whether element-wise writing to an array may change unread elements of `other`.

        The result is False for two views of the same elements in the same order, and True if the
        library cannot compare memory.
        """
        may_share = getattr(self.xp, "may_share_memory", None)
        if may_share is None or array is other:
            return array is not other
        overlap = bool(may_share(array, other))
        return overlap and self._array_interface(array) != self._array_interface(other)

    def _array_interface(self, array: Array) -> object:
        """Return address, shape and strides as one comparable object."""
        interface = getattr(array, "__array_interface__", None)
        return interface or array.__cuda_array_interface__

    # Functions of the standard with faster or corrected versions for some libraries.

    def apply(self, function: Callable[..., Array], x: Array, *operands: Array) -> Array:
        """Return ``function(x, *operands)``, which overwrites `x` if the library can."""
        return function(x, *operands)

    def scaled_exp(self, x: Array) -> Array:
        """Return ``exp(x / exponent_unit)`` of moderate numbers; may overwrite `x`."""
        return self.apply(self.xp.exp, x)

    def astype(self, x: Array, dtype: Dtype) -> Array:
        """Return an array in a dtype, without a copy if it has the dtype."""
        return self.xp.astype(x, dtype, copy=False)

    def matmul(self, rows: Array, table: Array) -> Array:
        """Return ``rows @ table``."""
        return rows @ table

    def grouped_matmul(self, rows: Array, table: Array) -> Array:
        """Return ``rows @ table``, in one product for all query heads that share a key head."""
        if table.ndim == 2 or table.shape[-3] != 1 or rows.shape[-3] == 1:
            return self.matmul(rows, table)
        *batch, groups, count, inner = rows.shape
        merged = self.reshape(rows, (*batch, groups * count, inner))
        result = self.matmul(merged, table[..., 0, :, :])
        return self.reshape(result, (*result.shape[:-2], groups, count, table.shape[-1]))

    def scalar_products(self, rows: Array, others: Array) -> Array:
        """Return ``rows @ others.mT``, in one product for all query heads that share a key head."""
        return self.grouped_matmul(rows, self.transpose(others))

    def fused_attention(self, query: Array, key: Array, value: Array, scale: float) -> Array:
        """Return unmasked attention, None if there is no faster method or it is not finite.

        Several query heads, on axis -3, may share a key head.
        """

    def transpose(self, x: Array) -> Array:
        """Return an array with its last two axes swapped."""
        return self.xp.matrix_transpose(x)

    def move_axis(self, x: Array, source: int, target: int) -> Array:
        """Return an array with an axis moved; PyTorch's `vmap` does not support `moveaxis`."""
        order = list(range(x.ndim))
        order.insert(target % x.ndim, order.pop(source))
        return self.xp.permute_dims(x, order)

    def row_max(self, x: Array) -> Array:
        """Return the maximum of each row, at least the lowest finite number; keep the axis."""
        lowest = float(self.xp.finfo(x.dtype).min)
        return self.clip(self.xp.max(x, axis=-1, keepdims=True), lowest)

    def row_sum(self, x: Array, initial: float = 0.0) -> Array:
        """Return the sum of each row plus `initial`; keep the axis."""
        total = self.xp.sum(x, axis=-1, keepdims=True)
        return total + initial if initial else total

    def sum_of_all(self, x: Array) -> Array:
        """Return the sum of all elements or of their squares, finite only if all elements are."""
        return self.xp.sum(x)

    def is_finite(self, number: Array) -> bool:
        """Return whether a concrete number is finite."""
        return self.concrete_bool(self.xp.isfinite(number))

    def computed_once(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return two arrays, the first within 1, that a compiler computes once for all uses."""
        return x, y

    def fill(self, x: Array, mask: Array, value: float) -> Array:
        """Return `x` with a value where a mask is True; NumPy overwrites `x`."""
        return self.xp.where(mask, value, x)

    def clip(self, x: Array, min_value: float, max_value: float | None = None) -> Array:
        """Return `x` clipped to bounds; None is no upper bound."""
        return self.xp.maximum(x if max_value is None else self.xp.minimum(x, max_value), min_value)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return an array, which may be empty, in another shape."""
        return self.xp.reshape(x, shape)

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        """Return the insertion points of values in a sorted array, in the dtype of the values."""
        return self.astype(self.xp.searchsorted(ordered, values, side=side), values.dtype)

    def take_entries(self, table: Array, indices: Array, axis: int) -> Array:
        """Return the entries of a table along an axis; the axes of `indices` replace the axis."""
        if indices.ndim == 1:
            return self.xp.take(table, indices, axis=axis)
        taken = self.xp.take(table, self.xp.reshape(indices, (prod(indices.shape),)), axis=axis)
        shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
        return self.xp.reshape(taken, shape)

    def put(self, x: Array, index: Any, values: Array) -> Array:
        """Return `x` with values at an index, in a library that `supports_put`.

        Values at indices out of bounds are dropped.
        """

    def contiguous_rows(self, x: Array) -> Array:
        """Return an array that is contiguous along its last axis, in a library with strides."""
        return x

    # Chunks: without a chunked library, an array is one chunk.

    def chunks(self, x: Array) -> tuple[Shape, ...]:
        """Return the lengths of the chunks along each axis, NaN if dask does not know them."""
        return tuple((n,) for n in x.shape)

    def without_empty_chunks(self, x: Array) -> Array:
        """Return an array without chunks of length 0, if it has elements."""
        return x

    def rechunk(self, x: Array, chunks: Mapping[int, Shape]) -> Array:  # noqa: ARG002
        """Return an array with new chunks along some axes, unchanged along axes of length 1."""
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
        """Return the results of a function of corresponding chunks, as one array.

        The result has these `chunks` and this `dtype`. Arrays broadcast against it: they may lack
        leading axes, and may have one chunk along an axis. The tasks are called `name`. Each gets
        `shared` and, if `numbered`, `block_id`, the index of its chunk along each axis.
        """
        numbers = {"block_id": (0,) * len(chunks)} if numbered else {}
        return function(*arrays, **numbers, **drop_none(shared=shared))

    def arange(
        self,
        start: int,
        stop: int,
        shape: Shape,  # noqa: ARG002
        axis: int,  # noqa: ARG002
        num_values: int,  # noqa: ARG002
        dtype: Dtype,  # noqa: ARG002
    ) -> Array:
        """Return integers for an axis of an array of this shape, chunked like the array.

        The array has `num_values` values of a dtype for each element, such as one for each head.
        """
        return self.xp.arange(start, stop, dtype=self.int_dtype, device=self.device)

    # Contexts.

    def without_chunk_warnings(self) -> AbstractContextManager[object]:
        """Return a context without warnings about many chunks, which pairs of positions have."""
        return nullcontext()

    def compute_context(self, x: Array) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return a context without autocast and floating-point warnings, on the device of `x`."""
        return ignore_fp_errors()

    @staticmethod
    def current_device(device: Device, xp: Namespace) -> AbstractContextManager[object]:  # noqa: ARG004
        """Return a context in which a device is the current one of the library."""
        return nullcontext()

    @property
    def cache_key(self) -> Any:
        """Key of cached arrays: library, device and stream; None if arrays must not be cached."""
        return (self.xp, str(self.device)) if self.can_cache_arrays else None

    # Training and compilation.

    def is_trainable(self, array: Array) -> bool:  # noqa: ARG002
        """Return whether an array is a parameter or requires a gradient."""
        return False

    def loops(self) -> Loops | None:
        """Return the loops of the library while it compiles, else None."""
        return None


class NamespaceProxy:
    """A namespace that forwards to a library all names that it does not define itself."""

    def __init__(self, library: Namespace) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)
