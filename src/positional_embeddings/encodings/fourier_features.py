"""Encodings to compute with: points that are moved, added, compared and read back."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import pi, prod, sqrt
from typing import Annotated, Any, TypeAlias

from positional_embeddings.angles.cos_sin import HOST
from positional_embeddings.angles.frequencies import from_radians, geometric_frequencies, in_radians
from positional_embeddings.angles.pairs import join_pairs, split_pairs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.caching import read_only
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import format_value, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import AnyArray, Array, ArrayT, Dtype, HostArray, np
from positional_embeddings.encodings import features
from positional_embeddings.encodings.decoding import Grid, decode_points
from positional_embeddings.encodings.features import (
    LAYOUTS,
    Arrangement,
    SinCos,
    Sinusoids,
    angle_sum,
)
from positional_embeddings.encodings.fourier import octave_wavelengths
from positional_embeddings.encodings.grid_cells import directional_frequencies
from positional_embeddings.encodings.random_fourier import SpectralKernel, drawn_frequencies

_MOST_WAVES, _HIGHEST_FREQUENCY = 2**19, 2.0**103  # those that are drawn are below
# Points of a grid in a cycle of the fastest wave; at the nearest one it is at least cos(pi / 10).
_POINTS_OF_A_CYCLE = 10
# Numbers of the encodings of a grid, 1 GiB, and those that a kernel adds at a time.
_NUMBERS_OF_A_GRID, _NUMBERS_OF_A_BLOCK = 2**27, 2**22

Numbers: TypeAlias = float | Sequence[float] | HostArray


@dataclass(frozen=True)
class FourierFeatures(checks.CheckedDataclass):
    r"""Sines and cosines of points that one can compute with: move, add, compare and read back.

    Wave :math:`j` of a point :math:`x` is the pair of features :math:`\sqrt{w_j}\,(\sin, \cos)` of
    :math:`\omega_j \cdot x + \varphi_j`. An immutable value, tied to no library.

    Parameters
    ----------
    frequencies : list or array of float, shape (waves,) or (waves, coordinates)
        :math:`\omega`, radians in a unit of each coordinate, within 2**103; at most 2**19 waves.
        With one axis, points are numbers; with two, they have their coordinates on axis 0.
    weights : float, or sequence of float, default 1.0
        :math:`w`, positive, of all waves or of each: what a wave adds to a scalar product.
    phases : float, or sequence of float, default 0.0
        :math:`\varphi`, radians, of all waves or of each.
    arrangement : {"interleaved", "concatenated"}, default "interleaved"
        Sine and cosine of each wave side by side, or all sines and then all cosines.
    cos_first : bool, default False
        Each cosine, or all cosines, before the sines.
    digits : str or tuple of str, optional
        The frequencies in cycles, of 60 digits, separated by blanks: one text for each coordinate.
        `sinusoidal` and others give them, so that ``dataclasses.replace`` keeps points far from 0
        exact. If None, the `frequencies` are exact as they are.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a shape is wrong, a number out of range, or `digits` are of other frequencies.

    References
    ----------
    Rahimi and Recht (2007), Random Features for Large-Scale Kernel Machines; Plate (1995),
    Holographic Reduced Representations; Komer et al. (2019), A neural representation of continuous
    space using fractional binding; Frady et al. (2022), Computing on functions using randomized
    vector representations, section 3.

    Examples
    --------
    A memory of two things in a plane, each a random vector that is bound to its place:

    >>> import numpy as np
    >>> space = FourierFeatures.random(2, 512, length_scale=0.5, rng=0)
    >>> key, cup = (space.encode(np.asarray(x)) for x in ([900.0, -77.0], [-31.0, 505.0]))
    >>> memory = space.bind(key, space.encode(np.asarray([1.0, 4.0])))
    >>> memory = memory + space.bind(cup, space.encode(np.asarray([3.0, 2.0])))
    >>> space.decode(space.unbind(memory, cup), [(0, 5), (0, 5)]).round(1)  # where is the cup?
    array([3., 2.])
    """

    frequencies: Any = field(compare=False)
    _: KW_ONLY
    weights: Numbers = 1.0
    phases: Numbers = 0.0
    arrangement: Annotated[Arrangement, checks.one_of(Arrangement)] = "interleaved"
    cos_first: Annotated[bool, checks.boolean] = False
    digits: str | tuple[str, ...] | None = field(default=None, repr=False)
    _waves: Sinusoids = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_fields()
        table = _host_numbers("frequencies", self.frequencies)
        if table.ndim not in (1, 2) or not 1 <= len(table) <= _MOST_WAVES or 0 in table.shape:
            requirement = "have shape (waves,) or (waves, coordinates), 1 to 2**19 waves"
            raise wrong_value("frequencies", requirement, f"shape {table.shape}")
        if np.max(np.abs(table)) > _HIGHEST_FREQUENCY:
            raise wrong_value("frequencies", "be within 2**103", float(np.max(np.abs(table))))
        weights = _wave_numbers("weights", self.weights, checks.positive_number, len(table))
        phases = _wave_numbers("phases", self.phases, checks.finite_number, len(table))
        digits = self.digits
        if digits is None:
            columns = [from_radians(tuple(c), 1.0) for c in np.atleast_2d(table.T).tolist()]
            digits = columns[0] if table.ndim == 1 else tuple(columns)
        elif not np.array_equal(_radians(digits), table):
            requirement = "be None, or digits that round to `frequencies`"
            raise wrong_value("digits", requirement, "digits of others")
        amplitude = sqrt(weights) if isinstance(weights, float) else tuple(map(sqrt, weights))
        phase_list = np.broadcast_to(phases, table.shape[:1]).tolist()
        cycles = from_radians(tuple(phase_list), 1.0) if any(phase_list) else ""
        sinusoids = Sinusoids(digits, self.arrangement, amplitude, self.cos_first, cycles)
        own = {"frequencies": read_only(table), "weights": weights, "phases": phases}
        checks.set_fields(self, **own, digits=digits, _waves=sinusoids)

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
            Of numbers, ``dim / 2`` waves, all of weight 1.

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
            One wavelength or several, in the unit of the points, from 2**-64 to 2**100.

        Returns
        -------
        FourierFeatures
            Of numbers, all waves of weight 1.

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
        """Return waves each of which is half as long as the one before, as NeRF has them.

        Parameters
        ----------
        n, longest
            Number of waves, and the wavelength of the first, as of `octave_wavelengths`.

        Returns
        -------
        FourierFeatures
            Of numbers, all waves of weight 1.

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
        """Return random waves whose `kernel` approaches a kernel: random Fourier features.

        Parameters
        ----------
        coordinates : int
            Number of coordinates of a point, 1 to 2**20.
        dim : int
            Number of features, positive and even, at most 2**20.
        length_scale, kernel, nu, period, orthogonal, rng
            As of `random_fourier_encoding`, which has the same features up to rounding.

        Returns
        -------
        FourierFeatures
            Of points (coordinates, ...), all waves of weight ``2 / dim``: encodings have length 1.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.

        Examples
        --------
        >>> space = FourierFeatures.random(3, 256, length_scale=2.0, kernel="cauchy", rng=0)
        >>> space.frequencies.shape
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
        r"""Return waves of a plane whose sums are hexagonal patterns, as grid cells have them.

        Parameters
        ----------
        scales : float, or list, tuple or 1-D NumPy array of floats
            Distance of two neighbouring crests of each pattern, as the `wavelengths` of
            `grid_cell_encoding`: its fields are :math:`2/\sqrt{3}` of it apart.
        orientations : float, or list, tuple or 1-D NumPy array of floats, default 0.0
            Angle of the first of three waves to the x axis, in radians, for all scales or each.
        offsets : list or array of float, shape (2,) or (scales, 2), default (0.0, 0.0)
            Point (x, y) where a pattern has a crest: the phases of all scales or of each.

        Returns
        -------
        FourierFeatures
            Of points (2, ...), three waves of weight 1 for each scale.

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
        each = len(lengths), "scale"
        angles = features.scalar_or_sequence(
            "orientations", orientations, checks.finite_number, *each
        )
        directions = tuple(map(float, angles))
        cells = _exact_features(directional_frequencies("theory", tuple(lengths), directions))
        origins = _host_numbers("offsets", offsets)
        if origins.shape not in ((2,), (len(lengths), 2)):
            requirement = f"be a point (x, y), or {len(lengths)} of them, one for each scale"
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
            Integer or real points. Real ones beyond 2**63 give NaN.
        dtype : dtype, optional
            Real floating-point dtype of the result. If None, the dtype of real points, or the
            library's default for integer ones.

        Returns
        -------
        array, shape (2 * waves, *S)
            In the library and on the device of `points`, exact however far from 0 they are.

        Raises
        ------
        TypeError, ValueError
            If `points` is not an array of numbers, or its first axis does not fit.
        """
        backend, dtype = features.real_coordinates("points", points, dtype)
        self._check_points("points", points)
        return self._waves.encode("fourier_features", points, dtype, backend)

    def shift(self, encoding: ArrayT, by: Any, /) -> ArrayT:
        """Return the encodings of the points moved by `by`, from the encodings of the points.

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
        """Return the encodings of the points moved back by `by`, from the encodings of the points.

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
        """Return the encodings of sums of points, from the encodings of both.

        Parameters
        ----------
        a, b : array, shape (2 * waves, *S) and (2 * waves, *T)
            Encodings, or sums of some; S and T broadcast.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points_a + points_b)`` up to rounding, in the dtype of `a`. Of sums of
            encodings it is the sum over all pairs.

        Raises
        ------
        TypeError, ValueError
            If an array does not hold real floating-point numbers, or shapes do not fit.
        """
        return self._bind(a, b, 1)  # type: ignore[no-any-return]

    def unbind(self, a: ArrayT, b: ArrayT, /) -> ArrayT:
        """Return the encodings of differences of points, from the encodings of both.

        Parameters
        ----------
        a, b : array, shape (2 * waves, *S) and (2 * waves, *T)
            Encodings, or sums of some; S and T broadcast.

        Returns
        -------
        array, shape (2 * waves, *S) after broadcasting
            ``encode(points_a - points_b)`` up to rounding, in the dtype of `a`. Of sums of
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
            If `difference` is not an array of numbers, or its first axis does not fit.

        Examples
        --------
        >>> waves = FourierFeatures.octaves(2)
        >>> waves.kernel(np.asarray([0.0, 0.5, 1.0, 2.0])).round(6) + 0.0
        array([ 2., -1.,  0.,  2.])
        """
        backend, dtype = features.real_coordinates("difference", difference, dtype)
        self._check_points("difference", difference)
        kernel, is_stacked = partial(self._kernel, dtype=dtype), self.frequencies.ndim == 2
        arguments = "kernel", kernel, [difference], 1, dtype, backend
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
        """Return the points whose encodings are most similar.

        They are looked for on a grid, and from there by Newton's steps.

        Parameters
        ----------
        encoding : array, shape (2 * waves, *S)
            Encodings, with noise or without, or sums of the encodings of several points.
        bounds : list or array of float, shape (coordinates, 2), or (2,) for numbers
            Least and largest value of each coordinate.
        resolution : int, or a sequence of one for each coordinate, optional
            Number of points of the grid along a coordinate. If None, 10 to a cycle of the fastest
            wave. With fewer than 4, a neighbouring peak may be found.
        count : int, optional
            Number of different points, at least half a cycle of the fastest wave apart, that the
            encoding is a sum of; at most the number of features. If None, one. If the encoding
            holds fewer, the further points are noise of small strength, and the others move a
            little.
        return_strength : bool, default False
            Also return how strong each point is in the encoding.

        Returns
        -------
        points : array, shape (coordinates, *S), or S; (count, coordinates, *S) with a `count`
            Points within the bounds, the strongest of a sum first; in the dtype of `encoding`,
            float32 for half precision. NaN where no point is similar.
        strengths : array, shape S, or (count, *S) with a `count`
            With `return_strength`: the factors on the encodings of the points in the sum, 1 for
            the encoding of a point alone. Small for points that are noise, and 0 or less where no
            point is similar.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If a shape is wrong, a bound is not below the other one, or the grid has more than 2**27
            features.

        Notes
        -----
        The encodings of a grid are made once a call, for all encodings. Points of a sum are found
        one by one, each after the others are subtracted, and then refined in the same way. Without
        noise they are exact to rounding, if they are farther apart than the kernel is wide.

        Examples
        --------
        >>> waves = FourierFeatures.sinusoidal(64)
        >>> both = waves.encode(np.asarray(120.25)) + 0.5 * waves.encode(np.asarray(710.5))
        >>> waves.decode(both, (0, 1000), count=2).round(6)
        array([120.25, 710.5 ])

        Of a sum of an unknown number of points, take those that are strong:

        >>> points, strengths = waves.decode(both, (0, 1000), count=4, return_strength=True)
        >>> points[strengths > 0.3].round(1), strengths[strengths > 0.3].round(1)
        (array([120.2, 710.5]), array([1. , 0.5]))
        """
        checks.boolean("return_strength", return_strength)
        backend = get_backend(encoding=encoding)
        self._check_encoding("encoding", encoding, backend)
        most = 1 if count is None else checks.feature_count("count", count)
        if most > 2 * len(self.frequencies):
            requirement = f"be at most {2 * len(self.frequencies)}, the number of features"
            raise wrong_value("count", requirement, most)
        with namespace.ignore_fp_errors():  # a wave along one coordinate has no cycle along others
            grid = self._grid(bounds, resolution)
        decode, size = partial(self._decode, grid=grid, count=most), len(grid.least)
        arguments = "decode", decode, [encoding], most * (size + 1), backend.dtype, backend
        rows = features.by_chunks(*arguments, is_stacked=True)
        points = [rows[i * size : (i + 1) * size, ...] for i in range(most)]
        if self.frequencies.ndim == 1:
            points = [point[0, ...] for point in points]
        both = backend.xp.stack(points), rows[most * size :, ...]
        both = both if count is not None else (points[0], both[1][0, ...])
        return both if return_strength else both[0]

    def _shifted(self, encoding: Array, by: Any, sign: int) -> Array:
        backend = get_backend(encoding=encoding)
        if namespace.is_real_number(by) or isinstance(by, list | tuple):
            numbers = features.scalar_or_sequence("by", by, checks.finite_number)
            # Integers that floats round are exact as integers.
            farthest = max(map(abs, numbers))
            are_far = all(isinstance(x, int) for x in numbers) and farthest > 2**53
            bits = backend.xp.iinfo(backend.integer).bits - 1 if are_far else 63
            if farthest >= 2**bits:
                raise wrong_value("by", f"be within 2**{bits} of 0", format_value(by))
            dtype = backend.integer if are_far else backend.widest
            numbers = numbers[0] if namespace.is_real_number(by) else numbers
            by = backend.xp.asarray(numbers, dtype=dtype, device=backend.device)
        backend = get_backend(encoding=encoding, by=by)
        self._check_encoding("encoding", encoding, backend)
        checks.real("by", by, backend.xp)
        self._check_points("by", by)
        _check_broadcast("by", by.shape[self.frequencies.ndim - 1 :], encoding)
        turn = Sinusoids(self._waves.frequencies, "concatenated")
        turn = turn.encode("fourier_features", by, backend.dtype, backend)
        sin, cos = split_pairs(turn, 0, "half", len(self.frequencies))
        return self._turn(encoding, (sign * sin, cos), backend)

    def _bind(self, a: Array, b: Array, sign: int) -> Array:
        backend = get_backend(a=a, b=b)
        self._check_encoding("a", a, backend)
        self._check_encoding("b", b, backend)
        _check_broadcast("b", b.shape[1:], a)
        # From the encoding of a point to its phasors, of size 1 and without phases.
        origin = np.exp(-1j * np.asarray(self.phases)) / np.sqrt(self.weights)
        origin = np.broadcast_to(origin, (len(self.frequencies),))
        parts = (tuple(part.tolist()) for part in (origin.imag, origin.real))
        phasors = tuple(features.as_column(x, 0, backend) for x in parts)
        with backend.compute_context(b):
            sin, cos = angle_sum(self._pair(b, backend), phasors)
            return self._turn(a, (sign * sin, cos), backend)

    def _pair(self, encoding: Array, backend: Backend) -> SinCos:
        """Return sines and cosines, (wave, *S), of an encoding, in the dtype to compute in."""
        wide, sinusoids = backend.astype(encoding, backend.dtype), self._waves
        layout, count = LAYOUTS[self.arrangement], len(self.frequencies)
        return sinusoids.in_order(*split_pairs(wide, 0, layout, count))

    def _turn(self, encoding: Array, turn: SinCos, backend: Backend) -> Array:
        """Return an encoding whose waves are turned by angles of sines and cosines."""
        with backend.compute_context(encoding):
            pair = self._waves.in_order(*angle_sum(self._pair(encoding, backend), turn))
            joined = join_pairs(*pair, 0, LAYOUTS[self.arrangement], backend.xp)
            return backend.astype(joined, encoding.dtype)

    def _check_points(self, name: str, points: Array) -> None:
        """Check that points have as many coordinates on their first axis as the frequencies."""
        if self.frequencies.ndim == 2:
            features.check_first_axis(name, points, self.frequencies.shape[1], "coordinates")

    def _check_encoding(self, name: str, encoding: Array, backend: Backend) -> None:
        """Check that an array holds encodings, features on its first axis."""
        checks.real_floating(backend.xp, **{name: encoding})
        features.check_first_axis(name, encoding, 2 * len(self.frequencies), "features")

    def _kernel(self, difference: Array, backend: Backend, *, dtype: Dtype) -> Array:
        """Return the kernel of differences, (1, *S), which are computed in blocks."""
        weights: Any = self.weights
        sinusoids = Sinusoids(self._waves.frequencies, "concatenated", weights, cos_first=True)
        axes, size = self.frequencies.ndim - 1, 2 * len(self.frequencies)
        shape = difference.shape[axes:]
        flat = backend.xp.reshape(difference, (*difference.shape[:axes], prod(shape)))
        blocks = cuts(prod(shape), max(1, _NUMBERS_OF_A_BLOCK // size)) or [slice(0, 0)]
        parts = (sinusoids.encode_chunk(flat[..., b], backend.widest, backend) for b in blocks)
        sums = [backend.xp.sum(part[: size // 2, ...], axis=0) for part in parts]
        return backend.astype(backend.xp.reshape(backend.xp.concat(sums), (1, *shape)), dtype)

    def _grid(self, bounds: Any, resolution: Any) -> Grid:
        """Return the points among which an encoding is looked for."""
        table = np.asarray(self.frequencies, copy=True)  # PyTorch warns of what is read-only
        frequencies = np.reshape(table, (len(table), -1))
        size = frequencies.shape[1]
        ends = _host_numbers("bounds", bounds)
        if ends.shape != (*self.frequencies.shape[1:], 2):
            each = f" for each of {size} coordinates" if self.frequencies.ndim == 2 else ""
            raise wrong_value("bounds", f"be a pair (least, most){each}", f"shape {ends.shape}")
        least, most = ends.reshape(size, 2).T
        if not np.all(least < most):
            raise wrong_value("bounds", "increase", bounds)
        fastest = np.max(np.abs(frequencies), axis=0)
        counts = np.ceil(_POINTS_OF_A_CYCLE / (2 * pi) * fastest * (most - least)) + 1
        if resolution is not None:
            noun = size, "coordinate"
            counts = features.scalar_or_sequence(
                "resolution", resolution, checks.feature_count, *noun
            )
        if 2 * len(frequencies) * prod(counts) > _NUMBERS_OF_A_GRID:
            requirement = (
                f"give at most 2**27 numbers, of {2 * len(frequencies)} features at each point"
            )
            actual = f"{prod(counts):,.0f} points"
            raise wrong_value("resolution", requirement, actual, " Pass it, or narrower bounds.")
        lines = [np.linspace(*line) for line in zip(least, most, map(int, counts), strict=True)]
        points = np.reshape(np.meshgrid(*lines, indexing="ij"), (size, -1))
        sinusoids = self._waves._replace(arrangement="concatenated", cos_first=False)
        places = np.reshape(points, (*self.frequencies.shape[1:], -1))
        weights = np.broadcast_to(self.weights, (len(frequencies),))
        return Grid(
            points,
            sinusoids.encode_chunk(places, np.float64, HOST),
            least[:, None],
            most[:, None],
            pi / fastest[:, None],
            frequencies,
            np.linalg.pinv((frequencies.T * weights) @ frequencies),
            np.sum(weights),
        )

    def _decode(self, encoding: Array, backend: Backend, *, grid: Grid, count: int) -> Array:
        """Return the points of encodings in one chunk, and then their strengths, (row, *S)."""
        shape, xp = encoding.shape[1:], backend.xp
        wide = xp.concat(list(self._pair(encoding, backend)), axis=0)
        wide = backend.astype(xp.reshape(wide, (wide.shape[0], prod(shape))), backend.widest)
        points = decode_points(wide, grid, count, backend.with_dtype(backend.widest))
        return backend.astype(xp.reshape(points, (points.shape[0], *shape)), backend.dtype)


def _exact_features(digits: Any, **options: Any) -> FourierFeatures:
    """Return features of exact frequencies."""
    return FourierFeatures(_radians(digits), digits=digits, **options)


def _radians(digits: Any) -> Array:
    """Return the frequencies, (wave,) of a text, or (wave, coordinate) of one for each of these."""
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
    """Return one number, or a number of each wave."""
    if namespace.is_real_number(values):
        return float(check(name, values))
    return tuple(map(float, features.scalar_or_sequence(name, values, check, count, "wave")))


def _host_numbers(name: str, values: Any) -> HostArray:
    """Return finite numbers of lists, or of an array of NumPy, in float64."""
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError):  # lists of several lengths, or an array of a device
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iuf":
        raise wrong_type(name, "be numbers, in lists or an array of NumPy", format_value(values))
    if not np.all(np.isfinite(numbers)):
        raise wrong_value(name, "be finite", format_value(values))
    return numbers.astype(np.float64)  # type: ignore[no-any-return]


def _check_broadcast(name: str, shape: namespace.Shape, encoding: Array) -> None:
    """Check that points, without their coordinates, broadcast against an encoding's points."""
    if not checks.shapes_broadcast([shape, encoding.shape[1:]]):
        requirement = (
            f"broadcast against the points of the encoding, of shape {tuple(encoding.shape[1:])}"
        )
        raise wrong_value(name, requirement, f"points of shape {tuple(shape)}")
