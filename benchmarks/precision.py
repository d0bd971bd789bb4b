"""Print and draw the error of rotary tables against the position, for several libraries.

Each library gives cosine and sine of the angles at positions from 1 to 10,000,000, for
heads of 128 features and base 10,000; the exact values come from mpmath. In bfloat16 a
module is cast as models cast theirs, its buffers included.

    python benchmarks/precision.py [--output benchmarks/results/precision.png]
"""

import argparse
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from cases.precision import COLUMNS, DIM, LIBRARIES, drawn_positions, errors, exact_tables
from harness.chart import draw_errors

PICTURE = Path(__file__).parent / "results" / "precision.png"


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description="Error of rotary tables against position.")
    parser.add_argument("--output", type=Path, default=PICTURE, help="PNG")
    options = parser.parse_args()
    positions = drawn_positions()
    print(f"Exact values of {len(positions)} positions by mpmath ...", flush=True)
    exact = exact_tables(positions)
    results = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        results[name] = {
            library: errors(make, positions, dtype, exact) for library, make in LIBRARIES.items()
        }
        print(
            f"\nLargest error of {name} cosine and sine, over {DIM // 2} frequencies, at position"
        )
        print(f"{'':24}" + "".join(f"{column:>12,}" for column in COLUMNS))
        for library, worst in results[name].items():
            row = (worst[positions == column][0] for column in COLUMNS)
            print(f"{library:24}" + "".join(f"{value:12.1e}" for value in row))
    draw_errors(options.output, positions, results)
    packages = ("torch", "transformers", "rotary-embedding-torch", "numpy", "mpmath")
    print(f"\n{platform.machine()}, Python {sys.version.split()[0]}, ", end="")
    print(", ".join(f"{package} {version(package)}" for package in packages), end=", ")
    print(f"{datetime.now(tz=UTC):%Y-%m-%d}")
    print(f"Picture written to {options.output}.")


if __name__ == "__main__":
    main()
