"""Real spherical harmonics of points on a sphere."""

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from functools import partial
from itertools import product
from math import pi, sqrt
from typing import Literal, NamedTuple, get_args

from positional_embeddings.angles.cos_sin import add_quadrants, cos_sin
from positional_embeddings.angles.frequencies import DIGITS, TWO_PI
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_lengths, block_slices
from positional_embeddings.arrays.caching import cached_constant
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, Dtype, np
from positional_embeddings.encodings import sphere_kernels
from positional_embeddings.encodings.features import by_chunks
from positional_embeddings.encodings.sphere_kernels import LengthUnit, SphericalKernel

Unit = Literal["degrees", "radians"]

# Points per block, which fits the cache.
_BLOCK_POINTS = 4096


def spherical_encoding(
    latitude: AnyArray,
    longitude: AnyArray,
    /,
    degree: int | None = None,
    *,
    unit: Unit = "degrees",
    kernel: SphericalKernel | None = None,
    length_scale: float | None = None,
    length_unit: LengthUnit = "km",
    nu: float | None = None,
    tolerance: float | None = None,
    dtype: Dtype | None = None,
) -> Array:
    r"""Return the real spherical harmonics of points on a sphere, up to a degree.

    With a `kernel` they are weighted, so that the scalar product of two encodings is a covariance
    of the points: a valid kernel of the angle between them.

    Parameters
    ----------
    latitude : array
        Integer or real latitudes from -90 to 90 degrees, the north pole at 90.
    longitude : array
        Integer or real longitudes to the east, of any sign and size, with a period of 360 degrees.
        The shapes of both arrays broadcast to S.
    degree : int, optional
        Highest degree, 0 to 1023. It resolves angles of about 180 degrees / `degree`. If None,
        which requires a `kernel`, the lowest degree with a `spherical_truncation_error` of at most
        `tolerance`. Degrees above 255 must be explicit, because of the number of features.
    unit : {"degrees", "radians"}, default "degrees"
        Unit of both coordinates. In degrees a point has the same features, to the bit, at
        longitudes 180 and -180; in radians the floats next to :math:`\pm\pi` are different points.
    kernel : {"gaussian", "matern"}, optional
        Covariance :math:`k(\gamma)` of points at an angle :math:`\gamma`, 1 at 0. If None, all
        degrees have the same weight.
    length_scale : float, optional
        Length scale :math:`\kappa` of the kernel, in `length_unit`, between 2**-30 and 2**30
        radians; required with a `kernel`. Far below the radius of the sphere the kernels equal
        the kernels of the plane: :math:`\exp(-d^2/(2\kappa^2))`, and Matern's.
    length_unit : {"km", "radians"}, default "km"
        Unit of `length_scale`: km on the Earth, of radius 6371.0088 km, or radians.
    nu : float, optional
        Smoothness :math:`\nu` of the kernel "matern", 0.1 or more; 1.5 if None.
    tolerance : float, optional
        Maximum error of the kernel if `degree` is None, positive; 0.01 if None.
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
        for equal harmonics and 0 for different ones. Orders :math:`m \ne 0` are 0 at the poles. NaN
        in a coordinate gives NaN. So does a lazy or traced latitude beyond a pole, and a longitude
        beyond 2**52 degrees, 2**23 on a device without float64, or 2**63 radians.

    Raises
    ------
    TypeError
        If a coordinate is not an array of numbers, the coordinates are of two libraries, or an
        option is of the wrong kind.
    ValueError
        If a concrete latitude is beyond a pole, the shapes do not broadcast, a number is out of
        range, a choice is unknown, an option is not used, or no degree to 1023 has an error within
        the `tolerance`.

    Notes
    -----
    Scalar products depend only on the angle :math:`\gamma` between two points (addition theorem):
    :math:`\sum_m Y_{l,m}(a)\,Y_{l,m}(b) = \frac{2l+1}{4\pi} P_l(\cos\gamma)`.

    A kernel weights degree :math:`l`, so that the scalar product is
    :math:`k(\gamma) = \sum_l c_l P_l(\cos\gamma)` with

    .. math::

        c_l \propto (2l+1) \begin{cases}
            \exp(-\kappa^2 l(l+1)/2) & \text{"gaussian"} \\
            (2\nu/\kappa^2 + l(l+1))^{-\nu-1} & \text{"matern"}
        \end{cases}

    and :math:`\sum_l c_l = 1` over all degrees. No weight is negative, so every covariance matrix
    is positive semidefinite. A Matern kernel of great-circle distances is so only up to
    :math:`\nu = 1/2`. The kernels are solutions of the diffusion equation, and of the stochastic
    differential equation of Whittle and Matern, on the sphere.

    The sign is as in geodesy, without the Condon-Shortley phase :math:`(-1)^m` of SciPy's complex
    harmonics: with ``y = scipy.special.sph_harm_y(l, abs(m), theta, phi)`` and
    ``s = (-1)**m * sqrt(2)``, feature m is ``s * y.imag`` for m < 0, ``y.real`` for m = 0 and
    ``s * y.real`` for m > 0.

    Each degree is computed from the previous one by three neighbouring orders. The more common
    recurrence at fixed order (Holmes and Featherstone, section 2.1) loses digits near the poles,
    7e-12 at degree 200, and starts there from numbers too small for float32. The computation is in
    float64 if the device supports it, and cast last: the error is below 2e-13 to degree 200.
    Without float64 it is below 1e-4 to degree 200, and 1e-5 to degree 40.

    References
    ----------
    Holmes and Featherstone (2002), A unified approach to the Clenshaw summation and the recursive
    computation of very high degree and order normalised associated Legendre functions, Journal of
    Geodesy 76. Belikov (1991), Spherical harmonic analysis and synthesis with the use of
    column-wise recurrence relations, Manuscripta Geodaetica 16; Xing et al. (2020), Numerical
    experiments on column-wise recurrence formula to compute fully normalized associated Legendre
    functions of ultra-high degree and order, Journal of Geodesy 94. Lindgren et al. (2011), An
    explicit link between Gaussian fields and Gaussian Markov random fields, Journal of the Royal
    Statistical Society B 73; Borovitskiy et al. (2020), Matern Gaussian processes on Riemannian
    manifolds, section 3.2, for the kernels.

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

    Latitudes and longitudes broadcast to a grid:

    >>> spherical_encoding(np.arange(-90, 91)[:, None], np.arange(360), 4).shape
    (25, 181, 360)

    Covariances of three points, for a length scale of 3000 km:

    >>> features = spherical_encoding(latitude, longitude, kernel="matern", length_scale=3000)
    >>> (features.T @ features).round(2)
    array([[0.99, 0.  , 0.26],
           [0.  , 0.99, 0.01],
           [0.26, 0.01, 0.99]])
    """
    backend = get_backend(latitude=latitude, longitude=longitude)
    xp = backend.xp
    checks.real("latitude", latitude, xp)
    checks.real("longitude", longitude, xp)
    if kernel is None:
        without = "without a `kernel`"
        checks.omitted(without, length_scale=length_scale, nu=nu, tolerance=tolerance)
        if degree is None:
            hint = " Pass degree=6, or a `kernel` and its `length_scale`."
            raise wrong_type("degree", "be given without a `kernel`", "None", hint)
    else:
        spectrum = sphere_kernels.spectrum_of(kernel, length_scale, length_unit, nu)
        if degree is None:
            degree = sphere_kernels.min_degree(spectrum, tolerance)
        else:
            checks.omitted("with a `degree`", tolerance=tolerance)
    degree = _checked_degree(degree)
    steps = [1.0] * (degree + 1) if kernel is None else sphere_kernels.amplitude_steps(*spectrum)
    shapes = [tuple(latitude.shape), tuple(longitude.shape)]
    if not checks.shapes_broadcast(shapes):
        requirement = f"broadcast against the shape of `latitude`, {shapes[0]}"
        raise wrong_value("longitude", requirement, shapes[1])
    input_dtypes = dict.fromkeys([latitude.dtype, longitude.dtype])
    reals = [dtype for dtype in input_dtypes if dtypes.is_real_floating(dtype, xp)]
    default = (
        xp.result_type(*reals) if len(reals) == 2 else [*reals, backend.default_float_dtype][0]
    )
    dtype = checks.float_dtype(dtype, default, backend)
    check_latitude(latitude, unit, backend)
    encode = partial(_spherical_encoding, series=_Series(degree, unit, steps))
    coordinates = [latitude, longitude]
    return by_chunks("spherical_encoding", encode, coordinates, (degree + 1) ** 2, dtype, backend)


