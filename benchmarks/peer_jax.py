"""Rotation in JAX, compiled by jit."""

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from timing import Run


@partial(jax.jit, static_argnums=3)
def half(x: jax.Array, cos: jax.Array, sin: jax.Array, axis: int) -> jax.Array:
    """Rotate in the half layout."""
    first, second = jnp.split(x, 2, axis=axis)
    return x * cos + jnp.concatenate([-second, first], axis=axis) * sin


@partial(jax.jit, static_argnums=3)
def interleaved(x: jax.Array, cos: jax.Array, sin: jax.Array, axis: int) -> jax.Array:
    """Rotate pairs of neighbours."""
    turned = jnp.stack([-x[..., 1::2], x[..., ::2]], axis=axis).reshape(x.shape)
    return x * cos + turned * sin


@jax.jit
def product(x: jax.Array, turns: jax.Array) -> jax.Array:
    """Multiply."""
    return x * turns


def jitted(problem: "Rotation") -> "Run":
    """Return the formula, waited for."""
    formula = half if problem.pairs == "half" else interleaved
    x, cos, sin = (jnp.asarray(array) for array in (problem.x, problem.cos, problem.sin))
    axis = problem.feature_axis
    return lambda: formula(x, cos, sin, axis).block_until_ready()


def complex_product(problem: "Rotation") -> "Run":
    """Return the product by complex numbers, waited for."""
    x, turns = jnp.asarray(problem.x), jnp.asarray(problem.turns)
    return lambda: product(x, turns).block_until_ready()
