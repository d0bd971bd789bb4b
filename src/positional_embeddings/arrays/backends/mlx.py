"""MLX: arrays in unified memory, which all devices share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from positional_embeddings.arrays.backend import Backend, NamespaceProxy
from positional_embeddings.arrays.namespace import Array, Device, Dtype, Namespace


class MLXBackend(Backend):
    """mlx.core."""

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        return _Namespace(xp)

    @classmethod
    def single_device(cls, array: Array) -> None:  # noqa: ARG003
        return None


class _Namespace(NamespaceProxy):
    """MLX with the arguments of the standard; `device` is where a call is computed."""

    _CREATION = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")

    def __init__(self, library: Namespace) -> None:
        super().__init__(library)
        self.bool = library.bool_
        for name in self._CREATION:
            setattr(self, name, self._on_device(getattr(library, name)))

    def _on_device(self, create: Callable[..., Array]) -> Callable[..., Array]:
        @wraps(create)
        def created(*args: object, device: Device = None, **options: object) -> Array:
            if device is None:
                return create(*args, **options)
            with self._library.stream(device):
                return create(*args, **options)

        return created

    def __array_namespace_info__(self) -> Any:
        return _Info(self._library)

    def astype(self, x: Array, dtype: Dtype, *, copy: bool = True) -> Array:
        return x.astype(dtype) if copy or x.dtype != dtype else x

    def sum(
        self, x: Array, *, axis: Any = None, dtype: Dtype = None, keepdims: bool = False
    ) -> Array:
        x = x if dtype is None else x.astype(dtype)
        return self._library.sum(x, axis=axis, keepdims=keepdims)


class _Info(NamespaceProxy):
    """The inspection API of MLX, with int64 as the default integer dtype.

    MLX expects a device; users pass a type of device, such as `mlx.core.gpu`.
    """

    def __init__(self, library: Namespace) -> None:
        super().__init__(library.__array_namespace_info__())
        self._device: Callable[[Device, int], Device] = library.Device

    def _of(self, device: Device) -> Device:
        return self._device(device, 0) if type(device).__name__ == "DeviceType" else device

    def dtypes(self, *, device: Device = None, kind: object = None) -> dict[str, Dtype]:
        dtypes: dict[str, Dtype] = self._library.dtypes(device=self._of(device), kind=kind)
        return dtypes

    def default_dtypes(self, *, device: Device = None) -> dict[str, Dtype]:
        dtypes = self._library.default_dtypes(device=self._of(device))
        int64 = self.dtypes(device=device)["int64"]
        return {**dtypes, "integral": int64, "indexing": int64}
