"""Compare functions with code by hand, by turns, as a table of Markdown."""

import sys
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from harness.formats import duration, markdown_rows
from harness.machine import description, one_line
from harness.timing import Run, least_times

# A name, what is compared, the function, and the code by hand.
Pair: TypeAlias = tuple[str, str, Run, Run]


def print_pairs(title: str, pairs: Iterable[Pair], seconds: float, *packages: str) -> None:
    """Print the least times of pairs of functions, whose results are equal, and their ratios."""
    rows = []
    for name, beside, ours, by_hand in pairs:
        np.testing.assert_allclose(ours(), by_hand(), rtol=1e-4, atol=1e-5)
        least = least_times((ours, by_hand), seconds)
        ratio = f"{least[0] / least[1]:.2f}"
        rows.append([name, duration(least[0]), beside, duration(least[1]), ratio])
        print(*rows[-1], file=sys.stderr, flush=True)
    head = [title, "time", "beside", "time of that", "ratio"]
    print(f"{markdown_rows(head, rows)}\n\n{one_line(description(), *packages)}")
