"""PyTorch: automatic differentiation, compilation, autocast, and strides in elements."""

import sys
from contextlib import AbstractContextManager, nullcontext

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.namespace import Array


class PyTorchBackend(Backend):
    """PyTorch; tensors of a mode (inference, fake, functional) must not outlive it."""

    is_mutable = reads_values = records_gradients = True

    def is_concrete(self, array: Array) -> bool:  # noqa: ARG002
        return not self.is_compiling

    def _to_numpy(self, array: Array) -> Array:
        return super()._to_numpy(array.detach().cpu())

    def supports_inplace(self, *arrays: Array) -> bool:
        # Not while PyTorch records operations to differentiate, compile or transform them.
        return not self.is_compiling and not any(map(_is_recorded, arrays))

    def strides(self, array: Array) -> tuple[int, ...]:
        return tuple(map(abs, array.stride()))

    def address(self, array: Array) -> int | None:
        try:  # fake and transformed tensors have no address
            return array.data_ptr() if type(array) is sys.modules["torch"].Tensor else None
        except RuntimeError:
            return None

    def owner(self, array: Array) -> Array:
        return array.untyped_storage()

    def shares_memory(self, array: Array, other: Array) -> bool:
        if array is other:
            return False
        # Addresses, since two storages may share memory.
        (start, stop), (other_start, other_stop) = map(_addresses, (array, other))
        overlap = start < other_stop and other_start < stop
        return overlap and self._array_interface(array) != self._array_interface(other)

    def _array_interface(self, array: Array) -> object:
        return array.data_ptr(), array.shape, array.stride()

    def clip(self, x: Array, min_value: float, max_value: float | None = None) -> Array:
        return x.clamp(min_value, max_value)  # PyTorch does not compile `maximum` of a number

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        # PyTorch warns about values that are not contiguous.
        return super().searchsorted(ordered, values.contiguous(), side)

    def compute_context(self, x: Array) -> AbstractContextManager[object]:
        torch, device = sys.modules["torch"], x.device.type
        # Devices without autocast, such as "meta", raise an error in `is_autocast_enabled`.
        enabled = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        return torch.autocast(device, enabled=False) if enabled else nullcontext()

    def is_trainable(self, array: Array) -> bool:
        return bool(array.requires_grad) or isinstance(array, sys.modules["torch"].nn.Parameter)


def _is_recorded(tensor: Array) -> bool:
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return bool(tensor.requires_grad)


def _addresses(tensor: Array) -> tuple[int, int]:
    """Return the addresses of the start and the end of a tensor."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start: int = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()
