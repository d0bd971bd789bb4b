"""Coordinates of the points of a grid, and their sinusoidal encoding."""

from collections.abc import Sequence
from math import inf, prod

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import dtypes
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import backend_for, compute_on_device
from positional_embeddings.arrays.errors import wrong_value
from positional_embeddings.arrays.namespace import Array, Device, Dtype, HostArray, Namespace, np
from positional_embeddings.encodings.features import by_chunks
from positional_embeddings.encodings.sinusoidal import sinusoidal_encoding

# Other libraries encode up to three coordinates.
_MAX_COORDINATES = 3


@compute_on_device
def grid_positions(
    shape: Sequence[int],
    *,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Array:
    """Return the coordinates of the points of a grid, in C order.

    Parameters
    ----------
    shape : sequence of int
        Number of points along each coordinate, positive; at most 2**48 in all.
    xp, dtype, device : optional
        Array library (NumPy if None), integer or real dtype (the library's default integer
        if None) and device of the result.

    Returns
    -------
    array, shape (len(shape), prod(shape))
        The coordinates, the last one changing fastest, in the order of the patches of an image:
        positions for a `RoPE` with one of its `sections` for each coordinate.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not a list or tuple of positive integers, is empty, or has coordinates beyond
        the range of `dtype`.

    Examples
    --------
    >>> grid_positions((2, 3))
    array([[0, 0, 0, 1, 1, 1],
           [0, 1, 2, 0, 1, 2]])
    """
    sizes = _sizes(shape)
    backend = backend_for(xp, device)
    xp = backend.xp
    dtype = position_dtype(dtype, max(sizes) - 1, backend)
    point = xp.arange(prod(sizes), dtype=backend.int_dtype, device=device)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(xp.remainder(point, size))
        point = xp.floor_divide(point, size)
    return xp.astype(xp.stack(coordinates[::-1], axis=0), dtype, copy=False)


def position_dtype(dtype: Dtype | None, max_coordinate: int, backend: Backend) -> Dtype:
    """Check that a dtype represents all coordinates and return it; if None, the default integer."""
    if dtype is None:
        return backend.int_dtype
    xp = backend.xp
    dtypes.check_real_dtype(dtype, "an integer or real dtype", xp, "integral")
    library_dtype = xp.empty(0, dtype=dtype, device=backend.device).dtype
    is_integral = dtypes.is_dtype(library_dtype, "integral", xp)
    max_exact = dtypes.MAX_EXACT_INTEGERS.get(dtypes.dtype_name(library_dtype), inf)
    if max_coordinate > (xp.iinfo(library_dtype).max if is_integral else max_exact):
        raise wrong_value("dtype", f"hold the coordinates to {max_coordinate}", dtype)
    return dtype


@compute_on_device
def grid_encoding(
    shape: Sequence[int],
    dim: int,
    *,
    base: float = 10_000,
    xp: Namespace | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
) -> Array:
    r"""Return the sinusoidal encoding of the points of a grid, one coordinate after another.

    Parameters
    ----------
    shape : sequence of int
        Number of points along each of 1 to 3 coordinates, positive; at most 2**48 in all.
    dim : int
        Number of features, 1 to 2**20.
    base : float, default 10_000
        Base of the frequencies, positive.
    xp, dtype, device : optional
        Array library (NumPy if None), real floating-point dtype (the library's default if None)
        and device of the result.

    Returns
    -------
    array, shape (dim, *shape)
        Each of the :math:`n` coordinates has :math:`c = 2 \lceil \mathrm{dim} / 2n \rceil`
        features, :math:`\sin(p\,\theta_i)` and :math:`\cos(p\,\theta_i)` side by side, of its
        index :math:`p` and :math:`\theta_i = \mathrm{base}^{-2i/c}`. They are concatenated and
        truncated to `dim` features: if `dim` is not a multiple of :math:`2n`, the last coordinate
        has fewer features, or none. Angles are exact, as in `sinusoidal_encoding`.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not a list or tuple of 1 to 3 positive integers, or another argument is of
        the wrong kind or out of range.

    See Also
    --------
    sinusoidal_encoding : The encoding of other positions, also real ones.

    References
    ----------
    Wang and Liu (2019), Translating Math Formula Images to LaTeX Sequences Using Deep Neural
    Networks with Sequence-level Training, page 3, for 2 coordinates. The package
    positional-encodings has the same arrays, with the features last.

    Examples
    --------
    >>> grid_encoding((2, 3), 8).shape
    (8, 2, 3)
    >>> grid_encoding((2, 3), 4).round(2)[:, 1, 2]  # sin 1, cos 1, sin 2, cos 2
    array([ 0.84,  0.54,  0.91, -0.42])
    """
    sizes = _sizes(shape)
    if len(sizes) > _MAX_COORDINATES:
        raise wrong_value("shape", f"have 1 to {_MAX_COORDINATES} coordinates", sizes)
    dim = checks.feature_count("dim", dim)
    backend = backend_for(xp, device)
    dtype = checks.float_dtype(dtype, backend.default_float_dtype, backend)
    channels = 2 * -(-dim // (2 * len(sizes)))
    ranges = [backend.arange(0, n, sizes, axis, dim, dtype) for axis, n in enumerate(sizes)]
    indices = [axes.expand_to_axes(x, (i,), len(sizes), backend.xp) for i, x in enumerate(ranges)]

    def encode(*indices: Array, dtype: Dtype, backend: Backend) -> Array:
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        parts = [sinusoidal_encoding(i, channels, base=base, dtype=dtype) for i in indices]
        parts = [backend.xp.broadcast_to(part, (channels, *shape)) for part in parts]
        return backend.xp.concat(parts, axis=0)[:dim, ...]

    return by_chunks("grid_encoding", encode, indices, dim, dtype, backend)


def _sizes(shape: Sequence[int] | HostArray) -> tuple[int, ...]:
    """Check the number of points along each coordinate of a grid and return it."""
    sizes = checks.sequence_of("shape", shape, checks.positive_integer)
    if not sizes:
        raise wrong_value("shape", "have one coordinate or more", "()")
    checks.axis_length("prod(shape)", prod(sizes))
    return sizes
