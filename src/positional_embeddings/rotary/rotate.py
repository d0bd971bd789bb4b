"""Rotation of pairs of features: traced in one expression, in blocks, or by a compiled kernel."""

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
from positional_embeddings.arrays.namespace import Array, ArrayT, Dtype, HostArray, Namespace, np
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
    """Rotate the pairs of features by given angles.

    Parameters
    ----------
    x : array
        Real floating-point numbers with n features, n even, along `feature_axis`; or
        complex ones with n/2, each of which is a pair.
    cos, sin : array
        Cosine and sine of the angles, such as `RotaryTables` hold: one for each pair
        along `feature_axis`, and on every other axis the length of `x`, or 1. Tables of one
        or two axes (and any of length 1) are repeated over the other axes of `x`: the
        trailing ones if features come first, the leading ones if they come last. If the
        sequence is not next to the features, give the tables all axes.
    layout : {"half", "interleaved"}, default "half"
        Whether features i and i + n/2 form a pair, or 2i and 2i + 1. A complex number
        is a pair in itself.
    rotary_dim : int, optional
        Number of features that are rotated, the first ones, positive and even; all
        if None. The others stay as they are. A complex number counts for two.
    feature_axis : int, optional
        Axis of the features in `x`: 0 by default for an array of at most three axes, and to be
        given for more.
    inverse : bool, default False
        Rotate by the opposite angles. Tables with an attention factor (`RoPE.attention_factor`)
        multiply by it again: divide them by its square, or call ``rope(x, inverse=True)``.
    out : array, optional
        Array to write the result to, in the shape and dtype of `x`; with `x` itself it is
        rotated in place. JAX and dask have no arrays that can be written to.

    Returns
    -------
    array
        Shape, dtype and order in memory of `x`, or `out`. Half precision is rotated in
        float32. A compiled kernel is used if there is one, as by ``RoPE(fused=None)``.

    Raises
    ------
    TypeError
        If an argument is not an array of floating-point numbers, the arrays come from
        different libraries, or `out` has another dtype or cannot be written to.
    ValueError
        If `feature_axis` is out of range or left out for more than three axes, `layout` is
        unknown, `cos` and `sin` do not fit, or `out` has another shape or is read-only.

    References
    ----------
    Su et al. (2021), RoFormer, equation 34.

    Examples
    --------
    Rotated by 90 degrees, the first half of the features becomes the second:

    >>> import numpy as np
    >>> x = np.asarray([[1.0, 2.0], [0.0, 0.0]])
    >>> apply_rope(x, np.zeros((1, 2)), np.ones((1, 2)))
    array([[0., 0.],
           [1., 2.]])

    Tables of all positions, as other libraries keep them, are gathered by position:

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
    """What `apply_rope` was asked for, with the names that a `RoPE` has."""

    layout: str
    rotary_dim: int | None
    feature_axis: int | None
    fused: bool | None = None


class Alignment(NamedTuple):
    """How tables fit `x`."""

    feature: int  # the axis of `x`
    cos_index: Any  # gives the table all axes of `x`
    sin_index: Any
    shape: tuple[int, ...] | None  # that both broadcast to, if theirs are not the same


def _alignment(
    x: Array, cos: Array, sin: Array, options: RotaryOptions, backend: Backend
) -> Alignment:
    """Check dtypes and shapes, and return where the features are, and how the tables fit."""
    checks.floating(backend.xp, x=x)
    checks.real_floating(backend.xp, cos=cos, sin=sin)
    (feature_axis,) = axes.resolve_axes({"feature_axis": options.feature_axis}, x)
    axis = axes.axis_of("feature_axis", feature_axis, x.ndim)
    is_complex = dtypes.is_complex(x.dtype)
    features = axes.length(x, axis) * (2 if is_complex else 1)
    if options.rotary_dim is not None:
        most = f"{features}, the features of `x`"
        features = layouts.rotated_features(options.rotary_dim, features, most)
    elif not is_complex:
        layouts.check_even(x, axis)
    shape = (*x.shape[:axis], features // 2, *x.shape[axis + 1 :])
    cos_index, cos_shape = _align_table("cos", tuple(cos.shape), shape, axis)
    sin_index, sin_shape = _align_table("sin", tuple(sin.shape), shape, axis)
    differ = any(map(checks.lengths_differ, cos_shape, sin_shape))
    both = tuple(m if n == 1 else n for n, m in zip(cos_shape, sin_shape, strict=True))
    return Alignment(axis, cos_index, sin_index, both if differ else None)


def _align_tables(
    cos: Array, sin: Array, alignment: Alignment, backend: Backend, out: Array
) -> tuple[Array, Array]:
    """Return tables with the axes of `x`, in the dtype that it is rotated in."""
    # What is written to `out` must not change what is still to be read of them.
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
    """Return the index that gives a table the axes of the pairs that it lacks, and its shape then.

    They are put on the side away from the features. The index is `...` if no axis is lacking.
    """
    lacking, aligned = len(x_shape) - len(shape), shape
    index: Any = ...
    if lacking > 0 and sum(n != 1 for n in shape) > 2:
        # Which axis of `x` the third one belongs to would be a guess.
        requirement = f"have at most 2 axes that are not 1, or all {len(x_shape)} of `x`"
        actual = f"shape {shape}; insert axes of 1 where it is repeated, as {name}[:, None]"
        raise wrong_value(name, requirement, actual)
    if lacking > 0 and shape and axis == 0:
        aligned, index = (*shape, *[1] * lacking), (..., *[None] * lacking)
    elif lacking > 0 and shape and axis == len(x_shape) - 1:
        aligned, index = (*[1] * lacking, *shape), (*[None] * lacking, ...)
    pairs = x_shape[axis]
    meaning = f"as `x`, with one number for each of {pairs} pairs on axis {axis}"
    are_last = axis == 0 and bool(shape) and shape[-1] * 2 == x_shape[-1]
    hint = " Pass feature_axis=-1 if features are last." * are_last
    checks.broadcasts(name, aligned, x_shape, meaning, shape, hint)
    if aligned[axis] != pairs:
        raise wrong_value(name, f"have length {pairs} on axis {axis}", shape)
    return index, aligned


# What rotates `x` into `out`: called with x, cos, sin, out, the `RotationPlan`, and the sign of the
# angles, -1 to rotate back. The tables have the axes of x, and `out` may be x.
RotationKernel = Callable[..., None]


class RotationPlan(NamedTuple):
    """How a call rotates: what its arrays tell by their dtypes, shapes and strides."""

    backend: Backend
    axis: int  # of the features
    layout: str
    kernel: RotationKernel | None  # None if the result cannot be written part by part
    x_axes: Any = None  # of a `RoPE`, the `axes.InputAxes`


# Pairs of a block: few enough for a core's cache, or enough for a launch to be worth it.
HOST_BLOCK_PAIRS = 2**14
ACCELERATOR_BLOCK_PAIRS = 2**22
# Up to this size, products of whole arrays with doubled tables are faster than of halves.
MAX_FULL_WIDTH_SIZE = 2**16
# From this size on a result is written past the caches, which cannot hold both it and `x`.
STREAMED_BYTES = 2**24
_NUMBA = "numba for NumPy arrays (pip install 'positional-embeddings[fast]')"
_CUPY = "CuPy for its own (pip install 'positional-embeddings[cupy]', [cupy12] for CUDA 12)"


def check_installed() -> None:
    """Check that a library with a kernel is installed."""
    if find_spec("numba") is None and find_spec("cupy") is None:
        message = f"`fused=True` needs {_NUMBA} or {_CUPY}; neither is installed."
        raise ImportError(message)


def plan_rotation(
    axis: int, options: Any, backend: Backend, x: Array, out: Array, *others: Array
) -> RotationPlan:
    """Check `out`, and return how a call rotates, whose other arrays have been checked.

    The options are a `RoPE` or `RotaryOptions`; the others are tables or positions.
    """
    if out is not None:
        checks.output(out, x, backend)
    kernel = choose_kernel(x, axis, options, backend, *others, out=out)
    return RotationPlan(backend, axis, options.layout, kernel)


def choose_kernel(
    x: Array, axis: int, options: Any, backend: Backend, *others: Array, out: Array = None
) -> RotationKernel | None:
    """Return what rotates an array fastest, None if its result cannot be written part by part.

    The result depends on the others, too: the tables, or what they are made of.
    """
    if kernel := compiled_kernel_for(x, backend, out, fused=options.fused):
        return kernel
    if not backend.supports_inplace(x, *others):
        return None
    if dtypes.is_complex(x.dtype):
        return _rotate_complex
    is_whole = options.layout == "half" and options.rotary_dim in (None, x.shape[axis])
    is_few = backend.computes_in_blocks and 0 < x.size <= MAX_FULL_WIDTH_SIZE
    if is_few and is_whole and x.dtype in (np.float32, np.float64):
        return rotate_full_width
    return _rotate_blocks


def compiled_kernel_for(
    x: Array, backend: Backend, out: Array = None, *, fused: bool | None = None
) -> RotationKernel | None:
    """Return the kernel that rotates `x` into `out`, or into a new array like it, if any.

    None if `fused` is False. If it is True there must be one, except for complex numbers.
    """
    if fused is False:
        return None
    kernel, unfit = _kernel_of(x, backend), x
    if out is not None and kernel and not (out.dtype == x.dtype and _kernel_of(out, backend)):
        kernel, unfit = None, out
    if kernel is None and fused and not dtypes.is_complex(unfit.dtype):
        if backend.rotation_kernel == "numba" and find_spec("numba") is None:
            message = f"`fused=True` needs {_NUMBA}, which is not installed."
            raise ImportError(message)
        message = (
            "`fused=True` has kernels for NumPy and CuPy arrays of float16, float32 and float64, "
            "and bfloat16 on CuPy, aligned and in the machine's byte order, `out` like `x`, "
            f"got {type_name(unfit)} of {unfit.dtype}; fused=None rotates it without one."
        )
        raise TypeError(message)
    # In place, a cache has what is written.
    if kernel and out is not x and backend.computes_in_blocks and x.nbytes >= STREAMED_BYTES:
        return partial(kernel, stream=True)
    return kernel


def _kernel_of(x: Array, backend: Backend) -> RotationKernel | None:
    if backend.rotation_kernel == "numba" and type(x) is np.ndarray and x.flags.aligned:
        return numpy_kernel(x.dtype)
    is_cupy = backend.rotation_kernel == "cupy"
    rotates = is_cupy and dtypes.dtype_name(x.dtype) in cupy_kernel.DTYPES
    return cupy_kernel.rotate_cupy if rotates else None


@cache
@finished_before_forks
def numpy_kernel(dtype: Dtype) -> RotationKernel | None:
    """Return the kernel for NumPy's arrays of a dtype, None if there is none."""
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
    """Rotate the first pairs of `x`, as many as the tables have.

    The tables broadcast against the pairs, and are divided by `divisor`. `out` has been checked; it
    may be `x`, but shares no memory with the tables. Only `rotate_full_width` takes tables of full
    width.
    """
    backend, axis, layout, kernel, _ = plan
    with backend.compute_context(x):
        if divisor != 1:
            cos, sin = cos / divisor, sin / divisor
        if kernel is None:
            rotate_whole = _rotate_chunks if backend.is_chunked else _rotate_traced
            result = rotate_whole(x, cos, -sin if inverse else sin, axis, layout, backend)
        else:
            is_new = out is None or backend.shares_memory(out, x)
            result = backend.xp.empty_like(x) if is_new else out
            kernel(x, cos, sin, result, plan, -1 if inverse else 1)
            rotated = 2 * cos.shape[axis]  # of complex numbers `_rotate_complex` copies the others
            if rotated < x.shape[axis] and result is not x:
                others = (*(slice(None),) * axis, slice(rotated, None), ...)
                result[others] = x[others]
        if out is None or out is result:
            return result  # type: ignore[no-any-return]
        out[...] = result
        return out  # type: ignore[no-any-return]


