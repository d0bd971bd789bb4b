"""Draw two layouts of queries, and the scores of each."""

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

FEATURES, SEQUENCE, OTHERS = "#0072b2", "#e69f00", "#bbbbbb"


def stack(ax, x, y, labels, colours):
    """Draw a stack of three tables: (rows, columns, tables)."""
    for depth in (2, 1, 0):
        at = x + 0.18 * depth, y + 0.18 * depth
        ax.add_patch(Rectangle(at, 2, 1.4, facecolor="#f7f7f7", edgecolor=OTHERS))
    ax.annotate(
        "",
        (x, y - 0.1),
        (x, y + 1.5),
        arrowprops={"arrowstyle": "->", "color": colours[0], "lw": 2},
    )
    ax.annotate(
        "",
        (x + 2.1, y + 1.4),
        (x - 0.1, y + 1.4),
        arrowprops={"arrowstyle": "->", "color": colours[1], "lw": 2},
    )
    ax.text(x - 0.12, y + 0.7, labels[0], rotation=90, ha="right", va="center", color=colours[0])
    ax.text(x + 0.9, y + 1.24, labels[1], ha="center", va="top", color=colours[1])
    ax.text(x + 2.45, y + 0.5, labels[2], ha="left", va="center", color="#767676")


figure, axes = plt.subplots(2, 2, figsize=(9, 4.6))
rows = {
    "default": ("features", "sequence", "heads x batch", "queries", "keys"),
    "feature_axis=-1, seq_axis=-2": ("sequence", "features", "batch, heads", "queries", "keys"),
}
for (left, right), (name, words) in zip(axes, rows.items(), strict=True):
    first_is_feature = words[0] == "features"
    colours = (FEATURES, SEQUENCE) if first_is_feature else (SEQUENCE, FEATURES)
    stack(left, 0, 0, words[:3], colours)
    stack(right, 0, 0, (words[3], words[4], words[2]), (SEQUENCE, "#d55e00"))
    left.set_title(f"q, {name}", loc="left")
    right.set_title("its scores, masks and biases", loc="left")
    for ax in (left, right):
        ax.set(xlim=(-0.6, 4.2), ylim=(-0.2, 2))
        ax.axis("off")
