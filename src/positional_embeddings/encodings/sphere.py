"""Real spherical harmonics of places on a sphere."""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import partial
from itertools import product
from math import pi, sqrt
from typing import Literal, get_args

from positional_embeddings.angles.cos_sin import add_quadrants, cos_sin
from positional_embeddings.angles.frequencies import DIGITS, TWO_PI
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.blocks import block_lengths, cuts
from positional_embeddings.arrays.errors import shown, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.kept import host_constant
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.encodings.features import by_chunks

Unit = Literal["degrees", "radians"]

_HIGHEST_DEGREE = 1023  # it has 2**20 features
# Places that are computed at a time, few enough for the cache.
_PLACES_OF_A_BLOCK = 4096


def spherical_encoding(
    latitude: AnyArray,
    longitude: AnyArray,
    /,
    degree: int,
    *,
    unit: Unit = "degrees",
    dtype: Dtype | None = None,
) -> Array:
    r"""Return the real spherical harmonics of places on a sphere, up to a degree.

    Parameters
    ----------
    latitude : array
        Integer or real latitudes from -90 to 90 degrees, the north pole at 90.
    longitude : array
        Integer or real longitudes to the east, of any sign and size: they repeat after 360
        degrees. The shapes of both arrays broadcast to S.
    degree : int
        Highest degree, 0 to 1023. Two places are told apart if they are farther from each other
        than about 180 degrees / `degree`.
    unit : {"degrees", "radians"}, default "degrees"
        Unit of both coordinates. In degrees a place has the same features, to the bit, at
        longitudes 180 and -180; in radians the floats next to :math:`\pm\pi` are two places.
    dtype : dtype, optional
        Real floating-point dtype of the result. If None, the dtype of real coordinates, or
        the library's default for integer ones.

    Returns
    -------
    array, shape ((degree + 1)**2, *S)
        Feature :math:`l^2 + l + m` is the harmonic of degree :math:`l` and order :math:`m` from
        :math:`-l` to :math:`l`, at colatitude :math:`\theta` (90 degrees - latitude) and
        longitude :math:`\varphi`:

        .. math::

            Y_{l,m} = \begin{cases}
                \sqrt{2}\,\bar P_l^{|m|}(\cos\theta)\,\sin(|m|\varphi) & m < 0 \\
                \bar P_l^0(\cos\theta) & m = 0 \\
                \sqrt{2}\,\bar P_l^m(\cos\theta)\,\cos(m\varphi) & m > 0
            \end{cases}

        They are orthonormal: the integral of :math:`Y_{l,m} Y_{l',m'}` over the unit sphere is 1
        for the same harmonic and 0 for two. All of order :math:`m \ne 0` are 0 at the poles. NaN
        in a coordinate gives NaN, and so do a latitude beyond a pole, if its value cannot be read
        yet, and a longitude too large to have a place (2**52 degrees, 2**23 on a device without
        float64, or 2**63 radians).

    Raises
    ------
    TypeError
        If a coordinate is not an array of numbers, both come from two libraries, or an option is
        of the wrong kind.
    ValueError
        If a latitude is beyond a pole and can be read (neither lazy nor traced), the shapes do
        not broadcast, `degree` is out of range, or `unit` is unknown.

    Notes
    -----
    Scalar products depend on the angle :math:`\gamma` between two places only (addition theorem):
    :math:`\sum_m Y_{l,m}(a)\,Y_{l,m}(b) = \frac{2l+1}{4\pi} P_l(\cos\gamma)`.

    The sign is as in geodesy, without the Condon-Shortley phase :math:`(-1)^m`, which SciPy's
    complex harmonics have: with ``y = scipy.special.sph_harm_y(l, abs(m), theta, phi)`` and
    ``s = (-1)**m * sqrt(2)``, feature m is ``s * y.imag`` for m < 0, ``y.real`` for m = 0 and
    ``s * y.real`` for m > 0.

    Each degree follows from the one before by three neighbouring orders. The more common
    recurrence at fixed order (Holmes and Featherstone, section 2.1) loses digits near the poles,
    7e-12 at degree 200, and starts there from numbers too small for float32. All is computed in
    float64 where the device has it, and cast last: the error is below 2e-13 to degree 200. Without
    float64 it is below 1e-4 there, and 1e-5 to degree 40.

    References
    ----------
    Holmes and Featherstone (2002), A unified approach to the Clenshaw summation and the recursive
    computation of very high degree and order normalised associated Legendre functions, Journal of
    Geodesy 76. Belikov (1991), Spherical harmonic analysis and synthesis with the use of
    column-wise recurrence relations, Manuscripta Geodaetica 16; Xing et al. (2020), Numerical
    experiments on column-wise recurrence formula to compute fully normalized associated Legendre
    functions of ultra-high degree and order, Journal of Geodesy 94.

    Examples
    --------
    >>> import numpy as np
    >>> latitude, longitude = np.asarray([47.4, -33.9, 90.0]), np.asarray([8.5, 151.2, 0.0])
    >>> features = spherical_encoding(latitude, longitude, 1)
    >>> features.round(3)
    array([[ 0.282,  0.282,  0.282],
           [ 0.049,  0.195,  0.   ],
           [ 0.36 , -0.273,  0.489],
           [ 0.327, -0.355,  0.   ]])

    Axes of latitudes and of longitudes make a grid:

    >>> spherical_encoding(np.arange(-90, 91)[:, None], np.arange(360), 4).shape
    (25, 181, 360)
    """
    space = space_of(latitude=latitude, longitude=longitude)
    xp = space.xp
    checks.real("latitude", latitude, xp)
    checks.real("longitude", longitude, xp)
    degree = checks.non_negative_integer("degree", degree)
    if degree > _HIGHEST_DEGREE:
        raise wrong_value("degree", f"be at most {_HIGHEST_DEGREE}", shown(degree))
    checks.choice("unit", unit, get_args(Unit))
    shapes = [tuple(latitude.shape), tuple(longitude.shape)]
    if not checks.shapes_broadcast(shapes):
        requirement = f"broadcast against the shape of `latitude`, {shapes[0]}"
        raise wrong_value("longitude", requirement, shapes[1])
    both = dict.fromkeys([latitude.dtype, longitude.dtype])
    reals = [dtype for dtype in both if dtypes.is_real_floating(dtype, xp)]
    default = xp.result_type(*reals) if len(reals) == 2 else [*reals, space.default_float][0]
    dtype = checks.float_dtype(dtype, default, space)
    if not space.is_chunked:
        beyond = _is_beyond_pole(latitude, unit, space)
        if space.is_true(xp.any(beyond)):
            outside = xp.where(beyond, space.astype(latitude, space.widest), 0.0)
            farthest = max(float(xp.max(outside)), float(xp.min(outside)), key=abs)
            bounds = "-90 to 90 degrees" if unit == "degrees" else "-pi/2 to pi/2 radians"
            raise wrong_value("latitude", f"be from {bounds}", farthest)
    encode = partial(_spherical_encoding, degree=degree, unit=unit, dtype=dtype)
    places = [latitude, longitude]
    return by_chunks("spherical_encoding", encode, places, (degree + 1) ** 2, dtype, space)


