"""Pictures of encodings, masks, biases, attention, rotary embeddings, similarities and kernels.

Optional: no other module imports this package. The first plot imports Matplotlib, of the extra
"plot".
"""

from positional_embeddings.plotting.heat_maps import plot_attention, plot_encoding, plot_similarity
from positional_embeddings.plotting.kernels import plot_kernel
from positional_embeddings.plotting.rope import plot_rope_decay, plot_wavelengths

__all__ = [
    "plot_attention",
    "plot_encoding",
    "plot_kernel",
    "plot_rope_decay",
    "plot_similarity",
    "plot_wavelengths",
]
