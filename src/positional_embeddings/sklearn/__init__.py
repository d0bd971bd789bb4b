"""Estimators for scikit-learn: encodings as columns, and attention as a regressor.

Optional: no other package imports this one, and scikit-learn is the extra "sklearn".
"""

try:
    import sklearn.base  # noqa: F401
except ImportError as error:
    message = 'The estimators need scikit-learn: pip install "positional-embeddings[sklearn]".'
    raise ImportError(message) from error

from positional_embeddings.sklearn.encoder import PositionalEncoder
from positional_embeddings.sklearn.gap_filler import GapFiller
from positional_embeddings.sklearn.kernels import (
    GaussianKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    SphereKernel,
    SumKernel,
)
from positional_embeddings.sklearn.regressor import AttentionRegressor

__all__ = [
    "AttentionRegressor",
    "GapFiller",
    "GaussianKernel",
    "MaternKernel",
    "PeriodicKernel",
    "PositionalEncoder",
    "ProductKernel",
    "SphereKernel",
    "SumKernel",
]