def spherical_truncation_error(
    degree: int,
    *,
    kernel: SphericalKernel,
    length_scale: float,
    length_unit: LengthUnit = "km",
    nu: float | None = None,
) -> float:
    r"""Return the truncation error of a kernel of `spherical_encoding`.

    Parameters
    ----------
    degree : int
        Highest degree, 0 to 1023.
    kernel : {"gaussian", "matern"}
        Covariance, as in `spherical_encoding`.
    length_scale : float
        Length scale of the kernel, in `length_unit`.
    length_unit : {"km", "radians"}, default "km"
        Unit of `length_scale`.
    nu : float, optional
        Smoothness of the kernel "matern"; 1.5 if None.

    Returns
    -------
    float
        :math:`\sum_{l > \mathrm{degree}} c_l`, the sum of the omitted weights. This is the missing
        fraction of the variance, and the maximum error of the kernel, at distance 0. At least 8
        digits are correct.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    The sum over degrees above 1023 is an integral and a term of the Euler-Maclaurin formula.

    Examples
    --------
    >>> for degree in (8, 16, 32):
    ...     error = spherical_truncation_error(degree, kernel="matern", length_scale=2000)
    ...     print(degree, round(error, 4))
    8 0.1405
    16 0.0289
    32 0.0044
    """
    spectrum = sphere_kernels.spectrum_of(kernel, length_scale, length_unit, nu)
    return sphere_kernels.truncation_errors(*spectrum)[_checked_degree(degree)]


