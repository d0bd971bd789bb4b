"""Hugging Face's transformers: the tables of Llama, the buckets and the bias of T5."""

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from transformers import LlamaConfig, LlamaModel
from transformers.models.t5.modeling_t5 import T5Attention

from peers.torch import Tables

if TYPE_CHECKING:
    from harness.inputs import HostArray
    from harness.timing import Run

bucket = T5Attention._relative_position_bucket  # noqa: SLF001 - it has no other


def loaded_tables(positions: "HostArray", dim: int, dtype: torch.dtype) -> Tables:
    """Return the tables of a model of that dtype that is loaded as usual.

    `from_pretrained` casts the weights; the frequencies are made anew, and stay in float32.
    """
    with TemporaryDirectory() as folder:
        LlamaModel(_config(dim)).save_pretrained(folder)
        model = LlamaModel.from_pretrained(folder, dtype=dtype)
    return _tables(model.rotary_emb, positions, dim, dtype)


def cast_tables(positions: "HostArray", dim: int, dtype: torch.dtype) -> Tables:
    """Return the tables of a model that `to` casts, its frequencies included."""
    return _tables(LlamaModel(_config(dim)).to(dtype).rotary_emb, positions, dim, dtype)


def _config(dim: int) -> LlamaConfig:
    """Return the smallest Llama with a head of some features."""
    sizes = {"intermediate_size": 1, "num_hidden_layers": 1, "num_attention_heads": 1}
    return LlamaConfig(vocab_size=4, hidden_size=dim, **sizes)


def _tables(module: Any, positions: "HostArray", dim: int, dtype: torch.dtype) -> Tables:
    """Return cosine and sine (dim / 2, positions) of the rotary module of Llama."""
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
