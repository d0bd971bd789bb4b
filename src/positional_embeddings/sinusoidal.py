"""Sinusoidal encodings of positions, in the families that models use."""

from decimal import Decimal, localcontext
from math import sqrt
from typing import Any, Literal, NamedTuple

from positional_embeddings import _checks
from positional_embeddings._namespace import (
    Array,
    Dtype,
    Namespace,
    compute_dtype,
    default_float,
    default_integer,
    device_of,
    float_dtype,
    host_constant,
    is_real_floating,
    namespace_of,
    shown,
    widest_float,
)
from positional_embeddings.angles import cos_sin
from positional_embeddings.frequencies import DIGITS, TWO_PI, turns, turns_to_endpoint

Arrangement = Literal["interleaved", "concatenated"]
Preset = Literal["vaswani", "marian", "tensor2tensor", "whisper", "detr", "mlx"]
# So far a start and a position may add up.
_FARTHEST_START = 2**60
ARRANGEMENTS = ("interleaved", "concatenated")


class _Family(NamedTuple):
    """What sets one family of sinusoids apart."""

    arrangement: str = "interleaved"
    endpoint: bool = False
    cos_first: bool = False
    full_turns: bool = False
    amplitude: float = 1.0
    start: int = 0


def sinusoidal_encoding(
    positions: Array,
    /,
    dim: int,
    *,
    base: float = 10_000,
    arrangement: Arrangement | None = None,
    endpoint: bool | None = None,
    cos_first: bool | None = None,
    full_turns: bool | None = None,
    amplitude: float | None = None,
    start: int | None = None,
    length: float | None = None,
    preset: Preset | None = None,
    dtype: Dtype | None = None,
) -> Any:
    r"""Return sines and cosines of positions, one frequency for each pair of features.

    The default is the encoding of Vaswani et al. A `preset` names another family;
    every option that is given goes before it.

    Parameters
    ----------
    positions : array
        Integer or real positions of any shape, sign and order; real ones beyond 2**63
        give NaN.
    dim : int
        Number of features, positive, at most 2**20. An odd number ends with a sine of its own, or
        with zeros where `endpoint` is True.
    base : float, default 10_000
        Base of the frequencies, positive.
    arrangement : {"interleaved", "concatenated"}, optional
        Sine and cosine of each frequency side by side (default), or all sines and
        then all cosines.
    endpoint : bool, optional
        Frequencies :math:`\mathrm{base}^{-i/(n-1)}` for n = dim // 2, so that the
        last is 1 / base, in place of :math:`\mathrm{base}^{-2i/\mathrm{dim}}`
        (default).
    cos_first : bool, optional
        Each cosine, or all cosines, before the sines; False by default.
    full_turns : bool, optional
        Multiply the angles by :math:`2\pi`: frequencies are then turns per position.
        False by default.
    amplitude : float, optional
        Factor on sines and cosines, positive, 1 by default.
    start : int, optional
        Added to every position, 0 by default.
    length : float, optional
        Length that makes a full turn at frequency 1: angles are multiplied by
        :math:`2\pi / \mathrm{length}`. Excludes `full_turns`.
    preset : {"vaswani", "marian", "tensor2tensor", "whisper", "detr", "mlx"}, optional
        "vaswani": the default. "marian": concatenated. "tensor2tensor", "whisper":
        concatenated, with `endpoint`. "mlx": concatenated, with `endpoint` and
        amplitude :math:`\sqrt{2/\mathrm{dim}}`. "detr": positions from 1 and a
        `length` (needed), to which DETR adds 1e-6.
    dtype : dtype, optional
        Real floating-point dtype of the result. Where it is None, that of real
        positions, or the library's default for integer ones.

    Returns
    -------
    array, shape (dim, *positions.shape)
        :math:`\sin(p\,\theta_i)` and :math:`\cos(p\,\theta_i)`, in the library and on
        the device of `positions`.

    Raises
    ------
    TypeError
        If `positions` is not an array of numbers, or an option is of the wrong kind.
    ValueError
        If a number is not positive, a choice is unknown, or options exclude each
        other.

    References
    ----------
    Vaswani et al. (2017), Attention Is All You Need, section 3.5; Vaswani et al.
    (2018), Tensor2Tensor; Radford et al. (2023), Whisper, section 2.2; Carion et al.
    (2020), DETR, appendix A.4.

    Examples
    --------
    >>> import numpy as np
    >>> sinusoidal_encoding(np.arange(3), 4).round(2)
    array([[ 0.  ,  0.84,  0.91],
           [ 1.  ,  0.54, -0.42],
           [ 0.  ,  0.01,  0.02],
           [ 1.  ,  1.  ,  1.  ]])

    Positions may be real, such as times in years:

    >>> sinusoidal_encoding(np.asarray([1958.24, 2001.99]), 6, base=100).shape
    (6, 2)
    >>> sinusoidal_encoding(np.arange(1500), 384, preset="whisper").shape
    (384, 1500)
    """
    xp = namespace_of(positions=positions)
    _checks.real("positions", positions, xp)
    dim = _checks.feature_count("dim", dim)
    base = _checks.positive_number("base", base)
    given = {
        "arrangement": arrangement,
        "endpoint": endpoint,
        "cos_first": cos_first,
        "full_turns": full_turns,
        "amplitude": amplitude,
        "start": start,
    }
    family = _family(preset, dim, {name: o for name, o in given.items() if o is not None})
    scale = _angle_scale(family, length, preset)
    on = device_of(positions)
    default = positions.dtype if is_real_floating(positions.dtype, xp) else default_float(xp, on)
    dtype = float_dtype(dtype, default, xp, on)
    frequencies = (
        turns_to_endpoint(dim // 2, base, scale) if family.endpoint else turns(dim, base, scale)
    )
    work = compute_dtype(dtype, xp)
    cos, sin = cos_sin(_shifted(positions, family.start, xp), frequencies, work, xp)
    if family.amplitude != 1:
        cos, sin = family.amplitude * cos, family.amplitude * sin
    encoding = arranged(cos, sin, dim, family.arrangement, xp, cos_first=family.cos_first)
    return xp.astype(encoding, dtype, copy=False)


def arranged(
    cos: Any, sin: Any, dim: int, arrangement: str, xp: Namespace, *, cos_first: bool = False
) -> Any:
    """Put rows of cosines and sines into one array of `dim` rows; what lacks is zeros."""
    on, count = device_of(sin), sin.shape[0]
    first, second = (cos, sin) if cos_first else (sin, cos)
    rows = range(min(dim, 2 * count))
    interleaved = arrangement == "interleaved"
    frequency = [i // 2 if interleaved else i % count for i in rows]
    is_first = [i % 2 == 0 if interleaved else i < count for i in rows]
    padding = [0] * (dim - len(rows))
    across = (..., *(None,) * (sin.ndim - 1))
    order = xp.asarray(frequency + padding, dtype=default_integer(xp, on), device=on)
    choose = xp.asarray(is_first + [False] * len(padding), dtype=xp.bool, device=on)[across]
    both = xp.where(choose, xp.take(first, order, axis=0), xp.take(second, order, axis=0))
    if not padding:
        return both
    real = xp.asarray([True] * len(rows) + [False] * len(padding), dtype=xp.bool, device=on)
    return xp.where(real[across], both, xp.asarray(0.0, dtype=both.dtype, device=on))


def _family(preset: str | None, dim: int, options: dict[str, Any]) -> _Family:
    """Return the family that a preset and the options make."""
    to_endpoint = _Family("concatenated", endpoint=True)
    presets = {
        "vaswani": _Family(),
        "marian": _Family("concatenated"),
        "tensor2tensor": to_endpoint,
        "whisper": to_endpoint,
        "detr": _Family(start=1),
        "mlx": to_endpoint._replace(amplitude=sqrt(2 / dim)),
    }
    if preset is not None:
        _checks.choice("preset", preset, tuple(presets))
    family = presets[preset or "vaswani"]._replace(**options)
    _checks.choice("arrangement", family.arrangement, ARRANGEMENTS)
    for name in ("endpoint", "cos_first", "full_turns"):
        _checks.boolean(name, getattr(family, name))
    _checks.positive_number("amplitude", family.amplitude)
    if abs(_checks.integer("start", family.start)) > _FARTHEST_START:
        message = f"`start` must be within 2**60 positions, got {shown(family.start)}."
        raise ValueError(message)
    if family.endpoint and dim < 2:
        message = f"`dim` must be 2 or more with `endpoint`, got {dim}."
        raise ValueError(message)
    return family


def _angle_scale(family: _Family, length: float | None, preset: str | None) -> str:
    """Return the digits of the factor on the angles."""
    if length is None:
        if preset == "detr":
            message = "`length` must be given with the preset 'detr', got None."
            raise ValueError(message)
        return str(TWO_PI) if family.full_turns else "1"
    length = _checks.positive_number("length", length)
    if family.full_turns:
        message = f"`length` must be left out with `full_turns`, got {length}."
        raise ValueError(message)
    return _full_turn_over(length, "1e-6" if preset == "detr" else "0")


@host_constant
def _full_turn_over(length: float, more: str) -> str:
    with localcontext(DIGITS):
        return str(TWO_PI / (Decimal(length) + Decimal(more)))


def _shifted(positions: Any, start: int, xp: Namespace) -> Any:
    if start == 0:
        return positions
    if is_real_floating(positions.dtype, xp):
        wide = widest_float(xp, device_of(positions))
    else:
        wide = default_integer(xp, device_of(positions))
    return xp.astype(positions, wide, copy=False) + start
