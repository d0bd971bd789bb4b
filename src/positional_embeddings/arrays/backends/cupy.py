"""CuPy: devices, streams, and kernels that are launched one by one."""

from threading import get_ident
from typing import Any

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import format_value, wrong_type
from positional_embeddings.arrays.namespace import Array, Device, Namespace

# cudaStreamPerThread
_STREAM_OF_THREAD = 2


class CuPy(Backend):
    """CuPy.

    Its `vecdot` is a product for each row, and `clip` takes 15 launches and four waits.
    """

    is_mutable = supports_out = keeps_tables = reads_values = shows_tracing = True
    has_cuda_kernels = True
    rotation_kernel = "cupy"

    def address(self, array: Array) -> int:
        return int(array.data.ptr)

    def compute_context(self, x: Array) -> Any:
        return x.device

    @staticmethod
    def current_device(device: Device, xp: Namespace) -> Any:
        # Elsewhere it refuses to compute, and its creation functions make their arrays on the
        # current device, whatever their `device=` says.
        try:
            return xp.cuda.Device(device)
        except (TypeError, ValueError):
            requirement = "be a cupy.cuda.Device or its number"
            raise wrong_type("device", requirement, format_value(device)) from None

    @property
    def table_key(self) -> Any:
        # One stream does not wait for what another one computes or copies, nor before memory that
        # it has freed is written to: arrays that are kept have to stay with their stream.
        device = -1 if self.device is None else int(self.device)  # -1 is the current one
        pointer = self.xp.cuda.get_current_stream(device).ptr
        # The default streams of all threads have one pointer.
        return *super().table_key, (pointer, get_ident() if pointer == _STREAM_OF_THREAD else 0)
