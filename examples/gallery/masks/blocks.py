"""
Skipped blocks
==============

A mask determines the visible blocks of keys of a block of queries. Fully masked blocks are skipped,
so the time of a window grows with the length, not with its square.
"""

import matplotlib.pyplot as plt
import numpy as np

from positional_embeddings import CausalMask, SlidingWindowMask, to_block_ranges
from positional_embeddings.plotting import plot_attention

MASKS = {
    "causal": CausalMask(),
    "causal, window of 512": CausalMask() | SlidingWindowMask(511, None),
}
BLOCK = 128
lengths = np.asarray([512, 1024, 2048, 4096, 8192])
figure, (picture, curve) = plt.subplots(1, 2, figsize=(9, 3.8))
plot_attention(MASKS["causal, window of 512"], 2048, ax=picture)
for edge in range(0, 2049, BLOCK):
    picture.axhline(edge, color="#ffffff", linewidth=0.5)
    picture.axvline(edge, color="#ffffff", linewidth=0.5)
picture.set_title("blocks of 128 x 128")
for name, mask in MASKS.items():
    seen = [
        tables.kv_num_blocks.sum() + tables.full_kv_num_blocks.sum()
        for tables in (to_block_ranges(mask, int(n), block_size=BLOCK) for n in lengths)
    ]
    curve.loglog(lengths, seen, "o-", label=name)
curve.loglog(lengths, (lengths / BLOCK) ** 2, ":", color="#808080", label="all blocks")
curve.set_xticks(lengths, [f"{n:,}" for n in lengths], minor=False)
curve.minorticks_off()
curve.set(xlabel="tokens", ylabel="blocks that are seen", title="work")
curve.legend()
