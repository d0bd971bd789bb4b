"""Time and memory of calls that once cost many times what they return.

Prints a Markdown table; `--before` puts the figures of an earlier run beside them, which
may come from an older version of the library (by PYTHONPATH). Times are the least of
several calls, that of one where it takes seconds; memory is what Python and NumPy held at
most during a call.

    python benchmarks/bench_costs.py [--json FILE] [--before FILE] [--only words]

`results/costs.md` is what it prints with ``--before results/costs_before.json``, the figures
of the version of before.
"""

import argparse
import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from machine import description
from timing import Run, peak_memory

from positional_embeddings import (
    LearnedPE,
    RoPE,
    T5Bias,
    create_dilated_mask,
    lengths_from_segment_ids,
    relative_position_bucket,
    scaled_dot_product_attention,
    segment_ids_from_lengths,
)

LAST = {"feature_axis": -1, "seq_axis": -2}
ROUNDS, BUDGET, SLOW = 9, 4.0, 2.0
DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
Row = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """A call, and what its time and memory are compared with.

    Attributes
    ----------
    name : str
        What the table calls it.
    run : callable
        The call.
    unit : str, default "result"
        What its memory is given in multiples of, and its time where there is `beside`.
    beside : callable, optional
        The call that is the unit.
    tracked : bool, default True
        Whether its memory is taken: not of loops over Python's integers, which
        tracing slows down many times.
    """

    name: str
    run: Run
    unit: str = "result"
    beside: Run | None = None
    tracked: bool = True


def segments() -> Iterator[Cost]:
    """Yield numbers of documents from lengths, and back."""
    lengths = np.full(1000, 1000)
    ids = np.repeat(np.arange(1000), 1000)
    of = "1e6 tokens in 1,000 documents"
    yield Cost(f"segment_ids_from_lengths, {of}", lambda: segment_ids_from_lengths(lengths, 10**6))
    yield Cost(f"lengths_from_segment_ids, {of}", lambda: lengths_from_segment_ids(ids, 1000))


def learned() -> Iterator[Cost]:
    """Yield gradient and resizing of a table."""
    rng = np.random.default_rng(0)
    layer = LearnedPE(64, 4096, rng=0)
    grad = rng.standard_normal((64, 100_000), dtype=np.float32)
    positions = rng.integers(0, 4096, grad.shape[1])
    in_order = np.ascontiguousarray(grad[:, :4096])
    yield Cost(
        "LearnedPE.vjp, 1e5 positions of 4,096, 64 features",
        lambda: layer.vjp(grad, positions=positions)[1],
    )
    yield Cost("LearnedPE.vjp, 4,096 in order, 64 features", lambda: layer.vjp(in_order)[1])
    small = LearnedPE(8, 8192, rng=0)
    yield Cost(
        "LearnedPE.resize, 8,192 to 16,384, 8 features", lambda: small.resize(16_384).embeddings
    )


def masks() -> Iterator[Cost]:
    """Yield a mask."""
    yield Cost("create_dilated_mask, 2,048", lambda: create_dilated_mask(2048, 4))


def buckets() -> Iterator[Cost]:
    """Yield buckets of T5, few and many, with limits that are known or not."""
    positions = np.arange(2048)
    relative = positions - positions[:, None]
    for number, farthest in ((32, 128), (512, 1000)):
        options = {"num_buckets": number, "max_distance": farthest}
        yield Cost(
            f"relative_position_bucket, 2,048 x 2,048, {number} buckets",
            lambda options=options: relative_position_bucket(relative, **options),
        )
    bias = T5Bias(8, rng=0)
    yield Cost("T5Bias, 2,048 x 2,048, 8 heads, 32 buckets", lambda: bias(2048))
    few, another = relative[:1, :64], count(10**6)
    yield Cost(
        "relative_position_bucket, 64 distances, 512 buckets up to a new distance of 1e6",
        lambda: relative_position_bucket(few, num_buckets=512, max_distance=next(another)),
        tracked=False,
    )


def attention() -> Iterator[Cost]:
    """Yield a step of decoding in both layouts."""
    heads, head, keys = 32, 128, 32_768
    rng = np.random.default_rng(0)
    for last in (False, True):
        shape = (1, heads, keys, head) if last else (head, keys, heads)
        k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
        q = np.ascontiguousarray(k[..., :1, :] if last else k[:, :1])
        layout = "(batch, heads, seq, head)" if last else "(head, seq, heads)"
        options = LAST if last else {}
        yield Cost(
            f"attention of a query over 32,768 keys, 32 heads of 128, {layout}",
            lambda q=q, k=k, v=v, options=options: scaled_dot_product_attention(q, k, v, **options),
            "textbook",
            lambda q=q, k=k, v=v, last=last: textbook(q, k, v, last=last),
        )


