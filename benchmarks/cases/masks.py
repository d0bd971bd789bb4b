"""Masks and biases, against what a textbook and PyTorch write."""

from collections.abc import Callable
from functools import partial

import numpy as np
from harness.contenders import Builder, Case, Contender, Settings, measured
from harness.inputs import HostArray
from harness.targets import OURS
from harness.timing import Run
from peers import peer
from peers.numpy import t5_bucket

from positional_embeddings import (
    SegmentMask,
    SlidingWindowMask,
    T5Bias,
    alibi_bias,
    create_causal_mask,
    create_padding_mask,
    relative_position_bucket,
)

HEADS, BUCKETS, FARTHEST = 32, 32, 128
TEXTBOOK = "textbook NumPy"
Forms = dict[str, Callable[[], Run]]


def masks(settings: Settings) -> list[Builder]:
    """Return four masks."""
    n = 512 if settings.quick else 4096
    made = {"causal": causal, "sliding window": window, "padding": padding, "segments": segments}
    return [_builder("masks", f"{name}, {n:,}", partial(forms, n)) for name, forms in made.items()]


def biases(settings: Settings) -> list[Builder]:
    """Return ALiBi, the buckets of T5, and its bias."""
    n = 256 if settings.quick else 2048
    made = {f"ALiBi, {HEADS} heads": alibi, "T5 buckets": buckets, "T5 bias, 8 heads": t5}
    return [_builder("biases", f"{name}, {n:,}", partial(forms, n)) for name, forms in made.items()]


def _builder(topic: str, name: str, forms: Callable[[], Forms]) -> Builder:
    return f"{topic} {name}", lambda rounds: measured(_case(topic, name, forms()), rounds)


def _case(topic: str, name: str, forms: Forms) -> Case:
    """Return a case whose unit is a copy of what the textbook makes."""
    expected = np.ascontiguousarray(forms[TEXTBOOK]()())

    def without_axes_of_1(result: HostArray) -> HostArray:
        array = np.asarray(result)
        return array.reshape(expected.shape) if array.size == expected.size else array

    contenders = [Contender("copy", lambda: expected.copy, tracked=True)]
    contenders += [
        Contender(form, prepare, expected, tracked=form in {OURS, TEXTBOOK}, view=without_axes_of_1)
        for form, prepare in forms.items()
    ]
    return Case(topic, name, expected.nbytes, contenders)


def causal(n: int) -> Forms:
    """Return the mask of all later keys."""
    return {
        OURS: lambda: lambda: create_causal_mask(n),
        TEXTBOOK: lambda: lambda: np.triu(np.ones((n, n), dtype=bool), 1),
        "torch eager": peer("torch.causal_mask", n),
    }


def window(n: int) -> Forms:
    """Return the mask of all but the last 256 keys."""
    left = 255

    def textbook() -> HostArray:
        ones = np.ones((n, n), dtype=bool)
        return np.triu(ones, 1) | np.tril(ones, -left - 1)

    return {
        OURS: lambda: lambda: SlidingWindowMask(left, 0).dense(n),
        TEXTBOOK: lambda: textbook,
        "torch eager": peer("torch.window_mask", n, left),
    }


def padding(n: int) -> Forms:
    """Return the mask of the keys after the ends of 64 sequences."""
    lengths = np.random.default_rng(0).integers(1, n + 1, 64)
    return {
        OURS: lambda: lambda: create_padding_mask(lengths, n, batch_first=True),
        TEXTBOOK: lambda: lambda: np.arange(n) >= lengths[:, None],
    }


def segments(n: int) -> Forms:
    """Return the mask of the keys of other sequences in a packed row."""
    ids = np.repeat(np.arange(16), n // 16)
    return {
        OURS: lambda: lambda: SegmentMask(ids).dense(n),
        TEXTBOOK: lambda: lambda: ids[:, None] != ids,
    }


def alibi(n: int) -> Forms:
    """Return the linear bias (query, key, heads)."""
    slopes = (2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)).astype(np.float32)
    positions = np.arange(n, dtype=np.float32)
    return {
        OURS: lambda: lambda: alibi_bias(HEADS, n, dtype=np.float32),
        TEXTBOOK: lambda: lambda: (positions - positions[:, None])[:, :, None] * slopes,
        "torch eager": peer("torch.alibi", slopes, positions),
    }


def buckets(n: int) -> Forms:
    """Return the bucket of every distance."""
    positions = np.arange(n)
    distances = positions - positions[:, None]
    return {
        OURS: lambda: lambda: relative_position_bucket(distances),
        TEXTBOOK: lambda: lambda: t5_bucket(distances, BUCKETS, FARTHEST),
        "transformers": peer("transformers.t5_bucket", distances, BUCKETS, FARTHEST),
    }


def t5(n: int) -> Forms:
    """Return the bias (query, key, heads), looked up by buckets."""
    bias = T5Bias(8, rng=0)
    weights, positions = np.asarray(bias.embeddings), np.arange(n)

    def textbook() -> HostArray:
        return weights[t5_bucket(positions - positions[:, None], BUCKETS, FARTHEST)]

    return {
        OURS: lambda: lambda: bias(n),
        TEXTBOOK: lambda: textbook,
        "transformers": peer("transformers.t5_bias", weights, positions),
    }
