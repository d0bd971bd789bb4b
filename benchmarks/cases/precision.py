"""Error of rotary tables against the position, for several libraries."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import torch
from harness.inputs import BASE, HostArray
from harness.targets import OURS
from peers import rotary_embedding_torch, transformers
from peers.torch import tables, tables_in_dtype

from positional_embeddings import RoPE

DIM = 128
DECADES = range(7)
PER_DECADE = 12
COLUMNS = (1_000, 131_071, 1_048_575, 10_000_000)
# From positions, DIM and dtype to cosine and sine, (DIM / 2, positions).
Library = Callable[[HostArray, int, torch.dtype], tuple[Any, Any]]


def ours(positions: HostArray, dim: int, dtype: torch.dtype) -> tuple[Any, Any]:
    """Rotate pairs (1, 0), which gives cosine and sine."""
    x = torch.zeros((dim, len(positions)), dtype=dtype)
    x[: dim // 2] = 1
    rotated = RoPE(dim, 1)(x, positions=torch.as_tensor(positions))
    return rotated[: dim // 2], rotated[dim // 2 :]


LIBRARIES: dict[str, Library] = {
    OURS: ours,
    "transformers": transformers.tables,
    "rotary-embedding-torch": rotary_embedding_torch.tables,
    "torchtune's recipe": tables,
    "attnax's recipe": tables_in_dtype,
}


def drawn_positions() -> HostArray:
    """Return random positions in each decade, and those of the printed columns."""
    rng = np.random.default_rng(0)
    decades = [rng.integers(10**n, 10 ** (n + 1), PER_DECADE) for n in DECADES]
    return np.unique(np.concatenate([*decades, COLUMNS]))


def exact_tables(positions: HostArray) -> tuple[HostArray, HostArray]:
    """Return cosine and sine by mpmath, rounded to float64."""
    shape = (DIM // 2, len(positions))
    cos, sin = np.zeros(shape), np.zeros(shape)
    with mpmath.workdps(40):
        for i in range(DIM // 2):
            frequency = mpmath.mpf(BASE) ** (-mpmath.mpf(2 * i) / DIM)
            for j, position in enumerate(positions.tolist()):
                cos[i, j] = mpmath.cos(position * frequency)
                sin[i, j] = mpmath.sin(position * frequency)
    return cos, sin


def errors(library: Library, positions: HostArray, dtype: torch.dtype, exact: Any) -> HostArray:
    """Return the largest error over the frequencies at each position."""
    distances = [
        np.abs(table.double().numpy() - truth)
        for table, truth in zip(library(positions, DIM, dtype), exact, strict=True)
    ]
    worst: HostArray = np.maximum(*distances).max(axis=0)
    return worst
