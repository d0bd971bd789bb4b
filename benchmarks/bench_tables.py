"""Cases of tables: building them whole, and decoding along them token by token."""

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from contenders import Builder, Case, Contender, HostArray, measured, needed
from timing import Run

from positional_embeddings import RoPE

HEAD, BASE = 128, 10_000
PASSES = 3
LAST = {"feature_axis": -1, "seq_axis": -2}
# Angles of float32 are off by 4e-3 at position 131,071.
COARSE = 1e-2


def tables(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - one thread makes them
    """Return float32 tables, float64 tables, and a decode that grows along the tables."""
    size = 8_192 if quick else 131_072
    tokens = 2_000 if quick else 20_000
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

    angles = _angles(size)
    right = np.concatenate([np.cos(angles[:, -1]), np.sin(angles[:, -1])])
    contenders = [
        Contender("numpy.cos + numpy.sin, float64 angles", partial(_of_angles, angles), right),
        Contender("this library", lambda: built, right, tracked=True),
        Contender(
            "numpy.cos + numpy.sin, float32 angles",
            partial(_of_angles, angles.astype(np.float32)),
            right,
            COARSE,
        ),
        Contender("textbook NumPy", lambda: partial(textbook, size), right, tracked=True),
        Contender("torch eager", partial(_recipe_of_torch, size), right, COARSE),
    ]
    return Case("tables", f"float32, {size:,} positions", 4 * HEAD * size, contenders)


def float64_case(size: int) -> Case:
    """Return what gives the float64 tables."""
    angles = _angles(size)
    right = np.concatenate([np.cos(angles), np.sin(angles)])

    def built() -> tuple[HostArray, HostArray]:
        rope = RoPE(HEAD, size, BASE)
        return rope.cos, rope.sin

    contenders = [
        Contender(
            "numpy.cos + numpy.sin, float64 angles",
            lambda: lambda: (np.cos(angles), np.sin(angles)),
            right,
            view=np.concatenate,
        ),
        Contender("this library", lambda: built, right, tracked=True, view=np.concatenate),
    ]
    return Case("tables", f"float64, {size:,} positions", 8 * HEAD * size, contenders)


def textbook(size: int) -> HostArray:
    """Build float32 tables from float64 angles, and return their last column."""
    angles = _angles(size)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return _last(cos, sin)


def growing_decode(size: int, tokens: int) -> dict[str, Any]:
    """Rotate token after token, and keep the best of some passes for each.

    A rebuild is slow at the same token in every pass, a disturbance is not. Beside it
    stands the time of making the whole tables at once.
    """
    token = np.ones((1, 32, 1, HEAD), dtype=np.float32)
    everywhere = np.ones((0, 32, size, HEAD), dtype=np.float32)
    passes = [_decode(RoPE(HEAD, size, **LAST), token, range(tokens)) for _ in range(PASSES)]
    first, *later = np.min(passes, axis=0).tolist()
    whole = [_decode(RoPE(HEAD, size, **LAST), everywhere, range(1)) for _ in range(PASSES)]
    return {
        "topic": "tables",
        "case": f"growing decode, {tokens:,} tokens",
        "whole tables": float(np.min(whole)),
        "first token": first,
        "slowest token": max(later),
        "median token": median(later),
        "contenders": {},
    }


def _decode(rope: Callable[..., Any], token: HostArray, offsets: range) -> list[float]:
    """Return the seconds of each token."""
    times = []
    for offset in offsets:
        start = perf_counter()
        rope(token, offset=offset)
        times.append(perf_counter() - start)
    return times


def _angles(size: int) -> HostArray:
    frequencies = BASE ** (-np.arange(0, HEAD, 2) / HEAD)
    return frequencies[:, None] * np.arange(size)


def _of_angles(angles: HostArray) -> Run:
    return lambda: _last(np.cos(angles), np.sin(angles))


def _last(cos: HostArray, sin: HostArray) -> HostArray:
    return np.concatenate([cos[:, -1], sin[:, -1]])


def _recipe_of_torch(size: int) -> Run:
    """Return the recipe of models in PyTorch, with its float32 angles."""
    torch = needed("torch")

    def build() -> Any:
        frequencies = 1.0 / (BASE ** (torch.arange(0, HEAD, 2).float() / HEAD))
        angles = torch.outer(frequencies, torch.arange(size).float())
        return torch.cat([angles.cos()[:, -1], angles.sin()[:, -1]])

    return build
