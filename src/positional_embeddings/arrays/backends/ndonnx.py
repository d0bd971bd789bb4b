"""ndonnx: lazy arrays that build ONNX graphs."""

import numpy as np

from positional_embeddings.arrays.backend import Backend, NamespaceProxy
from positional_embeddings.arrays.namespace import Array, Namespace


class NDONNXBackend(Backend):
    """ndonnx."""

    @staticmethod
    def namespace(xp: Namespace) -> Namespace:
        return _Namespace(xp)

    def _to_numpy(self, array: Array) -> Array:
        return np.asarray(array.unwrap_numpy())  # `np.asarray(array)` has dtype object


class _Namespace(NamespaceProxy):
    """ndonnx, with `searchsorted` for values of any number of axes."""

    def searchsorted(self, ordered: Array, values: Array, /, *, side: str = "left") -> Array:
        if values.ndim == 1:
            return self._library.searchsorted(ordered, values, side=side)
        # Lengths may be unknown before the graph runs, so that values cannot be flattened.
        values = values[..., None]
        before = ordered < values if side == "left" else ordered <= values
        return self._library.sum(self._library.astype(before, self._library.int64), axis=-1)
