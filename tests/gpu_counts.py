"""What calls on CuPy's arrays ask of a GPU, where something counts it.

The counter is a C function ``long SYMBOL(int kind)`` of a library that is loaded before CUDA's own.
It returns how many launches (kind 0), waits (1), copies to the device (2), copies from it (3) and
matrix products (6) there were so far. `python tests/gpu_counts.py SYMBOL` writes what it counts for
each public name into docs/results/cupy.md.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "results" / "cupy.md"
BEGIN, END = "<!-- begin of what tests/gpu_counts.py writes -->", "<!-- end of it -->"

# The kinds of `Counts`, as the counter numbers them.
KINDS = (0, 1, 2, 3, 6)


class Counts(NamedTuple):
    """How often a call asked for each thing."""

    launches: int
    waits: int
    to_device: int
    from_device: int
    products: int


class Cost(NamedTuple):
    """What a call cost, and the bytes of its results on the device."""

    counts: Counts
    allocated: int
    results: int


class Counter:
    """Counts what calls ask for."""

    def __init__(self, symbol: str, cupy: Any) -> None:
        self.count = getattr(ctypes.CDLL(None), symbol)
        self.count.restype = ctypes.c_long
        self.cupy = cupy

    def of(self, call: Callable[[], Any], before: int = 2) -> Counts:
        """Return what a call asks for once it was made `before`, as what is kept is there then."""
        for _ in range(before):
            call()
        first = [self.count(kind) for kind in KINDS]
        call()
        return Counts(*(self.count(kind) - n for kind, n in zip(KINDS, first, strict=True)))

    def allocated(self, call: Callable[[], Any]) -> list[int]:
        """Return the bytes of each array that a call makes."""
        sizes: list[int] = []
        pool = self.cupy.cuda.get_allocator()
        with self.cupy.cuda.using_allocator(lambda n: sizes.append(n) or pool(n)):
            call()
        return sizes

    def cost(self, call: Callable[[], Any]) -> Cost:
        """Return what a call costs, and the bytes of its results on the device."""
        counts = self.of(call)
        results = sum(_bytes_of(call(), self.cupy))
        return Cost(counts, sum(self.allocated(call)), results)


def _bytes_of(result: Any, cupy: Any) -> Iterable[int]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _bytes_of(part, cupy)
    elif isinstance(result, cupy.ndarray):
        yield int(result.nbytes)


def row(name: str, costs: list[Cost]) -> str:
    """Return the line of a name: of the call that launches most, beside the least it could."""
    cost = max(costs, key=lambda one: (one.counts, one.allocated))
    least = int(cost.results > 0)
    times = f"{cost.allocated / cost.results:.1f}" if cost.results else ""
    cells = f"{cost.counts.launches} / {least}", *cost.counts[1:], times
    return f"| `{name}` | {' | '.join(map(str, cells))} |"


def table(counter: Counter) -> str:
    """Return the table of all public names."""
    from backends import opened
    from samples import CATALOGUE, Library
    from test_every_backend import NAMES, OWN

    titles = "name", "launches / least", "waits", "to the device", "from it", "products"
    header = " | ".join((*titles, "bytes allocated / of results"))
    lines = [f"With CuPy {counter.cupy.__version__}:", "", f"| {header} |"]
    lines.append(f"|{' --- |' * (len(titles) + 1)}")
    with opened("cupy") as backend:
        moved: dict[Any, Any] = {}

        def array(values: Any, dtype: Any = None) -> Any:
            """Return an array of the device, the same one for the same numbers."""
            host = np.asarray(values)
            key = host.tobytes(), host.shape, host.dtype, dtype
            if key not in moved:
                moved[key] = backend.array(values, dtype)
            return moved[key]

        at = Library(array, {"xp": backend.xp, "device": backend.device})
        for name in NAMES:
            calls = [one.on for one in CATALOGUE[name]] if name not in OWN else [OWN[name]]
            try:
                lines.append(row(name, [counter.cost(partial(call, at)) for call in calls]))
            except (ModuleNotFoundError, RuntimeError) as error:  # a part of CUDA is not there
                part = error.name if isinstance(error, ModuleNotFoundError) else "Thrust"
                if part not in str(error):
                    raise
                lines.append(f"| `{name}` | not counted without {part} |{' |' * 5}")
    return "\n".join(lines)


def written(counter: Counter) -> str:
    """Return the page with what is counted now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(counter)}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    import cupy

    PAGE.write_text(written(Counter(sys.argv[1], cupy)), encoding="utf-8")
