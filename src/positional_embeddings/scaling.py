"""Scaling of rotary frequencies, for contexts longer than those of training.

Each scaling is a frozen dataclass and a function: called with the number of rotated
features, the base and the length of the sequence, it returns the frequencies in radians
per position, a float64 NumPy array (dim / 2,), and a factor on cosine and sine.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from positional_embeddings import _checks
from positional_embeddings._namespace import HostArray, host, shown
from positional_embeddings.frequencies import inverse_frequencies

Scaled = tuple[HostArray, float]


class Scaling(Protocol):
    """What `RoPE` asks of a scaling."""

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies in radians per position, and a factor on cosine and sine."""


@dataclass(frozen=True)
class Linear:
    """Position interpolation: every frequency divided by a factor.

    Parameters
    ----------
    factor : float
        How many times longer the context becomes, positive.

    References
    ----------
    Chen et al. (2023), Extending Context Window of Large Language Models via Positional
    Interpolation, equation 3.

    Examples
    --------
    >>> Linear(4.0)(4, 10_000, 1024)
    (array([0.25  , 0.0025]), 1.0)
    """

    factor: float

    def __post_init__(self) -> None:
        set_positive(self, "factor")

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        return inverse_frequencies(dim, base) / self.factor, 1.0


@dataclass(frozen=True)
class NTK:
    """Static NTK-aware scaling: a larger base, which leaves the highest frequency as it is.

    Parameters
    ----------
    factor : float
        How many times longer the context becomes, positive; the lowest frequency is
        divided by it.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.1, definition 1.

    Examples
    --------
    >>> frequencies, factor = NTK(4.0)(8, 10_000, 1024)
    >>> float(frequencies[0]), round(0.001 / float(frequencies[-1]), 12)
    (1.0, 4.0)
    """

    factor: float

    def __post_init__(self) -> None:
        set_positive(self, "factor")

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        return inverse_frequencies(dim, _stretched(base, self.factor, dim)), 1.0


@dataclass(frozen=True)
class DynamicNTK:
    """NTK-aware scaling by the length of the sequence, none up to the original one.

    Parameters
    ----------
    factor : float
        Factor of the scaling, positive.
    original_max_position : int
        Length that the model was trained with, positive.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.3; as in the library transformers.

    Examples
    --------
    >>> frequencies, _ = DynamicNTK(2.0, 1024)(8, 10_000, 1000)
    >>> frequencies
    array([1.   , 0.1  , 0.01 , 0.001])
    """

    factor: float
    original_max_position: int

    def __post_init__(self) -> None:
        set_positive(self, "factor")
        set_size(self, "original_max_position")

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        ratio = max(seq_len, self.original_max_position) / self.original_max_position
        stretch = self.factor * ratio - (self.factor - 1)
        return inverse_frequencies(dim, _stretched(base, stretch, dim)), 1.0


@dataclass(frozen=True)
class Proportional:
    """Only the highest frequencies turn; the others are zero.

    Unlike a partial rotation, the frequencies are those of all features.

    Parameters
    ----------
    partial_rotary_factor : float
        Part of the frequencies that turn, above 0 and at most 1.
    factor : float, default 1.0
        What they are divided by, positive.

    References
    ----------
    The type "proportional" of the library transformers.

    Examples
    --------
    >>> Proportional(0.5)(8, 10_000, 1024)
    (array([1. , 0.1, 0. , 0. ]), 1.0)
    """

    partial_rotary_factor: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        set_positive(self, "partial_rotary_factor", "factor")
        if self.partial_rotary_factor > 1:
            message = (
                f"`partial_rotary_factor` must be at most 1, got {self.partial_rotary_factor}."
            )
            raise ValueError(message)

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        turning = int(self.partial_rotary_factor * dim // 2)
        frequencies = inverse_frequencies(dim, base) / self.factor
        return host.where(host.arange(dim // 2) < turning, frequencies, 0.0), 1.0


def _stretched(base: float, factor: float, dim: int) -> float:
    """Return the base that divides the lowest frequency by a factor."""
    if dim <= 2:
        message = f"`dim` must be above 2 for NTK scaling, got {dim}."
        raise ValueError(message)
    stretched: float = base * float(factor) ** (dim / (dim - 2))
    return stretched


def check_call(dim: int, base: float, seq_len: int) -> None:
    """Check what a scaling is called with."""
    _checks.positive_number("base", base)
    _checks.feature_count("dim", dim, even=True)
    _checks.positive_integer("seq_len", seq_len, most=_checks.MOST_POSITIONS)


def set_positive(scaling: object, *names: str) -> None:
    """Check fields that are positive numbers."""
    numbers = {name: _checks.positive_number(name, getattr(scaling, name)) for name in names}
    _checks.set_fields(scaling, **numbers)


def set_size(scaling: object, name: str) -> None:
    """Check a field that is a positive integer."""
    size = _checks.positive_integer(name, getattr(scaling, name), most=_checks.MOST_POSITIONS)
    _checks.set_fields(scaling, **{name: size})


def checked_scaling(scaled: Any, dim: int) -> tuple[list[float], float]:
    """Return the frequencies and the factor that a scaling gave."""
    try:
        frequencies, factor = scaled
        numbers = [float(frequency) for frequency in frequencies]
    except (TypeError, ValueError):
        message = f"`scaling` must return frequencies and a factor, got {shown(scaled)}."
        raise TypeError(message) from None
    if len(numbers) != dim // 2 or not all(map(isfinite, numbers)):
        message = f"`scaling` must return {dim // 2} finite frequencies, got {numbers}."
        raise ValueError(message)
    return numbers, float(_checks.positive_number("attention_factor", factor))
