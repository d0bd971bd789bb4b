"""positional-encodings: sinusoids side by side, at the first positions."""

from typing import Any

import numpy as np
import torch
from positional_encodings.torch_encodings import PositionalEncoding1D

from check import CannotError

TITLE = "positional-encodings"
PACKAGES = ("positional-encodings",)
DTYPES = ["float32"]
LONGEST = 2**17  # of a table from position 0


def sinusoid(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    own = {"base": 10000, "arrangement": "interleaved", "endpoint": False, "cos_first": False}
    own |= {"full_turns": False, "amplitude": 1, "start": 0, "length": None}
    at = x["positions"]
    if any(p[name] != value for name, value in own.items()):
        raise CannotError("sine and cosine side by side, and a base of 10,000 alone")
    if p["dim"] % 2:
        raise CannotError("an odd number of features has the frequencies of the next even one")
    if at.dtype != np.int64 or at.min() < 0 or at.max() >= LONGEST:
        raise CannotError("a table of the first positions alone")
    table = PositionalEncoding1D(p["dim"])(torch.zeros(1, int(at.max()) + 1, p["dim"]))
    return {"encoding": table[0].numpy()[at]}


FUNCTIONS = {"sinusoid": sinusoid}
