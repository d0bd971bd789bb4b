"""Covariances on a sphere: the weights of the degrees of spherical harmonics."""

from math import inf, pi
from typing import Literal, NamedTuple, get_args

from positional_embeddings.arguments import checks
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, np
from positional_embeddings.encodings.features import smoothness

SphericalKernel = Literal["gaussian", "matern"]
LengthUnit = Literal["km", "radians"]

MAX_DEGREE = 1023  # with 2**20 features
_EARTH_RADIUS = 6371.0088  # km, the mean radius of the IUGG
_MIN_LENGTH_SCALE, _MAX_LENGTH_SCALE = 2.0**-30, 2.0**30  # radians
_TOLERANCE = 0.01
_MAX_DEFAULT_DEGREE = 255  # half a MB per point


class Spectrum(NamedTuple):
    """Length scale of a kernel in radians, and its smoothness, infinite if Gaussian."""

    length_scale: float
    nu: float


def spectrum_of(
    kernel: str, length_scale: float | None, length_unit: str, nu: float | None
) -> Spectrum:
    """Check the options of a kernel and return its spectrum."""
    checks.choice("kernel", kernel, get_args(SphericalKernel))
    if kernel == "gaussian":
        checks.omitted("with the kernel 'gaussian'", nu=nu)
    smoothness_nu = inf if kernel == "gaussian" else smoothness(nu)
    checks.choice("length_unit", length_unit, get_args(LengthUnit))
    if length_scale is None:
        raise wrong_value("length_scale", "be given with a `kernel`", "None")
    radians = checks.positive_number("length_scale", length_scale)
    radians = radians / _EARTH_RADIUS if length_unit == "km" else float(radians)
    if not _MIN_LENGTH_SCALE <= radians <= _MAX_LENGTH_SCALE:
        requirement = "be between 2**-30 and 2**30 radians; a radian is 6371 km"
        raise wrong_value("length_scale", requirement, f"{length_scale} {length_unit}")
    return Spectrum(radians, smoothness_nu)


def _log_weights(squared: Array, length_scale: float, nu: float) -> Array:
    """Return the logarithms of the weights of degrees l; `squared` is l (l + 1)."""
    exponent = length_scale**2 / 2 * squared
    return -exponent if nu == inf else -(nu + 1) * np.log1p(exponent / nu)


@cached_constant
def _variance_fractions(length_scale: float, nu: float) -> list[float]:
    """Return the fractions of the variance of each degree, and of all degrees above the highest.

    The latter is an integral and a term of the Euler-Maclaurin formula for
    f(x) = 2 x w(x**2 - 1/4) at the midpoints x = l + 1/2; the next term is at most 1e-8 of it.
    """
    degree = np.arange(MAX_DEGREE + 1, dtype=np.float64)
    variances = (2 * degree + 1) * np.exp(_log_weights(degree * (degree + 1), length_scale, nu))
    end = MAX_DEGREE + 1
    weight = np.exp(_log_weights(end**2 - 0.25, length_scale, nu))
    ratio = 1 + length_scale**2 / (2 * nu) * (end**2 - 0.25)
    integral = 2 / length_scale**2 * ratio * weight
    slope = 2 * weight - 2 * end**2 * length_scale**2 * (1 + 1 / nu) / ratio * weight
    parts = np.append(variances, integral + slope / 24)
    return (parts / np.sum(parts)).tolist()  # type: ignore[no-any-return]


@cached_constant
def truncation_errors(length_scale: float, nu: float) -> list[float]:
    """Return, for each degree, the fraction of the variance of all higher degrees."""
    parts = np.asarray(_variance_fractions(length_scale, nu))
    return np.cumsum(parts[::-1])[-2::-1].tolist()  # type: ignore[no-any-return]


def min_degree(spectrum: Spectrum, tolerance: float | None) -> int:
    """Return the lowest degree with an error within a tolerance."""
    max_error = _TOLERANCE if tolerance is None else checks.positive_number("tolerance", tolerance)
    errors = truncation_errors(*spectrum)
    if errors[-1] > max_error:
        requirement = f"be {errors[-1]!r} or more, the error at degree {MAX_DEGREE}"
        hint = " Pass it, a longer `length_scale`, or a `degree`."
        raise wrong_value("tolerance", requirement, max_error, hint)
    degree = next(degree for degree, error in enumerate(errors) if error <= max_error)
    if degree > _MAX_DEFAULT_DEGREE:
        count = (degree + 1) ** 2
        requirement = f"be given for more than 255: it would be {degree}, with {count:,} features, "
        requirement += f"{8e-6 * count:.1f} MB per point"
        hint = f" Pass degree={degree}, or a longer `length_scale` or a larger `tolerance`."
        raise wrong_value("degree", requirement, "None", hint)
    return degree


@cached_constant
def amplitude_steps(length_scale: float, nu: float) -> list[float]:
    """Return the amplitude of degree 0, and the ratio of each degree to the one before."""
    degree = np.arange(MAX_DEGREE + 1, dtype=np.float64)
    logs = _log_weights(degree * (degree + 1), length_scale, nu) / 2
    first = np.sqrt(4 * pi * _variance_fractions(length_scale, nu)[0])
    return np.append(first, np.exp(np.diff(logs))).tolist()  # type: ignore[no-any-return]
