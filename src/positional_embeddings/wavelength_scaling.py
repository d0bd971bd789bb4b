"""Scaling of rotary frequencies that treats short and long wavelengths differently.

Frozen dataclasses and functions, as `scaling` describes them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from positional_embeddings import _checks
from positional_embeddings._namespace import host, shown
from positional_embeddings.frequencies import inverse_frequencies
from positional_embeddings.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Proportional,
    Scaled,
    check_call,
    set_positive,
    set_size,
)


@dataclass(frozen=True)
class YaRN:
    """Yet another RoPE extension: low frequencies divided by a factor, high ones kept.

    Parameters
    ----------
    factor : float
        How many times longer the context becomes, positive.
    original_max_position : int
        Length that the model was trained with, positive.
    beta_fast, beta_slow : float, default 32 and 1
        Turns within the original length above which a frequency is kept, and below
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
    >>> frequencies, factor = YaRN(4.0, 32_768)(128, 1_000_000, 131_072)
    >>> round(factor, 4)
    1.1386
    """

    factor: float
    original_max_position: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        set_positive(self, "factor", "beta_fast", "beta_slow")
        set_size(self, "original_max_position")
        if self.attention_factor is not None:
            set_positive(self, "attention_factor")
        for name in ("mscale", "mscale_all_dim"):
            given = getattr(self, name)
            if given is not None and _checks.finite_number(name, given) != 0:
                set_positive(self, name)
        _checks.boolean("truncate", self.truncate)

    def __call__(self, dim: int, base: float, seq_len: int, /) -> Scaled:
        """Return frequencies (dim / 2,) and the factor on cosine and sine."""
        check_call(dim, base, seq_len)
        if not base > 1:
            message = f"`base` must be above 1 for YaRN, got {base}."
            raise ValueError(message)
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
class Llama3:
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
    >>> frequencies, _ = Llama3(8.0, 1.0, 4.0, 8192)(128, 500_000, 131_072)
    >>> float(frequencies[0]), round(float(frequencies[-1]) / 500_000 ** (-126 / 128), 6)
    (1.0, 0.125)
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int

    def __post_init__(self) -> None:
        set_positive(self, "factor", "low_freq_factor", "high_freq_factor")
        set_size(self, "original_max_position")
        if self.high_freq_factor < self.low_freq_factor:
            message = (
                f"`high_freq_factor` must be `low_freq_factor` = {self.low_freq_factor} or more, "
                f"got {self.high_freq_factor}."
            )
            raise ValueError(message)

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
class LongRoPE:
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
    >>> scaling = LongRoPE((1.0, 1.0), (2.0, 4.0), 4096)
    >>> scaling(4, 10_000, 4096), scaling(4, 10_000, 8192)[0]
    ((array([1.  , 0.01]), 1.0), array([0.5   , 0.0025]))
    """

    short_factor: Sequence[float]
    long_factor: Sequence[float]
    original_max_position: int
    factor: float | None = None
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        set_size(self, "original_max_position")
        for name in ("factor", "attention_factor"):
            if getattr(self, name) is not None:
                set_positive(self, name)
        for name in ("short_factor", "long_factor"):
            numbers = getattr(self, name)
            if not isinstance(numbers, list | tuple):
                message = f"`{name}` must be a list or tuple of numbers, got {shown(numbers)}."
                raise TypeError(message)
            checked = tuple(_checks.positive_number(name, number) for number in numbers)
            _checks.set_fields(self, **{name: checked})

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
            message = f"`{name}` must have {dim // 2} numbers, half of `dim`, got {len(divisors)}."
            raise ValueError(message)
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
    "linear": Linear,
    "ntk": NTK,
    "dynamic": DynamicNTK,
    "dynamicntk": DynamicNTK,
    "yarn": YaRN,
    "llama3": Llama3,
    "longrope": LongRoPE,
    "proportional": Proportional,
}


def scaling_to_pass(given: Any) -> str:
    """Return the sentence that tells what to pass in place of a name, a class or a dict."""
    if isinstance(given, Mapping):
        return " RoPE.from_hf_config reads it from a model's configuration."
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    scaling = _BY_NAME.get(name.lower())
    if scaling is None:
        return ""
    needed = [field.name for field in fields(scaling) if field.default is MISSING]
    return f" Pass {scaling.__name__}({', '.join(needed)})."
