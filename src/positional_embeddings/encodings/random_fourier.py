"""Random Fourier features: encodings whose scalar products approximate a kernel."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import partial
from math import sqrt
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

from positional_embeddings.angles.frequencies import DIGITS
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.errors import wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, HostArray, np
from positional_embeddings.encodings import features

SpectralKernel = Literal["gaussian", "matern", "laplace", "cauchy", "periodic"]

# A longer first axis is more likely the samples of a table.
_MAX_COORDINATES = 2**8

# Cycles per unit; in heavy tails, frequencies are clipped to the range of float32.
_MAX_FREQUENCY = 2.0**100


def random_fourier_encoding(
    x: AnyArray,
    /,
    dim: int,
    *,
    length_scale: float | Sequence[float] | HostArray = 1.0,
    kernel: SpectralKernel = "gaussian",
    nu: float | None = None,
    period: float | Sequence[float] | HostArray | None = None,
    orthogonal: bool = False,
    rng: Any,
    dtype: Dtype | None = None,
) -> Array:
    r"""Return random Fourier features: sines and cosines of coordinates at random frequencies.

    The scalar product of the encodings of two points approximates a kernel of their difference.

    Parameters
    ----------
    x : array, shape (coordinates, ...)
        Integer or real coordinates of points, along axis 0: pass ``t[None, :]`` for a series
        `t` of times, and ``x.T`` of a table. Real coordinates beyond 2**63 give NaN. More than 256
        coordinates need a `length_scale` for each.
    dim : int
        Number of features, positive and even, at most 2**20.
    length_scale : float, or list, tuple or 1-D NumPy array of floats, default 1.0
        Length scale :math:`l` of the kernel, in the unit of `x`, for all coordinates or each;
        2**-50 or more. With the kernel "periodic" it has no unit, and is 2**-30 or more. Divide `x`
        by a learned length scale instead.
    kernel : {"gaussian", "matern", "laplace", "cauchy", "periodic"}, default "gaussian"
        With the difference :math:`d` of two points and :math:`r^2 = \sum_i (d_i / l_i)^2`:

        - "gaussian": :math:`\exp(-r^2 / 2)`;
        - "matern": :math:`2^{1-\nu} / \Gamma(\nu) \, s^\nu K_\nu(s)` of
          :math:`s = \sqrt{2 \nu} \, r`;
        - "laplace": :math:`\exp(-\sum_i |d_i| / l_i)`;
        - "cauchy": :math:`\prod_i 1 / (1 + (d_i / l_i)^2)`;
        - "periodic": :math:`\exp(-2 \sum_i \sin^2(\pi d_i / p_i) / l_i^2)`.
    nu : float, optional
        Smoothness :math:`\nu` of the kernel "matern", 0.1 or more; 1.5 if None.
    period : float, or list, tuple or 1-D NumPy array of floats, optional
        Period :math:`p` of the kernel "periodic", which requires it, in the unit of `x`, for all
        coordinates or each; 2**-50 or more.
    orthogonal : bool, default False
        Whether to draw the frequencies of "gaussian" or "matern" in blocks of orthogonal
        directions, one for each coordinate, for a smaller error. No effect for one coordinate.
    rng : int or numpy.random.Generator
        Seed or generator for drawing the frequencies. Compared points, such as queries and keys,
        need the same seed; a generator draws other frequencies in each call.
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
        If `x` has no coordinates, a number is out of range, or the kernel does not use an option.

    Notes
    -----
    A scalar product is the mean of dim / 2 cosines between -1 and 1. Its expectation is the kernel.
    If the cosines are independent, that is, not `orthogonal`, its standard deviation is at most
    :math:`\sqrt{2/\mathrm{dim}}`. By Hoeffding's inequality, the probability of an error of
    :math:`t` or more is at most :math:`2 \exp(-\mathrm{dim}\,t^2/4)`.

    Frequencies are drawn in float64 on the host: a seed gives the same frequencies in every
    library. Phases are computed in exact parts, for any number of coordinates, and rounded once.
    The error of a feature is at most 2.5 roundings, in float64 :math:`2.5 \cdot 2^{-53}`, times
    :math:`\sqrt{2/\mathrm{dim}}`, for any magnitude of `x`. With "periodic", points that differ
    exactly by an integer number of periods have the same features.

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
    backend, dtype = features.real_coordinates("x", x, dtype)
    count = axes.length(x, 0, "x") if x.ndim else 0
    if not count:
        raise wrong_value("x", "have one coordinate or more on axis 0", f"shape {tuple(x.shape)}")
    if count > _MAX_COORDINATES and namespace.is_real_number(length_scale):
        requirement = (
            f"have at most {_MAX_COORDINATES} coordinates on axis 0 for one `length_scale`"
        )
        hint = " Pass x.T of a table (samples, columns), or a `length_scale` for each coordinate."
        raise wrong_value("x", requirement, f"shape {tuple(x.shape)}", hint)
    dim = checks.feature_count("dim", dim, even=True)
    spectrum = kernel, length_scale, nu, period, orthogonal
    frequencies = drawn_frequencies(count, dim // 2, rng, *spectrum)
    sinusoids = features.Sinusoids(frequencies, amplitude=sqrt(2 / dim), is_random=True)
    return sinusoids.encode("random_fourier_encoding", x, dtype, backend)


def drawn_frequencies(coordinates: int, count: int, rng: Any, *kernel: Any) -> tuple[str, ...]:
    """Check the options of a kernel and return random frequencies of each coordinate."""
    spectrum = _spectrum(coordinates, *kernel)
    if rng is None:
        requirement = "be a non-negative integer seed or a numpy.random.Generator"
        hint = " Pass one seed for all points that are compared, such as queries and keys."
        raise wrong_type("rng", requirement, "None", hint)
    if isinstance(rng, Integral) and namespace.is_real_number(rng):
        return _digits_of_seed(count, int(rng), *spectrum)
    return _drawn_digits(count, rng, *spectrum)


class _Spectrum(NamedTuple):
    """Distribution of frequencies, in cycles per period if there are periods."""

    periods: tuple[float, ...] | None
    kernel: str
    length_scales: tuple[float, ...]
    nu: float | None
    orthogonal: bool


def _spectrum(
    count: int, kernel: Any, length_scale: Any, nu: Any, period: Any, orthogonal: Any
) -> _Spectrum:
    """Check the options of a kernel and return its spectrum."""
    checks.choice("kernel", kernel, get_args(SpectralKernel))
    unused = f"with the kernel {kernel!r}"
    checks.omitted(unused, nu=None if kernel == "matern" else nu)
    checks.omitted(unused, period=None if kernel == "periodic" else period)
    if checks.boolean("orthogonal", orthogonal) and kernel not in ("gaussian", "matern"):
        checks.omitted(unused, orthogonal=True)
    if kernel == "periodic" and period is None:
        raise wrong_value("period", "be given with the kernel 'periodic'", "None")
    if kernel == "matern":
        nu = features.smoothness(nu)
    count_and_noun = count, "coordinate on axis 0 of `x`"
    check, periods = partial(_check_minimum, min_value=2.0**-50, text="2**-50"), None
    if period is not None:
        periods = tuple(features.scalar_or_sequence("period", period, check, *count_and_noun))
        # Limits Poisson variates to 64 bits.
        check = partial(_check_minimum, min_value=2.0**-30, text="2**-30")
    scales = features.scalar_or_sequence("length_scale", length_scale, check, *count_and_noun)
    return _Spectrum(periods, kernel, tuple(scales), nu, orthogonal)


def _check_minimum(name: str, value: Array, min_value: float, text: str) -> float:
    number = checks.positive_number(name, value)
    if number < min_value:
        raise wrong_value(name, f"be {text} or more", number)
    return number


def _drawn_digits(count: int, rng: Any, *options: Any) -> tuple[str, ...]:
    """Return `count` frequencies of each coordinate as `DecimalFrequencies`."""
    spectrum = _Spectrum(*options)
    rows = _drawn(spectrum, count, namespace.random_generator(rng)).T.tolist()
    units = spectrum.periods or (1,) * len(rows)
    with localcontext(DIGITS):
        return tuple(
            " ".join(str(Decimal(number) / Decimal(unit)) for number in row)
            for row, unit in zip(rows, units, strict=True)
        )


_digits_of_seed = cached_constant(_drawn_digits)


def _drawn(spectrum: _Spectrum, count: int, generator: Any) -> Array:
    """Draw frequencies, (frequency, coordinate), in cycles per period or per unit of `x`."""
    length_scales = np.asarray(spectrum.length_scales, dtype=np.float64)
    shape = (count, len(length_scales))
    if spectrum.kernel == "periodic":
        # Frequency k has the weight exp(-a) I_k(a), with a = 1 / l**2 and a modified Bessel
        # function: Skellam's distribution of the difference of Poisson variates with mean a / 2.
        mean = (1 / length_scales) ** 2 / 2
        return generator.poisson(mean, shape) - generator.poisson(mean, shape)
    if spectrum.kernel == "laplace":
        samples = generator.standard_cauchy(shape)
    elif spectrum.kernel == "cauchy":
        samples = generator.laplace(size=shape)
    elif spectrum.orthogonal:
        samples = _orthogonal_normals(*shape, generator)
    else:
        samples = generator.standard_normal(shape)
    if spectrum.nu is not None:
        # Multivariate t with 2 nu degrees of freedom: chi-squared(2 nu) / (2 nu) = gamma(nu) / nu.
        samples = samples / np.sqrt(generator.standard_gamma(spectrum.nu, (count, 1)) / spectrum.nu)
    return np.clip(samples / (2 * np.pi * length_scales), -_MAX_FREQUENCY, _MAX_FREQUENCY)


def _orthogonal_normals(count: int, coordinates: int, generator: Any) -> Array:
    """Draw normal vectors in blocks of orthogonal vectors, one for each coordinate."""
    blocks = -(-count // coordinates)
    q, r = np.linalg.qr(generator.standard_normal((blocks, coordinates, coordinates)))
    # With a positive diagonal of r, rotations are uniform (Mezzadri 2007).
    signs = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    lengths = np.sqrt(generator.chisquare(coordinates, (blocks, coordinates, 1)))
    return (lengths * q * signs[:, None, :]).reshape(-1, coordinates)[:count]
