"""e3nn: real spherical harmonics to degree 11, whose polar axis is y."""

from typing import Any

import torch
from e3nn import o3

from check import CannotError

TITLE = "e3nn"
PACKAGES = ("e3nn",)
DTYPES = ["float64", "float32"]


def spherical_harmonics(_: dict[str, Any], x: dict[str, Any], dtype: str) -> dict[str, Any]:
    degree, order = x["degree"], x["order"]
    if degree.max() > 11:
        raise CannotError("degrees to 11 alone")
    own = getattr(torch, dtype)
    north, east = (torch.as_tensor(x[n]).to(own).deg2rad() for n in ("latitude", "longitude"))
    # (y, z, x) of the vector that points to the place.
    point = [north.cos() * east.sin(), north.sin(), north.cos() * east.cos()]
    degrees = list(range(int(degree.max()) + 1))
    found = o3.spherical_harmonics(degrees, torch.stack(point, -1), True, "integral")  # noqa: FBT003
    return {"harmonics": found.numpy().T[degree**2 + degree + order]}


FUNCTIONS = {"spherical_harmonics": spherical_harmonics}
