"""Scaling of rotary frequencies, for contexts longer than in training.

Each scaling is a frozen dataclass. As a function of the number of rotated features, the base and
the sequence length it returns the frequencies in radians per position, a float64 NumPy array
(dim / 2,), and the attention factor, which multiplies cosine and sine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any, Protocol

from positional_embeddings.angles.frequencies import inverse_frequencies
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, HostArray, ignore_fp_errors, np

Scaled = tuple[HostArray, float]


class Scaling(Protocol):
    """Signature of the `scaling` of a `RoPE`."""

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies in radians per position, and the attention factor."""


def _zero_or_positive(name: str, value: Array) -> float:
    """Check a positive number or 0 and return it."""
    return checks.finite_number(name, value) and checks.positive_number(name, value)


_positive_numbers = partial(checks.sequence_of, check=checks.positive_number, requirement="numbers")


def _unscaled(dim: int, base: float, seq_len: int) -> HostArray:
    """Check all arguments and return the frequencies without scaling."""
    frequencies: HostArray = inverse_frequencies(dim, base)
    checks.feature_count("dim", dim, even=True)
    checks.position_count("seq_len", seq_len)
    return frequencies


@dataclass(frozen=True)
class LinearScaling(checks.CheckedDataclass):
    """Position interpolation, which divides every frequency by a factor.

    Parameters
    ----------
    factor : float
        Ratio of the new context length to the old one, positive.

    References
    ----------
    Chen et al. (2023), Extending Context Window of Large Language Models via Positional
    Interpolation, equation 3.

    Examples
    --------
    >>> LinearScaling(4.0)(4, 10_000, 1024)
    (array([0.25  , 0.0025]), 1.0)
    """

    factor: checks.PositiveNumber

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor 1."""
        return _unscaled(dim, base, seq_len) / self.factor, 1.0


@dataclass(frozen=True)
class NTKScaling(checks.CheckedDataclass):
    """NTK-aware scaling: a larger base, which does not change the highest frequency.

    Parameters
    ----------
    factor : float
        Ratio of the new context length to the old one, positive; divisor of the lowest frequency.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.1, definition 1.

    Examples
    --------
    >>> frequencies, factor = NTKScaling(4.0)(8, 10_000, 1024)
    >>> float(frequencies[0]), round(0.001 / float(frequencies[-1]), 12)
    (1.0, 4.0)
    """

    factor: checks.PositiveNumber

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor 1."""
        return _with_enlarged_base(self.factor, dim, base, seq_len), 1.0


@dataclass(frozen=True)
class DynamicNTKScaling(checks.CheckedDataclass):
    """NTK-aware scaling that grows with the sequence beyond the training length.

    Parameters
    ----------
    factor : float
        Growth rate, positive: a sequence of n times the training length is scaled by
        ``factor * n - (factor - 1)``.
    original_max_position : int
        Sequence length in training, positive.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.3; the code of transformers.

    Examples
    --------
    >>> frequencies, _ = DynamicNTKScaling(2.0, 1024)(8, 10_000, 1000)
    >>> frequencies
    array([1.   , 0.1  , 0.01 , 0.001])
    """

    factor: checks.PositiveNumber
    original_max_position: checks.PositionCount

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor 1."""
        seq_len = checks.position_count("seq_len", seq_len)
        ratio = max(seq_len, self.original_max_position) / self.original_max_position
        return _with_enlarged_base(1 + self.factor * (ratio - 1), dim, base, seq_len), 1.0


def _with_enlarged_base(factor: float, dim: int, base: float, seq_len: int) -> HostArray:
    """Return the frequencies of a larger base, with the lowest one divided by `factor`."""
    dim = 2 * _unscaled(dim, base, seq_len).size
    if dim <= 2:
        raise wrong_value("dim", "be above 2 for NTK scaling", dim)
    with ignore_fp_errors():
        enlarged = float(base * np.float64(factor) ** (dim / (dim - 2)))
    if not 0 < enlarged < math.inf:
        raise wrong_value("factor", f"keep `base` = {base} a finite number above 0", factor)
    return _unscaled(dim, enlarged, seq_len)


@dataclass(frozen=True)
class ProportionalScaling(checks.CheckedDataclass):
    """Proportional scaling, which sets all but the highest frequencies to zero.

    Unlike a smaller `rotary_dim`, it does not change the highest frequencies.

    Parameters
    ----------
    partial_rotary_factor : float
        Fraction of the frequencies that are not zero, above 0 and at most 1.
    factor : float, default 1.0
        Divisor of the frequencies, positive.

    References
    ----------
    The type "proportional" of transformers.

    Examples
    --------
    >>> ProportionalScaling(0.5)(8, 10_000, 1024)
    (array([1. , 0.1, 0. , 0. ]), 1.0)
    """

    partial_rotary_factor: checks.PositiveNumber
    factor: checks.PositiveNumber = 1.0

    def __post_init__(self) -> None:
        self._check_fields()
        if self.partial_rotary_factor > 1:
            raise wrong_value("partial_rotary_factor", "be at most 1", self.partial_rotary_factor)

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor 1."""
        frequencies = _unscaled(dim, base, seq_len) / self.factor
        count = int(self.partial_rotary_factor * frequencies.size)
        return np.where(np.arange(frequencies.size) < count, frequencies, 0.0), 1.0


