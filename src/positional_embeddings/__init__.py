"""Positional encodings, rotary embeddings, attention masks and a reference attention.

Written once against the Python Array API standard: every function takes the arrays
of NumPy, CuPy, PyTorch, JAX or dask, and returns arrays of the same library.
"""

from positional_embeddings.absolute import (
    AbsolutePE,
    add_positional_encoding,
    add_positional_encoding_vjp,
)
from positional_embeddings.attention import scaled_dot_product_attention
from positional_embeddings.biases import alibi_bias, alibi_slopes, sandwich_bias
from positional_embeddings.dropouts import dropout
from positional_embeddings.embeddings import PatchEmbedding, TokenEmbedding
from positional_embeddings.frequencies import compute_frequencies, inverse_frequencies
from positional_embeddings.layouts import convert_layout
from positional_embeddings.learned import LearnedPE
from positional_embeddings.learned_biases import fire_bias, kerple_bias
from positional_embeddings.mask_tools import (
    combine_masks,
    describe_mask,
    fully_masked_rows,
    mask_to_bias,
)
from positional_embeddings.masks import (
    create_causal_mask,
    create_padding_mask,
    create_prefix_mask,
    create_segment_mask,
)
from positional_embeddings.multihead import RoPEMultiHeadAttention
from positional_embeddings.relative import relative_position_bucket, relative_positions
from positional_embeddings.relative_tables import RelativePE, T5Bias
from positional_embeddings.rotary import RoPE
from positional_embeddings.rotation import apply_rope, neg_half, rotate_pairs
from positional_embeddings.scaling import NTK, DynamicNTK, Linear, Proportional
from positional_embeddings.sections import grid_positions, xpos_scale
from positional_embeddings.segments import (
    cumulative_lengths,
    lengths_from_cumulative,
    lengths_from_segment_ids,
    positions_from_mask,
    positions_from_segment_ids,
    segment_ids_from_lengths,
)
from positional_embeddings.sinusoidal import sinusoidal_encoding
from positional_embeddings.sparse_masks import (
    create_chunked_mask,
    create_dilated_mask,
    create_sliding_window_mask,
)
from positional_embeddings.wavelength_scaling import Llama3, LongRoPE, YaRN

__version__ = "0.1.0"

__all__ = [
    "NTK",
    "AbsolutePE",
    "DynamicNTK",
    "LearnedPE",
    "Linear",
    "Llama3",
    "LongRoPE",
    "PatchEmbedding",
    "Proportional",
    "RelativePE",
    "RoPE",
    "RoPEMultiHeadAttention",
    "T5Bias",
    "TokenEmbedding",
    "YaRN",
    "__version__",
    "add_positional_encoding",
    "add_positional_encoding_vjp",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "combine_masks",
    "compute_frequencies",
    "convert_layout",
    "create_causal_mask",
    "create_chunked_mask",
    "create_dilated_mask",
    "create_padding_mask",
    "create_prefix_mask",
    "create_segment_mask",
    "create_sliding_window_mask",
    "cumulative_lengths",
    "describe_mask",
    "dropout",
    "fire_bias",
    "fully_masked_rows",
    "grid_positions",
    "inverse_frequencies",
    "kerple_bias",
    "lengths_from_cumulative",
    "lengths_from_segment_ids",
    "mask_to_bias",
    "neg_half",
    "positions_from_mask",
    "positions_from_segment_ids",
    "relative_position_bucket",
    "relative_positions",
    "rotate_pairs",
    "sandwich_bias",
    "scaled_dot_product_attention",
    "segment_ids_from_lengths",
    "sinusoidal_encoding",
    "xpos_scale",
]
