"""Positional encodings, rotary embeddings, attention masks and a reference attention.

Written once against the Python Array API standard: every function takes the arrays
of NumPy, CuPy, PyTorch, JAX or dask, and returns arrays of the same library.
"""

from positional_embeddings.absolute import AbsolutePE, sinusoidal_encoding
from positional_embeddings.attention import scaled_dot_product_attention
from positional_embeddings.frequencies import compute_frequencies, inverse_frequencies
from positional_embeddings.masks import (
    combine_masks,
    create_causal_mask,
    create_padding_mask,
    fully_masked_rows,
    mask_to_bias,
)
from positional_embeddings.multihead import RoPEMultiHeadAttention
from positional_embeddings.rotary import RoPE, apply_rope, neg_half

__version__ = "0.1.0"

__all__ = [
    "AbsolutePE",
    "RoPE",
    "RoPEMultiHeadAttention",
    "__version__",
    "apply_rope",
    "combine_masks",
    "compute_frequencies",
    "create_causal_mask",
    "create_padding_mask",
    "fully_masked_rows",
    "inverse_frequencies",
    "mask_to_bias",
    "neg_half",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
]
