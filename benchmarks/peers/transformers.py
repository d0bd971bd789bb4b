"""Hugging Face's transformers: the tables of Llama, the buckets and the bias of T5."""

from typing import TYPE_CHECKING

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

if TYPE_CHECKING:
    from harness.inputs import HostArray
    from harness.timing import Run

bucket = T5Attention._relative_position_bucket  # noqa: SLF001 - it has no other


def tables(
    positions: "HostArray", dim: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine (dim / 2, positions) of the rotary module of Llama."""
    module = LlamaRotaryEmbedding(LlamaConfig(hidden_size=dim, num_attention_heads=1)).to(dtype)
    cos, sin = module(torch.zeros(1, dtype=dtype), torch.as_tensor(positions)[None])
    return cos[0, :, : dim // 2].T, sin[0, :, : dim // 2].T


def t5_bucket(distances: "HostArray", buckets: int, farthest: int) -> "Run":
    """Return the bucket of every distance."""
    given = torch.from_numpy(distances)
    return lambda: bucket(given, num_buckets=buckets, max_distance=farthest)


def t5_bias(weights: "HostArray", positions: "HostArray") -> "Run":
    """Return the bias (query, key, heads), looked up by buckets."""
    table, indices = torch.from_numpy(weights), torch.from_numpy(positions)
    return lambda: table[bucket(indices - indices[:, None])]
