"""Cases of masks and biases, against what a textbook and PyTorch write."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from contenders import Builder, Case, Contender, HostArray, measured, needed
from timing import Run

from positional_embeddings import (
    T5Bias,
    alibi_bias,
    create_causal_mask,
    create_padding_mask,
    create_segment_mask,
    create_sliding_window_mask,
    relative_position_bucket,
)

HEADS, BUCKETS, FARTHEST = 32, 32, 128
Forms = dict[str, Callable[[], Run]]


def masks(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - one thread makes them
    """Return four masks."""
    n = 512 if quick else 4096
    made = {"causal": causal, "sliding window": window, "padding": padding, "segments": segments}
    return [_builder("masks", f"{name}, {n:,}", partial(forms, n)) for name, forms in made.items()]


def biases(threads: int, *, quick: bool) -> list[Builder]:  # noqa: ARG001 - one thread makes them
    """Return ALiBi, the buckets of T5, and its bias."""
    n = 256 if quick else 2048
    made = {f"ALiBi, {HEADS} heads": alibi, "T5 buckets": buckets, "T5 bias, 8 heads": t5}
    return [_builder("biases", f"{name}, {n:,}", partial(forms, n)) for name, forms in made.items()]


def _builder(topic: str, name: str, forms: Callable[[], Forms]) -> Builder:
    return f"{topic} {name}", lambda rounds: measured(_case(topic, name, forms()), rounds)


def _case(topic: str, name: str, forms: Forms) -> Case:
    """Return a case whose unit is a copy of what the textbook makes."""
    right = np.ascontiguousarray(forms["textbook NumPy"]()())
    contenders = [Contender("copy", lambda: right.copy, tracked=True)]
    for form, prepare in forms.items():
        made_by_numpy = form in {"this library", "textbook NumPy"}
        contenders.append(
            Contender(form, prepare, right, tracked=made_by_numpy, view=partial(_shaped, right))
        )
    return Case(topic, name, right.nbytes, contenders)


def _shaped(like: HostArray, result: Any) -> HostArray:
    """Leave out axes of 1."""
    array = np.asarray(result)
    return array.reshape(like.shape) if array.size == like.size else array


def causal(n: int) -> Forms:
    """Return the mask of all keys after a query."""

    def by_torch() -> Run:
        torch = needed("torch")
        return lambda: torch.ones(n, n, dtype=torch.bool).triu(1)

    return {
        "this library": lambda: lambda: create_causal_mask(n),
        "textbook NumPy": lambda: lambda: np.triu(np.ones((n, n), dtype=bool), 1),
        "torch eager": by_torch,
    }


def window(n: int) -> Forms:
    """Return the mask of all but the last 256 keys."""
    left = 255

    def textbook() -> HostArray:
        ones = np.ones((n, n), dtype=bool)
        return np.triu(ones, 1) | np.tril(ones, -left - 1)

    def by_torch() -> Run:
        torch = needed("torch")

        def build() -> Any:
            ones = torch.ones(n, n, dtype=torch.bool)
            return ones.triu(1) | ones.tril(-left - 1)

        return build

    return {
        "this library": lambda: lambda: create_sliding_window_mask(n, (left, 0)),
        "textbook NumPy": lambda: textbook,
        "torch eager": by_torch,
    }


def padding(n: int) -> Forms:
    """Return the mask of the keys after the ends of 64 sequences."""
    lengths = np.random.default_rng(0).integers(1, n + 1, 64)
    return {
        "this library": lambda: lambda: create_padding_mask(lengths, n, batch_first=True),
        "textbook NumPy": lambda: lambda: np.arange(n) >= lengths[:, None],
    }


def segments(n: int) -> Forms:
    """Return the mask of the keys of other sequences in a packed row."""
    ids = np.repeat(np.arange(16), n // 16)
    return {
        "this library": lambda: lambda: create_segment_mask(ids),
        "textbook NumPy": lambda: lambda: ids[:, None] != ids,
    }


def alibi(n: int) -> Forms:
    """Return the linear bias, (query, key, heads)."""
    slopes = (2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)).astype(np.float32)
    positions = np.arange(n, dtype=np.float32)

    def by_torch() -> Run:
        torch = needed("torch")
        factors, places = torch.from_numpy(slopes), torch.from_numpy(positions)
        return lambda: (places - places[:, None])[:, :, None] * factors

    return {
        "this library": lambda: lambda: alibi_bias(HEADS, n, dtype=np.float32),
        "textbook NumPy": lambda: lambda: (positions - positions[:, None])[:, :, None] * slopes,
        "torch eager": by_torch,
    }


def buckets(n: int) -> Forms:
    """Return the bucket of every distance."""
    positions = np.arange(n)
    distances = positions - positions[:, None]

    def by_transformers() -> Run:
        torch = needed("torch")
        module = needed("transformers.models.t5.modeling_t5")
        bucket = module.T5Attention._relative_position_bucket  # noqa: SLF001 - it has no other
        moved = torch.from_numpy(distances)
        return lambda: bucket(moved, num_buckets=BUCKETS, max_distance=FARTHEST)

    return {
        "this library": lambda: lambda: relative_position_bucket(distances),
        "textbook NumPy": lambda: lambda: textbook_bucket(distances),
        "transformers": by_transformers,
    }


def t5(n: int) -> Forms:
    """Return the bias that is looked up by buckets, (query, key, heads)."""
    bias = T5Bias(8, rng=0)
    weights, positions = np.asarray(bias.embeddings), np.arange(n)

    def by_transformers() -> Run:
        torch = needed("torch")
        module = needed("transformers.models.t5.modeling_t5")
        bucket = module.T5Attention._relative_position_bucket  # noqa: SLF001 - it has no other
        table, places = torch.from_numpy(weights), torch.from_numpy(positions)
        return lambda: table[bucket(places - places[:, None])]

    return {
        "this library": lambda: lambda: bias(n),
        "textbook NumPy": lambda: lambda: weights[textbook_bucket(positions - positions[:, None])],
        "transformers": by_transformers,
    }


def textbook_bucket(distances: HostArray) -> HostArray:
    """Return T5's buckets as Raffel's code computes them, for both directions."""
    half = BUCKETS // 2
    exact = half // 2
    far = np.abs(distances)
    ratio = np.log(np.maximum(far, 1) / exact) / np.log(FARTHEST / exact)
    large = np.minimum(exact + (ratio * (half - exact)).astype(np.int64), half - 1)
    return half * (distances > 0) + np.where(far < exact, far, large)
