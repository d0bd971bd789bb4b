"""NumPy, and array-api-strict, whose arrays are also in the memory of the host."""

import sys
from typing import Any

import numpy as np

from positional_embeddings.arrays.libraries.base import Library


class NumPy(Library):
    """NumPy, of whose subclasses none is taken for its arrays."""

    can_write = takes_out = keeps_tables = reads_values = shows_tracing = has_fmod = True

    def single_device(self, array: Any) -> str:  # noqa: ARG002
        return "cpu"

    def is_compiling(self, array: Any) -> bool:  # noqa: ARG002 - its arrays are parts of the graph
        torch = sys.modules.get("torch")
        return torch is not None and torch.compiler.is_compiling()

    def is_readable(self, array: Any) -> bool:
        return not self.is_compiling(array)

    def fill(self, x: Any, mask: Any, value: float, xp: Any) -> Any:  # noqa: ARG002
        # `where` takes four times as long.
        np.copyto(x, value, where=mask)
        return x

    def clip(self, x: Any, least: float, most: float | None, xp: Any) -> Any:
        return xp.clip(x, least, most)


class Strict(Library):
    """array-api-strict, which has the functions of the standard alone."""

    can_write = keeps_tables = reads_values = shows_tracing = True
