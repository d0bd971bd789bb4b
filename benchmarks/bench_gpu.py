"""Time this library on a GPU: CuPy, fused and plain, against a copy within the device.

Rotations in three dtypes, one token, given positions, and attention. The same run times CuPy by
hand, as a textbook writes it and as a kernel, and PyTorch, eager and compiled. Without CuPy, its
compiler or a GPU it says so and exits with status 2.

    python benchmarks/bench_gpu.py [--quick] [--results benchmarks/results]
"""

import sys
from contextlib import suppress
from importlib import import_module

from cases.gpu import all_cases
from harness.report import case_table, parser, terminal, write_report
from harness.targets import gpu_verdicts
from harness.timing import QUICK, Rounds
from rich.progress import track

WITHOUT_GPU = 2
TITLE = "Rotary embeddings on a GPU: time in multiples of a copy within the device, less is better"


def main() -> int:
    """Measure, print and write."""
    options = parser("Time this library on a GPU.").parse_args()
    console = terminal()
    try:
        cupy = import_module("cupy")
        float((cupy.arange(1) + 1).sum())
    except Exception as error:  # noqa: BLE001 - no CuPy, no driver, no device, no compiler
        console.print(f"No GPU to measure on: {type(error).__name__}: {error}", markup=False)
        return WITHOUT_GPU
    with suppress(Exception):  # a peer says by itself that it is missing or broken
        import_module("torch").autograd.set_grad_enabled(False)
    rounds = QUICK if options.quick else Rounds(sample=5e-3)
    results = []
    for _, measure in track(all_cases(cupy, quick=options.quick), console=console):
        results.append(measure(rounds) | {"threads": 1})
        console.print(case_table(results[-1]))
    for result in results:
        seconds = result["contenders"].get("copy", {}).get("median")
        if seconds and result["topic"] == "rotation":
            speed = 2 * result["bytes"] / seconds / 1e9
            console.print(f"copy of {result['case']} {result['layout']}: {speed:.0f} GB/s")
    write_report(console, results, gpu_verdicts(results), options, name="gpu", title=TITLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
