"""Run the vectors on textbook JAX, and on its attention: `python vectors/runners/jax_run.py`.

Angles are products in float32. `JAX_ENABLE_X64=1` adds float64.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from check import CannotError, holds, main

DTYPES = ["float64"] * bool(jax.config.jax_enable_x64) + ["float32", "float16", "bfloat16"]
jax.config.update("jax_default_matmul_precision", "highest")


def array(values: Any, dtype: str) -> jax.Array:
    return jnp.asarray(values, dtype=dtype)


def wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def out(**arrays: jax.Array) -> dict[str, Any]:
    return {name: np.asarray(a.astype(wide(str(a.dtype)))) for name, a in arrays.items()}


def theta(dim: int, base: float, dtype: str) -> jax.Array:
    return 1 / base ** (jnp.arange(0, dim, 2, dtype=wide(dtype)) / dim)


def angles(p: dict[str, Any], x: dict[str, Any], dim: int, dtype: str) -> jax.Array:
    positions = x["positions"]
    if positions.dtype == np.int64 and not jax.config.jax_enable_x64:
        if np.abs(positions).max() > np.iinfo(np.int32).max:
            raise CannotError("has integers of 32 bits alone")
    elif not holds(positions, "float64" if jax.config.jax_enable_x64 else "float32"):
        raise CannotError("has float32 alone, which does not hold the inputs")
    return array(positions, wide(dtype))[..., None] * theta(dim, p["base"], dtype)


def frequencies(p: dict[str, Any], _: dict[str, Any], dtype: str) -> dict[str, Any]:
    return out(frequencies=theta(p["dim"], p["base"], dtype))


def cos_sin(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    angle = angles(p, x, p["dim"], dtype)
    return out(cos=jnp.cos(angle), sin=jnp.sin(angle))


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["proportion"] is not None:
        raise CannotError("no frequencies of zero")
    given, n = array(x["x"], dtype), p["rotary_dim"]
    part, rest = given[..., :n].astype(wide(dtype)), given[..., n:]
    angle = angles(p, x, n, dtype) * (-1 if p["inverse"] else 1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    is_half = p["layout"] == "half"
    a, b = jnp.split(part, 2, -1) if is_half else (part[..., ::2], part[..., 1::2])
    turned = a * cos - b * sin, a * sin + b * cos
    rotated = jnp.concatenate(turned, -1) if is_half else jnp.stack(turned, -1).reshape(part.shape)
    return out(y=jnp.concatenate([rotated.astype(dtype), rest], -1))


def attention(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["softcap"] is not None or "sinks" in x:
        raise CannotError("no softcap and no sinks")
    q, k, v = (array(x[name], dtype).swapaxes(0, 1)[None] for name in "qkv")
    if k.shape[-1] != v.shape[-1]:
        raise CannotError("values as long as keys alone")
    mask = jnp.asarray(x["attends"])[None] if "attends" in x else None
    bias = array(x["bias"], dtype)[None] if "bias" in x else None
    output = jax.nn.dot_product_attention(q, k, v, bias, mask, scale=p["scale"])
    return out(output=output[0].swapaxes(0, 1))


FUNCTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    f.__name__: f for f in (frequencies, cos_sin, rotate, attention)
}


def run(function: str, p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if function not in FUNCTIONS:
        raise CannotError("not in this page")
    return FUNCTIONS[function](p, x, dtype)


if __name__ == "__main__":
    main(run, DTYPES)
