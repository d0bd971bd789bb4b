"""Attention with mask values: its time grows with the keys that the queries see."""

from functools import partial
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import HostArray, softmax
from harness.timing import Rounds, Run

from positional_embeddings import (
    CausalMask,
    GlobalMask,
    Mask,
    SegmentMask,
    SlidingWindowMask,
    scaled_dot_product_attention,
)

HEAD, KEYS = 64, 1024
CHECKED_ROWS = 64
LAST = {"feature_axis": -1, "seq_axis": -2}
UNIT = f"{KEYS:,} keys, no mask"


def sparse(settings: Settings) -> list[Builder]:
    """Return two lengths, one four times the other."""
    lengths = (2048, 8192) if settings.quick else (16_384, 65_536)
    return [(f"sparse {n:,} tokens", partial(_measured, n)) for n in lengths]


def mask_values(n: int) -> dict[str, Mask]:
    """Return masks that show at most 512 keys to a query that is not global."""
    first, scattered = np.arange(16), np.linspace(0, n - 1, 16).astype(int)
    return {
        "window of 512, causal": CausalMask() | SlidingWindowMask(511, 0),
        "documents of 512": SegmentMask(np.arange(n) // 512),
        "documents of 512, causal": CausalMask() | SegmentMask(np.arange(n) // 512),
        "window of 256, 16 first tokens global": SlidingWindowMask(128, 127) & GlobalMask(first),
        "window of 256, 16 tokens global": SlidingWindowMask(128, 127) & GlobalMask(scattered),
    }


def _measured(n: int, rounds: Rounds) -> dict[str, Any]:
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, n, HEAD), dtype=np.float32)
    rows = np.linspace(0, n - 1, CHECKED_ROWS).astype(int)
    contenders = [Contender(UNIT, partial(_attention, q, k[:, :KEYS], v[:, :KEYS], None))]
    contenders += [
        Contender(
            name,
            partial(_attention, q, k, v, mask),
            _expected(q, k, v, mask, rows),
            tracked=True,
            view=partial(_rows, rows),
        )
        for name, mask in mask_values(n).items()
    ]
    return measured(Case("sparse", f"{n:,} tokens", q.nbytes, contenders, {"tokens": n}), rounds)


def _attention(q: HostArray, k: HostArray, v: HostArray, mask: Mask | None) -> Run:
    return lambda: scaled_dot_product_attention(q, k, v, mask=mask, **LAST)


def _expected(q: HostArray, k: HostArray, v: HostArray, mask: Mask, rows: HostArray) -> HostArray:
    """Return some rows, in float64."""
    scores = q[0, rows].astype(np.float64) @ k[0].T.astype(np.float64) / np.sqrt(HEAD)
    scores[mask(rows[:, None], np.arange(k.shape[1])[None, :])] = -np.inf
    return softmax(scores) @ v[0].astype(np.float64)


def _rows(rows: HostArray, output: Any) -> HostArray:
    return np.asarray(output)[0, rows]
