"""The axes of queries, keys and values, and of their scores."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod, sqrt
from typing import Any, NamedTuple

from positional_embeddings.arguments import axes, checks
from positional_embeddings.arrays.backend import Backend
from positional_embeddings.arrays.dtypes import dtype_name
from positional_embeddings.arrays.errors import plural, wrong_type, wrong_value
from positional_embeddings.arrays.namespace import Array, Dtype, Namespace, Shape
from positional_embeddings.masks.index_ranges import IndexRanges, full_range

# Arguments that have an axis of heads. Other arguments have an axis of sequences.
_HEAD_ARGUMENTS = "bias", "sinks"


class QKVLayout(NamedTuple):
    """The axes of queries, keys and values, and of their scores."""

    shape: tuple[Any, ...]  # of the queries, its further axes broadcast against the keys
    queries: IndexRanges  # all queries
    keys: IndexRanges
    feature: int
    seq: int
    batch_axes: tuple[int, ...]  # all other axes; the split axis is last
    # Lengths of the split last batch axis: key heads and query heads per key head, heads and
    # sequences, or all three.
    split: tuple[int, ...] | None
    has_canonical_axes: bool  # whether the axes are (..., sequence, feature) before any split
    scores_per_key: Any  # NaN if a lazy library does not know a length
    default_scale: float
    key_heads: int | None  # number of key heads, if several query heads share each
    merges_heads_and_batch: bool = False  # whether the split axis includes sequences
    batch_slices: tuple[slice, ...] = ()  # of the axes before queries and keys, for a part

    @property
    def score_axes(self) -> tuple[int, int]:
        """Return the axes of queries and keys in the scores."""
        return min(self.feature, self.seq), max(self.feature, self.seq)

    def to_batched(self, array: Array, backend: Backend) -> Array:
        """Return queries, keys or values as (..., sequence, feature)."""
        if self.has_canonical_axes and self.split is None:
            return backend.without_empty_chunks(array) if backend.is_chunked else array
        return self._move_and_split(array, (self.seq, self.feature), backend)

    def from_batched(
        self, batched: Array, dtype: Dtype, backend: Backend, last: tuple[int, int] | None = None
    ) -> Array:
        """Return an output, (..., query, feature), with the axes of the queries, in a dtype.

        `last` gives the axes of the last two dimensions. It is needed for weights.
        """
        if self.split is not None:
            lengths = [self.shape[axis] for axis in self.batch_axes]
            batched = backend.reshape(batched, (*lengths, *batched.shape[-2:]))
        if not self.has_canonical_axes:
            order = (*self.batch_axes, *(last or (self.seq, self.feature)))
            batched = backend.xp.permute_dims(batched, tuple(map(order.index, range(len(order)))))
        return backend.astype(batched, dtype)

    def lse(self, batched: Array, backend: Backend) -> Array:
        """Return one number per query, (..., query, 1), on the axes of `q` except features."""
        lse = self.from_batched(batched, backend.dtype, backend)
        return lse[(*(slice(None),) * self.feature, 0, ...)]

    def _move_and_split(self, array: Array, last: tuple[int, int], backend: Backend) -> Array:
        """Move two axes last, and split the axis before them."""
        array = backend.without_empty_chunks(array)
        if not self.has_canonical_axes:
            array = backend.xp.permute_dims(array, (*self.batch_axes, *last))
        if self.split is None:
            return array
        *lengths_after, count, n, m = array.shape
        axis, split = len(lengths_after), self._split_of(count)
        if backend.is_chunked and count > 0:
            inner = prod(split[1:])
            if any(k % inner for k in backend.chunks(array)[axis]):
                array = backend.rechunk(array, {axis: (count,)})  # chunks then end between parts
        return backend.reshape(array, (*lengths_after, *split, n, m))

    def _split_of(self, count: int) -> tuple[int, ...]:
        """Return the lengths that an axis of length `count` is split into."""
        heads, *lengths_after = self.split or (count,)
        if count == heads * prod(lengths_after):
            return (heads, *lengths_after)
        return (1,) * (1 + len(lengths_after)) if count == 1 else (heads, 1, *lengths_after[1:])

    def align(self, name: str, array: Array, q_len: int, k_len: int, backend: Backend) -> Array:
        """Check the shape of a mask or a bias, and return it with axes (..., query, key)."""
        if array.ndim < 2:
            # One axis could be the queries or the keys.
            raise wrong_value(name, "have axes of queries and keys", f"shape {tuple(array.shape)}")
        score_axes, shape = self.score_axes, list(self.shape)
        shape[score_axes[0]], shape[score_axes[1]] = q_len, k_len
        meaning = f"queries on axis {score_axes[0]}, keys on axis {score_axes[1]}"
        hint = _axes_hint(name, tuple(array.shape), len(shape), score_axes, q_len, k_len)
        array = axes.align_axes(name, array, score_axes, tuple(shape), meaning, hint)
        array = self._move_and_split(array, score_axes, backend)
        return slice_broadcast(array, self.batch_slices) if self.batch_slices else array

    def align_mask_or_bias(self, name: str, array: Array, backend: Backend) -> Array:
        """Reshape a mask or a bias of (query, key, batch or heads) to (..., query, key).

        A `Bias` at positions of several sequences returns (query, key, batch, heads).
        """
        if tuple(array.shape[2:]) in ((1,), (1, 1)):
            count = len(self.batch_axes) + len(self.split or (0,)) - 1
            return array[(*(None,) * count, ..., *(0,) * (array.ndim - 2))]
        if array.ndim == 3:
            array = array[..., None] if name == "mask" else array[:, :, None, :]
        batch, heads = array.shape[2:]
        batch_name = "mask" if name == "mask" else "positions"
        sizes = [pair for pair in ((batch_name, batch), (name, heads)) if pair[1] != 1]
        batch_axes = [self.check_size(*pair) for pair in sizes]
        if self.merges_heads_and_batch:
            *head_counts, _ = self.split or ()
            array = backend.xp.permute_dims(array, (3, 2, 0, 1))
            split = (1,) * len(head_counts) if heads == 1 else head_counts
            array = backend.reshape(array, (*split, *array.shape[1:]))
        else:
            index = [0 if n == 1 else slice(None) for n in (batch, heads)]
            array = array[(slice(None), slice(None), *index)]
            array_axes = (*self.score_axes, *batch_axes)
            array = axes.expand_to_axes(array, array_axes, len(self.shape), backend.xp)
            array = self._move_and_split(array, self.score_axes, backend)
        return slice_broadcast(array, self.batch_slices) if self.batch_slices else array

    def split_merged_axis(self, sizes: dict[str, int], sequences: int | None) -> "QKVLayout":
        """Check numbers of sequences and heads, and split a merged axis of both.

        `sizes` has the numbers other than 1, by argument name. `sequences` is the batch size of
        a step.
        """
        layout = self
        if len(self.batch_axes) == 1:
            (axis,) = self.batch_axes
            n = self.shape[axis]
            if self.score_axes == (0, 1):
                split: tuple[int, ...] = _split_lengths(sizes, n, axis)
                if self.key_heads is not None:
                    batch = split[1] if sizes else sequences
                    split = _grouped_split_lengths(self.key_heads, n, batch, axis)
                layout = self._replace(split=split, merges_heads_and_batch=True)
            elif len(sizes) > 1 or self.key_heads is not None:
                for name in [name for name in sizes if name not in _HEAD_ARGUMENTS]:
                    requirement = "not be for several sequences"
                    requirement += ", where `q` has one axis for sequences or heads"
                    raise wrong_value(name, requirement, sizes[name])
        for name, size in sizes.items():
            layout.check_size(name, size)
        return layout

    def check_size(self, name: str, size: int) -> int:
        """Check the number of sequences or heads of an argument; return their axis."""
        requirement = "heads" if name in _HEAD_ARGUMENTS else "sequences"
        if not self.batch_axes:
            why = f"since `q` of {len(self.shape)} axes has none for more"
            raise wrong_value(name, f"be for one {requirement.rstrip('s')}, {why}", size)
        find = axes.head_axis if requirement == "heads" else axes.batch_axis
        axis: Any = find(len(self.shape), self.feature, self.seq)
        n = self.shape[axis]
        if self.merges_heads_and_batch and self.split is not None:
            *head_counts, batch = self.split
            n = batch if requirement == "sequences" else prod(head_counts)
            requirement += " in heads * batch"
        if checks.lengths_differ(size, n):
            raise wrong_value(name, f"be for {n} {requirement}, as axis {axis} of `q` has", size)
        return int(axis)


def _axes_hint(
    name: str, shape: Shape, ndim: int, score_axes: tuple[int, int], q_len: int, k_len: int
) -> str:
    """Return the remedy for a mask or a bias with axes in an order for other scores, else ""."""
    is_mask, is_canonical = name == "mask", score_axes == (ndim - 2, ndim - 1)
    if is_mask and len(shape) == 2 and shape[1] == k_len:
        return " Pass PaddingMask.from_attention_mask(...), of 1 at tokens."
    if len(shape) == 3 and score_axes != (0, 1) and shape[:2] in ((q_len, k_len), (1, k_len)):
        if not is_mask:
            return " Pass a bias (query, key, heads) as an object, such as ALiBiBias(num_heads)."
        array = {3: ", or as ~to_attend(mask, n)[:, 0]", 4: ", or as ~to_attend(mask, n)"}
        remedy = "as a `Mask` object, such as CausalMask()" + array.get(ndim, "") * is_canonical
        return f" Pass a mask (query, key, batch) {remedy}."
    if (len(shape), ndim, is_canonical) == (3, 4, True) and shape[1:] == (q_len, k_len):
        return f" Pass {name}[None] of (heads, query, key), {name}[:, None] of (batch, query, key)."
    if (len(shape), score_axes) == (ndim, (1, 3)) and shape[2:] == (q_len, k_len):
        return f" Swap axes 1 and 2 of a {name} (batch, heads, query, key)."
    return ""


def slice_broadcast(array: Array, slices: Sequence[slice]) -> Array:
    """Slice the first axes of an array, or None. Axes of length 1 are not sliced."""
    if array is None:
        return None
    index = (slice(None) if n == 1 else part for n, part in zip(array.shape, slices, strict=False))
    return array[(*index, ...)]


def layout_of(
    q: Array, k: Array, v: Array, q_axes: tuple[int, int], backend: Backend, *, is_grouped: bool
) -> QKVLayout:
    """Check dtypes and shapes of q, k and perhaps v, and return their layout.

    `q_axes` are the axes of features and sequence. If `is_grouped`, query heads may share a key
    head.
    """
    arrays = (q, k) if v is None else (q, k, v)
    shapes = tuple([tuple(array.shape) for array in arrays])
    types = tuple([array.dtype for array in arrays])
    if backend.is_numpy:
        return _numpy_layout(shapes, types, *q_axes, is_grouped, backend.xp)
    axes.length(q, q_axes[0], "q")
    return _layout(shapes, types, *q_axes, is_grouped, backend.xp)


def _layout(
    shapes: tuple[tuple[Any, ...], ...],
    types: tuple[Dtype, ...],
    feature: int,
    seq: int,
    is_grouped: bool,  # noqa: FBT001 - a part of the key of the cache
    xp: Namespace,
) -> QKVLayout:
    """Check dtypes and shapes of q, k and perhaps v, and return their layout."""
    q_shape, k_shape, *_ = shapes
    ndim = len(q_shape)
    batch_axes = tuple([axis for axis in range(ndim) if axis not in (feature, seq)])
    _check_dtypes(types, xp)
    _check_shapes(shapes, feature, (*batch_axes, seq))
    heads = axes.head_axis(ndim, feature, seq)
    shape, key_heads = list(q_shape), None
    for axis in batch_axes:
        n, m = q_shape[axis], k_shape[axis]
        if not checks.lengths_differ(n, m):
            continue
        if 1 in (n, m):
            shape[axis] = n * m
        elif is_grouped and axis == heads and m > 0 and n % m == 0:
            key_heads = m
        else:
            required = f"have length {n} or 1 on axis {axis} as `q` has"
            if axis == heads:
                required += ", or a divisor of it" + " with enable_gqa=True" * (not is_grouped)
            elif is_grouped:
                required += f": heads alone are grouped, on axis {heads}"
            raise wrong_value("k", required, f"shape {k_shape}")
    split = None
    is_one_axis = len(batch_axes) == 1 and feature + seq == 1  # of heads, or of heads * batch
    if heads is not None and key_heads is not None and not is_one_axis:
        batch_axes = (*(axis for axis in batch_axes if axis != heads), heads)
        split = key_heads, shape[heads] // key_heads
    lengths = [n for axis, n in enumerate(shape) if axis != feature]
    return QKVLayout(
        shape=tuple(shape),
        queries=full_range(q_shape[seq]),
        keys=full_range(k_shape[seq]),
        feature=feature,
        seq=seq,
        batch_axes=batch_axes,
        split=split,
        has_canonical_axes=(seq, feature) == (ndim - 2, ndim - 1),
        scores_per_key=float("nan") if None in lengths else prod(lengths),
        default_scale=1 / sqrt(max(q_shape[feature], 1)),
        key_heads=key_heads,
    )


# Checks take as long as the attention of a token. Lengths of other libraries may not be hashable.
_numpy_layout = lru_cache(maxsize=256)(_layout)


def _check_dtypes(types: tuple[Dtype, ...], xp: Namespace) -> None:
    """Check that each dtype is real floating-point and equals the dtype of `q`."""
    for name, dtype in zip("qkv", types, strict=False):
        checks.real_floating_dtype(name, dtype, xp)
    for name, dtype in zip("qkv", map(dtype_name, types), strict=False):
        if dtype != dtype_name(types[0]):
            raise wrong_type(name, f"have the dtype of `q`, {dtype_name(types[0])}", dtype)


def _check_shapes(
    shapes: tuple[tuple[Any, ...], ...], feature: int, other_axes: tuple[int, ...]
) -> None:
    """Check the features of keys, and the axes of values except the features."""
    q_shape, k_shape, *v_shape = shapes
    if checks.lengths_differ(k_shape[feature], q_shape[feature]):
        required = f"have the features of `q`, {q_shape[feature]} on axis {feature}"
        hint = axes.hint_for_last_axis(feature, k_shape[-1] == q_shape[-1])
        raise wrong_value("k", required, f"shape {k_shape}", hint)
    for shape in v_shape:
        if any(checks.lengths_differ(shape[axis], k_shape[axis]) for axis in other_axes):
            required = f"have the shape of `k` but for its features on axis {feature}"
            hint = axes.hint_for_last_axis(feature, shape[:-1] == k_shape[:-1])
            raise wrong_value("v", required, f"{shape} with {k_shape}", hint)


def check_axis_counts(arrays: dict[str, Array]) -> None:
    """Check that all arrays have the number of axes of `q`."""
    count = arrays["q"].ndim
    for name, array in arrays.items():
        if array.ndim != count:
            actual = f"shape {tuple(array.shape)}"
            raise wrong_value(name, f"have as many axes as `q`, {count}", actual)


def _split_lengths(sizes: dict[str, int], n: int, axis: int) -> tuple[int, int]:
    """Return the lengths of a split axis of ``heads * batch``."""
    for name, size in sizes.items():
        if size * (n // max(1, size)) != n:
            plural_name = "heads" if name in _HEAD_ARGUMENTS else "sequences"
            requirement = f"be for a number of {plural_name} that divides axis {axis} of `q`, {n}"
            raise wrong_value(name, f"{requirement} (heads * batch)", size)
    heads = next((sizes[name] for name in _HEAD_ARGUMENTS if name in sizes), None)
    sequences = next((size for name, size in sizes.items() if name not in _HEAD_ARGUMENTS), None)
    heads = n // max(1, sequences or 1) if heads is None else heads
    if sequences is not None and heads * sequences == n:
        return heads, sequences
    return heads, n // max(1, heads)


def _grouped_split_lengths(
    key_length: int, n: int, batch: int | None, axis: int
) -> tuple[int, int, int]:
    """Return the lengths of a split axis of ``heads * batch`` with shared heads."""
    actual = f"{n} and {key_length} on axis {axis}"
    if batch is None:
        requirement = "be False for an axis of heads * batch, whose heads are not known"
        hint = " Give heads and batch an axis each, such as (head, seq, heads, batch)."
        raise wrong_value("enable_gqa", requirement, actual, hint)
    batch = max(1, batch)
    heads = n // batch
    if n % batch or key_length % batch or heads % (key_length // batch):
        each = plural(batch, "sequence")
        requirement = f"have a divisor of the {heads} heads of `q` for each of {each}"
        raise wrong_value("k", requirement, actual)
    return key_length // batch, n // key_length, batch
