"""Namespaces of libraries that lack something of the Array API standard, with it added.

A library that is not in the table at the end is its own namespace.
"""

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any


def adapted(xp: Any) -> Any:
    """Return a namespace that keeps the standard: `xp`, or one that forwards to it."""
    adapter = _ADAPTERS.get(getattr(xp, "__name__", ""))
    return xp if adapter is None else _made(adapter, xp)


@lru_cache
def _made(adapter: Callable[[Any], Any], xp: Any) -> Any:
    return adapter(xp)


class _Forwarding:
    """A namespace that has the names of a library, but for those that it defines itself."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


class _MLX(_Forwarding):
    """MLX, with devices and the arguments of the standard.

    Its arrays are in memory that all devices share; a device is where a call is computed.
    """

    _CREATION = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")
    _LIKE = ("empty_like", "full_like", "ones_like", "zeros_like")

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.bool = library.bool_
        for name in self._CREATION + self._LIKE:
            setattr(self, name, self._on_device(getattr(library, name)))

    def _on_device(self, create: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(create)
        def created(*args: Any, device: Any = None, **options: Any) -> Any:
            if device is None:
                return create(*args, **options)
            with self._library.stream(device):
                return create(*args, **options)

        return created

    def __array_namespace_info__(self) -> Any:
        return _MLXInfo(self._library)

    def astype(self, x: Any, dtype: Any, *, copy: bool = True) -> Any:
        return x.astype(dtype) if copy or x.dtype != dtype else x

    def sum(self, x: Any, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        x = x if dtype is None else x.astype(dtype)
        return self._library.sum(x, axis=axis, keepdims=keepdims)

    def clip(self, x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        return self._library.clip(x, min, max)


class _MLXInfo(_Forwarding):
    """What MLX tells of itself; positions are of 64 bits, as its integers can be.

    It is asked for a device, of which users have the kind alone, such as `mlx.core.gpu`.
    """

    def __init__(self, library: Any) -> None:
        super().__init__(library.__array_namespace_info__())
        self._device: Callable[[Any, int], Any] = library.Device

    def _of(self, device: Any) -> Any:
        return self._device(device, 0) if type(device).__name__ == "DeviceType" else device

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        found: dict[str, Any] = self._library.dtypes(device=self._of(device), kind=kind)
        return found

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        dtypes = self._library.default_dtypes(device=self._of(device))
        int64 = self.dtypes(device=device)["int64"]
        return {**dtypes, "integral": int64, "indexing": int64}


class _NDONNX(_Forwarding):
    """ndonnx, whose search takes values of one axis alone."""

    def searchsorted(self, ordered: Any, values: Any, /, *, side: str = "left") -> Any:
        if values.ndim == 1:
            return self._library.searchsorted(ordered, values, side=side)
        # A length may not be known before the graph runs, so that nothing is reshaped.
        values = values[..., None]
        before = ordered < values if side == "left" else ordered <= values
        return self._library.sum(self._library.astype(before, self._library.int64), axis=-1)


class _Cubed(_Forwarding):
    """cubed, whose `take` sorts its indices, with the dtypes and axes of the standard."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name, None)
        if found is None:
            message = f"cubed has no `{name}`, which is needed here: compute the array first."
            raise AttributeError(message)
        return found

    def asarray(self, x: Any, /, *, dtype: Any = None, **options: Any) -> Any:
        array = self._library.asarray(x, dtype=dtype, **options)
        return array if dtype in (None, array.dtype) else self._library.astype(array, dtype)

    def concat(self, arrays: Any, /, *, axis: int = 0) -> Any:
        return self._library.concat(arrays, axis=axis % arrays[0].ndim)

    def flip(self, x: Any, /, *, axis: int) -> Any:
        return x if x.shape[axis] == 0 else self._library.flip(x, axis=axis)

    def take(self, x: Any, indices: Any, /, *, axis: int = 0) -> Any:
        axis, count = axis % x.ndim, indices.shape[0]
        x, indices = x.rechunk({axis: x.shape[axis]}), indices.rechunk((count,))
        chunks = (*x.chunks[:axis], (count,), *x.chunks[axis + 1 :])
        beside = indices[(*(None,) * axis, ..., *(None,) * (x.ndim - axis - 1))]
        own = partial(_take_of_chunk, axis=axis)
        return self._library.map_blocks(own, x, beside, dtype=x.dtype, chunks=chunks)


def _take_of_chunk(x: Any, indices: Any, *, axis: int) -> Any:
    return x.take(indices.reshape(-1), axis=axis)


_ADAPTERS: dict[str, Callable[[Any], Any]] = {
    "cubed": _Cubed,
    "cubed.array_api": _Cubed,
    "mlx.core": _MLX,
    "ndonnx": _NDONNX,
}
