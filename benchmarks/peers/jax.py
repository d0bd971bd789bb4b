"""JAX, compiled by jit: rotations and an attention."""

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from harness.inputs import AttentionInputs, RotationInputs
    from harness.timing import Run


@partial(jax.jit, static_argnums=3)
def half(x: jax.Array, cos: jax.Array, sin: jax.Array, axis: int) -> jax.Array:
    """Rotate in the half layout."""
    first, second = jnp.split(x, 2, axis=axis)
    return x * cos + jnp.concatenate([-second, first], axis=axis) * sin


@partial(jax.jit, static_argnums=3)
def interleaved(x: jax.Array, cos: jax.Array, sin: jax.Array, axis: int) -> jax.Array:
    """Rotate in the interleaved layout."""
    rotated = jnp.stack([-x[..., 1::2], x[..., ::2]], axis=axis).reshape(x.shape)
    return x * cos + rotated * sin


def rotation(inputs: "RotationInputs") -> "Run":
    """Return the formula, waited for."""
    formula = half if inputs.pairs == "half" else interleaved
    x, cos, sin = (jnp.asarray(array) for array in (inputs.x, *inputs.doubled_tables))
    axis = inputs.feature_axis
    return lambda: formula(x, cos, sin, axis).block_until_ready()


def complex_product(inputs: "RotationInputs") -> "Run":
    """Return the product with complex numbers, waited for."""
    x, phasors = jnp.asarray(inputs.x), jnp.asarray(inputs.unit_phasors)
    product = jax.jit(jnp.multiply)
    return lambda: product(x, phasors).block_until_ready()


def attention(inputs: "AttentionInputs") -> "Run":
    """Return JAX's function on (batch, seq, heads, head), waited for."""
    q, k, v = (jnp.asarray(x.swapaxes(0, 1)[None]) for x in (inputs.q, inputs.k, inputs.v))
    attend = jax.jit(jax.nn.dot_product_attention)
    return lambda: attend(q, k, v)[0].swapaxes(0, 1).block_until_ready()