def _is_beyond_pole(latitude: Array, unit: str, space: Space) -> Array:
    xp, wide = space.xp, space.widest
    # In radians the pole is the nearest number of the dtype, which may lie beyond it.
    pole_dtype = latitude.dtype if dtypes.is_real_floating(latitude.dtype, xp) else wide
    pole = xp.asarray(90 if unit == "degrees" else pi / 2, dtype=pole_dtype, device=space.device)
    latitude, pole = (space.astype(a, wide) for a in (latitude, pole))
    return xp.abs(latitude) > pole


def _spherical_encoding(
    latitude: Array, longitude: Array, *, degree: int, unit: str, dtype: Dtype, space: Space
) -> Array:
    """Return the harmonics, written block by block into one array if the library can."""
    xp, ndim = space.xp, max(latitude.ndim, longitude.ndim)
    beyond = _is_beyond_pole(latitude, unit, space)
    latitude, longitude = (space.astype(a, space.widest) for a in (latitude, longitude))
    latitude = xp.where(beyond, float("nan"), latitude)
    latitude, longitude = (a[(*(None,) * (ndim - a.ndim), ...)] for a in (latitude, longitude))
    if not space.supports_inplace(latitude, longitude):
        degrees = _harmonics(latitude, longitude, degree, unit, space)
        return xp.concat([space.astype(values, dtype) for values in degrees], axis=0)
    shape = np.broadcast_shapes(latitude.shape, longitude.shape)
    encoding = xp.empty(((degree + 1) ** 2, *shape), dtype=dtype, device=space.device)
    # Of a grid, functions of the latitude alone are computed once, for all longitudes.
    common = [i for i in range(ndim) if latitude.shape[i] == longitude.shape[i]]
    lengths = block_lengths(shape, common, _PLACES_OF_A_BLOCK)
    parts = [cuts(n, lengths[i]) if i in common else [slice(None)] for i, n in enumerate(shape)]
    for block in product(*parts):
        harmonics = _harmonics(latitude[block], longitude[block], degree, unit, space)
        for n, values in enumerate(harmonics):
            part = space.astype(values, dtype)
            encoding[(slice(n**2, (n + 1) ** 2), *block)] = part
    return encoding


