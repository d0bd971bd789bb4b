"""CuPy: devices, streams, and kernels that are launched one by one."""

from collections.abc import Callable
from threading import get_ident
from typing import Any

from positional_embeddings.arrays.errors import shown, wrong_type
from positional_embeddings.arrays.namespace import Array, Device, Namespace
from positional_embeddings.arrays.space import Space

# cudaStreamPerThread
_STREAM_OF_THREAD = 2


class CuPy(Space):
    """CuPy.

    Its `vecdot` is a product for each row, and `clip` takes 15 launches and four waits.
    """

    can_write = takes_out = keeps_tables = reads_values = shows_tracing = has_fmod = True
    compiles_kernels = True
    rotation_kernel = "cupy"
    has_current_device = True

    def address(self, array: Array) -> int:
        return int(array.data.ptr)

    def is_elsewhere(self, array: Array) -> bool:
        return bool(array.data.device_id != self.xp.cuda.runtime.getDevice())

    def undisturbed(self, x: Array) -> Any:
        return x.device

    def into(self, function: Callable[..., Array], x: Array, *others: Array) -> Array:
        return function(x, *others, out=x)

    def matmul(self, rows: Array, table: Array) -> Array:
        # It makes both operands contiguous, and writes lists of pointers for an axis that
        # broadcasts: it would copy a transposed table of all keys.
        few = rows.shape[-2] < rows.shape[-1]
        if table.ndim == 2 or not few or table.strides[-2] != table.itemsize:
            return rows @ table
        return self.transpose(self.transpose(table) @ self.transpose(rows))

    @staticmethod
    def current_device(device: Device, xp: Namespace) -> Any:
        # Elsewhere it refuses to compute, and its creation functions make their arrays on the
        # current device, whatever their `device=` says.
        try:
            return xp.cuda.Device(device)
        except (TypeError, ValueError):
            what = "be a cupy.cuda.Device or its number"
            raise wrong_type("device", what, shown(device)) from None

    @property
    def table_key(self) -> Any:
        # One stream does not wait for what another one computes or copies, nor before memory that
        # it has freed is written to: arrays that are kept have to stay with their stream.
        pointer = self.xp.cuda.get_current_stream(int(self.device)).ptr
        # The default streams of all threads have one pointer.
        return *super().table_key, (pointer, get_ident() if pointer == _STREAM_OF_THREAD else 0)
