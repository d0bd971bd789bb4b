"""
The wavelengths of YaRN
=======================

A head of the size in Llama is trained on 4,096 positions and extended to 32,768. Short wavelengths
are unchanged, and long wavelengths are stretched. Pairs above their context never complete a cycle.
"""

import matplotlib.pyplot as plt

from positional_embeddings import RoPE, YaRNScaling
from positional_embeddings.plotting import plot_wavelengths

extended = RoPE(128, 32_768, scaling=YaRNScaling(8.0, 4096))
figure, ax = plt.subplots()
plot_wavelengths({"as trained": RoPE(128, 4096), "extended by YaRN": extended}, ax=ax)
ax.set_title("wavelengths of the pairs of a head")
