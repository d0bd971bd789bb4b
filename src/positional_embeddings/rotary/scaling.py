"""Scaling of rotary frequencies, for contexts longer than those of training.

Each scaling is a frozen dataclass and a function: called with the number of rotated
features, the base and the length of the sequence, it returns the frequencies in radians
per position, a float64 NumPy array (dim / 2,), and a factor on cosine and sine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from math import isfinite
from typing import Annotated, Any, Protocol

from positional_embeddings._core import checks
from positional_embeddings._core.checks import (
    CheckedLayer,
    OptionalPositiveNumber,
    PositionCount,
    PositiveNumber,
)
from positional_embeddings._core.errors import shown, wrong_type, wrong_value
from positional_embeddings._core.namespace import HostArray, host
from positional_embeddings.angles.frequencies import inverse_frequencies

Scaled = tuple[HostArray, float]


class Scaling(Protocol):
    """What `RoPE` asks of a scaling."""

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies in radians per position, and a factor on cosine and sine."""


def _zero_or_positive(name: str, value: Any) -> float:
    """Return a number that may be 0, which stands for none."""
    return checks.finite_number(name, value) and checks.positive_number(name, value)


def _positive_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return a list or a tuple of positive numbers as a tuple."""
    if not isinstance(values, list | tuple):
        raise wrong_type(name, "be a list or tuple of numbers", shown(values))
    return tuple(checks.positive_number(name, value) for value in values)


@dataclass(frozen=True)
class LinearScaling(CheckedLayer):
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
    >>> LinearScaling(4.0)(4, 10_000, 1024)
    (array([0.25  , 0.0025]), 1.0)
    """

    factor: PositiveNumber

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        return inverse_frequencies(dim, base) / self.factor, 1.0


@dataclass(frozen=True)
class NTKScaling(CheckedLayer):
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
    >>> frequencies, factor = NTKScaling(4.0)(8, 10_000, 1024)
    >>> float(frequencies[0]), round(0.001 / float(frequencies[-1]), 12)
    (1.0, 4.0)
    """

    factor: PositiveNumber

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        return inverse_frequencies(dim, _stretched(base, self.factor, dim)), 1.0


@dataclass(frozen=True)
class DynamicNTKScaling(CheckedLayer):
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
    >>> frequencies, _ = DynamicNTKScaling(2.0, 1024)(8, 10_000, 1000)
    >>> frequencies
    array([1.   , 0.1  , 0.01 , 0.001])
    """

    factor: PositiveNumber
    original_max_position: PositionCount

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        ratio = max(seq_len, self.original_max_position) / self.original_max_position
        stretch = self.factor * ratio - (self.factor - 1)
        return inverse_frequencies(dim, _stretched(base, stretch, dim)), 1.0