def rotate_full_width(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    """Rotate a few vectors in the half layout: x * [cos, cos] + [second, first] * [-sin, sin].

    Products of whole arrays of NumPy are faster than of halves. Tables that are not doubled yet are
    doubled here.
    """
    axis = plan.axis
    if cos.shape[axis] < x.shape[axis]:
        cos, sin = full_width_tables(cos, sin, axis)
    before, half = (slice(None),) * axis, x.shape[axis] // 2
    first, second = (*before, slice(None, half)), (*before, slice(half, None))
    swapped = np.concat([x[second], x[first]], axis=axis)
    swapped *= sin
    np.multiply(x, cos, out=out)
    if sign < 0:
        out -= swapped
    else:
        out += swapped


def full_width_tables(cos: HostArray, sin: HostArray, axis: int) -> tuple[HostArray, HostArray]:
    """Return tables for all features of the half layout: [cos, cos] and [-sin, sin]."""
    return np.concat([cos, cos], axis=axis), np.concat([-sin, sin], axis=axis)


def _rotate_complex(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    backend, axis = plan.backend, plan.axis
    part, rest = layouts.cut_along(x, axis, cos.shape[axis])
    to, to_rest = layouts.cut_along(out, axis, cos.shape[axis])
    phasors = _phasors(cos, sign * sin, x.dtype, backend.xp)
    if backend.supports_out:
        backend.xp.multiply(part, phasors, out=to)
    else:
        to[...] = part * phasors
    if rest is not None:
        to_rest[...] = rest


def _rotate_blocks(
    x: Array, cos: Array, sin: Array, out: Array, plan: RotationPlan, sign: int
) -> None:
    """Rotate real pairs, a block of them at a time; back, by exchanging the numbers of a pair."""
    backend, axis, layout, *_ = plan
    pairs, before = cos.shape[axis], None
    parts = [half for a in (x, out) for half in split_pairs(a, axis, layout, pairs)]
    if sign < 0:
        parts = [parts[1], parts[0], parts[3], parts[2]]
    for block, table_block in _blocks(x, cos, axis, backend):
        first, second, to_first, to_second = [part[block] for part in parts]
        if (table_block, first.shape) != before:
            c, s = (_repeated(table[table_block], first, backend) for table in (cos, sin))
            before = table_block, first.shape
        first, second = (backend.astype(part, c.dtype) for part in (first, second))
        rotated_first = first * c
        rotated_first -= second * s
        rotated_second = second * c
        rotated_second += first * s
        to_first[...] = rotated_first
        to_second[...] = rotated_second


def _repeated(table: Array, block: Array, backend: Backend) -> Array:
    """Repeat a table over its block: NumPy multiplies short rows by a number slowly."""
    if table.shape == block.shape or not backend.computes_in_blocks:
        return table
    repeated = np.empty_like(block, dtype=table.dtype)
    repeated[...] = table
    return repeated


def _phasors(cos: Array, sin: Array, dtype: Dtype, xp: Namespace) -> Array:
    return xp.astype(cos, dtype) + 1j * xp.astype(sin, dtype)


def _blocks(x: Array, table: Array, axis: int, backend: Backend) -> Iterator[tuple[Any, Any]]:
    """Yield where the blocks of pairs of `x` are, and where the table has their angles.

    Within a block they follow the order of memory, and blocks that need the same part
    of the table come one after another.
    """
    shape = (*x.shape[:axis], table.shape[axis], *x.shape[axis + 1 :])
    most = HOST_BLOCK_PAIRS
    if prod(shape) > most and not backend.is_on_host(x):
        most = ACCELERATOR_BLOCK_PAIRS
    if prod(shape) <= most:
        yield (...,), ...
        return
    strides = backend.strides(x)
    order = list(range(x.ndim))
    if strides is not None:
        order.sort(key=lambda a: -strides[a])
    lengths = blocks.block_lengths(shape, order, most)
    order.sort(key=lambda a: table.shape[a] == 1)
    for parts in product(*(blocks.cuts(shape[a], lengths[a]) for a in order)):
        part_of = dict(zip(order, parts, strict=True))
        block = tuple(part_of[a] for a in range(len(shape)))
        ones = [n == 1 for n in table.shape]
        yield block, tuple(slice(0, 1) if o else b for o, b in zip(ones, block, strict=True))


def _rotate_chunks(
    x: Array, cos: Array, sin: Array, axis: int, layout: str, backend: Backend
) -> Array:
    """Rotate each chunk in one task; the features become one chunk."""
    chunks = backend.chunks(x)
    others = {a: lengths for a, lengths in enumerate(chunks) if a != axis and cos.shape[a] != 1}
    if not all(checks.is_static(n) for lengths in others.values() for n in lengths):
        return _rotate_traced(x, cos, sin, axis, layout, backend)
    x = backend.rechunk(x, {axis: (x.shape[axis],)})
    others[axis] = (cos.shape[axis],)
    tables = [backend.rechunk(table, others) for table in (cos, sin)]
    rotate_chunk = partial(_rotate_chunk, axis=axis, layout=layout)
    options = {"chunks": backend.chunks(x), "dtype": x.dtype, "name": "rotate"}
    return backend.map_chunks(rotate_chunk, x, *tables, **options)


def _rotate_chunk(x: Array, cos: Array, sin: Array, *, axis: int, layout: str) -> Array:
    """Rotate a chunk, an array of NumPy or CuPy, by tables that may be of NumPy."""
    backend = get_backend(x=x)
    with backend.compute_context(x):
        as_x = {"dtype": backend.dtype, "device": backend.device}
        cos, sin = (backend.xp.asarray(table, **as_x) for table in (cos, sin))
    options = RotaryOptions(layout, 2 * cos.shape[axis], axis)
    kernel = choose_kernel(x, axis, options, backend, cos, sin)
    return rotate(x, cos, sin, RotationPlan(backend, axis, layout, kernel))


def _rotate_traced(
    x: Array, cos: Array, sin: Array, axis: int, layout: str, backend: Backend
) -> Array:
    """Rotate everything in one expression, which JAX and dask fuse."""
    xp, pairs = backend.xp, cos.shape[axis]
    is_complex = dtypes.is_complex(x.dtype)
    rotated, rest = layouts.cut_along(x, axis, pairs if is_complex else 2 * pairs)
    if is_complex:
        rotated = rotated * _phasors(cos, sin, x.dtype, xp)
    else:
        wide = backend.astype(rotated, cos.dtype)
        first, second = split_pairs(wide, axis, layout, pairs)
        both = first * cos - second * sin, second * cos + first * sin
        rotated = backend.astype(join_pairs(*both, axis, layout, xp), x.dtype)
    return rotated if rest is None else xp.concat([rotated, rest], axis=axis)
