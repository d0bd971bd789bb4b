"""PyTorch: rotations by Hugging Face's formula, SDPA, and recipes for tables, masks and ALiBi."""

from typing import TYPE_CHECKING, Any

import torch
from harness.inputs import BASE

if TYPE_CHECKING:
    from harness.inputs import AttentionInputs, HostArray, RotationInputs
    from harness.timing import Run

Tables = tuple[torch.Tensor, torch.Tensor]


def rotate_half(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Rotate the pairs (i, i + n/2) by 90 degrees."""
    first, second = x.chunk(2, dim=axis)
    return torch.cat((-second, first), dim=axis)


def rotate_every_two(x: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (2i, 2i + 1) by 90 degrees."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, axis: int) -> torch.Tensor:
    """Rotate in the half layout."""
    return (x * cos) + (rotate_half(x, axis) * sin)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, axis: int) -> torch.Tensor:  # noqa: ARG001 - features are last
    """Rotate in the interleaved layout."""
    return (x * cos) + (rotate_every_two(x) * sin)


def eager(inputs: "RotationInputs", device: str = "cpu", formula: Any = None) -> "Run":
    """Return the formula as it is."""
    formula = formula or _formula(inputs)
    arrays = (inputs.x, *inputs.doubled_tables)
    x, cos, sin = (torch.from_numpy(array).to(device) for array in arrays)
    axis = inputs.feature_axis
    return lambda: formula(x, cos, sin, axis)


def compiled(inputs: "RotationInputs", device: str = "cpu") -> "Run":
    """Return the formula compiled for these very shapes."""
    torch.compiler.reset()
    return eager(inputs, device, torch.compile(_formula(inputs), dynamic=False))


def _formula(inputs: "RotationInputs") -> Any:
    return half if inputs.pairs == "half" else interleaved


def complex_product(inputs: "RotationInputs") -> "Run":
    """Return the product with complex numbers, as Llama's own code has it."""
    x, phasors = torch.from_numpy(inputs.x), torch.from_numpy(inputs.unit_phasors)
    return lambda: x * phasors


def attention(inputs: "AttentionInputs", device: str = "cpu", dtype: str = "float32") -> "Run":
    """Return PyTorch's kernel."""
    attend = torch.nn.functional.scaled_dot_product_attention
    arrays = (torch.from_numpy(x)[None] for x in (inputs.q, inputs.k, inputs.v))
    q, k, v = (x.to(device, getattr(torch, dtype)) for x in arrays)
    return lambda: attend(q, k, v, is_causal=inputs.causal)[0]


def tables(positions: "HostArray", dim: int, dtype: torch.dtype) -> Tables:
    """Multiply positions and frequencies in float32, and cast the tables, as torchtune does."""
    frequencies = 1.0 / (BASE ** (torch.arange(0, dim, 2).float() / dim))
    angles = torch.outer(frequencies, torch.as_tensor(positions).float())
    return angles.cos().to(dtype), angles.sin().to(dtype)


def tables_in_dtype(positions: "HostArray", dim: int, dtype: torch.dtype) -> Tables:
    """Make the frequencies in the tables' dtype, as attnax' `rope_inv_freq(..., dtype)`."""
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    angles = torch.outer((BASE**-exponents).to(dtype), torch.as_tensor(positions).to(dtype))
    return angles.cos(), angles.sin()


def last_of_tables(head: int, seq: int) -> "Run":
    """Build the tables of all positions, and return their last column."""

    def build() -> torch.Tensor:
        cos, sin = tables(torch.arange(seq), head, torch.float32)
        return torch.cat([cos[:, -1], sin[:, -1]])

    return build


def causal_mask(n: int) -> "Run":
    """Return the mask of all later keys."""
    return lambda: torch.ones(n, n, dtype=torch.bool).triu(1)


def window_mask(n: int, left: int) -> "Run":
    """Return the mask of later keys and of those farther back than `left`."""

    def build() -> torch.Tensor:
        ones = torch.ones(n, n, dtype=torch.bool)
        return ones.triu(1) | ones.tril(-left - 1)

    return build


def alibi(slopes: "HostArray", positions: "HostArray") -> "Run":
    """Return the linear bias (query, key, heads)."""
    factors, indices = torch.from_numpy(slopes), torch.from_numpy(positions)
    return lambda: (indices - indices[:, None])[:, :, None] * factors
