"""SciPy: complex spherical harmonics, made real."""

from typing import Any

import numpy as np
from scipy.special import sph_harm_y

TITLE = "SciPy"
PACKAGES = ("scipy",)
DTYPES = ["float64"]


def spherical_harmonics(_: dict[str, Any], x: dict[str, Any], __: str) -> dict[str, Any]:
    degree, order = x["degree"][:, None], x["order"][:, None]
    y = sph_harm_y(degree, abs(order), np.radians(90 - x["latitude"]), np.radians(x["longitude"]))
    signed = (-1.0) ** order * np.sqrt(2)
    part = np.where(order < 0, y.imag, y.real)
    return {"harmonics": np.where(order == 0, y.real, signed * part)}


FUNCTIONS = {"spherical_harmonics": spherical_harmonics}
