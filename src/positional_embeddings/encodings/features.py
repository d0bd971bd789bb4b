"""Features of sines and cosines: their arrangement, blocks and wavelengths."""

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
from positional_embeddings.angles.frequencies import DIGITS, DecimalFrequencies, in_cycles
from positional_embeddings.angles.pairs import join_pairs, split_pairs
from positional_embeddings.arguments import checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.blocks import block_slices
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
PAIR_LAYOUTS = {"interleaved": "interleaved", "concatenated": "half"}
# For shorter wavelengths, 60 digits of a frequency do not suffice for 64-bit integers. Both limits
# and their quarters are floats in float32.
MIN_WAVELENGTH, MAX_WAVELENGTH = 2.0**-64, 2.0**100

# Features per block in NumPy, which fits the cache.
_BLOCK_ELEMENTS = 2**15

SinCos: TypeAlias = tuple[Array, Array]  # sines and cosines, each (pair, *shape)


def real_coordinates(name: str, x: Array, dtype: Dtype | None) -> tuple[Backend, Dtype]:
    """Return the backend of real or integer coordinates and the dtype of their features."""
    backend = get_backend(**{name: x})
    checks.real(name, x, backend.xp)
    return backend, checks.feature_dtype(x, dtype, backend)


def check_first_axis(name: str, x: Array, size: int, requirement: str) -> None:
    """Check that the first axis of an array has length `size`."""
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
    """Return ``encode(*coordinates, dtype=dtype, backend=backend)``, an array (count, *shape).

    In a chunked library each chunk is encoded in one task. The coordinates broadcast to the shape.
    If `is_stacked`, there is one array with the coordinates on its first axis.
    """
    if not backend.is_chunked:
        on_host = backend.call_with_numpy(partial(_encode_chunk, encode), coordinates, dtype)
        if on_host is not None:
            return on_host
        with backend.compute_context(coordinates[0]):
            return encode(*coordinates, dtype=dtype, backend=backend)
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
    encode_chunk = partial(_encode_chunk, encode, dtype=dtype)
    return backend.map_chunks(encode_chunk, *chunked, chunks=chunks, dtype=dtype, name=name)


def _encode_chunk(encode: Callable[..., Array], *coordinates: Array, dtype: Dtype) -> Array:
    backend = get_backend(x=coordinates[0])
    with backend.compute_context(coordinates[0]):
        return encode(*coordinates, dtype=dtype, backend=backend)


