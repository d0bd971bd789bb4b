"""Compiled functions in JAX beside an experienced user's own lines, and the size of their traces.

Prints two Markdown tables. In the first, both are measured in turn, and the least time of each
counts. In the second, the equations of a trace and the seconds to trace and compile it.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/bench_jax.py [--seconds 2]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import jax.numpy as jnp
import numpy as np
from harness.formats import duration, markdown_rows
from harness.machine import description, one_line

import positional_embeddings as pe

AXES: dict[str, Any] = {"feature_axis": -1, "seq_axis": -2}
POINTS = 100_000
Case = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def cases() -> Iterator[Case]:
    """Yield a name, a function of this library, one by hand, and their arguments."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    for n in (2048, 8192):
        position, keys = jnp.asarray([n - 5]), jnp.arange(n)
        key_positions = jnp.where(keys < n - 4, keys, -1)
        arrays = normal(1, 8, 1, 64), normal(1, 8, n, 64), normal(1, 8, n, 64)
        yield (
            f"a token at positions, {n:,} keys",
            token,
            token_by_hand,
            (
                *arrays,
                position,
                key_positions,
            ),
        )
    rope = pe.RoPE(64, 4096, **AXES)
    for shape in ((1, 32, 2048, 64), (4, 16, 1024, 64), (1, 32, 1, 64)):
        positions = jnp.broadcast_to(jnp.arange(shape[2]), (shape[0], shape[2]))
        call = (normal(*shape), positions)
        yield f"`RoPE` at positions, {shape}", lambda x, p: rope(x, positions=p), rope_by_hand, call
    x = jnp.asarray(rng.uniform(0, 1000, POINTS), jnp.float32)
    lengths = np.geomspace(1, 1000, 16)
    yield (
        "`fourier_encoding`",
        lambda x: pe.fourier_encoding(x, lengths),
        (lambda x: sines_by_hand(x[None], jnp.asarray(1 / lengths[:, None], jnp.float32))),
        (x,),
    )
    weights = jnp.asarray(rng.standard_normal((32, 2)) / (2 * np.pi), jnp.float32)
    yield (
        "`random_fourier_encoding`",
        lambda x: pe.random_fourier_encoding(x, 64, rng=0),
        (lambda x: sines_by_hand(x, weights)),
        (jnp.stack([x, x[::-1]]),),
    )
    coordinates = tuple(jnp.asarray(rng.uniform(-m, m, POINTS), jnp.float32) for m in (90, 180))
    yield "`spherical_encoding`, degree 10, beside eager", spherical, spherical, coordinates
    qkv = [normal(1, 8, 1024, 64) for _ in range(3)]
    yield "causal attention, 1,024", causal, causal_by_hand, tuple(qkv)


def token(q: Any, k: Any, v: Any, positions: Any, key_positions: Any) -> Any:
    """Attend from a token to the keys of a cache."""
    options = {"positions": positions, "key_positions": key_positions, **AXES}
    return pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask(), **options)


def token_by_hand(q: Any, k: Any, v: Any, positions: Any, key_positions: Any) -> Any:
    """Attend by the dense formula."""
    is_visible = (key_positions >= 0) & (key_positions <= positions[:, None])
    scores = (q @ k.swapaxes(-1, -2)) / 8
    return jax.nn.softmax(jnp.where(is_visible, scores, -jnp.inf)) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    """Attend to previous keys."""
    return pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask(), **AXES)


def causal_by_hand(q: Any, k: Any, v: Any) -> Any:
    """Attend by the dense formula."""
    index = jnp.arange(q.shape[-2])
    scores = (q @ k.swapaxes(-1, -2)) / 8
    return jax.nn.softmax(jnp.where(index <= index[:, None], scores, -jnp.inf)) @ v


_ANGLES = np.outer(np.arange(4096.0), 10_000.0 ** (-np.arange(32) / 32))
_COS, _SIN = (np.hstack([f(_ANGLES)] * 2).astype(np.float32) for f in (np.cos, np.sin))


def rope_by_hand(x: Any, positions: Any) -> Any:
    """Rotate by tables that are computed in advance."""
    cos, sin = (jnp.asarray(table)[positions][:, None] for table in (_COS, _SIN))
    return x * cos + jnp.concatenate([-x[..., 32:], x[..., :32]], -1) * sin


def sines_by_hand(x: Any, cycles: Any) -> Any:
    """Return sines and cosines of rounded angles."""
    angles = 2 * np.pi * (cycles @ x)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])


def spherical(latitude: Any, longitude: Any) -> Any:
    """Return harmonics up to degree 10."""
    return pe.spherical_encoding(latitude, longitude, 10)


def best_times(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Return the least time of each function, measured in turn."""
    times = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or max(times) == float("inf"):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            jax.block_until_ready(function())
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each case")
    seconds = parser.parse_args().seconds
    rows, traces = [], []
    for name, function, by_hand, arguments in cases():
        print(name, file=sys.stderr)
        start = time.perf_counter()
        lowered = jax.jit(function).lower(*arguments)
        traced = time.perf_counter()
        compiled = lowered.compile()
        compiled_at = time.perf_counter()
        equations = len(jax.make_jaxpr(function)(*arguments).eqns)
        traces.append(
            [name, str(equations), f"{traced - start:.2f}", f"{compiled_at - traced:.2f}"]
        )
        other = by_hand if by_hand is function else jax.jit(by_hand)
        other(*arguments)
        calls: list[Callable[[], Any]] = [
            lambda f=f, a=arguments: f(*a)  # type: ignore[misc]
            for f in (compiled, other)
        ]
        ours, theirs = best_times(calls, seconds)
        rows.append([name, duration(ours), duration(theirs), f"{ours / theirs:.2f}"])
    print(markdown_rows(["", "time", "by hand", "ratio"], rows))
    print(f"\n{markdown_rows(['', 'equations', 'trace, s', 'compile, s'], traces)}")
    print(f"\n{one_line(description(), 'jax')}")


if __name__ == "__main__":
    main()
