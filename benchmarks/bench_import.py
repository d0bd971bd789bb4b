"""Case of the import: how much longer than that of NumPy alone."""

import subprocess
import sys
from statistics import quantiles
from time import perf_counter
from typing import Any

from contenders import Builder

STATEMENTS = {"numpy": "import numpy", "this library": "import positional_embeddings"}


def importing(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - one thread imports
    """Return the import in fresh processes."""
    return [("import", lambda _: fresh_imports(3 if quick else 11))]


def fresh_imports(rounds: int) -> dict[str, Any]:
    """Time fresh processes in turns; the first of each, which fills the caches, is left out."""
    samples: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(rounds + 1):
        for name, statement in STATEMENTS.items():
            start = perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)  # noqa: S603 - our own
            samples[name].append(perf_counter() - start)
    entries = {}
    for name, times in samples.items():
        q1, median, q3 = quantiles(times[1:], n=4, method="inclusive")
        entries[name] = {"median": median, "q1": q1, "q3": q3, "rounds": rounds, "calls": 1}
        entries[name]["ratio"] = median / entries["numpy"]["median"]
    beyond = entries["this library"]["median"] - entries["numpy"]["median"]
    return {
        "topic": "import",
        "case": "fresh processes",
        "unit": "numpy",
        "beyond": beyond,
        "contenders": entries,
    }
