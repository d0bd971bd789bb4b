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

        return Loops(scan, jax.lax.cond)


def _is_traced(array: Array) -> bool:
    # By type: asking a tracer for its values raises an error, which takes a millisecond.
    return "Tracer" in (base.__name__ for base in type(array).__mro__)
