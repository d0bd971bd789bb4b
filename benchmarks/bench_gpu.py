"""Time this library on a GPU: CuPy, fused and plain, against a copy within the device.

Beside it run CuPy by hand, in the words of a textbook and as a kernel, and PyTorch, eager
and compiled. Without CuPy or a GPU it says so and exits with status 2.

    python benchmarks/bench_gpu.py [--quick] [--results benchmarks/results]
"""

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_rotation import BHSD, Rotation, expected, ours, shapes
from chart import draw
from contenders import Builder, Case, Contender, HostArray, measured, needed
from machine import description
from report import case_table, headline, markdown, missing, print_table, terminal, verdicts_table
from rich.console import Console
from rich.progress import track
from targets import FUSED, PLAIN, verdicts_of_gpu
from timing import QUICK, Rounds, Run

RESULTS = Path(__file__).parent / "results"
WITHOUT_GPU = 2
SIZES = {"64 MB": (2, 32), "256 MB": (8, 32), "1024 MB": (8, 128)}
QUICK_SIZES = {"1 MB": (1, 1), "2 MB": (2, 1), "4 MB": (2, 2)}
TITLE = "Rotary embeddings on a GPU: time in multiples of a copy within the device, less is better"


def main() -> int:
    """Measure, print and write."""
    options = _options()
    console = terminal()
    try:
        cupy = needed("cupy")
        cupy.zeros(1)
    except Exception as error:  # noqa: BLE001 - no CuPy, no driver, no device
        console.print(f"No GPU to measure on: {type(error).__name__}: {error}", markup=False)
        return WITHOUT_GPU
    sync = cupy.cuda.Device().synchronize
    rounds = QUICK if options.quick else Rounds(sample=5e-3)
    results = []
    for _, measure in track(builders(cupy, sync, quick=options.quick), console=console):
        results.append(measure(rounds) | {"threads": 1})
        console.print(case_table(results[-1]))
    report(console, results, options)
    return 0


def builders(cupy: Any, sync: Run, *, quick: bool) -> list[Builder]:
    """Return the three layouts in three sizes, and one token of 32 heads."""
    seq, sizes = (2048, QUICK_SIZES if quick else SIZES)
    made = []
    for name, (batch, heads) in sizes.items():
        for layout, shape in shapes(batch, heads, seq, 128).items():
            labels = {"main": True, "large": True, "topic": "rotation"}
            build = partial(_measured, cupy, sync, name, layout, shape, labels)
            made.append((name, build))
    labels = {"topic": "decoding", "offset": 1000}
    build = partial(_measured, cupy, sync, "one token", BHSD, (1, 32, 1, 128), labels)
    made.append(("one token", build))
    return made


def _measured(
    cupy: Any,
    sync: Run,
    name: str,
    layout: str,
    shape: tuple[int, ...],
    labels: dict[str, Any],
    rounds: Rounds,
) -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    problem = Rotation(layout, x, 1, labels.get("offset", 0))
    right = expected(problem)
    forms = {
        "copy": ("peer_cupy", "copy", {}),
        "CuPy textbook": ("peer_cupy", "textbook", {}),
        "CuPy kernel by hand": ("peer_cupy", "kernel", {}),
        "torch eager": ("peer_torch", "eager", {"device": "cuda"}),
        "torch.compile": ("peer_torch", "compiled", {"device": "cuda"}),
    }
    contenders = [
        Contender(form, partial(_peer, module, function, problem, more), values, view=on_host)
        for form, (module, function, more) in forms.items()
        for values in (x if form == "copy" else right,)
    ]
    contenders[1:1] = [
        Contender(form, partial(ours, problem, fused=fused, xp=cupy), right, view=on_host)
        for form, fused in ((FUSED, True), (PLAIN, False))
    ]
    known = {"layout": layout, "shape": list(shape)} | labels
    topic = known.pop("topic")
    return measured(Case(topic, name, x.nbytes, contenders, known), rounds, sync)


def _peer(module: str, function: str, problem: Rotation, more: dict[str, Any]) -> Run:
    """Return the call of a peer, without gradients."""
    loaded = needed(module)
    if module == "peer_torch":
        needed("torch").autograd.set_grad_enabled(False)
    run: Run = getattr(loaded, function)(problem, **more)
    return run


def on_host(array: Any) -> HostArray:
    """Return an array of CuPy or PyTorch as one of NumPy."""
    moved = array.get() if hasattr(array, "get") else array.cpu()
    return np.asarray(moved)


def report(console: Console, results: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the tables, and write the files."""
    found = verdicts_of_gpu(results)
    for table in (headline(results), verdicts_table(found)):
        print_table(console, table)
    for result in results:
        seconds = result["contenders"]["copy"].get("median")
        if seconds and result["topic"] == "rotation":
            speed = 2 * result["bytes"] / seconds / 1e9
            console.print(f"copy of {result['case']} {result['layout']}: {speed:.0f} GB/s")
    written = {
        "machine": description(),
        "quick": options.quick,
        "missing": missing(results),
        "targets": [vars(verdict) for verdict in found],
        "results": results,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    text = json.dumps(written, indent=1)
    (options.results / "gpu.json").write_text(f"{text}\n", encoding="utf-8")
    (options.results / "gpu.md").write_text(markdown(written, found), encoding="utf-8")
    draw(written, options.results / "gpu.png", TITLE)
    console.print(f"Written to {options.results}: gpu.json, gpu.md, gpu.png")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time this library on a GPU.")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, to try")
    parser.add_argument("--results", type=Path, help="folder to write to, benchmarks/results")
    options = parser.parse_args()
    if options.results is None:
        options.results = Path(tempfile.mkdtemp()) if options.quick else RESULTS
    return options


if __name__ == "__main__":
    sys.exit(main())
