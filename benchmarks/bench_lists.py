"""Time and memory of attention over lists of keys, beside a gather by hand in NumPy.

Prints a Markdown table. Both are measured in turn, and the least time of each counts: wall time, or
with `--one-thread` that of the processor with one thread. By hand are `take` and `matmul` in
blocks of 128 queries.

    python benchmarks/bench_lists.py [--most 100000] [--rounds 3] [--one-thread]

`results/lists.md` is what it prints.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness.formats import duration, markdown_rows
from harness.machine import description, one_line
from threadpoolctl import threadpool_limits

from positional_embeddings import ListMask, scaled_dot_product_attention

HEADS, FEATURES, BLOCK = 8, 16, 128
LAYOUTS = {
    "(heads, seq, head)": (1, {"feature_axis": -1, "seq_axis": -2}),
    "(seq, heads, head)": (0, {"feature_axis": -1, "seq_axis": 0}),
}


def by_hand(q: Any, k: Any, v: Any, indices: Any, axis: int) -> Any:
    """Attend to the listed keys, with the sequence on axis 0 or 1 of three."""
    output = np.empty_like(q)
    for start in range(0, len(indices), BLOCK):
        listed = indices[start : start + BLOCK]
        keys, values = (np.take(x, listed, axis=axis) for x in (k, v))
        at = (slice(None),) * axis + (slice(start, start + BLOCK),)
        if axis == 0:  # (query, key, heads, head)
            keys, values = (np.swapaxes(x, 1, 2) for x in (keys, values))
        scores = q[at][:, :, None, :] @ keys.mT
        scores *= FEATURES**-0.5
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        output[at] = (scores @ values)[:, :, 0]
    return output


def arrays(n: int, axis: int) -> list[Any]:
    """Return queries, keys and values of float32."""
    shape = (HEADS, n, FEATURES) if axis else (n, HEADS, FEATURES)
    return list(np.random.default_rng(0).standard_normal((3, *shape), dtype=np.float32))


def equal_lists(n: int, m: int) -> Any:
    """Return keys that are far from one another, each once for a query."""
    rng = np.random.default_rng(1)
    return (rng.integers(0, n, (n, 1)) + np.arange(m) * (n // m)) % n


def ragged_lists(n: int, longest: int) -> tuple[Any, Any]:
    """Return lists of 1 to `longest` keys by a power law, as `indptr` and `indices`."""
    rng = np.random.default_rng(2)
    lengths = np.minimum(rng.zipf(1.6, n), longest)
    indptr = np.cumsum([0, *lengths])
    first = np.repeat(rng.integers(0, n, n), lengths)
    return indptr, (first + (np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)) * 17) % n


def least_times(calls: dict[str, Callable[[], Any]], rounds: int, clock: Any) -> list[float]:
    """Return the least time of each call; they are made in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return [min(of_call) for of_call in times.values()]


def memory(call: Callable[[], Any]) -> str:
    """Return what a call held at most beside its output."""
    tracemalloc.start()
    output = call()
    peak = tracemalloc.get_traced_memory()[1] - output.nbytes
    tracemalloc.stop()
    return f"{peak / 1e6:.0f} MB"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-thread", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.one_thread else time.perf_counter
    measure = partial(least_times, rounds=options.rounds, clock=clock)
    rows = []

    def add(lists: str, other: str, calls: dict[str, Callable[[], Any]], held: str = "") -> None:
        ours, others = measure(calls)
        ratio = f"{ours / others:.2f}"
        rows.append([lists, duration(ours), other, duration(others), ratio, held])
        print(*rows[-1], file=sys.stderr, flush=True)

    for name, (axis, axes) in LAYOUTS.items():
        for n in (n for n in (10_000, 100_000, 1_000_000) if n <= options.most):
            q, k, v = arrays(n, axis)
            indices = equal_lists(n, 32)
            ours = partial(scaled_dot_product_attention, q, k, v, mask=ListMask(indices), **axes)
            hand = partial(by_hand, q, k, v, indices, axis)
            np.testing.assert_allclose(ours(), hand(), atol=1e-5)
            lists = f"{n:,} of 32, {name}"
            add(lists, "by hand", {"ours": ours, "hand": hand}, memory(ours))

    axis, axes = LAYOUTS["(heads, seq, head)"]
    q, k, v = arrays(4096, axis)
    mask = ListMask(equal_lists(4096, 16))
    dense = mask.dense(4096)[None, :, :, 0]
    calls = {
        kind: partial(scaled_dot_product_attention, q, k, v, mask=own, **axes)
        for kind, own in (("ours", mask), ("dense", dense))
    }
    add("4,096 of 16", "dense mask", calls)

    n = min(options.most, 20_000)
    q, k, v = arrays(n, axis)
    indptr, indices = ragged_lists(n, 4096)
    mean = round(len(indices) / n)
    calls = {
        kind: partial(scaled_dot_product_attention, q, k, v, mask=own, **axes)
        for kind, own in (
            ("ragged", ListMask.from_csr(indptr, indices)),
            ("equal", ListMask(equal_lists(n, mean))),
        )
    }
    add(f"{n:,} of 1 to 4,096", f"{n:,} of {mean}", calls)
    head = ["lists", "time", "beside", "time of that", "ratio", "memory beside the output"]
    print(f"{markdown_rows(head, rows)}\n\n{one_line(description(), 'numpy')}")


if __name__ == "__main__":
    if "--one-thread" in sys.argv:
        with threadpool_limits(1):
            main()
    else:
        main()
