"""Time of dask's arrays, beside an experienced user's own lines in `map_blocks`, on one thread.

Prints a Markdown table. Both are called in turn, and the least processor time of each counts.
Encodings have two rows: beside sines of rounded angles, and beside the same function of this
library in `map_blocks`, whose difference is the graph.

    python benchmarks/bench_dask.py [--seconds 2]

`results/dask.md` is what it prints.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from harness.pairs import Pair, print_pairs
from harness.timing import Run
from threadpoolctl import threadpool_limits

import positional_embeddings as pe

LAST = {"feature_axis": -1, "seq_axis": -2}
HEADS, HEAD, LENGTH, QUERIES = 32, 128, 4096, 2048
POINTS, CHUNK, FEATURES = 400_000, 50_000, 64
WAVELENGTHS = np.geomspace(1, 1000, FEATURES // 2)


def rotation() -> Pair:
    """Return the rotation of heads, each in a chunk."""
    angles = np.outer(np.arange(LENGTH), 10_000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    doubled = np.hstack([angles, angles])
    cos, sin = (f(doubled).astype(np.float32) for f in (np.cos, np.sin))
    x = da.from_array(normal(1, HEADS, LENGTH, HEAD), chunks=(1, 4, LENGTH, HEAD))
    rope = pe.RoPE(HEAD, LENGTH, **LAST)

    def by_hand(x: Any) -> Any:
        half = HEAD // 2
        return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin

    name = f"`rope(x)`, {HEADS} heads of {HEAD}, {LENGTH:,} positions"
    return name, "indexed tables", lambda: rope(x), lambda: x.map_blocks(by_hand, dtype=x.dtype)


def attention() -> Pair:
    """Return the causal attention of heads, each in a chunk."""
    chunks = (1, 1, QUERIES, 64)
    q, k, v = (da.from_array(normal(1, 8, QUERIES, 64), chunks=chunks) for _ in range(3))
    is_hidden = np.triu(np.ones((QUERIES, QUERIES), dtype=bool), 1)

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = (q * np.float32(64**-0.5)) @ k.mT
        scores[..., is_hidden] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        return (scores @ v) / scores.sum(axis=-1, keepdims=True)

    ours = partial(pe.scaled_dot_product_attention, q, k, v, mask=pe.CausalMask(), **LAST)
    name = f"causal attention, 8 heads of 64, {QUERIES:,} tokens"
    return name, "the dense formula", ours, lambda: da.map_blocks(by_hand, q, k, v, dtype=q.dtype)


def encodings() -> Iterator[Pair]:
    """Yield encodings of points of float64."""
    x = da.from_array(np.random.default_rng(0).uniform(0, 1000, POINTS), chunks=CHUNK)
    chunks = ((FEATURES,), x.chunks[0])

    def mapped(function: Callable[..., Any]) -> Run:
        options = {"new_axis": 0, "chunks": chunks, "dtype": x.dtype}
        return lambda: x.map_blocks(function, **options)

    frequencies = 10_000.0 ** (-np.arange(FEATURES // 2) / (FEATURES // 2))
    cases: dict[str, tuple[Callable[..., Any], Any]] = {
        "`sinusoidal_encoding(x, 64)`": (
            partial(pe.sinusoidal_encoding, dim=FEATURES),
            frequencies,
        ),
        "`fourier_encoding`, 32 waves": (
            partial(pe.fourier_encoding, wavelengths=WAVELENGTHS),
            2 * np.pi / WAVELENGTHS,
        ),
    }
    for name, (function, radians) in cases.items():
        yield name, "sines of rounded angles", partial(function, x), mapped(partial(sines, radians))
        yield name, "the same function", partial(function, x), mapped(function)


def sines(radians: Any, x: Any) -> Any:
    """Return sines and cosines of rounded angles, side by side."""
    angles, features = radians[:, None] * x, np.empty((2 * len(radians), *x.shape))
    np.sin(angles, out=features[::2])
    np.cos(angles, out=features[1::2])
    return features


def normal(*shape: int) -> Any:
    """Return random numbers of float32."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    pairs = [
        (name, beside, lambda f=ours: f().compute(), lambda f=by_hand: f().compute())
        for name, beside, ours, by_hand in (rotation(), attention(), *encodings())
    ]
    print_pairs("chunked arrays", pairs, seconds, "numpy", "dask")


if __name__ == "__main__":
    with threadpool_limits(1), dask.config.set(scheduler="synchronous"):
        main()
