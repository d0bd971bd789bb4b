"""
Softmax weight and the number of keys
=====================================

The weight of one matching key decreases as keys are added, without a bias. A factor on
the queries that grows with the logarithm of the position prevents this, as in Llama 4.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import attention_weights

rng = np.random.default_rng(0)
lengths = np.unique(np.geomspace(16, 8192, 20).astype(int))
keys = rng.standard_normal((64, 8192))
query = keys[:, :1] * 0.75  # the first key matches

figure, ax = plt.subplots()
for name, grow in {"as it is": 0.0, "query grows with the logarithm": 0.12}.items():
    weights = [
        attention_weights(query * (1 + grow * np.log(n / 16)), keys[:, :n])[0, 0] for n in lengths
    ]
    ax.semilogx(lengths, weights, "o-", label=name)
ax.set(xlabel="keys", ylabel="weight of the matching key", title="one key among many", ylim=(0, 1))
ax.legend()