@dataclass(frozen=True)
class YaRNScaling(checks.CheckedDataclass):
    """YaRN, which divides low frequencies by a factor and does not change high ones.

    Parameters
    ----------
    factor : float
        Ratio of the new context length to the old one, positive.
    original_max_position : int
        Sequence length in training, positive.
    beta_fast, beta_slow : float, default 32 and 1
        Frequencies with more than `beta_fast` cycles in the training length are unchanged.
        Frequencies with fewer than `beta_slow` are divided, and the rest are interpolated.
    attention_factor : float, optional
        Factor on cosine and sine; if None, ``0.1 * ln(factor) + 1``.
    mscale, mscale_all_dim : float, optional
        If neither is None or 0, the attention factor is the ratio of
        ``0.1 * mscale * ln(factor) + 1`` for the two, as in DeepSeek's models. Models with
        `mscale_all_dim` also multiply their scores: the `scale` of their attention is
        ``(0.1 * mscale_all_dim * ln(factor) + 1)**2 / sqrt(head)``.
    truncate : bool, default True
        Whether to round the index of the frequency of `beta_fast` down and of `beta_slow` up.

    References
    ----------
    Peng et al. (2024), YaRN, section 3.2 and equation 22.

    Examples
    --------
    >>> frequencies, factor = YaRNScaling(4.0, 32_768)(128, 1_000_000, 131_072)
    >>> round(factor, 4)
    1.1386
    """

    factor: checks.PositiveNumber
    original_max_position: checks.PositionCount
    beta_fast: checks.PositiveNumber = 32.0
    beta_slow: checks.PositiveNumber = 1.0
    attention_factor: checks.OptionalPositiveNumber = None
    mscale: Annotated[float | None, checks.optional(_zero_or_positive)] = None
    mscale_all_dim: Annotated[float | None, checks.optional(_zero_or_positive)] = None
    truncate: Annotated[bool, checks.boolean] = True

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor."""
        frequencies = _unscaled(dim, base, seq_len)
        dim = 2 * frequencies.size
        if not base > 1:
            raise wrong_value("base", "be above 1 for YaRN", base)
        low, high = self._index(self.beta_fast, dim, base), self._index(self.beta_slow, dim, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        if low == high:
            high += 0.001
        ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        return frequencies / self.factor * ramp + frequencies * (1 - ramp), self._attention_factor()

    def _index(self, cycles: float, dim: int, base: float) -> float:
        """Return the real index of the frequency with `cycles` in the training length."""
        # The logarithm of the wavelength, which may overflow or underflow.
        logarithm = math.log(self.original_max_position / (2 * math.pi)) - math.log(cycles)
        return dim * logarithm / (2 * math.log(base))

    def _attention_factor(self) -> float:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.mscale and self.mscale_all_dim:
            mscale, mscale_all = self.mscale, self.mscale_all_dim
            return yarn_magnitude(self.factor, mscale) / yarn_magnitude(self.factor, mscale_all)
        return yarn_magnitude(self.factor, 1.0)


def yarn_magnitude(factor: float, mscale: float) -> float:
    """Return the factor on queries and keys of a context that is longer by a factor."""
    return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1.0


@dataclass(frozen=True)
class Llama3Scaling(checks.CheckedDataclass):
    """The scaling of Llama 3.1: low frequencies are divided by a factor, high ones kept.

    Parameters
    ----------
    factor : float
        Divisor of low frequencies, positive.
    low_freq_factor, high_freq_factor : float
        Frequencies with fewer than `low_freq_factor` cycles in the training length are divided.
        Frequencies with more than `high_freq_factor` are unchanged, and the rest are interpolated.
        Positive, and the second not below the first.
    original_max_position : int
        Sequence length in training, positive.

    References
    ----------
    Grattafiori et al. (2024), The Llama 3 Herd of Models; the published code of Llama 3.1.

    Examples
    --------
    >>> frequencies, _ = Llama3Scaling(8.0, 1.0, 4.0, 8192)(128, 500_000, 131_072)
    >>> float(frequencies[0]), round(float(frequencies[-1]) / 500_000 ** (-126 / 128), 6)
    (1.0, 0.125)
    """

    factor: checks.PositiveNumber
    low_freq_factor: checks.PositiveNumber
    high_freq_factor: checks.PositiveNumber
    original_max_position: checks.PositionCount

    def __post_init__(self) -> None:
        self._check_fields()
        low, high = self.low_freq_factor, self.high_freq_factor
        if high < low:
            raise wrong_value("high_freq_factor", f"be `low_freq_factor` = {low} or more", high)

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor 1."""
        frequencies = _unscaled(dim, base, seq_len)
        cycles = self.original_max_position * frequencies / (2 * math.pi)
        ramp = np.interp(cycles, [self.low_freq_factor, self.high_freq_factor], [0.0, 1.0])
        return frequencies * ramp + frequencies / self.factor * (1 - ramp), 1.0


