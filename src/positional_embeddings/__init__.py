"""Positional encodings, rotary embeddings, attention masks and a reference attention.

Written once against the Python Array API standard: every function takes the arrays
of NumPy, CuPy, PyTorch, JAX or dask, and returns arrays of the same library.

CuPy computes on its current device alone: for arrays `x` on another one, call within
``with x.device:``. The option `device` needs no such context.

Values that are not finite, or too small for their dtype, appear in the result: no call warns or
raises for them, whatever `numpy.errstate` says, nor does a function passed as `mask` or `bias`.
"""

import sys
from typing import NoReturn

from positional_embeddings.angles.frequencies import compute_frequencies, inverse_frequencies
from positional_embeddings.arrays.errors import did_you_mean
from positional_embeddings.attention.attention import (
    attention_weights,
    scaled_dot_product_attention,
)
from positional_embeddings.attention.cache import KVCache
from positional_embeddings.attention.multi_head import RoPEMultiHeadAttention
from positional_embeddings.biases.alibi import ALiBiBias, alibi_bias, alibi_slopes
from positional_embeddings.biases.bias import relative_positions
from positional_embeddings.biases.fire import FIREBias
from positional_embeddings.biases.function import FunctionBias
from positional_embeddings.biases.kerple import KERPLEBias
from positional_embeddings.biases.sandwich import SandwichBias
from positional_embeddings.biases.shaw import RelativePE
from positional_embeddings.biases.t5 import T5Bias, relative_position_bucket
from positional_embeddings.encodings.add import add_positional_encoding, add_positional_encoding_vjp
from positional_embeddings.encodings.cyclic import cyclic_encoding
from positional_embeddings.encodings.embeddings import PatchEmbedding, TokenEmbedding
from positional_embeddings.encodings.fourier import (
    fourier_encoding,
    log_wavelengths,
    octave_wavelengths,
)
from positional_embeddings.encodings.fourier_features import FourierFeatures
from positional_embeddings.encodings.graph import graph_laplacian_encoding, random_walk_encoding
from positional_embeddings.encodings.grid import grid_encoding, grid_positions
from positional_embeddings.encodings.grid_cells import grid_cell_encoding
from positional_embeddings.encodings.learned import LearnedPE
from positional_embeddings.encodings.multimodal import multimodal_positions
from positional_embeddings.encodings.random_fourier import random_fourier_encoding
from positional_embeddings.encodings.sinusoidal import AbsolutePE, sinusoidal_encoding
from positional_embeddings.encodings.sphere import spherical_encoding, spherical_truncation_error
from positional_embeddings.masks.by_position import (
    CausalMask,
    ChunkedMask,
    DilatedMask,
    GlobalMask,
    NeighbourhoodMask,
    SlidingWindowMask,
)
from positional_embeddings.masks.by_sequence import PaddingMask, PrefixMask, SegmentMask
from positional_embeddings.masks.convert import (
    combine_masks,
    from_attend,
    fully_masked_rows,
    mask_to_bias,
    to_attend,
    to_block_ranges,
)
from positional_embeddings.masks.create import create_causal_mask, create_padding_mask
from positional_embeddings.masks.describe import describe_mask
from positional_embeddings.masks.lists import ListMask
from positional_embeddings.masks.mask import FunctionMask, Mask
from positional_embeddings.masks.packing import (
    cumulative_lengths,
    positions_from_mask,
    positions_from_segment_ids,
    segment_ids_from_lengths,
)
from positional_embeddings.models.attention_layers import AttentionLayer, attention_layers
from positional_embeddings.rotary.layouts import convert_layout, neg_half, rotate_pairs
from positional_embeddings.rotary.rope import RoPE
from positional_embeddings.rotary.rotate import apply_rope
from positional_embeddings.rotary.scaling import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    ProportionalScaling,
    YaRNScaling,
)
from positional_embeddings.rotary.xpos import xpos_scale
from positional_embeddings.times.dates import days_since
from positional_embeddings.versions import show_versions

