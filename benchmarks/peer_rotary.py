"""Rotation by rotary-embedding-torch, which has pairs of neighbours and features last."""

from typing import TYPE_CHECKING

import torch
from rotary_embedding_torch import RotaryEmbedding

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from timing import Run


def rotary(problem: "Rotation") -> "Run":
    """Return its method for queries and keys, its table of angles filled before."""
    with torch.inference_mode(mode=False):
        module = RotaryEmbedding(dim=problem.head)
    x, seq_dim, offset = torch.from_numpy(problem.x), problem.seq_axis, problem.offset
    # It keeps the angles of sequences that start at position 0 only.
    module.rotate_queries_or_keys(torch.zeros(1, 1, offset + problem.seq, problem.head))
    return lambda: module.rotate_queries_or_keys(x, seq_dim=seq_dim, offset=offset)