@dataclass(frozen=True)
class LongRoPEScaling(checks.CheckedDataclass):
    """LongRoPE, with a divisor of each frequency, for short and for long contexts.

    Parameters
    ----------
    short_factor, long_factor : sequence of float
        Divisors of the dim / 2 frequencies, positive; the second list applies to
        sequences longer than in training.
    original_max_position : int
        Sequence length in training, positive.
    factor : float, optional
        Ratio of the new context length to the old one, which determines the factor on cosine and
        sine; if None, the ratio of the sequence length to the training length.
    attention_factor : float, optional
        Factor on cosine and sine; if None, computed from `factor`.

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
    original_max_position: checks.PositionCount
    factor: checks.OptionalPositiveNumber = None
    attention_factor: checks.OptionalPositiveNumber = None

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the attention factor."""
        frequencies = _unscaled(dim, base, seq_len)
        name = "long_factor" if seq_len > self.original_max_position else "short_factor"
        divisors = np.asarray(getattr(self, name), dtype=np.float64)
        if len(divisors) != dim // 2:
            raise wrong_value(name, f"have {dim // 2} numbers, half of `dim`", len(divisors))
        return frequencies / divisors, self._attention_factor(seq_len)

    def _attention_factor(self, seq_len: int) -> float:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        original = self.original_max_position
        factor = seq_len / original if self.factor is None else self.factor
        if factor <= 1:
            return 1.0
        if original == 1:
            requirement = "be 2 or more, or `attention_factor` given: its logarithm divides"
            raise wrong_value("original_max_position", requirement, original)
        return math.sqrt(1 + math.log(factor) / math.log(original))


def checked_scaling(scaled: Any, dim: int) -> tuple[list[float], float]:
    """Check the result of a scaling and return its frequencies and attention factor."""
    try:
        frequencies, factor = scaled
        numbers = [float(frequency) for frequency in frequencies]
    except (TypeError, ValueError):
        raise wrong_type(
            "scaling", "return frequencies and a factor", format_value(scaled)
        ) from None
    if len(numbers) != dim // 2 or not all(map(math.isfinite, numbers)):
        raise wrong_value("scaling", f"return {dim // 2} finite frequencies", numbers)
    return numbers, float(checks.positive_number("attention_factor", factor))


def scaled_frequencies(
    scaling: Any, dim: int, base: float, seq_len: int
) -> tuple[list[float], float]:
    """Return the checked frequencies and the attention factor of a scaling."""
    if not callable(scaling) or isinstance(scaling, type):
        requirement = "be a function such as LinearScaling(4.0), or None"
        hint = " `RoPE.from_hf_config` reads a configuration." * isinstance(scaling, dict)
        raise wrong_type("scaling", requirement, format_value(scaling), hint)
    name = next((name for name, kind in SCALINGS.items() if type(scaling) is kind), None)
    if name is not None:
        options = tuple(getattr(scaling, field.name) for field in fields(scaling))
        return _scaled_frequencies(name, options, dim, base, seq_len)
    return checked_scaling(scaling(dim, base, seq_len), dim)


@cached_constant
def _scaled_frequencies(
    name: str, options: tuple[Any, ...], dim: int, base: float, seq_len: int
) -> tuple[list[float], float]:
    with ignore_fp_errors():  # an error below
        scaled = SCALINGS[name](*options)(dim, base, seq_len)
    return checked_scaling(scaled, dim)


# By the names in configurations of Hugging Face.
SCALINGS: dict[str, Any] = {
    "linear": LinearScaling,
    "ntk": NTKScaling,
    "dynamic": DynamicNTKScaling,
    "yarn": YaRNScaling,
    "llama3": Llama3Scaling,
    "longrope": LongRoPEScaling,
    "proportional": ProportionalScaling,
}
