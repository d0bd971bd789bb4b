"""Where features, sequence and batch are in an array, and what tables need to know of it.

Axes are given by number and never guessed from a length.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

from positional_embeddings.arguments import checks
from positional_embeddings.arrays import namespace
from positional_embeddings.arrays.errors import shown, wrong_value
from positional_embeddings.arrays.library import library_of
from positional_embeddings.arrays.namespace import Namespace, np


def axis_of(name: str, axis: SupportsIndex, ndim: int, array: str = "x") -> int:
    """Return an axis counted from 0, of an array with `ndim` of them."""
    number = checks.integer(name, axis)
    if not -ndim <= number < ndim:
        message = (
            f"`{name}` must be an axis of the {ndim}-dimensional `{array}` "
            f"({-ndim} to {ndim - 1}), got {shown(number)}."
            if ndim
            else f"`{array}` must have at least one axis, got a 0-dimensional array."
        )
        raise ValueError(message)
    return number % ndim


def feature_and_seq_axis(
    feature_axis: int, seq_axis: int, array: Any, name: str = "x"
) -> tuple[int, int]:
    """Return both axes counted from 0."""
    if array.ndim < 2:
        what = "have at least 2 axes, one of features and one of the sequence"
        raise wrong_value(name, what, f"shape {tuple(array.shape)}")
    if not type(feature_axis) is type(seq_axis) is int:
        feature_axis = checks.integer("feature_axis", feature_axis)
        seq_axis = checks.integer("seq_axis", seq_axis)
    return _counted_from_0(feature_axis, seq_axis, array.ndim, name)


@lru_cache(maxsize=256)
def _counted_from_0(feature_axis: int, seq_axis: int, ndim: int, name: str) -> tuple[int, int]:
    feature = axis_of("feature_axis", feature_axis, ndim, name)
    seq = axis_of("seq_axis", seq_axis, ndim, name)
    if feature == seq:
        message = (
            f"`feature_axis` and `seq_axis` must be two axes, got {feature_axis} and {seq_axis} "
            f"for the {ndim}-dimensional `{name}`."
        )
        raise ValueError(message)
    return feature, seq


def distinct_axes(feature_axis: SupportsIndex, seq_axis: SupportsIndex) -> tuple[int, int]:
    """Return both axes as ints, before there is an array to count them on."""
    feature = checks.integer("feature_axis", feature_axis)
    seq = checks.integer("seq_axis", seq_axis)
    if feature == seq:
        message = f"`feature_axis` and `seq_axis` must be two axes, got {feature} for both."
        raise ValueError(message)
    return feature, seq


def features(array: Any, size: int, size_name: str, feature: int, name: str = "x") -> None:
    """Check the length of the feature axis."""
    shape = tuple(array.shape)
    if shape[feature] != size:
        what = f"have {size} features (`{size_name}`) on axis {feature}"
        raise wrong_value(name, what, f"shape {shape}")


def length(array: Any, axis: int, name: str = "x") -> int:
    """Return the length of an axis, which a lazy library may not know."""
    size: int = array.shape[axis]
    if not checks.is_known(size):
        what = f"have a known length on axis {axis}"
        raise wrong_value(name, what, f"shape {tuple(array.shape)}")
    return size


def position_axes(
    positions: Any, x: Any, feature: int, seq: int, xp: Namespace, name: str = "positions"
) -> tuple[int, ...]:
    """Check positions against the array that they place, and return their axes in it."""
    checks.real(name, positions, xp)
    shape = tuple(positions.shape)
    others = tuple(axis for axis in range(len(x.shape)) if axis != feature)
    axes = (seq,) if len(shape) == 1 else others
    lengths = [x.shape[axis] for axis in axes]
    too_few = shape == (1,) and lengths != [1]
    if too_few or len(shape) != len(axes) or not all(map(checks.broadcasts_to, shape, lengths)):
        rest = tuple(x.shape[axis] for axis in others)
        or_rest = f" or {rest}, with 1 where it broadcasts" if len(rest) > 1 else ""
        raise wrong_value(name, f"have shape ({x.shape[seq]},){or_rest}", shape)
    return axes


def expand_to_axes(table: Any, axes: Sequence[int], ndim: int, xp: Namespace) -> Any:
    """Move axis i of a table to `axes[i]` of `ndim` axes, with length 1 on all others."""
    order, index = _placement(tuple(axes), ndim)
    if order == (1, 0):
        table = table.T
    elif order is not None:
        table = xp.permute_dims(table, order)
    return table[index]


@lru_cache(maxsize=256)
def _placement(
    axes: tuple[int, ...], ndim: int
) -> tuple[tuple[int, ...] | None, tuple[slice | None, ...]]:
    """Return the order of a table's axes, None if they are in order, and the index after it."""
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    index = tuple(slice(None) if axis in axes else None for axis in range(ndim))
    return None if order == tuple(sorted(order)) else order, index


Order: TypeAlias = Literal["C", "F"]


