"""JAX: traced arrays, and compiled loops."""

import sys
from collections.abc import Callable
from typing import Any

from positional_embeddings.arrays.backend import Backend, Loops
from positional_embeddings.arrays.namespace import Array, Device


class JAXBackend(Backend):
    """JAX; traced arrays must not outlive their trace, so that none is cached."""

    reads_values = shows_tracing = supports_put = True

    @classmethod
    def single_device(cls, array: Array) -> Device:
        if _is_traced(array):
            return None
        device = super().single_device(array)
        return None if hasattr(device, "device_set") else device

    @classmethod
    def device_for(cls, array: Array) -> Device:
        # None for an array over several devices, whose sharding fits its own shape only, and for an
        # uncommitted array: an array committed to a device does not combine with other devices.
        device = cls.single_device(array)
        return device if device is None or getattr(array, "committed", True) else None

    def scalar_products(self, rows: Array, others: Array) -> Array:
        # XLA would copy the transposed keys of a matrix product on the CPU.
        return self.xp.einsum("...ij,...kj->...ik", rows, others)

    def is_concrete(self, array: Array) -> bool:
        return not _is_traced(array)

    def put(self, x: Array, index: Any, values: Array) -> Array:
        return x.at[index].set(values, mode="drop")

    def loops(self) -> Loops | None:
        # A new array is traced while JAX compiles, not while it only differentiates. Outside of
        # compiled functions, JAX would compile each loop again.
        if not _is_traced(self.xp.zeros(())):
            return None
        jax = sys.modules["jax"]

        def scan(body: Callable[..., Any], state: Array, elements: Array) -> Array:
            return jax.lax.scan(jax.checkpoint(body, prevent_cse=False), state, elements)

        def on_cpu(
            function: Callable[..., Any], other: Callable[..., Any], *arrays: Array
        ) -> Array:
            return jax.lax.platform_dependent(*arrays, cpu=function, default=other)

        in_batch = jax.custom_batching.custom_vmap(lambda condition: condition)
        in_batch.def_vmap(lambda _size, _batched, conditions: (self.xp.all(conditions), False))
        return Loops(scan, jax.lax.cond, in_batch, on_cpu, jax.default_backend() == "cpu")

    def computed_once(self, x: Array, y: Array) -> tuple[Array, Array]:
        loops: Any = self.loops()
        if loops is None:
            return x, y

        def unchanged(x: Array, y: Array) -> tuple[Array, Array]:
            return x, y

        def separate(x: Array, y: Array) -> tuple[Array, Array]:
            # On the CPU, XLA removes an optimization barrier before it fuses operations, but does
            # not fuse across a condition. This one is False, also for NaN.
            is_large = self.xp.any(x[:1, ...] > 2)
            return loops.cond(is_large, lambda x, y: (y, x), unchanged, x, y)  # type: ignore[no-any-return]

        return loops.on_cpu(separate, unchanged, x, y)  # type: ignore[no-any-return]


def _is_traced(array: Array) -> bool:
    # By type: asking a tracer for its values raises an error, which takes a millisecond.
    return "Tracer" in (base.__name__ for base in type(array).__mro__)
