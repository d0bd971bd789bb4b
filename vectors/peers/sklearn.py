"""scikit-learn: the kernels of its Gaussian processes."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern

from check import CannotError

TITLE = "scikit-learn"
PACKAGES = ("scikit-learn",)
DTYPES = ["float64"]


def weights(p: dict[str, Any], x: Any, y: Any) -> Any:
    if p["kernel"] == "product":
        return np.prod([weights(factor, x, y) for factor in p["factors"]], axis=0)
    x, y, scale = x[:, p["columns"]], y[:, p["columns"]], p["length_scale"]
    if p["kernel"] == "gaussian":
        return RBF(scale)(x, y)
    if p["kernel"] == "matern":
        return Matern(scale, nu=p["nu"])(x, y)
    if p["kernel"] == "periodic":  # exp(-2 sin(pi d / period)^2 / l^2), l^2 in the angle
        return ExpSineSquared(2 * np.pi * scale / p["period"], p["period"])(x, y)
    raise CannotError("no kernel on a sphere")


def kernel(p: dict[str, Any], x: dict[str, Any], _: str) -> dict[str, Any]:
    return {"weight": weights(p, x["x"][None], x["y"])[0]}


FUNCTIONS = {"kernel": kernel}
