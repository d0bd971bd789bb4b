"""NumPy, and array-api-strict, whose arrays are also in the memory of the host."""

import sys
from typing import Any

import numpy as np

from positional_embeddings.arrays.libraries.base import Space


class NumPy(Space):
    """NumPy, of whose subclasses none is taken for its arrays."""

    can_write = takes_out = keeps_tables = reads_values = shows_tracing = has_fmod = True
    rotation_kernel = "numba"

    @classmethod
    def single_device(cls, array: Any) -> str:  # noqa: ARG003
        return "cpu"

    @property
    def is_compiling(self) -> bool:  # its arrays are parts of the graph
        torch = sys.modules.get("torch")
        return torch is not None and torch.compiler.is_compiling()

    def is_readable(self, array: Any) -> bool:  # noqa: ARG002
        return not self.is_compiling

    def values_on_host(self, array: Any) -> Any:
        return None if self.is_compiling else array

    def fill(self, x: Any, mask: Any, value: float) -> Any:
        # `where` takes four times as long.
        np.copyto(x, value, where=mask)
        return x

    def clip(self, x: Any, least: float, most: float | None = None) -> Any:
        # Of few numbers `clip` takes three times as long as `maximum`.
        return np.maximum(x, least) if most is None else np.clip(x, least, most)


class Strict(Space):
    """array-api-strict, which has the functions of the standard alone."""

    can_write = keeps_tables = reads_values = shows_tracing = True
