"""Random Fourier features: encodings whose scalar products approach a kernel."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import partial
from math import sqrt
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

from positional_embeddings.angles.cos_sin import (
    MOST_COORDINATES,
    cos_sin_of_sum,
    fill_cos_sin_of_sum,
)
from positional_embeddings.angles.frequencies import DIGITS, Frequencies
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.errors import shown, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, HostArray, is_host_array, np
from positional_embeddings.arrays.space import space_of
from positional_embeddings.encodings.fourier import is_sequence, one_or_each
from positional_embeddings.encodings.sinusoidal import arranged

Kernel = Literal["gaussian", "matern", "laplace", "periodic"]

# Frequencies in cycles stay below the range of a float32, also in heavy tails.
_HIGHEST = 2.0**100
_SHORTEST = 2.0**-50
# Shortest length scale in periods: the Poisson variates then fit 64 bits.
_SHORTEST_OF_A_PERIOD = 2.0**-30
# Below, the tails of the frequencies are too heavy for floating-point numbers.
_LEAST_NU = 0.1


class _Spectrum(NamedTuple):
    """The distribution of frequencies that a kernel is the Fourier transform of."""

    kernel: str
    length_scales: tuple[float, ...]
    nu: float | None
    periods: tuple[float, ...] | None
    orthogonal: bool


def random_fourier_encoding(
    x: Array,
    /,
    dim: int,
    *,
    length_scale: float | Sequence[float] | HostArray = 1.0,
    kernel: Kernel = "gaussian",
    nu: float | None = None,
    period: float | Sequence[float] | HostArray | None = None,
    orthogonal: bool = False,
    rng: Any,
    dtype: Dtype | None = None,
) -> Any:
    r"""Return sines and cosines of coordinates at random frequencies: random Fourier features.

    The scalar product of the encodings of two points approaches a kernel of their difference.

    Parameters
    ----------
    x : array, shape (coordinates, ...)
        Integer or real coordinates of points, along axis 0: pass ``t[None, :]`` for a series
        `t` of times. Real ones beyond 2**63 give NaN.
    dim : int
        Number of features, positive and even, at most 2**20.
    length_scale : float, or list, tuple or 1-D NumPy array of floats, default 1.0
        Length :math:`l` over which the kernel falls, in the unit of `x`, or one for each
        coordinate; 2**-50 or more. With the kernel "periodic" it has no unit, and is 2**-30
        or more. A length scale that is learned divides `x` instead.
    kernel : {"gaussian", "matern", "laplace", "periodic"}, default "gaussian"
        With the difference :math:`d` of two points and :math:`r^2 = \sum_i (d_i / l_i)^2`:

        - "gaussian": :math:`\exp(-r^2 / 2)`;
        - "matern": :math:`2^{1-\nu} / \Gamma(\nu) \, s^\nu K_\nu(s)` of
          :math:`s = \sqrt{2 \nu} \, r`;
        - "laplace": :math:`\exp(-\sum_i |d_i| / l_i)`;
        - "periodic": :math:`\exp(-2 \sum_i \sin^2(\pi d_i / p_i) / l_i^2)`.
    nu : float, optional
        Smoothness :math:`\nu` of the kernel "matern", 0.1 or more; 1.5 if None.
    period : float, or list, tuple or 1-D NumPy array of floats, optional
        Period :math:`p` of the kernel "periodic", which needs it, in the unit of `x`, or one
        for each coordinate; 2**-50 or more.
    orthogonal : bool, default False
        Draw the frequencies of "gaussian" or "matern" in orthogonal directions, as many at a
        time as there are coordinates, for a smaller error. One coordinate has but one direction.
    rng : int or numpy.random.Generator
        Seed or source of the frequencies. Points that are compared, such as queries and keys,
        need the same seed; a generator gives other frequencies in each call.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real coordinates, or
        the library's default for integer ones.

    Returns
    -------
    array, shape (dim, *x.shape[1:])
        :math:`\sqrt{2/\mathrm{dim}} \, (\sin w_j x, \cos w_j x)` of each of dim / 2 frequencies,
        side by side, in the library and on the device of `x`. The vector of each point has
        length 1.

    Raises
    ------
    TypeError
        If `x` is not an array of numbers, `rng` is None, or an option is of the wrong kind.
    ValueError
        If `x` has no coordinates, a number is out of range, or an option is given that the
        kernel does not use.

    Notes
    -----
    A scalar product is the mean of dim / 2 cosines, which lie between -1 and 1. Its
    expectation is the kernel. If the cosines are independent, that is, not `orthogonal`, its
    standard deviation is at most :math:`\sqrt{2/\mathrm{dim}}`, and by Hoeffding's inequality
    it is off by :math:`t` or more with a probability of at most
    :math:`2 \exp(-\mathrm{dim}\,t^2/4)`.

    Frequencies are drawn in float64 on the host: one seed gives the same ones in every library.
    Phases are computed in exact parts, for any number of coordinates, and rounded once: a
    feature is off by at most 2.5 roundings, in float64 :math:`2.5 \cdot 2^{-53}`, times
    :math:`\sqrt{2/\mathrm{dim}}`, however large `x` is. With "periodic", points a whole number of
    periods apart have the same features, as far as their coordinates are exact.

    References
    ----------
    Rahimi and Recht (2007), Random Features for Large-Scale Kernel Machines, algorithm 1.
    Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 4.2.1 and
    equation 4.31. Skellam (1946), for the distribution of the harmonics of "periodic".
    Yu et al. (2016), Orthogonal Random Features, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0, 0.5, 1.0], [0.0, 0.0, 1.0]])  # three points of a plane
    >>> z = random_fourier_encoding(x, 4096, length_scale=2.0, rng=0)
    >>> z.shape
    (4096, 3)
    >>> (z.T @ z).round(1)
    array([[1. , 1. , 0.8],
           [1. , 1. , 0.9],
           [0.8, 0.9, 1. ]])
    """
    xp = namespace.namespace_of(x=x)
    checks.real("x", x, xp)
    if not x.ndim:
        raise wrong_value("x", "have its coordinates on axis 0", "shape ()", " Pass x[None].")
    count = axes.length(x, 0, "x")
    if not count:
        raise wrong_value("x", "have one coordinate or more on axis 0", f"shape {tuple(x.shape)}")
    dim = checks.feature_count("dim", dim, even=True)
    spectrum = _spectrum(kernel, length_scale, nu, period, orthogonal, count)
    digits = _digits(spectrum, dim // 2, rng)
    dtype = namespace.feature_dtype(x, dtype, xp)
    coordinates = [x[i, ...] for i in range(count)]
    frequencies = [Frequencies(of_coordinate) for of_coordinate in digits]
    work, amplitude = namespace.compute_dtype(dtype, xp), sqrt(2 / dim)
    if is_host_array(x) and count <= MOST_COORDINATES:
        features = np.empty((dim, x[0].size), dtype=dtype)
        points = np.reshape(x, (count, x[0].size))
        fill_cos_sin_of_sum(points, frequencies, amplitude, features[1::2], features[::2])
        return np.reshape(features, (dim, *x.shape[1:]))
    cos, sin = cos_sin_of_sum(coordinates, frequencies, work, space_of(x=x), amplitude)
    return xp.astype(arranged(cos, sin, dim, "interleaved", xp), dtype, copy=False)


def _spectrum(
    kernel: Any, length_scale: Any, nu: Any, period: Any, orthogonal: Any, count: int
) -> _Spectrum:
    """Return what the frequencies are drawn from, after checking the options."""
    checks.choice("kernel", kernel, get_args(Kernel))
    unused = f"be left out with the kernel {kernel!r}"
    if nu is not None and kernel != "matern":
        raise wrong_value("nu", unused, shown(nu))
    if period is not None and kernel != "periodic":
        raise wrong_value("period", unused, shown(period))
    if checks.boolean("orthogonal", orthogonal) and kernel not in ("gaussian", "matern"):
        raise wrong_value("orthogonal", unused, "True")
    periods = None
    if kernel == "matern":
        nu = 1.5 if nu is None else _at_least("nu", nu, _LEAST_NU, "0.1")
    elif kernel == "periodic":
        if period is None:
            raise wrong_value("period", "be given with the kernel 'periodic'", "None")
        periods = _by_coordinate("period", period, count, _SHORTEST, "2**-50")
    limits = _SHORTEST_OF_A_PERIOD, "2**-30"
    limits = limits if kernel == "periodic" else (_SHORTEST, "2**-50")
    length_scales = _by_coordinate("length_scale", length_scale, count, *limits)
    return _Spectrum(kernel, length_scales, nu, periods, orthogonal)


def _by_coordinate(
    name: str, value: Any, count: int, least: float, shown_least: str
) -> tuple[float, ...]:
    """Return a positive number for each coordinate, all the same if one is given."""
    check = partial(_at_least, least=least, shown_least=shown_least)
    numbers = one_or_each(name, value, check)
    if not is_sequence(value):
        numbers *= count
    if len(numbers) != count:
        what = f"be a number, or {count}, one for each coordinate on axis 0 of `x`"
        raise wrong_value(name, what, numbers)
    return tuple(numbers)


def _at_least(name: str, value: Any, least: float, shown_least: str) -> float:
    number = checks.positive_number(name, value)
    if number < least:
        raise wrong_value(name, f"be {shown_least} or more", number)
    return number


def _digits(spectrum: _Spectrum, count: int, rng: Any) -> tuple[str, ...]:
    """Return `count` frequencies of each coordinate as the text that `Frequencies` keeps."""
    if rng is None:
        what = "be a non-negative integer seed or a numpy.random.Generator"
        hint = " Pass one seed for all points that are compared, such as queries and keys."
        raise wrong_type("rng", what, "None", hint)
    if isinstance(rng, Integral) and namespace.is_real_number(rng):
        return _drawn_from_seed(count, int(rng), *spectrum)
    return _drawn(spectrum, count, namespace.random_generator(rng))


@namespace.host_constant
def _drawn_from_seed(count: int, seed: int, *spectrum: Any) -> tuple[str, ...]:
    return _drawn(_Spectrum(*spectrum), count, namespace.random_generator(seed))


def _drawn(spectrum: _Spectrum, count: int, generator: Any) -> tuple[str, ...]:
    if spectrum.periods is not None:
        rows = _harmonics(spectrum, count, generator).T.tolist()
        with localcontext(DIGITS):
            return tuple(
                " ".join(str(Decimal(harmonic) / Decimal(period)) for harmonic in row)
                for row, period in zip(rows, spectrum.periods, strict=True)
            )
    rows = _cycles(spectrum, count, generator).T.tolist()
    return tuple(" ".join(str(Decimal(cycles)) for cycles in row) for row in rows)


def _harmonics(spectrum: _Spectrum, count: int, generator: Any) -> HostArray:
    """Draw integer frequencies, in cycles per period: (frequency, coordinate).

    The weight of frequency k is exp(-a) I_k(a), with a = 1 / l**2 and a modified Bessel
    function, which is Skellam's distribution, of the difference of two Poisson variates
    of mean a / 2.
    """
    mean = (1 / _array(spectrum.length_scales)) ** 2 / 2
    shape = (count, len(spectrum.length_scales))
    difference: HostArray = generator.poisson(mean, shape) - generator.poisson(mean, shape)
    return difference


def _cycles(spectrum: _Spectrum, count: int, generator: Any) -> HostArray:
    """Draw real frequencies, in cycles per unit of `x`: (frequency, coordinate)."""
    coordinates = len(spectrum.length_scales)
    if spectrum.kernel == "laplace":
        radians = generator.standard_cauchy((count, coordinates))
    elif spectrum.orthogonal:
        radians = _orthogonal_normals(count, coordinates, generator)
    else:
        radians = generator.standard_normal((count, coordinates))
    if spectrum.nu is not None:
        # A multivariate t of 2 nu degrees of freedom: chi-squared over them is gamma over nu.
        radians = radians / np.sqrt(generator.standard_gamma(spectrum.nu, (count, 1)) / spectrum.nu)
    cycles = radians / (2 * np.pi * _array(spectrum.length_scales))
    bounded: HostArray = np.clip(cycles, -_HIGHEST, _HIGHEST)
    return bounded


def _orthogonal_normals(count: int, coordinates: int, generator: Any) -> HostArray:
    """Draw normal vectors; as many as there are coordinates are orthogonal at a time."""
    blocks = -(-count // coordinates)
    square = (blocks, coordinates, coordinates)
    q, r = np.linalg.qr(generator.standard_normal(square))
    # With a positive diagonal of r, rotations are uniform (Mezzadri 2007).
    signs = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    lengths = np.sqrt(generator.chisquare(coordinates, (blocks, coordinates, 1)))
    vectors = (lengths * q * signs[:, None, :]).reshape(-1, coordinates)
    chosen: HostArray = vectors[:count]
    return chosen


def _array(numbers: tuple[float, ...]) -> HostArray:
    array: HostArray = np.asarray(numbers, dtype=np.float64)
    return array
