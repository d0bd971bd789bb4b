"""Features that are cosines and sines: their arrangement, their blocks, their wavelengths."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from positional_embeddings.angles.cos_sin import (
    MAX_COORDINATES,
    cos_sin,
    cos_sin_of_sum,
    fill_cos_sin_of_sum,
)
from positional_embeddings.angles.cupy_kernel import cos_sin_of_sum_by_kernel
from positional_embeddings.angles.frequencies import DIGITS, Frequencies, in_cycles
from positional_embeddings.angles.pairs import join_pairs, split_pairs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.caching import cached_constant, constant_array
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import (
    format_value,
    plural,
    remedy_for,
    wrong_type,
    wrong_value,
)
from positional_embeddings.arrays.namespace import Array, Dtype, np

Arrangement = Literal["interleaved", "concatenated"]
ARRANGEMENTS = get_args(Arrangement)
LAYOUTS = {"interleaved": "interleaved", "concatenated": "half"}
# 60 digits of a frequency are enough for 64-bit integers down to here. Float32 holds both ends,
# and their quarters.
SHORTEST, LONGEST = 2.0**-64, 2.0**100

# Numbers of features of NumPy's arrays that are computed at a time, few enough for the cache.
_NUMBERS_OF_A_BLOCK = 2**15

SinCos: TypeAlias = tuple[Array, Array]  # sines and cosines, each (pair, *shape)


def real_coordinates(name: str, x: Array, dtype: Dtype | None) -> tuple[Backend, Dtype]:
    """Return the space of real or integer coordinates and the dtype of their features."""
    backend = get_backend(**{name: x})
    checks.real(name, x, backend.xp)
    return backend, checks.feature_dtype(x, dtype, backend)


def check_first_axis(name: str, x: Array, size: int, requirement: str) -> None:
    """Check that an array has a first axis of `size`, of what is named."""
    if not x.ndim or checks.lengths_differ(x.shape[0], size):
        raise wrong_value(name, f"have shape ({size}, ...), {requirement} first", tuple(x.shape))


def by_chunks(
    name: str,
    encode: Callable[..., Array],
    coordinates: Sequence[Array],
    count: int,
    dtype: Dtype,
    backend: Backend,
    *,
    is_stacked: bool = False,
) -> Array:
    """Return ``encode(*coordinates, space=space)``, an array (count, *shape) of a dtype.

    On a chunked library each chunk is encoded in one task, as an array of NumPy is.
    The coordinates broadcast to the shape; if `is_stacked`, there is one array of them, which has
    a first axis in place of the features.
    """
    if not backend.is_chunked:
        with backend.compute_context(coordinates[0]):
            return encode(*coordinates, backend=backend)
    rank = max(x.ndim for x in coordinates)
    lengths: dict[int, tuple[Any, ...]] = {}  # of chunks, by axis from the last one
    for x in coordinates:
        x_chunks = backend.chunks(x)
        lengths |= {axis - x.ndim: x_chunks[axis] for axis, n in enumerate(x.shape) if n != 1}
    if is_stacked:
        lengths[-rank] = (coordinates[0].shape[0],)
    chunked = [
        backend.rechunk(x, {axis: lengths.get(axis - x.ndim, (1,)) for axis in range(x.ndim)})
        for x in coordinates
    ]
    chunks = ((count,), *[lengths.get(axis, (1,)) for axis in range(-rank, 0)][is_stacked:])
    encode_chunk = partial(_encode_chunk, encode)
    return backend.map_chunks(encode_chunk, *chunked, chunks=chunks, dtype=dtype, name=name)


def _encode_chunk(encode: Callable[..., Array], *coordinates: Array) -> Array:
    return encode(*coordinates, backend=get_backend(x=coordinates[0]))


class Sinusoids(NamedTuple):
    """Sines and cosines of frequencies times points, and how they become features."""

    # One for each coordinate; a single one if points have no axis of coordinates.
    frequencies: Frequencies | tuple[Frequencies, ...]
    arrangement: str = "interleaved"
    amplitude: float | tuple[float, ...] = 1.0  # of all waves, or of each
    cos_first: bool = False
    phases: Frequencies = ""  # in cycles, none if empty
    is_drawn: bool = False  # at random, so that few phases are whole quadrants

    def coordinate_frequencies(self) -> tuple[Frequencies, ...]:
        """Return the frequencies of each coordinate; phases come last, as a coordinate of 1."""
        frequencies = self.frequencies
        frequencies = (frequencies,) if isinstance(frequencies, str) else frequencies
        return (*frequencies, self.phases) if self.phases else frequencies

    def encode(self, name: str, points: Array, dtype: Dtype, backend: Backend) -> Array:
        """Return the features of points, two for each wave."""
        encode = partial(self.encode_chunk, dtype=dtype)
        count = 2 * len(in_cycles(self.coordinate_frequencies()[0]))
        is_stacked = not isinstance(self.frequencies, str)
        return by_chunks(name, encode, [points], count, dtype, backend, is_stacked=is_stacked)

    def encode_chunk(self, points: Array, dtype: Dtype, backend: Backend) -> Array:
        """Return the features of points in one chunk."""
        xp, frequencies = backend.xp, self.coordinate_frequencies()
        pairs, layout = len(in_cycles(frequencies[0])), LAYOUTS[self.arrangement]
        work = dtypes.compute_dtype(dtype, xp)
        if isinstance(self.frequencies, str):
            if not self.phases:
                return self._encode_line(points, frequencies[0], dtype, backend)
            points = points[None, ...]
        if self.phases:
            points = xp.concat([points, xp.ones_like(points[:1, ...])], axis=0)
        shape = points.shape[1:]
        factor = as_column(self.amplitude, len(shape), backend)
        if backend.has_cuda_kernels:
            both = cos_sin_of_sum_by_kernel(points, frequencies, work, backend, factor)
            cos, sin = both[0, ...], both[1, ...]
        elif backend.computes_in_blocks and len(frequencies) <= MAX_COORDINATES:
            features = np.empty((2 * pairs, prod(shape)), dtype=dtype)
            sin, cos = self.in_order(*split_pairs(features, 0, layout, pairs))
            flat = np.reshape(points, (len(points), prod(shape)))
            factor = as_column(self.amplitude, 1, backend)
            by_quadrant = not self.is_drawn
            fill_cos_sin_of_sum(flat, frequencies, factor, cos, sin, by_quadrant=by_quadrant)
            return np.reshape(features, (2 * pairs, *shape))
        else:
            coordinates = [points[i, ...] for i in range(len(frequencies))]
            cos, sin = cos_sin_of_sum(coordinates, frequencies, work, backend, factor)
        features = join_pairs(*self.in_order(sin + 0.0, cos + 0.0), 0, layout, xp)
        return backend.astype(features, dtype)

    def _encode_line(
        self, points: Array, frequencies: Frequencies, dtype: Dtype, backend: Backend
    ) -> Array:
        """Return the features of points of one coordinate, without phases.

        Features of NumPy's arrays are computed in blocks, so that what is computed on the way stays
        in the cache.
        """
        xp, layout, pairs = backend.xp, LAYOUTS[self.arrangement], len(in_cycles(frequencies))
        work = dtypes.compute_dtype(dtype, xp)

        def sin_cos(x: Array) -> SinCos:
            factor = as_column(self.amplitude, x.ndim, backend)
            cos, sin = cos_sin(x, frequencies, work, backend, factor)
            return self.in_order(sin + 0.0, cos + 0.0)  # no negative zeros

        if not backend.computes_in_blocks or backend.is_compiling:  # PyTorch would unroll the loop
            return backend.astype(join_pairs(*sin_cos(points), 0, layout, xp), dtype)
        features = np.empty((2 * pairs, points.size), dtype=dtype)
        sines, cosines = split_pairs(features, 0, layout, pairs)
        flat = np.reshape(points, (points.size,))
        for block in cuts(points.size, max(1, _NUMBERS_OF_A_BLOCK // (2 * pairs))):
            sines[:, block], cosines[:, block] = sin_cos(flat[block])
        return np.reshape(features, (2 * pairs, *points.shape))

    def in_order(self, sin: Array, cos: Array) -> SinCos:
        """Exchange sines and cosines if cosines come first."""
        return (cos, sin) if self.cos_first else (sin, cos)


def angle_sum(one: SinCos, other: SinCos) -> SinCos:
    """Return sines and cosines of sums of angles, points aligned at their last axes."""
    ndim = max(x.ndim for x in (*one, *other))
    sin, cos, other_sin, other_cos = (
        x if x.ndim == ndim else x[(slice(None), *(None,) * (ndim - x.ndim), ...)]
        for x in (*one, *other)
    )
    return sin * other_cos + cos * other_sin, cos * other_cos - sin * other_sin


def as_column(values: float | tuple[float, ...], ndim: int, backend: Backend) -> Array:
    """Return a number of each wave as an array with `ndim` further axes; one number as it is."""
    if isinstance(values, float):
        return values
    array = constant_array(list, values, dtype=backend.widest, backend=backend)
    return array[(..., *(None,) * ndim)]


def wavelength(name: str, value: Array) -> float:
    """Return a wavelength or a period after checking its range."""
    number = checks.positive_number(name, value)
    if not SHORTEST <= number <= LONGEST:
        raise wrong_value(name, "be between 2**-64 and 2**100", number)
    return number


def smoothness(nu: float | None) -> float:
    """Return the smoothness of a Matern kernel, 1.5 if none is given, after checking its range.

    Below 0.1 the tails of its spectrum are too heavy for floating-point numbers.
    """
    number = checks.positive_number("nu", 1.5 if nu is None else nu)
    if number < 0.1:
        raise wrong_value("nu", "be 0.1 or more", number)
    return float(number)


@cached_constant
def cycles(part: str, *wavelengths: float) -> str:
    """Return the digits of frequencies: a part of a cycle in each wavelength."""
    with localcontext(DIGITS):
        return " ".join(str(Decimal(part) / Decimal(length)) for length in wavelengths)


def scalar_or_sequence(
    name: str,
    values: Array,
    check: Callable[[str, Any], Any],
    count: int | None = None,
    each: str = "",
) -> list[Any]:
    """Return one number, or several of a list, a tuple or a 1-D NumPy array, after checking each.

    With a `count` there must be one number for `each`, or one for all, which is repeated.
    """
    is_list = isinstance(values, list | tuple)
    # PyTorch compiles for any number, and then knows no attributes of it.
    if isinstance(values, int | float) or not (is_list or getattr(values, "shape", False)):
        return [check(name, values)] * (count or 1)
    if not (is_list or isinstance(values, np.ndarray)):
        requirement = "be a list, a tuple or a 1-D NumPy array of numbers"
        raise wrong_type(name, requirement, format_value(values), remedy_for(name, values))
    shape = (len(values),) if is_list else values.shape
    if len(shape) != 1 or shape == (0,):
        raise wrong_value(name, "have one axis, of one number or more", f"shape {shape}")
    numbers = [check(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if count is not None and len(numbers) != count:
        requirement = f"be a number, or a list of {count}, one for each {each}"
        raise wrong_value(name, requirement, plural(len(numbers), "number"))
    return numbers
