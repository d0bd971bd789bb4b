"""PyTorch: automatic differentiation, compilation, autocast, and strides in elements."""
# ruff: noqa: SLF001 - PyTorch has no public functions that tell whether a mode is active

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import e, isfinite, log2
from typing import Any
from weakref import WeakValueDictionary

from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.forks import cached_property
from positional_embeddings.arrays.namespace import Array, Device, Dtype, HostArray, is_compiling, np


class PyTorchBackend(Backend):
    """PyTorch; tensors of a mode (inference, fake, functional) must not outlive it."""

    is_mutable = reads_values = records_gradients = shares_numpy_memory = True
    exponent_unit = log2(e)

    def is_concrete(self, array: Array) -> bool:  # noqa: ARG002
        return not self.is_compiling

    def values_on_host(self, array: Array) -> HostArray | None:
        return array.detach().numpy() if _is_eager() and _is_in_host_memory(array) else None

    def call_with_numpy(
        self, function: Callable[..., HostArray], arrays: Sequence[Array], dtype: Dtype
    ) -> Array:
        if not (_is_eager() and all(map(_is_in_host_memory, arrays))):
            return None
        host_dtype = getattr(np, dtypes.dtype_name(dtype), np.float32)  # NumPy has no bfloat16
        result = function(*[x.detach().numpy() for x in arrays], dtype=host_dtype)
        return sys.modules["torch"].from_numpy(result).to(dtype)

    @property
    def cache_key(self) -> Any:
        # A tensor of inference mode cannot be used outside of it. On an accelerator, a tensor would
        # belong to a stream.
        if not (_is_eager() and self._is_on_cpu):
            return None
        return self.xp, "cpu", sys.modules["torch"].is_inference_mode_enabled()

    @cached_property
    def _is_on_cpu(self) -> bool:
        return str(self.device) == "cpu"

    def _to_numpy(self, array: Array) -> Array:
        return super()._to_numpy(array.detach().cpu())

    def supports_inplace(self, *arrays: Array) -> bool:
        # Not while PyTorch records operations to differentiate, compile or transform them.
        return not self.is_compiling and not any(map(_is_recorded, arrays))

    def is_read_only(self, array: Array) -> bool:
        return (
            _is_eager() and array.is_inference() > sys.modules["torch"].is_inference_mode_enabled()
        )

    def strides(self, array: Array) -> tuple[int, ...]:
        return tuple(map(abs, array.stride()))

    def shares_memory(self, array: Array, other: Array) -> bool:
        if array is other:
            return False
        # Addresses, since two storages may share memory.
        (start, stop), (other_start, other_stop) = map(_addresses, (array, other))
        overlap = start < other_stop and other_start < stop
        return overlap and self._array_interface(array) != self._array_interface(other)

    def _array_interface(self, array: Array) -> object:
        return array.data_ptr(), array.shape, array.stride()

    def apply(self, function: Callable[..., Array], x: Array, *operands: Array) -> Array:
        return function(x, *operands, **({"out": x} if _can_overwrite(x, *operands) else {}))

    def scaled_exp(self, x: Array) -> Array:
        return self.apply(self.xp.exp2, x)  # in half the time of `exp`

    def fill(self, x: Array, mask: Array, value: float) -> Array:
        can_overwrite = _can_overwrite(x)
        if can_overwrite and _is_in_host_memory(x) and _is_in_host_memory(mask):
            np.copyto(x.numpy(), value, where=mask.numpy())  # half the time of `masked_fill_`
            return x
        return (x.masked_fill_ if can_overwrite else x.masked_fill)(mask, value)

    def fused_attention(self, query: Array, key: Array, value: Array, scale: float) -> Array:
        # One softmax takes a fifth of the time of its operations.
        is_alike = query.dtype == key.dtype == value.dtype == self.dtype
        is_eager = self._is_on_cpu and _can_overwrite(query, key, value)
        if not (is_alike and is_eager and query.numel() and key.numel()):
            return None
        scores = self.scalar_products(query * scale, key)
        probe = scores.sum()
        output = self.grouped_matmul(scores.softmax(-1), value)
        return output if isfinite(probe + output.sum()) else None

    def sum_of_all(self, x: Array) -> Array:
        return x.sum()  # the wrapper's takes twice as long

    def is_finite(self, number: Array) -> bool:
        can_read = self._is_on_cpu and _is_eager()  # a tensor on "meta" has no values
        return isfinite(number.item()) if can_read else super().is_finite(number)

    def clip(self, x: Array, min_value: float, max_value: float | None = None) -> Array:
        return x.clamp(min_value, max_value)  # PyTorch does not compile `maximum` of a number

    def searchsorted(self, ordered: Array, values: Array, side: str = "left") -> Array:
        # PyTorch warns about values that are not contiguous.
        return super().searchsorted(ordered, values.contiguous(), side)

    def compute_context(self, x: Array) -> AbstractContextManager[object]:
        torch = sys.modules["torch"]
        is_any_enabled = getattr(torch._C, "_is_any_autocast_enabled", None)
        if is_any_enabled and not (is_compiling() or is_any_enabled()):
            return nullcontext()
        device = x.device.type
        # Devices without autocast, such as "meta", raise an error in `is_autocast_enabled`.
        enabled = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        return torch.autocast(device, enabled=False) if enabled else nullcontext()

    def is_trainable(self, array: Array) -> bool:
        return bool(array.requires_grad) or isinstance(array, sys.modules["torch"].nn.Parameter)


