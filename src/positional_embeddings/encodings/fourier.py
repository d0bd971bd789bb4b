"""Fourier features: sines and cosines of coordinates at explicit wavelengths."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from math import ldexp
from typing import Literal

from positional_embeddings.angles.frequencies import DIGITS
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray, np
from positional_embeddings.encodings import features
from positional_embeddings.encodings.features import Arrangement, wavelength

Preset = Literal["nerf", "nerf_directions"]
OCTAVES = {"nerf": 10, "nerf_directions": 4}


def fourier_encoding(
    x: AnyArray,
    /,
    wavelengths: float | Sequence[float] | HostArray | None = None,
    *,
    preset: Preset | None = None,
    arrangement: Arrangement = "interleaved",
    dtype: Dtype | None = None,
) -> Array:
    r"""Return sines and cosines of coordinates, one wavelength for each pair of features.

    Parameters
    ----------
    x : array
        Integer or real coordinates of any shape, sign and order. Coordinates beyond 2**63,
        infinity and NaN give NaN.
    wavelengths : float, or list, tuple or 1-D NumPy array of floats, optional
        One to 2**19 wavelengths in the unit of `x`, from 2**-64 to 2**100. Floats are exact
        numbers.
    preset : {"nerf", "nerf_directions"}, optional
        The wavelengths of NeRF, in place of `wavelengths`: 2, 1, 1/2, ... for coordinates
        between -1 and 1; 10 wavelengths for points, 4 for directions.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each wavelength side by side, or all sines and then all cosines.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of a real `x`,
        or the library's default for integers.

    Returns
    -------
    array, shape (2 * len(wavelengths), *x.shape)
        :math:`\sin(2\pi x/\lambda_i)` and :math:`\cos(2\pi x/\lambda_i)`, in the library and
        on the device of `x`. The error is about one unit in the last place, for any magnitude of
        `x`.

    Raises
    ------
    TypeError
        If `x` is not an array of numbers, `wavelengths` are neither a number nor a sequence of
        numbers, or both `wavelengths` and `preset` are None.
    ValueError
        If a wavelength is out of range, both `wavelengths` and `preset` are given, or a choice
        is unknown.

    See Also
    --------
    octave_wavelengths, log_wavelengths : Sequences of wavelengths.
    cyclic_encoding : Harmonics of periods.

    References
    ----------
    Mildenhall et al. (2020), NeRF, section 5.1, equation 4; Tancik et al. (2020), Fourier
    Features Let Networks Learn High Frequency Functions, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> fourier_encoding(np.asarray([0, 1, 2, 3]), [4.0, 8.0]).round(2)
    array([[ 0.  ,  1.  ,  0.  , -1.  ],
           [ 1.  ,  0.  , -1.  ,  0.  ],
           [ 0.  ,  0.71,  1.  ,  0.71],
           [ 1.  ,  0.71,  0.  , -0.71]])

    Points of a NeRF with three coordinates, to 60 features:

    >>> points = np.random.default_rng(0).uniform(-1, 1, (3, 1024))
    >>> fourier_encoding(points, preset="nerf").shape
    (20, 3, 1024)
    """
    backend, dtype = features.real_coordinates("x", x, dtype)
    if preset is not None:
        checks.choice("preset", preset, tuple(OCTAVES))
        checks.omitted(f"with the preset {preset!r}", wavelengths=wavelengths)
        wavelengths = [2.0 / 2**octave for octave in range(OCTAVES[preset])]
    if wavelengths is None:
        raise wrong_type("wavelengths", "be given without a `preset`", "None")
    lengths = features.scalar_or_sequence("wavelengths", wavelengths, wavelength)
    checks.choice("arrangement", arrangement, features.ARRANGEMENTS)
    checks.feature_count("2 * len(wavelengths)", 2 * len(lengths))
    sinusoids = features.Sinusoids(features.cycles("1", *lengths), arrangement)
    return sinusoids.encode("fourier_encoding", x, dtype, backend)


def octave_wavelengths(n: int, *, longest: float = 2.0) -> HostArray:
    """Return wavelengths in octaves: each is half of the one before.

    Parameters
    ----------
    n : int
        Number of wavelengths, positive.
    longest : float, default 2.0
        The first and longest wavelength, from 2**-64 to 2**100. NeRF uses 2, in units of half the
        width of the scene.

    Returns
    -------
    numpy.ndarray, shape (n,)
        ``longest / 2**i``, exact, in float64.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or the last wavelength is below 2**-64.

    References
    ----------
    Mildenhall et al. (2020), NeRF, equation 4.

    Examples
    --------
    >>> octave_wavelengths(4)
    array([2.  , 1.  , 0.5 , 0.25])
    """
    n = checks.feature_count("n", n)
    longest = float(wavelength("longest", longest))
    if ldexp(longest, 1 - n) < features.MIN_WAVELENGTH:
        raise wrong_value("n", f"keep `longest` = {longest} / 2**(n - 1) at 2**-64 or more", n)
    return np.ldexp(longest, -np.arange(n))  # type: ignore[no-any-return]


def log_wavelengths(shortest: float, longest: float, n: int) -> HostArray:
    r"""Return wavelengths in a geometric progression, including both ends.

    Parameters
    ----------
    shortest, longest : float
        First and last wavelength, from 2**-64 to 2**100, such as the distance between neighbours
        and the range of the coordinates.
    n : int
        Number of wavelengths: 2 or more, or 1 if both ends are equal.

    Returns
    -------
    numpy.ndarray, shape (n,)
        :math:`\mathrm{shortest}\,(\mathrm{longest}/\mathrm{shortest})^{i/(n-1)}`, ascending, each
        rounded once to float64.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or `longest` is below `shortest`.

    Examples
    --------
    >>> log_wavelengths(1, 1000, 4)
    array([   1.,   10.,  100., 1000.])
    """
    shortest = float(wavelength("shortest", shortest))
    longest = float(wavelength("longest", longest))
    n = checks.feature_count("n", n)
    if longest < shortest:
        raise wrong_value("longest", f"be at least `shortest` = {shortest}", longest)
    if n == 1 and shortest != longest:
        raise wrong_value("n", "be 2 or more if `shortest` and `longest` differ", n)
    with localcontext(DIGITS):
        ratio = (Decimal(longest) / Decimal(shortest)).ln()
        steps = [(ratio * i / max(n - 1, 1)).exp() for i in range(n)]
        lengths = [float(Decimal(shortest) * step) for step in steps]
    return np.asarray(lengths, dtype=np.float64)  # type: ignore[no-any-return]