class Sinusoids(NamedTuple):
    """Sines and cosines of frequencies times points, and their arrangement as features."""

    # A tuple if points have an axis of coordinates.
    frequencies: DecimalFrequencies | tuple[DecimalFrequencies, ...]
    arrangement: str = "interleaved"
    amplitude: float | tuple[float, ...] = 1.0  # of all waves, or of each
    cos_first: bool = False
    phases: DecimalFrequencies = ""  # in cycles, none if empty
    is_random: bool = False  # random phases are rarely multiples of a quadrant

    def coordinate_frequencies(self) -> tuple[DecimalFrequencies, ...]:
        """Return the frequencies of each coordinate; phases are the last, for a coordinate of 1."""
        frequencies = self.frequencies
        frequencies = (frequencies,) if isinstance(frequencies, str) else frequencies
        return (*frequencies, self.phases) if self.phases else frequencies

    def encode(self, name: str, points: Array, dtype: Dtype, backend: Backend) -> Array:
        """Return the features of points, two for each wave."""
        count = 2 * len(in_cycles(self.coordinate_frequencies()[0]))
        is_stacked = not isinstance(self.frequencies, str)
        arguments = name, self.encode_chunk, [points], count, dtype, backend
        return by_chunks(*arguments, is_stacked=is_stacked)

    def encode_chunk(self, points: Array, dtype: Dtype, backend: Backend) -> Array:
        """Return the features of points in one chunk."""
        xp, frequencies = backend.xp, self.coordinate_frequencies()
        pairs, layout = len(in_cycles(frequencies[0])), PAIR_LAYOUTS[self.arrangement]
        compute_dtype = dtypes.compute_dtype(dtype, xp)
        if isinstance(self.frequencies, str):
            if not self.phases:
                return self._encode_line(points, frequencies[0], dtype, backend)
            points = points[None, ...]
        if self.phases:
            points = xp.concat([points, xp.ones_like(points[:1, ...])], axis=0)
        shape = points.shape[1:]
        factor = as_column(self.amplitude, len(shape), backend)
        if backend.has_cuda_kernels:
            cos_and_sin = cos_sin_of_sum_by_kernel(
                points, frequencies, compute_dtype, backend, factor
            )
            cos, sin = cos_and_sin[0, ...], cos_and_sin[1, ...]
        elif backend.computes_in_blocks and len(frequencies) <= MAX_COORDINATES:
            features = np.empty((2 * pairs, prod(shape)), dtype=dtype)
            sin, cos = self.order_sin_cos(*split_pairs(features, 0, layout, pairs))
            flat = np.reshape(points, (len(points), prod(shape)))
            factor = as_column(self.amplitude, 1, backend)
            by_quadrant = not self.is_random
            fill_cos_sin_of_sum(flat, frequencies, factor, cos, sin, by_quadrant=by_quadrant)
            return np.reshape(features, (2 * pairs, *shape))
        else:
            coordinates = [points[i, ...] for i in range(len(frequencies))]
            cos, sin = cos_sin_of_sum(coordinates, frequencies, compute_dtype, backend, factor)
        features = join_pairs(*self.order_sin_cos(sin + 0.0, cos + 0.0), 0, layout, xp)
        return backend.astype(features, dtype)

    def _encode_line(
        self, points: Array, frequencies: DecimalFrequencies, dtype: Dtype, backend: Backend
    ) -> Array:
        """Return the features of points of one coordinate, without phases.

        NumPy computes in blocks, so that temporary arrays stay in the cache.
        """
        xp, layout, pairs = backend.xp, PAIR_LAYOUTS[self.arrangement], len(in_cycles(frequencies))
        compute_dtype = dtypes.compute_dtype(dtype, xp)

        def sin_cos(x: Array) -> SinCos:
            factor = as_column(self.amplitude, x.ndim, backend)
            cos, sin = cos_sin(x, frequencies, compute_dtype, backend, factor)
            return self.order_sin_cos(sin + 0.0, cos + 0.0)  # no negative zeros

        if not backend.computes_in_blocks or backend.is_compiling:  # PyTorch would unroll the loop
            return backend.astype(join_pairs(*sin_cos(points), 0, layout, xp), dtype)
        features = np.empty((2 * pairs, points.size), dtype=dtype)
        sines, cosines = split_pairs(features, 0, layout, pairs)
        flat = np.reshape(points, (points.size,))
        for block in block_slices(points.size, max(1, _BLOCK_ELEMENTS // (2 * pairs))):
            sines[:, block], cosines[:, block] = sin_cos(flat[block])
        return np.reshape(features, (2 * pairs, *points.shape))

    def order_sin_cos(self, sin: Array, cos: Array) -> SinCos:
        """Return sines and cosines in the order of the features."""
        return (cos, sin) if self.cos_first else (sin, cos)


def angle_sum(a: SinCos, b: SinCos) -> SinCos:
    """Return sines and cosines of sums of angles, with the axes of points aligned at the last."""
    ndim = max(x.ndim for x in (*a, *b))
    sin_a, cos_a, sin_b, cos_b = (
        x if x.ndim == ndim else x[(slice(None), *(None,) * (ndim - x.ndim), ...)] for x in (*a, *b)
    )
    return sin_a * cos_b + cos_a * sin_b, cos_a * cos_b - sin_a * sin_b


def as_column(values: float | tuple[float, ...], ndim: int, backend: Backend) -> Array:
    """Return the numbers of waves as an array with `ndim` further axes, or a float unchanged."""
    if isinstance(values, float):
        return values
    array = constant_array(list, values, dtype=backend.widest_float_dtype, backend=backend)
    return array[(..., *(None,) * ndim)]


def wavelength(name: str, value: Array) -> float:
    """Check the range of a wavelength or period and return it."""
    if isinstance(value, str):
        hint = " Pass a number in the unit of `x`; a PositionalEncoder takes periods by name."
        raise wrong_type(name, "be a positive finite number", format_value(value), hint)
    number = checks.positive_number(name, value)
    if not MIN_WAVELENGTH <= number <= MAX_WAVELENGTH:
        raise wrong_value(name, "be between 2**-64 and 2**100", number)
    return number


def smoothness(nu: float | None) -> float:
    """Check the smoothness of a Matern kernel and return it, 1.5 if None.

    Below 0.1 the tails of the spectrum are too heavy for floating-point numbers.
    """
    number = checks.positive_number("nu", 1.5 if nu is None else nu)
    if number < 0.1:
        raise wrong_value("nu", "be 0.1 or more", number)
    return float(number)


@cached_constant
def cycles(part: str, *wavelengths: float) -> str:
    """Return the digits of the frequencies: `part` of a cycle in each wavelength."""
    with localcontext(DIGITS):
        return " ".join(str(Decimal(part) / Decimal(length)) for length in wavelengths)


def scalar_or_sequence(
    name: str,
    values: Array,
    check: Callable[[str, Any], Any],
    count: int | None = None,
    noun: str = "",
) -> list[Any]:
    """Check a number, list, tuple or 1-D NumPy array of numbers, and return a list.

    With a `count` the list must have this length; one number is repeated.
    """
    is_list = isinstance(values, list | tuple)
    # In compiled PyTorch code, numbers may be symbolic and lack attributes.
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
        requirement = f"be a number, or a list of {count}, one for each {noun}"
        raise wrong_value(name, requirement, plural(len(numbers), "number"))
    return numbers
