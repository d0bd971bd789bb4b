"""Time and memory of calls that once cost many times what they return."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
from harness.timing import Run, peak_memory, seconds
from peers.numpy import attend, attend_features_first

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
Row = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """A call, and what its time and memory are given in multiples of."""

    name: str
    run: Run
    unit: str = "result"
    unit_run: Run | None = None
    # Not the memory of loops over Python's integers, which tracing slows down many times.
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
    """Yield buckets of T5, few and many, with a limit that is new in each call or not."""
    positions = np.arange(2048)
    relative = positions - positions[:, None]
    for number, farthest in ((32, 128), (512, 1000)):
        options = {"num_buckets": number, "max_distance": farthest}
        yield Cost(
            f"relative_position_bucket, 2,048 x 2,048, {number} buckets",
            partial(relative_position_bucket, relative, **options),
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
    for layout, shape, options, textbook in (
        ("(head, seq, heads)", (head, keys, heads), {}, attend_features_first),
        ("(batch, heads, seq, head)", (1, heads, keys, head), LAST, attend),
    ):
        k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
        q = np.ascontiguousarray(k[..., :1, :] if options else k[:, :1])
        yield Cost(
            f"attention of a query over 32,768 keys, 32 heads of 128, {layout}",
            partial(scaled_dot_product_attention, q, k, v, **options),
            "textbook",
            partial(textbook, q, k, v),
        )


def rotation() -> Iterator[Cost]:
    """Yield plain rotations of 16 MB with features last."""
    for head in (4, 8, 16, 64):
        seq = 2**22 // (32 * head)
        x = np.random.default_rng(0).standard_normal((4, 8, seq, head), dtype=np.float32)
        rope = RoPE(head, seq, fused=False, **LAST)
        yield Cost(
            f"plain rotation, 16 MB of (batch, heads, seq, head), heads of {head}",
            partial(rope, x),
            "copies",
            x.copy,
        )


TOPICS = (segments, learned, masks, buckets, attention, rotation)


def measured(cost: Cost) -> Row:
    """Return the figures of a call."""
    runs = [cost.run] if cost.unit_run is None else [cost.run, cost.unit_run]
    best = [seconds(run) for run in runs]
    if best[0] < SLOW:
        end = perf_counter() + BUDGET
        for _ in range(ROUNDS):
            best = [min(least, seconds(run)) for least, run in zip(best, runs, strict=True)]
            if perf_counter() > end:
                break
    row = {"name": cost.name, "unit": cost.unit, "seconds": best[0]}
    if cost.tracked:
        row["peak"] = peak_memory(cost.run)
        row["unit_peak"] = peak_memory(cost.unit_run or cost.run().copy)
    if cost.unit_run is not None:
        row["unit_seconds"] = best[1]
    return row
