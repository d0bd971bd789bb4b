"""ndonnx: graphs of ONNX, whose search takes values of one axis alone."""

import numpy as np

from positional_embeddings.arrays.backend import Backend, NamespaceProxy
from positional_embeddings.arrays.namespace import Array, Namespace


class NDONNX(Backend):
    """ndonnx."""

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        return _Namespace(xp)

    def _to_numpy(self, array: Array) -> Array:
        return np.asarray(array.unwrap_numpy())  # NumPy would make an array of objects


class _Namespace(NamespaceProxy):
    """Its functions, for values of any axes."""

    def searchsorted(self, ordered: Array, values: Array, /, *, side: str = "left") -> Array:
        if values.ndim == 1:
            return self._library.searchsorted(ordered, values, side=side)
        # A length may not be known before the graph runs, so that nothing is reshaped.
        values = values[..., None]
        before = ordered < values if side == "left" else ordered <= values
        return self._library.sum(self._library.astype(before, self._library.int64), axis=-1)
