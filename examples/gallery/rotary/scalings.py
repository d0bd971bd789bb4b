"""
Five scalings for a longer context
==================================

Each scaling multiplies the wavelength of each pair by a factor. All five scalings extend a context
of 4,096 by 8, and differ in the pairs that stay unchanged.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import (
    LinearScaling,
    Llama3Scaling,
    LongRoPEScaling,
    NTKScaling,
    RoPE,
    YaRNScaling,
)

TRAINED, LENGTH = 4096, 32_768
scalings = {
    "linear": LinearScaling(8.0),
    "NTK": NTKScaling(8.0),
    "YaRN": YaRNScaling(8.0, TRAINED),
    "Llama 3": Llama3Scaling(8.0, 1.0, 4.0, TRAINED),
    "LongRoPE": LongRoPEScaling([1.0] * 64, list(np.linspace(1, 8, 64)), TRAINED),
}
plain = RoPE(128, LENGTH).inv_freq
figure, ax = plt.subplots()
for (name, scaling), dashes in zip(scalings.items(), ("-", "--", "-", "--", "-."), strict=True):
    factor = plain / RoPE(128, LENGTH, scaling=scaling).inv_freq
    ax.plot(factor, dashes, label=name)
ax.set(
    xlabel="pair of features", ylabel="wavelength, of the plain one", title="how far waves stretch"
)
ax.set_yscale("log", base=2)
ax.legend(loc="lower right")
