"""NumPy, and array-api-strict, which also has its arrays in host memory."""

from collections.abc import Callable
from math import e, isfinite, log2

import numpy as np

from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.namespace import Array, Dtype

# Products that `einsum` sums one by one; longer sums have visible rounding errors.
_MAX_SUMMED_PRODUCTS = 2**13

# Elements of a table, up to which `@` takes less time than a call of `einsum`.
_MAX_MATMUL_SIZE = 2**13

# exp2 takes half the time of exp with vector instructions, twice the time without.
_EXP2 = np.lib.introspect.opt_func_info(func_name="^exp2$", signature="float32")
_TARGETS = [loop["current"] for loops in _EXP2.values() for loop in loops.values()]
_HAS_FAST_EXP2 = any(target and not target.startswith("baseline") for target in _TARGETS)


class NumPyBackend(Backend):
    """NumPy, including subclasses of its arrays, for which no plan is cached."""

    is_mutable = supports_out = can_cache_arrays = reads_values = shows_tracing = True
    is_numpy = shares_numpy_memory = computes_in_blocks = True
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

    def apply(self, function: Callable[..., Array], x: Array, *operands: Array) -> Array:
        return function(x, *operands, out=x)

    def scaled_exp(self, x: Array) -> Array:
        return (np.exp if self.exponent_unit == 1.0 else np.exp2)(x, out=x)

    def matmul(self, rows: Array, table: Array) -> Array:
        if (
            rows.shape[-2] != 1
            or table.size <= _MAX_MATMUL_SIZE
            or table.itemsize in map(abs, table.strides[-2:])
        ):
            return rows @ table
        # BLAS needs a contiguous axis. Without one, `@` of one row takes ten times the time of
        # `einsum`, whose rounding errors grow with the length of a sum: hence the parts.
        parts = block_slices(max(1, table.shape[-2]), _MAX_SUMMED_PRODUCTS)
        return sum(np.einsum("...ij,...jk->...ik", rows[..., a], table[..., a, :]) for a in parts)

    def fused_attention(self, query: Array, key: Array, value: Array, scale: float) -> Array:
        # Softmax and both products without calls in between, which take a fifth of a step. It
        # normalizes the output instead of the weights; if the output overflows, weights have to be.
        is_alike = query.dtype == key.dtype == value.dtype == self.dtype
        if self.is_compiling or not (is_alike and query.size and key.size):
            return None
        rows = key.shape[-3:-2]  # none without such an axis
        if is_grouped := rows < query.shape[-3:-2]:  # one product for heads that share keys
            *batch, count, q_len, size = query.shape
            query = query.reshape(*batch, *rows, count // rows[0] * q_len, size)
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
        # In memory order: `take` copies a table in any other order, in four times the time.
        order = np.argsort(np.negative(table.strides), stable=True)
        index = int(np.argmax(order == axis))
        taken = np.take(np.transpose(table, order), indices, axis=index)
        ends = [*order[:index], *[axis] * indices.ndim, *order[index + 1 :]]
        return np.transpose(taken, np.argsort(ends, stable=True))

    def contiguous_rows(self, x: Array) -> Array:
        is_apart = x.shape[-1] > 1 and x.strides[-1] != x.itemsize
        return np.ascontiguousarray(x) if is_apart else x

    # For small arrays, methods take less time than functions of NumPy.

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
        x = x.ravel(order="K")  # in memory order, without a copy
        return x.dot(x)

    def is_finite(self, number: Array) -> bool:
        return isfinite(number)

    def clip(self, x: Array, min_value: float, max_value: float | None = None) -> Array:
        # For small arrays, `clip` takes three times the time of `maximum`.
        return np.maximum(x, min_value) if max_value is None else np.clip(x, min_value, max_value)


class StrictBackend(Backend):
    """array-api-strict, which has only the functions of the standard."""

    is_mutable = can_cache_arrays = reads_values = shows_tracing = True
