"""Estimators for scikit-learn: encodings as columns, and attention as a regressor."""

from positional_embeddings.sklearn.kernels import (
    GaussianKernel,
    PeriodicKernel,
    ProductKernel,
    SphereKernel,
    SumKernel,
)
from positional_embeddings.sklearn.regressor import AttentionRegressor

__all__ = [
    "AttentionRegressor",
    "GaussianKernel",
    "PeriodicKernel",
    "ProductKernel",
    "SphereKernel",
    "SumKernel",
]
