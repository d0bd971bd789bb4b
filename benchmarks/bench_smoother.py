"""Time and memory of `AttentionRegressor`: many samples, many queries, with and without a cutoff.

Prints a Markdown table; each row is a process of its own, whose memory is what it held at most
beyond samples, queries and imports.

    python benchmarks/bench_smoother.py [--most 100000]

`results/smoother.md` is what it prints.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from harness.formats import duration, markdown_rows
from harness.machine import description, one_line

from positional_embeddings.sklearn import AttentionRegressor, GaussianKernel

CUTOFF = 6.0


def measured(samples: int, cutoff: float | None) -> dict[str, float]:
    """Return seconds of a fit and of a prediction, and the megabytes that both took."""
    rng = np.random.default_rng(0)
    x, new = rng.uniform(0, 1000, (2, samples, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(samples)
    model = AttentionRegressor(GaussianKernel(0.2), cutoff=cutoff)
    model.fit(x[:500], y[:500]).predict(new[:500])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model.fit(x, y)
    fitted = time.perf_counter()
    model.predict(new)
    done = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"fit": fitted - start, "predict": done - fitted, "MB": (after - before) / 1024}


def main() -> None:
    """Measure and print, or measure one row for the process that asks."""
    parser = argparse.ArgumentParser(description="Time and memory of AttentionRegressor.")
    parser.add_argument("--most", type=int, default=100_000, help="samples, and queries")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measured(*json.loads(options.row))))
        return
    rows = []
    for cutoff in (CUTOFF, None):
        for samples in (options.most // 4, options.most // 2, options.most):
            command = [sys.executable, __file__, "--row", json.dumps([samples, cutoff])]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            row = json.loads(done.stdout)
            times = [duration(row[what]) for what in ("fit", "predict")]
            rows.append([f"{samples:,}", "" if cutoff is None else f"{cutoff:g}", *times])
            rows[-1].append(f"{row['MB']:.0f} MB")
            print(*rows[-1], file=sys.stderr, flush=True)
    head = ["samples and queries", "cutoff (length scales)", "fit", "predict", "memory"]
    print(f"{markdown_rows(head, rows)}\n\n{one_line(description(), 'numpy', 'scikit-learn')}")


if __name__ == "__main__":
    main()
