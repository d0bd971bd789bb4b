"""JAX: arrays that are traced, and loops that are compiled."""

import sys
from collections.abc import Callable
from typing import Any

from positional_embeddings.arrays.backend import Backend, Loops
from positional_embeddings.arrays.namespace import Array, Device


class JAX(Backend):
    """JAX, whose arrays of a trace must not outlive it."""

    reads_values = shows_tracing = True

    @classmethod
    def single_device(cls, array: Array) -> Device:
        if _is_traced(array):
            return None
        on = super().single_device(array)
        return None if hasattr(on, "device_set") else on

    @classmethod
    def device_for(cls, array: Array) -> Device:
        # None for an array over several devices, whose sharding is made for its own shape, and for
        # one that is not committed to its device: what is made on a device by name meets no arrays
        # on other ones.
        on = cls.single_device(array)
        return on if on is None or getattr(array, "committed", True) else None

    def is_concrete(self, array: Array) -> bool:
        return not _is_traced(array)

    def loops(self) -> Loops | None:
        # What is made while JAX compiles is traced, too; not so where it only differentiates. It
        # calls what is not compiled operation by operation, and would compile each loop anew.
        if not _is_traced(self.xp.zeros(())):
            return None
        jax = sys.modules["jax"]

        def scan(body: Callable[..., Any], state: Array, elements: Array) -> Array:
            return jax.lax.scan(jax.checkpoint(body, prevent_cse=False), state, elements)

        return Loops(scan, jax.lax.cond)


def _is_traced(array: Array) -> bool:
    # What a tracer does not know it says by errors that take a millisecond to word.
    return "Tracer" in (base.__name__ for base in type(array).__mro__)
