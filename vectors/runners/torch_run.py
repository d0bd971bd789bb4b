"""Run the vectors on textbook PyTorch, and on its attention: `python vectors/runners/torch_run.py`.

Angles are products in the dtype of the test, in float32 for half precision, as models compute them.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from check import CannotError, main

DTYPES = ["float64", "float32", "float16", "bfloat16"]


def tensor(values: Any, dtype: str) -> Tensor:
    return torch.tensor(values, dtype=getattr(torch, dtype))


def wide(dtype: str) -> torch.dtype:
    return torch.float64 if dtype == "float64" else torch.float32


def out(**tensors: Tensor) -> dict[str, Any]:
    return {name: t.double().numpy() for name, t in tensors.items()}


def theta(dim: int, base: float, dtype: str) -> Tensor:
    return 1 / base ** (torch.arange(0, dim, 2, dtype=wide(dtype)) / dim)


def angles(p: dict[str, Any], x: dict[str, Any], dim: int, dtype: str) -> Tensor:
    return torch.tensor(x["positions"]).to(wide(dtype))[..., None] * theta(dim, p["base"], dtype)


def frequencies(p: dict[str, Any], _: dict[str, Any], dtype: str) -> dict[str, Any]:
    return out(frequencies=theta(p["dim"], p["base"], dtype))


def cos_sin(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    angle = angles(p, x, p["dim"], dtype)
    return out(cos=angle.cos(), sin=angle.sin())


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["proportion"] is not None:
        raise CannotError("no frequencies of zero")
    given, n = tensor(x["x"], dtype), p["rotary_dim"]
    part, rest = given[..., :n].to(wide(dtype)), given[..., n:]
    angle = angles(p, x, n, dtype) * (-1 if p["inverse"] else 1)
    cos, sin = angle.cos(), angle.sin()
    is_half = p["layout"] == "half"
    a, b = part.chunk(2, -1) if is_half else (part[..., ::2], part[..., 1::2])
    turned = a * cos - b * sin, a * sin + b * cos
    rotated = torch.cat(turned, -1) if is_half else torch.stack(turned, -1).flatten(-2)
    return out(y=torch.cat([rotated.to(given.dtype), rest], -1))


def rotate_complex(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    given = torch.complex(tensor(x["real"], dtype), tensor(x["imag"], dtype))
    angle = angles(p, x, 2 * given.shape[-1], dtype) * (-1 if p["inverse"] else 1)
    y = given * torch.polar(torch.ones_like(angle), angle)
    return out(real=y.real, imag=y.imag)


def alibi_slopes(p: dict[str, Any], _: dict[str, Any], dtype: str) -> dict[str, Any]:
    n = 2 ** math.floor(math.log2(p["num_heads"]))
    slopes = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    slopes += [2 ** (-4 * h / n) for h in range(1, 2 * n, 2)]
    return out(slopes=tensor(slopes[: p["num_heads"]], dtype))


def attention(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["softcap"] is not None or "sinks" in x:
        raise CannotError("no softcap and no sinks")
    q, k, v = (tensor(x[name], dtype)[None] for name in "qkv")
    mask = torch.tensor(x["attends"])[None] if "attends" in x else None
    if "bias" in x:
        bias = tensor(x["bias"], dtype)[None]
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    output = scaled_dot_product_attention(q, k, v, mask, scale=p["scale"], enable_gqa=True)
    return out(output=output[0])


FUNCTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    f.__name__: f for f in (frequencies, cos_sin, rotate, rotate_complex, alibi_slopes, attention)
}


def run(function: str, p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if function not in FUNCTIONS:
        raise CannotError("not in this page")
    return FUNCTIONS[function](p, x, dtype)


if __name__ == "__main__":
    main(run, DTYPES)
