"""Compiled functions in JAX beside an experienced user's own lines, and the size of their traces.

Prints two Markdown tables, and writes them to `results/jax.md`. In the first, both are measured in
turn, and the least time of each counts. The second has the equations of each trace, and the seconds
to trace and to compile it.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/bench_jax.py [--seconds 2]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
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
RESULTS = Path(__file__).parent / "results" / "jax.md"
# Name, function of this library, by hand, arguments, and whether the lines by hand are compiled.
Case = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...], bool]


def cases() -> Iterator[Case]:
    """Yield all cases."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    for n in (2048, 8192):
        key_positions = jnp.where(jnp.arange(n) < n - 4, jnp.arange(n), -1)
        arrays = normal(1, 8, 1, 64), normal(1, 8, n, 64), normal(1, 8, n, 64)
        positions = jnp.asarray([n - 5]), key_positions
        yield f"a token at positions, {n:,} keys", token, token_by_hand, arrays + positions, True
    for count, n in ((8, 2048), (4, 8192)):
        arrays = (normal(count, 8, 1, 64), *(normal(count, 8, n, 64) for _ in range(2)))
        key_positions = jnp.broadcast_to(jnp.arange(n), (count, n))
        arrays += jnp.full((count, 1), n - 5), key_positions
        functions = jax.vmap(token), jax.vmap(token_by_hand)
        yield f"`jax.vmap` of {count} tokens at positions, {n:,} keys", *functions, arrays, True
    qkv = normal(1, 8, 1024, 64), normal(1, 8, 1024, 64), normal(1, 8, 1024, 64)
    yield "causal attention, 1,024 tokens", causal, causal_by_hand, qkv, True
    lists = (rng.integers(0, 4096, (4096, 1)) + np.arange(16) * 256) % 4096
    qkv = normal(1, 8, 4096, 16), normal(1, 8, 4096, 16), normal(1, 8, 4096, 16)
    yield "`ListMask`, 4,096 x 16 keys", listed, listed_by_hand, (*qkv, jnp.asarray(lists)), True
    for shape in ((1, 32, 2048, 64), (4, 16, 1024, 64), (1, 32, 1, 64)):
        positions = jnp.broadcast_to(jnp.arange(shape[2]), (shape[0], shape[2]))
        yield f"`RoPE` at positions, {shape}", rope, rope_by_hand, (normal(*shape), positions), True
    x = rng.uniform(0, 1000, (2, POINTS)).astype(np.float32)
    one, two = (jnp.asarray(x[0]),), (jnp.asarray(x),)
    for name, on_host in (("float64 on the host", True), ("angles of float32", False)):
        by_hand = fourier_on_host if on_host else fourier_by_hand
        yield f"`fourier_encoding`, {name}", fourier, by_hand, one, not on_host
        by_hand = random_fourier_on_host if on_host else random_fourier_by_hand
        yield f"`random_fourier_encoding`, {name}", random_fourier, by_hand, two, not on_host
    coordinates = tuple(jnp.asarray(rng.uniform(-m, m, POINTS), jnp.float32) for m in (90, 180))
    yield "`spherical_encoding`, degree 10, without `jit`", spherical, spherical, coordinates, False


def token(q: Any, k: Any, v: Any, positions: Any, key_positions: Any) -> Any:
    """Attend from a token to the keys of a cache."""
    options = {"positions": positions, "key_positions": key_positions, **AXES}
    return pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask(), **options)


def token_by_hand(q: Any, k: Any, v: Any, positions: Any, key_positions: Any) -> Any:
    """Attend by the dense formula."""
    is_visible = (key_positions >= 0) & (key_positions <= positions[:, None])
    return dense(q, k, v, is_visible)


def causal(q: Any, k: Any, v: Any) -> Any:
    """Attend to previous keys."""
    return pe.scaled_dot_product_attention(q, k, v, mask=pe.CausalMask(), **AXES)


def causal_by_hand(q: Any, k: Any, v: Any) -> Any:
    """Attend by the dense formula."""
    index = jnp.arange(q.shape[-2])
    return dense(q, k, v, index <= index[:, None])


def dense(q: Any, k: Any, v: Any, is_visible: Any) -> Any:
    """Return attention by two products, without a copy of the transposed keys."""
    scores = jnp.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(is_visible, scores, -jnp.inf))
    return jnp.einsum("...qk,...kd->...qd", weights, v)


def listed(q: Any, k: Any, v: Any, lists: Any) -> Any:
    """Attend to listed keys."""
    return pe.scaled_dot_product_attention(q, k, v, mask=pe.ListMask(lists), **AXES)