# Constants of graphs, as long as a graph has them.
_graph_constants: WeakValueDictionary[Any, Array] = WeakValueDictionary()


def graph_constant(
    function: Callable[..., HostArray], *values: Any, dtype: Dtype, device: Device
) -> Array:
    """Return the result of a function of numbers and text as a tensor, for a graph of a compiler.

    The compiler does not trace the function: its result is a constant of the graph.
    """
    torch = sys.modules["torch"]
    key = function, values, dtype, str(device)
    constant = _graph_constants.get(key)
    if constant is None:
        with torch.inference_mode(mode=False):  # else no gradient can be recorded
            constant = torch.asarray(function(*values), dtype=dtype, device=device)
        # As torch._dynamo.mark_static does outside of a trace: the shape is a constant, too.
        constant._dynamo_static_indices = set(range(constant.ndim))
        if type(constant) is torch.Tensor:  # not while a mode traces
            _graph_constants[key] = constant
    return constant


# As torch.compiler.assume_constant_result does, without importing PyTorch.
graph_constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


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


def _is_eager() -> bool:
    """Return whether PyTorch neither compiles, traces, transforms nor intercepts operations."""
    torch = sys.modules["torch"]
    try:
        # Functions of `torch.func`, modes such as `FakeTensorMode`, and derivatives forwards.
        return (
            not is_compiling()
            and torch._C._functorch.peek_interpreter_stack() is None
            and not torch._C._len_torch_dispatch_stack()
            and not torch._C._len_torch_function_stack()
            and torch._C._get_tracing_state() is None
            and torch.autograd.forward_ad._current_level < 0
        )
    except AttributeError:  # of another release
        return False


def _can_overwrite(*tensors: Array) -> bool:
    """Return whether a result of tensors may be written to the first one."""
    plain = sys.modules["torch"].Tensor
    return _is_eager() and not any(type(x) is not plain or x.requires_grad for x in tensors)


def tensors_key(x: Array, *tensors: Array) -> tuple[Any, ...] | None:
    """Return the key of a plan for optional tensors, None unless all are plain and eager."""
    torch = sys.modules["torch"]
    kinds = {torch.Tensor, type(None)}
    if not (kinds.issuperset(map(type, (x, *tensors))) and _is_eager()):
        return None
    key = [torch.is_inference_mode_enabled(), torch.get_default_dtype(), x.stride()]
    for tensor in (x, *tensors):
        if tensor is None:
            key.append(None)
        else:
            key += [tensor.dtype, tensor.shape, tensor.device, tensor.requires_grad]
    return tuple(key)


def _is_in_host_memory(tensor: Array) -> bool:
    """Return whether NumPy can read a plain tensor without a copy and without a gradient."""
    torch = sys.modules["torch"]
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and hasattr(np, dtypes.dtype_name(tensor.dtype))
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )
