"""CuPy: devices, streams, and kernels written in CUDA."""

from threading import get_ident
from typing import Any

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.errors import format_value, wrong_type
from positional_embeddings.arrays.namespace import Array, Device, Namespace

# cudaStreamPerThread
_STREAM_OF_THREAD = 2


class CuPyBackend(Backend):
    """CuPy.

    Do not use its `vecdot`, one product for each row, nor `clip`, with 15 launches and four waits.
    """

    is_mutable = supports_out = can_cache_arrays = reads_values = shows_tracing = True
    has_cuda_kernels = True
    rotation_kernel = "cupy"

    def address(self, array: Array) -> int:
        return int(array.data.ptr)

    def compute_context(self, x: Array) -> Any:
        return x.device

    @staticmethod
    def current_device(device: Device, xp: Namespace) -> Any:
        # CuPy computes on the current device alone, and creates arrays there, despite `device=`.
        try:
            return xp.cuda.Device(device)
        except (TypeError, ValueError):
            requirement = "be a cupy.cuda.Device or its number"
            raise wrong_type("device", requirement, format_value(device)) from None

    @property
    def cache_key(self) -> Any:
        # A cached array belongs to its stream: other streams do not wait for the computation of an
        # array, nor before they reuse its memory.
        device = -1 if self.device is None else int(self.device)  # -1 is the current one
        pointer = self.xp.cuda.get_current_stream(device).ptr
        # The default streams of all threads have one pointer.
        return *super().cache_key, (pointer, get_ident() if pointer == _STREAM_OF_THREAD else 0)