def listed_by_hand(q: Any, k: Any, v: Any, lists: Any) -> Any:
    """Attend to the keys of a gather."""
    scores = jnp.einsum("...qd,...qnd->...qn", q, k[..., lists, :]) * q.shape[-1] ** -0.5
    return jnp.einsum("...qn,...qnd->...qd", jax.nn.softmax(scores), v[..., lists, :])


_ROPE = pe.RoPE(64, 4096, **AXES)
_ANGLES = np.outer(np.arange(4096.0), 10_000.0 ** (-np.arange(32) / 32))
_COS, _SIN = (np.hstack([f(_ANGLES)] * 2).astype(np.float32) for f in (np.cos, np.sin))


def rope(x: Any, positions: Any) -> Any:
    """Rotate queries at traced positions."""
    return _ROPE(x, positions=positions)


def rope_by_hand(x: Any, positions: Any) -> Any:
    """Rotate by tables that are computed in advance."""
    cos, sin = (jnp.asarray(table)[positions][:, None] for table in (_COS, _SIN))
    return x * cos + jnp.concatenate([-x[..., 32:], x[..., :32]], -1) * sin


_WAVELENGTHS = np.geomspace(1, 1000, 16)
_FREQUENCIES = np.random.default_rng(0).standard_normal((32, 2)) / (2 * np.pi)


def fourier(x: Any) -> Any:
    """Return features of 16 wavelengths."""
    return pe.fourier_encoding(x, _WAVELENGTHS)


def random_fourier(x: Any) -> Any:
    """Return 32 random waves of two coordinates."""
    return pe.random_fourier_encoding(x, 64, rng=0)


def fourier_by_hand(x: Any) -> Any:
    """Return sines and cosines of rounded angles."""
    return sines(x * jnp.asarray(1 / _WAVELENGTHS[:, None], jnp.float32), jnp)


def random_fourier_by_hand(x: Any) -> Any:
    """Return sines and cosines of rounded angles."""
    return sines(jnp.asarray(_FREQUENCIES, jnp.float32) @ x, jnp)


def fourier_on_host(x: Any) -> Any:
    """Return sines and cosines of angles of float64."""
    return jnp.asarray(sines(np.asarray(x, np.float64) / _WAVELENGTHS[:, None], np), jnp.float32)


def random_fourier_on_host(x: Any) -> Any:
    """Return sines and cosines of angles of float64."""
    return jnp.asarray(sines(_FREQUENCIES @ np.asarray(x, np.float64), np), jnp.float32)


def sines(cycles: Any, xp: Any) -> Any:
    """Return sines and cosines of angles in cycles."""
    angles = 2 * np.pi * cycles
    return xp.concatenate([xp.sin(angles), xp.cos(angles)])


def spherical(latitude: Any, longitude: Any) -> Any:
    """Return harmonics up to degree 10."""
    return pe.spherical_encoding(latitude, longitude, 10)


def best_times(functions: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Return the least time of each function, measured in turn."""
    times = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or max(times) == float("inf"):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            jax.block_until_ready(function())
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def equations(jaxpr: Any) -> int:
    """Return the number of equations of a trace, with those of its inner functions."""
    inner = jax.tree.leaves([list(e.params.values()) for e in jaxpr.eqns])
    inner = [getattr(x, "jaxpr", x) for x in inner]
    return len(jaxpr.eqns) + sum(equations(x) for x in inner if hasattr(x, "eqns"))


def compile_case(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """Return the number of equations, and the seconds to trace and to compile them."""
    function = partial(function)  # its trace is not cached
    start = time.perf_counter()
    traced = jax.jit(function).trace(*arguments)
    lowered_at = time.perf_counter()
    traced.lower().compile()
    seconds = lowered_at - start, time.perf_counter() - lowered_at
    return [str(equations(traced.jaxpr.jaxpr)), *(f"{s:.2f}" for s in seconds)]


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each case")
    seconds = parser.parse_args().seconds
    rows, traces = [], []
    for name, function, by_hand, arguments, compiles in cases():
        print(name, file=sys.stderr)
        functions = [jax.jit(function), jax.jit(by_hand) if compiles else by_hand]
        if compiles or by_hand is function:
            by_hand_trace = compile_case(by_hand, arguments) if compiles else ["", "", ""]
            traces.append([name, *compile_case(function, arguments), *by_hand_trace])
        calls = [partial(f, *arguments) for f in functions]
        best_times(calls, 0.0)  # compile
        ours, theirs = best_times(calls, seconds)
        rows.append([name, duration(ours), duration(theirs), f"{ours / theirs:.2f}"])
    head = ["", "equations", "trace, s", "compile, s"]
    text = "\n\n".join(
        [
            markdown_rows(["compiled, beside code by hand", "time", "by hand", "ratio"], rows),
            markdown_rows([*head, *(f"by hand: {title}" for title in head[1:])], traces),
            one_line(description(), "jax"),
        ]
    )
    RESULTS.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
