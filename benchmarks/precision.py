"""Print and draw the error of rotary tables against the position, for several libraries.

Each library gives cosine and sine of the angles at positions from 1 to 10,000,000, for
heads of 128 features and base 10,000; the exact values come from mpmath. A model of
transformers is loaded in a dtype, as usual, and cast to it by `to`, its buffers included, as
is the module of rotary-embedding-torch.

    python benchmarks/precision.py [--output benchmarks/results/precision.png]
"""

import argparse
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import torch
from harness.inputs import BASE, HostArray
from harness.targets import OURS
from matplotlib.figure import Figure
from peers import rotary_embedding_torch, transformers
from peers.torch import tables, tables_in_dtype

from positional_embeddings import RoPE

PICTURE = Path(__file__).parent / "results" / "precision.png"
DIM = 128
DECADES = range(7)
PER_DECADE = 12
COLUMNS = (1_000, 10_000, 131_071, 1_048_575, 10_000_000)
# From positions, DIM and dtype to cosine and sine, (DIM / 2, positions).
Library = Callable[[HostArray, int, torch.dtype], tuple[Any, Any]]


def ours(positions: HostArray, dim: int, dtype: torch.dtype) -> tuple[Any, Any]:
    """Rotate pairs (1, 0), which gives cosine and sine."""
    x = torch.zeros((dim, len(positions)), dtype=dtype)
    x[: dim // 2] = 1
    rotated = RoPE(dim, 1)(x, positions=torch.as_tensor(positions))
    return rotated[: dim // 2], rotated[dim // 2 :]


LIBRARIES: dict[str, Library] = {
    OURS: ours,
    "transformers, from_pretrained(dtype=...)": transformers.loaded_tables,
    "transformers, model.to(dtype)": transformers.cast_tables,
    "rotary-embedding-torch": rotary_embedding_torch.tables,
    "torchtune's recipe": tables,
    "attnax's recipe": tables_in_dtype,
}


def drawn_positions() -> HostArray:
    """Return random positions in each decade, and those of the printed columns."""
    rng = np.random.default_rng(0)
    decades = [rng.integers(10**n, 10 ** (n + 1), PER_DECADE) for n in DECADES]
    return np.unique(np.concatenate([*decades, COLUMNS]))


def exact_tables(positions: HostArray) -> tuple[HostArray, HostArray]:
    """Return cosine and sine by mpmath, rounded to float64."""
    shape = (DIM // 2, len(positions))
    cos, sin = np.zeros(shape), np.zeros(shape)
    with mpmath.workdps(40):
        for i in range(DIM // 2):
            frequency = mpmath.mpf(BASE) ** (-mpmath.mpf(2 * i) / DIM)
            for j, position in enumerate(positions.tolist()):
                cos[i, j] = mpmath.cos(position * frequency)
                sin[i, j] = mpmath.sin(position * frequency)
    return cos, sin


def errors(library: Library, positions: HostArray, dtype: torch.dtype, exact: Any) -> HostArray:
    """Return the largest error over the frequencies at each position."""
    distances = [
        np.abs(table.double().numpy() - truth)
        for table, truth in zip(library(positions, DIM, dtype), exact, strict=True)
    ]
    worst: HostArray = np.maximum(*distances).max(axis=0)
    return worst


def draw(path: Path, positions: HostArray, results: dict[str, dict[str, HostArray]]) -> None:
    """Draw the errors of tables of every library, one panel for each dtype."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True)
    for panel, (dtype, of_libraries) in zip(panels, results.items(), strict=True):
        # Open marks of sizes that differ, since some lines are the same.
        markers = zip("osv^D*", (4, 10, 8, 8, 6, 3), strict=True)
        for (name, worst), (marker, size) in zip(of_libraries.items(), markers, strict=True):
            # The largest error so far: what a context of this length has to live with.
            so_far, width = np.maximum.accumulate(worst), 2.5 if name == OURS else 1
            style = {"marker": marker, "markersize": size, "fillstyle": "none", "linewidth": width}
            panel.loglog(positions, so_far, label=name, **style)
        panel.set(title=dtype, xlabel="position")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("largest error of cosine and sine up to it")
    panels[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


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
    draw(options.output, positions, results)
    page = "\n".join([*rows(positions, results), machine()])
    print(page)
    options.output.with_suffix(".md").write_text(f"{page}\n", encoding="utf-8")
    print(f"\nPicture written to {options.output}, and this table beside it.")


def rows(positions: HostArray, results: dict[str, dict[str, HostArray]]) -> Iterator[str]:
    """Yield the lines of a table for each dtype, in Markdown."""
    for dtype, of_libraries in results.items():
        yield "| " + " | ".join([f"{dtype}, at position", *(f"{at:,}" for at in COLUMNS)]) + " |"
        yield "| --- " * (1 + len(COLUMNS)) + "|"
        for library, worst in of_libraries.items():
            figures = (f"{worst[positions == at][0]:.1e}" for at in COLUMNS)
            yield "| " + " | ".join([library, *figures]) + " |"
        yield ""


def machine() -> str:
    """Return what the figures depend on."""
    packages = ("torch", "transformers", "rotary-embedding-torch", "numpy", "mpmath")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    today = f"{datetime.now(tz=UTC):%Y-%m-%d}"
    return f"{platform.machine()}, Python {platform.python_version()}, {versions}, {today}."


if __name__ == "__main__":
    main()
