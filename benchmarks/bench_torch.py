"""Time of PyTorch's tensors, beside an experienced user's own lines, on one thread.

Prints a Markdown table. Both are called in turn, and the least processor time of each counts. By
hand are indexed tables of cosine and sine for rotations, this library's time on NumPy arrays for
encodings, and `scaled_dot_product_attention` of PyTorch for attention. Tokens by hand are rotated,
written to slices of buffers, and attend by this function.

    python benchmarks/bench_torch.py [--seconds 2]

`results/torch.md` is what it prints.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from harness.inputs import decode
from harness.pairs import Pair, print_pairs
from threadpoolctl import threadpool_limits

import positional_embeddings as pe

LAST = {"feature_axis": -1, "seq_axis": -2}
HEADS, HEAD, LENGTH, POSITION, POINTS = 32, 128, 4096, 1000, 100_000
LAYERS, KEYS, TOKENS = 12, 256, 8

sdpa = torch.nn.functional.scaled_dot_product_attention


def rotations() -> Iterator[Pair]:
    """Yield rotations of a token by tables that are cached."""
    cos, sin = cos_sin(HEAD)
    x = torch.randn(1, HEADS, 1, HEAD)
    rope, positions = pe.RoPE(HEAD, LENGTH, **LAST), torch.tensor([POSITION])
    tables = rope.tables(positions)

    def by_hand(index: Any) -> torch.Tensor:
        return rotated(x, cos[index], sin[index])

    token = slice(POSITION, POSITION + 1)
    beside = "indexed tables"
    yield "`rope(x, offset=...)`", beside, lambda: rope(x, offset=POSITION), partial(by_hand, token)
    call = partial(by_hand, positions)
    yield "`rope(x, positions=...)`", beside, lambda: rope(x, positions=positions), call
    yield "`rope.tables(...)(x)`", beside, lambda: tables(x), partial(by_hand, token)


def cos_sin(head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tables of a head by hand, (position, feature)."""
    angles = np.outer(np.arange(LENGTH), 10_000.0 ** (-np.arange(head // 2) / (head // 2)))
    doubled = np.hstack([angles, angles])
    cos, sin = (torch.from_numpy(f(doubled).astype(np.float32)) for f in (np.cos, np.sin))
    return cos, sin


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return the rotation by tables."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def tokens() -> Iterator[Pair]:
    """Yield tokens of all layers after cached keys."""
    for heads, head in ((8, 64), (32, 128)):
        rope = pe.RoPE(head, LENGTH, **LAST)
        layer = pe.AttentionLayer(heads, head, rope=rope, mask=pe.CausalMask(), **LAST)
        capacity = KEYS + TOKENS
        empty = pe.KVCache.empty([layer] * LAYERS, 1, capacity, xp=torch, dtype=torch.float32)
        prompt, step = empty.step(KEYS)
        cos, sin = cos_sin(head)
        buffers = []
        for number in range(LAYERS):
            q, k, v = torch.randn(3, 1, heads, KEYS, head)
            step.attend(number, q, k, v)
            keys, values = torch.zeros(2, 1, heads, capacity, head)
            keys[:, :, :KEYS], values[:, :, :KEYS] = rotated(k, cos[:KEYS], sin[:KEYS]), v
            buffers.append((keys, values))
        token = tuple(torch.randn(3, 1, heads, 1, head))
        name = f"{TOKENS} tokens, {LAYERS} layers, {KEYS} keys, {heads} heads of {head}"
        by_hand = partial(tokens_by_hand, token, buffers, cos, sin)
        yield name, "slices, and SDPA", partial(decode, prompt, token, LAYERS, TOKENS), by_hand


def tokens_by_hand(token: Any, buffers: Any, cos: Any, sin: Any) -> torch.Tensor:
    """Return the output of the last layer for the last token."""
    q, k, v = token
    for position in range(KEYS, KEYS + TOKENS):
        index, visible = slice(position, position + 1), slice(position + 1)
        tables = cos[index], sin[index]
        for keys, values in buffers:
            keys[:, :, index], values[:, :, index] = rotated(k, *tables), v
            output = sdpa(rotated(q, *tables), keys[:, :, visible], values[:, :, visible])
    return output


def encodings() -> Iterator[Pair]:
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


def attentions() -> Iterator[Pair]:
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


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="part of the names of rows to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    pairs = (*rotations(), *tokens(), *encodings(), *attentions())
    chosen = [pair for pair in pairs if options.only in pair[0]]
    print_pairs("tensors", chosen, options.seconds, "numpy", "torch")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
