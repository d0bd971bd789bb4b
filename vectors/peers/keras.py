"""Keras: its dot-product attention, on its NumPy backend."""

from typing import Any

import numpy as np
from keras.src.backend.numpy.nn import dot_product_attention

from check import CannotError

TITLE = "Keras (NumPy)"
PACKAGES = ("keras",)
DTYPES = ["float64", "float32", "float16"]


def attention(p: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    if p["softcap"] is not None or "sinks" in x:
        raise CannotError("no softcap and no sinks")
    q, k, v = (x[name].astype(dtype).swapaxes(0, 1)[None] for name in "qkv")
    if q.shape[2] != k.shape[2]:
        raise CannotError("as many key heads as query heads alone")
    mask = x["attends"][None] if "attends" in x else None
    bias = x["bias"].astype(dtype)[None] if "bias" in x else None
    with np.errstate(all="ignore"):
        output = dot_product_attention(q, k, v, bias, mask, scale=p["scale"])
    return {"output": np.asarray(output)[0].swapaxes(0, 1)}


FUNCTIONS = {"attention": attention}
