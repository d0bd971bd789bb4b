"""
2. Rotate queries and keys
==========================

Most language models rotate pairs of features of their queries and keys by angles that grow with
the position. The score of a query and a key then depends only on their distance.
"""

# %%
# This ``RoPE`` is for heads of 64 features and up to 4,096 positions. It rotates arrays of any
# library. The axes of features and sequence are explicit, never inferred from lengths. The scores
# of 100 queries and keys are the same at positions from 0 and from 1,000:

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.plotting import plot_rope_decay, plot_wavelengths

rope = RoPE(64, 4096, feature_axis=-1, seq_axis=-2)
rng = np.random.default_rng(0)
q, k = rng.standard_normal((2, 1, 8, 100, 64))  # (batch, heads, seq, features)
near = rope(q) @ rope(k).swapaxes(-1, -2)
far = rope(q, offset=1000) @ rope(k, offset=1000).swapaxes(-1, -2)
print(np.abs(near - far).max() < 1e-10)

# %%
# Each pair of features has a wavelength: the first pair turns once in six positions, the last pair
# once in 47,000. The score of an equal query and key decreases with their distance.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
plot_wavelengths({"base 10,000": rope}, ax=left)
left.set_title("wavelengths of the pairs")
plot_rope_decay({"base 10,000": rope}, max_distance=400, ax=right)
right.set_title("scores at 400 distances")

# %%
# A model is trained on 4,096 positions. A longer text has angles outside the training range. A
# scaling such as YaRN makes the wavelengths of slow pairs eight times as long, so the angles of
# 32,768 positions stay in that range. It also multiplies cosines and sines by the printed
# factor.

longer = RoPE(64, 32_768, scaling=YaRNScaling(8.0, 4096), feature_axis=-1, seq_axis=-2)
ax = plot_wavelengths({"as trained": rope, "extended by YaRN": longer})
ax.set_title("a longer context")
print(round(longer.attention_factor, 3))

# %%
# The ``config.json`` of a model contains these settings. ``from_hf_config`` reads them, and raises
# an error for unknown settings.

config = {
    "model_type": "qwen2",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 32_768,
    "rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096},
}
read = RoPE.from_hf_config(config, feature_axis=-1, seq_axis=-2)
print(read.scaling)
