"""
3. Mask keys
============

A mask is an object with a rule, such as "no later key". In its array True is masked out. An
attention takes the object, and skips masked blocks.
"""

# %%
# Masks combine by ``|`` (masked by either), ``&`` (masked by both) and ``~``.

import numpy as np

from positional_embeddings import (
    CausalMask,
    PaddingMask,
    RoPE,
    SlidingWindowMask,
    attention_weights,
    describe_mask,
    scaled_dot_product_attention,
    to_attend,
)
from positional_embeddings.plotting import plot_attention

window = CausalMask() | SlidingWindowMask(7, None)
print(describe_mask(window, 10))
plot_attention(window, 32).set_title("no later key, and none farther than seven back")

# %%
# Two sequences of a batch have 20 and 32 tokens. For PyTorch, JAX and ONNX, ``to_attend`` converts
# the mask to an array ``(batch, 1, query, key)``, in which True attends.

mask = window | PaddingMask([20, 32])
print(mask.dense(32).shape, to_attend(mask, 32).shape)

# %%
# Masked keys and values never reach the output, and a query without a visible key gets zeros. The
# plot shows the weights of one head of the second sequence, with rotated queries and keys.

axes = {"feature_axis": -1, "seq_axis": -2}
q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 32, 16))  # (batch, heads, seq, head)
rope = RoPE(16, 64, **axes)
output = scaled_dot_product_attention(rope(q), rope(k), v, mask=mask, **axes)
weights = attention_weights(rope(q), rope(k), mask=mask, **axes)
print(output.shape, weights.shape)
ax = plot_attention(weights, index=(1, 0), key_axis=-1)
ax.set_title("attention weights of one head")

# %%
# Long sequences are computed in blocks. Fully masked blocks are skipped, so the time
# of a window grows with the length, not with its square.

long = np.random.default_rng(1).standard_normal((3, 1, 1, 20_000, 16), dtype=np.float32)
output = scaled_dot_product_attention(
    *long, mask=CausalMask() | SlidingWindowMask(127, None), **axes
)
print(output.shape)