class Target(NamedTuple):
    """What tables have to know of the array that they are applied to."""

    xp: Namespace
    device: Any
    dtype: Any  # to compute in
    integer: Any  # dtype of positions
    shape: tuple[Any, ...]
    feature: int
    seq: int
    is_compiling: bool
    name: str
    precision: str  # of tables of NumPy
    # Of tables (frequency, *position) in memory: "F" if features have a smaller stride than seq.
    order: Order
    # Library, device and stream that tables are kept for, if these are not NumPy's.
    keeper: tuple[Any, ...] = ()
    # Lengths of the chunks of the sequence, None if the array is not computed chunk by chunk.
    seq_chunks: tuple[int, ...] | None = None

    def from_host(self, tables: Iterable[Any], *, copy: bool | None = None) -> tuple[Any, ...]:
        """Return NumPy tables in the target's library."""
        options = {"dtype": self.dtype, "device": self.device, "copy": copy}
        return tuple(self.xp.asarray(table, **options) for table in tables)

    def expand(self, tables: Sequence[Any], position_axes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return tables with axes that broadcast against the target, in its library.

        They are (frequency, *position), of NumPy or of the library.
        """
        own, ndim = (self.feature, *position_axes), len(self.shape)
        is_foreign = self.xp is not np and namespace.is_host_array(tables[0])
        xp = np if is_foreign else self.xp
        expanded = tuple([expand_to_axes(table, own, ndim, xp) for table in tables])
        return self.from_host(expanded) if is_foreign else expanded


def target_of(x: Any, feature: int, seq: int, xp: Namespace, name: str = "x") -> Target:
    """Return what tables have to know of `x`, whose axes have been checked."""
    if xp is np:
        return _host_target(x.dtype, x.shape, x.strides, feature, seq, name)
    on, dtype = namespace.device_of(x), namespace.compute_dtype(x.dtype, xp)
    # CuPy copies tables without waiting, in the order of its current stream: another stream
    # gets tables of its own. CuPy's devices have no hash.
    is_kept = library_of(x).keeps_tables
    keeper = library_of(x).table_key if is_kept else ()
    return Target(
        xp,
        on,
        dtype,
        namespace.default_integer(xp, on),
        tuple(x.shape),
        feature,
        seq,
        library_of(x).is_compiling,
        name,
        "float32" if dtype == xp.float32 else "float64",
        _order(library_of(x).strides(x), feature, seq),
        keeper,
        library_of(x).chunks(x)[seq] if library_of(x).is_chunked else None,
    )


def _order(strides: tuple[int, ...] | None, feature: int, seq: int) -> Order:
    inner = feature > seq if strides is None else strides[feature] < strides[seq]
    return "F" if inner else "C"


@lru_cache(maxsize=256)
def _host_target(
    dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], feature: int, seq: int, name: str
) -> Target:
    """Return the target of a NumPy array: it takes a third of a step of one token otherwise."""
    order = _order(tuple(map(abs, strides)), feature, seq)
    compute = namespace.compute_dtype(dtype, np)
    integer = namespace.default_integer(np, "cpu")
    precision = "float32" if compute == np.float32 else "float64"
    where = shape, feature, seq
    return Target(np, "cpu", compute, integer, *where, False, name, precision, order)  # noqa: FBT003


def positions_from(offset: int, count: int, target: Target) -> Any:
    """Return the positions of a sequence that begins at `offset`."""
    stop = offset + count
    options = {"dtype": target.integer, "device": target.device}
    if target.seq_chunks is not None:
        options["chunks"] = (target.seq_chunks,)
    return target.xp.arange(offset, stop, **options)


def repeated_position(number: float, shape: tuple[int, ...], target: Target) -> Any:
    """Return an array of one position, an integer or a real one."""
    dtype_of = namespace.default_integer if isinstance(number, int) else namespace.widest_float
    dtype = dtype_of(target.xp, target.device)
    return target.xp.full(shape, number, dtype=dtype, device=target.device)


def align_axes(
    name: str, array: Any, own: Sequence[int], target: tuple[Any, ...], meaning: str
) -> Any:
    """Give an array the axes of `target` that it lacks, with length 1.

    It has its `own` axes, as they are counted in `target`, or all of the axes of `target`:
    one further axis alone would leave open which one it is. Next to own axes that are the
    first or the last ones there may be axes of length 1.
    """
    given, extra = tuple(array.shape), array.ndim - len(own)
    if array.ndim != len(target) and extra > 0:
        if list(own) == list(range(len(own))) and set(given[len(own) :]) <= {1}:
            array = array[(..., *(0,) * extra)]
        elif list(own) == list(range(len(target)))[-len(own) :] and set(given[:extra]) <= {1}:
            array = array[(*(0,) * extra, ...)]
    if array.ndim == len(own):
        array = array[tuple(slice(None) if a in own else None for a in range(len(target)))]
    checks.broadcasts(name, tuple(array.shape), target, meaning, given)
    return array
