"""Rotation of pairs of features: in one traced expression, in blocks, or by a compiled kernel."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from math import prod
from typing import Any, NamedTuple

from positional_embeddings.angles.pairs import join_pairs, split_pairs
from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays import blocks, dtypes, namespace
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dispatch import get_backend
from positional_embeddings.arrays.errors import type_name, wrong_value
from positional_embeddings.arrays.forks import finished_before_forks
from positional_embeddings.arrays.namespace import Array, ArrayT, Dtype, Namespace, np
from positional_embeddings.rotary import layouts
from positional_embeddings.rotary.kernels import cupy_kernel
from positional_embeddings.rotary.layouts import Layout


def apply_rope(
    x: ArrayT,
    cos: Array,
    sin: Array,
    /,
    *,
    layout: Layout = "half",
    rotary_dim: int | None = None,
    feature_axis: int | None = None,
    inverse: bool = False,
    out: ArrayT | None = None,
) -> ArrayT:
    """Rotate the pairs of features by the angles of tables of cosine and sine.

    Parameters
    ----------
    x : array
        Real floating-point numbers with an even number n of features along `feature_axis`; or
        complex ones with n/2 features, one for each pair.
    cos, sin : array
        Cosine and sine of the angles, as in `RotaryTables`: one for each pair along
        `feature_axis`, and on every other axis the length in `x`, or 1. Tables of one or two axes
        (and any of length 1) are repeated over the further axes of `x`: the trailing axes if
        features are first, the leading axes if they are last. Pass tables with all axes if the
        sequence is not next to the features.
    layout : {"half", "interleaved"}, default "half"
        Whether features i and i + n/2 form a pair, or 2i and 2i + 1. Each complex number is a
        pair.
    rotary_dim : int, optional
        Number of leading features that are rotated, positive and even; all if None. The remaining
        features are unchanged. A complex number counts as two.
    feature_axis : int, optional
        Axis of the features in `x`: 0 by default for an array of at most three axes, and required
        for more.
    inverse : bool, default False
        Whether to rotate by the opposite angles. Tables with an attention factor
        (`RoPE.attention_factor`) multiply by it again: divide them by its square, or call
        ``rope(x, inverse=True)``.
    out : array, optional
        Array to write the result to, with the shape and dtype of `x`. It may be `x`, which is then
        rotated in place. Arrays of JAX and dask are not writable.

    Returns
    -------
    array
        Shape, dtype and memory order of `x`, or `out`. Half precision is rotated in float32. An
        available compiled kernel is used, as with ``RoPE(fused=None)``.

    Raises
    ------
    TypeError
        If an argument is not an array of floating-point numbers, the arrays are of different
        libraries, or `out` has another dtype or is not writable.
    ValueError
        If `feature_axis` is out of range or None for more than three axes, `layout` is unknown, the
        shapes of `cos` and `sin` do not match, or `out` has another shape or is read-only.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    A rotation by 90 degrees moves the first half of the features to the second:

    >>> import numpy as np
    >>> x = np.asarray([[1.0, 2.0], [0.0, 0.0]])
    >>> apply_rope(x, np.zeros((1, 2)), np.ones((1, 2)))
    array([[0., 0.],
           [1., 2.]])

    Tables of all positions, as in other libraries, are indexed by position:

    >>> table = np.arange(20.0).reshape(10, 2)  # (max_position, rotary_dim / 2)
    >>> ids = np.asarray([[0, 1, 2], [5, 6, 7]])  # (batch, seq)
    >>> x = np.ones((2, 3, 4))  # (batch, seq, head)
    >>> apply_rope(x, np.cos(table)[ids], np.sin(table)[ids], feature_axis=-1).shape
    (2, 3, 4)

    In place:

    >>> apply_rope(x, np.cos(table)[ids], np.sin(table)[ids], feature_axis=-1, out=x) is x
    True
    """
    inverse = checks.boolean("inverse", inverse)
    checks.choice("layout", layout, layouts.LAYOUTS)
    if feature_axis is not None:
        feature_axis = checks.integer("feature_axis", feature_axis)
    if rotary_dim is not None:
        rotary_dim = checks.positive_integer("rotary_dim", rotary_dim, even=True)
    options = RotaryOptions(layout, rotary_dim, feature_axis)
    backend = get_backend(x=x, cos=cos, sin=sin, **namespace.drop_none(out=out))
    alignment = _alignment(x, cos, sin, options, backend)
    plan = plan_rotation(alignment.feature, options, backend, x, out, cos, sin)
    cos, sin = _align_tables(cos, sin, alignment, backend, out)
    return rotate(x, cos, sin, plan, inverse=inverse, out=out)


class RotaryOptions(NamedTuple):
    """Options of `apply_rope`, with the names of the fields of `RoPE`."""

    layout: str
    rotary_dim: int | None
    feature_axis: int | None
    fused: bool | None = None


class Alignment(NamedTuple):
    """Indices that give tables the axes of `x`."""

    feature: int  # axis of `x`
    cos_index: Any
    sin_index: Any
    shape: tuple[int, ...] | None  # broadcast shape of the tables, None if they have one shape


def _alignment(
    x: Array, cos: Array, sin: Array, options: RotaryOptions, backend: Backend
) -> Alignment:
    """Check dtypes and shapes, and return the alignment of the tables."""
    checks.floating(backend.xp, x=x)
    checks.real_floating(backend.xp, cos=cos, sin=sin)
    (feature_axis,) = axes.resolve_axes({"feature_axis": options.feature_axis}, x)
    axis = axes.axis_of("feature_axis", feature_axis, x.ndim)
    is_complex = dtypes.is_complex(x.dtype)
    features = axes.length(x, axis) * (2 if is_complex else 1)
    if options.rotary_dim is not None:
        limit = f"{features}, the features of `x`"
        features = layouts.rotated_features(options.rotary_dim, features, limit)
    elif not is_complex:
        layouts.check_even(x, axis)
    shape = (*x.shape[:axis], features // 2, *x.shape[axis + 1 :])
    cos_index, cos_shape = _align_table("cos", tuple(cos.shape), shape, axis)
    sin_index, sin_shape = _align_table("sin", tuple(sin.shape), shape, axis)
    differ = any(map(checks.lengths_differ, cos_shape, sin_shape))
    common_shape = tuple(m if n == 1 else n for n, m in zip(cos_shape, sin_shape, strict=True))
    return Alignment(axis, cos_index, sin_index, common_shape if differ else None)


def _align_tables(
    cos: Array, sin: Array, alignment: Alignment, backend: Backend, out: Array
) -> tuple[Array, Array]:
    """Return tables with the axes of `x`, in its compute dtype."""
    # Writing to `out` must not change the tables.
    copy = out is not None and (backend.shares_memory(out, cos) or backend.shares_memory(out, sin))
    cos = cos if alignment.cos_index is ... else cos[alignment.cos_index]
    sin = sin if alignment.sin_index is ... else sin[alignment.sin_index]
    if copy or not cos.dtype == sin.dtype == backend.dtype:
        with backend.compute_context(cos):
            cos, sin = (backend.xp.astype(table, backend.dtype, copy=copy) for table in (cos, sin))
    if alignment.shape is not None:
        cos, sin = (backend.xp.broadcast_to(table, alignment.shape) for table in (cos, sin))
    return cos, sin


def _align_table(
    name: str, shape: tuple[Any, ...], x_shape: tuple[Any, ...], axis: int
) -> tuple[Any, tuple[Any, ...]]:
    """Return the index that gives a table the axes of the pairs, and the shape of the result.

    Missing axes are inserted on the side away from the features. The index is `...` if there are
    none.
    """
    missing, aligned = len(x_shape) - len(shape), shape
    index: Any = ...
    if missing > 0 and sum(n != 1 for n in shape) > 2:
        # The axis of `x` for the third axis is ambiguous.
        requirement = f"have at most 2 axes that are not 1, or all {len(x_shape)} of `x`"
        actual = f"shape {shape}; insert axes of 1 where it is repeated, as {name}[:, None]"
        raise wrong_value(name, requirement, actual)
    if missing > 0 and shape and axis == 0:
        aligned, index = (*shape, *[1] * missing), (..., *[None] * missing)
    elif missing > 0 and shape and axis == len(x_shape) - 1:
        aligned, index = (*[1] * missing, *shape), (*[None] * missing, ...)
    pairs = x_shape[axis]
    meaning = f"as `x`, with one number for each of {pairs} pairs on axis {axis}"
    are_last = axis == 0 and bool(shape) and shape[-1] * 2 == x_shape[-1]
    hint = " Pass feature_axis=-1 if features are last." * are_last
    checks.broadcasts(name, aligned, x_shape, meaning, shape, hint)
    if aligned[axis] != pairs:
        raise wrong_value(name, f"have length {pairs} on axis {axis}", shape)
    return index, aligned


# A function of x, cos, sin, out, the `RotationPlan`, and the sign of the angles (-1 for the
# inverse). It writes the rotated `x` to `out`, which may be `x`. The tables have the axes of `x`.
RotationKernel = Callable[..., None]


class RotationPlan(NamedTuple):
    """Plan of a rotation, which depends on the dtypes, shapes and strides of its arrays."""

    backend: Backend
    axis: int  # of the features
    layout: str
    kernel: RotationKernel | None  # None if arrays are immutable
    x_axes: Any = None  # `axes.InputAxes` of a `RoPE`


# Pairs per block: a block fits a core's cache, or amortizes a kernel launch.
HOST_BLOCK_PAIRS = 2**14
ACCELERATOR_BLOCK_PAIRS = 2**22
# Up to this size, products of full arrays with full-width tables are faster than of halves.
MAX_FULL_WIDTH_SIZE = 2**16
# From this size on, stores bypass the caches, which cannot hold both `x` and the result.
STREAMED_BYTES = 2**24
_NUMBA = "numba for NumPy arrays (pip install 'positional-embeddings[fast]')"
_CUPY = "CuPy for its own (pip install 'positional-embeddings[cupy]', [cupy12] for CUDA 12)"


def check_installed() -> None:
    """Check that numba or CuPy is installed."""
    if find_spec("numba") is None and find_spec("cupy") is None:
        message = f"`fused=True` needs {_NUMBA} or {_CUPY}; neither is installed."
        raise ImportError(message)


def plan_rotation(
    axis: int, options: Any, backend: Backend, x: Array, out: Array, *inputs: Array
) -> RotationPlan:
    """Check `out`, and return the plan of a call, whose further inputs have been checked.

    The options are a `RoPE` or `RotaryOptions`; the inputs are tables or positions.
    """
    if out is not None:
        checks.output(out, x, backend)
    kernel = choose_kernel(x, axis, options, backend, *inputs, out=out)
    return RotationPlan(backend, axis, options.layout, kernel)


def choose_kernel(
    x: Array, axis: int, options: Any, backend: Backend, *inputs: Array, out: Array = None
) -> RotationKernel | None:
    """Return the fastest kernel for an array, or None if its library has no in-place assignment.

    The inputs are the tables or their positions.
    """
    if kernel := compiled_kernel_for(x, backend, out, fused=options.fused):
        return kernel
    if not backend.supports_inplace(x, *inputs):
        return None
    if dtypes.is_complex(x.dtype):
        return _rotate_complex
    rotates_all = options.layout == "half" and options.rotary_dim in (None, x.shape[axis])
    is_small = 0 < prod(x.shape) <= MAX_FULL_WIDTH_SIZE and backend.is_on_host(x)
    is_single = dtypes.dtype_name(x.dtype) in ("float32", "float64")
    if is_small and rotates_all and is_single and backend.shares_numpy_memory:
        return rotate_full_width
    return _rotate_blocks


def compiled_kernel_for(
    x: Array, backend: Backend, out: Array = None, *, fused: bool | None = None
) -> RotationKernel | None:
    """Return the compiled kernel for `x` and `out`, or None.

    If `fused` is True, a missing kernel is an error, except for complex numbers.
    """
    if fused is False:
        return None
    kernel, unsupported = _kernel_of(x, backend), x
    if out is not None and kernel and not (out.dtype == x.dtype and _kernel_of(out, backend)):
        kernel, unsupported = None, out
    if kernel is None and fused and not dtypes.is_complex(unsupported.dtype):
        if backend.rotation_kernel == "numba" and find_spec("numba") is None:
            message = f"`fused=True` needs {_NUMBA}, which is not installed."
            raise ImportError(message)
        message = (
            "`fused=True` has kernels for NumPy and CuPy arrays of float16, float32 and float64, "
            "and bfloat16 on CuPy, aligned and in the machine's byte order, `out` like `x`, got "
            f"{type_name(unsupported)} of {unsupported.dtype}; fused=None rotates it without one."
        )
        raise TypeError(message)
    # In place, the lines to write are cached.
    if kernel and out is not x and backend.computes_in_blocks and x.nbytes >= STREAMED_BYTES:
        return partial(kernel, stream=True)
    return kernel


def _kernel_of(x: Array, backend: Backend) -> RotationKernel | None:
    if backend.rotation_kernel == "numba" and type(x) is np.ndarray and x.flags.aligned:
        return numpy_kernel(x.dtype)
    is_cupy = backend.rotation_kernel == "cupy"
    is_supported = is_cupy and dtypes.dtype_name(x.dtype) in cupy_kernel.DTYPES
    return cupy_kernel.rotate_cupy if is_supported else None


@cache
@finished_before_forks
def numpy_kernel(dtype: Dtype) -> RotationKernel | None:
    """Return the numba kernel for a dtype, or None."""
    try:
        import positional_embeddings.rotary.kernels.numba_kernel as kernel  # noqa: PLC0415 - slow
    except ImportError:
        return None
    return kernel.rotate_numpy if kernel.has_kernel(dtype) else None


def rotate(
    x: ArrayT,
    cos: Array,
    sin: Array,
    plan: RotationPlan,
    *,
    inverse: bool = False,
    divisor: float = 1.0,
    out: Array = None,
) -> ArrayT:
    """Rotate the leading pairs of `x` by tables that broadcast against them.

    The tables are divided by `divisor`. `out` has been checked; it may be `x`, but shares no memory
    with the tables. Only `rotate_full_width` takes full-width tables.
    """
    backend, axis, layout, kernel, _ = plan
    with backend.compute_context(x):
        if divisor != 1:
            cos, sin = cos / divisor, sin / divisor
        if kernel is None:
            rotate_array = _rotate_chunks if backend.is_chunked else _rotate_traced
            result = rotate_array(x, cos, -sin if inverse else sin, axis, layout, backend)
        else:
            is_new = out is None or backend.shares_memory(out, x)
            result = backend.xp.empty_like(x) if is_new else out
            kernel(x, cos, sin, result, plan, -1 if inverse else 1)
            rotated = 2 * cos.shape[axis]  # `_rotate_complex` copies the remainder itself
            if rotated < x.shape[axis] and result is not x:
                remainder = (*(slice(None),) * axis, slice(rotated, None), ...)
                result[remainder] = x[remainder]
        if out is None or out is result:
            return result  # type: ignore[no-any-return]
        out[...] = result
        return out  # type: ignore[no-any-return]


def rotate_full_width(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    """Rotate small arrays in the half layout: x * [cos, cos] + [second, first] * [-sin, sin].

    NumPy multiplies full arrays faster than halves, and PyTorch in fewer operations. Tables may
    have half or full width.
    """
    axis, xp = plan.axis, plan.backend.xp
    if cos.shape[axis] < x.shape[axis]:
        cos, sin = full_width_tables(cos, sin, axis, xp)
    half = x.shape[axis] // 2
    if plan.backend.is_numpy:  # NumPy's `roll` takes four times as long
        leading = (slice(None),) * axis
        first, second = (*leading, slice(None, half)), (*leading, slice(half, None))
        swapped = np.concat([x[second], x[first]], axis=axis)
    else:
        swapped = xp.roll(x, half, axis=axis)
    swapped *= sin
    if plan.backend.supports_out:
        xp.multiply(x, cos, out=out)
    else:
        out[...] = x
        out *= cos
    if sign < 0:
        out -= swapped
    else:
        out += swapped


def full_width_tables(cos: Array, sin: Array, axis: int, xp: Namespace) -> tuple[Array, Array]:
    """Return the full-width tables of the half layout: [cos, cos] and [-sin, sin]."""
    return xp.concat([cos, cos], axis=axis), xp.concat([-sin, sin], axis=axis)


def _rotate_complex(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    backend, axis = plan.backend, plan.axis
    rotated, remainder = layouts.split_at(x, axis, cos.shape[axis])
    out_rotated, out_remainder = layouts.split_at(out, axis, cos.shape[axis])
    phasors = _phasors(cos, sign * sin, x.dtype, backend.xp)
    if backend.supports_out:
        backend.xp.multiply(rotated, phasors, out=out_rotated)
    else:
        out_rotated[...] = rotated * phasors
    if remainder is not None:
        out_remainder[...] = remainder


def _rotate_blocks(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    """Rotate real pairs block by block; the inverse swaps the features of each pair."""
    backend, axis, layout, *_ = plan
    pairs, previous = cos.shape[axis], None
    parts = [half for a in (x, out) for half in split_pairs(a, axis, layout, pairs)]
    if sign < 0:
        parts = [parts[1], parts[0], parts[3], parts[2]]
    for block, table_block in _blocks(x, cos, axis, backend):
        first, second, out_first, out_second = [part[block] for part in parts]
        if (table_block, first.shape) != previous:
            c, s = (_broadcast_copy(table[table_block], first, backend) for table in (cos, sin))
            previous = table_block, first.shape
        first, second = (backend.astype(part, c.dtype) for part in (first, second))
        rotated_first = first * c
        rotated_first -= second * s
        rotated_second = second * c
        rotated_second += first * s
        out_first[...] = rotated_first
        out_second[...] = rotated_second


def _broadcast_copy(table: Array, block: Array, backend: Backend) -> Array:
    """Repeat a table over its block, as NumPy broadcasts slowly along short rows."""
    if table.shape == block.shape or not backend.computes_in_blocks:
        return table
    repeated = np.empty_like(block, dtype=table.dtype)
    repeated[...] = table
    return repeated


def _phasors(cos: Array, sin: Array, dtype: Dtype, xp: Namespace) -> Array:
    return xp.astype(cos, dtype) + 1j * xp.astype(sin, dtype)


def _blocks(x: Array, table: Array, axis: int, backend: Backend) -> Iterator[tuple[Any, Any]]:
    """Yield the index of each block of pairs of `x`, and the index of its angles in the table.

    A block follows the memory order. Blocks with the same angles are consecutive.
    """
    shape = (*x.shape[:axis], table.shape[axis], *x.shape[axis + 1 :])
    max_pairs = HOST_BLOCK_PAIRS
    if prod(shape) > max_pairs and not backend.is_on_host(x):
        max_pairs = ACCELERATOR_BLOCK_PAIRS
    if prod(shape) <= max_pairs:
        yield (...,), ...
        return
    strides = backend.strides(x)
    order = list(range(x.ndim))
    if strides is not None:
        order.sort(key=lambda a: -strides[a])
    lengths = blocks.block_lengths(shape, order, max_pairs)
    order.sort(key=lambda a: table.shape[a] == 1)
    for parts in product(*(blocks.block_slices(shape[a], lengths[a]) for a in order)):
        part_of = dict(zip(order, parts, strict=True))
        block = tuple(part_of[a] for a in range(len(shape)))
        lengths_and_parts = zip(table.shape, block, strict=True)
        yield block, tuple(slice(0, 1) if n == 1 else part for n, part in lengths_and_parts)


def _rotate_chunks(
    x: Array, cos: Array, sin: Array, axis: int, layout: str, backend: Backend
) -> Array:
    """Rotate each chunk in one task, after merging the chunks of the features."""
    x_chunks = enumerate(backend.chunks(x))
    chunks = {a: lengths for a, lengths in x_chunks if a != axis and cos.shape[a] != 1}
    if not all(checks.is_static(n) for lengths in chunks.values() for n in lengths):
        return _rotate_traced(x, cos, sin, axis, layout, backend)
    x = backend.rechunk(x, {axis: (x.shape[axis],)})
    chunks[axis] = (cos.shape[axis],)
    tables = [backend.rechunk(table, chunks) for table in (cos, sin)]
    rotate_chunk = partial(_rotate_chunk, axis=axis, layout=layout)
    options = {"chunks": backend.chunks(x), "dtype": x.dtype, "name": "rotate"}
    return backend.map_chunks(rotate_chunk, x, *tables, **options)


def _rotate_chunk(x: Array, cos: Array, sin: Array, *, axis: int, layout: str) -> Array:
    """Rotate a chunk, a NumPy or CuPy array; the tables may be NumPy arrays."""
    backend = get_backend(x=x)
    with backend.compute_context(x):
        placement = {"dtype": backend.dtype, "device": backend.device}
        cos, sin = (backend.xp.asarray(table, **placement) for table in (cos, sin))
    options = RotaryOptions(layout, 2 * cos.shape[axis], axis)
    kernel = choose_kernel(x, axis, options, backend, cos, sin)
    return rotate(x, cos, sin, RotationPlan(backend, axis, layout, kernel))


def _rotate_traced(
    x: Array, cos: Array, sin: Array, axis: int, layout: str, backend: Backend
) -> Array:
    """Rotate an array in one expression, which JAX and dask fuse."""
    xp, pairs = backend.xp, cos.shape[axis]
    is_complex = dtypes.is_complex(x.dtype)
    rotated, remainder = layouts.split_at(x, axis, pairs if is_complex else 2 * pairs)
    if is_complex:
        rotated = rotated * _phasors(cos, sin, x.dtype, xp)
    else:
        upcast = backend.astype(rotated, cos.dtype)
        first, second = split_pairs(upcast, axis, layout, pairs)
        rotated_pair = first * cos - second * sin, second * cos + first * sin
        rotated = backend.astype(join_pairs(*rotated_pair, axis, layout, xp), x.dtype)
    return rotated if remainder is None else xp.concat([rotated, remainder], axis=axis)