@dataclass(frozen=True)
class ProportionalScaling(CheckedLayer):
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
    >>> ProportionalScaling(0.5)(8, 10_000, 1024)
    (array([1. , 0.1, 0. , 0. ]), 1.0)
    """

    partial_rotary_factor: PositiveNumber
    factor: PositiveNumber = 1.0

    def __post_init__(self) -> None:
        self.check_fields()
        if self.partial_rotary_factor > 1:
            raise wrong_value("partial_rotary_factor", "be at most 1", self.partial_rotary_factor)

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        turning = int(self.partial_rotary_factor * dim // 2)
        frequencies = inverse_frequencies(dim, base) / self.factor
        return host.where(host.arange(dim // 2) < turning, frequencies, 0.0), 1.0


def _stretched(base: float, factor: float, dim: int) -> float:
    """Return the base that divides the lowest frequency by a factor."""
    if dim <= 2:
        raise wrong_value("dim", "be above 2 for NTK scaling", dim)
    stretched: float = base * float(factor) ** (dim / (dim - 2))
    return stretched


def check_call(dim: int, base: float, seq_len: int) -> None:
    """Check what a scaling is called with."""
    checks.positive_number("base", base)
    checks.feature_count("dim", dim, even=True)
    checks.positive_integer("seq_len", seq_len, most=checks.MOST_POSITIONS)


def checked_scaling(scaled: Any, dim: int) -> tuple[list[float], float]:
    """Return the frequencies and the factor that a scaling gave."""
    try:
        frequencies, factor = scaled
        numbers = [float(frequency) for frequency in frequencies]
    except (TypeError, ValueError):
        raise wrong_type("scaling", "return frequencies and a factor", shown(scaled)) from None
    if len(numbers) != dim // 2 or not all(map(isfinite, numbers)):
        raise wrong_value("scaling", f"return {dim // 2} finite frequencies", numbers)
    return numbers, float(checks.positive_number("attention_factor", factor))


@dataclass(frozen=True)
class YaRNScaling(CheckedLayer):
    """Yet another RoPE extension: low frequencies divided by a factor, high ones kept.

    Parameters
    ----------
    factor : float
        How many times longer the context becomes, positive.
    original_max_position : int
        Length that the model was trained with, positive.
    beta_fast, beta_slow : float, default 32 and 1
        Frequencies within the original length above which a frequency is kept, and below
        which it is divided.
    attention_factor : float, optional
        Factor on cosine and sine, where it is not to follow from the others.
    mscale, mscale_all_dim : float, optional
        With both, the factor is the ratio of ``0.1 * mscale * ln(factor) + 1`` for the
        two, as DeepSeek has it; else it is ``0.1 * ln(factor) + 1``.
    truncate : bool, default True
        Round the bounds of the frequencies to whole numbers.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.2 and equation 22.

    Examples
    --------
    >>> frequencies, factor = YaRNScaling(4.0, 32_768)(128, 1_000_000, 131_072)
    >>> round(factor, 4)
    1.1386
    """

    factor: PositiveNumber
    original_max_position: PositionCount
    beta_fast: PositiveNumber = 32.0
    beta_slow: PositiveNumber = 1.0
    attention_factor: OptionalPositiveNumber = None
    mscale: Annotated[float | None, checks.optional(_zero_or_positive)] = None
    mscale_all_dim: Annotated[float | None, checks.optional(_zero_or_positive)] = None
    truncate: Annotated[bool, checks.boolean] = True

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor on cosine and sine."""
        check_call(dim, base, seq_len)
        if not base > 1:
            raise wrong_value("base", "be above 1 for YaRN", base)
        low, high = self._bound(self.beta_fast, dim, base), self._bound(self.beta_slow, dim, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        if low == high:
            high += 0.001
        index = host.arange(dim // 2, dtype=host.float64)
        divided = host.clip((index - low) / (high - low), 0, 1)
        kept = inverse_frequencies(dim, base)
        return kept / self.factor * divided + kept * (1 - divided), self._attention_factor()

    def _bound(self, turns: float, dim: int, base: float) -> float:
        """Return the index of the frequency of so many turns within the original length."""
        wavelength = self.original_max_position / (turns * 2 * math.pi)
        return dim * math.log(wavelength) / (2 * math.log(base))

    def _attention_factor(self) -> float:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.mscale and self.mscale_all_dim:
            return self._magnitude(self.mscale) / self._magnitude(self.mscale_all_dim)
        return self._magnitude(1.0)

    def _magnitude(self, mscale: float) -> float:
        return 0.1 * mscale * math.log(self.factor) + 1 if self.factor > 1 else 1.0


@dataclass(frozen=True)
class Llama3Scaling(CheckedLayer):
    """The scaling of Llama 3.1: by wavelength, smooth between two bounds.

    Parameters
    ----------
    factor : float
        What low frequencies are divided by, positive.
    low_freq_factor, high_freq_factor : float
        Wavelengths above the original length over the first are divided, those below it
        over the second are kept; positive, the second not below the first.
    original_max_position : int
        Length that the model was trained with, positive.

    References
    ----------
    Grattafiori et al. (2024), The Llama 3 Herd of Models; the published code of Llama 3.1.

    Examples
    --------
    >>> frequencies, _ = Llama3Scaling(8.0, 1.0, 4.0, 8192)(128, 500_000, 131_072)
    >>> float(frequencies[0]), round(float(frequencies[-1]) / 500_000 ** (-126 / 128), 6)
    (1.0, 0.125)
    """

    factor: PositiveNumber
    low_freq_factor: PositiveNumber
    high_freq_factor: PositiveNumber
    original_max_position: PositionCount

    def __post_init__(self) -> None:
        self.check_fields()
        if self.high_freq_factor < self.low_freq_factor:
            raise wrong_value(
                "high_freq_factor",
                f"be `low_freq_factor` = {self.low_freq_factor} or more",
                self.high_freq_factor,
            )

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor 1."""
        check_call(dim, base, seq_len)
        frequencies = inverse_frequencies(dim, base)
        turns = self.original_max_position * frequencies / (2 * math.pi)
        between = self.high_freq_factor - self.low_freq_factor
        if between == 0:
            kept = host.where(turns >= self.low_freq_factor, 1.0, 0.0)
        else:
            kept = host.clip((turns - self.low_freq_factor) / between, 0, 1)
        return frequencies * kept + frequencies / self.factor * (1 - kept), 1.0


@dataclass(frozen=True)
class LongRoPEScaling(CheckedLayer):
    """A divisor of its own for each frequency, one list for short and one for long contexts.

    Parameters
    ----------
    short_factor, long_factor : sequence of float
        Divisors of the dim / 2 frequencies, positive; the second where the sequence is
        longer than the original length.
    original_max_position : int
        Length that the model was trained with, positive.
    factor : float, optional
        How many times longer the context becomes, for the factor on cosine and sine;
        the length of the sequence over the original one where it is None.
    attention_factor : float, optional
        Factor on cosine and sine, where it is not to follow from `factor`.

    References
    ----------
    Ding et al. (2024), LongRoPE, section 3; Abdin et al. (2024), Phi-3, section 2.

    Examples
    --------
    >>> scaling = LongRoPEScaling((1.0, 1.0), (2.0, 4.0), 4096)
    >>> scaling(4, 10_000, 4096), scaling(4, 10_000, 8192)[0]
    ((array([1.  , 0.01]), 1.0), array([0.5   , 0.0025]))
    """

    short_factor: Annotated[Sequence[float], _positive_numbers]
    long_factor: Annotated[Sequence[float], _positive_numbers]
    original_max_position: PositionCount
    factor: OptionalPositiveNumber = None
    attention_factor: OptionalPositiveNumber = None

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor on cosine and sine."""
        check_call(dim, base, seq_len)
        long = seq_len > self.original_max_position
        name, divisors = (
            ("long_factor", self.long_factor)
            if long
            else (
                "short_factor",
                self.short_factor,
            )
        )
        if len(divisors) != dim // 2:
            raise wrong_value(name, f"have {dim // 2} numbers, half of `dim`", len(divisors))
        frequencies = inverse_frequencies(dim, base)
        divisor = host.asarray(divisors, dtype=host.float64)
        return frequencies / divisor, self._attention_factor(seq_len)

    def _attention_factor(self, seq_len: int) -> float:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        original = self.original_max_position
        factor = seq_len / original if self.factor is None else self.factor
        return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


_BY_NAME: dict[str, Any] = {
    "linear": LinearScaling,
    "ntk": NTKScaling,
    "dynamic": DynamicNTKScaling,
    "dynamicntk": DynamicNTKScaling,
    "yarn": YaRNScaling,
    "llama3": Llama3Scaling,
    "longrope": LongRoPEScaling,
    "proportional": ProportionalScaling,
}


def scaling_to_pass(given: Any) -> str:
    """Return the sentence that tells what to pass in place of a name, a class or a dict."""
    if isinstance(given, Mapping):
        return " RoPE.from_hf_config reads it from a model's configuration."
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    scaling = _BY_NAME.get(name.lower().removesuffix("scaling"))
    if scaling is None:
        return ""
    needed = [field.name for field in fields(scaling) if field.default is MISSING]
    return f" Pass {scaling.__name__}({', '.join(needed)})."
