"""Features that are cosines and sines: their arrangement, their blocks, their wavelengths."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import partial
from typing import Any, Literal, get_args

from positional_embeddings.angles.frequencies import DIGITS
from positional_embeddings.arguments import checks
from positional_embeddings.arrays.blocks import cuts
from positional_embeddings.arrays.errors import remedy_for, shown, wrong_type, wrong_value
from positional_embeddings.arrays.find import space_of
from positional_embeddings.arrays.kept import host_constant
from positional_embeddings.arrays.namespace import Array, Dtype, np
from positional_embeddings.arrays.space import Space
from positional_embeddings.rotary.layouts import halves, join_pairs

Arrangement = Literal["interleaved", "concatenated"]
ARRANGEMENTS = get_args(Arrangement)
LAYOUTS = {"interleaved": "interleaved", "concatenated": "half"}

# 60 digits of a frequency are enough for 64-bit integers down to here. Float32 holds both ends,
# and their quarters.
SHORTEST, LONGEST = 2.0**-64, 2.0**100

# Features of NumPy's arrays that are computed at a time, few enough for the cache.
_BLOCK = 2**15


def by_chunks(
    name: str,
    encode: Callable[..., Any],
    coordinates: Sequence[Any],
    count: int,
    dtype: Dtype,
    space: Space,
    *,
    is_stacked: bool = False,
) -> Any:
    """Return ``encode(*coordinates, space=space)``, an array (count, *shape) of a dtype.

    On a chunked library each chunk is encoded in one task, as an array of NumPy is.
    The coordinates broadcast to the shape; if `is_stacked`, there is one array of them, which has
    a first axis in place of the features.
    """
    if not space.is_chunked:
        return encode(*coordinates, space=space)
    rank = max(x.ndim for x in coordinates)
    known: dict[int, tuple[Any, ...]] = {}
    for x in coordinates:
        lengths = space.chunks(x)
        known |= {axis - x.ndim: lengths[axis] for axis, n in enumerate(x.shape) if n != 1}
    if is_stacked:
        known[-rank] = (coordinates[0].shape[0],)
    chunked = [
        space.rechunk(x, {axis: known.get(axis - x.ndim, (1,)) for axis in range(x.ndim)})
        for x in coordinates
    ]
    chunks = ((count,), *[known.get(axis, (1,)) for axis in range(-rank, 0)][is_stacked:])
    encode_chunk = partial(_encode_chunk, encode)
    return space.map_chunks(encode_chunk, *chunked, chunks=chunks, dtype=dtype, name=name)


def _encode_chunk(encode: Callable[..., Any], *coordinates: Any) -> Any:
    return encode(*coordinates, space=space_of(x=coordinates[0]))


def encode(
    x: Array,
    cos_sin: Callable[[Any], tuple[Any, Any]],
    count: int,
    dtype: Dtype,
    space: Space,
    arrangement: str = "interleaved",
) -> Any:
    """Return features (2 * count, *x.shape) from a function of `x` to cosines and sines.

    Features of NumPy's arrays are computed in blocks, so that what is computed on the way stays
    in the cache.
    """
    layout = LAYOUTS[arrangement]
    if space.xp is not np or space.is_compiling:  # PyTorch would unroll the loop
        cos, sin = cos_sin(x)
        features = join_pairs(sin, cos, 0, layout, space.xp)
        return space.astype(features, dtype)
    flat = np.reshape(x, (x.size,))
    features = np.empty((2 * count, x.size), dtype=dtype)
    sines, cosines = halves(features, 0, layout, count)
    for block in cuts(x.size, max(1, _BLOCK // (2 * count))):
        cosines[:, block], sines[:, block] = cos_sin(flat[block])
    return np.reshape(features, (2 * count, *x.shape))


def wavelength(name: str, value: Array) -> float:
    """Return a wavelength or a period after checking its range."""
    number = checks.positive_number(name, value)
    if not SHORTEST <= number <= LONGEST:
        raise wrong_value(name, "be between 2**-64 and 2**100", number)
    return number


@host_constant
def cycles(part: str, *wavelengths: float) -> str:
    """Return the digits of frequencies: a part of a cycle in each wavelength."""
    with localcontext(DIGITS):
        return " ".join(str(Decimal(part) / Decimal(length)) for length in wavelengths)


def one_or_each(
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
        what = "be a list, a tuple or a 1-D NumPy array of numbers"
        raise wrong_type(name, what, shown(values), remedy_for(name, values))
    shape = (len(values),) if is_list else values.shape
    if len(shape) != 1 or shape == (0,):
        raise wrong_value(name, "have one axis, of one number or more", f"shape {shape}")
    numbers = [check(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if count is not None and len(numbers) != count:
        what = f"be a number, or a list of {count}, one for each {each}"
        raise wrong_value(name, what, f"{len(numbers)} numbers")
    return numbers