def textbook(q: Any, k: Any, v: Any, *, last: bool) -> Any:
    """Return the attention by the two products of its formula, which copy no keys and values."""
    axis = -1 if last else 1
    scores = q @ k.swapaxes(-1, -2) if last else np.einsum("dqh,dkh->qkh", q, k)
    scores *= np.float32(q.shape[-1 if last else 0] ** -0.5)
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    weights /= weights.sum(axis=axis, keepdims=True)
    return weights @ v if last else np.einsum("qkh,dkh->dqh", weights, v)


def rotation() -> Iterator[Cost]:
    """Yield plain rotations of 16 MB with features last."""
    for head in (4, 8, 16, 64):
        seq = 2**22 // (32 * head)
        x = np.random.default_rng(0).standard_normal((4, 8, seq, head), dtype=np.float32)
        rope = RoPE(head, seq, fused=False, **LAST)
        yield Cost(
            f"plain rotation, 16 MB of (batch, heads, seq, head), heads of {head}",
            lambda rope=rope, x=x: rope(x),
            "copies",
            x.copy,
        )


TOPICS: tuple[Callable[[], Iterator[Cost]], ...] = (
    segments,
    learned,
    masks,
    buckets,
    attention,
    rotation,
)


def measured(cost: Cost) -> Row:
    """Return the figures of a call."""
    runs = [cost.run] if cost.beside is None else [cost.run, cost.beside]
    best = [_seconds(run) for run in runs]
    if best[0] < SLOW:
        end = perf_counter() + BUDGET
        for _ in range(ROUNDS):
            best = [min(least, _seconds(run)) for least, run in zip(best, runs, strict=True)]
            if perf_counter() > end:
                break
    row = {"name": cost.name, "unit": cost.unit, "seconds": best[0]}
    if cost.tracked:
        row["peak"] = peak_memory(cost.run)
        row["unit_peak"] = peak_memory(cost.beside or cost.run().copy)
    if cost.beside is not None:
        row["unit_seconds"] = best[1]
    return row


def _seconds(run: Run) -> float:
    gc.disable()
    try:
        start = perf_counter()
        run()
        return perf_counter() - start
    finally:
        gc.enable()


def markdown(written: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Return the table, and what it was measured on."""
    now = {row["name"]: row for row in written["rows"]}
    earlier = {} if before is None else {row["name"]: row for row in before["rows"]}
    head = ["", "time", "peak memory"]
    if before is not None:
        head = ["", *(f"{what}, {when}" for what in head[1:] for when in ("before", "after"))]
    lines = [head, ["---"] * len(head)]
    for name in earlier | now:
        both = [now.get(name)] if before is None else [earlier.get(name), now.get(name)]
        lines.append([name, *map(_time, both), *map(_memory, both)])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    machine = written["machine"]
    versions = ", ".join(f"{n} {v}" for n, v in machine["versions"].items() if v and n == "numpy")
    about = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
        f"{machine['system']} {machine['architecture']}, Python {machine['python']}, "
        f"{versions}, {machine['date']}."
    )
    return (
        "Time of a call, and the most memory that it held, in multiples of the result, of a\n"
        f"textbook's expression or of a copy (`python benchmarks/bench_costs.py`):\n\n{table}\n\n"
        f"{about}\n"
    )


def _time(row: Row | None) -> str:
    if row is None:
        return ""
    text = _scaled(row["seconds"], DURATIONS)
    if "unit_seconds" not in row:
        return text
    return f"{text} ({_times(row['seconds'] / row['unit_seconds'])} {row['unit']})"


def _memory(row: Row | None) -> str:
    if row is None or "peak" not in row:
        return ""
    times = _times(row["peak"] / row["unit_peak"])
    return f"{_scaled(row['peak'], SIZES)} ({times} {row['unit']})"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 100 else f"{ratio:.3g} x"


def _scaled(number: float, units: tuple[tuple[float, str], ...]) -> str:
    size, unit = next((pair for pair in units if number >= pair[0]), units[-1])
    return f"{number / size:.3g} {unit}"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Time calls that once cost too much.")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--before", type=Path, help="figures of an earlier run")
    parser.add_argument("--only", default="", help="part of the names of the calls")
    options = parser.parse_args()
    rows = []
    for topic in TOPICS:
        for cost in topic():
            if options.only in cost.name:
                rows.append(measured(cost))
                row = rows[-1]
                print(f"{row['name']}: {_time(row)}, {_memory(row)}", file=sys.stderr, flush=True)
    written = {"machine": description(), "rows": rows}
    if options.json is not None:
        options.json.write_text(f"{json.dumps(written, indent=1)}\n", encoding="utf-8")
    before = options.before and json.loads(options.before.read_text(encoding="utf-8"))
    print(markdown(written, before), end="")


if __name__ == "__main__":
    main()
