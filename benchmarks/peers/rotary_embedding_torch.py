"""rotary-embedding-torch, which has the interleaved layout only, and features last."""

from typing import TYPE_CHECKING

import torch
from rotary_embedding_torch import RotaryEmbedding

if TYPE_CHECKING:
    from harness.inputs import HostArray, RotationInputs
    from harness.timing import Run


def rotation(inputs: "RotationInputs") -> "Run":
    """Return its method for queries and keys, its table of angles filled before."""
    with torch.inference_mode(mode=False):
        module = RotaryEmbedding(dim=inputs.head)
    x, seq_dim, offset = torch.from_numpy(inputs.x), inputs.seq_axis, inputs.offset
    # It keeps the angles of sequences that start at position 0 only.
    module.rotate_queries_or_keys(torch.zeros(1, 1, offset + inputs.seq, inputs.head))
    return lambda: module.rotate_queries_or_keys(x, seq_dim=seq_dim, offset=offset)


def tables(
    positions: "HostArray", dim: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine (dim / 2, positions) of its angles, every one of which it repeats."""
    module = RotaryEmbedding(dim=dim).to(dtype)
    with torch.no_grad():
        angles = module(torch.as_tensor(positions))[:, ::2].T
    return angles.cos(), angles.sin()
