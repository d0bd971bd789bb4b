"""Rotation in PyTorch by the formula of Hugging Face, eager and compiled."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from bench_rotation import Rotation
    from timing import Run


def rotate_half(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Turn the pairs (i, i + n/2) by a quarter."""
    first, second = x.chunk(2, dim=axis)
    return torch.cat((-second, first), dim=axis)


def rotate_every_two(x: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (2i, 2i + 1) by a quarter."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, axis: int) -> torch.Tensor:
    """Rotate in the half layout."""
    return (x * cos) + (rotate_half(x, axis) * sin)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, axis: int) -> torch.Tensor:  # noqa: ARG001 - features lie last
    """Rotate pairs of neighbours."""
    return (x * cos) + (rotate_every_two(x) * sin)


def eager(problem: "Rotation", device: str = "cpu") -> "Run":
    """Return the formula as it is."""
    formula = half if problem.pairs == "half" else interleaved
    x, cos, sin = _moved(problem, device)
    axis = problem.feature_axis
    return lambda: formula(x, cos, sin, axis)


def compiled(problem: "Rotation", device: str = "cpu") -> "Run":
    """Return the formula compiled for these very shapes."""
    torch.compiler.reset()
    formula = torch.compile(half if problem.pairs == "half" else interleaved, dynamic=False)
    x, cos, sin = _moved(problem, device)
    axis = problem.feature_axis
    return lambda: formula(x, cos, sin, axis)


def complex_product(problem: "Rotation") -> "Run":
    """Return the product by complex numbers, as Llama's own code has it."""
    x, turns = torch.from_numpy(problem.x), torch.from_numpy(problem.turns)
    return lambda: x * turns


def _moved(problem: "Rotation", device: str) -> list[torch.Tensor]:
    arrays = (problem.x, problem.cos, problem.sin)
    return [torch.from_numpy(array).to(device) for array in arrays]
