"""x-transformers: interleaved pairs, ALiBi, buckets of T5, xPos."""

from typing import Any

import torch
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    RelativePositionBias,
    RotaryEmbedding,
    apply_rotary_pos_emb,
)

from check import CannotError

TITLE = "x-transformers"
PACKAGES = ("x-transformers",)
DTYPES = ["float32", "float16", "bfloat16"]


def module(dim: int, base: float, **options: Any) -> RotaryEmbedding:
    if dim == 2 or dim % 2:
        raise CannotError("even numbers of features above 2 alone")
    return RotaryEmbedding(dim, base=base, **options)


def cos_sin(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    angle = module(p["dim"], p["base"])(torch.as_tensor(x["positions"]))[0][0, :, ::2]
    return {"cos": angle.cos().numpy(), "sin": angle.sin().numpy()}


def rotate(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["layout"] == "half" or p["inverse"] or p["proportion"] is not None:
        raise CannotError("interleaved pairs alone, no inverse, no frequencies of zero")
    given = torch.as_tensor(x["x"]).to(getattr(torch, dtype))
    angle, _ = module(p["rotary_dim"], p["base"])(torch.as_tensor(x["positions"]))
    y = apply_rotary_pos_emb(given if given.ndim == 3 else given[None], angle)
    return {"y": y.reshape(given.shape).double().numpy()}


def scaled_frequencies(p: dict[str, Any], _: dict[str, Any], __: str) -> dict[str, Any]:
    if p["method"] != "ntk":
        raise CannotError("static NTK scaling alone, and interpolation of angles")
    own = module(p["dim"], p["base"], base_rescale_factor=p["options"]["factor"])
    return {"frequencies": own.inv_freq.numpy()}


def t5_bucket(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    bucket = RelativePositionBias._relative_position_bucket  # noqa: SLF001 - it has no other
    options = {"causal": not p["bidirectional"], "num_buckets": p["num_buckets"]}
    found = bucket(torch.as_tensor(x["relative"]), max_distance=p["max_distance"], **options)
    return {"bucket": found.numpy()}


def alibi_slopes(p: dict[str, Any], _: dict[str, Any], dtype: str) -> dict[str, Any]:
    slopes = AlibiPositionalBias(p["num_heads"]).to(getattr(torch, dtype)).slopes
    return {"slopes": slopes[:, 0, 0].double().numpy()}


def alibi_bias(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    if p["causal"]:
        raise CannotError("minus the distance alone")
    at = (torch.as_tensor(x[name]) for name in ("query_positions", "key_positions"))
    return {"bias": AlibiPositionalBias(p["num_heads"]).forward_custom_pos(*at).numpy()}


def xpos_scale(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    at = torch.as_tensor(x["positions"])
    if p["center"] != (int(at.max()) + 1) // 2 or p["gamma"] != 0.4:
        raise CannotError("the centre is half of the last position")
    own = module(p["dim"], 10000, use_xpos=True, scale_base=p["scale_base"])
    return {"scale": own(at)[1][0, :, ::2].numpy()}


FUNCTIONS = {
    f.__name__: f
    for f in (cos_sin, rotate, scaled_frequencies, t5_bucket, alibi_slopes, alibi_bias, xpos_scale)
}
