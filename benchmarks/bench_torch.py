"""Time of PyTorch's tensors, beside an experienced user's own lines, on one thread.

Prints a Markdown table. Both are called in turn, and the least processor time of each counts. By
hand are indexed tables of cosine and sine for rotations, this library's time on NumPy arrays for
encodings, and `scaled_dot_product_attention` of PyTorch for attention.

    python benchmarks/bench_torch.py [--seconds 2]

`results/torch.md` is what it prints.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from harness.formats import duration, markdown_rows
from harness.machine import description, one_line
from threadpoolctl import threadpool_limits

import positional_embeddings as pe

LAST = {"feature_axis": -1, "seq_axis": -2}
HEADS, HEAD, LENGTH, POSITION, POINTS = 32, 128, 4096, 1000, 100_000
Call = Callable[[], Any]
Row = tuple[str, str, Call, Call]

sdpa = torch.nn.functional.scaled_dot_product_attention


def rotations() -> Iterator[Row]:
    """Yield rotations of a token by tables that are cached."""
    angles = np.outer(np.arange(LENGTH), 10_000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    doubled = np.hstack([angles, angles])
    cos, sin = (torch.from_numpy(f(doubled).astype(np.float32)) for f in (np.cos, np.sin))
    x = torch.randn(1, HEADS, 1, HEAD)
    rope, positions = pe.RoPE(HEAD, LENGTH, **LAST), torch.tensor([POSITION])
    tables = rope.tables(positions)

    def by_hand(index: Any) -> torch.Tensor:
        half = HEAD // 2
        swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * cos[index] + swapped * sin[index]

    token = slice(POSITION, POSITION + 1)
    beside = "indexed tables"
    yield "`rope(x, offset=...)`", beside, lambda: rope(x, offset=POSITION), partial(by_hand, token)
    call = partial(by_hand, positions)
    yield "`rope(x, positions=...)`", beside, lambda: rope(x, positions=positions), call
    yield "`rope.tables(...)(x)`", beside, lambda: tables(x), partial(by_hand, token)


def encodings() -> Iterator[Row]:
    """Yield encodings of points of float64."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 1000, POINTS)
    latitude, longitude = rng.uniform(-90, 90, POINTS), rng.uniform(-180, 180, POINTS)
    plane = rng.uniform(0, 10, (2, POINTS))
    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "`sinusoidal_encoding(x, 64)`": (lambda x: pe.sinusoidal_encoding(x, 64), (points,)),
        "`cyclic_encoding`, 4 harmonics": (
            lambda x: pe.cyclic_encoding(x, 7.0, harmonics=4),
            (points,),
        ),
        "`fourier_encoding`, 8 waves": (
            lambda x: pe.fourier_encoding(x, pe.octave_wavelengths(8)),
            (points,),
        ),
        "`random_fourier_encoding(x, 64)`": (
            lambda x: pe.random_fourier_encoding(x, 64, rng=0),
            (plane,),
        ),
        "`spherical_encoding`, degree 6": (
            lambda *x: pe.spherical_encoding(*x, 6),
            (latitude, longitude),
        ),
    }
    for name, (function, arrays) in functions.items():
        tensors = [torch.from_numpy(x) for x in arrays]
        yield name, "NumPy arrays", partial(function, *tensors), partial(function, *arrays)


def attentions() -> Iterator[Row]:
    """Yield causal attention, and with shared key heads."""
    for name, n, key_heads in (
        ("1,024 causal tokens", 1024, 8),
        ("1,024 causal tokens, 2 of 8 heads", 1024, 2),
        ("4,096 causal tokens", 4096, 8),
    ):
        q = torch.randn(1, 8, n, 64)
        k, v = torch.randn(2, 1, key_heads, n, 64)
        options: dict[str, Any] = {"enable_gqa": True} if key_heads < 8 else {}
        ours = partial(pe.scaled_dot_product_attention, q, k, v, mask=pe.CausalMask(), **options)
        by_hand = partial(sdpa, q, k, v, is_causal=True, **options)
        yield name, "`F.scaled_dot_product_attention`", partial(ours, **LAST), by_hand


def least_times(calls: tuple[Call, Call], seconds: float) -> list[float]:
    """Return the least time of each call, made in turn for at least these seconds."""
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for call, of_call in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            of_call.append(time.process_time() - start)
    return list(map(min, times))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    rows = []
    for name, beside, ours, by_hand in (*rotations(), *encodings(), *attentions()):
        np.testing.assert_allclose(ours(), by_hand(), rtol=1e-4, atol=1e-5)
        least = least_times((ours, by_hand), options.seconds)
        ratio = f"{least[0] / least[1]:.2f}"
        rows.append([name, duration(least[0]), beside, duration(least[1]), ratio])
        print(*rows[-1], file=sys.stderr, flush=True)
    head = ["tensors", "time", "beside", "time of that", "ratio"]
    print(f"{markdown_rows(head, rows)}\n\n{one_line(description(), 'numpy', 'torch')}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