def _checked_degree(degree: int) -> int:
    degree = checks.non_negative_integer("degree", degree)
    if degree > sphere_kernels.MAX_DEGREE:
        raise wrong_value("degree", f"be at most {sphere_kernels.MAX_DEGREE}", format_value(degree))
    return degree


def check_latitude(latitude: Array, unit: str, backend: Backend) -> None:
    """Check the unit, and that no latitude is beyond a pole."""
    checks.choice("unit", unit, get_args(Unit))
    if backend.is_chunked:
        return
    beyond = _is_beyond_pole(latitude, unit, backend)
    if backend.concrete_bool(backend.xp.any(beyond)):
        latitude = backend.astype(latitude, backend.widest_float_dtype)
        outside = backend.xp.where(beyond, latitude, 0.0)
        extreme = max(float(backend.xp.max(outside)), float(backend.xp.min(outside)), key=abs)
        bounds = "-90 to 90 degrees" if unit == "degrees" else "-pi/2 to pi/2 radians"
        raise wrong_value("latitude", f"be from {bounds}", extreme)


def _is_beyond_pole(latitude: Array, unit: str, backend: Backend) -> Array:
    xp, widest = backend.xp, backend.widest_float_dtype
    # In radians the pole is the nearest number of the dtype, which may be beyond it.
    pole_dtype = latitude.dtype if dtypes.is_real_floating(latitude.dtype, xp) else widest
    pole = xp.asarray(90 if unit == "degrees" else pi / 2, dtype=pole_dtype, device=backend.device)
    latitude, pole = (backend.astype(a, widest) for a in (latitude, pole))
    return xp.abs(latitude) > pole


class _Series(NamedTuple):
    """Parameters of harmonics up to a degree."""

    degree: int
    unit: str
    steps: Sequence[float]  # amplitude of degree 0, and ratio of each degree to the one before


def _spherical_encoding(
    latitude: Array, longitude: Array, *, series: _Series, dtype: Dtype, backend: Backend
) -> Array:
    """Return the harmonics, in blocks if the library has in-place assignment."""
    xp, ndim = backend.xp, max(latitude.ndim, longitude.ndim)
    beyond = _is_beyond_pole(latitude, series.unit, backend)
    latitude, longitude = (
        backend.astype(a, backend.widest_float_dtype) for a in (latitude, longitude)
    )
    latitude = xp.where(beyond, float("nan"), latitude)
    latitude, longitude = (a[(*(None,) * (ndim - a.ndim), ...)] for a in (latitude, longitude))
    if not backend.supports_inplace(latitude, longitude):
        degrees = _harmonics(latitude, longitude, series, backend)
        return xp.concat([backend.astype(values, dtype) for values in degrees], axis=0)
    shape = np.broadcast_shapes(latitude.shape, longitude.shape)
    encoding = xp.empty(((series.degree + 1) ** 2, *shape), dtype=dtype, device=backend.device)
    # In a grid, functions of the latitude are computed once for all longitudes.
    common = [i for i in range(ndim) if latitude.shape[i] == longitude.shape[i]]
    lengths = block_lengths(shape, common, _BLOCK_POINTS)
    parts = [
        block_slices(n, lengths[i]) if i in common else [slice(None)] for i, n in enumerate(shape)
    ]
    for block in product(*parts):
        harmonics = _harmonics(latitude[block], longitude[block], series, backend)
        for n, values in enumerate(harmonics):
            part = backend.astype(values, dtype)
            encoding[(slice(n**2, (n + 1) ** 2), *block)] = part
    return encoding


