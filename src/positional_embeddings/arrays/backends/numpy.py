"""NumPy, and array-api-strict, whose arrays are also in the memory of the host."""

from collections.abc import Callable
from math import e, isfinite, log2

import numpy as np

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.namespace import Array, Dtype

# Products that a float sums one by one, before what it rounds off is seen.
_MOST_PRODUCTS_SUMMED = 2**13

# Numbers of a table that NumPy multiplies faster by itself than `einsum` is called.
_NUMBERS_FOR_EINSUM = 2**13

# With vector instructions exp2 takes half the time of exp; without them, twice.
_EXP2 = np.lib.introspect.opt_func_info(func_name="^exp2$", signature="float32")
_TARGETS = [loop["current"] for loops in _EXP2.values() for loop in loops.values()]
_HAS_FAST_EXP2 = any(target and not target.startswith("baseline") for target in _TARGETS)


class NumPy(Backend):
    """NumPy; arrays of subclasses are computed here, too, but no plan is kept of them."""

    is_mutable = supports_out = keeps_tables = reads_values = shows_tracing = True
    has_host_arrays = computes_in_blocks = True
    rotation_kernel = "numba"
    exponent_unit = log2(e) if _HAS_FAST_EXP2 else 1.0

    @classmethod
    def single_device(cls, array: Array) -> str:  # noqa: ARG003
        return "cpu"

    def is_concrete(self, array: Array) -> bool:  # noqa: ARG002
        return not self.is_compiling

    def concrete_bool(self, condition: Array) -> bool:
        return not self.is_compiling and bool(condition)

    def values_on_host(self, array: Array) -> Array:
        return None if self.is_compiling else array

    def address(self, array: Array) -> int:
        return int(array.__array_interface__["data"][0])

    def fill(self, x: Array, mask: Array, value: float) -> Array:
        # `where` takes four times as long.
        np.copyto(x, value, where=mask)
        return x

    def apply(self, function: Callable[..., Array], x: Array, *others: Array) -> Array:
        return function(x, *others, out=x)

    def scaled_exp(self, x: Array) -> Array:
        return (np.exp if self.exponent_unit == 1.0 else np.exp2)(x, out=x)

    def matmul(self, rows: Array, table: Array) -> Array:
        if (
            rows.shape[-2] != 1
            or table.size <= _NUMBERS_FOR_EINSUM
            or table.itemsize in map(abs, table.strides[-2:])
        ):
            return rows @ table
        # A product of one row with a table that BLAS does not take, since neither of its axes is
        # contiguous, takes ten times as long as a sum of products. In parts, so that no long sum
        # is rounded at every step.
        parts = cuts(max(1, table.shape[-2]), _MOST_PRODUCTS_SUMMED)
        return sum(np.einsum("...ij,...jk->...ik", rows[..., a], table[..., a, :]) for a in parts)

    def fused_attention(self, query: Array, key: Array, value: Array, scale: float) -> Array:
        # What `softmax` and both products do, without calls in between, which take a fifth of a
        # step. Only the sums of values are divided; where these overflow, weights have to be.
        is_alike = query.dtype == key.dtype == value.dtype == self.dtype
        if self.is_compiling or not (is_alike and query.size and key.size):
            return None
        rows = key.shape[-3:-2]  # none without such an axis
        if is_grouped := rows < query.shape[-3:-2]:  # one product for those that share keys
            *others, count, q_len, size = query.shape
            query = query.reshape(*others, *rows, count // rows[0] * q_len, size)
        matmul = np.matmul if key.itemsize == key.strides[-1] == value.strides[-1] else self.matmul
        weights = matmul(query * scale, key.mT)
        checked = self.sum_of_all(weights)
        weights -= np.maximum.reduce(weights, axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        output = matmul(weights, value)
        output /= np.add.reduce(weights, axis=-1, keepdims=True)
        if not isfinite(checked + self.sum_of_all(output)):
            return None
        if is_grouped:
            output = output.reshape(*output.shape[:-3], count, q_len, value.shape[-1])
        return output

    def take_entries(self, table: Array, indices: Array, axis: int) -> Array:
        # `take` copies a table whose axes are in another order than in memory: four times as long.
        order = np.argsort(np.negative(table.strides), stable=True)
        place = int(np.argmax(order == axis))
        taken = np.take(np.transpose(table, order), indices, axis=place)
        ends = [*order[:place], *[axis] * indices.ndim, *order[place + 1 :]]
        return np.transpose(taken, np.argsort(ends, stable=True))

    def contiguous_rows(self, x: Array) -> Array:
        is_apart = x.shape[-1] > 1 and x.strides[-1] != x.itemsize
        return np.ascontiguousarray(x) if is_apart else x

    # NumPy's own functions take longer for few numbers than methods of the array.

    def astype(self, x: Array, dtype: Dtype) -> Array:
        return x if x.dtype == dtype else x.astype(dtype)

    def transpose(self, x: Array) -> Array:
        return x.mT

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        return x.reshape(shape)

    def row_max(self, x: Array) -> Array:
        return np.maximum.reduce(x, axis=-1, keepdims=True, initial=np.finfo(x.dtype).min)

    def row_sum(self, x: Array, initial: float = 0.0) -> Array:
        return np.add.reduce(x, axis=-1, keepdims=True, initial=initial)

    def sum_of_all(self, x: Array) -> Array:
        x = x.ravel(order="K")  # of any order in memory, without a copy
        return x.dot(x)

    def is_finite(self, number: Array) -> bool:
        return isfinite(number)

    def clip(self, x: Array, least: float, most: float | None = None) -> Array:
        # Of few numbers `clip` takes three times as long as `maximum`.
        return np.maximum(x, least) if most is None else np.clip(x, least, most)


class Strict(Backend):
    """array-api-strict, which has the functions of the standard alone."""

    is_mutable = keeps_tables = reads_values = shows_tracing = True