def _harmonics(
    latitude: Array, longitude: Array, degree: int, unit: str, space: Space
) -> Iterator[Array]:
    """Yield the harmonics of each degree, orders from the lowest to the highest."""
    xp = space.xp
    cos, sin = _cos_sin_of_multiples(longitude, degree, unit, space)
    # The order of 0 has a cosine, too: it is 1, or NaN for a longitude that is NaN.
    downwards = xp.flip(sqrt(2) * sin[1:, ...], axis=0)
    by_order = xp.concat([downwards, cos[:1, ...], sqrt(2) * cos[1:, ...]], axis=0)
    for n, legendre in enumerate(_legendre_functions(latitude, degree, unit, space)):
        both = xp.concat([xp.flip(legendre[1:, ...], axis=0), legendre], axis=0)
        yield both * by_order[degree - n : degree + n + 1, ...]


def _legendre_functions(latitude: Array, degree: int, unit: str, space: Space) -> Iterator[Array]:
    """Yield the normalised associated Legendre functions of each degree, by order from 0.

    Those of the next degree are the part of that degree in the product of the harmonics with the
    place, a unit vector: no step makes errors grow, and none divides by a small number.
    """
    xp = space.xp
    cos, sin = _cos_sin_of_multiples(latitude, 1, unit, space)
    sine, cosine = cos[1:, ...], sin[1:, ...]  # of the colatitude
    nothing = 0 * cosine
    values = nothing + 1 / sqrt(4 * pi)
    yield values
    for n in range(1, degree + 1):
        weights = xp.asarray(_weights(n), dtype=space.widest, device=space.device)
        same, lower, higher = (weights[(i, ..., *(None,) * latitude.ndim)] for i in range(3))
        # Order -1 is order 1 with the other sign.
        before = -values[1:2, ...] if n > 1 else nothing
        padded = xp.concat([before, values, nothing, nothing], axis=0)
        along = cosine * (same * padded[1 : n + 2, ...])
        across = lower * padded[: n + 1, ...] - higher * padded[2 : n + 3, ...]
        values = along + sine * across
        yield values


@host_constant
def _weights(degree: int) -> list[list[float]]:
    """Return the weights of the same, the next lower and the next higher order, by order."""
    n, orders = degree, range(degree + 1)
    scale = (2 * n + 1) / (2 * n - 1)
    return [
        [sqrt(scale * (n * n - m * m)) / n for m in orders],
        [sqrt(scale * (n + m) * (n + m - 1)) / (2 * n) for m in orders],
        [sqrt(scale * (n - m) * (n - m - 1)) / (2 * n) for m in orders],
    ]


def _cos_sin_of_multiples(
    angle: Array, highest: int, unit: str, space: Space
) -> tuple[Array, Array]:
    """Return cosine and sine of 0 to `highest` times an angle, exact at whole quadrants."""
    xp, wide = space.xp, space.widest
    frequencies = _multiples(highest, unit)
    if unit == "radians":
        return cos_sin(angle, frequencies, wide, space)
    # Farther off a float has no whole degrees.
    farthest = 2.0**52 if wide == xp.float64 else 2.0**23
    angle = xp.where(xp.abs(angle) < farthest, angle, float("nan"))
    quadrant = xp.round(angle / 90)
    cos, sin = cos_sin(angle - 90 * quadrant, frequencies, wide, space)
    multiples = xp.arange(highest + 1, dtype=wide, device=space.device)
    multiples = multiples[(..., *(None,) * angle.ndim)]
    quadrant = quadrant - 4 * xp.floor(quadrant / 4)
    return add_quadrants(cos, sin, multiples * quadrant, xp)


@host_constant
def _multiples(highest: int, unit: str) -> str:
    """Return the digits of 0 to `highest` cycles in a full circle."""
    circle = Decimal(360) if unit == "degrees" else TWO_PI
    with localcontext(DIGITS):
        return " ".join(str(Decimal(m) / circle) for m in range(highest + 1))