__version__ = "0.2.0"
__all__ = [
    "ALiBiBias",
    "AbsolutePE",
    "AttentionLayer",
    "CausalMask",
    "ChunkedMask",
    "DilatedMask",
    "DynamicNTKScaling",
    "FIREBias",
    "FourierFeatures",
    "FunctionBias",
    "FunctionMask",
    "GlobalMask",
    "KERPLEBias",
    "KVCache",
    "LearnedPE",
    "LinearScaling",
    "ListMask",
    "Llama3Scaling",
    "LongRoPEScaling",
    "Mask",
    "NTKScaling",
    "NeighbourhoodMask",
    "PaddingMask",
    "PatchEmbedding",
    "PrefixMask",
    "ProportionalScaling",
    "RelativePE",
    "RoPE",
    "RoPEMultiHeadAttention",
    "SandwichBias",
    "SegmentMask",
    "SlidingWindowMask",
    "T5Bias",
    "TokenEmbedding",
    "YaRNScaling",
    "__version__",
    "add_positional_encoding",
    "add_positional_encoding_vjp",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "attention_layers",
    "attention_weights",
    "combine_masks",
    "compute_frequencies",
    "convert_layout",
    "create_causal_mask",
    "create_padding_mask",
    "cumulative_lengths",
    "cyclic_encoding",
    "days_since",
    "describe_mask",
    "fourier_encoding",
    "from_attend",
    "fully_masked_rows",
    "graph_laplacian_encoding",
    "grid_cell_encoding",
    "grid_encoding",
    "grid_positions",
    "inverse_frequencies",
    "log_wavelengths",
    "mask_to_bias",
    "multimodal_positions",
    "neg_half",
    "octave_wavelengths",
    "positions_from_mask",
    "positions_from_segment_ids",
    "random_fourier_encoding",
    "random_walk_encoding",
    "relative_position_bucket",
    "relative_positions",
    "rotate_pairs",
    "scaled_dot_product_attention",
    "segment_ids_from_lengths",
    "show_versions",
    "sinusoidal_encoding",
    "spherical_encoding",
    "spherical_truncation_error",
    "to_attend",
    "to_block_ranges",
    "xpos_scale",
]

# Public names in modules, such as optional packages and types of results, for error messages.
_ELSEWHERE = {
    "attention.at_positions": "StepPositions",
    "attention.cache": "KVStep",
    "encodings.dropout": "dropout",
    "plotting": "plot_attention plot_encoding plot_kernel plot_rope_decay plot_similarity "
    "plot_wavelengths",
    "rotary.tables": "RotaryTables",
    "sklearn": "AttentionRegressor GapFiller GaussianKernel MaternKernel PeriodicKernel "
    "PositionalEncoder ProductKernel SphereKernel SumKernel",
    "xarray": "encode",
}

# Endings of names in other libraries, in lower case without underscores, and the names here.
_OTHER_NAMES = {
    "rotatehalf": "neg_half(x, axis=-1)",
    "rotaryembedding": "RoPE",
    "rotaryposemb": "RoPE",
    "rotaryemb": "RoPE",
    "freqscis": "RoPE",
    "learnedpositionalembedding": "LearnedPE",
    "learnedpositionalencoding": "LearnedPE",
    "positionalembedding": "AbsolutePE or sinusoidal_encoding",
    "positionalencoding": "AbsolutePE or sinusoidal_encoding",
    "multiheadattention": "RoPEMultiHeadAttention or scaled_dot_product_attention",
    "selfattention": "RoPEMultiHeadAttention or scaled_dot_product_attention",
    "flashattention": "scaled_dot_product_attention",
    "slidingwindow": "SlidingWindowMask.of(keys)",
    "causalmask": "CausalMask()",
    "blockmask": "to_block_ranges",
    "plotmask": "positional_embeddings.plotting.plot_attention(mask, q_len)",
    "positionids": "positions_from_mask",
    "relativepositionbias": "T5Bias",
    "relativebias": "T5Bias",
    "pastkeyvalues": "KVCache",
    "cache": "KVCache",
}


def __dir__() -> list[str]:
    """Return the public names, without the packages."""
    return __all__


def __getattr__(name: str) -> NoReturn:
    """Raise the error about a missing name, with the module of the name or the closest name."""
    packages = {
        n: package for package, names in _ELSEWHERE.items() for n in (package, *names.split())
    }
    plain = name.lower().replace("_", "")
    hints = (f" Did you mean {x}?" for end, x in _OTHER_NAMES.items() if plain.endswith(end))
    hint = next(hints, None) or did_you_mean(name, [*__all__, *packages])
    if name in packages:
        hint = f" Import {'it from ' * (name not in _ELSEWHERE)}{__name__}.{packages[name]}."
    message = f"{__name__} has no attribute `{name}`.{hint}"
    # `from ... import name` hides the message of an AttributeError, but needs one for modules.
    is_import = sys._getframe(1).f_code.co_name == "_handle_fromlist" and name not in _ELSEWHERE  # noqa: SLF001
    raise ImportError(message) if is_import and hint else AttributeError(message)
