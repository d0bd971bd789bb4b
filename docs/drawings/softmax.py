"""Draw an online softmax: the maximum and the sum after each block of keys, of one query."""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(4)
scores = rng.normal(0, 1.2, 64) + np.linspace(-1, 1.5, 64)
values = np.sin(np.arange(64) / 6)
BLOCK = 8
maximum, total, mean = -np.inf, 0.0, 0.0
states = []
for start in range(0, 64, BLOCK):
    block = slice(start, start + BLOCK)
    largest = max(maximum, scores[block].max())
    weights = np.exp(scores[block] - largest)
    old = total * np.exp(maximum - largest)
    total = old + weights.sum()
    mean = (old * mean + weights @ values[block]) / total
    maximum = largest
    states.append((maximum, total, mean))
exact = np.exp(scores) @ values / np.exp(scores).sum()
assert abs(mean - exact) < 1e-12
maxima, totals, means = np.transpose(states)
ends = np.arange(BLOCK, 65, BLOCK)

figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(7.2, 5), sharex=True)
top.bar(np.arange(64) + 0.5, scores, width=0.8, color="#56b4e9", label="score of a key")
top.step(np.append(0, ends), np.append(maxima[0], maxima), color="#d55e00", label="maximum so far")
middle.plot(ends, totals, "o-", color="#009e73", label="sum so far, by that maximum")
bottom.plot(ends, means, "o-", color="#0072b2", label="output so far")
bottom.axhline(exact, color="#808080", linestyle=":", label="softmax of all keys")
for ax in (top, middle, bottom):
    ax.legend(fontsize="small", loc="best")
    for end in ends[:-1]:
        ax.axvline(end, color="#dddddd", linewidth=0.8, zorder=0)
bottom.set(xlabel="key; lines part the blocks")
top.set_title("one query, eight blocks of keys")
