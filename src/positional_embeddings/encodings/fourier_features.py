"""Fourier features as a vector algebra: encode, shift, bind, compare and decode points."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import pi, prod, sqrt
from typing import Annotated, Any, TypeAlias

from positional_embeddings.angles.cos_sin import NUMPY_BACKEND
from positional_embeddings.angles.frequencies import from_radians, geometric_frequencies, in_radians
from positional_embeddings.angles.pairs import join_pairs, split_pairs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
from positional_embeddings.arrays.caching import read_only
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Dtype, HostArray, np
from positional_embeddings.encodings import features
from positional_embeddings.encodings.decoding import Grid, decode_points
from positional_embeddings.encodings.features import (
    PAIR_LAYOUTS,
    Arrangement,
    SinCos,
    Sinusoids,
    angle_sum,
)
from positional_embeddings.encodings.fourier import octave_wavelengths
from positional_embeddings.encodings.grid_cells import directional_frequencies
from positional_embeddings.encodings.random_fourier import SpectralKernel, drawn_frequencies

_MAX_WAVES, _MAX_FREQUENCY = 2**19, 2.0**103  # radians; drawn frequencies are lower
# Grid points per cycle of the fastest wave, which is at least cos(pi / 10) at the nearest point.
_POINTS_PER_CYCLE = 10
# Features of a grid, 1 GiB, and per block of a kernel.
_MAX_GRID_ELEMENTS, _BLOCK_ELEMENTS = 2**27, 2**22

Numbers: TypeAlias = float | Sequence[float] | HostArray


@dataclass(frozen=True)
class FourierFeatures(checks.CheckedDataclass):
    r"""Sines and cosines of points, with methods to encode, shift, bind, compare and decode.

    Wave :math:`j` of a point :math:`x` is the pair of features :math:`\sqrt{w_j}\,(\sin, \cos)` of
    :math:`\omega_j \cdot x + \varphi_j`. Immutable, and independent of the array library.

    Parameters
    ----------
    frequencies : list or array of float, shape (waves,) or (waves, coordinates)
        :math:`\omega`, radians per unit of each coordinate, within 2**103; at most 2**19 waves.
        With one axis, points are numbers; with two, points have their coordinates on axis 0.
    weights : float, or sequence of float, default 1.0
        :math:`w`, positive, of all waves or of each: the contribution of a wave to a scalar
        product.
    phases : float, or sequence of float, default 0.0
        :math:`\varphi`, radians, of all waves or of each.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each wave side by side, or all sines and then all cosines.
    cos_first : bool, default False
        Whether each cosine, or all cosines, are before the sines.
    digits : str or tuple of str, optional
        The frequencies in cycles, to 60 digits, separated by spaces: a string for each coordinate.
        Constructors such as `sinusoidal` set them, so that points far from 0 remain exact after
        ``dataclasses.replace``. If None, the `frequencies` are exact.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a shape is wrong, a number is out of range, or `digits` do not match `frequencies`.

    References
    ----------
    Rahimi and Recht (2007), Random Features for Large-Scale Kernel Machines; Plate (1995),
    Holographic Reduced Representations; Komer et al. (2019), A neural representation of continuous
    space using fractional binding; Frady et al. (2022), Computing on functions using randomized
    vector representations, section 3.

    Examples
    --------
    A memory of two objects in a plane, each a random vector bound to its position:

    >>> import numpy as np
    >>> plane = FourierFeatures.random(2, 512, length_scale=0.5, rng=0)
    >>> key, cup = (plane.encode(np.asarray(x)) for x in ([900.0, -77.0], [-31.0, 505.0]))
    >>> memory = plane.bind(key, plane.encode(np.asarray([1.0, 4.0])))
    >>> memory = memory + plane.bind(cup, plane.encode(np.asarray([3.0, 2.0])))
    >>> plane.decode(plane.unbind(memory, cup), [(0, 5), (0, 5)]).round(1)  # where is the cup?
    array([3., 2.])
    """

    frequencies: Any = field(compare=False)
    _: KW_ONLY
    weights: Numbers = 1.0
    phases: Numbers = 0.0
    arrangement: Annotated[Arrangement, checks.one_of(Arrangement)] = "interleaved"
    cos_first: Annotated[bool, checks.boolean] = False
    digits: str | tuple[str, ...] | None = field(default=None, repr=False)
    _sinusoids: Sinusoids = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        table = _host_numbers("frequencies", self.frequencies)
        if table.ndim not in (1, 2) or not 1 <= len(table) <= _MAX_WAVES or 0 in table.shape:
            requirement = "have shape (waves,) or (waves, coordinates), 1 to 2**19 waves"
            raise wrong_value("frequencies", requirement, f"shape {table.shape}")
        if np.max(np.abs(table)) > _MAX_FREQUENCY:
            raise wrong_value("frequencies", "be within 2**103", float(np.max(np.abs(table))))
        weights = _wave_numbers("weights", self.weights, checks.positive_number, len(table))
        phases = _wave_numbers("phases", self.phases, checks.finite_number, len(table))
        digits = self.digits
        if digits is None:
            columns = [from_radians(tuple(c), 1.0) for c in np.atleast_2d(table.T).tolist()]
            digits = columns[0] if table.ndim == 1 else tuple(columns)
        elif not np.array_equal(_radians(digits), table):
            requirement = "be None, or digits that round to `frequencies`"
            raise wrong_value("digits", requirement, "digits of other frequencies")
        amplitude = sqrt(weights) if isinstance(weights, float) else tuple(map(sqrt, weights))
        phase_list = np.broadcast_to(phases, table.shape[:1]).tolist()
        cycles = from_radians(tuple(phase_list), 1.0) if any(phase_list) else ""
        sinusoids = Sinusoids(digits, self.arrangement, amplitude, self.cos_first, cycles)
        fields = {"frequencies": read_only(table), "weights": weights, "phases": phases}
        checks.set_fields(self, **fields, digits=digits, _sinusoids=sinusoids)

    @classmethod
    def sinusoidal(cls, dim: int, base: float = 10_000) -> "FourierFeatures":
        """Return the waves of `sinusoidal_encoding`.

        Parameters
        ----------
        dim : int
            Number of features, positive and even, at most 2**20.
        base : float, default 10_000
            Base of the frequencies, positive.

        Returns
        -------
        FourierFeatures
            Features of numbers, with ``dim / 2`` waves of weight 1.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.

        Examples
        --------
        >>> FourierFeatures.sinusoidal(8).frequencies
        array([1.   , 0.1  , 0.01 , 0.001])
        """
        dim = checks.feature_count("dim", dim, even=True)
        return _exact_features(geometric_frequencies(dim, checks.positive_number("base", base)))

    @classmethod
    def from_wavelengths(cls, wavelengths: Numbers) -> "FourierFeatures":
        """Return the waves of `fourier_encoding`.

        Parameters
        ----------
        wavelengths : float, or list, tuple or 1-D NumPy array of floats
            One or more wavelengths in the unit of the points, from 2**-64 to 2**100.

        Returns
        -------
        FourierFeatures
            Features of numbers, with waves of weight 1.

        Raises
        ------
        TypeError, ValueError
            If a wavelength is of the wrong kind or out of range.

        Examples
        --------
        >>> day_and_year = FourierFeatures.from_wavelengths([1, 365.25])
        """
        lengths = features.scalar_or_sequence("wavelengths", wavelengths, features.wavelength)
        return _exact_features(features.cycles("1", *lengths))

    @classmethod
    def octaves(cls, n: int, *, longest: float = 2.0) -> "FourierFeatures":
        """Return the waves of NeRF, each half as long as the one before.

        Parameters
        ----------
        n, longest
            Number of waves, and the wavelength of the first, as in `octave_wavelengths`.

        Returns
        -------
        FourierFeatures
            Features of numbers, with waves of weight 1.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.

        Examples
        --------
        >>> FourierFeatures.octaves(3).frequencies / np.pi
        array([1., 2., 4.])
        """
        return cls.from_wavelengths(octave_wavelengths(n, longest=longest))

    @classmethod
    def random(
        cls,
        coordinates: int,
        dim: int,
        *,
        length_scale: Numbers = 1.0,
        kernel: SpectralKernel = "gaussian",
        nu: float | None = None,
        period: Numbers | None = None,
        orthogonal: bool = False,
        rng: Any,
    ) -> "FourierFeatures":
        """Return random Fourier features, whose `kernel` approximates a kernel.

        Parameters
        ----------
        coordinates : int
            Number of coordinates of a point, 1 to 2**20.
        dim : int
            Number of features, positive and even, at most 2**20.
        length_scale, kernel, nu, period, orthogonal, rng
            As in `random_fourier_encoding`, which returns the same features up to rounding.

        Returns
        -------
        FourierFeatures
            Features of points (coordinates, ...), with waves of weight ``2 / dim``: encodings have
            length 1.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.

        Examples
        --------
        >>> waves = FourierFeatures.random(3, 256, length_scale=2.0, kernel="cauchy", rng=0)
        >>> waves.frequencies.shape
        (128, 3)
        """
        coordinates = checks.feature_count("coordinates", coordinates)
        dim = checks.feature_count("dim", dim, even=True)
        spectrum = kernel, length_scale, nu, period, orthogonal
        digits = drawn_frequencies(coordinates, dim // 2, rng, *spectrum)
        return _exact_features(digits, weights=2 / dim)

    @classmethod
    def hexagonal(
        cls, scales: Numbers, orientations: Numbers = 0.0, *, offsets: Any = (0.0, 0.0)
    ) -> "FourierFeatures":
        r"""Return waves of a plane whose sums are the hexagonal patterns of grid cells.

        Parameters
        ----------
        scales : float, or list, tuple or 1-D NumPy array of floats
            Wavelength of each pattern, as the `wavelengths` of `grid_cell_encoding`. The distance
            between firing fields is :math:`2/\sqrt{3}` wavelengths.
        orientations : float, or list, tuple or 1-D NumPy array of floats, default 0.0
            Angle of the first of three waves to the x axis, in radians, for all scales or each.
        offsets : list or array of float, shape (2,) or (scales, 2), default (0.0, 0.0)
            Point (x, y) of a crest of the pattern, for all scales or each.

        Returns
        -------
        FourierFeatures
            Features of points (2, ...), with three waves of weight 1 for each scale.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, out of range, or of the wrong shape.

        Examples
        --------
        >>> cells = FourierFeatures.hexagonal([1.0, 1.6, 2.6], [0.0, 0.3, 0.7])
        >>> cells.encode(np.zeros((2, 5))).shape
        (18, 5)
        """
        lengths = features.scalar_or_sequence("scales", scales, features.wavelength)
        angles = features.scalar_or_sequence(
            "orientations", orientations, checks.finite_number, len(lengths), "scale"
        )
        directions = tuple(map(float, angles))
        cells = _exact_features(directional_frequencies("theory", tuple(lengths), directions))
        origins = _host_numbers("offsets", offsets)
        if origins.shape not in ((2,), (len(lengths), 2)):
            requirement = f"be a point (x, y), or {len(lengths)} points, one for each scale"
            raise wrong_value("offsets", requirement, f"shape {origins.shape}")
        origins = np.repeat(np.broadcast_to(origins, (len(lengths), 2)), 3, axis=0)
        with namespace.ignore_fp_errors():
            phases = -np.sum(cells.frequencies * origins, axis=1)
        return replace(cells, phases=phases)

    def encode(self, points: AnyArray, /, *, dtype: Dtype | None = None) -> Array:
        """Return the features of points.

        Parameters
        ----------
        points : array, shape (coordinates, *S), or S if `frequencies` have one axis
            Integer or real points. Real coordinates beyond 2**63 give NaN.
        dtype : dtype, optional
            Real floating-point dtype of the result. If None, the dtype of real points, or the
            library's default for integer ones.

        Returns
        -------
        array, shape (2 * waves, *S)
            Features in the library and on the device of `points`, exact for any magnitude of the
            points.

        Raises
        ------
        TypeError, ValueError
            If `points` is not an array of numbers, or its first axis has the wrong length.
        """
        backend, dtype = features.real_coordinates("points", points, dtype)
        self._check_points("points", points)
        return self._sinusoids.encode("fourier_features", points, dtype, backend)

    def shift(self, encoding: ArrayT, by: Any, /) -> ArrayT:
        """Return the encodings of points shifted by `by`, from the encodings of the points.

        Parameters
        ----------
        encoding : array, shape (2 * waves, *S)
            Encodings, or a sum of some.
        by : array, shape (coordinates, *T), or T if `frequencies` have one axis; or numbers
            How far: one point for all, as an array or as a number or list, or one for each. T
            broadcasts against S.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points + by)`` up to rounding, in the dtype of `encoding`.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, or shapes do not fit.

        Examples
        --------
        >>> waves = FourierFeatures.sinusoidal(64)
        >>> moved = waves.shift(waves.encode(np.arange(10.0)), 2.5)
        >>> np.allclose(moved, waves.encode(np.arange(10.0) + 2.5), rtol=0, atol=1e-15)
        True
        """
        return self._shifted(encoding, by, 1)  # type: ignore[no-any-return]

    def unshift(self, encoding: ArrayT, by: Any, /) -> ArrayT:
        """Return the encodings of points shifted by `-by`, from the encodings of the points.

        Parameters
        ----------
        encoding : array, shape (2 * waves, *S)
            Encodings, or a sum of some.
        by : array, shape (coordinates, *T), or T if `frequencies` have one axis; or numbers
            How far: one point for all, as an array or as a number or list, or one for each. T
            broadcasts against S.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points - by)`` up to rounding, in the dtype of `encoding`.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, or shapes do not fit.

        Examples
        --------
        >>> waves = FourierFeatures.sinusoidal(64)
        >>> moved = waves.unshift(waves.encode(np.arange(10.0)), 2.5)
        >>> np.allclose(moved, waves.encode(np.arange(10.0) - 2.5), rtol=0, atol=1e-15)
        True
        """
        return self._shifted(encoding, by, -1)  # type: ignore[no-any-return]

    def bind(self, a: ArrayT, b: ArrayT, /) -> ArrayT:
        """Return the encodings of sums of two points, from the encodings of each.

        Parameters
        ----------
        a, b : array, shape (2 * waves, *S) and (2 * waves, *T)
            Encodings, or sums of encodings; S and T broadcast.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points_a + points_b)`` up to rounding, in the dtype of `a`. For sums of
            encodings it is the sum over all pairs.

        Raises
        ------
        TypeError, ValueError
            If an array does not hold real floating-point numbers, or shapes do not fit.
        """
        return self._bind(a, b, 1)  # type: ignore[no-any-return]

    def unbind(self, a: ArrayT, b: ArrayT, /) -> ArrayT:
        """Return the encodings of differences of two points, from the encodings of each.

        Parameters
        ----------
        a, b : array, shape (2 * waves, *S) and (2 * waves, *T)
            Encodings, or sums of encodings; S and T broadcast.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points_a - points_b)`` up to rounding, in the dtype of `a`. For sums of
            encodings it is the sum over all pairs.

        Raises
        ------
        TypeError, ValueError
            If an array does not hold real floating-point numbers, or shapes do not fit.
        """
        return self._bind(a, b, -1)  # type: ignore[no-any-return]

    def kernel(self, difference: AnyArray, /, *, dtype: Dtype | None = None) -> Array:
        r"""Return the scalar product of the encodings of two points, from their difference.

        Parameters
        ----------
        difference : array, shape (coordinates, *S), or S if `frequencies` have one axis
            Differences of points.
        dtype : dtype, optional
            Real floating-point dtype of the result, as in `encode`.

        Returns
        -------
        array, shape S
            :math:`\sum_j w_j \cos(\omega_j \cdot d)`.

        Raises
        ------
        TypeError, ValueError
            If `difference` is not an array of numbers, or its first axis has the wrong length.

        Examples
        --------
        >>> waves = FourierFeatures.octaves(2)
        >>> waves.kernel(np.asarray([0.0, 0.5, 1.0, 2.0])).round(6) + 0.0
        array([ 2., -1.,  0.,  2.])
        """
        backend, dtype = features.real_coordinates("difference", difference, dtype)
        self._check_points("difference", difference)
        arguments = "kernel", self._kernel, [difference], 1, dtype, backend
        is_stacked = self.frequencies.ndim == 2
        return features.by_chunks(*arguments, is_stacked=is_stacked)[0, ...]

    def decode(
        self,
        encoding: AnyArray,
        bounds: Any,
        /,
        *,
        resolution: int | Sequence[int] | HostArray | None = None,
        count: int | None = None,
        return_strength: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Return the points with the most similar encodings.

        The search starts on a grid and continues by Newton steps.

        Parameters
        ----------
        encoding : array, shape (2 * waves, *S)
            Encodings, also noisy ones, or sums of the encodings of several points.
        bounds : list or array of float, shape (coordinates, 2), or (2,) for numbers
            Minimum and maximum of each coordinate.
        resolution : int, or a sequence of int, optional
            Number of grid points along each coordinate. If None, 10 per cycle of the fastest wave.
            With fewer than 4 per cycle, the result may be a neighbouring peak.
        count : int, optional
            Number of points in the sum, at most the number of features; 1 if None. Points are at
            least half a cycle of the fastest wave apart. If the sum has fewer points, the further
            points are noise of small strength, and slightly move the correct points.
        return_strength : bool, default False
            Whether to return the strength of each point.

        Returns
        -------
        points : array, shape (coordinates, *S), or S; (count, coordinates, *S) with a `count`
            Points within the bounds, the strongest first; in the dtype of `encoding`, float32 for
            half precision. NaN if no point is similar.
        strengths : array, shape S, or (count, *S) with a `count`
            If `return_strength` is True: factors of the points' encodings in the sum, 1 for the
            encoding of a single point. Small for noise, and 0 or less if no point is similar.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a shape is wrong, a minimum is not below its maximum, or the grid has more than 2**27
            features.

        Notes
        -----
        Each call encodes the grid once. The points of a sum are decoded one by one, after
        subtracting the encodings of the previous points, and refined in the same way. Without noise
        they are exact up to rounding, if their distance exceeds the width of the kernel.

        Examples
        --------
        >>> waves = FourierFeatures.sinusoidal(64)
        >>> both = waves.encode(np.asarray(120.25)) + 0.5 * waves.encode(np.asarray(710.5))
        >>> waves.decode(both, (0, 1000), count=2).round(6)
        array([120.25, 710.5 ])

        For an unknown number of points, select by strength:

        >>> points, strengths = waves.decode(both, (0, 1000), count=4, return_strength=True)
        >>> points[strengths > 0.3].round(1), strengths[strengths > 0.3].round(1)
        (array([120.2, 710.5]), array([1. , 0.5]))
        """
        checks.boolean("return_strength", return_strength)
        backend = get_backend(encoding=encoding)
        self._check_encoding("encoding", encoding, backend)
        points = 1 if count is None else checks.feature_count("count", count)
        if points > 2 * len(self.frequencies):
            requirement = f"be at most {2 * len(self.frequencies)}, the number of features"
            raise wrong_value("count", requirement, points)
        with namespace.ignore_fp_errors():  # frequencies of a coordinate may be zero
            grid = self._grid(bounds, resolution)
        decode, size = partial(self._decode, grid=grid, count=points), len(grid.lower_bound)
        arguments = "decode", decode, [encoding], points * (size + 1), backend.dtype, backend
        rows = features.by_chunks(*arguments, is_stacked=True)
        decoded = [rows[i * size : (i + 1) * size, ...] for i in range(points)]
        if self.frequencies.ndim == 1:
            decoded = [point[0, ...] for point in decoded]
        result = backend.xp.stack(decoded), rows[points * size :, ...]
        result = result if count is not None else (decoded[0], result[1][0, ...])
        return result if return_strength else result[0]

    def _shifted(self, encoding: Array, by: Any, sign: int) -> Array:
        backend = get_backend(encoding=encoding)
        if namespace.is_real_number(by) or isinstance(by, list | tuple):
            numbers = features.scalar_or_sequence("by", by, checks.finite_number)
            # Integers beyond 2**53 are exact only in an integer dtype.
            max_distance = max(map(abs, numbers))
            are_far = all(isinstance(x, int) for x in numbers) and max_distance > 2**53
            bits = backend.xp.iinfo(backend.int_dtype).bits - 1 if are_far else 63
            if max_distance >= 2**bits:
                raise wrong_value("by", f"be within 2**{bits} of 0", format_value(by))
            dtype = backend.int_dtype if are_far else backend.widest_float_dtype
            numbers = numbers[0] if namespace.is_real_number(by) else numbers
            by = backend.xp.asarray(numbers, dtype=dtype, device=backend.device)
        backend = get_backend(encoding=encoding, by=by)
        self._check_encoding("encoding", encoding, backend)
        checks.real("by", by, backend.xp)
        self._check_points("by", by)
        _check_broadcast("by", by.shape[self.frequencies.ndim - 1 :], encoding)
        rotation = Sinusoids(self._sinusoids.frequencies, "concatenated")
        rotation = rotation.encode("fourier_features", by, backend.dtype, backend)
        sin, cos = split_pairs(rotation, 0, "half", len(self.frequencies))
        return self._rotate(encoding, (sign * sin, cos), backend)

    def _bind(self, a: Array, b: Array, sign: int) -> Array:
        backend = get_backend(a=a, b=b)
        self._check_encoding("a", a, backend)
        self._check_encoding("b", b, backend)
        _check_broadcast("b", b.shape[1:], a)
        # Binding with the inverse of the encoding of 0 removes weights and phases.
        origin = np.exp(-1j * np.asarray(self.phases)) / np.sqrt(self.weights)
        origin = np.broadcast_to(origin, (len(self.frequencies),))
        parts = (tuple(part.tolist()) for part in (origin.imag, origin.real))
        phasors = tuple(features.as_column(x, 0, backend) for x in parts)
        with backend.compute_context(b):
            sin, cos = angle_sum(self._pair(b, backend), phasors)
            return self._rotate(a, (sign * sin, cos), backend)

    def _pair(self, encoding: Array, backend: Backend) -> SinCos:
        """Return the sines and cosines, (wave, *S), of an encoding, in the compute dtype."""
        upcast, sinusoids = backend.astype(encoding, backend.dtype), self._sinusoids
        layout, count = PAIR_LAYOUTS[self.arrangement], len(self.frequencies)
        return sinusoids.order_sin_cos(*split_pairs(upcast, 0, layout, count))

    def _rotate(self, encoding: Array, rotation: SinCos, backend: Backend) -> Array:
        """Rotate the waves of an encoding by the angles of sines and cosines."""
        with backend.compute_context(encoding):
            pair = self._sinusoids.order_sin_cos(
                *angle_sum(self._pair(encoding, backend), rotation)
            )
            joined = join_pairs(*pair, 0, PAIR_LAYOUTS[self.arrangement], backend.xp)
            return backend.astype(joined, encoding.dtype)

    def _check_points(self, name: str, points: Array) -> None:
        """Check the number of coordinates on the first axis of points."""
        if self.frequencies.ndim == 2:
            features.check_first_axis(name, points, self.frequencies.shape[1], "coordinates")

    def _check_encoding(self, name: str, encoding: Array, backend: Backend) -> None:
        """Check the dtype and the number of features of encodings."""
        checks.real_floating(backend.xp, **{name: encoding})
        features.check_first_axis(name, encoding, 2 * len(self.frequencies), "features")

    def _kernel(self, difference: Array, *, dtype: Dtype, backend: Backend) -> Array:
        """Return the kernel of differences, (1, *S), computed in blocks."""
        weights: Any = self.weights
        sinusoids = Sinusoids(self._sinusoids.frequencies, "concatenated", weights, cos_first=True)
        axes, size = self.frequencies.ndim - 1, 2 * len(self.frequencies)
        shape = difference.shape[axes:]
        flat = backend.xp.reshape(difference, (*difference.shape[:axes], prod(shape)))
        blocks = block_slices(prod(shape), max(1, _BLOCK_ELEMENTS // size)) or [slice(0, 0)]
        parts = (
            sinusoids.encode_chunk(flat[..., b], backend.widest_float_dtype, backend)
            for b in blocks
        )
        sums = [backend.xp.sum(part[: size // 2, ...], axis=0) for part in parts]
        return backend.astype(backend.xp.reshape(backend.xp.concat(sums), (1, *shape)), dtype)

    def _grid(self, bounds: Any, resolution: Any) -> Grid:
        """Return the grid of points within bounds."""
        table = np.asarray(self.frequencies, copy=True)  # PyTorch warns of read-only arrays
        frequencies = np.reshape(table, (len(table), -1))
        size = frequencies.shape[1]
        ends = _host_numbers("bounds", bounds)
        if ends.shape != (*self.frequencies.shape[1:], 2):
            suffix = f" for each of {size} coordinates" if self.frequencies.ndim == 2 else ""
            raise wrong_value("bounds", f"be a pair (min, max){suffix}", f"shape {ends.shape}")
        lower, upper = ends.reshape(size, 2).T
        if not np.all(lower < upper):
            raise wrong_value("bounds", "increase", bounds)
        fastest = np.max(np.abs(frequencies), axis=0)
        counts = np.ceil(_POINTS_PER_CYCLE / (2 * pi) * fastest * (upper - lower)) + 1
        if resolution is not None:
            counts = features.scalar_or_sequence(
                "resolution", resolution, checks.feature_count, size, "coordinate"
            )
        if 2 * len(frequencies) * prod(counts) > _MAX_GRID_ELEMENTS:
            requirement = (
                f"give at most 2**27 numbers, of {2 * len(frequencies)} features at each point"
            )
            actual = f"{prod(counts):,.0f} points"
            raise wrong_value("resolution", requirement, actual, " Pass it, or narrower bounds.")
        lines = [np.linspace(*line) for line in zip(lower, upper, map(int, counts), strict=True)]
        points = np.reshape(np.meshgrid(*lines, indexing="ij"), (size, -1))
        sinusoids = self._sinusoids._replace(arrangement="concatenated", cos_first=False)
        rows = np.reshape(points, (*self.frequencies.shape[1:], -1))
        weights = np.broadcast_to(self.weights, (len(frequencies),))
        return Grid(
            points,
            sinusoids.encode_chunk(rows, np.float64, NUMPY_BACKEND),
            lower[:, None],
            upper[:, None],
            pi / fastest[:, None],
            frequencies,
            np.linalg.pinv((frequencies.T * weights) @ frequencies),
            np.sum(weights),
        )

    def _decode(
        self, encoding: Array, *, dtype: Dtype, backend: Backend, grid: Grid, count: int
    ) -> Array:
        """Decode encodings in one chunk to rows (row, *S): points, then strengths."""
        shape, xp = encoding.shape[1:], backend.xp
        upcast = xp.concat(list(self._pair(encoding, backend)), axis=0)
        upcast = backend.astype(
            xp.reshape(upcast, (upcast.shape[0], prod(shape))), backend.widest_float_dtype
        )
        points = decode_points(upcast, grid, count, backend.with_dtype(backend.widest_float_dtype))
        return backend.astype(xp.reshape(points, (points.shape[0], *shape)), dtype)


def _exact_features(digits: Any, **options: Any) -> FourierFeatures:
    """Return features with exact frequencies."""
    return FourierFeatures(_radians(digits), digits=digits, **options)


def _radians(digits: Any) -> Array:
    """Return the frequencies, (wave,) for a string, or (wave, coordinate) for a tuple."""
    columns: Any = (digits,) if isinstance(digits, str) else digits
    try:
        table = np.asarray([in_radians(column) for column in columns]).T
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        requirement = "be None, or the digits of other features"
        raise wrong_type("digits", requirement, format_value(digits)) from None
    return table[:, 0] if isinstance(digits, str) else table


def _wave_numbers(
    name: str, values: Any, check: Callable[[str, Any], float], count: int
) -> float | tuple[float, ...]:
    """Check a number, or the numbers of all waves, and return a float or a tuple."""
    if namespace.is_real_number(values):
        return float(check(name, values))
    return tuple(map(float, features.scalar_or_sequence(name, values, check, count, "wave")))


def _host_numbers(name: str, values: Any) -> HostArray:
    """Check the numbers of lists or a NumPy array and return them in float64."""
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError):  # ragged lists, or a device array
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iuf":
        raise wrong_type(name, "be numbers, in lists or an array of NumPy", format_value(values))
    if not np.all(np.isfinite(numbers)):
        raise wrong_value(name, "be finite", format_value(values))
    return numbers.astype(np.float64)  # type: ignore[no-any-return]


def _check_broadcast(name: str, shape: namespace.Shape, encoding: Array) -> None:
    """Check that a shape of points broadcasts against the points of an encoding."""
    if not checks.shapes_broadcast([shape, encoding.shape[1:]]):
        requirement = (
            f"broadcast against the points of the encoding, of shape {tuple(encoding.shape[1:])}"
        )
        raise wrong_value(name, requirement, f"points of shape {tuple(shape)}")
