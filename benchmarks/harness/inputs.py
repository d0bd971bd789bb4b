"""Inputs that all contenders of a case share, and what they should return, by float64."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

HostArray = np.ndarray[Any, np.dtype[Any]]
BASE = 10_000
DSN = "(head, seq, heads * batch)"
BHSD = "(batch, heads, seq, head)"
BSHD = "(batch, seq, heads, head)"
AXES = {DSN: (0, 1), BHSD: (-1, -2), BSHD: (-1, -3)}
# Every so many rows of an attention are compared with the expected ones.
CHECKED = 16


def shapes(batch: int, heads: int, seq: int, head: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of as many numbers in each layout."""
    return {
        DSN: (head, seq, heads * batch),
        BHSD: (batch, heads, seq, head),
        BSHD: (batch, seq, heads, head),
    }


def frequencies(head: int) -> HostArray:
    """Return radians per position, in float64."""
    return BASE ** (-np.arange(0, head, 2) / head)


@dataclass(frozen=True)
class RotationInputs:
    """What to rotate: float32, or complex64 with a number for each pair."""

    layout: str
    x: HostArray
    threads: int = 1  # that a contender may use
    offset: int = 0
    pairs: str = "half"  # or "interleaved"
    positions: HostArray | None = None  # (seq,), override the offset

    @property
    def feature_axis(self) -> int:
        """Axis of the features in `x`."""
        return AXES[self.layout][0]

    @property
    def seq_axis(self) -> int:
        """Axis of the positions in `x`."""
        return AXES[self.layout][1]

    @property
    def seq(self) -> int:
        """Number of positions."""
        return self.x.shape[self.seq_axis]

    @property
    def head(self) -> int:
        """Number of real features."""
        return self.x.shape[self.feature_axis] * (2 if np.iscomplexobj(self.x) else 1)

    @cached_property
    def angles(self) -> HostArray:
        """Angles (seq, head / 2) in float64."""
        counted = np.arange(self.offset, self.offset + self.seq)
        positions = counted if self.positions is None else self.positions
        return positions[:, None] * frequencies(self.head)

    @property
    def tables(self) -> tuple[HostArray, HostArray]:
        """Cosine and sine (seq, head / 2) in float32."""
        return np.cos(self.angles).astype(np.float32), np.sin(self.angles).astype(np.float32)

    @property
    def doubled_tables(self) -> list[HostArray]:
        """Cosine and sine of every feature, which broadcast with `x`."""
        if self.pairs == "half":
            return [self._expand(np.concatenate([t, t], axis=-1)) for t in self.tables]
        return [self._expand(np.repeat(table, 2, axis=-1)) for table in self.tables]

    @property
    def unit_phasors(self) -> HostArray:
        """Cosine plus i times sine of every pair, which broadcasts with a complex `x`."""
        return self._expand(np.exp(1j * self.angles).astype(np.complex64))

    def _expand(self, table: HostArray) -> HostArray:
        """Give a table (seq, features) the axes of `x`."""
        if self.layout == DSN:
            return np.ascontiguousarray(table.T)[:, :, None]
        return table[:, None, :] if self.layout == BSHD else table

    def expected(self) -> HostArray:
        """Rotate in float64, pair by pair as complex numbers."""
        out = np.empty_like(self.x)
        axes = (self.seq_axis, self.feature_axis)
        source, target = (np.moveaxis(array, axes, (0, -1)) for array in (self.x, out))
        half = self.head // 2
        first, second = (
            (slice(half), slice(half, None))
            if self.pairs == "half"
            else (slice(0, None, 2), slice(1, None, 2))
        )
        for i, phasors in enumerate(np.exp(1j * self.angles)):
            if np.iscomplexobj(self.x):
                target[i] = source[i] * phasors
            else:
                row = source[i].astype(np.float64)
                rotated = (row[..., first] + 1j * row[..., second]) * phasors
                target[i][..., first], target[i][..., second] = rotated.real, rotated.imag
        return out


def random_rotation(
    layout: str, shape: tuple[int, ...], dtype: type = np.float32, **options: Any
) -> RotationInputs:
    """Return normally distributed numbers to rotate."""
    parts = 2 if dtype is np.complex64 else 1
    x = np.random.default_rng(0).standard_normal((*shape, parts), dtype=np.float32)
    return RotationInputs(layout, x.view(dtype)[..., 0], **options)


@dataclass(frozen=True)
class AttentionInputs:
    """Queries, keys and values (heads, seq, head), and whether later keys are masked."""

    q: HostArray
    k: HostArray
    v: HostArray
    causal: bool = False

    def expected(self) -> HostArray:
        """Return the rows that are compared, in float64."""
        q, k, v = (x.astype(np.float64) for x in (self.q[:, ::CHECKED], self.k, self.v))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if self.causal:
            indices = np.arange(k.shape[1])
            scores[:, indices > indices[::CHECKED, None]] = -np.inf
        return softmax(scores) @ v


def softmax(scores: HostArray) -> HostArray:
    """Return the weights of scores, as a textbook writes them."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def decode(prompt: Any, token: Any, layers: int, count: int) -> Any:
    """Return the output of the last layer for the last of some equal tokens after a prompt."""
    cache = prompt.rewind(0)
    for _ in range(count):
        cache, step = cache.step(1)
        for number in range(layers):
            output = step.attend(number, *token)
    return output
