"""Draw which features of a head form a pair, in both layouts."""

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"]
layouts = {"half": [0, 1, 2, 3, 0, 1, 2, 3], "interleaved": [0, 0, 1, 1, 2, 2, 3, 3]}
figure, ax = plt.subplots(figsize=(7.2, 2.4))
for row, (name, pairs) in enumerate(layouts.items()):
    y = 1.7 * (1 - row)
    ax.text(-0.2, y + 0.35, f'layout="{name}"', ha="right", va="center")
    for feature, pair in enumerate(pairs):
        ax.add_patch(Rectangle((feature, y), 0.9, 0.7, facecolor=COLOURS[pair]))
        ax.text(feature + 0.45, y + 0.35, str(feature), ha="center", va="center", color="white")
for old, feature in enumerate([0, 4, 1, 5, 2, 6, 3, 7]):  # half[feature] becomes interleaved[old]
    ax.plot([feature + 0.45, old + 0.45], [1.66, 0.74], color="#808080", linewidth=0.8)
ax.set(xlim=(-3, 8.2), ylim=(-0.1, 2.5))
ax.axis("off")
