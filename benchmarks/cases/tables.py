"""Tables of cosine and sine: built at once, and extended by decoding token by token."""

from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import BASE, HostArray
from harness.targets import COSINES, OURS
from harness.timing import Run
from peers import peer
from peers.numpy import angles

from positional_embeddings import RoPE

HEAD = 128
PASSES = 3
# Angles of float32 are off by 4e-3 at position 131,071.
COARSE = 1e-2


def tables(settings: Settings) -> list[Builder]:
    """Return float32 tables, float64 tables, and a decode that extends the tables."""
    size, tokens = (8_192, 2_000) if settings.quick else (131_072, 20_000)
    return [
        (f"tables float32 {size:,}", lambda rounds: measured(float32_case(size), rounds)),
        (f"tables float64 {size:,}", lambda rounds: measured(float64_case(size), rounds)),
        (f"tables growing decode of {tokens:,}", lambda _: growing_decode(size, tokens)),
    ]


def float32_case(size: int) -> Case:
    """Return what gives cosine and sine of the last position, by tables of all positions."""
    token = np.zeros((HEAD, 1), dtype=np.float32)
    token[: HEAD // 2] = 1
    everywhere = np.zeros((HEAD, size, 0), dtype=np.float32)  # nothing to rotate

    def built() -> HostArray:
        rope = RoPE(HEAD, size, BASE, fused=False)
        rope(everywhere)
        return rope(token, offset=size - 1)[:, 0]

    def of_angles(given: HostArray) -> Run:
        return lambda: _last(np.cos(given), np.sin(given))

    exact = angles(HEAD, size)
    expected = _last(np.cos(exact), np.sin(exact))
    rough = partial(of_angles, exact.astype(np.float32))
    numpy, torch = (peer(f"{name}.last_of_tables", HEAD, size) for name in ("numpy", "torch"))
    contenders = [
        Contender(COSINES, partial(of_angles, exact), expected),
        Contender(OURS, lambda: built, expected, tracked=True),
        Contender("numpy.cos + numpy.sin, float32 angles", rough, expected, COARSE),
        Contender("textbook NumPy", numpy, expected, tracked=True),
        Contender("torch eager", torch, expected, COARSE),
    ]
    return Case("tables", f"float32, {size:,} positions", 4 * HEAD * size, contenders)


def float64_case(size: int) -> Case:
    """Return what gives the float64 tables."""
    exact = angles(HEAD, size)
    expected = np.concatenate([np.cos(exact), np.sin(exact)])

    def by_numpy() -> tuple[HostArray, HostArray]:
        return np.cos(exact), np.sin(exact)

    def built() -> tuple[HostArray, HostArray]:
        rope = RoPE(HEAD, size, BASE)
        return rope.cos, rope.sin

    contenders = [
        Contender(COSINES, lambda: by_numpy, expected, view=np.concatenate),
        Contender(OURS, lambda: built, expected, tracked=True, view=np.concatenate),
    ]
    return Case("tables", f"float64, {size:,} positions", 8 * HEAD * size, contenders)


def growing_decode(size: int, tokens: int) -> dict[str, Any]:
    """Rotate token after token, and keep the best of some passes for each.

    A rebuild is slow at the same token in every pass, a disturbance is not. Compare the
    time of making the whole tables at once.
    """
    token = np.ones((1, 32, 1, HEAD), dtype=np.float32)
    everywhere = np.ones((0, 32, size, HEAD), dtype=np.float32)
    first, *later = np.min([_decode(size, token, tokens) for _ in range(PASSES)], axis=0).tolist()
    return {
        "topic": "tables",
        "case": f"growing decode, {tokens:,} tokens",
        "whole tables": float(np.min([_decode(size, everywhere, 1) for _ in range(PASSES)])),
        "first token": first,
        "slowest token": max(later),
        "median token": median(later),
        "contenders": {},
    }


def _decode(size: int, x: HostArray, tokens: int) -> list[float]:
    """Return the seconds of each token."""
    rope = RoPE(HEAD, size, feature_axis=-1, seq_axis=-2)
    times = []
    for offset in range(tokens):
        start = perf_counter()
        rope(x, offset=offset)
        times.append(perf_counter() - start)
    return times


def _last(cos: HostArray, sin: HostArray) -> HostArray:
    return np.concatenate([cos[:, -1], sin[:, -1]])
