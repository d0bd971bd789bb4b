"""Frequencies of sinusoidal and rotary encodings: a geometric progression, in 60 digits.

Frequency i of `dim` features is ``base ** (-2 i / dim)``, in radians per position
(Vaswani et al. 2017, section 3.5; Su et al. 2021, equation 15).
"""

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from math import isfinite
from typing import Any, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.dispatch import backend_for
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Device, Dtype, Namespace, np

# More digits than float64: position 2**31 multiplies the error of a frequency by 2**31.
DIGITS = Context(prec=60)
TWO_PI = Decimal("6.283185307179586476925286766559005768394338798750211641949889")

# Frequencies in cycles per position, with 60 digits, separated by spaces. They are text, which
# `torch.compile` compares to decide whether it can reuse a graph.
DecimalFrequencies: TypeAlias = str


def inverse_frequencies(
    dim: int,
    base: float = 10_000,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the frequencies of sinusoidal and rotary encodings.

    Parameters
    ----------
    dim : int
        Number of features, 1 to 2**20. The last of an odd number has a frequency of its own.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp, dtype, device : optional
        Array library (NumPy if None), real floating-point dtype (if None, float64 if the
        device has it) and device of the result.

    Returns
    -------
    array, shape (ceil(dim / 2),)
        :math:`\theta_i = \mathrm{base}^{-2i/\mathrm{dim}}`, radians per position,
        correctly rounded in float64.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> inverse_frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    backend = backend_for(xp, device)
    dtype = checks.float_dtype(dtype, backend.widest_float_dtype, backend)
    return backend.xp.asarray(_frequencies(dim, base), dtype=dtype, device=device)


def compute_frequencies(
    dim: int,
    seq_len: int,
    base: float = 10_000,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return angles, frequency times position, of the positions 0 to `seq_len` - 1.

    PositionalEmbeddings.jl has a function of this name. `inverse_frequencies` returns frequencies.

    Parameters
    ----------
    dim : int
        Number of features, 1 to 2**20.
    seq_len : int
        Number of positions, 1 to 2**48.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp, dtype, device : optional
        Array library (NumPy if None), real floating-point dtype (if None, float64 if the
        device has it) and device of the result. Angles are computed in float64 and
        rounded once.

    Returns
    -------
    array, shape (ceil(dim / 2), seq_len)
        :math:`m\,\theta_i` of frequency i (first axis) and position m (second), radians.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> compute_frequencies(4, 3)
    array([[0.  , 1.  , 2.  ],
           [0.  , 0.01, 0.02]])
    """
    seq_len = checks.axis_length("seq_len", seq_len)
    backend = backend_for(xp, device)
    dtype = checks.float_dtype(dtype, backend.widest_float_dtype, backend)
    angles = np.asarray(_frequencies(dim, base))[:, None] * np.arange(seq_len, dtype=np.float64)
    return backend.xp.asarray(angles, dtype=dtype, device=device)


def _frequencies(dim: int, base: float) -> list[float]:
    """Return the frequencies in radians per position, after checking the arguments."""
    dim = checks.feature_count("dim", dim)
    return in_radians(geometric_frequencies(dim, checks.positive_number("base", base)))


def merge(parts: Sequence[DecimalFrequencies], sources: Sequence[int]) -> DecimalFrequencies:
    """Merge several `DecimalFrequencies`; `sources` has the part of each frequency."""
    digits = [iter(part.split()) for part in parts]
    return " ".join(next(digits[source]) for source in sources)


@cached_constant
def in_radians(frequencies: DecimalFrequencies) -> list[float]:
    """Return frequencies in radians per position, rounded."""
    with localcontext(DIGITS):
        return [float(Decimal(cycles) * TWO_PI) for cycles in frequencies.split()]


@cached_constant
def geometric_frequencies(
    dim: int,
    base: float,
    scale: float | str = 1.0,
    endpoint: bool = False,  # noqa: FBT001, FBT002 - of a function without keywords
) -> DecimalFrequencies:
    """Return the frequencies of `dim` features, times `scale`.

    With `endpoint`, return dim // 2 frequencies from 1 to ``1 / base``, both included.
    """
    count = dim // 2 if endpoint else (dim + 1) // 2
    span = max(2 * (count - 1), 1) if endpoint else dim
    with localcontext(DIGITS):
        log_base = Decimal(base).ln()
        radians = tuple((-(Decimal(2 * i) / span) * log_base).exp() for i in range(count))
    if radians and not isfinite(float(radians[-1])):
        raise wrong_value("base", "give finite frequencies", base)
    return from_radians(radians, scale)


@cached_constant
def from_radians(radians: tuple[float | Decimal, ...], scale: float | str) -> DecimalFrequencies:
    """Return `DecimalFrequencies` from radians per position, times `scale`."""
    with localcontext(DIGITS):
        factor = Decimal(scale) / TWO_PI
        return " ".join(str(Decimal(frequency) * factor) for frequency in radians)


@cached_constant
def in_cycles(frequencies: DecimalFrequencies) -> list[float]:
    """Return frequencies in cycles per position, rounded."""
    return [float(cycles) for cycles in frequencies.split()]


@cached_constant
def exact_parts(frequencies: DecimalFrequencies, grid: int, exponent: int) -> list[list[float]]:
    """Return the cycles of ``2**exponent`` positions, without whole cycles, in three parts.

    Each part has a number for each frequency: multiples of 1 / grid, multiples of
    1 / grid**2, and the rounded remainder.
    """
    with localcontext(DIGITS):
        cycles = [Decimal(cycles) * Decimal(2) ** exponent for cycles in frequencies.split()]
        remainders = [grid * (c - round(c)) for c in cycles]
        coarse = [round(r) for r in remainders]
        remainders = [grid * (r - c) for r, c in zip(remainders, coarse, strict=True)]
        medium = [round(r) for r in remainders]
        fine = [float(r - m) / grid**2 for r, m in zip(remainders, medium, strict=True)]
    return [[c / grid for c in coarse], [m / grid**2 for m in medium], fine]
