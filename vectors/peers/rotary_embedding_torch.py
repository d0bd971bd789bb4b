"""rotary-embedding-torch: interleaved pairs, at any positions."""

from typing import Any

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

from check import CannotError

TITLE = "rotary-embedding-torch"
PACKAGES = ("rotary-embedding-torch",)
DTYPES = ["float32", "float16", "bfloat16"]


def angles(dim: int, base: float, at: Any, **options: Any) -> torch.Tensor:
    if dim == 2 or dim % 2:
        raise CannotError("even numbers of features above 2 alone")
    with torch.no_grad():
        return RotaryEmbedding(dim, theta=base, **options)(torch.as_tensor(at))


def cos_sin(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    found = angles(p["dim"], p["base"], x["positions"])[:, ::2]
    return {"cos": found.cos().numpy(), "sin": found.sin().numpy()}


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["layout"] == "half" or p["inverse"] or p["proportion"] is not None:
        raise CannotError("interleaved pairs alone, no inverse, no frequencies of zero")
    given = torch.as_tensor(x["x"]).to(getattr(torch, dtype))
    found = angles(p["rotary_dim"], p["base"], x["positions"])
    if given.ndim == 3:
        rows = [apply_rotary_emb(f, row) for f, row in zip(found, given, strict=True)]
        return {"y": torch.stack(rows).double().numpy()}
    return {"y": apply_rotary_emb(found, given).double().numpy()}


def scaled_frequencies(p: dict[str, Any], _: dict[str, Any], __: str) -> dict[str, Any]:
    if p["method"] != "ntk":
        raise CannotError("static NTK scaling alone, and interpolation of the first positions")
    found = angles(p["dim"], p["base"], [1.0], theta_rescale_factor=p["options"]["factor"])
    return {"frequencies": found[0, ::2].numpy()}


def xpos_scale(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    at = torch.as_tensor(x["positions"])
    if p["center"] != len(at) // 2 or p["gamma"] != 0.4:
        raise CannotError("the centre is half of the number of positions")
    module = RotaryEmbedding(p["dim"], use_xpos=True, xpos_scale_base=p["scale_base"])
    return {"scale": module.get_scale(at)[:, ::2].numpy()}


FUNCTIONS = {f.__name__: f for f in (cos_sin, rotate, scaled_frequencies, xpos_scale)}