def _harmonics(
    latitude: Array, longitude: Array, series: _Series, backend: Backend
) -> Iterator[Array]:
    """Yield the harmonics of each degree, in increasing order."""
    xp, degree = backend.xp, series.degree
    cos, sin = _cos_sin_of_multiples(longitude, degree, series.unit, backend)
    # The cosine of order 0 is 1, or NaN for a longitude of NaN.
    negative_orders = xp.flip(sqrt(2) * sin[1:, ...], axis=0)
    sinusoids = xp.concat([negative_orders, cos[:1, ...], sqrt(2) * cos[1:, ...]], axis=0)
    cos, sin = _cos_sin_of_multiples(latitude, 1, series.unit, backend)
    sine, cosine = cos[1:, ...], sin[1:, ...]  # of the colatitude
    zeros = 0 * cosine
    values = zeros + series.steps[0] / sqrt(4 * pi)

    def harmonics(values: Array, n: int) -> Array:
        """Return the harmonics of orders -n to n from the Legendre functions of orders 0 to n."""
        functions = xp.concat([xp.flip(values[1:, ...], axis=0), values], axis=0)
        return functions * sinusoids[degree - n : degree + n + 1, ...]

    def next_degree(padded: Array, weights: Array) -> Array:
        """Return the Legendre functions of the next degree, without the padding.

        They are a component of the product of the harmonics with the point, a unit vector. No step
        amplifies errors or divides by a small number.
        """
        same, lower, higher = (weights[(i, ..., *(None,) * latitude.ndim)] for i in range(3))
        along = cosine * (same * padded[1:-1, ...])
        across = lower * padded[:-2, ...] - higher * padded[2:, ...]
        return along + sine * across

    yield harmonics(values, 0)
    # Order -1 is order 1 with the opposite sign.
    loops = backend.loops()
    if loops is not None and degree:

        def step(values: Array, weights: Array) -> tuple[Array, Array]:
            padded = xp.concat([-values[1:2, ...], values, zeros], axis=0)
            values = next_degree(padded, weights)
            return values, harmonics(values, degree)

        # All orders of all degrees: the weights of orders above the degree are 0.
        table = np.zeros((degree, 3, degree + 1))
        for n in range(1, degree + 1):
            table[n - 1, :, : n + 1] = _weights(n, series.steps[n])
        weights = xp.asarray(table, dtype=backend.widest_float_dtype, device=backend.device)
        _, scanned = loops.scan(step, xp.concat([values, *[zeros] * degree], axis=0), weights)
        yield from (scanned[n - 1, degree - n : degree + n + 1, ...] for n in range(1, degree + 1))
        return
    for n in range(1, degree + 1):
        before = -values[1:2, ...] if n > 1 else zeros
        padded = xp.concat([before, values, zeros, zeros], axis=0)
        weights = _weights(n, series.steps[n])
        weights = xp.asarray(weights, dtype=backend.widest_float_dtype, device=backend.device)
        values = next_degree(padded, weights)
        yield harmonics(values, n)


@cached_constant
def _weights(degree: int, factor: float) -> list[list[float]]:
    """Return `factor` times the weights of the same, the next lower and the next higher order."""
    n, orders = degree, range(degree + 1)
    scale = (2 * n + 1) / (2 * n - 1)
    return [
        [sqrt(scale * (n * n - m * m)) / n * factor for m in orders],
        [sqrt(scale * (n + m) * (n + m - 1)) / (2 * n) * factor for m in orders],
        [sqrt(scale * (n - m) * (n - m - 1)) / (2 * n) * factor for m in orders],
    ]


def _cos_sin_of_multiples(
    angle: Array, max_multiple: int, unit: str, backend: Backend
) -> tuple[Array, Array]:
    """Return cosine and sine of 0 to `max_multiple` times an angle, exact at quadrants."""
    xp, widest = backend.xp, backend.widest_float_dtype
    frequencies = _multiples(max_multiple, unit)
    if unit == "radians":
        return cos_sin(angle, frequencies, widest, backend)
    # Beyond this limit, floats do not resolve degrees.
    limit = 2.0**52 if widest == xp.float64 else 2.0**23
    angle = xp.where(xp.abs(angle) < limit, angle, float("nan"))
    quadrant = xp.round(angle / 90)
    cos, sin = cos_sin(angle - 90 * quadrant, frequencies, widest, backend)
    multiples = xp.arange(max_multiple + 1, dtype=widest, device=backend.device)
    multiples = multiples[(..., *(None,) * angle.ndim)]
    quadrant = quadrant - 4 * xp.floor(quadrant / 4)
    return add_quadrants(cos, sin, multiples * quadrant, xp)


@cached_constant
def _multiples(max_multiple: int, unit: str) -> str:
    """Return the digits of 0 to `max_multiple` cycles per circle."""
    circle = Decimal(360) if unit == "degrees" else TWO_PI
    with localcontext(DIGITS):
        return " ".join(str(Decimal(m) / circle) for m in range(max_multiple + 1))
