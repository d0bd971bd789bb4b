"""NumPy, and array-api-strict, whose arrays are also in the memory of the host."""

from math import e, isfinite, log2
from typing import Any

import numpy as np

from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array, Dtype, without_warnings
from positional_embeddings.arrays.quiet import is_compiling
from positional_embeddings.arrays.space import Space

# Numbers that are added one by one.
_MOST_SUMMED = 2**13

# Numbers whose sum takes longer than a product with ones.
_MANY = 2**10

# With vector instructions exp2 takes half the time of exp; without them, twice.
_EXP2 = np.lib.introspect.opt_func_info(func_name="^exp2$", signature="float32")
_HAS_FAST_EXP2 = any(
    own["current"] and not own["current"].startswith("baseline")
    for kinds in _EXP2.values()
    for own in kinds.values()
)


class NumPy(Space):
    """NumPy, of whose subclasses none is taken for its arrays."""

    can_write = takes_out = keeps_tables = reads_values = shows_tracing = has_fmod = True
    rotation_kernel = "numba"
    exponent_unit = log2(e) if _HAS_FAST_EXP2 else 1.0

    @classmethod
    def single_device(cls, array: Array) -> str:  # noqa: ARG003
        return "cpu"

    @property
    def is_compiling(self) -> bool:  # its arrays are parts of the graph
        return is_compiling()

    def is_readable(self, array: Array) -> bool:  # noqa: ARG002
        return not self.is_compiling

    def is_true(self, condition: Array) -> bool:
        return not self.is_compiling and bool(condition)

    def values_on_host(self, array: Array) -> Any:
        return None if is_compiling() else array

    def address(self, array: Array) -> int:
        return int(array.__array_interface__["data"][0])

    def undisturbed(self, x: Array) -> Any:
        return super().undisturbed(x) if self.is_compiling else without_warnings()

    def fill(self, x: Array, mask: Array, value: float) -> Any:
        # `where` takes four times as long.
        np.copyto(x, value, where=mask)
        return x

    def into(self, function: Any, x: Array, *others: Any) -> Any:
        return function(x, *others, out=x)

    def small_exp(self, x: Array) -> Any:
        return (np.exp if self.exponent_unit == 1.0 else np.exp2)(x, out=x)

    def matmul(self, rows: Any, table: Array) -> Any:
        row_stride, stride = table.strides[-2:]
        if rows.shape[-2] != 1 or table.itemsize in (abs(row_stride), abs(stride)):
            return rows @ table
        # A product of one row with a table that BLAS does not take, since neither of its axes is
        # contiguous, takes ten times as long as a sum of products. In parts, so that no long sum
        # is rounded at every step.
        parts = cuts(max(1, table.shape[-2]), _MOST_SUMMED)
        return sum(np.einsum("...ij,...jk->...ik", rows[..., a], table[..., a, :]) for a in parts)

    # NumPy's own functions take longer for few numbers than methods of the array.

    def astype(self, x: Array, dtype: Dtype) -> Any:
        return x if x.dtype == dtype else x.astype(dtype)

    def transpose(self, x: Array) -> Any:
        return x.mT

    def highest(self, x: Array) -> Any:
        return np.maximum.reduce(x, axis=-1, keepdims=True, initial=np.finfo(x.dtype).min)

    def total(self, x: Array, initial: float = 0.0) -> Any:
        if x.size < _MANY:
            return np.add.reduce(x, axis=-1, keepdims=True, initial=initial)
        return x @ np.ones((x.shape[-1], 1), dtype=x.dtype) + initial  # four times as fast

    def sum_of_all(self, x: Array) -> Any:
        return np.vdot(x, x)

    def is_finite(self, number: Any) -> bool:
        return isfinite(number)

    def clip(self, x: Array, least: float, most: float | None = None) -> Any:
        # Of few numbers `clip` takes three times as long as `maximum`.
        return np.maximum(x, least) if most is None else np.clip(x, least, most)


class Strict(Space):
    """array-api-strict, which has the functions of the standard alone."""

    can_write = keeps_tables = reads_values = shows_tracing = True

    def undisturbed(self, x: Array) -> Any:  # noqa: ARG002
        return without_warnings()  # of NumPy, by which it computes
