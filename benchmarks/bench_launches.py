"""Count what calls on CuPy's arrays ask of a GPU: launches, waits, copies, matrix products.

Times depend on the GPU, counts do not: they can be taken without one, where CUDA is replaced
by a library that counts its calls. That library is loaded before CUDA's own, and `--counter`
names its C function ``long SYMBOL(int kind)``, which returns how often it was asked for
launches (0), waits (1), copies to the device (2), from it (3), on it (4), allocations (5) and
matrix products (6). Without it the script says so and exits with status 2.

    python benchmarks/bench_launches.py --counter SYMBOL [--json FILE] [--before FILE]

A call is made twice before it is counted, so that kernels are compiled and tables are kept.
`results/launches.md` is what it prints with ``--before results/launches_before.json``.
"""

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from cases.launches import Call, calls
from harness.formats import markdown_rows

WITHOUT_COUNTER = 2
KINDS = {
    "launches": 0,
    "waits": 1,
    "copies to it": 2,
    "copies from it": 3,
    "copies on it": 4,
    "products": 6,
}
Counts = dict[str, int]


def counter(symbol: str) -> Callable[[int], int]:
    """Return the function that counts."""
    count = getattr(ctypes.CDLL(None), symbol)
    count.restype, count.argtypes = ctypes.c_long, [ctypes.c_int]
    return count  # type: ignore[no-any-return]


def counted(call: Call, count: Callable[[int], int]) -> Counts | str:
    """Return what a steady call asks for, or the error that it raises."""
    try:
        call()
        call()
        before = {kind: count(number) for kind, number in KINDS.items()}
        call()
    except Exception as error:  # noqa: BLE001 - an older version may not have the call
        return f"{type(error).__name__}: {error}"
    return {kind: count(number) - before[kind] for kind, number in KINDS.items()}


def markdown(written: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Return the table; a figure that has changed comes after the one before."""
    earlier = {} if before is None else before["calls"]
    rows = [
        [name, *(_cell(counts, earlier.get(name), kind) for kind in KINDS)]
        for name, counts in written["calls"].items()
    ]
    changes = "" if before is None else ", before and after where that differs"
    return (
        f"What a steady call asks of the GPU{changes}\n"
        "(`python benchmarks/bench_launches.py`):\n\n"
        f"{markdown_rows(['', *KINDS], rows)}\n\nCuPy {written['cupy']}.\n"
    )


def _cell(now: Counts | str, before: Counts | str | None, kind: str) -> str:
    number, earlier = (
        str(counts[kind]) if isinstance(counts, dict) else "error" if counts else ""
        for counts in (now, before)
    )
    return number if earlier in ("", number) else f"{earlier} → {number}"


def main() -> int:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description="Count what calls ask of a GPU.")
    parser.add_argument("--counter", help="C function that counts, of a library that is loaded")
    parser.add_argument("--json", type=Path, help="file to write the counts to")
    parser.add_argument("--before", type=Path, help="counts of an earlier run")
    parser.add_argument("--only", default="", help="part of the names of the calls")
    options = parser.parse_args()
    try:
        count = counter(options.counter or "(none given)")
        cupy = import_module("cupy")
        cupy.zeros(1)
    except Exception as error:  # noqa: BLE001 - no such function, no CuPy, no device
        need = "CuPy with a device, and --counter: a function of a loaded library that counts"
        print(f"Nothing is counted; needed is {need} ({error}).", file=sys.stderr)
        return WITHOUT_COUNTER
    found = {name: counted(call, count) for name, call in calls(cupy) if options.only in name}
    for name, counts in found.items():
        if isinstance(counts, str):
            print(f"{name}: {counts}", file=sys.stderr)
    written = {"cupy": cupy.__version__, "calls": found}
    if options.json is not None:
        options.json.write_text(f"{json.dumps(written, indent=1)}\n", encoding="utf-8")
    before = options.before and json.loads(options.before.read_text(encoding="utf-8"))
    print(markdown(written, before), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
