"""Frequencies, and exact angles of positions.

Frequency i of `dim` features is ``base ** (-2 i / dim)``, in radians per position
(Vaswani et al. 2017, section 3.5; Su et al. 2021, equation 15).
"""

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

from positional_embeddings._core import checks
from positional_embeddings._core.namespace import (
    Device,
    Dtype,
    Namespace,
    float_dtype,
    host,
    host_constant,
    namespace_or_numpy,
    widest_float,
)

# A frequency is kept with far more digits than a float64 has: at position 2**31
# the error of a rounded frequency is 2**31 times as large.
DIGITS = Context(prec=60)
TWO_PI = Decimal("6.283185307179586476925286766559005768394338798750211641949889")


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
        Number of features, 1 to 2**20. An odd number has a last frequency of its own.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of the result, float64 where the device has it.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (ceil(dim / 2),)
        :math:`\theta_i = \mathrm{base}^{-2i/\mathrm{dim}}`, radians per position,
        correctly rounded in float64.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `dim` or `base` is not positive.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> inverse_frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    dim = checks.feature_count("dim", dim)
    base = checks.positive_number("base", base)
    xp = namespace_or_numpy(xp)
    dtype = float_dtype(dtype, widest_float(xp, device), xp, device)
    return xp.asarray(_rounded(dim, base), dtype=dtype, device=device)


def compute_frequencies(
    dim: int,
    seq_len: int,
    base: float = 10_000,
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Any:
    r"""Return the angles of the positions 0 to `seq_len` - 1.

    Parameters
    ----------
    dim : int
        Number of features, 1 to 2**20.
    seq_len : int
        Number of positions, 1 to 2**48.
    base : float, default 10_000
        Base of the geometric progression, positive.
    xp : namespace, optional
        Array library of the result, NumPy where it is None.
    dtype : dtype, optional
        Real floating-point dtype of the result, float64 where the device has it.
        Angles are computed in float64 and rounded once.
    device : device, optional
        Device of the result.

    Returns
    -------
    array, shape (ceil(dim / 2), seq_len)
        :math:`m\,\theta_i`, radians, with the frequency first and the position second.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `dim`, `seq_len` or `base` is not positive.

    References
    ----------
    Su et al. (2021), RoFormer, equation 15.

    Examples
    --------
    >>> compute_frequencies(4, 3)
    array([[0.  , 1.  , 2.  ],
           [0.  , 0.01, 0.02]])
    """
    seq_len = checks.positive_integer("seq_len", seq_len, most=checks.MOST_IN_MEMORY)
    frequencies = inverse_frequencies(dim, base)
    xp = namespace_or_numpy(xp)
    dtype = float_dtype(dtype, widest_float(xp, device), xp, device)
    angles = frequencies[:, None] * host.arange(seq_len, dtype=host.float64)
    return xp.asarray(angles, dtype=dtype, device=device)


@host_constant
def _rounded(dim: int, base: float) -> list[float]:
    return [float(frequency) for frequency in _radians(dim, base)]


@lru_cache(maxsize=64)
def _radians(dim: int, base: float) -> tuple[Decimal, ...]:
    with localcontext(DIGITS):
        return _powers(base, [Decimal(2 * i) / dim for i in range((dim + 1) // 2)])


def _powers(base: float, exponents: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Return base to the power of each negated exponent."""
    log_base = Decimal(base).ln()
    return tuple((-exponent * log_base).exp() for exponent in exponents)


class Frequencies:
    """Frequencies in turns per position, with 60 digits, and their exact parts.

    They are kept as text, which PyTorch compares where it compiles for one of several.

    Parameters
    ----------
    digits : str
        The frequencies, with blanks between.
    """

    def __init__(self, digits: str) -> None:
        self._digits = digits

    @classmethod
    def of_radians(cls, radians: Sequence[Decimal], scale: float | str = 1.0) -> "Frequencies":
        """Return frequencies in radians per position, times `scale`."""
        return cls(_digits(radians, scale))

    @classmethod
    def joined(
        cls, parts: "Sequence[Frequencies]", places: Sequence[Sequence[int]]
    ) -> "Frequencies":
        """Return the frequencies of several, each at the places that are given for it."""
        found = {
            place: frequency
            for part, of_part in zip(parts, places, strict=True)
            for place, frequency in zip(of_part, part._digits.split(), strict=True)  # noqa: SLF001
        }
        return cls(" ".join(found[place] for place in range(len(found))))

    def chosen(self, places: Sequence[int]) -> "Frequencies":
        """Return some of the frequencies."""
        digits = self._digits.split()
        return Frequencies(" ".join(digits[place] for place in places))

    def radians(self) -> list[float]:
        """Return the frequencies in radians per position, rounded."""
        with localcontext(DIGITS):
            return [float(Decimal(turns) * TWO_PI) for turns in self._digits.split()]

    def per_position(self) -> list[float]:
        """Return the turns per position, rounded."""
        return _per_position(self._digits)

    @property
    def count(self) -> int:
        """Number of frequencies."""
        return self._digits.count(" ") + 1

    def highest(self) -> float:
        """Return the most turns per position."""
        return _highest(self._digits)

    def parts(self, grid: int, exponent: int) -> list[list[float]]:
        """Return multiples of 1 / grid, of 1 / grid**2, and what is left, each (frequency,).

        They are the turns of a step of ``2**exponent`` positions, without the whole turns.
        """
        return _parts(self._digits, grid, exponent)


def frequencies_of(dim: int, base: float, scale: float | str = 1.0) -> Frequencies:
    """Return the frequencies of `dim` features, times `scale`."""
    return Frequencies(_digits_of_features(dim, base, scale))


def frequencies_to_endpoint(count: int, base: float, scale: float | str = 1.0) -> Frequencies:
    """Return `count` frequencies from 1 to ``1 / base``, both included, times `scale`."""
    return Frequencies(_digits_to_endpoint(count, base, scale))


def _digits(radians: Sequence[Decimal], scale: float | str) -> str:
    with localcontext(DIGITS):
        factor = Decimal(scale) / TWO_PI
        return " ".join(str(frequency * factor) for frequency in radians)


@host_constant
def _digits_of_features(dim: int, base: float, scale: float | str) -> str:
    return _digits(_radians(dim, base), scale)


@host_constant
def _digits_to_endpoint(count: int, base: float, scale: float | str) -> str:
    with localcontext(DIGITS):
        radians = _powers(base, [Decimal(i) / max(count - 1, 1) for i in range(count)])
    return _digits(radians, scale)


@host_constant
def _per_position(digits: str) -> list[float]:
    return [float(turns) for turns in digits.split()]


@host_constant
def _highest(digits: str) -> float:
    return max(map(abs, _per_position(digits)))


@host_constant
def _parts(digits: str, grid: int, exponent: int) -> list[list[float]]:
    with localcontext(DIGITS):
        steps = [Decimal(turns) * Decimal(2) ** exponent for turns in digits.split()]
        return _split([step - round(step) for step in steps], grid)


def _split(frequencies: Sequence[Decimal], grid: int) -> list[list[float]]:
    coarse = [round(f * grid) for f in frequencies]
    rests = [f * grid - c for f, c in zip(frequencies, coarse, strict=True)]
    medium = [round(rest * grid) for rest in rests]
    fine = [float(rest * grid - m) / grid**2 for rest, m in zip(rests, medium, strict=True)]
    return [[c / grid for c in coarse], [m / grid**2 for m in medium], fine]
